//! Connection to a directory server as a protocol without I/O.
//!
//! Requests are built from what was put together when the session was opened. Answers are read in place, and entries that
//! are not kept are counted and skipped: nothing is allocated for an operation. Servers work on several operations of
//! a connection at a time and answer them in any order; a message's number says which one an answer is to.

use std::sync::Arc;

use plimsoll_core::{
    ANSWER_BYTES_MAX, Answer, CompletionSink, NO_SPACE, Op, OpKind, Outcome, StoreError, StoreErrorKind, Ticket, Value,
    WireSession, WireState,
};
use plimsoll_endpoint::Asked;

use crate::ber::Malformed;
use crate::endpoint::{Identity, Login};
use crate::request::{self, Request, tag};
use crate::response::{self, LdapResult, Message};
use crate::result_code as code;

/// Operations in flight on one connection at most: as many as there are numbers of one byte.
pub const DEPTH_MAX: u32 = 127;
/// The number of the bind. No operation is in flight then.
const BIND_ID: u8 = 1;

/// Operation in flight under a number.
#[derive(Default)]
struct Slot {
    asked: Option<(Ticket, u16)>,
    /// Entries so far.
    rows: u64,
    /// Values of the answer, if they are wanted.
    kept: Answer,
    kept_bytes: usize,
}

/// A connection to a directory server.
#[derive(Default)]
pub struct LdapSession {
    login: Arc<Login>,
    /// Stands behind every DN.
    base: String,
    /// Writes are as durable as was asked for.
    may_write: bool,
    state: WireState,
    /// Error that refuses the operation types; returned with the first answer, before which an executor does not look.
    refused: Option<StoreError>,
    requests: Vec<Request>,
    /// Slots by number, less one.
    slots: Vec<Slot>,
    /// Numbers that nothing is in flight under.
    free: Vec<u8>,
    /// Bytes of a skipped message that have not arrived yet.
    skip_bytes: usize,
    /// An answer without values.
    answer: Answer,
    /// Most bytes that are kept of one answer, and of a message that has to be read whole.
    answer_max: usize,
}

impl LdapSession {
    /// A session that binds as `login` and asks below `base`. Operations that write are refused unless `may_write`.
    pub fn new(login: Arc<Login>, base: impl Into<String>, may_write: bool) -> Self {
        let slots = (0..DEPTH_MAX).map(|_| Slot::default()).collect();
        Self { login, base: base.into(), may_write, slots, answer_max: ANSWER_BYTES_MAX, ..Self::default() }
    }

    /// Makes `kinds` those that can be asked, while nothing is in flight.
    pub(crate) fn prepare(&mut self, kinds: &[OpKind]) -> Result<(), StoreError> {
        self.requests.clear();
        for kind in kinds {
            let request = Request::new(kind, &self.base)?;
            if request.writes && !self.may_write {
                let what = format!(
                    "operation `{}` writes, and {} does not say whether it syncs writes",
                    kind.name, self.login.place
                );
                let next = "Say so with --set ldap.syncs=yes or no; or bind as an identity that may read OpenLDAP's cn=config.";
                return Err(StoreError::usage(what).next(next));
            }
            self.requests.push(request);
        }
        Ok(())
    }

    fn broken(&self, what: &str) -> StoreError {
        StoreError::broken(format!("{} {what}", self.login.place))
    }

    #[cold]
    fn no_ldap(&self, bytes: &[u8], Malformed(what): Malformed) -> StoreError {
        let begin = &bytes[..bytes.len().min(48)];
        self.broken("sent a reply that is not LDAP")
            .detail(format!("{what}: `{}`", begin.escape_ascii()))
            .next("Check scheme, host and port: it may want ldaps://.")
    }

