//! A password that does not print.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// A password, which is never printed and is sent to the server only.
#[derive(Clone)]
pub struct Password(Source);

#[derive(Clone)]
enum Source {
    Text(String),
    Renewed(Arc<Renewed>),
}

/// A password that is read again at each use.
struct Renewed {
    read: Box<dyn Fn() -> Option<String> + Send + Sync>,
    last: Mutex<String>,
}

impl Password {
    /// Wraps a password.
    pub fn new(password: impl Into<String>) -> Self {
        Self(Source::Text(password.into()))
    }

    /// Creates a password that `read` looks up again at each use, such as the first line of a file. If `read` returns
    /// `None`, the last one applies; `first` is the first one.
    pub fn renewed(first: String, read: impl Fn() -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Source::Renewed(Arc::new(Renewed { read: Box::new(read), last: Mutex::new(first) })))
    }

    /// Returns the text as it is now, to send to the server only.
    pub fn text(&self) -> Cow<'_, str> {
        match &self.0 {
            Source::Text(text) => Cow::Borrowed(text),
            Source::Renewed(renewed) => Cow::Owned(renewed.text()),
        }
    }
}

impl Renewed {
    fn text(&self) -> String {
        // Read before the lock: other sessions must not wait for a slow disk.
        let read = (self.read)();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match read {
            Some(text) => {
                last.clone_from(&text);
                text
            }
            None => last.clone(),
        }
    }
}

impl PartialEq for Password {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Password {}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(a password)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_that_is_renewed_is_the_newest_that_could_be_read() {
        let now = Arc::new(Mutex::new(Some("second".to_owned())));
        let source = Arc::clone(&now);
        let password = Password::renewed("first".to_owned(), move || source.lock().unwrap().clone());
        let copy = password.clone();
        assert_eq!(password.text(), "second");
        *now.lock().unwrap() = None;
        assert_eq!((copy.text(), &copy), (Cow::Borrowed("second"), &Password::new("second")));
        *now.lock().unwrap() = Some("third".to_owned());
        assert_eq!(copy.text(), "third");
        assert_eq!(format!("{password:?}"), "(a password)");
    }
}
