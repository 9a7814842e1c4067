//! Clients that had no answer in the effect of a fault.

use plimsoll_analysis::view;
use plimsoll_analysis::view::FaultView;
use plimsoll_core::{ClientSet, ClientSilence};
use plimsoll_record::data::Run;

use crate::faulted::{KILL, PAUSE, at_ns, fault, ticked, without_end};

/// A client, and start and end of its silence in milliseconds since the phase's start.
type Silence = (u32, u64, Option<u64>);

/// Gives a run of 64 clients these silences. Those without an end are in its last slice.
fn with_silences(mut run: Run, silences: &[Silence]) -> Run {
    let last = run.trials[0].phases[0].slices.len() - 1;
    for (second, slice) in run.trials[0].phases[0].slices.iter_mut().enumerate() {
        slice.affected = Some(ClientSet::none_of(64));
        let is_its = |one: &&Silence| one.2.map_or(last, |until_ms| until_ms as usize / 1_000) == second;
        let silence = |(client, from_ms, until_ms): &Silence| ClientSilence {
            client: *client,
            from_ns: at_ns(*from_ms),
            until_ns: until_ms.map(at_ns),
        };
        slice.silences = Some(silences.iter().filter(is_its).map(silence).collect());
    }
    run
}

/// Returns a run with a fault from 8 to 9.3 s that throughput does not show.
fn few(silences: &[Silence]) -> Run {
    let mut run = ticked(20, |_| (10, 0));
    fault(&mut run, KILL, 8_000, Some(9_300));
    with_silences(run, silences)
}

/// Returns the number of silent clients, of all, the median and the longest time in milliseconds, and true if it is open.
fn silent(one: &FaultView) -> (u64, u64, u64, u64, bool) {
    let clients = one.clients.unwrap();
    let [median, longest] = [clients.median_s, clients.longest_s].map(|seconds| (seconds * 1e3).round() as u64);
    (clients.silent, clients.of, median, longest, clients.longest_open)
}

#[test]
fn clients_without_an_answer_are_told_while_others_have_answers() {
    // Client 5 twice: its longest counts.
    let run =
        few(&[(5, 8_005, Some(8_400)), (5, 8_500, Some(9_600)), (6, 8_010, Some(9_310)), (7, 8_020, Some(8_130))]);
    let one = view(&run).faults.remove(0);
    assert_eq!(silent(&one), (3, 64, 1_100, 1_300, false));
    let words = ": no operation failed; no answer to 3 of 64 clients for up to 1.30 s (median 1.10 s)";
    assert!(!one.is_unnoticed() && one.sentence.ends_with(words), "{}", one.sentence);
    let one = view(&few(&[(9, 8_005, Some(9_000))])).faults.remove(0);
    assert!(one.sentence.ends_with("; no answer to 1 of 64 clients for up to 995 ms"), "{}", one.sentence);
}

#[test]
fn silences_that_are_usual_or_of_other_times_do_not_count() {
    let usual = few(&[(1, 3_000, Some(4_000)), (2, 8_100, Some(9_000)), (3, 12_000, Some(14_000))]);
    let one = view(&usual).faults.remove(0);
    assert_eq!(silent(&one), (0, 64, 0, 0, false));
    assert!(one.sentence.ends_with(": no client noticed"), "{}", one.sentence);
    // Of one that had begun before, the rest.
    let run = few(&[(1, 6_000, Some(8_700))]);
    assert_eq!(silent(&view(&run).faults[0]), (1, 64, 700, 700, false));
}

#[test]
fn silences_with_the_next_fault_belong_to_that_one() {
    let mut run = few(&[(1, 8_100, Some(8_500)), (2, 12_050, Some(12_650))]);
    fault(&mut run, PAUSE, 12_000, Some(12_500));
    let faults = view(&run).faults;
    assert_eq!([&faults[0], &faults[1]].map(silent), [(1, 64, 400, 400, false), (1, 64, 600, 600, false)]);
}

#[test]
fn a_silence_to_the_end_was_longer_and_repeated_faults_have_the_spread_of_the_longest() {
    let mut run = with_silences(without_end(), &[(1, 8_010, None), (2, 8_010, Some(19_500))]);
    let one = view(&run).faults.remove(0);
    assert_eq!(silent(&one), (2, 64, 11_740, 11_990, true));
    assert!(
        one.sentence.contains("no answer to 2 of 64 clients for more than 12.0 s (median 11.7 s)"),
        "{}",
        one.sentence
    );
    let mut twice = few(&[(1, 8_100, Some(8_500)), (2, 12_050, Some(12_650))]);
    fault(&mut twice, KILL, 12_000, Some(12_500));
    let spread = view(&twice).fault_repeats.remove(0).client_silence.unwrap();
    assert_eq!((spread.n, spread.least_s, spread.median_s, spread.most_s), (2, Some(0.4), Some(0.5), Some(0.6)));
    // An earlier recording.
    run.trials[0].phases[0].slices.iter_mut().for_each(|slice| slice.silences = None);
    assert_eq!(view(&run).faults[0].clients, None);
}
