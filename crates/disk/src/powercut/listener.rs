//! The machine that keeps its power: it keeps which blocks were acknowledged, in a file that it flushes.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use plimsoll_core::{StoreError, StoreErrorKind};
use rustix::net::sockopt;

use super::{HELLO, LINE_BYTES, Run, unix_ms};
use crate::error::{at, failed};

/// Writers at a time.
const WRITERS: usize = 64;
/// Interval at which the listener checks if it must end.
const LOOK: Duration = Duration::from_millis(100);
/// The file gets no longer than this.
const FILE_BYTES: u64 = 1 << 30;

/// Listens, and has its file open.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    path: PathBuf,
    file: Mutex<(File, u64)>,
}

/// Binds to `address` and opens `path`, to which it appends.
pub fn listen(address: &str, path: &Path) -> Result<Listener, StoreError> {
    let file = open(path)?;
    let socket = TcpListener::bind(address).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => StoreError::usage(format!("{address}: {error}")).next("write ADDRESS:PORT"),
        _ => StoreError::io(address, &error),
    })?;
    at(address, socket.set_nonblocking(true))?;
    Ok(Listener { socket, path: path.to_owned(), file: Mutex::new(file) })
}

fn open(path: &Path) -> Result<(File, u64), StoreError> {
    let place = path.display();
    let mut file = at(place, OpenOptions::new().read(true).append(true).create(true).open(path))?;
    let place = path.display();
    let mut first = Vec::new();
    at(place, Read::by_ref(&mut file).take(4).read_to_end(&mut first))?;
    if !first.is_empty() && first != b"run " {
        let what = format!("{} is not a file of acknowledgements", path.display());
        return Err(StoreError::usage(what).next("name another file, or a new one"));
    }
    // Its name has to survive, too.
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    at(parent.display(), File::open(parent).and_then(|directory| directory.sync_all()))?;
    let length = at(path.display(), file.metadata())?.len();
    Ok((file, length))
}

impl Listener {
    /// Returns the address that the listener is bound to.
    pub fn address(&self) -> Result<SocketAddr, StoreError> {
        at("the socket", self.socket.local_addr())
    }

    /// Keeps what writers say until `stop`; `told` hears what happens.
    pub fn serve(&self, stop: &AtomicBool, told: &(dyn Fn(&str) + Sync)) -> Result<(), StoreError> {
        let (running, broken) = (AtomicUsize::new(0), Mutex::new(None));
        std::thread::scope(|scope| {
            while !stop.load(Ordering::Relaxed) {
                if let Some(error) = broken.lock().unwrap_or_else(PoisonError::into_inner).take() {
                    stop.store(true, Ordering::Relaxed);
                    return Err(error);
                }
                let (stream, from) = match self.socket.accept() {
                    Ok(accepted) => accepted,
                    // None waits, one has gone away already, or there are too many files open: it is tried again.
                    Err(_) => {
                        std::thread::sleep(LOOK);
                        continue;
                    }
                };
                if running.load(Ordering::Relaxed) >= WRITERS {
                    let _ = (&stream).write_all(b"no there are too many writers\n");
                    continue;
                }
                running.fetch_add(1, Ordering::Relaxed);
                let (running, broken) = (&running, &broken);
                let spawned = std::thread::Builder::new().name("writer".to_owned()).spawn_scoped(scope, move || {
                    let ended = BlockWriter::new(self, stream, from, stop).and_then(|mut writer| writer.attend(told));
                    match ended {
                        Err(Ended::Refused(why)) => told(&format!("{from}: refused: {why}")),
                        Err(Ended::Broken(error)) => {
                            *broken.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                        }
                        Ok(()) => {}
                    }
                    running.fetch_sub(1, Ordering::Relaxed);
                });
                if spawned.is_err() {
                    running.fetch_sub(1, Ordering::Relaxed);
                }
            }
            Ok(())
        })
    }

    /// Appends a line; when it returns, that is on the disk.
    fn keep(&self, line: &str) -> Result<(), StoreError> {
        let mut held = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, length) = &mut *held;
        *length += line.len() as u64 + 1;
        if *length > FILE_BYTES {
            let what = format!("{} has reached 1 GiB", self.path.display());
            return Err(StoreError::new(StoreErrorKind::DiskFull, what).next("use another file"));
        }
        let written = file.write_all(format!("{line}\n").as_bytes()).and_then(|()| file.sync_data());
        written.map_err(|error| failed(self.path.display(), &error))
    }
}

