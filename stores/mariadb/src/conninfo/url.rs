//! `mysql://user@host:port/db?parameter=value`, percent-decoded.

use plimsoll_core::StoreError;
use plimsoll_endpoint::{Url, decode, host_and_port};

use super::{Parameters, parameter};

const FORM: &str = "Write it as mysql://user@host:3306/database or mysql://user@/database?socket=/path/of/socket";

/// Takes a URL apart.
pub(super) fn parse(url: &str) -> Result<Parameters, StoreError> {
    let url = Url::split(url, &["mysql", "mariadb"], FORM)?;
    let (host, port) = host_and_port(url.hosts, "mysql://[::1]:3306/db")?;
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
        parameters.insert(parameter(&name, "the URL")?, value);
    }
    Ok(parameters)
}
