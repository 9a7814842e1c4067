//! Choice of the next rung, and of its duration.

use plimsoll_record::data::GoalKind;

use crate::number;

use super::estimate::{self, Rates};
use super::posterior::Posterior;
use super::{Ending, LineResult, LineSpec, Next, Purpose, Rung, RungSummary, cycle};

/// Rungs on each side of the line, and how near to it they have to be.
const DECIDING: usize = 3;
const NEAR: f64 = 1.1;

/// Half of the interval, as a share, above which the search bisects: it asks the rate of which all rungs together leave
/// it most open on which side it is. First the middle, then beside it; what is open after these is for longer rungs.
const WIDE: f64 = 0.05;
const BISECT_AT: [f64; 5] = [0.5, 0.5, 0.5, 0.25, 0.75];

/// Below that it asks near the interval's ends, where the line's steepness shows too; and no further off than this, as a share:
/// a rung far away says nothing but its side.
const DECIDE_AT: [f64; 2] = [0.1, 0.9];
const DECIDE_WITHIN: f64 = 0.06;

/// Void rungs in a row that end a search that knows rates on both sides of the line; without these, two do.
const VOID_MAX: usize = 3;

/// Short rungs for which there is to be time beside those through a cycle.
const KEPT_RUNGS: f64 = 10.0;

/// Beginning of the ladder, as a share of the rate that a closed loop reaches.
const FIRST_STEP: f64 = 0.5;

/// Factor of the ladder when it begins at a measured maximum, and at a given rate.
const STEP_MEASURED: f64 = 1.3;
const STEP_GIVEN: f64 = 1.6;

/// Positions of the two rungs beyond the first failure, as factors.
const BEYOND: [f64; 2] = [1.25, 1.5];

/// Shortest and longest time that counts of one rung. Deciding rungs may last a maintenance cycle.
const RUNG_S: (f64, f64) = (3.0, 60.0);

/// Longest extension of a rung until it had enough undisturbed time, as a factor of its planned duration.
const PUT_OFF: f64 = 2.0;

/// Longest time of a deciding rung of a thorough search whose store has cycles of which nothing tells the length.
const UNKNOWN_CYCLE_S: f64 = 600.0;

/// Time that a thorough search takes for everything but two rungs through a cycle, at least.
const BESIDE_CYCLES_S: f64 = 300.0;

/// Rungs through a cycle that a thorough search has time for, where nothing else tells what is carried.
const WHOLE_RUNGS: f64 = 9.0;

/// Rungs in all: a search that moves about is stopped.
const RUNGS_MAX: usize = 200;

/// Rungs near the line, on one side of it.
struct Side {
    /// Number of further rungs that it takes.
    left: usize,
    /// Time of those that were.
    seconds: f64,
}

/// The search. See the module.
#[derive(Debug, Clone, PartialEq)]
pub struct LineSearch {
    spec: LineSpec,
    rungs: Vec<(Rung, RungSummary)>,
}

impl LineSearch {
    /// A search that has not begun.
    pub fn new(spec: LineSpec) -> Self {
        LineSearch { spec, rungs: Vec::new() }
    }

    /// The rungs so far.
    pub fn rungs(&self) -> &[(Rung, RungSummary)] {
        &self.rungs
    }

    /// Returns the specification of the search.
    pub fn spec(&self) -> &LineSpec {
        &self.spec
    }

    /// Takes what a rung came to, asked for or not: a recording may be of a version that went by other rules.
    pub fn take(&mut self, rung: Rung, summary: RungSummary) {
        self.rungs.push((rung, summary));
    }

    /// Returns the next action.
    pub fn next(&self) -> Next {
        match self.decide() {
            Ok((rate_per_s, purpose)) => {
                let rung = self.rung(rate_per_s, purpose);
                let left_s = self.left_s();
                if rung.seconds + self.overhead_s() > left_s + 1e-6 {
                    let ending = self.time_up(&rung);
                    // The first is driven however short the time is, unless it could not say anything.
                    if !self.rungs.is_empty() || matches!(ending, Ending::NotMeasured(_)) {
                        return Next::Done(Box::new(self.result(ending)));
                    }
                }
                Next::Rung(rung)
            }
            Err(ending) => Next::Done(Box::new(self.result(ending))),
        }
    }

