//! Activity of the host's block devices, from `/proc/diskstats` (the kernel's admin-guide/iostats).

use std::path::Path;

use plimsoll_core::mounts::{MOUNTS_FILE, mounts};
use plimsoll_core::{Reading, Sampler, Unavailable};

use crate::proc_file::{ProcFile, numbers};
use crate::server::{ServerProcesses, node_name};

/// The kernel's sectors, whatever the device's are.
const SECTOR_BYTES: f64 = 512.0;

/// Devices that live in memory or in another device's file: of interest only in use.
const MADE_UP: [&str; 6] = ["loop", "ram", "zram", "nbd", "fd", "sr"];

/// The fields of one line that are used, since the host started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Counts {
    reads: u64,
    sectors_read: u64,
    read_ms: u64,
    writes: u64,
    sectors_written: u64,
    write_ms: u64,
    in_flight: u64,
    busy_ms: u64,
    /// Number and time of flushes; kernels before 5.5 do not tell.
    flushes: Option<(u64, u64)>,
}

/// Each device's name and counts.
fn parse(text: &str) -> Vec<(&str, Counts)> {
    let mut devices = Vec::new();
    for line in text.lines() {
        let mut fields = line.split_ascii_whitespace().skip(2);
        let Some(name) = fields.next() else { continue };
        let (values, found) = numbers::<17>(fields);
        if found < 11 {
            continue;
        }
        let [reads, _, sectors_read, read_ms, writes, _, sectors_written, write_ms, in_flight, busy_ms, ..] = values;
        let flushes = (found >= 17).then_some((values[15], values[16]));
        let counts =
            Counts { reads, sectors_read, read_ms, writes, sectors_written, write_ms, in_flight, busy_ms, flushes };
        devices.push((name, counts));
    }
    devices
}

fn readings(device: &str, now: &Counts, before: Option<&Counts>) -> Vec<Reading> {
    let total = |name, unit, value: f64| Reading::total(device, name, unit, value);
    let mut readings = vec![
        total("reads", "", now.reads as f64),
        total("writes", "", now.writes as f64),
        total("read", "B", now.sectors_read as f64 * SECTOR_BYTES),
        total("written", "B", now.sectors_written as f64 * SECTOR_BYTES),
        Reading::level(device, "in_flight", "requests", now.in_flight as f64),
        total("busy", "s", now.busy_ms as f64 / 1e3),
    ];
    readings.extend(now.flushes.map(|(flushes, _)| total("flushes", "", flushes as f64)));
    let Some(before) = before else { return readings };
    // Milliseconds per request; none where there was no request.
    let mut mean = |name, (number, ms): (u64, u64), (number_before, ms_before): (u64, u64)| {
        let grown = number.checked_sub(number_before).zip(ms.checked_sub(ms_before)).filter(|(number, _)| *number > 0);
        readings.extend(grown.map(|(number, ms)| Reading::level(device, name, "ms", ms as f64 / number as f64)));
    };
    mean("read_time", (now.reads, now.read_ms), (before.reads, before.read_ms));
    mean("write_time", (now.writes, now.write_ms), (before.writes, before.write_ms));
    if let (Some(now), Some(before)) = (now.flushes, before.flushes) {
        mean("flush_time", now, before);
    }
    readings
}

/// Returns true for a device that lives in memory or in another device's file, by its name.
fn is_made_up(name: &str) -> bool {
    MADE_UP.contains(&name.trim_end_matches(|c: char| c.is_ascii_digit()))
}

/// True for whole devices that can be of interest here. `size_sectors` gives the size of a whole device.
fn is_wanted(name: &str, counts: &Counts, size_sectors: impl Fn(&str) -> Option<u64>) -> bool {
    let used = counts.reads > 0 || counts.writes > 0;
    (used || !is_made_up(name)) && size_sectors(name).is_some_and(|sectors| sectors > 0)
}

