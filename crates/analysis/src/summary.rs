//! Results of a run, in the units of the job: a line for each driven phase, or for a combination of many.
//!
//! What is driven is what a run is about: a load before it is told only where nothing is driven, and so are questions that are asked
//! one by one. Repeats are one line with their medians; a sweep of many points is, of those that may be
//! compared, the point with the highest throughput; a search is its load line; a comparison in turn is its two sides.

mod points;

use std::collections::BTreeSet;

use plimsoll_core::{Call, OpKind};
use plimsoll_record::data::{GoalKind, PhaseKind, ResultName, Run, Trial};

use crate::ab::SIDES;
use crate::broken_with::named;
use crate::goal;
use crate::latency::SHOWN;
use crate::name;
use crate::number;
use crate::outage;
use crate::outcomes;
use crate::phase::PhaseFacts;
use crate::promise::NOT_KNOWN;
use crate::stat;
use crate::summary::points::DrivenPoint;
use crate::view::{
    AbView, DiskFaultView, GoalSeen, GoalState, LineView, OutageView, PercentileView, PromiseState, PromiseView,
    RungState, RungView, SummaryPart, SummaryView,
};

/// Most lines with a driven phase each; of more there is one for like points, conditions or stores.
const LINES_MAX: usize = 6;

/// Most promises that have a line each; of more, a matrix has each at a glance.
pub const PROMISES_MAX: usize = 4;

/// The percentiles that a summary has.
const PERCENTILES: [&str; 3] = ["p50", "p95", "p99"];

/// Names of violations that are found for a trial as a whole.
const OF_TRIAL: [&str; 3] = ["wrong", "wrong or missing", "lost"];

/// Name of the longest time without any answer.
const NO_ANSWER: &str = "no answer";

