//! A lane: the place of one client, which does one operation at a time; and those that wait for one.

use std::collections::VecDeque;
use std::ops::Range;

use plimsoll_core::KindId;

/// Longest turn of a worker's loop in which an answer counts as taken when it came: a few dozen sockets' worth. What
/// is shorter is not carried on from operation to operation: in a queue that is the store's it would add up.
const ABREAST_NS: u64 = 100_000;

/// An operation that has begun.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begun {
    pub kind: KindId,
    pub cycle: u64,
    pub scheduled_ns: u64,
    pub sent_ns: u64,
}

/// Activity of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Busy {
    No,
    /// An operation that was sent as it is.
    Op,
    /// An operation of several steps.
    Steps,
}

// `kind` and `busy` are whole words because they are written and read within nanoseconds: a processor that
// reads a word right after a part of it was written waits for the write to reach its cache.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Lane {
    pub client: u32,
    pub kind: u32,
    /// A [`Busy`].
    pub busy: u64,
    /// Number of the next operation.
    pub cycle: u64,
    /// Number after that of the last operation.
    pub end_cycle: u64,
    pub scheduled_ns: u64,
    pub sent_ns: u64,
    /// Time at which a generator without delay could have sent its operation.
    pub could_ns: u64,
    /// Time at which such a generator would have had the session idle.
    pub free_ns: u64,
    pub ended_ns: u64,
}

impl Lane {
    /// Returns the time from which on the client was ready, and for how long it was not asked then, up to `at_ns`. In a
    /// closed loop a client asks by itself.
    pub fn unasked(&self, is_open: bool, at_ns: u64) -> (u64, u64) {
        let ready_ns = self.ended_ns.max(self.free_ns);
        (ready_ns, if is_open { at_ns.saturating_sub(ready_ns) } else { 0 })
    }

    /// Returns the time at which a generator without delay would have had this session idle again, if its answer was
    /// taken at `now_ns` by a worker that had last done all due work at `caught_up_ns`.
    ///
    /// It would have sent the operation at `could_ns`, and the store would have taken as long as it did. An answer
    /// that is taken long after the worker was last abreast of its sockets may have been there ever since then,
    /// and the worker is not given the benefit of the doubt.
    #[inline]
    pub fn free_after(&self, now_ns: u64, caught_up_ns: u64) -> u64 {
        let is_abreast = now_ns.saturating_sub(caught_up_ns) <= ABREAST_NS;
        let answered_ns = if is_abreast { now_ns } else { caught_up_ns.max(self.sent_ns) };
        self.could_ns + (answered_ns - self.sent_ns)
    }
}

/// Lanes that wait for an operation, longest first. The first stands beside the queue: in a closed loop it is
/// most often the only one.
pub(super) struct Idle {
    pub first: Option<u32>,
    pub others: VecDeque<u32>,
}

impl Idle {
    #[inline]
    pub fn push(&mut self, lane: u32) {
        if self.first.is_none() {
            self.first = Some(lane);
        } else {
            self.others.push_back(lane);
        }
    }

    #[inline]
    pub fn pop(&mut self) {
        self.first = if self.others.is_empty() { None } else { self.others.pop_front() };
    }

    pub fn remove(&mut self, lanes: &Range<u32>) {
        self.others.retain(|other| !lanes.contains(other));
        if self.first.is_some_and(|first| lanes.contains(&first)) {
            self.pop();
        }
    }
}
