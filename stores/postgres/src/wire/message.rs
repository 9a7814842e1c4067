//! Frames of the frontend/backend protocol 3.0: how messages are cut out of bytes and put into them.
//!
//! Messages are read in place from the bytes that arrived and written straight to the bytes that will be
//! sent: the `postgres-protocol` crate's own functions want buffers of their own for both. A test compares
//! what is written with what they write.

use plimsoll_core::StoreError;
pub(crate) use plimsoll_endpoint::Reader;

/// Longest message taken from a server; a longer one is a malformed reply.
pub(crate) const MESSAGE_BYTES_MAX: usize = 256 << 20;

/// Longest message before authentication is over: no real one is near it, and a server of some other
/// protocol is told from PostgreSQL by it at once.
pub(crate) const GREETING_BYTES_MAX: usize = 64 << 10;

/// Asks for the end of an implicit transaction and for ReadyForQuery.
pub(crate) const SYNC: [u8; 5] = [b'S', 0, 0, 0, 4];

/// Executes the unnamed portal to its end.
pub(crate) const EXECUTE: [u8; 10] = [b'E', 0, 0, 0, 9, 0, 0, 0, 0, 0];

/// Message that ends the session.
pub(crate) const TERMINATE: [u8; 5] = [b'X', 0, 0, 0, 4];

/// Appends a message with `tag`, whose body `write` appends, and its length.
pub(crate) fn frame(out: &mut Vec<u8>, tag: u8, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(tag);
    length_prefixed(out, write);
}

/// Appends a length that counts itself and what `write` appends.
pub(crate) fn length_prefixed(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    let length = out.len() - at;
    patch_length(out, at, length);
}

/// Writes `length` at `at`.
pub(crate) fn patch_length(out: &mut [u8], at: usize, length: usize) {
    let length = u32::try_from(length).expect("a message holds at most 4 GiB");
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

/// Appends a text and its terminating zero; a zero inside it ends it, as for every C program.
pub(crate) fn cstr(out: &mut Vec<u8>, text: &str) {
    out.extend(text.bytes().take_while(|byte| *byte != 0));
    out.push(0);
}

/// Appends the message that begins a connection.
pub(crate) fn startup(out: &mut Vec<u8>, parameters: &[(&str, &str)]) {
    length_prefixed(out, |out| {
        out.extend_from_slice(&196_608_u32.to_be_bytes());
        for (name, value) in parameters {
            cstr(out, name);
            cstr(out, value);
        }
        out.push(0);
    });
}

/// Appends a Parse that lets the server choose the parameters' types.
pub(crate) fn parse(out: &mut Vec<u8>, name: &str, text: &str) {
    frame(out, b'P', |out| {
        cstr(out, name);
        cstr(out, text);
        out.extend_from_slice(&[0, 0]);
    });
}

/// Appends a [`parse`], and a Describe of it.
pub(crate) fn parse_and_describe(out: &mut Vec<u8>, name: &str, text: &str) {
    parse(out, name, text);
    frame(out, b'D', |out| {
        out.push(b'S');
        cstr(out, name);
    });
}

/// Appends a Close of the statement `name`.
pub(crate) fn close(out: &mut Vec<u8>, name: &str) {
    frame(out, b'C', |out| {
        out.push(b'S');
        cstr(out, name);
    });
}

/// Fields of an ErrorResponse that are of use.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ServerError<'a> {
    /// `ERROR`, `FATAL` or `PANIC`, never translated (servers before 9.6 send the translated one only).
    pub(crate) severity: &'a [u8],
    /// SQLSTATE.
    pub(crate) code: &'a [u8],
    /// The primary message.
    pub(crate) message: &'a [u8],
    /// More about it.
    pub(crate) detail: &'a [u8],
    /// Advice of the server.
    pub(crate) hint: &'a [u8],
    /// The function of the server that reported it: unlike the message, never translated.
    pub(crate) routine: &'a [u8],
}

impl<'a> ServerError<'a> {
    /// Takes an ErrorResponse apart; `None` when it is not one.
    pub(crate) fn parse(body: &'a [u8]) -> Option<ServerError<'a>> {
        let mut reader = Reader(body);
        let mut error = ServerError::default();
        loop {
            let field = reader.u8()?;
            if field == 0 {
                return Some(error);
            }
            let text = reader.cstr()?;
            match field {
                b'V' => error.severity = text,
                b'S' if error.severity.is_empty() => error.severity = text,
                b'C' => error.code = text,
                b'M' => error.message = text,
                b'D' => error.detail = text,
                b'H' => error.hint = text,
                b'R' => error.routine = text,
                _ => {}
            }
        }
    }

    /// The connection ends with this error.
    pub(crate) fn ends_connection(&self) -> bool {
        matches!(self.severity, b"FATAL" | b"PANIC")
    }

    /// The statement may have been committed all the same. An ordinary ERROR, also one at commit, has rolled
    /// its transaction back before it is reported. What ends the connection may come when the commit is done
    /// and only its announcement is not (a shutdown during the wait for a synchronous replica, say);
    /// class 08 and 40003 are those in which the server itself does not know.
    pub(crate) fn leaves_open(&self) -> bool {
        self.ends_connection()
            || self.code.starts_with(b"08")
            || matches!(self.code, b"40003" | b"57P01" | b"57P02" | b"57P03")
    }

    /// A serialization failure or a deadlock: the same may work now.
    pub(crate) fn gave_way(&self) -> bool {
        matches!(self.code, b"40001" | b"40P01")
    }

    /// Message, detail and hint in one line.
    pub(crate) fn words(&self) -> String {
        let mut words = String::from_utf8_lossy(self.message).into_owned();
        for (label, text) in [("detail", self.detail), ("hint", self.hint)] {
            if !text.is_empty() {
                words.push_str("; ");
                words.push_str(label);
                words.push_str(": ");
                words.push_str(&String::from_utf8_lossy(text));
            }
        }
        words
    }

    /// SQLSTATE and [`ServerError::words`].
    pub(crate) fn code_and_words(&self) -> String {
        format!("{}: {}", String::from_utf8_lossy(self.code), self.words())
    }
}

/// An answer that PostgreSQL would not give.
pub(crate) fn broken(what: impl Into<String>) -> StoreError {
    StoreError::broken(what)
        .next("Make sure that a PostgreSQL server listens there and that nothing between changes its answers.")
}

/// Returns the error for bytes that are not PostgreSQL's, with their beginning.
#[cold]
pub(crate) fn stranger(place: &str, bytes: &[u8]) -> StoreError {
    let begin = bytes[..bytes.len().min(64)].escape_ascii();
    broken(format!("{place} sent a reply that no PostgreSQL server sends")).detail(format!("it began with `{begin}`"))
}

/// A message that does not belong here, or whose body is not of its form.
pub(crate) fn unexpected(tag: u8, during: &str) -> StoreError {
    broken(format!("the server sent a message `{}` that does not belong there {during}", tag.escape_ascii()))
}