    /// Returns the time that `rung`, the last one requested, may take if pauses of the machine shorten it, in seconds
    /// that count: up to twice as long as requested, and not past the budget.
    pub fn may_last_s(&self, rung: &Rung) -> f64 {
        (PUT_OFF * rung.seconds).min(self.left_s() - self.overhead_s()).max(rung.seconds)
    }

    /// Returns the ending of a search for which `rung` is too long. Results until then stand; without results, a goal
    /// that needs more samples than there was time for is the reason.
    fn time_up(&self, rung: &Rung) -> Ending {
        let found = self.result(Ending::TimeUp);
        let all_s = self.left_s() + self.spent_s();
        match rung.rate_per_s.and_then(|rate| Some((rate, self.longest_goal(rate)?))) {
            Some((rate, (goal, needed_s)))
                if found.rate_per_s.is_none() && needed_s + self.overhead_s() > all_s.max(RUNG_S.0) =>
            {
                Ending::NotMeasured(format!(
                    "at {} it takes {} to measure {}, and the whole search had {}",
                    number::with_unit(rate, "1/s"),
                    number::seconds(needed_s),
                    goal,
                    number::seconds(all_s)
                ))
            }
            _ => Ending::TimeUp,
        }
    }

    /// Returns the result of a search that ends so.
    pub fn result(&self, ending: Ending) -> LineResult {
        estimate::result(&self.spec, &self.rungs, ending)
    }

    /// The rate of the next rung (`None`: as fast as it goes) and what it is for, or why there is none.
    fn decide(&self) -> Result<(Option<f64>, Purpose), Ending> {
        let Some((last, summary)) = self.rungs.last() else {
            return Ok(match self.spec.start_rate_per_s {
                None => (None, Purpose::Start),
                Some(rate) => (Some(self.bounded(rate)), Purpose::Climb),
            });
        };
        if let Some(why) = &summary.failed {
            return Err(Ending::Failed(why.clone()));
        }
        if self.rungs.len() >= RUNGS_MAX {
            return Err(Ending::TimeUp);
        }
        let is_void = |(rung, seen): &(Rung, RungSummary)| seen.void.is_some() && seen.worst_ratio(rung).is_none();
        if let (Some(why), Some(_)) = (&summary.void, last.rate_per_s)
            && summary.worst_ratio(last).is_none()
        {
            // What a store does with far too much is worth a look, and no reason to end.
            if last.purpose == Purpose::Beyond {
                return self.on_the_ladder();
            }
            let in_a_row = self.rungs.iter().rev().take_while(|one| is_void(one)).count();
            let rates = Rates::of(&self.rungs);
            let bracketed = rates.highest_held().is_some() && rates.lowest_failed().is_some();
            // Something else on the machine may have been in the way once.
            return match in_a_row {
                VOID_MAX.. if !summary.is_taken() => Err(Ending::Generator(why.clone())),
                _ if bracketed => self.on_the_ladder(),
                1 => Ok((last.rate_per_s, last.purpose)),
                // That passes, or the time does.
                _ if summary.is_taken() => Ok((last.rate_per_s, last.purpose)),
                _ => Err(Ending::Generator(why.clone())),
            };
        }
        if let (Some(goal), Some(rate)) = (summary.unmeasured(), last.rate_per_s) {
            let (what, missing) = (goal.name(), goal.missing.as_deref());
            let why = format!("{what} {}", missing.unwrap_or("was not measured"));
            let times = self.rungs.iter().filter(|(rung, _)| rung.rate_per_s == Some(rate)).count();
            // Asked again, it lasts longer: see `rung`.
            return if times < 3 { Ok((last.rate_per_s, last.purpose)) } else { Err(Ending::NotMeasured(why)) };
        }
        self.on_the_ladder()
    }

