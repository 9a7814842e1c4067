//! Findings: causes of slow moments, as reports have them.

use plimsoll_analysis::view;
use plimsoll_analysis::view::FindingView;
use plimsoll_core::sampler::STORE;
use plimsoll_core::{Outcome, SliceHistogram};
use plimsoll_record::data::{Purpose, Run, SeriesKind};

use crate::driven::{START_S, driven, sampled};
use crate::study::{served, times};

/// Seconds of a run.
pub const SECONDS: usize = 120;
/// Seconds in which it is slow, at unequal distances.
pub const SLOW: [usize; 4] = [17, 35, 71, 100];

/// A thousand operations a second, and fifty in these seconds.
pub fn stalled(seconds: usize, at: &[usize]) -> Run {
    let rates: Vec<u64> = (0..seconds).map(|second| if at.contains(&second) { 50 } else { 1_000 }).collect();
    driven(&rates)
}

/// A value for each second, and another one in these.
pub fn values(seconds: usize, usual: f64, other: f64, at: &[usize]) -> Vec<f64> {
    (0..seconds).map(|second| if at.contains(&second) { other } else { usual }).collect()
}

#[track_caller]
pub fn only(run: &Run, rule: &str) -> FindingView {
    let findings = view(run).findings;
    let [finding] = findings.as_slice() else { panic!("one finding: {findings:?}") };
    assert_eq!(finding.rule, rule, "{finding:?}");
    finding.clone()
}

#[test]
fn a_series_that_is_high_when_slow_moments_begin_is_their_cause() {
    let mut run = stalled(SECONDS, &SLOW);
    sampled(&mut run, "disk", "vda", "busy", "%", &values(SECONDS, 12.0, 97.0, &SLOW));
    sampled(&mut run, "memory", "", "dirty", "B", &values(SECONDS, 1e7, 1.1e7, &SLOW));
    sampled(&mut run, "server", "", "user", "%", &values(SECONDS, 80.0, 9.0, &SLOW));
    let finding = only(&run, "cause");
    let words = "fjall, phase mixed: 4 of 4 slow moments begin within 1.00 s of a rise of disk vda to 97.0 % (usually \
                 12.0 %), q = 0.00";
    assert!(finding.sentence.starts_with(words) && finding.sentence.ends_with('.'), "{}", finding.sentence);
    let starts: Vec<f64> = SLOW.iter().map(|second| START_S as f64 + *second as f64).collect();
    assert_eq!(finding.spans_s.iter().map(|(start, _)| *start).collect::<Vec<f64>>(), starts);
    assert_eq!((finding.moments, finding.slow_percent, finding.version), (4, 100.0, 4));
    // A small rise and a fall are no causes.
    let [evidence] = finding.evidence.as_slice() else { panic!("{:?}", finding.evidence) };
    assert_eq!((evidence.series.as_str(), evidence.usual, evidence.seen), ("disk vda", 12.0, 97.0));
    assert_eq!((evidence.explained, evidence.lead_s), (4, 0.0));
    assert!(finding.opposite.contains("about 0.400 of 4 would begin so near to it by chance"), "{}", finding.opposite);
    assert_eq!(finding.command, "plimsoll run coupons --seed 2");
    let chart = finding.chart.unwrap();
    assert_eq!((chart.name.as_str(), chart.x.len(), chart.points.as_slice()), ("Disk vda", SECONDS, &[1][..]));
    assert_eq!(chart.lines[1].values.iter().flatten().count(), 4);
}

#[test]
fn peaks_of_latency_are_slow_moments_as_well() {
    let mut run = driven(&[2_000; SECONDS]);
    for second in SLOW {
        let slice = &mut run.trials[0].phases[0].slices[second];
        slice.histograms = vec![served(1, times([(1_000_000, 1_900), (80_000_000, 100)]))];
    }
    sampled(&mut run, "cpu", "", "user", "%", &values(SECONDS, 8.0, 52.0, &SLOW));
    sampled(&mut run, "cpu", "", "system", "%", &values(SECONDS, 4.0, 30.0, &SLOW));
    // Shares of one resource are one series.
    let finding = only(&run, "cause");
    assert!(
        finding.sentence.contains("a rise of the machine's CPU to 82.0 % (usually 12.0 %)"),
        "{}",
        finding.sentence
    );
}

