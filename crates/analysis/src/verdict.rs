//! The one sentence, and what it rests on.

use std::cmp::Ordering;

use indexmap::IndexMap;
use plimsoll_record::data::{
    About, DID_NOT_START, Event, EventClass, GoalKind, INTEGRITY, PhaseKind, PhaseResult, PhaseState, RESURRECTED,
    ResultName, Run, RunState, Trial,
};

use crate::ab::{AbMetric, AbRule};
use crate::broken_with::{self, broken_with};
use crate::faults::{self, Allowance};
use crate::goal;
use crate::kept::{kept, shown};
use crate::known;
use crate::line;
use crate::name;
use crate::number;
use crate::phase::{is_overload, state_words};
use crate::promise;
use crate::summary::PROMISES_MAX;
use crate::view::{
    AbView, EndState, Ending, FaultView, GoalState, GoalTrial, GoalView, LineState, LineView, OpsView, PhaseView,
    PromiseState, PromiseView, ResultView, TrialView, Verdict, VerdictState,
};

/// Per cent of a phase's operations that may fail, or be due and never sent, where no goal limits it.
const ERRORS_PERCENT: f64 = 1.0;
/// A server that answers nothing up to the end of a phase has gone, if that takes so many seconds and this share of the phase.
const GONE_S: f64 = 1.0;
const GONE_SHARE: f64 = 0.1;
/// Reason of a run whose recording has no end. A kill leaves none, and neither does a power cut.
pub(crate) const KILLED: &str = "Plimsoll was killed, by nothing that was watched";
/// Code of operations whose connection was lost before the server began them.
const CLOSED: &str = "closed";
/// Code of operations that an open circuit breaker rejected.
const BREAKER: &str = "breaker";

