//! Text, page and JSON without a browser.

use base64::Engine;
use plimsoll_analysis::view::{Chart, EventClass, GoalSeen, Line, Panel, Warning};
use plimsoll_analysis::{RunView, view};
use plimsoll_record::data::{AnswerSentence, Goal, GoalKind, PhaseKind, PhaseResult, ResultName, Run};
use serde_json::Value;

use crate::{faulted, recorded, study};

/// Returns the directory in which tests leave pages and screenshots for inspection.
pub fn place() -> std::path::PathBuf {
    let place = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/report-pages");
    std::fs::create_dir_all(&place).unwrap();
    place
}

#[test]
fn the_page_of_the_study_is_small_and_asks_for_nothing() {
    let html = plimsoll_report::html(&view(&study::complete()));
    assert!(html.len() < 400_000, "{} bytes", html.len());
    for reference in ["src=\"http", "href=\"http", "@import", "url(http", "fetch(", "XMLHttpRequest", "WebSocket"] {
        assert!(!html.contains(reference), "{reference}");
    }
    assert!(html.contains("default-src 'none'"));
    assert!(!html.contains("unsafe-inline"));
    assert!(!html.contains("style=\""), "the policy allows no style attributes");
}

/// Value of one reading that is far above all others; four digits keep it.
const PEAK: f64 = 98_760.0;

/// Returns a panel of `slices` values of noise over an hour, in `lines` lines.
fn noise(like: &Panel, lines: &[String], slices: u32, dice: &mut study::Dice) -> Panel {
    let slice_s = 3_600.0 / f64::from(slices);
    let mut values = || -> Vec<Option<f64>> { (0..slices).map(|_| Some(dice.exponential(100.0))).collect() };
    Panel {
        t_s: (1..=slices).map(|at| f64::from(at) * slice_s).collect(),
        lines: lines.iter().map(|name| Line::new(name, values())).collect(),
        ..like.clone()
    }
}

/// Fills the view of an hour with `slices` slices of a hundred sampled series, one of which has a peak.
fn slice(view: &mut RunView, slices: u32) {
    let mut dice = study::Dice(7);
    let plots = &mut view.plots;
    for panel in plots.latency.iter_mut().chain([&mut plots.throughput]) {
        let names: Vec<String> = panel.lines.iter().map(|line| line.name.clone()).collect();
        *panel = noise(panel, &names, slices, &mut dice);
    }
    let like = plots.host[0].clone();
    plots.host = (0..20)
        .map(|panel| {
            let names: Vec<String> = (0..5).map(|line| format!("series {panel}.{line}")).collect();
            noise(&like, &names, slices, &mut dice)
        })
        .collect();
    plots.host[7].lines[3].values[slices as usize / 3] = Some(PEAK);
}

/// Returns the data of the plots in a page.
fn unpacked(html: &str) -> Value {
    let packed = html.split_once("id=\"plots\">").unwrap().1.split_once("</script>").unwrap().0;
    let bytes = base64::engine::general_purpose::STANDARD.decode(packed).unwrap();
    serde_json::from_reader(flate2::read::ZlibDecoder::new(bytes.as_slice())).unwrap()
}

#[test]
fn the_page_of_an_hour_is_at_most_a_megabyte_and_keeps_the_peak_of_a_single_slice_and_its_json_keeps_all() {
    let mut view = view(&study::hour());
    let html = plimsoll_report::html(&view);
    assert!(html.len() <= 1_000_000, "{} bytes", html.len());
    std::fs::write(place().join("hour.html"), html).unwrap();
    for slices in [3_600, 36_000] {
        slice(&mut view, slices);
        if slices == 3_600 {
            let json: Value = serde_json::from_str(&plimsoll_report::json(&view)).unwrap();
            assert_eq!(json["plots"]["host"][7]["t_s"].as_array().unwrap().len(), 3_600);
            assert_eq!(json["plots"]["host"][7]["lines"][3]["high"], Value::Null);
        }
        let start = std::time::Instant::now();
        let html = plimsoll_report::html(&view);
        println!("an hour of {slices} slices: {} bytes in {:?}", html.len(), start.elapsed());
        assert!(html.len() <= 1_000_000, "{slices} slices: {} bytes", html.len());
        let panel = &unpacked(&html)["host"][7];
        let columns = panel["t_s"].as_array().unwrap().len();
        assert!((100..=600).contains(&columns), "{columns} columns");
        let high = panel["lines"][3]["high"].as_array().unwrap();
        assert_eq!(high.len(), columns);
        let highest = high.iter().filter_map(Value::as_f64).fold(0.0, f64::max);
        assert_eq!(highest, PEAK, "{slices} slices");
    }
}

