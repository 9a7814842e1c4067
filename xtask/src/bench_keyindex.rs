//! What an index of keys costs an insert on fjall, and what a query through it costs as records grow.
//!
//! The records are the coupon workload's. What sessions write is taken down once, and the same bytes are then
//! written by fjall's own insert, by a key-value connection, and by sessions, which encode them and look whether
//! a key is taken.

use std::error::Error;
use std::ops::{Bound, ControlFlow};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use plimsoll_core::{
    Answer, BlockingSession, Durability, IndexMode, Kv, KvCapabilities, KvError, Op, Outcome, ParamValue, Params,
    Sessions, Store, StreamSpec, Value, ValueBuf, Workload, WriteBatch,
};
use plimsoll_keyindex::records::Records;
use plimsoll_keyindex::{Entries, IndexError, IndexSpec, Indexes, Query, keyspace};
use plimsoll_store_fjall::{FjallStore, Sizes};
use rustix::time::{ClockId, clock_gettime};

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

const RECORDS: u64 = 100_000;
const RECORDS_SYNCED: u64 = 2_000;
const COMMITS: u64 = 800;
const PAIRS: usize = 5;
const SEED: u64 = 1;
const CACHE_BYTES: u64 = 32 << 20;
const INDEXED_OVER_PLAIN: f64 = 1.5;
const PLAIN_OVER_OWN: f64 = 1.05;
const KEYS_GROWTH: f64 = 1.3;
const RECORDS_GROWTH: f64 = 3.0;

/// Prints inserts, plain and indexed, then durable commits, then queries with 500 matches.
pub fn run(_: &[String]) -> Result {
    inserts()?;
    commits()?;
    queries()
}

/// Durable commits a second of several sessions: as our store groups them, and with fjall's sync for each batch.
fn commits() -> Result {
    println!("\nDurable commits, one record of 200 bytes each, n = {PAIRS} interleaved pairs of {COMMITS}\n");
    println!("| sessions | grouped: median commits/s | least | most | a sync each | least | most | ratio |");
    println!("|---|---|---|---|---|---|---|---|");
    for sessions in [1, 8] {
        let (mut grouped, mut single) = (Vec::new(), Vec::new());
        for _ in 0..PAIRS {
            let (_dir, store) = fresh()?;
            let ours = (0..sessions).map(|_| Ok(store.kv(Durability::Durable)?)).collect::<Result<Vec<_>>>()?;
            grouped.push(commits_per_s(ours, |kv, key| kv.put(key, &[b'v'; 200]).is_ok())?);
            let dir = tempfile::tempdir()?;
            let db = fjall::Database::builder(dir.path()).cache_size(CACHE_BYTES).open()?;
            let records = db.keyspace("records", fjall::KeyspaceCreateOptions::default)?;
            single.push(commits_per_s(vec![(db, records); sessions], |(db, records), key| {
                let mut batch = db.batch().durability(Some(fjall::PersistMode::SyncData));
                batch.insert(records, key, [b'v'; 200]);
                batch.commit().is_ok()
            })?);
        }
        let ratios: Vec<f64> = grouped.iter().zip(&single).map(|(grouped, single)| grouped / single).collect();
        println!("| {sessions} | {} | {} | {:.2} |", spread(&grouped, 0), spread(&single, 0), median(&ratios));
    }
    Ok(())
}

/// Commits of all `connections` together, each by its own thread.
fn commits_per_s<C: Send>(connections: Vec<C>, commit: impl Fn(&mut C, &[u8]) -> bool + Sync) -> Result<f64> {
    let each = COMMITS / connections.len() as u64;
    let total = each * connections.len() as u64;
    let start = Instant::now();
    let all_done = std::thread::scope(|scope| {
        let commit = &commit;
        let threads: Vec<_> = connections
            .into_iter()
            .zip(0u64..)
            .map(|(mut connection, thread)| {
                scope
                    .spawn(move || (0..each).all(|n| commit(&mut connection, format!("r{thread:02}{n:08}").as_bytes())))
            })
            .collect();
        threads.into_iter().all(|thread| thread.join().unwrap_or(false))
    });
    if all_done { Ok(total as f64 / start.elapsed().as_secs_f64()) } else { Err("a commit failed".into()) }
}

/// What a load took.
#[derive(Clone, Copy)]
struct Cost {
    wall_s: f64,
    /// Of the thread that loads; fjall's own threads, and waiting for the disk, are not in it.
    cpu_s: f64,
}

