//! Attached servers: keys made there, leftovers, and refusals.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::{
    Address, CacheSize, Durability, Layout, OpenOptions, Outcome, Probe, Reading, SeriesKind, Store, StoreErrorKind,
    Target, Value, Waits, read_probes,
};
use plimsoll_store_redis::{Node, kind};
use plimsoll_testkit::advice::{command, follow, of_error};
use plimsoll_testkit::ask::{Script, ask, counters};
use plimsoll_testkit::opening::Opening;
use plimsoll_testkit::params::defaults;
use plimsoll_testkit::proxy::in_turn;

use crate::cluster::until;
use crate::fixture::{DELETE, GET, PUT, Server, TIMEOUT, kinds, open};

#[test]
fn what_is_made_goes_and_what_was_there_stays() {
    let server = Server::start(&[]);
    server.ask(&["SET", "own", "kept"]);
    server.ask(&["SET", "plimsoll:test_10:key", "of another run"]);
    for params in [&[("protocol", "2")][..], &[("protocol", "3")]] {
        let mut store = server.open(params, None).unwrap();
        store.create(&Layout::default()).unwrap();
        let keys: Vec<String> = (0..3_000).map(|n| format!("key{n}")).collect();
        let mut script = Script::new();
        script.op(GET, [Value::Bytes(b"own")]);
        for key in &keys {
            script.op(PUT, [Value::Bytes(key.as_bytes()), Value::Bytes(b"value")]);
        }
        script.op(GET, [Value::Bytes(b"key7")]).op(DELETE, [Value::Bytes(b"key7")]).op(DELETE, [Value::Bytes(b"key7")]);
        let replies = ask(&mut *store, &kinds(), Durability::AtEnd, &script).unwrap();
        let outcomes: Vec<Outcome> = replies.iter().map(|reply| reply.outcome).collect();
        assert_eq!(outcomes[0], Outcome::NotFound, "another's key has the same name, but is not ours");
        assert!(outcomes[1..3_003].iter().all(|outcome| *outcome == Outcome::Ok));
        assert_eq!(outcomes[3_003], Outcome::NotFound);
        assert_eq!(replies[3_001].answer.values.values().get(0), Value::Bytes(b"value"));
        assert_eq!(server.ask(&["DBSIZE"]), Node::Int(2 + 2_999 + 1));
        assert_eq!(server.ask(&["SMEMBERS", "plimsoll:runs"]).list().len(), 1);
        // The value of `key7` apart, sizes are without the data that was there before.
        assert!(store.footprint().unwrap().data_bytes > 3_000 * 50);
        store.close().unwrap();
        assert_eq!(server.ask(&["DBSIZE"]), Node::Int(2));
        assert_eq!(server.ask(&["GET", "own"]).text(), "kept");
    }
}

/// Puts a value under one key, again and again.
fn put(store: &mut dyn Store, times: usize, value: &[u8]) {
    let mut script = Script::new();
    for _ in 0..times {
        script.op(PUT, [Value::Bytes(b"k"), Value::Bytes(value)]);
    }
    ask(store, &kinds(), Durability::AtEnd, &script).unwrap();
}

#[test]
fn a_store_that_is_dropped_leaves_nothing_either() {
    let server = Server::start(&[]);
    let mut store = server.made();
    put(&mut *store, 1, b"v");
    drop(store);
    assert_eq!(server.ask(&["DBSIZE"]), Node::Int(0));
}

#[test]
fn keys_are_made_behind_a_proxy_with_one_server_only() {
    let (one, other) = (Server::start(&[]), Server::start(&[]));
    let sockets = [&one, &other].map(|server| Address::Unix(server.socket()));
    let [alone, both] = [in_turn(sockets[..1].to_vec()), in_turn(sockets)];
    let at = |port: u16| open(&format!("redis://127.0.0.1:{port}"), &[], None).unwrap();
    at(alone).create(&Layout::default()).unwrap();
    let error = at(both).create(&Layout::default()).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Usage, "{error:?}");
    assert!(error.what.contains("leads to several servers") && error.next.is_some(), "{error:?}");
    // What makes no keys may go to all of them.
    at(both).create(&Layout { names_keys: true, ..Layout::default() }).unwrap();
    assert_eq!([one, other].map(|server| server.ask(&["DBSIZE"])), [Node::Int(0), Node::Int(0)]);
}

