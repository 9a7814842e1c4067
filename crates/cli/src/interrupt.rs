//! Ctrl-C: once ends the phase and reports what there is; twice aborts. Before there is a phase it ends the program.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::error::exit;

/// Set by the first Ctrl-C (or SIGTERM, SIGHUP) of a run; none before there is something to end in good order.
static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// What signals come to, from the program's beginning on: Ctrl-C and its like, and a file that has come to its largest size
/// (`ulimit -f`), which is an error of whoever writes it and no reason to die.
pub fn handle_signals() {
    // SAFETY: ignoring a signal runs no code of ours.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let installed = ctrlc::set_handler(|| {
        let Some(stop) = STOP.get() else {
            crate::say("\ninterrupted before a run began");
            std::process::exit(i32::from(exit::INTERRUPTED));
        };
        if stop.swap(true, Ordering::SeqCst) {
            crate::say("\naborted");
            // Supervisors see our end of their sockets close, and stop and remove what they guard.
            std::process::exit(i32::from(exit::INTERRUPTED));
        }
        crate::say("\nending this phase; what was measured is kept (Ctrl-C again aborts)");
    });
    if let Err(error) = installed {
        crate::say(&format!("warning: Ctrl-C will abort at once: {error}"));
    }
}

/// From now on the first signal only sets what is returned.
pub fn of_run() -> Arc<AtomicBool> {
    Arc::clone(STOP.get_or_init(Arc::default))
}
