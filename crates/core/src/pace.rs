//! Start times of operations: the rate of the load over time, the distribution of arrivals, and the precision of
//! workers' wake-ups.

use serde::{Deserialize, Serialize};

/// Rates that a schedule in nanoseconds can distinguish, operations per second: those that a plan may request and a
/// drive supports.
pub const RATES_PER_S: std::ops::RangeInclusive<f64> = 1e-3..=1e8;

/// Start of the next operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// After the previous answer.
    Closed,
    /// At scheduled times, whatever the answers.
    Open {
        /// Operations per second, all clients together.
        rate: Rate,
        /// Distribution of the arrivals.
        arrivals: Arrivals,
    },
}

/// A rate in operations per second, as it changes over a phase. Times count from the end of the warm-up; recorded
/// ones from its beginning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rate {
    /// Constant over the phase.
    Constant(f64),
    /// Stages, one after the other; the last one's final rate holds until the end of the phase.
    Stages(Vec<Stage>),
    /// A wave around `mean`.
    Sine {
        /// Mean rate.
        mean: f64,
        /// Largest deviation from the mean; at most `mean`.
        amplitude: f64,
        /// Period of the wave in nanoseconds.
        period_ns: u64,
    },
    /// Recorded arrival times, in nanoseconds from the phase's start, in order.
    Recorded(Vec<u64>),
}

/// A stage of a load that changes: operations per second, or clients.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// Level at the start.
    pub from: f64,
    /// Level at the end, reached linearly.
    pub to: f64,
    /// Duration in nanoseconds.
    pub for_ns: u64,
}

impl Stage {
    /// Creates a stage at a constant level.
    pub fn held(level: f64, for_ns: u64) -> Stage {
        Stage { from: level, to: level, for_ns }
    }
}

/// Think time: the wait of a client of a closed loop between an answer and its next operation, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThinkTime {
    /// Constant.
    Constant(u64),
    /// Uniformly distributed from the first to the second.
    Uniform(u64, u64),
    /// Exponentially distributed with this mean.
    Exponential(u64),
}

/// Wait of a client before it opens a lost connection again, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backoff {
    /// Constant.
    Constant(u64),
    /// Doubles with each attempt, from the first to the second.
    Doubling(u64, u64),
    /// Uniformly distributed between 0 and a limit, which doubles from the first to the second: *full jitter*
    /// (Brooker, Exponential Backoff And Jitter, 2015).
    Jittered(u64, u64),
}

impl Default for Backoff {
    /// 10 ms, doubled up to a second.
    fn default() -> Self {
        Backoff::Doubling(10_000_000, 1_000_000_000)
    }
}

crate::words! {
    /// Failed operations that a client sends again.
    pub enum RetryScope {
        /// Operations whose repetition changes nothing ([`crate::OpKind::is_idempotent`]), and rejected ones.
        Idempotent = "idempotent",
        /// All, even if a write may then happen twice.
        All = "all",
    }
}

/// Repetition of failed operations by a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// Operations that are sent again.
    pub scope: RetryScope,
    /// Most tries of an operation, the first included.
    pub tries: u32,
}

/// Circuit breaker of a client: after failures in a row its circuit is open for a while, and it sends nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Breaker {
    /// Failures in a row that open the circuit: operations that were rejected or are unknown, and attempts to connect.
    pub failures: u32,
    /// Time in nanoseconds until the circuit is half open: one operation is sent, which closes or opens it.
    pub wait_ns: u64,
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

    /// True if operations have scheduled times.
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
    /// The highest rate of the phase, in operations per second; for recorded times, their mean rate.
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

    /// Fails if the load has no operation, or if a schedule cannot distinguish its times.
    ///
    /// # Errors
    /// Description of the mistake.
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
            Rate::Stages(_) if self.peak_per_s() == 0.0 => "at least one stage has a rate above 0/s",
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

    /// The rate if it is constant.
    pub fn constant(&self) -> Option<f64> {
        match self {
            Rate::Constant(rate) => Some(*rate),
            _ => None,
        }
    }
}

crate::words! {
    /// Distribution of the arrivals of an open loop.
    pub enum Arrivals {
        /// Evenly spaced.
        Even = "even",
        /// As those of many independent users: exponentially distributed gaps.
        Poisson = "poisson",
    }
}

crate::words! {
    /// Method by which workers wake up for an operation that is due.
    #[derive(Default)]
    pub enum WakeMode {
        /// The kernel's timer, set earlier by its usual lateness on this machine; the remaining microseconds are
        /// spent polling the clock and the sockets. Wire sessions; blocking ones only wait for the timer.
        #[default]
        Precise = "precise",
        /// The kernel's timer 50 µs early, then polling the clock: less than a microsecond late, for up to twice the
        /// CPU.
        Spin = "spin",
        /// Once a millisecond, for all operations due by then: least CPU, and up to a millisecond late.
        Coarse = "coarse",
    }
}

crate::words! {
    /// Method by which wire sessions' sockets are driven.
    #[derive(Default)]
    pub enum Io {
        /// io_uring if the kernel has and allows it, else epoll; also epoll in open loops that never exceed 10,000
        /// operations per second per worker, where it costs less.
        #[default]
        Auto = "auto",
        /// epoll, which every Linux has.
        Epoll = "epoll",
        /// io_uring, or an error.
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
