//! Statements of searches for the load line against the load steps that they are made from.

use plimsoll_analysis::line::{LineSearch, LineSpec, LoadStep, Next, Purpose};
use plimsoll_analysis::view::{AtRate, Ending, LineResult, LineState};

use crate::line::{rungs, seeds, spec, step};
use crate::simulated::{p99, searched};
use crate::study::Dice;

/// Holds the statements of a result against its load steps: a rate is carried, or is not, only if steps at that very rate
/// show it, by 18 to 1, and no steps on its wrong side show the contrary.
#[track_caller]
pub fn not_contradicted(result: &LineResult, steps: &[(f64, bool)], precision: f64) {
    let told = || format!("{}\n{steps:?}", result.sentence);
    let counts = |rate: f64| {
        let at = || steps.iter().filter(|(of, _)| *of == rate);
        (at().filter(|(_, holds)| *holds).count() as i32, at().filter(|(_, holds)| !holds).count() as i32)
    };
    let likelihood = |rate| {
        let (held, failed) = counts(rate);
        if held + failed < 3 { 1.0 } else { 0.9f64.powi(held) * 0.1f64.powi(failed) / 0.5f64.powi(held + failed) }
    };
    let shown = |one: &Option<AtRate>| one.clone().filter(|one| one.decided);
    let (carries, gives_way) = (shown(&result.held), shown(&result.failed));
    let said = |what: &str| result.sentence.to_lowercase().contains(what);
    assert_eq!(said("carries ") && !said("what it carries "), carries.is_some(), "{}", told());
    assert_eq!(said("gives way at"), gives_way.is_some(), "{}", told());
    for (one, sign) in [(&carries, 1.0), (&gives_way, -1.0)] {
        let Some(one) = one else { continue };
        assert_eq!(counts(one.rate_per_s), (one.held as i32, one.failed as i32), "{}", told());
        assert!(sign * likelihood(one.rate_per_s).ln() > 18f64.ln() - 1e-9, "{}", told());
        // Rates on the wrong side, each alone and neighbours together.
        let mut others: Vec<f64> = steps.iter().map(|(rate, _)| *rate).collect();
        others.retain(|rate| sign * (one.rate_per_s - rate) > 0.0);
        others.sort_by(f64::total_cmp);
        for (first, from) in others.iter().enumerate() {
            for to in &others[first..] {
                let within = steps.iter().filter(|(rate, _)| (from..=to).contains(&rate));
                let ln = within.map(|(_, holds)| if *holds { 1.8f64.ln() } else { 0.2f64.ln() }).sum::<f64>();
                assert!(sign * ln > -18f64.ln() - 1e-9, "{}", told());
            }
        }
    }
    let near =
        carries.zip(gives_way).is_some_and(|(a, b)| b.rate_per_s <= a.rate_per_s * (1.0 + precision) * (1.0 + 1e-9));
    assert_eq!(result.state == LineState::Decided, near, "{}", told());
    assert!(!said(" 0 load steps"), "{}", told());
}

/// Returns the rates of load steps that say something, and if the goals held: those of a broken goal, and those of which
/// every goal was measured.
pub fn judged(steps: &[LoadStep]) -> Vec<(f64, bool)> {
    let judged = |step: &LoadStep| {
        let unsent = step.unsent_share / 0.005f64.max(0.1 / step.rung.seconds.max(0.1));
        let holds = step.goals.iter().filter_map(|goal| goal.ratio()).fold(unsent, f64::max) <= 1.0;
        let is_told = !holds || step.goals.iter().all(|goal| goal.value.is_some());
        let is_void = step.failed.is_some() || step.void.is_some() && !holds;
        step.rung.rate_per_s.filter(|_| is_told && !is_void).map(|rate| (rate, holds))
    };
    steps.iter().filter_map(judged).collect()
}

/// Replays the searches of real servers whose load steps stand in the journal, step by step.
#[test]
fn no_statement_about_a_real_server_is_one_that_the_load_steps_so_far_contradict() {
    let mut searches = 0;
    for file in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/journal/data")).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let mut rows = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let header = rows.next().unwrap();
        let place = |name: &str| header.iter().position(|column| *column == name);
        let places = [place("seed"), place("step"), place("rate_per_s"), place("state")];
        // Other tables may stand there, too.
        let [Some(seed), Some(step_at), Some(rate_at), Some(state)] = places else { continue };
        // A load step has a row for each goal.
        let mut rows: Vec<_> = rows.collect();
        rows.dedup_by(|a, b| [a[seed], a[step_at]] == [b[seed], b[step_at]]);
        for driven in rows.chunk_by(|a, b| a[seed] == b[seed]) {
            let spec = spec(Vec::new());
            let (mut search, mut steps) = (LineSearch::new(spec.clone()), Vec::new());
            for row in driven.iter().filter(|row| ["held", "failed"].contains(&row[state])) {
                let (rate, holds) = (row[rate_at].parse().unwrap(), row[state] == "held");
                steps.push((rate, holds));
                search.take(step(rate, holds));
                not_contradicted(&search.result(Ending::TimeUp), &steps, spec.precision);
            }
            searches += 1;
        }
    }
    assert!(searches >= 50, "{searches}");
}

