//! Sessions that are opened, lost, and opened again.

use std::cell::Cell;

use plimsoll_core::{Answer, AsyncSession, Outcome, StoreError, waits};

use super::{Came, Worker};
use crate::link::LASTED_NS;
use crate::place::{is_for_good, silent, unanswered};
use crate::result::StopReason;

/// Since when a session has been away.
#[derive(Default)]
pub(super) struct Losses {
    lost_ns: Cell<Option<u64>>,
    /// Time at which an operation was first given up since the last answered one.
    silent_since_ns: Cell<Option<u64>>,
    /// Time at which the session was opened last.
    opened_ns: Cell<u64>,
}

impl Losses {
    pub fn answered(&self) {
        self.silent_since_ns.set(None);
    }

    pub fn down_ns(&self, now_ns: u64) -> u64 {
        self.lost_ns.get().map_or(0, |lost_ns| now_ns.saturating_sub(lost_ns))
    }

    fn longest_ns(&self, now_ns: u64) -> u64 {
        let since_ns = self.lost_ns.get().into_iter().chain(self.silent_since_ns.get()).min();
        since_ns.map_or(0, |since_ns| now_ns.saturating_sub(since_ns))
    }
}

impl Worker {
    /// Opens the next of the sessions that are not open yet.
    pub(super) fn open_next(&self) {
        let lane = self.opens_next.get();
        if let Some(seat) = self.seats.get(lane) {
            self.opens_next.set(lane + 1);
            seat.wake();
        }
    }

