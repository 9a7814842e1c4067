//! Client of a server: its requests, its cookies, and the meaning of answers, in every version of HTTP.

use std::fmt::Write as _;
use std::sync::Arc;

use plimsoll_core::{
    ANSWER_BYTES_MAX, Answer, AnswerTally, CompletionSink, Durability, Op, OpKind, Outcome, StoreError, StoreErrorKind,
    Ticket, Value,
};

use crate::cookies::Cookies;
use crate::endpoint::{Login, Version};
use crate::part;
use crate::reference::Base;
use crate::request::Request;

/// First answer of a server.
#[derive(Debug, Clone, Default)]
pub(crate) struct Greeting {
    /// Name that the server reports; empty without one.
    pub server: String,
    /// Status of the answer, if it was an error: `404 Not Found`.
    pub error: Option<String>,
    /// True if the answer was 401.
    pub wants_user: bool,
    /// Operations that it takes at a time on one connection.
    pub depth_max: u32,
}

/// An answer that is complete.
pub(crate) struct Arrived<'a> {
    pub status: u16,
    /// True if the answer says when to retry.
    pub retry_after: bool,
    /// All of its head, where something of that is wanted.
    pub head: &'a [u8],
    /// The body, if it is kept.
    pub body: &'a [u8],
    /// Length of the body, kept or not.
    pub body_bytes: u64,
}

/// State that outlives a connection, and the rules for judging answers.
#[derive(Default)]
pub(crate) struct Client {
    pub login: Arc<Login>,
    /// The durability that writes are promised, where that is one: they are refused.
    promised: Option<Durability>,
    pub requests: Vec<Request>,
    /// The server is to be asked who it is. Sessions of a workload ask nothing that is not the workload's.
    asks: bool,
    pub greeting: Greeting,
    pub tally: AnswerTally,
    /// Targets of the requests in flight whose answers may refer to them.
    targets: Vec<(Ticket, Vec<u8>)>,
    answer: Answer,
    /// Cookies of the client.
    pub cookies: Cookies,
    /// Most bytes that are kept of a body.
    pub answer_max: usize,
}

impl Client {
    /// Makes a client with the credentials of `login`. Writes are refused unless `durability` promises nothing.
    pub(crate) fn new(login: Arc<Login>, durability: Durability) -> Self {
        let promised = Some(durability).filter(|one| !matches!(one, Durability::AtEnd | Durability::AsConfigured));
        Self { login, promised, answer_max: ANSWER_BYTES_MAX, ..Self::default() }
    }

    /// Makes a client that asks the server at `login` who it is, before anything else.
    pub(crate) fn asking(login: Arc<Login>) -> Self {
        Self { asks: true, ..Self::new(login, Durability::AtEnd) }
    }

    /// Makes a client of a server that has answered `greeting`, and announced its number of streams if it speaks HTTP/2.
    pub(crate) fn greeted(login: Arc<Login>, durability: Durability, greeting: &Greeting) -> Self {
        Self { greeting: greeting.clone(), ..Self::new(login, durability) }
    }

    /// Begins a connection. Returns true if the server is to be asked who it is.
    ///
    /// # Errors
    /// `Usage` if an operation type is no request that may be sent; `Authentication` if the server has asked for a user.
    pub(crate) fn open(&mut self, kinds: &[OpKind]) -> Result<bool, StoreError> {
        self.answer.clear();
        self.requests.clear();
        self.targets.clear();
        self.prepare(kinds)?;
        self.let_in()?;
        Ok(self.asks)
    }

    /// Fails if the server has asked for a user and no request says who asks, or finds out first.
    fn let_in(&self) -> Result<(), StoreError> {
        let says = self.requests.is_empty() || self.requests.iter().any(|request| request.has_login);
        if says || !self.greeting.wants_user {
            return Ok(());
        }
        let what = format!("{} asks for a user and a password", self.login.place);
        Err(StoreError::new(StoreErrorKind::Authentication, what)
            .detail(format!("401 {}", phrase(401)))
            .next("Write the user into the URL, and use --password-file."))
    }

