//! Opening of a session, from the server's greeting to the first operation: login, settings, statements.

use plimsoll_core::{StoreError, StoreErrorKind, WireState};

use super::auth::{Auth, Reply, refusal};
use super::packet::{
    self, COM_QUERY, COM_STMT_PREPARE, MESSAGE_BYTES_MAX, NOT_PREPARED, Reader, ServerError, cstr, ends_connection,
    length_encoded, length_encoded_bytes, read_text, unexpected,
};
use super::session::MySession;
use super::statement::Prepared;
use super::value::Code;

/// Capabilities of a client and a server ("Capabilities Flags").
const MYSQL: u32 = 1;
const FOUND_ROWS: u32 = 1 << 1;
const LONG_FLAG: u32 = 1 << 2;
const CONNECT_WITH_DB: u32 = 1 << 3;
const PROTOCOL_41: u32 = 1 << 9;
const SSL: u32 = 1 << 11;
const TRANSACTIONS: u32 = 1 << 13;
const SECURE_CONNECTION: u32 = 1 << 15;
const MULTI_RESULTS: u32 = 1 << 17;
const PS_MULTI_RESULTS: u32 = 1 << 18;
const PLUGIN_AUTH: u32 = 1 << 19;
const CONNECT_ATTRS: u32 = 1 << 20;
const PLUGIN_AUTH_LENGTH_ENCODED: u32 = 1 << 21;
const DEPRECATE_EOF: u32 = 1 << 24;

/// MariaDB's own, which stand in a field of their own: definitions of columns are left out when they are known.
const CACHE_METADATA: u32 = 1 << 4;

/// Capabilities that a server must have: MariaDB 10.2, MySQL 5.6.
const NEEDED: u32 = PROTOCOL_41 | SECURE_CONNECTION | PLUGIN_AUTH;

/// Capabilities that are used if the server has them. Rows that an UPDATE matched count, also if they
/// stay as they were: without that an update of a record that is there could not be told from one that is not.
const WANTED: u32 = FOUND_ROWS
    | LONG_FLAG
    | TRANSACTIONS
    | MULTI_RESULTS
    | PS_MULTI_RESULTS
    | CONNECT_ATTRS
    | PLUGIN_AUTH_LENGTH_ENCODED
    | DEPRECATE_EOF;

/// `utf8mb4_general_ci`, which both servers know by this number; the settings say more.
const UTF8MB4: u8 = 45;

/// "This command is not supported in the prepared statement protocol yet".
const UNSUPPORTED_PS: u16 = 1295;

/// "Table doesn't exist".
const NO_SUCH_TABLE: u16 = 1146;

/// Advice for a table that does not exist.
const LOAD_FIRST: &str = "Load it first. With --no-load statements find the tables of the database that the URL names, or of \
                          a lab; without it, only those of this run's own database.";

/// Behind the statements that are prepared: a session that only reads does not prepare one that writes, and workloads have some
/// that no operation uses.
pub(crate) const READ_ONLY: &str = "SET SESSION TRANSACTION READ ONLY";

/// Setting of a session that looks for the primary: an error at a replica.
pub(crate) const AT_PRIMARY: &str = "BEGIN NOT ATOMIC IF @@GLOBAL.read_only THEN SIGNAL SQLSTATE '08004' \
     SET MESSAGE_TEXT = 'this server is read-only'; END IF; END";

/// Message that the session waits for.
#[derive(Default)]
pub(super) enum ConnectionPhase {
    /// [`plimsoll_core::WireSession::open`].
    #[default]
    Closed,
    /// The server's greeting.
    Greeting,
    /// Message before the failure with this error: operation types that cannot be put into SQL.
    Refused(StoreError),
    /// The server's word on our login.
    Authenticating(Auth),
    /// The answer to the setting at this position.
    Settings(usize),
    /// The answer to the statement that is prepared.
    Preparing(Preparing),
    /// The answer to [`READ_ONLY`].
    ReadOnly,
    /// Operations.
    Ready,
}

/// A statement that is being prepared: where it stands, and which definitions are still to come.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Preparing {
    kind: usize,
    statement: usize,
    /// The server has answered.
    known: bool,
    /// Remaining parameter definitions, with the packet that ends them if the server sends one.
    parameters_left: u32,
    columns_left: u32,
}

