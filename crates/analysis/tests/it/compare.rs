//! Two runs side by side.

use plimsoll_analysis::compare::rule::Rule;
use plimsoll_analysis::compare::{compare, operation_types};
use plimsoll_analysis::view::{Comparison, Metric, NoiseFloor};
use plimsoll_record::data::{Figure, PhaseState, Run, RunState};

use crate::driven::driven;
use crate::faulted::{killed_primary, without_end};
use crate::{recorded, study};

fn metric<'a>(comparison: &'a Comparison, trial: &str, phase: &str, name: &str, op: &str) -> &'a Metric {
    let group = comparison.groups.iter().find(|group| group.trial == trial && group.phase == phase).unwrap();
    group.metrics.iter().find(|metric| metric.name == name && metric.op == op).unwrap()
}

/// The study with every time in the mixed phases `factor` times as long.
fn slower(factor: f64) -> Run {
    let mut run = study::complete();
    for slice in run.trials.iter_mut().flat_map(|trial| &mut trial.phases).flat_map(|phase| &mut phase.slices) {
        for one in &mut slice.histograms {
            let slower = |(ns, count): &(u64, u64)| ((*ns as f64 * factor) as u64, *count);
            one.histogram = study::times(one.histogram.counts().iter().map(slower));
        }
    }
    run
}

#[test]
fn a_run_is_like_itself() {
    let run = study::complete();
    let comparison = compare(&run, &run, &[], None);
    assert!(comparison.differences.is_empty() && comparison.unmatched.is_empty());
    let metrics: Vec<&Metric> = comparison.groups.iter().flat_map(|group| &group.metrics).collect();
    assert!(metrics.len() > 40, "{}", metrics.len());
    for metric in metrics {
        assert_ne!(metric.significant, Some(true), "{metric:?}");
        assert!(metric.change_percent.is_none_or(|change| change.abs() < 1e-9), "{metric:?}");
        assert!(metric.interval_percent.is_none_or(|(low, high)| low <= 0.0 && high >= 0.0), "{metric:?}");
    }
    assert!(!comparison.failed());
    let errors = metric(&comparison, "sqlite · index=own", "mixed", "errors", "all");
    assert_eq!((errors.a.value, Comparison::mark(errors)), (Some(0.0), "~"));
}

#[test]
fn an_outage_that_had_not_ended_has_no_change_and_leaves_conditions_undecided() {
    let of_outage = |mut run: Run| {
        let figure = |name: &str, formula: &str| {
            let (name, unit, formula) = (name.to_owned(), "s".to_owned(), formula.to_owned());
            Figure { name, unit, formula, published: Vec::new() }
        };
        run.header.figures = vec![figure("outage", "mixed.outage"), figure("twice", "2 * mixed.outage")];
        run
    };
    let (ended, open) = (of_outage(killed_primary()), of_outage(without_end()));
    let rules = ["\"outage\" > +5%", "\"outage\" > 10s", "\"outage\" > 15s", "\"twice\" < -5%"];
    let rules = rules.map(|rule| Rule::parse(rule).unwrap());
    for (a, b) in [(&ended, &open), (&open, &open)] {
        let comparison = compare(a, b, &rules, None);
        let [outage, twice] = ["outage", "twice"].map(|name| metric(&comparison, "fjall", "figures", name, ""));
        assert_eq!((outage.b.text.as_str(), outage.b.value), ("> 12.0 s", Some(12.0)));
        assert_eq!(twice.b.text, "24.0 s");
        for metric in [outage, twice] {
            let told = (metric.change_percent, metric.interval_percent, metric.significant);
            assert_eq!((told, Comparison::mark(metric)), ((None, None, None), "?"));
        }
        let found = comparison.rules.iter().take(4).map(|rule| (rule.failures.len(), rule.undecided.len()));
        assert_eq!(found.collect::<Vec<_>>(), [(0, 1), (1, 0), (0, 1), (0, 1)], "{:?}", comparison.rules);
        assert!(comparison.rules[0].undecided[0].contains("to > 12.0 s: an outage had not ended"));
    }
    let comparison = compare(&open, &ended, &rules, None);
    let outage = metric(&comparison, "fjall", "figures", "outage", "");
    assert_eq!((outage.a.text.as_str(), outage.b.text.as_str()), ("> 12.0 s", "1.37 s"));
    assert_eq!((outage.change_percent, Comparison::mark(outage)), (None, "?"));
}

