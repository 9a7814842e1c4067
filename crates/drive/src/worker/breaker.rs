//! Circuit breakers: a client that fails several times in a row sends nothing for a while (Nygard, Release It!, 2007).
//!
//! A circuit that is open stands with the rests of clients. In a closed loop its client rests. In an open loop it also
//! rejects what is due, if no other session is idle. After the rest one operation is sent: the circuit is closed by its
//! success, and opened again by its failure. A success costs nothing here: it is seen as a gap in the numbers of the
//! operations that failed.

use std::ops::Range;

use plimsoll_core::pace::Breaker;
use plimsoll_core::{Answer, Outcome};

use super::{Busy, Lane, Next, WorkerCore};
use crate::result::{BreakerCounts, StopReason};
use crate::schedule::NEVER_NS;

/// The circuits of a worker's lanes.
pub(crate) struct Circuits {
    breaker: Breaker,
    lanes: Box<[Circuit]>,
    /// Answer to an operation that is not sent.
    answer: Answer,
    counts: BreakerCounts,
}

#[derive(Debug, Clone, Copy, Default)]
struct Circuit {
    /// Number of the operation after the last failed one.
    cycle: u64,
    /// Failures in a row.
    failures: u32,
    is_open: bool,
    /// True if the session of an open circuit takes operations.
    is_ready: bool,
}

impl Circuits {
    /// Takes its memory here.
    pub fn new(breaker: Breaker, lanes: usize) -> Self {
        let mut answer = Answer::default();
        answer.fail(Outcome::Rejected, "breaker", "not sent: the client's circuit breaker is open");
        Self { breaker, lanes: vec![Circuit::default(); lanes].into(), answer, counts: BreakerCounts::default() }
    }

    /// Notes a failure of a lane whose next operation is `cycle`. It follows the failure before if at most `gap_max`
    /// operations began since. Returns true if it opens the circuit.
    fn failed(&mut self, lane: usize, cycle: u64, gap_max: u64) -> bool {
        let circuit = &mut self.lanes[lane];
        let is_in_a_row = cycle.saturating_sub(circuit.cycle) <= gap_max;
        circuit.failures = if is_in_a_row { circuit.failures.saturating_add(1) } else { 1 };
        circuit.cycle = cycle;
        let opens = !circuit.is_open && circuit.failures >= self.breaker.failures;
        if opens {
            (circuit.is_open, circuit.is_ready) = (true, false);
        }
        opens
    }

    /// Notes that operation `cycle` of a lane is sent again. Its success is a gap, too.
    pub fn tries_again(&mut self, lane: usize, cycle: u64) {
        self.lanes[lane].cycle = cycle;
    }

    /// Returns true if the circuit of a lane is open.
    pub fn is_open(&self, lane: u32) -> bool {
        self.lanes[lane as usize].is_open
    }

    /// The session of `lane` is ready. Returns true if it rests, because its circuit is open.
    pub fn is_ready(&mut self, lane: u32) -> bool {
        let circuit = &mut self.lanes[lane as usize];
        circuit.is_ready = circuit.is_open;
        circuit.is_open
    }

    /// The rest of `lane` is over. Returns true if its session is ready.
    pub fn half_opens(&mut self, lane: u32) -> bool {
        let circuit = &mut self.lanes[lane as usize];
        let was_open = std::mem::take(&mut circuit.is_open);
        !was_open || circuit.is_ready
    }

    /// The sessions of `lanes` are not there any more.
    pub fn remove(&mut self, lanes: &Range<u32>) {
        lanes.clone().for_each(|lane| self.lanes[lane as usize].is_ready = false);
    }

    /// Returns the counts at the end of the phase.
    pub fn report(self) -> BreakerCounts {
        self.counts
    }
}

impl WorkerCore {
    fn circuits(&mut self) -> Option<&mut Circuits> {
        self.rests.as_mut()?.circuits.as_mut()
    }

    /// Notes a failure of `lane`, which may open its circuit. Returns true if the circuit is open.
    pub(super) fn breaks(&mut self, lane: usize, now_ns: u64, gap_max: u64) -> bool {
        let Lane { client, cycle, end_cycle, .. } = self.lanes[lane];
        let is_counted = now_ns >= self.grid.warmup_end_ns;
        let Some(rests) = &mut self.rests else { return false };
        let Some(circuits) = &mut rests.circuits else { return false };
        if !circuits.failed(lane, cycle, gap_max) {
            return circuits.is_open(lane as u32);
        }
        circuits.counts.opened += u64::from(is_counted);
        let half_open_ns = now_ns.saturating_add(circuits.breaker.wait_ns);
        // A client that is done is not waited for.
        let until_ns = match cycle < end_cycle {
            true => rests.until(&self.grid, client, cycle, Some(now_ns), half_open_ns),
            false => now_ns,
        };
        rests.push(lane as u32, until_ns);
        // A generator without delay would reject what is due from now on.
        self.lanes[lane].free_ns = now_ns;
        true
    }

    /// The session of `lanes` could not be opened again. `answer` is the error.
    #[cold]
    pub fn not_connected(&mut self, lanes: Range<usize>, now_ns: u64, answer: &Answer) {
        self.errors.note(now_ns, Outcome::Rejected, answer);
        for lane in lanes {
            let Lane { busy, cycle, end_cycle, .. } = self.lanes[lane];
            // An operation that is not over fails by itself, and a client that is done needs no session.
            if busy == Busy::No as u64 && cycle < end_cycle && self.breaks(lane, now_ns, 0) {
                self.give_up_retry(lane, now_ns);
            }
        }
    }

    /// Returns the next action if no session is idle. Clients with open circuits reject what is due.
    pub(super) fn without_idle(&mut self, now_ns: u64) -> Next {
        let mut wake_ns = self.grid.end_ns.unwrap_or(u64::MAX);
        while self.is_open
            && let Some(lane) = self.rests.as_ref().and_then(|rests| rests.first())
        {
            match self.due() {
                Some(at_ns) if at_ns <= now_ns => self.reject(lane as usize, at_ns, now_ns),
                // A schedule that is over and no clock that would end the phase.
                Some(NEVER_NS) if self.grid.end_ns.is_none() => self.end(now_ns, StopReason::Exhausted),
                due_ns => {
                    wake_ns = wake_ns.min(due_ns.unwrap_or(u64::MAX));
                    break;
                }
            }
            if self.ended.is_some() {
                return Next::Stop;
            }
        }
        let rested_ns = self.rests.as_ref().and_then(|rests| rests.next_ns());
        rested_ns.map_or(Next::Wait, |at_ns| Next::SleepUntil(at_ns.min(wake_ns)))
    }

    /// The client of a lane, whose circuit is open, takes an operation that is due, and does not send it.
    #[cold]
    fn reject(&mut self, index: usize, scheduled_ns: u64, now_ns: u64) {
        if self.begin_op(index, scheduled_ns, now_ns).is_none() {
            if let Some(rests) = &mut self.rests {
                rests.take(index as u32);
            }
            return;
        }
        let answer = self.circuits().map(|circuits| std::mem::take(&mut circuits.answer)).unwrap_or_default();
        self.finish(index, now_ns, Outcome::Rejected, &answer);
        let is_counted = now_ns >= self.grid.warmup_end_ns;
        if let Some(circuits) = self.circuits() {
            circuits.answer = answer;
            circuits.counts.rejected += u64::from(is_counted);
        }
    }
}
