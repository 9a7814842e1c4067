//! Place of the data of a run's private stores: `data` in its directory, or a new directory within the one that the
//! plan names. In that case `data` is a link to it, so that the next start finds it if this one is killed.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use plimsoll_plan::model::Plan;

use crate::error::{TrialError, io_error, write_error};
use crate::run::RunSpec;

/// Prefix of such a directory's name, before the run's id.
const NAME_PREFIX: &str = "plimsoll-data-";

/// The directory that is to hold it.
pub fn place<'a>(plan: &'a Plan, spec: &'a RunSpec<'_>) -> &'a Path {
    plan.dir.as_ref().map_or(spec.runs_dir, Path::new)
}

/// Makes it in `dir`, the plan's, for the run in `directory`.
///
/// # Errors
/// It cannot be made there.
pub fn make(directory: &Path, dir: Option<&str>) -> Result<(), TrialError> {
    let Some(dir) = dir else { return Ok(()) };
    let make = || {
        let (place, link) = (Path::new(dir).canonicalize()?.join(name(directory)), directory.join("data"));
        std::os::unix::fs::symlink(&place, &link)?;
        // The end of the run must not remove a directory that it did not make.
        fs::create_dir(&place).inspect_err(|_| drop(fs::remove_file(&link)))?;
        let_others_through(&place)
    };
    make().map_err(|error| write_error(dir, &error).next("name a directory that can be written to"))
}

/// Directory of one store. Dropping removes it with all that is in it.
#[derive(Debug)]
pub struct StoreDir(PathBuf);

impl StoreDir {
    /// Makes a new directory in `data`. The first free number names it, never a label of the plan. Leaves directories that
    /// exist already as they are.
    ///
    /// # Errors
    /// As the operating system says.
    pub fn make(data: &Path) -> Result<Self, TrialError> {
        let make = || {
            fs::create_dir_all(data)?;
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

fn name(directory: &Path) -> PathBuf {
    let id = directory.file_name().unwrap_or_default();
    format!("{NAME_PREFIX}{}", id.to_string_lossy()).into()
}

/// The directory elsewhere in which the run in `directory` keeps its data, where the plan names one.
pub fn data_elsewhere(directory: &Path) -> Option<PathBuf> {
    fs::read_link(directory.join("data")).ok().filter(|place| place.ends_with(name(directory)))
}
