//! The work of each kind of phase on simulated time: what the store is asked, what is recorded, and what errors end.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use plimsoll_core::{CacheSize, Cycle, Durability, Outcome, StoreError, StoreErrorKind, StoreKind, StoreSpec};
use plimsoll_drive::{RealTime, StopReason};
use plimsoll_record::data::{About, EventClass, Level, Phase, PhaseState, ResultName, Run, RunState};
use plimsoll_testkit::lying_kv::Pairs;
use plimsoll_testkit::simulated::{Simulated, StoreModel};

use crate::simulation::{Heard, Simulation, Sort, assert_told_is_recorded, fast, of_timed, phase, phases, promises};
use crate::toy::{PROMISE, ToyKind, ToyState};

/// The beginning of a plan on the toy.
pub const TOY: &str = "stores = [\"toy\"]\nsamplers = []";
/// Goals for the toy's promises, which a check measures.
const GOALS: &str = "\n[goals]\nlost = 0\nwrong = 0";

/// Returns a plan of phases. Each is a kind and further keys, between which stands `; `. A key without a value has its
/// default; a drive has others than those of a plan.
pub fn plan(head: &str, steps: &[&str]) -> String {
    let goals = if steps.iter().any(|step| step.starts_with("check")) { GOALS } else { "" };
    let mut text = format!("{head}{goals}\n[workload]\nname = \"kv\"\nrecords = 40\nfield_length = 10\n");
    for step in steps {
        let mut given = step.split("; ");
        let kind = given.next().unwrap();
        let given: Vec<&str> = given.collect();
        let defaults: &[&str] = match kind {
            "ask" => &["op = \"read\"", "count = 3"],
            "drive" => &["clients = 2", "ops = 20", "mix = { read = 1, update = 1 }", "durability = \"buffered\""],
            _ => &[],
        };
        let name = |key: &str| key.split(" = ").next().unwrap().replace("for", "ops");
        let is_free = |key: &&&str| given.iter().all(|given| name(given) != name(key));
        text.push_str(&format!("[[phase]]\ndo = \"{kind}\"\n"));
        for key in defaults.iter().filter(is_free).chain(given.iter().filter(|key| key.contains(" = "))) {
            text.push_str(&format!("{key}\n"));
        }
    }
    text
}

/// A run that came to its end, or to an error.
pub struct Ran {
    /// Place of the run, with its stores.
    pub simulation: Simulation,
    /// Receiver of its events.
    pub heard: Heard,
    /// Error of the run.
    pub error: Option<StoreError>,
    /// The recording.
    pub run: Run,
    /// Number of drives.
    pub drives: u32,
}

/// Runs a plan on a toy that `prepare` has set up.
#[track_caller]
pub fn ran(prepare: impl FnOnce(&ToyState), text: &str) -> Ran {
    let simulation = Simulation::new();
    prepare(&simulation.toy);
    ran_on(simulation, text)
}

/// Runs a plan on one of these stores.
#[track_caller]
pub fn ran_on(simulation: Simulation, text: &str) -> Ran {
    let (heard, driver) = (Heard::default(), Simulated::new(|_| fast()));
    let (error, run) = simulation.run(&simulation.plan(text), &Sort::default(), &heard, &driver);
    assert_told_is_recorded(&heard, &run);
    Ran { simulation, heard, error, run, drives: driver.drives() }
}

impl Ran {
    /// Returns the run, which was completed.
    #[track_caller]
    pub fn whole(&self) -> &Run {
        assert_eq!((&self.error, &self.run.state), (&None, &RunState::Complete));
        &self.run
    }

    /// Returns the phases of this name, of all trials.
    pub fn named(&self, name: &str) -> Vec<&Phase> {
        phases(&self.run).into_iter().filter(|phase| phase.header.name == name).collect()
    }

    /// Returns how often a store was asked for this.
    pub fn calls(&self, name: &str) -> usize {
        self.simulation.toy.calls().iter().filter(|call| **call == name).count()
    }

    /// Returns the number of events whose text has these words.
    pub fn events(&self, words: &str) -> usize {
        self.run.events.iter().filter(|event| event.text.contains(words)).count()
    }

