//! Where to connect and as whom: a URL, a service file, the environment and a password file, in libpq's order.
//!
//! A parameter is taken from the URL, else from the service (`service=` or `PGSERVICE`), else from its
//! environment variable, else it has its default. No error shows a password, or a part of a URL that may be
//! a piece of one.

mod files;
mod url;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plimsoll_core::{Address, StoreError, StoreErrorKind};

use crate::wire::{Login, Password};

/// Parameters that are understood, and the environment variable of each.
const PARAMETERS: [(&str, &str); 12] = [
    ("host", "PGHOST"),
    ("hostaddr", "PGHOSTADDR"),
    ("port", "PGPORT"),
    ("dbname", "PGDATABASE"),
    ("user", "PGUSER"),
    ("password", "PGPASSWORD"),
    ("passfile", "PGPASSFILE"),
    ("service", "PGSERVICE"),
    ("sslmode", "PGSSLMODE"),
    ("connect_timeout", "PGCONNECT_TIMEOUT"),
    ("application_name", "PGAPPNAME"),
    ("options", "PGOPTIONS"),
];

const PORT: u16 = 5432;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const APPLICATION_NAME: &str = "plimsoll";

/// Where servers put their sockets: Debian and Red Hat, then PostgreSQL's own default.
const SOCKET_DIRS: [&str; 2] = ["/var/run/postgresql", "/tmp"];

/// A server, and how to log in.
#[derive(Debug, Clone)]
pub struct ConnInfo {
    /// Where it listens.
    pub address: Address,
    /// As whom, and to which database.
    pub login: Login,
    /// How long connecting and logging in may take.
    pub connect_timeout: Duration,
}

/// What is asked of the process's environment.
pub struct Environment<'a> {
    /// The value of an environment variable.
    pub var: &'a dyn Fn(&str) -> Option<String>,
    /// The operating system's name of the user, if it has one.
    pub user: Option<String>,
}

impl Environment<'static> {
    /// This process's.
    pub fn of_process() -> Self {
        let var = &|name: &str| std::env::var(name).ok();
        Environment { var, user: files::user_name(rustix::process::geteuid().as_raw()).or_else(|| var("USER")) }
    }
}

impl Environment<'_> {
    /// The value of a variable that is set and not empty.
    fn get(&self, name: &str) -> Option<String> {
        (self.var)(name).filter(|value| !value.is_empty())
    }

    fn home(&self) -> Option<PathBuf> {
        self.get("HOME").map(PathBuf::from)
    }
}

/// Parameters by name, each from the first place that has it.
type Parameters = BTreeMap<&'static str, String>;

