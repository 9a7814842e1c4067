//! Whole runs on simulated time: their order, what judges them, and what ends them early.

use std::sync::atomic::Ordering;
use std::time::Duration;

use plimsoll_analysis::slices::slices;
use plimsoll_analysis::view::{GoalState, GoalView, RunView};
use plimsoll_core::{StoreError, StoreErrorKind, TICK_NS};
use plimsoll_drive::StopReason;
use plimsoll_record::data::{FaultKind, FaultSpan, PhaseState, Run, RunState};
use plimsoll_testkit::simulated::{Simulated, StoreModel};

use crate::simulation::{Heard, Simulation, Sort, assert_told_is_recorded, fast, of_timed, phase};

/// Plan of trials with so many clients on the toy, with these lines in each drive and behind the phases.
fn plan(clients: &str, drive: &str, rest: &str) -> String {
    format!(
        "stores = [\"toy\"]\nsamplers = []\n[workload]\nname = \"kv\"\nrecords = 40\nfield_length = 10\n\
         [[phase]]\ndo = \"load\"\n[[phase]]\ndo = \"drive\"\nclients = {clients}\n{drive}\n\
         mix = {{ read = 1, update = 1 }}\ndurability = \"buffered\"\n[[phase]]\ndo = \"check\"\n{rest}\n"
    )
}

/// Goals of a run, by their names.
struct Goals(RunView);

impl Goals {
    fn of(run: &Run) -> Self {
        Self(plimsoll_analysis::view(run))
    }

    fn goal(&self, name: &str) -> &GoalView {
        self.0.goals.iter().find(|goal| goal.what.name() == name).unwrap()
    }

    fn got(&self, name: &str) -> f64 {
        self.goal(name).got.unwrap()
    }
}

/// A drive of ten seconds at 50/s with goals, on a store that is silent from one moment on for a time.
fn judged(warmup: &str, from_s: f64, lasts_s: f64) -> Goals {
    let outages = vec![(Duration::from_secs_f64(from_s), Duration::from_secs_f64(lasts_s))];
    let (simulation, heard) = (Simulation::new(), Heard::default());
    let drive = format!("rate = \"50/s\"\nfor = \"10s\"\nwarmup = \"{warmup}\"");
    let text = plan("8", &drive, "[goals]\np90 = \"100ms\"\np97.5 = \"100ms\"\nrate = \"49/s\"\nlost = 0");
    let (error, run) = simulation.model(&text, &heard, &StoreModel { outages, ..fast() });
    assert_eq!((error, &run.state), (None, &RunState::Complete));
    assert_told_is_recorded(&heard, &run);
    Goals::of(&run)
}

#[test]
fn goals_are_judged_without_the_warmup() {
    let goals = judged("2s", 0.2, 1.5);
    assert_eq!([goals.goal("p90").state, goals.goal("rate").state], [GoalState::Held; 2]);
    assert!(goals.got("p90") < 10e6, "{} ns", goals.got("p90"));
    assert!((49.8..=50.2).contains(&goals.got("rate")), "{}", goals.got("rate"));
    // With the time of the outage counted, it is what the goals are about.
    let goals = judged("0s", 0.2, 1.5);
    assert_eq!(goals.goal("p90").state, GoalState::Missed);
    assert!((1.0e9..1.7e9).contains(&goals.got("p97.5")), "{} ns", goals.got("p97.5"));
}

