//! Settings of stores that are known to keep what they acknowledge, and settings that are known not to: the first are to pass, the second to be
//! caught. So it shows whether it is the disk that lies as it says, and the checks that see what is torn.

#![allow(clippy::print_stdout, reason = "it prints a table")]

use crate::bench::Place;

/// When a setting is tried.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tried {
    /// In every run of the tests.
    Always,
    /// In a heavy run only: the settings of a store take minutes.
    Heavy,
}
use Tried::{Always, Heavy};

/// States of promises by a part of their name: `kept`, or `caught` if writes are lost, damaged or kept from coming back.
type States = &'static [(&'static str, &'static str)];
const KEPT: States = &[("", "kept")];
const CAUGHT: States = &[("", "caught")];

/// Arguments of `promise`, in which a blank within a word does not break, and the states that come of them.
///
/// Some settings have few pages in memory, each written at once when it leaves: pages of tables are on their way at the power cut.
const KNOWN: &[(Tried, &str, States)] = &[
    // https://sqlite.org/pragma.html#pragma_synchronous: with a rollback journal that is deleted, FULL may lose a commit, and EXTRA does not.
    // The first cut that loses one ends it.
    (
        Always,
        "sqlite --survivors none --cuts 12 --clients 2 --set records=300 --set sqlite.journal_mode=delete --set sqlite.synchronous=full",
        CAUGHT,
    ),
    (
        Always,
        "sqlite --survivors none --cuts 1 --clients 2 --durability durable --set records=300 --set sqlite.journal_mode=delete,truncate,persist",
        KEPT,
    ),
    (Always, "sqlite --survivors torn --cuts 2 --durability durable", KEPT),
    (Heavy, "sqlite --clients 2 --set sqlite.journal_mode=delete --set sqlite.synchronous=off,normal", CAUGHT),
    (Heavy, "sqlite --clients 2 --set sqlite.journal_mode=delete --set sqlite.synchronous=extra", KEPT),
    (Heavy, "sqlite --clients 2 --set sqlite.journal_mode=truncate,persist --set sqlite.synchronous=off", CAUGHT),
    (Heavy, "sqlite --clients 2 --set sqlite.journal_mode=truncate,persist --set sqlite.synchronous=full,extra", KEPT),
    (Heavy, "sqlite --set sqlite.journal_mode=wal --set sqlite.synchronous=off,normal", CAUGHT),
    (Heavy, "sqlite --set sqlite.journal_mode=wal --set sqlite.synchronous=full,extra", KEPT),
    (Heavy, "postgres --for 1s --survivors none --cuts 3 --set postgres.settings=fsync=off", CAUGHT),
    (Always, "postgres --for 1s --survivors none --cuts 3 --durability at-end", CAUGHT),
    (Always, "postgres --survivors torn --cuts 2 --durability durable", KEPT),
    (Heavy, "postgres --durability durable --set postgres.settings=wal_sync_method=fsync", KEPT),
    (Heavy, "postgres --durability durable --set postgres.settings=wal_sync_method=open_datasync", KEPT),
    (Heavy, "postgres --durability durable --set postgres.settings=wal_sync_method=open_sync", KEPT),
    (
        Heavy,
        "postgres --survivors torn --cuts 6 --set records=20000 --set postgres.settings=full_page_writes=off\u{a0}shared_buffers=1MB\u{a0}backend_flush_after=1",
        CAUGHT,
    ),
    (
        Heavy,
        "postgres --survivors torn --cuts 4 --set records=20000 --set postgres.settings=shared_buffers=1MB\u{a0}backend_flush_after=1",
        KEPT,
    ),
    (Heavy, "mariadb --durability buffered,at-end", CAUGHT),
    (Always, "mariadb --survivors random --cuts 1 --disk xfs --durability durable", KEPT),
    (Always, "redis --for 1s --survivors none --cuts 1 --set redis.settings=appendonly=no", CAUGHT),
    (Always, "redis --for 1500ms --survivors none --cuts 1 --set redis.settings=appendfsync=everysec", CAUGHT),
    (Heavy, "redis --set redis.settings=appendfsync=no", CAUGHT),
    (Heavy, "redis --set redis.settings=appendfsync=always", KEPT),
    (Always, "redis --survivors torn --cuts 1 --durability durable", KEPT),
    (Heavy, "fjall --durability buffered,at-end", CAUGHT),
    (Always, "fjall --survivors torn --cuts 1 --durability durable", KEPT),
    (
        Always,
        "fjall --survivors none --cuts 1 --durability durable --lying --disk btrfs",
        &[("honoured", "kept"), ("ignored", "caught")],
    ),
    (Always, "etcd --for 1s --survivors none --cuts 1 --set etcd.unsafe_no_fsync=true", CAUGHT),
    (Heavy, "etcd --survivors torn --cuts 1 --durability durable", KEPT),
];

