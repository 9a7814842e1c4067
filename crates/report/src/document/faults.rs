//! Faults of the plan: what clients noticed of each, and when throughput was back.

use std::collections::BTreeSet;

use plimsoll_analysis::RunView;
use plimsoll_analysis::view::{
    BacklogView, CountSpread, FailoverView, FaultRepeatsView, FaultSpread, FaultView, FormulaState,
};
use plimsoll_analysis::{failover, number};

use super::{Block, Body, Cell, ColumnOf, NONE, ROWS_MAX, Table, Text, Tone, numbers, or_none, words};

/// Text in place of an interval of fewer than six faults.
const NO_INTERVAL: &str = "none below n = 6";

/// Lists the spread of the effects of faults that were repeated, and each fault: `full`, as the page has them, where many
/// faults are folded away.
pub fn faults(view: &RunView, full: bool) -> Body<'_> {
    let timeouts = match view.faults.iter().any(|one| one.outage_is_timeout) {
        true => "; ≤: clients waited for the time-out of operations, and the store may have been back earlier",
        false => "",
    };
    let places: BTreeSet<(&str, &str)> = view.faults.iter().map(|one| (&*one.trial, &*one.phase)).collect();
    // Plans have the times of faults from there.
    let only = view.faults.first().map(|one| one.place).filter(|only| view.faults.iter().all(|one| one.place == *only));
    let start_s = only.and_then(|(trial, phase)| {
        let trial = view.trials.iter().find(|one| one.ordinal == trial)?;
        trial.phases.iter().find(|one| one.ordinal == phase).map(|one| one.start_s)
    });
    let start = start_s.map_or(String::new(), |start_s| format!("; the phase began at {start_s:.2} s"));
    let mut body = Body::noted(format!(
        "times from the beginning of each fault; >: had not ended when the next fault began or observation ended\
         {timeouts}{start}"
    ));
    let seconds = |time_s: Option<f64>| -> Cell { or_none(time_s.map(number::seconds)).into() };
    let named = |one: &FaultView| {
        let failed = if one.is_skipped { "skipped: " } else { "failed: " };
        let error = one.error.as_ref().map(|error| format!("{failed}{error}"));
        Cell::from(&one.name).with(std::iter::once(one.fault.clone()).chain(error))
    };
    let columns: [ColumnOf<'_, FaultView>; 21] = [
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
        (numbers("silent clients").when(view.faults.iter().any(|one| one.clients.is_some())).spare(9), &|one| {
            one.clients.map_or(NONE.into(), |all| silent((all.silent, all.of), all.longest_s, all.longest_open))
        }),
        (numbers("silent nodes").when(view.faults.iter().any(|one| one.nodes.is_some())).spare(8), &|one| {
            let Some(nodes) = &one.nodes else { return NONE.into() };
            let (longest_s, is_open) = nodes.longest().map_or((0.0, false), |node| (node.seconds, node.open));
            silent((nodes.silent.len() as u64, nodes.of), longest_s, is_open)
        }),
        (numbers("silent keys").when(view.faults.iter().any(|one| one.key_parts.is_some())).spare(5), &|one| {
            one.key_parts.map_or(NONE.into(), |all| silent((all.silent, all.of), all.longest_s, all.longest_open))
        }),
        (numbers("rejected"), &|one| number::count(one.rejected).into()),
        (numbers("unknown"), &|one| number::count(one.unknown).into()),
        (words("unknown writes").when(view.faults.iter().any(|one| one.unknown_writes.is_some())).spare(6), &|one| {
            or_none(one.unknown_writes.map(|writes| writes.words())).into()
        }),
        (numbers("stale reads").when(view.faults.iter().any(|one| !one.stale.is_empty())), &|one| {
            wrong(one.stale_records())
        }),
        (numbers("duplicates").when(view.faults.iter().any(|one| one.duplicates > 0)), &|one| wrong(one.duplicates)),
        (numbers("lost writes").when(view.faults.iter().any(|one| one.lost.is_some_and(|lost| lost.all() > 0))), &lost),
        (numbers("healed").spare(1), &|one| seconds(one.healed_s)),
    ];
    let (each, repeated) = (Table::of("Faults", &view.faults, &columns), repeats(view));
    let is_folded = !repeated.rows.is_empty() && each.rows.len() > ROWS_MAX;
    body.table(repeated);
    match (is_folded, full) {
        (true, true) => {
            let title = format!("Each of the {} faults", number::count(each.rows.len() as u64));
            body.fold(title, false, Body { note: Text::default(), blocks: vec![Block::Table(each)] });
        }
        (true, false) => body.first_rows(each, false),
        (false, _) => body.table(each),
    }
    body.list(Tone::Bad, view.fault_losses.iter().map(|one| &one.sentence));
    let notes: BTreeSet<&String> = view.faults.iter().flat_map(|one| &one.notes).collect();
    body.list(Tone::Plain, notes);
    body.list(Tone::Plain, view.formulas.iter().map(|one| &one.sentence));
    body.list(
        Tone::Bad,
        view.faults.iter().filter(|one| one.error.is_some() && !one.is_skipped).map(|one| &one.sentence),
    );
    body
}

