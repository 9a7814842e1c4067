//! The backend over io_uring: one system call sends what is to be sent and waits for what arrives.
//!
//! What the kernel may touch, and when, is what makes io_uring dangerous; here it is little:
//!
//! - A *send* is asked with `MSG_DONTWAIT`, which makes the kernel do it while it takes the request, as far as there
//!   is room, or say no: when the call that submits it returns, the kernel is done with its bytes. They stand in the
//!   connection's own buffer, which is left alone between the request and that call. Only a send that was not done
//!   in full has a completion, so most cost none.
//! - *Receiving* is asked once to a connection and goes on until it ends. It writes into the [`Pool`] only, which
//!   lives until the kernel has ended every request; if it does not in time, the pool's memory is given up for good.
//! - Waiting for a connection, for room and for the timer touches no memory at all.
//!
//! A [`UringConnection`] is used again for another socket when everything that was asked about its last one is answered,
//! so that no completion is taken for another one's.

mod request;

use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, OwnedFd};

use io_uring::types::{CancelBuilder, Fd, SubmitArgs};
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue};
use rustix::event::PollFlags;
use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::{SendFlags, Shutdown, shutdown, sockopt};

use super::pool::{GROUP, Pool};
use super::{ALARMS, Event, Reactor, Timers, send_last, take_tick};
use request::{Completion, Stage, UringConnection, UringRequest};

/// Requests that can stand in the queue before they have to be submitted.
const QUEUE: u32 = 256;
/// Fewest and most pieces of memory for receiving.
const PIECES: std::ops::RangeInclusive<usize> = 64..=4096;
/// Attempts to end all requests of the kernel on drop.
const LEAVE_TRIES: u32 = 100;
const LEAVE_TRY_NS: u64 = 10_000_000;
/// Value in place of a connection's number.
const NONE: u32 = u32::MAX;

/// See the module.
pub(crate) struct Uring {
    ring: IoUring,
    pool: ManuallyDrop<Pool>,
    timers: Timers,
    connections: Vec<UringConnection>,
    /// Connections that can be used again.
    free: Vec<u32>,
    /// Connection of each slot.
    slots: Vec<u32>,
    /// Completions that were not read yet.
    came: VecDeque<Completion>,
    /// The piece that [`Reactor::arrived`] shows, and how much of it.
    shown: Option<(u16, usize)>,
    /// Calls that have submitted everything so far.
    round: u64,
    /// Requests that are not answered, over all connections and the timer.
    asked: u64,
    enter_flags: EnterFlags,
}

impl Uring {
    /// Needs Linux 6.1 and permission to use io_uring.
    pub fn new(slots: usize) -> std::io::Result<Self> {
        Self::with_pieces(slots, (2 * slots).clamp(*PIECES.start(), *PIECES.end()).next_power_of_two())
    }

    /// Makes a ring with so many pieces of memory for receiving: a power of two.
    pub fn with_pieces(slots: usize, pieces: usize) -> std::io::Result<Self> {
        // At most this many requests of a slot are unanswered at once, those of its last connection included.
        let completions = (8 * slots + pieces + 64).next_power_of_two().min(1 << 16);
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_submit_all()
            .setup_clamp()
            .setup_cqsize((completions as u32).max(2 * QUEUE))
            .build(QUEUE)?;
        let has = ring.params();
        if !has.is_feature_ext_arg() || !has.is_feature_nodrop() || !has.is_feature_skip_cqe_on_success() {
            return Err(std::io::ErrorKind::Unsupported.into());
        }
        // Waiting for a server is not waiting for a disk, and should not be shown as such.
        let enter_flags = if has.is_feature_no_iowait() { EnterFlags::NO_IOWAIT } else { EnterFlags::empty() };
        let pool = ManuallyDrop::new(Pool::offer(&ring, pieces as u16)?);
        let mut uring = Self {
            ring,
            pool,
            timers: Timers::new()?,
            connections: Vec::with_capacity(2 * slots),
            free: Vec::with_capacity(2 * slots),
            slots: vec![NONE; slots],
            came: VecDeque::with_capacity(completions),
            shown: None,
            round: 1,
            asked: 0,
            enter_flags,
        };
        uring.ask_timer(UringRequest::Tick, NONE)?;
        for alarm in 0..ALARMS as u32 {
            uring.ask_timer(UringRequest::Alarm, alarm)?;
        }
        // What a kernel, a sandbox or a container forbids, it forbids here at the latest.
        uring.enter(0, None)?;
        Ok(uring)
    }

