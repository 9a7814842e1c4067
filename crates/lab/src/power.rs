//! A disk that can lose power, for the data of a store or of one of its nodes.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use plimsoll_core::fault::{Fault, RequestKind};
use plimsoll_core::{CutMoment, DiskSpec, FileSystem, StoreError, StoreErrorKind, Survivors, WriteKind};
use plimsoll_faultfs::{self as faultfs, Control, DeviceSpec, FaultDevice, FaultError};

use crate::directories::{FALLBACK_BASES, random_name};
use crate::holders;
use crate::user::ServerUser;

/// Last part of the name of a disk's directory in `/var/tmp`.
const ENDING: &str = "disk";

/// Longest time until a disk is gone whose daemon was killed.
const GOING: Duration = Duration::from_secs(10);

/// A mounted disk that can lose power.
#[derive(Debug)]
pub(crate) struct PoweredDisk {
    device: FaultDevice,
    /// Number of times that its file system was filled; `None` for a directory of files, whose daemon refuses writes.
    fills: Option<AtomicU64>,
    _link: Option<DiskLink>,
}

/// Link to the directory of a disk that is elsewhere.
#[derive(Debug)]
struct DiskLink(PathBuf);

impl Drop for DiskLink {
    fn drop(&mut self) {
        // The next start removes what is left.
        let _ = fs::remove_file(&self.0);
    }
}

impl PoweredDisk {
    /// Makes the disk in `directory`, which is created too. If `user` cannot reach that, `directory` is a link to one
    /// in `/var/tmp`.
    pub(crate) fn start(disk: &DiskSpec, directory: &Path, user: Option<&ServerUser>) -> Result<Self, StoreError> {
        wait_until_gone(directory);
        let failed = |error: &io::Error| StoreError::io(directory.display(), error);
        let above = directory.parent().unwrap_or(Path::new("/"));
        let link = match user {
            Some(user) if !user.can_traverse(above)? => {
                if !user.can_traverse(Path::new(FALLBACK_BASES[0]))? {
                    let what = format!(
                        "user {2} can enter neither {0} nor {1}",
                        above.display(),
                        FALLBACK_BASES[0],
                        user.name
                    );
                    let next = format!(
                        "allow user {} to enter it (chmod o+x), or keep runs elsewhere (XDG_STATE_HOME)",
                        user.name
                    );
                    return Err(StoreError::new(StoreErrorKind::Permission, what).next(next));
                }
                let elsewhere = Path::new(FALLBACK_BASES[0]).join(random_name()).with_extension(ENDING);
                std::os::unix::fs::symlink(&elsewhere, directory).map_err(|error| failed(&error))?;
                Some((DiskLink(directory.to_owned()), elsewhere))
            }
            _ => None,
        };
        let (link, directory) = link.map_or((None, directory.to_owned()), |(link, at)| (Some(link), at));
        let spec = DeviceSpec {
            directory: directory.clone(),
            size_bytes: disk.size_bytes,
            file_system: disk.file_system,
            keep_log: false,
            files: None,
        };
        // It removes the directory, which it makes, though the link may be gone by then.
        let device = FaultDevice::start(&spec).map_err(told)?;
        let_through(&directory).map_err(|error| StoreError::io(directory.display(), &error))?;
        let fills = (disk.file_system != FileSystem::Files).then(AtomicU64::default);
        Ok(Self { device, fills, _link: link })
    }

    pub(crate) fn mount_point(&self) -> PathBuf {
        self.device.mount_point().to_owned()
    }

    /// Sets the times of requests to those of `disk`.
    pub(crate) fn slow_down(&self, disk: &DiskSpec) -> Result<(), StoreError> {
        let flushes = Some(disk.flush_time).filter(|time| !time.is_zero()).map(slow);
        let layout = disk.layout;
        let speed = disk.speed.figures().map(|(seek, bytes_per_s)| Fault::Speed { seek, bytes_per_s, layout });
        flushes.into_iter().chain(speed).try_for_each(|fault| self.control().set(fault).map_err(told))
    }

    /// Starts a fault. A full disk is a file system without room: a device that refuses writes would stop its journal.
    pub(crate) fn fault(&self, fault: Fault) -> Result<(), StoreError> {
        match &self.fills {
            Some(fills) if fault == Fault::Full => {
                self.device.fill().map_err(told)?;
                fills.fetch_add(1, Ordering::SeqCst);
                Ok(())
            }
            _ => self.control().set(fault).map_err(told),
        }
    }

