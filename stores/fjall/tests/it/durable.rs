//! Durable commits: every session's own, one sync for those that wait.

use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_core::{Durability, Kv, Store, WriteBatch};
use plimsoll_store_fjall::{FjallStore, Sizes};

const SESSIONS: u64 = 8;
const COMMITS: u64 = 60;

#[test]
fn eight_sessions_commit_all_that_they_were_told_and_it_survives_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = FjallStore::open(dir.path(), Sizes::default()).unwrap();
    let acknowledged = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for session in 0..SESSIONS {
            let (mut kv, acknowledged) = (store.kv(Durability::Durable).unwrap(), &acknowledged);
            scope.spawn(move || {
                let mut batch = WriteBatch::new();
                for commit in 0..COMMITS {
                    batch.clear();
                    batch.put(&key(b'r', session, commit), &commit.to_be_bytes());
                    batch.put(&key(b'x', session, commit), b"");
                    if commit > 0 {
                        batch.delete(&key(b'x', session, commit - 1));
                    }
                    kv.write(&batch).unwrap();
                    // Visible to its own session as soon as it is acknowledged.
                    let mut value = Vec::new();
                    assert!(kv.get(&key(b'r', session, commit), &mut value).unwrap());
                    assert!(!kv.get(&key(b'x', session, commit.wrapping_sub(1)), &mut value).unwrap());
                    acknowledged.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(acknowledged.into_inner(), SESSIONS * COMMITS);
    store.disconnect().and_then(|()| store.reconnect()).unwrap();
    let mut kv = store.kv(Durability::Durable).unwrap();
    for session in 0..SESSIONS {
        for commit in 0..COMMITS {
            let mut value = Vec::new();
            assert!(kv.get(&key(b'r', session, commit), &mut value).unwrap());
            assert_eq!(value, commit.to_be_bytes());
            assert_eq!(kv.get(&key(b'x', session, commit), &mut value).unwrap(), commit == COMMITS - 1);
        }
    }
}

fn key(role: u8, session: u64, commit: u64) -> Vec<u8> {
    [&[role][..], &session.to_be_bytes(), &commit.to_be_bytes()].concat()
}

/// Looks at a copy of the files made when an acknowledgement comes, without anything that only this process knows.
#[test]
fn what_is_acknowledged_stands_in_the_files() {
    for (durability, expected) in
        [(Durability::Durable, true), (Durability::Buffered, true), (Durability::AtEnd, false)]
    {
        let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut store = FjallStore::open(dir.path(), Sizes::default()).unwrap();
        let mut kv = store.kv(durability).unwrap();
        kv.put(b"rkey", b"value").unwrap();
        copy_files(&dir.path().join("fjall"), &copy.path().join("fjall"));
        let there = FjallStore::open(copy.path(), Sizes::default()).unwrap();
        let found = there.kv(durability).unwrap().get(b"rkey", &mut Vec::new()).unwrap();
        assert_eq!(found, expected, "{durability:?}");
        // The one sync of `at-end` makes up for it.
        drop(there);
        store.sync().unwrap();
        let copy = tempfile::tempdir().unwrap();
        copy_files(&dir.path().join("fjall"), &copy.path().join("fjall"));
        let there = FjallStore::open(copy.path(), Sizes::default()).unwrap();
        assert!(there.kv(durability).unwrap().get(b"rkey", &mut Vec::new()).unwrap());
    }
}

fn copy_files(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_files(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}
