//! Faults of the plan: what clients noticed of each, and when throughput was back.

use std::collections::BTreeSet;

use plimsoll_analysis::RunView;
use plimsoll_analysis::view::{BacklogView, FailoverView, FaultView, FormulaState};
use plimsoll_analysis::{failover, number};
use plimsoll_core::TICK_NS;

use super::{Body, Cell, ColumnOf, NONE, Table, Tone, numbers, or_none, words};

/// Lists the faults with their effects, and the spread of those that were repeated.
pub fn faults(view: &RunView) -> Body<'_> {
    let timeouts = match view.faults.iter().any(|one| one.outage_is_timeout) {
        true => "; ≤: clients waited for the time-out of operations, and the store may have been back earlier",
        false => "",
    };
    let mut body = Body::noted(format!(
        "times from the beginning of each fault; >: had not ended when the next fault began or observation ended\
         {timeouts}"
    ));
    let places: BTreeSet<(&str, &str)> = view.faults.iter().map(|one| (&*one.trial, &*one.phase)).collect();
    let seconds = |time_s: Option<f64>| -> Cell { or_none(time_s.map(number::seconds)).into() };
    let named = |one: &FaultView| {
        let error = one.error.as_ref().map(|error| format!("failed: {error}"));
        Cell::from(&one.name).with(std::iter::once(one.fault.clone()).chain(error))
    };
    let columns: [ColumnOf<'_, FaultView>; 17] = [
        (words("trial").when(places.len() > 1), &|one| format!("{}, {}", one.trial, one.phase).into()),
        (words("fault"), &named),
        (numbers("at"), &|one| format!("{:.2} s", one.at_s).into()),
        (numbers("took").spare(2), &|one| seconds(one.taken_s)),
        (numbers("noticed"), &noticed),
        (numbers("no answer"), &|one| match (one.outage_s, one.outage_open) {
            (Some(outage_s), true) => Tone::Bad.text(format!("> {}", number::seconds(outage_s))).into(),
            (Some(0.0), false) => Tone::Good.text("0").into(),
            (Some(outage_s), false) if one.outage_is_timeout => {
                Tone::Strong.text(format!("≤ {}", number::seconds(outage_s))).into()
            }
            (Some(outage_s), false) => Tone::Strong.text(number::seconds(outage_s)).into(),
            (None, _) => NONE.into(),
        }),
        (numbers("throughput back"), &|one| match (one.recovery_after_next_s(), one.recovered_s) {
            (Some(next_s), _) => Tone::Bad.text(format!("> {}", number::seconds(next_s))).into(),
            (None, Some(0.0)) => Tone::Good.text("0").into(),
            (None, Some(recovered_s)) => Tone::Strong.text(number::seconds(recovered_s)).into(),
            (None, None) if one.recovered_open => {
                Tone::Bad.text(format!("> {}", number::seconds(one.observed_s))).into()
            }
            (None, None) => NONE.into(),
        }),
        (numbers("goals held").when(view.faults.iter().any(|one| !one.missed.is_empty())).spare(5), &goals),
        (numbers("backlog gone").when(view.faults.iter().any(|one| one.backlog.is_some())).spare(4), &backlog),
        (words("formula").when(!view.formulas.is_empty()).spare(3), &|one| {
            one.failover.as_ref().map_or(NONE.into(), formula)
        }),
        (numbers("clients affected").when(view.faults.iter().any(|one| one.affected.is_some())).spare(7), &|one| {
            or_none(one.affected.map(|all| format!("{} of {}", number::count(all.clients), number::count(all.of))))
                .into()
        }),
        (numbers("silent nodes").when(view.faults.iter().any(|one| one.nodes.is_some())).spare(8), &|one| {
            or_none(one.nodes.as_ref().map(|nodes| format!("{} of {}", nodes.silent.len(), nodes.of))).into()
        }),
        (numbers("rejected"), &|one| number::count(one.rejected).into()),
        (numbers("unknown"), &|one| number::count(one.unknown).into()),
        (words("unknown writes").when(view.faults.iter().any(|one| one.unknown_writes.is_some())).spare(6), &|one| {
            or_none(one.unknown_writes.map(|writes| writes.words())).into()
        }),
        (numbers("stale reads").when(view.faults.iter().any(|one| !one.stale.is_empty())), &stale),
        (numbers("healed").spare(1), &|one| seconds(one.healed_s)),
    ];
    body.table(Table::of("Faults", &view.faults, &columns));
    body.list(Tone::Plain, view.fault_repeats.iter().map(|one| &one.sentence));
    body.list(Tone::Plain, view.formulas.iter().map(|one| &one.sentence));
    body.list(Tone::Bad, view.faults.iter().filter(|one| one.error.is_some()).map(|one| &one.sentence));
    body
}

/// Returns the time until a client noticed; `slower` if only throughput fell or a goal was missed, and `no client` if it is known that nothing
/// changed.
fn noticed(one: &FaultView) -> Cell {
    match one.noticed_s {
        // The first tick.
        Some(noticed_s) if noticed_s < TICK_NS as f64 / 1e9 => "< 10 ms".into(),
        Some(noticed_s) => number::seconds(noticed_s).into(),
        None if one.is_slower() || !one.missed.is_empty() => "slower".into(),
        None if one.is_unnoticed() => Tone::Good.text("no client").into(),
        None => NONE.into(),
    }
}

/// Returns the number of stale records that were read.
fn stale(one: &FaultView) -> Cell {
    match one.stale_records() {
        0 => Tone::Good.text("0").into(),
        records => Tone::Bad.text(number::count(records)).into(),
    }
}

/// Returns the time until all goals that were missed held again; 0 if none was.
fn goals(one: &FaultView) -> Cell {
    if let Some(open) = one.missed.iter().find(|goal| goal.held_s.is_none()) {
        return Tone::Bad.text(format!("> {}", number::seconds(open.observed_s))).into();
    }
    match one.missed.iter().filter_map(|goal| goal.held_s).max_by(f64::total_cmp) {
        None => Tone::Good.text("0").into(),
        Some(held_s) => Tone::Strong.text(number::seconds(held_s)).into(),
    }
}

/// Returns the time until the backlog was worked off; 0 without one.
fn backlog(one: &FaultView) -> Cell {
    match one.backlog {
        None => Tone::Good.text("0").into(),
        Some(BacklogView { gone_s: Some(gone_s), .. }) => Tone::Strong.text(number::seconds(gone_s)).into(),
        Some(BacklogView { observed_s, .. }) => Tone::Bad.text(format!("> {}", number::seconds(observed_s))).into(),
    }
}

/// Returns the bounds of the store's formula, and the place of the failover beside them.
fn formula(one: &FailoverView) -> Cell {
    let tone = match one.state {
        FormulaState::Inside => Tone::Good,
        FormulaState::Less | FormulaState::More => Tone::Open,
        FormulaState::NotDecided => Tone::Dim,
    };
    tone.text(failover::beside(one)).into()
}
