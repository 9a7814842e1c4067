#![doc = include_str!("../README.md")]
//!
//! # Where things are
//!
//! | module | what |
//! |---|---|
//! | [`kind`] | the store as `stores/all` lists it, and opening it |
//! | `store` | attached or private: what it makes, and what it can be asked |
//! | `control` | settings, sizes, tidying, checks, in plain SQL |
//! | `counters` | what the server counts of its own work, and its cycle |
//! | `lock_waits` | its sessions that wait for locks, and those that hold them |
//! | `plan` | EXPLAIN's rows in words |
//! | `production`, `log` | what a running server was asked, by its digests and its logs |
//! | [`wire`] | one connection as a protocol without I/O |
//! | [`Connection`] | the same, blocking, over a socket of its own |
//! | [`sql`] | the `records` interface in SQL |
//! | [`conninfo`] | where a URL, the option file and the environment lead |
//! | `write_kind` | kinds of its files, and the settings that protect data pages |
//! | `servers` | which servers sessions go to |
//! | [`server`] | how a private server is made; `galera`, `replicas`, how several become a cluster; `progress`, what runs long on one; `works`, planned work during a load |
//!
//! It is no driver for applications: it has no LOCAL INFILE, no pool, and prepares everything at connect.

mod connection;
pub mod conninfo;
mod control;
mod counters;
mod galera;
mod kind;
mod lock_waits;
mod log;
mod plan;
mod production;
mod progress;
mod replicas;
pub mod server;
mod servers;
pub mod sql;
mod store;
pub mod wire;
mod works;
mod write_kind;

pub use connection::{Connection, connect};
pub use kind::kind;
pub use server::MariadbRecipe;
