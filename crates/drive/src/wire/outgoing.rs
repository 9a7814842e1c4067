//! Output: operations on every idle lane, steps when they can go, and as few sends as possible.
//!
//! A session has `depth` of the core's *lanes*, each for one operation at a time of a client of its own; a ticket names
//! it. With a depth of 1 a lane's number is its session's slot. What is started for one session in one go is sent in one
//! piece.

use std::ops::Range;

use plimsoll_core::{Op, Ticket};

use super::WireWorker;
use crate::reactor::Reactor;
use crate::worker::{Next, NextStep};

/// Operations of several steps that end without waiting for anything, after which sockets are looked at again.
const UNSENT_MAX: u32 = 64;
/// Operations that are started before the first of them is sent.
const BATCH_MAX: u32 = 64;

/// Assignment of lanes to sessions.
pub(super) struct Lanes {
    depth: usize,
    /// Slot of each lane's session: a division for each operation would cost more.
    slots: Box<[u32]>,
    /// Sessions with something to be sent that was started together.
    unsent: Vec<u32>,
}

impl Lanes {
    /// `lanes` in equal parts.
    pub fn new(sessions: usize, lanes: usize) -> Self {
        let depth = lanes / sessions.max(1);
        let slots = (0..sessions).flat_map(|slot| std::iter::repeat_n(slot as u32, depth)).collect();
        Self { depth, slots, unsent: Vec::with_capacity(depth.max(BATCH_MAX as usize)) }
    }

    /// The lanes of the session at `slot`.
    #[inline]
    pub fn of(&self, slot: usize) -> Range<usize> {
        slot * self.depth..(slot + 1) * self.depth
    }

    /// Returns all lanes in the order of their first use: session after session, so that a pipeline begins in one
    /// piece; in an open loop by turns, so that few operations at a time do not all wait in one pipeline.
    pub fn first_order(&self, by_turns: bool) -> impl Iterator<Item = usize> {
        let (depth, lanes) = (self.depth, self.slots.len());
        let sessions = lanes / depth.max(1);
        (0..lanes).map(move |index| if by_turns { index % sessions * depth + index / sessions } else { index })
    }

    #[inline]
    fn slot(&self, lane: usize) -> usize {
        self.slots[lane] as usize
    }
}

impl<R: Reactor> WireWorker<R> {
    /// Starts whatever can be started. Returns when the next operation or step is due, where that is worth waking
    /// for.
    pub(super) fn dispatch(&mut self, mut now_ns: u64) -> Option<u64> {
        while let Some(lane) = self.core.awake(now_ns) {
            self.advance(lane, now_ns);
        }
        let mut unsent = 0;
        let due_ns = loop {
            match self.fill(now_ns, BATCH_MAX) {
                Filled::Started => {}
                Filled::Unsent => {
                    unsent += 1;
                    if unsent == UNSENT_MAX {
                        break Some(now_ns);
                    }
                }
                Filled::SleepUntil(at_ns) => break Some(at_ns),
                Filled::Wait => break None,
            }
            now_ns = self.ticker.now_ns();
        };
        match self.core.awake_at_ns() {
            None => due_ns,
            Some(awake_ns) => Some(due_ns.map_or(awake_ns, |due_ns| due_ns.min(awake_ns))),
        }
    }

    /// Starts up to `most` operations, where sessions have pipelines, and otherwise one; sends what was started.
    #[inline]
    pub(super) fn fill(&mut self, now_ns: u64, most: u32) -> Filled {
        if self.lanes.depth > 1 {
            return self.fill_pipelines(now_ns, most);
        }
        match self.core.next(now_ns) {
            Next::Send { lane: slot, kind, .. } => {
                let link = &mut self.links[slot];
                link.session.start(Ticket(slot as u32), &self.core.op(kind), &mut link.out);
                self.core.asks_part(slot, now_ns, &*link.session);
                self.deadline_ns = self.deadline_ns.min(now_ns + self.core.settings.op_timeout_ns);
                self.send(slot, now_ns);
                Filled::Started
            }
            Next::Steps { lane: slot } => match self.advance(slot, now_ns) {
                true => Filled::Unsent,
                false => Filled::Started,
            },
            Next::SleepUntil(at_ns) => Filled::SleepUntil(at_ns),
            Next::Wait | Next::Stop => Filled::Wait,
        }
    }

    fn fill_pipelines(&mut self, now_ns: u64, most: u32) -> Filled {
        let mut filled = Filled::Started;
        for _ in 0..most {
            match self.core.next(now_ns) {
                Next::Send { lane, kind, .. } => {
                    let slot = self.lanes.slot(lane);
                    let link = &mut self.links[slot];
                    let op = Op { more: true, ..self.core.op(kind) };
                    link.session.start(Ticket(lane as u32), &op, &mut link.out);
                    self.core.asks_part(lane, now_ns, &*link.session);
                    if self.lanes.unsent.last() != Some(&(slot as u32)) {
                        self.lanes.unsent.push(slot as u32);
                    }
                }
                // Refused before the phase began: steps of several clients may not mix on one session.
                Next::Steps { .. } => {}
                Next::SleepUntil(at_ns) => {
                    filled = Filled::SleepUntil(at_ns);
                    break;
                }
                Next::Wait | Next::Stop => {
                    filled = Filled::Wait;
                    break;
                }
            }
        }
        if !self.lanes.unsent.is_empty() {
            self.deadline_ns = self.deadline_ns.min(now_ns + self.core.settings.op_timeout_ns);
        }
        for index in 0..self.lanes.unsent.len() {
            // A session stands there more than once when others were given operations in between.
            let slot = self.lanes.unsent[index] as usize;
            let link = &mut self.links[slot];
            link.session.flush(&mut link.out);
            if link.is_branched || !link.out.is_empty() {
                self.send(slot, now_ns);
            }
        }
        self.lanes.unsent.clear();
        filled
    }

    /// Sends the steps of the operation of `lane` that can go now. True when it has ended.
    pub(super) fn advance(&mut self, lane: usize, now_ns: u64) -> bool {
        let slot = self.lanes.slot(lane);
        let link = &mut self.links[slot];
        if link.hung_up.is_some() {
            return false;
        }
        let depth_max = link.session.depth_max() as usize;
        let over = loop {
            match self.core.step(lane, depth_max, now_ns) {
                NextStep::Send(op) => {
                    link.session.start(Ticket(lane as u32), &op, &mut link.out);
                    self.core.asks_part(lane, now_ns, &*link.session);
                    self.deadline_ns = self.deadline_ns.min(now_ns + self.core.settings.op_timeout_ns);
                }
                NextStep::Wait => break false,
                NextStep::Over => break true,
            }
        };
        if over {
            if link.left == 1 {
                self.leave(slot, now_ns);
                return true;
            }
            link.left = link.left.saturating_sub(1);
            self.core.release(lane, now_ns);
        }
        if link.is_branched || !link.out.is_empty() {
            self.send(slot, now_ns);
        }
        over
    }
}

/// Result of starting operations.
pub(super) enum Filled {
    /// More operations may be ready to start.
    Started,
    /// More operations may be ready to start; those started ended without sending anything.
    Unsent,
    /// No operation is due before this time.
    SleepUntil(u64),
    /// No operation can be started.
    Wait,
}
