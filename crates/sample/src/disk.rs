//! What the host's block devices do, from `/proc/diskstats` (the kernel's admin-guide/iostats).

use std::path::Path;

use plimsoll_core::{Reading, Sampler, SamplerSpec, SeriesSpec, Unavailable};

use crate::proc_file::{ProcFile, append, growth, per_s, series};

pub(crate) const SPEC: SamplerSpec = SamplerSpec {
    name: "disk",
    summary: "per device: reads, writes, flushes, bytes, times, requests in flight, share of time busy",
};

/// The kernel's sectors, whatever the device's are.
const SECTOR_BYTES: f64 = 512.0;

/// Series of one device: name and unit.
const NAMES: [(&str, &str); 10] = [
    ("reads", "1/s"),
    ("writes", "1/s"),
    ("flushes", "1/s"),
    ("read", "B/s"),
    ("written", "B/s"),
    ("read_time", "ms"),
    ("write_time", "ms"),
    ("flush_time", "ms"),
    ("in_flight", "requests"),
    ("busy", "%"),
];

/// Devices that live in memory or in another device's file: of interest only when somebody uses them.
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

/// Calls `visit` with each device's name and counts.
fn parse(text: &str, mut visit: impl FnMut(&str, Counts)) {
    for line in text.lines() {
        let mut fields = line.split_ascii_whitespace().skip(2);
        let Some(name) = fields.next() else { continue };
        let mut values = [0u64; 17];
        let mut found = 0;
        for (place, field) in values.iter_mut().zip(fields) {
            match field.parse() {
                Ok(value) => *place = value,
                Err(_) => break,
            }
            found += 1;
        }
        if found < 11 {
            continue;
        }
        let [reads, _, sectors_read, read_ms, writes, _, sectors_written, write_ms, in_flight, busy_ms, ..] = values;
        let flushes = (found >= 17).then_some((values[15], values[16]));
        let counts =
            Counts { reads, sectors_read, read_ms, writes, sectors_written, write_ms, in_flight, busy_ms, flushes };
        visit(name, counts);
    }
}

/// Values in the order of [`NAMES`].
fn values(now: &Counts, before: &Counts, elapsed_ns: u64) -> [Option<f64>; 10] {
    // Milliseconds per request; none where there was no request.
    let mean = |time: Option<f64>, number: Option<f64>| time.zip(number).filter(|&(_, n)| n > 0.0).map(|(t, n)| t / n);
    let flushes = now.flushes.zip(before.flushes);
    [
        per_s(now.reads, before.reads, elapsed_ns),
        per_s(now.writes, before.writes, elapsed_ns),
        flushes.and_then(|(now, before)| per_s(now.0, before.0, elapsed_ns)),
        per_s(now.sectors_read, before.sectors_read, elapsed_ns).map(|sectors| sectors * SECTOR_BYTES),
        per_s(now.sectors_written, before.sectors_written, elapsed_ns).map(|sectors| sectors * SECTOR_BYTES),
        mean(growth(now.read_ms, before.read_ms), growth(now.reads, before.reads)),
        mean(growth(now.write_ms, before.write_ms), growth(now.writes, before.writes)),
        flushes.and_then(|(now, before)| mean(growth(now.1, before.1), growth(now.0, before.0))),
        Some(now.in_flight as f64),
        // The kernel's clock ticks in steps of some milliseconds: a little more than all is all.
        per_s(now.busy_ms, before.busy_ms, elapsed_ns).map(|ms_per_s| (ms_per_s / 10.0).min(100.0)),
    ]
}

/// True for whole devices that can be of interest here. `size_sectors` gives the size of a whole device.
fn is_wanted(name: &str, counts: &Counts, size_sectors: impl Fn(&str) -> Option<u64>) -> bool {
    let kind = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let used = counts.reads > 0 || counts.writes > 0;
    (used || !MADE_UP.contains(&kind)) && size_sectors(name).is_some_and(|sectors| sectors > 0)
}

pub(crate) struct Disk {
    diskstats: ProcFile,
    series: Vec<SeriesSpec>,
    /// Name, and counts at the last reading; in the order of the series.
    before: Vec<(String, Option<Counts>)>,
}

