//! Blocking connection of the control plane, where nothing is measured.

use plimsoll_core::{StoreError, StoreErrorKind, Waits};
use plimsoll_endpoint::{Channel, Connected};

use crate::endpoint::{Endpoint, Login};
use crate::reply::{Node, node};
use crate::wire::Protocol;
use crate::{opening, resp, slots};

/// Messages without a request, after which a server is not taken for Redis.
const UNASKED_MAX: usize = 1_000;

/// A connection whose calls return when they are done. After an error of the connection itself it is of no more use.
pub struct Control {
    channel: Channel,
    waits: Waits,
    login: Login,
    /// Bytes that have arrived and are not used yet.
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
        let (waits, login) = (waits.into(), endpoint.login.clone());
        let mut channel = endpoint.connect(&login.place, &waits)?;
        let mut asked = Default::default();
        channel.write(|out| asked = opening::greeting(&login, Protocol::Resp2, out));
        let mut control = Control { channel, waits, login, input: Vec::new() };
        for asked in asked {
            if let Node::Error(words) = control.reply()? {
                opening::greeted(asked, words.as_bytes(), &control.login)?;
            }
        }
        Ok(control)
    }

    /// Asks one command.
    ///
    /// # Errors
    /// What the server refused, its own words as detail; or `Unreachable`.
    pub fn command(&mut self, words: &[&[u8]]) -> Result<Node, StoreError> {
        match self.ask(words)? {
            Node::Error(text) => Err(self.refused(words.first().copied().unwrap_or_default(), &text)),
            node => Ok(node),
        }
    }

    fn ask(&mut self, words: &[&[u8]]) -> Result<Node, StoreError> {
        self.channel.write(|out| resp::command(out, words));
        self.reply()
    }

    /// Asks several commands at once; what each is answered, errors as [`Node::Error`].
    ///
    /// # Errors
    /// `Unreachable`.
    pub fn commands(&mut self, all: &[Vec<&[u8]>]) -> Result<Vec<Node>, StoreError> {
        self.channel.write(|out| all.iter().for_each(|words| resp::command(out, words)));
        all.iter().map(|_| self.reply()).collect()
    }

    /// Returns the slots of each node.
    ///
    /// # Errors
    /// As [`Control::command`]; `Broken` for a reply of another form.
    pub(crate) fn slots(&mut self) -> Result<Vec<slots::Range>, StoreError> {
        match self.ask(&[b"CLUSTER", b"SLOTS"])? {
            Node::Error(words) => Err(self.refused(b"CLUSTER SLOTS", &words)),
            answer => slots::ranges(&answer).ok_or_else(|| slots::no_answer(&self.login.place)),
        }
    }

    /// Runs a command that takes long on the server.
    ///
    /// # Errors
    /// As [`Control::command`].
    pub fn long_command(&mut self, words: &[&[u8]]) -> Result<Node, StoreError> {
        self.channel.set_works(true);
        let answer = self.command(words);
        self.channel.set_works(false);
        answer
    }

    /// Limits of the wait for the server.
    pub fn waits(&self) -> &Waits {
        &self.waits
    }

    /// Returns the error for a command that the server refused.
    fn refused(&self, command: &[u8], words: &str) -> StoreError {
        let code = words.split(' ').next().unwrap_or_default();
        let is_for_now = matches!(code, "LOADING" | "BUSY" | "MASTERDOWN");
        let is_of_all = matches!(code, "NOAUTH" | "WRONGPASS" | "DENIED" | "MISCONF") || words.contains("DB index");
        if is_for_now || is_of_all {
            return opening::refusal(words.as_bytes(), &self.login);
        }
        let what = format!("{} refused {}", self.login.place, String::from_utf8_lossy(command));
        match code {
            "NOPERM" => StoreError::new(StoreErrorKind::Permission, what).next(opening::ALLOW),
            _ => StoreError::new(StoreErrorKind::Store, what),
        }
        .detail(words)
    }

    fn reply(&mut self) -> Result<Node, StoreError> {
        let mut unasked = 0;
        loop {
            match resp::whole(&self.input) {
                Ok(Some(used)) => {
                    let reply = node(&self.input[..used]);
                    self.input.drain(..used);
                    // What was said unasked is no reply.
                    if let Some(node) = reply {
                        return Ok(node);
                    }
                    unasked += 1;
                    if unasked > UNASKED_MAX {
                        return Err(opening::not_redis(&self.input, &self.login.place));
                    }
                    continue;
                }
                Ok(None) => {}
                Err(resp::Malformed) => return Err(opening::not_redis(&self.input, &self.login.place)),
            }
            let input = &mut self.input;
            self.channel.turn(&mut |bytes, _| {
                input.extend_from_slice(bytes);
                bytes.len()
            })?;
        }
    }
}