/// Tries a setting, with survivors of all sorts and two cuts if it says neither. Prints a row for each of its promises, and returns
/// what is not as it is to be.
fn wrong(args: &str, states: States) -> Vec<String> {
    let usual = if args.contains("--cuts") { "" } else { " --survivors none,random,torn --cuts 2" };
    // A slow disk is to get to the flush at which the power is cut. Where nothing flushes, it is cut at the end, and all of
    // the time is waited for.
    let usual_length = if states == CAUGHT { " --for 15s" } else { " --for 90s" };
    let length = if args.contains("--for") { "" } else { usual_length };
    // A cut at a moment at which nothing was at risk shows nothing: the next seed cuts at others.
    let mut seeds = 1..=4;
    let (ran, promises) = loop {
        let seed = seeds.next().unwrap_or_else(|| panic!("{args}: nothing was ever at risk"));
        let ran = Place::new().line(&format!("promise --json --quiet --seed {seed}{length}{usual} {args}"));
        let report = ran.out.lines().last().and_then(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let promises = report.and_then(|report| report["report"]["promises"].as_array().cloned()).unwrap_or_default();
        if !promises.iter().any(|one| one["state"] == "nothing at risk") {
            break (ran, promises);
        }
    };
    let mut wrong = Vec::new();
    // Pages are on their way at one of five flushes of a rollback journal: often at none of a few cuts.
    let untried = promises.iter().any(|one| one["state"] == "pages not tried");
    let code = match states == KEPT {
        true if untried => 11,
        true => 0,
        false => 1,
    };
    if promises.is_empty() || ran.code != Some(code) {
        wrong.push(format!("{args}: exit code {code} was wanted, not {:?}: {promises:?} {}", ran.code, ran.err));
    }
    for one in &promises {
        let text = |key: &str| one[key].as_str().map_or_else(|| one[key].to_string(), str::to_owned);
        let (name, state) = (text("name"), text("state"));
        let wanted = states.iter().find(|(part, _)| name.contains(part)).map_or("nothing", |(_, wanted)| wanted);
        let [cuts, at_risk, lost, of] = ["cuts", "at_risk_writes", "lost", "acknowledged"].map(text);
        println!("| `{args}` | {name} | {cuts} | {at_risk} | {lost} of {of} | {state} | {wanted} |");
        let is_so = match wanted {
            "kept" => ["kept", "pages not tried"].contains(&state.as_str()),
            _ => ["lost", "damaged", "did not start"].contains(&state.as_str()),
        };
        wrong.extend((!is_so).then(|| format!("{args}: {wanted} was wanted: {one}")));
    }
    wrong
}

/// Tries the settings of `store` that are tried at `when`.
fn try_settings(store: &str, when: Tried) {
    println!("| setting | promise | cuts | at risk | lost | verdict | wanted |\n|---|---|---|---|---|---|---|");
    let tried = KNOWN.iter().filter(|(tried, args, _)| *tried == when && args.starts_with(store));
    let wrong: Vec<String> = tried.flat_map(|(_, args, states)| wrong(args, states)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn sqlite_keeps_what_it_syncs() {
    try_settings("sqlite", Always);
}

#[test]
fn fjall_keeps_what_it_syncs() {
    try_settings("fjall", Always);
}

#[test]
fn postgresql_keeps_what_it_syncs() {
    try_settings("postgres", Always);
}

#[test]
fn mariadb_keeps_what_it_syncs() {
    try_settings("mariadb", Always);
}

#[test]
fn redis_keeps_what_it_syncs() {
    try_settings("redis", Always);
}

#[test]
fn etcd_keeps_what_it_syncs() {
    try_settings("etcd", Always);
}

/// The other settings that are known.
mod heavy {
    use super::{Heavy, try_settings};

    #[test]
    fn settings_of_sqlite_are_kept_or_caught_as_they_are_known() {
        try_settings("sqlite", Heavy);
    }

    #[test]
    fn settings_of_fjall_are_kept_or_caught_as_they_are_known() {
        try_settings("fjall", Heavy);
    }

    #[test]
    fn settings_of_postgresql_are_kept_or_caught_as_they_are_known() {
        try_settings("postgres", Heavy);
    }

    #[test]
    fn settings_of_mariadb_are_kept_or_caught_as_they_are_known() {
        try_settings("mariadb", Heavy);
    }

    #[test]
    fn settings_of_redis_are_kept_or_caught_as_they_are_known() {
        try_settings("redis", Heavy);
    }

    #[test]
    fn settings_of_etcd_are_kept_or_caught_as_they_are_known() {
        try_settings("etcd", Heavy);
    }
}
