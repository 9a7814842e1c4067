#![doc = include_str!("../README.md")]
//!
//! # Where things are
//!
//! | module | what |
//! |---|---|
//! | [`kind`] | the store as `stores/all` lists it |
//! | `store` | attached or private: what it can be asked |
//! | `client` | what a client asks and was given, and what answers mean, whatever carries them |
//! | [`wire`] | one connection of HTTP/1.1 as a protocol without I/O |
//! | [`http2`] | one of HTTP/2; `arrivals`, `stream`, `frame`, `hpack`, `huffman`: its parts |
//! | [`request`] | what is sent |
//! | `part` | its pieces, with parameters between what is always the same |
//! | `cookies` | the cookies that a client was given |
//! | `take` | what is taken out of an answer |
//! | `reference` | references in answers, resolved against the target of their request |
//! | [`response`] | the head of an answer, and what says how long its body is |
//! | `control` | one look at a server, for everything that is not measured |
//! | [`endpoint`] | where a URL leads |
//! | [`server`] | how a private nginx is made |

mod client;
mod control;
mod cookies;
pub mod endpoint;
pub mod http2;
mod kind;
mod part;
mod reference;
pub mod request;
pub mod response;
pub mod server;
mod store;
mod take;
pub mod wire;

pub use control::look;
pub use kind::kind;
pub use server::NginxRecipe;
