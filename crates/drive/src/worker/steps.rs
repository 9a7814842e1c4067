//! Operations of several steps: which step is next, when it may go, and what its answer comes to. As pure as the
//! rest of the core.
//!
//! The operation is what the phase counts: one start, one end, one time, from when it was begun. A step is timed by
//! itself, under its own kind, from its send to its answer; those times stand in the slices beside the operation's.
//! An observer sees the operation sent with what the stream made, and finished with an answer that is empty but for the
//! reason of an error that was no step's; and each step for itself, if it looks at them.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use plimsoll_core::{Answer, Call, KindId, Op, OpKind, Outcome, Step, Steps, Ticket, ValueBuf, Values};

use super::{Busy, CANCEL_NS, WorkerCore};
use crate::result::StopReason;

/// Steps of one pipeline for which there is room from the start.
const PIPELINE: usize = 32;

/// Next step of a lane's operation.
#[derive(Debug)]
pub(crate) enum NextStep<'a> {
    /// Send this on its session, and ask again.
    Send(Op<'a>),
    /// Ask again when an answer has come, or when [`WorkerCore::awake`] says so.
    Wait,
    /// The operation has ended. The session is not released by this.
    Over,
}

/// The ways of a worker's clients through their operations.
pub(crate) struct Tracks {
    is_steps: Box<[bool]>,
    tracks: Vec<Option<Track>>,
    /// Times at which sleeping lanes wake up.
    sleepers: BinaryHeap<Reverse<(u64, u32)>>,
    /// Parameters of the step that is being sent, and of the one behind it.
    params: ValueBuf,
    params_behind: ValueBuf,
    /// The step behind the one that was sent last, in the middle of a pipeline: its kind, and whether it is to be
    /// followed at once too.
    behind: Option<(KindId, bool)>,
    /// Answer that an observer receives at an operation's end: empty, or the error if no step's answer has it.
    end: Answer,
}

struct Track {
    steps: Box<dyn Steps>,
    /// Steps without an answer: kind, and when each was sent.
    unanswered: VecDeque<(KindId, u64)>,
    /// True if all answers must arrive before the next step is requested.
    gathers: bool,
    /// Time before which no step is requested.
    sleeps_until_ns: u64,
    /// Outcome of the operation, when all answers have arrived.
    end: Option<(KindId, Outcome)>,
    /// An error of one of its steps has been noted.
    noted: bool,
}

impl Track {
    fn forget(&mut self) {
        self.unanswered.clear();
        self.gathers = false;
        self.sleeps_until_ns = 0;
        self.end = None;
        self.noted = false;
    }
}

impl Tracks {
    /// `None` when no client has operations of several steps.
    pub fn new(kinds: &[OpKind], steps: Vec<Option<Box<dyn Steps>>>) -> Option<Box<Self>> {
        if steps.iter().all(Option::is_none) {
            return None;
        }
        let sleepers = BinaryHeap::with_capacity(steps.len());
        let track = |steps| Track {
            steps,
            unanswered: VecDeque::with_capacity(PIPELINE),
            gathers: false,
            sleeps_until_ns: 0,
            end: None,
            noted: false,
        };
        Some(Box::new(Self {
            is_steps: kinds.iter().map(|kind| kind.call == Call::Steps).collect(),
            tracks: steps.into_iter().map(|steps| steps.map(track)).collect(),
            sleepers,
            params: ValueBuf::with_capacity(64, 4096),
            params_behind: ValueBuf::with_capacity(64, 4096),
            behind: None,
            end: Answer::default(),
        }))
    }

    /// True for kinds that are never sent themselves.
    #[inline]
    pub fn is_steps(&self, kind: KindId) -> bool {
        self.is_steps.get(usize::from(kind)).is_some_and(|is| *is)
    }

    /// Operation `cycle` of `lane` begins.
    pub fn begin(&mut self, lane: usize, cycle: u64, kind: KindId, params: Values<'_>) {
        let track = self.track(lane);
        track.forget();
        track.steps.begin(cycle, kind, params);
    }

    fn track(&mut self, lane: usize) -> &mut Track {
        // A stream that gives such operations and no way through them is a bug of its workload.
        self.tracks[lane].as_mut().expect("a stream with operations of several steps has a way through them")
    }