/// Judges the run.
pub fn verdict(
    run: &Run,
    goals: &[GoalView],
    trials: &[TrialView],
    lines: &[LineView],
    ab: Option<&AbView>,
    promises: &[PromiseView],
    faults: &[FaultView],
) -> Verdict {
    // What a plan sets out to show is no failure.
    let breaks =
        |trial: &&TrialView| run.trials.iter().any(|one| one.header.ordinal == trial.ordinal && one.header.breaks);
    let (breaking, others): (Vec<&TrialView>, Vec<&TrialView>) = trials.iter().partition(breaks);
    let mut broken = violations(run, (&others, faults), promises, false);
    broken.extend(not_done(run, &others, faults));
    broken.extend(missed(goals));
    let unseen = unseen(run, goals, lines, promises);
    // Of many promises the results above the sentence have it.
    let only = || match promises.len() > PROMISES_MAX {
        true => String::new(),
        false => broken_with::sentence(&broken_with(run, trials)),
    };
    // Of many promises the report has each at a glance.
    let is_listed =
        |sentence: &&String| promises.len() <= PROMISES_MAX || !promises.iter().any(|one| said(one) == **sentence);
    let reasons = |broken: &[String]| broken.iter().filter(is_listed).cloned().collect::<Vec<String>>();
    // The first begins the sentence; the clauses count the reasons.
    let beside = |broken: &[String], unseen: &[String]| {
        let more = broken.get(1..).unwrap_or_default();
        let clauses = [more_broken(more.len(), reasons(more).len()), incomplete(&run.state, unseen.len())];
        let clauses: Vec<String> = clauses.into_iter().flatten().collect();
        let clauses = if clauses.is_empty() { String::new() } else { format!("; {}", clauses.join(", and ")) };
        format!("{clauses}.{}", if more.is_empty() { String::new() } else { only() })
    };
    if let Some(first) = broken.first() {
        let sentence = format!("{first}{}", beside(&broken, &unseen));
        let reasons = sentences(&reasons(&broken), &unseen, lines);
        return Verdict { state: VerdictState::Fail, sentence, reasons };
    }
    if let Some(first) = unseen.first() {
        // A search sets out to see goals break: what it came to says more.
        let no_line = |line: &&LineView| line.result.state == LineState::NoLine && run.state != RunState::Running;
        let sentence = match lines.iter().find(no_line) {
            Some(line) => line::of_store(line),
            // What ended the run comes before what was not seen.
            None if matches!(run.state, RunState::Failed(_)) => {
                format!("{}; no promise was seen to break before that.", number::capital(first))
            }
            None if run.state == RunState::Running => {
                format!("{}; so far no promise was seen to break.", number::capital(first))
            }
            None => {
                let is_cut_short = matches!(run.state, RunState::Unfinished | RunState::Interrupted);
                let partial = match is_cut_short && !run.trials.is_empty() {
                    true => " Its figures are of the part before that.",
                    false => "",
                };
                format!("No promise was seen to break, but {first}.{partial}")
            }
        };
        return Verdict { state: VerdictState::Incomplete, sentence, reasons: sentences(&[], &unseen, lines) };
    }
    if lines.iter().any(|line| matches!(line.result.state, LineState::Undecided(_))) {
        let sentence = line::of_all(lines);
        return Verdict { state: VerdictState::Undecided, sentence, reasons: sentences(&unequal(lines), &[], &[]) };
    }
    let mut undecided = undecided(goals, trials, lines.is_empty() && ab.is_none());
    undecided.extend(run.trials.iter().flat_map(not_done_as_planned));
    undecided.extend(faults.iter().filter_map(|one| gone_wrong(run, one)));
    undecided.extend(
        promises
            .iter()
            .filter(|one| {
                matches!(one.state, PromiseState::PagesNotTried | PromiseState::NothingAtRisk)
                    || (one.state == PromiseState::NotKnown && !one.expected)
            })
            .map(said),
    );
    // What became of a promise its own sentence says.
    let open = run.trials.iter().filter(|trial| !trial.header.breaks);
    let open = open.filter(|_| promises.iter().all(|one| one.state != PromiseState::NotKnown));
    undecided
        .extend(open.filter_map(|trial| Some(format!("{}: {}", name::trial(&trial.header), known::not_known(trial)?))));
    if let Some(first) = undecided.first() {
        let sentence = match undecided.len() - 1 {
            0 => format!("{first}."),
            more => format!("{first}; {} undecided.", number::plural(more as u64, "more is", "more are")),
        };
        return Verdict { state: VerdictState::Undecided, sentence, reasons: sentences(&undecided, &[], lines) };
    }
    if let Some(ab) = ab {
        return Verdict { state: ab.state(), sentence: ab.sentence.clone(), reasons: Vec::new() };
    }
    if !lines.is_empty() {
        return Verdict { state: VerdictState::Pass, sentence: line::of_all(lines), reasons: Vec::new() };
    }
    if breaking.is_empty() {
        let (state, sentence) = kept(goals, &others, faults);
        return Verdict { state, sentence, reasons: Vec::new() };
    }
    let mut broken = violations(run, (&breaking, faults), promises, true);
    broken.extend(not_done(run, &breaking, faults));
    let first = broken.first().map(|first| format!("{first}{}", beside(&broken, &[])));
    let (state, sentence) = shown(run, goals, &others, faults, first.as_deref());
    Verdict { state, sentence, reasons: sentences(&reasons(&broken), &[], lines) }
}

/// Returns the clause about promises that broke besides the first, of which `listed` are among the reasons and the others
/// in the table of promises; `None` without any.
fn more_broken(more: usize, listed: usize) -> Option<String> {
    let place = match listed {
        _ if more == 0 => return None,
        _ if listed == more => String::new(),
        0 => " (see Promises)".to_owned(),
        _ => format!(" ({} below, the others in Promises)", number::count(listed as u64)),
    };
    Some(format!("{} broken{place}", number::plural(more as u64, "more promise was", "more promises were")))
}

/// Returns the clause that not everything was seen, for so many reasons; `None` without any.
fn incomplete(state: &RunState, reasons: usize) -> Option<String> {
    match reasons {
        0 => None,
        1 if *state == RunState::Running => Some("the run is still running".to_owned()),
        n => Some(format!("the run is incomplete for {}", number::plural(n as u64, "reason", "reasons"))),
    }
}

/// Returns a promise's sentence, to be continued.
fn said(promise: &PromiseView) -> String {
    promise.sentence.trim_end_matches('.').to_owned()
}

/// Returns what each undecided search says of a machine that was not equally fast, with its store if there are several.
fn unequal(lines: &[LineView]) -> Vec<String> {
    let undecided = lines.iter().filter(|line| matches!(line.result.state, LineState::Undecided(_)));
    let said = undecided.filter_map(|line| Some((&line.store, line.result.unequal_words.as_ref()?)));
    let words = said.map(|(store, words)| match lines {
        [_] => number::capital(words),
        _ => format!("{store}: {words}"),
    });
    words.collect()
}

