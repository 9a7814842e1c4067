//! The blocking executor: one session on one thread, for stores whose calls return when they are done.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use plimsoll_core::{Answer, BlockingSession, KindId, OpKind, Outcome, StoreError};

use crate::board::Board;
use crate::clock::Ticker;
use crate::control::{Message, WorkerReport};
use crate::worker::{CHECK_NS, Next, NextStep, Start, WorkerCore};

/// Prepares the session, waits for the phase to start, and drives it to its end.
pub(crate) fn run(
    worker: usize,
    mut core: WorkerCore,
    mut session: Box<dyn BlockingSession>,
    kinds: &[OpKind],
    mut ticker: Ticker,
    go: &Receiver<Start>,
    to_control: &Sender<Message>,
) {
    // Without it the kernel may be 50 µs late.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let prepared: Result<(), StoreError> = session.prepare(kinds);
    let failed = prepared.is_err();
    // A control thread that does not listen any more has gone on without this worker.
    if to_control.send(Message::Opened(prepared)).is_err() || failed {
        return;
    }
    let Ok(start) = go.recv() else { return };
    let start_ns = core.begin(start);
    ticker.sleep_until(start_ns);
    ticker.anchor_again();
    let mut executor = Executor { board: core.board.clone(), session: &mut *session, ticker };
    if executor.drive(&mut core) {
        let report =
            WorkerReport { core: core.report(), io: None, lost_connections: 0, ended_connections: 0, down_ns: 0 };
        // The session is dropped after this: what it still has to give back to the store is no part of the phase,
        // but the control thread waits for it.
        let _ = to_control.send(Message::Done { worker, report: Box::new(report) });
    }
}

struct Executor<'a> {
    board: Arc<Board>,
    session: &'a mut dyn BlockingSession,
    ticker: Ticker,
}

/// The control thread has given this worker up.
struct Abandoned;

impl Executor<'_> {
    /// Runs operations until nothing more is to be started. False when the control thread has given this worker up.
    fn drive(&mut self, core: &mut WorkerCore) -> bool {
        let mut answer = Answer::default();
        let mut slice = core.slice();
        let mut now_ns = self.ticker.now_ns();
        core.release(0, now_ns);
        loop {
            match core.next(now_ns) {
                Next::Send { cycle, scheduled_ns, kind, .. } => {
                    self.board.enter_store(kind, cycle, scheduled_ns, now_ns);
                    answer.clear();
                    let outcome = self.session.execute(&core.op(kind), &mut answer);
                    if !self.board.back() {
                        return false;
                    }
                    now_ns = self.ticker.now_ns();
                    core.caught_up(now_ns);
                    core.finish(0, now_ns, outcome, &answer);
                    core.release(0, now_ns);
                }
                Next::Steps { cycle, scheduled_ns, kind, .. } => {
                    let begun = Begun { kind, cycle, scheduled_ns, sent_ns: now_ns };
                    match self.steps(core, &begun, &mut answer) {
                        Ok(ended_ns) => now_ns = ended_ns,
                        Err(Abandoned) => return false,
                    }
                    core.release(0, now_ns);
                }
                Next::SleepUntil(at_ns) => match self.sleep(core, now_ns, at_ns) {
                    Ok(awake_ns) => now_ns = awake_ns,
                    Err(Abandoned) => return false,
                },
                Next::Wait | Next::Stop => return true,
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

    /// Gets through an operation of several steps. Returns when it ended.
    #[inline(never)]
    fn steps(&mut self, core: &mut WorkerCore, begun: &Begun, answer: &mut Answer) -> Result<u64, Abandoned> {
        let mut now_ns = begun.sent_ns;
        loop {
            match core.step(0, 1, now_ns) {
                NextStep::Send(op) => {
                    let Begun { kind, cycle, scheduled_ns, sent_ns } = *begun;
                    self.board.enter_store_for_step(kind, cycle, scheduled_ns, sent_ns, now_ns);
                    answer.clear();
                    let outcome = self.session.execute(&op, answer);
                    if !self.board.back() {
                        return Err(Abandoned);
                    }
                    now_ns = self.ticker.now_ns();
                    core.caught_up(now_ns);
                    core.answered(0, now_ns, outcome, answer);
                }
                NextStep::SleepUntil(at_ns) => {
                    let give_up_ns = core.deadline_ns(0).unwrap_or(u64::MAX);
                    now_ns = self.sleep(core, now_ns, at_ns.min(give_up_ns))?;
                    core.check_if_due(now_ns);
                    core.awake(now_ns);
                    if now_ns >= give_up_ns && now_ns < at_ns {
                        answer.fail(Outcome::Unknown, "timeout", "still asleep when the phase had long ended");
                        core.give_up(0, now_ns, answer);
                        return Ok(now_ns);
                    }
                }
                NextStep::Wait | NextStep::Over => return Ok(now_ns),
            }
        }
    }
}

/// An operation of several steps that has begun.
struct Begun {
    kind: KindId,
    cycle: u64,
    scheduled_ns: u64,
    sent_ns: u64,
}
