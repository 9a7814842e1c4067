//! A slow or lossy link: a thread that carries frames between a host's port and a port of the bridge.
//!
//! ```text
//!     host's eth0 ── port ╌╌ this thread ╌╌ far ── near ── bridge
//! ```
//!
//! The host's own interface stays as it is, so its connections live on when the link changes. Packet sockets (packet(7))
//! need neither the `netem` discipline nor `/dev/net/tun`, which not every machine has.

use std::collections::VecDeque;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use plimsoll_core::StoreError;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netdevice, sockopt};

/// Longest delay and jitter that a link may have.
const DELAY_MAX: Duration = Duration::from_secs(60);
/// A frame is dropped that would wait longer than this for the link to have sent those before it.
const BACKLOG_MAX: Duration = Duration::from_millis(100);
/// Most bytes on the way in one direction; frames beyond are dropped.
const UNDERWAY_BYTES_MAX: usize = 64 << 20;
/// Buffer of a packet socket in the kernel.
const SOCKET_BYTES: usize = 8 << 20;
/// `struct virtio_net_hdr`, which says what of a frame's checksums is still to be calculated.
const OFFLOAD_BYTES: usize = 10;
/// The largest frame, with its offload header.
const FRAME_BYTES_MAX: usize = OFFLOAD_BYTES + (64 << 10) + 64;
/// Frames that are read from one side before the other has its turn.
const BATCH: usize = 64;

/// What a link between a host and the bridge does to frames, in each of both directions. The default does nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Link {
    /// How long a frame is on its way, one way.
    pub delay: Duration,
    /// A frame's delay is up to this much shorter or longer, each by the same chance. Frames keep their order.
    pub jitter: Duration,
    /// Share of frames that are lost, 0 to 1.
    pub loss: f64,
    /// Bits a second, Ethernet header included. Up to 100 ms of frames wait, more are dropped.
    pub rate_bits_per_s: Option<u64>,
}

impl std::fmt::Display for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if *self == Link::default() {
            return write!(f, "plain");
        }
        let mut parts = Vec::new();
        if !self.delay.is_zero() {
            parts.push(format!("{:?} ± {:?} one way", self.delay, self.jitter));
        }
        if self.loss > 0.0 {
            parts.push(format!("{} % of packets lost", self.loss * 100.0));
        }
        parts.extend(self.rate_bits_per_s.map(|bits| format!("{} Mbit/s", bits as f64 / 1e6)));
        write!(f, "{}", parts.join(", "))
    }
}

impl Link {
    /// # Errors
    /// `Usage` where there can be no such link.
    pub fn check(&self) -> Result<(), StoreError> {
        let wrong = if self.delay > DELAY_MAX {
            format!("a link's delay is at most {} s, not {:?}", DELAY_MAX.as_secs(), self.delay)
        } else if self.jitter > self.delay {
            format!("a link's jitter is at most its delay, {:?}, not {:?}", self.delay, self.jitter)
        } else if !(0.0..=1.0).contains(&self.loss) {
            format!("a link's loss is a share from 0 to 1, not {}", self.loss)
        } else if self.rate_bits_per_s == Some(0) {
            "a link's rate is at least 1 bit/s, not 0: to cut it, say a loss of 1".to_owned()
        } else {
            return Ok(());
        };
        Err(StoreError::usage(wrong))
    }
}

