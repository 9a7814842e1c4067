//! Tests that nothing is left when the daemon, its owner, or both are killed or stopped, and that no process hangs.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll_faultfs::{CutMoment, DeviceSpec, FaultDevice, FaultError, FileSystem, Survivors, sweep_orphans};
use rustix::process::{Pid, Signal, kill_process};

use crate::{Fixture, assert_nothing_left, loops_on, step, write};

/// Time after a death within which all processes and mounts must be gone.
const BOUND: Duration = Duration::from_secs(100);
/// Variable with the directory in which the process makes a device for another test.
const OWNED: &str = "PLIMSOLL_FAULTFS_TEST_OWNED";

fn kill(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
}

fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + BOUND;
    while !is_so() {
        assert!(Instant::now() < until, "{what} takes longer than {BOUND:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A process that writes and syncs a file without end, until it fails.
fn writer(at: &Path) -> Child {
    let script = "while dd if=/dev/zero of=file bs=64k count=4 conv=fsync,notrunc 2>/dev/null; do :; done";
    Command::new("/bin/sh").args(["-c", script]).current_dir(at).spawn().unwrap()
}

pub(crate) fn assert_ends(mut child: Child) {
    let until = Instant::now() + BOUND;
    while child.try_wait().unwrap().is_none() {
        let state = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let stack = fs::read_to_string(format!("/proc/{}/stack", child.id())).unwrap_or_default();
        assert!(Instant::now() < until, "it hangs: {state}\n{stack}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_writer_gets_an_error_when_the_daemon_is_killed_and_close_removes_everything() {
    for _ in 0..5 {
        let fixture = Fixture::new(FileSystem::Ext4);
        let writer = writer(fixture.device.mount_point());
        wait_for("writing", || fixture.device.control().counters().unwrap().flushes > 5);
        kill(fixture.device.daemon_process().unwrap(), Signal::KILL);
        assert_ends(writer);
        let error = fixture.device.control().arm(CutMoment::Now).unwrap_err();
        assert!(matches!(error, FaultError::Gone { .. }), "{error}");
        fixture.close();
    }
}

#[test]
fn a_writer_gets_an_error_at_a_cut_and_does_not_hang() {
    let mut fixture = Fixture::new(FileSystem::Ext4);
    for flush in [1, 2, 5, 20] {
        let writer = writer(fixture.device.mount_point());
        fixture.device.control().arm(CutMoment::Flush(flush)).unwrap();
        let cut = fixture.device.control().wait_for_cut(BOUND).unwrap().unwrap();
        assert_eq!(cut.flushes_seen, flush);
        assert_ends(writer);
        fixture.device.power_cycle(&Survivors::None).unwrap();
    }
    fixture.close();
}

#[test]
fn a_device_whose_daemon_is_dead_keeps_nobody_from_making_another() {
    let dead = Fixture::new(FileSystem::Ext4);
    kill(dead.device.daemon_process().unwrap(), Signal::KILL);
    for file_system in [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs] {
        Fixture::new(file_system).close();
    }
    dead.close();
}

#[test]
fn a_daemon_that_is_killed_during_power_cycles_leaves_an_error_and_hangs_nobody() {
    for number in (0..12).step_by(step(3)) {
        let mut fixture = Fixture::new(FileSystem::Ext4);
        let daemon = fixture.device.daemon_process().unwrap();
        let started = Instant::now();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(11 * number));
            kill(daemon, Signal::KILL);
        });
        while fixture.device.power_cycle(&Survivors::None).is_ok() {
            assert!(started.elapsed() < BOUND);
        }
        assert!(started.elapsed() < BOUND, "{:?}", started.elapsed());
        killer.join().unwrap();
        fixture.close();
    }
}

#[test]
fn a_daemon_that_is_stopped_is_killed_by_close() {
    let fixture = Fixture::new(FileSystem::Ext4);
    let writer = writer(fixture.device.mount_point());
    wait_for("writing", || fixture.device.control().counters().unwrap().flushes > 5);
    kill(fixture.device.daemon_process().unwrap(), Signal::STOP);
    fixture.close();
    assert_ends(writer);
}

#[test]
fn a_mount_in_use_is_named_by_a_power_cycle_and_taken_away_by_close() {
    let mut fixture = Fixture::new(FileSystem::Ext4);
    let at = fixture.device.mount_point().to_owned();
    let mut user = Command::new("/bin/sleep").arg("60").current_dir(&at).spawn().unwrap();
    let error = fixture.device.power_cycle(&Survivors::None).unwrap_err();
    assert!(error.to_string().contains(at.to_str().unwrap()), "{error}");
    let directory = fixture.directory.path().canonicalize().unwrap();
    fixture.device.close().unwrap();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(directory.to_str().unwrap()));
    user.kill().unwrap();
    user.wait().unwrap();
    wait_for("the end of the loop device", || loops_on(&directory).is_empty());
    assert_nothing_left(&directory);
}

/// A test of its own, and, started again by [`Owner::start`], the process that others kill.
#[test]
fn an_owner_that_ends_as_it_should_leaves_nothing() {
    let fixture = Fixture::new(FileSystem::Ext4);
    write(&fixture.path("file"), b"contents", true);
    if let Some(said) = std::env::var_os(OWNED) {
        let directory = fixture.directory.path().display().to_string();
        let daemon = fixture.device.daemon_process().unwrap();
        fs::write(said, format!("{daemon} {directory}\n")).unwrap();
        std::io::stdin().read_line(&mut String::new()).unwrap();
    }
    fixture.close();
}

