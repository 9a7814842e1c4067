//! The truth that exactness is held against: a server that stamps every request and every answer itself, and a thread
//! with nothing to do that sees how late this machine wakes anybody up, and how long others had to wait for a processor.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use plimsoll_core::{Address, Sessions};
use rustix::event::epoll;
use rustix::thread::{CpuSet, clock_nanosleep_absolute, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, Timespec};

use crate::seen::monotonic_ns;
use crate::tasks::shaped;
use crate::toy::client;

/// Treatment of a request.
#[derive(Debug, Clone, Copy)]
pub enum Deed {
    /// Answered this many nanoseconds after it was read.
    AnswerAfter(u64),
    /// The connection is closed at once.
    HangUp,
    /// Leaves this request and all later ones on this connection unanswered: it is half open.
    Silence,
}

/// A request, on CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy)]
pub struct Stamp {
    /// Time at which its last byte was read.
    pub received_ns: u64,
    /// Time at which its answer had been written; 0 without one.
    pub sent_ns: u64,
}

/// Behaviour of a server beside its script.
#[derive(Debug, Clone, Copy, Default)]
pub struct Manner {
    /// Does nothing at all from so long after its first request, for so long.
    pub stall: Option<(Duration, Duration)>,
    /// Waits for so long after each read of 64 KiB.
    pub read_pause: Option<Duration>,
}

/// The script: by the connection's number, the request's number within it, and the request's number in all.
pub type Script = Box<dyn Fn(u64, u64, u64) -> Deed + Send>;

/// A server for all connections on one thread, with a queue of answers that are due.
pub struct StampingServer {
    /// Threads whose waiting for a processor the witness observes: the server's own thread, and those that join.
    pub threads: Threads,
    path: std::path::PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<HashMap<i64, Stamp>>>,
    _place: tempfile::TempDir,
}

impl StampingServer {
    pub fn start(manner: Manner, script: impl Fn(u64, u64, u64) -> Deed + Send + 'static) -> Self {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let mut desk = Desk::new(listener, manner, Box::new(script));
        let threads = Threads::default();
        let thread = std::thread::spawn({
            let (stop, threads) = (stop.clone(), threads.clone());
            move || {
                threads.join();
                let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
                while !stop.load(SeqCst) {
                    desk.turn();
                }
                desk.stamps
            }
        });
        Self { threads, path, stop, thread: Some(thread), _place: place }
    }

    pub fn clients(&self, count: usize, ballast: usize) -> Sessions {
        shaped((0..count).map(|_| client(Address::Unix(self.path.clone()), ballast)))
    }

    /// Ends it. Returns the requests by what they asked.
    pub fn finish(mut self) -> HashMap<i64, Stamp> {
        self.stop.store(true, SeqCst);
        self.thread.take().unwrap().join().unwrap()
    }
}

struct Desk {
    epoll: rustix::fd::OwnedFd,
    listener: UnixListener,
    connections: Vec<Option<Connection>>,
    /// Due answers: when, to whom, and what.
    due: BinaryHeap<Reverse<(u64, usize, i64, u64)>>,
    requests: u64,
    stalls_at_ns: Option<u64>,
    manner: Manner,
    script: Script,
    buffer: Vec<u8>,
    stamps: HashMap<i64, Stamp>,
}

struct Connection {
    socket: UnixStream,
    bytes: Vec<u8>,
    greeted: bool,
    requests: u64,
    silent: bool,
}

const LISTENER: u64 = u64::MAX;

impl Desk {
    fn new(listener: UnixListener, manner: Manner, script: Script) -> Self {
        listener.set_nonblocking(true).unwrap();
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        epoll::add(&epoll, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN).unwrap();
        Self {
            epoll,
            listener,
            connections: Vec::new(),
            due: BinaryHeap::new(),
            requests: 0,
            stalls_at_ns: None,
            manner,
            script,
            buffer: vec![0; 64 * 1024],
            stamps: HashMap::with_capacity(1 << 16),
        }
    }

    fn turn(&mut self) {
        let now_ns = monotonic_ns();
        // Often enough to see that it is to stop.
        let next_ns = self.due.peek().map_or(u64::MAX, |Reverse(due)| due.0).min(now_ns + 20_000_000);
        let wait_ns = next_ns.saturating_sub(now_ns);
        let timeout = Timespec { tv_sec: 0, tv_nsec: wait_ns as _ };
        let mut events = Vec::with_capacity(64);
        let buffer = rustix::buffer::spare_capacity(&mut events);
        match epoll::wait(&self.epoll, buffer, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => panic!("{errno}"),
        }
        if let (Some(at_ns), Some((_, length))) = (self.stalls_at_ns, self.manner.stall)
            && monotonic_ns() >= at_ns
        {
            std::thread::sleep(length);
            self.manner.stall = None;
        }
        self.answer_due();
        for event in events {
            match event.data.u64() {
                LISTENER => self.accept(),
                number => self.read(number as usize),
            }
            self.answer_due();
        }
    }

