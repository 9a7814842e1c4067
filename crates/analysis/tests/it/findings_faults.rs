//! Findings about slow moments that faults, commands or pauses of the machine explain.

use plimsoll_analysis::view;
use plimsoll_analysis::view::FindingView;
use plimsoll_core::{Pause, SliceHistogram};
use plimsoll_record::data::{FaultKind, Run};

use crate::driven::{driven, sampled};
use crate::faulted;
use crate::findings::{SECONDS, SLOW, only, stalled, values};
use crate::stall::act;
use crate::study::{served, times};

fn of_rule(run: &Run, rule: &str) -> Vec<FindingView> {
    let findings = view(run).findings.into_iter();
    findings.filter(|finding| finding.rule == rule).collect()
}

#[test]
fn faults_and_commands_come_first_and_take_their_moments_out_of_the_search() {
    let mut run = stalled(SECONDS, &SLOW);
    act(&mut run, "lab pause a 1", 16_900, 17_900);
    sampled(&mut run, "disk", "vda", "busy", "%", &values(SECONDS, 12.0, 97.0, &SLOW[1..]));
    let findings = view(&run).findings;
    let [first, second] = findings.as_slice() else { panic!("{findings:?}") };
    assert_eq!((first.rule, second.rule), ("fault", "cause"));
    assert_eq!(
        first.sentence,
        "fjall, phase mixed: 1 of 4 slow moments lies in the effect of lab pause a 1 at 116.90 s; it holds 25.0 % of \
         the slow time."
    );
    assert!(second.sentence.contains("3 of 4 slow moments begin"), "{}", second.sentence);

    let mut killed = faulted::killed_primary();
    killed.header.command_line = ["plimsoll", "drive", "kv", "--fault", "kill primary at 40%", "--seed=1", "-c", "8"]
        .map(str::to_owned)
        .to_vec();
    assert_eq!(killed.trials[0].faults[0].kind, FaultKind::Kill);
    let finding = only(&killed, "fault");
    assert!(finding.sentence.contains("kill of node 1, the primary"), "{}", finding.sentence);
    // Without its fault the run has another cause, or none.
    let compared = "plimsoll ab kv -c 8 --a 'fault=kill primary at 40%' --metric rate --turn 20s --budget 640s";
    assert_eq!(finding.command, compared);
    let without = "Repeat the run without them: what stays slow has another cause.";
    assert!(finding.next.starts_with(without), "{}", finding.next);
    // No option takes the faults out of a plan.
    killed.header.command_line = ["plimsoll", "run", "mine.toml"].map(str::to_owned).to_vec();
    let finding = only(&killed, "fault");
    let of_plan = "Repeat the run without them, from a copy of the plan without `fault` in phase mixed: what stays slow \
                   has another cause.";
    assert_eq!((finding.next.as_str(), finding.command.as_str()), (of_plan, ""));
    // Commands for a lab are in no plan.
    run.header.command_line = killed.header.command_line;
    let finding = &of_rule(&run, "fault")[0];
    assert_eq!((finding.next.as_str(), finding.command.as_str()), (without, "plimsoll run mine.toml --seed 2"));
}

#[test]
fn what_pauses_of_the_machine_made_slow_is_said_to_be() {
    let mut run = crate::study::paused(driven(&[2_000; 30]));
    for (at, slice) in run.trials[0].phases[0].slices.iter_mut().enumerate() {
        // In most seconds nothing paused.
        if at != 11 {
            slice.histograms = vec![served(1, times([(1_000_000, 2_000)]))];
            let watched = slice.watched.as_mut().unwrap();
            watched.disturbed.clear();
            watched.pauses.clear();
            watched.disturbed_ns = 0;
        }
    }
    let findings = of_rule(&run, "pause");
    let [finding] = findings.as_slice() else { panic!("{:?}", view(&run).findings) };
    assert!(
        finding.sentence.ends_with("the only slow moment, at 111.0 s, is slow by pauses of the machine alone."),
        "{}",
        finding.sentence
    );
}

