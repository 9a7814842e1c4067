//! Faults in text, page and JSON.

use plimsoll_analysis::view;
use plimsoll_analysis::view::{
    CountSpread, FaultNodesView, FaultSilenceView, FaultSpread, SilentNodeView, SpreadBounds,
};
use plimsoll_core::ClientSet;
use plimsoll_record::data::{
    AnswerCheck, DuplicateReads, Figure, Goal, GoalKind, LedgerCheck, LostWrites, PublishedValue, StaleReads,
    UnknownWrites,
};
use serde_json::{Value, json};

use crate::pages::place;
use crate::{faulted, study};

#[test]
fn faults_have_a_table_in_every_form_and_those_of_the_same_words_another() {
    let mut run = faulted::killed_primary();
    let view = view(&run);
    let text = plimsoll_report::terminal(&view, false, 140);
    std::fs::write(place().join("faults.txt"), &text).unwrap();
    let row = |text: &str| -> Vec<String> {
        let table = text.split_once("\nFaults  ").unwrap().1;
        let row = table.lines().find(|line| line.contains("kill of node 1, the primary")).unwrap();
        row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
    };
    let wanted =
        ["kill of node 1, the primary", "108.00 s", "5.00 ms", "20.0 ms", "1.37 s", "1.37 s", "0", "8", "1.30 s"];
    assert_eq!(row(&text), wanted);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("observation ended; the phase began at 100.00 s fault at took"), "{text}");
    assert!(plimsoll_report::terminal_short(&view, false, 100, 34).0.contains("\nFaults  "));
    let markdown = plimsoll_report::markdown(&view);
    let cells = format!("| {} |", wanted.join(" | "));
    assert!(markdown.contains(&cells), "{markdown}");
    let html = plimsoll_report::html(&view);
    std::fs::write(place().join("faults.html"), &html).unwrap();
    let section = html.split_once("<section id=\"faults\"").unwrap().1.split_once("</section>").unwrap().0;
    assert!(section.contains("<br><small>kill primary at 40%</small>"), "{section}");
    let json: Value = serde_json::from_str(&plimsoll_report::json(&view)).unwrap();
    let one = &json["faults"][0];
    assert_eq!((&one["kind"], &one["outage_s"], &one["outage_open"]), (&"kill".into(), &1.37.into(), &false.into()));

    // A fault without an end, and one of which nothing is known.
    run.trials[0].phases[0].slices.iter_mut().skip(8).for_each(|slice| slice.ticks.fill(Default::default()));
    let open = row(&plimsoll_report::terminal(&plimsoll_analysis::view(&run), false, 140));
    assert_eq!(open[3..6], ["< 10 ms", "> 12.0 s", "> 12.0 s"]);
    // Throughput is observed until the next fault began.
    faulted::fault(&mut run, faulted::PAUSE, 14_000, Some(15_000));
    let until_next = row(&plimsoll_report::terminal(&plimsoll_analysis::view(&run), false, 140));
    assert_eq!(until_next[3..6], ["< 10 ms", "> 12.0 s", "> 6.00 s"]);
    run.trials[0].faults.pop();
    run.trials[0].phases[0].slices.iter_mut().for_each(|slice| slice.ticks.clear());
    (run.trials[0].faults[0].taken_ns, run.trials[0].faults[0].healed_ns) = (None, None);
    let not_known = row(&plimsoll_report::terminal(&plimsoll_analysis::view(&run), false, 140));
    assert_eq!(not_known[2..], ["–", "–", "–", "–", "0", "8", "–"]);

    let mut owing = faulted::killed_primary();
    owing.trials[0].phases[0].slices[8].due_unsent = 800;
    let what = GoalKind::named("p99").unwrap();
    owing.header.goals = vec![Goal { what, of: None, limit: 5e6, unit: "ns".into() }];
    owing.trials[0].phases[0].slices[9].histograms = vec![study::served(1, study::times([(9_000_000, 900)]))];
    let owing = row(&plimsoll_report::terminal(&plimsoll_analysis::view(&owing), false, 180));
    // The goal held after three seconds, and the backlog was gone after two.
    assert_eq!(owing[4..9], ["1.37 s", "1.37 s", "3.00 s", "2.00 s", "0"]);

    let mut checked = faulted::killed_primary();
    let fates = UnknownWrites { at_ns: faulted::at_ns(8_020), written: 5, not_written: 2, not_known: 0 };
    checked.trials[0].ledgers.push(LedgerCheck { unknown_writes: vec![fates], ..LedgerCheck::default() });
    let checked = row(&plimsoll_report::terminal(&plimsoll_analysis::view(&checked), false, 180));
    assert_eq!(checked[6..9], ["0", "8", "5 written, 2 not written"]);
    let mut affected = faulted::killed_primary();
    let mut clients = ClientSet::none_of(64);
    [1, 5, 63].into_iter().for_each(|client| clients.insert(client));
    affected.trials[0].phases[0].slices[8].affected = Some(clients);
    let affected = row(&plimsoll_report::terminal(&plimsoll_analysis::view(&affected), false, 180));
    assert_eq!(affected[5..8], ["1.37 s", "3 of 64", "0"]);
    let mut divided = plimsoll_analysis::view(&faulted::killed_primary());
    let parts = FaultSilenceView { silent: 21, of: 64, median_s: 1.9, longest_s: 2.1, longest_open: false };
    divided.faults[0].key_parts = Some(parts);
    let cells = row(&plimsoll_report::terminal(&divided, false, 180));
    assert_eq!(cells[5..8], ["1.37 s", "21 of 64, 2.10 s", "0"]);
    divided.faults[0].clients = Some(FaultSilenceView { silent: 2, longest_open: true, ..parts });
    let node = SilentNodeView { name: "node 2".to_owned(), seconds: 0.4, open: false };
    divided.faults[0].nodes = Some(FaultNodesView { silent: vec![node], of: 3 });
    let cells = row(&plimsoll_report::terminal(&divided, false, 220));
    assert_eq!(cells[6..9], ["2 of 64, > 2.10 s", "1 of 3, 400 ms", "21 of 64, 2.10 s"]);
    let json: Value = serde_json::from_str(&plimsoll_report::json(&divided)).unwrap();
    let one = &json["faults"][0];
    assert_eq!((&one["key_parts"]["silent"], &one["clients"]["longest_open"]), (&21.into(), &true.into()));
    assert_eq!((&one["clients"]["median_s"], &one["nodes"]["silent"][0]["open"]), (&1.9.into(), &false.into()));
    let mut stale = faulted::killed_primary();
    let reads = StaleReads { at_ns: faulted::at_ns(8_020), server: "node 2".into(), records: 12 };
    stale.trials[0].answers.push(AnswerCheck { stale: vec![reads], ..AnswerCheck::default() });
    let text = plimsoll_report::terminal(&plimsoll_analysis::view(&stale), false, 180);
    assert_eq!(row(&text)[6..], ["0", "8", "12", "1.30 s"]);
    let copies = DuplicateReads { at_ns: faulted::at_ns(8_020), records: 3 };
    stale.trials[0].answers.push(AnswerCheck { duplicates: vec![copies], ..AnswerCheck::default() });
    let text = plimsoll_report::terminal(&plimsoll_analysis::view(&stale), false, 180);
    assert_eq!(row(&text)[6..], ["0", "8", "12", "3", "1.30 s"]);

    let mut run = faulted::killed_primary();
    faulted::fault(&mut run, faulted::KILL, 14_000, Some(15_000));
    let view = plimsoll_analysis::view(&run);
    let text = plimsoll_report::terminal(&view, false, 200);
    assert!(text.contains("no client"), "{text}");
    let cells = ["kill primary at 40%", "no answer", "2", "0 s", "685 ms", "1.37 s", "none below n = 6"];
    let has_cells = |line: &str| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).eq(cells);
    assert!(text.lines().any(has_cells), "{text}");
    let markdown = plimsoll_report::markdown(&view);
    assert!(markdown.contains(&format!("| {} |", cells.join(" | "))), "{markdown}");
    assert!(plimsoll_report::html(&view).contains("95 % interval of the median"));
    let json: Value = serde_json::from_str(&plimsoll_report::json(&view)).unwrap();
    let outage = &json["fault_repeats"][0]["outage"];
    assert_eq!((&outage["n"], &outage["most_s"], &outage["interval_s"]), (&2.into(), &1.37.into(), &Value::Null));
}

