//! Continued runs: which trials of a recording stay, and when its clock goes on.

use plimsoll_record::data::{Event, EventClass, Level, PhaseState, Run, RunState, Sample};
use plimsoll_testkit::simulated::Simulated;

use crate::phases::{TOY, plan};
use crate::simulation::{Heard, Simulation, Sort, assert_told_is_recorded, fast};

/// Four trials of one store, which drive for some seconds of simulated time.
fn four(start: &str) -> String {
    let drive = "drive; clients = [1, 2, 3, 4]; rate = \"50/s\"; for = \"2s\"";
    plan(&format!("start = \"{start}\"\n{TOY}"), &["load", drive, "check"])
}

/// Starts and ends of the trials of a run, by their positions.
fn spans(run: &Run) -> Vec<(u32, u64, Option<u64>)> {
    let spans = run.trials.iter().map(|trial| (trial.header.ordinal, trial.header.start_ns, trial.end_ns));
    let mut spans: Vec<_> = spans.collect();
    spans.sort_unstable();
    spans
}

/// Changes a recording to one of a run that was killed, or stopped.
type Damage = fn(&mut Run);

#[test]
fn a_trial_stays_if_all_its_phases_are_complete_and_only_then() {
    let interrupt = |run: &mut Run| run.trials[2].phases[1].end.state = PhaseState::Interrupted;
    let fail = |run: &mut Run| run.trials[2].phases[1].end.state = PhaseState::Failed("it fell down".to_owned());
    let cases: [(&str, Damage, &[u32], usize); 8] = [
        ("killed in the third", |run| run.trials[2].end_ns = None, &[2], 1),
        ("stopped in the third", interrupt, &[2], 1),
        ("failed in the third", fail, &[2], 1),
        ("stopped before its last phase", |run| drop(run.trials[2].phases.pop()), &[2], 1),
        ("stopped after the second", |run| run.trials.truncate(2), &[2, 3], 1),
        ("killed in the first", |run| run.trials.truncate(0), &[0, 1, 2, 3], 1),
        ("two that are apart", |run| drop((run.trials.remove(3), run.trials.remove(1))), &[1, 3], 1),
        ("stopped after the last", |_| (), &[], 0),
    ];
    for (what, damage, again, loads) in cases {
        let simulation = Simulation::new();
        let planned = simulation.plan(&four("settled"));
        let (error, whole) = simulation.run(&planned, &Sort::default(), &Heard::default(), &Simulated::new(|_| fast()));
        assert_eq!((error, whole.trials.len()), (None, 4));
        let mut before = Run { state: RunState::Unfinished, ..whole.clone() };
        damage(&mut before);
        let heard = Heard::default();
        let sort = Sort { before: Some(&before), ..Sort::default() };
        let (error, run) = simulation.run(&planned, &sort, &heard, &Simulated::new(|_| fast()));
        assert_eq!((error, &run.state, run.trials.len()), (None, &RunState::Complete, 4), "{what}");
        let begun: Vec<String> = again.iter().map(|trial| format!("trial {trial}")).collect();
        assert_eq!(heard.lines("trial "), begun, "{what}");
        // The store of the first part is gone with its data; those that follow each other share the new one's.
        assert_eq!(heard.lines("phase load").len(), loads, "{what}");
        let kept = 4 - again.len();
        let notices = heard.notices.lock().unwrap();
        assert!(notices.iter().any(|one| one.ends_with(&format!("{kept} of 4 trials are recorded"))), "{notices:?}");
        let (old, new) = (spans(&whole), spans(&run));
        for (one, other) in old.iter().zip(&new) {
            let is_again = again.contains(&one.0);
            assert_eq!(one != other, is_again, "{what}: {one:?}, {other:?}");
            // Nothing of the second part is before the end of the first, as far as it was recorded.
            let known_ns = before.trials.iter().filter_map(|trial| trial.end_ns).max().unwrap_or(0);
            assert!(!is_again || other.1 > known_ns, "{what}: {other:?}");
        }
        assert!(run.trials.iter().all(|trial| trial.ledgers.len() == 1 && trial.ledgers[0].lost == 0), "{what}");
        assert_eq!(run.header.id, whole.header.id, "{what}");
    }
}

