//! Replies of JetStream.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::frames::{header, status};

/// JetStream's numbers of errors (its `errors.json`).
const NO_MESSAGE: u16 = 10037;
const WRONG_LAST_SEQUENCE: u16 = 10071;
/// No responders: the subject has no subscriber. Also the code of a server that has no reply in time.
const NO_RESPONDERS: u16 = 503;
const NOT_FOUND: u16 = 404;

/// Error of a reply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Refusal {
    /// Code like those of HTTP.
    pub code: u16,
    /// Number of the error in `errors.json`.
    pub err_code: u16,
    pub description: String,
    /// No server received the request: its subject had no subscriber.
    #[serde(skip)]
    pub is_undelivered: bool,
}

impl Refusal {
    fn malformed() -> Self {
        Self { description: "its answer is none of JetStream's".to_owned(), ..Self::default() }
    }

    /// Returns the error of a request without responders: the stream does not exist, or has no leader at the moment.
    fn no_responders() -> Self {
        let description = "no responders: the bucket is not there, or has no leader".to_owned();
        Self { code: NO_RESPONDERS, err_code: 0, description, is_undelivered: true }
    }

    /// Returns the error of a deletion that was refused as late, after which the key has no value. A former leader may
    /// have refused what its successor did.
    pub fn perhaps_deleted() -> Self {
        let description = "wrong last sequence, and then no value: a former leader may have refused this deletion, \
                           and its successor may have done it";
        Self { err_code: WRONG_LAST_SEQUENCE, description: description.to_owned(), ..Self::default() }
    }

    /// True if the request had no effect, and will have none. A 503 in JSON says only that a former leader did nothing:
    /// its successor may have received the write, too.
    pub fn is_definite(&self) -> bool {
        matches!(self.code, 400..500) || self.is_undelivered
    }

    /// Returns true if resources, memory or storage are exhausted: `insufficient resources`, `… exceeded`.
    pub fn is_of_full_disk(&self) -> bool {
        matches!(self.err_code, 10023 | 10028 | 10047)
    }

    /// Returns the name in counts of errors.
    pub fn name(&self) -> String {
        match self.err_code {
            0 => self.code.to_string(),
            number => number.to_string(),
        }
    }
}

/// Value of a key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found<'a> {
    /// Number of the write among all writes of the stream.
    pub revision: u64,
    pub value: Cow<'a, [u8]>,
}

/// Result of a write.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Written {
    Yes,
    /// Not written: the expected revision is not the latest any more.
    Late,
}

fn is_deletion(headers: &[u8]) -> bool {
    matches!(header(headers, "KV-Operation"), Some("DEL" | "PURGE"))
}

/// Reads a reply of `$JS.API.DIRECT.GET`: the message itself.
pub(crate) fn direct<'a>(headers: &[u8], content: &'a [u8]) -> Result<Option<Found<'a>>, Refusal> {
    match status(headers) {
        Some((NOT_FOUND, _)) => return Ok(None),
        Some((NO_RESPONDERS, _)) => return Err(Refusal::no_responders()),
        Some((code, words)) => {
            return Err(Refusal { code, description: words.to_owned(), ..Refusal::default() });
        }
        None => {}
    }
    if is_deletion(headers) {
        return Ok(None);
    }
    let revision = header(headers, "Nats-Sequence").and_then(|number| number.parse().ok());
    let revision = revision.ok_or_else(Refusal::malformed)?;
    Ok(Some(Found { revision, value: Cow::Borrowed(content) }))
}

/// Reads a reply of `$JS.API.STREAM.MSG.GET`: a message in JSON.
pub(crate) fn from_leader<'a>(headers: &[u8], content: &[u8]) -> Result<Option<Found<'a>>, Refusal> {
    #[derive(Deserialize)]
    struct Message<'m> {
        seq: u64,
        #[serde(borrow, default)]
        hdrs: Cow<'m, str>,
        #[serde(borrow, default)]
        data: Cow<'m, str>,
    }
    #[derive(Deserialize)]
    struct Answer<'m> {
        #[serde(borrow)]
        message: Option<Message<'m>>,
        error: Option<Refusal>,
    }
    if status(headers).is_some_and(|(code, _)| code == NO_RESPONDERS) {
        return Err(Refusal::no_responders());
    }
    let malformed = |_| Refusal::malformed();
    let message = match serde_json::from_slice(content).map_err(|_| Refusal::malformed())? {
        Answer { error: Some(Refusal { err_code: NO_MESSAGE, .. }), .. } => return Ok(None),
        Answer { error: Some(refusal), .. } => return Err(refusal),
        Answer { message, .. } => message.ok_or_else(Refusal::malformed)?,
    };
    let hdrs = STANDARD.decode(&*message.hdrs).map_err(malformed)?;
    if is_deletion(&hdrs) {
        return Ok(None);
    }
    let value = STANDARD.decode(&*message.data).map_err(malformed)?;
    Ok(Some(Found { revision: message.seq, value: Cow::Owned(value) }))
}