#[test]
fn lost_writes_have_a_column_beside_their_faults_and_their_sum_below_in_every_form() {
    let mut run = faulted::killed_primary();
    assert!(!plimsoll_report::markdown(&view(&run)).contains("lost writes"));
    let lost = [(7_990, 3), (8_020, 12)].map(|(at_ms, writes)| LostWrites { at_ns: faulted::at_ns(at_ms), writes });
    let check = LedgerCheck { complete: true, lost: 16, lost_writes: lost.to_vec(), ..LedgerCheck::default() };
    run.trials[0].ledgers.push(check);
    let view = view(&run);
    let (terminal, markdown) = (plimsoll_report::terminal(&view, false, 200), plimsoll_report::markdown(&view));
    assert!(markdown.contains("| 0 | 8 | **12, 3 before** | 1.30 s |"), "{markdown}");
    let sum = "16 acknowledged writes lost, by the time of their acknowledgement: 12 in the effect of a fault, 3 \
               before a fault, 1 not known";
    for text in [terminal, markdown, plimsoll_report::html(&view)] {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("lost writes") && text.contains(sum), "{text}");
    }
    let json: Value = serde_json::from_str(&plimsoll_report::json(&view)).unwrap();
    assert_eq!(json["faults"][0]["lost"], json!({"in_effect": 12, "before": 3, "before_s": 0.01}));
    assert_eq!((&json["fault_losses"][0]["lost"], &json["fault_losses"][0]["not_known"]), (&16.into(), &1.into()));
}

