//! Delay of idle processors: how late they run a thread that another processor wakes, and how to shorten it.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use plimsoll_analysis::number;
use plimsoll_core::sampler::HALTPOLL;
use plimsoll_sample::environment::Idle;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Wakes that are measured, half of them on each of two processors.
const WAKES: usize = 600;
/// Time after which no processor is woken any more. All wakes take 0.7 s if none is late.
const LIMIT: Duration = Duration::from_millis(1_500);
/// Times for which a processor is idle before it is woken, in turn, in nanoseconds: longer than the 0.2 ms for which KVM
/// polls for a halted processor before it gives its time to others.
const GAPS_NS: [u64; 4] = [500_000, 900_000, 1_400_000, 2_000_000];
/// Median delay above which idle processors spoil figures: half-way between 18 to 22 µs, measured on a virtual machine whose
/// idle processors poll, and 70 to 77 µs, measured where they halt. The p99 does not tell the two apart: on the same quiet
/// machine it was 0.24, 0.41 and 1.20 ms.
const LATE_NS: u64 = 45_000;
/// Time for which idle processors of a virtual machine should poll before they halt: longer than all gaps above.
const POLL_NS: u64 = 5_000_000;
/// The kernel's default of `guest_halt_poll_grow_start`.
const POLL_START_NS: u64 = 50_000;
/// Parameters of the idle driver of virtual machines.
const POLL: &str = "/sys/module/haltpoll/parameters/guest_halt_poll_ns";
const POLL_START: &str = "/sys/module/haltpoll/parameters/guest_halt_poll_grow_start";

/// Delays of idle processors, from the send of a byte until the thread that waits for it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wakes {
    /// Number of wakes.
    pub count: usize,
    /// Median delay in nanoseconds.
    pub median_ns: u64,
    /// 99th percentile of the delay in nanoseconds.
    pub p99_ns: u64,
}

impl Wakes {
    /// Measures on two processors that wake each other, over a pair of sockets: a drive's threads wait for sockets. Takes at
    /// most about 1.5 s.
    ///
    /// # Errors
    /// The reason why nothing was measured.
    pub fn measure() -> Result<Self, String> {
        let allowed = sched_getaffinity(None).map_err(|errno| format!("its processors are unknown ({errno})"))?;
        let processors: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&number| allowed.is_set(number)).collect();
        // Processors with neighbouring numbers may be one core, which is not idle while one of them runs.
        let [first, .., last] = &processors[..] else {
            return Err("this process may use one processor, and two must wake each other".to_owned());
        };
        let (here, there) = UnixStream::pair().map_err(|error| format!("no sockets can be opened ({error})"))?;
        let start = Instant::now();
        let ends = [(here, *first), (there, *last)].into_iter().enumerate();
        let threads = ends.map(|(position, (socket, processor))| {
            let thread = std::thread::Builder::new().name("idle".to_owned());
            thread.spawn(move || take_turns(socket, processor, position, start))
        });
        // If the second one is refused, its socket closes, and the first one ends.
        let threads: std::io::Result<Vec<_>> = threads.collect();
        let mut late_ns = Vec::with_capacity(WAKES);
        for thread in threads.map_err(|error| format!("no thread can be started ({error})"))? {
            late_ns.extend(thread.join().map_err(|_| "a thread ended early".to_owned())??);
        }
        Self::of(late_ns).ok_or_else(|| format!("no processor woke within {} s", LIMIT.as_secs_f64()))
    }

    /// Summarizes delays in nanoseconds; `None` without any.
    fn of(mut late_ns: Vec<u64>) -> Option<Self> {
        late_ns.sort_unstable();
        let at = |percent: usize| late_ns.get((late_ns.len() * percent).div_ceil(100).checked_sub(1)?).copied();
        Some(Self { count: late_ns.len(), median_ns: at(50)?, p99_ns: at(99)? })
    }

    /// Returns true if idle processors wake so late, by the median, that figures are theirs.
    pub fn is_late(&self) -> bool {
        self.median_ns > LATE_NS
    }

    /// Describes the delays in words, without a full stop.
    pub fn sentence(&self) -> String {
        let [median, p99] = [self.median_ns, self.p99_ns].map(number::nanoseconds);
        format!("an idle processor wakes after {median} (median), {p99} (p99) of {} wakes", self.count)
    }
}

