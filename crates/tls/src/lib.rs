#![doc = include_str!("../README.md")]
//!
//! # Where things are
//!
//! | module | what |
//! |---|---|
//! | `client` | [`TlsClient`]: what is checked and shown, made once from files |
//! | `check` | whether a server's certificate will do |
//! | `connection` | [`Tls`]: one connection |
//! | [`der`] | as much of DER as certificates and keys are looked into |
//! | `end_point` | a certificate's hash, to which SCRAM binds a login |
//! | `session` | [`TlsSession`]: TLS around any wire session, from the first byte on or as its [`Upgrade`] says |
//! | `failure` | what went wrong, in words |
//!
//! It opens no socket, reads no file after [`TlsClient::new`], and knows no store.

mod check;
mod client;
mod connection;
pub mod der;
mod end_point;
mod failure;
mod session;

pub use client::{ClientCertificate, FileNames, Roots, TlsClient, TlsOptions, Verify};
pub use connection::Tls;
pub use failure::{NAME_CERTIFICATE, NAME_ROOT};
pub use session::{Answered, AtOnce, TlsSession, Upgrade};
