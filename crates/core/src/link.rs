//! Network link of a host.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::StoreError;

/// Longest delay, jitter and late close of a link.
const DELAY_MAX: Duration = Duration::from_secs(60);
/// Most client hosts of a drive.
pub const CLIENT_HOSTS_MAX: u32 = 100;

/// Direction of the frames that a link affects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LinkWays {
    /// Both directions.
    #[default]
    Both,
    /// Frames to the host.
    In,
    /// Frames from the host.
    Out,
}

/// Hosts at the other end of the frames that a link affects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LinkPeers {
    /// All hosts.
    #[default]
    All,
    /// The load host, and all client hosts.
    Clients,
    /// The client host with this number, from 0.
    ClientHost(usize),
    /// The host of the node with this number, from 0.
    Node(usize),
}

impl LinkPeers {
    /// Returns the name of the hosts as plans have it, `client host 2`; `None` for all hosts.
    pub fn name(self) -> Option<String> {
        match self {
            Self::All => None,
            Self::Clients => Some("clients".to_owned()),
            Self::ClientHost(number) => Some(format!("client host {}", number + 1)),
            Self::Node(number) => Some(format!("node {}", number + 1)),
        }
    }
}

/// Link between a host and the bridge, applied to frames in each direction, or in one. The default changes
/// nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Link {
    /// Delay of a frame in one direction.
    pub delay: Duration,
    /// Largest deviation of a frame's delay, uniformly distributed. Frames keep their order, except by `reorder`.
    pub jitter: Duration,
    /// Share of frames that are lost, from 0 to 1.
    pub loss: f64,
    /// Share of frames that arrive twice, from 0 to 1.
    pub duplicate: f64,
    /// Share of frames that arrive without the delay, before earlier ones, from 0 to 1.
    pub reorder: f64,
    /// Share of frames of which one bit is flipped, from 0 to 1. Receivers usually drop such a frame by its checksum.
    pub corrupt: f64,
    /// Further delay of TCP packets with FIN, which end connections. Other packets overtake them, also those with RST.
    pub close: Duration,
    /// Bits a second, including Ethernet headers. Up to 100 ms of frames are queued; further frames are dropped.
    pub rate_bits_per_s: Option<u64>,
    /// Direction of the frames that all this applies to; others pass as on the default link.
    pub ways: LinkWays,
    /// Hosts from and to which frames have all this; others pass as on the default link.
    pub peers: LinkPeers,
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Link::default() {
            return write!(f, "plain");
        }
        let mut parts = Vec::new();
        if !self.delay.is_zero() {
            parts.push(format!("{:?} ± {:?} one way", self.delay, self.jitter));
        }
        let shares = [
            (self.loss, "lost"),
            (self.duplicate, "duplicated"),
            (self.reorder, "reordered"),
            (self.corrupt, "corrupted"),
        ];
        let shares = shares.iter().filter(|(share, _)| *share > 0.0);
        parts.extend(shares.map(|(share, what)| format!("{} % of packets {what}", share * 100.0)));
        parts.extend((!self.close.is_zero()).then(|| format!("packets with FIN {:?} later", self.close)));
        parts.extend(self.rate_bits_per_s.map(|bits| format!("{} Mbit/s", bits as f64 / 1e6)));
        parts.extend(match self.ways {
            LinkWays::Both => None,
            LinkWays::In => Some("only to the node".to_owned()),
            LinkWays::Out => Some("only from the node".to_owned()),
        });
        parts.extend(self.peers.name().map(|peers| format!("only for {peers}")));
        write!(f, "{}", parts.join(", "))
    }
}

impl Link {
    /// Link that carries nothing.
    pub const CUT: Self = Self {
        delay: Duration::ZERO,
        jitter: Duration::ZERO,
        loss: 1.0,
        duplicate: 0.0,
        reorder: 0.0,
        corrupt: 0.0,
        close: Duration::ZERO,
        rate_bits_per_s: None,
        ways: LinkWays::Both,
        peers: LinkPeers::All,
    };

