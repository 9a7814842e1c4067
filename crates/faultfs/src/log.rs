//! The file of what arrived: data of un-flushed writes, and, where the log is kept, of all writes, discards and flushes in order.
//!
//! A record is a header of 32 bytes — kind (1 byte and 7 of zeros), first sector, number of sectors, time on
//! CLOCK_MONOTONIC in nanoseconds, little-endian — and a write's data.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::counters::SECTOR_BYTES;
use crate::error::FaultError;

const HEADER_BYTES: u64 = 32;
/// Most bytes that a log that is not kept may take of the disk when nothing is un-flushed.
const IDLE_BYTES_MAX: u64 = 64 << 20;

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
/// Where it cannot be read, or is none.
pub fn log_entries(log: &Path) -> Result<Vec<LogEntry>, FaultError> {
    let file = File::open(log).map_err(FaultError::at(log))?;
    let length = file.metadata().map_err(FaultError::at(log))?.len();
    let mut entries = Vec::new();
    let mut at = 0;
    while at + HEADER_BYTES <= length {
        let mut header = [0; HEADER_BYTES as usize];
        file.read_exact_at(&mut header, at).map_err(FaultError::at(log))?;
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
            0 => break,
            _ => {
                return Err(FaultError::Usage(format!(
                    "{}: byte {at}: this is not a log of a fault device",
                    log.display()
                )));
            }
        };
        let entry =
            LogEntry { at_ns: field(3), kind, first_sector: field(1), sectors: field(2), data: at + HEADER_BYTES };
        let data_bytes = if kind == LogKind::Write { entry.sectors.saturating_mul(SECTOR_BYTES) } else { 0 };
        at = entry.data.saturating_add(data_bytes);
        if at <= length {
            entries.push(entry);
        }
    }
    Ok(entries)
}

/// The time on CLOCK_MONOTONIC.
pub(crate) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
