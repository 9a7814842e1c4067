//! Packets of the client/server protocol: how messages are cut out of bytes and put into them, and what the packets
//! say that end an answer.
//!
//! A message is one packet, or several when it has [`PACKET_BYTES_MAX`] bytes or more. Packets of one command and of
//! its answer are numbered from 0 on.

use plimsoll_core::StoreError;
pub(crate) use plimsoll_endpoint::Reader;

/// Most bytes of one packet's payload. A packet of this length goes on in the next one.
pub(crate) const PACKET_BYTES_MAX: usize = 0xff_ffff;

/// Longest message taken from a server.
pub(crate) const MESSAGE_BYTES_MAX: usize = 256 << 20;

/// Longest message before authentication is over: no real one is near it, and a server of some other protocol is told
/// from MariaDB by it at once.
pub(crate) const GREETING_BYTES_MAX: usize = 64 << 10;

/// Length of a packet's header: three bytes of length, one of number.
pub(crate) const HEADER_BYTES: usize = 4;

/// Commands ("Command Phase").
pub(crate) const COM_QUIT: u8 = 0x01;
pub(crate) const COM_QUERY: u8 = 0x03;
pub(crate) const COM_PING: u8 = 0x0e;
pub(crate) const COM_STMT_PREPARE: u8 = 0x16;
pub(crate) const COM_STMT_EXECUTE: u8 = 0x17;

/// Status flag: another answer to the same command follows.
pub(crate) const MORE_RESULTS: u16 = 0x0008;

/// Length and number of a packet.
#[inline]
pub(crate) fn header(bytes: [u8; HEADER_BYTES]) -> (usize, u8) {
    let [a, b, c, number] = bytes;
    (u32::from_le_bytes([a, b, c, 0]) as usize, number)
}

/// Appends a message that begins with packet `number`, whose payload `write` appends. Returns the number of the packet
/// that comes after it.
#[inline]
pub(crate) fn message(out: &mut Vec<u8>, number: u8, write: impl FnOnce(&mut Vec<u8>)) -> u8 {
    let at = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    write(out);
    finish(out, at, number)
}

/// Writes the header of the message that begins at `at` and ends where `out` does. Returns the number of the packet
/// that comes after it.
#[inline]
pub(crate) fn finish(out: &mut Vec<u8>, at: usize, number: u8) -> u8 {
    let length = out.len() - at - HEADER_BYTES;
    if length >= PACKET_BYTES_MAX {
        return split(out, at, number);
    }
    out[at..at + HEADER_BYTES].copy_from_slice(&header_of(length, number));
    number.wrapping_add(1)
}

#[inline]
fn header_of(length: usize, number: u8) -> [u8; HEADER_BYTES] {
    let [a, b, c, _] = (length as u32).to_le_bytes();
    [a, b, c, number]
}

/// Puts a header before every [`PACKET_BYTES_MAX`] bytes; the last packet is shorter, and may be empty.
#[cold]
fn split(out: &mut Vec<u8>, at: usize, mut number: u8) -> u8 {
    let payload = out.split_off(at + HEADER_BYTES);
    out.truncate(at);
    let last = payload.len().is_multiple_of(PACKET_BYTES_MAX).then_some(&[][..]);
    for piece in payload.chunks(PACKET_BYTES_MAX).chain(last) {
        out.extend_from_slice(&header_of(piece.len(), number));
        out.extend_from_slice(piece);
        number = number.wrapping_add(1);
    }
    number
}

/// Appends a command with its argument. Returns the number of the packet that comes after it.
pub(crate) fn command(out: &mut Vec<u8>, command: u8, argument: &[u8]) -> u8 {
    message(out, 0, |out| {
        out.push(command);
        out.extend_from_slice(argument);
    })
}

/// Appends a length in the encoding that takes as many bytes as it needs.
#[inline]
pub(crate) fn length_encoded(out: &mut Vec<u8>, length: usize) {
    match length {
        0..=250 => out.push(length as u8),
        251..=0xffff => {
            out.push(0xfc);
            out.extend_from_slice(&(length as u16).to_le_bytes());
        }
        0x1_0000..=0xff_ffff => {
            out.push(0xfd);
            out.extend_from_slice(&(length as u32).to_le_bytes()[..3]);
        }
        _ => {
            out.push(0xfe);
            out.extend_from_slice(&(length as u64).to_le_bytes());
        }
    }
}

