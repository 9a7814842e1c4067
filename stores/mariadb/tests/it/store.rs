//! The store: what it makes, says, measures and leaves behind.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use plimsoll_core::{
    CacheSize, ColdStart, Durability, IndexMode, Layout, LayoutStatement, OpenOptions, Outcome, ParamValue, Params,
    SeriesKind, Sessions, Store, StoreError, StoreErrorKind, Target, Value, Waits,
};
use plimsoll_lab::OpenStore;
use plimsoll_store_mariadb::{Connection, kind};
use plimsoll_testkit::advice::{follow, of_error};

use crate::fixture::{Server, Wire, address, layout, login, open_login, sql, start, values};
use crate::records::{ALL, COUNT, FIND, INSERT, SCAN, kinds, record};

fn options(target: Target) -> OpenOptions {
    let params = [("buffer_pool", 32 << 20), ("log_file", 8 << 20), ("max_connections", 20)];
    let params = params.map(|(name, value)| (name.to_owned(), ParamValue::Int(value)));
    OpenOptions {
        target,
        params: Params(params.into()),
        run_id: "20260102-030405-ab12".to_owned(),
        waits: Default::default(),
    }
}

/// Opened under a run's name of the test's own: databases are seen by all tests that share the server.
fn attached(server: &Server, user: &str, run_id: &str) -> Result<OpenStore, StoreError> {
    let options = options(Target::Attach { url: server.url(user), password: None });
    plimsoll_lab::open(&*kind(), OpenOptions { run_id: run_id.to_owned(), ..options }, &mut |_| {})
}

fn private() -> (tempfile::TempDir, OpenStore) {
    private_with(Waits::default())
}

fn private_with(waits: Waits) -> (tempfile::TempDir, OpenStore) {
    let dir = tempfile::tempdir().expect("a directory");
    let data_dir = dir.path().join("data");
    std::fs::create_dir(&data_dir).expect("a directory");
    let target = Target::Private { data_dir, said: false, log_dir: PathBuf::from(dir.path()) };
    let mut told = Vec::new();
    let options = OpenOptions { waits, ..options(target) };
    let store =
        plimsoll_lab::open(&*kind(), options, &mut |what| told.push(what.to_owned())).expect("a private server");
    assert!(!told.is_empty(), "what takes a while is said");
    (dir, store)
}

fn wire(store: &mut dyn Store, durability: Durability) -> Wire {
    let Ok(Sessions::Wire(mut clients)) = store.sessions(1, durability) else { panic!("a wire session") };
    Wire::open(clients.remove(0), &kinds())
}

fn has_database(control: &mut Connection, name: &str) -> bool {
    let query = format!("SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = '{name}'");
    control.value(&query).expect("an answer") == "1"
}

#[test]
fn an_attached_server_is_left_as_it_was() {
    let server = Server::start();
    let mut control = server.control();
    let globals = "SELECT GROUP_CONCAT(VARIABLE_NAME, VARIABLE_VALUE ORDER BY 1) FROM information_schema.GLOBAL_VARIABLES \
                   WHERE VARIABLE_NAME LIKE 'innodb%'";
    let before = control.value(globals).expect("settings");
    let announced = kind().announce(&options(Target::Attach { url: server.url("root"), password: None })).unwrap();
    assert!(
        announced.iter().any(|line| line.contains("makes database plimsoll_20260102_030405_ab12")),
        "{announced:?}"
    );
    assert!(announced.iter().any(|line| line.contains("drops it afterwards")), "{announced:?}");

    let mut store = attached(&server, "root", "left-as-it-was").expect("attached");
    for index in [IndexMode::Own, IndexMode::None, IndexMode::Own] {
        store.create(&layout(index)).expect("created");
    }
    let name = "plimsoll_left_as_it_was";
    let mut wire = wire(&mut *store, Durability::Durable);
    assert_eq!(wire.ask(INSERT, &record("a", Some(1))).0, Outcome::Ok);
    assert_eq!(wire.ask(ALL, &[]).1.rows, 1);
    drop(wire);
    assert!(has_database(&mut control, name));
    store.sync().expect("synced");
    store.settle().expect("settled");
    assert!(matches!(store.cold().expect("an answer"), ColdStart::NotPossible(_)));
    assert_eq!(store.restart().expect_err("it is not ours").kind, StoreErrorKind::Usage);
    assert!(store.processes().is_empty());
    assert!(store.check_integrity().expect("an answer").is_some());
    store.close().expect("closed");
    assert!(!has_database(&mut control, name));
    assert_eq!(control.value(globals).expect("settings"), before);

    // Not closed, but dropped, as after an error.
    let mut store = attached(&server, "root", "left-as-it-was").expect("attached");
    store.create(&layout(IndexMode::Own)).expect("created");
    drop(store);
    assert!(!has_database(&mut control, name));
}