#[test]
fn a_warmup_that_is_to_be_found_is_recorded_as_such_and_left_out_of_the_rate() {
    // Nothing is answered in the first of five seconds, and then as much as the store can.
    let outages = vec![(Duration::ZERO, Duration::from_secs(1))];
    for (warmup, is_found) in [("auto", true), ("0s", false)] {
        let (simulation, heard) = (Simulation::new(), Heard::default());
        let text = plan("2", &format!("for = \"5s\"\nwarmup = \"{warmup}\""), "");
        let model = StoreModel { outages: outages.clone(), ..StoreModel::default() };
        let (error, run) = simulation.model(&format!("slice = \"100ms\"\n{text}"), &heard, &model);
        assert_eq!((error, run.trials[0].phases[1].header.finds_warmup), (None, is_found));
        let view = plimsoll_analysis::view(&run);
        let phase = view.trials[0].phases.iter().find(|phase| phase.name == "drive").unwrap();
        let settled_s = phase.settled_after_s.unwrap();
        // MSER-5 leaves out multiples of five slices.
        assert!((1.0..=1.6).contains(&settled_s), "{settled_s} s");
        let rate_per_s = phase.ops.as_ref().unwrap().rate_per_s;
        let wanted = if is_found { 98.0..=102.0 } else { 78.0..=82.0 };
        assert!(wanted.contains(&rate_per_s), "{warmup}: {rate_per_s}/s");
        assert_eq!(phase.rate_with_warmup_per_s.is_some(), is_found);
        // The table of slices tells the same.
        let left_out = slices(&run).filter(|row| row.phase == "drive" && row.op == "all" && row.warmup).count();
        assert_eq!(left_out, if is_found { (settled_s * 10.0).round() as usize } else { 0 }, "{warmup}");
    }
}

#[test]
fn answers_after_the_planned_end_count_in_times_and_in_no_rate() {
    let goals = judged("0s", 9.5, 3.0);
    assert!((47.2..=47.8).contains(&goals.got("rate")), "{}", goals.got("rate"));
    assert_eq!(goals.goal("rate").state, GoalState::Missed);
    assert_eq!(goals.goal("p90").state, GoalState::Held, "nineteen of twenty operations were fast");
    assert_eq!(goals.goal("p97.5").state, GoalState::Missed);
    let phase = goals.0.trials[0].phases.iter().find(|phase| phase.name == "drive").unwrap();
    let ops = phase.ops.as_ref().unwrap();
    assert!((15..=19).contains(&ops.unfinished), "eight clients waited: {}", ops.unfinished);
    assert!((9.99..10.01).contains(&ops.seconds), "{} s", ops.seconds);
}

#[test]
fn trials_run_in_the_order_of_the_plan_and_each_is_checked() {
    let (simulation, heard) = (Simulation::new(), Heard::default());
    let text = plan("[1, 2, 3]", "ops = 30", "[goals]\nlost = 0");
    let (error, run) = simulation.model(&text, &heard, &fast());
    assert_eq!((error, &run.state, run.trials.len()), (None, &RunState::Complete, 3));
    assert_told_is_recorded(&heard, &run);
    let clients = run.trials.iter().map(|trial| trial.header.labels["clients"].clone());
    assert_eq!(clients.collect::<Vec<_>>(), ["1", "2", "3"]);
    assert_eq!(heard.lines("next ").len(), 3);
    assert_eq!(heard.lines("0 lost").len(), 3);
    let loads = heard.lines("phase load").len();
    assert_eq!(loads, 1, "the data of the first are those of all");
    assert_eq!(simulation.toy.opened.load(Ordering::SeqCst), 1);
    assert_eq!(simulation.toy.closed.load(Ordering::SeqCst), 1);
    assert_eq!(Goals::of(&run).goal("lost").state, GoalState::Held);
}

#[test]
fn repeats_in_random_order_are_all_run_and_recorded_in_their_order() {
    let (simulation, heard) = (Simulation::new(), Heard::default());
    let text = format!("repeats = 3\nstart = \"fresh\"\n{}", plan("[1, 2]", "ops = 10", ""));
    let planned = simulation.plan(&text);
    let (error, run) = simulation.run(&planned, &Sort::default(), &heard, &of_timed(&fast()));
    assert_eq!((error, run.trials.len()), (None, 6));
    assert_told_is_recorded(&heard, &run);
    let of_plan = planned.trials.iter().map(|trial| (trial.ordinal, trial.labels.clone()));
    let of_run = run.trials.iter().map(|trial| (trial.header.ordinal, trial.header.labels.clone()));
    assert_eq!(of_plan.collect::<Vec<_>>(), of_run.collect::<Vec<_>>());
    assert_eq!(heard.lines("phase load").len(), 6, "each starts fresh");
}

