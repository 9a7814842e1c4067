//! `plimsoll ask`: questions about recordings, answered for programs.
//!
//! Answers are parts of the JSON of `report`, `runs`, `compare` and `explain`, under the same names.

use std::collections::BTreeSet;

use plimsoll_analysis::quantities;
use plimsoll_analysis::view::QuantityView;
use plimsoll_record::data::Run;
use plimsoll_trial::TrialError;
use serde_json::{Map, Value, json};

use crate::args::{AskArgs, Question};
use crate::verbs::{compare, explain, report, runs};

/// Fields of a report that describe a run.
const DESCRIPTION: [&str; 18] = [
    "format",
    "run",
    "verdict",
    "answer",
    "summary",
    "notices",
    "goals",
    "stores",
    "durability",
    "trials",
    "lines",
    "promises",
    "stalls",
    "peaks",
    "left_out",
    "warnings",
    "late",
    "environment",
];
/// Fields of a phase in a description. Its numbers are figures.
const OF_PHASE: [&str; 14] = [
    "ordinal",
    "name",
    "kind",
    "rung",
    "durability",
    "clients",
    "scheduled_rate_per_s",
    "open_loop",
    "start_s",
    "seconds",
    "state",
    "reason",
    "late",
    "outage",
];
/// Fields of `plots` with panels of lines over time.
const PANELS: [&str; 5] = ["throughput", "loading", "latency", "store", "host"];

/// Answers the question of `args`.
pub fn run(args: &AskArgs) -> Result<u8, TrialError> {
    let answer = answer(&args.run, &args.question)?;
    crate::print(&if args.json { format!("{answer}\n") } else { plimsoll_report::json(&answer) })
}

/// Returns the answer to a question about the run `wanted`.
///
/// # Errors
/// Fails if there is no such run, or it has nothing of a name in the question.
pub fn answer(wanted: &str, question: &Question) -> Result<Value, TrialError> {
    if let Question::List(args) = question {
        return runs::listed(args.tag.as_deref());
    }
    let selection = match question {
        // What is typed is checked before anything is read.
        Question::Explain(args) => Some(explain::parsed(args)?),
        _ => None,
    };
    let (_, run) = report::load(wanted, false)?;
    if let Some(selection) = selection {
        return Ok(to_value(&explain::explained(&run, &selection)?));
    }
    if let Question::Compare(args) = question {
        let (_, other) = report::load(&args.other, false)?;
        compare::are_two(&run, &other)?;
        return Ok(to_value(&plimsoll_analysis::compare::compare(&run, &other, &[], None)));
    }
    if let Question::Figures(args) = question {
        return figures(&run, &args.names);
    }
    let Value::Object(mut view) = to_value(&plimsoll_analysis::view(&run)) else { return Ok(Value::Null) };
    let mut answer = match question {
        Question::Series(args) => series(&mut view, &args.names)?,
        Question::Events => taken(&mut view, &["events"]),
        Question::Findings => taken(&mut view, &["findings"]),
        Question::Faults => taken(&mut view, &["faults", "fault_repeats", "fault_losses", "formulas", "disk_faults"]),
        _ => description(&mut view),
    };
    answer.insert("id".to_owned(), json!(run.header.id));
    Ok(Value::Object(answer))
}

/// Returns a view as JSON.
fn to_value<T: serde::Serialize>(view: &T) -> Value {
    // A view holds nothing that JSON cannot: string keys, and numbers that become null if they are none.
    serde_json::to_value(view).unwrap_or_default()
}

/// Takes fields out of a view.
fn taken(view: &mut Map<String, Value>, fields: &[&str]) -> Map<String, Value> {
    fields.iter().filter_map(|field| view.remove_entry(*field)).collect()
}

fn description(view: &mut Map<String, Value>) -> Map<String, Value> {
    let mut all = taken(view, &DESCRIPTION);
    let trials = all.get_mut("trials").and_then(Value::as_array_mut).into_iter().flatten();
    for phase in trials.filter_map(|trial| trial.get_mut("phases")?.as_array_mut()).flatten() {
        if let Value::Object(fields) = phase {
            *fields = taken(fields, &OF_PHASE);
        }
    }
    all
}