    /// Returns the number of requests that have met such a fault so far. A file system that was filled has refused at
    /// least one write.
    pub(crate) fn met(&self, fault: Fault) -> Result<u64, StoreError> {
        match &self.fills {
            Some(fills) if fault == Fault::Full => Ok(fills.load(Ordering::SeqCst)),
            _ => self.control().met(fault).map_err(told),
        }
    }

    /// Ends all faults. An armed cut stays armed.
    pub(crate) fn mend(&self) -> Result<(), StoreError> {
        self.control().mend().and_then(|()| self.make_room()).map_err(told)
    }

    /// Ends the lack of room. A file system that was never filled is not touched: another fault may have damaged it.
    fn make_room(&self) -> Result<(), FaultError> {
        let was_filled = self.fills.as_ref().is_some_and(|fills| fills.load(Ordering::SeqCst) > 0);
        if was_filled { self.device.make_room() } else { Ok(()) }
    }

    /// From now on the disk acknowledges flushes immediately and does not perform them.
    pub(crate) fn ignore_flushes(&self) -> Result<(), StoreError> {
        let control = self.control();
        control.set(slow(Duration::ZERO)).and_then(|()| control.set(Fault::IgnoreFlushes)).map_err(told)
    }

    /// Freezes the disk before the given flush or write becomes durable; programs on the disk do not notice. If
    /// `others` is set, later flushes fail: servers on other disks may rely on data that this disk no longer keeps.
    pub(crate) fn freeze(&self, at: CutMoment, others: bool) -> Result<(), StoreError> {
        let control = self.control();
        if others { control.halt(at) } else { control.freeze(at) }.map_err(told)
    }

    /// Freezes another, armed disk as soon as this one freezes.
    pub(crate) fn tell(&self, other: &Control) -> Result<(), StoreError> {
        self.control().tell(other).map_err(told)
    }

    pub(crate) fn control(&self) -> Control {
        self.device.control()
    }

    /// Cuts power now, unless it was cut before.
    pub(crate) fn cut(&self, others: bool) -> Result<PowerCutState, StoreError> {
        if self.seen()?.is_none() {
            // A disk that has frozen meanwhile refuses the command.
            let frozen = self.freeze(CutMoment::Now, others);
            return self.seen()?.map_or_else(|| frozen.and(Err(no_cut())), Ok);
        }
        self.seen()?.ok_or_else(no_cut)
    }

    /// Returns the state at the power cut; `None` before it.
    pub(crate) fn seen(&self) -> Result<Option<PowerCutState>, StoreError> {
        Ok(self.control().cut().map_err(told)?.map(PowerCutState::of))
    }

    /// Restores power with the writes that `survivors` selects, and mounts the file system again.
    ///
    /// # Errors
    /// The flag is true if the file system cannot be mounted; the error says what went wrong.
    pub(crate) fn power_on(&mut self, survivors: Survivors) -> Result<(), (bool, StoreError)> {
        // A disk with a fault could not be mounted.
        let mended = self.device.control().mend();
        mended.map_err(|error| (false, told(error)))?;
        let mut cycled = self.device.power_cycle(&survivors);
        // On a busy machine killed processes may take a while to end.
        for _ in 0..2 {
            if matches!(cycled, Err(FaultError::Busy { .. })) {
                cycled = self.device.power_cycle(&survivors);
            }
        }
        let is_damaged = matches!(cycled, Err(FaultError::NotMountable { .. }));
        // The file that took the room may have survived.
        let whole = cycled.and_then(|_| self.make_room()).and_then(|()| self.device.control().clear());
        whole.map_err(|error| (is_damaged, told(error)))
    }

    pub(crate) fn close(self) -> Result<(), StoreError> {
        self.device.close().map_err(told)
    }
}

