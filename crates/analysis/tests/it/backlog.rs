//! Work that is owed to clients after a fault of an open loop.

use plimsoll_analysis::view;
use plimsoll_analysis::view::FaultView;
use plimsoll_record::data::Run;

use crate::faulted::{KILL, PAUSE, fault, open_loop, ticked};
use crate::faults::near;

#[track_caller]
fn only(run: &Run) -> FaultView {
    view(run).faults.remove(0)
}

/// A load of 800 operations a second. After a pause from 5 to 8 s so many operations are due at the end of each second.
fn with_backlog(due_unsent: [u64; 9]) -> Run {
    let mut run = ticked(14, |tick| if (500..800).contains(&tick) { (0, 0) } else { (8, 0) });
    let phase = &mut run.trials[0].phases[0];
    phase.header.rate_per_s = Some(800.0);
    phase.slices.iter_mut().for_each(|slice| slice.due_unsent = 3);
    for (slice, due_unsent) in phase.slices[5..].iter_mut().zip(due_unsent) {
        slice.due_unsent = due_unsent;
    }
    fault(&mut run, PAUSE, 5_000, Some(8_000));
    run
}

#[test]
fn work_that_is_owed_after_a_fault_is_told_with_the_time_until_it_was_worked_off() {
    let one = only(&with_backlog([792, 1_592, 2_392, 1_900, 1_100, 300, 79, 12, 3]));
    let backlog = one.backlog.unwrap();
    assert_eq!((backlog.most, backlog.gone_s, backlog.observed_s), (2_392, Some(7.0), 9.0));
    let words = ", backlog of up to 2,392 operations, worked off after 7.00 s";
    assert!(one.sentence.contains(words), "{}", one.sentence);
    let one = only(&with_backlog([792, 1_592, 2_392, 2_400, 2_380, 2_390, 2_400, 2_400, 2_400]));
    assert_eq!(one.backlog.unwrap().gone_s, None);
    assert!(one.sentence.contains("not worked off within 9.00 s"), "{}", one.sentence);
    // Fewer than those of a tenth of a second are no backlog.
    assert_eq!(only(&with_backlog([80, 70, 3, 3, 3, 3, 3, 3, 3])).backlog, None);
    // As many were due before.
    let mut run = with_backlog([792, 700, 3, 3, 3, 3, 3, 3, 3]);
    run.trials[0].phases[0].slices[2].due_unsent = 792;
    assert_eq!(only(&run).backlog, None);
}

#[test]
fn a_backlog_that_the_next_fault_met_was_not_worked_off_before() {
    let mut run = with_backlog([792, 1_592, 2_392, 1_900, 1_100, 900, 800, 12, 3]);
    fault(&mut run, KILL, 9_000, Some(9_500));
    let faults = view(&run).faults;
    let backlogs: Vec<_> = faults.iter().map(|one| one.backlog.unwrap()).collect();
    assert_eq!((backlogs[0].most, backlogs[0].gone_s, backlogs[0].observed_s), (2_392, None, 4.0));
    assert_eq!((backlogs[1].most, backlogs[1].gone_s), (1_100, Some(4.0)));
}

#[test]
fn work_that_is_owed_later_than_the_effect_of_a_fault_is_not_its_backlog() {
    let one = only(&with_backlog([792, 1_592, 2_392, 1_900, 1_100, 300, 3, 900, 3]));
    let backlog = one.backlog.unwrap();
    assert_eq!((backlog.most, backlog.gone_s), (2_392, Some(7.0)));
    assert_eq!(only(&with_backlog([3, 3, 3, 3, 3, 3, 3, 900, 3])).backlog, None);
}

#[test]
fn a_backlog_that_was_dropped_when_the_phase_was_cut_short_was_not_worked_off() {
    let mut run = with_backlog([792, 1_592, 2_392, 2_400, 2_400, 2_400, 2_400, 2_400, 0]);
    let last = &mut run.trials[0].phases[0].slices[13];
    last.histograms.clear();
    last.ticks.iter_mut().for_each(|tick| tick.answered = 0);
    let one = only(&run);
    let backlog = one.backlog.unwrap();
    assert_eq!((backlog.most, backlog.gone_s, backlog.observed_s), (2_400, None, 9.0));
    assert!(one.sentence.contains("not worked off within 9.00 s"), "{}", one.sentence);
}

/// An open loop of 200 operations a second. From 5 s up to the tick `until` a tenth of them is answered, and the others in
/// a burst after it.
fn with_burst(seconds: u64, until: u64) -> FaultView {
    let answered = |tick: u64| match tick {
        tick if tick < 500 || tick >= until + 45 => [0, 4, 1, 3, 2][tick as usize % 5],
        tick if tick < until => u32::from(tick.is_multiple_of(5)),
        _ => 18,
    };
    let mut run = ticked(seconds, |tick| (answered(tick), 0));
    open_loop(&mut run);
    run.trials[0].phases[0].header.rate_per_s = Some(200.0);
    fault(&mut run, PAUSE, 5_000, Some(9_000));
    only(&run)
}

#[test]
fn throughput_is_not_back_before_the_burst_in_which_a_backlog_is_worked_off() {
    near(with_burst(20, 900).recovered_s, 4.0);
    // No second is seen after the beginning of the burst.
    let one = with_burst(10, 990);
    assert_eq!((one.recovered_s, one.recovered_open), (None, true));
}

#[test]
fn a_second_before_the_fault_tells_how_far_windows_fall_behind() {
    let mut run = ticked(15, |tick| match tick {
        120..522 => (0, 0),
        _ => ([0, 4, 1, 3, 2][tick as usize % 5], 0),
    });
    open_loop(&mut run);
    run.trials[0].phases[0].header.rate_per_s = Some(200.0);
    fault(&mut run, PAUSE, 1_200, Some(5_200));
    near(only(&run).recovered_s, 4.02);
}
