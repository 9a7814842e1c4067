//! The search for the load line against simulated stores of known capacity.

use plimsoll_analysis::line::{LineSearch, LineSpec, LoadStep, Next, Purpose};
use plimsoll_analysis::view::{AtRate, Beyond, Ending, GoalSeen, LineResult, LineState, Rung};
use plimsoll_record::data::{Goal, GoalKind};

use crate::line_statements::{judged, not_contradicted};
use crate::simulated::{Checkpoints, Sampled, Store, answer, errors, p99, search, searched};
use crate::study::Dice;

/// End of the sentences of a search without a cycle.
pub const NO_CHECKPOINT: &str = ". No checkpoint happened within the trial, so these rates do not contain its cost.";

/// More of them in a heavy run.
pub fn seeds() -> u64 {
    if std::env::var_os("PLIMSOLL_HEAVY").is_some() { 60 } else { 4 }
}

pub fn spec(goals: Vec<Goal>) -> LineSpec {
    LineSpec { goals, ..LineSpec::default() }
}

/// Searches with many seeds, each within its time. No statement is false by more than 3 %: what is carried is not above the
/// true line, and where it gives way is not below. None is one that the load steps contradict. Of 4 searches 3 decide.
#[track_caller]
fn right_within_three_per_cent(store: &Store, spec: &LineSpec, sampled: Sampled, truth: f64) -> Vec<LineResult> {
    let one = |seed| {
        let (result, search) = search(store, spec, sampled, seed);
        let shown = |one: &Option<AtRate>| one.as_ref().filter(|one| one.decided).map(|one| one.rate_per_s / truth);
        let told = format!("seed {seed}, true line {truth:.0}: {}\n{}", result.sentence, rungs(&search));
        assert!(shown(&result.held).is_none_or(|carries| (0.85..=1.03).contains(&carries)), "{told}");
        assert!(shown(&result.failed).is_none_or(|gives_way| (0.97..=1.15).contains(&gives_way)), "{told}");
        not_contradicted(&result, &judged(search.steps()), spec.precision);
        assert!(result.took_s <= spec.budget_s && matches!(result.ending, Ending::Found | Ending::TimeUp), "{told}");
        result
    };
    let all: Vec<LineResult> = (0..seeds()).map(one).collect();
    let decided: Vec<LineResult> = all.iter().filter(|one| one.state == LineState::Decided).cloned().collect();
    assert!(decided.len() as u64 * 4 >= seeds() * 3, "{:#?}", all.iter().map(|one| &one.sentence).collect::<Vec<_>>());
    decided
}

pub fn rungs(search: &LineSearch) -> String {
    let line = |step: &LoadStep| {
        let ratios: Vec<_> = step.goals.iter().map(|goal| goal.ratio()).collect();
        let Rung { purpose, rate_per_s, seconds, .. } = step.rung;
        format!("{purpose:?} {rate_per_s:?} {seconds:.1} s: {ratios:.3?} {:.0}/s\n", step.ended_per_s)
    };
    search.steps().iter().map(line).collect()
}

#[test]
fn one_queue_with_exponential_service_is_found() {
    // Response times of M/M/1 are exponential with rate μ − λ: p99 = ln 100 / (μ − λ).
    for (limit_ms, truth) in [(20.0, 2_000.0 - 100f64.ln() / 0.020), (8.0, 2_000.0 - 100f64.ln() / 0.008)] {
        let store = Store::exponential(2_000.0);
        let results = right_within_three_per_cent(&store, &spec(vec![p99(limit_ms)]), Sampled::ServerCpu, truth);
        assert!(results.iter().all(|one| one.broken.as_ref().unwrap().what.name() == "p99"));
        assert!(results.iter().all(|one| one.beyond == Beyond::Queues), "{:?}", results[0]);
    }
}

#[test]
fn several_servers_with_nearly_constant_service_are_found() {
    let store = Store { servers: 4, service_s: 0.002, exponential: false, ..Store::exponential(1.0) };
    let goals = vec![p99(10.0)];
    let truth = store.truth(&goals);
    let results = right_within_three_per_cent(&store, &spec(goals), Sampled::ServerCpu, truth);
    for result in &results {
        assert!(result.causes.first().unwrap().text.contains("the server's CPU was"), "{}", result.sentence);
        assert!(result.sentence.ends_with(NO_CHECKPOINT), "{}", result.sentence);
    }
}

