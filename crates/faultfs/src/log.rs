//! The file of what arrived: data of un-flushed writes, and, where the log is kept, of all writes, discards and flushes in order.
//!
//! A record is a header of 32 bytes — kind (1 byte and 7 of zeros), first sector, number of sectors, time on
//! CLOCK_MONOTONIC in nanoseconds, little-endian — and a write's data.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::counters::SECTOR_BYTES;
use crate::error::FaultError;

const HEADER_BYTES: u64 = 32;
/// Most bytes that a log that is not kept may take of the disk when nothing is un-flushed.
const IDLE_BYTES_MAX: u64 = 64 << 20;

/// Longest wait for the rest of a record that is being written.
const WRITTEN_WITHIN: Duration = Duration::from_secs(1);

/// Type of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogKind {
    /// Sectors were written.
    Write,
    /// Sectors were discarded or zeroed; they read as zeros.
    Discard,
    /// A flush, honoured: everything before it is durable.
    Flush,
}

/// A record of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEntry {
    /// Time of its arrival, on CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Type of the record.
    pub kind: LogKind,
    /// First sector; 0 of a flush.
    pub first_sector: u64,
    /// Number of sectors; 0 for a flush.
    pub sectors: u64,
    /// Offset of its data in the file.
    pub(crate) data: u64,
}

/// The log that is written.
#[derive(Debug)]
pub(crate) struct Log {
    file: File,
    end: u64,
    highest: u64,
    is_kept: bool,
}

impl Log {
    pub(crate) fn new(file: File, is_kept: bool) -> Self {
        Self { file, end: 0, highest: 0, is_kept }
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.is_kept
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Notes what arrived, and says where its data is.
    pub(crate) fn append(&mut self, kind: LogKind, first_sector: u64, sectors: u64, data: &[u8]) -> io::Result<u64> {
        let mut header = [0; HEADER_BYTES as usize];
        header[0] = match kind {
            LogKind::Write => 1,
            LogKind::Discard => 2,
            LogKind::Flush => 3,
        };
        header[8..16].copy_from_slice(&first_sector.to_le_bytes());
        header[16..24].copy_from_slice(&sectors.to_le_bytes());
        header[24..].copy_from_slice(&now_ns().to_le_bytes());
        let at = self.end;
        self.file.write_all_at(&header, at)?;
        self.file.write_all_at(data, at + HEADER_BYTES)?;
        self.end += HEADER_BYTES + data.len() as u64;
        self.highest = self.highest.max(self.end);
        Ok(at + HEADER_BYTES)
    }

    /// Marks all records as durable: their space is reused, unless the log is kept.
    pub(crate) fn flushed(&mut self) -> io::Result<()> {
        if self.is_kept {
            return self.append(LogKind::Flush, 0, 0, &[]).map(drop);
        }
        self.begin_again(IDLE_BYTES_MAX)
    }

    /// Clears the log; leaves at most `bytes_max` on the disk.
    pub(crate) fn begin_again(&mut self, bytes_max: u64) -> io::Result<()> {
        self.end = 0;
        if self.highest > bytes_max {
            self.file.set_len(bytes_max)?;
            self.highest = bytes_max;
        }
        Ok(())
    }
}

/// The records of a kept log, in order. What is written to it meanwhile may or may not be among them.
///
/// # Errors
/// Where it cannot be read, is none, or ends within a record: a part of it is missing.
pub fn log_entries(log: &Path) -> Result<Vec<LogEntry>, FaultError> {
    let file = File::open(log).map_err(FaultError::at(log))?;
    let length = || file.metadata().map(|metadata| metadata.len()).map_err(FaultError::at(log));
    let (wanted, mut waited_since) = (length()?, Instant::now());
    let (mut entries, mut at) = (Vec::new(), 0);
    while at < wanted {
        let is_there = match record(&file, log, at)? {
            Some((entry, end)) if end <= wanted || end <= length()? => {
                (at, waited_since) = (end, Instant::now());
                entries.push(entry);
                true
            }
            _ => false,
        };
        if !is_there && waited_since.elapsed() > WRITTEN_WITHIN {
            let what = format!("{}: byte {at}: the last record is not whole", log.display());
            return Err(FaultError::Usage(format!(
                "{what}; copy all of the log, or repeat this if it is being written"
            )));
        }
        if !is_there {
            std::thread::sleep(WRITTEN_WITHIN / 100);
        }
    }
    Ok(entries)
}

/// Reads the header of the record at byte `at`. Returns the record and the byte behind it; `None` if the header is not whole.
fn record(file: &File, log: &Path, at: u64) -> Result<Option<(LogEntry, u64)>, FaultError> {
    let mut header = [0; HEADER_BYTES as usize];
    match file.read_exact_at(&mut header, at) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read.map_err(FaultError::at(log))?,
    }
    let field = |index: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&header[8 * index..8 * (index + 1)]);
        u64::from_le_bytes(bytes)
    };
    let kind = match field(0) {
        1 => LogKind::Write,
        2 => LogKind::Discard,
        3 => LogKind::Flush,
        // A hole of a record that is being written.
        0 => return Ok(None),
        _ => {
            return Err(FaultError::Usage(format!(
                "{}: byte {at}: this is not a log of a fault device; name the file `log` of one",
                log.display()
            )));
        }
    };
    let entry = LogEntry { at_ns: field(3), kind, first_sector: field(1), sectors: field(2), data: at + HEADER_BYTES };
    let data_bytes = if kind == LogKind::Write { entry.sectors.saturating_mul(SECTOR_BYTES) } else { 0 };
    Ok(Some((entry, entry.data.saturating_add(data_bytes))))
}

/// The time on CLOCK_MONOTONIC.
pub(crate) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_ends_within_a_record_is_refused_and_one_without_its_last_records_is_read() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("log");
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        let mut log = Log::new(file.try_clone().unwrap(), true);
        for first in 0..3 {
            log.append(LogKind::Write, first, 1, &[7; SECTOR_BYTES as usize]).unwrap();
        }
        let record_bytes = HEADER_BYTES + SECTOR_BYTES;
        let firsts = || log_entries(&path).map(|all| all.iter().map(|entry| entry.first_sector).collect::<Vec<_>>());
        assert_eq!(firsts().unwrap(), [0, 1, 2]);
        file.set_len(3 * record_bytes + 5).unwrap();
        assert!(firsts().unwrap_err().to_string().contains(&format!("byte {}: the last record", 3 * record_bytes)));
        file.set_len(3 * record_bytes - 1).unwrap();
        let error = firsts().unwrap_err().to_string();
        assert!(
            error.contains(&format!("byte {}: the last record is not whole; copy all", 2 * record_bytes)),
            "{error}"
        );
        file.set_len(2 * record_bytes).unwrap();
        assert_eq!(firsts().unwrap(), [0, 1]);
    }
}
