//! Commands in a store's own language: a line is a sequence of words, with quotes and backslashes as in `redis-cli`.
//!
//! Words are separated by blanks. In double quotes, `\n`, `\r`, `\t`, `\\`, `\"` and `\xHH` stand for one character,
//! in single quotes `\'` does, and quoted text may contain line ends. Everywhere, `\:` is a colon that begins no
//! variable, and a backslash at a line's end outside of quotes continues the line.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// A part of a word of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Literal text.
    Text(String),
    /// The operation's next parameter.
    Param,
}

/// A part of a word as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RawPart {
    /// Literal text.
    Text(String),
    /// A colon and a name, which may be the name of a variable.
    Name {
        /// Byte range of the colon and the name.
        range: Range<usize>,
        /// Literal text if no variable has that name: it is quoted, or not at the start of a word.
        or_text: bool,
    },
}

/// A syntax error in a line: its byte range and a description.
pub type SyntaxError = (Range<usize>, &'static str);

/// Parses the command at byte `at` of `text`. Returns its words and its end: a line's end, or the text's.
///
/// # Errors
/// A quote that is not closed or not followed by a blank; a character escape that is not UTF-8.
pub fn words(text: &str, at: usize) -> Result<(Vec<Vec<RawPart>>, usize), SyntaxError> {
    let mut reader = Reader { text, bytes: text.as_bytes(), at, word: Vec::new() };
    let mut words = Vec::new();
    loop {
        if let Some(length) = reader.continuation() {
            reader.at += length;
            continue;
        }
        match reader.peek(0) {
            None | Some(b'\n') => return Ok((words, reader.at)),
            Some(byte) if byte.is_ascii_whitespace() => reader.at += 1,
            Some(_) => {
                reader.word()?;
                words.push(std::mem::take(&mut reader.word));
            }
        }
    }
}

/// Writes a command on one line, from which [`words`] reads the same words.
pub fn line(words: &[Vec<Part>]) -> String {
    let mut line = String::new();
    for word in words {
        line.push_str(if line.is_empty() { "\"" } else { " \"" });
        for part in word {
            match part {
                Part::Text(text) => {
                    for c in text.chars() {
                        if matches!(c, '"' | '\\' | ':') {
                            line.push('\\');
                        }
                        line.push(c);
                    }
                }
                Part::Param => line.push_str("{}"),
            }
        }
        line.push('"');
    }
    line
}

/// Writes a command for people: with quotes only where they are needed, and `{}` for parameters.
pub fn shown(words: &[Vec<Part>]) -> String {
    let shown = |word: &Vec<Part>| {
        let text: String = word
            .iter()
            .map(|part| match part {
                Part::Text(text) => text.as_str(),
                Part::Param => "{}",
            })
            .collect();
        let is_plain = !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || matches!(c, '"' | '\''));
        if is_plain { text } else { format!("\"{}\"", text.escape_debug().to_string().replace("\\'", "'")) }
    };
    words.iter().map(shown).collect::<Vec<_>>().join(" ")
}

/// The command's name in upper case; empty if it contains a parameter.
pub fn name(words: &[Vec<Part>]) -> String {
    match words.first().map(Vec::as_slice) {
        Some([Part::Text(name)]) => name.to_ascii_uppercase(),
        _ => String::new(),
    }
}

