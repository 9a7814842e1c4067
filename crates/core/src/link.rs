//! Network link of a host.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::StoreError;

/// Longest delay and jitter of a link.
const DELAY_MAX: Duration = Duration::from_secs(60);

/// Link between a host and the bridge, applied to frames in each direction. The default changes nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Delay of a frame in one direction.
    pub delay: Duration,
    /// Largest deviation of a frame's delay, uniformly distributed. Frames keep their order.
    pub jitter: Duration,
    /// Share of frames that are lost, from 0 to 1.
    pub loss: f64,
    /// Bits a second, including Ethernet headers. Up to 100 ms of frames are queued; further frames are dropped.
    pub rate_bits_per_s: Option<u64>,
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
        if self.loss > 0.0 {
            parts.push(format!("{} % of packets lost", self.loss * 100.0));
        }
        parts.extend(self.rate_bits_per_s.map(|bits| format!("{} Mbit/s", bits as f64 / 1e6)));
        write!(f, "{}", parts.join(", "))
    }
}

impl Link {
    /// Link that carries nothing.
    pub const CUT: Self = Self { delay: Duration::ZERO, jitter: Duration::ZERO, loss: 1.0, rate_bits_per_s: None };

    /// Checks the numbers of a link.
    ///
    /// # Errors
    /// `Usage` if the link is not valid.
    pub fn check(&self) -> Result<(), StoreError> {
        let wrong = if self.delay > DELAY_MAX {
            format!("a link's delay is at most {} s, not {:?}", DELAY_MAX.as_secs(), self.delay)
        } else if self.jitter > self.delay {
            format!("a link's jitter is at most its delay, {:?}, not {:?}", self.delay, self.jitter)
        } else if !(0.0..=1.0).contains(&self.loss) {
            format!("a link's loss is a share from 0 to 1, not {}", self.loss)
        } else if self.rate_bits_per_s == Some(0) {
            "a link's rate is at least 1 bit/s, not 0: to cut it, set a loss of 1".to_owned()
        } else {
            return Ok(());
        };
        Err(StoreError::usage(wrong))
    }
}
