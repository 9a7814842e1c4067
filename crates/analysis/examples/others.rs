//! Answers of the analysis about series that other programs recorded, for `cargo xtask findings --others`.
//!
//! A line of the input is a JSON object about one data set, and the line of the output is its answer.
//!
//! | input | content |
//! |---|---|
//! | `step_s` | time between two readings, in seconds |
//! | `region` | first reading of the anomaly, and the one after its last, from 0 |
//! | `operations` | operations per second at each reading; `null` if unknown, as in all lists |
//! | `latency_s` | mean latency at each reading, in seconds; an empty list if it is unknown |
//! | `series` | series with `source`, `subject`, `name` and `unit` as samplers have them, `is_total` and `values` |
//!
//! | output | content |
//! |---|---|
//! | `given` | series that clearly differ in the region, in the order of a selection: `name`, and `rises` |
//! | `found` | names that findings have for causes of slow moments in the region, and for what changed with a level there |

#![allow(clippy::print_stdout, reason = "it answers on standard output")]

use std::error::Error;

use hdrhistogram::Histogram;
use plimsoll_analysis::selection::{self, Selection};
use plimsoll_analysis::view::{DifferenceOf, FindingView};
use plimsoll_core::{Call, Measure, OpKind, Outcome, Slice, SliceHistogram};
use plimsoll_record::Distribution;
use plimsoll_record::data::{
    Outline, Phase, PhaseEnd, PhaseHeader, PhaseKind, PhaseState, Run, RunHeader, RunState, Sample, Series, SeriesKind,
    Trial, TrialHeader,
};
use serde_json::{Value, json};

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

/// Longest time of a histogram.
const HOUR_NS: u64 = 3_600_000_000_000;
/// Latency of operations of which none was recorded. All are equal, so that only throughput makes moments slow.
const UNKNOWN_LATENCY_S: f64 = 1e-3;
/// Readings after the region in which a level that is about it may begin.
const LEVEL_OFF: f64 = 5.0;
/// Clients of a phase: so many that one of them is no share of the load.
const CLIENTS: u32 = 128;

fn main() -> Result {
    for line in std::io::stdin().lines() {
        println!("{}", answer(&serde_json::from_str(&line?)?)?);
    }
    Ok(())
}

fn answer(question: &Value) -> Result<Value> {
    let step_s = question["step_s"].as_f64().filter(|step_s| *step_s > 0.0).ok_or("no `step_s`")?;
    let slice_ns = (step_s * 1e9) as u64;
    let position = |at: usize| question["region"][at].as_u64().ok_or("no `region`");
    let (first, end) = (position(0)?, position(1)?);
    let run = run(question, slice_ns, step_s)?;
    let (from_ns, to_ns) = (first * slice_ns, end * slice_ns);
    let selection = Selection { from_ns: Some(from_ns), to_ns: Some(to_ns), ..Selection::default() };
    let compared = selection::explain(&run, &selection).map_err(|refused| refused.what)?;
    let series = compared.differences.iter().filter(|one| one.of == DifferenceOf::Series && one.clear);
    let given: Vec<Value> = series.map(|one| json!({ "name": one.name, "rises": one.inside > one.outside })).collect();
    let (from_s, to_s) = (from_ns as f64 / 1e9, to_ns as f64 / 1e9);
    let is_about =
        |finding: &FindingView, to_s: f64| finding.spans_s.iter().any(|(start, end)| *start < to_s && *end > from_s);
    let view = plimsoll_analysis::view(&run);
    let mut found: Vec<&str> = Vec::new();
    for finding in &view.findings {
        let named = match finding.rule {
            "cause" if is_about(finding, to_s) => 1,
            // Of a region at the beginning the level is the time after it.
            "level" if is_about(finding, to_s + LEVEL_OFF * step_s) => finding.evidence.len(),
            _ => 0,
        };
        for evidence in finding.evidence.iter().take(named) {
            // Throughput and latency may change with the same series.
            if !found.contains(&evidence.series.as_str()) {
                found.push(&evidence.series);
            }
        }
    }
    Ok(json!({ "given": given, "found": found }))
}

