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

use plimsoll_core::fault::{CutAt, Fault, How, On, Survivors};
use rustix::io::Errno;

use crate::counters::{AtRisk, Counters, Cut, SECTOR_BYTES};
use crate::extents::{Extent, Extents};
use crate::image;
use crate::log::{Log, LogKind, now_ns};
use crate::random::Random;
use crate::survivors::surviving;

/// What is wrong now.
#[derive(Debug, Default)]
struct Faults {
    ignores_flushes: bool,
    is_full: bool,
    eio: [Option<How>; 3],
    delay: [Option<(Duration, Duration, Random)>; 3],
    bit_rot: Option<(u64, f64)>,
}

/// What becomes of a request.
enum Fate {
    Done,
    Failed(Errno),
    /// Answered "done" without being so.
    Dropped,
}

/// A cut that is armed, and what has arrived since.
#[derive(Debug)]
struct Armed {
    at: CutAt,
    freezes: bool,
    writes: u64,
    flushes: u64,
}

#[derive(Debug)]
pub(crate) struct Disk {
    image: File,
    log: Log,
    /// Where the image is and, of a kept log, what it was when the log began.
    image_and_base: (PathBuf, PathBuf),
    size_bytes: u64,
    unflushed: Vec<Extent>,
    newest: Extents,
    faults: Faults,
    armed: Option<Armed>,
    cut: Option<Cut>,
    /// Since a cut that froze the device: what the machine above goes on to see.
    after: Option<Extents>,
    counters: Counters,
    /// What went wrong with the files of ours; then there is no power.
    broken: Option<String>,
}

