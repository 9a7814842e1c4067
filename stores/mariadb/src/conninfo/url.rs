//! `mysql://user@host:port/db?parameter=value`, percent-decoded.

use plimsoll_core::StoreError;
use plimsoll_endpoint::{Url, decode, host_and_port};

use super::{Parameters, parameter};

const FORM: &str = "Write it as mysql://user@host:3306/database or mysql://user@/database?socket=/path/of/socket";

/// A further host, and its port where it has one.
pub(super) type Other = (String, Option<String>);

/// Takes a URL apart: its first host is among the parameters, the others stand beside them.
pub(super) fn parse(url: &str) -> Result<(Parameters, Vec<Other>), StoreError> {
    let url = Url::split(url, &["mysql", "mariadb"], FORM)?;
    let mut hosts = url.hosts.split(',').map(|host| host_and_port(host, "mysql://[::1]:3306/db"));
    let (host, port) = hosts.next().transpose()?.unwrap_or_default();
    let other = |host: Result<(&str, Option<&str>), StoreError>| {
        let (host, port) = host?;
        Ok((decode(host)?, port.map(decode).transpose()?))
    };
    let others = hosts.map(other).collect::<Result<Vec<_>, StoreError>>()?;
    let mut parameters = Parameters::new();
    for (name, value) in
        [("user", url.user), ("password", url.password), ("host", Some(host)), ("port", port), ("database", url.path)]
    {
        // What is empty is not said.
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            parameters.insert(name, decode(value)?);
        }
    }
    for (name, value) in url.parameters()? {
        parameters.extend(parameter(&name, value, "the URL")?);
    }
    Ok((parameters, others))
}
