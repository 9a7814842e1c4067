//! Simulated stores of known capacity: what a rung of a load-line search would come to on them.

use std::collections::VecDeque;

use plimsoll_analysis::line::{LineSearch, LineSpec, LoadStep, Next, Resource, ResourceUse};
use plimsoll_analysis::view::{GoalSeen, LineResult, Rung};
use plimsoll_record::data::{Goal, GoalKind};

use crate::study::Dice;

/// A queue with servers.
#[derive(Clone)]
pub struct Store {
    /// Servers.
    pub servers: usize,
    /// Mean service time.
    pub service_s: f64,
    /// Exponential service times; otherwise constant with a tenth of uniform noise.
    pub exponential: bool,
    /// Number of waiting operations above which service takes `slower` times as long.
    pub thrashes_at: usize,
    pub slower: f64,
    /// Number of operations from which the store refuses further ones.
    pub refuses_at: usize,
    /// Interval at which no service begins for a while.
    pub stall_every_s: f64,
    pub stall_s: f64,
    /// The generator does not reach more than this.
    pub generator_per_s: f64,
    /// The generator's thread is kept off its processor so long, once a second.
    pub generator_gone_s: f64,
    /// Period of checkpoints from a rung's begin on, and the factor by which the last part of each slows every service
    /// down.
    pub cycle: Option<Checkpoints>,
}

/// A store's own maintenance.
#[derive(Clone, Copy)]
pub struct Checkpoints {
    pub every_s: f64,
    pub slow_s: f64,
    pub slower: f64,
    /// The store knows how long it takes by its settings.
    pub is_known: bool,
    /// Work brings one on: it comes every so many operations, whatever `every_s` says, and the store tells.
    pub every_ops: Option<f64>,
}

impl Checkpoints {
    /// Returns the checkpoints at `rate`.
    fn at(self, rate: f64) -> Checkpoints {
        Checkpoints { every_s: self.every_ops.map_or(self.every_s, |operations| operations / rate), ..self }
    }
}

impl Store {
    pub fn exponential(rate_per_s: f64) -> Store {
        Store {
            servers: 1,
            service_s: 1.0 / rate_per_s,
            exponential: true,
            thrashes_at: usize::MAX,
            slower: 1.0,
            refuses_at: usize::MAX,
            stall_every_s: f64::INFINITY,
            stall_s: 0.0,
            generator_per_s: f64::INFINITY,
            generator_gone_s: 0.0,
            cycle: None,
        }
    }

    fn service(&self, dice: &mut Dice, waiting: usize) -> f64 {
        let service = match self.exponential {
            true => dice.exponential(self.service_s),
            false => self.service_s * (0.9 + 0.2 * dice.unit()),
        };
        if waiting > self.thrashes_at { service * self.slower } else { service }
    }

    /// Returns the observations of an open loop of Poisson arrivals at `rate`.
    pub fn drive(&self, rate: f64, warmup_s: f64, seconds: f64, dice: &mut Dice) -> Seen {
        let end_s = warmup_s + seconds;
        let stalls_from = dice.unit() * self.stall_every_s.min(1e6);
        let mut free = vec![0.0f64; self.servers];
        let mut leaving: VecDeque<f64> = VecDeque::new();
        let mut seen = Seen { seconds: vec![Second::default(); end_s.ceil() as usize + 1], ..Seen::default() };
        let gone_from = 0.3;
        let mut generator_free = 0.0f64;
        let mut due = 0.0;
        loop {
            due += dice.exponential(1.0 / rate);
            if due >= end_s {
                break;
            }
            let mut at = generator_free.max(due);
            let into = (at - gone_from).rem_euclid(1.0);
            if into < self.generator_gone_s {
                at += self.generator_gone_s - into;
            }
            generator_free = at + 1.0 / self.generator_per_s;
            if due >= warmup_s {
                seen.lags_s.push(at - due);
            }
            if at >= end_s {
                seen.waits_s.push(end_s - due);
                continue;
            }
            while leaving.front().is_some_and(|time| *time <= at) {
                leaving.pop_front();
            }
            if leaving.len() >= self.refuses_at {
                seen.refused += u64::from(at >= warmup_s);
                continue;
            }
            let server = (0..self.servers).min_by(|a, b| free[*a].total_cmp(&free[*b])).unwrap();
            let mut start = free[server].max(at);
            if self.stall_every_s.is_finite() {
                let into = (start - stalls_from).rem_euclid(self.stall_every_s);
                if into < self.stall_s {
                    start += self.stall_s - into;
                }
            }
            let mut service = self.service(dice, leaving.len());
            if let Some(cycle) = self.cycle.map(|cycle| cycle.at(rate))
                && start.rem_euclid(cycle.every_s) > cycle.every_s - cycle.slow_s
            {
                service *= cycle.slower;
            }
            let end = start + service;
            free[server] = end;
            let position = leaving.partition_point(|time| *time <= end);
            leaving.insert(position, end);
            if let Some(second) = seen.seconds.get_mut(start as usize) {
                second.busy_s += service;
            }
            if end >= warmup_s {
                // What was not answered when the time was up stands with the time it waited.
                seen.waits_s.push(if end <= end_s { end - due } else { end_s - due });
                seen.ended += u64::from(end <= end_s);
                let second = &mut seen.seconds[at as usize];
                second.wait_s = second.wait_s.max(end.min(end_s) - due);
            }
        }
        seen.stalls = (0..seen.seconds.len())
            .map(|second| {
                let into = (second as f64 - stalls_from).rem_euclid(self.stall_every_s.min(1e9));
                f64::from(u8::from(into < self.stall_s || into > self.stall_every_s - 1.0))
            })
            .collect();
        seen
    }

