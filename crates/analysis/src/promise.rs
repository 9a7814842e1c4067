//! What stores kept of what they had promised when their disk lost power: cuts of the same settings together.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use plimsoll_record::data::{LedgerCheck, Phase, PhaseKind, ResultName, Run, Trial};

use crate::name;
use crate::number;
use crate::stat;
use crate::view::{PromiseState, PromiseView};

/// The key of a drive that says when the power goes: each moment of the same settings is one more try.
const MOMENT: &str = "power_cut";

/// The ledger's name for records that show what had been overwritten, and had been seen to be.
const RESURRECTED: &str = "resurrected";

/// One cut.
struct Cut<'r> {
    power: &'r Phase,
    ledger: &'r LedgerCheck,
    window_s: Option<f64>,
}

impl Cut<'_> {
    fn result(&self, name: ResultName) -> f64 {
        self.power.end.result(name).map_or(0.0, |result| result.value)
    }

    fn state(&self) -> PromiseState {
        // A state that had been seen and is gone is a loss that somebody has noticed.
        let wrong: u64 = self.ledger.wrong.iter().filter(|(name, _)| *name != RESURRECTED).map(|(_, n)| n).sum();
        let lost = self.ledger.lost + self.ledger.wrong.values().sum::<u64>() - wrong;
        match self.ledger {
            ledger if ledger.phase == self.power.header.ordinal => PromiseState::NotStarted,
            _ if wrong > 0 => PromiseState::Damaged,
            _ if lost > 0 => PromiseState::Lost,
            _ if self.result(ResultName::AtRiskWrites) == 0.0 => PromiseState::NothingAtRisk,
            _ => PromiseState::Kept,
        }
    }
}

/// Each store with its settings whose disk lost power in `run`; none where no disk did.
pub fn promises(run: &Run) -> Vec<PromiseView> {
    let mut cells: IndexMap<String, Vec<Cut<'_>>> = IndexMap::new();
    for trial in &run.trials {
        if let Some(cut) = cut(trial) {
            cells.entry(name::trial_without(&trial.header, &[MOMENT, name::REPEAT])).or_default().push(cut);
        }
    }
    cells.into_iter().map(|(name, cuts)| one(name, &cuts)).collect()
}

fn cut(trial: &Trial) -> Option<Cut<'_>> {
    let power = trial.phases.iter().rfind(|phase| phase.header.kind == PhaseKind::Power)?;
    let ledger = trial.ledgers.iter().rfind(|ledger| ledger.phase >= power.header.ordinal)?;
    let driven = trial
        .phases
        .iter()
        .rfind(|phase| phase.header.kind == PhaseKind::Drive && phase.header.ordinal < power.header.ordinal);
    let begun_s = driven.map_or(0.0, |phase| phase.header.start_ns as f64 / 1e9);
    let cut_s = begun_s + power.end.result(ResultName::CutSeconds)?.value;
    let window_s = ledger.lost_window_ns.map(|(first_ns, _)| (cut_s - first_ns as f64 / 1e9).max(0.0));
    Some(Cut { power, ledger, window_s })
}

fn one(name: String, cuts: &[Cut<'_>]) -> PromiseView {
    let is_vacuous = |cut: &&Cut<'_>| cut.state() == PromiseState::NothingAtRisk;
    let vacuous_cuts = cuts.iter().filter(is_vacuous).count() as u64;
    let counted: Vec<&Cut<'_>> = cuts.iter().filter(|cut| !is_vacuous(cut)).collect();
    // What counts is better than what proves nothing, and no better than the worst of it.
    let state = counted.iter().map(|cut| cut.state()).max().unwrap_or(PromiseState::NothingAtRisk);
    let sum = |of: fn(&LedgerCheck) -> u64| counted.iter().map(|cut| of(cut.ledger)).sum::<u64>();
    let (acknowledged, lost) = (sum(|ledger| ledger.acknowledged), sum(|ledger| ledger.lost));
    let mut wrong: BTreeMap<String, u64> = BTreeMap::new();
    for (name, count) in counted.iter().flat_map(|cut| &cut.ledger.wrong) {
        *wrong.entry(name.clone()).or_default() += count;
    }
    let median = |of: ResultName| {
        let values: Vec<f64> = counted.iter().map(|cut| cut.result(of)).collect();
        stat::median(&values)
    };
    // Three over the writes that were borne out in all cuts: each bound is three over its own.
    let borne_out: f64 = counted.iter().filter_map(|cut| cut.ledger.loss_upper_bound).map(|bound| 3.0 / bound).sum();
    let lost_window_s = counted.iter().filter_map(|cut| cut.window_s).reduce(f64::max);
    let mut view = PromiseView {
        name,
        state,
        cuts: cuts.len() as u64,
        vacuous_cuts,
        acknowledged,
        lost,
        lost_window_s,
        wrong,
        loss_upper_bound: (state == PromiseState::Kept && borne_out > 0.0).then(|| 3.0 / borne_out),
        at_risk_writes: median(ResultName::AtRiskWrites).unwrap_or(0.0),
        at_risk_bytes: median(ResultName::AtRiskBytes).unwrap_or(0.0),
        recovery_s: if state == PromiseState::NotStarted { None } else { median(ResultName::Seconds) },
        sentence: String::new(),
    };
    view.sentence = sentence(&view, &counted);
    view
}

fn sentence(view: &PromiseView, counted: &[&Cut<'_>]) -> String {
    let cuts = number::plural(view.cuts - view.vacuous_cuts, "power cut", "power cuts");
    let of = format!("{} of {} acknowledged writes", number::count(view.lost), number::count(view.acknowledged));
    let at_risk = format!(
        "{} at risk at the cut",
        number::plural(view.at_risk_writes as u64, "write to the disk", "writes to the disk")
    );
    let window = view.lost_window_s.map_or(String::new(), |s| format!(", a window of {}", number::seconds(s)));
    match view.state {
        PromiseState::Kept => {
            let most = view.loss_upper_bound.map_or(String::new(), |bound| {
                format!(", at most {} % with 95 % confidence", number::significant(bound * 100.0))
            });
            format!("{}: {of} lost in {cuts}{most}; {at_risk}.", view.name)
        }
        PromiseState::NothingAtRisk => format!(
            "{}: nothing was lost in {}, and nothing was at risk when the power went: that proves nothing.",
            view.name,
            number::plural(view.cuts, "power cut", "power cuts")
        ),
        PromiseState::Lost => format!("{}: {of} lost in {cuts}{window}.", view.name),
        PromiseState::Damaged => {
            let what = view.wrong.iter().map(|(name, n)| format!("{} {}", number::count(*n), name.replace('_', " ")));
            let what = number::list(&what.collect::<Vec<_>>());
            format!("{}: damaged in {cuts} ({what}); {of} lost{window}.", view.name)
        }
        PromiseState::NotStarted => {
            let dead = counted.iter().filter(|cut| cut.state() == PromiseState::NotStarted).count() as u64;
            format!("{}: did not start again after {} of {cuts}.", view.name, number::count(dead))
        }
    }
}
