//! Certificates and checks of a client, shared by all its connections.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plimsoll_core::{StoreError, StoreErrorKind};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::check::ServerCheck;
use crate::connection::Tls;
use crate::der::validity;

/// Extent of the verification of a server's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verify {
    /// Checks only that the server has the key of its certificate: encrypts, and proves no identity.
    None,
    /// Checks that the certificate is signed by a root.
    Ca,
    /// Checks that the certificate is signed by a root and is for the requested host.
    #[default]
    Full,
}

/// Root certificates that are trusted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Roots {
    /// Roots of this machine.
    #[default]
    System,
    /// The certificates of a PEM file.
    File(PathBuf),
}

/// Identity of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// PEM file with its certificate, and those between it and a root.
    pub certificate: PathBuf,
    /// PEM file with its key, not encrypted: PKCS#8, PKCS#1 or SEC1.
    pub key: PathBuf,
}

/// Names under which a user gives the files, for messages; by default those of `curl` and `redis-cli`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileNames {
    /// Name of [`Roots::File`].
    pub roots: &'static str,
    /// Name of [`ClientCertificate::certificate`].
    pub certificate: &'static str,
    /// Name of [`ClientCertificate::key`].
    pub key: &'static str,
}

impl Default for FileNames {
    fn default() -> Self {
        Self { roots: "cacert", certificate: "cert", key: "key" }
    }
}

/// Options of a [`TlsClient`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsOptions {
    /// Extent of the verification.
    pub verify: Verify,
    /// Trusted roots; ignored with [`Verify::None`].
    pub roots: Roots,
    /// Certificate for servers that ask for one.
    pub certificate: Option<ClientCertificate>,
    /// Protocols offered (ALPN, RFC 7301), the best first; empty to offer none.
    pub protocols: Vec<&'static str>,
    /// Names of the files in messages.
    pub names: FileNames,
}

/// A client's side of TLS. Cheap to clone.
#[derive(Clone)]
pub struct TlsClient {
    config: Arc<ClientConfig>,
    verify: Verify,
    /// Source of the roots, for messages.
    roots: Arc<str>,
}

impl fmt::Debug for TlsClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsClient").field("verify", &self.verify).field("roots", &self.roots).finish_non_exhaustive()
    }
}

impl TlsClient {
    /// Reads the files that `options` names.
    ///
    /// # Errors
    /// `Usage`, with the file's path and parameter, when a file cannot be read or has the wrong contents; `Missing` when
    /// this machine has no trusted roots.
    pub fn new(options: &TlsOptions) -> Result<TlsClient, StoreError> {
        let names = &options.names;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let roots = match (options.verify, &options.roots) {
            (Verify::None, _) => Vec::new(),
            (_, Roots::System) => system_roots()?,
            (_, Roots::File(path)) => certificates(path).map_err(given_as(names.roots))?,
        };
        let shown = match &options.roots {
            Roots::System => "this machine".to_owned(),
            Roots::File(path) => path.display().to_string(),
        };
        let now_s = UnixTime::now().as_secs() as i64;
        let is_in_date = |root: &CertificateDer<'_>| validity(root).is_none_or(|valid| valid.contains(&now_s));
        let (in_date, out_of_date): (Vec<_>, Vec<_>) = roots.iter().cloned().partition(is_in_date);
        let store = |roots: &[_]| root_store(roots, &options.roots).map_err(given_as(names.roots));
        let check = ServerCheck {
            verify: options.verify,
            roots: store(&in_date)?,
            out_of_date: store(&out_of_date)?,
            pinned: roots,
            algorithms: provider.signature_verification_algorithms,
        };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| StoreError::broken(format!("TLS cannot be set up: {error}")))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(check));
        let mut config = match &options.certificate {
            None => config.with_no_client_auth(),
            Some(own) => {
                let key = private_key(&own.key).map_err(given_as(names.key))?;
                let shown = certificates(&own.certificate).map_err(given_as(names.certificate))?;
                config.with_client_auth_cert(shown, key).map_err(|error| {
                    let (certificate, key) = (own.certificate.display(), own.key.display());
                    let given = format!("{}, {}", names.certificate, names.key);
                    let what = format!("{given}: the client certificate {certificate} and the key {key} do not match");
                    StoreError::usage(what)
                        .detail(error.to_string())
                        .next("Name the key that the certificate was made with.")
                })?
            }
        };
        config.alpn_protocols = options.protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Ok(TlsClient { config: Arc::new(config), verify: options.verify, roots: shown.into() })
    }

    /// A connection to `host`, a name or an address, which is also told to the server (SNI). `place` names the
    /// server in messages.
    ///
    /// # Errors
    /// `Usage` when `host` is neither a name nor an address, and that is to be checked.
    pub fn connect(&self, host: &str, place: &str) -> Result<Tls, StoreError> {
        let name = match ServerName::try_from(host.trim_end_matches('.').to_owned()) {
            Ok(name) => name,
            // An address is not sent as a server name, and there is no other name to send.
            Err(_) if self.verify != Verify::Full => ServerName::IpAddress(std::net::Ipv4Addr::LOCALHOST.into()),
            Err(_) => {
                return Err(StoreError::usage(format!("`{host}` is not a host name that a certificate can be for"))
                    .next("Name the host by its DNS name or its address."));
            }
        };
        let connection = ClientConnection::new(Arc::clone(&self.config), name)
            .map_err(|error| StoreError::broken(format!("TLS cannot be set up: {error}")))?;
        let has_certificate = self.config.client_auth_cert_resolver.has_certs();
        Ok(Tls::new(connection, place, Arc::clone(&self.roots), has_certificate))
    }
}

