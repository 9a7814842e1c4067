//! A directory that can lose power, through the kernel: what its programs can do, and what a cut leaves of it.

use std::fs::{self, File};
use std::io::{Read, Write};

use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll_faultfs::{
    CutMoment, DeviceSpec, ErrorMode, Fault, FaultDevice, FaultError, FileSystem, RequestKind, Survivors, sync,
};
use rustix::fs::{FallocateFlags, FlockOperation, SeekFrom};
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};
use rustix::process::{Pid, Signal, kill_process};

use crate::death::assert_ends;
use crate::{Fixture, step, write};

const PAGE: usize = 4096;

fn open(path: &Path) -> File {
    File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

fn sync_dir(path: &Path) {
    File::open(path).unwrap().sync_all().unwrap();
}

/// A device in `directory` for the user's files.
fn of_files(directory: &Path, files: &Path) -> DeviceSpec {
    DeviceSpec {
        directory: directory.join("device"),
        size_bytes: 0,
        file_system: FileSystem::Files,
        keep_log: false,
        files: Some(files.to_owned()),
    }
}

/// Writes a byte into a page of a file by way of a shared mapping, and with `sync` has it written back.
fn write_mapped(file: &File, at: usize, byte: u8, sync: bool) {
    let length = at / PAGE * PAGE + PAGE;
    // SAFETY: a mapping of its own, which ends before the function does; the file is not shortened meanwhile.
    unsafe {
        let (read_write, shared) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        let mapped = rustix::mm::mmap(std::ptr::null_mut(), length, read_write, shared, file, 0).unwrap();
        mapped.cast::<u8>().add(at).write_volatile(byte);
        if sync {
            rustix::mm::msync(mapped, length, MsyncFlags::SYNC).unwrap();
        }
        rustix::mm::munmap(mapped, length).unwrap();
    }
}

#[test]
fn programs_find_what_they_need_of_a_file_system() {
    let fixture = Fixture::new(FileSystem::Files);
    let path = |name: &str| fixture.path(name);
    let file = open(&path("file"));
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 1 << 20).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 1 << 20);
    file.write_all_at(&[7; 3 * PAGE], 0).unwrap();
    rustix::fs::fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, PAGE as u64).unwrap();
    assert_eq!(rustix::fs::seek(&file, SeekFrom::Data(0)).unwrap(), PAGE as u64);
    let mut found = [9; 2];
    file.read_exact_at(&mut found, PAGE as u64 - 1).unwrap();
    assert_eq!(found, [0, 7]);
    let copy = open(&path("copy"));
    assert_eq!(rustix::fs::copy_file_range(&file, None, &copy, None, 3 * PAGE).map(|_| ()), Ok(()));
    write_mapped(&file, 5000, 8, true);
    file.read_exact_at(&mut found[..1], 5000).unwrap();
    assert_eq!(found[0], 8);

    let direct = File::options().write(true).custom_flags(libc::O_DIRECT).open(path("file")).unwrap();
    let bytes = vec![6; 2 * PAGE];
    let skip = bytes.as_ptr().align_offset(PAGE);
    direct.write_all_at(&bytes[skip..skip + PAGE], 0).unwrap();
    file.read_exact_at(&mut found[..1], 0).unwrap();
    assert_eq!(found[0], 6);

    rustix::fs::flock(&file, FlockOperation::LockExclusive).unwrap();
    let other = open(&path("file"));
    assert!(rustix::fs::flock(&other, FlockOperation::NonBlockingLockExclusive).is_err());
    rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();

    let listener = UnixListener::bind(path("socket")).unwrap();
    let mut stream = UnixStream::connect(path("socket")).unwrap();
    stream.write_all(b"x").unwrap();
    listener.accept().unwrap().0.read_exact(&mut found[..1]).unwrap();
    assert!(Command::new("mkfifo").arg(path("pipe")).status().unwrap().success());
    assert!(fs::symlink_metadata(path("pipe")).unwrap().file_type().is_fifo());

    symlink("file", path("link")).unwrap();
    assert_eq!(fs::read_link(path("link")).unwrap(), Path::new("file"));
    fs::hard_link(path("file"), path("hard")).unwrap();
    assert_eq!(file.metadata().unwrap().nlink(), 2);
    fs::set_permissions(path("hard"), fs::Permissions::from_mode(0o604)).unwrap();
    assert_eq!(file.metadata().unwrap().mode() & 0o7777, 0o604);
    fs::remove_file(path("hard")).unwrap();
    fs::remove_file(path("file")).unwrap();
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    file.read_exact_at(&mut found[..1], 0).unwrap();
    assert_eq!(found[0], 6);
    assert!(rustix::fs::statvfs(path("copy")).unwrap().f_blocks > 0);
    let mut names: Vec<_> = fs::read_dir(path(".")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["copy", "link", "pipe", "socket"]);

    // Another user, under his own name and mask.
    let script = "umask 027; echo his > his && test \"$(stat -c '%u %g %a' his)\" = '65534 65534 640' && ! cat copy";
    fs::set_permissions(path("."), fs::Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(path("copy"), fs::Permissions::from_mode(0o600)).unwrap();
    let directory = fixture.directory.path();
    fs::set_permissions(directory, fs::Permissions::from_mode(0o711)).unwrap();
    let mut shell = Command::new("setpriv");
    shell.args(["--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", script]).current_dir(path("."));
    assert!(shell.stderr(Stdio::null()).status().unwrap().success());
    drop((file, other, direct, copy));
    fixture.close();
}

