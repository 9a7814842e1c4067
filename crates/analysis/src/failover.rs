//! Failovers beside the formulas that stores' makers publish.
//!
//! The measured time begins with the fault, and ends when clients have answers again: it includes their own waits. A
//! store that was healed, or had another fault, before the end of its formula decides nothing if it served only after
//! that.

use indexmap::IndexMap;
use plimsoll_core::{FailoverTime, TICK_NS};
use plimsoll_record::data::{FaultKind, FaultSpan, Run};

use crate::number;
use crate::view::{AnswerState, FailoverView, FaultView, FormulaState, FormulaView, SaidSentence, StudyAnswer};

/// Exactness of measured times in seconds.
const TICK_S: f64 = TICK_NS as f64 / 1e9;

/// Returns the bounds of a formula after a fault, in seconds; `None` if the fault does not take the whole primary away.
pub fn bounds(time: &FailoverTime, span: &FaultSpan) -> Option<(f64, f64)> {
    let bounds = match (span.kind, span.detail.name.as_str()) {
        (FaultKind::Kill, "kill primary") => time.killed_s,
        (FaultKind::Pause, "pause primary") | (FaultKind::Cut, "cut primary") => time.silent_s,
        _ => return None,
    };
    span.taken_ns.map(|_| bounds)
}

/// Judges the time until `store` served again, and if it was longer than observed. All times are seconds from the
/// beginning of the fault; at `until_s` healing or another fault began, or observation ended.
pub fn judged(store: &str, (least_s, most_s): (f64, f64), measured: Option<(f64, bool)>, until_s: f64) -> FailoverView {
    let state = match measured {
        Some((time_s, _)) if time_s.min(until_s) > most_s + TICK_S => FormulaState::More,
        Some((time_s, false)) if time_s < until_s && time_s < least_s - TICK_S => FormulaState::Less,
        Some((time_s, false)) if time_s < until_s => FormulaState::Inside,
        _ => FormulaState::NotDecided,
    };
    let measured_s = measured.map(|(time_s, _)| time_s);
    FailoverView { store: store.to_owned(), least_s, most_s, measured_s, elections: None, state }
}

/// Returns `900 ms to 2.10 s`.
fn range((least_s, most_s): (f64, f64)) -> String {
    format!("{} to {}", number::seconds(least_s), number::seconds(most_s))
}

/// Returns the bounds of the formula and the place of the measured time: `900 ms to 2.10 s: inside`. Several elections
/// are named: `830 ms above, with 2 elections`.
pub fn beside(view: &FailoverView) -> String {
    let measured_s = view.measured_s.unwrap_or_default();
    let place = match view.state {
        FormulaState::Less => format!("{} below", number::seconds(view.least_s - measured_s)),
        FormulaState::More => format!("{} above", number::seconds(measured_s - view.most_s)),
        state => state.name().to_owned(),
    };
    let several = view.elections.filter(|count| *count > 1);
    let several = several.map_or(String::new(), |count| format!(", with {} elections", number::count(count)));
    format!("{}: {place}{several}", range((view.least_s, view.most_s)))
}

/// Returns the words of [`beside`] with the label of the store.
pub fn words(view: &FailoverView) -> String {
    format!("{}'s formula gives {}", view.store, beside(view))
}

/// Numbers of failovers inside their formula, and of all that were decided.
pub fn counts<'v>(failovers: impl Iterator<Item = &'v FailoverView>) -> (u64, u64) {
    failovers.fold((0, 0), |(inside, decided), one| match one.state {
        FormulaState::Inside => (inside + 1, decided + 1),
        FormulaState::Less | FormulaState::More => (inside, decided + 1),
        FormulaState::NotDecided => (inside, decided),
    })
}

/// Returns each formula of a run with the failovers beside it.
pub fn formulas(run: &Run, faults: &[FaultView]) -> Vec<FormulaView> {
    let mut groups: IndexMap<(&str, &str), (&FailoverTime, Vec<&FailoverView>)> = IndexMap::new();
    for (place, failover) in faults.iter().filter_map(|one| Some((one.place, one.failover.as_ref()?))) {
        let trial = run.trials.iter().find(|trial| trial.header.ordinal == place.0);
        let Some(time) = trial.and_then(|trial| trial.header.failover_time.as_ref()) else { continue };
        let group =
            groups.entry((failover.store.as_str(), time.formula.as_str())).or_insert_with(|| (time, Vec::new()));
        group.1.push(failover);
    }
    let of_group = |((store, _), (time, failovers)): ((&str, &str), (&FailoverTime, Vec<&FailoverView>))| {
        let (inside, decided) = counts(failovers.iter().copied());
        let mut view = FormulaView {
            store: store.to_owned(),
            formula: time.formula.clone(),
            source: time.source.clone(),
            killed_s: time.killed_s,
            silent_s: time.silent_s,
            inside,
            decided,
            not_decided: failovers.len() as u64 - decided,
            elected_again: failovers.iter().filter(|one| one.elections.is_some_and(|count| count > 1)).count() as u64,
            sentence: String::new(),
        };
        view.sentence = of_formula(&view);
        view
    };
    groups.into_iter().map(of_group).collect()
}

/// Describes a formula and the failovers beside it, without a full stop.
fn of_formula(view: &FormulaView) -> String {
    let bounds = match view.killed_s == view.silent_s {
        true => range(view.killed_s),
        false => format!("{} after a kill, {} after a pause or a cut", range(view.killed_s), range(view.silent_s)),
    };
    let inside = (view.decided > 0).then(|| {
        format!("{} of {} inside", number::count(view.inside), number::plural(view.decided, "failover", "failovers"))
    });
    let open = (view.not_decided > 0).then(|| format!("{} not decided", number::count(view.not_decided)));
    let again =
        (view.elected_again > 0).then(|| format!("{} with more than one election", number::count(view.elected_again)));
    let counts: Vec<String> = inside.into_iter().chain(open).chain(again).collect();
    format!("{}'s formula: {}: {bounds}; {} ({})", view.store, view.formula, counts.join(", "), view.source)
}

/// Adds the numbers of failovers inside their formulas to an answer.
pub fn answered(mut answer: StudyAnswer, formulas: &[FormulaView]) -> StudyAnswer {
    let decided = formulas.iter().filter(|one| one.decided > 0);
    let of_store =
        |one: &FormulaView| format!("{} {} of {}", one.store, number::count(one.inside), number::count(one.decided));
    let stores: Vec<String> = decided.map(of_store).collect();
    if answer.state == AnswerState::Answered && !stores.is_empty() {
        let text = format!("Failovers inside the published formulas: {}.", number::list(&stores));
        answer.sentence = format!("{} {text}", answer.sentence);
        answer.said.push(SaidSentence { text, published: Vec::new(), agrees: None });
    }
    answer
}
