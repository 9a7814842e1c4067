//! Faults of a plan: effects of the healing, operations that end after it, and waits of clients that hide it.

use plimsoll_analysis::view;
use plimsoll_analysis::view::{FaultView, FormulaState};
use plimsoll_core::{Outcome, SliceHistogram};
use plimsoll_record::data::{FaultKind, LedgerCheck, Run, Sample, UnknownWrites};

use crate::faulted::{KILL, at_ns, fault, formula, ticked};
use crate::faults::{near, only};
use crate::study::{SECOND_NS, series_of, served, times};

const CUT: (FaultKind, &str, &str) = (FaultKind::Cut, "node 1, the primary", "cut primary at 6s for 4s");
const PAUSE: (FaultKind, &str, &str) = (FaultKind::Pause, "node 1, the primary", "pause primary at 8s for 5s");

/// A primary that is cut off from 6 to 10 s: nothing is answered for 1.08 s, and again from 12.79 s on for so many ticks.
fn silent_again(ticks: u64) -> Run {
    let last = 1_279 + ticks - 1;
    let mut run = ticked(25, move |tick| match tick {
        708 => (4, 2),
        tick if tick == last => (0, 3),
        tick if (600..708).contains(&tick) || (1_279..last).contains(&tick) => (0, 0),
        _ => (10, 0),
    });
    fault(&mut run, CUT, 6_000, Some(10_000));
    run
}

#[test]
fn an_outage_that_the_healing_caused_is_told_with_the_fault() {
    let run = silent_again(114);
    let one = only(&run);
    near(one.outage_s, 1.14);
    near(one.outage_at_s, 112.79);
    near(one.recovered_s, 7.93);
    assert_eq!(one.unknown, 5);
    let words = "cut of node 1, the primary, at 106.00 s: no answer for 1.14 s (2.79 s after the healing), noticed within \
                 10 ms, throughput back after 7.93 s; 5 outcomes unknown";
    assert_eq!(one.sentence, words);
    let note = "cut of node 1, the primary, at 106.00 s: no answer for 1.14 s, 2.79 s after the healing";
    assert_eq!(one.notes, [note]);
    let found = view(&run);
    let text = &found.summary[0].text;
    let words = "no answer for 1.14 s at 113 s, around then: healing of the cut of node 1, the primary, at 110.00 s";
    assert!(text.contains(words), "{text}");
    let sentence = &found.verdict.sentence;
    assert!(sentence.contains(": no answer for 1.14 s (2.79 s after the healing)"), "{sentence}");
}

#[test]
fn a_shorter_outage_after_the_healing_is_told_beside_the_longest() {
    let one = only(&silent_again(60));
    near(one.outage_s, 1.08);
    near(one.recovered_s, 7.39);
    let words = ": no answer for 1.08 s (again for 600 ms, 2.79 s after the healing), noticed within 10 ms";
    assert!(one.sentence.contains(words), "{}", one.sentence);
    // Noise.
    let one = only(&silent_again(40));
    assert_eq!(one.after_healing, None);
    near(one.recovered_s, 1.08);
    assert_eq!(one.unknown, 2);
    // One that the next fault made long.
    let mut run = silent_again(114);
    fault(&mut run, KILL, 12_820, Some(16_000));
    let faults = view(&run).faults;
    assert_eq!(faults[0].after_healing, None);
    [faults[0].outage_s, faults[0].recovered_s].into_iter().for_each(|time_s| near(time_s, 1.08));
    near(faults[1].outage_s, 1.11);
}

#[test]
fn elections_after_the_healing_are_counted_beside_those_of_the_failover() {
    let mut run = silent_again(114);
    run.trials[0].header.failover_time = Some(formula());
    let position = run.series.len() as u32;
    run.series.push(series_of("store", "fjall node 2", "raft_term", ""));
    for (ms, term) in [(5_900, 8.0), (8_900, 9.0), (14_500, 12.0)] {
        run.samples.push(Sample { at_ns: at_ns(ms), values: vec![(position, term)], ..Sample::default() });
    }
    let one = only(&run);
    assert_eq!((one.failover.unwrap().elections, one.after_healing.unwrap().elections), (Some(1), Some(3)));
    assert!(one.sentence.contains("(2.79 s after the healing, with 3 elections)"), "{}", one.sentence);
}

