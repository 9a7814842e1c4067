//! State shared by a worker and the control thread: counts, and the activity of the worker.
//!
//! A worker owns two sets of histograms and writes slice `k` into set `k mod 2`; moving on to the next
//! slice is the swap. It moves when its own clock says so, and only into a set that the control thread has
//! emptied; if the control thread is behind, the slice stays open longer instead of the worker waiting.
//!
//! The control thread takes slice `k` from a worker once the worker has moved on, or while it is *away*:
//! inside a store's call or asleep. Whatever an away worker finishes ends after the slice did, so it will
//! move on before it counts it. Away is looked at only [`GRACE_NS`] after the slice's end, which is far
//! longer than a processor takes to make a store visible, so a worker that read its clock before the end
//! is seen to be working. All fields are atomics with one writer at a time and plain moves as code.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plimsoll_core::{
    AFFECTED_NS, Address, ClientSet, ClientSilence, KindId, Measure, Outcome, ServerTicks, TICK_NS, Tick,
};

use crate::histogram::{Digits, WorkerHistogram};
use crate::key_parts::PartTicks;
use crate::silence::LongestSilences;

/// Servers that are told apart at most: those of the highest numbers are not.
pub(crate) const SERVERS_MAX: usize = 64;
/// Sets of histograms to a worker.
pub(crate) const RING: u32 = 2;
/// Ticks that fill the room behind a worker's, so that another worker's are not in the same cache line.
const TICKS_BEHIND: usize = 128 / size_of::<TickCounts>();
/// Server bits that do so.
const BITS_BEHIND: usize = 128 / size_of::<AtomicU64>();
/// Time from a slice's end until the control thread begins to collect it.
pub(crate) const GRACE_NS: u64 = 1_000_000;

const WORKING: u64 = 0;
const ASLEEP: u64 = u64::MAX;

const GOES_ON: u32 = 0;
const QUESTIONED: u32 = 1;
const GIVEN_UP: u32 = 2;

/// Operations of a tick: answered and failed.
type TickCounts = [AtomicU32; 2];

/// The counts of one slice.
#[derive(Debug)]
pub(crate) struct Tally {
    /// Histograms by operation type, outcome and measure; see [`Tally::index`].
    histograms: Box<[WorkerHistogram]>,
    measures: usize,
    /// Waiting times of clients for disturbed operations, by operation type and outcome; none without a witness.
    disturbed: Box<[WorkerHistogram]>,
    /// Waiting times of clients for the answers of each server; none if all operations go to one.
    servers: Box<[WorkerHistogram]>,
    /// Operations by the tick in which they ended; none if ticks are not counted.
    ticks: Vec<TickCounts>,
    /// Bits of the servers that answered in each tick; none if ticks are not counted, or all operations go to one.
    server_ticks: Vec<AtomicU64>,
    /// Bits of affected clients, by their numbers; none if ticks are not counted.
    affected: Box<[AtomicU64]>,
    /// Number of clients of the phase.
    clients: u32,
    pub silences: LongestSilences,
    pub key_parts: PartTicks,
    pub lag: WorkerHistogram,
    pub unfinished: WorkerHistogram,
}

impl Tally {
    fn new(sizes: &BoardSizes) -> io::Result<Self> {
        let BoardSizes { kinds, open, watched, servers, ticks: tick_count, clients, lanes, parts } = *sizes;
        let measures = if open { 2 } else { 1 };
        let mut all = WorkerHistogram::several(&Self::digits(kinds, measures, watched, servers))?.into_iter();
        let (Some(lag), Some(unfinished)) = (all.next(), all.next()) else { unreachable!("two of them stand first") };
        let server_bits = if servers > 0 { tick_count } else { 0 };
        let servers = all.by_ref().take(servers).collect();
        let histograms = all.by_ref().take(kinds * Outcome::ALL.len() * measures).collect();
        let mut ticks = Vec::new();
        if tick_count > 0 {
            ticks.reserve_exact(tick_count + TICKS_BEHIND);
            ticks.resize_with(tick_count, TickCounts::default);
        }
        let mut server_ticks = Vec::new();
        if server_bits > 0 {
            server_ticks.reserve_exact(server_bits + BITS_BEHIND);
            server_ticks.resize_with(server_bits, AtomicU64::default);
        }
        let words = if tick_count > 0 { clients.div_ceil(u64::BITS) } else { 0 };
        let affected = (0..words).map(|_| AtomicU64::new(0)).collect();
        let disturbed = all.collect();
        let silences = LongestSilences::of(if tick_count > 0 { lanes } else { 0 });
        let key_parts = PartTicks::new(parts, tick_count);
        Ok(Self {
            histograms,
            measures,
            disturbed,
            servers,
            ticks,
            server_ticks,
            affected,
            clients,
            silences,
            key_parts,
            lag,
            unfinished,
        })
    }

