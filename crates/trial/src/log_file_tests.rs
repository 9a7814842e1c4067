use std::fs::{self, OpenOptions};
use std::io::Write;

use super::*;

fn append(path: &Path, text: &str) {
    let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn next(followed: &mut Followed<'_>) -> String {
    let text = String::from_utf8(followed.fill_buf().unwrap().to_vec()).unwrap();
    followed.consume(text.len());
    text
}

fn pipe(path: &Path) {
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
}

#[test]
fn a_file_that_grows_is_followed_through_rotation_and_truncation() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("access.log");
    append(&path, "old\n");
    let over = AtomicBool::new(false);
    let (head, mut followed) = Followed::open(&path, &over).unwrap();
    assert_eq!(head, b"old\n");
    append(&path, "one\n");
    assert_eq!(next(&mut followed), "one\n");
    fs::rename(&path, place.path().join("access.log.1")).unwrap();
    append(&place.path().join("access.log.1"), "two\n");
    append(&path, "three\n");
    assert_eq!(next(&mut followed), "two\n");
    assert_eq!(next(&mut followed), "three\n");
    append(&path, "cut");
    assert_eq!(next(&mut followed), "cut");
    fs::write(&path, "").unwrap();
    append(&path, "new\n");
    assert_eq!(next(&mut followed), "\n", "the cut line ends");
    assert_eq!(next(&mut followed), "new\n");
    fs::remove_file(&path).unwrap();
    pipe(&path);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(4 * LOOK);
            fs::remove_file(&path).unwrap();
            append(&path, "file\n");
        });
        assert_eq!(next(&mut followed), "file\n", "a pipe is not waited for");
    });
    over.store(true, Ordering::SeqCst);
    assert_eq!(next(&mut followed), "");
}

#[test]
fn a_directory_is_followed_into_the_files_that_appear_in_it() {
    let place = tempfile::tempdir().unwrap();
    let file = |name: &str| place.path().join(name);
    append(&file("log-01.csv"), "old\n");
    append(&file("log-00.csv.gz"), "packed");
    let over = AtomicBool::new(false);
    let (head, mut followed) = Followed::open(place.path(), &over).unwrap();
    assert_eq!(head, b"old\n");
    append(&file("log-01.csv"), "one\n");
    assert_eq!(next(&mut followed), "one\n");
    // Another log, and the next file of this one.
    append(&file("log-02.log"), "message\n");
    append(&file("log-02.csv"), "two\n");
    assert_eq!(next(&mut followed), "two\n");
    append(&file("log-02.csv"), "three\n");
    assert_eq!(next(&mut followed), "three\n");
    over.store(true, Ordering::SeqCst);
    fs::remove_file(file("log-01.csv")).unwrap();
    fs::remove_file(file("log-02.csv")).unwrap();
    assert!(Followed::open(&file("log-02.log"), &over).is_ok());
    fs::remove_file(file("log-02.log")).unwrap();
    assert!(Followed::open(place.path(), &over).is_err(), "a compressed file does not grow");
}

#[test]
fn a_compressed_file_is_read_in_clear_and_a_directory_is_all_its_files() {
    let place = tempfile::tempdir().unwrap();
    let compressed = place.path().join("access.log.2.gz");
    let mut encoder = flate2::write::GzEncoder::new(File::create(&compressed).unwrap(), Default::default());
    let text = "line\n".repeat(50_000);
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap();
    append(&place.path().join("access.log"), "line\n");
    append(&place.path().join(".hidden"), "line\n");
    let lengths: Vec<usize> = files(place.path())
        .unwrap()
        .iter()
        .map(|path| {
            let (head, mut whole) = open(path, &Arc::default()).unwrap();
            let mut read = String::new();
            whole.read_to_string(&mut read).unwrap();
            assert!(read.as_bytes().starts_with(&head) && !head.is_empty());
            read.len()
        })
        .collect();
    assert_eq!(lengths, [5, text.len()]);
    let cut = place.path().join("cut.gz");
    let bytes = fs::read(&compressed).unwrap();
    fs::write(&cut, &bytes[..bytes.len() - 9]).unwrap();
    let (head, mut rest) = open(&cut, &Arc::default()).unwrap();
    let mut read = Vec::new();
    assert!(rest.read_to_end(&mut read).is_err() && head.starts_with(b"line\n") && read.starts_with(&head));
    assert!(must_be_read(&cut, b"BZh9").is_err() && must_be_read(&cut, b"line").is_ok());
    let over = AtomicBool::new(false);
    assert!(Followed::open(&compressed, &over).is_err());
    let empty = tempfile::tempdir().unwrap();
    assert!(files(empty.path()).is_err() && files(&empty.path().join("none")).is_err());
}

#[test]
fn a_pipe_is_read_once_it_has_a_writer_and_until_the_user_ends_that() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("pipe");
    pipe(&path);
    let stop = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| fs::write(&path, "line\n").unwrap());
        assert_eq!(open(&path, &stop).unwrap().0, b"line\n");
        scope.spawn(|| {
            std::thread::sleep(4 * LOOK);
            stop.store(true, Ordering::SeqCst);
        });
        assert_eq!(open(&path, &stop).unwrap().0, b"");
    });
}

#[test]
fn a_log_that_cannot_be_read_has_a_next_step() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("access.log.gz");
    fs::write(&path, [&GZIP[..], b"and nothing of the kind"].concat()).unwrap();
    let error = |path: &Path| unread(path, &open(path, &Arc::default()).err().unwrap());
    assert_eq!(error(&path).kind, StoreErrorKind::Usage);
    assert!(error(&path).to_string().contains("damaged"));
    // A process has no memory at 0.
    let memory = error(Path::new("/proc/self/mem"));
    assert_eq!(memory.kind, StoreErrorKind::Permission);
    assert!(memory.next.is_some());
}
