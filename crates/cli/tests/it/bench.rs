//! A place of its own for each test, and the program run in it.

use std::io::Read as _;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_core::Slice;
use plimsoll_record::Distribution;
use plimsoll_record::data::{Phase, PhaseKind, Run};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

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

    /// Runs a command line. A blank within a word is written as one that does not break.
    pub fn line(&self, words: &str) -> Ran {
        let words: Vec<String> = words.split(' ').map(|word| word.replace('\u{a0}', " ")).collect();
        self.run(&words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Runs a script by a shell, in which `$plimsoll` is the program, with other programs and their options `around` it.
    pub fn shell(&self, around: &str, script: &str) -> Ran {
        let words: Vec<&str> = around.split_whitespace().chain(["sh", "-c", script]).collect();
        let mut command = self.program(words[0]);
        command.args(&words[1..]).env("plimsoll", env!("CARGO_BIN_EXE_plimsoll"));
        Ran::of(&command.output().expect("a shell, or `unshare` of util-linux"))
    }

    /// Expects exit code 2 of each command line, and its message.
    #[track_caller]
    pub fn refuses(&self, cases: &[(&str, &str)]) {
        for (line, words) in cases {
            let ran = self.line(line);
            assert!(ran.code == Some(2) && ran.lacks(words).is_none(), "{line}: {words}: {ran:?}");
        }
    }

    /// Starts a command, and waits until its drive has had so many slices.
    #[track_caller]
    pub fn started(&self, args: &[&str], slices: usize) -> Guarded {
        self.begun(args, |run| {
            let drives = |phase: &Phase| phase.header.kind == PhaseKind::Drive && phase.slices.len() >= slices;
            let trial = Run::load(run).ok().and_then(|run| run.trials.into_iter().next());
            trial.is_some_and(|trial| trial.phases.iter().any(drives))
        })
    }

    /// Starts a command, and waits for its recording.
    #[track_caller]
    pub fn recording(&self, args: &[&str]) -> Guarded {
        self.begun(args, |run| run.join("run.sqlite").exists())
    }

    #[track_caller]
    fn begun(&self, args: &[&str], is_so: impl Fn(&Path) -> bool) -> Guarded {
        let before = self.all_runs().len();
        let mut child = Guarded(self.command(args).spawn().unwrap());
        let is_so = || self.all_runs().get(before).is_some_and(|run| is_so(run));
        let mut has_ended = false;
        wait_for("the run", Duration::from_secs(200), || {
            has_ended = child.0.try_wait().unwrap().is_some();
            has_ended || is_so()
        });
        if has_ended && !is_so() {
            panic!("{args:?} ended early: {:?}", child.ended());
        }
        child
    }

    /// Returns the report of the newest run.
    pub fn report(&self) -> Value {
        serde_json::from_str(&self.line("report latest --format json").expect(0).out).unwrap()
    }

    /// Returns the first drive of the newest run.
    pub fn driven(&self) -> Value {
        let report = self.report();
        let phases = report["trials"][0]["phases"].as_array().unwrap();
        phases.iter().find(|phase| phase["kind"] == "drive").unwrap().clone()
    }

    /// Returns the slices of the newest run's drives that are recorded so far.
    pub fn slices(&self) -> Vec<Slice<Distribution>> {
        let run = self.all_runs().pop().and_then(|run| Run::load(&run).ok());
        let phases = run.into_iter().flat_map(|run| run.trials).flat_map(|trial| trial.phases);
        phases.filter(|phase| phase.header.kind == PhaseKind::Drive).flat_map(|phase| phase.slices).collect()
    }

    /// The directories of all runs.
    pub fn all_runs(&self) -> Vec<PathBuf> {
        let mut runs: Vec<_> = std::fs::read_dir(self.runs())
            .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
            .unwrap_or_default();
        // Without a header it has no name yet.
        runs.retain(|run| !run.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.')));
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

    /// Expects `words`, which may be several pieces with ` … ` between them.
    #[track_caller]
    pub fn says(self, words: &str) -> Self {
        if let Some(missing) = self.lacks(words) {
            panic!("no {missing:?} in\nstdout:\n{}\nstderr:\n{}", self.out, self.err);
        }
        self
    }

    /// Returns the first piece of `words` that was not said, wherever its lines are broken.
    fn lacks<'a>(&self, words: &'a str) -> Option<&'a str> {
        let in_one_line = |text: &String| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let said = [&self.out, &self.err].map(|text| (text, in_one_line(text)));
        words.split(" … ").find(|piece| !said.iter().any(|(text, line)| text.contains(piece) || line.contains(piece)))
    }

    /// Returns the last line of the output, an object.
    pub fn last_json(&self) -> Value {
        serde_json::from_str(self.out.lines().last().unwrap()).unwrap()
    }
}

/// Returns a result of a phase, 0 if there is none of that name.
pub fn result(phase: &Value, name: &str) -> f64 {
    let all = phase["results"].as_array().unwrap();
    all.iter().find(|result| result["name"] == name).map_or(0.0, |result| result["value"].as_f64().unwrap())
}

/// Starts a server at a port of its own, which serves each connection by `serve` until the test ends.
pub fn listener(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = Arc::clone(&serve);
            std::thread::spawn(move || serve(stream));
        }
    });
    port
}

