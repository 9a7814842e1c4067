//! Slow moments that faults of the plan explain in several phases, as one finding. The rest stands out beside it.

use indexmap::IndexMap;
use plimsoll_record::data::Run;

use super::sentence::NAMED_MAX;
use crate::name::{self, REPEAT};
use crate::number;
use crate::phase::PhaseFacts;
use crate::stall;
use crate::view::{FaultedPhaseView, FindingView};

/// Returns the findings, those of the rule `fault` as one in front of the others if they are of several phases. Phases
/// that are mostly slow, or in which commands for servers were given, keep their own.
pub fn combined(run: &Run, facts: &[Vec<PhaseFacts<'_>>], findings: Vec<FindingView>) -> Vec<FindingView> {
    let driven: Vec<&PhaseFacts<'_>> = stall::driven(facts).collect();
    let phase_of = |finding: &FindingView| {
        let is_its = |facts: &&PhaseFacts<'_>| name::place(facts) == finding.place && !has_commands(run, facts);
        driven.iter().copied().filter(|_| finding.rule == "fault" && !finding.is_of_outages).find(is_its)
    };
    let planned: Vec<(&FindingView, &PhaseFacts<'_>)> =
        findings.iter().filter_map(|one| Some((one, phase_of(one)?))).collect();
    let Some(together) = together(&planned, driven.len()) else { return findings };
    let others = findings.into_iter().filter(|one| phase_of(one).is_none());
    std::iter::once(together).chain(others).collect()
}

/// Returns true if commands for servers were given in a phase.
fn has_commands(run: &Run, facts: &PhaseFacts<'_>) -> bool {
    let (trial, from_ns, until_ns) = (facts.trial.header.ordinal, facts.phase.header.start_ns, facts.phase.end.end_ns);
    let mut commands = run.events.iter().filter(|event| event.class.is_action() && event.trial == Some(trial));
    commands.any(|event| event.from_ns <= until_ns && event.until_ns >= from_ns)
}

/// Returns the finding about all `planned` ones, each with its phase, of so many driven phases; `None` for fewer than two.
fn together(planned: &[(&FindingView, &PhaseFacts<'_>)], driven: usize) -> Option<FindingView> {
    let [(first, _), rest @ ..] = planned else { return None };
    if rest.is_empty() {
        return None;
    }
    let length_s = |one: &FindingView| one.spans_s.iter().map(|(from, until)| until - from).sum::<f64>();
    let explained_s: f64 = planned.iter().map(|(one, _)| length_s(one)).sum();
    let slow_s: f64 = planned.iter().map(|(one, _)| length_s(one) * 100.0 / one.slow_percent).sum();
    let all: Vec<&FindingView> = planned.iter().map(|(one, _)| *one).collect();
    // Trials of other stores may have other phases.
    let next = match rest.iter().all(|(one, _)| one.next == first.next) {
        true => first.next.clone(),
        false => {
            "Repeat the run without them, from a copy of the plan without `fault`: what stays slow has another cause."
                .to_owned()
        }
    };
    Some(FindingView {
        rule: first.rule,
        version: first.version,
        sentence: sentence(&all, driven),
        spans_s: all.iter().flat_map(|one| one.spans_s.iter().copied()).collect(),
        moments: moments(&all),
        slow_percent: (explained_s * 100.0 / slow_s).min(100.0),
        phases: phases(planned),
        opposite: first.opposite.clone(),
        next,
        command: first.command.clone(),
        ..FindingView::default()
    })
}

/// Returns the number of slow moments of the phases of these findings.
fn moments(findings: &[&FindingView]) -> usize {
    findings.iter().map(|one| one.moments).sum()
}

fn sentence(all: &[&FindingView], driven: usize) -> String {
    let count = |n: usize| number::count(n as u64);
    let (whole, partly): (Vec<&FindingView>, Vec<&FindingView>) =
        all.iter().copied().partition(|one| one.spans_s.len() == one.moments);
    let driven = number::plural(driven as u64, "driven phase", "driven phases");
    let mut names: Vec<String> = partly.iter().take(NAMED_MAX).map(|one| one.place.clone()).collect();
    names.extend((partly.len() > NAMED_MAX).then(|| format!("{} more", count(partly.len() - NAMED_MAX))));
    let names = names.join("; ");
    let explained: usize = partly.iter().map(|one| one.spans_s.len()).sum();
    let effects = "in the effects of the faults that the plan has";
    if whole.is_empty() {
        let (explained, of) = (count(explained), count(moments(&partly)));
        return format!(
            "In {} of {driven} {explained} of {of} slow moments lie {effects}: {names}.",
            count(partly.len())
        );
    }
    let lie = match moments(&whole) {
        1 => "the only slow moment lies".to_owned(),
        n => format!("all {} slow moments lie", count(n)),
    };
    let rest = match moments(&partly) - explained {
        0 => String::new(),
        open => format!(
            "; {} of {} slow moments in {} {} not: {names}",
            count(open),
            count(moments(&partly)),
            number::plural(partly.len() as u64, "further phase", "further phases"),
            if open == 1 { "does" } else { "do" }
        ),
    };
    format!("In {} of {driven} {lie} {effects}{rest}.", count(whole.len()))
}

/// Returns the numbers of slow moments by trial and phase, repeats together.
fn phases(planned: &[(&FindingView, &PhaseFacts<'_>)]) -> Vec<FaultedPhaseView> {
    let mut phases: IndexMap<(String, &str), (usize, usize)> = IndexMap::new();
    for (one, facts) in planned {
        let trial = name::trial_without(&facts.trial.header, &[REPEAT]);
        let (explained, moments) = phases.entry((trial, &facts.phase.header.name)).or_default();
        *explained += one.spans_s.len();
        *moments += one.moments;
    }
    let view = |((trial, phase), (explained, moments)): ((String, &str), (usize, usize))| FaultedPhaseView {
        trial,
        phase: phase.to_owned(),
        explained,
        moments,
    };
    phases.into_iter().map(view).collect()
}
