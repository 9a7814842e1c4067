//! Judges if flushes can be real: compares the flushes that the kernel counted during a probe with the devices behind
//! the path.
//!
//! It is an estimate from one machine and says no more than follows from what was seen. That a device keeps what it was
//! asked to keep shows only when its power is cut: [`crate::powercut`].

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use plimsoll_core::StoreError;
use serde::Serialize;

use crate::counters::FlushCounters;
use crate::latency::{Measured, Outcome, Site, measure};
use crate::place::{Disk, DiskKind, StorageLocation};
use crate::times::FlushTimes;
use crate::ways::{Flushing, Point, Writing};

/// Duration of the probe, and of the observation of other programs' flushes before it.
const PROBE: Duration = Duration::from_millis(700);
/// The fastest disks turn 15,000 times a minute, 4 ms a turn. A block that is written directly after its neighbour was
/// flushed waits for most of one.
const ROTATION_NS: f64 = 2_000_000.0;
/// Programming a page of flash takes longer than this; answers that come sooner come from a cache.
const FLASH_NS: f64 = 100_000.0;
/// Least share of the requested flushes that must have been counted.
const SHARE: f64 = 0.9;

plimsoll_core::words! {
    /// Verdict on the flushes of a path.
    pub enum FlushVerdict {
        /// Flushes reach a device that is hardware as far as known, and take the time that it needs.
        Reach = "flushes reach the device",
        /// Flushes cannot be real.
        CannotBeReal = "flushes cannot be real",
        /// The evidence does not decide.
        CannotBeTold = "cannot be told from here",
    }
}

/// The verdict and what it rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Judgement {
    /// Verdict.
    pub verdict: FlushVerdict,
    /// Reason, as the continuation of the verdict's sentence.
    pub because: String,
    /// Observations, one fact each.
    pub reasons: Vec<String>,
}

/// Flushes that were asked for to see what becomes of them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Probe {
    /// Times of overwriting 4 KiB with fdatasync; `n` is the number of flushes requested.
    pub times: FlushTimes,
    /// Flushes that each disk counted during the probe, including a disk below a loop device. A disk whose flushes the
    /// kernel does not count is missing.
    pub counted: Vec<Counted>,
}

/// Flushes that a disk counted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Counted {
    /// Kernel name of the disk.
    pub disk: String,
    /// While flushes were asked for, by us or by others.
    pub flushes: u64,
    /// Flushes counted in an equal time before the probe, when only other programs requested any.
    pub others: u64,
}

/// Asks for flushes in `site`, and sees what the disks of `place` count; `None` where it was stopped before there was any.
pub fn probe(site: &Site, place: &StorageLocation, stop: &AtomicBool) -> Result<Option<Probe>, StoreError> {
    let mut watched = Vec::new();
    watch(place, &mut watched);
    let read = || -> Vec<u64> { watched.iter().map(|(_, counters)| counters.flushes().unwrap_or(0)).collect() };
    let point = Point { size_bytes: 4096, writing: Writing::Overwrite, flushing: Flushing::Fdatasync, loaded: false };
    // The file is laid out before the time starts; a first go does that and warms everything up.
    measure(site, point, Duration::from_millis(1), stop)?;
    let (begun, before) = (Instant::now(), read());
    std::thread::sleep(PROBE);
    let (rested, between) = (begun.elapsed(), read());
    let outcome = measure(site, point, PROBE, stop)?;
    let (flushed, after) = (begun.elapsed() - rested, read());
    let Some(Outcome::Measured(Measured { times, .. })) = outcome else { return Ok(None) };
    let scale = flushed.as_secs_f64() / rested.as_secs_f64();
    let counted = watched.iter().enumerate().map(|(at, (name, _))| Counted {
        disk: name.clone(),
        flushes: after[at].saturating_sub(between[at]),
        others: (between[at].saturating_sub(before[at]) as f64 * scale).round() as u64,
    });
    let counted = counted.collect();
    Ok(Some(Probe { times, counted }))
}

fn watch(place: &StorageLocation, watched: &mut Vec<(String, FlushCounters)>) {
    for disk in &place.disks {
        watched.extend(FlushCounters::of(&disk.name).map(|counters| (disk.name.clone(), counters)));
    }
    let below = place.disks.iter().filter_map(|disk| disk.below.as_deref()).chain(place.upper.as_deref());
    below.for_each(|place| watch(place, watched));
}

