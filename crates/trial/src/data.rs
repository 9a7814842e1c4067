//! Place of the data of a run's private stores: `data` in its directory, or a new directory within the one that the
//! plan names. In that case `data` is a link to it, so that the next start finds it if this one is killed. The run locks
//! the new directory, so that it is found without the link, too: a user may remove the run's directory.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use plimsoll_core::is_run_id;
use plimsoll_plan::model::Plan;

use crate::error::{TrialError, io_error, write_error};
use crate::run::RunSpec;

/// File in such a directory that its run locks. A lock of a directory holds on one machine only, and several may share a
/// file system.
const LOCK: &str = "lock";
/// Prefix of such a directory's name, before the run's id.
const NAME_PREFIX: &str = "plimsoll-data-";

/// The directory that is to hold it.
pub fn place<'a>(plan: &'a Plan, spec: &'a RunSpec<'_>) -> &'a Path {
    plan.dir.as_ref().map_or(spec.runs_dir, Path::new)
}

/// Data of a run in progress.
#[derive(Debug)]
pub struct RunData {
    directory: PathBuf,
    elsewhere: Option<Elsewhere>,
}

/// Directory in the one that a plan names, and its lock, if the file system has locks.
type Elsewhere = (PathBuf, Option<File>);

impl RunData {
    /// Makes the place in `dir`, the plan's, for the run in `directory`.
    ///
    /// # Errors
    /// If the place cannot be made there.
    pub fn make(directory: &Path, dir: Option<&str>) -> Result<Self, TrialError> {
        let failed = |place: String| {
            move |error: io::Error| write_error(place, &error).next("name a directory that can be written to")
        };
        let make_in = |parent: PathBuf| {
            let (place, link) = (parent.join(name(directory)), directory.join("data"));
            std::os::unix::fs::symlink(&place, &link)?;
            // The end of the run must not remove a directory that it did not make.
            let lock = make_locked(&place).inspect_err(|_| drop(fs::remove_file(&link)))?;
            let_others_through(&place)?;
            Ok((place, lock))
        };
        let make = |dir: &str| {
            let parent = Path::new(dir).canonicalize().map_err(failed(dir.to_owned()))?;
            make_in(parent).map_err(failed(format!("cannot make a directory in {dir}")))
        };
        let elsewhere = dir.map(make).transpose()?;
        Ok(Self { directory: directory.to_owned(), elsewhere })
    }

    /// Removes the data, also if the user has removed the run's directory with the link.
    ///
    /// # Errors
    /// As the operating system says.
    pub fn remove(self) -> Result<(), TrialError> {
        remove(&self.directory)?;
        let Some((place, _lock)) = self.elsewhere.filter(|(place, _)| place.exists()) else { return Ok(()) };
        fs::remove_dir_all(&place).map_err(|error| io_error(place.display(), &error))
    }
}

/// Makes the directory `place` and locks it.
fn make_locked(place: &Path) -> io::Result<Option<File>> {
    loop {
        fs::create_dir(place)?;
        let lock = File::create_new(place.join(LOCK)).ok().filter(|lock| lock.lock().is_ok());
        // A sweep may have removed it before it was locked.
        if place.exists() {
            return Ok(lock);
        }
    }
}

/// Returns the directories in `dir` with data of this user's runs that were killed, and their locks.
pub fn left_in(dir: &Path) -> Vec<(PathBuf, File)> {
    let lock = |entry: fs::DirEntry| {
        let is_named = entry.file_name().to_str()?.strip_prefix(NAME_PREFIX).is_some_and(is_run_id);
        // These are not of what a link points to.
        let about = entry.metadata().ok()?;
        let is_own = about.is_dir() && about.uid() == rustix::process::geteuid().as_raw();
        let lock = File::options().write(true).open(entry.path().join(LOCK)).ok().filter(|_| is_named && is_own)?;
        lock.try_lock().is_ok().then(|| (entry.path(), lock))
    };
    fs::read_dir(dir).into_iter().flatten().flatten().filter_map(lock).collect()
}

/// Directory of one store. Dropping removes it with all that is in it.
#[derive(Debug)]
pub struct StoreDir(PathBuf);

impl StoreDir {
    /// Makes a new directory in `data`, which is there if it `is_elsewhere`. The first free number names it, never a label of the plan. Leaves directories that
    /// exist already as they are.
    ///
    /// # Errors
    /// As the operating system says.
    pub fn make(data: &Path, is_elsewhere: bool) -> Result<Self, TrialError> {
        let make = || {
            // In place of a link that a user removed nothing is made: the data would be on another disk.
            if !is_elsewhere {
                fs::create_dir_all(data)?;
            }
            let data = data.canonicalize()?;
            let mut number = 1_u32;
            loop {
                let path = data.join(number.to_string());
                match fs::create_dir(&path) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                    made => return made.and_then(|()| let_others_through(&path)).map(|()| Self(path)),
                }
            }
        };
        make().map_err(|error| write_error(data.display(), &error))
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for StoreDir {
    fn drop(&mut self) {
        // The end of the run removes what is left, and reports errors.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Removes it with all that is in it; no error where there is none.
///
/// # Errors
/// As the operating system says.
pub fn remove(directory: &Path) -> Result<(), TrialError> {
    let data = directory.join("data");
    let gone = |removed: io::Result<()>| match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    };
    let removed = match data_elsewhere(directory) {
        // What is on a disk that is not there now is still to be found by the link.
        Some(place) if !place.parent().is_some_and(Path::is_dir) => Err(io::ErrorKind::NotFound.into()),
        Some(place) => gone(fs::remove_dir_all(place)).and_then(|()| fs::remove_file(&data)),
        None => gone(fs::remove_dir_all(&data)),
    };
    removed.map_err(|error| io_error(data.display(), &error))
}

/// Gives other users, as which servers may run, access through `directory`, whatever the file mode creation mask is.
///
/// # Errors
/// As the operating system says.
fn let_others_through(directory: &Path) -> io::Result<()> {
    fs::set_permissions(directory, fs::Permissions::from_mode(0o711))
}

/// Returns the id of the run that made `place`.
pub fn run_of(place: &Path) -> String {
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    name.strip_prefix(NAME_PREFIX).unwrap_or(&name).to_owned()
}

fn name(directory: &Path) -> PathBuf {
    let id = directory.file_name().unwrap_or_default();
    format!("{NAME_PREFIX}{}", id.to_string_lossy()).into()
}

/// The directory elsewhere in which the run in `directory` keeps its data, where the plan names one.
pub fn data_elsewhere(directory: &Path) -> Option<PathBuf> {
    fs::read_link(directory.join("data")).ok().filter(|place| place.ends_with(name(directory)))
}

#[cfg(test)]
#[path = "data_tests.rs"]
mod tests;
