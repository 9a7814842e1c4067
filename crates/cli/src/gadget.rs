//! Newest slice on a serial line, for a small display (`--gadget`). The book describes the protocol.
//!
//! No call waits for the line: text that it does not take at once is dropped, and a display that was unplugged is
//! opened again at a later slice.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use plimsoll_analysis::number;
use plimsoll_analysis::slices::SliceRow;
use plimsoll_trial::{Sink, Told, TrialError, io_error};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::pty::ptsname;
use rustix::termios::{OptionalActions, tcgetattr, tcgetsid, tcsetattr};

/// Fields of a slice, as the display may ask for them.
const FIELDS: &str = "(end_s),(rate_per_s),(mean_us),(stddev_us),(p50_us),(p99_us),(max_us),(errors),(phase)";
/// Longest command, in bytes.
const COMMAND_MAX: usize = 256;
/// Most bytes that are read for a slice.
const READ_MAX: u64 = 1 << 16;

/// Sink that shows slices on a serial line, and passes all events on.
pub struct Gadget<'a> {
    beside: &'a dyn Sink,
    line: Option<Mutex<SerialLine>>,
}

impl<'a> Gadget<'a> {
    /// Opens the serial line at `path`, if there is one.
    ///
    /// # Errors
    /// The path leads to no device that can be opened.
    pub fn open(path: Option<&Path>, beside: &'a dyn Sink) -> Result<Self, TrialError> {
        let line = path.map(SerialLine::open).transpose()?;
        Ok(Self { beside, line: line.map(Mutex::new) })
    }
}

impl Sink for Gadget<'_> {
    fn take(&self, told: &Told) {
        self.beside.take(told);
        let Some(line) = &self.line else { return };
        let mut line = line.lock().unwrap_or_else(PoisonError::into_inner);
        match told {
            Told::Slice { row, measured: true, .. } => line.show(row),
            Told::EndRun(..) if line.dropped > 0 => {
                let dropped = number::plural(line.dropped, "line", "lines");
                crate::say(&format!("--gadget: the display did not take {dropped} in time, and missed slices"));
            }
            _ => {}
        }
    }
}

struct SerialLine {
    path: PathBuf,
    /// `None` after it was unplugged.
    port: Option<File>,
    /// Newest slice, without the line's ends.
    newest: String,
    /// Received bytes of a command that has not ended.
    command: Vec<u8>,
    dropped: u64,
    is_loss_told: bool,
}

impl SerialLine {
    fn open(path: &Path) -> Result<Self, TrialError> {
        let place = || format!("--gadget {}", path.display());
        let next = "name the device of a serial line or a pty: /dev/ttyACM0";
        let refused = || TrialError::usage(format!("{} is no serial line", place())).next(next);
        let found = path.metadata().map_err(|error| io_error(place(), &error).next(next))?;
        if !found.file_type().is_char_device() {
            return Err(refused());
        }
        let port = port(path).map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => io_error(place(), &error).next("join its group: usermod -aG dialout USER"),
            _ if Errno::from_io_error(&error).is_some_and(|error| matches!(error, Errno::NXIO | Errno::NODEV)) => {
                TrialError::usage(format!("{}: {error}", place())).next(next)
            }
            _ => io_error(place(), &error).next(next),
        })?;
        // The end of a pty at which the display would be is none, either.
        if tcgetattr(&port).is_err() || ptsname(&port, Vec::new()).is_ok() {
            return Err(refused());
        }
        // Without echo and line editing the user's terminal would be unusable.
        if tcgetsid(&port).is_ok() {
            let next = "name the device of a display: /dev/ttyACM0";
            return Err(TrialError::usage(format!("{} is the terminal of this program", place())).next(next));
        }
        raw(&port).map_err(|error| io_error(place(), &error))?;
        Ok(Self::new(path, port))
    }

    fn new(path: &Path, port: File) -> Self {
        Self {
            path: path.to_owned(),
            port: Some(port),
            newest: String::new(),
            command: Vec::new(),
            dropped: 0,
            is_loss_told: false,
        }
    }

    /// Sends a slice, and the answers to commands that have arrived.
    fn show(&mut self, row: &SliceRow) {
        self.newest = fields(row);
        if self.port.is_none() && !self.is_pty() {
            self.port = port(&self.path).and_then(|port| raw(&port).map(|()| port)).ok();
            self.command.clear();
        }
        let answers = self.answers();
        let text = format!("\r\n+PLIM: {}\r\n{answers}", self.newest);
        let Some(port) = &mut self.port else { return };
        match port.write(text.as_bytes()) {
            Ok(written) if written == text.len() => {}
            Ok(_) => self.dropped += 1,
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.dropped += 1,
            Err(error) => {
                self.port = None;
                if !self.is_loss_told {
                    let place = self.path.display();
                    let again = if self.is_pty() { "" } else { ", and opens it again when it is back" };
                    crate::say(&format!("--gadget {place}: {error}; the run continues without the display{again}"));
                }
                self.is_loss_told = true;
            }
        }
    }

    /// Returns true for the name of a pty, which may be another user's terminal after the display has closed it.
    fn is_pty(&self) -> bool {
        self.path.starts_with("/dev/pts")
    }

    /// Returns the answers to the commands that have arrived.
    fn answers(&mut self) -> String {
        let mut bytes = Vec::new();
        // What was read before an error, such as that there is no more, counts. A line that cannot be read may still take
        // text.
        if let Some(port) = &mut self.port {
            let _ = port.take(READ_MAX).read_to_end(&mut bytes);
        }
        let mut answers = String::new();
        for byte in bytes {
            match byte {
                b'\r' | b'\n' => {
                    let command = std::mem::take(&mut self.command);
                    answers.push_str(&answer(&String::from_utf8_lossy(&command), &self.newest));
                }
                // One byte more than any command has makes it unknown.
                _ if self.command.len() <= COMMAND_MAX => self.command.push(byte),
                _ => {}
            }
        }
        answers
    }
}

