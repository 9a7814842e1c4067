//! Tests of measurements and verdicts on file systems whose properties are known.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use plimsoll_core::{StoreError, StoreErrorKind};
use plimsoll_disk::group;
use plimsoll_disk::judge::{FlushVerdict, Judgement, Probe, judge, probe};
use plimsoll_disk::latency::{Outcome, Site, Target, measure};
use plimsoll_disk::place::{DiskKind, StorageLocation};
use plimsoll_disk::scratch::Scratch;
use plimsoll_disk::ways::{Flushing, Point, Writing, every};

use crate::mounts::{Device, Mounted};
use crate::{names, on_disk};

static GO_ON: AtomicBool = AtomicBool::new(false);
const SHORT: Duration = Duration::from_millis(60);

fn site(scratch: &Scratch, place: &StorageLocation) -> Site {
    Site { target: Target::Directory(scratch.path().to_owned()), in_memory: place.is_memory() }
}

fn judged(path: &Path) -> (StorageLocation, Probe, Judgement) {
    let (scratch, place) = (Scratch::new(path).unwrap(), StorageLocation::of(path).unwrap());
    let seen = probe(&site(&scratch, &place), &place, &GO_ON).unwrap().unwrap();
    let judged = judge(&place, None, Some(&seen));
    (place, seen, judged)
}

/// Measures every way at two sizes, for `takes` each.
fn all_ways(path: &Path, takes: Duration) -> Vec<(Point, Result<Outcome, StoreError>)> {
    let (scratch, place) = (Scratch::new(path).unwrap(), StorageLocation::of(path).unwrap());
    let points = every(&[4096, 64 << 10], &Writing::ALL, &Flushing::ALL);
    let one = |point| measure(&site(&scratch, &place), point, takes, &GO_ON).map(Option::unwrap);
    points.into_iter().map(|point| (point, one(point))).collect()
}

/// Returns the median, which no single write on a busy machine moves; the mean of fewer than 20 times.
fn usual_ns(outcome: &Outcome) -> u64 {
    let Outcome::Measured(measured) = outcome else { panic!("{outcome:?}") };
    measured.times.p50_ns.unwrap_or(measured.times.mean_ns as u64)
}

/// Measures one way again.
fn again_ns(path: &Path, point: Point) -> u64 {
    let (scratch, place) = (Scratch::new(path).unwrap(), StorageLocation::of(path).unwrap());
    usual_ns(&measure(&site(&scratch, &place), point, SHORT, &GO_ON).unwrap().unwrap())
}

#[test]
fn on_ext4_every_way_is_measured_and_a_flush_costs_more_than_none() {
    let mounted = Mounted::ext4("rw");
    let all = all_ways(mounted.path(), SHORT);
    assert_eq!(all.len(), 2 * 4 * 7 * 2);
    for (point, outcome) in &all {
        let measured = usual_ns(outcome.as_ref().unwrap());
        let with = |flushing| Point { flushing, ..*point };
        let of = |wanted: Point| all.iter().find(|(point, _)| *point == wanted).unwrap().1.as_ref().unwrap();
        if point.flushing.is_flush() && !point.loaded && point.writing != Writing::NewFile {
            let mut both = [measured, usual_ns(of(with(Flushing::Nothing)))];
            // A mean of few times is moved by one write that waits for those of other tests.
            for _ in 0..3 {
                if both[0] <= 2 * both[1] {
                    both = [*point, with(Flushing::Nothing)].map(|point| again_ns(mounted.path(), point));
                }
            }
            let [measured, without] = both;
            assert!(measured > 2 * without, "{point:?}: {measured} ns, without flush {without} ns");
        }
    }
    assert_eq!(names(mounted.path()), Vec::<String>::new());
}

