//! Live display of a run in the terminal (`--live`).
//!
//! A [`LiveDisplay`] is the run's sink: it adds each event to its state and returns. A thread of its own draws the
//! state and reads keys, so that a slow terminal never delays the run.
//!
//! | file | content |
//! |---|---|
//! | `state` | observations of the run, and the contents of the display at one moment |
//! | `keys` | keys, and the settings that they change |
//! | `panels`, `view` | rows of each panel; drawing, a pure function of contents and settings |
//! | `heat` | plots over time |
//! | `screen` | the terminal: taken, given back; text that waits meanwhile |

mod heat;
mod keys;
mod panels;
mod screen;
mod state;
mod view;

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use plimsoll_trial::{Sink, Told};

pub use screen::{hold, is_on, leave, restore};

use keys::LiveKeys;
use screen::LiveTerminal;
use state::LiveRun;

use crate::progress::Progress;

/// Longest wait for a key; then the thread looks if there is something to draw.
const KEY_WAIT: Duration = Duration::from_millis(50);
/// Least time between two frames.
const FRAME_MIN: Duration = Duration::from_millis(250);
/// Longest time between two frames: the elapsed time goes on without events.
const FRAME_MAX: Duration = Duration::from_secs(1);
/// Longest wait for the last frame.
const END_LIMIT: Duration = Duration::from_secs(1);
/// Most remarks of a frame.
const REMARKS: usize = 12;

/// Sink that shows a run in the whole terminal, and as progress lines once the user has left the display.
pub struct LiveDisplay<'p> {
    progress: &'p Progress,
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// State that the sink and the drawing thread share.
struct Shared {
    run: Mutex<LiveRun>,
    ended: AtomicBool,
}

impl Shared {
    fn run(&self) -> MutexGuard<'_, LiveRun> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'p> LiveDisplay<'p> {
    /// Makes the display of a run, which takes the terminal when the run begins. Events also go to `progress`.
    pub fn new(progress: &'p Progress) -> Self {
        let shared = Shared { run: Mutex::new(LiveRun::new()), ended: AtomicBool::new(false) };
        Self { progress, shared: Arc::new(shared), thread: Mutex::new(None) }
    }

    /// Takes the terminal and starts the drawing thread. If there is no terminal or no thread, progress lines remain.
    fn begin(&self) {
        let Some(terminal) = screen::enter() else { return };
        let shared = Arc::clone(&self.shared);
        match thread::Builder::new().name("live".to_owned()).spawn(move || show(&shared, terminal)) {
            Ok(started) => *self.thread() = Some(started),
            Err(_) => screen::leave(),
        }
    }

    /// Ends the thread and gives the terminal back.
    fn end(&self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        let (thread, until) = (self.thread().take(), Instant::now() + END_LIMIT);
        while thread.as_ref().is_some_and(|thread| !thread.is_finished()) && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
        screen::leave();
    }

    fn thread(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for LiveDisplay<'_> {
    fn take(&self, told: &Told) {
        if matches!(told, Told::BeginRun(_)) {
            self.begin();
        }
        if screen::is_on() {
            self.shared.run().take(told);
        }
        if matches!(told, Told::EndRun(..)) {
            self.end();
        }
        self.progress.take(told);
    }
}

impl Drop for LiveDisplay<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

/// Gives the terminal back when the drawing thread ends, for whatever reason.
struct Leaving;

impl Drop for Leaving {
    fn drop(&mut self) {
        screen::leave();
    }
}

/// Draws the run until it ends, the user leaves the display, or the terminal fails.
fn show(shared: &Shared, mut terminal: LiveTerminal) {
    let _leaving = Leaving;
    let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut keys = LiveKeys::default();
    let mut reads_keys = std::io::stdin().is_terminal();
    let mut is_pressed = false;
    let mut drawn: Option<(Instant, u64)> = None;
    let mut frozen: Option<LiveRun> = None;
    while screen::is_on() && !shared.ended.load(Ordering::SeqCst) {
        for key in wait_for_keys(&mut reads_keys) {
            is_pressed = true;
            if keys.press(key, shared.run().type_count()) {
                return;
            }
        }
        if !keys.paused {
            frozen = None;
        } else if frozen.is_none() {
            frozen = Some(shared.run().frozen());
        }
        let changes = shared.run().changes();
        let is_due = drawn.is_none_or(|(at, seen)| {
            let age = at.elapsed();
            age >= FRAME_MAX || (age >= FRAME_MIN && (is_pressed || changes != seen))
        });
        if !is_due {
            continue;
        }
        (drawn, is_pressed) = (Some((Instant::now(), changes)), false);
        let remarks = screen::newest(REMARKS);
        let frame = screen::while_on(|| {
            // Writing, which may take long, begins after the state is free again.
            let drawn = terminal.draw(|frame| match &frozen {
                Some(run) => view::draw(frame, &run.frame(&keys, &remarks), &keys, colour),
                None => view::draw(frame, &shared.run().frame(&keys, &remarks), &keys, colour),
            });
            drawn.map(|_| ())
        });
        if frame.is_err() {
            return;
        }
    }
}

/// Waits for keys. If standard input cannot be read, `reads_keys` becomes false and the wait goes on without them.
fn wait_for_keys(reads_keys: &mut bool) -> Vec<char> {
    if *reads_keys && let Ok(keys) = screen::keys(KEY_WAIT) {
        return keys;
    }
    *reads_keys = false;
    thread::sleep(KEY_WAIT);
    Vec::new()
}

#[cfg(test)]
pub(crate) mod tests;
