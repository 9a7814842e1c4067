//! Which way to ask the kernel is taken, where one of them is forbidden.

use plimsoll_core::StoreErrorKind;
use plimsoll_drive::{DriveError, DriveSpec, Io, IoUsed, Limit};

use crate::seen::{drive, drive_with, endless};
use crate::toy::{Act, Server};

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
        let spec = DriveSpec { io: Io::Uring, ..DriveSpec::default() };
        let error = drive_with(&spec, server.clients(1), endless(), Vec::new(), &Default::default(), &mut |_| {}).err();
        let Some(DriveError::Store(error)) = error else { panic!("{error:?}") };
        assert_eq!(error.kind, StoreErrorKind::Permission);
        assert!(error.next.is_some_and(|next| next.contains("epoll")));
    });
}

#[test]
fn what_is_asked_for_is_taken_and_the_result_says_so() {
    let server = Server::unix(|_, _, _| Act::Answer);
    for (io, used) in [(Io::Epoll, IoUsed::Epoll(None)), (Io::Uring, IoUsed::Uring)] {
        let spec = DriveSpec { limit: Limit::Ops(100), io, ..DriveSpec::default() };
        let (driven, _) = drive(&spec, server.clients(2), endless());
        assert_eq!(driven.result.io, Some(used));
    }
}
