//! Pages of a file are resident after writing and gone after dropping; on tmpfs they stay, and the figure shows it.

use std::fs;
use std::path::Path;

use plimsoll_lab::{PageCache, drop_files, page_cache::resident};

const FILE_BYTES: u64 = 3 * 1024 * 1024 + 17;

/// Makes a directory with two files, one of them a level down, and a symbolic link that must not be followed.
fn two_files(base: &Path) -> tempfile::TempDir {
    let prefix = format!("lab-test-{}-", std::process::id());
    let dir = tempfile::Builder::new().prefix(&prefix).tempdir_in(base).unwrap();
    fs::create_dir(dir.path().join("below")).unwrap();
    fs::write(dir.path().join("one"), vec![1u8; FILE_BYTES as usize]).unwrap();
    fs::write(dir.path().join("below/two"), vec![2u8; FILE_BYTES as usize]).unwrap();
    fs::write(dir.path().join("empty"), b"").unwrap();
    std::os::unix::fs::symlink(dir.path().join("one"), dir.path().join("link")).unwrap();
    std::os::unix::fs::symlink("/", dir.path().join("below/root")).unwrap();
    dir
}

fn in_pages(bytes: u64) -> u64 {
    let page_bytes = rustix::param::page_size() as u64;
    bytes.div_ceil(page_bytes) * page_bytes
}

#[test]
fn pages_are_resident_after_writing_and_gone_after_dropping() {
    let base = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let tmpfs = rustix::fs::statfs(base).unwrap().f_type == 0x0102_1994;
    assert!(
        !tmpfs,
        "{} is on tmpfs, which has nowhere to drop pages to; set CARGO_TARGET_DIR to a disk",
        base.display()
    );
    let dir = two_files(base);
    let before = resident(dir.path()).unwrap();
    // The kernel may reclaim pages at any time, and on some machines always does.
    let mostly = |bytes: u64, of: u64| (9 * of / 10..=of).contains(&bytes);
    assert_eq!(before.file_bytes, 2 * FILE_BYTES);
    assert!(mostly(before.resident_bytes, 2 * in_pages(FILE_BYTES)), "{before:?}");
    let after = drop_files(dir.path()).unwrap();
    assert_eq!(after, PageCache { file_bytes: 2 * FILE_BYTES, resident_bytes: 0 });

    let read = fs::read(dir.path().join("one")).unwrap();
    assert!(read.iter().all(|byte| *byte == 1), "dropping must not change a file");
    let again = resident(dir.path()).unwrap();
    assert!(mostly(again.resident_bytes, in_pages(FILE_BYTES)), "{again:?}");
}

#[test]
fn a_page_that_a_server_has_mapped_and_touched_stays_and_is_counted() {
    let dir = two_files(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let file = fs::File::open(dir.path().join("one")).unwrap();
    let flags = rustix::mm::MapFlags::SHARED | rustix::mm::MapFlags::POPULATE;
    // SAFETY: a mapping of this test, which lives until the process ends and is never read.
    unsafe { rustix::mm::mmap(std::ptr::null_mut(), 64 * 1024, rustix::mm::ProtFlags::READ, flags, &file, 0) }.unwrap();
    let after = drop_files(dir.path()).unwrap();
    assert!(after.resident_bytes >= 64 * 1024, "{after:?}");
    assert!(after.resident_bytes < in_pages(FILE_BYTES), "{after:?}");
}

#[test]
fn on_tmpfs_everything_stays_resident_and_the_figure_says_so() {
    let dir = two_files(Path::new("/dev/shm"));
    let after = drop_files(dir.path()).unwrap();
    assert_eq!(after, PageCache { file_bytes: 2 * FILE_BYTES, resident_bytes: 2 * in_pages(FILE_BYTES) });
}

#[test]
fn a_file_that_cannot_be_listed_is_named_and_one_that_is_gone_is_no_error() {
    let dir = two_files(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let gone = dir.path().join("gone");
    assert_eq!(drop_files(&gone).unwrap(), PageCache::default());
    let below_a_file = dir.path().join("one/x");
    let error = drop_files(&below_a_file).unwrap_err().to_string();
    assert!(error.contains("one/x"), "{error}");
}
