//! The run's clock: nanoseconds since the run's start on CLOCK_MONOTONIC.
//!
//! [`Clock`] is for everybody and asks the kernel's vDSO. A worker reads a [`Ticker`] of its own, which
//! reads the processor's time-stamp counter where the kernel itself keeps time by it, and is compared
//! with CLOCK_MONOTONIC again once a slice.

use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};

const SECOND_NS: u64 = 1_000_000_000;
/// Shortest base over which a rate of the counter is worth believing: 30 ns in 5 ms are 6 parts in a million.
const RATE_BASE_NS: u64 = 5_000_000;

/// Time since the run's start. Copies share the start.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// The moment at which it was started, on CLOCK_MONOTONIC, and what it said then.
    origin_ns: u64,
    start_ns: u64,
    /// The counter at a moment near the origin; `None` where the kernel does not trust it.
    counter: Option<Pair>,
    /// The time itself, of a clock that is simulated.
    simulated: Option<&'static AtomicU64>,
}

/// A moment on both clocks; `mono_ns` counts from the run's start.
#[derive(Debug, Clone, Copy)]
struct Pair {
    mono_ns: u64,
    ticks: u64,
}

impl Clock {
    /// Starts the run's clock. Takes about 5 ms where it has a counter to calibrate.
    pub fn start() -> Clock {
        Self::start_at(0)
    }

    /// Makes the clock of a run that resumes `start_ns` after its start, in another process.
    pub fn start_at(start_ns: u64) -> Clock {
        let origin_ns = monotonic_ns();
        let mut clock = Clock { origin_ns, start_ns, counter: None, simulated: None };
        if kernel_trusts_counter() {
            clock.counter = clock.pair();
            clock.sleep_until(start_ns.saturating_add(RATE_BASE_NS));
        }
        clock
    }

    /// Makes a clock that stands at `now_ns` and moves only with that value, for drives on simulated time.
    pub fn simulated(now_ns: &'static AtomicU64) -> Clock {
        Clock { origin_ns: 0, start_ns: 0, counter: None, simulated: Some(now_ns) }
    }

    /// Nanoseconds since the run's start.
    pub fn now_ns(&self) -> u64 {
        match self.simulated {
            Some(now_ns) => now_ns.load(Ordering::SeqCst),
            None => monotonic_ns() - self.origin_ns + self.start_ns,
        }
    }

    /// A moment on CLOCK_MONOTONIC as this clock has it; the clock's start for one before that.
    pub fn of_monotonic(&self, monotonic_ns: u64) -> u64 {
        monotonic_ns.saturating_sub(self.origin_ns) + self.start_ns
    }

    /// Sleeps until `at_ns`, without rounding. Woken early by a signal.
    pub fn sleep_until(&self, at_ns: u64) {
        // Interrupted by a signal is the only error possible here, and the caller looks at the time anyway.
        let _ = clock_nanosleep_absolute(ClockId::Monotonic, &self.timespec(at_ns));
    }

    /// `at_ns` as the kernel says it, on CLOCK_MONOTONIC.
    pub(crate) fn timespec(&self, at_ns: u64) -> Timespec {
        let ns = self.origin_ns.saturating_add(at_ns.saturating_sub(self.start_ns));
        Timespec { tv_sec: (ns / SECOND_NS) as i64, tv_nsec: (ns % SECOND_NS) as _ }
    }

    pub(crate) fn ticker(&self) -> Ticker {
        let mut ticker = Ticker { clock: *self, anchor: self.counter, ns_per_tick_32: 0, last_ns: 0 };
        ticker.anchor_again();
        ticker
    }

    /// Reads both clocks at one moment: the tightest of a few attempts.
    fn pair(&self) -> Option<Pair> {
        (0..5)
            .map(|_| {
                let before = counter();
                let mono_ns = self.now_ns();
                let after = counter();
                (after.wrapping_sub(before), Pair { mono_ns, ticks: before + after.wrapping_sub(before) / 2 })
            })
            .min_by_key(|(width, _)| *width)
            .map(|(_, pair)| pair)
    }
}

/// Monotonic reader of the clock for one worker.
#[derive(Debug)]
pub(crate) struct Ticker {
    clock: Clock,
    anchor: Option<Pair>,
    /// Nanoseconds a tick, times 2^32.
    ns_per_tick_32: u64,
    last_ns: u64,
}

