//! Many crashes from one run, and the same crash made in two ways.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use plimsoll_faultfs::{
    CrashPoint, CutMoment, FaultError, FileSystem, ImageCheck, ImageMount, ImageState, LogKind, Survivors,
    check_images, crash_images, log_entries,
};

use crate::{Fixture, step, write};

/// The files in a directory, but for what the file system itself has there.
fn contents(at: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(at).unwrap().map(Result::unwrap);
    let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
    files.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect()
}

/// Files 0 to `count`, every third of them synced, and what a power cut has to leave of them.
struct Files(usize);

impl Files {
    fn is_synced(number: usize) -> bool {
        number.is_multiple_of(3)
    }

    fn contents(number: usize) -> Vec<u8> {
        vec![number as u8 + 1; 1 + 3000 * number]
    }

    fn write(&self, at: &Path) {
        for number in 0..self.0 {
            let mut file = File::create(at.join(number.to_string())).unwrap();
            file.write_all(&Self::contents(number)).unwrap();
            if Self::is_synced(number) {
                file.sync_all().unwrap();
            }
        }
    }

    fn assert_kept(&self, found: &BTreeMap<String, Vec<u8>>) {
        for number in 0..self.0 {
            let found = found.get(&number.to_string());
            if Self::is_synced(number) {
                assert_eq!(found, Some(&Self::contents(number)), "file {number} was synced");
            } else {
                assert!(found.is_none_or(Vec::is_empty), "file {number} was never synced");
            }
        }
    }
}

/// Returns true if one of several tries was over before ext4 writes its journal by itself, 5 s after a change.
fn quickly(mut tried: impl FnMut() -> Duration) -> bool {
    (0..10).any(|_| tried() < Duration::from_secs(3))
}

/// Removes all files, and makes that durable.
fn clear(at: &Path) {
    for file in fs::read_dir(at).unwrap().map(Result::unwrap) {
        if file.file_type().unwrap().is_file() {
            fs::remove_file(file.path()).unwrap();
        }
    }
    File::open(at).unwrap().sync_all().unwrap();
}