#[test]
fn a_short_run_keeps_every_slice() {
    let short = unpacked(&plimsoll_report::html(&view(&study::complete())));
    let view = view(&study::complete());
    assert_eq!(short["throughput"]["t_s"].as_array().unwrap().len(), view.plots.throughput.t_s.len());
    assert_eq!(short["throughput"]["lines"][0]["high"], Value::Null);
}

#[test]
fn text_begins_with_the_verdict_and_keeps_its_width() {
    let view = view(&study::complete());
    let text = plimsoll_report::terminal(&view, false, 120);
    std::fs::write(place().join("complete.txt"), &text).unwrap();
    let place = "PASS  sqlite · index=own       17,000 ops/s · p50 9.29 µs · p95 36.0 µs · p99 3.18 ms · 0 errors · nothing lost";
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], place);
    assert!(lines[2].starts_with("      fjall · index=keyindex   39,900 ops/s · p50"), "{text}");
    assert!(lines[3].starts_with("      sqlite and fjall kept every promise"), "{text}");
    assert!(!text.contains('\u{1b}'));
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    assert!(text.lines().all(|line| line.trim_end() == line), "no blanks at the ends of lines");
    let line = text.lines().find(|line| line.contains("indexed / plain insert, index keys")).unwrap();
    for part in ["1.74 ×", "1.57 ×", "1.91 × Riak, 1 node"] {
        assert!(line.contains(part), "{line}");
    }
    let direction = "index=keyindex ÷ index=none; above 1, index=keyindex takes longer";
    assert!(text.contains(&format!("  - indexed / plain insert, index keys: {direction}\n")), "{text}");
    let html = plimsoll_report::html(&view);
    assert_eq!(html.matches(direction).count(), 2, "in its card, and below its name in the table");
    assert!(text.contains("Figures  durability: load at-end, mixed durable"));
    let goals = text.split_once("\nGoals  ").unwrap().1.split_once("\n\n").unwrap().0;
    let rows = goals.lines().filter(|line| line.contains("  held")).count();
    assert!(view.verdict.sentence.ends_with(&format!(" and {rows} goals held.")), "{text}");
    let colours = plimsoll_report::terminal(&view, true, 120);
    assert!(colours.contains('\u{1b}'));
    assert_eq!(without_colours(&colours), text, "colours change nothing else");
}

/// A run whose plan has an answer: a sentence that is said, and one that is noise.
fn answered() -> Run {
    let mut run = study::complete();
    let say = |say: &str| AnswerSentence { say: say.into(), only_if: None, agree: None, repeats: 1 };
    run.header.answers = vec![say("The query takes <{query by scan, warm}>."), say("{load, plain} to load.")];
    run
}

#[test]
fn the_answer_to_the_plans_question_is_the_first_line_of_every_form() {
    let run = answered();
    let note =
        "Undecided for sqlite (also fjall): `load, plain` rests on one load of 412 ms, which may be noise; repeat it";
    let view = view(&run);
    let first = &view.answer.as_ref().unwrap().sentence;
    assert!(first.starts_with("The query takes <sqlite 11.") && first.ends_with(">."), "{first}");
    let text = plimsoll_report::terminal(&view, false, 160);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], first);
    assert!(lines[1].starts_with(note) && lines[2].starts_with("PASS  "), "{text}");
    let markdown = plimsoll_report::markdown(&view);
    let escaped = first.replace('<', "&lt;").replace('>', "&gt;");
    assert!(markdown.starts_with(&format!("**{escaped}**\n\nUndecided for")), "{markdown}");
    let html = plimsoll_report::html(&view);
    let (head, rest) = html.split_once("<main").unwrap();
    assert!(head.contains(&format!("<p class=\"answered\"><b>{escaped}</b></p>\n<p class=\"answered\">")), "{head}");
    assert!(!rest.contains(&escaped), "it is said once");
    let json: Value = serde_json::from_str(&plimsoll_report::json(&view)).unwrap();
    assert_eq!((&json["answer"]["sentence"], &json["answer"]["state"]), (&first.as_str().into(), &"answered".into()));
}

