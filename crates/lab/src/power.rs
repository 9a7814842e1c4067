//! The power of the disk that a store of our own has its data on: when it goes, what goes with it, and what is left.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::fault::Fault;
use plimsoll_core::{CutAt, Disk, Nodes, Servers, StoreError, Survivors};
use plimsoll_faultfs::{self as faultfs, Control, DeviceSpec, FaultDevice, FaultError};

use crate::file_system_errors::file_system_errors;
use crate::place::{FALLBACK_BASES, random_name};
use crate::user::ServerUser;

/// What the directory of a disk of ours is called, in that of the store's data.
pub(crate) const DISK: &str = "disk";
/// What the name of one elsewhere ends with.
const ENDING: &str = "disk";

/// A disk of ours, mounted.
pub(crate) struct PoweredDisk {
    device: FaultDevice,
    /// From the arming of a cut on: what was there before is durable.
    ignores_flushes: bool,
    /// Dropped last, when nothing is in the directory any more.
    _place: DiskPlace,
}

/// The directory of a disk, or a link to it, if that is elsewhere.
struct DiskPlace(PathBuf);

impl Drop for DiskPlace {
    fn drop(&mut self) {
        // What is left is found by the next start.
        let _ = remove_place(&self.0);
    }
}

impl PoweredDisk {
    /// Makes it in `directory`, which is made too; where `user` cannot get there, that is a link to one in `/var/tmp`.
    pub(crate) fn start(disk: &Disk, directory: &Path, user: Option<&ServerUser>) -> Result<Self, StoreError> {
        let failed = |error: &io::Error| StoreError::io(directory.display(), error);
        let above = directory.parent().unwrap_or(Path::new("/"));
        let link = match user {
            Some(user) if !user.can_traverse(above)? => Some(directory.to_owned()),
            _ => None,
        };
        let elsewhere = match &link {
            Some(link) => {
                let elsewhere = Path::new(FALLBACK_BASES[0]).join(random_name()).with_extension(ENDING);
                std::os::unix::fs::symlink(&elsewhere, link).map_err(|error| failed(&error))?;
                elsewhere
            }
            None => directory.to_owned(),
        };
        // From here on it goes again, whatever fails.
        let place = DiskPlace(link.unwrap_or_else(|| elsewhere.clone()));
        DirBuilder::new()
            .mode(0o711)
            .create(&elsewhere)
            .map_err(|error| StoreError::io(elsewhere.display(), &error))?;
        let_through(&elsewhere).map_err(|error| StoreError::io(elsewhere.display(), &error))?;
        let directory = &*elsewhere;
        let spec = DeviceSpec {
            directory: directory.to_owned(),
            size_bytes: disk.size_bytes,
            file_system: disk.file_system,
            keep_log: false,
        };
        Ok(Self {
            device: FaultDevice::start(&spec).map_err(told)?,
            ignores_flushes: disk.ignores_flushes,
            _place: place,
        })
    }

    pub(crate) fn mount_point(&self) -> PathBuf {
        self.device.mount_point().to_owned()
    }

    pub(crate) fn switch(&self, servers: Option<Arc<dyn Servers>>) -> PowerSwitch {
        let (control, mount_point) = (self.device.control(), self.mount_point());
        PowerSwitch { control, mount_point, ignores_flushes: self.ignores_flushes, servers }
    }

    /// The power goes now, if it has not gone.
    pub(crate) fn cut(&mut self) -> Result<PowerCutSeen, StoreError> {
        let control = self.device.control();
        if control.cut().map_err(told)?.is_none() {
            control.freeze(CutAt::Now).map_err(told)?;
        }
        seen(&control)?.ok_or_else(|| StoreError::broken("the disk has power although it was cut"))
    }

    /// The power is back: what `survivors` says is there, and the file system is mounted again.
    ///
    /// # Errors
    /// Whether it is the file system that cannot be mounted any more, and what went wrong.
    pub(crate) fn power_on(&mut self, survivors: Survivors) -> Result<(), (bool, StoreError)> {
        // With what was wrong nothing could be mounted.
        let mended = self.device.control().mend();
        mended.map_err(|error| (false, told(error)))?;
        let mut cycled = self.device.power_cycle(&survivors);
        // Processes that were killed may take a while to be gone on a busy machine.
        for _ in 0..2 {
            if matches!(cycled, Err(FaultError::Busy { .. })) {
                cycled = self.device.power_cycle(&survivors);
            }
        }
        let is_damaged = matches!(cycled, Err(FaultError::NotMountable { .. }));
        cycled.and_then(|_| self.device.control().clear()).map_err(|error| (is_damaged, told(error)))
    }

    pub(crate) fn close(self) -> Result<(), StoreError> {
        self.device.close().map_err(told)
    }
}

/// Makes everything durable that is on a mounted disk.
pub(crate) fn sync(mount_point: &Path) -> Result<(), StoreError> {
    let synced = fs::File::open(mount_point).and_then(|root| Ok(rustix::fs::syncfs(root)?));
    synced.map_err(|error| StoreError::io(mount_point.display(), &error))
}

