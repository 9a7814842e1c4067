//! Two sides in turn as they would have been recorded.

use plimsoll_analysis::ab::{self, AbMetric, AbSpec};
use plimsoll_core::Durability;
use plimsoll_record::data::{Outline, Run, Trial};

use crate::driven::driven;
use crate::study::SECOND_NS;

pub fn spec() -> AbSpec {
    AbSpec {
        sides: ["durability=durable".into(), "durability=at-end".into()],
        plans: ["durable", "at-end"].map(|durability| {
            let line = format!("durability = \"{durability}\"");
            format!("a = 1\n{line}\n[[phase]]\n{line}\n")
        }),
        metrics: vec![AbMetric::Rate],
        difference: 0.03,
        fail_if: Vec::new(),
        budget_s: 300.0,
        turn_s: 3.0,
        warmup_s: 1.0,
        seed: 7,
    }
}

/// The comparison of `spec` as it would have been recorded, with these rates of A and B by pair.
pub fn compared(spec: &AbSpec, pairs: &[(u64, u64)]) -> Run {
    let mut run = driven(&[1]);
    let mut trials: Vec<Trial> = Vec::new();
    let mut at_ns = 100 * SECOND_NS;
    let warm_up = (ab::WARM_UP.to_owned(), 0, (900, 900));
    let counted = pairs.iter().zip(1..).map(|(rates, pair)| (pair.to_string(), ab::first_side(spec, pair), *rates));
    for (pair, first, rates) in std::iter::once(warm_up).chain(counted) {
        for side in [first, 1 - first] {
            let rate = [rates.0, rates.1][side];
            let mut trial = driven(&[rate; 3]).trials.remove(0);
            trial.header.ordinal = trials.len() as u32;
            trial.header.store_label = ab::SIDES[side].into();
            trial.header.labels = [("pair".to_owned(), pair.clone())].into();
            let phase = &mut trial.phases[0];
            phase.header.trial = trial.header.ordinal;
            phase.header.durability = Some([Durability::Durable, Durability::AtEnd][side]);
            let from_ns = phase.header.start_ns;
            phase.header.start_ns = at_ns;
            phase.end.end_ns = at_ns + 4 * SECOND_NS;
            for slice in &mut phase.slices {
                slice.start_ns = slice.start_ns - from_ns + at_ns;
                slice.end_ns = slice.end_ns - from_ns + at_ns;
            }
            trial.header.start_ns = at_ns;
            at_ns += 5 * SECOND_NS;
            trial.end_ns = Some(at_ns);
            trials.push(trial);
        }
    }
    run.header.outline = Outline { ab: Some(spec.clone()), ..Outline::default() };
    run.trials = trials;
    run.end_ns = Some(at_ns);
    run
}
