//! A search, found again from a recording: each rung that was driven is handed to the search as it was then.

use plimsoll_record::data::{PhaseState, Run};

use crate::latency::{self, Times};
use crate::number;
use crate::phase::PhaseFacts;
use crate::stat;
use crate::view::{Chart, Line, LineView, Mark, RungView};

use super::estimate::worst_ratio;
use super::sentence;
use super::{LineSearch, LineSpec, LineState, Next, Rung, RungSummary};

/// What response times a search goes by, where pauses of the machine were watched.
const UNDISTURBED: &str = "Goals of rungs are judged on the operations that no pause of the machine disturbed; the chart \
                           and the notes have all of them, as seen.";

/// The search on `store` as far as `run` has recorded it, and what it wants next: also of a run that goes on, read
/// while it grows. Rungs come in the order they were driven.
pub fn replay(spec: &LineSpec, run: &Run, store: &str) -> (LineSearch, Next) {
    let mut search = LineSearch::new(spec.clone());
    let mut next = search.next(None);
    for (trial, phase, started_ns) in rungs(run, store) {
        let Next::Rung(_) = next else { break };
        match RungSummary::of(spec, trial, phase, &run.samples, &run.series, started_ns) {
            Some(summary) => next = search.next(Some(summary)),
            None => break,
        }
    }
    (search, next)
}

/// Trial, position of the phase and begin of its preparations of each rung that ended.
fn rungs<'r>(run: &'r Run, store: &'r str) -> impl Iterator<Item = (&'r plimsoll_record::data::Trial, usize, u64)> {
    let mut before_ns = None;
    let trials = run.trials.iter().filter(move |trial| trial.header.store_label == store);
    trials
        .flat_map(|trial| (0..trial.phases.len()).map(move |at| (trial, at)))
        .filter(|(trial, at)| {
            trial.phases.get(*at).is_some_and(|phase| {
                phase.header.rung.is_some()
                    && !matches!(phase.end.state, PhaseState::Unfinished | PhaseState::Interrupted)
            })
        })
        .map(move |(trial, at)| {
            let phase = trial.phases.get(at);
            // The first was prepared by the load; what lies between two of them is the later one's.
            let started_ns = before_ns.or_else(|| phase.map(|phase| phase.header.start_ns)).unwrap_or(0);
            before_ns = phase.map(|phase| phase.end.end_ns);
            (trial, at, started_ns)
        })
}

/// Every search of a run.
pub fn lines(run: &Run) -> Vec<LineView> {
    let Some(spec) = &run.header.outline.line else { return Vec::new() };
    crate::trial::stores(run).into_iter().filter_map(|store| line(run, spec, store)).collect()
}

fn line(run: &Run, spec: &LineSpec, store: String) -> Option<LineView> {
    let (search, next) = replay(spec, run, &store);
    if search.rungs().is_empty() {
        return None;
    }
    let result = match next {
        Next::Done(result) => *result,
        Next::Rung(_) => search.stopped(),
    };
    let driven = rungs(run, &store).map(|(trial, at, _)| {
        let waited = trial.phases.get(at).map(|phase| PhaseFacts::gather(trial, phase).waited(None));
        waited.unwrap_or_default()
    });
    let rungs: Vec<RungView> =
        search.rungs().iter().zip(driven).map(|((rung, seen), waited)| view(rung, seen, &waited)).collect();
    let mut asked_per_s: Vec<f64> = rungs.iter().filter_map(|one| one.rung.rate_per_s).collect();
    asked_per_s.sort_by(f64::total_cmp);
    asked_per_s.dedup();
    let at_each = |of: &dyn Fn(&RungView) -> Option<f64>| -> Vec<Option<f64>> {
        let median_at = |rate: &f64| {
            let fits = rungs.iter().filter(|one| one.rung.rate_per_s == Some(*rate) && one.state != "undecided");
            stat::median(&fits.filter_map(of).collect::<Vec<_>>())
        };
        asked_per_s.iter().map(median_at).collect()
    };
    let mut marks = Vec::new();
    // A line that is not decided is an interval, and none to be drawn.
    if let Some(x) = result.rate_per_s.filter(|_| result.state == LineState::Decided) {
        marks.push(Mark { x, name: "the line".to_string() });
    }
    let chart = |name: &str, unit: &str, lines: Vec<Line>| Chart {
        name: name.to_string(),
        x_name: "Asked for".to_string(),
        x_unit: "1/s".to_string(),
        unit: unit.to_string(),
        logarithmic: unit == "s",
        top: None,
        x: asked_per_s.clone(),
        points: (0..lines.len()).collect(),
        lines: lines.into_iter().filter(|line| line.values.iter().any(Option::is_some)).collect(),
        marks: marks.clone(),
    };
    let done = Line { name: "done".to_string(), values: at_each(&|one| Some(one.rate_per_s)) };
    let percentile = |at: usize| {
        let name = latency::SHOWN.get(at).copied().unwrap_or_default();
        let values = at_each(&move |one| one.percentiles_ns.get(at)?.map(|ns| ns as f64 / 1e9));
        Line { name: if name == "p999" { "p99.9" } else { name }.to_string(), values }
    };
    let is_watched = |trial: &plimsoll_record::data::Trial, at: usize| {
        trial.phases.get(at).is_some_and(|phase| phase.slices.iter().any(|slice| slice.watched.is_some()))
    };
    let mut notes = notes(&rungs);
    if self::rungs(run, &store).any(|(trial, at, _)| is_watched(trial, at)) {
        notes.push(UNDISTURBED.to_string());
    }
    notes.extend(taken(&search));
    let latency = chart("Response time", "s", (0..latency::SHOWN.len()).map(percentile).collect());
    Some(LineView { store, result, done: chart("Done", "1/s", vec![done]), latency, notes, rungs })
}

