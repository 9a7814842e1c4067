//! Stale records in answers, by fault and server.

use plimsoll_analysis::view;
use plimsoll_analysis::view::FaultView;
use plimsoll_record::data::{AnswerCheck, Run, StaleReads};

use crate::faulted::{PAUSE, at_ns, fault, killed_primary};

/// Adds the answers to an operation type with these stale records: milliseconds since the phase's start, server, records.
fn answered(run: &mut Run, phase: u32, stale: &[(u64, &str, u64)]) {
    let one = |(at_ms, server, records): &(u64, &str, u64)| StaleReads {
        at_ns: at_ns(*at_ms),
        server: (*server).to_owned(),
        records: *records,
    };
    let stale = stale.iter().map(one).collect();
    run.trials[0].answers.push(AnswerCheck { phase, stale, ..AnswerCheck::default() });
}

fn of(one: &FaultView) -> Vec<(&str, u64)> {
    one.stale.iter().map(|one| (one.server.as_str(), one.records)).collect()
}

#[test]
fn stale_records_are_told_with_the_fault_in_whose_effect_they_were_read_and_with_who_answered() {
    let mut run = killed_primary();
    answered(&mut run, 0, &[(7_900, "node 2", 100), (8_010, "node 2", 3), (9_300, "node 3", 1_000)]);
    answered(&mut run, 0, &[(9_360, "node 2", 1), (9_400, "node 2", 100)]);
    // Of another phase.
    answered(&mut run, 7, &[(8_010, "node 2", 100)]);
    let one = view(&run).faults.remove(0);
    assert_eq!(of(&one), [("node 3", 1_000), ("node 2", 4)]);
    let words = "; 8 outcomes unknown, 1,004 stale records read (1,000 from node 3, 4 from node 2)";
    assert!(one.sentence.ends_with(words), "{}", one.sentence);
}

#[test]
fn stale_records_of_the_next_fault_are_its_own_and_one_server_has_no_name() {
    let mut run = killed_primary();
    fault(&mut run, PAUSE, 8_500, Some(9_300));
    answered(&mut run, 0, &[(8_490, "", 1), (8_500, "", 2)]);
    let faults = view(&run).faults;
    assert_eq!(faults.iter().map(of).collect::<Vec<_>>(), [[("", 1)], [("", 2)]]);
    assert!(faults[0].sentence.ends_with(", 1 stale record read"), "{}", faults[0].sentence);
}
