//! Who we are, and how we prove it: trust, cleartext, MD5 and SCRAM-SHA-256.

use std::fmt;

use plimsoll_core::{StoreError, StoreErrorKind};
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};

use super::message::{Reader, ServerError, broken, cstr, frame, unexpected};

/// A password, which shows itself to nobody but the server.
#[derive(Clone)]
pub struct Password(String);

impl Password {
    /// Wraps a password.
    pub fn new(password: impl Into<String>) -> Self {
        Self(password.into())
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(a password)")
    }
}

/// As whom a session logs in, and to what.
#[derive(Debug, Clone)]
pub struct Login {
    /// The role.
    pub user: String,
    /// The database.
    pub database: String,
    /// Its password, if one is known.
    pub password: Option<Password>,
    /// Why none is known, where there is a reason: a password file that others may read, say.
    pub no_password_because: Option<String>,
    /// Shown in the server's `pg_stat_activity` and logs.
    pub application_name: String,
    /// Command-line options for the server process (`-c name=value`), as in libpq's `options`.
    pub options: Option<String>,
    /// Where the server is, for messages; without credentials.
    pub place: String,
}

/// How far authentication has come.
pub(crate) enum Auth {
    /// Waits for what the server asks.
    Asked,
    /// The SCRAM exchange; true when the server has proven that it knows the password too.
    Scram(Box<ScramSha256>, bool),
    /// AuthenticationOk came.
    Done,
}

impl Auth {
    /// Takes an authentication request and appends the answer.
    pub(crate) fn request(&mut self, body: &[u8], login: &Login, out: &mut Vec<u8>) -> Result<(), StoreError> {
        let mut reader = Reader(body);
        let malformed = || unexpected(b'R', "during authentication");
        match (reader.u32().ok_or_else(malformed)?, &mut *self) {
            (0, Auth::Scram(_, false)) => {
                return Err(StoreError::new(
                    StoreErrorKind::Authentication,
                    format!("the server at {} has not proven that it knows the password", login.place),
                )
                .next("Make sure that this is the server you mean."));
            }
            (0, _) => *self = Auth::Done,
            (3, Auth::Asked) => {
                let password = password(login)?;
                frame(out, b'p', |out| cstr(out, password));
            }
            (5, Auth::Asked) => {
                let salt: [u8; 4] = reader.0.try_into().map_err(|_| malformed())?;
                let hash = md5_hash(login.user.as_bytes(), password(login)?.as_bytes(), salt);
                frame(out, b'p', |out| cstr(out, &hash));
            }
            (10, Auth::Asked) => {
                let mut offered = std::iter::from_fn(|| reader.cstr()).take_while(|name| !name.is_empty());
                if !offered.any(|name| name == SCRAM_SHA_256.as_bytes()) {
                    return Err(unsupported(login, "SASL without SCRAM-SHA-256"));
                }
                let scram = ScramSha256::new(password(login)?.as_bytes(), ChannelBinding::unsupported());
                frame(out, b'p', |out| {
                    cstr(out, SCRAM_SHA_256);
                    out.extend_from_slice(&(scram.message().len() as u32).to_be_bytes());
                    out.extend_from_slice(scram.message());
                });
                *self = Auth::Scram(Box::new(scram), false);
            }
            (11, Auth::Scram(scram, false)) => {
                scram.update(reader.0).map_err(|error| broken(format!("SCRAM authentication failed: {error}")))?;
                frame(out, b'p', |out| out.extend_from_slice(scram.message()));
            }
            (12, Auth::Scram(scram, proven)) if !*proven => {
                scram.finish(reader.0).map_err(|error| {
                    StoreError::new(
                        StoreErrorKind::Authentication,
                        format!("the server at {} has not proven that it knows the password", login.place),
                    )
                    .detail(error.to_string())
                    .next("Make sure that this is the server you mean.")
                })?;
                *proven = true;
            }
            (2, _) => return Err(unsupported(login, "Kerberos V5")),
            (7 | 8, _) => return Err(unsupported(login, "GSSAPI")),
            (9, _) => return Err(unsupported(login, "SSPI")),
            _ => return Err(malformed()),
        }
        Ok(())
    }
}

fn password(login: &Login) -> Result<&str, StoreError> {
    login.password.as_ref().map(|password| password.0.as_str()).ok_or_else(|| {
        let error = StoreError::new(
            StoreErrorKind::Authentication,
            format!("{} asks for a password for role `{}` and none is known", login.place, login.user),
        )
        .next("Set PGPASSWORD, add a line to ~/.pgpass, or use --password-file.");
        match &login.no_password_because {
            Some(reason) => error.detail(reason.clone()),
            None => error,
        }
    })
}

fn unsupported(login: &Login, method: &str) -> StoreError {
    StoreError::new(
        StoreErrorKind::Authentication,
        format!("{} asks for authentication by {method}, which Plimsoll does not speak", login.place),
    )
    .next("Allow trust, password, md5 or scram-sha-256 for this user and host in pg_hba.conf.")
}

/// The server's refusal of a connection, classed by SQLSTATE.
pub(crate) fn refusal(error: &ServerError<'_>, login: &Login) -> StoreError {
    use StoreErrorKind as K;
    let Login { place, user, database, .. } = login;
    let wants_tls = [&b"no encryption"[..], b"SSL off"].iter().any(|words| contains(error.message, words));
    let (kind, what, next) = match error.code {
        b"28P01" => (
            K::Authentication,
            format!("{place} does not accept the password for role `{user}`"),
            "Check PGPASSWORD, ~/.pgpass or the file given with --password-file.",
        ),
        b"28000" if wants_tls => (
            K::Authentication,
            format!("{place} does not accept role `{user}` without TLS, which Plimsoll does not speak yet"),
            "Allow this host without TLS in pg_hba.conf (a `host` or `hostnossl` line), or connect through the Unix \
             socket on the server's own machine.",
        ),
        b"28000" => (
            K::Authentication,
            format!("{place} does not let role `{user}` in"),
            "Check the role's name, and the lines of pg_hba.conf for this user, database and host.",
        ),
        b"3D000" => (
            K::Usage,
            format!("there is no database `{database}` at {place}"),
            "Name another database in the URL, or create it with createdb.",
        ),
        b"42501" => (
            K::Permission,
            format!("role `{user}` may not connect to database `{database}` at {place}"),
            "Grant it CONNECT on the database, or use another role.",
        ),
        b"53300" => {
            (K::Store, format!("{place} takes no more connections"), "Use fewer clients, or raise max_connections.")
        }
        b"57P03" => (K::Unreachable, format!("{place} does not take connections now"), "Wait until it has started."),
        _ => (K::Store, format!("{place} refused the connection"), ""),
    };
    let mut refused = StoreError::new(kind, what).detail(error.code_and_words());
    if !next.is_empty() {
        refused = refused.next(next);
    }
    refused
}

fn contains(text: &[u8], words: &[u8]) -> bool {
    text.windows(words.len()).any(|window| window == words)
}
