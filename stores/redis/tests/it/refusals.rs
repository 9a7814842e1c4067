//! Refused logins and commands.

use std::sync::{Arc, Mutex};

use plimsoll_core::{Durability, Layout, Outcome, Password, StoreError, StoreErrorKind, Target, Value};
use plimsoll_drive::{Clock, Drive, DriveSpec, Limit};
use plimsoll_store_redis::kind;
use plimsoll_testkit::ask::{Reply, Script, ask};
use plimsoll_testkit::opening::Opening;
use plimsoll_testkit::process::free_port;

use crate::cluster::until;
use crate::fixture::{GET, PUT, Server, kinds, open};

fn refused(server: &Server, url: &str, password: Option<&str>) -> StoreError {
    let url = url.replace("redis+unix://", &format!("redis+unix://{}", server.socket().display()));
    let error = open(&url, &[], password).err().expect("it lets nobody in");
    assert!(error.next.is_some(), "{error:?}");
    assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    error
}

#[test]
fn nobody_gets_in_without_the_right_password() {
    let server = Server::start(&["--requirepass", "hunter2"]);
    server.ask(&["ACL", "SETUSER", "ada", "on", ">lovelace", "~*", "+@all"]);
    assert_eq!(refused(&server, "redis+unix://", None).kind, StoreErrorKind::Authentication);
    assert_eq!(refused(&server, "redis+unix://", Some("hunter3")).kind, StoreErrorKind::Authentication);
    let with_user = |user: &str| server.url().replace("redis+unix://", &format!("redis+unix://{user}@"));
    let mut store = server.open(&[], Some("hunter2")).unwrap();
    store.create(&Layout::default()).unwrap();
    let mut script = Script::new();
    script.op(PUT, [Value::Bytes(b"k"), Value::Bytes(b"v")]);
    assert_eq!(ask(&mut *store, &kinds(), Durability::AtEnd, &script).unwrap()[0].outcome, Outcome::Ok);
    assert_eq!(open(&with_user("ada"), &[], Some("hunter2")).err().unwrap().kind, StoreErrorKind::Authentication);
    let mut store = open(&with_user("ada"), &[("protocol", "3")], Some("lovelace")).unwrap();
    store.create(&Layout::default()).unwrap();
    assert_eq!(ask(&mut *store, &kinds(), Durability::AtEnd, &script).unwrap()[0].outcome, Outcome::Ok);
}

#[test]
fn a_password_that_is_rotated_is_that_of_new_connections() {
    let server = Server::start(&["--requirepass", "hunter2"]);
    let newest = Arc::new(Mutex::new("hunter2".to_owned()));
    let source = Arc::clone(&newest);
    let password = Password::renewed("hunter2".to_owned(), move || source.lock().ok().map(|text| text.clone()));
    let mut opening = Opening::attached(kind, &server.url(), None).run("test-1");
    opening.options.target = Target::Attach { url: server.url(), password: Some(password) };
    let mut store = opening.open().unwrap();
    store.create(&Layout::default()).unwrap();
    server.ask(&["CONFIG", "SET", "requirepass", "hunter3"]);
    "hunter3".clone_into(&mut newest.lock().unwrap());
    let mut script = Script::new();
    script.op(PUT, [Value::Bytes(b"k"), Value::Bytes(b"v")]);
    assert_eq!(ask(&mut *store, &kinds(), Durability::AtEnd, &script).unwrap()[0].outcome, Outcome::Ok);
}

#[test]
fn a_session_that_is_not_let_in_says_so_too() {
    let server = Server::start(&[]);
    let mut store = server.made();
    let sessions = store.sessions(1, Durability::AtEnd).unwrap();
    server.ask(&["CONFIG", "SET", "requirepass", "hunter2"]);
    let drive = Drive {
        clock: &Clock::start(),
        spec: &DriveSpec { limit: Limit::Exhausted, ..DriveSpec::default() },
        sessions,
        kinds: &kinds(),
        stream: std::sync::Arc::new(Script::new()),
        observers: Vec::new(),
        stop: Default::default(),
    };
    let error = drive.run(&mut |_| {}).expect_err("it is not let in");
    assert!(error.to_string().contains("asks for a password"), "{error}");
}

#[test]
fn nobody_there_and_no_such_database_are_told_apart() {
    let server = Server::start(&["--databases", "4"]);
    assert_eq!(refused(&server, "redis+unix://?db=4", None).kind, StoreErrorKind::Usage);
    assert!(open(&format!("{}?db=3", server.url()), &[], None).is_ok());
    let nobody = open("redis+unix:///nonexistent/socket", &[], None).err().unwrap();
    assert_eq!(nobody.kind, StoreErrorKind::Unreachable);
}