/// Returns the run that a recording of the data set would have given back.
fn run(question: &Value, slice_ns: u64, step_s: f64) -> Result<Run> {
    let latency_s = values(&question["latency_s"]);
    let mut slices = Vec::new();
    let mut last = 0.0;
    for (at, operations) in values(&question["operations"]).into_iter().enumerate() {
        // A reading that is missing is no fall of the throughput.
        last = operations.unwrap_or(last);
        let latency_s = latency_s.get(at).copied().flatten().unwrap_or(UNKNOWN_LATENCY_S);
        slices.push(slice(at, slice_ns, last * step_s, latency_s)?);
    }
    let end_ns = slices.len() as u64 * slice_ns;
    let mut samples: Vec<Sample> =
        slices.iter().map(|slice| Sample { at_ns: slice.end_ns, ..Sample::default() }).collect();
    let mut series = Vec::new();
    for (position, one) in question["series"].as_array().ok_or("no `series`")?.iter().enumerate() {
        let text = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
        let kind = if one["is_total"] == true { SeriesKind::Total } else { SeriesKind::Level };
        let (source, subject, name, unit) = (text("source"), text("subject"), text("name"), text("unit"));
        series.push(Series { source, subject, name, unit, kind });
        for (sample, value) in samples.iter_mut().zip(values(&one["values"])) {
            sample.values.extend(value.map(|value| (position as u32, value)));
        }
    }
    let phase = Phase {
        header: phase_header(),
        end: PhaseEnd { end_ns, state: PhaseState::Complete, ..PhaseEnd::default() },
        slices,
        ..Phase::default()
    };
    let trial = Trial { header: trial_header(), end_ns: Some(end_ns), phases: vec![phase], ..Trial::default() };
    Ok(Run {
        header: run_header(slice_ns),
        state: RunState::Complete,
        end_ns: Some(end_ns),
        trials: vec![trial],
        series,
        samples,
        ..Run::default()
    })
}

/// Returns the numbers of a list; `None` for each that is unknown.
fn values(list: &Value) -> Vec<Option<f64>> {
    list.as_array().into_iter().flatten().map(Value::as_f64).collect()
}

fn slice(at: usize, slice_ns: u64, operations: f64, latency_s: f64) -> Result<Slice<Distribution>> {
    let mut histogram = Histogram::<u64>::new_with_bounds(1, HOUR_NS, 3)?;
    let (count, latency_ns) = (operations.max(0.0).round() as u64, (latency_s * 1e9) as u64);
    if count > 0 {
        histogram.record_n(latency_ns.clamp(1, HOUR_NS), count)?;
    }
    let histogram = Distribution::from(&histogram);
    let served = SliceHistogram { kind: 0, outcome: Outcome::Ok, measure: Measure::Service, histogram };
    let start_ns = at as u64 * slice_ns;
    let end_ns = start_ns + slice_ns;
    Ok(Slice { ordinal: at as u32, start_ns, end_ns, histograms: vec![served], ..Slice::default() })
}

fn run_header(slice_ns: u64) -> RunHeader {
    RunHeader {
        id: "others".to_owned(),
        plimsoll_version: env!("CARGO_PKG_VERSION").to_owned(),
        plan_name: "others".to_owned(),
        outline: Outline { trials: 1, ..Outline::default() },
        slice_ns,
        ..RunHeader::default()
    }
}

fn trial_header() -> TrialHeader {
    TrialHeader {
        store: "store".to_owned(),
        store_label: "store".to_owned(),
        workload: "others".to_owned(),
        kinds: vec![OpKind::new("operation", Call::Nothing, &[])],
        ..TrialHeader::default()
    }
}

fn phase_header() -> PhaseHeader {
    PhaseHeader {
        name: "recorded".to_owned(),
        kind: PhaseKind::Drive,
        clients: CLIENTS,
        workers: 1,
        ..PhaseHeader::default()
    }
}
