//! Search for the causes of slow moments, one after the other: what the first explains is taken out, and the rest is
//! searched again, on its own. If no series alone stands out, two may do so that explain the moments together: the first
//! is named by the test of both, and the second by that of the rest.

use super::series::{Meaning, WatchedSeries};
use super::shift::{self, HIGH, LEAD_MAX, Moments, Tested};
use crate::stat;

/// Highest false discovery rate of a cause that is named.
pub const Q_MAX: f64 = 0.05;
/// Lowest mean deviation at the beginnings of the slow moments, in standard deviations.
const EXCESS_MIN: f64 = 2.0;
/// Difference from the usual value that is worth a name: percentage points, or times.
const POINTS_MIN: f64 = 10.0;
const TIMES_MIN: f64 = 1.5;
/// Causes that are named for one phase, and series that are named for one cause.
const CAUSES_MAX: usize = 3;
const EVIDENCE_MAX: usize = 3;
/// Fewest moments that each of two series explains alone, and share of the moments that they explain together.
const OWN_MIN: usize = 2;
const TOGETHER: f64 = 0.75;

/// A series that was high when slow moments began.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Position of the series.
    pub series: usize,
    /// Positions of the slow moments before which it was high.
    pub explained: Vec<usize>,
    /// Slices from its rise to the beginning of a moment: the median, and the most.
    pub lead: (usize, usize),
    /// Mean deviation at the moments, in standard deviations.
    pub excess: f64,
    /// Median value at the moments that it explains, and in the slices that are not slow.
    pub seen: f64,
    pub usual: f64,
    /// False discovery rate.
    pub q: f64,
    /// Product of its excess, of the agreement of its rises with the slow moments, and of the weight of its meaning, by
    /// which candidates are ordered.
    score: f64,
}

impl Candidate {
    /// Returns the number of moments that it explains and another candidate does not.
    fn own(&self, other: &Candidate) -> usize {
        self.explained.iter().filter(|moment| !other.explained.contains(moment)).count()
    }

    /// Returns true if half of the moments that either explains, or more, are moments that both explain.
    fn is_alike(&self, other: &Candidate) -> bool {
        let both = self.explained.len() - self.own(other);
        both * 2 >= self.explained.len().max(other.explained.len())
    }
}

/// A cause: the series that explains most, and others that rose with it, best first.
#[derive(Debug, Clone, PartialEq)]
pub struct CauseFound {
    pub evidence: Vec<Candidate>,
    /// True for a cause after the first of a phase, which explains other moments.
    pub is_further: bool,
}

/// Result of the search for moments that no cause explains.
#[derive(Debug, Clone, PartialEq)]
pub struct Rest {
    /// False after the last cause that is named: nothing was searched.
    pub is_searched: bool,
    /// True if the test would have named a strong cause.
    pub has_power: bool,
    /// Series that were high when they began, best first. This may be chance.
    pub candidates: Vec<Candidate>,
}

/// Search in one phase.
pub struct Search {
    watched: Vec<WatchedSeries>,
    moments: Moments,
    /// Test of all moments together; `None` if there are too few slices, or no series.
    first: Option<Tested>,
}

impl Search {
    /// Prepares the search, and tests all moments together.
    pub fn new(watched: Vec<WatchedSeries>, moments: Moments) -> Self {
        let near: Vec<&[f64]> = watched.iter().map(|one| one.near.as_slice()).collect();
        let first = shift::test(&near, &moments);
        Self { watched, moments, first }
    }

    /// Returns the series that were watched.
    pub fn watched(&self) -> &[WatchedSeries] {
        &self.watched
    }

    /// Returns true if the phase is long enough for a test, and something was watched.
    pub fn is_tested(&self) -> bool {
        self.first.is_some()
    }

    /// Returns the *p* of the most conspicuous series, or two of them; `None` without a test.
    pub fn least_p(&self) -> Option<f64> {
        let first = self.first.as_ref()?;
        first.p.iter().copied().chain(first.two.as_ref().map(|two| two.p)).min_by(f64::total_cmp)
    }