/// Formats the texts as sentences. Sentences about a broken promise or a load line begin with the name of a store,
/// which keeps its small letter.
fn sentences(broken: &[String], unseen: &[String], lines: &[LineView]) -> Vec<String> {
    let capital = |sentence: &String| {
        if lines.iter().any(|line| sentence.starts_with(&line.store)) {
            return format!("{sentence}.");
        }
        format!("{}.", number::capital(sentence))
    };
    broken.iter().map(|sentence| format!("{sentence}.")).chain(unseen.iter().map(capital)).collect()
}

/// Promises that were seen to break in `trials`, losses first, then wrong answers. `expected` are those of trials that
/// set out to break them. Wrong answers are told with the faults of their trial.
fn violations(
    run: &Run,
    (trials, faults): (&[&TrialView], &[FaultView]),
    promises: &[PromiseView],
    expected: bool,
) -> Vec<String> {
    // Cuts of the same settings together say more than each.
    let is_broken = |one: &&PromiseView| one.state >= PromiseState::Lost && one.expected == expected;
    let mut worst: Vec<&PromiseView> = promises.iter().filter(is_broken).collect();
    worst.sort_by_key(|one| std::cmp::Reverse(one.state));
    let mut broken: Vec<String> = worst.into_iter().map(said).collect();
    for trial in trials.iter().filter(|trial| !promise::judges(run, trial.ordinal)) {
        let worst = trial.most_lost();
        if let Some((ledger, lost)) = worst.and_then(|ledger| Some((ledger, ledger.lost.filter(|lost| *lost > 0)?))) {
            broken.push(format!(
                "{} lost {} of {} acknowledged writes",
                trial.name,
                number::count(lost),
                number::count(ledger.acknowledged)
            ));
        }
    }
    for trial in trials {
        let counts = trial.answers_total.unwrap_or_default();
        let wrong = if expected { counts.wrong } else { goal::wrong_in(run, &counts) };
        let missing = counts.missing;
        if missing + wrong > 0 {
            let what: Vec<String> = [(missing, "missing"), (wrong, "wrong")]
                .iter()
                .filter(|(n, _)| *n > 0)
                .map(|(n, word)| number::plural(*n, &format!("{word} record"), &format!("{word} records")))
                .collect();
            let own: Vec<&FaultView> = faults.iter().filter(|one| one.place.0 == trial.ordinal).collect();
            let through = match own.is_empty() {
                true => String::new(),
                false => format!(", through {}", faults::together(&own).0),
            };
            broken.push(format!("{} gave answers with {}{through}", trial.name, number::list(&what)));
        }
        if let Some(ledger) = trial.most_wrong()
            && ledger.wrong_total > 0
            && !promise::judges(run, trial.ordinal)
        {
            let seen = ledger.wrong.iter().filter(|(_, n)| **n > 0);
            let seen: Vec<String> = seen.map(|(name, n)| disagreement(name, *n)).collect();
            broken.push(format!("{} {}", trial.name, number::list(&seen)));
        }
    }
    broken
}

/// Returns the goals that were missed, with their values.
pub fn missed(goals: &[GoalView]) -> Vec<String> {
    let mut broken = Vec::new();
    for goal in goals.iter().filter(|goal| !matches!(goal.what, GoalKind::Lost | GoalKind::Wrong)) {
        for place in goal.trials.iter().filter(|place| place.state == GoalState::Missed) {
            broken.push(format!("{} was {} in {}, wanted {}", goal.text, place.got_text, place.place, goal.wanted));
        }
    }
    broken
}