#[test]
fn the_flushes_of_a_loop_device_are_counted_by_it_and_by_the_disk_below() {
    let mounted = Mounted::ext4("rw");
    let (place, seen, judged) = judged(mounted.path());
    let [disk] = &place.disks[..] else { panic!("{place:?}") };
    assert!(matches!(&disk.kind, DiskKind::Loop(image) if image.ends_with("image")), "{disk:?}");
    assert_eq!((place.file_system.as_deref(), disk.write_back), (Some("ext4"), Some(true)), "{place:?}");
    let counted = &seen.counted[0];
    assert_eq!(counted.disk, disk.name);
    // A disk that other tests write to makes few flushes in the time.
    assert!(seen.times.n > 3 && counted.flushes as f64 >= 0.9 * seen.times.n as f64, "{seen:?}");
    let below = disk.below.as_ref().unwrap();
    assert!(!below.disks.is_empty() && seen.counted.len() > 1, "the disk below is watched, too: {seen:?}");
    assert_ne!(judged.verdict, FlushVerdict::CannotBeReal, "{judged:?}");
}

#[test]
fn without_barriers_no_flush_reaches_the_device_and_that_is_seen_twice() {
    let mounted = Mounted::ext4("nobarrier");
    let (mut place, seen, by_option) = judged(mounted.path());
    assert_eq!(by_option.verdict, FlushVerdict::CannotBeReal);
    assert!(by_option.because.contains("mounted with `nobarrier`"), "{by_option:?}");
    assert!(seen.times.n > 10 && seen.counted[0].flushes == 0, "{seen:?}");
    // As if the option could not be seen: the counters alone tell it.
    place.options.clear();
    let by_count = judge(&place, None, Some(&seen));
    assert_eq!(by_count.verdict, FlushVerdict::CannotBeReal);
    assert!(by_count.because.starts_with("none of"), "{by_count:?}");
}

#[test]
fn on_tmpfs_flushes_cannot_be_real_and_there_is_no_o_direct() {
    let mounted = Mounted::tmpfs("size=256m");
    let (_, _, judged) = judged(mounted.path());
    assert_eq!(judged.verdict, FlushVerdict::CannotBeReal);
    assert!(judged.because.contains("tmpfs keeps files in memory"), "{judged:?}");
    for (point, outcome) in all_ways(mounted.path(), SHORT / 10) {
        match outcome.unwrap() {
            Outcome::NotHere(why) => assert_eq!(point.flushing, Flushing::Direct, "{point:?}: {why}"),
            Outcome::Measured(_) => assert_ne!(point.flushing, Flushing::Direct, "{point:?}"),
        }
    }
}

#[test]
fn this_machines_disk_is_found_and_its_answer_is_never_more_certain_than_it_is() {
    let directory = on_disk();
    let (place, _, judged) = judged(directory.path());
    assert!(!place.disks.is_empty(), "{place:?}");
    if place.disks.iter().any(|disk| matches!(disk.kind, DiskKind::Virtual(_))) {
        assert_ne!(judged.verdict, FlushVerdict::Reach, "only the host knows: {judged:?}");
    }
    assert_eq!(names(directory.path()), Vec::<String>::new());
}

#[test]
fn more_threads_share_flushes_of_the_device() {
    let mounted = Mounted::ext4("rw");
    let scratch = Scratch::new(mounted.path()).unwrap();
    let counters = StorageLocation::of(mounted.path()).unwrap().counters();
    let takes = Duration::from_millis(500);
    let of =
        |threads, shared| group::measure(scratch.path(), (threads, shared), takes, &counters, &GO_ON).unwrap().unwrap();
    for shared in [false, true] {
        let mut both = Vec::new();
        // A busy disk makes few flushes in the time, of which one more or less weighs.
        let is_shared = (0..3).any(|_| {
            both = vec![of(1, shared), of(16, shared)];
            // No other program requests flushes from the loop device.
            let alone = both[0].per_device_flush.unwrap();
            (0.8..=1.1).contains(&alone) && both[1].per_device_flush.unwrap() > 1.5 * alone
        });
        assert!(is_shared, "{both:?}");
    }
    assert_eq!(names(scratch.path()), Vec::<String>::new());
}

