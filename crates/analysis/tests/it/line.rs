//! The search for the load line against simulated stores of known capacity.

use plimsoll_analysis::line::{LineSearch, LineSpec, Next, Purpose, RungSummary};
use plimsoll_analysis::view::{Beyond, Ending, LineResult, LineState, Rung};
use plimsoll_record::data::{Goal, GoalKind};

use crate::simulated::{Checkpoints, Sampled, Store, answer, errors, p99, search, searched};
use crate::study::Dice;

/// More of them in a heavy run.
fn seeds() -> u64 {
    if std::env::var_os("PLIMSOLL_HEAVY").is_some() { 60 } else { 4 }
}

fn spec(goals: Vec<Goal>) -> LineSpec {
    LineSpec { goals, cycles: vec!["checkpoints".into()], ..LineSpec::default() }
}

/// Searches with many seeds, each within its time: all but one in thirty within 3 % of the truth or, where they say that it is
/// undecided, with it in the interval, and none far from it. One percentile of a queue near saturation is noisy, and five minutes are what they are.
#[track_caller]
fn right_within_three_per_cent(store: &Store, spec: &LineSpec, sampled: Sampled, truth: f64) -> Vec<LineResult> {
    let mut beyond = 0;
    let one = |seed| {
        let (result, search) = search(store, spec, sampled, seed);
        let rate = result.rate_per_s.unwrap_or_else(|| panic!("seed {seed}: {}", result.sentence));
        let off = (rate / truth - 1.0) * 100.0;
        let is_inside = result.low_per_s.unwrap() <= truth && truth <= result.high_per_s.unwrap();
        let says_so = matches!(result.state, LineState::Undecided(_)) && is_inside;
        beyond += u64::from(off.abs() > 3.0 && !says_so);
        assert!(
            beyond <= seeds() / 30 && off.abs() <= 8.0,
            "seed {seed}: {rate} is {off:.2} % off {truth}: {}\n{}",
            result.sentence,
            rungs(&search)
        );
        assert!(result.took_s <= spec.budget_s, "seed {seed}: {} s", result.took_s);
        assert!(matches!(result.ending, Ending::Found | Ending::TimeUp), "seed {seed}: {}", result.sentence);
        result
    };
    (0..seeds()).map(one).collect()
}

fn rungs(search: &LineSearch) -> String {
    let line = |(rung, seen): &(Rung, RungSummary)| {
        let ratios: Vec<_> = seen.goals.iter().map(|goal| goal.ratio()).collect();
        format!(
            "{:?} {:?} {:.1} s: {ratios:.3?} {:.0}/s\n",
            rung.purpose, rung.rate_per_s, rung.seconds, seen.ended_per_s
        )
    };
    search.rungs().iter().map(line).collect()
}

#[test]
fn one_queue_with_exponential_service_is_found() {
    // Response times of M/M/1 are exponential with rate μ − λ: p99 = ln 100 / (μ − λ).
    for (limit_ms, truth) in [(20.0, 2_000.0 - 100f64.ln() / 0.020), (8.0, 2_000.0 - 100f64.ln() / 0.008)] {
        let store = Store::exponential(2_000.0);
        let results = right_within_three_per_cent(&store, &spec(vec![p99(limit_ms)]), Sampled::ServerCpu, truth);
        let inside =
            results.iter().filter(|one| (one.rate_per_s.unwrap() - truth).abs() <= one.uncertainty_per_s.unwrap());
        assert!(inside.count() as u64 * 10 >= seeds() * 7, "the uncertainty says too little");
        assert!(results.iter().all(|one| one.broken.as_ref().unwrap().what == "p99"));
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
        assert!(result.sentence.ends_with("; no checkpoint happened within the trial."), "{}", result.sentence);
    }
}

