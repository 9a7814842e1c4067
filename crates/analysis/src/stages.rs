//! The stages of a load that changes: what each one wanted and got.

use plimsoll_core::Slice;
use plimsoll_core::pace::Stage;
use plimsoll_record::Distribution;
use plimsoll_record::data::PhaseKind;

use crate::latency::Times;
use crate::number;
use crate::phase::PhaseFacts;
use crate::view::StageView;

/// The stages of the phase, in order; none where its load does not change in stages.
pub(crate) fn stages(facts: &PhaseFacts<'_>) -> Vec<StageView> {
    let header = &facts.phase.header;
    if header.kind != PhaseKind::Drive || header.stages.is_empty() {
        return Vec::new();
    }
    let Some(first) = facts.phase.slices.iter().find(|slice| !slice.warmup) else { return Vec::new() };
    let mut from_ns = first.start_ns;
    let last = header.stages.len() - 1;
    let mut stages = Vec::with_capacity(header.stages.len());
    for (at, stage) in header.stages.iter().enumerate() {
        let until_ns = from_ns.saturating_add(stage.for_ns);
        // A slice is of the stage that its middle lies in; what is drained after the planned end, of the last one.
        let is_in = |slice: &&Slice<Distribution>| {
            let middle_ns = slice.start_ns.midpoint(slice.end_ns);
            !facts.is_warmup(slice)
                && ((from_ns..until_ns).contains(&middle_ns) || (at == last && middle_ns >= until_ns))
        };
        let slices: Vec<_> = facts.phase.slices.iter().filter(is_in).collect();
        // What was in flight at an interrupt ended in the last slice.
        let is_end =
            slices.last().is_some_and(|one| facts.phase.slices.last().is_some_and(|last| one.ordinal == last.ordinal));
        stages.push(of_slices(facts, stage, &slices, if is_end { facts.stopped_count() } else { 0 }));
        from_ns = until_ns;
    }
    stages
}

/// Returns the numbers of `slices`, in which the user's wish for an end left `stopped` operations unknown.
fn of_slices(facts: &PhaseFacts<'_>, stage: &Stage, slices: &[&Slice<Distribution>], stopped: u64) -> StageView {
    let (mut ended, mut errors, mut done, mut counted_ns) = (0, 0, 0, 0);
    let mut times = Times::default();
    for slice in slices {
        times.add(facts.waited_in(slice, None).counts());
        for one in facts.ended(slice) {
            let n = one.histogram.len();
            ended += n;
            errors += if one.outcome.is_error() { n } else { 0 };
            done += if one.outcome.is_error() || slice.drain { 0 } else { n };
        }
        let unsent = slice.unfinished.as_ref().map_or(0, |waited| waited.len().min(facts.unsent_errors()));
        ended += unsent;
        errors += unsent;
        counted_ns += if slice.drain { 0 } else { slice.length_ns() };
    }
    errors = errors.saturating_sub(stopped);
    let level = |level: f64| match facts.open_loop {
        true => number::with_unit(level, "1/s"),
        false => format!("{level} client{}", if level == 1.0 { "" } else { "s" }),
    };
    StageView {
        load: match stage.from == stage.to {
            true => level(stage.to),
            false => format!("{} to {}", level(stage.from), level(stage.to)),
        },
        seconds: stage.for_ns as f64 / 1e9,
        wanted_per_s: facts.open_loop.then(|| f64::midpoint(stage.from, stage.to)),
        rate_per_s: (counted_ns > 0).then(|| done as f64 * 1e9 / counted_ns as f64),
        count: ended,
        p50_ns: times.percentile("p50").ok(),
        p95_ns: times.percentile("p95").ok(),
        p99_ns: times.percentile("p99").ok(),
        max_ns: (!times.is_empty()).then(|| times.max_ns()),
        error_percent: if ended > 0 { errors as f64 * 100.0 / ended as f64 } else { 0.0 },
    }
}