#[test]
fn what_became_slower_is_seen_with_its_interval_and_fails_on_demand() {
    let (a, b) = (study::complete(), slower(1.2));
    let rules = ["p50 > +5%", "mixed.p50[op=read] > +50%", "rate < -3%", "p99 > 20ms", "data_bytes > +1%"]
        .map(|rule| Rule::parse(rule).unwrap());
    let comparison = compare(&a, &b, &rules, None);
    let read = metric(&comparison, "sqlite · index=own", "mixed", "p50", "read");
    let (low, high) = read.interval_percent.unwrap();
    assert!(read.significant == Some(true) && low > 10.0 && high < 35.0, "{read:?}");
    assert!((read.change_percent.unwrap() - 20.0).abs() < 1.0, "{read:?}");
    assert_eq!(Comparison::mark(read), "worse");
    let failed: Vec<_> = comparison.rules.iter().map(|rule| (rule.checked, rule.failures.len())).collect();
    // Three trials drive; the rate is the same and 20 ms are far away.
    assert_eq!(failed, [(3, 3), (3, 0), (3, 0), (3, 0), (5, 0)]);
    assert!(comparison.rules[0].failures[0].starts_with("sqlite · index=own, mixed: p50 went from"));
    assert!(comparison.failed());
    // Below the machine's noise floor it is not called a change.
    let deaf = compare(&a, &b, &rules, Some(NoiseFloor::flat(30.0)));
    assert!(!deaf.failed());
    let mut noisy = a;
    noisy
        .header
        .environment
        .push(("noise floor".into(), "throughput 1.5 %, p50 30.0 %, p99 40.0 %: of 66 pairs".into()));
    let recorded = compare(&noisy, &b, &rules, None);
    assert_eq!(recorded.noise_floor.p99_percent, 40.0);
    assert!(!recorded.failed());
}

#[test]
fn rates_that_were_given_are_said_to_say_nothing_of_the_store() {
    let at = |rate: Option<f64>| {
        let mut run = study::complete();
        run.trials.iter_mut().flat_map(|trial| &mut trial.phases).for_each(|phase| phase.header.rate_per_s = rate);
        run
    };
    let given = |a, b| {
        let comparison = compare(&at(a), &at(b), &[], None);
        comparison.groups.iter().find(|group| group.phase == "mixed").unwrap().given.clone().unwrap_or_default()
    };
    assert_eq!(given(None, None), "");
    assert!(given(Some(2_000.0), Some(2_000.0)).starts_with("the rate was given, 2,000/s in both:"));
    assert!(given(Some(2_000.0), Some(2_400.0)).starts_with("the rate was given, 2,000/s in A and 2,400/s in B:"));
    assert!(given(None, Some(2_400.0)).starts_with("the rate was given, 2,400/s in B:"));
}

/// A log with about these numbers of operations of each type in each of its seconds.
fn watched(types: &[(u16, u64)]) -> Run {
    let mut run = driven(&[1; 12]);
    run.header.outline.watched = true;
    for (slice, more) in run.trials[0].phases[0].slices.iter_mut().zip([0u64, 1, 2].into_iter().cycle()) {
        let of_type = |(kind, n): &(u16, u64)| study::served(*kind, study::times([(1_000_000, n + more)]));
        slice.histograms = types.iter().map(of_type).collect();
    }
    run
}

#[test]
fn the_rate_of_a_watched_load_is_neither_better_nor_worse_and_its_change_decides_nothing() {
    let (mut a, mut b) = (watched(&[(1, 1_000)]), watched(&[(1, 200)]));
    let rules = ["rate < -3%", "rate < 500/s", "rate > +3%"].map(|rule| Rule::parse(rule).unwrap());
    let came_of = |a: &Run, b: &Run| {
        let comparison = compare(a, b, &rules, None);
        let words = comparison.rules.iter().map(|rule| rule.word()).collect::<Vec<_>>().join(" ");
        (Comparison::mark(&comparison.groups[0].metrics[0]), words, comparison.groups[0].given.clone())
    };
    let (mark, words, given) = came_of(&a, &b);
    assert_eq!((mark, words.as_str()), ("differs", "undecided failed ok"));
    assert!(given.unwrap().starts_with("the load was watched, not driven"));
    a.header.outline.watched = false;
    b.header.outline.watched = false;
    assert_eq!(came_of(&a, &b), ("worse", "failed failed ok".to_owned(), None), "driven, it is the store's");
}

