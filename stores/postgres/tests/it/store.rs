//! The store: what it makes, says, measures and leaves behind.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use plimsoll_core::{
    Answer, BlockingSession, CacheSize, ColdStart, Durability, IndexMode, Op, OpenOptions, Outcome, ParamValue, Params,
    Probe, SeriesKind, Sessions, Store, StoreError, StoreErrorKind, Target, Value,
};
use plimsoll_lab::OpenStore;
use plimsoll_store_postgres::kind;

use plimsoll_testkit::advice::{follow, of_error};

use crate::fixture::{Server, TIMEOUT, Wire, layout, sql, url, values};
use crate::records::{ALL, COUNT, FIND, GET, INSERT, SCAN, codes, kinds, record};

fn options(target: Target) -> OpenOptions {
    let params = [("shared_buffers", 32 << 20), ("max_connections", 20)];
    let params = params.map(|(name, value)| (name.to_owned(), ParamValue::Int(value)));
    OpenOptions {
        target,
        params: Params(params.into()),
        run_id: "20260102-030405-ab12".to_owned(),
        waits: Default::default(),
    }
}

fn attached(server: &Server, user: &str) -> Result<OpenStore, StoreError> {
    plimsoll_lab::open(&*kind(), options(Target::Attach { url: url(server, user), password: None }), &mut |_| {})
}

fn private() -> (tempfile::TempDir, OpenStore) {
    let dir = tempfile::tempdir().expect("a directory");
    let data_dir = dir.path().join("data");
    std::fs::create_dir(&data_dir).expect("a directory");
    let target = Target::Private { data_dir, said: false, log_dir: PathBuf::from(dir.path()) };
    let mut told = Vec::new();
    let store = plimsoll_lab::open(&*kind(), options(target), &mut |what| told.push(what.to_owned()))
        .expect("a private server");
    assert!(!told.is_empty(), "what takes a while is said");
    (dir, store)
}

fn wire(store: &mut dyn Store, durability: Durability) -> Wire {
    let Ok(Sessions::Wire(mut clients)) = store.sessions(1, durability) else { panic!("a wire session") };
    Wire::open(clients.remove(0), &kinds())
}

/// Query for all objects in a database that are not the system's.
const INVENTORY: &str = "SELECT string_agg(nspname || '.' || coalesce(relname, ''), ' ' ORDER BY nspname, relname) \
     FROM pg_namespace LEFT JOIN pg_class ON relnamespace = pg_namespace.oid \
     WHERE nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')";

#[test]
fn an_attached_server_is_left_as_it_was() {
    let server = Server::start();
    let mut control = server.control();
    control.simple("CREATE TABLE items (code text); INSERT INTO items VALUES ('mine')").expect("a table of theirs");
    let before = control.value(INVENTORY).expect("an inventory");

    let announced =
        kind().announce(&options(Target::Attach { url: url(&server, "postgres"), password: None })).unwrap();
    assert!(announced.iter().any(|line| line.contains("makes schema plimsoll_20260102_030405_ab12")), "{announced:?}");
    assert!(announced.iter().any(|line| line.contains("drops it afterwards")), "{announced:?}");

    let mut store = attached(&server, "postgres").expect("attached");
    for index in [IndexMode::Own, IndexMode::Keyindex, IndexMode::None] {
        store.create(&layout(index)).expect("created");
    }
    store.create(&layout(IndexMode::Own)).expect("created again");
    let mut wire = wire(&mut *store, Durability::Durable);
    assert_eq!(wire.ask(INSERT, &record("a", Some(1))).0, Outcome::Ok);
    assert_eq!(wire.ask(ALL, &[]).1.rows, 1, "it does not see their table of the same name");
    drop(wire);
    assert!(control.value(INVENTORY).expect("an inventory").contains("plimsoll_20260102_030405_ab12.items"));
    store.sync().expect("synced");
    store.settle().expect("settled");
    assert!(matches!(store.cold().expect("an answer"), ColdStart::NotPossible(_)));
    assert_eq!(store.restart().expect_err("it is not ours").kind, StoreErrorKind::Usage);
    assert!(store.processes().is_empty());
    assert_eq!(store.check_integrity().expect("an answer"), None, "no extension is made in a server of others");
    store.close().expect("closed");
    assert_eq!(control.value(INVENTORY).expect("an inventory"), before);
    assert_eq!(control.value("SELECT string_agg(code, ' ') FROM items").expect("theirs"), "mine");

    // Not closed, but dropped, as after an error.
    let mut store = attached(&server, "postgres").expect("attached");
    store.create(&layout(IndexMode::Own)).expect("created");
    drop(store);
    assert_eq!(control.value(INVENTORY).expect("an inventory"), before);
}