/// True if a command of this name, in upper case, is known to change nothing.
pub fn only_reads(name: &str) -> bool {
    const READS: &str = "BITCOUNT BITFIELD_RO BITPOS DBSIZE DISCARD DUMP ECHO EVALSHA_RO EVAL_RO EXEC EXISTS EXPIRETIME \
        FCALL_RO GEODIST GEOHASH GEOPOS GEORADIUSBYMEMBER_RO GEORADIUS_RO GEOSEARCH GET GETBIT GETRANGE HEXISTS HGET HGETALL \
        HKEYS HLEN HMGET HPEXPIRETIME HPTTL HRANDFIELD HSCAN HSTRLEN HTTL HVALS INFO KEYS LCS LINDEX LLEN LPOS LRANGE MGET \
        MULTI OBJECT PEXPIRETIME PFCOUNT PING PTTL RANDOMKEY SCAN SCARD SDIFF SINTER SINTERCARD SISMEMBER SMEMBERS SMISMEMBER \
        SORT_RO SRANDMEMBER SSCAN STRLEN SUBSTR SUNION TIME TTL TYPE UNWATCH WATCH XLEN XPENDING XRANGE XREAD XREVRANGE ZCARD \
        ZCOUNT ZDIFF ZINTER ZINTERCARD ZLEXCOUNT ZMSCORE ZRANDMEMBER ZRANGE ZRANGEBYLEX ZRANGEBYSCORE ZRANK ZREVRANGE \
        ZREVRANGEBYLEX ZREVRANGEBYSCORE ZREVRANK ZSCAN ZSCORE ZUNION";
    READS.split_ascii_whitespace().any(|one| one == name)
}

struct Reader<'t> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
    word: Vec<RawPart>,
}

