//! The key-value interface, at every durability.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use plimsoll_core::{Durability, Kv, KvError, Store, WriteBatch};
use plimsoll_store_fjall::{FjallKv, FjallStore, Sizes};

const ALL: [Durability; 3] = [Durability::Durable, Durability::Buffered, Durability::AtEnd];

fn scan(kv: &mut FjallKv, low: &[u8], high: Option<&[u8]>, most: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    kv.scan(low, high, &mut |key, value| {
        all.push((key.to_vec(), value.to_vec()));
        if all.len() == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .unwrap();
    all
}

#[test]
fn what_is_written_is_read_in_key_order_across_both_keyspaces() {
    let dir = tempfile::tempdir().unwrap();
    let store = FjallStore::open(dir.path(), Sizes::default()).unwrap();
    for durability in ALL {
        let mut kv = store.kv(durability).unwrap();
        let mut model = BTreeMap::new();
        // Keys on both sides of those that stand in the index's keyspace, and at its edges.
        let keys: [&[u8]; 9] = [b"\0", b"r", b"r\0", b"w\xff", b"x", b"x\0", b"x\xff\xff", b"y", b"\xff"];
        for (n, key) in keys.iter().enumerate() {
            kv.put(key, &[n as u8]).unwrap();
            model.insert(key.to_vec(), vec![n as u8]);
        }
        let mut batch = WriteBatch::new();
        batch.put(b"x1", b"first");
        batch.put(b"x1", b"last wins");
        batch.delete(b"w\xff");
        batch.delete(b"not there");
        batch.put(b"a", b"");
        kv.write(&batch).unwrap();
        model.insert(b"x1".to_vec(), b"last wins".to_vec());
        model.remove(&b"w\xff"[..]);
        model.insert(b"a".to_vec(), Vec::new());
        kv.delete(b"r").unwrap();
        model.remove(&b"r"[..]);

        let mut value = b"left over".to_vec();
        for key in keys {
            assert_eq!(kv.get(key, &mut value).unwrap(), model.contains_key(key), "{key:?}");
            assert_eq!(value, model.get(key).cloned().unwrap_or_default());
        }
        let mut seen = Vec::new();
        kv.get_many(&keys, &mut |position, value| seen.push((keys[position].to_vec(), value.to_vec()))).unwrap();
        assert_eq!(seen, Vec::from_iter(model.clone().into_iter().filter(|(key, _)| keys.contains(&&key[..]))));

        let edges = keys.into_iter().chain([&b""[..], b"x\0\0", b"s"]);
        for low in edges.clone() {
            assert_eq!(scan(&mut kv, low, None, usize::MAX), range(&model, low, None));
            assert_eq!(scan(&mut kv, low, None, 2), range(&model, low, None).into_iter().take(2).collect::<Vec<_>>());
            for high in edges.clone() {
                assert_eq!(
                    scan(&mut kv, low, Some(high), usize::MAX),
                    range(&model, low, Some(high)),
                    "{low:?} {high:?}"
                );
            }
        }
        for key in model.keys() {
            kv.delete(key).unwrap();
        }
        assert!(scan(&mut kv, b"", None, usize::MAX).is_empty());
    }
}

fn range(model: &BTreeMap<Vec<u8>, Vec<u8>>, low: &[u8], high: Option<&[u8]>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let within = |key: &[u8]| low <= key && high.is_none_or(|high| key < high);
    model.clone().into_iter().filter(|(key, _)| within(key)).collect()
}

#[test]
fn keys_that_fjall_cannot_keep_are_refused_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let store = FjallStore::open(dir.path(), Sizes::default()).unwrap();
    for durability in ALL {
        let mut kv = store.kv(durability).unwrap();
        let long = vec![b'k'; 65_536];
        for key in [&b""[..], &long] {
            assert!(matches!(kv.put(key, b""), Err(KvError::Rejected(_))));
            let mut batch = WriteBatch::new();
            batch.put(b"fine", b"");
            batch.put(key, b"");
            assert!(matches!(kv.write(&batch), Err(KvError::Rejected(_))));
            assert!(!kv.get(key, &mut Vec::new()).unwrap());
        }
        assert!(!kv.get(b"fine", &mut Vec::new()).unwrap());
        kv.put(&long[1..], b"longest").unwrap();
        assert!(kv.get(&long[1..], &mut Vec::new()).unwrap());
        kv.delete(&long[1..]).unwrap();
    }
}

#[test]
fn no_reader_sees_half_of_a_batch() {
    for durability in [Durability::AtEnd, Durability::Durable] {
        let dir = tempfile::tempdir().unwrap();
        let store = FjallStore::open(dir.path(), Sizes::default()).unwrap();
        let (done, scans) = (AtomicBool::new(false), AtomicU32::new(0));
        std::thread::scope(|scope| {
            let (mut kv, done, scans) = (store.kv(durability).unwrap(), &done, &scans);
            scope.spawn(move || {
                let mut batch = WriteBatch::new();
                for round in 0..5_000u32 {
                    // Enough to read, and an end also when the reader has none to offer.
                    if round >= 200 && scans.load(Ordering::Relaxed) >= 20 {
                        break;
                    }
                    batch.clear();
                    for key in 0..50u8 {
                        // Alternately one in each keyspace.
                        batch.put(&[if key % 2 == 0 { b'r' } else { b'x' }, key], &round.to_be_bytes());
                    }
                    kv.write(&batch).unwrap();
                }
                done.store(true, Ordering::Relaxed);
            });
            let mut kv = store.kv(durability).unwrap();
            while !done.load(Ordering::Relaxed) {
                let all = scan(&mut kv, b"", None, usize::MAX);
                if all.is_empty() {
                    continue;
                }
                scans.fetch_add(1, Ordering::Relaxed);
                assert_eq!(all.len(), 50);
                assert!(all.iter().all(|(_, value)| *value == all[0].1), "values of two batches in one scan");
                // What one read has seen the next one does not take back, whichever key it reads.
                let (mut first, mut second) = (Vec::new(), Vec::new());
                assert!(kv.get(&[b'r', 0], &mut first).unwrap() && kv.get(&[b'x', 49], &mut second).unwrap());
                assert!(first <= second, "{first:?} before {second:?}");
            }
        });
        assert!(scans.into_inner() > 0, "the writer was done before the reader began");
    }
}

#[test]
fn of_several_writes_to_a_key_in_one_batch_the_last_one_wins_also_after_a_restart() {
    for durability in ALL {
        let dir = tempfile::tempdir().unwrap();
        let mut store = FjallStore::open(dir.path(), Sizes::default()).unwrap();
        let mut batch = WriteBatch::new();
        batch.put(b"ra", b"1");
        batch.delete(b"ra");
        batch.put(b"ra", b"2");
        batch.put(b"rb", b"1");
        batch.delete(b"rb");
        store.kv(durability).unwrap().write(&batch).unwrap();
        for _ in 0..2 {
            assert_eq!(scan(&mut store.kv(durability).unwrap(), b"", None, 9), [(b"ra".to_vec(), b"2".to_vec())]);
            store.disconnect().and_then(|()| store.reconnect()).unwrap();
        }
    }
}
