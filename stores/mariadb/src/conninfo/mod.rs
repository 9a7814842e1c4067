//! Connection parameters: a URL, the option file `~/.my.cnf`, and the environment, in the order of MySQL's and
//! MariaDB's own clients.
//!
//! A parameter is taken from the URL, else from the groups `[client]` and `[client-mariadb]` of the option file, else
//! from its environment variable, else it has its default. No error shows a password, or a part of a URL that may be a
//! piece of one.

mod files;
mod url;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plimsoll_core::{Address, StoreError};
pub use plimsoll_endpoint::Environment;
use plimsoll_endpoint::{certified_host, one_host, port, shown_host, unknown, usage};
use plimsoll_tls::{ClientCertificate, FileNames, Roots, TlsClient, TlsOptions, Verify};

use crate::wire::{Encryption, Login, Password};

/// Parameters that are understood, and the environment variable of each that has one.
const PARAMETERS: [(&str, Option<&str>); 12] = [
    ("host", Some("MYSQL_HOST")),
    ("port", Some("MYSQL_TCP_PORT")),
    ("socket", Some("MYSQL_UNIX_PORT")),
    ("user", None),
    ("password", Some("MYSQL_PWD")),
    ("database", None),
    ("connect-timeout", None),
    ("program-name", None),
    ("ssl-mode", None),
    ("ssl-ca", None),
    ("ssl-cert", None),
    ("ssl-key", None),
];

const PORT: u16 = 3306;
const PROGRAM_NAME: &str = "plimsoll";

/// Paths of sockets: Debian and its kin, Red Hat and its kin, MySQL's own default.
const SOCKETS: [&str; 3] = ["/run/mysqld/mysqld.sock", "/var/lib/mysql/mysql.sock", "/tmp/mysql.sock"];

/// A server, and how to log in.
#[derive(Debug, Clone)]
pub struct ConnInfo {
    /// Address where the server listens.
    pub address: Address,
    /// Login, with its database.
    pub login: Login,
    /// Further hosts of the URL, whose logins differ in their place only.
    pub others: Vec<(Address, Login)>,
    /// Longest time of connecting and logging in.
    pub connect_timeout: Option<Duration>,
}

/// Parameters by name, each from the first place that has it.
type Parameters = BTreeMap<&'static str, String>;

/// Finds out where a URL leads. `password`, where it is known already, wins over every other.
pub fn resolve(url: &str, password: Option<&Password>, environment: &Environment<'_>) -> Result<ConnInfo, StoreError> {
    let (mut parameters, others) = url::parse(url)?;
    parameters.retain(|_, value| !value.is_empty());
    // A place that is named stays that place: a socket of the option file must not take the place of a host.
    let named = parameters.contains_key("host") || parameters.contains_key("socket");
    let (mut no_password_because, mut password_file) = (None, None);
    let in_url = parameters.contains_key("password");
    if let Some(file) = environment.home().map(|home| home.join(".my.cnf")) {
        match files::options(&file) {
            Ok(options) => {
                add(&mut parameters, options, named);
                password_file = (!in_url && parameters.contains_key("password")).then_some(file);
            }
            Err(why) => no_password_because = Some(why),
        }
    }
    let variables = PARAMETERS.iter().filter_map(|(name, variable)| Some((*name, environment.get((*variable)?)?)));
    let place_is_known = named || parameters.contains_key("host") || parameters.contains_key("socket");
    add(&mut parameters, variables.collect(), place_is_known);
    let Some(user) = parameters.remove("user").or_else(|| environment.user.clone()) else {
        return Err(usage(
            "no user is named, and the operating system has no name for this one",
            "Name one: mysql://user@host/db",
        ));
    };
    let number = |text: &String| port(text, "Write it as in mysql://host:3306/db");
    let first_port = parameters.get("port").map(number).transpose()?;
    // One of several is no socket of this machine.
    let first_port = first_port.or((!others.is_empty()).then_some(PORT));
    let connect_timeout = match parameters.get("connect-timeout").map(|text| text.parse::<u64>()) {
        None => None,
        Some(Ok(seconds)) if seconds > 0 => Some(Duration::from_secs(seconds)),
        Some(_) => {
            return Err(usage("connect-timeout is not a whole number of seconds", "Write connect-timeout=10"));
        }
    };
    let address = address(&mut parameters, first_port)?;
    let encryption = encryption(&mut parameters, &address)?;
    let database = parameters.remove("database");
    let shown = database.clone().unwrap_or_default();
    let place = |address: &Address| match address {
        Address::Unix(path) => format!("mysql:///{shown}?socket={}", path.display()),
        Address::Tcp(host, port) => format!("mysql://{}:{port}/{shown}", shown_host(host)),
    };
    let password = password.cloned().or_else(|| {
        let text = parameters.remove("password")?;
        Some(match password_file {
            Some(file) => Password::renewed(text, move || files::password(&file)),
            None => Password::new(text),
        })
    });
    let login = Login {
        user,
        database,
        password,
        no_password_because,
        program_name: parameters.remove("program-name").unwrap_or_else(|| PROGRAM_NAME.to_owned()),
        private_way: matches!(address, Address::Unix(_)),
        encryption,
        place: place(&address),
    };
    let other = |(host, port): url::Other| {
        let host = if host.is_empty() { "localhost".to_owned() } else { host };
        let address = Address::Tcp(host.clone(), port.as_ref().map_or(Ok(PORT), number)?);
        let encryption = login.encryption.clone().map(|encryption| Encryption { host, ..encryption });
        let login = Login { place: place(&address), private_way: false, encryption, ..login.clone() };
        Ok((address, login))
    };
    let others = others.into_iter().map(other).collect::<Result<Vec<_>, StoreError>>()?;
    Ok(ConnInfo { login, address, others, connect_timeout })
}

