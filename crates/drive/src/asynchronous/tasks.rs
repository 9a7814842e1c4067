//! The task of a session: one operation after the other.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use plimsoll_core::{Answer, AsyncSession, Op, Outcome};

use super::{Came, INSTANT_MAX, Work, Worker, give_way};
use crate::worker::{Busy, Next, NextStep};

impl Worker {
    pub(super) async fn serve(self: Rc<Self>, lane: usize, session: Box<dyn AsyncSession>) {
        let mut served = Served { worker: Rc::clone(&self), lane, session };
        let session = &mut *served.session;
        if !self.open_first(lane, session).await {
            return;
        }
        let mut answer = Answer::default();
        let (mut next, mut instant) = (None, 0);
        loop {
            let work = match next.take() {
                Some(work) => work,
                None => match self.turn(lane, session).await {
                    Some(work) => work,
                    None => {
                        let now_ns = self.open_after_end(lane, session).await;
                        next = self.go_on(lane, now_ns);
                        continue;
                    }
                },
            };
            let (came, has_waited) = self.carry_out(lane, session, &mut answer, work).await;
            instant = if has_waited { 0 } else { instant + 1 };
            if instant == INSTANT_MAX {
                instant = 0;
                give_way().await;
            }
            next = match came {
                Came::Sleeps => None,
                Came::Over(now_ns) => self.go_on(lane, now_ns),
                Came::Lost(error) => {
                    let now_ns = self.open_again(lane, session, error).await;
                    self.go_on(lane, now_ns)
                }
            };
        }
    }

    /// Waits for something to do. Returns `None` if the server has ended the connection, with nothing in flight.
    async fn turn(&self, lane: usize, session: &mut dyn AsyncSession) -> Option<Work> {
        let seat = &self.seats[lane];
        seat.rang.set(false);
        // An operation that sleeps between its steps is in flight.
        let is_idle = self.core.borrow().busy(lane) == Busy::No;
        poll_fn(|context| {
            if let Some(work) = seat.work.take() {
                return Poll::Ready(Some(work));
            }
            if seat.rang.replace(false) {
                return Poll::Ready(Some(Work::GiveUp));
            }
            if is_idle && session.poll_ended(context).is_ready() {
                self.core.borrow_mut().withdraw(lane..lane + 1);
                return Poll::Ready(None);
            }
            seat.wait(context);
            Poll::Pending
        })
        .await
    }

    /// Awaits `future` until it is given up. Returns its output, if any, and true if it was pending.
    pub(super) async fn watch<T>(
        &self,
        lane: usize,
        mut future: Pin<Box<dyn Future<Output = T> + '_>>,
    ) -> (Option<T>, bool) {
        let seat = &self.seats[lane];
        seat.rang.set(false);
        let mut has_waited = false;
        let came = poll_fn(|context| {
            if seat.rang.replace(false) {
                return Poll::Ready(None);
            }
            if let Poll::Ready(came) = future.as_mut().poll(context) {
                return Poll::Ready(Some(came));
            }
            has_waited = true;
            seat.wait(context);
            Poll::Pending
        })
        .await;
        (came, has_waited)
    }

    async fn carry_out(
        &self,
        lane: usize,
        session: &mut dyn AsyncSession,
        answer: &mut Answer,
        work: Work,
    ) -> (Came, bool) {
        answer.clear();
        let future = match work {
            Work::Own(kind) => {
                let core = self.core.borrow();
                self.watch_until(core.begun(lane).sent_ns + core.settings.op_timeout_ns);
                session.execute(&core.op(kind), answer)
            }
            Work::Given(kind) => {
                let core = self.core.borrow();
                self.watch_until(core.begun(lane).sent_ns + core.settings.op_timeout_ns);
                session.execute(&Op::new(kind, self.seats[lane].params.borrow().values()), answer)
            }
            Work::Steps => return (self.steps(lane, session, answer).await, true),
            Work::GiveUp => {
                let is_asleep = self.core.borrow().busy(lane) == Busy::Steps;
                let came = if is_asleep { Came::Over(self.give_up(lane, "", answer)) } else { Came::Sleeps };
                return (came, true);
            }
        };
        let (outcome, has_waited) = self.watch(lane, future).await;
        let came = match outcome {
            Some(outcome) => {
                let now_ns = self.now_ns();
                let mut core = self.core.borrow_mut();
                self.catch_up(&mut core);
                core.finish(lane, now_ns, outcome, answer);
                self.seats[lane].losses.answered();
                session.lost().map_or(Came::Over(now_ns), Came::Lost)
            }
            None => self.unanswered(lane, session, answer),
        };
        (came, has_waited)
    }

    /// Notes that an operation in flight is overdue at this time.
    #[inline]
    fn watch_until(&self, deadline_ns: u64) {
        self.deadline_ns.set(self.deadline_ns.get().min(deadline_ns));
    }

    /// Takes an operation through its steps, to its end or to one before which it sleeps.
    async fn steps(&self, lane: usize, session: &mut dyn AsyncSession, answer: &mut Answer) -> Came {
        loop {
            let now_ns = self.now_ns();
            let future = {
                let mut core = self.core.borrow_mut();
                let awake_at_ns = core.awake_at_ns();
                match core.step(lane, 1, now_ns) {
                    NextStep::Send(op) => {
                        answer.clear();
                        session.execute(&op, answer)
                    }
                    NextStep::Wait => {
                        self.arm_before(core.awake_at_ns().or(awake_at_ns).unwrap_or(u64::MAX));
                        return Came::Sleeps;
                    }
                    NextStep::Over => return Came::Over(now_ns),
                }
            };
            self.watch_until(now_ns + self.core.borrow().settings.op_timeout_ns);
            let (outcome, _) = self.watch(lane, future).await;
            let Some(outcome) = outcome else { return self.unanswered(lane, session, answer) };
            let now_ns = self.now_ns();
            let mut core = self.core.borrow_mut();
            self.catch_up(&mut core);
            core.answered(lane, now_ns, outcome, answer);
            if let Some(error) = session.lost() {
                answer.fail(Outcome::Unknown, "connection", &error.to_string());
                core.give_up(lane, now_ns, answer);
                return Came::Lost(error);
            }
        }
    }

    /// The session of `lane` is free; what it does next.
    fn go_on(&self, lane: usize, now_ns: u64) -> Option<Work> {
        if self.starting.get() {
            // Its server ended the connection while others are being opened. The phase has no times yet, and its
            // beginning releases all sessions.
            return None;
        }
        let mut core = self.core.borrow_mut();
        core.release(lane, now_ns);
        match core.next(now_ns) {
            Next::Send { lane: next, kind, .. } if next == lane => return Some(Work::Own(kind)),
            Next::Steps { lane: next } if next == lane => return Some(Work::Steps),
            Next::Send { lane: next, kind, .. } => self.give_operation(&core, next, kind),
            Next::Steps { lane: next } => self.give(next, Work::Steps),
            Next::SleepUntil(at_ns) => self.arm_before(at_ns.saturating_sub(core.spin_ns())),
            Next::Wait => {}
            Next::Stop if core.in_flight() == 0 => self.call(),
            Next::Stop => {}
        }
        None
    }
}

/// A session in its task. Its end wakes the pump if the task panics, and reports the session's own count.
struct Served {
    worker: Rc<Worker>,
    lane: usize,
    session: Box<dyn AsyncSession>,
}

impl Drop for Served {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.worker.panicked.set(Some(self.lane));
            self.worker.call();
        } else {
            let asked_again = &self.worker.asked_again;
            asked_again.set(asked_again.get() + self.session.asked_again());
        }
    }
}
