//! A witness of the machine's own pauses: a thread per processor that sleeps and notes how late it wakes up.
//!
//! The model is jHiccup (Gil Tene, <https://github.com/giltene/jHiccup>), with one thread bound to each processor that
//! this process may use, and real-time priority: such a thread goes before the generator's and the store's, so what
//! makes it late is neither's doing. It sees a host that runs another machine, interrupts, and sections of the kernel
//! that nothing interrupts. At ordinary priority it would queue behind them and blame the machine for their work;
//! where real-time priority is refused there is no witness.
//!
//! A pause is told of in the moment in which the processor is back and before anybody else runs on it. So whatever a
//! pause held up ends after the pause was told of, and a worker that compares an operation's scheduled time with
//! [`Taint`] when it ends knows whether it was disturbed: one load and one comparison an operation, two where there was a
//! pause.
//!
//! Not seen: pauses between two wake-ups. One that is shorter than the period is met in as many cases of a hundred as
//! it is per cent of the period long; of a longer one up to a period is missing at its beginning. Nor what stops others
//! only: when the CPU quota of a control group is used up, its threads of real-time priority go on.

use std::mem::MaybeUninit;
use std::os::unix::thread::JoinHandleExt;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, fence};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use hdrhistogram::Histogram;
use plimsoll_core::pause::PAUSE_MIN_NS;
use plimsoll_core::{Pause, paused_ns};
use rustix::thread::{CpuSet, sched_getaffinity};

use crate::clock::Clock;
use crate::control::pin;
use crate::histogram::{Digits, TOP_NS};

/// Time between two wake-ups: each costs some ten microseconds of a processor that would sleep.
const PERIOD_NS: u64 = 5_000_000;
/// Wake-ups that are remembered of each processor: five seconds.
const MEMORY: u64 = 1_024;
/// A thread that sleeps, asks the time and writes two numbers needs little.
const STACK_BYTES: usize = 64 << 10;
/// Priority among real-time threads: below the priority that the kernel reserves for moving threads between
/// processors.
const PRIORITY: i32 = 98;
/// Longest that [`Witness::watch_for`] goes without looking, at what happened and at whether it should stop.
const LOOK: Duration = Duration::from_millis(100);

/// Start and end of the times at which due operations are disturbed. In a cache line that is written in pauses only,
/// and read with every operation.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Taint {
    from_ns: AtomicU64,
    until_ns: AtomicU64,
}

impl Taint {
    /// Returns true if an operation that was due at `scheduled_ns` and ends now is disturbed.
    #[inline(always)]
    pub fn covers(&self, scheduled_ns: u64) -> bool {
        scheduled_ns < self.until_ns.load(Acquire) && scheduled_ns >= self.from_ns.load(Relaxed)
    }

    /// A pause is over. What it disturbs joins what the one before does, or stands for itself: an operation that is still
    /// there from before a pause that is long over is the store's.
    pub fn tell(&self, pause: &Pause) {
        if pause.from_ns() > self.until_ns.load(Relaxed) {
            self.from_ns.store(pause.from_ns(), Relaxed);
        } else {
            self.from_ns.fetch_min(pause.from_ns(), Relaxed);
        }
        self.until_ns.fetch_max(pause.until_ns(), Release);
    }
}

/// A wake-up: its due time, and its delay.
#[derive(Debug, Default)]
struct WakeUp {
    due_ns: AtomicU64,
    late_ns: AtomicU64,
}

/// Log of the thread of one processor. One writer, any number of readers.
#[derive(Debug)]
#[repr(align(128))]
struct WakeUpLog {
    cpu: u32,
    /// Wake-ups so far; number `n` stands at `n mod MEMORY`.
    count: AtomicU64,
    wake_ups: Box<[WakeUp]>,
}

impl WakeUpLog {
    fn new(cpu: u32) -> Self {
        let wake_ups = (0..MEMORY).map(|_| WakeUp::default()).collect();
        Self { cpu, count: AtomicU64::new(0), wake_ups }
    }

    fn at(&self, number: u64) -> &WakeUp {
        &self.wake_ups[(number % MEMORY) as usize]
    }

