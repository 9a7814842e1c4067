//! `postgres://user@host:port,host:port/db?parameter=value`, percent-decoded.

use plimsoll_core::StoreError;

use super::{Parameters, parameter, usage};

const FORM: &str = "Write it as postgres://user@host:5432/database, postgres://user@/database?host=/socket/directory \
                    or postgres://host=… dbname=…";

/// Takes a URL apart.
pub(super) fn parse(url: &str) -> Result<Parameters, StoreError> {
    let Some(rest) = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://")) else {
        return Err(usage("the URL does not begin with postgres:// or postgresql://", FORM));
    };
    let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
    let (authority, path) = rest.split_once('/').map_or((rest, None), |(authority, path)| (authority, Some(path)));
    // Then a password may have been cut in the middle: nothing of it must be shown.
    let stray_at = |part: Option<&str>| part.is_some_and(|part| part.contains('@'));
    if !authority.contains('@') && (stray_at(path) || stray_at(query)) {
        return Err(usage(
            "the URL has an `@` after its first `/` or `?`",
            "Write `/` as %2F, `?` as %3F and `@` as %40 inside user, password and parameters.",
        ));
    }
    let mut parameters = Parameters::new();
    let (user, hosts) = authority.rsplit_once('@').map_or((None, authority), |(user, hosts)| (Some(user), hosts));
    if let Some(user) = user {
        let (user, password) = user.split_once(':').map_or((user, None), |(user, word)| (user, Some(word)));
        parameters.insert("user", decode(user)?);
        if let Some(password) = password {
            parameters.insert("password", decode(password)?);
        }
    }
    let (mut names, mut ports) = (Vec::new(), Vec::new());
    for host in hosts.split(',') {
        let (host, port) = host_and_port(host)?;
        names.push(decode(host)?);
        ports.push(decode(port.unwrap_or_default())?);
    }
    parameters.insert("host", names.join(","));
    // One port stands for all hosts, so it must not be said where each has none or its own.
    if ports.iter().any(|port| !port.is_empty()) {
        parameters.insert("port", ports.join(","));
    }
    if let Some(path) = path {
        parameters.insert("dbname", decode(path)?);
    }
    // What is empty is not said.
    parameters.retain(|_, value| !value.is_empty());
    for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let Some((name, value)) = pair.split_once('=') else {
            return Err(usage("a parameter of the URL has no value", "Write it as name=value, with & between two."));
        };
        match (&*decode(name)?, decode(value)?) {
            // What JDBC's URLs have; libpq takes it too.
            ("ssl", value) if value == "true" => parameters.insert("sslmode", "require".to_owned()),
            (name, value) => parameters.insert(parameter(name, "the URL")?, value),
        };
    }
    Ok(parameters)
}

fn host_and_port(host: &str) -> Result<(&str, Option<&str>), StoreError> {
    let Some(bracketed) = host.strip_prefix('[') else {
        return match host.split_once(':') {
            Some((_, port)) if port.contains(':') => Err(usage(
                "the URL's host has several colons",
                "Write an IPv6 address in brackets: postgres://[::1]:5432/db",
            )),
            Some((host, port)) => Ok((host, Some(port))),
            None => Ok((host, None)),
        };
    };
    match bracketed.split_once(']') {
        Some((host, "")) => Ok((host, None)),
        Some((host, port)) if port.starts_with(':') => Ok((host, Some(&port[1..]))),
        _ => Err(usage(
            "the URL's IPv6 address has no closing bracket before the port",
            "Write postgres://[::1]:5432/db",
        )),
    }
}

fn decode(text: &str) -> Result<String, StoreError> {
    let wrong = || {
        usage("the URL has a `%` that is not followed by two hexadecimal digits of UTF-8", "Write `%` itself as %25.")
    };
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let (Some(high), Some(low)) = (digit(), digit()) else { return Err(wrong()) };
        match (high * 16 + low) as u8 {
            0 => return Err(usage("the URL has a %00", "Leave it out: nothing in PostgreSQL has such a name.")),
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}
