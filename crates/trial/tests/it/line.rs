//! Searches for the load line of stores whose line is known, on simulated time.

use std::time::Duration;

use plimsoll_analysis::line::lines;
use plimsoll_analysis::number;
use plimsoll_analysis::view::{Beyond, Ending, LineState, LineView, RungState};
use plimsoll_core::{StoreError, StoreErrorKind};
use plimsoll_drive::{Driver, Limit, StopReason};
use plimsoll_record::data::{PhaseKind, PhaseState, ResultName, Run, RunState};
use plimsoll_testkit::simulated::{Simulated, SlowTail, StoreModel};

use crate::faulted::served;
use crate::simulation::{Heard, Simulation, Sort, assert_told_is_recorded, fast, of_timed};

/// Largest error of a search: its load steps are short, and the queue of one has to grow.
const TOLERANCE: f64 = 0.06;

/// Plan with these goals and bounds of the search.
fn plan(goals: &str, line: &str) -> String {
    format!(
        "stores = [\"null\"]\nsamplers = []\n[workload]\nname = \"kv\"\nrecords = 50\nfield_length = 10\n\
         ledger = \"off\"\n[goals]\n{goals}\n[line]\n{line}\n[[phase]]\ndo = \"load\"\n\
         [[phase]]\ndo = \"drive\"\nclients = 8\nrate = \"50/s\"\nfor = \"3s\"\nbacklog = \"30s\"\n\
         mix = {{ read = 1 }}\ndurability = \"buffered\"\n"
    )
}

/// A search that came to its end.
struct Searched {
    heard: Heard,
    run: Run,
    line: LineView,
}

impl Searched {
    /// Searches for the line of `model`.
    #[track_caller]
    fn of(goals: &str, line: &str, model: &StoreModel) -> Self {
        Self::by(&Simulation::new(), &plan(goals, line), &of_timed(model))
    }

    /// Searches for the line of a plan, and compares what was told with the recording.
    #[track_caller]
    fn by(simulation: &Simulation, text: &str, driver: &dyn Driver) -> Self {
        let heard = Heard::default();
        let (error, run) = simulation.run(&simulation.plan(text), &Sort::default(), &heard, driver);
        assert_eq!((error, &run.state), (None, &RunState::Complete));
        let line = only_line(&run);
        {
            let remarks = heard.remarks.lock().unwrap();
            let (last, rungs) = remarks.split_last().unwrap();
            assert_eq!(last.trim(), line.result.sentence);
            assert_eq!(rungs.len(), line.rungs.len(), "{remarks:#?}");
            for (said, rung) in rungs.iter().zip(&line.rungs) {
                let state = if rung.state == RungState::Start { "" } else { rung.state.name() };
                let words = format!("  {} {}", rung.rung.asked_words(), state.replace('_', " "));
                // A load step that says nothing has a reason instead of figures.
                let goal = rung.goals.first().map_or_else(String::new, |goal| format!(", {} ", goal.name()));
                let done = format!(": {} done{goal}", number::with_unit(rung.rate_per_s, "1/s"));
                let rest = rung.reason.as_ref().map_or(done, |reason| format!(": {reason}"));
                let words = format!("{}{rest}", words.trim_end());
                assert!(said.starts_with(&words), "{said:?} is not {words:?}");
            }
        }
        assert_told_is_recorded(&heard, &run);
        Self { heard, run, line }
    }

    /// Returns the rate that is carried and the one that is not, which are decided.
    #[track_caller]
    fn bounds(&self) -> (f64, f64) {
        let result = &self.line.result;
        assert_eq!(result.state, LineState::Decided, "{}", result.sentence);
        let [carries, gives_way] = [&result.held, &result.failed].map(|one| one.as_ref().unwrap());
        assert!(carries.decided && gives_way.decided, "{result:#?}");
        assert!(carries.held >= 5 && gives_way.failed >= 3, "{result:#?}");
        (carries.rate_per_s, gives_way.rate_per_s)
    }

