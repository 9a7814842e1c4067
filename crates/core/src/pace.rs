//! When operations are started: the rate of the load over time, how arrivals are strewn over it, and how exactly workers
//! keep to that.

use serde::{Deserialize, Serialize};

/// Rates that a schedule in nanoseconds can tell apart, operations per second: what a plan may ask for and a drive do.
pub const RATES_PER_S: std::ops::RangeInclusive<f64> = 1e-3..=1e8;

/// When the next operation starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// After the answer to the one before.
    Closed,
    /// At scheduled times, whatever the answers do.
    Open {
        /// Operations a second, all clients together.
        rate: Rate,
        /// How they are spaced.
        arrivals: Arrivals,
    },
}

/// A rate in operations a second, as it changes over a phase. Times count from the end of the warm-up; recorded ones
/// from its beginning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rate {
    /// The same all the time.
    Constant(f64),
    /// One after the other; what the last one ends with to the phase's end.
    Stages(Vec<Stage>),
    /// A wave around `mean`.
    Sine {
        /// Middle.
        mean: f64,
        /// How far it goes up and down; at most `mean`.
        amplitude: f64,
        /// Length of one wave in nanoseconds.
        period_ns: u64,
    },
    /// At these times, in nanoseconds from the phase's start, in order.
    Recorded(Vec<u64>),
}

/// A stretch of a load that changes: operations a second, or clients.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// At its beginning.
    pub from: f64,
    /// At its end, reached in a straight line.
    pub to: f64,
    /// How long it lasts, in nanoseconds.
    pub for_ns: u64,
}

impl Stage {
    /// The same level all the time.
    pub fn held(level: f64, for_ns: u64) -> Stage {
        Stage { from: level, to: level, for_ns }
    }
}

/// How long a client of a closed loop waits after an answer before its next operation begins, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Think {
    /// Always as long.
    Constant(u64),
    /// Anything from the first to the second, all as likely.
    Uniform(u64, u64),
    /// Exponentially distributed with this mean.
    Exponential(u64),
}

impl Pace {
    /// Evenly spaced operations at a constant rate.
    pub fn even(rate_per_s: f64) -> Pace {
        Pace::Open { rate: Rate::Constant(rate_per_s), arrivals: Arrivals::Even }
    }

    /// A Poisson process of a constant rate.
    pub fn poisson(rate_per_s: f64) -> Pace {
        Pace::Open { rate: Rate::Constant(rate_per_s), arrivals: Arrivals::Poisson }
    }

    /// True when operations have scheduled times.
    pub fn is_open(&self) -> bool {
        *self != Pace::Closed
    }

    /// The rate of an open loop.
    pub fn rate(&self) -> Option<&Rate> {
        match self {
            Pace::Closed => None,
            Pace::Open { rate, .. } => Some(rate),
        }
    }
}

impl Rate {
    /// The highest rate there will be, in operations a second; of recorded times their mean rate.
    pub fn peak_per_s(&self) -> f64 {
        match self {
            Rate::Constant(rate) => *rate,
            Rate::Stages(stages) => stages.iter().map(|stage| stage.from.max(stage.to)).fold(0.0, f64::max),
            Rate::Sine { mean, amplitude, .. } => mean + amplitude,
            Rate::Recorded(times) => {
                let seconds = times.last().map_or(0.0, |last_ns| *last_ns as f64 / 1e9);
                times.len() as f64 / seconds.max(f64::MIN_POSITIVE)
            }
        }
    }

