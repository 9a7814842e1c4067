//! `sslmode` and what belongs to it: whether a connection is encrypted, and what is checked.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use plimsoll_core::{StoreError, shell_word};
use plimsoll_tls::{ClientCertificate, FileNames, Roots, TlsClient, TlsOptions, Verify};

use super::hosts::Place;
use super::{Environment, Parameters, one_of, usage};
use crate::wire::TlsEnd;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Mode {
    Disable,
    Allow,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

const MODES: [(&str, Mode); 6] = [
    ("prefer", Mode::Prefer),
    ("disable", Mode::Disable),
    ("allow", Mode::Allow),
    ("require", Mode::Require),
    ("verify-ca", Mode::VerifyCa),
    ("verify-full", Mode::VerifyFull),
];

/// Encryption parameters of a URL, for all its hosts.
pub(super) struct Settings {
    mode: Mode,
    direct: bool,
    /// Trusted roots; without any, no certificate is checked.
    trusted: Option<Roots>,
    certificate: Option<ClientCertificate>,
}

impl Settings {
    pub(super) fn of(parameters: &Parameters, environment: &Environment<'_>) -> Result<Settings, StoreError> {
        let system = parameters.get("sslrootcert").is_some_and(|file| file == "system");
        let mode = match parameters.contains_key("sslmode") {
            false if system => Mode::VerifyFull,
            _ => one_of(parameters, "sslmode", &MODES)?,
        };
        if system && mode != Mode::VerifyFull {
            // Anybody can have a certificate of one of a system's hundred authorities.
            return Err(usage(
                "sslrootcert=system is of no use without the host's name: it needs sslmode=verify-full",
                "Write sslmode=verify-full, or name a file with the root certificate.",
            ));
        }
        let direct = one_of(parameters, "sslnegotiation", &[("postgres", false), ("direct", true)])?;
        if direct && mode < Mode::Require {
            return Err(usage(
                "sslnegotiation=direct begins with TLS and needs sslmode=require, verify-ca or verify-full",
                "Write sslmode=require",
            ));
        }
        if one_of(parameters, "gssencmode", &[("prefer", false), ("disable", false), ("require", true)])? {
            return Err(usage("gssencmode=require asks for GSSAPI, which Plimsoll does not speak", "Leave it out."));
        }
        let default = |name: &str| environment.home().map(|home| home.join(".postgresql").join(name));
        let trusted = match parameters.get("sslrootcert") {
            Some(_) if system => Some(Roots::System),
            Some(file) if mode >= Mode::VerifyCa || Path::new(file).exists() => Some(Roots::File(file.into())),
            Some(_) => None,
            None => match default("root.crt") {
                Some(file) if file.exists() => Some(Roots::File(file)),
                file if mode >= Mode::VerifyCa => {
                    let file = file.unwrap_or_else(|| PathBuf::from("~/.postgresql/root.crt"));
                    return Err(usage(
                        format!("there is no root certificate to check the server's with: no {}", file.display()),
                        "Name its file with sslrootcert=, or write sslrootcert=system for this machine's roots.",
                    ));
                }
                _ => None,
            },
        };
        let given = |name: &str, default_name: &str| match parameters.get(name) {
            Some(file) => Some(PathBuf::from(file)),
            None => default(default_name).filter(|file| file.exists()),
        };
        let certificate = match (given("sslcert", "postgresql.crt"), given("sslkey", "postgresql.key")) {
            (Some(certificate), Some(key)) => Some(ClientCertificate { certificate, key }),
            (Some(certificate), None) => {
                return Err(usage(
                    format!("there is no key to the client certificate {}", certificate.display()),
                    "Name its file with sslkey=",
                ));
            }
            (None, _) => None,
        };
        Ok(Settings { mode, direct, trusted, certificate })
    }

    /// Returns the ways in which a host is to be tried, in order.
    pub(super) fn attempts(&self, place: &Place) -> Result<Vec<Option<TlsEnd>>, StoreError> {
        if place.is_local() || self.mode == Mode::Disable {
            return Ok(vec![None]);
        }
        if let Some(own) = &self.certificate {
            check_key(&own.key)?;
        }
        // As libpq: with a root certificate, certificates are checked.
        let verify = match (self.mode, &self.trusted) {
            (Mode::VerifyFull, _) => Verify::Full,
            (_, None) => Verify::None,
            _ => Verify::Ca,
        };
        let client = TlsClient::new(&TlsOptions {
            verify,
            roots: self.trusted.clone().unwrap_or_default(),
            certificate: self.certificate.clone(),
            protocols: vec!["postgresql"],
            names: FileNames { roots: "sslrootcert", certificate: "sslcert", key: "sslkey" },
        })?;
        // A name that no certificate can be for is told before anything is connected.
        client.connect(&place.host, "")?;
        let (direct, required) = (self.direct, self.mode != Mode::Prefer);
        let tls = Some(TlsEnd { client, host: place.host.as_str().into(), direct, required });
        Ok(match self.mode {
            Mode::Disable => vec![None],
            Mode::Allow => vec![None, tls],
            Mode::Prefer => vec![tls, None],
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => vec![tls],
        })
    }
}

/// Checks a key as libpq does: a key that others can read is refused; root's may be readable by a group.
fn check_key(key: &Path) -> Result<(), StoreError> {
    let metadata = std::fs::metadata(key).map_err(|error| {
        usage(format!("sslkey: {} cannot be read", key.display()), "Name a file that this user may read.")
            .detail(error.to_string())
    })?;
    let others = if metadata.uid() == 0 { 0o027 } else { 0o077 };
    if metadata.permissions().mode() & others != 0 {
        let what = format!("sslkey: {} was not used, because others may read it", key.display());
        return Err(usage(what, format!("chmod 600 {}", shell_word(&key.to_string_lossy()))));
    }
    Ok(())
}
