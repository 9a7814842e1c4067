//! Promises that stores kept or broke when their disk lost power: cuts of the same settings together.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexMap;
use plimsoll_core::{CutMoment, WriteKind};
use plimsoll_record::data::{
    Cell, DID_NOT_START, LedgerCheck, Phase, PhaseKind, PhaseState, RESURRECTED, ResultName, Run, Trial,
};

use crate::name;
use crate::number;
use crate::stat;
use crate::view::{PromiseState, PromiseView};

/// Key of a drive with the moment of the power cut: each moment of the same settings is another attempt.
pub(crate) const MOMENT: &str = "power_cut";
/// Tries of the command that repeats a broken promise: clients and the store's own work do not run as before.
const TRIES: usize = 5;
/// Words for a number of a store that could not be read.
pub const NOT_KNOWN: &str = "not known";

/// A cut.
struct Cut<'r> {
    trial: u32,
    /// The plan sets out to break promises in its trial.
    breaks: bool,
    power: &'r Phase,
    ledger: &'r LedgerCheck,
    /// Writes that were acknowledged since the load, whose records were made durable before the power was to go.
    acknowledged: u64,
    /// Number of them for which the bound of the share of losses is three over it; `None` if unknown.
    borne_out: Option<f64>,
    window_s: Option<f64>,
    /// The check came to its end: a store that died over it has not kept anything.
    is_checked: bool,
}

impl Cut<'_> {
    fn result(&self, name: ResultName) -> f64 {
        self.power.end.result(name).map_or(0.0, |result| result.value)
    }

    /// Returns the subjects of the results of that name, with their values.
    fn of(&self, name: ResultName) -> impl Iterator<Item = (&str, f64)> {
        let results = self.power.end.results.iter().filter(move |result| result.name == name);
        results.map(|result| (result.subject.as_str(), result.value))
    }

    /// Returns the number of data pages at risk; `None` if it is not known, or the store has none.
    fn pages(&self) -> Option<f64> {
        self.of(ResultName::AtRiskKind).find(|(kind, _)| *kind == WriteKind::DataPages.name()).map(|(_, writes)| writes)
    }

    /// Acknowledged writes that are not there. A state that had been seen and is gone counts too.
    fn lost(&self) -> u64 {
        self.ledger.lost.max(self.ledger.wrong.get(RESURRECTED).copied().unwrap_or(0))
    }

    /// Returns all other disagreements, by name.
    fn wrong(&self) -> impl Iterator<Item = (&String, u64)> {
        let others =
            self.ledger.wrong.iter().filter(|(name, _)| ![RESURRECTED, DID_NOT_START].contains(&name.as_str()));
        others.map(|(name, count)| (name, *count))
    }

    /// Returns true if the writes that it lost are known: the store was read, or some are seen to be missing.
    fn is_known(&self) -> bool {
        let is_read = self.ledger.complete || self.lost() > 0;
        is_read && !matches!(self.state(), PromiseState::NotKnown | PromiseState::NotStarted)
    }

    fn state(&self) -> PromiseState {
        if self.ledger.wrong.contains_key(DID_NOT_START) {
            PromiseState::NotStarted
        } else if self.wrong().any(|(_, count)| count > 0) {
            PromiseState::Damaged
        } else if self.lost() > 0 {
            PromiseState::Lost
        } else if !self.ledger.complete || !self.is_checked {
            PromiseState::NotKnown
        } else if self.result(ResultName::AtRiskWrites) == 0.0 || self.acknowledged == 0 {
            PromiseState::NothingAtRisk
        } else {
            PromiseState::Kept
        }
    }
}

/// Returns true if a violation was seen: a loss, damage, or a failed restart.
pub fn is_broken(ledger: &LedgerCheck) -> bool {
    ledger.lost > 0 || ledger.wrong.values().any(|count| *count > 0)
}

/// Returns the promise of each store with its settings whose disk lost power in `run`, or was to; none without such a
/// disk.
pub fn promises(run: &Run) -> Vec<PromiseView> {
    if !run.header.outline.cells.is_empty() {
        return run.header.outline.cells.iter().map(|cell| of_cell(run, cell)).collect();
    }
    let mut cells: IndexMap<String, Vec<Cut<'_>>> = IndexMap::new();
    for trial in &run.trials {
        let name = name::trial_without(&trial.header, &[MOMENT, name::REPEAT]);
        let cuts = cuts(trial);
        if !cuts.is_empty() {
            cells.entry(name).or_default().extend(cuts);
        }
    }
    cells.into_iter().map(|(name, cuts)| one(name, &cuts, 0)).collect()
}

