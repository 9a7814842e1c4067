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
//! | [`markdown`] | a summary for a pull request |
//! | [`comparison`], [`comparison_markdown`], [`junit`] | two runs side by side |
//! | [`json`] | a view itself; its shape is documented in the book and versioned |
//! | [`tables`] | tables of other verbs, in the same text |
//! | [`csv`], [`hdr`] | every slice: as a table, and as an HdrHistogram interval log |
//!
//! | module | what is in it |
//! |---|---|
//! | [`document`] | what a report says: its sections, tables and sentences, put together once |
//! | `terminal`, `html`, `markdown` | a document written down |
//! | `assets/` | the page's script and style, and uPlot |

mod csv;
pub mod document;
mod hdr;
mod html;
mod junit;
mod markdown;
mod terminal;

use plimsoll_analysis::RunView;
use plimsoll_analysis::slices::SliceRow;
use plimsoll_analysis::view::Comparison;

/// The report as text, with lines of at most `width` columns where that is possible.
///
/// `colour` adds ANSI colours; the text is the same without.
pub fn terminal(view: &RunView, colour: bool, width: usize) -> String {
    terminal::document(&document::run(view, false), colour, width)
}

/// Tables as text in the same way, each under a title, which may be empty, and what stands behind it.
pub fn tables(tables: &[(&str, &str, document::Table)], colour: bool, width: usize) -> String {
    terminal::tables(tables, colour, width)
}

/// The report as one HTML page that needs nothing but a browser.
pub fn html(view: &RunView) -> String {
    html::page(view)
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
    terminal::document(&document::comparison(comparison), colour, width)
}

/// Two runs side by side for a pull request.
pub fn comparison_markdown(comparison: &Comparison) -> String {
    markdown::document(&document::comparison(comparison))
}

/// What came of a comparison's conditions as JUnit XML: one test case for each condition, or for each number that
/// has an interval where there are none.
pub fn junit(comparison: &Comparison) -> String {
    junit::junit(comparison)
}
