//! Cost of an index to an insert on fjall, and of a query through it as records grow.

use std::path::Path;
use std::time::Instant;

use plimsoll_core::{
    Access, Answer, BlockingSession, Call, Collection, Durability, Field, Index, IndexMode, Kv, Layout, Op, OpKind,
    Outcome, RecordsCall, Store, Value, ValueBuf, ValueType,
};
use plimsoll_keyindex::records::Records;
use plimsoll_store_fjall::{FjallStore, Sizes};
use rustix::time::{ClockId, clock_gettime};

use crate::Result;
use crate::turns::spread;

const RECORDS: u64 = 100_000;
const ROUNDS: usize = 5;
const QUERIES: usize = 51;
/// Records that a query matches.
const MATCHES: u64 = 500;
const CACHE_BYTES: u64 = 32 << 20;
/// Largest ratio of each way's processor time to the way before it.
const GOALS: [Option<f64>; 4] = [None, Some(1.05), None, Some(1.5)];
/// Largest growth of the time of a query from 10,000 to 1,000,000 records.
const GROWTH: f64 = 3.0;
const INSERT: u16 = 0;
const FIND: u16 = 1;

/// Prints inserts without and with an index, then queries with 500 matches.
pub fn run() -> Result {
    inserts()?;
    queries()
}

fn key(number: u64) -> String {
    format!("record{number:010}")
}

/// A record of 200 bytes that begins with a number, for a store without fields.
fn record(number: u64) -> Vec<u8> {
    let mut record = vec![b'x'; 200];
    record[..8].copy_from_slice(&number.to_be_bytes());
    record
}

/// Fills a record to 200 bytes beside its indexed number and its key.
const FILLING: [u8; 180] = [b'x'; 180];

/// Returns a session for records of a key, an indexed number and a filling, with and without the index.
fn session<K: Kv + Send>(kv: K, index: IndexMode) -> Result<impl BlockingSession> {
    let fields = [("key", ValueType::Text), ("number", ValueType::Int), ("filling", ValueType::Bytes)];
    let field = |(name, value_type): (&str, _)| Field { name: name.into(), value_type };
    let records = Collection {
        name: "records".into(),
        fields: fields.map(field).to_vec(),
        key: 0,
        indexes: vec![Index { fields: vec![1] }],
    };
    let layout = Layout { collections: vec![records], index, ..Layout::default() };
    let kind = |name: &str, call| OpKind::new(name, Call::Records { collection: 0, call }, &[]);
    let find = RecordsCall::Find { field: 1, access: Access::Indexed };
    let mut session = Records::new(&layout)?.session(kv);
    session.prepare(&[kind("insert", RecordsCall::Insert), kind("find", find)])?;
    Ok(session)
}

