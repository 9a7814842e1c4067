//! One connection that waits for its answers: for the control plane, where nothing is measured.

use plimsoll_core::{StoreError, StoreErrorKind, Waits};
use plimsoll_endpoint::{Channel, Connected};

use crate::endpoint::{Endpoint, Login};
use crate::resp::{self, Aggregate, Reply, Token};
use crate::slots;
use crate::wire::{self, CLIENT_NAME};

/// A reply that owns what it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// A string or a status.
    Text(Vec<u8>),
    /// An integer.
    Int(i64),
    /// Nothing.
    Null,
    /// An array, a set, or a map's keys and values in turn.
    List(Vec<Node>),
    /// An error within an array.
    Error(String),
}

impl Node {
    /// As text; empty when it is none.
    pub fn text(&self) -> String {
        match self {
            Node::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Node::Int(number) => number.to_string(),
            Node::Error(words) => words.clone(),
            Node::Null | Node::List(_) => String::new(),
        }
    }

    /// The elements of a list; none when it is no list.
    pub fn list(&self) -> &[Node] {
        match self {
            Node::List(all) => all,
            _ => &[],
        }
    }
}

/// A connection whose calls return when they are done. After an error of the connection itself it is of no more use.
pub struct Control {
    channel: Channel,
    waits: Waits,
    login: Login,
    /// What arrived and has not been used yet.
    input: Vec<u8>,
}

impl Connected for Control {
    fn is_alive(&mut self) -> bool {
        !self.channel.has_news()
    }
}

impl Control {
    /// Connects and logs in. `waits` say how long every answer may take.
    ///
    /// # Errors
    /// `Unreachable`, `Authentication`, `Permission`, `Interrupted`, or as the server says.
    pub fn open(endpoint: &Endpoint, waits: impl Into<Waits>) -> Result<Self, StoreError> {
        let waits = waits.into();
        let channel = endpoint.connect(&endpoint.login.place, &waits)?;
        let mut control = Control { channel, waits, login: endpoint.login.clone(), input: Vec::new() };
        let mut out = Vec::new();
        let asks = wire::authenticate(&control.login, &mut out);
        if asks {
            control.send(&out);
            control.greeted()?;
        }
        match control.command(&[b"CLIENT", b"SETNAME", CLIENT_NAME]) {
            Err(error) if error.detail.as_deref().is_some_and(|words| words.starts_with("NOPERM")) => {}
            other => drop(other?),
        }
        if control.login.database != 0 {
            let database = control.login.database.to_string();
            control.command(&[b"SELECT", database.as_bytes()])?;
        }
        Ok(control)
    }

    /// Asks one command.
    ///
    /// # Errors
    /// What the server refused, its own words as detail; or `Unreachable`.
    pub fn command(&mut self, words: &[&[u8]]) -> Result<Node, StoreError> {
        let mut out = Vec::new();
        resp::command(&mut out, words);
        self.send(&out);
        match self.reply()? {
            Node::Error(text) => Err(self.refused(words.first().copied().unwrap_or_default(), &text)),
            node => Ok(node),
        }
    }

    /// Asks several commands at once; what each is answered, errors as [`Node::Error`].
    ///
    /// # Errors
    /// `Unreachable`.
    pub fn commands(&mut self, all: &[Vec<&[u8]>]) -> Result<Vec<Node>, StoreError> {
        let mut out = Vec::new();
        all.iter().for_each(|words| resp::command(&mut out, words));
        self.send(&out);
        all.iter().map(|_| self.reply()).collect()
    }

    /// Which node has which slots.
    ///
    /// # Errors
    /// As [`Control::command`]; `Broken` when it is no answer.
    pub(crate) fn slots(&mut self) -> Result<Vec<slots::Range>, StoreError> {
        let mut out = Vec::new();
        resp::command(&mut out, &[b"CLUSTER", b"SLOTS"]);
        self.send(&out);
        let bytes = self.raw_reply()?;
        if let Some(ranges) = slots::parse(&bytes) {
            return Ok(ranges);
        }
        match node(&bytes, &mut 0) {
            Some(Node::Error(words)) => Err(self.refused(b"CLUSTER SLOTS", &words)),
            _ => {
                let what = format!("{} answered CLUSTER SLOTS with what is no answer to it", self.login.place);
                Err(StoreError::new(StoreErrorKind::Broken, what))
            }
        }
    }

