//! Two machines, as far as one can be two: a writer and a listener over TCP, and the writer's disk as it was at a moment.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plimsoll_core::StoreErrorKind;
use plimsoll_disk::powercut::{Lost, RunFindings, listen, report, verify};
use plimsoll_disk::ways::Flushing;

use crate::mounts::Mounted;
use crate::{names, on_disk};

const BLOCK: u64 = 512;

/// Runs a listener while `act` uses its address.
fn beside_listener<T>(file: &Path, act: impl FnOnce(SocketAddr) -> T) -> T {
    let listener = listen("127.0.0.1:0", file).unwrap();
    let (address, stop) = (listener.address().unwrap(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| listener.serve(&stop, &|_| {}));
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| act(address)));
        stop.store(true, Ordering::Relaxed);
        serving.join().unwrap().unwrap();
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// State that would be found if power were cut after `blocks` were flushed: the listener's file, then the directory.
struct Cut {
    place: tempfile::TempDir,
}

impl Cut {
    fn after(blocks: u64) -> Self {
        let (here, place) = (on_disk(), on_disk());
        let cut = Self { place };
        fs::create_dir(cut.disk()).unwrap();
        let acknowledged = here.path().join("acknowledged");
        let parent = here.path().join("data");
        fs::create_dir(&parent).unwrap();
        let stop = AtomicBool::new(false);
        let sent = beside_listener(&acknowledged, |address| {
            let mut tell = |_, kept| {
                if kept >= blocks && !stop.swap(true, Ordering::Relaxed) {
                    // First what is acknowledged, then the disk, which can only be further.
                    fs::copy(&acknowledged, cut.file()).unwrap();
                    let name = names(&parent).pop().unwrap();
                    fs::create_dir(cut.disk().join(&name)).unwrap();
                    fs::copy(parent.join(&name).join("blocks"), cut.disk().join(&name).join("blocks")).unwrap();
                }
            };
            let to = address.to_string();
            report(&parent, &to, BLOCK as usize, Flushing::Fdatasync, Duration::from_secs(60), &stop, &mut tell)
                .unwrap()
        });
        assert!(stop.into_inner() && sent.acknowledged >= blocks && sent.kept == sent.acknowledged, "{sent:?}");
        assert_eq!(names(&parent), Vec::<String>::new(), "it ended in good order");
        cut
    }

    fn disk(&self) -> PathBuf {
        self.place.path().join("disk")
    }

    fn file(&self) -> PathBuf {
        self.place.path().join("acknowledged")
    }

    fn directory(&self) -> PathBuf {
        self.disk().join(names(&self.disk()).pop().unwrap())
    }

    fn blocks(&self) -> File {
        File::options().read(true).write(true).open(self.directory().join("blocks")).unwrap()
    }

    fn found(&self) -> RunFindings {
        let mut found = verify(&self.disk(), &self.file()).unwrap();
        assert_eq!(found.len(), 1);
        found.pop().unwrap()
    }
}

#[test]
fn every_acknowledged_block_is_found_and_then_the_directory_is_removed() {
    let cut = Cut::after(200);
    let found = cut.found();
    assert!(found.acknowledged >= 200 && found.looked_for == found.acknowledged && !found.ended, "{found:?}");
    assert!(found.is_whole() && found.torn == 0 && found.lost.is_empty(), "{found:?}");
    assert_eq!(names(&cut.disk()), Vec::<String>::new());
}

#[test]
fn a_damaged_a_missing_and_an_older_block_are_named_each() {
    let cut = Cut::after(300);
    let blocks = cut.blocks();
    let at = |number: u64| (number - 1) * BLOCK;
    let mut byte = [0];
    blocks.read_exact_at(&mut byte, at(50) + 300).unwrap();
    blocks.write_all_at(&[byte[0] ^ 0x10], at(50) + 300).unwrap();
    blocks.write_all_at(&[0; BLOCK as usize], at(100)).unwrap();
    // A block in the place of another one: the device wrote it where it does not belong.
    let mut whole = [0; BLOCK as usize];
    blocks.read_exact_at(&mut whole, at(10)).unwrap();
    blocks.write_all_at(&whole, at(150)).unwrap();
    let found = cut.found();
    assert_eq!((found.missing, found.damaged, found.torn), (1, 2, 0), "{found:?}");
    let lost = [(50, true), (100, false), (150, true)].map(|(number, damaged)| Lost { number, damaged });
    assert_eq!(found.lost, lost);
    assert!(found.oldest_lost_ms.is_some());
    assert!(cut.directory().exists(), "what was lost is left to be looked at");
}

#[test]
fn a_file_that_ends_too_early_or_is_gone_has_lost_all_the_rest() {
    let cut = Cut::after(120);
    cut.blocks().set_len(100 * BLOCK).unwrap();
    let found = cut.found();
    assert_eq!((found.missing, found.lost[0].number), (found.acknowledged - 100, 101), "{found:?}");
    fs::remove_dir_all(cut.directory()).unwrap();
    let found = cut.found();
    assert_eq!(found.missing, found.acknowledged);
}

#[test]
fn the_listeners_file_may_end_within_a_line_and_must_otherwise_make_sense() {
    let cut = Cut::after(50);
    let text = fs::read_to_string(cut.file()).unwrap();
    // The other machine lost its power, too, while it wrote.
    fs::write(cut.file(), format!("{text}ack 00")).unwrap();
    assert!(cut.found().is_whole());
    let lines = text.lines().count();
    for wrong in ["ack 0000000000000001 7 7", "hello", "run 1 2 3 4", "ack", "\u{7f}\u{0}"] {
        fs::write(cut.file(), format!("{text}{wrong}\n{text}")).unwrap();
        let error = verify(&cut.disk(), &cut.file()).unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::Usage);
        assert!(error.what.contains(&format!("line {} is not an acknowledgement", lines + 1)), "{wrong}: {error}");
    }
    // A device without an end is not read.
    let error = verify(&cut.disk(), Path::new("/dev/zero")).unwrap_err();
    assert!(error.what.contains("/dev/zero is not a file") && error.next.is_some(), "{error:?}");
}

