//! The bytes of a row's operations, and how long their answers are: taken down from a real session in a short drive.

use std::error::Error;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plimsoll_core::{Done, Op, OpKind, Sessions, Ticket, WireClient, WireSession, WireState};
use plimsoll_drive::{IoUsed, Limit};

use crate::peers::client::{self, Told};
use crate::peers::commands::Asks;

/// Operations of each client that are played again and again.
const OPS: u64 = 64;
/// Those before: servers answer at more length when a connection asks something for the first time.
const FIRST_OPS: u64 = 2;
/// Drives that are tried until one has all its pipelines in whole pieces.
const TRIES: usize = 5;

/// What one session sent and was answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tape {
    /// The drive asked the kernel by io_uring.
    pub is_uring: bool,
    /// Operations in `exchanges`.
    pub ops: u64,
    /// What each connection sends once before.
    pub first: Vec<Exchange>,
    pub exchanges: Vec<Exchange>,
}

/// What was sent before the session waited, and the length of the answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exchange {
    pub sent: Vec<u8>,
    pub answer_bytes: usize,
}

impl Tape {
    /// Drives one session of what `asks` says. `None` where it has no socket.
    pub fn record(asks: &Asks) -> Result<Option<Tape>, Box<dyn Error>> {
        let mut told = Told::new(&client::words(asks))?;
        told.spec.limit = Limit::Ops(FIRST_OPS + OPS);
        for _ in 0..TRIES {
            let Sessions::Wire(clients) = told.sessions(1)? else { return Ok(None) };
            let taken = Arc::new(Mutex::new(Taken::default()));
            let taping = |client: WireClient| WireClient {
                session: Box::new(Taping { session: client.session, taken: taken.clone() }),
                ..client
            };
            let result = told.drive(Sessions::Wire(clients.into_iter().map(taping).collect()))?;
            let mut exchanges = std::mem::take(&mut locked(&taken).exchanges);
            let (ops, count) = (result.ops, exchanges.len() as u64);
            let is_whole =
                if told.spec.depth > 1 { count * u64::from(told.spec.depth) == ops } else { count % ops == 0 };
            if is_whole {
                told.leave();
                let repeated = exchanges.split_off(exchanges.len() * FIRST_OPS as usize / (FIRST_OPS + OPS) as usize);
                return Ok(Some(Tape {
                    is_uring: result.io == Some(IoUsed::Uring),
                    ops: ops * OPS / (FIRST_OPS + OPS),
                    first: exchanges,
                    exchanges: repeated,
                }));
            }
        }
        Err(format!("{} were not answered in whole pieces in {TRIES} drives", asks.op).into())
    }

    /// Exchanges of one operation; 1 where one exchange is several operations.
    pub fn exchanges_per_op(&self) -> usize {
        (self.exchanges.len() / self.ops.max(1) as usize).max(1)
    }

    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        let mut bytes = Vec::new();
        let number = |bytes: &mut Vec<u8>, number: u64| bytes.extend(number.to_le_bytes());
        number(&mut bytes, self.is_uring.into());
        number(&mut bytes, self.ops);
        number(&mut bytes, self.first.len() as u64);
        for exchange in self.first.iter().chain(&self.exchanges) {
            number(&mut bytes, exchange.answer_bytes as u64);
            number(&mut bytes, exchange.sent.len() as u64);
            bytes.extend(&exchange.sent);
        }
        std::fs::write(path, bytes)
    }

    pub fn read(path: &Path) -> Result<Tape, Box<dyn Error>> {
        let bytes = std::fs::read(path)?;
        parse(&bytes).ok_or_else(|| format!("{} is no tape", path.display()).into())
    }
}

