//! A disk that loses power, used from a shell.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use crate::bench::{Guarded, Place, left_below, wait_for};

/// Longest wait for anything.
const LIMIT: Duration = Duration::from_secs(100);

/// A device or files in the directory `lying` of a place, mounted by the program until this is dropped.
struct Mounted {
    process: Guarded,
    directory: String,
    at: PathBuf,
}

impl Mounted {
    /// A device of 64 MiB that keeps its log.
    fn new(place: &Place) -> Self {
        Self::with(place, &["--size", "64MiB", "--keep-log"])
    }

    fn with(place: &Place, options: &[&str]) -> Self {
        let directory = place.path().join("lying").to_str().unwrap().to_owned();
        let args = [&["faultfs", "mount", &directory], options].concat();
        let mut process = Guarded(place.command(&args).spawn().unwrap());
        let line = BufReader::new(process.0.stdout.take().unwrap()).lines().next().unwrap().unwrap();
        let at = PathBuf::from(line.strip_prefix("mount point: ").unwrap());
        Self { process, directory, at }
    }

    fn close(mut self) {
        self.process.signal(Signal::INT);
        wait_for("the end", LIMIT, || self.process.0.try_wait().unwrap().is_some());
        assert_eq!(self.process.0.wait().unwrap().code(), Some(0));
        assert!(!Path::new(&self.directory).exists(), "it was made for this");
    }
}

fn synced(path: PathBuf, contents: &[u8]) {
    fs::write(&path, contents).unwrap();
    File::open(path).unwrap().sync_all().unwrap();
}

