//! Authentication: mysql_native_password, caching_sha2_password, MariaDB's client_ed25519, and plugins without a
//! question (the socket's own user).
//!
//! What was not encrypted on its way could be read, and a server could be anybody: a password goes in clear only over
//! what cannot be listened to (a Unix socket, TLS), and never to a server that asks for it in clear.

use std::borrow::Cow;

use plimsoll_core::{StoreError, StoreErrorKind};
use plimsoll_endpoint::Password;
use plimsoll_endpoint::tls::TlsClient;
use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::packet::{Reader, ServerError, broken, read_text, unexpected};
use super::{ed25519, rsa};

const NATIVE: &[u8] = b"mysql_native_password";
const CACHING_SHA2: &[u8] = b"caching_sha2_password";
const ED25519: &[u8] = b"client_ed25519";

/// Encryption of a session, if the server supports it.
#[derive(Debug, Clone)]
pub struct Encryption {
    /// Client's side of TLS: its checks and its certificate.
    pub client: TlsClient,
    /// The name that the server's certificate is to be for.
    pub host: String,
    /// True if a session requires encryption. Otherwise a server without it is used in clear.
    pub required: bool,
}

/// Login of a session, with its database.
#[derive(Debug, Clone, Default)]
pub struct Login {
    /// The user.
    pub user: String,
    /// The database to be in; `None` for none.
    pub database: Option<String>,
    /// The user's password, if one is known.
    pub password: Option<Password>,
    /// Reason that no password is known, if there is one: for example a configuration file that everybody may write
    /// to.
    pub no_password_because: Option<String>,
    /// Shown in the server's `performance_schema.session_connect_attrs`.
    pub program_name: String,
    /// True if no other machine can listen on the way: a Unix socket.
    pub private_way: bool,
    /// Encryption of the way; `None` for none.
    pub encryption: Option<Encryption>,
    /// Server's URL for messages, without credentials.
    pub place: String,
}

impl Login {
    fn password(&self) -> Cow<'_, str> {
        self.password.as_ref().map(Password::text).unwrap_or_default()
    }
}

/// A way to prove who we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    Native,
    CachingSha2,
    Ed25519,
}

impl Method {
    fn of_name(name: &[u8]) -> Option<Method> {
        [Method::Native, Method::CachingSha2, Method::Ed25519].into_iter().find(|method| method.name() == name)
    }

    fn name(self) -> &'static [u8] {
        match self {
            Method::Native => NATIVE,
            Method::CachingSha2 => CACHING_SHA2,
            Method::Ed25519 => ED25519,
        }
    }

    /// Bytes of the random text that a server sends to be answered; a zero may follow.
    fn nonce_bytes(self) -> usize {
        match self {
            Method::Native | Method::CachingSha2 => 20,
            Method::Ed25519 => 32,
        }
    }

    /// The proof that we know the password; nothing for no password, but a signature by nothing.
    fn proof(self, password: &[u8], nonce: &[u8]) -> Vec<u8> {
        match self {
            Method::Ed25519 => ed25519::proof(password, nonce).to_vec(),
            _ if password.is_empty() => Vec::new(),
            Method::Native => native_proof(password, nonce).to_vec(),
            Method::CachingSha2 => caching_sha2_proof(password, nonce).to_vec(),
        }
    }
}

/// SHA1(password) XOR SHA1(nonce, SHA1(SHA1(password))): "Secure Password Authentication".
fn native_proof(password: &[u8], nonce: &[u8]) -> [u8; 20] {
    let once = Sha1::digest(password);
    let twice = Sha1::digest(once);
    let mask = Sha1::new().chain_update(nonce).chain_update(twice).finalize();
    std::array::from_fn(|place| once[place] ^ mask[place])
}

/// SHA256(password) XOR SHA256(SHA256(SHA256(password)), nonce): "Caching SHA-2".
fn caching_sha2_proof(password: &[u8], nonce: &[u8]) -> [u8; 32] {
    let once = Sha256::digest(password);
    let twice = Sha256::digest(once);
    let mask = Sha256::new().chain_update(twice).chain_update(nonce).finalize();
    std::array::from_fn(|place| once[place] ^ mask[place])
}

/// State of authentication.
#[derive(Debug)]
pub(crate) struct Auth {
    method: Method,
    nonce: Vec<u8>,
    /// The server's RSA key was asked for.
    key_asked: bool,
    /// True if no other machine can listen.
    private_way: bool,
}