#[test]
fn a_database_of_the_same_name_is_not_touched() {
    let server = Server::start();
    let mut control = server.control();
    control.simple("CREATE DATABASE plimsoll_theirs").expect("made");
    let mut store = attached(&server, "root", "theirs").expect("attached");
    let error = store.create(&layout(IndexMode::Own)).expect_err("it is there already");
    assert!(error.to_string().contains("database exists"), "{error}");
    store.close().expect("closed");
    assert!(has_database(&mut control, "plimsoll_theirs"));
    control.simple("DROP DATABASE plimsoll_theirs").expect("dropped");
}

#[test]
fn what_a_killed_run_left_is_named() {
    let server = Server::start();
    let mut control = server.control();
    control.simple("CREATE DATABASE plimsoll_results").expect("made");
    let mut store = attached(&server, "root", "20260102-030405-dead").expect("attached");
    store.create(&layout(IndexMode::Own)).expect("created");
    // As if it had been killed.
    std::mem::forget(store);
    let noted = || {
        let mut told = Vec::new();
        let options = options(Target::Attach { url: server.url("root"), password: None });
        kind().open(options, &mut |line| told.push(line.to_owned())).expect("attached");
        // Other tests share the server.
        told.retain(|line| line.contains("_dead") || line.contains("results"));
        told
    };
    let told = noted();
    assert!(
        told[0].starts_with("database plimsoll_20260102_030405_dead of another run is still there; if"),
        "{told:?}"
    );
    let command = follow(&told, &[]);
    let wanted = format!("mariadb -S {} -u root -e ", server.socket().display());
    assert_eq!(command, format!("{wanted}'DROP DATABASE plimsoll_20260102_030405_dead'"));
    assert_eq!(noted(), [""; 0]);
    assert!(has_database(&mut control, "plimsoll_results"), "only a run's name says that a database is one's");
    control.simple("DROP DATABASE plimsoll_results").expect("dropped");
}

#[test]
fn what_cannot_be_dropped_is_named_with_the_command_for_its_server() {
    let server = start(&[]).expect("a server");
    let listens = address(&server);
    let mut control = open_login(&listens, login("root", None)).expect("a connection");
    control.simple("CREATE USER ada@localhost IDENTIFIED BY 's3cret'").expect("made");
    control.simple("GRANT ALL ON *.* TO ada@localhost").expect("granted");
    let plimsoll_core::Address::Unix(socket) = listens else { panic!("it has a socket") };
    let url = format!("mysql://ada:s3cret@/?socket={}", socket.display());
    let options = options(Target::Attach { url, password: None });
    let mut store = plimsoll_lab::open(&*kind(), options, &mut |_| {}).expect("attached");
    store.create(&layout(IndexMode::Own)).expect("created");
    server.kill(plimsoll_core::Nodes::All).expect("killed");
    let error = store.close().expect_err("its server is gone");
    let wanted = format!("mariadb -S {} -u ada -p -e ", socket.display());
    assert_eq!(of_error(&error), format!("{wanted}'DROP DATABASE plimsoll_20260102_030405_ab12'"));
    server.close().expect("closed");
}

/// An operation that was given up after its timeout still runs on the server, and holds its locks.
#[test]
fn an_operation_that_was_given_up_does_not_keep_the_database() {
    let server = Server::start();
    let mut control = server.control();
    let mut store = attached(&server, "root", "given-up").expect("attached");
    store.create(&layout(IndexMode::Own)).expect("created");
    let mut given_up = server.control();
    given_up.simple("USE plimsoll_given_up").expect("used");
    given_up.set_waits(plimsoll_core::Waits::default().with_answer(std::time::Duration::from_millis(300)));
    let slow = "SELECT SLEEP(20) FROM (SELECT COUNT(*) FROM items) AS counted";
    assert_eq!(given_up.simple(slow).expect_err("too slow").kind, StoreErrorKind::Unreachable);
    drop(given_up);
    let began = std::time::Instant::now();
    store.close().expect("closed");
    assert!(began.elapsed() < std::time::Duration::from_secs(5), "took {:?}", began.elapsed());
    assert!(!has_database(&mut control, "plimsoll_given_up"));
}

