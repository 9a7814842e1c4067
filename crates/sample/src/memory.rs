//! Use of the host's memory, from `/proc/meminfo` (proc_meminfo(5)).

use plimsoll_core::{Reading, Sampler, Unavailable};

use crate::proc_file::{ProcFile, number_of};

/// Bytes of memory, where the kernel tells.
#[derive(Debug, PartialEq, Eq, Default, Clone, Copy)]
pub struct Bytes {
    /// Total memory.
    pub total: Option<u64>,
    /// Memory that programs can still allocate without swapping.
    pub available: Option<u64>,
    cached: Option<u64>,
    dirty: Option<u64>,
    writeback: Option<u64>,
    /// Room for what is swapped out.
    pub swap_total: Option<u64>,
    swap_free: Option<u64>,
}

impl Bytes {
    /// Returns the bytes that are swapped out.
    pub fn swapped(&self) -> Option<u64> {
        self.swap_total.zip(self.swap_free).map(|(total, free)| total.saturating_sub(free))
    }
}

pub(crate) fn parse(text: &str) -> Bytes {
    let bytes = |name: &str| number_of(text, name).map(|kibibytes| kibibytes.saturating_mul(1024));
    Bytes {
        total: bytes("MemTotal"),
        available: bytes("MemAvailable"),
        cached: bytes("Cached"),
        dirty: bytes("Dirty"),
        writeback: bytes("Writeback"),
        swap_total: bytes("SwapTotal"),
        swap_free: bytes("SwapFree"),
    }
}

pub(crate) struct Memory {
    meminfo: ProcFile,
}

impl Memory {
    pub(crate) fn open() -> Result<Self, Unavailable> {
        Ok(Self { meminfo: ProcFile::open("/proc/meminfo")? })
    }
}

impl Sampler for Memory {
    fn sample(&mut self) -> Vec<Reading> {
        let now = self.meminfo.read().map(|text| parse(&text)).unwrap_or_default();
        // What cannot be had without swapping; kernels before 3.14 do not tell what can.
        let used = now.total.zip(now.available).map(|(total, available)| total.saturating_sub(available));
        let all = [
            ("used", used),
            ("available", now.available),
            ("cached", now.cached),
            ("dirty", now.dirty),
            ("writeback", now.writeback),
            ("swapped", now.swapped()),
        ];
        let known = all.into_iter().filter_map(|(name, bytes)| Some((name, bytes?)));
        known.map(|(name, bytes)| Reading::level("", name, "B", bytes as f64)).collect()
    }

    fn fine(&mut self) -> Vec<Reading> {
        self.sample()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc_file::garbled;

    const TEXT: &str = "MemTotal:       24684084 kB\nMemFree:        23170204 kB\nMemAvailable:   24228640 kB\n\
                        Buffers:           14196 kB\nCached:          1201432 kB\nSwapCached:            0 kB\n\
                        SwapTotal:          2048 kB\nSwapFree:           1024 kB\nDirty:              2556 kB\n\
                        Writeback:             4 kB\nWritebackTmp:          9 kB\nHugePages_Total:       0\n";

    #[test]
    fn bytes_are_found_by_name() {
        let all = Bytes {
            total: Some(24_684_084 * 1024),
            available: Some(24_228_640 * 1024),
            cached: Some(1_201_432 * 1024),
            dirty: Some(2_556 * 1024),
            writeback: Some(4 * 1024),
            swap_total: Some(2_048 * 1024),
            swap_free: Some(1_024 * 1024),
        };
        assert_eq!(parse(TEXT), all);
        assert_eq!(parse("MemTotal: lots\nDirty:\n"), Bytes::default());
    }

    #[test]
    fn garbled_text_is_taken() {
        let same = garbled(TEXT).filter(|text| parse(text) == parse(TEXT)).count();
        assert!(same > 100, "most changes are elsewhere: {same}");
    }
}
