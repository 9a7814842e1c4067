//! Tests of the store that no other SQL store shares.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use plimsoll_core::{
    Address, Durability, IndexMode, Layout, LayoutStatement, Outcome, SeriesKind, Sessions, Store, StoreErrorKind,
    Value, Waits,
};
use plimsoll_lab::OpenStore;
use plimsoll_store_mariadb::kind;
use plimsoll_testkit::advice::of_error;
use plimsoll_testkit::ask::until_waiting;
use plimsoll_testkit::opening::Opening;
use plimsoll_testkit::proxy::{Fault, Proxy, in_turn};
use plimsoll_testkit::records::{INSERT, kinds, record};
use plimsoll_testkit::sql::{data_outlives_cold_and_restart, wire};

use crate::fixture::{Server, SqlServer, TIMEOUT, layout, login, open_login, sql, start};

fn private() -> (tempfile::TempDir, OpenStore) {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Server::DIALECT.private(dir.path()).open().expect("a private server");
    (dir, store)
}

#[test]
fn what_cannot_be_dropped_is_named_with_the_command_for_a_user_with_a_password() {
    let server = Server::alone();
    let mut control = server.control();
    control.simple("CREATE USER ada@localhost IDENTIFIED BY 's3cret'").expect("made");
    control.simple("GRANT ALL ON *.* TO ada@localhost").expect("granted");
    let mut store = server.attach("ada:s3cret").open().expect("attached");
    store.create(&layout(IndexMode::Own)).expect("created");
    server.kill();
    let error = store.close().expect_err("its server is gone");
    let wanted = format!("mariadb -S {} -u ada -p -e ", server.socket().display());
    assert_eq!(of_error(&error), format!("{wanted}'DROP DATABASE plimsoll_20260102_030405_ab12'"));
}

/// Starts a proxy in front of `server` that greets each client with a number of its own, as ProxySQL and MaxScale do.
/// Returns its port.
fn pooler(server: &Server) -> u16 {
    let (listener, socket) = (TcpListener::bind("127.0.0.1:0").expect("a free port"), server.socket());
    let port = listener.local_addr().expect("it is bound").port();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client: TcpStream = client.expect("a client");
            let mut server = UnixStream::connect(&socket).expect("the server");
            let mut greeting = vec![0; 4];
            server.read_exact(&mut greeting).expect("a header");
            let length = usize::from(greeting[0]) + (usize::from(greeting[1]) << 8);
            greeting.resize(4 + length, 0);
            server.read_exact(&mut greeting[4..]).expect("a greeting");
            let version = greeting[5..].iter().position(|byte| *byte == 0).expect("the end of the version");
            greeting[6 + version..][..4].fill(9);
            client.write_all(&greeting).expect("greeted");
            let (mut answers, mut to_client) =
                (server.try_clone().expect("a copy"), client.try_clone().expect("a copy"));
            std::thread::spawn(move || std::io::copy(&mut answers, &mut to_client));
            std::thread::spawn(move || std::io::copy(&mut client, &mut server));
        }
    });
    port
}

#[test]
fn a_pooler_is_refused_before_it_is_given_anything_and_a_proxy_is_not() {
    let server = Server::start();
    let at = |port: u16| {
        let url = format!("mysql://root@127.0.0.1:{port}/{}", server.database);
        Opening::attached(kind, &url, None).run("pooled")
    };
    let opening = at(pooler(&server));
    let capturing = kind().production(opening.options.clone());
    for refused in [opening.open().map(drop), capturing.map(drop)] {
        let error = refused.expect_err("others share its connection");
        assert_eq!(error.kind, StoreErrorKind::Usage, "{error:?}");
        assert!(error.what.contains(" greets as connection 151587081, and connection "), "{error:?}");
        assert!(error.what.ends_with(" answers: it looks like a pooler") && error.next.is_some(), "{error:?}");
    }
    let databases = "SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = 'plimsoll_pooled'";
    assert_eq!(server.control().value(databases).expect("a count"), "0");

    let address = Address::Unix(server.socket());
    let proxy = Proxy::tcp(address, Fault::Close, u64::MAX);
    at(proxy.port()).open().expect("a proxy passes connections on").close().expect("closed");
}

