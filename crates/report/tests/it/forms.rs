//! Comparisons, Markdown, CSV, histogram logs.

use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use plimsoll_analysis::compare::compare;
use plimsoll_analysis::compare::rule::Rule;
use plimsoll_analysis::selection::{Selection, explain};
use plimsoll_analysis::slices::slices;
use plimsoll_analysis::view;
use plimsoll_analysis::view::Comparison;
use plimsoll_record::data::{
    AnswerCheck, AnswerCounts, Event, EventClass, Goal, GoalKind, PhaseKind, PhaseResult, ResultName, Run, Sample,
};

use crate::pages::place;
use crate::{driven, faulted, recorded, study};

fn compared() -> Comparison {
    let (a, mut b) = (study::complete(), study::broken());
    b.header.id = "20261122-101010-aaaa".into();
    let rules = ["errors > +1%", "rate < -50%", "errors > 0.1%"].map(|rule| Rule::parse(rule).unwrap());
    compare(&a, &b, &rules, None)
}

#[test]
fn a_comparison_is_text_markdown_json_and_junit() {
    let comparison = compared();
    let text = plimsoll_report::comparison(&comparison, false, 120);
    std::fs::write(place().join("compare.txt"), &text).unwrap();
    let (before, after) = text.split_once("Configured differently").unwrap();
    assert!(before.contains("20261121-204107-7f3a") && after.contains("mixed"), "configuration stands above numbers");
    assert!(text.contains("95 % interval") && text.contains("~ within noise"));
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()));
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("FAILED errors > 0.1%"), "{text}");
    let markdown = plimsoll_report::comparison_markdown(&comparison);
    std::fs::write(place().join("compare.md"), &markdown).unwrap();
    assert!(markdown.starts_with("### ❌") && !markdown.contains("<img"), "{markdown}");
    let json: serde_json::Value = serde_json::from_str(&plimsoll_report::json(&comparison)).unwrap();
    assert_eq!(json["format"], 1);
    assert!(json["groups"][0]["metrics"][0]["a"]["value"].is_number());
    let junit = plimsoll_report::junit(&comparison);
    std::fs::write(place().join("compare.xml"), &junit).unwrap();
    assert!(junit.contains("<testsuites tests=\"3\" failures=\"2\">"), "{junit}");
    assert!(junit.contains("name=\"errors &gt; 0.1%\"") && junit.contains("<failure message="), "{junit}");
    assert_eq!(junit.matches("<testcase").count(), 3);
}

#[test]
fn a_goal_on_stale_records_stands_in_every_form() {
    let mut run = faulted::killed_primary();
    run.header.goals = vec![Goal { what: GoalKind::Stale, of: None, limit: 2.0, unit: String::new() }];
    let counts = AnswerCounts { answers: 10, wrong: 3, stale_records: 3, ..AnswerCounts::default() };
    run.trials[0].answers.push(AnswerCheck { op: "read".into(), counts, ..AnswerCheck::default() });
    let view = view(&run);
    for text in
        [plimsoll_report::terminal(&view, false, 160), plimsoll_report::markdown(&view), plimsoll_report::html(&view)]
    {
        assert!(text.contains("stale records in answers was 3 in fjall, wanted ≤ 2"), "{text}");
    }
    let json: serde_json::Value = serde_json::from_str(&plimsoll_report::json(&view)).unwrap();
    let goal = &json["goals"][0];
    assert_eq!((&goal["what"], &goal["got"], &goal["state"]), (&"stale".into(), &3.0.into(), &"missed".into()));
    assert_eq!(json["trials"][0]["answers_total"]["stale_records"], 3);
}

