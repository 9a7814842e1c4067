//! Blocking connection of the control plane, where nothing is measured.

use std::sync::Arc;

use plimsoll_core::{
    Answer, Call, LdapCall, LdapScope, Op, OpKind, Outcome, StoreError, StoreErrorKind, Ticket, Value, ValueBuf, Waits,
    WireSession,
};
use plimsoll_endpoint::{Channel, Connected, Connection};

use crate::endpoint::Endpoint;
use crate::start_tls::{self, Secured};
use crate::wire::LdapSession;

/// Operations asked at a time.
const BATCH: usize = 100;

/// A connection whose calls return when they are done. After an error of the connection itself it is of no more use.
/// DNs are whole ones here.
pub struct Control {
    connection: Connection<Secured>,
    place: String,
}

impl Connected for Control {
    fn is_alive(&mut self) -> bool {
        self.connection.is_alive()
    }
}

impl Control {
    /// Connects and binds. `waits` say how long the server may be silent.
    ///
    /// # Errors
    /// `Unreachable`, `Authentication`, `Usage`, `Interrupted`, or as the server says.
    pub fn open(endpoint: &Endpoint, waits: impl Into<Waits>) -> Result<Self, StoreError> {
        let place = endpoint.login.place.clone();
        let plain = LdapSession::new(Arc::new(endpoint.login.clone()), "", true);
        let session = start_tls::around(plain, endpoint.tls_client()?, endpoint)?;
        let mut connection = Connection::new(Channel::connect(&endpoint.address, &place, waits)?, session);
        connection.open(&[])?;
        Ok(Control { connection, place })
    }

    /// Asks one operation: what it came to, a search's entries with their values.
    ///
    /// # Errors
    /// Of the connection; what the server says no to is an outcome.
    pub fn ask(&mut self, call: &LdapCall) -> Result<(Outcome, Answer), StoreError> {
        let mut all = self.ask_all(std::slice::from_ref(call))?;
        Ok(all.pop().unwrap_or((Outcome::Unknown, Answer::default())))
    }

    /// Asks operations, many at a time, in any order.
    ///
    /// # Errors
    /// As [`Control::ask`].
    pub fn ask_all(&mut self, calls: &[LdapCall]) -> Result<Vec<(Outcome, Answer)>, StoreError> {
        let mut all = Vec::with_capacity(calls.len());
        let nothing = ValueBuf::new();
        for calls in calls.chunks(BATCH) {
            let kind = |call: &LdapCall| OpKind::new("control", Call::Ldap(call.clone()), &[]).kept();
            let kinds: Vec<OpKind> = calls.iter().map(kind).collect();
            let mut prepared = Ok(());
            let mut kept = vec![(Outcome::Unknown, Answer::default()); calls.len()];
            self.connection.run(
                |session, out| {
                    prepared = session.inner_mut().prepare(&kinds);
                    for at in (0..calls.len() as u16).filter(|_| prepared.is_ok()) {
                        session.start(Ticket(at.into()), &Op::new(at, nothing.values()), out);
                    }
                },
                &mut |ticket, outcome, answer| {
                    if let Some(place) = kept.get_mut(ticket.0 as usize) {
                        *place = (outcome, answer.clone());
                    }
                },
            )?;
            prepared?;
            all.append(&mut kept);
        }
        Ok(all)
    }

    /// The first values of `attributes` of the entry `dn`; `None` when there is no such entry, or it is not for us.
    ///
    /// # Errors
    /// Of the connection.
    pub fn entry(&mut self, dn: &str, attributes: &[&str]) -> Result<Option<Vec<String>>, StoreError> {
        let found = self.entries(dn, LdapScope::Base, "(objectClass=*)", attributes)?;
        Ok(found.into_iter().next().map(|(_, values)| values))
    }

    /// DNs and first values of `attributes` of all entries that a search finds; empty texts where there is no value.
    ///
    /// # Errors
    /// Of the connection. That the search is refused finds nothing.
    pub fn entries(
        &mut self,
        base: &str,
        scope: LdapScope,
        filter: &str,
        attributes: &[&str],
    ) -> Result<Vec<(String, Vec<String>)>, StoreError> {
        let (_, answer) = self.ask(&LdapCall::Search {
            base: base.to_owned(),
            scope,
            filter: filter.to_owned(),
            attributes: attributes.iter().map(|one| (*one).to_owned()).collect(),
        })?;
        let text = |value: Value<'_>| match value {
            Value::Text(text) => text.to_owned(),
            Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            _ => String::new(),
        };
        let row = |row: plimsoll_core::Values<'_>| {
            let mut values: Vec<String> = row.iter().map(text).collect();
            (values.remove(0), values)
        };
        Ok(answer.row_iter().map(row).collect())
    }

    /// Asks an operation that has to succeed.
    ///
    /// # Errors
    /// What the server says no to, with `what` was wanted.
    pub fn must(&mut self, call: &LdapCall, what: &str) -> Result<(), StoreError> {
        let (outcome, answer) = self.ask(call)?;
        match outcome {
            Outcome::Ok => Ok(()),
            _ => Err(refused(&self.place, what, outcome, &answer)),
        }
    }
}

/// Returns the error for a request that the server refused.
pub(crate) fn refused(place: &str, what: &str, outcome: Outcome, answer: &Answer) -> StoreError {
    let kind = match answer.code.as_str() {
        "insufficientAccessRights" | "unwillingToPerform" | "operationsError" => StoreErrorKind::Permission,
        _ => StoreErrorKind::Store,
    };
    let error = StoreError::new(kind, format!("{place} refused to {what}"));
    let error = match (outcome, answer.code.as_str()) {
        (Outcome::NotFound, _) => error.detail("noSuchObject"),
        (_, code) if answer.message.is_empty() => error.detail(code),
        (_, code) => error.detail(format!("{code}: {}", answer.message)),
    };
    error.next("Bind as an identity with that right, and check the base in the URL.")
}
