//! Shares, times and series inside and outside of a selection, by the size of their differences.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use plimsoll_core::Measure;
use plimsoll_core::sampler::{ANSWERS, WITNESS};
use plimsoll_record::data::{Run, Series, SeriesKind};

use crate::name;
use crate::number;
use crate::stat::special::ln_gamma;
use crate::view::{DifferenceOf, DifferenceView};

use super::Part;

/// Smallest difference of two shares that is listed.
const SHARE_MIN: f64 = 0.05;
/// Smallest effect of other values that is listed: in two of three pairs, the value inside is the larger one.
const EFFECT_MIN: f64 = 1.0 / 3.0;
/// Standard deviations of chance above which a difference is clear, and the probability of a value beyond them.
const CHANCE: f64 = 3.0;
const CHANCE_PROBABILITY: f64 = 0.0027;
/// Part of a sum below which its terms are left out.
const NEGLIGIBLE: f64 = 1e-12;
/// Ratio of two values that matters, and difference of two shares of a series, in percentage points.
const TIMES_MIN: f64 = 1.25;
const POINTS_MIN: f64 = 5.0;
/// Orders of magnitude from which a ratio is no larger than others.
const ORDERS_MAX: f64 = 5.0;

/// Observations inside and outside of a selection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) inside: u64,
    pub(super) outside: u64,
}

impl Counts {
    fn add(&mut self, inside: u64, all: u64) {
        self.inside += inside;
        self.outside += all - inside;
    }
}

/// Numbers of operations by what they have in common.
#[derive(Default)]
pub(super) struct Tally {
    /// All operations.
    pub(super) total: Counts,
    /// Operations that pauses of the machine disturbed; `None` if a slice was not watched.
    pub(super) disturbed: Option<Counts>,
    /// Answers of all servers, if there are several.
    answers: Counts,
    shares: BTreeMap<(DifferenceOf, String), Counts>,
}

impl Tally {
    /// Counts the operations of `parts`.
    pub(super) fn of(run: &Run, parts: &[Part<'_, '_>]) -> Self {
        let mut tally = Tally { disturbed: Some(Counts::default()), ..Tally::default() };
        for part in parts {
            tally.operations(part, parts.len() > 1);
            tally.servers(run, part);
        }
        tally
    }

    fn add(&mut self, of: DifferenceOf, name: &str, inside: u64, all: u64) {
        self.shares.entry((of, name.to_owned())).or_default().add(inside, all);
    }

    fn operations(&mut self, part: &Part<'_, '_>, is_one_of_several: bool) {
        let (facts, place) = (part.facts, name::place(part.facts));
        for (side, slice) in part.slices() {
            let Some(inside) = side else { continue };
            let selected = |counts: &[(u64, u64)]| if inside { part.selected(counts) } else { 0 };
            for one in facts.ended(slice) {
                let (here, all) = (selected(one.histogram.counts()), one.histogram.len());
                let op = facts.op_name(one.kind);
                self.total.add(here, all);
                self.add(DifferenceOf::OperationType, op, here, all);
                self.add(DifferenceOf::Outcome, one.outcome.name(), here, all);
                if let Some((scenario, _)) = op.split_once('/').filter(|(scenario, _)| !scenario.is_empty()) {
                    self.add(DifferenceOf::Scenario, scenario, here, all);
                }
                if is_one_of_several {
                    self.add(DifferenceOf::Place, &place, here, all);
                }
            }
            if let Some(unsent) = slice.unfinished.as_ref().filter(|unsent| !unsent.is_empty()) {
                let (here, all) = (selected(unsent.counts()), unsent.len());
                self.total.add(here, all);
                self.add(DifferenceOf::Outcome, "never sent", here, all);
            }
            match (&slice.watched, &mut self.disturbed) {
                (Some(watched), Some(disturbed)) => {
                    for one in watched.disturbed.iter().filter(|one| one.measure == facts.measure()) {
                        disturbed.add(selected(one.histogram.counts()), one.histogram.len());
                    }
                }
                _ => self.disturbed = None,
            }
        }
    }

    /// Counts the answers of each of several servers.
    fn servers(&mut self, run: &Run, part: &Part<'_, '_>) {
        for sample in &run.samples {
            let Some(at) = part.slice_at(sample.at_ns, run.header.slice_ns) else { continue };
            let Some(inside) = part.sides.get(at).copied().flatten() else { continue };
            for (position, times) in &sample.distributions {
                let series = run.series.get(*position as usize);
                let Some(series) = series.filter(|series| series.source == ANSWERS) else { continue };
                let here = if inside { part.selected(times.counts()) } else { 0 };
                self.answers.add(here, times.len());
                self.add(DifferenceOf::Server, &series.subject, here, times.len());
            }
        }
    }

