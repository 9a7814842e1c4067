//! Where to connect and as whom: `etcd://user@host:2379,host2:2379`.
//!
//! A password is taken from where the caller has it (`--password-file`, or out of the URL), else from `ETCDCTL_PASSWORD`.
//! No error shows one.

use plimsoll_core::{Address, StoreError};
use plimsoll_endpoint::{Password, Url, decode, host_and_port, port, shown_host, usage};

const PORT: u16 = 2379;
const FORM: &str = "Write it as etcd://user@host:2379, with commas between several hosts; TLS is not spoken: attach where etcd listens in clear";

/// Servers of one cluster, and how to log in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// Each takes operations.
    pub addresses: Vec<(String, u16)>,
    pub login: Option<Login>,
    /// Where they are, for messages; without credentials.
    pub place: String,
}

/// As whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Login {
    pub user: String,
    pub password: Password,
}

impl Endpoint {
    /// The same with the server at this position alone.
    pub fn only(&self, at: usize) -> Self {
        let (host, port) = self.addresses[at].clone();
        let place = format!("etcd://{}:{port}", shown_host(&host));
        Self { addresses: vec![(host, port)], login: self.login.clone(), place }
    }

    /// Where the only server, or the first, listens.
    pub fn address(&self) -> Address {
        let (host, port) = self.addresses[0].clone();
        Address::Tcp(host, port)
    }
}

/// Finds out where `url` leads. `password`, where it is known already, wins over the environment, which `var` looks up.
///
/// # Errors
/// `Usage`, when the URL is none of these.
pub(crate) fn resolve(
    url: &str,
    password: Option<&str>,
    var: &dyn Fn(&str) -> Option<String>,
) -> Result<Endpoint, StoreError> {
    let url = Url::split(url, &["etcd"], FORM)?;
    if url.path.is_some_and(|path| !path.is_empty()) || !url.parameters()?.is_empty() {
        return Err(usage("the URL has a path or a parameter, and etcd knows none", FORM));
    }
    let address = |text: &str| -> Result<(String, u16), StoreError> {
        let (host, number) = host_and_port(text, "etcd://[::1]:2379")?;
        let host = if host.is_empty() { "localhost".to_owned() } else { decode(host)? };
        Ok((host, number.map_or(Ok(PORT), |text| port(text, FORM))?))
    };
    let addresses = url.hosts.split(',').map(address).collect::<Result<Vec<_>, StoreError>>()?;
    let known = |text: String| (!text.is_empty()).then_some(text);
    let password = password
        .map(str::to_owned)
        .or(known(decode(url.password.unwrap_or_default())?))
        .or_else(|| var("ETCDCTL_PASSWORD").and_then(known));
    let login = match (known(decode(url.user.unwrap_or_default())?), password) {
        (None, _) => None,
        (Some(user), Some(password)) => Some(Login { user, password: Password::new(password) }),
        (Some(_), None) => {
            return Err(usage(
                "the URL names a user, and there is no password",
                "Say it with --password-file, or in ETCDCTL_PASSWORD.",
            ));
        }
    };
    let shown: Vec<String> = addresses.iter().map(|(host, port)| format!("{}:{port}", shown_host(host))).collect();
    Ok(Endpoint { place: format!("etcd://{}", shown.join(",")), addresses, login })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(url: &str) -> Result<Endpoint, StoreError> {
        resolve(url, None, &|name| (name == "ETCDCTL_PASSWORD").then(|| "word".to_owned()))
    }

    #[test]
    fn every_form_of_a_url_leads_somewhere() {
        let endpoint = at("etcd://a:1,b,[::1]:3").unwrap();
        let addresses = [("a".to_owned(), 1), ("b".to_owned(), 2379), ("::1".to_owned(), 3)];
        assert_eq!((&endpoint.addresses[..], endpoint.login), (&addresses[..], None));
        assert_eq!(endpoint.place, "etcd://a:1,b:2379,[::1]:3");
        let login = at("etcd://root@h").unwrap().login.unwrap();
        assert_eq!((login.user.as_str(), login.password.text()), ("root", "word"));
    }

    #[test]
    fn a_wrong_url_is_refused_with_what_to_write() {
        for (url, what) in [
            ("https://h", "the URL does not begin with etcd://"),
            ("etcd://h/path", "the URL has a path"),
            ("etcd://h?x=1", "the URL has a path or a parameter"),
            ("etcd://h:port", "the port is not a number"),
        ] {
            let error = at(url).unwrap_err();
            assert!(error.what.starts_with(what), "{url}: {error}");
            assert!(error.next.unwrap().contains("etcd://"), "{url}");
        }
        let error = resolve("etcd://root@h", None, &|_| None).unwrap_err();
        assert!(error.what.contains("no password"));
    }
}
