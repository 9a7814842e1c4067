//! Work that the kernel does after interrupts, from `/proc/softirqs` (proc(5)): the counts of all processors together.

use plimsoll_core::{Reading, Sampler, Unavailable};

use crate::proc_file::ProcFile;

/// Kinds of work: the kernel's name, and that of the series.
const KINDS: [(&str, &str); 5] =
    [("NET_RX", "net_rx"), ("NET_TX", "net_tx"), ("TIMER", "timer"), ("BLOCK", "block"), ("SCHED", "sched")];

/// Returns the count of each kind in the text.
fn readings(text: &str) -> Vec<Reading> {
    let sum = |line: &str| line.split_ascii_whitespace().map_while(|field| field.parse::<u64>().ok()).sum::<u64>();
    let kind = |(kind, name): (&str, &str)| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        let (_, counts) = lines.find(|(found, _)| found.trim() == kind)?;
        Some(Reading::total("", name, "", sum(counts) as f64))
    };
    KINDS.into_iter().filter_map(kind).collect()
}

pub(crate) struct Interrupts(ProcFile);

impl Interrupts {
    pub(crate) fn open() -> Result<Self, Unavailable> {
        let (file, text) = ProcFile::open_and_read("/proc/softirqs")?;
        if readings(&text).is_empty() {
            return Err(Unavailable("/proc/softirqs lists none of the kinds that are known".into()));
        }
        Ok(Self(file))
    }
}

impl Sampler for Interrupts {
    fn sample(&mut self) -> Vec<Reading> {
        self.0.read().map(|text| readings(&text)).unwrap_or_default()
    }

    fn fine(&mut self) -> Vec<Reading> {
        self.sample()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc_file::garbled;

    const TEXT: &str = "                    CPU0       CPU1       \n          HI:          0          0\n       \
                        TIMER:    4923583    5055656\n      NET_TX:          2          3\n      \
                        NET_RX:        100         20\n";

    #[test]
    fn counts_are_sums_over_all_processors() {
        let all: Vec<_> = readings(TEXT).into_iter().map(|one| (one.name.clone(), one.number())).collect();
        let wanted = [("net_rx", 120.0), ("net_tx", 5.0), ("timer", 9_979_239.0)];
        assert_eq!(all, wanted.map(|(name, count)| (name.to_owned(), count)));
    }

    #[test]
    fn garbled_text_is_taken() {
        assert!(garbled(TEXT).all(|text| readings(&text).len() <= KINDS.len()));
    }
}
