//! Starts a private PostgreSQL, says how to reach it, and removes it when a line comes, or when it is killed.
//!
//! `cargo run -p plimsoll-store-postgres --example private_postgres [BASE …]`

#![allow(clippy::print_stdout, reason = "an example talks to its user")]

use std::path::{Path, PathBuf};

use plimsoll_core::StoreError;
use plimsoll_lab::Cluster;
use plimsoll_store_postgres::PostgresRecipe;

fn main() -> Result<(), StoreError> {
    let mut bases: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if bases.is_empty() {
        bases = plimsoll_lab::FALLBACK_BASES.map(PathBuf::from).to_vec();
    }
    let recipe = Box::new(PostgresRecipe::default());
    let postgres = Cluster::start(recipe, &bases, Path::new("."), &Default::default(), &mut |what| println!("{what}"))?;
    println!("it runs as process {}", postgres.pids().first().unwrap_or(&0));
    println!("psql -h {} -U postgres postgres", postgres.first().socket_dir.display());
    std::io::stdin().read_line(&mut String::new()).map_err(|error| StoreError::io("stdin", &error))?;
    postgres.close()
}