    /// The rate at which the goals reach their limits, from long simulations.
    pub fn truth(&self, goals: &[Goal]) -> f64 {
        let (mut low, mut high) = (100.0f64, 10_000.0f64);
        while high / low > 1.002 {
            let rate = (low * high).sqrt();
            let seen = self.drive(rate, 2.0, 400_000.0 / rate, &mut Dice(99));
            let held = goals.iter().all(|goal| seen.value(&goal.what.name()) <= goal.limit)
                && (seen.ended + seen.refused) as f64 >= 0.995 * 400_000.0;
            if held { low = rate } else { high = rate }
        }
        (low * high).sqrt()
    }
}

#[derive(Default, Clone)]
pub struct Second {
    busy_s: f64,
    wait_s: f64,
}

#[derive(Default)]
pub struct Seen {
    lags_s: Vec<f64>,
    waits_s: Vec<f64>,
    ended: u64,
    refused: u64,
    seconds: Vec<Second>,
    stalls: Vec<f64>,
}

impl Seen {
    /// Returns the value in nanoseconds or per cent.
    pub fn value(&self, what: &str) -> f64 {
        if what == "errors" {
            let unanswered = self.waits_s.len() as u64 - self.ended;
            return (self.refused + unanswered) as f64 * 100.0
                / (self.waits_s.len() as u64 + self.refused).max(1) as f64;
        }
        let one_in = match what {
            "p50" => 2,
            "p95" => 20,
            "p99" => 100,
            other => panic!("{other}"),
        };
        worst(&self.waits_s, one_in) * 1e9
    }

    /// Returns the reason that the phase is void, by the rule of the drive: the 99th percentile of its own delay is
    /// more than half of the response time's.
    fn void(&self) -> Option<String> {
        let (late_s, waits_s) = (worst(&self.lags_s, 100), worst(&self.waits_s, 100));
        (late_s > (waits_s / 2.0).max(1e-3)).then(|| {
            format!(
                "the generator was {:.1} ms late at the 99th percentile (operations took {:.1} ms); lower the rate",
                late_s * 1e3,
                waits_s * 1e3
            )
        })
    }
}

/// The value that one of `one_in` is above.
pub fn worst(values: &[f64], one_in: usize) -> f64 {
    let mut values = values.to_vec();
    let at = values.len() - 1 - values.len() / one_in;
    *values.select_nth_unstable_by(at, f64::total_cmp).1
}

/// Additional samples.
#[derive(Clone, Copy, PartialEq)]
pub enum Sampled {
    Nothing,
    ServerCpu,
    Flushes,
}

pub fn p99(limit_ms: f64) -> Goal {
    Goal { what: GoalKind::named("p99").unwrap(), of: None, limit: limit_ms * 1e6, unit: "ns".into() }
}

pub fn errors(limit_percent: f64) -> Goal {
    Goal { what: GoalKind::Errors, of: None, limit: limit_percent, unit: "%".into() }
}

