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
    assert!(finding.sentence.contains("explained by nothing that was watched"), "{}", finding.sentence);
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
        "fjall, phase mixed: 1 of 9 slow moments is explained by nothing that was watched (2 series): at 193.0 s."
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
fn in_a_phase_that_is_mostly_moderately_slow_the_large_moments_count() {
    let rate = |second: usize| match second {
        second if SLOW.contains(&second) => 50,
        second if second % 20 < 9 => 850,
        _ => 1_000,
    };
    let mut run = driven(&(0..SECONDS).map(rate).collect::<Vec<u64>>());
    sampled(&mut run, "disk", "vda", "busy", "%", &values(SECONDS, 12.0, 97.0, &SLOW));
    let finding = only(&run, "cause");
    assert!(finding.sentence.contains("4 of 4 slow moments begin"), "{}", finding.sentence);
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
<<<<<<< HEAD
=======

#[test]
fn a_phase_whose_clients_wait_for_locks_is_bound_by_them() {
    let mut run = driven(&[2_000; 30]);
    run.trials[0].phases[0].header.clients = 16;
    sampled(&mut run, "store", "fjall", "waiting_for_locks", "", &[11.0; 30]);
    let finding = only(&run, "bound");
    assert_eq!(
        finding.sentence,
        "fjall, phase mixed: in most slices 11.0 sessions of the store waited for locks, beside 16 clients."
    );
    assert!(finding.next.contains("the step that takes most of the time"), "{}", finding.next);
    assert!(finding.next.ends_with(" The command shows the waits with less load."), "{}", finding.next);
    assert_eq!(finding.command, "plimsoll run coupons --set mixed.clients=8");
    let words = ["plimsoll", "drive", "tpcb", "--on", "postgres", "--clients=16", "--seed=7"];
    run.header.command_line = words.map(str::to_owned).to_vec();
    assert_eq!(only(&run, "bound").command, "plimsoll drive tpcb --on postgres --clients 8");
    run.trials[0].phases[0].header.rate_per_s = Some(300.0);
    run.header.command_line.extend(["--rate", "300/s"].map(str::to_owned));
    assert_eq!(only(&run, "bound").command, "plimsoll drive tpcb --on postgres --clients=16 --rate 150/s");
    run.trials[0].phases[0].header.clients = 32;
    assert!(view(&run).findings.is_empty());
}

#[test]
fn the_command_of_a_bound_has_less_load_or_is_none() {
    let mut run = driven(&[2_000; 30]);
    run.trials[0].phases[0].header.clients = 16;
    sampled(&mut run, "disk", "vda", "busy", "%", &[96.0; 30]);
    let mut bound = |line: &str, rate_per_s: Option<f64>| {
        run.header.command_line = line.split_whitespace().map(str::to_owned).collect();
        run.trials[0].phases[0].header.rate_per_s = rate_per_s;
        only(&run, "bound")
    };
    for (line, rate_per_s, command) in [
        (
            "plimsoll run mine.toml --stores postgres",
            None,
            "plimsoll run mine.toml --stores postgres --set mixed.clients=8",
        ),
        ("plimsoll run mine.toml -c16 --seed 3", None, "plimsoll run mine.toml --clients 8"),
        (
            "plimsoll run p.toml --set mixed.clients=16 --set=clients=9",
            None,
            "plimsoll run p.toml --set=clients=9 --set mixed.clients=8",
        ),
        (
            "plimsoll run mine.toml --clients 16",
            Some(500.0),
            "plimsoll run mine.toml --clients 16 --set mixed.rate=250/s",
        ),
        ("plimsoll drive kv -c16", None, "plimsoll drive kv --clients 8"),
    ] {
        let finding = bound(line, rate_per_s);
        assert_eq!(finding.command, command);
        assert!(finding.next.ends_with(" The command shows the use with less load."), "{}", finding.next);
    }
    let half = " Repeat the run with half of the clients, and compare the use.";
    for line in ["plimsoll run mine.toml --quick", "plimsoll ab kv --clients 16"] {
        let finding = bound(line, None);
        assert_eq!(finding.command, "");
        assert!(finding.next.ends_with(half), "{}", finding.next);
    }

    // Scenarios have loads of their own.
    run.header.command_line = ["plimsoll", "run", "mine.toml"].map(str::to_owned).to_vec();
    run.trials[0].header.kinds.iter_mut().for_each(|kind| kind.name = format!("readers/{}", kind.name));
    let finding = only(&run, "bound");
    assert_eq!(finding.command, "");
    assert!(finding.next.ends_with(half), "{}", finding.next);
}

#[test]
fn the_load_of_what_is_watched_is_not_halved() {
    let mut run = driven(&[2_000; 30]);
    run.header.outline.watched = true;
    run.trials[0].phases[0].header.clients = 0;
    run.header.command_line = ["plimsoll", "watch", "access.log", "--follow"].map(str::to_owned).to_vec();
    sampled(&mut run, "disk", "vda", "busy", "%", &[96.0; 30]);
    let finding = only(&run, "bound");
    assert!(finding.next.ends_with(" Watch again at a time of less load, and compare the use."), "{}", finding.next);
    assert_eq!(finding.opposite, "At a time of less load the use stays as it is: others use it.");
    assert_eq!(finding.command, "");
}

#[test]
fn the_object_that_most_waited_for_is_named_whoever_held_it() {
    let mut run = driven(&[2_000; 30]);
    run.trials[0].phases[0].header.clients = 16;
    sampled(&mut run, "store", "fjall", "waiting_for_locks", "", &[12.0; 30]);
    for (name, count) in [
        ("waiting for table tellers, held by a session that ran VACUUM", 4.5),
        ("waiting for a row of t, held by a session that ran UPDATE t SET v = ?", 3.0),
        ("waiting for a row of t, held by a session that ran COMMIT", 4.5),
    ] {
        sampled(&mut run, "store", "fjall", name, "", &[count; 30]);
    }
    let finding = only(&run, "bound");
    let words = "; 62.5 % of them waited for a row of t, in 60.0 % of these cases held by a session that ran COMMIT.";
    assert!(finding.sentence.ends_with(words), "{}", finding.sentence);
    // A commit is no transaction that can be shortened.
    assert!(finding.next.starts_with("Make commits faster, as a transaction keeps its locks"), "{}", finding.next);
}

#[test]
fn locks_that_bind_a_phase_are_named_with_the_statement_of_their_holder() {
    let mut run = driven(&[2_000; 30]);
    run.trials[0].phases[0].header.clients = 16;
    sampled(&mut run, "store", "fjall", "waiting_for_locks", "", &[12.0; 30]);
    let held = "waiting for a row of pgbench_branches, held by a session that ran UPDATE pgbench_branches SET bbalance = \
                bbalance + ?";
    sampled(&mut run, "store", "fjall", held, "", &[9.0; 30]);
    let idle = "waiting for table pgbench_tellers, held by a session that is between two statements";
    sampled(&mut run, "store", "fjall", idle, "", &[1.0; 30]);
    sampled(&mut run, "store", "fjall", "waiting for other locks", "", &[2.0; 30]);
    let finding = only(&run, "bound");
    assert_eq!(
        finding.sentence,
        format!(
            "fjall, phase mixed: in most slices 12.0 sessions of the store waited for locks, beside 16 clients; 75.0 % of \
             them {}.",
            held.replacen("waiting", "waited", 1)
        )
    );
    assert!(finding.next.starts_with("Shorten the transactions of this statement"), "{}", finding.next);
}

#[test]
fn the_next_step_after_waits_for_a_metadata_lock_is_about_definitions_of_tables() {
    let mut run = driven(&[2_000; 30]);
    run.trials[0].phases[0].header.clients = 16;
    sampled(&mut run, "store", "fjall", "waiting_for_locks", "", &[12.0; 30]);
    let held = "waiting for a table metadata lock, held by a session that the server does not name";
    sampled(&mut run, "store", "fjall", held, "", &[12.0; 30]);
    let finding = only(&run, "bound");
    assert!(finding.sentence.contains("held by a session that the server does not name"), "{}", finding.sentence);
    let next =
        "End the transactions that use a table before its definition is changed, or before all tables are locked;";
    assert!(finding.next.starts_with(next), "{}", finding.next);
}

#[test]
fn a_link_at_its_limit_is_what_a_phase_is_bound_by() {
    let mut run = driven(&[2_000; 30]);
    sampled(&mut run, "network", "node 1 eth0", "sent", "B/s", &[2.4e6; 30]);
    sampled(&mut run, "network", "node 1 eth0", "received", "B/s", &[1e6; 30]);
    sampled(&mut run, "network", "node 1 lo", "sent", "B/s", &[2.4e6; 30]);
    assert!(view(&run).findings.is_empty());
    let link = |words: &str| vec![Setting::new("link of node 1", words, Some("plain"), "plimsoll")];
    run.trials[0].header.settings = link("5ms ± 0ns one way, 20 Mbit/s");
    let finding = only(&run, "bound");
    let words = "fjall, phase mixed: in most slices node 1 eth0 sent 19.2 Mbit/s, 96.0 % of the limit of its link.";
    assert_eq!((finding.sentence.as_str(), finding.version), (words, 3));
    assert_eq!(finding.command, "plimsoll run coupons --set mixed.clients=4");
    for other in ["25 Mbit/s", "20 Mbit/s, only to the node", "20 Mbit/s, only for clients"] {
        run.trials[0].header.settings = link(other);
        assert!(view(&run).findings.is_empty(), "{other}");
    }
    // A fault gives the node another link.
    faulted::fault(&mut run, (FaultKind::Link, "node 1", "link node 1 delay=1ms rate=20Mbit at 0s"), 0, None);
    assert_eq!(only(&run, "bound").sentence, words);
    run.trials[0].faults[0].subject = "node 2".to_owned();
    assert!(view(&run).findings.is_empty());
}

#[test]
fn interfaces_at_their_speed_and_segments_sent_again_are_what_a_phase_is_bound_by() {
    let mut run = driven(&[2_000; 30]);
    let speeds = "eth0 1000 Mbit/s, eth1 10000 Mbit/s".to_owned();
    run.header.environment.push((INTERFACES.to_owned(), speeds));
    for interface in ["eth0", "eth1", "eth2"] {
        sampled(&mut run, "network", interface, "received", "B/s", &values(30, 1.175e8, 1e6, &[3]));
    }
    for (subject, sent, again) in [("node 1", 5_000.0, 20.0), ("node 2", 4_900.0, 100.0), ("", 3.0, 1.0)] {
        sampled(&mut run, "tcp", subject, "sent_segments", "1/s", &[sent; 30]);
        sampled(&mut run, "tcp", subject, "retransmits", "1/s", &[again; 30]);
    }
    assert_eq!(
        only(&run, "bound").sentence,
        "fjall, phase mixed: in most slices eth0 received 940 Mbit/s, 94.0 % of its speed and TCP of node 2 sent 2.00 % of \
         its segments again."
    );
}

#[test]
fn a_resource_that_is_used_up_in_most_seconds_is_what_a_phase_is_bound_by() {
    let mut run = driven(&[2_000; 30]);
    sampled(&mut run, "disk", "vda", "busy", "%", &values(30, 96.0, 20.0, &[3, 4]));
    sampled(&mut run, "cpu", "", "user", "%", &values(30, 30.0, 99.0, &[5]));
    sampled(&mut run, "pressure", "io", "some", "%", &[64.0; 30]);
    // All tasks waited in a part of that time: the shares are not added up.
    sampled(&mut run, "pressure", "io", "all", "%", &[57.0; 30]);
    let finding = only(&run, "bound");
    assert_eq!(
        finding.sentence,
        "fjall, phase mixed: in most slices disk vda was 96.0 % in use and waiting for io took 64.0 % of the \
         time."
    );
    // A generator without a core of its own to spare is named like a resource.
    for slice in &mut run.trials[0].phases[0].slices {
        slice.worker_cpu_ns = 1_900_000_000;
    }
    run.trials[0].phases[0].header.workers = 2;
    run.samples.clear();
    let finding = only(&run, "bound");
    assert!(finding.sentence.ends_with("in most slices the generator's workers were 95.0 % busy."), "{finding:?}");
}
>>>>>>> w/reader