    /// Lists the shares that differ.
    fn differences(&self) -> impl Iterator<Item = DifferenceView> + '_ {
        self.shares.iter().filter_map(|((of, name), part)| {
            let total = if *of == DifferenceOf::Server { self.answers } else { self.total };
            share(*of, name, *part, total)
        })
    }
}

/// Returns the differences of shares, times and series; those that chance seldom makes first, then by effect.
pub(super) fn of(run: &Run, parts: &[Part<'_, '_>], tally: &Tally) -> Vec<DifferenceView> {
    let mut all = Observations::default();
    for part in parts {
        all.load(part);
        all.times(part);
        all.samples(run, part);
    }
    let others = all.0.into_iter().filter_map(|((of, name), seen)| seen.difference(of, &name));
    let mut differences: Vec<DifferenceView> = tally.differences().chain(others).collect();
    differences.sort_by(by_rank);
    differences
}

/// Returns the difference of a series whose values inside and outside are known; `None` if both are alike. `is_counted`
/// is true for counts of a time.
pub(crate) fn of_series(
    (name, unit): (&str, &str),
    is_counted: bool,
    inside: &[f64],
    outside: &[f64],
) -> Option<DifferenceView> {
    let seen = |values: &[f64]| -> Seen { values.iter().map(|value| (*value, 1)).collect() };
    let sides = Sides { unit: unit.to_owned(), is_counted, inside: seen(inside), outside: seen(outside) };
    sides.difference(DifferenceOf::Series, name)
}

/// Orders differences: those that matter and that chance seldom makes first, then by effect.
pub(crate) fn by_rank(a: &DifferenceView, b: &DifferenceView) -> Ordering {
    // Effects that are nearly equal are ordered by the size of the change, and load follows on what may cause it.
    let rank = |one: &DifferenceView| {
        let effect = (one.effect.abs() * 20.0).round() as u32;
        (matters(one), one.clear, effect)
    };
    let is_load = |one: &DifferenceView| one.of == DifferenceOf::Load;
    let by_change = change(b).total_cmp(&change(a));
    rank(b).cmp(&rank(a)).then(by_change).then(is_load(a).cmp(&is_load(b)))
}

/// Returns true for a difference that is worth a sentence: neither nearly equal values, nor one of next to nothing.
pub(crate) fn matters(one: &DifferenceView) -> bool {
    let (least, most) = (one.inside.min(one.outside), one.inside.max(one.outside));
    let is_share_of_operations =
        !matches!(one.of, DifferenceOf::Latency | DifferenceOf::Step | DifferenceOf::Load | DifferenceOf::Series);
    let size = match one.unit.as_str() {
        "B" | "B/s" => f64::from(1 << 20),
        "ns" => 1e4,
        _ => 1.0,
    };
    match one.unit.as_str() {
        _ if is_share_of_operations => true,
        "%" => most - least >= POINTS_MIN && most >= TIMES_MIN * least,
        _ => most >= size && most >= TIMES_MIN * least,
    }
}

/// Returns the size of a change: of a share its part of 100 per cent, of other values a tenth of their orders of
/// magnitude.
fn change(one: &DifferenceView) -> f64 {
    match (one.unit.as_str(), one.ratio) {
        ("%", _) => (one.inside - one.outside).abs() / 100.0,
        (_, Some(ratio)) if ratio > 0.0 => 0.1 * ratio.log10().abs().min(ORDERS_MAX),
        _ => 0.1 * ORDERS_MAX,
    }
}

fn share(of: DifferenceOf, name: &str, part: Counts, total: Counts) -> Option<DifferenceView> {
    let n = Counts { inside: total.inside.max(1), outside: total.outside.max(1) };
    let share = |part: u64, n: u64| part as f64 / n as f64;
    let (inside, outside) = (share(part.inside, n.inside), share(part.outside, n.outside));
    let effect = inside - outside;
    (effect.abs() >= SHARE_MIN && total.inside > 0 && total.outside > 0).then(|| {
        let values = (inside * 100.0, outside * 100.0);
        view(of, name, "%", values, total, effect, chance(part, total) < CHANCE_PROBABILITY)
    })
}

