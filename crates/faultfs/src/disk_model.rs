//! The device against the simplest thing that could be right: durable bytes, and un-flushed writes in order.

use std::fs::File;

use rustix::io::Errno;

use super::*;

const SECTORS: u64 = 32;
const SEQUENCES: u64 = 10_000;
const STEPS: u64 = 40;

/// An un-flushed operation: where, and what it put there.
struct Pending {
    sector: u64,
    data: Vec<u8>,
    is_write: bool,
}

struct Model {
    durable: Vec<u8>,
    pending: Vec<Pending>,
    ignores_flushes: bool,
    has_power: bool,
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

    /// What is there afterwards; of what is drawn by lot, by the drawing that has tests of its own.
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
        self.has_power = true;
    }
}

fn survivors(random: &mut Random) -> Survivors {
    let tear = random.next().is_multiple_of(2);
    match random.next() % 5 {
        0 => Survivors::None,
        1 => Survivors::All,
        2 => Survivors::Prefix { writes: random.next() % 8, tear },
        _ => Survivors::Random { seed: random.next(), share: random.share(), tear },
    }
}

/// One sequence; how many bytes were at risk at its cuts.
fn run(disk: &mut Disk, model: &mut Model, seed: u64) -> u64 {
    let mut random = Random::new(seed);
    let mut at_risk_bytes = 0;
    for step in 0..STEPS {
        let sector = random.next() % SECTORS;
        let sectors = 1 + random.next() % (SECTORS - sector).min(9);
        let (offset, length) = (sector * SECTOR_BYTES, sectors * SECTOR_BYTES);
        let dead = |done: Result<(), Errno>| assert_eq!(done, Err(Errno::IO), "seed {seed} step {step}");
        match random.next() % 20 {
            0..=8 => {
                // Each sector differs from all others that are ever written.
                let sector_data = |_| random.next().to_le_bytes().repeat(SECTOR_BYTES as usize / 8);
                let data: Vec<u8> = (0..sectors).flat_map(sector_data).collect();
                let done = disk.write(offset, &data);
                if model.has_power {
                    done.unwrap();
                    model.pending.push(Pending { sector, data, is_write: true });
                } else {
                    dead(done);
                }
            }
            9 => {
                let done = disk.discard(offset, length);
                if model.has_power {
                    done.unwrap();
                    model.pending.push(Pending { sector, data: vec![0; length as usize], is_write: false });
                } else {
                    dead(done);
                }
            }
            10..=12 => {
                let done = disk.flush();
                if model.has_power {
                    done.unwrap();
                    model.flush();
                } else {
                    dead(done);
                }
            }
            13..=16 => {
                let mut found = vec![0xaa; length as usize];
                let done = disk.read(offset, &mut found);
                if model.has_power {
                    done.unwrap();
                    let now = model.now();
                    assert!(now[offset as usize..][..length as usize] == found, "seed {seed} step {step}");
                } else {
                    dead(done);
                }
            }
            17 => {
                model.ignores_flushes = !model.ignores_flushes;
                disk.clear();
                if model.ignores_flushes {
                    disk.set(Fault::IgnoreFlushes);
                }
            }
            _ if model.has_power => {
                disk.arm(CutAt::Now);
                model.has_power = false;
                let at_risk = disk.cut().unwrap().at_risk;
                assert_eq!(at_risk, model.at_risk(), "seed {seed} step {step}");
                at_risk_bytes += at_risk.bytes;
            }
            _ => {
                let survivors = survivors(&mut random);
                disk.power_on(survivors).unwrap();
                model.power_on(survivors);
                let mut found = vec![0xaa; (SECTORS * SECTOR_BYTES) as usize];
                disk.read(0, &mut found).unwrap();
                assert!(model.durable == found, "seed {seed} step {step} {survivors}");
            }
        }
    }
    at_risk_bytes
}

fn files(directory: &std::path::Path, is_log_kept: bool) -> Disk {
    let open = |name: &str| {
        File::options().read(true).write(true).create(true).truncate(true).open(directory.join(name)).unwrap()
    };
    let image = open("image");
    image.set_len(SECTORS * SECTOR_BYTES).unwrap();
    let paths = (directory.join("image"), directory.join("base"));
    Disk::new(image, Log::new(open("log"), is_log_kept), paths, SECTORS * SECTOR_BYTES)
}

#[test]
fn ten_thousand_random_sequences_give_what_a_plain_model_gives() {
    let directory = tempfile::tempdir().unwrap();
    let mut at_risk_bytes = 0;
    for seed in 0..SEQUENCES {
        let mut disk = files(directory.path(), seed % 4 == 0);
        let durable = vec![0; (SECTORS * SECTOR_BYTES) as usize];
        let mut model = Model { durable, pending: Vec::new(), ignores_flushes: false, has_power: true };
        at_risk_bytes += run(&mut disk, &mut model, seed);
    }
    // Sequences that put nothing at risk would prove nothing.
    assert!(at_risk_bytes > SEQUENCES * SECTOR_BYTES, "{at_risk_bytes}");
}

#[test]
fn a_cut_at_a_count_comes_with_that_write_or_flush() {
    let directory = tempfile::tempdir().unwrap();
    let mut disk = files(directory.path(), false);
    disk.write(0, &[1; 512]).unwrap();
    disk.arm(CutAt::Write(2));
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
    disk.arm(CutAt::Flush(1));
    assert_eq!(disk.flush(), Err(Errno::IO));
    assert_eq!(disk.power_on(Survivors::None).unwrap(), AtRisk { writes: 1, sectors: 1, bytes: 512 });
    disk.read(0, &mut found).unwrap();
    assert_eq!(found[0], 1);
    assert!(disk.power_on(Survivors::None).is_err());
}

#[test]
fn each_fault_does_what_it_says_and_no_more() {
    let directory = tempfile::tempdir().unwrap();
    let mut disk = files(directory.path(), false);
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
    assert_eq!(disk.write(SECTORS * SECTOR_BYTES, &[0; 512]), Err(Errno::INVAL));
}
