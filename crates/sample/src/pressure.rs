//! Share of the time in which tasks waited for a resource, from `/proc/pressure` (the kernel's accounting/psi).

use plimsoll_core::{Reading, Sampler, Unavailable};

use crate::proc_file::ProcFile;

/// Microseconds in which some task waited, and in which all did.
pub(crate) fn parse(text: &str) -> [Option<u64>; 2] {
    let total = |kind: &str| {
        let line = text.lines().find(|line| line.split_ascii_whitespace().next() == Some(kind))?;
        line.split_ascii_whitespace().find_map(|field| field.strip_prefix("total="))?.parse().ok()
    };
    [total("some"), total("full")]
}

pub(crate) struct Pressure {
    files: Vec<(&'static str, ProcFile)>,
}

impl Pressure {
    pub(crate) fn open() -> Result<Self, Unavailable> {
        let mut files = Vec::new();
        for subject in ["cpu", "memory", "io"] {
            let Ok(mut file) = ProcFile::open(&format!("/proc/pressure/{subject}")) else { continue };
            // Where it is compiled in and switched off, opening works and reading does not.
            if file.read().is_ok_and(|text| parse(&text)[0].is_some()) {
                files.push((subject, file));
            }
        }
        if files.is_empty() {
            let why = "this kernel does not report pressure: it needs CONFIG_PSI, and psi=1 on its command line";
            return Err(Unavailable(why.into()));
        }
        Ok(Self { files })
    }
}

impl Sampler for Pressure {
    fn sample(&mut self) -> Vec<Reading> {
        let mut readings = Vec::new();
        for (subject, file) in &mut self.files {
            let waited_us = file.read().map(|text| parse(&text)).unwrap_or_default();
            let named = ["some", "all"].into_iter().zip(waited_us);
            readings.extend(named.filter_map(|(name, us)| Some(Reading::total(subject, name, "s", us? as f64 / 1e6))));
        }
        readings
    }

    fn fine(&mut self) -> Vec<Reading> {
        self.sample()
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