/// Returns the probability that two shares differ so much or more if they are equal in truth: twice the tail of
/// Fisher's exact test. Of few operations a proportion is not normally distributed.
fn chance(part: Counts, total: Counts) -> f64 {
    let (n, all) = (total.inside as f64, (total.inside + total.outside) as f64);
    let (k, with) = (part.inside as f64, (part.inside + part.outside) as f64);
    // Of a smaller share inside, the share of the rest is the larger one.
    let (k, with) = if k * all < with * n { (n - k, all - with) } else { (k, with) };
    let ln_ways = |of: f64, chosen: f64| ln_gamma(of + 1.0) - ln_gamma(chosen + 1.0) - ln_gamma(of - chosen + 1.0);
    let mut term = (ln_ways(with, k) + ln_ways(all - with, n - k) - ln_ways(all, n)).exp();
    let (mut at, mut tail) = (k, 0.0);
    while term > tail * NEGLIGIBLE {
        tail += term;
        term *= (with - at) * (n - at) / ((at + 1.0) * (all - with - n + at + 1.0));
        at += 1.0;
    }
    2.0 * tail
}

fn view(
    of: DifferenceOf,
    name: &str,
    unit: &str,
    (inside, outside): (f64, f64),
    n: Counts,
    effect: f64,
    clear: bool,
) -> DifferenceView {
    let ratio = (outside != 0.0).then(|| inside / outside);
    let times = ratio.map_or(String::new(), |ratio| format!(" ({} × as much here)", number::significant(ratio)));
    let shown = |value: f64| number::with_unit(value, unit);
    DifferenceView {
        of,
        name: name.to_owned(),
        unit: unit.to_owned(),
        inside,
        outside,
        ratio,
        n_inside: n.inside,
        n_outside: n.outside,
        effect,
        clear,
        text: format!("{} {name}: {} here, {} otherwise{times}", of.name(), shown(inside), shown(outside)),
    }
}

/// Values, and the number of times that each was seen.
type Seen = Vec<(f64, u64)>;

/// Values of one kind inside and outside of a selection.
#[derive(Default)]
struct Sides {
    unit: String,
    /// Values are counts of a time, which are summed up by their mean: the median is 0 of a server that publishes them
    /// more rarely than a slice ends, or that answers nothing in most slices.
    is_counted: bool,
    inside: Seen,
    outside: Seen,
}

impl Sides {
    fn add(&mut self, inside: bool, value: f64, count: u64) {
        if inside { &mut self.inside } else { &mut self.outside }.push((value, count));
    }

    fn difference(self, of: DifferenceOf, name: &str) -> Option<DifferenceView> {
        let Sides { unit, is_counted, inside, outside } = self;
        let (inside, outside) = (ordered(inside), ordered(outside));
        let count = |seen: &[(f64, u64)]| seen.iter().map(|(_, count)| count).sum::<u64>();
        let n = Counts { inside: count(&inside), outside: count(&outside) };
        if n.inside == 0 || n.outside == 0 {
            return None;
        }
        let middle = |seen: &[(f64, u64)]| if is_counted { mean(seen) } else { median(seen) };
        let (here, otherwise) = (middle(&inside), middle(&outside));
        let effect = dominance(&inside, &outside);
        if effect.abs() < EFFECT_MIN || here == otherwise {
            return None;
        }
        // The standard deviation of the statistic for two samples of one distribution (Mann and Whitney, 1947).
        let (a, b) = (n.inside as f64, n.outside as f64);
        let error = ((a + b + 1.0) / (3.0 * a * b)).sqrt();
        Some(view(of, name, &unit, (here, otherwise), n, effect, effect.abs() > CHANCE * error))
    }
}

/// Observations by their subject and name.
#[derive(Default)]
struct Observations(BTreeMap<(DifferenceOf, String), Sides>);

impl Observations {
    fn of(&mut self, of: DifferenceOf, name: String, unit: &str) -> &mut Sides {
        let sides = self.0.entry((of, name)).or_default();
        if sides.unit.is_empty() {
            unit.clone_into(&mut sides.unit);
        }
        sides
    }