/// Waits until the disk of a run that was just killed is gone from `directory`, where a new one is to be made.
fn wait_until_gone(directory: &Path) {
    let until = Instant::now() + GOING;
    while directory.symlink_metadata().is_ok() && Instant::now() < until {
        faultfs::sweep_orphans();
        if remove_directory(directory).is_err() {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Syncs the file system that is mounted at `mount_point`.
pub(crate) fn sync(mount_point: &Path) -> Result<(), StoreError> {
    faultfs::sync(mount_point).map_err(told)
}

/// Returns the fault that delays each flush by `flush_time`.
fn slow(flush_time: Duration) -> Fault {
    Fault::Delay { on: RequestKind::Flush, median: flush_time, jitter: Duration::ZERO, seed: 0 }
}

/// Removes an empty disk directory, or a link together with the empty directory that it points to.
pub(crate) fn remove_directory(directory: &Path) -> io::Result<()> {
    let Ok(elsewhere) = fs::read_link(directory) else { return fs::remove_dir(directory) };
    let is_ours = elsewhere.starts_with(FALLBACK_BASES[0]) && elsewhere.extension().is_some_and(|end| end == ENDING);
    if is_ours {
        let gone = fs::remove_dir(&elsewhere);
        gone.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })?;
    }
    fs::remove_file(directory)
}

/// Makes `directory` passable for a server's user, whatever the file mode creation mask is.
fn let_through(directory: &Path) -> io::Result<()> {
    fs::set_permissions(directory, Permissions::from_mode(0o711))
}

/// State of one disk, or of several together, at a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PowerCutState {
    /// Time of the first cut, on CLOCK_MONOTONIC.
    pub at_monotonic_ns: u64,
    /// Time between the first and the last cut.
    pub apart_ns: u64,
    /// Writes that reached the first disk after the cut was armed.
    pub writes: u64,
    /// Flushes that reached the first disk after the cut was armed.
    pub flushes: u64,
    /// Writes that no flush had made durable, on all disks.
    pub at_risk_writes: u64,
    /// Bytes of these writes.
    pub at_risk_bytes: u64,
}

/// Result of restoring power to a store.
#[derive(Debug)]
pub struct PowerRecovery {
    /// State at the power cut.
    pub cut: PowerCutState,
    /// Numbers of writes at risk at the cut, by kind; `None` if the kinds are not known.
    pub at_risk: Option<BTreeMap<WriteKind, u64>>,
    /// Time until the store accepted sessions again, or until Plimsoll gave it up.
    pub recovery: Duration,
    /// Error that kept the store from coming back.
    pub came_back: Result<(), StoreError>,
}

fn no_cut() -> StoreError {
    StoreError::broken("the disk has power although it was cut")
}

impl PowerCutState {
    /// Combines the states of this and another disk.
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
    let held = match &error {
        FaultError::Busy { path, .. } => holders::of_path(path).unwrap_or_default(),
        _ => Vec::new(),
    };
    let mut error = StoreError::from(error);
    error.what = format!("the disk that can lose power: {}", error.what);
    // The mount itself holds nothing.
    for process in held.iter().filter(|line| line.starts_with("process ")) {
        error.what.push_str(&format!("; {process}"));
    }
    error
}

#[cfg(test)]
mod tests {
    use plimsoll_core::{ParamValue, Params};

    use super::*;

    #[test]
    fn a_process_that_holds_the_mount_is_named() {
        let place = tempfile::tempdir().unwrap();
        let _open = std::fs::File::create(place.path().join("a file")).unwrap();
        let error = told(FaultError::Busy { path: place.path().to_owned(), limit_s: 20 });
        let process = format!("process {} (", std::process::id());
        assert!(error.what.contains(&process) && error.what.contains("has 1 open there"), "{}", error.what);
    }

    fn spec() -> DiskSpec {
        let params = [("disk", ParamValue::Text("ext4".to_owned())), ("disk_size", ParamValue::Int(32 << 20))];
        DiskSpec::of(&Params(params.map(|(name, value)| (name.to_owned(), value)).into())).unwrap()
    }

    #[test]
    fn a_file_system_is_touched_by_mending_only_if_it_was_filled() {
        let run = tempfile::tempdir().unwrap();
        let disk = PoweredDisk::start(&spec(), &run.path().join("disk"), None).unwrap();
        let (filler, full) = (disk.mount_point().join(".plimsoll-full"), Fault::Full);
        fs::write(&filler, "not by a fault").unwrap();
        disk.fault(Fault::IgnoreFlushes).unwrap();
        disk.mend().unwrap();
        assert_eq!((filler.exists(), disk.met(full).unwrap()), (true, 0));
        disk.fault(full).unwrap();
        disk.mend().unwrap();
        assert_eq!((filler.exists(), disk.met(full).unwrap()), (false, 1));
        disk.close().unwrap();
    }

    #[test]
    fn a_disk_elsewhere_goes_with_its_directory_though_the_link_was_removed() {
        let run = tempfile::tempdir().unwrap();
        fs::set_permissions(run.path(), Permissions::from_mode(0o700)).unwrap();
        let user = ServerUser::caller_or("nobody", "base-passwd").unwrap();
        let link = run.path().join("disk");
        let disk = PoweredDisk::start(&spec(), &link, Some(&user)).unwrap();
        let elsewhere = fs::read_link(&link).unwrap();
        assert!(disk.mount_point().starts_with(&elsewhere));
        assert_eq!(elsewhere.metadata().unwrap().permissions().mode() & 0o777, 0o711);
        fs::remove_file(link).unwrap();
        disk.close().unwrap();
        assert!(!elsewhere.exists());
    }
}
