//! The blocking executor, for stores whose calls return when they are done: one session on one thread, or, where no
//! call waits for anything, many.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use plimsoll_core::waits::{STOPPED, interrupted};
use plimsoll_core::{Answer, BlockingSession, OpKind, Outcome, StoreError};

use crate::board::Board;
use crate::clock::Ticker;
use crate::control::{Message, WorkerReport};
use crate::link::LostConnections;
use crate::worker::{CHECK_NS, Next, NextStep, Start, WorkerCore};

/// Prepares the sessions, waits for the phase to start, and drives it to its end.
pub(crate) fn run(
    worker: usize,
    mut core: WorkerCore,
    mut sessions: Vec<Box<dyn BlockingSession>>,
    kinds: &[OpKind],
    mut ticker: Ticker,
    go: &Receiver<Start>,
    to_control: &Sender<Message>,
) {
    // Without it the kernel may be 50 µs late.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let prepared: Result<(), StoreError> = sessions.iter_mut().try_for_each(|session| session.prepare(kinds));
    let failed = prepared.is_err();
    // A control thread that does not listen any more has gone on without this worker.
    if to_control.send(Message::Opened(prepared)).is_err() || failed {
        return;
    }
    let Ok(start) = go.recv() else { return };
    let start_ns = core.begin(start);
    ticker.sleep_until(start_ns);
    ticker.anchor_again();
    let mut executor = Executor { board: core.board.clone(), sessions: &mut sessions, ticker };
    if executor.drive(&mut core).is_ok() {
        let report = WorkerReport {
            core: core.report(),
            io: None,
            lost_connections: LostConnections::default(),
            ended_connections: 0,
            failed_connects: 0,
            asked_again: sessions.iter().map(|session| session.asked_again()).sum(),
            answers: None,
            connects: None,
            down_ns: 0,
        };
        // The sessions are dropped after this: what they still have to give back to the store is no part of the phase,
        // but the control thread waits for it.
        let _ = to_control.send(Message::Done { worker, report: Box::new(report) });
    }
}

struct Executor<'a> {
    board: Arc<Board>,
    /// Sessions by lane.
    sessions: &'a mut [Box<dyn BlockingSession>],
    ticker: Ticker,
}

/// The control thread has given this worker up.
struct Abandoned;

impl Executor<'_> {
    /// Runs operations until nothing more is to be started.
    fn drive(&mut self, core: &mut WorkerCore) -> Result<(), Abandoned> {
        let mut answer = Answer::default();
        let mut slice = core.slice();
        let mut now_ns = self.ticker.now_ns();
        (0..self.sessions.len()).for_each(|lane| core.release(lane, now_ns));
        let has_steps = core.has_steps();
        loop {
            while has_steps && let Some(lane) = core.awake(now_ns) {
                now_ns = self.steps(core, lane, now_ns, &mut answer)?;
            }
            match core.next(now_ns) {
                Next::Send { lane, cycle, scheduled_ns, kind } => {
                    self.board.enter_store(kind, cycle, scheduled_ns, now_ns);
                    answer.clear();
                    let outcome = self.sessions[lane].execute(&core.op(kind), &mut answer);
                    if !self.board.back() {
                        return Err(Abandoned);
                    }
                    now_ns = self.ticker.now_ns();
                    core.caught_up(now_ns);
                    core.finish(lane, now_ns, outcome, &answer);
                    core.release(lane, now_ns);
                }
                Next::Steps { lane } => now_ns = self.steps(core, lane, now_ns, &mut answer)?,
                Next::SleepUntil(at_ns) => {
                    let at_ns = core.awake_at_ns().map_or(at_ns, |awake_ns| awake_ns.min(at_ns));
                    now_ns = self.sleep(core, now_ns, at_ns)?;
                }
                Next::Wait | Next::Stop => {
                    // Operations that sleep are all that can be in flight here.
                    let Some(at_ns) = core.awake_at_ns() else { return Ok(()) };
                    now_ns = self.sleep(core, now_ns, at_ns)?;
                    core.check_if_due(now_ns);
                    self.give_up_overdue(core, now_ns, &mut answer);
                }
            }
            if slice != core.slice() {
                slice = core.slice();
                self.ticker.anchor_again();
            }
        }
    }

    /// Sleeps until `at_ns`, but not longer than a worker may go without looking around. Returns the time.
    fn sleep(&mut self, core: &mut WorkerCore, mut now_ns: u64, at_ns: u64) -> Result<u64, Abandoned> {
        let wake_ns = at_ns.min(now_ns + CHECK_NS);
        let spin_ns = core.spin_ns();
        if wake_ns.saturating_sub(now_ns) > spin_ns {
            self.board.fall_asleep();
            self.ticker.sleep_until(wake_ns - spin_ns);
            if !self.board.back() {
                return Err(Abandoned);
            }
            now_ns = self.ticker.now_ns();
        }
        while now_ns < wake_ns && spin_ns > 0 {
            std::hint::spin_loop();
            now_ns = self.ticker.now_ns();
        }
        core.caught_up(wake_ns.min(now_ns));
        Ok(now_ns)
    }

    /// Takes the operation of `lane` through its steps, to its end or to one before which it sleeps. Returns the time.
    #[inline(never)]
    fn steps(
        &mut self,
        core: &mut WorkerCore,
        lane: usize,
        mut now_ns: u64,
        answer: &mut Answer,
    ) -> Result<u64, Abandoned> {
        let begun = core.begun(lane);
        loop {
            match core.step(lane, 1, now_ns) {
                NextStep::Send(op) => {
                    self.board.enter_store_for_step(begun.kind, begun.cycle, begun.scheduled_ns, begun.sent_ns, now_ns);
                    answer.clear();
                    let outcome = self.sessions[lane].execute(&op, answer);
                    if !self.board.back() {
                        return Err(Abandoned);
                    }
                    now_ns = self.ticker.now_ns();
                    core.caught_up(now_ns);
                    core.answered(lane, now_ns, outcome, answer);
                }
                NextStep::Wait => return Ok(now_ns),
                NextStep::Over => {
                    core.release(lane, now_ns);
                    return Ok(now_ns);
                }
            }
        }
    }

    /// Gives up operations that still sleep long after the phase's end.
    #[cold]
    fn give_up_overdue(&mut self, core: &mut WorkerCore, now_ns: u64, answer: &mut Answer) {
        answer.clear();
        match core.is_cancelled() {
            true => answer.fail(Outcome::Unknown, STOPPED, &interrupted().to_string()),
            false => answer.fail(Outcome::Unknown, "timeout", "still asleep when the phase had long ended"),
        };
        for lane in 0..self.sessions.len() {
            if core.deadline_ns(lane).is_some_and(|deadline_ns| now_ns >= deadline_ns) {
                core.give_up(lane, now_ns, answer);
            }
        }
    }
}
