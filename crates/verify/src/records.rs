//! Possible states of each record from now on: those that an open or later question may find.
//!
//! A write happens at one moment between its sending and its acknowledgement. A record's *state* is what the latest write
//! that has happened made of it; a deleted record has one too, in which it is absent. From outside a state can be alive
//! from the moment its write was sent, until the first moment at which some later write must have happened: one that was
//! sent after this one had been acknowledged, and has itself been acknowledged.
//!
//! A write without an answer may have happened, may happen much later (a server goes on working for a client that has
//! gone), or never: its state can be alive from its sending on, for ever, and ends no other. If an answer shows it, it has
//! happened by the time that answer arrived, and ends others like an acknowledged one. A refused write has no state. It is
//! kept, so that a record which shows it can be told from plain garbage.
//!
//! What no question can need any more is retired as soon as that is known: of all writes that had happened by some time
//! only the one sent last has to be known, for what had happened before it was sent has ended.

use std::collections::HashSet;
use std::sync::Arc;

use plimsoll_core::{Outcome, Version, Workload};

use crate::contents::Contents;
use crate::log::{Effect, Interval, NEVER, NO_STAMP, Row, Watch, is_absent};
use crate::past::Past;
use crate::state::{Before, Look, State, WriteState, is_ended, later};
use crate::unknown::{UnknownLog, UnknownWrite};

/// The answer depends on the outcome of the open write with this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Open(pub u32);

/// Value in place of a state's number: there are no more.
const NO_MORE: u32 = u32::MAX;
/// Refused writes that are remembered.
const REFUSED_MAX: usize = 1 << 20;
/// Room that is asked for beforehand at most, in records.
const ROOM_MAX: u64 = 1 << 26;
/// Records that are made between two looks at a stop: 64 MiB.
pub(crate) const RECORDS_A_LOOK: usize = 1 << 20;

/// A record, in one line of the cache.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Head {
    /// Number of the state that was noted last, or [`NO_MORE`].
    first: u32,
    acknowledged: u32,
    /// Time at which its first write was sent; [`NEVER`] without an attempt to write it.
    came_ns: u64,
    /// Time by which it existed; [`NEVER`] if unknown.
    born_ns: u64,
    /// Room for one state: most records have no other.
    home: State,
}

impl Head {
    const UNTOUCHED: Head = Head { first: NO_MORE, acknowledged: 0, came_ns: NEVER, born_ns: NEVER, home: State::NONE };
}

const _: () = assert!(size_of::<Head>() == 64);

/// Number of the state that has its room in record `id`; states beside records have odd numbers.
#[inline]
fn home_number(id: u32) -> u32 {
    2 * id
}

/// All records.
pub(crate) struct Records {
    heads: Vec<Head>,
    /// States beside records.
    states: Vec<State>,
    /// Numbers of such states to be used again.
    free: Vec<u32>,
    /// States in records.
    at_home: usize,
    /// Refused writes, by record and stamp: a record may show one at any time.
    refused: HashSet<(u32, i64)>,
    pub past: Past,
    pub contents: Contents,
    /// True if a client has tried to delete a record.
    pub has_deletes: bool,
    /// Time before which all retired states had ended.
    pub retired_before_ns: u64,
    /// Number of states from which on all records are gone through.
    sweep_at: usize,
    /// Number of states from which on questions that are open for long keep none of them.
    beyond: usize,
    pub acknowledged: u64,
    pub rejected: u64,
    pub unknown: u64,
    /// Writes of unknown outcome of this trial.
    pub unknown_writes: UnknownLog,
}

/// States beyond twice those left by the last going through, before the next.
const SWEEP_SLACK: usize = 1 << 16;
/// States beyond four of each record that questions which are open for long may keep: 160 MiB.
const STATES_BEYOND: usize = 1 << 22;

