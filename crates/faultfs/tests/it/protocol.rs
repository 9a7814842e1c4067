//! The control socket as a shell would use it.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use plimsoll_faultfs::{Control, DeviceSpec, FaultDevice, FaultError, FileSystem, Survivors};

use crate::{Fixture, write};

#[test]
fn a_line_is_answered_with_a_line() {
    let fixture = Fixture::new(FileSystem::Ext4);
    let mut stream = UnixStream::connect(fixture.device.control().socket()).unwrap();
    let mut answers = BufReader::new(stream.try_clone().unwrap());
    let mut ask = |command: &str| {
        stream.write_all(format!("{command}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        answers.read_line(&mut answer).unwrap();
        answer.trim_end_matches('\n').to_owned()
    };
    assert_eq!(ask("arm flush 1000000"), "ok");
    assert_eq!(ask("set eio write silent 0"), "ok");
    assert_eq!(ask("met eio write once"), "ok 0");
    assert!(ask("met nothing").starts_with("error \"nothing\": expected ignore-flushes, eio"));
    assert_eq!(ask("mend"), "ok");
    assert_eq!(ask("clear"), "ok");
    assert_eq!(ask("power-on none"), "error the device is still in use: unmount it first");
    assert_eq!(ask("arm flush 0"), "error a cut is at the first flush or write, or later");
    assert!(ask("sett full").starts_with("error \"sett full\" is unknown; known: arm,"));
    assert!(ask("set nothing").starts_with("error \"nothing\": expected ignore-flushes, eio"));
    let status = ask("status");
    assert!(status.starts_with("ok power=on file_system=ext4 open=1 writes="), "{status}");
    assert!(ask("wait 1").starts_with("ok power=on"));
    assert_eq!(ask("cut"), "ok");
    let status = ask("wait 1000");
    assert!(status.starts_with("ok power=off") && status.contains(" sectors_at_risk="), "{status}");
    fixture.close();
}

#[test]
fn a_device_is_cycled_by_its_socket_alone_however_long_its_path_is() {
    let mut fixture = Fixture::new(FileSystem::Ext4);
    write(&fixture.path("synced"), b"contents", true);
    let elsewhere = crate::tempdir();
    let link = elsewhere.path().join("link");
    symlink(fixture.device.control().socket(), &link).unwrap();
    let control = Control::of_socket(&link).unwrap();
    control.power_cycle(&Survivors::None).unwrap();
    assert_eq!(std::fs::read(fixture.path("synced")).unwrap(), b"contents");
    assert_eq!(control.wait_for_cut(Duration::ZERO).unwrap(), None);
    assert!(fixture.device.is_running());
    let fixture_spec = fixture.spec.clone();
    fixture.close();
    assert!(matches!(control.counters(), Err(FaultError::Gone { .. })));
    assert!(matches!(Control::of_socket(&link), Err(FaultError::Io { .. })));

    let long = elsewhere.path().join("x".repeat(150));
    let spec = DeviceSpec { directory: long.clone(), ..fixture_spec };
    let device = FaultDevice::start(&spec).unwrap();
    device.control().counters().unwrap();
    device.close().unwrap();
    assert!(!long.exists() && elsewhere.path().exists(), "the directory that it made goes with it");
}