#[test]
fn an_address_of_several_servers_is_refused_before_a_database_is_made() {
    let servers = [Server::start(), Server::alone()];
    let databases = "SELECT GROUP_CONCAT(SCHEMA_NAME) FROM information_schema.SCHEMATA \
                     WHERE SCHEMA_NAME = 'plimsoll_several'";
    let left = || servers.each_ref().map(|server| server.control().value(databases).expect("a list"));
    let at = |addresses: &[Address]| {
        let url = format!("mysql://root@127.0.0.1:{}/mysql", in_turn(addresses.to_vec()));
        Opening::attached(kind, &url, None).run("several").open().expect("attached")
    };
    let addresses = servers.each_ref().map(|server| Address::Unix(server.socket()));
    let error = at(&addresses).create(&layout(IndexMode::Own)).expect_err("two servers");
    assert_eq!(error.kind, StoreErrorKind::Usage, "{error:?}");
    assert!(error.what.ends_with(" leads to several servers, and databases would stay on some"), "{error:?}");
    assert!(error.detail.is_some_and(|detail| detail.matches(" server_id ").count() == 2));
    assert_eq!(left(), ["", ""]);
    let mut alone = at(&addresses[1..]);
    alone.create(&layout(IndexMode::Own)).expect("one server behind a proxy");
    alone.close().expect("closed");
    assert_eq!(left(), ["", ""]);
}

#[test]
fn a_durability_is_what_was_asked_for() {
    let (_dir, mut store) = private();
    store.create(&layout(IndexMode::Own)).expect("created");
    for (durability, level) in [(Durability::AtEnd, 0), (Durability::Buffered, 2), (Durability::Durable, 1)] {
        let shown = sql("level", "SELECT @@GLOBAL.innodb_flush_log_at_trx_commit", &[]);
        let mut wire = wire(&mut *store, durability, &[shown]);
        assert_eq!(wire.ask(0, &[]).1.values.values().get(0), Value::Int(level), "{durability:?}");
        let described = store.describe().expect("described").settings;
        let setting = described.iter().find(|setting| setting.name == "innodb_flush_log_at_trx_commit");
        assert_eq!(setting.map(|setting| setting.value.clone()), Some(level.to_string()));
        store.sync().expect("synced");
    }
    store.close().expect("closed");
}

/// The server is one of the test's own, because its setting is everybody's.
#[test]
fn a_durability_that_an_attached_server_does_not_keep_is_refused() {
    let server = start(&[("innodb-flush-log-at-trx-commit", "2")]);
    let url = format!("mariadb://root@/?socket={}/socket", server.first().socket_dir.display());
    let mut store = Opening::attached(kind, &url, None).open().expect("attached");
    let durable = store.sessions(1, Durability::Durable).map(|_| ()).expect_err("it is not");
    assert_eq!(durable.kind, StoreErrorKind::Usage);
    assert!(durable.what.contains("innodb_flush_log_at_trx_commit=2"), "{durable}");
    store.sessions(1, Durability::Buffered).map(|_| ()).expect("it is");
    let described = store.describe().expect("described");
    let setting = described.settings.iter().find(|one| one.name == "innodb_flush_log_at_trx_commit").expect("shown");
    assert_eq!((setting.value.as_str(), setting.source.as_str()), ("2", "command line"));
    assert!(described.place.starts_with("mysql:///?socket="), "{}", described.place);
    store.close().expect("closed");
    server.close().expect("closed");
}

