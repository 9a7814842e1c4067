//! Tests of the store that no other SQL store shares.

use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use plimsoll_core::sampler::WAITING_FOR;
use plimsoll_core::{
    Address, Durability, IndexMode, Outcome, Probe, SeriesKind, Sessions, Store, StoreErrorKind, Value,
};
use plimsoll_lab::{OpenStore, ServerUser};
use plimsoll_store_postgres::wire::Login;
use plimsoll_testkit::ask::until_waiting;
use plimsoll_testkit::opening::Opening;
use plimsoll_testkit::process::{ServerProcess, free_port};
use plimsoll_testkit::proxy::{Fault, Proxy, in_turn};
use plimsoll_testkit::records::{ALL, FIND, GET, INSERT, batch, blocking, execute, kinds, layout, record};
use plimsoll_testkit::sql::{data_outlives_cold_and_restart, wire};

use crate::fixture::{Server, SqlServer, TIMEOUT, Wire, login, open_login, sql, values};

/// Tables of a run of this store.
const ITEMS: &str = "plimsoll_20260102_030405_ab12.items";

fn attached(server: &Server, index: IndexMode) -> OpenStore {
    let url = server.socket_url("postgres");
    let mut store = Opening::attached(Server::DIALECT.kind, &url, None).open().expect("attached");
    store.create(&layout(index)).expect("created");
    store
}

#[test]
fn in_an_attached_server() {
    plimsoll_testkit::steps!(
        a_sync_that_fails_does_not_keep_the_schema,
        damage_is_found,
        keyindex_keeps_its_keys_in_a_table_of_bytes,
        what_a_session_gave_up_is_cancelled_and_nothing_else,
        sessions_that_wait_for_a_lock_are_counted_by_row_and_statement_of_the_holder,
        a_pooler_is_refused_before_it_is_given_anything_and_a_proxy_is_not,
        an_address_of_several_servers_is_refused_before_a_schema_is_made,
    );
}

/// A PgBouncer in transaction mode in front of the database, which it calls `shop`, and its port.
fn pooler(server: &Server) -> (ServerProcess, u16) {
    let (dir, port) = (ServerProcess::dir("/var/tmp"), free_port());
    // It does not run as root.
    let user = ServerUser::caller_or("postgres", "postgresql").expect("a user");
    let user = if user.is_switched { format!("user = {}\n", user.name) } else { String::new() };
    let config = format!(
        "[databases]\nshop = host=127.0.0.1 port={} dbname={} user=postgres\n\
         [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n{user}\
         auth_type = any\npool_mode = transaction\ndefault_pool_size = 1\n",
        server.port, server.database
    );
    let file = dir.path().join("pgbouncer.ini");
    std::fs::write(&file, config).expect("its configuration");
    let is_ready = || TcpStream::connect(("127.0.0.1", port)).is_ok();
    (ServerProcess::start(dir, Command::new("/usr/sbin/pgbouncer").arg(file), is_ready), port)
}

fn a_pooler_is_refused_before_it_is_given_anything_and_a_proxy_is_not() {
    let server = Server::start();
    let before = server.control().value(Server::DIALECT.inventory).expect("an inventory");
    let (_pooler, port) = pooler(&server);
    let at = |port: u16, database: &str| {
        let url = format!("postgres://postgres@127.0.0.1:{port}/{database}");
        Opening::attached(Server::DIALECT.kind, &url, None)
    };
    let opening = at(port, "shop");
    let capturing = (Server::DIALECT.kind)().production(opening.options.clone());
    for refused in [opening.open().map(drop), capturing.map(drop)] {
        let error = refused.expect_err("others share its connection");
        assert_eq!(error.kind, StoreErrorKind::Usage, "{error:?}");
        assert!(error.what.contains("greets as process ") && error.next.is_some(), "{error:?}");
        assert!(error.what.ends_with(" answers: it looks like a pooler"), "{error:?}");
    }
    let login = Login { database: "shop".into(), ..login("postgres", None) };
    let mut other = open_login(&Address::Tcp("127.0.0.1".into(), port), login).expect("another client");
    for (setting, default) in [("search_path", "\"$user\", public"), ("default_transaction_read_only", "off")] {
        assert_eq!(other.value(&format!("SHOW {setting}")).expect("a value"), default, "{setting}");
    }
    assert_eq!(server.control().value(Server::DIALECT.inventory).expect("an inventory"), before);

    let proxy = Proxy::tcp(server.tcp(), Fault::Close, u64::MAX);
    at(proxy.port(), &server.database).open().expect("a proxy passes connections on").close().expect("closed");
}