/// Client's reaction to a message of the server.
pub(crate) enum Reply {
    /// A packet with these bytes.
    Send(Vec<u8>),
    /// Waits for its next message.
    Wait,
    /// Login complete.
    Done,
}

impl Auth {
    /// Begins with what the greeting names. Another method is asked for later where the user has another.
    pub(crate) fn new(name: &[u8], nonce: &[u8], private_way: bool) -> Auth {
        let method = Method::of_name(name).unwrap_or(Method::Native);
        Auth { method, nonce: cut(nonce, method).to_vec(), key_asked: false, private_way }
    }

    /// The method's name, for the login.
    pub(crate) fn method_name(&self) -> &'static [u8] {
        self.method.name()
    }

    /// The proof that goes with the login.
    pub(crate) fn proof(&self, login: &Login) -> Vec<u8> {
        self.method.proof(login.password().as_bytes(), &self.nonce)
    }

    /// Takes what the server says after the login.
    pub(crate) fn take(&mut self, payload: &[u8], login: &Login) -> Result<Reply, StoreError> {
        match payload.split_first() {
            Some((0x00, _)) => Ok(Reply::Done),
            Some((0xff, _)) => Err(match ServerError::parse(payload) {
                Some(error) => refusal(&error, login),
                None => unexpected(payload, "during authentication"),
            }),
            Some((0xfe, switch)) => self.switch(switch, login),
            Some((0x01, more)) if self.method == Method::CachingSha2 => self.more(more, login),
            _ => Err(unexpected(payload, "during authentication")),
        }
    }

    /// AuthSwitchRequest: the user is known by another method.
    fn switch(&mut self, payload: &[u8], login: &Login) -> Result<Reply, StoreError> {
        let mut reader = Reader(payload);
        let name = read_text(&mut reader);
        self.method = Method::of_name(name).ok_or_else(|| unsupported(name, login))?;
        self.nonce = cut(reader.0, self.method).to_vec();
        self.key_asked = false;
        Ok(Reply::Send(self.proof(login)))
    }

    /// AuthMoreData of caching_sha2_password: the server knew the proof, or wants the password itself, or shows the
    /// key to encrypt that with.
    fn more(&mut self, payload: &[u8], login: &Login) -> Result<Reply, StoreError> {
        match payload {
            [0x03] => Ok(Reply::Wait),
            [0x04] if self.private_way => {
                let mut password = login.password().into_owned().into_bytes();
                password.push(0);
                Ok(Reply::Send(password))
            }
            [0x04] if !self.key_asked => {
                self.key_asked = true;
                Ok(Reply::Send(vec![0x02]))
            }
            key if self.key_asked => {
                let mut hidden = login.password().into_owned().into_bytes();
                hidden.push(0);
                if self.nonce.is_empty() {
                    return Err(unexpected(payload, "during authentication"));
                }
                for (byte, mask) in hidden.iter_mut().zip(self.nonce.iter().cycle()) {
                    *byte ^= mask;
                }
                let encrypted = rsa::encrypt(key, &hidden)
                    .map_err(|why| broken(format!("the server at {} sent an invalid key: {why}", login.place)))?;
                self.key_asked = false;
                Ok(Reply::Send(encrypted))
            }
            _ => Err(unexpected(payload, "during authentication")),
        }
    }
}

/// A nonce without the zero that ends it.
fn cut(nonce: &[u8], method: Method) -> &[u8] {
    &nonce[..nonce.len().min(method.nonce_bytes())]
}

fn unsupported(name: &[u8], login: &Login) -> StoreError {
    StoreError::new(
        StoreErrorKind::Authentication,
        format!(
            "{} asks user `{}` for authentication by {}, which Plimsoll does not speak",
            login.place,
            login.user,
            if name.is_empty() { "the method before MySQL 4.1".into() } else { String::from_utf8_lossy(name) }
        ),
    )
    .next(
        "Use a user identified by mysql_native_password, caching_sha2_password, ed25519 or, on a socket, unix_socket.",
    )
}

