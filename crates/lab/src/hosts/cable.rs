//! A slow or lossy link: a thread that carries frames between a host's port and a port of the bridge.
//!
//! ```text
//!     host's eth0 ── port ╌╌ this thread ╌╌ far ── near ── bridge
//! ```
//!
//! The host's own interface stays as it is, so its connections live on when the link changes. Packet
//! sockets (packet(7)) need neither the `netem` discipline nor `/dev/net/tun`, which not every machine has.
//!
//! While a cable is laid or removed, the port and `near` are both ports of the bridge, and frames change from one way to
//! the other without a gap. From the bridge they change by its table of addresses, each frame before or after. From the
//! host, the cable receives them and the bridge forwards them, both for a moment.

use std::collections::VecDeque;
use std::io;
use std::net::Ipv4Addr;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use plimsoll_core::random::SplitMix;
use plimsoll_core::{Link, LinkWays};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::net::{RecvFlags, SendFlags};

use super::CLIENTS;
use super::packet_socket::{ALL_FRAMES, NO_FRAMES, PacketSocket};

/// Longest time that a frame waits for earlier frames to be sent; a frame that would wait longer is dropped.
const BACKLOG_MAX: Duration = Duration::from_millis(100);
/// Most bytes in transit in one direction; further frames are dropped.
const UNDERWAY_BYTES_MAX: usize = 64 << 20;
/// Length of `struct virtio_net_hdr`, which tells which checksums of a frame are still to be calculated.
const OFFLOAD_BYTES: usize = 10;
/// Length of the Ethernet header. A real network drops a frame in which it is damaged.
const ETHERNET_BYTES: usize = 14;
/// Types of frames (`linux/if_ether.h`).
const IPV4: u16 = libc::ETH_P_IP as u16;
const IPV6: u16 = libc::ETH_P_IPV6 as u16;
const ARP: u16 = libc::ETH_P_ARP as u16;
/// Bits of an IPv4 header that are set in fragments: more of them follow, and the offset.
const IPV4_FRAGMENT: u16 = 0x3fff;
/// Length of an IPv6 header, and the headers that may stand between it and TCP's: options and routing.
const IPV6_BYTES: usize = 40;
const IPV6_OPTIONS: [u8; 3] = [0, 43, 60];
/// Position of the flags in a TCP header, and two of them.
const TCP_FLAGS_AT: usize = 13;
const FIN: u8 = 1;
const RST: u8 = 4;
/// The largest frame, with its offload header.
const FRAME_BYTES_MAX: usize = OFFLOAD_BYTES + (64 << 10) + 64;
/// Number of frames that are read from one side before the other gets its turn.
const BATCH: usize = 64;
/// Most frames that a cable still carries in one direction after its end.
const LAST_FRAMES_MAX: usize = 100_000;

/// Link for frames from and to a peer; for all frames without one.
pub(super) type PeerLink = (Link, Option<Peer>);

/// Other end of the frames that a link affects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    /// The host with this address.
    Host(Ipv4Addr),
    /// The load host, and all client hosts.
    Clients,
}

impl Peer {
    /// Returns true if the four bytes are an address of the peer.
    fn has(self, address: &[u8]) -> bool {
        match self {
            Self::Host(host) => address == host.octets(),
            Self::Clients => address.starts_with(&CLIENTS),
        }
    }
}

/// Thread of a link. It ends with this value, and delivers all frames before.
pub(super) struct Cable {
    ends: Arc<[PacketSocket; 2]>,
    state: Arc<CableState>,
    /// Receives a value after each request to deliver the frames in transit.
    emptied: mpsc::Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

/// State of a cable that its thread reads.
struct CableState {
    link: Mutex<PeerLink>,
    /// Wakes the thread, to deliver the frames in transit.
    wake: OwnedFd,
    is_ended: AtomicBool,
}

impl Cable {
    /// Starts a thread that carries frames between two interfaces of the network namespace `place`: the host's port, and
    /// the cable's own interface. Neither is received from yet.
    pub(super) fn lay(place: OwnedFd, ends: [String; 2], link: PeerLink) -> io::Result<Self> {
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let state = Arc::new(CableState { link: Mutex::new(link), wake, is_ended: AtomicBool::new(false) });
        let (tell, told) = mpsc::channel();
        let (empty, emptied) = mpsc::channel();
        let thread = {
            let state = Arc::clone(&state);
            std::thread::Builder::new().name("cable".to_owned()).spawn(move || {
                let opened = super::go_into(place.as_fd()).and_then(|()| {
                    let [one, other] = ends;
                    Ok(Arc::new([PacketSocket::open(&one)?, PacketSocket::open(&other)?]))
                });
                match opened {
                    Ok(ends) => {
                        let _ = tell.send(Ok(Arc::clone(&ends)));
                        carry(&ends, &state, &empty);
                    }
                    Err(error) => drop(tell.send(Err(error))),
                }
            })?
        };
        let ends = told.recv().unwrap_or_else(|_| Err(io::Error::other("the thread of a link has failed")))?;
        Ok(Self { ends, state, emptied, thread: Some(thread) })
    }

