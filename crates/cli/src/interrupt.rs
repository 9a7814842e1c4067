//! Ctrl-C: once ends the phase and reports what there is; twice aborts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::exit;

/// Set by the first Ctrl-C (or SIGTERM, SIGHUP).
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Installs the handler. To be called once.
    pub fn install() -> Self {
        let interrupt = Self::default();
        let flag = interrupt.clone();
        let installed = ctrlc::set_handler(move || {
            if flag.0.swap(true, Ordering::SeqCst) {
                crate::say("\naborted");
                // Supervisors see our end of their pipes close, and stop and remove what they guard.
                std::process::exit(i32::from(exit::INTERRUPTED));
            }
            crate::say("\nending this phase; what was measured is kept (Ctrl-C again aborts)");
        });
        if let Err(error) = installed {
            crate::say(&format!("warning: Ctrl-C will abort at once: {error}"));
        }
        interrupt
    }

    /// True once the user wants an end.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// Wants an end on the program's own account: the recording failed.
    pub fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// The flag itself, for the drive loop.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}
