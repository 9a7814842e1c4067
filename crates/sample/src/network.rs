//! What goes through the network interfaces of this namespace, from `/proc/net/dev` (proc_pid_net(5)).

use plimsoll_core::{Reading, Sampler, SamplerSpec, SeriesSpec, Unavailable};

use crate::proc_file::{ProcFile, append, per_s, series};

pub(crate) const SPEC: SamplerSpec =
    SamplerSpec { name: "network", summary: "per interface: bytes, packets, drops and errors" };

/// Series of one interface: name and unit.
const NAMES: [(&str, &str); 6] = [
    ("received", "B/s"),
    ("sent", "B/s"),
    ("received_packets", "1/s"),
    ("sent_packets", "1/s"),
    ("drops", "1/s"),
    ("errors", "1/s"),
];

/// Counters in the order of [`NAMES`].
type Counts = [u64; 6];

/// Calls `visit` with each interface's name and counts.
fn parse(text: &str, mut visit: impl FnMut(&str, Counts)) {
    for line in text.lines() {
        // Names may hold colons (aliases), the numbers do not.
        let Some((name, rest)) = line.rsplit_once(':') else { continue };
        let mut values = [0u64; 16];
        let mut fields = rest.split_ascii_whitespace();
        let complete = values.iter_mut().all(|place| {
            let value = fields.next().and_then(|field| field.parse().ok());
            *place = value.unwrap_or(0);
            value.is_some()
        });
        if complete {
            let [received, received_packets, errors_in, drops_in, ..] = values;
            let [.., sent, sent_packets, errors_out, drops_out, _, _, _, _] = values;
            let (drops, errors) = (drops_in.saturating_add(drops_out), errors_in.saturating_add(errors_out));
            visit(name.trim(), [received, sent, received_packets, sent_packets, drops, errors]);
        }
    }
}

pub(crate) struct Network {
    dev: ProcFile,
    series: Vec<SeriesSpec>,
    /// Name, and counts at the last reading; in the order of the series.
    before: Vec<(String, Option<Counts>)>,
}

impl Network {
    pub(crate) fn open() -> Result<Self, Unavailable> {
        let mut dev = ProcFile::open("/proc/self/net/dev")?;
        let text = dev.read().map_err(|error| Unavailable(format!("/proc/self/net/dev: {error}")))?;
        let mut before = Vec::new();
        parse(&text, |name, _| {
            let state = std::fs::read_to_string(format!("/sys/class/net/{name}/operstate"));
            if !state.is_ok_and(|state| state.trim() == "down") {
                before.push((name.to_owned(), None));
            }
        });
        if before.is_empty() {
            return Err(Unavailable("no network interface is up".into()));
        }
        let all = before.iter().flat_map(|(name, _)| NAMES.map(|(what, unit)| series(name, what, unit)));
        Ok(Self { series: all.collect(), dev, before })
    }
}

impl Sampler for Network {
    fn name(&self) -> &'static str {
        SPEC.name
    }

    fn series(&self) -> &[SeriesSpec] {
        &self.series
    }

    fn sample(&mut self, elapsed_ns: u64, readings: &mut Vec<Reading>) {
        let Ok(text) = self.dev.read() else { return };
        let before = &mut self.before;
        parse(&text, |name, counts| {
            let Some(position) = before.iter().position(|(known, _)| known == name) else { return };
            if let Some(last) = before[position].1.replace(counts) {
                let rates = counts.into_iter().zip(last).map(|(now, before)| per_s(now, before, elapsed_ns));
                append(readings, position * NAMES.len(), rates);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc_file::garbled;

    const TEXT: &str = "Inter-|   Receive                                                |  Transmit\n \
        face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n    \
        lo:    3193      29    0    0    0     0          0         0     3193      29    0    0    0     0       0          0\n  \
        eth0:0:227469556    6764    1    2    0     0          0         0   512835    4547    4    8    0     0       0          0\n";

    fn all(text: &str) -> Vec<(String, Counts)> {
        let mut found = Vec::new();
        parse(text, |name, counts| found.push((name.to_owned(), counts)));
        found
    }

    #[test]
    fn fields_are_found_in_both_halves() {
        let lo = ("lo".to_owned(), [3_193, 3_193, 29, 29, 0, 0]);
        let eth = ("eth0:0".to_owned(), [227_469_556, 512_835, 6_764, 4_547, 10, 5]);
        assert_eq!(all(TEXT), [lo, eth]);
        assert_eq!(all("eth0: 1 2 3\n"), []);
    }

    #[test]
    fn garbled_text_is_taken() {
        for text in garbled(TEXT) {
            assert!(all(&text).len() <= 3);
        }
    }
}
