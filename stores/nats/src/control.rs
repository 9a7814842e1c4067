//! Blocking connection for the control plane, where nothing is measured.

use std::time::Duration;

use plimsoll_core::{ANSWER_BYTES_MAX, StoreError, StoreErrorKind, Waits};
use plimsoll_endpoint::equals::Addresses;
use plimsoll_endpoint::tls::advised;
use plimsoll_endpoint::{Channel, Connected};
use serde_json::Value;

use crate::answers::Refusal;
use crate::frames::{Broken, Frame, Info, frame, greet, publish, status};
use crate::server::Encryption;

/// Frames between a request and its reply, mostly PINGs, after which a server is not taken for NATS. PINGs come every two
/// minutes.
const OTHERS_MAX: u32 = 100;

/// Advice for a server that is not NATS.
const CHECK_PORT: &str = "check the port: 4222 is that of NATS' clients";

/// Returns the error of a request that was refused.
pub(crate) fn refused(place: &str, refusal: &Refusal) -> StoreError {
    let kind = if refusal.is_of_full_disk() { StoreErrorKind::DiskFull } else { StoreErrorKind::Store };
    let error = StoreError::new(kind, format!("{place} refused a request")).detail(&refusal.description);
    match (refusal.code, refusal.err_code) {
        (_, 10005 | 10074) => error.next("ask for fewer copies of the bucket: --set replicas=1"),
        (503, 0) => error.next("check that nats-server runs with JetStream (-js, or a block jetstream)"),
        _ => error,
    }
}

/// Returns the error of a connection on which the server sent the error `words`.
pub(crate) fn said(place: &str, words: &str) -> StoreError {
    let lower = words.to_ascii_lowercase();
    if lower.contains("authorization") || lower.contains("authentication") {
        return StoreError::new(StoreErrorKind::Authentication, format!("{place} does not let this user in"))
            .detail(words)
            .next("check the user in the URL (nats://USER:@HOST) and NATS_PASSWORD, or the password or token given with --password-file");
    }
    if lower.contains("permissions violation") {
        return StoreError::new(StoreErrorKind::Permission, format!("{place} does not let this user ask that"))
            .detail(words)
            .next("let the user publish to $JS.API.> and $KV.>, and subscribe to _INBOX.>");
    }
    StoreError::new(StoreErrorKind::Unreachable, format!("{place} ended the connection")).detail(words)
}

/// Returns the error of bytes that are not a frame of NATS.
pub(crate) fn broken(place: &str, broken: Broken) -> StoreError {
    match broken {
        Broken::TooLarge(bytes) => StoreError::answer_too_large(place, Some(bytes as u64), ANSWER_BYTES_MAX),
        Broken::Malformed => {
            StoreError::new(StoreErrorKind::Unreachable, format!("{place} does not answer as NATS does"))
                .next(CHECK_PORT)
        }
    }
}

/// Reads the server's description, on a connection that is or will be encrypted in this way.
///
/// # Errors
/// `Usage` if the server demands TLS where there is none, has none where there should be some, or knows no headers.
pub(crate) fn acceptable(place: &str, info: &[u8], encryption: Encryption) -> Result<Info, StoreError> {
    let info: Info = serde_json::from_slice(info).map_err(|_| broken(place, Broken::Malformed))?;
    match encryption {
        Encryption::No if info.tls_required => {
            return Err(StoreError::usage(format!("{place} wants TLS"))
                .next("write natss://, with ?cacert=FILE where this machine does not trust its authority"));
        }
        Encryption::Upgrade if !info.tls_required && !info.tls_available => {
            return Err(StoreError::usage(format!("{place} does not speak TLS"))
                .next("switch it on in the server (tls { cert_file, key_file }), or write nats:// over a network that you trust"));
        }
        _ => {}
    }
    if !info.headers {
        return Err(StoreError::usage(format!("{place} is NATS {}, which knows no headers", info.version))
            .next("attach to NATS 2.9 or later, whose header_support is on"));
    }
    Ok(info)
}

/// Adds to the error of a server that has not described itself what else it may wait for.
pub(crate) fn silent(error: StoreError, encryption: Encryption) -> StoreError {
    match (error.kind, encryption) {
        (StoreErrorKind::Unreachable, Encryption::Upgrade) if error.next.as_deref() != Some(CHECK_PORT) => error.next(
            "check that NATS listens there; where its tls has handshake_first, add ?handshake_first=yes to the URL",
        ),
        _ => error,
    }
}