#[test]
fn without_any_goal_it_is_what_the_store_keeps_up_with() {
    let store = Store { servers: 2, service_s: 0.001, exponential: false, ..Store::exponential(1.0) };
    for result in right_within_three_per_cent(&store, &spec(Vec::new()), Sampled::Nothing, 2_000.0) {
        assert_eq!(result.broken.unwrap().what.name(), "carried");
        assert!(result.sentence.contains("No sampled series explains it"), "{}", result.sentence);
    }
}

#[test]
fn a_store_that_collapses_is_found_and_said_to() {
    let store = Store { thrashes_at: 60, slower: 3.0, ..Store::exponential(2_000.0) };
    let goals = vec![p99(20.0)];
    let truth = store.truth(&goals);
    for result in right_within_three_per_cent(&store, &spec(goals), Sampled::ServerCpu, truth) {
        assert_eq!(result.beyond, Beyond::Collapses);
        assert!(result.beyond_share.unwrap() < 0.6 && result.sentence.contains("it falls to"), "{}", result.sentence);
    }
}

#[test]
fn a_store_that_sheds_load_is_found_by_its_errors() {
    let store = Store { refuses_at: 40, ..Store::exponential(2_000.0) };
    // M/M/1/K: a share (1 − ρ) ρ^K / (1 − ρ^(K+1)) is refused.
    let refused = |rho: f64| (1.0 - rho) * rho.powi(40) / (1.0 - rho.powi(41));
    let (mut low, mut high) = (0.5, 0.9999);
    while high - low > 1e-6 {
        let rho = (low + high) / 2.0;
        if refused(rho) < 0.005 { low = rho } else { high = rho }
    }
    for result in
        right_within_three_per_cent(&store, &spec(vec![errors(0.5), p99(50.0)]), Sampled::ServerCpu, low * 2_000.0)
    {
        assert_eq!((result.beyond, result.broken.unwrap().what.name()), (Beyond::Sheds, "errors".to_owned()));
    }
}

#[test]
fn a_store_that_stalls_is_found_and_the_stalls_are_named() {
    let store = Store { stall_every_s: 2.0, stall_s: 0.03, exponential: false, ..Store::exponential(2_000.0) };
    let goals = vec![p99(40.0)];
    let truth = store.truth(&goals);
    let results = right_within_three_per_cent(&store, &spec(goals), Sampled::Flushes, truth);
    let named = results.iter().filter(|one| one.causes.first().is_some_and(|cause| cause.resource == "disk: flushes"));
    assert!(named.count() as u64 * 2 >= seeds(), "{}", results[0].sentence);
}

#[test]
fn a_generator_that_is_the_limit_ends_it_and_is_said_to_be() {
    let store = Store { generator_per_s: 1_200.0, ..Store::exponential(2_000.0) };
    for seed in 0..seeds() {
        let (result, search) = search(&store, &spec(vec![p99(20.0)]), Sampled::ServerCpu, seed);
        assert!(matches!(result.ending, Ending::Generator(_)), "{}", rungs(&search));
        assert!(result.sentence.contains("The generator, not the store"), "{}", result.sentence);
        let held = result.held.unwrap().rate_per_s;
        assert!((700.0..=1_200.0).contains(&held), "{}", result.sentence);
    }
}

#[test]
fn it_climbs_down_where_the_first_rate_is_too_high_and_up_where_it_is_low() {
    let store = Store::exponential(2_000.0);
    let truth = 2_000.0 - 100f64.ln() / 0.020;
    for start in [40.0, 5_000.0] {
        let spec = LineSpec { start_rate_per_s: Some(start), ..spec(vec![p99(20.0)]) };
        right_within_three_per_cent(&store, &spec, Sampled::ServerCpu, truth);
    }
}

