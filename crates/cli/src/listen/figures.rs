//! Figures of a run in progress as one tree, for programs: JSON, and the same tree as XML.

use std::fmt::Write as _;

use plimsoll_analysis::Times;
use plimsoll_analysis::live::{LiveGoal, LiveMoment, LivePhase, LiveSums};
use plimsoll_analysis::slices::ALL;
use plimsoll_record::data::{FaultSpan, PhaseState, RunState};
use serde_json::{Value, json};

use crate::listen::watched::WatchedRun;

/// Format of the tree. It grows if a field is removed or changes its meaning.
const FORMAT: u32 = 1;

/// Returns all figures of the run.
pub fn tree(run: &WatchedRun) -> Value {
    let live = &run.live;
    let totals =
        run.totals.iter().map(|(of, done)| with_sums(json!({"store": of.store, "phase": of.phase, "op": of.op}), done));
    let series = live.values().map(|(series, value)| {
        json!({
            "source": series.source, "subject": series.subject, "name": series.name, "unit": series.unit,
            "value": value,
        })
    });
    let at_s = |ns: u64| ns as f64 / 1e9;
    let events = live
        .events()
        .map(|event| json!({"at_s": at_s(event.from_ns), "level": event.level.name(), "text": event.text}));
    json!({
        "format": FORMAT,
        "run": run.header.as_ref().map(|header| json!({
            "id": header.id, "plan": header.plan_name, "title": header.title, "tag": header.tag,
            "plimsoll_version": header.plimsoll_version, "started_wall_ns": header.started_wall_ns,
            "state": state(run.ended.as_ref()),
        })),
        "trial": live.trial().map(|trial| json!({
            "name": run.trial, "ordinal": trial.ordinal, "store": trial.store_label, "version": trial.version,
            "workload": trial.workload,
        })),
        "phase": live.phase().map(phase),
        "loading": run.loading.map(|(done, of)| json!({"done": done, "of": of})),
        "cells": run.cells.as_ref().map(|cells| json!({
            "done": cells.done, "of": cells.of, "left_out": cells.left_out, "broken": cells.broken,
            "left_s": cells.left.map(|left| left.as_secs_f64()),
        })),
        "totals": totals.collect::<Vec<_>>(),
        "series": series.collect::<Vec<_>>(),
        "events": events.collect::<Vec<_>>(),
        "lost_observations": run.lost,
    })
}

fn state(ended: Option<&RunState>) -> &'static str {
    match ended {
        None | Some(RunState::Running) => "running",
        Some(RunState::Complete) => "complete",
        Some(RunState::Interrupted) => "interrupted",
        Some(RunState::Failed(_)) => "failed",
        Some(RunState::Unfinished) => "unfinished",
    }
}

fn phase_state(ended: Option<&PhaseState>) -> &'static str {
    match ended {
        None => "running",
        Some(PhaseState::Complete) => "complete",
        Some(PhaseState::Interrupted) => "interrupted",
        Some(PhaseState::Failed(_)) => "failed",
        Some(PhaseState::Void(_)) => "void",
        Some(PhaseState::Unfinished) => "unfinished",
    }
}

fn phase(phase: &LivePhase) -> Value {
    let newest = phase.newest.back();
    let start_s = phase.header.start_ns as f64 / 1e9;
    let types = phase.types.iter().map(|(name, of_type)| with_sums(json!({"op": name}), &of_type.done));
    let moments = phase.moments().map(|slow| moment(phase, slow));
    json!({
        "name": phase.header.name,
        "kind": phase.header.kind.name(),
        "state": phase_state(phase.ended.as_ref()),
        "clients": phase.header.clients,
        "scheduled_rate_per_s": phase.header.rate_per_s,
        "takes_s": phase.takes.map(|takes| takes.as_secs_f64()),
        "elapsed_s": newest.map(|row| row.end_s - start_s),
        "done": with_sums(json!({"op": ALL}), &phase.done),
        "types": types.collect::<Vec<_>>(),
        // The fields of a slice are those of `--json`.
        "newest": newest.and_then(|row| serde_json::from_str::<Value>(&plimsoll_report::json_slice(row)).ok()),
        "goals_phase": phase.goals_phase,
        "goals": phase.goals.iter().map(goal).collect::<Vec<_>>(),
        "faults": phase.faults.iter().map(fault).collect::<Vec<_>>(),
        "moments": moments.collect::<Vec<_>>(),
    })
}

fn moment(phase: &LivePhase, slow: &LiveMoment) -> Value {
    json!({
        "start_s": slow.start_s, "end_s": slow.end_s, "quantity": slow.quantity, "unit": slow.unit,
        "value": slow.value, "usual": slow.usual, "text": slow.text(), "meanwhile": phase.meanwhile(slow),
    })
}