#[test]
fn a_write_that_the_store_forgets_is_lost() {
    let (simulation, heard) = (Simulation::new(), Heard::default());
    let driver = Simulated::new(|drive| {
        // Loads and checks are honest.
        simulation.toy.forgets.store(drive.is_timed(), Ordering::SeqCst);
        fast()
    });
    let planned = simulation.plan(&plan("2", "rate = \"50/s\"\nfor = \"2s\"", "[goals]\nlost = 0"));
    let (error, mut run) = simulation.run(&planned, &Sort::default(), &heard, &driver);
    assert_eq!((error, &run.state), (None, &RunState::Complete));
    let [ledger] = &run.trials[0].ledgers[..] else { panic!("{:?}", run.trials[0].ledgers) };
    let lost = ledger.lost;
    assert!(lost > 0 && ledger.complete, "{ledger:?}");
    assert!(heard.lines("").contains(&format!("{lost} lost")));
    assert_eq!(Goals::of(&run).goal("lost").state, GoalState::Missed);

    // Writes have the times at which they were acknowledged.
    let drive = phase(&run, "drive");
    let (ordinal, start_ns, end_ns) = (drive.header.ordinal, drive.header.start_ns, drive.end.end_ns);
    let is_inside = |at_ns: u64| at_ns + TICK_NS > start_ns && at_ns < end_ns;
    assert!(ledger.lost_writes.iter().all(|one| is_inside(one.at_ns)), "{ledger:?}");
    assert_eq!(ledger.lost_writes.iter().map(|one| one.writes).sum::<u64>(), lost);
    let (begun_ns, healed_ns) = (start_ns + 1_000_000_000, Some(start_ns + 1_500_000_000));
    run.trials[0].faults.push(FaultSpan {
        phase: ordinal,
        taken_ns: Some(begun_ns),
        healing_ns: healed_ns,
        healed_ns,
        ..FaultSpan::begun(FaultKind::Pause, "pause all at 1s for 500ms", "the server", begun_ns)
    });
    let told = plimsoll_analysis::view(&run).fault_losses.remove(0);
    assert!([told.in_effect, told.before, told.after].iter().all(|n| *n > 0), "{told:?}");
    assert_eq!((told.lost, told.not_known), (told.in_effect + told.before + told.after, 0), "{told:?}");
}

#[test]
fn a_phase_that_ends_early_fails_by_its_reason_and_the_trial_goes_on() {
    for (why, wanted) in [
        (StopReason::Hung, "did not return within its timeout"),
        (StopReason::Behind, "the generator could not keep up"),
        (StopReason::Backlog, "the store does not carry this rate"),
    ] {
        let (simulation, heard) = (Simulation::new(), Heard::default());
        let model = StoreModel { ends: Some((Duration::from_secs(3), why.clone())), ..fast() };
        let text = plan("2", "rate = \"50/s\"\nfor = \"60s\"", "[goals]\nlost = 0");
        let (error, run) = simulation.model(&text, &heard, &model);
        assert_eq!((error, &run.state), (None, &RunState::Complete), "{why:?}");
        let drive = &run.trials[0].phases[1];
        assert!(matches!(&drive.end.state, PhaseState::Failed(text) if text.contains(wanted)), "{:?}", drive.end.state);
        let length_ns = drive.end.end_ns - drive.header.start_ns;
        assert!((3_000_000_000..3_100_000_000).contains(&length_ns), "{length_ns}");
        assert_eq!(run.trials[0].phases[2].end.state, PhaseState::Complete, "what was written is checked");
        assert_told_is_recorded(&heard, &run);
    }
}

#[test]
fn a_connection_that_is_lost_for_good_ends_the_run_after_its_phase() {
    let (simulation, heard) = (Simulation::new(), Heard::default());
    let lost = StopReason::Lost(StoreError::new(StoreErrorKind::Unreachable, "the toy is gone"));
    let model = StoreModel { ends: Some((Duration::from_secs(1), lost)), ..fast() };
    let text = plan("[1, 2]", "rate = \"50/s\"\nfor = \"60s\"", "");
    let (error, run) = simulation.model(&text, &heard, &model);
    let error = error.unwrap();
    assert_eq!((error.kind, error.what.as_str()), (StoreErrorKind::Unreachable, "the toy is gone"));
    assert_eq!(run.trials.len(), 1, "no other trial begins");
    assert!(matches!(&run.state, RunState::Failed(why) if why == "the toy is gone"), "{:?}", run.state);
    let states: Vec<_> = run.trials[0].phases.iter().map(|phase| &phase.end.state).collect();
    assert_eq!(states[..], [&PhaseState::Complete, &PhaseState::Failed("the toy is gone".to_owned())]);
    // Slices up to the end are there.
    let slices = &run.trials[0].phases[1].slices;
    let ops: u64 = slices.iter().flat_map(|slice| &slice.histograms).map(|one| one.histogram.len()).sum();
    assert!(ops >= 50, "{ops}");
    assert_told_is_recorded(&heard, &run);
}

