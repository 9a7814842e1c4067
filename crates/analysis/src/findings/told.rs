//! Findings about a phase as a part of an answer's sentence.

use plimsoll_core::sampler::{ANSWERS, PROGRESS, WITNESS};
use plimsoll_core::study::PlacedFindings;
use plimsoll_record::data::Run;

use super::moments::SLICES_MIN;
use crate::name;
use crate::number;
use crate::phase::PhaseFacts;
use crate::stall;
use crate::view::FindingView;

/// Sources of series that are recorded without any sampler.
const WITHOUT_SAMPLERS: [&str; 3] = [ANSWERS, PROGRESS, WITNESS];

/// Returns the `placed` findings about the phase of that name, trial by trial.
///
/// # Errors
/// Fails with the reason if the phase was not driven, was too short, or nothing was watched.
pub fn told(
    run: &Run,
    facts: &[Vec<PhaseFacts<'_>>],
    findings: &[FindingView],
    (placed, phase): (PlacedFindings, &str),
) -> Result<String, String> {
    let driven: Vec<&PhaseFacts<'_>> = stall::driven(facts).filter(|facts| facts.phase.header.name == phase).collect();
    if driven.is_empty() {
        return Err(format!("no phase {phase} was driven"));
    }
    if run.series.iter().all(|series| WITHOUT_SAMPLERS.contains(&series.source.as_str())) {
        return Err("nothing was watched: samplers were off".to_owned());
    }
    let mut texts = Vec::new();
    for facts in &driven {
        let slices = facts.slice_rates(false).count();
        if slices < SLICES_MIN {
            let slices = number::plural(slices as u64, "slice", "slices");
            return Err(format!("phase {phase} has {slices}, and findings need {SLICES_MIN}; make it longer"));
        }
        let text = of_phase(facts, findings, placed);
        texts.push(match driven.as_slice() {
            [_] => text,
            _ => format!("{}: {text}", name::trial(&facts.trial.header)),
        });
    }
    Ok(texts.join("; "))
}

/// Returns the sentences of the findings about one phase, without its name.
fn of_phase(facts: &PhaseFacts<'_>, findings: &[FindingView], placed: PlacedFindings) -> String {
    let (rules, none): (&[&str], &str) = match placed {
        PlacedFindings::Bound => (&["bound"], "nothing that was watched was used up"),
        PlacedFindings::SlowMoments => (&["fault", "pause", "cause", "unexplained"], "no slow moment stands out"),
    };
    let place = name::place(facts);
    let prefix = format!("{place}: ");
    let these = findings.iter().filter(|finding| finding.place == place && rules.contains(&finding.rule));
    let sentence = |finding: &FindingView| {
        let sentence = finding.sentence.trim_end_matches('.');
        sentence.strip_prefix(&prefix).unwrap_or(sentence).to_owned()
    };
    let texts: Vec<String> = these.map(sentence).collect();
    if texts.is_empty() { none.to_owned() } else { texts.join("; ") }
}
