//! Protocol of NATS' clients: lines that end with CR LF, and messages whose length the line before them gives.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::Range;

use memchr::memmem;
use plimsoll_endpoint::equals::Login;
use serde::{Deserialize, Serialize};

/// Longest line of a server. The longest in practice is `INFO`.
const LINE_BYTES_MAX: usize = 64 << 10;

/// Frame from a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Frame {
    /// Position of the JSON in which a server describes itself.
    Info(Range<usize>),
    Ping,
    Pong,
    /// Acknowledgement, in verbose mode.
    Ok,
    /// Error, mostly sent before the server closes the connection.
    Error(String),
    /// Positions of a message's subject, headers and content. Headers are empty if it has none.
    Message {
        subject: Range<usize>,
        headers: Range<usize>,
        content: Range<usize>,
    },
}

/// Cause why bytes are not a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// No frame of NATS begins in this way.
    Malformed,
    /// Size of a message that has more bytes than are kept.
    TooLarge(usize),
}

/// Returns the first frame of `input` and its length in bytes; `None` until it has arrived in full.
pub(crate) fn frame(input: &[u8], bytes_max: usize) -> Result<Option<(Frame, usize)>, Broken> {
    let Some(end) = memmem::find(&input[..input.len().min(LINE_BYTES_MAX)], b"\r\n") else {
        return if input.len() < LINE_BYTES_MAX { Ok(None) } else { Err(Broken::Malformed) };
    };
    let after = end + 2;
    let line = std::str::from_utf8(&input[..end]).map_err(|_| Broken::Malformed)?;
    let (verb, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
    let frame = match verb {
        "MSG" => return message(input, rest, after, false, bytes_max),
        "HMSG" => return message(input, rest, after, true, bytes_max),
        "INFO" => Frame::Info(verb.len()..end),
        "PING" => Frame::Ping,
        "PONG" => Frame::Pong,
        "+OK" => Frame::Ok,
        "-ERR" => Frame::Error(rest.trim().trim_matches('\'').to_owned()),
        _ => return Err(Broken::Malformed),
    };
    Ok(Some((frame, after)))
}

/// Reads a message whose line is `subject sid [reply] [bytes of headers] bytes` and ends before `after`.
fn message(
    input: &[u8],
    line: &str,
    after: usize,
    has_headers: bool,
    bytes_max: usize,
) -> Result<Option<(Frame, usize)>, Broken> {
    let mut words = line.split_ascii_whitespace();
    let subject = words.next().ok_or(Broken::Malformed)?;
    let begin = subject.as_ptr() as usize - input.as_ptr() as usize;
    let number = |word: Option<&str>| word.and_then(|word| word.parse::<usize>().ok()).ok_or(Broken::Malformed);
    let total = number(words.next_back())?;
    let headers = if has_headers { number(words.next_back())? } else { 0 };
    if words.next().is_none() || headers > total {
        return Err(Broken::Malformed);
    }
    if total > bytes_max {
        return Err(Broken::TooLarge(total));
    }
    let end = after + total;
    match input.get(end..end + 2) {
        None => Ok(None),
        Some(b"\r\n") => {
            let subject = begin..begin + subject.len();
            let message = Frame::Message { subject, headers: after..after + headers, content: after + headers..end };
            Ok(Some((message, end + 2)))
        }
        Some(_) => Err(Broken::Malformed),
    }
}

/// Returns the code and the words of the headers' first line, if JetStream replies with a status alone.
pub(crate) fn status(headers: &[u8]) -> Option<(u16, &str)> {
    let line = headers.strip_prefix(b"NATS/1.0 ")?;
    let line = std::str::from_utf8(&line[..memmem::find(line, b"\r\n")?]).ok()?;
    let (code, words) = line.split_once(' ').unwrap_or((line, ""));
    Some((code.parse().ok()?, words))
}

/// Returns the value of the header `name`.
pub(crate) fn header<'a>(headers: &'a [u8], name: &str) -> Option<&'a str> {
    let text = std::str::from_utf8(headers).ok()?;
    text.split("\r\n").find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
}

/// Description of a server, sent when a client connects.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Info {
    server_id: String,
    client_id: u64,
    pub version: String,
    pub max_payload: usize,
    pub headers: bool,
    pub tls_required: bool,
    pub tls_available: bool,
    /// Name of the server's cluster; empty for a server without others.
    pub cluster: String,
}

impl Info {
    /// Returns the prefix of the subjects of replies to this connection, unique in the cluster.
    pub fn inbox(&self) -> String {
        let tail = self.server_id.len().saturating_sub(8);
        format!("_INBOX.{}.{}", self.server_id.get(tail..).unwrap_or_default(), self.client_id)
    }
}

#[derive(Serialize)]
struct Connect<'a> {
    verbose: bool,
    pedantic: bool,
    headers: bool,
    no_responders: bool,
    protocol: u8,
    lang: &'static str,
    version: &'static str,
    name: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pass: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    auth_token: Option<Cow<'a, str>>,
}

