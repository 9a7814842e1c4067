//! Attached servers: writes to them, announcements before, and refusals.

use std::path::Path;

use plimsoll_core::{Value, ValueBuf};

use crate::bench::{Place, Ran};
use crate::servers::{Mariadb, Postgres, Redis};

/// pgbench's tables of a scale, with few accounts.
const PGBENCH_TABLES: [&str; 4] = [
    "CREATE TABLE pgbench_branches (bid int PRIMARY KEY, bbalance int, filler char(88))",
    "CREATE TABLE pgbench_tellers (tid int PRIMARY KEY, bid int, tbalance int, filler char(84))",
    "CREATE TABLE pgbench_accounts (aid int PRIMARY KEY, bid int, abalance int, filler char(84))",
    "CREATE TABLE pgbench_history (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22))",
];

/// A Postgres that has pgbench's tables of scale 2.
fn with_pgbench_tables(log_dir: &Path) -> Postgres {
    let server = Postgres::start(log_dir);
    PGBENCH_TABLES.iter().for_each(|table| drop(server.sql(table)));
    server.sql("INSERT INTO pgbench_branches SELECT n, 0 FROM generate_series(1, 2) n");
    server.sql("INSERT INTO pgbench_tellers SELECT n, (n - 1) / 10 + 1, 0 FROM generate_series(1, 20) n");
    server.sql("INSERT INTO pgbench_accounts SELECT n, (n - 1) / 100000 + 1, 0 FROM generate_series(1, 200000) n");
    server
}

fn drive(place: &Place, url: &str, options: &str) -> Ran {
    place.line(&format!("drive {options} --on {url} --ops 50 --full"))
}