/// Runs SQLite's own program on the database in `at`.
fn sqlite(at: &Path, statements: &str) {
    let ran = Command::new("sqlite3").arg(at.join("db")).arg(statements).output().expect("apt-get install sqlite3");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn the_parents_of_a_mistyped_path_are_not_made() {
    let place = Place::new();
    let above = place.path().join("nope");
    let ran = place.line(&format!("faultfs mount {}", above.join("x").display()));
    ran.expect(2).says("the directory above it does not exist");
    assert!(!above.exists());
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
        synced(mounted.at.join("last"), b"x");
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
    synced(mounted.at.join("file"), b"contents");
    let (seen, seconds) = (place.path().join("seen"), format!("600.{}", std::process::id()));
    let script = format!("touch {}; sleep {seconds}; :", seen.display());
    let mut images =
        Guarded(place.command(&["faultfs", "images", &mounted.directory, "--check", &script]).spawn().unwrap());
    wait_for("the command", LIMIT, || seen.exists());
    let sleeps = || left_below(Path::new(&seconds)).len();
    let image = PathBuf::from(format!("crash image of {} ", images.0.id()));
    assert!(sleeps() > 0 && !left_below(&image).is_empty(), "{} {:?}", sleeps(), left_below(&image));
    images.kill();
    wait_for("the end of all", LIMIT, || sleeps() == 0 && left_below(&image).is_empty());
    mounted.close();
}

#[test]
fn what_makes_no_crash_images_is_refused() {
    let place = Place::new();
    let mounted = Mounted::new(&place);
    let images = format!("faultfs images {}", mounted.directory);
    for (more, words) in [
        ("", "--check <COMMAND>"),
        (" --check ", "--check is empty"),
        (" --check true --survivors some", "there are: none, all, random, torn"),
        (" --check true --at 1000000", "records, not 1000000"),
        (" --check true --from 18446744073709551615", "nothing was written since"),
    ] {
        place.refuses(&[(&format!("{images}{more}"), words)]);
    }
    let slow = place.line(&format!("{images} --check sleep\u{a0}600 --limit 100ms --count 1"));
    slow.expect(1).says("not done within 0.1 s");
    // Of one image the check cannot be run, which says nothing of the others; then another one fails.
    let one_of = |rest: &str| {
        let script = format!("[ $PLIMSOLL_CRASH_SURVIVORS != none ] || no-such-command; {rest}");
        place.run(&[
            "faultfs",
            "images",
            &mounted.directory,
            "--count",
            "4",
            "--survivors",
            "none,all",
            "--check",
            &script,
        ])
    };
    let ran = one_of("[ $? -ne 127 ] || exit 127").expect(11);
    ran.says("passed 2 … not checked 2").says("not checked, exit status: 127 … no-such-command: not found");
    let ran = one_of("case $? in 127) exit 127;; esac; exit 3").expect(1).says("not checked 2");
    ran.says("exit status: 3");
    let ran = place.run(&["faultfs", "images", &mounted.directory, "--check", "no-such-command {}"]).expect(2);
    ran.says("--check cannot be run: … → name a command that the shell of root finds");
    place.refuses(&[(
        "faultfs mount disk --fs ext4 --files files",
        "--fs ext4 makes a device, and --files names a directory",
    )]);
    let nowhere = place.path().to_str().unwrap();
    let ran = place.run(&["faultfs", "images", nowhere, "--check", "true"]).expect(2);
    ran.says("it contains no log\n  → mount the device with --keep-log");
    // A base that is not the log's is refused before any command runs.
    let copies = place.path().join("copies");
    fs::create_dir(&copies).unwrap();
    for file in ["log", "base"] {
        fs::copy(Path::new(&mounted.directory).join(file), copies.join(file)).unwrap();
    }
    let base = File::options().write(true).open(copies.join("base")).unwrap();
    let ran = copies.join("ran");
    for (bytes, words) in [((64 << 20) + 1, "are not a multiple of 4096"), (96 << 20, "are too many for its ext4")] {
        base.set_len(bytes).unwrap();
        for more in [format!("--check touch\u{a0}{}", ran.display()), format!("--into {}", ran.display())] {
            let line = format!("faultfs images {} --at 1 {more}", copies.display());
            place.refuses(&[(&line, &format!("{words} … → use the whole base with which the log was made"))]);
        }
    }
    assert!(!ran.is_file() && left_below(&ran).is_empty());
    mounted.close();
}

#[test]
fn a_disk_is_mounted_told_to_lose_power_cycled_and_removed() {
    let place = Place::new();
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let socket = path("socket");
    let mounted = Mounted::with(&place, &["--size", "64MiB", "--fs", "ext4", "--control", &socket]);
    let ctl = |command: &str| place.line(&format!("faultfs ctl {socket} {command}"));
    let at = &mounted.at;
    synced(at.join("synced"), b"contents");
    // A device may be named by its directory, too.
    place.run(&["faultfs", "ctl", &mounted.directory, "set", "ignore-flushes"]).expect(0);
    synced(at.join("ignored"), b"");
    ctl("status").expect(0).says("power=on file_system=ext4");
    ctl("arm now").expect(0);
    ctl("wait 1000").expect(0).says("power=off");
    ctl("clear").expect(0);
    ctl("power-cycle none").expect(0).says("writes_at_risk=");
    assert_eq!(fs::read(at.join("synced")).unwrap(), b"contents");
    assert!(!at.join("ignored").exists());

    ctl("help").expect(0).says("power-cycle none|all|random SEED SHARE [tear]");
    let (lying, other) = (&mounted.directory, path("other"));
    for (line, words) in [
        (format!("ctl {socket} arm flush 0"), "a cut is at the first flush or write, or later"),
        (
            format!("ctl {socket} power-cycle some"),
            "expected none, all, random SEED SHARE [tear] or prefix WRITES [tear]",
        ),
        (format!("ctl tell {socket} {lying}"), "→ the control socket stands first: plimsoll faultfs ctl /"),
        (format!("ctl tell {socket} {lying}"), "socket tell /"),
        (format!("ctl {lying} tell {other}"), "other: No such file or directory … tell DIRECTORY, of another device"),
        (format!("ctl {socket} tell"), "tell needs the directory of the other device"),
        (format!("mount {lying}"), "another fault device is in use there\n  → name another directory, or end it"),
        (format!("mount {other} --size 1MiB"), "1048576 bytes are too few for ext4\n  → it needs 16777216"),
        (format!("mount {other} --fs zfs"), "ext4, xfs, btrfs, btrfs-nodatacow or files"),
    ] {
        place.refuses(&[(&format!("faultfs {line}"), words)]);
    }
    // Where no word is a device, all that are mounted are named; other tests may have some.
    for (words, meant) in
        [(format!("tell {other}"), format!("tell {other}")), (format!("{other} status"), "status".to_owned())]
    {
        let ran = place.line(&format!("faultfs ctl {words}")).expect(2).says("No such file or directory");
        let ran = ran.says("→ the control socket of a mounted device, or its directory, stands first (mounted: /");
        assert!(ran.err.contains(lying) && ran.err.trim_end().ends_with(&format!(" {meant}")), "{ran:?}");
        assert!(ran.err.contains("): plimsoll faultfs ctl "), "{ran:?}");
    }
    mounted.close();
    assert!(fs::symlink_metadata(&socket).is_err());
    ctl("status").expect(2).says("socket: No such file or directory");
}

#[test]
fn files_that_are_there_lose_what_was_not_synced_and_say_what_that_is() {
    let place = Place::new();
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let (files, socket) = (path("files"), path("lying/control"));
    fs::create_dir(&files).unwrap();
    fs::write(path("files/old"), "old").unwrap();
    let mounted = Mounted::with(&place, &["--files", &files]);
    fs::write(mounted.at.join("old"), [b'n'; 5000]).unwrap();
    place.run(&["faultfs", "ctl", &socket, "files"]).expect(0).says("5120 bytes, for  …  ms: old");
    place.run(&["faultfs", "ctl", &socket, "power-cycle", "none"]).expect(0).says("writes_at_risk=");
    assert_eq!(fs::read(mounted.at.join("old")).unwrap(), b"old");
    mounted.close();
    assert_eq!(fs::read(path("files/old")).unwrap(), b"old");
}