    /// Whether there is an operation in it, and a schedule can tell its times apart.
    ///
    /// # Errors
    /// What is wrong with it, in plain words.
    pub fn check(&self) -> Result<(), &'static str> {
        let is_rate = |rate: &f64| RATES_PER_S.contains(rate);
        let is_rate_or_0 = |rate: &f64| *rate == 0.0 || is_rate(rate);
        let fault = match self {
            Rate::Constant(rate) if !is_rate(rate) => "a rate is 0.001/s to 100,000,000/s",
            Rate::Stages(stages) if stages.iter().any(|stage| stage.for_ns == 0) => "a stage lasts longer than 0",
            Rate::Stages(stages)
                if !stages.iter().all(|stage| is_rate_or_0(&stage.from) && is_rate_or_0(&stage.to)) =>
            {
                "a stage's rates are 0/s, or 0.001/s to 100,000,000/s"
            }
            Rate::Stages(_) if self.peak_per_s() == 0.0 => "one of the stages has a rate above 0/s",
            Rate::Sine { mean, amplitude, .. } if !is_rate(mean) || !(0.0..=*mean).contains(amplitude) => {
                "a sine's mean is 0.001/s to 100,000,000/s, and its amplitude 0 to the mean"
            }
            Rate::Sine { period_ns: 0, .. } => "a sine's period is longer than 0",
            Rate::Recorded(times) if times.is_empty() => "recorded arrival times are at least one",
            Rate::Recorded(times) if !times.is_sorted() => "recorded arrival times are in ascending order",
            _ => return Ok(()),
        };
        Err(fault)
    }

    /// The rate where it is the same all the time.
    pub fn constant(&self) -> Option<f64> {
        match self {
            Rate::Constant(rate) => Some(*rate),
            _ => None,
        }
    }
}

crate::words! {
    /// How the operations of an open loop are spaced.
    pub enum Arrivals {
        /// Evenly.
        Even = "even",
        /// As those of many users who know nothing of each other: exponentially distributed gaps.
        Poisson = "poisson",
    }
}

crate::words! {
    /// How exactly workers wake up for an operation that is due.
    #[derive(Default)]
    pub enum Wake {
        /// By the kernel's timer, set earlier by what it is usually late on this machine, and the few microseconds that are left
        /// by looking at the clock and at the sockets. Wire sessions; blocking ones wait for the timer alone.
        #[default]
        Precise = "precise",
        /// The kernel's timer 50 µs early, and the rest by looking at the clock: less than a microsecond late, for up to twice the
        /// CPU.
        Spin = "spin",
        /// Once a millisecond, for all that is due by then: least CPU, and up to a millisecond late.
        Coarse = "coarse",
    }
}

crate::words! {
    /// How wire sessions' sockets are driven.
    #[derive(Default)]
    pub enum Io {
        /// io_uring where the kernel has it and allows it, epoll elsewhere; and epoll in open loops that never have more than
        /// 10,000 operations a second for a worker, where it costs less.
        #[default]
        Auto = "auto",
        /// By epoll, which every Linux has.
        Epoll = "epoll",
        /// By io_uring, or not at all.
        IoUring = "io_uring",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_load_is_refused() {
        const SECOND_NS: u64 = 1_000_000_000;
        let stage = |from, to, for_ns| Stage { from, to, for_ns };
        let sine = |mean, amplitude, period_ns| Rate::Sine { mean, amplitude, period_ns };
        for bad in [
            Rate::Constant(0.0),
            Rate::Constant(f64::NAN),
            Rate::Constant(f64::INFINITY),
            Rate::Constant(-1.0),
            Rate::Stages(vec![]),
            Rate::Stages(vec![stage(0.0, 0.0, SECOND_NS)]),
            Rate::Stages(vec![stage(10.0, f64::NAN, SECOND_NS)]),
            Rate::Stages(vec![stage(5.0, 6.0, SECOND_NS), stage(6.0, 6.0, 0)]),
            sine(10.0, 10.1, SECOND_NS),
            sine(10.0, -1.0, SECOND_NS),
            sine(10.0, 5.0, 0),
            Rate::Recorded(vec![]),
            Rate::Recorded(vec![2, 1]),
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
        for good in [
            Rate::Stages(vec![stage(0.0, 100.0, SECOND_NS)]),
            Rate::Stages(vec![stage(100.0, 0.0, SECOND_NS)]),
            Rate::Stages(vec![Stage::held(5.0, SECOND_NS), Stage::held(0.0, SECOND_NS)]),
            sine(10.0, 10.0, SECOND_NS),
            Rate::Recorded(vec![0, 1, 1, 7]),
        ] {
            assert_eq!(good.check(), Ok(()), "{good:?}");
        }
    }
}
