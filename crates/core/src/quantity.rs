//! Quantities of a phase, by the names that formulas use.
//!
//! The kind of phase decides which quantities it has. Some also depend on the store (one that cannot tell the size of
//! its index has no `index_bytes`), and only show in the results.

use std::fmt;

use crate::study::PhaseKind;

/// Prefix of the quantities that count a store's ended cycles: `cycles_checkpoints`.
pub const CYCLES: &str = "cycles_";

/// Quantities that several kinds of phase have, separated by blanks.
const PERCENTILES: &str = "p50 p90 p95 p99 p999";
const UNDISTURBED: &str = "undisturbed_p50 undisturbed_p90 undisturbed_p95 undisturbed_p99 undisturbed_p999";
const DEVICE: &str = "device_bytes device_bytes_per_record";
const SIZES: &str = "data_bytes index_bytes total_bytes memory_bytes";

/// Quantities that can be restricted to one operation type: `p99[op=read]`.
const BY_OPERATION: [&str; 3] = [PERCENTILES, UNDISTURBED, "mean stddev rate ops median_seconds"];

/// The quantities of phases of that `kind`.
pub fn of_phase(kind: PhaseKind) -> Vec<&'static str> {
    let groups: &[&'static str] = match kind {
        PhaseKind::Load => {
            &[PERCENTILES, UNDISTURBED, "mean stddev seconds rate ops errors records sync_seconds", DEVICE, SIZES]
        }
        PhaseKind::Ask => &[PERCENTILES, "median_seconds seconds rate ops errors wrong", SIZES],
        PhaseKind::Drive => &[
            PERCENTILES,
            UNDISTURBED,
            "mean stddev rate errors unknown ops seconds planned_seconds wrong unfinished outage recovery lost_connections ended_connections",
            "failed_connects asked_again retries given_up breaker_opened breaker_rejected body_median_bytes body_max_bytes client_seconds think_seconds due connects connect_mean connect_p50 connect_p95 connect_p99 join_seconds lag_p50 lag_p99 lag_max involuntary_switches witness_cpu_seconds",
            DEVICE,
            SIZES,
        ],
        PhaseKind::Settle => &["seconds", DEVICE, SIZES],
        PhaseKind::Cold => &["seconds file_bytes resident_bytes"],
        PhaseKind::Restart => &["seconds"],
        PhaseKind::Power => &["seconds cut_seconds writes flushes at_risk_writes at_risk_bytes"],
        PhaseKind::Check => &["seconds ops lost wrong unreadable file_system_errors", SIZES],
    };
    groups.iter().flat_map(|group| group.split_ascii_whitespace()).collect()
}

/// True if phases of that `kind` may have the quantity `name`. Numbers of ended cycles in a driven phase carry the
/// store's names: `cycles_checkpoints`. A phase with one percentile has all.
pub fn has(kind: PhaseKind, name: &str) -> bool {
    let names = of_phase(kind);
    names.contains(&name)
        || median_of(name).is_some_and(|median| names.contains(&median))
        || (kind == PhaseKind::Drive && name.starts_with(CYCLES))
}

/// The median that represents all percentiles like `name` in the lists.
fn median_of(name: &str) -> Option<&'static str> {
    let (percentile, median) = match name.strip_prefix("undisturbed_") {
        Some(percentile) => (percentile, "undisturbed_p50"),
        None => (name, "p50"),
    };
    Percentile::named(percentile).map(|_| median)
}

/// Spelling of `name` in results, which have `p999` for `p99.9`.
pub fn plain(name: &str) -> String {
    name.replace("p99.9", "p999")
}

/// True if `name` can be restricted to one operation type: `p99[op=read]`.
pub fn is_by_operation(name: &str) -> bool {
    let name = median_of(name).unwrap_or(name);
    BY_OPERATION.iter().any(|group| group.split_ascii_whitespace().any(|known| known == name))
}

/// True if `name` is a time or a rate, which differs from one measurement to the next.
pub fn is_timed(name: &str) -> bool {
    name.contains("seconds") || matches!(name, "rate" | "mean" | "stddev") || median_of(name).is_some()
}