#[test]
fn statements_of_transactions_have_a_table_in_text_and_page() {
    let view = view(&recorded::transactions());
    let text = plimsoll_report::terminal(&view, false, 140);
    std::fs::write(place().join("transactions.txt"), &text).unwrap();
    let steps = text.split_once("Steps within operations").unwrap().1;
    let row = steps.lines().find(|line| line.contains("update")).unwrap();
    assert!(row.contains("50.0 %") && row.contains("500 µs"), "{row}");
    let html = plimsoll_report::html(&view);
    let steps = html.split_once(">Steps within operations</h2>").unwrap().1;
    assert!(steps.split_once("</table>").unwrap().0.contains("50.0 %"));
}

#[test]
fn the_load_line_is_a_sentence_and_its_rungs() {
    let text = plimsoll_report::terminal(&view(&recorded::searched()), false, 140);
    std::fs::write(place().join("line.txt"), &text).unwrap();
    let (first, rest) = text.split_once('\n').unwrap();
    let percentiles: Vec<&str> = first.split(" · ").map(|part| part.split(' ').next().unwrap()).collect();
    assert!(first.starts_with("PASS  4,") && percentiles[1..] == ["p50", "p95", "p99", "goal"], "{first}");
    assert!(rest.trim_start().starts_with("fjall carries 4,"), "{text}");
    assert!(text.contains("Load line  fjall") && text.contains("closed loop") && text.contains("p99 ≤ 20.0 ms"));
    assert!(!text.contains("Latency under load"), "each rung stands in its search's table: {text}");
}

#[test]
fn a_search_through_faults_draws_their_costs_and_has_a_column_for_each_goal_on_them() {
    let mut searched = view(&recorded::searched());
    let line = &mut searched.lines[0];
    let cost = |name: &str| Chart { name: name.to_owned(), ..line.done.clone() };
    line.costs =
        vec![cost("Time without an answer after a fault"), cost("Time until throughput is back after a fault")];
    // The closed loop at the start has no faults.
    let outage = Goal { what: GoalKind::Outage, of: None, limit: 5e9, unit: "ns".into() };
    for rung in line.rungs.iter_mut().skip(1) {
        rung.goals.push(GoalSeen::new(&outage, Ok(3.1e9), 1));
    }
    let html = plimsoll_report::html(&searched);
    for chart in &searched.lines[0].costs {
        assert!(html.contains(&format!("data-name=\"{}\"", chart.name)), "{}", chart.name);
    }
    let text = plimsoll_report::terminal(&searched, false, 200);
    let rows = text.lines().filter(|row| row.contains(" 3.10 s "));
    assert_eq!(rows.count() + 1, searched.lines[0].rungs.len(), "{text}");
    let start = text.lines().find(|row| row.contains(" start ") && row.contains("closed loop")).unwrap();
    assert!(text.contains("outage ≤ 5.00 s") && start.contains(" – "), "{text}");
}

#[test]
fn what_was_checked_in_a_search_is_one_sentence_until_something_is_wrong() {
    let mut run = recorded::searched();
    let study = study::complete();
    run.trials[0].answers = study.trials[4].answers.clone();
    run.trials[0].ledgers = study.trials[4].ledgers.clone();
    let right = plimsoll_report::terminal(&view(&run), false, 140);
    let answers: u64 = run.trials[0].answers.iter().map(|answer| answer.counts.answers).sum();
    let read_back = run.trials[0].ledgers.iter().map(|ledger| ledger.read_back).max().unwrap();
    let [answers, read_back] = [answers, read_back].map(plimsoll_analysis::number::count);
    let sentence = format!(
        "In 1 trial all {answers} checked answers and {read_back} records read back were right and no acknowledged \
         write was lost."
    );
    assert!(right.contains(&sentence) && !right.contains("lost at most"), "{right}");
    run.trials[0].ledgers[0].lost = 3;
    let lost = plimsoll_report::terminal(&view(&run), false, 140);
    assert!(!lost.contains("no acknowledged write was lost") && lost.contains("lost at most"), "{lost}");
}