impl Records {
    /// Returns `None` if `is_stopped` returns true meanwhile.
    pub fn new(workload: Arc<dyn Workload>, watches: &[Watch], is_stopped: &dyn Fn() -> bool) -> Option<Self> {
        let room = workload.record_count().min(ROOM_MAX) as usize;
        let (mut heads, mut states) = (Vec::new(), Vec::new());
        // Growing costs time while a phase runs: a copy of all of them, as records are aligned. Room for inserted ones is only
        // addresses until it is used.
        let _ = (heads.try_reserve(2 * room).or_else(|_| heads.try_reserve(room)), states.try_reserve(room));
        while heads.len() < room {
            if is_stopped() {
                return None;
            }
            heads.resize(room.min(heads.len() + RECORDS_A_LOOK), Head::UNTOUCHED);
        }
        Some(Self {
            heads,
            states,
            free: Vec::new(),
            at_home: 0,
            refused: HashSet::new(),
            past: Past::default(),
            contents: Contents::new(workload, watches),
            has_deletes: false,
            retired_before_ns: 0,
            sweep_at: 2 * room + SWEEP_SLACK,
            beyond: 4 * room + STATES_BEYOND,
            acknowledged: 0,
            rejected: 0,
            unknown: 0,
            unknown_writes: UnknownLog::default(),
        })
    }

    /// Records that were loaded or that anybody tried to write have numbers below this.
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// States that are known.
    pub fn state_count(&self) -> usize {
        self.at_home + self.states.len() - self.free.len()
    }

    /// Returns true if a client had tried to write this record by `at_ns`.
    pub fn has_come(&self, id: u32, at_ns: u64) -> bool {
        self.heads.get(id as usize).is_some_and(|head| head.came_ns <= at_ns)
    }

    /// Returns true if a write of this record was acknowledged, or shown by an answer.
    fn has_happened(&self, id: u32) -> bool {
        self.heads.get(id as usize).is_some_and(|head| head.born_ns < NEVER)
    }

    /// Returns true if a write of the record with this stamp, which is not known now, can have existed: the load's, or
    /// one that its client has certainly reached.
    pub fn has_ended(&self, id: u32, stamp: i64, is_of_load: bool) -> bool {
        (stamp == Version::Loaded.stamp() && is_of_load && self.has_happened(id)) || self.past.was_sent(stamp)
    }

    pub fn is_refused(&self, id: u32, stamp: i64) -> bool {
        self.refused.contains(&(id, stamp))
    }

    /// Returns true if a row differs from the version that it claims to be.
    #[inline]
    pub fn is_spoilt(&self, row: Row) -> bool {
        let number = || self.states_of(row.id).find(|(_, state)| state.stamp == row.stamp).map(|(number, _)| number);
        self.contents.has_digests && self.contents.is_spoilt(row, number())
    }

    /// Notes that a write is sent; returns its state's number. No question begins before `horizon_ns` any more.
    pub fn sent(&mut self, id: u32, stamp: i64, at_ns: u64, horizon_ns: u64) -> u32 {
        let place = id as usize;
        if place >= self.heads.len() {
            self.heads.resize(place + 1, Head::UNTOUCHED);
        }
        let twin = self.retire(id, horizon_ns, Some(stamp));
        if let Some(twin) = twin {
            self.state_mut(twin).has_twin = true;
        }
        self.has_deletes |= is_absent(stamp);
        let number = self.room_for(id);
        let head = &mut self.heads[place];
        head.came_ns = head.came_ns.min(at_ns);
        let next = std::mem::replace(&mut head.first, number);
        *self.state_mut(number) = State {
            sent_ns: at_ns,
            done_ns: NEVER,
            seen_ns: NEVER,
            stamp,
            next,
            stage: WriteState::Open,
            has_twin: twin.is_some() || is_absent(stamp),
            is_shown: false,
        };
        self.contents.hold(number, id, stamp);
        number
    }

    /// Returns the number of a state that is not in use, in the record itself if its room is free.
    fn room_for(&mut self, id: u32) -> u32 {
        if id < 1 << 31 && self.heads[id as usize].home.stage == WriteState::None {
            self.at_home += 1;
            return home_number(id);
        }
        self.free.pop().unwrap_or_else(|| {
            self.states.push(State::NONE);
            2 * (self.states.len() - 1) as u32 + 1
        })
    }

