//! Due times of operations: a pure function of their number, so that threads share a schedule without a lock.
//!
//! A shape's integral turns time into operations. Operation `i` of even arrivals is due when it reaches `i`; of a
//! Poisson process, when it reaches the `i`th arrival of a process of rate 1 ([`crate::poisson`]), which makes a
//! process of the shape's rate (Çinlar, Introduction to Stochastic Processes, 4.7).

use std::f64::consts::TAU;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::pace::{Arrivals, Pace, Rate, Stage};

use crate::poisson::{Block, Process};

/// Value in place of a time that does not come.
pub(crate) const NEVER_NS: u64 = u64::MAX;

/// The times of one phase's operations. Cheap to copy.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    start_ns: u64,
    times: Times,
}

#[derive(Debug, Clone)]
enum Times {
    Even(Curve),
    Poisson(Curve, Process),
    Recorded(Arc<[u64]>),
}

impl Schedule {
    /// Makes the schedule of a phase that begins at `start_ns` with a warm-up; returns `None` for a closed loop.
    pub fn new(pace: &Pace, seed: u64, warmup: Duration, start_ns: u64) -> Option<Self> {
        let Pace::Open { rate, arrivals } = pace else { return None };
        let times = match (rate, arrivals) {
            (Rate::Recorded(at_ns), _) => Times::Recorded(at_ns.as_slice().into()),
            (_, Arrivals::Even) => Times::Even(Curve::new(rate, warmup)),
            (_, Arrivals::Poisson) => Times::Poisson(Curve::new(rate, warmup), Process::new(seed)),
        };
        Some(Self { start_ns, times })
    }

    /// Returns the due time of operation `index`; [`NEVER_NS`] if it does not exist.
    pub fn at(&self, index: u64) -> u64 {
        self.time(index, &mut None)
    }

    #[inline]
    fn time(&self, index: u64, block: &mut Option<Box<Block>>) -> u64 {
        let after_ns = match &self.times {
            Times::Even(curve) => rounded(curve.time_of(index as f64)),
            Times::Poisson(curve, process) => rounded(curve.time_of(process.at(index, block))),
            Times::Recorded(at_ns) => match usize::try_from(index).ok().and_then(|index| at_ns.get(index)) {
                Some(after_ns) => *after_ns,
                None => NEVER_NS,
            },
        };
        self.start_ns.saturating_add(after_ns)
    }

    /// Returns the number of operations due before `now_ns`.
    pub fn due_before(&self, now_ns: u64) -> u64 {
        let Some(elapsed_ns) = now_ns.checked_sub(self.start_ns) else { return 0 };
        let mut count = match &self.times {
            Times::Even(curve) => curve.count_by(elapsed_ns as f64) as u64,
            Times::Poisson(curve, process) => process.count_before(curve.count_by(elapsed_ns as f64)),
            Times::Recorded(at_ns) => return at_ns.partition_point(|&at_ns| at_ns < elapsed_ns) as u64,
        };
        // The integral and its inverse round; the definition does not.
        while self.at(count) < now_ns {
            count += 1;
        }
        while count > 0 && self.at(count - 1) >= now_ns {
            count -= 1;
        }
        count
    }
}

/// Reads a schedule in order, with what that makes cheap.
#[derive(Debug)]
pub(crate) struct Cursor {
    schedule: Schedule,
    block: Option<Box<Block>>,
}

impl Cursor {
    /// Takes its memory here, so that none is taken later.
    pub fn new(schedule: Schedule) -> Self {
        let block = matches!(schedule.times, Times::Poisson(..)).then(Box::<Block>::default);
        Self { schedule, block }
    }

    /// Makes another cursor of the same schedule.
    pub fn again(&self) -> Self {
        Self::new(self.schedule.clone())
    }

    /// Returns the due time, as [`Schedule::at`].
    #[inline]
    pub fn at(&mut self, index: u64) -> u64 {
        self.schedule.time(index, &mut self.block)
    }
}

fn rounded(ns: f64) -> u64 {
    // Beyond what fits, and infinity, is never.
    (ns + 0.5) as u64
}

/// A shape as its integral. Time in nanoseconds since the phase's start.
#[derive(Debug, Clone)]
enum Curve {
    Constant { period_ns: f64 },
    Linear(Arc<[Segment]>),
    Sine { lead: Segment, wave: Wave },
}

/// A stretch in which the rate changes evenly.
#[derive(Debug, Clone, Copy, Default)]
struct Segment {
    from_ns: f64,
    from_count: f64,
    end_count: f64,
    rate_per_ns: f64,
    slope_per_ns2: f64,
}

impl Segment {
    fn time_of(&self, count: f64) -> f64 {
        let beyond = count - self.from_count;
        if beyond <= 0.0 {
            return self.from_ns;
        }
        if self.slope_per_ns2 == 0.0 {
            return self.from_ns + beyond / self.rate_per_ns;
        }
        // The root of `rate t + slope t² / 2 = beyond` in the form that does not cancel.
        let under = self.rate_per_ns * self.rate_per_ns + 2.0 * self.slope_per_ns2 * beyond;
        self.from_ns + 2.0 * beyond / (self.rate_per_ns + under.max(0.0).sqrt())
    }

    fn count_by(&self, at_ns: f64) -> f64 {
        let beyond_ns = at_ns - self.from_ns;
        self.from_count + (self.rate_per_ns + 0.5 * self.slope_per_ns2 * beyond_ns) * beyond_ns
    }
}