    /// Returns the digits of the scheduling delay, of operations never sent, of servers, and of each operation type.
    fn digits(kinds: usize, measures: usize, watched: bool, servers: usize) -> Vec<Digits> {
        let each = |measures: usize| {
            (0..kinds * Outcome::ALL.len() * measures).map(move |index| {
                let ok = index / measures % Outcome::ALL.len() == Outcome::Ok as usize;
                if ok { Digits::Three } else { Digits::Two }
            })
        };
        let servers = std::iter::repeat_n(Digits::Two, servers);
        [Digits::Two, Digits::Three]
            .into_iter()
            .chain(servers)
            .chain(each(measures))
            .chain(each(usize::from(watched)))
            .collect()
    }

    #[inline]
    fn index(&self, kind: KindId, outcome: Outcome) -> usize {
        (usize::from(kind) * Outcome::ALL.len() + outcome as usize) * self.measures
    }

    /// Counts one operation. The response time is kept in an open loop only: in a closed one they are equal.
    #[inline(always)]
    pub fn record(&self, kind: KindId, outcome: Outcome, service_ns: u64, response_ns: u64) {
        let index = self.index(kind, outcome);
        self.histograms[index].record(service_ns);
        if self.measures == 2 {
            self.histograms[index + 1].record(response_ns);
        }
    }

    /// Counts an operation that was disturbed, beside [`Tally::record`]. Only where there is a witness.
    #[cold]
    pub fn record_disturbed(&self, kind: KindId, outcome: Outcome, waited_ns: u64) {
        self.disturbed[self.index(kind, outcome) / self.measures].record(waited_ns);
    }

    /// Counts an answer of the server with this number, `at_ns` after the slice's start, beside [`Tally::record`].
    #[inline]
    pub fn record_server(&self, server: usize, at_ns: u64, waited_ns: u64) {
        let Some(histogram) = self.servers.get(server) else { return };
        histogram.record(waited_ns);
        if let Some(last) = self.server_ticks.len().checked_sub(1)
            && let Some(bits) = self.server_ticks.get(((at_ns / TICK_NS) as usize).min(last))
        {
            bits.store(bits.load(Relaxed) | (1u64 << server), Relaxed);
        }
    }

    /// Counts an operation in the tick in which it ended, `at_ns` after the slice's start, beside [`Tally::record`].
    /// After the last tick it counts in that one: the slice was not taken in time. `client` is affected if its operation
    /// failed, or took long.
    #[inline]
    pub fn record_tick(&self, at_ns: u64, outcome: Outcome, client: u32, response_ns: u64) {
        if self.ticks.is_empty() {
            return;
        }
        let tick = (at_ns / TICK_NS).min(self.ticks.len() as u64 - 1) as usize;
        let count = &self.ticks[tick][usize::from(outcome.is_error())];
        count.store(count.load(Relaxed).saturating_add(1), Relaxed);
        if outcome.is_error() || response_ns >= AFFECTED_NS {
            self.affect(client);
        }
    }

    #[cold]
    fn affect(&self, client: u32) {
        if let Some(word) = self.affected.get((client / u64::BITS) as usize) {
            word.store(word.load(Relaxed) | (1u64 << (client % u64::BITS)), Relaxed);
        }
    }

    /// Moves the affected clients into `all`: those of other workers of the phase, or none. Leaves none. Without ticks
    /// `all` stays as it is.
    pub fn drain_affected_into(&self, all: &mut Option<ClientSet>) {
        if self.ticks.is_empty() {
            return;
        }
        let all = all.get_or_insert_with(|| ClientSet::none_of(self.clients));
        for (at, word) in self.affected.iter().enumerate() {
            let bits = word.load(Relaxed);
            if bits != 0 {
                word.store(0, Relaxed);
                all.insert_word(at, bits);
            }
        }
    }

