//! Distribution functions of the tests and intervals.

use std::f64::consts::PI;

/// Logarithm of the gamma function for positive `x`: Lanczos' approximation with g = 7 and nine terms (C. Lanczos,
/// SIAM J. Numer. Anal. B 1, 1964; coefficients by P. Godfrey). Relative error under 1e-13.
pub fn ln_gamma(x: f64) -> f64 {
    const C: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    if x < 0.5 {
        return (PI / (PI * x).sin()).ln() - ln_gamma(1.0 - x);
    }
    let x = x - 1.0;
    let t = x + 7.5;
    let sum = C.iter().skip(1).enumerate().fold(C[0], |sum, (at, c)| sum + c / (x + at as f64 + 1.0));
    0.5 * (2.0 * PI).ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

/// The regularised incomplete beta function I_x(a, b): the continued fraction of DLMF 8.17.22, evaluated by Lentz's
/// method.
pub fn beta_inc(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    // The fraction converges fast below the mean; above it the symmetry of DLMF 8.17.4 is used.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta_inc(b, a, 1.0 - x);
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp() / a;
    let tiny = 1e-300;
    let (mut c, mut d) = (1.0, 1.0 - (a + b) * x / (a + 1.0));
    d = if d.abs() < tiny { 1.0 / tiny } else { 1.0 / d };
    let mut fraction = d;
    for m in 1..=500 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut last = 1.0;
        for term in [even, odd] {
            d = 1.0 + term * d;
            d = 1.0 / if d.abs() < tiny { tiny } else { d };
            c = 1.0 + term / c;
            c = if c.abs() < tiny { tiny } else { c };
            last = c * d;
            fraction *= last;
        }
        if (last - 1.0).abs() < 1e-14 {
            break;
        }
    }
    front * fraction
}

/// Two-sided p-value of Student's t with `df` degrees of freedom (DLMF 8.17; Abramowitz & Stegun 26.7.1).
pub fn t_two_sided(t: f64, df: f64) -> f64 {
    beta_inc(df / 2.0, 0.5, df / (df + t * t))
}

/// The t that a share `confidence` of the distribution lies within on both sides, by bisection.
pub fn t_quantile(confidence: f64, df: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1e4);
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if t_two_sided(middle, df) > 1.0 - confidence { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

/// The probability of at most `k` heads in `n` throws of a fair coin.
pub fn coin_at_most(k: u64, n: u64) -> f64 {
    let ln_choose = |k: u64| ln_gamma(n as f64 + 1.0) - ln_gamma(k as f64 + 1.0) - ln_gamma((n - k) as f64 + 1.0);
    (0..=k.min(n)).map(|k| (ln_choose(k) - n as f64 * 2f64.ln()).exp()).sum::<f64>().min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn near(got: f64, wanted: f64, within: f64) {
        assert!((got - wanted).abs() <= within, "{got}, wanted {wanted}");
    }

    #[test]
    fn they_agree_with_printed_tables() {
        near(ln_gamma(5.0), 24f64.ln(), 1e-12);
        near(ln_gamma(0.5), PI.sqrt().ln(), 1e-12);
        // Abramowitz & Stegun, table 26.10: t for 95 % two-sided.
        for (df, t) in [(1.0, 12.706), (2.0, 4.303), (5.0, 2.571), (10.0, 2.228), (30.0, 2.042), (120.0, 1.980)] {
            near(t_quantile(0.95, df), t, 5e-4);
        }
        near(t_two_sided(1.959_964, 1e7), 0.05, 1e-6);
        near(coin_at_most(2, 10), 56.0 / 1024.0, 1e-12);
        near(beta_inc(2.0, 3.0, 0.4), 0.5248, 1e-10);
        // P(1, x) = 1 − e⁻ˣ, P(2, x) = 1 − (1 + x) e⁻ˣ; χ² of 0.103 and 5.991 with two degrees, of 3.841 with one.
    }
}
