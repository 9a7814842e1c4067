//! Files of logs that are watched: whole ones, also compressed or in a directory, and one that grows.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flate2::bufread::MultiGzDecoder;
use plimsoll_core::StoreErrorKind;
use plimsoll_logs::LogText;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::error::{TrialError, io_error};
use crate::log_directory::{Identity, LogDirectory, identity, regular};
use crate::log_grammar::Grammar;

/// Path that stands for standard input.
pub(crate) const STDIN: &str = "-";
/// Bytes that are read at once.
const CHUNK: usize = 256 << 10;
/// Bytes that decide the format of a log. A server may write many messages before its first statement.
const HEAD: u64 = 4 << 20;
/// Beginning of a file that gzip compressed.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Beginnings of files of other compressions, and the programs that decompress them.
const PACKED: [(&[u8], &str); 3] = [(b"\xfd7zXZ\0", "xzcat"), (b"BZh", "bzcat"), (b"\x28\xb5\x2f\xfd", "zstdcat")];
/// Time between two looks at a file that grows.
const LOOK: Duration = Duration::from_millis(50);
/// Longest wait for a pipe before the user's end is looked for.
const WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Refuses a file that is compressed in another way than with gzip.
///
/// # Errors
/// The file, and the program that decompresses it.
pub(crate) fn must_be_read(path: &Path, head: &[u8]) -> Result<(), TrialError> {
    let Some((_, program)) = PACKED.iter().find(|(begin, _)| head.starts_with(begin)) else { return Ok(()) };
    let path = path.display();
    Err(TrialError::usage(format!("{path} is compressed, and not with gzip"))
        .next(format!("{program} {path} | plimsoll watch -")))
}

/// Returns the files of a log in the order of their names: the file itself, or all files in a directory.
pub(crate) fn files(path: &Path) -> Result<Vec<PathBuf>, TrialError> {
    if path == Path::new(STDIN) {
        return Ok(vec![path.to_owned()]);
    }
    let failed = |error: &io::Error| {
        io_error(path.display(), error).next("name a log: a file, a directory with the files of one, or - for stdin")
    };
    if !path.metadata().map_err(|error| failed(&error))?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in path.read_dir().map_err(|error| failed(&error))? {
        let entry = entry.map_err(|error| failed(&error))?;
        let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
        if !is_hidden && entry.path().is_file() {
            files.push(entry.path());
        }
    }
    files.sort();
    match files.is_empty() {
        true => Err(TrialError::usage(format!("{}: no file is in this directory", path.display()))
            .next("name a log, or a directory with the files of one")),
        false => Ok(files),
    }
}

/// Opens a file, or standard input, and decompresses what gzip compressed. Returns the beginning and the whole, which
/// ends when `stop` is set.
pub(crate) fn open(path: &Path, stop: &Arc<AtomicBool>) -> io::Result<(Vec<u8>, Box<dyn BufRead>)> {
    let file = match path == Path::new(STDIN) {
        true => File::from(io::stdin().as_fd().try_clone_to_owned()?),
        false => open_file(path)?,
    };
    let mut plain = BufReader::with_capacity(CHUNK, Awaited { file, stop: Arc::clone(stop) });
    let (head, whole) = with_head(&mut plain)?;
    let whole: Box<dyn BufRead> = Box::new(whole.chain(plain));
    if !head.starts_with(&GZIP) {
        return Ok((head, whole));
    }
    let mut clear: Box<dyn BufRead> = Box::new(BufReader::with_capacity(CHUNK, MultiGzDecoder::new(whole)));
    let (head, whole) = with_head(&mut clear)?;
    Ok((head, Box::new(whole.chain(clear))))
}

/// Opens a file, and does not wait for the writer of a pipe.
fn open_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path)
}

