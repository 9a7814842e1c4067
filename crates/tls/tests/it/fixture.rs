//! Certificates made for one test, and a server that shows them.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

use plimsoll_core::StoreError;
use plimsoll_tls::{Tls, TlsClient, TlsOptions};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};

/// An authority, and the directory that its files are in.
pub struct Authority {
    pub dir: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, as PEM files.
#[derive(Clone)]
pub struct Pair {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Authority {
    pub fn new() -> Authority {
        let dir = tempfile::tempdir().expect("a directory");
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).expect("an authority");
        std::fs::write(dir.path().join("root.crt"), certificate.pem()).expect("written");
        Authority { dir, issuer: Issuer::new(params, key) }
    }

    pub fn root(&self) -> PathBuf {
        self.dir.path().join("root.crt")
    }

    /// Signs a certificate for `host`.
    pub fn sign(&self, host: &str, change: impl FnOnce(&mut CertificateParams)) -> Pair {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key");
        let mut params = CertificateParams::new(vec![host.to_owned()]).expect("a name");
        change(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).expect("signed");
        self.write(host, &certificate.pem(), &key)
    }

    pub fn write(&self, name: &str, pem: &str, key: &KeyPair) -> Pair {
        let path = |end: &str| self.dir.path().join(format!("{name}.{end}"));
        std::fs::write(path("crt"), pem).expect("written");
        std::fs::write(path("key"), key.serialize_pem()).expect("written");
        Pair { certificate: path("crt"), key: path("key") }
    }
}

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
    /// What the server has understood; it answers with the same.
    pub understood: Vec<u8>,
    piece: usize,
}

impl Talk {
    pub fn new(options: &TlsOptions, host: &str, server: ServerConnection, piece: usize) -> Talk {
        let client = TlsClient::new(options).expect("options");
        let mut tls = client.connect(host, "test://server").expect("a host");
        let mut to_server = Vec::new();
        tls.begin(&mut to_server);
        Talk { tls, server, to_server, plain: Vec::new(), understood: Vec::new(), piece }
    }

    pub fn send(&mut self, plain: &[u8]) {
        self.tls.send(plain, &mut self.to_server);
    }

    /// Carries bytes until nobody has more to say.
    pub fn run(&mut self) -> Result<(), StoreError> {
        loop {
            let to_client = serve(&mut self.server, &std::mem::take(&mut self.to_server), &mut self.understood);
            if to_client.is_empty() {
                return Ok(());
            }
            for piece in to_client.chunks(self.piece) {
                self.tls.feed(piece, &mut self.plain, &mut self.to_server)?;
            }
        }
    }
}

/// What the server answers to these bytes: an echo of their plaintext, and an alert when it gives up.
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