/// The test above in a process of its own.
struct Owner {
    process: Child,
    daemon: u32,
    directory: PathBuf,
}

impl Owner {
    fn command(said: &Path) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "death::an_owner_that_ends_as_it_should_leaves_nothing"])
            .env(OWNED, said)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0);
        command
    }

    fn start() -> Self {
        let said = tempfile::NamedTempFile::new().unwrap();
        let process = Self::command(said.path()).spawn().unwrap();
        let line = || BufReader::new(File::open(said.path()).unwrap()).lines().next().transpose().unwrap();
        wait_for("the owner's device", || line().is_some());
        let line = line().unwrap();
        let (daemon, directory) = line.split_once(' ').unwrap();
        Self { process, daemon: daemon.parse().unwrap(), directory: directory.into() }
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.directory);
    }
}

fn is_running(pid: u32) -> bool {
    // A zombie without a parent counts as gone.
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn a_daemon_whose_owner_is_killed_removes_everything_while_somebody_writes() {
    let mut owner = Owner::start();
    let writer = writer(&owner.directory.join("mount"));
    std::thread::sleep(Duration::from_millis(100));
    owner.kill();
    assert_ends(writer);
    wait_for("the daemon's end", || !is_running(owner.daemon));
    assert_nothing_left(&owner.directory);
}

#[test]
fn what_an_owner_and_a_daemon_leave_that_are_both_killed_is_swept_and_what_lives_is_not() {
    let fixture = Fixture::new(FileSystem::Ext4);
    let mut owner = Owner::start();
    kill(owner.daemon, Signal::STOP);
    owner.kill();
    assert!(owner.directory.join("mount").exists());
    kill(owner.daemon, Signal::KILL);
    wait_for("the daemon's end", || !is_running(owner.daemon));
    let swept = sweep_orphans();
    // Another test may have swept it by starting a device.
    assert!(swept.iter().all(|directory| *directory == owner.directory), "{swept:?}");
    wait_for("the sweep", || fs::read_dir(&owner.directory).unwrap().next().is_none());
    assert_nothing_left(&owner.directory);
    let mut file = File::create(fixture.path("alive")).unwrap();
    file.write_all(b"alive").unwrap();
    file.sync_all().unwrap();
    drop(file);
    fixture.close();
}

#[test]
fn an_owner_that_is_killed_at_any_moment_leaves_nothing() {
    let fixture = Fixture::new(FileSystem::Ext4);
    let spec = fixture.spec.clone();
    fixture.close();
    for number in (0..30).step_by(step(5)) {
        let said = tempfile::NamedTempFile::new().unwrap();
        let mut owner = Owner::command(said.path()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(7 * number));
        owner.kill().unwrap();
        owner.wait().unwrap();
        let prefix = format!("faultfs-test-{}-", owner.id());
        let entries = fs::read_dir(std::env::temp_dir()).unwrap().map(|entry| entry.unwrap());
        let made = entries.filter(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with(&prefix)));
        for directory in made.map(|entry| entry.path()) {
            // One that dies before its daemon is there leaves an empty mark, for the next one who wants the directory.
            let spec = DeviceSpec { directory: directory.clone(), ..spec.clone() };
            wait_for("removal", || match FaultDevice::start(&spec) {
                Ok(device) => device.close().is_ok(),
                Err(FaultError::InUse(_) | FaultError::NotEmpty(_)) => false,
                Err(error) => panic!("{error}"),
            });
            assert_nothing_left(&directory);
            fs::remove_dir(directory).unwrap();
        }
    }
}

#[test]
fn a_directory_can_be_taken_again_at_once() {
    let fixture = Fixture::new(FileSystem::Ext4);
    let spec = fixture.spec.clone();
    fixture.close();
    for _ in 0..12 {
        let device = FaultDevice::start(&spec).unwrap();
        fs::write(device.mount_point().join("file"), "there").unwrap();
        // The daemon before may end only now; what is here is not its own.
        std::thread::sleep(Duration::from_millis(20));
        assert!(spec.directory.join("image").exists());
        device.close().unwrap();
    }
    assert!(!spec.directory.exists());
}

#[test]
fn a_directory_that_is_in_use_or_holds_something_is_refused() {
    let fixture = Fixture::new(FileSystem::Ext4);
    let mut spec = fixture.spec.clone();
    assert!(matches!(FaultDevice::start(&spec), Err(FaultError::InUse(_))));
    let other = tempfile::tempdir().unwrap();
    fs::write(other.path().join("file"), "somebody's").unwrap();
    spec.directory = other.path().to_owned();
    assert!(matches!(FaultDevice::start(&spec), Err(FaultError::NotEmpty(_))));
    assert!(other.path().join("file").exists());
    spec.size_bytes = 1 << 20;
    let error = FaultDevice::start(&spec).unwrap_err().to_string();
    assert_eq!(error, "1048576 bytes are too few for ext4; it needs 16777216");
    fixture.close();
}