/// Returns the driven phases in which nothing was done, or in which more operations failed or were never sent than
/// passes without a goal. Operations that a late generator did not send are not failures, nor are those that failed
/// while a fault of the plan was in effect. Quantities that a goal limits, or a search, are judged there.
fn not_done(run: &Run, trials: &[&TrialView], faults: &[FaultView]) -> Vec<String> {
    let is_rule = |rule: &AbRule| rule.metric == AbMetric::Errors;
    let is_asked = run.header.outline.ab.as_ref().is_some_and(|spec| spec.fail_if.iter().any(is_rule));
    let has_goal = is_asked || run.header.goals.iter().any(|goal| goal.what == GoalKind::Errors);
    let mut all = Vec::new();
    for trial in trials {
        let driven =
            trial.phases.iter().filter(|phase| phase.kind == PhaseKind::Drive && phase.state != EndState::Void);
        for phase in driven.filter(|phase| phase.rung.is_none()) {
            let place = format!("phase {} of {}", phase.name, trial.name);
            // Without power no server answers, which is expected. A store that refuses has power.
            let has_cut = trial.phases.iter().any(|one| one.kind == PhaseKind::Power);
            // Reactions of a store to a fault that the plan set are answers.
            let Allowance { is_whole, is_to_end, failed: by_faults } =
                faults::allowance(run, faults, trial.ordinal, phase);
            let is_excused = has_cut || is_whole || is_to_end;
            let Some(ops) = phase.ops.as_ref().filter(|ops| ops.count > 0) else {
                if phase.state == EndState::Complete && !is_excused {
                    all.push(format!("No operation of {place} finished"));
                }
                continue;
            };
            let unknown = if has_cut { 0 } else { ops.unknown };
            let unsent = if has_cut { unsent(run, trial.ordinal, phase) } else { 0 };
            let failed = (ops.rejected + unknown).saturating_sub(stopped(phase) + unsent + by_faults);
            let percent = failed as f64 * 100.0 / ops.count as f64;
            if percent > ERRORS_PERCENT && !has_goal && !is_whole {
                let first = first_error(run, trial.ordinal, phase).map_or(String::new(), |text| format!(": {text}"));
                let beside = if by_faults > 0 { " while no fault was in effect" } else { "" };
                all.push(format!(
                    "{} of {} operations failed in {place}{beside}, {} %{first}",
                    number::count(failed),
                    number::count(ops.count),
                    number::significant(percent)
                ));
            }
            if is_excused {
                continue;
            }
            if let Some((silent_s, failed)) = gone_for(run, trial.ordinal, phase) {
                let attempts = number::plural(failed, "attempt", "attempts");
                all.push(format!(
                    "Nothing was answered in the last {} s of {place}, and connections could not be opened again \
                     ({attempts} failed)",
                    number::significant(silent_s)
                ));
            }
            let due = ops.count + ops.unfinished;
            let percent = ops.unfinished as f64 * 100.0 / due as f64;
            if phase.late.is_none() && phase.is_overloaded {
                let (asked, done) = overload(phase, ops);
                all.push(format!("{} does not carry {asked}: {done}", trial.name));
            } else if percent > ERRORS_PERCENT && !has_goal && phase.late.is_none() && phase.state == EndState::Complete
            {
                all.push(format!(
                    "{} of {} operations were due and never sent in {place}, {} %: the store did not keep up with {} clients",
                    number::count(ops.unfinished),
                    number::count(due),
                    number::significant(percent),
                    phase.clients
                ));
            }
        }
    }
    all
}

/// Returns the time before its end in which nothing was answered in a phase, in seconds, and the attempts to connect that
/// failed, if any did: the server is gone, and has not come back. A short time does not count: the server may be
/// starting again.
fn gone_for(run: &Run, trial: u32, phase: &PhaseView) -> Option<(f64, u64)> {
    let is_failed = |result: &&ResultView| result.what == ResultName::FailedConnects && result.value > 0.0;
    let failed = phase.results.iter().find(is_failed)?;
    let trial = run.trials.iter().find(|one| one.header.ordinal == trial)?;
    let phase = trial.phases.iter().find(|one| one.header.ordinal == phase.ordinal)?;
    let mut slices = phase.slices.iter().filter(|slice| !slice.drain);
    let (first, last) = (slices.clone().next()?, slices.clone().next_back()?);
    let answered = slices.rfind(|slice| !slice.histograms.is_empty()).map_or(first.start_ns, |slice| slice.end_ns);
    let seconds = |ns: u64| ns as f64 / 1e9;
    let (silent_s, all_s) = (seconds(last.end_ns.saturating_sub(answered)), seconds(last.end_ns - first.start_ns));
    (silent_s >= GONE_S && silent_s >= GONE_SHARE * all_s).then_some((silent_s, failed.value as u64))
}

