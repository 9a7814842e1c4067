//! Words of faults that disturb servers from outside: connection storms and noisy neighbours.

use std::fmt;
use std::ops::RangeInclusive;

use plimsoll_core::link::bits;

use crate::document::short;
use crate::parse_count;

/// Most connections of a storm, on all its nodes together.
pub const STORM_CONNECTIONS_MAX: u64 = 10_000;
/// Most processes that a neighbour has beside each node.
const BUSY_MAX: u64 = 64;
/// Bits a second that a neighbour may send.
const SENT_BITS: RangeInclusive<u64> = 1_000..=100_000_000_000;

/// A mistake, and advice if there is any.
type Mistake = (String, Option<String>);

/// Resource that a noisy neighbour uses beside each node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NeighbourUse {
    /// Processors: number of busy processes.
    Processors(u32),
    /// File system of the node's data.
    Disk,
    /// Link of the node's host, in each direction: bits a second, or as many as it carries.
    Network(Option<u64>),
}

/// The resource as a plan has it: `cpu=2`, `network=200Mbit`.
impl fmt::Display for NeighbourUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Processors(busy) => write!(f, "cpu={busy}"),
            Self::Disk => write!(f, "disk"),
            Self::Network(None) => write!(f, "network"),
            Self::Network(Some(rate_bits_per_s)) => {
                let (unit, factor) = match rate_bits_per_s {
                    1_000_000_000.. => ("Gbit", 1e9),
                    1_000_000.. => ("Mbit", 1e6),
                    _ => ("kbit", 1e3),
                };
                write!(f, "network={}{unit}", rate_bits_per_s as f64 / factor)
            }
        }
    }
}

/// Parses the connections of a storm, `connections=500`.
pub(crate) fn storm(words: &[&str]) -> Result<u32, Mistake> {
    let help = || Some("write \"storm node 2 connections=500 at 10s\"".to_owned());
    match words {
        [] => Err(("the number of connections is missing".to_owned(), help())),
        [word] => match word.strip_prefix("connections=") {
            None => Err((format!("`{}` has no meaning in `storm`", short(word)), help())),
            Some(given) => number(given, STORM_CONNECTIONS_MAX).ok_or_else(|| {
                let what = format!("`{}`: a storm has 1 to {STORM_CONNECTIONS_MAX} connections", short(word));
                (what, Some("write connections=500".to_owned()))
            }),
        },
        [_, word, ..] => Err((format!("`{}` has no meaning in `storm`", short(word)), help())),
    }
}

/// Parses the resource of a neighbour: `cpu=2`, `disk`, `network` or `network=200Mbit`.
pub(crate) fn neighbour(words: &[&str]) -> Result<NeighbourUse, Mistake> {
    const HELP: &str = "write \"neighbour node 2 cpu=2 at 10s\"; resources: cpu=2, disk, network, network=200Mbit";
    let help = || Some(HELP.to_owned());
    match words {
        [] => Err(("the resource of the neighbour is missing".to_owned(), help())),
        ["disk"] => Ok(NeighbourUse::Disk),
        ["network"] => Ok(NeighbourUse::Network(None)),
        [word] => match word.split_once('=') {
            Some(("cpu", given)) => number(given, BUSY_MAX).map(NeighbourUse::Processors).ok_or_else(|| {
                let what = format!("`{}`: a neighbour has 1 to {BUSY_MAX} busy processes", short(word));
                (what, Some("write cpu=2".to_owned()))
            }),
            Some(("network", given)) => {
                let rate = bits(given);
                rate.filter(|rate| SENT_BITS.contains(rate)).map(|rate| NeighbourUse::Network(Some(rate))).ok_or_else(
                    || {
                        let what = match rate {
                            Some(_) => format!("`{}`: a neighbour sends 1kbit to 100Gbit a second", short(word)),
                            None => format!("`{}`: not a number of bits a second (bit, kbit, Mbit, Gbit)", short(word)),
                        };
                        (what, Some("write network=200Mbit, or network for as much as the link carries".to_owned()))
                    },
                )
            }
            _ => Err((format!("`{}` is not a resource of a neighbour", short(word)), help())),
        },
        [_, word, ..] => Err((format!("`{}` has no meaning in `neighbour`", short(word)), help())),
    }
}

/// Parses a number from 1 to `most`.
fn number(given: &str, most: u64) -> Option<u32> {
    parse_count(given).filter(|number| (1..=most).contains(number)).and_then(|number| number.try_into().ok())
}

#[cfg(test)]
mod tests {
    use plimsoll_core::NodeChoice;

    use super::*;
    use crate::timeline::{FaultAction, PlannedFault, overlap};

