//! Connecting without blocking: to all addresses of a host, one after the other.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::net::TcpStream;
use tokio::net::unix::pipe;

/// Time after which the next address is tried beside those before: the default of RFC 8305, section 5.
const NEXT_AFTER: Duration = Duration::from_millis(250);

type Attempt<'a> = Pin<Box<dyn Future<Output = io::Result<TcpStream>> + 'a>>;

/// Event of the attempts that have begun.
enum Turn {
    Connected(TcpStream),
    Failed(io::Error),
    /// No attempt has ended within [`NEXT_AFTER`].
    Late,
}

/// Connects to the first of `addresses` that accepts. An address that fails, or does not answer, is followed by the next.
/// The executor limits the whole time.
///
/// # Errors
/// The operating system's, of the address that failed last.
pub(super) async fn reach(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let mut left = addresses.iter();
    let mut begun: Vec<Attempt<'_>> = Vec::with_capacity(addresses.len());
    loop {
        match left.next() {
            Some(address) => begun.push(Box::pin(TcpStream::connect(*address))),
            None if begun.is_empty() => return Err(failure),
            None => {}
        }
        let alarm = if left.len() > 0 { Some(alarm(NEXT_AFTER)?) } else { None };
        match turn(&mut begun, alarm.as_ref()).await {
            Turn::Connected(socket) => {
                socket.set_nodelay(true)?;
                return Ok(socket);
            }
            Turn::Failed(error) => failure = error,
            Turn::Late => {}
        }
    }
}

async fn turn(begun: &mut Vec<Attempt<'_>>, alarm: Option<&pipe::Receiver>) -> Turn {
    poll_fn(|context| {
        let ended = begun.iter_mut().enumerate().find_map(|(at, attempt)| match attempt.as_mut().poll(context) {
            Poll::Ready(result) => Some((at, result)),
            Poll::Pending => None,
        });
        match ended {
            Some((_, Ok(socket))) => return Poll::Ready(Turn::Connected(socket)),
            Some((at, Err(error))) => {
                drop(begun.remove(at));
                return Poll::Ready(Turn::Failed(error));
            }
            None => {}
        }
        match alarm.map(|alarm| alarm.poll_read_ready(context)) {
            Some(Poll::Ready(_)) => Poll::Ready(Turn::Late),
            _ => Poll::Pending,
        }
    })
    .await
}

/// Returns a timer that becomes readable after `time`. The runtime of sessions has sockets and no timers.
fn alarm(time: Duration) -> io::Result<pipe::Receiver> {
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
    let once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let after = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
    let value = Itimerspec { it_interval: once, it_value: after };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &value)?;
    pipe::Receiver::from_owned_fd_unchecked(timer)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::Instant;

    use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};

    use super::*;

    fn reached(addresses: &[SocketAddr]) -> io::Result<SocketAddr> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async { reach(addresses).await?.peer_addr() })
    }

    #[test]
    fn an_address_that_refuses_or_is_silent_is_followed_by_the_next() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let good = listener.local_addr().unwrap();
        let refuses = SocketAddr::from(([127, 0, 0, 2], good.port()));
        assert_eq!(reached(&[refuses, good]).unwrap(), good);
        assert_eq!(reached(&[refuses, refuses]).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(reached(&[]).unwrap_err().kind(), io::ErrorKind::NotFound);
        // A listener whose queue is full: the kernel does not answer.
        let full = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&full, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        listen(&full, 0).unwrap();
        let silent = SocketAddr::try_from(getsockname(&full).unwrap()).unwrap();
        let _queued = std::net::TcpStream::connect(silent).unwrap();
        let began = Instant::now();
        assert_eq!(reached(&[silent, good]).unwrap(), good);
        let waited = began.elapsed();
        assert!((NEXT_AFTER..NEXT_AFTER * 8).contains(&waited), "{waited:?}");
    }
}