/// Describes the load of an overloaded phase, and its result: `20,000/s in phase drive`, `throughput was 4,000/s, …`.
fn overload(phase: &PhaseView, ops: &OpsView) -> (String, String) {
    let rate = phase.scheduled_rate_per_s.map_or("the rate".to_string(), |rate| number::with_unit(rate, "1/s"));
    let due = ops.count + ops.unfinished;
    let done = format!(
        "throughput was {}, and {} of {} operations ({} %) were due and not sent when the first of them had waited for \
         longer than the backlog",
        number::with_unit(ops.rate_per_s, "1/s"),
        number::count(ops.unfinished),
        number::count(due),
        number::significant(ops.unfinished as f64 * 100.0 / due.max(1) as f64)
    );
    (format!("{rate} in phase {}", phase.name), done)
}

/// Returns the number of operations in flight when the user wanted an end: they are no failures.
fn stopped(phase: &PhaseView) -> u64 {
    phase.results.iter().filter(|result| result.what == ResultName::Stopped).map(|result| result.value as u64).sum()
}

/// The numbers of errors of `phase` by their codes.
fn errors<'r>(run: &'r Run, trial: u32, phase: &PhaseView) -> impl Iterator<Item = &'r PhaseResult> {
    let ordinal = phase.ordinal;
    let phases = run.trials.iter().find(|one| one.header.ordinal == trial).into_iter().flat_map(|one| &one.phases);
    let results = phases.filter(move |one| one.header.ordinal == ordinal).flat_map(|one| &one.end.results);
    results.filter(|result| result.name == ResultName::ErrorCode)
}

/// Returns the number of operations of `phase` that had no connection. It was lost before the server began them, or their
/// circuit was open. Failed attempts to connect are not operations, and do not count.
fn unsent(run: &Run, trial: u32, phase: &PhaseView) -> u64 {
    let unsent = errors(run, trial, phase).filter(|error| [CLOSED, BREAKER].contains(&error.subject.as_str()));
    unsent.map(|error| error.value as u64).sum()
}

/// The error that was seen most in `phase`, as its event has it.
fn first_error<'r>(run: &'r Run, trial: u32, phase: &PhaseView) -> Option<&'r str> {
    // Breakers open because of other errors, which say more.
    let rank = |error: &PhaseResult| (error.subject != BREAKER, error.value);
    let most = errors(run, trial, phase).max_by(|a, b| rank(a).partial_cmp(&rank(b)).unwrap_or(Ordering::Equal));
    let end_s = phase.start_s + phase.seconds.unwrap_or(f64::INFINITY);
    let within = |at_ns: u64| (phase.start_s..=end_s).contains(&(at_ns as f64 / 1e9));
    let is_most = |event: &Event| most.is_none_or(|most| event.subject == most.subject);
    let of_phase = |event: &&Event| {
        event.class == EventClass::ErrorCode && event.trial == Some(trial) && within(event.from_ns) && is_most(event)
    };
    run.events.iter().find(of_phase).map(|event| event.text.trim_end_matches('.'))
}

/// Phases that did far too little, goals that were missed, and rates that were not carried, where it cannot be told whether
/// that was the store. Phases and rates do not count in a search and in a comparison, which say themselves what such a rung
/// or turn is worth.
fn undecided(goals: &[GoalView], trials: &[TrialView], counts_rates: bool) -> Vec<String> {
    let trials = if counts_rates { trials } else { &[] };
    let phases = trials.iter().flat_map(|trial| trial.phases.iter().map(move |phase| (trial, phase)));
    // A drive that a power cut ends does what it can.
    let has_cut = |trial: &TrialView| trial.phases.iter().any(|one| one.kind == PhaseKind::Power);
    let too_few = phases.clone().filter(|(trial, _)| !has_cut(trial)).filter_map(|(trial, phase)| {
        let what = phase.shortfall.as_deref()?;
        Some(format!("Phase {} of {} did not do what its load requires: {what}", phase.name, trial.name))
    });
    let not_carried = phases.filter(|(_, phase)| phase.is_overloaded).filter_map(|(trial, phase)| {
        let (late, (asked, done)) = (phase.late.as_deref()?, overload(phase, phase.ops.as_ref()?));
        Some(format!("Whether {} carries {asked} is undecided: {done}, but {late}", trial.name))
    });
    let places = goals.iter().flat_map(|goal| goal.trials.iter().map(move |place| (goal, place)));
    // Of a goal on what could not be read the ledger's own sentence says it.
    let is_moved =
        |place: &GoalTrial| place.state == GoalState::Undecided && (place.got.is_some() || place.late.is_some());
    let missed = places.filter(|(_, place)| is_moved(place)).map(|(goal, place)| {
        let (text, wanted) = (&goal.text, &goal.wanted);
        let got = place.got.map_or_else(String::new, |_| format!("it was {}, but ", place.got_text));
        let late = place.late.as_deref().unwrap_or("the generator was late");
        format!("Whether {text} is {wanted} in {} is undecided: {got}{late}", place.place)
    });
    too_few.chain(missed).chain(not_carried).collect()
}