/// Sixty seconds of 2,000 operations, and one in which `slow` of them took 80 ms, all disturbed, by pauses of `ms` one
/// after the other.
fn paused_once(slow: u64, pauses: u64, ms: u64) -> Run {
    let mut run = crate::study::paused(driven(&[2_000; 60]));
    for (at, slice) in run.trials[0].phases[0].slices.iter_mut().enumerate() {
        let watched = slice.watched.as_mut().unwrap();
        watched.pauses.clear();
        watched.disturbed_ns = 0;
        let disturbed = watched.disturbed.remove(0);
        watched.disturbed.clear();
        slice.histograms = vec![served(1, times([(1_000_000, 2_000)]))];
        if at == 30 {
            let slowly = times([(80_000_000, slow)]);
            slice.histograms = vec![served(1, times([(1_000_000, 2_000 - slow), (80_000_000, slow)]))];
            watched.disturbed = vec![SliceHistogram { histogram: slowly, ..disturbed }];
            let start_ns = |pause: u64| slice.start_ns + pause * 10 * ms * 1_000_000;
            let pause = |at: u64| Pause { start_ns: start_ns(at), end_ns: start_ns(at) + ms * 1_000_000, cpu: 0 };
            watched.pauses = (0..pauses).map(pause).collect();
        }
    }
    run
}

#[test]
fn pauses_that_are_shorter_than_the_delay_are_not_its_cause() {
    // A pause of 20 ms and its aftermath last 100 ms, those of one of 2 ms only 12 ms.
    let long = only(&paused_once(100, 1, 20), "pause");
    assert!(long.sentence.ends_with("is slow by pauses of the machine alone."), "{}", long.sentence);
    let mut run = paused_once(100, 3, 2);
    assert!(of_rule(&run, "pause").is_empty());
    sampled(&mut run, "disk", "vda", "read", "B/s", &values(60, 1e5, 1.3e8, &[30]));
    let [finding] = view(&run).findings.try_into().unwrap();
    assert_eq!(finding.rule, "cause");
    assert!(finding.sentence.contains("vda"), "{}", finding.sentence);
}

#[test]
fn a_moment_of_which_pauses_disturbed_most_operations_is_never_explained_by_nothing() {
    let mut run = paused_once(1_400, 3, 2);
    sampled(&mut run, "disk", "vda", "busy", "%", &values(60, 12.0, 11.0, &[3, 7]));
    let finding = only(&run, "pause");
    let words = "the only slow moment, at 130.0 s, lies in pauses of the machine, which disturbed 70.0 % of its \
                 operations and explain the delay only in part.";
    assert!(finding.sentence.ends_with(words), "{}", finding.sentence);
}

/// Twenty seconds with an outage at 8 s, of which nearly half of the others are slow.
fn mostly_slow() -> Run {
    faulted::ticked(20, |tick| match tick {
        800..900 => (0, 0),
        tick if [1, 3, 5, 7, 11, 13, 15, 17].contains(&(tick / 100)) => (1, 0),
        _ => (10, 0),
    })
}

#[test]
fn the_outage_by_a_fault_counts_in_a_phase_that_is_mostly_slow() {
    let mut run = mostly_slow();
    faulted::fault(&mut run, faulted::PAUSE, 8_000, Some(9_000));
    let finding = only(&run, "fault");
    let words = "fjall, phase mixed: the outage at 108.0 s lies in the effect of pause of node 2 at 108.00 s.";
    assert_eq!(finding.sentence, words);
    assert_eq!(finding.spans_s, [(108.0, 109.0)]);
}

#[test]
fn a_slow_moment_lies_in_the_effect_of_the_fault_with_which_it_begins() {
    let mut run = faulted::ticked(20, |tick| match tick / 100 {
        0..5 => (10, 0),
        5 | 12 => (1, 0),
        // Throughput is not back after the first fault.
        _ => (9, 0),
    });
    faulted::fault(&mut run, faulted::PAUSE, 5_000, Some(6_000));
    faulted::fault(&mut run, (FaultKind::Hang, "node 1", "hang node 1 at 60% for 1s"), 12_020, Some(13_000));
    let [finding] = of_rule(&run, "fault").try_into().unwrap();
    let words = "2 of 2 slow moments lie in the effect of pause of node 2 at 105.00 s and hang of node 1 at 112.02 s.";
    assert!(finding.sentence.ends_with(words), "{}", finding.sentence);
    // The action late in the slice before, not the one that follows it.
    run.trials[0].faults.clear();
    act(&mut run, "lab pause a 1", 11_800, 11_810);
    act(&mut run, "lab resume a 1", 12_900, 12_910);
    let [finding] = of_rule(&run, "fault").try_into().unwrap();
    assert!(finding.sentence.contains("lies in the effect of lab pause a 1 at 111.80 s"), "{}", finding.sentence);
}

