//! Recordings, written and read as a run does it.

#![allow(clippy::unwrap_used, reason = "a panic is how a test says no")]

mod book;
mod damage;
mod faults;
mod full_disk;
mod kill;
mod read_only;
mod resume;
mod round_trip;
mod runs;
mod synthetic;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// The program `examples/recording.rs`, which cargo builds with the tests.
fn example() -> PathBuf {
    let this = std::env::current_exe().expect("a path of this program");
    let profile = this.parent().and_then(Path::parent).expect("target/<profile>/deps");
    let example = profile.join("examples/recording");
    assert!(example.is_file(), "{} is not built: run `cargo test -p plimsoll-record`", example.display());
    example
}

/// The example as it writes a recording in a directory and says what it has committed, line by line.
fn writer(directory: &Path) -> (Child, impl Iterator<Item = String>) {
    let mut command = Command::new(example());
    command.arg("write").arg(directory).args(["1000000", "1"]).stdout(Stdio::piped());
    let mut child = command.spawn().expect("the example starts");
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| line.expect("text"));
    (child, lines)
}

/// Runs `script` with `sh`, with mounts of its own that end with it. `$0` is a fresh directory's path and `$1`
/// the example's.
fn with_own_mounts(script: &str, directory: &Path) -> Output {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private"]);
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    let output = command.args(["sh", "-euc", script]).arg(directory).arg(example()).output();
    let output = output.unwrap_or_else(|error| panic!("unshare: {error}: apt-get install util-linux"));
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(
        !words.contains("unshare:") && !words.contains("mount:"),
        "this test needs a mount of its own: run it as root or where unprivileged user namespaces are permitted \
         (sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0): {words}"
    );
    output
}
