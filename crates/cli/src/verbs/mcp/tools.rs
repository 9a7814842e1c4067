//! Tools of the Model Context Protocol: the questions of `plimsoll ask`, each with a JSON Schema of its arguments.

use plimsoll_core::shown;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::args::Question;
use crate::error;
use crate::verbs::ask;

/// Longest answer. A longer one would fill the memory of its reader.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Type of an argument.
enum ArgumentType {
    /// Text.
    Text,
    /// Whole number, 0 or more.
    Number,
    /// List of texts.
    Texts,
}

/// Argument of a tool: its name, its type, its description, and true if it is required.
type Argument = (&'static str, ArgumentType, &'static str, bool);

/// A tool.
struct Tool {
    name: &'static str,
    description: &'static str,
    arguments: &'static [Argument],
}

use ArgumentType::{Number, Text, Texts};

/// Argument of all tools about a run.
const RUN: Argument = ("run", Text, "Id of a run, a unique beginning of one, `latest` (the default), or a path", false);

const TOOLS: &[Tool] = &[
    Tool {
        name: "list",
        description: "Lists the recorded runs, newest first: id, plan, stores, state, verdict, rate and p99.",
        arguments: &[("tag", Text, "Only runs with this tag", false)],
    },
    Tool {
        name: "describe",
        description: "Describes a run: verdict with its reasons, goals and whether they held, stores, trials with \
            settings and phases, result in a line (rate, percentiles, errors, lost writes), stalls, peaks, warnings.",
        arguments: &[RUN],
    },
    Tool {
        name: "figures",
        description: "Lists every number of a run by its name (such as drive.p99[op=read]) with unit, value, number of \
            observations n and interval. Names select some of them: p99, drive.rate.",
        arguments: &[RUN, ("names", Texts, "Names of figures: p99, drive.p99, drive.p99[op=read]", false)],
    },
    Tool {
        name: "series",
        description: "Lists the series over time (throughput, latency percentiles of each slice, samplers); with names \
            of panels, such as Throughput and Latency, with times and values.",
        arguments: &[RUN, ("names", Texts, "Names of panels, as this tool lists them without names", false)],
    },
    Tool {
        name: "findings",
        description: "Lists findings of a run: causes of slow moments with the series that are their evidence, and \
            resources that bound a phase, each with a next step and the command that tests it.",
        arguments: &[RUN],
    },
    Tool {
        name: "faults",
        description: "Lists the faults of the plan with their effects on clients: outage, time to recovery, errors.",
        arguments: &[RUN],
    },
    Tool {
        name: "events",
        description: "Lists events of a run with their times: actions on servers, errors, what samplers reported.",
        arguments: &[RUN],
    },
    Tool {
        name: "compare",
        description: "Compares another run (B) with a run (A): differences of configuration, then each number with its \
            change, interval, and whether the change is significant.",
        arguments: &[RUN, ("other", Text, "Run to compare with the first one", true)],
    },
    Tool {
        name: "explain",
        description: "Compares the operations of a time, or the slow ones, with the rest of their phases: faults and \
            pauses at that time, then differences of operation types, servers, outcomes and sampled series, by effect.",
        arguments: &[
            RUN,
            ("from", Text, "Beginning on the run's clock: 00:30, 01:00:30 or 30s", false),
            ("to", Text, "End on the run's clock", false),
            ("above", Text, "Only operations that took longer: 20ms", false),
            ("trial", Number, "Trial by its ordinal in `describe`", false),
            ("phase", Text, "Phase by its name", false),
        ],
    },
];

/// Lists the tools.
pub(super) fn list() -> Vec<Value> {
    TOOLS.iter().map(described).collect()
}

fn described(tool: &Tool) -> Value {
    let schema = |(name, takes, description, _): &Argument| {
        let mut schema = match takes {
            Text => json!({ "type": "string" }),
            Number => json!({ "type": "integer", "minimum": 0 }),
            Texts => json!({ "type": "array", "items": { "type": "string" } }),
        };
        schema["description"] = json!(description);
        ((*name).to_owned(), schema)
    };
    let properties: Map<String, Value> = tool.arguments.iter().map(schema).collect();
    let required = tool.arguments.iter().filter(|(.., is_required)| *is_required);
    let required: Vec<&str> = required.map(|(name, ..)| *name).collect();
    json!({
        "name": tool.name,
        "description": tool.description,
        "inputSchema": {
            "type": "object", "properties": properties, "required": required, "additionalProperties": false,
        },
        "annotations": { "readOnlyHint": true, "openWorldHint": false },
    })
}

/// Runs a tool: its answer, or an error with a next step. `None` if there is no such tool.
pub(super) fn call(name: &str, arguments: Map<String, Value>) -> Option<Result<String, String>> {
    TOOLS.iter().find(|tool| tool.name == name).map(|tool| answered(tool, arguments))
}

