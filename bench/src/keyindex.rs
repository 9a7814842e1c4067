//! Cost of an index to an insert on fjall, and of a query through it as records grow.

use std::path::Path;
use std::time::Instant;

use plimsoll_core::{Durability, Kv, Store, Value};
use plimsoll_keyindex::{Entries, IndexError, IndexSpec, Indexes, Query};
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
/// Largest growth of the time of a query from 10,000 to 1,000,000 records: keys only, and with records.
const GROWTH: [f64; 2] = [1.3, 3.0];

/// Prints inserts without and with an index, then queries with 500 matches.
pub fn run() -> Result {
    inserts()?;
    queries()
}

fn key(number: u64) -> Vec<u8> {
    format!("record{number:010}").into_bytes()
}

/// A record of 200 bytes that begins with its indexed number.
fn record(indexed: u64) -> Vec<u8> {
    let mut record = vec![b'x'; 200];
    record[..8].copy_from_slice(&indexed.to_be_bytes());
    record
}

fn entries(_: usize, _: &[u8], record: &[u8], entries: &mut Entries) -> std::result::Result<(), IndexError> {
    let number = record.first_chunk().ok_or(IndexError::Corrupt("too short"))?;
    entries.add(&[Value::Int(i64::from_be_bytes(*number))]);
    Ok(())
}

fn inserts() -> Result {
    let titles = ["fjall's own insert", "Kv::put", "Indexes::put without an index", "Indexes::put with an index"];
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
    let specs = if way == 3 { vec![IndexSpec::new(1)] } else { Vec::new() };
    let mut indexes = Indexes::new(0, specs, entries);
    timed(|| {
        for number in 0..RECORDS {
            match way {
                1 => kv.put(&key(number), &record(number))?,
                _ => indexes.put(&mut kv, &key(number), &record(number)).map(drop)?,
            }
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
    println!("| records | keys only, µs: median (least … most) | with records, µs |\n|---|---|---|");
    let mut medians = Vec::new();
    for records in [10_000, 1_000_000] {
        let place = tempfile::tempdir()?;
        let mut store = open(place.path())?;
        let mut kv = store.kv(Durability::AtEnd)?;
        let mut indexes = Indexes::new(0, vec![IndexSpec::new(1)], entries);
        for number in 0..records {
            indexes.put(&mut kv, &key(number), &record(number % (records / MATCHES)))?;
        }
        store.sync()?;
        store.settle()?;
        let query = Query::on(0).equal(Value::Int(7));
        let keys_us = queried(|| Ok(indexes.count(&mut kv, &query)?))?;
        let found_us = queried(|| Ok(indexes.find(&mut kv, &query, &mut |_, _| {})?.matches))?;
        println!("| {records} | {} | {} |", spread(&keys_us), spread(&found_us));
        medians.push([keys_us, found_us].map(|all| plimsoll_analysis::stat::median(&all).unwrap_or(f64::NAN)));
    }
    let growth = |at: usize| medians[1][at] / medians[0][at];
    println!(
        "\nGrowth: keys only {:.2} (goal ≤ {}), with records {:.2} (goal ≤ {})",
        growth(0),
        GROWTH[0],
        growth(1),
        GROWTH[1]
    );
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