#[test]
fn what_was_synced_is_there_after_a_cut_and_what_was_not_is_as_it_was() {
    let mut fixture = Fixture::new(FileSystem::Files);
    let at = fixture.device.mount_point().to_owned();
    let path = |name: &str| at.join(name);
    for name in ["kept", "removed", "replaced", "cut-off", "mapped", "rights"] {
        fs::write(path(name), [1; 3 * PAGE]).unwrap();
    }
    sync(&at).unwrap();

    // Its fsync makes a file durable, with its name and the directories above; that of a directory the names in it.
    fs::create_dir_all(path("new/below")).unwrap();
    write(&path("new/below/file"), b"synced", false);
    File::open(path("new/below/file")).unwrap().sync_all().unwrap();
    write(&path("new/unsynced"), b"unsynced", false);
    let dsync = File::options().write(true).custom_flags(libc::O_DSYNC).open(path("kept")).unwrap();
    dsync.write_all_at(&[2; PAGE], PAGE as u64).unwrap();
    drop(dsync);
    let kept = open(&path("kept"));
    kept.write_all_at(&[3; PAGE], 0).unwrap();
    let mapped = open(&path("mapped"));
    write_mapped(&mapped, 0, 4, true);
    write_mapped(&mapped, PAGE, 5, false);
    write(&path("replacement"), b"new", false);
    File::open(path("replacement")).unwrap().sync_all().unwrap();
    fs::rename(path("replacement"), path("replaced")).unwrap();
    sync_dir(&at);
    fs::remove_file(path("removed")).unwrap();
    File::options().write(true).open(path("cut-off")).unwrap().set_len(10).unwrap();
    fs::set_permissions(path("rights"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(path("replaced"), path("elsewhere")).unwrap();

    let unsynced = fixture.device.control().files().unwrap();
    let of = |name: &str| unsynced.iter().find(|file| file.path == name).map(|file| file.bytes);
    assert_eq!(
        (of("kept"), of("new/unsynced"), of("mapped")),
        (Some(PAGE as u64), Some(512), Some(PAGE as u64)),
        "{unsynced:?}"
    );
    fixture.device.control().arm(CutMoment::Now).unwrap();
    assert_eq!(fs::write(path("late"), b"").unwrap_err().raw_os_error(), Some(libc::EIO));
    let found = fixture.device.control().files_at_risk().unwrap().unwrap();
    let of = |name: &str| found.files.iter().find(|file| file.path == name).map(|file| (file.writes, file.replaces));
    assert_eq!((of("kept"), of("new/unsynced")), (Some((1, true)), Some((1, false))), "{found:?}");
    // A file that was removed and one with another name; one of another size and one with other rights.
    assert_eq!((found.names, found.elsewhere), (2, 2), "{found:?}");
    drop((kept, mapped));
    fixture.device.power_cycle(&Survivors::None).unwrap();

    assert_eq!(fs::read(path("new/below/file")).unwrap(), b"synced");
    // Its name was in the journal before the fsync of another directory; what is in it was not.
    assert_eq!(fs::read(path("new/unsynced")).unwrap(), b"");
    let kept = fs::read(path("kept")).unwrap();
    assert_eq!((kept[0], kept[PAGE], kept[2 * PAGE], kept.len()), (1, 2, 1, 3 * PAGE));
    assert_eq!(fs::read(path("mapped")).unwrap()[..=PAGE], [&[4][..], &[1; PAGE]].concat());
    assert_eq!(fs::read(path("replaced")).unwrap(), b"new");
    assert_eq!(fs::read(path("removed")).unwrap(), [1; 3 * PAGE]);
    assert_eq!(fs::read(path("cut-off")).unwrap(), [1; 3 * PAGE]);
    assert_eq!(fs::metadata(path("rights")).unwrap().mode() & 0o777, 0o644);
    assert!(!path("elsewhere").exists() && !path("replacement").exists());
    fixture.close();
}

#[test]
fn a_hole_that_is_cut_off_costs_nothing_and_comes_back_with_what_was_around_it() {
    const LENGTH: u64 = 1 << 40;
    let mut fixture = Fixture::new(FileSystem::Files);
    let file = open(&fixture.path("sparse"));
    file.set_len(LENGTH).unwrap();
    file.write_all_at(b"in the middle", LENGTH / 2).unwrap();
    file.sync_all().unwrap();
    sync_dir(&fixture.path("."));
    // Page by page it would take hours, and the disk's room.
    let began = Instant::now();
    file.set_len(0).unwrap();
    assert!(began.elapsed() < Duration::from_secs(100), "{:?}", began.elapsed());
    drop(file);
    fixture.device.control().arm(CutMoment::Now).unwrap();
    fixture.device.power_cycle(&Survivors::None).unwrap();
    let file = open(&fixture.path("sparse"));
    let mut middle = [0; 13];
    file.read_exact_at(&mut middle, LENGTH / 2).unwrap();
    assert_eq!((file.metadata().unwrap().len(), &middle), (LENGTH, b"in the middle"));
    drop(file);
    fixture.close();
}

#[test]
fn a_file_of_two_removed_names_comes_back_as_it_was_synced_by_the_one_whose_removal_was_not() {
    let mut fixture = Fixture::new(FileSystem::Files);
    let path = |name: &str| fixture.device.mount_point().join(name);
    write(&path("one"), &[1; PAGE], false);
    fs::hard_link(path("one"), path("other")).unwrap();
    sync(fixture.device.mount_point()).unwrap();
    open(&path("one")).write_all_at(&[2; PAGE], 0).unwrap();
    fs::remove_file(path("one")).unwrap();
    let between = File::create(path("between")).unwrap();
    fs::remove_file(path("other")).unwrap();
    // With it all that was changed before it was made.
    between.sync_all().unwrap();
    drop(between);
    let (one, other) = (path("one"), path("other"));
    fixture.device.power_cycle(&Survivors::None).unwrap();
    let found = fs::read(other).unwrap();
    assert_eq!((one.exists(), found.len(), found[0]), (false, PAGE, 1));
    fixture.close();
}

#[test]
fn a_slow_flush_that_was_done_before_a_freeze_is_answered_at_once_and_fails_only_at_a_halt() {
    let mut fixture = Fixture::new(FileSystem::Files);
    let path = fixture.path("file");
    for halts in [false, true] {
        let control = fixture.device.control();
        let (median, jitter) = (Duration::from_secs(60), Duration::ZERO);
        control.set(Fault::Delay { on: RequestKind::Flush, median, jitter, seed: 1 }).unwrap();
        let (started, flushes) = (Instant::now(), control.counters().unwrap().flushes);
        let file = open(&path);
        let flush = std::thread::spawn(move || file.sync_all());
        while control.counters().unwrap().flushes == flushes {
            assert!(started.elapsed() < Duration::from_secs(30), "no flush comes");
            std::thread::sleep(Duration::from_millis(1));
        }
        if halts { control.halt(CutMoment::Now) } else { control.freeze(CutMoment::Now) }.unwrap();
        assert_eq!(flush.join().unwrap().is_err(), halts);
        assert!(started.elapsed() < median);
        control.clear().unwrap();
        fixture.device.power_cycle(&Survivors::None).unwrap();
    }
    fixture.close();
}

#[test]
fn what_came_after_a_freeze_is_forgotten_and_nobody_notices() {
    let mut fixture = Fixture::new(FileSystem::Files);
    let path = fixture.path("file");
    write(&path, &[1; 2 * PAGE], true);
    let file = open(&path);
    fixture.device.control().freeze(CutMoment::Flush(2)).unwrap();
    file.write_all_at(&[2; PAGE], 0).unwrap();
    file.sync_all().unwrap();
    file.write_all_at(&[3; PAGE], PAGE as u64).unwrap();
    file.sync_all().unwrap();
    let cut = fixture.device.control().wait_for_cut(Duration::ZERO).unwrap().unwrap();
    assert_eq!((cut.at_risk.writes, cut.at_risk.bytes, cut.flushes_seen), (1, PAGE as u64, 2));
    file.write_all_at(&[4; 2 * PAGE], 0).unwrap();
    write_mapped(&file, 0, 5, true);
    file.sync_all().unwrap();
    write(&fixture.path("late"), b"late", true);
    fs::remove_file(&path).unwrap();
    drop(file);
    fixture.device.power_cycle(&Survivors::All).unwrap();
    assert_eq!(fs::read(&path).unwrap(), [[2; PAGE], [3; PAGE]].concat());
    assert!(!fixture.path("late").exists());
    fixture.close();
}

#[test]
fn each_fault_shows_in_files_as_it_says() {
    let mut fixture = Fixture::new(FileSystem::Files);
    let path = fixture.path("file");
    write(&path, &[1; PAGE], true);
    write(&fixture.path("shorter"), &[1; PAGE], true);
    let (file, shorter) = (open(&path), open(&fixture.path("shorter")));
    let control = fixture.device.control();
    let errno = |done: std::io::Result<()>| done.err().and_then(|error| error.raw_os_error());
    let once = |on| Fault::Eio { on, how: ErrorMode::Once };
    control.set(once(RequestKind::Write)).unwrap();
    assert_eq!(errno(file.write_all_at(&[2; PAGE], 0)), Some(libc::EIO));
    control.set(once(RequestKind::Flush)).unwrap();
    assert_eq!(errno(file.sync_all()), Some(libc::EIO));
    assert_eq!(errno(file.sync_all()), None);
    control.set(Fault::Full).unwrap();
    assert_eq!(errno(file.write_all_at(&[2; PAGE], PAGE as u64)), Some(libc::ENOSPC));
    assert_eq!(errno(file.write_all_at(&[2; PAGE], 1)), Some(libc::ENOSPC));
    // What a file has is overwritten.
    assert_eq!(errno(file.write_all_at(&[1; PAGE], 0)), None);
    assert_eq!(errno(File::create(fixture.path("more")).map(drop)), Some(libc::ENOSPC));
    assert_eq!(errno(file.set_len(2 * PAGE as u64)), Some(libc::ENOSPC));
    // To make room is allowed.
    assert_eq!(errno(shorter.set_len(0)), None);
    control.clear().unwrap();
    let (median, jitter) = (Duration::from_millis(50), Duration::ZERO);
    control.set(Fault::Delay { on: RequestKind::Flush, median, jitter, seed: 1 }).unwrap();
    let started = Instant::now();
    file.sync_all().unwrap();
    assert!(started.elapsed() >= median, "{:?}", started.elapsed());
    control.clear().unwrap();
    control.set(Fault::Eio { on: RequestKind::Write, how: ErrorMode::Silent(1) }).unwrap();
    file.write_all_at(&[3; PAGE], 0).unwrap();
    file.sync_all().unwrap();
    control.set(Fault::IgnoreFlushes).unwrap();
    file.write_all_at(&[4; PAGE], PAGE as u64).unwrap();
    file.sync_all().unwrap();
    control.sync().unwrap();
    assert_eq!(control.counters().unwrap().unflushed_sectors, 8);
    drop((file, shorter));
    fixture.device.power_cycle(&Survivors::None).unwrap();
    assert_eq!(fs::read(&path).unwrap(), [1; PAGE]);
    fixture.close();
}

#[test]
fn a_device_within_the_files_that_it_is_about_is_refused() {
    let files = crate::tempdir();
    let error = FaultDevice::start(&of_files(files.path(), files.path())).unwrap_err();
    assert!(matches!(&error, FaultError::Usage(why) if why.contains("name a directory beside it")), "{error}");
}

/// A number that is another one for each seed, and not much of one.
fn mixed(seed: u64) -> u64 {
    (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 33
}

#[test]
fn what_was_synced_is_the_same_after_a_cut_as_on_ext4() {
    let mut tiers = [Fixture::new(FileSystem::Files), Fixture::new(FileSystem::Ext4)];
    let mut synced = 0;
    for round in (0..20).step_by(step(3)) {
        // What is to be there, by the rules of both.
        let mut wanted: Vec<(String, Vec<u8>)> = Vec::new();
        for number in 0..12 {
            let lot = mixed(round * 100 + number);
            let (name, contents) = (format!("{}", lot % 6), vec![lot as u8; 1 + (lot >> 8) as usize % 20_000]);
            for tier in &tiers {
                let directory = tier.path(&format!("round-{round}"));
                fs::create_dir_all(&directory).unwrap();
                match lot % 3 {
                    0 => write(&directory.join(&name), &contents, false),
                    1 => write(&directory.join(&name), &contents, true),
                    _ => {
                        write(&directory.join("temporary"), &contents, true);
                        fs::rename(directory.join("temporary"), directory.join(&name)).unwrap();
                        sync_dir(&directory);
                    }
                }
            }
            wanted.retain(|(known, _)| *known != name);
            if !lot.is_multiple_of(3) {
                wanted.push((name, contents));
            }
        }
        for tier in &mut tiers {
            tier.device.power_cycle(&Survivors::None).unwrap();
            for (name, contents) in &wanted {
                let found = fs::read(tier.path(&format!("round-{round}/{name}"))).unwrap();
                assert!(found == *contents, "round {round}, {name}: {} of {} bytes", found.len(), contents.len());
            }
        }
        synced += wanted.len();
    }
    assert!(synced > 40 / step(3), "{synced}");
    tiers.into_iter().for_each(Fixture::close);
}

/// A program that appends a record to a file and syncs it, over and over, until that fails.
fn writer(at: &Path) -> Child {
    let script = "n=0; while printf '%08d\\n' $n >> log && sync log; do n=$((n + 1)); done";
    Command::new("/bin/sh").args(["-c", script]).current_dir(at).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn a_daemon_that_is_killed_leaves_the_files_as_they_were_written_and_hangs_nobody() {
    for number in (0..30).step_by(step(6)) {
        let directory = crate::tempdir();
        let files = directory.path().join("files");
        fs::create_dir(&files).unwrap();
        let spec = of_files(directory.path(), &files);
        let device = FaultDevice::start(&spec).unwrap();
        let at = device.mount_point().to_owned();
        write(&at.join("unsynced"), &[1; 3 * PAGE], false);
        fs::write(at.join("other"), b"old").unwrap();
        fs::rename(at.join("other"), at.join("renamed")).unwrap();
        let writer = writer(&at);
        std::thread::sleep(Duration::from_millis(20 + mixed(number) % 300));
        kill_process(Pid::from_raw(device.daemon_process().unwrap() as i32).unwrap(), Signal::KILL).unwrap();
        assert_ends(writer);
        assert!(matches!(device.control().arm(CutMoment::Now), Err(FaultError::Gone { .. })));
        device.close().unwrap();
        // As the server had written it.
        assert_eq!(fs::read(files.join("unsynced")).unwrap(), [1; 3 * PAGE]);
        assert_eq!(fs::read(files.join("renamed")).unwrap(), b"old");
        let log = fs::read_to_string(files.join("log")).unwrap_or_default();
        let whole = log.lines().enumerate().all(|(at, line)| line.parse() == Ok(at));
        assert!(whole, "{log}");
        assert!(!spec.directory.exists(), "the directory that it made goes with it");
    }
}

#[test]
fn files_that_are_somebodys_stay_and_are_what_a_cut_left() {
    let directory = crate::tempdir();
    let (files, elsewhere) = (directory.path().join("his"), PathBuf::from("/dev/shm"));
    fs::create_dir(&files).unwrap();
    fs::write(files.join("his"), b"old").unwrap();
    let spec = of_files(directory.path(), &files);
    let mut device = FaultDevice::start(&spec).unwrap();
    fs::write(device.mount_point().join("his"), b"new").unwrap();
    device.power_cycle(&Survivors::None).unwrap();
    assert_eq!(fs::read(device.mount_point().join("his")).unwrap(), b"old");
    device.close().unwrap();
    assert_eq!(fs::read(files.join("his")).unwrap(), b"old");
    let spec = DeviceSpec { files: Some(elsewhere), ..spec };
    let error = FaultDevice::start(&spec).unwrap_err().to_string();
    assert!(error.contains("is on another file system than"), "{error}");
    // A command that is only of files is refused by a device, in words.
    let device = Fixture::new(FileSystem::Ext4);
    assert!(matches!(device.device.control().files(), Err(FaultError::Refused(_))));
    device.close();
}
