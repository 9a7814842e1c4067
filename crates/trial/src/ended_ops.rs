//! Number of operations that a drive has ended, for faults that begin at a number of operations.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_core::{Answer, Observer, Op, Outcome, Ticket};

/// Observer of a worker that counts, and tells another one of everything.
struct EndedOps {
    ended: Arc<AtomicU64>,
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

/// Returns observers, one for each of `workers`, that count in `ended` and tell `observers`, if there are any.
pub(crate) fn counting(
    observers: Vec<Box<dyn Observer>>,
    workers: usize,
    ended: &Arc<AtomicU64>,
) -> Vec<Box<dyn Observer>> {
    let mut inner = observers.into_iter();
    let all = (0..workers).map(|_| EndedOps { ended: Arc::clone(ended), inner: inner.next() });
    all.map(|observer| Box::new(observer) as Box<dyn Observer>).collect()
}

#[cfg(test)]
#[path = "ended_ops_tests.rs"]
mod tests;
