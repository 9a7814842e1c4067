//! Sentences of runs in which everything held.

use indexmap::IndexSet;
use plimsoll_record::data::{GoalKind, Run};

use crate::faults;
use crate::goal;
use crate::number;
use crate::outage;
use crate::view::{FaultView, GoalState, GoalView, LedgerView, TrialView, VerdictState};

/// Returns a sentence that every answer of a search was right and nothing was lost; `None` if that is not so, or
/// nothing was checked.
pub fn truth(run: &Run, trials: &[TrialView]) -> Option<String> {
    let totals = trials.iter().filter_map(|trial| trial.answers_total);
    let wrong: u64 = totals.map(|all| all.missing + goal::wrong_in(run, &all)).sum();
    let n = trials.iter().filter(|trial| trial.answers_total.is_some() || !trial.ledgers.is_empty()).count() as u64;
    let mut ledgers = trials.iter().flat_map(|trial| &trial.ledgers).peekable();
    let has_ledgers = ledgers.peek().is_some();
    if wrong > 0 || ledgers.any(|ledger| ledger.lost != Some(0) || ledger.wrong_total > 0 || !ledger.complete) {
        return None;
    }
    let mut kept: Vec<String> = answers_kept(trials.iter()).into_iter().collect();
    kept.extend(has_ledgers.then(|| "no acknowledged write was lost".to_string()));
    (!kept.is_empty()).then(|| format!("In {} {}.", number::plural(n, "trial", "trials"), number::list(&kept)))
}

/// Returns a sentence that all answers and all records read back were right, if any was checked, but for the stale
/// records that a goal allows. The sum of both is the `n` of a goal on `wrong`.
fn answers_kept<'t>(trials: impl Iterator<Item = &'t TrialView>) -> Option<String> {
    let (mut answers, mut stale, mut read_back) = (0, 0, 0);
    for trial in trials {
        let counts = trial.answers_total.unwrap_or_default();
        (answers, stale) = (answers + counts.answers, stale + counts.stale_records);
        let right = |ledger: &LedgerView| ledger.read_back.saturating_sub(ledger.read_then_lost);
        read_back += trial.ledgers.iter().map(right).max().unwrap_or(0);
    }
    let checked = [(answers, "checked answers"), (read_back, "records read back")];
    let checked = checked.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{} {what}", number::count(*n)));
    let checked: Vec<String> = checked.collect();
    let but = match stale {
        0 => String::new(),
        _ => format!(" but for {}", number::plural(stale, "stale record", "stale records")),
    };
    (!checked.is_empty()).then(|| format!("all {} were right{but}", number::list(&checked)))
}

/// Returns the number of goals that held, of all goals of the report: `3 goals held`, `2 of 3 goals held`; `None` if none
/// did.
fn goals_held(goals: &[GoalView]) -> Option<String> {
    let held = goals.iter().filter(|goal| goal.state == GoalState::Held).count();
    let all = number::plural(goals.len() as u64, "goal", "goals");
    match held {
        0 => None,
        n if n == goals.len() => Some(format!("{all} held")),
        n => Some(format!("{} of {all} held", number::count(n as u64))),
    }
}

