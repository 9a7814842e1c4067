//! Settings are those of the sessions that were driven, and none of them contradicts the durability that was asked for.

use crate::bench::{Place, Ran};
use crate::servers::{Mariadb, Postgres};

fn drive(place: &Place, options: &str) -> Ran {
    place.line(&format!("drive {options}"))
}

/// The value and the source of a setting in the last recording.
fn recorded(place: &Place, name: &str) -> Option<(String, String)> {
    let settings = place.report()["trials"][0]["settings"].as_array().unwrap().clone();
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
    let off = "kv --mix read=1 --set records=100 --on postgres --ops 5 --set postgres.settings=synchronous_commit=off";
    let refused = drive(&place, off).expect(2);
    refused.says("synchronous_commit is off by the store's parameter `settings` … durability `durable`");
    let local =
        "kv --mix read=1 --set records=100 --on postgres --ops 5 --set postgres.settings=synchronous_commit=local";
    drive(&place, local).expect(0);
    has(&place, "synchronous_commit", "local");
}

#[test]
fn a_private_mariadb_takes_any_setting_but_those_that_are_not_the_users() {
    let place = Place::new();
    let drive_with = |settings: &str| {
        let args = ["drive", "oltp_point_select", "--set", "table_size=100", "--on", "mariadb", "--ops", "5", "--set"];
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
    let reads = "oltp_point_select --set table_size=100 --ops 5";
    let select = format!("{reads} --on {}", server.url());
    let with_options = |options: &str, value: &str| {
        let mut command = place.command(&["drive"]);
        Ran::of(&command.args(options.split(' ')).env("PGOPTIONS", value).output().unwrap())
    };
    let durable = format!("{select} --durability durable");
    with_options(&durable, "-c synchronous_commit=off").expect(2).says("(the URL's, or PGOPTIONS)");
    let url = format!("{}&options=-csynchronous_commit%3Doff", server.url());
    drive(&place, &format!("{reads} --on {url} --durability durable")).expect(2).says("(the URL's, or PGOPTIONS)");
    with_options(&select, "-c work_mem=7MB").expect(0);
    assert_eq!(recorded(&place, "work_mem"), Some(("7MB".to_owned(), "connection".to_owned())));
    for (target, words) in [
        ("ROLE postgres", "by the role's settings, and durability `durable`"),
        ("DATABASE postgres", "by the database's settings, and durability `durable`"),
        ("ROLE postgres IN DATABASE postgres", "by the role's settings in this database, and"),
    ] {
        server.sql(&format!("ALTER {target} SET synchronous_commit = off"));
        drive(&place, &durable).expect(2).says(words);
        server.sql(&format!("ALTER {target} RESET synchronous_commit"));
    }
    // What is durable too stays as it was asked for, and is recorded.
    server.sql("ALTER ROLE postgres SET synchronous_commit = local");
    drive(&place, &select).expect(0);
    has(&place, "synchronous_commit", "local");
    // The server's own value is no wish for this run: sessions set theirs, and have it.
    server.sql("ALTER ROLE postgres RESET synchronous_commit");
    server.sql("ALTER SYSTEM SET synchronous_commit = off");
    server.sql("SELECT pg_reload_conf()");
    drive(&place, &select).expect(0);
    assert_eq!(recorded(&place, "synchronous_commit"), None, "it is at its default in the sessions");

    // Sessions that only read are recorded so.
    let mariadb = Mariadb::start(place.path());
    let script = place.path().join("a.sql");
    std::fs::write(&script, "SELECT a FROM t;").unwrap();
    let table = "CREATE TABLE t (a int)";
    for (url, _, name, value) in [
        (server.url(), server.sql(table), "default_transaction_read_only", "on"),
        (mariadb.url(), mariadb.sql(table), "tx_read_only", "ON"),
    ] {
        drive(&place, &format!("-f {} --no-load --on {url} --ops 5", script.display())).expect(0);
        has(&place, name, value);
    }
}

#[test]
fn each_store_tells_what_its_durability_came_to() {
    let place = Place::new();
    for (options, name, value) in [
        ("kv --on sqlite --mix read=1 --durability durable", "synchronous", "FULL"),
        ("kv --on sqlite --mix read=1 --durability buffered", "synchronous", "NORMAL"),
        ("kv --on redis --mix read=1 --durability durable", "appendfsync", "always"),
        ("kv --on redis --mix read=1 --durability buffered", "appendfsync", "no"),
        (
            "oltp_point_select --on mariadb --set table_size=100 --durability buffered",
            "innodb_flush_log_at_trx_commit",
            "2",
        ),
        ("ldap --on ldap --mix search=1 --set entries=100 --durability buffered", "dbnosync", "TRUE"),
    ] {
        let size = if options.starts_with("kv") { " --set records=100" } else { "" };
        drive(&place, &format!("{options}{size} --ops 5")).expect(0);
        has(&place, name, value);
    }
}