    /// Returns true if a notice has these words.
    pub fn notices(&self, words: &str) -> bool {
        self.heard.notices.lock().unwrap().iter().any(|notice| notice.contains(words))
    }
}

#[track_caller]
fn value(phase: &Phase, name: ResultName) -> f64 {
    phase.end.result(name).unwrap_or_else(|| panic!("no {name:?}: {:?}", phase.end.results)).value
}

/// Returns the remark about this; `None` without one.
fn remark(phase: &Phase, about: About) -> Option<&str> {
    phase.end.remarks.iter().find(|(one, _)| *one == about).map(|(_, text)| text.as_str())
}

#[test]
fn each_phase_asks_the_store_for_its_work_in_the_order_of_the_plan() {
    let ran = ran(|_| (), &plan(TOY, &["load", "settle", "ask", "restart", "drive", "check"]));
    let run = ran.whole();
    let names: Vec<&str> = phases(run).iter().map(|phase| phase.header.name.as_str()).collect();
    assert_eq!(names, ["load", "settle", "ask", "restart", "drive", "check"]);
    assert!(phases(run).iter().all(|phase| phase.end.state == PhaseState::Complete), "{run:?}");
    assert_eq!(ran.simulation.toy.calls(), ["create", "settle", "disconnect", "reconnect", "close"]);
    let load = phase(run, "load");
    assert_eq!([value(load, ResultName::Records), value(load, ResultName::Ops)], [40.0; 2]);
    assert!(load.end.result(ResultName::SyncSeconds).is_none(), "each write of the load was durable");
    assert_eq!(value(phase(run, "drive"), ResultName::Ops), 40.0);
    assert!(value(phase(run, "restart"), ResultName::Seconds) >= 0.0);
    assert!(phase(run, "settle").end.footprint.unwrap().data_bytes > 4_000);
    // Each question is timed by itself, one after the other; the store explains the last.
    let ask = phase(run, "ask");
    assert!(ask.end.asked.len() == 3 && ask.end.asked.iter().all(|one| one.outcome == Outcome::Ok && one.rows == 1));
    assert!(ask.end.asked.windows(2).all(|two| two[0].end_ns <= two[1].start_ns), "{:?}", ask.end.asked);
    assert_eq!(remark(ask, About::Plan), Some("read by hand"));
    assert_eq!(promises(run), [plimsoll_analysis::view::GoalState::Held; 2]);
}

#[test]
fn an_error_of_the_store_fails_its_phase_ends_the_run_and_removes_the_data() {
    let at_end = "load; durability = \"at-end\"";
    for (call, steps, failed) in [
        ("create", &["load", "drive"][..], "load"),
        ("sessions", &["load", "drive"], "load"),
        ("sync", &[at_end, "drive"], "load"),
        ("settle", &["load", "settle", "drive"], "settle"),
        ("footprint", &["load", "settle", "drive"], "settle"),
        ("disconnect", &["load", "restart", "drive"], "restart"),
        ("reconnect", &["load", "restart", "drive"], "restart"),
        ("explain", &["load", "settle", "ask", "drive"], "ask"),
    ] {
        let words = format!("it cannot {call}");
        let ran = ran(|toy| toy.fails(call, StoreError::broken(&*words)), &plan(TOY, steps));
        assert_eq!(ran.error.as_ref().unwrap().what, words);
        let last = *phases(&ran.run).last().unwrap();
        assert_eq!((&*last.header.name, &last.end.state), (failed, &PhaseState::Failed(words.clone())), "{call}");
        assert_eq!(ran.run.state, RunState::Failed(words));
        // A store that failed is dropped and not closed, so that a server keeps its log.
        let toy = &ran.simulation.toy;
        assert_eq!((toy.opened.load(Ordering::SeqCst), toy.closed.load(Ordering::SeqCst)), (1, 0), "{call}");
        assert!(!ran.simulation.runs_dir().join(&ran.run.header.id).join("data").exists(), "{call}");
    }
}