/// Adds the fields of sums to the fields in `of`.
fn with_sums(mut of: Value, done: &LiveSums) -> Value {
    let ns = |name: &str| done.times.percentile(name).ok();
    let times = Some(&done.times).filter(|times| !times.is_empty());
    let sums = json!({
        "count": done.count, "ok": done.ok(), "failed": done.failed, "rejected": done.rejected,
        "unknown": done.unknown, "unfinished": done.unfinished, "seconds": done.seconds,
        "rate_per_s": done.rate_per_s(), "error_percent": done.error_percent(),
        "mean_ns": times.map(Times::mean_ns), "max_ns": times.map(Times::max_ns),
        "p50_ns": ns("p50"), "p90_ns": ns("p90"), "p95_ns": ns("p95"), "p99_ns": ns("p99"), "p999_ns": ns("p999"),
    });
    if let (Value::Object(into), Value::Object(sums)) = (&mut of, sums) {
        into.extend(sums);
    }
    of
}

fn goal(goal: &LiveGoal) -> Value {
    json!({
        "name": goal.name, "limit": goal.limit, "unit": goal.unit, "at_least": goal.at_least, "value": goal.seen,
        "open": goal.open, "holds": goal.holds, "margin": goal.margin(), "at_end": goal.at_end,
    })
}

fn fault(span: &FaultSpan) -> Value {
    let seconds = |ns: u64| ns as f64 / 1e9;
    json!({
        "fault": span.fault, "subject": span.subject, "begun_s": seconds(span.begun_ns),
        "taken_s": span.taken_ns.map(seconds), "healed_s": span.healed_ns.map(seconds), "error": span.error,
    })
}

/// Writes a tree as XML: fields are elements, an entry of a list is an element `item`, and a missing value is an empty
/// element.
pub fn xml(tree: &Value) -> String {
    let mut out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned();
    element(&mut out, "plimsoll", tree);
    out.push('\n');
    out
}

fn element(out: &mut String, name: &str, value: &Value) {
    let _ = write!(out, "<{name}>");
    match value {
        Value::Null => {}
        Value::String(text) => escape(out, text),
        Value::Object(fields) => fields.iter().for_each(|(name, value)| element(out, name, value)),
        Value::Array(items) => items.iter().for_each(|item| element(out, "item", item)),
        Value::Bool(_) | Value::Number(_) => {
            let _ = write!(out, "{value}");
        }
    }
    let _ = write!(out, "</{name}>");
}

/// Writes a text without the characters that XML does not allow.
fn escape(out: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\t' | '\n' => out.push(character),
            '\u{fffe}' | '\u{ffff}' => out.push(' '),
            control if control.is_control() => out.push(' '),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_record::data::{PhaseHeader, PhaseKind, Sample, Series, SeriesKind};
    use plimsoll_trial::{Sink, Told};

    use super::*;
    use crate::listen::watched::Watched;
    use crate::live::tests::slice;

    /// Returns the header of a drive in a closed loop.
    fn drive() -> PhaseHeader {
        PhaseHeader {
            trial: 0,
            ordinal: 0,
            name: "drive".to_owned(),
            kind: PhaseKind::Drive,
            rung: None,
            durability: None,
            clients: 8,
            workers: 1,
            rate_per_s: None,
            stages: Vec::new(),
            op_timeout_ns: None,
            connect_timeout_ns: None,
            finds_warmup: false,
            start_ns: 0,
        }
    }

    #[test]
    fn a_slow_moment_has_its_time_its_figure_and_the_series_that_rose() {
        let watched = Watched::default();
        let (source, subject, name, unit) = ("cpu".to_owned(), String::new(), "iowait".to_owned(), "%".to_owned());
        let series = Series { source, subject, name, unit, kind: SeriesKind::Level };
        watched.take(&Told::Series(0, series));
        watched.take(&Told::BeginPhase(drive(), None));
        for at in 0..20 {
            let (ns, value) = if at == 15 { (480_000_000, 41.0) } else { (12_000_000, 2.0) };
            let row = Box::new(slice(at, &[(ns, 2_000)]));
            watched.take(&Told::Slice { row, types: Vec::new(), measured: true });
            let at_ns = u64::from(at + 1) * 1_000_000_000 + 3_000_000;
            watched.take(&Told::Sample(Sample { at_ns, values: vec![(0, value)], ..Sample::default() }));
        }
        let moments = tree(&watched.read())["phase"]["moments"].clone();
        let wanted = json!([{
            "start_s": 15.0, "end_s": 16.0, "quantity": "p99", "unit": "ns", "value": 480e6, "usual": 12e6,
            "text": "p99 480 ms, usually 12.0 ms", "meanwhile": ["cpu iowait 41.0 %, usually 2.00 %"],
        }]);
        assert_eq!(moments, wanted);
    }

    #[test]
    fn a_tree_in_xml_has_every_value_of_the_tree() {
        let tree = json!({"a": {"none": null, "text": "1 < 2 & \u{1b}[31m"}, "list": [{"n": 1.5}, {"n": true}]});
        let wanted = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<plimsoll><a><none></none>\
                      <text>1 &lt; 2 &amp;  [31m</text></a>\
                      <list><item><n>1.5</n></item><item><n>true</n></item></list></plimsoll>\n";
        assert_eq!(xml(&tree), wanted);
    }

    #[test]
    fn a_run_before_its_beginning_has_a_tree_without_values() {
        let tree = tree(&WatchedRun::default());
        assert_eq!((&tree["run"], &tree["phase"], &tree["totals"]), (&Value::Null, &Value::Null, &json!([])));
    }
}
