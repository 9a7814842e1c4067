//! Operations that a drive has ended, for faults that wait for them: their number, and the times of the newest answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_core::sampler::CLIENTS;
use plimsoll_core::{Answer, Observer, Op, Outcome, Ticket};
use plimsoll_plan::timeline::{FaultCondition, PlannedFault};

use crate::readings::SeenReading;

/// Times of the newest answers to clients, on the run's clock. Errors are no answers.
#[derive(Debug, Default)]
pub struct NewestAnswers {
    /// Nanoseconds by client host, or of all clients together; 0 before the first answer.
    at_ns: Vec<AtomicU64>,
}

impl NewestAnswers {
    /// Makes the times of a drive with so many client hosts; 0 if its clients have none of their own.
    pub(crate) fn of(hosts: usize) -> Self {
        Self { at_ns: (0..hosts.max(1)).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Notes an answer to a client of a worker. Workers are dealt to the hosts in turn.
    pub(crate) fn answered(&self, worker: usize, at_ns: u64) {
        if let Some(newest) = worker.checked_rem(self.at_ns.len()).and_then(|host| self.at_ns.get(host)) {
            newest.fetch_max(at_ns, Ordering::Relaxed);
        }
    }

    /// Returns the time at `now_ns` since the newest answer to the clients that a condition is about, or since
    /// `since_ns` if that is later. `None` before `since_ns`, and for a condition on another reading.
    pub(crate) fn silence(&self, condition: &FaultCondition, since_ns: u64, now_ns: u64) -> Option<SeenReading> {
        if condition.source != CLIENTS || now_ns < since_ns {
            return None;
        }
        let mut newest = self.at_ns.iter().map(|at_ns| at_ns.load(Ordering::Relaxed));
        let newest_ns = match condition.client_host() {
            Some(host) => newest.nth(host)?,
            None => newest.max()?,
        };
        let silent_ns = now_ns.saturating_sub(newest_ns.max(since_ns));
        Some(SeenReading { value: silent_ns as f64 / 1e9, unit: "s".to_owned() })
    }
}

/// Observer of a worker that counts, and tells another one of everything.
struct EndedOps {
    worker: usize,
    ended: Arc<AtomicU64>,
    answers: Arc<NewestAnswers>,
    inner: Option<Box<dyn Observer>>,
}

impl Observer for EndedOps {
    fn sent(&mut self, ticket: Ticket, at_ns: u64, client: u32, cycle: u64, op: &Op<'_>) {
        if let Some(inner) = &mut self.inner {
            inner.sent(ticket, at_ns, client, cycle, op);
        }
    }

    fn finished(&mut self, ticket: Ticket, at_ns: u64, outcome: Outcome, answer: &Answer) {
        self.ended.fetch_add(1, Ordering::Relaxed);
        if !outcome.is_error() {
            self.answers.answered(self.worker, at_ns);
        }
        if let Some(inner) = &mut self.inner {
            inner.finished(ticket, at_ns, outcome, answer);
        }
    }

    fn answered_by(&mut self, ticket: Ticket, server: u32) {
        if let Some(inner) = &mut self.inner {
            inner.answered_by(ticket, server);
        }
    }

    fn step_sent(&mut self, ticket: Ticket, at_ns: u64, client: u32, cycle: u64, op: &Op<'_>) {
        if let Some(inner) = &mut self.inner {
            inner.step_sent(ticket, at_ns, client, cycle, op);
        }
    }

    fn step_finished(&mut self, ticket: Ticket, at_ns: u64, outcome: Outcome, answer: &Answer) {
        if let Some(inner) = &mut self.inner {
            inner.step_finished(ticket, at_ns, outcome, answer);
        }
    }
}

/// Returns true for a fault that waits for a number of operations, or for silent clients.
pub(crate) fn are_awaited(fault: &PlannedFault) -> bool {
    fault.at_ops.is_some() || fault.when.as_ref().is_some_and(|condition| condition.source == CLIENTS)
}

/// Returns observers, one for each of `workers`, that count in `ended`, note the times of `answers`, and tell
/// `observers`, if there are any.
pub(crate) fn counting(
    observers: Vec<Box<dyn Observer>>,
    workers: usize,
    ended: &Arc<AtomicU64>,
    answers: &Arc<NewestAnswers>,
) -> Vec<Box<dyn Observer>> {
    let mut inner = observers.into_iter();
    let all = (0..workers).map(|worker| {
        let (ended, answers) = (Arc::clone(ended), Arc::clone(answers));
        EndedOps { worker, ended, answers, inner: inner.next() }
    });
    all.map(|observer| Box::new(observer) as Box<dyn Observer>).collect()
}

#[cfg(test)]
#[path = "ended_ops_tests.rs"]
mod tests;
