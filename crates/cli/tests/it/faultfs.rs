//! A disk that loses power, used from a shell.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::bench::{Guarded, Place, wait_for};

/// Longest wait for anything.
const LIMIT: Duration = Duration::from_secs(20);

/// A device of 64 MiB that keeps its log, mounted by the program until this is dropped.
struct Mounted {
    process: Guarded,
    directory: String,
    at: PathBuf,
}

impl Mounted {
    fn new(place: &Place) -> Self {
        let directory = place.path().join("lying").to_str().unwrap().to_owned();
        let mut process = place
            .command(&["faultfs", "mount", &directory, "--size", "64MiB", "--keep-log"])
            .spawn()
            .map(Guarded)
            .unwrap();
        let line = BufReader::new(process.0.stdout.take().unwrap()).lines().next().unwrap().unwrap();
        let at = PathBuf::from(line.strip_prefix("mount point: ").unwrap());
        Self { process, directory, at }
    }

    fn close(mut self) {
        kill_process(Pid::from_child(&self.process.0), Signal::INT).unwrap();
        assert_eq!(self.process.0.wait().unwrap().code(), Some(0));
        assert_eq!(fs::read_dir(&self.directory).unwrap().count(), 0);
    }
}

/// Runs SQLite's own program on the database in `at`.
fn sqlite(at: &Path, statements: &str) {
    let ran = Command::new("sqlite3").arg(at.join("db")).arg(statements).output().expect("apt-get install sqlite3");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn crash_images_of_one_run_are_checked_against_what_a_script_knows_was_acknowledged() {
    let place = Place::new();
    // What is never synced is not in the images: the check that passes on the one has to fail on the other.
    for (synchronous, code) in [("FULL", 0), ("OFF", 1)] {
        let mounted = Mounted::new(&place);
        sqlite(&mounted.at, "PRAGMA journal_mode = WAL; CREATE TABLE t (id INTEGER PRIMARY KEY)");
        File::open(&mounted.at).map(rustix::fs::syncfs).unwrap().unwrap();
        let mut acknowledged = String::new();
        for id in 1..=20 {
            sqlite(&mounted.at, &format!("PRAGMA synchronous = {synchronous}; INSERT INTO t VALUES ({id})"));
            let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
            acknowledged += &format!("{id} {}{:09}\n", now.tv_sec, now.tv_nsec);
        }
        // Something that is durable after all of them.
        fs::write(mounted.at.join("last"), "x").unwrap();
        File::open(mounted.at.join("last")).unwrap().sync_all().unwrap();
        let known = place.path().join("acknowledged");
        fs::write(&known, acknowledged).unwrap();
        let script = format!(
            "wanted=$(awk -v ns=$PLIMSOLL_CRASH_NS '$2 < ns {{ n = $1 }} END {{ print n + 0 }}' {})\n\
             [ $wanted -eq 0 ] || [ $(sqlite3 {{}}/db 'SELECT count(*) FROM t') -ge $wanted ] || {{ echo lost; exit 7; }}\n\
             [ ! -e {{}}/db ] || sqlite3 {{}}/db 'PRAGMA integrity_check' | grep -qx ok",
            known.display()
        );
        let ran = place.run(&["faultfs", "images", &mounted.directory, "--count", "10", "--check", &script]);
        let ran = ran.expect(code);
        if code == 0 {
            ran.says("10 crash images of ").says("passed           10\n");
        } else {
            // The command that is shown makes that very image again.
            let ran = ran.says("exit status: 7\n  lost\n  → plimsoll faultfs images ");
            let line = ran.out.lines().find_map(|line| line.trim().strip_prefix("→ plimsoll ")).unwrap();
            let into = place.path().join("kept").to_str().unwrap().to_owned();
            let mut words: Vec<&str> = line.split(' ').collect();
            *words.last_mut().unwrap() = &into;
            let image = place.run(&words).expect(0).out.trim().to_owned();
            assert_eq!(fs::metadata(image).unwrap().len(), 64 << 20);
        }
        mounted.close();
    }
}

#[test]
fn nothing_is_left_of_crash_images_when_the_program_is_killed() {
    let place = Place::new();
    let mounted = Mounted::new(&place);
    fs::write(mounted.at.join("file"), "contents").unwrap();
    File::open(mounted.at.join("file")).unwrap().sync_all().unwrap();
    let (seen, seconds) = (place.path().join("seen"), format!("600.{}", std::process::id()));
    let script = format!("touch {}; sleep {seconds}; :", seen.display());
    let mut images =
        Guarded(place.command(&["faultfs", "images", &mounted.directory, "--check", &script]).spawn().unwrap());
    let id = images.0.id();
    wait_for("the command", LIMIT, || seen.exists());
    let sleeps = || {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let lines = processes.filter_map(|process| fs::read_to_string(process.path().join("cmdline")).ok());
        lines.filter(|line| line.contains(&seconds)).count()
    };
    let loops = || {
        let devices = fs::read_dir("/sys/block").unwrap().flatten();
        let files = devices.filter_map(|device| fs::read_to_string(device.path().join("loop/backing_file")).ok());
        files.filter(|file| file.contains(&format!("crash image of {id} "))).count()
    };
    assert!(sleeps() > 0 && loops() > 0, "{} {}", sleeps(), loops());
    images.0.kill().unwrap();
    images.0.wait().unwrap();
    wait_for("the end of all", LIMIT, || sleeps() == 0 && loops() == 0);
    mounted.close();
}

#[test]
fn what_makes_no_crash_images_is_refused() {
    let place = Place::new();
    let mounted = Mounted::new(&place);
    let images = |more: &[&str]| place.run(&[&["faultfs", "images", &mounted.directory], more].concat());
    images(&[]).expect(2).says("--check <COMMAND>");
    images(&["--check", ""]).expect(2).says("--check is empty");
    let mixed = ["faultfs", "mount", "disk", "--fs", "ext4", "--files", "files"];
    place.run(&mixed).expect(2).says("--fs ext4 makes a device, and --files names a directory");
    images(&["--check", "true", "--survivors", "some"]).expect(2).says("there are: none, all, random, torn");
    images(&["--check", "true", "--at", "1000000"]).expect(2).says("records, not 1000000");
    images(&["--check", "true", "--from", "18446744073709551615"]).expect(2).says("nothing was written since");
    images(&["--check", "sleep 600", "--limit", "100ms", "--count", "1"]).expect(1).says("not done within 0.1 s");
    let nowhere = place.path().to_str().unwrap();
    place
        .run(&["faultfs", "images", nowhere, "--check", "true"])
        .expect(2)
        .says("it contains no log\n  → mount the device with --keep-log");
    mounted.close();
}

#[test]
fn a_disk_is_mounted_told_to_lose_power_cycled_and_removed() {
    let place = Place::new();
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let (directory, socket) = (path("lying"), path("socket"));
    let mut mount = place
        .command(&["faultfs", "mount", &directory, "--size", "64MiB", "--fs", "ext4", "--control", &socket])
        .spawn()
        .map(Guarded)
        .unwrap();
    let mut said = BufReader::new(mount.0.stdout.take().unwrap()).lines();
    let line = said.next().unwrap().unwrap();
    let at = PathBuf::from(line.strip_prefix("mount point: ").unwrap());
    let ctl = |command: &str| {
        let words: Vec<&str> = ["faultfs", "ctl", &socket].into_iter().chain(command.split(' ')).collect();
        place.run(&words)
    };

    let mut file = File::create(at.join("synced")).unwrap();
    file.write_all(b"contents").unwrap();
    file.sync_all().unwrap();
    drop(file);
    ctl("set ignore-flushes").expect(0);
    let file = File::create(at.join("ignored")).unwrap();
    file.sync_all().unwrap();
    drop(file);
    ctl("status").expect(0).says("power=on file_system=ext4");
    ctl("arm now").expect(0);
    ctl("wait 1000").expect(0).says("power=off");
    ctl("clear").expect(0);
    ctl("power-cycle none").expect(0).says("writes_at_risk=");
    assert_eq!(fs::read(at.join("synced")).unwrap(), b"contents");
    assert!(!at.join("ignored").exists());

    ctl("help").expect(0).says("power-cycle none|all|random SEED SHARE [tear]");
    ctl("arm flush 0").expect(2).says("a cut is at the first flush or write, or later");
    ctl("power-cycle some").expect(2).says("expected none, all, random SEED SHARE [tear] or prefix WRITES [tear]");
    place
        .run(&["faultfs", "mount", &directory])
        .expect(2)
        .says("another fault device is in use there\n  → name another directory, or end it");
    place
        .run(&["faultfs", "mount", &path("other"), "--size", "1MiB"])
        .expect(2)
        .says("1048576 bytes are too few for ext4\n  → it needs 16777216");
    place.run(&["faultfs", "mount", &path("other"), "--fs", "zfs"]).expect(2).says("ext4, xfs, btrfs or files");

    kill_process(Pid::from_child(&mount.0), Signal::INT).unwrap();
    wait_for("the end", LIMIT, || mount.0.try_wait().unwrap().is_some());
    assert_eq!(mount.0.wait().unwrap().code(), Some(0));
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    assert!(fs::symlink_metadata(&socket).is_err());
    ctl("status").expect(2).says("socket: No such file or directory");
}

#[test]
fn files_that_are_there_lose_what_was_not_synced_and_say_what_that_is() {
    let place = Place::new();
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let (directory, files, socket) = (path("lying"), path("files"), path("lying/control"));
    fs::create_dir(&files).unwrap();
    fs::write(path("files/old"), "old").unwrap();
    let mut mount = place.command(&["faultfs", "mount", &directory, "--files", &files]).spawn().map(Guarded).unwrap();
    let mut said = BufReader::new(mount.0.stdout.take().unwrap()).lines();
    let at = PathBuf::from(said.next().unwrap().unwrap().strip_prefix("mount point: ").unwrap());
    fs::write(at.join("old"), [b'n'; 5000]).unwrap();
    place.run(&["faultfs", "ctl", &socket, "files"]).expect(0).says("5120 bytes, for ").says(" ms: old");
    place.run(&["faultfs", "ctl", &socket, "power-cycle", "none"]).expect(0).says("writes_at_risk=");
    assert_eq!(fs::read(at.join("old")).unwrap(), b"old");
    kill_process(Pid::from_child(&mount.0), Signal::INT).unwrap();
    wait_for("the end", LIMIT, || mount.0.try_wait().unwrap().is_some());
    assert_eq!(fs::read(path("files/old")).unwrap(), b"old");
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
}