#[test]
fn a_part_of_a_run_is_text_with_its_sentence_first_and_json() {
    let run = study::complete();
    let phases = run.trials.iter().flat_map(|trial| &trial.phases);
    let mut drives = phases.filter(|phase| phase.header.kind == PhaseKind::Drive);
    let mixed = drives.find(|phase| phase.slices.len() > 5).unwrap();
    let (from_ns, to_ns) = (Some(mixed.slices[2].start_ns), Some(mixed.slices[3].end_ns));
    let selected = explain(&run, &Selection { from_ns, to_ns, ..Selection::default() }).unwrap();
    let text = plimsoll_report::selection(&selected, false, 100);
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text}");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.starts_with(&selected.sentence), "{text}");
    let (before, after) = words.split_once("At the same time").unwrap();
    assert!(before.contains(&run.header.id) && after.contains("Differences"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&plimsoll_report::json(&selected)).unwrap();
    assert_eq!(json["format"], 1);
    assert_eq!(json["places"][0], selected.places[0].as_str());
}

#[test]
fn a_difference_with_a_statement_in_its_name_fits_into_a_line() {
    let mut run = driven::driven(&[1_000; 30]);
    let held = "waiting for a row of my_table, held by a session that ran UPDATE my_table SET n = n + ? WHERE id = ? AND \
                state = ? AND changed < ?";
    let values: Vec<f64> = (0..30).map(|second| if (10..12).contains(&second) { 4.0 } else { 0.0 }).collect();
    driven::sampled(&mut run, "store", "postgres", held, "", &values);
    let at = |second: u64| Some((driven::START_S + second) * 1_000_000_000);
    let part = Selection { from_ns: at(10), to_ns: at(12), ..Selection::default() };
    let text = plimsoll_report::selection(&explain(&run, &part).unwrap(), false, 100);
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let (_, table) = text.split_once("otherwise  ").unwrap();
    let words = table.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(&format!("2 / 28 ? store postgres {held}")), "{text}");
}

#[test]
fn actions_beside_a_part_of_a_run_are_facts_and_say_if_they_began_before_it() {
    let mut run = driven::driven(&[1_000; 30]);
    faulted::fault(&mut run, faulted::KILL, 9_200, Some(9_500));
    faulted::fault(&mut run, faulted::PAUSE, 11_200, Some(11_900));
    let at = |second: u64| Some((driven::START_S + second) * 1_000_000_000);
    let part = Selection { from_ns: at(10), to_ns: at(12), ..Selection::default() };
    let text = plimsoll_report::selection(&explain(&run, &part).unwrap(), false, 100);
    assert!(text.contains("\n  - kill of node 1, the primary, at 109.20 s, begun before these seconds\n"), "{text}");
    assert!(text.contains("\n  - pause of node 2 at 111.20 s\n"), "{text}");
}

#[test]
fn why_a_number_is_missing_stands_once_below_its_table() {
    let (a, mut b) = (study::complete(), study::complete());
    let why = "the private server does not take the statement: SELECT * FROM nothere WHERE id = 1".to_string();
    b.trials[1].phases[5].end.state = plimsoll_record::data::PhaseState::Failed(why.clone());
    let comparison = compare(&a, &b, &[], None);
    let text = plimsoll_report::comparison(&comparison, false, 80);
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(one_line.matches(&why).count(), 1, "{text}");
    assert!(one_line.contains("are missing in B: phase mixed failed: the private server"), "{text}");
    let markdown = plimsoll_report::comparison_markdown(&comparison);
    assert_eq!(markdown.matches("the private server").count(), 1, "{markdown}");
}

#[test]
fn a_comparison_of_nothing_is_undecided_in_every_form() {
    let [a, b] = study::apart();
    let comparison = compare(&a, &b, &[], None);
    let text = plimsoll_report::comparison(&comparison, false, 120);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.starts_with("UNDECIDED") && words.contains("the runs have no number in common"), "{text}");
    assert!(!words.contains("~ within noise"), "{text}");
    assert!(plimsoll_report::comparison_markdown(&comparison).contains("the runs have no number in common"));
    assert!(plimsoll_report::junit(&comparison).contains("skipped=\"1\""));
}

#[test]
fn a_missing_number_of_one_operation_type_names_the_type() {
    let (mut a, b) = (driven::driven(&[500; 12]), driven::driven(&[500; 12]));
    for slice in &mut a.trials[0].phases[0].slices {
        slice.histograms.push(study::served(2, study::times([(1_000_000, 10)])));
    }
    let text = plimsoll_report::comparison(&compare(&a, &b, &[], None), false, 200);
    let why = "mean, stddev, p50 and p90 of update are missing in B: phase mixed has no times of update operations";
    assert!(text.contains(why), "{text}");
}