impl MySession {
    #[cold]
    pub(super) fn take_opening(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), StoreError> {
        match &mut self.phase {
            ConnectionPhase::Greeting => self.greet(payload, out),
            ConnectionPhase::Refused(error) => Err(error.clone()),
            ConnectionPhase::Authenticating(auth) => {
                match auth.take(payload, &self.login)? {
                    Reply::Send(bytes) => {
                        self.number = packet::message(out, self.number, |out| out.extend_from_slice(&bytes));
                    }
                    Reply::Wait => {}
                    Reply::Done => self.send_setting(0, out),
                }
                Ok(())
            }
            ConnectionPhase::Settings(position) => {
                let position = *position;
                match payload.first() {
                    Some(0x00) => self.send_setting(position + 1, out),
                    Some(0xff) => return Err(self.not_taken(payload, &self.settings[position])),
                    _ => return Err(unexpected(payload, "while the session was set up")),
                }
                Ok(())
            }
            ConnectionPhase::Preparing(preparing) => {
                let preparing = *preparing;
                self.take_preparing(preparing, payload, out)
            }
            ConnectionPhase::ReadOnly => match payload.first() {
                Some(0x00) => {
                    self.ready();
                    Ok(())
                }
                Some(0xff) => Err(self.not_taken(payload, READ_ONLY)),
                _ => Err(unexpected(payload, "while the session was made read-only")),
            },
            ConnectionPhase::Closed | ConnectionPhase::Ready => {
                Err(unexpected(payload, "before the connection was opened"))
            }
        }
    }

    /// Takes the greeting ("Protocol::HandshakeV10") and logs in ("Protocol::HandshakeResponse41").
    fn greet(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), StoreError> {
        if payload.first() == Some(&0xff) {
            let error = ServerError::parse(payload).ok_or_else(|| unexpected(payload, "as a greeting"))?;
            return Err(refusal(&error, &self.login));
        }
        let greeting = Greeting::parse(payload).ok_or_else(|| unexpected(payload, "as a greeting"))?;
        self.greeted = greeting.connection;
        let place = &self.login.place;
        if greeting.capabilities & NEEDED != NEEDED {
            return Err(StoreError::usage(format!(
                "{place} is older than Plimsoll can talk to, or something between them is"
            ))
            .detail(String::from_utf8_lossy(greeting.version).into_owned())
            .next("Connect to a MariaDB 10.2 or MySQL 5.6 or later, and to the server itself, not to a proxy."));
        }
        let login = &*self.login;
        let mut capabilities = NEEDED | WANTED & greeting.capabilities;
        // A server that does not say that it is MySQL's is MariaDB, and has more to say of itself.
        let is_mysql = greeting.capabilities & MYSQL != 0;
        let extended = if is_mysql { 0 } else { greeting.extended & CACHE_METADATA };
        if is_mysql {
            capabilities |= MYSQL;
        }
        if login.database.is_some() {
            capabilities |= CONNECT_WITH_DB;
        }
        self.caches_definitions = extended & CACHE_METADATA != 0;
        self.has_eof = capabilities & DEPRECATE_EOF == 0;
        let mut number = self.number;
        let head = |capabilities: u32, out: &mut Vec<u8>| {
            out.extend_from_slice(&capabilities.to_le_bytes());
            out.extend_from_slice(&(MESSAGE_BYTES_MAX as u32).to_le_bytes());
            out.push(UTF8MB4);
            out.extend_from_slice(&[0; 19]);
            out.extend_from_slice(&extended.to_le_bytes());
        };
        let mut tls = None;
        match &login.encryption {
            Some(encryption) if greeting.capabilities & SSL != 0 => {
                capabilities |= SSL;
                number = packet::message(out, number, |out| head(capabilities, out));
                let begun = encryption.client.connect(&encryption.host, place)?;
                tls = Some(Box::new(begun.begin(Vec::new(), out)));
            }
            Some(encryption) if encryption.required => {
                return Err(StoreError::usage(format!("{place} has no TLS, and ssl-mode asks for it"))
                    .next("Have a certificate set up there, or say ssl-mode=PREFERRED or DISABLED in the URL."));
            }
            _ => {}
        }
        let auth = Auth::new(greeting.method, &greeting.nonce, login.private_way || tls.is_some());
        let proof = auth.proof(login);
        let mut answer = Vec::new();
        self.number = packet::message(&mut answer, number, |out| {
            head(capabilities, out);
            cstr(out, &login.user);
            // Short enough that one byte says its length, whichever encoding was agreed on.
            length_encoded_bytes(out, &proof);
            if let Some(database) = &login.database {
                cstr(out, database);
            }
            out.extend_from_slice(auth.method_name());
            out.push(0);
            if capabilities & CONNECT_ATTRS != 0 {
                let mut attributes = Vec::new();
                for text in ["_client_name", "plimsoll", "program_name", &login.program_name] {
                    length_encoded_bytes(&mut attributes, text.as_bytes());
                }
                length_encoded(out, attributes.len());
                out.extend_from_slice(&attributes);
            }
        });
        match &mut tls {
            None => out.append(&mut answer),
            // It waits until both sides have shaken hands.
            Some(tls) => {
                tls.written = answer;
                tls.encrypt(out);
            }
        }
        self.tls = tls;
        self.phase = ConnectionPhase::Authenticating(auth);
        Ok(())
    }