#[test]
fn a_rare_event_that_the_store_timed_is_a_cause() {
    let mut run = stalled(SECONDS, &SLOW);
    sampled(&mut run, STORE, "redis", "longest_fork", "s", &values(SECONDS, 0.0, 0.04, &SLOW));
    let finding = only(&run, "cause");
    assert_eq!(finding.evidence[0].series, "redis: longest fork");
    assert!(finding.sentence.contains("a rise of redis: longest fork to 40.0 ms"), "{}", finding.sentence);
}

#[test]
fn a_cycle_of_the_store_that_ended_a_second_before_is_named_with_its_lead() {
    let before: Vec<usize> = SLOW.iter().map(|second| second - 1).collect();
    let mut run = stalled(SECONDS, &SLOW);
    sampled(&mut run, STORE, "postgres", "checkpoints", "", &values(SECONDS, 0.0, 1.0, &before));
    run.series.last_mut().unwrap().kind = SeriesKind::Cycle;
    let finding = only(&run, "cause");
    let words = "begin within 2.00 s of the end of a checkpoint of postgres, q = ";
    assert!(finding.sentence.contains(words), "{}", finding.sentence);
    assert_eq!(finding.evidence[0].lead_s, 1.0);
    assert!(finding.next.contains("plimsoll ab"), "{}", finding.next);
    assert_eq!(view(&run).plots.cycles[0].name, "checkpoint");

    // One that ends after each slow moment is their effect.
    let after: Vec<usize> = SLOW.iter().map(|second| second + 1).collect();
    let mut run = stalled(SECONDS, &SLOW);
    sampled(&mut run, STORE, "postgres", "checkpoints", "", &values(SECONDS, 0.0, 1.0, &after));
    run.series.last_mut().unwrap().kind = SeriesKind::Cycle;
    only(&run, "unexplained");
}

#[test]
fn the_command_against_cycles_compares_with_the_stores_own_setting_for_rarer_ones() {
    let mut run = stalled(SECONDS, &SLOW);
    sampled(&mut run, STORE, "postgres", "checkpoints", "", &values(SECONDS, 0.0, 1.0, &SLOW));
    run.series.last_mut().unwrap().kind = SeriesKind::Cycle;
    let setting = "postgres.checkpoint_timeout=3600s".to_owned();
    run.trials[0].header.rarer_cycles.insert("checkpoints".to_owned(), setting);
    // A study has no sides.
    let repeated = "plimsoll run coupons --seed 2 --set postgres.checkpoint_timeout=3600s";
    assert_eq!(only(&run, "cause").command, repeated);
    let words = ["plimsoll", "drive", "tpcb", "--on", "postgres", "--rate", "500/s", "--for", "3min", "--seed=7"];
    run.header.command_line = words.map(str::to_owned).to_vec();
    // Every 29 s a checkpoint, in the median.
    let compared = "plimsoll ab tpcb --on postgres --rate 500/s --b postgres.checkpoint_timeout=3600s --metric p99 \
                    --turn 58s --budget 1856s";
    assert_eq!(only(&run, "cause").command, compared);
}

#[test]
fn a_node_of_which_nothing_is_read_in_slow_moments_is_their_cause() {
    let mut run = stalled(SECONDS, &SLOW);
    for node in ["a node 1", "a node 2"] {
        sampled(&mut run, STORE, node, "keys", "", &[7.0; SECONDS]);
    }
    for second in SLOW {
        run.samples[second].values.retain(|(series, _)| *series == 0);
    }
    let finding = only(&run, "cause");
    let words = "a rise of missing readings of a node 2 to 1 (usually 0)";
    assert!(finding.sentence.contains(words), "{}", finding.sentence);
}

/// Lets clients wait for operations at the end of each slice.
fn waited_for(mut run: Run) -> Run {
    run.trials[0].phases[0].slices.iter_mut().for_each(|slice| slice.in_flight = 8);
    run
}

#[test]
fn a_server_that_is_stopped_is_named_before_all_that_follows_from_it() {
    let mut run = waited_for(stalled(SECONDS, &SLOW));
    sampled(&mut run, "tcp", "", "unread", "B", &values(SECONDS, 0.0, 4e5, &SLOW));
    sampled(&mut run, "server", "", "user", "%", &values(SECONDS, 60.0, 0.0, &SLOW));
    sampled(&mut run, "server", "", "system", "%", &values(SECONDS, 10.0, 0.0, &SLOW));
    sampled(&mut run, "server", "", "stopped", "tasks", &values(SECONDS, 0.0, 1.0, &SLOW));
    let finding = only(&run, "cause");
    let words = "4 of 4 slow moments begin within 1.00 s of a rise of the number of stopped processes of the server to 1 \
                 (usually 0), q = ";
    assert!(finding.sentence.contains(words), "{}", finding.sentence);
    assert!(finding.next.contains("a debugger, SIGSTOP, a frozen control group"), "{}", finding.next);
    let named: Vec<&str> = finding.evidence.iter().map(|one| one.series.as_str()).collect();
    assert_eq!(named, ["the number of stopped processes of the server", "tcp: unread"]);
}

