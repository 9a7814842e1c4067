//! Continuation of clients of a closed loop: after a think time, and while there are as many clients. Of any loop: with
//! the operation that failed, and after the wait of a circuit breaker.
//!
//! Both are pure functions: a think time of the seed, the client and its operation, and who is at work of the time alone.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::Arc;

use plimsoll_core::OpKind;
use plimsoll_core::pace::{Stage, ThinkTime};

use super::breaker::Circuits;
use super::retries::Retries;
use crate::grid::Grid;
use crate::poisson::Random;
use crate::schedule::NEVER_NS;
use crate::spec::DriveSpec;

/// Sets think times apart from whatever else the seed is for.
const THINK: u64 = 0x7468_696e_6b00_0000;

/// Clients that rest, and for how long.
pub(crate) struct Rests {
    think: Option<ThinkTime>,
    seed: u64,
    /// Sessions at work over time, from the end of the warm-up on.
    stages: Arc<[Stage]>,
    depth: u32,
    /// Times at which lanes continue.
    resting: BinaryHeap<Reverse<(u64, u32)>>,
    /// Failed operations that are sent again.
    pub retries: Option<Retries>,
    /// Circuit breakers of the clients. A lane with an open circuit rests.
    pub circuits: Option<Circuits>,
}

impl Rests {
    /// Makes the rests of a worker with so many lanes; `None` if clients continue immediately. Takes its memory here.
    pub fn new(
        spec: &DriveSpec,
        think: Option<ThinkTime>,
        seed: u64,
        lanes: usize,
        kinds: &[OpKind],
    ) -> Option<Box<Self>> {
        let has_policy = spec.retry.is_some() || spec.breaker.is_some();
        let rests = think.is_some() || !spec.stages.is_empty() || has_policy;
        rests.then(|| {
            Box::new(Self {
                think,
                seed,
                stages: spec.stages.as_slice().into(),
                depth: spec.depth.max(1),
                resting: BinaryHeap::with_capacity(lanes),
                retries: spec.retry.map(|retry| Retries::new(retry, lanes, kinds)),
                circuits: spec.breaker.map(|breaker| Circuits::new(breaker, lanes)),
            })
        })
    }

    /// Returns the time at which the client that is free at `now_ns` continues, before its operation `cycle`. Its last
    /// operation ended at `ended_ns`; before its first one there is no think time.
    pub fn until(&self, grid: &Grid, client: u32, cycle: u64, ended_ns: Option<u64>, now_ns: u64) -> u64 {
        let thinks_until_ns = match (self.think, ended_ns) {
            (Some(think), Some(ended_ns)) => ended_ns.saturating_add(self.think_ns(think, client, cycle)),
            _ => now_ns,
        };
        self.at_work(grid, client / self.depth, thinks_until_ns.max(now_ns))
    }

    fn think_ns(&self, think: ThinkTime, client: u32, cycle: u64) -> u64 {
        let mut random = Random::of([self.seed ^ THINK, u64::from(client), cycle]);
        match think {
            ThinkTime::Constant(ns) => ns,
            ThinkTime::Uniform(least_ns, most_ns) => {
                least_ns + (random.uniform() * most_ns.saturating_sub(least_ns) as f64) as u64
            }
            ThinkTime::Exponential(mean_ns) => (random.exponential() * mean_ns as f64) as u64,
        }
    }

    /// The first time not before `from_ns` at which there are more sessions than `session`.
    fn at_work(&self, grid: &Grid, session: u32, from_ns: u64) -> u64 {
        let Some(last) = self.stages.last() else { return from_ns };
        let wanted = f64::from(session) + 1.0;
        let mut begin_ns = grid.warmup_end_ns;
        if from_ns < begin_ns && self.stages.first().is_some_and(|stage| stage.from >= wanted) {
            return from_ns;
        }
        for stage in self.stages.iter() {
            let end_ns = begin_ns.saturating_add(stage.for_ns);
            let at_ns = from_ns.max(begin_ns);
            if at_ns < end_ns {
                let level = |ns: u64| {
                    stage.from + (stage.to - stage.from) * ((ns - begin_ns) as f64 / stage.for_ns.max(1) as f64)
                };
                if level(at_ns) >= wanted {
                    return at_ns;
                }
                if stage.to > stage.from && stage.to >= wanted {
                    let share = (wanted - stage.from) / (stage.to - stage.from);
                    return begin_ns.saturating_add((share * stage.for_ns as f64).ceil() as u64).max(at_ns);
                }
            }
            begin_ns = end_ns;
        }
        if last.to >= wanted { from_ns.max(begin_ns) } else { NEVER_NS }
    }

    pub fn push(&mut self, lane: u32, until_ns: u64) {
        self.resting.push(Reverse((until_ns, lane)));
    }

    /// Takes a lane whose rest is over by `now_ns`.
    pub fn pop(&mut self, now_ns: u64) -> Option<u32> {
        loop {
            let Reverse((until_ns, lane)) = *self.resting.peek()?;
            if until_ns > now_ns {
                return None;
            }
            self.resting.pop();
            if self.circuits.as_mut().is_none_or(|circuits| circuits.half_opens(lane)) {
                return Some(lane);
            }
        }
    }

    /// Returns the lane whose rest ends next.
    pub fn first(&self) -> Option<u32> {
        self.resting.peek().map(|Reverse((_, lane))| *lane)
    }

    /// Takes `lane` from those that rest.
    pub fn take(&mut self, lane: u32) {
        self.resting.retain(|Reverse((_, resting))| *resting != lane);
        if let Some(circuits) = &mut self.circuits {
            circuits.half_opens(lane);
        }
    }

    /// Returns the end of the next rest.
    pub fn next_ns(&self) -> Option<u64> {
        self.resting.peek().map(|Reverse((until_ns, _))| *until_ns)
    }

    pub fn remove(&mut self, lanes: &Range<u32>) {
        if let Some(circuits) = &mut self.circuits {
            circuits.remove(lanes);
        }
        // An open circuit needs no session.
        let is_open = |lane| self.circuits.as_ref().is_some_and(|circuits| circuits.is_open(lane));
        self.resting.retain(|Reverse((_, lane))| !lanes.contains(lane) || is_open(*lane));
        if let Some(retries) = &mut self.retries {
            retries.remove(lanes);
        }
    }
}