/// Summarises `run`.
pub fn summary(
    run: &Run,
    facts: &[Vec<PhaseFacts<'_>>],
    lines: &[LineView],
    ab: Option<&AbView>,
    promises: &[PromiseView],
    disk_faults: &[DiskFaultView],
    broken_with: &[String],
) -> Vec<SummaryView> {
    if !promises.is_empty() {
        return of_promises(promises, broken_with);
    }
    // Several disk faults: a line for each.
    if disk_faults.len() > 1 && disk_faults.len() == facts.len() {
        return disk_faults.iter().map(of_disk_fault).take(2 * LINES_MAX).collect();
    }
    if let Some(ab) = ab {
        return SIDES.iter().enumerate().map(|(side, name)| of_side(run, ab, side, name)).collect();
    }
    if !lines.is_empty() {
        return lines.iter().filter_map(|line| of_line(run, line, lines.len() > 1)).collect();
    }
    let points = points::points(facts);
    match points.len() {
        // Too many loads for a line each: figures report them.
        0 if facts.len() > LINES_MAX => Vec::new(),
        0 => facts.iter().filter_map(|trial| undriven(run, trial, facts.len() > 1)).collect(),
        1..=LINES_MAX => points.iter().map(|point| of_point(run, point, &points)).collect(),
        _ => points::lines(&points, LINES_MAX).iter().filter_map(|of| best(run, of, &points)).collect(),
    }
}

/// Summarises promises, the worst of them first; of many the number with each result.
fn of_promises(promises: &[PromiseView], broken_with: &[String]) -> Vec<SummaryView> {
    if promises.len() > PROMISES_MAX {
        return vec![promises_together(promises, broken_with)];
    }
    let mut all: Vec<&PromiseView> = promises.iter().filter(|one| one.state != PromiseState::NotTried).collect();
    all.sort_by_key(|one| std::cmp::Reverse(one.state));
    let of = |one: &PromiseView| {
        let is_broken = one.state >= PromiseState::Lost && !one.expected;
        let of = format!("of {} writes lost", number::count(one.acknowledged));
        let state = one.state.name().to_owned();
        let mut parts = vec![SummaryPart {
            name: "promise".to_owned(),
            value: state.clone(),
            bad: is_broken,
            text: state,
            ..SummaryPart::default()
        }];
        if one.state != PromiseState::NothingAtRisk {
            let losses = losses(&of, one.lost);
            parts.push(SummaryPart { bad: losses.bad && !one.expected, ..losses });
        }
        let cuts = if one.cuts == 1 { "power cut" } else { "power cuts" };
        parts.push(counted(cuts, number::count(one.cuts), false));
        let text = joined(&parts);
        SummaryView { place: one.name.clone(), lost: one.lost, parts, text, ..SummaryView::default() }
    };
    all.into_iter().map(of).collect()
}

/// A number with what it counts behind it.
fn counted(name: &str, value: String, bad: bool) -> SummaryPart {
    SummaryPart { text: format!("{value} {name}"), name: name.to_owned(), value, bad, ..SummaryPart::default() }
}

/// The number of losses with what it counts behind it, if it is known.
fn losses(name: &str, lost: Option<u64>) -> SummaryPart {
    match lost {
        Some(lost) => counted(name, number::count(lost), lost > 0),
        None => SummaryPart { text: "losses not known".to_owned(), ..counted(name, NOT_KNOWN.to_owned(), true) },
    }
}

/// Returns the number of promises with each result, the worst first, and the settings of broken ones.
fn promises_together(promises: &[PromiseView], broken_with: &[String]) -> SummaryView {
    let mut states: Vec<PromiseState> = promises.iter().map(|one| one.state).collect();
    states.sort_by_key(|state| std::cmp::Reverse(*state));
    let mut parts: Vec<SummaryPart> = states
        .chunk_by(PartialEq::eq)
        .filter_map(|same| {
            let state = *same.first()?;
            let is_bad = |one: &PromiseView| one.state == state && !one.expected;
            let bad = state >= PromiseState::Lost && promises.iter().any(is_bad);
            Some(counted(state.name(), number::count(same.len() as u64), bad))
        })
        .collect();
    parts.push(counted("power cuts", number::count(promises.iter().map(|one| one.cuts).sum()), false));
    parts.extend((!broken_with.is_empty()).then(|| {
        let (name, value) = ("broken only with".to_owned(), named(broken_with));
        SummaryPart { text: format!("{name} {value}"), name, value, ..SummaryPart::default() }
    }));
    let text = joined(&parts);
    let lost: u64 = promises.iter().filter_map(|one| one.lost).sum();
    let lost = (lost > 0 || promises.iter().all(|one| one.lost.is_some())).then_some(lost);
    SummaryView { lost, parts, text, ..SummaryView::default() }
}

/// Summarises a disk fault: the layers that noticed it, and the consequences.
fn of_disk_fault(one: &DiskFaultView) -> SummaryView {
    let has_harm = one.harm().is_some_and(|harm| harm > 0);
    let noticed = one.noticed_by();
    let parts = vec![
        SummaryPart {
            name: "noticed by".to_owned(),
            value: noticed.clone(),
            bad: one.noticed.is_empty() && has_harm,
            text: noticed,
            ..SummaryPart::default()
        },
        counted("wrong answers", number::count(one.wrong_answers), one.wrong_answers > 0),
        losses("lost", one.lost),
        counted("errors", number::count(one.errors), false),
    ];
    let text = joined(&parts);
    SummaryView { place: one.name.clone(), lost: one.lost, parts, text, ..SummaryView::default() }
}

/// Returns the unit of the trial's operations when they are counted by the second.
fn unit(kinds: &[OpKind]) -> &'static str {
    let any = |of: fn(&Call) -> bool| kinds.iter().any(|kind| of(&kind.call));
    if any(|call| matches!(call, Call::Sql(_) | Call::SqlRow(_) | Call::SqlText)) {
        "tps"
    } else if any(|call| matches!(call, Call::Http(_))) {
        "requests/s"
    } else {
        "ops/s"
    }
}

fn of_point(run: &Run, point: &DrivenPoint<'_, '_>, all: &[DrivenPoint<'_, '_>]) -> SummaryView {
    let mut place: Vec<String> = Vec::new();
    place.extend(all.iter().any(|other| other.name() != point.name()).then(|| point.name()));
    place.extend(all.iter().any(|other| other.phase() != point.phase()).then(|| point.phase().to_string()));
    let n = point.repeats.len();
    place.extend((n > 1).then(|| format!("median of {n}")));
    let measured = measured(run, point, &point.repeats, place.join(", "));
    let mut summary = told(run, measured, lacked(trials_of(&point.repeats)));
    if share_trials(&[point], all) {
        of_all_phases(&mut summary, &OF_TRIAL);
    }
    with_goals(summary, run, point, all.len() == 1)
}

