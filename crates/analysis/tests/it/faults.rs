//! Faults of a plan: effects of each that clients noticed.

use plimsoll_analysis::view::{FaultView, VerdictState};
use plimsoll_analysis::{number, view};
use plimsoll_core::pace::Stage;
use plimsoll_record::data::{About, FaultKind, Run};

use crate::faulted::{KILL, PAUSE, at_ns, fault, killed_primary, open_loop, ticked, without_end};
use crate::stall::act;
use crate::study::SECOND_NS;

#[track_caller]
pub fn only(run: &Run) -> FaultView {
    let faults = view(run).faults;
    let [one] = faults.as_slice() else { panic!("one fault: {faults:?}") };
    one.clone()
}

#[track_caller]
pub fn near(got: Option<f64>, wanted: f64) {
    assert!(got.is_some_and(|got| (got - wanted).abs() < 1e-6), "{got:?}, wanted {wanted}");
}

#[test]
fn an_outage_is_told_to_ten_milliseconds_with_the_time_at_which_clients_noticed() {
    let run = killed_primary();
    let one = only(&run);
    near(one.outage_s, 1.37);
    near(one.outage_at_s, 108.0);
    near(one.noticed_s, 0.02);
    near(one.recovered_s, 1.37);
    near(one.healed_s, 1.3);
    near(one.taken_s, 0.005);
    assert_eq!((one.outage_open, one.recovered_open, one.unknown, one.rejected), (false, false, 8, 0));
    assert_eq!(
        one.sentence,
        "kill of node 1, the primary, at 108.00 s: no answer for 1.37 s, noticed after 20.0 ms, throughput back after \
         1.37 s; 8 outcomes unknown"
    );
    assert_eq!((one.phase.as_str(), one.fault.as_str(), one.at_s), ("mixed", "kill primary at 40%", 108.0));
}

#[test]
fn a_skipped_repeat_ends_no_effect_and_is_counted_in_a_warning() {
    let mut run = killed_primary();
    let alone = only(&run);
    for at_ms in [8_500, 15_000] {
        fault(&mut run, (FaultKind::Kill, "primary", "kill primary at 40%"), at_ms, Some(at_ms));
        let skipped = run.trials[0].faults.last_mut().unwrap();
        skipped.taken_ns = None;
        (skipped.detail.is_skipped, skipped.error) = (true, Some("no node was primary".to_owned()));
    }
    let found = view(&run);
    let [one, skipped, _] = &found.faults[..] else { panic!("{:?}", found.faults) };
    assert_eq!((one, skipped.is_skipped), (&alone, true), "a skip half a second later changes nothing");
    assert_eq!(skipped.sentence, "kill of primary at 108.50 s was skipped: no node was primary");
    assert_eq!((skipped.outage_s, skipped.recovered_s, skipped.unknown), (None, None, 0));
    let warning = &found.warnings[0].text;
    assert_eq!(warning, "fjall, phase mixed: `kill primary` took effect 1 of 3 times; twice no node was primary.");
    assert_eq!(found.verdict, view(&killed_primary()).verdict);
    assert_eq!(found.plots.acts.len(), 1);
}

#[test]
fn the_first_line_and_the_verdict_name_the_fault_of_an_outage_once_each() {
    let found = view(&killed_primary());
    let text = &found.summary[0].text;
    let words = "no answer for 1.37 s at 108 s, around then: kill of node 1, the primary, at 108.00 s";
    assert!(text.contains(words), "{text}");
    assert_eq!(
        found.verdict.sentence,
        "fjall ran as planned through 1 fault (kill of node 1, the primary): no answer for 1.37 s; nothing was checked \
         and no goal was set."
    );
    let mark = &found.plots.acts[0];
    assert_eq!((mark.start_s, mark.end_s, mark.name.as_str()), (108.0, 109.3, "kill of node 1, the primary"));
}

#[test]
fn a_fault_that_began_long_before_an_outage_is_not_said_to_be_around_it() {
    let mut run = ticked(20, |tick| if (1_590..1_756).contains(&tick) { (0, 0) } else { (10, 0) });
    fault(&mut run, KILL, 8_730, Some(17_000));
    let text = &view(&run).summary[0].text;
    assert!(text.contains("no answer for 1.66 s at 116 s") && !text.contains("around then"), "{text}");
}