    /// Adds a request to the queue. Its completion, unless there is none, is counted by the caller.
    ///
    /// # Safety
    ///
    /// What the request points to must stay valid and untouched until its end; see the module for why it does.
    #[inline]
    unsafe fn push(&mut self, entry: &squeue::Entry) -> Result<(), Errno> {
        // SAFETY: passed on to the caller.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            self.enter(0, None)?;
        }
        Ok(())
    }

    /// Submits everything, waits for `wanted` completions or until `wait_ns` are over, and takes what came.
    #[inline]
    fn enter(&mut self, wanted: u32, wait_ns: Option<u64>) -> Result<(), Errno> {
        let queued = self.ring.submission().len() as u32;
        let flags = self.enter_flags | EnterFlags::GETEVENTS;
        let submitter = self.ring.submitter();
        let entered = match wait_ns {
            // SAFETY: no argument is passed, and the flags say so.
            None => unsafe { submitter.enter::<SubmitArgs<'_, '_>>(queued, wanted, flags.bits(), None) },
            Some(wait_ns) => {
                let wait = io_uring::types::Timespec::from(std::time::Duration::from_nanos(wait_ns));
                let arguments = SubmitArgs::new().timespec(&wait);
                let flags = flags | EnterFlags::EXT_ARG;
                // SAFETY: the argument is what EXT_ARG announces, and lives until the call returns.
                unsafe { submitter.enter(queued, wanted, flags.bits(), Some(&arguments)) }
            }
        };
        let mut result = Ok(());
        if let Err(error) = entered {
            match Errno::from_io_error(&error) {
                // Waited long enough; interrupted; too much to take before more is asked: all is well.
                Some(Errno::TIME | Errno::INTR | Errno::BUSY | Errno::AGAIN) => {}
                errno => result = Err(errno.unwrap_or(Errno::IO)),
            }
        }
        if self.ring.submission().is_empty() {
            self.round += 1;
        }
        self.take_completions();
        result
    }

    /// Takes all completions, and sees to those of sends at once: before anything more is sent on a connection it is known
    /// whether the last send was done in full.
    #[inline]
    fn take_completions(&mut self) {
        loop {
            // The queue is let go of before anything is asked again, which may take completions of its own.
            let next = self.ring.completion().next();
            let Some(completion) = next.as_ref().map(Completion::of) else { return };
            match completion.ask {
                UringRequest::Send => self.came_short(completion),
                _ => self.came.push_back(completion),
            }
        }
    }

    /// A send was not done in full.
    #[cold]
    fn came_short(&mut self, completion: Completion) {
        let connection = &mut self.connections[completion.connection as usize];
        if connection.stage != Stage::Open {
            return;
        }
        match completion.result {
            count @ 0.. => connection.sent += count as usize,
            _ if matches!(completion.errno(), Errno::AGAIN | Errno::INTR | Errno::NOBUFS) => {}
            _ => return self.came.push_back(Completion { ask: UringRequest::Unsent, ..completion }),
        }
        connection.wants_room = true;
        if let Err(errno) = self.ask_poll(completion.connection, UringRequest::Room, PollFlags::OUT) {
            let result = -errno.raw_os_error();
            self.came.push_back(Completion { ask: UringRequest::Unsent, result, ..completion });
        }
    }

    fn ask_poll(&mut self, connection: u32, ask: UringRequest, flags: PollFlags) -> Result<(), Errno> {
        let Some(socket) = &self.connections[connection as usize].socket else { return Ok(()) };
        let fd = Fd(socket.as_raw_fd());
        let entry = opcode::PollAdd::new(fd, u32::from(flags.bits())).build().user_data(ask.data(connection));
        // SAFETY: it points to nothing.
        unsafe { self.push(&entry)? };
        self.count(connection);
        Ok(())
    }

    /// Asks to be told of a timer once each time it goes off.
    fn ask_timer(&mut self, ask: UringRequest, number: u32) -> Result<(), Errno> {
        let Timers { clock, alarms } = &self.timers;
        let timer = if ask == UringRequest::Tick { clock } else { &alarms[number as usize] };
        // Without LEVEL an alarm need not be read.
        let poll = opcode::PollAdd::new(Fd(timer.as_raw_fd()), u32::from(PollFlags::IN.bits())).multi(true);
        // SAFETY: it points to nothing.
        unsafe { self.push(&poll.build().user_data(ask.data(number)))? };
        self.asked += 1;
        Ok(())
    }

    /// Asks to receive, until further notice.
    fn ask_receive(&mut self, connection: u32) -> Result<(), Errno> {
        let Some(socket) = &self.connections[connection as usize].socket else { return Ok(()) };
        let entry = opcode::RecvMulti::new(Fd(socket.as_raw_fd()), GROUP)
            .build()
            .user_data(UringRequest::Receive.data(connection));
        // SAFETY: it writes to the pool, which outlives all requests.
        unsafe { self.push(&entry)? };
        self.count(connection);
        Ok(())
    }

    #[inline]
    fn ask_send(&mut self, connection: u32) -> Result<(), Errno> {
        let this = &mut self.connections[connection as usize];
        let Some(socket) = &this.socket else { return Ok(()) };
        let bytes = &this.sending[this.sent..];
        // With WAITALL a send that was done in part counts as failed, and so has a completion.
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT | SendFlags::from_bits_retain(libc::MSG_WAITALL as u32);
        let entry = opcode::Send::new(Fd(socket.as_raw_fd()), bytes.as_ptr(), bytes.len() as u32)
            .flags(flags.bits() as i32)
            .build()
            .flags(squeue::Flags::SKIP_SUCCESS)
            .user_data(UringRequest::Send.data(connection));
        // SAFETY: the bytes are read while the request is submitted and not later, and `sending` is left alone until
        // then: `sent_in` says that a send stands in the queue, and a connection is not dropped before the reactor is.
        unsafe { self.push(&entry)? };
        self.connections[connection as usize].sent_in = self.round;
        Ok(())
    }

    fn count(&mut self, connection: u32) {
        self.connections[connection as usize].asked += 1;
        self.asked += 1;
    }

    /// The connection of a slot that has a connection.
    #[inline]
    fn connection_of(&self, slot: usize) -> Option<u32> {
        let connection = self.slots[slot];
        (connection != NONE).then_some(connection)
    }

    #[inline]
    fn event(&mut self, completion: Completion) -> Option<Event> {
        let Completion { connection, ask, result, flags } = completion;
        let ended = completion.ends_a_request();
        self.asked -= u64::from(ended);
        if matches!(ask, UringRequest::Tick | UringRequest::Alarm) {
            if ask == UringRequest::Tick {
                take_tick(&self.timers.clock);
            }
            if ended {
                let _ = self.ask_timer(ask, connection);
            }
            return Some(if ask == UringRequest::Tick {
                Event::Tick
            } else {
                Event::Alarm { alarm: connection as usize }
            });
        }
        let this = &mut self.connections[connection as usize];
        this.asked -= u32::from(ended);
        let (slot, stage) = (this.slot, this.stage);
        let piece = cqueue::buffer_select(flags);
        if stage == Stage::Closing {
            if let Some(piece) = piece {
                self.pool.give(piece);
            }
            if ended {
                self.let_go(connection);
            }
            return None;
        }
        match ask {
            UringRequest::Receive if result > 0 => {
                let piece = piece?;
                self.shown = Some((piece, result as usize));
                if ended && let Err(errno) = self.ask_receive(connection) {
                    return Some(Event::Broken { slot, errno });
                }
                Some(Event::Arrived { slot })
            }
            UringRequest::Receive if result == 0 => Some(Event::Closed { slot }),
            UringRequest::Receive => match completion.errno() {
                // All of the pool was in use: what arrived waits in the socket until this is asked again.
                Errno::NOBUFS | Errno::AGAIN | Errno::INTR => {
                    self.ask_receive(connection).err().map(|errno| Event::Broken { slot, errno })
                }
                errno => Some(Event::Broken { slot, errno }),
            },
            UringRequest::Connect => Some(Event::Connected { slot, result: self.connected(connection) }),
            UringRequest::Room => {
                self.connections[connection as usize].wants_room = false;
                if stage != Stage::Open {
                    return None;
                }
                Some(match self.ask_send(connection) {
                    Ok(()) => Event::Room { slot },
                    Err(errno) => Event::Unsent { slot, errno },
                })
            }
            UringRequest::Unsent => Some(Event::Unsent { slot, errno: completion.errno() }),
            UringRequest::Send | UringRequest::Cancel | UringRequest::Tick | UringRequest::Alarm => None,
        }
    }

    #[cold]
    fn connected(&mut self, connection: u32) -> Result<(), Errno> {
        let this = &mut self.connections[connection as usize];
        let Some(socket) = &this.socket else { return Ok(()) };
        sockopt::socket_error(socket)??;
        // A socket that says it would block is not waited on by the kernel, which is what is wanted from here on.
        ioctl_fionbio(socket, false)?;
        this.stage = Stage::Open;
        self.ask_receive(connection)
    }

    /// Makes a closing connection free when nothing more is asked about it.
    #[cold]
    fn let_go(&mut self, connection: u32) {
        let this = &mut self.connections[connection as usize];
        if this.asked == 0 {
            this.socket = None;
            self.free.push(connection);
        }
    }
}

