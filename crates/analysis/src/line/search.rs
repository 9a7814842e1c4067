//! Choice of the next load step, and of its duration.

use plimsoll_record::data::{Goal, GoalKind};

use crate::number;
use crate::stat;
use crate::view::AtRate;

use super::estimate::{self, FAR_BEYOND, farthest, is_within};
use super::steps::StepTable;
use super::{Ending, GoalSeen, LineResult, LineSpec, LoadStep, Next, Purpose, Rung, cycle, through};

/// Rungs without evidence in a row that end a search.
const SILENT_MAX: usize = 3;

/// Beginning of the ladder, as a share of the rate that a closed loop reaches.
const FIRST_STEP: f64 = 0.7;

/// Factor of the ladder when it begins at a measured maximum, and at a given rate; and downwards.
const STEP_MEASURED: f64 = 1.3;
const STEP_GIVEN: f64 = 1.6;
const STEP_DOWN: f64 = 2.0;

/// Position of the rung beyond the line, as a factor on the lowest rate that failed.
const BEYOND: f64 = 1.5;

/// Share of the time for everything that counts in one rung, and its bounds in seconds.
const RUNG_SHARE: f64 = 1.0 / 30.0;
const RUNG_S: (f64, f64) = (2.0, 60.0);

/// Warm-up as a share of the rung's length, and its bounds in seconds. Sessions are new in each rung, so there is some;
/// but only the first rung, which has the longest, meets a store that did nothing before.
const WARMUP_SHARE: f64 = 0.25;
const WARMUP_S: (f64, f64) = (0.25, 1.0);

/// Guess at the time of the first rung besides warm-up and the time that counts: settling, opening sessions.
const BESIDE_S: f64 = 2.0;

/// Longest extension of a rung until it had enough undisturbed time, as a factor of its planned duration.
const PUT_OFF: f64 = 2.0;

/// Time that a thorough search takes for everything but rungs through a cycle, at least.
const BESIDE_CYCLES_S: f64 = 300.0;

/// Rungs through a cycle that a thorough search has time for, where nothing else tells what is carried.
const WHOLE_RUNGS: f64 = 9.0;

/// Most load steps of a search: one that moves about is stopped.
pub(super) const STEPS_MAX: usize = 200;

/// The search. See the module.
#[derive(Debug, Clone, PartialEq)]
pub struct LineSearch {
    pub(super) spec: LineSpec,
    steps: Vec<LoadStep>,
}

impl LineSearch {
    /// A search that has not begun.
    pub fn new(spec: LineSpec) -> Self {
        LineSearch { spec, steps: Vec::new() }
    }

    /// The load steps so far.
    pub fn steps(&self) -> &[LoadStep] {
        &self.steps
    }

    /// Takes a load step, asked for or not: a recording may be of a version that went by other rules.
    pub fn take(&mut self, step: LoadStep) {
        self.steps.push(step);
    }

    /// Returns the result of a search that ends so.
    pub fn result(&self, ending: Ending) -> LineResult {
        estimate::result(&self.spec, &self.steps, ending)
    }

    /// Returns the next action.
    pub fn next(&self) -> Next {
        let wanted = self.ended().map_or_else(|| self.on_the_ladder(), Err);
        match wanted.and_then(|(rate_per_s, purpose)| self.in_time(self.rung(rate_per_s, purpose))) {
            Ok(rung) => Next::Rung(rung),
            Err(ending) => Next::Done(Box::new(self.result(ending))),
        }
    }

    /// Returns the time that `rung`, the last one requested, may take if pauses of the machine shorten it, in seconds
    /// that count: up to twice as long as requested, and not past the budget.
    pub fn may_last_s(&self, rung: &Rung) -> f64 {
        (PUT_OFF * rung.seconds).min(self.left_s() - self.beside_s() - rung.warmup_s).max(rung.seconds)
    }

