//! Settings of stores that are known to keep what they acknowledge, and settings that are known not to: the first are to pass, the second to be
//! caught. So it shows whether it is the disk that lies as it says, and the checks that see what is torn.

#![allow(clippy::print_stdout, reason = "it prints a table")]

use std::fmt::Write as _;

use serde_json::Value;

use crate::bench::Place;

/// A setting.
struct Known {
    /// Arguments of `promise`.
    args: &'static str,
    /// Outcome of writes that were not flushed.
    survivors: &'static str,
    cuts: u32,
    /// True if acknowledged writes must be there.
    keeps: bool,
    /// Tried in every run of the tests, once.
    always: bool,
}

const fn known(args: &'static str, survivors: &'static str, cuts: u32, keeps: bool) -> Known {
    Known { args, survivors, cuts, keeps, always: false }
}

const fn always(args: &'static str, survivors: &'static str, cuts: u32, keeps: bool) -> Known {
    Known { args, survivors, cuts, keeps, always: true }
}

const ANY: &str = "none,random,torn";

/// Settings with few pages in memory, each written at once when it leaves: pages of tables are on their way at the power cut.
const KNOWN: &[Known] = &[
    // https://sqlite.org/pragma.html#pragma_synchronous: with a rollback journal that is deleted, FULL may lose a commit, and EXTRA does not.
    always("sqlite --clients 2 --set sqlite.journal_mode=delete --set sqlite.synchronous=full", "none", 2, false),
    known("sqlite --clients 2 --set sqlite.journal_mode=delete --set sqlite.synchronous=off,normal", ANY, 2, false),
    known("sqlite --clients 2 --set sqlite.journal_mode=delete --set sqlite.synchronous=extra", ANY, 2, true),
    known("sqlite --clients 2 --set sqlite.journal_mode=truncate,persist --set sqlite.synchronous=off", ANY, 2, false),
    known(
        "sqlite --clients 2 --set sqlite.journal_mode=truncate,persist --set sqlite.synchronous=full,extra",
        ANY,
        2,
        true,
    ),
    known("sqlite --set sqlite.journal_mode=wal --set sqlite.synchronous=off,normal", ANY, 2, false),
    known("sqlite --set sqlite.journal_mode=wal --set sqlite.synchronous=full,extra", ANY, 2, true),
    known("postgres --set postgres.settings=fsync=off", ANY, 3, false),
    known("postgres --durability at-end", ANY, 3, false),
    known("postgres --durability durable", ANY, 2, true),
    known("postgres --durability durable --set postgres.settings=wal_sync_method=fsync", ANY, 2, true),
    known("postgres --durability durable --set postgres.settings=wal_sync_method=open_datasync", ANY, 2, true),
    known("postgres --durability durable --set postgres.settings=wal_sync_method=open_sync", ANY, 2, true),
    known(
        "postgres --set records=20000 --set postgres.settings=full_page_writes=off\u{a0}shared_buffers=1MB\u{a0}backend_flush_after=1",
        "torn",
        6,
        false,
    ),
    known(
        "postgres --set records=20000 --set postgres.settings=shared_buffers=1MB\u{a0}backend_flush_after=1",
        "torn",
        4,
        true,
    ),
    known("mariadb --durability buffered,at-end", ANY, 2, false),
    known("mariadb --durability durable", ANY, 2, true),
    always("redis --set redis.settings=appendonly=no", "none", 1, false),
    always("redis --set redis.settings=appendfsync=everysec", "none", 1, false),
    known("redis --set redis.settings=appendfsync=no", ANY, 2, false),
    known("redis --set redis.settings=appendfsync=always", ANY, 2, true),
    known("fjall --durability buffered,at-end", ANY, 2, false),
    known("fjall --durability durable", ANY, 2, true),
    always("etcd --set etcd.unsafe_no_fsync=true", "none", 1, false),
    known("etcd --durability durable", ANY, 2, true),
];

impl Known {
    /// Runs it; a row for each of its promises, and what is not as it is to be.
    fn run(&self, cuts: u32) -> (String, Vec<String>) {
        let place = Place::new();
        let cuts = cuts.to_string();
        // A blank within an argument is written as one that does not break.
        let given: Vec<String> = self.args.split(' ').map(|word| word.replace('\u{a0}', " ")).collect();
        let given = given.iter().map(String::as_str);
        let fixed = ["promise", "--json", "--quiet", "--for", "15s", "--survivors", self.survivors, "--cuts", &cuts];
        let ran = place.run(&fixed.into_iter().chain(given).collect::<Vec<_>>());
        let report: Value = ran.out.lines().last().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
        let none = Vec::new();
        let promises = report["report"]["promises"].as_array().unwrap_or(&none);
        let (mut rows, mut wrong) = (String::new(), Vec::new());
        if promises.is_empty() {
            wrong.push(format!("{}: no promise: {}{}", self.args, ran.out, ran.err));
        }
        let wanted = if self.keeps { "kept" } else { "caught" };
        for one in promises {
            let text = |key: &str| one[key].as_str().map_or_else(|| one[key].to_string(), str::to_owned);
            let _ = writeln!(
                rows,
                "| `{}` | {} | {} | {} | {} of {} | {} | {wanted} |",
                self.args.replace('\u{a0}', " "),
                text("name"),
                text("cuts"),
                text("at_risk_writes"),
                text("lost"),
                text("acknowledged"),
                text("state"),
            );
            let state = text("state");
            let is_caught = ["lost", "damaged", "did not start"].contains(&state.as_str());
            if (self.keeps && state != "kept") || (!self.keeps && !is_caught) {
                wrong.push(format!("{}: {wanted} was wanted: {one}", self.args));
            }
        }
        (rows, wrong)
    }
}

fn try_all(which: impl Fn(&Known) -> Option<u32>) {
    let mut all_wrong = Vec::new();
    println!("| setting | promise | cuts | at risk | lost | verdict | wanted |\n|---|---|---|---|---|---|---|");
    for known in KNOWN {
        let Some(cuts) = which(known) else { continue };
        let (rows, wrong) = known.run(cuts);
        print!("{rows}");
        all_wrong.extend(wrong);
    }
    assert!(all_wrong.is_empty(), "{}", all_wrong.join("\n"));
}

#[test]
fn settings_that_are_known_to_lose_are_caught() {
    try_all(|known| known.always.then_some(known.cuts));
}

#[test]
#[ignore = "half an hour: cargo test -p plimsoll --test it known_settings -- --ignored --nocapture"]
fn every_known_setting_is_kept_or_caught_as_it_is_known() {
    try_all(|known| Some(known.cuts));
}