/// Finds out where a URL leads. `password`, where it is known already, wins over every other.
pub fn resolve(url: &str, password: Option<&str>, environment: &Environment<'_>) -> Result<ConnInfo, StoreError> {
    let mut parameters = url::parse(url)?;
    if let Some(service) = parameters.get("service").cloned().or_else(|| environment.get("PGSERVICE")) {
        for (name, value) in files::service(&service, environment)? {
            parameters.entry(name).or_insert(value);
        }
    }
    for (name, variable) in PARAMETERS {
        if let Some(value) = environment.get(variable) {
            parameters.entry(name).or_insert(value);
        }
    }
    parameters.retain(|_, value| !value.is_empty());
    check_sslmode(parameters.get("sslmode").map(String::as_str))?;

    let user = match parameters.remove("user").or_else(|| environment.user.clone()) {
        Some(user) => user,
        None => {
            return Err(usage(
                "no user is named, and the operating system has no name for this one",
                "Name one: postgres://user@host/db",
            ));
        }
    };
    let database = parameters.remove("dbname").unwrap_or_else(|| user.clone());
    let port = match parameters.get("port").map(|port| port.parse::<u16>()) {
        None => PORT,
        Some(Ok(port)) if port > 0 => port,
        Some(_) => {
            return Err(usage("the port is not a number from 1 to 65535", "Write it as in postgres://host:5432/db"));
        }
    };
    let connect_timeout = match parameters.get("connect_timeout").map(|text| text.parse::<i64>()) {
        None => CONNECT_TIMEOUT,
        Some(Ok(seconds)) if seconds > 0 => Duration::from_secs(seconds.unsigned_abs()),
        // libpq waits for ever then; nothing here does.
        Some(Ok(_)) => CONNECT_TIMEOUT,
        Some(Err(_)) => {
            return Err(usage("connect_timeout is not a whole number of seconds", "Write connect_timeout=10"));
        }
    };
    let host = parameters.remove("host").unwrap_or_else(|| default_host(port));
    if host.contains(',') || parameters.get("hostaddr").is_some_and(|host| host.contains(',')) {
        return Err(usage("several hosts are named, and one server is measured at a time", "Name one host."));
    }
    let address = match (parameters.remove("hostaddr"), host.starts_with('/')) {
        (Some(hostaddr), _) => Address::Tcp(hostaddr, port),
        (None, true) => Address::Unix(Path::new(&host).join(format!(".s.PGSQL.{port}"))),
        (None, false) => Address::Tcp(host.clone(), port),
    };

    let mut no_password_because = None;
    let mut password = password.map(str::to_owned).or_else(|| parameters.remove("password"));
    if password.is_none() {
        let file =
            parameters.remove("passfile").map(PathBuf::from).or_else(|| Some(environment.home()?.join(".pgpass")));
        // As libpq: a socket in the usual directory is `localhost` in a password file.
        let host = if SOCKET_DIRS.contains(&host.as_str()) { "localhost" } else { &host };
        match file.map(|file| files::password(&file, [host, &port.to_string(), &database, &user])) {
            Some(Ok(found)) => password = found,
            Some(Err(reason)) => no_password_because = Some(reason),
            None => {}
        }
    }
    let place = match &address {
        Address::Unix(_) if port == PORT => format!("postgres:///{database}?host={host}"),
        Address::Unix(_) => format!("postgres:///{database}?host={host}&port={port}"),
        Address::Tcp(..) if host.contains(':') => format!("postgres://[{host}]:{port}/{database}"),
        Address::Tcp(..) => format!("postgres://{host}:{port}/{database}"),
    };
    Ok(ConnInfo {
        address,
        login: Login {
            user,
            database,
            password: password.map(Password::new),
            no_password_because,
            application_name: parameters.remove("application_name").unwrap_or_else(|| APPLICATION_NAME.to_owned()),
            options: parameters.remove("options"),
            place,
        },
        connect_timeout,
    })
}

fn default_host(port: u16) -> String {
    let listening = |dir: &&&str| Path::new(dir).join(format!(".s.PGSQL.{port}")).exists();
    SOCKET_DIRS.iter().find(listening).map_or_else(|| "localhost".to_owned(), |dir| (*dir).to_owned())
}

fn check_sslmode(sslmode: Option<&str>) -> Result<(), StoreError> {
    match sslmode {
        None | Some("disable" | "allow" | "prefer") => Ok(()),
        Some(mode @ ("require" | "verify-ca" | "verify-full")) => Err(usage(
            format!("sslmode={mode} asks for TLS, and TLS is not supported yet"),
            "Connect through the Unix socket, or over a network you trust with sslmode=disable.",
        )),
        Some(_) => Err(usage("sslmode is none of disable, allow, prefer", "Write sslmode=disable")),
    }
}

/// The parameter of this name; an unknown one is an error that suggests what may have been meant.
fn parameter(name: &str, place: &str) -> Result<&'static str, StoreError> {
    if let Some((known, _)) = PARAMETERS.iter().find(|(known, _)| *known == name) {
        return Ok(known);
    }
    let mut names: Vec<&str> = PARAMETERS.iter().map(|(known, _)| *known).collect();
    names.sort_by_key(|known| distance(known, name));
    let next = if distance(names[0], name) <= 3 {
        format!("Did you mean `{}`?", names[0])
    } else {
        names.sort_unstable();
        format!("Known are: {}.", names.join(", "))
    };
    Err(usage(format!("{place} sets `{}`, which is not known", name.escape_debug()), next))
}

/// Levenshtein's distance.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, left) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, right) in to.iter().enumerate() {
            let changed = diagonal + usize::from(left != *right);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

fn usage(what: impl Into<String>, next: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::Usage, what).next(next)
}
