#![doc = include_str!("../README.md")]
//!
//! # Where things are
//!
//! | module | what |
//! |---|---|
//! | `kind` | the store as `stores/all` lists it |
//! | `store` | attached or private: what it makes, and what it can be asked |
//! | `bucket` | a bucket's stream, and the subjects of its keys |
//! | `session` | one connection that operations go over |
//! | `frames` | the protocol of NATS' clients: lines, and messages with their headers |
//! | `answers` | what JetStream answers |
//! | `control` | one connection that waits, for everything that is not measured |
//! | `endpoint` | where a URL leads |
//! | `server` | how private servers are made |

mod answers;
mod bucket;
mod control;
mod endpoint;
mod frames;
mod kind;
mod server;
mod session;
mod store;

pub use kind::kind;