    fn fault(text: &str) -> PlannedFault {
        PlannedFault::parse(text).unwrap_or_else(|(what, _)| panic!("{text}: {what}"))
    }

    #[test]
    fn storms_and_neighbours_have_nodes_and_a_size() {
        for (words, wanted) in [
            ("storm node 2 connections=500 at 1s", FaultAction::Storm(NodeChoice::Number(2), 500)),
            ("storm all connections=10k at 1s for 2s", FaultAction::Storm(NodeChoice::All, 10_000)),
            (
                "neighbour primary cpu=2 at 40%",
                FaultAction::Neighbour(NodeChoice::Primary, NeighbourUse::Processors(2)),
            ),
            ("neighbour all disk at 1s", FaultAction::Neighbour(NodeChoice::All, NeighbourUse::Disk)),
            ("neighbour all network at 1s", FaultAction::Neighbour(NodeChoice::All, NeighbourUse::Network(None))),
            (
                "neighbour node 1 network=1.5Mbit at 1s",
                FaultAction::Neighbour(NodeChoice::Number(1), NeighbourUse::Network(Some(1_500_000))),
            ),
        ] {
            let fault = fault(words);
            assert_eq!(fault.what, wanted, "{words}");
            assert!(words.starts_with(fault.what.verb()) && !fault.what.is_brief(), "{words}");
            assert_eq!(fault.to_string(), words);
            if let FaultAction::Neighbour(_, resource) = &fault.what {
                assert!(words.contains(&format!(" {resource} at ")), "{words}: {resource}");
            }
        }
        assert_eq!(fault("storm node 2  connections=5 at 1s").name(), "storm node 2 connections=5");
    }

    #[test]
    fn they_are_in_effect_beside_any_other_fault() {
        let others = ["storm all connections=9 at 1s", "neighbour all disk at 1s", "kill all at 1s", "cut all at 1s"];
        for words in ["storm all connections=5 at 1s", "neighbour all cpu=1 at 1s"] {
            for other in others {
                assert_eq!(overlap(&[fault(words), fault(other)], None), None, "{words}, {other}");
            }
        }
    }

    #[test]
    fn mistakes_in_storms_and_neighbours_come_with_a_remedy() {
        let (storm, neighbour) = ("write \"storm node 2 connections=500 at 10s\"", "write \"neighbour node 2 cpu=2");
        for (words, wanted, remedy) in [
            ("storm at 1s", "the nodes of `storm` are missing", "write \"storm node 2\", \"storm nodes 1,2\", or"),
            ("storm all at 1s", "the number of connections is missing", storm),
            ("storm all 500 at 1s", "`500` has no meaning in `storm`", storm),
            ("storm all connections=5 now at 1s", "`now` has no meaning in `storm`", storm),
            ("storm all connections=0 at 1s", "`connections=0`: a storm has 1 to 10000", "write connections=500"),
            ("storm all connections=10001 at 1s", "`connections=10001`: a storm has 1", "write connections=500"),
            ("storm all connections=many at 1s", "`connections=many`: a storm has", "write connections=500"),
            ("storm all connections=5 at 1s every 9s", "a fault that is repeated has to be healed", "write how long"),
            ("neighbour all at 1s", "the resource of the neighbour is missing", neighbour),
            ("neighbour all memory at 1s", "`memory` is not a resource of a neighbour", neighbour),
            ("neighbour all net=5Mbit at 1s", "`net=5Mbit` is not a resource of a neighbour", neighbour),
            ("neighbour all network=fast at 1s", "`network=fast`: not a number of bits a second", "write network="),
            ("neighbour all network=10MiB at 1s", "`network=10MiB`: not a number of bits", "write network=200Mbit"),
            (
                "neighbour all network=999 at 1s",
                "`network=999`: a neighbour sends 1kbit to 100Gbit",
                "write network=200Mbit",
            ),
            ("neighbour all network=101Gbit at 1s", "`network=101Gbit`: a neighbour sends 1kbit", "write network="),
            ("neighbour all disk=2 at 1s", "`disk=2` is not a resource of a neighbour", neighbour),
            ("neighbour all disk cpu=1 at 1s", "`cpu=1` has no meaning in `neighbour`", neighbour),
            ("neighbour all cpu=0.5 at 1s", "`cpu=0.5`: a neighbour has 1 to 64 busy processes", "write cpu=2"),
            ("neighbour all cpu=65 at 1s", "`cpu=65`: a neighbour has 1 to 64 busy processes", "write cpu=2"),
        ] {
            let (what, help) = PlannedFault::parse(words).unwrap_err();
            assert!(what.starts_with(wanted) && help.unwrap_or_default().starts_with(remedy), "{words}: {what}");
        }
    }
}