fn an_address_of_several_servers_is_refused_before_a_schema_is_made() {
    let servers = [Server::alone(), Server::alone()];
    let inventories = || servers.each_ref().map(|one| one.control().value(Server::DIALECT.inventory).expect("a list"));
    let before = inventories();
    let at = |addresses: &[Address]| {
        let url = format!("postgres://postgres@127.0.0.1:{}/postgres", in_turn(addresses.to_vec()));
        Opening::attached(Server::DIALECT.kind, &url, None).open().expect("attached")
    };
    let addresses = servers.each_ref().map(Server::address);
    let error = at(&addresses).create(&layout(IndexMode::Own)).expect_err("two servers");
    assert_eq!(error.kind, StoreErrorKind::Usage, "{error:?}");
    assert!(error.what.ends_with(" leads to several servers, and schemas would stay on some"), "{error:?}");
    assert!(error.detail.is_some_and(|detail| detail.matches("the one that started at 20").count() == 2));
    assert_eq!(inventories(), before);
    let mut alone = at(&addresses[1..]);
    alone.create(&layout(IndexMode::Own)).expect("one server behind a proxy");
    alone.close().expect("closed");
    assert_eq!(inventories(), before);
}

/// A statement that fails inside a transaction must not leave the control plane in it.
fn a_sync_that_fails_does_not_keep_the_schema() {
    let server = Server::start();
    let mut control = server.control();
    let before = control.value(Server::DIALECT.inventory).expect("an inventory");
    let mut store = attached(&server, IndexMode::Own);
    control.simple("BEGIN; COMMENT ON SCHEMA plimsoll_20260102_030405_ab12 IS 'theirs'").expect("a lock");
    let waiting = "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
                   AND datname = current_database()";
    let asked: &mut dyn Store = &mut *store;
    let synced = std::thread::scope(|scope| {
        let syncing = scope.spawn(|| asked.sync());
        let began = Instant::now();
        while control.value(waiting).expect("cancelled") == "0" {
            assert!(began.elapsed() < TIMEOUT, "it never waited");
            std::thread::sleep(Duration::from_millis(20));
        }
        syncing.join().expect("no panic")
    });
    assert!(synced.is_err(), "it was cancelled");
    control.simple("ROLLBACK").expect("unlocked");
    store.close().expect("closed");
    assert_eq!(control.value(Server::DIALECT.inventory).expect("an inventory"), before);
}

#[test]
fn a_durability_that_cannot_be_kept_is_refused() {
    let server = Server::alone();
    let mut store = attached(&server, IndexMode::Own);
    for (durability, expected) in [(Durability::Durable, "on"), (Durability::AtEnd, "off")] {
        let mut wire = wire(&mut *store, durability, &[sql("show", "SHOW synchronous_commit", &[])]);
        assert_eq!(wire.ask(0, &[]).1.values.values().get(0), Value::Text(expected));
    }
    let buffered = store.sessions(1, Durability::Buffered).map(|_| ()).expect_err("there is none");
    assert_eq!(buffered.kind, StoreErrorKind::Usage);
    for name in ["full_page_writes", "fsync"] {
        server.set(&[("full_page_writes", "on"), (name, "off")]);
        // The store's own connection hears of it with its next statement.
        let asked = |_| {
            std::thread::sleep(Duration::from_millis(1));
            store.sessions(1, Durability::Durable).err().filter(|refused| refused.what.contains(name))
        };
        let refused = (0..10_000).find_map(asked).expect("it is refused");
        assert_eq!(refused.kind, StoreErrorKind::Usage);
        assert!(refused.what.contains(&format!("{name}=off")), "{refused}");
    }
    let settings = store.describe().expect("described").settings;
    let fsync = settings.iter().find(|setting| setting.name == "fsync").expect("it is shown");
    let shown = (fsync.value.as_str(), fsync.default.as_deref(), fsync.source.as_str());
    assert_eq!(shown, ("off", Some("on"), "configuration file"));
    assert!(settings.iter().all(|setting| Some(&setting.value) != setting.default.as_ref()), "{settings:?}");
    store.close().expect("closed");
}

