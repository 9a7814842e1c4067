//! Loads that change: what each stage wanted and got.

use plimsoll_analysis::RunView;
use plimsoll_analysis::number;

use super::{Body, Table, numbers, or_none, words};
use crate::cells;

/// Stages of which it is told where there is little room.
const STAGES_MAX: usize = 40;

/// The stages of every phase that has some.
pub fn stages<'a>(view: &RunView, full: bool) -> Body<'a> {
    let phases = || view.trials.iter().flat_map(|trial| trial.phases.iter().map(move |phase| (trial, phase)));
    let all = || phases().flat_map(|(trial, phase)| phase.stages.iter().map(move |stage| (trial, phase, stage)));
    let any_wanted = all().any(|(.., stage)| stage.wanted_per_s.is_some());
    let any_errors = all().any(|(.., stage)| stage.error_percent > 0.0);
    let columns = [
        ["trial", "phase", "load"].map(words).to_vec(),
        vec![numbers("length"), numbers("wanted").when(any_wanted), numbers("done")],
        ["p50", "p95", "p99", "max"].map(numbers).to_vec(),
        vec![numbers("errors").when(any_errors)],
    ];
    let mut table = Table::new("Stages", columns.concat());
    let most = if full { usize::MAX } else { STAGES_MAX };
    for (trial, phase, stage) in all().take(most) {
        let is_late = phase.late.is_some();
        let rate = |rate: Option<f64>| or_none(rate.map(|rate| number::with_unit(rate, "1/s")));
        let time = |ns: Option<u64>| or_none(ns.map(|ns| number::marked(number::nanoseconds(ns), is_late)));
        table.row(cells![
            &trial.name,
            &phase.name,
            &stage.load,
            number::seconds(stage.seconds),
            rate(stage.wanted_per_s),
            or_none(stage.rate_per_s.map(|rate| number::marked(number::with_unit(rate, "1/s"), is_late))),
            time(stage.p50_ns),
            time(stage.p95_ns),
            time(stage.p99_ns),
            time(stage.max_ns),
            number::with_unit(stage.error_percent, "%"),
        ]);
    }
    let mut body = Body::noted("wanted: the mean rate of the stage; done: operations that did not fail");
    body.table(table);
    let left_out = all().count().saturating_sub(most);
    if left_out > 0 {
        body.text(format!("and {} more in the page", number::count(left_out as u64)));
    }
    body
}
