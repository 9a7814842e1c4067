//! The book describes every key of a plan.

use std::collections::BTreeSet;

use plimsoll_plan::{keys, schema};
use serde_json::Value;

use crate::catalogue::catalogue;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/plans.md");

#[test]
fn the_books_tables_of_keys_are_the_plans() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (mut wanted, mut rest) = (String::new(), page.as_str());
    while let Some((before, after)) = rest.split_once("<!-- keys: ") {
        let (name, after) = after.split_once(" -->\n").unwrap();
        let keys: &[&[keys::Key]] = match name {
            "PLAN" => &[keys::PLAN],
            "SCRIPT" => &[keys::SCRIPT],
            "CSV" => &[keys::CSV],
            "REQUEST" => &[keys::REQUEST],
            "STEP" => &[keys::STEP],
            "PHASE" => &[keys::PHASE],
            "LOAD" => &[keys::LOAD, keys::CLIENTS_WRITE],
            "ASK" => &[keys::ASK],
            "DRIVE" => &[keys::CLIENTS_WRITE, keys::DRIVE],
            "POWER" => &[keys::POWER],
            "ACTION" => &[keys::ACTION],
            "SCENARIO" => &[keys::SCENARIO],
            "SWEEP" => &[keys::SWEEP],
            "LINE" => &[keys::LINE],
            "GOALS" => &[keys::GOALS],
            "FIGURE" => &[keys::FIGURE],
            other => panic!("no table is called {other}"),
        };
        wanted += &format!("{before}<!-- keys: {name} -->\n{}\n<!-- end -->", keys::table(keys));
        rest = after.split_once("<!-- end -->").unwrap().1;
    }
    wanted += rest;
    if std::env::var_os("PLIMSOLL_WRITE").is_some() {
        std::fs::write(PAGE, &wanted).unwrap();
        return;
    }
    assert!(
        page == wanted,
        "PLIMSOLL_WRITE=1 cargo test -p plimsoll-plan --test it book writes docs/src/plans.md anew"
    );
}

#[test]
fn the_book_tells_of_every_key() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let code: Vec<&str> = page.split('`').skip(1).step_by(2).collect();
    let told = |key: &str| {
        let mut words = code.iter().flat_map(|words| words.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'));
        words.any(|word| word == key) || code.contains(&key)
    };
    let mut keys = BTreeSet::new();
    let schema = schema(&catalogue());
    for (key, of) in schema["properties"].as_object().unwrap() {
        keys.insert(key.clone());
        // Their keys are stores' and workloads' own parameters.
        if !matches!(key.as_str(), "stores" | "workload") {
            collect(of, &mut keys);
        }
    }
    let missing: Vec<&String> = keys.iter().filter(|key| !told(key)).collect();
    assert!(keys.len() > 50 && missing.is_empty(), "{missing:?} of {} keys", keys.len());
}

fn collect(schema: &Value, keys: &mut BTreeSet<String>) {
    match schema {
        Value::Object(object) => {
            if let Some(properties) = object.get("properties").and_then(Value::as_object) {
                keys.extend(properties.keys().cloned());
            }
            object.values().for_each(|value| collect(value, keys));
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, keys)),
        _ => {}
    }
}
