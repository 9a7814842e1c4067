//! Tests of the choice of the kernel interface, if one of them is forbidden.

use std::time::Duration;

use plimsoll_core::StoreErrorKind;
use plimsoll_drive::{Arrivals, DriveError, DriveSpec, Io, IoUsed, Limit, Pace, Rate, Stage, WakeMode};

use crate::seen::{drive, endless, refused};
use crate::toy::{Act, Server};

const MS: Duration = Duration::from_millis(1);

/// Runs `work` on a thread that may not set up an io_uring, as in many containers; nor may the threads it starts.
fn without_io_uring(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(move || {
        let step = |code: u32, yes: u8, no: u8, k: u32| libc::sock_filter { code: code as u16, jt: yes, jf: no, k };
        // Loads the system call's number, and refuses io_uring_setup with EPERM.
        let mut steps = [
            step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
            step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_io_uring_setup as u32),
            step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
            step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
        // SAFETY: the program is valid for the call, which copies it; it holds for this thread only.
        let forbidden = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
        };
        assert!(forbidden, "{}", std::io::Error::last_os_error());
        work();
    });
    thread.join().unwrap();
}

#[test]
fn where_io_uring_is_forbidden_epoll_is_taken_and_the_result_says_so() {
    without_io_uring(|| {
        let server = Server::unix(|_, _, _| Act::Answer);
        let spec = DriveSpec { limit: Limit::Ops(100), workers: 2, ..DriveSpec::default() };
        let (driven, _) = drive(&spec, server.clients(4), endless());
        assert_eq!(driven.result.kinds, [[400, 0, 0, 0]]);
        let Some(IoUsed::Epoll(Some(why))) = driven.result.io else { panic!("{:?}", driven.result.io) };
        assert!(why.contains("not permitted"), "{why}");
    });
}

#[test]
fn where_io_uring_is_asked_for_and_forbidden_the_error_says_what_to_do() {
    without_io_uring(|| {
        let server = Server::unix(|_, _, _| Act::Answer);
        let spec = DriveSpec { io: Io::IoUring, ..DriveSpec::default() };
        let error = refused(&spec, server.clients(1), endless());
        let DriveError::Store(error) = error else { panic!("{error:?}") };
        assert_eq!(error.kind, StoreErrorKind::Permission);
        assert!(error.next.is_some_and(|next| next.contains("epoll")));
    });
}

#[test]
fn an_open_loop_that_mostly_sleeps_takes_epoll_by_itself_and_others_take_io_uring() {
    let server = Server::unix(|_, _, _| Act::Answer);
    let open = |rate_per_s| DriveSpec { pace: Pace::even(rate_per_s), ..DriveSpec::default() };
    let spike = Rate::Stages(vec![
        Stage::held(50.0, 900_000_000),
        Stage::held(30_000.0, 1_000_000),
        Stage::held(50.0, 1_000_000),
    ]);
    let spike = Pace::Open { rate: spike, arrivals: Arrivals::Even };
    let (epoll, uring) = (IoUsed::Epoll(None), IoUsed::Uring);
    for (spec, used) in [
        (DriveSpec { limit: Limit::Ops(20), ..DriveSpec::default() }, &uring),
        (open(500.0), &epoll),
        (open(15_000.0), &uring),
        (DriveSpec { workers: 2, ..open(15_000.0) }, &epoll),
        (DriveSpec { wake: WakeMode::Coarse, ..open(500.0) }, &uring),
        (DriveSpec { io: Io::IoUring, ..open(500.0) }, &uring),
        (DriveSpec { pace: spike, ..DriveSpec::default() }, &uring),
    ] {
        let limit = if spec.pace.is_open() { Limit::Duration(MS * 40) } else { spec.limit };
        let spec = DriveSpec { limit, ..spec };
        let (driven, _) = drive(&spec, server.clients(2), endless());
        assert_eq!(driven.result.io.as_ref(), Some(used), "{spec:?}");
    }
}

#[test]
fn what_is_asked_for_is_taken_and_the_result_says_so() {
    let server = Server::unix(|_, _, _| Act::Answer);
    for (io, used) in [(Io::Epoll, IoUsed::Epoll(None)), (Io::IoUring, IoUsed::Uring)] {
        let spec = DriveSpec { limit: Limit::Ops(100), io, ..DriveSpec::default() };
        let (driven, _) = drive(&spec, server.clients(2), endless());
        assert_eq!(driven.result.io, Some(used));
    }
}