/// A device that is read.
pub(crate) struct Device {
    pub(crate) name: String,
    /// Subject of its series: its name, for the own disk of a node after the node's.
    pub(crate) subject: String,
    /// Counts at the last reading.
    before: Option<Counts>,
}

/// Devices that are read: those of the host, and those of nodes behind them.
pub(crate) struct Devices {
    pub(crate) all: Vec<Device>,
    processes: ServerProcesses,
    /// Change that the disks of nodes are of.
    change: u64,
    host_count: usize,
}

impl Devices {
    /// Returns the devices of the host in the text of `/proc/diskstats`.
    pub(crate) fn find(text: &str, processes: ServerProcesses) -> Result<Self, Unavailable> {
        // Partitions have no directory of their own there; a slash in a device's name becomes an exclamation mark.
        // Without a medium, or without a file behind it, a device has no size.
        let size_sectors = |name: &str| {
            let path = Path::new("/sys/block").join(name.replace('/', "!")).join("size");
            std::fs::read_to_string(path).ok()?.trim().parse().ok()
        };
        let wanted = parse(text).into_iter().filter(|(name, counts)| is_wanted(name, counts, size_sectors));
        let device = |name: &str| Device { name: name.to_owned(), subject: name.to_owned(), before: None };
        let all: Vec<_> = wanted.map(|(name, _)| device(name)).collect();
        if all.is_empty() {
            return Err(Unavailable("/proc/diskstats lists no block device".into()));
        }
        let host_count = all.len();
        Ok(Self { all, processes, change: 0, host_count })
    }

    /// Takes the disks that were made for nodes: those of the host are read anyway.
    pub(crate) fn take_sites(&mut self) {
        let Some(sites) = self.processes.since(self.change) else { return };
        self.change = sites.change;
        self.all.truncate(self.host_count);
        let table = std::fs::read_to_string(MOUNTS_FILE).unwrap_or_default();
        for site in &sites.all {
            let Some(name) = device_of(&site.directory, &table).filter(|name| is_made_up(name)) else { continue };
            if self.all.iter().all(|known| known.name != name) {
                let subject = format!("{} {name}", node_name(site));
                self.all.push(Device { name, subject, before: None });
            }
        }
    }
}

/// Returns the name of the device with the file system of `directory`, by the `table` of mounts; `None` if it is on no
/// block device. The directory itself is not looked at: its disk may be one that does not answer.
fn device_of(directory: &Path, table: &str) -> Option<String> {
    let above = mounts(table).filter(|mount| directory.starts_with(&mount.mount_point));
    name_of(above.max_by_key(|mount| mount.mount_point.as_os_str().len())?.device)
}