/// Wakes the thread at the other end of `socket`, and is woken by it, in turn; the one at `position` 0 begins. Returns the
/// delays of `processor` in nanoseconds.
fn take_turns(mut socket: UnixStream, processor: usize, position: usize, start: Instant) -> Result<Vec<u64>, String> {
    let mut only = CpuSet::new();
    only.set(processor);
    sched_setaffinity(None, &only)
        .map_err(|errno| format!("no thread can be bound to processor {processor} ({errno})"))?;
    let now_ns = || start.elapsed().as_nanos() as u64;
    let mut late_ns = Vec::with_capacity(WAKES / 2);
    for turn in 0..=WAKES {
        if turn % 2 == position {
            let wakes_ns = now_ns() + GAPS_NS[turn / 2 % GAPS_NS.len()];
            // Without a pause instruction: a host may take the processor from a machine that executes many of them.
            while now_ns() < wakes_ns {}
            if start.elapsed() > LIMIT || socket.write_all(&now_ns().to_ne_bytes()).is_err() {
                break;
            }
            continue;
        }
        let mut sent_ns = [0; 8];
        if socket.read_exact(&mut sent_ns).is_err() {
            break;
        }
        // In the first turn the thread may still have been starting.
        if turn > 0 {
            late_ns.push(now_ns().saturating_sub(u64::from_ne_bytes(sent_ns)));
        }
    }
    Ok(late_ns)
}

