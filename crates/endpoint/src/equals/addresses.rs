//! Hosts, ports and login of a cluster, from `scheme://user@host:port,host2:port/path` or from private nodes. Of two schemes
//! the second is for TLS, whose files are parameters of the URL ([`TlsFiles`]).
//!
//! The password is the caller's (`--password-file`), else that of the URL, else that of the environment. No error shows it.

use std::net::{SocketAddr, ToSocketAddrs};

use plimsoll_core::{Address, Node, StoreError, StoreErrorKind, Target};

use crate::tls::{Tls, TlsClient, TlsOptions};
use crate::{Environment, Password, TlsFiles, Url, decode, host_and_port, port, shown_host, usage};

/// Differences between the URLs of one kind of cluster and those of another.
#[derive(Debug)]
pub struct ClusterSpec {
    /// Name in messages.
    pub name: &'static str,
    /// Schemes of its URLs: in clear, and with TLS.
    pub schemes: [&'static str; 2],
    /// Protocols offered by TLS (ALPN), the best first; empty to offer none.
    pub protocols: &'static [&'static str],
    /// Parameters of its URLs with TLS that are `yes` or `no`, beside those of [`TlsFiles`].
    pub switches: &'static [&'static str],
    /// Default port.
    pub port: u16,
    /// Environment variable with the password.
    pub password: &'static str,
    /// A user without a password is a token, and so is a password without a user.
    pub takes_tokens: bool,
    /// Form of its URLs, for messages.
    pub form: &'static str,
    /// Refuses URLs whose path or login this kind of cluster does not take.
    pub check: fn(&Addresses) -> Result<(), StoreError>,
    /// Returns the login of a private server.
    pub private_login: fn(&Node) -> Option<Login>,
}

impl ClusterSpec {
    /// Reads the parameters of `url`. Without TLS it has none.
    fn tls(&self, url: &Url<'_>, is_tls: bool) -> Result<(Option<TlsOptions>, Vec<&'static str>), StoreError> {
        let (mut files, mut switches) = (TlsFiles::default(), Vec::new());
        for (name, value) in url.parameters()? {
            let switch = self.switches.iter().find(|switch| **switch == name);
            match (switch, value.as_str()) {
                _ if !is_tls && (switch.is_some() || TlsFiles::default().take(&name, &value)) => {
                    let next = format!("Write {}:// for TLS.", self.schemes[1]);
                    return Err(usage("the URL has a parameter of TLS, and no TLS", next));
                }
                _ if !is_tls => {
                    return Err(usage(format!("the URL has a parameter, and {} takes none", self.name), self.form));
                }
                (Some(switch), "yes") => switches.push(*switch),
                (Some(_), "no") => {}
                _ if files.take(&name, &value) => {}
                _ => {
                    let own: String = self.switches.iter().map(|switch| format!(", {switch}=yes")).collect();
                    let next = format!("Known are cacert, cert, key, insecure=yes{own}.");
                    return Err(usage("the URL has a parameter that is not known", next));
                }
            }
        }
        if !is_tls {
            return Ok((None, switches));
        }
        let protocols = self.protocols.to_vec();
        Ok((Some(TlsOptions { protocols, ..files.options()? }), switches))
    }
}

/// User or token, and the user's password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// Name of the user, or a token if there is no password.
    pub user: Password,
    /// Password of the user.
    pub password: Option<Password>,
}

/// Addresses of one cluster's servers, and the login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addresses {
    scheme: &'static str,
    /// Host and port of each server.
    pub hosts: Vec<(String, u16)>,
    /// Login; `None` without a user.
    pub login: Option<Login>,
    /// Path of the URL.
    pub path: Option<String>,
    /// TLS options, if connections use TLS.
    pub tls: Option<TlsOptions>,
    /// Switches of the URL that are `yes`.
    pub switches: Vec<&'static str>,
    /// Name of the cluster in messages, without credentials.
    pub place: String,
}