/// Returns the error of a log whose beginning cannot be read.
pub(crate) fn unread(path: &Path, error: &io::Error) -> TrialError {
    if is_damage(error) {
        return TrialError::usage(format!("{}: gzip compressed it, and it is damaged: {error}", path.display()))
            .next("`gzip -t` tests such a file; name a whole copy of it");
    }
    let failed = io_error(path.display(), error);
    let kind = if failed.kind == StoreErrorKind::Broken { StoreErrorKind::Permission } else { failed.kind };
    TrialError { kind, ..failed }.or_next("name a log that can be read")
}

/// Returns true for an error of a compressed file's content. All others are the operating system's.
pub(crate) fn is_damage(error: &io::Error) -> bool {
    error.raw_os_error().is_none()
}

/// File, or pipe that may have no writer yet. Reading ends when `stop` is set.
struct Awaited {
    file: File,
    stop: Arc<AtomicBool>,
}

impl Read for Awaited {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.stop.load(Ordering::SeqCst) {
                return Ok(0);
            }
            match poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&WAIT)) {
                Ok(0) | Err(Errno::INTR) => continue,
                ready => ready?,
            };
            match self.file.read(into) {
                // Another reader of the pipe was faster.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }
}

/// Reads the beginning. Returns it, and a reader of it. An error behind some bytes is that reader's.
fn with_head(source: &mut dyn BufRead) -> io::Result<(Vec<u8>, impl BufRead + use<>)> {
    let mut head = Vec::new();
    let failed = Read::take(source, HEAD).read_to_end(&mut head).err();
    match failed {
        Some(error) if head.is_empty() => Err(error),
        failed => Ok((head.clone(), Cursor::new(head).chain(BufReader::new(Failed(failed))))),
    }
}

/// End of a file, or an error there.
struct Failed(Option<io::Error>);

impl Read for Failed {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// Returns the log for a moment.
pub(crate) fn locked(log: &Mutex<LogText>) -> MutexGuard<'_, LogText> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads `source` into `log` until its end. `now_us` returns this machine's time, if the log grows.
pub(crate) fn feed(
    source: &mut dyn BufRead,
    grammar: Grammar<'_>,
    log: &Mutex<LogText>,
    now_us: Option<&dyn Fn() -> i64>,
) -> io::Result<()> {
    let current = || {
        let mut log = locked(log);
        if let Some(now_us) = now_us {
            log.set_now(now_us());
        }
        log
    };
    if let Grammar::Statements(store) = grammar {
        return store.read_log(source, &mut |entry| current().entry(entry));
    }
    loop {
        let bytes = match source.fill_buf() {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            read => read?,
        };
        if bytes.is_empty() {
            return Ok(());
        }
        current().push(bytes);
        let length = bytes.len();
        source.consume(length);
    }
}

/// Log that ends when `stop` is set.
pub(crate) struct Stoppable<'a> {
    /// The log.
    pub(crate) source: &'a mut dyn BufRead,
    /// Set from outside.
    pub(crate) stop: &'a AtomicBool,
}

impl Read for Stoppable<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.stop.load(Ordering::SeqCst) { Ok(0) } else { self.source.read(into) }
    }
}

impl BufRead for Stoppable<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.stop.load(Ordering::SeqCst) { Ok(&[]) } else { self.source.fill_buf() }
    }

    fn consume(&mut self, length: usize) {
        self.source.consume(length);
    }
}

/// File that grows, from its end on: also after it was truncated, or another file took its place. Reading waits for
/// more, and ends when `over` is set.
pub(crate) struct Followed<'a> {
    path: PathBuf,
    /// Directory in which the log may go on in a new file.
    directory: Option<LogDirectory>,
    file: File,
    identity: Identity,
    /// Position in the file.
    at: u64,
    buffer: Vec<u8>,
    used: usize,
    /// True if the newest byte ended a line, or there was none.
    ends_line: bool,
    over: &'a AtomicBool,
}

