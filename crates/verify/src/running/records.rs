//! What each record can be from now on: the states that a question which is open, or comes yet, may find.
//!
//! The rule is that of [`crate::timeline`]; what it cannot need any more is retired as soon as that is known. Of two
//! states of one record the older ends when the younger's write has happened, if that was sent after the older's had
//! happened. So of all writes that had happened by some time only the one sent last has to be known: what had
//! happened before it was sent has ended.

use std::collections::HashSet;

use plimsoll_core::{Outcome, Version};

use super::past::{Past, Retired};
use crate::log::{ABSENT, NEVER};
use crate::timeline::{Effect, Fate, Interval};

/// In place of a state's number: there are no more.
const NO_MORE: u32 = u32::MAX;
/// Refused writes that are remembered.
const REFUSED_MAX: usize = 1 << 20;
/// Room that is asked for beforehand at most, in records.
const ROOM_MAX: u64 = 1 << 26;

/// A record.
#[derive(Debug, Clone, Copy)]
struct Head {
    /// Its state that was told last, or [`NO_MORE`].
    first: u32,
    acknowledged: u32,
    /// When its first write was sent; [`NEVER`] when nobody has tried to write it.
    came_ns: u64,
    /// By this time it was there; [`NEVER`] when that is not known.
    born_ns: u64,
}

impl Head {
    const UNTOUCHED: Head = Head { first: NO_MORE, acknowledged: 0, came_ns: NEVER, born_ns: NEVER };
}

/// What has become of a write so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Its answer may come yet.
    Open,
    Acknowledged,
    Unknown,
}

/// A state that a record can have.
#[derive(Debug, Clone, Copy)]
pub(super) struct State {
    pub sent_ns: u64,
    /// By this time it has happened; [`NEVER`] when that is not known.
    done_ns: u64,
    /// When the first answer that shows it arrived.
    seen_ns: u64,
    pub stamp: i64,
    /// The state of the same record before.
    next: u32,
    stage: Stage,
    /// Another write with the same stamp is known: nobody can tell which of them is seen.
    has_twin: bool,
    /// Answers have shown it while it was open.
    pub is_shown: bool,
}

/// What a record that an answer has is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// A state that could be alive.
    Alive,
    /// The same, unless the write with this number is refused yet.
    AliveUnlessRefused(u32),
    /// That depends on what becomes of a write that is open, and on more than whether it is refused.
    Open,
    /// It had ended before the question was asked.
    Stale(u32),
    /// No state that is known now.
    Gone,
}

/// Whether a record can have been absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Absence {
    No,
    Possible,
    /// That depends on what becomes of a write that is open.
    Open,
}

/// All records.
#[derive(Debug)]
pub(super) struct Records {
    heads: Vec<Head>,
    states: Vec<State>,
    /// Numbers of states to be used again.
    free: Vec<u32>,
    /// Refused writes, by record and stamp: a record may show one at any time.
    refused: HashSet<(u32, i64)>,
    pub past: Past,
    /// What was retired had ended by this time.
    pub retired_to_ns: u64,
    /// Number of states from which on all records are gone through.
    sweep_at: usize,
    /// Number of states from which on questions that are open for long keep none of them.
    beyond: usize,
    pub acknowledged: u64,
    pub rejected: u64,
    pub unknown: u64,
}

/// States beyond twice those left by the last going through, before the next.
const SWEEP_SLACK: usize = 1 << 16;
/// States beyond four of each record that questions which are open for long may keep: 160 MiB.
const STATES_BEYOND: usize = 1 << 22;

impl Records {
    pub fn new(record_count: u64) -> Self {
        let room = record_count.min(ROOM_MAX) as usize;
        let (mut heads, mut states) = (Vec::new(), Vec::new());
        // Growing costs time while a phase runs; where there is no such room it grows.
        let _ = (heads.try_reserve(room), states.try_reserve(room + room / 2));
        heads.resize(room, Head::UNTOUCHED);
        Self {
            heads,
            states,
            free: Vec::new(),
            refused: HashSet::new(),
            past: Past::default(),
            retired_to_ns: 0,
            sweep_at: 2 * room + SWEEP_SLACK,
            beyond: 4 * room + STATES_BEYOND,
            acknowledged: 0,
            rejected: 0,
            unknown: 0,
        }
    }