#[test]
fn a_continued_run_is_told_and_recorded_like_any_other() {
    let simulation = Simulation::new();
    let planned = simulation.plan(&four("fresh"));
    let (_, whole) = simulation.run(&planned, &Sort::default(), &Heard::default(), &Simulated::new(|_| fast()));
    let mut before = Run { state: RunState::Unfinished, ..whole };
    before.trials.clear();
    let heard = Heard::default();
    let sort = Sort { before: Some(&before), ..Sort::default() };
    let (error, run) = simulation.run(&planned, &sort, &heard, &Simulated::new(|_| fast()));
    assert_eq!((error, heard.lines("phase load").len()), (None, 4), "each trial starts fresh");
    assert_told_is_recorded(&heard, &run);
    let words = format!("resuming run {}: 0 of 4 trials are recorded", run.header.id);
    assert!(run.events.iter().any(|event| event.text == words), "{:?}", run.events);
    assert_eq!(run.header.command_line, ["plimsoll", "run", "plan.toml"], "a command that repeats it needs its plan");
}

#[test]
fn a_run_of_one_trial_is_named_in_the_singular_and_done_again() {
    let simulation = Simulation::new();
    let planned = simulation.plan(&plan(TOY, &["load", "drive", "check"]));
    let (_, whole) = simulation.run(&planned, &Sort::default(), &Heard::default(), &Simulated::new(|_| fast()));
    let mut before = Run { state: RunState::Unfinished, ..whole };
    before.trials[0].end_ns = None;
    let heard = Heard::default();
    let sort = Sort { before: Some(&before), ..Sort::default() };
    let (error, run) = simulation.run(&planned, &sort, &heard, &Simulated::new(|_| fast()));
    assert_eq!((error, run.trials.len()), (None, 1));
    let notices = heard.notices.lock().unwrap();
    assert!(notices.iter().any(|one| one.ends_with("0 of 1 trial is recorded")), "{notices:?}");
}

/// Time of the last moment of a recording.
const LATE_NS: u64 = 900_000_000_000;

#[test]
fn the_clock_goes_on_a_second_after_the_last_moment_of_anything_that_was_recorded() {
    let event = || Event {
        from_ns: 0,
        until_ns: LATE_NS,
        trial: None,
        level: Level::Info,
        class: EventClass::Drive,
        subject: String::new(),
        text: String::new(),
    };
    let sample = || Sample { at_ns: LATE_NS, ..Sample::default() };
    for what in ["a sample", "a fine sample", "an event", "the end of a phase", "the end of the run"] {
        let simulation = Simulation::new();
        let planned = simulation.plan(&four("settled"));
        let (_, whole) = simulation.run(&planned, &Sort::default(), &Heard::default(), &Simulated::new(|_| fast()));
        let mut before = Run { state: RunState::Unfinished, ..whole };
        before.trials.truncate(2);
        match what {
            "a sample" => before.samples.push(sample()),
            "a fine sample" => before.fine_samples.push(sample()),
            "an event" => before.events.push(event()),
            "the end of a phase" => before.trials[0].phases[0].end.end_ns = LATE_NS,
            _ => before.end_ns = Some(LATE_NS),
        }
        let sort = Sort { before: Some(&before), ..Sort::default() };
        let (error, run) = simulation.run(&planned, &sort, &Heard::default(), &Simulated::new(|_| fast()));
        assert_eq!((error, run.trials.len()), (None, 4), "{what}");
        let (start_ns, after_ns) = (run.trials[2].header.start_ns, LATE_NS + 1_000_000_000);
        assert!((after_ns..after_ns + 500_000_000).contains(&start_ns), "{what}: {start_ns}");
    }
}