    /// Checks that the line lies at `true_per_s`, as precisely as `precision`.
    #[track_caller]
    fn is_at(&self, true_per_s: f64, precision: f64) {
        let (carries, gives_way) = self.bounds();
        let words = format!("{carries} to {gives_way}/s, and {true_per_s}/s is true");
        assert!(carries <= true_per_s * (1.0 + TOLERANCE), "{words}");
        assert!(gives_way >= true_per_s * (1.0 - TOLERANCE), "{words}");
        assert!(gives_way <= carries * (1.0 + precision) * 1.001, "{words}");
        assert!(self.line.result.sentence.starts_with("Carries "), "{}", self.line.result.sentence);
    }
}

fn only_line(run: &Run) -> LineView {
    let mut all = lines(run);
    assert_eq!(all.len(), 1);
    all.remove(0)
}

#[test]
fn a_search_finds_the_rate_at_which_a_queue_begins_to_grow() {
    let found = Searched::of("p90 = \"100ms\"", "budget = \"2min\"", &StoreModel::default());
    found.is_at(100.0, 0.1);
    let result = &found.line.result;
    assert_eq!((&result.ending, result.beyond), (&Ending::Found, Beyond::Queues), "{}", result.sentence);
    assert_eq!(result.broken.as_ref().unwrap().what.name(), "p90");
    let closed = result.closed_loop_per_s.unwrap();
    assert!((95.0..=105.0).contains(&closed), "{closed}");
    assert!(result.took_s <= 120.5, "{} s", result.took_s);
    // Each load step is a trial, in the order of the search.
    let labels = found.run.trials.iter().map(|trial| trial.header.labels["load_step"].clone());
    let wanted = (1..=found.line.rungs.len()).map(|number| number.to_string());
    assert_eq!(labels.collect::<Vec<_>>(), wanted.collect::<Vec<_>>());
    let next = found.heard.lines("next ");
    assert!(next[1].ends_with("load step 1: closed loop (start)"), "{next:?}");
}

#[test]
fn a_finer_precision_brings_both_rates_nearer() {
    let model = StoreModel { spread: 0.2, ..StoreModel::default() };
    Searched::of("p90 = \"100ms\"", "budget = \"4min\"\nprecision = \"3%\"", &model).is_at(100.0, 0.03);
}

#[test]
fn the_same_model_gives_the_same_line() {
    let model = StoreModel { spread: 0.5, capacity_per_s: 70.0, ..StoreModel::default() };
    let [one, other] = [0, 1].map(|_| Searched::of("p90 = \"100ms\"", "budget = \"2min\"", &model));
    assert_eq!(one.line.result, other.line.result);
}

#[test]
fn the_line_of_a_server_that_refuses_is_where_errors_pass_their_goal() {
    let model = StoreModel { wait_max: Some(Duration::from_millis(25)), ..StoreModel::default() };
    let found = Searched::of("errors = \"10%\"\np50 = \"200ms\"", "budget = \"2min\"", &model);
    found.is_at(100.0 / 0.9, 0.1);
    assert_eq!(found.line.result.broken.as_ref().unwrap().what.name(), "errors");
    assert_eq!(found.line.result.beyond, Beyond::Sheds, "{}", found.line.result.sentence);
}

#[test]
fn the_line_lies_where_the_tail_grows_however_high_the_capacity() {
    let tail = Some(SlowTail { above_per_s: 60.0, by: Duration::from_millis(500) });
    let model = StoreModel { tail, capacity_per_s: 200.0, ..StoreModel::default() };
    let found = Searched::of("p97.5 = \"100ms\"", "budget = \"5min\"\nfrom = \"30/s\"", &model);
    let (carries, gives_way) = found.bounds();
    assert!(carries <= 60.0 && gives_way > 60.0, "{carries} to {gives_way}");
    assert!(found.line.result.broken.as_ref().unwrap().what.name().starts_with("p97"), "{:#?}", found.line.result);
}

