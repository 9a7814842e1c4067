//! Authentication: trust, cleartext, MD5, SCRAM-SHA-256 and SCRAM-SHA-256-PLUS.

use std::borrow::Cow;

use plimsoll_core::{StoreError, StoreErrorKind};
use plimsoll_endpoint::Password;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, ScramSha256};

use super::message::{Reader, ServerError, broken, cstr, frame, unexpected};

/// Binding of a login to its TLS connection, which keeps a machine in between from passing it on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Binding {
    /// Never.
    Disable,
    /// Binds if both sides support it.
    #[default]
    Prefer,
    /// Or not at all.
    Require,
}

/// TLS under a login.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Channel {
    /// None.
    #[default]
    Plain,
    /// TLS, and the hash of the server's certificate where that is defined.
    Tls(Option<Vec<u8>>),
}

/// Login of a session, with its database.
#[derive(Debug, Clone, Default)]
pub struct Login {
    /// The role.
    pub user: String,
    /// The database.
    pub database: String,
    /// Password, if known.
    pub password: Option<Password>,
    /// Reason that no password is known, if there is one: for example a password file that others may read.
    pub no_password_because: Option<String>,
    /// Shown in the server's `pg_stat_activity` and logs.
    pub application_name: String,
    /// Command-line options for the server process (`-c name=value`), as in libpq's `options`.
    pub options: Option<String>,
    /// Binding to the TLS connection.
    pub binding: Binding,
    /// Server's URL for messages, without credentials.
    pub place: String,
}

/// State of authentication.
pub(crate) enum Auth {
    /// Waits for what the server asks.
    Asked,
    Scram(Box<Exchange>),
    /// AuthenticationOk came.
    Done,
}

/// A SCRAM exchange.
pub(crate) struct Exchange {
    scram: ScramSha256,
    /// True if the exchange is bound to the TLS connection.
    bound: bool,
    /// The server has proven that it knows the password too.
    proven: bool,
}

impl Auth {
    /// Takes an authentication request and appends the answer.
    pub(crate) fn request(
        &mut self,
        body: &[u8],
        login: &Login,
        channel: &Channel,
        out: &mut Vec<u8>,
    ) -> Result<(), StoreError> {
        let mut reader = Reader(body);
        let malformed = || unexpected(b'R', "during authentication");
        match (reader.array().map(u32::from_be_bytes).ok_or_else(malformed)?, &mut *self) {
            (0, Auth::Scram(exchange)) if !exchange.proven => return Err(not_proven(login)),
            (0, auth) => {
                let bound = matches!(auth, Auth::Scram(exchange) if exchange.bound);
                if login.binding == Binding::Require && !bound {
                    return Err(not_bound(login, "it let us in without"));
                }
                *self = Auth::Done;
            }
            // A required binding forbids to send the password in a form that can be passed on.
            (3 | 5, Auth::Asked) if login.binding == Binding::Require => {
                return Err(not_bound(login, "it asks for the password by a method without"));
            }
            (3, Auth::Asked) => {
                let password = password(login)?;
                frame(out, b'p', |out| cstr(out, &password));
            }
            (5, Auth::Asked) => {
                let salt: [u8; 4] = reader.0.try_into().map_err(|_| malformed())?;
                let hash = md5_hash(login.user.as_bytes(), password(login)?.as_bytes(), salt);
                frame(out, b'p', |out| cstr(out, &hash));
            }
            (10, Auth::Asked) => *self = Auth::Scram(Box::new(Exchange::begin(reader, login, channel, out)?)),
            (11, Auth::Scram(exchange)) if !exchange.proven => {
                let scram = &mut exchange.scram;
                scram.update(reader.0).map_err(|error| broken(format!("SCRAM authentication failed: {error}")))?;
                frame(out, b'p', |out| out.extend_from_slice(scram.message()));
            }
            (12, Auth::Scram(exchange)) if !exchange.proven => {
                let finished = exchange.scram.finish(reader.0);
                finished.map_err(|error| not_proven(login).detail(error.to_string()))?;
                exchange.proven = true;
            }
            (2, _) => return Err(unsupported(login, "Kerberos V5")),
            (7 | 8, _) => return Err(unsupported(login, "GSSAPI")),
            (9, _) => return Err(unsupported(login, "SSPI")),
            _ => return Err(malformed()),
        }
        Ok(())
    }
}