#[test]
fn bounds_are_kept_and_said() {
    let store = Store::exponential(2_000.0);
    let low = LineSpec { rate_max_per_s: 900.0, ..spec(vec![p99(20.0)]) };
    let (result, search_low) = search(&store, &low, Sampled::ServerCpu, 1);
    assert_eq!((result.ending, result.rate_per_s), (Ending::NoFailure, Some(900.0)));
    assert_eq!(
        result.sentence,
        "Carries at least 900 ops/s, the most that was tried: held in 5 of 5 load steps of 10.0 s."
    );
    assert!(search_low.steps().iter().all(|step| step.rung.rate_per_s.is_none_or(|rate| rate <= 900.0)));
    let high = LineSpec { rate_min_per_s: 3_000.0, ..spec(vec![p99(20.0)]) };
    let (result, _) = search(&store, &high, Sampled::ServerCpu, 1);
    assert_eq!(result.ending, Ending::NoPass);
    assert!(
        result.sentence.starts_with("Does not keep its goals even at 3,000 ops/s: p99 passes"),
        "{}",
        result.sentence
    );
    assert!(result.sentence.ends_with("; failed in 3 of 3 load steps of 10.0 s."), "{}", result.sentence);
}

#[test]
fn a_search_of_as_many_load_steps_as_it_may_drive_ends_as_that_unless_the_last_one_decides() {
    let bounds = [(1.0, 900.0, Ending::NoFailure), (900.0, 1e8, Ending::NoPass), (1.0, 1e8, Ending::StepsUp)];
    for (rate_min_per_s, rate_max_per_s, ending) in bounds {
        let spec = LineSpec { rate_min_per_s, rate_max_per_s, budget_s: 36_000.0, ..spec(Vec::new()) };
        let mut search = LineSearch::new(spec);
        for n in 0..200 {
            search.take(step(900.0, ending == Ending::NoFailure || ending == Ending::StepsUp && n % 2 == 0));
        }
        let Next::Done(result) = search.next() else { panic!("load step 201: {ending:?}") };
        assert_eq!(result.ending, ending, "{}", result.sentence);
        if ending == Ending::StepsUp {
            assert_eq!(
                result.sentence,
                "Gives way at 900 ops/s: failed in 100 of 200 load steps of 2.00 s. What it carries is undecided. \
                 200 load steps, the most that a search drives, did not decide it. Use a quieter machine or a goal \
                 further from what the machine does by itself."
            );
        }
    }
}

#[test]
fn two_decided_rates_that_are_too_far_apart_say_at_which_precision_they_are_not() {
    for (failed, said) in [(114.5, ". These load steps decide it at --precision 15%"), (160.0, "--budget")] {
        let mut search = LineSearch::new(spec(Vec::new()));
        for (rate, holds, n) in [(100.0, true, 5), (failed, false, 3)] {
            (0..n).for_each(|_| search.take(step(rate, holds)));
        }
        let result = search.result(Ending::TimeUp);
        assert!(result.sentence.ends_with(&format!("{said}.")), "{}", result.sentence);
    }
}

#[test]
fn load_steps_that_differ_between_two_decided_rates_are_listed_with_what_would_decide() {
    let sentence = |table: &[(f64, u64, u64)]| {
        let mut search = LineSearch::new(spec(Vec::new()));
        for (rate, held, failed) in table {
            (0..*held).for_each(|_| search.take(step(*rate, true)));
            (0..*failed).for_each(|_| search.take(step(*rate, false)));
        }
        search.result(Ending::TimeUp).sentence
    };
    let ends = [(100.0, 5, 0), (121.0, 0, 3)];
    assert_eq!(
        sentence(&[ends[0], (106.0, 1, 1), (112.0, 1, 2), ends[1]]),
        "Carries 100 ops/s: held in 5 of 5 load steps of 2.00 s. It gives way at 121 ops/s: failed in 3 of 3 load steps \
         of 2.00 s. Between them goals held in 2 of 5 load steps of 2.00 s. These two rates are 21.0 % apart, more than the \
         precision of 10.0 %, and load steps between them differ (at 106 ops/s 1 of 2 and at 112 ops/s 1 of 3 held). What \
         decides it is a quieter machine, a goal further from what the machine does by itself, or at least 2 more load \
         steps that agree. These load steps decide it at --precision 21%."
    );
    // A rate that broke and a higher one that held differ too; of many rates those with the most load steps are listed.
    let many = [(104.0, 1, 1), (106.0, 0, 1), (108.0, 1, 0), (110.0, 1, 1), (112.0, 1, 1), (114.0, 1, 1)];
    let words = sentence(&[&ends[..1], &many[..], &ends[1..]].concat());
    assert!(words.contains("differ (for example at 104 ops/s 1 of 2, at 110 ops/s 1 of 2, at 112 ops/s"), "{words}");
    assert!(!words.contains("--budget"), "{words}");
    // Rates that agree, each with too few load steps, are a matter of time.
    let few = sentence(&[ends[0], (106.0, 1, 0), (114.0, 0, 1), ends[1]]);
    assert!(few.contains("were tried often enough. Use a longer --budget"), "{few}");
    // So it is if one of the two rates is undecided.
    let open = sentence(&[(100.0, 4, 0), (106.0, 1, 1), (112.0, 1, 2), ends[1]]);
    assert!(open.contains("Load steps at one rate differ. Use a quieter machine"), "{open}");
}