impl<'a> Followed<'a> {
    /// Opens a file, or the newest one of a directory, at its end. Returns its beginning, too.
    ///
    /// # Errors
    /// The file cannot be read, or is compressed.
    pub(crate) fn open(path: &Path, over: &'a AtomicBool) -> Result<(Vec<u8>, Self), TrialError> {
        let (directory, path) = match path.is_dir() {
            true => LogDirectory::open(path).map(|(directory, newest)| (Some(directory), newest))?,
            false => (None, path.to_owned()),
        };
        let failed = |error: &io::Error| unread(&path, error);
        // Opening a pipe would wait for its writer.
        if path == Path::new(STDIN) || !path.metadata().map_err(|error| failed(&error))?.is_file() {
            return Err(TrialError::usage(format!("{} cannot be followed", path.display()))
                .next("name one file that a server writes, or its directory"));
        }
        let mut file = open_file(&path).map_err(|error| failed(&error))?;
        let mut head = Vec::new();
        Read::take(&mut file, HEAD).read_to_end(&mut head).map_err(|error| failed(&error))?;
        must_be_read(&path, &head)?;
        if head.starts_with(&GZIP) {
            return Err(TrialError::usage(format!("{} is compressed, and cannot be followed", path.display()))
                .next("leave --follow out"));
        }
        let at = file.seek(SeekFrom::End(0)).map_err(|error| failed(&error))?;
        let identity = identity(&file.metadata().map_err(|error| failed(&error))?);
        let buffer = Vec::new();
        Ok((head, Self { path, directory, file, identity, at, buffer, used: 0, ends_line: true, over }))
    }

    /// Reads what is there. Returns false if that is nothing.
    fn more(&mut self) -> io::Result<bool> {
        self.buffer.resize(CHUNK, 0);
        self.used = 0;
        let length = self.file.read(&mut self.buffer).inspect_err(|_| self.buffer.clear())?;
        self.buffer.truncate(length);
        self.at += length as u64;
        if let Some(last) = self.buffer.last() {
            self.ends_line = *last == b'\n';
        }
        Ok(length > 0)
    }

    /// Goes to the beginning of the file that stands at the path now, if that is another one or a truncated one, or of a
    /// new file in the directory.
    fn renew(&mut self) -> io::Result<()> {
        let mut there = regular(&self.path);
        // A new file waits until this one was read to its end.
        let is_at_path = there.as_ref().is_none_or(|there| identity(there) == self.identity);
        let next = self.directory.as_mut().filter(|_| is_at_path).and_then(|files| files.appeared(&self.path));
        if let Some(next) = next {
            there = regular(&next);
            self.path = next;
        }
        // While a log is rotated there may be none. A pipe or a directory in its place is none.
        let Some(there) = there else { return Ok(()) };
        if identity(&there) != self.identity {
            let Ok(file) = open_file(&self.path) else { return Ok(()) };
            // The server may have written a last line meanwhile.
            if self.more()? {
                return Ok(());
            }
            self.identity = identity(&file.metadata()?);
            self.file = file;
        } else if there.len() < self.at {
            self.file.seek(SeekFrom::Start(0))?;
        } else {
            return Ok(());
        }
        self.at = 0;
        // A line that was cut does not go on in another file.
        if !std::mem::replace(&mut self.ends_line, true) {
            self.buffer.push(b'\n');
        }
        Ok(())
    }
}

impl Read for Followed<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = self.fill_buf()?.read(into)?;
        self.consume(length);
        Ok(length)
    }
}

impl BufRead for Followed<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.used >= self.buffer.len() && !self.more()? {
            if self.over.load(Ordering::SeqCst) {
                break;
            }
            self.renew()?;
            if self.buffer.is_empty() {
                std::thread::sleep(LOOK);
            }
        }
        Ok(&self.buffer[self.used.min(self.buffer.len())..])
    }

    fn consume(&mut self, length: usize) {
        self.used += length;
    }
}

#[cfg(test)]
#[path = "log_file_tests.rs"]
mod tests;