#[test]
fn runs_without_a_common_number_are_undecided_with_what_to_compare_instead() {
    let [a, mut b] = study::apart();
    let comparison = compare(&a, &b, &[], None);
    assert!(comparison.groups.is_empty() && comparison.undecided() && !comparison.failed(), "{comparison:?}");
    assert_eq!(comparison.unmatched.len(), 5, "each trial is of one run alone");
    let [nothing] = &comparison.rules[..] else { panic!("{:?}", comparison.rules) };
    assert!(nothing.undecided[0].contains("no number in common: name runs with the same stores"), "{nothing:?}");
    b.trials.extend(a.trials.clone());
    assert!(!compare(&a, &b, &[], None).undecided());
}

#[test]
fn an_operation_type_that_only_one_run_has_is_named() {
    let (a, b) = (watched(&[(1, 100), (2, 10)]), watched(&[(1, 500)]));
    for (a, b, side) in [(&a, &b, "A"), (&b, &a, "B")] {
        let comparison = compare(a, b, &[], None);
        let [only] = &comparison.unmatched[..] else { panic!("{:?}", comparison.unmatched) };
        assert!(only.ends_with(&format!(", phase mixed: update operations are only in {side}")), "{only}");
    }
    let comparison = compare(&a, &b, &[], None);
    for name in ["mean", "p50"] {
        let update = comparison.groups[0].metrics.iter().find(|metric| metric.name == name && metric.op == "update");
        assert_eq!(update.unwrap().b.text, "phase mixed has no times of update operations");
    }
}

#[test]
fn messages_have_the_operation_types_of_the_numbers() {
    let run = study::complete();
    assert_eq!(operation_types(&compare(&run, &run, &[], None)), ["read", "update", "query"]);
    let single = watched(&[(1, 100)]);
    assert!(operation_types(&compare(&single, &single, &[], None)).is_empty());
}

#[test]
fn what_was_configured_differently_comes_first() {
    let (a, mut b) = (study::complete(), study::complete());
    b.header.seed = 7;
    b.header.plan_text = b.header.plan_text.replacen("clients = ", "clients = 1", 1);
    b.header.environment[2].1 = "Linux 6.12.0".into();
    b.trials[1].header.version = "3.51.0".into();
    b.trials[1].header.settings[0].value = "other".into();
    b.trials[4].phases[5].header.clients = 99;
    b.trials.remove(0);
    let comparison = compare(&a, &b, &[], None);
    let found: Vec<(&str, &str)> =
        comparison.differences.iter().map(|one| (one.place.as_str(), one.name.as_str())).collect();
    for wanted in [
        ("run", "seed"),
        ("plan", "line"),
        ("environment", "kernel"),
        ("sqlite · index=own", "version"),
        ("fjall · index=keyindex, mixed", "clients"),
    ] {
        assert!(found.contains(&wanted), "{wanted:?} is not in {found:?}");
    }
    assert_eq!(comparison.unmatched, ["sqlite · index=none is only in A"]);
}

#[test]
fn repeats_of_a_point_are_one_and_two_single_points_are_compared_whatever_they_are() {
    let repeated = |factors: [f64; 4]| {
        let mut run = study::complete();
        run.trials = factors
            .iter()
            .enumerate()
            .map(|(at, factor)| {
                let mut trial = slower(*factor).trials.remove(4);
                trial.header.labels.insert("repeat".into(), (at + 1).to_string());
                trial
            })
            .collect();
        run
    };
    let (a, b) = (repeated([1.0, 1.02, 0.98, 1.01]), repeated([1.21, 1.2, 1.19, 1.22]));
    let comparison = compare(&a, &b, &[], None);
    assert_eq!(comparison.groups.iter().filter(|group| group.phase == "mixed").count(), 1);
    let p99 = metric(&comparison, "fjall · index=keyindex", "mixed", "p99", "read");
    assert_eq!((p99.method, p99.a.repeats, p99.significant), ("repeats", 4, Some(true)));
    let (mut one, mut other) = (study::complete(), study::complete());
    one.trials.truncate(1);
    other.trials.drain(..4);
    let comparison = compare(&one, &other, &[], None);
    assert_eq!(
        comparison.unmatched,
        ["sqlite · index=none → fjall · index=keyindex, phase mixed is only in B"],
        "the two are compared, and the phase that only one has is said"
    );
    assert!(comparison.groups[0].trial.contains("→"), "{}", comparison.groups[0].trial);
}

