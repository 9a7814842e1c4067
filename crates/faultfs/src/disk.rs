//! The device itself, without FUSE: what is durable, what is not yet, and what goes wrong.
//!
//! Durable is what the image holds. What has been written since the last flush that was honoured is in the log; `unflushed` has it in order,
//! `newest` says for each sector where its newest contents are. A flush copies the newest contents into the image. So memory grows with
//! the number of un-flushed writes, and with nothing else.
//!
//! A cut that freezes takes nothing away: what is durable and what is not stay as they are at that moment, what comes later is in `after`,
//! and the next power-on forgets it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

use plimsoll_core::fault::{RequestKind, Survivors};
use rustix::io::Errno;

use crate::at_risk::UnflushedWrite;
use crate::counters::{AtRisk, Counters, SECTOR_BYTES};
use crate::extents::{Extent, Extents};
use crate::image;
use crate::log::{Log, LogKind};
use crate::power::{Fate, Power};
use crate::shared::Device;
use crate::survivors::surviving;

#[derive(Debug)]
pub(crate) struct DiskDevice {
    image: File,
    log: Log,
    /// Paths of the image and, of a kept log, of the image when the log began.
    image_and_base: (PathBuf, PathBuf),
    size_bytes: u64,
    unflushed: Vec<Extent>,
    newest: Extents,
    power: Power,
    /// Since a cut that froze the device: what the machine above goes on to see.
    after: Option<Extents>,
    /// Error of the device's own files; after it there is no power.
    broken: Option<String>,
}

