//! The blocking executor: one session on one thread, for stores whose calls return when they are done.

use std::num::NonZeroU64;
use std::sync::mpsc::{Receiver, Sender};

use plimsoll_core::{Answer, BlockingSession, OpKind, StoreError};

use crate::clock::Ticker;
use crate::control::{Message, WorkerReport};
use crate::worker::{CHECK_NS, Next, Start, WorkerCore};

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
    if drive(&mut core, &mut *session, &mut ticker) {
        let report = WorkerReport { core: core.report(), lost_connections: 0, down_ns: 0 };
        // The session is dropped after this: what it still has to give back to the store is no part of the phase,
        // but the control thread waits for it.
        let _ = to_control.send(Message::Done { worker, report: Box::new(report) });
    }
}

/// Runs operations until nothing more is to be started. False when the control thread has given this worker up.
fn drive(core: &mut WorkerCore, session: &mut dyn BlockingSession, ticker: &mut Ticker) -> bool {
    let board = core.board.clone();
    let mut answer = Answer::default();
    let mut slice = core.slice();
    let mut now_ns = ticker.now_ns();
    core.release(0, now_ns);
    loop {
        match core.next(now_ns) {
            Next::Send { cycle, scheduled_ns, op, .. } => {
                board.enter_store(op.kind, cycle, scheduled_ns, now_ns);
                answer.clear();
                let outcome = session.execute(&op, &mut answer);
                if !board.back() {
                    return false;
                }
                now_ns = ticker.now_ns();
                core.finish(0, now_ns, outcome, &answer);
                core.release(0, now_ns);
            }
            Next::SleepUntil(at_ns) => {
                board.fall_asleep();
                ticker.sleep_until(at_ns.min(now_ns + CHECK_NS));
                if !board.back() {
                    return false;
                }
                now_ns = ticker.now_ns();
            }
            Next::Wait | Next::Stop => return true,
        }
        if slice != core.slice() {
            slice = core.slice();
            ticker.anchor_again();
        }
    }
}