    /// False where the phase does not begin.
    pub(super) async fn open_first(&self, lane: usize, session: &mut dyn AsyncSession) -> bool {
        let seat = &self.seats[lane];
        std::future::poll_fn(|context| {
            seat.wait(context);
            if self.opens_next.get() > lane { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
        let opened = self.open(lane, session).await;
        let is_open = opened.is_ok();
        match opened {
            Ok(()) => {
                self.not_ready.set(self.not_ready.get() - 1);
                self.open_next();
            }
            Err(error) => drop(self.first_error.borrow_mut().get_or_insert(error)),
        }
        if self.not_ready.get() == 0 || !is_open {
            self.call();
        }
        is_open
    }

    async fn open(&self, lane: usize, session: &mut dyn AsyncSession) -> Result<(), StoreError> {
        let began_ns = self.now_ns();
        let timeout_ns = self.core.borrow().settings.connect_timeout_ns(self.starting.get());
        let seat = &self.seats[lane];
        seat.alarm_ns.set(began_ns.saturating_add(timeout_ns));
        let (opened, _) = self.watch(lane, session.open(&self.kinds)).await;
        seat.alarm_ns.set(u64::MAX);
        if let Some(address) = session.address() {
            self.core.borrow_mut().asks(lane..lane + 1, &address);
        }
        seat.losses.opened_ns.set(self.now_ns());
        opened.unwrap_or_else(|| Err(silent(session.place(), timeout_ns)))
    }

    /// Opens a session whose connection the server ended while nothing was in flight. This costs no operation and no time,
    /// unless the server is gone: then the connection was lost. Returns when the session is open.
    #[cold]
    pub(super) async fn open_after_end(&self, lane: usize, session: &mut dyn AsyncSession) -> u64 {
        let losses = &self.seats[lane].losses;
        let ended_ns = self.now_ns();
        losses.lost_ns.set(Some(ended_ns));
        self.not_ready.set(self.not_ready.get() + 1);
        // The next connection to a server that ends each at once would not last either.
        let lasted = ended_ns.saturating_sub(losses.opened_ns.get()) >= LASTED_NS;
        if lasted {
            match self.open(lane, session).await {
                Ok(()) => {
                    losses.lost_ns.set(None);
                    self.not_ready.set(self.not_ready.get() - 1);
                    self.ended_connections.set(self.ended_connections.get() + 1);
                    return self.now_ns();
                }
                Err(error) => self.not_opened(lane, error),
            }
        }
        self.note_loss(ended_ns);
        self.come_back(lane, session).await
    }

    /// Opens a session that was lost, again and again if need be. Returns when it is open.
    #[cold]
    pub(super) async fn open_again(&self, lane: usize, session: &mut dyn AsyncSession, error: StoreError) -> u64 {
        let now_ns = self.now_ns();
        self.seats[lane].losses.lost_ns.set(Some(now_ns));
        self.not_ready.set(self.not_ready.get() + 1);
        self.note_loss(now_ns);
        let ends_on_loss = self.core.borrow().settings.ends_on_loss && !self.core.borrow().is_cancelled();
        self.end_for(lane, now_ns, error, ends_on_loss);
        // The operation that was lost may have opened the client's circuit.
        self.call();
        self.come_back(lane, session).await
    }

    /// Tries to open a session that is lost until it is open, with longer and longer waits in between. Returns the time.
    async fn come_back(&self, lane: usize, session: &mut dyn AsyncSession) -> u64 {
        let seat = &self.seats[lane];
        let mut now_ns = self.now_ns();
        loop {
            if self.has_ended() {
                // It goes with its runtime.
                return std::future::pending().await;
            }
            let wait_ns = seat.attempts.borrow_mut().wait_ns();
            seat.alarm_ns.set(now_ns + wait_ns);
            self.watch(lane, Box::pin(std::future::pending::<()>())).await;
            let opened = self.open(lane, session).await;
            now_ns = self.now_ns();
            match opened {
                Ok(()) => {
                    seat.attempts.borrow_mut().succeeded();
                    self.down_ns.set(self.down_ns.get() + seat.losses.down_ns(now_ns));
                    seat.losses.lost_ns.set(None);
                    self.not_ready.set(self.not_ready.get() - 1);
                    return now_ns;
                }
                Err(error) => self.not_opened(lane, error),
            }
        }
    }

    fn note_loss(&self, at_ns: u64) {
        let mut all = self.lost_connections.get();
        all.note(at_ns);
        self.lost_connections.set(all);
    }

    /// Notes that the session of `lane` could not be opened again.
    fn not_opened(&self, lane: usize, error: StoreError) {
        self.failed_connects.set(self.failed_connects.get() + 1);
        let mut answer = Answer::default();
        answer.fail(Outcome::Rejected, waits::CONNECT, &error.to_string());
        let now_ns = self.now_ns();
        self.core.borrow_mut().not_connected(lane..lane + 1, now_ns, &answer);
        // What is due may be rejected now.
        self.call();
        self.end_for(lane, now_ns, error, false);
    }

    /// Returns true if the phase is over for this worker; wakes the pump when nothing is in flight any more.
    fn has_ended(&self) -> bool {
        let core = self.core.borrow();
        if core.has_ended() && core.in_flight() == 0 {
            self.call();
        }
        core.has_ended()
    }

    /// Ends the phase if no other event would: a server refuses permanently, or no other session performs this
    /// client's operations.
    fn end_for(&self, lane: usize, now_ns: u64, error: StoreError, is_wanted: bool) {
        let mut core = self.core.borrow_mut();
        let away_ns = self.seats[lane].losses.longest_ns(now_ns);
        if is_for_good(&error) {
            core.halt(now_ns, StopReason::Refused(error));
        } else if is_wanted || (!core.has_planned_end() && away_ns > core.settings.open_timeout_ns) {
            core.halt(now_ns, StopReason::Lost(error));
        }
    }

    /// Handles the operation of `lane`, whose end was not observed.
    #[cold]
    pub(super) fn unanswered(&self, lane: usize, session: &dyn AsyncSession, answer: &mut Answer) -> Came {
        let now_ns = self.give_up(lane, session.place(), answer);
        let losses = &self.seats[lane].losses;
        losses.silent_since_ns.set(losses.silent_since_ns.get().or(Some(now_ns)));
        Came::Lost(unanswered(session.place(), self.core.borrow().settings.op_timeout_ns))
    }

    /// Gives up the operation of `lane`, which is unknown then. Returns the time.
    #[cold]
    pub(super) fn give_up(&self, lane: usize, place: &str, answer: &mut Answer) -> u64 {
        let now_ns = self.now_ns();
        let mut core = self.core.borrow_mut();
        let timeout_ns = core.settings.op_timeout_ns;
        match (core.is_cancelled(), place) {
            (true, _) => answer.fail(Outcome::Unknown, waits::STOPPED, &waits::interrupted().to_string()),
            (false, "") => answer.fail(Outcome::Unknown, "timeout", "still asleep when the phase had long ended"),
            (false, place) => answer.fail(Outcome::Unknown, "timeout", &unanswered(place, timeout_ns).to_string()),
        };
        core.give_up(lane, now_ns, answer);
        now_ns
    }
}