/// Answers a rung as a store would.
pub fn answer(store: &Store, spec: &LineSpec, rung: &Rung, sampled: Sampled, dice: &mut Dice) -> LoadStep {
    let overhead_s = 0.4;
    let capacity = store.servers as f64 / store.service_s;
    let cycle = store.cycle.map(|cycle| cycle.at(rung.rate_per_s.unwrap_or(capacity)));
    let base = LoadStep {
        rung: rung.clone(),
        took_s: rung.seconds + rung.warmup_s + overhead_s,
        cycles: vec![(
            "checkpoints".into(),
            cycle.map_or(0.0, |cycle| ((rung.warmup_s + rung.seconds) / cycle.every_s).floor()),
        )],
        cycle_s: store.cycle.filter(|cycle| cycle.is_known).map(|cycle| cycle.every_s),
        cycle_ops: store.cycle.and_then(|cycle| cycle.every_ops),
        cycle_words: store.cycle.map(|_| "checkpoint_timeout is long".into()),
        ..LoadStep::default()
    };
    let Some(rate) = rung.rate_per_s else {
        let rate = (capacity * (0.97 + 0.04 * dice.unit())).min(store.generator_per_s);
        let void = (rate >= store.generator_per_s).then(|| "its workers were busy 97 % of the time".to_string());
        return LoadStep { rate_per_s: rate, ended_per_s: rate, void, ..base };
    };
    let seen = store.drive(rate, rung.warmup_s, rung.seconds, dice);
    let goals = spec.goals.iter().map(|goal| {
        let n = seen.waits_s.len() as u64;
        let is_enough = goal.what == GoalKind::Errors || n >= 1_000;
        let value = is_enough.then(|| seen.value(&goal.what.name()));
        GoalSeen::new(goal, value.ok_or_else(|| format!("needs 1,000 samples, has {n}")), n)
    });
    let whole = seen.seconds.iter().zip(&seen.stalls).take((rung.warmup_s + rung.seconds) as usize);
    let whole: Vec<_> = whole.skip(rung.warmup_s.ceil() as usize).collect();
    let waits_s: Vec<Option<f64>> = whole.iter().map(|(second, _)| Some(second.wait_s)).collect();
    let resource = |name: &str, capacity: Option<f64>, values: Vec<f64>| {
        let unit = if capacity.is_some() { "%" } else { "1/s" };
        let resource = Resource { name: name.into(), unit: unit.into(), capacity, waiting: false };
        ResourceUse { resource, values, waits_s: waits_s.clone() }
    };
    let mut resources =
        vec![resource("disk vda", Some(100.0), whole.iter().map(|_| 20.0 + 30.0 * dice.unit()).collect())];
    match sampled {
        Sampled::Nothing => {}
        Sampled::ServerCpu => {
            let cpu = |second: &Second| (second.busy_s * 100.0).min(100.0 * store.servers as f64);
            let values = whole.iter().map(|(second, _)| cpu(second)).collect();
            resources.push(resource("the server's CPU", Some(100.0 * store.servers as f64), values));
        }
        Sampled::Flushes => {
            resources.push(resource(
                "disk: flushes",
                None,
                whole.iter().map(|(_, stall)| **stall * 30.0 + 5.0 * dice.unit()).collect(),
            ));
        }
    }
    let void = seen.void();
    LoadStep {
        rate_per_s: seen.ended as f64 / rung.seconds,
        ended_per_s: (seen.ended + seen.refused) as f64 / rung.seconds,
        // What is being served is sent.
        unsent_share: (seen.waits_s.len() - seen.ended as usize).saturating_sub(store.servers) as f64
            / (seen.waits_s.len() + seen.refused as usize).max(1) as f64,
        rejected_per_s: seen.refused as f64 / rung.seconds,
        goals: goals.collect(),
        void,
        resources,
        ..base
    }
}

/// A whole search; the most rungs it may take is the search's own business.
pub fn search(store: &Store, spec: &LineSpec, sampled: Sampled, seed: u64) -> (LineResult, LineSearch) {
    let mut dice = Dice(seed.wrapping_mul(0x1234_5678_9abc_def1));
    searched(spec, |rung| answer(store, spec, rung, sampled, &mut dice))
}

/// A whole search whose rungs come to what `answer` says.
pub fn searched(spec: &LineSpec, mut answer: impl FnMut(&Rung) -> LoadStep) -> (LineResult, LineSearch) {
    let mut search = LineSearch::new(spec.clone());
    loop {
        match search.next() {
            Next::Rung(rung) => search.take(answer(&rung)),
            Next::Done(result) => return (*result, search),
        }
    }
}
