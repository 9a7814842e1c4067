//! Data that a private server keeps under each durability.

use std::path::Path;

use plimsoll_core::{ColdStart, Durability, Layout, Outcome, Value};
use plimsoll_lab::{OpenStore, page_cache};
use plimsoll_store_redis::kind;
use plimsoll_testkit::ask::{Script, ask};
use plimsoll_testkit::opening::Opening;
use plimsoll_testkit::private::base;

use crate::fixture::{GET, PUT, kinds};

fn store(base: &Path) -> OpenStore {
    let mut store = Opening::private(kind, base).open().unwrap();
    store.create(&Layout::default()).unwrap();
    store
}

#[test]
fn what_was_written_without_a_file_is_there_after_the_sync_and_a_restart() {
    let base = base();
    let mut store = store(base.path());
    let mut script = Script::new();
    for n in 0..200u32 {
        script.op(PUT, [Value::Bytes(&n.to_be_bytes()), Value::Bytes(&[b'v'; 500])]);
    }
    ask(&mut *store, &kinds(), Durability::AtEnd, &script).unwrap();
    // The server writes it compressed.
    let files = || page_cache::resident(base.path()).unwrap().file_bytes;
    let before = files();
    store.sync().unwrap();
    assert!(files() > before + 200 * 20, "{before} bytes before the sync, {} after", files());
    ask(&mut *store, &kinds(), Durability::AtEnd, &script).unwrap();
    assert!(matches!(store.cold().unwrap(), ColdStart::Done { file_bytes, .. } if file_bytes > 4_000));
    let mut gets = Script::new();
    for n in 0..200u32 {
        gets.op(GET, [Value::Bytes(&n.to_be_bytes())]);
    }
    let replies = ask(&mut *store, &kinds(), Durability::Durable, &gets).unwrap();
    assert!(replies.iter().all(|reply| reply.outcome == Outcome::Ok));
    assert!(store.check_integrity().unwrap().is_some(), "redis-check-aof is installed with the server");
    assert_eq!(store.processes().len(), 1);
    let description = store.describe().unwrap();
    let setting = |name: &str| description.settings.iter().find(|setting| setting.name == name).unwrap();
    assert_eq!(setting("save").source, "plimsoll");
    assert!(setting("appendfsync").value.contains("always for durable"));
    store.close().unwrap();
    assert!(std::fs::read_dir(base.path().join("data")).unwrap().next().is_none(), "nothing is left");
}

#[test]
fn a_damaged_file_is_told() {
    let base = base();
    let mut store = store(base.path());
    let mut script = Script::new();
    script.op(PUT, [Value::Bytes(b"k"), Value::Bytes(&[b'v'; 500])]);
    ask(&mut *store, &kinds(), Durability::Durable, &script).unwrap();
    assert!(store.check_integrity().unwrap().is_some());
    let parts = find(base.path(), ".incr.aof");
    let mut bytes = std::fs::read(&parts[0]).unwrap();
    let at = bytes.windows(3).rposition(|window| window == b"SET").unwrap();
    bytes[at - 3] = b'x';
    std::fs::write(&parts[0], bytes).unwrap();
    let error = store.check_integrity().unwrap_err();
    assert_eq!(error.kind, plimsoll_core::StoreErrorKind::Corrupt, "{error}");
    store.close().unwrap();
}

/// Files below `dir` whose names end so.
fn find(dir: &Path, end: &str) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(find(&path, end));
        } else if path.to_string_lossy().ends_with(end) {
            found.push(path);
        }
    }
    found
}
