//! Counts what each thread allocates, and proves that operations allocate nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use plimsoll_core::{Answer, Observer, Op, Outcome, Slice, Ticket};
use plimsoll_drive::{DriveSpec, Limit, Pace, StopReason};

use crate::counting::{Counting, count, held_bytes};
use crate::seen::drive_and_drop;
use crate::toy::{Act, Server};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Watches a worker's thread from operation `from` to operation `to`.
pub struct AllocationWatch {
    pub from: u64,
    pub to: u64,
    seen: u64,
    at_from: u64,
    /// Allocations in between, once they are known; `u64::MAX` before.
    pub found: Arc<AtomicU64>,
}

impl AllocationWatch {
    pub fn between(from: u64, to: u64) -> (Box<dyn Observer>, Arc<AtomicU64>) {
        let found = Arc::new(AtomicU64::new(u64::MAX));
        (Box::new(Self { from, to, seen: 0, at_from: 0, found: found.clone() }), found)
    }
}

/// Returns a receiver of slices that sets `stop` once a watch has `found` the number.
pub fn stop_when<'a>(found: &'a AtomicU64, stop: &'a AtomicBool) -> impl FnMut(&Slice) + 'a {
    move |_: &Slice| {
        if found.load(SeqCst) != u64::MAX {
            stop.store(true, SeqCst);
        }
    }
}

impl Observer for AllocationWatch {
    fn sent(&mut self, _: Ticket, _: u64, _: u32, _: u64, _: &Op<'_>) {}

    fn finished(&mut self, _: Ticket, _: u64, _: Outcome, _: &Answer) {
        self.seen += 1;
        if self.seen == self.from {
            self.at_from = count();
        } else if self.seen == self.to {
            self.found.store(count() - self.at_from, SeqCst);
        }
    }
}

#[test]
fn the_counter_counts() {
    let before = count();
    drop(std::hint::black_box(vec![1u8; 100]));
    assert_eq!(count() - before, 1);
    let before = held_bytes();
    let mut kept = std::hint::black_box(vec![1u8; 100]);
    assert_eq!(held_bytes() - before, 100);
    kept.reserve_exact(400);
    assert_eq!(held_bytes() - before, 500);
    drop(kept);
    assert_eq!(held_bytes(), before);
}

/// Half an hour's slices of a second, in as many hundredths of one.
#[test]
fn memory_does_not_grow_with_slices() {
    let ms = Duration::from_millis(1);
    let server = Server::unix(move |_, _, number| match number % 50 {
        0 => Act::AnswerAfter(ms * 3),
        _ => Act::Answer,
    });
    let spec = DriveSpec {
        pace: Pace::poisson(3_000.0),
        limit: Limit::Duration(ms * 18_000),
        slice: ms * 10,
        ticks: true,
        op_timeout: ms * 2_000,
        ..DriveSpec::default()
    };
    let (watch, found) = AllocationWatch::between(3_000, 40_000);
    let mut held = Vec::with_capacity(4_000);
    let mut on_slice = |slice: &Slice| {
        // What the slice itself holds is its receiver's.
        let counted = slice.histograms.iter().map(|one| one.histogram.distinct_values() * 8).sum::<usize>();
        let unfinished = slice.unfinished.as_ref().map_or(0, |one| one.distinct_values() * 8);
        held.push((held_bytes() - (counted + unfinished) as i64, resident_bytes()));
    };
    let stop = Arc::default();
    let started = std::time::Instant::now();
    let kept = drive_and_drop(&spec, server.clients(8), vec![watch], &stop, &mut on_slice);
    assert!(kept.ops > 40_000 && kept.stop == StopReason::Limit, "{} operations, {:?}", kept.ops, kept.stop);
    assert!(held.len() > 1_000, "{} slices", held.len());
    assert_eq!(found.load(SeqCst), 0, "allocations of the worker in 37,000 operations");
    let most = |part: &[(i64, u64)]| part.iter().map(|(held, _)| *held).max().unwrap();
    let third = held.len() / 3;
    let (first, last) = (most(&held[third / 10..third]), most(&held[2 * third..]));
    println!(
        "control thread holds at most {first} B in the first third of {} slices and {last} B in the last; the \
         process, with all other tests, {} and {} KiB; {:?}",
        held.len(),
        held[third / 10].1 / 1_024,
        held[held.len() - 1].1 / 1_024,
        started.elapsed(),
    );
    // A slice that were kept would be a hundred kilobytes and more; a byte for each of them, six hundred.
    assert!(last <= first + 512, "{first} B and then {last} B");
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size() as u64
}
