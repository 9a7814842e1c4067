//! Ctrl-C: once ends the phase and reports what there is; twice aborts. Before there is a phase it ends the program.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::error::exit;

/// Flag that the first Ctrl-C (or SIGTERM, SIGHUP) of a run sets; empty before there is something to end gracefully.
static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Installs the handlers of signals, at the program's start: Ctrl-C and its like. A file that has reached its largest
/// size (`ulimit -f`) is an error for its writer, and does not end the program.
pub fn handle_signals() {
    // SAFETY: ignoring a signal runs no code.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let installed = ctrlc::set_handler(|| {
        let Some(stop) = STOP.get() else {
            crate::say("\ninterrupted before a run began");
            std::process::exit(i32::from(exit::INTERRUPTED));
        };
        if stop.swap(true, Ordering::SeqCst) {
            crate::say("\naborted");
            // Supervisors see their sockets close, and stop and remove their clusters.
            std::process::exit(i32::from(exit::INTERRUPTED));
        }
        crate::say("\nending this phase; what was measured is kept (Ctrl-C again aborts)");
    });
    if let Err(error) = installed {
        crate::say(&format!("warning: Ctrl-C will abort at once: {error}"));
    }
}

/// Returns the flag that the first signal sets from now on.
pub fn of_run() -> Arc<AtomicBool> {
    Arc::clone(STOP.get_or_init(Arc::default))
}