#[test]
fn the_spread_of_repeated_faults_is_before_each_of_them_and_of_many_the_page_folds_these() {
    let mut run = faulted::killed_primary();
    for repeat in 1..26_u32 {
        let mut trial = run.trials[0].clone();
        trial.header.ordinal = repeat;
        trial.header.labels.insert("repeat".into(), repeat.to_string());
        trial.faults[0].trial = repeat;
        run.trials.push(trial);
    }
    let section =
        |text: &str, begin: &str, end: &str| text.split_once(begin).unwrap().1.split_once(end).unwrap().0.to_owned();
    let page = section(&plimsoll_report::html(&view(&run)), "<section id=\"faults\"", "</section>");
    let (spread, each) = page.split_once("<details><summary>Each of the 26 faults</summary>").unwrap();
    assert!(spread.contains("kill primary at 40%") && !spread.contains("kill of node 1"), "{spread}");
    assert_eq!(each.matches("kill of node 1, the primary").count(), 26);
    let text = section(&plimsoll_report::terminal(&view(&run), false, 200), "\nFaults  ", "\n\n");
    let (spread, each) = text.split_once("kill of node 1").unwrap();
    assert!(spread.contains("kill primary at 40%"), "{spread}");
    assert!(each.ends_with("  and 2 more in the page"), "{each}");

    // Of few, all are in both.
    run.trials.truncate(3);
    let page = section(&plimsoll_report::html(&view(&run)), "<section id=\"faults\"", "</section>");
    assert!(!page.contains("<details>") && page.contains("kill of node 1, the primary"), "{page}");
}

#[test]
fn the_faults_of_a_plan_are_before_the_findings_unless_these_name_other_causes() {
    let mut killed = view(&faulted::killed_primary());
    let sections = |view: &plimsoll_analysis::RunView| {
        let html = plimsoll_report::html(view);
        let sections = html.split("<section id=\"").skip(1).filter_map(|part| part.split('"').next());
        let sections = sections.filter(|id| ["findings", "faults", "figures"].contains(id));
        sections.map(str::to_owned).collect::<Vec<_>>()
    };
    let mut with_figures = view(&study::complete());
    (with_figures.faults, with_figures.findings) = (killed.faults.clone(), killed.findings.clone());
    assert_eq!(sections(&with_figures), ["faults", "figures", "findings"]);
    with_figures.findings[0].rule = "cause";
    assert_eq!(sections(&with_figures), ["findings", "faults", "figures"]);
    let places = |text: &str| ["\nFaults  ", "\nFindings  "].map(|title| text.find(title).unwrap());
    let [faults, findings] = places(&plimsoll_report::terminal(&killed, false, 100));
    assert!(faults < findings);
    killed.findings[0].rule = "cause";
    let [faults, findings] = places(&plimsoll_report::terminal(&killed, false, 100));
    assert!(faults > findings);
}

