//! Group commit: threads that each write and flush, into files of their own or into one. How many flushes a second come
//! to their end, and how many of them one flush of the device serves.

use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use plimsoll_core::StoreError;
use serde::Serialize;

use crate::counters::FlushCounters;
use crate::error::at;
use crate::times::{Clocked, FlushTimes};
use crate::writer::{WriteBlock, lay_out, open};

/// Threads that are tried.
pub const THREADS: [usize; 5] = [1, 2, 4, 8, 16];
/// Bytes of a write.
const WRITE: usize = 4096;
/// Time that threads have to get ready.
const READY: Duration = Duration::from_millis(20);
/// Bytes that each thread writes again and again, in order.
const REGION: u64 = 1 << 20;

/// Result of a number of threads that write and flush.
#[derive(Debug, Clone, Serialize)]
pub struct WriterGroup {
    /// Number of threads.
    pub threads: usize,
    /// True if the threads write to parts of one file.
    pub shared: bool,
    /// Flushes that came to their end in a second, of all threads.
    pub flushes_per_s: f64,
    /// Number per flush that the device counted; `None` if none was counted. Flushes of other programs count, too.
    pub per_device_flush: Option<f64>,
    /// Times of write + fdatasync.
    pub times: FlushTimes,
}

/// Writes and flushes in `directory` with `threads` threads for the given time, or until `stop`. Returns `None` if no
/// flush completed.
pub fn measure(
    directory: &Path,
    (threads, shared): (usize, bool),
    takes: Duration,
    counters: &FlushCounters,
    stop: &AtomicBool,
) -> Result<Option<WriterGroup>, StoreError> {
    let result = attempt(directory, threads, shared, takes, counters, stop);
    for number in 0..threads {
        let _ = std::fs::remove_file(directory.join(format!("group-{number}")));
    }
    let (clocked, seconds, device) = at(directory.display(), result)?;
    let mut all = Clocked::default();
    clocked.iter().for_each(|one| all.add(one));
    let flushes = all.n() as f64;
    Ok(all.times().map(|times| WriterGroup {
        threads,
        shared,
        flushes_per_s: flushes / seconds,
        per_device_flush: device.filter(|device| *device > 0).map(|device| flushes / device as f64),
        times,
    }))
}

fn attempt(
    directory: &Path,
    threads: usize,
    shared: bool,
    takes: Duration,
    counters: &FlushCounters,
    stop: &AtomicBool,
) -> io::Result<(Vec<Clocked>, f64, Option<u64>)> {
    let path = |number| directory.join(format!("group-{}", if shared { 0 } else { number }));
    for number in 0..if shared { 1 } else { threads } {
        lay_out(&path(number), if shared { REGION * threads as u64 } else { REGION })?;
    }
    let files = (0..threads).map(|number| open(&path(number), 0)).collect::<io::Result<Vec<_>>>()?;
    let start = Instant::now() + READY;
    std::thread::scope(|scope| {
        let mut running = Vec::new();
        for (number, file) in files.into_iter().enumerate() {
            let one = std::thread::Builder::new().name(format!("flush-{number}")).spawn_scoped(scope, move || {
                let (mut block, mut clocked) = (WriteBlock::new(WRITE), Clocked::default());
                let (base, mut offset) = (if shared { REGION * number as u64 } else { 0 }, 0);
                std::thread::sleep(start.saturating_duration_since(Instant::now()));
                let deadline = start + takes;
                // Once in any case: a busy machine may let a thread begin after the end.
                loop {
                    let begun = Instant::now();
                    file.write_all_at(block.next(), base + offset)?;
                    rustix::fs::fdatasync(&file)?;
                    clocked.note(begun.elapsed());
                    offset = (offset + WRITE as u64) % REGION;
                    if Instant::now() >= deadline || stop.load(Ordering::Relaxed) {
                        break;
                    }
                }
                io::Result::Ok(clocked)
            })?;
            running.push(one);
        }
        std::thread::sleep(start.saturating_duration_since(Instant::now()));
        let before = counters.flushes();
        let ended =
            running.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        let clocked = ended.collect::<io::Result<Vec<_>>>()?;
        let device = before.zip(counters.flushes()).map(|(before, after)| after.saturating_sub(before));
        Ok((clocked, start.elapsed().as_secs_f64(), device))
    })
}
