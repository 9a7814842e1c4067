//! Where to ask and as whom: a URL.
//!
//! | URL | |
//! |---|---|
//! | `http://user@host:80/base` | TCP; `/base` stands before every target |
//! | `https://…` | TLS; `?cacert=FILE` says whom to trust instead of this machine's roots, `cert=FILE&key=FILE` who we are, `insecure=yes` that nothing is checked |
//! | `http+unix:///path/to.sock?base=/base` | a Unix socket |
//!
//! A password is taken from where the caller has it (`--password-file`, or out of the URL). No error shows one, or a
//! part of a URL that may be a piece of one.

use std::fmt;
use std::path::PathBuf;

use plimsoll_core::{Address, StoreError, StoreErrorKind};
use plimsoll_tls::{ClientCertificate, Roots, TlsClient, TlsOptions, Verify};

const FORM: &str = "Write it as http://host:80/base, https://host/base or http+unix:///path/to.sock";

/// A password, which shows itself to nobody but the server.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// For the server, and nobody else.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(a password)")
    }
}

/// What every request says besides its target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// The user of Basic authentication; nobody says who they are without.
    pub user: Option<String>,
    /// The user's password, if one is known.
    pub password: Option<Password>,
    /// The field `Host`.
    pub host: String,
    /// Stands before every target; without a `/` at its end, so empty for a whole server.
    pub base: String,
    /// Where the server is, for messages; without credentials.
    pub place: String,
}

/// A server, and how to ask it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Where it listens.
    pub address: Address,
    /// How it is spoken to through TLS, where it is.
    pub tls: Option<TlsOptions>,
    /// What requests say.
    pub login: Login,
}

impl Endpoint {
    /// The server at a Unix socket, called `place` in messages.
    pub fn unix(socket: PathBuf, place: &str) -> Self {
        let login = Login {
            user: None,
            password: None,
            host: "localhost".to_owned(),
            base: String::new(),
            place: place.to_owned(),
        };
        Self { address: Address::Unix(socket), tls: None, login }
    }

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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    Tcp,
    Tls,
    Unix,
}

/// Finds out where `url` leads. `password`, where it is known already, wins over the URL's.
///
/// # Errors
/// `Usage`, when the URL is none of these.
pub fn resolve(url: &str, password: Option<&str>) -> Result<Endpoint, StoreError> {
    let (scheme, rest) = url.split_once("://").ok_or_else(|| usage("this is no URL", FORM))?;
    let (transport, default_port) = match scheme {
        "http" => (Transport::Tcp, 80),
        "https" => (Transport::Tls, 443),
        "http+unix" => (Transport::Unix, 0),
        _ => return Err(usage("the URL's scheme is none of http, https, http+unix", FORM)),
    };
    let (rest, query) = rest.split_once('?').map_or((rest, ""), |(rest, query)| (rest, query));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    // Then a password may have been cut in the middle: nothing of it must be shown.
    if !authority.contains('@') && (path.contains('@') || query.contains('@')) {
        return Err(usage(
            "the URL has an `@` after its first `/` or `?`",
            "Write `/` as %2F, `?` as %3F and `@` as %40 inside user and password, and `@` as %40 in the path.",
        ));
    }
    let (user, host) = authority.rsplit_once('@').map_or(("", authority), |(user, host)| (user, host));
    let (user, in_url) = user.split_once(':').map_or((user, ""), |(user, word)| (user, word));
    let mut base = if transport == Transport::Unix { String::new() } else { path.to_owned() };
    let mut files = TlsFiles::default();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("base", value)) if transport == Transport::Unix && value.starts_with('/') => base = value.to_owned(),
            Some((name, value)) if transport == Transport::Tls && files.take(name, &decode(value)?) => {}
            // What was in it has been taken out.
            Some(("password", "")) => {}
            _ => {
                let next = "Known are `base` of a Unix socket; cacert, cert, key and insecure=yes with https. The \
                            query of a request belongs to the workload.";
                return Err(usage("the URL has a parameter that is not known", next));
            }
        }
    }
    let base = base.trim_end_matches('/').to_owned();
    if !base.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
        return Err(usage("the URL's path has characters that no path has", "Percent-encode them."));
    }
    let (address, shown) = if transport == Transport::Unix {
        if !host.is_empty() || path.len() < 2 {
            return Err(usage("the URL names no socket", "Write three slashes: http+unix:///path/to.sock"));
        }
        let socket = decode(path)?;
        let shown = format!("http+unix://{socket}{base}");
        (Address::Unix(PathBuf::from(socket)), shown)
    } else {
        let (name, port) = host_and_port(host, default_port)?;
        let bracketed = if name.contains(':') { format!("[{name}]") } else { name.clone() };
        (Address::Tcp(name, port), format!("{scheme}://{bracketed}:{port}{base}"))
    };
    let known = |text: String| (!text.is_empty()).then_some(text);
    let user = known(decode(user)?);
    let password = password.map(str::to_owned).or(known(decode(in_url)?)).map(Password);
    if password.is_some() && user.is_none() {
        return Err(usage("there is a password and no user", "Write the user into the URL: http://user@host"));
    }
    // It must not end the field it stands in.
    if user.as_ref().is_some_and(|user| user.contains(':')) {
        return Err(usage("a user of Basic authentication has no colon", "Name another."));
    }
    let host = match (&address, host) {
        (Address::Unix(_), _) | (_, "") => "localhost".to_owned(),
        (Address::Tcp(..), host) => host.to_owned(),
    };
    let login = Login { user, password, host, base, place: shown };
    let tls = if transport == Transport::Tls { Some(files.options()?) } else { None };
    Ok(Endpoint { address, tls, login })
}

