//! Tests of files on a real file system after a power cut.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use plimsoll_faultfs::{CutMoment, Fault, FileSystem, Survivors};

use crate::{Fixture, step, write};

#[test]
fn a_synced_file_survives_and_one_that_was_only_written_does_not() {
    for file_system in [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs] {
        let mut fixture = Fixture::new(file_system);
        let contents = vec![7; 100_000];
        write(&fixture.path("synced"), &contents, true);
        write(&fixture.path("written"), &contents, false);
        fixture.device.control().arm(CutMoment::Now).unwrap();
        let cut = fixture.device.control().wait_for_cut(Duration::from_secs(60)).unwrap().unwrap();
        assert_eq!(fixture.device.power_cycle(&Survivors::None).unwrap(), cut.at_risk, "{file_system:?}");
        assert!(fs::read(fixture.path("synced")).unwrap() == contents, "{file_system:?}");
        let written = fs::read(fixture.path("written")).unwrap_or_default();
        assert_eq!(written.len(), 0, "{file_system:?}");
        fixture.close();
    }
}

#[test]
fn writes_at_risk_are_told_by_file_and_by_what_they_replace() {
    for file_system in [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs] {
        let mut fixture = Fixture::new(file_system);
        write(&fixture.path("old"), &[1; 8192], true);
        write(&fixture.path("clean"), &[1; 8192], true);
        write(&fixture.path("new"), &[2; 8192], false);
        let old = File::options().write(true).open(fixture.path("old")).unwrap();
        old.write_all_at(&[3; 4096], 4096).unwrap();
        for name in ["old", "new"] {
            let file = File::open(fixture.path(name)).unwrap();
            let all = libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
            // SAFETY: it takes no pointer. It writes pages back, and flushes nothing.
            assert_eq!(unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, all) }, 0);
        }
        let control = fixture.device.control();
        control.freeze(CutMoment::Now).unwrap();
        let found = control.files_at_risk().unwrap();
        if file_system == FileSystem::Btrfs {
            assert_eq!(found, None);
        } else {
            let mut files = found.unwrap().files;
            files.sort_by(|one, other| one.path.cmp(&other.path));
            let seen: Vec<_> = files.iter().map(|file| (&*file.path, file.bytes, file.replaces)).collect();
            assert_eq!(seen, [("new", 8192, false), ("old", 4096, true)], "{file_system:?}");
        }
        drop(old);
        fixture.device.power_cycle(&Survivors::None).unwrap();
        fixture.close();
    }
}

#[test]
fn a_disk_that_ignores_flushes_loses_a_synced_file() {
    let mut fixture = Fixture::new(FileSystem::Ext4);
    write(&fixture.path("before"), b"before", true);
    fixture.device.control().set(Fault::IgnoreFlushes).unwrap();
    write(&fixture.path("synced"), &[7; 100_000], true);
    assert!(fixture.device.power_cycle(&Survivors::None).unwrap().bytes >= 100_000);
    assert_eq!(fs::read(fixture.path("before")).unwrap(), b"before");
    assert!(!fixture.path("synced").exists());
    fixture.close();
}

#[test]
fn a_frozen_device_goes_on_and_forgets_what_came_after_the_cut() {
    let mut fixture = Fixture::new(FileSystem::Ext4);
    write(&fixture.path("before"), &[1; 50_000], true);
    let control = fixture.device.control();
    control.freeze(CutMoment::Flush(1)).unwrap();
    assert_eq!(control.cut().unwrap(), None);
    // Its flush comes with the cut, and is said to be done.
    write(&fixture.path("at-risk"), &[2; 50_000], true);
    let cut = control.cut().unwrap().expect("a flush came");
    assert!(cut.at_risk.writes > 0 && cut.flushes_seen == 1, "{cut:?}");
    for number in 0..20 {
        write(&fixture.path(&format!("after-{number}")), &[3; 50_000], true);
    }
    fs::remove_file(fixture.path("before")).unwrap();
    assert_eq!(fs::read(fixture.path("after-19")).unwrap(), [3; 50_000]);
    assert_eq!(control.cut().unwrap(), Some(cut), "nothing counts after the cut");
    assert_eq!(fixture.device.power_cycle(&Survivors::None).unwrap(), cut.at_risk);
    assert_eq!(fs::read(fixture.path("before")).unwrap(), [1; 50_000]);
    assert!(!fixture.path("at-risk").exists() && !fixture.path("after-0").exists());
    // It works again as a device does.
    write(&fixture.path("again"), b"again", true);
    control.freeze(CutMoment::Now).unwrap();
    write(&fixture.path("lost"), b"lost", true);
    fixture.device.power_cycle(&Survivors::All).unwrap();
    assert!(fixture.path("again").exists() && !fixture.path("lost").exists());
    fixture.close();
}

