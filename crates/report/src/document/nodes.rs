//! Nodes of a cluster: how long each let clients wait, and what it answered and counted over time.

use plimsoll_analysis::RunView;
use plimsoll_analysis::number;
use plimsoll_analysis::view::{Line, Panel, PhaseKind};
use plimsoll_core::sampler::ANSWERS;

use super::latency::{phases, timed};
use super::{Block, Body, Sparks, Text, Tone};

/// Most counters of nodes that are drawn in the terminal: the first that a store names.
const COUNTERS_MAX: usize = 3;

/// Lists the operations that each server answered, if there are several servers.
pub fn nodes(view: &RunView, full: bool) -> Body<'_> {
    let note = "time that clients waited for answers of each node, without errors";
    let mut body = timed(view, full, ("Nodes", "node", note), |phase| &phase.nodes);
    let slowest = phases(view, full).filter_map(|(trial, phase)| Some((trial, phase, phase.slowest_node.as_ref()?)));
    body.list(Tone::Plain, slowest.map(|(trial, phase, text)| format!("{} {}: {text}", trial.name, phase.name)));
    if !full {
        sparks(view, &mut body);
    }
    body
}

/// Draws the rates and counters of each node during the drive, a line of characters for each; nothing is summed.
fn sparks<'a>(view: &'a RunView, body: &mut Body<'a>) {
    let driven = || view.plots.bands.iter().filter(|band| band.kind == PhaseKind::Drive);
    let from_s = driven().map(|band| band.start_s).fold(f64::INFINITY, f64::min);
    let span_s = (from_s, driven().map(|band| band.end_s).fold(0.0, f64::max));
    let panels = || view.plots.store.iter();
    // Nodes are the lines of a plot, where each has but one value of the unit.
    let (mut answers, mut counters): (Vec<Alike<'_>>, Vec<Alike<'_>>) = (Vec::new(), Vec::new());
    for panel in panels().filter(|panel| panel.lines.iter().filter(|line| is_node(&line.name)).count() > 1) {
        let rows = panel.lines.iter().map(|line| (line.name.as_str(), panel, line)).collect();
        let of = if panel.source == ANSWERS { &mut answers } else { &mut counters };
        of.push((panel.name.strip_prefix("Store, ").unwrap_or(&panel.name), rows));
    }
    // Otherwise each has a plot of its own, and the same counter is a line in each of them.
    let of_nodes = || panels().filter(|panel| is_node(&panel.name));
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (panel, line) in of_nodes().flat_map(|panel| panel.lines.iter().map(move |line| (panel, line))) {
        let counter = (line.name.as_str(), panel.unit.as_str());
        if seen.contains(&counter) {
            continue;
        }
        seen.push(counter);
        let rows = of_nodes().filter(|panel| panel.unit == counter.1).filter_map(|panel| {
            let line = panel.lines.iter().find(|line| line.name == counter.0)?;
            Some((panel.name.strip_prefix("Store ").unwrap_or(&panel.name), panel, line))
        });
        let rows: Vec<_> = rows.collect();
        counters.extend((rows.len() > 1).then_some((counter.0, rows)));
    }
    let more = counters.len().saturating_sub(COUNTERS_MAX);
    counters.truncate(COUNTERS_MAX);
    let acts_s: Vec<f64> = view.plots.acts.iter().map(|act| act.start_s).collect();
    answers.into_iter().chain(counters).for_each(|(name, rows)| push(name, rows, span_s, &acts_s, body));
    if more > 0 {
        let more = number::plural(more as u64, "counter", "counters");
        body.text(Tone::Dim.text(format!("and {more} more of each node: on the page")));
    }
}

/// A name, and the lines that have it: each with its node and the plot that it is in.
type Alike<'a> = (&'a str, Vec<(&'a str, &'a Panel, &'a Line)>);

/// Lines that are of one scale: from 0 to the most that any of them has meanwhile.
fn push<'a>(
    name: &str,
    rows: Vec<(&'a str, &'a Panel, &'a Line)>,
    span_s: (f64, f64),
    acts_s: &[f64],
    body: &mut Body<'a>,
) {
    let Some((_, Panel { unit, .. }, _)) = rows.first() else { return };
    let is_inside = |at_s: f64| at_s > span_s.0 && at_s <= span_s.1;
    let values = rows.iter().flat_map(|(_, panel, line)| panel.t_s.iter().zip(&line.values));
    let top = values.filter(|(at_s, _)| is_inside(**at_s)).filter_map(|(_, value)| *value).fold(0.0, f64::max);
    if top <= 0.0 {
        return;
    }
    // A phase may go on without samples, until its last operations have ended.
    let read = rows.iter().flat_map(|(_, panel, line)| panel.t_s.iter().zip(&line.values));
    let read_s = read.filter(|(at_s, value)| is_inside(**at_s) && value.is_some()).map(|(at_s, _)| *at_s);
    let span_s = (span_s.0, read_s.fold(span_s.0, f64::max));
    let acts_s: Vec<f64> = acts_s.iter().copied().filter(|at_s| is_inside(*at_s)).collect();
    let marked = if acts_s.is_empty() { "" } else { ", ▲ actions" };
    let scale = format!("  0 to {}, from {:.1} s to {:.1} s{marked}", number::with_unit(top, unit), span_s.0, span_s.1);
    let shown = |(name, panel, line): (&'a str, &'a Panel, &'a Line)| {
        let median = line.median.map_or(String::new(), |median| format!("median {}", number::with_unit(median, unit)));
        (name, panel.t_s.as_slice(), line.values.as_slice(), median)
    };
    let rows = rows.into_iter().map(shown).collect();
    let head = Text::from(name).then(Tone::Dim, scale);
    body.push(false, Block::Sparks(Sparks { head, span_s, top, acts_s, rows }));
}

/// Returns true if the name is a node's: it ends with `node 3`.
fn is_node(name: &str) -> bool {
    name.rsplit_once(" node ").is_some_and(|(_, number)| number.parse::<u32>().is_ok())
}