#[test]
fn a_schema_of_the_same_name_is_not_touched() {
    let server = Server::start();
    let mut control = server.control();
    control.simple("CREATE SCHEMA plimsoll_20260102_030405_ab12 CREATE TABLE theirs (n int)").expect("made");
    let before = control.value(INVENTORY).expect("an inventory");
    let mut store = attached(&server, "postgres").expect("attached");
    let error = store.create(&layout(IndexMode::Own)).expect_err("it is there already");
    assert!(error.to_string().contains("already exists"), "{error}");
    store.close().expect("closed");
    assert_eq!(control.value(INVENTORY).expect("an inventory"), before);
}

#[test]
fn what_a_killed_run_left_is_named() {
    let server = Server::start();
    let mut store = attached(&server, "postgres").expect("attached");
    store.create(&layout(IndexMode::Own)).expect("created");
    // As if it had been killed.
    std::mem::forget(store);
    let mut control = server.control();
    control.simple("CREATE SCHEMA plimsoll_theirs").expect("made");
    let noted = || {
        let mut told = Vec::new();
        let options = OpenOptions {
            run_id: "later".to_owned(),
            ..options(Target::Attach { url: url(&server, "postgres"), password: None })
        };
        kind().open(options, &mut |line| told.push(line.to_owned())).expect("attached");
        told
    };
    let told = noted();
    assert!(
        told[0].starts_with("schema plimsoll_20260102_030405_ab12 of another run is still there; if that"),
        "{told:?}"
    );
    let command = follow(&told, &[]);
    assert!(command.contains(&format!("-U postgres -d {} -c", server.database)), "{command}");
    assert_eq!(noted(), [""; 0]);
    assert!(control.value(INVENTORY).expect("an inventory").contains("plimsoll_theirs"));
}

#[test]
fn what_cannot_be_dropped_is_named_with_the_command_for_its_server() {
    let mut server = Server::alone();
    let target = Target::Attach {
        url: format!("postgres://postgres:s3cret@127.0.0.1:{}/postgres", server.port()),
        password: None,
    };
    let mut store = plimsoll_lab::open(&*kind(), options(target), &mut |_| {}).expect("attached");
    store.create(&layout(IndexMode::Own)).expect("created");
    server.kill();
    let error = store.close().expect_err("its server is gone");
    let wanted = format!("psql -h 127.0.0.1 -p {} -U postgres -d postgres -c ", server.port());
    let advised = of_error(&error);
    assert_eq!(advised, format!("{wanted}'DROP SCHEMA \"plimsoll_20260102_030405_ab12\" CASCADE'"));
}

/// An operation that was given up after its timeout still runs on the server, and holds its locks.
#[test]
fn an_operation_that_was_given_up_does_not_keep_the_schema() {
    let server = Server::start();
    let mut control = server.control();
    let before = control.value(INVENTORY).expect("an inventory");
    let mut store = attached(&server, "postgres").expect("attached");
    store.create(&layout(IndexMode::Own)).expect("created");
    let mut given_up = server.control();
    given_up.set_waits(std::time::Duration::from_millis(300).into());
    let slow = "SELECT pg_sleep(20) FROM (SELECT count(*) FROM plimsoll_20260102_030405_ab12.items) AS counted";
    assert_eq!(given_up.simple(slow).expect_err("too slow").kind, StoreErrorKind::Unreachable);
    drop(given_up);
    let began = std::time::Instant::now();
    store.close().expect("closed");
    assert!(began.elapsed() < std::time::Duration::from_secs(5), "took {:?}", began.elapsed());
    assert_eq!(control.value(INVENTORY).expect("an inventory"), before);
}

