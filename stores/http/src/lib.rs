#![doc = include_str!("../README.md")]
//!
//! # Where things are
//!
//! | module | what |
//! |---|---|
//! | [`kind`] | the store as `stores/all` lists it |
//! | `store` | attached or private: what it can be asked |
//! | [`wire`] | one connection as a protocol without I/O |
//! | [`request`] | what is sent |
//! | `cookies` | the cookies that a client was given |
//! | `take` | what is taken out of an answer |
//! | [`response`] | the head of an answer, and what says how long its body is |
//! | `control` | one look at a server, for everything that is not measured |
//! | [`endpoint`] | where a URL leads |
//! | [`server`] | how a private nginx is made |

mod control;
mod cookies;
pub mod endpoint;
mod kind;
pub mod request;
pub mod response;
pub mod server;
mod store;
mod take;
pub mod wire;

pub use control::look;
pub use kind::kind;
pub use server::NginxRecipe;
