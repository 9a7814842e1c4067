//! TLS as a session uses it, and what stands in its place in a build without.

#[cfg(feature = "tls")]
pub use plimsoll_tls::{Tls, TlsClient};

#[cfg(not(feature = "tls"))]
pub use left_out::{Tls, TlsClient};

/// How a session encrypts what it says, where the server can.
#[derive(Debug, Clone)]
pub struct Encryption {
    /// What is checked and shown.
    pub client: TlsClient,
    /// The name that the server's certificate is to be for.
    pub host: String,
    /// Without it there is no session. Otherwise a server that has none is talked to in clear.
    pub required: bool,
}

/// Nobody can make one of these, so nobody can call them.
#[cfg(not(feature = "tls"))]
mod left_out {
    use plimsoll_core::StoreError;

    /// See the crate `plimsoll-tls`.
    #[derive(Debug, Clone)]
    pub enum TlsClient {}

    impl TlsClient {
        pub(crate) fn connect(&self, _host: &str, _place: &str) -> Result<Tls, StoreError> {
            match *self {}
        }
    }

    /// See the crate `plimsoll-tls`.
    #[derive(Debug)]
    pub enum Tls {}

    impl Tls {
        pub(crate) fn begin(&mut self, _out: &mut Vec<u8>) {
            match *self {}
        }

        pub(crate) fn feed(&mut self, _: &[u8], _: &mut Vec<u8>, _: &mut Vec<u8>) -> Result<(), StoreError> {
            match *self {}
        }

        pub(crate) fn send(&mut self, _plain: &[u8], _out: &mut Vec<u8>) {
            match *self {}
        }

        pub(crate) fn close(&mut self, _out: &mut Vec<u8>) {
            match *self {}
        }
    }
}
