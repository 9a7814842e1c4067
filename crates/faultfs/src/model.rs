//! The device, with and without the kernel around it, against the simplest thing that could be right: durable bytes, and un-flushed writes in order.

use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

use plimsoll_core::FileSystem;
use plimsoll_core::fault::{CutMoment, Fault, Survivors};
use plimsoll_core::random::SplitMix;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::counters::{AtRisk, SECTOR_BYTES};
use crate::disk::DiskDevice;
use crate::shared::Device;
use crate::survivors::surviving;
use crate::{DeviceSpec, FaultDevice};

const SECTORS: u64 = 32;
/// Sequences of the core alone.
const SEQUENCES: u64 = 10_000;
const STEPS: u64 = 40;

/// An un-flushed operation: where, and what it put there.
struct Pending {
    sector: u64,
    data: Vec<u8>,
    is_write: bool,
}

enum Power {
    On,
    Off,
    /// Cut, and the machine above has not noticed: what it sees.
    Frozen(Vec<u8>),
}

struct Model {
    durable: Vec<u8>,
    pending: Vec<Pending>,
    ignores_flushes: bool,
    power: Power,
}

impl Model {
    fn put(into: &mut [u8], sector: u64, data: &[u8]) {
        let at = (sector * SECTOR_BYTES) as usize;
        into[at..at + data.len()].copy_from_slice(data);
    }

    fn now(&self) -> Vec<u8> {
        let mut contents = self.durable.clone();
        self.pending.iter().for_each(|pending| Self::put(&mut contents, pending.sector, &pending.data));
        contents
    }

    fn flush(&mut self) {
        if !self.ignores_flushes {
            self.durable = self.now();
            self.pending.clear();
        }
    }

    fn at_risk(&self) -> AtRisk {
        let writes = || self.pending.iter().filter(|pending| pending.is_write);
        let is_hit = |sector: &u64| {
            writes().any(|pending| {
                (pending.sector..pending.sector + pending.data.len() as u64 / SECTOR_BYTES).contains(sector)
            })
        };
        AtRisk {
            writes: writes().count() as u64,
            sectors: (0..SECTORS).filter(is_hit).count() as u64,
            bytes: writes().map(|pending| pending.data.len() as u64).sum(),
        }
    }

    /// Applies the survivors; random ones are drawn by the function under test, which has tests of its own.
    fn power_on(&mut self, survivors: Survivors) {
        let pending = std::mem::take(&mut self.pending);
        match survivors {
            Survivors::None => {}
            Survivors::All => {
                pending.iter().for_each(|pending| Self::put(&mut self.durable, pending.sector, &pending.data));
            }
            Survivors::Prefix { writes, tear } => {
                let mut left = writes;
                for pending in pending {
                    let whole = pending.data.len() as u64 / SECTOR_BYTES;
                    let sectors = match (left, pending.is_write) {
                        (1.., _) => whole,
                        (0, true) => whole / 2 * u64::from(tear),
                        (0, false) => continue,
                    };
                    Self::put(&mut self.durable, pending.sector, &pending.data[..(sectors * SECTOR_BYTES) as usize]);
                    if left == 0 {
                        break;
                    }
                    left -= u64::from(pending.is_write);
                }
            }
            Survivors::Random { .. } => {
                let shapes = pending.iter().map(|pending| (pending.data.len() as u64 / SECTOR_BYTES, pending.is_write));
                for piece in surviving(shapes, survivors) {
                    let Pending { sector, data, .. } = &pending[piece.operation];
                    let bytes = piece.first * SECTOR_BYTES..(piece.first + piece.sectors) * SECTOR_BYTES;
                    let part = &data[bytes.start as usize..bytes.end as usize];
                    Self::put(&mut self.durable, sector + piece.first, part);
                }
            }
        }
        self.power = Power::On;
    }
}

/// Draws survivors: of a prefix, fewer than so many writes.
pub(crate) fn survivors(random: &mut SplitMix, writes: u64) -> Survivors {
    let tear = random.bits().is_multiple_of(2);
    match random.bits() % 5 {
        0 => Survivors::None,
        1 => Survivors::All,
        2 => Survivors::Prefix { writes: random.bits() % writes, tear },
        _ => Survivors::Random { seed: random.bits(), share: random.share(), tear },
    }
}