    /// Returns the causes, likeliest first. A false discovery rate is `factor` times *p*.
    pub fn causes(&self, factor: f64) -> Vec<CauseFound> {
        let mut causes = Vec::new();
        let mut left: Vec<usize> = (0..self.moments.spans.len()).collect();
        let mut unused: Vec<usize> = (0..self.watched.len()).collect();
        let mut tested = self.first.clone();
        while let Some(result) = tested.take().filter(|_| causes.len() < CAUSES_MAX) {
            let q = |at: usize| (result.p[at] * factor).min(1.0);
            let candidates = unused.iter().enumerate().filter(|(at, _)| q(*at) <= Q_MAX);
            let candidates = candidates.filter_map(|(at, series)| self.candidate(*series, &left, &result, at, q(at)));
            let mut candidates: Vec<Candidate> = candidates.collect();
            if candidates.is_empty() {
                candidates = self.first_of_two(&unused, &left, &result, factor);
            }
            candidates.sort_by(|a, b| b.score.total_cmp(&a.score));
            let Some(best) = candidates.first().cloned() else { break };
            candidates.retain(|one| one.is_alike(&best));
            // A series that stays high in the moments that are left would hide their cause.
            unused.retain(|series| candidates.iter().all(|one| one.series != *series));
            left.retain(|moment| !best.explained.contains(moment));
            candidates.truncate(EVIDENCE_MAX);
            causes.push(CauseFound { evidence: candidates, is_further: !causes.is_empty() });
            if !left.is_empty() {
                let (moments, near) = self.alone(&unused, &left);
                tested = shift::test(&slices_of(&near), &moments);
            }
        }
        causes
    }

    /// Returns the moments `left` on their own, and for each of these series what [`shift::near_in`] has in their time.
    fn alone(&self, unused: &[usize], left: &[usize]) -> (Moments, Vec<Vec<f64>>) {
        let (moments, kept) = self.moments.alone(left);
        let near = unused.iter().map(|at| shift::near_in(&self.watched[*at].near, &kept)).collect();
        (moments, near)
    }

    /// Returns the series that explain the same part of the moments `left` as the first of two that explain them
    /// together; none if these are not conspicuous, or if one of them explains hardly more than the other.
    fn first_of_two(&self, unused: &[usize], left: &[usize], tested: &Tested, factor: f64) -> Vec<Candidate> {
        let Some(two) = &tested.two else { return Vec::new() };
        let q = (two.p * factor).min(1.0);
        let candidate = |at: usize| self.candidate(unused[at], left, tested, at, q);
        let [Some(first), Some(second)] = two.series.map(candidate) else { return Vec::new() };
        let (own, others) = (first.own(&second), second.own(&first));
        let together = (first.explained.len() + others) as f64;
        if q > Q_MAX || own.min(others) < OWN_MIN || together < TOGETHER * left.len() as f64 {
            return Vec::new();
        }
        (0..unused.len()).filter_map(candidate).filter(|one| one.is_alike(&first)).collect()
    }

    /// Returns what the test says of the moments `left` beside these causes, with the factor of [`Search::causes`].
    pub fn rest(&self, causes: &[CauseFound], left: &[usize], factor: f64) -> Rest {
        let is_named =
            |series: &usize| causes.iter().flat_map(|cause| &cause.evidence).any(|one| one.series == *series);
        let unused: Vec<usize> = (0..self.watched.len()).filter(|series| !is_named(series)).collect();
        let (moments, near) = self.alone(&unused, left);
        let near = slices_of(&near);
        let is_searched = causes.len() < CAUSES_MAX;
        let has_power = is_searched && shift::p_of_strong(&near, &moments) * factor <= Q_MAX;
        let untested = shift::untested(&near, &moments);
        let candidates = unused.iter().enumerate();
        let candidates = candidates.filter_map(|(at, series)| self.candidate(*series, left, &untested, at, 1.0));
        let mut candidates: Vec<Candidate> = candidates.collect();
        candidates.sort_by(|a, b| b.score.total_cmp(&a.score));
        candidates.truncate(EVIDENCE_MAX);
        Rest { is_searched, has_power, candidates }
    }