/// Returns true if the promises of the run judge what this trial kept: its power was cut, or it belongs to a cell.
pub fn judges(run: &Run, trial: u32) -> bool {
    let is_in_cell = |cell: &Cell| cell.cuts.iter().any(|(ordinal, _)| *ordinal == trial);
    let is_cut = |one: &Trial| one.header.ordinal == trial && !cuts(one).is_empty();
    run.header.outline.cells.iter().any(is_in_cell) || run.trials.iter().any(is_cut)
}

/// Returns true if the power cuts of a trial show that all was kept; `None` without a cut.
pub(crate) fn was_kept(trial: &Trial) -> Option<bool> {
    let states: Vec<PromiseState> = cuts(trial).iter().map(Cut::state).collect();
    let is_proof = |state: &PromiseState| matches!(state, PromiseState::Kept | PromiseState::NothingAtRisk);
    (!states.is_empty()).then(|| states.contains(&PromiseState::Kept) && states.iter().all(is_proof))
}

/// Returns the result of a cell.
fn of_cell(run: &Run, cell: &Cell) -> PromiseView {
    let is_its = |trial: &&Trial| cell.cuts.iter().any(|(ordinal, _)| *ordinal == trial.header.ordinal);
    let cuts: Vec<Cut<'_>> = run.trials.iter().filter(is_its).flat_map(cuts).collect();
    let breaking = cuts.iter().find(|cut| cut.state() >= PromiseState::Lost).map(|cut| vec![cut.trial]);
    let begun = run.trials.iter().filter(is_its).count();
    // Those that failed were needed, whatever others have decided since.
    let not_needed = breaking.as_ref().map_or(0, |_| cell.cuts.len().saturating_sub(begun));
    let missing = cell.cuts.len().saturating_sub(not_needed + cuts.len()) as u64;
    let view = one(cell.name.clone(), &cuts, missing);
    let has_ended = || run.trials.iter().filter(is_its).any(|trial| trial.end_ns.is_some());
    let (state, sentence) = match cuts.is_empty() {
        false => (view.state, view.sentence),
        // Acknowledged writes were not looked for.
        true if has_ended() => (PromiseState::NotKnown, format!("{}: it is not known what was kept.", cell.name)),
        true => (PromiseState::NotTried, format!("{}: not tried.", cell.name)),
    };
    let cell = &with_moments_that_came(cell, &cuts);
    let all: Vec<u32> = cell.cuts.iter().map(|(trial, _)| *trial).collect();
    PromiseView {
        store: cell.store.clone(),
        fault: cell.fault.clone(),
        state,
        sentence,
        cuts_not_needed: not_needed as u64,
        repeat: match &breaking {
            Some(breaking) => cell.repeat(breaking, TRIES),
            None => cell.repeat(&all, cell.tries()),
        },
        ..view
    }
}

/// Returns the cell with the last write before the cut in place of moments that had not come when the drive ended: a
/// repeat can come to it.
fn with_moments_that_came(cell: &Cell, cuts: &[Cut<'_>]) -> Cell {
    let mut cell = cell.clone();
    for cut in cuts {
        let count = |name| cut.result(name) as u64;
        let (writes, flushes) = (count(ResultName::Writes), count(ResultName::Flushes));
        let its = cell.cuts.iter_mut().filter(|(trial, moment)| {
            let is_later = |moment: CutMoment| !moment.has_come(writes, flushes);
            *trial == cut.trial && writes > 0 && moment.parse().is_ok_and(is_later)
        });
        its.for_each(|(_, moment)| *moment = CutMoment::Write(writes).to_string());
    }
    cell
}

/// Returns each cut of a trial, with the check that follows it.
fn cuts(trial: &Trial) -> Vec<Cut<'_>> {
    let powers = || trial.phases.iter().filter(|phase| phase.header.kind == PhaseKind::Power);
    let cut = |power: &'_ Phase| -> Option<Cut<'_>> {
        let ordinal = power.header.ordinal;
        let next = powers().map(|phase| phase.header.ordinal).find(|other| *other > ordinal).unwrap_or(u32::MAX);
        let ledger = trial.ledgers.iter().rfind(|ledger| (ordinal..next).contains(&ledger.phase))?;
        let power = trial.phases.iter().find(|phase| phase.header.ordinal == ordinal)?;
        let before = trial.phases.iter().filter(|phase| phase.header.ordinal < ordinal);
        let driven = before.rev().find(|phase| phase.header.kind == PhaseKind::Drive);
        let begun_s = driven.map_or(0.0, |phase| phase.header.start_ns as f64 / 1e9);
        let cut_s = begun_s + power.end.result(ResultName::CutSeconds)?.value;
        let window_s = ledger.lost_window_ns.map(|(first_ns, _)| (cut_s - first_ns as f64 / 1e9).max(0.0));
        let acknowledged = ledger.acknowledged.saturating_sub(trial.header.record_count);
        let drives = trial.phases.iter().filter(|phase| phase.header.kind == PhaseKind::Drive);
        // Each drive makes earlier writes durable: after several it is unknown which writes the store made durable
        // itself.
        let is_one = drives.filter(|phase| phase.header.ordinal < ordinal).count() <= 1;
        // Of a cut what its own bound is three over, and no more than were acknowledged since the load.
        let bound = ledger.loss_upper_bound.filter(|_| is_one);
        let checks = || trial.phases.iter().filter(|phase| phase.header.ordinal == ledger.phase);
        Some(Cut {
            trial: trial.header.ordinal,
            breaks: trial.header.breaks,
            power,
            ledger,
            acknowledged,
            borne_out: bound.map(|bound| (3.0 / bound).min(acknowledged as f64)),
            window_s,
            is_checked: checks().any(|phase| phase.end.state == PhaseState::Complete),
        })
    };
    powers().filter_map(cut).collect()
}

