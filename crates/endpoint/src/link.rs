//! A connection that is made when it is needed, and made again when it has ended.

use std::sync::Arc;
use std::time::Instant;

use plimsoll_core::waits::TICK;
use plimsoll_core::{Nodes, Probe, Reading, Servers, StoreError, StoreErrorKind, Waits};

/// A connection that can tell whether it may be used again.
pub trait Connected: Send + 'static {
    /// True when the server has not ended it since it was last used, and it can take a question.
    fn is_alive(&mut self) -> bool;
}

/// A connection of the control plane to one server, whenever that is asked for.
pub struct Link<C> {
    server: Option<(Arc<dyn Servers>, Nodes)>,
    connect: Arc<dyn Fn() -> Result<C, StoreError> + Send + Sync>,
    /// Limits of the wait for a server that can be reached; `None` without such a wait.
    patience: Option<Waits>,
    open: Option<C>,
}

impl<C: Connected> Link<C> {
    /// Makes a link to the server of `connect`; `server` are the private nodes behind it, if any.
    pub fn new(
        server: Option<(Arc<dyn Servers>, Nodes)>,
        connect: impl Fn() -> Result<C, StoreError> + Send + Sync + 'static,
    ) -> Self {
        Self { server, connect: Arc::new(connect), patience: None, open: None }
    }

    /// Returns the link with a connection that is open already.
    #[must_use]
    pub fn holding(self, open: Option<C>) -> Self {
        Self { open, ..self }
    }

    /// Returns the link with a wait of up to one [answer](Waits::answer) while no server can be reached: one of several
    /// may be about to take the place of another.
    #[must_use]
    pub fn waiting(self, waits: Option<Waits>) -> Self {
        Self { patience: waits, ..self }
    }

    /// Makes another link to the same server, with a separate connection and without a wait.
    #[must_use]
    pub fn another(&self) -> Self {
        Self { server: self.server.clone(), connect: Arc::clone(&self.connect), patience: None, open: None }
    }

    fn connected(&self) -> Result<C, StoreError> {
        let Some(waits) = &self.patience else { return (self.connect)() };
        let began = Instant::now();
        loop {
            match (self.connect)() {
                Err(error) if error.kind == StoreErrorKind::Unreachable && began.elapsed() < waits.answer() => {
                    waits.pause(TICK)?;
                }
                made => return made,
            }
        }
    }

    /// The connection. Between two uses the server may have been restarted, or have ended a connection that was idle.
    ///
    /// # Errors
    /// How a server of our own has ended, or why there is no connection.
    pub fn get(&mut self) -> Result<&mut C, StoreError> {
        let mut open = self.open.take();
        let is_alive = open.as_mut().is_some_and(C::is_alive);
        let open = match open.filter(|_| is_alive) {
            Some(open) => open,
            None => {
                // The end of a private server is more informative than a refused connection.
                if let Some((server, nodes)) = &self.server {
                    server.check(*nodes)?;
                }
                self.connected()?
            }
        };
        Ok(self.open.insert(open))
    }

    /// Asks over the connection; after an error the next question is asked over another one.
    ///
    /// # Errors
    /// As [`Link::get`] and `ask`.
    pub fn ask<T>(&mut self, ask: impl FnOnce(&mut C) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let asked = self.get().and_then(ask);
        if asked.is_err() {
            self.hang_up();
        }
        asked
    }

    /// Ends the connection.
    pub fn hang_up(&mut self) {
        self.open = None;
    }

    /// A probe that reads over another connection to the same server.
    pub fn probe(&self, mut read: impl FnMut(&mut C) -> Result<Vec<Reading>, StoreError> + Send + 'static) -> Probe {
        let mut link = self.another();
        Box::new(move || link.ask(&mut read))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use super::*;

    /// A connection to a server that ends each after so many questions.
    struct Brief {
        left: u32,
    }

    impl Connected for Brief {
        fn is_alive(&mut self) -> bool {
            self.left > 0
        }
    }

    #[test]
    fn a_connection_is_made_once_and_again_when_it_has_ended_or_failed() {
        let made = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&made);
        let mut link = Link::new(None, move || {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(Brief { left: 2 })
        });
        let ask = |link: &mut Link<Brief>| {
            link.ask(|open| {
                open.left -= 1;
                Ok(())
            })
        };
        let made = || made.load(Ordering::Relaxed);
        assert_eq!(made(), 0, "no request was made");
        (0..3).for_each(|_| ask(&mut link).unwrap());
        assert_eq!(made(), 2, "the first was good for two questions");
        let failed = link.ask(|_| Err::<(), _>(StoreError::new(StoreErrorKind::Broken, "nonsense")));
        assert_eq!(failed.unwrap_err().what, "nonsense");
        ask(&mut link).unwrap();
        assert_eq!(made(), 3, "the one that failed is not asked again");
        let mut probe = link.probe(|open| {
            open.left -= 1;
            Ok(vec![Reading::level("", "left", "", f64::from(open.left))])
        });
        assert_eq!(probe().unwrap()[0].number(), 1.0);
        assert_eq!(made(), 4, "a probe has its own");
    }

    #[test]
    fn a_link_that_waits_connects_once_another_server_takes_the_place_of_a_lost_one() {
        let tries = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&tries);
        let connect = move || match count.fetch_add(1, Ordering::Relaxed) {
            0..4 => Err(StoreError::new(StoreErrorKind::Unreachable, "no primary")),
            _ => Ok(Brief { left: 2 }),
        };
        let waits = |answer: Duration| Some(Waits::default().with_answer(answer));
        let mut link = Link::new(None, connect).waiting(waits(Duration::from_secs(20)));
        let mut probe = link.probe(|_| Ok(Vec::new()));
        assert_eq!(probe().unwrap_err().what, "no primary");
        assert!(link.get().is_ok());
        assert_eq!(tries.load(Ordering::Relaxed), 5, "a probe does not wait");
        let refused = || Err::<Brief, _>(StoreError::new(StoreErrorKind::Authentication, "no"));
        let mut link = Link::new(None, refused).waiting(waits(Duration::from_secs(20)));
        assert_eq!(link.get().err().unwrap().what, "no");
        let gone = || Err::<Brief, _>(StoreError::new(StoreErrorKind::Unreachable, "gone"));
        let mut link = Link::new(None, gone).waiting(waits(Duration::from_millis(50)));
        assert_eq!(link.get().err().unwrap().what, "gone", "after the longest time of an answer");
    }
}
