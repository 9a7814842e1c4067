//! The names of parameters: those that are heeded, and what is said to others.

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

/// Parameters of libpq that are not heeded, and why.
const NOT_HEEDED: [(&str, &str); 8] = [
    ("client_encoding", "sessions speak UTF8"),
    ("keepalives", "an operation's timeout finds dead connections"),
    ("tcp_user_timeout", "an operation's timeout finds dead connections"),
    ("sslcrl", "lists of revoked certificates are not read"),
    ("sslpassword", "keys must not be encrypted"),
    ("sslcompression", "there is no compression in TLS any more"),
    ("replication", "no replication is spoken"),
    ("krbsrvname", "GSSAPI is not spoken"),
];

/// The parameter of this name; an unknown one is an error that suggests what may have been meant.
pub(super) fn parameter(name: &str, place: &str) -> Result<&'static str, StoreError> {
    if let Some((known, _)) = PARAMETERS.iter().find(|(known, _)| *known == name) {
        return Ok(known);
    }
    if let Some((_, why)) = NOT_HEEDED.iter().find(|(begin, _)| name.starts_with(begin)) {
        let what = format!("{place} sets `{}`, which is not heeded here: {why}", name.escape_debug());
        return Err(usage(what, "Leave it out."));
    }
    Err(unknown(name, place, PARAMETERS.iter().map(|(known, _)| *known)))
}
