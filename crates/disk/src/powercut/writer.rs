//! The machine whose power is cut: it writes numbered blocks, flushes each, and says so to the listener.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use plimsoll_core::{StoreError, StoreErrorKind};
use rustix::fs::{FallocateFlags, fallocate};
use serde::Serialize;

use super::{BLOCKS, HELLO, PREFIX, Run, WINDOW};
use crate::error::{at, failed};
use crate::scratch::Scratch;
use crate::ways::Flushing;
use crate::writer::{Flusher, WriteBlock, open};

/// Time limit for connecting, for the first reply and for the last one.
const PATIENCE: Duration = Duration::from_secs(10);
const FILE_BLOCKS: u64 = 65_536;

/// Result of a run that ended cleanly.
#[derive(Debug, Clone, Serialize)]
pub struct Sent {
    /// The run.
    pub run: Run,
    /// Blocks that were flushed.
    pub acknowledged: u64,
    /// Blocks of them that the listener has stored.
    pub kept: u64,
}

/// Writes blocks of `block_bytes` in `parent`, flushed by `flushing`, and says so to the listener at `to`, for so long or until
/// `stop`. `told` hears now and then how many were flushed and how many of them are kept.
///
/// If power is cut, the directory stays. It is removed when the run ends cleanly, and by the next run.
pub fn report(
    parent: &Path,
    to: &str,
    block_bytes: usize,
    flushing: Flushing,
    takes: Duration,
    stop: &AtomicBool,
    told: &mut dyn FnMut(u64, u64),
) -> Result<Sent, StoreError> {
    let (mut stream, mut answers) = connect(to)?;
    let scratch = Scratch::named(parent, PREFIX)?;
    let directory = scratch.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
    let run =
        Run { id: RandomState::new().hash_one(0), block_bytes: block_bytes as u64, blocks: FILE_BLOCKS, directory };
    let place = scratch.path().display();
    let mut flusher = at(&place, Flusher::new(flushing))?;
    let file = at(&place, make(&scratch, parent, &run, flusher.flags()))?;
    let begun = stream.write_all(format!("{HELLO} {run}\n").as_bytes()).and_then(|()| answer(&mut answers));
    match begun {
        Ok(line) if line == "ok" => {}
        Ok(line) => return Err(StoreError::broken(format!("{to} is not a listener of `plimsoll sync`")).detail(line)),
        Err(error) => return Err(gone(to, &error)),
    }
    let wire = Wire::default();
    let mut number = 0;
    let in_order = std::thread::scope(|scope| {
        scope.spawn(|| wire.listen(&mut answers));
        let deadline = Instant::now() + takes;
        let mut block = WriteBlock::new(block_bytes);
        let went = loop {
            if Instant::now() >= deadline || stop.load(Ordering::Relaxed) || wire.is_gone() {
                break Ok(!wire.is_gone());
            }
            if number >= wire.kept.load(Ordering::Relaxed) + WINDOW {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            let offset = run.offset(number + 1);
            run.fill(block.bytes(), number + 1);
            let written = file.write_all_at(block.bytes(), offset);
            if let Err(error) = written.and_then(|()| flusher.flush(&file, offset, block_bytes)) {
                break Err(failed(&place, &error));
            }
            number += 1;
            wire.sent.store(number, Ordering::Relaxed);
            // Whether it is gone is seen by who hears its answers.
            let _ = stream.write_all(format!("{number}\n").as_bytes());
            told(number, wire.kept.load(Ordering::Relaxed));
        };
        wire.done.store(true, Ordering::Relaxed);
        match went {
            Ok(_) => drop(stream.write_all(b"end\n")),
            Err(_) => drop(stream.shutdown(std::net::Shutdown::Both)),
        }
        went
    })?;
    let kept = wire.kept.load(Ordering::Relaxed);
    if !in_order || kept < number {
        return Err(gone(to, &wire.gone.into_inner().unwrap_or_else(|| io::ErrorKind::ConnectionReset.into())));
    }
    Ok(Sent { run, acknowledged: number, kept })
}

/// State of the listener, as far as known.
#[derive(Default)]
struct Wire {
    sent: AtomicU64,
    kept: AtomicU64,
    /// True when no more blocks are sent.
    done: AtomicBool,
    gone: OnceLock<io::Error>,
}

impl Wire {
    fn is_gone(&self) -> bool {
        self.gone.get().is_some()
    }

    /// Notes what the listener keeps, until it says nothing any more.
    fn listen(&self, answers: &mut BufReader<TcpStream>) {
        let mut line = String::new();
        let ended = loop {
            match answers.read_line(&mut line) {
                Ok(0) => break io::ErrorKind::ConnectionReset.into(),
                Ok(_) => match line.trim_end().strip_prefix("kept ").and_then(|number| number.parse().ok()) {
                    Some(number) => self.kept.store(number, Ordering::Relaxed),
                    None => break io::Error::other(line),
                },
                // It is silent, which it may be when it owes nothing.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && !self.owes() => continue,
                Err(error) => break error,
            }
            line.clear();
        };
        let _ = self.gone.set(ended);
    }

    fn owes(&self) -> bool {
        self.done.load(Ordering::Relaxed) || self.sent.load(Ordering::Relaxed) > self.kept.load(Ordering::Relaxed)
    }
}

fn connect(to: &str) -> Result<(TcpStream, BufReader<TcpStream>), StoreError> {
    let addresses = to.to_socket_addrs().map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => StoreError::usage(format!("{to}: {error}")).next("write HOST:PORT"),
        _ => StoreError::new(StoreErrorKind::Unreachable, format!("{to}: {error}"))
            .next("check the name, or write the address of the other machine"),
    })?;
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in addresses {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => {
                let answers = stream.try_clone();
                let set = stream
                    .set_nodelay(true)
                    .and_then(|()| stream.set_read_timeout(Some(PATIENCE)))
                    .and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
                at(to, set)?;
                return Ok((stream, BufReader::new(at(to, answers)?)));
            }
            Err(error) => last = error,
        }
    }
    Err(gone(to, &last).next("start `plimsoll sync --listen ADDRESS:PORT FILE` on the other machine first"))
}

/// The file with room for all its blocks; it, its directory and that one's name are on the disk.
fn make(scratch: &Scratch, parent: &Path, run: &Run, flags: i32) -> io::Result<File> {
    let file = open(&scratch.path().join(BLOCKS), flags)?;
    let bytes = run.block_bytes * run.blocks;
    match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
        Err(rustix::io::Errno::NOTSUP) => file.set_len(bytes)?,
        done => done?,
    }
    rustix::fs::fsync(&file)?;
    rustix::fs::fsync(scratch.handle())?;
    File::open(parent)?.sync_all()?;
    Ok(file)
}

fn answer(answers: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    match answers.read_line(&mut line)? {
        0 => Err(io::ErrorKind::ConnectionReset.into()),
        _ => Ok(line.trim_end().to_owned()),
    }
}

fn gone(to: &str, error: &io::Error) -> StoreError {
    StoreError::new(StoreErrorKind::Unreachable, format!("{to}: the listener does not answer"))
        .detail(error.to_string())
}
