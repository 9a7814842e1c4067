//! Operations of a time and latency, compared with the other operations of the same phases.
//!
//! Slices are the finest times of operations in a recording: a slice belongs to a selection if its middle does, or, of
//! a selection shorter than a slice, if they overlap. A sample belongs to the slice that it is of. With a limit of time
//! the selected seconds are the slices in which an operation took longer. Differences prove no cause.

mod differences;

use plimsoll_core::{Pause, Slice};
use plimsoll_record::Distribution;
use plimsoll_record::data::{PhaseKind, Run};

use crate::acts;
use crate::name;
use crate::number;
use crate::phase::PhaseFacts;
use crate::timeline;
use crate::view::{DifferenceOf, DifferenceView, SelectedPausesView, SelectionView};

pub(crate) use differences::{by_rank, matters, of_series};

use differences::{Counts, Tally};

/// Version of the JSON of a [`SelectionView`].
pub const FORMAT: u32 = 1;

/// Most actions and faults that are named, of all phases together.
const ACTS_MAX: usize = 8;
/// Per cent of the selected operations from which pauses are named in the first sentence.
const DISTURBED_PERCENT: f64 = 5.0;
/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;

/// Part of a run to look at. Times are nanoseconds on the run's clock.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// Position of a trial in the plan, from 0; without it all trials.
    pub trial: Option<u32>,
    /// Name of a phase; without it all driven phases.
    pub phase: Option<String>,
    /// Beginning; without it that of the run.
    pub from_ns: Option<u64>,
    /// End; without it that of the run.
    pub to_ns: Option<u64>,
    /// Time that selected operations take longer than; without it all operations are selected.
    pub above_ns: Option<u64>,
}

/// Reason that a selection cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectionRefused {
    /// Description, without a full stop.
    pub what: String,
    /// Advice, as an imperative sentence or a fact to choose by.
    pub next: String,
}

impl SelectionRefused {
    fn new(what: impl Into<String>, next: impl Into<String>) -> Self {
        SelectionRefused { what: what.into(), next: next.into() }
    }
}

/// A phase, and the slices of both sides.
struct Part<'f, 'a> {
    facts: &'f PhaseFacts<'a>,
    above_ns: Option<u64>,
    /// Of each slice: true inside of the selected time, false outside; `None` if it does not count.
    sides: Vec<Option<bool>>,
    /// As `sides`, but slices without a selected operation are outside.
    seconds: Vec<Option<bool>>,
}

impl<'f, 'a> Part<'f, 'a> {
    /// Divides the slices of a phase. Warm-up counts only if its time is selected.
    fn of(facts: &'f PhaseFacts<'a>, selection: &Selection, slice_ns: u64) -> Self {
        let is_timed = selection.from_ns.is_some() || selection.to_ns.is_some();
        let (from_ns, to_ns) = (selection.from_ns.unwrap_or(0), selection.to_ns.unwrap_or(u64::MAX));
        let is_short = to_ns - from_ns < slice_ns;
        let is_inside = |slice: &Slice<Distribution>| match is_short {
            true => slice.start_ns < to_ns && slice.end_ns > from_ns,
            false => (from_ns..to_ns).contains(&u64::midpoint(slice.start_ns, slice.end_ns)),
        };
        let side = |slice: &Slice<Distribution>| {
            let inside = is_inside(slice);
            (!facts.is_warmup(slice) || (is_timed && inside)).then_some(inside)
        };
        let sides = facts.phase.slices.iter().map(side).collect();
        let mut part = Part { facts, above_ns: selection.above_ns, sides, seconds: Vec::new() };
        let second = |(side, slice): (Option<bool>, _)| side.map(|inside| inside && part.has_selected(slice));
        part.seconds = part.slices().map(second).collect();
        part
    }