#[test]
fn a_store_that_does_not_keep_up_gives_way_also_where_no_time_is_too_long() {
    let model = StoreModel { capacity_per_s: 40.0, ..StoreModel::default() };
    let found = Searched::of("p50 = \"60s\"", "budget = \"3min\"", &model);
    let (carries, gives_way) = found.bounds();
    assert!(carries < 50.0 && gives_way > 40.0, "{carries} to {gives_way}");
    assert_eq!(found.line.result.broken.as_ref().unwrap().what.name(), "carried");
}

#[test]
fn a_budget_that_is_spent_leaves_the_line_undecided() {
    let found = Searched::of("p50 = \"100ms\"", "budget = \"30s\"\nfrom = \"20/s\"", &StoreModel::default());
    let result = &found.line.result;
    assert!(matches!(&result.state, LineState::Undecided(why) if why.contains("time was up")), "{:?}", result.state);
    assert_eq!(result.ending, Ending::TimeUp);
    assert!(result.sentence.contains("is undecided"), "{}", result.sentence);
    assert!(result.took_s <= 30.5 && found.run.end_ns <= Some(31_000_000_000), "{} s", result.took_s);
}

#[test]
fn a_store_below_the_lowest_rate_has_no_line() {
    let model = StoreModel { capacity_per_s: 20.0, ..StoreModel::default() };
    let found = Searched::of("p50 = \"100ms\"", "budget = \"2min\"\nfrom = \"100/s\"\nleast = \"50/s\"", &model);
    let result = &found.line.result;
    assert_eq!((&result.ending, &result.state), (&Ending::NoPass, &LineState::NoLine));
    assert!(result.sentence.starts_with("Does not keep its goals even at 50"), "{}", result.sentence);
    assert!(result.held.is_none());
}

#[test]
fn a_store_above_the_highest_rate_carries_at_least_that() {
    let found = Searched::of("p50 = \"100ms\"", "budget = \"2min\"\nfrom = \"20/s\"\nmost = \"60/s\"", &fast());
    let result = &found.line.result;
    assert_eq!((&result.ending, &result.state), (&Ending::NoFailure, &LineState::Decided));
    assert!(result.sentence.starts_with("Carries at least 60"), "{}", result.sentence);
}

#[test]
fn a_goal_that_needs_more_time_than_there_is_is_said_to_need_it() {
    let (simulation, heard) = (Simulation::new(), Heard::default());
    let text = plan("p99.9 = \"100ms\"", "budget = \"30s\"\nfrom = \"20/s\"");
    let (error, run) = simulation.model(&text, &heard, &StoreModel::default());
    let error = error.unwrap();
    assert_eq!(error.kind, StoreErrorKind::Usage);
    assert!(error.what.contains("to measure p99.9, and the whole search had 30"), "{error:?}");
    assert!(run.trials.is_empty() && matches!(run.state, RunState::Failed(_)), "{:?}", run.state);
}

#[test]
fn a_load_step_that_the_backlog_ends_early_is_a_result() {
    let model = StoreModel { capacity_per_s: 50.0, ..StoreModel::default() };
    let (simulation, heard) = (Simulation::new(), Heard::default());
    let text = plan("p50 = \"100ms\"", "budget = \"2min\"\nfrom = \"80/s\"").replace("\"30s\"", "\"1s\"");
    let (error, run) = simulation.model(&text, &heard, &model);
    assert_eq!(error, None);
    let line = only_line(&run);
    assert_eq!(line.result.state, LineState::Decided, "{}", line.result.sentence);
    let drives = run.trials.iter().flat_map(|trial| &trial.phases).filter(|one| one.header.kind == PhaseKind::Drive);
    let drives: Vec<_> = drives.collect();
    let value = |end: &plimsoll_record::data::PhaseEnd, name| end.result(name).unwrap().value;
    let is_short = |end: &plimsoll_record::data::PhaseEnd| {
        value(end, ResultName::PlannedSeconds) - value(end, ResultName::Seconds) > 0.5
    };
    assert!(drives.iter().any(|drive| is_short(&drive.end)), "the load step far beyond");
    assert!(drives.iter().all(|drive| drive.end.state == PhaseState::Complete));
}