impl Addresses {
    /// Reads `url`. `password` takes precedence over the URL and over the environment, which `var` looks up.
    ///
    /// # Errors
    /// `Usage` if the URL does not have the form of `spec`.
    pub fn resolve(
        spec: &ClusterSpec,
        url: &str,
        password: Option<&Password>,
        var: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, StoreError> {
        let url = Url::split(url, &spec.schemes, spec.form)?;
        let [clear, encrypted] = spec.schemes;
        let is_tls = url.scheme == encrypted;
        let scheme = if is_tls { encrypted } else { clear };
        let (tls, switches) = spec.tls(&url, is_tls)?;
        let host = |text: &str| -> Result<(String, u16), StoreError> {
            let (host, number) = host_and_port(text, &format!("{scheme}://[::1]:{}", spec.port))?;
            let host = if host.is_empty() { "localhost".to_owned() } else { decode(host)? };
            Ok((host, number.map_or(Ok(spec.port), |text| port(text, spec.form))?))
        };
        let hosts = url.hosts.split(',').map(host).collect::<Result<Vec<_>, StoreError>>()?;
        let known = |text: String| (!text.is_empty()).then_some(text);
        let token = password.filter(|_| spec.takes_tokens).map(|token| Login { user: token.clone(), password: None });
        // `user:@` is a user, even if no password is known.
        let no_password = || url.password.filter(|_| spec.takes_tokens).map(|_| Password::new(""));
        let password = password
            .cloned()
            .or(known(decode(url.password.unwrap_or_default())?).map(Password::new))
            .or_else(|| var(spec.password).and_then(known).map(Password::new))
            .or_else(no_password);
        let login = known(decode(url.user.unwrap_or_default())?)
            .map(|user| Login { user: Password::new(user), password })
            .or(token);
        let path = known(decode(url.path.unwrap_or_default())?);
        let addresses = Self { place: place(scheme, &hosts), scheme, hosts, login, path, tls, switches };
        (spec.check)(&addresses)?;
        Ok(addresses)
    }

    /// Reads the URL of `target`, with the environment of this process.
    ///
    /// # Errors
    /// As [`Addresses::resolve`]; `Usage` if the target has no URL.
    pub fn of_target(spec: &ClusterSpec, target: &Target) -> Result<Self, StoreError> {
        let (url, password) = target.url()?;
        Self::resolve(spec, url, password, Environment::of_process().var)
    }

    /// Returns the addresses of private `nodes`, with the login of the first.
    pub fn of_nodes<'n>(spec: &ClusterSpec, nodes: impl IntoIterator<Item = &'n Node>) -> Self {
        let mut login = None;
        let host = |node: &Node| {
            login = login.take().or_else(|| (spec.private_login)(node));
            (node.address.to_string(), node.listens_at(0).port())
        };
        let hosts = nodes.into_iter().map(host).collect();
        let (scheme, place) = (spec.schemes[0], format!("the private {}", spec.name));
        Self { scheme, hosts, login, path: None, tls: None, switches: Vec::new(), place }
    }

    /// Restricts the addresses to the server at position `at`.
    #[must_use]
    pub fn only(&self, at: usize) -> Self {
        let hosts = vec![self.hosts[at].clone()];
        Self { place: place(self.scheme, &hosts), hosts, ..self.clone() }
    }

    /// Returns the address of the first server.
    pub fn first(&self) -> Address {
        let (host, port) = self.hosts[0].clone();
        Address::Tcp(host, port)
    }

    /// Returns the client's side of TLS, if TLS is used. Reads the certificate files.
    ///
    /// # Errors
    /// `Usage` or `Missing` if certificates cannot be read.
    pub fn tls_client(&self) -> Result<Option<TlsClient>, StoreError> {
        self.tls.as_ref().map(TlsClient::new).transpose()
    }

    /// Returns TLS for a connection to the first server, if TLS is used.
    ///
    /// # Errors
    /// As [`Addresses::tls_client`].
    pub fn tls_to_first(&self) -> Result<Option<Tls>, StoreError> {
        self.tls_client()?.map(|client| client.connect(&self.hosts[0].0, &self.place)).transpose()
    }

    /// Looks up all addresses of each host.
    ///
    /// # Errors
    /// `Unreachable` if a name has no address.
    pub fn look_up(&self) -> Result<Vec<ServerAddresses>, StoreError> {
        let addresses = |at: usize| {
            let (host, port) = &self.hosts[at];
            let unknown = |detail: String| {
                StoreError::new(StoreErrorKind::Unreachable, format!("the host name {host} cannot be resolved"))
                    .detail(detail)
                    .next("check the host's name in the URL")
            };
            let found = (host.as_str(), *port).to_socket_addrs().map_err(|error| unknown(error.to_string()))?;
            let place = place(self.scheme, &self.hosts[at..=at]);
            let found = ServerAddresses { place, host: host.clone(), all: found.collect() };
            if found.all.is_empty() { Err(unknown("it has no address".to_owned())) } else { Ok(found) }
        };
        (0..self.hosts.len()).map(addresses).collect()
    }
}

/// Addresses of one server, which are tried one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerAddresses {
    /// Scheme, host and port, for messages.
    pub place: String,
    /// Host that a certificate has to be for.
    pub host: String,
    /// Addresses of its host, in the order of the system's resolver. Not empty.
    pub all: Vec<SocketAddr>,
}

impl ServerAddresses {
    /// Returns the only address of a server of `scheme`.
    pub fn only(scheme: &str, address: SocketAddr) -> Self {
        Self { place: format!("{scheme}://{address}"), host: address.ip().to_string(), all: vec![address] }
    }

