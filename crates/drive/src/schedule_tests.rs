//! Tests of every shape against its definition, and of the Poisson process against its distribution.

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const SECOND_NS: u64 = 1_000_000_000;

fn warmed(rate: Rate, arrivals: Arrivals, seed: u64, warmup: Duration) -> Schedule {
    let pace = Pace::Open { rate, arrivals };
    Schedule::new(&pace, seed, warmup, 1_000).unwrap()
}

/// Rates at the beginning and the end of each stage, and how long it lasts in milliseconds.
fn stages(stages: &[(f64, f64, u64)]) -> Rate {
    Rate::Stages(stages.iter().map(|&(from, to, ms)| Stage { from, to, for_ns: ms * 1_000_000 }).collect())
}

fn even(rate: Rate) -> Schedule {
    warmed(rate, Arrivals::Even, 0, Duration::ZERO)
}

/// Operation `index` is due `at_s` after the start, to a nanosecond.
fn is_due(schedule: &Schedule, index: u64, at_s: f64) {
    let exact_ns = 1_000.0 + at_s * 1e9;
    let at_ns = schedule.at(index);
    assert!((at_ns as f64 - exact_ns).abs() <= 1.0, "operation {index} at {at_ns}, not {exact_ns}: {schedule:?}");
}

/// `at` and `due_before` are each other's inverses, and a cursor reads what the schedule says.
fn is_consistent(schedule: &Schedule, count: u64) {
    let mut cursor = Cursor::new(schedule.clone());
    let mut last_ns = 0;
    for index in 0..count {
        let at_ns = schedule.at(index);
        assert_eq!(cursor.at(index), at_ns, "operation {index}");
        assert!(at_ns >= last_ns, "operation {index} goes back: {schedule:?}");
        last_ns = at_ns;
        if at_ns < NEVER_NS && index % 17 == 0 {
            let before = schedule.due_before(at_ns);
            assert!(before <= index && (before == index || schedule.at(before) == at_ns), "{index}: {before}");
            assert!(schedule.due_before(at_ns + 1) > index);
        }
    }
    assert_eq!(schedule.due_before(0), 0);
    // In any order, too.
    for index in (0..count).rev().step_by(101) {
        assert_eq!(cursor.at(index), schedule.at(index));
    }
}

#[test]
fn even_arrivals_do_not_drift_and_count_back() {
    for rate_per_s in [0.1, 1.0, 3.0, 999.0, 20_000.0, 1e6] {
        let arrivals = even(Rate::Constant(rate_per_s));
        for seconds in [0u64, 1, 10, 3_600] {
            let index = (seconds as f64 * rate_per_s) as u64;
            is_due(&arrivals, index, index as f64 / rate_per_s);
            let at_ns = arrivals.at(index);
            assert_eq!(arrivals.due_before(at_ns), index, "due before its own moment");
            assert_eq!(arrivals.due_before(at_ns + 1), index + 1);
        }
        assert_eq!(arrivals.due_before(0), 0);
    }
}

#[test]
fn a_ramp_is_the_integral_of_its_rate() {
    // From 0 to 100/s over 10 s: 5 t² operations after t seconds, then 100/s.
    let up = even(stages(&[(0.0, 100.0, 10_000)]));
    for index in [0u64, 1, 7, 100, 499] {
        is_due(&up, index, (index as f64 / 5.0).sqrt());
    }
    is_due(&up, 500, 10.0);
    is_due(&up, 600, 11.0);
    is_consistent(&up, 2_000);
    // From 100/s to 0: 100 t - 5 t², and nothing after that.
    let down = even(stages(&[(100.0, 0.0, 10_000)]));
    for index in [0u64, 1, 250, 499] {
        is_due(&down, index, 10.0 - (100.0 - index as f64 / 5.0).sqrt());
    }
    assert_eq!(down.at(500), NEVER_NS);
    assert_eq!(down.due_before(SECOND_NS * 3_600), 500);
    is_consistent(&down, 600);
}

#[test]
fn stages_and_spikes_change_their_rate_when_they_say() {
    let steps = even(stages(&[10.0, 0.0, 0.0, 1_000.0, 50.0].map(|rate| (rate, rate, 1_000))));
    is_due(&steps, 9, 0.9);
    is_due(&steps, 10, 3.0);
    is_due(&steps, 11, 3.001);
    is_due(&steps, 1_009, 3.999);
    is_due(&steps, 1_010, 4.0);
    is_due(&steps, 1_110, 6.0);
    is_consistent(&steps, 1_500);
    let spike = even(stages(&[(100.0, 100.0, 3_000), (5_000.0, 5_000.0, 500), (100.0, 100.0, 1)]));
    is_due(&spike, 299, 2.99);
    is_due(&spike, 300, 3.0);
    is_due(&spike, 1_300, 3.2);
    is_due(&spike, 2_800, 3.5);
    is_due(&spike, 2_900, 4.5);
    is_consistent(&spike, 4_000);
    let silent = even(stages(&[(0.0, 0.0, 1_000), (10.0, 10.0, 1_000), (0.0, 0.0, 1_000)]));
    is_due(&silent, 0, 1.0);
    is_due(&silent, 9, 1.9);
    assert_eq!(silent.at(10), NEVER_NS);
}

