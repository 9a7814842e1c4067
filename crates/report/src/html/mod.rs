//! The page: one file without any network. Text and tables stand without JavaScript; the plots' data is deflated and
//! base64 in the page and unpacked by the browser.
//!
//! A content security policy names the page's own scripts and styles by their hashes: whatever a text from a store
//! looks like, nothing else runs and nothing is fetched.

mod svg;
mod write;

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use plimsoll_analysis::view::{Chart, Headline, Named, SummaryPart, SummaryView};
use plimsoll_analysis::{RunView, number};
use serde_json::Value;
use sha2::{Digest, Sha256};

pub use self::write::{Esc, Prose};
use self::write::{Writer, class};
use crate::document::{self, Section, Verdict};

const UPLOT_JS: &str = include_str!("../../assets/uPlot.iife.min.js");
const UPLOT_CSS: &str = include_str!("../../assets/uPlot.min.css");
const PAGE_JS: &str = concat!(
    include_str!("../../assets/numbers.js"),
    include_str!("../../assets/box.js"),
    include_str!("../../assets/scatter.js"),
    include_str!("../../assets/page.js")
);
const PAGE_CSS: &str = include_str!("../../assets/page.css");
/// Values of all lines over time together that a page holds, about: with their extremes, half a megabyte.
const VALUES_MAX: usize = 45_000;
/// Most characters of a result in large type: several goals are longer.
const LARGE_MAX: usize = 24;
/// Digits of a number: no screen shows more, and the JSON report has all.
const DIGITS: usize = 7;
/// Digits of the values of a line whose columns are several slices.
const COLUMN_DIGITS: usize = 4;
/// A Plimsoll mark: the ring and the line through it.
const MARK: &str = "<svg class=\"mark\" viewBox=\"0 0 32 32\" aria-hidden=\"true\"><circle cx=\"16\" cy=\"16\" r=\"10\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"3\"/><path d=\"M1 16h30\" stroke=\"currentColor\" stroke-width=\"3\"/></svg>";
const ICON: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E%3Ccircle cx='16' cy='16' r='10' fill='none' stroke='%231f6f8b' stroke-width='3'/%3E%3Cpath d='M1 16h30' stroke='%231f6f8b' stroke-width='3'/%3E%3C/svg%3E";

/// The report as one HTML page that needs nothing but a browser.
pub fn html(view: &RunView) -> String {
    let document = document::run(view, true);
    let run = &view.run;
    let mut writer = Writer { out: head(view, &document.verdict.question), charts: Vec::new() };
    writer.out.push_str(&verdict(&document.verdict, &view.summary));
    writer.out.push_str(&headlines(&view.headlines));
    writer.out.push_str("<nav aria-label=\"Sections\"><ul>");
    for section in &document.sections {
        writer.out.push_str(&format!("<li><a href=\"#{}\">{}</a></li>", section.id, section.title));
    }
    writer.out.push_str("</ul></nav>\n");
    for Section { id, title, body, .. } in &document.sections {
        writer.out.push_str(&format!(
            "<section id=\"{id}\" aria-labelledby=\"{id}-title\">\n<h2 id=\"{id}-title\">{title}</h2>\n"
        ));
        if !body.note.is_empty() {
            writer.out.push_str(&format!("<p class=\"note\">{}</p>\n", write::prose(&body.note)));
        }
        writer.blocks(&body.blocks, 3);
        writer.out.push_str("</section>\n");
    }
    let Writer { out, charts } = writer;
    format!(
        "{out}</main>\n<footer>\n\
         <p>Made by Plimsoll {} from the recording of run <code>{}</code>; this page needs no network.</p>\n</footer>\n\
         <script type=\"application/octet-stream\" id=\"plots\">{}</script>\n\
         <script>{UPLOT_JS}</script>\n<script>{PAGE_JS}</script>\n</body>\n</html>\n",
        Esc(&run.plimsoll_version),
        Esc(&run.id),
        packed(view, &charts)
    )
}

/// Writes the part of the page before the verdict.
fn head(view: &RunView, answer: &[document::Text]) -> String {
    let run = &view.run;
    let policy = format!(
        "default-src 'none'; script-src '{}' '{}'; style-src '{}' '{}'; img-src data:; base-uri 'none'; form-action 'none'",
        hash(UPLOT_JS),
        hash(PAGE_JS),
        hash(UPLOT_CSS),
        hash(PAGE_CSS),
    );
    let mut question = match run.question.as_str() {
        "" => String::new(),
        text => format!("<p class=\"question\">{}</p>\n", Prose(text)),
    };
    question.extend(answer.iter().map(|line| format!("<p class=\"answered\">{}</p>\n", write::prose(line))));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"generator\" content=\"Plimsoll {version}\">\n\
         <title>{title} · {id}</title>\n<link rel=\"icon\" href=\"{ICON}\">\n\
         <style>{UPLOT_CSS}</style>\n<style>{PAGE_CSS}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#main\">Skip to the verdict</a>\n\
         <header>\n<p class=\"brand\">{MARK}<span>Plimsoll</span></p>\n<h1>{title}</h1>\n{question}\
         <p class=\"about\">{started} · {stores} · {took}{seed} · run <code>{id}</code></p>\n</header>\n\
         <main id=\"main\">\n",
        version = Esc(&run.plimsoll_version),
        title = Esc(&run.title),
        id = Esc(&run.id),
        started = Esc(&run.started),
        stores = Esc(&number::list(&view.stores)),
        took = number::seconds(run.seconds),
        // What is watched has no plan, and a seed no meaning.
        seed = if run.plan_text.is_empty() { String::new() } else { format!(" · seed {}", run.seed) },
    )
}

