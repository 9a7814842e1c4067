//! Series, heat maps and percentile curves on the run's time axis.

use indexmap::IndexSet;
use plimsoll_core::sampler::{ANSWERS, PROGRESS, STORE};
use plimsoll_core::{Outcome, Slice};
use plimsoll_record::Distribution;
use plimsoll_record::data::{Asked, PhaseKind, PhaseState, Run, Trial};

use crate::acts;
use crate::host;
use crate::latency::Times;
use crate::name;
use crate::phase::PhaseFacts;
use crate::slices::SHORT_SLICE;
use crate::view::{Band, Curve, HeatMap, Line, Panel, Plots};

/// Rows of the heat map to a decade of latency.
const ROWS_PER_DECADE: f64 = 8.0;

/// Columns of a heat map, about; every phase begins a new one.
const COLUMNS_MAX: usize = 900;
/// Columns of the heat maps of all operation types together, about.
const ALL_COLUMNS_MAX: usize = 1_800;
/// Fewest columns to which a heat map is reduced for the sake of the others.
const COLUMNS_MIN: usize = 200;

/// The last thing recorded, on the run's clock.
pub fn last_ns(run: &Run) -> u64 {
    let phases = run.trials.iter().flat_map(|trial| &trial.phases);
    run.end_ns
        .into_iter()
        .chain(run.trials.iter().filter_map(|trial| trial.end_ns))
        .chain(phases.clone().map(|phase| phase.end.end_ns.max(phase.header.start_ns)))
        .chain(phases.filter_map(|phase| Some(phase.slices.last()?.end_ns)))
        .chain(run.samples.last().map(|sample| sample.at_ns))
        .max()
        .unwrap_or(0)
}

/// Returns the end of the phase at `at`. A phase that did not end lasts until the next one begins, or until the end of
/// its trial or of the run.
pub fn phase_end_ns(trial: &Trial, at: usize, run_end_ns: u64) -> u64 {
    let Some(phase) = trial.phases.get(at) else { return run_end_ns };
    let end_ns = match phase.end.end_ns {
        0 => trial.phases.get(at + 1).map_or(trial.end_ns.unwrap_or(run_end_ns), |next| next.header.start_ns),
        end_ns => end_ns,
    };
    end_ns.max(phase.header.start_ns)
}