#[test]
fn a_load_that_lost_an_operation_is_no_load() {
    let (simulation, heard) = (Simulation::new(), Heard::default());
    // A queue without room refuses what comes from the second client.
    let full = StoreModel { wait_max: Some(Duration::ZERO), ..StoreModel::default() };
    let driver = Simulated::new(|_| full.clone());
    let text = plan("1", "ops = 10", "").replace("do = \"load\"", "do = \"load\"\nclients = 2");
    let (error, run) = simulation.run(&simulation.plan(&text), &Sort::default(), &heard, &driver);
    let error = error.unwrap();
    assert!(error.what.starts_with("load on toy: ") && error.what.contains("rejected"), "{error:?}");
    assert_eq!((driver.drives(), run.trials[0].phases.len()), (1, 1), "nothing is driven on it");
}

#[test]
fn a_run_that_the_user_ends_is_resumed_where_its_next_trial_begins() {
    let simulation = Simulation::new();
    let planned = simulation.plan(&plan("[1, 2, 3, 4]", "rate = \"50/s\"\nfor = \"5s\"", "[goals]\nlost = 0"));
    let stopped = Heard::until(9);
    let (error, before) = simulation.run(&planned, &Sort::default(), &stopped, &of_timed(&fast()));
    assert_eq!((error, &before.state), (None, &RunState::Interrupted));
    assert_told_is_recorded(&stopped, &before);
    assert_eq!(before.trials.len(), 2);
    let heard = Heard::default();
    let sort = Sort { before: Some(&before), ..Sort::default() };
    let (error, run) = simulation.run(&planned, &sort, &heard, &of_timed(&fast()));
    assert_eq!((error, &run.state, run.trials.len()), (None, &RunState::Complete, 4));
    assert_eq!(run.header.id, before.header.id);
    let notices = heard.notices.lock().unwrap();
    assert!(notices.iter().any(|notice| notice.ends_with("1 of 4 trials are recorded")), "{notices:?}");
    assert_eq!(heard.lines("trial "), ["trial 1", "trial 2", "trial 3"]);
    let span = |run: &Run, at: usize| (run.trials[at].header.start_ns, run.trials[at].end_ns);
    assert_eq!(span(&run, 0), span(&before, 0), "a complete trial stays");
    // The clock goes on a second after the last moment of the first part.
    let last_ns = before.end_ns.unwrap();
    let starts = run.trials[1..].iter().map(|trial| trial.header.start_ns);
    assert!(starts.clone().all(|start_ns| start_ns >= last_ns + 1_000_000_000) && starts.is_sorted());
    assert!(run.trials.iter().all(|trial| trial.ledgers.iter().all(|one| one.lost == 0)));
}

#[test]
fn a_recording_that_is_removed_during_a_run_is_an_error_of_the_run() {
    let (simulation, heard) = (Simulation::new(), Heard::default());
    let driver = Simulated::new(|drive| {
        if drive.is_timed() {
            let run = std::fs::read_dir(simulation.runs_dir()).unwrap().next().unwrap().unwrap().path();
            std::fs::remove_file(run.join("run.sqlite")).unwrap();
        }
        fast()
    });
    let planned = simulation.plan(&plan("1", "rate = \"50/s\"\nfor = \"2s\"", ""));
    let error = match simulation.try_run(&planned, &Sort::default(), &heard, &driver) {
        Ok(ended) => ended.result.unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(error.kind, StoreErrorKind::Recording, "{error:?}");
    let run = std::fs::read_dir(simulation.runs_dir()).unwrap().next().unwrap().unwrap().path();
    assert!(!run.join("data").exists(), "the store's files are removed all the same");
}