    /// Moves the silences of clients into `all`: those of other workers of the phase, or none. Leaves none. Without ticks
    /// `all` stays as it is.
    pub fn drain_silences_into(&self, all: &mut Option<Vec<ClientSilence>>) {
        if !self.ticks.is_empty() {
            self.silences.drain_into(all.get_or_insert_default());
        }
    }

    /// Moves the servers that answered into `all`, as [`Tally::drain_ticks_into`].
    pub fn drain_server_ticks_into(&self, all: &mut Option<ServerTicks>) {
        if self.server_ticks.is_empty() {
            return;
        }
        let none = || ServerTicks { names: Vec::new(), answered: vec![0; self.server_ticks.len()] };
        for (all, bits) in all.get_or_insert_with(none).answered.iter_mut().zip(&self.server_ticks) {
            let answered = bits.load(Relaxed);
            if answered != 0 {
                *all |= answered;
                bits.store(0, Relaxed);
            }
        }
    }

    /// Moves the counts of ticks into `all`: the ticks of another worker of the phase, or none. Leaves these empty.
    pub fn drain_ticks_into(&self, all: &mut Vec<Tick>) {
        let take = |count: &AtomicU32| {
            let n = count.load(Relaxed);
            if n > 0 {
                count.store(0, Relaxed);
            }
            n
        };
        all.resize(self.ticks.len(), Tick::default());
        for (tick, [answered, failed]) in all.iter_mut().zip(&self.ticks) {
            tick.answered = tick.answered.saturating_add(take(answered));
            tick.failed = tick.failed.saturating_add(take(failed));
        }
    }

    /// Returns the response times of servers, by their numbers.
    pub fn servers(&self) -> &[WorkerHistogram] {
        &self.servers
    }

    /// Counts one step of an operation. It has a service time only: steps are not scheduled.
    #[inline]
    pub fn record_step(&self, kind: KindId, outcome: Outcome, service_ns: u64) {
        self.histograms[self.index(kind, outcome)].record(service_ns);
    }

    /// Iterates over all histograms with their keys, in the order in which [`Measure`]s of the same operation share a
    /// position.
    pub fn each(&self) -> impl Iterator<Item = (KindId, Outcome, Measure, &WorkerHistogram)> {
        with_labels(&self.histograms, &MEASURES[..self.measures])
    }

    /// Returns the response times of disturbed operations: one measure each, the one that contains the clients'
    /// waiting.
    pub fn each_disturbed(&self) -> impl Iterator<Item = (KindId, Outcome, Measure, &WorkerHistogram)> {
        with_labels(&self.disturbed, &MEASURES[self.measures - 1..self.measures])
    }
}

/// Measures of an operation; in a closed loop only the first.
const MEASURES: [Measure; 2] = [Measure::Service, Measure::Response];

fn with_labels<'a>(
    all: &'a [WorkerHistogram],
    measures: &'static [Measure],
) -> impl Iterator<Item = (KindId, Outcome, Measure, &'a WorkerHistogram)> {
    all.iter().enumerate().map(move |(index, histogram)| {
        let place = index / measures.len();
        let outcome = Outcome::ALL[place % Outcome::ALL.len()];
        ((place / Outcome::ALL.len()) as KindId, outcome, measures[index % measures.len()], histogram)
    })
}

/// Numbers by which the counts of a board are laid out. 0 of a thing: it is not told apart.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BoardSizes {
    /// Operation types.
    pub kinds: usize,
    /// True if operations have scheduled times.
    pub open: bool,
    /// True if there is a witness, so that operations can be disturbed.
    pub watched: bool,
    /// Servers that are told apart, at most [`SERVERS_MAX`].
    pub servers: usize,
    /// Ticks of a slice; 0: they are not counted.
    pub ticks: usize,
    /// Clients of the phase.
    pub clients: u32,
    /// Clients of the worker.
    pub lanes: usize,
    /// Parts of the keys.
    pub parts: u8,
}

