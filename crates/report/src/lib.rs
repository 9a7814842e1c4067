//! What a run came to, for people and for programs: text for the terminal, one self-contained page, JSON.
//!
//! It formats what `analysis` hands it ([`RunView`]) and calculates nothing. It writes no file and reads no
//! recording; what it returns is a string. Every text that comes from outside (names of stores, errors, plans,
//! settings) is taken for hostile: escaped in the page, stripped of control characters in the terminal.
//!
//! | function | form |
//! |---|---|
//! | [`terminal`] | verdict first, then aligned tables; good when piped |
//! | [`html`] | one page without any network: text and tables stand without JavaScript, plots are drawn with it |
//! | [`json`] | the view itself; its shape is documented in the book and versioned |
//!
//! | [`markdown`] | a summary for a pull request |
//! | [`csv`], [`hdr`] | every slice: as a table, and as an HdrHistogram interval log |
//! | [`comparison`], [`comparison_markdown`], [`comparison_json`], [`junit`] | two runs side by side |
//!
//! | module | what is in it |
//! |---|---|
//! | `terminal` | the text, and its tables |
//! | `html` | the page: escaping, sections, assembly |
//! | `assets/` | the page's script and style, and uPlot |

mod comparison;
mod csv;
mod hdr;
mod html;
mod markdown;
mod terminal;

use plimsoll_analysis::RunView;
use plimsoll_analysis::ab::{AbMetricView, AbView, Decision};
use plimsoll_analysis::compare::Comparison;
use plimsoll_analysis::slices::SliceRow;
use plimsoll_analysis::view::Warning;

/// The report as text, with lines of at most `width` characters where that is possible.
///
/// `colour` adds ANSI colours; the text is the same without.
pub fn terminal(view: &RunView, colour: bool, width: usize) -> String {
    terminal::text(view, colour, width)
}

/// The report as one HTML page that needs nothing but a browser.
pub fn html(view: &RunView) -> String {
    html::page(view)
}

/// Warnings by what to do about them, in the order of the first of each: a busy machine would say the same after
/// every phase.
fn by_next(warnings: &[Warning]) -> Vec<(&str, Vec<&str>)> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for warning in warnings {
        match groups.iter_mut().find(|(next, _)| *next == warning.next) {
            Some((_, texts)) => texts.push(&warning.text),
            None => groups.push((&warning.next, vec![&warning.text])),
        }
    }
    groups
}

/// A number's name; of a percentile with and without pauses of the machine, which it is.
fn metric_name(ab: &AbView, metric: &AbMetricView) -> String {
    let name = if metric.name == "p999" { "p99.9" } else { &metric.name };
    let is_twofold = ab.metrics.iter().filter(|other| other.name == metric.name).count() > 1;
    match (is_twofold, metric.undisturbed) {
        (true, false) => format!("{name} as seen"),
        (true, true) => format!("{name} undisturbed"),
        (false, _) => name.to_string(),
    }
}

/// What came of a number that was to be decided between two sides; empty for the others.
fn decision(metric: &AbMetricView) -> String {
    let after = || metric.decided_after.map_or(String::new(), |n| format!(", decided after {n}"));
    match metric.decision {
        _ if !metric.asked => String::new(),
        Decision::More => format!("more in B{}", after()),
        Decision::Less => format!("less in B{}", after()),
        Decision::Same => format!("no difference that matters{}", after()),
        Decision::Open => "undecided".to_string(),
    }
}

/// The report as JSON, indented: [`RunView`] as it is.
pub fn json(view: &RunView) -> String {
    to_json(view)
}

fn to_json<T: serde::Serialize>(view: &T) -> String {
    let mut json = serde_json::to_string_pretty(view).unwrap_or_else(|error| {
        // A view holds nothing that JSON cannot: string keys, finite and other numbers (which become null).
        unreachable!("a view is JSON: {error}")
    });
    json.push('\n');
    json
}

/// A summary of a run for a pull request: verdict, goals, load lines, figures, latency.
pub fn markdown(view: &RunView) -> String {
    markdown::run(view)
}

/// Every slice as comma-separated values (RFC 4180); the columns stand in the book.
pub fn csv(rows: impl Iterator<Item = SliceRow>) -> String {
    csv::csv(rows)
}

/// Every slice as a log of HdrHistogram intervals, version 1.3, as HistogramLogProcessor and HdrHistogram's viewers
/// read it. Lines without a tag are all operations together; a tag is `trial/phase/kind`.
pub fn hdr(view: &RunView, rows: impl Iterator<Item = SliceRow>) -> String {
    hdr::log(view, rows)
}

/// Two runs side by side as text.
pub fn comparison(comparison: &Comparison, colour: bool, width: usize) -> String {
    comparison::text(comparison, colour, width)
}

/// Two runs side by side for a pull request.
pub fn comparison_markdown(comparison: &Comparison) -> String {
    markdown::comparison(comparison)
}

/// Two runs side by side for programs.
pub fn comparison_json(comparison: &Comparison) -> String {
    to_json(comparison)
}

/// What came of a comparison's conditions as JUnit XML: one test case for each condition, or for each number that
/// has an interval where there are none.
pub fn junit(comparison: &Comparison) -> String {
    comparison::junit(comparison)
}
