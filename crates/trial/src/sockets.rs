//! How the sockets of wire sessions are asked for: with io_uring or with epoll, as the plan says or as can be had.

use plimsoll_drive::{Io, try_uring};

/// How sockets are asked for here when `wanted` is, with the reason where it is second choice.
pub fn taken(wanted: Io) -> String {
    match (wanted, try_uring()) {
        (Io::Epoll, _) => "epoll, as asked for".to_owned(),
        (Io::Auto, Ok(())) => "io_uring, or epoll in open loops of up to 10,000/s a worker".to_owned(),
        (Io::IoUring, Ok(())) => "io_uring".to_owned(),
        (Io::Auto | Io::IoUring, Err(error)) => format!("epoll (io_uring: {error})"),
    }
}
