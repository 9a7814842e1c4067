//! URLs of servers: address, base and identity.
//!
//! | URL | |
//! |---|---|
//! | `ldap://cn=admin,dc=example,dc=com@host:389/dc=example,dc=com` | TCP; the user is the DN to bind as, the path the directory's base |
//! | `ldap://…?starttls=yes` | TLS, asked for on a connection that begins without |
//! | `ldaps://…` | TLS from the first byte on |
//! | `ldapi://%2Fpath%2Fto%2Fsocket/dc=example,dc=com` | a Unix socket |
//!
//! Of a URL with several hosts each is a server of its own: [`plimsoll_endpoint::each_host`].
//!
//! With TLS, `cacert=FILE` says whom to trust instead of this machine's roots, `cert=FILE&key=FILE` who we are,
//! `insecure=yes` that nothing is checked. `auth=external` binds as whom the socket or the certificate says (SASL
//! EXTERNAL). Without a user and without that, the bind is anonymous.
//!
//! A password is taken from where the caller has it (`--password-file`, or out of the URL). No error shows one, or a
//! part of a URL that may be a piece of one.

use std::path::PathBuf;

use plimsoll_core::{Address, StoreError};
use plimsoll_endpoint::{TlsFiles, Url, decode, host_and_port, one_host, port, shown_host, usage};

pub use plimsoll_endpoint::Password;

use crate::dn;

const FORM: &str = "Write it as ldap://host:389/dc=example,dc=com, ldaps://host/dc=example,dc=com or \
                    ldapi://%2Fpath%2Fto%2Fsocket/dc=example,dc=com";
/// Default socket of Debian's slapd and of OpenLDAP's tools.
const DEFAULT_SOCKET: &str = "/var/run/slapd/ldapi";

/// Identity of a bind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Identity {
    /// Anonymous bind.
    #[default]
    Anonymous,
    /// A DN with its password.
    Simple {
        /// The DN.
        dn: String,
        /// The password, never empty: an empty one would bind anonymously.
        password: Password,
    },
    /// Identity of the Unix socket or of the certificate (SASL EXTERNAL).
    External,
}

/// Login of a connection, and the place of its operations.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Login {
    /// Identity of the bind.
    pub identity: Identity,
    /// The directory's base; empty when the URL does not say.
    pub base: String,
    /// TLS is asked for on a connection that begins in clear (StartTLS).
    pub starts_tls: bool,
    /// Server's URL for messages, without credentials.
    pub place: String,
}

/// A server, and how to bind there.
pub type Endpoint = plimsoll_endpoint::Endpoint<Login>;

/// Finds out where `url` leads. `password`, where it is known already, wins over the URL's.
///
/// # Errors
/// `Usage`, when the URL is none of these.
pub fn resolve(url: &str, password: Option<&Password>) -> Result<Endpoint, StoreError> {
    let url = Url::split(url, &["ldap", "ldaps", "ldapi"], FORM)?;
    let (mut files, mut files_given, mut starts_tls, mut external) = (TlsFiles::default(), false, false, false);
    for (name, value) in url.parameters()? {
        match (name.as_str(), value.as_str()) {
            ("starttls", "yes" | "no") if url.scheme == "ldap" => starts_tls = value == "yes",
            ("auth", "external" | "simple") => external = value == "external",
            // What was in it has been taken out.
            ("password", "") => {}
            (name, value) if url.scheme != "ldapi" && files.take(name, value) => files_given = true,
            _ => {
                let next = "Known are auth=external; starttls=yes with ldap://; cacert, cert, key and insecure=yes with \
                            TLS. What is searched belongs to the workload.";
                return Err(usage("the URL has a parameter that is not known", next));
            }
        }
    }
    let is_tls = url.scheme == "ldaps" || starts_tls;
    if files_given && !is_tls {
        return Err(usage("the URL names certificates and no TLS", "Write ldaps://, or add starttls=yes."));
    }
    let tls = if is_tls { Some(files.options()?) } else { None };
    let base = decode(url.path.unwrap_or_default())?;
    if dn::mistake(&base).is_some() {
        return Err(usage("the URL's path is not a DN", FORM));
    }
    let (address, place) = if url.scheme == "ldapi" {
        let socket = match decode(url.hosts)? {
            socket if socket.is_empty() => DEFAULT_SOCKET.to_owned(),
            socket => socket,
        };
        if !socket.starts_with('/') {
            return Err(usage("the URL names no socket", "Write its path with %2F for each `/`."));
        }
        let place = format!("ldapi://{}/{base}", socket.replace('/', "%2F"));
        (Address::Unix(PathBuf::from(socket)), place)
    } else {
        let (host, given) = host_and_port(url.hosts, "ldap://[::1]:389")?;
        let host = match one_host(decode(host)?)? {
            host if host.is_empty() => "localhost".to_owned(),
            host => host,
        };
        let default = if url.scheme == "ldaps" { 636 } else { 389 };
        let port = given.map_or(Ok(default), |given| port(given, FORM))?;
        let place = format!("{}://{}:{port}/{base}", url.scheme, shown_host(&host));
        (Address::Tcp(host, port), place)
    };
    let dn = decode(url.user.unwrap_or_default())?;
    let in_url = decode(url.password.unwrap_or_default())?;
    let password = password.cloned().or((!in_url.is_empty()).then(|| Password::new(in_url)));
    let identity = identity(external, dn, password)?;
    Ok(Endpoint { address, tls, login: Login { identity, base, starts_tls, place } })
}