/// A statement that fails inside a transaction must not leave the control plane in it.
#[test]
fn a_sync_that_fails_does_not_keep_the_schema() {
    let server = Server::start();
    let mut control = server.control();
    let before = control.value(INVENTORY).expect("an inventory");
    let mut store = attached(&server, "postgres").expect("attached");
    store.create(&layout(IndexMode::Own)).expect("created");
    control.simple("BEGIN; COMMENT ON SCHEMA plimsoll_20260102_030405_ab12 IS 'theirs'").expect("a lock");
    let asked: &mut dyn Store = &mut *store;
    let synced = std::thread::scope(|scope| {
        let syncing = scope.spawn(|| asked.sync());
        let began = std::time::Instant::now();
        while control
            .value(
                "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
                AND datname = current_database()",
            )
            .expect("cancelled")
            == "0"
        {
            assert!(began.elapsed() < crate::fixture::TIMEOUT, "it never waited");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        syncing.join().expect("no panic")
    });
    assert!(synced.is_err(), "it was cancelled");
    control.simple("ROLLBACK").expect("unlocked");
    store.close().expect("closed");
    assert_eq!(control.value(INVENTORY).expect("an inventory"), before);
}

#[test]
fn a_role_that_may_not_make_a_schema_is_told_how_it_may() {
    let server = Server::start();
    server.control().simple("CREATE ROLE \"The Guest\" LOGIN").expect("a role");
    let mut store = attached(&server, "The%20Guest").expect("attached");
    let error = store.create(&layout(IndexMode::Own)).expect_err("no permission");
    assert_eq!(error.kind, StoreErrorKind::Permission, "{error}");
    assert!(error.what.contains("role `The Guest` may not make a schema"), "{error}");
    let next = error.next.expect("it says what to do");
    let grant = next.strip_prefix("As its owner: ").expect("a statement");
    assert!(grant.starts_with("GRANT CREATE ON DATABASE"), "{grant}");
    server.control().simple(grant).expect("what it says works");
    store.create(&layout(IndexMode::Own)).expect("created");
    store.settle().expect("settled without the right to a checkpoint");
    store.sync().expect("synced without it too");
    store.close().expect("closed");
}

#[test]
fn a_durability_that_cannot_be_kept_is_refused() {
    let server = Server::alone();
    let mut store = attached(&server, "postgres").expect("attached");
    store.create(&layout(IndexMode::Own)).expect("created");
    let commit = "SHOW synchronous_commit";
    let shown = [(Durability::Durable, "on"), (Durability::AtEnd, "off")].map(|(durability, expected)| {
        let Ok(Sessions::Wire(mut clients)) = store.sessions(1, durability) else { panic!("a wire session") };
        let mut wire = Wire::open(clients.remove(0), &[crate::fixture::sql("show", commit, &[])]);
        (wire.ask(0, &[]).1.values.values().get(0) == Value::Text(expected), expected)
    });
    assert_eq!(shown, [(true, "on"), (true, "off")]);
    let buffered = store.sessions(1, Durability::Buffered).map(|_| ()).expect_err("there is none");
    assert_eq!(buffered.kind, StoreErrorKind::Usage);

    let mut control = server.control();
    let mut set = |name: &str, value: &str| {
        control.simple(&format!("ALTER SYSTEM SET {name} = {value}")).expect("set");
        control.simple("SELECT pg_reload_conf()").expect("reloaded");
        for _ in 0..1_000 {
            if server.control().value(&format!("SHOW {name}")).expect("shown") == value {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    };
    for name in ["full_page_writes", "fsync"] {
        set("full_page_writes", "on");
        set(name, "off");
        // The store's own connection hears of it with its next statement.
        let asked = |_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            store.sessions(1, Durability::Durable).err().filter(|refused| refused.what.contains(name))
        };
        let refused = (0..100).find_map(asked).expect("it is refused");
        assert_eq!(refused.kind, StoreErrorKind::Usage);
        assert!(refused.what.contains(&format!("{name}=off")), "{refused}");
    }
    let settings = store.describe().expect("described").settings;
    let fsync = settings.iter().find(|setting| setting.name == "fsync").expect("it is shown");
    assert_eq!(
        (fsync.value.as_str(), fsync.default.as_deref(), fsync.source.as_str()),
        ("off", Some("on"), "configuration file")
    );
    assert!(settings.iter().all(|setting| Some(&setting.value) != setting.default.as_ref()), "{settings:?}");
    store.close().expect("closed");
}

#[test]
fn a_private_server_keeps_its_data_through_cold_and_restart() {
    let (_dir, mut store) = private();
    let described = store.describe().expect("described");
    assert!(described.version.starts_with("PostgreSQL "), "{}", described.version);
    assert_eq!(described.place, "private server");
    let buffers = described.settings.iter().find(|setting| setting.name == "shared_buffers").expect("it differs");
    assert_eq!((buffers.value.as_str(), buffers.source.as_str()), ("32MB", "plimsoll"));

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

    let footprint = store.footprint().expect("a size");
    let index_bytes = footprint.index_bytes.expect("it can tell");
    assert!(footprint.data_bytes > 5_000 * 40, "{footprint:?}");
    assert!((30_000..footprint.data_bytes).contains(&index_bytes), "{footprint:?}");
    assert!(footprint.total_bytes.expect("it is ours") > footprint.data_bytes + index_bytes, "{footprint:?}");

    let cache = store.cache_bytes().expect("a size");
    assert_eq!(cache, Some(CacheSize::Own { setting: "shared_buffers", bytes: 32 << 20 }), "as it describes itself");

    let range = values(&[Value::Int(3), Value::Int(5)]);
    let plan = store.explain(&kinds()[FIND as usize], range.values()).expect("explained").expect("a plan");
    assert!(plan.contains("items_index_0"), "{plan}");
    let plan = store.explain(&kinds()[SCAN as usize], range.values()).expect("explained").expect("a plan");
    assert!(plan.starts_with("Seq Scan on items"), "{plan}");
    let open = values(&[Value::Null, Value::Int(1)]);
    let plan = store.explain(&kinds()[FIND as usize], open.values()).expect("explained").expect("a plan");
    assert!(plan.contains("count < '1'::bigint"), "{plan}");

    let checked = store.check_integrity().expect("sound").expect("amcheck is installed");
    assert!(checked.contains("1 tables, and 2 B-trees"), "{checked}");

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

#[test]
fn data_and_cache_of_an_attached_server_are_those_of_the_server() {
    let server = Server::start();
    let mut control = server.control();
    control
        .simple("CREATE TABLE theirs (n int PRIMARY KEY); INSERT INTO theirs SELECT generate_series(1, 10000)")
        .expect("a table of theirs");
    let mut store = attached(&server, "postgres").expect("attached");
    // There is no schema of this run: the user's tables are asked.
    let bytes: u64 =
        control.value("SELECT pg_total_relation_size('theirs')").expect("a size").parse().expect("a number");
    let footprint = store.footprint().expect("a size");
    assert_eq!((footprint.data_bytes, footprint.index_bytes), (bytes, Some(0)));
    let pages: u64 = control
        .value("SELECT setting::int8 * 8192 FROM pg_settings WHERE name = 'shared_buffers'")
        .expect("a setting")
        .parse()
        .expect("a number");
    assert_eq!(store.cache_bytes().expect("a size"), Some(CacheSize::Own { setting: "shared_buffers", bytes: pages }));
    store.close().expect("closed");
}

#[test]
fn damage_is_found() {
    let server = Server::start();
    let mut store = attached(&server, "postgres").expect("attached");
    let mut control = server.control();
    store.create(&layout(IndexMode::Own)).expect("created");
    control.simple("CREATE EXTENSION amcheck").expect("amcheck");
    let schema = "plimsoll_20260102_030405_ab12";
    control
        .simple(&format!("INSERT INTO {schema}.items (code, count) SELECT 'c' || n, n FROM generate_series(1, 500) n"))
        .expect("filled");
    assert!(store.check_integrity().expect("sound").is_some());
    // Rows that the index does not know of, as after a lost write.
    control
        .simple(&format!(
            "UPDATE pg_index SET indisready = false, indisvalid = false WHERE indexrelid = '{schema}.items_index_0'::regclass"
        ))
        .expect("switched off");
    control.simple(&format!("INSERT INTO {schema}.items (code, count) VALUES ('lost', 7)")).expect("inserted");
    control
        .simple(&format!(
            "UPDATE pg_index SET indisready = true, indisvalid = true WHERE indexrelid = '{schema}.items_index_0'::regclass"
        ))
        .expect("switched on");
    let error = store.check_integrity().expect_err("the index lacks a row");
    assert_eq!(error.kind, StoreErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains("items_index_0"), "{error}");
    store.close().expect("closed");
}

#[test]
fn keyindex_keeps_its_keys_in_a_table_of_bytes() {
    let server = Server::start();
    let mut store = attached(&server, "postgres").expect("attached");
    store.create(&layout(IndexMode::Keyindex)).expect("created");
    let Ok(Sessions::Blocking(mut sessions)) = store.sessions(2, Durability::AtEnd) else {
        panic!("blocking sessions")
    };
    let kinds: Vec<_> = kinds().into_iter().take(8).collect();
    for session in &mut sessions {
        session.prepare(&kinds).expect("prepared");
    }
    let ask = |session: &mut Box<dyn BlockingSession>, kind: u16, params: &[Value<'_>]| {
        let params = values(params);
        let mut answer = Answer::default();
        (session.execute(&Op::new(kind, params.values()), &mut answer), answer)
    };
    let names: Vec<String> = (0..3_000).map(|n| format!("c{n:05}")).collect();
    for chunk in names.chunks(1_500) {
        let batch: Vec<Value<'_>> = chunk.iter().flat_map(|name| record(name, name[1..].parse().ok())).collect();
        let (outcome, answer) = ask(&mut sessions[0], INSERT, &batch);
        assert_eq!(outcome, Outcome::Ok, "{}", answer.message);
    }
    let (outcome, answer) = ask(&mut sessions[0], INSERT, &record("c00007", None));
    assert_eq!(outcome, Outcome::Rejected, "{answer:?}");
    let (outcome, answer) = ask(&mut sessions[1], FIND, &[Value::Int(1_000), Value::Int(2_500)]);
    assert_eq!((outcome, answer.rows), (Outcome::Ok, 1_500), "more than a page, seen by the other session");
    assert_eq!(codes(&ask(&mut sessions[1], FIND, &[Value::Null, Value::Int(2)]).1), ["c00000", "c00001"]);
    assert_eq!(codes(&ask(&mut sessions[1], SCAN, &[Value::Null, Value::Int(2)]).1), ["c00000", "c00001"]);
    assert_eq!(ask(&mut sessions[1], ALL, &[]).1.rows, 3_000);
    let (outcome, answer) = ask(&mut sessions[1], GET, &[Value::Text("c00042")]);
    assert_eq!((outcome, answer.values.values().get(1)), (Outcome::Ok, Value::Int(42)));

    let plan = store.explain(&kinds[FIND as usize], values(&[]).values()).expect("an answer").expect("words");
    assert!(plan.contains("index keys"), "{plan}");
    let footprint = store.footprint().expect("a size");
    let index_bytes = footprint.index_bytes.expect("it can tell");
    assert!((50_000..footprint.data_bytes).contains(&index_bytes), "{footprint:?}");

    // The server ends their connections: what was in flight nowhere is lost nowhere, and the next call connects.
    server
        .control()
        .simple("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%kv%' AND pid <> pg_backend_pid()")
        .expect("ended");
    let outcomes: Vec<Outcome> = (0..3).map(|_| ask(&mut sessions[1], GET, &[Value::Text("c00042")]).0).collect();
    assert_eq!(outcomes.last(), Some(&Outcome::Ok), "{outcomes:?}");
    drop(sessions);
    store.close().expect("closed");
}

/// The counter of this name.
fn counter(probe: &mut Probe, name: &str) -> f64 {
    let counters = probe().expect("counters");
    counters.iter().find(|counter| counter.name == name).unwrap_or_else(|| panic!("{name}: {counters:?}")).number()
}

#[test]
fn the_servers_own_work_is_counted() {
    let (_dir, mut store) = private();
    store.create(&layout(IndexMode::None)).expect("created");
    let mut probe = store.probe().expect("it counts");
    let cycles: Vec<String> = {
        let counters = probe().expect("counters");
        let mut names: Vec<&str> = counters.iter().map(|counter| counter.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), counters.len(), "every name once: {counters:?}");
        assert!(counters.iter().all(|counter| counter.number().is_finite() && counter.number() >= 0.0), "{counters:?}");
        counters
            .iter()
            .filter(|counter| counter.kind() == SeriesKind::Cycle)
            .map(|counter| counter.name.clone())
            .collect()
    };
    assert_eq!(cycles, ["checkpoints"]);
    let cycle = store.cycle().expect("asked").expect("it has one");
    // The server's own defaults: five minutes, and nine tenths of it to write.
    assert_eq!(cycle.seconds, 570.0, "{}", cycle.words);
    assert!(cycle.words.starts_with("checkpoint_timeout is 5min: "), "{}", cycle.words);
    let (checkpoints, written) = (counter(&mut probe, "checkpoints"), counter(&mut probe, "log_written"));
    assert_eq!(counter(&mut probe, "checkpoints"), checkpoints, "nothing ends by being looked at");
    let mut wire = wire(&mut *store, Durability::Durable);
    for code in ["a", "b", "c"] {
        assert_eq!(wire.ask(INSERT, &record(code, Some(1))).0, Outcome::Ok);
    }
    drop(wire);
    assert!(counter(&mut probe, "log_written") > written);
    store.settle().expect("settled");
    assert_eq!(counter(&mut probe, "checkpoints"), checkpoints + 1.0, "settling ends one");
    store.restart().expect("restarted");
    assert!(counter(&mut probe, "checkpoints") > checkpoints, "it is counted on after a restart");
    store.close().expect("closed");
}

#[test]
fn settings_of_a_private_server_are_the_plans() {
    let with = |text: &str| {
        let dir = tempfile::tempdir().expect("a directory");
        let data_dir = dir.path().join("data");
        std::fs::create_dir(&data_dir).expect("a directory");
        let mut options = options(Target::Private { data_dir, said: false, log_dir: PathBuf::from(dir.path()) });
        options.params.0.insert("settings".to_owned(), ParamValue::Text(text.to_owned()));
        plimsoll_lab::open(&*kind(), options, &mut |_| {}).map(|store| (dir, store))
    };
    let (_dir, mut store) = with("work_mem=8MB wal_compression = on log_line_prefix='%m, %p'").expect("started");
    let settings = store.describe().expect("described").settings;
    for (name, value) in [("work_mem", "8MB"), ("log_line_prefix", "%m, %p"), ("shared_buffers", "32MB")] {
        let setting = settings.iter().find(|setting| setting.name == name).expect(name);
        assert_eq!((setting.value.as_str(), setting.source.as_str()), (value, "plimsoll"), "{name}");
    }
    store.close().expect("closed");
    for (text, words) in [("work_mem", "cannot be read"), ("port=7", "names port"), ("work_mem=many", "work_mem")] {
        let error = with(text).map(|_| ()).expect_err(text);
        assert!(format!("{error:?}").contains(words), "{error:?}");
    }
    let server = Server::start();
    let mut options = options(Target::Attach { url: url(&server, "postgres"), password: None });
    options.params.0.insert("settings".to_owned(), ParamValue::Text("work_mem=8MB".to_owned()));
    let error = kind().open(options, &mut |_| {}).map(|_| ()).expect_err("not ours");
    assert!(error.what.contains("not ours"), "{error}");
}

#[test]
fn what_a_session_gave_up_is_cancelled_and_nothing_else() {
    let server = Server::start();
    let mut store = attached(&server, "postgres").expect("attached");
    store.create(&layout(IndexMode::None)).expect("created");
    let sleep = [sql("sleep", "SELECT pg_sleep(60)", &[])];
    let Ok(Sessions::Wire(clients)) = store.sessions(2, Durability::Durable) else { panic!("wire sessions") };
    let mut wires: Vec<Wire> = clients.into_iter().map(|client| Wire::open(client, &sleep)).collect();
    let mut control = server.control();
    let asleep = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' \
                  AND query = 'SELECT pg_sleep(60)'";
    for wire in &mut wires {
        wire.start(0);
    }
    let mut until = |count: &str| {
        let began = Instant::now();
        while control.value(asleep).expect("a count") != count {
            assert!(began.elapsed() < TIMEOUT, "not {count} within {TIMEOUT:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    until("2");
    // As an executor does after a timeout: it closes the socket, and opens the session again.
    let given_up = wires.remove(0).give_up(&sleep);
    store.probe().expect("it counts")().expect("counters");
    until("1");
    drop(given_up);
    drop(wires);
    store.close().expect("closed");
}

#[test]
fn an_answer_has_a_bound() {
    let server = Server::start();
    let kinds = [sql("everything", "SELECT repeat('x', 1000000) FROM generate_series(1, 300)", &[])];
    let mut connection = server.open(&Default::default(), &kinds).expect("connected");
    let (outcome, answer) = crate::fixture::ask(&mut connection, 0, &[]);
    assert_eq!(outcome, Outcome::Unknown, "it may have happened");
    assert!(answer.message.contains("at most 268435456 are kept of an answer (--answer-max)"), "{}", answer.message);
    assert_eq!(connection.simple("SELECT 1").expect_err("it has ended").kind, StoreErrorKind::Usage);
}