#[test]
fn the_same_load_steps_give_the_same_line_and_a_stopped_search_says_what_it_knows() {
    let store = Store::exponential(2_000.0);
    let spec = spec(vec![p99(20.0)]);
    let (result, first) = search(&store, &spec, Sampled::ServerCpu, 5);
    let mut driven = first.steps().iter();
    let (replayed, _) = searched(&spec, |rung| {
        let step = driven.next().unwrap();
        assert_eq!(step.rung, *rung);
        step.clone()
    });
    assert_eq!(replayed, result);
    let mut stopped = LineSearch::new(spec.clone());
    let mut dice = Dice(1);
    for _ in 0..2 {
        let Next::Rung(rung) = stopped.next() else { panic!("too early") };
        stopped.take(answer(&store, &spec, &rung, Sampled::ServerCpu, &mut dice));
    }
    let known = stopped.result(Ending::Stopped).sentence;
    let held = "What it carries is undecided. Goals held at 1,390 ops/s in 1 of 1 load step of 10.0 s. The search did not end.";
    assert_eq!(known, held);
}

#[test]
fn an_undecided_search_names_the_goal_that_broke() {
    let mut search = LineSearch::new(spec(vec![p99(1.0)]));
    search.take(step(2_480.0, false));
    let result = search.result(Ending::TimeUp);
    let words = "Goals broke at 2,480 ops/s in 1 of 1 load step of 2.00 s: p99 passes 1.00 ms (2.00 ms). Time was up";
    assert!(result.sentence.contains(words), "{}", result.sentence);
}

#[test]
fn it_goes_past_the_line_and_repeats_what_decides() {
    let (result, search) = search(&Store::exponential(2_000.0), &spec(vec![p99(20.0)]), Sampled::ServerCpu, 2);
    let count = |purpose| search.steps().iter().filter(|step| step.rung.purpose == purpose).count();
    assert_eq!((count(Purpose::Start), count(Purpose::Beyond)), (1, 1));
    let steps = |rate| search.steps().iter().filter(|step| step.rung.rate_per_s == Some(rate)).count() as u64;
    for one in [result.held.unwrap(), result.failed.unwrap()] {
        assert!(one.held + one.failed == steps(one.rate_per_s) && one.held.max(one.failed) >= 3, "{}", rungs(&search));
    }
}

#[test]
fn no_rung_is_too_short_for_its_percentiles() {
    // At some 270 a second a p99 takes 4 s, and the search ends with time that is too short for another rung.
    let store = Store::exponential(300.0);
    for budget_s in [60.0, 90.0, 120.0] {
        let spec = LineSpec { budget_s, ..spec(vec![p99(200.0)]) };
        for seed in 0..seeds() {
            let (result, search) = search(&store, &spec, Sampled::ServerCpu, seed);
            let fails = |step: &LoadStep| step.goals.iter().any(|goal| goal.value.is_none());
            assert!(!search.steps().iter().any(fails), "seed {seed}, {budget_s} s: {}", rungs(&search));
            assert!(!result.sentence.contains("No line"), "seed {seed}, {budget_s} s: {}", result.sentence);
            assert!(result.took_s <= budget_s, "seed {seed}: {} s", result.took_s);
        }
    }
}

