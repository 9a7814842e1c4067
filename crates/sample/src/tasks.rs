//! Who wants to run, from `/proc/stat` (proc_stat(5)) and `/proc/loadavg` (proc_loadavg(5)).

use plimsoll_core::{Reading, Sampler, SamplerSpec, Unavailable};

use crate::proc_file::ProcFile;

pub(crate) const SPEC: SamplerSpec =
    SamplerSpec { name: "tasks", summary: "tasks running and waiting for a device, load, context switches" };

#[derive(Debug, PartialEq, Eq, Default, Clone, Copy)]
struct Counts {
    running: Option<u64>,
    blocked: Option<u64>,
    switches: Option<u64>,
    forks: Option<u64>,
}

fn parse(text: &str) -> Counts {
    let mut counts = Counts::default();
    for line in text.lines() {
        let mut fields = line.split_ascii_whitespace();
        let place = match fields.next() {
            Some("procs_running") => &mut counts.running,
            Some("procs_blocked") => &mut counts.blocked,
            Some("ctxt") => &mut counts.switches,
            Some("processes") => &mut counts.forks,
            _ => continue,
        };
        *place = fields.next().and_then(|field| field.parse().ok());
    }
    counts
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
        let now = self.stat.read().map(|text| parse(&text)).unwrap_or_default();
        let load = self.load.read().ok().and_then(|text| parse_load(&text));
        let level = |name, value: Option<f64>| value.map(|value| Reading::level("", name, "tasks", value));
        let total = |name, value: Option<u64>| value.map(|value| Reading::total("", name, "", value as f64));
        let all = [
            level("running", now.running.map(|tasks| tasks as f64)),
            level("blocked", now.blocked.map(|tasks| tasks as f64)),
            level("load", load),
            total("switches", now.switches),
            total("forks", now.forks),
        ];
        all.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc_file::garbled;

    const TEXT: &str = "cpu  1 2 3 4\nintr 5 0 0\nctxt 510071\nbtime 1795292643\nprocesses 13932\n\
                        procs_running 3\nprocs_blocked 2\nsoftirq 223517 0\n";

    #[test]
    fn counts_are_found_by_name() {
        let all = Counts { running: Some(3), blocked: Some(2), switches: Some(510_071), forks: Some(13_932) };
        assert_eq!(parse(TEXT), all);
        assert_eq!(parse("procs_running x\nctxt"), Counts::default());
        assert_eq!(parse_load("4.89 3.15 1.65 7/127 31504\n"), Some(4.89));
        assert_eq!(parse_load(""), None);
    }

    #[test]
    fn garbled_text_is_taken() {
        let same = garbled(TEXT).filter(|text| parse(text) == parse(TEXT)).count();
        assert!(same > 100, "most changes are elsewhere: {same}");
    }
}