#[test]
fn a_store_that_cannot_be_closed_fails_a_run_that_was_complete() {
    let ran = ran(|toy| toy.fails("close", StoreError::broken("it cannot close")), &plan(TOY, &["load", "drive"]));
    assert_eq!(ran.error.as_ref().unwrap().what, "it cannot close");
    assert!(phases(&ran.run).iter().all(|phase| phase.end.state == PhaseState::Complete));
    assert_eq!(ran.run.state, RunState::Failed("it cannot close".to_owned()));
}

#[test]
fn a_load_at_end_is_synced_once_within_its_time() {
    let ran = ran(|_| (), &plan(TOY, &["load; durability = \"at-end\"", "drive", "check"]));
    let load = phase(ran.whole(), "load");
    assert_eq!(ran.simulation.toy.calls(), ["create", "sync", "settle", "close"]);
    assert!(value(load, ResultName::SyncSeconds) <= value(load, ResultName::Seconds), "{:?}", load.end.results);
    assert_eq!(load.header.durability, Some(Durability::AtEnd));
}

#[test]
fn a_load_that_the_store_takes_at_once_is_in_the_ledger_record_by_record() {
    for (without, lost) in [(None, 0), (Some(7), 1)] {
        let ran = ran(|toy| *toy.takes_loads.lock().unwrap() = Some(without), &plan(TOY, &["load", "check"]));
        let load = phase(ran.whole(), "load");
        assert_eq!(ran.drives, 1, "only what is read back is driven");
        assert_eq!([value(load, ResultName::Records), value(load, ResultName::Ops)], [40.0; 2]);
        assert_eq!(remark(load, About::Load), Some("from a box"));
        let [ledger] = &ran.run.trials[0].ledgers[..] else { panic!("{:?}", ran.run.trials[0].ledgers) };
        assert_eq!((ledger.acknowledged, ledger.lost, ledger.complete), (40, lost, true), "{ledger:?}");
    }
}

#[test]
fn a_question_to_a_store_that_is_not_cold_is_skipped_with_the_reason_and_others_are_not() {
    let ran = ran(|_| (), &plan(TOY, &["load", "cold", "ask", "drive", "ask"]));
    let run = ran.whole();
    let names: Vec<&str> = phases(run).iter().map(|phase| phase.header.name.as_str()).collect();
    assert_eq!(names, ["load", "cold", "drive", "ask_2"]);
    assert_eq!(remark(phase(run, "cold"), About::NotCold), Some("it has no files"));
    let words = "ask was skipped: toy could not be made cold: it has no files";
    assert!(ran.notices(words));
    let event = run.events.iter().find(|event| event.text == words).unwrap();
    assert_eq!((event.level, event.class, event.trial), (Level::Info, EventClass::Store, Some(0)));
    assert_eq!(phase(run, "ask_2").end.asked.len(), 3);
}

#[test]
fn the_memories_that_may_hold_the_data_are_recorded_once() {
    let own = CacheSize::Own { setting: "cache", bytes: 7 };
    let limited = |limit_bytes| CacheSize::InMemory { setting: "most", limit_bytes };
    for (cache, name, subject, bytes) in [
        (own, ResultName::CacheBytes, "cache", 7.0),
        (CacheSize::PageCache, ResultName::CacheBytes, "", 0.0),
        (limited(Some(9)), ResultName::MemoryLimitBytes, "most", 9.0),
        (limited(None), ResultName::MemoryLimitBytes, "most", 0.0),
    ] {
        // What was maintained is measured then, and otherwise before the first operation.
        for (steps, measured) in [(&["load", "settle", "drive"][..], "settle"), (&["load", "drive", "ask"], "drive")] {
            let ran = ran(|toy| *toy.cache.lock().unwrap() = Some(cache), &plan(TOY, steps));
            for phase in phases(ran.whole()) {
                let found = phase.end.result(name).map(|one| (one.subject.as_str(), one.value));
                let is_here = phase.header.name == measured;
                assert_eq!(found, is_here.then_some((subject, bytes)), "{steps:?}: {:?}", phase.header);
                assert_eq!(phase.end.footprint.is_some(), is_here, "{steps:?}: {:?}", phase.header);
            }
        }
    }
}