    /// Returns `rung` if one more is permitted and there is time for it; otherwise results until then stand. Without
    /// results, a goal that needs more samples than there was time for is the reason.
    fn in_time(&self, rung: Rung) -> Result<Rung, Ending> {
        if self.steps.len() >= STEPS_MAX {
            return Err(Ending::StepsUp);
        }
        let beside_s = rung.warmup_s + self.beside_s();
        if rung.seconds + beside_s <= self.left_s() + 1e-6 {
            return Ok(rung);
        }
        let all_s = self.all_s();
        let nothing_is_known = StepTable::of(&self.steps).shown().0.is_none();
        match rung.rate_per_s.and_then(|rate| Some((rate, self.longest_goal(rate)?))) {
            Some((rate, (goal, needed_s))) if nothing_is_known && needed_s + beside_s > all_s => {
                let (needed, all) = (number::seconds(needed_s), number::seconds(all_s));
                let why = format!("it takes {needed} to measure {goal}, and the whole search had {all}");
                Err(Ending::NotMeasured(format!("at {} {why}", number::with_unit(rate, "1/s"))))
            }
            // The first is driven however short the time is.
            _ if self.steps.is_empty() => Ok(rung),
            _ => Err(Ending::TimeUp),
        }
    }

    /// Returns the reason that the last load step ends the search. One without evidence is asked for again.
    fn ended(&self) -> Option<Ending> {
        // What a store does with far too much, or with less, is worth a look, and no reason to end.
        let is_beside = |step: &&LoadStep| matches!(step.rung.purpose, Purpose::Beyond | Purpose::Share);
        let last = self.steps.last().filter(|step| !is_beside(step))?;
        // If others had the processors, that passes, or the time does.
        let is_silent =
            |step: &&LoadStep| step.rung.rate_per_s.is_some() && step.worst_ratio().is_none() && !step.is_taken();
        let is_again = self.steps.iter().rev().take_while(is_silent).count() < SILENT_MAX;
        match (&last.failed, &last.void, last.unmeasured()) {
            (Some(why), ..) => Some(Ending::Failed(why.clone())),
            _ if is_again => None,
            (_, Some(why), _) => Some(Ending::Generator(why.clone())),
            (.., goal) => Some(Ending::NotMeasured(format!("{} {}", goal?.name(), goal?.missing.as_deref()?))),
        }
    }

    /// Returns the rate of the next rung (`None`: as fast as it goes) and its purpose, or the reason that there is none.
    fn on_the_ladder(&self) -> Result<(Option<f64>, Purpose), Ending> {
        let (table, spec) = (StepTable::of(&self.steps), &self.spec);
        let step = if spec.start_rate_per_s.is_none() { STEP_MEASURED } else { STEP_GIVEN };
        let (rate, purpose) = match table.around() {
            (None, None) => match (spec.start_rate_per_s, self.steps.first()) {
                (Some(rate), _) => (rate, Purpose::Climb),
                (None, None) => return Ok((None, Purpose::Start)),
                (None, Some(start)) if start.rate_per_s > 0.0 => (start.rate_per_s * FIRST_STEP, Purpose::Climb),
                _ => return Err(Ending::Failed("no operation of the closed loop succeeded".to_owned())),
            },
            (Some(held), None) if held.rate_per_s < spec.rate_max_per_s => (held.rate_per_s * step, Purpose::Climb),
            (Some(held), None) if held.decided => return Err(Ending::NoFailure),
            (None, Some(failed)) if failed.rate_per_s > spec.rate_min_per_s => {
                // What held without a cycle of the store is not far from what holds with one.
                let step = if cycle::matters(&self.steps) { STEP_MEASURED } else { STEP_DOWN };
                (failed.rate_per_s / step, Purpose::Climb)
            }
            (None, Some(failed)) if failed.decided => return Err(Ending::NoPass),
            (Some(bound), None) | (None, Some(bound)) => {
                let bounds = (bound.rate_per_s, bound.rate_per_s);
                (table.in_turn(table.contradiction().unwrap_or(bounds)), Purpose::Decide)
            }
            (Some(held), Some(failed)) => self.between(&table, held, failed)?,
        };
        Ok((Some(self.bounded(rate)), purpose))
    }

