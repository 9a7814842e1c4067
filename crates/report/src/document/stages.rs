//! Loads that change: what each stage wanted and got.

use plimsoll_analysis::RunView;
use plimsoll_analysis::number;
use plimsoll_analysis::view::{PhaseView, StageView, TrialView};

use super::{Body, Cell, ColumnOf, Table, numbers, or_none, words};

/// Stages of which it is told where there is little room.
const STAGES_MAX: usize = 40;

/// The stages of every phase that has some.
pub fn stages<'v>(view: &'v RunView, full: bool) -> Body<'v> {
    let phases = || view.trials.iter().flat_map(|trial| trial.phases.iter().map(move |phase| (trial, phase)));
    let all = || phases().flat_map(|(trial, phase)| phase.stages.iter().map(move |stage| (trial, phase, stage)));
    let any_wanted = all().any(|(.., stage)| stage.wanted_per_s.is_some());
    let any_errors = all().any(|(.., stage)| stage.error_percent > 0.0);
    let rate = |rate: f64| number::with_unit(rate, "1/s");
    let late = |phase: &PhaseView, text: Option<String>| -> Cell {
        or_none(text.map(|text| number::marked(text, phase.late.is_some()))).into()
    };
    let time = |phase: &PhaseView, ns: Option<u64>| late(phase, ns.map(number::nanoseconds));
    type Row<'v> = (&'v TrialView, &'v PhaseView, &'v StageView);
    let columns: [ColumnOf<'_, Row<'v>>; 11] = [
        (words("trial"), &|(trial, ..)| (&trial.name).into()),
        (words("phase"), &|(_, phase, _)| (&phase.name).into()),
        (words("load"), &|(.., stage)| (&stage.load).into()),
        (numbers("length"), &|(.., stage)| number::seconds(stage.seconds).into()),
        (numbers("wanted").when(any_wanted), &|(.., stage)| or_none(stage.wanted_per_s.map(rate)).into()),
        (numbers("done"), &|(_, phase, stage)| late(phase, stage.rate_per_s.map(rate))),
        (numbers("p50"), &|(_, phase, stage)| time(phase, stage.p50_ns)),
        (numbers("p95"), &|(_, phase, stage)| time(phase, stage.p95_ns)),
        (numbers("p99"), &|(_, phase, stage)| time(phase, stage.p99_ns)),
        (numbers("max"), &|(_, phase, stage)| time(phase, stage.max_ns)),
        (numbers("errors").when(any_errors), &|(.., stage)| number::with_unit(stage.error_percent, "%").into()),
    ];
    let mut body = Body::noted("wanted: the mean rate of the stage; done: operations that did not fail");
    let mut rows: Vec<Row<'_>> = all().collect();
    let left_out = if full { 0 } else { rows.len().saturating_sub(STAGES_MAX) };
    rows.truncate(rows.len() - left_out);
    body.table(Table::of("Stages", &rows, &columns));
    body.left_out(left_out);
    body
}