    /// Returns host and port, as in the URL.
    pub fn host_and_port(&self) -> &str {
        self.place.split_once("://").map_or(&self.place, |(_, rest)| rest)
    }
}

fn place(scheme: &str, hosts: &[(String, u16)]) -> String {
    let shown: Vec<String> = hosts.iter().map(|(host, port)| format!("{}:{port}", shown_host(host))).collect();
    format!("{scheme}://{}", shown.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: ClusterSpec = ClusterSpec {
        name: "Equals",
        schemes: ["eq", "eqs"],
        protocols: &["eq/1"],
        switches: &["early"],
        port: 42,
        password: "EQ_PASSWORD",
        takes_tokens: true,
        form: "Write it as eq://user@host:42",
        check: |addresses| match addresses.path.as_deref() {
            Some("wrong") => Err(usage("the URL's path is wrong", "eq://")),
            _ => Ok(()),
        },
        private_login: |_| None,
    };

    fn at(url: &str, password: Option<&str>) -> Result<Addresses, StoreError> {
        let password = password.map(Password::new);
        Addresses::resolve(&SPEC, url, password.as_ref(), &|name| (name == "EQ_PASSWORD").then(|| "word".to_owned()))
    }

    #[test]
    fn every_form_of_a_url_leads_somewhere() {
        let all = at("eq://a:1,b,[::1]:3/path", None).unwrap();
        assert_eq!(all.hosts, [("a".to_owned(), 1), ("b".to_owned(), 42), ("::1".to_owned(), 3)]);
        assert_eq!((&*all.place, all.path.as_deref(), &all.login), ("eq://a:1,b:42,[::1]:3", Some("path"), &None));
        assert_eq!((&*all.only(2).place, all.only(2).hosts.len()), ("eq://[::1]:3", 1));
        for (url, given, wanted) in
            [("eq://me@", None, "word"), ("eq://me:ab%41@h", None, "abA"), ("eq://me:abc@h", Some("file"), "file")]
        {
            let login = at(url, given).unwrap().login.unwrap();
            let wanted = Login { user: Password::new("me"), password: Some(Password::new(wanted)) };
            assert_eq!(login, wanted, "{url}");
        }
        for (url, file) in [("eq://secret@h", None), ("eq://h", Some("secret"))] {
            let file = file.map(Password::new);
            let token = Addresses::resolve(&SPEC, url, file.as_ref(), &|_| None).unwrap();
            let wanted = Login { user: Password::new("secret"), password: None };
            assert_eq!((token.login, &*token.place), (Some(wanted), "eq://h:42"), "{url}");
        }
        assert_eq!(at("eq://h", None).unwrap().login, None, "a variable's password belongs to a user");
        let user = Addresses::resolve(&SPEC, "eq://me:@h", None, &|_| None).unwrap().login.unwrap();
        assert_eq!(user, Login { user: Password::new("me"), password: Some(Password::new("")) });
    }

    #[test]
    fn the_second_scheme_is_encrypted_as_the_parameters_say() {
        let all = at("eqs://a,[::1]:3?cacert=/ca&early=yes", None).unwrap();
        let tls = all.tls.clone().unwrap();
        assert_eq!((&*all.place, &all.switches[..]), ("eqs://a:42,[::1]:3", &["early"][..]));
        assert_eq!((tls.roots, tls.protocols), (plimsoll_tls::Roots::File("/ca".into()), vec!["eq/1"]));
        assert!(all.tls_client().unwrap_err().what.contains("/ca"), "there is no such file");
        let second = at("eqs://[::1]:3?insecure=yes&early=no", None).unwrap();
        assert!(second.switches.is_empty() && second.tls_to_first().unwrap().is_some());
        assert_eq!((&*second.look_up().unwrap()[0].host, at("eq://h", None).unwrap().tls), ("::1", None));
    }

    #[test]
    fn a_wrong_url_is_refused_with_the_form_of_a_right_one() {
        for (url, what) in [
            ("https://h", "the URL does not begin with eq:// or eqs://"),
            ("eq://h?x=1", "the URL has a parameter, and Equals takes none"),
            ("eq://h?cacert=/ca", "the URL has a parameter of TLS, and no TLS"),
            ("eq://h?early=yes", "the URL has a parameter of TLS, and no TLS"),
            ("eqs://h?late=yes", "the URL has a parameter that is not known"),
            ("eqs://h?early=7", "the URL has a parameter that is not known"),
            ("eqs://h?cert=/c", "there is only one of cert and key"),
            ("eq://h:port", "the port is not a number"),
            ("eq://h/wrong", "the URL's path is wrong"),
        ] {
            let error = at(url, None).unwrap_err();
            assert!(error.what.starts_with(what), "{url}: {error}");
            let next = error.next.unwrap();
            assert!(["eq://", "eqs://", "early=yes", "both"].iter().any(|form| next.contains(form)), "{url}: {next}");
        }
    }
}
