#![doc = include_str!("../README.md")]
//!
//! # Where things are
//!
//! | module | what |
//! |---|---|
//! | `kind` | the store as `stores/all` lists it |
//! | `store` | attached or private: what it makes, and what it can be asked |
//! | `session` | one connection that operations go over |
//! | `channel` | calls of gRPC over the HTTP/2 of the crate `h2` |
//! | `messages` | the few messages of etcd's that are used, written and read by hand |
//! | `control` | one connection that waits, for everything that is not measured |
//! | `kv` | the same as a key-value store, for records with indexes of `keyindex` |
//! | `endpoint` | where a URL leads |
//! | `server` | how private servers are made |

mod channel;
mod control;
mod endpoint;
mod kind;
mod kv;
mod messages;
mod server;
mod session;
mod store;

pub use kind::kind;