#[test]
fn a_goal_that_takes_longer_than_there_is_time_is_said_before_it_is_tried() {
    let goal = Goal { what: GoalKind::named("p999").unwrap(), ..p99(20.0) };
    let spec = LineSpec { start_rate_per_s: Some(20.0), budget_s: 40.0, ..spec(vec![goal]) };
    let Next::Done(result) = LineSearch::new(spec).next() else { panic!("ten minutes do not fit into 40 s") };
    assert!(matches!(result.ending, Ending::NotMeasured(_)), "{:?}", result.ending);
    let sentence = "No line was found: a goal was not measured: at 20.0/s it takes 600 s to measure p99.9, and the whole search had \
                    40.0 s.";
    assert_eq!(result.sentence, sentence);
}

#[test]
fn a_rung_lasts_as_long_as_a_goal_of_a_rare_operation_type_needs() {
    let goal = Goal { of: Some("refund".to_owned()), ..p99(20.0) };
    let spec = LineSpec { budget_s: 36_000.0, ..spec(vec![goal.clone()]) };
    // One operation of 500 is one: at 1,000 a second a p99 takes ten minutes.
    let one = |rung: &Rung| {
        let rate = rung.rate_per_s.unwrap_or(2_000.0);
        let n = (rate * rung.seconds / 500.0) as u64;
        let value = if rate > 1_000.0 { 30e6 } else { 10e6 };
        let seen = GoalSeen::new(&goal, (n >= 1_000).then_some(value).ok_or_else(|| "too few".to_owned()), n);
        let (took_s, rung) = (rung.seconds + rung.warmup_s, rung.clone());
        LoadStep { rung, took_s, rate_per_s: rate, ended_per_s: rate, goals: vec![seen], ..Default::default() }
    };
    let (result, search) = searched(&spec, one);
    let at_rates = || search.steps().iter().filter(|step| step.rung.rate_per_s.is_some());
    assert!(at_rates().all(|step| step.goals[0].value.is_some()), "{}", rungs(&search));
    assert!(at_rates().count() > 3 && result.rate_per_s.is_some(), "{}", result.sentence);
}

#[test]
fn a_search_whose_time_is_up_says_that_and_nothing_of_a_goal_that_takes_milliseconds_to_measure() {
    let mut search = LineSearch::new(LineSpec { budget_s: 30.0, ..spec(vec![p99(20.0)]) });
    let Next::Rung(rung) = search.next() else { panic!("there is time for the first") };
    // Settling and opening sessions took most of it: there is no time for another rung.
    let (took_s, rate_per_s) = (26.0, 61_800.0);
    search.take(LoadStep { rung, took_s, rate_per_s, ended_per_s: rate_per_s, ..LoadStep::default() });
    let Next::Done(result) = search.next() else { panic!("it takes 23 s to prepare a rung") };
    assert_eq!(result.ending, Ending::TimeUp);
    let why = "time was up before a load step could be judged. Use a quieter machine or a longer --budget";
    assert_eq!(result.state, LineState::Undecided(why.to_string()));
    assert_eq!(result.sentence, format!("No line was found: {why}."));
}

#[test]
fn a_closed_loop_in_which_nothing_succeeds_ends_a_search() {
    let none = |rung: &Rung| LoadStep { rung: rung.clone(), took_s: 3.0, ..LoadStep::default() };
    let (result, _) = searched(&spec(vec![p99(20.0)]), none);
    assert_eq!(result.sentence, "The search ended: no operation of the closed loop succeeded.");
}

#[test]
fn a_load_step_far_beyond_that_fails_to_run_leaves_the_line_as_it_is() {
    let (mut dice, store) = (Dice(9), Store::exponential(2_000.0));
    let spec = spec(vec![p99(20.0)]);
    let (result, search) = searched(&spec, |rung| {
        let failed = (rung.purpose == Purpose::Beyond).then(|| "an operation did not return".to_owned());
        LoadStep { failed, ..answer(&store, &spec, rung, Sampled::Nothing, &mut dice) }
    });
    assert!(search.steps().iter().any(|step| step.failed.is_some()), "{}", rungs(&search));
    assert_eq!((result.ending, result.state), (Ending::Found, LineState::Decided));
}