#[test]
fn a_user_that_may_not_make_a_database_is_told_how_it_may() {
    let server = Server::start();
    let mut control = server.control();
    control.simple("CREATE USER `The Guest`@localhost IDENTIFIED BY ''").expect("a user");
    let mut store = attached(&server, "The%20Guest", "guest").expect("attached");
    let error = store.create(&layout(IndexMode::Own)).expect_err("no permission");
    assert_eq!(error.kind, StoreErrorKind::Permission, "{error}");
    assert!(error.what.contains("user `The Guest` may not make database"), "{error}");
    let next = error.next.expect("it says what to do");
    let grant = next.strip_prefix("As an administrator: ").expect("a statement").trim_end_matches(';');
    control.simple(grant).expect("what it says works");
    // Privileges on databases are looked up when a connection is made, or a database is used.
    store = attached(&server, "The%20Guest", "guest").expect("attached");
    store.create(&layout(IndexMode::Own)).expect("created");
    store.settle().expect("settled");
    store.sync().expect("synced without any other privilege");
    assert!(!store.describe().expect("described").version.is_empty());
    store.close().expect("closed");
    control.simple("DROP USER `The Guest`@localhost").expect("dropped");
}

#[test]
fn a_durability_is_what_was_asked_for() {
    let (_dir, mut store) = private();
    store.create(&layout(IndexMode::Own)).expect("created");
    for (durability, level) in [(Durability::AtEnd, 0), (Durability::Buffered, 2), (Durability::Durable, 1)] {
        let Ok(Sessions::Wire(mut clients)) = store.sessions(1, durability) else { panic!("a wire session") };
        let shown = sql("level", "SELECT @@GLOBAL.innodb_flush_log_at_trx_commit", &[]);
        let mut wire = Wire::open(clients.remove(0), &[shown]);
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
    let settings = [("innodb-flush-log-at-trx-commit", "2"), ("log-bin", "binlog"), ("skip-log-bin", "0")];
    let server = crate::fixture::start(&settings[..1]).expect("a server");
    let url = format!("mariadb://root@/?socket={}/socket", server.first().socket_dir.display());
    let target = Target::Attach { url, password: None };
    let mut store = kind().open(options(target), &mut |_| {}).expect("attached");
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
    let server = Server::start();
    let mut store = attached(&server, "root", "layout").expect("attached");
    let of = |text: &str| LayoutStatement::of(plimsoll_core::Dialect::Mysql, text);
    let other = LayoutStatement::of(plimsoll_core::Dialect::Postgres, "CREATE TABLE p (n int4)");
    let layout = Layout {
        statements: vec!["CREATE TABLE t (n INT)".into(), of("INSERT INTO t SELECT 7"), other],
        after_load: vec![of("CREATE INDEX i ON t (n)")],
        ..Layout::default()
    };
    store.create(&layout).expect("created");
    store.after_load(&layout).expect("done");
    let Ok(Sessions::Wire(mut clients)) = store.sessions(1, Durability::AtEnd) else { panic!("a wire session") };
    let mut wire = Wire::open(clients.remove(0), &[sql("get", "SELECT n FROM t FORCE INDEX (i)", &[])]);
    assert_eq!(wire.ask(0, &[]).1.values.values().get(0), Value::Int(7));
    drop(wire);
    let wrong = Layout { statements: vec!["CREATE TABEL t".into()], ..Layout::default() };
    let error = store.create(&wrong).expect_err("no such statement");
    assert!(error.what.contains("CREATE TABEL t") && error.detail.unwrap().contains("42000"));
    store.close().expect("closed");
}

#[test]
fn data_of_others_are_those_of_the_database_in_the_url() {
    let server = Server::start();
    let mut control = server.control();
    control.simple("CREATE TABLE theirs (n INT PRIMARY KEY)").expect("a table of theirs");
    control.simple("INSERT INTO theirs SELECT seq FROM seq_1_to_20000").expect("filled");
    control.simple("ANALYZE TABLE theirs").expect("analyzed");
    let size = "SELECT DATA_LENGTH FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()";
    let bytes: u64 = control.value(size).expect("a size").parse().expect("a number");
    assert!(bytes > 20_000 * 4, "{bytes}");
    let database = control.value("SELECT DATABASE()").expect("its name");
    let url = server.url("root").replace("@/?", &format!("@/{database}?"));
    let mut store = kind().open(options(Target::Attach { url, password: None }), &mut |_| {}).expect("attached");
    assert_eq!(store.footprint().expect("a size").data_bytes, bytes);
    let bytes = control.value("SELECT @@GLOBAL.innodb_buffer_pool_size").expect("a setting").parse().expect("a number");
    let cache = store.cache_bytes().expect("a size");
    assert_eq!(cache, Some(CacheSize::Own { setting: "innodb_buffer_pool_size", bytes }));
    store.close().expect("closed");
}

#[test]
fn a_private_server_that_never_gets_quiet_is_waited_for_as_long_as_work_may_take() {
    let limit = Duration::from_secs(10);
    let (_dir, mut store) = private_with(limit.into());
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
    assert!(began.elapsed() >= limit && began.elapsed() < limit * 6, "{:?}", began.elapsed());
}

#[test]
fn a_private_server_keeps_its_data_through_cold_and_restart() {
    let (_dir, mut store) = private();
    let described = store.describe().expect("described");
    assert!(described.version.starts_with("MariaDB "), "{}", described.version);
    assert_eq!(described.place, "private server");
    let pool = described.settings.iter().find(|one| one.name == "innodb_buffer_pool_size").expect("it differs");
    assert_eq!((pool.value.as_str(), pool.source.as_str()), ("33554432", "plimsoll"));

    store.create(&layout(IndexMode::Own)).expect("created");
    let names: Vec<String> = (0..5_000).map(|n| format!("c{n:05}")).collect();
    let mut session = wire(&mut *store, Durability::AtEnd);
    for chunk in names.chunks(500) {
        let batch: Vec<Value<'_>> = chunk.iter().zip(0..).flat_map(|(name, n)| record(name, Some(n))).collect();
        assert_eq!(session.ask(INSERT, &batch).0, Outcome::Ok);
    }
    drop(session);
    store.sync().expect("synced");
    store.settle().expect("settled");
    let level = |store: &mut dyn Store, name: &str| {
        let counters = plimsoll_testkit::ask::counters(store);
        counters.iter().find(|counter| counter.name == name).map(|counter| (counter.number(), counter.kind()))
    };
    assert_eq!(level(&mut *store, "dirty_pages"), Some((0.0, SeriesKind::Level)));
    assert_eq!(level(&mut *store, "history_length"), Some((0.0, SeriesKind::Level)));
    assert!(level(&mut *store, "log_written").is_some_and(|(value, sort)| value > 1e5 && sort == SeriesKind::Total));
    assert!(level(&mut *store, "rows_inserted").is_some_and(|(value, _)| value >= 5_000.0));

    let footprint = store.footprint().expect("a size");
    let index_bytes = footprint.index_bytes.expect("it can tell");
    assert!(footprint.data_bytes > 5_000 * 40, "{footprint:?}");
    assert!((30_000..=footprint.data_bytes).contains(&index_bytes), "{footprint:?}");
    assert!(footprint.total_bytes.expect("it is ours") > footprint.data_bytes + index_bytes, "{footprint:?}");

    let cache = store.cache_bytes().expect("a size");
    let bytes = pool.value.parse().expect("bytes");
    assert_eq!(cache, Some(CacheSize::Own { setting: "innodb_buffer_pool_size", bytes }));

    let range = values(&[Value::Int(3), Value::Int(5)]);
    let plan = store.explain(&kinds()[FIND as usize], range.values()).expect("explained").expect("a plan");
    assert!(plan.contains("table items") && plan.contains("key items_index_0"), "{plan}");
    let plan = store.explain(&kinds()[SCAN as usize], range.values()).expect("explained").expect("a plan");
    assert!(plan.contains("type ALL") && !plan.contains("key"), "{plan}");
    let checked = store.check_integrity().expect("sound").expect("it has one");
    assert!(checked.contains("1 tables"), "{checked}");

    let pid = store.processes();
    assert_eq!(pid.len(), 1);
    let ColdStart::Done { file_bytes, resident_bytes } = store.cold().expect("cold") else { panic!("it is ours") };
    assert!(file_bytes > footprint.data_bytes && resident_bytes <= file_bytes);
    assert_ne!(store.processes(), pid, "it was restarted");
    store.restart().expect("restarted");
    let mut session = wire(&mut *store, Durability::Durable);
    assert_eq!(session.ask(COUNT, &[]).1.rows, 5_000);
    drop(session);
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
    let mut session = wire(&mut *store, Durability::AtEnd);
    let began = std::time::Instant::now();
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
