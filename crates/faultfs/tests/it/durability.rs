//! What a power cut leaves of files on a real file system.

use std::fs;
use std::time::Duration;

use plimsoll_faultfs::{CutAt, Fault, FileSystem, Survivors};

use crate::{Fixture, write};

/// What is synced and then cut, with nothing surviving, on a file system.
fn what_is_synced_stays(file_system: FileSystem) {
    let mut fixture = Fixture::new(file_system);
    let contents = vec![7; 100_000];
    write(&fixture.path("synced"), &contents, true);
    write(&fixture.path("written"), &contents, false);
    fixture.device.control().arm(CutAt::Now).unwrap();
    let cut = fixture.device.control().wait_for_cut(Duration::from_secs(1)).unwrap().unwrap();
    assert_eq!(fixture.device.power_cycle(&Survivors::None).unwrap(), cut.at_risk);
    assert!(fs::read(fixture.path("synced")).unwrap() == contents);
    let written = fs::read(fixture.path("written")).unwrap_or_default();
    assert_eq!(written.len(), 0);
    fixture.close();
}

#[test]
fn on_ext4_a_synced_file_survives_and_one_that_was_only_written_does_not() {
    what_is_synced_stays(FileSystem::Ext4);
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