    /// Records that were loaded or that anybody tried to write have numbers below this.
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// States that are known.
    pub fn state_count(&self) -> usize {
        self.states.len() - self.free.len()
    }

    /// Whether anybody had tried to write this record by `at_ns`.
    pub fn has_come(&self, id: u32, at_ns: u64) -> bool {
        self.heads.get(id as usize).is_some_and(|head| head.came_ns <= at_ns)
    }

    /// Whether a write of this record was acknowledged, or shown by an answer.
    fn has_happened(&self, id: u32) -> bool {
        self.heads.get(id as usize).is_some_and(|head| head.born_ns < NEVER)
    }

    /// Whether a write of the record with this stamp, which is not known now, can have been: the load's, or one that its
    /// client has certainly come to.
    pub fn has_ended(&self, id: u32, stamp: i64, is_of_load: bool) -> bool {
        (stamp == Version::Loaded.stamp() && is_of_load && self.has_happened(id)) || self.past.was_sent(stamp)
    }

    pub fn is_refused(&self, id: u32, stamp: i64) -> bool {
        self.refused.contains(&(id, stamp))
    }

    /// A write is sent; returns its state's number. Nobody asks any more for anything before `horizon_ns`.
    pub fn sent(&mut self, id: u32, stamp: i64, at_ns: u64, horizon_ns: u64) -> u32 {
        let place = id as usize;
        if place >= self.heads.len() {
            self.heads.resize(place + 1, Head::UNTOUCHED);
        }
        let twin = self.retire(id, horizon_ns, Some(stamp));
        if let Some(twin) = twin {
            self.states[twin as usize].has_twin = true;
        }
        let head = &mut self.heads[place];
        head.came_ns = head.came_ns.min(at_ns);
        let next = head.first;
        let state = State {
            sent_ns: at_ns,
            done_ns: NEVER,
            seen_ns: NEVER,
            stamp,
            next,
            stage: Stage::Open,
            has_twin: twin.is_some(),
            is_shown: false,
        };
        head.first = match self.free.pop() {
            Some(number) => {
                self.states[number as usize] = state;
                number
            }
            None => {
                self.states.push(state);
                (self.states.len() - 1) as u32
            }
        };
        head.first
    }

    /// What came of the write of record `id` whose state has this number.
    pub fn ended(&mut self, id: u32, number: u32, outcome: Outcome, at_ns: u64) {
        let state = &mut self.states[number as usize];
        match outcome {
            Outcome::Ok => {
                (state.stage, state.done_ns) = (Stage::Acknowledged, at_ns);
                self.acknowledged += 1;
            }
            Outcome::Unknown => {
                state.stage = Stage::Unknown;
                state.done_ns = if state.has_twin { NEVER } else { state.seen_ns };
                self.unknown += 1;
            }
            Outcome::NotFound | Outcome::Rejected => {
                self.rejected += 1;
                let stamp = state.stamp;
                if self.refused.len() < REFUSED_MAX {
                    self.refused.insert((id, stamp));
                }
                return self.unlink(id, number);
            }
        }
        let done_ns = state.done_ns;
        let head = &mut self.heads[id as usize];
        head.acknowledged += u32::from(outcome == Outcome::Ok);
        head.born_ns = head.born_ns.min(done_ns);
    }

    /// What a record is that an answer shows with this stamp; takes note that it was seen.
    pub fn look(&mut self, id: u32, stamp: i64, asked: Interval, finished_ns: u64) -> Look {
        let Some(head) = self.heads.get(id as usize) else { return Look::Gone };
        let (mut found, mut twins) = (None, 0);
        // Of those that had happened before the question was asked, the one sent last; of those too that are open and
        // have been seen by then, which have happened unless they are acknowledged later.
        let (mut last, mut last_maybe) = (None, None);
        let mut next = head.first;
        while let Some(state) = self.states.get(next as usize) {
            if state.stamp == stamp && state.sent_ns <= asked.to_ns {
                twins += u32::from(state.sent_ns <= finished_ns);
                if found.is_none_or(|(_, sent_ns)| sent_ns < state.sent_ns) {
                    found = Some((next, state.sent_ns));
                }
            }
            if state.done_ns < asked.from_ns {
                last = last.max(Some((state.sent_ns, next)));
            } else if state.stage == Stage::Open && !state.has_twin && state.seen_ns < asked.from_ns {
                last_maybe = last_maybe.max(Some((state.sent_ns, next)));
            }
            next = state.next;
        }
        let Some((number, sent_ns)) = found else { return Look::Gone };
        let ended_by = |done_ns: u64, last: Option<(u64, u32)>| {
            done_ns < NEVER && last.is_some_and(|(sent_ns, by)| sent_ns >= done_ns && by != number)
        };
        let state = self.states[number as usize];
        let seen_before_ns = if state.has_twin { NEVER } else { state.seen_ns };
        if sent_ns <= finished_ns {
            self.see(id, number, twins == 1, finished_ns);
        }
        match state.stage {
            Stage::Open if ended_by(seen_before_ns, last.max(last_maybe)) => Look::Open,
            Stage::Open => Look::AliveUnlessRefused(number),
            _ if ended_by(state.done_ns, last) => Look::Stale(number),
            _ if ended_by(state.done_ns, last_maybe) => Look::Open,
            _ => Look::Alive,
        }
    }

