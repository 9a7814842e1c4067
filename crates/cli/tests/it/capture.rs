//! Workloads made of what a server was asked.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::bench::{Place, Ran, wait_for};
use crate::servers::{Mariadb, Postgres};

/// Contents and queries of both servers, except for automatic numbers.
const TABLES: &str = "CREATE TABLE customers (id int PRIMARY KEY, phone varchar(20)); \
    CREATE TABLE orders (id int PRIMARY KEY, customer int, status varchar(10), placed date);";
const ASKED: [&str; 6] = [
    "SELECT c.phone FROM customers c JOIN orders o ON o.customer = c.id WHERE o.id = 17 AND c.id > 3 LIMIT 5",
    "SELECT id FROM customers WHERE phone = '1000007'",
    "SELECT id FROM customers WHERE id IN (7, 8, 9)",
    "SELECT count(*) FROM orders WHERE status = 'paid' AND placed BETWEEN '2026-01-01' AND '2026-03-01'",
    "SELECT id FROM orders WHERE status = 'it''s' ORDER BY 1",
    "UPDATE orders SET status = 'new' WHERE id = 4",
];

const VISITS: &str = "SELECT count(*) FROM visits";
/// Sees each change of a row.
const CONTENTS: &str = "SELECT count(*), sum(id), count(CASE status WHEN 'new' THEN 1 END) FROM orders";

fn capture(place: &Place, url: &str, more: &[&str]) -> Ran {
    let output = place.path().join("captured.toml");
    place.run(&[&["capture", "--from", url, "--output", output.to_str().unwrap()], more].concat())
}

/// The plan that was written, shorter; none of it is left.
fn driven(place: &Place, statements: usize) -> String {
    driven_with(place, statements, &[])
}

/// Drives as `driven` does, with options of the run. The statements have one weight, so that a few operations contain all
/// of them: the server also counts those of an earlier drive.
fn driven_with(place: &Place, statements: usize, more: &[&str]) -> String {
    let path = place.path().join("captured.toml");
    let plan = fs::read_to_string(&path).unwrap().replace("for = \"60s\"", "ops = 50");
    let lines = plan.lines().map(|line| if line.starts_with("weight = ") { "weight = 1" } else { line });
    let plan = lines.collect::<Vec<_>>().join("\n");
    fs::write(&path, &plan).unwrap();
    let ran = place.run(&[&["run", path.to_str().unwrap(), "--full"], more].concat()).expect(0);
    ran.says("MEASURED").says("0 errors");
    let name = |rest: &str| rest.split('"').nth(1).unwrap().to_owned();
    let names: Vec<String> = plan.split("[[workload.script]]").skip(1).map(name).collect();
    assert_eq!(names.len(), statements, "{plan}");
    let phase = place.driven();
    let rows = phase["latencies"].as_array().unwrap();
    for name in &names {
        let is_driven = rows.iter().any(|row| row["op"] == name.as_str() && row["count"].as_u64() > Some(0));
        assert!(is_driven, "{name}: {phase}");
    }
    removed(place)
}

/// Returns the plan, and removes all of it.
fn removed(place: &Place) -> String {
    let path = place.path().join("captured.toml");
    let plan = fs::read_to_string(&path).unwrap();
    fs::remove_file(path).unwrap();
    fs::remove_dir_all(place.path().join("captured.values")).unwrap();
    plan
}

fn copied(place: &Place, log: &Path) -> PathBuf {
    let copy = place.path().join(log.file_name().unwrap());
    fs::copy(log, &copy).unwrap();
    copy
}

