//! Kernel interface for the sockets of wire sessions: io_uring or epoll, as the plan says or as available.

use plimsoll_drive::{Io, try_uring};

/// Returns the interface that is used here when `wanted` is requested, with the reason if it is second choice.
pub fn taken(wanted: Io) -> String {
    match (wanted, try_uring()) {
        (Io::Epoll, _) => "epoll, as asked for".to_owned(),
        (Io::Auto, Ok(())) => "io_uring, or epoll in open loops of up to 10,000/s a worker".to_owned(),
        (Io::IoUring, Ok(())) => "io_uring".to_owned(),
        (Io::Auto | Io::IoUring, Err(error)) => format!("epoll (io_uring: {error})"),
    }
}