#[test]
fn of_several_nodes_the_one_that_is_stopped_is_named() {
    let mut run = waited_for(stalled(SECONDS, &SLOW));
    for (subject, usual, other, stopped) in
        [("", 70.0, 35.0, 1.0), ("node 1", 35.0, 35.0, 0.0), ("node 2", 35.0, 0.0, 1.0)]
    {
        sampled(&mut run, "server", subject, "user", "%", &values(SECONDS, usual, other, &SLOW));
        sampled(&mut run, "server", subject, "stopped", "tasks", &values(SECONDS, 0.0, stopped, &SLOW));
    }
    sampled(&mut run, "network", "node 2 eth0", "sent", "B/s", &values(SECONDS, 5e6, 0.0, &SLOW));
    let finding = only(&run, "cause");
    let named: Vec<&str> = finding.evidence.iter().map(|one| one.series.as_str()).collect();
    assert_eq!(named, ["the number of stopped processes of node 2"]);
}

#[test]
fn a_server_without_work_is_told_as_seen_and_never_as_a_cause() {
    // It stands still amid a second, and goes on amid the next but one, as if its clients had been told to wait.
    let share = |second: usize| match SLOW.iter().find(|first| (**first..**first + 3).contains(&second)) {
        Some(first) => [0.5, 0.0, 0.4][second - first],
        None => 1.0,
    };
    let shares: Vec<f64> = (0..SECONDS).map(share).collect();
    let rates: Vec<u64> = shares.iter().map(|share| (1_000.0 * share).max(1.0) as u64).collect();
    let mut run = driven(&rates);
    let falling = |run: &mut Run, source: &str, subject: &str, name: &str, unit: &str, usual: f64| {
        let used: Vec<f64> = shares.iter().map(|share| usual * share).collect();
        sampled(run, source, subject, name, unit, &used);
    };
    falling(&mut run, "server", "", "user", "%", 70.0);
    falling(&mut run, "server", "", "written", "B/s", 2e6);
    falling(&mut run, "network", "eth0", "sent", "B/s", 5e6);
    falling(&mut run, STORE, "redis", "commands", "1/s", 1e3);
    // What others do not use is free.
    let free: Vec<f64> = shares.iter().map(|share| 4e9 - 3e9 * share).collect();
    sampled(&mut run, "memory", "", "available", "B", &free);
    let seen = "; in all of them the server hardly used a processor: it waited, or its clients sent nothing.";
    // If no operation waits there is no work.
    let finding = only(&run, "unexplained");
    assert!(!finding.sentence.contains("hardly") && !finding.next.contains("SIGSTOP"), "{finding:?}");
    let mut run = waited_for(run);
    let finding = only(&run, "unexplained");
    assert!(finding.sentence.contains("explained by no rise of any watched series"), "{}", finding.sentence);
    assert!(finding.sentence.ends_with(seen) && finding.evidence.is_empty(), "{finding:?}");
    assert!(finding.next.contains("SIGSTOP") && finding.next.contains("clients that were told to wait"), "{finding:?}");
    // It waited for a disk.
    let busy: Vec<f64> = shares.iter().map(|share| if *share < 1.0 { 97.0 } else { 12.0 }).collect();
    sampled(&mut run, "disk", "vda", "busy", "%", &busy);
    let finding = only(&run, "cause");
    let named: Vec<&str> = finding.evidence.iter().map(|one| one.series.as_str()).collect();
    assert_eq!(named, ["disk vda"]);
}

#[test]
fn a_processor_that_is_busy_while_clients_catch_up_is_no_cause() {
    let mut rates = [1_000; SECONDS];
    let mut used = [40.0; SECONDS];
    for first in SLOW {
        rates[first..first + 4].copy_from_slice(&[500, 1, 400, 600]);
        used[first..first + 4].copy_from_slice(&[20.0, 2.0, 95.0, 95.0]);
    }
    // By chance it is busy at the beginning of one moment as well.
    used[SLOW[0]] = 95.0;
    let mut run = driven(&rates);
    sampled(&mut run, "cpu", "", "user", "%", &used);
    only(&run, "unexplained");
}