/// Appends bytes with their length before them.
#[inline]
pub(crate) fn length_encoded_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    length_encoded(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// Appends a text and its terminating zero; a zero inside it ends it, as for every C program.
pub(crate) fn cstr(out: &mut Vec<u8>, text: &str) {
    out.extend(text.bytes().take_while(|byte| *byte != 0));
    out.push(0);
}

/// Reads a number in the encoding that takes as many bytes as it needs. Null (0xfb) and 0xff are none.
#[inline]
pub(crate) fn read_length(reader: &mut Reader<'_>) -> Option<u64> {
    match reader.u8()? {
        byte @ 0..=250 => Some(u64::from(byte)),
        0xfc => reader.array().map(|bytes| u64::from(u16::from_le_bytes(bytes))),
        0xfd => reader.array().map(|[a, b, c]| u64::from(u32::from_le_bytes([a, b, c, 0]))),
        0xfe => reader.array().map(u64::from_le_bytes),
        0xfb | 0xff => None,
    }
}

/// Reads bytes with their length before them.
#[inline]
pub(crate) fn read_bytes<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let length = usize::try_from(read_length(reader)?).ok()?;
    reader.take(length)
}

/// Reads the bytes up to the next zero, which is taken too, or to the end.
pub(crate) fn read_text<'a>(reader: &mut Reader<'a>) -> &'a [u8] {
    reader.cstr().unwrap_or_else(|| std::mem::take(&mut reader.0))
}

/// End of a reply, or a whole reply (OK_Packet).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Completion {
    /// Rows touched: those that matched, since that was asked for at login.
    pub(crate) affected_rows: u64,
    /// See [`MORE_RESULTS`].
    pub(crate) status: u16,
}

impl Completion {
    /// Takes an OK_Packet apart, whose first byte said that it is one; `None` when it is not.
    #[inline]
    pub(crate) fn parse(payload: &[u8]) -> Option<Completion> {
        let mut reader = Reader(payload.get(1..)?);
        let affected_rows = read_length(&mut reader)?;
        read_length(&mut reader)?;
        Some(Completion { affected_rows, status: u16::from_le_bytes(reader.array()?) })
    }

    /// Parses the EOF_Packet that ends rows if both sides did not agree to leave it out.
    pub(crate) fn parse_eof(payload: &[u8]) -> Option<Completion> {
        match payload {
            [0xfe, _, _, low, high] => Some(Completion { affected_rows: 0, status: u16::from_le_bytes([*low, *high]) }),
            _ => None,
        }
    }
}

/// Fields of an ERR_Packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerError<'a> {
    /// The server's number.
    pub(crate) number: u16,
    /// SQLSTATE; empty before a client has said that it understands it.
    pub(crate) state: &'a [u8],
    /// Message of the error.
    pub(crate) message: &'a [u8],
}