    /// Notes the outcome of the write of record `id` whose state has this number.
    pub fn ended(&mut self, id: u32, number: u32, outcome: Outcome, at_ns: u64) {
        let state = self.state_mut(number);
        match outcome {
            Outcome::Ok => {
                (state.stage, state.done_ns) = (WriteState::Acknowledged, at_ns);
                self.acknowledged += 1;
            }
            Outcome::Unknown => {
                state.stage = WriteState::Unknown;
                state.done_ns = if state.has_twin { NEVER } else { state.seen_ns };
                let (stamp, sent_ns) = (state.stamp, state.sent_ns);
                self.unknown += 1;
                self.unknown_writes.push(UnknownWrite { id, stamp, sent_ns, at_ns });
            }
            Outcome::NotFound | Outcome::Rejected => {
                let stamp = state.stamp;
                self.rejected += 1;
                if self.refused.len() < REFUSED_MAX && !is_absent(stamp) {
                    self.refused.insert((id, stamp));
                }
                return self.unlink(id, number);
            }
        }
        let done_ns = self.state(number).done_ns;
        let head = &mut self.heads[id as usize];
        head.acknowledged += u32::from(outcome == Outcome::Ok);
        head.born_ns = head.born_ns.min(done_ns);
    }

    /// Returns the state of a record that an answer shows with this stamp; notes that it was seen.
    pub fn look(&mut self, id: u32, stamp: i64, asked: Interval, finished_ns: u64) -> Look {
        let (mut before, mut found, mut twins) = (Before::default(), None, 0);
        for (number, state) in self.states_of(id) {
            before.add(number, state, asked.from_ns);
            if state.stamp == stamp && state.sent_ns <= asked.to_ns {
                twins += u32::from(state.sent_ns <= finished_ns);
                found = later(found, state.sent_ns, number);
            }
        }
        let Some((sent_ns, number)) = found else { return Look::Gone };
        let state = *self.state(number);
        let look = state.look(number, &before);
        if sent_ns <= finished_ns {
            self.see(id, number, twins == 1, finished_ns);
        }
        let is_alive = |(number, state): (u32, &State)| {
            state.stamp == stamp && state.sent_ns <= asked.to_ns && state.look(number, &before) == Look::Alive
        };
        // Of several that look alike one is enough.
        if state.has_twin && self.states_of(id).any(is_alive) { Look::Alive } else { look }
    }

    /// Returns true if an answer that shows this stamp is right whatever else is known: the write told last made it, was
    /// acknowledged before `from_ns`, and no other write was sent after that. Notes that it was seen. False says nothing.
    #[inline]
    pub fn shows_last(&mut self, id: u32, stamp: i64, from_ns: u64, finished_ns: u64) -> bool {
        if self.has_deletes || self.contents.has_digests || stamp == NO_STAMP {
            return false;
        }
        let Some(number) = self.last_before(id, stamp, from_ns) else { return false };
        let state = self.state_mut(number);
        if state.seen_ns > finished_ns {
            state.seen_ns = finished_ns;
        }
        true
    }

    /// Returns the number of the state told last if it has this stamp and no twin, was acknowledged before `from_ns`, and no
    /// other state can end it.
    #[inline]
    fn last_before(&self, id: u32, stamp: i64, from_ns: u64) -> Option<u32> {
        let mut states = self.states_of(id);
        let (number, last) = states.next()?;
        let is_done = last.stage == WriteState::Acknowledged && last.done_ns < from_ns;
        if last.stamp != stamp || last.has_twin || !is_done {
            return None;
        }
        states.all(|(_, other)| other.sent_ns < last.done_ns).then_some(number)
    }

    /// Returns the write that ends states of the record before `from_ns`.
    fn before(&self, id: u32, from_ns: u64) -> Before {
        let mut before = Before::default();
        self.states_of(id).for_each(|(number, state)| before.add(number, state, from_ns));
        before
    }

    fn see(&mut self, id: u32, number: u32, is_only: bool, at_ns: u64) {
        let state = self.state_mut(number);
        if state.seen_ns <= at_ns {
            return;
        }
        state.seen_ns = at_ns;
        if state.stage == WriteState::Unknown && is_only {
            state.done_ns = state.done_ns.min(at_ns);
            let head = &mut self.heads[id as usize];
            head.born_ns = head.born_ns.min(at_ns);
        }
    }

