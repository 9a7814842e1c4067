//! Test of series against slow moments by circular time shifts.
//!
//! The statistic of a series is its mean deviation at the slow moments. A series that has nothing to do with them has
//! the same statistic if the moments lie elsewhere: all moments are shifted along the phase together, its end meeting
//! its beginning. Shifts keep the autocorrelation of each series and the correlation between them, which a permutation
//! of slices does not. A shift that puts moments on each other, as by the interval of regular ones, tells nothing and
//! is left out.
//!
//! A *p* is the share of shifts at which *any* series reaches the statistic: the single-step maxT procedure of Westfall
//! & Young (*Resampling-Based Multiple Testing*, 1993, section 2.6), which holds the probability of any false name in a
//! phase at the level. Of separate *p*, none below 1 / (shifts + 1), hundreds of series would leave none.
//!
//! **Two causes.** A series that explains half of the moments has half of the statistic, which others reach by chance. So
//! of several moments two series together are tested as well: their statistic is the mean of the greater deviation of
//! both. A shift then counts by the better of its ranks in either statistic (minP, the procedure's other form). So without a
//! cause the probability of a name stays that of one test. The test of two does not tell which of them is a cause: the first
//! is named only if each explains moments of its own, and together most of them.
//!
//! Moments that the first cause leaves are judged on their own, in a time without those that it explains ([`Moments::alone`]):
//! shifts never put moments on these, where the first cause and all that rises with it are high. A further test is only
//! made after a name, and after a right one a false one is at most half of the names. So the false discovery rate is at most
//! about one and a half times the level of each test.

/// Slices before a slow moment in which its cause begins.
pub const LEAD_MAX: usize = 2;
/// Deviation, in standard deviations, from which a series is high, and that which counts at most.
pub const HIGH: f64 = 3.0;
pub const DEVIATION_MAX: f64 = 6.0;
/// Shifts without which a phase is not tested, and those that are made at most.
pub const SHIFTS_MIN: usize = 20;
const SHIFTS_MAX: usize = 1_000;
/// Shifts without which a test that names nothing says nothing, and the mean deviation of a strong cause.
const SHIFTS_POWER: usize = 60;
const STRONG: f64 = 4.5;
/// Shortest shift, in slices.
const APART: usize = LEAD_MAX + 3;
/// Fewest moments that two causes explain together: two each.
const TWO_MOMENTS_MIN: usize = 4;

/// Slow moments of a phase of `n` slices: the first slice of each, and the slice after its last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moments {
    pub n: usize,
    pub spans: Vec<(usize, usize)>,
}

impl Moments {
    /// Iterates over the slow slices.
    fn slices(&self) -> impl Iterator<Item = usize> + '_ {
        self.spans.iter().flat_map(|(first, end)| *first..*end)
    }

    /// Returns the shifts to compare with, ascending: of many, some at equal distances.
    pub fn shifts(&self) -> Vec<usize> {
        let mut is_near = vec![false; self.n];
        for slice in self.slices() {
            (slice..=slice + LEAD_MAX).for_each(|at| is_near[at % self.n] = true);
        }
        let slow: Vec<usize> = self.slices().collect();
        let is_apart = |shift: &usize| {
            let overlap = slow.iter().filter(|slice| is_near[(**slice + shift) % self.n]).count();
            overlap * 2 <= slow.len()
        };
        let all: Vec<usize> = (APART..self.n.saturating_sub(APART - 1)).filter(is_apart).collect();
        let step = all.len().div_ceil(SHIFTS_MAX).max(1);
        all.into_iter().step_by(step).collect()
    }

    /// Returns the moments `left`, given by their positions, in a time of their own, and the slices of the phase that it has.
    /// The other moments are cut out with [`LEAD_MAX`] slices before and after each, in which their causes may be high.
    pub fn alone(&self, left: &[usize]) -> (Moments, Vec<usize>) {
        let mut is_cut = vec![false; self.n];
        for (at, (first, end)) in self.spans.iter().enumerate() {
            if !left.contains(&at) {
                is_cut[first.saturating_sub(LEAD_MAX)..self.n.min(end + LEAD_MAX)].fill(true);
            }
        }
        let spans = || left.iter().map(move |at| self.spans[*at]);
        spans().for_each(|(first, end)| is_cut[first..end].fill(false));
        let kept: Vec<usize> = (0..self.n).filter(|slice| !is_cut[*slice]).collect();
        let place = |slice: usize| kept.partition_point(|one| *one < slice);
        let spans = spans().map(|(first, end)| (place(first), place(first) + end - first)).collect();
        (Moments { n: kept.len(), spans }, kept)
    }

    /// Returns the mean of the deviations `near` at the beginnings of the moments, or in all their slices if that is
    /// more, with the moments `shift` slices later. `near` has the deviations of the phase twice, one after the other.
    fn excess(&self, near: &[f64], shift: usize) -> f64 {
        let (mut at_starts, mut in_all, mut slices) = (0.0_f64, 0.0_f64, 0_usize);
        for (first, end) in &self.spans {
            at_starts += near[first + shift];
            in_all += near[first + shift..end + shift].iter().sum::<f64>();
            slices += end - first;
        }
        (at_starts / self.spans.len().max(1) as f64).max(in_all / slices.max(1) as f64)
    }
}

