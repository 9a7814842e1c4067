//! Spans and samples of a run as rows.

use plimsoll_analysis::samples::{samples, series};
use plimsoll_analysis::spans::{SpanKind, SpanRow, spans};

use crate::{faulted, study};

fn of_kind(rows: &[SpanRow], kind: SpanKind) -> Vec<&SpanRow> {
    rows.iter().filter(|row| row.kind == kind).collect()
}

#[test]
fn spans_come_by_their_starts_and_what_contains_others_first() {
    let rows = spans(&study::complete());
    assert!(rows.is_sorted_by_key(|row| row.start_ns));
    let trials = of_kind(&rows, SpanKind::Trial);
    assert_eq!(trials.len(), 5);
    for row in of_kind(&rows, SpanKind::Phase) {
        let trial = trials.iter().find(|trial| trial.trial_ordinal == row.trial_ordinal).unwrap();
        assert!(trial.start_ns <= row.start_ns && row.end_ns <= trial.end_ns, "{row:?}");
        assert_eq!((row.has_ended, &row.trial), (true, &trial.trial));
    }
    // Five warm queries and a cold one of each trial; a slice of each of three drives; the two events.
    let counts = [SpanKind::Asked, SpanKind::Warmup, SpanKind::Event].map(|kind| of_kind(&rows, kind).len());
    assert_eq!(counts, [30, 3, 2]);
}

#[test]
fn a_fault_that_was_not_healed_lasts_until_the_end_of_its_phase() {
    let mut run = faulted::killed_primary();
    let healed = spans(&run);
    let fault = of_kind(&healed, SpanKind::Fault)[0];
    assert_eq!((fault.start_ns, fault.end_ns), (faulted::at_ns(8_000), faulted::at_ns(9_300)));
    assert_eq!((fault.taken_ns, fault.has_ended), (Some(faulted::at_ns(8_005)), true));
    (run.trials[0].faults[0].healing_ns, run.trials[0].faults[0].healed_ns) = (None, None);
    let open = spans(&run);
    let fault = of_kind(&open, SpanKind::Fault)[0];
    assert_eq!((fault.end_ns, fault.has_ended), (run.trials[0].phases[0].end.end_ns, false));
}

#[test]
fn a_reading_of_a_distribution_has_its_percentiles_and_no_value() {
    let run = study::paused(study::complete());
    let (witness, _) = series(&run).find(|(_, series)| series.name == "lateness").unwrap();
    let (of_witness, others): (Vec<_>, Vec<_>) = samples(&run).partition(|row| row.series == witness);
    assert!(of_witness.iter().all(|row| row.value.is_none() && row.count == Some(400) && row.p50_ns.is_some()));
    // Of 400 wake-ups four lie above the 99th percentile.
    assert!(of_witness.iter().all(|row| row.p99_ns.is_none() && row.max_ns.is_some()));
    assert!(!of_witness.is_empty() && others.iter().all(|row| row.value.is_some() && row.count.is_none()));
}