    /// Returns the next rate and its purpose if the line lies between `held` and `failed`.
    fn between(&self, table: &StepTable, held: &AtRate, failed: &AtRate) -> Result<(f64, Purpose), Ending> {
        let is_near = |low: &AtRate, high: &AtRate| is_within(self.spec.precision, low.rate_per_s, high.rate_per_s);
        let (carries, gives_way) = table.shown();
        if let Some((low, high)) = carries.zip(gives_way).filter(|(low, high)| is_near(low, high)) {
            return self.besides(low.rate_per_s, high.rate_per_s);
        }
        let (held_per_s, failed_per_s) = (held.rate_per_s, failed.rate_per_s);
        let saw_whole = || self.steps.iter().any(|step| step.rung.purpose == Purpose::Cycle);
        if !is_near(held, failed) {
            return Ok(((held_per_s * failed_per_s).sqrt(), Purpose::Bisect));
        }
        // If goals break in a cycle, most of what was seen without one says nothing: that is seen early.
        if !saw_whole() && self.lacks_cycle(held_per_s) {
            return Ok((held_per_s, Purpose::Cycle));
        }
        // The two that probably take the fewest load steps, or two that contradict each other.
        let left = |rate: f64, carried: bool| table.steps_left(rate, carried);
        let best = table.cheapest(self.spec.precision, |rate| self.bounded(rate), left);
        let pair = best.map(|(low, high, _)| (low, high)).or(table.contradiction());
        Ok((table.in_turn(pair.unwrap_or((held_per_s, failed_per_s))), Purpose::Decide))
    }

    /// Returns what is driven when the line is known and there is time: a rung through a cycle, one far beyond, and
    /// one at each share of the line if there are faults.
    fn besides(&self, carries: f64, gives_way: f64) -> Result<(f64, Purpose), Ending> {
        if self.lacks_cycle(carries) {
            return Ok((carries, Purpose::Cycle));
        }
        let beyond = self.bounded(gives_way * BEYOND);
        // Something else on the machine may have been in the way once.
        let is_tried = self.steps.iter().filter(|step| step.rung.purpose == Purpose::Beyond).count() >= 2;
        let is_due = !is_tried && beyond >= FAR_BEYOND * gives_way && farthest(&self.steps, Some(gives_way)).is_none();
        let shares = through::missing(&self.spec, &self.steps, carries);
        let shares = shares.map(|rate| (self.bounded(rate), Purpose::Share));
        let mut wanted = is_due.then_some((beyond, Purpose::Beyond)).into_iter().chain(shares);
        wanted.find(|one| self.in_time(self.rung(Some(one.0), one.1)).is_ok()).ok_or(Ending::Found)
    }

    /// Returns true if `rate` still needs a rung through a whole cycle, and there is time for one.
    fn lacks_cycle(&self, rate: f64) -> bool {
        let Some(whole_s) = cycle::whole_s(&self.spec, &self.steps, rate) else { return false };
        let is_whole = |step: &LoadStep| step.cycles_ended() >= 1.0 || step.rung.total_s() > whole_s - 0.2;
        let mut said = self.steps.iter().filter(|step| step.is_at(rate) && step.worst_ratio().is_some());
        !said.any(is_whole) && whole_s + self.beside_s() <= self.left_s()
    }

    /// Returns the time of the whole search. A thorough one takes what a rung through a cycle needs, and more where it
    /// turns out that only such rungs count.
    fn all_s(&self) -> f64 {
        let reached = self.steps.iter().map(|step| step.rate_per_s).fold(0.0, f64::max);
        let held = StepTable::of(&self.steps).around().0.map_or(reached, |held| held.rate_per_s);
        let whole_s = cycle::whole_s(&self.spec, &self.steps, held).filter(|_| self.spec.thorough);
        let rungs = if cycle::matters(&self.steps) { WHOLE_RUNGS } else { 2.0 };
        let least_s = whole_s.map_or(0.0, |whole_s| BESIDE_CYCLES_S + rungs * whole_s);
        self.spec.budget_s.max(least_s)
    }