#[test]
fn what_a_postgres_counted_and_logged_is_driven() {
    let place = Place::new();
    let settings = [
        ("shared_preload_libraries", "pg_stat_statements"),
        ("log_min_duration_statement", "0"),
        ("logging_collector", "on"),
        ("log_directory", "log"),
        ("log_filename", "server"),
        ("log_destination", "stderr,csvlog,jsonlog"),
    ];
    let postgres = Postgres::start_with(&settings, place.path());
    let url = postgres.url();
    capture(&place, &url, &[]).expect(2).says("no pg_stat_statements").says("CREATE EXTENSION");
    postgres.sql("CREATE EXTENSION pg_stat_statements");
    postgres.sql(TABLES);
    postgres.sql("INSERT INTO customers SELECT i, (1000000 + i)::text FROM generate_series(1, 1000) i");
    capture(&place, &url, &[]).expect(2).says("no statement for a workload");
    for statement in ASKED {
        postgres.sql(statement);
        postgres.sql(statement);
    }
    // Before anything is driven. Another process of the server writes the logs, after the client has gone.
    let logs = ["server", "server.csv", "server.json"].map(|name| {
        let log = postgres.file("log").join(name);
        let has_all = |text: String| text.matches("WHERE id = 4").count() >= 2 && text.ends_with('\n');
        wait_for(name, Duration::from_secs(100), || has_all(fs::read_to_string(&log).unwrap_or_default()));
        copied(&place, &log)
    });
    // Nothing can be drawn for a table without a row.
    let ran = capture(&place, &url, &[]).expect(0);
    ran.says("2 statements with 4 of").says("the table orders has no row to draw values from").says("--allow-writes");
    driven(&place, 2);
    postgres.sql("INSERT INTO orders SELECT i, i, CASE i % 2 WHEN 0 THEN 'paid' ELSE 'it''s' END, '2026-01-01'::date + i % 300 FROM generate_series(1, 1000) i");
    postgres.sql("ANALYZE");
    capture(&place, &url, &["--values", "50"]).expect(0).says("5 statements with");
    // Only who captured may read them.
    use std::os::unix::fs::PermissionsExt as _;
    let folder = place.path().join("captured.values");
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    let phones = fs::read_dir(&folder).unwrap().flatten().map(|file| fs::read_to_string(file.path()).unwrap());
    let phones = phones.filter(|text| text.starts_with("p1\n10")).collect::<Vec<_>>();
    assert_eq!(phones.iter().map(|text| text.lines().count()).collect::<Vec<_>>(), [51], "{phones:?}");
    let plan = driven(&place, 5);
    assert!(plan.contains("LIMIT 10") && !plan.contains("UPDATE"), "{plan}");
    let before = postgres.sql(CONTENTS);
    capture(&place, &url, &["--allow-writes"]).expect(0).says("statements with").says("duplicate key");
    let plan = fs::read_to_string(place.path().join("captured.toml")).unwrap();
    assert!(plan.contains("UPDATE orders SET status = :update_orders_p1 WHERE id = :update_orders_p2;"), "{plan}");
    // A plan of it is no proof that it runs.
    assert!(!plan.contains("INSERT"), "{plan}");
    assert_eq!(postgres.sql(CONTENTS), before);
    capture(&place, &url, &[]).expect(2).says("captured.toml exists already");
    removed(&place);
    for log in logs {
        capture(&place, &url, &["--log", log.to_str().unwrap()]).expect(0).says("5 statements with 10 of");
        let plan = driven(&place, 5);
        assert!(plan.contains("LIMIT :select_customers") && plan.contains("ORDER BY 1"), "{plan}");
    }
}

