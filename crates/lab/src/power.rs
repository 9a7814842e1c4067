//! A disk of ours, on which a store or a node of one has its data, and its power: what goes with it, and what is left.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plimsoll_core::fault::{Fault, On};
use plimsoll_core::{CutAt, Disk, StoreError, StoreErrorKind, Survivors};
use plimsoll_faultfs::{self as faultfs, Control, DeviceSpec, FaultDevice, FaultError};

use crate::place::{FALLBACK_BASES, random_name};
use crate::user::ServerUser;

/// What the name of one elsewhere ends with.
const ENDING: &str = "disk";

/// How long a disk may take until it is gone whose program was killed.
const GOING: Duration = Duration::from_secs(10);

/// A disk of ours, mounted.
#[derive(Debug)]
pub(crate) struct PoweredDisk {
    device: FaultDevice,
    /// Dropped last, when nothing is in the directory any more.
    _place: DiskPlace,
}

/// The directory of a disk, or a link to it, if that is elsewhere.
#[derive(Debug)]
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
        wait_until_gone(directory);
        let failed = |error: &io::Error| StoreError::io(directory.display(), error);
        let above = directory.parent().unwrap_or(Path::new("/"));
        let link = match user {
            Some(user) if !user.can_traverse(above)? => {
                if !user.can_traverse(Path::new(FALLBACK_BASES[0]))? {
                    let what = format!(
                        "neither {} nor {} can be entered by {}",
                        above.display(),
                        FALLBACK_BASES[0],
                        user.name
                    );
                    let next = format!("let {} in (chmod o+x), or keep runs elsewhere (XDG_STATE_HOME)", user.name);
                    return Err(StoreError::new(StoreErrorKind::Permission, what).next(next));
                }
                Some(directory.to_owned())
            }
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
            files: None,
        };
        Ok(Self { device: FaultDevice::start(&spec).map_err(told)?, _place: place })
    }

    pub(crate) fn mount_point(&self) -> PathBuf {
        self.device.mount_point().to_owned()
    }

    /// Has a flush take this time at least from now on.
    pub(crate) fn slow_down(&self, flush_time: Duration) -> Result<(), StoreError> {
        if flush_time.is_zero() { Ok(()) } else { self.control().set(slow(flush_time)).map_err(told) }
    }

    /// Has flushes be ignored from now on, and answered at once.
    pub(crate) fn ignore_flushes(&self) -> Result<(), StoreError> {
        let control = self.control();
        control.set(slow(Duration::ZERO)).and_then(|()| control.set(Fault::IgnoreFlushes)).map_err(told)
    }

    /// Has the power go before this flush or write from now on becomes durable; what runs on the disk does not notice.
    /// Servers that `others` hear are told that flushes fail from then on: they had promised them what is not on their disks.
    pub(crate) fn freeze(&self, at: CutAt, others: bool) -> Result<(), StoreError> {
        let control = self.control();
        if others { control.halt(at) } else { control.freeze(at) }.map_err(told)
    }

    /// Has another disk freeze as soon as this one does, which is armed.
    pub(crate) fn tell(&self, other: &Control) -> Result<(), StoreError> {
        self.control().tell(other).map_err(told)
    }

    pub(crate) fn control(&self) -> Control {
        self.device.control()
    }

    /// The power goes now, if it has not gone.
    pub(crate) fn cut(&self, others: bool) -> Result<PowerCutSeen, StoreError> {
        if self.seen()?.is_none() {
            // One that has frozen meanwhile refuses.
            let frozen = self.freeze(CutAt::Now, others);
            return self.seen()?.map_or_else(|| frozen.and(Err(no_cut())), Ok);
        }
        self.seen()?.ok_or_else(no_cut)
    }

    /// What was so when its power went; `None` while it has not.
    pub(crate) fn seen(&self) -> Result<Option<PowerCutSeen>, StoreError> {
        Ok(self.control().cut().map_err(told)?.map(PowerCutSeen::of))
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

/// Waits for the disk of a run that was killed a moment ago, which is about to be removed from where a new one is to be.
fn wait_until_gone(directory: &Path) {
    let until = Instant::now() + GOING;
    while directory.symlink_metadata().is_ok() && Instant::now() < until {
        faultfs::sweep_orphans();
        if remove_place(directory).is_err() {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Makes everything durable that is on a mounted disk.
pub(crate) fn sync(mount_point: &Path) -> Result<(), StoreError> {
    faultfs::sync(mount_point).map_err(told)
}

/// Flushes that are answered after this time.
fn slow(flush_time: Duration) -> Fault {
    Fault::Delay { on: On::Flush, median: flush_time, jitter: Duration::ZERO, seed: 0 }
}

/// Removes a directory of ours that is empty, or a link to one and that.
pub(crate) fn remove_place(place: &Path) -> io::Result<()> {
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

/// What was so when a disk lost power, or several at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PowerCutSeen {
    /// When, on CLOCK_MONOTONIC: the first of them.
    pub at_monotonic_ns: u64,
    /// How long after it the last of them did.
    pub apart_ns: u64,
    /// Writes that had come to the first since the cut was armed.
    pub writes: u64,
    /// Flushes that had.
    pub flushes: u64,
    /// Writes that no flush had made durable, on all of them.
    pub at_risk_writes: u64,
    /// Bytes of them.
    pub at_risk_bytes: u64,
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

fn no_cut() -> StoreError {
    StoreError::broken("the disk has power although it was cut")
}

impl PowerCutSeen {
    /// The same of this and another disk.
    pub(crate) fn and(self, other: Self) -> Self {
        let (first, last) = if self.at_monotonic_ns <= other.at_monotonic_ns { (self, other) } else { (other, self) };
        let until_ns = (first.at_monotonic_ns + first.apart_ns).max(last.at_monotonic_ns + last.apart_ns);
        Self {
            apart_ns: until_ns - first.at_monotonic_ns,
            at_risk_writes: first.at_risk_writes + last.at_risk_writes,
            at_risk_bytes: first.at_risk_bytes + last.at_risk_bytes,
            ..first
        }
    }

    pub(crate) fn of(cut: faultfs::Cut) -> Self {
        Self {
            at_monotonic_ns: cut.at_ns,
            apart_ns: 0,
            writes: cut.writes_seen,
            flushes: cut.flushes_seen,
            at_risk_writes: cut.at_risk.writes,
            at_risk_bytes: cut.at_risk.bytes,
        }
    }
}

pub(crate) fn told(error: FaultError) -> StoreError {
    let mut error = StoreError::from(error);
    error.what = format!("the disk that can lose power: {}", error.what);
    error
}