fn without_colours(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        out.push_str(before);
        rest = after.split_once('m').unwrap().1;
    }
    out.push_str(rest);
    out
}

#[test]
fn text_of_unhappy_runs_says_what_broke_and_where_it_ended() {
    let broken = plimsoll_report::terminal(&view(&study::broken()), false, 100);
    std::fs::write(place().join("broken.txt"), &broken).unwrap();
    assert!(broken.starts_with("FAIL  fjall · index=keyindex lost 312 of "), "{broken}");
    let answer = broken.lines().find(|line| line.trim_start().starts_with("fjall · index=keyindex ")).unwrap();
    assert!(answer.contains(" ops/s · p50 "), "{broken}");
    let words = broken.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("0 errors · 7 wrong records · 312 writes lost") && broken.contains("\n      sqlite · index=own"),
        "{broken}"
    );
    assert!(broken.contains("acknowledged writes lost") && broken.contains("MISSED"));
    assert!(words.contains("; 2 more promises were broken, and the run is incomplete for 1 reason."), "{words}");
    let verdict = broken.split_once("\n\n").unwrap().0;
    assert_eq!(verdict.lines().filter(|line| line.trim_start().starts_with("- ")).count(), 2 + 1, "{verdict}");
    let only = "Data was lost or wrong only with sqlite (index=own) and fjall";
    assert_eq!(words.matches(only).count(), 1, "{broken}");
    let page = plimsoll_report::html(&view(&study::broken()));
    assert_eq!(page.matches(only).count(), 2, "in the verdict, and above what was lost");
    let killed = plimsoll_report::terminal(&view(&study::killed()), false, 100);
    std::fs::write(place().join("killed.txt"), &killed).unwrap();
    let sentence = "            No promise was seen to break, but the run ended in phase mixed of trial 3 of 5";
    assert!(killed.starts_with("INCOMPLETE  ") && killed.contains(sentence), "{killed}");
    let mut run = study::broken();
    run.header.title = "\u{1b}]0;owned\u{7}\u{1b}[2J".into();
    run.trials[0].header.store_label = "a\u{1b}[31m\r\nb".into();
    let text = plimsoll_report::terminal(&view(&run), false, 100);
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "control characters reach the terminal");
}

#[test]
fn undecided_is_a_word_of_its_own_in_every_form() {
    use plimsoll_analysis::view::{GoalState, VerdictState};
    let mut view = view(&study::complete());
    view.verdict.state = VerdictState::Undecided;
    view.goals[0].state = GoalState::Undecided;
    let text = plimsoll_report::terminal(&view, false, 140);
    assert!(text.starts_with("UNDECIDED  ") && text.contains("  undecided"), "{text}");
    assert!(plimsoll_report::markdown(&view).starts_with("### ❔ undecided: "));
    assert!(plimsoll_report::html(&view).contains("<p class=\"word\">Undecided</p>"));
    let json: Value = serde_json::from_str(&plimsoll_report::json(&view)).unwrap();
    assert_eq!((&json["verdict"]["state"], &json["goals"][0]["state"]), (&"undecided".into(), &"undecided".into()));
}

