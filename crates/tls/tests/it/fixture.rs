//! Certificates made for one test, and a server that shows them.

use std::io::{Read, Write};
use std::sync::Arc;

use plimsoll_core::StoreError;
pub use plimsoll_testkit::certificates::{Authority, Pair};
use plimsoll_tls::{Tls, TlsClient, TlsOptions};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};

/// A server that shows `pair`; with `clients` it lets in only whom that authority has signed.
pub fn server(pair: &Pair, clients: Option<&Authority>, change: impl FnOnce(&mut ServerConfig)) -> ServerConnection {
    server_of(pair, clients, rustls::ALL_VERSIONS, change)
}

pub fn server_of(
    pair: &Pair,
    clients: Option<&Authority>,
    versions: &[&'static rustls::SupportedProtocolVersion],
    change: impl FnOnce(&mut ServerConfig),
) -> ServerConnection {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ServerConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(versions).expect("versions");
    let config = match clients {
        None => config.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_file(authority.root()).expect("a root")).expect("a root");
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            config.with_client_cert_verifier(verifier.expect("a verifier"))
        }
    };
    let certificates = vec![CertificateDer::from_pem_file(&pair.certificate).expect("a certificate")];
    let key = PrivateKeyDer::from_pem_file(&pair.key).expect("a key");
    let mut config = config.with_single_cert(certificates, key).expect("a pair");
    change(&mut config);
    ServerConnection::new(Arc::new(config)).expect("a server")
}

/// Bytes between a client and a server, carried in pieces of `piece` bytes.
pub struct Talk {
    pub tls: Tls,
    pub server: ServerConnection,
    pub to_server: Vec<u8>,
    pub plain: Vec<u8>,
    /// Plaintext that the server has received; it echoes this.
    pub understood: Vec<u8>,
    piece: usize,
}

impl Talk {
    pub fn new(options: &TlsOptions, host: &str, server: ServerConnection, piece: usize) -> Talk {
        let client = TlsClient::new(options).expect("options");
        let mut to_server = Vec::new();
        let tls = client.connect(host, "test://server").expect("a host").begin(Vec::new(), &mut to_server);
        Talk { tls, server, to_server, plain: Vec::new(), understood: Vec::new(), piece }
    }

    pub fn send(&mut self, plain: &[u8]) {
        self.tls.written.extend_from_slice(plain);
        self.tls.encrypt(&mut self.to_server);
    }

    /// Carries bytes until neither side has more to send.
    pub fn run(&mut self) -> Result<(), StoreError> {
        loop {
            let to_client = serve(&mut self.server, &std::mem::take(&mut self.to_server), &mut self.understood);
            if to_client.is_empty() {
                return Ok(());
            }
            for piece in to_client.chunks(self.piece) {
                let decrypted = self.tls.decrypt(piece, &mut self.to_server);
                self.tls.hand_over(&mut self.to_server, |plain, _| {
                    self.plain.extend_from_slice(plain);
                    plain.len()
                });
                decrypted?;
            }
        }
    }
}

/// Returns the server's answer to these bytes: an echo of their plaintext, and an alert if it fails.
pub fn serve(server: &mut ServerConnection, mut arrived: &[u8], understood: &mut Vec<u8>) -> Vec<u8> {
    let mut out = Vec::new();
    while !arrived.is_empty() && server.read_tls(&mut arrived).is_ok_and(|count| count > 0) {
        if server.process_new_packets().is_err() {
            break;
        }
        let mut plain = Vec::new();
        let _ = server.reader().read_to_end(&mut plain);
        server.set_buffer_limit(None);
        server.writer().write_all(&plain).expect("echoed");
        understood.extend_from_slice(&plain);
    }
    while server.wants_write() {
        server.write_tls(&mut out).expect("written");
    }
    out
}
