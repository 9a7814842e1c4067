//! How much of the time tasks waited for something, from `/proc/pressure` (the kernel's accounting/psi).

use plimsoll_core::{Reading, Sampler, SamplerSpec, SeriesSpec, Unavailable};

use crate::proc_file::{ProcFile, append, per_s, series};

pub(crate) const SPEC: SamplerSpec =
    SamplerSpec { name: "pressure", summary: "share of time in which some or all tasks waited for CPU, memory, I/O" };

/// Microseconds in which some task waited, and in which all did.
fn parse(text: &str) -> [Option<u64>; 2] {
    let total = |kind: &str| {
        let line = text.lines().find(|line| line.split_ascii_whitespace().next() == Some(kind))?;
        line.split_ascii_whitespace().find_map(|field| field.strip_prefix("total="))?.parse().ok()
    };
    [total("some"), total("full")]
}

pub(crate) struct Pressure {
    files: Vec<(ProcFile, [Option<u64>; 2])>,
    series: Vec<SeriesSpec>,
}

impl Pressure {
    pub(crate) fn open() -> Result<Self, Unavailable> {
        let (mut files, mut all) = (Vec::new(), Vec::new());
        for subject in ["cpu", "memory", "io"] {
            let Ok(mut file) = ProcFile::open(&format!("/proc/pressure/{subject}")) else { continue };
            // Where it is compiled in and switched off, opening works and reading does not.
            if file.read().is_ok_and(|text| parse(&text)[0].is_some()) {
                files.push((file, [None, None]));
                all.extend([series(subject, "some", "%"), series(subject, "all", "%")]);
            }
        }
        if files.is_empty() {
            let why = "this kernel tells no pressure: it needs CONFIG_PSI, and psi=1 on its command line";
            return Err(Unavailable(why.into()));
        }
        Ok(Self { files, series: all })
    }
}

impl Sampler for Pressure {
    fn name(&self) -> &'static str {
        SPEC.name
    }

    fn series(&self) -> &[SeriesSpec] {
        &self.series
    }

    fn sample(&mut self, elapsed_ns: u64, readings: &mut Vec<Reading>) {
        for (position, (file, before)) in self.files.iter_mut().enumerate() {
            let Ok(text) = file.read() else { continue };
            let now = parse(&text);
            let shares = now.into_iter().zip(*before).map(|(now, before)| {
                // Microseconds in a second, in percent.
                per_s(now?, before?, elapsed_ns).map(|us_per_s| (us_per_s / 1e4).min(100.0))
            });
            append(readings, position * 2, shares);
            *before = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc_file::garbled;

    const TEXT: &str = "some avg10=0.88 avg60=0.18 avg300=0.13 total=6742739\n\
                        full avg10=0.88 avg60=0.18 avg300=0.13 total=6337871\n";

    #[test]
    fn totals_are_found() {
        assert_eq!(parse(TEXT), [Some(6_742_739), Some(6_337_871)]);
        // Linux 4.20 to 5.12 tell no `full` of the CPU.
        assert_eq!(parse("some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"), [Some(7), None]);
        assert_eq!(parse("some total=x\nfull"), [None, None]);
    }

    #[test]
    fn garbled_text_is_taken() {
        assert!(garbled(TEXT).any(|text| parse(&text) != parse(TEXT)));
    }
}
