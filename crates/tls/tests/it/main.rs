//! Against rustls's own server, in memory: every certificate that a server may show, and every way to be refused.

mod fixture;
mod handshake;
mod refusals;
mod session;