#[test]
fn a_summary_for_a_pull_request_has_the_verdict_and_no_markup_of_others() {
    let markdown = plimsoll_report::markdown(&view(&study::broken()));
    std::fs::write(place().join("broken.md"), &markdown).unwrap();
    let (reasons, results) = markdown.split_once("\n\nResults:\n\n- ").unwrap();
    assert!(reasons.contains("❌ fail") && reasons.contains("lost 312 of"), "{markdown}");
    assert!(results.lines().nth(1).unwrap().starts_with("- "), "a list of its own: {markdown}");
    assert!(!markdown.contains("<img") && !markdown.contains("</script>"));
    let rows = markdown.lines().filter(|line| line.starts_with('|'));
    let bars = |line: &str| line.replace("\\|", "").matches('|').count();
    for table in rows.collect::<Vec<_>>().split(|line| line.starts_with("|--")) {
        if let [first, rest @ ..] = table {
            // The last line before a rule is the next table's head.
            let rest = &rest[..rest.len().saturating_sub(1)];
            assert!(rest.iter().all(|line| bars(line) == bars(first)), "{table:?}");
        }
    }
    assert!(plimsoll_report::markdown(&view(&recorded::searched())).contains("fjall carries 4,"));
}

/// A run whose recording says how large the data are, and what can hold them.
pub(crate) fn sized() -> Run {
    let mut run = study::complete();
    let settle = run.trials[0].phases.iter_mut().find(|phase| phase.header.name == "settle").unwrap();
    let cache = |name, subject: &str, value| PhaseResult { name, subject: subject.into(), value, n: 1 };
    settle.end.results.push(cache(ResultName::CacheBytes, "<shared>", 1e6));
    settle.end.push(ResultName::MemoryBytes, 8e9);
    run
}

#[test]
fn the_size_of_the_data_beside_what_can_hold_them_stands_in_every_form() {
    let run = sized();
    let view = view(&run);
    let words = "memory 7.45 GiB: all of it fits";
    let text = plimsoll_report::terminal(&view, false, 200);
    assert!(text.split("Space").nth(1).unwrap().contains(words), "{text}");
    let page = plimsoll_report::html(&view);
    let sentence = page.lines().find(|line| line.starts_with("<li>") && line.contains(words)).unwrap();
    assert!(sentence.contains("(&lt;shared&gt;)"), "{sentence}");
    assert!(!page.contains("memory bytes"), "it is not said once more among what the phase came to");
    assert!(plimsoll_report::markdown(&view).contains(words));
    let json: serde_json::Value = serde_json::from_str(&plimsoll_report::json(&view)).unwrap();
    assert_eq!(json["trials"][0]["size"]["cache_bytes"], 1_000_000);
}

#[test]
fn sizes_of_which_a_store_counted_no_byte_are_dashes() {
    // Without an index the study's stores tell 0 bytes of one.
    let text = plimsoll_report::terminal(&view(&study::complete()), false, 200);
    let space = text.split_once("\nSpace  ").unwrap().1.split("\n\n").next().unwrap();
    let plain = space.lines().find(|line| line.contains("index=none")).unwrap();
    assert!(plain.contains(" – ") && !space.contains(" 0 B"), "{space}");
}

#[test]
fn times_of_a_row_and_their_published_values_have_one_unit() {
    let text = plimsoll_report::terminal(&view(&study::complete()), false, 200);
    let row = |name: &str| text.lines().find(|line| line.starts_with(&format!("  {name}  "))).unwrap();
    // Loads of 412 and 221 ms beside minutes.
    let load = row("load, plain");
    for part in ["0.412 s", "0.221 s", "495 s CouchDB; 358 s Riak, 1 node"] {
        assert!(load.contains(part), "{load}");
    }
    assert!(!load.contains(" ms"), "{load}");
    let alone = row("load, the store's own index");
    assert!(alone.contains("534 ms"), "nothing was published of it: {alone}");
}

