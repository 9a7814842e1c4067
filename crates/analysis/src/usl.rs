//! The Universal Scalability Law: what more clients bring, and when they begin to cost.
//!
//! Gunther's law (N. J. Gunther, *Guerrilla Capacity Planning*, Springer 2007, chapter 4; arXiv:0808.1431):
//!
//! ```text
//! X(N) = λ N / (1 + σ (N − 1) + κ N (N − 1))
//! ```
//!
//! λ is what one client gets, σ contention (what is done one after the other), κ coherency (what has to be agreed on
//! between all pairs). Fitted by least squares on X: started from the linear problem N / X = (1 + σ (N − 1) + κ N (N −
//! 1)) / λ, refined after Levenberg and Marquardt (J. SIAM 11, 1963), within 0 ≤ σ ≤ 1 and κ ≥ 0: of all fits with
//! none, one or both at an end of their range, the best that stays inside, and it is said which were held there.
//!
//! Nothing is said of what was not measured: a peak is one only where points lie on both sides of it, and where
//! throughput is highest at the fewest clients there is no fit unless that is one client.

use serde::Serialize;

use crate::{number, stat};

/// Fewest different numbers of clients that are fitted.
pub const POINTS_MIN: usize = 6;

/// Share of the variation that a fit has to explain.
pub const R_SQUARED_MIN: f64 = 0.9;

/// A fit of the law.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fit {
    /// Rate of one client, operations a second.
    pub lambda_per_s: f64,
    /// Contention, from 0 to 1.
    pub sigma: f64,
    /// Coherency.
    pub kappa: f64,
    /// Share of the variation of throughput that it explains.
    pub r_squared: f64,
    /// Measured over fitted, in per cent of fitted, in the order of the points.
    pub residuals_percent: Vec<f64>,
    /// Clients at which throughput is highest, √((1 − σ) / κ) but at least 1; `None` when the points do not lie on both
    /// sides of it: fewer than one client cannot be.
    pub peak_clients: Option<f64>,
    /// Throughput there.
    pub peak_per_s: Option<f64>,
    /// Coefficients that were held at an end of their range.
    pub held: Vec<String>,
    /// Number of points.
    pub n: u64,
}

impl Fit {
    /// Throughput of `clients`.
    pub fn at(&self, clients: f64) -> f64 {
        law([self.lambda_per_s, self.sigma, self.kappa], clients)
    }
}

fn law([lambda, sigma, kappa]: [f64; 3], n: f64) -> f64 {
    lambda * n / (1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0))
}

/// Fits the law to (clients, operations a second).
///
/// # Errors
/// A sentence that says why there is no fit: too few different numbers of clients, throughput that is highest at the
/// fewest of them, or points that do not follow the law.
pub fn fit(points: &[(f64, f64)]) -> Result<Fit, String> {
    let points: Vec<(f64, f64)> = points.iter().copied().filter(|(n, x)| *n >= 1.0 && *x > 0.0).collect();
    let medians = medians(&points);
    if medians.len() < POINTS_MIN {
        return Err(format!(
            "Fitting a scalability law needs {POINTS_MIN} different numbers of clients; there are {}.",
            medians.len()
        ));
    }
    let highest = highest(&medians);
    let (least, most) = (medians.first().map_or(0.0, |one| one.0), medians.last().map_or(0.0, |one| one.0));
    if highest.0 == least && least > 1.0 {
        return Err(without_law(&medians, None));
    }
    let Some((coefficients, held)) = within_ranges(&points) else { return Err(without_law(&medians, None)) };
    let mean = points.iter().map(|(_, x)| x).sum::<f64>() / points.len() as f64;
    let all: f64 = points.iter().map(|(_, x)| (x - mean).powi(2)).sum();
    let r_squared = if all > 0.0 { 1.0 - cost(&points, coefficients) / all } else { 0.0 };
    if r_squared < R_SQUARED_MIN {
        return Err(without_law(&medians, Some(r_squared)));
    }
    let [lambda_per_s, sigma, kappa] = coefficients;
    let peak = match (sigma, kappa) {
        (sigma, _) if sigma >= 1.0 => Some(1.0),
        (_, kappa) if kappa > 0.0 => Some(((1.0 - sigma) / kappa).sqrt().max(1.0)),
        _ => None,
    };
    // Below one client there is nothing.
    let rises = |peak: f64| (least < peak && least < highest.0) || (least == 1.0 && peak == 1.0);
    let peak_clients = peak.filter(|peak| rises(*peak) && *peak < most && highest.0 < most);
    Ok(Fit {
        lambda_per_s,
        sigma,
        kappa,
        r_squared,
        residuals_percent: points.iter().map(|(n, x)| (x / law(coefficients, *n) - 1.0) * 100.0).collect(),
        peak_clients,
        peak_per_s: peak_clients.map(|n| law(coefficients, n)),
        held,
        n: points.len() as u64,
    })
}