/// Reads the reply to a write.
pub(crate) fn written(headers: &[u8], content: &[u8]) -> Result<Written, Refusal> {
    #[derive(Deserialize)]
    struct Answer {
        #[serde(default)]
        seq: u64,
        error: Option<Refusal>,
    }
    if status(headers).is_some_and(|(code, _)| code == NO_RESPONDERS) {
        return Err(Refusal::no_responders());
    }
    match serde_json::from_slice(content).map_err(|_| Refusal::malformed())? {
        Answer { error: Some(Refusal { err_code: WRONG_LAST_SEQUENCE, .. }), .. } => Ok(Written::Late),
        Answer { error: Some(refusal), .. } => Err(refusal),
        Answer { seq: 0, .. } => Err(Refusal::malformed()),
        Answer { .. } => Ok(Written::Yes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_what_a_server_said() {
        let error = br#"{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 1"},"stream":"KV_b","seq":0}"#;
        assert_eq!(written(b"", error), Ok(Written::Late));
        assert_eq!(written(b"", br#"{"stream":"KV_b", "seq":1}"#), Ok(Written::Yes));
        let none = written(b"NATS/1.0 503\r\n\r\n", b"").unwrap_err();
        assert!(none.is_definite() && none.description.starts_with("no responders"), "{none:?}");
        let busy = written(b"", br#"{"error":{"code":503,"err_code":10077,"description":"x"},"stream":"s","seq":0}"#);
        assert!(!busy.unwrap_err().is_definite());
        let full =
            br#"{"error":{"code":503,"err_code":10047,"description":"insufficient storage"},"stream":"s","seq":0}"#;
        assert!(written(b"", full).unwrap_err().is_of_full_disk() && !none.is_of_full_disk());
        // Of a former leader: its successor, which also receives the subject, may write the value.
        let former = written(b"", br#"{"error":{"code":503,"description":"raft: not leader"},"stream":"s","seq":0}"#);
        assert!(!former.unwrap_err().is_definite());

        let message = br#"{"type":"io","message":{"subject":"$KV.b.k","seq":1,"data":"djE=","time":"2026"}}"#;
        let found = from_leader(b"", message).unwrap().unwrap();
        assert_eq!((found.revision, &*found.value), (1, &b"v1"[..]));
        let deleted = br#"{"message":{"seq":3,"hdrs":"TkFUUy8xLjANCktWLU9wZXJhdGlvbjogREVMDQoNCg=="}}"#;
        assert_eq!(from_leader(b"", deleted), Ok(None));
        let nothing = br#"{"error":{"code":404,"err_code":10037,"description":"no message found"}}"#;
        assert_eq!(from_leader(b"", nothing), Ok(None));
        let gone = br#"{"error":{"code":404,"err_code":10059,"description":"stream not found"}}"#;
        assert!(from_leader(b"", gone).unwrap_err().is_definite());

        let headers = b"NATS/1.0\r\nNats-Stream: KV_b\r\nNats-Sequence: 5\r\n\r\n";
        assert_eq!(direct(headers, b"v").unwrap().unwrap().revision, 5);
        assert_eq!(direct(b"NATS/1.0 404 Message Not Found\r\n\r\n", b""), Ok(None));
        assert_eq!(direct(b"NATS/1.0\r\nKV-Operation: DEL\r\nNats-Sequence: 5\r\n\r\n", b""), Ok(None));
    }

    #[test]
    fn what_is_no_answer_is_an_error_that_says_nothing_of_the_write() {
        for content in [&b"{}"[..], b"nonsense", br#"{"seq":"1"}"#, b""] {
            assert!(!written(b"", content).unwrap_err().is_definite());
            assert!(from_leader(b"", content).is_err());
        }
        assert!(direct(b"NATS/1.0\r\n\r\n", b"").is_err());
        assert!(from_leader(b"", br#"{"message":{"seq":3,"data":"%%"}}"#).is_err());
    }
}