    fn note(&self, due_ns: u64, late_ns: u64) {
        let number = self.count.load(Relaxed);
        // A reader that sees a word of this one in the place of an older one also sees that the older one is gone.
        fence(Release);
        let place = self.at(number);
        place.due_ns.store(due_ns, Relaxed);
        place.late_ns.store(late_ns, Relaxed);
        self.count.store(number + 1, Release);
    }

    /// Passes the stored wake-ups from `number` on to `each`; returns the number of the next, and of those that were
    /// overwritten.
    fn read_from(&self, number: u64, each: &mut dyn FnMut(u64, u64)) -> (u64, u64) {
        let end = self.count.load(Acquire);
        let mut forgotten = end.saturating_sub(MEMORY - 1).saturating_sub(number);
        for number in number.max(end.saturating_sub(MEMORY - 1))..end {
            let place = self.at(number);
            let (due_ns, late_ns) = (place.due_ns.load(Relaxed), place.late_ns.load(Relaxed));
            fence(Acquire);
            // The next may be half written over this one already.
            if number + MEMORY > self.count.load(Relaxed) {
                each(due_ns, late_ns);
            } else {
                forgotten += 1;
            }
        }
        (end, forgotten)
    }
}

/// State shared by the threads, their owner and the readers.
#[derive(Debug)]
struct Shared {
    clock: Clock,
    logs: Box<[WakeUpLog]>,
    taint: Arc<Taint>,
    ends: AtomicBool,
}

/// The threads; they end with this.
#[derive(Debug)]
struct Threads {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.ends.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// See the module. A handle: the threads end with the last one.
#[derive(Debug, Clone)]
pub struct Witness(Arc<Threads>);

impl PartialEq for Witness {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Witness {
    /// Starts a witness on each processor that the calling thread may use; it reads the time from `clock`.
    ///
    /// # Errors
    /// Why pauses of the machine cannot be told apart here, in one sentence: real-time priority is refused, or a thread
    /// cannot be had.
    pub fn start(clock: &Clock) -> Result<Witness, String> {
        let blind = |why: String| format!("pauses of the machine are not recorded here: {why}");
        let unknown = |why| blind(format!("the processors that this process may use are not known ({why})"));
        let allowed = sched_getaffinity(None).map_err(unknown)?;
        let processors = (0..CpuSet::MAX_CPU).filter(|&number| allowed.is_set(number));
        let logs: Box<[WakeUpLog]> = processors.map(|number| WakeUpLog::new(number as u32)).collect();
        let shared = Arc::new(Shared { clock: *clock, logs, taint: Arc::default(), ends: AtomicBool::new(false) });
        let mut all = Threads { shared: shared.clone(), threads: Vec::new() };
        let (ready, started) = channel();
        for position in 0..shared.logs.len() {
            let (shared, ready) = (shared.clone(), ready.clone());
            let thread = std::thread::Builder::new().name("witness".to_owned()).stack_size(STACK_BYTES);
            let thread = thread.spawn(move || shared.witness(position, &ready));
            let refused = |why| blind(format!("no thread can be started ({why}); raise ulimit -u or pids.max"));
            all.threads.push(thread.map_err(refused)?);
        }
        drop(ready);
        // Where one is refused the others end too: a witness that is blind on one eye would be believed.
        started.iter().take(shared.logs.len()).find_map(Result::err).map_or(Ok(()), |why| Err(blind(why)))?;
        Ok(Witness(Arc::new(all)))
    }

    /// Begins to look on: what happens from now on is seen by it.
    pub fn watch(&self) -> Watch {
        let shared = &self.0.shared;
        let next = shared.logs.iter().map(|log| log.count.load(Acquire)).collect();
        let seen = Seen { from_ns: shared.clock.now_ns(), ..Seen::default() };
        Watch { threads: self.0.clone(), next, seen }
    }