    fn prepare(&mut self, kinds: &[OpKind]) -> Result<(), StoreError> {
        for kind in kinds {
            let request = Request::new(kind, &self.login)?;
            if let Some(durability) = self.promised.filter(|_| request.writes) {
                let name = durability.name();
                let what = format!("operation `{}` writes, and HTTP does not say that a write is {name}", kind.name);
                return Err(StoreError::usage(what).next("Ask for durability as-configured."));
            }
            self.requests.push(request);
        }
        Ok(())
    }

    /// Keeps the target of a request, if its answer may refer to it.
    #[inline]
    pub(crate) fn started(&mut self, ticket: Ticket, op: &Op<'_>) {
        let Some(target) = &self.requests[usize::from(op.kind)].own_target else { return };
        let at = self.targets.iter().position(|(known, _)| *known == ticket).unwrap_or_else(|| {
            self.targets.push((ticket, Vec::new()));
            self.targets.len() - 1
        });
        let out = &mut self.targets[at].1;
        out.clear();
        part::write(target, op.params, &self.cookies, 0, out);
    }

    /// Reports operations that have not been answered.
    #[cold]
    pub(crate) fn give_up(
        &mut self,
        tickets: impl Iterator<Item = Ticket>,
        outcome: Outcome,
        code: &str,
        words: &str,
        done: &mut dyn CompletionSink,
    ) {
        for ticket in tickets {
            let outcome = self.answer.fail(outcome, code, words);
            done.push(ticket, outcome, &self.answer);
        }
        self.answer.clear();
    }

    #[cold]
    pub(crate) fn broken(&self, what: &str) -> StoreError {
        StoreError::broken(format!("{} {what}", self.login.place))
    }

    /// Returns the error for a server that answers in another version than the requested one.
    #[cold]
    pub(crate) fn other_version(&self) -> StoreError {
        let place = &self.login.place;
        match self.login.version {
            Version::Http11 => StoreError::usage(format!("{place} speaks HTTP/2 where it was asked for HTTP/1.1"))
                .next("Add --set http.http_version=2, or check the port."),
            Version::Http2 => StoreError::usage(format!("{place} does not offer HTTP/2"))
                .next("Leave out http_version=2, or switch HTTP/2 on in the server (nginx: `listen … http2`)."),
        }
    }

    #[cold]
    pub(crate) fn too_large(&self, bytes: Option<u64>) -> StoreError {
        StoreError::answer_too_large(&self.login.place, bytes, self.answer_max)
    }

    /// Returns true if the body of an answer with `status` to `kind` is kept; `None` is the opening.
    #[inline]
    pub(crate) fn keeps(&self, kind: Option<u16>, status: u16) -> bool {
        self.asked(kind).is_some_and(|request| request.needs_body() && request.expects(status))
    }

    /// The request of `kind`; `None` is the opening.
    #[inline]
    pub(crate) fn asked(&self, kind: Option<u16>) -> Option<&Request> {
        kind.and_then(|kind| self.requests.get(usize::from(kind)))
    }

    /// The server has answered an operation.
    #[inline]
    pub(crate) fn answered(&mut self, ticket: Ticket, kind: u16, arrived: &Arrived<'_>, done: &mut dyn CompletionSink) {
        self.tally.note(arrived.status, arrived.body_bytes);
        if !self.requests[usize::from(kind)].expects(arrived.status) {
            self.unexpected(ticket, kind, arrived, done);
        } else if let Err(what) = self.checked(ticket, kind, arrived) {
            self.wrong(ticket, kind, &what, done);
        } else {
            done.push(ticket, Outcome::Ok, &self.answer);
            self.answer.clear();
        }
    }

