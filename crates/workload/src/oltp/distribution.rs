//! Choice of rows: the distributions that sysbench calls `--rand-type`, with its defaults.

use crate::script::Xoroshiro;

/// Number of uniform summands of an approximately normal number, as sysbench's `--rand-spec-iter`.
const SUMMANDS: u32 = 12;
/// Part of the rows that are special, as sysbench's `--rand-spec-pct`.
const SPECIAL_PART: f64 = 0.01;
/// Part of the questions that go to them, as sysbench's `--rand-spec-res`.
const SPECIAL_SHARE: f64 = 0.75;

/// A distribution over `1 ..= count`.
#[derive(Debug, Clone)]
pub(super) struct Distribution {
    count: f64,
    family: Family,
}

#[derive(Debug, Clone)]
enum Family {
    Uniform,
    Gaussian,
    Special,
    /// The power that an even number is raised to.
    Pareto(f64),
    Zipfian(Zipfian),
}

/// The names of the distributions.
pub(super) const NAMES: &[&str] = &["special", "uniform", "gaussian", "pareto", "zipfian"];

impl Distribution {
    /// The distribution `name` over `1 ..= count`; `pareto_h` is between 0 and 1, `exponent` above 0.
    pub(super) fn new(name: &str, count: u64, pareto_h: f64, exponent: f64) -> Self {
        let count = count.max(1) as f64;
        let family = match name {
            "uniform" => Family::Uniform,
            "gaussian" => Family::Gaussian,
            // 1 - h of the questions go to h of the rows.
            "pareto" => Family::Pareto(pareto_h.ln() / (1.0 - pareto_h).ln()),
            "zipfian" => Family::Zipfian(Zipfian::new(count, exponent)),
            _ => Family::Special,
        };
        Self { count, family }
    }

    /// A number of it.
    #[inline]
    pub(super) fn next(&self, random: &mut Xoroshiro) -> i64 {
        let at = match &self.family {
            Family::Uniform => random.unit() * self.count,
            Family::Gaussian => mean(random) * self.count,
            Family::Special => {
                // One number decides both which sort it is and, when special, which of them.
                let even = random.unit();
                if even < 1.0 - SPECIAL_SHARE {
                    mean(random) * (self.count - 1.0)
                } else {
                    let special = (self.count - 1.0) * SPECIAL_PART;
                    even * (special + 1.0) + (self.count - 1.0 - special) / 2.0
                }
            }
            Family::Pareto(power) => random.unit().powf(*power) * self.count,
            Family::Zipfian(zipfian) => zipfian.next(random) - 1.0,
        };
        1 + at.clamp(0.0, self.count - 1.0) as i64
    }
}

/// The mean of some even numbers.
fn mean(random: &mut Xoroshiro) -> f64 {
    (0..SUMMANDS).map(|_| random.unit()).sum::<f64>() / f64::from(SUMMANDS)
}

/// Zipf's distribution by rejection-inversion (Hörmann and Derflinger 1996, "Rejection-inversion to generate variates
/// from monotone discrete distributions"), which also works for exponents below 1.
#[derive(Debug, Clone)]
struct Zipfian {
    count: f64,
    exponent: f64,
    /// The hat's integral where it begins and ends.
    low: f64,
    high: f64,
    /// Within this distance of its number a point is always under the curve.
    sure: f64,
}

impl Zipfian {
    fn new(count: f64, exponent: f64) -> Self {
        let mut zipfian = Self { count, exponent, low: 0.0, high: 0.0, sure: 0.0 };
        zipfian.low = zipfian.integral(1.5) - 1.0;
        zipfian.high = zipfian.integral(count + 0.5);
        zipfian.sure = 2.0 - zipfian.inverse(zipfian.integral(2.5) - zipfian.height(2.0));
        zipfian
    }