impl Curve {
    fn new(rate: &Rate, warmup: Duration) -> Self {
        let warmup_ns = warmup.as_nanos() as f64;
        match rate {
            Rate::Constant(rate) => Curve::Constant { period_ns: 1e9 / rate },
            Rate::Stages(stages) => {
                let last = stages.last().map(|stage| Stage::held(stage.to, 0));
                linear(warmup_ns, &stages.iter().copied().chain(last).collect::<Vec<_>>())
            }
            Rate::Sine { mean, amplitude, period_ns } => {
                let (mean_per_ns, amplitude_per_ns) = (mean / 1e9, amplitude / 1e9);
                let end_count = mean_per_ns * warmup_ns;
                let lead = Segment { end_count, rate_per_ns: mean_per_ns, ..Segment::default() };
                Curve::Sine { lead, wave: Wave { mean_per_ns, amplitude_per_ns, period_ns: *period_ns as f64 } }
            }
            // Its times are known.
            Rate::Recorded(_) => linear(warmup_ns, &[]),
        }
    }

    /// Returns the time at which the integral reaches `count`; infinite if it never does.
    #[inline]
    fn time_of(&self, count: f64) -> f64 {
        match self {
            Curve::Constant { period_ns } => count * period_ns,
            Curve::Linear(segments) => {
                let which = segments.partition_point(|segment| segment.end_count <= count);
                segments.get(which).map_or(f64::INFINITY, |segment| segment.time_of(count))
            }
            Curve::Sine { lead, .. } if count < lead.end_count => lead.time_of(count),
            Curve::Sine { lead, wave } => {
                let count = count - lead.end_count;
                let waves = (count / (wave.mean_per_ns * wave.period_ns)).floor();
                let rest = count - waves * wave.mean_per_ns * wave.period_ns;
                lead.time_of(lead.end_count) + waves * wave.period_ns + wave.time_of(rest)
            }
        }
    }

    /// The integral up to `at_ns`.
    fn count_by(&self, at_ns: f64) -> f64 {
        match self {
            Curve::Constant { period_ns } => at_ns / period_ns,
            Curve::Linear(segments) => {
                let which = segments.partition_point(|segment| segment.from_ns <= at_ns).saturating_sub(1);
                segments.get(which).map_or(0.0, |segment| segment.count_by(at_ns))
            }
            Curve::Sine { lead, wave } => {
                let lead_ns = lead.time_of(lead.end_count);
                if at_ns < lead_ns {
                    return lead.count_by(at_ns);
                }
                lead.end_count + wave.count_by(at_ns - lead_ns)
            }
        }
    }
}

/// Stages of rates after a warm-up at the first rate; the last one has no end.
fn linear(lead_ns: f64, pieces: &[Stage]) -> Curve {
    let lead = pieces.first().filter(|_| lead_ns > 0.0).map(|stage| Stage::held(stage.from, lead_ns as u64));
    let mut segments = Vec::with_capacity(pieces.len() + 1);
    let (mut from_ns, mut from_count) = (0.0, 0.0);
    for (position, Stage { from, to, for_ns }) in lead.iter().chain(pieces).enumerate() {
        let is_last = position + 1 == pieces.len() + usize::from(lead.is_some());
        let (rate_per_ns, to_per_ns, length_ns) = (from / 1e9, to / 1e9, *for_ns as f64);
        let slope_per_ns2 = if is_last || to == from { 0.0 } else { (to_per_ns - rate_per_ns) / length_ns };
        let end_count = match is_last {
            true if *to > 0.0 => f64::INFINITY,
            true => from_count,
            false => from_count + 0.5 * (rate_per_ns + to_per_ns) * length_ns,
        };
        segments.push(Segment { from_ns, from_count, end_count, rate_per_ns, slope_per_ns2 });
        (from_ns, from_count) = (from_ns + length_ns, end_count);
    }
    Curve::Linear(segments.into())
}

/// A wave around a mean, from its beginning.
#[derive(Debug, Clone, Copy)]
struct Wave {
    mean_per_ns: f64,
    amplitude_per_ns: f64,
    period_ns: f64,
}

impl Wave {
    fn count_by(&self, at_ns: f64) -> f64 {
        let turn = at_ns / self.period_ns;
        let wave = self.amplitude_per_ns * self.period_ns / TAU * (1.0 - (TAU * turn.fract()).cos());
        self.mean_per_ns * at_ns + wave
    }

    /// Returns the time at which the integral of one wave reaches `count`: Newton's steps, halved if they would leave
    /// the interval that is known to hold the answer.
    fn time_of(&self, count: f64) -> f64 {
        let (mut low_ns, mut high_ns) = (0.0, self.period_ns);
        let mut at_ns = (count / self.mean_per_ns).min(self.period_ns);
        for _ in 0..64 {
            let off = self.count_by(at_ns.min(self.period_ns * (1.0 - f64::EPSILON))) - count;
            if off > 0.0 {
                high_ns = at_ns;
            } else {
                low_ns = at_ns;
            }
            let rate_per_ns = self.mean_per_ns + self.amplitude_per_ns * (TAU * at_ns / self.period_ns).sin();
            let mut next_ns = at_ns - off / rate_per_ns;
            if !(next_ns >= low_ns && next_ns <= high_ns) {
                next_ns = 0.5 * (low_ns + high_ns);
            }
            let step_ns = (next_ns - at_ns).abs();
            at_ns = next_ns;
            if step_ns < 0.01 {
                break;
            }
        }
        at_ns
    }
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
