//! Tests of the events that a sink receives, compared with the recording.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use plimsoll_core::{Catalogue, StoreErrorKind, StoreKind};
use plimsoll_drive::RealTime;
use plimsoll_record::data::{PhaseState, ResultName, Run, RunState};
use plimsoll_trial::{Ended, RunSpec, Sink, Told, TrialError};

use crate::toy::{ToyKind, ToyState};

/// Loads, drives and reads back a few records.
const PLAN: &str = r#"
stores = ["null", "sqlite"]
samplers = ["memory"]
slice = "100ms"

[workload]
name = "kv"
records = 200
field_length = 10

[[phase]]
do = "load"

[[phase]]
do = "drive"
clients = 2
ops = 300
mix = { read = 2, update = 1 }
durability = "buffered"

[[phase]]
do = "check"
"#;

/// Writes down what it is told, and wants an end once a phase of this name begins.
#[derive(Default)]
pub struct Seen {
    told: Mutex<Vec<String>>,
    slices: Mutex<[usize; 2]>,
    samples: Mutex<usize>,
    stop: Arc<AtomicBool>,
    stop_in: &'static str,
}

impl Sink for Seen {
    fn take(&self, told: &Told) {
        let words = match told {
            Told::BeginRun(header) => format!("run {}", header.plan_name),
            Told::EndRun(state, _) => format!("{state:?}"),
            Told::Next(name) => format!("next {name}"),
            Told::BeginTrial(header) => format!("trial {} on {}", header.ordinal, header.store),
            Told::EndTrial(trial, _) => format!("trial {trial} ended"),
            Told::BeginPhase(header, _) => {
                if header.name == self.stop_in {
                    self.stop.store(true, Ordering::SeqCst);
                }
                header.name.clone()
            }
            Told::EndPhase(_, _, end) => format!("{:?}", end.state),
            Told::Answers(check) => format!("{} missing of {}", check.counts.missing, check.op),
            Told::Ledger(check) => format!("{} lost", check.lost),
            Told::Slice { measured, .. } => return self.slices.lock().unwrap()[usize::from(*measured)] += 1,
            Told::Sample(_) => return *self.samples.lock().unwrap() += 1,
            Told::Rests
            | Told::Loading(..)
            | Told::Preview { .. }
            | Told::Series(..)
            | Told::Event(_)
            | Told::Fault(_)
            | Told::Note(_)
            | Told::Remark(_)
            | Told::Notice(_)
            | Told::Lost(_)
            | Told::Cells(_) => {
                return;
            }
        };
        self.told.lock().unwrap().push(words);
    }
}

fn run(text: &str, runs_dir: &Path, seen: &Seen) -> Result<Ended, TrialError> {
    run_on(vec![plimsoll_store_null::kind(), plimsoll_store_sqlite::kind()], text, runs_dir, seen)
}

pub fn run_on(stores: Vec<Box<dyn StoreKind>>, text: &str, runs_dir: &Path, seen: &Seen) -> Result<Ended, TrialError> {
    let catalogue =
        Catalogue { labs: Vec::new(), stores, workloads: plimsoll_workload::all(), samplers: plimsoll_sample::specs() };
    let plan = plimsoll_plan::parse("small", text, &catalogue, &Default::default()).unwrap();
    let environment = vec![("where".to_owned(), "a test".to_owned())];
    let spec = RunSpec { text, environment, ..RunSpec::new(runs_dir, &seen.stop, &RealTime) };
    plimsoll_trial::run(&plan, &catalogue, &spec, seen)
}

#[test]
fn a_sink_is_told_what_is_recorded_in_the_order_in_which_it_happens() {
    let place = tempfile::tempdir().unwrap();
    let seen = Seen::default();
    let ended = run(PLAN, place.path(), &seen).unwrap();
    ended.result.unwrap();
    let on_null = ["load", "Complete", "drive", "Complete", "check", "Complete", "trial 0 ended"];
    let on_sqlite = ["load", "Complete", "drive", "Complete", "check", "0 lost", "Complete", "0 missing of read"];
    let wanted = [
        &["run small", "next 1/2 null", "trial 0 on null"][..],
        &on_null,
        &["next 2/2 sqlite", "trial 1 on sqlite"],
        &on_sqlite,
        &["trial 1 ended", "Complete"],
    ];
    assert_eq!(*seen.told.lock().unwrap(), wanted.concat());
    let run = Run::load(&ended.recording).unwrap();
    assert_eq!(run.state, RunState::Complete);
    let phases: Vec<_> = run.trials.iter().flat_map(|trial| &trial.phases).collect();
    let [reading_back, measured] = *seen.slices.lock().unwrap();
    assert_eq!(measured, phases.iter().map(|phase| phase.slices.len()).sum::<usize>());
    assert!(reading_back > 0, "of these none is recorded");
    assert_eq!(*seen.samples.lock().unwrap(), run.samples.len());
    assert!(!run.samples.is_empty());
    assert!(run.header.environment.contains(&("where".to_owned(), "a test".to_owned())));
    assert!(!ended.recording.parent().unwrap().join("data").exists(), "the store's files are gone");
}

#[test]
fn an_end_that_is_wanted_ends_the_phase_and_keeps_what_there_is() {
    let place = tempfile::tempdir().unwrap();
    let seen = Seen { stop_in: "drive", ..Seen::default() };
    let ended = run(&PLAN.replace("ops = 300", "for = \"1h\""), place.path(), &seen).unwrap();
    ended.result.unwrap();
    let run = Run::load(&ended.recording).unwrap();
    assert_eq!((run.state, run.trials.len()), (RunState::Interrupted, 1));
    let states: Vec<_> = run.trials[0].phases.iter().map(|phase| &phase.end.state).collect();
    assert_eq!(states, [&PhaseState::Complete, &PhaseState::Interrupted]);
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_recorded() {
    let place = tempfile::tempdir().unwrap();
    let seen = Seen::default();
    let error = run(&PLAN.replace("slice", "server_pin = [1000]\nslice"), place.path(), &seen).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Usage);
    assert!(error.to_string().contains("there is no processor 1000") && error.next.is_some(), "{error:?}");
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    assert!(seen.told.lock().unwrap().is_empty());
}

#[test]
fn a_load_that_a_store_takes_at_once_ends_if_the_user_wants_that() {
    let (place, state) = (tempfile::tempdir().unwrap(), Arc::<ToyState>::default());
    *state.takes_loads.lock().unwrap() = Some(None);
    let seen = Seen { stop_in: "load", ..Seen::default() };
    let text = PLAN.replace("\"null\", \"sqlite\"", "\"toy\"");
    let ended = run_on(vec![ToyKind::named("toy", &state)], &text, place.path(), &seen).unwrap();
    ended.result.unwrap();
    let run = Run::load(&ended.recording).unwrap();
    assert_eq!(run.state, RunState::Interrupted);
    let [load] = &run.trials[0].phases[..] else { panic!("{run:?}") };
    assert_eq!((&load.end.state, load.end.result(ResultName::Ops).unwrap().value), (&PhaseState::Interrupted, 0.0));
    assert_eq!(state.calls().first(), Some(&"create"), "{:?}", state.calls());
    assert!(!ended.recording.parent().unwrap().join("data").exists());
}