fn view(rung: &Rung, seen: &RungSummary, waited: &Times) -> RungView {
    let state = match worst_ratio(rung, seen) {
        Some(ratio) if ratio <= 1.0 => "held",
        _ if seen.void.is_some() => "undecided",
        _ if rung.rate_per_s.is_none() => "start",
        None => "not_measured",
        Some(_) => "failed",
    };
    let percentile = |name: &&str| waited.percentile(name).and_then(Result::ok);
    RungView {
        rung: rung.clone(),
        state: state.to_string(),
        reason: seen.void.clone().filter(|_| state != "held").or_else(|| seen.failed.clone()),
        note: seen
            .void
            .as_ref()
            .filter(|_| state == "held" && !seen.is_taken())
            .map(|why| late(why, seen.unsent_share)),
        cycles: seen.cycles.iter().map(|(_, n)| n).sum(),
        rate_per_s: seen.rate_per_s,
        goals: seen.goals.clone(),
        percentiles_ns: latency::SHOWN.iter().map(percentile).collect(),
        n: waited.len(),
    }
}

/// For how long others had the processors, where rungs are not judged on that time.
fn taken(search: &LineSearch) -> Option<String> {
    let sum = |of: fn(&RungSummary) -> f64| search.rungs().iter().map(|(_, seen)| of(seen)).sum::<f64>();
    let (taken_s, all_s) = (sum(|seen| seen.taken_s), sum(|seen| seen.seconds));
    (taken_s > 0.0).then(|| {
        format!(
            "In {} of {} other programs or the hypervisor had the processors, or what had queued up meanwhile was worked off: \
             goals are not judged on these.",
            number::seconds(taken_s),
            number::seconds(all_s)
        )
    })
}

/// Each sort of reason once: with the rungs that have it, and the first one's words.
fn notes(rungs: &[RungView]) -> Vec<String> {
    let of = |state: &str, what: &str, why: &dyn Fn(&RungView) -> Option<String>| {
        let those: Vec<(u32, String)> = rungs
            .iter()
            .filter(|rung| rung.state == state)
            .filter_map(|rung| Some((rung.rung.ordinal + 1, why(rung)?)))
            .collect();
        let (first, words) = those.first()?;
        let numbers: Vec<String> = those.iter().map(|(number, _)| number.to_string()).collect();
        let which = match those.len() {
            1 => format!("Rung {first}"),
            _ => format!("Rungs {} ({first} as the first)", number::list(&numbers)),
        };
        Some(format!("{which}, {what}: {words}"))
    };
    let held = of("held", "held with a late generator", &|rung| rung.note.clone());
    let undecided = of("undecided", "undecided", &|rung| rung.reason.clone());
    let failed = of("not_measured", "not measured", &|rung| rung.reason.clone());
    let within = |rung: &RungView| rung.goals.iter().all(|goal| goal.ratio().is_none_or(|ratio| ratio <= 1.0));
    let behind = of("failed", "failed although its goals held", &|rung| {
        let why =
            || "the store did not keep up: when the time was up, more was due and not sent than may be.".to_string();
        within(rung).then(why)
    });
    [undecided, held, behind, failed].into_iter().flatten().collect()
}

/// Of a rung that held although its generator was late: how late, and what of the rate was not offered.
fn late(why: &str, unsent_share: f64) -> String {
    let how = why.split("; ").next().unwrap_or(why);
    let how = how.split_once(": ").map_or(how, |(_, how)| how);
    let unsent = match unsent_share {
        share if share > 0.0 => {
            format!(" {} of what was due was not sent.", number::with_unit(share * 100.0, "%"))
        }
        _ => String::new(),
    };
    format!("{how}. The goals held all the same, and lateness makes response times longer, never shorter.{unsent}")
}

/// The sentences of all searches, each with its store: `postgres carries …`.
pub fn sentence(lines: &[LineView]) -> String {
    lines.iter().map(of_store).collect::<Vec<_>>().join(" ")
}

/// The sentence of one search with its store in it: `postgres carries …`, `No line of postgres was found: …`.
pub fn of_store(line: &LineView) -> String {
    let (store, sentence) = (&line.store, &line.result.sentence);
    for (begin, with_store) in
        [(sentence::NO_LINE, "No line of STORE was found"), (sentence::ENDED, "The search on STORE ended")]
    {
        if let Some(rest) = sentence.strip_prefix(begin) {
            return format!("{}{rest}", with_store.replace("STORE", store));
        }
    }
    format!("{store} {}", small(sentence))
}

/// A sentence that goes on after a name.
fn small(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or(String::new(), |first| format!("{}{}", first.to_lowercase(), letters.as_str()))
}

/// `1,770/s`, or that it goes as fast as it can.
pub fn asked_words(rung: &Rung) -> String {
    rung.rate_per_s.map_or("closed loop".to_string(), |rate| number::with_unit(rate, "1/s"))
}
