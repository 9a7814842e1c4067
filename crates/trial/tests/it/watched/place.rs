//! Place of logs, recordings and processes that are watched.

use std::fs;
use std::io::{self, BufRead};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use plimsoll_core::production::{LogEntry, LogReceiver, TimedStatement, log_line};
use plimsoll_core::{
    Catalogue, Dialect, OpenOptions as StoreOptions, Params, Reading, Store, StoreError, StoreErrorKind, StoreKind,
    StoreSpec,
};
use plimsoll_logs::LineOptions;
use plimsoll_record::data::Run;
use plimsoll_trial::{Sink, Told, TrialError, WatchSpec, WatchedLog, watch};
use tempfile::TempDir;

/// Store that is not opened. Its servers log lines of a time, a duration and a statement, and other messages.
struct Talkative {
    spec: StoreSpec,
    has_counters: bool,
}

impl Talkative {
    fn kind(name: &'static str, schemes: &'static [&'static str], has_counters: bool) -> Box<dyn StoreKind> {
        let spec = StoreSpec { name, schemes, dialect: Some(Dialect::Postgres), ..StoreSpec::PLAIN };
        Box::new(Self { spec, has_counters })
    }
}

impl StoreKind for Talkative {
    fn spec(&self) -> &StoreSpec {
        &self.spec
    }

    fn counters(&self, _: &Params) -> Vec<Reading> {
        if self.has_counters { vec![Reading::level("", "connections", "", 0.0)] } else { Vec::new() }
    }

    fn read_log(&self, log: &mut dyn BufRead, tell: &mut LogReceiver<'_>) -> io::Result<()> {
        let mut line = Vec::new();
        while log_line(log, &mut line)? {
            let whole = String::from_utf8_lossy(&line).into_owned();
            line.clear();
            if whole.starts_with("by syslog") {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "written by syslog"));
            }
            let words: Vec<&str> = whole.trim_end().splitn(3, ' ').collect();
            let [at_us, took_ns, text] = words[..] else { continue };
            if let (Ok(at_us), Ok(took_ns)) = (at_us.parse::<i64>(), took_ns.parse::<u64>()) {
                tell(LogEntry::Timed(TimedStatement { at_us, has_zone: true, took_ns, text }));
            }
        }
        Ok(())
    }

    fn is_log(&self, head: &[u8]) -> bool {
        head.starts_with(b"ready")
    }

    fn open(&self, _: StoreOptions, _: &mut dyn FnMut(&str)) -> Result<Box<dyn Store>, StoreError> {
        Err(StoreError::new(StoreErrorKind::Unreachable, "nobody is there"))
    }
}

/// Receiver of the events of watching.
#[derive(Default)]
pub(super) struct Heard {
    begun: AtomicBool,
    pub(super) ended: AtomicBool,
    /// Operations of all slices.
    ops: AtomicU64,
    /// Number of samples.
    pub(super) samples: AtomicU64,
    pub(super) notices: Mutex<Vec<String>>,
}

impl Sink for Heard {
    fn take(&self, told: &Told) {
        match told {
            Told::BeginPhase(..) => self.begun.store(true, Ordering::SeqCst),
            Told::EndRun(..) => self.ended.store(true, Ordering::SeqCst),
            Told::Slice { row, .. } => {
                self.ops.fetch_add(row.count, Ordering::SeqCst);
            }
            Told::Sample(_) => {
                self.samples.fetch_add(1, Ordering::SeqCst);
            }
            Told::Notice(text) => self.notices.lock().unwrap().push(text.clone()),
            _ => {}
        }
    }
}

/// Waits until `is_met`, for 100 s at most.
#[track_caller]
pub(super) fn await_until(what: &str, is_met: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_met() {
        assert!(began.elapsed() < Duration::from_secs(100), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Place of logs and recordings.
pub(super) struct Place {
    pub(super) logs: TempDir,
    runs: TempDir,
    catalogue: Catalogue,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) heard: Heard,
}

impl Place {
    pub(super) fn new() -> Self {
        let stores = vec![
            plimsoll_store_null::kind(),
            Talkative::kind("talkative", &["talk"], false),
            Talkative::kind("counted", &["count"], true),
        ];
        let (workloads, samplers) = (plimsoll_workload::all(), plimsoll_sample::specs());
        let catalogue = Catalogue { labs: Vec::new(), stores, workloads, samplers };
        let [logs, runs] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        Self { logs, runs, catalogue, stop: Arc::default(), heard: Heard::default() }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.logs.path().join(name)
    }

    /// Writes a file, and returns it as a log of its name.
    pub(super) fn log(&self, name: &str, text: &str) -> WatchedLog {
        fs::write(self.path(name), text).unwrap();
        self.named(name)
    }

    pub(super) fn named(&self, name: &str) -> WatchedLog {
        WatchedLog { label: name.to_owned(), path: self.path(name) }
    }

    /// Returns the parameters for logs that are there already.
    pub(super) fn spec<'a>(&'a self, logs: &'a [WatchedLog]) -> WatchSpec<'a> {
        WatchSpec {
            catalogue: &self.catalogue,
            logs,
            format: None,
            lines: LineOptions::default(),
            follow: false,
            pids: &[],
            group: None,
            server: None,
            samplers: &[],
            label: "processes",
            length: None,
            goals: &[],
            runs_dir: self.runs.path(),
            stop: &self.stop,
            command_line: Vec::new(),
            tag: "",
        }
    }

    /// Watches, and returns the recording.
    #[track_caller]
    pub(super) fn watched(&self, spec: &WatchSpec<'_>) -> Run {
        let ended = watch(spec, &self.heard).unwrap();
        assert_eq!(ended.result, Ok(()));
        Run::load(&ended.recording).unwrap()
    }

    /// Watches live. `during` acts once the logs are open; afterwards the user ends it.
    #[track_caller]
    pub(super) fn live(&self, spec: &WatchSpec<'_>, during: impl FnOnce()) -> (Result<(), TrialError>, Run) {
        let ended = std::thread::scope(|scope| {
            let watching = scope.spawn(|| watch(spec, &self.heard));
            // Also if the test fails: the scope waits for the thread.
            let stop = Stop(&self.stop);
            await_until("the beginning", || self.heard.begun.load(Ordering::SeqCst) || watching.is_finished());
            during();
            drop(stop);
            watching.join().unwrap()
        });
        let ended = ended.unwrap();
        (ended.result, Run::load(&ended.recording).unwrap())
    }

    pub(super) fn await_ops(&self, ops: u64) {
        await_until("the operations", || self.heard.ops.load(Ordering::SeqCst) >= ops);
    }

    /// Expects an error with these words and this remedy, and that nothing is recorded.
    #[track_caller]
    pub(super) fn refuses(&self, spec: &WatchSpec<'_>, words: &str, next: &str) -> TrialError {
        let error = watch(spec, &self.heard).expect_err(words);
        assert!(error.what.contains(words), "{error:?} does not say {words:?}");
        assert!(error.next.as_deref().unwrap_or_default().contains(next), "{error:?} does not say {next:?}");
        assert_eq!(fs::read_dir(self.runs.path()).unwrap().count(), 0, "{words}: nothing is recorded");
        error
    }
}

/// Sets the user's wish for an end when it is dropped.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A process that does nothing, until it is dropped.
pub(super) struct Idle(pub(super) Child);

impl Idle {
    pub(super) fn start() -> Self {
        Self(Command::new("sleep").arg("600").spawn().unwrap())
    }

    pub(super) fn end(&mut self) {
        let _ = self.0.kill();
        self.0.wait().unwrap();
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        self.end();
    }
}
