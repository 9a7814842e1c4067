//! Ranks.

use super::mean;

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
    fn ranks_do_not_care_for_size() {
        assert!((rank_correlation(&[(1.0, 1.0), (2.0, 100.0), (3.0, 1e6)]) - 1.0).abs() < 1e-12);
        assert!((rank_correlation(&[(1.0, 9.0), (2.0, 5.0), (3.0, 1.0)]) + 1.0).abs() < 1e-12);
        assert_eq!(rank_correlation(&[(1.0, 2.0), (2.0, 2.0), (3.0, 2.0)]), 0.0);
        // Ties share their middle rank: 1, 2.5, 2.5, 4 against 1, 2, 3, 4.
        let r = rank_correlation(&[(1.0, 1.0), (2.0, 2.0), (2.0, 3.0), (3.0, 4.0)]);
        assert!((r - 4.5 / 22.5f64.sqrt()).abs() < 1e-12, "{r}");
    }
}