#[test]
fn a_server_that_does_less_work_in_slow_moments_is_no_cause() {
    let mut run = waited_for(stalled(SECONDS, &SLOW));
    sampled(&mut run, "server", "", "user", "%", &values(SECONDS, 70.0, 9.0, &SLOW));
    sampled(&mut run, "server", "", "stopped", "tasks", &[0.0; SECONDS]);
    only(&run, "unexplained");
    // A server that hardly works uses no processor by chance.
    let mut run = waited_for(stalled(SECONDS, &SLOW));
    sampled(&mut run, "server", "", "user", "%", &values(SECONDS, 1.0, 0.0, &SLOW));
    only(&run, "unexplained");
}

#[test]
fn two_causes_are_named_one_after_the_other_and_the_rest_is_explained_by_nothing() {
    let at = [9, 17, 30, 35, 52, 71, 79, 93, 100];
    let mut run = stalled(SECONDS, &at);
    sampled(&mut run, "disk", "vda", "busy", "%", &values(SECONDS, 12.0, 97.0, &[9, 30, 52, 79]));
    sampled(&mut run, "network", "eth0", "dropped", "1/s", &values(SECONDS, 0.0, 40.0, &[17, 35, 71, 100]));
    let findings = view(&run).findings;
    let rules: Vec<&str> = findings.iter().map(|finding| finding.rule).collect();
    assert_eq!(rules, ["cause", "cause", "unexplained"], "{findings:?}");
    let mut named: Vec<&str> = findings[..2].iter().map(|finding| finding.evidence[0].series.as_str()).collect();
    named.sort_unstable();
    assert_eq!(named, ["disk vda", "eth0: dropped"]);
    assert!(findings[0].sentence.contains("; they hold 44.4 % of the slow time."), "{}", findings[0].sentence);
    assert!(findings[1].sentence.contains(": 4 others of 9 slow moments begin within"), "{}", findings[1].sentence);
    assert_eq!(
        findings[2].sentence,
        "fjall, phase mixed: 1 of 9 slow moments is explained by no rise of any watched series (2 series): at 193.0 s."
    );
}

#[test]
fn few_slices_do_not_tell_causes_from_chance() {
    let mut run = stalled(20, &[12]);
    sampled(&mut run, "disk", "vda", "busy", "%", &values(20, 12.0, 97.0, &[12]));
    let finding = only(&run, "unexplained");
    let words = "the only slow moment, at 112.0 s, is undecided: 20 slices are too few to tell causes from chance; high \
                 then, and not tested: disk vda 97.0 % (usually 12.0 %).";
    assert!(finding.sentence.ends_with(words), "{}", finding.sentence);
    assert!(finding.next.starts_with("Drive for 120 s or longer, or with shorter slices"), "{}", finding.next);
    // The length of a phase of a plan is no option of its command.
    assert_eq!(finding.command, "");
    let [evidence] = finding.evidence.as_slice() else { panic!("{:?}", finding.evidence) };
    assert_eq!((evidence.q, evidence.seen), (None, 97.0));
    // And nothing is said of causes where nothing was watched.
    assert!(view(&stalled(20, &[12])).findings.is_empty());
}

#[test]
fn the_command_of_an_undecided_moment_drives_for_as_long_as_its_advice_says() {
    let mut run = stalled(20, &[12]);
    sampled(&mut run, "disk", "vda", "busy", "%", &values(20, 12.0, 97.0, &[12]));
    for given in ["--for 20s", "--for=20s --seed 7", "--ops 9000", ""] {
        let line = format!("plimsoll drive kv --on redis {given}");
        run.header.command_line = line.split_whitespace().map(str::to_owned).collect();
        let finding = only(&run, "unexplained");
        assert!(finding.next.starts_with("Drive for 120 s or longer, or"), "{}", finding.next);
        assert_eq!(finding.command, "plimsoll drive kv --on redis --for 120s --seed 2", "{given}");
    }
    run.header.outline.watched = true;
    run.header.command_line = ["plimsoll", "watch", "access.log"].map(str::to_owned).to_vec();
    let finding = only(&run, "unexplained");
    assert_eq!((finding.next.as_str(), finding.command.as_str()), ("Watch for 120 s or longer.", ""));
}

