//! A state that a record can have, and what ends it.

use crate::log::{Effect, NEVER, NO_STAMP};

/// State of a write so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteState {
    /// Room for a write, which is not in use.
    None,
    /// The answer may still come.
    Open,
    Acknowledged,
    Unknown,
}

/// A state that a record can have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct State {
    pub sent_ns: u64,
    /// Time by which it has happened; [`NEVER`] if unknown.
    pub done_ns: u64,
    /// Time at which the first answer that shows it arrived.
    pub seen_ns: u64,
    pub stamp: i64,
    /// The state of the same record before.
    pub next: u32,
    pub stage: WriteState,
    /// Another write with the same stamp is known, or it is a delete: an answer cannot distinguish them.
    pub has_twin: bool,
    /// Answers have shown it while it was open.
    pub is_shown: bool,
}

/// State of a record in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// A state that could be alive.
    Alive,
    /// Alive, unless the write with this number is refused later.
    AliveUnlessRefused(u32),
    /// Undetermined: it depends on the outcome of the open write with this number, beyond its refusal.
    Open(u32),
    /// The state had ended before the question was asked.
    Stale(u32),
    /// No state that is known now.
    Gone,
}

/// Write that ends the states of a record before some time: when it was sent, and its state's number.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Before {
    /// Write that was sent last among those that had happened by then.
    pub last: Option<(u64, u32)>,
    /// Write that was sent last among the open ones that had been seen by then, which have happened unless they are
    /// acknowledged later.
    pub maybe: Option<(u64, u32)>,
}

impl Before {
    /// Takes the state with this number into account, the one told last first.
    #[inline]
    pub fn add(&mut self, number: u32, state: &State, from_ns: u64) {
        if state.done_ns < from_ns {
            self.last = later(self.last, state.sent_ns, number);
        } else if state.may_have_happened(from_ns) {
            self.maybe = later(self.maybe, state.sent_ns, number);
        }
    }
}

/// The one sent last of `last` and the state with this number; of two sent at the same time, the one before it in its list,
/// which was told later.
#[inline]
pub(crate) fn later(last: Option<(u64, u32)>, sent_ns: u64, number: u32) -> Option<(u64, u32)> {
    last.filter(|(other_ns, _)| *other_ns >= sent_ns).or(Some((sent_ns, number)))
}

/// Returns true if the state with this number, which had happened by `done_ns`, was ended by that write.
#[inline]
pub(crate) fn is_ended(number: u32, done_ns: u64, by: Option<(u64, u32)>) -> bool {
    done_ns < NEVER && by.is_some_and(|(sent_ns, by)| sent_ns >= done_ns && by != number)
}

impl State {
    pub const NONE: State = State {
        sent_ns: NEVER,
        done_ns: NEVER,
        seen_ns: NEVER,
        stamp: NO_STAMP,
        next: u32::MAX,
        stage: WriteState::None,
        has_twin: false,
        is_shown: false,
    };

    pub fn effect(&self) -> Effect {
        Effect {
            sent_ns: self.sent_ns,
            done_ns: self.done_ns,
            stamp: self.stamp,
            is_acknowledged: self.stage == WriteState::Acknowledged,
            is_seen: self.seen_ns < NEVER,
        }
    }

    /// Returns true if it was seen by `at_ns`: it has happened by then unless it is acknowledged later.
    fn may_have_happened(&self, at_ns: u64) -> bool {
        self.stage == WriteState::Open && !self.has_twin && self.seen_ns < at_ns
    }

    /// Judges the state with this number by the write that ends its record's states.
    #[inline]
    pub fn look(&self, number: u32, before: &Before) -> Look {
        let ended = |done_ns, by| is_ended(number, done_ns, by);
        let seen_ns = if self.has_twin { NEVER } else { self.seen_ns };
        match (self.stage, before.maybe) {
            (WriteState::Open, maybe) if ended(seen_ns, before.last) || ended(seen_ns, maybe) => Look::Open(number),
            (WriteState::Open, _) => Look::AliveUnlessRefused(number),
            _ if ended(self.done_ns, before.last) => Look::Stale(number),
            (_, Some((_, by))) if ended(self.done_ns, before.maybe) => Look::Open(by),
            _ => Look::Alive,
        }
    }
}
