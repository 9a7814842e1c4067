//! Tests of the effect of pauses of the machine, which is never left out silently.

use plimsoll_analysis::compare::compare;
use plimsoll_analysis::slices::slices;
use plimsoll_analysis::view;
use plimsoll_analysis::view::{LatencyView, PercentileView, PhaseKind};
use plimsoll_record::data::Run;

use crate::driven::driven;
use crate::study::{self, paused};

fn percentile(percentiles: &[PercentileView], name: &str) -> u64 {
    percentiles.iter().find(|one| one.name == name).unwrap().ns.unwrap()
}

#[test]
fn both_percentiles_are_shown_with_how_long_the_machine_stood_still() {
    let before = driven(&[2_000; 6]);
    let run = paused(before.clone());
    let view = view(&run);
    let phase = &view.trials[0].phases[0];
    let [row]: &[LatencyView] = &phase.latencies else { panic!("{:?}", phase.latencies) };
    assert_eq!(row.count, 6 * 2_040);
    assert!(percentile(&row.percentiles, "p99").abs_diff(21_000_000) < 21_000, "as seen");
    let undisturbed = row.undisturbed.as_ref().unwrap();
    assert!(percentile(&undisturbed.percentiles, "p99").abs_diff(1_000_000) < 1_000, "undisturbed");
    // What is left is what there was before the pauses, to the last operation.
    let without = plimsoll_analysis::view(&before);
    let without = &without.trials[0].phases[0].latencies[0];
    assert_eq!((undisturbed.count, &undisturbed.percentiles), (without.count, &without.percentiles));
    assert_eq!((undisturbed.max_ns, undisturbed.mean_ns), (without.max_ns, without.mean_ns));

    let pauses = phase.pauses.as_ref().unwrap();
    assert_eq!((pauses.count, pauses.longest_ns, pauses.disturbed_ops), (6, 20_000_000, 240));
    assert!((pauses.paused_percent - 2.0).abs() < 1e-9, "{}", pauses.paused_percent);
    let above: Vec<_> = pauses.above.iter().map(|above| (above.ms, (above.percent * 10.0).round())).collect();
    assert_eq!(above, [(1, 20.0), (2, 20.0), (5, 20.0), (10, 20.0), (20, 20.0), (50, 0.0)]);
    assert!((pauses.undisturbed_s - (6.0 - 6.0 * 0.04)).abs() < 1e-9);
    assert_eq!(pauses.wake_ups, 6 * 400);
    assert_eq!(
        pauses.sentence,
        "the machine paused 2.00 % of the time (2.00 % in pauses of 5 ms and more), longest 20.0 ms; it disturbed 240 \
         of 12,240 operations (1.96 %)"
    );
    assert_eq!(view.plots.pauses.len(), 6);
    assert!((view.plots.pauses[0].1 - view.plots.pauses[0].0 - 0.1).abs() < 1e-9, "with its aftermath");
}

#[test]
fn where_not_all_pauses_are_kept_their_time_is_a_lower_bound() {
    let mut run = paused(driven(&[2_000; 6]));
    let watched = run.trials[0].phases[0].slices[3].watched.as_mut().unwrap();
    watched.pauses = vec![watched.pauses[0]; plimsoll_core::pause::PAUSES_MAX];
    let view = view(&run);
    let pauses = view.trials[0].phases[0].pauses.as_ref().unwrap();
    assert!(pauses.at_least && pauses.sentence.starts_with("the machine paused at least 2"), "{}", pauses.sentence);
}

#[test]
fn where_nobody_watched_nothing_is_said_to_be_undisturbed() {
    let mut run = driven(&[2_000; 6]);
    let none = |view: &plimsoll_analysis::RunView| {
        let phase = &view.trials[0].phases[0];
        phase.pauses.is_none() && phase.latencies.iter().all(|row| row.undisturbed.is_none())
    };
    assert!(none(&view(&run)));
    assert!(slices(&run).all(|row| row.disturbed.is_none() && row.undisturbed_p99_ns.is_none()));
    // Nor where one slice was not watched.
    run = paused(run);
    run.trials[0].phases[0].slices[3].watched = None;
    assert!(none(&view(&run)));
}

