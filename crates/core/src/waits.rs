//! How long anybody waits for a server outside of operations, and what ends such a wait before that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

use crate::error::{StoreError, StoreErrorKind};

/// Longest that a wait goes on after it was to end.
pub const TICK: Duration = Duration::from_millis(20);
/// Longest silence to a short question, unless said otherwise.
pub const ANSWER: Duration = Duration::from_secs(15);
/// Longest silence over a long piece of work, unless said otherwise.
pub const WORK: Duration = Duration::from_secs(3_600);
/// How long operations that are under way go on when the user wants an end.
pub const GRACE: Duration = Duration::from_millis(500);
/// The code of operations that were ended because of that: nobody's failure.
pub const STOPPED: &str = "stopped";
/// The same while what was made is removed after a failure or on the way out: enough for a server that answers at all.
const HURRIED_ANSWER: Duration = Duration::from_secs(1);
const HURRIED_WORK: Duration = Duration::from_secs(5);

/// The store is in use.
const IN_USE: u8 = 0;
/// It is being left, in good order.
const LEAVING: u8 = 1;
/// It is being left after a failure.
const HURRIED: u8 = 2;
/// It is being left because the user wanted an end: what wanted it has been heard, and ends nothing more.
const LEAVING_STOPPED: u8 = 3;

/// The limits of all waits for one store outside of operations. Copies share what ends them.
#[derive(Debug, Clone)]
pub struct Waits {
    answer: Duration,
    work: Duration,
    grace: Duration,
    ends: Arc<Ends>,
}

#[derive(Debug, Default)]
struct Ends {
    /// Set when the user wants an end.
    stop: Arc<AtomicBool>,
    leaving: AtomicU8,
}

impl Default for Waits {
    /// The usual limits, and nobody who wants an end before.
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
    /// One limit for everything, and nobody who wants an end before.
    fn from(limit: Duration) -> Self {
        Self::new(limit, limit, Arc::default())
    }
}

impl Waits {
    /// `answer` is how long a server may be silent while it is connected to, greeted and asked what it knows at once, and
    /// in the middle of any answer; `work` is how long it may be silent over a statement or command that makes, fills,
    /// tidies or removes something. `stop`, once set, ends every wait.
    pub fn new(answer: Duration, work: Duration, stop: Arc<AtomicBool>) -> Self {
        Self { answer, work, grace: Duration::ZERO, ends: Arc::new(Ends { stop, leaving: AtomicU8::new(IN_USE) }) }
    }

    /// The same with another limit for answers, where one is said: what a URL says of connecting.
    #[must_use]
    pub fn with_answer(&self, answer: impl Into<Option<Duration>>) -> Self {
        Self { answer: answer.into().unwrap_or(self.answer), ..self.clone() }
    }

    /// The same for operations that are under way: they go on for `grace` after the user wanted an end.
    #[must_use]
    pub fn with_grace(&self, grace: Duration) -> Self {
        Self { grace, ..self.clone() }
    }

    /// Longest silence of a server that is asked something short.
    pub fn answer(&self) -> Duration {
        if self.is_hurried() { self.answer.min(HURRIED_ANSWER) } else { self.answer }
    }

    /// Longest silence of a server that has a long piece of work to do.
    pub fn work(&self) -> Duration {
        if self.is_hurried() { self.work.min(HURRIED_WORK) } else { self.work }
    }

    /// How long a wait still goes on when the user has wanted an end.
    pub fn grace(&self) -> Duration {
        self.grace
    }

    /// From now on what was made is removed. After a failure, or when the user has wanted an end, a server gets little
    /// time for that; and what the user has wanted before ends nothing more.
    pub fn leave(&self, failed: bool) {
        let how = match (self.ends.stop.load(Ordering::SeqCst), failed) {
            (true, _) => LEAVING_STOPPED,
            (false, true) => HURRIED,
            (false, false) => LEAVING,
        };
        self.ends.leaving.store(how, Ordering::SeqCst);
    }

    /// True when no wait is to go on.
    pub fn is_stopped(&self) -> bool {
        self.ends.stop.load(Ordering::SeqCst) && self.ends.leaving.load(Ordering::SeqCst) != LEAVING_STOPPED
    }

    /// Goes on only if the user has not wanted an end.
    ///
    /// # Errors
    /// `Interrupted`.
    pub fn check(&self) -> Result<(), StoreError> {
        if self.is_stopped() { Err(interrupted()) } else { Ok(()) }
    }

    /// Sleeps between two looks at something.
    ///
    /// # Errors
    /// `Interrupted`, soon after the user wanted an end.
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

    /// Looks at something every `interval` until it is as wanted, for as long as a long piece of work may take. `look` says
    /// what is still so, until then; `next` is what to do where it stays so.
    ///
    /// # Errors
    /// What looking came to; `Broken` after all that time; as [`Waits::pause`].
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
                    .next(format!("{next}; where it only needs longer, raise `work_timeout`.")));
            }
            self.pause(interval)?;
        }
    }

    fn is_hurried(&self) -> bool {
        self.ends.leaving.load(Ordering::SeqCst) >= HURRIED
    }
}

/// What a wait ends with when the user wants an end.
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
    fn what_does_not_come_about_is_waited_for_as_long_as_work_may_take() {
        let waits = Waits::new(ANSWER, Duration::from_millis(5), Arc::default());
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
        assert_eq!(error.what, "it is not there after 0.005 s");
        assert_eq!(error.next.unwrap(), "Look there; where it only needs longer, raise `work_timeout`.");
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
