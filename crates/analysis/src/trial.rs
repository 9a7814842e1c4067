//! Trials and phases as reports show them.

use std::collections::BTreeMap;

use indexmap::IndexSet;
use plimsoll_core::{Footprint, KindId, Measure, Outcome, quantity};
use plimsoll_record::data::{About, AnswerCounts, Phase, PhaseKind, PhaseState, ResultName, Run, RunState, Trial};

use crate::known;
use crate::latency::Times;
use crate::name;
use crate::nodes;
use crate::number;
use crate::outage::outage;
use crate::outcomes;
use crate::phase::{PhaseFacts, is_overload};
use crate::shortfall::shortfall;
use crate::size;
use crate::stat;
use crate::step;
use crate::view::{
    AnswerView, AskedView, EndState, EventView, FootprintView, LagView, LatencyView, LedgerView, Named, OpsView,
    PhaseView, RemarkView, ResultView, RowOp, RowOutcome, RunFacts, TrialView, UndisturbedView,
};

/// The run's own facts; `end_ns` is the last thing recorded.
pub fn run_facts(run: &Run, answer: &str, end_ns: u64) -> RunFacts {
    let header = &run.header;
    let (state, error) = match &run.state {
        RunState::Complete => (EndState::Complete, None),
        RunState::Interrupted => (EndState::Interrupted, None),
        RunState::Failed(why) => (EndState::Failed, Some(why.clone())),
        RunState::Unfinished | RunState::Running => (unended(run), None),
    };
    RunFacts {
        id: header.id.clone(),
        plan_name: header.plan_name.clone(),
        title: header.title.clone(),
        question: header.question.clone(),
        answer: answer.to_owned(),
        source: header.source.clone(),
        plimsoll_version: header.plimsoll_version.clone(),
        started_wall_ns: header.started_wall_ns,
        started: number::wall_time(header.started_wall_ns),
        seconds: end_ns as f64 / 1e9,
        state,
        error,
        command_line: header.command_line.clone(),
        tag: header.tag.clone(),
        seed: header.seed,
        slice_seconds: header.slice_ns as f64 / 1e9,
        plan_text: header.plan_text.clone(),
        recorder_bytes: run.recorder_bytes,
    }
}

/// Returns the state of a part of `run` that has no end.
fn unended(run: &Run) -> EndState {
    if run.state == RunState::Running { EndState::Running } else { EndState::Killed }
}

/// Durability of the phases that write, once for each name and durability.
pub fn durability(run: &Run) -> Vec<Named> {
    let phases = run.trials.iter().flat_map(|trial| &trial.phases).map(|phase| &phase.header);
    let seen: IndexSet<_> = phases.filter_map(|header| Some((&header.name, header.durability?.name()))).collect();
    seen.into_iter().map(|(name, value)| Named { name: name.clone(), value: value.to_string() }).collect()
}

/// Returns the events of a run.
pub fn events(run: &Run) -> Vec<EventView> {
    let trial_name = |ordinal: u32| {
        run.trials.iter().find(|trial| trial.header.ordinal == ordinal).map(|trial| name::trial(&trial.header))
    };
    run.events
        .iter()
        .map(|event| EventView {
            at_s: event.from_ns as f64 / 1e9,
            until_s: event.until_ns as f64 / 1e9,
            trial: event.trial.and_then(trial_name),
            level: event.level,
            kind: event.class,
            subject: event.subject.clone(),
            text: event.text.clone(),
        })
        .collect()
}

