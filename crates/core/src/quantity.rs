//! What can be known of a phase, by the names that formulas use.
//!
//! Which of it a phase has is decided by what it does. Some of it hangs on the store as well (one that cannot tell its
//! index's size has no `index_bytes`), and shows in the results only.

use crate::study::PhaseKind;

/// What the name of a quantity begins with that counts the cycles of a store which ended: `cycles_checkpoints`.
pub const CYCLES: &str = "cycles_";

/// The percentiles of a latency with the names that follow; after `undisturbed`, both sorts of them.
macro_rules! percentiles_and {
    (undisturbed, $($name:literal),* $(,)?) => {
        percentiles_and!("undisturbed_p50", "undisturbed_p90", "undisturbed_p95", "undisturbed_p99", "undisturbed_p999", $($name),*)
    };
    ($($name:literal),* $(,)?) => { &["p50", "p90", "p95", "p99", "p999", $($name),*] };
}

/// Quantities that are told for one kind of operation too: `p99[op=read]`.
const BY_OPERATION: &[&str] = percentiles_and![undisturbed, "rate", "ops", "median_seconds"];

const LOAD: &[&str] = percentiles_and![
    undisturbed,
    "seconds",
    "rate",
    "ops",
    "errors",
    "records",
    "sync_seconds",
    "device_bytes",
    "device_bytes_per_record",
    "data_bytes",
    "index_bytes",
    "total_bytes",
    "memory_bytes",
];

const ASK: &[&str] = percentiles_and![
    "median_seconds",
    "seconds",
    "rate",
    "ops",
    "errors",
    "wrong",
    "data_bytes",
    "index_bytes",
    "total_bytes",
    "memory_bytes",
];

const DRIVE: &[&str] = percentiles_and![
    undisturbed,
    "rate",
    "errors",
    "ops",
    "seconds",
    "planned_seconds",
    "wrong",
    "unfinished",
    "lost_connections",
    "ended_connections",
    "lag_p50",
    "lag_p99",
    "lag_max",
    "involuntary_switches",
    "witness_cpu_seconds",
    "device_bytes",
    "device_bytes_per_record",
    "data_bytes",
    "index_bytes",
    "total_bytes",
    "memory_bytes",
];

const SETTLE: &[&str] =
    &["seconds", "device_bytes", "device_bytes_per_record", "data_bytes", "index_bytes", "total_bytes", "memory_bytes"];

const COLD: &[&str] = &["seconds", "file_bytes", "resident_bytes"];

const CHECK: &[&str] = &["seconds", "ops", "lost", "wrong", "data_bytes", "index_bytes", "total_bytes", "memory_bytes"];

/// The quantities of phases of that `kind`.
pub fn of_phase(kind: PhaseKind) -> &'static [&'static str] {
    match kind {
        PhaseKind::Load => LOAD,
        PhaseKind::Ask => ASK,
        PhaseKind::Drive => DRIVE,
        PhaseKind::Settle => SETTLE,
        PhaseKind::Cold => COLD,
        PhaseKind::Restart => &["seconds"],
        PhaseKind::Check => CHECK,
    }
}

/// Whether phases of that `kind` may have the quantity `name`. How often a store ended each of its cycles while a phase
/// drove is called as the store calls it: `cycles_checkpoints`.
pub fn has(kind: PhaseKind, name: &str) -> bool {
    of_phase(kind).contains(&name) || (kind == PhaseKind::Drive && name.starts_with(CYCLES))
}

/// `name` as results are called: the 99.9th percentile may be written `p99.9` too.
pub fn plain(name: &str) -> String {
    name.replace("p99.9", "p999")
}

/// Whether `name` is told for one kind of operation: `p99[op=read]`.
pub fn is_by_operation(name: &str) -> bool {
    BY_OPERATION.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantity_is_told_of_once() {
        for kind in PhaseKind::ALL {
            let names = of_phase(kind);
            let is_once = |name: &&&str| names.iter().filter(|one| one == name).count() == 1;
            assert!(names.iter().all(|name| is_once(&name)), "{kind:?}: {names:?}");
        }
        assert!(has(PhaseKind::Drive, "undisturbed_p99") && has(PhaseKind::Ask, "p999"));
        assert!(!has(PhaseKind::Ask, "undisturbed_p99"));
    }
}
