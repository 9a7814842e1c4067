//! Lost writes of a trial beside its faults, by the time of their acknowledgement.

use plimsoll_core::TICK_NS;
use plimsoll_record::data::{LedgerCheck, Run, Trial};

use super::is_in_effect;
use crate::view::{FaultLossView, FaultView, LostWritesView};
use crate::{known, name, number};

/// Place of an acknowledgement beside the faults of its trial.
enum Place {
    /// In the effect of the faults at these positions.
    InEffect(Vec<usize>),
    /// Outside of all effects, before the fault that began at this time.
    Before(u64),
    /// Outside of all effects, after the beginning of the last fault.
    After,
}

/// Returns the place of the span that starts at `at_ns`.
fn place(faults: &[FaultView], at_ns: u64) -> Place {
    let those = |is_its: fn(&FaultView, u64) -> bool| -> Vec<usize> {
        faults.iter().enumerate().filter(|(_, one)| is_its(one, at_ns)).map(|(position, _)| position).collect()
    };
    let mut own = those(has_effect);
    if own.is_empty() {
        own = those(lasts);
    }
    if !own.is_empty() {
        return Place::InEffect(own);
    }
    let later = faults.iter().map(|one| one.effect_ns.0).filter(|begun_ns| *begun_ns > at_ns);
    later.min().map_or(Place::After, Place::Before)
}

fn has_effect(fault: &FaultView, at_ns: u64) -> bool {
    let (from_ns, until_ns) = fault.effect_ns;
    is_in_effect(at_ns, from_ns, until_ns, fault.next_ns)
}

/// Returns true if a fault had not been healed at this time. It may outlast the effects of others that began later.
fn lasts(fault: &FaultView, at_ns: u64) -> bool {
    fault.taken_s.is_some() && is_in_effect(at_ns, fault.effect_ns.0, fault.ended_ns.unwrap_or(u64::MAX), None)
}

/// Adds the lost writes of a trial to its faults. Nothing is added without a check that knows them and their times.
pub(super) fn add(trial: &Trial, faults: &mut [FaultView]) {
    let is_known = |check: &&LedgerCheck| known::lost(check) == Some(0) || !check.lost_writes.is_empty();
    let Some(check) = known::most_lost(trial).filter(is_known) else { return };
    faults.iter_mut().for_each(|one| one.lost = Some(LostWritesView::default()));
    for span in &check.lost_writes {
        match place(faults, span.at_ns) {
            Place::InEffect(own) => {
                for position in own {
                    if let Some(one) = faults.get_mut(position) {
                        one.lost.get_or_insert_default().in_effect += span.writes;
                    }
                }
            }
            Place::Before(begun_ns) => {
                // Faults that began in one tick have all in common.
                for one in faults.iter_mut().filter(|one| one.effect_ns.0 / TICK_NS == begun_ns / TICK_NS) {
                    let since_s = one.effect_ns.0.saturating_sub(span.at_ns) as f64 / 1e9;
                    let lost = one.lost.get_or_insert_default();
                    lost.before += span.writes;
                    lost.before_s = lost.before_s.max(since_s);
                }
            }
            Place::After => {}
        }
    }
}

/// Returns the lost writes of each trial with faults that lost some. `faults` are those of all trials, trial by trial.
pub fn losses(run: &Run, faults: &[FaultView]) -> Vec<FaultLossView> {
    let of_trial = |faults: &[FaultView]| {
        let ordinal = faults.first()?.place.0;
        let trial = run.trials.iter().find(|trial| trial.header.ordinal == ordinal)?;
        let check = known::most_lost(trial).filter(|check| check.lost > 0)?;
        let mut view =
            FaultLossView { trial: name::trial(&trial.header), lost: check.lost, ..FaultLossView::default() };
        for span in &check.lost_writes {
            match place(faults, span.at_ns) {
                Place::InEffect(_) => view.in_effect += span.writes,
                Place::Before(_) => view.before += span.writes,
                Place::After => view.after += span.writes,
            }
        }
        view.not_known = check.lost.saturating_sub(view.in_effect + view.before + view.after);
        view.sentence = of_losses(&view, since_effect(check, faults).as_deref());
        Some(view)
    };
    faults.chunk_by(|one, other| one.place.0 == other.place.0).filter_map(of_trial).collect()
}

/// Returns the time of the first lost write outside of all effects after the last fault began, if an effect had ended before
/// it: `the first 210 ms after that of the cut of node 1`. Such a write may come of that fault: a deposed primary may go on
/// acknowledging writes.
fn since_effect(check: &LedgerCheck, faults: &[FaultView]) -> Option<String> {
    let after = check.lost_writes.iter().filter(|span| matches!(place(faults, span.at_ns), Place::After));
    let first_ns = after.map(|span| span.at_ns).min()?;
    let ended = faults.iter().filter(|one| one.effect_ns.1 <= first_ns);
    let last = ended.max_by_key(|one| one.effect_ns.1)?;
    let since_s = (first_ns - last.effect_ns.1) as f64 / 1e9;
    Some(format!("the first {} after that of the {}", number::seconds(since_s), last.name))
}

/// Returns `fjall: 15 acknowledged writes lost, by the time of their acknowledgement: 12 in the effect of a fault, 3
/// before a fault`.
fn of_losses(view: &FaultLossView, since_effect: Option<&str>) -> String {
    let after = match since_effect {
        Some(since) => format!("after the effects of all faults ({since})"),
        None => "after the effects of all faults".to_owned(),
    };
    let parts = [
        (view.in_effect, "in the effect of a fault"),
        (view.before, "before a fault"),
        (view.after, after.as_str()),
        (view.not_known, "not known"),
    ];
    let parts = parts.iter().filter(|(n, _)| *n > 0).map(|(n, place)| format!("{} {place}", number::count(*n)));
    let parts = parts.collect::<Vec<_>>().join(", ");
    let lost = number::plural(view.lost, "acknowledged write lost", "acknowledged writes lost");
    format!("{}: {lost}, by the time of their acknowledgement: {parts}", view.trial)
}

/// Returns `15 acknowledged writes lost (3 of them acknowledged up to 20.0 ms before it)`; `None` without any.
pub(super) fn words(lost: LostWritesView) -> Option<String> {
    let of_them = if lost.in_effect > 0 { format!("{} of them ", number::count(lost.before)) } else { String::new() };
    let before = match lost.before {
        0 => String::new(),
        _ => format!(" ({of_them}acknowledged up to {} before it)", number::seconds(lost.before_s)),
    };
    let words = number::plural(lost.all(), "acknowledged write lost", "acknowledged writes lost");
    (lost.all() > 0).then(|| words + &before)
}