/// λ, σ and κ with the least squares of all fits within the ranges, and which of them were held at an end.
fn within_ranges(points: &[(f64, f64)]) -> Option<([f64; 3], Vec<String>)> {
    let mut best: Option<(f64, [f64; 3], Vec<String>)> = None;
    for sigma in [None, Some(0.0), Some(1.0)] {
        for kappa in [None, Some(0.0)] {
            let Some(start) = linear(points, sigma, kappa) else { continue };
            let found = refine(points, start, [true, sigma.is_none(), kappa.is_none()]);
            let [lambda, s, k] = found;
            let cost = cost(points, found);
            let inside = lambda > 0.0 && lambda.is_finite() && (0.0..=1.0).contains(&s) && k >= 0.0;
            // What is free comes first: an end is one only where it is better.
            if inside && cost.is_finite() && best.as_ref().is_none_or(|(least, ..)| cost < *least) {
                let sigma = sigma.map(|end| format!("contention σ at {} %", number::significant(end * 100.0)));
                let kappa = kappa.map(|_| "coherency κ at 0 %".to_string());
                best = Some((cost, found, sigma.into_iter().chain(kappa).collect()));
            }
        }
    }
    best.map(|(_, coefficients, held)| (coefficients, held))
}

/// Sum of the squared distances of `points` from the law.
fn cost(points: &[(f64, f64)], coefficients: [f64; 3]) -> f64 {
    points.iter().map(|(n, x)| (x - law(coefficients, *n)).powi(2)).sum()
}

/// The different numbers of clients, ascending, each with the median of its throughputs.
pub(crate) fn medians(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut clients: Vec<f64> = points.iter().map(|(n, _)| *n).collect();
    clients.sort_by(f64::total_cmp);
    clients.dedup();
    let at = |clients: f64| {
        let here: Vec<f64> = points.iter().filter(|(n, _)| *n == clients).map(|(_, rate)| *rate).collect();
        stat::median(&here).unwrap_or(0.0)
    };
    clients.into_iter().map(|clients| (clients, at(clients))).collect()
}

fn highest(medians: &[(f64, f64)]) -> (f64, f64) {
    medians.iter().copied().fold((0.0, 0.0), |best, one| if one.1 > best.1 { one } else { best })
}

/// Describes the reason that points do not follow the law: they only fall, or vary otherwise than any law does.
/// `medians` are those of the different numbers of clients, ascending.
fn without_law(medians: &[(f64, f64)], r_squared: Option<f64>) -> String {
    let with = |(clients, rate): (f64, f64)| {
        let clients = number::plural(clients.round() as u64, "client", "clients");
        format!("{} with {clients}", number::with_unit(rate, "1/s"))
    };
    let highest = highest(medians);
    let (Some(first), Some(last)) = (medians.first().copied(), medians.last().copied()) else { return String::new() };
    if highest == first {
        let falls = medians.windows(2).all(|pair| pair[1].1 <= pair[0].1);
        let what = if falls { "falls from the first point on" } else { "is highest at the first point" };
        let next = if first.0 > 1.0 { " The peak is there or below: measure fewer clients too." } else { "" };
        return format!(
            "Throughput {what}: {}, {}. No scalability law is fitted to points beyond the peak.{next}",
            with(first),
            with(last)
        );
    }
    let explained = r_squared.map_or(String::new(), |r_squared| {
        format!(" (R² would be {}, and {R_SQUARED_MIN} is required)", number::significant(r_squared.max(0.0)))
    });
    format!(
        "The points do not follow a scalability law{explained}. The highest throughput measured is {}.",
        with(highest)
    )
}