    fn see(&mut self, id: u32, number: u32, is_only: bool, at_ns: u64) {
        let state = &mut self.states[number as usize];
        if state.seen_ns <= at_ns {
            return;
        }
        state.seen_ns = at_ns;
        if state.stage == Stage::Unknown && is_only {
            state.done_ns = state.done_ns.min(at_ns);
            let head = &mut self.heads[id as usize];
            head.born_ns = head.born_ns.min(at_ns);
        }
    }

    /// Whether the record can have been absent at some moment of `at`.
    pub fn absence(&self, id: u32, at: Interval) -> Absence {
        match self.heads.get(id as usize) {
            Some(head) if head.born_ns < at.from_ns => Absence::No,
            None => Absence::Possible,
            Some(_) => {
                let mut states = self.states_of(id);
                let is_open = states
                    .any(|(_, state)| state.stage == Stage::Open && !state.has_twin && state.seen_ns < at.from_ns);
                if is_open { Absence::Open } else { Absence::Possible }
            }
        }
    }

    /// The state that stood when the question was asked, as far as is known.
    pub fn stood(&self, id: u32, at: Interval) -> Option<Effect> {
        let last =
            self.states_of(id).filter(|(_, state)| state.done_ns < at.from_ns).max_by_key(|(_, one)| one.sent_ns);
        let ended = |state: &State| {
            let done_ns = state.done_ns;
            done_ns < NEVER && last.is_some_and(|(_, last)| last.sent_ns >= done_ns && last.sent_ns > state.sent_ns)
        };
        let alive = self.states_of(id).filter(|(_, state)| state.sent_ns <= at.to_ns && !ended(state));
        alive.max_by_key(|(_, state)| state.sent_ns).map(|(_, state)| state.effect())
    }

    /// What a record is in the end that shows this stamp: alive, stale or gone.
    pub fn stands(&self, id: u32, stamp: i64) -> Look {
        let happened = self.states_of(id).filter(|(_, state)| state.done_ns < NEVER);
        let last = happened.map(|(number, state)| (state.sent_ns, number)).max();
        let shown = self.states_of(id).filter(|(_, state)| state.stamp == stamp);
        match shown.max_by_key(|(_, state)| state.sent_ns) {
            None => Look::Gone,
            Some((number, state)) => match last {
                Some((sent_ns, last)) if state.done_ns <= sent_ns && last != number => Look::Stale(number),
                _ => Look::Alive,
            },
        }
    }

    /// Whether a write of this record with this stamp, which is known, was acknowledged.
    pub fn is_acknowledged(&self, id: u32, stamp: i64) -> bool {
        self.states_of(id).any(|(_, state)| state.stamp == stamp && state.stage == Stage::Acknowledged)
    }

    pub fn state(&self, number: u32) -> &State {
        &self.states[number as usize]
    }

    pub fn state_mut(&mut self, number: u32) -> &mut State {
        &mut self.states[number as usize]
    }