#[test]
fn operations_that_begin_in_the_effect_and_fail_after_it_are_counted_with_the_fault() {
    let stuck = |took_ns: u64| {
        let mut run = ticked(20, |tick| match tick {
            905 => (0, 2),
            800..907 => (0, 0),
            1_302 => (9, 1),
            _ => (10, 0),
        });
        let failed = SliceHistogram { outcome: Outcome::Unknown, ..served(1, times([(took_ns, 1)])) };
        let histograms = &mut run.trials[0].phases[0].slices[13].histograms;
        histograms.retain(|one| one.outcome == Outcome::Ok);
        histograms.push(failed);
        fault(&mut run, PAUSE, 8_000, Some(13_000));
        let unknown_writes = vec![UnknownWrites { at_ns: at_ns(13_020), written: 1, not_written: 0, not_known: 0 }];
        run.trials[0].ledgers.push(LedgerCheck { complete: true, unknown_writes, ..LedgerCheck::default() });
        only(&run)
    };
    let one = stuck(5_015_000_000);
    assert_eq!((one.unknown, one.unknown_writes.map(|writes| writes.written)), (3, Some(1)));
    assert!(one.notes.is_empty(), "{:?}", one.notes);
    let one = stuck(1_000_000);
    assert_eq!((one.unknown, one.unknown_writes), (2, None));
    assert_eq!(one.notes, ["fjall, phase mixed: 1 outcome unknown in the count of no fault"]);
}

#[test]
fn of_a_silence_that_goes_on_in_the_next_fault_the_rest_begins_with_that_one() {
    let mut run = ticked(25, |tick| if (807..1_044).contains(&tick) { (0, 0) } else { (10, 0) });
    fault(&mut run, KILL, 8_000, Some(16_000));
    fault(&mut run, (FaultKind::Promote, "node 2, a replica", "promote replica at 10s"), 10_000, Some(10_120));
    let faults = view(&run).faults;
    near(faults[0].outage_s, 2.37);
    near(faults[1].outage_s, 0.44);
    near(faults[1].outage_at_s, 110.0);
    near(faults[1].recovered_s, 0.44);
}

/// A primary that is cut off from 4 to 12 s, with answers from 12.2 s on.
fn connecting(op_timeout_ns: u64, connect_timeout_ns: u64) -> FaultView {
    let mut run = ticked(25, |tick| match tick {
        501 => (0, 8),
        401..1_220 => (0, 0),
        _ => (10, 0),
    });
    fault(&mut run, CUT, 4_000, Some(12_000));
    run.trials[0].header.failover_time = Some(formula());
    let header = &mut run.trials[0].phases[0].header;
    (header.op_timeout_ns, header.connect_timeout_ns) = (Some(op_timeout_ns), Some(connect_timeout_ns));
    only(&run)
}

#[test]
fn an_outage_in_which_clients_may_have_waited_for_a_connection_decides_no_formula() {
    let state = |one: &FaultView| one.failover.as_ref().unwrap().state;
    let one = connecting(SECOND_NS, 15 * SECOND_NS);
    assert_eq!((one.may_wait_to_connect, state(&one)), (true, FormulaState::NotDecided));
    let words = ": no answer for 8.19 s (clients may have waited for a connection), ";
    assert!(one.sentence.contains(words), "{}", one.sentence);
    let [note] = one.notes.as_slice() else { panic!("{:?}", one.notes) };
    assert!(note.starts_with("Clients wait up to 15.0 s to connect to a silent server (`connect_timeout`)"), "{note}");
    let one = connecting(SECOND_NS, SECOND_NS / 2);
    assert_eq!((one.may_wait_to_connect, state(&one)), (false, FormulaState::More));
    assert!(one.notes.is_empty(), "{:?}", one.notes);
    // They may have waited for answers.
    let one = connecting(10 * SECOND_NS, 15 * SECOND_NS);
    assert_eq!((one.may_wait_to_connect, state(&one)), (false, FormulaState::NotDecided));
}

#[test]
fn a_short_silence_before_the_end_leaves_throughput_back() {
    let mut run = ticked(20, |tick| match tick {
        800..900 => (5, 0),
        1_960..1_963 => (0, 0),
        _ => (10, 0),
    });
    fault(&mut run, PAUSE, 8_000, None);
    let one = only(&run);
    near(one.outage_s, 0.03);
    near(one.recovered_s, 11.63);
    assert!(!one.recovered_open);
}