#[test]
fn a_full_disk_is_said_and_nothing_is_left() {
    let mounted = Mounted::tmpfs("size=8m");
    {
        let (scratch, place) = (Scratch::new(mounted.path()).unwrap(), StorageLocation::of(mounted.path()).unwrap());
        let point =
            Point { size_bytes: 4096, writing: Writing::Overwrite, flushing: Flushing::Fdatasync, loaded: false };
        let error = measure(&site(&scratch, &place), point, SHORT, &GO_ON).unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::DiskFull, "{error}");
        assert!(error.next.is_some_and(|next| next.contains("free some space")));
    }
    assert_eq!(names(mounted.path()), Vec::<String>::new());
}

#[test]
fn places_where_nothing_can_be_written_are_refused_with_their_reason() {
    let read_only = Mounted::tmpfs("ro");
    let error = Scratch::new(read_only.path()).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Permission, "{error}");
    let directory = on_disk();
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = Scratch::new(&file).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Usage);
    assert!(error.what.contains("is not a directory"), "{error}");
    assert_eq!(Scratch::new(&directory.path().join("nowhere")).unwrap_err().kind, StoreErrorKind::Usage);
}

#[test]
fn what_a_killed_run_left_is_removed_and_nothing_else() {
    let directory = on_disk();
    let path = directory.path();
    let running = Scratch::new(path).unwrap();
    for left in ["plimsoll-sync-1-0", "plimsoll-powercut-1-0", "plimsoll-other"] {
        std::fs::create_dir(path.join(left)).unwrap();
        std::fs::write(path.join(left).join("file"), "x").unwrap();
    }
    std::fs::write(path.join("plimsoll-sync-file"), "x").unwrap();
    std::os::unix::fs::symlink("/", path.join("plimsoll-sync-link")).unwrap();
    let second = Scratch::new(path).unwrap();
    assert!(!path.join("plimsoll-sync-1-0").exists());
    for kept in ["plimsoll-powercut-1-0", "plimsoll-other", "plimsoll-sync-file", "plimsoll-sync-link"] {
        assert!(path.join(kept).exists(), "{kept}");
    }
    assert!(running.path().is_dir() && second.path().is_dir() && running.path() != second.path());
}

#[test]
fn a_device_is_overwritten_at_its_beginning_alone_and_never_while_it_is_mounted() {
    use std::os::unix::fs::FileExt;
    let device = Device::new(64 << 20);
    let place = StorageLocation::of(device.path()).unwrap();
    assert!(place.file_system.is_none() && place.disks.len() == 1, "{place:?}");
    let site = Site { target: Target::Device(device.path().to_owned()), in_memory: false };
    let point = |writing, flushing| Point { size_bytes: 4096, writing, flushing, loaded: false };
    let raw = std::fs::File::options().read(true).write(true).open(device.path()).unwrap();
    raw.write_all_at(&[7; 4096], 16 << 20).unwrap();
    for flushing in Flushing::ALL {
        let outcome = measure(&site, point(Writing::Overwrite, flushing), SHORT, &GO_ON).unwrap().unwrap();
        assert!(matches!(outcome, Outcome::Measured(_)), "{flushing:?}: {outcome:?}");
    }
    let mut block = [0; 4096];
    raw.read_exact_at(&mut block, 16 << 20).unwrap();
    assert_eq!(block, [7; 4096], "what is behind the first 16 MiB");
    raw.read_exact_at(&mut block, 0).unwrap();
    assert_ne!(block, [0; 4096]);
    drop(raw);
    let outcome = measure(&site, point(Writing::Append, Flushing::Fsync), SHORT, &GO_ON).unwrap().unwrap();
    assert!(matches!(outcome, Outcome::NotHere(_)), "a device does not grow");
    let error =
        device.mounted(|| measure(&site, point(Writing::Overwrite, Flushing::Fsync), SHORT, &GO_ON)).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Usage);
    assert!(error.what.contains("is in use"), "{error}");
}