#[test]
fn a_fault_that_begins_in_an_outage_is_not_its_cause() {
    let silent = || faulted::ticked(20, |tick| if (560..900).contains(&tick) { (0, 0) } else { (10, 0) });
    for (at_ms, is_cause) in [(5_590, true), (5_950, false), (6_450, false), (7_500, false)] {
        let mut run = silent();
        faulted::fault(&mut run, faulted::PAUSE, at_ms, Some(at_ms + 1_000));
        assert_eq!(of_rule(&run, "fault").len(), usize::from(is_cause), "{at_ms}");
        // Of commands for a lab, too.
        let mut run = silent();
        act(&mut run, "lab pause a 1", at_ms, at_ms + 10);
        assert_eq!(of_rule(&run, "fault").len(), usize::from(is_cause), "{at_ms}");
    }
}

#[test]
fn a_fault_that_begins_later_in_the_same_slow_moment_is_named_as_well() {
    let mut run = faulted::ticked(20, |tick| if (5..12).contains(&(tick / 100)) { (1, 0) } else { (10, 0) });
    faulted::fault(&mut run, faulted::PAUSE, 5_000, Some(6_000));
    faulted::fault(&mut run, (FaultKind::Hang, "node 1", "hang node 1 at 45% for 1s"), 9_020, Some(10_000));
    // Throughput is back after the second in which this one begins.
    faulted::fault(&mut run, (FaultKind::Hang, "node 3", "hang node 3 at 57% for 200ms"), 11_500, Some(11_700));
    let [finding] = of_rule(&run, "fault").try_into().unwrap();
    let words = "fjall, phase mixed: the only slow moment, at 105.0 s, lies in the effect of pause of node 2 at 105.00 s and \
                 hang of node 1 at 109.02 s.";
    assert_eq!(finding.sentence, words);
}

/// A killed primary in three repeats.
fn repeated() -> Run {
    let mut run = faulted::killed_primary();
    for repeat in 1..3_u32 {
        let mut trial = run.trials[0].clone();
        (trial.header.ordinal, trial.faults[0].trial) = (repeat, repeat);
        run.trials.push(trial);
    }
    for (repeat, trial) in (1..).zip(&mut run.trials) {
        trial.header.labels.insert("repeat".to_owned(), format!("{repeat}"));
    }
    run
}

#[test]
fn moments_in_the_effects_of_the_plans_faults_are_one_finding_over_all_phases() {
    let mut run = repeated();
    let finding = only(&run, "fault");
    let all = "In 3 of 3 driven phases all 3 slow moments lie in the effects of the faults that the plan has.";
    assert_eq!((finding.sentence.as_str(), finding.place.as_str(), finding.version), (all, "", 6));
    assert_eq!((finding.spans_s.len(), finding.moments, finding.slow_percent), (3, 3, 100.0));
    let of_plan = "from a copy of the plan without `fault` in phase mixed: what stays slow has another cause.";
    assert!(finding.next.ends_with(of_plan) && !finding.opposite.is_empty(), "{finding:?}");
    let [phase] = finding.phases.as_slice() else { panic!("{:?}", finding.phases) };
    let names = (phase.trial.as_str(), phase.phase.as_str());
    assert_eq!((names, phase.explained, phase.moments), (("fjall", "mixed"), 3, 3));

    // A moment long after the fault stands out.
    run.trials[2].phases[0].slices[15].histograms = vec![served(1, times([(1_000_000, 50)]))];
    let [finding] = of_rule(&run, "fault").try_into().unwrap();
    let not_all = "In 2 of 3 driven phases all 2 slow moments lie in the effects of the faults that the plan has; 1 of 2 \
                   slow moments in 1 further phase does not: fjall · repeat=3, phase mixed.";
    assert_eq!(finding.sentence, not_all);
    assert_eq!((finding.phases[0].explained, finding.phases[0].moments), (3, 4));

    // Commands for servers are in no plan.
    act(&mut run, "lab pause a 1", 16_900, 17_900);
    let [together, own] = of_rule(&run, "fault").try_into().unwrap();
    assert!(
        together.sentence.starts_with("In 1 of 3 driven phases the only slow moment lies"),
        "{}",
        together.sentence
    );
    assert_eq!((own.place.as_str(), own.phases.len()), ("fjall · repeat=1, phase mixed", 0));
}