#[test]
fn the_layouts_own_statements_are_run_in_its_dialect() {
    let mut store = Server::start().attach("root").run("layout").open().expect("attached");
    let of = |text: &str| LayoutStatement::of(plimsoll_core::Dialect::Mysql, text);
    let other = LayoutStatement::of(plimsoll_core::Dialect::Postgres, "CREATE TABLE p (n int4)");
    let layout = Layout {
        statements: vec!["CREATE TABLE t (n INT)".into(), of("INSERT INTO t SELECT 7"), other],
        after_load: vec![of("CREATE INDEX i ON t (n)")],
        ..Layout::default()
    };
    store.create(&layout).expect("created");
    store.after_load(&layout).expect("done");
    let get = [sql("get", "SELECT n FROM t FORCE INDEX (i)", &[])];
    let mut wire = wire(&mut *store, Durability::AtEnd, &get);
    assert_eq!(wire.ask(0, &[]).1.values.values().get(0), Value::Int(7));
    drop(wire);
    let wrong = Layout { statements: vec!["CREATE TABEL t".into()], ..Layout::default() };
    let error = store.create(&wrong).expect_err("no such statement");
    assert!(error.what.contains("CREATE TABEL t") && error.detail.unwrap().contains("42000"));
    store.close().expect("closed");
}

#[test]
fn a_private_server_keeps_its_data_through_cold_and_restart() {
    data_outlives_cold_and_restart(&Server::DIALECT, |store| {
        let counters = plimsoll_testkit::ask::counters(&mut **store);
        let level = |name: &str| {
            let counter = counters.iter().find(|counter| counter.name == name);
            counter.map(|counter| (counter.number(), counter.kind()))
        };
        assert_eq!(level("dirty_pages"), Some((0.0, SeriesKind::Level)));
        assert_eq!(level("history_length"), Some((0.0, SeriesKind::Level)));
        assert!(level("log_written").is_some_and(|(value, sort)| value > 1e5 && sort == SeriesKind::Total));
        assert!(level("rows_inserted").is_some_and(|(value, _)| value >= 5_000.0));
        let checked = store.check_integrity().expect("sound").expect("it has one");
        assert!(checked.contains("1 tables"), "{checked}");
    });
}

#[test]
fn a_private_server_that_never_gets_quiet_is_waited_for_as_long_as_work_may_take() {
    // The server starts within this limit, too.
    let (limit, dir) = (Duration::from_secs(10), tempfile::tempdir().expect("a directory"));
    let mut opening = Server::DIALECT.private(dir.path());
    opening.options.waits = Waits::from(limit).with_answer(Duration::from_secs(30));
    let mut store = opening.open().expect("a private server");
    let Ok(Sessions::Wire(clients)) = store.sessions(1, Durability::AtEnd) else { panic!("a wire session") };
    let open = || open_login(&clients[0].address, login("root", None)).expect("a connection");
    let (mut reader, mut writer) = (open(), open());
    for text in ["CREATE DATABASE theirs", "CREATE TABLE theirs.t (a INT)", "INSERT INTO theirs.t VALUES (1)"] {
        writer.simple(text).expect("made");
    }
    // Versions that a transaction may still read are not purged.
    reader.simple("START TRANSACTION WITH CONSISTENT SNAPSHOT").expect("a transaction");
    writer.simple("UPDATE theirs.t SET a = 2").expect("updated");
    let began = Instant::now();
    let error = store.settle().expect_err("it is not quiet");
    assert!(error.what.contains("old versions of rows to purge after "), "{error}");
    assert!(error.next.expect("advice").ends_with("raise `work_timeout`."));
    // It was five minutes whatever the limit.
    assert!(began.elapsed() >= limit && began.elapsed() < limit * 30, "{:?}", began.elapsed());
}