    /// Returns true for a link that carries nothing, nothing in one direction, or nothing of some hosts.
    pub fn is_cut(&self) -> bool {
        Self { ways: LinkWays::Both, peers: LinkPeers::All, ..*self } == Self::CUT
    }

    /// Checks the numbers of a link.
    ///
    /// # Errors
    /// `Usage` if the link is not valid.
    pub fn check(&self) -> Result<(), StoreError> {
        let shares =
            [("loss", self.loss), ("duplicate", self.duplicate), ("reorder", self.reorder), ("corrupt", self.corrupt)];
        let times = [("delay", self.delay), ("close", self.close)];
        let wrong = if let Some((name, time)) = times.iter().find(|(_, time)| *time > DELAY_MAX) {
            let longest_s = DELAY_MAX.as_secs();
            let what = format!("a link's {name} is at most {longest_s} s, not {time:?}");
            return Err(StoreError::usage(what).next(format!("write {name}={longest_s}s, or less")));
        } else if self.jitter > self.delay {
            format!("a link's jitter is at most its delay, {:?}, not {:?}", self.delay, self.jitter)
        } else if let Some((name, share)) = shares.iter().find(|(_, share)| !(0.0..=1.0).contains(share)) {
            let what = format!("a link's {name} is a share from 0 to 1, not {share}");
            return Err(StoreError::usage(what).next(format!("write {name}=1%, or {name}=0.01")));
        } else if self.reorder > 0.0 && self.delay.is_zero() {
            let what = "a link's `reorder` needs a delay: a packet overtakes those that are delayed";
            return Err(StoreError::usage(what).next("add a delay: delay=5ms"));
        } else if self.rate_bits_per_s == Some(0) {
            "a link's rate is at least 1 bit/s, not 0: to cut it, set a loss of 1".to_owned()
        } else {
            return Ok(());
        };
        Err(StoreError::usage(wrong))
    }
}

/// Parses a rate in bits a second, `50Mbit`, with or without `/s`; `None` for another text.
pub fn bits(given: &str) -> Option<u64> {
    let number_end = given.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(given.len());
    let (number, unit) = given.split_at(number_end);
    let factor = match unit.trim_end_matches("/s") {
        "" | "bit" => 1.0,
        "kbit" => 1e3,
        "Mbit" => 1e6,
        "Gbit" => 1e9,
        _ => return None,
    };
    number.parse::<f64>().ok().map(|number| (number * factor) as u64)
}

/// Returns the bits a second of a displayed rate, `50 Mbit/s`; `None` for another text.
pub fn shown_rate(text: &str) -> Option<f64> {
    let mbit: f64 = text.strip_suffix(" Mbit/s")?.parse().ok()?;
    Some(mbit * 1e6)
}

/// Returns the most bits a second that a link carries to its host, or from it, given the [`Link`] as it is displayed.
/// `None` without a limit of all frames in this direction.
pub fn shown_limit(link: &str, is_to_host: bool) -> Option<f64> {
    let other = if is_to_host { "only from the node" } else { "only to the node" };
    let is_of_all = link.split(", ").all(|part| part != other && !part.starts_with("only for "));
    link.split(", ").find_map(shown_rate).filter(|_| is_of_all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_a_link_is_read_from_its_words() {
        let limited = Link { rate_bits_per_s: Some(2_500_000), delay: Duration::from_millis(5), ..Link::default() };
        let both = |link: Link| [true, false].map(|is_to_host| shown_limit(&link.to_string(), is_to_host));
        assert_eq!(both(limited), [Some(2.5e6), Some(2.5e6)]);
        assert_eq!(both(Link { ways: LinkWays::In, ..limited }), [Some(2.5e6), None]);
        assert_eq!(both(Link { ways: LinkWays::Out, ..limited }), [None, Some(2.5e6)]);
        for peers in [LinkPeers::Clients, LinkPeers::ClientHost(1), LinkPeers::Node(1)] {
            assert_eq!(both(Link { peers, ..limited }), [None, None]);
        }
        assert_eq!(both(Link::default()), [None, None]);
        assert_eq!((bits("2.5Mbit/s"), bits("1kbit"), bits("fast")), (Some(2_500_000), Some(1_000), None));
    }
}