/// A percentile of response times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Percentile {
    /// Number of operations of a million that may be above it.
    above_ppm: u32,
}

impl Percentile {
    /// Parses a name: `p90`, `p97.5`, `p99.95`; from 99 on the dot may be left out: `p9995`.
    pub fn named(name: &str) -> Option<Percentile> {
        let digits = name.strip_prefix('p')?;
        let (whole, decimals) = match digits.split_once('.') {
            Some((_, "")) => return None,
            Some(parts) => parts,
            None if digits.starts_with("99") => digits.split_at(2),
            None => (digits, ""),
        };
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let fits = (1..=2).contains(&whole.len()) && decimals.len() <= 4 && is_number(whole) && is_number(decimals);
        let below: u32 = format!("{whole}{decimals:0<4}").parse().ok().filter(|below| fits && *below > 0)?;
        Some(Percentile { above_ppm: 1_000_000 - below })
    }

    /// Share of operations that may be above it.
    pub fn share_above(self) -> f64 {
        f64::from(self.above_ppm) / 1e6
    }

    /// Number of `n` operations that may be above it.
    pub fn above(self, n: u64) -> u64 {
        (u128::from(n) * u128::from(self.above_ppm) / 1_000_000) as u64
    }

    /// Smallest number of operations of which at least `above` are above it.
    pub fn samples(self, above: u64) -> u64 {
        (above * 1_000_000).div_ceil(u64::from(self.above_ppm))
    }

    /// Name in results: `p999`, `p97.5`.
    pub fn name(self) -> String {
        let written = self.to_string();
        if written.starts_with("p99.") { written.replace('.', "") } else { written }
    }
}

impl fmt::Display for Percentile {
    /// Spelling for people: `p99.9`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let below = 1_000_000 - self.above_ppm;
        let decimals = format!(".{:04}", below % 10_000);
        write!(f, "p{}{}", below / 10_000, decimals.trim_end_matches('0').trim_end_matches('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_percentile_has_one_name_in_results_and_one_for_people() {
        for (given, name, written, samples) in [
            ("p50", "p50", "p50", 20),
            ("p90", "p90", "p90", 100),
            ("p97.5", "p97.5", "p97.5", 400),
            ("p99.9", "p999", "p99.9", 10_000),
            ("p999", "p999", "p99.9", 10_000),
            ("p99.950", "p9995", "p99.95", 20_000),
            ("p9999", "p9999", "p99.99", 100_000),
            ("p99.9999", "p999999", "p99.9999", 10_000_000),
            ("p5", "p5", "p5", 11),
        ] {
            let percentile = Percentile::named(given).unwrap();
            assert_eq!((percentile.name().as_str(), percentile.to_string().as_str()), (name, written));
            assert_eq!((percentile.samples(10), Percentile::named(name)), (samples, Some(percentile)), "{given}");
        }
        for none in
            ["p", "p0", "p100", "p99.", "p.5", "p99.99999", "p-1", "p9x", "p1e1", "q50", "50", "p+5", "p9\u{663}"]
        {
            assert_eq!(Percentile::named(none), None, "{none}");
        }
        let p99 = Percentile::named("p99").unwrap();
        assert_eq!((p99.above(199), p99.above(u64::MAX) > 0, p99.share_above()), (1, true, 0.01));
        assert!(has(PhaseKind::Drive, "p9995") && has(PhaseKind::Load, "undisturbed_p97.5"));
        assert!(!has(PhaseKind::Check, "p75") && is_by_operation("p75") && !is_by_operation("errors"));
    }

    #[test]
    fn a_quantity_is_told_of_once() {
        for kind in PhaseKind::ALL {
            let names = of_phase(kind);
            let is_once = |name: &&str| names.iter().filter(|one| *one == name).count() == 1;
            assert!(names.iter().all(is_once), "{kind:?}: {names:?}");
        }
        assert!(has(PhaseKind::Drive, "undisturbed_p99") && has(PhaseKind::Ask, "p999"));
        assert!(!has(PhaseKind::Ask, "undisturbed_p99"));
    }
}
