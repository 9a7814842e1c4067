#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! | module | contents |
//! |---|---|
//! | `kind` | the store as `stores/all` lists it |
//! | `store` | keys of a run in a private or attached cluster |
//! | `session` | operations over one connection |
//! | `channel` | calls of gRPC over the HTTP/2 of the crate `h2` |
//! | `messages` | messages of etcd's API, written and read by hand |
//! | `control` | blocking connection for the control plane |
//! | `kv` | key-value store over the control plane's calls, for records of `keyindex` |
//! | `server` | URLs of etcd, and the recipe of private servers |

mod channel;
mod control;
mod kind;
mod kv;
mod messages;
mod server;
mod session;
mod store;

pub use kind::kind;
