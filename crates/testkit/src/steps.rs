//! Steps of one test, which share what is slow to start.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs functions as steps of one test, after `with` each on the same value; a failure names its step.
#[macro_export]
macro_rules! steps {
    (with $shared:expr; $($step:path),+ $(,)?) => {
        $crate::steps::run(&mut [$((stringify!($step), &mut || $step($shared))),+])
    };
    ($($step:path),+ $(,)?) => { $crate::steps::run(&mut [$((stringify!($step), &mut || $step())),+]) };
}

/// Runs all steps, whichever of them fail.
///
/// # Panics
/// If a step failed.
pub fn run(steps: &mut [(&str, &mut dyn FnMut())]) {
    let mut failed = Vec::new();
    for (name, step) in steps {
        if catch_unwind(AssertUnwindSafe(step)).is_err() {
            failed.push(*name);
        }
    }
    assert!(failed.is_empty(), "steps that failed: {}", failed.join(", "));
}