impl Ticker {
    #[inline]
    pub fn now_ns(&mut self) -> u64 {
        let now_ns = match self.anchor {
            Some(anchor) => {
                let ticks = counter().wrapping_sub(anchor.ticks);
                anchor.mono_ns + ((u128::from(ticks) * u128::from(self.ns_per_tick_32)) >> 32) as u64
            }
            None => self.clock.now_ns(),
        };
        self.last_ns = self.last_ns.max(now_ns);
        self.last_ns
    }

    /// Compares with CLOCK_MONOTONIC again: the counter's rate is taken anew over the time since the last
    /// comparison, so what is left is how much the kernel changed it within one slice.
    pub fn anchor_again(&mut self) {
        let (Some(first), Some(anchor), Some(now)) = (self.clock.counter, self.anchor, self.clock.pair()) else {
            return;
        };
        let base = if now.mono_ns.saturating_sub(anchor.mono_ns) >= 100_000_000 { anchor } else { first };
        let ns = now.mono_ns.saturating_sub(base.mono_ns);
        let ticks = now.ticks.saturating_sub(base.ticks);
        if ns >= RATE_BASE_NS && ticks > 0 {
            self.ns_per_tick_32 = ((u128::from(ns) << 32) / u128::from(ticks)) as u64;
            self.anchor = Some(now);
        } else if self.ns_per_tick_32 == 0 {
            // Woken early while calibrating: better no counter than a wrong one.
            self.anchor = None;
        }
    }

    pub fn sleep_until(&self, at_ns: u64) {
        self.clock.sleep_until(at_ns);
    }

    pub fn clock(&self) -> &Clock {
        &self.clock
    }
}

fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * SECOND_NS + now.tv_nsec as u64
}

/// CPU time of the calling thread, user and system.
pub(crate) fn thread_cpu_ns() -> u64 {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    used.tv_sec as u64 * SECOND_NS + used.tv_nsec as u64
}

/// Returns the counts of the calling thread's voluntary and involuntary context switches.
pub(crate) fn thread_switches() -> (u64, u64) {
    // SAFETY: a structure of integers, for which all zeros is a value, and a call that writes nothing else.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    (usage.ru_nvcsw.unsigned_abs(), usage.ru_nivcsw.unsigned_abs())
}

/// Returns the time that the calling thread was ready to run while others had its processor, in nanoseconds; 0 if the
/// kernel does not count it.
pub(crate) fn thread_queued_ns() -> u64 {
    let mut text = [0; 96];
    let read = std::fs::File::open("/proc/thread-self/schedstat").and_then(|mut file| file.read(&mut text));
    let text = read.ok().and_then(|length| std::str::from_utf8(text.get(..length)?).ok());
    text.and_then(|text| text.split_ascii_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

/// Wall time in nanoseconds since 1970.
pub(crate) fn wall_ns() -> i64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec * SECOND_NS as i64 + now.tv_nsec
}

/// The kernel keeps time by the counter only where it found it constant and the same on all processors.
#[cfg(target_arch = "x86_64")]
fn kernel_trusts_counter() -> bool {
    std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource")
        .is_ok_and(|name| name.trim() == "tsc")
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn counter() -> u64 {
    // SAFETY: every x86_64 processor has the instruction, and it touches no memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn kernel_trusts_counter() -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
fn counter() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticker_agrees_with_the_kernel_and_never_goes_back() {
        let clock = Clock::start();
        let mut ticker = clock.ticker();
        let mut last_ns = 0;
        for round in 0..30 {
            for _ in 0..2_000 {
                let now_ns = ticker.now_ns();
                assert!(now_ns >= last_ns, "went back from {last_ns} to {now_ns}");
                last_ns = now_ns;
            }
            // The kernel is asked on both sides, so that being interrupted in between is no failure.
            let before_ns = clock.now_ns();
            let ticked_ns = ticker.now_ns();
            let after_ns = clock.now_ns();
            assert!(
                ticked_ns + 20_000 >= before_ns && ticked_ns <= after_ns + 20_000,
                "round {round}: {ticked_ns} is not within 20 µs of {before_ns} … {after_ns}"
            );
            if round % 3 == 0 {
                ticker.anchor_again();
            }
            clock.sleep_until(clock.now_ns() + 5_000_000);
        }
    }

    #[test]
    fn sleeping_until_a_moment_does_not_end_before_it() {
        let clock = Clock::start();
        let at_ns = clock.now_ns() + 2_000_000;
        clock.sleep_until(at_ns);
        assert!(clock.now_ns() >= at_ns);
    }
}
