//! Request and its answer on a connection of HTTP/2.

use plimsoll_core::Ticket;

use super::hpack::Fields;
use crate::client::Client;
use crate::response::{HEAD_BYTES_MAX, Malformed, number};

/// A stream. Its memory is reused by the following streams.
#[derive(Default)]
pub(super) struct Stream {
    /// 0 when there is none, or it has not been begun.
    pub id: u32,
    /// The operation; `None` for the opening.
    pub op: Option<(Ticket, u16)>,
    /// The request's header block, while it waits.
    pub block: Vec<u8>,
    /// The request's body, and how much of it was sent.
    pub request: Vec<u8>,
    pub sent: usize,
    /// Bytes that the server takes on this stream.
    pub window: i64,
    /// The answer's status; 0 until its head has arrived.
    pub status: u16,
    /// Announced length of the body, if any, and the bytes that have arrived.
    pub length: Option<u64>,
    pub arrived: u64,
    /// Bytes whose arrival the server was not told of.
    pub untold: u64,
    pub retry_after: bool,
    /// Times that the server has refused to begin with the request.
    pub refusals: u32,
    /// Lines of the head, if any of it is wanted.
    pub head: Vec<u8>,
    /// Body as far as it arrived, if it is kept.
    pub body: Vec<u8>,
}

impl Stream {
    /// Makes it ready for a request.
    pub(super) fn begin(&mut self, op: Option<(Ticket, u16)>, window: i64) {
        self.op = op;
        self.block.clear();
        self.request.clear();
        self.window = window;
        self.refusals = 0;
        self.begin_again();
    }

    /// Makes it ready for the same request once more.
    pub(super) fn begin_again(&mut self) {
        self.id = 0;
        self.sent = 0;
        (self.status, self.length, self.arrived, self.untold, self.retry_after) = (0, None, 0, 0, false);
        self.head.clear();
        self.body.clear();
    }

    pub(super) fn kind(&self) -> Option<u16> {
        self.op.map(|(_, kind)| kind)
    }

    /// Returns true if the answer has no body, whatever its head says.
    pub(super) fn is_bare(&self, client: &Client) -> bool {
        matches!(self.status, 204 | 304) || client.asked(self.kind()).is_none_or(|request| request.is_head)
    }

    /// Takes the fields of a head. Its status is below 200 for one that stands before another.
    #[inline]
    pub(super) fn take_head(&mut self, block: &[u8], room: &mut Vec<u8>, client: &mut Client) -> Result<(), Malformed> {
        let asked = client.asked(self.kind());
        let (wants_head, wants_cookies) =
            asked.map_or((false, false), |request| (!request.take.is_empty(), request.cookies));
        let is_opening = self.op.is_none();
        let (mut fields, mut bytes) = (Fields(block), 0);
        self.head.clear();
        // Where lines of HTTP/1.1 have their status.
        self.head.extend_from_slice(b"\n");
        (self.length, self.retry_after) = (None, false);
        while let Some((name, value)) = fields.next()? {
            let name = name.read(room)?;
            bytes += name.len();
            if bytes > HEAD_BYTES_MAX {
                return Err(Malformed("a head of more than 32 KiB"));
            }
            if self.status == 0 {
                if name != b":status" {
                    return Err(Malformed("an answer that does not begin with its status"));
                }
                let text = value.read(room)?;
                let status = number(text, 10).filter(|status| text.len() == 3 && (100..=999).contains(status));
                self.status = status.ok_or(Malformed("no status"))? as u16;
                continue;
            }
            let is = |known: &[u8]| name == known;
            let (is_length, is_cookie, is_server) = (is(b"content-length"), is(b"set-cookie"), is(b"server"));
            self.retry_after |= is(b"retry-after");
            if name.is_empty() || name.iter().any(|byte| matches!(byte, b':' | b'A'..=b'Z') || !byte.is_ascii_graphic())
            {
                return Err(Malformed("a field without a proper name"));
            }
            if wants_head {
                self.head.extend_from_slice(name);
                self.head.extend_from_slice(b": ");
            }
            if !(wants_head || is_length || is_cookie && wants_cookies || is_server && is_opening) {
                continue;
            }
            let value = value.read(room)?;
            bytes += value.len();
            if value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) || self.head.len() > 2 * HEAD_BYTES_MAX {
                return Err(Malformed("a field that no line holds"));
            }
            if wants_head {
                self.head.extend_from_slice(value);
                self.head.push(b'\n');
            }
            if is_length {
                let length = number(value, 10).ok_or(Malformed("a Content-Length that is no number"))?;
                if self.length.replace(length).is_some_and(|before| before != length) {
                    return Err(Malformed("two lengths for one body"));
                }
            } else if is_cookie && wants_cookies {
                client.cookies.take(value);
            } else if is_server && is_opening {
                client.greeting.server = String::from_utf8_lossy(value).into_owned();
            }
        }
        match self.status {
            0 => Err(Malformed("an answer without a status")),
            _ => Ok(()),
        }
    }
}