/// Start values: weighted least squares of N / X over 1, N − 1 and N (N − 1), but what is held. The weights make its
/// residuals those of X in first order.
fn linear(points: &[(f64, f64)], sigma: Option<f64>, kappa: Option<f64>) -> Option<[f64; 3]> {
    let rows = points.iter().map(|(n, x)| {
        let weight = x * x / n;
        // What is held goes with 1 / λ.
        let first = 1.0 + sigma.unwrap_or(0.0) * (n - 1.0) + kappa.unwrap_or(0.0) * n * (n - 1.0);
        ([weight * first, weight * (n - 1.0), weight * n * (n - 1.0)], weight * n / x)
    });
    let [a, b, c] = least_squares(rows, [true, sigma.is_none(), kappa.is_none()], 0.0)?;
    (a > 0.0).then(|| [1.0 / a, sigma.unwrap_or(b / a), kappa.unwrap_or(c / a)])
}

/// Levenberg and Marquardt on the residuals of X. The columns are scaled by Marquardt's diagonal.
fn refine(points: &[(f64, f64)], start: [f64; 3], free: [bool; 3]) -> [f64; 3] {
    let (mut at, mut damping) = (start, 1e-3);
    let mut best = cost(points, at);
    for _ in 0..200 {
        let [lambda, sigma, kappa] = at;
        let rows = points.iter().map(|(n, x)| {
            let below = 1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0);
            let slope = -lambda * n / below.powi(2);
            ([n / below, slope * (n - 1.0), slope * n * (n - 1.0)], x - law(at, *n))
        });
        let Some(step) = least_squares(rows, free, damping) else { break };
        let next = [at[0] + step[0], at[1] + step[1], at[2] + step[2]];
        let new = cost(points, next);
        if new.is_finite() && new <= best {
            let settled = best - new <= best * 1e-14;
            (at, best) = (next, new);
            damping = (damping / 10.0f64).max(1e-12);
            if settled {
                break;
            }
        } else {
            damping *= 10.0;
            if damping > 1e12 {
                break;
            }
        }
    }
    at
}