/// See the module. Aligned so that no two workers share a cache line.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Board {
    tallies: [Tally; RING as usize],
    /// The slice that the worker counts into.
    slice: AtomicU32,
    /// `WORKING`, `ASLEEP`, or inside the store since this scheduled time plus one.
    doing: AtomicU64,
    /// The operation a blocking session is doing; valid while `doing` says it is inside the store.
    pub sent_ns: AtomicU64,
    /// Time at which the store was called for a step, which is later than the start of its operation. It is older than
    /// that for other operations.
    step_ns: AtomicU64,
    pub cycle: AtomicU64,
    pub kind: AtomicU32,
    pub started: AtomicU64,
    /// Retries among these, which are no arrivals of the schedule.
    pub retried: AtomicU64,
    pub finished: AtomicU64,
    /// Wire workers, at their last slice's end: scheduled time of the oldest operation in flight.
    pub oldest_ns: AtomicU64,
    /// Wire workers, at their last slice's end: CPU time since the thread began.
    pub cpu_ns: AtomicU64,
    /// Counts of voluntary and involuntary context switches at the end of the worker's last slice.
    pub voluntary: AtomicU64,
    pub involuntary: AtomicU64,
    /// Time that the worker was ready to run while others had its processor, by the end of its last slice.
    pub queued_ns: AtomicU64,
    /// State of the control thread's decision to give the worker up: see [`Board::question`].
    verdict: AtomicU32,
}

/// Activity of a worker, as the control thread sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doing {
    Working,
    Asleep,
    InStore { scheduled_ns: u64 },
}

/// Bytes of addresses that the counts of a worker take at most, where there are `kinds` of operations. Memory is used of
/// them as far as they are touched.
pub fn worker_addresses(kinds: usize) -> u64 {
    let counts: usize = Tally::digits(kinds, 2, true, 0).iter().map(|digits| digits.counts()).sum();
    (counts * size_of::<u32>()) as u64 * u64::from(RING)
}

impl Board {
    /// Makes the board of a worker.
    ///
    /// # Errors
    /// There is no memory for its histograms.
    pub fn new(sizes: &BoardSizes) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            tallies: [Tally::new(sizes)?, Tally::new(sizes)?],
            slice: AtomicU32::new(0),
            doing: AtomicU64::new(WORKING),
            sent_ns: AtomicU64::new(0),
            step_ns: AtomicU64::new(0),
            cycle: AtomicU64::new(0),
            kind: AtomicU32::new(0),
            started: AtomicU64::new(0),
            retried: AtomicU64::new(0),
            finished: AtomicU64::new(0),
            oldest_ns: AtomicU64::new(u64::MAX),
            cpu_ns: AtomicU64::new(0),
            voluntary: AtomicU64::new(0),
            involuntary: AtomicU64::new(0),
            queued_ns: AtomicU64::new(0),
            verdict: AtomicU32::new(GOES_ON),
        }))
    }

    #[inline]
    pub fn tally(&self, ordinal: u32) -> &Tally {
        &self.tallies[(ordinal % RING) as usize]
    }

    /// The worker moves on to slice `ordinal`: everything it counted before is there to be taken.
    pub fn move_to(&self, ordinal: u32) {
        self.slice.store(ordinal, Release);
    }

    pub fn slice(&self) -> u32 {
        self.slice.load(Acquire)
    }

    /// The worker goes into the store with a step, at `step_ns`, of an operation.
    pub fn enter_store_for_step(&self, kind: KindId, cycle: u64, scheduled_ns: u64, sent_ns: u64, step_ns: u64) {
        self.step_ns.store(step_ns, Relaxed);
        self.enter_store(kind, cycle, scheduled_ns, sent_ns);
    }

    pub fn called_ns(&self) -> u64 {
        self.sent_ns.load(Relaxed).max(self.step_ns.load(Relaxed))
    }

    #[inline]
    pub fn enter_store(&self, kind: KindId, cycle: u64, scheduled_ns: u64, sent_ns: u64) {
        self.sent_ns.store(sent_ns, Relaxed);
        self.cycle.store(cycle, Relaxed);
        self.kind.store(u32::from(kind), Relaxed);
        self.doing.store(scheduled_ns.saturating_add(1).min(ASLEEP - 1), Release);
    }

    pub fn fall_asleep(&self) {
        self.doing.store(ASLEEP, Release);
    }

    /// The worker is back. Comes before it reads its clock. False when it has been given up meanwhile: it must count
    /// and report nothing any more.
    #[inline]
    pub fn back(&self) -> bool {
        self.doing.store(WORKING, Release);
        self.verdict.load(Acquire) == GOES_ON || self.hear_verdict()
    }

    #[cold]
    fn hear_verdict(&self) -> bool {
        loop {
            match self.verdict.load(Acquire) {
                GOES_ON => return true,
                GIVEN_UP => return false,
                _ => std::thread::sleep(Duration::from_micros(50)),
            }
        }
    }

    /// The control thread asks itself whether to give a worker up that is inside the store. A worker that comes back
    /// waits for the answer, which must follow after [`GRACE_NS`]: one that came back a moment before, without having
    /// seen the question, is seen to be back by then, so that an operation is never both ended and given up.
    pub fn question(&self) {
        self.verdict.store(QUESTIONED, Release);
    }

    /// The answer to [`Board::question`]: the worker is given up when it is still inside the call it was in then.
    pub fn give_up(&self, called_ns: u64) -> bool {
        let is_inside = matches!(self.doing(), Doing::InStore { .. }) && self.called_ns() == called_ns;
        self.verdict.store(if is_inside { GIVEN_UP } else { GOES_ON }, Release);
        is_inside
    }

    pub fn doing(&self) -> Doing {
        match self.doing.load(Acquire) {
            WORKING => Doing::Working,
            ASLEEP => Doing::Asleep,
            since => Doing::InStore { scheduled_ns: since - 1 },
        }
    }
}