fn identity(external: bool, bind_dn: String, password: Option<Password>) -> Result<Identity, StoreError> {
    if external {
        return match bind_dn.is_empty() {
            true => Ok(Identity::External),
            false => {
                Err(usage("the URL has a user, and auth=external binds as another identity", "Leave one of both out."))
            }
        };
    }
    if dn::mistake(&bind_dn).is_some() {
        let next = "Write the DN to bind as: ldap://cn=admin,dc=example,dc=com@host. Commas may be %2C, `/` is %2F.";
        return Err(usage("the URL's user is not a DN", next));
    }
    match (bind_dn.is_empty(), password.filter(|password| !password.text().is_empty())) {
        (true, None) => Ok(Identity::Anonymous),
        (true, Some(_)) => {
            Err(usage("there is a password and no user", "Write the DN into the URL: ldap://cn=admin,dc=example@host"))
        }
        (false, Some(password)) => Ok(Identity::Simple { dn: bind_dn, password }),
        (false, None) => {
            let what = "there is a user and no password, and a bind without one is anonymous";
            Err(usage(what, "Use --password-file, or leave the user out to bind anonymously."))
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::StoreErrorKind;
    use plimsoll_tls::{Roots, TlsOptions, Verify};

    use super::*;

    fn at(url: &str) -> Endpoint {
        resolve(url, None).unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    #[test]
    fn every_form_of_a_url_leads_somewhere() {
        let tcp = |host: &str, port| Address::Tcp(host.into(), port);
        let unix = |path: &str| Address::Unix(path.into());
        for (url, address, base, place) in [
            ("ldap://", tcp("localhost", 389), "", "ldap://localhost:389/"),
            ("ldap://h/dc=a,dc=b", tcp("h", 389), "dc=a,dc=b", "ldap://h:389/dc=a,dc=b"),
            ("ldaps://[::1]:7", tcp("::1", 7), "", "ldaps://[::1]:7/"),
            ("ldaps://h/o=a%20b", tcp("h", 636), "o=a b", "ldaps://h:636/o=a b"),
            ("ldapi:///o=x", unix(DEFAULT_SOCKET), "o=x", "ldapi://%2Fvar%2Frun%2Fslapd%2Fldapi/o=x"),
            ("ldapi://%2Fs%2Fldapi/o=x", unix("/s/ldapi"), "o=x", "ldapi://%2Fs%2Fldapi/o=x"),
        ] {
            let endpoint = at(url);
            let found = (endpoint.address, endpoint.login.base.as_str(), endpoint.login.place.as_str());
            assert_eq!(found, (address, base, place), "{url}");
        }
        let tls = |url| {
            let endpoint = at(url);
            (endpoint.tls, endpoint.login.starts_tls)
        };
        assert_eq!(tls("ldap://h"), (None, false));
        assert_eq!(tls("ldap://h?starttls=yes"), (Some(TlsOptions::default()), true));
        let (Some(options), false) = tls("ldaps://h?cacert=/ca&insecure=no") else { panic!("it has TLS") };
        assert_eq!((options.roots, options.verify), (Roots::File("/ca".into()), Verify::Full));
    }

    #[test]
    fn whoever_binds_stands_before_the_host() {
        let admin = |password: &str| Identity::Simple { dn: "cn=a,dc=b".into(), password: Password::new(password) };
        assert_eq!(at("ldap://cn=a,dc=b:in%40url@h/dc=b").login.identity, admin("in@url"));
        let given = resolve("ldap://cn=a%2Cdc=b:in-url@h", Some(&Password::new("given"))).unwrap();
        assert_eq!(given.login.identity, admin("given"));
        assert!(!format!("{given:?}").contains("given"));
        assert_eq!(at("ldap://h").login.identity, Identity::Anonymous);
        assert_eq!(at("ldapi:///?auth=external").login.identity, Identity::External);
    }

    #[test]
    fn a_bad_url_is_refused_and_nothing_secret_is_shown() {
        for url in [
            "http://h",
            "ldap://h/people",
            "ldap://h:0",
            "ldap://a,b",
            "ldap://h?bad=1",
            "ldap://h??sub",
            "ldap://h?cacert=/ca",
            "ldaps://h?starttls=yes",
            "ldaps://h?cert=/c",
            "ldapi://relative",
            "ldap://admin@h",
            "ldap://:secret@h",
            "ldap://cn=se/cret@h",
            "ldap://cn=a@h?auth=external",
        ] {
            let error = resolve(url, Some(&Password::new("secret"))).unwrap_err();
            assert_eq!(error.kind, StoreErrorKind::Usage, "{url}");
            assert!(error.next.is_some(), "{url}");
            assert!(!format!("{error:?}").contains("cret"), "{url}: {error:?}");
        }
        assert!(resolve("ldap://cn=a@h", None).unwrap_err().what.contains("no password"));
    }
}
