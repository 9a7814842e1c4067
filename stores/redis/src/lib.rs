#![doc = include_str!("../README.md")]
//!
//! # Where things are
//!
//! | module | what |
//! |---|---|
//! | [`kind`] | the store as `stores/all` lists it |
//! | `store` | attached or private: what it makes, and what it can be asked; `masters`, its servers; `runs`, keys of runs in servers that others use too; `data_file`, the check of its files |
//! | `append_only` | how durable a private server's writes are, and making them so |
//! | `background` | rewrites and snapshots that a server does by itself, and how often they come |
//! | `facts` | what a server says of itself: INFO, CONFIG GET |
//! | `slow_log` | commands that a server found slow |
//! | `latency_events` | work of its own that a server found slow |
//! | `readers` | replicas that answer what only reads |
//! | `removal` | the commands that remove what a run left in an attached server |
//! | `watched` | servers that Sentinels watch: which of them is the master |
//! | [`wire`] | one connection as a protocol without I/O; `opening`, what is asked before operations |
//! | `prepared` | kinds of operation, ready to be asked; `command`, those of the user's own |
//! | [`cluster`] | a connection to each node of a cluster; [`slots`], which of them has a key; `flights`, what is not answered |
//! | [`resp`] | the protocol's frames; `reply`, replies that own what they hold |
//! | [`Control`] | one connection that waits, for everything that is not measured |
//! | [`endpoint`] | where a URL and the environment lead |
//! | [`server`] | how a private server is made; `formation`, how several become a cluster; `works` and `reshard`, planned work during a load; `switchover`, replicas that become masters by command |
//!
//! It is no driver for applications: beside three commands it knows of the user's own only their words.

mod append_only;
mod background;
pub mod cluster;
mod command;
mod control;
pub mod endpoint;
mod facts;
mod failover;
mod flights;
mod formation;
mod kind;
mod latency_events;
mod member;
mod opening;
mod prepared;
mod readers;
mod removal;
mod reply;
mod reshard;
pub mod resp;
pub mod server;
pub mod slots;
mod slow_log;
mod store;
mod switchover;
mod watched;
pub mod wire;
mod works;

pub use control::Control;
pub use kind::kind;
pub use reply::Node;
pub use server::RedisRecipe;
