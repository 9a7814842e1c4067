//! Runnable tasks, from `/proc/stat` (proc_stat(5)) and `/proc/loadavg` (proc_loadavg(5)).

use plimsoll_core::{Reading, Sampler, Unavailable};

use crate::proc_file::{ProcFile, number_of};

/// Reads the texts of both files.
fn readings(stat: &str, load: &str) -> Vec<Reading> {
    let level = |name, value: Option<f64>| value.map(|value| Reading::level("", name, "tasks", value));
    let count = |name| number_of(stat, name).map(|count| count as f64);
    let total = |name, value: Option<f64>| value.map(|value| Reading::total("", name, "", value));
    let all = [
        level("running", count("procs_running")),
        level("blocked", count("procs_blocked")),
        level("load", parse_load(load)),
        total("switches", count("ctxt")),
        total("forks", count("processes")),
    ];
    all.into_iter().flatten().collect()
}

/// Load of the last minute.
pub(crate) fn parse_load(text: &str) -> Option<f64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

pub(crate) struct Tasks {
    stat: ProcFile,
    load: ProcFile,
}

impl Tasks {
    pub(crate) fn open() -> Result<Self, Unavailable> {
        Ok(Self { stat: ProcFile::open("/proc/stat")?, load: ProcFile::open("/proc/loadavg")? })
    }
}

impl Sampler for Tasks {
    fn sample(&mut self) -> Vec<Reading> {
        readings(&self.stat.read().unwrap_or_default(), &self.load.read().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc_file::garbled;

    const TEXT: &str = "cpu  1 2 3 4\nintr 5 0 0\nctxt 510071\nbtime 1795292643\nprocesses 13932\n\
                        procs_running 3\nprocs_blocked 2\nsoftirq 223517 0\n";

    const LOAD: &str = "4.89 3.15 1.65 7/127 31504\n";

    #[test]
    fn counts_are_found_by_name() {
        let all: Vec<_> = readings(TEXT, LOAD).into_iter().map(|one| (one.name.clone(), one.number())).collect();
        let named = [("running", 3.0), ("blocked", 2.0), ("load", 4.89), ("switches", 510_071.0), ("forks", 13_932.0)];
        assert_eq!(all, named.map(|(name, value)| (name.to_owned(), value)));
        assert_eq!(readings("procs_running x\nctxt", ""), []);
        assert_eq!(parse_load(LOAD), Some(4.89));
        assert_eq!(parse_load(""), None);
    }

    #[test]
    fn garbled_text_is_taken() {
        let same = garbled(TEXT).filter(|text| readings(text, LOAD) == readings(TEXT, LOAD)).count();
        assert!(same > 100, "most changes are elsewhere: {same}");
    }
}