#[test]
fn a_private_server_keeps_its_data_through_cold_and_restart() {
    data_outlives_cold_and_restart(&Server::DIALECT, |store| {
        let open = values(&[Value::Null, Value::Int(1)]);
        let plan = store.explain(&kinds()[FIND as usize], open.values()).expect("explained").expect("a plan");
        assert!(plan.contains("count < '1'::bigint"), "{plan}");
        let checked = store.check_integrity().expect("sound").expect("amcheck is installed");
        assert!(checked.contains("1 tables, and 2 B-trees"), "{checked}");
    });
}

fn damage_is_found() {
    let server = Server::start();
    let mut store = attached(&server, IndexMode::Own);
    let mut control = server.control();
    control.simple("CREATE EXTENSION amcheck").expect("amcheck");
    control
        .simple(&format!("INSERT INTO {ITEMS} (code, count) SELECT 'c' || n, n FROM generate_series(1, 500) n"))
        .expect("filled");
    assert!(store.check_integrity().expect("sound").is_some());
    // Rows that the index does not know of, as after a lost write.
    let index = |is_used: bool| {
        let set = format!("indisready = {is_used}, indisvalid = {is_used}");
        format!("UPDATE pg_index SET {set} WHERE indexrelid = '{ITEMS}_index_0'::regclass")
    };
    let lost = format!("INSERT INTO {ITEMS} (code, count) VALUES ('lost', 7)");
    for statement in [index(false), lost, index(true)] {
        control.simple(&statement).expect("done");
    }
    let error = store.check_integrity().expect_err("the index lacks a row");
    assert_eq!(error.kind, StoreErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains("items_index_0"), "{error}");
    store.close().expect("closed");
}

