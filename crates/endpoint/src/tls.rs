//! TLS as sessions and channels use it, and the files that a URL names.

use std::path::PathBuf;

use plimsoll_core::{Address, StoreError, Waits, WireSession};
use plimsoll_tls::{ClientCertificate, NAME_CERTIFICATE, NAME_ROOT, TlsSession};
pub use plimsoll_tls::{Roots, Tls, TlsClient, TlsOptions, Verify};

use crate::{Channel, certified_host, usage};

/// A server, and how to log in, for protocols that are encrypted from the first byte on or never.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint<L> {
    /// Address that the server listens on.
    pub address: Address,
    /// TLS options, if the connection uses TLS.
    pub tls: Option<TlsOptions>,
    /// Login, and other contents of the protocol's first message.
    pub login: L,
}

impl<L> Endpoint<L> {
    /// Returns the client's side of TLS, if TLS is used.
    ///
    /// # Errors
    /// `Usage` or `Missing` when certificates cannot be read.
    pub fn tls_client(&self) -> Result<Option<TlsClient>, StoreError> {
        self.tls.as_ref().map(TlsClient::new).transpose()
    }

    /// The host that a certificate has to be for.
    pub fn host(&self) -> &str {
        certified_host(&self.address)
    }

    /// Connects, encrypted where it is to be. `place` names the server in messages.
    ///
    /// # Errors
    /// As [`Endpoint::tls_client`] and [`Channel::connect`].
    pub fn connect(&self, place: &str, waits: impl Into<Waits>) -> Result<Channel, StoreError> {
        let tls = self.tls_client()?.map(|client| client.connect(self.host(), place)).transpose()?;
        let mut channel = Channel::connect(&self.address, place, waits)?;
        if let Some(tls) = tls {
            channel.encrypt(tls);
        }
        Ok(channel)
    }
}

/// A session as it is, or inside TLS where there is some, with the server at `address`. `place` names it in messages.
///
/// # Errors
/// `Usage` when the host is none that a certificate can be for.
pub fn session<S: WireSession + 'static>(
    plain: S,
    tls: Option<&TlsClient>,
    address: &Address,
    place: &str,
) -> Result<Box<dyn WireSession>, StoreError> {
    Ok(match tls {
        None => Box::new(plain),
        Some(tls) => Box::new(TlsSession::new(plain, tls.clone(), certified_host(address), place)?),
    })
}

/// TLS settings of a URL or a store's parameters: `cacert=FILE` replaces this machine's roots, `cert=FILE&key=FILE`
/// identifies the client, `insecure=yes` disables all checks. The names are those of `redis-cli` and `curl`.
#[derive(Debug, Default)]
pub struct TlsFiles {
    cacert: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    insecure: bool,
}

impl TlsFiles {
    /// Takes a parameter; false when it is none of these.
    pub fn take(&mut self, name: &str, value: &str) -> bool {
        match name {
            "cacert" => self.cacert = Some(PathBuf::from(value)),
            "cert" => self.cert = Some(PathBuf::from(value)),
            "key" => self.key = Some(PathBuf::from(value)),
            "insecure" if matches!(value, "yes" | "no") => self.insecure = value == "yes",
            _ => return false,
        }
        true
    }

    /// Converts them to TLS options.
    ///
    /// # Errors
    /// `Usage`, when a certificate has no key, or a key no certificate.
    pub fn options(self) -> Result<TlsOptions, StoreError> {
        let certificate = match (self.cert, self.key) {
            (Some(certificate), Some(key)) => Some(ClientCertificate { certificate, key }),
            (None, None) => None,
            _ => return Err(usage("there is only one of cert and key", "Give both, or neither.")),
        };
        Ok(TlsOptions {
            verify: if self.insecure { Verify::None } else { Verify::Full },
            roots: self.cacert.map_or(Roots::System, Roots::File),
            certificate,
            ..TlsOptions::default()
        })
    }
}

/// Adds the names of [`TlsFiles`] to advice about certificates.
#[must_use]
pub fn advised(error: StoreError) -> StoreError {
    match error.next.as_deref() {
        Some(NAME_ROOT) => error.next(
            "Add ?cacert=FILE to the URL, with the root certificate that signed it; with insecure=yes nothing is checked.",
        ),
        Some(NAME_CERTIFICATE) => error.next("Add ?cert=FILE&key=FILE to the URL, of a client certificate and its key."),
        _ => error,
    }
}