/// EXT4_IOC_SHUTDOWN of fs/ext4/ext4.h, without flushing the log.
fn shut_down(at: &Path) {
    const EXT4_IOC_SHUTDOWN: libc::Ioctl = 0x8004_587d;
    let no_log_flush = 2_u32;
    let root = File::open(at).unwrap();
    // SAFETY: it reads one number, which is alive during the call.
    let done = unsafe { libc::ioctl(root.as_raw_fd(), EXT4_IOC_SHUTDOWN, &raw const no_log_flush) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

/// Returns the files that a workload leaves on a plain loop device when ext4 itself stops.
fn left_by_shutdown(directory: &Path, files: &Files) -> BTreeMap<String, Vec<u8>> {
    let image = directory.join("plain.img");
    File::create(&image).unwrap().set_len(64 << 20).unwrap();
    let made = Command::new("/usr/sbin/mkfs.ext4")
        .args(["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"])
        .arg(&image)
        .status();
    assert!(made.unwrap().success());
    let at = directory.join("plain");
    let is_quick = quickly(|| {
        let mount = ImageMount::new(&image, FileSystem::Ext4, &at).unwrap();
        clear(mount.path());
        let since = Instant::now();
        files.write(mount.path());
        shut_down(mount.path());
        since.elapsed()
    });
    assert!(is_quick);
    let mount = ImageMount::new(&image, FileSystem::Ext4, &at).unwrap();
    contents(mount.path())
}

#[test]
fn a_cut_leaves_the_same_files_as_ext4_when_it_is_shut_down_by_itself() {
    let mut fixture = Fixture::new(FileSystem::Ext4);
    for count in (1..=25).step_by(step(4)).chain([40, 60]) {
        let files = Files(count);
        let by_shutdown = left_by_shutdown(&fixture.device.images(), &files);
        for survivors in [Survivors::None, Survivors::All] {
            let is_quick = quickly(|| {
                clear(fixture.device.mount_point());
                let since = Instant::now();
                files.write(fixture.device.mount_point());
                fixture.device.control().arm(CutMoment::Now).unwrap();
                let took = since.elapsed();
                fixture.device.power_cycle(&survivors).unwrap();
                took
            });
            assert!(is_quick);
            let by_cut = contents(fixture.device.mount_point());
            files.assert_kept(&by_cut);
            let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
            assert_eq!(names(&by_cut), names(&by_shutdown), "{count} files, {survivors}");
            assert!(by_cut == by_shutdown, "{count} files, {survivors}");
        }
    }
    fixture.close();
}

#[test]
fn every_crash_that_one_run_could_have_had_keeps_what_was_synced_before_it() {
    const FILES: usize = 20;
    let fixture = Fixture::with(FileSystem::Ext4, true);
    let control = fixture.device.control();
    // After how many records each file was synced.
    let mut synced_at = Vec::new();
    for number in 0..FILES {
        let path = fixture.path(&number.to_string());
        write(&path, &Files::contents(number), true);
        synced_at.push(log_entries(&fixture.device.log()).unwrap().len());
    }
    let flushes = control.counters().unwrap().flushes;
    let entries = log_entries(&fixture.device.log()).unwrap();
    let logged = entries.iter().filter(|entry| entry.kind == LogKind::Flush).count() as u64;
    assert!(logged >= flushes && flushes >= FILES as u64, "{logged} {flushes}");
    assert!(entries.windows(2).all(|pair| pair[0].at_ns <= pair[1].at_ns));

    let mut points = Vec::new();
    for entries in (0..entries.len()).step_by(3) {
        let seed = entries as u64;
        points.push(CrashPoint { entries, survivors: Survivors::Random { seed, share: 0.5, tear: true } });
        points.push(CrashPoint { entries, survivors: Survivors::None });
    }
    let into = fixture.device.images();
    let images = crash_images(&fixture.device.log(), &fixture.device.base(), &points, &into).unwrap();
    assert_eq!(images.len(), points.len());
    let all: Vec<_> = points.iter().zip(&images).collect();
    std::thread::scope(|scope| {
        for part in all.chunks(all.len().div_ceil(4)) {
            let synced_at = &synced_at;
            scope.spawn(move || {
                for (point, image) in part {
                    let mount = ImageMount::new(image, FileSystem::Ext4, &image.with_extension("mount")).unwrap();
                    let found = contents(mount.path());
                    for (number, at) in synced_at.iter().enumerate().filter(|(_, at)| **at <= point.entries) {
                        let found = found.get(&number.to_string());
                        assert_eq!(found, Some(&Files::contents(number)), "file {number}, synced at {at}: {point:?}");
                    }
                }
            });
        }
    });
    let last = CrashPoint { entries: entries.len() + 1000, survivors: Survivors::None };
    let elsewhere = into.join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let error = crash_images(&fixture.device.log(), &fixture.device.base(), &[last], &elsewhere).unwrap_err();
    assert!(matches!(error, FaultError::Usage(_)), "{error}");
    fixture.close();
}

#[test]
fn an_image_of_the_last_record_is_what_a_cut_there_leaves() {
    for survivors in [Survivors::None, Survivors::All, Survivors::Random { seed: 3, share: 0.5, tear: true }] {
        let mut fixture = Fixture::with(FileSystem::Ext4, true);
        Files(10).write(fixture.device.mount_point());
        // Written, and not flushed.
        let file = File::create(fixture.path("last")).unwrap();
        (&file).write_all(&[9; 50_000]).unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        drop(file);
        let until = Instant::now() + Duration::from_secs(60);
        while fixture.device.control().counters().unwrap().unflushed_sectors < 50_000 / 512 {
            assert!(Instant::now() < until, "the data does not arrive");
        }
        fixture.device.control().arm(CutMoment::Now).unwrap();
        let cut = fixture.device.control().wait_for_cut(Duration::ZERO).unwrap().unwrap();
        let entries = log_entries(&fixture.device.log()).unwrap().len();
        let point = CrashPoint { entries, survivors };
        let into = tempfile::tempdir().unwrap();
        fs::write(into.path().join("durable"), "of a user").unwrap();
        let make = || crash_images(&fixture.device.log(), &fixture.device.base(), &[point], into.path());
        let images = make().unwrap();
        assert_eq!(fs::read_to_string(into.path().join("durable")).unwrap(), "of a user");
        assert_eq!(fs::read_dir(into.path()).unwrap().count(), 2);
        assert!(make().unwrap_err().to_string().contains("000000.img"), "an image that is there stays");
        assert_eq!(fixture.device.power_cycle(&survivors).unwrap(), cut.at_risk);
        // The log begins again with what the device has now.
        assert!(fs::read(fixture.device.base()).unwrap() == fs::read(&images[0]).unwrap());
        fixture.close();
    }
}

/// Checks an image with the file system's own tool.
fn check(file_system: FileSystem, image: &Path) {
    let (program, arguments): (&str, &[&str]) = match file_system {
        FileSystem::Ext4 => ("/usr/sbin/e2fsck", &["-fn"]),
        FileSystem::Xfs => ("/usr/sbin/xfs_repair", &["-n", "-f"]),
        FileSystem::Btrfs | FileSystem::BtrfsNoDataCow => ("/usr/bin/btrfs", &["check"]),
        FileSystem::Files => panic!("files are in no image"),
    };
    let output = Command::new(program).args(arguments).arg(image).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{program} {}: {said}", image.display());
}

/// Makes, fills, renames, syncs and removes files, so that a journal has something to do.
fn stir(at: &Path) {
    for number in 0..60 {
        let path = |name: &str| at.join(format!("{name}{}", number % 7));
        write(&path("new"), &vec![number as u8; 1 + 997 * number], number % 3 == 0);
        fs::rename(path("new"), path("file")).unwrap();
        if number % 5 == 4 {
            fs::remove_file(path("file")).unwrap();
        }
        if number % 10 == 9 {
            File::open(at).unwrap().sync_all().unwrap();
        }
    }
}

fn is_whole_after_every_crash(file_system: FileSystem) {
    let fixture = Fixture::with(file_system, true);
    stir(fixture.device.mount_point());
    let entries = log_entries(&fixture.device.log()).unwrap().len();
    let points: Vec<CrashPoint> = (1..=40)
        .map(|point| {
            let survivors = Survivors::Random { seed: point, share: 0.5, tear: true };
            CrashPoint { entries: entries * point as usize / 40, survivors }
        })
        .collect();
    let into = fixture.device.images();
    let images = crash_images(&fixture.device.log(), &fixture.device.base(), &points, &into).unwrap();
    for image in images {
        // The journal is replayed by this.
        drop(ImageMount::new(&image, file_system, &image.with_extension("mount")).unwrap());
        check(file_system, &image);
        fs::remove_file(image).unwrap();
    }
    fixture.close();
}

#[test]
fn ext4_is_whole_after_every_crash() {
    is_whole_after_every_crash(FileSystem::Ext4);
}

#[test]
fn xfs_is_whole_after_every_crash() {
    is_whole_after_every_crash(FileSystem::Xfs);
}

#[test]
fn btrfs_is_whole_after_every_crash() {
    is_whole_after_every_crash(FileSystem::Btrfs);
}

#[test]
fn an_image_whose_command_is_stopped_is_not_accused() {
    let fixture = Fixture::with(FileSystem::Ext4, true);
    write(&fixture.path("file"), b"synced", true);
    let log = fixture.device.log();
    let entries = log_entries(&log).unwrap().len();
    let points = [Survivors::None; 3].map(|survivors| CrashPoint { entries, survivors });
    let (images, began) = (fixture.device.images(), fixture.directory.path().join("began"));
    // The first image passes; the command of the second lasts.
    let command = format!("test ! -e {0} && touch {0} || {{ touch {0}-again; sleep 60; }}", began.display());
    let check = ImageCheck {
        log: &log,
        base: &fixture.device.base(),
        over: &images,
        points: &points,
        command: &command,
        expected: None,
        jobs: 1,
        limit: Duration::from_secs(60),
    };
    let (stop, started) = (AtomicBool::new(false), Instant::now());
    let checked = std::thread::scope(|scope| {
        let checked = scope.spawn(|| check_images(&check, &stop));
        while !began.with_file_name("began-again").exists() && !checked.is_finished() {
            std::thread::sleep(Duration::from_millis(5));
        }
        stop.store(true, Ordering::SeqCst);
        checked.join().unwrap().unwrap()
    });
    assert_eq!(checked.iter().map(|one| &one.state).collect::<Vec<_>>(), [&ImageState::Passed]);
    assert!(started.elapsed() < Duration::from_secs(30));
    // Nor is one whose command there is not, or whose base is not that of the log, or damaged.
    let base = |name: &str, lengths: &[u64]| {
        let path = began.with_file_name(name);
        fs::copy(fixture.device.base(), &path).unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        lengths.iter().for_each(|length| file.set_len(*length).unwrap());
        (path, file)
    };
    let length = fixture.device.base().metadata().unwrap().len();
    let (half, odd, large) =
        (base("half", &[length / 2]), base("odd", &[length + 1]), base("large", &[length + (32 << 20)]));
    let damaged = base("damaged", &[1 << 20, length]);
    // Features of ext4 that no kernel has.
    damaged.1.write_all_at(&[0xff; 4], 0x460).unwrap();
    for (command, base, words) in [
        ("no-such-command {}", &fixture.device.base(), "--check cannot be run"),
        ("true", &half.0, "are only a part of its ext4"),
        ("true", &odd.0, "are not a multiple of 4096"),
        ("true", &large.0, "are too many for its ext4"),
        ("true", &damaged.0, "this cannot be mounted as ext4"),
    ] {
        let check = ImageCheck { command, base, ..check };
        let error = check_images(&check, &AtomicBool::new(false)).unwrap_err();
        assert!(matches!(&error, FaultError::Usage(what) if what.contains(words)), "{error:?}");
    }
    // If it cannot be run for one image, that says nothing of the other.
    let points = [Survivors::None, Survivors::All].map(|survivors| CrashPoint { entries, survivors });
    let command = "[ $PLIMSOLL_CRASH_SURVIVORS = all ] || exec no-such-command";
    let checked = check_images(&ImageCheck { command, points: &points, ..check }, &AtomicBool::new(false)).unwrap();
    let states: Vec<_> = checked.iter().map(|one| &one.state).collect();
    assert!(matches!(states[..], [ImageState::NotRun(_), ImageState::Passed]), "{checked:?}");
    for (path, _) in [half, odd, large, damaged] {
        fs::remove_file(path).unwrap();
    }
    fs::remove_file(&began).unwrap();
    fs::remove_file(began.with_file_name("began-again")).unwrap();
    fixture.close();
}