#[test]
fn a_server_that_begins_nothing_for_now_is_unreachable() {
    // No server listens at the port of its master.
    let replica = Server::start(&["--replicaof", "127.0.0.1", "1", "--replica-serve-stale-data", "no"]);
    let error = replica.control().command(&[b"GET", b"k"]).unwrap_err();
    assert!(error.kind == StoreErrorKind::Unreachable && error.what.contains("no link to its master"), "{error:?}");
    let busy = Server::start(&["--lua-time-limit", "20"]);
    let mut control = busy.control();
    std::thread::scope(|scope| {
        scope.spawn(|| busy.control().command(&[b"EVAL", b"while true do end", b"0"]));
        until("a script that takes long", || control.command(&[b"INFO"]).is_err());
        let [own, other] = [control.command(&[b"INFO"]).err(), open(&busy.url(), &[], None).err()];
        control.command(&[b"SCRIPT", b"KILL"]).unwrap();
        let (own, other) = (own.unwrap(), other.unwrap());
        assert!(own.kind == StoreErrorKind::Unreachable && own.what.contains("runs a script"), "{own:?}");
        assert_eq!(other.kind, StoreErrorKind::Unreachable, "{other:?}");
    });
}

fn asked(server: &Server, script: &Script, before: impl FnOnce()) -> Vec<Reply> {
    let mut store = server.made();
    before();
    ask(&mut *store, &kinds(), Durability::AtEnd, script).unwrap()
}

#[test]
fn what_the_server_refuses_is_rejected_with_its_word() {
    let server = Server::start(&[]);
    let mut script = Script::new();
    script.op(GET, [Value::Bytes(b"list")]);
    let replies = asked(&server, &script, || drop(server.ask(&["LPUSH", "plimsoll:test_1:list", "a"])));
    assert_eq!((replies[0].outcome, replies[0].answer.code.as_str()), (Outcome::Rejected, "WRONGTYPE"));

    let mut script = Script::new();
    script.op(PUT, [Value::Bytes(b"k"), Value::Bytes(b"v")]).op(GET, [Value::Bytes(b"k")]);
    let replies = asked(&server, &script, || drop(server.ask(&["CONFIG", "SET", "maxmemory", "1"])));
    assert_eq!((replies[0].outcome, replies[0].answer.code.as_str()), (Outcome::Rejected, "OOM"));
    assert!(replies[0].answer.message.starts_with("OOM command not allowed"), "{}", replies[0].answer.message);
    assert_eq!(replies[1].outcome, Outcome::NotFound, "it has not happened");

    server.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    let replies = asked(&server, &script, || drop(server.ask(&["REPLICAOF", "127.0.0.1", "1"])));
    assert_eq!((replies[0].outcome, replies[0].answer.code.as_str()), (Outcome::Rejected, "READONLY"));
    let error = server.open(&[], None).err().unwrap();
    assert!(error.what.contains("replica") && error.next.unwrap().contains("127.0.0.1:1"));
}

#[test]
fn a_cluster_that_lacks_slots_is_refused_and_one_server_with_all_is_driven() {
    let port = free_port().to_string();
    // The bus listens on this port, and not on one that may be beyond all.
    let bus = free_port().to_string();
    let arguments = ["--port", &port, "--bind", "127.0.0.1", "--cluster-enabled", "yes", "--cluster-port", &bus];
    let server = Server::start(&arguments);
    server.ask(&["CLUSTER", "ADDSLOTSRANGE", "0", "8191"]);
    let error = server.open(&[], None).err().unwrap();
    assert_eq!(error.kind, StoreErrorKind::Store);
    assert!(error.to_string().contains("8192 of 16384 slots"), "{error}");
    assert!(error.next.unwrap().contains("--cluster check"));
    server.ask(&["CLUSTER", "ADDSLOTSRANGE", "8192", "16383"]);
    let mut script = Script::new();
    script.op(PUT, [Value::Bytes(b"k"), Value::Bytes(b"v")]);
    let until = std::time::Instant::now() + crate::fixture::TIMEOUT;
    while !server.ask(&["CLUSTER", "INFO"]).text().contains("cluster_state:ok") {
        assert!(std::time::Instant::now() < until, "the cluster is not ready");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(asked(&server, &script, || ())[0].outcome, Outcome::Ok);
}
