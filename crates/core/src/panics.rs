//! Panics of code that runs in this process, such as an embedded store's, as errors.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::Once;

use crate::{StoreError, StoreErrorKind};

thread_local! {
    /// Place of this thread's last panic.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// A panic that was caught.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Panic {
    /// Message of the panic.
    pub message: String,
    /// File and line of the panic; `None` if they were not seen.
    pub place: Option<String>,
}

/// Calls `work`, and returns its panic as an error. The panic is printed like any other.
///
/// # Errors
/// The panic of `work`. Values that it was changing may be inconsistent.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Panic> {
    note_places();
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| Panic::of(&*panic))
}

/// Makes each later panic note its place.
fn note_places() {
    static ONCE: Once = Once::new();
    // A panicking thread may not change the hook.
    if std::thread::panicking() {
        return;
    }
    ONCE.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PLACE.with_borrow_mut(|place| *place = info.location().map(short));
            print(info);
        }));
    });
}

/// Returns file and line; of a library's file, the path from the library's name on.
fn short(location: &Location<'_>) -> String {
    let file = location.file();
    let in_library = file.split_once("/registry/src/").and_then(|(_, path)| path.split_once('/'));
    format!("{}:{}", in_library.map_or(file, |(_, path)| path), location.line())
}

impl Panic {
    fn of(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Self { message: text.to_owned(), place: PLACE.take() }
    }

    /// Returns the error that `store` panicked during `activity`.
    pub fn error(&self, store: &str, activity: &str) -> StoreError {
        let what = format!("{store} panicked in this process during {activity}: {}", self.message);
        StoreError {
            detail: self.place.as_ref().map(|place| format!("at {place}")),
            ..StoreError::new(StoreErrorKind::Broken, what)
        }
        .next(
            "this is a bug of the store's library or of Plimsoll: report it with the run's recording, if there is one \
             (`plimsoll runs`), and with what the same command prints with RUST_BACKTRACE=1",
        )
    }
}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.place.as_ref().map_or(Ok(()), |place| write!(f, " (at {place})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_with_message_and_place() {
        assert_eq!(caught(|| 7), Ok(7));
        let line = line!() + 1;
        let panic = caught(|| panic!("entry {}", 5)).unwrap_err();
        assert_eq!((panic.message.as_str(), panic.place.clone()), ("entry 5", Some(format!("{}:{line}", file!()))));
        let error = panic.error("fjall", "settle");
        assert_eq!(
            error.line(),
            format!("fjall panicked in this process during settle: entry 5 (at {}:{line})", file!())
        );
    }
}
