//! Reads of clients that know nothing of each other under one Sync.
//!
//! What stands between two Syncs is one implicit transaction to the server, and an error in it makes the server skip
//! the rest. So only reads share one, none of them has an outcome before ReadyForQuery says that the transaction
//! is over, and where one fails the others are asked again, each with a Sync of its own: to their clients they
//! took longer, and nothing else. What the server answered to them before the error counts for nothing.

use std::collections::VecDeque;

use plimsoll_core::{Answer, CompletionSink, Op, Outcome, StoreError, Ticket};

use super::failure::leaves_transaction;
use super::message::{SYNC, broken, unexpected};
use super::session::{InFlight, PgSession, Transaction, What};

/// State of an operation that shares a Sync.
#[derive(Debug, Clone, Copy)]
pub(super) struct Joined {
    /// Bytes of the operation in [`Joint::sent`].
    bytes: u32,
    /// Outcome of the operation if its transaction holds.
    outcome: Outcome,
}

/// The operations that share a Sync: those that are being answered stand at the front of the queue, those that are
/// being started at its end.
#[derive(Debug, Default)]
pub(super) struct Joint {
    /// Answers of the completed operations at the front, in order. Further entries are free.
    held: Vec<Answer>,
    /// Number of completed operations.
    held_count: usize,
    /// All that share the Sync are completed; it is still to be answered.
    complete: bool,
    /// The one at the front that failed.
    failed: Option<usize>,
    /// Started, and not followed by a Sync yet.
    open: u32,
    /// The messages of all of them that have no answer, to be sent again.
    sent: VecDeque<u8>,
}

impl Joint {
    /// Returns the position in the queue of the operation that the server answers next.
    #[inline]
    pub fn position(&self) -> usize {
        self.held_count - usize::from(self.complete)
    }

    /// Returns true if a request was started and is not followed by a Sync.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.open > 0
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.held.clear();
        self.sent.clear();
        self.open = 0;
        self.next();
    }

    /// Removes the operations at the front, which have been answered.
    fn next(&mut self) {
        self.held_count = 0;
        self.complete = false;
        self.failed = None;
    }
}

impl PgSession {
    /// Starts a read that shares a Sync with what follows.
    #[inline]
    pub(super) fn start_joined(&mut self, ticket: Ticket, op: &Op<'_>, out: &mut Vec<u8>) {
        let at = out.len();
        let commands = self.kinds[usize::from(op.kind)].execute(op.params, out);
        let message = out.get(at..).unwrap_or_default();
        self.joint.sent.extend(message);
        self.joint.open += 1;
        let joined = Some(Joined { bytes: message.len() as u32, outcome: Outcome::Ok });
        self.queue.push_back(InFlight { ticket, what: What::Kind(op.kind), commands, synced: false, joined });
        if !op.more {
            self.end_joint(out);
        }
    }

    /// Appends the Sync, as no further request follows immediately.
    #[inline]
    pub(super) fn end_joint(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&SYNC);
        if let Some(last) = self.queue.back_mut() {
            last.synced = true;
            // One alone shares nothing.
            if self.joint.open == 1
                && let Some(alone) = last.joined.take()
            {
                self.joint.sent.truncate(self.joint.sent.len() - alone.bytes as usize);
            }
        }
        self.joint.open = 0;
    }

    /// Completes one of the operations, which holds if all are completed.
    #[inline]
    pub(super) fn hold(&mut self, current: InFlight) -> Result<(), StoreError> {
        let position = self.joint.held_count;
        if self.joint.complete {
            return Err(unexpected(b'C', "where the answer to Sync was due"));
        }
        if position == self.joint.held.len() {
            self.joint.held.push(Answer::default());
        }
        if let (Some(held), Some(InFlight { joined: Some(joined), .. })) =
            (self.joint.held.get_mut(position), self.queue.get_mut(position))
        {
            std::mem::swap(held, &mut self.answer);
            joined.outcome = self.outcome;
        }
        self.joint.held_count += 1;
        self.joint.complete = current.synced;
        self.reset_answer();
        Ok(())
    }

    /// Fails one of the operations, or their transaction if all are completed.
    #[cold]
    pub(super) fn take_error_of_joined(&mut self, current: InFlight, body: &[u8]) -> Result<(), StoreError> {
        if self.skipping {
            return Err(unexpected(b'E', &format!("after {} had failed", self.describe(current))));
        }
        self.note_error(body)?;
        self.skipping = true;
        self.joint.failed = (!self.joint.complete).then_some(self.joint.held_count);
        Ok(())
    }

    /// Handles the answer to their Sync.
    #[inline]
    pub(super) fn take_ready_of_joined(
        &mut self,
        body: &[u8],
        out: &mut Vec<u8>,
        done: &mut dyn CompletionSink,
    ) -> Result<(), StoreError> {
        self.transaction = Transaction::of(body);
        if self.skipping {
            self.ask_again(out, done);
            return Ok(());
        }
        if !self.joint.complete || self.transaction != Transaction::None {
            return Err(self.not_over());
        }
        let mut bytes = 0;
        for held in self.joint.held.iter_mut().take(self.joint.held_count) {
            let Some(InFlight { ticket, joined: Some(joined), .. }) = self.queue.pop_front() else { break };
            bytes += joined.bytes as usize;
            done.push(ticket, joined.outcome, held);
            held.clear();
        }
        self.joint.sent.drain(..bytes);
        self.joint.next();
        Ok(())
    }

    #[cold]
    fn not_over(&self) -> StoreError {
        let name = self.queue.get(self.joint.position()).map_or_else(String::new, |current| self.describe(*current));
        if self.transaction == Transaction::None {
            return broken(format!(
                "the server completed less than it was asked, {name} for one, and reported no error"
            ));
        }
        leaves_transaction(&name)
    }

    /// The one that failed has its outcome; all others that shared its Sync are asked again, each by itself.
    #[cold]
    fn ask_again(&mut self, out: &mut Vec<u8>, done: &mut dyn CompletionSink) {
        self.skipping = false;
        // What was started meanwhile stays ahead of what is asked again.
        if self.joint.is_open() {
            self.end_joint(out);
        }
        let failed = self.joint.failed;
        for held in &mut self.joint.held {
            held.clear();
        }
        self.joint.next();
        let mut position = 0;
        while let Some(op) = self.queue.pop_front() {
            let Some(joined) = op.joined else { break };
            let message = self.joint.sent.drain(..joined.bytes as usize);
            if failed == Some(position) {
                drop(message);
                done.push(op.ticket, self.outcome, &self.answer);
            } else {
                out.extend(message);
                out.extend_from_slice(&SYNC);
                self.queue.push_back(InFlight { synced: true, joined: None, ..op });
            }
            position += 1;
            if op.synced {
                break;
            }
        }
        self.reset_answer();
    }
}
