//! The terminal while the display has it: a screen of its own, raw keys, and text of others that waits until the end.

use std::collections::VecDeque;
use std::io::{BufWriter, IsTerminal, Stderr, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError, TryLockError};
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcsetattr};

use super::keys::pressed;

/// Terminal of the display: standard error, as of progress lines.
pub type LiveTerminal = Terminal<CrosstermBackend<BufWriter<Stderr>>>;

/// Takes the alternate screen, and hides the cursor.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l";
/// Resets colours, shows the cursor, and returns to the normal screen.
const LEAVE: &[u8] = b"\x1b[0m\x1b[?25h\x1b[?1049l";
/// Most texts that wait; then the oldest is dropped.
const HELD_MAX: usize = 500;

/// True while the display has the terminal.
static ON: AtomicBool = AtomicBool::new(false);
/// Modes of the terminal before.
static SAVED: Mutex<Option<Termios>> = Mutex::new(None);
/// Texts that wait for the normal screen.
static HELD: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());
/// Held while a frame is written.
static DRAWING: Mutex<()> = Mutex::new(());
/// Installs the hook that restores the terminal on a panic.
static HOOK: Once = Once::new();

/// Returns true while the display has the terminal.
pub fn is_on() -> bool {
    ON.load(Ordering::SeqCst)
}

/// Takes the terminal for the display. `None` if there is none that can be drawn on: standard error is no terminal, the
/// terminal is dumb, or this process is in its background.
pub fn enter() -> Option<LiveTerminal> {
    let tty = std::io::stderr();
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    let is_behind = || tcgetpgrp(&tty).is_ok_and(|group| group != rustix::process::getpgrp());
    if is_dumb || !tty.is_terminal() || is_behind() {
        return None;
    }
    let modes = tcgetattr(&tty).ok()?;
    let mut raw = modes.clone();
    raw.make_raw();
    // Ctrl-C is a signal as ever. A stopped program would leave the screen as it is: Ctrl-Z and Ctrl-\ do nothing.
    raw.local_modes.insert(LocalModes::ISIG);
    raw.special_codes[SpecialCodeIndex::VSUSP] = 0;
    raw.special_codes[SpecialCodeIndex::VQUIT] = 0;
    // Lines of other programs still begin at the left.
    raw.output_modes = modes.output_modes;
    let terminal = Terminal::new(CrosstermBackend::new(BufWriter::new(tty))).ok()?;
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            restore();
            before(info);
        }));
    });
    for signal in [libc::SIGQUIT, libc::SIGTSTP] {
        // SAFETY: `restore_and_raise` calls only what may be called in a handler.
        let before = unsafe { libc::signal(signal, restore_and_raise as *const () as libc::sighandler_t) };
        if before == libc::SIG_IGN {
            // SAFETY: ignoring a signal runs no code.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
        }
    }
    *lock(&SAVED) = Some(modes);
    ON.store(true, Ordering::SeqCst);
    let set = tcsetattr(rustix::stdio::stderr(), OptionalActions::Now, &raw);
    if set.is_err() || rustix::io::write(rustix::stdio::stderr(), ENTER).is_err() {
        leave();
        return None;
    }
    Some(terminal)
}

/// Gives the terminal back: its modes and its normal screen. Allocates nothing; does nothing if the display does not
/// have the terminal.
pub fn restore() {
    if !ON.swap(false, Ordering::SeqCst) {
        return;
    }
    // A frame that is being written ends first, unless the terminal is stuck or the drawing thread itself is here.
    let _drawn = (0..20).find_map(|_| {
        let drawn = DRAWING.try_lock().ok();
        if drawn.is_none() {
            std::thread::sleep(Duration::from_millis(5));
        }
        drawn
    });
    let mut saved = match SAVED.try_lock() {
        Ok(saved) => saved,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return,
    };
    let _ = rustix::io::write(rustix::stdio::stderr(), LEAVE);
    if let Some(modes) = saved.take() {
        let _ = tcsetattr(rustix::stdio::stderr(), OptionalActions::Now, &modes);
    }
}

/// Handles a signal that ends or stops the program: gives the terminal back first. After a stop the display does not
/// return, and progress lines follow.
extern "C" fn restore_and_raise(signal: libc::c_int) {
    // Without memory of the heap: system calls, and locks that it only tries to take.
    restore();
    // SAFETY: both may be called in a handler. The signal is blocked here, and takes its default effect afterwards.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// Gives the terminal back, and writes the texts that waited.
pub fn leave() {
    restore();
    let held = std::mem::take(&mut *lock(&HELD));
    let mut stderr = std::io::stderr().lock();
    for text in held {
        let _ = writeln!(stderr, "{}", text.trim_start());
    }
}

/// Keeps `text` for the normal screen. Returns false if the display does not have the terminal.
pub fn hold(text: &str) -> bool {
    let mut held = lock(&HELD);
    if !is_on() {
        return false;
    }
    if held.len() >= HELD_MAX {
        held.pop_front();
    }
    held.push_back(text.to_owned());
    true
}

/// Returns the newest texts that wait, the newest last.
pub fn newest(most: usize) -> Vec<String> {
    let held = lock(&HELD);
    held.iter().skip(held.len().saturating_sub(most)).map(|text| text.trim().to_owned()).collect()
}

/// Calls `draw` if the display has the terminal, which it keeps meanwhile.
///
/// # Errors
/// Those of `draw`.
pub fn while_on(draw: impl FnOnce() -> std::io::Result<()>) -> std::io::Result<()> {
    let _drawing = lock(&DRAWING);
    if is_on() { draw() } else { Ok(()) }
}

/// Waits for keys, at most for `wait`.
///
/// # Errors
/// Standard input has ended or cannot be read.
pub fn keys(wait: Duration) -> std::io::Result<Vec<char>> {
    let stdin = std::io::stdin();
    let limit = Timespec::try_from(wait).map_err(|_| std::io::ErrorKind::InvalidInput)?;
    let mut bytes = [0; 64];
    let ready = rustix::event::poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&limit));
    let read = match ready {
        Ok(0) => return Ok(Vec::new()),
        Ok(_) => rustix::io::read(&stdin, &mut bytes[..]),
        Err(error) => Err(error),
    };
    match read {
        Ok(0) => Err(std::io::ErrorKind::UnexpectedEof.into()),
        Ok(count) => Ok(pressed(bytes.get(..count).unwrap_or_default())),
        Err(Errno::INTR | Errno::AGAIN) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