/// Lists actions and power cuts of the plan that did not take place: what they were to show is not known.
fn not_done_as_planned(trial: &Trial) -> impl Iterator<Item = String> + '_ {
    trial.phases.iter().flat_map(move |phase| {
        let missed = phase.end.remarks.iter().filter(|(about, _)| *about == About::NotDone);
        let place = format!("In phase {} of {}", phase.header.name, name::trial(&trial.header));
        missed.map(move |(_, text)| format!("{place}: {text}"))
    })
}

/// Reports a fault that did not take effect, or was not healed, in a complete phase that does not say so itself.
fn gone_wrong(run: &Run, fault: &FaultView) -> Option<String> {
    let error = fault.error.as_ref()?;
    let trial = run.trials.iter().find(|trial| trial.header.ordinal == fault.place.0)?;
    let phase = trial.phases.iter().find(|phase| phase.header.ordinal == fault.place.1)?;
    let is_told = phase.end.remarks.iter().any(|(about, _)| *about == About::NotDone);
    let is_silent = phase.end.state == PhaseState::Complete && !is_told;
    is_silent.then(|| format!("In phase {} of {}: `{}` failed: {error}", fault.phase, fault.trial, fault.fault))
}

/// Lists missing observations: the run's own end, trials that failed, goals without a measurement.
fn unseen(run: &Run, goals: &[GoalView], lines: &[LineView], promises: &[PromiseView]) -> Vec<String> {
    let in_turn = run.header.outline.ab.is_some();
    let is_planned = lines.is_empty() && !in_turn;
    let mut unseen = Vec::new();
    let not_needed = promises.iter().map(|one| one.cuts_not_needed as usize).sum();
    let outline = &run.header.outline;
    let planned = (outline.trials as usize).saturating_sub(not_needed).max(run.trials.len());
    // Results may decide that no more repeats are needed.
    let (at_most, planned) = match outline.until {
        Some(_) if run.state == RunState::Complete => ("", run.trials.len()),
        Some(_) => ("at most ", planned),
        None => ("", planned),
    };
    let how = match &run.state {
        RunState::Complete => None,
        RunState::Unfinished => Some(KILLED.to_string()),
        RunState::Running => Some(String::new()),
        RunState::Interrupted => Some("interrupted".to_string()),
        RunState::Failed(why) => Some(why.clone()),
    };
    if let Some(how) = how {
        let place = match run.trials.last() {
            // Of several at once none is the last.
            Some(_) if !run.header.outline.cells.is_empty() => {
                let made = promises.iter().map(|one| one.cuts).sum();
                format!("after {} of {} power cuts", number::count(made), number::count(planned as u64))
            }
            None => "before the first trial".to_string(),
            Some(trial) => {
                // How many rungs a search takes, or pairs a comparison, is not planned.
                let of = if is_planned { format!(" of {at_most}{planned}") } else { String::new() };
                let position = format!("trial {}{of} ({})", run.trials.len(), name::trial(&trial.header));
                match trial.phases.last() {
                    Some(phase) if trial.end_ns.is_none() || phase.end.state == PhaseState::Interrupted => {
                        format!("in phase {} of {position}", phase.header.name)
                    }
                    _ => format!("after {position}"),
                }
            }
        };
        unseen.push(match run.state {
            RunState::Running => format!("the run is still running, {place}"),
            _ => format!("the run ended {place}: {how}"),
        });
    }
    // That a store failed was said with the run's end.
    let ended = unseen.is_empty();
    let said =
        |line: &LineView| run.state == RunState::Running || !ended && matches!(line.result.ending, Ending::Failed(_));
    let lost = lines.iter().filter(|line| line.result.state == LineState::NoLine && !said(line));
    unseen.extend(lost.map(|line| line::of_store(line).trim_end_matches('.').to_string()));
    // Phases that failed or were void by name and error: the first one's words, and the trials.
    let mut apart: IndexMap<(&str, Option<&str>), (String, Vec<String>)> = IndexMap::new();
    for trial in &run.trials {
        for phase in &trial.phases {
            // A void rung ends the search, which says so.
            let of_search = !lines.is_empty() && phase.header.rung.is_some();
            // A pair of which a turn is void does not count, which the comparison says.
            let of_pair = in_turn && matches!(phase.end.state, PhaseState::Void(_));
            // Overload is the verdict itself: see `not_done` and `undecided`.
            if of_search || of_pair || is_overload(&phase.end) {
                continue;
            }
            match &phase.end.state {
                // Said with the run's end.
                PhaseState::Failed(why) if run.state == RunState::Failed(why.clone()) => {}
                state @ (PhaseState::Failed(_) | PhaseState::Void(_)) => {
                    // All void phases have a late generator, of which each was late by a time of its own.
                    let error = if let PhaseState::Failed(why) = state { Some(why.as_str()) } else { None };
                    let known = apart.entry((phase.header.name.as_str(), error));
                    known.or_insert_with(|| (state_words(state), Vec::new())).1.push(name::trial(&trial.header));
                }
                // No goal is about questions: one without an answer would only be a figure that is missing.
                PhaseState::Complete if phase.header.kind == PhaseKind::Ask => {
                    let asked = &phase.end.asked;
                    let without = asked.iter().filter(|asked| asked.outcome.is_error()).count();
                    if without > 0 {
                        unseen.push(format!(
                            "{without} of {} asked in phase {} of {} had no answer",
                            number::plural(asked.len() as u64, "question", "questions"),
                            phase.header.name,
                            name::trial(&trial.header)
                        ));
                    }
                }
                // Said with the run's end.
                PhaseState::Complete | PhaseState::Unfinished | PhaseState::Interrupted => {}
            }
        }
    }
    unseen.extend(apart.iter().map(|((phase, _), (words, trials))| together(phase, words, trials, run.trials.len())));
    if unseen.is_empty() && run.trials.len() < planned && is_planned {
        unseen.push(format!("{} of {planned} trials were run", run.trials.len()));
    }
    if unseen.is_empty() {
        for goal in goals.iter().filter(|goal| goal.state == GoalState::NotMeasured) {
            let why = goal.trials.iter().find(|place| place.state == GoalState::NotMeasured);
            unseen.push(match why {
                Some(place) => format!("{} could not be measured in {}: {}", goal.text, place.place, place.got_text),
                None => format!("no trial measures {}", goal.text),
            });
        }
    }
    unseen
}