#[test]
fn without_any_goal_it_is_what_the_store_keeps_up_with() {
    let store = Store { servers: 2, service_s: 0.001, exponential: false, ..Store::exponential(1.0) };
    for result in right_within_three_per_cent(&store, &spec(Vec::new()), Sampled::Nothing, 2_000.0) {
        assert_eq!(result.broken.unwrap().what, "carried");
        assert!(result.sentence.contains("no sampled series changed with it"), "{}", result.sentence);
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
        assert_eq!((result.beyond, result.broken.unwrap().what.as_str()), (Beyond::Sheds, "errors"));
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
        assert!(result.sentence.contains("the generator, not the store"), "{}", result.sentence);
        let held = result.held_per_s.unwrap();
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
    assert_eq!((result.ending, result.held_per_s), (Ending::NoFailure, Some(900.0)));
    assert_eq!(result.sentence, "Carries at least 900 op/s, the most that was tried: no goal broke.");
    assert!(search_low.rungs().iter().all(|(rung, _)| rung.rate_per_s.is_none_or(|rate| rate <= 900.0)));
    let high = LineSpec { rate_min_per_s: 3_000.0, ..spec(vec![p99(20.0)]) };
    let (result, _) = search(&store, &high, Sampled::ServerCpu, 1);
    assert_eq!(result.ending, Ending::NoPass);
    assert!(result.sentence.starts_with("Does not keep its goals even at 3,000 op/s: p99 is"), "{}", result.sentence);
}

#[test]
fn a_short_time_gives_a_wider_line_and_a_rate_too_low_for_its_percentile_is_said() {
    let store = Store::exponential(2_000.0);
    let short = LineSpec { budget_s: 40.0, ..spec(vec![p99(20.0)]) };
    let (result, _) = search(&store, &short, Sampled::ServerCpu, 3);
    assert!(result.took_s <= 40.0, "{}", result.took_s);
    assert!((result.rate_per_s.unwrap() / 1_770.0 - 1.0).abs() < 0.1, "{}", result.sentence);
    // Two a second need 500 s for a thousand samples.
    let slow = Store::exponential(2.0);
    let (result, _) = search(&slow, &spec(vec![p99(20_000.0)]), Sampled::ServerCpu, 3);
    assert!(result.rate_per_s.is_none(), "{}", result.sentence);
    assert!(result.took_s <= 300.0);
}

#[test]
fn the_same_summaries_give_the_same_line_and_a_stopped_search_says_what_it_knows() {
    let store = Store::exponential(2_000.0);
    let spec = spec(vec![p99(20.0)]);
    let (result, first) = search(&store, &spec, Sampled::ServerCpu, 5);
    let mut summaries = first.rungs().iter();
    let (replayed, _) = searched(&spec, |rung| {
        let (asked, summary) = summaries.next().unwrap();
        assert_eq!(asked, rung);
        summary.clone()
    });
    assert_eq!(replayed, result);
    let mut stopped = LineSearch::new(spec.clone());
    let mut dice = Dice(1);
    for _ in 0..2 {
        let Next::Rung(rung) = stopped.next() else { panic!("too early") };
        let summary = answer(&store, &spec, &rung, Sampled::ServerCpu, &mut dice);
        stopped.take(rung, summary);
    }
    let known = stopped.result(Ending::Stopped).sentence;
    assert!(known.starts_with("Carries at least 99"), "{known}");
}

#[test]
fn it_goes_past_the_first_failure_and_repeats_what_decides() {
    let (result, search) = search(&Store::exponential(2_000.0), &spec(vec![p99(20.0)]), Sampled::ServerCpu, 2);
    let count = |purpose| search.rungs().iter().filter(|(rung, _)| rung.purpose == purpose).count();
    assert_eq!((count(Purpose::Start), count(Purpose::Beyond)), (1, 2));
    let line = result.rate_per_s.unwrap();
    for side in [line / 1.1..=line, line..=line * 1.1] {
        let near = search.rungs().iter().filter(|(rung, _)| rung.rate_per_s.is_some_and(|rate| side.contains(&rate)));
        assert!(near.count() >= 3, "{}", rungs(&search));
    }
    let longest = |purpose| {
        let of = search.rungs().iter().filter(|(rung, _)| rung.purpose == purpose);
        of.map(|(rung, _)| rung.seconds).fold(0.0, f64::max)
    };
    assert!(longest(Purpose::Decide) > 1.5 * longest(Purpose::Climb), "{}", rungs(&search));
}

#[test]
fn no_rung_is_too_short_for_its_percentiles() {
    // At some 270 a second a p99 takes 4 s, and the search ends with time that is too short for another rung.
    let store = Store::exponential(300.0);
    for budget_s in [60.0, 90.0, 120.0] {
        let spec = LineSpec { budget_s, ..spec(vec![p99(200.0)]) };
        for seed in 0..seeds() {
            let (result, search) = search(&store, &spec, Sampled::ServerCpu, seed);
            let fails = |n: &(Rung, RungSummary)| n.1.goals.iter().any(|goal| goal.value.is_none());
            assert!(!search.rungs().iter().any(fails), "seed {seed}, {budget_s} s: {}", rungs(&search));
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
    let sentence = "No line was found: at 20.0/s it takes 600 s to measure p99.9, and the whole search had 40.0 s.";
    assert_eq!(result.sentence, sentence);
}

#[test]
fn a_search_whose_time_is_up_says_that_and_nothing_of_a_goal_that_takes_milliseconds_to_measure() {
    let mut search = LineSearch::new(LineSpec { budget_s: 30.0, ..spec(vec![p99(20.0)]) });
    let Next::Rung(first) = search.next() else { panic!("there is time for the first") };
    // Settling and opening sessions took most of it: there is no time for another rung.
    let start =
        RungSummary { seconds: 3.0, took_s: 26.0, rate_per_s: 61_800.0, ended_per_s: 61_800.0, ..Default::default() };
    search.take(first, start);
    let Next::Done(result) = search.next() else { panic!("it takes 23 s to prepare a rung") };
    assert_eq!(result.ending, Ending::TimeUp);
    let why = "time was up before a rate was found at which every goal holds";
    assert_eq!(result.state, LineState::Undecided(why.to_string()));
    assert_eq!(result.sentence, format!("No line was found: {why}."));
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
            let rate = result.rate_per_s.unwrap_or_else(|| panic!("{told}"));
            assert!((0.8..=1.15).contains(&(rate / THROUGH_SLOW_PER_S)), "{told}");
            assert!(result.cycles_held >= 1.0 && result.took_s <= 300.0, "{} s, {told}", result.took_s);
            if what == "known by settings" {
                assert!(result.sentence.contains("; the deciding load steps saw "), "{told}");
                assert_eq!(result.cycle_words, None);
            }
        }
    }
}

#[test]
fn a_cycle_too_long_for_the_time_there_is_is_said_and_a_thorough_search_waits_for_it() {
    let store = with_checkpoints(570.0, true);
    let (result, _) = search(&store, &spec(vec![p99(20.0)]), Sampled::Nothing, 1);
    assert!(result.sentence.ends_with("; no checkpoint happened within the trial."), "{}", result.sentence);
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
    let held = result.held_per_s.unwrap();
    let whole = |(rung, _): &&(Rung, RungSummary)| rung.seconds > 500.0;
    assert!(search_all.rungs().iter().filter(|(rung, _)| rung.rate_per_s == Some(held)).any(|one| whole(&one)));
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
        assert!((0.92..=1.01).contains(&share), "{share}: {}\n{}", result.sentence, rungs(&search));
        let void = search.rungs().iter().filter(|(rung, seen)| rung.rate_per_s.is_some() && seen.void.is_some());
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
                let longer = Rung { seconds: most_s, ..rung.clone() };
                search.take(rung, answer(&store, &spec, &longer, Sampled::ServerCpu, &mut dice));
            }
            Next::Done(result) => break result,
        }
    };
    assert!(result.took_s <= 60.0 && result.n >= 6, "{} s, {}", result.took_s, rungs(&search));
}
