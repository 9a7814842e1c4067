//! Limits on waiting for a server outside of operations, and the interruption of such waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

use crate::error::{StoreError, StoreErrorKind};

/// Longest delay until a wait notices its end.
pub const TICK: Duration = Duration::from_millis(20);
/// Default of the longest silence after a short request.
pub const ANSWER: Duration = Duration::from_secs(15);
/// Default of the longest silence during long work.
pub const WORK: Duration = Duration::from_secs(3_600);
/// Default of the longest time without progress of a node that joins or starts, if something is left to do.
pub const HUNG_AFTER: Duration = Duration::from_secs(30);
/// Time that operations in flight get after the user requested a stop.
pub const GRACE: Duration = Duration::from_millis(500);
/// Error code of operations that ended because of that stop. Not a failure of the store.
pub const STOPPED: &str = "stopped";
/// Error code of attempts to open a connection that failed. They are not operations.
pub const CONNECT: &str = "connect";
/// Limits while objects are removed after a failure or a stop: enough for a server that responds at all.
const HURRIED_ANSWER: Duration = Duration::from_secs(1);
const HURRIED_WORK: Duration = Duration::from_secs(5);
/// Limit of a removal of many requests then.
const HURRIED_WHOLE: Duration = Duration::from_secs(60);

/// The store is in use.
const IN_USE: u8 = 0;
/// Orderly clean-up.
const LEAVING: u8 = 1;
/// Clean-up after a failure.
const HURRIED: u8 = 2;
/// Clean-up after a stop by the user: the stop has been noticed, and interrupts nothing more.
const LEAVING_STOPPED: u8 = 3;

/// Limits of all waits for one store outside of operations. Clones share their interruption.
#[derive(Debug, Clone)]
pub struct Waits {
    answer: Duration,
    work: Duration,
    grace: Duration,
    hung_after: Duration,
    ends: Arc<Ends>,
    /// Ends these waits only.
    given_up: Option<Arc<AtomicBool>>,
}

#[derive(Debug, Default)]
struct Ends {
    /// Set when the user requests a stop.
    stop: Arc<AtomicBool>,
    leaving: AtomicU8,
}

impl Default for Waits {
    /// The default limits, without a stop.
    fn default() -> Self {
        Self::new(ANSWER, WORK, Arc::default())
    }
}

impl From<&Waits> for Waits {
    fn from(waits: &Waits) -> Self {
        waits.clone()
    }
}

impl From<Duration> for Waits {
    /// A common limit for all waits, without a stop.
    fn from(limit: Duration) -> Self {
        Self::new(limit, limit, Arc::default())
    }
}

impl Waits {
    /// Creates limits. `answer` is the longest silence of a server while it is connected to, greeted or sent a short
    /// request, and in the middle of any reply; `work` is the longest silence during a statement or command that
    /// creates, fills, maintains or removes something. `stop`, once set, interrupts every wait.
    pub fn new(answer: Duration, work: Duration, stop: Arc<AtomicBool>) -> Self {
        let ends = Arc::new(Ends { stop, leaving: AtomicU8::new(IN_USE) });
        Self { answer, work, grace: Duration::ZERO, hung_after: HUNG_AFTER, ends, given_up: None }
    }

    /// Replaces the limit for replies, if one is given, such as the connection time-out of a URL.
    #[must_use]
    pub fn with_answer(&self, answer: impl Into<Option<Duration>>) -> Self {
        Self { answer: answer.into().unwrap_or(self.answer), ..self.clone() }
    }

    /// Limits long work to `work`, if it is limited to more.
    #[must_use]
    pub fn with_work(&self, work: Duration) -> Self {
        Self { work: self.work.min(work), ..self.clone() }
    }

    /// Gives operations in flight a `grace` time to complete after a stop.
    #[must_use]
    pub fn with_grace(&self, grace: Duration) -> Self {
        Self { grace, ..self.clone() }
    }