/// Adds what is not said yet; a place only where none was named.
fn add(parameters: &mut Parameters, more: Vec<(&'static str, String)>, place_is_known: bool) {
    for (name, value) in more {
        if !(place_is_known && matches!(name, "host" | "socket" | "port")) {
            parameters.entry(name).or_insert(value);
        }
    }
}

/// Resolves the address as the servers' own clients do: `localhost` without a port is the socket in its usual place,
/// if it exists.
fn address(parameters: &mut Parameters, port: Option<u16>) -> Result<Address, StoreError> {
    if let Some(socket) = parameters.remove("socket") {
        return Ok(Address::Unix(PathBuf::from(socket)));
    }
    let host = one_host(parameters.remove("host").unwrap_or_else(|| "localhost".to_owned()))?;
    if host.starts_with('/') {
        return Ok(Address::Unix(PathBuf::from(host)));
    }
    let usual = SOCKETS.iter().find(|path| Path::new(path).exists());
    Ok(match (usual, port) {
        (Some(socket), None) if host == "localhost" => Address::Unix(PathBuf::from(socket)),
        _ => Address::Tcp(host, port.unwrap_or(PORT)),
    })
}

/// Returns the encryption of the connection: `ssl-mode`, with the words of MySQL's clients. PREFERRED, the default, leaves a
/// Unix socket as it is, as they do.
fn encryption(parameters: &mut Parameters, address: &Address) -> Result<Option<Encryption>, StoreError> {
    let mode = parameters.remove("ssl-mode").unwrap_or_else(|| "PREFERRED".to_owned()).to_ascii_uppercase();
    let verify = match mode.as_str() {
        "DISABLED" => return Ok(None),
        "PREFERRED" if matches!(address, Address::Unix(_)) => return Ok(None),
        "PREFERRED" | "REQUIRED" => Verify::None,
        "VERIFY_CA" => Verify::Ca,
        "VERIFY_IDENTITY" => Verify::Full,
        _ => {
            return Err(usage(
                "ssl-mode is none of DISABLED, PREFERRED, REQUIRED, VERIFY_CA, VERIFY_IDENTITY",
                "Write ssl-mode=DISABLED",
            ));
        }
    };
    let roots = parameters.remove("ssl-ca").map_or(Roots::System, |path| Roots::File(PathBuf::from(path)));
    let certificate = match (parameters.remove("ssl-cert"), parameters.remove("ssl-key")) {
        (Some(certificate), Some(key)) => {
            Some(ClientCertificate { certificate: PathBuf::from(certificate), key: PathBuf::from(key) })
        }
        (None, None) => None,
        _ => return Err(usage("there is only one of ssl-cert and ssl-key", "Give both, or neither.")),
    };
    let names = FileNames { roots: "ssl-ca", certificate: "ssl-cert", key: "ssl-key" };
    let client = TlsClient::new(&TlsOptions { verify, roots, certificate, names, ..TlsOptions::default() })?;
    Ok(Some(Encryption { client, host: certified_host(address).to_owned(), required: mode != "PREFERRED" }))
}

/// Parameters of clients without an effect on sessions here, and their values that ask for nothing else; without any,
/// every value.
const WITHOUT_EFFECT: [(&str, &[&str]); 7] = [
    ("charset", &["utf8", "utf-8", "utf8mb3", "utf8mb4"]),
    ("compress", &["0", "false", "no", "off"]),
    ("default-character-set", &["utf8", "utf8mb3", "utf8mb4"]),
    ("encoding", &["utf8", "utf-8", "utf8mb4"]),
    ("local-infile", &["0", "false", "no", "off"]),
    // Those of operations are the plan's.
    ("read-timeout", &[]),
    ("write-timeout", &[]),
];

/// Returns the parameter `name` with its value, `_` and `-` being the same, or `None` if it has no effect here.
///
/// # Errors
/// `Usage` if the parameter is unknown, with the one that may have been meant, or asks for what sessions do not have.
fn parameter(name: &str, value: String, place: &str) -> Result<Option<(&'static str, String)>, StoreError> {
    let wanted = name.replace('_', "-");
    if let Some((known, _)) = PARAMETERS.iter().find(|(known, _)| *known == wanted) {
        return Ok(Some((known, value)));
    }
    let Some((_, values)) = WITHOUT_EFFECT.iter().find(|(known, _)| *known == wanted) else {
        return Err(unknown(name, place, PARAMETERS.iter().map(|(known, _)| *known)));
    };
    if values.is_empty() || values.iter().any(|one| one.eq_ignore_ascii_case(&value)) {
        return Ok(None);
    }
    let what = format!("{place} sets `{}`, which can only be {}", name.escape_debug(), values.join(", "));
    Err(usage(what, "Leave it out."))
}
