//! What an operation in a pipeline costs the generator: a server in this process that answers what it reads at once,
//! and a protocol with next to no work, so that what is left is the executor's and the kernel's.

use std::error::Error;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::{
    Address, Answer, Call, Done, KindId, Observer, Op, OpKind, Outcome, Sessions, Stream, Ticket, Value, ValueBuf,
    ValueType, WireClient, WireSession, WireState,
};
use plimsoll_drive::{Clock, Drive, DriveSpec, Limit};

use crate::bench_drive::Noting;

const RUNS: usize = 5;
const RUN: Duration = Duration::from_millis(700);
const SESSIONS: u32 = 8;
/// Bytes of a request and of an answer.
const MESSAGE: usize = 8;

/// A number out, the same number back.
struct Echo {
    state: WireState,
    /// Tickets without an answer, oldest at `next`.
    tickets: Box<[Ticket]>,
    next: usize,
    count: usize,
    answer: Answer,
}

impl WireSession for Echo {
    fn open(&mut self, _: &[OpKind], out: &mut Vec<u8>) {
        self.state = WireState::Opening;
        (self.next, self.count) = (0, 0);
        out.extend_from_slice(&[0; MESSAGE]);
    }

    fn state(&self) -> &WireState {
        &self.state
    }

    fn limit_answers(&mut self, _: usize) {}

    fn depth_max(&self) -> u32 {
        self.tickets.len() as u32
    }

    fn start(&mut self, ticket: Ticket, op: &Op<'_>, out: &mut Vec<u8>) {
        let number = if let Value::Int(number) = op.params.get(0) { number } else { 0 };
        let end = self.next + self.count;
        let at = if end < self.tickets.len() { end } else { end - self.tickets.len() };
        self.tickets[at] = ticket;
        self.count += 1;
        out.extend_from_slice(&number.to_le_bytes());
    }

    fn feed(&mut self, bytes: &[u8], _: &mut Vec<u8>, done: &mut dyn Done) -> usize {
        let messages = bytes.chunks_exact(MESSAGE);
        let used = bytes.len() - messages.remainder().len();
        for _ in messages {
            if self.state == WireState::Opening {
                self.state = WireState::Ready;
                continue;
            }
            let ticket = self.tickets[self.next];
            self.next = if self.next + 1 < self.tickets.len() { self.next + 1 } else { 0 };
            self.count -= 1;
            done.push(ticket, Outcome::Ok, &self.answer);
        }
        used
    }

    fn close(&mut self, _: &mut Vec<u8>) {}
}

struct Numbers;

impl Stream for Numbers {
    fn op(&self, client: u32, cycle: u64, params: &mut ValueBuf) -> Option<KindId> {
        params.push(Value::Int((u64::from(client) << 40 | cycle) as i64));
        Some(0)
    }
}

/// Prints CPU time of the worker per operation, by depth.
pub fn run(_: &[String]) -> Result<(), Box<dyn Error>> {
    let place = tempfile::tempdir()?;
    let path = place.path().join("s");
    serve(&path)?;
    let clock = Clock::start();
    println!(
        "CPU time of one worker per operation, {SESSIONS} sessions over a Unix socket, observer on, n = {RUNS} runs of {RUN:?}"
    );
    println!("| depth | median ns/op | least | most | Mop/s |");
    println!("|---|---|---|---|---|");
    for depth in [1, 4, 16, 64] {
        let mut found = Vec::new();
        for _ in 0..RUNS {
            found.push(once(&clock, &path, depth)?);
        }
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (median, rate) = found[RUNS / 2];
        println!("| {depth} | {median:.0} | {:.0} | {:.0} | {:.2} |", found[0].0, found[RUNS - 1].0, rate / 1e6);
    }
    Ok(())
}

/// One run: nanoseconds of the worker's CPU per operation, and operations per second.
fn once(clock: &Clock, path: &Path, depth: u32) -> Result<(f64, f64), Box<dyn Error>> {
    let session = || {
        let tickets = vec![Ticket(0); depth as usize].into_boxed_slice();
        let session = Echo { state: WireState::Opening, tickets, next: 0, count: 0, answer: Answer::default() };
        WireClient { address: Address::Unix(path.to_owned()), session: Box::new(session) }
    };
    let kinds = [OpKind {
        name: "echo".to_owned(),
        call: Call::Nothing,
        params: vec![ValueType::Int],
        keep_answer: false,
        step_of: None,
    }];
    let spec = DriveSpec { limit: Limit::Duration(RUN), depth, ..DriveSpec::default() };
    let drive = Drive {
        clock,
        spec: &spec,
        sessions: Sessions::Wire((0..SESSIONS).map(|_| session()).collect()),
        kinds: &kinds,
        stream: Arc::new(Numbers),
        observers: vec![Box::new(Noting::new(spec.clients(SESSIONS) as usize)) as Box<dyn Observer>],
        stop: Arc::default(),
    };
    let mut cpu_ns = 0;
    let result = drive.run(&mut |slice| cpu_ns += slice.worker_cpu_ns)?;
    let seconds = (result.end_ns - result.start_ns) as f64 / 1e9;
    Ok((cpu_ns as f64 / result.ops as f64, result.ops as f64 / seconds))
}

/// Answers each read with as many bytes, as long as the process lives.
fn serve(path: &Path) -> std::io::Result<()> {
    let listener = UnixListener::bind(path)?;
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let Ok(mut socket) = socket else { return };
            std::thread::spawn(move || {
                let mut bytes = vec![0; 64 * 1024];
                // The end of a connection is the end of its thread.
                while let Ok(count @ 1..) = socket.read(&mut bytes) {
                    if socket.write_all(&bytes[..count]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    Ok(())
}
