//! Options of `doctor`.

use clap::Args;

/// End of the help: examples.
pub const EXAMPLES: &str = "Examples:
  plimsoll doctor
  plimsoll doctor --calibrate              measures the generator's ceiling and this machine's noise floor
  plimsoll doctor --honesty postgres       stops a private server for a second: is the pause fully visible?
  plimsoll doctor --for galera --install   installs what a cluster lacks here
  plimsoll doctor --for clusters           what a study or plan file lacks here
  plimsoll doctor --holds 5432             which process listens there";

/// Options of `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Measure the generator's ceiling and this machine's noise floor, and keep them for later runs.
    #[arg(long)]
    pub calibrate: bool,
    /// Stop a private server for a second under load, and compare measured with expected response times.
    #[arg(long, value_name = "STORE")]
    pub honesty: Option<String>,
    /// Show what a store, cluster, study or plan file lacks on this machine: galera, postgres, coupons; `all` for every
    /// store and cluster.
    #[arg(long = "for", value_name = "STORE|STUDY|FILE")]
    pub store: Option<String>,
    /// Install the packages that are missing, by apt-get.
    #[arg(long, requires = "store")]
    pub install: bool,
    /// Print a line of JSON for each store that lacks something: for, missing, packages, next.
    #[arg(long, requires = "store")]
    pub json: bool,
    /// Name the process that holds a port, a device or a directory: 5432, /dev/sdb, /var/lib/mysql.
    #[arg(long, value_name = "PORT or PATH", conflicts_with_all = ["calibrate", "honesty", "store"])]
    pub holds: Option<String>,
}
