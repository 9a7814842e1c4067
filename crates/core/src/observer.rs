//! Whoever wants to see every operation go out and come back.

use crate::op::{Answer, Op, Outcome, Ticket};

/// Called by a worker for each operation, on the worker's thread: must not allocate, lock or wait.
pub trait Observer: Send {
    /// Operation `cycle` of `client` is about to be sent, at `at_ns` on the run's clock.
    fn sent(&mut self, ticket: Ticket, at_ns: u64, client: u32, cycle: u64, op: &Op<'_>);

    /// The operation known by `ticket` came to `outcome` at `at_ns`.
    fn finished(&mut self, ticket: Ticket, at_ns: u64, outcome: Outcome, answer: &Answer);

    /// A step of operation `cycle` of `client`, which is known by `ticket` and is one of several steps, is about to be
    /// sent. Steps are no operations: who counts operations need not look.
    fn step_sent(&mut self, _ticket: Ticket, _at_ns: u64, _client: u32, _cycle: u64, _op: &Op<'_>) {}

    /// The oldest step of the operation that had no answer came to `outcome`. Steps without an answer when the operation
    /// is finished are unknown.
    fn step_finished(&mut self, _ticket: Ticket, _at_ns: u64, _outcome: Outcome, _answer: &Answer) {}
}