/// Connection whose calls block until their replies arrive.
pub(crate) struct Control {
    channel: Channel,
    waits: Waits,
    /// Bytes that arrived and were not used yet.
    input: Vec<u8>,
    /// Number of requests.
    asked: u64,
    /// Frames since the last request that did not reply to it.
    others: u32,
    pub info: Info,
}

impl Connected for Control {
    fn is_alive(&mut self) -> bool {
        // A server that sends a PING now and then is alive, and expects a PONG.
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
    /// Connects to the first of `addresses`, and logs in.
    ///
    /// # Errors
    /// `Unreachable`, `Authentication`, `Interrupted`, or the server's refusal.
    pub fn open(addresses: &Addresses, waits: &Waits) -> Result<Self, StoreError> {
        let channel = Channel::connect(&addresses.first(), &addresses.place, waits)?;
        let mut control =
            Self { channel, waits: waits.clone(), input: Vec::new(), asked: 0, others: 0, info: Info::default() };
        control.begin(addresses).map_err(advised)?;
        Ok(control)
    }

    fn begin(&mut self, addresses: &Addresses) -> Result<(), StoreError> {
        let (place, encryption) = (&addresses.place, Encryption::of(addresses));
        let mut tls = addresses.tls_to_first()?;
        if let Some(tls) = tls.take_if(|_| encryption == Encryption::First) {
            self.channel.encrypt(tls);
        }
        let (Frame::Info(info), bytes) = self.next().map_err(|error| silent(error, encryption))? else {
            return Err(broken(place, Broken::Malformed));
        };
        self.info = acceptable(place, &bytes[info], encryption)?;
        if let Some(tls) = tls {
            if !self.input.is_empty() {
                // What came in clear cannot be what came through TLS.
                return Err(broken(place, Broken::Malformed));
            }
            self.channel.encrypt(tls);
        }
        let inbox = self.info.inbox();
        self.channel.write(|out| greet(addresses.login.as_ref(), &inbox, out));
        loop {
            match self.next()?.0 {
                Frame::Pong => return Ok(()),
                frame => self.heed(&frame)?,
            }
        }
    }

    /// Asks JetStream's API `what`, with `body` unless that is null. Returns the reply.
    ///
    /// # Errors
    /// The refusal, with JetStream's own words as detail; or `Unreachable`.
    pub fn api(&mut self, what: &str, body: &Value) -> Result<Value, StoreError> {
        self.try_api(what, body)?.map_err(|refusal| self.refused(&refusal))
    }

    /// Returns the error of a refusal.
    pub fn refused(&self, refusal: &Refusal) -> StoreError {
        refused(self.channel.place(), refusal)
    }

    /// Asks as [`Control::api`], and waits for at most `bound`: without a leader, JetStream does not reply.
    pub fn api_within(&mut self, bound: Duration, what: &str, body: &Value) -> Result<Value, StoreError> {
        self.try_api_within(bound, what, body)?.map_err(|refusal| self.refused(&refusal))
    }

    /// Asks as [`Control::api_within`]. A refusal is not an error.
    pub fn try_api_within(
        &mut self,
        bound: Duration,
        what: &str,
        body: &Value,
    ) -> Result<Result<Value, Refusal>, StoreError> {
        self.channel.set_waits(self.waits.with_answer(bound));
        let answer = self.try_api(what, body);
        self.channel.set_waits(self.waits.clone());
        answer
    }

    /// Asks as [`Control::api`]. A refusal is not an error.
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
                return Ok(Err(Refusal { code, description: description.to_owned(), ..Refusal::default() }));
            }
            let mut answer: Value =
                serde_json::from_slice(&bytes[content]).map_err(|_| broken(self.channel.place(), Broken::Malformed))?;
            return Ok(match answer.get_mut("error").map(Value::take) {
                Some(error) => Err(serde_json::from_value(error).unwrap_or_default()),
                None => Ok(answer),
            });
        }
    }

    /// Returns the next frame, with the bytes of which it has positions.
    fn next(&mut self) -> Result<(Frame, Vec<u8>), StoreError> {
        loop {
            match self.take()? {
                Some(found) => return Ok(found),
                None => self.turn()?,
            }
        }
    }

    /// Returns the first frame that has arrived.
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

    /// Handles a frame that does not reply to a request.
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