    /// Looks on for `length`, or until `stop` is set, and says what was seen. The calling thread sleeps meanwhile.
    pub fn watch_for(&self, length: Duration, stop: &AtomicBool) -> Seen {
        let mut watch = self.watch();
        let ends_ns = watch.seen.from_ns + length.as_nanos() as u64;
        loop {
            let left_ns = ends_ns.saturating_sub(watch.threads.shared.clock.now_ns());
            if left_ns == 0 || stop.load(Relaxed) {
                return watch.take();
            }
            std::thread::sleep(Duration::from_nanos(left_ns).min(LOOK));
            watch.look();
        }
    }

    /// CPU time of all its threads so far, in nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        self.0.threads.iter().map(cpu_ns).sum()
    }

    /// Returns the disturbances that workers compare operations with.
    pub(crate) fn taint(&self) -> Arc<Taint> {
        self.0.shared.taint.clone()
    }
}

impl Shared {
    /// The work of one processor's thread.
    fn witness(&self, position: usize, ready: &Sender<Result<(), String>>) {
        let log = &self.logs[position];
        let bound = pin(log.cpu).map_err(|why| format!("no thread can be bound to processor {} ({why})", log.cpu));
        let begun = bound.and_then(|()| take_precedence());
        let is_blind = begun.is_err();
        let _ = ready.send(begun);
        if is_blind {
            return;
        }
        // Not all at once: each wake-up is work for the other users of the host.
        let offset_ns = PERIOD_NS * position as u64 / self.logs.len() as u64;
        let mut due_ns = self.clock.now_ns() + PERIOD_NS + offset_ns;
        while !self.ends.load(Relaxed) {
            self.clock.sleep_until(due_ns);
            let now_ns = self.clock.now_ns();
            if now_ns < due_ns {
                // A signal; the kernel goes on from where it was.
                continue;
            }
            let late_ns = now_ns - due_ns;
            if late_ns >= PAUSE_MIN_NS {
                self.taint.tell(&Pause { start_ns: due_ns, end_ns: now_ns, cpu: log.cpu });
            }
            log.note(due_ns, late_ns);
            due_ns = (due_ns + PERIOD_NS).max(now_ns + PERIOD_NS / 2);
        }
    }
}

/// CPU time of a thread that has not been joined; 0 where its clock cannot be read.
fn cpu_ns(thread: &JoinHandle<()>) -> u64 {
    // SAFETY: the thread exists until it is joined, and it cannot be joined while it is borrowed; both calls write
    // plain numbers to the places they are given.
    unsafe {
        let (mut clock, mut used) = (0, MaybeUninit::<libc::timespec>::zeroed().assume_init());
        let is_read = libc::pthread_getcpuclockid(thread.as_pthread_t(), &raw mut clock) == 0
            && libc::clock_gettime(clock, &raw mut used) == 0;
        if is_read { used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64 } else { 0 }
    }
}

/// Raises the calling thread above all that have no real-time priority.
fn take_precedence() -> Result<(), String> {
    // SAFETY: plain numbers, for which zero is a value; the call reads them and changes the calling thread only.
    let refused = unsafe {
        let mut param: libc::sched_param = MaybeUninit::zeroed().assume_init();
        param.sched_priority = PRIORITY;
        libc::pthread_setschedparam(libc::pthread_self(), libc::SCHED_FIFO, &raw const param)
    };
    let why = std::io::Error::from_raw_os_error(refused);
    let words = || format!("no real-time priority ({why}); give CAP_SYS_NICE or run as root");
    if refused == 0 { Ok(()) } else { Err(words()) }
}

/// An observer, which sees what the witness notes after the observer was made.
#[derive(Debug)]
pub struct Watch {
    threads: Arc<Threads>,
    /// The number of each processor's next wake-up.
    next: Vec<u64>,
    seen: Seen,
}

impl Watch {
    /// Takes over what there is. To be called every few seconds: older wake-ups are forgotten.
    pub fn look(&mut self) {
        let Self { threads, next, seen } = self;
        let shared = &threads.shared;
        for (log, next) in shared.logs.iter().zip(next) {
            let mut first_ns = None;
            let (after, forgotten) = log.read_from(*next, &mut |due_ns, late_ns| {
                first_ns = first_ns.or(Some(due_ns));
                seen.wake_ups += 1;
                let lateness = seen.lateness.get_or_insert_with(|| Digits::Two.empty());
                lateness.saturating_record(late_ns.min(TOP_NS));
                if late_ns >= PAUSE_MIN_NS {
                    seen.pauses.push(Pause { start_ns: due_ns, end_ns: due_ns + late_ns, cpu: log.cpu });
                }
            });
            *next = after;
            if forgotten > 0 {
                seen.forgotten += forgotten;
                seen.unseen_to_ns = seen.unseen_to_ns.max(first_ns.unwrap_or_else(|| shared.clock.now_ns()));
            }
        }
        seen.to_ns = shared.clock.now_ns();
    }

