//! Direction of a ratio: which of two results is divided by which, and which of them is better if it is above 1.

use plimsoll_core::quantity::is_timed;
use plimsoll_core::{Formula, Term};

use crate::latency;

/// Unit of ratios.
pub const RATIO: &str = "×";
/// Label of a trial's store, whose value names it.
const STORE: &str = "store";
/// Quantity of which more is better.
const RATE: &str = "rate";

/// Returns the direction of a figure that divides one result by another, in words: `index=own ÷ index=none; above 1,
/// index=own takes longer`. `None` for other figures.
pub fn direction(unit: &str, formula: &Formula) -> Option<String> {
    let (dividend, divisor) = formula.quotient().filter(|_| unit == RATIO)?;
    let [a, b] = [named(dividend, divisor), named(divisor, dividend)];
    if a == b {
        return None;
    }
    let is_rate = |term: &Term| term.quantity == RATE;
    let is_time = |term: &Term| is_timed(&term.quantity) && !is_rate(term);
    let more = match dividend.quantity == divisor.quantity {
        true if is_rate(dividend) => "is faster",
        true if is_time(dividend) => "takes longer",
        true => "has more",
        false if is_time(dividend) && is_time(divisor) => "is longer",
        false => return None,
    };
    Some(format!("{a} ÷ {b}; above 1, {a} {more}"))
}

/// Names a result by the phase, the quantity and the labels that `other` does not have.
fn named(term: &Term, other: &Term) -> String {
    let mut parts = Vec::new();
    parts.extend((term.phase != other.phase).then(|| term.phase.clone()));
    parts.extend((term.quantity != other.quantity).then(|| latency::written(&term.quantity).replace('_', " ")));
    let own = term.labels.iter().filter(|label| !other.labels.contains(label));
    parts.extend(own.map(|(name, value)| if name == STORE { value.clone() } else { format!("{name}={value}") }));
    if parts.is_empty() { "the store".to_owned() } else { parts.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_says_which_is_over_which_and_which_is_better() {
        let of = |formula: &str| direction(RATIO, &Formula::parse(formula).unwrap());
        for (formula, words) in [
            (
                "load.seconds[index=own] / load.seconds[index=none]",
                "index=own ÷ index=none; above 1, index=own takes longer",
            ),
            ("join.rate / before.rate", "join ÷ before; above 1, join is faster"),
            ("slow.p99 / usual.p99", "slow ÷ usual; above 1, slow takes longer"),
            (
                "drive.rate[clients=8] / drive.rate[store=one,clients=8]",
                "the store ÷ one; above 1, the store is faster",
            ),
            ("drive.p999 / drive.p50", "p99.9 ÷ p50; above 1, p99.9 is longer"),
            ("check.lost[a=1] / check.lost[a=2]", "a=1 ÷ a=2; above 1, a=1 has more"),
        ] {
            assert_eq!(of(formula).as_deref(), Some(words), "{formula}");
        }
        for none in
            ["load.seconds", "2 * load.seconds / drive.seconds", "drive.rate / drive.p50", "drive.rate / drive.rate"]
        {
            assert_eq!(of(none), None, "{none}");
        }
        assert_eq!(direction("s", &Formula::parse("join.rate / before.rate").unwrap()), None);
    }
}