    /// The same for a command that has much to do.
    ///
    /// # Errors
    /// As [`Control::command`].
    pub fn long_command(&mut self, words: &[&[u8]]) -> Result<Node, StoreError> {
        self.channel.set_works(true);
        let answer = self.command(words);
        self.channel.set_works(false);
        answer
    }

    /// How long it is waited for.
    pub fn waits(&self) -> &Waits {
        &self.waits
    }

    fn greeted(&mut self) -> Result<(), StoreError> {
        match self.reply()? {
            Node::Error(words) => Err(wire::refusal(words.as_bytes(), &self.login)),
            _ => Ok(()),
        }
    }

    /// What the server said no to.
    fn refused(&self, command: &[u8], words: &str) -> StoreError {
        let code = words.split(' ').next().unwrap_or_default();
        if matches!(code, "NOAUTH" | "WRONGPASS" | "DENIED" | "LOADING") || words.contains("DB index") {
            return wire::refusal(words.as_bytes(), &self.login);
        }
        let kind = if code == "NOPERM" { StoreErrorKind::Permission } else { StoreErrorKind::Store };
        let command = String::from_utf8_lossy(command);
        StoreError::new(kind, format!("{} refused {command}", self.login.place)).detail(words)
    }

    fn send(&mut self, bytes: &[u8]) {
        self.channel.write(|out| out.extend_from_slice(bytes));
    }

    fn reply(&mut self) -> Result<Node, StoreError> {
        loop {
            // What was said unasked is no reply.
            if let Some(node) = node(&self.raw_reply()?, &mut 0) {
                return Ok(node);
            }
        }
    }

    fn raw_reply(&mut self) -> Result<Vec<u8>, StoreError> {
        loop {
            match resp::whole(&self.input) {
                Ok(Some(used)) => return Ok(self.input.drain(..used).collect()),
                Ok(None) => {}
                Err(resp::Malformed) => {
                    let begin: String = self.input.escape_ascii().take(64).map(char::from).collect();
                    let what = format!("{} answered what no Redis server answers", self.login.place);
                    return Err(StoreError::new(StoreErrorKind::Broken, what)
                        .detail(format!("it began with `{begin}`"))
                        .next("Check host and port."));
                }
            }
            let input = &mut self.input;
            self.channel.turn(&mut |bytes, _| {
                input.extend_from_slice(bytes);
                bytes.len()
            })?;
        }
    }
}

/// The reply at `at`, which is all there; `None` for what was said unasked. Deep nesting is cut off.
fn node(bytes: &[u8], at: &mut usize) -> Option<Node> {
    fn inner(bytes: &[u8], at: &mut usize, depth: u32) -> Option<Node> {
        loop {
            match resp::token(bytes.get(*at..)?) {
                Token::Reply(reply, used) => {
                    *at += used;
                    return Some(match reply {
                        Reply::Bulk(bytes) | Reply::Simple(bytes) => Node::Text(bytes.to_vec()),
                        Reply::Null => Node::Null,
                        Reply::Int(number) => Node::Int(number),
                        Reply::Error(words) => Node::Error(String::from_utf8_lossy(words).into_owned()),
                    });
                }
                Token::Aggregate(_, _, _) if depth == 0 => return None,
                Token::Aggregate(sort, elements, used) => {
                    *at += used;
                    let all = (0..elements).map_while(|_| inner(bytes, at, depth - 1)).collect();
                    match sort {
                        Aggregate::Push => return None,
                        Aggregate::Attributes => {}
                        Aggregate::List | Aggregate::Map => return Some(Node::List(all)),
                    }
                }
                _ => return None,
            }
        }
    }
    inner(bytes, at, 16)
}