/// The server's refusal of a connection, classed by its number.
pub(crate) fn refusal(error: &ServerError<'_>, login: &Login) -> StoreError {
    use StoreErrorKind as K;
    let Login { place, user, .. } = login;
    let database = login.database.as_deref().unwrap_or_default();
    let (kind, what, next) = match error.number {
        1045 | 1698 if login.password.is_none() => (
            K::Authentication,
            format!("{place} does not let user `{user}` in, and no password is known"),
            "Set MYSQL_PWD, write one to ~/.my.cnf, or use --password-file.",
        ),
        1045 | 1698 => (
            K::Authentication,
            format!("{place} does not accept the password for user `{user}`"),
            "Check the user's name, MYSQL_PWD, ~/.my.cnf or the file given with --password-file. Who has to come by TLS, or \
             from another host, is refused with the same words.",
        ),
        1044 => (
            K::Permission,
            format!("user `{user}` may not use database `{database}` at {place}"),
            "Grant it, or use another user.",
        ),
        1049 => (
            K::Usage,
            format!("there is no database `{database}` at {place}"),
            "Name another database in the URL, or none.",
        ),
        1040 | 1203 | 1226 => {
            (K::Store, format!("{place} takes no more connections"), "Use fewer clients, or raise max_connections.")
        }
        1129 | 1130 => {
            (K::Authentication, format!("{place} accepts no user from this host"), "Make a user for this host.")
        }
        1053 => (K::Unreachable, format!("{place} does not take connections now"), "Wait until it has started."),
        _ if wants_tls(error) => (
            K::Authentication,
            format!("{place} does not accept user `{user}` without TLS"),
            "Say ssl-mode=REQUIRED in the URL, or connect through the Unix socket on the server's own machine.",
        ),
        _ => (K::Store, format!("{place} refused the connection"), "Look it up in the server's log."),
    };
    let detail = match (error.number, &login.no_password_because) {
        (1045 | 1698, Some(reason)) => format!("{}; {reason}", error.number_and_words()),
        _ => error.number_and_words(),
    };
    StoreError::new(kind, what).detail(detail).next(next)
}

/// `require_secure_transport` (3159 of MySQL; MariaDB has a number of its own for it).
fn wants_tls(error: &ServerError<'_>) -> bool {
    let words = b"secure_transport";
    error.number == 3159 || error.message.windows(words.len()).any(|window| window == words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(password: Option<&str>, private_way: bool) -> Login {
        Login {
            user: "u".into(),
            password: password.map(Password::new),
            private_way,
            place: "mysql://test".into(),
            ..Login::default()
        }
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Both computed by Python's hashlib from the formulas in the servers' documentation.
    #[test]
    fn proofs_are_those_of_the_documentation() {
        let nonce: Vec<u8> = (1..=20).collect();
        assert_eq!(hex(&native_proof(b"secret", &nonce)), NATIVE_PROOF);
        assert_eq!(hex(&caching_sha2_proof(b"secret", &nonce)), SHA2_PROOF);
        assert!(Method::Native.proof(b"", &nonce).is_empty());
    }

    const NATIVE_PROOF: &str = "b32bb3a583e1340c0a1108d58b1be49781ad8c2f";
    const SHA2_PROOF: &str = "746ebe205d56a0707acb3e796e834e0dd7b1d61743b26bd5202c7a623230c7c9";

    #[test]
    fn a_password_goes_in_clear_only_where_nobody_can_listen() {
        let private = login(Some("pw"), true);
        let mut auth = Auth::new(CACHING_SHA2, &[7; 21], true);
        assert!(matches!(auth.take(&[1, 3], &private), Ok(Reply::Wait)));
        assert!(matches!(auth.take(&[1, 4], &private), Ok(Reply::Send(sent)) if sent == b"pw\0"));
        let public = login(Some("pw"), false);
        let mut auth = Auth::new(CACHING_SHA2, &[7; 21], false);
        assert!(matches!(auth.take(&[1, 4], &public), Ok(Reply::Send(sent)) if sent == [2]), "it asks for the key");
        assert!(auth.take(&[1, 4], &public).is_err(), "and takes only a key then");
        assert!(Auth::new(NATIVE, &[7; 21], true).take(&[1, 4], &private).is_err());
        let mut auth = Auth::new(NATIVE, &[7; 21], true);
        let clear = auth.take(b"\xfemysql_clear_password\0", &private).err().expect("refused");
        assert!(clear.what.contains("mysql_clear_password"), "{clear}");
    }
}
