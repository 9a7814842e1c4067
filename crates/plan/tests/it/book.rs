//! The book tells of every key of a plan.

use std::collections::BTreeSet;

use plimsoll_plan::schema;
use serde_json::Value;

use crate::catalogue::catalogue;

#[test]
fn the_book_tells_of_every_key() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/plans.md")).unwrap();
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
