//! Address and credentials in a URL.
//!
//! | URL | |
//! |---|---|
//! | `http://user@host:80/base?query` | TCP; `/base` stands before every target; the query belongs to what the URL itself names |
//! | `https://…` | TLS; the store's parameters say whom to trust, and who we are |
//! | `http+unix:///path/to.sock?base=/base` | a Unix socket |
//!
//! Of a URL with several hosts each is a server of its own: [`plimsoll_endpoint::each_host`].
//!
//! A password is taken from where the caller has it (`--password-file`, or out of the URL). No error shows one, or a
//! part of a URL that may be a piece of one.

use std::path::PathBuf;

use plimsoll_core::{Address, StoreError};
use plimsoll_endpoint::{Password, TlsFiles, Url, decode, host_and_port, port, shown_host, usage};

const FORM: &str = "Write it as http://host:80/base, https://host/base or http+unix:///path/to.sock";

/// The version of HTTP that is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Version {
    /// HTTP/1.1.
    #[default]
    Http11,
    /// HTTP/2: agreed on with TLS (ALPN), or known beforehand.
    Http2,
}

impl Version {
    /// Returns the name of the version.
    pub fn name(self) -> &'static str {
        match self {
            Version::Http11 => "HTTP/1.1",
            Version::Http2 => "HTTP/2",
        }
    }
}

/// Parts that all requests share besides their target.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Login {
    /// User of Basic authentication; without one no credentials are sent.
    pub user: Option<String>,
    /// The user's password, if one is known.
    pub password: Option<Password>,
    /// The field `Host`.
    pub host: String,
    /// Stands before every target; without a `/` at its end, so empty for a whole server.
    pub base: String,
    /// The URL's path has one more slash at its end.
    pub ends_with_slash: bool,
    /// The URL's query, for requests without a path of their own.
    pub query: String,
    /// Address of the server, for messages; without credentials.
    pub place: String,
    /// The version of HTTP that is spoken.
    pub version: Version,
    /// True if the connection uses TLS.
    pub is_tls: bool,
}

impl Login {
    /// The target that the URL names itself.
    pub(crate) fn own_target(&self) -> String {
        let path = match (self.base.as_str(), self.ends_with_slash) {
            ("", _) => "/".to_owned(),
            (base, true) => format!("{base}/"),
            (base, false) => base.to_owned(),
        };
        if self.query.is_empty() { path } else { format!("{path}?{}", self.query) }
    }
}

/// A server, and how to ask it.
pub type Endpoint = plimsoll_endpoint::Endpoint<Login>;