fn parse(mut bytes: &[u8]) -> Option<Tape> {
    let bytes = &mut bytes;
    let number = |bytes: &mut &[u8]| {
        let (number, rest) = bytes.split_first_chunk::<8>()?;
        *bytes = rest;
        Some(u64::from_le_bytes(*number))
    };
    let (is_uring, ops, first_count) = (number(bytes)? == 1, number(bytes)?, number(bytes)? as usize);
    let mut first = Vec::new();
    while !bytes.is_empty() {
        let answer_bytes = number(bytes)? as usize;
        let length = number(bytes)? as usize;
        let (sent, rest) = bytes.split_at_checked(length)?;
        *bytes = rest;
        first.push(Exchange { sent: sent.to_vec(), answer_bytes });
    }
    let exchanges = first.split_off(first_count.min(first.len()));
    Some(Tape { is_uring, ops, first, exchanges })
}

#[derive(Default)]
struct Taken {
    exchanges: Vec<Exchange>,
    /// Something was answered: what is sent next begins another exchange.
    is_answered: bool,
}

impl Taken {
    fn sent(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if std::mem::take(&mut self.is_answered) || self.exchanges.is_empty() {
            self.exchanges.push(Exchange::default());
        }
        if let Some(exchange) = self.exchanges.last_mut() {
            exchange.sent.extend_from_slice(bytes);
        }
    }

    fn answered(&mut self, bytes: usize) {
        if let Some(exchange) = self.exchanges.last_mut() {
            exchange.answer_bytes += bytes;
            self.is_answered = true;
        }
    }
}

fn locked(taken: &Mutex<Taken>) -> MutexGuard<'_, Taken> {
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A session that takes down what another one does.
struct Taping {
    session: Box<dyn WireSession>,
    taken: Arc<Mutex<Taken>>,
}

impl WireSession for Taping {
    fn open(&mut self, kinds: &[OpKind], out: &mut Vec<u8>) {
        self.session.open(kinds, out);
    }

    fn state(&self) -> &WireState {
        self.session.state()
    }

    fn limit_answers(&mut self, bytes_max: usize) {
        self.session.limit_answers(bytes_max);
    }

    fn depth_max(&self) -> u32 {
        self.session.depth_max()
    }

    fn start(&mut self, ticket: Ticket, op: &Op<'_>, out: &mut Vec<u8>) {
        let before = out.len();
        self.session.start(ticket, op, out);
        locked(&self.taken).sent(&out[before..]);
    }

    fn flush(&mut self, out: &mut Vec<u8>) {
        let before = out.len();
        self.session.flush(out);
        locked(&self.taken).sent(&out[before..]);
    }

    fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>, done: &mut dyn Done) -> usize {
        let before = out.len();
        let used = self.session.feed(bytes, out, done);
        let mut taken = locked(&self.taken);
        // What comes before anything is asked is the greeting.
        if !taken.exchanges.is_empty() {
            taken.answered(used);
            taken.sent(&out[before..]);
        }
        used
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        self.session.close(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tape_is_read_as_it_was_written() {
        let exchange = |sent: &[u8], answer_bytes| Exchange { sent: sent.to_vec(), answer_bytes };
        let exchanges = vec![exchange(b"BEGIN", 7), exchange(&[0, 255], 70_000), exchange(b"COMMIT", 8)];
        let tape = Tape { is_uring: true, ops: 1, first: vec![exchange(b"PARSE", 90)], exchanges };
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("tape");
        tape.write(&path).unwrap();
        assert_eq!(Tape::read(&path).unwrap(), tape);
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        assert!(Tape::read(&path).is_err(), "a tape without its end is none");
    }

    #[test]
    fn what_is_sent_after_an_answer_is_another_exchange() {
        let mut taken = Taken::default();
        taken.sent(b"BIND");
        taken.sent(b"SYNC");
        taken.answered(3);
        taken.answered(4);
        taken.sent(b"");
        taken.sent(b"BIND");
        let found: Vec<_> = taken.exchanges.iter().map(|it| (&*it.sent, it.answer_bytes)).collect();
        assert_eq!(found, [(&b"BINDSYNC"[..], 7), (&b"BIND"[..], 0)]);
    }
}