#[test]
fn a_size_that_cannot_be_read_is_a_remark_unless_nobody_is_there() {
    for (call, about) in [("footprint", About::DataSize), ("cache", About::CacheSize)] {
        let error = StoreError::new(StoreErrorKind::Permission, "it is a secret");
        let ran = ran(|toy| toy.fails(call, error), &plan(TOY, &["load", "drive"]));
        assert_eq!(remark(phase(ran.whole(), "drive"), about), Some("not known: it is a secret"));
        let error = StoreError::new(StoreErrorKind::Unreachable, "nobody is there");
        let ran = self::ran(|toy| toy.fails(call, error), &plan(TOY, &["load", "drive"]));
        assert_eq!(ran.error.unwrap().kind, StoreErrorKind::Unreachable, "{call}");
    }
    // What an embedded store has in memory would be written by looking at it.
    let ran = ran(|_| (), &plan(&format!("start = \"as-is\"\n{TOY}"), &["load", "drive"]));
    let words = "not read, because reading it would settle the store";
    assert_eq!(remark(phase(ran.whole(), "drive"), About::DataSize), Some(words));
}

#[test]
fn a_stores_own_work_is_counted_in_each_drive_and_its_counters_are_read_beside_it() {
    let text = plan(&TOY.replace("samplers = []", "samplers = [\"store\"]"), &["load", "drive; mix = { update = 1 }"]);
    let ran = ran(|toy| toy.counts.store(true, Ordering::SeqCst), &text);
    let run = ran.whole();
    let cycles = phase(run, "drive").end.results.iter().find(|one| one.name == ResultName::Cycles).unwrap();
    assert_eq!((cycles.subject.as_str(), cycles.value), ("flushes", 40.0), "those of the load are not among them");
    let dust = run.series.iter().position(|one| (&*one.source, &*one.subject, &*one.name) == ("store", "toy", "dust"));
    let dust = dust.expect("a series of the store");
    assert!(run.samples.iter().any(|sample| sample.value(dust) == Some(7.0)), "{:?}", run.samples);
}

#[test]
fn a_silent_node_does_not_delay_the_counters_of_another() {
    let prepare = |toy: &ToyState| {
        toy.counts.store(true, Ordering::SeqCst);
        toy.has_silent_node.store(true, Ordering::SeqCst);
    };
    let text = plan(&TOY.replace("samplers = []", "samplers = [\"store\"]"), &["load", "drive; mix = { update = 1 }"]);
    let ran = ran(prepare, &text);
    ran.whole();
    assert!(!ran.simulation.toy.was_waited_for.load(Ordering::SeqCst));
}

#[test]
fn counters_that_cannot_be_read_are_named_once_a_phase_and_fail_nothing() {
    let text = plan(&TOY.replace("samplers = []", "samplers = [\"store\"]"), &["load", "drive"]);
    let ran = ran(
        |toy| {
            toy.counts.store(true, Ordering::SeqCst);
            toy.counts_badly.store(true, Ordering::SeqCst);
        },
        &text,
    );
    assert!(ran.whole().series.iter().all(|one| one.source != "store"));
    assert_eq!(ran.events("the counters of toy could not be read: the toy cannot count"), 2);
}

#[test]
fn a_late_generator_makes_a_phase_void_only_if_strictness_is_asked_for_and_the_store_ended_nothing() {
    let [complete, void] = [PhaseState::Complete, PhaseState::Void("it slept".to_owned())];
    let failed = |words: &str| PhaseState::Failed(words.to_owned());
    for (is_late, ends, strict, wanted) in [
        (false, None, true, complete.clone()),
        (true, None, false, complete),
        (true, None, true, void.clone()),
        (false, Some(StopReason::Backlog), true, failed("the store does not carry this rate: ")),
        (true, Some(StopReason::Backlog), false, failed(" late: whether the store carries this rate is undecided")),
        (true, Some(StopReason::Backlog), true, void),
        (true, Some(StopReason::Hung), true, failed("an operation did not return within its timeout")),
        (false, Some(StopReason::Behind), false, failed("the generator could not keep up this rate")),
    ] {
        let (simulation, heard) = (Simulation::new(), Heard::default());
        let what = format!("{is_late} {ends:?} {strict}");
        let late = is_late.then(|| "it slept".to_owned());
        let is_of_backlog = ends == Some(StopReason::Backlog);
        let model = StoreModel { late, ends: ends.map(|why| (Duration::from_secs(1), why)), ..fast() };
        let planned = simulation.plan(&plan(TOY, &["load", "drive; rate = \"50/s\"; for = \"3s\""]));
        let (error, run) = simulation.run(&planned, &Sort { strict, ..Sort::default() }, &heard, &of_timed(&model));
        assert_eq!((error, &run.state), (None, &RunState::Complete), "{what}");
        let end = &phase(&run, "drive").end;
        match (&end.state, &wanted) {
            (PhaseState::Failed(text), PhaseState::Failed(words)) => assert!(text.contains(words), "{what}: {text}"),
            (state, wanted) => assert_eq!(state, wanted, "{what}"),
        }
        let is_failed = matches!(wanted, PhaseState::Failed(_));
        assert_eq!(end.overloaded, is_failed && is_of_backlog, "{what}");
        let is_marked = is_late && !matches!(wanted, PhaseState::Void(_));
        assert_eq!(end.late.is_some(), is_marked, "{what}: figures of a void phase are withheld and not marked");
    }
}

