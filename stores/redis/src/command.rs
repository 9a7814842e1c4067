//! Commands of the user's own: their requests, and what of them can be known to be wrong before they are asked.

use std::io::Write;

use plimsoll_core::command::{self, Part, RawPart};
use plimsoll_core::{StoreError, StoreErrorKind, Value, Values};

use crate::reply::Node;
use crate::resp::{decimal, string};

/// Commands after which a connection would not answer each request by one reply, or would be another user's or database's.
const REFUSED: [&str; 20] = [
    "AUTH",
    "FAILOVER",
    "HELLO",
    "MONITOR",
    "PSUBSCRIBE",
    "PSYNC",
    "PUNSUBSCRIBE",
    "QUIT",
    "REPLICAOF",
    "RESET",
    "SELECT",
    "SHUTDOWN",
    "SLAVEOF",
    "SSUBSCRIBE",
    "SUBSCRIBE",
    "SUNSUBSCRIBE",
    "SWAPDB",
    "SYNC",
    "UNSUBSCRIBE",
    "REPLCONF",
];

/// A command, ready to be asked. By default none.
#[derive(Debug, Default)]
pub(crate) struct Command {
    name: String,
    /// The operation's name, for messages.
    kind: String,
    count: usize,
    pieces: Vec<Piece>,
}

#[derive(Debug)]
enum Piece {
    /// Bytes of the request.
    Bytes(Vec<u8>),
    /// A word that parameters are part of.
    Word(Vec<Part>),
}

impl Command {
    /// The command of `words`, of the operation `kind`.
    ///
    /// # Errors
    /// `Usage`: there is no word, or it is one of those that a connection is not for.
    pub(crate) fn new(kind: &str, words: &[Vec<Part>]) -> Result<Self, StoreError> {
        let name = command::name(words);
        if name.is_empty() {
            return Err(StoreError::usage(format!("operation `{kind}` names no command")));
        }
        if REFUSED.contains(&name.as_str()) {
            let what =
                format!("operation `{kind}`: {name} changes what a connection is, and each has to answer by one reply");
            return Err(StoreError::usage(what).next("Leave it out; user and database stand in the URL."));
        }
        let second: String = words.get(1).into_iter().flatten().filter_map(text_of).collect();
        if name == "CLIENT" && second.eq_ignore_ascii_case("reply") {
            let what =
                format!("operation `{kind}`: CLIENT REPLY has the server answer otherwise than by one reply each");
            return Err(StoreError::usage(what).next("Leave it out."));
        }
        let mut pieces = Vec::new();
        let mut bytes = Vec::new();
        bytes.push(b'*');
        decimal(&mut bytes, words.len() as u64);
        bytes.extend_from_slice(b"\r\n");
        for word in words {
            if word.contains(&Part::Param) {
                pieces.push(Piece::Bytes(std::mem::take(&mut bytes)));
                pieces.push(Piece::Word(word.clone()));
                continue;
            }
            let text: String = word.iter().filter_map(text_of).collect();
            string(&mut bytes, text.as_bytes());
        }
        pieces.push(Piece::Bytes(bytes));
        Ok(Self { name, kind: kind.to_owned(), count: words.len(), pieces })
    }

    /// Returns the command's name in upper case, or an empty string for no command.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Appends the request with `params`; `word` is memory for one.
    pub(crate) fn write(&self, params: Values<'_>, word: &mut Vec<u8>, out: &mut Vec<u8>) {
        let mut params = params.iter();
        for piece in &self.pieces {
            match piece {
                Piece::Bytes(bytes) => out.extend_from_slice(bytes),
                Piece::Word(parts) => {
                    word.clear();
                    for part in parts {
                        match part {
                            Part::Text(text) => word.extend_from_slice(text.as_bytes()),
                            Part::Param => value(word, params.next().unwrap_or(Value::Null)),
                        }
                    }
                    string(out, word);
                }
            }
        }
    }

    /// Holds it against what COMMAND INFO says of it.
    ///
    /// # Errors
    /// `Usage`: the server does not know it, or it takes more words or fewer.
    pub(crate) fn must_be(&self, known: &Node, place: &str) -> Result<(), StoreError> {
        let Self { name, kind, count, .. } = self;
        let arity = match (known, known.list()) {
            (Node::Null, _) => {
                let what = format!("operation `{kind}`: {place} knows no command {name}");
                return Err(StoreError::usage(what).next("Look at its spelling, and at the server's version."));
            }
            (_, [_, Node::Int(arity), ..]) => *arity,
            _ => return Ok(()),
        };
        let needed = usize::try_from(arity.unsigned_abs()).unwrap_or(usize::MAX);
        if *count == needed || arity < 0 && *count > needed {
            return Ok(());
        }
        let least = if arity < 0 { "at least " } else { "" };
        let what =
            format!("operation `{kind}`: {name} takes {least}{needed} words with its name, and here are {count}");
        Err(StoreError::usage(what))
    }
}

