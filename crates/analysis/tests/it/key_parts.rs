//! Parts of the keys that had no answer in the effect of a fault.

use plimsoll_analysis::view;
use plimsoll_analysis::view::FaultView;
use plimsoll_core::{KeyParts, PartTick};
use plimsoll_record::data::Run;

use crate::faulted::{KILL, fault, ticked};

/// Returns a run of 20 seconds with a fault from 8 to 9.3 s that throughput does not show. `tick` returns the parts that were
/// asked and not answered since, and those that were answered, in each 10 ms.
fn divided(tick: impl Fn(u64) -> (u64, u64)) -> Run {
    let mut run = ticked(20, |_| (10, 0));
    fault(&mut run, KILL, 8_000, Some(9_300));
    for (second, slice) in (0u64..).zip(&mut run.trials[0].phases[0].slices) {
        let at = |at: u64| tick(second * 100 + at);
        let ticks = (0..100).map(at).map(|(asked, answered)| PartTick { asked, answered }).collect();
        slice.key_parts = Some(KeyParts { of: 4, ticks });
    }
    run
}

/// Returns the number of silent parts, of all, and the longest time in milliseconds.
fn silent(run: &Run) -> (u64, u64, u64) {
    let parts = only(run).key_parts.unwrap();
    (parts.silent, parts.of, (parts.longest_s * 1e3).round() as u64)
}

fn only(run: &Run) -> FaultView {
    view(run).faults.remove(0)
}

#[test]
fn a_part_without_an_answer_is_told_while_others_have_answers() {
    let run = divided(|tick| if (805..950).contains(&tick) { (0b10, 0b1101) } else { (0, 0b1111) });
    assert_eq!(silent(&run), (1, 4, 1_450));
    let one = only(&run);
    assert_eq!((one.outage_s, one.key_parts.unwrap().longest_open), (Some(0.0), false));
    let words = ": no operation failed; no answer for 1 of 4 parts of the keys for up to 1.45 s";
    assert!(!one.is_unnoticed() && one.sentence.ends_with(words), "{}", one.sentence);
}

#[test]
fn of_a_wait_that_had_begun_before_the_fault_only_the_rest_counts() {
    let run = divided(|tick| match tick {
        700..950 => (0b10, 0b1101),
        _ => (0, 0b1111),
    });
    // A second of it was usual.
    assert_eq!(silent(&run), (1, 4, 1_500));
}

#[test]
fn parts_that_no_client_asks_for_or_that_wait_as_long_as_usual_are_not_silent() {
    let unasked = divided(|tick| if (805..950).contains(&tick) { (0, 0b1101) } else { (0, 0b1111) });
    assert_eq!(silent(&unasked), (0, 4, 0));
    assert!(only(&unasked).sentence.ends_with(": no client noticed"), "{}", only(&unasked).sentence);
    let usual = divided(|tick| match tick {
        200..350 => (0b1, 0b1110),
        805..950 => (0b10, 0b1101),
        _ => (0, 0b1111),
    });
    assert_eq!(silent(&usual), (0, 4, 0));
    // Shorter than 0.1 s.
    let short = divided(|tick| if (805..814).contains(&tick) { (0b10, 0b1101) } else { (0, 0b1111) });
    assert_eq!(silent(&short), (0, 4, 0));
    // Never answered before.
    let unknown = divided(|tick| if tick > 805 { (0b1000, 0b0111) } else { (0, 0b0111) });
    assert_eq!(silent(&unknown), (0, 3, 0));
}

#[test]
fn a_part_that_is_silent_to_the_end_was_so_for_longer() {
    let run = divided(|tick| if tick >= 806 { (0b110, 0b1001) } else { (0, 0b1111) });
    assert_eq!(silent(&run), (2, 4, 11_940));
    let one = only(&run);
    assert!(one.key_parts.unwrap().longest_open, "{one:?}");
    assert!(one.sentence.ends_with("2 of 4 parts of the keys for more than 11.9 s"), "{}", one.sentence);
}

#[test]
fn repeated_faults_have_the_spread_of_silent_parts_and_of_their_longest_times() {
    let mut run = divided(|tick| match tick {
        805..950 => (0b10, 0b1101),
        1_905.. => (0b110, 0b1001),
        _ => (0, 0b1111),
    });
    fault(&mut run, KILL, 14_000, Some(15_000));
    let repeats = view(&run).fault_repeats.remove(0);
    let silent = repeats.silent_parts.unwrap();
    assert_eq!((silent.n, silent.least, silent.median, silent.most), (2, 0.0, 0.5, 1.0));
    let time = repeats.part_silence.unwrap();
    assert_eq!((time.least_s, time.median_s, time.most_s), (Some(0.0), Some(0.725), Some(1.45)));
    // The last one is silent to the end.
    fault(&mut run, KILL, 19_000, None);
    let repeats = view(&run).fault_repeats.remove(0);
    let (silent, time) = (repeats.silent_parts.unwrap(), repeats.part_silence.unwrap());
    assert_eq!((silent.n, silent.median, silent.most), (3, 1.0, 2.0));
    assert_eq!((time.median_s, time.most_s, time.above_s.most, time.open), (Some(1.45), None, Some(1.45), 1));
    run.trials[0].phases[0].slices.iter_mut().for_each(|slice| slice.key_parts = None);
    let without = view(&run).fault_repeats.remove(0);
    assert_eq!((without.silent_parts, without.part_silence), (None, None));
}

#[test]
fn recordings_without_parts_of_the_keys_have_none() {
    let mut run = divided(|_| (0, 0b1111));
    assert_eq!(silent(&run), (0, 4, 0));
    run.trials[0].phases[0].slices.iter_mut().for_each(|slice| slice.key_parts = None);
    assert_eq!(only(&run).key_parts, None);
}