#[test]
fn a_sine_is_the_integral_of_its_rate() {
    for amplitude_per_s in [0.0, 400.0, 1_000.0] {
        let sine = even(Rate::Sine { mean: 1_000.0, amplitude: amplitude_per_s, period_ns: 2 * SECOND_NS });
        // Whole waves, and the first half of one, which has 2 a / π operations more than the mean.
        for wave in [0u64, 1, 50] {
            is_due(&sine, wave * 2_000, wave as f64 * 2.0);
            let half = 1_000.0 + amplitude_per_s * 2.0 / std::f64::consts::PI;
            let counted = sine.due_before(1_000 + (wave * 2 + 1) * SECOND_NS) as f64;
            assert!((counted - (wave as f64 * 2_000.0 + half)).abs() <= 1.0, "{counted}");
        }
        // Everywhere: the integral at an operation's time is its number, to what a nanosecond can change.
        for index in (0..4_000u64).step_by(37) {
            let t = (sine.at(index) - 1_000) as f64 / 1e9;
            let integral =
                1_000.0 * t + amplitude_per_s / std::f64::consts::PI * (1.0 - (std::f64::consts::PI * t).cos());
            assert!((integral - index as f64).abs() < 3e-6, "operation {index}: {integral}");
        }
        is_consistent(&sine, 5_000);
    }
}

#[test]
fn a_warmup_goes_at_the_rate_that_the_shape_begins_with() {
    let even = |rate, warmup| warmed(rate, Arrivals::Even, 0, warmup);
    let schedule = even(stages(&[(10.0, 1_000.0, 1_000)]), SECOND * 2);
    is_due(&schedule, 19, 1.9);
    is_due(&schedule, 20, 2.0);
    is_due(&schedule, 20 + 505, 3.0);
    let schedule = even(Rate::Sine { mean: 100.0, amplitude: 100.0, period_ns: SECOND_NS }, SECOND * 3);
    is_due(&schedule, 150, 1.5);
    is_due(&schedule, 400, 4.0);
    is_consistent(&schedule, 1_000);
    let schedule = even(stages(&[(0.0, 10.0, 1_000)]), SECOND * 3);
    is_due(&schedule, 0, 3.0);
}

#[test]
fn recorded_arrivals_are_as_they_were() {
    let schedule = warmed(Rate::Recorded(vec![0, 5, 5, 5, 70]), Arrivals::Even, 0, SECOND);
    let at: Vec<_> = (0..6).map(|index| schedule.at(index)).collect();
    assert_eq!(at, [1_000, 1_005, 1_005, 1_005, 1_070, NEVER_NS]);
    assert_eq!([1_000, 1_001, 1_005, 1_006, 1_070, 9_999].map(|now| schedule.due_before(now)), [0, 1, 1, 4, 4, 5]);
    is_consistent(&schedule, 6);
}

fn poisson(rate_per_s: f64, seed: u64) -> Schedule {
    warmed(Rate::Constant(rate_per_s), Arrivals::Poisson, seed, Duration::ZERO)
}

/// Pearson's statistic of `seen` against `expected`, which is as large.
fn chi_square(seen: &[u64], expected: &[f64]) -> f64 {
    seen.iter().zip(expected).map(|(seen, expected)| (*seen as f64 - expected).powi(2) / expected).sum()
}

/// Returns the value that a chi-square of `degrees` exceeds once in 10^6: Wilson and Hilferty's approximation.
fn chi_square_max(degrees: f64) -> f64 {
    let h = 2.0 / (9.0 * degrees);
    degrees * (1.0 - h + 4.753 * h.sqrt()).powi(3)
}

#[test]
fn poisson_gaps_are_exponential_and_independent() {
    for (seed, first) in [(1, 0u64), (7, 1 << 20), (42, 123_456_789_012)] {
        let mut cursor = Cursor::new(poisson(1_000.0, seed));
        const N: usize = 200_000;
        let times: Vec<u64> = (0..=N as u64).map(|i| cursor.at(first + i)).collect();
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e6).collect();
        // Twenty bins that are equally likely.
        let bin = |gap: &f64| (((1.0 - (-gap).exp()) * 20.0) as usize).min(19);
        let mut seen = [0u64; 20];
        gaps.iter().for_each(|gap| seen[bin(gap)] += 1);
        let statistic = chi_square(&seen, &[N as f64 / 20.0; 20]);
        assert!(statistic < chi_square_max(19.0), "gaps: {statistic}, {seen:?}");
        // A gap says nothing of the next one.
        let mut pairs = [0u64; 400];
        gaps.windows(2).step_by(2).for_each(|pair| pairs[bin(&pair[0]) * 20 + bin(&pair[1])] += 1);
        let statistic = chi_square(&pairs, &[N as f64 / 2.0 / 400.0; 400]);
        assert!(statistic < chi_square_max(399.0), "pairs of gaps: {statistic}");
        // Nor do neighbours across a block's seam.
        let across: Vec<f64> = gaps.chunks(64).filter_map(|block| block.last()).copied().collect();
        let mut seams = [0u64; 20];
        across.iter().for_each(|gap| seams[bin(gap)] += 1);
        let statistic = chi_square(&seams, &[across.len() as f64 / 20.0; 20]);
        assert!(statistic < chi_square_max(19.0), "gaps at seams: {statistic}, {seams:?}");
    }
}