    /// Returns the series as a candidate for the moments `left`; `None` if its effect is too small.
    fn candidate(&self, series: usize, left: &[usize], tested: &Tested, at: usize, q: f64) -> Option<Candidate> {
        let watched = &self.watched[series];
        let excess = tested.excess[at];
        let first = |moment: &usize| self.moments.spans[*moment].0;
        let explained: Vec<usize> = left.iter().copied().filter(|one| watched.is_high_before(first(one))).collect();
        // What clients catch up late in a moment is an effect, though it may be high in more slices than by chance.
        let at_starts: Vec<f64> = left.iter().map(|one| watched.near[first(one)]).collect();
        if stat::mean(&at_starts) < EXCESS_MIN || explained.is_empty() {
            return None;
        }
        let (mut leads, mut seen) = (Vec::new(), Vec::new());
        for slice in explained.iter().map(first) {
            let known = (0..=LEAD_MAX.min(slice)).find(|lead| watched.deviations[slice - lead] >= HIGH);
            let lead = known.unwrap_or(LEAD_MAX);
            leads.push(lead);
            seen.extend(watched.values[slice.saturating_sub(lead)]);
        }
        leads.sort_unstable();
        let is_slow = |slice: &usize| self.moments.spans.iter().any(|(from, end)| (*from..*end).contains(slice));
        let quiet = (0..self.moments.n).filter(|at| !is_slow(at)).filter_map(|at| watched.values[at]);
        let quiet: Vec<f64> = quiet.collect();
        let (seen, median) = (stat::median(&seen)?, stat::median(&quiet).unwrap_or(0.0));
        // Counters that a server publishes more rarely than a slice ends are 0 in most slices, and not usually.
        let is_rate = watched.unit.ends_with("/s");
        let usual = if is_rate && median == 0.0 { stat::mean(&quiet) } else { median };
        let is_enough = match watched.unit.as_str() {
            _ if watched.meaning == Meaning::Cycle => true,
            "%" => seen - usual >= POINTS_MIN,
            _ => seen >= TIMES_MIN * usual && seen > 0.0,
        };
        let lead = (*leads.get(leads.len() / 2)?, *leads.last()?);
        let score = excess * self.agreement(watched, explained.len(), left) * watched.meaning.weight();
        is_enough.then_some(Candidate { series, explained, lead, excess, seen, usual, q, score })
    }

    /// Returns the harmonic mean of two shares: of the moments that the series explains, and of its high slices that
    /// belong to moments.
    fn agreement(&self, watched: &WatchedSeries, explained: usize, left: &[usize]) -> f64 {
        let belongs =
            |slice: usize| self.moments.spans.iter().any(|(first, end)| slice + LEAD_MAX >= *first && slice < *end);
        let high = watched.deviations.iter().enumerate().filter(|(_, deviation)| **deviation >= HIGH);
        let high: Vec<usize> = high.map(|(slice, _)| slice).collect();
        let precision = high.iter().filter(|slice| belongs(**slice)).count() as f64 / high.len().max(1) as f64;
        let recall = explained as f64 / left.len().max(1) as f64;
        2.0 * precision * recall / (precision + recall).max(f64::MIN_POSITIVE)
    }

    /// Returns the number of moments that would begin at a high value of the series by chance.
    pub fn by_chance(&self, series: usize) -> f64 {
        let high = (0..self.moments.n).filter(|slice| self.watched[series].is_high_before(*slice)).count();
        high as f64 / self.moments.n.max(1) as f64 * self.moments.spans.len() as f64
    }
}

fn slices_of(lists: &[Vec<f64>]) -> Vec<&[f64]> {
    lists.iter().map(Vec::as_slice).collect()
}

#[cfg(test)]
mod tests {
    use plimsoll_core::random::SplitMix;

    use super::*;

    const SLICES: usize = 180;
    const SERIES: usize = 200;

    /// Runs of each kind.
    fn runs(usual: usize) -> usize {
        if std::env::var_os("PLIMSOLL_HEAVY").is_some() { 1_000 } else { usual }
    }

    fn noise(dice: &mut SplitMix) -> f64 {
        // The sum of twelve uniforms is close to normal.
        (0..12).map(|_| dice.share()).sum::<f64>() - 6.0
    }

    /// A series whose values repeat a share of the ones before: the standard deviation is 10 around 20.
    fn repeating(dice: &mut SplitMix, share: f64) -> Vec<f64> {
        let own = (1.0 - share * share).sqrt();
        let mut last = noise(dice);
        (0..SLICES)
            .map(|_| {
                last = share * last + own * noise(dice);
                20.0 + 10.0 * last
            })
            .collect()
    }

    /// Slow moments of one to three slices, apart from each other, in time order.
    fn moments(dice: &mut SplitMix, count: usize) -> Moments {
        let mut spans: Vec<(usize, usize)> = Vec::new();
        while spans.len() < count {
            let first = 3 + dice.below(SLICES - 8);
            let end = first + 1 + dice.below(3);
            if spans.iter().all(|(other, until)| end + 2 < *other || first > until + 2) {
                spans.push((first, end));
            }
        }
        spans.sort_unstable();
        Moments { n: SLICES, spans }
    }