#[test]
fn slow_moments_in_the_effects_of_faults_are_a_table_of_trials_and_phases() {
    let mut run = faulted::killed_primary();
    for (at, store) in [(1_u32, "etcd"), (2, "etcd")] {
        let mut trial = run.trials[0].clone();
        (trial.header.ordinal, trial.header.store_label, trial.faults[0].trial) = (at, store.into(), at);
        trial.header.labels.insert("repeat".into(), at.to_string());
        run.trials.push(trial);
    }
    let html = plimsoll_report::html(&view(&run));
    let section = html.split_once("<section id=\"findings\"").unwrap().1.split_once("</section>").unwrap().0;
    assert_eq!(section.matches("class=\"finding\"").count(), 1, "{section}");
    let rows =
        ["<th scope=\"row\">fjall</th><td class=\"n\">1</td>", "<th scope=\"row\">etcd</th><td class=\"n\">2</td>"];
    assert!(rows.iter().all(|row| section.contains(row)), "{section}");
}

#[test]
fn a_time_without_answers_is_a_short_number_with_its_time_below() {
    let html = plimsoll_report::html(&view(&faulted::killed_primary()));
    let part = "<div><dt>no answer at 108 s, around then: kill of node 1, the primary, at 108.00 s</dt>\
                <dd class=\"bad\">1.37 s</dd></div>";
    assert!(html.contains(part), "{html}");
}

#[test]
fn a_time_without_answers_that_had_not_ended_is_a_lower_bound_in_every_form() {
    let mut run = faulted::without_end();
    let published = PublishedValue { value: 1.0, of: "another".into(), at: std::collections::BTreeMap::new() };
    let (name, formula) = ("silence".to_owned(), "mixed.outage".to_owned());
    run.header.figures = vec![Figure { name, unit: "s".into(), formula, published: vec![published] }];
    let view = view(&run);
    let text = plimsoll_report::terminal(&view, false, 180);
    assert!(text.contains("no answer for more than 12.0 s at 108 s"), "{text}");
    let is_figure = |line: &str| line.contains("silence") && line.contains("> 12.0 s") && line.contains("another");
    assert!(text.lines().any(is_figure), "{text}");
    assert!(plimsoll_report::markdown(&view).contains("no answer for more than 12.0 s at 108 s"));
    let html = plimsoll_report::html(&view);
    assert!(html.contains("<dd class=\"bad\">&gt; 12.0 s</dd>"), "{html}");
    let json: Value = serde_json::from_str(&plimsoll_report::json(&view)).unwrap();
    let outage = &json["summary"][0]["outage"];
    assert_eq!((&outage["seconds"], &outage["open"]), (&12.0.into(), &true.into()), "{outage}");
    assert_eq!(json["figures"][0]["rows"][0]["cells"][0]["open"], true);
}

#[test]
fn repeated_faults_have_rows_of_the_silent_parts_of_the_keys_if_a_store_divides_them() {
    let mut run = faulted::killed_primary();
    faulted::fault(&mut run, faulted::KILL, 14_000, Some(15_000));
    let mut view = view(&run);
    let text = |view: &plimsoll_analysis::view::RunView| plimsoll_report::terminal(view, false, 200);
    assert!(!text(&view).contains("silent parts") && !text(&view).contains("for a part"), "{}", text(&view));
    let repeats = &mut view.fault_repeats[0];
    repeats.silent_parts = Some(CountSpread { n: 2, least: 0.0, median: 10.5, most: 21.0, interval: None });
    repeats.part_silence = Some(FaultSpread {
        n: 2,
        least_s: Some(0.0),
        median_s: Some(1.05),
        most_s: None,
        interval_s: None,
        above_s: SpreadBounds { most: Some(2.1), ..SpreadBounds::default() },
        open: 1,
        timeouts: 0,
    });
    repeats.lost = Some(CountSpread { n: 2, least: 0.0, median: 2.0, most: 4.0, interval: None });
    for (effect, values) in [
        ("silent parts of the keys", ["0", "10.5", "21"]),
        ("no answer for a part", ["0 s", "1.05 s", "> 2.10 s"]),
        ("lost writes", ["0", "2", "4"]),
    ] {
        let cells = ["kill primary at 40%", effect, "2", values[0], values[1], values[2], "none below n = 6"];
        let has_cells = |line: &str| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).eq(cells);
        assert!(text(&view).lines().any(has_cells), "{cells:?}\n{}", text(&view));
        let markdown = plimsoll_report::markdown(&view);
        let row = format!("| {} |", cells.join(" | ").replace('>', "&gt;"));
        assert!(markdown.contains(&row), "{markdown}");
    }
    let json: Value = serde_json::from_str(&plimsoll_report::json(&view)).unwrap();
    let repeats = &json["fault_repeats"][0];
    assert_eq!((&repeats["silent_parts"]["median"], &repeats["part_silence"]["open"]), (&10.5.into(), &1.into()));
}

