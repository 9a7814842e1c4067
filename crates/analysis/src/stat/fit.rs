//! Straight lines and ranks.

use super::mean;

/// A straight line through points, least squares with weights.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// Height at x = 0.
    pub at_zero: f64,
    /// Rise for each 1 of x.
    pub slope: f64,
    /// Standard deviation of the points around it, in y; 0 with two points.
    pub spread: f64,
    /// Number of points.
    pub n: u64,
    /// The points' weighted middle, and their weighted variance around it, in x.
    middle: (f64, f64),
}

impl Line {
    /// Standard error of its height at `x` (Draper & Smith, *Applied Regression Analysis*, section 1.4).
    pub fn error_at(&self, x: f64) -> f64 {
        let (middle, variance) = self.middle;
        self.spread * ((1.0 + (x - middle).powi(2) / variance) / self.n as f64).sqrt()
    }
}

/// The line through (x, y, weight); `None` with fewer than two distinct x.
pub fn line(points: &[(f64, f64, f64)]) -> Option<Line> {
    let weight: f64 = points.iter().map(|(_, _, w)| w).sum();
    let middle = |of: fn(&(f64, f64, f64)) -> f64| points.iter().map(|point| of(point) * point.2).sum::<f64>() / weight;
    let (x, y) = (middle(|point| point.0), middle(|point| point.1));
    let xx: f64 = points.iter().map(|(at, _, w)| w * (at - x).powi(2)).sum();
    if xx <= 0.0 || !xx.is_finite() {
        return None;
    }
    let slope = points.iter().map(|(at, value, w)| w * (at - x) * (value - y)).sum::<f64>() / xx;
    let at_zero = y - slope * x;
    let rest: f64 = points.iter().map(|(at, value, w)| w * (value - at_zero - slope * at).powi(2)).sum();
    let n = points.len() as f64;
    let spread = if n > 2.0 { (rest / weight * n / (n - 2.0)).sqrt() } else { 0.0 };
    Some(Line { at_zero, slope, spread, n: points.len() as u64, middle: (x, xx / weight) })
}

/// Spearman's rank correlation (Am. J. Psychol. 15, 1904), ties by their middle rank; 0 with fewer than three pairs
/// or without any variation.
pub fn rank_correlation(pairs: &[(f64, f64)]) -> f64 {
    if pairs.len() < 3 {
        return 0.0;
    }
    let x = ranks(&pairs.iter().map(|pair| pair.0).collect::<Vec<_>>());
    let y = ranks(&pairs.iter().map(|pair| pair.1).collect::<Vec<_>>());
    let (mean_x, mean_y) = (mean(&x), mean(&y));
    let (mut xy, mut xx, mut yy) = (0.0, 0.0, 0.0);
    for (x, y) in x.iter().zip(&y) {
        xy += (x - mean_x) * (y - mean_y);
        xx += (x - mean_x).powi(2);
        yy += (y - mean_y).powi(2);
    }
    if xx * yy > 0.0 { xy / (xx * yy).sqrt() } else { 0.0 }
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut below = 0;
    for tie in order.chunk_by(|a, b| values[*a] == values[*b]) {
        let rank = below as f64 + (tie.len() + 1) as f64 / 2.0;
        tie.iter().for_each(|at| ranks[*at] = rank);
        below += tie.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_through_its_points() {
        let fitted = line(&[(1.0, 3.0, 1.0), (2.0, 5.0, 2.0), (4.0, 9.0, 1.0)]).unwrap();
        assert!((fitted.slope - 2.0).abs() < 1e-12 && (fitted.at_zero - 1.0).abs() < 1e-12 && fitted.spread < 1e-6);
        assert_eq!(line(&[(1.0, 3.0, 1.0), (1.0, 4.0, 1.0)]), None);
    }

    #[test]
    fn ranks_do_not_care_for_size() {
        assert!((rank_correlation(&[(1.0, 1.0), (2.0, 100.0), (3.0, 1e6)]) - 1.0).abs() < 1e-12);
        assert!((rank_correlation(&[(1.0, 9.0), (2.0, 5.0), (3.0, 1.0)]) + 1.0).abs() < 1e-12);
        assert_eq!(rank_correlation(&[(1.0, 2.0), (2.0, 2.0), (3.0, 2.0)]), 0.0);
        // Ties share their middle rank: 1, 2.5, 2.5, 4 against 1, 2, 3, 4.
        let r = rank_correlation(&[(1.0, 1.0), (2.0, 2.0), (2.0, 3.0), (3.0, 4.0)]);
        assert!((r - 4.5 / 22.5f64.sqrt()).abs() < 1e-12, "{r}");
    }
}