    /// Takes what stands at the beginning of `bytes`, which are some; 0 when more is needed.
    #[inline]
    fn step(&mut self, bytes: &[u8], done: &mut dyn CompletionSink) -> Result<usize, StoreError> {
        if self.skip_bytes > 0 {
            let taken = self.skip_bytes.min(bytes.len());
            self.skip_bytes -= taken;
            return Ok(taken);
        }
        let message = match response::message(bytes) {
            Ok(Some(message)) => message,
            Ok(None) => return Ok(0),
            Err(malformed) => return Err(self.no_ldap(bytes, malformed)),
        };
        let is_wanted = match message.tag {
            tag::ENTRY => self.take_entry_head(&message)?,
            tag::REFERENCE | tag::INTERMEDIATE => false,
            _ => true,
        };
        if !is_wanted {
            let taken = message.total.min(bytes.len());
            self.skip_bytes = message.total - taken;
            return Ok(taken);
        }
        let bytes_kept = slot_of(&mut self.slots, message.id).map_or(0, |slot| slot.kept_bytes) + message.total;
        if bytes_kept > self.answer_max {
            return Err(self.too_large(bytes_kept));
        }
        if bytes.len() < message.total {
            return Ok(0);
        }
        let contents = &bytes[message.from..message.from + message.bytes];
        if message.tag == tag::ENTRY {
            self.keep_entry(message.id, contents).map_err(|malformed| self.no_ldap(bytes, malformed))?;
        } else {
            let result = response::result(contents).map_err(|malformed| self.no_ldap(bytes, malformed))?;
            self.take_result(&message, result, done)?;
        }
        Ok(message.total)
    }

    /// Counts an entry that is not wanted; whether it is. One that is wanted is counted when it is all there.
    #[inline]
    fn take_entry_head(&mut self, message: &Message) -> Result<bool, StoreError> {
        let Some(slot) = slot_of(&mut self.slots, message.id) else { return Err(self.unasked()) };
        let Some((_, kind)) = slot.asked else { return Err(self.unasked()) };
        let request = &self.requests[usize::from(kind)];
        if request.answered_by != tag::SEARCH_DONE {
            return Err(self.broken("answered an operation with an unexpected entry"));
        }
        slot.rows += u64::from(!request.keep);
        Ok(request.keep)
    }

    fn keep_entry(&mut self, id: i32, contents: &[u8]) -> Result<(), Malformed> {
        let Some(slot) = slot_of(&mut self.slots, id) else { return Ok(()) };
        let Some((_, kind)) = slot.asked else { return Ok(()) };
        let request = &self.requests[usize::from(kind)];
        slot.kept_bytes += contents.len();
        slot.rows += 1;
        let mut values = vec![None; request.attributes.len()];
        let mut name: &[u8] = &[];
        response::entry(
            contents,
            |dn| name = dn,
            |attribute, value| {
                let is_it = |wanted: &String| wanted.as_bytes().eq_ignore_ascii_case(attribute);
                if let Some(at) = request.attributes.iter().position(is_it) {
                    values[at] = Some(value);
                }
            },
        )?;
        slot.kept.values.push(Value::Text(&String::from_utf8_lossy(name)));
        for value in values {
            slot.kept.values.push(value.map_or(Value::Null, Value::Bytes));
        }
        Ok(())
    }

    #[inline]
    fn take_result(
        &mut self,
        message: &Message,
        result: LdapResult<'_>,
        done: &mut dyn CompletionSink,
    ) -> Result<(), StoreError> {
        if message.id == 0 {
            return Err(self.notice(result));
        }
        if self.state != WireState::Ready {
            if message.id != i32::from(BIND_ID) || message.tag != tag::BIND_RESPONSE {
                return Err(self.unasked());
            }
            return self.bound(result);
        }
        let asked = slot_of(&mut self.slots, message.id).and_then(|slot| slot.asked);
        let Some((ticket, kind)) = asked else { return Err(self.unasked()) };
        if self.requests[usize::from(kind)].answered_by != message.tag {
            return Err(self.broken("answered an operation with a reply to another operation type"));
        }
        self.finish(message.id as u8, ticket, kind, result, done);
        Ok(())
    }