    fn next(&self, random: &mut Xoroshiro) -> f64 {
        loop {
            let area = self.high + random.unit() * (self.low - self.high);
            let point = self.inverse(area);
            let number = (point + 0.5).floor().clamp(1.0, self.count);
            if number - point <= self.sure || area >= self.integral(number + 0.5) - self.height(number) {
                return number;
            }
        }
    }

    /// `x^-exponent`
    fn height(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// `(x^(1 - exponent) - 1) / (1 - exponent)`, which at 1 becomes the logarithm.
    fn integral(&self, x: f64) -> f64 {
        let power = (1.0 - self.exponent) * x.ln();
        let slope = if power.abs() > 1e-8 { power.exp_m1() / power } else { 1.0 + power / 2.0 };
        slope * x.ln()
    }

    /// The number whose integral is `area`.
    fn inverse(&self, area: f64) -> f64 {
        let power = (area * (1.0 - self.exponent)).max(-1.0);
        let slope = if power.abs() > 1e-8 { power.ln_1p() / power } else { 1.0 - power / 2.0 };
        (slope * area).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts of 100,000 numbers in each tenth of 1 to 10,000.
    fn tenths(name: &str) -> [u32; 10] {
        let distribution = Distribution::new(name, 10_000, 0.2, 0.8);
        let mut random = Xoroshiro::of_seed(3);
        let mut tenths = [0; 10];
        for _ in 0..100_000 {
            let number = distribution.next(&mut random);
            assert!((1..=10_000).contains(&number), "{name}: {number}");
            tenths[(number as usize - 1) / 1_000] += 1;
        }
        tenths
    }

    fn share(tenths: &[u32]) -> f64 {
        f64::from(tenths.iter().sum::<u32>()) / 100_000.0
    }

    #[test]
    fn each_distribution_has_its_shape() {
        assert!(tenths("uniform").iter().all(|count| (9_500..10_500).contains(count)));
        let gaussian = tenths("gaussian");
        // Its deviation is a twelfth of the range: the middle fifth is 1.2 deviations on either side.
        assert!((0.75..0.79).contains(&share(&gaussian[4..6])), "{gaussian:?}");
        // Three quarters in the 1 % in the middle, of the rest as before.
        let special = tenths("special");
        assert!((0.93..0.955).contains(&share(&special[4..6])), "{special:?}");
        // Four fifths in the first fifth.
        let pareto = tenths("pareto");
        assert!((0.79..0.81).contains(&share(&pareto[..2])), "{pareto:?}");
        // The sum of k^-0.8 up to 1,000, divided by that up to 10,000.
        let zipfian = tenths("zipfian");
        assert!((0.57..0.61).contains(&share(&zipfian[..1])), "{zipfian:?}");
    }

    #[test]
    fn zipfs_first_numbers_have_their_shares() {
        for exponent in [0.5, 0.8, 1.0, 1.5] {
            let distribution = Distribution::new("zipfian", 1_000, 0.2, exponent);
            let mut random = Xoroshiro::of_seed(9);
            let mut counts = [0_u32; 3];
            for _ in 0..200_000 {
                if let Some(count) = counts.get_mut(distribution.next(&mut random) as usize - 1) {
                    *count += 1;
                }
            }
            let whole: f64 = (1..=1_000).map(|k| f64::from(k).powf(-exponent)).sum();
            for (number, count) in (1..).zip(counts) {
                let wanted = 200_000.0 * f64::from(number).powf(-exponent) / whole;
                let off = (f64::from(count) - wanted).abs();
                assert!(off < 5.0 * wanted.sqrt(), "{exponent}: {count} of {wanted} times {number}");
            }
        }
    }

    #[test]
    fn one_row_is_always_the_one() {
        for name in NAMES {
            let distribution = Distribution::new(name, 1, 0.2, 0.8);
            let mut random = Xoroshiro::of_seed(1);
            assert!((0..100).all(|_| distribution.next(&mut random) == 1), "{name}");
        }
    }
}
