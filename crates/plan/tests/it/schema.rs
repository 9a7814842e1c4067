//! The schema says yes to right plans and no to wrong ones.

use boon::{Compiler, SchemaIndex, Schemas};
use plimsoll_plan::schema;
use serde_json::Value;

use crate::catalogue::catalogue;

fn compiled() -> (Schemas, SchemaIndex) {
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    compiler.add_resource("plan.json", schema(&catalogue())).expect("a right schema");
    let index = compiler.compile("plan.json", &mut schemas).expect("a right schema");
    (schemas, index)
}

fn as_json(text: &str) -> Value {
    let value: toml::Value = toml::from_str(text).expect("TOML");
    serde_json::to_value(value).expect("JSON")
}

const RIGHT: &str = r#"
title = "A title"
breaks = { clients = 8 }
stores = ["sqlite", { store = "postgres", shared_buffers = ["1MiB", "2MiB"] }, "postgres://a:1/"]
seed = [1, 2]
slice = "500ms"
repeats = 3
order = "random"
start = "as-is"
samplers = ["cpu"]

[[sweep]]
mode = "one-at-a-time"
keys = ["clients"]

[workload]
name = "coupons"
records = 1_000
index = ["own", "none"]

[[phase]]
do = "load"
batch = [10, 20]

[[phase]]
name = "mixed"
do = "drive"
clients = [1, 8]
depth = 2
for = "1.5 min"
mix = [{ read = 1 }, { read = 1, update = 2 }]
rate = ["1000/s", { sine = "2/s", amplitude = "1/s", period = "1s" }]
arrivals = "poisson"
fault = ["kill primary at 40%", "reset all drawn", ["pause all drawn weight 2 for 3s"]]
fault_pause = ["5s", "10s"]
only = { index = "own" }

[[phase]]
do = "check"

[goals]
p99 = "20ms"
p97.5 = "20ms"
mean = "5ms"
read = { p99.9 = "1s", errors = "0%" }
status.timeout = "0%"
errors = "0.1%"
lost = 0

[[figure]]
name = "x"
formula = "mixed.rate"
published = [{ value = 1, of = "a", at = { clients = 8 } }]

[[answer]]
say = "It is {x}, {published x}."
only_if = "{x} > 1"
agree = 1.5
repeats = 2

[[answer]]
say = "So."
agree = "direction"

[[worthless]]
say = "Too much: {x}."
if = "{x} > 1000"
"#;

#[test]
fn right_plans_are_right() {
    let (schemas, index) = compiled();
    let decided = RIGHT.replacen("repeats = 3", "repeats = { most = 9, until = \"10%\" }", 1);
    for text in [RIGHT, &decided] {
        schemas.validate(&as_json(text), index).unwrap_or_else(|error| panic!("{error:#}"));
    }
}

#[test]
fn every_mistake_is_found() {
    let (schemas, index) = compiled();
    for (right, wrong) in [
        ("title = \"A title\"", "titel = \"A title\""),
        ("\"sqlite\"", "\"sqlit\""),
        ("shared_buffers", "shared_bufers"),
        ("\"500ms\"", "\"500\""),
        ("repeats = 3", "repeats = 0"),
        ("repeats = 3", "repeats = { until = 10 }"),
        ("repeats = 3", "repeats = { least = 1, until = \"10%\" }"),
        ("\"as-is\"", "\"asis\""),
        ("name = \"coupons\"", "name = \"coupon\""),
        ("records = 1_000", "records = 0"),
        ("\"one-at-a-time\"", "\"one\""),
        ("do = \"load\"", "do = \"lod\""),
        ("batch = [10, 20]", "batch = []"),
        ("for = \"1.5 min\"", "for = 90"),
        ("period = \"1s\"", "perid = \"1s\""),
        ("\"poisson\"", "\"poison\""),
        ("reset all drawn", "reset all draw"),
        ("[\"5s\", \"10s\"]", "5"),
        ("p99 = \"20ms\"", "p99 = 20"),
        ("mean = \"5ms\"", "median = \"5ms\""),
        ("errors = \"0%\"", "lost = 0"),
        ("timeout = \"0%\"", "500 = 0"),
        ("errors = \"0.1%\"", "errors = 0.1"),
        ("formula =", "formulas ="),
        ("at = { clients = 8 }", "at = 8"),
        ("breaks = { clients = 8 }", "breaks = true"),
        ("agree = 1.5", "agree = 1"),
        ("\"direction\"", "\"up\""),
        ("only_if = \"{x} > 1\"", "only_if = \"x > 1\""),
        ("if = \"{x} > 1000\"", "when = \"{x} > 1000\""),
    ] {
        let text = RIGHT.replacen(right, wrong, 1);
        assert!(text != RIGHT, "{right}");
        assert!(schemas.validate(&as_json(&text), index).is_err(), "{wrong}");
    }
}

#[test]
fn every_key_says_what_stands_under_it() {
    fn walk(value: &Value, path: &str) {
        if let Some(object) = value.as_object() {
            for (key, value) in object {
                assert!(value != &serde_json::json!({}), "{path}/{key} takes anything");
                walk(value, &format!("{path}/{key}"));
            }
        } else if let Some(list) = value.as_array() {
            list.iter().for_each(|value| walk(value, path));
        }
    }
    walk(&schema(&catalogue()), "");
}
