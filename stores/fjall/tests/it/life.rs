//! A store's life as a trial goes through it.

use plimsoll_core::{
    BlockingSession, CacheSize, ColdStart, Durability, IndexMode, Kv, Outcome, SeriesKind, Store, StoreErrorKind,
    Value, ValueBuf,
};
use plimsoll_store_fjall::{FjallStore, Sizes, kind};
use plimsoll_testkit::opening::Opening;
use plimsoll_testkit::records::{FIND, INSERT, SCAN, batch, blocking, execute, kinds, layout, record};

const RECORDS: i64 = 20_000;

fn session(store: &mut dyn Store, durability: Durability) -> Box<dyn BlockingSession> {
    blocking(store, 1, durability, &kinds()[..8]).remove(0)
}

/// Inserts a record with a body of `bytes`.
fn insert(session: &mut dyn BlockingSession, code: &str, bytes: usize) {
    let (mut record, body) = (record(code, Some(1)), vec![b'n'; bytes]);
    record[4] = Value::Bytes(&body);
    let (outcome, answer) = execute(session, INSERT, &record);
    assert_eq!(outcome, Outcome::Ok, "{} {}", answer.code, answer.message);
}

fn load(session: &mut dyn BlockingSession) {
    for first in (0..RECORDS).step_by(1_000) {
        let names: Vec<String> = (first..first + 1_000).map(|n| format!("{:0150}", n * 7_919 % RECORDS)).collect();
        let (outcome, answer) = execute(session, INSERT, &batch(&names));
        assert_eq!(outcome, Outcome::Ok, "{}", answer.message);
    }
}

#[test]
fn a_lost_index_key_breaks_the_integrity_check() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = FjallStore::open(dir.path(), Sizes::default()).unwrap();
    store.create(&layout(IndexMode::Keyindex)).unwrap();
    insert(&mut *session(&mut store, Durability::AtEnd), "c", 1);
    assert!(store.check_integrity().unwrap().is_some());
    let mut kv = store.kv(Durability::AtEnd).unwrap();
    let mut index_keys = Vec::new();
    kv.scan(b"x", None, &mut |key, _| {
        index_keys.push(key.to_vec());
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(index_keys.len(), 1);
    kv.delete(&index_keys[0]).unwrap();
    let error = store.check_integrity().unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Corrupt);
    assert!(error.to_string().contains("1 records without an index key"), "{error}");
}

#[test]
fn what_it_says_of_itself_is_so() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Opening::private(kind, dir.path()).int("cache", 1 << 20).open().unwrap();
    let description = store.describe().unwrap();
    assert_eq!(description.place, "embedded");
    let names: Vec<_> = description.settings.iter().map(|setting| setting.name.as_str()).collect();
    assert_eq!(names, ["manual_journal_persist", "cache_size"]);
    store.create(&layout(IndexMode::Keyindex)).unwrap();
    let explained = store.explain(&kinds()[FIND as usize], ValueBuf::new().values()).unwrap().unwrap();
    assert!(explained.contains("index keys"), "{explained}");
    assert!(store.explain(&kinds()[SCAN as usize], ValueBuf::new().values()).unwrap().unwrap().contains("all records"));
}

#[test]
fn a_session_that_is_left_open_keeps_the_files_locked_until_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Opening::private(kind, dir.path()).open().unwrap();
    store.create(&layout(IndexMode::None)).unwrap();
    let left_open = session(&mut *store, Durability::Durable);
    let error = store.restart().unwrap_err();
    assert!(error.what.contains("open already"), "{error}");
    drop(left_open);
    store.restart().unwrap();
}

#[test]
fn it_conforms() {
    plimsoll_testkit::conformance::run(&*kind());
}

#[test]
fn what_was_never_flushed_has_a_size_too() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Opening::private(kind, dir.path()).open().unwrap();
    store.create(&layout(IndexMode::Keyindex)).unwrap();
    let mut loading = session(&mut *store, Durability::AtEnd);
    load(&mut *loading);
    drop(loading);
    let footprint = store.footprint().unwrap();
    assert!(footprint.data_bytes > 100_000 && footprint.index_bytes.unwrap() > 100_000, "{footprint:?}");
    assert!(footprint.total_bytes.unwrap() >= footprint.data_bytes);
    store.settle().unwrap();
    let ColdStart::Done { file_bytes, resident_bytes } = store.cold().unwrap() else { panic!("not cold") };
    assert!(file_bytes > 100_000 && resident_bytes < file_bytes / 10, "{resident_bytes} of {file_bytes}");
    store.close().unwrap();
}