fn verdict(verdict: &Verdict, summary: &[SummaryView]) -> String {
    let reasons: Vec<document::Text> = verdict.reasons.iter().map(Into::into).collect();
    let warning = verdict.warning.as_ref().map_or(String::new(), |text| {
        format!("<p class=\"note\"><a href=\"#warnings\">Warning</a>: {}</p>\n", Prose(text))
    });
    let notices = verdict.notices.iter().map(|notice| format!("<p class=\"note\">{}</p>\n", Prose(notice)));
    let notices: String = notices.collect();
    let reasons = write::list("reasons", reasons.iter());
    let reasons = format!("<p class=\"sentence\">{}</p>\n{reasons}", Prose(&verdict.sentence));
    let mut parts = [answers(summary), reasons];
    if verdict.is_reason_first() {
        parts.reverse();
    }
    format!(
        "<section class=\"verdict {}\" aria-label=\"Verdict\">\n{notices}<p class=\"word\">{}</p>\n{}</section>\n{warning}",
        class(verdict.tone),
        verdict.word,
        parts.concat()
    )
}

/// Writes the results in large numbers; smaller if there are several lines of them.
fn answers(summary: &[SummaryView]) -> String {
    let part = |part: &SummaryPart| {
        let classes = [(part.bad, "bad"), (part.value.chars().count() > LARGE_MAX, "words")];
        let classes: Vec<&str> = classes.iter().filter(|(is_its, _)| *is_its).map(|(_, class)| *class).collect();
        let classes = if classes.is_empty() { String::new() } else { format!(" class=\"{}\"", classes.join(" ")) };
        let at = match part.at.as_str() {
            "" => String::new(),
            text => format!(" {}", Esc(text)),
        };
        let meanwhile = match part.meanwhile.as_str() {
            "" => String::new(),
            text => format!(", around then: {}", Esc(text)),
        };
        format!("<div><dt>{}{at}{meanwhile}</dt><dd{classes}>{}</dd></div>", Esc(&part.name), Esc(&part.value))
    };
    let one = |summary: &SummaryView| {
        let place = match summary.place.as_str() {
            "" => String::new(),
            place => format!("<p class=\"place\">{}</p>\n", Esc(place)),
        };
        format!("{place}<dl>{}</dl>\n", summary.parts.iter().map(part).collect::<String>())
    };
    let many = if summary.len() > 1 { " many" } else { "" };
    match summary {
        [] => String::new(),
        _ => format!("<div class=\"answer{many}\">\n{}</div>\n", summary.iter().map(one).collect::<String>()),
    }
}

/// The figures that are shown large.
fn headlines(headlines: &[Headline]) -> String {
    let one = |headline: &Headline| {
        let value = |one: &Named| format!("<div><dt>{}</dt><dd>{}</dd></div>", Esc(&one.name), Esc(&one.value));
        let values: String = headline.values.iter().map(value).collect();
        let published: Vec<String> =
            headline.published.iter().map(|one| format!("{} {}", one.value, one.name)).collect();
        let direction = headline.direction.as_ref().map_or(String::new(), |text| format!("<p>{}</p>", Esc(text)));
        format!(
            "<div class=\"headline\"><h2>{}</h2><dl>{values}</dl>{direction}<p>published: {}</p></div>\n",
            Esc(&headline.name),
            Esc(&published.join("; "))
        )
    };
    if headlines.is_empty() {
        return String::new();
    }
    let all: String = headlines.iter().map(one).collect();
    format!("<section class=\"headlines\" aria-label=\"In short\">\n{all}</section>\n")
}

/// A source expression for a content security policy.
fn hash(source: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(source.as_bytes())))
}

/// The plots' data: JSON, zlib, base64. Long runs have columns of several slices, so that the page stays small.
fn packed(view: &RunView, charts: &[&Chart]) -> String {
    let mut plots = serde_json::to_value(view.plots.condensed(VALUES_MAX)).unwrap_or_default();
    if let Some(plots) = plots.as_object_mut() {
        plots.insert("charts".to_string(), serde_json::to_value(charts).unwrap_or_default());
    }
    shorten(&mut plots, DIGITS);
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    // Neither can fail: the writer is memory.
    let bytes = encoder.write_all(plots.to_string().as_bytes()).and_then(|()| encoder.finish()).unwrap_or_default();
    STANDARD.encode(bytes)
}

/// Shortens numbers to so many digits, and to [`COLUMN_DIGITS`] in lines with extremes.
fn shorten(value: &mut Value, digits: usize) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(|value| shorten(value, digits)),
        Value::Object(fields) => {
            let digits = if fields.contains_key("high") { COLUMN_DIGITS } else { digits };
            fields.values_mut().for_each(|value| shorten(value, digits));
        }
        Value::Number(number) if number.is_f64() => {
            let precision = digits - 1;
            let short = number.as_f64().and_then(|number| format!("{number:.precision$e}").parse::<f64>().ok());
            if let Some(short) = short.and_then(serde_json::Number::from_f64) {
                *number = short;
            }
        }
        _ => {}
    }
}
