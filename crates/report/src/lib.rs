//! Reports of a run, for people and for programs: text for the terminal, one self-contained page, JSON.
//!
//! Formats views of `analysis` ([`RunView`]) and calculates nothing. Opens no file and reads no recording: functions
//! return strings, or write to a writer of their caller. Every text that comes from outside (names of
//! stores, errors, plans, settings) is taken for hostile: escaped in the page, stripped of control characters in the
//! terminal.
//!
//! | function | form |
//! |---|---|
//! | [`terminal`], [`terminal_short`] | verdict first, then aligned tables; good when piped |
//! | [`html`] | one page without any network: text and tables stand without JavaScript, plots are drawn with it |
//! | [`markdown`] | a summary for a pull request |
//! | [`comparison`], [`comparison_markdown`], [`junit`] | two runs side by side |
//! | [`selection`] | a part of a run beside the rest of its phases |
//! | [`json`] | a view itself; its shape is documented in the book and versioned |
//! | [`tables`] | tables of other verbs, in the same text |
//! | [`csv`], [`hdr`] | every slice: as a table, and as an HdrHistogram interval log |
//! | [`columnar`] | tables of a run as Parquet files |
//! | [`perfetto`] | spans and counters on a time axis, for ui.perfetto.dev |
//!
//! | module | what is in it |
//! |---|---|
//! | [`document`] | what a report says: its sections, tables and sentences, put together once |
//! | `terminal`, `html`, `markdown` | a document written down |
//! | `assets/` | the page's script and style, and uPlot |

pub mod columnar;
mod columns;
mod csv;
pub mod document;
mod hdr;
mod html;
mod junit;
mod markdown;
mod perfetto;
mod terminal;

use plimsoll_analysis::RunView;
use plimsoll_analysis::view::{Comparison, SelectionView};

pub use csv::{csv, json_slice};
pub use hdr::hdr;
pub use html::html;
pub use junit::junit;
pub use perfetto::perfetto;
pub use terminal::{paragraph, tables};

/// The report as text, with lines of at most `width` columns where that is possible.
///
/// `colour` adds ANSI colours; the text is the same without.
pub fn terminal(view: &RunView, colour: bool, width: usize) -> String {
    terminal::document(&document::run(view, false), colour, width)
}

/// At most `lines_max` lines of that text: the answer and what limits it first. Also returns the titles of sections that
/// are cut or left out.
pub fn terminal_short(view: &RunView, colour: bool, width: usize, lines_max: usize) -> (String, Vec<String>) {
    terminal::short(&document::run(view, false), colour, width, lines_max)
}

/// A view or a comparison as JSON, indented: as it is.
pub fn json<T: serde::Serialize>(view: &T) -> String {
    let mut json = serde_json::to_string_pretty(view).unwrap_or_else(|error| {
        // A view holds nothing that JSON cannot: string keys, finite and other numbers (which become null).
        unreachable!("a view is JSON: {error}")
    });
    json.push('\n');
    json
}

/// The report for a pull request.
pub fn markdown(view: &RunView) -> String {
    markdown::document(&document::run(view, false))
}

/// Formats a comparison of two runs as text.
pub fn comparison(comparison: &Comparison, colour: bool, width: usize) -> String {
    terminal::document(&document::comparison(comparison), colour, width)
}

/// Formats a part of a run beside the rest of its phases as text.
pub fn selection(view: &SelectionView, colour: bool, width: usize) -> String {
    terminal::document(&document::selection(view), colour, width)
}

/// Formats a comparison of two runs for a pull request.
pub fn comparison_markdown(comparison: &Comparison) -> String {
    markdown::document(&document::comparison(comparison))
}
