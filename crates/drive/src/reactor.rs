//! Requests of the wire executor to the kernel, in the form of completions: bytes arrived for a session, bytes to
//! send, connected, the clock ticked. The kernel interface is the backend's choice.
//!
//! A session is known by its *slot*, and has at most one connection at a time. Events of a connection that was
//! closed are never handed out, whatever was on its way when it was.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

mod epoll;
mod pool;
mod uring;

pub(crate) use epoll::Epoll;
pub(crate) use uring::Uring;

/// Most bytes that arrive at once.
const READ_BYTES: usize = 64 * 1024;
/// Alarms that can be set at a time.
pub(crate) const ALARMS: usize = 4;

/// Event that ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// The connection stands, or does not come about.
    Connected { slot: usize, result: Result<(), Errno> },
    /// Bytes arrived: [`Reactor::arrived`] has them until the next event is asked for.
    Arrived { slot: usize },
    /// The server will send no more.
    Closed { slot: usize },
    /// Receiving failed.
    Broken { slot: usize, errno: Errno },
    /// Output space is available again for bytes that could not be sent: [`Reactor::send`] them.
    Room { slot: usize },
    /// Bytes accepted by [`Reactor::send`] could not be sent.
    Unsent { slot: usize, errno: Errno },
    /// The clock ticked.
    Tick,
    /// An alarm went off.
    Alarm { alarm: usize },
}

impl Event {
    /// The session that it is about; none for the clock.
    #[inline]
    pub fn slot(&self) -> Option<usize> {
        match *self {
            Event::Connected { slot, .. }
            | Event::Arrived { slot }
            | Event::Closed { slot }
            | Event::Broken { slot, .. }
            | Event::Room { slot }
            | Event::Unsent { slot, .. } => Some(slot),
            Event::Tick | Event::Alarm { .. } => None,
        }
    }
}

/// The sockets of one worker. Made on the worker's own thread.
pub(crate) trait Reactor {
    /// Timers of the reactor.
    fn timers(&self) -> &Timers;

    /// The clock ticks every `interval_ns`, the first time at `first` on CLOCK_MONOTONIC.
    fn tick(&mut self, first: Timespec, interval_ns: u64) {
        set_timer(&self.timers().clock, first, interval_ns);
    }

    /// Sets an alarm, which ends a wait with [`Event::Alarm`] from `at` on CLOCK_MONOTONIC on. An alarm fires once,
    /// and may be set anew after its last setting; setting it is cheapest where an earlier one stands. `alarm` is
    /// below [`ALARMS`].
    #[inline]
    fn set_alarm(&mut self, alarm: usize, at: Timespec) {
        set_timer(&self.timers().alarms[alarm], at, 0);
    }

    /// Takes a socket whose connection was begun. [`Event::Connected`] follows; then bytes are received.
    fn connect(&mut self, slot: usize, socket: OwnedFd) -> Result<(), Errno>;

    /// Sends `out`, as far as the kernel takes it, and removes from it what it need not be told again. Where
    /// something is left, [`Event::Room`] says when to call this again; until then more may be appended.
    fn send(&mut self, slot: usize, out: &mut Vec<u8>) -> Result<(), Errno>;

    /// Waits until something came or `wait_ns` are over; without `wait_ns`, for as long as it takes.
    fn wait(&mut self, wait_ns: Option<u64>) -> Result<(), Errno>;

    /// Returns the next event; `None` when it is time to wait again.
    fn next(&mut self) -> Option<Event>;

    /// The bytes of the [`Event::Arrived`] that was handed out last.
    fn arrived(&self) -> &[u8];

    /// Ends the connection in both directions. What arrived before is still handed out, and then
    /// [`Event::Closed`] or [`Event::Broken`].
    fn hang_up(&mut self, slot: usize);

    /// Closes the connection, if there is one.
    fn close(&mut self, slot: usize);

    /// Sends `bytes` and closes the connection, if nothing else is still to be sent. Waits for nothing.
    fn say_goodbye(&mut self, slot: usize, bytes: &[u8]);
}

/// The clock of a reactor, and its alarms: timers that tick from their first setting on.
pub(crate) struct Timers {
    clock: OwnedFd,
    alarms: [OwnedFd; ALARMS],
}

impl Timers {
    fn new() -> std::io::Result<Self> {
        let timer = || timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC);
        Ok(Self { clock: timer()?, alarms: [timer()?, timer()?, timer()?, timer()?] })
    }
}

fn set_timer(timer: &OwnedFd, first: Timespec, interval_ns: u64) {
    let spec = Itimerspec { it_interval: timespec(interval_ns), it_value: first };
    // It has a valid time and a valid timer: nothing can fail here.
    let _ = timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &spec);
}

/// Takes a tick, so that the next one is seen.
fn take_tick(timer: &OwnedFd) {
    let _ = rustix::io::read(timer, &mut [0; 8]);
}

fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ }
}

fn send_last(socket: impl AsFd, bytes: &[u8]) {
    let _ = send(socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
}

#[cfg(test)]
#[path = "reactor_tests.rs"]
mod tests;