impl Reactor for Uring {
    #[inline]
    fn timers(&self) -> &Timers {
        &self.timers
    }

    fn connect(&mut self, slot: usize, socket: OwnedFd) -> Result<(), Errno> {
        let connection = self.free.pop().unwrap_or_else(|| {
            self.connections.push(UringConnection {
                slot,
                socket: None,
                stage: Stage::Closing,
                asked: 0,
                sending: Vec::with_capacity(1024),
                sent: 0,
                sent_in: 0,
                wants_room: false,
            });
            (self.connections.len() - 1) as u32
        });
        let this = &mut self.connections[connection as usize];
        this.sending.clear();
        (this.slot, this.socket, this.stage) = (slot, Some(socket), Stage::Connecting);
        (this.sent, this.sent_in, this.wants_room) = (0, 0, false);
        self.slots[slot] = connection;
        self.ask_poll(connection, UringRequest::Connect, PollFlags::OUT)
    }

    #[inline]
    fn send(&mut self, slot: usize, out: &mut Vec<u8>) -> Result<(), Errno> {
        let Some(connection) = self.connection_of(slot) else { return Ok(()) };
        if out.is_empty() || self.connections[connection as usize].stage != Stage::Open {
            return Ok(());
        }
        if self.connections[connection as usize].sent_in == self.round {
            self.enter(0, None)?;
        }
        let this = &mut self.connections[connection as usize];
        if this.sent_in == self.round {
            return Err(Errno::BUSY);
        }
        if this.wants_room {
            return Ok(());
        }
        std::mem::swap(out, &mut this.sending);
        out.clear();
        this.sent = 0;
        self.ask_send(connection)
    }