#[test]
fn an_event_that_lasted_has_both_its_times() {
    let mut run = study::complete();
    let errors = study::event(8_500_000_000, None, EventClass::ErrorCode, "7 × unknown timeout: no answer");
    run.events = vec![Event { until_ns: 15_400_000_000, ..errors.clone() }, errors];
    let text = plimsoll_report::terminal(&view(&run), false, 200);
    for at in ["  8.50 to 15.40 s  ", "  8.50 s  "] {
        assert!(text.lines().any(|line| line.contains(at) && line.contains("7 × unknown")), "{text}");
    }
}

#[test]
fn settings_that_differ_between_trials_of_a_store_name_the_trials() {
    let mut run = study::complete();
    let settings = |run: &Run| -> String {
        let text = plimsoll_report::terminal(&view(run), false, 200);
        let section = text.split_once("\nSettings  ").unwrap().1;
        section.lines().skip(1).take_while(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
    };
    let same = settings(&run);
    assert!(
        same.starts_with("  sqlite  3.50.2; journal_mode = wal (not delete), ") && !same.contains("index="),
        "{same}"
    );
    run.trials[1].header.settings.remove(0);
    let differ = settings(&run);
    assert!(
        differ.contains("  sqlite · index=none and sqlite · index=keyindex  3.50.2; journal_mode = wal "),
        "{differ}"
    );
    let own = differ.lines().find(|line| line.starts_with("  sqlite · index=own  ")).unwrap();
    assert!(own.contains("synchronous") && !own.contains("journal_mode"), "{own}");
    assert!(differ.contains("\n  fjall  "), "{differ}");
    // A version is told once.
    let text = plimsoll_report::terminal(&view(&run), false, 200);
    assert_eq!(text.matches("3.1.13").count(), 1, "{text}");
}

#[test]
fn every_column_of_the_csv_stands_in_the_book() {
    let run = study::complete();
    let csv = plimsoll_report::csv(slices(&run));
    let mut lines = csv.lines();
    let head: Vec<&str> = lines.next().unwrap().split(',').collect();
    let book = include_str!("../../../../docs/src/reports.md");
    let (_, told) = book.split_once("## CSV").unwrap();
    let told = told.split_once("\n## ").unwrap().0;
    let told: Vec<&str> = told.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    assert_eq!(head, told);
    // All kinds together and each of three, for every slice of three mixed phases.
    let mixed = run.trials.iter().flat_map(|trial| &trial.phases).filter(|phase| phase.header.name == "mixed");
    let wanted: usize = mixed.map(|phase| phase.slices.len() * 4).sum();
    assert_eq!(lines.clone().filter(|line| line.contains(",mixed,drive,")).count(), wanted);
    let is_warmup = |line: &&str| line.contains(",all,") && line.rsplit(',').nth(25) == Some("1");
    let warmup = slices(&run).filter(|row| row.op == "all" && row.warmup).count();
    assert!(warmup > 0 && lines.clone().filter(is_warmup).count() == warmup, "{warmup}");
    let sum: u64 = lines
        .filter(|line| line.contains(",mixed,") && line.contains(",all,"))
        .map(|line| line.rsplit(',').nth(19).unwrap().parse::<u64>().unwrap())
        .sum();
    let all = run.trials.iter().flat_map(|trial| &trial.phases).filter(|phase| phase.header.name == "mixed");
    let ended: u64 =
        all.flat_map(|phase| &phase.slices).flat_map(|slice| &slice.histograms).map(|one| one.histogram.len()).sum();
    assert_eq!(sum, ended);
}

#[test]
fn a_histogram_log_is_read_back_by_the_library_that_defines_it() {
    let run = study::complete();
    let log = plimsoll_report::hdr(&view(&run), slices(&run));
    std::fs::write(place().join("complete.hlog"), &log).unwrap();
    let mut lines = log.lines();
    assert!(lines.next().unwrap().starts_with("#[Logged with Plimsoll"));
    assert_eq!(lines.next().unwrap(), "#[Histogram log format version 1.3]");
    assert!(
        log.contains("#[StartTime: 1795293667.000") && log.contains("#[BaseTime: 1795293667.000"),
        "{}",
        &log[..400]
    );
    assert!(log.contains("\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\""));
    // The library's own reader does not know legends; the one that defines the format (Java) skips them.
    let without: String = log.split_inclusive('\n').filter(|line| !line.starts_with('"')).collect();
    let mut deserializer = Deserializer::new();
    let (mut whole, mut read) = (Histogram::<u64>::new(3).unwrap(), 0);
    let mut last = std::time::Duration::ZERO;
    for entry in IntervalLogIterator::new(without.as_bytes()) {
        let LogEntry::Interval(interval) = entry.unwrap() else { continue };
        assert!(interval.encoded_histogram().starts_with("HIST"), "V2, compressed");
        let bytes =
            base64::Engine::decode(&base64::engine::general_purpose::STANDARD, interval.encoded_histogram()).unwrap();
        let histogram: Histogram<u64> = deserializer.deserialize(&mut std::io::Cursor::new(bytes)).unwrap();
        assert!((interval.max() - histogram.max() as f64 / 1e6).abs() < 1e-3);
        match interval.tag() {
            None => {
                assert!(interval.start_timestamp() >= last);
                last = interval.start_timestamp();
                whole.add(&histogram).unwrap();
            }
            Some(tag) if tag.as_str().ends_with("/mixed/read") => read += histogram.len(),
            Some(_) => {}
        }
    }
    let counted = |kind: Option<u16>, mixed: bool| -> u64 {
        let phases =
            run.trials.iter().flat_map(|trial| &trial.phases).filter(|phase| !mixed || phase.header.name == "mixed");
        let slices = phases.flat_map(|phase| &phase.slices).filter(|slice| !slice.warmup);
        let all = slices.flat_map(|slice| &slice.histograms).filter(|one| kind.is_none_or(|kind| one.kind == kind));
        all.map(|one| one.histogram.len()).sum()
    };
    assert_eq!((whole.len(), read), (counted(None, false), counted(Some(1), true)));
}

/// Returns a run of two minutes with four slow seconds, in which a disk is busy.
pub fn slow_beside_a_disk() -> Run {
    let slow = [17, 35, 71, 100];
    let at = |usual: f64, other: f64| -> Vec<f64> {
        (0..120).map(|second| if slow.contains(&second) { other } else { usual }).collect()
    };
    let rates: Vec<u64> = at(1_000.0, 50.0).into_iter().map(|rate| rate as u64).collect();
    let mut run = driven::driven(&rates);
    driven::sampled(&mut run, "disk", "vda", "busy", "%", &at(12.0, 97.0));
    run
}

#[test]
fn findings_are_sentences_in_the_terminal_and_have_evidence_and_a_command_in_the_page() {
    let run = slow_beside_a_disk();
    let view = view(&run);
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = words(&plimsoll_report::terminal(&view, false, 100));
    let sentence = "4 of 4 slow moments begin within 1.00 s of a rise of disk vda to 97.0 % (usually 12.0 %)";
    assert!(text.contains(sentence) && !text.contains("--seed 2"), "{text}");
    let html = plimsoll_report::html(&view);
    assert!(html.contains("plimsoll run coupons --seed 2"), "the command that tests it");
    assert!(html.contains("Series that rose before slow moments") && html.contains("data-name=\"Disk vda\""));
    assert!(html.contains("What would speak against it: If disk vda had nothing to do with them, about "), "{html}");

    // More than three stand in the page alone.
    let mut many = view.clone();
    many.findings = vec![view.findings[0].clone(); 5];
    let text = words(&plimsoll_report::terminal(&many, false, 100));
    assert_eq!((text.matches(sentence).count(), text.matches("and 2 more in the page").count()), (3, 1), "{text}");
}

#[test]
fn a_level_has_the_series_that_changed_with_it_in_the_page() {
    let other = |at: usize, usual: f64, other: f64| if at < 50 { usual } else { other };
    let rates: Vec<u64> = (0..120).map(|at| other(at, 1_000.0, 600.0) as u64).collect();
    let mut run = driven::driven(&rates);
    let busy: Vec<f64> = (0..120).map(|at| other(at, 12.0, 70.0)).collect();
    driven::sampled(&mut run, "disk", "vda", "busy", "%", &busy);
    let html = plimsoll_report::html(&view(&run));
    assert!(html.contains("Series that changed at the same time") && html.contains("at this level"));
    assert!(!html.contains("Series that rose before slow moments"));
}

#[test]
fn nodes_of_a_cluster_have_a_line_each_on_one_scale_in_the_terminal() {
    let mut run = recorded::transactions();
    let alone = plimsoll_report::terminal(&view(&run), false, 100);
    assert!(!alone.contains('▁'), "of one server nothing is drawn");
    let phases = run.trials.iter().flat_map(|trial| &trial.phases);
    let driven = phases.filter(|phase| phase.header.kind == plimsoll_core::study::PhaseKind::Drive);
    let (starts, ends): (Vec<_>, Vec<_>) = driven.map(|phase| (phase.header.start_ns, phase.end.end_ns)).unzip();
    let (start_ns, end_ns) = (*starts.iter().min().unwrap(), *ends.iter().max().unwrap());
    let first = run.series.len() as u32;
    let names = ["fsyncs", "rows_read", "rows_sent", "locks"];
    for node in ["galera node 1", "galera node 2"] {
        run.series.extend(names.map(|name| study::series_of("store", node, name, "1/s")));
    }
    run.samples.retain(|sample| sample.at_ns <= start_ns);
    for at_s in 1..5u32 {
        let values = (0..8).map(|at| (first + at, if at < 4 { f64::from(at_s) * 25.0 } else { 100.0 })).collect();
        let at_ns = start_ns + u64::from(at_s) * (end_ns - start_ns) / 4;
        run.samples.push(Sample { at_ns, values, ..Sample::default() });
    }
    let text = plimsoll_report::terminal(&view(&run), false, 100);
    assert!(text.contains("fsyncs  0 to 100/s"), "{text}");
    let lines = || text.lines().filter(|line| line.trim_start().starts_with("galera node"));
    assert_eq!(lines().count(), 6, "{text}");
    let drawn = |line: &str| line.chars().filter(|letter| ('▁'..='█').contains(letter)).collect::<String>();
    let of_node = |node: &str| drawn(lines().find(|line| line.contains(node)).unwrap());
    assert_eq!((of_node("node 1"), of_node("node 2")), ("▃▅▆█".into(), "████".into()), "{text}");
    assert!(text.contains("and 1 counter more of each node"), "{text}");
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()));
    // A narrow terminal has no room for what is said behind a line.
    let narrow = plimsoll_report::terminal(&view(&run), false, 40);
    let widest = narrow.lines().filter(|line| line.contains("galera node")).map(|line| line.chars().count()).max();
    assert!(widest.unwrap() <= 40 && narrow.contains('█'), "{narrow}");
}

#[test]
fn lost_connections_have_their_number_and_the_times_of_the_first_and_the_last() {
    let mut run = study::complete();
    let phases = run.trials.iter_mut().flat_map(|trial| &mut trial.phases);
    let driven = phases.into_iter().find(|phase| phase.header.kind == PhaseKind::Drive).unwrap();
    let lost = PhaseResult { name: ResultName::LostConnections, subject: String::new(), value: 3.0, n: 1 };
    driven.end.results.push(lost);
    let said = |run: &Run, words: &str| {
        let view = view(run);
        for text in [plimsoll_report::terminal(&view, false, 140), plimsoll_report::html(&view)] {
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(text.contains(words), "{text}");
        }
    };
    said(&run, "3 connections were lost, at times that are not recorded");
    let phases = run.trials.iter_mut().flat_map(|trial| &mut trial.phases);
    let driven = phases.into_iter().find(|phase| phase.header.kind == PhaseKind::Drive).unwrap();
    let start_ns = driven.header.start_ns;
    driven.end.lost_between_ns = Some((start_ns + 2_100_000_000, start_ns + 3_400_000_000));
    said(&run, "3 connections were lost, from 2.10 s to 3.40 s after the phase began");
}
