//! The floor's kernel calls over level-triggered epoll: one call to wait, one to send, one to receive.

use std::io;
use std::os::fd::OwnedFd;

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::{ALARMS, Event, Kernel, timers};

const EVENTS: usize = 64;
const READ_BYTES: usize = 64 * 1024;

/// Sockets come first by number, and timers behind them.
pub struct Epoll {
    epoll: OwnedFd,
    sockets: Vec<OwnedFd>,
    timers: [OwnedFd; ALARMS + 1],
    events: Vec<epoll::Event>,
    position: usize,
    read: Box<[u8]>,
}

impl Epoll {
    pub fn new(sockets: Vec<OwnedFd>) -> io::Result<Epoll> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timers = timers()?;
        for (number, socket) in (0..).zip(&sockets) {
            ioctl_fionbio(socket, true)?;
            epoll::add(&epoll, socket, epoll::EventData::new_u64(number), epoll::EventFlags::IN)?;
        }
        for (number, timer) in (sockets.len() as u64..).zip(&timers) {
            // Told of once each time it goes off.
            let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
            epoll::add(&epoll, timer, epoll::EventData::new_u64(number), flags)?;
        }
        let read = vec![0; READ_BYTES].into_boxed_slice();
        Ok(Epoll { epoll, sockets, timers, events: Vec::with_capacity(EVENTS), position: 0, read })
    }
}

impl Kernel for Epoll {
    #[inline]
    fn send(&mut self, socket: usize, bytes: &'static [u8]) -> io::Result<()> {
        match send(&self.sockets[socket], bytes, SendFlags::NOSIGNAL)? {
            count if count == bytes.len() => Ok(()),
            _ => Err(io::ErrorKind::WriteZero.into()),
        }
    }

    fn wait(&mut self) -> io::Result<()> {
        self.events.clear();
        self.position = 0;
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), None) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    #[inline]
    fn next(&mut self) -> io::Result<Option<Event>> {
        let Some(event) = self.events.get(self.position) else { return Ok(None) };
        self.position += 1;
        let number = event.data.u64() as usize;
        let Some(socket) = self.sockets.get(number) else {
            return Ok(Some(Event::Timer { timer: number - self.sockets.len() }));
        };
        match recv(socket, &mut *self.read, RecvFlags::empty())? {
            (0, _) => Err(io::ErrorKind::UnexpectedEof.into()),
            (bytes, _) => Ok(Some(Event::Arrived { socket: number, bytes })),
        }
    }

    fn timers(&self) -> &[OwnedFd; ALARMS + 1] {
        &self.timers
    }
}
