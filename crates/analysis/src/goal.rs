//! Goals, and their results.

use plimsoll_core::study::goal_name;
use plimsoll_core::waits::CONNECT;
use plimsoll_record::data::{AnswerCounts, Goal, GoalKind, PhaseKind, PhaseState, ResultName, Run, Trial};

use crate::faults;
use crate::known;
use crate::name;
use crate::number;
use crate::outage;
use crate::phase::{PhaseFacts, Quantity, state_words};
use crate::step::{self, StepTimes};
use crate::view::{GoalState, GoalTrial, GoalView, LineView};

/// Code for errors of further sorts when there are more than are distinguished.
const OTHER: &str = "other";

/// Judges every goal of the plan.
///
/// That goals break on rungs is what a search for the load line looks for: those that only rungs measure are the
/// search's, and `rate` is held against the line.
pub fn goals(run: &Run, facts: &[Vec<PhaseFacts<'_>>], lines: &[LineView]) -> Vec<GoalView> {
    let goals = run.header.goals.iter().map(|goal| one(run, facts, goal, lines));
    goals.filter(|goal| lines.is_empty() || !goal.trials.is_empty()).collect()
}

fn one(run: &Run, facts: &[Vec<PhaseFacts<'_>>], goal: &Goal, lines: &[LineView]) -> GoalView {
    let mut trials = Vec::new();
    let searched = !lines.is_empty();
    let breaks_all = run.trials.iter().all(|trial| trial.header.breaks);
    for line in lines.iter().filter(|_| goal.what == GoalKind::Rate) {
        let rate = line.result.rate_per_s.map(|value| Quantity { value, n: line.result.n });
        trials.push(judge(goal, format!("{}, the load line", line.store), rate.ok_or("no line was found".to_string())));
    }
    for (trial, phases) in run.trials.iter().zip(facts) {
        let name = name::trial(&trial.header);
        match goal.what {
            GoalKind::Lost => trials.push(of_ledger(goal, name, trial, lost(phases))),
            GoalKind::Wrong => trials.push(of_ledger(goal, name, trial, wrong(run, phases))),
            // What is stale in a trial that sets out to break promises is a result.
            GoalKind::Stale if trial.header.breaks && !breaks_all => {}
            GoalKind::Stale => trials.push(of_ledger(goal, name, trial, stale(goal, phases))),
            _ => {
                let drives = phases.iter().filter(|facts| facts.phase.header.kind == PhaseKind::Drive);
                for phase in drives.filter(|facts| !(searched && facts.phase.header.rung.is_some())) {
                    let place = format!("{name}, {}", phase.phase.header.name);
                    trials.push(driven(goal, place, phase));
                }
            }
        }
    }
    let state = trials.iter().map(|trial| trial.state).max().unwrap_or(GoalState::NotMeasured);
    let at_least = goal.what == GoalKind::Rate;
    let measured = trials.iter().filter_map(|trial| Some((trial.got?, trial)));
    let worst = measured.reduce(|a, b| if (b.0 < a.0) == at_least { b } else { a });
    GoalView {
        what: goal.what,
        of: goal.of.clone(),
        text: words(goal),
        wanted: wanted(goal),
        limit: goal.limit,
        unit: goal.unit.clone(),
        got: worst.map(|(got, _)| got),
        got_text: worst.map_or("not measured".to_string(), |(_, trial)| trial.got_text.clone()),
        n: trials.iter().map(|trial| trial.n).sum(),
        state,
        trials,
    }
}

/// Returns the goals of driven phases, in words such as `p99 ≤ 20.0 ms`, each with its worst state in `phases`.
pub fn of_phases(run: &Run, phases: &[&PhaseFacts<'_>]) -> Vec<(GoalKind, String, GoalState)> {
    let goals = run.header.goals.iter().filter(|goal| !goal.what.is_of_ledger());
    let judged = goals.filter_map(|goal| {
        let state = phases.iter().map(|facts| driven(goal, String::new(), facts).state).max()?;
        Some((goal.what, format!("{} {}", goal_name(goal.what, goal.of.as_deref()), wanted(goal)), state))
    });
    judged.collect()
}

fn wanted(goal: &Goal) -> String {
    let limit = number::limit(goal.limit, &goal.unit);
    match goal.what {
        GoalKind::Rate => format!("≥ {limit}"),
        _ if goal.limit == 0.0 => limit,
        _ => format!("≤ {limit}"),
    }
}

fn words(goal: &Goal) -> String {
    let words = match goal.what {
        GoalKind::Lost => "acknowledged writes lost",
        GoalKind::Wrong => "wrong or missing records in answers and index",
        GoalKind::Stale => "stale records in answers",
        GoalKind::Errors if goal.of.is_some() => "operations rejected or unknown",
        GoalKind::Errors => "operations rejected, unknown or never sent",
        GoalKind::Unknown => "operations whose outcome is unknown",
        GoalKind::Status => {
            return format!("operations that failed with {}", goal.of.as_deref().unwrap_or("any code"));
        }
        GoalKind::Percentile(percentile) if percentile.share_above() == 0.5 => "median response time",
        GoalKind::Percentile(percentile) => {
            return of(goal, &format!("{percentile} of response time"));
        }
        GoalKind::Mean => "mean response time",
        GoalKind::Rate => "operations a second",
        GoalKind::Outage => "longest time without any answer",
        GoalKind::Recovery => "longest time until throughput was back after a fault",
    };
    of(goal, words)
}

/// `words`, and the operation type or step that the goal is of.
fn of(goal: &Goal, words: &str) -> String {
    goal.of.as_ref().map_or(words.to_string(), |of| format!("{words} of {of}"))
}

/// The value, or why there is none. A broken promise is a value also where not everything was seen.
type Measured = Result<Quantity, String>;

/// Judges a goal on what a ledger found. If the store could not be read, it is undecided, for it was looked for.
fn of_ledger(goal: &Goal, place: String, trial: &Trial, measured: Measured) -> GoalTrial {
    let judged = judge(goal, place, measured);
    match judged.got.is_none() && known::not_known(trial).is_some() {
        true => GoalTrial { state: GoalState::Undecided, ..judged },
        false => judged,
    }
}

/// Returns the acknowledged writes that the trial of these phases lost.
pub fn lost(phases: &[PhaseFacts<'_>]) -> Measured {
    let Some(trial) = phases.first().map(|facts| facts.trial) else { return Err("no phase was begun".to_string()) };
    let Some(worst) = known::most_lost(trial) else { return Err(unchecked(phases)) };
    match known::not_known(trial).filter(|_| worst.lost == 0) {
        Some(why) => Err(why),
        None => Ok(Quantity { value: worst.lost as f64, n: worst.acknowledged }),
    }
}

/// Returns the wrong and missing records; without the stale ones in answers if the run has a goal on these.
fn wrong(run: &Run, phases: &[PhaseFacts<'_>]) -> Measured {
    let Some(trial) = phases.first().map(|facts| facts.trial) else { return Err("no phase was begun".to_string()) };
    let n = trial.answers.iter().map(|answer| answer.counts.answers).sum::<u64>()
        + trial.ledgers.iter().map(|ledger| ledger.read_back).max().unwrap_or(0);
    if let Some(value) = wrong_of(run, trial).filter(|value| *value > 0) {
        return Ok(Quantity { value: value as f64, n });
    }
    match known::not_known(trial) {
        _ if trial.answers.is_empty() && trial.ledgers.is_empty() => Err(unchecked(phases)),
        Some(why) => Err(why),
        None => unheard(phases, trial).map_or(Ok(Quantity { value: 0.0, n }), Err),
    }
}

/// Returns the wrong and missing records in answers, and those that the worst of the ledgers found wrong, which are about
/// the same records; `None` if nothing was checked, or could be. Stale records in answers are left out if the run has a
/// goal on these.
pub fn wrong_of(run: &Run, trial: &Trial) -> Option<u64> {
    let answers = trial.answers.iter().map(|answer| wrong_in(run, &answer.counts) + answer.counts.missing);
    let ledger = trial.ledgers.iter().filter_map(known::wrong).max();
    answers.chain(ledger).reduce(|all, one| all + one)
}

/// Returns the wrong records in answers; without the stale ones if the run has a goal on these.
pub fn wrong_in(run: &Run, counts: &AnswerCounts) -> u64 {
    match run.header.goals.iter().any(|goal| goal.what == GoalKind::Stale) {
        true => counts.wrong.saturating_sub(counts.stale_records),
        false => counts.wrong,
    }
}

/// Returns the stale records in answers. A number above the limit is a value also if not every answer was checked.
pub fn stale(goal: &Goal, phases: &[PhaseFacts<'_>]) -> Measured {
    let Some(trial) = phases.first().map(|facts| facts.trial) else { return Err("no phase was begun".to_string()) };
    let counts = || trial.answers.iter().map(|answer| answer.counts);
    let value = counts().map(|counts| counts.stale_records).sum::<u64>() as f64;
    let stale = Quantity { value, n: counts().map(|counts| counts.answers).sum() };
    match unheard(phases, trial).filter(|_| value <= goal.limit) {
        _ if trial.answers.is_empty() => Err(unchecked(phases)),
        Some(why) => Err(why),
        None => Ok(stale),
    }
}

/// Returns an operation type without any answer that was compared with the truth: all were refused, none was observed,
/// or the ledger has a gap.
fn unheard(phases: &[PhaseFacts<'_>], trial: &Trial) -> Option<String> {
    let unheard = trial.answers.iter().find(|answer| answer.counts.answers == 0)?;
    let phase = phases.iter().find(|facts| facts.phase.header.ordinal == unheard.phase);
    let phase = phase.map_or("?", |facts| facts.phase.header.name.as_str());
    Some(format!("no answer to `{}` in phase {phase} could be checked", unheard.op))
}

/// Returns the reason that a trial has no ledger.
fn unchecked(phases: &[PhaseFacts<'_>]) -> String {
    phases
        .iter()
        .find(|facts| facts.phase.end.state != PhaseState::Complete)
        .map_or("nothing was checked".to_string(), |facts| {
            format!("phase {} {}", facts.phase.header.name, state_words(&facts.phase.end.state))
        })
}

/// A goal of a driven phase. One that held held, also with a late generator, which makes everything worse; one that was
/// missed with it may have been missed because of it.
fn driven(goal: &Goal, place: String, facts: &PhaseFacts<'_>) -> GoalTrial {
    // Quantities give times in seconds; goals are in nanoseconds.
    let scale = if goal.unit == "ns" { 1e9 } else { 1.0 };
    let measured = measured(goal, facts);
    let mut judged =
        judge(goal, place, measured.map(|quantity| Quantity { value: quantity.value * scale, ..quantity }));
    judged.got_text = number::lower_bound(judged.got_text, judged.got.is_some() && is_open(goal, facts));
    if judged.got.is_some() && is_moved(goal, facts) {
        judged.late = facts.late().map(str::to_string);
        judged.got_text = number::marked(judged.got_text, true);
        // What was refused or not heard of was sent.
        let by_itself =
            goal.what == GoalKind::Errors && facts.failed_percent().is_some_and(|own| own.value > goal.limit);
        if judged.state == GoalState::Missed && !by_itself {
            judged.state = GoalState::Undecided;
        }
    }
    match not_observed(goal, facts) {
        Some(why) if matches!(judged.state, GoalState::Held | GoalState::NotMeasured) => {
            GoalTrial { state: GoalState::Undecided, late: Some(why), ..judged }
        }
        _ => judged,
    }
}

/// Returns the reason that a goal on the effects of faults is not decided: one of them took effect when hardly any load
/// was left. An outage that had not ended has a reason of its own.
fn not_observed(goal: &Goal, facts: &PhaseFacts<'_>) -> Option<String> {
    let is_of_faults = matches!(goal.what, GoalKind::Outage | GoalKind::Recovery);
    if !is_of_faults || facts.phase.end.state != PhaseState::Complete || is_open(goal, facts) {
        return None;
    }
    faults::not_observed(&faults::of_phase(facts), goal.limit / 1e9)
}

/// Returns the time in seconds for which throughput was seen not to come back, if it is longer than the goal's limit.
fn unrecovered_s(goal: &Goal, facts: &PhaseFacts<'_>) -> Option<f64> {
    faults::unrecovered_s(&faults::of_phase(facts)).filter(|observed_s| observed_s * 1e9 > goal.limit)
}

/// Returns true if a measured time of the goal had not ended when observation ended.
fn is_open(goal: &Goal, facts: &PhaseFacts<'_>) -> bool {
    match goal.what {
        GoalKind::Outage => outage::is_open(facts),
        GoalKind::Recovery => unrecovered_s(goal, facts).is_some(),
        _ => false,
    }
}

/// Returns the measured value of a driven phase. Times are in seconds.
fn measured(goal: &Goal, facts: &PhaseFacts<'_>) -> Measured {
    let name = goal.what.name();
    if goal.what == GoalKind::Recovery
        && let Some(observed_s) = unrecovered_s(goal, facts)
    {
        // It took at least that long.
        return Ok(Quantity { value: observed_s, n: 1 });
    }
    if goal.what == GoalKind::Outage
        && let Ok(longest) = facts.quantity(&name, None)
        && longest.value * 1e9 <= goal.limit
        && let Some(open_s) = outage::open_s(facts)
    {
        let (phase, open) = (&facts.phase.header.name, number::seconds(open_s));
        return Err(format!("phase {phase} had no answer for {open} when observation ended: let it last longer"));
    }
    let (GoalKind::Status, Some(code)) = (goal.what, goal.of.as_deref()) else {
        return match goal.of.as_deref().and_then(|of| step::timed(facts, of)) {
            Some(step) => of_step(goal, &step),
            None => facts.quantity(&name, goal.of.as_deref()),
        };
    };
    if code == CONNECT {
        return Err("attempts to connect are not operations: `failed_connects` counts them".to_owned());
    }
    // That the phase came to an end, and the number of all that ended: codes are counted from its first operation on.
    facts.quantity("errors", None)?;
    let coded: Vec<_> = facts.phase.end.results.iter().filter(|one| one.name == ResultName::ErrorCode).collect();
    let all = facts.result(ResultName::Ops).map_or(0.0, |ops| ops.value);
    if all == 0.0 {
        return Err(format!("phase {} has no operations", facts.phase.header.name));
    }
    let failed: f64 = coded.iter().filter(|one| is_code(code, &one.subject)).map(|one| one.value).sum();
    // Of very many sorts of error the last are counted together.
    let others = coded.iter().any(|one| one.subject == OTHER);
    if others && failed == 0.0 {
        return Err(format!(
            "phase {} had more classes of error than are recorded separately",
            facts.phase.header.name
        ));
    }
    Ok(Quantity { value: failed * 100.0 / all, n: all as u64 })
}

/// Returns true if an error's `code` belongs to a goal's: `500`, or with `5xx` any of its class.
fn is_code(of: &str, code: &str) -> bool {
    match of.strip_suffix("xx") {
        Some(class) => code.len() == of.len() && code.starts_with(class),
        None => of == code,
    }
}

fn of_step(goal: &Goal, step: &StepTimes) -> Measured {
    let n = step.all.len();
    match goal.what {
        GoalKind::Errors => Ok(Quantity { value: step.errors as f64 * 100.0 / n.max(1) as f64, n }),
        GoalKind::Mean => Ok(Quantity { value: step.all.mean_ns() / 1e9, n }),
        what => Quantity::percentile(&step.answered, &what.name()),
    }
}

/// Returns true if a late generator may have changed the goal's quantity. A step's time begins when it is sent.
fn is_moved(goal: &Goal, facts: &PhaseFacts<'_>) -> bool {
    let is_step = goal.of.as_deref().is_some_and(|of| step::timed(facts, of).is_some());
    goal.what != GoalKind::Status && !is_step && facts.is_moved(&goal.what.name(), goal.of.as_deref())
}

fn judge(goal: &Goal, place: String, measured: Measured) -> GoalTrial {
    match measured {
        Ok(quantity) => {
            let holds =
                if goal.what == GoalKind::Rate { quantity.value >= goal.limit } else { quantity.value <= goal.limit };
            GoalTrial {
                place,
                got: Some(quantity.value),
                got_text: number::beside_limit(quantity.value, goal.limit, &goal.unit),
                late: None,
                n: quantity.n,
                state: if holds { GoalState::Held } else { GoalState::Missed },
            }
        }
        Err(why) => GoalTrial { place, got: None, got_text: why, late: None, n: 0, state: GoalState::NotMeasured },
    }
}
