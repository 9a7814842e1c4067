//! `plimsoll files`: which files are used, and how.

use plimsoll_trial::TrialError;

use crate::args::FilesArgs;

/// Watches, and says what was seen.
pub fn run(_args: &FilesArgs) -> Result<u8, TrialError> {
    Err(TrialError::usage("not yet"))
}