/// Appends the greeting: login, subscription to the replies under `inbox`, and a PING, whose PONG says that both were taken.
pub(crate) fn greet(login: Option<&Login>, inbox: &str, out: &mut Vec<u8>) {
    let (user, pass, auth_token) = match login {
        Some(Login { user, password: Some(password) }) => (Some(user.text()), Some(password.text()), None),
        Some(Login { user, password: None }) => (None, None, Some(user.text())),
        None => (None, None, None),
    };
    let connect = Connect {
        verbose: false,
        pedantic: false,
        headers: true,
        no_responders: true,
        protocol: 1,
        lang: "rust",
        version: env!("CARGO_PKG_VERSION"),
        name: "plimsoll",
        user,
        pass,
        auth_token,
    };
    out.extend_from_slice(b"CONNECT ");
    // A write to memory cannot fail.
    let _ = serde_json::to_writer(&mut *out, &connect);
    out.extend_from_slice(format!("\r\nSUB {inbox}.* 1\r\nPING\r\n").as_bytes());
}

/// Appends a message for `subject`, whose reply goes to `inbox` with `number`. `headers` lack the first line.
pub(crate) fn publish(subject: &str, inbox: (&str, u64), headers: &str, content: &[u8], out: &mut Vec<u8>) {
    const FIRST: &str = "NATS/1.0\r\n";
    let mut line = String::with_capacity(128);
    let (inbox, number) = inbox;
    // A write to memory cannot fail.
    let _ = match headers {
        "" => write!(line, "PUB {subject} {inbox}.{number} {}\r\n", content.len()),
        headers => {
            let bytes = FIRST.len() + headers.len() + 2;
            let total = bytes + content.len();
            write!(line, "HPUB {subject} {inbox}.{number} {bytes} {total}\r\n{FIRST}{headers}\r\n")
        }
    };
    out.extend_from_slice(line.as_bytes());
    out.extend_from_slice(content);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn only(input: &[u8]) -> Frame {
        let (frame, used) = frame(input, 1_000).unwrap().unwrap();
        assert_eq!(used, input.len());
        frame
    }

    #[test]
    fn what_a_server_says_is_read() {
        assert_eq!(only(b"PING\r\n"), Frame::Ping);
        assert_eq!(only(b"-ERR 'Authorization Violation'\r\n"), Frame::Error("Authorization Violation".to_owned()));
        let input = b"MSG I.1 1  2\r\nab\r\n";
        assert_eq!(only(input), Frame::Message { subject: 4..7, headers: 14..14, content: 14..16 });
        let input = b"HMSG I.1 1 r 16 18\r\nNATS/1.0 503\r\n\r\nab\r\n";
        let Frame::Message { subject, headers, content } = only(input) else { panic!("no message") };
        assert_eq!((&input[subject], &input[content]), (&b"I.1"[..], &b"ab"[..]));
        assert_eq!(status(&input[headers]), Some((503, "")));
        let headers = b"NATS/1.0\r\nKV-Operation: DEL\r\nNats-Sequence: 7\r\n\r\n";
        assert_eq!((header(headers, "Nats-Sequence"), status(headers)), (Some("7"), None));
    }

    #[test]
    fn what_is_no_frame_is_refused_and_what_is_cut_is_waited_for() {
        let whole = b"MSG I.1 1 4\r\nabcd\r\n";
        for end in 0..whole.len() {
            assert_eq!(frame(&whole[..end], 1_000), Ok(None), "{end}");
        }
        for wrong in
            ["HTTP/1.1 400 Bad Request\r\n", "MSG I.1\r\n", "MSG I.1 1 x\r\n", "MSG I 1 1\r\nabc", "HMSG I 1 9 1\r\n"]
        {
            assert_eq!(frame(wrong.as_bytes(), 1_000), Err(Broken::Malformed), "{wrong}");
        }
        assert_eq!(frame(b"MSG I.1 1 5000\r\n", 1_000), Err(Broken::TooLarge(5_000)));
        assert_eq!(frame(b"MSG I.1 1 18446744073709551615\r\n", 1_000), Err(Broken::TooLarge(usize::MAX)));
        assert_eq!(frame(&[b'x'; LINE_BYTES_MAX], 1_000), Err(Broken::Malformed));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_frame_or_none(input in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(Some((_, used))) = frame(&input, 100) {
                prop_assert!(used <= input.len());
            }
            let _ = (status(&input), header(&input, "Nats-Sequence"));
        }

        #[test]
        fn any_message_is_read_as_it_was_sent(headers in "(X-A: [a-z]{0,9}\r\n){0,2}", content in prop::collection::vec(any::<u8>(), 0..99)) {
            let mut out = Vec::new();
            publish("$KV.b.k", ("I", 7), &headers, &content, &mut out);
            // A server delivers it with the number of the subscription in place of the reply's subject.
            let end = memmem::find(&out, b"\r\n").unwrap();
            let line = std::str::from_utf8(&out[..end]).unwrap().replacen("PUB", "MSG", 1).replacen("I.7", "1", 1);
            let sent = [line.as_bytes(), &out[end..]].concat();
            let Frame::Message { content: read, .. } = frame(&sent, 10_000).unwrap().unwrap().0 else {
                panic!("no message")
            };
            let used = frame(&sent, 10_000).unwrap().unwrap().1;
            prop_assert_eq!((&sent[read], used), (&content[..], sent.len()));
        }
    }
}