#[test]
fn an_outage_of_another_phase_than_that_of_the_line_has_its_name() {
    let mut run = ticked(20, |_| (20, 0));
    let mut other = killed_primary().trials.remove(0).phases.remove(0);
    // Of many phases that are not alike there is one line.
    for ordinal in 1..30u32 {
        other.header.ordinal = ordinal;
        other.header.name = format!("phase-{ordinal}");
        run.trials[0].phases.push(other.clone());
        other.slices.iter_mut().for_each(|slice| slice.ticks.iter_mut().for_each(|tick| tick.answered = 10));
    }
    let summary = &view(&run).summary[0];
    assert_eq!(summary.place, "fjall, mixed, the most of 30 phases");
    assert!(summary.text.contains("no answer for 1.37 s at 108 s in phase-1 · "), "{}", summary.text);
    let part = summary.parts.iter().find(|part| part.name == "no answer").unwrap();
    assert_eq!((part.value.as_str(), part.at.as_str()), ("1.37 s", "at 108 s in phase-1"));
}

#[test]
fn an_outage_that_no_fault_explains_is_told_first_and_the_faults_after_it() {
    let mut run = ticked(20, |tick| if (300..500).contains(&tick) { (0, 0) } else { (10, 0) });
    fault(&mut run, PAUSE, 10_000, Some(13_000));
    let sentence = view(&run).verdict.sentence;
    assert_eq!(
        sentence,
        "fjall gave no answer in phase mixed for 2.00 s at 103 s. 1 fault (pause of node 2): no outage."
    );
}

#[test]
fn no_promise_is_said_to_be_kept_without_the_faults() {
    let mut run = killed_primary();
    let study = crate::study::complete();
    run.trials[0].ledgers = study.trials[4].ledgers.clone();
    fault(&mut run, PAUSE, 14_000, Some(15_000));
    let found = view(&run);
    assert_eq!(found.verdict.state, VerdictState::Pass);
    let sentence = &found.verdict.sentence;
    let begin = "fjall kept every promise through 2 faults (kill of node 1, the primary; pause of node 2): no answer \
                 for up to 1.37 s. All ";
    assert!(sentence.starts_with(begin), "{sentence}");
    assert_eq!(sentence.matches("no answer").count(), 1, "{sentence}");
}

#[test]
fn a_pause_that_no_client_notices_has_no_effect() {
    let mut run = ticked(20, |_| (10, 0));
    fault(&mut run, PAUSE, 5_000, Some(8_000));
    let one = only(&run);
    assert_eq!((one.noticed_s, one.outage_s, one.outage_at_s, one.recovered_s), (None, Some(0.0), None, Some(0.0)));
    assert_eq!(one.sentence, "pause of node 2 at 105.00 s: no client noticed");
    let sentence = view(&run).verdict.sentence;
    assert!(sentence.contains("through 1 fault (pause of node 2): no outage; "), "{sentence}");
    // Throughput alone fell.
    let mut run = ticked(20, |tick| if (510..700).contains(&tick) { (6, 0) } else { (10, 0) });
    fault(&mut run, PAUSE, 5_000, Some(8_000));
    let one = only(&run);
    assert_eq!((one.noticed_s, one.outage_s), (None, Some(0.0)));
    // Twelve slow ticks in a window take 48 of 1,000 answers.
    near(one.recovered_s, 1.88);
    assert!(one.sentence.ends_with("no operation failed, throughput back after 1.88 s"), "{}", one.sentence);
    assert!(one.is_slower() && !one.is_unnoticed());
    // With the next fault before that.
    fault(&mut run, KILL, 6_000, Some(6_100));
    let sentence = &view(&run).faults[0].sentence;
    assert!(sentence.ends_with("throughput not back when the next fault began after 1.00 s"), "{sentence}");
}

#[test]
fn a_fault_before_which_throughput_is_not_known_is_not_said_to_be_unnoticed() {
    let mut run = ticked(20, |tick| if tick < 300 { (10, 0) } else { (1, 0) });
    run.trials[0].phases[0].slices[..5].iter_mut().for_each(|slice| slice.warmup = true);
    fault(&mut run, (FaultKind::Link, "node 1", "link node 1 rate=20Mbit at 3s"), 3_000, None);
    let one = only(&run);
    assert_eq!((one.noticed_s, one.outage_s, one.recovered_s, one.recovered_open), (None, Some(0.0), None, false));
    assert!(!one.is_unnoticed() && !one.is_slower());
    let words = "link fault of node 1 at 103.00 s: no operation failed, change of throughput not known";
    assert_eq!(one.sentence, words);
}

