//! URLs of servers and the environment: address, login and database.
//!
//! | URL | |
//! |---|---|
//! | `redis://user@host:6379/0`, `valkey://…` | TCP; the path is the database's number |
//! | `redis+unix:///path/to.sock?db=0`, `valkey+unix://…` | a Unix socket |
//! | `redis://?socket=/path/to.sock` | the same |
//! | `redis://a:7000,b:7000,c` | a cluster, by the first of these nodes that answers |
//! | `redis-sentinel://a:26379,b/0?sentinelMasterId=mymaster`, `redis+sentinel://a,b/mymaster/0` | the master that these Sentinels name |
//! | `rediss://…`, `valkeys://…` | TLS; `?cacert=FILE` says whom to trust instead of this machine's roots, `cert=FILE&key=FILE` who we are, `insecure=yes` that nothing is checked |
//!
//! A password is taken from where the caller has it (`--password-file`, or out of the URL), else from
//! `REDISCLI_AUTH` or `VALKEYCLI_AUTH`, as `redis-cli` and `valkey-cli` do. No error shows one, or a part of a URL that
//! may be a piece of one.

use std::path::PathBuf;

use plimsoll_core::{Address, StoreError};
pub use plimsoll_endpoint::Password;
use plimsoll_endpoint::{TlsFiles, Url, decode, host_and_port, port, shown_host, usage};

const PORT: u16 = 6379;
/// Parameters of other clients without an effect here: time-outs are the plan's, and the pool is the clients of a phase.
const WITHOUT_EFFECT: [&str; 8] = [
    "client_name",
    "decode_responses",
    "health_check_interval",
    "max_connections",
    "retry_on_timeout",
    "socket_connect_timeout",
    "socket_keepalive",
    "socket_timeout",
];

const FORM: &str = "Write it as redis://user@host:6379/0 or redis+unix:///path/to.sock?db=0";
const SCHEMES: [&str; 8] =
    ["redis", "rediss", "redis+unix", "valkey", "valkeys", "valkey+unix", "redis-sentinel", "redis+sentinel"];
const SENTINEL_PORT: u16 = 26379;
/// The name that Redis' documentation gives a master that Sentinels watch.
const MASTER: &str = "mymaster";
/// Variables that hold a password, the first that is set wins.
const PASSWORD_VARIABLES: [&str; 2] = ["REDISCLI_AUTH", "VALKEYCLI_AUTH"];

/// Login of a connection, with its database.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Login {
    /// The user of an access list; none is the default user.
    pub user: Option<String>,
    /// The password, if one is known.
    pub password: Option<Password>,
    /// The number of the database.
    pub database: u32,
    /// Server's URL for messages, without credentials.
    pub place: String,
}

/// A server, and how to log in.
pub type Endpoint = plimsoll_endpoint::Endpoint<Login>;

/// Servers of a URL.
#[derive(Debug, Clone)]
pub struct Found {
    /// The only server, or the first of several.
    pub endpoint: Endpoint,
    /// All of these, where there are several.
    pub addresses: Vec<Address>,
    /// Name of the master, if the servers are Sentinels.
    pub master: Option<String>,
}

