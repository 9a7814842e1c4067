//! Settings are those of the sessions that were driven, and none of them contradicts the durability that was asked for.

use std::process::Command;

use crate::bench::{Place, Ran};
use crate::servers::{Mariadb, Postgres};

fn drive(place: &Place, options: &str, prepare: impl FnOnce(&mut Command)) -> Ran {
    let mut args = vec!["drive"];
    args.extend(options.split_whitespace());
    let mut command = place.command(&args);
    prepare(&mut command);
    Ran::of(&command.output().unwrap())
}

/// The value and the source of a setting in the last recording.
fn recorded(place: &Place, name: &str) -> Option<(String, String)> {
    let report = place.run(&["report", "latest", "--format", "json"]).expect(0);
    let report: serde_json::Value = serde_json::from_str(&report.out).unwrap();
    let settings = report["trials"][0]["settings"].as_array().unwrap().clone();
    let text = |setting: &serde_json::Value, key: &str| setting[key].as_str().unwrap_or_default().to_owned();
    let found = settings.iter().find(|setting| setting["name"] == name)?;
    Some((text(found, "value"), text(found, "source")))
}

#[track_caller]
fn has(place: &Place, name: &str, value: &str) {
    assert_eq!(recorded(place, name).map(|(value, _)| value).as_deref(), Some(value), "{name}");
}

#[test]
fn a_private_server_is_not_set_against_the_durability() {
    let place = Place::new();
    let off = "select --on postgres --ops 5 --set postgres.settings=synchronous_commit=off";
    let refused = drive(&place, off, |_| {}).expect(2);
    refused.says("synchronous_commit is off by the store's parameter `settings`").says("durability `durable`");
    let local = "select --on postgres --ops 5 --set postgres.settings=synchronous_commit=local";
    drive(&place, local, |_| {}).expect(0);
    has(&place, "synchronous_commit", "local");
}

#[test]
fn a_private_mariadb_takes_any_setting_but_those_that_are_not_the_users() {
    let place = Place::new();
    let drive_with = |settings: &str| {
        let args = ["drive", "oltp", "--mix", "point_select=1", "--on", "mariadb", "--ops", "5", "--set"];
        let set = format!("mariadb.settings={settings}");
        place.run(&args.into_iter().chain([set.as_str()]).collect::<Vec<_>>())
    };
    drive_with("innodb_io_capacity=2345 innodb-doublewrite=OFF").expect(0);
    has(&place, "innodb_io_capacity", "2345");
    has(&place, "innodb_doublewrite", "OFF");
    drive_with("innodb_flush_log_at_trx_commit=0").expect(2).says("which a durability sets").says("at-end (0)");
    drive_with("socket=/tmp/x").expect(2).says("Plimsoll's business");
    drive_with("innodb_io_capacity").expect(2).says("`innodb_io_capacity`, which is not NAME=VALUE");
    drive_with("no_such_thing=1").expect(9).says("unknown variable 'no-such-thing=1'");
}

#[test]
fn what_connections_roles_and_databases_set_is_refused_or_recorded() {
    let place = Place::new();
    let server = Postgres::start(place.path());
    let select = format!("select --on {} --ops 5", server.url());
    let env = |value: &'static str| {
        move |command: &mut Command| {
            command.env("PGOPTIONS", value);
        }
    };
    let durable = format!("{select} --durability durable");
    drive(&place, &durable, env("-c synchronous_commit=off")).expect(2).says("(the URL's, or PGOPTIONS)");
    let url = format!("{select}&options=-csynchronous_commit%3Doff").replace(" --ops 5&", "&") + " --ops 5";
    drive(&place, &format!("{url} --durability durable"), |_| {}).expect(2).says("(the URL's, or PGOPTIONS)");
    drive(&place, &select, env("-c work_mem=7MB")).expect(0);
    assert_eq!(recorded(&place, "work_mem"), Some(("7MB".to_owned(), "connection".to_owned())));
    for (target, words) in [
        ("ROLE postgres", "by the role's settings, and durability `durable`"),
        ("DATABASE postgres", "by the database's settings, and durability `durable`"),
        ("ROLE postgres IN DATABASE postgres", "by the role's settings in this database, and"),
    ] {
        server.sql(&format!("ALTER {target} SET synchronous_commit = off"));
        drive(&place, &durable, |_| {}).expect(2).says(words);
        server.sql(&format!("ALTER {target} RESET synchronous_commit"));
    }
    // What is durable too stays as it was asked for, and is recorded.
    server.sql("ALTER ROLE postgres SET synchronous_commit = local");
    drive(&place, &select, |_| {}).expect(0);
    has(&place, "synchronous_commit", "local");
    // The server's own value is no wish for this run: sessions set theirs, and have it.
    server.sql("ALTER ROLE postgres RESET synchronous_commit");
    server.sql("ALTER SYSTEM SET synchronous_commit = off");
    server.sql("SELECT pg_reload_conf()");
    drive(&place, &select, |_| {}).expect(0);
    assert_eq!(recorded(&place, "synchronous_commit"), None, "it is at its default in the sessions");
}

#[test]
fn sessions_that_only_read_are_recorded_so() {
    let place = Place::new();
    let postgres = Postgres::start(place.path());
    postgres.sql("CREATE TABLE t (a int)");
    let script = place.path().join("a.sql");
    std::fs::write(&script, "SELECT a FROM t;").unwrap();
    let script = script.display();
    drive(&place, &format!("-f {script} --no-load --on {} --ops 5", postgres.url()), |_| {}).expect(0);
    has(&place, "default_transaction_read_only", "on");
    let mariadb = Mariadb::start(place.path());
    mariadb.sql("CREATE TABLE t (a int)");
    drive(&place, &format!("-f {script} --no-load --on {} --ops 5", mariadb.url()), |_| {}).expect(0);
    has(&place, "tx_read_only", "ON");
}

#[test]
fn each_store_tells_what_its_durability_came_to() {
    let place = Place::new();
    for (options, name, value) in [
        ("kv --on sqlite --mix read=1 --durability durable", "synchronous", "FULL"),
        ("kv --on sqlite --mix read=1 --durability buffered", "synchronous", "NORMAL"),
        ("kv --on redis --mix read=1 --durability durable", "appendfsync", "always"),
        ("kv --on redis --mix read=1 --durability buffered", "appendfsync", "no"),
        ("oltp --on mariadb --mix point_select=1 --durability buffered", "innodb_flush_log_at_trx_commit", "2"),
        ("oltp --on mariadb --mix point_select=1 --durability durable", "innodb_flush_log_at_trx_commit", "1"),
        ("ldap --on ldap --mix search=1 --set entries=100 --durability buffered", "dbnosync", "TRUE"),
        ("ldap --on ldap --mix search=1 --set entries=100 --durability durable", "dbnosync", "FALSE"),
    ] {
        let size = if options.starts_with("kv") { " --set records=100" } else { "" };
        drive(&place, &format!("{options}{size} --ops 5"), |_| {}).expect(0);
        has(&place, name, value);
    }
}