#[test]
fn a_memtable_that_is_full_is_flushed_and_counted_as_a_cycle() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Opening::private(kind, dir.path()).int("memtable", 1 << 20).open().unwrap();
    store.create(&layout(IndexMode::None)).unwrap();
    let flushes = |store: &mut dyn Store| {
        let counters = plimsoll_testkit::ask::counters(store);
        let mut cycles = counters.iter().filter(|counter| counter.kind() == SeriesKind::Cycle);
        let flushes = cycles.next().unwrap();
        assert!(flushes.name == "flushes" && cycles.next().is_none(), "{counters:?}");
        flushes.number()
    };
    let before = flushes(&mut *store);
    let mut writing = session(&mut *store, Durability::AtEnd);
    assert_eq!(store.cycle().unwrap(), None, "nothing was written");
    let write = |session: &mut dyn BlockingSession, from: u32, count: u32| {
        (from..from + count).for_each(|n| insert(session, &format!("{n:06}"), 10_000));
    };
    write(&mut *writing, 0, 50);
    let early = store.cycle().unwrap().expect("half a memtable tells");
    assert!(early.by_work && early.words.contains("max_memtable_size is 1024 KiB"), "{early:?}");
    assert_eq!(flushes(&mut *store), before, "half a memtable is not flushed");
    write(&mut *writing, 50, 350);
    // Four megabytes: flushed by threads of fjall's own.
    let until = std::time::Instant::now() + std::time::Duration::from_secs(100);
    // On a busy machine they come late and take several memtables at once.
    while flushes(&mut *store) < before + 1.0 {
        assert!(std::time::Instant::now() < until, "{} flushes", flushes(&mut *store) - before);
        std::thread::yield_now();
    }
    let began = std::time::Instant::now();
    let later = store.cycle().unwrap().unwrap();
    assert!(later.seconds > 0.0 && later.seconds < 100.0, "{later:?} {:?}", began.elapsed());
    drop(writing);
    let counted = flushes(&mut *store);
    store.restart().unwrap();
    assert!(flushes(&mut *store) >= counted, "it is counted on after a restart");
    assert_eq!(store.cycle().unwrap(), None, "no session since then");
    let settings = store.describe().unwrap().settings;
    assert!(settings.iter().any(|setting| setting.name == "max_memtable_size" && setting.value == "1048576"));
    store.close().unwrap();
}

#[test]
fn it_tells_the_size_of_its_cache() {
    for (given, bytes) in [(None, 32 << 20), (Some(5 << 20), 5 << 20)] {
        let dir = tempfile::tempdir().unwrap();
        let opening = Opening::private(kind, dir.path());
        let opening = given.into_iter().fold(opening, |opening, bytes| opening.int("cache", bytes));
        let mut store = opening.open().unwrap();
        assert_eq!(store.cache_bytes().unwrap(), Some(CacheSize::Own { setting: "cache", bytes }));
        store.close().unwrap();
    }
}

/// The directory of tables goes while the database runs, as when a disk turns read-only: what is written can be no table.
#[test]
fn where_nothing_can_be_flushed_whoever_waits_for_it_is_told_at_once() {
    for settle in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let mut store = FjallStore::open(dir.path(), Sizes::default()).unwrap();
        store.create(&layout(IndexMode::Keyindex)).unwrap();
        load(&mut *session(&mut store, Durability::Buffered));
        let mut moved = 0;
        let mut look = vec![dir.path().to_owned()];
        while let Some(directory) = look.pop() {
            for entry in std::fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.ends_with("tables") {
                    std::fs::rename(&path, path.with_file_name("elsewhere")).unwrap();
                    moved += 1;
                } else if path.is_dir() {
                    look.push(path);
                }
            }
        }
        assert!(moved >= 2, "records and index");
        let started = std::time::Instant::now();
        let error = if settle { store.settle().unwrap_err() } else { store.footprint().map(drop).unwrap_err() };
        assert_eq!(error.kind, StoreErrorKind::Broken, "{error}");
        assert!(error.what.contains("could not write its tables"), "{error}");
        store.close().unwrap();
        assert!(started.elapsed() < std::time::Duration::from_secs(200), "{:?}", started.elapsed());
    }
}