/// Removes what a killed run's disk left in `directory`, that of a store's data.
pub fn sweep_disks(directory: &Path) {
    faultfs::sweep_orphans();
    // What is still there is said by whoever removes the run's directory.
    let _ = remove_place(&directory.join(DISK));
}

/// Removes a directory of ours that is empty, or a link to one and that.
fn remove_place(place: &Path) -> io::Result<()> {
    let Ok(elsewhere) = fs::read_link(place) else { return fs::remove_dir(place) };
    let is_ours = elsewhere.starts_with(FALLBACK_BASES[0]) && elsewhere.extension().is_some_and(|end| end == ENDING);
    if is_ours {
        let gone = fs::remove_dir(&elsewhere);
        gone.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })?;
    }
    fs::remove_file(place)
}

/// Lets a server's user through `directory`, whatever the file mode creation mask is.
fn let_through(directory: &Path) -> io::Result<()> {
    fs::set_permissions(directory, Permissions::from_mode(0o711))
}

/// What was so when a disk lost power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PowerCutSeen {
    /// When, on CLOCK_MONOTONIC.
    pub at_monotonic_ns: u64,
    /// Writes that had come to the disk since the cut was armed.
    pub writes: u64,
    /// Flushes that had.
    pub flushes: u64,
    /// Writes that no flush had made durable.
    pub at_risk_writes: u64,
    /// Bytes of them.
    pub at_risk_bytes: u64,
}

/// What takes the power from a store's disk, for any thread.
#[derive(Clone)]
pub struct PowerSwitch {
    control: Control,
    mount_point: PathBuf,
    ignores_flushes: bool,
    servers: Option<Arc<dyn Servers>>,
}

impl PowerSwitch {
    /// Has the power go before this flush or write from now on becomes durable. What was written before is made durable first. What
    /// runs on the disk does not notice: what it writes from the cut on is gone when the power is back.
    ///
    /// # Errors
    /// As the disk says.
    pub fn arm(&self, at: CutAt) -> Result<(), StoreError> {
        sync(&self.mount_point)?;
        if self.ignores_flushes {
            self.control.set(Fault::IgnoreFlushes).map_err(told)?;
        }
        self.control.freeze(at).map_err(told)
    }

    /// Has the disk do something wrong from now on.
    ///
    /// # Errors
    /// As the disk says.
    pub fn fault(&self, fault: Fault) -> Result<(), StoreError> {
        self.control.set(fault).map_err(told)
    }

    /// Has nothing be wrong with the disk any more but what always is. A cut that is armed stays so.
    ///
    /// # Errors
    /// As the disk says.
    pub fn mend(&self) -> Result<(), StoreError> {
        self.control.mend().map_err(told)?;
        if self.ignores_flushes {
            self.control.set(Fault::IgnoreFlushes).map_err(told)?;
        }
        Ok(())
    }

    /// Errors that the file system on the disk has found by itself, where it counts them.
    pub fn file_system_errors(&self) -> Option<u64> {
        file_system_errors(&self.mount_point)
    }

    /// What was so when the power went; `None` while it has not.
    ///
    /// # Errors
    /// As the disk says.
    pub fn cut(&self) -> Result<Option<PowerCutSeen>, StoreError> {
        seen(&self.control)
    }

    /// The same, waiting for it until `limit` is over.
    ///
    /// # Errors
    /// As the disk says.
    pub fn wait_for_cut(&self, limit: Duration) -> Result<Option<PowerCutSeen>, StoreError> {
        Ok(self.control.wait_for_cut(limit).map_err(told)?.map(PowerCutSeen::of))
    }

    /// Kills the servers, where there are some: the power has gone.
    ///
    /// # Errors
    /// When one does not die.
    pub fn kill_servers(&self) -> Result<(), StoreError> {
        let running = self.servers.as_ref().filter(|servers| !servers.pids().is_empty());
        running.map_or(Ok(()), |servers| servers.kill(Nodes::All).map(drop))
    }
}

/// How a store came back.
#[derive(Debug)]
pub struct PowerOn {
    /// What was so when the power went.
    pub cut: PowerCutSeen,
    /// How long file system and store took until sessions were taken again, or the store until it was given up.
    pub recovery: Duration,
    /// Why it did not come back, where it did not.
    pub came_back: Result<(), StoreError>,
}

fn seen(control: &Control) -> Result<Option<PowerCutSeen>, StoreError> {
    Ok(control.cut().map_err(told)?.map(PowerCutSeen::of))
}

impl PowerCutSeen {
    fn of(cut: faultfs::Cut) -> Self {
        Self {
            at_monotonic_ns: cut.at_ns,
            writes: cut.writes_seen,
            flushes: cut.flushes_seen,
            at_risk_writes: cut.at_risk.writes,
            at_risk_bytes: cut.at_risk.bytes,
        }
    }
}

fn told(error: FaultError) -> StoreError {
    let mut error = StoreError::from(error);
    error.what = format!("the disk that can lose power: {}", error.what);
    error
}