/// Spread of one effect of faults that were repeated.
struct EffectSpread<'v> {
    of: &'v FaultRepeatsView,
    effect: String,
    n: u64,
    /// Least, median and most.
    values: [String; 3],
    interval: Option<[String; 2]>,
}

/// Returns a table of the effects of faults of the same words, each with its spread.
fn repeats(view: &RunView) -> Table {
    let all = &view.fault_repeats;
    let places: BTreeSet<(&str, &str)> = all.iter().map(|one| (&*one.trial, &*one.phase)).collect();
    let rows: Vec<EffectSpread<'_>> = all.iter().flat_map(effects).collect();
    let value = |row: &EffectSpread<'_>, at: usize| -> Cell { or_none(row.values.get(at).cloned()).into() };
    let columns: [ColumnOf<'_, EffectSpread<'_>>; 8] = [
        (words("trial").when(places.len() > 1), &|row| format!("{}, {}", row.of.trial, row.of.phase).into()),
        (words("repeated fault"), &|row| (&row.of.fault).into()),
        (words("effect"), &|row| (&row.effect).into()),
        (numbers("n"), &|row| number::count(row.n).into()),
        (numbers("least"), &|row| value(row, 0)),
        (numbers("median"), &|row| value(row, 1)),
        (numbers("most"), &|row| value(row, 2)),
        (words("95 % interval of the median"), &|row| match &row.interval {
            Some([low, high]) => format!("{low} to {high}").into(),
            None => Tone::Dim.text(NO_INTERVAL).into(),
        }),
    ];
    Table::of("Repeated faults", &rows, &columns)
}

/// Returns a number of things, or the middle between two.
fn whole_or_half(value: f64) -> String {
    let whole = number::count(value as u64);
    if value.fract() == 0.0 { whole } else { format!("{whole}.5") }
}

/// Returns the effects of which a spread is known.
fn effects(of: &FaultRepeatsView) -> Vec<EffectSpread<'_>> {
    let time = |effect: &str, spread: &FaultSpread, format: fn(f64) -> String| EffectSpread {
        of,
        effect: match spread.timeouts {
            0 => effect.to_owned(),
            n => format!("{effect} (≤ in {})", number::count(n)),
        },
        n: spread.n,
        values: spread.words(format),
        interval: spread.interval_words(format),
    };
    let count = |effect: &str, spread: &CountSpread| EffectSpread {
        of,
        effect: effect.to_owned(),
        n: spread.n,
        values: [spread.least, spread.median, spread.most].map(whole_or_half),
        interval: spread.interval.map(|(low, high)| [low, high].map(whole_or_half)),
    };
    let noticed = of.noticed.as_ref().map(|spread| time("noticed", spread, number::seconds_to_tick));
    let times = [("no answer", &of.outage), ("throughput back", &of.recovered)];
    let times = times.into_iter().filter_map(|(effect, spread)| Some(time(effect, spread.as_ref()?, number::seconds)));
    noticed
        .into_iter()
        .chain(times)
        .chain(of.affected.as_ref().map(|spread| count("clients affected", spread)))
        .chain(of.client_silence.as_ref().map(|spread| time("no answer to a client", spread, number::seconds)))
        .chain(of.silent_parts.as_ref().map(|spread| count("silent parts of the keys", spread)))
        .chain(of.part_silence.as_ref().map(|spread| time("no answer for a part", spread, number::seconds)))
        .chain(of.lost.as_ref().map(|spread| count("lost writes", spread)))
        .collect()
}

/// Returns the time until a client noticed; `slower` if only throughput fell or a goal was missed, and `no client` if it is known that nothing
/// changed.
fn noticed(one: &FaultView) -> Cell {
    match one.noticed_s {
        Some(noticed_s) => number::seconds_to_tick(noticed_s).into(),
        None if one.is_slower() || !one.missed.is_empty() => "slower".into(),
        None if one.is_unnoticed() => Tone::Good.text("no client").into(),
        None => NONE.into(),
    }
}

/// Returns the number of those that had no answer, of all, and the longest time of one.
fn silent((silent, of): (u64, u64), longest_s: f64, is_open: bool) -> Cell {
    let share = format!("{} of {}", number::count(silent), number::count(of));
    let longest = number::seconds(longest_s);
    match (silent, is_open) {
        (0, _) => Tone::Good.text(share).into(),
        (_, false) => Tone::Strong.text(format!("{share}, {longest}")).into(),
        (_, true) => Tone::Bad.text(format!("{share}, > {longest}")).into(),
    }
}

/// Returns the number of wrong records of one kind that were read.
fn wrong(records: u64) -> Cell {
    match records {
        0 => Tone::Good.text("0").into(),
        records => Tone::Bad.text(number::count(records)).into(),
    }
}

/// Returns the number of lost writes that were acknowledged in the effect of the fault, and of those before it.
fn lost(one: &FaultView) -> Cell {
    let Some(lost) = one.lost else { return NONE.into() };
    let in_effect = number::count(lost.in_effect);
    match (lost.all(), lost.before) {
        (0, _) => Tone::Good.text(in_effect).into(),
        (_, 0) => Tone::Bad.text(in_effect).into(),
        (_, before) => Tone::Bad.text(format!("{in_effect}, {} before", number::count(before))).into(),
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