    /// Returns the time that is left of the search.
    fn left_s(&self) -> f64 {
        self.all_s() - self.steps.iter().map(|step| step.took_s).sum::<f64>()
    }

    /// Returns `rate` with four significant digits, since a plan should not read 41,237.918273 ops/s, within its bounds.
    fn bounded(&self, rate: f64) -> f64 {
        let digit = 10f64.powi((rate.log10().floor() - 3.0) as i32);
        ((rate / digit).round() * digit).min(self.spec.rate_max_per_s).max(self.spec.rate_min_per_s)
    }

    /// Returns the time of a rung besides warm-up and the time that counts: the mean of the rungs so far.
    fn beside_s(&self) -> f64 {
        let beside = |step: &LoadStep| (step.took_s - step.rung.total_s()).max(0.0);
        let seen: Vec<f64> = self.steps.iter().map(beside).collect();
        if seen.is_empty() { BESIDE_S } else { stat::mean(&seen) }
    }

    /// The rung with its time: as long as the others, or through a cycle, or as long as its percentiles need.
    fn rung(&self, rate_per_s: Option<f64>, purpose: Purpose) -> Rung {
        let (spec, steps) = (&self.spec, &self.steps);
        let is_whole = purpose == Purpose::Cycle || purpose != Purpose::Beyond && cycle::matters(steps);
        let whole_s = rate_per_s.filter(|_| is_whole).and_then(|rate| cycle::whole_s(spec, steps, rate)).unwrap_or(0.0);
        // Shorter it would say nothing: where that is too long for what is left, time is up. A closed loop has no faults.
        let of_goals_s = |rate| self.longest_goal(rate).map_or(0.0, |(_, needed_s)| needed_s);
        let needed_s = rate_per_s.map_or(0.0, |rate| of_goals_s(rate).max(spec.rung_min_s));
        let seconds = (spec.budget_s * RUNG_SHARE).clamp(RUNG_S.0, RUNG_S.1).max(needed_s);
        let warmup_s = match spec.warmup_s {
            Some(warmup_s) => warmup_s,
            None if steps.is_empty() => WARMUP_S.1,
            None => (WARMUP_SHARE * seconds.max(whole_s)).clamp(WARMUP_S.0, WARMUP_S.1),
        };
        let seconds = (seconds.max(whole_s - warmup_s) * 10.0).ceil() / 10.0;
        Rung { ordinal: steps.len() as u32, rate_per_s, purpose, warmup_s, seconds }
    }

    /// The percentile that takes longest to measure at `rate`, and the seconds in which it has the samples that it needs,
    /// with a fifth to spare. `None` without percentiles.
    fn longest_goal(&self, rate: f64) -> Option<(String, f64)> {
        let needed = self.spec.goals.iter().filter_map(|goal| {
            let GoalKind::Percentile(percentile) = goal.what else { return None };
            Some((goal.name(), percentile.samples(crate::latency::SAMPLES_ABOVE) as f64 / self.share(goal)))
        });
        let (goal, operations) = needed.max_by(|(_, one), (_, other)| one.total_cmp(other))?;
        let again = self.steps.iter().filter(|step| step.is_at(rate) && step.unmeasured().is_some());
        Some((goal, operations * 1.2 / rate * 2f64.powi(again.count() as i32)))
    }

    /// Returns the share of operations that a goal is about: of one operation type the largest that was seen, else 1.
    fn share(&self, goal: &Goal) -> f64 {
        let is_its = |seen: &&GoalSeen| goal.of.is_some() && seen.what == goal.what && seen.of == goal.of && seen.n > 0;
        let share = |step: &LoadStep, seen: &GoalSeen| seen.n as f64 / (step.ended_per_s * step.rung.seconds);
        let all =
            self.steps.iter().flat_map(|step| step.goals.iter().filter(is_its).map(move |seen| share(step, seen)));
        all.reduce(f64::max).map_or(1.0, |share| share.min(1.0))
    }
}