enum Ended {
    /// The writer sent something that cannot be parsed, or the connection broke.
    Refused(String),
    /// No more numbers can be stored.
    Broken(StoreError),
}

impl From<StoreError> for Ended {
    fn from(error: StoreError) -> Self {
        Ended::Broken(error)
    }
}

/// Reads look up from time to time, and a writer that lost its power, and so never says farewell, is noticed in half a minute.
fn set_up(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(LOOK))?;
    stream.set_write_timeout(Some(Duration::from_secs(10)))?;
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, Duration::from_secs(10))?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(5))?;
    Ok(sockopt::set_tcp_keepcnt(stream, 4)?)
}

/// A connection of a writer.
struct BlockWriter<'a> {
    listener: &'a Listener,
    lines: BufReader<TcpStream>,
    from: SocketAddr,
    stop: &'a AtomicBool,
    /// The beginning of a line whose rest has not come.
    line: Vec<u8>,
}

impl<'a> BlockWriter<'a> {
    fn new(listener: &'a Listener, stream: TcpStream, from: SocketAddr, stop: &'a AtomicBool) -> Result<Self, Ended> {
        set_up(&stream).map_err(|error| Ended::Refused(error.to_string()))?;
        Ok(Self { listener, lines: BufReader::new(stream), from, stop, line: Vec::new() })
    }

    fn attend(&mut self, told: &(dyn Fn(&str) + Sync)) -> Result<(), Ended> {
        let Some(hello) = self.line()? else { return Err(Ended::Refused("no greeting was sent".to_owned())) };
        let run = hello.strip_prefix(HELLO).and_then(|rest| Run::parse(rest.trim_start()));
        let Some(run) = run else { return self.refuse("this is not a writer of `plimsoll sync --report-to`") };
        self.listener.keep(&format!("run {run}"))?;
        self.answer("ok")?;
        told(&format!("{}: run {:016x} begins", self.from, run.id));
        let mut last = 0;
        loop {
            let Some(first) = self.line()? else {
                told(&format!(
                    "{}: run {:016x} has gone; the last block that it acknowledged is {last}",
                    self.from, run.id
                ));
                return Ok(());
            };
            // What has come by now is kept at once.
            let (mut newest, mut ended) = (last, false);
            let mut next = Some(first);
            while let Some(line) = next {
                match line.parse() {
                    _ if line == "end" => ended = true,
                    Ok(number) if number > newest && !ended => newest = number,
                    _ => return self.refuse("the number must be larger than the one before"),
                }
                next = if self.lines.buffer().contains(&b'\n') { self.line()? } else { None };
            }
            if newest > last {
                last = newest;
                self.listener.keep(&format!("ack {:016x} {last} {}", run.id, unix_ms()))?;
                // Who had its power cut hears nothing; what it said is kept.
                let _ = self.answer(&format!("kept {last}"));
            }
            if ended {
                self.listener.keep(&format!("end {:016x}", run.id))?;
                told(&format!("{}: run {:016x} ended after block {last}", self.from, run.id));
                return Ok(());
            }
        }
    }

    /// The next line; `None` at the end.
    fn line(&mut self) -> Result<Option<String>, Ended> {
        loop {
            let room = (LINE_BYTES - self.line.len()) as u64;
            match self.lines.by_ref().take(room).read_until(b'\n', &mut self.line) {
                Ok(_) if self.line.ends_with(b"\n") => {
                    self.line.pop();
                    let line = std::mem::take(&mut self.line);
                    return match String::from_utf8(line) {
                        Ok(line) => Ok(Some(line)),
                        Err(_) => self.refuse("the line must be text"),
                    };
                }
                Ok(_) if self.line.len() >= LINE_BYTES => return self.refuse("the line is too long"),
                // A piece of a line at the end is none.
                Ok(_) => return Ok(None),
                // Time to look up. A connection that broke says TimedOut.
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                    if self.stop.load(Ordering::Relaxed) {
                        return Ok(None);
                    }
                }
                Err(_) => return Ok(None),
            }
        }
    }

    fn answer(&mut self, text: &str) -> Result<(), Ended> {
        let sent = self.lines.get_mut().write_all(format!("{text}\n").as_bytes());
        sent.map_err(|error| Ended::Refused(error.to_string()))
    }

    fn refuse<T>(&mut self, why: &str) -> Result<T, Ended> {
        let _ = self.answer(&format!("no {why}"));
        Err(Ended::Refused(why.to_owned()))
    }
}