/// What a URL says of TLS.
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

fn host_and_port(text: &str, default_port: u16) -> Result<(String, u16), StoreError> {
    let (host, port) = match text.strip_prefix('[') {
        Some(bracketed) => {
            let (host, rest) = bracketed
                .split_once(']')
                .ok_or_else(|| usage("the URL's host has a `[` without a `]`", "Write http://[::1]:80/"))?;
            (host, rest.strip_prefix(':').unwrap_or(rest))
        }
        None => text.split_once(':').unwrap_or((text, "")),
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':');
    if !host.bytes().all(is_plain) {
        return Err(usage("the URL's host has characters that no host name has", "Name one host, in ASCII."));
    }
    let host = if host.is_empty() { "localhost" } else { host };
    match port {
        "" => Ok((host.to_owned(), default_port)),
        port => match port.parse() {
            Ok(port) if port > 0 => Ok((host.to_owned(), port)),
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

    #[test]
    fn every_form_of_a_url_leads_somewhere() {
        let tcp = |host: &str, port| Address::Tcp(host.into(), port);
        for (url, address, host, base, place) in [
            ("http://", tcp("localhost", 80), "localhost", "", "http://localhost:80"),
            ("http://h:81/a/b/", tcp("h", 81), "h:81", "/a/b", "http://h:81/a/b"),
            ("https://h", tcp("h", 443), "h", "", "https://h:443"),
            ("http://[::1]:81", tcp("::1", 81), "[::1]:81", "", "http://[::1]:81"),
            ("http://u:p@h/", tcp("h", 80), "h", "", "http://h:80"),
            (
                "http+unix:///run/a%20b?base=/x",
                Address::Unix("/run/a b".into()),
                "localhost",
                "/x",
                "http+unix:///run/a b/x",
            ),
        ] {
            let endpoint = resolve(url, None).unwrap_or_else(|error| panic!("{url}: {error}"));
            let login = &endpoint.login;
            assert_eq!((&endpoint.address, &*login.host, &*login.base), (&address, host, base), "{url}");
            assert_eq!(login.place, place);
            assert_eq!(endpoint.tls.is_some(), url.starts_with("https"));
        }
        let tls = resolve("https://h?cacert=/ca&cert=/c&key=/k", None).unwrap().tls.unwrap();
        assert_eq!((tls.roots, tls.verify), (Roots::File("/ca".into()), Verify::Full));
        assert_eq!(resolve("https://h?insecure=yes", None).unwrap().tls.unwrap().verify, Verify::None);
    }

    #[test]
    fn a_bad_url_is_refused_and_nothing_secret_is_shown() {
        for url in [
            "http:/h",
            "ftp://h",
            "http://h:0",
            "http://h:99999",
            "http://h?q=1",
            "http://h?cacert=/ca",
            "https://h?cert=/c",
            "http+unix://h/path",
            "http+unix://",
            "http://se/cret@h",
            "http://u:%zz@h",
            "http://[::1",
            "http://:secret@h",
            "http://h\r\nX: y/",
            "http://h/a b",
        ] {
            let error = resolve(url, Some("secret")).unwrap_err();
            assert_eq!(error.kind, StoreErrorKind::Usage, "{url}");
            assert!(error.next.is_some(), "{url}");
            assert!(!format!("{error:?}").contains("cret"), "{url}: {error:?}");
        }
        let endpoint = resolve("http://u:hidden@h", None).unwrap();
        assert!(!format!("{endpoint:?}").contains("hidden"));
    }
}
