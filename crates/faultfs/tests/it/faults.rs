//! Tests of each fault through ext4, as a server sees it.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plimsoll_core::DiskLayout;
use plimsoll_faultfs::{
    CutMoment, DeviceSpec, ErrorMode, Fault, FaultDevice, FaultError, FileSystem, RequestKind, SECTOR_BYTES, Survivors,
};

use crate::{Fixture, write};

const SECTOR: usize = SECTOR_BYTES as usize;

/// Drops a file's clean pages, so that it is read from the device.
fn forget(file: &File) {
    rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
}

/// Makes a device with a file of one synced page, open to be written to.
fn with_a_page() -> (Fixture, PathBuf, File) {
    let fixture = Fixture::new(FileSystem::Ext4);
    let path = fixture.path("file");
    write(&path, &[1; 4096], true);
    let file = File::options().write(true).open(&path).unwrap();
    (fixture, path, file)
}

fn read_from_device(path: &Path) -> Vec<u8> {
    let mut file = File::open(path).unwrap();
    forget(&file);
    let mut contents = Vec::new();
    file.read_to_end(&mut contents).unwrap();
    contents
}

/// Returns true for an entry whose name begins with a dot.
fn is_hidden(entry: &std::io::Result<fs::DirEntry>) -> bool {
    entry.as_ref().unwrap().file_name().to_str().unwrap().starts_with('.')
}

/// Bytes at an address that O_DIRECT takes.
struct Aligned(Vec<u8>, usize);

impl Aligned {
    fn new(byte: u8, length: usize) -> Self {
        let bytes = vec![byte; length + 4096];
        let skip = bytes.as_ptr().align_offset(4096);
        Self(bytes, skip)
    }

    fn bytes(&self, length: usize) -> &[u8] {
        &self.0[self.1..][..length]
    }
}

#[test]
fn a_write_that_was_torn_is_old_in_some_sectors_and_new_in_others() {
    const LENGTH: usize = 1 << 20;
    let mut fixture = Fixture::new(FileSystem::Ext4);
    let path = fixture.path("file");
    write(&path, &[1; LENGTH], true);
    let file = File::options().write(true).custom_flags(libc::O_DIRECT).open(&path).unwrap();
    file.write_all_at(Aligned::new(2, LENGTH).bytes(LENGTH), 0).unwrap();
    drop(file);
    fixture.device.control().arm(CutMoment::Now).unwrap();
    let torn = Survivors::Random { seed: 1, share: 0.5, tear: true };
    let at_risk = fixture.device.power_cycle(&torn).unwrap();
    assert!(at_risk.bytes >= LENGTH as u64, "{at_risk:?}");
    let contents = fs::read(&path).unwrap();
    let sectors: Vec<u8> = contents.chunks(SECTOR).map(|sector| sector[0]).collect();
    assert!(contents.chunks(SECTOR).zip(&sectors).all(|(sector, first)| sector == [*first; SECTOR]));
    let new = sectors.iter().filter(|sector| **sector == 2).count();
    assert!((900..1150).contains(&new) && sectors.len() == 2048, "{new} of {}", sectors.len());
    // Also within one of the file system's blocks.
    assert!(sectors.chunks(8).any(|block| block.contains(&1) && block.contains(&2)));
    fixture.close();
}

#[test]
fn after_one_failed_write_fsync_fails_once_then_says_ok_and_the_old_data_is_back() {
    let (fixture, path, file) = with_a_page();
    fixture.device.control().set(Fault::Eio { on: RequestKind::Write, how: ErrorMode::Once }).unwrap();
    file.write_all_at(&[2; 4096], 0).unwrap();
    // Only the data, so that it is not the journal which gets the error.
    let error = file.sync_data().unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EIO));
    file.sync_data().unwrap();
    assert_eq!(fs::read(&path).unwrap(), [2; 4096]);
    assert_eq!(read_from_device(&path), [1; 4096]);
    fixture.close();
}