/// Trials that are named where several share a reason.
const NAMED_MAX: usize = 3;

/// Reports that `phase` failed or was void in these of `all` trials, with the words of the first.
fn together(phase: &str, words: &str, trials: &[String], all: usize) -> String {
    match trials {
        [one] => format!("phase {phase} of {one} {words}"),
        _ => format!(
            "phase {phase} of {n} of {all} trials {words} (reason of the first; trials: {}{})",
            trials.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join("; "),
            if trials.len() > NAMED_MAX { "; …" } else { "" },
            n = trials.len()
        ),
    }
}

/// Describes `n` disagreements by the ledger's name for them, as they follow the name of a trial in a sentence.
fn disagreement(name: &str, n: u64) -> String {
    let records = |words: &str| format!("had {} {words}", number::plural(n, "record", "records"));
    match name {
        "duplicated" => records("more than once"),
        RESURRECTED => records("that had been deleted or overwritten"),
        "differs" => records("of which a node lacks what clients read"),
        "alien" => records("that no operation wrote"),
        "wrong_content" => records("with wrong content"),
        "refused" => records("with a refused write"),
        "index_disagrees" => records("on which the index disagrees"),
        DID_NOT_START => "did not start again".to_string(),
        INTEGRITY => "failed the store's own integrity check".to_string(),
        other => records(&format!("with {}", other.replace('_', " "))),
    }
}
