//! Certificates for tests that speak TLS: an authority, and what it has signed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, DistinguishedName, DnType, IsCa, Issuer, PKCS_ECDSA_P256_SHA256, date_time_ymd};
pub use rcgen::{CertificateParams, KeyPair};

/// An authority of one test, with its files in a directory that servers of other users can read, and that goes with it.
#[derive(Debug)]
pub struct Authority {
    dir: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, as files of PEM.
#[derive(Debug, Clone)]
pub struct Pair {
    /// The certificate.
    pub certificate: PathBuf,
    /// The key.
    pub key: PathBuf,
}

impl Default for Authority {
    fn default() -> Self {
        Self::new("authority")
    }
}

impl Authority {
    /// Makes an authority of this name. (OpenSSL takes a certificate whose issuer has its own name for one that signed
    /// itself.)
    ///
    /// # Panics
    /// When there is no room for its files.
    pub fn new(name: &str) -> Self {
        Self::changed(name, |_| {})
    }

    /// Makes an authority whose root certificate is valid from the beginning of one year to that of another.
    ///
    /// # Panics
    /// When there is no room for its files.
    pub fn dated(name: &str, from: i32, until: i32) -> Self {
        Self::changed(name, |params| {
            params.not_before = date_time_ymd(from, 1, 1);
            params.not_after = date_time_ymd(until, 1, 1);
        })
    }

    fn changed(name: &str, change: impl FnOnce(&mut CertificateParams)) -> Self {
        let prefix = format!("tls-test-{}-", std::process::id());
        let dir = tempfile::Builder::new().prefix(&prefix).tempdir_in("/var/tmp").expect("a directory");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.distinguished_name = named(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        change(&mut params);
        let certificate = params.self_signed(&key).expect("an authority");
        fs::write(dir.path().join("root.crt"), certificate.pem()).expect("written");
        Self { dir, issuer: Issuer::new(params, key) }
    }

    /// The directory of its files.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the file of the root certificate.
    pub fn root(&self) -> PathBuf {
        self.dir.path().join("root.crt")
    }

    /// Signs a certificate for a host, or for a client of this name.
    pub fn sign(&self, name: &str) -> Pair {
        self.sign_changed(name, |_| {})
    }

    /// Signs a certificate after `change`.
    ///
    /// # Panics
    /// When what it became cannot be signed.
    pub fn sign_changed(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Pair {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key");
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        params.distinguished_name = named(name);
        change(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).expect("signed");
        self.write(name, &certificate.pem(), &key)
    }

    /// Writes a certificate that was signed elsewhere, and its key.
    ///
    /// # Panics
    /// When there is no room.
    pub fn write(&self, name: &str, pem: &str, key: &KeyPair) -> Pair {
        let path = |end: &str| self.dir.path().join(format!("{name}.{end}"));
        fs::write(path("crt"), pem).expect("written");
        fs::write(path("key"), key.serialize_pem()).expect("written");
        Pair { certificate: path("crt"), key: path("key") }
    }
}

/// Certificates for a server on the loopback interface that wants a client's, too.
#[derive(Debug, Clone)]
pub struct Mutual {
    /// Root certificate of both.
    pub root: PathBuf,
    /// The server's, for 127.0.0.1.
    pub server: Pair,
    /// The client's.
    pub client: Pair,
}

impl Mutual {
    /// Makes them in `dir`, which keeps them.
    ///
    /// # Panics
    /// When there is no room.
    pub fn in_dir(dir: &Path) -> Self {
        let authority = Authority::default();
        let kept = |path: &Path| {
            let to = dir.join(path.file_name().expect("a file"));
            fs::copy(path, &to).expect("copied");
            to
        };
        let pair = |pair: Pair| Pair { certificate: kept(&pair.certificate), key: kept(&pair.key) };
        let root = kept(&authority.root());
        Self { root, server: pair(authority.sign("127.0.0.1")), client: pair(authority.sign("client")) }
    }

    /// Returns the parameters of a URL with the root, and with the client's certificate.
    pub fn query(&self) -> String {
        let Pair { certificate, key } = &self.client;
        format!("cacert={}&cert={}&key={}", self.root.display(), certificate.display(), key.display())
    }
}

fn named(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}
