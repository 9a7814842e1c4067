//! Starts a private PostgreSQL, says how to reach it, and removes it when a line comes, or when it is killed.
//!
//! `cargo run -p plimsoll-store-postgres --example private_postgres [BASE …]`

#![allow(clippy::print_stdout, reason = "an example talks to its user")]

use std::path::{Path, PathBuf};

use plimsoll_core::StoreError;
use plimsoll_store_postgres::server::PrivatePostgres;

fn main() -> Result<(), StoreError> {
    let mut bases: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if bases.is_empty() {
        bases = plimsoll_lab::FALLBACK_BASES.map(PathBuf::from).to_vec();
    }
    let postgres =
        PrivatePostgres::start(&bases, Path::new("."), &[], &Default::default(), &mut |what| println!("{what}"))?;
    if let (plimsoll_core::Address::Unix(socket), Some(pid)) = (postgres.address(), postgres.pid()) {
        let sockets = socket.parent().unwrap_or(&socket);
        println!("PostgreSQL {} runs as process {pid}", postgres.version());
        println!("psql -h {} -U {} {}", sockets.display(), postgres.user(), postgres.database());
    }
    std::io::stdin().read_line(&mut String::new()).map_err(|error| StoreError::io("stdin", &error))?;
    postgres.close()
}
