//! Where to connect and as whom: `nats://user@host:4222,host2:4222/bucket`.
//!
//! A password is taken from where the caller has it (`--password-file`, or out of the URL), else from `NATS_PASSWORD`. A user
//! without one is a token, as NATS' own clients have it. No error shows any of these.

use plimsoll_core::{Address, StoreError};
use plimsoll_endpoint::{Password, Url, decode, host_and_port, port, shown_host, usage};

use crate::bucket::is_name;

const PORT: u16 = 4222;
const FORM: &str = "Write it as nats://user@host:4222/bucket, with commas between several hosts; TLS is not spoken: attach where NATS listens in clear";

/// Servers of one cluster, how to log in, and a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// Each takes operations.
    pub addresses: Vec<(String, u16)>,
    pub login: Option<Login>,
    /// The bucket that the URL names.
    pub bucket: Option<String>,
    /// Where they are, for messages; without credentials.
    pub place: String,
}

/// As whom: with a password, or with a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Login {
    /// The user's name, or a token where there is no password.
    pub user: Password,
    pub password: Option<Password>,
}

impl Endpoint {
    /// The same with the server at this position alone.
    pub fn only(&self, at: usize) -> Self {
        let (host, port) = self.addresses[at].clone();
        let place = format!("nats://{}:{port}", shown_host(&host));
        Self { addresses: vec![(host, port)], place, ..self.clone() }
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
    let url = Url::split(url, &["nats"], FORM)?;
    if !url.parameters()?.is_empty() {
        return Err(usage("the URL has a parameter, and NATS knows none", FORM));
    }
    let known = |text: String| (!text.is_empty()).then_some(text);
    let bucket = known(decode(url.path.unwrap_or_default())?);
    if bucket.as_deref().is_some_and(|name| !is_name(name)) {
        return Err(usage("the URL's path is no name of a bucket", "A name has letters, digits, - and _ only."));
    }
    let address = |text: &str| -> Result<(String, u16), StoreError> {
        let (host, number) = host_and_port(text, "nats://[::1]:4222")?;
        let host = if host.is_empty() { "localhost".to_owned() } else { decode(host)? };
        Ok((host, number.map_or(Ok(PORT), |text| port(text, FORM))?))
    };
    let addresses = url.hosts.split(',').map(address).collect::<Result<Vec<_>, StoreError>>()?;
    let password = password
        .map(str::to_owned)
        .or(known(decode(url.password.unwrap_or_default())?))
        .or_else(|| var("NATS_PASSWORD").and_then(known));
    let login = known(decode(url.user.unwrap_or_default())?)
        .map(|user| Login { user: Password::new(user), password: password.map(Password::new) });
    let shown: Vec<String> = addresses.iter().map(|(host, port)| format!("{}:{port}", shown_host(host))).collect();
    Ok(Endpoint { place: format!("nats://{}", shown.join(",")), addresses, login, bucket })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(url: &str) -> Result<Endpoint, StoreError> {
        resolve(url, None, &|name| (name == "NATS_PASSWORD").then(|| "word".to_owned()))
    }

    #[test]
    fn every_form_of_a_url_leads_somewhere() {
        let endpoint = at("nats://a:1,b,[::1]:3/orders").unwrap();
        let addresses = [("a".to_owned(), 1), ("b".to_owned(), 4222), ("::1".to_owned(), 3)];
        assert_eq!((&endpoint.addresses[..], endpoint.login), (&addresses[..], None));
        assert_eq!((&*endpoint.place, endpoint.bucket.as_deref()), ("nats://a:1,b:4222,[::1]:3", Some("orders")));
        let login = at("nats://me@h").unwrap().login.unwrap();
        assert_eq!((login.user.text(), login.password.unwrap().text()), ("me", "word"));
        let token = resolve("nats://secret@h", None, &|_| None).unwrap();
        assert_eq!((token.login.unwrap().password, &*token.place), (None, "nats://h:4222"));
    }

    #[test]
    fn a_wrong_url_is_refused_with_what_to_write() {
        for (url, what) in [
            ("https://h", "the URL does not begin with nats://"),
            ("nats://h/a.b", "the URL's path is no name of a bucket"),
            ("nats://h?x=1", "the URL has a parameter"),
            ("nats://h:port", "the port is not a number"),
        ] {
            let error = at(url).unwrap_err();
            assert!(error.what.starts_with(what), "{url}: {error}");
            assert!(error.next.is_some(), "{url}");
        }
    }
}
