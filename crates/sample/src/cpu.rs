//! Use of the host's cores, from `/proc/stat` (proc_stat(5)).

use std::collections::BTreeMap;

use plimsoll_core::{Reading, Sampler, Unavailable};

use crate::proc_file::{ProcFile, numbers};

/// Shares of the time of one core, or of all together.
const NAMES: [&str; 5] = ["user", "system", "iowait", "steal", "idle"];

/// Ticks spent in each of [`NAMES`].
type Ticks = [u64; 5];

/// The number of each core (`None`: all together), and its ticks.
fn parse(text: &str) -> Vec<(Option<u32>, Ticks)> {
    let mut cores = Vec::new();
    for line in text.lines() {
        let Some(rest) = line.strip_prefix("cpu") else { continue };
        let mut fields = rest.split_ascii_whitespace();
        let core = if rest.starts_with(' ') { None } else { fields.next() };
        let number = core.map(str::parse::<u32>);
        let (ticks, found) = numbers::<8>(fields);
        // Kernels before 2.6.11 know no stolen time; fewer than four fields are no such line.
        if let (Ok(number), 4..) = (number.transpose(), found) {
            let [user, nice, system, idle, iowait, irq, softirq, steal] = ticks;
            let user = user.saturating_add(nice);
            cores.push((number, [user, system.saturating_add(irq).saturating_add(softirq), iowait, steal, idle]));
        }
    }
    cores
}

/// Shares in percent; `None` when no time went by. The kernel may take waiting time back: that is no time.
fn shares(now: Ticks, before: Ticks) -> Option<[f64; 5]> {
    let mut grown = [0.0; 5];
    for (place, (now, before)) in grown.iter_mut().zip(now.into_iter().zip(before)) {
        *place = now.saturating_sub(before) as f64;
    }
    let sum: f64 = grown.iter().sum();
    (sum > 0.0).then(|| grown.map(|ticks| ticks * 100.0 / sum))
}

pub(crate) struct Cpu {
    stat: ProcFile,
    /// Number of the core, or all, and its ticks at the last reading.
    before: BTreeMap<Option<u32>, Ticks>,
}

impl Cpu {
    pub(crate) fn open() -> Result<Self, Unavailable> {
        let (stat, text) = ProcFile::open_and_read("/proc/stat")?;
        match parse(&text)[..] {
            [] => Err(Unavailable("/proc/stat lists no cores".into())),
            _ => Ok(Self { stat, before: BTreeMap::new() }),
        }
    }
}

impl Sampler for Cpu {
    fn sample(&mut self) -> Vec<Reading> {
        let mut readings = Vec::new();
        let Ok(text) = self.stat.read() else { return readings };
        for (core, ticks) in parse(&text) {
            let subject = core.map_or(String::new(), |number| format!("cpu{number}"));
            let shares = self.before.insert(core, ticks).and_then(|last| shares(ticks, last));
            let named = NAMES.into_iter().zip(shares.into_iter().flatten());
            readings.extend(named.map(|(name, share)| Reading::level(&subject, name, "%", share)));
        }
        readings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc_file::garbled;

    const TEXT: &str = "cpu  30961 5 7127 256668 873 7 87 15 400 0\n\
                        cpu0 14886 0 3136 129662 129 0 26 4 0 0\n\
                        cpu3 16075 5 3990 127006 743 7 60 11 0 0\n\
                        intr 337545 0 0 0\nctxt 510071\nbtime 1795292643\nprocs_running 1\n";

    #[test]
    fn ticks_are_put_together_as_they_are_shown() {
        let expected = [
            (None, [30_966, 7_221, 873, 15, 256_668]),
            (Some(0), [14_886, 3_162, 129, 4, 129_662]),
            (Some(3), [16_080, 4_057, 743, 11, 127_006]),
        ];
        assert_eq!(parse(TEXT), expected);
        assert_eq!(parse("cpu 1 2 3 4\ncpu0 1 2 3 4\n"), [(None, [3, 3, 0, 0, 4]), (Some(0), [3, 3, 0, 0, 4])]);
        assert_eq!(parse("cpu 1 2 3\ncpuX 1 2 3 4\ncpufreq 1 2 3 4 5\n"), []);
    }

    #[test]
    fn shares_are_of_the_time_that_went_by() {
        assert_eq!(shares([30, 15, 5, 0, 50], [0; 5]), Some([30.0, 15.0, 5.0, 0.0, 50.0]));
        assert_eq!(shares([10, 0, 4, 0, 100], [0, 0, 9, 0, 10]), Some([10.0, 0.0, 0.0, 0.0, 90.0]));
        assert_eq!(shares([7; 5], [7; 5]), None);
    }

    #[test]
    fn garbled_text_is_taken() {
        for text in garbled(TEXT) {
            assert!(parse(&text).len() <= 4);
        }
    }
}
