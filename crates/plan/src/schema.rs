//! A JSON Schema of plans, for editors: the keys that [`crate::parse`] knows, with the types of their values.
//!
//! The schema is generated from the catalogue, so it names this build's stores, workloads and their parameters. It
//! does not express checks that need the parser (a rate of zero, an operation type that the workload does not have).

// A schema consists of pieces that are not needed afterwards.
#![allow(clippy::needless_pass_by_value)]

use plimsoll_core::{Catalogue, ParamSpec, ParamType};
use serde_json::{Map, Value, json};

use crate::keys::{
    CSV, Key, KeyType, PLAN, RATES, REPEATS, REPEATS_COUNT, REQUEST, SAMPLERS_DEFAULT, SCRIPT, STEP, of_phase,
};
use crate::model::PhaseKind;
use crate::quantity::{Dimension, pattern};
use crate::timeline::VERBS;

/// Generates the schema, of JSON Schema draft 2020-12.
pub fn schema(catalogue: &Catalogue) -> Value {
    let mut root = keys(&[PLAN], catalogue);
    goals(&mut root["properties"]["goals"]);
    root["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    root["title"] = json!("A plan of Plimsoll");
    root["required"] = json!(["workload", "phase"]);
    root
}

/// Adds goals for any percentile, and tables of goals for one operation type.
fn goals(goals: &mut Value) {
    let percentile = goals["properties"]["p99"].clone();
    // TOML takes `p99.9` for the key `9` of a table `p99`.
    let decimals = json!({ "type": "object", "additionalProperties": percentile });
    let any = json!({ "^p[0-9]{1,6}(\\.[0-9]{1,4})?$": { "anyOf": [percentile, decimals] } });
    let mut of_one = goals.clone();
    for whole in ["lost", "wrong", "stale", "unknown", "status", "outage", "recovery", "p99"] {
        goals_without(&mut of_one, whole);
    }
    goals_without(goals, "p99");
    of_one["patternProperties"] = any.clone();
    goals["patternProperties"] = any;
    goals["additionalProperties"] = of_one;
}

fn goals_without(goals: &mut Value, name: &str) {
    if let Some(properties) = goals["properties"].as_object_mut() {
        properties.remove(name);
    }
}

/// A table with these keys and no others.
fn keys(keys: &[&[Key]], catalogue: &Catalogue) -> Value {
    object(keys.iter().copied().flatten().map(|key| (key.name, of_key(key, catalogue))))
}

fn of_key(key: &Key, catalogue: &Catalogue) -> Value {
    let value = takes(&key.takes, catalogue);
    said(if key.is_swept { swept(value) } else { value }, key.help)
}

fn takes(takes: &KeyType, catalogue: &Catalogue) -> Value {
    match takes {
        KeyType::Text | KeyType::Kind => json!({ "type": "string" }),
        KeyType::Condition => json!({ "type": "string", "pattern": "\\{[^}]+\\}" }),
        KeyType::Agreement => {
            json!({ "anyOf": [{ "const": "direction" }, { "type": "number", "exclusiveMinimum": 1 }] })
        }
        KeyType::Flag => json!({ "type": "boolean" }),
        KeyType::Whole(least, i64::MAX) => json!({ "type": "integer", "minimum": least }),
        KeyType::Whole(least, most) => json!({ "type": "integer", "minimum": least, "maximum": most }),
        KeyType::Number => json!({ "type": "number" }),
        KeyType::Time(..) => quantity(Dimension::Time),
        KeyType::Size => quantity(Dimension::Size),
        KeyType::Rate => quantity(Dimension::Rate),
        KeyType::Share(..) => quantity(Dimension::Share),
        KeyType::Word(_, words) => json!({ "enum": words }),
        KeyType::Step => json!({ "enum": PhaseKind::ALL.map(PhaseKind::name) }),
        KeyType::Processors => json!({ "type": "array", "items": { "type": "integer" } }),
        KeyType::SweptKeys => json!({ "type": "array", "items": { "type": "string" } }),
        KeyType::Samplers => {
            let names = catalogue.samplers.iter().map(|sampler| sampler.name).chain([SAMPLERS_DEFAULT]);
            let names: Vec<&str> = names.collect();
            json!({ "type": "array", "items": { "enum": names } })
        }
        KeyType::Warmup => json!({ "anyOf": [{ "const": "auto" }, quantity(Dimension::Time)] }),
        KeyType::Mix => json!({ "type": "object", "additionalProperties": { "type": "integer", "minimum": 0 } }),
        KeyType::Stages => json!({ "type": "array", "items": { "type": "string", "pattern": "@" }, "minItems": 1 }),
        KeyType::Think | KeyType::Backoff => json!({ "type": "string" }),
        KeyType::Cut => json!({ "type": "string", "pattern": "^(flush|write) [1-9][0-9]*$" }),
        KeyType::NodeChoice => {
            json!({ "anyOf": [{ "enum": ["all", "primary", "replica"] }, { "type": "integer", "minimum": 1 }, { "type": "string", "pattern": "^[1-9][0-9]*$" }] })
        }
        KeyType::Faults => {
            let fault = json!({ "type": "string", "pattern": format!("^({}) .*((at|when) |drawn)", VERBS.join("|")) });
            let swept = json!({ "type": "array", "items": fault, "minItems": 1 });
            json!({ "anyOf": [fault, { "type": "array", "items": { "anyOf": [fault, swept] } }] })
        }
        KeyType::RateShape => {
            let shapes = RATES.iter().map(|shape| keys(&[shape], catalogue));
            json!({ "anyOf": std::iter::once(quantity(Dimension::Rate)).chain(shapes).collect::<Vec<_>>() })
        }
        KeyType::Repeats => {
            json!({ "anyOf": [self::takes(&REPEATS_COUNT, catalogue), keys(&[REPEATS], catalogue)] })
        }
        KeyType::Codes => json!({ "type": "object", "additionalProperties": quantity(Dimension::Share) }),
        KeyType::Labels => json!({ "type": "object" }),
        KeyType::Texts => texts(),
        KeyType::Headers => json!({ "anyOf": [{ "type": "array", "items": { "type": "string" } }, texts()] }),
        KeyType::Statuses => json!({ "anyOf": [{ "type": "string" }, { "type": "integer" }] }),
        KeyType::Stores => stores(catalogue),
        KeyType::Workload => workload(catalogue),
        KeyType::Phases => {
            let each = PhaseKind::ALL.map(|kind| {
                let mut all = keys(of_phase(kind), catalogue);
                all["properties"]["do"] = json!({ "const": kind.name() });
                all["required"] = json!(["do"]);
                all
            });
            tables(json!({ "oneOf": each }))
        }
        KeyType::Table(of) => keys(&[of], catalogue),
        KeyType::Tables(of) => tables(keys(&[of], catalogue)),
    }
}

fn stores(catalogue: &Catalogue) -> Value {
    let names: Vec<&str> = catalogue.stores.iter().flat_map(|kind| kind.spec().names()).collect();
    let name = json!({ "anyOf": [{ "enum": names }, { "type": "string", "pattern": "^[a-z+]+://" }] });
    let mut params: Map<String, Value> = Map::new();
    for spec in catalogue.stores.iter().flat_map(|kind| kind.spec().params) {
        params.insert(spec.name.to_owned(), param(spec));
    }
    params.insert("store".to_owned(), name.clone());
    for (key, text) in [
        (
            "command",
            "Shell command that starts a private server; {port}, {data} and {sockets} stand for its port and directories",
        ),
        ("set_up", "Shell command that creates its data directory before the first start"),
        ("as", "Name in reports and formulas"),
        (
            "ready",
            "Shell command that exits with status 0 once the server is ready; by default it is ready when it listens",
        ),
        ("reload", "Shell command that makes it reload its settings; by default SIGHUP does"),
    ] {
        params.insert(key.to_owned(), said(json!({ "type": "string" }), text));
    }
    params.insert("files".to_owned(), said(texts(), "Files, by their paths below its data directory"));
    let table = json!({
        "type": "object",
        "required": ["store"],
        "properties": params,
        "additionalProperties": false,
    });
    let one = json!({ "anyOf": [name, table] });
    json!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] })
}