/// Runs an operation; returns the number of rows in its answer.
fn execute(session: &mut impl BlockingSession, kind: u16, params: &mut ValueBuf, values: &[Value<'_>]) -> Result<u64> {
    params.clear();
    values.iter().for_each(|value| params.push(*value));
    let mut answer = Answer::default();
    match session.execute(&Op::new(kind, params.values()), &mut answer) {
        Outcome::Ok => Ok(answer.rows),
        outcome => Err(format!("{outcome:?}: {}", answer.message).into()),
    }
}

fn inserts() -> Result {
    let titles = ["fjall's own insert", "Kv::put", "an insert without an index", "an insert with an index"];
    let mut costs = titles.map(|_| (Vec::new(), Vec::new()));
    for _ in 0..ROUNDS {
        for (way, (wall_s, cpu_s)) in costs.iter_mut().enumerate() {
            let place = tempfile::tempdir()?;
            let (wall, cpu) = if way == 0 { fjalls_own(place.path())? } else { through_kv(place.path(), way)? };
            wall_s.push(wall);
            cpu_s.push(cpu);
        }
    }
    println!(
        "{RECORDS} records of 200 bytes, one thread, one sync at the end inside the time; n = {ROUNDS} interleaved\n"
    );
    println!(
        "| insert | s: median (least … most) | processor s of the thread | processor time to the line before | goal |"
    );
    println!("|---|---|---|---|---|");
    for (way, title) in titles.iter().enumerate() {
        let before = way.checked_sub(1).map(|before| &costs[before].1);
        let ratios: Vec<f64> =
            before.into_iter().flatten().zip(&costs[way].1).map(|(before, own)| own / before).collect();
        let goal = GOALS[way].map_or("–".to_owned(), |goal| format!("≤ {goal}"));
        println!("| {title} | {} | {} | {} | {goal} |", spread(&costs[way].0), spread(&costs[way].1), spread(&ratios));
    }
    Ok(())
}

fn fjalls_own(place: &Path) -> Result<(f64, f64)> {
    let db = fjall::Database::builder(place).cache_size(CACHE_BYTES).manual_journal_persist(true).open()?;
    let records = db.keyspace("records", || fjall::KeyspaceCreateOptions::default().manual_journal_persist(true))?;
    timed(|| {
        for number in 0..RECORDS {
            records.insert(key(number), record(number))?;
        }
        Ok(db.persist(fjall::PersistMode::SyncData)?)
    })
}

fn through_kv(place: &Path, way: usize) -> Result<(f64, f64)> {
    let mut store = open(place)?;
    let mut kv = store.kv(Durability::AtEnd)?;
    if way == 1 {
        return timed(|| {
            for number in 0..RECORDS {
                kv.put(key(number).as_bytes(), &record(number))?;
            }
            Ok(store.sync()?)
        });
    }
    let mut session = session(kv, if way == 3 { IndexMode::Keyindex } else { IndexMode::None })?;
    let mut params = ValueBuf::new();
    timed(|| {
        for number in 0..RECORDS {
            let values = [Value::Text(&key(number)), Value::Int(number as i64), Value::Bytes(&FILLING)];
            execute(&mut session, INSERT, &mut params, &values)?;
        }
        Ok(store.sync()?)
    })
}

fn open(place: &Path) -> Result<FjallStore> {
    Ok(FjallStore::open(place, Sizes { cache_bytes: CACHE_BYTES, ..Sizes::default() })?)
}

/// Returns the seconds that `work` takes, and the processor time of this thread in it.
fn timed(work: impl FnOnce() -> Result) -> Result<(f64, f64)> {
    let cpu_s = || {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
    };
    let (start, cpu_start) = (Instant::now(), cpu_s());
    work()?;
    Ok((start.elapsed().as_secs_f64(), cpu_s() - cpu_start))
}

fn queries() -> Result {
    println!("\nQuery with {MATCHES} matches, warm, n = {QUERIES}\n");
    println!("| records | µs: median (least … most) |\n|---|---|");
    let mut medians = Vec::new();
    for records in [10_000, 1_000_000] {
        let place = tempfile::tempdir()?;
        let mut store = open(place.path())?;
        let mut session = session(store.kv(Durability::AtEnd)?, IndexMode::Keyindex)?;
        let mut params = ValueBuf::new();
        for number in 0..records {
            let indexed = Value::Int((number % (records / MATCHES)) as i64);
            let values = [Value::Text(&key(number)), indexed, Value::Bytes(&FILLING)];
            execute(&mut session, INSERT, &mut params, &values)?;
        }
        store.sync()?;
        store.settle()?;
        let all_us = queried(|| execute(&mut session, FIND, &mut params, &[Value::Int(7), Value::Int(8)]))?;
        println!("| {records} | {} |", spread(&all_us));
        medians.push(plimsoll_analysis::stat::median(&all_us).unwrap_or(f64::NAN));
    }
    println!("\nGrowth: {:.2} (goal ≤ {GROWTH})", medians[1] / medians[0]);
    Ok(())
}

/// Returns the microseconds of each of [`QUERIES`] queries, after as many that do not count.
fn queried(mut query: impl FnMut() -> Result<u64>) -> Result<Vec<f64>> {
    let mut all_us = Vec::new();
    for _ in 0..2 * QUERIES {
        let start = Instant::now();
        let matches = query()?;
        all_us.push(start.elapsed().as_secs_f64() * 1e6);
        if matches != MATCHES {
            return Err(format!("{matches} matches instead of {MATCHES}").into());
        }
    }
    Ok(all_us.split_off(QUERIES))
}