#[test]
fn what_a_mariadb_counted_and_logged_is_driven() {
    let place = Place::new();
    let settings = [
        ("performance-schema", "ON"),
        ("slow-query-log", "1"),
        ("long-query-time", "0"),
        ("slow-query-log-file", "slow"),
        ("general-log", "1"),
        ("general-log-file", "general"),
    ];
    let mariadb = Mariadb::start_with(&settings, place.path());
    let url = mariadb.url();
    mariadb.sql("CREATE TABLE customers (id int PRIMARY KEY, phone varchar(20), KEY (phone))");
    mariadb.sql("CREATE TABLE orders (id int PRIMARY KEY, customer int, status varchar(10), placed date)");
    mariadb.sql("INSERT INTO customers SELECT seq, concat(1000000 + seq) FROM seq_1_to_1000");
    mariadb.sql("INSERT INTO orders SELECT seq, seq, if(seq % 2, 'paid', 'it''s'), '2026-01-01' + INTERVAL seq % 300 DAY FROM seq_1_to_1000");
    mariadb.sql("CREATE TABLE visits (id int AUTO_INCREMENT PRIMARY KEY, customer int, n int)");
    for statement in ASKED.iter().chain(&["INSERT INTO visits (customer, n) VALUES (5, 2)"]) {
        mariadb.sql(statement);
        mariadb.sql(statement);
    }
    // Before anything is driven. The server writes the ends of the last sessions after the client has gone.
    let logs =
        [("slow", "INSERT INTO visits (customer, n) VALUES (5, 2);"), ("general", "Quit")].map(|(name, last)| {
            let log = mariadb.file(name);
            let has_ended = |text: String| {
                text.matches("INSERT INTO visits").count() == 2
                    && text.lines().next_back().is_some_and(|line| line.contains(last))
            };
            wait_for(name, Duration::from_secs(100), || has_ended(fs::read_to_string(&log).unwrap()));
            copied(&place, &log)
        });
    capture(&place, &url, &[]).expect(0).says("5 statements with 10 of");
    let plan = driven(&place, 5);
    // As a number it would find no index.
    assert!(plan.contains("`phone` = CONCAT(:"), "{plan}");
    for log in &logs {
        capture(&place, &url, &["--log", log.to_str().unwrap()]).expect(0).says("5 statements with 10 of");
        let plan = driven(&place, 5);
        assert!(plan.contains("phone = CONCAT(:"), "{plan}");
    }
    // What writes is executed once, and undone.
    let contents = || [CONTENTS, VISITS].map(|asked| mariadb.sql(asked));
    let before = contents();
    capture(&place, &url, &["--allow-writes"]).expect(0).says("Duplicate entry");
    let plan = removed(&place);
    for written in ["INSERT INTO `visits`(", "VALUES (:insert_visits_p1, :insert_visits_p2);", "UPDATE `orders` SET"] {
        assert!(plan.contains(written), "{written}: {plan}");
    }
    assert_eq!(contents(), before);
    for log in &logs {
        let before = contents();
        let ran = capture(&place, &url, &["--allow-writes", "--log", log.to_str().unwrap()]).expect(0);
        ran.says("7 statements with 14 of").says("Duplicate entry");
        assert_eq!(contents(), before);
        driven_with(&place, 7, &["--allow-writes"]);
    }
    // What a ROLLBACK would not undo is planned.
    mariadb.sql("ALTER TABLE visits ENGINE = MyISAM");
    let before = contents();
    let ran = capture(&place, &url, &["--allow-writes", "--log", logs[0].to_str().unwrap()]).expect(0);
    assert!(!ran.out.contains("Duplicate entry"), "{ran:?}");
    assert!(removed(&place).contains("INSERT INTO visits"));
    assert_eq!(contents(), before);
    let off = Mariadb::start(place.path());
    capture(&place, &off.url(), &[]).expect(2).says("performance_schema is off").says("--log FILE");
}

#[test]
fn what_cannot_be_captured_is_told_and_leaves_nothing() {
    let place = Place::new();
    for (from, more, code, words) in [
        ("postgres", &[][..], 2, "--from postgres is not the URL of a database"),
        ("redis://127.0.0.1:1", &[], 2, "redis does not report its statements"),
        ("postgres://me@127.0.0.1:1/shop", &[], 3, ""),
        ("postgres://me@h/shop", &["--top", "0"], 2, "1..=1000"),
    ] {
        capture(&place, from, more).expect(code).says(words);
    }
    let postgres = Postgres::start(place.path());
    let missing = place.path().join("missing.log");
    capture(&place, &postgres.url(), &["--log", missing.to_str().unwrap()]).expect(2).says("missing.log");
    let empty = place.path().join("empty.log");
    fs::write(&empty, "no log\n\u{1}\u{ff}{,'\n").unwrap();
    let ran = capture(&place, &postgres.url(), &["--log", empty.to_str().unwrap()]);
    ran.expect(2).says("no statement for a workload");
    let left = fs::read_dir(place.path())
        .unwrap()
        .flatten()
        .filter(|file| file.file_name().to_string_lossy().starts_with("captured"));
    assert_eq!(left.count(), 0);
    let output = "/nonexistent/captured.toml";
    postgres.sql("CREATE TABLE t (a int)");
    let log = place.path().join("a.log");
    // A statement that a log does not end is none; one that came by way of syslog may miss its end anywhere.
    let begun = "x LOG:  statement: SELECT a FROM t WHERE a = 1\n";
    for (text, words) in [
        (begun.to_owned(), "1 may be cut off: the log does not show its end"),
        (format!("Nov 26 11:49:14 db1 postgres[47]: [7-1] {begun}"), "a.log: written by syslog"),
    ] {
        fs::write(&log, text).unwrap();
        capture(&place, &postgres.url(), &["--log", log.to_str().unwrap()]).expect(2).says(words);
    }
    // Its form is looked at before any server is asked.
    capture(&place, "postgres://me@127.0.0.1:1/shop", &["--log", log.to_str().unwrap()]).expect(2).says("by syslog");
    fs::write(&log, format!("{begun}x LOG:  done\n")).unwrap();
    let args = ["capture", "--from", &postgres.url(), "--log", log.to_str().unwrap(), "--output", output];
    place.run(&args).expect(8).says("/nonexistent");
}