#[test]
fn a_run_without_goals_and_checks_is_measured_in_every_form_and_passes_in_none() {
    let mut run = study::complete();
    run.header.goals.clear();
    for trial in &mut run.trials {
        trial.answers.clear();
        trial.ledgers.clear();
    }
    let view = view(&run);
    let text = plimsoll_report::terminal(&view, false, 140);
    assert!(text.starts_with("MEASURED  ") && text.contains("nothing was checked and no goal was set"), "{text}");
    let (markdown, html) = (plimsoll_report::markdown(&view), plimsoll_report::html(&view));
    assert!(markdown.starts_with("### 📏 measured: "), "{markdown}");
    assert!(html.contains("<section class=\"verdict \" aria-label=\"Verdict\">\n<p class=\"word\">Measured</p>"));
    let json: Value = serde_json::from_str(&plimsoll_report::json(&view)).unwrap();
    assert_eq!(json["verdict"]["state"], "measured");
    assert!(!text.contains("PASS") && !markdown.contains("✅") && !html.contains(">Pass<"));
}

#[test]
fn the_first_warning_stands_at_the_top_and_all_of_them_where_there_is_little_room() {
    let mut view = view(&study::complete());
    let warning = |text: &str| Warning { text: text.to_owned(), next: "Repeat the run.".to_owned() };
    view.warnings = vec![warning("The first.")];
    let top = |view: &RunView| {
        let (html, markdown) = (plimsoll_report::html(view), plimsoll_report::markdown(view));
        [("<nav", html), ("**Goals**", markdown)].map(|(end, form)| form.split_once(end).unwrap().0.to_owned())
    };
    let [html, markdown] = top(&view);
    assert!(html.contains("<a href=\"#warnings\">Warning</a>: The first.</p>"), "{html}");
    assert!(markdown.ends_with("\n**Warning**: The first.\n\n"), "{markdown}");
    view.warnings.push(warning("The second."));
    let [html, markdown] = top(&view);
    assert!(html.contains("</a>: The first. 1 more warning below.</p>") && !html.contains("The second."), "{html}");
    assert!(markdown.contains("**Warning**: The first. 1 more warning below.\n"), "{markdown}");

    let all = plimsoll_report::terminal(&view, false, 200);
    let verdict = all.lines().position(str::is_empty).unwrap();
    // A blank line, the title, and two lines for each.
    let (short, left_out) = plimsoll_report::terminal_short(&view, false, 200, verdict + 6);
    assert!(short.contains("The first.") && short.contains("The second."), "{short}");
    assert!(left_out.iter().any(|title| title == "Goals"), "{left_out:?}");
    view.warnings.clear();
    view.summary[0].parts[0].value = "p99 ≤ 20.0 ms, errors ≤ 1.00 % and outage ≤ 5.00 s".to_owned();
    assert!(top(&view)[0].contains("<dd class=\"words\">p99 "), "several goals are no large number");
    assert!(top(&view).iter().all(|top| !top.contains("Warning")));
}

#[test]
fn number_rate_and_largest_time_stand_at_each_point_of_a_sweep() {
    let view = view(&recorded::swept(&[]));
    let text = plimsoll_report::terminal(&view, false, 100);
    let table = text.split_once("Latency under load").unwrap().1;
    let head: Vec<&str> = table.lines().find(|line| line.starts_with("  trial")).unwrap().split_whitespace().collect();
    for column in ["trial", "op", "n", "rate", "p50", "p99", "max"] {
        assert!(head.contains(&column), "no {column} in {head:?}");
    }
    let html = plimsoll_report::html(&view);
    // Five repeats have no interval, and a column of dashes would look like one.
    assert!(!html.contains(">95 % interval</th>") && html.contains("A 95 % interval of a median needs 6 repeats"));
    let table = html.split_once("Latency under load").unwrap().1;
    for column in ["n", "rate", "max"] {
        assert!(table.contains(&format!(">{column}</th>")), "{column}");
    }
}

