//! The page: one file without any network. Text and tables stand without JavaScript; the plots' data is deflated and
//! base64 in the page and unpacked by the browser.
//!
//! A content security policy names the page's own scripts and styles by their hashes: whatever a text from a store
//! looks like, nothing else runs and nothing is fetched.

mod ab;
mod bars;
mod chart;
mod line;
mod markup;
mod results;
mod sweep;
mod trials;

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use plimsoll_analysis::RunView;
use plimsoll_analysis::number;
use serde_json::Value;
use sha2::{Digest, Sha256};

use self::markup::{Text, esc, list, pairs};

const UPLOT_JS: &str = include_str!("../../assets/uPlot.iife.min.js");
const UPLOT_CSS: &str = include_str!("../../assets/uPlot.min.css");
const PAGE_JS: &str = include_str!("../../assets/page.js");
const PAGE_CSS: &str = include_str!("../../assets/page.css");
/// A Plimsoll mark: the ring and the line through it.
const MARK: &str = "<svg class=\"mark\" viewBox=\"0 0 32 32\" aria-hidden=\"true\"><circle cx=\"16\" cy=\"16\" r=\"10\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"3\"/><path d=\"M1 16h30\" stroke=\"currentColor\" stroke-width=\"3\"/></svg>";
const ICON: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E%3Ccircle cx='16' cy='16' r='10' fill='none' stroke='%231f6f8b' stroke-width='3'/%3E%3Cpath d='M1 16h30' stroke='%231f6f8b' stroke-width='3'/%3E%3C/svg%3E";

/// See [`crate::html`].
pub fn page(view: &RunView) -> String {
    let policy = format!(
        "default-src 'none'; script-src '{}' '{}'; style-src '{}' '{}'; img-src data:; base-uri 'none'; form-action 'none'",
        hash(UPLOT_JS),
        hash(PAGE_JS),
        hash(UPLOT_CSS),
        hash(PAGE_CSS),
    );
    let run = &view.run;
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"generator\" content=\"Plimsoll {version}\">\n\
         <title>{title} · {id}</title>\n<link rel=\"icon\" href=\"{ICON}\">\n\
         <style>{UPLOT_CSS}</style>\n<style>{PAGE_CSS}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#main\">Skip to the verdict</a>\n",
        version = Text(&run.plimsoll_version),
        title = Text(&run.title),
        id = Text(&run.id),
    );
    out.push_str(&format!(
        "<header>\n<p class=\"brand\">{MARK}<span>Plimsoll</span></p>\n<h1>{}</h1>\n",
        Text(&run.title)
    ));
    if !run.question.is_empty() {
        out.push_str(&format!("<p class=\"question\">{}</p>\n", Text(&run.question)));
    }
    out.push_str(&format!(
        "<p class=\"about\">{} · {} · {} · seed {} · run <code>{}</code></p>\n</header>\n",
        Text(&run.started),
        esc(&number::list(&view.stores)),
        number::seconds(run.seconds),
        run.seed,
        Text(&run.id),
    ));
    out.push_str("<main id=\"main\">\n");
    out.push_str(&results::verdict(view));
    out.push_str(&results::headlines(view));
    let mut charts = chart::Charts::default();
    let sections = [
        ("ab", "In turn", "Two sides in turn", ab::ab(view, &mut charts)),
        ("line", "Load line", "The load line", line::lines(view, &mut charts)),
        ("sweep", "Sweep", "Throughput over the sweep", sweep::sweeps(view, &mut charts)),
        ("stalls", "Stalls", "Seconds that the mean hides", stalls(view)),
        ("figures", "Figures", "Figures beside the published ones", results::figures(view)),
        ("goals", "Goals", "Goals", results::goals(view)),
        ("truth", "Truth", "Answers and ledger", results::truth(view)),
        ("time", "Over time", "Over time", plots(view)),
        ("latency", "Latency", "Latency under load", results::latencies(view)),
        ("trials", "Trials", "Trials", trials::trials(view)),
        ("doubts", "Doubts", "Doubts and events", doubts(view)),
        ("setup", "Setup", "Configuration and environment", setup(view)),
    ];
    out.push_str("<nav aria-label=\"Sections\"><ul>");
    for (id, short, _, body) in &sections {
        if !body.is_empty() {
            out.push_str(&format!("<li><a href=\"#{id}\">{short}</a></li>"));
        }
    }
    out.push_str("</ul></nav>\n");
    for (id, _, title, body) in &sections {
        if !body.is_empty() {
            out.push_str(&format!(
                "<section id=\"{id}\" aria-labelledby=\"{id}-title\">\n<h2 id=\"{id}-title\">{title}</h2>\n{body}</section>\n"
            ));
        }
    }
    out.push_str("</main>\n<footer>\n");
    out.push_str(&format!(
        "<p>Made by Plimsoll {} from the recording of run <code>{}</code>; this page needs no network.</p>\n</footer>\n",
        Text(&run.plimsoll_version),
        Text(&run.id)
    ));
    out.push_str(&format!(
        "<script type=\"application/octet-stream\" id=\"plots\">{}</script>\n\
         <script>{UPLOT_JS}</script>\n<script>{PAGE_JS}</script>\n</body>\n</html>\n",
        packed(view, charts.data())
    ));
    out
}