impl DiskDevice {
    pub(crate) fn new(image: File, log: Log, image_and_base: (PathBuf, PathBuf), size_bytes: u64) -> Self {
        Self {
            image,
            log,
            image_and_base,
            size_bytes,
            unflushed: Vec::new(),
            newest: Extents::default(),
            power: Power::default(),
            after: None,
            broken: None,
        }
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Returns the delay of the next such request, which is for `bytes` at `offset`.
    pub(crate) fn delay(&mut self, on: RequestKind, offset: u64, bytes: u64) -> Option<Duration> {
        self.power.delay_at(on, offset, bytes)
    }

    pub(crate) fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), Errno> {
        let (start, end) = self.sectors(offset, into.len() as u64)?;
        if self.after.is_none() {
            self.power.counters.reads += 1;
            if let Fate::Failed(errno) = self.power.fate(RequestKind::Read) {
                return Err(errno);
            }
        }
        let read = self.image.read_exact_at(into, offset).and_then(|()| {
            let after = self.after.iter().flat_map(|after| after.overlapping(start, end));
            for extent in self.newest.overlapping(start, end).chain(after) {
                let part = extent.part(start, end);
                let bytes = (part.start - start) * SECTOR_BYTES..(part.end - start) * SECTOR_BYTES;
                let into = &mut into[bytes.start as usize..bytes.end as usize];
                match part.data {
                    Some(data) => self.log.file().read_exact_at(into, data)?,
                    None => into.fill(0),
                }
            }
            Ok(())
        });
        self.need(read)?;
        self.power.rot(start, into);
        Ok(())
    }

    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let (start, end) = self.sectors(offset, data.len() as u64)?;
        if self.after.is_some() {
            return self.put_after(LogKind::Write, start, end, data);
        }
        let is_last = self.power.count_write(data.len() as u64);
        match self.power.fate(RequestKind::Write) {
            Fate::Failed(errno) if !is_last => return Err(errno),
            Fate::Dropped if !is_last => return Ok(()),
            Fate::Done if self.power.has_no_room() => {
                if !is_last {
                    return Err(Errno::NOSPC);
                }
            }
            Fate::Done => {
                let noted = self.log.append(LogKind::Write, start, end - start, data);
                let data = self.need(noted)?;
                self.put(Extent { start, end, data: Some(data) });
            }
            Fate::Failed(_) | Fate::Dropped => {}
        }
        if is_last {
            return self.power_off();
        }
        Ok(())
    }

    /// A discard, or zeros without data. Both read as zeros afterwards.
    pub(crate) fn discard(&mut self, offset: u64, length: u64) -> Result<(), Errno> {
        let (start, end) = self.sectors(offset, length)?;
        if self.after.is_some() {
            return self.put_after(LogKind::Discard, start, end, &[]);
        }
        self.power.counters.discards += 1;
        match self.power.fate(RequestKind::Write) {
            Fate::Failed(errno) => return Err(errno),
            Fate::Dropped => return Ok(()),
            Fate::Done => {}
        }
        let noted = self.log.append(LogKind::Discard, start, end - start, &[]);
        self.need(noted)?;
        self.put(Extent { start, end, data: None });
        Ok(())
    }

    pub(crate) fn flush(&mut self) -> Result<(), Errno> {
        if self.after.is_some() && !self.power.halts() {
            return Ok(());
        }
        if self.cut().is_some() {
            return Err(Errno::IO);
        }
        if self.power.count_flush() {
            let frozen = self.power_off();
            return if self.power.halts() { Err(Errno::IO) } else { frozen };
        }
        match self.power.fate(RequestKind::Flush) {
            Fate::Failed(errno) => return Err(errno),
            Fate::Dropped => return Ok(()),
            Fate::Done => {}
        }
        let copied = self.newest.all().try_for_each(|extent| image::apply(self.log.file(), &self.image, extent));
        self.need(copied)?;
        self.unflushed.clear();
        self.newest.clear();
        let noted = self.log.flushed();
        self.need(noted)
    }

    /// Returns true if these sectors have durable contents, other than zeros.
    fn replaces(&self, extent: Extent) -> std::io::Result<bool> {
        let mut durable = vec![0; ((extent.end - extent.start) * SECTOR_BYTES) as usize];
        self.image.read_exact_at(&mut durable, extent.start * SECTOR_BYTES)?;
        Ok(durable.iter().any(|byte| *byte != 0))
    }

    fn put(&mut self, extent: Extent) {
        self.unflushed.push(extent);
        self.newest.insert(extent);
    }

    /// Handles a request after a cut that froze the device.
    fn put_after(&mut self, kind: LogKind, start: u64, end: u64, data: &[u8]) -> Result<(), Errno> {
        let noted = self.log.append(kind, start, end - start, data);
        let at = self.need(noted)?;
        let data = (kind == LogKind::Write).then_some(at);
        self.after.get_or_insert_default().insert(Extent { start, end, data });
        Ok(())
    }

    /// The sectors of a request, if there is power.
    fn sectors(&self, offset: u64, length: u64) -> Result<(u64, u64), Errno> {
        let end = offset.checked_add(length).filter(|end| *end <= self.size_bytes).ok_or(Errno::INVAL)?;
        match length {
            _ if self.power.is_dead() => Err(Errno::IO),
            _ if length == 0 || !(offset | end).is_multiple_of(SECTOR_BYTES) => Err(Errno::INVAL),
            _ => Ok((offset / SECTOR_BYTES, end / SECTOR_BYTES)),
        }
    }

    /// Without its files the device has no power, because it could not answer as a disk.
    fn need<T>(&mut self, done: std::io::Result<T>) -> Result<T, Errno> {
        done.map_err(|error| {
            self.broken = Some(format!("{}: {error}", self.image_and_base.0.display()));
            if self.cut().is_none() {
                let _ = self.power_off();
            }
            Errno::IO
        })
    }
}

impl Device for DiskDevice {
    fn power(&self) -> &Power {
        &self.power
    }

    fn power_mut(&mut self) -> &mut Power {
        &mut self.power
    }

    fn power_off(&mut self) -> Result<(), Errno> {
        let mut at_risk = AtRisk::default();
        let mut sectors = Extents::default();
        for extent in self.unflushed.iter().filter(|extent| extent.data.is_some()) {
            at_risk.writes += 1;
            at_risk.bytes += (extent.end - extent.start) * SECTOR_BYTES;
            sectors.insert(*extent);
        }
        at_risk.sectors = sectors.sectors();
        let done = self.power.off(at_risk);
        self.after = self.power.is_frozen().then(Extents::default);
        done
    }

    fn counters(&self) -> Counters {
        Counters { unflushed_sectors: self.newest.sectors(), ..self.power.counters }
    }

    fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    fn other(&mut self, command: &str) -> Option<Result<String, String>> {
        if command != "writes" {
            return None;
        }
        let writes = self.unflushed.iter().filter(|extent| extent.data.is_some());
        let of = |extent: &Extent| {
            let write = UnflushedWrite { first: extent.start, end: extent.end, replaces: self.replaces(*extent)? };
            Ok::<_, std::io::Error>(write.to_string())
        };
        let all: Result<Vec<String>, _> = writes.map(of).collect();
        Some(all.map(|all| all.join("\t")).map_err(|error| format!("{}: {error}", self.image_and_base.0.display())))
    }

    fn power_on(&mut self, survivors: Survivors) -> Result<AtRisk, String> {
        let cut = self.cut().ok_or("the power is on: cut it first")?;
        let operations = self.unflushed.iter().map(|extent| (extent.end - extent.start, extent.data.is_some()));
        let kept = surviving(operations, survivors).into_iter().try_for_each(|piece| {
            let whole = self.unflushed[piece.operation];
            let first = whole.start + piece.first;
            image::apply(self.log.file(), &self.image, whole.part(first, first + piece.sectors))
        });
        let begun = kept.and_then(|()| {
            let (image, base) = &self.image_and_base;
            if self.log.is_kept() { image::copy(image, base) } else { Ok(()) }
        });
        let begun = begun.and_then(|()| self.log.begin_again(0));
        self.need(begun).map_err(|_| self.broken.clone().unwrap_or_default())?;
        self.unflushed.clear();
        self.newest.clear();
        self.power.on();
        self.after = None;
        Ok(cut.at_risk)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::Path;

    use super::*;
    use plimsoll_core::fault::{CutMoment, ErrorMode, Fault};

    /// A disk of so many sectors, in files of a directory.
    pub(crate) fn disk(directory: &Path, sectors: u64, is_log_kept: bool) -> DiskDevice {
        let open = |name: &str| {
            File::options().read(true).write(true).create(true).truncate(true).open(directory.join(name)).unwrap()
        };
        let image = open("image");
        image.set_len(sectors * SECTOR_BYTES).unwrap();
        let paths = (directory.join("image"), directory.join("base"));
        DiskDevice::new(image, Log::new(open("log"), is_log_kept), paths, sectors * SECTOR_BYTES)
    }

    #[test]
    fn a_mended_disk_has_no_fault_and_still_loses_power() {
        let place = tempfile::tempdir().unwrap();
        let mut disk = disk(place.path(), 8, false);
        disk.arm(CutMoment::Write(2), false);
        disk.set(Fault::Eio { on: RequestKind::Write, how: ErrorMode::Always });
        assert_eq!(disk.write(0, &[1; 512]), Err(Errno::IO));
        disk.mend();
        assert_eq!(disk.write(0, &[1; 512]), Err(Errno::IO));
        assert_eq!(disk.cut().unwrap().at_risk.writes, 1, "the write that the cut came with was done");
    }

    #[test]
    fn a_cut_at_a_count_comes_with_that_write_or_flush() {
        let directory = tempfile::tempdir().unwrap();
        let mut disk = disk(directory.path(), 32, false);
        disk.write(0, &[1; 512]).unwrap();
        disk.arm(CutMoment::Write(2), false);
        disk.write(512, &[2; 512]).unwrap();
        disk.flush().unwrap();
        assert_eq!(disk.write(1024, &[3; 512]), Err(Errno::IO));
        let cut = disk.cut().unwrap();
        assert_eq!((cut.writes_seen, cut.flushes_seen, cut.at_risk.writes), (2, 1, 1));
        assert_eq!(disk.flush(), Err(Errno::IO));
        assert_eq!(disk.power_on(Survivors::All).unwrap().writes, 1);
        let mut found = [0; 1536];
        disk.read(0, &mut found).unwrap();
        assert_eq!([found[0], found[512], found[1024]], [1, 2, 3]);

        disk.write(0, &[4; 512]).unwrap();
        disk.arm(CutMoment::Flush(1), false);
        assert_eq!(disk.flush(), Err(Errno::IO));
        assert_eq!(disk.power_on(Survivors::None).unwrap(), AtRisk { writes: 1, sectors: 1, bytes: 512 });
        disk.read(0, &mut found).unwrap();
        assert_eq!(found[0], 1);
        assert!(disk.power_on(Survivors::None).is_err());
    }

    #[test]
    fn requests_that_meet_a_fault_are_counted_by_its_kind_and_others_are_not() {
        let directory = tempfile::tempdir().unwrap();
        let mut disk = disk(directory.path(), 32, false);
        let faults = [
            Fault::Eio { on: RequestKind::Read, how: ErrorMode::Always },
            Fault::Eio { on: RequestKind::Write, how: ErrorMode::Silent(2) },
            Fault::Delay { on: RequestKind::Write, median: Duration::from_millis(1), jitter: Duration::ZERO, seed: 1 },
            Fault::BitRot { seed: 1, share: 0.0 },
            Fault::Full,
            Fault::IgnoreFlushes,
        ];
        let met = |disk: &DiskDevice| faults.map(|fault| disk.power().met(fault));
        let all = |disk: &mut DiskDevice| {
            for _ in 0..3 {
                let _ = disk.write(0, &[1; 512]);
                disk.delay(RequestKind::Write, 0, 512);
            }
            let _ = (disk.read(0, &mut [0; 512]), disk.flush());
        };
        all(&mut disk);
        assert_eq!(met(&disk), [0; 6]);
        faults.into_iter().for_each(|fault| disk.set(fault));
        all(&mut disk);
        assert_eq!(met(&disk), [1, 2, 3, 1, 1, 1], "the third write finds no room");
        disk.mend();
        all(&mut disk);
        assert_eq!(met(&disk), [1, 2, 3, 1, 1, 1]);
    }

    #[test]
    fn each_fault_does_what_it_says_and_no_more() {
        let directory = tempfile::tempdir().unwrap();
        let mut disk = disk(directory.path(), 32, false);
        let mut found = [0; 512];
        disk.set(Fault::Eio { on: RequestKind::Write, how: ErrorMode::Once });
        assert_eq!(disk.write(0, &[1; 512]), Err(Errno::IO));
        disk.write(0, &[2; 512]).unwrap();
        disk.set(Fault::Eio { on: RequestKind::Write, how: ErrorMode::Silent(1) });
        disk.write(0, &[3; 512]).unwrap();
        disk.read(0, &mut found).unwrap();
        assert_eq!(found[0], 2);
        disk.set(Fault::Eio { on: RequestKind::Flush, how: ErrorMode::Silent(1) });
        disk.flush().unwrap();
        assert_eq!(disk.counters().unflushed_sectors, 1);
        disk.flush().unwrap();
        assert_eq!(disk.counters().unflushed_sectors, 0);
        disk.set(Fault::Full);
        assert_eq!(disk.write(0, &[4; 512]), Err(Errno::NOSPC));
        disk.set(Fault::Eio { on: RequestKind::Read, how: ErrorMode::Always });
        assert_eq!(disk.read(0, &mut found), Err(Errno::IO));
        disk.clear();
        disk.set(Fault::BitRot { seed: 1, share: 1.0 });
        disk.read(0, &mut found).unwrap();
        let flipped: u32 = found.iter().map(|byte| (byte ^ 2).count_ones()).sum();
        assert_eq!(flipped, 1);
        let mut again = [0; 512];
        disk.read(0, &mut again).unwrap();
        assert_eq!(found, again);
        disk.set(Fault::Delay {
            on: RequestKind::Read,
            median: Duration::from_micros(100),
            jitter: Duration::from_micros(50),
            seed: 1,
        });
        let delays: Vec<Duration> = (0..100).filter_map(|_| disk.delay(RequestKind::Read, 0, 512)).collect();
        assert!(delays.iter().all(|delay| (50..=150).contains(&delay.as_micros())) && delays.len() == 100);
        assert_eq!(disk.delay(RequestKind::Write, 0, 512), None);
        assert_eq!(disk.write(511, &[0; 512]), Err(Errno::INVAL));
        assert_eq!(disk.write(32 * SECTOR_BYTES, &[0; 512]), Err(Errno::INVAL));
    }
}
