//! Results of power cuts: an overview with a row for each store with its settings and a column for each fate of the
//! disk; then each with its numbers, and the command that repeats it.

use plimsoll_analysis::number;
use plimsoll_analysis::view::{PromiseState, PromiseView, RunView};

use super::results::bad;
use super::{Body, Cell, NONE, Table, Tone, numbers, or_none, words};
use crate::cells;

/// Reports the data that stores kept when their disk lost power.
pub fn promises<'a>(view: &'a RunView, full: bool) -> Body<'a> {
    let mut body = Body::noted(
        "the disk lost power under load; the promise names the file system, and then which un-flushed writes were left; acknowledged \
         writes were looked for afterwards; lost at most: upper bound with 95 % confidence",
    );
    body.table(matrix(view, full));
    body.table(table(view, full));
    let not_needed: u64 = view.promises.iter().map(|one| one.cuts_not_needed).sum();
    if not_needed > 0 {
        let of = number::count(not_needed + view.promises.iter().map(|one| one.cuts).sum::<u64>());
        let (cuts, were) = if not_needed == 1 { ("cut", "was") } else { ("cuts", "were") };
        body.text(Tone::Dim.text(format!(
            "{} of {of} {cuts} {were} not needed: their promise had already been broken (--all-cuts makes them all).",
            number::count(not_needed)
        )));
    }
    // The page has each below its name.
    let broken = view.promises.iter().filter(|one| !full && one.state >= PromiseState::Lost && !one.repeat.is_empty());
    body.list(Tone::Plain, broken.map(|one| format!("repeat: {}", one.repeat)));
    body
}

fn tone(state: PromiseState) -> Tone {
    match state {
        PromiseState::Kept => Tone::Good,
        PromiseState::NothingAtRisk | PromiseState::NotKnown => Tone::Open,
        PromiseState::NotTried => Tone::Dim,
        PromiseState::Lost | PromiseState::Damaged | PromiseState::NotStarted => Tone::Bad,
    }
}

/// Draws all promises at a glance; without rows if there is only one row, or at most one column.
fn matrix(view: &RunView, full: bool) -> Table {
    let mut faults: Vec<&str> = Vec::new();
    let mut stores: Vec<&str> = Vec::new();
    for one in view.promises.iter().filter(|one| !one.fault.is_empty()) {
        let (store, fault) = (one.store.as_str(), one.fault.as_str());
        if !faults.contains(&fault) {
            faults.push(fault);
        }
        if !stores.contains(&store) {
            stores.push(store);
        }
    }
    let columns = std::iter::once(words("store")).chain(faults.iter().map(|fault| words(*fault))).collect();
    let mut table = Table::new("Promises at a glance", columns);
    if stores.len() < 2 && faults.len() < 2 {
        return table;
    }
    for store in stores {
        let of = |fault: &&str| {
            let one = view.promises.iter().find(|one| one.store == store && one.fault == *fault);
            one.map_or_else(|| Cell::from(NONE), |one| glance(one, full))
        };
        table.row(std::iter::once(Cell::from(store)).chain(faults.iter().map(of)).collect());
    }
    table
}

/// A promise in a word, and how much was lost.
fn glance(one: &PromiseView, full: bool) -> Cell {
    let is_lost = one.lost > 0;
    let lost = || format!(" {}", number::count(one.lost));
    let mut cell = Cell::from(
        tone(one.state).text(one.state.name()).then(Tone::Plain, if is_lost && !full { lost() } else { String::new() }),
    );
    let tried = !matches!(one.state, PromiseState::NotTried | PromiseState::NotKnown | PromiseState::NothingAtRisk);
    let of = format!("{} of {} lost", number::count(one.lost), number::count(one.acknowledged));
    cell.more.extend((full && tried).then_some(of));
    cell.why = Some(one.sentence.clone());
    cell
}

/// Lists each promise with its numbers.
fn table(view: &RunView, full: bool) -> Table {
    let columns = [
        vec![words("store"), words("promise"), numbers("cuts"), numbers("acknowledged"), numbers("lost")],
        vec![numbers("window"), numbers("wrong").when(view.promises.iter().any(|one| !one.wrong.is_empty()))],
        vec![numbers("lost at most"), numbers("at risk").spare(1), numbers("recovery").spare(2)],
    ];
    let mut table = Table::new("Promises", columns.concat());
    for one in &view.promises {
        let mut name = Cell::from(&one.name);
        name.more.extend((!one.repeat.is_empty()).then(|| one.repeat.clone()));
        let mut cuts = Cell::from(number::count(one.cuts));
        cuts.more.extend(
            (one.vacuous_cuts > 0).then(|| format!("{} with nothing at risk", number::count(one.vacuous_cuts))),
        );
        cuts.more
            .extend((one.cuts_not_needed > 0).then(|| format!("{} not needed", number::count(one.cuts_not_needed))));
        cuts.more.extend(
            (one.cuts > 0 && one.cuts_missing > 0).then(|| format!("{} not made", number::count(one.cuts_missing))),
        );
        let mut wrong = bad(one.wrong.values().sum());
        let kinds = one.wrong.iter().map(|(name, n)| format!("{} {}", number::count(*n), name.replace('_', " ")));
        wrong.more.extend(kinds);
        let mut at_risk = Cell::from(number::plural(one.at_risk_writes as u64, "write", "writes"));
        at_risk.more.extend(full.then(|| number::bytes(one.at_risk_bytes)));
        table.row(cells![
            name,
            tone(one.state).text(one.state.name()),
            cuts,
            number::count(one.acknowledged),
            bad(one.lost),
            or_none(one.lost_window_s.map(number::seconds)),
            wrong,
            or_none(one.loss_upper_bound.map(|bound| format!("{} %", number::significant(bound * 100.0)))),
            at_risk,
            or_none(one.recovery_s.map(number::seconds)),
        ]);
    }
    table
}
