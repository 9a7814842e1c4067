//! Requests to the kernel about a connection, and its answers.

use std::os::fd::OwnedFd;

use io_uring::cqueue;
use rustix::io::Errno;

/// A connection and what was asked about it.
pub(super) struct UringConnection {
    pub slot: usize,
    pub socket: Option<OwnedFd>,
    pub stage: Stage,
    /// Requests that are not answered.
    pub asked: u32,
    /// Bytes that are being sent; the following ones stay with the caller.
    pub sending: Vec<u8>,
    /// Bytes at the front of `sending` that are with the kernel.
    pub sent: usize,
    /// The round in which a send was asked last.
    pub sent_in: u64,
    /// A send was not done in full, and is asked again when there is room.
    pub wants_room: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Connecting,
    Open,
    /// Sending has failed; what arrives is still wanted.
    HungUp,
    /// The slot has nothing to do with it any more.
    Closing,
}

/// Subject of a request. Its number is part of the request's user data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UringRequest {
    Connect,
    Receive,
    Send,
    Room,
    Cancel,
    Tick,
    Alarm,
    /// No request: the failed end of a send, which is processed in turn.
    Unsent,
}

impl UringRequest {
    pub const ALL: [UringRequest; 8] = [
        UringRequest::Connect,
        UringRequest::Receive,
        UringRequest::Send,
        UringRequest::Room,
        UringRequest::Cancel,
        UringRequest::Tick,
        UringRequest::Alarm,
        UringRequest::Unsent,
    ];

    #[inline]
    pub fn data(self, connection: u32) -> u64 {
        (u64::from(connection) << 8) | self as u64
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Completion {
    pub connection: u32,
    pub ask: UringRequest,
    pub result: i32,
    pub flags: u32,
}

impl Completion {
    #[inline]
    pub fn of(entry: &cqueue::Entry) -> Completion {
        let data = entry.user_data();
        let ask = UringRequest::ALL[(data & 0xff) as usize];
        Completion { connection: (data >> 8) as u32, ask, result: entry.result(), flags: entry.flags() }
    }

    /// True when it is the last word on a request that is counted.
    #[inline]
    pub fn ends_a_request(&self) -> bool {
        !matches!(self.ask, UringRequest::Send | UringRequest::Unsent) && !cqueue::more(self.flags)
    }

    #[inline]
    pub fn errno(&self) -> Errno {
        Errno::from_raw_os_error(-self.result)
    }
}
