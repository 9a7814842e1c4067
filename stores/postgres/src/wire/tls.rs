//! TLS, where it is built in. Without the feature `tls` the types are there and cannot be had.

#[cfg(feature = "tls")]
pub(crate) use plimsoll_tls::{Tls, TlsClient};

#[cfg(not(feature = "tls"))]
pub(crate) use absent::{Tls, TlsClient};

#[cfg(not(feature = "tls"))]
mod absent {
    use plimsoll_core::StoreError;

    #[derive(Debug, Clone)]
    pub(crate) enum TlsClient {}

    impl TlsClient {
        pub(crate) fn connect(&self, _host: &str, _place: &str) -> Result<Tls, StoreError> {
            match *self {}
        }
    }

    #[derive(Debug)]
    pub(crate) enum Tls {}

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

        pub(crate) fn is_handshaking(&self) -> bool {
            match *self {}
        }

        pub(crate) fn agreed(&self) -> Option<String> {
            match *self {}
        }

        pub(crate) fn server_end_point(&self) -> Option<Vec<u8>> {
            match *self {}
        }
    }
}
