//! Runs a shell as a private server, with a grandchild that ignores polite signals, says where, and waits for a line.
//!
//! `cargo run -p plimsoll-lab --example private_server [BASE …]`, then kill it however you like: nothing stays.

#![allow(clippy::print_stdout, reason = "an example talks to its user")]

use std::path::{Path, PathBuf};

use plimsoll_core::StoreError;
use plimsoll_lab::{FALLBACK_BASES, PrivateServer, ServerUser, StopSignal};

const STUBBORN: &str = "trap '' TERM QUIT; echo ready; (while :; do sleep 1; done) & wait";

fn main() -> Result<(), StoreError> {
    let mut bases: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if bases.is_empty() {
        bases = FALLBACK_BASES.map(PathBuf::from).to_vec();
    }
    // As root this is another user's server, as most real ones are.
    let user = ServerUser::caller_or("nobody", "base-passwd")?;
    let mut server = PrivateServer::new("stubborn", &bases, user, StopSignal::Quit, Path::new("."))?;
    let pid = server.start("sh", Path::new("/bin/sh"), &["-c", STUBBORN])?;
    println!("{pid} {} {}", server.root_dir().display(), server.socket_dir().display());
    std::io::stdin().read_line(&mut String::new()).map_err(|error| StoreError::io("stdin", &error))?;
    server.close()
}