/// Returns true if `all` has further phases of the trials of these points.
fn share_trials(of: &[&DrivenPoint<'_, '_>], all: &[DrivenPoint<'_, '_>]) -> bool {
    let trial = |point: &DrivenPoint<'_, '_>| point.trial().map(|trial| trial.header.ordinal);
    let trials: BTreeSet<Option<u32>> = of.iter().map(|point| trial(point)).collect();
    all.iter().filter(|point| trials.contains(&trial(point))).count() > of.len()
}

/// Says of these violations that they are those of all phases, and not of the phase of the line.
fn of_all_phases(summary: &mut SummaryView, names: &[&str]) {
    for part in summary.parts.iter_mut().filter(|part| part.bad && names.contains(&part.name.as_str())) {
        part.name += " in all phases";
        part.text += " in all phases";
    }
}

/// Returns the summary with the goals of figures that `point` missed, and if it is the only point, with the others.
fn with_goals(mut summary: SummaryView, run: &Run, point: &DrivenPoint<'_, '_>, is_only: bool) -> SummaryView {
    let goals = goal::of_phases(run, &point.repeats);
    let words = |is_wanted: fn(GoalState) -> bool| -> Vec<String> {
        let wanted = goals.iter().filter(|(.., state)| is_wanted(*state));
        wanted.map(|(_, words, _)| words.clone()).collect()
    };
    let missed = words(|state| state == GoalState::Missed);
    // An outage that a goal allows violates nothing. The longest one may be that of another point.
    let is_allowed = summary.outage.as_ref().is_some_and(|one| one.place.is_empty())
        && goals.iter().any(|(what, _, state)| (*what, *state) == (GoalKind::Outage, GoalState::Held));
    for part in summary.parts.iter_mut().filter(|part| is_allowed && part.name == NO_ANSWER) {
        part.bad = false;
    }
    if !missed.is_empty() {
        summary.parts.push(SummaryPart { bad: true, ..part("missed goal", number::list(&missed)) });
    }
    // Beside missed goals a goal without a word looks like another one.
    let others = match missed.is_empty() {
        true => vec![("goal", words(|_| true))],
        false => vec![
            ("held goal", words(|state| state == GoalState::Held)),
            ("undecided goal", words(|state| !matches!(state, GoalState::Missed | GoalState::Held))),
        ],
    };
    let others = others.into_iter().filter(|(_, goals)| is_only && !goals.is_empty());
    summary.parts.extend(others.map(|(name, goals)| part(name, number::list(&goals))));
    summary.text = joined(&summary.parts);
    summary
}