/// Returns the name of the device with these major and minor numbers.
pub(crate) fn name_of((major, minor): (u32, u32)) -> Option<String> {
    let link = std::fs::read_link(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    Some(link.file_name()?.to_str()?.replace('!', "/"))
}

pub(crate) struct Disk {
    diskstats: ProcFile,
    devices: Devices,
}

impl Disk {
    pub(crate) fn open(processes: ServerProcesses) -> Result<Self, Unavailable> {
        let (diskstats, text) = ProcFile::open_and_read("/proc/diskstats")?;
        Ok(Self { diskstats, devices: Devices::find(&text, processes)? })
    }
}

impl Sampler for Disk {
    fn sample(&mut self) -> Vec<Reading> {
        self.devices.take_sites();
        let mut all = Vec::new();
        let Ok(text) = self.diskstats.read() else { return all };
        for (name, counts) in parse(&text) {
            let Some(device) = self.devices.all.iter_mut().find(|known| known.name == name) else { continue };
            all.extend(readings(&device.subject, &counts, device.before.replace(counts).as_ref()));
        }
        all
    }

    fn fine(&mut self) -> Vec<Reading> {
        self.devices.take_sites();
        let Ok(text) = self.diskstats.read() else { return Vec::new() };
        let read = parse(&text).into_iter().filter_map(|(name, counts)| {
            let device = self.devices.all.iter().find(|known| known.name == name)?;
            // Mean times are of whole slices.
            Some(readings(&device.subject, &counts, None))
        });
        read.flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc_file::garbled;

    /// Linux 6.18.
    const NEW: &str = "   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n \
                       254       0 vda 70729 10208 7427178 46877 17829 52971 15823968 45366 3 11920 92854 6969 50 794216 562 1282 48\n \
                       254       1 vda1 10 0 8 1 0 0 0 0 0 1 1 0 0 0 0 0 0\n \
                       253       0 zram0 5 0 40 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n";
    /// Linux 4.19: discards, no flushes.
    const DISCARDS: &str = " 8 0 sda 100 2 800 30 50 4 400 60 1 70 90 5 0 40 2\n";
    /// Linux 2.6 to 4.17.
    const OLD: &str = " 8 0 sda 100 2 800 30 50 4 400 60 1 70 90\n 8 1 sda1 100 800 50 400\n";

    #[test]
    fn fields_are_those_of_the_kernels_list() {
        let found = parse(NEW);
        let vda = Counts {
            reads: 70_729,
            sectors_read: 7_427_178,
            read_ms: 46_877,
            writes: 17_829,
            sectors_written: 15_823_968,
            write_ms: 45_366,
            in_flight: 3,
            busy_ms: 11_920,
            flushes: Some((1_282, 48)),
        };
        assert_eq!(found[1], ("vda", vda));
        let wanted = |size_sectors: fn(&str) -> Option<u64>| {
            let wanted = found.iter().filter(|(name, counts)| is_wanted(name, counts, size_sectors));
            wanted.map(|(name, _)| *name).collect::<Vec<_>>()
        };
        assert_eq!(wanted(|name| (name != "vda1").then_some(8)), ["vda", "zram0"]);
        assert_eq!(wanted(|name| (name != "vda1").then_some(u64::from(name == "vda"))), ["vda"]);
    }

    #[test]
    fn older_kernels_tell_less() {
        for text in [DISCARDS, OLD] {
            let found = parse(text);
            assert_eq!(found.len(), 1);
            let counts = found[0].1;
            assert_eq!((counts.reads, counts.busy_ms, counts.flushes), (100, 70, None));
            let read = readings("sda", &Counts { reads: 110, read_ms: 80, ..counts }, Some(&counts));
            let of = |name: &str| read.iter().find(|one| one.name == name).map(Reading::number);
            assert_eq!((of("reads"), of("read_time")), (Some(110.0), Some(5.0)));
            assert_eq!((of("flushes"), of("flush_time")), (None, None));
        }
    }

    #[test]
    fn times_are_means_and_the_rest_is_counted() {
        let before = Counts { flushes: Some((10, 100)), ..Counts::default() };
        let now = Counts {
            reads: 20,
            sectors_read: 160,
            read_ms: 10,
            sectors_written: 8,
            write_ms: 5,
            in_flight: 7,
            busy_ms: 1_004,
            flushes: Some((14, 120)),
            ..Counts::default()
        };
        let read = readings("vda", &now, Some(&before));
        let of = |name: &str| read.iter().find(|one| one.name == name).map(Reading::number);
        assert_eq!((of("read"), of("written"), of("busy")), (Some(81_920.0), Some(4_096.0), Some(1.004)));
        assert_eq!((of("read_time"), of("write_time"), of("flush_time")), (Some(0.5), None, Some(5.0)));
        // Unplugged and plugged in again.
        assert!(readings("vda", &before, Some(&now)).iter().all(|one| one.unit != "ms"));
    }

    #[test]
    fn garbled_text_is_taken() {
        for text in garbled(NEW).chain(garbled(OLD)) {
            for (_, counts) in parse(&text) {
                readings("vda", &counts, Some(&Counts::default()));
            }
        }
    }
}