/// Times `load`.
fn cost(load: impl FnOnce() -> Result) -> Result<Cost> {
    let cpu = || {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
    };
    let (start, cpu_start) = (Instant::now(), cpu());
    load()?;
    Ok(Cost { wall_s: start.elapsed().as_secs_f64(), cpu_s: cpu() - cpu_start })
}

/// One way of loading, and what it is called in the table.
struct Way<'a> {
    name: String,
    load: Box<dyn Fn() -> Result<Cost> + 'a>,
    costs: Vec<Cost>,
}

fn way<'a>(name: impl Into<String>, load: impl Fn() -> Result<Cost> + 'a) -> Way<'a> {
    Way { name: name.into(), load: Box::new(load), costs: Vec::new() }
}

fn inserts() -> Result {
    let taken = take_down(RECORDS)?;
    let bytes: usize =
        taken.iter().flat_map(WriteBatch::iter).map(|(key, value)| key.len() + value.map_or(0, <[u8]>::len)).sum();
    println!(
        "{RECORDS} records, {} bytes each with its index key; one thread; one sync at the end, inside the time",
        bytes as u64 / RECORDS
    );
    let plain: Vec<WriteBatch> = taken.iter().map(without_index).collect();
    let session = |mode, batch, records, durability| move || load_by_session(mode, batch, records, durability);
    let (at_end, durable) = (Durability::AtEnd, Durability::Durable);
    let ways = &mut [
        way("fjall's own insert, the record's bytes", || load_by_fjall(&plain)),
        way("one batch a record: the record", || load_by_kv(&plain)),
        way("one batch a record: record and index key", || load_by_kv(&taken)),
        way("session, plain", session(IndexMode::None, 1, RECORDS, at_end)),
        way("session, indexed", session(IndexMode::Keyindex, 1, RECORDS, at_end)),
        way("session, batches of 1,000, plain", session(IndexMode::None, 1_000, RECORDS, at_end)),
        way("session, batches of 1,000, indexed", session(IndexMode::Keyindex, 1_000, RECORDS, at_end)),
        way(
            format!("session, each synced, {RECORDS_SYNCED} records, plain"),
            session(IndexMode::None, 1, RECORDS_SYNCED, durable),
        ),
        way(
            format!("session, each synced, {RECORDS_SYNCED} records, indexed"),
            session(IndexMode::Keyindex, 1, RECORDS_SYNCED, durable),
        ),
    ];
    for _ in 0..PAIRS {
        for way in ways.iter_mut() {
            way.costs.push((way.load)()?);
        }
    }
    println!(
        "| insert | median s, n = {PAIRS} interleaved | least | most | CPU of the thread: median s | least | most |"
    );
    println!("|---|---|---|---|---|---|---|");
    for way in ways.iter() {
        let (wall, cpu) = (each(way, |cost| cost.wall_s), each(way, |cost| cost.cpu_s));
        println!("| {} | {} | {} |", way.name, spread(&wall, 3), spread(&cpu, 3));
    }
    println!("\n| ratio, median of {PAIRS} pairs | | least | most | of CPU time | least | most | target |");
    println!("|---|---|---|---|---|---|---|---|");
    for (name, over, under, target) in [
        ("plain over fjall's own insert", 1, 0, Some(PLAIN_OVER_OWN)),
        ("indexed over plain", 2, 1, Some(INDEXED_OVER_PLAIN)),
        ("indexed over plain, sessions", 4, 3, Some(INDEXED_OVER_PLAIN)),
        ("indexed over plain, batches of 1,000", 6, 5, None),
        ("indexed over plain, each synced", 8, 7, None),
    ] {
        let ratios = |of: fn(&Cost) -> f64| -> Vec<f64> {
            ways[over].costs.iter().zip(&ways[under].costs).map(|(over, under)| of(over) / of(under)).collect()
        };
        let target = target.map_or("–".to_owned(), |target| format!("≤ {target}"));
        let (wall, cpu) = (ratios(|cost| cost.wall_s), ratios(|cost| cost.cpu_s));
        println!("| {name} | {} | {} | {target} |", spread(&wall, 2), spread(&cpu, 2));
    }
    Ok(())
}

fn each(way: &Way<'_>, of: fn(&Cost) -> f64) -> Vec<f64> {
    way.costs.iter().map(of).collect()
}

/// Median, least and most as cells of a table.
fn spread(all: &[f64], digits: usize) -> String {
    format!("{:.digits$} | {:.digits$} | {:.digits$}", median(all), least(all), most(all))
}