#[test]
fn a_load_step_far_beyond_that_others_disturbed_is_driven_once_more() {
    let (mut dice, store) = (Dice(9), Store::exponential(2_000.0));
    let spec = spec(vec![p99(20.0)]);
    let mut beyond = 0;
    let (result, _) = searched(&spec, |rung| {
        let step = answer(&store, &spec, rung, Sampled::Nothing, &mut dice);
        beyond += u32::from(rung.purpose == Purpose::Beyond);
        let is_disturbed = rung.purpose == Purpose::Beyond && beyond == 1;
        LoadStep { void: is_disturbed.then(|| "others had the processors".to_owned()), ..step }
    });
    assert_eq!((beyond, result.beyond, result.ending), (2, Beyond::Queues, Ending::Found));
}

/// A checkpoint now and then, which for two seconds makes everything twice as slow.
fn with_checkpoints(every_s: f64, is_known: bool) -> Store {
    let cycle = Checkpoints { every_s, slow_s: 2.0, slower: 2.0, is_known, every_ops: None };
    Store { cycle: Some(cycle), ..Store::exponential(2_000.0) }
}

/// The most that is carried through the slow seconds: half of what it is between them.
const THROUGH_SLOW_PER_S: f64 = 1_000.0;

#[test]
fn rungs_that_decide_last_through_a_cycle_that_is_known_or_was_seen_or_that_work_brings_on() {
    // Many a store's cycle ends when so much was written: in ten seconds at the line, in a minute at a sixth of it.
    let by_work = |cycle| Checkpoints { every_ops: Some(10.0 * THROUGH_SLOW_PER_S), ..cycle };
    let by_work = Store { cycle: with_checkpoints(0.0, false).cycle.map(by_work), ..with_checkpoints(0.0, false) };
    // 9 s are short enough to come by in a climbing rung.
    for (store, what) in [
        (with_checkpoints(20.0, true), "known by settings"),
        (with_checkpoints(9.0, false), "seen"),
        (by_work, "brought on by work"),
    ] {
        for seed in 0..seeds() {
            let (result, search) = search(&store, &spec(vec![p99(20.0)]), Sampled::Nothing, seed);
            let told = format!("{what}: {}\n{}", result.sentence, rungs(&search));
            // The slow seconds are more than one in a hundred, so the p99 and the line are theirs.
            let held = result.held.as_ref().unwrap_or_else(|| panic!("{told}"));
            assert!((0.7..=1.1).contains(&(held.rate_per_s / THROUGH_SLOW_PER_S)), "{told}");
            // Where the rate was decided with the last of the time, none was left for a cycle at it.
            assert!(result.cycles_held >= 1.0 || result.took_s > 270.0, "{} s, {told}", result.took_s);
            assert!(result.took_s <= 300.0, "{} s, {told}", result.took_s);
            if what == "known by settings" {
                assert!(result.sentence.contains(". The deciding load steps saw "), "{told}");
                assert_eq!(result.cycle_words, None);
            }
        }
    }
}

#[test]
fn a_cycle_too_long_for_the_time_there_is_is_said_and_a_thorough_search_waits_for_it() {
    let store = with_checkpoints(570.0, true);
    let (result, _) = search(&store, &spec(vec![p99(20.0)]), Sampled::Nothing, 1);
    assert!(result.sentence.ends_with(NO_CHECKPOINT), "{}", result.sentence);
    assert_eq!(result.cycle_words.as_deref(), Some("checkpoint_timeout is long"));
    assert!(result.took_s <= 300.0, "{} s", result.took_s);
    let thorough = LineSpec { thorough: true, budget_s: 1_800.0, ..spec(vec![p99(20.0)]) };
    // Nothing of it breaks at what a store carries that is not slower for its checkpoints.
    let harmless = Store { cycle: store.cycle.map(|cycle| Checkpoints { slower: 1.0, ..cycle }), ..store };
    let (result, search_all) = search(&harmless, &thorough, Sampled::Nothing, 1);
    assert!(result.cycles_held >= 1.0, "{}\n{}", result.sentence, rungs(&search_all));
    assert!(result.took_s <= 1_800.0, "{} s\n{}", result.took_s, rungs(&search_all));
    // Where the goals break in a checkpoint, only rungs with one count, and it takes as long as they do.
    let (result, search_all) = search(&store, &thorough, Sampled::Nothing, 1);
    assert!(result.cycles_held >= 1.0, "{}\n{}", result.sentence, rungs(&search_all));
    let held = result.held.as_ref().unwrap().rate_per_s;
    let is_whole = |rung: &Rung| rung.rate_per_s == Some(held) && rung.seconds > 500.0;
    assert!(search_all.steps().iter().any(|step| is_whole(&step.rung)), "{}", rungs(&search_all));
    assert!(result.took_s <= 300.0 + 9.0 * 657.0, "{} s", result.took_s);
}

