//! Bytes to and from a server, one connection, with a bound on how long it may be silent.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use plimsoll_core::{Address, StoreError, StoreErrorKind, Waits, waits};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::connect::connect;
use crate::tls::Tls;

/// Received at once; a message that is longer makes the buffer grow.
const INPUT_BYTES: usize = 256 << 10;

/// Limit of the time for a whole answer that arrives slowly, as a multiple of the permitted silence.
const DRIPS_MAX: u32 = 4;

/// Takes bytes and says how many of them it used; what it appends is sent.
type Feed<'f> = &'f mut dyn FnMut(&[u8], &mut Vec<u8>) -> usize;

/// A connection to a server. It cannot be used after an error.
pub struct Channel {
    socket: OwnedFd,
    /// TLS, if it begins with the first byte.
    tls: Option<Tls>,
    place: String,
    /// Bytes to send, and how many of them have been.
    out: Vec<u8>,
    sent: usize,
    /// Bytes received and not used yet are the first `filled` ones.
    input: Vec<u8>,
    filled: usize,
    waits: Waits,
    /// A long piece of work is asked: the server may be silent for longer.
    works: bool,
    /// Time of the last write or other progress.
    quiet_since: Instant,
    /// Time of the last write.
    asked_at: Instant,
    /// Time at which the partial input began to arrive.
    began_at: Instant,
    /// Time at which the user's wish to end was first seen.
    stopped_at: Option<Instant>,
    /// The server has said something.
    has_spoken: bool,
    /// True after a failure.
    is_lost: bool,
}

impl Channel {
    /// Connects. `place` names the server in messages. Connecting takes no longer than [`Waits::answer`], and so may the
    /// server be silent afterwards, but over long work ([`Channel::set_works`]).
    ///
    /// # Errors
    /// `Unreachable`, `Interrupted`, or `Permission` where a socket is not for us.
    pub fn connect(address: &Address, place: &str, waits: impl Into<Waits>) -> Result<Channel, StoreError> {
        let waits = waits.into();
        let socket = connect(address, &waits).map_err(|error| match waits.check() {
            Err(interrupted) if error.kind() == io::ErrorKind::Interrupted => interrupted,
            _ => nobody(&error, place),
        })?;
        Ok(Channel {
            socket,
            tls: None,
            place: place.to_owned(),
            out: Vec::new(),
            sent: 0,
            input: vec![0; INPUT_BYTES],
            filled: 0,
            waits,
            works: false,
            quiet_since: Instant::now(),
            asked_at: Instant::now(),
            began_at: Instant::now(),
            stopped_at: None,
            has_spoken: false,
            is_lost: false,
        })
    }

    /// Begins TLS. All that is written from now on goes through it.
    pub fn encrypt(&mut self, tls: Tls) {
        self.tls = Some(tls.begin(Vec::new(), &mut self.out));
    }

    /// Sets how long the server may be silent from now on.
    pub fn set_waits(&mut self, waits: Waits) {
        self.waits = waits;
    }

    /// Sets if the following requests are long work, during which the server may be silent for [`Waits::work`].
    pub fn set_works(&mut self, works: bool) {
        self.works = works;
    }

    /// Names the server in messages.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Calls `write` with the buffer that the next turns send.
    pub fn write(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.asked_at = Instant::now();
        self.quiet_since = self.asked_at;
        match &mut self.tls {
            None => write(&mut self.out),
            Some(tls) => {
                write(&mut tls.written);
                tls.encrypt(&mut self.out);
            }
        }
    }