fn queries() -> Result {
    println!("\nQuery with 500 matches, warm, after settle\n");
    println!(
        "| records | keys only: median µs, n = {QUERIES} | least | most | records fetched: median µs | least | most | scan of all: ms, n = 3 |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let mut medians = Vec::new();
    for records in [10_000, 100_000, 1_000_000] {
        let below = 500 * 10_000 / records;
        let workload = coupons(records, IndexMode::Keyindex);
        let (_dir, mut store) = fresh()?;
        store.create(workload.layout())?;
        load(&mut *session(&mut store, &*workload, Durability::AtEnd)?, &*workload, 1_000, records)?;
        store.sync()?;
        store.settle()?;

        let mut kv = store.kv(Durability::AtEnd)?;
        let no_records = |_: usize, _: &[u8], _: &[u8], _: &mut Entries| Err(IndexError::Corrupt("no record is read"));
        let mut indexes = Indexes::new(0, vec![IndexSpec::new(1)], no_records);
        let query = Query::on(0).range(Bound::Unbounded, Bound::Excluded(Value::Int(below as i64)));
        let keys_us = timed(QUERIES, || match indexes.count(&mut kv, &query)? {
            500 => Ok(()),
            other => Err(format!("{other} keys instead of 500").into()),
        })?;
        let mut asking = session(&mut store, &*workload, Durability::AtEnd)?;
        let fetched_us = timed(QUERIES, || ask(&mut *asking, &*workload, "query", below))?;
        let scan_us = timed(3, || ask(&mut *asking, &*workload, "scan", below))?;
        let scan_ms = median(&scan_us) / 1e3;
        println!("| {records} | {} | {} | {scan_ms:.1} |", spread(&keys_us, 0), spread(&fetched_us, 0));
        medians.push((median(&keys_us), median(&fetched_us)));
    }
    let (first, last) = (medians[0], medians[medians.len() - 1]);
    println!(
        "growth from 10,000 to 1,000,000 records: keys only {:.2} (target ≤ {KEYS_GROWTH}), records fetched {:.2} (target ≤ {RECORDS_GROWTH})",
        last.0 / first.0,
        last.1 / first.1
    );
    Ok(())
}

const QUERIES: usize = 51;

/// Microseconds of each of `n` calls, after as many that do not count.
fn timed(n: usize, mut call: impl FnMut() -> Result) -> Result<Vec<f64>> {
    let mut all = Vec::new();
    for round in 0..2 * n {
        let start = Instant::now();
        call()?;
        if round >= n {
            all.push(start.elapsed().as_secs_f64() * 1e6);
        }
    }
    Ok(all)
}

fn ask(session: &mut dyn BlockingSession, workload: &dyn Workload, kind: &str, below: u64) -> Result {
    let kind = workload.kinds().iter().position(|known| known.name == kind).ok_or("no such kind")?;
    let (mut params, mut answer) = (ValueBuf::new(), Answer::default());
    params.push(Value::Null);
    params.push(Value::Int(below as i64));
    let outcome = session.execute(&Op::new(kind as u16, params.values()), &mut answer);
    if outcome != Outcome::Ok || answer.rows != 500 {
        return Err(format!("{} records instead of 500: {}", answer.rows, answer.message).into());
    }
    Ok(())
}

fn coupons(records: u64, mode: IndexMode) -> Box<dyn Workload> {
    let params = [
        ("records", ParamValue::Int(records as i64)),
        ("index", ParamValue::Text(mode.name().into())),
        ("below", ParamValue::Int(50)),
    ];
    let params = Params(params.into_iter().map(|(name, value)| (name.to_owned(), value)).collect());
    (plimsoll_workload::coupons::spec().make)(SEED, &params, &[]).expect("coupons take these parameters")
}

fn fresh() -> Result<(tempfile::TempDir, FjallStore)> {
    let dir = tempfile::tempdir()?;
    let store = FjallStore::open(dir.path(), Sizes { cache_bytes: CACHE_BYTES, ..Sizes::default() })?;
    Ok((dir, store))
}

fn session(
    store: &mut FjallStore,
    workload: &dyn Workload,
    durability: Durability,
) -> Result<Box<dyn BlockingSession>> {
    let Sessions::Blocking(mut sessions) = store.sessions(1, durability)? else { return Err("not blocking".into()) };
    let mut session = sessions.pop().ok_or("no session")?;
    session.prepare(workload.kinds())?;
    Ok(session)
}

/// Loads the first `records` records.
fn load(session: &mut dyn BlockingSession, workload: &dyn Workload, batch: u32, records: u64) -> Result {
    let stream = workload.stream(&StreamSpec::Load { batch, clients: 1 })?;
    let (mut params, mut answer) = (ValueBuf::new(), Answer::default());
    for cycle in 0..records.div_ceil(u64::from(batch)) {
        params.clear();
        let kind = stream.op(0, cycle, &mut params).ok_or("the load ended early")?;
        answer.clear();
        match session.execute(&Op::new(kind, params.values()), &mut answer) {
            Outcome::Ok => {}
            other => return Err(format!("{}: {}", other.name(), answer.message).into()),
        }
    }
    Ok(())
}

fn load_by_session(mode: IndexMode, batch: u32, records: u64, durability: Durability) -> Result<Cost> {
    let workload = coupons(RECORDS, mode);
    let (_dir, mut store) = fresh()?;
    store.create(workload.layout())?;
    let mut session = session(&mut store, &*workload, durability)?;
    cost(|| {
        load(&mut *session, &*workload, batch, records)?;
        Ok(store.sync()?)
    })
}

fn load_by_kv(batches: &[WriteBatch]) -> Result<Cost> {
    let (_dir, mut store) = fresh()?;
    let mut kv = store.kv(Durability::AtEnd)?;
    cost(|| {
        for batch in batches {
            kv.write(batch)?;
        }
        Ok(store.sync()?)
    })
}

fn load_by_fjall(batches: &[WriteBatch]) -> Result<Cost> {
    let dir = tempfile::tempdir()?;
    let db = fjall::Database::builder(dir.path()).cache_size(CACHE_BYTES).manual_journal_persist(true).open()?;
    let options = || fjall::KeyspaceCreateOptions::default().manual_journal_persist(true);
    let records = db.keyspace("records", options)?;
    cost(|| {
        for (key, value) in batches.iter().flat_map(WriteBatch::iter) {
            records.insert(key, value.unwrap_or_default())?;
        }
        Ok(db.persist(fjall::PersistMode::SyncData)?)
    })
}

fn without_index(batch: &WriteBatch) -> WriteBatch {
    let mut plain = WriteBatch::new();
    for (key, value) in batch.iter().filter(|(key, _)| key.first() == Some(&keyspace::RECORD_ROLE)) {
        plain.put(key, value.unwrap_or_default());
    }
    plain
}

/// The batches that an indexed session writes for `records` records, one each.
fn take_down(records: u64) -> Result<Vec<WriteBatch>> {
    let workload = coupons(records, IndexMode::Keyindex);
    let notes = Arc::default();
    let mut session = Records::new(workload.layout())?.session(Notebook(Arc::clone(&notes)));
    session.prepare(workload.kinds())?;
    load(&mut session, &*workload, 1, records)?;
    Ok(std::mem::take(&mut *notes.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// An empty store that stays empty and keeps the batches that it was to write.
struct Notebook(Arc<Mutex<Vec<WriteBatch>>>);

impl Kv for Notebook {
    fn capabilities(&self) -> KvCapabilities {
        KvCapabilities { atomic_batch: true, snapshot_scan: true, key_bytes_max: usize::MAX }
    }

    fn get(&mut self, _: &[u8], _: &mut Vec<u8>) -> std::result::Result<bool, KvError> {
        Ok(false)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> std::result::Result<(), KvError> {
        let mut batch = WriteBatch::new();
        batch.put(key, value);
        self.write(&batch)
    }

    fn delete(&mut self, key: &[u8]) -> std::result::Result<(), KvError> {
        let mut batch = WriteBatch::new();
        batch.delete(key);
        self.write(&batch)
    }

    fn write(&mut self, batch: &WriteBatch) -> std::result::Result<(), KvError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(batch.clone());
        Ok(())
    }

    fn scan(
        &mut self,
        _: &[u8],
        _: Option<&[u8]>,
        _: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> std::result::Result<(), KvError> {
        Ok(())
    }
}

fn median(all: &[f64]) -> f64 {
    plimsoll_analysis::stat::median(all).unwrap_or(f64::NAN)
}

fn least(all: &[f64]) -> f64 {
    all.iter().copied().fold(f64::INFINITY, f64::min)
}

fn most(all: &[f64]) -> f64 {
    all.iter().copied().fold(0.0, f64::max)
}