    fn accept(&mut self) {
        while let Ok((socket, _)) = self.listener.accept() {
            socket.set_nonblocking(true).unwrap();
            let number = self.connections.len();
            epoll::add(&self.epoll, &socket, epoll::EventData::new_u64(number as u64), epoll::EventFlags::IN).unwrap();
            let connection = Connection { socket, bytes: Vec::new(), greeted: false, requests: 0, silent: false };
            self.connections.push(Some(connection));
        }
    }

    fn read(&mut self, number: usize) {
        let Some(connection) = &mut self.connections[number] else { return };
        let count = match connection.socket.read(&mut self.buffer) {
            Ok(0) => return self.connections[number] = None,
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(_) => return self.connections[number] = None,
        };
        let received_ns = monotonic_ns();
        if let Some(pause) = self.manner.read_pause {
            std::thread::sleep(pause);
        }
        connection.bytes.extend_from_slice(&self.buffer[..count]);
        if !connection.greeted && connection.bytes.len() >= 5 {
            connection.bytes.drain(..5);
            connection.greeted = true;
            connection.socket.write_all(b"READY").unwrap();
        }
        while let Some(connection) = &mut self.connections[number]
            && connection.bytes.len() >= 4
        {
            let length = u32::from_le_bytes(connection.bytes[..4].try_into().unwrap()) as usize;
            if length == 0 || connection.bytes.len() < 4 + length {
                return;
            }
            let asked = i64::from_le_bytes(connection.bytes[4..12].try_into().unwrap());
            let sum = connection.bytes[4..4 + length].iter().map(|&byte| u64::from(byte)).sum();
            connection.bytes.drain(..4 + length);
            connection.requests += 1;
            let within = connection.requests - 1;
            self.take(number, within, asked, sum, received_ns);
        }
    }

    fn take(&mut self, number: usize, within: u64, asked: i64, sum: u64, received_ns: u64) {
        if self.requests == 0 {
            self.stalls_at_ns = self.manner.stall.map(|(after, _)| received_ns + after.as_nanos() as u64);
        }
        self.requests += 1;
        self.stamps.insert(asked, Stamp { received_ns, sent_ns: 0 });
        let Some(connection) = &mut self.connections[number] else { return };
        if connection.silent {
            return;
        }
        match (self.script)(number as u64, within, self.requests - 1) {
            Deed::AnswerAfter(after_ns) => self.due.push(Reverse((received_ns + after_ns, number, asked, sum))),
            Deed::HangUp => self.connections[number] = None,
            Deed::Silence => connection.silent = true,
        }
    }

    fn answer_due(&mut self) {
        while let Some(&Reverse((at_ns, number, asked, sum))) = self.due.peek()
            && at_ns <= monotonic_ns()
        {
            self.due.pop();
            let Some(connection) = &mut self.connections[number] else { continue };
            let mut answer = [0; 16];
            answer[..8].copy_from_slice(&asked.to_le_bytes());
            answer[8..].copy_from_slice(&sum.to_le_bytes());
            // Stamped before: once it is written, the other side may run first.
            let sent_ns = monotonic_ns();
            if connection.socket.write_all(&answer).is_ok() {
                self.stamps.get_mut(&asked).unwrap().sent_ns = sent_ns;
            }
        }
    }
}

/// Threads by their numbers.
#[derive(Clone, Default)]
pub struct Threads(Arc<Mutex<Vec<i32>>>);

impl Threads {
    /// Adds the thread that calls.
    pub fn join(&self) {
        self.0.lock().unwrap().push(rustix::thread::gettid().as_raw_nonzero().get());
    }
}

/// Idle threads that are sent a few bytes over a socket a thousand times a second: their delay is the delay of any
/// answer on this machine. A further thread reads the time that the threads at work have waited for a processor: a
/// working thread waits where a sleeping one does not.
pub struct Witness {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<u64>>>,
    waited: JoinHandle<Vec<(u64, u64)>>,
}

/// Observations of the witness.
pub struct Saw {
    /// Times from sending to receiving, in ascending order.
    pub late_ns: Vec<u64>,
    /// Time on CLOCK_MONOTONIC, and the total waiting time of the threads at work by then.
    waited: Vec<(u64, u64)>,
}

const TICK_NS: u64 = 1_000_000;
/// A tick that is later than this shows that the machine stood, and its delay counts from when it was due.
const STOOD_NS: u64 = 100_000;
/// Waiting time between two looks on an idle machine.
const USUAL_WAIT_NS: u64 = 100_000;