    pub fn states_of(&self, id: u32) -> impl Iterator<Item = (u32, &State)> + '_ {
        let mut next = self.heads.get(id as usize).map_or(NO_MORE, |head| head.first);
        std::iter::from_fn(move || {
            let number = next;
            let state = self.states.get(number as usize)?;
            next = state.next;
            Some((number, state))
        })
    }

    /// How many writes of the record were acknowledged, and by when it was there.
    pub fn acknowledged_of(&self, id: u32) -> (u32, u64) {
        self.heads.get(id as usize).map_or((0, NEVER), |head| (head.acknowledged, head.born_ns))
    }

    /// Retires the states of a record that had ended before `horizon_ns`; returns the one with this stamp, if it is left.
    fn retire(&mut self, id: u32, horizon_ns: u64, stamp: Option<i64>) -> Option<u32> {
        let (mut last, mut count, mut twin) = (None, 0, None);
        for (number, state) in self.states_of(id) {
            count += 1;
            if state.done_ns < horizon_ns {
                last = last.max(Some((state.sent_ns, number, state.done_ns)));
            }
            if Some(state.stamp) == stamp {
                twin = Some(number);
            }
        }
        let Some((last_ns, last, by_ns)) = last.filter(|_| count > 1) else { return twin };
        let (mut before, mut next) = (None, self.heads[id as usize].first);
        while let Some(state) = self.states.get(next as usize).copied() {
            if state.done_ns > last_ns || next == last {
                before = Some(next);
                next = state.next;
                continue;
            }
            match before {
                None => self.heads[id as usize].first = state.next,
                Some(before) => self.states[before as usize].next = state.next,
            }
            self.free.push(next);
            twin = twin.filter(|twin| *twin != next);
            self.retired_to_ns = self.retired_to_ns.max(by_ns);
            self.past.push(Retired {
                id,
                stamp: state.stamp,
                sent_ns: state.sent_ns,
                done_ns: state.done_ns,
                is_acknowledged: state.stage == Stage::Acknowledged,
                is_seen: state.seen_ns < NEVER,
            });
            next = state.next;
        }
        twin
    }

    /// Brings what is known of a record near: many of these at once take little longer than one.
    #[inline]
    pub fn touch(&self, id: u32) {
        if let Some(head) = self.heads.get(id as usize) {
            std::hint::black_box(self.states.get(head.first as usize).map_or(0, |state| state.next));
        }
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

    /// The same, however many there are.
    pub fn sweep_all(&mut self, horizon_ns: u64) {
        for id in 0..self.heads.len() as u32 {
            self.retire(id, horizon_ns, None);
        }
    }

    /// Takes a state out of its record's list.
    fn unlink(&mut self, id: u32, number: u32) {
        let before = self.states_of(id).find(|(_, state)| state.next == number).map(|(before, _)| before);
        let next = self.states[number as usize].next;
        match before {
            None => self.heads[id as usize].first = next,
            Some(before) => self.states[before as usize].next = next,
        }
        self.free.push(number);
    }

    /// Goes on with nothing but what each record can be from now on, and counts only that.
    pub fn fold(&mut self) {
        self.sweep_all(NEVER);
        (self.acknowledged, self.unknown, self.rejected) = (0, 0, 0);
        for id in 0..self.heads.len() as u32 {
            let (mut acknowledged, mut unknown) = (0, 0);
            for (_, state) in self.states_of(id) {
                acknowledged += u32::from(state.stage == Stage::Acknowledged);
                unknown += u64::from(state.stage == Stage::Unknown);
            }
            self.acknowledged += u64::from(acknowledged);
            self.unknown += unknown;
            self.heads[id as usize].acknowledged = acknowledged;
        }
    }
}

impl State {
    pub fn effect(&self) -> Effect {
        let fate = if self.stage == Stage::Acknowledged { Fate::Acknowledged } else { Fate::Unknown };
        effect_of(self.stamp, self.sent_ns, self.done_ns, self.seen_ns, fate)
    }
}

/// An effect that a write with this stamp had.
pub(super) fn effect_of(stamp: i64, sent_ns: u64, done_ns: u64, seen_ns: u64, fate: Fate) -> Effect {
    let (client, cycle) = match Version::from_stamp(stamp) {
        Some(Version::Written { client, cycle }) => (client, cycle),
        _ => (0, 0),
    };
    debug_assert_ne!(stamp, ABSENT, "nothing is deleted");
    Effect {
        sent_ns,
        done_ns,
        acknowledged_ns: if fate == Fate::Acknowledged { done_ns } else { NEVER },
        seen_ns,
        stamp,
        client,
        cycle,
        fate,
        written: true,
        ..Effect::empty_store()
    }
}