#[test]
fn each_load_step_keeps_the_cycle_of_its_store_and_its_words_where_they_are_new() {
    for (by_work, name) in [(false, ResultName::CycleSeconds), (true, ResultName::CycleOperations)] {
        let head = "stores = [\"toy\"]\nsamplers = []\n[goals]\np50 = \"10s\"\n\
                    [line]\nfrom = \"20/s\"\nmost = \"60/s\"\nbudget = \"40s\"";
        let drive = "drive; clients = 8; rate = \"50/s\"; for = \"3s\"; mix = { update = 1 }";
        let cycle = Cycle { seconds: 4.0, by_work, words: "flush_every is 4 s".to_owned() };
        let ran = ran(|toy| *toy.cycle.lock().unwrap() = Some(cycle), &plan(head, &["load", drive]));
        let steps: Vec<&Phase> = phases(ran.whole()).into_iter().filter(|one| one.header.rung.is_some()).collect();
        assert!(steps.len() >= 3, "{steps:?}");
        for (number, step) in steps.iter().enumerate() {
            // At its rate, the work of four seconds.
            let wanted = if by_work { 4.0 * step.header.rate_per_s.unwrap() } else { 4.0 };
            let found = value(step, name);
            assert!((found / wanted - 1.0).abs() < 0.1, "{found} is not {wanted}");
            assert_eq!(remark(step, About::Cycle).is_some(), by_work || number == 0, "{number}");
        }
    }
}

/// Runs phases on a store that can do less than `durable`; its server refuses that with this error, or does not.
fn soft(demanded: Option<StoreError>, steps: &[&str]) -> Ran {
    let state = Arc::<ToyState>::default();
    let durabilities = &[Durability::Buffered, Durability::AtEnd];
    let spec = StoreSpec { name: "soft", durabilities, ..Pairs::honest().spec().clone() };
    demanded.into_iter().for_each(|error| state.fails("demand", error));
    ran_on(Simulation::with(vec![ToyKind::with(spec, &state)]), &plan("stores = [\"soft\"]\nsamplers = []", steps))
}

#[test]
fn a_durability_that_nobody_set_is_that_of_the_server_and_what_it_comes_to_is_said() {
    let refused = || Some(StoreError::usage("it does not sync"));
    let ran = soft(refused(), &["load", "drive; durability", "drive; name = \"set\""]);
    let run = ran.whole();
    for (name, durability) in [("load", Durability::AsConfigured), ("drive", Durability::AsConfigured)] {
        assert_eq!(phase(run, name).header.durability, Some(durability));
        assert_eq!(remark(phase(run, name), About::Promise), Some(PROMISE));
    }
    assert_eq!(phase(run, "set").header.durability, Some(Durability::Buffered));
    assert_eq!(remark(phase(run, "set"), About::Promise), None);
    let words = "the server's settings provide less than `durable` and are used unchanged (as-configured).";
    let words = format!("soft: {words} {PROMISE}");
    assert!(ran.notices(&words));
    assert_eq!(ran.events(&words), 1);
    // Nothing is said of a trial that writes nothing, and nothing changes where the server is durable.
    let ran = soft(refused(), &["drive; durability; mix = { read = 1 }"]);
    assert_eq!(phase(ran.whole(), "drive").header.durability, Some(Durability::AsConfigured));
    assert!(!ran.notices("provide less than"));
    let ran = soft(None, &["load", "drive; durability"]);
    assert_eq!(phase(ran.whole(), "drive").header.durability, Some(Durability::Durable));
    let ran = soft(Some(StoreError::new(StoreErrorKind::Unreachable, "nobody is there")), &["load"]);
    assert_eq!((ran.error.unwrap().kind, ran.run.trials.len()), (StoreErrorKind::Unreachable, 0));
}