fn failures(comparison: &Comparison) -> Vec<(&str, &[String])> {
    comparison.rules.iter().map(|rule| (rule.rule.as_str(), rule.failures.as_slice())).collect()
}

#[test]
fn a_condition_on_what_one_run_did_not_measure_does_not_hold() {
    let a = study::complete();
    let mut b = study::complete();
    b.trials.drain(..4);
    b.trials[0].phases[5].end.state = PhaseState::Void("the generator was the limit".into());
    let mut only = study::complete();
    only.trials.drain(..4);
    let rules = ["p99 > +5%", "p99 > 20ms"].map(|rule| Rule::parse(rule).unwrap());
    let comparison = compare(&only, &b, &rules, None);
    for (rule, failures) in failures(&comparison) {
        let [failure] = failures else { panic!("{rule}: {failures:?}") };
        assert!(
            failure.contains("mixed: p99 cannot be judged: B has none (phase mixed")
                && failure.contains("the generator was the limit"),
            "{failure}"
        );
    }
    let p99 = metric(&comparison, "fjall · index=keyindex", "mixed", "p99", "all");
    assert_eq!(Comparison::mark(p99), "missing");
    // The other way round there is nothing to have changed from, and B can be judged by itself.
    let comparison = compare(&b, &only, &rules, None);
    assert_eq!(failures(&comparison).iter().map(|(_, failures)| failures.len()).collect::<Vec<_>>(), [1, 0]);
    // A run that was killed measured less than it was to.
    let mut killed = a.clone();
    killed.state = RunState::Unfinished;
    let comparison = compare(&a, &killed, &rules, None);
    assert!(comparison.failed());
    let ended = comparison.rules.last().unwrap();
    assert_eq!(ended.rule, "B is complete");
    assert!(ended.failures[0].ends_with("was killed: values that it did not measure cannot be judged"), "{ended:?}");
    killed.state = RunState::Running;
    let going = compare(&a, &killed, &rules, None);
    assert!(going.rules.last().unwrap().failures[0].contains(" is still running: "), "{:?}", going.rules);
}

#[test]
fn a_condition_on_what_only_a_has_is_undecided_unless_it_fails_elsewhere() {
    let (a, mut b) = (study::complete(), study::complete());
    b.trials.truncate(4);
    b.trials[1].phases[5].header.name = "blend".into();
    let rules = ["p99 > +50%", "p99 > 1ns"].map(|rule| Rule::parse(rule).unwrap());
    let comparison = compare(&a, &b, &rules, None);
    let [kept, met] = &comparison.rules[..] else { panic!("{:?}", comparison.rules) };
    assert_eq!((kept.word(), met.word()), ("undecided", "failed"));
    assert!(
        kept.undecided.iter().any(|why| why.starts_with("sqlite · index=own, mixed: p99 is only in A")),
        "{kept:?}"
    );
    assert!(kept.undecided.iter().any(|why| why.starts_with("fjall")), "{kept:?}");
    assert!(comparison.undecided());
    // What only B has is nothing that became worse.
    let comparison = compare(&b, &a, &rules[..1], None);
    assert!(comparison.rules[0].undecided.iter().all(|why| why.contains("blend")), "{:?}", comparison.rules[0]);
}

#[test]
fn errors_where_there_were_none_are_more_than_any_per_cent() {
    let (a, b) = (study::complete(), study::broken());
    let rules = ["errors > +1%", "errors < -1%"].map(|rule| Rule::parse(rule).unwrap());
    let comparison = compare(&a, &b, &rules, None);
    let failed: Vec<usize> = comparison.rules[..2].iter().map(|rule| rule.failures.len()).collect();
    assert_eq!(failed, [1, 0], "{:?}", comparison.rules);
    assert!(comparison.rules[0].failures[0].contains("errors went from 0 % to "), "{:?}", comparison.rules[0]);
}