/// A source expression for a content security policy.
fn hash(source: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(source.as_bytes())))
}

/// The plots' data: JSON, zlib, base64.
fn packed(view: &RunView, charts: Value) -> String {
    let mut plots = serde_json::to_value(&view.plots).unwrap_or_default();
    if let Some(plots) = plots.as_object_mut() {
        plots.insert("charts".to_string(), charts);
    }
    shorten(&mut plots);
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    // Neither can fail: the writer is memory.
    let bytes = encoder.write_all(plots.to_string().as_bytes()).and_then(|()| encoder.finish()).unwrap_or_default();
    STANDARD.encode(bytes)
}

/// Seven digits are more than any screen shows; the JSON report has all of them.
fn shorten(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(shorten),
        Value::Object(fields) => fields.values_mut().for_each(shorten),
        Value::Number(number) if number.is_f64() => {
            let short = number.as_f64().and_then(|number| format!("{number:.6e}").parse::<f64>().ok());
            if let Some(short) = short.and_then(serde_json::Number::from_f64) {
                *number = short;
            }
        }
        _ => {}
    }
}

/// Where the plots are drawn. Without JavaScript it says so; the tables hold the numbers.
fn plots(view: &RunView) -> String {
    let plots = &view.plots;
    if plots.bands.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "<noscript><p class=\"note\">The plots are drawn by JavaScript, which is off here. \
         All numbers of the run stand in the tables.</p></noscript>\n\
         <div id=\"charts\" hidden>\n<div class=\"tools\">\n<label>Operation <select id=\"op\">",
    );
    for (at, op) in plots.ops.iter().enumerate() {
        let name = if at == 0 { "all kinds together" } else { op.as_str() };
        out.push_str(&format!("<option value=\"{at}\">{}</option>", Text(name)));
    }
    out.push_str(
        "</select></label>\n<label>Show <select id=\"jump\"><option value=\"\">the whole run</option></select></label>\n</div>\n\
         <p id=\"readout\" role=\"status\" aria-live=\"polite\"></p>\n\
         <div id=\"stack\"></div>\n\
         <p class=\"note\">Drag to zoom, double-click to see the whole run. With the keyboard: Tab to a plot, then \
         ← → move the cursor, + − zoom, 0 shows the whole run. Shaded: \
         <span class=\"key load\">load</span> <span class=\"key ask\">ask</span> <span class=\"key drive\">drive</span>; \
         hatched: warm-up, which counts for nothing; dotted: the store ended a checkpoint or another piece of \
         its own maintenance; <span class=\"key pause\">pause</span>: the machine stood still, as long as the bar at \
         the foot of the plot is wide, its aftermath included. A percentile of a second is drawn only with ten samples above it.</p>\n\
         <h3>Percentiles</h3>\n<div id=\"curves\"></div>\n<h3>The machine</h3>\n<div id=\"host\"></div>\n</div>\n",
    );
    if !plots.host_zero.is_empty() {
        out.push_str(&format!(
            "<p class=\"note\">Zero all the time and not drawn: {}.</p>\n",
            esc(&number::list(&plots.host_zero))
        ));
    }
    out
}