    /// A run with series of which those named `causes` rise by `strength` standard deviations at their moments.
    fn run(dice: &mut SplitMix, moments: &Moments, causes: &[&[usize]], strength: f64) -> Search {
        let mut all: Vec<Vec<f64>> = (0..SERIES).map(|at| repeating(dice, [0.0, 0.5, 0.8, 0.95][at % 4])).collect();
        for (series, explained) in all.iter_mut().zip(causes) {
            for (first, end) in explained.iter().map(|moment| moments.spans[*moment]) {
                let begins = first - dice.below(2);
                series[begins..end].iter_mut().for_each(|value| *value += 10.0 * strength);
            }
        }
        let named = all.into_iter().enumerate().filter_map(|(at, values)| {
            let values = values.into_iter().map(Some).collect();
            WatchedSeries::new(at.to_string(), "ms", "made", Meaning::Figure, values)
        });
        Search::new(named.collect(), moments.clone())
    }

    fn named(search: &Search) -> Vec<usize> {
        search.causes(1.0).iter().map(|cause| cause.evidence[0].series).collect()
    }

    #[test]
    fn series_without_a_cause_among_them_are_rarely_named() {
        let mut dice = SplitMix::new(27);
        let runs = runs(100);
        let is_named = |_: &usize| {
            let count = 1 + dice.below(14);
            let moments = moments(&mut dice, count);
            !named(&run(&mut dice, &moments, &[], 0.0)).is_empty()
        };
        let wrong = (0..runs).filter(is_named).count();
        assert!(wrong * 20 <= runs, "{wrong} of {runs}");
    }

    #[test]
    fn rare_states_without_a_cause_among_them_are_rarely_named() {
        let mut dice = SplitMix::new(43);
        let runs = runs(100);
        let is_named = |_: &usize| {
            let count = 1 + dice.below(14);
            let moments = moments(&mut dice, count);
            let states = (0..4).filter_map(|at| {
                let mut values = vec![Some(0.0); SLICES];
                for _ in 0..3 {
                    let first = dice.below(SLICES - 3);
                    let end = first + 1 + dice.below(3);
                    values[first..end].fill(Some(1.0));
                }
                WatchedSeries::new(at.to_string(), "", "made", Meaning::Stopped, values)
            });
            !named(&Search::new(states.collect(), moments)).is_empty()
        };
        let wrong = (0..runs).filter(is_named).count();
        assert!(wrong * 20 <= runs, "{wrong} of {runs}");
    }

    #[test]
    fn several_moments_that_nothing_watches_are_explained_by_nothing() {
        let mut dice = SplitMix::new(29);
        let runs = runs(100);
        let is_named = |_: &usize| {
            let count = 5 + dice.below(10);
            let moments = moments(&mut dice, count);
            !named(&run(&mut dice, &moments, &[], 0.0)).is_empty()
        };
        let wrong = (0..runs).filter(is_named).count();
        assert!(wrong * 50 <= runs, "{wrong} of {runs}");
    }

    #[test]
    fn a_planted_cause_is_named_first_whatever_its_strength() {
        let mut dice = SplitMix::new(31);
        for strength in [8.0, 12.0, 30.0] {
            let runs = runs(40);
            let is_first = |_: &usize| {
                let count = 5 + dice.below(10);
                let moments = moments(&mut dice, count);
                let all: Vec<usize> = (0..count).collect();
                named(&run(&mut dice, &moments, &[&all], strength)).first() == Some(&0)
            };
            let right = (0..runs).filter(is_first).count();
            assert!(right * 100 >= runs * 95, "{right} of {runs} at {strength}");
        }
    }

    #[test]
    fn of_two_causes_both_are_named() {
        let mut dice = SplitMix::new(37);
        let runs = runs(40);
        let are_both = |_: &usize| {
            let count = 10 + dice.below(5);
            let moments = moments(&mut dice, count);
            let (odd, even): (Vec<usize>, Vec<usize>) = (0..count).partition(|at| at % 2 == 1);
            let mut named = named(&run(&mut dice, &moments, &[&odd, &even], 12.0));
            named.truncate(3);
            named.contains(&0) && named.contains(&1)
        };
        let right = (0..runs).filter(are_both).count();
        assert!(right * 100 >= runs * 85, "{right} of {runs}");
    }