    fn on_the_ladder(&self) -> Result<(Option<f64>, Purpose), Ending> {
        let rates = Rates::of(&self.rungs);
        let step = if self.spec.start_rate_per_s.is_none() { STEP_MEASURED } else { STEP_GIVEN };
        let Some(high) = rates.lowest_failed() else {
            let Some(held) = rates.highest_held() else {
                // After a closed loop.
                let reached = self.rungs.first().map_or(0.0, |(_, summary)| summary.rate_per_s);
                return Ok((Some(self.bounded(reached * FIRST_STEP)), Purpose::Climb));
            };
            if held >= self.spec.rate_max_per_s {
                return Err(Ending::NoFailure);
            }
            return Ok((Some(self.bounded(held * step)), Purpose::Climb));
        };
        if let Some(rate) = self.beyond(&rates) {
            return Ok((Some(rate), Purpose::Beyond));
        }
        let Some(low) = rates.highest_held() else {
            if high <= self.spec.rate_min_per_s {
                return Err(Ending::NoPass);
            }
            // What held without a cycle of the store is not far from what holds with one.
            let step = if cycle::matters(&self.rungs) { STEP_MEASURED } else { 2.0 };
            return Ok((Some(self.bounded(high / step)), Purpose::Climb));
        };
        let Some(posterior) = Posterior::of(&self.rungs) else {
            return Ok((Some(rounded((low * high).sqrt())), Purpose::Bisect));
        };
        let (line, half) = posterior.line();
        let done = self.rungs.iter().filter(|(rung, _)| rung.purpose == Purpose::Bisect).count();
        let is_wide = half / line > WIDE.max(2.0 * self.spec.precision);
        if let Some(share) = BISECT_AT.get(done).filter(|_| is_wide) {
            return Ok((Some(self.known(posterior.rate(*share))), Purpose::Bisect));
        }
        if let Some(rate) = [low, high].into_iter().find(|rate| self.lacks_cycle(*rate)) {
            return Ok((Some(rate), Purpose::Decide));
        }
        let sides = self.sides(line);
        if half / line <= self.spec.precision && sides.iter().all(|side| side.left == 0) {
            return Err(Ending::Found);
        }
        let [below, above] = sides;
        let is_below = below.left > above.left || below.left == above.left && below.seconds <= above.seconds;
        let beside = 0.75 * self.spec.precision;
        let rate = match is_below {
            true => posterior.rate(DECIDE_AT[0]).max(line * (1.0 - DECIDE_WITHIN)).min(line * (1.0 - beside)),
            false => posterior.rate(DECIDE_AT[1]).min(line * (1.0 + DECIDE_WITHIN)).max(line * (1.0 + beside)),
        };
        Ok((Some(self.known(rate)), Purpose::Decide))
    }

    /// `rate`, or one that was asked and is next to it: answers are repeated where they decide.
    fn known(&self, rate: f64) -> f64 {
        let asked = self.rungs.iter().filter_map(|(rung, _)| rung.rate_per_s);
        let nearest = asked.min_by(|a, b| (a / rate).ln().abs().total_cmp(&(b / rate).ln().abs()));
        let next_to = nearest.filter(|known| (known / rate).ln().abs() <= self.spec.precision / 3.0);
        next_to.unwrap_or_else(|| self.bounded(rate))
    }

    /// Returns the rungs below and above `line`, near it.
    fn sides(&self, line: f64) -> [Side; 2] {
        let side = |wanted: &dyn Fn(f64) -> bool| {
            let said = self
                .rungs
                .iter()
                .filter(|(rung, seen)| rung.rate_per_s.is_some_and(wanted) && seen.worst_ratio(rung).is_some());
            let (mut n, mut seconds, mut whole) = (0, 0.0, false);
            for (rung, seen) in said {
                (n, seconds) = (n + 1, seconds + seen.seconds);
                whole |= rung.rate_per_s.is_some_and(|rate| self.has_whole(rate));
            }
            // A rung through a whole cycle is longer than others; where only such rungs count, one has to do.
            let wanted = match (whole, cycle::matters(&self.rungs)) {
                (true, true) => 1,
                (true, false) => DECIDING - 1,
                (false, _) => DECIDING,
            };
            Side { left: wanted.saturating_sub(n), seconds }
        };
        [side(&|rate| rate <= line && rate >= line / NEAR), side(&|rate| rate > line && rate <= line * NEAR)]
    }