#[test]
fn a_write_that_is_dropped_in_silence_shows_when_it_is_read_again() {
    let (fixture, path, file) = with_a_page();
    fixture.device.control().set(Fault::Eio { on: RequestKind::Write, how: ErrorMode::Silent(1) }).unwrap();
    file.write_all_at(&[2; 4096], 0).unwrap();
    file.sync_data().unwrap();
    file.sync_data().unwrap();
    assert_eq!(read_from_device(&path), [1; 4096]);
    fixture.close();
}

#[test]
fn a_flush_that_fails_fails_the_fsync() {
    let fixture = Fixture::new(FileSystem::Ext4);
    let file = File::create(fixture.path("file")).unwrap();
    (&file).write_all(b"contents").unwrap();
    fixture.device.control().set(Fault::Eio { on: RequestKind::Flush, how: ErrorMode::Once }).unwrap();
    assert_eq!(file.sync_all().unwrap_err().raw_os_error(), Some(libc::EIO));
    drop(file);
    fixture.close();
}

#[test]
fn a_full_device_fails_a_sync_with_no_space() {
    let (fixture, _, file) = with_a_page();
    fixture.device.control().set(Fault::Full).unwrap();
    file.write_all_at(&[2; 4096], 0).unwrap();
    assert_eq!(file.sync_data().unwrap_err().raw_os_error(), Some(libc::ENOSPC));
    drop(file);
    fixture.close();
}

#[test]
fn a_file_system_without_room_takes_no_new_blocks_and_works_again_when_it_has_room() {
    for file_system in [FileSystem::Ext4, FileSystem::Xfs] {
        let fixture = Fixture::new(file_system);
        let (path, more) = (fixture.path("file"), fixture.path("more"));
        write(&path, &[1; 4096], true);
        let file = File::options().write(true).open(&path).unwrap();
        // The second time it takes what was given back meanwhile.
        for byte in [2, 3] {
            fixture.device.fill().unwrap();
            assert!(rustix::fs::statvfs(&path).unwrap().f_bavail < 64, "{file_system}");
            let written = File::create(&more).and_then(|mut more| more.write_all(&[1; 1 << 20]));
            assert_eq!(written.unwrap_err().kind(), ErrorKind::StorageFull, "{file_system}");
            file.write_all_at(&[byte; 4096], 0).unwrap();
            file.sync_all().unwrap();
            assert_eq!(read_from_device(&path), [byte; 4096], "{file_system}");
            let _ = fs::remove_file(&more);
        }
        fixture.device.make_room().unwrap();
        write(&more, &[1; 1 << 20], true);
        assert_eq!(fs::read_dir(fixture.device.mount_point()).unwrap().filter(is_hidden).count(), 0, "{file_system}");
        // Without a file that takes room nothing is removed.
        fixture.device.make_room().unwrap();
        drop(file);
        fixture.close();
    }
}

#[test]
fn a_slow_disk_takes_its_time_for_each_seek_until_it_is_mended() {
    let (fixture, _, file) = with_a_page();
    let seek = Duration::from_millis(30);
    let speed = Fault::Speed { seek, bytes_per_s: 1 << 30, layout: DiskLayout::Single };
    let timed = || {
        file.write_all_at(&[2; 4096], 0).unwrap();
        let begin = Instant::now();
        file.sync_data().unwrap();
        begin.elapsed()
    };
    fixture.device.control().set(speed).unwrap();
    for _ in 0..3 {
        let taken = timed();
        assert!(taken >= seek, "{taken:?}");
    }
    fixture.device.control().mend().unwrap();
    let least = (0..20).map(|_| timed()).min().unwrap();
    assert!(least < seek, "{least:?}");
    drop(file);
    fixture.close();
}

