//! Where to connect and as whom: a URL, and the environment for what it does not say.
//!
//! | URL | |
//! |---|---|
//! | `redis://user@host:6379/0`, `valkey://…` | TCP; the path is the database's number |
//! | `redis+unix:///path/to.sock?db=0`, `valkey+unix://…` | a Unix socket |
//! | `redis://?socket=/path/to.sock` | the same |
//! | `rediss://…`, `valkeys://…` | TLS; `?cacert=FILE` says whom to trust instead of this machine's roots, `cert=FILE&key=FILE` who we are, `insecure=yes` that nothing is checked |
//!
//! A password is taken from where the caller has it (`--password-file`, or out of the URL), else from
//! `REDISCLI_AUTH` or `VALKEYCLI_AUTH`, as `redis-cli` and `valkey-cli` do. No error shows one, or a part of a URL that
//! may be a piece of one.

use std::fmt;
use std::path::PathBuf;

use plimsoll_core::{Address, StoreError, StoreErrorKind};
use plimsoll_tls::{ClientCertificate, Roots, TlsClient, TlsOptions, Verify};

const PORT: u16 = 6379;
const FORM: &str = "Write it as redis://user@host:6379/0 or redis+unix:///path/to.sock?db=0";
/// Variables that hold a password, the first that is set wins.
const PASSWORD_VARIABLES: [&str; 2] = ["REDISCLI_AUTH", "VALKEYCLI_AUTH"];

/// A password, which shows itself to nobody but the server.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// Wraps a password.
    pub fn new(password: impl Into<String>) -> Self {
        Self(password.into())
    }

    /// For the server, and nobody else.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(a password)")
    }
}

/// As whom a connection logs in, and to which database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// The user of an access list; none is the default user.
    pub user: Option<String>,
    /// The password, if one is known.
    pub password: Option<Password>,
    /// The number of the database.
    pub database: u32,
    /// Where the server is, for messages; without credentials.
    pub place: String,
}

/// A server, and how to log in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Where it listens.
    pub address: Address,
    /// How it is spoken to through TLS, where it is.
    pub tls: Option<TlsOptions>,
    /// As whom.
    pub login: Login,
}

impl Endpoint {
    /// Our side of TLS, where TLS is spoken.
    ///
    /// # Errors
    /// `Usage` or `Missing` when certificates cannot be read.
    pub fn tls_client(&self) -> Result<Option<TlsClient>, StoreError> {
        self.tls.as_ref().map(TlsClient::new).transpose()
    }

    /// The host that a certificate has to be for.
    pub fn host(&self) -> &str {
        match &self.address {
            Address::Tcp(host, _) => host,
            Address::Unix(_) => "localhost",
        }
    }
}

