//! Error of the wall clock of a server's programs.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Error of a wall clock: an offset, and a drift that grows from the moment the error takes effect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockChange {
    /// Offset in nanoseconds; below 0 the clock is slow.
    pub by_ns: i64,
    /// Drift in parts per million; below 0 the clock runs slow.
    pub drift_ppm: i64,
}

impl ClockChange {
    /// Largest offset in nanoseconds: 10 years.
    pub const BY_NS_MAX: i64 = 3650 * 86_400 * 1_000_000_000;
    /// Largest drift in parts per million.
    pub const DRIFT_PPM_MAX: i64 = 100_000;
}

impl fmt::Display for ClockChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.by_ns < 0 { "-" } else { "" };
        let by = shown(self.by_ns.unsigned_abs());
        match (self.by_ns, self.drift_ppm) {
            (_, 0) => write!(f, "by={sign}{by}"),
            (0, ppm) => write!(f, "drift={ppm}ppm"),
            (_, ppm) => write!(f, "by={sign}{by} drift={ppm}ppm"),
        }
    }
}

/// Returns a time in nanoseconds as plans write it, in the largest unit of which it is a multiple: `2h`, `90s`.
fn shown(ns: u64) -> String {
    let time = Duration::from_nanos(ns);
    let is_multiple = |seconds: u64| ns > 0 && time.subsec_nanos() == 0 && time.as_secs().is_multiple_of(seconds);
    match [("d", 86_400), ("h", 3_600), ("min", 60)].into_iter().find(|(_, seconds)| is_multiple(*seconds)) {
        Some((unit, seconds)) => format!("{}{unit}", time.as_secs() / seconds),
        None => format!("{time:?}"),
    }
}
