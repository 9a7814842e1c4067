//! A JSON Schema of plans, for editors: the keys that [`crate::parse`] knows, with what stands under them.
//!
//! It is made from the catalogue, so that it names this build's stores, workloads and their parameters. What only the
//! parser can tell (a rate of zero, a kind that the workload does not have) it does not.

// A schema is put together from pieces that nobody needs afterwards.
#![allow(clippy::needless_pass_by_value)]

use plimsoll_core::{Catalogue, ParamSpec, ParamType};
use serde_json::{Map, Value, json};

use crate::KEYS;
use crate::model::GoalKind;
use crate::phases::{STEPS, keys};
use crate::quantity::{Dimension, pattern};
use crate::wishes::FINEST;

/// The schema, of JSON Schema draft 2020-12.
pub fn schema(catalogue: &Catalogue) -> Value {
    let mut root = object(KEYS.iter().map(|key| (*key, top(key, catalogue))));
    merge(
        &mut root,
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "A plan of Plimsoll",
            "required": ["workload", "phase"],
        }),
    );
    root
}

fn top(key: &str, catalogue: &Catalogue) -> Value {
    match key {
        "title" => text("One line that says what it is about."),
        "question" => text("The question it answers."),
        "source" => text("Where its published figures come from."),
        "stores" => stores(catalogue),
        "seed" => said(swept(json!({ "type": "integer", "minimum": 0 })), "Seed of all randomness."),
        "slice" => said(quantity(Dimension::Time), "Length of a slice, the unit of everything over time."),
        "setup_timeout" => {
            said(quantity(Dimension::Time), "Longest silence of a server while it is set up, and amid an answer.")
        }
        "load_timeout" => said(quantity(Dimension::Time), "Longest that an operation of a load may take."),
        "work_timeout" => {
            said(quantity(Dimension::Time), "Longest silence over a statement that makes, fills, tidies or removes.")
        }
        "samplers" => {
            let names: Vec<&str> = catalogue.samplers.iter().map(|sampler| sampler.name).collect();
            said(
                json!({ "type": "array", "items": { "enum": names } }),
                "What is read beside the load; all by default.",
            )
        }
        "repeats" => said(count(), "How often each point of the sweep is run."),
        "order" => said(json!({ "enum": ["random", "given"] }), "The order in which trials run."),
        "start" => said(json!({ "enum": ["fresh", "settled", "as-is"] }), "What trials after the first start from."),
        "server_pin" => {
            said(json!({ "type": "array", "items": { "type": "integer" } }), "Processors of a server started here.")
        }
        "dir" => text("Where the stores of the run's own keep their data."),
        "allow_writes" => {
            said(json!({ "type": "boolean" }), "Operations may change what an attached store held before.")
        }
        "answer_max" => said(quantity(Dimension::Size), "Most that is kept of one answer: \"16MiB\"."),
        "sweep" => tables(object([
            ("mode", json!({ "enum": ["grid", "one-at-a-time"] })),
            ("keys", json!({ "type": "array", "items": { "type": "string" } })),
        ])),
        "workload" => workload(catalogue),
        "phase" => phases(),
        "line" => said(
            object([
                ("from", quantity(Dimension::Rate)),
                ("least", quantity(Dimension::Rate)),
                ("most", quantity(Dimension::Rate)),
                ("precision", quantity(Dimension::Share)),
                ("budget", quantity(Dimension::Time)),
                ("thorough", said(json!({ "type": "boolean" }), "Deciding rungs last through the store's own cycle.")),
                ("warmup", quantity(Dimension::Time)),
            ]),
            "Search for the load line, within these bounds.",
        ),
        "goals" => object(GoalKind::ALL.map(GoalKind::name).into_iter().chain([FINEST]).map(|name| (name, goal(name)))),
        "figure" => tables(object([
            ("name", text("How reports call it.")),
            ("unit", text("Unit of its value.")),
            ("formula", text("load.seconds[index=own] / load.seconds[index=none]")),
            (
                "published_table",
                tables(object([
                    ("of", text("What it was measured on.")),
                    ("rows", text("The swept key whose values begin the lines.")),
                    ("columns", text("The swept key whose values are the first line.")),
                    ("text", text("The table.")),
                ])),
            ),
            (
                "published",
                tables(object([("value", json!({ "type": "number" })), ("of", text("What it was measured on."))])),
            ),
        ])),
        _ => json!({}),
    }
}

fn stores(catalogue: &Catalogue) -> Value {
    let names: Vec<&str> = catalogue.stores.iter().map(|kind| kind.spec().name).collect();
    let name = json!({ "anyOf": [{ "enum": names }, { "type": "string", "pattern": "^[a-z+]+://" }] });
    let mut params: Map<String, Value> = Map::new();
    for spec in catalogue.stores.iter().flat_map(|kind| kind.spec().params) {
        params.insert(spec.name.to_owned(), param(spec));
    }
    params.insert("store".to_owned(), name.clone());
    let table = json!({
        "type": "object",
        "required": ["store"],
        "properties": params,
        "additionalProperties": false,
    });
    let one = json!({ "anyOf": [name, table] });
    said(
        json!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] }),
        "Stores to run on: names or URLs.",
    )
}

