use plimsoll_trace::{DirectoryWatch, FileTracer, TraceError};

use crate::child::Told;
use crate::ways::directory;

#[test]
fn what_a_process_does_to_a_file_is_counted_call_by_call() {
    let place = directory();
    let (file, old) = (place.path().join("file"), place.path().join("file.old"));
    let (mut child, mut other) = (Told::start(), Told::start());
    let tracer = FileTracer::start(child.pid()).unwrap_or_else(|error| panic!("{error}\n{}", error.next()));
    child.does(&format!("life 3 {}", file.display()));
    other.does(&format!("life 1 {}", file.display()));
    child.does(&format!("fork fsync 2 {}", file.display()));
    let seen = tracer.read().unwrap();
    assert_eq!(seen.lost, 0);
    let used = &seen.files[&file];
    assert_eq!((used.opens, used.closes, used.syncs, used.renames, used.deletes), (8, 8, 5, 3, 0), "{used:?}");
    assert_eq!((used.reads, used.read_bytes, used.read_sizes.least(0.5)), (60, 60 * 4096, Some(4096)), "{used:?}");
    assert_eq!((used.writes, used.written_bytes), (32, 30 * 8192 + 8), "{used:?}");
    assert_eq!((used.write_sizes.least(0.5), used.write_sizes.least(0.0)), (Some(8192), Some(4)), "{used:?}");
    assert_eq!(seen.files[&old].deletes, 3);
}

#[test]
fn a_file_that_was_open_before_is_known_and_a_relative_path_is_completed() {
    let tracer = FileTracer::start(std::process::id()).unwrap_or_else(|error| panic!("{error}\n{}", error.next()));
    // Cargo runs tests in the folder of their crate.
    assert!(std::fs::read_to_string("./Cargo.toml").unwrap().contains("plimsoll-trace"));
    let seen = tracer.read().unwrap();
    let used = &seen.files[&std::env::current_dir().unwrap().join("Cargo.toml")];
    assert!(used.opens >= 1 && used.read_bytes >= 100, "{used:?}");
}

#[test]
fn events_of_a_directory_are_counted_file_by_file_also_in_directories_that_are_made() {
    let place = directory();
    std::fs::create_dir(place.path().join("before")).unwrap();
    let mut watch = DirectoryWatch::start(place.path()).unwrap();
    assert_eq!(watch.directories(), 2);
    let mut child = Told::start();
    let file = place.path().join("before/file");
    child.does(&format!("life 1 {}", file.display()));
    std::fs::create_dir(place.path().join("after")).unwrap();
    watch.read().unwrap();
    let later = place.path().join("after/file");
    std::fs::write(&later, "x").unwrap();
    let seen = watch.read().unwrap();
    let used = &seen.files[&file];
    assert_eq!((used.opens, used.closes, used.creates, used.renames), (2, 2, 1, 1), "{used:?}");
    assert!((1..=10).contains(&used.writes) && (1..=20).contains(&used.reads), "{used:?}");
    assert_eq!(seen.files[&place.path().join("before/file.old")].deletes, 1);
    let used = &seen.files[&later];
    assert_eq!((used.opens, used.creates, used.writes, used.closes, seen.lost), (1, 1, 1, 1, 0), "{used:?}");
}

#[test]
fn what_cannot_be_watched_is_named() {
    assert!(matches!(FileTracer::start(4_194_305).err(), Some(TraceError::NoProcess { pid: 4_194_305 })));
    let missing = DirectoryWatch::start("/nonexistent/place".as_ref()).err().unwrap();
    assert!(missing.to_string().starts_with("/nonexistent/place: No such file"), "{missing}");
    let file = DirectoryWatch::start("/etc/hostname".as_ref()).err().unwrap();
    assert!(file.to_string().contains("Not a directory"), "{file}");
}