/// Solves the damped normal equations of rows (a, y) for the free unknowns; the others are 0.
fn least_squares(rows: impl Iterator<Item = ([f64; 3], f64)>, free: [bool; 3], damping: f64) -> Option<[f64; 3]> {
    let mut m = [[0.0f64; 4]; 3];
    for (a, y) in rows {
        for i in 0..3 {
            for j in 0..3 {
                m[i][j] += a[i] * a[j];
            }
            m[i][3] += a[i] * y;
        }
    }
    for i in 0..3 {
        m[i][i] *= 1.0 + damping;
        if !free[i] {
            m.iter_mut().for_each(|row| row[i] = 0.0);
            m[i] = [0.0; 4];
            m[i][i] = 1.0;
        }
    }
    // Scaled to ones on the diagonal: N (N − 1) and 1 are orders of magnitude apart.
    let scale: Vec<f64> = (0..3).map(|i| if m[i][i] > 0.0 { m[i][i].sqrt() } else { 1.0 }).collect();
    for i in 0..3 {
        for j in 0..3 {
            m[i][j] /= scale[i] * scale[j];
        }
        m[i][3] /= scale[i];
    }
    // Gauss with partial pivoting.
    for column in 0..3 {
        let pivot = (column..3).max_by(|a, b| m[*a][column].abs().total_cmp(&m[*b][column].abs()))?;
        if m[pivot][column].abs() < 1e-14 {
            return None;
        }
        m.swap(column, pivot);
        let head = m[column];
        for (at, row) in m.iter_mut().enumerate() {
            if at != column {
                let factor = row[column] / head[column];
                row.iter_mut().zip(head).for_each(|(cell, head)| *cell -= factor * head);
            }
        }
    }
    Some([0, 1, 2].map(|i| m[i][3] / m[i][i] / scale[i]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::random::SplitMix;

    #[track_caller]
    fn near(got: f64, wanted: f64, share: f64) {
        assert!((got / wanted - 1.0).abs() <= share, "{got}, wanted {wanted}");
    }

    /// SPEC SDM91 on a Sun SPARCcenter 2000, load and throughput: an example of Gunther's *Guerrilla Capacity Planning*
    /// and the data set `specsdm91` of the R package `usl`.
    const SPEC_SDM91: [(f64, f64); 7] = [
        (1.0, 64.9),
        (18.0, 995.9),
        (36.0, 1_652.4),
        (72.0, 1_853.2),
        (108.0, 1_828.9),
        (144.0, 1_775.0),
        (216.0, 1_702.2),
    ];

    /// A ray tracer on an SGI Origin 2000, processors and throughput: another example of that book, and the data set
    /// `raytracer` of that package.
    const RAY_TRACER: [(f64, f64); 11] = [
        (1.0, 20.0),
        (4.0, 78.0),
        (8.0, 130.0),
        (12.0, 170.0),
        (16.0, 190.0),
        (20.0, 200.0),
        (24.0, 210.0),
        (28.0, 230.0),
        (32.0, 260.0),
        (48.0, 280.0),
        (64.0, 310.0),
    ];

    #[test]
    fn published_measurements_give_the_published_coefficients() {
        // The package finds σ 0.02773, κ 0.0001044, γ 89.995, peak at 96.52.
        let sdm = fit(&SPEC_SDM91).unwrap();
        near(sdm.sigma, 0.027_73, 0.005);
        near(sdm.kappa, 0.000_104_4, 0.005);
        near(sdm.lambda_per_s, 89.995, 0.001);
        near(sdm.peak_clients.unwrap(), 96.52, 0.002);
        assert!(sdm.held.is_empty() && sdm.r_squared > 0.98, "{sdm:?}");
        // With λ held at the one measurement of one processor it is 5 % and next to no coherency; free, a little more.
        let ray = fit(&RAY_TRACER).unwrap();
        near(ray.sigma, 0.05, 0.2);
        assert!(ray.kappa < 5e-5 && ray.r_squared > 0.98, "{ray:?}");
    }

    #[test]
    fn made_up_points_give_back_what_they_were_made_of() {
        for wanted in [[1_000.0, 0.03, 0.0005], [25_000.0, 0.2, 0.01], [40.0, 0.001, 0.00002]] {
            let points: Vec<_> = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0].map(|n| (n, law(wanted, n))).to_vec();
            let fit = fit(&points).unwrap();
            near(fit.lambda_per_s, wanted[0], 1e-6);
            near(fit.sigma, wanted[1], 1e-4);
            near(fit.kappa, wanted[2], 1e-4);
            // The last one's peak is at 224 clients, and 128 are the most.
            let peak = ((1.0 - wanted[1]) / wanted[2]).sqrt();
            assert_eq!(fit.peak_clients.is_some(), peak < 128.0, "{fit:?}");
            fit.peak_clients.into_iter().for_each(|found| near(found, peak, 1e-4));
            assert!(fit.residuals_percent.iter().all(|residual| residual.abs() < 1e-3));
        }
        let mut dice = SplitMix::new(3);
        let noisy: Vec<_> = (1..=40)
            .map(|n| {
                (
                    f64::from(n),
                    law([500.0, 0.05, 0.001], f64::from(n)) * (0.97 + 0.06 * dice.below(1000) as f64 / 1000.0),
                )
            })
            .collect();
        near(fit(&noisy).unwrap().peak_clients.unwrap(), (0.95f64 / 0.001).sqrt(), 0.1);
    }

    #[test]
    fn a_coefficient_that_would_be_negative_is_zero_and_said() {
        // Amdahl's law alone, a little better than it at the end.
        let points: Vec<_> = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
            .map(|n: f64| (n, 100.0 * n / (1.0 + 0.1 * (n - 1.0)) * (1.0 + n / 400.0)))
            .to_vec();
        let found = fit(&points).unwrap();
        assert_eq!((found.kappa, found.held.as_slice()), (0.0, &["coherency κ at 0 %".to_string()][..]));
        assert_eq!((found.peak_clients, found.peak_per_s), (None, None), "nothing beyond 32 clients was measured");
    }

    #[test]
    fn coefficients_stay_in_their_ranges_whatever_the_points_are() {
        let mut dice = SplitMix::new(9);
        let mut fitted = 0;
        for _ in 0..2_000 {
            let from = [1.0, 2.0, 8.0][dice.below(3)];
            let coefficients =
                [1_000.0, dice.below(300) as f64 / 100.0 - 0.5, (dice.below(40) as f64 / 100.0 - 0.1).powi(3)];
            let points: Vec<_> = (0..7)
                .map(|at| from * 2f64.powi(at))
                .map(|n| (n, law(coefficients, n).abs() * (0.95 + dice.below(100) as f64 / 1_000.0)))
                .collect();
            let Ok(fit) = fit(&points) else { continue };
            fitted += 1;
            assert!((0.0..=1.0).contains(&fit.sigma) && fit.kappa >= 0.0 && fit.lambda_per_s > 0.0, "{fit:?}");
            let inside = |peak: f64| (from < peak || (peak == 1.0 && from == 1.0)) && peak < from * 64.0;
            assert!(fit.peak_clients.is_none_or(inside), "{fit:?} of {points:?}");
        }
        assert!(fitted > 300, "{fitted}");
    }

    #[test]
    fn throughput_that_only_falls_has_no_law_that_says_what_fewer_clients_would_get() {
        // As a study saw it, from 8 clients to 256: a law with a contention of 236 % goes through it.
        let points: Vec<_> = [8.0, 16.0, 32.0, 64.0, 128.0, 256.0].map(|n| (n, law([3_470.0, 2.36, 0.0], n))).to_vec();
        let why = fit(&points).unwrap_err();
        assert!(why.starts_with("Throughput falls from the first point on: 1,580/s with 8 clients"), "{why}");
    }

    #[test]
    fn too_few_points_and_points_without_a_law_are_refused() {
        assert!(fit(&SPEC_SDM91[..5]).unwrap_err().contains("there are 5"));
        let twice = [SPEC_SDM91[0], SPEC_SDM91[1]].repeat(4);
        assert!(fit(&twice).unwrap_err().contains("there are 2"));
        let zigzag: Vec<_> = (1..=8).map(|n| (f64::from(n), if n % 2 == 0 { 100.0 } else { 300.0 })).collect();
        assert!(fit(&zigzag).unwrap_err().contains("is highest at the first point"), "{:?}", fit(&zigzag));
    }

    #[test]
    fn throughput_that_only_falls_is_said_to_with_its_figures() {
        // Steeper than any law: beyond its peak throughput falls like 1 / N.
        let falling = |from: f64| (0..6).map(|at| (from * 2f64.powi(at), 4_096.0 / 4f64.powi(at))).collect::<Vec<_>>();
        assert_eq!(
            fit(&falling(8.0)).unwrap_err(),
            "Throughput falls from the first point on: 4,100/s with 8 clients, 4.00/s with 256 clients. No scalability law \
             is fitted to points beyond the peak. The peak is there or below: measure fewer clients too."
        );
        // From one client on there is a law like that, and no client below it.
        assert_eq!(fit(&falling(1.0)).unwrap().peak_clients, Some(1.0));
    }

    #[test]
    fn a_law_that_only_falls_has_its_peak_at_one_client() {
        for wanted in [[1_000.0, 1.0, 0.02], [1_000.0, 0.9, 0.2], [1_000.0, 0.5, 2.0]] {
            let points: Vec<_> = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0].map(|n| (n, law(wanted, n))).to_vec();
            let fit = fit(&points).unwrap();
            assert_eq!(fit.peak_clients, Some(1.0), "{fit:?}");
            near(fit.peak_per_s.unwrap(), 1_000.0, 1e-3);
        }
    }

    #[test]
    fn points_without_a_law_are_said_with_the_most_that_was_measured() {
        let zigzag: Vec<_> = (1..=8).map(|n| (f64::from(n), if n % 2 == 0 { 300.0 } else { 100.0 })).collect();
        let why = fit(&zigzag).unwrap_err();
        assert!(
            why.contains("do not follow") && why.contains("The highest throughput measured is 300/s with 2 clients."),
            "{why}"
        );
    }
}
