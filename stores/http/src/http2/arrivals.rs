//! Input of an HTTP/2 connection: frame by frame, up to an answer.

use plimsoll_core::{CompletionSink, Outcome, StoreError, StoreErrorKind, WireState};

use super::frame::{self, Frame, WINDOW_MAX};
use super::stream::Stream;
use super::{DEPTH_MAX, Http2Session};
use crate::client::Arrived;
use crate::response::{HEAD_BYTES_MAX, Malformed};

/// Bytes that arrive before the server is told that it may send as many again.
const TOLD_BYTES: u64 = WINDOW_MAX as u64 / 2;
/// Frames that ask for an answer, and heads before an answer, in a row: more are no conversation.
const NOISE_MAX: u32 = 10_000;
/// Times that a request is sent again after the server has refused to begin with it.
const REFUSALS_MAX: u32 = 1_000;

impl Http2Session {
    /// Takes a frame.
    #[inline]
    pub(super) fn take(
        &mut self,
        frame: &Frame<'_>,
        out: &mut Vec<u8>,
        done: &mut dyn CompletionSink,
    ) -> Result<(), StoreError> {
        if self.unfinished.is_some() != (frame.kind == frame::CONTINUATION) {
            return Err(self.no_http(Malformed("a header block that is interrupted")));
        }
        match frame.kind {
            frame::DATA => self.take_data(frame, out, done),
            frame::HEADERS | frame::CONTINUATION => self.take_block(frame, out, done),
            frame::GOAWAY => self.take_end(frame, done),
            frame::RST_STREAM => self.take_reset(frame, done),
            _ => self.take_control(frame, out).map_err(|malformed| self.no_http(malformed)),
        }
    }

    #[inline]
    fn take_data(
        &mut self,
        frame: &Frame<'_>,
        out: &mut Vec<u8>,
        done: &mut dyn CompletionSink,
    ) -> Result<(), StoreError> {
        let found = frame.content().and_then(|content| Ok((content, self.find(frame.stream)?)));
        let (content, at) = found.map_err(|malformed| self.no_http(malformed))?;
        let bytes = frame.payload.len() as u64;
        tell(&mut self.untold, bytes, 0, out);
        let Some(at) = at else { return Ok(()) };
        let stream = &mut self.streams[at];
        let is_bare = stream.is_bare(&self.client);
        stream.arrived += content.len() as u64;
        if stream.status == 0
            || is_bare && !content.is_empty()
            || stream.length.is_some_and(|most| stream.arrived > most)
        {
            return Err(self.no_http(Malformed("a body where none belongs")));
        }
        let keeps = self.client.keeps(stream.kind(), stream.status);
        if keeps && stream.arrived > self.client.answer_max as u64 {
            return Err(self.client.too_large(None));
        }
        let is_last = frame.has(frame::END_STREAM);
        if keeps && !(is_last && stream.body.is_empty()) {
            stream.body.extend_from_slice(content);
        }
        if is_last {
            return self.finish(at, content, out, done);
        }
        tell(&mut stream.untold, bytes, stream.id, out);
        Ok(())
    }

    /// A header block, or a piece of one.
    #[inline]
    fn take_block(
        &mut self,
        frame: &Frame<'_>,
        out: &mut Vec<u8>,
        done: &mut dyn CompletionSink,
    ) -> Result<(), StoreError> {
        let content = match frame.kind {
            frame::HEADERS => frame.content().map_err(|malformed| self.no_http(malformed))?,
            _ => frame.payload,
        };
        let (id, ends) = self.unfinished.take().unwrap_or((frame.stream, frame.has(frame::END_STREAM)));
        let is_whole = frame.has(frame::END_HEADERS);
        if frame.kind == frame::HEADERS && is_whole {
            return self.take_head(id, content, ends, out, done);
        }
        self.noise += 1;
        if id != frame.stream || self.block.len() + content.len() > HEAD_BYTES_MAX || self.noise > NOISE_MAX {
            return Err(self.no_http(Malformed("a head of more than 32 KiB, or of two streams")));
        }
        self.block.extend_from_slice(content);
        if !is_whole {
            self.unfinished = Some((id, ends));
            return Ok(());
        }
        let mut block = std::mem::take(&mut self.block);
        let taken = self.take_head(id, &block, ends, out, done);
        block.clear();
        self.block = block;
        taken
    }

