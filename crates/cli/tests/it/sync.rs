//! Cost of write + flush, and the test of flushes: the program as its users run it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::bench::{Guarded, Place, Ran, wait_for};

/// A directory on the disk that this is built on.
fn on_disk() -> tempfile::TempDir {
    let prefix = format!("sync-test-{}-", std::process::id());
    tempfile::Builder::new().prefix(&prefix).tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

#[track_caller]
fn is_empty(directory: &Path) {
    let left: Vec<_> = fs::read_dir(directory).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn the_answer_comes_first_and_every_part_is_there() {
    let (place, directory) = (Place::new(), on_disk());
    let ran = place.run(&["sync", text(directory.path()), "--for", "30ms"]);
    assert!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(lines[1].trim_start().starts_with("verdict"), "{ran:?}");
    for words in ["Why", "Write + flush", "sync-file-range", "no device flush", "Group commit"] {
        assert!(ran.out.contains(words), "no {words}: {ran:?}");
    }
    // In 30 ms nothing has 1,000 samples that is a flush of a disk, or it is said.
    assert!(ran.out.contains('–'), "{ran:?}");
    is_empty(directory.path());
}

#[test]
fn programs_read_every_number_with_its_n() {
    let (place, directory) = (Place::new(), on_disk());
    let path = text(directory.path());
    let ran =
        place.line(&format!("sync {path} --size 4KiB,8192 --flush none,fdatasync --write append --json -q --for 50ms"));
    let read: Value = serde_json::from_str(&ran.out).unwrap();
    let points = read["points"].as_array().unwrap();
    let named: Vec<String> = points
        .iter()
        .map(|row| format!("{} {} {} {}", row["size_bytes"], row["writing"], row["flushing"], row["loaded"]))
        .collect();
    let wanted: Vec<String> = [false, true]
        .iter()
        .flat_map(|loaded| [4096, 8192].map(|size| (size, loaded)))
        .flat_map(|(size, loaded)| ["none", "fdatasync"].map(|flush| format!("{size} \"append\" \"{flush}\" {loaded}")))
        .collect();
    assert_eq!(named, wanted);
    for row in points {
        let times = &row["outcome"]["measured"]["times"];
        let n = times["n"].as_u64().unwrap();
        assert!(n > 0 && times["max_ns"].as_u64() >= times["p50_ns"].as_u64(), "{row}");
        assert_eq!((times["p50_ns"].is_null(), times["p99_ns"].is_null()), (n < 20, n < 1_000), "{row}");
    }
    assert!(read["probe"]["times"]["n"].as_u64().unwrap() > 0 && read["judgement"]["verdict"].is_string(), "{read}");
}

#[test]
fn what_cannot_be_measured_is_refused_with_its_reason() {
    let place = Place::new();
    place.refuses(&[
        ("sync /etc/passwd", "/etc/passwd is not a directory"),
        ("sync /nonexistent/x", "/nonexistent/x … name a directory that exists"),
        ("sync /proc", "/proc: this file system takes no new directories … name a directory on a disk"),
        ("sync /tmp --for -60s", "--for -60s"),
        ("doctor --holds /nonexistent/x", "name a port, a device, or a path that exists"),
        ("doctor --holds 99999", "name a port from 1 to 65535"),
        ("sync /tmp --size 1B", "512 B to 64 MiB"),
        ("sync /tmp --size 4KiB,8k", "--size 8k … 8KiB"),
        ("sync /tmp --flush maybe", "fdatasync"),
    ]);
    let device = fs::read_dir("/dev").unwrap().flatten().map(|entry| entry.path()).find(|path| {
        use std::os::unix::fs::FileTypeExt;
        fs::metadata(path).is_ok_and(|about| about.file_type().is_block_device())
    });
    let device = device.expect("a block device in /dev");
    let ran = place.run(&["sync", text(&device)]).expect(2).says("is a block device").says("--overwrite-device");
    assert!(ran.err.contains("cache") || ran.err.contains("is /dev"), "what is known of it is said: {ran:?}");
}

#[test]
fn ctrl_c_keeps_what_was_seen_and_leaves_nothing() {
    let (place, directory) = (Place::new(), on_disk());
    let child = Guarded(place.command(&["sync", text(directory.path()), "--for", "20s"]).spawn().unwrap());
    wait_for("a file", Duration::from_secs(200), || has_file(directory.path()));
    std::thread::sleep(Duration::from_secs(1));
    child.signal(Signal::INT);
    let ran = child.ended();
    assert!(matches!(ran.code, Some(130 | 1)), "{ran:?}");
    ran.says("interrupted: this is what was seen until then … verdict");
    is_empty(directory.path());
}

fn has_file(directory: &Path) -> bool {
    let inner = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    inner.into_iter().any(|path| fs::read_dir(path).is_ok_and(|mut files| files.next().is_some()))
}

/// A listener, a writer that was killed in the middle of it, and what they left.
struct TwoMachines {
    place: Place,
    data: tempfile::TempDir,
    other: tempfile::TempDir,
}

impl TwoMachines {
    fn after_a_kill() -> Self {
        let two = Self { place: Place::new(), data: on_disk(), other: on_disk() };
        let (_listener, to) = two.listener();
        let args = ["sync", text(two.data.path()), "--report-to", &to, "--size", "512B"];
        let mut writer = Guarded(two.place.command(&args).spawn().unwrap());
        wait_for("acknowledgements", Duration::from_secs(200), || two.acknowledged() >= 100);
        writer.kill();
        two
    }

    fn listener(&self) -> (Guarded, String) {
        let args = ["sync", "--listen", "127.0.0.1:0", &self.file()];
        let mut listener = Guarded(self.place.command(&args).spawn().unwrap());
        let mut said = String::new();
        BufReader::new(listener.0.stderr.take().unwrap()).read_line(&mut said).unwrap();
        let address = said.strip_prefix("listening on ").and_then(|rest| rest.split(';').next());
        let address = address.unwrap_or_else(|| panic!("{said}")).to_owned();
        (listener, address)
    }

    fn file(&self) -> String {
        text(&self.other.path().join("acknowledged")).to_owned()
    }

    /// The last block that the listener keeps.
    fn acknowledged(&self) -> u64 {
        let kept = fs::read_to_string(self.file()).unwrap_or_default();
        // A line that is not whole is none.
        let whole = kept.rfind('\n').map_or("", |end| &kept[..end]);
        let last =
            whole.lines().filter_map(|line| line.strip_prefix("ack ")?.split(' ').nth(1)?.parse().ok()).next_back();
        last.unwrap_or(0)
    }

    fn blocks(&self) -> PathBuf {
        let directory = fs::read_dir(self.data.path()).unwrap().next().unwrap().unwrap().path();
        assert!(directory.file_name().unwrap().to_str().unwrap().starts_with("plimsoll-"));
        directory.join("blocks")
    }

    fn verify(&self, more: &[&str]) -> Ran {
        self.place.run(&[&["sync", text(self.data.path()), "--verify", &self.file()], more].concat())
    }
}

#[test]
fn after_a_kill_every_acknowledged_block_is_there_and_a_damaged_and_a_missing_one_are_found_and_named() {
    let two = TwoMachines::after_a_kill();
    let acknowledged = two.acknowledged();
    // A measurement does not take it for rubbish: it waits for its verification.
    two.place.run(&["sync", text(two.data.path()), "--for", "10ms", "--flush", "none", "-q"]);
    let blocks = File::options().read(true).write(true).open(two.blocks()).unwrap();
    let mut whole = [[0; 512]; 2];
    for (block, at) in whole.iter_mut().zip([41 * 512, 76 * 512]) {
        blocks.read_exact_at(block, at).unwrap();
    }
    blocks.write_all_at(&[!whole[0][100]], 41 * 512 + 100).unwrap();
    blocks.write_all_at(&[0; 512], 76 * 512).unwrap();
    let ran = two.verify(&[]).expect(1).says("LOST  2 acknowledged blocks are lost … 42 (damaged), 77");
    assert!(ran.out.starts_with("LOST"), "the answer comes first: {ran:?}");
    // They are left to be looked at. If its directory never came to the disk, all of it is lost.
    let directory = two.blocks().parent().unwrap().to_owned();
    let aside = two.other.path().join("aside");
    fs::rename(&directory, &aside).unwrap();
    two.verify(&[]).expect(1).says(&format!("LOST  {acknowledged} acknowledged blocks are lost"));
    fs::rename(&aside, &directory).unwrap();
    for (block, at) in whole.iter().zip([41 * 512, 76 * 512]) {
        blocks.write_all_at(block, at).unwrap();
    }
    let found: Value = serde_json::from_str(&two.verify(&["--json"]).expect(0).out).unwrap();
    assert_eq!(found[0]["acknowledged"].as_u64(), Some(acknowledged), "{found}");
    assert_eq!(found[0]["looked_for"].as_u64(), Some(acknowledged), "{found}");
    is_empty(two.data.path());
}