/// Judges from `place`, a `hypervisor`, and the probe's counts of flushes.
pub fn judge(place: &StorageLocation, hypervisor: Option<&str>, probe: Option<&Probe>) -> Judgement {
    let mut seen = Seen { hypervisor, probe, found: Vec::new(), reasons: Vec::new() };
    if let Some(Probe { times, .. }) = probe {
        seen.reasons.push(format!("{} times 4 KiB and fdatasync: {} each", times.n, time(times.mean_ns)));
    }
    seen.place(place);
    seen.reasons.extend(hypervisor.map(|name| format!("this machine is a virtual one: {name}")));
    let rank = |verdict: &FlushVerdict| match verdict {
        FlushVerdict::CannotBeReal => 2,
        FlushVerdict::CannotBeTold => 1,
        FlushVerdict::Reach => 0,
    };
    // Of equal ones the first: it is the nearest to the path.
    let worst = seen.found.iter().rev().max_by_key(|(verdict, _)| rank(verdict)).cloned();
    let (verdict, because) =
        worst.unwrap_or((FlushVerdict::CannotBeTold, "the devices behind it are not known".to_owned()));
    Judgement { verdict, because, reasons: seen.reasons }
}

struct Seen<'a> {
    hypervisor: Option<&'a str>,
    probe: Option<&'a Probe>,
    found: Vec<(FlushVerdict, String)>,
    reasons: Vec<String>,
}

impl<'a> Seen<'a> {
    fn cannot_be_real(&mut self, because: impl Into<String>) {
        self.found.push((FlushVerdict::CannotBeReal, because.into()));
    }

    fn cannot_be_told(&mut self, because: impl Into<String>) {
        self.found.push((FlushVerdict::CannotBeTold, because.into()));
    }

    fn place(&mut self, place: &StorageLocation) {
        let name = place.name();
        self.reasons.push(format!("{} is {name}", place.mount_point.display()));
        if place.is_memory() {
            let file_system = place.file_system.as_deref().unwrap_or_default();
            return self.cannot_be_real(format!("{file_system} keeps files in memory: fsync has nothing to do there"));
        }
        let has = |option: &str| place.options.iter().any(|one| one == option);
        if place.file_system.as_deref() == Some("overlay") {
            if has("volatile") {
                return self.cannot_be_real("the overlay is mounted with `volatile`: it leaves flushes out");
            }
            return match &place.upper {
                Some(upper) => self.place(upper),
                None => self.cannot_be_told("the directory behind the overlay cannot be seen from here"),
            };
        }
        if place.disks.is_empty() {
            return self.cannot_be_told(format!("no device of this machine is known to be behind {name}"));
        }
        let without = ["nobarrier", "barrier=0", "fsync_mode=nobarrier"].into_iter().find(|option| has(option));
        for disk in &place.disks {
            self.disk(disk, without);
        }
    }

    fn disk(&mut self, disk: &Disk, without: Option<&str>) {
        let name = &disk.name;
        self.reasons.push(described(disk));
        if disk.kind == DiskKind::Memory {
            return self.cannot_be_real(format!("{name} is a disk in memory"));
        }
        if disk.write_back == Some(true)
            && let Some(option) = without
        {
            let because = format!(
                "the file system is mounted with `{option}`: it sends no flush, and {name} has a volatile cache"
            );
            return self.cannot_be_real(because);
        }
        match (disk.write_back, self.counted(name)) {
            (Some(true), Some((asked, counted))) => {
                let Counted { flushes, others, .. } = counted;
                let before = if *others > 0 { format!(", and {others} in as much time before") } else { String::new() };
                self.reasons.push(format!("{name} counted {flushes} flushes while {asked} were asked for{before}"));
                self.counted_on(disk, asked, counted);
            }
            (Some(false), _) => {
                let because = format!(
                    "{name} reports no volatile cache, so the kernel sends it no flush; writes are safe if that is true"
                );
                self.cannot_be_told(because);
            }
            _ if self.probe.is_none() => self.cannot_be_told("no flush was asked for"),
            _ => self.cannot_be_told(format!("the kernel does not count the flushes of {name}")),
        }
        match (&disk.below, &disk.kind) {
            (Some(below), _) => self.place(below),
            (None, DiskKind::Loop(file)) => {
                let because = format!("what {} is on, the file of {name}, cannot be seen from here", file.display());
                self.cannot_be_told(because);
            }
            _ => {}
        }
    }

    /// Returns the number of flushes requested, and the counts of `name`.
    fn counted(&self, name: &str) -> Option<(u64, &'a Counted)> {
        let probe = self.probe?;
        let counted = probe.counted.iter().find(|counted| counted.disk == name)?;
        Some((probe.times.n, counted))
    }