    /// All fields of a head, or those behind a body.
    #[inline]
    fn take_head(
        &mut self,
        id: u32,
        block: &[u8],
        ends: bool,
        out: &mut Vec<u8>,
        done: &mut dyn CompletionSink,
    ) -> Result<(), StoreError> {
        let Some(at) = self.find(id).map_err(|malformed| self.no_http(malformed))? else { return Ok(()) };
        let stream = &mut self.streams[at];
        if stream.status == 0 {
            let taken = stream.take_head(block, &mut self.scratch, &mut self.client);
            let status = stream.status;
            if status < 200 && taken.is_ok() && !ends {
                // An answer before the answer; none that switches to another protocol, which HTTP/2 cannot.
                stream.status = 0;
                self.noise += 1;
                return match status == 101 || self.noise > NOISE_MAX {
                    true => Err(self.no_http(Malformed("an interim answer that was not requested"))),
                    false => Ok(()),
                };
            }
            taken.map_err(|malformed| self.no_http(malformed))?;
            if status < 200 {
                return Err(self.no_http(Malformed("an answer that ends before it began")));
            }
            let stream = &self.streams[at];
            let is_kept = self.client.keeps(stream.kind(), status) && !stream.is_bare(&self.client);
            if let Some(length) = stream.length.filter(|length| is_kept && *length > self.client.answer_max as u64) {
                return Err(self.client.too_large(Some(length)));
            }
        } else if !ends {
            return Err(self.no_http(Malformed("a second head")));
        }
        let is_opening = self.streams[at].op.is_none();
        if is_opening && !ends {
            // Its body is not waited for.
            frame::write(out, frame::RST_STREAM, 0, id, &frame::CANCEL.to_be_bytes());
        }
        if ends || is_opening { self.finish(at, &[], out, done) } else { Ok(()) }
    }

    /// Settings, pings, windows, and what means nothing to us.
    fn take_control(&mut self, frame: &Frame<'_>, out: &mut Vec<u8>) -> Result<(), Malformed> {
        let is_answer = frame.has(frame::ACK);
        match frame.kind {
            frame::SETTINGS if frame.stream != 0 || is_answer && !frame.payload.is_empty() => {
                return Err(Malformed("settings of a wrong form"));
            }
            frame::SETTINGS if !is_answer => {
                for (number, value) in frame.settings()? {
                    self.set(number, value)?;
                }
                self.noise += 1;
                frame::write(out, frame::SETTINGS, frame::ACK, 0, &[]);
                self.go_on(out);
            }
            frame::PING if frame.stream != 0 || frame.payload.len() != 8 => {
                return Err(Malformed("a ping of a wrong form"));
            }
            frame::PING if !is_answer => {
                self.noise += 1;
                frame::write(out, frame::PING, frame::ACK, 0, frame.payload);
            }
            frame::WINDOW_UPDATE => {
                let more = i64::from(frame.number(0)? & 0x7fff_ffff);
                let window = match frame.stream {
                    0 => Some(&mut self.window),
                    id => self.find(id)?.map(|at| &mut self.streams[at].window),
                };
                if let Some(window) = window {
                    *window += more;
                    if more == 0 || *window > WINDOW_MAX {
                        return Err(Malformed("a window of a wrong size"));
                    }
                    self.go_on(out);
                }
            }
            frame::PUSH_PROMISE => return Err(Malformed("a pushed answer that was not requested")),
            frame::PRIORITY if frame.payload.len() != 5 => return Err(Malformed("a priority of a wrong form")),
            _ => {}
        }
        match self.noise > NOISE_MAX {
            true => Err(Malformed("settings and pings without an end")),
            false => Ok(()),
        }
    }

    fn set(&mut self, number: u16, value: u32) -> Result<(), Malformed> {
        match number {
            3 => self.peer.streams_max = value,
            4 => {
                let more = i64::from(value) - self.peer.window_first;
                self.peer.window_first = i64::from(value);
                // Places that are free get theirs when they are taken.
                self.streams.iter_mut().filter(|stream| stream.id != 0).for_each(|stream| stream.window += more);
                if self.streams.iter().any(|stream| stream.window > WINDOW_MAX) || i64::from(value) > WINDOW_MAX {
                    return Err(Malformed("a window of a wrong size"));
                }
            }
            5 if !(1 << 14..1 << 24).contains(&value) => return Err(Malformed("a frame size that is none")),
            5 => self.peer.frame_max = value as usize,
            _ => {}
        }
        Ok(())
    }