    /// Adds the load of each slice.
    fn load(&mut self, part: &Part<'_, '_>) {
        let side_of = |ordinal: u32| part.seconds.get(ordinal as usize).copied().flatten();
        for (slice, rate) in part.facts.slice_rates(true) {
            let Some(inside) = side_of(slice.ordinal) else { continue };
            let rates = self.of(DifferenceOf::Load, "operations a second".to_owned(), "1/s");
            rates.is_counted = true;
            rates.add(inside, rate, 1);
            for (name, unit, value) in [
                ("operations in flight", "", slice.in_flight as f64),
                ("operations due and not sent", "", slice.due_unsent as f64),
                ("p99 of the generator's scheduling delay", "ns", slice.lag_p99_ns as f64),
            ] {
                self.of(DifferenceOf::Load, name.to_owned(), unit).add(inside, value, 1);
            }
        }
    }

    /// Adds the times of operation types, unless these were selected by their times, and of steps.
    fn times(&mut self, part: &Part<'_, '_>) {
        let facts = part.facts;
        let kinds = &facts.trial.header.kinds;
        for (side, slice) in part.seconds.iter().zip(&facts.phase.slices) {
            let Some(inside) = side else { continue };
            let mut add = |of: DifferenceOf, name: String, counts: &[(u64, u64)]| {
                let sides = self.of(of, name, "ns");
                counts.iter().for_each(|(ns, count)| sides.add(*inside, *ns as f64, *count));
            };
            if part.above_ns.is_none() {
                for one in facts.ended(slice).filter(|one| !one.outcome.is_error()) {
                    add(DifferenceOf::Latency, facts.op_name(one.kind).to_owned(), one.histogram.counts());
                }
            }
            for one in slice.histograms.iter().filter(|one| one.measure == Measure::Service) {
                let step_of = kinds.get(usize::from(one.kind)).and_then(|kind| kind.step_of);
                if let Some(step_of) = step_of {
                    let name = format!("{} of {}", facts.op_name(one.kind), facts.op_name(step_of));
                    add(DifferenceOf::Step, name, one.histogram.counts());
                }
            }
        }
    }

    /// Adds the samples of all series.
    fn samples(&mut self, run: &Run, part: &Part<'_, '_>) {
        let told = |position: u32| run.series.get(position as usize).filter(|series| is_told(series));
        for sample in &run.samples {
            let Some(at) = part.slice_at(sample.at_ns, run.header.slice_ns) else { continue };
            let Some(inside) = part.seconds.get(at).copied().flatten() else { continue };
            for (position, value) in &sample.values {
                let Some(series) = told(*position) else { continue };
                let sides = self.of(DifferenceOf::Series, series_name(series), &series.unit);
                sides.is_counted = matches!(series.kind, SeriesKind::Cycle | SeriesKind::Total);
                sides.add(inside, *value, 1);
            }
            for (position, times) in &sample.distributions {
                let Some(series) = told(*position) else { continue };
                let sides = self.of(DifferenceOf::Series, series_name(series), "ns");
                times.counts().iter().for_each(|(ns, count)| sides.add(inside, *ns as f64, *count));
            }
        }
    }
}

/// Returns false for series that others tell: idle processors, the witness of pauses, and times of answers.
fn is_told(series: &Series) -> bool {
    let is_idle = series.source == "cpu" && series.name == "idle";
    let is_of_answers = series.source == ANSWERS && series.name != "rate";
    !is_idle && !is_of_answers && series.source != WITNESS
}

