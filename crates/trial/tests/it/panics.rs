//! Tests of stores whose library panics in this process.

use plimsoll_core::{
    Answer, BlockingSession, Durability, Footprint, Layout, Op, OpKind, OpenOptions, Outcome, Probe, Sessions, Store,
    StoreDescription, StoreError, StoreErrorKind, StoreKind, StoreSpec,
};
use plimsoll_record::data::{PhaseState, Run, RunState};

use crate::told::{Seen, run_on};

const PLAN: &str = r#"
stores = ["sqlite"]
samplers = ["store"]
slice = "100ms"

[workload]
name = "kv"
records = 100
field_length = 10

[[phase]]
do = "load"

[[phase]]
do = "settle"

[[phase]]
do = "restart"

[[phase]]
do = "drive"
clients = 2
for = "100ms"
mix = { read = 2, update = 1 }
durability = "buffered"
"#;

/// SQLite, and a bug in one of its calls.
struct Fragile {
    sound: Box<dyn StoreKind>,
    at: &'static str,
}

impl StoreKind for Fragile {
    fn spec(&self) -> &StoreSpec {
        self.sound.spec()
    }

    fn open(&self, options: OpenOptions, progress: &mut dyn FnMut(&str)) -> Result<Box<dyn Store>, StoreError> {
        if self.at == "its opening" {
            panic!("a bug in {}", self.at);
        }
        Ok(Box::new(FragileStore { sound: self.sound.open(options, progress)?, at: self.at }))
    }
}

struct FragileStore {
    sound: Box<dyn Store>,
    at: &'static str,
}

impl FragileStore {
    fn comes_to(&self, at: &str) {
        assert!(self.at != at, "a bug in {at}");
    }
}

impl Drop for FragileStore {
    fn drop(&mut self) {
        self.comes_to("its drop");
    }
}

impl Store for FragileStore {
    fn describe(&mut self) -> Result<StoreDescription, StoreError> {
        self.sound.describe()
    }

    fn create(&mut self, layout: &Layout) -> Result<(), StoreError> {
        self.comes_to("creating its collections");
        self.sound.create(layout)
    }

    fn sessions(&mut self, count: u32, durability: Durability) -> Result<Sessions, StoreError> {
        let Sessions::Blocking(sound) = self.sound.sessions(count, durability)? else { panic!("its calls block") };
        let at = self.at;
        let fragile = |sound| -> Box<dyn BlockingSession> { Box::new(FragileSession { sound, at }) };
        Ok(Sessions::Blocking(sound.into_iter().map(fragile).collect()))
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.sound.sync()
    }

    fn settle(&mut self) -> Result<(), StoreError> {
        self.comes_to("its maintenance");
        self.sound.settle()
    }

    fn disconnect(&mut self) -> Result<(), StoreError> {
        self.sound.disconnect()
    }

    fn reconnect(&mut self) -> Result<(), StoreError> {
        self.comes_to("opening its files again");
        self.sound.reconnect()
    }

    fn footprint(&mut self) -> Result<Footprint, StoreError> {
        self.sound.footprint()
    }

    fn probes(&mut self) -> Vec<Probe> {
        let is_fragile = self.at == "reading its counters";
        is_fragile.then(|| -> Probe { Box::new(|| panic!("a bug in reading its counters")) }).into_iter().collect()
    }

    fn close(&mut self) -> Result<(), StoreError> {
        self.comes_to("its closing");
        self.sound.close()
    }
}

struct FragileSession {
    sound: Box<dyn BlockingSession>,
    at: &'static str,
}

impl BlockingSession for FragileSession {
    fn prepare(&mut self, kinds: &[OpKind]) -> Result<(), StoreError> {
        self.sound.prepare(kinds)
    }

    fn execute(&mut self, op: &Op<'_>, answer: &mut Answer) -> Outcome {
        assert!(self.at != "operations", "a bug in operations");
        self.sound.execute(op, answer)
    }
}

/// Runs the plan on a store with a bug in `at`. Returns the result and the recording.
fn ran(at: &'static str) -> (Result<(), StoreError>, Run) {
    let place = tempfile::tempdir().unwrap();
    let store = Box::new(Fragile { sound: plimsoll_store_sqlite::kind(), at });
    let ended = run_on(vec![store], PLAN, place.path(), &Seen::default()).unwrap();
    assert!(!ended.recording.parent().unwrap().join("data").exists(), "its files are gone after a panic in {at}");
    (ended.result, Run::load(&ended.recording).unwrap())
}

#[test]
fn a_panic_of_a_store_in_this_process_is_an_error_that_names_store_and_place_and_keeps_the_recording() {
    for at in [
        "its opening",
        "creating its collections",
        "its maintenance",
        "opening its files again",
        "operations",
        "reading its counters",
        "its closing",
    ] {
        let (result, run) = ran(at);
        let error = result.expect_err(at);
        // Plimsoll's own code runs there as well.
        let whose = if at == "operations" { "a thread that drives sqlite" } else { "sqlite" };
        let what = format!("{whose} panicked in this process during {at}: a bug in {at} (at crates/trial/tests/");
        assert!(error.line().starts_with(&what), "{error:?}");
        assert_eq!(error.kind, StoreErrorKind::Broken, "{error:?}");
        assert!(error.next.unwrap().contains("report it with the run's recording"));
        assert!(matches!(&run.state, RunState::Failed(why) if why.starts_with(&what)), "{:?}", run.state);
        let phases = run.trials.iter().flat_map(|trial| &trial.phases);
        let failed =
            phases.filter(|phase| matches!(&phase.end.state, PhaseState::Failed(why) if why.starts_with(&what)));
        let is_in_phase = !matches!(at, "its opening" | "its closing");
        assert_eq!(failed.count(), usize::from(is_in_phase), "{at}: {:?}", run.trials);
    }
}

#[test]
fn a_panic_when_a_store_is_dropped_does_not_end_the_run() {
    let (result, run) = ran("its drop");
    assert_eq!((result, run.state), (Ok(()), RunState::Complete));
}