    fn counted_on(&mut self, disk: &Disk, asked: u64, counted: &Counted) {
        let name = &disk.name;
        let mean_ns = self.probe.map_or(0.0, |probe| probe.times.mean_ns);
        // No flush at all was counted, so it is certain that the probe's are missing.
        if counted.flushes == 0 {
            let because = format!("none of {asked} flushes reached {name}, which has a volatile cache");
            return self.cannot_be_real(because);
        }
        let flushes = counted.flushes.saturating_sub(counted.others);
        if (flushes as f64) < asked as f64 * SHARE {
            let because = format!("of {asked} flushes only {flushes} can be among those that {name} counted");
            return self.cannot_be_told(because);
        }
        let too_fast = |needs: &str| {
            let took = time(mean_ns);
            format!(
                "{name} counts each flush, but takes {took} for it, and {needs}: a cache answers, which may or may not be protected"
            )
        };
        let reached = format!("{flushes} were counted by {name} while {asked} were asked for");
        let reached = match (&disk.kind, disk.rotational, self.hypervisor) {
            (DiskKind::Loop(_), ..) => reached,
            (DiskKind::Virtual(_), ..) => {
                let because = "only its host knows what becomes of them";
                return self.cannot_be_told(format!("flushes reach the virtual disk {name}; {because}"));
            }
            (DiskKind::Network(how), ..) => {
                let because = "only the other machine knows what becomes of them";
                return self.cannot_be_told(format!("flushes reach {name} ({how}); {because}"));
            }
            (_, Some(true), None) if mean_ns < ROTATION_NS => {
                return self.cannot_be_told(too_fast("a disk that rotates needs 2 ms or longer"));
            }
            (_, Some(false), None) if mean_ns < FLASH_NS => {
                return self.cannot_be_told(too_fast("flash needs 0.1 ms or longer"));
            }
            (_, _, Some(_)) => {
                let because = "only the host of this virtual machine knows whether it is hardware";
                return self.cannot_be_told(format!("flushes reach {name}; {because}"));
            }
            _ => format!("{reached}, {} each", time(mean_ns)),
        };
        self.found.push((FlushVerdict::Reach, reached));
    }
}

/// `vda: virtual disk (virtio_blk), said to rotate, write-back cache, no FUA`.
fn described(disk: &Disk) -> String {
    let kind = match &disk.kind {
        DiskKind::Physical => disk.model.clone().unwrap_or_else(|| "disk".to_owned()),
        DiskKind::Virtual(how) => format!("virtual disk ({how})"),
        DiskKind::Network(how) => format!("disk of another machine ({how})"),
        DiskKind::Memory => "disk in memory".to_owned(),
        DiskKind::Loop(file) => format!("loop device of {}", file.display()),
    };
    let said = |flag: Option<bool>, yes: &'static str, no: &'static str| flag.map(|flag| if flag { yes } else { no });
    let parts = [
        said(disk.rotational, "said to rotate", "said not to rotate"),
        said(disk.write_back, "write-back cache", "no write-back cache"),
        said(disk.fua, "FUA", "no FUA"),
    ];
    let parts: Vec<&str> = parts.into_iter().flatten().collect();
    format!("{}: {kind}, {}", disk.name, parts.join(", "))
}