/// Finds out where `url` leads, over TLS with `files`, and that `version` is spoken there. `password`, where it is known already, wins over the URL's.
///
/// # Errors
/// `Usage`, when the URL is none of these.
pub fn resolve(
    url: &str,
    password: Option<&Password>,
    files: TlsFiles,
    version: Version,
) -> Result<Endpoint, StoreError> {
    let url = Url::split(url, &["http", "https", "http+unix"], FORM)?;
    let (is_tls, is_unix) = (url.scheme == "https", url.scheme == "http+unix");
    let path = url.path.map(|path| format!("/{path}")).unwrap_or_default();
    let mut base = if is_unix { "" } else { path.as_str() };
    let parameters = if is_unix { url.parameters()? } else { Vec::new() };
    for (name, value) in &parameters {
        match name.as_str() {
            "base" if value.starts_with('/') => base = value,
            _ => {
                let next = "Known is `base`. The query of a request belongs to its path.";
                return Err(usage("the URL has a parameter that is not known", next));
            }
        }
    }
    let query = if is_unix { "" } else { url.query };
    if is_tls && query.split('&').any(|pair| ["cacert=", "insecure="].iter().any(|name| pair.starts_with(name))) {
        let next = "Write --set http.cacert=FILE, http.cert=FILE, http.key=FILE or http.insecure=true instead.";
        return Err(usage("whom to trust is no part of a URL, whose query is asked for", next));
    }
    let ends_with_slash = base.ends_with('/');
    let base = base.trim_end_matches('/').to_owned();
    if !base.bytes().chain(query.bytes()).all(|byte| byte.is_ascii_graphic() && byte != b'#') {
        return Err(usage("the URL's path or query has characters that no path has", "Percent-encode them."));
    }
    let (address, place) = if is_unix {
        if !url.hosts.is_empty() || path.len() < 2 {
            return Err(usage("the URL names no socket", "Write three slashes: http+unix:///path/to.sock"));
        }
        let socket = decode(&path)?;
        let place = format!("http+unix://{socket}{base}");
        (Address::Unix(PathBuf::from(socket)), place)
    } else {
        let (host, port) = host_of(url.hosts, if is_tls { 443 } else { 80 })?;
        let place = format!("{}://{}:{port}{base}", url.scheme, shown_host(host));
        (Address::Tcp(host.to_owned(), port), place)
    };
    let known = |text: String| (!text.is_empty()).then_some(text);
    let user = known(decode(url.user.unwrap_or_default())?);
    let in_url = known(decode(url.password.unwrap_or_default())?);
    let password = password.cloned().or(in_url.map(Password::new));
    if password.is_some() && user.is_none() {
        return Err(usage("there is a password and no user", "Write the user into the URL: http://user@host"));
    }
    // It must not end the field it stands in.
    if user.as_ref().is_some_and(|user| user.contains(':')) {
        return Err(usage("a user of Basic authentication has no colon", "Name another."));
    }
    let host = if url.hosts.is_empty() { "localhost" } else { url.hosts }.to_owned();
    let query = query.to_owned();
    let login = Login { user, password, host, base, ends_with_slash, query, place, version, is_tls };
    let mut tls = if is_tls { Some(files.options()?) } else { None };
    if let Some(tls) = tls.as_mut().filter(|_| version == Version::Http2) {
        // With the other one it can say that it speaks only that.
        tls.protocols = vec!["h2", "http/1.1"];
    }
    Ok(Endpoint { address, tls, login })
}

fn host_of(hosts: &str, default_port: u16) -> Result<(&str, u16), StoreError> {
    let (host, number) = host_and_port(hosts, "http://[::1]:80/")?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':');
    if !host.bytes().all(is_plain) {
        return Err(usage("the URL's host has characters that no host name has", "Name one host, in ASCII."));
    }
    let number = number.filter(|text| !text.is_empty()).map_or(Ok(default_port), |text| port(text, FORM))?;
    Ok((if host.is_empty() { "localhost" } else { host }, number))
}

#[cfg(test)]
mod tests {
    use plimsoll_core::StoreErrorKind;
    use plimsoll_tls::{Roots, Verify};

    use super::*;

    fn resolve(url: &str, password: Option<&Password>) -> Result<Endpoint, StoreError> {
        super::resolve(url, password, TlsFiles::default(), Version::Http2)
    }

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
        let with = |files: &[(&str, &str)]| {
            let mut all = TlsFiles::default();
            assert!(files.iter().all(|(name, value)| all.take(name, value)));
            super::resolve("https://h?key=7", None, all, Version::Http11)
        };
        let tls = with(&[("cacert", "/ca"), ("cert", "/c"), ("key", "/k")]).unwrap().tls.unwrap();
        assert_eq!((tls.roots, tls.verify), (Roots::File("/ca".into()), Verify::Full));
        let insecure = with(&[("insecure", "yes")]).unwrap();
        assert_eq!((insecure.tls.unwrap().verify, &*insecure.login.query), (Verify::None, "key=7"));
        assert!(with(&[("cert", "/c")]).is_err());
    }

    #[test]
    fn a_bad_url_is_refused_and_nothing_secret_is_shown() {
        for url in [
            "ftp://h",
            "http://h:0",
            "http://h?q=a b",
            "https://h?cacert=/ca",
            "http+unix:///s?q=1",
            "http+unix://h/path",
            "http+unix://",
            "http://se/cret@h",
            "http://:secret@h",
            "http://h\r\nX: y/",
            "http://h/a b",
        ] {
            let error = resolve(url, Some(&Password::new("secret"))).unwrap_err();
            assert_eq!(error.kind, StoreErrorKind::Usage, "{url}");
            assert!(error.next.is_some(), "{url}");
            assert!(!format!("{error:?}").contains("cret"), "{url}: {error:?}");
        }
        let endpoint = resolve("http://u:hidden@h", None).unwrap();
        assert!(!format!("{endpoint:?}").contains("hidden"));
    }
}