/// Returns for each slice the greatest deviation in it and in the slices before in which a cause begins; the list
/// twice, so that a shift needs no division.
pub fn near(deviations: &[f64]) -> Vec<f64> {
    let n = deviations.len();
    let greatest = |at: usize| (0..=LEAD_MAX).map(|lead| deviations[(at + n - lead) % n]).fold(f64::MIN, f64::max);
    (0..2 * n).map(|at| greatest(at % n)).collect()
}

/// Returns the values of [`near`] in some slices; the list twice.
pub fn near_in(near: &[f64], slices: &[usize]) -> Vec<f64> {
    slices.iter().chain(slices).map(|slice| near[*slice]).collect()
}

/// Result of a test: for each series its mean deviation at the moments, and the *p* of that.
#[derive(Debug, Clone, PartialEq)]
pub struct Tested {
    pub excess: Vec<f64>,
    pub p: Vec<f64>,
    /// Two series together; `None` with too few moments, shifts or series.
    pub two: Option<Two>,
}

/// Two series that explain the moments best, if each explains a part.
#[derive(Debug, Clone, PartialEq)]
pub struct Two {
    /// Positions among the tested series: the best alone, and the best beside it.
    pub series: [usize; 2],
    /// *p* of both together.
    pub p: f64,
}

/// Statistics of the shifts, and the greatest of the moments as they are.
struct Statistics {
    seen: f64,
    of_shifts: Vec<f64>,
    /// Statistics of the shifts, ascending.
    ascending: Vec<f64>,
}

impl Statistics {
    fn new(seen: f64, of_shifts: Vec<f64>) -> Self {
        let mut ascending = of_shifts.clone();
        ascending.sort_by(f64::total_cmp);
        Self { seen, of_shifts, ascending }
    }

    /// Returns the number of shifts that reach a value.
    fn reached(&self, value: f64) -> usize {
        self.ascending.len() - self.ascending.partition_point(|other| *other < value)
    }

    /// Returns the rank of the shift at `at` among all of them and what was seen: 1 for the greatest.
    fn rank(&self, at: usize) -> usize {
        self.reached(self.of_shifts[at]) + usize::from(self.seen >= self.of_shifts[at])
    }
}

/// Tests the series, each given by [`near`], which are of more than `LEAD_MAX` slices. `None` with too few shifts, or
/// without series.
pub fn test(series: &[&[f64]], moments: &Moments) -> Option<Tested> {
    let shifts = moments.shifts();
    if shifts.len() < SHIFTS_MIN || series.is_empty() || moments.spans.is_empty() {
        return None;
    }
    let Tested { excess, .. } = untested(series, moments);
    let greatest = excess.iter().copied().fold(f64::MIN, f64::max);
    let single = Statistics::new(greatest, by_chance(series, moments, &shifts));
    let has_two = moments.spans.len() >= TWO_MOMENTS_MIN && series.len() > 1 && shifts.len() >= SHIFTS_POWER;
    let best = has_two.then(|| best_two(series, moments, 0));
    let double = best.map(|(_, seen)| {
        let of_shifts = shifts.iter().map(|shift| best_two(series, moments, *shift).1);
        Statistics::new(seen, of_shifts.collect())
    });
    let rank = |at: usize| double.as_ref().map_or(usize::MAX, |double| double.rank(at)).min(single.rank(at));
    let mut ranks: Vec<usize> = (0..shifts.len()).map(rank).collect();
    ranks.sort_unstable();
    let p = |statistics: &Statistics, seen: f64| {
        let rank = 1 + statistics.reached(seen);
        (1 + ranks.partition_point(|other| *other <= rank)) as f64 / (1 + ranks.len()) as f64
    };
    let two = best.zip(double.as_ref()).map(|((series, seen), double)| Two { series, p: p(double, seen) });
    Some(Tested { p: excess.iter().map(|one| p(&single, *one)).collect(), excess, two })
}