/// A real file system whose power is cut while blocks are flushed in one way; then what is found on its device.
fn after_a_power_cut(flushing: Flushing) -> RunFindings {
    let (mounted, here) = (Mounted::ext4("rw"), on_disk());
    let file = here.path().join("acknowledged");
    let mut cut = false;
    let error = beside_listener(&file, |address| {
        let stop = AtomicBool::new(false);
        let mut tell = |_, kept| {
            if kept >= 500 && !std::mem::replace(&mut cut, true) {
                mounted.cut();
            }
        };
        let to = address.to_string();
        report(mounted.path(), &to, 4096, flushing, Duration::from_secs(60), &stop, &mut tell).unwrap_err()
    });
    assert!(error.what.contains("plimsoll-powercut-") && cut, "its disk is gone: {error}");
    mounted.again();
    verify(mounted.path(), &file).unwrap().pop().unwrap()
}

#[test]
fn after_a_power_cut_flushed_blocks_are_there_and_others_are_missing() {
    for flushing in [Flushing::Fdatasync, Flushing::Fsync, Flushing::Dsync, Flushing::Direct, Flushing::Uring] {
        let found = after_a_power_cut(flushing);
        assert!(found.acknowledged >= 500 && found.looked_for == found.acknowledged, "{flushing:?}: {found:?}");
        assert!(found.is_whole() && found.torn == 0, "{flushing:?}: {found:?}");
    }
    for flushing in [Flushing::Nothing, Flushing::Range] {
        let found = after_a_power_cut(flushing);
        assert!(found.missing > 0 && found.oldest_lost_ms.is_some(), "{flushing:?}: {found:?}");
    }
}

#[test]
fn a_run_that_ended_in_good_order_leaves_nothing_to_look_for() {
    let here = on_disk();
    let (file, parent) = (here.path().join("acknowledged"), here.path().join("data"));
    fs::create_dir(&parent).unwrap();
    let ways = [Flushing::Direct, Flushing::Dsync, Flushing::Uring, Flushing::Range];
    for flushing in ways {
        let sent = beside_listener(&file, |address| {
            let takes = Duration::from_millis(200);
            let stop = AtomicBool::new(false);
            report(&parent, &address.to_string(), 4096, flushing, takes, &stop, &mut |_, _| {}).unwrap()
        });
        assert!(sent.acknowledged > 0 && sent.kept == sent.acknowledged, "{sent:?}");
    }
    let found = verify(&parent, &file).unwrap();
    assert_eq!(found.len(), ways.len());
    assert!(found.iter().all(|found| found.ended && found.looked_for == 0 && found.is_whole()), "{found:?}");
}

#[test]
fn the_listener_survives_garbage_and_keeps_none_of_it() {
    let here = on_disk();
    let (file, parent) = (here.path().join("acknowledged"), here.path().join("data"));
    fs::create_dir(&parent).unwrap();
    let hello = "plimsoll-sync 1 00000000000000aa 512 65536 plimsoll-powercut-1-0\n";
    let garbage: [Vec<u8>; 9] = [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        vec![0xff; 4000],
        vec![b'a'; 1 << 20],
        b"\n".to_vec(),
        b"plimsoll-sync 1 aa 512 65536 ../../etc\n".to_vec(),
        b"plimsoll-sync 2 aa 512 65536 plimsoll-powercut-1\n".to_vec(),
        format!("{hello}5\n3\n").into_bytes(),
        format!("{hello}18446744073709551616\n").into_bytes(),
        format!("{hello}7\n1").into_bytes(),
    ];
    beside_listener(&file, |address| {
        // One that says nothing stays all the while.
        let silent = TcpStream::connect(address).unwrap();
        for bytes in &garbage {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            // It may hang up before all is said.
            let _ = stream.write_all(bytes);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
        }
        let stop = AtomicBool::new(false);
        let takes = Duration::from_millis(200);
        let sent = report(&parent, &address.to_string(), 4096, Flushing::Fdatasync, takes, &stop, &mut |_, _| {});
        assert!(sent.unwrap().acknowledged > 0);
        drop(silent);
    });
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.lines().all(|line| ["run ", "ack ", "end "].iter().any(|word| line.starts_with(word))), "{text}");
    assert!(text.contains("ack 00000000000000aa 7 "), "a piece of a line is none: {text}");
    assert!(!text.contains("ack 00000000000000aa 71 ") && !text.contains("etc"), "{text}");
}

#[test]
fn without_a_listener_nothing_is_made() {
    let here = on_disk();
    let to = {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        socket.local_addr().unwrap().to_string()
    };
    let stop = AtomicBool::new(false);
    let takes = Duration::from_secs(1);
    let error = report(here.path(), &to, 4096, Flushing::Fdatasync, takes, &stop, &mut |_, _| {}).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Unreachable);
    assert!(error.next.is_some_and(|next| next.contains("--listen")));
    assert_eq!(names(here.path()), Vec::<String>::new());
}

#[test]
fn a_file_that_holds_something_else_is_not_appended_to() {
    let here = on_disk();
    let file = here.path().join("mine");
    fs::write(&file, "precious\n").unwrap();
    let error = listen("127.0.0.1:0", &file).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Usage, "{error}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious\n");
}