/// A socket at `path` that leads to `server`, and replaces the last cursor of every SCAN by the next of `cursors`.
fn endless(path: &Path, server: &Server, cursors: &'static [u8]) {
    const LAST: &[u8] = b"*2\r\n$1\r\n0\r\n";
    let (listener, socket) = (UnixListener::bind(path).unwrap(), server.socket());
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let server = UnixStream::connect(&socket).unwrap();
            let (mut asked, mut asks) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut asked, &mut asks));
            let (mut server, mut client) = (server, client);
            std::thread::spawn(move || {
                let (mut bytes, mut next) = ([0; 1 << 16], cursors.iter().cycle());
                while let Ok(n @ 1..) = server.read(&mut bytes) {
                    if bytes[..n].starts_with(LAST) {
                        bytes[LAST.len() - 3] = *next.next().unwrap();
                    }
                    if client.write_all(&bytes[..n]).is_err() {
                        break;
                    }
                }
            });
        }
    });
}

#[test]
fn a_search_for_keys_that_never_ends_is_given_up() {
    let server = Server::start(&[]);
    let dir = tempfile::tempdir().unwrap();
    for (name, cursors, words, limit) in [
        ("same", &b"7"[..], "the cursor that it was given", TIMEOUT),
        ("others", b"789", "has not ended after 1 s", Duration::from_secs(1)),
    ] {
        let path = dir.path().join(name);
        endless(&path, &server, cursors);
        let target = Target::Attach { url: format!("redis+unix://{}", path.display()), password: None };
        let waits = Waits::new(TIMEOUT, limit, Arc::default());
        let params = defaults(kind().spec().params);
        let options = OpenOptions { target, params, run_id: format!("endless_{name}"), waits };
        let mut store = kind().open(options, &mut |_| {}).unwrap();
        let error = store.create(&Layout::default()).and_then(|()| store.close()).unwrap_err();
        assert!(error.to_string().contains(words), "{error:?}");
    }
}

#[test]
fn a_run_that_was_killed_is_named() {
    let server = Server::start(&["--requirepass", "s3cret"]);
    server.ask(&["SADD", "plimsoll:runs", "gone_1"]);
    for key in ["own", "plimsoll:gone_2:a", "plimsoll:gone_1:a b", "plimsoll:gone_1:'\"\\", "plimsoll:gone_1:*"] {
        server.ask(&["SET", key, "1"]);
    }
    let said = notes(&server, Some("s3cret"));
    assert!(said[0].starts_with("key prefix plimsoll:gone_1: of another run is still there; if that run has ended, "));
    assert!(!said[0].contains("s3cret"), "{said:?}");
    let command = follow(&said, &[("REDISCLI_AUTH", "s3cret")]);
    assert!(command.matches(&server.socket().display().to_string()).count() == 3, "{command}");
    assert_eq!(server.ask(&["DBSIZE"]), Node::Int(2), "the keys of others stay");
    assert_eq!(notes(&server, Some("s3cret")), [""; 0]);
}

/// Returns the notes of a run that attaches.
fn notes(server: &Server, password: Option<&str>) -> Vec<String> {
    Opening::attached(kind, &server.url(), password).run("new").messages()
}

#[test]
fn a_name_that_is_none_of_a_run_gets_no_command() {
    let server = Server::start(&[]);
    for name in ["", "*", "gone 1", "\u{1b}[2J"] {
        server.ask(&["SADD", "plimsoll:runs", name]);
    }
    let said = notes(&server, None);
    assert!(said.len() == 4 && said.iter().all(|note| command(note).is_none()), "{said:?}");
}

#[test]
fn what_cannot_be_removed_is_named_with_the_command_for_its_server() {
    let mut server = Server::start(&[]);
    let store = server.made();
    server.kill();
    let error = store.close().unwrap_err();
    assert!(error.what.starts_with("key prefix plimsoll:test_1: at redis+unix://"), "{error:?}");
    let advised = of_error(&error);
    assert!(advised.starts_with(&format!("redis-cli -s {} --scan", server.socket().display())), "{advised}");
    assert!(advised.contains("--pattern 'plimsoll:test_1:*'"), "{advised}");
}