impl Disk {
    pub(crate) fn open() -> Result<Self, Unavailable> {
        let mut diskstats = ProcFile::open("/proc/diskstats")?;
        let text = diskstats.read().map_err(|error| Unavailable(format!("/proc/diskstats: {error}")))?;
        let mut before = Vec::new();
        // Partitions have no directory of their own there; a slash in a device's name becomes an exclamation mark.
        // Without a medium, or without a file behind it, a device has no size.
        let size_sectors = |name: &str| {
            let path = Path::new("/sys/block").join(name.replace('/', "!")).join("size");
            std::fs::read_to_string(path).ok()?.trim().parse().ok()
        };
        parse(&text, |name, counts| {
            if is_wanted(name, &counts, size_sectors) {
                before.push((name.to_owned(), None));
            }
        });
        if before.is_empty() {
            return Err(Unavailable("/proc/diskstats tells of no block device".into()));
        }
        let all = before.iter().flat_map(|(name, _)| NAMES.map(|(what, unit)| series(name, what, unit)));
        Ok(Self { series: all.collect(), diskstats, before })
    }
}

impl Sampler for Disk {
    fn name(&self) -> &'static str {
        SPEC.name
    }

    fn series(&self) -> &[SeriesSpec] {
        &self.series
    }

    fn sample(&mut self, elapsed_ns: u64, readings: &mut Vec<Reading>) {
        let Ok(text) = self.diskstats.read() else { return };
        let before = &mut self.before;
        parse(&text, |name, counts| {
            let Some(position) = before.iter().position(|(known, _)| known == name) else { return };
            if let Some(last) = before[position].1.replace(counts) {
                append(readings, position * NAMES.len(), values(&counts, &last, elapsed_ns));
            }
        });
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

    fn all(text: &str) -> Vec<(String, Counts)> {
        let mut found = Vec::new();
        parse(text, |name, counts| found.push((name.to_owned(), counts)));
        found
    }

    #[test]
    fn fields_are_those_of_the_kernels_list() {
        let found = all(NEW);
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
        assert_eq!(found[1], ("vda".to_owned(), vda));
        let wanted = |size_sectors: fn(&str) -> Option<u64>| {
            let wanted = found.iter().filter(|(name, counts)| is_wanted(name, counts, size_sectors));
            wanted.map(|(name, _)| name.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(wanted(|name| (name != "vda1").then_some(8)), ["vda", "zram0"]);
        assert_eq!(wanted(|name| (name != "vda1").then_some(u64::from(name == "vda"))), ["vda"]);
    }

    #[test]
    fn older_kernels_tell_less() {
        for text in [DISCARDS, OLD] {
            let found = all(text);
            assert_eq!(found.len(), 1);
            let counts = found[0].1;
            assert_eq!((counts.reads, counts.busy_ms, counts.flushes), (100, 70, None));
            let values = values(&Counts { reads: 110, read_ms: 80, ..counts }, &counts, 2_000_000_000);
            let flush_time_and_flushes = (values[2], values[7]);
            assert_eq!((values[0], values[5], flush_time_and_flushes), (Some(5.0), Some(5.0), (None, None)));
        }
    }

    #[test]
    fn values_are_rates_means_and_shares() {
        let before = Counts { flushes: Some((10, 100)), ..Counts::default() };
        let now = Counts {
            reads: 20,
            sectors_read: 160,
            read_ms: 10,
            writes: 0,
            sectors_written: 8,
            write_ms: 5,
            in_flight: 7,
            busy_ms: 1_004,
            flushes: Some((14, 120)),
        };
        let found = values(&now, &before, 1_000_000_000).map(|value| value.unwrap_or(-1.0));
        assert_eq!(found, [20.0, 0.0, 4.0, 81_920.0, 4_096.0, 0.5, -1.0, 5.0, 7.0, 100.0]);
        // Unplugged and plugged in again.
        assert_eq!(values(&before, &now, 1_000_000_000)[0], None);
    }

    #[test]
    fn garbled_text_is_taken() {
        for text in garbled(NEW).chain(garbled(OLD)) {
            for (_, counts) in all(&text) {
                values(&counts, &Counts::default(), 1);
            }
        }
    }
}