    fn send_setting(&mut self, position: usize, out: &mut Vec<u8>) {
        match self.settings.get(position) {
            Some(setting) => {
                self.number = packet::command(out, COM_QUERY, setting.as_bytes());
                self.phase = ConnectionPhase::Settings(position);
            }
            None => self.prepare_from(0, 0, out),
        }
    }

    /// Prepares the statement at this position, or the next one there is; without any the session is ready.
    fn prepare_from(&mut self, mut kind: usize, mut statement: usize, out: &mut Vec<u8>) {
        while let Some(prepared) = self.kinds.get(kind) {
            // What comes as text is not there yet.
            if let Some(next) = prepared.statements.get(statement).filter(|next| !next.plain) {
                self.number = packet::command(out, COM_STMT_PREPARE, next.text.sql.as_bytes());
                self.phase = ConnectionPhase::Preparing(Preparing { kind, statement, ..Preparing::default() });
                return;
            }
            (kind, statement) = (kind + 1, 0);
        }
        if self.read_only {
            self.number = packet::command(out, COM_QUERY, READ_ONLY.as_bytes());
            self.phase = ConnectionPhase::ReadOnly;
        } else {
            self.ready();
        }
    }

    fn ready(&mut self) {
        self.phase = ConnectionPhase::Ready;
        self.state = WireState::Ready;
    }

    /// COM_STMT_PREPARE_OK, then definitions of all parameters, then of all columns.
    fn take_preparing(&mut self, mut at: Preparing, payload: &[u8], out: &mut Vec<u8>) -> Result<(), StoreError> {
        if !at.known {
            match payload {
                [0xff, ..] => return self.take_prepare_error(at, payload, out),
                [0x00, i0, i1, i2, i3, c0, c1, p0, p1, ..] => {
                    at.known = true;
                    let with_end = |count: u16| u32::from(count) + u32::from(count > 0 && self.has_eof);
                    let parameters = u16::from_le_bytes([*p0, *p1]);
                    at.columns_left = with_end(u16::from_le_bytes([*c0, *c1]));
                    at.parameters_left = with_end(parameters);
                    let id = u32::from_le_bytes([*i0, *i1, *i2, *i3]);
                    let prepared = &mut self.kinds[at.kind];
                    prepared.known(at.statement, id, parameters)?;
                    prepared.statements[at.statement].columns.clear();
                }
                _ => return Err(unexpected(payload, "while statements were prepared")),
            }
        } else if at.parameters_left > 0 {
            at.parameters_left -= 1;
        } else {
            at.columns_left -= 1;
            if self.has_eof && at.columns_left == 0 {
                self.prepare_from(at.kind, at.statement + 1, out);
                return Ok(());
            }
            let Some(code) = Code::of_definition(payload) else {
                return Err(unexpected(payload, "in place of a column's definition"));
            };
            self.kinds[at.kind].statements[at.statement].columns.push(code);
        }
        if at.parameters_left == 0 && at.columns_left == 0 {
            self.prepare_from(at.kind, at.statement + 1, out);
        } else {
            self.phase = ConnectionPhase::Preparing(at);
        }
        Ok(())
    }