    /// Returns true if `rate` still needs a rung through a whole cycle, and there is time for one.
    fn lacks_cycle(&self, rate: f64) -> bool {
        self.whole_s(rate).is_some_and(|whole_s| {
            !cycle::covers(&self.rungs, rate, whole_s) && whole_s + self.beside_s() <= self.left_s()
        })
    }

    /// Returns true if a rung at `rate` was planned to last through a whole cycle, and as long as a decision takes
    /// otherwise.
    fn has_whole(&self, rate: f64) -> bool {
        self.whole_s(rate).is_some_and(|whole_s| {
            whole_s > 2.0 * DECIDING as f64 * RUNG_S.0
                && self.rungs.iter().any(|(rung, seen)| {
                    rung.rate_per_s == Some(rate)
                        && seen.worst_ratio(rung).is_some()
                        && rung.warmup_s + rung.seconds > whole_s - 0.2
                })
        })
    }

    /// Time, warm-up included, in which a cycle of the store ends.
    fn whole_s(&self, rate: f64) -> Option<f64> {
        cycle::whole_s(&self.spec, &self.rungs, rate)
    }

    /// Time that is left of the budget. A thorough search takes what two rungs through a cycle need, and more where
    /// it turns out that only such rungs count.
    fn left_s(&self) -> f64 {
        let reached = self.rungs.iter().map(|(_, seen)| seen.rate_per_s).fold(0.0, f64::max);
        let whole_s = self.whole_s(reached).filter(|_| self.spec.thorough);
        let rungs = if cycle::matters(&self.rungs) { WHOLE_RUNGS } else { 2.0 };
        let least_s = whole_s.map_or(0.0, |whole_s| BESIDE_CYCLES_S + rungs * whole_s);
        self.spec.budget_s.max(least_s) - self.spent_s()
    }

    /// The next of the two rungs past the first failure.
    fn beyond(&self, rates: &Rates) -> Option<f64> {
        let first = self.rungs.iter().filter(|(rung, _)| rung.purpose == Purpose::Climb).filter_map(|(rung, _)| {
            let rate = rung.rate_per_s?;
            (rates.held(rate) == Some(false)).then_some(rate)
        });
        let first = first.fold(0.0, f64::max);
        // Those that held were past a rung that was unlucky.
        let past = |(rung, _): &&(Rung, RungSummary)| {
            rung.purpose == Purpose::Beyond && rung.rate_per_s.is_some_and(|rate| rate > first)
        };
        let done = self.rungs.iter().filter(past).count();
        let rate = rounded(first * BEYOND.get(done)?);
        (first > 0.0 && rate <= self.spec.rate_max_per_s).then_some(rate)
    }

    fn bounded(&self, rate: f64) -> f64 {
        rounded(rate).clamp(self.spec.rate_min_per_s, self.spec.rate_max_per_s)
    }

    fn spent_s(&self) -> f64 {
        self.rungs.iter().map(|(_, summary)| summary.took_s).sum()
    }

    /// Returns the time of a rung besides warm-up and the time that counts, seconds.
    fn beside_s(&self) -> f64 {
        (self.overhead_s() - self.spec.warmup_s).max(0.0)
    }

    /// Returns the time of a rung besides the time that counts: the mean of the rungs so far, or the spec's guess.
    fn overhead_s(&self) -> f64 {
        let seen: Vec<f64> = self.rungs.iter().map(|(_, seen)| (seen.took_s - seen.seconds).max(0.0)).collect();
        if seen.is_empty() { self.spec.overhead_s + self.spec.warmup_s } else { crate::stat::mean(&seen) }
    }

