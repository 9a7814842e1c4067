//! When operations are started: the shape of the load over time, and how arrivals are strewn over it.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::workload::RATES_PER_S;

/// When operations are started.
#[derive(Debug, Clone, PartialEq)]
pub enum Pace {
    /// Closed loop: each client's next one when its last one was answered.
    Closed,
    /// Open loop: at times that the answers have no part in.
    Open {
        /// Operations per second of all clients together, over time.
        shape: Shape,
        /// How single arrivals lie in it.
        arrivals: Arrivals,
    },
    /// Open loop: at these times after the phase's start, warm-up included, in nanoseconds and ascending order.
    Recorded(Arc<[u64]>),
}

/// Operations per second over time. Time counts from the end of the warm-up; through the warm-up the rate is the
/// one that the shape begins with.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// Always the same.
    Constant {
        /// Operations per second.
        rate_per_s: f64,
    },
    /// Evenly from one rate to another, which then stays.
    Ramp {
        /// Rate at the beginning.
        from_per_s: f64,
        /// Rate after `over`.
        to_per_s: f64,
        /// How long the way takes.
        over: Duration,
    },
    /// One rate after the other, each for its time; the last one stays.
    Steps(Vec<(Duration, f64)>),
    /// One rate, and for a while another one.
    Spike {
        /// Rate before and after.
        base_per_s: f64,
        /// Rate of the spike.
        peak_per_s: f64,
        /// When the spike begins.
        at: Duration,
        /// How long it lasts.
        length: Duration,
    },
    /// `mean + amplitude × sin(2π t / period)`.
    Sine {
        /// Rate at the beginning and after each half of a period.
        mean_per_s: f64,
        /// Most that the rate is above and below the mean; at most the mean.
        amplitude_per_s: f64,
        /// Length of one wave.
        period: Duration,
    },
}

/// How single arrivals lie in a shape. Both are pure functions of the arrival's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// Evenly: operation `i` is due when the shape's integral reaches `i`.
    Even,
    /// As independent users come: a Poisson process, whose rate at any time is the shape's.
    Poisson {
        /// The same seed is the same times.
        seed: u64,
    },
}

/// How much earlier than an operation is due a spinning worker wakes up, unless somebody says otherwise.
pub const SPIN: Duration = Duration::from_micros(50);

/// How exactly a worker wakes up for an operation that is due. Open loop only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wake {
    /// By the kernel's timers, set earlier by what they are usually late on this machine, and the few microseconds that
    /// are left by looking at the clock and at the sockets. Wire sessions; blocking ones wait for the timer alone.
    #[default]
    Precise,
    /// The kernel's timer this much early (at most 1 ms), and the rest by looking at the clock: less than a microsecond
    /// late, for up to twice the CPU.
    Spin(Duration),
    /// Once a millisecond, for all that is due by then: least CPU, and up to a millisecond late.
    Coarse,
}

impl Pace {
    /// Evenly spaced operations at a constant rate.
    pub fn even(rate_per_s: f64) -> Pace {
        Pace::Open { shape: Shape::Constant { rate_per_s }, arrivals: Arrivals::Even }
    }

    /// A Poisson process of a constant rate.
    pub fn poisson(rate_per_s: f64, seed: u64) -> Pace {
        Pace::Open { shape: Shape::Constant { rate_per_s }, arrivals: Arrivals::Poisson { seed } }
    }

    /// True when operations have scheduled times.
    pub fn is_open(&self) -> bool {
        *self != Pace::Closed
    }

    /// The highest rate there will be, in operations a second; of recorded times their mean rate. `None` in a closed
    /// loop.
    pub(crate) fn peak_per_s(&self) -> Option<f64> {
        match self {
            Pace::Closed => None,
            Pace::Open { shape, .. } => Some(shape.peak_per_s()),
            Pace::Recorded(times) => {
                let seconds = times.last().map_or(0.0, |last_ns| *last_ns as f64 / 1e9);
                Some(times.len() as f64 / seconds.max(f64::MIN_POSITIVE))
            }
        }
    }

    /// What is wrong with it, in plain words.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        match self {
            Pace::Closed => Ok(()),
            Pace::Open { shape, .. } => shape.check(),
            Pace::Recorded(times) if times.is_empty() => Err("recorded arrival times are at least one"),
            Pace::Recorded(times) if !times.is_sorted() => Err("recorded arrival times are in ascending order"),
            Pace::Recorded(_) => Ok(()),
        }
    }
}