/// Finds out where `url` leads. `password`, where it is known already, wins over the environment, which `var` looks up.
///
/// # Errors
/// `Usage`, when the URL is none of these.
pub fn resolve(
    url: &str,
    password: Option<&Password>,
    var: &dyn Fn(&str) -> Option<String>,
) -> Result<Found, StoreError> {
    let url = Url::split(url, &SCHEMES, FORM)?;
    let server = if url.scheme.starts_with("valkey") { "valkey" } else { "redis" };
    let is_tls = matches!(url.scheme, "rediss" | "valkeys");
    let is_unix = url.scheme.ends_with("+unix");
    let is_sentinel = url.scheme.ends_with("sentinel");
    let (mut master, path) = match url.path.unwrap_or_default() {
        path if is_sentinel => of_sentinels(path)?,
        path => (None, decode(path)?),
    };
    if is_unix && !url.hosts.is_empty() {
        return Err(usage("the URL of a Unix socket names a host", "Write three slashes: redis+unix:///path"));
    }
    let (mut socket, mut database) = if is_unix { (format!("/{path}"), String::new()) } else { (String::new(), path) };
    let mut files = TlsFiles::default();
    for (name, value) in url.parameters()? {
        match name.as_str() {
            "socket" if url.scheme == server && url.hosts.is_empty() => socket = value,
            "db" => database = value,
            "sentinelMasterId" if is_sentinel => master = Some(value),
            name if is_tls && files.take(name, &value) => {}
            // What was in it has been taken out.
            "password" if value.is_empty() => {}
            name if WITHOUT_EFFECT.contains(&name) => {}
            "ssl_cert_reqs" if is_tls && value == "required" => {}
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
    let mut addresses = Vec::new();
    let (address, place) = if socket.is_empty() {
        let usual = if is_sentinel { SENTINEL_PORT } else { PORT };
        let all = url.hosts.split(',').map(|text| address(text, usual)).collect::<Result<Vec<_>, StoreError>>()?;
        let scheme = if is_tls { format!("{server}s") } else { server.to_owned() };
        let scheme = if is_sentinel { url.scheme } else { &scheme };
        let shown: Vec<String> = all.iter().map(|(host, port)| format!("{}:{port}", shown_host(host))).collect();
        let place = format!("{scheme}://{}/{database}", shown.join(","));
        addresses.extend(all.into_iter().map(|(host, port)| Address::Tcp(host, port)));
        (addresses[0].clone(), place)
    } else {
        if socket == "/" {
            return Err(usage("the URL names no socket", FORM));
        }
        let place = format!("{server}+unix://{socket}?db={database}");
        (Address::Unix(PathBuf::from(socket)), place)
    };
    let known = |text: String| (!text.is_empty()).then_some(text);
    let password = password
        .cloned()
        .or(known(decode(url.password.unwrap_or_default())?).map(Password::new))
        .or_else(|| PASSWORD_VARIABLES.iter().find_map(|name| var(name).and_then(known)).map(Password::new));
    let user = known(decode(url.user.unwrap_or_default())?);
    let login = Login { user, password, database, place };
    let tls = if is_tls { Some(files.options()?) } else { None };
    let endpoint = Endpoint { address, tls, login };
    Ok(Found { endpoint, addresses, master: is_sentinel.then(|| master.unwrap_or_else(|| MASTER.to_owned())) })
}

/// Parses the path of a URL of Sentinels: the master's name, the database's number, or both.
fn of_sentinels(path: &str) -> Result<(Option<String>, String), StoreError> {
    let (name, number) = match path.split_once('/') {
        Some((name, number)) => (name, number),
        None if path.bytes().all(|byte| byte.is_ascii_digit()) => ("", path),
        None => (path, ""),
    };
    Ok((Some(decode(name)?).filter(|name| !name.is_empty()), decode(number)?))
}

fn address(text: &str, usual: u16) -> Result<(String, u16), StoreError> {
    let (host, number) = host_and_port(text, "redis://[::1]:6379/0")?;
    let host = if host.is_empty() { "localhost".to_owned() } else { decode(host)? };
    let number = number.filter(|text| !text.is_empty()).map_or(Ok(usual), |text| port(text, FORM))?;
    Ok((host, number))
}

#[cfg(test)]
mod tests {
    use plimsoll_core::StoreErrorKind;
    use plimsoll_tls::{Roots, TlsOptions, Verify};

    use super::*;

    fn nowhere(_: &str) -> Option<String> {
        None
    }

    fn at(url: &str) -> Endpoint {
        found(url).endpoint
    }

    fn found(url: &str) -> Found {
        resolve(url, None, &nowhere).unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    #[test]
    fn several_hosts_are_a_cluster_or_sentinels() {
        let tcp = |host: &str, port| Address::Tcp(host.into(), port);
        let cluster = found("redis://a:7000,b/2");
        assert_eq!((cluster.addresses, cluster.master), (vec![tcp("a", 7000), tcp("b", 6379)], None));
        assert_eq!(cluster.endpoint.login.place, "redis://a:7000,b:6379/2");
        for (url, master, database) in [
            ("redis-sentinel://a,b:7000", "mymaster", 0),
            ("redis-sentinel://a,b:7000/3?sentinelMasterId=main", "main", 3),
            ("redis+sentinel://a,b:7000/main", "main", 0),
            ("redis+sentinel://a,b:7000/main/4", "main", 4),
        ] {
            let sentinels = found(url);
            assert_eq!(sentinels.addresses, [tcp("a", 26379), tcp("b", 7000)], "{url}");
            assert_eq!(
                (sentinels.master.as_deref(), sentinels.endpoint.login.database),
                (Some(master), database),
                "{url}"
            );
        }
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
            ("redis://h?socket_timeout=5&client_name=app&db=2", tcp("h", 6379), 2, "redis://h:6379/2"),
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
            let given = given.map(Password::new);
            let login = resolve(url, given.as_ref(), &env).unwrap().endpoint.login;
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
            "http://h",
            "redis://h/one",
            "redis://h:0",
            "redis-sentinel://a/main/one",
            "redis://h?bad=1",
            "redis://h?cacert=/ca",
            "redis://h?ssl_cert_reqs=required",
            "rediss://h?ssl_cert_reqs=none",
            "rediss://h?cert=/c",
            "rediss://h?insecure=perhaps",
            "redis+unix://h/path",
            "redis+unix://",
            "redis://se/cret@h",
        ] {
            let error = resolve(url, Some(&Password::new("secret")), &nowhere).unwrap_err();
            assert_eq!(error.kind, StoreErrorKind::Usage, "{url}");
            assert!(error.next.is_some(), "{url}");
            assert!(!format!("{error:?}").contains("cret"), "{url}: {error:?}");
        }
        let endpoint = resolve("redis://u:hidden@h", None, &nowhere).unwrap();
        assert!(!format!("{endpoint:?}").contains("hidden"));
    }
}