/// Returns the error for a command that clusters do not support.
pub(crate) fn not_in_cluster() -> StoreError {
    let what = "a cluster takes no commands of your own: which of their words are keys, and so which node they are for, is not known";
    StoreError::new(StoreErrorKind::Usage, what).next("Use the workload `kv`, or a server that is no cluster's.")
}

pub(crate) fn setup_words(line: &str) -> Vec<String> {
    let words = command::words(line, 0).map(|(words, _)| words).unwrap_or_default();
    let part = |part: RawPart| match part {
        RawPart::Text(text) => text,
        RawPart::Name { range, .. } => line.get(range).unwrap_or_default().to_owned(),
    };
    words.into_iter().map(|word| word.into_iter().map(part).collect()).collect()
}

fn text_of(part: &Part) -> Option<&str> {
    match part {
        Part::Text(text) => Some(text),
        Part::Param => None,
    }
}

/// Appends a variable's value as text: a null is empty.
fn value(word: &mut Vec<u8>, value: Value<'_>) {
    // Writing to a vector cannot fail.
    let _ = match value {
        Value::Float(number) => write!(word, "{number}"),
        Value::Bool(is) => write!(word, "{is}"),
        Value::Timestamp(us) => write!(word, "{us}"),
        other => {
            other.with_bytes(|bytes| word.extend_from_slice(bytes));
            Ok(())
        }
    };
}

#[cfg(test)]
mod tests {
    use plimsoll_core::ValueBuf;
    use proptest::prelude::*;

    use super::*;

    fn text(text: &str) -> Part {
        Part::Text(text.to_owned())
    }

    #[test]
    fn values_stand_where_their_parameters_stand() {
        let words = [vec![text("hset")], vec![text("u:"), Part::Param], vec![text("n")], vec![Part::Param]];
        let command = Command::new("own", &words).unwrap();
        assert_eq!(command.name(), "HSET");
        let mut params = ValueBuf::new();
        params.push(Value::Int(17));
        params.push(Value::Float(0.5));
        let mut out = Vec::new();
        command.write(params.values(), &mut Vec::new(), &mut out);
        assert_eq!(out, b"*4\r\n$4\r\nhset\r\n$4\r\nu:17\r\n$1\r\nn\r\n$3\r\n0.5\r\n", "{}", out.escape_ascii());
    }

    #[test]
    fn what_no_connection_is_for_is_refused() {
        for name in ["subscribe", "SELECT", "Monitor"] {
            let error = Command::new("own", &[vec![text(name)], vec![text("1")]]).unwrap_err();
            assert!(error.what.contains("changes what a connection is"), "{error}");
        }
        assert!(Command::new("own", &[vec![Part::Param]]).is_err());
    }

    #[test]
    fn what_the_server_says_of_a_command_is_believed() {
        let get = Command::new("own", &[vec![text("GET")], vec![text("k")]]).unwrap();
        let info = |arity| Node::List(vec![Node::Text(b"get".to_vec()), Node::Int(arity)]);
        for arity in [2, -1, -2] {
            get.must_be(&info(arity), "here").unwrap();
        }
        assert!(
            get.must_be(&info(3), "here").unwrap_err().what.contains("takes 3 words with its name, and here are 2")
        );
        assert!(get.must_be(&info(-3), "here").unwrap_err().what.contains("at least 3 words"));
        assert!(get.must_be(&Node::Null, "here").unwrap_err().what.contains("here knows no command GET"));
        get.must_be(&Node::Int(1), "here").unwrap();
    }

    proptest! {
        #[test]
        fn a_request_is_one_array_of_its_words(all in prop::collection::vec(("\\PC{0,9}", any::<Option<i64>>()), 1..6)) {
            let mut words = vec![vec![text("SET")]];
            let mut params = ValueBuf::new();
            let mut wanted = vec!["SET".to_owned()];
            for (begin, number) in &all {
                let mut word = vec![text(begin)];
                let mut whole = begin.clone();
                if let Some(number) = number {
                    word.push(Part::Param);
                    params.push(Value::Int(*number));
                    whole.push_str(&number.to_string());
                }
                words.push(word);
                wanted.push(whole);
            }
            let mut out = Vec::new();
            Command::new("own", &words).unwrap().write(params.values(), &mut Vec::new(), &mut out);
            let mut other = Vec::new();
            crate::resp::command(&mut other, &wanted.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
            prop_assert_eq!(out, other);
        }
    }
}
