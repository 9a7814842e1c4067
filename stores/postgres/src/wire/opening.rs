//! A session's way from the server's greeting to its first operation.

use plimsoll_core::{StoreError, StoreErrorKind, WireState};

use super::auth::{Auth, refusal};
use super::given_up::BackendKey;
use super::message::{self, Reader, SYNC, ServerError, broken, cstr, frame, unexpected};
use super::session::PgSession;
use super::value::Format;

/// Settings that fix the form of values as text, whatever the server or the role has set.
const TEXT_SETTINGS: &str =
    "SET DateStyle = 'ISO, YMD'; SET TimeZone = 'UTC'; SET bytea_output = 'hex'; SET extra_float_digits = 3; ";

/// Advice for a table that does not exist.
const LOAD_FIRST: &str = "Load it first. With --no-load statements find the tables of the database that the URL names, or of \
                          a lab; without it, only those of this run's own schema.";

/// Message that the session waits for.
#[derive(Default)]
pub(super) enum ConnectionPhase {
    /// [`plimsoll_core::WireSession::open`].
    #[default]
    Closed,
    /// The server's greeting.
    Greeting(Auth),
    /// The greeting, then failure with this error: operation types that cannot be put into SQL. An executor looks at the state when
    /// bytes arrive, so it must not fail before.
    Refused(StoreError),
    /// The answer to the settings of the session.
    Settings,
    /// The answers to Parse and Describe of the statement at this position, counted through all kinds.
    Preparing(usize),
    /// Operations.
    Ready,
}

impl PgSession {
    #[cold]
    pub(super) fn take_opening(&mut self, tag: u8, body: &[u8], out: &mut Vec<u8>) -> Result<(), StoreError> {
        // Since version 14 a server reports this with its greeting.
        if tag == b'S' && self.turns.are_several() && body == b"in_hot_standby\0on\0" {
            let what = format!("{} is a replica, and the session looks for the primary", self.login.place);
            return Err(StoreError::new(StoreErrorKind::Unreachable, what));
        }
        if matches!(tag, b'N' | b'S' | b'A') {
            return Ok(());
        }
        match &mut self.phase {
            ConnectionPhase::Greeting(auth) => match tag {
                b'R' => auth.request(body, &self.login, &self.channel, out)?,
                b'E' => {
                    return Err(match ServerError::parse(body) {
                        Some(error) => refusal(&error, &self.login),
                        None => broken(format!("{} sent a reply that no PostgreSQL server sends", self.login.place))
                            .detail(String::from_utf8_lossy(body).trim_end_matches('\0').to_owned()),
                    });
                }
                b'K' if matches!(auth, Auth::Done) => {
                    let mut reader = Reader(body);
                    let pid = reader.array().map(u32::from_be_bytes);
                    self.key = pid.map(|pid| BackendKey { pid, secret: reader.0.to_vec() });
                }
                // The offer of an older minor version: not needed.
                b'v' if matches!(auth, Auth::Done) => {}
                b'Z' if matches!(auth, Auth::Done) => self.send_settings(out),
                _ => return Err(unexpected(tag, "during authentication")),
            },
            ConnectionPhase::Refused(error) => return Err(error.clone()),
            ConnectionPhase::Settings => match tag {
                b'C' | b'I' => {}
                b'Z' => self.phase = ConnectionPhase::Preparing(0),
                b'E' => return Err(self.not_prepared(body, &self.settings)),
                _ => return Err(unexpected(tag, "while the session was set up")),
            },
            ConnectionPhase::Preparing(next) => {
                let position = *next;
                let statements = self.kinds.iter_mut().flat_map(|kind| &mut kind.statements);
                let statement = statements.filter(|statement| !statement.is_late).nth(position);
                let taken = match (tag, statement) {
                    (b'1', Some(_)) => true,
                    (b't', Some(statement)) => statement.describe_params(body),
                    (b'T', Some(statement)) => {
                        *next += 1;
                        statement.describe_columns(body)
                    }
                    (b'n', Some(statement)) => {
                        *next += 1;
                        statement.describe_columns(&[])
                    }
                    (b'E', Some(statement)) => {
                        let text = statement.text.clone();
                        return Err(self.not_prepared(body, &text));
                    }
                    (b'Z', None) => return self.become_ready(),
                    _ => false,
                };
                if !taken {
                    return Err(unexpected(tag, "while statements were prepared"));
                }
            }
            ConnectionPhase::Closed | ConnectionPhase::Ready => {
                return Err(unexpected(tag, "before the connection was opened"));
            }
        }
        Ok(())
    }

    /// Sends the settings and all statements at once: two round trips from login to the first operation.
    fn send_settings(&mut self, out: &mut Vec<u8>) {
        self.phase = ConnectionPhase::Settings;
        self.query_settings(out);
        let statements = self.kinds.iter().flat_map(|kind| &kind.statements);
        for statement in statements.filter(|statement| !statement.is_late) {
            message::parse_and_describe(out, &statement.name, &statement.text);
        }
        out.extend_from_slice(&SYNC);
    }

    /// Appends a Query of the session's settings.
    pub(super) fn query_settings(&self, out: &mut Vec<u8>) {
        frame(out, b'Q', |out| {
            if self.kinds.iter().any(|kind| kind.format == Format::Text) {
                out.extend_from_slice(TEXT_SETTINGS.as_bytes());
            }
            cstr(out, &self.settings);
        });
    }

    fn become_ready(&mut self) -> Result<(), StoreError> {
        for kind in &self.kinds {
            kind.check()?;
        }
        self.phase = ConnectionPhase::Ready;
        self.turns.found();
        self.state = WireState::Ready;
        Ok(())
    }

    fn not_prepared(&self, body: &[u8], text: &str) -> StoreError {
        let Some(error) = ServerError::parse(body) else { return unexpected(b'E', "while statements were prepared") };
        let kind = match error.code {
            b"42501" => StoreErrorKind::Permission,
            _ if error.ends_connection() => StoreErrorKind::Unreachable,
            // Classes 42 (syntax, unknown names) and 22 (bad values): the statement is wrong.
            code if code.starts_with(b"42") || code.starts_with(b"22") => StoreErrorKind::Usage,
            _ => StoreErrorKind::Store,
        };
        let refused = StoreError::new(kind, format!("{} does not take the statement: {text}", self.login.place))
            .detail(error.code_and_words());
        // Ambiguous operators and functions, parameters without a type.
        match error.code {
            b"42725" | b"42P18" => refused.next(
                "Give a parameter its type, as in :n::int, or have values written into the text, as pgbench does without \
                 -M: --set substitute=text.",
            ),
            b"42P01" => refused.next(LOAD_FIRST),
            _ => refused,
        }
    }
}