    /// Asks for a step; its parameters are in `params_behind`. `None` when it is not one to send.
    fn ask(&mut self, lane: usize, now_ns: u64) -> Option<(KindId, bool)> {
        self.params_behind.clear();
        let track = self.tracks[lane].as_mut()?;
        match track.steps.next(&mut self.params_behind) {
            Step::Send { kind, more } => return Some((kind, more)),
            Step::Gather => track.gathers = true,
            // That nothing follows at once is what makes the session ask for answers.
            Step::Sync => {}
            Step::Sleep(0) => {}
            Step::Sleep(length_ns) => {
                track.sleeps_until_ns = now_ns.saturating_add(length_ns);
                self.sleepers.push(Reverse((track.sleeps_until_ns, lane as u32)));
            }
            Step::End { kind, outcome } => {
                track.gathers = true;
                track.end = Some((kind, outcome));
            }
        }
        None
    }

    /// The next step of the operation of `lane`; the parameters of one to send are in `params`.
    fn next(&mut self, lane: usize, depth_max: usize, now_ns: u64) -> Turn {
        let (kind, wants_more) = loop {
            if let Some(behind) = self.behind.take() {
                break behind;
            }
            let track = self.track(lane);
            if track.gathers && !track.unanswered.is_empty() {
                return Turn::Wait;
            }
            track.gathers = false;
            if let Some((kind, outcome)) = track.end.take() {
                return Turn::End { kind, outcome, noted: track.noted };
            }
            if track.sleeps_until_ns > now_ns {
                return Turn::Wait;
            }
            track.sleeps_until_ns = 0;
            if let Some(step) = self.ask(lane, now_ns) {
                break step;
            }
        };
        std::mem::swap(&mut self.params, &mut self.params_behind);
        let unanswered = self.track(lane).unanswered.len() + 1;
        // Whether another one follows at once is known when it has been asked for: what comes may be no step to send.
        let mut more = false;
        if wants_more && unanswered < depth_max {
            self.behind = self.ask(lane, now_ns);
            more = self.behind.is_some();
        }
        let track = self.track(lane);
        // A pipeline that is longer than what the session takes goes in parts.
        track.gathers |= !wants_more || unanswered >= depth_max;
        track.unanswered.push_back((kind, now_ns));
        Turn::Send { kind, more }
    }

    /// Takes `lane` from those that sleep.
    fn wake(&mut self, lane: usize) {
        if self.tracks[lane].as_ref().is_some_and(|track| track.sleeps_until_ns > 0) {
            self.sleepers.retain(|Reverse((_, sleeper))| *sleeper as usize != lane);
        }
    }
}

/// [`NextStep`] without the parameters, and with what an operation ended as.
enum Turn {
    Send { kind: KindId, more: bool },
    Wait,
    End { kind: KindId, outcome: Outcome, noted: bool },
}