#[test]
fn poisson_counts_have_their_mean_for_a_variance_at_every_scale() {
    // 1 ms, 20 ms, 1 s and 20 s of 1,000/s: what would repair its rate over any of these times is found out.
    for (window_ns, windows) in
        [(1_000_000u64, 50_000u64), (20_000_000, 20_000), (SECOND_NS, 4_000), (20 * SECOND_NS, 1_000)]
    {
        let schedule = poisson(1_000.0, 99);
        let mut before = 0;
        let counts: Vec<f64> = (1..=windows)
            .map(|k| {
                let until = schedule.due_before(1_000 + k * window_ns);
                let count = until - before;
                before = until;
                count as f64
            })
            .collect();
        let expected = window_ns as f64 * 1_000.0 / 1e9;
        let n = windows as f64;
        let mean = counts.iter().sum::<f64>() / n;
        let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / (n - 1.0);
        // Five standard errors; that of a Poisson variance is its mean times √((2 + 1/mean) / n).
        let mean_error = (expected / n).sqrt();
        assert!((mean - expected).abs() < 5.0 * mean_error, "window {window_ns}: mean {mean}");
        let variance_error = expected * ((2.0 + 1.0 / expected) / n).sqrt();
        assert!((variance - expected).abs() < 5.0 * variance_error, "window {window_ns}: variance {variance}");
    }
}

#[test]
fn poisson_counts_are_poissonian_in_a_shape_that_changes() {
    // Per 10 ms of a sine between 0 and 2,000/s: each window's count against its own mean.
    let rate = Rate::Sine { mean: 1_000.0, amplitude: 1_000.0, period_ns: SECOND_NS };
    let (random, exact) = (warmed(rate.clone(), Arrivals::Poisson, 5, Duration::ZERO), even(rate));
    const WAVES: u64 = 200;
    let mut seen = [0u64; 100];
    for wave in 0..WAVES {
        for (part, seen) in seen.iter_mut().enumerate() {
            let from_ns = 1_000 + wave * SECOND_NS + part as u64 * 10_000_000;
            *seen += random.due_before(from_ns + 10_000_000) - random.due_before(from_ns);
        }
    }
    let expected: Vec<f64> = (0..100u64)
        .map(|part| {
            // Over all waves, so that rounding to whole operations does not show.
            let t = |k: u64| k as f64 / 100.0;
            let integral = |t: f64| 1_000.0 * t + 1_000.0 / TAU * (1.0 - (TAU * t).cos());
            WAVES as f64 * (integral(t(part + 1)) - integral(t(part)))
        })
        .collect();
    assert!(exact.due_before(1_000 + WAVES * SECOND_NS).abs_diff(WAVES * 1_000) <= 1);
    let (seen, expected): (Vec<u64>, Vec<f64>) =
        seen.into_iter().zip(expected).filter(|(_, expected)| *expected > 5.0).unzip();
    let statistic = chi_square(&seen, &expected);
    assert!(statistic < chi_square_max(seen.len() as f64), "{statistic} of {}", seen.len());
}

#[test]
fn a_poisson_process_is_the_same_for_its_seed_in_any_order_and_another_for_another() {
    let (one, same, other) = (poisson(1_000.0, 1), poisson(1_000.0, 1), poisson(1_000.0, 2));
    is_consistent(&one, 3_000);
    assert!((0..1_000).all(|index| one.at(index) == same.at(index)));
    assert!((0..1_000).filter(|&index| one.at(index) == other.at(index)).count() < 5);
    // Far out, where sums are large, times still ascend and count back.
    for first in [1u64 << 33, (1 << 40) - 300] {
        let mut last_ns = 0;
        for index in first..first + 200 {
            let at_ns = one.at(index);
            assert!(at_ns >= last_ns);
            last_ns = at_ns;
            let before = one.due_before(at_ns);
            assert!(before <= index && index - before < 3, "{index}: {before}");
        }
    }
    assert_eq!(one.at(1 << 40), NEVER_NS, "the schedule ends after 2^40 arrivals");
}