    /// An answer of `finished_ns` to a question of `sent_ns` says that the record is not there. It can be so for other
    /// reasons than an unanswered delete, so none is taken to have happened.
    pub fn see_absence(&mut self, id: u32, sent_ns: u64, finished_ns: u64) {
        if !self.has_deletes {
            return;
        }
        let deletes = self.states_of(id).filter(|(_, state)| {
            is_absent(state.stamp) && state.stage == WriteState::Acknowledged && state.done_ns <= sent_ns
        });
        match deletes.max_by_key(|(_, state)| state.sent_ns) {
            Some((number, _)) => self.see(id, number, false, finished_ns),
            None if self.acknowledged_of(id).1 <= sent_ns => self.past.absent(id, sent_ns),
            None => {}
        }
    }

    /// Returns true if the record existed at each moment of `at`.
    #[inline]
    pub fn presence(&self, id: u32, at: Interval) -> Result<bool, Open> {
        match self.heads.get(id as usize) {
            Some(head) if head.born_ns < at.from_ns && !self.has_deletes => Ok(true),
            _ => self.always(id, at, |_, state| !is_absent(state.stamp)),
        }
    }

    /// Returns true if `is_so` holds for each state of the record that can have been alive at some moment of `at`. It
    /// does not hold for the empty store.
    pub fn always(&self, id: u32, at: Interval, is_so: impl Fn(u32, &State) -> bool) -> Result<bool, Open> {
        let Some(head) = self.heads.get(id as usize) else { return Ok(false) };
        let before = self.before(id, at.from_ns);
        let mut open = None;
        if head.born_ns >= at.from_ns {
            let Some((_, number)) = before.maybe else { return Ok(false) };
            open = Some(number);
        }
        for (number, state) in self.states_of(id) {
            if state.sent_ns > at.to_ns || is_so(number, state) {
                continue;
            }
            match state.look(number, &before) {
                Look::Alive => return Ok(false),
                Look::AliveUnlessRefused(number) | Look::Open(number) => open = Some(number),
                Look::Stale(_) | Look::Gone => {}
            }
        }
        open.map_or(Ok(true), |number| Err(Open(number)))
    }

    /// The state that stood when the question was asked, as far as is known.
    pub fn stood(&self, id: u32, at: Interval) -> Option<Effect> {
        let before = self.before(id, at.from_ns);
        let alive = self
            .states_of(id)
            .filter(|(number, state)| state.sent_ns <= at.to_ns && !is_ended(*number, state.done_ns, before.last));
        alive.max_by_key(|(_, state)| state.sent_ns).map(|(_, state)| state.effect())
    }

