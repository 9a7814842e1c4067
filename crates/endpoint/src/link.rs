//! A connection that is made when it is needed, and made again when it has ended.

use std::sync::Arc;

use plimsoll_core::{Nodes, Probe, Reading, Servers, StoreError};

/// A connection that can tell whether it may be used again.
pub trait Connected: Send + 'static {
    /// True when the server has not ended it since it was last used, and it can take a question.
    fn is_alive(&mut self) -> bool;
}

/// A connection of the control plane to one server, whenever that is asked for.
pub struct Link<C> {
    server: Option<(Arc<dyn Servers>, Nodes)>,
    connect: Arc<dyn Fn() -> Result<C, StoreError> + Send + Sync>,
    open: Option<C>,
}

impl<C: Connected> Link<C> {
    /// Makes a link to the server of `connect`; `server` are the private nodes behind it, if any.
    pub fn new(
        server: Option<(Arc<dyn Servers>, Nodes)>,
        connect: impl Fn() -> Result<C, StoreError> + Send + Sync + 'static,
    ) -> Self {
        Self { server, connect: Arc::new(connect), open: None }
    }

    /// Returns the link with a connection that is open already.
    #[must_use]
    pub fn holding(self, open: Option<C>) -> Self {
        Self { open, ..self }
    }

    /// Makes another link to the same server, with a separate connection.
    #[must_use]
    pub fn another(&self) -> Self {
        Self { server: self.server.clone(), connect: Arc::clone(&self.connect), open: None }
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
                (self.connect)()?
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

    use plimsoll_core::StoreErrorKind;

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
}