impl Disk {
    pub(crate) fn new(image: File, log: Log, image_and_base: (PathBuf, PathBuf), size_bytes: u64) -> Self {
        Self {
            image,
            log,
            image_and_base,
            size_bytes,
            unflushed: Vec::new(),
            newest: Extents::default(),
            faults: Faults::default(),
            armed: None,
            cut: None,
            after: None,
            counters: Counters::default(),
            broken: None,
        }
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    pub(crate) fn counters(&self) -> Counters {
        Counters { unflushed_sectors: self.newest.sectors(), ..self.counters }
    }

    /// Counts from zero.
    pub(crate) fn count_anew(&mut self) {
        self.counters = Counters::default();
    }

    /// The cut that has happened.
    pub(crate) fn cut(&self) -> Option<Cut> {
        self.cut
    }

    /// What went wrong with the files under the device, which is no fault that anybody asked for.
    pub(crate) fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// Has the power go as told, or with `freezes` the device freeze; false when it has gone, and cannot go later.
    pub(crate) fn arm(&mut self, at: CutAt, freezes: bool) -> bool {
        if self.cut.is_some() {
            return at == CutAt::Now;
        }
        // A cut now has seen what one that was awaited had.
        let (writes, flushes) = match &self.armed {
            Some(armed) if at == CutAt::Now => (armed.writes, armed.flushes),
            _ => (0, 0),
        };
        self.armed = Some(Armed { at, freezes, writes, flushes });
        if at == CutAt::Now {
            let _ = self.power_off();
        }
        true
    }

    pub(crate) fn set(&mut self, fault: Fault) {
        match fault {
            Fault::IgnoreFlushes => self.faults.ignores_flushes = true,
            Fault::Eio { on, how } => self.faults.eio[on as usize] = Some(how),
            Fault::Delay { on, median, jitter, seed } => {
                self.faults.delay[on as usize] = Some((median, jitter, Random::new(seed)));
            }
            Fault::Full => self.faults.is_full = true,
            Fault::BitRot { seed, share } => self.faults.bit_rot = Some((seed, share)),
        }
    }

    /// Nothing is wrong any more; a cut that is armed stays so.
    pub(crate) fn mend(&mut self) {
        self.faults = Faults::default();
    }

    /// Nothing is wrong any more, and no cut is armed.
    pub(crate) fn clear(&mut self) {
        self.mend();
        self.armed = None;
    }

    /// How late the next such request is to be answered.
    pub(crate) fn delay(&mut self, on: On) -> Option<Duration> {
        if self.cut.is_some() {
            return None;
        }
        let (median, jitter, random) = self.faults.delay[on as usize].as_mut()?;
        Some(*median - *jitter + jitter.mul_f64(2.0 * random.share()))
    }

    pub(crate) fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), Errno> {
        let (start, end) = self.sectors(offset, into.len() as u64)?;
        if self.after.is_none() {
            self.counters.reads += 1;
            if let Fate::Failed(errno) = self.fate(On::Read) {
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
        if let Some((seed, share)) = self.faults.bit_rot {
            for (sector, bytes) in (start..end).zip(into.chunks_mut(SECTOR_BYTES as usize)) {
                let mut random = Random::new(seed ^ sector.wrapping_mul(0xd6e8_feb8_6659_fd93));
                if random.share() < share {
                    let bit = random.next() % (8 * SECTOR_BYTES);
                    bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
                }
            }
        }
        Ok(())
    }

    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let (start, end) = self.sectors(offset, data.len() as u64)?;
        if self.after.is_some() {
            return self.put_after(LogKind::Write, start, end, data);
        }
        self.counters.writes += 1;
        self.counters.bytes += data.len() as u64;
        let is_last = self.armed.as_mut().is_some_and(|armed| {
            armed.writes += 1;
            armed.at == CutAt::Write(armed.writes)
        });
        match self.fate(On::Write) {
            Fate::Failed(errno) if !is_last => return Err(errno),
            Fate::Dropped if !is_last => return Ok(()),
            Fate::Done if self.faults.is_full => {
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
        self.counters.discards += 1;
        match self.fate(On::Write) {
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
        if self.after.is_some() {
            return Ok(());
        }
        if self.cut.is_some() {
            return Err(Errno::IO);
        }
        self.counters.flushes += 1;
        if let Some(armed) = &mut self.armed {
            armed.flushes += 1;
            if armed.at == CutAt::Flush(armed.flushes) {
                return self.power_off();
            }
        }
        match self.fate(On::Flush) {
            Fate::Failed(errno) => return Err(errno),
            Fate::Dropped => return Ok(()),
            Fate::Done if self.faults.ignores_flushes => return Ok(()),
            Fate::Done => {}
        }
        let copied = self.newest.all().try_for_each(|extent| image::apply(self.log.file(), &self.image, extent));
        self.need(copied)?;
        self.unflushed.clear();
        self.newest.clear();
        let noted = self.log.flushed();
        self.need(noted)
    }

    /// After a cut: keeps what survives, and goes on with nothing un-flushed. Faults stay as they are set.
    ///
    /// # Errors
    /// In words, when there was no cut, or files cannot be written.
    pub(crate) fn power_on(&mut self, survivors: Survivors) -> Result<AtRisk, String> {
        let cut = self.cut.ok_or("the power is on: cut it first")?;
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
        (self.cut, self.after) = (None, None);
        Ok(cut.at_risk)
    }

    fn put(&mut self, extent: Extent) {
        self.unflushed.push(extent);
        self.newest.insert(extent);
    }

    /// What came after a cut that froze the device.
    fn put_after(&mut self, kind: LogKind, start: u64, end: u64, data: &[u8]) -> Result<(), Errno> {
        let noted = self.log.append(kind, start, end - start, data);
        let at = self.need(noted)?;
        let data = (kind == LogKind::Write).then_some(at);
        self.after.get_or_insert_default().insert(Extent { start, end, data });
        Ok(())
    }

    /// The cut; what is answered to the request that it comes with.
    fn power_off(&mut self) -> Result<(), Errno> {
        let armed = self.armed.take();
        let mut at_risk = AtRisk::default();
        let mut sectors = Extents::default();
        for extent in self.unflushed.iter().filter(|extent| extent.data.is_some()) {
            at_risk.writes += 1;
            at_risk.bytes += (extent.end - extent.start) * SECTOR_BYTES;
            sectors.insert(*extent);
        }
        at_risk.sectors = sectors.sectors();
        let (writes_seen, flushes_seen) = armed.as_ref().map_or((0, 0), |armed| (armed.writes, armed.flushes));
        self.cut = Some(Cut { at_ns: now_ns(), at_risk, writes_seen, flushes_seen });
        self.after = armed.filter(|armed| armed.freezes).map(|_| Extents::default());
        if self.after.is_some() { Ok(()) } else { Err(Errno::IO) }
    }

    fn fate(&mut self, on: On) -> Fate {
        let how = &mut self.faults.eio[on as usize];
        match how {
            None => Fate::Done,
            Some(How::Always) => Fate::Failed(Errno::IO),
            Some(How::Once) => {
                *how = None;
                Fate::Failed(Errno::IO)
            }
            Some(How::Silent(0)) => Fate::Done,
            Some(How::Silent(left)) => {
                *left -= 1;
                Fate::Dropped
            }
        }
    }

    /// The sectors of a request, if there is power.
    fn sectors(&self, offset: u64, length: u64) -> Result<(u64, u64), Errno> {
        let end = offset.checked_add(length).filter(|end| *end <= self.size_bytes).ok_or(Errno::INVAL)?;
        match self.cut {
            Some(_) if self.after.is_none() => Err(Errno::IO),
            _ if length == 0 || !(offset | end).is_multiple_of(SECTOR_BYTES) => Err(Errno::INVAL),
            _ => Ok((offset / SECTOR_BYTES, end / SECTOR_BYTES)),
        }
    }

    /// Without its files the device has no power: what it would say is no answer of a disk's.
    fn need<T>(&mut self, done: std::io::Result<T>) -> Result<T, Errno> {
        done.map_err(|error| {
            self.broken = Some(format!("{}: {error}", self.image_and_base.0.display()));
            if self.cut.is_none() {
                let _ = self.power_off();
            }
            Errno::IO
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::Path;

    use super::*;

    /// A disk of so many sectors, in files of a directory.
    pub(crate) fn disk(directory: &Path, sectors: u64, is_log_kept: bool) -> Disk {
        let open = |name: &str| {
            File::options().read(true).write(true).create(true).truncate(true).open(directory.join(name)).unwrap()
        };
        let image = open("image");
        image.set_len(sectors * SECTOR_BYTES).unwrap();
        let paths = (directory.join("image"), directory.join("base"));
        Disk::new(image, Log::new(open("log"), is_log_kept), paths, sectors * SECTOR_BYTES)
    }

    #[test]
    fn a_mended_disk_has_no_fault_and_still_loses_power() {
        let place = tempfile::tempdir().unwrap();
        let mut disk = disk(place.path(), 8, false);
        disk.arm(CutAt::Write(2), false);
        disk.set(Fault::Eio { on: On::Write, how: How::Always });
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
        disk.arm(CutAt::Write(2), false);
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
        disk.arm(CutAt::Flush(1), false);
        assert_eq!(disk.flush(), Err(Errno::IO));
        assert_eq!(disk.power_on(Survivors::None).unwrap(), AtRisk { writes: 1, sectors: 1, bytes: 512 });
        disk.read(0, &mut found).unwrap();
        assert_eq!(found[0], 1);
        assert!(disk.power_on(Survivors::None).is_err());
    }

    #[test]
    fn each_fault_does_what_it_says_and_no_more() {
        let directory = tempfile::tempdir().unwrap();
        let mut disk = disk(directory.path(), 32, false);
        let mut found = [0; 512];
        disk.set(Fault::Eio { on: On::Write, how: How::Once });
        assert_eq!(disk.write(0, &[1; 512]), Err(Errno::IO));
        disk.write(0, &[2; 512]).unwrap();
        disk.set(Fault::Eio { on: On::Write, how: How::Silent(1) });
        disk.write(0, &[3; 512]).unwrap();
        disk.read(0, &mut found).unwrap();
        assert_eq!(found[0], 2);
        disk.set(Fault::Eio { on: On::Flush, how: How::Silent(1) });
        disk.flush().unwrap();
        assert_eq!(disk.counters().unflushed_sectors, 1);
        disk.flush().unwrap();
        assert_eq!(disk.counters().unflushed_sectors, 0);
        disk.set(Fault::Full);
        assert_eq!(disk.write(0, &[4; 512]), Err(Errno::NOSPC));
        disk.set(Fault::Eio { on: On::Read, how: How::Always });
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
            on: On::Read,
            median: Duration::from_micros(100),
            jitter: Duration::from_micros(50),
            seed: 1,
        });
        let delays: Vec<Duration> = (0..100).filter_map(|_| disk.delay(On::Read)).collect();
        assert!(delays.iter().all(|delay| (50..=150).contains(&delay.as_micros())) && delays.len() == 100);
        assert_eq!(disk.delay(On::Write), None);
        assert_eq!(disk.write(511, &[0; 512]), Err(Errno::INVAL));
        assert_eq!(disk.write(32 * SECTOR_BYTES, &[0; 512]), Err(Errno::INVAL));
    }
}
