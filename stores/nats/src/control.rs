//! One connection that waits for its answers: for the control plane, where nothing is measured.

use std::time::Duration;

use plimsoll_core::{ANSWER_BYTES_MAX, StoreError, StoreErrorKind, Waits};
use plimsoll_endpoint::{Channel, Connected};
use serde_json::Value;

use crate::answers::Refusal;
use crate::endpoint::Endpoint;
use crate::frames::{Broken, Frame, Info, frame, greet, publish, status};

/// Frames that are no answer, most of them PINGs, after which a server is taken for none: one comes every two minutes.
const OTHERS_MAX: u32 = 100;

/// What a server's answer was refused with, as the error of whoever asked.
pub(crate) fn refused(place: &str, refusal: &Refusal) -> StoreError {
    let kind = match refusal.err_code {
        // Resources, memory and storage: `insufficient resources`, `… exceeded`.
        10023 | 10028 | 10047 => StoreErrorKind::DiskFull,
        _ => StoreErrorKind::Store,
    };
    let error = StoreError::new(kind, format!("{place} refused a request")).detail(&refusal.description);
    match (refusal.code, refusal.err_code) {
        (_, 10005 | 10074) => error.next("ask for fewer copies of the bucket: --set replicas=1"),
        (503, 0) => error.next("check that nats-server runs with JetStream (-js, or a block jetstream)"),
        _ => error,
    }
}

/// The error of a connection over which `words` were said.
pub(crate) fn said(place: &str, words: &str) -> StoreError {
    let lower = words.to_ascii_lowercase();
    if lower.contains("authorization") || lower.contains("authentication") {
        return StoreError::new(StoreErrorKind::Authentication, format!("{place} does not let this user in"))
            .detail(words)
            .next("check the user in the URL, and NATS_PASSWORD or the file given with --password-file");
    }
    if lower.contains("permissions violation") {
        return StoreError::new(StoreErrorKind::Permission, format!("{place} does not let this user ask that"))
            .detail(words)
            .next("let the user publish to $JS.API.> and $KV.>, and subscribe to _INBOX.>");
    }
    StoreError::new(StoreErrorKind::Unreachable, format!("{place} ended the connection")).detail(words)
}

/// The error of bytes that are no answer of NATS'.
pub(crate) fn broken(place: &str, broken: Broken) -> StoreError {
    match broken {
        Broken::TooLarge(bytes) => StoreError::answer_too_large(place, Some(bytes as u64), ANSWER_BYTES_MAX),
        Broken::Malformed => StoreError::new(StoreErrorKind::Unreachable, format!("{place} answers as no NATS does"))
            .next("check the port: 4222 is that of NATS' clients"),
    }
}

/// What a server says of itself, if we can speak with it.
pub(crate) fn acceptable(place: &str, info: &[u8]) -> Result<Info, StoreError> {
    let info: Info = serde_json::from_slice(info).map_err(|_| broken(place, Broken::Malformed))?;
    if info.tls_required {
        return Err(StoreError::usage(format!("{place} wants TLS, which is not spoken"))
            .next("attach where NATS listens in clear"));
    }
    if !info.headers {
        return Err(StoreError::usage(format!("{place} is NATS {}, which knows no headers", info.version))
            .next("attach to NATS 2.9 or later, whose header_support is on"));
    }
    Ok(info)
}

/// A connection whose calls return when they are done.
pub(crate) struct Control {
    channel: Channel,
    waits: Waits,
    /// What arrived and has not been used yet.
    input: Vec<u8>,
    /// Questions asked.
    asked: u64,
    /// What was said since the last one that was no answer to it.
    others: u32,
    pub info: Info,
}

impl Connected for Control {
    fn is_alive(&mut self) -> bool {
        // A server that sends a PING now and then is alive, and wants an answer.
        while self.channel.has_news() {
            let waits = self.waits.with_answer(Duration::from_millis(100));
            self.channel.set_waits(waits);
            let taken = self.turn().and_then(|()| {
                while let Some((frame, _)) = self.take()? {
                    self.heed(&frame)?;
                }
                Ok(())
            });
            self.channel.set_waits(self.waits.clone());
            if taken.is_err() {
                return false;
            }
        }
        true
    }
}

