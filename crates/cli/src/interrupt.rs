//! Ctrl-C: once ends the phase and reports what there is; twice aborts within a second; a third time at once. Before
//! there is a phase it ends the program.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::exit;

/// Flag that the first Ctrl-C (or SIGTERM, SIGHUP) sets, and words about what ends then; empty before there is something
/// to end gracefully.
static STOP: OnceLock<(Arc<AtomicBool>, &str)> = OnceLock::new();

/// Set while the program aborts.
static ABORTING: AtomicBool = AtomicBool::new(false);

/// Longest time for cutting the power of own disks and for writing to the terminal before an abort.
const CUT_LIMIT: Duration = Duration::from_secs(1);

/// Installs the handlers of signals, at the program's start: Ctrl-C and its like. A file that has reached its largest
/// size (`ulimit -f`) is an error for its writer, and does not end the program.
pub fn handle_signals() {
    // SAFETY: ignoring a signal runs no code.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let installed = ctrlc::set_handler(|| {
        let Some((stop, ending)) = STOP.get() else {
            crate::say("\ninterrupted");
            std::process::exit(i32::from(exit::INTERRUPTED));
        };
        if stop.swap(true, Ordering::SeqCst) {
            if ABORTING.swap(true, Ordering::SeqCst) {
                // SAFETY: ends the process; nothing runs after it.
                unsafe { libc::_exit(i32::from(exit::INTERRUPTED)) };
            }
            // A thread of its own, so that a third signal is seen meanwhile.
            if thread::Builder::new().name("abort".into()).spawn(abort).is_err() {
                abort();
            }
            return;
        }
        crate::say(&format!("\n{ending} (Ctrl-C again aborts)"));
    });
    if let Err(error) = installed {
        crate::say(&format!("warning: Ctrl-C will abort at once: {error}"));
    }
}

/// Ends the program. Supervisors see their sockets close, and stop and remove their clusters.
fn abort() {
    // A thread that waits for a delayed flush would keep the process for as long as that.
    let (cut, until) = (thread::spawn(plimsoll_faultfs::cut_own_power), Instant::now() + CUT_LIMIT);
    // A terminal that is stuck would keep the thread that writes to it for ever.
    let told = thread::spawn(|| {
        crate::live::leave();
        crate::say("\naborted");
    });
    while !(cut.is_finished() && told.is_finished()) && Instant::now() < until {
        thread::sleep(Duration::from_millis(5));
    }
    std::process::exit(i32::from(exit::INTERRUPTED));
}

/// Returns true while the program aborts: its last word is said.
pub fn is_aborting() -> bool {
    ABORTING.load(Ordering::SeqCst)
}

/// Returns the flag that the first signal sets from now on, of a run.
pub fn of_run() -> Arc<AtomicBool> {
    flag("ending this phase; what was measured is kept")
}

/// Returns the flag that the first signal sets from now on, of any other command.
pub fn of_command() -> Arc<AtomicBool> {
    flag("ending")
}

fn flag(words: &'static str) -> Arc<AtomicBool> {
    Arc::clone(&STOP.get_or_init(|| (Arc::default(), words)).0)
}
