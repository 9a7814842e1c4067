//! Document of a part of a run beside the rest of its phases.

use plimsoll_analysis::number;
use plimsoll_analysis::view::{DifferenceView, SelectionView};

use super::{Body, ColumnOf, Document, NONE, Rank, Section, Table, Text, Tone, Verdict, numbers, words};

/// Differences that are shown; JSON has all.
const SHOWN_MAX: usize = 20;

/// Makes the document of a selection: its sentence, what was done in it, and the largest differences.
pub fn selection(view: &SelectionView) -> Document<'_> {
    let verdict = Verdict {
        title: format!("run {}", view.run),
        sentence: view.sentence.clone(),
        about: number::list(&view.places),
        ..Verdict::default()
    };
    let mut sections = Vec::new();
    let mut section = |title: &str, body: Body<'static>| {
        sections.push(Section { id: "", title: title.to_string(), rank: Rank::Answer, body });
    };
    let mut acts = Body::default();
    let when = |act: &String| if view.acts_before.contains(act) { ", begun before these seconds" } else { "" };
    acts.list(Tone::Plain, view.acts.iter().map(|act| format!("{act}{}", when(act))));
    let pauses = view.pauses.as_ref().map(|pauses| pauses.sentence.as_str());
    acts.text(pauses.unwrap_or("pauses of the machine were not observed"));
    section("At the same time", acts);
    section("Differences", differences(&view.differences));
    Document { verdict, sections }
}

/// The largest differences, and how to read them.
fn differences<'a>(all: &[DifferenceView]) -> Body<'a> {
    let times = |ratio: f64| format!("{} ×", number::significant(ratio));
    let shown = |value: f64, one: &DifferenceView| number::with_unit(value, &one.unit);
    let counts = |one: &DifferenceView| format!("{} / {}", number::count(one.n_inside), number::count(one.n_outside));
    let columns: [ColumnOf<'_, DifferenceView>; 7] = [
        (words(""), &|one| one.of.name().into()),
        (numbers("here"), &|one| shown(one.inside, one).into()),
        (numbers("otherwise"), &|one| shown(one.outside, one).into()),
        (numbers("here ÷ otherwise"), &|one| one.ratio.map_or(NONE.to_string(), times).into()),
        (numbers("n"), &|one| counts(one).into()),
        (words(""), &|one| (if one.clear { Text::default() } else { Tone::Dim.text("?") }).into()),
        // Some names have a statement in them: a last column is wrapped.
        (words("name"), &|one| (&one.name).into()),
    ];
    let first = &all[..all.len().min(SHOWN_MAX)];
    let mut body = Body::noted(if all.is_empty() { "none" } else { "" });
    body.table(Table::of("Differences", first, &columns));
    let more = all.len() - first.len();
    if more > 0 {
        body.text(format!("and {} more with --json", number::count(more as u64)));
    }
    if !all.is_empty() {
        let legend = "Shares of operations, means of operations a second and counters, and medians of other times and \
                      series; ? may be chance. Seconds resemble their neighbours, so that a slow drift differs, too. \
                      No difference proves a cause.";
        body.text(Tone::Dim.text(legend));
    }
    body
}
