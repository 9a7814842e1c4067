//! `postgres://user@host:port,host:port/db?parameter=value`, percent-decoded.

use plimsoll_core::StoreError;
use plimsoll_endpoint::{Url, decode, host_and_port};

use super::{Parameters, parameter};

const FORM: &str = "Write it as postgres://user@host:5432/database, postgres://user@/database?host=/socket/directory \
                    or postgres://host=… dbname=…";

/// Takes a URL apart.
pub(super) fn parse(url: &str) -> Result<Parameters, StoreError> {
    let url = Url::split(url, &["postgres", "postgresql"], FORM)?;
    let mut parameters = Parameters::new();
    let (mut names, mut ports) = (Vec::new(), Vec::new());
    for host in url.hosts.split(',') {
        let (host, port) = host_and_port(host, "postgres://[::1]:5432/db")?;
        names.push(decode(host)?);
        ports.push(decode(port.unwrap_or_default())?);
    }
    parameters.insert("host", names.join(","));
    // One port stands for all hosts, so it must not be said where each has none or its own.
    if ports.iter().any(|port| !port.is_empty()) {
        parameters.insert("port", ports.join(","));
    }
    for (name, value) in [("user", url.user), ("password", url.password), ("dbname", url.path)] {
        parameters.insert(name, decode(value.unwrap_or_default())?);
    }
    // What is empty is not said.
    parameters.retain(|_, value| !value.is_empty());
    for (name, value) in url.parameters()? {
        let heeded = match (&*name, value) {
            // What JDBC's URLs have; libpq takes it too.
            ("ssl", value) if value == "true" => Some(("sslmode", "require".to_owned())),
            (name, value) => parameter(name, value, "the URL")?,
        };
        parameters.extend(heeded);
    }
    Ok(parameters)
}