fn workload(catalogue: &Catalogue) -> Value {
    let each = catalogue.workloads.iter().map(|spec| {
        let mut all = object(
            spec.params
                .iter()
                .map(|spec| (spec.name, param(spec)))
                .chain([("name", json!({ "enum": spec.names().collect::<Vec<_>>(), "description": spec.summary }))]),
        );
        if spec.takes_scripts() {
            all["properties"]["script"] = tables(keys(&[SCRIPT], catalogue));
        }
        if spec.takes_scripts() || spec.takes_requests() {
            all["properties"]["csv"] = tables(keys(&[CSV], catalogue));
        }
        if spec.takes_requests() {
            all["properties"]["request"] = tables(keys(&[REQUEST, STEP], catalogue));
        }
        all["required"] = json!(["name"]);
        all
    });
    json!({ "oneOf": each.collect::<Vec<_>>() })
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

fn quantity(dimension: Dimension) -> Value {
    json!({ "type": "string", "pattern": pattern(dimension) })
}

/// A value, or a list of values that is swept.
fn swept(value: Value) -> Value {
    json!({ "anyOf": [value, { "type": "array", "items": value, "minItems": 1 }] })
}

fn texts() -> Value {
    json!({ "type": "object", "additionalProperties": { "type": "string" } })
}

fn tables(table: Value) -> Value {
    json!({ "type": "array", "items": table })
}

fn said(mut value: Value, description: &str) -> Value {
    value["description"] = json!(description);
    value
}

fn object<'k>(properties: impl IntoIterator<Item = (&'k str, Value)>) -> Value {
    let properties: Map<String, Value> = properties.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}