fn answered(tool: &Tool, mut arguments: Map<String, Value>) -> Result<String, String> {
    let names: Vec<&str> = tool.arguments.iter().map(|(name, ..)| *name).collect();
    let refused = |what: &str| format!("error: {what}\n  → arguments of {} are: {}", tool.name, names.join(", "));
    // As if it were not given.
    arguments.retain(|_, value| !value.is_null());
    check(tool, &arguments).map_err(|what| refused(&what))?;
    let run = if names.contains(&"run") { arguments.remove("run") } else { None };
    let run = run.and_then(|run| Some(run.as_str()?.to_owned())).unwrap_or_else(|| "latest".to_owned());
    let question = question(tool.name, Value::Object(arguments)).map_err(|error| refused(&error.to_string()))?;
    let answer = ask::answer(&run, &question);
    let in_words_of_tools = |text: String| {
        let text = text.replace("`plimsoll runs`", "the tool `list`");
        names.iter().fold(text, |text, name| text.replace(&format!("--{name} "), &format!("{name} ")))
    };
    let told = |error| in_words_of_tools(plimsoll_plan::without_secrets(&error::text(&error)));
    let answer = answer.map_err(told)?.to_string();
    if answer.len() > ANSWER_BYTES_MAX {
        let bytes = shown::count(answer.len() as u64);
        let next = "ask for less, by names or a tag; `plimsoll ask` in a shell prints answers of any length";
        return Err(format!("error: the answer has {bytes} bytes\n  → {next}"));
    }
    Ok(answer)
}

/// Checks the names and types of arguments.
///
/// # Errors
/// Names the first argument that is unknown, of another type or missing.
fn check(tool: &Tool, given: &Map<String, Value>) -> Result<(), String> {
    let is_known = |name: &String| tool.arguments.iter().any(|(known, ..)| known == name);
    if let Some(unknown) = given.keys().find(|name| !is_known(name)) {
        return Err(format!("unknown argument `{}`", shown::clean(&shown::short(unknown))));
    }
    for (name, takes, _, is_required) in tool.arguments {
        let (is_right, what) = match (given.get(*name), takes) {
            (None, _) if *is_required => return Err(format!("the argument `{name}` is missing")),
            (None, _) => continue,
            (Some(value), Text) => (value.is_string(), "a string"),
            (Some(value), Number) => {
                let is_number = value.as_u64().is_some_and(|number| u32::try_from(number).is_ok());
                (is_number, "a whole number, 0 or more")
            }
            (Some(value), Texts) => {
                (value.as_array().is_some_and(|all| all.iter().all(Value::is_string)), "a list of strings")
            }
        };
        if !is_right {
            return Err(format!("the argument `{name}` must be {what}"));
        }
    }
    Ok(())
}

/// Arguments of a question without any.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// Returns the question that a tool asks.
fn question(tool: &str, arguments: Value) -> serde_json::Result<Question> {
    fn given<T: DeserializeOwned>(arguments: Value, question: impl Fn(T) -> Question) -> serde_json::Result<Question> {
        serde_json::from_value(arguments).map(question)
    }
    match tool {
        "list" => given(arguments, Question::List),
        "figures" => given(arguments, Question::Figures),
        "series" => given(arguments, Question::Series),
        "compare" => given(arguments, Question::Compare),
        "explain" => given(arguments, Question::Explain),
        "findings" => given(arguments, |Nothing {}| Question::Findings),
        "faults" => given(arguments, |Nothing {}| Question::Faults),
        "events" => given(arguments, |Nothing {}| Question::Events),
        _ => given(arguments, |Nothing {}| Question::Describe),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_argument_of_a_schema_is_taken_and_no_other() {
        for tool in TOOLS {
            let example = |(name, takes, ..): &Argument| {
                let value = match takes {
                    Text => json!("x"),
                    Number => json!(1),
                    Texts => json!(["x"]),
                };
                ((*name).to_owned(), value)
            };
            let mut arguments: Map<String, Value> = tool.arguments.iter().map(example).collect();
            arguments.remove("run");
            let taken = question(tool.name, Value::Object(arguments.clone()));
            assert!(taken.is_ok(), "{}: {taken:?}", tool.name);
            arguments.insert("other_thing".to_owned(), json!(1));
            assert!(question(tool.name, Value::Object(arguments)).is_err(), "{}", tool.name);
            let schema = &described(tool)["inputSchema"];
            for required in schema["required"].as_array().unwrap() {
                assert!(question(tool.name, json!({})).is_err(), "{} without {required}", tool.name);
            }
        }
    }

    #[test]
    fn a_wrong_argument_is_told_with_those_that_there_are() {
        let error = call("explain", Map::from_iter([("til".to_owned(), json!("1s"))])).unwrap().unwrap_err();
        assert!(error.contains("til") && error.contains("→ arguments of explain are: run, from, to, above"), "{error}");
        let error = call("list", Map::from_iter([("run".to_owned(), json!("x"))])).unwrap().unwrap_err();
        assert!(error.contains("run") && error.contains("tag"), "{error}");
        for (tool, name, value, words) in [
            ("describe", "run", json!(5), "`run` must be a string"),
            ("describe", "foo", json!(1), "unknown argument `foo`\n  → arguments of describe are: run"),
            ("explain", "trial", json!("0"), "`trial` must be a whole number, 0 or more"),
            ("explain", "trial", json!(-1), "`trial` must be a whole number, 0 or more"),
            ("explain", "trial", json!(1u64 << 32), "`trial` must be a whole number, 0 or more"),
            ("figures", "names", json!("p99"), "`names` must be a list of strings"),
            ("figures", "names", json!([1]), "`names` must be a list of strings"),
            ("compare", "other", json!(null), "the argument `other` is missing"),
            ("explain", "from", json!("99:99"), "error: from 99:99 is no time"),
            ("explain", "above", json!("20"), "error: above 20: needs a unit"),
        ] {
            let error = call(tool, Map::from_iter([(name.to_owned(), value)])).unwrap().unwrap_err();
            assert!(error.contains(words) && !error.contains("u32"), "{error}");
        }
        assert!(call("remove", Map::new()).is_none());
    }
}
