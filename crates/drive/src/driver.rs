//! The seam between a run and its drives: drives of this machine, or simulated ones in tests.

use std::sync::Arc;

use plimsoll_core::Slice;

use crate::clock::Clock;
use crate::control::Drive;
use crate::result::DriveResult;
use crate::spec::DriveError;
use crate::timer::{RealTimer, Timer};
use crate::witness::Witness;

/// Carries out the drives of a run, on the run's clock.
pub trait Driver: Sync {
    /// Starts the run's clock at `start_ns`.
    fn clock(&self, start_ns: u64) -> Clock;

    /// Returns the timer of threads that wait beside a drive, by the run's clock. A thread that carries out drives counts
    /// as entered.
    fn timer(&self, clock: &Clock) -> Arc<dyn Timer>;

    /// Starts the witness of the machine's pauses; `None` if there are none on this clock.
    ///
    /// # Errors
    /// Reason that pauses cannot be detected.
    fn witness(&self, clock: &Clock) -> Result<Option<Witness>, String>;

    /// Carries out a drive to its end, as [`Drive::run`].
    ///
    /// # Errors
    /// As [`Drive::run`].
    fn drive(&self, drive: Drive<'_>, on_slice: &mut dyn FnMut(Slice)) -> Result<DriveResult, DriveError>;
}

/// Driver of this machine, in real time.
#[derive(Debug, Clone, Copy)]
pub struct RealTime;

impl Driver for RealTime {
    fn clock(&self, start_ns: u64) -> Clock {
        Clock::start_at(start_ns)
    }

    fn timer(&self, clock: &Clock) -> Arc<dyn Timer> {
        Arc::new(RealTimer(*clock))
    }

    fn witness(&self, clock: &Clock) -> Result<Option<Witness>, String> {
        Witness::start(clock).map(Some)
    }

    fn drive(&self, drive: Drive<'_>, on_slice: &mut dyn FnMut(Slice)) -> Result<DriveResult, DriveError> {
        drive.run(on_slice)
    }
}
