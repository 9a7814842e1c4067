//! Choice of the next rung, and of its duration.

use plimsoll_record::data::{Goal, GoalKind};

use crate::number;

use super::estimate::{self, FAR_BEYOND, farthest, is_within};
use super::steps::StepTable;
use super::{Ending, LineResult, LineSpec, Next, Purpose, Rung, RungSummary, cycle};

/// Void rungs in a row that end a search that knows rates on both sides of the line; without these, two do.
const VOID_MAX: usize = 3;

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

/// Longest extension of a rung until it had enough undisturbed time, as a factor of its planned duration.
const PUT_OFF: f64 = 2.0;

/// Time that a thorough search takes for a rung through a cycle, if nothing tells the length of cycles.
const UNKNOWN_CYCLE_S: f64 = 600.0;

/// Time that a thorough search takes for everything but rungs through a cycle, at least.
const BESIDE_CYCLES_S: f64 = 300.0;

/// Rungs through a cycle that a thorough search has time for, where nothing else tells what is carried.
const WHOLE_RUNGS: f64 = 9.0;

/// Rungs in all: a search that moves about is stopped.
const RUNGS_MAX: usize = 200;

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
            // What a store does with far too much is worth a look, and no reason to end.
            return if last.purpose == Purpose::Beyond {
                self.on_the_ladder()
            } else {
                Err(Ending::Failed(why.clone()))
            };
        }
        if self.rungs.len() >= RUNGS_MAX {
            return Err(Ending::TimeUp);
        }
        let is_void = |(rung, seen): &(Rung, RungSummary)| {
            rung.rate_per_s.is_some() && seen.void.is_some() && seen.worst_ratio(rung).is_none()
        };
        if let (Some(why), Some(_)) = (&summary.void, last.rate_per_s)
            && summary.worst_ratio(last).is_none()
        {
            if last.purpose == Purpose::Beyond {
                return self.on_the_ladder();
            }
            let in_a_row = self.rungs.iter().rev().take_while(|one| is_void(one)).count();
            let table = StepTable::of(&self.rungs);
            let bracketed = matches!(table.around(), (Some(_), Some(_)));
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
        let is_unmeasured =
            |(rung, seen): &(Rung, RungSummary)| seen.unmeasured().is_some() && seen.worst_ratio(rung).is_none();
        if let (Some(goal), Some(rate)) = (summary.unmeasured(), last.rate_per_s)
            && summary.worst_ratio(last).is_none()
            && last.purpose != Purpose::Beyond
        {
            let (what, missing) = (goal.name(), goal.missing.as_deref());
            let why = format!("{what} {}", missing.unwrap_or("was not measured"));
            let times = self.rungs.iter().filter(|one| one.0.rate_per_s == Some(rate) && is_unmeasured(one)).count();
            // Asked again, it lasts longer: see `rung`.
            return if times < 3 { Ok((last.rate_per_s, last.purpose)) } else { Err(Ending::NotMeasured(why)) };
        }
        self.on_the_ladder()
    }

    fn on_the_ladder(&self) -> Result<(Option<f64>, Purpose), Ending> {
        let table = StepTable::of(&self.rungs);
        let step = if self.spec.start_rate_per_s.is_none() { STEP_MEASURED } else { STEP_GIVEN };
        let (rate, purpose) = match table.around() {
            (None, None) => {
                // After a closed loop.
                let reached = self.rungs.first().map_or(0.0, |(_, summary)| summary.rate_per_s);
                if reached <= 0.0 {
                    return Err(Ending::Failed("no operation of the closed loop succeeded".to_owned()));
                }
                (reached * FIRST_STEP, Purpose::Climb)
            }
            (Some(held), None) if held.rate_per_s < self.spec.rate_max_per_s => {
                (held.rate_per_s * step, Purpose::Climb)
            }
            (Some(held), None) if held.decided => return Err(Ending::NoFailure),
            (Some(held), None) => (held.rate_per_s, Purpose::Decide),
            (None, Some(failed)) if failed.rate_per_s > self.spec.rate_min_per_s => {
                // What held without a cycle of the store is not far from what holds with one.
                let step = if cycle::matters(&self.rungs) { STEP_MEASURED } else { STEP_DOWN };
                (failed.rate_per_s / step, Purpose::Climb)
            }
            (None, Some(failed)) if failed.decided => return Err(Ending::NoPass),
            (None, Some(failed)) => (failed.rate_per_s, Purpose::Decide),
            (Some(held), Some(failed)) => {
                if let Some((carries, gives_way)) = self.shown(&table) {
                    return self.besides(carries, gives_way).map(|(rate, purpose)| (Some(rate), purpose));
                }
                match is_within(self.spec.precision, held.rate_per_s, failed.rate_per_s) {
                    // If goals break in a cycle, most of what was seen without one says nothing: that is seen early.
                    true if !self.saw_whole() && self.lacks_cycle(held.rate_per_s) => (held.rate_per_s, Purpose::Cycle),
                    false => ((held.rate_per_s * failed.rate_per_s).sqrt(), Purpose::Bisect),
                    true => (self.deciding(&table, held.rate_per_s, failed.rate_per_s), Purpose::Decide),
                }
            }
        };
        Ok((Some(self.bounded(rate)), purpose))
    }

    /// Returns the rate that is carried and the one that is not, if both are shown, as near as asked.
    fn shown(&self, table: &StepTable) -> Option<(f64, f64)> {
        let shown = (table.carries()?.rate_per_s, table.gives_way()?.rate_per_s);
        is_within(self.spec.precision, shown.0, shown.1).then_some(shown)
    }

    /// Returns what is driven when the line is known and there is time: a rung through a cycle, and one far beyond.
    fn besides(&self, carries: f64, gives_way: f64) -> Result<(f64, Purpose), Ending> {
        let beyond = self.bounded(gives_way * BEYOND);
        // Something else on the machine may have been in the way once.
        let is_tried = self.rungs.iter().filter(|(rung, _)| rung.purpose == Purpose::Beyond).count() >= 2;
        let fits = |rate: f64, purpose| self.rung(Some(rate), purpose).seconds + self.overhead_s() <= self.left_s();
        if self.lacks_cycle(carries) {
            return Ok((carries, Purpose::Cycle));
        }
        match farthest(&self.rungs, Some(gives_way)) {
            None if !is_tried && beyond >= FAR_BEYOND * gives_way && fits(beyond, Purpose::Beyond) => {
                Ok((beyond, Purpose::Beyond))
            }
            _ => Err(Ending::Found),
        }
    }

    /// Returns the rate to drive for a decision: one of the two, as near to each other as asked, that probably take the fewest
    /// load steps. Both are driven in turn. `held` and `failed` are the rates around the line.
    fn deciding(&self, table: &StepTable, held: f64, failed: f64) -> f64 {
        // Rates are rounded, and must not come to lie too far apart by that.
        let factor = 1.0 + 0.98 * self.spec.precision;
        let tried = table.between(0.0, f64::INFINITY).map(|one| one.rate_per_s);
        let each = tried.flat_map(|rate| [rate / factor, rate, rate * factor]).map(|rate| self.bounded(rate));
        let rates: Vec<(f64, [f64; 2])> = each.map(|rate| (rate, table.steps_left(rate))).collect();
        let near = |a: f64, b: f64| a < b && is_within(self.spec.precision, a, b);
        let pairs = rates.iter().flat_map(|(a, [hold, _])| {
            let others = rates.iter().filter(|(b, _)| near(*a, *b));
            others.map(move |(b, [_, fail])| (*a, *b, hold + fail))
        });
        let best = pairs.min_by(|a, b| a.2.total_cmp(&b.2)).filter(|(_, _, left)| left.is_finite());
        let (held, failed, _) = best.unwrap_or((held, failed, 0.0));
        let [held, failed] = [held, failed].map(|rate| table.at(rate));
        let is_shown = failed.decided && failed.evidence() < 0.0;
        let is_held_next = is_shown || held.steps() < failed.steps() && !(held.decided && held.evidence() > 0.0);
        if is_held_next { held.rate_per_s } else { failed.rate_per_s }
    }

    /// Returns true if `rate` still needs a rung through a whole cycle, and there is time for one.
    fn lacks_cycle(&self, rate: f64) -> bool {
        self.whole_s(rate).is_some_and(|whole_s| {
            !cycle::covers(&self.rungs, rate, whole_s) && whole_s + self.beside_s() <= self.left_s()
        })
    }

    /// Returns true if a rung was to last through a cycle.
    fn saw_whole(&self) -> bool {
        self.rungs.iter().any(|(rung, _)| rung.purpose == Purpose::Cycle)
    }

    /// Time, warm-up included, in which a cycle of the store ends.
    fn whole_s(&self, rate: f64) -> Option<f64> {
        let counts = || self.rungs.last().is_some_and(|(_, seen)| !seen.cycles.is_empty());
        let known = cycle::whole_s(&self.spec, &self.rungs, rate);
        known.or_else(|| (self.spec.thorough && counts()).then_some(UNKNOWN_CYCLE_S))
    }

    /// Time that is left of the budget. A thorough search takes what a rung through a cycle needs, and more where
    /// it turns out that only such rungs count.
    fn left_s(&self) -> f64 {
        let reached = self.rungs.iter().map(|(_, seen)| seen.rate_per_s).fold(0.0, f64::max);
        let held = StepTable::of(&self.rungs).around().0.map_or(reached, |held| held.rate_per_s);
        let whole_s = self.whole_s(held).filter(|_| self.spec.thorough);
        let rungs = if cycle::matters(&self.rungs) { WHOLE_RUNGS } else { 2.0 };
        let least_s = whole_s.map_or(0.0, |whole_s| BESIDE_CYCLES_S + rungs * whole_s);
        self.spec.budget_s.max(least_s) - self.spent_s()
    }

    fn bounded(&self, rate: f64) -> f64 {
        rounded(rate).min(self.spec.rate_max_per_s).max(self.spec.rate_min_per_s)
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

    /// The rung with its time: as long as the others, or through a cycle, or as long as its percentiles need.
    fn rung(&self, rate_per_s: Option<f64>, purpose: Purpose) -> Rung {
        let mut seconds = (self.spec.budget_s * RUNG_SHARE).clamp(RUNG_S.0, RUNG_S.1);
        if let Some(rate) = rate_per_s {
            let only_whole = cycle::matters(&self.rungs);
            let whole = match purpose {
                Purpose::Cycle => true,
                Purpose::Climb | Purpose::Bisect | Purpose::Decide => only_whole,
                Purpose::Start | Purpose::Beyond => false,
            };
            seconds = seconds.max(self.whole_s(rate).filter(|_| whole).map_or(0.0, |s| s - self.spec.warmup_s));
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

    /// The percentile that takes longest to measure at `rate`, and the seconds in which it has the samples that it needs,
    /// with a fifth to spare. `None` without percentiles.
    fn longest_goal(&self, rate: f64) -> Option<(String, f64)> {
        let needed = self.spec.goals.iter().filter_map(|goal| {
            let GoalKind::Percentile(percentile) = goal.what else { return None };
            Some((goal.name(), percentile.samples(crate::latency::SAMPLES_ABOVE) as f64 / self.share(goal)))
        });
        let (goal, operations) = needed.max_by(|(_, one), (_, other)| one.total_cmp(other))?;
        let again =
            self.rungs.iter().filter(|(rung, seen)| rung.rate_per_s == Some(rate) && seen.unmeasured().is_some());
        Some((goal, operations * 1.2 / rate * 2f64.powi(again.count() as i32)))
    }

    /// Returns the share of operations that a goal is about: of one operation type the largest that a rung saw, and 1 before
    /// that.
    fn share(&self, goal: &Goal) -> f64 {
        let of_rung = |(_, summary): &(Rung, RungSummary)| {
            let seen = summary.goals.iter().find(|seen| seen.what == goal.what && seen.of == goal.of)?;
            (seen.n > 0).then(|| seen.n as f64 / (summary.ended_per_s * summary.seconds))
        };
        let of_rungs = self.rungs.iter().filter(|_| goal.of.is_some()).filter_map(of_rung);
        of_rungs.reduce(f64::max).map_or(1.0, |share| share.min(1.0))
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