    /// Iterates over all slices, each with its side.
    fn slices(&self) -> impl Iterator<Item = (Option<bool>, &'a Slice<Distribution>)> + '_ {
        self.sides.iter().copied().zip(&self.facts.phase.slices)
    }

    /// Returns the number of these times that are selected by their length.
    fn selected(&self, counts: &[(u64, u64)]) -> u64 {
        let is_selected = |ns: u64| self.above_ns.is_none_or(|above_ns| ns > above_ns);
        counts.iter().filter(|(ns, _)| is_selected(*ns)).map(|(_, count)| count).sum()
    }

    fn has_selected(&self, slice: &Slice<Distribution>) -> bool {
        self.above_ns.is_none()
            || self.facts.ended(slice).any(|one| self.selected(one.histogram.counts()) > 0)
            || slice.unfinished.iter().any(|unfinished| self.selected(unfinished.counts()) > 0)
    }

    /// Returns the slices of the selected seconds, or the others.
    fn seconds(&self, inside: bool) -> impl Iterator<Item = &'a Slice<Distribution>> + '_ {
        let slices = self.seconds.iter().zip(&self.facts.phase.slices);
        slices.filter(move |(side, _)| **side == Some(inside)).map(|(_, slice)| slice)
    }

    /// Returns starts and ends of the selected seconds; neighbours are one span.
    fn spans(&self) -> Vec<(u64, u64)> {
        let mut spans: Vec<(u64, u64)> = Vec::new();
        for slice in self.seconds(true) {
            match spans.last_mut() {
                Some((_, end_ns)) if *end_ns == slice.start_ns => *end_ns = slice.end_ns,
                _ => spans.push((slice.start_ns, slice.end_ns)),
            }
        }
        spans
    }

    /// Names the actions in the selected seconds or in the slice before, in which an operation that waits for an action
    /// may have begun.
    fn acts(&self, run: &Run) -> Vec<String> {
        let near = |(start_ns, end_ns): (u64, u64)| (start_ns.saturating_sub(run.header.slice_ns), end_ns);
        let spans: Vec<(u64, u64)> = self.spans().into_iter().map(near).collect();
        acts::during(run, self.facts.trial.header.ordinal, &spans, usize::MAX)
    }

    /// Names the actions that began in the selected seconds.
    fn begun(&self, run: &Run) -> Vec<String> {
        let of_span = |span| acts::begun(run, self.facts.trial.header.ordinal, span, usize::MAX);
        self.spans().into_iter().flat_map(of_span).collect()
    }

    /// Returns the position of the slice that a sample at `at_ns` is of; the sample covers the time before it.
    fn slice_at(&self, at_ns: u64, slice_ns: u64) -> Option<usize> {
        let middle_ns = at_ns.checked_sub(slice_ns / 2)?;
        let slices = &self.facts.phase.slices;
        let at = slices.partition_point(|slice| slice.start_ns <= middle_ns).checked_sub(1)?;
        slices.get(at).filter(|slice| middle_ns < slice.end_ns).map(|_| at)
    }

    /// Returns the longest time of an operation in the selected time.
    fn longest_ns(&self) -> u64 {
        let inside = self.slices().filter(|(side, _)| *side == Some(true));
        inside.map(|(_, slice)| self.facts.waited_in(slice, None).max_ns()).max().unwrap_or(0)
    }
}

/// Compares the selected operations and seconds with the others of the same phases.
///
/// # Errors
/// Fails if the selection names no trial, phase or time of the run, or leaves nothing on one of both sides.
pub fn explain(run: &Run, selection: &Selection) -> Result<SelectionView, SelectionRefused> {
    is_in_run(run, selection)?;
    let facts: Vec<PhaseFacts<'_>> = run.trials.iter().flat_map(PhaseFacts::of).collect();
    let chosen = chosen(run, &facts, selection)?;
    let slice_ns = run.header.slice_ns;
    let parts = chosen.iter().map(|facts| Part::of(facts, selection, slice_ns));
    let parts: Vec<Part<'_, '_>> = parts.filter(|part| part.sides.contains(&Some(true))).collect();
    if parts.is_empty() {
        let what = "no operation of a phase is counted in this time";
        return Err(SelectionRefused::new(what, format!("choose a time of {}", times_of(&chosen))));
    }
    let tally = Tally::of(run, &parts);
    let Counts { inside: selected, outside: others } = tally.total;
    if selected == 0 && selection.above_ns.is_some() {
        let longest_ns = parts.iter().map(Part::longest_ns).max().unwrap_or(0);
        let above = number::nanoseconds(selection.above_ns.unwrap_or(0));
        let what = format!("no operation took longer than {above} in this time");
        let next = match longest_ns {
            0 => format!("choose another time of {}", times_of(&chosen)),
            ns => format!("choose a limit below {}, the longest time", number::nanoseconds(ns)),
        };
        return Err(SelectionRefused::new(what, next));
    }
    let has_others = parts.iter().any(|part| part.seconds(false).next().is_some());
    if others == 0 && !has_others {
        let what = "everything is selected, and nothing is left to compare with";
        return Err(SelectionRefused::new(what, "choose a shorter time, or a limit of time for operations (above)"));
    }
    let mut acts: Vec<String> = parts.iter().flat_map(|part| part.acts(run)).collect();
    // An action between two phases of a trial is of both.
    acts.dedup();
    let more = acts.len().saturating_sub(ACTS_MAX) as u64;
    acts.truncate(ACTS_MAX);
    let begun: Vec<String> = parts.iter().flat_map(|part| part.begun(run)).collect();
    let acts_before = acts.iter().filter(|act| !begun.contains(act)).cloned().collect();
    acts.extend((more > 0).then(|| number::plural(more, "further action", "further actions")));
    let seconds = |inside: bool| -> f64 {
        let slices = parts.iter().flat_map(|part| part.seconds(inside));
        slices.map(|slice| slice.length_ns()).sum::<u64>() as f64 / 1e9
    };
    let ends = parts.iter().flat_map(|part| part.seconds(true)).map(|slice| (slice.start_ns, slice.end_ns));
    let (from_ns, to_ns) = ends.fold((u64::MAX, 0u64), |(from, to), (start, end)| (from.min(start), to.max(end)));
    let mut view = SelectionView {
        format: FORMAT,
        run: run.header.id.clone(),
        sentence: String::new(),
        from_s: from_ns as f64 / 1e9,
        to_s: to_ns as f64 / 1e9,
        above_ns: selection.above_ns,
        places: parts.iter().map(|part| name::place(part.facts)).collect(),
        selected,
        others,
        selected_seconds: seconds(true),
        other_seconds: seconds(false),
        acts,
        acts_before,
        pauses: pauses(&parts, &tally),
        differences: differences::of(run, &parts, &tally),
    };
    view.sentence = sentence(&view);
    Ok(view)
}

/// Fails if the times are in the wrong order, or after the end of the run.
fn is_in_run(run: &Run, selection: &Selection) -> Result<(), SelectionRefused> {
    let end_ns = timeline::last_ns(run);
    let next = || format!("choose times of the run's clock, from 0 s to {}", number::nanoseconds(end_ns));
    let shown = number::nanoseconds;
    if let (Some(from), Some(to)) = (selection.from_ns, selection.to_ns)
        && from >= to
    {
        let what = format!("the time from {} to {} does not begin before it ends", shown(from), shown(to));
        return Err(SelectionRefused::new(what, next()));
    }
    // The last second may be given as a whole.
    let last_ns = end_ns.div_ceil(SECOND_NS).saturating_mul(SECOND_NS);
    let from = selection.from_ns.filter(|from| *from >= end_ns);
    if let Some(late) = from.or(selection.to_ns.filter(|to| *to > last_ns)) {
        let what = format!("{} is after the end of the run, which is at {}", shown(late), shown(end_ns));
        return Err(SelectionRefused::new(what, next()));
    }
    Ok(())
}

/// Returns the phases of the selection that have slices.
fn chosen<'f, 'a>(
    run: &Run,
    facts: &'f [PhaseFacts<'a>],
    selection: &Selection,
) -> Result<Vec<&'f PhaseFacts<'a>>, SelectionRefused> {
    if let Some(trial) = selection.trial.filter(|trial| run.trials.iter().all(|one| one.header.ordinal != *trial)) {
        let known: Vec<String> = run.trials.iter().map(|one| one.header.ordinal.to_string()).collect();
        let what = format!("the run has no trial {trial}");
        let next = format!("trials are numbered from 0; there are: {}", known.join(", "));
        return Err(SelectionRefused::new(what, next));
    }
    let is_of_trial = |facts: &&PhaseFacts<'_>| selection.trial.is_none_or(|trial| facts.trial.header.ordinal == trial);
    let sliced = facts.iter().filter(|facts| !facts.phase.slices.is_empty()).filter(is_of_trial);
    let sliced: Vec<&PhaseFacts<'a>> = sliced.collect();
    let is_wanted = |facts: &&PhaseFacts<'_>| match &selection.phase {
        Some(name) => facts.phase.header.name == *name,
        None => facts.phase.header.kind == PhaseKind::Drive,
    };
    let chosen: Vec<&PhaseFacts<'a>> = sliced.iter().copied().filter(is_wanted).collect();
    if !chosen.is_empty() {
        return Ok(chosen);
    }
    let what = match &selection.phase {
        Some(name) => format!("there is no phase {name} with operations over time"),
        None => "no phase was driven".to_owned(),
    };
    let next = match sliced.is_empty() {
        true => "choose a run with a driven phase; `plimsoll runs` lists all runs".to_owned(),
        false => format!("choose one of {}", times_of(&sliced)),
    };
    Err(SelectionRefused::new(what, next))
}