    /// The states that can be alive in the end; the empty store is not among them.
    pub fn alive_in_the_end(&self, id: u32) -> impl Iterator<Item = &State> + '_ {
        let last = self.before(id, NEVER).last;
        let alive = self.states_of(id).filter(move |(number, state)| !is_ended(*number, state.done_ns, last));
        alive.map(|(_, state)| state)
    }

    /// Returns true if the record may be in one of several states at the end.
    pub fn is_unsure(&self, id: u32) -> bool {
        let (_, born_ns) = self.acknowledged_of(id);
        self.alive_in_the_end(id).count() + usize::from(born_ns == NEVER) > 1
    }

    /// Returns true if the write with this number and stamp is still open.
    pub fn is_open(&self, number: u32, stamp: i64) -> bool {
        let state = self.state(number);
        state.stage == WriteState::Open && state.stamp == stamp
    }

    #[inline]
    pub fn state(&self, number: u32) -> &State {
        let place = (number / 2) as usize;
        if number.is_multiple_of(2) { &self.heads[place].home } else { &self.states[place] }
    }

    #[inline]
    pub fn state_mut(&mut self, number: u32) -> &mut State {
        let place = (number / 2) as usize;
        if number.is_multiple_of(2) { &mut self.heads[place].home } else { &mut self.states[place] }
    }

    pub fn states_of(&self, id: u32) -> impl Iterator<Item = (u32, &State)> + '_ {
        let mut next = self.heads.get(id as usize).map_or(NO_MORE, |head| head.first);
        std::iter::from_fn(move || {
            let number = next;
            let state = (number != NO_MORE).then(|| self.state(number))?;
            next = state.next;
            Some((number, state))
        })
    }

    /// Returns the number of acknowledged writes of the record, and the time by which it existed.
    pub fn acknowledged_of(&self, id: u32) -> (u32, u64) {
        self.heads.get(id as usize).map_or((0, NEVER), |head| (head.acknowledged, head.born_ns))
    }

    /// Retires the states of a record that had ended before `horizon_ns`; returns the one with this stamp, if it is left.
    fn retire(&mut self, id: u32, horizon_ns: u64, stamp: Option<i64>) -> Option<u32> {
        let (mut last, mut count, mut twin) = (None, 0, None);
        for (number, state) in self.states_of(id) {
            count += 1;
            if state.done_ns < horizon_ns {
                last = later(last, state.sent_ns, number);
            }
            if Some(state.stamp) == stamp {
                twin = Some(number);
            }
        }
        let Some((last_ns, last)) = last.filter(|_| count > 1) else { return twin };
        let by_ns = self.state(last).done_ns;
        let (mut before, mut next) = (None, self.heads[id as usize].first);
        while next != NO_MORE {
            let state = *self.state(next);
            if state.done_ns > last_ns || next == last {
                before = Some(next);
                next = state.next;
                continue;
            }
            match before {
                None => self.heads[id as usize].first = state.next,
                Some(before) => self.state_mut(before).next = state.next,
            }
            self.release(id, next);
            twin = twin.filter(|twin| *twin != next);
            self.retired_before_ns = self.retired_before_ns.max(by_ns + 1);
            self.past.push(id, state.effect());
            next = state.next;
        }
        twin
    }

    /// Brings what is known of a record near: many of these at once take little longer than one.
    #[inline]
    pub fn touch(&self, id: u32) {
        // A record that is written to has two states: the last one, and the one before, which has ended meanwhile.
        std::hint::black_box(self.states_of(id).take(2).last().map(|(_, state)| state.stage));
    }

    /// Retires what had ended before `horizon_ns` of all records, where so many states are known that it pays. Where too
    /// many are left, a question has been open for long: its answer is judged by what will be known then, and what had
    /// ended before `told_ns` is retired.
    pub fn sweep(&mut self, horizon_ns: u64, told_ns: u64) {
        if self.state_count() < self.sweep_at {
            return;
        }
        self.sweep_all(horizon_ns);
        if self.state_count() > self.beyond {
            self.sweep_all(told_ns);
            self.beyond = 4 * self.heads.len() + STATES_BEYOND.max(2 * self.state_count());
        }
        self.sweep_at = 2 * self.state_count() + SWEEP_SLACK;
    }

    /// Sweeps all records, however many there are.
    pub fn sweep_all(&mut self, horizon_ns: u64) {
        for id in 0..self.heads.len() as u32 {
            self.retire(id, horizon_ns, None);
        }
    }

    /// Takes a state out of its record's list.
    fn unlink(&mut self, id: u32, number: u32) {
        let before = self.states_of(id).find(|(_, state)| state.next == number).map(|(before, _)| before);
        let next = self.state(number).next;
        match before {
            None => self.heads[id as usize].first = next,
            Some(before) => self.state_mut(before).next = next,
        }
        self.release(id, number);
    }

    fn release(&mut self, id: u32, number: u32) {
        // No answer waits for a write that is gone.
        self.state_mut(number).stage = WriteState::None;
        match number.is_multiple_of(2) {
            true => self.at_home -= 1,
            false => self.free.push(number),
        }
        self.contents.release(number, id);
    }

    /// Keeps only the possible states of each record from now on, and counts only those.
    pub fn fold(&mut self) {
        self.sweep_all(NEVER);
        (self.acknowledged, self.unknown, self.rejected) = (0, 0, 0);
        self.unknown_writes.clear();
        for id in 0..self.heads.len() as u32 {
            let (mut acknowledged, mut unknown) = (0, 0);
            for (_, state) in self.states_of(id) {
                acknowledged += u32::from(state.stage == WriteState::Acknowledged);
                unknown += u64::from(state.stage == WriteState::Unknown);
            }
            self.acknowledged += u64::from(acknowledged);
            self.unknown += unknown;
            self.heads[id as usize].acknowledged = acknowledged;
        }
    }
}