/// Finds out where `url` leads. `password`, where it is known already, wins over the environment, which `var` looks up.
///
/// # Errors
/// `Usage`, when the URL is none of these.
pub fn resolve(
    url: &str,
    password: Option<&str>,
    var: &dyn Fn(&str) -> Option<String>,
) -> Result<Endpoint, StoreError> {
    let (scheme, rest) = url.split_once("://").ok_or_else(|| usage("this is no URL", FORM))?;
    let (server, transport) = match scheme {
        "redis" | "valkey" => (scheme, Transport::Tcp),
        "rediss" => ("redis", Transport::Tls),
        "valkeys" => ("valkey", Transport::Tls),
        "redis+unix" => ("redis", Transport::Unix),
        "valkey+unix" => ("valkey", Transport::Unix),
        _ => return Err(usage("the URL's scheme is none of redis, rediss, redis+unix, valkey, valkeys", FORM)),
    };
    let (rest, query) = rest.split_once('?').map_or((rest, ""), |(rest, query)| (rest, query));
    let (authority, path) = rest.split_once('/').map_or((rest, ""), |(authority, path)| (authority, path));
    // Then a password may have been cut in the middle: nothing of it must be shown.
    if !authority.contains('@') && (path.contains('@') || query.contains('@')) {
        return Err(usage(
            "the URL has an `@` after its first `/` or `?`",
            "Write `/` as %2F, `?` as %3F and `@` as %40 inside user and password.",
        ));
    }
    let (user, host) = authority.rsplit_once('@').map_or(("", authority), |(user, host)| (user, host));
    let (user, in_url) = user.split_once(':').map_or((user, ""), |(user, word)| (user, word));
    let (mut socket, mut database) = (String::new(), String::new());
    let mut files = TlsFiles::default();
    match transport {
        Transport::Unix if !host.is_empty() => {
            return Err(usage("the URL of a Unix socket names a host", "Write three slashes: redis+unix:///path"));
        }
        Transport::Unix => socket = format!("/{}", decode(path)?),
        Transport::Tcp | Transport::Tls => database = decode(path)?,
    }
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("socket", value)) if transport == Transport::Tcp && host.is_empty() => socket = decode(value)?,
            Some(("db", value)) => database = decode(value)?,
            Some((name, value)) if transport == Transport::Tls && files.take(name, &decode(value)?) => {}
            // What was in it has been taken out.
            Some(("password", "")) => {}
            _ => {
                let next =
                    "Known are `db`; `socket` where there is no host; cacert, cert, key and insecure=yes with TLS.";
                return Err(usage("the URL has a parameter that is not known", next));
            }
        }
    }
    let database = match database.as_str() {
        "" => 0,
        number => number
            .parse()
            .map_err(|_| usage("the database in the URL is not a number", "Write it as redis://host:6379/0"))?,
    };
    let (address, place) = if socket.is_empty() {
        let (host, port) = host_and_port(host)?;
        let shown = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let scheme = if transport == Transport::Tls { format!("{server}s") } else { server.to_owned() };
        (Address::Tcp(host, port), format!("{scheme}://{shown}:{port}/{database}"))
    } else {
        if socket == "/" {
            return Err(usage("the URL names no socket", FORM));
        }
        let place = format!("{server}+unix://{socket}?db={database}");
        (Address::Unix(PathBuf::from(socket)), place)
    };
    let known = |text: String| (!text.is_empty()).then_some(text);
    let password = password
        .map(str::to_owned)
        .or(known(decode(in_url)?))
        .or_else(|| PASSWORD_VARIABLES.iter().find_map(|name| var(name).and_then(known)));
    let login = Login { user: known(decode(user)?), password: password.map(Password::new), database, place };
    let tls = if transport == Transport::Tls { Some(files.options()?) } else { None };
    Ok(Endpoint { address, tls, login })
}

/// What a URL says of TLS, by the names of `redis-cli`'s options.
#[derive(Default)]
struct TlsFiles {
    cacert: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    insecure: bool,
}

impl TlsFiles {
    /// False when the parameter is none of these.
    fn take(&mut self, name: &str, value: &str) -> bool {
        match name {
            "cacert" => self.cacert = Some(PathBuf::from(value)),
            "cert" => self.cert = Some(PathBuf::from(value)),
            "key" => self.key = Some(PathBuf::from(value)),
            "insecure" if matches!(value, "yes" | "no") => self.insecure = value == "yes",
            _ => return false,
        }
        true
    }