#[test]
fn a_search_that_the_user_ends_keeps_the_load_steps_that_were_complete() {
    let simulation = Simulation::new();
    // The load has one slice, and each load step six or seven.
    let heard = Heard::until(18);
    let (error, run) = simulation.model(&plan("p90 = \"100ms\"", "budget = \"2min\""), &heard, &StoreModel::default());
    assert_eq!((error, &run.state), (None, &RunState::Interrupted));
    assert_told_is_recorded(&heard, &run);
    let line = only_line(&run);
    let last = run.trials.last().unwrap().phases.last().unwrap();
    assert_eq!(last.end.state, PhaseState::Interrupted);
    assert_eq!(line.rungs.len() + 1, run.trials.len(), "the last one does not count");
    assert_eq!((&line.result.ending, &line.result.state), (&Ending::Stopped, &LineState::NoLine));
    assert_eq!(heard.remarks.lock().unwrap().len(), line.rungs.len(), "no result is announced");
}

#[test]
fn a_store_that_fails_ends_the_search_and_what_was_seen_stays() {
    let (simulation, heard) = (Simulation::new(), Heard::default());
    let model_of = |number: u32| match number {
        // The load, and three load steps.
        4 => StoreModel { error: Some(StoreError::broken("the toy fell down")), ..StoreModel::default() },
        _ => StoreModel::default(),
    };
    let driver = Simulated::new(|drive| model_of(drive.number));
    let plan = simulation.plan(&plan("p90 = \"100ms\"", "budget = \"2min\""));
    let (error, run) = simulation.run(&plan, &Sort::default(), &heard, &driver);
    assert_eq!(error.unwrap().what, "the toy fell down");
    assert!(matches!(&run.state, RunState::Failed(why) if why.contains("fell down")), "{:?}", run.state);
    assert_eq!((driver.drives(), run.trials.len()), (5, 4));
    let line = only_line(&run);
    assert!(matches!(&line.result.ending, Ending::Failed(why) if why.contains("fell down")), "{:?}", line.result);
    assert!(line.result.sentence.contains("The search ended after goals held"), "{}", line.result.sentence);
    assert_told_is_recorded(&heard, &run);
}

#[test]
fn a_session_that_the_store_does_not_take_back_ends_the_search() {
    let (simulation, heard) = (Simulation::new(), Heard::default());
    let refused = StopReason::Refused(StoreError::new(StoreErrorKind::Unreachable, "nobody is there"));
    let model = StoreModel { ends: Some((Duration::from_secs(2), refused)), ..StoreModel::default() };
    let (error, run) = simulation.model(&plan("p90 = \"100ms\"", "budget = \"2min\""), &heard, &model);
    assert_eq!(error.unwrap().kind, StoreErrorKind::Unreachable);
    let drive = run.trials[0].phases.last().unwrap();
    assert!(matches!(&drive.end.state, PhaseState::Failed(why) if why.contains("nobody is there")));
    // What was observed until then is recorded.
    let last_ns = drive.slices.last().unwrap().end_ns;
    assert!((2_000_000_000..2_300_000_000).contains(&(last_ns - drive.header.start_ns)), "{last_ns}");
}