/// Returns the two series that explain the moments best, `shift` slices later, and the mean of the greater deviation of
/// both at their beginnings. The first is the best alone, and the second the best beside it.
fn best_two(series: &[&[f64]], moments: &Moments, shift: usize) -> ([usize; 2], f64) {
    let mut two = [0; 2];
    let mut covered = vec![f64::MIN; moments.spans.len()];
    for best in &mut two {
        let mut greatest = f64::MIN;
        for (at, near) in series.iter().enumerate() {
            let both = moments.spans.iter().zip(&covered).map(|((first, _), known)| near[first + shift].max(*known));
            let sum: f64 = both.sum();
            if sum > greatest {
                (greatest, *best) = (sum, at);
            }
        }
        let near = series[*best];
        moments.spans.iter().zip(&mut covered).for_each(|((first, _), known)| *known = known.max(near[first + shift]));
    }
    (two, covered.iter().sum::<f64>() / covered.len().max(1) as f64)
}

/// Returns the mean deviations of the series at the moments, with a *p* of 1.
pub fn untested(series: &[&[f64]], moments: &Moments) -> Tested {
    let excess = series.iter().map(|near| moments.excess(near, 0)).collect();
    Tested { excess, p: vec![1.0; series.len()], two: None }
}

/// Returns the *p* that one more series would have, if it were a strong cause of these moments; 1 with too few shifts.
pub fn p_of_strong(series: &[&[f64]], moments: &Moments) -> f64 {
    let shifts = moments.shifts();
    if shifts.len() < SHIFTS_POWER {
        return 1.0;
    }
    let reached = by_chance(series, moments, &shifts).into_iter().filter(|other| *other >= STRONG).count();
    (1 + reached) as f64 / (1 + shifts.len()) as f64
}

/// Returns for each shift the greatest mean deviation of any series.
fn by_chance(series: &[&[f64]], moments: &Moments, shifts: &[usize]) -> Vec<f64> {
    let greatest = |shift: &usize| series.iter().map(|near| moments.excess(near, *shift)).fold(f64::MIN, f64::max);
    shifts.iter().map(greatest).collect()
}

