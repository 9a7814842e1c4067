//! A display on a serial line, of which a pty is the other end.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, symlink};

use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::bench::{Guarded, Place};

/// Returns the arguments of a drive of two seconds with a display at `path`.
fn drive(path: &str) -> Vec<&str> {
    let words = "drive kv --on fjall --set records=500 --mix read=1 --durability buffered --think 2ms --for 2s -q";
    words.split(' ').chain(["--slice", "100ms", "--gadget", path]).collect()
}

/// Returns the display's end of a serial line, and the path of the other.
fn pty() -> (File, String) {
    // The program must not inherit it: then the line would stay open when the test closes it.
    let display = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&display).unwrap();
    unlockpt(&display).unwrap();
    let path = ptsname(&display, Vec::new()).unwrap().into_string().unwrap();
    (File::from(display), path)
}

fn started(place: &Place, path: &str) -> Guarded {
    Guarded(place.command(&drive(path)).spawn().unwrap())
}

/// Reads what the display receives until `is_enough`, or until the program has closed the line.
fn received(display: &mut File, is_enough: impl Fn(&str) -> bool) -> String {
    let (mut seen, mut bytes) = (String::new(), [0; 256]);
    while !is_enough(&seen) {
        match display.read(&mut bytes) {
            Ok(read) if read > 0 => seen.push_str(&String::from_utf8_lossy(&bytes[..read])),
            _ => break,
        }
    }
    seen
}

#[test]
fn a_display_gets_each_slice_and_answers_to_its_commands() {
    let place = Place::new();
    let (mut display, path) = pty();
    let program = started(&place, &path);
    let first = received(&mut display, |seen| seen.contains("+PLIM: "));
    display.write_all(b"at+plim=?\rAT+NONE\r").unwrap();
    let all = first + &received(&mut display, |_| false);
    program.ended().expect(0);
    let slices = all.lines().filter(|line| line.starts_with("+PLIM: ") && line.ends_with('"'));
    assert!(slices.clone().count() >= 5, "{all}");
    assert!(slices.clone().all(|line| line.split(',').count() == 9), "{all}");
    assert!(all.contains("+PLIM: (end_s),") && all.contains("\r\nOK\r\n") && all.contains("\r\nERROR\r\n"), "{all}");
}

#[test]
fn a_display_that_is_unplugged_harms_nothing() {
    let place = Place::new();
    let (mut display, path) = pty();
    let program = started(&place, &path);
    received(&mut display, |seen| seen.contains("+PLIM: "));
    drop(display);
    let ran = program.ended().expect(0).says("the run continues");
    assert_eq!(ran.err.matches("--gadget").count(), 1, "{ran:?}");
}

#[test]
fn a_display_that_is_back_gets_slices_again() {
    let place = Place::new();
    let (mut display, path) = pty();
    let (mut again, path_again) = pty();
    // Once its other end was opened and closed, reading ends instead of waiting for the program.
    drop(OpenOptions::new().read(true).custom_flags(OFlags::NOCTTY.bits() as i32).open(&path_again).unwrap());
    let link = place.path().join("display");
    symlink(&path, &link).unwrap();
    let program = started(&place, link.to_str().unwrap());
    received(&mut display, |seen| seen.contains("+PLIM: "));
    std::fs::remove_file(&link).unwrap();
    symlink(&path_again, &link).unwrap();
    drop(display);
    program.ended().expect(0).says("opens it again when it is back");
    let seen = received(&mut again, |_| false);
    assert!(seen.contains("+PLIM: "), "{seen}");
}

#[test]
fn a_path_that_is_no_serial_line_is_refused_before_the_run() {
    let place = Place::new();
    let file = place.plan("a file");
    let with = |path: &str| place.run(&drive(path)).expect(2);
    with(&file).says("is no serial line … /dev/ttyACM0");
    with("/dev/no-such-line").says("--gadget /dev/no-such-line … No such file … /dev/ttyACM0");
    for none in ["/dev/null", "/dev/zero", "/dev/ptmx"] {
        with(none).says("is no serial line … /dev/ttyACM0");
    }
    assert!(place.all_runs().is_empty());
}