    fn options(self) -> Result<TlsOptions, StoreError> {
        let certificate = match (self.cert, self.key) {
            (Some(certificate), Some(key)) => Some(ClientCertificate { certificate, key }),
            (None, None) => None,
            _ => return Err(usage("the URL has only one of cert and key", "Give both, or neither.")),
        };
        Ok(TlsOptions {
            verify: if self.insecure { Verify::None } else { Verify::Full },
            roots: self.cacert.map_or(Roots::System, Roots::File),
            certificate,
            ..TlsOptions::default()
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    Tcp,
    Tls,
    Unix,
}

fn host_and_port(text: &str) -> Result<(String, u16), StoreError> {
    let (host, port) = match text.strip_prefix('[') {
        Some(bracketed) => {
            let (host, rest) = bracketed
                .split_once(']')
                .ok_or_else(|| usage("the URL's host has a `[` without a `]`", "Write redis://[::1]:6379/0"))?;
            (host, rest.strip_prefix(':').unwrap_or(rest))
        }
        None => text.split_once(':').unwrap_or((text, "")),
    };
    let host = match host {
        "" => "localhost".to_owned(),
        host => decode(host)?,
    };
    if host.contains(',') {
        return Err(usage("several hosts are named, and one server is measured at a time", "Name one host."));
    }
    match port {
        "" => Ok((host, PORT)),
        port => match port.parse() {
            Ok(port) if port > 0 => Ok((host, port)),
            _ => Err(usage("the port is not a number from 1 to 65535", FORM)),
        },
    }
}

/// `%41` is `A`.
fn decode(text: &str) -> Result<String, StoreError> {
    let bad =
        || usage("the URL has a `%` that is not followed by two hexadecimal digits of UTF-8", "Write `%` as %25.");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first == b'%' {
            let (hex, after) = after.split_at_checked(2).ok_or_else(bad)?;
            let hex = std::str::from_utf8(hex).ok().filter(|hex| hex.bytes().all(|digit| digit.is_ascii_hexdigit()));
            bytes.push(hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()).ok_or_else(bad)?);
            rest = after;
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8(bytes).map_err(|_| bad())
}

fn usage(what: impl Into<String>, next: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::Usage, what).next(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nowhere(_: &str) -> Option<String> {
        None
    }

    fn at(url: &str) -> Endpoint {
        resolve(url, None, &nowhere).unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    #[test]
    fn every_form_of_a_url_leads_somewhere() {
        let tcp = |host: &str, port| Address::Tcp(host.into(), port);
        let unix = |path: &str| Address::Unix(path.into());
        for (url, address, database, place) in [
            ("redis://", tcp("localhost", 6379), 0, "redis://localhost:6379/0"),
            ("redis://db.example/3", tcp("db.example", 6379), 3, "redis://db.example:6379/3"),
            ("valkey://db:7000", tcp("db", 7000), 0, "valkey://db:7000/0"),
            ("redis://[::1]:7000/1", tcp("::1", 7000), 1, "redis://[::1]:7000/1"),
            ("redis://h?db=2", tcp("h", 6379), 2, "redis://h:6379/2"),
            ("redis+unix:///run/r.sock?db=4", unix("/run/r.sock"), 4, "redis+unix:///run/r.sock?db=4"),
            ("valkey+unix:///run/a%20b", unix("/run/a b"), 0, "valkey+unix:///run/a b?db=0"),
            ("redis://?socket=/run/r.sock", unix("/run/r.sock"), 0, "redis+unix:///run/r.sock?db=0"),
        ] {
            let endpoint = at(url);
            assert_eq!(
                (endpoint.address, endpoint.login.database, endpoint.login.place.as_str(), endpoint.tls),
                (address, database, place, None),
                "{url}"
            );
        }
        assert_eq!(
            (at("rediss://h").tls, at("valkeys://h").tls),
            (Some(TlsOptions::default()), Some(TlsOptions::default()))
        );
        let own = at("rediss://h?cacert=/ca&cert=/c&key=/k&insecure=no").tls.unwrap();
        assert_eq!((own.roots, own.verify), (Roots::File("/ca".into()), Verify::Full));
        assert_eq!(own.certificate.unwrap().key, PathBuf::from("/k"));
        assert_eq!(at("rediss://h?insecure=yes").tls.unwrap().verify, Verify::None);
        assert_eq!(at("rediss://h").login.place, "rediss://h:6379/0");
    }

    #[test]
    fn a_password_is_taken_from_the_first_place_that_has_one() {
        let env = |name: &str| (name == "REDISCLI_AUTH").then(|| "from env".to_owned());
        let password = |url: &str, given: Option<&str>| {
            let login = resolve(url, given, &env).unwrap().login;
            (login.user, login.password)
        };
        let is = |user: Option<&str>, word: &str| (user.map(str::to_owned), Some(Password::new(word)));
        assert_eq!(password("redis://ada:in%40url@h", Some("given")), is(Some("ada"), "given"));
        assert_eq!(password("redis://ada:in%40url@h", None), is(Some("ada"), "in@url"));
        assert_eq!(password("redis://:word@h", None), is(None, "word"));
        assert_eq!(password("redis://ada@h", None), is(Some("ada"), "from env"));
        assert_eq!(at("redis://h").login.password, None);
    }

    #[test]
    fn a_bad_url_is_refused_and_nothing_secret_is_shown() {
        for url in [
            "redis:/h",
            "http://h",
            "redis://h/one",
            "redis://h:0",
            "redis://h:99999",
            "redis://a,b",
            "redis://h?bad=1",
            "redis://h?cacert=/ca",
            "rediss://h?cert=/c",
            "rediss://h?insecure=perhaps",
            "redis+unix://h/path",
            "redis+unix://",
            "redis://se/cret@h",
            "redis://u:%zz@h",
            "redis://[::1",
        ] {
            let error = resolve(url, Some("secret"), &nowhere).unwrap_err();
            assert_eq!(error.kind, StoreErrorKind::Usage, "{url}");
            assert!(error.next.is_some(), "{url}");
            assert!(!format!("{error:?}").contains("cret"), "{url}: {error:?}");
        }
        let endpoint = resolve("redis://u:hidden@h", None, &nowhere).unwrap();
        assert!(!format!("{endpoint:?}").contains("hidden"));
    }
}