#[test]
fn no_statement_is_one_that_the_load_steps_contradict_and_no_gap_is_left_untried() {
    let (mut dice, mut contradictions, mut gaps) = (Dice(1), 0, 0);
    let below = |n: usize, dice: &mut Dice| (dice.unit() * n as f64) as usize;
    for table in 0..10_000 {
        let rates: Vec<f64> = (0..1 + below(8, &mut dice)).map(|_| (100.0 + dice.unit() * 100.0).round()).collect();
        // Steps that follow a line, that hold by chance, and that go against all reason.
        let (line, chance) = (100.0 + dice.unit() * 100.0, dice.unit());
        let steps: Vec<(f64, bool)> = (0..below(40, &mut dice))
            .map(|_| {
                let rate = rates[below(rates.len(), &mut dice)];
                let holds = match table % 3 {
                    0 => dice.unit() < 1.0 / (1.0 + ((rate - line) / 5.0).exp()),
                    1 => dice.unit() < chance,
                    _ => (rate > line) == (dice.unit() < 0.9),
                };
                (rate, holds)
            })
            .collect();
        let spec = spec(Vec::new());
        let mut search = LineSearch::new(spec.clone());
        steps.iter().for_each(|(rate, holds)| search.take(step(*rate, *holds)));
        let result = search.result(Ending::TimeUp);
        not_contradicted(&result, &steps, spec.precision);
        let (low, high) = contradiction(&steps);
        if let Next::Rung(rung) = search.next() {
            // Between rates that contradict each other nothing can be shown before one of them is undecided again.
            let is_open = rung.purpose == Purpose::Decide && high > low * (1.0 + spec.precision) * (1.0 + 1e-9);
            assert!(!is_open || [low, high].map(Some).contains(&rung.rate_per_s), "{low} {high} {rung:?}\n{steps:?}");
            contradictions += usize::from(is_open);
        }
        if let (Some(held), Some(failed), None) = (&result.held, &result.failed, &result.between)
            && failed.rate_per_s > held.rate_per_s * (1.0 + spec.precision) * 1.001
        {
            let Next::Rung(rung) = search.next() else { panic!("a gap is left untried: {}", result.sentence) };
            let is_inside = rung.rate_per_s.is_some_and(|rate| held.rate_per_s < rate && rate < failed.rate_per_s);
            assert!(is_inside, "{rung:?}: {}\n{steps:?}", result.sentence);
            gaps += 1;
        }
    }
    assert!(contradictions > 0 && gaps > 0, "{contradictions} contradictions, {gaps} gaps");
}

/// Load steps of searches whose line once lay above the only rate that had held: an untried gap, and failures above it.
#[test]
fn one_load_step_that_held_below_a_gap_carries_nothing_and_the_gap_is_tried_next() {
    for (held, failed) in [
        (21_700.0, &[43_300.0, 45_000.0, 50_000.0, 44_000.0][..]),
        (20_400.0, &[32_000.0, 33_000.0, 35_000.0, 40_000.0]),
        (26_400.0, &[43_000.0, 45_000.0, 43_000.0, 50_000.0]),
        (1_250.0, &[2_500.0, 2_600.0, 2_800.0, 2_900.0, 3_000.0, 3_100.0, 3_200.0, 3_300.0, 3_500.0, 3_600.0, 3_750.0]),
    ] {
        let steps: Vec<(f64, bool)> =
            std::iter::once((held, true)).chain(failed.iter().map(|rate| (*rate, false))).collect();
        let spec = spec(Vec::new());
        let mut search = LineSearch::new(spec.clone());
        steps.iter().for_each(|(rate, holds)| search.take(step(*rate, *holds)));
        let result = search.result(Ending::TimeUp);
        not_contradicted(&result, &steps, spec.precision);
        assert_ne!(result.state, LineState::Decided, "{}", result.sentence);
        assert!(!result.held.as_ref().is_some_and(|one| one.decided), "{}", result.sentence);
        let Next::Rung(rung) = search.next() else { panic!("a gap is left untried: {}", result.sentence) };
        assert!(rung.rate_per_s.is_some_and(|rate| held < rate && rate < failed[0]), "{rung:?}");
    }
}