/// Returns all plots on the time axis.
pub fn plots(run: &Run, facts: &[Vec<PhaseFacts<'_>>], end_ns: u64) -> Plots {
    let ops = ops(facts);
    let (panels, host_zero) = host::panels(run);
    let is_of_store = |one: &Panel| matches!(one.source.as_str(), STORE | ANSWERS | PROGRESS) && !one.unit.is_empty();
    let (store, host): (Vec<Panel>, Vec<Panel>) = panels.into_iter().partition(is_of_store);
    Plots {
        end_s: end_ns as f64 / 1e9,
        bands: bands(run, facts, end_ns),
        throughput: throughput(run, facts, &ops, PhaseKind::Drive).panel("Throughput", "1/s"),
        loading: throughput(run, facts, &ops, PhaseKind::Load).panel("Loading", "records/s"),
        latency: (0..ops.len()).map(|op| latency_panel(facts, &ops, op)).collect(),
        heat: (0..ops.len()).map(|op| heat(facts, &ops, op)).collect(),
        curves: curves(facts, &ops),
        ops,
        store,
        cycles: host::cycles(run),
        pauses: pauses(run),
        acts: acts::marks(run),
        host,
        fine: host::fine_panels(run),
        host_zero,
    }
}

/// `all`, then every kind of operation that has ended at least once, in the order of first appearance.
fn ops(facts: &[Vec<PhaseFacts<'_>>]) -> Vec<String> {
    let seen = facts.iter().flatten().flat_map(|facts| {
        let ended = facts.phase.slices.iter().flat_map(move |slice| facts.operations(slice));
        let ended = ended.filter(|one| !one.histogram.is_empty()).map(|one| one.kind);
        let asked = facts.phase.end.asked.iter().map(|asked| asked.kind);
        ended.chain(asked).map(move |kind| facts.op_name(kind))
    });
    let ops: IndexSet<&str> = std::iter::once("all").chain(seen).collect();
    ops.into_iter().map(str::to_string).collect()
}

fn bands(run: &Run, facts: &[Vec<PhaseFacts<'_>>], end_ns: u64) -> Vec<Band> {
    let mut bands = Vec::new();
    for (position, (trial, facts)) in run.trials.iter().zip(facts).enumerate() {
        for (at, facts) in facts.iter().enumerate() {
            let phase = facts.phase;
            let last_warmup = phase.slices.iter().rfind(|slice| facts.is_warmup(slice));
            bands.push(Band {
                start_s: phase.header.start_ns as f64 / 1e9,
                end_s: phase_end_ns(trial, at, end_ns) as f64 / 1e9,
                trial: position,
                trial_name: name::short(&trial.header),
                phase: phase.header.name.clone(),
                kind: phase.header.kind,
                warmup_end_s: last_warmup.map(|slice| slice.end_ns as f64 / 1e9),
            });
        }
    }
    bands
}

/// Pauses of the machine with their aftermath, where a witness saw them.
fn pauses(run: &Run) -> Vec<(f64, f64)> {
    let slices = run.trials.iter().flat_map(|trial| &trial.phases).flat_map(|phase| &phase.slices);
    let seen = slices.filter_map(|slice| slice.watched.as_ref()).flat_map(|watched| &watched.pauses);
    let mut spans: Vec<(u64, u64)> = seen.map(|pause| (pause.start_ns, pause.until_ns())).collect();
    spans.sort_unstable();
    spans.dedup_by(|next, last| {
        let meet = next.0 <= last.1;
        last.1 = if meet { last.1.max(next.1) } else { last.1 };
        meet
    });
    spans.into_iter().map(|(from_ns, to_ns)| (from_ns as f64 / 1e9, to_ns as f64 / 1e9)).collect()
}

/// Lines in which a slice's value holds from its start to its end, with a gap after every phase.
struct Steps {
    t_s: Vec<f64>,
    lines: Vec<(String, Vec<Option<f64>>)>,
}

impl Steps {
    fn new(names: impl Iterator<Item = String>) -> Steps {
        Steps { t_s: Vec::new(), lines: names.map(|name| (name, Vec::new())).collect() }
    }

    fn push(&mut self, at_s: f64, values: &[Option<f64>]) {
        self.t_s.push(at_s);
        for ((_, line), value) in self.lines.iter_mut().zip(values) {
            line.push(*value);
        }
    }

    /// Holds the last values until `end_s`, then leaves a gap.
    fn end(&mut self, end_s: f64) {
        let last: Vec<Option<f64>> = self.lines.iter().map(|(_, line)| line.last().copied().flatten()).collect();
        self.push(end_s, &last);
        self.push(end_s + 1e-6, &vec![None; last.len()]);
    }

    fn panel(self, name: &str, unit: &str) -> Panel {
        // A line without any value would only be a name in the legend.
        let lines = self.lines.into_iter().filter(|(_, values)| values.iter().any(Option::is_some));
        Panel {
            name: name.to_string(),
            unit: unit.to_string(),
            source: "drive".to_string(),
            steps: true,
            primary: true,
            t_s: self.t_s,
            lines: lines.map(|(name, values)| Line::new(name, values)).collect(),
        }
    }
}

/// The phases whose operations are kept in slices and are many.
fn loaded<'f, 'a>(facts: &'f [Vec<PhaseFacts<'a>>]) -> impl Iterator<Item = &'f PhaseFacts<'a>> {
    facts.iter().flatten().filter(|facts| facts.phase.header.kind != PhaseKind::Ask && !facts.phase.slices.is_empty())
}

/// Operations (of a load: records) a second in the phases of `phase_kind`.
fn throughput(run: &Run, facts: &[Vec<PhaseFacts<'_>>], ops: &[String], phase_kind: PhaseKind) -> Steps {
    let kinds = ops.get(1..).unwrap_or_default();
    let names = kinds.iter().cloned().chain(["errors".to_string()]);
    let mut steps = Steps::new(names);
    let short_s = run.header.slice_ns as f64 / 1e9 * SHORT_SLICE;
    for facts in loaded(facts).filter(|facts| facts.phase.header.kind == phase_kind) {
        let per_op = records_per_op(facts);
        // What drains after the planned end is no throughput.
        let whole = |slice: &&Slice<Distribution>| slice_s(slice) >= short_s && !slice.drain;
        let any_whole = facts.phase.slices.iter().any(|slice| whole(&slice));
        let slices: Vec<_> = facts.phase.slices.iter().filter(|slice| !any_whole || whole(slice)).collect();
        for slice in &slices {
            let count = |op: Option<&str>, wanted: fn(Outcome) -> bool| {
                facts
                    .ended(slice)
                    .filter(|one| wanted(one.outcome) && facts.is_kind(one.kind, op))
                    .map(|one| one.histogram.len())
                    .sum::<u64>() as f64
            };
            let length_s = slice_s(slice).max(1e-9);
            let in_phase = |op: &String| facts.histograms.keys().any(|(kind, _, _)| facts.op_name(*kind) == op);
            let mut values: Vec<Option<f64>> = kinds
                .iter()
                .map(|op| in_phase(op).then(|| count(Some(op), |outcome| !outcome.is_error()) * per_op / length_s))
                .collect();
            let errors = count(None, Outcome::is_error);
            values.push((errors > 0.0 || facts.count(None, Outcome::is_error) > 0).then(|| errors / length_s));
            steps.push(slice.start_ns as f64 / 1e9, &values);
        }
        slices.last().into_iter().for_each(|last| steps.end(last.end_ns as f64 / 1e9));
    }
    steps
}

/// Records to an operation of a load, so that loads of different batches are drawn alike; 1 elsewhere.
fn records_per_op(facts: &PhaseFacts<'_>) -> f64 {
    let ops = facts.count(None, |outcome| !outcome.is_error());
    let complete = facts.phase.end.state == PhaseState::Complete;
    if facts.phase.header.kind == PhaseKind::Load && complete && ops > 0 {
        facts.trial.header.record_count as f64 / ops as f64
    } else {
        1.0
    }
}

fn slice_s(slice: &Slice<Distribution>) -> f64 {
    slice.length_ns() as f64 / 1e9
}

/// The kind at position `op` of the plots' list; `None` for all together.
fn op_filter(ops: &[String], op: usize) -> Option<&str> {
    if op == 0 { None } else { ops.get(op).map(String::as_str) }
}

fn latency_panel(facts: &[Vec<PhaseFacts<'_>>], ops: &[String], op: usize) -> Panel {
    let op = op_filter(ops, op);
    let mut steps = Steps::new(["p50", "p90", "p95", "p99", "max"].into_iter().map(str::to_string));
    for facts in loaded(facts) {
        for slice in &facts.phase.slices {
            let waited = facts.waited_in(slice, op);
            let p = |name| waited.percentile(name).ok().map(|ns| ns as f64 / 1e9);
            let max = (!waited.is_empty()).then(|| waited.max_ns() as f64 / 1e9);
            steps.push(slice.start_ns as f64 / 1e9, &[p("p50"), p("p90"), p("p95"), p("p99"), max]);
        }
        steps.end(facts.phase.slices.last().map_or(0.0, |slice| slice.end_ns as f64 / 1e9));
    }
    steps.panel("Latency", "s")
}

fn heat(facts: &[Vec<PhaseFacts<'_>>], ops: &[String], op: usize) -> HeatMap {
    let op = op_filter(ops, op);
    let slices: usize = facts.iter().flatten().map(|facts| facts.phase.slices.len()).sum();
    // Slices to a column: a screen has no more pixels, and an hour's page would be megabytes.
    let columns_max = (ALL_COLUMNS_MAX / ops.len().max(1)).clamp(COLUMNS_MIN, COLUMNS_MAX);
    let together = slices.div_ceil(columns_max).max(1);
    let mut columns_s = Vec::new();
    // Column, row as the logarithm's step, count.
    let mut cells: Vec<(u32, i32, u64)> = Vec::new();
    let mut add = |span_s: (f64, f64), times: &Times| {
        if times.is_empty() {
            return;
        }
        let column = columns_s.len() as u32;
        columns_s.push(span_s);
        for (ns, count) in times.counts() {
            let row = (((*ns).max(1) as f64).log10() * ROWS_PER_DECADE).floor() as i32;
            match cells.last_mut() {
                Some(last) if last.0 == column && last.1 == row => last.2 += count,
                _ => cells.push((column, row, *count)),
            }
        }
    };
    for facts in facts.iter().flatten() {
        let phase = facts.phase;
        for slices in phase.slices.chunks(together) {
            let mut times = Times::default();
            slices.iter().for_each(|slice| times.add(facts.waited_in(slice, op).counts()));
            if let (Some(first), Some(last)) = (slices.first(), slices.last()) {
                add((first.start_ns as f64 / 1e9, last.end_ns as f64 / 1e9), &times);
            }
        }
        let is_shown = |one: &&Asked| phase.slices.is_empty() && op.is_none_or(|op| facts.op_name(one.kind) == op);
        for asked in phase.end.asked.iter().filter(|one| !one.outcome.is_error()).filter(is_shown) {
            let mut one = Times::default();
            one.add(&[(asked.end_ns.saturating_sub(asked.start_ns), 1)]);
            add((asked.start_ns as f64 / 1e9, asked.end_ns as f64 / 1e9), &one);
        }
    }
    let low = cells.iter().map(|cell| cell.1).min().unwrap_or(0);
    let high = cells.iter().map(|cell| cell.1).max().unwrap_or(-1);
    HeatMap {
        edges_s: (low..=high + 1).map(|row| 10f64.powf(f64::from(row) / ROWS_PER_DECADE) / 1e9).collect(),
        columns_s,
        count_max: cells.iter().map(|cell| cell.2).max().unwrap_or(0),
        cells: cells.into_iter().map(|(column, row, count)| (column, (row - low) as u32, count)).collect(),
    }
}

fn curves(facts: &[Vec<PhaseFacts<'_>>], ops: &[String]) -> Vec<Curve> {
    let mut curves = Vec::new();
    let stands = |facts: &&PhaseFacts<'_>| !matches!(facts.phase.end.state, PhaseState::Void(_));
    for facts in facts.iter().flatten().filter(|facts| facts.phase.header.kind == PhaseKind::Drive).filter(stands) {
        for op in 0..ops.len() {
            let waited = facts.waited(op_filter(ops, op));
            let (nines, seconds) = waited.curve();
            if !nines.is_empty() {
                curves.push(Curve {
                    trial_name: name::short(&facts.trial.header),
                    phase: facts.phase.header.name.clone(),
                    op,
                    n: waited.len(),
                    nines,
                    seconds,
                });
            }
        }
    }
    curves
}