    /// True when something has arrived, be it the end of the connection, or it was lost before.
    pub fn has_news(&mut self) -> bool {
        if self.is_lost {
            return true;
        }
        self.asked_at = Instant::now();
        self.quiet_since = self.asked_at;
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|count| count > 0)
    }

    /// Waits for the socket once, sends what can be sent, and hands over what has arrived. `feed` is offered again what
    /// it has not used.
    ///
    /// # Errors
    /// `Unreachable`, when the connection is lost, or the server silent for too long; `Interrupted`; or as TLS says.
    pub fn turn(&mut self, feed: Feed<'_>) -> Result<(), StoreError> {
        let turned = self.try_turn(feed);
        self.is_lost |= turned.is_err();
        turned
    }

    fn try_turn(&mut self, feed: Feed<'_>) -> Result<(), StoreError> {
        let ready = self.wait()?;
        let mut moved = false;
        if ready.intersects(PollFlags::OUT) {
            moved |= self.send();
        }
        if ready.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            moved |= self.receive(feed)?;
        }
        if moved {
            self.quiet_since = Instant::now();
        }
        Ok(())
    }

    /// Sends what the socket takes at once, as a last word.
    pub fn send_what_can_be(&mut self) {
        if self.sent < self.out.len() {
            self.send();
        }
    }

    fn wait(&mut self) -> Result<PollFlags, StoreError> {
        if self.waits.is_stopped() && self.stopped_at.get_or_insert_with(Instant::now).elapsed() >= self.waits.grace() {
            return Err(waits::interrupted().detail(format!("while waiting for {}", self.place)));
        }
        let is_amid = self.is_amid();
        let may_work = self.works && self.has_spoken;
        let (bound, key) = match may_work && !is_amid {
            true => (self.waits.work(), "work_timeout"),
            false => (self.waits.answer(), "setup_timeout"),
        };
        // Before the whole time, which is over as well where this thread had to wait for a processor.
        let Some(left) = bound.checked_sub(self.quiet_since.elapsed()) else {
            return Err(self.silent(bound, key, is_amid));
        };
        if may_work {
            self.check_drips(self.asked_at, self.waits.work(), "work_timeout")?;
        }
        // Where work was asked, its answer may begin long after the question.
        self.check_drips(if may_work && is_amid { self.began_at } else { self.asked_at }, bound, key)?;
        let left = left.min(waits::TICK);
        let pending = self.sent < self.out.len();
        let flags = if pending { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let mut fds = [PollFd::new(&self.socket, flags)];
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        match poll(&mut fds, Some(&left)) {
            Ok(_) => Ok(fds[0].revents()),
            Err(Errno::INTR) => Ok(PollFlags::empty()),
            Err(error) => Err(self.lost(error)),
        }
    }

    /// True when something has arrived whose rest has not.
    fn is_amid(&self) -> bool {
        self.filled > 0 || self.tls.as_ref().is_some_and(Tls::is_amid)
    }

    /// Fails where what goes on since `since` has taken longer than anything may of which a little is said now and then.
    fn check_drips(&self, since: Instant, bound: Duration, key: &str) -> Result<(), StoreError> {
        let longest = bound * DRIPS_MAX;
        if since.elapsed() <= longest {
            return Ok(());
        }
        let what = format!("{} did not finish its answer within {} s", self.place, longest.as_secs_f64());
        let next = format!("Check the network; if it only needs longer, raise `{key}`.");
        Err(self.unreachable(what).next(next))
    }

    /// True when something was sent.
    fn send(&mut self) -> bool {
        let moved = match send(&self.socket, &self.out[self.sent..], SendFlags::NOSIGNAL) {
            Ok(count) => {
                self.sent += count;
                true
            }
            Err(Errno::AGAIN | Errno::INTR) => false,
            // The server may have said why before it closed: read that first.
            Err(_) => {
                self.sent = self.out.len();
                false
            }
        };
        if self.sent == self.out.len() {
            self.out.clear();
            self.sent = 0;
        }
        moved
    }

    /// True when something arrived.
    fn receive(&mut self, feed: Feed<'_>) -> Result<bool, StoreError> {
        if self.filled == self.input.len() {
            self.input.resize(self.input.len() * 2, 0);
        }
        let was_amid = self.is_amid();
        let mut has_used = false;
        let feed: Feed<'_> = &mut |bytes, out| {
            let used = feed(bytes, out);
            has_used |= used > 0;
            used
        };
        match recv(&self.socket, &mut self.input[self.filled..], RecvFlags::empty()) {
            Ok((_, 0)) => Err(self.unreachable(format!("{} closed the connection", self.place))),
            Ok((_, count)) => {
                self.has_spoken = true;
                self.filled += count;
                let arrived = &self.input[..self.filled];
                let used = match &mut self.tls {
                    None => feed(arrived, &mut self.out),
                    Some(tls) => {
                        let decrypted = tls.decrypt(arrived, &mut self.out);
                        // What was said before an error is heard first.
                        tls.hand_over(&mut self.out, feed);
                        decrypted?;
                        arrived.len()
                    }
                };
                self.input.copy_within(used..self.filled, 0);
                self.filled -= used;
                if has_used || !was_amid {
                    self.began_at = Instant::now();
                }
                Ok(true)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(error) => Err(self.lost(error)),
        }
    }

    fn lost(&self, error: Errno) -> StoreError {
        let error = io::Error::from(error);
        self.unreachable(format!("the connection to {} was lost: {error}", self.place))
    }

    fn silent(&self, bound: Duration, key: &str, is_amid: bool) -> StoreError {
        let seconds = bound.as_secs_f64();
        let what = match is_amid {
            true => format!("{} has been silent for {seconds} s in the middle of an answer", self.place),
            false => format!("{} has not answered for {seconds} s", self.place),
        };
        let error = self.unreachable(what);
        match self.has_spoken {
            true => error.next(format!("Check the server's log; if it only needs longer, raise `{key}`.")),
            false => error,
        }
    }

    /// Returns the error for a server that has never sent a byte: its protocol is unknown.
    fn unreachable(&self, what: String) -> StoreError {
        let error = StoreError::new(StoreErrorKind::Unreachable, what);
        match self.has_spoken {
            true => error.next("Check the server's log."),
            false => error.next(
                "Check scheme, host and port: another program may listen there, or the same one with TLS where the URL has \
                 none, or without.",
            ),
        }
    }
}