fn workload(catalogue: &Catalogue) -> Value {
    let each = catalogue.workloads.iter().map(|spec| {
        let mut all = object(
            spec.params
                .iter()
                .map(|spec| (spec.name, param(spec)))
                .chain([("name", json!({ "const": spec.name, "description": spec.summary }))]),
        );
        if spec.takes_scripts {
            let script = tables(object([
                ("name", text("The kind's name; the file's by default.")),
                ("weight", count()),
                ("file", text("Path of the script, relative to the plan.")),
                ("text", text("The script itself, in pgbench's language.")),
            ]));
            if let Some(properties) = all["properties"].as_object_mut() {
                properties.insert("script".to_owned(), script);
            }
        }
        merge(&mut all, json!({ "required": ["name"] }));
        all
    });
    json!({ "oneOf": each.collect::<Vec<_>>() })
}

fn phases() -> Value {
    let each = STEPS.iter().map(|step| {
        let mut all = object(keys(step).iter().map(|key| match *key {
            "do" => ("do", json!({ "const": step })),
            key => (key, phase_key(key)),
        }));
        merge(&mut all, json!({ "required": ["do"] }));
        all
    });
    tables(json!({ "oneOf": each.collect::<Vec<_>>() }))
}

fn phase_key(key: &str) -> Value {
    match key {
        "name" => text("Name in formulas and reports."),
        "only" => said(json!({ "type": "object" }), "Trials that have this phase, by label and values."),
        "batch" => said(swept(count()), "Records to an operation."),
        "clients" => said(swept(count()), "Clients, one session each."),
        "depth" => said(swept(count()), "Operations that each client has under way at once."),
        "workers" => said(swept(count()), "Threads of the generator."),
        "count" => said(swept(count()), "How often it is asked."),
        "ops" => said(swept(count()), "Operations of each client."),
        "op" => said(swept(json!({ "type": "string" })), "The kind of operation."),
        "mix" => {
            let mix = json!({ "type": "object", "additionalProperties": { "type": "integer", "minimum": 0 } });
            said(swept(mix), "Shares of the kinds of operation.")
        }
        "loop" => said(swept(json!({ "enum": ["closed", "open"] })), "When the next operation starts."),
        "rate" => said(swept(rate()), "Operations a second of all clients together."),
        "arrivals" => said(swept(json!({ "enum": ["even", "poisson"] })), "How they are spaced."),
        "backlog" => {
            said(swept(quantity(Dimension::Time)), "Age of a due operation at which the store does not carry it.")
        }
        "wake" => said(swept(json!({ "enum": ["precise", "spin", "coarse"] })), "How exactly workers wake up."),
        "io" => said(swept(json!({ "enum": ["auto", "epoll", "io_uring"] })), "How sockets are driven."),
        "pin" => said(json!({ "type": "array", "items": { "type": "integer" } }), "Processors of the workers."),
        "warmup" => {
            let auto = json!({ "const": "auto" });
            said(swept(json!({ "anyOf": [auto, quantity(Dimension::Time)] })), "What counts for nothing at the start.")
        }
        "for" | "op_timeout" => swept(quantity(Dimension::Time)),
        "durability" => {
            said(swept(json!({ "enum": ["durable", "buffered", "at-end"] })), "What an acknowledged write survives.")
        }
        _ => json!({}),
    }
}

fn rate() -> Value {
    let (rate, time) = (quantity(Dimension::Rate), quantity(Dimension::Time));
    let rates = json!({ "type": "array", "items": rate, "minItems": 1 });
    let shapes = [
        object([("ramp", rates.clone())]),
        object([("steps", rates), ("each", time.clone())]),
        object([("spike", rate.clone()), ("base", rate.clone()), ("at", time.clone()), ("for", time.clone())]),
        object([("sine", rate.clone()), ("amplitude", rate.clone()), ("period", time)]),
        object([("recorded", text("A file with one time in seconds to a line."))]),
    ];
    json!({ "anyOf": std::iter::once(rate).chain(shapes).collect::<Vec<_>>() })
}

fn goal(name: &str) -> Value {
    match name {
        "lost" | "wrong" => json!({ "type": "integer", "minimum": 0 }),
        "errors" => quantity(Dimension::Share),
        "rate" => quantity(Dimension::Rate),
        _ => quantity(Dimension::Time),
    }
}

fn param(spec: &ParamSpec) -> Value {
    let value = match spec.param_type {
        ParamType::Int { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        ParamType::Bytes => quantity(Dimension::Size),
        ParamType::Duration => quantity(Dimension::Time),
        ParamType::Bool => json!({ "type": "boolean" }),
        ParamType::OneOf(words) => json!({ "enum": words }),
        ParamType::Text => json!({ "type": "string" }),
    };
    said(swept(value), &format!("{} (default: {})", spec.summary, spec.default))
}

fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

fn count() -> Value {
    json!({ "type": "integer", "minimum": 1 })
}

fn quantity(dimension: Dimension) -> Value {
    json!({ "type": "string", "pattern": pattern(dimension) })
}

/// A value, or a list of values that is swept.
fn swept(value: Value) -> Value {
    json!({ "anyOf": [value, { "type": "array", "items": value, "minItems": 1 }] })
}

fn tables(table: Value) -> Value {
    json!({ "type": "array", "items": table })
}

fn said(mut value: Value, description: &str) -> Value {
    merge(&mut value, json!({ "description": description }));
    value
}

fn object<'k>(properties: impl IntoIterator<Item = (&'k str, Value)>) -> Value {
    let properties: Map<String, Value> = properties.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

fn merge(into: &mut Value, more: Value) {
    if let (Some(into), Value::Object(more)) = (into.as_object_mut(), more) {
        into.extend(more);
    }
}
