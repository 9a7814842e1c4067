//! Traffic of a noisy neighbour: a TCP connection between a node's host and the load host, full in both directions.
//!
//! TCP takes its share of a link, as other services do. Datagrams at a fixed rate would leave nothing of a slower link.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt;

use crate::hosts::{LOAD, enter_at, go_into};
use crate::supervisor::readable;

/// Longest time to connect.
const CONNECT_BOUND: Duration = Duration::from_secs(4);
/// Longest time to connect before the neighbour counts as begun: long enough for a slow link.
const BEGIN_BOUND: Duration = Duration::from_secs(2);
/// Longest time without an acknowledgement, in milliseconds. Otherwise a connection would be silent for as long again
/// after a cut.
const SILENCE_MS_MAX: u32 = 5_000;
/// Time after which a broken connection is made again.
const AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Number of writes a second, as far as their sizes allow.
const WRITES_PER_S: u64 = 100;
/// Sizes of a write.
const WRITE_BYTES_MIN: usize = 1_000;
const WRITE_BYTES_MAX: usize = 64 << 10;
/// Longest delay of a write that later writes make up for.
const LATE_MAX: Duration = Duration::from_millis(100);

/// Connection of a neighbour.
pub(super) struct Traffic {
    /// Listener in the network of the load host.
    listener: TcpListener,
    /// End in the node's host, and end in the load host; `None` while the link carries nothing.
    ends: Option<[TcpStream; 2]>,
    /// Bits a second in each direction; 0 for as many as the link carries.
    rate_bits_per_s: u64,
}

impl Traffic {
    /// Moves the calling thread into the network namespace `node` of a host, and connects to the load host, whose
    /// namespace is `load`. If the link is cut, [`Traffic::run`] connects later.
    pub(super) fn begin(rate_bits_per_s: u64, node: &Path, load: &Path) -> io::Result<Self> {
        let listener = {
            let _there = enter_at(load)?;
            TcpListener::bind((LOAD, 0))?
        };
        go_into(File::open(node)?.as_fd())?;
        let ends = match connect(&listener, BEGIN_BOUND) {
            Err(error) if is_silence(&error) => None,
            connected => Some(connected?),
        };
        Ok(Self { listener, ends, rate_bits_per_s })
    }

    /// Sends in both directions until the process ends. A connection that breaks is made again.
    pub(super) fn run(self) {
        let Self { listener, mut ends, rate_bits_per_s } = self;
        loop {
            if let Some(ends) = ends.take().or_else(|| connect(&listener, CONNECT_BOUND).ok()) {
                fill(&ends, rate_bits_per_s);
            }
            thread::sleep(AGAIN_AFTER);
        }
    }
}

/// Returns true for the error of a connection over a link that carries nothing.
fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::HostUnreachable)
}

/// Connects from the calling thread's network to the listener, within `bound`. Returns both ends.
fn connect(listener: &TcpListener, bound: Duration) -> io::Result<[TcpStream; 2]> {
    let from_node = TcpStream::connect_timeout(&listener.local_addr()?, bound)?;
    loop {
        if !readable(listener, bound)? {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let (from_load, peer) = listener.accept()?;
        // Otherwise it is a connection of an earlier attempt.
        if peer == from_node.local_addr()? {
            let ends = [from_node, from_load];
            for end in &ends {
                sockopt::set_tcp_user_timeout(end, SILENCE_MS_MAX)?;
                // So that unsent bytes end with the process.
                sockopt::set_socket_linger(end, Some(Duration::ZERO))?;
            }
            return Ok(ends);
        }
    }
}

/// Sends from each end to the other until the connection breaks.
fn fill(ends: &[TcpStream; 2], rate_bits_per_s: u64) {
    let close = || ends.iter().for_each(|end| drop(end.shutdown(Shutdown::Both)));
    thread::scope(|scope| {
        for end in ends {
            scope.spawn(move || {
                let _ = send(end, rate_bits_per_s);
                close();
            });
            scope.spawn(move || {
                let _ = receive(end);
                close();
            });
        }
    });
}

fn send(mut to: &TcpStream, rate_bits_per_s: u64) -> io::Result<()> {
    let (bytes, pause) = write_of(rate_bits_per_s);
    let block = vec![0; bytes];
    let mut due = Instant::now();
    loop {
        to.write_all(&block)?;
        let now = Instant::now();
        due = (due + pause).max(now.checked_sub(LATE_MAX).unwrap_or(now));
        thread::sleep(due.saturating_duration_since(now));
    }
}

/// Returns the size of a write, and the time from one to the next.
fn write_of(rate_bits_per_s: u64) -> (usize, Duration) {
    if rate_bits_per_s == 0 {
        return (WRITE_BYTES_MAX, Duration::ZERO);
    }
    let bytes = usize::try_from(rate_bits_per_s / 8 / WRITES_PER_S).unwrap_or(WRITE_BYTES_MAX);
    let bytes = bytes.clamp(WRITE_BYTES_MIN, WRITE_BYTES_MAX);
    (bytes, Duration::from_secs_f64(bytes as f64 * 8.0 / rate_bits_per_s as f64))
}

fn receive(mut from: &TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; WRITE_BYTES_MAX];
    while from.read(&mut buffer)? > 0 {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_have_the_rate_and_sizes_that_a_link_can_take() {
        for (rate_bits_per_s, bytes) in [(1_000, 1_000), (20_000_000, 25_000), (10_000_000_000, 64 << 10)] {
            let (size, pause) = write_of(rate_bits_per_s);
            let rate = size as f64 * 8.0 / pause.as_secs_f64();
            assert!(size == bytes && (rate / rate_bits_per_s as f64 - 1.0).abs() < 0.01, "{size} bytes, {rate} bit/s");
        }
        assert_eq!(write_of(0), (64 << 10, Duration::ZERO));
        assert_eq!(write_of(u64::MAX), (64 << 10, Duration::ZERO));
    }
}