/// The numbers of a point; errors, losses and wrong answers are those of all of `judged`.
fn measured(run: &Run, point: &DrivenPoint<'_, '_>, judged: &[&PhaseFacts<'_>], place: String) -> SummaryView {
    let percentile = |name: &str| {
        let each: Vec<Result<u64, String>> =
            point.repeats.iter().map(|facts| facts.waited(None).percentile(name)).collect();
        let known: Vec<f64> = each.iter().flatten().map(|ns| *ns as f64).collect();
        let ns = stat::median(&known).map(|ns| ns as u64);
        let missing = each.into_iter().find_map(Result::err).filter(|_| ns.is_none());
        PercentileView { name: name.to_string(), ns, missing }
    };
    let failed = |facts: &PhaseFacts<'_>| facts.error_percent(None).map(|share| (facts.error_count(), share.n));
    let (errors, n) = judged.iter().filter_map(|facts| failed(facts)).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    let mut trials: Vec<&Trial> = judged.iter().map(|facts| facts.trial).collect();
    // Points are phases, so a trial may come several times.
    trials.sort_by_key(|trial| trial.header.ordinal);
    trials.dedup_by_key(|trial| trial.header.ordinal);
    let sum = |name: ResultName| -> u64 {
        judged.iter().filter_map(|facts| facts.result(name)).map(|one| one.value as u64).sum()
    };
    SummaryView {
        place,
        rate_per_s: point.rate_per_s(),
        unit: point.trial().map_or("", |trial| unit(&trial.header.kinds)).to_string(),
        percentiles: PERCENTILES.map(percentile).to_vec(),
        outage: longest(judged.iter().filter_map(|facts| outage::outage(run, facts))),
        retried: judged.iter().flat_map(|facts| outcomes::retried(facts)).map(|one| one.succeeded + one.failed).sum(),
        asked_again: sum(ResultName::AskedAgain),
        retries: sum(ResultName::Retries),
        breaker_rejected: sum(ResultName::BreakerRejected),
        errors: Some(errors),
        never_sent: judged.iter().map(|facts| facts.unsent_errors()).sum(),
        error_percent: (n > 0).then(|| errors as f64 * 100.0 / n as f64),
        late: point.repeats.iter().any(|facts| facts.late().is_some()),
        lost: lost(trials.iter().copied()),
        wrong: wrong(run, trials.iter().copied()),
        ..SummaryView::default()
    }
}

/// Summarises the point of `of`, a part of `all`, with the highest throughput, with the errors and losses of all of `of`.
/// If faults were in some of its phases alone, the point is of another phase. Only points that are
/// [comparable](points::comparable) compete.
fn best(run: &Run, of: &[&DrivenPoint<'_, '_>], all: &[DrivenPoint<'_, '_>]) -> Option<SummaryView> {
    let rate = |point: &DrivenPoint<'_, '_>| point.rate_per_s().unwrap_or(0.0);
    let faulty: Vec<&str> = of.iter().filter(|point| point.has_faults()).map(|point| point.phase()).collect();
    let calm: Vec<&DrivenPoint<'_, '_>> = of.iter().copied().filter(|point| !faulty.contains(&point.phase())).collect();
    let is_mixed = !calm.is_empty() && calm.len() < of.len();
    let (candidates, without) = if is_mixed { (calm.as_slice(), " without faults") } else { (of, "") };
    let compared = points::comparable(candidates);
    let best = compared.iter().copied().max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
    let judged: Vec<&PhaseFacts<'_>> = of.iter().flat_map(|point| point.repeats.iter().copied()).collect();
    let alike = compared.iter().filter(|point| point.is_like(best)).count();
    let phases: BTreeSet<&str> = compared.iter().map(|point| point.phase()).collect();
    let of_all = match (alike, phases.len()) {
        (2.., _) => format!(", the most of {alike} points{without}"),
        (_, 2..) => format!(", the most of {} phases{without}", phases.len()),
        _ => String::new(),
    };
    let place = format!("{}, {}{of_all}", best.name(), best.phase());
    let mut measured = measured(run, best, &judged, place);
    // The longest outage may be that of another point.
    let other = of.iter().filter(|point| !std::ptr::eq(**point, best)).find(|point| {
        let outages = point.repeats.iter().filter_map(|facts| outage::outage(run, facts));
        measured.outage.is_some() && longest(outages) == measured.outage
    });
    if let (Some(outage), Some(point)) = (&mut measured.outage, other) {
        outage.place = match point.name() {
            name if name == best.name() => point.phase().to_owned(),
            name => format!("{name}, {}", point.phase()),
        };
    }
    let mut summary = told(run, measured, lacked(trials_of(&judged)));
    // The place is a phase without faults, which may have had none of them.
    if is_mixed {
        of_all_phases(&mut summary, &["errors"]);
    }
    if share_trials(of, all) {
        of_all_phases(&mut summary, &OF_TRIAL);
    }
    Some(with_goals(summary, run, best, false))
}

/// A trial in which nothing was driven: what was asked, or what was loaded.
fn undriven(run: &Run, phases: &[PhaseFacts<'_>], several: bool) -> Option<SummaryView> {
    let trial = phases.first()?.trial;
    let mut parts = Vec::new();
    for facts in phases.iter().filter(|facts| facts.phase.header.kind == PhaseKind::Ask) {
        let Some(median) = stat::median(&facts.asked_seconds(None)) else { continue };
        parts.push(part(&format!("{} median", facts.phase.header.name), number::seconds(median)));
    }
    if parts.is_empty() {
        let load = phases.iter().find(|facts| facts.phase.header.kind == PhaseKind::Load)?;
        let seconds = load.quantity("seconds", None).ok()?.value;
        let records = trial.header.record_count;
        let rate = (seconds > 0.0 && records > 0).then(|| records as f64 / seconds)?;
        parts.push(part("loaded", number::plural(records, "record", "records")));
        parts.push(part("in", number::seconds(seconds)));
        parts.push(part("at", number::with_unit(rate, "records/s")));
    }
    let place = if several { name::trial(&trial.header) } else { String::new() };
    let (lost, wrong) = (lost([trial].into_iter()), wrong(run, [trial].into_iter()));
    let summary = SummaryView { place, lost, wrong, parts, ..SummaryView::default() };
    Some(told(run, summary, lacked([trial].into_iter())))
}

fn part(name: &str, value: String) -> SummaryPart {
    SummaryPart { text: format!("{name} {value}"), name: name.to_string(), value, ..SummaryPart::default() }
}

fn joined(parts: &[SummaryPart]) -> String {
    parts.iter().map(|part| part.text.as_str()).collect::<Vec<_>>().join(" · ")
}

/// A load line, with the medians of the times of the load steps at its rate.
fn of_line(run: &Run, line: &LineView, several: bool) -> Option<SummaryView> {
    let rate = line.result.rate_per_s?;
    let judged = |rung: &&RungView| matches!(rung.state, RungState::Held | RungState::Failed);
    let at_line = || line.rungs.iter().filter(judged).filter(|rung| rung.rung.rate_per_s == Some(rate));
    let is_through = !line.result.through.is_empty();
    let percentile = |name: &str| {
        let each = at_line().filter_map(|rung| percentile_ns(rung, name, is_through));
        stat::median(&each.collect::<Vec<_>>()).map(|ns| ns as u64)
    };
    let place = if several { line.store.clone() } else { String::new() };
    let own = SummaryView { place, rate_per_s: Some(rate), ..SummaryView::default() };
    let mut summary = of_store(run, &line.store, percentile, own);
    let goals: Vec<String> = line.rungs.first()?.goals.iter().map(GoalSeen::limit_words).collect();
    summary.parts.push(part("goal", number::list(&goals)));
    summary.text = joined(&summary.parts);
    Some(summary)
}

/// Returns a percentile of a load step in nanoseconds. Through faults goals judge the time in which none is in effect, so
/// that percentiles without a goal say nothing of it.
fn percentile_ns(rung: &RungView, name: &str, is_through: bool) -> Option<f64> {
    if is_through {
        let goal = rung.goals.iter().find(|goal| goal.of.is_none() && goal.what.name() == name)?;
        return goal.value;
    }
    let at = SHOWN.iter().position(|shown| *shown == name)?;
    Some((*rung.percentiles_ns.get(at)?)? as f64)
}

/// A side of a comparison: medians of its turns.
fn of_side(run: &Run, ab: &AbView, side: usize, label: &str) -> SummaryView {
    let cell = |name: &str| {
        let metric = ab.metrics.iter().find(|metric| metric.name == name && !metric.undisturbed)?;
        let cell = if side == 0 { &metric.a } else { &metric.b };
        Some((cell.value?, cell.late))
    };
    let percentile = |name: &str| cell(name).map(|(seconds, _)| (seconds * 1e9).round() as u64);
    let own = SummaryView {
        place: format!("{label} ({})", ab.sides[side]),
        rate_per_s: cell("rate").map(|(rate, _)| rate),
        error_percent: cell("errors").map(|(percent, _)| percent),
        late: cell("rate").is_some_and(|(_, late)| late),
        ..SummaryView::default()
    };
    of_store(run, label, percentile, own)
}

/// Completes the summary `own` of all trials of a store, with the percentiles that are known, in nanoseconds.
fn of_store(run: &Run, label: &str, percentile: impl Fn(&str) -> Option<u64>, own: SummaryView) -> SummaryView {
    let trials = || run.trials.iter().filter(|trial| trial.header.store_label == label);
    let known =
        |name: &str| percentile(name).map(|ns| PercentileView { name: name.to_string(), ns: Some(ns), missing: None });
    let summary = SummaryView {
        unit: trials().next().map_or("ops/s", |trial| unit(&trial.header.kinds)).to_string(),
        percentiles: PERCENTILES.into_iter().filter_map(known).collect(),
        lost: lost(trials()),
        wrong: wrong(run, trials()),
        ..own
    };
    told(run, summary, lacked(trials()))
}

/// Returns the longest of these outages, of equal ones one that had not ended.
pub fn longest(outages: impl Iterator<Item = OutageView>) -> Option<OutageView> {
    outages.max_by(|a, b| a.seconds.total_cmp(&b.seconds).then(a.open.cmp(&b.open)))
}

/// Acknowledged writes that are not there, where ledgers looked and none had a gap: the worst of each trial.
fn lost<'t>(trials: impl Iterator<Item = &'t Trial>) -> Option<u64> {
    let (mut sum, mut looked, mut vouched) = (0, false, true);
    for ledger in trials.map(|trial| &trial.ledgers) {
        looked |= !ledger.is_empty();
        // One that was not looked at may have lost something.
        vouched &= !ledger.is_empty() && ledger.iter().all(|ledger| ledger.complete);
        sum += ledger.iter().map(|ledger| ledger.lost).max().unwrap_or(0);
    }
    (looked && (vouched || sum > 0)).then_some(sum)
}

/// Returns the trials of these phases.
fn trials_of<'t>(phases: &[&PhaseFacts<'t>]) -> impl Iterator<Item = &'t Trial> {
    phases.iter().map(|facts| facts.trial)
}

