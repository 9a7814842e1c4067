#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! | module | contents |
//! |---|---|
//! | `kind` | the store as `stores/all` lists it |
//! | `store` | the bucket of a run on private or attached servers |
//! | `bucket` | streams of buckets, and subjects of keys |
//! | `session` | operations over one connection |
//! | `frames` | protocol of NATS' clients: lines, and messages with their headers |
//! | `answers` | replies of JetStream |
//! | `control` | blocking connection for the control plane |
//! | `server` | URLs of NATS, and the recipe of private servers |

mod answers;
mod bucket;
mod control;
mod frames;
mod kind;
mod server;
mod session;
mod store;

pub use kind::kind;