/// Waits until `done` or panics after `limit`. A question that takes long, such as one that loads a recording, is asked
/// less often, so that it does not keep a processor busy.
#[track_caller]
pub fn wait_for(what: &str, limit: Duration, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    loop {
        let asked = Instant::now();
        if done() {
            return;
        }
        assert!(started.elapsed() < limit, "{what}: not within {limit:?}");
        std::thread::sleep((4 * asked.elapsed()).clamp(Duration::from_millis(20), Duration::from_millis(100)));
    }
}

/// Measures up to three times, until a value is below `bound`. A busy machine may delay one of them, but not each.
#[track_caller]
pub fn once_below(bound: f64, measure: impl Fn() -> f64) {
    let mut seen = Vec::new();
    let is_below = (0..3).any(|_| {
        seen.push(measure());
        seen.last().is_some_and(|value| *value < bound)
    });
    assert!(is_below, "{seen:?}, and none below {bound}");
}

/// Returns mounts, loop devices and processes with `below` in their names or as their working directory.
pub fn left_below(below: &Path) -> Vec<String> {
    let name = below.to_str().unwrap();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mut left: Vec<String> = mounts.lines().filter(|line| line.contains(name)).map(str::to_owned).collect();
    for device in std::fs::read_dir("/sys/block").unwrap().flatten() {
        let file = std::fs::read_to_string(device.path().join("loop/backing_file")).unwrap_or_default();
        left.extend(file.contains(name).then_some(file));
    }
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let words = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).replace('\0', " ");
        let works_there = std::fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(below));
        left.extend((works_there || words.contains(name)).then_some(words));
    }
    left
}

/// The private servers of this `program` that `plimsoll` has running, in the order in which they were started.
pub fn servers(plimsoll: u32, program: &str) -> Vec<u32> {
    // Of a process: its parent, and when it started.
    let stat = |pid: u32| -> Option<(u32, u64)> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        Some((fields.get(1)?.parse().ok()?, fields.get(19)?.parse().ok()?))
    };
    let is_ours = |pid: u32| {
        std::iter::successors(Some(pid), |pid| stat(*pid).map(|(parent, _)| parent)).any(|pid| pid == plimsoll)
    };
    let all = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let command = std::fs::read(entry.path().join("cmdline")).ok()?;
        let name = command.split(|byte| matches!(byte, 0 | b' ')).next()?;
        if !name.ends_with(program.as_bytes()) {
            return None;
        }
        Some((stat(pid)?.1, pid)).filter(|_| is_ours(pid))
    });
    let mut all: Vec<(u64, u32)> = all.collect();
    all.sort_unstable();
    all.into_iter().map(|(_, pid)| pid).collect()
}

/// A child that is killed when the test ends, however it ends.
pub struct Guarded(pub Child);

impl Guarded {
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    /// Sends Ctrl-C twice. The second one comes when the first was received: two that wait at once are one.
    pub fn interrupt_twice(&self) {
        self.signal(Signal::INT);
        wait_for("the first signal", Duration::from_secs(200), || !self.has_interrupt_in("ShdPnd:"));
        self.signal(Signal::INT);
    }

    /// Waits until it has a handler of Ctrl-C: it installs one first of all.
    pub fn until_it_handles_signals(&self) {
        wait_for("a handler of signals", Duration::from_secs(200), || self.has_interrupt_in("SigCgt:"));
    }

    /// Returns true if Ctrl-C is in a set of signals of the process.
    fn has_interrupt_in(&self, set: &str) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap_or_default();
        let bits = status.lines().find_map(|line| line.strip_prefix(set));
        let bits = bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0);
        bits & (1 << (Signal::INT.as_raw() - 1)) != 0
    }

    /// Kills it by `kill -9`, and waits for its end.
    pub fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Waits for its end.
    pub fn ended(mut self) -> Ran {
        let mut stderr = self.0.stderr.take().unwrap();
        let said = std::thread::spawn(move || {
            let mut said = Vec::new();
            stderr.read_to_end(&mut said).map(|_| said).unwrap()
        });
        let mut stdout = Vec::new();
        self.0.stdout.take().unwrap().read_to_end(&mut stdout).unwrap();
        let status = self.0.wait().unwrap();
        Ran::of(&Output { status, stdout, stderr: said.join().unwrap() })
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The beginning of a plan: a workload that is loaded.
pub const LOADED: &str = r#"
[workload]
name = "coupons"
records = 500
index = "own"
[[phase]]
do = "load"
batch = 500
durability = "at-end"
"#;

/// The coupon study in small, with clients that think: `stores` is a TOML list.
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
think = "2ms"
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
