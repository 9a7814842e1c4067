//! A place of its own for each test, and the program run in it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A state directory and a directory for plans.
pub struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        // Named after us, so that the next `cargo xtask test` removes it where we are killed.
        let prefix = format!("cli-test-{}-", std::process::id());
        Self { dir: tempfile::Builder::new().prefix(&prefix).tempdir().unwrap() }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn runs(&self) -> PathBuf {
        self.dir.path().join("plimsoll/runs")
    }

    /// Writes a plan file and returns its path.
    pub fn plan(&self, text: &str) -> String {
        let path = self.dir.path().join("plan.toml");
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// The program, not started yet.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.program(env!("CARGO_BIN_EXE_plimsoll"));
        command.args(args);
        command
    }

    /// Makes the command of another program, not started yet, with this program's environment.
    pub fn program(&self, name: &str) -> Command {
        let mut command = Command::new(name);
        command
            .env("XDG_STATE_HOME", self.path())
            .env_remove("PGPASSWORD")
            .env_remove("PGHOST")
            .env_remove("PGPORT")
            .env_remove("PGUSER")
            .env_remove("PGDATABASE")
            .env_remove("PGSERVICE")
            .env("PGPASSFILE", "/nonexistent")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        Ran::of(&self.command(args).output().unwrap())
    }

    /// The directories of all runs.
    pub fn all_runs(&self) -> Vec<PathBuf> {
        let mut runs: Vec<_> = std::fs::read_dir(self.runs())
            .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
            .unwrap_or_default();
        runs.sort();
        runs
    }

    pub fn only_run(&self) -> PathBuf {
        let runs = self.all_runs();
        assert_eq!(runs.len(), 1, "{runs:?}");
        runs.into_iter().next().unwrap()
    }
}

/// Result of a run of the program.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ran {
    pub fn of(output: &Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.out, self.err);
        self
    }

    #[track_caller]
    pub fn says(self, words: &str) -> Self {
        assert!(
            self.out.contains(words) || self.err.contains(words),
            "no {words:?} in\nstdout:\n{}\nstderr:\n{}",
            self.out,
            self.err
        );
        self
    }
}

/// Waits until `done` or panics after `limit`.
#[track_caller]
pub fn wait_for(what: &str, limit: Duration, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < limit, "{what}: not within {limit:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A child that is killed when the test ends, however it ends.
pub struct Guarded(pub Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The coupon study in small: `stores` is a TOML list.
pub fn small_coupons(stores: &str, records: u32, seconds: u32) -> String {
    format!(
        r#"
title = "Coupons in small"
stores = {stores}
[workload]
name = "coupons"
records = {records}
index = ["none", "own", "keyindex"]
[[phase]]
do = "load"
batch = 500
durability = "at-end"
[[phase]]
do = "settle"
[[phase]]
name = "warm"
do = "ask"
op = "query"
count = 3
[[phase]]
do = "cold"
[[phase]]
name = "cold_query"
do = "ask"
op = "query"
count = 1
[[phase]]
name = "mixed"
do = "drive"
only = {{ index = ["own", "keyindex"] }}
clients = 8
for = "{seconds}s"
durability = "durable"
mix = {{ read = 70, update = 28, query = 2 }}
[[phase]]
do = "check"
[goals]
lost = 0
wrong = 0
[[figure]]
name = "indexed / plain insert"
unit = "×"
formula = "load.seconds[index=keyindex] / load.seconds[index=none]"
published = [{{ value = 1.91, of = "Riak, 1 node" }}]
"#
    )
}