fn nobody(error: &io::Error, place: &str) -> StoreError {
    let denied = error.kind() == io::ErrorKind::PermissionDenied;
    let kind = if denied { StoreErrorKind::Permission } else { StoreErrorKind::Unreachable };
    let next = match error.kind() {
        io::ErrorKind::TimedOut => "; if it only needs longer, raise `setup_timeout`",
        _ => "",
    };
    StoreError::new(kind, format!("cannot connect to {place}"))
        .detail(error.to_string())
        .next(format!("Check host, port or socket, and that the server runs and listens there{next}."))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Asks long work of a listener that does not speak, with a minute for it; what comes of it.
    fn ask(listener: &TcpListener, meanwhile: impl FnOnce()) -> StoreError {
        let port = listener.local_addr().unwrap().port();
        let address = Address::Tcp("127.0.0.1".to_owned(), port);
        let waits = Waits::new(Duration::from_millis(100), Duration::from_secs(60), std::sync::Arc::default());
        let mut channel = Channel::connect(&address, "store://there", waits).unwrap();
        channel.set_works(true);
        channel.write(|out| out.extend_from_slice(b"hello"));
        meanwhile();
        loop {
            if let Err(error) = channel.turn(&mut |bytes, _| bytes.len()) {
                return error;
            }
        }
    }

    #[test]
    fn who_never_says_a_word_is_waited_for_as_long_as_connecting_may_take() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let started = Instant::now();
        let error = ask(&listener, || {});
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
        assert_eq!(error.what, "store://there has not answered for 0.1 s");
        assert!(error.next.unwrap().starts_with("Check scheme, host and port"));
    }

    #[test]
    fn who_closes_without_a_word_may_be_another_program() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let error = ask(&listener, || drop(listener.accept().unwrap()));
        assert_eq!(error.kind, StoreErrorKind::Unreachable);
        assert!(error.next.unwrap().starts_with("Check scheme, host and port"), "{}", error.what);
    }

    /// Returns a listener, its end of a connection, and a channel that has received a greeting and has these limits now.
    fn after_a_word(waits: Waits) -> (TcpListener, std::net::TcpStream, Channel) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Tcp("127.0.0.1".to_owned(), listener.local_addr().unwrap().port());
        let mut channel = Channel::connect(&address, "store://there", Waits::default()).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        std::io::Write::write_all(&mut peer, b"a word").unwrap();
        let mut heard = 0;
        while heard < 6 {
            channel
                .turn(&mut |bytes, _| {
                    heard += bytes.len();
                    bytes.len()
                })
                .unwrap();
        }
        channel.set_waits(waits);
        (listener, peer, channel)
    }

    /// Turns until something ends it; of what arrives nothing is used.
    fn error_of(channel: &mut Channel) -> StoreError {
        loop {
            if let Err(error) = channel.turn(&mut |_, _| 0) {
                return error;
            }
        }
    }

    #[test]
    fn who_has_work_to_do_has_the_time_of_work_and_no_more() {
        let stop = std::sync::Arc::default();
        let waits = Waits::new(Duration::from_millis(100), Duration::from_millis(600), stop);
        let (_listener, _peer, mut channel) = after_a_word(waits);
        channel.set_works(true);
        channel.write(|out| out.extend_from_slice(b"more"));
        let error = error_of(&mut channel);
        assert_eq!(error.what, "store://there has not answered for 0.6 s");
        assert!(error.next.unwrap().ends_with("raise `work_timeout`."));
    }

    #[test]
    fn an_answer_that_begins_late_after_long_work_may_come_in_two_parts() {
        let answer = Duration::from_millis(900);
        let waits = Waits::new(answer, Duration::from_secs(600), std::sync::Arc::default());
        let (_listener, mut peer, mut channel) = after_a_word(waits);
        channel.set_works(true);
        channel.write(|out| out.extend_from_slice(b"more"));
        let saying = std::thread::spawn(move || {
            std::thread::sleep(answer * (DRIPS_MAX + 1));
            std::io::Write::write_all(&mut peer, b"ha").unwrap();
            std::thread::sleep(answer / 9);
            std::io::Write::write_all(&mut peer, b"lf").unwrap();
            peer
        });
        let mut is_whole = false;
        while !is_whole {
            channel
                .turn(&mut |bytes, _| {
                    is_whole = bytes == b"half";
                    if is_whole { bytes.len() } else { 0 }
                })
                .unwrap();
        }
        drop(saying.join().unwrap());
    }

    #[test]
    fn what_drips_after_long_work_is_not_listened_to_for_as_long_as_work() {
        let answer = Duration::from_millis(900);
        let waits = Waits::new(answer, Duration::from_secs(600), std::sync::Arc::default());
        let (_listener, mut peer, mut channel) = after_a_word(waits);
        channel.set_works(true);
        channel.write(|out| out.extend_from_slice(b"more"));
        std::thread::spawn(move || {
            while std::io::Write::write_all(&mut peer, b"h").is_ok() {
                std::thread::sleep(answer / 20);
            }
        });
        let error = error_of(&mut channel);
        assert_eq!(error.what, "store://there did not finish its answer within 3.6 s");
        assert!(error.next.unwrap().ends_with("raise `setup_timeout`."));
    }

    #[test]
    fn half_an_answer_is_not_waited_for_as_long_as_work() {
        let waits = Waits::new(Duration::from_millis(100), Duration::from_secs(600), std::sync::Arc::default());
        let (_listener, mut peer, mut channel) = after_a_word(waits);
        channel.set_works(true);
        channel.write(|out| out.extend_from_slice(b"more"));
        std::io::Write::write_all(&mut peer, b"ha").unwrap();
        let error = error_of(&mut channel);
        assert_eq!(error.what, "store://there has been silent for 0.1 s in the middle of an answer");
    }

    #[test]
    fn a_wish_to_stop_ends_a_wait() {
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let (_listener, _peer, mut channel) =
            after_a_word(Waits::new(Duration::from_secs(600), Duration::from_secs(600), stop.clone()));
        channel.write(|out| out.extend_from_slice(b"more"));
        stop.store(true, std::sync::atomic::Ordering::SeqCst);
        let started = Instant::now();
        assert_eq!(error_of(&mut channel).kind, StoreErrorKind::Interrupted);
        assert!(started.elapsed() < Duration::from_secs(20));
    }
}