    /// Replaces the time without progress after which a node that joins or starts is called hung.
    #[must_use]
    pub fn with_hung_after(&self, hung_after: Duration) -> Self {
        Self { hung_after, ..self.clone() }
    }

    /// Makes `given_up`, once set, interrupt these waits and those made from them.
    #[must_use]
    pub fn ended_by(&self, given_up: Arc<AtomicBool>) -> Self {
        Self { given_up: Some(given_up), ..self.clone() }
    }

    /// Longest silence of a server after a short request.
    pub fn answer(&self) -> Duration {
        if self.is_hurried() { self.answer.min(HURRIED_ANSWER) } else { self.answer }
    }

    /// Longest silence of a server during long work.
    pub fn work(&self) -> Duration {
        if self.is_hurried() { self.work.min(HURRIED_WORK) } else { self.work }
    }

    /// Time that a wait may continue after a stop.
    pub fn grace(&self) -> Duration {
        self.grace
    }

    /// Longest time without progress of a node that joins or starts, if something is left to do.
    pub fn hung_after(&self) -> Duration {
        self.hung_after
    }

    /// Switches to clean-up. After a failure or a stop, a server gets little time for that, and an earlier stop
    /// interrupts nothing more.
    pub fn leave(&self, failed: bool) {
        let how = match (self.ends.stop.load(Ordering::SeqCst), failed) {
            (true, _) => LEAVING_STOPPED,
            (false, true) => HURRIED,
            (false, false) => LEAVING,
        };
        self.ends.leaving.store(how, Ordering::SeqCst);
    }

    /// True if waits must end.
    pub fn is_stopped(&self) -> bool {
        let is_given_up = self.given_up.as_ref().is_some_and(|given_up| given_up.load(Ordering::SeqCst));
        let is_stopped = self.ends.stop.load(Ordering::SeqCst);
        is_given_up || is_stopped && self.ends.leaving.load(Ordering::SeqCst) != LEAVING_STOPPED
    }

    /// Fails if the user requested a stop.
    ///
    /// # Errors
    /// `Interrupted`.
    pub fn check(&self) -> Result<(), StoreError> {
        if self.is_stopped() { Err(interrupted()) } else { Ok(()) }
    }

    /// Fails if work of many requests, which began at `began`, has taken too long, although each request was answered.
    /// `what` names the work.
    ///
    /// # Errors
    /// `Broken`; as [`Waits::check`].
    pub fn check_whole(&self, began: Instant, what: &str) -> Result<(), StoreError> {
        let most = if self.is_hurried() { self.work.min(HURRIED_WHOLE) } else { self.work };
        if began.elapsed() > most {
            let what = format!("{what} has not ended after {} s", most.as_secs_f64());
            return Err(StoreError::new(StoreErrorKind::Broken, what));
        }
        self.check()
    }

    /// Sleeps between two checks.
    ///
    /// # Errors
    /// `Interrupted`, soon after the user requested a stop.
    pub fn pause(&self, length: Duration) -> Result<(), StoreError> {
        let mut left = length;
        while !left.is_zero() {
            self.check()?;
            let part = left.min(TICK);
            std::thread::sleep(part);
            left -= part;
        }
        self.check()
    }

    /// Calls `look` every `interval` until it succeeds, for as long as long work may take. Its inner error describes
    /// the current state; `next` is the advice if that does not change.
    ///
    /// # Errors
    /// Errors of `look`; `Broken` after all that time; as [`Waits::pause`].
    pub fn until<T>(
        &self,
        interval: Duration,
        next: &str,
        mut look: impl FnMut() -> Result<Result<T, String>, StoreError>,
    ) -> Result<T, StoreError> {
        let began = Instant::now();
        loop {
            let still = match look()? {
                Ok(found) => return Ok(found),
                Err(still) => still,
            };
            let most = self.work();
            if began.elapsed() > most {
                let what = format!("{still} after {} s", most.as_secs_f64());
                return Err(StoreError::new(StoreErrorKind::Broken, what)
                    .next(format!("{next}; if it only needs longer, raise `work_timeout`.")));
            }
            self.pause(interval)?;
        }
    }

