//! The floor of a row: a bare loop that sends the bytes which our client sends, by the same kernel calls, reads the
//! answers, and does nothing else.
//!
//! There is one for every row with a socket, whatever the transport: over a Unix socket or TCP, one operation at a time
//! or a pipeline in one piece, in a closed or an open loop. What ours costs above it is all that is Plimsoll's own:
//! choosing operations, writing and reading the protocol, times, histograms, the observer. What both pay is the kernel.
//!
//! A *tape* is made first: one session of ours is driven for a few operations, and what it sends, and how many bytes it
//! is answered, is taken down. The floor is another process. It logs in with the store's own sessions, puts them away, and
//! plays the tape on all connections: its beginning once, since servers answer at more length what a connection asks for
//! the first time, and the rest again and again, each from another place on. An answer is over when as many bytes have
//! come as on the tape: rows whose answers are not of the same length each time have no floor, and their runs fail.
//!
//! In an open loop it sends at the times of a Poisson process. It sets its timers as ours does, and sleeps until they go
//! off: what ours does to be in time (it wakes up earlier and looks at the clock) is not in the floor.
//!
//! | module | what |
//! |---|---|
//! | `tape` | what is sent and how much is answered |
//! | `epoll`, `uring` | the kernel calls, as `plimsoll_drive`'s reactors make them |

mod epoll;
mod tape;
mod uring;

use std::collections::VecDeque;
use std::error::Error;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use plimsoll_analysis::stat::interval::Dice;
use plimsoll_core::{Address, Answer, Done, OpKind, Outcome, Sessions, Ticket, WireClient, WireSession, WireState};
use plimsoll_drive::{Limit, Wake};
use rustix::thread::set_current_timer_slack;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime, timerfd_create,
    timerfd_settime,
};

use super::client::{self, Told};
use super::commands::Asks;
use tape::{Exchange, Tape};

/// Makes this program the floor of a row.
pub const AS_FLOOR: &str = "as-floor";
/// Ours over the floor, at most.
pub const GOAL: f64 = 1.15;

/// Timers that are set for the next arrivals, and behind them one for what is due by the clock.
const ALARMS: usize = 4;
const TICK: usize = ALARMS;
const TICK_NS: u64 = 10_000_000;
/// How long after the end answers are waited for.
const GRACE_NS: u64 = 1_000_000_000;
/// The grid of coarse wake-ups.
const COARSE_NS: u64 = 1_000_000;

/// A row's floor, with its tape on disk.
pub struct Floor {
    tape: tempfile::NamedTempFile,
    title: String,
}

impl Floor {
    /// Makes the tape of what `asks` says. `None` where nothing is sent.
    pub fn new(asks: &Asks) -> Result<Option<Floor>, Box<dyn Error>> {
        let Some(tape) = Tape::record(asks)? else { return Ok(None) };
        let title = format!(
            "bare loop over {}, {}",
            if tape.is_uring { "io_uring" } else { "epoll" },
            if asks.rate_per_s > 0.0 { "open" } else { "closed" }
        );
        let file = tempfile::NamedTempFile::new()?;
        tape.write(file.path())?;
        Ok(Some(Floor { tape: file, title }))
    }

    /// What it is, in short.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The command that plays the tape for what `asks` says.
    pub fn command(&self, asks: &Asks) -> Result<Command, Box<dyn Error>> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["peers", AS_FLOOR]).arg(self.tape.path()).args(client::words(asks));
        Ok(command)
    }
}

/// Plays a tape, and prints how many operations it was.
pub fn be(words: &[String]) -> Result<(), Box<dyn Error>> {
    let (path, words) = words.split_first().ok_or("a floor is told its tape")?;
    let tape = Tape::read(Path::new(path))?;
    let mut told = Told::new(words)?;
    let Sessions::Wire(clients) = told.sessions(told.clients)? else { return Err("there is no socket".into()) };
    let kinds = told.workload.kinds();
    let sockets =
        clients.into_iter().map(|client| log_in(client, kinds, &tape.first)).collect::<Result<Vec<_>, _>>()?;
    let Limit::Duration(length) = told.spec.limit else { return Err("a floor has a length".into()) };
    let rate_per_s = told.spec.pace.rate().and_then(|rate| rate.constant());
    let is_coarse = told.spec.wake == Wake::Coarse;
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    let (per_op, per_exchange) = (tape.exchanges_per_op(), tape.ops as f64 / tape.exchanges.len() as f64);
    let plays = match tape.is_uring {
        true => Play::new(uring::Uring::new(sockets)?, tape, told.clients).run(length, rate_per_s, is_coarse)?,
        false => Play::new(epoll::Epoll::new(sockets)?, tape, told.clients).run(length, rate_per_s, is_coarse)?,
    };
    debug_assert!(plays % per_op as u64 == 0);
    println!("ops: {}", plays as f64 * per_exchange);
    told.leave();
    Ok(())
}