#[test]
fn durabilities_that_the_server_does_not_keep_are_refused() {
    let refused = |arguments: &[&str], durability| {
        let server = Server::start(arguments);
        let mut store = server.made();
        assert!(store.sessions(1, Durability::AtEnd).is_ok());
        let error = store.sessions(1, durability).err()?;
        assert_eq!(error.kind, StoreErrorKind::Usage);
        assert!(error.next.as_deref().is_some_and(|next| next.contains("as-configured")), "{error:?}");
        error.detail
    };
    let on = |fsync: &'static str| vec!["--appendonly", "yes", "--appendfsync", fsync];
    use Durability::{Buffered, Durable};
    assert!(refused(&[], Buffered).unwrap().contains("appendonly no"));
    assert!(refused(&on("everysec"), Buffered).unwrap().contains("two seconds"));
    assert!(refused(&on("no"), Durable).unwrap().contains("appendfsync no"));
    let mut rewriting = on("always");
    rewriting.extend(["--no-appendfsync-on-rewrite", "yes"]);
    assert!(refused(&rewriting, Durable).unwrap().contains("no-appendfsync-on-rewrite"));
    assert_eq!(refused(&on("always"), Durable), None);
    assert_eq!(refused(&on("no"), Buffered), None);
}

#[test]
fn what_the_settings_promise_is_said_in_a_sentence() {
    for (arguments, words) in [
        (&[][..], "in memory only"),
        (&["--save", "60 1"], "saves snapshots (save 60 1)"),
        (&["--appendonly", "yes"], "syncs its log every second"),
        (&["--appendonly", "yes", "--appendfsync", "no"], "never syncs it"),
        (&["--appendonly", "yes", "--appendfsync", "always"], "survives power loss"),
        (
            &["--appendonly", "yes", "--appendfsync", "always", "--no-appendfsync-on-rewrite", "yes"],
            "not while it rewrites that",
        ),
    ] {
        let server = Server::start(arguments);
        let mut store = server.open(&[], None).unwrap();
        let promise = store.promise().unwrap();
        assert!(promise.contains(words) && promise.ends_with('.'), "{promise}");
        assert!(store.sessions(1, Durability::AsConfigured).is_ok());
    }
    let server = Server::start(&[]);
    server.ask(&["ACL", "SETUSER", "default", "-config|get"]);
    let promise = server.open(&[], None).unwrap().promise().unwrap();
    assert!(promise.contains("may not be asked for its settings"), "{promise}");
}

#[test]
fn a_sync_writes_everything_out_whether_there_is_a_file_or_not() {
    let said = |server: &Server, name: &str| {
        let info = server.ask(&["INFO", "persistence"]).text();
        info.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned)).unwrap()
    };
    for (arguments, counted) in [(&["--save", "3600 1"][..], "rdb_saves:"), (&["--appendonly", "yes"], "aof_rewrites:")]
    {
        let server = Server::start(arguments);
        let mut store = server.made();
        let before: u64 = said(&server, counted).trim().parse().unwrap();
        store.sync().unwrap();
        assert_eq!(said(&server, counted).trim().parse(), Ok(before + 1), "{counted}");
        let cycles = counters(&mut *store);
        let cycle = cycles.iter().find(|counter| counted.starts_with(&counter.name)).unwrap();
        assert_eq!((cycle.number() as u64, cycle.kind()), (before + 1, SeriesKind::Cycle));
    }
}

/// The value of the one counter of cycles, which has this name.
fn cycles(store: &mut dyn Store, name: &str) -> f64 {
    let counters = counters(store);
    let all: Vec<_> = counters.iter().filter(|counter| counter.kind() == SeriesKind::Cycle).collect();
    assert!(all.len() == 1 && all[0].name == name, "{all:?}");
    all[0].number()
}