#[test]
fn latencies_stand_as_seen_and_undisturbed_in_every_form() {
    let run = study::paused(study::complete());
    let view = view(&run);
    let text = plimsoll_report::terminal(&view, false, 140);
    std::fs::write(place().join("paused.txt"), &text).unwrap();
    let table = text.split_once("Latency under load").unwrap().1;
    let row = |at: usize| table.lines().skip_while(|line| !line.starts_with("  trial")).nth(at).unwrap();
    assert!(row(1).contains("all operations") && row(2).contains("undisturbed"), "{}\n{}", row(1), row(2));
    assert!(row(1).contains("21.0 ms") && !row(2).contains("21.0 ms"), "{}\n{}", row(1), row(2));
    assert!(text.contains("the machine paused 2.00 % of the time"), "{text}");
    let html = plimsoll_report::html(&view);
    assert!(html.contains(">undisturbed</span>") && html.contains("the machine paused 2.00 % of the time"));
    assert!(html.contains("<span class=\"key pause\">pause</span>"));
    let json: Value = serde_json::from_str(&plimsoll_report::json(&view)).unwrap();
    let phases = json["trials"][4]["phases"].as_array().unwrap();
    let phase = phases.iter().find(|phase| phase["kind"] == "drive").unwrap();
    assert!(phase["pauses"]["paused_percent"].as_f64().is_some() && phase["latencies"][0]["undisturbed"].is_object());
    let markdown = plimsoll_report::markdown(&view);
    let seen = markdown.lines().position(|line| line.contains("all operations") && line.contains("21.0 ms")).unwrap();
    let below = markdown.lines().nth(seen + 1).unwrap();
    assert!(below.contains("| undisturbed | ") && !below.contains("21.0 ms"), "{markdown}");
    let cells = |line: &str| line.matches('|').count();
    assert_eq!(cells(below), cells(markdown.lines().nth(seen).unwrap()));

    // Where the witness was refused it is said, and nothing is undisturbed.
    let mut run = study::complete();
    let words = "pauses of the machine are not recorded here: no real-time priority";
    run.events[0].class = EventClass::Witness;
    run.events[0].text = words.to_string();
    let view = plimsoll_analysis::view(&run);
    let text = plimsoll_report::terminal(&view, false, 140);
    assert!(text.contains(words) && !text.contains("undisturbed"), "{text}");
    assert!(!plimsoll_report::markdown(&view).contains("undisturbed"));
    let html = plimsoll_report::html(&view);
    assert!(html.contains(words) && !html.contains(">undisturbed</span>"));
}