/// Returns a function for `map_err` that adds the name of the parameter with the file.
fn given_as(name: &str) -> impl FnOnce(StoreError) -> StoreError + '_ {
    move |error| StoreError { what: format!("{name}: {}", error.what), ..error }
}

fn system_roots() -> Result<Vec<CertificateDer<'static>>, StoreError> {
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        let error = StoreError::new(StoreErrorKind::Missing, "this machine trusts no certificate authority")
            .next("Install the package ca-certificates, set SSL_CERT_FILE, or name a file with the root certificate.");
        return Err(match found.errors.first() {
            Some(first) => error.detail(first.to_string()),
            None => error,
        });
    }
    Ok(found.certs)
}

fn root_store(roots: &[CertificateDer<'static>], from: &Roots) -> Result<RootCertStore, StoreError> {
    let mut store = RootCertStore::empty();
    match from {
        // One that is of no use among a machine's hundred is no reason to stop.
        Roots::System => {
            store.add_parsable_certificates(roots.iter().cloned());
        }
        Roots::File(path) => {
            for root in roots {
                store.add(root.clone()).map_err(|error| {
                    StoreError::usage(format!("{} holds something other than root certificates", path.display()))
                        .detail(error.to_string())
                        .next("Name a PEM file with the certificates of authorities alone.")
                })?;
            }
        }
    }
    Ok(store)
}

/// Reads all certificates of a PEM file; at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, StoreError> {
    let text = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(StoreError::usage(format!("{} holds no certificate", path.display()))
            .next("Name a PEM file: it has a line `-----BEGIN CERTIFICATE-----`.")),
        Err(error) => Err(StoreError::usage(format!("{} is no PEM file", path.display()))
            .detail(error.to_string())
            .next("Name a PEM file: openssl x509 -inform DER -in FILE makes one of a DER file.")),
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, StoreError> {
    let text = read(path)?;
    if text.windows(9).any(|window| window == b"ENCRYPTED") {
        return Err(StoreError::usage(format!(
            "the key {} is encrypted, and Plimsoll asks for no passphrase",
            path.display()
        ))
        .next("Make an unencrypted copy that only you can read: openssl pkey -in KEY -out COPY; chmod 600 COPY"));
    }
    PrivateKeyDer::from_pem_slice(&text).map_err(|_| {
        StoreError::usage(format!("{} holds no private key", path.display()))
            .next("Name a PEM file: it has a line `-----BEGIN PRIVATE KEY-----`.")
    })
}

/// Most bytes of a file of certificates or keys.
const FILE_MAX: u64 = 16 << 20;

fn read(path: &Path) -> Result<Vec<u8>, StoreError> {
    plimsoll_core::files::read_at_most(path, FILE_MAX).map_err(|error| {
        StoreError::usage(format!("{} cannot be read", path.display()))
            .detail(error.to_string())
            .next("Name a file that this user may read.")
    })
}