/// The thread of a link. It ends with this value.
pub(super) struct Cable {
    link: Arc<Mutex<Link>>,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Cable {
    /// Carries frames between two interfaces of the network namespace `place`.
    pub(super) fn lay(place: OwnedFd, ends: [String; 2], link: Link) -> io::Result<Self> {
        let link = Arc::new(Mutex::new(link));
        let stop = Arc::new(rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (tell, told) = mpsc::channel();
        let thread = {
            let (link, stop) = (Arc::clone(&link), Arc::clone(&stop));
            std::thread::Builder::new().name("cable".to_owned()).spawn(move || {
                let opened = super::go_into(place.as_fd()).and_then(|()| {
                    let [one, other] = ends;
                    Ok([open(&one)?, open(&other)?])
                });
                match opened {
                    Ok(sockets) => {
                        let _ = tell.send(Ok(()));
                        carry(&sockets, &link, &stop);
                    }
                    Err(error) => drop(tell.send(Err(error))),
                }
            })?
        };
        let cable = Self { link, stop, thread: Some(thread) };
        told.recv().unwrap_or_else(|_| Err(io::Error::other("the thread of a link has failed")))?;
        Ok(cable)
    }

    /// Frames that come from now on have this link.
    pub(super) fn set(&self, link: Link) {
        *self.link.lock().unwrap_or_else(PoisonError::into_inner) = link;
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A packet socket on an interface of the calling thread's network namespace.
fn open(interface: &str) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    // Protocol 0: nothing arrives before it is bound to its interface.
    let socket = rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
    let _ = sockopt::set_socket_recv_buffer_size_force(&socket, SOCKET_BYTES);
    let _ = sockopt::set_socket_send_buffer_size_force(&socket, SOCKET_BYTES);
    for option in [libc::PACKET_VNET_HDR, libc::PACKET_IGNORE_OUTGOING] {
        let on: libc::c_int = 1;
        // SAFETY: the kernel reads one int from where one is.
        let refused = unsafe {
            let length = size_of_val(&on) as libc::socklen_t;
            libc::setsockopt(socket.as_raw_fd(), libc::SOL_PACKET, option, (&raw const on).cast(), length)
        };
        if refused != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: netdevice::name_to_index(&socket, interface)? as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: the kernel reads one address from where one is.
    let refused = unsafe {
        let length = size_of_val(&address) as libc::socklen_t;
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length)
    };
    if refused != 0 { Err(io::Error::last_os_error()) } else { Ok(socket) }
}

/// Carries frames until `stop` says so, or an interface is gone.
fn carry(sockets: &[OwnedFd; 2], link: &Mutex<Link>, stop: &OwnedFd) {
    // Otherwise a thread is woken up to 50 µs late.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let [one, other] = sockets;
    let mut chance = Chance::new();
    let mut ways = [(Way::default(), one, other), (Way::default(), other, one)];
    let mut buffer = vec![0; FRAME_BYTES_MAX];
    loop {
        let now = Instant::now();
        let due = ways.iter_mut().filter_map(|(way, _, to)| way.send(to, now)).min();
        let wait = due.map(|due| {
            let wait = due.saturating_duration_since(Instant::now());
            Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) }
        });
        let mut asked = [one, other, stop].map(|file| PollFd::new(file, PollFlags::IN));
        match rustix::event::poll(&mut asked, wait.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
        if !asked[2].revents().is_empty() {
            return;
        }
        let link = *link.lock().unwrap_or_else(PoisonError::into_inner);
        for (way, from, _) in &mut ways {
            for _ in 0..BATCH {
                match rustix::net::recv(&**from, &mut buffer[..], RecvFlags::empty()) {
                    Ok((length, _)) => way.take(&buffer[..length], &link, Instant::now(), &mut chance),
                    Err(rustix::io::Errno::AGAIN) => break,
                    // An interface that is down for a moment says so once.
                    Err(rustix::io::Errno::NETDOWN | rustix::io::Errno::INTR) => {}
                    Err(_) => return,
                }
            }
        }
    }
}

/// One direction of a link.
#[derive(Default)]
struct Way {
    /// Frames underway, and when each arrives.
    underway: VecDeque<(Instant, Box<[u8]>)>,
    bytes: usize,
    /// When the link has sent what it was given.
    sent: Option<Instant>,
}

impl Way {
    /// Puts a frame on its way, or loses it.
    fn take(&mut self, frame: &[u8], link: &Link, now: Instant, chance: &mut Chance) {
        if chance.share() < link.loss || self.bytes + frame.len() > UNDERWAY_BYTES_MAX {
            return;
        }
        let start = match (link.rate_bits_per_s, self.sent) {
            (Some(_), Some(sent)) => sent.max(now),
            _ => now,
        };
        if start - now > BACKLOG_MAX {
            return;
        }
        let bits = frame.len().saturating_sub(OFFLOAD_BYTES) as f64 * 8.0;
        let sent =
            start + link.rate_bits_per_s.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(bits / rate as f64));
        self.sent = Some(sent);
        let arrives = sent + link.delay - link.jitter + link.jitter.mul_f64(2.0 * chance.share());
        let arrives = self.underway.back().map_or(arrives, |(last, _)| arrives.max(*last));
        self.bytes += frame.len();
        self.underway.push_back((arrives, frame.into()));
    }

    /// Hands over what has arrived, and returns when the next does.
    fn send(&mut self, to: &OwnedFd, now: Instant) -> Option<Instant> {
        while self.underway.front().is_some_and(|(arrives, _)| *arrives <= now) {
            let Some((_, frame)) = self.underway.pop_front() else { break };
            self.bytes -= frame.len();
            // A full queue loses frames, as in any switch.
            let _ = rustix::net::send(to, &frame, SendFlags::empty());
        }
        self.underway.front().map(|(arrives, _)| *arrives)
    }
}

/// Random numbers: SplitMix64 (Steele, Lea and Flood, 2014).
struct Chance(u64);

impl Chance {
    fn new() -> Self {
        Self(getrandom::u64().unwrap_or(1))
    }

    /// The next, from 0 up to but not 1.
    fn share(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((bits ^ (bits >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}