impl Reader<'_> {
    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    /// The length of a line continuation (a backslash and a line end) at this position, if there is one.
    fn continuation(&self) -> Option<usize> {
        match (self.peek(0), self.peek(1), self.peek(2)) {
            (Some(b'\\'), Some(b'\n'), _) => Some(2),
            (Some(b'\\'), Some(b'\r'), Some(b'\n')) => Some(3),
            _ => None,
        }
    }

    fn push(&mut self, text: &str) {
        match self.word.last_mut() {
            Some(RawPart::Text(last)) => last.push_str(text),
            _ => self.word.push(RawPart::Text(text.to_owned())),
        }
    }

    fn word(&mut self) -> Result<(), SyntaxError> {
        let start = self.at;
        loop {
            match self.peek(0) {
                None => return Ok(()),
                Some(byte) if byte.is_ascii_whitespace() => return Ok(()),
                Some(b'\\') if self.continuation().is_some() => return Ok(()),
                Some(quote @ (b'"' | b'\'')) if self.at == start => return self.quoted(quote),
                Some(b'\\') if self.peek(1) == Some(b':') => {
                    self.at += 1;
                    self.plain();
                }
                Some(b':') => self.colon(self.at > start && self.bytes.get(self.at - 1) != Some(&b':')),
                Some(_) => self.plain(),
            }
        }
    }

    /// Consumes one literal character.
    fn plain(&mut self) {
        let (text, at) = (self.text, self.at);
        let length = text.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8);
        self.push(text.get(at..at + length).unwrap_or_default());
        self.at += length;
    }

    fn colon(&mut self, or_text: bool) {
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80;
        let start = self.at;
        let length = self.bytes[start + 1..].iter().take_while(|byte| is_name(byte)).count();
        if length == 0 || self.peek(1).is_some_and(|byte| byte.is_ascii_digit()) {
            return self.plain();
        }
        self.at += 1 + length;
        self.word.push(RawPart::Name { range: start..self.at, or_text });
    }

    fn quoted(&mut self, quote: u8) -> Result<(), SyntaxError> {
        let start = self.at;
        self.at += 1;
        self.push("");
        loop {
            match (self.peek(0), self.peek(1)) {
                (None, _) => return Err((start..start + 1, "a quote that is not closed")),
                (Some(byte), next) if byte == quote => {
                    self.at += 1;
                    return match next {
                        Some(next) if !next.is_ascii_whitespace() && next != b'\\' => {
                            Err((start..self.at, "a blank has to follow the end of a quote"))
                        }
                        _ => Ok(()),
                    };
                }
                (Some(b'\\'), Some(b':')) => {
                    self.at += 1;
                    self.plain();
                }
                (Some(b'\\'), Some(next)) if quote == b'\'' && next == b'\'' => {
                    self.at += 1;
                    self.plain();
                }
                (Some(b'\\'), Some(next)) if quote == b'"' => self.escape(next)?,
                (Some(b':'), _) => self.colon(true),
                _ => self.plain(),
            }
        }
    }

    /// Consumes a backslash in double quotes.
    fn escape(&mut self, next: u8) -> Result<(), SyntaxError> {
        let start = self.at;
        self.at += 1;
        let one = match next {
            b'n' => "\n",
            b'r' => "\r",
            b't' => "\t",
            b'b' => "\u{8}",
            b'a' => "\u{7}",
            b'x' => {
                let digits = self.text.get(start + 2..start + 4).and_then(|hex| u8::from_str_radix(hex, 16).ok());
                let Some(byte) = digits.filter(u8::is_ascii) else {
                    return Err((start..start + 2, "`\\x` takes two digits, 00 to 7f: words are UTF-8"));
                };
                self.push(char::from(byte).encode_utf8(&mut [0; 4]));
                self.at = start + 4;
                return Ok(());
            }
            _ => {
                self.plain();
                return Ok(());
            }
        };
        self.push(one);
        self.at += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The words of a line, with names in angle brackets.
    fn read(text: &str) -> Vec<String> {
        let (words, end) = words(text, 0).unwrap();
        assert!(end <= text.len());
        let part = |part: &RawPart| match part {
            RawPart::Text(text) => text.clone(),
            RawPart::Name { range, or_text } => {
                format!("<{}{}>", &text[range.clone()], if *or_text { "?" } else { "" })
            }
        };
        words.iter().map(|word| word.iter().map(part).collect()).collect()
    }

    #[test]
    fn a_line_is_words_and_names() {
        for (text, wanted) in [
            ("SET a b\nGET a", &["SET", "a", "b"][..]),
            ("  HSET user::id name \"Ann \\\"A\\\" \\x41\"  ", &["HSET", "user:<:id>", "name", "Ann \"A\" A"]),
            ("GET user:id:x:1", &["GET", "user<:id?><:x?>:1"]),
            ("GET :id user\\:id", &["GET", "<:id>", "user:id"]),
            ("EVAL 'return \\'x\\'\n .. KEYS[1]:y' 0", &["EVAL", "return 'x'\n .. KEYS[1]<:y?>", "0"]),
            ("SET k \\\n  v", &["SET", "k", "v"]),
            ("SET k \"\"", &["SET", "k", ""]),
            ("SET käse it's", &["SET", "käse", "it's"]),
        ] {
            assert_eq!(read(text), wanted, "{text}");
        }
    }

    #[test]
    fn what_is_no_line_is_refused_at_its_place() {
        for (text, range, what) in [
            ("SET a \"b", 6..7, "not closed"),
            ("SET 'a'b", 4..7, "blank"),
            ("SET \"\\xzz\"", 5..7, "two digits"),
            ("SET \"\\xff\"", 5..7, "UTF-8"),
        ] {
            let (at, why) = words(text, 0).unwrap_err();
            assert!(at == range && why.contains(what), "{text}: {at:?} {why}");
        }
    }

    #[test]
    fn what_reads_is_told_by_its_name() {
        assert!(only_reads("HGETALL") && only_reads("EVAL_RO"));
        for name in ["SET", "EVAL", "", "G", "GETDEL", "SORT"] {
            assert!(!only_reads(name), "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_within_its_length(text in "[\\PC\n\r\"'\\\\: x]{0,80}") {
            let mut at = 0;
            while let Ok((_, end)) = words(&text, at) {
                prop_assert!(end >= at && text.is_char_boundary(end));
                at = end + 1;
                if at > text.len() {
                    break;
                }
            }
        }

        #[test]
        fn a_line_of_words_is_read_as_those_words(all in prop::collection::vec("[\\PC\n\"'\\\\: ]{0,20}", 1..6)) {
            let parts: Vec<Vec<Part>> = all.iter().map(|word| vec![Part::Text(word.clone())]).collect();
            prop_assert_eq!(read(&line(&parts)), all);
        }
    }
}
