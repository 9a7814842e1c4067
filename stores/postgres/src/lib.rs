#![doc = include_str!("../README.md")]
//!
//! # Where things are
//!
//! | module | what |
//! |---|---|
//! | [`kind`] | the store as `stores/all` lists it, and its parameters |
//! | `store` | attached or private: what it makes, and what it can be asked |
//! | `counters` | what the server counts of its own work |
//! | `lock_waits` | its sessions that wait for locks, and those that hold them |
//! | `control` | settings, sizes, tidying, checks, in plain SQL |
//! | [`wire`] | one connection as a protocol without I/O |
//! | [`Connection`] | the same, blocking, over a socket of its own |
//! | [`Endpoint`] | one server, encrypted or not; which of several hosts it is |
//! | [`sql`] | the `records` interface in SQL |
//! | `production`, `log` | what a running server was asked, by its statistics and its log |
//! | `kv` | a table of bytes under bytes, for `keyindex` |
//! | [`conninfo`] | where a URL, the environment, service and password files lead |
//! | `servers` | which servers sessions go to |
//! | [`server`] | how a private server is made |
//! | `patroni` | one under Patroni, with etcd beside it; its published formula of failover; the state that each Patroni reports |
//! | `progress` | what runs long on one |
//! | `works` | planned work on one during a load |
//! | `write_kind` | kinds of its files, and the settings that protect data pages |
//! | `shared_memory` | what a killed one leaves outside of its directories |
//!
//! It is no driver for applications: it has no COPY and no pool, and prepares everything at connect.

mod connection;
pub mod conninfo;
mod control;
mod counters;
mod kv;
mod lock_waits;
mod log;
mod patroni;
mod pooler;
mod production;
mod progress;
mod reach;
pub mod server;
mod servers;
mod shared_memory;
mod spec;
pub mod sql;
mod store;
pub mod wire;
mod works;
mod write_kind;

pub use connection::Connection;
pub use patroni::Patroni;
pub use reach::Endpoint;
pub use server::PostgresRecipe;
pub use spec::kind;
