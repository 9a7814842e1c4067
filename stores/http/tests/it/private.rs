//! A server of our own.

use std::path::PathBuf;

use plimsoll_core::{Durability, Layout, Outcome, Value};
use plimsoll_store_http::kind;
use plimsoll_store_http::server::{INDEX_BYTES, SIZES_BYTES};
use plimsoll_testkit::ask::{Script, ask};
use plimsoll_testkit::opening::Opening;
use plimsoll_testkit::private::base;

use crate::fixture::{GET, kept, kinds};

#[test]
fn it_serves_its_files_and_is_gone_afterwards() {
    let base = base();
    let mut store = Opening::private(kind, base.path()).int("worker_connections", 4096).open().unwrap();
    store.create(&Layout::default()).unwrap();
    let pid = store.processes()[0];
    assert!(listens_on_no_port(pid), "it listens on the network");
    let mut script = Script::new();
    script.op(GET, [Value::Text("/")]);
    for size in SIZES_BYTES {
        script.op(GET, [Value::Text(&format!("/bytes/{size}"))]);
    }
    let replies = ask(&mut *store, &kinds(), Durability::AtEnd, &script).unwrap();
    for (reply, size) in replies.iter().zip([INDEX_BYTES].into_iter().chain(SIZES_BYTES)) {
        assert_eq!((reply.outcome, kept(&reply.answer).map(|(_, body)| body.len())), (Outcome::Ok, Some(size)));
    }
    store.close().unwrap();
    assert!(!PathBuf::from(format!("/proc/{pid}")).exists());
    assert!(std::fs::read_dir(base.path().join("data")).unwrap().next().is_none(), "nothing is left");
}

/// Returns true if no socket of a process listens in `/proc/net/tcp` or `tcp6`.
fn listens_on_no_port(pid: u32) -> bool {
    let links = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let inodes: Vec<String> = links
        .filter_map(|entry| Some(std::fs::read_link(entry.path()).ok()?.to_string_lossy().into_owned()))
        .filter_map(|link| Some(link.strip_prefix("socket:[")?.trim_end_matches(']').to_owned()))
        .collect();
    assert!(!inodes.is_empty(), "it has its Unix socket at least");
    ["tcp", "tcp6"].iter().all(|name| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/net/{name}")).unwrap_or_default();
        text.lines()
            .skip(1)
            .all(|line| line.split_ascii_whitespace().nth(9).is_none_or(|inode| !inodes.iter().any(|own| own == inode)))
    })
}