    /// An operation has its answer.
    #[inline]
    fn finish(&mut self, id: u8, ticket: Ticket, kind: u16, result: LdapResult<'_>, done: &mut dyn CompletionSink) {
        let slot = &mut self.slots[usize::from(id) - 1];
        slot.asked = None;
        self.free.push(id);
        let request = &self.requests[usize::from(kind)];
        let rows = std::mem::take(&mut slot.rows);
        match result.code {
            code::SUCCESS if request.keep => {
                slot.kept.rows = rows;
                slot.kept.columns = 1 + request.attributes.len();
                done.push(ticket, found(request, rows), &slot.kept);
            }
            code::SUCCESS => {
                self.answer.rows = rows;
                done.push(ticket, found(request, rows), &self.answer);
                self.answer.rows = 0;
            }
            code::COMPARE_TRUE | code::COMPARE_FALSE if request.answered_by == tag::COMPARE_RESPONSE => {
                self.answer.rows = 1;
                self.answer.columns = 1;
                if request.keep {
                    self.answer.values.push(Value::Bool(result.code == code::COMPARE_TRUE));
                }
                done.push(ticket, Outcome::Ok, &self.answer);
                self.answer.clear();
            }
            code::NO_SUCH_OBJECT if request.answered_by != tag::ADD_RESPONSE => {
                done.push(ticket, Outcome::NotFound, &self.answer);
            }
            _ => {
                let open = request.writes && code::leaves_open(result.code);
                let outcome = if open { Outcome::Unknown } else { Outcome::Rejected };
                // What came before a limit was exceeded has come.
                let answer = if request.keep { &mut slot.kept } else { &mut self.answer };
                answer.rows = rows;
                answer.columns = 1 + request.attributes.len();
                reject(answer, result);
                done.push(ticket, outcome, answer);
                answer.clear();
            }
        }
        if request.keep {
            slot.kept.clear();
            slot.kept_bytes = 0;
        }
    }

    #[cold]
    fn too_large(&self, bytes: usize) -> StoreError {
        StoreError::answer_too_large(&self.login.place, Some(bytes as u64), self.answer_max)
    }

    #[cold]
    fn unasked(&self) -> StoreError {
        self.broken("sent a reply without a request")
    }

    /// The server says good-bye, as it does before it stops (RFC 4511, 4.4.1).
    #[cold]
    fn notice(&self, result: LdapResult<'_>) -> StoreError {
        let what = format!("{} ended the connection", self.login.place);
        StoreError::new(StoreErrorKind::Unreachable, what).detail(words(result))
    }

    /// The bind has its answer.
    #[cold]
    fn bound(&mut self, result: LdapResult<'_>) -> Result<(), StoreError> {
        if result.code != code::SUCCESS {
            return Err(refusal(&self.login, result));
        }
        if let Some(refused) = self.refused.take() {
            return Err(refused);
        }
        self.state = WireState::Ready;
        Ok(())
    }
}

/// The slot of a number.
#[inline]
fn slot_of(slots: &mut [Slot], id: i32) -> Option<&mut Slot> {
    slots.get_mut(usize::try_from(id).ok()?.checked_sub(1)?)
}

/// Outcome of a search that succeeded and may have found nothing.
fn found(request: &Request, rows: u64) -> Outcome {
    if rows == 0 && request.answered_by == tag::SEARCH_DONE { Outcome::NotFound } else { Outcome::Ok }
}

/// Puts an error's name and the server's words into an answer.
fn reject(answer: &mut Answer, result: LdapResult<'_>) {
    match code::name(result.code) {
        "code" => answer.code.push_str(&format!("code {}", result.code)),
        name => answer.code.push_str(name),
    }
    answer.message.push_str(&String::from_utf8_lossy(result.message));
    // A database has no code of its own for it: `mdb_put: No space left on device (28)`.
    answer.disk_full = answer.message.contains(NO_SPACE);
    if result.code == code::REFERRAL {
        let url = result.referral.map(String::from_utf8_lossy).unwrap_or_default();
        answer.message.push_str(&format!("it is kept elsewhere, at {url}; referrals are not followed"));
    }
}

/// Name, number and words of a result.
pub(crate) fn words(result: LdapResult<'_>) -> String {
    let said = String::from_utf8_lossy(result.message);
    match said.is_empty() {
        true => code::named(result.code),
        false => format!("{}: {said}", code::named(result.code)),
    }
}

