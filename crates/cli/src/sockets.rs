//! How the sockets of wire sessions are asked for: with io_uring or with epoll, as the user says or as can be had.

use plimsoll_drive::Io;

use crate::error::{CliError, exit};

/// The environment variable that chooses.
const VARIABLE: &str = "PLIMSOLL_IO";

/// What the user wants.
pub fn wanted() -> Result<Io, CliError> {
    let Some(value) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) else { return Ok(Io::Auto) };
    let name = value.to_string_lossy();
    Io::by_name(&name).ok_or_else(|| {
        CliError::new(exit::USAGE, format!("the environment variable {VARIABLE} is {name:?}"))
            .next(format!("leave it out, or set it to {}", Io::NAMES.join(", ")))
    })
}

/// What is taken here when that is wanted, with the reason where it is second choice.
pub fn taken(wanted: Io) -> String {
    match (wanted, Io::try_uring()) {
        (Io::Epoll, _) => "epoll, as asked for".to_owned(),
        (Io::Auto | Io::Uring, Ok(())) => "io_uring".to_owned(),
        (Io::Auto | Io::Uring, Err(error)) => format!("epoll (io_uring: {error})"),
    }
}