#[test]
fn rows_of_slices_and_comparisons_have_both() {
    let run = paused(driven(&[2_000; 6]));
    for row in slices(&run) {
        assert_eq!((row.count, row.disturbed, row.disturbed_ns), (2_040, Some(40), Some(40_000_000)));
        assert!(row.undisturbed_p99_ns.unwrap().abs_diff(1_000_000) < 1_000);
        assert!(row.percentile_ns("p99").unwrap() > 20_000_000);
    }
    let quiet = driven(&[2_000; 6]);
    let names = |comparison: &plimsoll_analysis::view::Comparison| -> Vec<(String, Option<f64>)> {
        let metrics = comparison.groups.iter().flat_map(|group| &group.metrics);
        metrics.filter(|one| one.name.ends_with("p99")).map(|one| (one.name.clone(), one.a.value)).collect()
    };
    let both = names(&compare(&run, &run, &[], None));
    assert_eq!(both.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["p99", "undisturbed_p99"]);
    assert!(both[0].1 > Some(0.020) && both[1].1 < Some(0.002), "{both:?}");
    assert_eq!(names(&compare(&run, &quiet, &[], None)).len(), 1, "one of two is no comparison");
}

#[test]
fn processors_that_halt_at_once_are_said_where_pauses_disturbed_an_open_loop() {
    let made = |mut run: Run, facts: &[(&str, &str)]| {
        study::open_loop(&mut run.trials[0].phases[0]);
        run.header.environment.extend(facts.iter().map(|(name, value)| (name.to_string(), value.to_string())));
        run
    };
    let warned = |run: &Run| {
        let said = view(run).warnings.into_iter().filter(|one| one.text.contains("do not poll before they halt"));
        said.map(|one| (one.text, one.next)).collect::<Vec<_>>()
    };
    let halts = [("idle driver", "haltpoll"), ("guest_halt_poll_ns", "0")];
    let one_rate = || driven(&[2_000; 6]);
    let said = warned(&made(paused(one_rate()), &halts));
    let [(text, next)] = &said[..] else { panic!("{said:?}") };
    let words = "pauses of the machine disturbed 1.96 % of the operations, and its idle processors do not poll";
    assert!(text.contains(words) && next.starts_with("`plimsoll doctor` measures"), "{text}\n{next}");
    // Nothing where they poll, where another driver is in use, where it is not known, and without pauses.
    for facts in [
        &[("idle driver", "haltpoll"), ("guest_halt_poll_ns", "5000000")][..],
        &[("idle driver", "intel_idle")],
        &[("guest_halt_poll_ns", "0")],
        &[],
    ] {
        assert_eq!(warned(&made(paused(one_rate()), facts)), [], "{facts:?}");
    }
    assert_eq!(warned(&made(one_rate(), &halts)), []);
    // A closed loop waits for its answers, and does what it can.
    let mut closed = paused(one_rate());
    closed.header.environment = made(one_rate(), &halts).header.environment;
    assert_eq!(warned(&closed), []);
}

#[test]
fn what_was_never_sent_is_in_both() {
    let mut run = paused(study::complete());
    let phases = run.trials.iter_mut().flat_map(|trial| &mut trial.phases);
    let phase = phases.filter(|phase| phase.header.kind == PhaseKind::Drive).last().unwrap();
    study::open_loop(phase);
    phase.slices.last_mut().unwrap().unfinished = Some(study::times([(3_000_000_000, 50)]));
    let view = view(&run);
    let phase =
        view.trials.iter().flat_map(|trial| &trial.phases).rfind(|phase| phase.kind == PhaseKind::Drive).unwrap();
    let all = &phase.latencies[0];
    let undisturbed = all.undisturbed.as_ref().unwrap();
    assert_eq!(all.max_ns, undisturbed.max_ns);
    assert!(undisturbed.max_ns > 2_900_000_000);
    assert_eq!(all.count - undisturbed.count, phase.pauses.as_ref().unwrap().disturbed_ops);
}