/// Converts the server's refusal of the login to an error.
#[cold]
fn refusal(login: &Login, result: LdapResult<'_>) -> StoreError {
    use StoreErrorKind as K;
    let Login { place, identity, .. } = login;
    let who = match identity {
        Identity::Anonymous => "an anonymous bind".to_owned(),
        Identity::Simple { dn, .. } => format!("`{dn}` with this password"),
        Identity::External => "a bind as the identity of the socket or certificate (SASL EXTERNAL)".to_owned(),
    };
    let check = match identity {
        Identity::Anonymous => "Write the DN to bind as into the URL, and use --password-file.",
        Identity::Simple { .. } => "Check the DN in the URL, and the password there or in the file of --password-file.",
        Identity::External => "Connect to ldapi://, or show a certificate with cert= and key=.",
    };
    let (kind, what, next) = match code::name(result.code) {
        "invalidCredentials"
        | "inappropriateAuthentication"
        | "insufficientAccessRights"
        | "unwillingToPerform"
        | "noSuchObject"
        | "authMethodNotSupported" => (K::Authentication, format!("{place} does not accept {who}"), check),
        "confidentialityRequired" | "strongerAuthRequired" => (
            K::Authentication,
            format!("{place} does not accept {who} without TLS"),
            "Write ldaps://, or add starttls=yes to the URL.",
        ),
        "invalidDNSyntax" => {
            (K::Usage, format!("{place} does not take the URL's user for a DN"), "Write one of its schema.")
        }
        "protocolError" => (K::Usage, format!("{place} does not speak LDAP version 3"), "Check scheme, host and port."),
        "busy" | "unavailable" => (
            K::Unreachable,
            format!("{place} accepts no connections now"),
            "Wait until it has started, or is less busy.",
        ),
        _ => (K::Store, format!("{place} refused {who}"), "Look it up in the server's log."),
    };
    StoreError::new(kind, what).detail(words(result)).next(next)
}

impl Asked for LdapSession {
    fn is_asked(&self) -> bool {
        self.state == WireState::Ready && self.free.len() < DEPTH_MAX as usize
    }

    #[cold]
    fn fail(&mut self, error: StoreError, done: &mut dyn CompletionSink) {
        self.answer.fail(Outcome::Unknown, "connection", &error.to_string());
        for slot in &mut self.slots {
            if let Some((ticket, _)) = slot.asked.take() {
                done.push(ticket, Outcome::Unknown, &self.answer);
            }
        }
        self.answer.clear();
        self.state = WireState::Failed(error);
    }
}

impl WireSession for LdapSession {
    fn open(&mut self, kinds: &[OpKind], out: &mut Vec<u8>) {
        for slot in &mut self.slots {
            slot.asked = None;
            slot.rows = 0;
            slot.kept.clear();
            slot.kept_bytes = 0;
        }
        self.free.clear();
        self.free.extend((1..=DEPTH_MAX as u8).rev());
        self.skip_bytes = 0;
        self.answer.clear();
        self.refused = self.prepare(kinds).err();
        self.state = WireState::Opening;
        request::bind(BIND_ID, &self.login, out);
    }

    fn state(&self) -> &WireState {
        &self.state
    }

    fn limit_answers(&mut self, bytes_max: usize) {
        self.answer_max = bytes_max;
    }

    fn depth_max(&self) -> u32 {
        DEPTH_MAX
    }

    #[inline]
    fn start(&mut self, ticket: Ticket, op: &Op<'_>, out: &mut Vec<u8>) {
        // An executor asks no more at a time than there are numbers.
        let Some(id) = self.free.pop() else { return };
        self.slots[usize::from(id) - 1].asked = Some((ticket, op.kind));
        self.requests[usize::from(op.kind)].template.write(id, op.params, out);
    }

    fn feed(&mut self, bytes: &[u8], _: &mut Vec<u8>, done: &mut dyn CompletionSink) -> usize {
        let mut at = 0;
        while at < bytes.len() && !matches!(self.state, WireState::Failed(_)) {
            match self.step(&bytes[at..], done) {
                Ok(0) => return at,
                Ok(used) => at += used,
                Err(error) => self.fail(error, done),
            }
        }
        match self.state {
            WireState::Failed(_) => bytes.len(),
            _ => at,
        }
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        if matches!(self.state, WireState::Ready) {
            request::unbind(self.free.last().copied().unwrap_or(BIND_ID), out);
        }
    }
}