/// Implementation that is compared with the model.
trait Target {
    fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), Errno>;
    fn discard(&mut self, offset: u64, length: u64) -> Result<(), Errno>;
    fn flush(&mut self) -> Result<(), Errno>;
    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), Errno>;
    fn ignore_flushes(&mut self, ignores: bool);
    fn cut(&mut self, freezes: bool) -> AtRisk;
    fn power_on(&mut self, survivors: Survivors);
}

impl Target for DiskDevice {
    fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), Errno> {
        DiskDevice::write(self, offset, data)
    }

    fn discard(&mut self, offset: u64, length: u64) -> Result<(), Errno> {
        DiskDevice::discard(self, offset, length)
    }

    fn flush(&mut self) -> Result<(), Errno> {
        DiskDevice::flush(self)
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), Errno> {
        DiskDevice::read(self, offset, into)
    }

    fn ignore_flushes(&mut self, ignores: bool) {
        Device::clear(self);
        if ignores {
            Device::set(self, Fault::IgnoreFlushes);
        }
    }

    fn cut(&mut self, freezes: bool) -> AtRisk {
        Device::arm(self, CutMoment::Now, freezes);
        Device::cut(self).unwrap().at_risk
    }

    fn power_on(&mut self, survivors: Survivors) {
        Device::power_on(self, survivors).unwrap();
    }
}

/// The file that a loop device would be on, opened with O_DIRECT.
struct FuseFile {
    device: FaultDevice,
    path: PathBuf,
    file: Option<File>,
}

impl FuseFile {
    fn new(device: FaultDevice) -> Self {
        let at = device.mount_point().to_owned();
        rustix::mount::unmount(&at, UnmountFlags::empty()).unwrap();
        let path = at.parent().unwrap().join("fuse/device");
        let file = Some(Self::open(&path));
        Self { device, path, file }
    }

    fn open(path: &PathBuf) -> File {
        File::options().read(true).write(true).custom_flags(libc::O_DIRECT).open(path).unwrap()
    }

    fn file(&self) -> &File {
        self.file.as_ref().unwrap()
    }
}

fn errno<T>(done: std::io::Result<T>) -> Result<T, Errno> {
    done.map_err(|error| Errno::from_io_error(&error).unwrap())
}

impl Target for FuseFile {
    fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), Errno> {
        errno(self.file().write_all_at(data, offset))
    }

    fn discard(&mut self, offset: u64, length: u64) -> Result<(), Errno> {
        rustix::fs::fallocate(self.file(), FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, length)
    }

    fn flush(&mut self) -> Result<(), Errno> {
        errno(self.file().sync_all())
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), Errno> {
        errno(self.file().read_exact_at(into, offset))
    }

    fn ignore_flushes(&mut self, ignores: bool) {
        let control = self.device.control();
        control.clear().unwrap();
        if ignores {
            control.set(Fault::IgnoreFlushes).unwrap();
        }
    }

    fn cut(&mut self, freezes: bool) -> AtRisk {
        let control = self.device.control();
        if freezes { control.freeze(CutMoment::Now) } else { control.arm(CutMoment::Now) }.unwrap();
        control.wait_for_cut(std::time::Duration::ZERO).unwrap().unwrap().at_risk
    }

    fn power_on(&mut self, survivors: Survivors) {
        self.file = None;
        let control = self.device.control();
        while control.state().unwrap().1 > 0 {
            std::thread::yield_now();
        }
        control.power_on(&survivors).unwrap();
        self.file = Some(Self::open(&self.path));
    }
}