fn script(place: &Place, text: &str) -> String {
    let path = place.path().join("own.sql");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn tables_of_others_are_read_for_their_scale_and_changed_only_where_that_was_allowed() {
    let place = Place::new();
    let server = with_pgbench_tables(place.path());
    let url = server.url();
    let drive = |options: &str| drive(&place, &url, options);
    let refused = drive("tpcb --no-load").expect(2);
    refused.says("UPDATE pgbench_accounts SET abalance … --allow-writes … allow_writes = true");
    let own = script(&place, "SELECT 1;\n\nINSERT INTO pgbench_history (tid) VALUES (7);\n");
    drive(&format!("-f {own} --no-load")).expect(2).says("own.sql:3: this may change data on");
    // Without --no-load it has a schema of its own, and may name another.
    let other = script(&place, "INSERT INTO public.pgbench_history (tid) VALUES (7);\n");
    drive(&format!("-f {other}")).expect(2).says("own.sql:1:  … INSERT INTO public.pgbench_history");
    let setup = "setup=DROP\u{a0}TABLE\u{a0}public.pgbench_history";
    let own = script(&place, "SELECT 1;");
    drive(&format!("-f {own} --set {setup}"))
        .expect(2)
        .says("`setup`: this may change … DROP TABLE public.pgbench_history");
    assert!(place.all_runs().is_empty(), "nothing was started");
    let wrong = drive("tpcb --no-load --allow-writes --set scale=50").expect(2);
    wrong.says("`scale` is 50, and  …  holds 2 rows of pgbench_branches … write scale=2, or leave it out");
    drive("select --no-load --set scale=1").expect(2).says("`scale` is 1, and ");
    assert_eq!(server.sql("SELECT count(*) FROM pgbench_history"), "0");

    let ran = drive("tpcb --no-load --allow-writes --clients 4").expect(0).says(
        "scale = 2, as there are 2 … creates nothing there, and CHANGES EXISTING DATA by: UPDATE pgbench_accounts SET abalance",
    );
    assert!(!ran.err.contains("writes to nothing else") && !ran.out.contains("were not found"), "{ran:?}");
    assert_eq!(server.sql("SELECT count(*), count(DISTINCT bid) FROM pgbench_history"), "200|2", "both branches");
    let outside = "SELECT count(*) FROM pgbench_history WHERE tid NOT BETWEEN 1 AND 20 OR bid NOT BETWEEN 1 AND 2";
    assert_eq!(server.sql(outside), "0");
    let other = script(&place, "INSERT INTO public.pgbench_history (tid) VALUES (7);\n");
    drive(&format!("-f {other} --allow-writes")).expect(0).says("may also CHANGE EXISTING DATA by: INSERT");
    assert_eq!(server.sql("SELECT count(*) FROM pgbench_history"), "250");
    // What is said of a script does not drive the terminal.
    let loud = script(&place, "UPDATE pgbench_history SET filler = '\x1b[2J' WHERE tid = 0;\n");
    let ran = drive(&format!("-f {loud} --no-load --allow-writes")).expect(0).says("SET filler = '\u{fffd}[2J'");
    assert!(!ran.err.contains('\x1b'), "{ran:?}");

    // A plan allows it with a key, and `run` with an option.
    let plan = |more: &str| {
        place.plan(&format!(
            "stores = [\"{url}\"]\nstart = \"as-is\"\n{more}\n[workload]\nname = \"script\"\n[[workload.script]]\nname = \"i\"\n\
             text = \"INSERT INTO pgbench_history (tid) VALUES (1);\"\n[[phase]]\ndo = \"drive\"\nops = 5\n"
        ))
    };
    place.run(&["run", &plan("")]).expect(2).says("i:1: this may change");
    place.run(&["line", &plan(""), "--budget", "5s"]).expect(2);
    place.run(&["run", &plan("allow_writes = true")]).expect(0);
    place.run(&["run", &plan(""), "--allow-writes"]).expect(0);
    assert_eq!(server.sql("SELECT count(*) FROM pgbench_history"), "260");

    // Operations that find nothing are counted.
    server.sql("DELETE FROM pgbench_accounts WHERE aid % 4 = 0");
    server.sql("CREATE TABLE sbtest1 (id int PRIMARY KEY, k int, c char(120), pad char(60))");
    server.sql("INSERT INTO sbtest1 SELECT n, n, '', '' FROM generate_series(1, 1000) n WHERE n % 4 > 0 OR n = 1000");
    for workload in [
        "select",
        "tpcb --mix tpcb=1 --allow-writes",
        "tpcb --mix select=1",
        "oltp --mix point_select=1 --set distribution=uniform",
        "oltp --mix read_write=1 --set distribution=uniform --allow-writes",
    ] {
        let ran = drive(&format!("{workload} --no-load")).expect(0);
        assert!(ran.out.contains("were not found"), "{workload}: {}", ran.out);
        let size = "table_size = 1000, as there are 1,000 rows in sbtest1 (highest id)";
        assert!(!workload.starts_with("oltp") || ran.err.contains(size), "{}", ran.err);
    }
    server.sql("DELETE FROM pgbench_branches");
    drive("select --no-load").expect(2).says("holds no rows of pgbench_branches");

    // What is said to read cannot write.
    server.sql("CREATE TABLE seen (n int)");
    server.sql("CREATE FUNCTION see() RETURNS int LANGUAGE sql AS 'INSERT INTO seen VALUES (1) RETURNING n'");
    server.sql("CREATE VIEW innocent AS SELECT see() AS n");
    let own = script(&place, "SELECT n FROM innocent;\n");
    drive(&format!("-f {own} --no-load"))
        .says("its sessions are read-only … cannot execute INSERT in a read-only transaction");
    assert_eq!(server.sql("SELECT count(*) FROM seen"), "0");
    let own = script(&place, "SELECT see();\n");
    drive(&format!("-f {own} --no-load")).expect(2).says("own.sql:1");
}

#[test]
fn the_same_goes_for_mariadb() {
    let place = Place::new();
    let server = Mariadb::start(place.path());
    let url = server.url();
    PGBENCH_TABLES.iter().for_each(|table| drop(server.sql(table)));
    for statement in [
        "INSERT INTO pgbench_branches SELECT seq, 0, '' FROM seq_1_to_1",
        "INSERT INTO pgbench_tellers SELECT seq, 1, 0, '' FROM seq_1_to_10",
        "INSERT INTO pgbench_accounts SELECT seq, 1, 0, '' FROM seq_1_to_100000",
        "CREATE TABLE seen (n int)",
        "CREATE FUNCTION see() RETURNS int BEGIN INSERT INTO seen VALUES (1); RETURN 1; END",
    ] {
        server.sql(statement);
    }
    server.sql("CREATE VIEW innocent AS SELECT see() AS n");
    drive(&place, &url, "tpcb --no-load").expect(2).says("UPDATE pgbench_accounts SET abalance");
    drive(&place, &url, "select --no-load").expect(0).says("its sessions are read-only");
    let wrong = drive(&place, &url, "select --no-load --set scale=7").expect(2);
    wrong.says("`scale` is 7 … holds 1 row of pgbench_b");
    let own = script(&place, "SELECT n FROM innocent;\n");
    drive(&place, &url, &format!("-f {own} --no-load")).says("READ ONLY");
    assert_eq!(server.sql("SELECT COUNT(*) FROM shop.seen"), "0");
    assert_eq!(server.sql("SELECT COUNT(*) FROM shop.pgbench_history"), "0");
    drive(&place, &url, "tpcb --no-load --allow-writes").expect(0).says("CHANGES EXISTING DATA by: UPDATE");
    assert_eq!(server.sql("SELECT COUNT(*) FROM shop.pgbench_history"), "50");
}

#[test]
fn a_redis_as_its_package_starts_it_is_taken_as_configured() {
    let place = Place::new();
    let server = Redis::start_as_packaged(place.path());
    let url = server.url();
    let promise = "Redis has no log and saves snapshots (save 3600 1 300 100 60 10000)";
    let ran = drive(&place, &url, "kv --mix read=1,update=1 --set records=5000").expect(0);
    assert!(ran.err.contains("provide less than `durable` and are used unchanged (as-configured)"), "{ran:?}");
    assert!(ran.err.contains(promise) && ran.out.contains(promise), "{ran:?}");
    assert_eq!(server.ask(&["DBSIZE"]), "0", "nothing is left");
    // A load sends many commands at once; what is read back afterwards is read one by one.
    let stats = server.ask(&["INFO", "stats"]);
    let count = |name: &str| -> u64 {
        let line = stats.lines().find_map(|line| line.trim().strip_prefix(name)).unwrap();
        line.parse().unwrap()
    };
    let (reads, commands) = (count("total_reads_processed:"), count("total_commands_processed:"));
    assert!(commands > 10_000 && reads < commands / 4 * 3, "{reads} reads of {commands} commands");
    let asked = drive(&place, &url, "kv --mix read=1 --set records=100 --durability as-configured").expect(0);
    assert!(!asked.err.contains("used unchanged") && asked.out.contains(promise), "{asked:?}");
    let refused = drive(&place, &url, "kv --mix update=1 --durability durable").expect(2);
    refused.says("does not provide the durability `durable` … Ask for durability `as-configured`");
    assert_eq!(server.ask(&["DBSIZE"]), "0");
    // Nothing is said of what survives where nothing is written.
    server.ask(&["SET", "user0000000000000000000", "value"]);
    let ran = drive(&place, &url, "kv --no-load --mix read=1");
    assert!(!ran.err.contains("used unchanged"), "{ran:?}");
}

#[test]
fn keys_and_entries_of_others_are_counted_and_changed_only_where_that_was_allowed() {
    let place = Place::new();
    // No server listens there: the refusal comes first.
    let url = "ldap://127.0.0.1:1/dc=example,dc=com";
    let modify = drive(&place, url, "ldap --no-load --mix search=1,modify=1").expect(2);
    modify.says("modify of entries uid=user.{},ou=People");
    drive(&place, url, "ldap --no-load --mix search=1").expect(3);
    assert_eq!(place.all_runs().len(), 1, "nothing was started but the last");

    let server = Redis::start(place.path());
    let url = server.url();
    let drive = |options: &str| drive(&place, &url, &format!("kv --no-load {options}"));
    drive("--mix read=1,update=1").expect(2).says("update, which writes keys like user");
    assert_eq!(server.ask(&["DBSIZE"]), "0");
    drive("--mix read=1").expect(2).says("holds no records, which the workload needs");
    let spec = plimsoll_workload::kv::spec();
    let workload = (spec.make)(1, &plimsoll_plan::defaults(spec.params), &[]).unwrap();
    let mut words = vec!["MSET".to_owned()];
    for id in 0..333 {
        let mut key = ValueBuf::new();
        workload.record_key(id, &mut key);
        let Value::Bytes(key) = key.values().get(0) else { panic!("a key is bytes") };
        words.extend([String::from_utf8(key.to_vec()).unwrap(), "value".to_owned()]);
    }
    server.ask(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let ran = drive("--mix read=1").expect(0).says("records = 333, as there are 333 records");
    assert!(!ran.out.contains("were not found"), "{}", ran.out);
    drive("--mix read=1 --set records=300").expect(0);
    drive("--mix read=1 --set records=334").expect(2).says("`records` is 334, and ");
}