#[test]
fn a_device_that_halts_fails_flushes_and_has_those_halt_that_it_was_to_tell() {
    let mut both = [FileSystem::Ext4, FileSystem::Ext4].map(Fixture::new);
    let [first, second] = [0, 1].map(|at| both[at].device.control());
    both.iter().for_each(|fixture| write(&fixture.path("before"), b"before", true));
    [&first, &second].iter().for_each(|control| control.halt(CutMoment::Flush(1)).unwrap());
    let gone = Fixture::new(FileSystem::Ext4);
    let nobody = gone.device.control();
    gone.close();
    first.tell(&nobody).unwrap_err();
    first.tell(&second).unwrap();
    second.tell(&first).unwrap();
    write(&both[1].path("late"), b"late", false);
    write(&both[0].path("late"), b"late", false);
    // The flush that comes with the cut, and later ones, promise nothing.
    File::open(both[0].path("late")).unwrap().sync_all().unwrap_err();
    let told = second.wait_for_cut(Duration::from_secs(60)).unwrap().expect("it was told");
    let cut = first.cut().unwrap().expect("a flush came");
    assert!(cut.at_ns < told.at_ns && cut.at_risk.writes > 0 && told.flushes_seen == 0, "{cut:?} {told:?}");
    File::create(both[1].path("later")).and_then(|file| file.sync_all()).unwrap_err();
    for fixture in &mut both {
        fixture.device.power_cycle(&Survivors::None).unwrap();
        assert_eq!(fs::read(fixture.path("before")).unwrap(), b"before");
        assert!(!fixture.path("late").exists() && !fixture.path("later").exists());
        // It works again as a device does, and is told nothing.
        write(&fixture.path("again"), b"again", true);
    }
    // Nor by a word that comes late.
    second.ask("told", Duration::from_secs(60)).unwrap();
    assert_eq!((first.cut().unwrap(), second.cut().unwrap()), (None, None));
    both.into_iter().for_each(Fixture::close);
}

/// Appends numbered records to a file and syncs each, until that fails; how many were acknowledged.
fn append_until_it_fails(path: &std::path::Path) -> u32 {
    let mut file = File::options().append(true).create(true).open(path).unwrap();
    let mut acknowledged = 0_u32;
    // A bound, so that a cut which never comes fails the test.
    while acknowledged < 10_000 {
        let record = [&acknowledged.to_le_bytes()[..], &[0xee; 3000]].concat();
        if file.write_all(&record).and_then(|()| file.sync_data()).is_err() {
            return acknowledged;
        }
        acknowledged += 1;
    }
    panic!("nothing was cut");
}

#[test]
fn what_was_acknowledged_before_a_cut_at_any_flush_or_write_is_there_however_it_tears() {
    let mut fixture = Fixture::new(FileSystem::Ext4);
    let (mut acknowledged_total, mut at_risk_cuts) = (0, 0);
    for count in (1..=40_u64).step_by(step(4)) {
        for at in [CutMoment::Flush(count), CutMoment::Write(count)] {
            let path = fixture.path("ledger");
            let _ = fs::remove_file(&path);
            File::open(fixture.device.mount_point()).unwrap().sync_all().unwrap();
            fixture.device.control().arm(at).unwrap();
            let acknowledged = append_until_it_fails(&path);
            let survivors = Survivors::Random { seed: count, share: 0.5, tear: true };
            let at_risk = fixture.device.power_cycle(&survivors).unwrap();
            at_risk_cuts += u32::from(at_risk.sectors > 0);
            acknowledged_total += acknowledged;
            let found = fs::read(&path).unwrap_or_default();
            for number in 0..acknowledged as usize {
                let record = &found[number * 3004..(number + 1) * 3004];
                assert_eq!(record[..4], (number as u32).to_le_bytes(), "{at}: record {number} of {acknowledged}");
                assert!(record[4..].iter().all(|byte| *byte == 0xee), "{at}: record {number} of {acknowledged}");
            }
        }
    }
    // Otherwise nothing was shown.
    assert!(
        acknowledged_total > 300 / step(4) as u32 && at_risk_cuts > 60 / step(4) as u32,
        "{acknowledged_total} {at_risk_cuts}"
    );
    fixture.close();
}