/// State shared by all workers of a phase.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Slices that the control thread has taken and emptied.
    pub taken: AtomicU32,
    /// True when no operation may start: a worker met the end of the phase, or the control thread did.
    pub halt: AtomicBool,
    /// The planned end, where there is one. It may be put off until shortly before it has come.
    pub end_ns: AtomicU64,
    /// The caller's wish to end the phase.
    pub stop: Arc<AtomicBool>,
    /// Addresses of servers, by their numbers, if operations go to several.
    pub servers: Mutex<Vec<Address>>,
}

impl Shared {
    /// Returns the unique number of the server at `address`. Too slow for every operation.
    pub fn server(&self, address: &Address) -> usize {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        servers.iter().position(|known| known == address).unwrap_or_else(|| {
            servers.push(address.clone());
            servers.len() - 1
        })
    }

    pub fn must_end(&self) -> bool {
        self.halt.load(Relaxed) || self.is_cancelled()
    }

    pub fn is_cancelled(&self) -> bool {
        self.stop.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn an_operation_that_returns_while_it_is_given_up_has_either_ended_or_been_given_up() {
        let spin = |length: Duration| {
            let begin = Instant::now();
            while begin.elapsed() < length {
                std::hint::spin_loop();
            }
        };
        let mut given_up = 0;
        let trials = 400;
        for trial in 0..trials {
            let board = Board::new(&BoardSizes { kinds: 1, ..BoardSizes::default() }).unwrap();
            board.enter_store_for_step(0, trial, 5, 5, 7);
            let worker = board.clone();
            let asked = Arc::new(AtomicBool::new(false));
            let go = asked.clone();
            let thread = std::thread::spawn(move || {
                while !go.load(Acquire) {
                    std::hint::spin_loop();
                }
                // From well before the question to well after the answer.
                spin(Duration::from_micros(trial * 2));
                worker.back()
            });
            asked.store(true, Release);
            spin(Duration::from_micros(50));
            board.question();
            spin(Duration::from_micros(500));
            let is_given_up = board.give_up(7);
            assert_eq!(thread.join().unwrap(), !is_given_up, "trial {trial}");
            given_up += u64::from(is_given_up);
        }
        assert!(given_up > 0 && given_up < trials, "{given_up} of {trials}");
    }

    #[test]
    fn a_worker_that_is_in_its_next_call_by_then_is_not_given_up() {
        let board = Board::new(&BoardSizes { kinds: 1, ..BoardSizes::default() }).unwrap();
        board.enter_store(0, 0, 5, 7);
        assert!(board.back());
        board.enter_store(0, 1, 8, 9);
        board.question();
        assert!(!board.give_up(7));
        assert!(board.back());
    }
}