impl Control {
    /// Connects to the only server of `endpoint`, or the first, and logs in.
    ///
    /// # Errors
    /// `Unreachable`, `Authentication`, `Interrupted`, or as the server says.
    pub fn open(endpoint: &Endpoint, waits: &Waits) -> Result<Self, StoreError> {
        let channel = Channel::connect(&endpoint.address(), &endpoint.place, waits)?;
        let mut control =
            Self { channel, waits: waits.clone(), input: Vec::new(), asked: 0, others: 0, info: Info::default() };
        let (Frame::Info(info), bytes) = control.next()? else {
            return Err(broken(&endpoint.place, Broken::Malformed));
        };
        control.info = acceptable(&endpoint.place, &bytes[info])?;
        let inbox = control.info.inbox();
        control.channel.write(|out| greet(endpoint.login.as_ref(), &inbox, out));
        loop {
            match control.next()?.0 {
                Frame::Pong => return Ok(control),
                frame => control.heed(&frame)?,
            }
        }
    }

    /// Asks JetStream's API `what`, with `body` unless that is null; says what it answered.
    ///
    /// # Errors
    /// What it refused, its own words as detail; or `Unreachable`.
    pub fn api(&mut self, what: &str, body: &Value) -> Result<Value, StoreError> {
        self.try_api(what, body)?.map_err(|refusal| self.refused(&refusal))
    }

    /// The error of what was refused.
    pub fn refused(&self, refusal: &Refusal) -> StoreError {
        refused(self.channel.place(), refusal)
    }

    /// As [`Control::try_api`], for something that may take long.
    pub fn long_api(&mut self, what: &str, body: &Value) -> Result<Result<Value, Refusal>, StoreError> {
        self.channel.set_works(true);
        let answer = self.try_api(what, body);
        self.channel.set_works(false);
        answer
    }

    /// As [`Control::api`], which is waited for so long at most: JetStream says nothing where it has no leader.
    pub fn api_within(&mut self, bound: Duration, what: &str, body: &Value) -> Result<Value, StoreError> {
        self.channel.set_waits(self.waits.with_answer(bound));
        let answer = self.api(what, body);
        self.channel.set_waits(self.waits.clone());
        answer
    }

    /// As [`Control::api`]; what is refused is not an error.
    pub fn try_api(&mut self, what: &str, body: &Value) -> Result<Result<Value, Refusal>, StoreError> {
        self.asked += 1;
        self.others = 0;
        let (number, body) = (self.asked, if body.is_null() { String::new() } else { body.to_string() });
        let inbox = self.info.inbox();
        self.channel.write(|out| publish(&format!("$JS.API.{what}"), (&inbox, number), "", body.as_bytes(), out));
        let subject = format!("{inbox}.{number}");
        loop {
            let (frame, bytes) = self.next()?;
            let (headers, content) = match frame {
                Frame::Message { subject: to, headers, content } if bytes[to.clone()] == *subject.as_bytes() => {
                    (headers, content)
                }
                frame => {
                    self.heed(&frame)?;
                    continue;
                }
            };
            if let Some((code, words)) = status(&bytes[headers]) {
                let description = if code == 503 { "JetStream is not there: no responders" } else { words };
                return Ok(Err(Refusal { code, err_code: 0, description: description.to_owned() }));
            }
            let mut answer: Value =
                serde_json::from_slice(&bytes[content]).map_err(|_| broken(self.channel.place(), Broken::Malformed))?;
            return Ok(match answer.get_mut("error").map(Value::take) {
                Some(error) => Err(serde_json::from_value(error).unwrap_or_default()),
                None => Ok(answer),
            });
        }
    }

    /// What the server says next, with the bytes that it stands in.
    fn next(&mut self) -> Result<(Frame, Vec<u8>), StoreError> {
        loop {
            match self.take()? {
                Some(found) => return Ok(found),
                None => self.turn()?,
            }
        }
    }

    /// The first frame that has arrived.
    fn take(&mut self) -> Result<Option<(Frame, Vec<u8>)>, StoreError> {
        let found = frame(&self.input, ANSWER_BYTES_MAX).map_err(|error| broken(self.channel.place(), error))?;
        Ok(found.map(|(frame, used)| (frame, self.input.drain(..used).collect())))
    }

    fn turn(&mut self) -> Result<(), StoreError> {
        let input = &mut self.input;
        self.channel.turn(&mut |bytes, _| {
            input.extend_from_slice(bytes);
            bytes.len()
        })
    }

    /// Does what a frame wants that is no answer.
    fn heed(&mut self, frame: &Frame) -> Result<(), StoreError> {
        self.others += 1;
        match frame {
            _ if self.others > OTHERS_MAX => return Err(broken(self.channel.place(), Broken::Malformed)),
            Frame::Ping => self.channel.write(|out| out.extend_from_slice(b"PONG\r\n")),
            Frame::Error(words) => return Err(said(self.channel.place(), words)),
            _ => {}
        }
        Ok(())
    }
}
