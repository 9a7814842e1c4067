//! Processes and their descendants, and what they have used (proc_pid_stat(5), proc_pid_io(5)).
//!
//! The kernel adds what a process used to its parent's account when the parent waits for it; so the sum over
//! the living members of a tree, each with what it took over, misses nothing that was waited for.

use std::fs::File;
use std::io;

use crate::proc_file::{ProcFile, number_of};

/// Bytes that processes caused to be read from and written to devices, since they began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TreeIo {
    /// Read from a device: not what came from the page cache.
    pub(crate) read_bytes: u64,
    /// Written, or made dirty in the page cache and so to be written. What was taken back by cutting a file
    /// off before it was written is still in it; what lies on tmpfs is not.
    pub(crate) write_bytes: u64,
}

impl TreeIo {
    /// Returns the sum of both.
    pub(crate) fn and(self, other: TreeIo) -> TreeIo {
        TreeIo {
            read_bytes: self.read_bytes.saturating_add(other.read_bytes),
            write_bytes: self.write_bytes.saturating_add(other.write_bytes),
        }
    }
}

/// Counts of an `io` file.
pub(crate) fn parse_io(text: &str) -> Option<TreeIo> {
    Some(TreeIo { read_bytes: number_of(text, "read_bytes")?, write_bytes: number_of(text, "write_bytes")? })
}

/// Facts about a process in its `stat` file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Stat {
    /// Ticks, with those of children that were waited for.
    pub(crate) user_ticks: u64,
    pub(crate) system_ticks: u64,
    pub(crate) threads: u64,
    /// Ticks from the host's start to the process's; with the pid this names a process for good.
    pub(crate) start_ticks: u64,
    /// True for one that ended and was not waited for.
    pub(crate) ended: bool,
    /// True if its first thread is stopped: by a signal, or by a tracer.
    pub(crate) stopped: bool,
}

/// Reads a `stat` file's line. The name in parentheses may hold anything, parentheses too.
pub(crate) fn parse_stat(text: &str) -> Option<Stat> {
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let mut values = [0u64; 19];
    for place in &mut values {
        // Some fields may be negative; none of those that are used.
        *place = fields.next()?.parse().unwrap_or(0);
    }
    // Field 4 of the manual's list is the first of these.
    let field = |number: usize| values[number - 4];
    Some(Stat {
        user_ticks: field(14).saturating_add(field(16)),
        system_ticks: field(15).saturating_add(field(17)),
        threads: field(20),
        start_ticks: field(22),
        ended: matches!(state, "Z" | "X"),
        stopped: matches!(state, "T" | "t"),
    })
}

/// Resident pages of a `statm` file, and how many of them are shared with others.
pub(crate) fn parse_statm(text: &str) -> Option<(u64, u64)> {
    let mut fields = text.split_ascii_whitespace().skip(1);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// A process that is looked at again and again.
pub(crate) struct TreeProcess {
    pub(crate) pid: u32,
    start_ticks: u64,
    stat: ProcFile,
    statm: ProcFile,
    /// File of the process's I/O; `None` if it may not be read.
    io: Option<ProcFile>,
}

/// Reading of a process.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    pub(crate) stat: Stat,
    pub(crate) resident_pages: u64,
    pub(crate) shared_pages: u64,
    pub(crate) io: Option<TreeIo>,
}

impl TreeProcess {
    /// Opens the files of process `pid`.
    pub(crate) fn open(pid: u32) -> io::Result<Self> {
        let file = |name: &str| File::open(format!("/proc/{pid}/{name}")).map(ProcFile::new);
        let mut stat = file("stat")?;
        let start_ticks = parse_stat(&stat.read()?).ok_or(io::ErrorKind::InvalidData)?.start_ticks;
        Ok(Self { pid, start_ticks, stat, statm: file("statm")?, io: file("io").ok() })
    }

    /// Reads the resource use; `None` if the process is gone.
    pub(crate) fn look(&mut self) -> Option<Usage> {
        let stat = parse_stat(&self.stat.read().ok()?).filter(|stat| stat.start_ticks == self.start_ticks)?;
        let (resident_pages, shared_pages) =
            self.statm.read().ok().and_then(|text| parse_statm(&text)).unwrap_or((0, 0));
        let io = self.io.as_mut().and_then(|file| parse_io(&file.read().ok()?));
        Some(Usage { stat, resident_pages, shared_pages, io })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc_file::garbled;

    const STAT: &str = "31503 (c) at) R 31478 31478 12497 0 -1 4194304 104 0 0 0 7 8 100 200 20 0 3 0 294043 3133440 416 \
                        18446744073709551615 93924656988160 93924657008041 140737487186512 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0\n";
    const IO: &str = "rchar: 6976\nwchar: 0\nsyscr: 10\nsyscw: 0\nread_bytes: 4096\nwrite_bytes: 8192\n\
                      cancelled_write_bytes: 1\n";

    #[test]
    fn fields_are_those_of_the_manual() {
        let (ended, stopped) = (false, false);
        let stat = Stat { user_ticks: 107, system_ticks: 208, threads: 3, start_ticks: 294_043, ended, stopped };
        assert_eq!(parse_stat(STAT), Some(stat));
        assert!(parse_stat(&STAT.replace(") R", ") Z")).unwrap().ended);
        for state in [") T", ") t"] {
            assert!(parse_stat(&STAT.replace(") R", state)).unwrap().stopped, "{state}");
        }
        assert_eq!(parse_stat("1 (x) S 2 3"), None);
        assert_eq!(parse_io(IO), Some(TreeIo { read_bytes: 4096, write_bytes: 8192 }));
        assert_eq!(parse_io("read_bytes: 1\nwrite_bytes\n"), None);
        assert_eq!(parse_statm("765 444 416 5 0 123 0\n"), Some((444, 416)));
        assert_eq!(parse_statm("765"), None);
    }

    #[test]
    fn garbled_text_is_taken() {
        assert!(garbled(STAT).filter_map(|text| parse_stat(&text)).count() > 100);
        assert!(garbled(IO).filter_map(|text| parse_io(&text)).count() > 100);
    }
}