#[test]
fn an_outage_without_an_end_is_longer_than_it_was_observed() {
    let mut run = without_end();
    let one = only(&run);
    near(one.outage_s, 12.0);
    assert_eq!((one.outage_open, one.recovered_s, one.recovered_open), (true, None, true));
    assert!(
        one.sentence
            .ends_with("no answer for more than 12.0 s, noticed within 10 ms, throughput not back within 11.0 s"),
        "{}",
        one.sentence
    );
    assert_eq!(view(&run).verdict.state, VerdictState::Measured, "the fault was in effect to the end");

    // Answers after the planned end are an end of the outage, but no throughput.
    run.trials[0].phases[0].slices[19].ticks[50].answered = 8;
    let one = only(&run);
    near(one.outage_s, 11.5);
    assert_eq!((one.outage_open, one.recovered_open), (false, true));
}

#[test]
fn a_late_answer_in_the_drain_is_no_outage() {
    let mut run = ticked(20, |tick| if (1_899..1_950).contains(&tick) { (0, 0) } else { (10, 0) });
    run.trials[0].phases[0].slices[19].drain = true;
    fault(&mut run, PAUSE, 5_000, Some(8_000));
    assert_eq!(only(&run).outage_s, Some(0.0));
}

#[test]
fn each_of_two_faults_has_its_own_effects() {
    let mut run = ticked(20, |tick| match tick {
        500..700 => (0, 0),
        1_203..1_303 => (0, 1),
        _ => (10, 0),
    });
    fault(&mut run, PAUSE, 5_000, Some(7_000));
    fault(&mut run, KILL, 12_000, Some(13_000));
    let faults = view(&run).faults;
    let outages: Vec<_> = faults.iter().map(|one| (one.outage_at_s.unwrap(), one.unknown)).collect();
    assert_eq!(outages, [(105.0, 0), (112.03, 100)]);
    near(faults[0].outage_s, 2.0);
    near(faults[1].outage_s, 1.0);
    near(faults[1].noticed_s, 0.03);
    near(faults[1].recovered_s, 1.03);
    near(Some(faults[0].observed_s), 15.0);
    // Faults of one time share what follows.
    run.trials[0].faults[1].planned_ns = run.trials[0].faults[0].planned_ns;
    run.trials[0].faults[1].begun_ns = run.trials[0].faults[0].begun_ns + 2_000_000;
    let faults = view(&run).faults;
    near(faults[0].outage_s, 2.0);
    near(faults[1].outage_s, 2.0);
}

#[test]
fn effects_in_the_tick_in_which_the_next_fault_began_are_of_that_one() {
    let mut run = ticked(20, |tick| match tick {
        0..500 => (10, 0),
        500..550 | 901..935 => (0, 0),
        900 => (0, 4),
        _ => (8, 0),
    });
    fault(&mut run, PAUSE, 5_003, Some(5_500));
    fault(&mut run, KILL, 9_003, Some(9_300));
    let faults = view(&run).faults;
    assert_eq!(faults.iter().map(|one| one.unknown).collect::<Vec<_>>(), [0, 4]);
    let words =
        "no answer for 500 ms, noticed within 10 ms, throughput not back when the next fault began after 4.00 s";
    assert!(faults[0].sentence.ends_with(words), "{}", faults[0].sentence);
    let words = "throughput not back within 11.0 s; 4 outcomes unknown";
    assert!(faults[1].sentence.ends_with(words), "{}", faults[1].sentence);
    // A fault that lasts, and has no effect before the next one.
    let mut run = ticked(20, |tick| if (899..935).contains(&tick) { (0, 0) } else { (10, 0) });
    fault(&mut run, PAUSE, 5_003, None);
    fault(&mut run, KILL, 9_003, Some(9_300));
    let faults = view(&run).faults;
    assert_eq!((faults[0].noticed_s, faults[0].outage_s, faults[0].recovered_s), (None, Some(0.0), Some(0.0)));
    assert!(faults[0].is_unnoticed(), "{}", faults[0].sentence);
    near(faults[1].outage_s, 0.36);
    near(faults[1].noticed_s, 0.0);
    // Two that began in one tick share what follows.
    run.trials[0].faults[0].begun_ns = at_ns(9_001);
    let outages: Vec<_> = view(&run).faults.iter().map(|one| one.outage_s).collect();
    assert_eq!(outages[0], outages[1]);
}