/// Returns the name of a series: source, subject and name.
fn series_name(series: &Series) -> String {
    let name = series.spoken();
    let words = [series.source.as_str(), &series.subject, &name].into_iter().filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

/// Returns the values in ascending order, each once.
fn ordered(mut seen: Seen) -> Seen {
    seen.retain(|(value, count)| !value.is_nan() && *count > 0);
    seen.sort_by(|a, b| a.0.total_cmp(&b.0));
    seen.dedup_by(|next, kept| {
        let is_equal = next.0 == kept.0;
        kept.1 += if is_equal { next.1 } else { 0 };
        is_equal
    });
    seen
}

/// Returns the mean; 0 of none.
fn mean(seen: &[(f64, u64)]) -> f64 {
    let n: u64 = seen.iter().map(|(_, count)| count).sum();
    seen.iter().map(|(value, count)| value * *count as f64).sum::<f64>() / n.max(1) as f64
}

/// Returns the median of ordered values; 0 of none.
fn median(seen: &[(f64, u64)]) -> f64 {
    let n: u64 = seen.iter().map(|(_, count)| count).sum();
    // Ranks from 1; of an odd number both are the middle.
    let at = |rank: u64| {
        let mut before = 0u64;
        let found = seen.iter().find(|(_, count)| {
            before += *count;
            before >= rank
        });
        found.map_or(0.0, |(value, _)| *value)
    };
    f64::midpoint(at(n.div_ceil(2)), at(n / 2 + 1))
}

/// Returns Cliff's delta of two ordered lists: the probability that a value of `a` is larger than one of `b`, minus
/// that it is smaller.
fn dominance(a: &[(f64, u64)], b: &[(f64, u64)]) -> f64 {
    let count = |seen: &[(f64, u64)]| seen.iter().map(|(_, count)| count).sum::<u64>() as f64;
    let (of_a, of_b) = (count(a), count(b));
    let (mut others, mut below, mut sum) = (b.iter().peekable(), 0.0, 0.0);
    for (value, times) in a {
        while let Some((_, more)) = others.next_if(|(other, _)| other < value) {
            below += *more as f64;
        }
        let equal = others.peek().filter(|(other, _)| other == value).map_or(0.0, |(_, equal)| *equal as f64);
        let above = of_b - below - equal;
        sum += *times as f64 * (below - above);
    }
    if of_a * of_b == 0.0 { 0.0 } else { sum / (of_a * of_b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_effect_is_one_if_all_values_are_larger_and_zero_if_both_are_alike() {
        let seen = |values: &[f64]| ordered(values.iter().map(|value| (*value, 1)).collect());
        let (low, high) = (seen(&[1.0, 2.0, 3.0]), seen(&[4.0, 5.0]));
        assert_eq!((dominance(&high, &low), dominance(&low, &high)), (1.0, -1.0));
        assert_eq!(dominance(&low, &low), 0.0);
        // Of four pairs, one is larger, one is equal and two are smaller.
        assert_eq!(dominance(&seen(&[1.0, 2.0]), &seen(&[1.0, 2.5])), -0.25);
        assert_eq!(dominance(&seen(&[]), &low), 0.0);
    }

    #[test]
    fn a_median_counts_each_value_as_often_as_it_was_seen() {
        assert_eq!(median(&ordered(vec![(9.0, 1), (1.0, 3), (f64::NAN, 7)])), 1.0);
        assert_eq!(median(&ordered(vec![(1.0, 1), (2.0, 1), (2.0, 1), (8.0, 1)])), 2.0);
        assert_eq!(median(&ordered(vec![(1.0, 2), (4.0, 2)])), 2.5);
        assert_eq!((median(&[]), mean(&[])), (0.0, 0.0));
    }

    #[test]
    fn a_share_that_chance_makes_is_not_clear() {
        let of = |inside, outside| {
            let part = Counts { inside, outside };
            share(DifferenceOf::Outcome, "ok", part, Counts { inside: 10, outside: 1_000 })
        };
        assert!(of(9, 900).is_none(), "equal");
        assert!(!of(7, 900).unwrap().clear, "of ten operations");
        assert!(of(1, 900).unwrap().clear);
        // Of a type with a share of 5 %, one operation is no sign, and two are a coincidence of 1 in 200.
        let rare = |inside, outside| {
            let part = Counts { inside, outside };
            share(DifferenceOf::OperationType, "update", part, Counts { inside, outside: 11_200 }).unwrap()
        };
        assert!(!rare(1, 560).clear && !rare(2, 560).clear && rare(3, 560).clear);
        assert!(rare(1, 0).clear, "no other operation has the type");
    }

    #[test]
    fn the_chance_of_a_share_is_that_of_drawing_it() {
        // Of 3 red among 10 balls, a draw of 2 has both red in 3 of 45 cases, and none in 21 of 45.
        let drawn = |inside| chance(Counts { inside, outside: 3 - inside }, Counts { inside: 2, outside: 8 });
        assert!((drawn(2) - 2.0 * 3.0 / 45.0).abs() < 1e-9 && (drawn(0) - 2.0 * 21.0 / 45.0).abs() < 1e-9);
        // Of many operations it is that of a normal distribution: three standard deviations.
        let half = Counts { inside: 1_000_000, outside: 1_000_000 };
        let shifted = chance(Counts { inside: 501_061, outside: 498_939 }, half);
        assert!((0.0026..0.0028).contains(&shifted), "{shifted}");
        assert_eq!(chance(Counts { inside: 1_000_000, outside: 0 }, half), 0.0);
    }
}