    /// Starts receiving the frames that arrive at the cable's own interface from the bridge.
    pub(super) fn receive_from_bridge(&self) -> io::Result<()> {
        self.ends[1].receive(ALL_FRAMES)
    }

    /// Starts receiving the frames that the host sends, whether or not the bridge forwards them, too.
    pub(super) fn receive_from_host(&self) -> io::Result<()> {
        self.ends[0].receive(ALL_FRAMES)
    }

    /// Stops receiving what the host sends. Received frames are still delivered.
    pub(super) fn ignore_host(&self) -> io::Result<()> {
        self.ends[0].receive(NO_FRAMES)
    }

    /// Sets the link for frames that arrive from now on.
    pub(super) fn set(&self, link: PeerLink) {
        *self.state.link.lock().unwrap_or_else(PoisonError::into_inner) = link;
    }

    /// Delivers the frames in transit immediately, and waits until this is done.
    pub(super) fn empty(&self) {
        self.wake();
        // Fails if the thread has ended, with its interfaces.
        let _ = self.emptied.recv();
    }

    fn wake(&self) {
        let _ = rustix::io::write(&self.state.wake, &1_u64.to_ne_bytes());
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        self.state.is_ended.store(true, Ordering::Release);
        self.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Carries frames until the cable has ended, or an interface is gone.
fn carry(ends: &[PacketSocket; 2], state: &CableState, emptied: &mpsc::Sender<()>) {
    // Otherwise the kernel wakes the thread up to 50 µs late.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let [one, other] = [&ends[0].socket, &ends[1].socket];
    let mut chance = SplitMix::new(getrandom::u64().unwrap_or(1));
    let way = LinkDirection::default;
    let mut ways = [(way(), one, other, LinkWays::Out), (way(), other, one, LinkWays::In)];
    let mut buffer = vec![0; FRAME_BYTES_MAX];
    loop {
        let now = Instant::now();
        let due = ways.iter_mut().filter_map(|(way, _, to, _)| way.send(to, now)).min();
        let wait = due.map(|due| {
            let wait = due.saturating_duration_since(Instant::now());
            Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) }
        });
        let mut asked = [one, other, &state.wake].map(|file| PollFd::new(file, PollFlags::IN));
        match rustix::event::poll(&mut asked, wait.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
        if !asked[2].revents().is_empty() {
            let _ = rustix::io::read(&state.wake, &mut [0; 8]);
            let is_ended = state.is_ended.load(Ordering::Acquire);
            for (way, from, to, _) in &mut ways {
                way.send_all(to);
                if is_ended {
                    send_last(from, to, &mut buffer);
                }
            }
            if is_ended {
                return;
            }
            let _ = emptied.send(());
        }
        let (link, peer) = *state.link.lock().unwrap_or_else(PoisonError::into_inner);
        for (way, from, to, own) in &mut ways {
            let link = if [LinkWays::Both, *own].contains(&link.ways) { link } else { Link::default() };
            for _ in 0..BATCH {
                match rustix::net::recv(*from, &mut buffer[..], RecvFlags::empty()) {
                    Ok((length, _)) => {
                        let frame = &buffer[..length];
                        if passes(frame, &link, peer) {
                            // Frames that the link delays hold up no others. A full queue drops frames.
                            let _ = rustix::net::send(*to, frame, SendFlags::empty());
                        } else {
                            way.take(frame, &link, Instant::now(), &mut chance);
                        }
                    }
                    Err(rustix::io::Errno::AGAIN) => break,
                    // An interface that is down for a moment returns this once.
                    Err(rustix::io::Errno::NETDOWN | rustix::io::Errno::INTR) => {}
                    Err(_) => return,
                }
            }
        }
    }
}

/// Sends frames that a socket has received, as on the default link.
fn send_last(from: &OwnedFd, to: &OwnedFd, buffer: &mut [u8]) {
    for _ in 0..LAST_FRAMES_MAX {
        let Ok((length, _)) = rustix::net::recv(from, &mut *buffer, RecvFlags::empty()) else { return };
        let _ = rustix::net::send(to, &buffer[..length], SendFlags::empty());
    }
}

/// Returns true for a frame that a link for `peer` does not affect. With a cut in one direction these are ARP's: a
/// look-up needs both directions, so that otherwise the kernel's cache would decide whether the other direction works.
fn passes(frame: &[u8], link: &Link, peer: Option<Peer>) -> bool {
    peer.is_some_and(|peer| !is_of(frame, peer)) || (link.ways != LinkWays::Both && ethernet_type(frame) == Some(ARP))
}

fn ethernet_type(frame: &[u8]) -> Option<u16> {
    let at = OFFLOAD_BYTES + ETHERNET_BYTES;
    Some(u16::from_be_bytes(frame.get(at - 2..at)?.try_into().ok()?))
}

/// Returns true for a frame from or to `peer`, by the addresses of IPv4 or those that ARP looks up.
fn is_of(frame: &[u8], peer: Peer) -> bool {
    let packet = frame.get(OFFLOAD_BYTES..).unwrap_or_default();
    // Places of the two addresses behind the Ethernet header, by its type.
    let places: [usize; 2] = match ethernet_type(frame) {
        Some(IPV4) => [12, 16],
        Some(ARP) => [14, 24],
        _ => return false,
    };
    places.into_iter().any(|place| {
        let from = ETHERNET_BYTES + place;
        packet.get(from..from + 4).is_some_and(|address| peer.has(address))
    })
}

/// State of a link in a single direction.
#[derive(Default)]
struct LinkDirection {
    /// Frames in transit, with the arrival time of each.
    underway: VecDeque<(Instant, Box<[u8]>)>,
    bytes: usize,
    /// Time when the link has sent all frames that it accepted.
    sent: Option<Instant>,
    /// Latest arrival of the frames that keep their order.
    last: Option<Instant>,
}

impl LinkDirection {
    /// Accepts a frame, or loses it.
    fn take(&mut self, frame: &[u8], link: &Link, now: Instant, chance: &mut SplitMix) {
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
        let is_close = !link.close.is_zero() && has_fin(frame);
        let mut frame: Box<[u8]> = frame.into();
        if chance.share() < link.corrupt {
            corrupt(&mut frame, chance);
        }
        let arrives = if chance.share() < link.reorder {
            sent
        } else {
            let arrives = sent + link.delay - link.jitter + link.jitter.mul_f64(2.0 * chance.share());
            let arrives = self.last.map_or(arrives, |last| arrives.max(last));
            self.last = Some(arrives);
            arrives
        };
        let arrives = if is_close { arrives + link.close } else { arrives };
        let at = self.underway.partition_point(|(other, _)| *other <= arrives);
        if chance.share() < link.duplicate {
            self.bytes += frame.len();
            self.underway.insert(at, (arrives, frame.clone()));
        }
        self.bytes += frame.len();
        self.underway.insert(at, (arrives, frame));
    }