/// Searches for the line through a kill, of a store that answers again after a time, by the rate.
#[track_caller]
fn through_a_kill(goals: &str, budget: &str, outage_of: impl Fn(f64) -> Duration + Sync) -> Searched {
    let driver = Simulated::new(move |drive| {
        let Limit::Duration(length) = drive.spec.limit else { return fast() };
        let rate_per_s = drive.spec.pace.rate().map_or(0.0, |rate| rate.peak_per_s());
        let outages = vec![((drive.spec.warmup + length).mul_f64(0.4), outage_of(rate_per_s))];
        StoreModel { capacity_per_s: 1_000.0, outages, ..StoreModel::default() }
    });
    let more = "arrivals = \"even\"\nop_timeout = \"10s\"\nfault = \"kill primary at 40% for 2s\"\nmix =";
    let text = plan(goals, &format!("budget = \"{budget}\"\nfrom = \"80/s\""));
    let text = text.replace("\"null\"", "\"served\"").replace("mix =", more);
    let found = Searched::by(&Simulation::with(vec![served()]), &text, &driver);
    for trial in &found.run.trials {
        let [span] = trial.faults.as_slice() else { panic!("{:?}", trial.faults) };
        assert!(span.begun_ns == span.planned_ns && span.healed_ns == Some(span.begun_ns + 2_000_000_000), "{span:?}");
    }
    let (carries, gives_way) = found.bounds();
    assert!(carries < 120.0 && (117.0..=carries * 1.101).contains(&gives_way), "{carries} to {gives_way}");
    found
}

/// Returns the note on what a fault cost at each load.
#[track_caller]
fn costs(found: &Searched) -> &str {
    let note = found.line.notes.iter().find(|note| note.starts_with("Costs of a fault by load"));
    let note = note.unwrap_or_else(|| panic!("{:?}", found.line.notes));
    for share in [30, 50, 70, 90, 100] {
        assert!(note.contains(&format!("at {share} % of the line no answer for ")), "{note}");
    }
    assert_eq!(found.line.costs.len(), 2, "two charts");
    note
}

#[test]
fn a_line_through_a_kill_gives_way_where_the_outage_passes_its_goal() {
    let outage_of = |rate_per_s: f64| Duration::from_secs_f64(rate_per_s / 30.0);
    let found = through_a_kill("p50 = \"100ms\"\noutage = \"4s\"", "8min", outage_of);
    let (result, carries) = (&found.line.result, found.bounds().0);
    let sentence = &result.sentence;
    assert!(sentence.contains(" ops/s through kill primary: held in "), "{sentence}");
    assert!(sentence.contains("; no outcome unknown. It gives way at "), "{sentence}");
    assert!(sentence.contains(", no operation is answered for 4."), "{sentence}");
    assert!(sentence.contains(" s, longer than 4.00 s."), "{sentence}");
    // The last answer before the kill, and the first one after the outage, may be a few ticks away.
    let of_model_s = carries / 30.0;
    let is_near = |outage_s: f64| (of_model_s - 0.03..of_model_s + 0.06).contains(&outage_s);
    assert!(result.outages.unwrap().into_iter().all(is_near), "{:?} at {carries}", result.outages);
    assert!(!costs(&found).contains("did not come back"), "all of them did");
}

#[test]
fn a_line_through_a_kill_gives_way_where_throughput_does_not_come_back() {
    let outage_of = |rate_per_s: f64| Duration::from_secs(if rate_per_s < 118.0 { 2 } else { 10_000 });
    let found = through_a_kill("p50 = \"100ms\"", "6min", outage_of);
    let result = &found.line.result;
    assert!(result.sentence.contains(" ops/s through kill primary: held in "), "{}", result.sentence);
    assert!(result.sentence.contains(", throughput does not come back within "), "{}", result.sentence);
    let (note, gives_way) = (costs(&found), result.failed.as_ref().unwrap().rate_per_s);
    assert!(note.contains("at 30 % of the line no answer for 2.0"), "{note}");
    let lost = "The lowest load at which throughput did not come back within the load step was";
    assert!(note.ends_with(&format!("{lost} {}.", number::with_unit(gives_way, "1/s"))), "{note}");
}
