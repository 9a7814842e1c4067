//! A disk that loses power, as somebody uses it from a shell.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::bench::{Guarded, Place, wait_for};

/// Longest wait for anything.
const LIMIT: Duration = Duration::from_secs(20);

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
    ctl("power-cycle some").expect(2).says("this is none, all, random SEED SHARE [tear] or prefix WRITES [tear]");
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
    let mut mount =
        place.command(&["faultfs", "mount", &directory, "--files", &files]).spawn().map(Guarded).unwrap();
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
