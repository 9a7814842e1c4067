//! Options of `watch`.

use std::path::PathBuf;

use clap::Args;

use crate::args::Telling;

/// End of the help: examples.
pub const EXAMPLES: &str = "Examples:
  plimsoll watch /var/log/nginx/access.log --goal p99=200ms --goal errors=0.1%
  plimsoll watch /var/log/apache2/               a directory of rotated logs of one server, also compressed
  plimsoll watch access.log gc.log               each log is a trial, on one time axis
  zcat old/*.gz | plimsoll watch - --name shop
  plimsoll watch access.log --log-unit us        Apache's %D, a whole number in microseconds
  plimsoll watch access.log --follow --live      response times, errors and a heat map in the terminal
  plimsoll watch access.log --follow --pid $(pgrep -o nginx) --for 10m
  plimsoll watch --cgroup system.slice/postgresql.service --for 60s
  plimsoll watch --on postgres://me@db1/shop --for 10m          the server's own counters and lock waits
  plimsoll watch postgresql.csv --log-format postgres

Formats of logs: access (common and combined format of Apache, nginx and Varnish, with a response time behind it),
haproxy (option httplog), ldap (389 Directory Server; slapd with the level stats), gc (a Java virtual machine, from
version 8 on), postgres and mariadb (durations of statements). Without --log-format the first lines decide.

Exit codes: 0 all goals held, or there was none; 1 a goal missed or not measured; 2 no log of a known format; 3 a server
that cannot be reached.";

/// Options of `watch`.
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// Logs: files, directories with the files of one log, or `-` for standard input.
    #[arg(value_name = "LOG")]
    pub logs: Vec<PathBuf>,
    /// Follow the log from its end on, also through rotation and into new files of a directory, until Ctrl-C or for the
    /// time of --for. Implied by --pid, --cgroup and --on.
    #[arg(long, short = 'F', requires = "logs")]
    pub follow: bool,
    /// Watch the machine and this process, with its descendants, until it ends; may be repeated.
    #[arg(long, value_name = "PID")]
    pub pid: Vec<u32>,
    /// Watch the machine and the processes of a control group: a directory, or a path below /sys/fs/cgroup.
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<PathBuf>,
    /// Watch the counters of a running server: a URL. Nothing is changed there.
    #[arg(long, value_name = "URL")]
    pub on: Option<String>,
    /// File whose first line is the password for --on.
    #[arg(long, value_name = "FILE", requires = "on")]
    pub password_file: Option<PathBuf>,
    /// Samplers to read while watching live, by name; `default` for all that do not affect the load.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub samplers: Vec<String>,
    /// Duration of watching live [default: until Ctrl-C].
    #[arg(long = "for", value_name = "TIME", allow_hyphen_values = true)]
    pub duration: Option<String>,
    /// Format of the logs [default: by their first lines].
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<String>,
    /// Unit of response times in access logs [default: seconds with a decimal point; whole numbers are no times].
    #[arg(long, value_name = "UNIT", value_parser = ["s", "ms", "us"])]
    pub log_unit: Option<String>,
    /// Word behind the size of the answer that is the response time in access logs, from 1 [default: by the first lines].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub log_field: Option<u16>,
    /// Zone of times without one, as distance from UTC: +01:00 [default: UTC].
    #[arg(long, value_name = "ZONE", allow_hyphen_values = true)]
    pub log_zone: Option<String>,
    /// Name in reports [default: that of the file, the process or the group].
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Goal: p99=20ms, GET.p99.9=1s, mean=5ms, errors=0.1%, status.5xx=0.1%, rate=100/s; may be repeated.
    #[arg(long, value_name = "NAME=LIMIT")]
    pub goal: Vec<String>,
    /// Progress, output, tag and, while something is watched live, displays.
    #[command(flatten)]
    pub telling: Telling,
}
