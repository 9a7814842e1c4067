//! Traffic of the network interfaces of this namespace and of those of nodes, from `/proc/net/dev` (proc_pid_net(5)).

use plimsoll_core::{Reading, Sampler, Unavailable};

use crate::namespaces::NodeNetworks;
use crate::proc_file::{ProcFile, numbers};
use crate::server::ServerProcesses;

/// Counters of an interface: name and unit.
const NAMES: [(&str, &str); 6] =
    [("received", "B"), ("sent", "B"), ("received_packets", ""), ("sent_packets", ""), ("drops", ""), ("errors", "")];

/// Counters in the order of [`NAMES`].
type Counts = [u64; 6];

/// Each interface's name and counts.
fn parse(text: &str) -> Vec<(&str, Counts)> {
    let mut interfaces = Vec::new();
    for line in text.lines() {
        // Names may hold colons (aliases), the numbers do not.
        let Some((name, rest)) = line.rsplit_once(':') else { continue };
        let (values, found) = numbers::<16>(rest.split_ascii_whitespace());
        if found == values.len() {
            let [received, received_packets, errors_in, drops_in, ..] = values;
            let [.., sent, sent_packets, errors_out, drops_out, _, _, _, _] = values;
            let (drops, errors) = (drops_in.saturating_add(drops_out), errors_in.saturating_add(errors_out));
            interfaces.push((name.trim(), [received, sent, received_packets, sent_packets, drops, errors]));
        }
    }
    interfaces
}

pub(crate) struct Network {
    dev: ProcFile,
    /// Interfaces that were up when the sampler was opened.
    interfaces: Vec<String>,
    nodes: NodeNetworks,
}

/// Returns the readings of the interface `subject`.
fn readings(subject: &str, counts: Counts) -> impl Iterator<Item = Reading> + use<> {
    let counted = NAMES.into_iter().zip(counts);
    let subject = subject.to_owned();
    counted.map(move |((what, unit), n)| Reading::total(&subject, what, unit, n as f64))
}

impl Network {
    pub(crate) fn open(processes: ServerProcesses) -> Result<Self, Unavailable> {
        let (dev, text) = ProcFile::open_and_read("/proc/self/net/dev")?;
        let is_down = |name: &str| {
            let state = std::fs::read_to_string(format!("/sys/class/net/{name}/operstate"));
            state.is_ok_and(|state| state.trim() == "down")
        };
        let up = parse(&text).into_iter().map(|(name, _)| name).filter(|name| !is_down(name));
        let interfaces: Vec<String> = up.map(str::to_owned).collect();
        if interfaces.is_empty() {
            return Err(Unavailable("no network interface is up".into()));
        }
        Ok(Self { dev, interfaces, nodes: NodeNetworks::new(processes) })
    }
}

impl Sampler for Network {
    fn sample(&mut self) -> Vec<Reading> {
        let mut all = Vec::new();
        let text = self.dev.read().unwrap_or_default();
        for (name, counts) in parse(&text).into_iter().filter(|(name, _)| self.interfaces.iter().any(|up| up == name)) {
            all.extend(readings(name, counts));
        }
        for node in self.nodes.now() {
            let text = node.read("dev").unwrap_or_default();
            // Each host has a loopback interface, which most never use.
            for (name, counts) in parse(&text).into_iter().filter(|(_, counts)| *counts != Counts::default()) {
                all.extend(readings(&format!("{} {name}", node.subject), counts));
            }
        }
        all
    }

    fn fine(&mut self) -> Vec<Reading> {
        self.sample()
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

    #[test]
    fn fields_are_found_in_both_halves() {
        let lo = ("lo", [3_193, 3_193, 29, 29, 0, 0]);
        let eth = ("eth0:0", [227_469_556, 512_835, 6_764, 4_547, 10, 5]);
        assert_eq!(parse(TEXT), [lo, eth]);
        assert_eq!(parse("eth0: 1 2 3\n"), []);
    }

    #[test]
    fn garbled_text_is_taken() {
        for text in garbled(TEXT) {
            assert!(parse(&text).len() <= 3);
        }
    }
}