fn keyindex_keeps_its_keys_in_a_table_of_bytes() {
    let server = Server::start();
    let mut store = attached(&server, IndexMode::Keyindex);
    let kinds: Vec<_> = kinds().into_iter().take(8).collect();
    let mut sessions = blocking(&mut *store, 2, Durability::AtEnd, &kinds);
    let names: Vec<String> = (0..3_000).map(|n| format!("c{n:05}")).collect();
    let (outcome, answer) = execute(&mut *sessions[0], INSERT, &batch(&names));
    assert_eq!(outcome, Outcome::Ok, "{}", answer.message);
    let (outcome, answer) = execute(&mut *sessions[1], FIND, &[Value::Int(1_000), Value::Int(2_500)]);
    assert_eq!((outcome, answer.rows), (Outcome::Ok, 1_500), "more than a page, seen by the other session");
    assert_eq!(execute(&mut *sessions[1], ALL, &[]).1.rows, 3_000);

    let plan = store.explain(&kinds[FIND as usize], values(&[]).values()).expect("an answer").expect("words");
    assert!(plan.contains("index keys"), "{plan}");
    let footprint = store.footprint().expect("a size");
    let index_bytes = footprint.index_bytes.expect("it can tell");
    assert!((50_000..footprint.data_bytes).contains(&index_bytes), "{footprint:?}");

    // The server ends their connections: what was in flight nowhere is lost nowhere, and the next call connects. One
    // that ended only during a call would fail that.
    server
        .control()
        .simple("SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%kv%' AND pid <> pg_backend_pid()")
        .expect("ended");
    let outcomes: Vec<Outcome> = (0..3).map(|_| execute(&mut *sessions[1], GET, &[Value::Text("c00042")]).0).collect();
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
    let dir = tempfile::tempdir().expect("a directory");
    let mut store = Server::DIALECT.private(dir.path()).open().expect("a private server");
    store.create(&layout(IndexMode::None)).expect("created");
    let mut probe = store.probes().pop().expect("it counts");
    let counters = probe().expect("counters");
    let cycles = counters.iter().filter(|counter| counter.kind() == SeriesKind::Cycle);
    assert_eq!(cycles.map(|counter| counter.name.as_str()).collect::<Vec<_>>(), ["checkpoints"]);
    let cycle = store.cycle().expect("asked").expect("it has one");
    // The server's own defaults: five minutes, and nine tenths of it to write.
    assert_eq!(cycle.seconds, 570.0, "{}", cycle.words);
    assert!(cycle.words.starts_with("checkpoint_timeout is 5min: "), "{}", cycle.words);
    let (checkpoints, written) = (counter(&mut probe, "checkpoints"), counter(&mut probe, "log_written"));
    assert_eq!(counter(&mut probe, "checkpoints"), checkpoints, "nothing ends by being looked at");
    let mut wire = wire(&mut *store, Durability::Durable, &kinds());
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

fn sessions_that_wait_for_a_lock_are_counted_by_row_and_statement_of_the_holder() {
    let server = Server::start();
    let mut store = attached(&server, IndexMode::None);
    let mut probe = store.probes().pop().expect("it counts");
    assert!(probe().expect("counters").iter().all(|counter| !counter.name.starts_with(WAITING_FOR)));
    let mut holder = server.control();
    holder.simple(&format!("INSERT INTO {ITEMS} (code, count) VALUES ('a', 1)")).expect("inserted");
    let update = |count: u32| format!("UPDATE {ITEMS} SET count = {count} /* ada */ WHERE code = 'a'");
    holder.simple("BEGIN").expect("begun");
    holder.simple(&update(2)).expect("it holds the row");
    let waiter = |count: u32| {
        let (mut control, text) = (server.control(), update(count));
        std::thread::spawn(move || control.simple(&text).map(drop))
    };
    let waiters = [waiter(3), waiter(4)];
    let held = format!("held by a session that ran UPDATE {ITEMS} SET count = ? WHERE code = ?");
    let mut until = |held: &str, count: f64| {
        let name = until_waiting(&mut probe, held, count, TIMEOUT);
        assert!(name.starts_with("waiting for a row of ") && name.contains("items, held"), "{name}");
    };
    until(&held, 2.0);
    holder.simple("COMMIT").expect("released");
    for waiter in waiters {
        waiter.join().expect("it ended").expect("updated");
    }
    until(&held, 0.0);
    // A session that waits for a duplicate key has no lock on a row, only on the table.
    let insert = format!("INSERT INTO {ITEMS} (code, count) VALUES ('b', 1)");
    holder.simple("BEGIN").expect("begun");
    holder.simple(&insert).expect("it holds the key");
    let mut control = server.control();
    let waiter = std::thread::spawn(move || control.simple(&insert).map(drop));
    let held = format!("held by a session that ran INSERT INTO {ITEMS} (code, count) VALUES (?, ?)");
    until(&held, 1.0);
    holder.simple("ROLLBACK").expect("released");
    waiter.join().expect("it ended").expect("inserted");
    until(&held, 0.0);
    store.close().expect("closed");
}

#[test]
fn settings_of_a_private_server_are_the_plans() {
    let dir = tempfile::tempdir().expect("a directory");
    let with = |text: &str| Server::DIALECT.private(dir.path()).text("settings", text).open();
    let mut store = with("work_mem=8MB wal_compression = on log_line_prefix='%m, %p'").expect("started");
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
}

fn what_a_session_gave_up_is_cancelled_and_nothing_else() {
    let server = Server::start();
    let mut store = attached(&server, IndexMode::None);
    let sleep = [sql("sleep", "SELECT pg_sleep(300)", &[])];
    let Ok(Sessions::Wire(clients)) = store.sessions(2, Durability::Durable) else { panic!("wire sessions") };
    let mut wires: Vec<Wire> = clients.into_iter().map(|client| Wire::open(client, &sleep)).collect();
    let mut control = server.control();
    let asleep = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' \
                  AND query = 'SELECT pg_sleep(300)'";
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
    store.probes().pop().expect("it counts")().expect("counters");
    until("1");
    drop(given_up);
    drop(wires);
    store.close().expect("closed");
}
