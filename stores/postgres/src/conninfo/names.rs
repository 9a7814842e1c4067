//! The names of parameters: those that are heeded, those without an effect, and what is said to others.

use plimsoll_core::StoreError;
use plimsoll_endpoint::{unknown, usage};

/// Parameters that are heeded, and the environment variable of each.
pub(super) const PARAMETERS: [(&str, &str); 21] = [
    ("host", "PGHOST"),
    ("hostaddr", "PGHOSTADDR"),
    ("port", "PGPORT"),
    ("dbname", "PGDATABASE"),
    ("user", "PGUSER"),
    ("password", "PGPASSWORD"),
    ("passfile", "PGPASSFILE"),
    ("service", "PGSERVICE"),
    ("sslmode", "PGSSLMODE"),
    ("sslnegotiation", "PGSSLNEGOTIATION"),
    ("sslrootcert", "PGSSLROOTCERT"),
    ("sslcert", "PGSSLCERT"),
    ("sslkey", "PGSSLKEY"),
    ("channel_binding", "PGCHANNELBINDING"),
    ("target_session_attrs", "PGTARGETSESSIONATTRS"),
    ("load_balance_hosts", "PGLOADBALANCEHOSTS"),
    ("connect_timeout", "PGCONNECT_TIMEOUT"),
    ("application_name", "PGAPPNAME"),
    // Has none.
    ("fallback_application_name", ""),
    ("options", "PGOPTIONS"),
    ("gssencmode", "PGGSSENCMODE"),
];

/// Parameters of libpq without an effect on sessions here, and their values that ask for nothing else; without any, every
/// value.
const WITHOUT_EFFECT: [(&str, &[&str]); 14] = [
    ("client_encoding", &["utf8", "utf-8", "unicode", "auto"]),
    ("gssdelegation", &[]),
    ("gsslib", &[]),
    // An operation's time-out finds dead connections.
    ("keepalives", &[]),
    ("keepalives_count", &[]),
    ("keepalives_idle", &[]),
    ("keepalives_interval", &[]),
    ("krbsrvname", &[]),
    ("replication", &["false", "off", "no", "0"]),
    ("ssl_max_protocol_version", &["tlsv1.3"]),
    ("ssl_min_protocol_version", &["tlsv1", "tlsv1.1", "tlsv1.2"]),
    ("sslcompression", &[]),
    ("sslsni", &["1"]),
    ("tcp_user_timeout", &[]),
];

/// Parameters of libpq that are refused with some or all values, and why.
const NOT_HEEDED: [(&str, &str); 7] = [
    ("client_encoding", "sessions speak UTF8"),
    ("replication", "no replication is spoken"),
    ("ssl_max_protocol_version", "TLS 1.3 is always offered"),
    ("ssl_min_protocol_version", "TLS 1.2 is always offered"),
    ("sslcrl", "lists of revoked certificates are not read"),
    ("sslpassword", "keys must not be encrypted"),
    ("sslsni", "the name of the host is always sent"),
];

/// Returns the parameter `name` with its value, or `None` if it has no effect here.
///
/// # Errors
/// `Usage` if the parameter is unknown, with the one that may have been meant, or asks for what sessions do not have.
pub(super) fn parameter(name: &str, value: String, place: &str) -> Result<Option<(&'static str, String)>, StoreError> {
    if let Some((known, _)) = PARAMETERS.iter().find(|(known, _)| *known == name) {
        return Ok(Some((known, value)));
    }
    let asks_nothing = |values: &[&str]| {
        let value = value.trim();
        value.is_empty() || values.is_empty() || values.iter().any(|one| one.eq_ignore_ascii_case(value))
    };
    if WITHOUT_EFFECT.iter().any(|(known, values)| *known == name && asks_nothing(values)) {
        return Ok(None);
    }
    if let Some((_, why)) = NOT_HEEDED.iter().find(|(begin, _)| name.starts_with(begin)) {
        let what = format!("{place} sets `{}`, which is not heeded here: {why}", name.escape_debug());
        return Err(usage(what, "Leave it out."));
    }
    Err(unknown(name, place, PARAMETERS.iter().map(|(known, _)| *known)))
}