#[test]
fn a_value_in_another_unit_than_its_number_is_a_misfit() {
    let run = study::complete();
    let comparison = compare(&run, &run, &[], None);
    let misfit = |text: &str| Rule::parse(text).unwrap().misfit(&comparison.groups);
    assert_eq!(misfit("p99 > 5").as_deref(), Some("p99 is a time: 20ms; a change has a sign: +5%"));
    assert_eq!(misfit("rate < 20ms").as_deref(), Some("rate is a rate: 5000/s; a change has a sign: +5%"));
    for fits in ["p99 > 5ms", "p99 > 0", "p99 > +5%", "rate < 5000/s", "errors > 0.1%", "data_bytes > 64MiB"] {
        assert_eq!(misfit(fits), None, "{fits}");
    }
}

#[test]
fn what_only_one_run_was_asked_is_said() {
    let (a, mut b) = (study::complete(), study::complete());
    b.trials[1].phases[5].header.name = "blend".into();
    b.trials[1].header.workload = "kv".into();
    let comparison = compare(&a, &b, &[], None);
    assert_eq!(
        comparison.unmatched,
        [
            "sqlite · index=own ran different workloads: coupons in A, kv in B",
            "sqlite · index=own, phase mixed is only in A",
            "sqlite · index=own, phase blend is only in B"
        ]
    );
}

#[test]
fn what_is_never_twice_the_same_is_no_difference_of_configuration() {
    let (mut a, mut b) = (study::complete(), study::complete());
    b.header.id = "20261122-130817-4af9".into();
    let settings = |id: &str, temporary: &str, size: &str| {
        [
            ("unix_socket_directories", format!("/var/tmp/plimsoll-{temporary}/sockets")),
            ("log_file", format!("/home/me/plimsoll/runs/{id}/server.log")),
            ("temp_path", format!("/var/tmp/plimsoll-{temporary}/temp")),
            ("port", temporary.len().to_string()),
            ("shared_buffers", size.to_string()),
        ]
        .map(|(name, value)| plimsoll_core::Setting {
            name: name.into(),
            value,
            default: None,
            source: "command line".into(),
        })
    };
    for (run, temporary, size, free) in [(&mut a, "e93a88c7", "1GB", "28.0"), (&mut b, "1f11ddef0", "2GB", "27.9")] {
        let id = run.header.id.clone();
        run.trials.iter_mut().for_each(|trial| trial.header.settings = settings(&id, temporary, size).into());
        run.header.environment = vec![
            ("load at the start".into(), free.into()),
            ("memory available".into(), free.into()),
            ("pauses of the machine".into(), free.into()),
            ("noise floor".into(), format!("throughput 1.{temporary} %, p50 2 %, p99 3 %")),
            ("file system".into(), format!("ext4 on /dev/vda (rw,relatime), {free} of 252.0 GiB free")),
        ];
    }
    let differences = compare(&a, &b, &[], None).differences;
    assert!(differences.iter().all(|one| one.name == "setting shared_buffers"), "{differences:?}");
    assert_eq!(differences.len(), a.trials.len());
    b.header.environment[4].1 = "ext4 on /dev/vdb (rw,relatime), 27.9 of 252.0 GiB free".into();
    let differences = compare(&a, &b, &[], None).differences;
    assert_eq!(differences.iter().filter(|one| one.place == "environment").count(), 1, "{differences:?}");
}