/// Runs a sequence; returns the number of bytes at risk at its cuts.
fn run(disk: &mut dyn Target, model: &mut Model, seed: u64) -> u64 {
    let mut random = SplitMix::new(seed);
    let mut at_risk_bytes = 0;
    for step in 0..STEPS {
        let sector = random.bits() % SECTORS;
        let sectors = 1 + random.bits() % (SECTORS - sector).min(9);
        let (offset, length) = (sector * SECTOR_BYTES, sectors * SECTOR_BYTES);
        let dead = |done: Result<(), Errno>| assert_eq!(done, Err(Errno::IO), "seed {seed} step {step}");
        match random.bits() % 20 {
            choice @ 0..=9 => {
                let is_write = choice < 9;
                // Each sector differs from all others that are ever written.
                let word = |_| if is_write { random.bits() } else { 0 };
                let words: Vec<u64> = (0..sectors).map(word).collect();
                let data = words.iter().map(|word| word.to_le_bytes().repeat(SECTOR_BYTES as usize / 8));
                let data: Vec<u8> = data.flatten().collect();
                let done = if is_write { disk.write(offset, &data) } else { disk.discard(offset, length) };
                match &mut model.power {
                    Power::On => {
                        done.unwrap();
                        model.pending.push(Pending { sector, data, is_write });
                    }
                    Power::Off => dead(done),
                    Power::Frozen(seen) => {
                        done.unwrap();
                        Model::put(seen, sector, &data);
                    }
                }
            }
            10..=12 => {
                let done = disk.flush();
                match model.power {
                    Power::On => {
                        done.unwrap();
                        model.flush();
                    }
                    Power::Off => dead(done),
                    Power::Frozen(_) => done.unwrap(),
                }
            }
            13..=16 => {
                let mut found = vec![0xaa; length as usize];
                let done = disk.read(offset, &mut found);
                let now = match &model.power {
                    Power::On => model.now(),
                    Power::Off => {
                        dead(done);
                        continue;
                    }
                    Power::Frozen(seen) => seen.clone(),
                };
                done.unwrap();
                assert!(now[offset as usize..][..length as usize] == found, "seed {seed} step {step}");
            }
            17 => {
                model.ignores_flushes = !model.ignores_flushes;
                disk.ignore_flushes(model.ignores_flushes);
            }
            _ if matches!(model.power, Power::On) => {
                let freezes = random.bits().is_multiple_of(2);
                model.power = if freezes { Power::Frozen(model.now()) } else { Power::Off };
                let at_risk = disk.cut(freezes);
                assert_eq!(at_risk, model.at_risk(), "seed {seed} step {step}");
                at_risk_bytes += at_risk.bytes;
            }
            _ => {
                let survivors = survivors(&mut random, 8);
                disk.power_on(survivors);
                model.power_on(survivors);
                let mut found = vec![0xaa; (SECTORS * SECTOR_BYTES) as usize];
                disk.read(0, &mut found).unwrap();
                assert!(model.durable == found, "seed {seed} step {step} {survivors}");
            }
        }
    }
    at_risk_bytes
}

#[test]
fn ten_thousand_random_sequences_give_what_a_plain_model_gives() {
    let directory = tempfile::tempdir().unwrap();
    let mut at_risk_bytes = 0;
    for seed in 0..SEQUENCES {
        let mut disk = crate::disk::tests::disk(directory.path(), SECTORS, seed % 4 == 0);
        let durable = vec![0; (SECTORS * SECTOR_BYTES) as usize];
        let mut model = Model { durable, pending: Vec::new(), ignores_flushes: false, power: Power::On };
        at_risk_bytes += run(&mut disk, &mut model, seed);
    }
    // Sequences that put nothing at risk would prove nothing.
    assert!(at_risk_bytes > SEQUENCES * SECTOR_BYTES, "{at_risk_bytes}");
}

#[test]
fn three_hundred_sequences_through_the_kernel_give_what_a_plain_model_gives() {
    let directory = tempfile::tempdir().unwrap();
    let spec = DeviceSpec {
        directory: directory.path().to_owned(),
        size_bytes: 16 << 20,
        file_system: FileSystem::Ext4,
        keep_log: false,
        files: None,
    };
    let mut file = FuseFile::new(FaultDevice::start(&spec).unwrap());
    // One device for all: what one sequence leaves, the next one finds.
    let mut durable = vec![0; (SECTORS * SECTOR_BYTES) as usize];
    file.flush().unwrap();
    file.read(0, &mut durable).unwrap();
    let mut model = Model { durable, pending: Vec::new(), ignores_flushes: false, power: Power::On };
    let at_risk_bytes: u64 = (0..300).map(|seed| run(&mut file, &mut model, seed)).sum();
    assert!(at_risk_bytes > 300 * SECTOR_BYTES, "{at_risk_bytes}");
    file.file = None;
    file.device.close().unwrap();
}