/// The lowest rate up to which neighbours show that they are not carried, and the highest from which on they show that
/// they are.
fn contradiction(steps: &[(f64, bool)]) -> (f64, f64) {
    let (mut low, mut high) = (f64::INFINITY, 0f64);
    let mut rates: Vec<f64> = steps.iter().map(|(rate, _)| *rate).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    for (first, from) in rates.iter().enumerate() {
        for to in &rates[first..] {
            let within = steps.iter().filter(|(rate, _)| (from..=to).contains(&rate));
            let ln = within.map(|(_, holds)| if *holds { 1.8f64.ln() } else { 0.2f64.ln() }).sum::<f64>();
            low = if ln < -18f64.ln() { low.min(*to) } else { low };
            high = if ln > 18f64.ln() { high.max(*from) } else { high };
        }
    }
    (low, high)
}

#[test]
fn the_line_is_stated_only_where_it_is_and_nothing_between_its_two_rates_is_left_untried() {
    // The share of load steps that hold at a rate, the rate at which most do not, and what a closed loop reaches.
    type Holds = fn(f64) -> f64;
    let slow_answers: Holds = |rate| if rate < 1_400.0 { 0.97 } else { 0.02 };
    let far_below_the_closed_loop: Holds = |rate| if rate < 24_000.0 { 1.0 } else { 0.0 };
    let more_and_more_often: Holds = |rate| 1.0 / (1.0 + (f64::ln(rate / 30_000.0) / 0.015).exp());
    // Of ten searches of a minute so many decide; where load steps differ in a wide range of rates, fewer do.
    for (holds, line, reached, of_ten) in [
        (slow_answers, 1_400.0, 5_000.0, 9),
        (far_below_the_closed_loop, 24_000.0, 173_000.0, 10),
        (more_and_more_often, 30_000.0, 60_000.0, 5),
    ] {
        let (mut decided, mut stated, mut wrong, mut dice) = (0, 0, 0, Dice(7));
        let searches = 40 * seeds();
        for _ in 0..searches {
            let spec = LineSpec { budget_s: 60.0, ..spec(vec![p99(1.0)]) };
            let mut steps = Vec::new();
            let (result, search) = searched(&spec, |rung| {
                let (took_s, rung) = (rung.warmup_s + rung.seconds + 0.2, rung.clone());
                let Some(rate) = rung.rate_per_s else {
                    return LoadStep { rung, took_s, rate_per_s: reached, ..LoadStep::default() };
                };
                steps.push((rate, dice.unit() < holds(rate)));
                LoadStep { rung, took_s, ..step(rate, steps[steps.len() - 1].1) }
            });
            not_contradicted(&result, &steps, spec.precision);
            let shown = |one: &Option<AtRate>| one.as_ref().filter(|one| one.decided).map(|one| holds(one.rate_per_s));
            let (carries, gives_way) = (shown(&result.held), shown(&result.failed));
            stated += carries.iter().chain(&gives_way).count();
            wrong += usize::from(carries.is_some_and(|share| share <= 0.5))
                + usize::from(gives_way.is_some_and(|share| share >= 0.9));
            if result.state == LineState::Decided {
                decided += 1;
                let (carries, gives_way) = (result.rate_per_s.unwrap(), result.failed.as_ref().unwrap().rate_per_s);
                assert!(
                    carries < 1.02 * line && gives_way > 0.98 * line,
                    "{line}: {}\n{}",
                    result.sentence,
                    rungs(&search)
                );
            }
            if let (Some(held), Some(failed), None) = (&result.held, &result.failed, &result.between) {
                let is_wide = failed.rate_per_s > held.rate_per_s * (1.0 + spec.precision) * 1.001;
                let inside = held.rate_per_s..=failed.rate_per_s;
                let is_outside = steps.iter().rev().take(2).all(|(rate, _)| !inside.contains(rate));
                assert!(!(is_wide && is_outside), "{line}: {}\n{}", result.sentence, rungs(&search));
            }
        }
        assert!(wrong * 18 <= stated, "{line}: {wrong} of {stated} statements are wrong");
        assert!(decided * 10 >= searches * of_ten, "{line}: {decided} of {searches}");
    }
}