/// Phases that stalled, each with what was otherwise in these seconds.
fn stalls(view: &RunView) -> String {
    let sentences: Vec<String> = view.stalls.iter().map(|stalls| stalls.sentence.clone()).collect();
    if sentences.is_empty() {
        return String::new();
    }
    format!(
        "<p class=\"note\">A stall: a slice with less than half of the throughput of the phase's median slice. What was \
         otherwise in these seconds is named; that is no proof of a cause.</p>\n{}",
        list("findings", &sentences)
    )
}

fn doubts(view: &RunView) -> String {
    let mut out = String::new();
    for (next, texts) in crate::by_next(&view.warnings) {
        let texts: String = texts.into_iter().map(|text| format!("<p>{}</p>", Text(text))).collect();
        out.push_str(&format!("<div class=\"doubt\">{texts}<p class=\"next\">{}</p></div>\n", Text(next)));
    }
    if !view.events.is_empty() {
        let mut table = markup::Table::new(
            "Events",
            vec![markup::numbers("at"), markup::words("level"), markup::words("trial"), markup::words("what happened")],
        );
        for event in &view.events {
            let level = format!("<span class=\"level {0}\">{0}</span>", event.level.name());
            table.row(vec![
                format!("{:.2} s", event.at_s),
                level,
                esc(event.trial.as_deref().unwrap_or("")),
                format!("{} <span class=\"dim\">({})</span>", Text(&event.text), event.kind.name()),
            ]);
        }
        out.push_str(&table.html());
    }
    out
}

fn setup(view: &RunView) -> String {
    let run = &view.run;
    let mut out = String::new();
    if !view.left_out.is_empty() {
        out.push_str("<h3>Left out, because it cannot be</h3>\n");
        out.push_str(&list("left-out", &view.left_out));
    }
    let seed = run.seed.to_string();
    let command = run.command_line.join(" ");
    let recorder = number::bytes(run.recorder_bytes as f64);
    let slice = number::seconds(run.slice_seconds);
    let facts = [
        ("plan", run.plan_name.as_str()),
        ("command", command.as_str()),
        ("seed", seed.as_str()),
        ("slice", slice.as_str()),
        ("started", run.started.as_str()),
        ("state", run.state.as_str()),
        ("written by the recorder itself", recorder.as_str()),
        ("published figures from", run.source.as_str()),
        ("Plimsoll", run.plimsoll_version.as_str()),
    ];
    out.push_str("<h3>Run</h3>\n");
    out.push_str(&pairs(facts.into_iter().filter(|(_, value)| !value.is_empty())));
    if !view.environment.is_empty() {
        out.push_str("<h3>Machine</h3>\n");
        out.push_str(&pairs(view.environment.iter().map(|one| (one.name.as_str(), one.value.as_str()))));
    }
    out.push_str(&format!(
        "<details><summary>The plan as it was given</summary><pre tabindex=\"0\">{}</pre></details>\n",
        Text(&run.plan_text)
    ));
    out.push_str(&format!(
        "<details><summary>How to trace a number of this page</summary>\n\
         <p>The recording is one SQLite file; its tables are described in the book. For example the seconds of every \
         phase:</p>\n<pre tabindex=\"0\">sqlite3 ~/.local/state/plimsoll/runs/{}/run.sqlite \\\n  \"{}\"</pre></details>\n",
        Text(&run.id),
        Text(TRACE_SQL)
    ));
    out
}

/// A query on the recording that shows where the figures come from.
const TRACE_SQL: &str = "SELECT t.ordinal, t.store_label, p.name, r.name, r.subject, r.value, r.n FROM result r
   JOIN phase p ON p.trial = r.trial AND p.ordinal = r.phase
   JOIN trial t ON t.ordinal = r.trial ORDER BY r.trial, r.phase, r.ordinal";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_query_that_traces_numbers_works_on_a_recording_and_stands_in_the_book() {
        let recording = rusqlite::Connection::open_in_memory().unwrap();
        recording.execute_batch(plimsoll_record::schema::DDL).unwrap();
        recording.prepare(TRACE_SQL).unwrap();
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let book = words(include_str!("../../../../docs/src/reports.md"));
        assert!(book.contains(&words(TRACE_SQL)));
    }
}