#[test]
fn of_two_searches_the_lines_are_compared_by_their_intervals_and_not_the_rungs() {
    let a = recorded::searched();
    let b = recorded::searched();
    let rules = ["line < -50%", "line < -0.1%"].map(|rule| Rule::parse(rule).unwrap());
    let same = compare(&a, &b, &rules, None);
    let [group] = same.groups.as_slice() else { panic!("rungs are compared: {:?}", same.groups) };
    let [line] = group.metrics.as_slice() else { panic!("{group:?}") };
    assert_eq!((group.phase.as_str(), line.name.as_str(), Comparison::mark(line)), ("line", "line", "?"));
    let result = &plimsoll_analysis::line::lines(&a)[0].result;
    assert_eq!(line.a.value, result.rate_per_s);
    assert!(line.a.text.contains("/s, gives way at ") && line.a.text.ends_with(", decided"), "{}", line.a.text);
    let (low, high) = line.interval_percent.unwrap();
    assert!(low < -0.1 && high > 0.1, "{low} … {high}");
    let [told, cost] = &same.lines[..] else { panic!("{:?}", same.lines) };
    assert_eq!(told, "fjall: whether the load line of B is higher or lower is undecided.");
    assert!(
        cost.starts_with("fjall: next to the line an operation took ")
            && cost.ends_with("in B (0 %); the line is 1.86 processors in A, and 1.86 in B."),
        "{cost}"
    );
    // A fall by a tenth of a per cent is undecided; by half it did not fall.
    assert_eq!(same.rules.iter().map(|rule| rule.word()).collect::<Vec<_>>(), ["ok", "undecided"]);

    // A store that does half as much again, by its own search.
    let quicker = recorded::searched_at(7_500.0);
    let told = compare(&a, &quicker, &rules, None);
    assert_eq!(told.lines[0], "fjall: the load line of B is higher.");
    assert_eq!(Comparison::mark(&told.groups[0].metrics[0]), "better");
    assert_eq!(compare(&quicker, &a, &rules, None).lines[0], "fjall: the load line of B is lower.");

    let none = compare(&a, &study::complete(), &[], None);
    assert!(none.groups.is_empty() && none.unmatched[0].starts_with("A is a search for the load line"), "{none:?}");
    assert!(none.undecided(), "{none:?}");

    let mut other = recorded::searched();
    other.header.outline.line.as_mut().unwrap().goals[0].limit /= 2.0;
    let apart = compare(&a, &other, &rules, None);
    assert!(apart.groups.is_empty() && apart.unmatched[0].starts_with("the lines have different goals"), "{apart:?}");
}

#[test]
fn an_interval_that_holds_everything_says_neither_that_nothing_changed_nor_that_a_condition_holds() {
    let (a, b) =
        (driven(&[400, 3_000, 900, 2_500, 300, 2_800, 1_200]), driven(&[2_900, 500, 350, 2_600, 950, 2_700, 1_100]));
    let rules = ["rate < -3%", "rate > +900%"].map(|rule| Rule::parse(rule).unwrap());
    let comparison = compare(&a, &b, &rules, None);
    let rate = &comparison.groups[0].metrics[0];
    let (low, high) = rate.interval_percent.unwrap();
    assert!(low < -19.0 && high > 19.0, "{low} … {high}");
    assert_eq!((rate.significant, Comparison::mark(rate)), (None, "?"));
    assert_eq!(comparison.rules[0].word(), "undecided");
    let why = &comparison.rules[0].undecided[0];
    assert!(why.contains("with 95 % confidence, so that −3.00 % is undecided"), "{why}");
    assert_eq!(comparison.rules[1].word(), "ok", "the interval ends before that");
}

#[test]
fn a_condition_finer_than_the_noise_floor_cannot_be_told() {
    let (mut a, mut b) = (study::complete(), slower(1.2));
    a.trials.drain(..4);
    b.trials.drain(..4);
    let words = |rule: &str, floor: f64, a: &Run, b: &Run| {
        let rules = [Rule::parse(rule).unwrap()];
        compare(a, b, &rules, Some(NoiseFloor::flat(floor))).rules[0].clone()
    };
    // 20 % slower where equal runs differ by 82.9 %: nothing can be told of 5 %.
    let told = words("p50 > +5%", 82.9, &a, &b);
    assert_eq!((told.word(), told.failures.len()), ("undecided", 0), "{told:?}");
    let why = &told.undecided[0];
    assert!(why.contains("82.9 %") && why.contains("noise floor") && why.contains("+5.00 %"), "{why}");
    // A change beyond the floor is seen, and one the other way is none.
    assert_eq!(words("p50 > +5%", 10.0, &a, &b).word(), "failed");
    assert_eq!(words("p50 > +5%", 10.0, &b, &a).word(), "ok");
    // What is asked no more finely than the floor is decided, and so is what was never noise.
    assert_eq!(words("p50 > +30%", 25.0, &a, &b).word(), "ok");
    assert_eq!(words("data_bytes > +1%", 25.0, &a, &b).word(), "ok");
}