    fn take_prepare_error(&mut self, at: Preparing, payload: &[u8], out: &mut Vec<u8>) -> Result<(), StoreError> {
        let number = ServerError::parse(payload).map(|error| error.number);
        // An earlier statement of a script may make the table, or change the database.
        let is_made_later = number == Some(NO_SUCH_TABLE)
            && self.kinds[at.kind].is_step
            && self.kinds.iter().any(Prepared::changes_names);
        if (number == Some(UNSUPPORTED_PS) || is_made_later) && self.kinds[at.kind].unprepared(at.statement) {
            self.prepare_from(at.kind, at.statement + 1, out);
            return Ok(());
        }
        let refused = self.not_taken(payload, &self.kinds[at.kind].statements[at.statement].text.sql);
        Err(match is_made_later {
            true => refused.next(format!(
                "If the script itself makes or finds the table: --set substitute=text, which prepares no statement with \
                 values. Else: {LOAD_FIRST}"
            )),
            false => refused,
        })
    }

    fn not_taken(&self, payload: &[u8], text: &str) -> StoreError {
        let Some(error) = ServerError::parse(payload) else {
            return unexpected(payload, "while statements were prepared");
        };
        let shown: String = text.chars().take(1_000).collect();
        let place = &self.login.place;
        if text == AT_PRIMARY {
            let what = format!("{place} is a replica, and the session looks for the primary");
            return StoreError::new(StoreErrorKind::Unreachable, what);
        }
        let refused = StoreError::new(
            kind_of_number(error.number, error.state),
            format!("{place} does not take the statement: {shown}"),
        )
        .detail(error.number_and_words());
        match error.number {
            NO_SUCH_TABLE => refused.next(LOAD_FIRST),
            1461 => refused.next("Raise max_prepared_stmt_count on the server, or use fewer clients."),
            _ => refused,
        }
    }
}

/// The class of trouble that an error with this number and SQLSTATE is.
pub(crate) fn kind_of_number(number: u16, state: &[u8]) -> StoreErrorKind {
    match number {
        // Access to a database, table, column or routine denied; a privilege is missing.
        1044 | 1142 | 1143 | 1227 | 1370 | 1419 => StoreErrorKind::Permission,
        // Disk full, table full.
        1021 | 1114 => StoreErrorKind::DiskFull,
        // Crashed or corrupt tables and indexes.
        126 | 127 | 1034 | 1194 | 1195 | 1712 | 1877 => StoreErrorKind::Corrupt,
        _ if number == NOT_PREPARED || ends_connection(number, state) => StoreErrorKind::Unreachable,
        // Classes 42 (syntax, unknown names) and 22 (bad values): the statement is wrong.
        _ if state.starts_with(b"42") || state.starts_with(b"22") => StoreErrorKind::Usage,
        _ => StoreErrorKind::Store,
    }
}

/// First message of a server.
struct Greeting<'a> {
    version: &'a [u8],
    /// Lower half of the connection's number.
    connection: u32,
    capabilities: u32,
    /// MariaDB's own.
    extended: u32,
    nonce: Vec<u8>,
    method: &'a [u8],
}

impl<'a> Greeting<'a> {
    fn parse(payload: &'a [u8]) -> Option<Greeting<'a>> {
        let mut reader = Reader(payload);
        if reader.u8()? != 10 {
            return None;
        }
        let version = read_text(&mut reader);
        let connection = u32::from_le_bytes(reader.array()?);
        let mut nonce = reader.take(8)?.to_vec();
        reader.u8()?;
        let low = u16::from_le_bytes(reader.array()?);
        // Character set and status.
        reader.take(3)?;
        let high = u16::from_le_bytes(reader.array()?);
        let nonce_bytes = usize::from(reader.u8()?);
        reader.take(6)?;
        let extended = u32::from_le_bytes(reader.array()?);
        nonce.extend_from_slice(reader.take(nonce_bytes.saturating_sub(8).max(13))?);
        let capabilities = u32::from(high) << 16 | u32::from(low);
        Some(Greeting { version, connection, capabilities, extended, nonce, method: read_text(&mut reader) })
    }
}
