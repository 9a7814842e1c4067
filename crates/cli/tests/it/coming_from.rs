//! The pages for users of other tools: their commands are run for a moment, on servers of the test's. A heavy run
//! takes all of them, and a usual one every third, beginning with a drawn one.

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use plimsoll_testkit::draw::{Draw, repeats};

use crate::bench::{Place, Ran};
use crate::requests::Shop;
use crate::servers::{Mariadb, Postgres, Redis};

/// The commands of a page: what stands in code in the last column of its tables.
fn commands(page: &str) -> Vec<String> {
    let rows = page.lines().filter(|line| line.starts_with('|'));
    let codes = rows.filter_map(|row| row.rsplit_once(" | ")?.1.split('`').nth(1));
    codes.filter(|code| code.starts_with("plimsoll ")).map(str::to_owned).collect()
}

/// Writes the files that a page shows: a block of code behind a line that ends with `NAME`: and a colon.
fn write_files(page: &str, directory: &Path, servers: &[(&str, &str)]) {
    for (before, block) in page.split("\n```").collect::<Vec<_>>().windows(2).map(|pair| (pair[0], pair[1])).step_by(2)
    {
        let name = before.trim_end().trim_end_matches(':').rsplit('`').nth(1).unwrap();
        let text = block.split_once('\n').unwrap().1;
        // Plans are shorter there too: 300 ms instead of 30 s.
        let text = if name.ends_with(".toml") {
            text.replace("0s\"", "00ms\"").replace("\"1s\"", "\"10ms\"")
        } else {
            text.to_owned()
        };
        let text = servers.iter().fold(text, |all, (theirs, ours)| all.replace(theirs, ours));
        std::fs::write(directory.join(name), format!("{text}\n")).unwrap();
    }
}

/// The command with less of everything, so that it takes a moment, and with servers of the test's.
fn short(command: &str, servers: &[(&str, &str)]) -> String {
    const LESS: &[(&str, &str)] = &[
        ("--for", "500ms"),
        ("--ops", "20"),
        ("-c", "4"),
        ("--clients", "4"),
        ("--rate", "20"),
        ("--repeats", "1"),
        ("--warmup", "50ms"),
        ("--progress", "100ms"),
    ];
    let mut words: Vec<String> = Vec::new();
    for word in command.split(' ') {
        let less = LESS.iter().find(|(option, _)| words.last().is_some_and(|last| last == option));
        let size = ["scale=", "table_size=", "records="].iter().find(|name| word.starts_with(**name));
        words.push(match (less, size) {
            (Some(("--clients", _)), _) if word.contains(',') => "2,4".to_owned(),
            (Some((_, less)), _) => (*less).to_owned(),
            (None, Some(name)) => format!("{name}{}", if *name == "scale=" { "1" } else { "200" }),
            (None, None) if words.last().is_some_and(|last| last == "--stages") => word.replace("0s", "00ms"),
            (None, None) => word.to_owned(),
        });
    }
    // A hundred thousand otherwise.
    let has = |words: &[String], what: &str| words.iter().any(|word| word.starts_with(what));
    let size = match words.get(2).map(String::as_str) {
        Some(name) if name.starts_with("kv") && !has(&words, "records=") => "--set records=200",
        Some(name) if name.starts_with("oltp") && !has(&words, "table_size=") && !has(&words, "--no-load") => {
            "--set table_size=200"
        }
        // Tables that pgbench has made have a scale of 1, which takes seconds to load: one workload loads its own.
        Some(name @ ("tpcb" | "tpcb-like" | "select-only" | "simple-update"))
            if has(&words, "postgres://") && !(name == "tpcb-like" && has(&words, "scale=")) =>
        {
            "--no-load --allow-writes"
        }
        _ => "",
    };
    words.extend(
        size.split_terminator(' ')
            .filter(|word| !has(&words, word) || *word == "--set")
            .map(str::to_owned)
            .collect::<Vec<_>>(),
    );
    // Nothing here is about speed.
    let is_paced = ["--rate", "--stages", "--scenario", "--think", "--depth"].iter().any(|option| has(&words, option));
    match words[1].clone().as_str() {
        // A search takes half a minute at least; what is proved here is that it begins.
        "line" => {
            words.insert(0, "timeout --preserve-status -s INT 2".to_owned());
            words.push("--from 50/s".to_owned());
        }
        "ab" => words.push("--turn 200ms --warmup 50ms --budget 4s --think 5ms".to_owned()),
        "drive" if !is_paced => words.push("--think 5ms".to_owned()),
        _ => {}
    }
    let all = words.join(" ");
    servers.iter().fold(all, |all, (theirs, ours)| all.replace(theirs, &format!("'{ours}'")))
}

/// Commands that run at a time, each beside a place of its own.
const AT_ONCE: usize = 3;

