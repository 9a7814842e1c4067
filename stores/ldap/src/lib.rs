#![doc = include_str!("../README.md")]
//!
//! # Where things are
//!
//! | module | what |
//! |---|---|
//! | [`kind`] | the store as `stores/all` lists it |
//! | `store` | attached or private: what it makes, and what it can be asked |
//! | [`wire`] | one connection as a protocol without I/O |
//! | `start_tls` | the same inside TLS, for which the server may be asked in clear |
//! | `request` | what is sent, put together when a session is opened |
//! | `template` | elements with places for parameters |
//! | `filter` | filters as text |
//! | `dn` | distinguished names as text |
//! | [`response`] | what arrives |
//! | `result_code` | the names of result codes |
//! | [`ber`] | tags and lengths |
//! | [`Control`] | one connection that waits, for everything that is not measured |
//! | [`endpoint`] | where a URL leads |
//! | [`server`] | how a private slapd is made |
//! | `offline` | what is done to its database while it is stopped |
//!
//! It is no library for applications: it knows no controls, no SASL but EXTERNAL, and follows no referrals.

pub mod ber;
mod control;
mod dn;
pub mod endpoint;
mod filter;
mod kind;
mod ldif;
mod offline;
mod request;
pub mod response;
mod result_code;
pub mod server;
mod start_tls;
mod store;
mod template;
pub mod wire;

pub use control::Control;
pub use kind::kind;
pub use server::SlapdRecipe;
