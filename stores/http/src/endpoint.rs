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

use std::path::PathBuf;

use plimsoll_core::{Address, StoreError};
use plimsoll_endpoint::{Password, TlsFiles, Url, decode, host_and_port, port, shown_host, usage};

const FORM: &str = "Write it as http://host:80/base, https://host/base or http+unix:///path/to.sock";

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
pub type Endpoint = plimsoll_endpoint::Endpoint<Login>;

/// The server at a Unix socket, called `place` in messages.
pub fn at_socket(socket: PathBuf, place: &str) -> Endpoint {
    let login = Login {
        user: None,
        password: None,
        host: "localhost".to_owned(),
        base: String::new(),
        place: place.to_owned(),
    };
    Endpoint { address: Address::Unix(socket), tls: None, login }
}

/// Finds out where `url` leads. `password`, where it is known already, wins over the URL's.
///
/// # Errors
/// `Usage`, when the URL is none of these.
pub fn resolve(url: &str, password: Option<&str>) -> Result<Endpoint, StoreError> {
    let url = Url::split(url, &["http", "https", "http+unix"], FORM)?;
    let (is_tls, is_unix) = (url.scheme == "https", url.scheme == "http+unix");
    let path = url.path.map(|path| format!("/{path}")).unwrap_or_default();
    let mut base = if is_unix { "" } else { path.as_str() };
    let parameters = url.parameters()?;
    let mut files = TlsFiles::default();
    for (name, value) in &parameters {
        match name.as_str() {
            "base" if is_unix && value.starts_with('/') => base = value,
            name if is_tls && files.take(name, value) => {}
            // What was in it has been taken out.
            "password" if value.is_empty() => {}
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
    let password = password.map(str::to_owned).or(in_url).map(Password::new);
    if password.is_some() && user.is_none() {
        return Err(usage("there is a password and no user", "Write the user into the URL: http://user@host"));
    }
    // It must not end the field it stands in.
    if user.as_ref().is_some_and(|user| user.contains(':')) {
        return Err(usage("a user of Basic authentication has no colon", "Name another."));
    }
    let host = if url.hosts.is_empty() { "localhost" } else { url.hosts }.to_owned();
    let login = Login { user, password, host, base, place };
    let tls = if is_tls { Some(files.options()?) } else { None };
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