/// Returns all quantities and figures, or those with one of `names`.
fn figures(run: &Run, names: &[String]) -> Result<Value, TrialError> {
    let all = quantities::quantities(run);
    if let Some(unknown) = names.iter().find(|name| !all.iter().any(|one| quantities::is_named(one, name))) {
        let known: BTreeSet<&str> = all.iter().map(|one| one.quantity.as_str()).collect();
        return Err(TrialError::usage(format!("run {} has no figure {unknown}", run.header.id))
            .next(format!("it has: {}", known.into_iter().collect::<Vec<_>>().join(", "))));
    }
    let is_wanted = |one: &&QuantityView| names.is_empty() || names.iter().any(|name| quantities::is_named(one, name));
    let wanted: Vec<&QuantityView> = all.iter().filter(is_wanted).collect();
    Ok(json!({ "id": run.header.id, "figures": wanted }))
}

/// Returns the panels over time: without `names` their lines and medians, else those of these names with all values.
fn series(view: &mut Map<String, Value>, names: &[String]) -> Result<Map<String, Value>, TrialError> {
    let mut plots = view.remove("plots").unwrap_or_default();
    let ops = plots["ops"].take();
    let mut panels = Vec::new();
    for field in PANELS {
        match plots[field].take() {
            Value::Array(several) => {
                for (at, panel) in several.into_iter().enumerate() {
                    // The panels of latency differ by their operation type only.
                    let op = if field == "latency" { ops[at].clone() } else { Value::Null };
                    panels.push((op, panel));
                }
            }
            one => panels.push((Value::Null, one)),
        }
    }
    let is_called = |panel: &Value, name: &str| panel["name"].as_str().is_some_and(|of| of.eq_ignore_ascii_case(name));
    if let Some(unknown) = names.iter().find(|name| !panels.iter().any(|(_, panel)| is_called(panel, name))) {
        // Quoted, because names have spaces and commas: 'Disk, busy'.
        let known: BTreeSet<String> =
            panels.iter().filter_map(|(_, panel)| Some(format!("'{}'", panel["name"].as_str()?))).collect();
        return Err(TrialError::usage(format!("there are no series {unknown}"))
            .next(format!("panels of series are: {}", known.into_iter().collect::<Vec<_>>().join(", "))));
    }
    panels.retain(|(_, panel)| names.is_empty() || names.iter().any(|name| is_called(panel, name)));
    let shown = |(op, mut panel): (Value, Value)| {
        panel["op"] = op;
        if names.is_empty() {
            panel["t_s"].take();
            let lines = panel["lines"].as_array_mut().into_iter().flatten();
            lines.for_each(|line| drop(line["values"].take()));
        }
        panel
    };
    let mut answer = Map::new();
    answer.insert("panels".to_owned(), panels.into_iter().map(shown).collect());
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        let Value::Object(object) = value else { panic!("{value}") };
        object
    }

    fn plots() -> Map<String, Value> {
        let line = json!({ "name": "p99", "values": [3, 4], "median": 3.5 });
        let panel = |name: &str| json!({ "name": name, "unit": "s", "t_s": [0, 1], "lines": [line] });
        object(json!({ "plots": { "ops": ["all", "read"], "throughput": panel("Throughput"),
            "loading": panel("Loading"), "latency": [panel("Latency"), panel("Latency")], "store": [],
            "host": [panel("CPU")] } }))
    }

    #[test]
    fn panels_are_listed_without_values_and_given_with_them_by_name() {
        let all = series(&mut plots(), &[]).unwrap();
        let panels = all["panels"].as_array().unwrap();
        assert_eq!(panels.len(), 5);
        assert_eq!((&panels[3]["op"], &panels[3]["lines"][0]["median"]), (&json!("read"), &json!(3.5)));
        assert!(panels.iter().all(|panel| panel["t_s"].is_null() && panel["lines"][0]["values"].is_null()));
        let cpu = series(&mut plots(), &["cpu".to_owned()]).unwrap();
        assert_eq!(cpu["panels"].as_array().unwrap().len(), 1);
        assert_eq!(cpu["panels"][0]["lines"][0]["values"], json!([3, 4]));
        let refused = series(&mut plots(), &["gpu".to_owned()]).unwrap_err();
        assert!(refused.next.is_some_and(|next| next.contains("'CPU', 'Latency', 'Loading', 'Throughput'")));
    }

    #[test]
    fn a_description_has_no_numbers_of_phases() {
        let phase = json!({ "name": "mixed", "kind": "drive", "latencies": [1], "histogram": [2] });
        let mut view = object(json!({ "run": { "id": "x" }, "trials": [{ "phases": [phase] }], "plots": {} }));
        let described = Value::Object(description(&mut view));
        let phase = json!({ "name": "mixed", "kind": "drive" });
        assert_eq!(described, json!({ "run": { "id": "x" }, "trials": [{ "phases": [phase] }] }));
    }
}
