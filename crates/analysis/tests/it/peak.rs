//! Peaks of latency: seconds that are one, each with the actions at its own time.

use plimsoll_analysis::view;
use plimsoll_core::{Outcome, SliceHistogram};
use plimsoll_record::data::{EventClass, Run};

use crate::driven::{START_S, driven};
use crate::faulted::{PAUSE, fault};
use crate::study::{SECOND_NS, event, served, times};

/// 2,000 operations a second that take a millisecond; in each of these seconds a twentieth of them takes so long.
fn peaked(seconds: &[(usize, u64)]) -> Run {
    let mut run = driven(&[2_000; 30]);
    for (second, ns) in seconds {
        let slice = &mut run.trials[0].phases[0].slices[*second];
        slice.histograms = vec![served(1, times([(1_000_000, 1_900), (*ns, 100)]))];
    }
    run
}

fn sentences(run: &Run) -> Vec<String> {
    let peaks = view(run).peaks.into_iter();
    peaks.flat_map(|peaks| peaks.worst.into_iter().map(|peak| peak.sentence).chain(peaks.further)).collect()
}

#[test]
fn each_peak_is_described_with_what_was_done_at_its_own_time() {
    let mut run = peaked(&[(9, 80_000_000), (20, 40_000_000), (21, 50_000_000)]);
    let at_ns = (START_S + 20) * SECOND_NS + 200_000_000;
    run.events.push(event(at_ns, Some(0), EventClass::Command, "lab link a 1: 20ms ± 0ns one way"));
    assert_eq!(
        sentences(&run),
        [
            "fjall, phase mixed: p99 rose to 80.0 ms from 109.0 s to 110.0 s (usually 1.00 ms).",
            "fjall, phase mixed: p99 rose to 50.0 ms from 120.0 s to 122.0 s (usually 1.00 ms); at the same time: lab link \
             a 1: 20ms ± 0ns one way at 120.20 s.",
        ]
    );
    let peaks = &view(&run).peaks[0];
    assert_eq!((peaks.count, peaks.percentile.as_str(), peaks.worst.len()), (2, "p99", 2));
}

#[test]
fn a_peak_of_most_of_a_phase_is_one_beside_the_slices_before_its_fault() {
    let slow: Vec<(usize, u64)> = (12..30).map(|second| (second, 80_000_000)).collect();
    let mut run = peaked(&slow);
    assert_eq!(sentences(&run), [""; 0]);
    fault(&mut run, PAUSE, 12_000, None);
    let told = sentences(&run).concat();
    let wanted = "fjall, phase mixed: p99 rose to 80.0 ms from 112.0 s to 130.0 s (usually 1.00 ms)";
    assert!(told.starts_with(wanted), "{told}");
}

#[test]
fn of_many_peaks_the_highest_are_described_in_time_order() {
    let run = peaked(&[(3, 20_000_000), (7, 90_000_000), (11, 6_000_000), (15, 60_000_000), (19, 70_000_000)]);
    let sentences = sentences(&run);
    let starts = |text: &str, at: &str| text.contains(&format!("from {at} s"));
    assert!(starts(&sentences[0], "107.0") && starts(&sentences[1], "115.0") && starts(&sentences[2], "119.0"));
    assert_eq!(sentences[3..], ["fjall, phase mixed: 2 further peaks of p99 above 5.00 ms."]);
}

#[test]
fn errors_that_leave_too_few_operations_for_the_percentile_hide_no_peak() {
    let mut run = driven(&[120; 30]);
    for slice in &mut run.trials[0].phases[0].slices[9..12] {
        let failed = SliceHistogram { outcome: Outcome::Rejected, ..served(1, times([(80_000_000, 32)])) };
        slice.histograms = vec![served(1, times([(80_000_000, 88)])), failed];
    }
    let told = "fjall, phase mixed: p90 rose to 80.0 ms or more from 109.0 s to 112.0 s (usually 1.00 ms); at the same \
                time: 96 operations failed (otherwise none).";
    assert_eq!(sentences(&run), [told]);
    // The ten slowest are no lower bound.
    let mut run = driven(&[120; 30]);
    run.trials[0].phases[0].slices[9].histograms = vec![served(1, times([(1_000_000, 80), (80_000_000, 10)]))];
    assert_eq!(sentences(&run), [""; 0]);
}

#[test]
fn less_than_five_times_the_usual_is_no_peak_and_what_lies_next_to_a_stall_is_its_part() {
    assert_eq!(sentences(&peaked(&[(9, 4_900_000)])), [""; 0]);
    let mut run = peaked(&[(10, 80_000_000)]);
    run.trials[0].phases[0].slices[9].histograms = vec![served(1, times([(1_000_000, 100)]))];
    assert_eq!(view(&run).stalls.len(), 1);
    assert_eq!(sentences(&run), [""; 0]);
    // Nothing is known of the tail of few operations.
    let mut run = peaked(&[(9, 80_000_000)]);
    run.trials[0].phases[0].slices.truncate(7);
    assert_eq!(sentences(&run), [""; 0]);
}