#[test]
fn sessions_that_wait_for_a_lock_are_counted_by_table_and_statement_of_the_holder() {
    let server = Server::alone();
    let mut store = server.attach("root").open().expect("attached");
    store.create(&layout(IndexMode::None)).expect("created");
    let mut probe = store.probes().pop().expect("it counts");
    let mut control = server.control();
    let table = "CREATE TABLE my_row (id INT PRIMARY KEY, a INT) ENGINE=InnoDB";
    for text in ["CREATE DATABASE theirs", "USE theirs", table, "INSERT INTO my_row VALUES (1, 0)"] {
        control.simple(text).expect("made");
    }
    let start = |text: &'static str| {
        let mut session = server.control();
        session.simple("USE theirs").expect("used");
        let id = session.value("SELECT CONNECTION_ID()").expect("a number");
        (id, std::thread::spawn(move || session.simple(text).map(drop)))
    };
    let mut until = |end: &str, count: f64| until_waiting(&mut probe, end, count, TIMEOUT);
    // The row is locked before its new value is calculated.
    let (holder, held) = start("UPDATE my_row SET a = SLEEP(40) WHERE id = 1");
    let locked = "SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_rows_locked > 0";
    let began = Instant::now();
    while control.value(locked).expect("a count") == "0" {
        assert!(began.elapsed() < TIMEOUT, "the row is not locked within {TIMEOUT:?}");
        std::thread::sleep(Duration::from_millis(120));
    }
    let (_, waiter) = start("UPDATE my_row SET a = 5 WHERE id = 1");
    let of_update =
        "waiting for a row of my_row, held by a session that ran UPDATE my_row SET a = SLEEP(?) WHERE id = ?";
    until(of_update, 1.0);
    control.simple(&format!("KILL QUERY {holder}")).expect("ended");
    drop(held.join().expect("it ended"));
    waiter.join().expect("it ended").expect("updated");
    until(of_update, 0.0);
    // A transaction whose client is silent keeps its locks.
    control.simple("BEGIN").expect("begun");
    control.simple("UPDATE my_row SET a = 6").expect("it holds the row");
    let (_, waiter) = start("UPDATE my_row SET a = 7 WHERE id = 1");
    until("waiting for a row of my_row, held by a session that is between two statements", 1.0);
    control.simple("COMMIT").expect("released");
    waiter.join().expect("it ended").expect("updated");
    // InnoDB does not know locks on the definition of a table.
    control.simple("BEGIN").expect("begun");
    control.simple("SELECT * FROM my_row").expect("it uses the table");
    let (_, waiter) = start("ALTER TABLE my_row ADD b INT");
    until("waiting for a table metadata lock, held by a session that the server does not name", 1.0);
    control.simple("COMMIT").expect("released");
    waiter.join().expect("it ended").expect("altered");
    store.close().expect("closed");
}

/// With a log of 8 MiB, writing 20 of them is more than one round of checkpoints.
#[test]
fn a_round_of_checkpoints_through_the_log_is_counted() {
    let (_dir, mut store) = private();
    store.create(&layout(IndexMode::None)).expect("created");
    let rounds = |store: &mut dyn Store| {
        let counters = plimsoll_testkit::ask::counters(store);
        let rounds = counters.iter().find(|counter| counter.kind() == SeriesKind::Cycle).expect("there is one");
        assert_eq!(rounds.name, "checkpoint_rounds");
        rounds.number()
    };
    assert_eq!(store.cycle().expect("asked"), None, "no session has been opened");
    let before = rounds(&mut *store);
    let mut session = wire(&mut *store, Durability::AtEnd, &kinds());
    let began = Instant::now();
    let body = vec![7; 100_000];
    for n in 0..200 {
        let name = format!("c{n}");
        let mut one = record(&name, None);
        one[4] = Value::Bytes(&body);
        assert_eq!(session.ask(INSERT, &one).0, Outcome::Ok);
    }
    drop(session);
    // Twenty megabytes took this long; it says how long it takes to write the log, and what checkpoints may lag.
    let took_s = began.elapsed().as_secs_f64();
    let cycle = store.cycle().expect("asked").expect("it has one");
    assert!(cycle.by_work && cycle.seconds > took_s * 0.2 && cycle.seconds < took_s * 2.0, "{cycle:?} of {took_s} s");
    assert!(cycle.words.starts_with("The redo log has 8 MiB (innodb_log_file_size): "), "{}", cycle.words);
    store.settle().expect("settled");
    let grown = rounds(&mut *store) - before;
    assert!((1.0..10.0).contains(&grown), "{grown} rounds");
    store.close().expect("closed");
}