#[test]
fn in_an_open_loop_throughput_is_back_at_the_scheduled_rate() {
    let mut run = ticked(20, |tick| match tick {
        0..800 => (10, 0),
        800..900 => (0, 0),
        _ => (8, 0),
    });
    open_loop(&mut run);
    fault(&mut run, KILL, 8_000, Some(9_000));
    assert_eq!((only(&run).recovered_s, only(&run).recovered_open), (None, true), "8 of 10 answers");
    run.trials[0].phases[0].header.rate_per_s = Some(800.0);
    near(only(&run).recovered_s, 1.0);
    // A load that changes has no usual throughput.
    run.trials[0].phases[0].header.stages = vec![Stage::held(800.0, 20 * SECOND_NS)];
    assert_eq!((only(&run).recovered_s, only(&run).recovered_open), (None, false));
}

#[test]
fn silences_that_are_usual_in_a_slow_store_are_no_outage() {
    let slow = |tick: u64| u32::from(tick.is_multiple_of(20));
    let mut run = ticked(20, |tick| (slow(tick), 0));
    fault(&mut run, PAUSE, 8_050, Some(10_000));
    let one = only(&run);
    assert_eq!((one.outage_s, one.noticed_s, one.recovered_s), (Some(0.0), None, Some(0.0)), "{one:?}");
    let mut run = ticked(20, |tick| (if (801..880).contains(&tick) { 0 } else { slow(tick) }, 0));
    fault(&mut run, PAUSE, 8_050, Some(8_700));
    let one = only(&run);
    near(one.outage_s, 0.79);
    assert_eq!(one.outage_at_s.map(|at_s| (at_s * 100.0).round()), Some(10_801.0), "the silence had begun before");
}

#[test]
fn failures_that_are_usual_are_not_taken_for_the_fault() {
    let mut run = ticked(20, |tick| (10, u32::from(tick.is_multiple_of(7))));
    fault(&mut run, PAUSE, 5_000, Some(8_000));
    assert_eq!(only(&run).noticed_s, None);
    run.trials[0].phases[0].slices[6].ticks[50].failed = 3;
    near(only(&run).noticed_s, 1.5);
    // After it was healed and had no effect, failures are not of this fault.
    run.trials[0].faults[0].healed_ns = Some(at_ns(6_000));
    assert_eq!(only(&run).noticed_s, None);
}

#[test]
fn a_phase_without_ticks_has_no_effects_but_failed_operations() {
    let mut run = killed_primary();
    run.trials[0].phases[0].slices.iter_mut().for_each(|slice| slice.ticks.clear());
    let one = only(&run);
    assert_eq!((one.noticed_s, one.outage_s, one.outage_at_s, one.recovered_s), (None, None, None, None));
    assert_eq!((one.unknown, one.recovered_open), (8, false));
    assert!(one.sentence.ends_with(": its effect on clients was not counted; 8 outcomes unknown"), "{}", one.sentence);
}

#[test]
fn a_fault_that_did_not_take_effect_says_so_and_decides_nothing() {
    let mut run = killed_primary();
    (run.trials[0].faults[0].taken_ns, run.trials[0].faults[0].error) = (None, Some("no such process".to_owned()));
    let found = view(&run);
    assert_eq!(found.faults[0].sentence, "kill of node 1, the primary, at 108.00 s failed: no such process");
    assert_eq!(found.verdict.state, VerdictState::Undecided);
    let sentence = &found.verdict.sentence;
    assert_eq!(sentence, "In phase mixed of fjall: `kill primary at 40%` failed: no such process.");
    // The phase may say so itself.
    run.trials[0].phases[0].end.remarks.push((About::NotDone, "the fault was not done".to_owned()));
    assert_eq!(view(&run).verdict.reasons, ["In phase mixed of fjall: the fault was not done."]);
}

