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
//! | module | what is in it |
//! |---|---|
//! | `terminal` | the text, and its tables |
//! | `html` | the page: escaping, sections, assembly |
//! | `assets/` | the page's script and style, and uPlot |

mod html;
mod terminal;

use plimsoll_analysis::RunView;
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

/// The report as JSON, indented: [`RunView`] as it is.
pub fn json(view: &RunView) -> String {
    let mut json = serde_json::to_string_pretty(view).unwrap_or_else(|error| {
        // A view holds nothing that JSON cannot: string keys, finite and other numbers (which become null).
        unreachable!("a view is JSON: {error}")
    });
    json.push('\n');
    json
}