/// Returns the likely reason why processors with the settings `idle` wake late, and what to do: a step a line.
pub fn advice(idle: &Idle) -> (String, String) {
    match (idle.driver.as_deref(), idle.poll_ns) {
        (Some(HALTPOLL), Some(poll_ns)) if poll_ns >= POLL_NS => (
            format!(
                "idle processors poll for {} before they halt, so that other programs or the host delay them",
                number::nanoseconds(poll_ns)
            ),
            "stop what else is running, or use a machine that is not shared".to_owned(),
        ),
        (Some(HALTPOLL), Some(poll_ns)) => {
            let polls = match poll_ns {
                0 => "do not poll before they halt".to_owned(),
                _ => format!("poll for only {} before they halt", number::nanoseconds(poll_ns)),
            };
            let start_ns = idle.poll_start_ns.unwrap_or(POLL_START_NS);
            (
                format!("idle processors {polls}, and a host may run a halted one late"),
                format!(
                    "to let them poll until the next start: echo {POLL_NS} | sudo tee {POLL} {POLL_START}\n\
                     to put it back: echo {poll_ns} | sudo tee {POLL}; echo {start_ns} | sudo tee {POLL_START}"
                ),
            )
        }
        (Some("none"), _) => (
            "the kernel has no idle driver, so that idle processors halt at once".to_owned(),
            "start the kernel with idle=poll".to_owned(),
        ),
        (Some(driver), _) if driver != HALTPOLL => (
            format!(
                "the idle driver {driver} lets idle processors sleep, as /sys/devices/system/cpu/cpu*/cpuidle lists"
            ),
            "to keep them awake until the next start: sudo cpupower idle-set -D 0\n\
             to put it back: sudo cpupower idle-set -E"
                .to_owned(),
        ),
        _ => (
            "the settings of idle processors cannot be read in /sys".to_owned(),
            "run where /sys is mounted, or start the kernel with idle=poll".to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_processors_of_this_machine_wake_within_bounded_time() {
        let processors = sched_getaffinity(None).unwrap().count();
        let started = Instant::now();
        let measured = Wakes::measure();
        // On a busy machine the last turn is late too.
        assert!(started.elapsed() < LIMIT * 10, "{:?}", started.elapsed());
        if processors == 1 {
            assert!(measured.unwrap_err().contains("one processor"));
            return;
        }
        let wakes = measured.unwrap();
        assert!((1..=WAKES).contains(&wakes.count), "{wakes:?}");
        assert!(0 < wakes.median_ns && wakes.median_ns <= wakes.p99_ns, "{wakes:?}");
        assert!(u128::from(wakes.p99_ns) < started.elapsed().as_nanos(), "{wakes:?}");
    }

    #[test]
    fn delays_are_summarized_by_their_ranks() {
        let wakes = Wakes::of((1..=600).rev().map(|at| at * 1_000).collect()).unwrap();
        assert_eq!(wakes, Wakes { count: 600, median_ns: 300_000, p99_ns: 594_000 });
        assert_eq!(wakes.sentence(), "an idle processor wakes after 300 µs (median), 594 µs (p99) of 600 wakes");
        assert_eq!(Wakes::of(vec![7]), Some(Wakes { count: 1, median_ns: 7, p99_ns: 7 }));
        assert_eq!(Wakes::of(Vec::new()), None);
    }

    #[test]
    fn lateness_is_judged_by_the_median_whatever_the_slowest_wakes() {
        let is_late = |median_ns, p99_ns| Wakes { count: 600, median_ns, p99_ns }.is_late();
        for p99_ns in [49_000, 240_000, 410_000, 1_200_000] {
            assert!(!is_late(18_000, p99_ns) && !is_late(22_000, p99_ns) && !is_late(45_000, p99_ns), "{p99_ns}");
            assert!(is_late(45_001, p99_ns) && is_late(70_000, p99_ns) && is_late(77_000, p99_ns), "{p99_ns}");
        }
    }

    #[test]
    fn advice_is_of_the_driver_and_has_the_values_that_were_read() {
        let of = |driver: Option<&str>, poll_ns, poll_start_ns| {
            let (why, next) = advice(&Idle { driver: driver.map(str::to_owned), poll_ns, poll_start_ns });
            format!("{why}\n{next}")
        };
        let halts = of(Some("haltpoll"), Some(0), Some(60_000));
        let words = "idle processors do not poll before they halt, and a host may run a halted one late\n\
            to let them poll until the next start: echo 5000000 | sudo tee \
            /sys/module/haltpoll/parameters/guest_halt_poll_ns /sys/module/haltpoll/parameters/guest_halt_poll_grow_start\n\
            to put it back: echo 0 | sudo tee /sys/module/haltpoll/parameters/guest_halt_poll_ns; \
            echo 60000 | sudo tee /sys/module/haltpoll/parameters/guest_halt_poll_grow_start";
        assert_eq!(halts, words);
        let short = of(Some("haltpoll"), Some(200_000), None);
        assert!(short.contains("poll for only 200 µs before they halt"), "{short}");
        assert!(short.contains("back: echo 200000 | sudo tee") && short.contains("echo 50000 | sudo tee"), "{short}");
        let polls = of(Some("haltpoll"), Some(5_000_000), Some(5_000_000));
        assert!(polls.contains("poll for 5.00 ms") && !polls.contains("sudo"), "{polls}");
        let sleeps = of(Some("intel_idle"), None, None);
        assert!(sleeps.contains("intel_idle") && sleeps.contains("cpupower idle-set -D 0"), "{sleeps}");
        assert!(sleeps.contains("/sys/devices/system/cpu/cpu*/cpuidle") && !sleeps.contains("tee"), "{sleeps}");
        assert!(of(Some("none"), None, None).contains("start the kernel with idle=poll"));
        for unknown in [of(None, None, None), of(Some("haltpoll"), None, None)] {
            assert!(unknown.contains("cannot be read") && !unknown.contains("sudo"), "{unknown}");
        }
    }
}