/// Returns the factor for each *p* of independent tests that makes it the false discovery rate *q*, by Benjamini and
/// Hochberg (*J. R. Stat. Soc. B* 57, 1995).
pub fn false_discovery_factors(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut factors = vec![1.0; p.len()];
    let mut least = 1.0_f64;
    for (rank, at) in order.iter().enumerate().rev() {
        least = least.min(p[*at] * p.len() as f64 / (rank + 1) as f64);
        factors[*at] = if p[*at] > 0.0 { least / p[*at] } else { 1.0 };
    }
    factors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shifts_keep_away_from_the_moments_themselves_and_from_regular_ones() {
        let moments = Moments { n: 60, spans: vec![(10, 11)] };
        let shifts = moments.shifts();
        assert_eq!((shifts[0], shifts[shifts.len() - 1], shifts.len()), (5, 55, 51));
        let regular = Moments { n: 120, spans: (0..4).map(|at| (10 + 30 * at, 11 + 30 * at)).collect() };
        let shifts = regular.shifts();
        assert!(!shifts.contains(&30) && !shifts.contains(&60) && shifts.contains(&45), "{shifts:?}");
        // Half of the phase is slow: there is nowhere else.
        assert_eq!(Moments { n: 40, spans: vec![(0, 40)] }.shifts(), [0; 0]);
        assert!(Moments { n: 10_000, spans: vec![(10, 11)] }.shifts().len() <= SHIFTS_MAX);
    }

    #[test]
    fn a_cause_in_the_same_slice_or_before_counts_and_one_after_does_not() {
        let moments = Moments { n: 100, spans: vec![(20, 22), (47, 48), (81, 83)] };
        let excess = |late: i64| {
            let mut deviations = vec![0.0; 100];
            moments.spans.iter().for_each(|(first, _)| deviations[(*first as i64 + late) as usize] = 6.0);
            test(&[&near(&deviations)], &moments).unwrap().excess[0]
        };
        assert_eq!([excess(-3), excess(-2), excess(-1), excess(0)], [0.0, 6.0, 6.0, 6.0]);
        // In all slices of two moments that last longer: less than half.
        assert!(excess(1) < 3.0 && excess(2) == 0.0, "{} {}", excess(1), excess(2));
    }

    #[test]
    fn a_p_counts_the_shifts_at_which_any_series_is_as_high() {
        let moments = Moments { n: 100, spans: vec![(20, 21), (47, 48), (81, 82)] };
        let mut cause = vec![0.0; 100];
        moments.spans.iter().for_each(|(first, _)| cause[*first] = 6.0);
        let (cause, flat) = (near(&cause), near(&[0.0; 100]));
        let alone = test(&[&cause, &flat], &moments).unwrap();
        let least = 1.0 / (1 + moments.shifts().len()) as f64;
        assert_eq!(alone.p[0], least);
        assert_eq!(alone.p[1], 1.0);
        // Another series that is always high leaves nothing to name.
        let high = near(&[6.0; 100]);
        assert_eq!(test(&[&cause, &high], &moments).unwrap().p, [1.0, 1.0]);
        assert_eq!(test(&[&cause], &Moments { n: 100, spans: Vec::new() }), None);
        assert_eq!(test(&[], &moments), None);
    }

    #[test]
    fn two_series_that_explain_all_moments_together_are_tested_together() {
        let firsts = [12, 29, 51, 66, 90, 107];
        let moments = Moments { n: 120, spans: firsts.map(|first| (first, first + 1)).to_vec() };
        let high = |at: &[usize]| {
            near(&(0..120).map(|slice| if at.contains(&slice) { 6.0 } else { 0.0 }).collect::<Vec<f64>>())
        };
        // A series that is often high explains half of the moments by chance.
        let often: Vec<usize> = (0..120).filter(|slice| slice % 9 == 0).collect();
        let (odd, even, often) = (high(&[12, 51, 90]), high(&[29, 66, 107]), high(&often));
        let series = [often.as_slice(), odd.as_slice(), even.as_slice()];
        let tested = test(&series, &moments).unwrap();
        assert!(tested.p[1] > 0.05 && tested.p[2] > 0.05, "{tested:?}");
        let two = tested.two.unwrap();
        assert!(two.p < 0.05, "{two:?}");
        // Three moments are too few.
        let few = Moments { n: 120, spans: moments.spans[..3].to_vec() };
        assert_eq!(test(&series, &few).unwrap().two, None);
    }

    #[test]
    fn moments_alone_have_a_time_without_the_others() {
        let moments = Moments { n: 40, spans: vec![(4, 6), (9, 11), (20, 21), (38, 40)] };
        let (alone, kept) = moments.alone(&[1, 2]);
        let wanted: Vec<usize> = [0, 1].into_iter().chain(8..36).collect();
        assert_eq!(kept, wanted);
        assert_eq!((alone.n, alone.spans.as_slice()), (30, &[(3, 5), (14, 15)][..]));
        let deviations: Vec<f64> = (0..40).map(f64::from).collect();
        assert_eq!(near_in(&near(&deviations), &kept[..3]), [39.0, 39.0, 8.0, 39.0, 39.0, 8.0]);
        // A moment shortly after another one stays.
        let close = Moments { n: 40, spans: vec![(4, 6), (7, 9)] };
        assert_eq!(close.alone(&[1]).0, Moments { n: 35, spans: vec![(2, 4)] });
    }

    #[test]
    fn a_test_has_power_with_many_shifts_at_which_little_is_high() {
        let moments = |n| Moments { n, spans: vec![(20, 21), (30, 31)] };
        let flat = near(&[0.0; 100]);
        assert!(p_of_strong(&[&flat], &moments(100)) < 0.02);
        // Forty slices are too few, however quiet the series are.
        assert_eq!(p_of_strong(&[&near(&[0.0; 40])], &moments(40)), 1.0);
        // A series that is high in a third of the slices is as high as a cause of one moment by chance.
        let often: Vec<f64> = (0..100).map(|at| if at % 10 == 0 { 6.0 } else { 0.0 }).collect();
        assert!(p_of_strong(&[&flat, &near(&often)], &Moments { n: 100, spans: vec![(25, 26)] }) > 0.2);
    }

    #[test]
    fn false_discoveries_are_those_of_benjamini_and_hochberg() {
        let p = [0.01, 0.04, 0.03, 0.5];
        let q: Vec<f64> = p.iter().zip(false_discovery_factors(&p)).map(|(p, factor)| p * factor).collect();
        for (q, wanted) in q.iter().zip([0.04, 0.16 / 3.0, 0.16 / 3.0, 0.5]) {
            assert!((q - wanted).abs() < 1e-12, "{q}, wanted {wanted}");
        }
        assert_eq!(false_discovery_factors(&[0.02]), [1.0]);
    }
}