impl Witness {
    pub fn start(at_work: &Threads) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let ticking = |mut each: Box<dyn FnMut(u64) + Send>| {
            let stop = stop.clone();
            move || {
                let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
                let mut at_ns = monotonic_ns() + TICK_NS;
                while !stop.load(SeqCst) {
                    let at = Timespec { tv_sec: (at_ns / 1_000_000_000) as i64, tv_nsec: (at_ns % 1_000_000_000) as _ };
                    let _ = clock_nanosleep_absolute(ClockId::Monotonic, &at);
                    each(at_ns);
                    // After a while of not running, all ticks in it are late: none is left out.
                    at_ns += TICK_NS;
                }
                drop(each);
            }
        };
        let allowed = sched_getaffinity(None).unwrap();
        let processors: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&number| allowed.is_set(number)).take(2).collect();
        // To each of two processors from the other: a processor that sleeps takes longer to be woken up.
        let threads = processors.iter().zip(processors.iter().rev()).map(|(&sender, &receiver)| {
            let (mut to, mut from) = UnixStream::pair().unwrap();
            let tick = ticking(Box::new(move |at_ns| {
                let now_ns = monotonic_ns();
                let since_ns = if now_ns > at_ns + STOOD_NS { at_ns } else { now_ns };
                to.write_all(&since_ns.to_ne_bytes()).unwrap();
            }));
            std::thread::spawn(move || {
                bind_to(sender);
                tick();
            });
            std::thread::spawn(move || {
                bind_to(receiver);
                let (mut late_ns, mut since) = (Vec::new(), [0; 8]);
                while from.read_exact(&mut since).is_ok() {
                    late_ns.push(monotonic_ns().saturating_sub(u64::from_ne_bytes(since)));
                }
                late_ns
            })
        });
        let threads = threads.collect();
        let (send, receive) = std::sync::mpsc::channel();
        let at_work = at_work.clone();
        let mut files: Vec<Option<File>> = Vec::new();
        let tick = ticking(Box::new(move |_| {
            let known = files.len();
            let new = at_work.0.lock().unwrap()[known..].to_vec();
            // One that has ended already has nothing more to wait for.
            files.extend(new.iter().map(|thread| File::open(format!("/proc/self/task/{thread}/schedstat")).ok()));
            let waited_ns = files.iter().flatten().map(waited_ns).sum::<u64>();
            send.send((monotonic_ns(), waited_ns)).unwrap();
        }));
        let waited = std::thread::spawn(move || {
            tick();
            receive.into_iter().collect()
        });
        Self { stop, threads, waited }
    }

    pub fn finish(self) -> Saw {
        self.stop.store(true, SeqCst);
        let mut late_ns: Vec<u64> = self.threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        late_ns.sort_unstable();
        let mut waited = self.waited.join().unwrap();
        // A thread that has ended takes its time with it.
        let mut most_ns = 0;
        for (_, waited_ns) in &mut waited {
            most_ns = most_ns.max(*waited_ns);
            *waited_ns = most_ns;
        }
        Saw { late_ns, waited }
    }
}

/// Binds the calling thread to a processor.
fn bind_to(processor: usize) {
    let mut only = CpuSet::new();
    only.set(processor);
    sched_setaffinity(None, &only).unwrap();
}

/// Returns the time that a thread has been ready to run without running: the second number of its schedstat. 0 once it
/// has ended.
fn waited_ns(file: &File) -> u64 {
    let mut text = [0; 96];
    let length = file.read_at(&mut text, 0).unwrap_or(0);
    let text = std::str::from_utf8(&text[..length]).unwrap();
    text.split(' ').nth(1).map_or(0, |number| number.parse().unwrap())
}

impl Saw {
    /// Returns the delay, compared with an idle machine, that was possible between these two times: the threads waited
    /// for a processor, and had later arrivals to process afterwards.
    pub fn held_up_ns(&self, from_ns: u64, to_ns: u64) -> u64 {
        let before = self.waited.partition_point(|(at_ns, _)| *at_ns <= from_ns).saturating_sub(1);
        let after = self.waited.partition_point(|(at_ns, _)| *at_ns < to_ns);
        let waited = |at: usize| self.waited.get(at).or(self.waited.last()).map_or(0, |(_, waited_ns)| *waited_ns);
        2 * (waited(after) - waited(before)).saturating_sub(USUAL_WAIT_NS)
    }

    /// The latest tick.
    pub fn latest_ns(&self) -> u64 {
        quantile(&self.late_ns, 1.0)
    }
}

/// The value below which this share of sorted values lies.
pub fn quantile(sorted: &[u64], share: f64) -> u64 {
    let rank = (share * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted[rank.min(sorted.len()) - 1]
}