/// Runs commands of a page as a shell does, with the files of `place`.
#[track_caller]
fn run_all(place: &Place, page: &str, least: usize, servers: &[(&str, &str)]) {
    let commands = commands(page);
    assert!(commands.len() >= least, "{commands:?}");
    let step = repeats(3, 1);
    let first = Draw::new(page).below(step as u64) as usize;
    let commands: Vec<String> = commands.into_iter().skip(first).step_by(step).collect();
    let (queue, failed) = (Mutex::new(commands.into_iter()), Mutex::new(Vec::new()));
    let next = || queue.lock().unwrap().next();
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                let own = Place::new();
                for file in ["ca.pem"].map(|name| place.path().join(name)).iter().filter(|file| file.exists()) {
                    std::fs::copy(file, own.path().join(file.file_name().unwrap())).unwrap();
                }
                write_files(page, own.path(), servers);
                while let Some(command) = next() {
                    failed.lock().unwrap().extend(run_one(&own, &command, servers));
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Runs a command. Returns it with what it said if it failed.
fn run_one(place: &Place, command: &str, servers: &[(&str, &str)]) -> Option<String> {
    let program = Path::new(env!("CARGO_BIN_EXE_plimsoll")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    // Runs of the same.
    let runs = [("plimsoll compare", 2), ("plimsoll report", 1)];
    for _ in 0..runs.iter().find(|(verb, _)| command.starts_with(verb)).map_or(0, |(_, count)| *count) {
        place.line("drive kv --on fjall --ops 2000 --set records=100 --durability buffered");
    }
    let last = place.all_runs().into_iter().rev().nth(1);
    let last = last.map_or(String::new(), |run| run.file_name().unwrap().to_str().unwrap().to_owned());
    let command = short(command, servers).replace("20261121-2104", &last);
    let mut bash = place.program("bash");
    bash.args(["-c", &command]).current_dir(place.path()).env("PATH", &path).env("SHOP_PASSWORD", "secret");
    let ran = Ran::of(&bash.output().unwrap());
    // A moment on a busy machine decides no goal and no difference.
    let judges = ["--goal", "plimsoll line", "plimsoll ab", "--fail-if"].iter().any(|word| command.contains(word));
    // Goals may stand in a plan's file, and one of 20 operations is 5 %.
    let judges = judges || ran.out.contains("Goals  ") || ran.out.contains("were due and never sent");
    let is_well = ran.code == Some(0) || judges && matches!(ran.code, Some(1 | 11 | 130));
    (!is_well).then(|| format!("{command}\n{}\n{}", ran.out, ran.err))
}

#[test]
fn what_pgbench_does_is_done_as_the_book_says() {
    let place = Place::new();
    let postgres = Postgres::start_with(&[("shared_preload_libraries", "pg_stat_statements")], place.path());
    let made = Command::new("pgbench").args(["-i", "-q", &postgres.url()]).output().expect("pgbench");
    assert!(made.status.success(), "{made:?}");
    postgres.sql("CREATE EXTENSION pg_stat_statements");
    postgres.sql("SELECT abalance FROM pgbench_accounts WHERE aid = 1");
    let page = include_str!("../../../../docs/src/from-pgbench.md");
    run_all(&place, page, 17, &[("postgres://bench@db1/shop", &postgres.url())]);
}

#[test]
fn what_sysbench_does_is_done_as_the_book_says() {
    let place = Place::new();
    let postgres = Postgres::start(place.path());
    let mariadb = Mariadb::start_with(&[("performance-schema", "ON")], place.path());
    mariadb
        .sql("CREATE TABLE sbtest1 (id INT PRIMARY KEY AUTO_INCREMENT, k INT, c CHAR(120), pad CHAR(60), KEY k_1 (k))");
    mariadb.sql("INSERT INTO sbtest1 (k, c, pad) SELECT seq, REPEAT('c', 119), REPEAT('p', 59) FROM seq_1_to_1000");
    mariadb.sql("SELECT c FROM sbtest1 WHERE id = 1");
    let servers = [
        ("postgres://bench@db1/shop", postgres.url()),
        ("mysql://bench@db1/shop", mariadb.url()),
        ("'mysql://bench@/shop?socket=/run/mysqld/mysqld.sock'", mariadb.url()),
    ];
    let page = include_str!("../../../../docs/src/from-sysbench.md");
    run_all(&place, page, 19, &servers.each_ref().map(|(theirs, ours)| (*theirs, ours.as_str())));
}

#[test]
fn what_http_tools_do_is_done_as_the_book_says() {
    let place = Place::new();
    let shop = Shop::new(&place);
    let page = include_str!("../../../../docs/src/from-http-tools.md");
    run_all(&place, page, 25, &[("http://web1:8080", &shop.url), ("https://web1:8443", &shop.tls_url)]);
}

#[test]
fn what_redis_tools_do_is_done_as_the_book_says() {
    let place = Place::new();
    let redis = Redis::start_as_packaged(place.path());
    let page = include_str!("../../../../docs/src/from-redis-tools.md");
    run_all(&place, page, 24, &[("redis://cache1:6379", &redis.url())]);
}