#[test]
fn the_generators_own_use_explains_nothing_and_its_delay_does() {
    let mut run = stalled(SECONDS, &SLOW);
    sampled(&mut run, "generator", "", "user", "%", &values(SECONDS, 10.0, 90.0, &SLOW));
    assert!(view(&run).findings.is_empty());
    sampled(&mut run, "generator", "", "run_queue_delay", "%", &values(SECONDS, 1.0, 60.0, &SLOW));
    let finding = only(&run, "cause");
    assert!(finding.sentence.contains("the generator's wait for a processor"), "{}", finding.sentence);
    assert!(finding.next.contains("more processors"), "{}", finding.next);
}

#[test]
fn moments_at_equal_intervals_are_said_to_be_regular() {
    let finding = only(&stalled(SECONDS, &[10, 35, 60, 85, 110]), "regular");
    assert_eq!(finding.sentence, "fjall, phase mixed: 5 of 5 slow moments come every 25.0 s.");
    let about = only(&stalled(SECONDS, &[10, 35, 61, 85, 110]), "regular");
    assert!(about.sentence.ends_with("come every 24.0 s to 26.0 s."), "{}", about.sentence);
    // Four have three distances, which is no rule.
    assert!(view(&stalled(SECONDS, &[10, 40, 70, 100])).findings.is_empty());
    assert!(view(&stalled(SECONDS, &[10, 35, 64, 85, 110])).findings.is_empty());
}

#[test]
fn a_moment_of_another_cause_is_not_counted_among_regular_ones() {
    let mut run = stalled(SECONDS, &[10, 35, 60, 85, 110]);
    sampled(&mut run, "disk", "vda", "busy", "%", &values(SECONDS, 12.0, 97.0, &[35, 60, 85, 110]));
    let rules: Vec<&str> = view(&run).findings.iter().map(|finding| finding.rule).collect();
    assert_eq!(rules, ["cause", "unexplained"]);
}

#[test]
fn a_few_errors_in_each_of_several_slices_are_a_slow_moment() {
    let mut run = driven(&[1_000; SECONDS]);
    let with_errors: Vec<usize> = (40..44).collect();
    // As many in one second are none.
    for second in with_errors.iter().chain(&[10, 61, 90]) {
        let errors = SliceHistogram { outcome: Outcome::Unknown, ..served(1, times([(1_000_000, 2)])) };
        run.trials[0].phases[0].slices[*second].histograms.push(errors);
    }
    sampled(&mut run, "disk", "vda", "busy", "%", &values(SECONDS, 12.0, 97.0, &with_errors));
    let finding = only(&run, "cause");
    assert_eq!(finding.spans_s, [(140.0, 144.0)]);
}

#[test]
fn load_steps_and_phases_that_are_mostly_slow_have_no_findings() {
    let mut run = stalled(SECONDS, &[10, 40, 70, 100]);
    run.trials[0].phases[0].header.rung = Some(Purpose::Climb);
    assert!(view(&run).findings.is_empty());
    let half: Vec<usize> = (0..SECONDS).filter(|second| second % 2 == 1).collect();
    assert!(view(&stalled(SECONDS, &half)).findings.is_empty());
}

#[test]
fn in_a_phase_that_is_mostly_moderately_slow_the_larger_moments_count() {
    for at_slow in [50, 600] {
        let rate = |second: usize| match second {
            second if SLOW.contains(&second) => at_slow,
            second if second % 20 < 9 => 850,
            _ => 1_000,
        };
        let mut run = driven(&(0..SECONDS).map(rate).collect::<Vec<u64>>());
        sampled(&mut run, "disk", "vda", "busy", "%", &values(SECONDS, 12.0, 97.0, &SLOW));
        let finding = only(&run, "cause");
        assert!(finding.sentence.contains("4 of 4 slow moments begin"), "{}", finding.sentence);
    }
}

#[test]
fn throughput_that_stays_at_another_level_is_a_finding_of_its_own() {
    let rates: Vec<u64> = (0..60).map(|second| if second < 40 { 1_000 } else { 600 }).collect();
    let finding = only(&driven(&rates), "level");
    assert_eq!(
        finding.sentence,
        "fjall, phase mixed: from 140.0 s on throughput is 600/s (median), and before it was 1,000/s."
    );
    assert_eq!((finding.spans_s.as_slice(), finding.moments), (&[(140.0, 160.0)][..], 0));
    assert_eq!(finding.chart.unwrap().lines[0].values.len(), 60);
}
