//! Search for a server of a URL that answers: the host, encrypted or not.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::{Address, StoreError, StoreErrorKind, Waits};

use crate::connection::{Connection, Refused};
use crate::conninfo::{ConnInfo, Host, Wanted};
use crate::wire::{BackendKey, Login, TlsEnd};

/// Longest time of the delivery of a CancelRequest.
const CANCEL_TIMEOUT: Duration = Duration::from_millis(250);

/// Server with its login.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// Address where the server listens.
    pub address: Address,
    /// Login, with its database.
    pub login: Arc<Login>,
    /// Encryption of connections, if any.
    pub tls: Option<TlsEnd>,
}

impl Endpoint {
    /// Logs in at `address` without encryption.
    pub fn plain(address: Address, login: Login) -> Endpoint {
        Endpoint { address, login: Arc::new(login), tls: None }
    }

    /// Asks the server to cancel what the connection with this key is at. It goes unencrypted: the server takes it so
    /// whatever it asks of others, and it holds nothing but the key.
    pub(crate) fn cancel(&self, key: &BackendKey) -> std::io::Result<()> {
        let socket = plimsoll_endpoint::connect(&self.address, &CANCEL_TIMEOUT.into())?;
        // Of a new socket's buffer it fills a corner.
        rustix::net::send(&socket, &key.cancel_request(), rustix::net::SendFlags::NOSIGNAL)?;
        Ok(())
    }
}

/// Finds the first server that will do, and runs `settings` there. What was agreed on there is what the endpoint asks
/// for from then on.
pub(crate) fn reach(info: &ConnInfo, settings: &str, waits: &Waits) -> Result<(Endpoint, Connection), StoreError> {
    let mut misses = Vec::new();
    // `prefer-standby` goes round twice.
    let rounds: &[Wanted] = match info.wanted {
        Wanted::PreferStandby => &[Wanted::Standby, Wanted::Any],
        ref one => std::slice::from_ref(one),
    };
    for wanted in rounds {
        misses.clear();
        for host in &info.hosts {
            match reach_host(host, *wanted, settings, waits) {
                Ok(found) => return Ok(found),
                Err(miss) => misses.push(miss),
            }
            // As libpq: what a server refuses is not tried with the next one.
            if let Some(Miss { error, is_final: true }) = misses.last() {
                return Err(error.clone());
            }
        }
    }
    if let [only] = misses.as_slice() {
        return Err(only.error.clone());
    }
    let kind = misses.first().map_or(StoreErrorKind::Usage, |miss| miss.error.kind);
    let each: Vec<String> = misses.iter().map(|miss| miss.error.to_string()).collect();
    Err(StoreError::new(kind, format!("none of the {} hosts will do", misses.len()))
        .detail(each.join("; "))
        .next("Name a host that runs and is what target_session_attrs asks for."))
}

/// Every host of several that will do, in their order, and why each of the others will not.
pub(crate) fn reach_all(
    info: &ConnInfo,
    wanted: Wanted,
    settings: &str,
    waits: &Waits,
) -> (Vec<Endpoint>, Vec<StoreError>) {
    let rounds: &[Wanted] = match wanted {
        Wanted::PreferStandby => &[Wanted::Standby, Wanted::Any],
        ref one => std::slice::from_ref(one),
    };
    let (mut found, mut misses) = (Vec::new(), Vec::new());
    for wanted in rounds {
        if !found.is_empty() {
            break;
        }
        misses.clear();
        for host in &info.hosts {
            match reach_host(host, *wanted, settings, waits) {
                Ok((endpoint, _)) => found.push(endpoint),
                Err(miss) => misses.push(miss.error),
            }
        }
    }
    (found, misses)
}

/// Reason that a host is skipped.
struct Miss {
    error: StoreError,
    /// The server has refused: no other host is asked.
    is_final: bool,
}