#[test]
fn a_phase_that_is_mostly_slow_is_not_one_whose_slow_moments_all_lie_in_the_effects_of_faults() {
    let mut run = repeated();
    run.trials[2].phases[0].slices = mostly_slow().trials.remove(0).phases.remove(0).slices;
    let [together, own] = of_rule(&run, "fault").try_into().unwrap();
    let two = "In 2 of 3 driven phases all 2 slow moments lie";
    assert!(together.sentence.starts_with(two), "{}", together.sentence);
    let outage =
        "fjall · repeat=3, phase mixed: the outage at 108.0 s lies in the effect of kill of node 1, the primary,";
    assert!(own.sentence.starts_with(outage), "{}", own.sentence);
}

/// Seconds that are slow, each with a rise of a disk; from 108 s on seven of them, of which the first has one.
fn begun_by_a_disk() -> Run {
    let begun = [17, 35, 71, 100, 108];
    let is_slow = |second: u64| begun.contains(&(second as usize)) || (108..115).contains(&second);
    let mut run = faulted::ticked(SECONDS as u64, |tick| if is_slow(tick / 100) { (1, 0) } else { (10, 0) });
    sampled(&mut run, "disk", "vda", "busy", "%", &values(SECONDS, 12.0, 97.0, &begun));
    run
}

#[test]
fn a_fault_in_a_slow_moment_that_began_before_it_has_its_own_part() {
    let mut run = begun_by_a_disk();
    faulted::fault(&mut run, (FaultKind::Hang, "node 1", "hang node 1 at 111s for 1s"), 111_020, Some(112_000));
    let [fault] = of_rule(&run, "fault").try_into().unwrap();
    let words = "1 of 6 slow moments lies in the effect of hang of node 1 at 211.02 s";
    assert!(fault.sentence.contains(words), "{}", fault.sentence);
    assert_eq!(fault.spans_s, [(211.0, 215.0)]);
    let [cause] = of_rule(&run, "cause").try_into().unwrap();
    assert!(cause.sentence.contains("5 of 6 slow moments begin"), "{}", cause.sentence);
    assert_eq!(cause.spans_s[4], (208.0, 211.0));

    // In its last second an action makes nothing slow that was not.
    let mut run = begun_by_a_disk();
    act(&mut run, "lab kill a 1", 114_200, 114_300);
    assert!(of_rule(&run, "fault").is_empty());
    let [cause] = of_rule(&run, "cause").try_into().unwrap();
    assert!(cause.sentence.contains("5 of 5 slow moments begin"), "{}", cause.sentence);
}

#[test]
fn a_pause_of_the_machine_at_the_end_of_a_slow_moment_has_its_own_part() {
    let mut run = paused_once(100, 1, 20);
    for slice in &mut run.trials[0].phases[0].slices[28..30] {
        slice.histograms = vec![served(1, times([(1_000_000, 1_800), (80_000_000, 200)]))];
    }
    let is_paused = |run: &Run| {
        let [finding] = of_rule(run, "pause").try_into().unwrap();
        let words = "1 of 2 slow moments is slow by pauses of the machine alone";
        assert!(finding.sentence.contains(words), "{}", finding.sentence);
        assert_eq!(finding.spans_s, [(130.0, 131.0)]);
    };
    is_paused(&run);
    // Also while the effect of an action goes on.
    act(&mut run, "lab pause a 1", 27_900, 29_900);
    is_paused(&run);
    let [finding] = of_rule(&run, "fault").try_into().unwrap();
    assert_eq!(finding.spans_s, [(128.0, 130.0)]);
}
