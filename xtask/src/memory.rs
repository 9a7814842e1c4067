//! Memory of this machine that is available: now, and at the least while tests run.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Time between two looks. Servers of tests live for longer.
const PERIOD: Duration = Duration::from_secs(1);

/// Returns the memory that programs can still take, in KiB; 0 if the kernel does not tell it.
pub fn available_kib() -> u64 {
    available_in(&std::fs::read_to_string("/proc/meminfo").unwrap_or_default())
}

fn available_in(meminfo: &str) -> u64 {
    let kibibytes = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.split_whitespace().next());
    kibibytes.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Does `work`, and prints how much memory was available before it and at the least during it.
pub fn watched<T>(work: impl FnOnce() -> T) -> T {
    let (done, before, least) = least_during(PERIOD, available_kib, work);
    let [before_gib, least_gib, taken_gib] =
        [before, least, before.saturating_sub(least)].map(|kibibytes| kibibytes as f64 / 1_048_576.0);
    println!(
        "memory: {before_gib:.1} GiB were available before the tests, and {least_gib:.1} GiB at the least: \
         {taken_gib:.1} GiB were taken, by the run with its files in memory, or by other programs"
    );
    done
}

/// Returns what `work` returns, and the readings before it and the least until its end, one each `period`.
fn least_during<T>(period: Duration, read: impl Fn() -> u64 + Send, work: impl FnOnce() -> T) -> (T, u64, u64) {
    let before = read();
    let (working, ended) = channel::<()>();
    std::thread::scope(|scope| {
        let watch = scope.spawn(move || {
            let mut least = before;
            while ended.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
                least = least.min(read());
            }
            least
        });
        let done = work();
        drop(working);
        (done, before, watch.join().unwrap_or(before))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn available_memory_is_read_and_none_where_the_kernel_does_not_say() {
        let meminfo = "MemTotal:       24689152 kB\nMemFree:  1 kB\nMemAvailable:   23068672 kB\n";
        assert_eq!(available_in(meminfo), 22 << 20);
        assert_eq!(available_in("MemFree: 1 kB\n"), 0);
    }

    #[test]
    fn the_least_of_all_readings_is_kept() {
        let looks = AtomicUsize::new(0);
        let read = || [20_u64, 7].get(looks.fetch_add(1, Ordering::SeqCst)).copied().unwrap_or(15);
        let until_third_look = || {
            while looks.load(Ordering::SeqCst) < 3 {
                std::thread::yield_now();
            }
            "done"
        };
        assert_eq!(least_during(Duration::from_millis(1), read, until_third_look), ("done", 20, 7));
    }
}