    /// The rung with its time: a share of that for everything, and what is left where no other would follow.
    fn rung(&self, rate_per_s: Option<f64>, purpose: Purpose) -> Rung {
        let rates = Rates::of(&self.rungs);
        let (all_s, overhead_s) = (self.left_s() + self.spent_s(), self.overhead_s());
        let left_s = self.left_s() - overhead_s;
        let kept_s = self.kept_for_cycles_s(&rates, left_s - KEPT_RUNGS * (RUNG_S.0 + overhead_s));
        let unknown = self.spec.thorough && purpose == Purpose::Decide && self.has_unknown_cycle();
        let most_s = if unknown { UNKNOWN_CYCLE_S } else { RUNG_S.1 };
        // What is kept for cycles is not for rungs without one.
        let free_s = (left_s - kept_s) / if kept_s > 0.0 { 2.0 } else { 1.0 };
        let planned_s = if unknown { UNKNOWN_CYCLE_S } else { all_s * share(purpose) };
        let mut seconds = planned_s.min(free_s).clamp(RUNG_S.0, most_s);
        if left_s - seconds < overhead_s + 1.2 * RUNG_S.0 {
            // No other would follow.
            seconds = (left_s - 0.1).clamp(RUNG_S.0, most_s);
        }
        if let Some(rate) = rate_per_s {
            let whole = match purpose {
                Purpose::Decide => self.lacks_cycle(rate) || cycle::matters(&self.rungs),
                Purpose::Climb | Purpose::Bisect => cycle::matters(&self.rungs),
                Purpose::Start | Purpose::Beyond => false,
            };
            seconds = seconds.max(self.whole_s(rate).filter(|_| whole).map_or(0.0, |s| s - self.spec.warmup_s));
        }
        if let Some(rate) = rate_per_s {
            // Shorter it would say nothing: where that is too long for what is left, time is up.
            seconds = seconds.max(self.longest_goal(rate).map_or(0.0, |(_, needed_s)| needed_s));
        }
        Rung {
            ordinal: self.rungs.len() as u32,
            rate_per_s,
            purpose,
            warmup_s: self.spec.warmup_s,
            seconds: (seconds * 10.0).ceil() / 10.0,
        }
    }

    /// Time that is kept for deciding rungs through a whole cycle, of the `free_s` that the others need not have: for two,
    /// or one, or none.
    fn kept_for_cycles_s(&self, rates: &Rates, free_s: f64) -> f64 {
        let reached = self.rungs.iter().map(|(_, seen)| seen.rate_per_s).fold(0.0, f64::max);
        let wanted: Vec<f64> = match (rates.highest_held(), rates.lowest_failed()) {
            (Some(low), Some(high)) => {
                let lacking =
                    |rate: &f64| self.whole_s(*rate).filter(|whole_s| !cycle::covers(&self.rungs, *rate, *whole_s));
                [low, high].iter().filter_map(lacking).collect()
            }
            _ => self.whole_s(reached).into_iter().flat_map(|whole_s| [whole_s; 2]).collect(),
        };
        let mut kept_s = 0.0;
        for whole_s in wanted {
            if kept_s + whole_s <= free_s {
                kept_s += whole_s;
            }
        }
        kept_s
    }

    /// Returns true if the store counts cycles of unknown length.
    fn has_unknown_cycle(&self) -> bool {
        self.rungs.last().is_some_and(|(_, seen)| !seen.cycles.is_empty() && self.whole_s(seen.rate_per_s).is_none())
    }

    /// The percentile that takes longest to measure at `rate`, and the seconds in which it has the samples that it needs,
    /// with a fifth to spare. `None` without percentiles.
    fn longest_goal(&self, rate: f64) -> Option<(String, f64)> {
        let samples = self.spec.goals.iter().filter_map(|goal| {
            let GoalKind::Percentile(percentile) = goal.what else { return None };
            Some((goal.name(), percentile.samples(crate::latency::SAMPLES_ABOVE)))
        });
        let (goal, samples) = samples.max_by_key(|(_, samples)| *samples)?;
        let again =
            self.rungs.iter().filter(|(rung, seen)| rung.rate_per_s == Some(rate) && seen.unmeasured().is_some());
        Some((goal, samples as f64 * 1.2 / rate * 2f64.powi(again.count() as i32)))
    }
}

/// Time of a rung as a share of that for everything.
fn share(purpose: Purpose) -> f64 {
    match purpose {
        Purpose::Start | Purpose::Climb | Purpose::Beyond => 1.0 / 50.0,
        Purpose::Bisect => 1.0 / 20.0,
        Purpose::Decide => 1.0 / 12.0,
    }
}

/// Rounds to four significant digits: a plan should not read 41,237.918273 op/s.
fn rounded(rate: f64) -> f64 {
    if rate <= 0.0 || !rate.is_finite() {
        return 0.0;
    }
    let step = 10f64.powi(rate.log10().floor() as i32 - 3);
    (rate / step).round() * step
}