#[test]
fn a_generator_that_is_late_now_and_then_is_in_the_way_of_no_goal_that_held() {
    // Thirty milliseconds once a second: more than half of the p99 that operations have at most rates.
    let store = Store { generator_gone_s: 0.03, ..Store::exponential(2_000.0) };
    let median = Goal { what: GoalKind::named("p50").unwrap(), ..p99(8.0) };
    let truth = 2_000.0 - 2f64.ln() / 0.008;
    for seed in 0..seeds() {
        let (result, search) = search(&store, &spec(vec![median.clone()]), Sampled::Nothing, seed);
        assert_eq!(result.state, LineState::Decided, "{}\n{}", result.sentence, rungs(&search));
        // What goes out late goes out together: the store has it harder than on time, never easier.
        let share = result.rate_per_s.unwrap() / truth;
        assert!((0.85..=1.01).contains(&share), "{share}: {}\n{}", result.sentence, rungs(&search));
        let void = search.steps().iter().filter(|step| step.rung.rate_per_s.is_some() && step.void.is_some());
        assert!(void.count() > 2, "{}", rungs(&search));
    }
}

#[test]
fn a_p95_is_found_and_rungs_that_pauses_prolong_keep_the_budget() {
    let store = Store::exponential(2_000.0);
    let p95 = Goal { what: GoalKind::named("p95").unwrap(), ..p99(20.0) };
    let truth = 2_000.0 - 20f64.ln() / 0.020;
    right_within_three_per_cent(&store, &spec(vec![p95.clone()]), Sampled::ServerCpu, truth);
    // Each takes all the time that it may.
    let spec = LineSpec { budget_s: 60.0, ..spec(vec![p95]) };
    let (mut search, mut dice) = (LineSearch::new(spec.clone()), Dice(3));
    let result = loop {
        match search.next() {
            Next::Rung(rung) => {
                let most_s = search.may_last_s(&rung);
                assert!((rung.seconds..=2.0 * rung.seconds).contains(&most_s), "{most_s} of {}", rung.seconds);
                let longer = Rung { seconds: most_s, ..rung };
                search.take(answer(&store, &spec, &longer, Sampled::ServerCpu, &mut dice));
            }
            Next::Done(result) => break result,
        }
    };
    assert!(result.took_s <= 60.0 && result.n >= 6, "{} s, {}", result.took_s, rungs(&search));
    // Only the first load step has a long warm-up, where none was asked for.
    let warmups_s: Vec<f64> = search.steps().iter().map(|step| step.rung.warmup_s).collect();
    assert!(warmups_s[0] == 1.0 && warmups_s[1..].iter().all(|warmup_s| *warmup_s == 0.5), "{warmups_s:?}");
    let asked = LineSpec { warmup_s: Some(3.0), ..spec };
    let (_, search) = searched(&asked, |rung| answer(&store, &asked, rung, Sampled::Nothing, &mut dice));
    assert!(search.steps().iter().all(|step| step.rung.warmup_s == 3.0), "{}", rungs(&search));
}

/// Returns the result of a search through a kill of the primary, of five load steps at 6,200 a second and three at 6,900.
fn through_a_kill(held: impl Fn(usize) -> LoadStep, failed: impl Fn() -> LoadStep) -> LineResult {
    let faults = vec!["kill primary".to_owned()];
    let mut search = LineSearch::new(LineSpec { faults, precision: 0.15, ..spec(vec![p99(1.0)]) });
    (0..5).for_each(|number| search.take(held(number)));
    (0..3).for_each(|_| search.take(failed()));
    search.result(Ending::Found)
}