impl Exchange {
    /// Chooses one of the mechanisms that the server offers, and appends the first message.
    fn begin(
        mut offered: Reader<'_>,
        login: &Login,
        channel: &Channel,
        out: &mut Vec<u8>,
    ) -> Result<Exchange, StoreError> {
        let (mut plain, mut plus) = (false, false);
        for name in std::iter::from_fn(|| offered.cstr()).take_while(|name| !name.is_empty()) {
            plain |= name == SCRAM_SHA_256.as_bytes();
            plus |= name == SCRAM_SHA_256_PLUS.as_bytes();
        }
        // RFC 5802, section 6: a client that could bind says so when the server does not offer it, and the server
        // refuses if a machine in between has removed the offer.
        let (mechanism, binding) = match channel {
            Channel::Tls(Some(end_point)) if plus && login.binding != Binding::Disable => {
                (SCRAM_SHA_256_PLUS, ChannelBinding::tls_server_end_point(end_point.clone()))
            }
            _ if login.binding == Binding::Require => {
                return Err(not_bound(
                    login,
                    match channel {
                        Channel::Plain => "the connection has no TLS, and without it there is no",
                        Channel::Tls(None) => "the server's certificate has no hash that is defined for",
                        Channel::Tls(Some(_)) => "it does not offer",
                    },
                ));
            }
            _ if !plain => return Err(unsupported(login, "SASL without SCRAM-SHA-256")),
            Channel::Tls(Some(_)) if login.binding != Binding::Disable => {
                (SCRAM_SHA_256, ChannelBinding::unrequested())
            }
            _ => (SCRAM_SHA_256, ChannelBinding::unsupported()),
        };
        let scram = ScramSha256::new(password(login)?.as_bytes(), binding);
        frame(out, b'p', |out| {
            cstr(out, mechanism);
            out.extend_from_slice(&(scram.message().len() as u32).to_be_bytes());
            out.extend_from_slice(scram.message());
        });
        Ok(Exchange { scram, bound: mechanism == SCRAM_SHA_256_PLUS, proven: false })
    }
}

fn not_proven(login: &Login) -> StoreError {
    let what = format!("the server at {} has not proven that it knows the password", login.place);
    StoreError::new(StoreErrorKind::Authentication, what).next("Make sure that this is the server you mean.")
}

fn not_bound(login: &Login, why: &str) -> StoreError {
    let what = format!("channel_binding=require cannot be kept at {}: {why} channel binding", login.place);
    StoreError::new(StoreErrorKind::Authentication, what)
        .next("Use scram-sha-256 over TLS on the server, or channel_binding=prefer.")
}

fn password(login: &Login) -> Result<Cow<'_, str>, StoreError> {
    login.password.as_ref().map(Password::text).ok_or_else(|| {
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
            format!("{place} does not accept role `{user}` without TLS"),
            "Connect with sslmode=require, or allow this host without TLS in pg_hba.conf.",
        ),
        b"28000" if contains(error.message, b"client certificate") => (
            K::Authentication,
            format!("{place} wants a client certificate of role `{user}`"),
            "Name one with sslcert= and sslkey=, signed by an authority that the server trusts (its ssl_ca_file).",
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
        _ => (K::Store, format!("{place} refused the connection"), "Look it up in the server's log."),
    };
    StoreError::new(kind, what).detail(error.code_and_words()).next(next)
}

fn contains(text: &[u8], words: &[u8]) -> bool {
    text.windows(words.len()).any(|window| window == words)
}