    /// The server has ended a stream.
    #[cold]
    fn take_reset(&mut self, frame: &Frame<'_>, done: &mut dyn CompletionSink) -> Result<(), StoreError> {
        let found = frame.number(0).and_then(|code| Ok((code, self.find(frame.stream)?)));
        let (code, at) = found.map_err(|malformed| self.no_http(malformed))?;
        let name = frame::error_name(code);
        match at {
            _ if code == frame::HTTP_1_1_REQUIRED => return Err(self.client.other_version()),
            None => {}
            Some(at) if code == frame::REFUSED_STREAM && self.streams[at].status == 0 => {
                if self.streams[at].refusals < REFUSALS_MAX {
                    self.wait_again(at);
                } else {
                    self.drop_stream(at, Outcome::Rejected, "refused", &format!("refused the request: {name}"), done);
                }
            }
            Some(at) => {
                self.drop_stream(at, Outcome::Unknown, "reset", &format!("broke off its answer: {name}"), done);
            }
        }
        Ok(())
    }

    /// The server ends the connection. What it has not begun with has certainly not happened (RFC 9113, 6.8).
    #[cold]
    fn take_end(&mut self, frame: &Frame<'_>, done: &mut dyn CompletionSink) -> Result<(), StoreError> {
        let numbers = frame.number(0).and_then(|last| Ok((last & 0x7fff_ffff, frame.number(4)?)));
        let (last, code) = numbers.map_err(|malformed| self.no_http(malformed))?;
        self.is_ending = true;
        for at in 0..self.streams.len() {
            if self.streams[at].id > last {
                self.not_begun(at, "closed the connection before it took the request", done);
            }
        }
        match code {
            frame::NO_ERROR => Ok(()),
            frame::HTTP_1_1_REQUIRED => Err(self.client.other_version()),
            _ => {
                let what = format!("{} ended the connection: {}", self.client.login.place, frame::error_name(code));
                let words = frame.payload.get(8..).unwrap_or_default();
                let words = words[..words.len().min(100)].escape_ascii();
                let error = StoreError::new(StoreErrorKind::Unreachable, what).detail(words.to_string());
                Err(error.next("See in the server's log why."))
            }
        }
    }

    /// An answer is complete; `body` is its last piece.
    #[inline]
    fn finish(
        &mut self,
        at: usize,
        body: &[u8],
        out: &mut Vec<u8>,
        done: &mut dyn CompletionSink,
    ) -> Result<(), StoreError> {
        let stream = &mut self.streams[at];
        if !stream.is_bare(&self.client) && stream.length.is_some_and(|length| length != stream.arrived) {
            return Err(self.no_http(Malformed("a body shorter than it says")));
        }
        if stream.sent < stream.request.len() {
            // It has been answered, and need not hear the rest.
            frame::write(out, frame::RST_STREAM, 0, stream.id, &frame::NO_ERROR.to_be_bytes());
        }
        let body = if stream.body.is_empty() { body } else { &stream.body };
        let Stream { op, status, retry_after, head, arrived: body_bytes, .. } = stream;
        let arrived = Arrived { status: *status, retry_after: *retry_after, head, body, body_bytes: *body_bytes };
        self.is_refusing = false;
        match *op {
            Some((ticket, kind)) => self.client.answered(ticket, kind, &arrived, done),
            None => {
                self.client.opened(&arrived)?;
                self.client.greeting.depth_max = self.peer.streams_max.clamp(1, DEPTH_MAX);
                self.state = WireState::Ready;
            }
        }
        self.noise = 0;
        self.leave(at);
        Ok(())
    }
}

/// Notes that `bytes` more have arrived, and from time to time permits the server to send as many again.
#[inline]
fn tell(untold: &mut u64, bytes: u64, stream: u32, out: &mut Vec<u8>) {
    *untold += bytes;
    if *untold >= TOLD_BYTES {
        frame::window_update(out, stream, *untold as u32);
        *untold = 0;
    }
}