/// Returns true if answers lacked records that had to be in them.
fn lacked<'t>(mut trials: impl Iterator<Item = &'t Trial>) -> bool {
    trials.any(|trial| trial.answers.iter().any(|answer| answer.counts.missing > 0))
}

/// Returns the wrong and missing records of these trials, as the goal counts them, if any were checked.
fn wrong<'t>(run: &Run, trials: impl Iterator<Item = &'t Trial>) -> Option<u64> {
    trials.filter_map(|trial| goal::wrong_of(run, trial)).reduce(|all, one| all + one)
}

/// Formats a value of all operations, told from the limit of a goal on it.
fn beside_goal(run: &Run, name: &str, value: f64, unit: &str) -> String {
    let goal = run.header.goals.iter().find(|goal| goal.of.is_none() && goal.what.name() == name);
    goal.map_or_else(|| number::with_unit(value, unit), |goal| number::beside_limit(value, goal.limit, unit))
}

/// Returns names and values of percentiles. If all are equal, they are one number, `p50 = p95 = p99`: apart they look like
/// a mistake.
fn percentiles(run: &Run, all: &[PercentileView], late: bool) -> Vec<(String, String)> {
    let known = |name: &str, ns: u64| number::marked(beside_goal(run, name, ns as f64, "ns"), late);
    let value = |one: &PercentileView| one.ns.map_or("–".to_string(), |ns| known(&one.name, ns));
    let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
    match all {
        [first, rest @ ..] if first.ns.is_some() && rest.iter().all(|one| value(one) == value(first)) => {
            vec![(names.join(" = "), value(first))]
        }
        _ => all.iter().map(|one| (one.name.clone(), value(one))).collect(),
    }
}