/// Lists phases with their times.
fn times_of(phases: &[&PhaseFacts<'_>]) -> String {
    let shown = |facts: &&PhaseFacts<'_>| {
        let slices = &facts.phase.slices;
        let start_s = slices.first().map_or(0.0, |slice| slice.start_ns as f64 / 1e9);
        let end_s = slices.last().map_or(0.0, |slice| slice.end_ns as f64 / 1e9);
        format!("{} ({start_s:.2} s to {end_s:.2} s)", name::place(facts))
    };
    phases.iter().map(shown).collect::<Vec<_>>().join("; ")
}

/// Returns the pauses of the machine in the selected seconds; `None` if a slice was not watched.
fn pauses(parts: &[Part<'_, '_>], tally: &Tally) -> Option<SelectedPausesView> {
    let disturbed = tally.disturbed?;
    let watched = parts.iter().flat_map(|part| part.seconds(true)).filter_map(|slice| slice.watched.as_ref());
    let pauses: Vec<Pause> = watched.flat_map(|watched| watched.pauses.iter().copied()).collect();
    let longest_ns = pauses.iter().map(Pause::length_ns).max().unwrap_or(0);
    let percent = |part: u64, all: u64| part as f64 * 100.0 / all.max(1) as f64;
    let here = percent(disturbed.inside, tally.total.inside);
    let otherwise = percent(disturbed.outside, tally.total.outside);
    let sentence = match pauses.len() as u64 {
        0 => "the machine never paused for 1 ms or longer in these seconds".to_owned(),
        count => format!(
            "the machine paused {} in these seconds, for {} at most, which disturbed {} of the selected operations and \
             {} of the others",
            number::plural(count, "time", "times"),
            number::nanoseconds(longest_ns),
            number::with_unit(here, "%"),
            number::with_unit(otherwise, "%")
        ),
    };
    Some(SelectedPausesView {
        count: pauses.len() as u64,
        longest_ns,
        disturbed: disturbed.inside,
        disturbed_percent: here,
        others_disturbed_percent: otherwise,
        sentence,
    })
}