/// Returns the state and the sentence of a run in which everything held. Faults of these trials are named with the
/// longest outage since one of them.
pub fn kept(goals: &[GoalView], trials: &[&TrialView], faults: &[FaultView]) -> (VerdictState, String) {
    let stores: IndexSet<&str> = trials.iter().map(|trial| trial.store.as_str()).collect();
    let stores = number::list(&stores.into_iter().map(str::to_owned).collect::<Vec<_>>());
    let acknowledged: u64 =
        trials.iter().filter_map(|trial| trial.ledgers.iter().map(|ledger| ledger.acknowledged).max()).sum();
    let mut kept: Vec<String> = answers_kept(trials.iter().copied()).into_iter().collect();
    if acknowledged > 0 {
        kept.push(format!("none of {} acknowledged writes was lost", number::count(acknowledged)));
    }
    kept.extend(goals_held(goals));
    let state = if kept.is_empty() { VerdictState::Measured } else { VerdictState::Pass };
    let late = trials.iter().flat_map(|trial| &trial.phases).filter(|phase| phase.late.is_some()).count() as u64;
    let phases = number::plural(late, "phase", "phases");
    let late = (late > 0).then(|| format!("The generator was late in {phases}: see the values marked *"));
    let checked = number::list(&kept);
    let is_checked = !kept.is_empty();
    let is_there = |one: &&FaultView| trials.iter().any(|trial| trial.ordinal == one.place.0);
    let faults: Vec<&FaultView> = faults.iter().filter(is_there).collect();
    let (named, worst) = faults::together(&faults);
    // No promise to answer is kept while nothing is answered, unless a goal allows it.
    let is_allowed = goals.iter().any(|goal| goal.what == GoalKind::Outage && goal.state == GoalState::Held);
    let phases = trials.iter().flat_map(|trial| trial.phases.iter().map(move |phase| (trial, phase)));
    let phases = phases.filter(|_| !is_allowed);
    let outages = phases.filter_map(|(trial, phase)| Some((trial, phase, phase.outage.as_ref()?)));
    // Those since a fault are told with it.
    let outages =
        outages.filter(|(trial, phase, one)| !faults::has_outage(&faults, (trial.ordinal, phase.ordinal), one.at_s));
    if let Some((trial, phase, one)) = outages.max_by(|a, b| a.2.seconds.total_cmp(&b.2.seconds)) {
        let worst = worst.map_or(String::new(), |worst| format!(": {worst}"));
        let mut all = vec![format!("{} gave no answer in phase {} for {}", trial.name, phase.name, outage::words(one))];
        all.extend((!faults.is_empty()).then(|| format!("{named}{worst}")));
        all.extend(is_checked.then(|| number::capital(&checked)));
        all.extend(late);
        return (state, format!("{}.", all.join(". ")));
    }
    // Of acknowledged writes that nothing has looked for no promise is known to be kept.
    let has_looked = trials.iter().all(|trial| !trial.ledgers.is_empty());
    let how = if has_looked && is_checked { "kept every promise" } else { "ran as planned" };
    let through = if faults.is_empty() { String::new() } else { format!(" through {named}") };
    let shown = match (worst, is_checked) {
        (Some(worst), true) => format!(": {worst}. {}", number::capital(&checked)),
        (Some(worst), false) => format!(": {worst}"),
        (None, true) => format!(": {checked}"),
        (None, false) => String::new(),
    };
    let unchecked = if is_checked { "" } else { "; nothing was checked and no goal was set" };
    let late = late.map_or(String::new(), |late| format!(" {late}."));
    (state, format!("{stores} {how}{through}{shown}{unchecked}.{late}"))
}

/// Returns the state and the sentence of a run with trials that set out to break promises, in which nothing else broke.
/// `broken` is the sentence about the promises that broke, if any did.
pub fn shown(
    run: &Run,
    goals: &[GoalView],
    others: &[&TrialView],
    faults: &[FaultView],
    broken: Option<&str>,
) -> (VerdictState, String) {
    let none = "No promise broke where the plan sets out to break them.".to_owned();
    let sentence = broken.map_or(none, |broken| format!("As the plan sets out to show, {broken}"));
    if !others.is_empty() {
        let (state, elsewhere) = kept(goals, others, faults);
        return (state, format!("{sentence} Elsewhere {elsewhere}"));
    }
    // An expected loss is a result; only a goal on a figure that held has passed.
    let is_of_figure = |goal: &&GoalView| !goal.what.is_of_ledger();
    let has_passed = goals.iter().filter(is_of_figure).any(|goal| goal.state == GoalState::Held);
    let (state, held) = match goals_held(goals).filter(|_| has_passed) {
        None => (VerdictState::Measured, String::new()),
        Some(held) => (VerdictState::Pass, format!(" {held}.")),
    };
    (state, format!("{} ran as planned. {sentence}{held}", number::list(&run.stores())))
}
