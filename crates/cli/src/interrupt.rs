//! Ctrl-C: once ends the phase and reports what there is; twice aborts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::exit;

/// Installs the handler, and returns what the first Ctrl-C (or SIGTERM, SIGHUP) sets. To be called once.
pub fn install() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let installed = ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::SeqCst) {
            crate::say("\naborted");
            // Supervisors see our end of their pipes close, and stop and remove what they guard.
            std::process::exit(i32::from(exit::INTERRUPTED));
        }
        crate::say("\nending this phase; what was measured is kept (Ctrl-C again aborts)");
    });
    if let Err(error) = installed {
        crate::say(&format!("warning: Ctrl-C will abort at once: {error}"));
    }
    stop
}