fn reach_host(host: &Host, wanted: Wanted, settings: &str, waits: &Waits) -> Result<(Endpoint, Connection), Miss> {
    let login = Arc::new(host.login.clone());
    let mut before: Option<StoreError> = None;
    for tls in &host.attempts {
        let endpoint = Endpoint { address: host.address.clone(), login: Arc::clone(&login), tls: tls.clone() };
        let refused = match endpoint.try_open(Arc::default(), "", &[], waits) {
            Ok(mut connection) => {
                admit(&mut connection, wanted, settings, &login.place)
                    .map_err(|error| Miss { error, is_final: false })?;
                // What was agreed on once is what all later connections must be.
                let agreed = endpoint.tls.filter(|_| connection.session().agreed().is_some());
                let tls = agreed.map(|tls| TlsEnd { required: true, ..tls });
                return Ok((Endpoint { tls, ..endpoint }, connection));
            }
            Err(refused) => refused,
        };
        let goes_on = may_be_encryption(&refused);
        let mut error = refused.error;
        if let Some(before) = before {
            let own = error.detail.map(|detail| format!("{detail}; ")).unwrap_or_default();
            error.detail = Some(format!("{own}before that: {before}"));
        }
        before = Some(error);
        if !goes_on {
            break;
        }
    }
    let Some(error) = before else {
        let error = StoreError::usage(format!("{} cannot be reached", login.place));
        return Err(Miss { error, is_final: true });
    };
    Err(Miss { is_final: error.kind != StoreErrorKind::Unreachable, error })
}

/// True when the other kind of connection may be let in: TLS itself failed, or pg_hba.conf has no line for this
/// kind. A wrong password is none of that, and must not be tried in the open.
fn may_be_encryption(refused: &Refused) -> bool {
    refused.in_tls || refused.error.detail.as_deref().is_some_and(|detail| detail.starts_with("28000"))
}

/// Runs `settings` on a connection to a server that will do. Another client of a pooler would find them.
fn admit(connection: &mut Connection, wanted: Wanted, settings: &str, place: &str) -> Result<(), StoreError> {
    must_not_be_pooled(connection, place)?;
    check(connection, wanted, place)?;
    if settings.is_empty() { Ok(()) } else { connection.simple(settings).map(drop) }
}

/// Refuses a pooler, which gives one connection of a server to several clients, and what looks like one.
///
/// A server greets with the number of the process that serves the connection, and a proxy passes this number on.
/// A pooler greets before it has a connection, with a number of its own.
fn must_not_be_pooled(connection: &mut Connection, place: &str) -> Result<(), StoreError> {
    let serving = connection.value("SELECT pg_backend_pid()")?;
    let greeted = connection.session().inner().key.as_ref().map(|key| key.pid.to_string());
    if greeted.as_ref() == Some(&serving) {
        return Ok(());
    }
    let greeted = greeted.map_or("without a process".to_owned(), |process| format!("as process {process}"));
    Err(StoreError::usage(format!("{place} greets {greeted}, and process {serving} answers: it looks like a pooler"))
        .detail("other clients of a pooler would find the settings of this run in its connections")
        .next("Name the server itself, or a proxy that passes connections on, such as HAProxy."))
}

fn check(connection: &mut Connection, wanted: Wanted, place: &str) -> Result<(), StoreError> {
    let question = match wanted {
        Wanted::Any | Wanted::PreferStandby => return Ok(()),
        Wanted::ReadWrite => "SELECT current_setting('transaction_read_only') = 'off'",
        Wanted::ReadOnly => "SELECT current_setting('transaction_read_only') = 'on'",
        Wanted::Primary => "SELECT NOT pg_is_in_recovery()",
        Wanted::Standby => "SELECT pg_is_in_recovery()",
    };
    if connection.value(question)? == "t" {
        return Ok(());
    }
    let words = Wanted::ALL.iter().find(|(_, kind, _)| *kind == wanted).map_or("", |(_, _, words)| words);
    Err(StoreError::usage(format!("{place} is not {words}"))
        .next("Name a host that is, or leave target_session_attrs out."))
}
