//! Spans and moments of a run as one list, for programs that draw them on a time axis.

use std::cmp::Reverse;

use plimsoll_record::data::{Event, FaultSpan, Level, Phase, PhaseState, Run, Trial};

use crate::phase::PhaseFacts;
use crate::{host, name, peak, stall, timeline};

plimsoll_core::words! {
    /// Kind of a span. Of spans with equal bounds, an earlier kind contains a later one.
    #[derive(Default)]
    pub enum SpanKind {
        /// Trial.
        Trial = "trial",
        /// Phase of a trial.
        Phase = "phase",
        /// Warm-up of a phase.
        Warmup = "warm-up",
        /// Operation of an `ask` phase.
        Asked = "asked",
        /// Fault of the plan, from its beginning until it was healed, or until the end of its phase.
        Fault = "fault",
        /// Action on servers: by a command for their lab, by the lab itself, or by the plan.
        Action = "action",
        /// Time in which a phase did much less than in its others.
        Stall = "stall",
        /// Time in which operations of a phase took much longer than in its others.
        Peak = "peak",
        /// Pause of the machine, on one processor.
        Pause = "pause",
        /// End of a store's maintenance cycle, such as a checkpoint.
        Cycle = "cycle",
        /// Another event.
        #[default]
        Event = "event",
    }
}

/// Span or moment of a run. Times are nanoseconds on the run's clock.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SpanRow {
    /// Kind of the span.
    pub kind: SpanKind,
    /// Position of the trial in the plan; `None` if the span belongs to none.
    pub trial_ordinal: Option<u32>,
    /// Name of the trial; empty without one.
    pub trial: String,
    /// Position of the phase in the trial; `None` if the span belongs to none.
    pub phase_ordinal: Option<u32>,
    /// Name of the phase; empty without one.
    pub phase: String,
    /// Name of the span in words: `kill of node 1, the primary`.
    pub name: String,
    /// Affected part: `node 1, the primary`, of a pause `cpu1`; may be empty.
    pub subject: String,
    /// Start.
    pub start_ns: u64,
    /// End; equal to `start_ns` for a moment.
    pub end_ns: u64,
    /// False if the end was not recorded: the program died, or a fault was not healed.
    pub has_ended: bool,
    /// Planned time of a fault.
    pub planned_ns: Option<u64>,
    /// Time at which a fault had taken effect; `None` if it has not.
    pub taken_ns: Option<u64>,
    /// Beginning of a fault's healing; `None` if it has not begun, and for a fault that ends by itself.
    pub healing_ns: Option<u64>,
    /// Severity of an action or event.
    pub level: Option<Level>,
    /// Error of a fault; `None` without one.
    pub error: Option<String>,
}

impl SpanRow {
    fn new(kind: SpanKind, (start_ns, end_ns): (u64, u64), name: impl Into<String>) -> Self {
        Self { kind, name: name.into(), start_ns, end_ns: end_ns.max(start_ns), has_ended: true, ..Self::default() }
    }

    fn of_trial(self, trial: &Trial) -> Self {
        Self { trial_ordinal: Some(trial.header.ordinal), trial: name::trial(&trial.header), ..self }
    }

    fn of_phase(self, phase: &Phase) -> Self {
        Self { phase_ordinal: Some(phase.header.ordinal), phase: phase.header.name.clone(), ..self }
    }
}

/// Returns the spans of a run by their starts; of those with one start, the longest first.
pub fn spans(run: &Run) -> Vec<SpanRow> {
    let facts: Vec<Vec<PhaseFacts<'_>>> = run.trials.iter().map(PhaseFacts::of).collect();
    let run_end_ns = timeline::last_ns(run);
    let mut rows = Vec::new();
    for (trial, facts) in run.trials.iter().zip(&facts) {
        let ends_ns: Vec<u64> =
            (0..trial.phases.len()).map(|at| timeline::phase_end_ns(trial, at, run_end_ns)).collect();
        let last_ns = trial.end_ns.or(ends_ns.iter().max().copied()).unwrap_or(0);
        let whole = SpanRow::new(SpanKind::Trial, (trial.header.start_ns, last_ns), name::trial(&trial.header));
        rows.push(SpanRow { has_ended: trial.end_ns.is_some(), ..whole }.of_trial(trial));
        for (facts, end_ns) in facts.iter().zip(&ends_ns) {
            rows.extend(of_phase(facts, *end_ns));
        }
        rows.extend(trial.faults.iter().map(|span| fault(trial, &ends_ns, span)));
    }
    rows.extend(stall::driven(&facts).flat_map(|facts| slow(run, facts)));
    rows.extend(run.events.iter().map(|event| happened(run, event)));
    rows.extend(host::cycles(run).into_iter().map(|mark| {
        let at_ns = (mark.x * 1e9).round() as u64;
        SpanRow::new(SpanKind::Cycle, (at_ns, at_ns), mark.name)
    }));
    rows.sort_by_key(|row| (row.start_ns, Reverse(row.end_ns), row.kind));
    rows
}