#[test]
fn reads_fail_and_reads_and_writes_are_late_and_the_requests_that_met_that_are_counted() {
    const LATE: Duration = Duration::from_millis(50);
    for file_system in [FileSystem::Ext4, FileSystem::Files] {
        let fixture = Fixture::new(file_system);
        let control = fixture.device.control();
        let path = fixture.path("file");
        write(&path, &[1; 4096], true);
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let read = || {
            forget(&file);
            file.read_exact_at(&mut [0; 4096], 0)
        };
        let fails = Fault::Eio { on: RequestKind::Read, how: ErrorMode::Always };
        let late = |on| Fault::Delay { on, median: LATE, jitter: Duration::ZERO, seed: 1 };
        let faults = [fails, late(RequestKind::Read), late(RequestKind::Write)];
        let is_met = || faults.map(|fault| control.met(fault).unwrap() > 0);
        assert_eq!(is_met(), [false; 3], "{file_system}");
        control.set(faults[0]).unwrap();
        assert_eq!(read().unwrap_err().raw_os_error(), Some(libc::EIO), "{file_system}");
        control.mend().unwrap();
        read().unwrap();
        assert_eq!(is_met(), [true, false, false], "{file_system}");
        control.set(faults[1]).unwrap();
        let begin = Instant::now();
        read().unwrap();
        assert!(begin.elapsed() >= LATE, "{file_system}: {:?}", begin.elapsed());
        control.mend().unwrap();
        assert_eq!(is_met(), [true, true, false], "{file_system}");
        control.set(faults[2]).unwrap();
        let begin = Instant::now();
        file.write_all_at(&[2; 4096], 0).unwrap();
        file.sync_data().unwrap();
        assert!(begin.elapsed() >= LATE, "{file_system}: {:?}", begin.elapsed());
        control.mend().unwrap();
        assert_eq!(is_met(), [true; 3], "{file_system}");
        read().unwrap();
        drop(file);
        fixture.close();
    }
}

#[test]
fn a_directory_of_files_refuses_a_speed() {
    let fixture = Fixture::new(FileSystem::Files);
    let speed = Fault::Speed { seek: Duration::ZERO, bytes_per_s: 1 << 30, layout: DiskLayout::Single };
    let error = fixture.device.control().set(speed).unwrap_err();
    assert!(matches!(&error, FaultError::Refused(said) if said.contains("no positions")), "{error:?}");
    fixture.close();
}

#[test]
fn btrfs_without_copy_on_write_overwrites_data_in_place() {
    for (file_system, moves) in [(FileSystem::Btrfs, true), (FileSystem::BtrfsNoDataCow, false)] {
        let fixture = Fixture::new(file_system);
        let path = fixture.path("file");
        write(&path, &[1; 64 << 10], true);
        // Of e2fsprogs, as mkfs.ext4.
        let extents = || {
            let ran = std::process::Command::new("/usr/sbin/filefrag").arg("-v").arg(&path).output().unwrap();
            assert!(ran.status.success(), "{ran:?}");
            String::from_utf8(ran.stdout).unwrap()
        };
        let before = extents();
        let file = File::options().write(true).open(&path).unwrap();
        file.write_all_at(&[2; 64 << 10], 0).unwrap();
        file.sync_all().unwrap();
        drop(file);
        assert_eq!(extents() != before, moves, "{file_system}: {before}");
        fixture.close();
    }
}

#[test]
fn bits_rot_where_they_are_read_and_are_whole_again_when_that_is_cleared() {
    let fixture = Fixture::new(FileSystem::Ext4);
    let path = fixture.path("file");
    write(&path, &[1; 1 << 20], true);
    fixture.device.control().set(Fault::BitRot { seed: 5, share: 0.1 }).unwrap();
    let rotten = read_from_device(&path);
    let wrong: Vec<u32> =
        rotten.chunks(SECTOR).map(|sector| sector.iter().map(|byte| (byte ^ 1).count_ones()).sum()).collect();
    let count = wrong.iter().filter(|bits| **bits == 1).count();
    assert!(wrong.iter().all(|bits| *bits <= 1) && (100..320).contains(&count), "{count}");
    fixture.device.control().clear().unwrap();
    assert_eq!(read_from_device(&path), [1; 1 << 20]);
    fixture.close();
}