    fn wait(&mut self, wait_ns: Option<u64>) -> Result<(), Errno> {
        match wait_ns {
            // To wait for nothing by the clock would set a timer all the same.
            Some(0) => self.enter(0, None),
            _ => self.enter(u32::from(self.came.is_empty()), wait_ns),
        }
    }

    #[inline]
    fn next(&mut self) -> Option<Event> {
        if let Some((piece, _)) = self.shown.take() {
            self.pool.give(piece);
        }
        loop {
            let completion = self.came.pop_front()?;
            if let Some(event) = self.event(completion) {
                return Some(event);
            }
        }
    }

    #[inline]
    fn arrived(&self) -> &[u8] {
        self.shown.map_or(&[], |(piece, count)| self.pool.piece(piece, count))
    }

    fn hang_up(&mut self, slot: usize) {
        let Some(connection) = self.connection_of(slot) else { return };
        let this = &mut self.connections[connection as usize];
        if let Some(socket) = &this.socket {
            let _ = shutdown(socket, Shutdown::Both);
        }
        this.stage = Stage::HungUp;
    }

    fn close(&mut self, slot: usize) {
        let Some(connection) = self.connection_of(slot) else { return };
        self.slots[slot] = NONE;
        let this = &mut self.connections[connection as usize];
        this.stage = Stage::Closing;
        let Some(socket) = &this.socket else { return };
        let all = CancelBuilder::fd(Fd(socket.as_raw_fd())).all();
        // SAFETY: it points to nothing.
        let cancelling = unsafe {
            self.push(&opcode::AsyncCancel2::new(all).build().user_data(UringRequest::Cancel.data(connection)))
        };
        if cancelling.is_ok() {
            self.count(connection);
        }
    }

    fn say_goodbye(&mut self, slot: usize, bytes: &[u8]) {
        if let Some(connection) = self.connection_of(slot) {
            let this = &self.connections[connection as usize];
            if let Some(socket) = &this.socket
                && this.stage == Stage::Open
                && !this.wants_room
                && this.sent_in != self.round
            {
                send_last(socket, bytes);
            }
        }
        self.close(slot);
    }
}

impl Drop for Uring {
    /// Ends all requests and waits for their end; only then is the memory for receiving let go.
    fn drop(&mut self) {
        // SAFETY: it points to nothing.
        let cancel = opcode::AsyncCancel2::new(CancelBuilder::any()).build().user_data(UringRequest::Cancel.data(NONE));
        if unsafe { self.push(&cancel) }.is_ok() {
            self.asked += 1;
        }
        for _ in 0..LEAVE_TRIES {
            while let Some(completion) = self.came.pop_front() {
                self.asked -= u64::from(completion.ends_a_request());
            }
            if self.asked == 0 {
                // SAFETY: it is dropped once, here, and not accessible afterwards.
                unsafe { ManuallyDrop::drop(&mut self.pool) };
                return;
            }
            let _ = self.enter(1, Some(LEAVE_TRY_NS));
        }
    }
}