#[test]
fn a_snapshot_that_the_server_saves_by_itself_is_its_cycle() {
    let server = Server::start(&["--save", "3600 1 1 200"]);
    let mut store = server.made();
    assert_eq!(store.cycle().unwrap(), None, "no session has been opened");
    put(&mut *store, 300, b"value");
    let before = cycles(&mut *store, "rdb_saves");
    // The first of them may be saved already.
    put(&mut *store, 300, b"value");
    let cycle = store.cycle().unwrap().unwrap();
    assert!(cycle.seconds > 0.0 && cycle.seconds < 3_000.0, "{cycle:?}");
    assert!(cycle.words.starts_with("save is `3600 1 1 200`: "), "{}", cycle.words);
    until("a save", || cycles(&mut *store, "rdb_saves") > before);
    store.close().unwrap();
}

#[test]
fn a_rewrite_that_the_server_begins_by_itself_is_its_cycle() {
    let server = Server::start(&["--appendonly", "yes", "--auto-aof-rewrite-min-size", "1mb"]);
    let mut store = server.made();
    let body = [b'v'; 10_000];
    put(&mut *store, 30, &body);
    let before = cycles(&mut *store, "aof_rewrites");
    // While a sync of its file goes on, the server waits up to 2 s before it writes there.
    until("growth of the file", || store.cycle().unwrap().is_some());
    let cycle = store.cycle().unwrap().unwrap();
    assert!(cycle.by_work && cycle.seconds > 0.0, "{cycle:?}");
    assert!(cycle.words.starts_with("The append-only file is rewritten when it has 1 MiB"), "{}", cycle.words);
    put(&mut *store, 200, &body);
    until("a rewrite", || cycles(&mut *store, "aof_rewrites") > before);
    store.close().unwrap();
}

/// The longest removal of expired keys among these counters; `None` if latency events are not read.
fn longest_expiry(probes: &mut [Probe]) -> Option<f64> {
    let counters = read_probes(probes).unwrap();
    counters.iter().find(|counter| counter.name == "longest_expiry").map(Reading::number)
}

#[test]
fn latency_events_are_read_if_the_server_watches_them_and_the_user_may() {
    let server = Server::start(&["--latency-monitor-threshold", "1"]);
    let mut store = server.open(&[], None).unwrap();
    let mut probes = store.probes();
    assert_eq!(longest_expiry(&mut probes), Some(0.0));
    // Keys that expire all at once keep the server busy.
    server.ask(&["EVAL", "for i = 1, 200000 do redis.call('SET', 'k' .. i, 'v', 'PX', 50) end", "0"]);
    until("a removal of expired keys", || longest_expiry(&mut probes).is_some_and(|seconds| seconds >= 0.001));
    server.ask(&["ACL", "SETUSER", "default", "-latency|latest"]);
    assert_eq!(longest_expiry(&mut store.probes()), None);
    let server = Server::start(&[]);
    let mut store = server.open(&[], None).unwrap();
    assert_eq!(longest_expiry(&mut store.probes()), None);
    assert_eq!(server.ask(&["CONFIG", "GET", "latency-monitor-threshold"]).list()[1].text(), "0", "the setting stays");
    server.ask(&["ACL", "SETUSER", "default", "-config|get"]);
    assert_eq!(longest_expiry(&mut store.probes()), None);
}

#[test]
fn a_server_that_keeps_nothing_has_no_cycle() {
    let server = Server::start(&[]);
    let mut store = server.made();
    put(&mut *store, 1, b"v");
    assert!(counters(&mut *store).iter().all(|counter| counter.kind() != SeriesKind::Cycle));
    assert_eq!(store.cycle().unwrap(), None);
    store.close().unwrap();
}

#[test]
fn memory_is_all_there_is_and_its_limit_is_told() {
    for (arguments, limit_bytes) in [(&[][..], None), (&["--maxmemory", "100mb"], Some(100 << 20))] {
        let server = Server::start(arguments);
        let mut store = server.open(&[], None).unwrap();
        let told = store.cache_bytes().unwrap();
        assert_eq!(told, Some(CacheSize::InMemory { setting: "maxmemory", limit_bytes }));
    }
}
