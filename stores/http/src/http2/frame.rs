//! Frames of HTTP/2 (RFC 9113, 4 and 6): what they look like, and what a client writes.

use crate::response::Malformed;

/// Size of the header of a frame, bytes.
pub(crate) const HEADER_BYTES: usize = 9;
/// Largest payload that is accepted, bytes: the protocol's default.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 16 << 10;
/// The largest window, and the largest number of a stream.
pub(crate) const WINDOW_MAX: i64 = (1 << 31) - 1;
/// The window that both sides begin with.
pub(crate) const WINDOW_FIRST: i64 = 65_535;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PUSH_PROMISE: u8 = 5;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 0x1;
pub(crate) const ACK: u8 = 0x1;
pub(crate) const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const HAS_PRIORITY: u8 = 0x20;

pub(crate) const NO_ERROR: u32 = 0;
/// The stream is not needed any more.
pub(crate) const CANCEL: u32 = 8;
/// The stream was not processed.
pub(crate) const REFUSED_STREAM: u32 = 7;
/// The server wants HTTP/1.1.
pub(crate) const HTTP_1_1_REQUIRED: u32 = 13;

/// A frame, all of which has arrived.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame<'b> {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: &'b [u8],
}

impl<'b> Frame<'b> {
    /// The frame at the beginning of `bytes`, or `None` while it is not all there.
    ///
    /// # Errors
    /// [`Malformed`] as soon as its length is known to be too large.
    #[inline]
    pub(crate) fn first(bytes: &'b [u8]) -> Result<Option<Self>, Malformed> {
        let Some(([a, b, c, kind, flags, stream @ ..], rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        if length > PAYLOAD_BYTES_MAX {
            return Err(Malformed("a frame of more than 16 KiB"));
        }
        let Some(payload) = rest.get(..length) else { return Ok(None) };
        Ok(Some(Frame { kind: *kind, flags: *flags, stream: u32::from_be_bytes(*stream) & 0x7fff_ffff, payload }))
    }

    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Returns the content, without padding and priority.
    #[inline]
    pub(crate) fn content(&self) -> Result<&'b [u8], Malformed> {
        let mut content = self.payload;
        let mut padding = 0;
        if self.has(PADDED) {
            let (first, rest) = content.split_first().ok_or(Malformed("a frame without its padding"))?;
            (padding, content) = (usize::from(*first), rest);
        }
        if self.kind == HEADERS && self.has(HAS_PRIORITY) {
            content = content.get(5..).ok_or(Malformed("a frame without its priority"))?;
        }
        let length = content.len().checked_sub(padding).ok_or(Malformed("a frame that is nothing but padding"))?;
        Ok(&content[..length])
    }

    /// The number of 32 bits at `at`.
    pub(crate) fn number(&self, at: usize) -> Result<u32, Malformed> {
        let bytes = self.payload.get(at..).and_then(<[u8]>::first_chunk);
        bytes.map(|bytes| u32::from_be_bytes(*bytes)).ok_or(Malformed("a frame that is too short"))
    }

    /// The settings in it: numbers and values.
    pub(crate) fn settings(&self) -> Result<impl Iterator<Item = (u16, u32)>, Malformed> {
        if !self.payload.len().is_multiple_of(6) {
            return Err(Malformed("settings of a wrong length"));
        }
        let one = |at: &[u8]| (u16::from_be_bytes([at[0], at[1]]), u32::from_be_bytes([at[2], at[3], at[4], at[5]]));
        Ok(self.payload.chunks_exact(6).map(one))
    }
}

/// Appends a frame's header.
#[inline]
pub(crate) fn header(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    let [_, a, b, c] = (length as u32).to_be_bytes();
    let [d, e, f, g] = stream.to_be_bytes();
    out.extend_from_slice(&[a, b, c, kind, flags, d, e, f, g]);
}

/// Appends a frame.
pub(crate) fn write(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    header(out, payload.len(), kind, flags, stream);
    out.extend_from_slice(payload);
}

/// Appends a header block, in as many frames as it takes.
#[inline]
pub(crate) fn headers(out: &mut Vec<u8>, stream: u32, block: &[u8], ends: bool, frame_max: usize) {
    let (mut kind, mut rest) = (HEADERS, block);
    let mut flags = if ends { END_STREAM } else { 0 };
    loop {
        let (piece, after) = rest.split_at(rest.len().min(frame_max));
        let last = if after.is_empty() { END_HEADERS } else { 0 };
        write(out, kind, flags | last, stream, piece);
        if after.is_empty() {
            return;
        }
        (kind, rest, flags) = (CONTINUATION, after, 0);
    }
}

/// Appends what a client says first: that it has no table of fields, wants nothing unasked, and takes as much as there is.
pub(crate) fn preface(out: &mut Vec<u8>) {
    out.extend_from_slice(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    let settings = [(1_u16, 0_u32), (2, 0), (4, WINDOW_MAX as u32), (6, crate::response::HEAD_BYTES_MAX as u32)];
    header(out, settings.len() * 6, SETTINGS, 0, 0);
    for (number, value) in settings {
        out.extend_from_slice(&number.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
    window_update(out, 0, (WINDOW_MAX - WINDOW_FIRST) as u32);
}

/// Appends that so many bytes more may come.
pub(crate) fn window_update(out: &mut Vec<u8>, stream: u32, bytes: u32) {
    write(out, WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes());
}

pub(crate) fn error_name(code: u32) -> &'static str {
    const NAMES: [&str; 14] = [
        "NO_ERROR",
        "PROTOCOL_ERROR",
        "INTERNAL_ERROR",
        "FLOW_CONTROL_ERROR",
        "SETTINGS_TIMEOUT",
        "STREAM_CLOSED",
        "FRAME_SIZE_ERROR",
        "REFUSED_STREAM",
        "CANCEL",
        "COMPRESSION_ERROR",
        "CONNECT_ERROR",
        "ENHANCE_YOUR_CALM",
        "INADEQUATE_SECURITY",
        "HTTP_1_1_REQUIRED",
    ];
    NAMES.get(code as usize).copied().unwrap_or("an error that has no name")
}