/// Logs in as the store's session does, puts the session away, and plays what comes first.
fn log_in(client: WireClient, kinds: &[OpKind], first: &[Exchange]) -> Result<OwnedFd, Box<dyn Error>> {
    let WireClient { address, mut session } = client;
    match address {
        Address::Unix(path) => greet(UnixStream::connect(path)?, &mut *session, kinds, first),
        Address::Tcp(host, port) => {
            let stream = TcpStream::connect((host, port))?;
            stream.set_nodelay(true)?;
            greet(stream, &mut *session, kinds, first)
        }
    }
}

fn greet<S: Read + Write + Into<OwnedFd>>(
    mut stream: S,
    session: &mut dyn WireSession,
    kinds: &[OpKind],
    first: &[Exchange],
) -> Result<OwnedFd, Box<dyn Error>> {
    let (mut out, mut arrived, mut piece) = (Vec::new(), Vec::new(), [0; 4096]);
    session.open(kinds, &mut out);
    loop {
        stream.write_all(&out)?;
        out.clear();
        match session.state() {
            WireState::Ready => break,
            WireState::Opening => {}
            WireState::Ended | WireState::Failed(_) => return Err(format!("no session: {:?}", session.state()).into()),
        }
        match stream.read(&mut piece)? {
            0 => return Err("the server closed the connection".into()),
            count => arrived.extend_from_slice(&piece[..count]),
        }
        let used = session.feed(&arrived, &mut out, &mut Nobody);
        arrived.drain(..used);
    }
    for exchange in first {
        stream.write_all(&exchange.sent)?;
        arrived.resize(exchange.answer_bytes, 0);
        stream.read_exact(&mut arrived)?;
    }
    Ok(stream.into())
}

struct Nobody;

impl Done for Nobody {
    fn push(&mut self, _: Ticket, _: Outcome, _: &Answer) {}
}

/// Sockets and timers, by number.
trait Kernel {
    /// Sends, or asks to send with the next wait.
    fn send(&mut self, socket: usize, bytes: &'static [u8]) -> io::Result<()>;

    /// Waits until something came.
    fn wait(&mut self) -> io::Result<()>;

    /// What came, one after the other.
    fn next(&mut self) -> io::Result<Option<Event>>;

    /// [`ALARMS`] and a tick.
    fn timers(&self) -> &[OwnedFd; ALARMS + 1];
}

enum Event {
    Arrived { socket: usize, bytes: usize },
    Timer { timer: usize },
}

fn timers() -> io::Result<[OwnedFd; ALARMS + 1]> {
    let timer = || timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC);
    Ok([timer()?, timer()?, timer()?, timer()?, timer()?])
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Where a connection is on the tape.
#[derive(Clone)]
struct Connection {
    at: usize,
    /// Bytes of the answer that have not come.
    awaited: usize,
}

/// A tape on its way.
struct Play<K> {
    kernel: K,
    tape: &'static [Exchange],
    per_op: usize,
    connections: Vec<Connection>,
    /// Exchanges that are over.
    exchanges: u64,
}

impl<K: Kernel> Play<K> {
    fn new(kernel: K, tape: Tape, connections: u32) -> Play<K> {
        let (per_op, count) = (tape.exchanges_per_op(), connections as usize);
        let begins = |index: usize| index * tape.exchanges.len() / count / per_op * per_op;
        let connections = (0..count).map(|index| Connection { at: begins(index), awaited: 0 }).collect();
        // Read until the process ends.
        Play { kernel, tape: tape.exchanges.leak(), per_op, connections, exchanges: 0 }
    }

    /// The number of exchanges it was.
    fn run(mut self, length: Duration, rate_per_s: Option<f64>, is_coarse: bool) -> Result<u64, Box<dyn Error>> {
        let start_ns = now_ns();
        let end_ns = start_ns + length.as_nanos() as u64;
        match rate_per_s {
            None => self.closed(start_ns, end_ns)?,
            Some(rate_per_s) => self.open(&arrivals(rate_per_s, start_ns, end_ns), is_coarse, end_ns)?,
        }
        // The process ends, and with it all that the kernel was asked.
        std::mem::forget(self.kernel);
        Ok(self.exchanges)
    }

    #[inline]
    fn send(&mut self, index: usize) -> io::Result<()> {
        let connection = &mut self.connections[index];
        let exchange = &self.tape[connection.at];
        connection.awaited = exchange.answer_bytes;
        self.kernel.send(index, &exchange.sent)
    }

    /// True when that was the end of an operation; else what is next has been sent where something is.
    #[inline]
    fn arrived(&mut self, index: usize, bytes: usize) -> Result<bool, Box<dyn Error>> {
        let connection = &mut self.connections[index];
        let Some(awaited) = connection.awaited.checked_sub(bytes) else {
            let Connection { at, awaited } = *connection;
            return Err(format!(
                "answer {at} is longer than on the tape ({bytes} bytes for {awaited}): there is no floor for it"
            )
            .into());
        };
        connection.awaited = awaited;
        if awaited > 0 {
            return Ok(false);
        }
        self.exchanges += 1;
        connection.at += 1;
        if connection.at == self.tape.len() {
            connection.at = 0;
        }
        if connection.at.is_multiple_of(self.per_op) {
            return Ok(true);
        }
        self.send(index)?;
        Ok(false)
    }