impl Shape {
    fn peak_per_s(&self) -> f64 {
        match self {
            Shape::Constant { rate_per_s } => *rate_per_s,
            Shape::Ramp { from_per_s, to_per_s, .. } => from_per_s.max(*to_per_s),
            Shape::Steps(steps) => steps.iter().map(|(_, rate_per_s)| *rate_per_s).fold(0.0, f64::max),
            Shape::Spike { base_per_s, peak_per_s, .. } => base_per_s.max(*peak_per_s),
            Shape::Sine { mean_per_s, amplitude_per_s, .. } => mean_per_s + amplitude_per_s,
        }
    }

    fn check(&self) -> Result<(), &'static str> {
        const RATE: &str = "a rate is 0.001/s to 100,000,000/s";
        let is_rate = |rate: &f64| RATES_PER_S.contains(rate);
        let is_rate_or_0 = |rate: &f64| *rate == 0.0 || is_rate(rate);
        match self {
            Shape::Constant { rate_per_s } if !is_rate(rate_per_s) => Err(RATE),
            Shape::Ramp { from_per_s, to_per_s, .. }
                if ![from_per_s, to_per_s].into_iter().all(is_rate_or_0) || from_per_s.max(*to_per_s) == 0.0 =>
            {
                Err("a ramp's rates are 0.001/s to 100,000,000/s; one of them may be 0")
            }
            Shape::Ramp { over, .. } if over.is_zero() => Err("a ramp takes longer than 0"),
            Shape::Steps(steps) if steps.is_empty() => Err("steps are at least one"),
            Shape::Steps(steps) if steps.iter().any(|(length, _)| length.is_zero()) => {
                Err("a step lasts longer than 0")
            }
            Shape::Steps(steps)
                if !steps.iter().all(|(_, rate)| is_rate_or_0(rate)) || steps.iter().all(|(_, rate)| *rate == 0.0) =>
            {
                Err("a step's rate is 0.001/s to 100,000,000/s, or 0 where another's is not")
            }
            Shape::Spike { base_per_s, peak_per_s, .. } if !is_rate_or_0(base_per_s) || !is_rate(peak_per_s) => {
                Err("a spike's rate is 0.001/s to 100,000,000/s, and the one around it may be 0")
            }
            Shape::Spike { length, .. } if length.is_zero() => Err("a spike lasts longer than 0"),
            Shape::Sine { mean_per_s, amplitude_per_s, .. }
                if !is_rate(mean_per_s) || !(0.0..=*mean_per_s).contains(amplitude_per_s) =>
            {
                Err("a sine's mean is 0.001/s to 100,000,000/s, and its amplitude 0 to the mean")
            }
            Shape::Sine { period, .. } if period.is_zero() => Err("a sine's period is longer than 0"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_load_is_refused() {
        let second = Duration::from_secs(1);
        let spike = |base_per_s, peak_per_s, length| Shape::Spike { base_per_s, peak_per_s, at: second, length };
        let sine = |mean_per_s, amplitude_per_s, period| Shape::Sine { mean_per_s, amplitude_per_s, period };
        let ramp = |from_per_s, to_per_s, over| Shape::Ramp { from_per_s, to_per_s, over };
        let bad = [
            Shape::Constant { rate_per_s: 0.0 },
            Shape::Constant { rate_per_s: f64::NAN },
            Shape::Constant { rate_per_s: f64::INFINITY },
            Shape::Constant { rate_per_s: -1.0 },
            ramp(0.0, 0.0, second),
            ramp(10.0, f64::NAN, second),
            ramp(10.0, 20.0, Duration::ZERO),
            Shape::Steps(Vec::new()),
            Shape::Steps(vec![(second, 0.0)]),
            Shape::Steps(vec![(second, 5.0), (Duration::ZERO, 6.0)]),
            spike(10.0, 0.0, second),
            spike(10.0, 20.0, Duration::ZERO),
            sine(10.0, 10.1, second),
            sine(10.0, -1.0, second),
            sine(10.0, 5.0, Duration::ZERO),
        ];
        for shape in bad {
            let pace = Pace::Open { shape, arrivals: Arrivals::Even };
            assert!(pace.check().is_err(), "{pace:?}");
        }
        assert!(Pace::Recorded(Arc::new([])).check().is_err());
        assert!(Pace::Recorded(Arc::new([2, 1])).check().is_err());
        let good = [
            ramp(0.0, 100.0, second),
            ramp(100.0, 0.0, second),
            Shape::Steps(vec![(second, 5.0), (second, 0.0)]),
            spike(0.0, 20.0, second),
            sine(10.0, 10.0, second),
        ];
        for shape in good {
            let pace = Pace::Open { shape, arrivals: Arrivals::Poisson { seed: 1 } };
            assert_eq!(pace.check(), Ok(()), "{pace:?}");
        }
        assert_eq!(Pace::Recorded(Arc::new([0, 1, 1, 7])).check(), Ok(()));
    }
}