    /// The pauses that were seen since it was last taken.
    pub(crate) fn pauses(&self) -> &[Pause] {
        &self.seen.pauses
    }

    /// Returns the observations since the last call.
    pub fn take(&mut self) -> Seen {
        self.look();
        let from_ns = self.seen.to_ns;
        let mut seen = std::mem::replace(&mut self.seen, Seen { from_ns, ..Seen::default() });
        seen.pauses.sort_unstable_by_key(|pause| pause.end_ns);
        seen
    }
}

/// Observations of the machine's pauses. Times are nanoseconds on the run's clock.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Beginning of the time that was watched.
    pub from_ns: u64,
    /// End of the pause.
    pub to_ns: u64,
    /// Pauses of 1 ms and more, by their ends.
    pub pauses: Vec<Pause>,
    /// Wake-ups of the witness, on all processors.
    pub wake_ups: u64,
    /// Delays of the wake-ups (2 digits); `None` without wake-ups.
    pub lateness: Option<Histogram<u64>>,
    /// Wake-ups that were overwritten before they were read.
    pub forgotten: u64,
    /// End of the last of them: pauses before it may be missing. 0 where none was forgotten.
    pub unseen_to_ns: u64,
}

impl Seen {
    /// Seconds that were watched.
    pub fn seconds(&self) -> f64 {
        self.to_ns.saturating_sub(self.from_ns) as f64 / 1e9
    }

    /// Share of the time, 0 to 1, that was in pauses of `min_ns` (1 ms and more) or longer, on any processor.
    pub fn share_above(&self, min_ns: u64) -> f64 {
        let watched_ns = self.to_ns.saturating_sub(self.from_ns).max(1);
        paused_ns(&self.pauses, min_ns, self.from_ns, self.to_ns) as f64 / watched_ns as f64
    }

    /// The longest pause, in nanoseconds; 0 when there was none.
    pub fn longest_ns(&self) -> u64 {
        self.pauses.iter().map(Pause::length_ns).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wake_ups_that_were_forgotten_are_counted() {
        let log = WakeUpLog::new(0);
        (0..10).for_each(|number| log.note(number, 0));
        let mut seen = Vec::new();
        assert_eq!(log.read_from(4, &mut |due_ns, _| seen.push(due_ns)), (10, 0));
        assert_eq!(seen, [4, 5, 6, 7, 8, 9]);
        (10..3_010).for_each(|number| log.note(number, 0));
        seen.clear();
        assert_eq!(log.read_from(10, &mut |due_ns, _| seen.push(due_ns)), (3_010, 3_000 - (MEMORY - 1)));
        assert_eq!((seen.len() as u64, seen.last()), (MEMORY - 1, Some(&3_009)));
    }

    #[test]
    fn a_processor_that_cannot_be_had_is_no_lack_of_priority() {
        let shared = Shared {
            clock: Clock::start(),
            logs: Box::new([WakeUpLog::new(CpuSet::MAX_CPU as u32 - 1)]),
            taint: Arc::default(),
            ends: AtomicBool::new(true),
        };
        let (ready, begun) = channel();
        shared.witness(0, &ready);
        let words = begun.recv().unwrap().unwrap_err();
        assert!(words.starts_with("no thread can be bound to processor 1023 ("), "{words}");
        assert!(!words.contains("priority"), "{words}");
    }
}