/// Returns a phase and the spans within it.
fn of_phase(facts: &PhaseFacts<'_>, end_ns: u64) -> Vec<SpanRow> {
    let (trial, phase) = (facts.trial, facts.phase);
    let start_ns = phase.header.start_ns;
    let whole = SpanRow::new(SpanKind::Phase, (start_ns, end_ns), phase.header.name.as_str());
    let mut rows = vec![SpanRow { has_ended: phase.end.state != PhaseState::Unfinished, ..whole }];
    let last_warmup = phase.slices.iter().rfind(|slice| facts.is_warmup(slice));
    rows.extend(last_warmup.map(|slice| SpanRow::new(SpanKind::Warmup, (start_ns, slice.end_ns), "warm-up")));
    let asked = phase.end.asked.iter();
    rows.extend(asked.map(|one| SpanRow::new(SpanKind::Asked, (one.start_ns, one.end_ns), facts.op_name(one.kind))));
    let watched = phase.slices.iter().filter_map(|slice| slice.watched.as_ref());
    rows.extend(watched.flat_map(|watched| &watched.pauses).map(|pause| {
        let row = SpanRow::new(SpanKind::Pause, (pause.start_ns, pause.end_ns), "pause of the machine");
        SpanRow { subject: format!("cpu{}", pause.cpu), ..row }
    }));
    rows.into_iter().map(|row| row.of_trial(trial).of_phase(phase)).collect()
}

/// Returns a fault of a trial whose phases end at `ends_ns`.
fn fault(trial: &Trial, ends_ns: &[u64], span: &FaultSpan) -> SpanRow {
    let phase = trial.phases.iter().zip(ends_ns).find(|(phase, _)| phase.header.ordinal == span.phase);
    let end_ns = span.healed_ns.or(phase.map(|(_, end_ns)| *end_ns)).unwrap_or(span.begun_ns);
    let row = SpanRow {
        subject: span.subject.clone(),
        has_ended: span.healed_ns.is_some(),
        planned_ns: Some(span.planned_ns),
        taken_ns: span.taken_ns,
        healing_ns: span.healing_ns,
        error: span.error.clone(),
        ..SpanRow::new(SpanKind::Fault, (span.begun_ns, end_ns), name::fault(span))
    };
    let row = row.of_trial(trial);
    match phase {
        Some((phase, _)) => row.of_phase(phase),
        None => row,
    }
}

/// Returns the stalls and peaks of a driven phase.
fn slow(run: &Run, facts: &PhaseFacts<'_>) -> Vec<SpanRow> {
    let stalls = stall::spans(run, facts).into_iter().map(|span| SpanRow::new(SpanKind::Stall, span, "stall"));
    let peaks = peak::spans(run, facts).into_iter();
    let peaks = peaks.map(|(start_ns, end_ns, name)| SpanRow::new(SpanKind::Peak, (start_ns, end_ns), name));
    stalls.chain(peaks).map(|row| row.of_trial(facts.trial).of_phase(facts.phase)).collect()
}

fn happened(run: &Run, event: &Event) -> SpanRow {
    let kind = if event.class.is_action() { SpanKind::Action } else { SpanKind::Event };
    let row = SpanRow {
        subject: event.subject.clone(),
        level: Some(event.level),
        ..SpanRow::new(kind, (event.from_ns, event.until_ns), event.text.as_str())
    };
    let trial = run.trials.iter().find(|trial| Some(trial.header.ordinal) == event.trial);
    match trial {
        Some(trial) => row.of_trial(trial),
        None => row,
    }
}
