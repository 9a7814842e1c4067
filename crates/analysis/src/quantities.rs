//! Quantities of all phases and figures of the plan, each by one name.
//!
//! Names are those of formulas and conditions: `mixed.p99[op=read]`. Repeats of a trial are one quantity, with their
//! median. Quantities that a phase does not have are left out, except percentiles with too few samples.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use plimsoll_core::quantity;
use plimsoll_record::data::Run;

use crate::figure;
use crate::name::{self, REPEAT};
use crate::number;
use crate::outage;
use crate::phase::{PhaseFacts, UNDISTURBED, is_percentile};
use crate::stat::interval;
use crate::view::{FigureCell, QuantityView};

/// Values of repeats.
#[derive(Default)]
struct Repeats {
    phase: String,
    quantity: String,
    op: Option<String>,
    /// Values, each with true if it is a lower bound.
    values: Vec<(f64, bool)>,
    n: u64,
    missing: Option<String>,
    late: bool,
}

/// Lists the figures of the plan, then the quantities of the phases, in the order of the trials.
pub fn quantities(run: &Run) -> Vec<QuantityView> {
    let facts: Vec<Vec<PhaseFacts<'_>>> = run.trials.iter().map(PhaseFacts::of).collect();
    let mut all: Vec<QuantityView> = Vec::new();
    for figure in figure::figures(run, &facts) {
        for row in &figure.rows {
            let named = |cell: &FigureCell| of_figure(&figure.name, &figure.unit, &row.labels, cell);
            all.extend(row.cells.iter().map(named));
        }
    }
    let mut gathered: IndexMap<(String, String), Repeats> = IndexMap::new();
    for facts in facts.iter().flatten() {
        gather(facts, &mut gathered);
    }
    all.extend(gathered.into_iter().map(|((trial, name), repeats)| view(trial, name, &repeats)));
    all
}

/// Returns true if `wanted` names the quantity: in full, without its operation type, or by its quantity alone.
pub fn is_named(one: &QuantityView, wanted: &str) -> bool {
    let wanted = quantity::plain(wanted);
    one.name == wanted || one.quantity == wanted || format!("{}.{}", one.phase, one.quantity) == wanted
}

fn of_figure(name: &str, unit: &str, labels: &BTreeMap<String, String>, cell: &FigureCell) -> QuantityView {
    QuantityView {
        name: name.to_owned(),
        trial: name::labelled(&cell.store, labels.iter()),
        phase: String::new(),
        quantity: name.to_owned(),
        op: None,
        unit: unit.to_owned(),
        value: cell.value,
        text: cell.missing.clone().unwrap_or_else(|| cell.text.clone()),
        n: cell.n,
        repeats: cell.repeats,
        interval: cell.interval,
        late: cell.late,
        open: cell.open,
    }
}

/// Adds all quantities of a phase.
fn gather(facts: &PhaseFacts<'_>, gathered: &mut IndexMap<(String, String), Repeats>) {
    let trial = name::trial_without(&facts.trial.header, &[REPEAT]);
    let phase = &facts.phase.header.name;
    let kinds: Vec<&str> = facts.kinds().into_iter().map(|kind| facts.op_name(kind)).collect();
    for quantity in quantity::of_phase(facts.phase.header.kind) {
        let types = kinds.iter().filter(|_| quantity::is_by_operation(quantity)).map(|op| Some(*op));
        for op in std::iter::once(None).chain(types) {
            let seen = facts.quantity(quantity, op);
            let is_shown = seen.is_ok() || (is_percentile(quantity) && !quantity.starts_with(UNDISTURBED));
            if !is_shown {
                continue;
            }
            let name = match op {
                None => format!("{phase}.{quantity}"),
                Some(op) => format!("{phase}.{quantity}[op={op}]"),
            };
            let repeats = gathered.entry((trial.clone(), name)).or_default();
            (repeats.phase, repeats.quantity) = (phase.clone(), quantity.to_owned());
            repeats.op = op.map(str::to_owned);
            match seen {
                Ok(seen) => {
                    let is_open = quantity == "outage" && outage::is_open(facts);
                    repeats.values.push((seen.value, is_open));
                    repeats.n += seen.n;
                    repeats.late |= facts.is_moved(quantity, op);
                }
                Err(why) => repeats.missing = Some(why),
            }
        }
    }
}

fn view(trial: String, name: String, repeats: &Repeats) -> QuantityView {
    let unit = unit(&repeats.quantity);
    let median = outage::median(&repeats.values);
    let values: Vec<f64> = repeats.values.iter().map(|(value, _)| *value).collect();
    let missing = || repeats.missing.clone().unwrap_or_default();
    let text =
        |(value, is_open)| number::marked(number::lower_bound(number::with_unit(value, unit), is_open), repeats.late);
    QuantityView {
        name,
        trial,
        phase: repeats.phase.clone(),
        quantity: repeats.quantity.clone(),
        op: repeats.op.clone(),
        unit: unit.to_owned(),
        value: median.map(|(value, _)| value),
        text: median.map_or_else(missing, text),
        n: repeats.n,
        repeats: repeats.values.len() as u64,
        interval: interval::of_median(&values).map(|interval| (interval.low, interval.high)),
        late: repeats.late,
        open: median.is_some_and(|(_, is_open)| is_open),
    }
}

/// Returns the unit of a quantity; empty for counts.
fn unit(quantity: &str) -> &'static str {
    match quantity {
        "rate" => "1/s",
        "errors" => "%",
        "mean" | "stddev" | "outage" | "recovery" => "s",
        name if is_percentile(name) || name.ends_with("seconds") => "s",
        name if name.starts_with("lag_") || name.starts_with("connect_") => "ns",
        name if name.contains("bytes") => "B",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantity_is_found_in_full_by_its_phase_and_alone() {
        let one = QuantityView {
            name: "mixed.p999[op=read]".into(),
            trial: "a store".into(),
            phase: "mixed".into(),
            quantity: "p999".into(),
            op: Some("read".into()),
            unit: unit("p999").into(),
            value: Some(0.02),
            text: "20.0 ms".into(),
            n: 20_000,
            repeats: 1,
            interval: None,
            late: false,
            open: false,
        };
        for name in ["mixed.p999[op=read]", "mixed.p99.9[op=read]", "mixed.p999", "mixed.p99.9", "p999", "p99.9"] {
            assert!(is_named(&one, name), "{name}");
        }
        for name in ["p99", "mixed.p99", "mixed", "mixed.p999[op=update]", "other.p999", "", "mixed."] {
            assert!(!is_named(&one, name), "{name}");
        }
    }

    #[test]
    fn each_quantity_has_the_unit_of_its_value() {
        for (quantity, wanted) in [
            ("rate", "1/s"),
            ("undisturbed_p99", "s"),
            ("median_seconds", "s"),
            ("lag_p99", "ns"),
            ("connect_mean", "ns"),
            ("device_bytes_per_record", "B"),
            ("ops", ""),
        ] {
            assert_eq!(unit(quantity), wanted, "{quantity}");
        }
    }
}