    /// Sends the frames that have arrived, and returns the next arrival time.
    fn send(&mut self, to: &OwnedFd, now: Instant) -> Option<Instant> {
        while self.underway.front().is_some_and(|(arrives, _)| *arrives <= now) {
            let Some((_, frame)) = self.underway.pop_front() else { break };
            self.bytes -= frame.len();
            // A full queue drops frames, as in any switch.
            let _ = rustix::net::send(to, &frame, SendFlags::empty());
        }
        self.underway.front().map(|(arrives, _)| *arrives)
    }

    /// Sends all frames in transit, whatever their arrival times.
    fn send_all(&mut self, to: &OwnedFd) {
        for (_, frame) in std::mem::take(self).underway {
            let _ = rustix::net::send(to, &frame, SendFlags::empty());
        }
    }
}

/// Returns true for a TCP packet with FIN and without RST, which ends one direction of a connection.
fn has_fin(frame: &[u8]) -> bool {
    let flags = tcp_header(frame).and_then(|at| frame.get(at + TCP_FLAGS_AT));
    flags.is_some_and(|flags| flags & (FIN | RST) == FIN)
}

/// Returns the position of a frame's TCP header; `None` for other packets, and for fragments.
fn tcp_header(frame: &[u8]) -> Option<usize> {
    let ip = OFFLOAD_BYTES + ETHERNET_BYTES;
    let number = |at: usize| Some(u16::from_be_bytes(frame.get(at..at + 2)?.try_into().ok()?));
    let (protocol, at) = match ethernet_type(frame)? {
        IPV4 if number(ip + 6)? & IPV4_FRAGMENT == 0 => {
            let words = frame.get(ip)? & 0xf;
            (*frame.get(ip + 9)?, ip + usize::from(words) * 4)
        }
        IPV6 => {
            let (mut next, mut at) = (*frame.get(ip + 6)?, ip + IPV6_BYTES);
            while IPV6_OPTIONS.contains(&next) {
                let words = usize::from(*frame.get(at + 1)?) + 1;
                (next, at) = (*frame.get(at)?, at + words * 8);
            }
            (next, at)
        }
        _ => return None,
    };
    (i32::from(protocol) == libc::IPPROTO_TCP).then_some(at)
}

/// Flips one bit of a frame behind its Ethernet header.
fn corrupt(frame: &mut [u8], chance: &mut SplitMix) {
    complete_checksum(frame);
    let from = OFFLOAD_BYTES + ETHERNET_BYTES;
    if let Some(bytes) = frame.len().checked_sub(from).filter(|bytes| *bytes > 0) {
        frame[from + chance.below(bytes)] ^= 1 << chance.below(8);
    }
}

/// Calculates the checksum that the kernel has left to the network interface, as its `skb_checksum_help` does.
/// Otherwise the kernel would calculate it after the damage, or take the frame as correct. A frame of several segments
/// is too long afterwards, and lost.
fn complete_checksum(frame: &mut [u8]) {
    /// Flag `VIRTIO_NET_HDR_F_NEEDS_CSUM`.
    const NEEDS_CHECKSUM: u8 = 1;
    let Some((head, packet)) = frame.split_at_mut_checked(OFFLOAD_BYTES) else { return };
    if head[0] & NEEDS_CHECKSUM == 0 {
        return;
    }
    let number = |at: usize| usize::from(u16::from_ne_bytes([head[at], head[at + 1]]));
    let (start, place) = (number(6), number(6) + number(8));
    head.fill(0);
    if place + 2 > packet.len() {
        return;
    }
    // Where the checksum is to be, the kernel has put the sum of the pseudo-header.
    let words = packet[start..].chunks(2).map(|pair| u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
    let mut sum: u64 = words.map(u64::from).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    // For UDP, 0 means that there is no checksum.
    let checksum = match !(sum as u16) {
        0 => 0xffff,
        checksum => checksum,
    };
    packet[place..place + 2].copy_from_slice(&checksum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: Link = Link { loss: 0.0, ..Link::CUT };

    #[test]
    fn look_ups_of_addresses_pass_a_cut_in_one_direction_and_no_other_cut() {
        let frame = |kind: u16| [&[0_u8; OFFLOAD_BYTES + 12][..], &kind.to_be_bytes(), &[0; 46]].concat();
        let is_let_through = |kind, ways| passes(&frame(kind), &Link { ways, ..Link::CUT }, None);
        for ways in [LinkWays::In, LinkWays::Out] {
            assert!(is_let_through(ARP, ways) && !is_let_through(IPV4, ways), "{ways:?}");
        }
        assert!(!is_let_through(ARP, LinkWays::Both));
        assert!(!passes(&[0; 5], &Link { ways: LinkWays::In, ..Link::CUT }, None), "a frame without a type");
    }

    /// Returns the frames in transit after `count` frames of 60 bytes, which begin with their numbers.
    fn underway(link: Link, count: u8) -> Vec<Box<[u8]>> {
        let (mut way, mut chance, now) = (LinkDirection::default(), SplitMix::new(7), Instant::now());
        for number in 0..count {
            let mut frame = [0; OFFLOAD_BYTES + 60];
            frame[OFFLOAD_BYTES] = number;
            way.take(&frame, &link, now, &mut chance);
        }
        let times: Vec<Instant> = way.underway.iter().map(|(arrives, _)| *arrives).collect();
        assert!(times.is_sorted() && way.bytes == way.underway.iter().map(|(_, frame)| frame.len()).sum::<usize>());
        way.underway.into_iter().map(|(_, frame)| frame).collect()
    }

    #[test]
    fn frames_are_duplicated_and_overtake_others_by_their_shares() {
        let twice = underway(Link { duplicate: 0.3, ..LINK }, 200);
        assert!((230..=290).contains(&twice.len()) && twice.is_sorted(), "{}", twice.len());
        let delay = Duration::from_millis(5);
        let mixed = underway(Link { reorder: 0.3, delay, ..LINK }, 200);
        let late = mixed.windows(2).position(|pair| pair[0] > pair[1]).unwrap() + 1;
        assert!((30..=90).contains(&late) && mixed.len() == 200, "{late} frames were before the others");
        assert!(mixed[..late].is_sorted() && mixed[late..].is_sorted());
        assert!(underway(Link { delay, ..LINK }, 200).is_sorted());
    }

    const TCP: u8 = libc::IPPROTO_TCP as u8;
    const ACK: u8 = 0x10;

    /// Returns a frame with these IP headers, and a TCP header with `flags` behind them.
    fn packet(kind: u16, headers: &[u8], flags: u8) -> Vec<u8> {
        let mut frame = vec![0; OFFLOAD_BYTES + ETHERNET_BYTES - 2];
        frame.extend(kind.to_be_bytes());
        frame.extend(headers);
        let mut tcp = [0; 20];
        tcp[TCP_FLAGS_AT] = flags;
        frame.extend(tcp);
        frame
    }

    /// Returns an IPv4 header of so many words, with the field of fragments.
    fn ipv4(words: u8, fragment: u16, protocol: u8) -> Vec<u8> {
        let mut header = vec![0; usize::from(words) * 4];
        (header[0], header[9]) = (0x40 | words, protocol);
        header[6..8].copy_from_slice(&fragment.to_be_bytes());
        header
    }

    /// Returns an IPv6 header, with more headers behind it: their numbers, and their lengths beyond 8 bytes.
    fn ipv6(more: &[(u8, u8)], protocol: u8) -> Vec<u8> {
        let mut header = vec![0; IPV6_BYTES];
        header[0] = 0x60;
        let mut next = 6;
        for (number, words) in more {
            header[next] = *number;
            next = header.len();
            header.extend([0, *words, 0, 0, 0, 0, 0, 0]);
            header.extend(vec![0xff; usize::from(*words) * 8]);
        }
        header[next] = protocol;
        header
    }

    #[test]
    fn packets_with_fin_are_recognised_by_their_headers() {
        let dont_fragment = 0x4000;
        for headers in [ipv4(5, dont_fragment, TCP), ipv4(5, 0, TCP), ipv4(15, dont_fragment, TCP)] {
            assert!(has_fin(&packet(IPV4, &headers, FIN | ACK)), "{headers:?}");
            for flags in [ACK, ACK | 8, FIN | RST, RST | ACK, 2] {
                assert!(!has_fin(&packet(IPV4, &headers, flags)), "{headers:?}, flags {flags}");
            }
        }
        for headers in [ipv6(&[], TCP), ipv6(&[(0, 0)], TCP), ipv6(&[(0, 1), (43, 2), (60, 0)], TCP)] {
            assert!(has_fin(&packet(IPV6, &headers, FIN)), "{headers:?}");
            assert!(!has_fin(&packet(IPV6, &headers, ACK)), "{headers:?}");
        }
    }

    #[test]
    fn other_packets_and_fragments_have_no_fin() {
        const UDP: u8 = libc::IPPROTO_UDP as u8;
        for (kind, headers) in [
            (IPV4, ipv4(5, 0, UDP)),
            // The first fragment, and a later one.
            (IPV4, ipv4(5, 0x2000, TCP)),
            (IPV4, ipv4(5, 185, TCP)),
            (IPV6, ipv6(&[], UDP)),
            (IPV6, ipv6(&[(44, 0)], TCP)),
            (libc::ETH_P_ARP as u16, ipv4(5, 0, TCP)),
        ] {
            assert!(!has_fin(&packet(kind, &headers, FIN)), "{kind:x}, {headers:?}");
        }
        for (kind, headers) in [(IPV4, ipv4(15, 0, TCP)), (IPV6, ipv6(&[(0, 3)], TCP))] {
            let whole = packet(kind, &headers, FIN);
            let shortest = whole.len() - 20 + TCP_FLAGS_AT + 1;
            assert!((0..whole.len()).all(|length| has_fin(&whole[..length]) == (length >= shortest)));
        }
    }

    #[test]
    fn packets_with_fin_are_late_and_hold_no_others_up() {
        let (mut way, mut chance, now) = (LinkDirection::default(), SplitMix::new(7), Instant::now());
        let (delay, close) = (Duration::from_millis(5), Duration::from_secs(2));
        let link = Link { delay, close, ..LINK };
        for (turn, flags) in [FIN | ACK, ACK, RST, ACK].into_iter().enumerate() {
            let at = now + Duration::from_millis(turn as u64);
            way.take(&packet(IPV4, &ipv4(5, 0, TCP), flags), &link, at, &mut chance);
        }
        let seen = way.underway.iter().map(|(arrives, frame)| (*arrives - now, has_fin(frame))).collect::<Vec<_>>();
        let ms = Duration::from_millis;
        assert_eq!(seen, [(ms(6), false), (ms(7), false), (ms(8), false), (ms(2_005), true)]);
    }

    #[test]
    fn frames_of_a_host_are_told_from_others_by_their_addresses() {
        let frame = |kind: u8, place: usize, address: [u8; 4]| {
            let mut frame = [0; OFFLOAD_BYTES + 60];
            frame[OFFLOAD_BYTES + 12..OFFLOAD_BYTES + 14].copy_from_slice(&[0x08, kind]);
            let at = OFFLOAD_BYTES + ETHERNET_BYTES + place;
            frame[at..at + 4].copy_from_slice(&address);
            frame
        };
        let [address, client] = [crate::hosts::LOAD, crate::hosts::client_host(1)];
        let [load, client, other] = [address, client, Ipv4Addr::new(10, 77, 0, 1)].map(Peer::Host);
        for (kind, place) in [(0x00, 12), (0x00, 16), (0x06, 14), (0x06, 24)] {
            let of_load = frame(kind, place, address.octets());
            assert!(is_of(&of_load, load) && !is_of(&of_load, other), "{kind} {place}");
            let is_passed = |peer| passes(&of_load, &Link::CUT, peer);
            assert!(is_passed(Some(other)) && !is_passed(Some(load)) && !is_passed(None), "{kind} {place}");
            assert!(is_passed(Some(client)) && !is_passed(Some(Peer::Clients)), "{kind} {place}");
            let of_node = frame(kind, place, [10, 77, 0, 1]);
            assert!(is_of(&of_node, other) && !is_of(&of_node, Peer::Clients), "{kind} {place}");
        }
        assert!(!is_of(&frame(0x00, 20, address.octets()), load) && !is_of(&[0; 12], load) && !is_of(&[], load));
    }

    #[test]
    fn a_corrupted_frame_differs_by_one_bit_from_one_with_its_checksum() {
        // A UDP datagram of 6 bytes behind headers of 14 and 20 bytes; 0x1234 is the sum of its pseudo-header.
        let mut frame = vec![0; OFFLOAD_BYTES + 48];
        frame[0] = 1;
        frame[6..8].copy_from_slice(&34_u16.to_ne_bytes());
        frame[8..10].copy_from_slice(&6_u16.to_ne_bytes());
        frame[OFFLOAD_BYTES + 40..OFFLOAD_BYTES + 42].copy_from_slice(&[0x12, 0x34]);
        frame[OFFLOAD_BYTES + 42..].copy_from_slice(b"abcdef");
        let mut whole = frame.clone();
        complete_checksum(&mut whole);
        let words = whole[OFFLOAD_BYTES + 34..].chunks(2).map(|pair| u64::from(u16::from_be_bytes([pair[0], pair[1]])));
        // With the pseudo-header, the sum of all words is 0xffff.
        let sum = words.sum::<u64>() + 0x1234;
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
        assert!(whole[..OFFLOAD_BYTES].iter().all(|byte| *byte == 0));
        corrupt(&mut frame, &mut SplitMix::new(1));
        let bits: u32 = frame.iter().zip(&whole).map(|(one, other)| (one ^ other).count_ones()).sum();
        assert_eq!(bits, 1);
    }
}