#[test]
fn times_of_repeated_faults_that_did_not_end_are_null_beside_their_lower_bounds() {
    let mut run = faulted::killed_primary();
    let ended = run.trials[0].clone();
    for repeat in 1..7_u32 {
        let mut trial = if repeat < 6 { ended.clone() } else { faulted::without_end().trials.remove(0) };
        trial.header.ordinal = repeat;
        trial.header.labels.insert("repeat".into(), repeat.to_string());
        trial.faults[0].trial = repeat;
        run.trials.push(trial);
    }
    let json: Value = serde_json::from_str(&plimsoll_report::json(&view(&run))).unwrap();
    let outage = &json["fault_repeats"][0]["outage"];
    assert_eq!((&outage["n"], &outage["open"]), (&7.into(), &1.into()), "{outage}");
    assert_eq!((&outage["interval_s"], &outage["most_s"]), (&json!([1.37, null]), &Value::Null), "{outage}");
    let above = json!({"least": null, "median": null, "most": 12.0, "low": null, "high": 12.0});
    assert_eq!(outage["above_s"], above, "{outage}");
    // Parts of the spread that are not null have no bound.
    assert_eq!((&outage["least_s"], &outage["median_s"]), (&1.37.into(), &1.37.into()), "{outage}");
}

#[test]
fn repeated_faults_that_were_noticed_at_once_are_told_by_the_tick() {
    let mut run = faulted::killed_primary();
    run.trials[0].phases[0].slices.iter_mut().skip(8).for_each(|slice| slice.ticks.fill(Default::default()));
    let mut again = run.trials[0].clone();
    (again.header.ordinal, again.faults[0].trial) = (1, 1);
    again.header.labels.insert("repeat".into(), "1".into());
    run.trials.push(again);
    let text = plimsoll_report::terminal(&plimsoll_analysis::view(&run), false, 200);
    let cells = ["kill primary at 40%", "noticed", "2", "< 10 ms", "< 10 ms", "< 10 ms", "none below n = 6"];
    let has_cells = |line: &str| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).eq(cells);
    assert!(text.lines().any(has_cells), "{text}");
}

#[test]
fn a_failover_stands_beside_the_formula_of_its_store_in_every_form() {
    let view = plimsoll_analysis::view(&faulted::failed_over(faulted::KILL, 300, Some(15_000)));
    let place = "900 ms to 2.10 s: 900 ms above";
    let formula = "fjall's formula: one to two time-outs (1 s): 900 ms to 2.10 s after a kill, 1.50 s to 2.50 s after a \
                   pause or a cut; 0 of 1 failover inside (https://example.org/failover)";
    let forms =
        [plimsoll_report::terminal(&view, false, 200), plimsoll_report::markdown(&view), plimsoll_report::html(&view)];
    for text in forms {
        let text = text.replace("&#39;", "'").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(place), "{text}");
        assert!(text.contains(formula), "{text}");
    }
    let json: Value = serde_json::from_str(&plimsoll_report::json(&view)).unwrap();
    assert_eq!((&json["faults"][0]["failover"]["state"], &json["formulas"][0]["inside"]), (&"more".into(), &0.into()));
    // A store without a formula has no column for it.
    let text = plimsoll_report::terminal(&plimsoll_analysis::view(&faulted::killed_primary()), false, 200);
    assert!(!text.contains("  formula"), "{text}");
}

#[test]
fn sentences_about_several_faults_stand_once_below_the_table() {
    let mut found = view(&faulted::killed_primary());
    let note = "Clients wait up to 15.0 s to connect";
    found.faults[0].notes = vec![note.to_owned()];
    let again = found.faults[0].clone();
    found.faults.push(again);
    for text in [plimsoll_report::terminal(&found, false, 180), plimsoll_report::markdown(&found)] {
        assert_eq!(text.matches(note).count(), 1, "{text}");
    }
}
