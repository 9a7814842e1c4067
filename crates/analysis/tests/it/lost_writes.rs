//! Lost writes, by the fault in whose effect or before which they were acknowledged.

use plimsoll_analysis::view;
use plimsoll_analysis::view::{FaultLossView, FaultView};
use plimsoll_record::data::{FaultKind, LedgerCheck, LostWrites, Run};

use crate::faulted::{KILL, PAUSE, at_ns, fault, killed_primary};

/// Adds a check that found so many lost writes, and the times of these: milliseconds since the phase's start, writes.
fn checked(run: &mut Run, lost: u64, timed: &[(u64, u64)]) {
    let one = |(at_ms, writes): &(u64, u64)| LostWrites { at_ns: at_ns(*at_ms), writes: *writes };
    let lost_writes = timed.iter().map(one).collect();
    run.trials[0].ledgers.push(LedgerCheck { complete: true, lost, lost_writes, ..LedgerCheck::default() });
}

/// Returns the numbers of lost writes in the effect of a fault and before it.
fn of(one: &FaultView) -> Option<(u64, u64)> {
    one.lost.map(|lost| (lost.in_effect, lost.before))
}

/// Returns the lost writes of the only trial in the effect of a fault, before one, after all, and without a time.
fn parts(run: &Run) -> [u64; 4] {
    let all = view(run).fault_losses;
    let [FaultLossView { lost, in_effect, before, after, not_known, .. }] = all[..] else { panic!("{all:?}") };
    let parts = [in_effect, before, after, not_known];
    assert_eq!(parts.iter().sum::<u64>(), lost, "{all:?}");
    parts
}

#[test]
fn lost_writes_are_told_with_the_fault_in_whose_effect_or_before_which_they_were_acknowledged() {
    let mut run = killed_primary();
    checked(&mut run, 1_016, &[(7_980, 3), (8_000, 10), (8_500, 1_000), (9_400, 2)]);
    let all = view(&run);
    assert_eq!(of(&all.faults[0]), Some((1_010, 3)));
    let words = "; 8 outcomes unknown, 1,013 acknowledged writes lost (3 of them acknowledged up to 20.0 ms before it)";
    assert!(all.faults[0].sentence.ends_with(words), "{}", all.faults[0].sentence);
    assert_eq!(parts(&run), [1_010, 3, 2, 1]);
    let wanted = format!(
        "{}: 1,016 acknowledged writes lost, by the time of their acknowledgement: 1,010 in the effect of a fault, 3 \
         before a fault, 2 after the effects of all faults (the first 30.0 ms after that of the kill of node 1, the \
         primary), 1 not known",
        all.trials[0].name
    );
    assert_eq!(all.fault_losses[0].sentence, wanted);

    let mut before = killed_primary();
    checked(&mut before, 1, &[(7_000, 1)]);
    let one = view(&before).faults.remove(0);
    let words = ", 1 acknowledged write lost (acknowledged up to 1.00 s before it)";
    assert!(one.sentence.ends_with(words), "{}", one.sentence);
}

#[test]
fn lost_writes_of_the_next_fault_are_its_own_and_those_of_faults_at_one_time_are_counted_once() {
    let mut run = killed_primary();
    fault(&mut run, PAUSE, 8_500, Some(9_300));
    fault(&mut run, KILL, 14_000, Some(15_000));
    checked(&mut run, 63, &[(8_490, 1), (8_500, 2), (13_000, 4), (13_990, 8), (14_000, 16), (15_010, 32)]);
    let faults = view(&run).faults;
    assert_eq!(faults.iter().map(of).collect::<Vec<_>>(), [Some((1, 0)), Some((2, 0)), Some((16, 12))]);
    assert_eq!(parts(&run), [19, 12, 32, 0]);

    let mut together = killed_primary();
    fault(&mut together, PAUSE, 8_000, Some(9_300));
    checked(&mut together, 5, &[(7_000, 1), (8_020, 4)]);
    assert_eq!(view(&together).faults.iter().map(of).collect::<Vec<_>>(), [Some((4, 1)); 2]);
    assert_eq!(parts(&together), [4, 1, 0, 0]);
}

#[test]
fn lost_writes_after_the_effect_of_a_short_fault_belong_to_another_that_goes_on() {
    let mut run = killed_primary();
    fault(&mut run, (FaultKind::Limit, "node 2", "limit node 2 cpu=1 at 5s"), 5_000, None);
    run.trials[0].faults.swap(0, 1);
    checked(&mut run, 15, &[(4_000, 1), (6_000, 2), (8_500, 4), (12_000, 8)]);
    assert_eq!(view(&run).faults.iter().map(of).collect::<Vec<_>>(), [Some((10, 1)), Some((4, 0))]);
    assert_eq!(parts(&run), [14, 1, 0, 0]);
    run.trials[0].faults[0].healed_ns = Some(at_ns(11_000));
    assert_eq!(parts(&run), [6, 1, 8, 0]);
}

#[test]
fn the_check_that_found_most_counts_and_without_times_only_the_sum_is_told() {
    let mut run = killed_primary();
    assert_eq!(of(&view(&run).faults[0]), None, "nothing was checked");
    checked(&mut run, 0, &[]);
    assert_eq!((of(&view(&run).faults[0]), view(&run).fault_losses.len()), (Some((0, 0)), 0));
    assert!(view(&run).faults[0].sentence.ends_with("; 8 outcomes unknown"));
    checked(&mut run, 4, &[(8_020, 4)]);
    checked(&mut run, 0, &[]);
    assert_eq!((of(&view(&run).faults[0]), parts(&run)), (Some((4, 0)), [4, 0, 0, 0]));

    // As in earlier recordings.
    let mut earlier = killed_primary();
    checked(&mut earlier, 5, &[]);
    assert_eq!((of(&view(&earlier).faults[0]), parts(&earlier)), (None, [0, 0, 0, 5]));
    let mut unread = killed_primary();
    checked(&mut unread, 0, &[]);
    unread.trials[0].ledgers[0].complete = false;
    assert_eq!((of(&view(&unread).faults[0]), view(&unread).fault_losses.len()), (None, 0));
}

#[test]
fn repeated_faults_have_a_spread_of_lost_writes_if_some_were_lost() {
    let mut run = killed_primary();
    fault(&mut run, KILL, 14_000, Some(15_000));
    checked(&mut run, 0, &[]);
    assert_eq!(view(&run).fault_repeats[0].lost, None);
    checked(&mut run, 4, &[(8_020, 3), (7_990, 1)]);
    let lost = view(&run).fault_repeats[0].lost.unwrap();
    assert_eq!((lost.n, lost.least, lost.median, lost.most), (2, 0.0, 2.0, 4.0));
}
