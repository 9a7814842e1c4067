//! Connection parameters: a URL or a key=value string, a service file, the environment and a password file,
//! in libpq's order.
//!
//! A parameter is taken from the URL, else from the service (`service=` or `PGSERVICE`), else from its
//! environment variable, else it has its default. No error shows a password, or a part of a URL that may be
//! a piece of one.

mod files;
mod hosts;
mod names;
mod security;
mod url;
mod words;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use plimsoll_core::{Address, StoreError};
pub use plimsoll_endpoint::Environment;
use plimsoll_endpoint::usage;

use self::names::{PARAMETERS, parameter};
pub(crate) use self::words::pairs;
use crate::wire::{Binding, Login, Password, TlsEnd};

const APPLICATION_NAME: &str = "plimsoll";

/// Directories of sockets: Debian's and Red Hat's, then PostgreSQL's own default.
const SOCKET_DIRS: [&str; 2] = ["/var/run/postgresql", "/tmp"];

/// The servers to try, in order, and how to log in.
#[derive(Debug, Clone)]
pub struct ConnInfo {
    /// Hosts, at least one. Those of one URL differ in address and password only.
    pub hosts: Vec<Host>,
    /// Condition for an acceptable host.
    pub wanted: Wanted,
    /// Sessions are spread over all of those: libpq's `load_balance_hosts=random`.
    pub balanced: bool,
    /// Longest time of connecting to a host and logging in.
    pub connect_timeout: Option<Duration>,
}

/// A server that may be there, and how to log in.
#[derive(Debug, Clone)]
pub struct Host {
    /// Address where the server listens.
    pub address: Address,
    /// Login, with its database.
    pub login: Login,
    /// Encrypted or not: each is tried when the one before it was not accepted.
    pub attempts: Vec<Option<TlsEnd>>,
}

/// Role of the wanted server: libpq's `target_session_attrs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wanted {
    /// Any.
    #[default]
    Any,
    /// Server whose sessions may write.
    ReadWrite,
    /// Server whose sessions may only read.
    ReadOnly,
    /// Server that is no standby.
    Primary,
    /// A standby.
    Standby,
    /// A standby, or any where there is none.
    PreferStandby,
}

impl Wanted {
    /// The word in a URL, and what it stands for in a sentence.
    pub(crate) const ALL: [(&'static str, Wanted, &'static str); 6] = [
        ("any", Wanted::Any, "any server"),
        ("read-write", Wanted::ReadWrite, "a server whose sessions may write"),
        ("read-only", Wanted::ReadOnly, "a server whose sessions may only read"),
        ("primary", Wanted::Primary, "a primary"),
        ("standby", Wanted::Standby, "a standby"),
        ("prefer-standby", Wanted::PreferStandby, "a standby"),
    ];
}

/// Parameters by name, each from the first place that has it.
type Parameters = BTreeMap<&'static str, String>;

/// Finds out where a URL, or a key=value string, leads. `password`, where it is known already, wins over every other.
///
/// # Errors
/// `Usage`, with what is wrong in which place.
pub fn resolve(url: &str, password: Option<&Password>, environment: &Environment<'_>) -> Result<ConnInfo, StoreError> {
    let mut parameters = match words::of(url) {
        Some(words) => words::parse(words)?,
        None => url::parse(url)?,
    };
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
    let connect_timeout = match parameters.get("connect_timeout").map(|text| text.trim().parse::<i64>()) {
        None => None,
        Some(Ok(seconds)) if seconds > 0 => Some(Duration::from_secs(seconds.unsigned_abs())),
        // libpq waits for ever then; nothing here does.
        Some(Ok(_)) => None,
        Some(Err(_)) => {
            return Err(usage("connect_timeout is not a whole number of seconds", "Write connect_timeout=10"));
        }
    };
    let wanted = one_of(&parameters, "target_session_attrs", &Wanted::ALL.map(|(word, wanted, _)| (word, wanted)))?;
    let balanced = one_of(&parameters, "load_balance_hosts", &[("disable", false), ("random", true)])?;
    let binding = one_of(
        &parameters,
        "channel_binding",
        &[("prefer", Binding::Prefer), ("disable", Binding::Disable), ("require", Binding::Require)],
    )?;
    let known = password.cloned().or_else(|| parameters.remove("password").map(Password::new));
    let file = parameters.remove("passfile").map(PathBuf::from).or_else(|| Some(environment.home()?.join(".pgpass")));
    let passwords = Passwords { known, file };
    let application_name = parameters.remove("application_name");
    let fallback = parameters.remove("fallback_application_name");
    let login = Login {
        user,
        database,
        password: None,
        no_password_because: None,
        application_name: application_name.or(fallback).unwrap_or_else(|| APPLICATION_NAME.to_owned()),
        options: parameters.remove("options"),
        binding,
        place: String::new(),
    };
    let security = security::Settings::of(&parameters, environment)?;
    let mut hosts = Vec::new();
    for place in hosts::of(&parameters)? {
        let (password, no_password_because) = passwords.for_host(&place, &login);
        let login = Login { password, no_password_because, place: place.shown(&login.database), ..login.clone() };
        let attempts = security.attempts(&place)?;
        hosts.push(Host { address: place.address(), login, attempts });
    }
    Ok(ConnInfo { hosts, wanted, balanced, connect_timeout })
}

/// Sources of passwords.
struct Passwords {
    known: Option<Password>,
    file: Option<PathBuf>,
}

impl Passwords {
    /// The password for a host, and why there is none, where there is a reason.
    fn for_host(&self, place: &hosts::Place, login: &Login) -> (Option<Password>, Option<String>) {
        if self.known.is_some() {
            return (self.known.clone(), None);
        }
        // As libpq: a socket in the usual directory is `localhost` in a password file.
        let host = if SOCKET_DIRS.contains(&place.host.as_str()) { "localhost" } else { &place.host };
        let wanted = [host.to_owned(), place.port.to_string(), login.database.clone(), login.user.clone()];
        let Some(file) = self.file.clone() else { return (None, None) };
        let read = move || files::password(&file, wanted.each_ref().map(String::as_str));
        match read() {
            Ok(found) => (found.map(|first| Password::renewed(first, move || read().ok().flatten())), None),
            Err(reason) => (None, Some(reason)),
        }
    }
}

/// Returns the value of the parameter's word; the first of `words` without the parameter.
fn one_of<T: Copy>(parameters: &Parameters, name: &str, words: &[(&'static str, T)]) -> Result<T, StoreError> {
    let given = parameters.get(name).map_or(words[0].0, String::as_str);
    words.iter().find(|(word, _)| *word == given).map(|(_, value)| *value).ok_or_else(|| {
        let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        usage(format!("{name} is none of {}", words.join(", ")), format!("Write {name}={}", words[0]))
    })
}