fn sentence(view: &SelectionView) -> String {
    let above = view.above_ns.map_or(String::new(), |ns| format!(" above {}", number::nanoseconds(ns)));
    let place = match view.places.as_slice() {
        [one] => one.clone(),
        several => number::plural(several.len() as u64, "phase", "phases"),
    };
    // Seconds without a slow operation, and the time between two phases, are not selected.
    let has_gaps = view.to_s - view.from_s - view.selected_seconds > 1e-3;
    let part = match has_gaps {
        true => format!(" in {} of the time", number::seconds(view.selected_seconds)),
        false => String::new(),
    };
    let mut parts = vec![format!(
        "{}{above}{part} from {:.2} s to {:.2} s, beside {} of {place}",
        number::plural(view.selected, "operation", "operations"),
        view.from_s,
        view.to_s,
        number::plural(view.others, "other", "others")
    )];
    let (before, begun): (Vec<String>, Vec<String>) =
        view.acts.iter().cloned().partition(|act| view.acts_before.contains(act));
    for (when, acts) in [("in these seconds", begun), ("begun before these seconds", before)] {
        parts.extend((!acts.is_empty()).then(|| format!("{when}: {}", number::list(&acts))));
    }
    let matters = |pauses: &&SelectedPausesView| pauses.disturbed_percent >= DISTURBED_PERCENT;
    parts.extend(view.pauses.iter().filter(matters).map(|pauses| pauses.sentence.clone()));
    let mut large = view.differences.iter().filter(|one| differences::matters(one));
    let first = large.next();
    parts.push(match first {
        Some(DifferenceView { clear: true, text, .. }) => format!("the largest difference is {text}"),
        Some(DifferenceView { text, .. }) => format!("the largest difference, which may be chance, is {text}"),
        None => "no recorded share or series differs by much".to_owned(),
    });
    // Longer times say that operations were slow, which is known of a time that was chosen.
    let is_effect = |one: &&DifferenceView| matches!(one.of, DifferenceOf::Latency | DifferenceOf::Load);
    if first.filter(is_effect).is_some()
        && let Some(series) = large.find(|one| one.of == DifferenceOf::Series)
    {
        let chance = if series.clear { "" } else { ", which may be chance" };
        parts.push(format!("of all series{chance}, {}", series.text.trim_start_matches("series ")));
    }
    let ended = "operations count in the slice in which they ended, so that they may have waited before";
    parts.extend(view.above_ns.map(|_| ended.to_owned()));
    format!("{}.", parts.join("; "))
}
