//! What a store does with a server of its own, whichever that is, and what it says where the server is somebody's.

use std::path::{Path, PathBuf};

use plimsoll_core::{Cold, StoreError, StoreErrorKind};

use crate::FALLBACK_BASES;
use crate::page_cache::drop_files;

/// A server of our own, which can be stopped, and started again with its data and settings.
pub trait OwnServer {
    /// The store's name, as in `--on`.
    const STORE: &'static str;

    /// Stops it in good order; sessions are cut off.
    ///
    /// # Errors
    /// `Broken` when it takes too long; it is killed then.
    fn stop(&mut self) -> Result<(), StoreError>;

    /// Starts it after [`OwnServer::stop`], or after it was killed; returns when it takes sessions.
    ///
    /// # Errors
    /// As its first start.
    fn start_again(&mut self) -> Result<(), StoreError>;

    /// The directory of the files that it reads what it serves from.
    fn files(&self) -> PathBuf;

    /// Stops it in good order and starts it again.
    ///
    /// # Errors
    /// As [`OwnServer::stop`] and [`OwnServer::start_again`].
    fn restart(&mut self) -> Result<(), StoreError> {
        self.stop()?;
        self.start_again()
    }
}

/// Restarts a server with its files out of the page cache; without one, the store is attached to somebody's.
///
/// # Errors
/// As [`OwnServer::restart`], and when its files cannot be read. It runs again then, if it can.
pub fn cold(server: Option<&mut impl OwnServer>) -> Result<Cold, StoreError> {
    let Some(server) = server else {
        return Ok(Cold::NotPossible("an attached server is not ours to stop".to_owned()));
    };
    server.stop()?;
    let files = server.files();
    let dropped = drop_files(&files).map_err(|error| StoreError::io(files.display(), &error));
    server.start_again()?;
    let dropped = dropped?;
    Ok(Cold::Done { file_bytes: dropped.file_bytes, resident_bytes: dropped.resident_bytes })
}

/// Restarts a server; without one, the store is attached to somebody's at `place`.
///
/// # Errors
/// `Usage` where it is somebody's; as [`OwnServer::restart`].
pub fn restart<S: OwnServer>(server: Option<&mut S>, place: &str) -> Result<(), StoreError> {
    server.ok_or_else(|| not_ours(place, "restart", S::STORE))?.restart()
}

/// What is said where something is asked of an attached server at `place` that only one of our own is for: to `what` it.
pub fn not_ours(place: &str, what: &str, store: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Usage, format!("{place} is attached and is not ours to {what}"))
        .next(format!("Use a private server: --on {store}"))
}

/// Where a private server of a run may have its directories, best first: its data directory, and only there if that was
/// `said`; otherwise where its user can get to, if that is not there.
pub fn bases(data_dir: &Path, said: bool) -> Vec<PathBuf> {
    let others = FALLBACK_BASES.into_iter().filter(|_| !said).map(PathBuf::from);
    [data_dir.to_owned()].into_iter().chain(others).collect()
}