#[test]
fn processors_that_halt_at_once_are_named_with_the_doctor_in_text_and_page() {
    let mut run = study::paused(study::complete());
    let phases = run.trials.iter_mut().flat_map(|trial| &mut trial.phases);
    phases.filter(|phase| phase.header.kind == PhaseKind::Drive).for_each(study::open_loop);
    let words = "of the operations, and its idle processors do not poll before they halt.";
    let said = |run: &Run| {
        let view = view(run);
        [plimsoll_report::terminal(&view, false, 140), plimsoll_report::html(&view)].map(|text| {
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            (text.contains(words), text.contains("plimsoll doctor"))
        })
    };
    assert_eq!(said(&run), [(false, false); 2]);
    let facts = [("idle driver", "haltpoll"), ("guest_halt_poll_ns", "0")];
    run.header.environment.extend(facts.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert_eq!(said(&run), [(true, true); 2]);
}

#[test]
fn answers_by_status_and_their_sizes_stand_in_text_and_page() {
    let mut run = study::complete();
    let phases = run.trials.iter_mut().flat_map(|trial| &mut trial.phases);
    let driven = phases.into_iter().find(|phase| phase.header.kind == PhaseKind::Drive).unwrap();
    let of = |name, subject: &str, value, n| PhaseResult { name, subject: subject.to_owned(), value, n };
    driven.end.results.extend([
        of(ResultName::AnswerStatus, "200", 8_000.0, 8_000),
        of(ResultName::AnswerStatus, "404", 12.0, 12),
        of(ResultName::BodyMedianBytes, "", 612.0, 8_012),
        of(ResultName::BodyMaxBytes, "", 2048.0, 8_012),
    ]);
    let view = view(&run);
    let words = "answers 8,000 × 200, 12 × 404; bodies: median 612 B, max 2.00 KiB, n 8,012; warm-up included";
    for text in [plimsoll_report::terminal(&view, false, 140), plimsoll_report::html(&view)] {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!((text.matches(words).count(), text.contains("answer status")), (1, false), "{text}");
    }
    let json: Value = serde_json::from_str(&plimsoll_report::json(&view)).unwrap();
    assert!(json.to_string().contains("\"answer_status 404\""));
}

#[test]
fn json_is_the_view_and_has_the_documented_shape() {
    let view = view(&study::complete());
    let json = plimsoll_report::json(&view);
    std::fs::write(place().join("complete.json"), &json).unwrap();
    let value: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["format"], 1);
    assert_eq!(value["verdict"]["state"], "pass");
    let ratio = value["figures"][3]["rows"][0]["cells"][0]["value"].as_f64().unwrap();
    assert!((ratio - 0.718 / 0.412).abs() < 1e-9, "{ratio}");
    assert_eq!(value["goals"][0]["state"], "held");
    // Every field that the book names is there, and every field at the top is named by the book.
    let book = include_str!("../../../../docs/src/reports.md");
    let (_, shape) = book.split_once("## JSON").unwrap();
    let names: Vec<&str> = shape.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    // Not every run has everything.
    let paused = study::paused(study::complete());
    let pairs = [(1_000, 2_000); 8];
    let compared = crate::compared::compared(&crate::compared::spec(), &pairs);
    let mut killed_twice = faulted::killed_primary();
    faulted::fault(&mut killed_twice, faulted::KILL, 14_000, Some(15_000));
    killed_twice.trials[0].header.failover_time = Some(faulted::formula());
    let others = [
        answered(),
        recorded::searched(),
        recorded::transactions(),
        recorded::swept(&[]),
        crate::forms::sized(),
        paused,
        compared,
        killed_twice,
    ]
    .map(|run| serde_json::to_value(plimsoll_analysis::view(&run)).unwrap());
    let is_in = |value: &Value, name: &str| {
        let mut at = value;
        name.split('.').all(|part| {
            let next = match part.strip_suffix("[]") {
                Some(list) => at.get(list).and_then(|list| list.get(0)),
                None => at.get(part),
            };
            at = next.unwrap_or(&Value::Null);
            next.is_some()
        })
    };
    for name in &names {
        assert!(
            others.iter().chain([&value]).any(|value| is_in(value, name)),
            "{name} is in the book and not in the JSON"
        );
    }
    for name in value.as_object().unwrap().keys() {
        assert!(
            names.iter().any(|known| known.split(['.', '[']).next() == Some(name.as_str())),
            "{name} is in the JSON and not in the book"
        );
    }
}

#[test]
fn a_table_of_medians_says_of_how_many_trials() {
    let mut run = recorded::swept(&[100, 1_000]);
    let note = |run: &plimsoll_record::data::Run| {
        let html = plimsoll_report::html(&view(run));
        let rest = html.split_once("Operations a second; ").unwrap().1;
        rest.split_once(".</p>").unwrap().0.to_string()
    };
    assert_eq!(note(&run), "rows: clients, columns: ops; medians of 3 trials each");
    run.trials.remove(0);
    assert_eq!(note(&run), "rows: clients, columns: ops; medians of 2 to 3 trials");
    run.trials.retain(|trial| trial.header.labels["repeat"] == "2");
    assert_eq!(note(&run), "rows: clients, columns: ops; one trial each");
}

#[test]
fn a_short_report_has_its_lines_and_names_what_it_leaves_out() {
    let runs = [study::complete(), answered(), recorded::searched(), recorded::transactions(), recorded::swept(&[])];
    for view in runs.iter().map(view) {
        let all = plimsoll_report::terminal(&view, false, 100);
        let (short, left_out) = plimsoll_report::terminal_short(&view, false, 100, 36);
        assert!(short.lines().count() <= 36, "{short}");
        assert_eq!(short.lines().next(), all.lines().next());
        for (title, is_there) in [("Warnings", !view.warnings.is_empty()), ("Goals", !view.goals.is_empty())] {
            let is_title = |line: &str| line == title || line.starts_with(&format!("{title}  "));
            assert_eq!(short.lines().any(is_title), is_there, "{short}");
        }
        assert!(left_out.iter().any(|title| title == "Settings"), "{left_out:?}");
        for line in short.lines().filter(|line| !line.contains("more line")) {
            assert!(all.contains(line), "{line}");
        }
    }
}