    #[test]
    fn two_causes_of_three_moments_each_are_named_beside_states_that_often_begin() {
        let mut dice = SplitMix::new(41);
        let runs = 40;
        let are_both = |_: &usize| {
            let moments = moments(&mut dice, 6);
            let mut states = vec![vec![Some(0.0); SLICES]; 6];
            for (moment, (first, end)) in moments.spans.iter().enumerate() {
                states[moment % 2][*first..*end].fill(Some(1.0));
            }
            for state in &mut states[2..] {
                (0..8).for_each(|_| state[dice.below(SLICES)] = Some(1.0));
            }
            let series = states
                .into_iter()
                .enumerate()
                .filter_map(|(at, values)| WatchedSeries::new(at.to_string(), "", "made", Meaning::Figure, values));
            let search = Search::new(series.collect(), moments);
            let causes = search.causes(1.0);
            let further: Vec<bool> = causes.iter().map(|cause| cause.is_further).collect();
            let named = named(&search);
            named.contains(&0) && named.contains(&1) && further[..2] == [false, true]
        };
        let right = (0..runs).filter(are_both).count();
        assert!(right * 100 >= runs * 90, "{right} of {runs}");
    }

    #[test]
    fn beside_a_cause_of_most_moments_a_second_name_is_rarely_false() {
        let mut dice = SplitMix::new(47);
        let runs = runs(100);
        let (mut right, mut wrong) = (0, 0);
        for _ in 0..runs {
            let count = 8 + dice.below(7);
            let moments = moments(&mut dice, count);
            // Nothing watches the cause of two to five others.
            let own = count - 2 - dice.below(4);
            let mut states = vec![vec![Some(0.0); SLICES]; 13];
            for (first, end) in &moments.spans[..own] {
                states[0][*first..*end].fill(Some(1.0));
            }
            for state in &mut states[1..] {
                (0..8).for_each(|_| state[dice.below(SLICES)] = Some(1.0));
            }
            let series = states
                .into_iter()
                .enumerate()
                .filter_map(|(at, values)| WatchedSeries::new(at.to_string(), "", "made", Meaning::Figure, values));
            let named = named(&Search::new(series.collect(), moments));
            right += usize::from(named.first() == Some(&0));
            wrong += usize::from(named.iter().any(|series| *series != 0));
        }
        assert!(right * 100 >= runs * 85 && wrong * 20 <= runs, "{right} right and {wrong} wrong of {runs}");
    }

    #[test]
    fn a_cause_has_its_lead_its_values_and_the_moments_that_it_explains() {
        let moments = Moments { n: 100, spans: vec![(20, 22), (47, 48), (81, 83), (90, 91)] };
        let values = |at: usize| Some(if [19, 46, 80].contains(&at) { 97.0 } else { 12.0 + (at % 3) as f64 });
        let values = (0..100).map(values).collect();
        let busy = WatchedSeries::new("disk vda".to_owned(), "%", "disk", Meaning::Figure, values).unwrap();
        let search = Search::new(vec![busy], moments);
        let causes = search.causes(1.0);
        let [CauseFound { evidence, is_further: false }] = causes.as_slice() else { panic!("{causes:?}") };
        let found = &evidence[0];
        assert_eq!((found.explained.as_slice(), found.lead), (&[0, 1, 2][..], (1, 1)));
        assert_eq!((found.seen, found.usual), (97.0, 13.0));
        assert!(found.q < 0.02 && search.by_chance(0) < 0.5, "{} {}", found.q, search.by_chance(0));
    }

    #[test]
    fn a_small_rise_is_no_cause_however_certain() {
        let moments = Moments { n: 100, spans: vec![(20, 21), (47, 48), (81, 82)] };
        let values = |usual: f64, high: f64| {
            let value = |at: usize| if [20, 47, 81].contains(&at) { high } else { usual + 0.01 * (at % 3) as f64 };
            (0..100).map(|at| Some(value(at))).collect::<Vec<Option<f64>>>()
        };
        for (unit, high, is_named) in [("%", 58.0, false), ("%", 62.0, true), ("B", 70.0, false), ("B", 80.0, true)] {
            let (dirty, values) = ("dirty".to_owned(), values(50.0, high));
            let watched = WatchedSeries::new(dirty, unit, "memory", Meaning::Figure, values).unwrap();
            let causes = Search::new(vec![watched], moments.clone()).causes(1.0);
            assert_eq!(!causes.is_empty(), is_named, "{high} {unit}");
        }
    }
}