#[test]
fn a_line_through_faults_tells_when_they_were_noticed_and_the_outcomes_that_are_unknown() {
    let held = |number: usize| {
        let (outage_s, unknown) = [(2.8, 10), (3.0, 0), (3.1, 11), (3.4, 20), (3.6, 0)][number];
        let (outages_s, noticed_s, recoveries_s) = (vec![outage_s], Some(outage_s - 1.1), vec![outage_s]);
        LoadStep { outages_s, noticed_s, recoveries_s, unknown, lost: Some(0), ..step(6_200.0, true) }
    };
    let failed = || LoadStep { unrecovered_s: Some(12.0), ..step(6_900.0, true) };
    let result = through_a_kill(held, failed);
    let words = "Carries 6,200 ops/s through kill primary: held in 5 of 5 load steps of 2.00 s, no answer for 3.10 s \
                 (2.80 s to 3.60 s), 2.00 s of it until it was noticed; 41 outcomes unknown, none lost. It gives way at \
                 6,900 ops/s: failed in 3 of 3 load steps of 2.00 s, throughput does not come back within 12.0 s after \
                 the fault.";
    assert!(result.sentence.starts_with(words), "{}", result.sentence);
    let [least_s, _, most_s] = result.noticed.unwrap();
    assert!((least_s - 1.7).abs() < 1e-9 && (most_s - 2.5).abs() < 1e-9, "{least_s} to {most_s} s");
    // A promotion that ends the silence of a kill has the rest of it.
    let with_promotion = |number: usize| {
        let kill = held(number);
        LoadStep { outages_s: vec![kill.outages_s[0], 0.3], ..kill }
    };
    assert_eq!(through_a_kill(with_promotion, failed).sentence, result.sentence);
    // Nothing is said of writes that one check could not tell of.
    let some = |number: usize| LoadStep { noticed_s: Some(0.004), lost: None, ..held(number) };
    let result = through_a_kill(|number| if number == 0 { some(0) } else { held(number) }, failed);
    assert!(result.sentence.contains("; 41 outcomes unknown. It gives way"), "{}", result.sentence);
    assert!(through_a_kill(some, failed).sentence.contains(" s), noticed within 10 ms; 41"), "the first tick");
    let lost = |number: usize| LoadStep { unknown: 0, lost: Some(1), ..held(number) };
    let result = through_a_kill(lost, failed);
    assert!(result.sentence.contains("; no outcome unknown, 5 acknowledged writes lost. It"), "{}", result.sentence);
}

#[test]
fn writes_lost_stale_records_and_unknown_outcomes_beyond_their_goals_are_what_gives_way_first() {
    for (name, limit, got, words) in [
        ("lost", 0.0, 12.0, "acknowledged writes are lost (12)"),
        ("stale", 5.0, 7.0, "stale records in answers pass 5 (7)"),
        ("unknown", 40.0, 41.0, "unknown outcomes pass 40 (41)"),
    ] {
        let goal = Goal { what: GoalKind::named(name).unwrap(), of: None, limit, unit: String::new() };
        let with = |step: LoadStep, value: Result<f64, String>| {
            let goals = [step.goals.clone(), vec![GoalSeen::new(&goal, value, 1_000)]].concat();
            LoadStep { goals, ..step }
        };
        // What no ledger could tell is left to the goals of the run.
        let known = || if name == "unknown" { Ok(0.0) } else { Err("nothing was checked".to_owned()) };
        let result = through_a_kill(|_| with(step(6_200.0, true), known()), || with(step(6_900.0, true), Ok(got)));
        assert_eq!(result.state, LineState::Decided, "{}", result.sentence);
        assert_eq!(result.broken.as_ref().map(|broken| broken.what.name()).as_deref(), Some(name));
        let words = format!("failed in 3 of 3 load steps of 2.00 s, {words}.");
        assert!(result.sentence.contains(&words), "{}", result.sentence);
    }
}

/// A load step of which all that is known is if it held.
pub fn step(rate: f64, holds: bool) -> LoadStep {
    let goal = GoalSeen::new(&p99(1.0), Ok(if holds { 5e5 } else { 2e6 }), 1_000);
    let rung = Rung { ordinal: 0, rate_per_s: Some(rate), purpose: Purpose::Decide, warmup_s: 1.0, seconds: 2.0 };
    LoadStep { rung, took_s: 3.0, goals: vec![goal], ..LoadStep::default() }
}
