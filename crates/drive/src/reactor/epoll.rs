//! The backend over level-triggered epoll, which every Linux has that Plimsoll runs on.

use std::os::fd::OwnedFd;

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown, sockopt};

use super::{ALARMS, Event, READ_BYTES, Reactor, Timers, send_last, take_tick, timespec};

const EVENTS: usize = 64;
/// Value in place of a session's number, for the timer.
const TIMER: u64 = u64::MAX;
/// The first alarm stands for itself so, and the others below it.
const ALARM: u64 = u64::MAX - 1;
const LAST_ALARM: u64 = ALARM + 1 - ALARMS as u64;

/// See the module.
pub(crate) struct Epoll {
    epoll: OwnedFd,
    timers: Timers,
    connections: Vec<Connection>,
    events: Vec<epoll::Event>,
    /// The event that is looked at next.
    position: usize,
    /// Room for writing was handed out for it already.
    had_room: bool,
    read: Box<[u8]>,
    read_len: usize,
}

/// A slot's connection.
#[derive(Debug, Default)]
struct Connection {
    socket: Option<OwnedFd>,
    /// Connections of this slot so far: an event of an earlier one is not this one's.
    generation: u32,
    connecting: bool,
    /// The socket is watched for room to write.
    wants_write: bool,
    /// Bytes at the front of what is to be sent that are with the kernel.
    sent: usize,
}

impl Epoll {
    pub fn new(slots: usize) -> std::io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timers = Timers::new()?;
        epoll::add(&epoll, &timers.clock, epoll::EventData::new_u64(TIMER), epoll::EventFlags::IN)?;
        for (which, alarm) in (0..).zip(&timers.alarms) {
            // Told of once each time it goes off: it is never read, and setting it again is what silences it.
            let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
            epoll::add(&epoll, alarm, epoll::EventData::new_u64(ALARM - which), flags)?;
        }
        Ok(Self {
            epoll,
            timers,
            connections: (0..slots).map(|_| Connection::default()).collect(),
            events: Vec::with_capacity(EVENTS),
            position: 0,
            had_room: false,
            read: vec![0; READ_BYTES].into_boxed_slice(),
            read_len: 0,
        })
    }

    fn watch(&mut self, slot: usize, wants_write: bool) -> Result<(), Errno> {
        let connection = &mut self.connections[slot];
        if connection.wants_write == wants_write {
            return Ok(());
        }
        connection.wants_write = wants_write;
        let Some(socket) = &connection.socket else { return Ok(()) };
        let flags = if wants_write { epoll::EventFlags::IN | epoll::EventFlags::OUT } else { epoll::EventFlags::IN };
        epoll::modify(&self.epoll, socket, data(slot, connection.generation), flags)
    }

    /// The socket is writable for the first time: connected, or refused.
    #[cold]
    fn connected(&mut self, slot: usize) -> Event {
        let connection = &mut self.connections[slot];
        connection.connecting = false;
        let result =
            connection.socket.as_ref().map_or(Ok(()), |socket| sockopt::socket_error(socket).and_then(|word| word));
        Event::Connected { slot, result: result.and_then(|()| self.watch(slot, false)) }
    }

    #[inline]
    fn receive(&mut self, slot: usize) -> Option<Event> {
        let socket = self.connections[slot].socket.as_ref()?;
        match recv(socket, &mut *self.read, RecvFlags::empty()) {
            Ok((0, _)) => Some(Event::Closed { slot }),
            Ok((count, _)) => {
                self.read_len = count;
                Some(Event::Arrived { slot })
            }
            Err(Errno::AGAIN | Errno::INTR) => None,
            Err(errno) => Some(Event::Broken { slot, errno }),
        }
    }
}

fn data(slot: usize, generation: u32) -> epoll::EventData {
    epoll::EventData::new_u64((u64::from(generation) << 32) | slot as u64)
}

impl Reactor for Epoll {
    #[inline]
    fn timers(&self) -> &Timers {
        &self.timers
    }

    fn connect(&mut self, slot: usize, socket: OwnedFd) -> Result<(), Errno> {
        let connection = &mut self.connections[slot];
        let generation = connection.generation.wrapping_add(1);
        epoll::add(&self.epoll, &socket, data(slot, generation), epoll::EventFlags::OUT)?;
        *connection = Connection { socket: Some(socket), generation, connecting: true, wants_write: true, sent: 0 };
        Ok(())
    }

    #[inline]
    fn send(&mut self, slot: usize, out: &mut Vec<u8>) -> Result<(), Errno> {
        let connection = &mut self.connections[slot];
        let Some(socket) = &connection.socket else { return Ok(()) };
        while connection.sent < out.len() {
            match send(socket, &out[connection.sent..], SendFlags::NOSIGNAL) {
                Ok(count) => connection.sent += count,
                Err(Errno::AGAIN) => return self.watch(slot, true),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        out.clear();
        connection.sent = 0;
        self.watch(slot, false)
    }

    fn wait(&mut self, wait_ns: Option<u64>) -> Result<(), Errno> {
        self.events.clear();
        self.position = 0;
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), wait_ns.map(timespec).as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    #[inline]
    fn next(&mut self) -> Option<Event> {
        loop {
            let event = self.events.get(self.position)?;
            let (which, flags) = (event.data.u64(), event.flags);
            if which == TIMER {
                self.position += 1;
                take_tick(&self.timers.clock);
                return Some(Event::Tick);
            }
            if which >= LAST_ALARM {
                self.position += 1;
                return Some(Event::Alarm { alarm: (ALARM - which) as usize });
            }
            let slot = which as u32 as usize;
            let connection = &self.connections[slot];
            if connection.socket.is_none() || connection.generation != (which >> 32) as u32 {
                self.position += 1;
                self.had_room = false;
                continue;
            }
            if connection.connecting {
                self.position += 1;
                return Some(self.connected(slot));
            }
            if flags.contains(epoll::EventFlags::OUT) && !self.had_room {
                self.had_room = true;
                return Some(Event::Room { slot });
            }
            self.position += 1;
            self.had_room = false;
            if flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR)
                && let Some(event) = self.receive(slot)
            {
                return Some(event);
            }
        }
    }

    #[inline]
    fn arrived(&self) -> &[u8] {
        &self.read[..self.read_len]
    }

    fn hang_up(&mut self, slot: usize) {
        if let Some(socket) = &self.connections[slot].socket {
            let _ = shutdown(socket, Shutdown::Both);
        }
        // Data that could not be sent is dropped; only the notice of free space must not arrive.
        self.connections[slot].sent = 0;
        let _ = self.watch(slot, false);
    }

    fn close(&mut self, slot: usize) {
        self.connections[slot].socket = None;
    }

    fn say_goodbye(&mut self, slot: usize, bytes: &[u8]) {
        let connection = &mut self.connections[slot];
        if let Some(socket) = connection.socket.take()
            && !connection.wants_write
        {
            send_last(socket, bytes);
        }
    }
}
