//! Fates of writes without an answer, by fault.

use plimsoll_analysis::view;
use plimsoll_analysis::view::{FaultView, UnknownWritesView};
use plimsoll_record::data::{LedgerCheck, Run, UnknownWrites};

use crate::faulted::{KILL, PAUSE, at_ns, fault, killed_primary};

/// Adds a check that found these fates: milliseconds since the phase's start, written, not written, not known.
fn checked(run: &mut Run, fates: &[(u64, [u64; 3])]) {
    let one = |(at_ms, [written, not_written, not_known]): &(u64, [u64; 3])| UnknownWrites {
        at_ns: at_ns(*at_ms),
        written: *written,
        not_written: *not_written,
        not_known: *not_known,
    };
    let unknown_writes = fates.iter().map(one).collect();
    run.trials[0].ledgers.push(LedgerCheck { complete: true, unknown_writes, ..LedgerCheck::default() });
}

fn of(one: &FaultView) -> Option<[u64; 3]> {
    one.unknown_writes.map(|UnknownWritesView { written, not_written, not_known }| [written, not_written, not_known])
}

#[test]
fn fates_that_the_ledger_found_are_told_with_the_fault_in_whose_effect_the_writes_were_given_up() {
    let mut run = killed_primary();
    // The first was given up before the fault, the last after its recovery.
    checked(&mut run, &[(7_980, [1, 0, 0]), (8_020, [3, 1, 0]), (8_500, [1_000, 0, 2]), (9_400, [0, 1, 0])]);
    let one = view(&run).faults.remove(0);
    assert_eq!(of(&one), Some([1_003, 1, 2]));
    let words = "; 8 outcomes unknown (writes: 1,003 written, 1 not written, 2 not known)";
    assert!(one.sentence.ends_with(words), "{}", one.sentence);
}

#[test]
fn a_later_check_tells_more_and_one_without_fates_takes_nothing_back() {
    let mut run = killed_primary();
    assert_eq!(of(&view(&run).faults[0]), None, "nothing was checked");
    checked(&mut run, &[(8_020, [0, 0, 4])]);
    checked(&mut run, &[(8_020, [4, 0, 0])]);
    checked(&mut run, &[]);
    let one = view(&run).faults.remove(0);
    assert_eq!(of(&one), Some([4, 0, 0]));
    assert!(one.sentence.ends_with("; 8 outcomes unknown (writes: 4 written)"), "{}", one.sentence);
}

#[test]
fn writes_that_were_given_up_after_the_next_fault_began_are_told_with_that_one() {
    let mut run = killed_primary();
    fault(&mut run, PAUSE, 8_500, Some(9_300));
    checked(&mut run, &[(8_020, [1, 0, 0]), (8_490, [2, 0, 0]), (8_500, [0, 5, 0])]);
    let faults = view(&run).faults;
    assert_eq!(faults.iter().map(of).collect::<Vec<_>>(), [Some([3, 0, 0]), Some([0, 5, 0])]);
    // Without unknown outcomes there are no fates.
    let mut run = killed_primary();
    fault(&mut run, KILL, 14_000, Some(15_000));
    checked(&mut run, &[(14_500, [1, 0, 0])]);
    assert_eq!(of(&view(&run).faults[1]), None);
}