fn time(ns: f64) -> String {
    match ns {
        ns if ns < 1e6 => format!("{:.1} µs", ns / 1e3),
        ns => format!("{:.2} ms", ns / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk() -> Disk {
        Disk {
            name: "sda".to_owned(),
            model: None,
            kind: DiskKind::Physical,
            rotational: Some(true),
            write_back: Some(true),
            fua: Some(false),
            counts_flushes: true,
            below: None,
        }
    }

    fn place(file_system: &str, options: &[&str], disks: Vec<Disk>) -> StorageLocation {
        StorageLocation {
            file_system: Some(file_system.to_owned()),
            source: "/dev/sda".to_owned(),
            mount_point: "/data".into(),
            options: options.iter().map(|&option| option.to_owned()).collect(),
            disks,
            upper: None,
        }
    }

    fn probe(n: u64, mean_ns: f64, counted: u64) -> Probe {
        let times = FlushTimes { n, mean_ns, p50_ns: None, p99_ns: None, max_ns: mean_ns as u64 };
        Probe { times, counted: vec![count("sda", counted, 0)] }
    }

    fn count(disk: &str, flushes: u64, others: u64) -> Counted {
        Counted { disk: disk.to_owned(), flushes, others }
    }

    #[track_caller]
    fn expect(place: &StorageLocation, hypervisor: Option<&str>, probe: &Probe, verdict: FlushVerdict, words: &str) {
        let judged = judge(place, hypervisor, Some(probe));
        assert_eq!(judged.verdict, verdict, "{judged:?}");
        assert!(judged.because.contains(words), "{judged:?}");
    }

    #[test]
    fn it_follows_from_what_was_counted_and_how_long_it_took() {
        let on = |disk| place("ext4", &["rw"], vec![disk]);
        let ssd = || Disk { rotational: Some(false), ..disk() };
        let virtio = || Disk { kind: DiskKind::Virtual("virtio_blk".to_owned()), ..disk() };
        let through = || Disk { write_back: Some(false), ..disk() };
        let slow = probe(100, 8e6, 100);
        expect(&on(disk()), None, &slow, FlushVerdict::Reach, "100 were counted by sda while 100");
        expect(&on(disk()), None, &probe(100, 8e6, 0), FlushVerdict::CannotBeReal, "none of 100 flushes reached sda");
        expect(
            &on(disk()),
            None,
            &probe(100, 8e6, 60),
            FlushVerdict::CannotBeTold,
            "of 100 flushes only 60 can be among those",
        );
        expect(&on(disk()), None, &probe(100, 5e4, 100), FlushVerdict::CannotBeTold, "a disk that rotates needs 2 ms");
        expect(&on(ssd()), None, &probe(100, 5e4, 100), FlushVerdict::CannotBeTold, "flash needs 0.1 ms");
        expect(&on(ssd()), None, &probe(100, 5e5, 100), FlushVerdict::Reach, "0");
        expect(
            &on(ssd()),
            Some("KVM"),
            &probe(100, 5e5, 100),
            FlushVerdict::CannotBeTold,
            "only the host of this virtual machine knows",
        );
        expect(&on(virtio()), None, &slow, FlushVerdict::CannotBeTold, "the virtual disk sda");
        expect(&on(through()), None, &probe(100, 8e6, 0), FlushVerdict::CannotBeTold, "no volatile cache");
        // What others asked for is neither taken for ours, nor is it a proof that there are none.
        let busy = |flushes| Probe { counted: vec![count("sda", flushes, 500)], ..probe(100, 8e6, 0) };
        expect(&on(disk()), None, &busy(600), FlushVerdict::Reach, "100 were counted");
        expect(&on(disk()), None, &busy(200), FlushVerdict::CannotBeTold, "only 0 can be among those");
        expect(&on(disk()), None, &busy(0), FlushVerdict::CannotBeReal, "none of 100");
        let uncounted = Probe { counted: vec![], ..probe(100, 8e6, 0) };
        expect(&on(disk()), None, &uncounted, FlushVerdict::CannotBeTold, "does not count the flushes of sda");
        let unasked = judge(&on(disk()), None, None);
        assert_eq!((unasked.verdict, unasked.because.as_str()), (FlushVerdict::CannotBeTold, "no flush was asked for"));
    }

    #[test]
    fn file_systems_and_mount_options_decide_before_anything_is_counted() {
        let slow = probe(100, 8e6, 100);
        let real = || vec![disk()];
        expect(&place("tmpfs", &[], vec![]), None, &slow, FlushVerdict::CannotBeReal, "tmpfs keeps files in memory");
        for option in ["nobarrier", "barrier=0"] {
            expect(&place("ext4", &["rw", option], real()), None, &slow, FlushVerdict::CannotBeReal, option);
        }
        let through = vec![Disk { write_back: Some(false), ..disk() }];
        expect(&place("ext4", &["nobarrier"], through), None, &slow, FlushVerdict::CannotBeTold, "no volatile cache");
        expect(&place("overlay", &["volatile"], vec![]), None, &slow, FlushVerdict::CannotBeReal, "volatile");
        expect(&place("overlay", &[], vec![]), None, &slow, FlushVerdict::CannotBeTold, "behind the overlay");
        expect(&place("nfs4", &[], vec![]), None, &slow, FlushVerdict::CannotBeTold, "no device of this machine");
        let memory = vec![Disk { kind: DiskKind::Memory, write_back: Some(false), ..disk() }];
        expect(&place("ext4", &[], memory), None, &slow, FlushVerdict::CannotBeReal, "a disk in memory");
    }

    #[test]
    fn a_loop_device_is_as_good_as_what_its_file_is_on() {
        let on = |below: StorageLocation| {
            let kind = DiskKind::Loop("/x/image".into());
            place("ext4", &[], vec![Disk { kind, below: Some(Box::new(below)), ..disk() }])
        };
        let below = |write_back| place("xfs", &[], vec![Disk { name: "sdb".to_owned(), write_back, ..disk() }]);
        let both = |lower: u64| {
            let mut seen = probe(100, 8e6, 100);
            seen.counted.push(count("sdb", lower, 0));
            seen
        };
        expect(&on(below(Some(true))), None, &both(100), FlushVerdict::Reach, "sda");
        expect(&on(below(Some(true))), None, &both(0), FlushVerdict::CannotBeReal, "reached sdb");
        expect(&on(place("tmpfs", &[], vec![])), None, &both(0), FlushVerdict::CannotBeReal, "memory");
        let hidden = Disk { kind: DiskKind::Loop("/x/image".into()), ..disk() };
        expect(
            &place("ext4", &[], vec![hidden]),
            None,
            &both(0),
            FlushVerdict::CannotBeTold,
            "cannot be seen from here",
        );
    }
}