#[test]
fn repeats_of_a_fault_are_told_together_with_an_interval_from_six_on() {
    let mut run = killed_primary();
    let first = run.trials[0].clone();
    for repeat in 1..7u32 {
        let mut trial = first.clone();
        trial.header.ordinal = repeat;
        trial.header.labels.insert("repeat".into(), repeat.to_string());
        for tick in trial.phases[0].slices[9].ticks.iter_mut().take(37 + repeat as usize) {
            tick.answered = 0;
        }
        trial.faults[0].trial = repeat;
        run.trials.push(trial);
    }
    let repeats = view(&run).fault_repeats;
    let [one] = repeats.as_slice() else { panic!("one fault: {repeats:?}") };
    let outage = one.outage.as_ref().unwrap();
    assert_eq!((one.n, outage.n, outage.open), (7, 7, 0));
    near(outage.least_s, 1.37);
    near(outage.median_s, 1.4);
    near(outage.most_s, 1.43);
    let times = "1.37 s to 1.43 s, median 1.40 s (95 % interval 1.37 s to 1.43 s)";
    let place = "kill primary at 40%, 7 times in fjall, phase mixed";
    let noticed = "20.0 ms to 20.0 ms, median 20.0 ms (95 % interval 20.0 ms to 20.0 ms)";
    let effects = format!("no answer for {times}; noticed after {noticed}; throughput back after {times}");
    assert_eq!(one.sentence, format!("{place}: {effects}"));
    run.trials.truncate(5);
    assert_eq!(view(&run).fault_repeats[0].outage.as_ref().unwrap().interval_s, None);
    assert!(view(&killed_primary()).fault_repeats.is_empty(), "of one there is no spread");
}

#[test]
fn repeats_of_a_fault_without_an_end_are_longer_than_they_were_observed() {
    let mut run = without_end();
    fault(&mut run, KILL, 14_000, None);
    let repeats = view(&run).fault_repeats;
    let [one] = repeats.as_slice() else { panic!("one fault: {repeats:?}") };
    let outage = one.outage.as_ref().unwrap();
    assert_eq!(
        (outage.open, outage.most_s, outage.words(number::seconds)),
        (2, None, ["> 6.00 s", "> 9.00 s", "> 12.0 s"].map(str::to_owned))
    );
    // The second fault began before throughput was back.
    assert_eq!(one.recovered.as_ref().and_then(|recovered| recovered.above_s.most), Some(6.0));
}

#[test]
fn silences_and_failures_long_after_a_healing_are_not_of_the_fault() {
    let mut run = ticked(30, |tick| if (1_840..1_852).contains(&tick) { (0, 0) } else { (10, 0) });
    fault(&mut run, (FaultKind::Clock, "node 2", "clock node 2 by=-5s at 0s for 5s"), 2_000, Some(7_140));
    let one = only(&run);
    assert_eq!((one.noticed_s, one.outage_s, one.recovered_s), (None, Some(0.0), Some(0.0)), "{one:?}");
    // A silence that begins within a second of it is its own.
    run.trials[0].faults[0].healed_ns = Some(at_ns(18_000));
    near(only(&run).outage_s, 0.12);
}

#[test]
fn faults_stand_among_the_actions_of_a_lab_in_time_order() {
    let mut run = killed_primary();
    act(&mut run, "lab pause a 2", 7_500, 7_510);
    act(&mut run, "lab resume a 2", 12_000, 12_010);
    let acts: Vec<String> = view(&run).plots.acts.into_iter().map(|act| act.name).collect();
    assert_eq!(acts, ["lab pause a 2", "kill of node 1, the primary", "lab resume a 2"]);
    run.trials[0].faults[0].healed_ns = None;
    assert_eq!(view(&run).plots.acts[1].end_s, 120.0, "the end of its phase");
}

#[test]
fn operations_that_fail_after_a_reset_are_its_effect() {
    let mut run = ticked(20, |tick| match tick {
        501 => (0, 4),
        1_201 => (6, 4),
        _ => (10, 0),
    });
    fault(&mut run, (FaultKind::Reset, "node 2", "reset node 2 at 5s"), 5_000, Some(5_005));
    let view = view(&run);
    let found = &view.faults[0];
    assert_eq!((found.unknown, found.noticed_s), (4, Some(0.01)), "{found:?}");
}

#[test]
fn a_hang_without_a_failure_is_not_said_to_be_unnoticed() {
    let mut run = ticked(20, |tick| if (500..700).contains(&tick) { (8, 0) } else { (10, 0) });
    fault(&mut run, (FaultKind::Hang, "node 2", "hang node 2 at 5s for 2s"), 5_000, Some(7_000));
    let view = view(&run);
    let sentence = &view.faults[0].sentence;
    assert!(sentence.contains("no operation failed") && !sentence.contains("noticed"), "{sentence}");
}