/// Cuts as one promise, where `missing` more were not made to their end.
fn one(name: String, cuts: &[Cut<'_>], missing: u64) -> PromiseView {
    let is_vacuous = |cut: &&Cut<'_>| cut.state() == PromiseState::NothingAtRisk;
    let vacuous_cuts = cuts.iter().filter(is_vacuous).count() as u64;
    let counted: Vec<&Cut<'_>> = cuts.iter().filter(|cut| !is_vacuous(cut)).collect();
    // What counts is better than what proves nothing, and no better than the worst of it.
    let worst = counted.iter().map(|cut| cut.state()).max().unwrap_or(PromiseState::NothingAtRisk);
    let page_guards: BTreeSet<&str> =
        cuts.iter().flat_map(|cut| cut.of(ResultName::PageGuard)).map(|(setting, _)| setting).collect();
    let has_tried_pages = page_guards.is_empty() || counted.iter().any(|cut| cut.pages() > Some(0.0));
    let state = match worst {
        PromiseState::Kept if !has_tried_pages => PromiseState::PagesNotTried,
        worst => worst,
    };
    let mut at_risk_kinds: BTreeMap<String, u64> = BTreeMap::new();
    for (kind, writes) in counted.iter().flat_map(|cut| cut.of(ResultName::AtRiskKind)) {
        *at_risk_kinds.entry(kind.to_owned()).or_default() += u64::from(writes > 0.0);
    }
    if counted.iter().any(|cut| cut.pages().is_none()) {
        // That there was none is known only if each cut says so.
        at_risk_kinds.retain(|_, cuts| *cuts > 0);
    }
    // Of a store that could not be read no number is known.
    let known = || counted.iter().filter(|cut| cut.is_known());
    let lost: u64 = known().map(|cut| cut.lost()).sum();
    let all_known = !cuts.is_empty() && counted.iter().all(|cut| cut.is_known());
    let lost = (lost > 0 || all_known).then_some(lost);
    let of_all = |cut: &&&Cut<'_>| lost.is_none() || cut.is_known();
    let acknowledged = counted.iter().filter(of_all).map(|cut| cut.acknowledged).sum();
    let mut wrong: BTreeMap<String, u64> = BTreeMap::new();
    for (name, count) in counted.iter().flat_map(|cut| cut.wrong()) {
        *wrong.entry(name.clone()).or_default() += count;
    }
    let median = |of: ResultName| {
        let values: Vec<f64> = counted.iter().map(|cut| cut.result(of)).collect();
        stat::median(&values)
    };
    // Three over the writes that were borne out in all cuts.
    let borne_out: f64 = counted.iter().filter_map(|cut| cut.borne_out).sum();
    let lost_window_s = counted.iter().filter_map(|cut| cut.window_s).reduce(f64::max);
    let mut view = PromiseView {
        store: name.clone(),
        fault: String::new(),
        cuts_not_needed: 0,
        cuts_missing: missing,
        repeat: String::new(),
        name,
        state,
        expected: !cuts.is_empty() && cuts.iter().all(|cut| cut.breaks),
        cuts: cuts.len() as u64,
        vacuous_cuts,
        acknowledged,
        lost,
        read_then_lost: counted.iter().map(|cut| cut.ledger.read_then_lost).sum(),
        lost_window_s,
        wrong,
        loss_upper_bound: (state == PromiseState::Kept && borne_out > 0.0).then(|| 3.0 / borne_out),
        at_risk_writes: median(ResultName::AtRiskWrites).unwrap_or(0.0),
        at_risk_bytes: median(ResultName::AtRiskBytes).unwrap_or(0.0),
        at_risk_kinds,
        page_guards: page_guards.into_iter().map(ToOwned::to_owned).collect(),
        broken_cuts: cuts.iter().filter(|cut| cut.state() >= PromiseState::Lost).count() as u64,
        recovery_s: if state == PromiseState::NotStarted { None } else { median(ResultName::Seconds) },
        sentence: String::new(),
    };
    view.sentence = sentence(&view, &counted);
    view
}

fn sentence(view: &PromiseView, counted: &[&Cut<'_>]) -> String {
    let cuts = number::plural(view.cuts - view.vacuous_cuts, "power cut", "power cuts");
    let acknowledged = number::count(view.acknowledged);
    let lost = match view.lost {
        Some(lost) => format!("{} of {acknowledged} acknowledged writes lost", number::count(lost)),
        None => format!("how many of {acknowledged} acknowledged writes were lost is {NOT_KNOWN}"),
    };
    let at_risk = format!(
        "{} at risk at the cut",
        number::plural(view.at_risk_writes as u64, "write to the disk", "writes to the disk")
    );
    // Of a single cut the rest of the sentence is about that.
    let broken = if view.cuts > 1 {
        format!("; broken at {} of {}", number::count(view.broken_cuts), number::count(view.cuts))
    } else {
        String::new()
    };
    let window = view.lost_window_s.map_or(String::new(), |s| format!(", a window of {}", number::seconds(s)));
    let read = match view.read_then_lost {
        0 => String::new(),
        n => {
            let n = number::plural(n, "record", "records");
            format!("; {n} had been read in a state that was never acknowledged and is gone")
        }
    };
    match view.state {
        PromiseState::Kept => {
            // Those that were not made are not kept.
            let made = number::count(view.cuts - view.vacuous_cuts);
            let cuts = match view.cuts_missing {
                0 => cuts,
                missing => format!("{made} of {}", number::plural(view.cuts + missing, "power cut", "power cuts")),
            };
            let most = view.loss_upper_bound.map_or(String::new(), |bound| {
                format!(", at most {} % with 95 % confidence", number::significant(bound * 100.0))
            });
            let pages = match view.at_risk_kinds.get(WriteKind::DataPages.name()) {
                Some(0) => "; no data page was on its way, so that nothing is shown about them",
                _ => "",
            };
            format!("{}: {lost} in {cuts}{most}; {at_risk}{pages}{read}.", view.name)
        }
        PromiseState::PagesNotTried => pages_not_tried(view, &cuts),
        PromiseState::NothingAtRisk => format!(
            "{}: nothing was lost in {}, but nothing was at risk at the cut, so this proves nothing.",
            view.name,
            number::plural(view.cuts, "power cut", "power cuts")
        ),
        PromiseState::NotTried => format!("{}: not tried.", view.name),
        PromiseState::NotKnown => {
            let gone = counted.iter().filter(|cut| cut.state() == PromiseState::NotKnown).count() as u64;
            format!("{}: it is not known what was kept after {} of {cuts}.", view.name, number::count(gone))
        }
        PromiseState::Lost => format!("{}: {lost} in {cuts}{window}{broken}{read}.", view.name),
        PromiseState::Damaged => {
            let what = view.wrong.iter().map(|(name, n)| format!("{} {}", number::count(*n), name.replace('_', " ")));
            let what = number::list(&what.collect::<Vec<_>>());
            format!("{}: damaged in {cuts} ({what}); {lost}{window}{broken}.", view.name)
        }
        PromiseState::NotStarted => {
            let dead = counted.iter().filter(|cut| cut.state() == PromiseState::NotStarted).count() as u64;
            format!("{}: did not start again after {} of {cuts}.", view.name, number::count(dead))
        }
    }
}

/// The sentence about a promise of data pages of which none was seen to be on its way, with the next step.
fn pages_not_tried(view: &PromiseView, cuts: &str) -> String {
    let guards = number::list(&view.page_guards);
    let at_cuts = if view.cuts - view.vacuous_cuts == 1 { "at the power cut" } else { &format!("at any of {cuts}") };
    let (why, next) = match view.at_risk_kinds.get(WriteKind::DataPages.name()) {
        Some(_) => (
            format!("no data page was on its way {at_cuts}"),
            "try more cuts, more records or a smaller cache (--cuts, --set)",
        ),
        None => (
            format!("it is not known if a data page was on its way {at_cuts}"),
            "try a disk that tells the kinds of writes (--disk ext4, xfs or files)",
        ),
    };
    format!("{}: not tried: {why}, so that nothing is shown about {guards}; {next}.", view.name)
}