/// The trials that were begun.
pub fn trials(run: &Run, facts: &[Vec<PhaseFacts<'_>>]) -> Vec<TrialView> {
    run.trials.iter().zip(facts).map(|(trial, facts)| one(run, trial, facts)).collect()
}

/// Returns the state of a trial at its end: the worst of its phases, or that it did not end.
fn state(run: &Run, trial: &Trial) -> EndState {
    let has = |wanted: fn(&PhaseState) -> bool| trial.phases.iter().any(|phase| wanted(&phase.end.state));
    if has(|state| matches!(state, PhaseState::Failed(_))) {
        EndState::Failed
    } else if has(|state| matches!(state, PhaseState::Void(_))) {
        EndState::Void
    } else if has(|state| matches!(state, PhaseState::Interrupted)) {
        EndState::Interrupted
    } else if trial.end_ns.is_none() || has(|state| matches!(state, PhaseState::Unfinished)) {
        if run.state == RunState::Interrupted { EndState::Interrupted } else { unended(run) }
    } else {
        EndState::Complete
    }
}

fn one(run: &Run, trial: &Trial, facts: &[PhaseFacts<'_>]) -> TrialView {
    let header = &trial.header;
    let device_bytes_per_record = device_bytes_per_record(trial);
    let phase_name = |ordinal: u32| {
        trial
            .phases
            .iter()
            .find(|phase| phase.header.ordinal == ordinal)
            .map_or_else(|| format!("phase {ordinal}"), |phase| phase.header.name.clone())
    };
    TrialView {
        ordinal: header.ordinal,
        name: name::trial(header),
        short_name: name::short(header),
        store: header.store_label.clone(),
        store_kind: header.store.clone(),
        version: header.version.clone(),
        place: header.place.clone(),
        settings: header.settings.clone(),
        workload: header.workload.clone(),
        params: header.params.clone(),
        labels: header.labels.clone(),
        state: state(run, trial),
        start_s: header.start_ns as f64 / 1e9,
        end_s: trial.end_ns.map(|end| end as f64 / 1e9),
        record_count: header.record_count,
        record_bytes: header.record_bytes,
        footprint: footprint(trial).map(|(phase, bytes)| FootprintView { phase: phase.header.name.clone(), bytes }),
        size: size::size(trial, footprint(trial).map(|(_, footprint)| footprint)),
        device_bytes_per_record,
        write_amplification: device_bytes_per_record
            .filter(|_| header.record_bytes > 0)
            .map(|bytes| bytes / header.record_bytes as f64),
        remarks: remarks(trial),
        answers: trial
            .answers
            .iter()
            .map(|answer| AnswerView {
                phase: phase_name(answer.phase),
                op: answer.op.clone(),
                counts: answer.counts,
                examples: answer.examples.clone(),
            })
            .collect(),
        answers_total: answers_total(trial),
        ledgers: trial
            .ledgers
            .iter()
            .map(|ledger| LedgerView {
                phase: phase_name(ledger.phase),
                acknowledged: ledger.acknowledged,
                rejected: ledger.rejected,
                unknown: ledger.unknown,
                read_back: ledger.read_back,
                unread: ledger.unread,
                lost: known::lost(ledger),
                read_then_lost: ledger.read_then_lost,
                lost_window_s: ledger.lost_window_ns.map(|(from, to)| (from as f64 / 1e9, to as f64 / 1e9)),
                wrong: ledger.wrong.clone(),
                wrong_total: ledger.wrong.values().sum(),
                loss_upper_bound: ledger.loss_upper_bound,
                complete: ledger.complete,
                examples: ledger.examples.clone(),
                sentence: ledger.sentence.clone(),
            })
            .collect(),
        phases: facts.iter().map(|facts| phase(run, facts)).collect(),
    }
}

fn answers_total(trial: &Trial) -> Option<AnswerCounts> {
    trial.answers.iter().map(|answer| answer.counts).reduce(|all, one| AnswerCounts {
        answers: all.answers + one.answers,
        expected: all.expected + one.expected,
        got: all.got + one.got,
        missing: all.missing + one.missing,
        wrong: all.wrong + one.wrong,
        stale_records: all.stale_records + one.stale_records,
    })
}

/// Returns the store's remarks, each once: a phase that repeats the one before adds nothing.
fn remarks(trial: &Trial) -> Vec<RemarkView> {
    let mut said: BTreeMap<About, &str> = BTreeMap::new();
    let mut remarks = Vec::new();
    for phase in &trial.phases {
        for (about, text) in &phase.end.remarks {
            if said.insert(*about, text) != Some(text.as_str()) {
                let (phase, name) = (phase.header.name.clone(), about.name().to_string());
                remarks.push(RemarkView { phase, name, text: text.clone() });
            }
        }
    }
    remarks
}

/// The phases before the first one that drives.
fn before_driving(trial: &Trial) -> impl Iterator<Item = &Phase> {
    trial.phases.iter().take_while(|phase| phase.header.kind != PhaseKind::Drive)
}

/// The last one before the first phase that drives; without any, the first.
fn footprint(trial: &Trial) -> Option<(&Phase, Footprint)> {
    let taken = |phase: &'_ Phase| phase.end.footprint;
    before_driving(trial)
        .filter_map(|phase| Some((phase, taken(phase)?)))
        .last()
        .or_else(|| trial.phases.iter().find_map(|phase| Some((phase, taken(phase)?))))
}

/// Returns the bytes written by load and settle, per record: until a store has settled, it still owes the device some
/// of the load.
fn device_bytes_per_record(trial: &Trial) -> Option<f64> {
    let mut bytes = None;
    for phase in before_driving(trial).filter(|phase| matches!(phase.header.kind, PhaseKind::Load | PhaseKind::Settle))
    {
        if phase.end.state != PhaseState::Complete {
            return None;
        }
        if let Some(result) = phase.end.result(ResultName::DeviceBytes) {
            *bytes.get_or_insert(0.0) += result.value;
        }
    }
    bytes.filter(|_| trial.header.record_count > 0).map(|bytes: f64| bytes / trial.header.record_count as f64)
}

fn phase(run: &Run, facts: &PhaseFacts<'_>) -> PhaseView {
    let header = &facts.phase.header;
    let end = &facts.phase.end;
    let (state, reason) = match &end.state {
        PhaseState::Complete => (EndState::Complete, None),
        PhaseState::Interrupted => (EndState::Interrupted, None),
        PhaseState::Failed(why) => (EndState::Failed, Some(why.clone())),
        PhaseState::Void(why) => (EndState::Void, Some(why.clone())),
        PhaseState::Unfinished => (unended(run), None),
    };
    // What was seen can be looked at on the time axis; as a result it stands nowhere.
    let stands = state != EndState::Void;
    let of_nodes = if stands && header.kind == PhaseKind::Drive { nodes::nodes(run, facts) } else { Vec::new() };
    PhaseView {
        ordinal: header.ordinal,
        name: header.name.clone(),
        kind: header.kind,
        rung: header.rung,
        durability: header.durability,
        clients: header.clients,
        scheduled_rate_per_s: header.rate_per_s,
        open_loop: facts.open_loop,
        start_s: header.start_ns as f64 / 1e9,
        seconds: (end.end_ns > 0).then(|| end.end_ns.saturating_sub(header.start_ns) as f64 / 1e9),
        state,
        reason,
        is_overloaded: is_overload(end),
        late: facts.late().map(str::to_string),
        shortfall: shortfall(run, facts),
        outage: outage(run, facts),
        lost_connections_s: lost_connections_s(facts),
        results: end
            .results
            .iter()
            .map(|result| ResultView {
                what: result.name,
                name: match result.name {
                    ResultName::Cycles => format!("{}{}", quantity::CYCLES, result.subject),
                    // No name that a formula can hold.
                    name @ (ResultName::CacheBytes
                    | ResultName::MemoryLimitBytes
                    | ResultName::ErrorCode
                    | ResultName::AnswerStatus
                    | ResultName::AtRiskKind
                    | ResultName::PageGuard) => {
                        format!("{} {}", name.name(), result.subject)
                    }
                    name => name.name().to_string(),
                },
                unit: result.name.unit().to_string(),
                value: result.value,
                text: number::with_unit(result.value, result.name.unit()),
                n: result.n,
            })
            .collect(),
        records_per_s: records_per_s(facts),
        ops: ops(facts).filter(|_| stands),
        not_found: if stands { outcomes::not_found(facts) } else { Vec::new() },
        retried: if stands { outcomes::retried(facts) } else { Vec::new() },
        asked: asked(facts),
        latencies: if header.kind == PhaseKind::Ask || !stands { Vec::new() } else { latencies(facts) },
        stages: if stands { crate::stages::stages(facts) } else { Vec::new() },
        histogram: match header.kind {
            PhaseKind::Drive if stands => facts.waited(None).buckets(),
            _ => Vec::new(),
        },
        slowest_node: if of_nodes.len() > 1 { nodes::slowest(run, facts) } else { None },
        nodes: of_nodes,
        sampled: if stands { nodes::sampled(run, facts) } else { Vec::new() },
        steps: if stands { step::steps(facts) } else { Vec::new() },
        settled_after_s: facts.settled_after().filter(|_| stands).and_then(|(slices, _)| {
            let end_ns = facts.phase.slices.get(slices.checked_sub(1)?)?.end_ns;
            Some(end_ns.saturating_sub(facts.phase.slices.first()?.start_ns) as f64 / 1e9)
        }),
        rate_with_warmup_per_s: facts.rate_with_warmup().filter(|_| stands),
        lag: lag(facts),
        worker_cores: worker_cores(facts),
        pauses: facts.pauses(run).filter(|_| header.kind == PhaseKind::Drive),
    }
}

/// Returns the times from the phase's start of its first and its last lost connection.
fn lost_connections_s(facts: &PhaseFacts<'_>) -> Option<(f64, f64)> {
    let (header, (first_ns, last_ns)) = (&facts.phase.header, facts.phase.end.lost_between_ns?);
    let from_start_s = |at_ns: u64| at_ns.saturating_sub(header.start_ns) as f64 / 1e9;
    Some((from_start_s(first_ns), from_start_s(last_ns)))
}

fn records_per_s(facts: &PhaseFacts<'_>) -> Option<f64> {
    let complete = facts.phase.header.kind == PhaseKind::Load && facts.phase.end.state == PhaseState::Complete;
    let seconds = facts.result(ResultName::Seconds).filter(|seconds| complete && seconds.value > 0.0)?;
    Some(facts.trial.header.record_count as f64 / seconds.value)
}

fn ops(facts: &PhaseFacts<'_>) -> Option<OpsView> {
    let count = facts.count(None, |_| true);
    let unfinished = facts.unfinished_count();
    if facts.phase.slices.is_empty() || facts.counted_s == 0.0 || count + unfinished == 0 {
        return None;
    }
    Some(OpsView {
        seconds: facts.counted_s,
        count,
        rejected: facts.count(None, |outcome| outcome == Outcome::Rejected),
        unknown: facts.count(None, |outcome| outcome == Outcome::Unknown),
        unfinished,
        rate_per_s: facts.rate(None).map_or(0.0, |rate| rate.value),
        error_percent: facts.error_percent(None).map_or(0.0, |errors| errors.value),
    })
}

fn asked(facts: &PhaseFacts<'_>) -> Vec<AskedView> {
    let mut kinds: Vec<KindId> = facts.phase.end.asked.iter().map(|asked| asked.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
        .into_iter()
        .map(|kind| {
            let op = facts.op_name(kind);
            let seconds = facts.asked_seconds(Some(op));
            let all = facts.phase.end.asked.iter().filter(|asked| asked.kind == kind);
            let errors = all.clone().filter(|asked| asked.outcome.is_error()).count() as u64;
            let rows: Vec<f64> = all.filter(|asked| !asked.outcome.is_error()).map(|asked| asked.rows as f64).collect();
            AskedView {
                op: op.to_string(),
                n: seconds.len() as u64 + errors,
                errors,
                median_s: stat::median(&seconds),
                min_s: seconds.first().copied(),
                max_s: seconds.last().copied(),
                rows: stat::median(&rows).unwrap_or(0.0) as u64,
            }
        })
        .collect()
}

fn latencies(facts: &PhaseFacts<'_>) -> Vec<LatencyView> {
    let row = |op: RowOp, outcome: RowOutcome, measure: Measure, times: &Times, drained: u64| LatencyView {
        op,
        outcome,
        measure,
        count: times.len(),
        rate_per_s: match facts.counted_s {
            seconds if seconds > 0.0 => times.len().saturating_sub(drained) as f64 / seconds,
            _ => 0.0,
        },
        mean_ns: times.mean_ns(),
        stddev_ns: times.stddev_ns(),
        percentiles: times.percentiles(),
        max_ns: times.max_ns(),
        late: facts.late().is_some() && measure == Measure::Response,
        undisturbed: None,
    };
    let undisturbed = |times: Times| UndisturbedView {
        count: times.len(),
        mean_ns: times.mean_ns(),
        stddev_ns: times.stddev_ns(),
        percentiles: times.percentiles(),
        max_ns: times.max_ns(),
    };
    let mut rows = Vec::new();
    if facts.kinds().len() > 1 || facts.unfinished.is_some() {
        let all = facts.waited(None);
        let all = row(RowOp::All, RowOutcome::All, facts.measure(), &all, 0);
        // As everywhere: of operations that did not fail. What was never sent was waited for, and is in no rate.
        let rate_per_s = facts.rate(None).map_or(0.0, |rate| rate.value);
        rows.push(LatencyView { undisturbed: facts.undisturbed(None).map(undisturbed), rate_per_s, ..all });
    }
    let mut by_kind: Vec<_> = facts.histograms.iter().collect();
    // What needed several tries stands below what did not.
    by_kind.sort_by_key(|((kind, ..), _)| step::first_try(&facts.trial.header.kinds, *kind));
    for ((kind, outcome, measure), histogram) in by_kind {
        // In an open loop what was not scheduled has one time, and no need of a second row for it.
        let is_twice = facts.open_loop && *measure == Measure::Service && !facts.is_scheduled(*kind);
        if !histogram.is_empty() && !is_twice {
            let drained = facts.drained(*kind, *outcome, *measure);
            let part = facts.disturbed.as_ref().filter(|_| *measure == facts.measure());
            let without = part.map(|part| {
                let mut times = histogram.clone();
                part.get(&(*kind, *outcome, *measure)).into_iter().for_each(|part| times.subtract(part.counts()));
                times
            });
            let op = RowOp::Kind(facts.op_name(*kind).to_string());
            let as_seen = row(op, RowOutcome::Of(*outcome), *measure, histogram, drained);
            let late = as_seen.late && facts.is_scheduled(*kind);
            rows.push(LatencyView { undisturbed: without.map(undisturbed), late, ..as_seen });
        }
    }
    if let Some(unfinished) = facts.unfinished.as_ref().filter(|unfinished| !unfinished.is_empty()) {
        rows.push(row(RowOp::All, RowOutcome::Unfinished, Measure::Response, unfinished, unfinished.len()));
    }
    rows
}

fn lag(facts: &PhaseFacts<'_>) -> Option<LagView> {
    if !facts.open_loop {
        return None;
    }
    let medians: Vec<f64> = facts.counted().map(|slice| slice.lag_p50_ns as f64).collect();
    Some(LagView {
        p50_ns: stat::median(&medians)? as u64,
        p99_ns: facts.counted().map(|slice| slice.lag_p99_ns).max()?,
        max_ns: facts.counted().map(|slice| slice.lag_max_ns).max()?,
    })
}

fn worker_cores(facts: &PhaseFacts<'_>) -> Option<f64> {
    let cpu_ns: u64 = facts.counted().map(|slice| slice.worker_cpu_ns).sum();
    (cpu_ns > 0 && facts.counted_s > 0.0).then(|| cpu_ns as f64 / 1e9 / facts.counted_s)
}