    fn is_hurried(&self) -> bool {
        self.ends.leaving.load(Ordering::SeqCst) >= HURRIED
    }
}

/// The error of a wait that the user stopped.
pub fn interrupted() -> StoreError {
    StoreError::new(StoreErrorKind::Interrupted, "stopped by the user")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_to_stop_ends_a_pause_and_not_the_removal_that_follows() {
        let stop = Arc::new(AtomicBool::new(false));
        let waits = Waits::new(ANSWER, WORK, Arc::clone(&stop));
        assert!(waits.pause(Duration::from_millis(1)).is_ok());
        stop.store(true, Ordering::SeqCst);
        assert_eq!(waits.pause(Duration::from_secs(600)).unwrap_err().kind, StoreErrorKind::Interrupted);
        waits.leave(false);
        assert!(waits.check().is_ok());
        assert_eq!((waits.answer(), waits.work()), (HURRIED_ANSWER, HURRIED_WORK));
    }

    #[test]
    fn waits_that_are_given_up_end_and_those_that_they_come_from_go_on() {
        let (all, given_up) = (Waits::default(), Arc::new(AtomicBool::new(false)));
        let some = all.ended_by(Arc::clone(&given_up)).with_answer(Duration::from_secs(1));
        assert!(some.check().is_ok());
        given_up.store(true, Ordering::SeqCst);
        assert_eq!(some.check().unwrap_err().kind, StoreErrorKind::Interrupted);
        assert!(all.check().is_ok());
    }

    #[test]
    fn what_does_not_come_about_is_waited_for_as_long_as_work_may_take() {
        let waits = Waits::new(ANSWER, Duration::from_millis(500), Arc::default());
        let mut left = 3;
        let until = |waits: &Waits, mut look: Box<dyn FnMut() -> Result<u32, String>>| {
            waits.until(Duration::from_millis(1), "Look there", || Ok(look()))
        };
        let found = until(
            &waits,
            Box::new(move || {
                left -= 1;
                if left == 0 { Ok(7) } else { Err("it is not there".to_owned()) }
            }),
        );
        assert_eq!(found.unwrap(), 7);
        let error = until(&waits, Box::new(|| Err("it is not there".to_owned()))).unwrap_err();
        assert_eq!(error.what, "it is not there after 0.5 s");
        assert_eq!(error.next.unwrap(), "Look there; if it only needs longer, raise `work_timeout`.");
    }

    #[test]
    fn work_of_many_requests_has_an_end_as_a_whole() {
        let stop = Arc::new(AtomicBool::new(false));
        let waits = Waits::new(ANSWER, WORK, Arc::clone(&stop));
        let ago = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap();
        assert!(waits.check_whole(ago(100), "a removal").is_ok());
        stop.store(true, Ordering::SeqCst);
        assert_eq!(waits.check_whole(ago(0), "a removal").unwrap_err().kind, StoreErrorKind::Interrupted);
        waits.leave(false);
        assert!(waits.check_whole(ago(50), "a removal").is_ok());
        let error = waits.check_whole(ago(100), "a removal").unwrap_err();
        assert_eq!(error.what, "a removal has not ended after 60 s");
    }

    #[test]
    fn a_removal_in_good_order_has_all_its_time_and_can_be_stopped() {
        let stop = Arc::new(AtomicBool::new(false));
        let waits = Waits::new(ANSWER, WORK, Arc::clone(&stop));
        let copy = waits.with_answer(Duration::from_secs(1));
        waits.leave(false);
        assert_eq!((waits.answer(), waits.work(), copy.answer()), (ANSWER, WORK, Duration::from_secs(1)));
        stop.store(true, Ordering::SeqCst);
        assert!(copy.check().is_err());
        waits.leave(true);
        assert_eq!(copy.answer(), HURRIED_ANSWER);
    }
}
