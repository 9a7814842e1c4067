//! The book describes every key of a plan.

use std::collections::BTreeSet;

use plimsoll_plan::keys::{self, Key, KeyDefault, KeyType};
use plimsoll_plan::{schema, show_ns};
use serde_json::Value;

use crate::catalogue::catalogue;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/plans.md");
const COST_PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/cost.md");

#[test]
fn the_books_tables_of_keys_are_the_plans() {
    for path in [PAGE, COST_PAGE] {
        let page = std::fs::read_to_string(path).unwrap();
        let (mut wanted, mut rest) = (String::new(), page.as_str());
        while let Some((before, after)) = rest.split_once("<!-- keys: ") {
            let (name, after) = after.split_once(" -->\n").unwrap();
            let keys: &[&[Key]] = match name {
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
                "SCENARIO" => &[keys::SCENARIO],
                "REPEATS" => &[keys::REPEATS],
                "SWEEP" => &[keys::SWEEP],
                "LINE" => &[keys::LINE],
                "GOALS" => &[keys::GOALS],
                "FIGURE" => &[keys::FIGURE],
                "PUBLISHED" => &[keys::PUBLISHED],
                "ANSWER" => &[keys::ANSWER],
                "WORTHLESS" => &[keys::WORTHLESS],
                "COST" => &[keys::COST],
                "CONFIGURATION" => &[keys::CONFIGURATION],
                other => panic!("no table is called {other}"),
            };
            wanted += &format!("{before}<!-- keys: {name} -->\n{}\n<!-- end -->", table(keys));
            rest = after.split_once("<!-- end -->").unwrap().1;
        }
        wanted += rest;
        if std::env::var_os("PLIMSOLL_WRITE").is_some() {
            std::fs::write(path, &wanted).unwrap();
            continue;
        }
        assert!(page == wanted, "PLIMSOLL_WRITE=1 cargo test -p plimsoll-plan --test it book writes {path} anew");
    }
}

/// Formats `keys` as a table of the book: a line for each, with type, description and default.
fn table(keys: &[&[Key]]) -> String {
    let has_default = keys.iter().copied().flatten().any(|key| !matches!(key.unless, KeyDefault::Else("")));
    let (head, rule) = if has_default { (" default |", "---|") } else { ("", "") };
    let mut text = format!("| key | takes | |{head}\n|---|---|---|{rule}\n");
    for key in keys.iter().copied().flatten() {
        let name = match key.see {
            "" => format!("`{}`", key.name),
            link => format!("[`{}`]({link})", key.name),
        };
        let default = match key.unless {
            _ if !has_default => String::new(),
            KeyDefault::Needed => " needed |".to_owned(),
            KeyDefault::Is(value) => format!(" `{value}` |"),
            KeyDefault::Else(words) => format!(" {words} |"),
        };
        text.push_str(&format!("| {name} | {} | {} |{default}\n", described(key.takes), key.help));
    }
    text
}

/// The type in words of the book.
fn described(takes: KeyType) -> String {
    use KeyType::*;
    match takes {
        Text => "text".to_owned(),
        Flag => "`true` or `false`".to_owned(),
        Whole(0, _) => "whole number".to_owned(),
        Whole(_, i64::MAX) => "whole number from 1".to_owned(),
        Whole(least, most) => format!("whole number, {least} to {most}"),
        Number => "number".to_owned(),
        Time(least, most) => format!("time, {} to {}", show_ns(least), show_ns(most)),
        Size => "size".to_owned(),
        Rate => "rate".to_owned(),
        Share(least, most) => format!("share, {least}% to {most}%"),
        Word(_, words) => format!("`{}`", words.join("`, `")),
        Processors => "processors, as in `[1]`".to_owned(),
        Warmup => "time, or `auto`".to_owned(),
        Mix => "shares, as in `{ read = 90, update = 10 }`".to_owned(),
        RateShape => "rate, or a table".to_owned(),
        Repeats => "whole number, 1 to 1000, or a table".to_owned(),
        Kind => "an operation type".to_owned(),
        Condition => "condition".to_owned(),
        Agreement => "`direction`, or a factor".to_owned(),
        Stages => "stages, as in `[\"500/s@10s\", \"500/s..2000/s@30s\"]`".to_owned(),
        Think => "time, `50ms..200ms`, or `exp:100ms`".to_owned(),
        Backoff => "time, or `100ms..5s`".to_owned(),
        Step => "a word".to_owned(),
        Labels | Table(_) | Workload | Texts => "table".to_owned(),
        Headers => "texts, or a table".to_owned(),
        Statuses => "statuses, as in `\"200-299, 404\"`".to_owned(),
        Codes => "table of shares".to_owned(),
        Cut => "`flush N` or `write N`".to_owned(),
        NodeChoice => "`all`, `primary`, `replica`, or a node's number".to_owned(),
        Faults => "a fault, or a list of them".to_owned(),
        Samplers | SweptKeys => "names".to_owned(),
        Stores => "names, URLs, tables".to_owned(),
        Phases | Tables(_) => "tables".to_owned(),
    }
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