impl WorkerCore {
    /// The next step of the operation of `lane`, which [`super::Next::Steps`] named, at `now_ns`. To be asked until it
    /// is none to send, before any other lane is. The session takes `depth_max` steps before one must have been
    /// answered.
    pub fn step(&mut self, lane: usize, depth_max: usize, now_ns: u64) -> NextStep<'_> {
        self.check_if_due(now_ns);
        // An operation that slept may have been given up meanwhile.
        if self.lanes[lane].busy != Busy::Steps as u64 {
            return NextStep::Wait;
        }
        let turn = self.tracks.as_mut().map_or(Turn::Wait, |tracks| tracks.next(lane, depth_max, now_ns));
        let (kind, more) = match turn {
            Turn::Send { kind, more } => (kind, more),
            Turn::Wait => return NextStep::Wait,
            Turn::End { kind, outcome, noted } => {
                self.end_of_steps(lane, now_ns, kind, outcome, noted);
                return NextStep::Over;
            }
        };
        let Some(tracks) = &self.tracks else { return NextStep::Wait };
        let op = Op { kind, params: tracks.params.values(), more };
        if let Some(observer) = &mut self.observer {
            let begun = &self.lanes[lane];
            // A lane's cycle is that of its next operation.
            observer.step_sent(Ticket(lane as u32), now_ns, begun.client, begun.cycle.saturating_sub(1), &op);
        }
        NextStep::Send(op)
    }

    /// The oldest step of the operation of `lane` that had no answer came to `outcome`.
    pub fn answered(&mut self, lane: usize, now_ns: u64, outcome: Outcome, answer: &Answer) {
        self.check_if_due(now_ns);
        let Some(tracks) = &mut self.tracks else { return };
        let track = tracks.track(lane);
        // An answer to nothing is a broken session's, and counts for nothing.
        let Some((kind, sent_ns)) = track.unanswered.pop_front() else { return };
        self.board.tally(self.slice).record_step(kind, outcome, now_ns.saturating_sub(sent_ns));
        if outcome.is_error() {
            track.noted = true;
            self.errors.note(now_ns, outcome, answer);
        }
        track.steps.answered(outcome, answer);
        if let Some(observer) = &mut self.observer {
            observer.step_finished(Ticket(lane as u32), now_ns, outcome, answer);
        }
    }

    /// The operation of `lane`, if there is one, gets no further: it is unknown, and so are its steps that had no
    /// answer.
    #[cold]
    pub fn give_up(&mut self, lane: usize, now_ns: u64, answer: &Answer) {
        match self.busy(lane) {
            Busy::No => return,
            Busy::Op => return self.finish(lane, now_ns, Outcome::Unknown, answer),
            Busy::Steps => {}
        }
        self.check_if_due(now_ns);
        if let Some(tracks) = &mut self.tracks {
            tracks.wake(lane);
            let track = tracks.track(lane);
            for (kind, sent_ns) in track.unanswered.drain(..) {
                let waited_ns = now_ns.saturating_sub(sent_ns);
                self.board.tally(self.slice).record_step(kind, Outcome::Unknown, waited_ns);
            }
            track.forget();
        }
        self.finish(lane, now_ns, Outcome::Unknown, answer);
    }

    fn end_of_steps(&mut self, lane: usize, now_ns: u64, kind: KindId, outcome: Outcome, noted: bool) {
        self.lanes[lane].kind = u32::from(kind);
        let Some(mut tracks) = self.tracks.take() else { return };
        tracks.end.clear();
        if outcome.is_error()
            && let Some(mistake) = tracks.tracks[lane].as_ref().and_then(|track| track.steps.mistake())
        {
            self.halt(now_ns, StopReason::Refused(mistake));
        }
        if outcome.is_error() && !noted {
            if let Some(track) = &tracks.tracks[lane] {
                track.steps.failure(&mut tracks.end);
            }
            if tracks.end.code.is_empty() {
                tracks.end.fail(outcome, "steps", "its own steps ended it so, without a reason");
            }
            self.errors.note(now_ns, outcome, &tracks.end);
        }
        self.count_finished(lane, now_ns, outcome, &tracks.end);
        self.tracks = Some(tracks);
        if outcome.is_error() {
            self.failed(lane, now_ns, outcome);
        }
    }

    /// Takes one lane whose sleep is over by `now_ns`.
    pub fn awake(&mut self, now_ns: u64) -> Option<usize> {
        let sleepers = &mut self.tracks.as_mut()?.sleepers;
        match sleepers.peek() {
            Some(Reverse((at_ns, _))) if *at_ns <= now_ns => sleepers.pop().map(|Reverse((_, lane))| lane as usize),
            _ => None,
        }
    }

    /// Returns the end of the next sleep.
    #[inline]
    pub fn awake_at_ns(&self) -> Option<u64> {
        self.tracks.as_ref()?.sleepers.peek().map(|Reverse((at_ns, _))| *at_ns)
    }

    /// True when there may be operations of several steps.
    pub fn has_steps(&self) -> bool {
        self.tracks.is_some()
    }

    /// Returns the time at which the operation of `lane` is given up: `op_timeout_ns` after the last send. It does not
    /// wait for longer than that after the phase's end, or for longer than a little after the user wanted an end.
    /// Returns `None` while it waits for nothing.
    pub fn deadline_ns(&self, lane: usize) -> Option<u64> {
        let cancel_ns = self.cancelled_ns.map_or(u64::MAX, |at_ns| at_ns + CANCEL_NS);
        self.own_deadline_ns(lane).map(|deadline_ns| deadline_ns.min(cancel_ns))
    }

    fn own_deadline_ns(&self, lane: usize) -> Option<u64> {
        let timeout_ns = self.settings.op_timeout_ns;
        let busy = self.lanes[lane].busy;
        if busy != Busy::Steps as u64 {
            return (busy != Busy::No as u64).then(|| self.lanes[lane].sent_ns.saturating_add(timeout_ns));
        }
        let track = self.tracks.as_ref()?.tracks[lane].as_ref()?;
        let answer_ns = track.unanswered.front().map(|(_, sent_ns)| sent_ns.saturating_add(timeout_ns));
        let end_ns = self.ended.as_ref().map(|_| self.ended_ns.saturating_add(timeout_ns));
        answer_ns.into_iter().chain(end_ns).min()
    }
}