#[test]
fn flushes_that_are_late_make_fsync_late_and_hold_up_no_read_and_a_cut_ends_the_wait() {
    const DELAY: Duration = Duration::from_millis(1_000);
    let mut fixture = Fixture::new(FileSystem::Ext4);
    let control = fixture.device.control();
    write(&fixture.path("other"), &[1; 1 << 20], true);
    let late = |median| Fault::Delay { on: RequestKind::Flush, median, jitter: Duration::ZERO, seed: 1 };
    control.set(late(DELAY)).unwrap();
    let file = File::create(fixture.path("file")).unwrap();
    (&file).write_all(&[1; 4096]).unwrap();
    let other = fixture.path("other");
    let (synced, read) = std::thread::scope(|scope| {
        let syncing = scope.spawn(|| {
            let started = Instant::now();
            file.sync_all().unwrap();
            started.elapsed()
        });
        while control.counters().unwrap().unflushed_sectors > 0 {
            std::thread::yield_now();
        }
        let started = Instant::now();
        let length = read_from_device(&other).len();
        assert_eq!(length, 1 << 20);
        let read = started.elapsed();
        (syncing.join().unwrap(), read)
    });
    assert!(synced >= DELAY && read < synced, "{synced:?} {read:?}");

    control.set(late(Duration::from_secs(60))).unwrap();
    (&file).write_all(&[1; 4096]).unwrap();
    let flushes = control.counters().unwrap().flushes;
    std::thread::scope(|scope| {
        let syncing = scope.spawn(|| file.sync_all());
        while control.counters().unwrap().flushes == flushes {
            std::thread::yield_now();
        }
        control.arm(CutMoment::Now).unwrap();
        assert_eq!(syncing.join().unwrap().unwrap_err().raw_os_error(), Some(libc::EIO));
    });
    assert!(file.as_raw_fd() >= 0);
    drop(file);
    control.clear().unwrap();
    fixture.device.power_cycle(&Survivors::All).unwrap();
    fixture.close();
}

#[test]
fn discards_arrive_and_are_lost_or_kept_like_writes() {
    for (survivors, is_kept) in [(Survivors::None, false), (Survivors::All, true)] {
        let mut fixture = Fixture::new(FileSystem::Ext4);
        let control = fixture.device.control();
        write(&fixture.path("file"), &[1; 1 << 20], true);
        let before = control.counters().unwrap();
        let at = File::open(fixture.device.mount_point()).unwrap();
        // Only of what was never used is it known to be free without the journal.
        fitrim(&at);
        let trimmed = control.counters().unwrap();
        assert!(trimmed.discards > before.discards, "{trimmed:?}");
        assert_eq!((trimmed.writes, trimmed.flushes), (before.writes, before.flushes));
        drop(at);
        control.arm(CutMoment::Now).unwrap();
        let at_risk = fixture.device.power_cycle(&survivors).unwrap();
        assert_eq!(at_risk.bytes, 0, "discards are none: {is_kept}");
        assert_eq!(fs::read(fixture.path("file")).unwrap(), [1; 1 << 20]);
        fixture.close();
    }
}

#[test]
fn a_disk_under_the_device_that_is_full_is_no_fault_of_the_device_and_is_said() {
    // The one of a fixture is full, and another device is on it.
    let below = Fixture::new(FileSystem::Ext4);
    let spec = DeviceSpec { directory: below.path("upper"), size_bytes: 128 << 20, ..below.spec.clone() };
    let device = FaultDevice::start(&spec).unwrap();
    let mut file = File::create(device.mount_point().join("file")).unwrap();
    let written = file.write_all(&vec![1; 100 << 20]).and_then(|()| file.sync_all());
    assert!(written.is_err());
    let error = device.control().counters().unwrap_err();
    assert!(matches!(error, FaultError::Underlying(_)), "{error}");
    assert!(error.to_string().contains("image: No space left on device"), "{error}");
    drop(file);
    device.close().unwrap();
    below.close();
}

/// FITRIM of linux/fs.h for a whole file system.
fn fitrim(at: &File) {
    let mut range = [0_u64, u64::MAX, 0];
    const FITRIM: libc::Ioctl = 0xc018_5879;
    // SAFETY: three numbers, which it reads and writes, alive during the call.
    assert_eq!(unsafe { libc::ioctl(at.as_raw_fd(), FITRIM, range.as_mut_ptr()) }, 0);
}
