//! Effect of the machine's own pauses on a phase: its operations undisturbed, and the time that the machine stood
//! still.

use plimsoll_core::pause::PAUSES_MAX;
use plimsoll_core::sampler::WITNESS;
use plimsoll_core::{Disturbance, Outcome, Pause, Slice, SliceHistogram, paused_ns};
use plimsoll_record::Distribution;
use plimsoll_record::data::{ResultName, Run};

use crate::latency::Times;
use crate::number;
use crate::phase::PhaseFacts;
use crate::view::{PausesAbove, PausesView};

/// Lengths of pauses from which on their share of the time is told, in milliseconds.
const ABOVE_MS: [u64; 6] = [1, 2, 5, 10, 20, 50];
const MS_NS: u64 = 1_000_000;

impl PhaseFacts<'_> {
    /// Returns the waiting times of clients for type `op`, or for all types together, as in [`PhaseFacts::waited`] but
    /// without operations disturbed by pauses of the machine. Operations that were never sent are included in the same
    /// way. Returns `None` if pauses were not observed.
    pub fn undisturbed(&self, op: Option<&str>) -> Option<Times> {
        let disturbed = self.disturbed.as_ref()?;
        let mut times = self.waited(op);
        let of_op = |kind, outcome| outcome != Outcome::Rejected && self.is_kind(kind, op);
        let fits = disturbed.iter().filter(|((kind, outcome, _), _)| of_op(*kind, *outcome));
        fits.for_each(|(_, part)| times.subtract(part.counts()));
        Some(times)
    }

    /// Returns the undisturbed times of one slice, by which a goal of the load line is judged.
    pub fn judged_slice(&self, slice: &Slice<Distribution>, op: Option<&str>) -> Option<Times> {
        let watched = slice.watched.as_ref()?;
        let mut times = self.waited_in(slice, op);
        let of_op = |one: &&SliceHistogram<_>| one.outcome != Outcome::Rejected && self.is_kind(one.kind, op);
        let fits = watched.disturbed.iter().filter(of_op);
        fits.for_each(|one| times.subtract(one.histogram.counts()));
        Some(times)
    }

    /// Returns the seconds of the counted time outside of pauses and their aftermath; `None` if pauses were not
    /// observed.
    pub fn undisturbed_s(&self) -> Option<f64> {
        let disturbed_ns: u64 = self.watched()?.map(|(_, watched)| watched.disturbed_ns).sum();
        Some((self.counted_s - disturbed_ns as f64 / 1e9).max(0.0))
    }

    /// Returns the counted slices in which operations were started, with the observations of each; `None` if not all
    /// of them were observed.
    fn watched(&self) -> Option<impl Iterator<Item = (&Slice<Distribution>, &Disturbance<Distribution>)>> {
        let is_known = self.counted().next().is_some() && self.counted().all(|slice| slice.watched.is_some());
        is_known.then(|| self.counted().filter_map(|slice| Some((slice, slice.watched.as_ref()?))))
    }

    /// Returns the machine's pauses in this phase of `run`; `None` if they were not observed.
    pub fn pauses(&self, run: &Run) -> Option<PausesView> {
        let (first, _) = self.watched()?.next()?;
        let (last, _) = self.watched()?.last()?;
        let pauses: Vec<Pause> = self.watched()?.flat_map(|(_, watched)| watched.pauses.iter().copied()).collect();
        let mut lateness = Times::default();
        let witness = run.series.iter().position(|series| series.source == WITNESS);
        let inside = run.samples.iter().filter(|one| one.at_ns > first.start_ns && one.at_ns <= last.end_ns);
        let read = inside.flat_map(|sample| &sample.distributions);
        read.filter(|(series, _)| Some(*series as usize) == witness).for_each(|(_, one)| lateness.add(one.counts()));
        let length_ns = last.end_ns.saturating_sub(first.start_ns).max(1) as f64;
        let percent = |min_ns: u64| paused_ns(&pauses, min_ns, first.start_ns, last.end_ns) as f64 * 100.0 / length_ns;
        let (waited, undisturbed) = (self.waited(None).len(), self.undisturbed(None)?.len());
        let mut view = PausesView {
            paused_percent: percent(0),
            above: ABOVE_MS.map(|ms| PausesAbove { ms, percent: percent(ms * MS_NS) }).to_vec(),
            longest_ns: pauses.iter().map(Pause::length_ns).max().unwrap_or(0),
            count: pauses.len() as u64,
            at_least: self.watched()?.any(|(_, watched)| watched.pauses.len() >= PAUSES_MAX),
            undisturbed_s: self.undisturbed_s()?,
            disturbed_ops: waited - undisturbed,
            lateness: lateness.percentiles(),
            wake_ups: lateness.len(),
            witness_percent: self.result(ResultName::WitnessCpuSeconds).map(|used| {
                used.value * 100.0
                    / (self.phase.end.end_ns.saturating_sub(self.phase.header.start_ns).max(1) as f64 / 1e9)
            }),
            sentence: String::new(),
        };
        view.sentence = sentence(&view, waited);
        Some(view)
    }
}

/// Describes the pauses in one sentence without its full stop.
fn sentence(view: &PausesView, ops: u64) -> String {
    if view.count == 0 {
        return "the machine never paused for 1 ms or longer".to_string();
    }
    let above = view.above.iter().find(|above| above.ms == 5 && above.percent > 0.0);
    let above = above
        .map_or(String::new(), |above| format!(" ({} in pauses of {} ms and more)", percent(above.percent), above.ms));
    format!(
        "the machine paused {}{} of the time{}, longest {}; it disturbed {} of {} operations ({})",
        if view.at_least { "at least " } else { "" },
        percent(view.paused_percent),
        above,
        number::nanoseconds(view.longest_ns),
        number::count(view.disturbed_ops),
        number::count(ops),
        percent(view.disturbed_ops as f64 * 100.0 / ops.max(1) as f64),
    )
}

fn percent(percent: f64) -> String {
    number::with_unit(percent, "%")
}