/// `summary` with what it is in words. What was not known is left out. Answers that `lacked` records contradict that
/// nothing was lost, although the ledger found everything in the end.
fn told(run: &Run, mut summary: SummaryView, lacked: bool) -> SummaryView {
    let late = |text: String| number::marked(text, summary.late);
    let part = |name: &str, value: String, text: String, bad: bool| SummaryPart {
        name: name.to_string(),
        value,
        text,
        bad,
        ..SummaryPart::default()
    };
    let mut parts = std::mem::take(&mut summary.parts);
    if let Some(rate) = summary.rate_per_s {
        let text = beside_goal(run, &GoalKind::Rate.name(), rate, &summary.unit);
        let value = text.strip_suffix(summary.unit.as_str()).unwrap_or(&text).trim_end().to_owned();
        parts.push(part(&summary.unit, late(value), late(text), false));
    }
    let times = percentiles(run, &summary.percentiles, summary.late);
    parts.extend(times.into_iter().map(|(name, value)| {
        let text = format!("{name} {value}");
        part(&name, value, text, false)
    }));
    if let Some(one) = &summary.outage {
        let length = beside_goal(run, &GoalKind::Outage.name(), one.seconds * 1e9, "ns");
        let text = format!("no answer for {}", outage::words_of(one, &length));
        let value = number::lower_bound(length, one.open);
        let silence = part(NO_ANSWER, value, text, true);
        parts.push(SummaryPart { at: outage::at(one), meanwhile: number::list(&one.with), ..silence });
    }
    let percent = || summary.error_percent.map(|percent| beside_goal(run, &GoalKind::Errors.name(), percent, "%"));
    match summary.errors {
        Some(0) => parts.push(part("errors", "0".to_string(), "0 errors".to_string(), false)),
        Some(n) => {
            let never_sent = format!("{} never sent", number::count(summary.never_sent));
            let never_sent = Some(never_sent).filter(|_| summary.never_sent > 0);
            let share = percent().into_iter().chain(never_sent).collect::<Vec<_>>().join("; ");
            let share = if share.is_empty() { share } else { format!(" ({share})") };
            let value = format!("{}{share}", number::count(n));
            parts.push(part("errors", value, format!("{}{share}", number::plural(n, "error", "errors")), true));
        }
        None if summary.error_percent == Some(0.0) => {
            parts.push(part("errors", "0".to_string(), "0 errors".to_string(), false));
        }
        None => {
            let share = percent().map(|share| part("errors", share.clone(), format!("{share} errors"), true));
            parts.extend(share);
        }
    }
    if summary.retried > 0 {
        parts.push(counted("tried again", number::count(summary.retried), false));
    }
    let beside = [
        (summary.asked_again, "request sent again", "requests sent again"),
        (summary.retries, "client retry", "client retries"),
        (summary.breaker_rejected, "rejected by a circuit breaker", "rejected by circuit breakers"),
    ];
    let beside = beside.into_iter().filter(|(n, ..)| *n > 0);
    parts.extend(beside.map(|(n, one, many)| counted(if n == 1 { one } else { many }, number::count(n), false)));
    if let Some(n) = summary.wrong.filter(|n| *n > 0) {
        let (name, one, many) = match lacked {
            true => ("wrong or missing", "wrong or missing record", "wrong or missing records"),
            false => ("wrong", "wrong record", "wrong records"),
        };
        parts.push(part(name, number::count(n), number::plural(n, one, many), true));
    }
    match summary.lost {
        Some(0) if lacked => {}
        Some(0) => parts.push(part("lost", "nothing".to_string(), "nothing lost".to_string(), false)),
        Some(n) => {
            parts.push(part("lost", number::count(n), format!("{} lost", number::plural(n, "write", "writes")), true));
        }
        None => {}
    }
    summary.text = joined(&parts);
    SummaryView { parts, ..summary }
}

#[cfg(test)]
mod tests {
    use plimsoll_record::data::Goal;

    use super::*;
    use crate::view::{GoalSeen, Rung};

    #[test]
    fn through_faults_a_load_step_has_the_times_that_its_goals_judged_alone() {
        let p99 = GoalKind::named("p99").unwrap();
        let goal = Goal { what: p99, of: None, limit: 2e8, unit: "ns".to_owned() };
        let rung = RungView {
            rung: Rung::default(),
            state: RungState::Held,
            reason: None,
            note: None,
            cycles: 0.0,
            rate_per_s: 100.0,
            goals: vec![GoalSeen::new(&goal, Ok(1e8), 10)],
            percentiles_ns: SHOWN.map(|_| Some(9_000_000_000)).to_vec(),
            n: 10,
        };
        let both = |is_through| ["p50", "p99"].map(|name| percentile_ns(&rung, name, is_through));
        assert_eq!(both(true), [None, Some(1e8)]);
        assert_eq!(both(false), [Some(9e9); 2]);
    }
}
