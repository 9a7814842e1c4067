//! The header of the study.

use std::collections::BTreeMap;

use plimsoll_record::data::{Figure, Goal, GoalKind, Outline, PublishedValue, RunHeader};

use super::SECOND_NS;

const PLAN_TEXT: &str = include_str!("../../../../../studies/coupons.toml");

pub(super) fn header() -> RunHeader {
    let figure = |name: &str, unit: &str, formula: &str, published: &[(f64, &str)]| Figure {
        name: name.into(),
        unit: unit.into(),
        formula: formula.into(),
        published: published.iter().map(|(value, of)| published_at(*value, of)).collect(),
    };
    RunHeader {
        id: "20261121-204107-7f3a".into(),
        plimsoll_version: env!("CARGO_PKG_VERSION").into(),
        plan_name: "coupons".into(),
        title: "Coupons: what an index costs, and what it brings".into(),
        question: "Which of the coupons were redeemed fewer than 50 times?".into(),
        answers: Vec::new(),
        worthless: Vec::new(),
        source: "field notes F1 and F2: CouchDB 1.0.2 and Riak 0.14, load from one more machine".into(),
        plan_text: PLAN_TEXT.into(),
        plan_json: "{}".into(),
        outline: Outline { trials: 5, ..Outline::default() },
        tag: String::new(),
        command_line: vec!["plimsoll".into(), "run".into(), "coupons".into()],
        seed: 1,
        slice_ns: SECOND_NS,
        started_wall_ns: 1_795_293_667 * SECOND_NS as i64,
        environment: [
            ("CPU", "AMD EPYC 9R14, 2 cores"),
            ("memory", "23.5 GiB"),
            ("kernel", "Linux 6.1.0-41-amd64"),
            ("system", "Debian GNU/Linux 12 (bookworm)"),
            ("clock source", "tsc"),
            ("governor", "performance"),
            ("file system of the data", "ext4 on /dev/vda1"),
            ("load average at start", "0.31"),
        ]
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .to_vec(),
        left_out: vec!["fjall, index = own: fjall has no index of its own".into()],
        notices: Vec::new(),
        goals: vec![
            Goal { what: GoalKind::Lost, of: None, limit: 0.0, unit: String::new() },
            Goal { what: GoalKind::Wrong, of: None, limit: 0.0, unit: String::new() },
        ],
        figures: vec![
            figure("load, plain", "s", "load.seconds[index=none]", &[(495.0, "CouchDB"), (358.0, "Riak, 1 node")]),
            figure(
                "load, index keys",
                "s",
                "load.seconds[index=keyindex]",
                &[(692.0, "Riak, 1 node"), (1025.0, "Riak, 4 nodes")],
            ),
            figure("load, the store's own index", "s", "load.seconds[index=own]", &[]),
            figure(
                "indexed / plain insert, index keys",
                "×",
                "load.seconds[index=keyindex] / load.seconds[index=none]",
                &[(1.91, "Riak, 1 node")],
            ),
            figure("indexed / plain insert, own index", "×", "load.seconds[index=own] / load.seconds[index=none]", &[]),
            figure(
                "query by scan, warm",
                "s",
                "warm.median_seconds[index=none]",
                &[(11.0, "CouchDB, warm view"), (82.0, "Riak, raw map/reduce")],
            ),
            figure(
                "query by scan, cold",
                "s",
                "cold_query.median_seconds[index=none]",
                &[(74.0, "CouchDB, cold view")],
            ),
            figure(
                "query by index keys, warm",
                "s",
                "warm.median_seconds[index=keyindex]",
                &[(65.0, "Riak, 1 node"), (56.0, "with a key filter"), (34.0, "4 nodes, key filter")],
            ),
            figure("query by index keys, cold", "s", "cold_query.median_seconds[index=keyindex]", &[]),
            figure("query by own index, warm", "s", "warm.median_seconds[index=own]", &[]),
            figure("query by own index, cold", "s", "cold_query.median_seconds[index=own]", &[]),
            figure(
                "query: scan / index keys",
                "×",
                "warm.median_seconds[index=none] / warm.median_seconds[index=keyindex]",
                &[(1.26, "Riak, 1 node (82 s / 65 s)"), (1.46, "with a key filter (82 s / 56 s)")],
            ),
            figure(
                "query: scan / own index",
                "×",
                "warm.median_seconds[index=none] / warm.median_seconds[index=own]",
                &[],
            ),
        ],
    }
}

fn published_at(value: f64, of: &str) -> PublishedValue {
    PublishedValue { value, of: of.to_string(), at: BTreeMap::new() }
}