#[test]
fn settings_of_sessions_are_recorded_with_those_in_which_another_durability_differs() {
    let drives = ["durable", "buffered", "durable"].map(|one| format!("drive; durability = \"{one}\""));
    let steps = [&["load"][..], &drives.each_ref().map(String::as_str)].concat();
    let ran = ran(|toy| toy.has_settings.store(true, Ordering::SeqCst), &plan(TOY, &steps));
    let settings = &ran.whole().trials[0].header.settings;
    let settings: Vec<_> = settings.iter().map(|one| (one.name.as_str(), one.value.as_str())).collect();
    assert_eq!(settings, [("sync", "always"), ("cache", "2"), ("sync (buffered)", "never")]);
}

#[test]
fn what_circuit_breakers_reject_is_recorded_and_leaves_the_data_as_before() {
    let simulation = Simulation::new();
    simulation.toy.refuses_after.store(40, Ordering::SeqCst);
    let drive = "drive; clients = 1; for = \"600ms\"; rate = \"100/s\"; mix = { update = 1 }; breaker = 3; \
                 breaker_wait = \"10s\"";
    let text = plan(TOY, &["load", drive, "check"]);
    let (error, run) = simulation.run(&simulation.plan(&text), &Sort::default(), &Heard::default(), &RealTime);
    assert_eq!((error, &run.state), (None, &RunState::Complete));
    let drive = phase(&run, "drive");
    let (ops, rejected) = (value(drive, ResultName::Ops), value(drive, ResultName::BreakerRejected));
    assert!(ops > 5.0 && rejected == ops - 3.0, "three were sent: {ops}, {rejected}");
    assert_eq!(value(drive, ResultName::BreakerOpened), 1.0);
    assert_eq!(promises(&run), [plimsoll_analysis::view::GoalState::Held; 2]);
}

#[test]
fn operations_are_recorded_one_by_one_if_the_plan_wants_that_and_a_cut_is_an_event() {
    let simulation = Simulation::new();
    let drive = "drive; clients = 1; ops = 60; rate = \"1000/s\"; mix = { update = 1 }";
    let (all, first) = (format!("{drive}; keep_operations = 1000"), format!("{drive}; keep_operations = 10"));
    let text = plan(TOY, &["load", drive, &all, &first]);
    let (error, run) = simulation.run(&simulation.plan(&text), &Sort::default(), &Heard::default(), &RealTime);
    assert_eq!((error, &run.state), (None, &RunState::Complete));
    assert_eq!(phase(&run, "drive").operations, None);
    let all = phase(&run, "drive_2").operations.as_ref().unwrap();
    assert_eq!(all.each.len() as f64, value(phase(&run, "drive_2"), ResultName::Ops));
    assert!(all.until_ns.is_none() && all.each.is_sorted_by_key(|op| op.end_ns), "{all:?}");
    assert!(all.each.iter().all(|op| op.due_ns <= op.sent_ns && op.sent_ns <= op.end_ns), "{all:?}");
    let first = phase(&run, "drive_3").operations.as_ref().unwrap();
    let until_ns = first.until_ns.expect("there were more");
    assert_eq!(first.each.len(), 10);
    assert!(first.each.iter().all(|op| op.end_ns < until_ns), "{first:?}");
    let events: Vec<&str> = run.events.iter().map(|event| event.text.as_str()).collect();
    let told = events.iter().filter(|text| text.starts_with("10 operations were recorded one by one")).count();
    assert_eq!(told, 1, "{events:?}");
}