impl<'a> ServerError<'a> {
    /// Takes an ERR_Packet apart; `None` when it is not one.
    pub(crate) fn parse(payload: &'a [u8]) -> Option<ServerError<'a>> {
        let mut reader = Reader(payload);
        if reader.u8()? != 0xff {
            return None;
        }
        let number = u16::from_le_bytes(reader.array()?);
        let mut state = &[][..];
        if reader.0.first() == Some(&b'#') && reader.0.len() >= 6 {
            state = reader.take(6)?.get(1..)?;
        }
        Some(ServerError { number, state, message: reader.0 })
    }

    /// The statement may have been done all the same: the connection ends with this error (shutdown, KILL, idle too
    /// long, packets lost), or a commit broke half way. Every other error has undone its statement.
    pub(crate) fn leaves_open(&self) -> bool {
        self.ends_connection() || matches!(self.number, 1180)
    }

    /// The connection ends with this error.
    pub(crate) fn ends_connection(&self) -> bool {
        ends_connection(self.number, self.state)
    }

    /// SQLSTATE and words, as far as there is any.
    pub(crate) fn words(&self) -> String {
        let message = String::from_utf8_lossy(self.message);
        if self.state.is_empty() {
            return message.into_owned();
        }
        format!("{}: {message}", String::from_utf8_lossy(self.state))
    }

    /// Number and [`ServerError::words`].
    pub(crate) fn number_and_words(&self) -> String {
        format!("{}, {}", self.number, self.words())
    }
}

/// The connection ends with this error: 08S01 (communication), shutdown in progress, killed (MariaDB, MySQL), idle too
/// long (MySQL). With [`NOT_PREPARED`] it goes on, whatever its state.
pub(crate) fn ends_connection(number: u16, state: &[u8]) -> bool {
    number != NOT_PREPARED && (state == b"08S01" || matches!(number, 1053 | 1079 | 1927 | 3169 | 4031))
}

/// Error of a Galera node that has no majority, and of a command that the server does not know: nothing was begun.
pub(crate) const NOT_PREPARED: u16 = 1047;

/// An answer that neither MariaDB nor MySQL would give.
pub(crate) fn broken(what: impl Into<String>) -> StoreError {
    StoreError::broken(what)
        .next("Make sure that a MariaDB or MySQL server listens there and that nothing between changes its answers.")
}

/// A message that does not belong here, or is not of its form.
#[cold]
pub(crate) fn unexpected(payload: &[u8], during: &str) -> StoreError {
    let head = &payload[..payload.len().min(32)];
    broken(format!("the server sent a message that does not belong there {during}"))
        .detail(format!("it began with `{}`", head.escape_ascii()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_come_back_as_they_were_written() {
        for length in [0, 1, 250, 251, 252, 0xfffe, 0xffff, 0x1_0000, 0xff_ffff, 0x100_0000, usize::MAX >> 1] {
            let mut out = Vec::new();
            length_encoded(&mut out, length);
            let mut reader = Reader(&out);
            assert_eq!((read_length(&mut reader), reader.0.len()), (Some(length as u64), 0));
        }
        assert_eq!(read_length(&mut Reader(&[0xfb])), None);
        assert_eq!(read_length(&mut Reader(&[0xfd, 1, 2])), None);
        assert_eq!(read_bytes(&mut Reader(&[5, 1, 2])), None);
    }

    #[test]
    fn a_long_message_is_several_packets_and_the_last_is_shorter() {
        for (payload, expected) in [
            (PACKET_BYTES_MAX - 1, &[PACKET_BYTES_MAX - 1][..]),
            (PACKET_BYTES_MAX, &[PACKET_BYTES_MAX, 0]),
            (2 * PACKET_BYTES_MAX + 7, &[PACKET_BYTES_MAX, PACKET_BYTES_MAX, 7]),
        ] {
            let mut out = b"before".to_vec();
            let next = message(&mut out, 3, |out| out.resize(out.len() + payload, 9));
            assert_eq!(usize::from(next), 3 + expected.len());
            let mut at = 6;
            for (length, number) in expected.iter().zip(3..) {
                assert_eq!(header(out[at..at + 4].try_into().unwrap()), (*length, number));
                at += 4 + length;
            }
            assert_eq!(at, out.len());
        }
    }

    #[test]
    fn a_galera_node_without_majority_has_begun_nothing_and_keeps_the_connection() {
        let words = b"\xff\x17\x04#08S01WSREP has not yet prepared node for application use";
        let error = ServerError::parse(words).unwrap();
        assert_eq!(error.number, NOT_PREPARED);
        assert!(!error.leaves_open() && !error.ends_connection());
        // A failed communication leaves it open.
        assert!(ServerError::parse(b"\xff\x86\x04#08S01Got an error reading packets").unwrap().leaves_open());
    }

    #[test]
    fn an_error_is_read_with_and_without_its_state() {
        let error = ServerError::parse(b"\xff\x26\x04#23000Duplicate entry").unwrap();
        assert_eq!((error.number, error.state, error.message), (1062, &b"23000"[..], &b"Duplicate entry"[..]));
        assert_eq!(error.number_and_words(), "1062, 23000: Duplicate entry");
        let early = ServerError::parse(b"\xff\x10\x04Too many connections").unwrap();
        assert_eq!((early.number, early.words().as_str()), (1040, "Too many connections"));
        assert!(ServerError::parse(b"\xff\x10").is_none());
        assert!(ServerError::parse(b"\0\0\0\x02\0\0\0").is_none());
    }
}