    fn set_timer(&self, timer: usize, at_ns: u64, every_ns: u64) {
        let timespec = |ns: u64| Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ };
        let spec = Itimerspec { it_interval: timespec(every_ns), it_value: timespec(at_ns) };
        // It has a valid time and a valid timer: nothing can fail here.
        let _ = timerfd_settime(&self.kernel.timers()[timer], TimerfdTimerFlags::ABSTIME, &spec);
    }

    /// Whether `end_ns` is over; an error when it has been for so long that what is missing will not come.
    fn tick(&self, end_ns: u64) -> Result<bool, &'static str> {
        // Until it is read it ticks no more.
        let _ = rustix::io::read(&self.kernel.timers()[TICK], &mut [0; 8]);
        match now_ns().checked_sub(end_ns) {
            Some(GRACE_NS..) => {
                Err("an answer is shorter than on the tape, or the server is behind: there is no floor")
            }
            after => Ok(after.is_some()),
        }
    }

    /// The next operation of a connection begins when its last one is over.
    fn closed(&mut self, start_ns: u64, end_ns: u64) -> Result<(), Box<dyn Error>> {
        self.set_timer(TICK, start_ns + TICK_NS, TICK_NS);
        (0..self.connections.len()).try_for_each(|index| self.send(index))?;
        let (mut busy, mut is_over) = (self.connections.len(), false);
        while busy > 0 {
            self.kernel.wait()?;
            while let Some(event) = self.kernel.next()? {
                match event {
                    Event::Arrived { socket, bytes } if self.arrived(socket, bytes)? => match is_over {
                        false => self.send(socket)?,
                        true => busy -= 1,
                    },
                    Event::Arrived { .. } => {}
                    Event::Timer { .. } => is_over = self.tick(end_ns)?,
                }
            }
        }
        Ok(())
    }

    /// Operations begin when they are due, on the connection that has been idle for longest.
    fn open(&mut self, due_ns: &[u64], is_coarse: bool, end_ns: u64) -> Result<(), Box<dyn Error>> {
        let mut wakes_ns: Vec<u64> = match is_coarse {
            true => due_ns.iter().map(|at_ns| at_ns.next_multiple_of(COARSE_NS)).collect(),
            false => due_ns.to_vec(),
        };
        wakes_ns.dedup();
        self.set_timer(TICK, end_ns + GRACE_NS, TICK_NS);
        let mut idle: VecDeque<usize> = (0..self.connections.len()).collect();
        let (mut sent, mut set) = (0, 0);
        loop {
            let now_ns = now_ns();
            while sent < due_ns.len()
                && due_ns[sent] <= now_ns
                && let Some(index) = idle.pop_front()
            {
                self.send(index)?;
                sent += 1;
            }
            if sent == due_ns.len() && idle.len() == self.connections.len() {
                return Ok(());
            }
            while set < wakes_ns.len() && (set < ALARMS || wakes_ns[set - ALARMS] <= now_ns) {
                self.set_timer(set % ALARMS, wakes_ns[set], 0);
                set += 1;
            }
            self.kernel.wait()?;
            while let Some(event) = self.kernel.next()? {
                match event {
                    Event::Arrived { socket, bytes } if self.arrived(socket, bytes)? => idle.push_back(socket),
                    Event::Timer { timer: TICK } => {
                        self.tick(end_ns)?;
                    }
                    Event::Arrived { .. } | Event::Timer { .. } => {}
                }
            }
        }
    }
}

/// The times of a Poisson process.
fn arrivals(rate_per_s: f64, start_ns: u64, end_ns: u64) -> Vec<u64> {
    let mut dice = Dice::new(1);
    let mut at_ns = start_ns as f64;
    let mut next = move || {
        // Above 0 and up to 1.
        let share = (dice.below(1 << 53) + 1) as f64 / (1_u64 << 53) as f64;
        at_ns -= share.ln() * 1e9 / rate_per_s;
        at_ns as u64
    };
    std::iter::repeat_with(&mut next).take_while(|at_ns| *at_ns < end_ns).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_come_at_the_rate_and_are_strewn_as_a_poisson_process_is() {
        let all = arrivals(10_000.0, 5_000_000_000, 15_000_000_000);
        assert!((99_000..101_000).contains(&all.len()), "{}", all.len());
        assert!(all.is_sorted() && all[0] >= 5_000_000_000);
        let gaps: Vec<f64> = all.windows(2).map(|two| (two[1] - two[0]) as f64 / 1e5).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((0.97..1.03).contains(&mean) && (0.95..1.05).contains(&variance), "{mean} {variance}");
    }
}
