//! Results of power cuts: an overview with a row for each store with its settings and a column for each fate of the
//! disk; then each with its numbers, and the command that repeats it.

use plimsoll_analysis::number;
use plimsoll_analysis::view::{PromiseState, PromiseView, RunView};

use super::results::{bad, broken_with, known};
use super::{Body, Cell, ColumnOf, NONE, Table, Tone, numbers, or_none, words};

/// Reports the data that stores kept when their disk lost power.
pub fn promises<'a>(view: &'a RunView, full: bool) -> Body<'a> {
    let mut body = Body::noted(
        "The disk lost power under load. The promise names the file system, and then which un-flushed writes were left. \
         Acknowledged writes were looked for afterwards. Lost at most: upper bound with 95 % confidence.",
    );
    // Without promises the section about losses has it.
    if full && !view.promises.is_empty() {
        body.text(broken_with(view));
    }
    body.table(matrix(view, full));
    body.table(table(view, full));
    let not_needed: u64 = view.promises.iter().map(|one| one.cuts_not_needed).sum();
    if not_needed > 0 {
        let of = number::count(not_needed + view.promises.iter().map(|one| one.cuts).sum::<u64>());
        let (were, their) = if not_needed == 1 { ("was", "its") } else { ("were", "their") };
        body.text(Tone::Dim.text(format!(
            "{} of {of} cuts {were} not needed: {their} promise had already been broken (--all-cuts makes them all).",
            number::count(not_needed)
        )));
    }
    // The page has each below its name.
    let broken = view.promises.iter().filter(|one| !full && one.state >= PromiseState::Lost && !one.repeat.is_empty());
    let broken: Vec<String> = broken.map(|one| format!("repeat: {}", one.repeat)).collect();
    if !broken.is_empty() {
        body.text(Tone::Dim.text(
            "No run is like another: a repeat tries its moment until the promise breaks, at most as often as --tries says.",
        ));
    }
    body.list(Tone::Plain, broken);
    body
}

fn tone(one: &PromiseView) -> Tone {
    match one.state {
        // What the plan sets out to show is no alarm.
        PromiseState::Lost | PromiseState::Damaged | PromiseState::NotStarted if one.expected => Tone::Strong,
        PromiseState::Kept => Tone::Good,
        PromiseState::PagesNotTried | PromiseState::NothingAtRisk | PromiseState::NotKnown => Tone::Open,
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
    let count = one.lost.filter(|lost| *lost > 0 && !full);
    let lost = count.map_or(String::new(), |lost| format!(" {}", number::count(lost)));
    let tried = !matches!(one.state, PromiseState::NotTried | PromiseState::NotKnown | PromiseState::NothingAtRisk);
    let of = one.lost.map(|lost| format!("{} of {} lost", number::count(lost), number::count(one.acknowledged)));
    let word = tone(one).text(one.state.name()).then(Tone::Plain, lost);
    Cell::why(word, Some(&one.sentence)).with(of.filter(|_| full && tried))
}

/// Lists each promise with its numbers.
fn table(view: &RunView, full: bool) -> Table {
    let some = |n: u64, what: &str| (n > 0).then(|| format!("{} {what}", number::count(n)));
    let cuts = |one: &PromiseView| {
        let missing = if one.cuts > 0 { one.cuts_missing } else { 0 };
        let vacuous = some(one.vacuous_cuts, "with nothing at risk");
        let more = [vacuous, some(one.cuts_not_needed, "not needed"), some(missing, "not made")];
        Cell::from(number::count(one.cuts)).with(more.into_iter().flatten())
    };
    let wrong = |one: &PromiseView| {
        let kinds = one.wrong.iter().map(|(name, n)| format!("{} {}", number::count(*n), name.replace('_', " ")));
        bad(one.wrong.values().sum()).with(kinds)
    };
    let lost = |one: &PromiseView| match one.lost {
        Some(lost) if one.expected => Cell::from(number::count(lost)),
        lost => known(lost),
    };
    let lost = |one: &PromiseView| lost(one).with(some(one.read_then_lost, "read, then lost"));
    let at_risk = |one: &PromiseView| {
        let writes = number::plural(one.at_risk_writes as u64, "write", "writes");
        let kinds = one.at_risk_kinds.iter().map(|(kind, cuts)| match cuts {
            0 => format!("no {kind}"),
            _ => format!("{kind} at {} of {}", number::count(*cuts), number::count(one.cuts - one.vacuous_cuts)),
        });
        Cell::from(writes).with(full.then(|| number::bytes(one.at_risk_bytes)).into_iter().chain(kinds))
    };
    let repeat = |one: &PromiseView| (!one.repeat.is_empty()).then(|| one.repeat.clone());
    let bound = |bound: f64| format!("{} %", number::significant(bound * 100.0));
    let any_wrong = view.promises.iter().any(|one| !one.wrong.is_empty());
    let columns: [ColumnOf<'_, PromiseView>; 10] = [
        (words("store"), &|one| Cell::from(&one.name).with(repeat(one))),
        (words("promise"), &|one| tone(one).text(one.state.name()).into()),
        (numbers("cuts"), &cuts),
        (numbers("acknowledged"), &|one| number::count(one.acknowledged).into()),
        (numbers("lost"), &lost),
        (numbers("window"), &|one| or_none(one.lost_window_s.map(number::seconds)).into()),
        (numbers("wrong").when(any_wrong), &wrong),
        (numbers("lost at most"), &|one| or_none(one.loss_upper_bound.map(bound)).into()),
        (numbers("at risk").spare(1), &at_risk),
        (numbers("recovery").spare(2), &|one| or_none(one.recovery_s.map(number::seconds)).into()),
    ];
    Table::of("Promises", &view.promises, &columns)
}