    /// Puts what is wanted of an answer into it; or says what is wrong with that.
    #[inline]
    fn checked(&mut self, ticket: Ticket, kind: u16, arrived: &Arrived<'_>) -> Result<(), String> {
        let request = &self.requests[usize::from(kind)];
        let body = arrived.body;
        self.answer.rows = 1;
        self.answer.columns = 2;
        if request.keep {
            self.answer.values.push(Value::Int(i64::from(arrived.status)));
            self.answer.values.push(Value::Bytes(body));
        }
        if let Some(text) = &request.contains
            && memchr::memmem::find(body, text.as_bytes()).is_none()
        {
            return Err(format!("the body does not contain `{text}`"));
        }
        if !request.take.is_empty() {
            self.answer.columns = request.take.len();
            let target = self.targets.iter().find(|(known, _)| *known == ticket).map(|(_, target)| target.as_slice());
            let base = Base { scheme: if self.login.is_tls { "https" } else { "http" }, target };
            request.take.push(arrived, &base, &mut self.answer.values)?;
        }
        Ok(())
    }

    /// Returns the outcome of a write that was answered by an error. The server may have failed in the middle of a
    /// write if it answers 5xx. It has not begun with an unknown method or version (501, 505: RFC 9110, 15.6), nor
    /// with a request to be sent again later (503 with Retry-After). A write with another unexpected answer may have
    /// happened.
    fn refused_write(arrived: &Arrived<'_>) -> Outcome {
        match arrived.status {
            501 | 505 => Outcome::Rejected,
            503 if arrived.retry_after => Outcome::Rejected,
            500.. => Outcome::Unknown,
            400.. => Outcome::Rejected,
            _ => Outcome::Unknown,
        }
    }

    /// An answer with a status that it should not have.
    #[cold]
    fn unexpected(&mut self, ticket: Ticket, kind: u16, arrived: &Arrived<'_>, done: &mut dyn CompletionSink) {
        let request = &self.requests[usize::from(kind)];
        let outcome = if request.writes { Self::refused_write(arrived) } else { Outcome::Rejected };
        // Writing to a string cannot fail.
        let _ = write!(self.answer.code, "{}", arrived.status);
        self.answer.message.push_str(phrase(arrived.status));
        if arrived.status < 400 {
            let _ = write!(self.answer.message, ", where {} was expected", request.expected());
        }
        done.push(ticket, outcome, &self.answer);
        self.answer.clear();
    }

    /// An answer with the right status and without what it should hold. What was written has been.
    #[cold]
    fn wrong(&mut self, ticket: Ticket, kind: u16, what: &str, done: &mut dyn CompletionSink) {
        let writes = self.requests[usize::from(kind)].writes;
        let outcome = if writes { Outcome::Unknown } else { Outcome::Rejected };
        self.answer.fail(outcome, "content", what);
        done.push(ticket, outcome, &self.answer);
        self.answer.clear();
    }

    /// Handles the answer to the opening request.
    #[cold]
    pub(crate) fn opened(&mut self, arrived: &Arrived<'_>) -> Result<(), StoreError> {
        use StoreErrorKind as K;
        let place = &self.login.place;
        let words = format!("{} {}", arrived.status, phrase(arrived.status));
        let words = words.trim_end().to_owned();
        self.greeting.error = (arrived.status >= 400).then(|| words.clone());
        self.greeting.wants_user = arrived.status == 401;
        let version = self.login.version.name();
        let error = |kind, what: String, next: &str| Err(StoreError::new(kind, what).detail(words.clone()).next(next));
        match arrived.status {
            401 if self.login.user.is_some() => error(
                K::Authentication,
                format!("{place} does not accept this user with this password"),
                "Check the user in the URL, and the password there or in the file given with --password-file.",
            ),
            400 | 407 | 421 | 426 | 505 => error(
                K::Usage,
                format!("{place} does not take a plain request of {version}"),
                "Check scheme, host and port: it may want https, or be a proxy.",
            ),
            _ => {
                self.let_in()?;
                self.asks = false;
                Ok(())
            }
        }
    }
}

/// The usual words for a status. A server's own may be what we have sent it, a password or a token, and have no business
/// in a recording.
pub(crate) fn phrase(status: u16) -> &'static str {
    http::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or_default()
}
