//! Observers that see every operation sent and finished.

use crate::op::{Answer, Op, Outcome, Ticket};

/// Called by a worker for each operation, on the worker's thread: must not allocate, lock or wait.
pub trait Observer: Send {
    /// Operation `cycle` of `client` is about to be sent, at `at_ns` on the run's clock.
    fn sent(&mut self, ticket: Ticket, at_ns: u64, client: u32, cycle: u64, op: &Op<'_>);

    /// The operation of `ticket` ended with `outcome` at `at_ns`.
    fn finished(&mut self, ticket: Ticket, at_ns: u64, outcome: Outcome, answer: &Answer);

    /// The server of this number answers the operations of `ticket` from now on. Until the first call of a ticket, the
    /// server of number 0 answers its operations.
    fn answered_by(&mut self, _ticket: Ticket, _server: u32) {}

    /// A step of operation `cycle` of `client`, which is known by `ticket`, is about to be sent. Steps do not count
    /// as operations.
    fn step_sent(&mut self, _ticket: Ticket, _at_ns: u64, _client: u32, _cycle: u64, _op: &Op<'_>) {}

    /// The oldest unanswered step of the operation ended with `outcome`. Steps without an answer when the operation
    /// is finished are unknown.
    fn step_finished(&mut self, _ticket: Ticket, _at_ns: u64, _outcome: Outcome, _answer: &Answer) {}
}