#[test]
fn planned_work_and_links_of_one_direction_or_some_hosts_have_names_of_their_own() {
    for (kind, subject, words, name) in [
        (FaultKind::Work, "node 1, the primary", "work vacuum primary at 3s", "work vacuum of node 1, the primary"),
        (FaultKind::Hang, "node 2", "hang node 2 at 3s", "hang of node 2"),
        (FaultKind::Reset, "node 2", "reset node 2 at 3s", "reset of connections to node 2"),
        (FaultKind::Cut, "node 2", "cut node 2 at 3s", "cut of node 2"),
        (FaultKind::Cut, "node 2", "cut node 2 in at 3s for 1s", "cut of traffic to node 2"),
        (FaultKind::Cut, "node 2", "cut node 2 out at 3s", "cut of traffic from node 2"),
        (FaultKind::Cut, "node 2", "cut node 2 from clients at 3s for 1s", "cut from clients of node 2"),
        (
            FaultKind::Cut,
            "node 1, the primary",
            "cut primary from client host 2 at 3s",
            "cut from client host 2 of node 1, the primary",
        ),
        (FaultKind::Cut, "all nodes", "cut all from node 3 at 3s for 1s", "cut between all nodes and node 3"),
        (
            FaultKind::Cut,
            "node 1, the primary",
            "cut primary from node 3 at 3s",
            "cut between node 1, the primary, and node 3",
        ),
        (
            FaultKind::Cut,
            "node 1, the primary",
            "cut primary in from node 3 at 3s",
            "cut of traffic from node 3 to node 1, the primary",
        ),
        (
            FaultKind::Cut,
            "node 1, the primary",
            "cut primary out to clients at 3s for 1s",
            "cut of traffic from node 1, the primary, to clients",
        ),
        (FaultKind::Cut, "node 2", "link node 2 from clients loss=100% at 3s", "cut from clients of node 2"),
        (FaultKind::Link, "node 2", "link node 2 delay=5ms at 3s for 1s", "link fault of node 2"),
        (
            FaultKind::Link,
            "all nodes",
            "link all from client host 2 delay=5ms loss=1% at 3s",
            "link fault between all nodes and client host 2",
        ),
        (
            FaultKind::Link,
            "node 1, the primary",
            "link primary from node 3 rate=5Mbit at 3s for 1s",
            "link fault between node 1, the primary, and node 3",
        ),
        (FaultKind::Clock, "node 2", "clock node 2 by=-5s at 3s for 1s", "wrong clock of node 2"),
        (FaultKind::Storm, "all nodes", "storm all connections=50 at 3s for 1s", "connection storm on all nodes"),
        (FaultKind::Neighbour, "node 2", "neighbour node 2 cpu=2 at 3s", "noisy neighbour (cpu=2) beside node 2"),
        (FaultKind::Replacement, "node 2", "replace node 2 at 3s", "replacement of node 2"),
        (FaultKind::Command, "\"stop at 3\"", "run \"stop at 3\" heal \"start\" at 3s", "command \"stop at 3\""),
    ] {
        let mut run = ticked(20, |_| (10, 0));
        fault(&mut run, (kind, subject, words), 3_000, Some(4_000));
        assert_eq!(view(&run).faults[0].name, name);
        // The words of the plan are no part of the name.
        run.trials[0].faults[0].fault = "as planned".to_owned();
        assert_eq!(view(&run).faults[0].name, name);
    }
}

#[test]
fn a_time_as_long_as_the_time_out_of_operations_is_marked_if_outcomes_are_unknown() {
    // Clients wait for two seconds, and have answers 20 ms later.
    let run = |failed: u32, timeout_ns: u64| {
        let mut run = ticked(20, |tick| match tick {
            1_000 => (0, failed),
            800..1_002 => (0, 0),
            _ => (10, 0),
        });
        fault(&mut run, PAUSE, 8_000, Some(9_000));
        run.trials[0].phases[0].header.op_timeout_ns = Some(timeout_ns);
        only(&run)
    };
    let one = run(4, 2 * SECOND_NS);
    assert!(one.outage_is_timeout, "{one:?}");
    let words = "no answer for 2.02 s (as long as the time-out of operations)";
    assert!(one.sentence.contains(words), "{}", one.sentence);
    assert!(!run(0, 2 * SECOND_NS).outage_is_timeout, "no outcome is unknown");
    assert!(!run(4, SECOND_NS).outage_is_timeout);
}