/// Opens a serial line. No call on it waits.
fn port(path: &Path) -> std::io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    OpenOptions::new().read(true).write(true).custom_flags(flags.bits() as i32).open(path)
}

/// Makes a serial line send and receive bytes as they are.
fn raw(port: &File) -> std::io::Result<()> {
    let mut settings = tcgetattr(port)?;
    settings.make_raw();
    Ok(tcsetattr(port, OptionalActions::Now, &settings)?)
}

/// Returns the fields of a slice: `12.000,1860,4000,1000,3900,16300,25100,0,"drive"`. A percentile with too few samples
/// is empty, and so is the rate of a slice that is too short for one.
fn fields(row: &SliceRow) -> String {
    let time = |ns: Option<u64>| ns.map_or(String::new(), |ns| (ns / 1_000).to_string());
    let errors = row.rejected + row.unknown + row.unfinished;
    // A quote would end the field, and a control character the line.
    let phase: String = row.phase.chars().filter(|c| !c.is_control() && *c != '"').collect();
    let times = [row.percentile_ns("p50"), row.percentile_ns("p99"), Some(row.max_ns)].map(time).join(",");
    let [mean_us, stddev_us] = [row.mean_ns, row.stddev_ns].map(|ns| ns / 1e3);
    let rate = row.rate_per_s.map_or(String::new(), |rate| format!("{rate:.0}"));
    format!("{:.3},{rate},{mean_us:.0},{stddev_us:.0},{times},{errors},\"{phase}\"", row.end_s)
}

/// Returns the answer to a command; an empty one has none.
fn answer(command: &str, newest: &str) -> String {
    let information = match command.trim().to_ascii_uppercase().as_str() {
        _ if command.len() > COMMAND_MAX => return "\r\nERROR\r\n".to_owned(),
        "" => return String::new(),
        "AT" => String::new(),
        "ATI" => format!("\r\nPlimsoll {}\r\n", env!("CARGO_PKG_VERSION")),
        "AT+PLIM=?" => format!("\r\n+PLIM: {FIELDS}\r\n"),
        "AT+PLIM?" => format!("\r\n+PLIM: {newest}\r\n"),
        _ => return "\r\nERROR\r\n".to_owned(),
    };
    format!("{information}\r\nOK\r\n")
}

#[cfg(test)]
mod tests {
    use rustix::pipe::{PipeFlags, pipe_with};

    use super::*;
    use crate::live::tests::slice;

    fn row() -> SliceRow {
        SliceRow {
            phase: "a \"drive\"\r\n".to_owned(),
            rejected: 2,
            unknown: 1,
            rate_per_s: Some(1_860.4),
            mean_ns: 4e6,
            stddev_ns: 1e6,
            percentiles_ns: [Some(3_900_000), None, None, Some(16_300_000), None],
            max_ns: 25_100_000,
            ..slice(11, &[])
        }
    }

    #[test]
    fn a_slice_is_one_line_whatever_its_phase_is_called() {
        assert_eq!(fields(&row()), "12.000,1860,4000,1000,3900,16300,25100,3,\"a drive\"");
        let few = SliceRow { percentiles_ns: [None; 5], ..row() };
        assert_eq!(fields(&few), "12.000,1860,4000,1000,,,25100,3,\"a drive\"");
        let sliver = SliceRow { rate_per_s: None, ..few };
        assert_eq!(fields(&sliver), "12.000,,4000,1000,,,25100,3,\"a drive\"");
    }

    #[test]
    fn commands_are_answered_as_by_a_modem() {
        assert_eq!(answer("at", ""), "\r\nOK\r\n");
        assert_eq!(answer("AT+PLIM?", "1,2"), "\r\n+PLIM: 1,2\r\n\r\nOK\r\n");
        assert_eq!(answer(" at+plim=? ", ""), format!("\r\n+PLIM: {FIELDS}\r\n\r\nOK\r\n"));
        assert_eq!(answer("AT+CSQ", ""), "\r\nERROR\r\n");
        assert_eq!(answer("", ""), "");
        assert_eq!(FIELDS.split(',').count(), fields(&row()).split(',').count());
    }

    #[test]
    fn a_command_after_many_bytes_is_answered_at_the_next_slice() {
        let (sent, mut display) =
            pipe_with(PipeFlags::NONBLOCK).map(|(sent, display)| (sent, File::from(display))).unwrap();
        let mut line = SerialLine::new(Path::new("a pipe"), File::from(sent));
        display.write_all(&[b'x'; 8_000]).unwrap();
        assert_eq!(line.answers(), "");
        display.write_all(b"\rAT\r").unwrap();
        assert_eq!(line.answers(), "\r\nERROR\r\n\r\nOK\r\n");
    }

    #[test]
    fn a_display_that_reads_nothing_holds_nothing_up() {
        let (_unread, full) = pipe_with(PipeFlags::NONBLOCK).unwrap();
        let mut line = SerialLine::new(Path::new("a pipe"), File::from(full));
        (0..2_000).for_each(|_| line.show(&row()));
        assert!(line.dropped > 0 && line.port.is_some());
    }
}
