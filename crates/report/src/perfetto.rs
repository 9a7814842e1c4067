//! A run as a trace in JSON, for ui.perfetto.dev and Perfetto's `trace_processor`.
//!
//! The format is that of Chrome's trace events: `X` is a span with start and duration in microseconds, `i` a moment,
//! `C` values of counters, and `M` names processes and threads. Perfetto shows these as groups and tracks. Spans of
//! one track must not overlap unless one contains the other, so spans that overlap get several tracks.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufWriter, Write};

use plimsoll_analysis::RunView;
use plimsoll_analysis::spans::{SpanKind, SpanRow};
use plimsoll_analysis::view::Panel;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Groups of tracks, in the order of their numbers, which begin at 1.
const GROUPS: [&str; 8] = [
    "Run",
    "Load",
    "Faults and actions",
    "Slow moments",
    "Pauses of the machine",
    "Stores",
    "Samplers",
    "Events of the run",
];
const RUN: u32 = 1;
const LOAD: u32 = 2;
const FAULTS: u32 = 3;
const SLOW: u32 = 4;
const PAUSES: u32 = 5;
const STORES: u32 = 6;
const SAMPLERS: u32 = 7;
const EVENTS: u32 = 8;
/// Number of the first track. A track with the number of a group would be its main thread.
const FIRST_TRACK: u32 = 101;
/// Longest time between the end of a phase in a panel and the gap behind it, seconds.
const GAP_S: f64 = 2e-6;

/// Span, or moment of no length, with the spans inside of it. Times are microseconds on the run's clock.
struct Bar {
    name: String,
    start_us: u64,
    end_us: u64,
    is_moment: bool,
    args: Map<String, Value>,
    inside: Vec<Bar>,
}

impl Bar {
    fn new(name: &str, start_ns: u64, end_ns: u64) -> Self {
        // Rounding down keeps the order of times, so that spans still contain each other.
        let (start_us, end_us) = (start_ns / 1_000, end_ns / 1_000);
        Self { name: name.to_owned(), start_us, end_us, is_moment: false, args: Map::new(), inside: Vec::new() }
    }

    fn of(span: &SpanRow) -> Self {
        let mut bar = Self::new(&span.name, span.start_ns, span.end_ns);
        bar.is_moment =
            matches!(span.kind, SpanKind::Cycle | SpanKind::Event | SpanKind::Action) && span.start_ns == span.end_ns;
        bar.args = args(span);
        let takes = span.taken_ns.map(|taken_ns| Self::new("takes effect", span.start_ns, taken_ns));
        let heals = span.healing_ns.map(|healing_ns| Self::new("heals", healing_ns, span.end_ns));
        bar.inside.extend(takes.into_iter().chain(heals));
        bar
    }
}

/// Returns the details that are shown for a selected span.
fn args(span: &SpanRow) -> Map<String, Value> {
    let text = |value: &str| (!value.is_empty()).then(|| Value::from(value));
    let details = [
        ("trial", text(&span.trial)),
        ("phase", text(&span.phase)),
        ("subject", text(&span.subject)),
        ("planned_s", span.planned_ns.map(|ns| Value::from(ns as f64 / 1e9))),
        ("level", span.level.map(|level| Value::from(level.name()))),
        ("error", span.error.as_deref().map(Value::from)),
        ("has_ended", (!span.has_ended).then_some(Value::from(false))),
    ];
    details.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// Spans by the number of their group and the name of their track, in time order.
type Tracks = BTreeMap<(u32, String), Vec<Bar>>;

/// Returns the spans as bars. Phases are inside of their trials, warm-up and asked operations inside of their phases.
fn tracks(spans: &[SpanRow]) -> Tracks {
    let mut tracks = Tracks::new();
    let mut trials: Vec<(Option<u32>, Bar)> = Vec::new();
    for span in spans {
        let bar = Bar::of(span);
        let (group, name) = match span.kind {
            SpanKind::Trial => {
                trials.push((span.trial_ordinal, bar));
                continue;
            }
            SpanKind::Phase | SpanKind::Warmup | SpanKind::Asked => {
                let trial = trials.iter_mut().rfind(|(ordinal, _)| *ordinal == span.trial_ordinal);
                let Some((_, trial)) = trial else { continue };
                match trial.inside.last_mut().filter(|_| span.kind != SpanKind::Phase) {
                    Some(phase) => phase.inside.push(bar),
                    None => trial.inside.push(bar),
                }
                continue;
            }
            SpanKind::Fault => (FAULTS, "faults".to_owned()),
            SpanKind::Action => (FAULTS, "actions".to_owned()),
            SpanKind::Stall => (SLOW, "stalls".to_owned()),
            SpanKind::Peak => (SLOW, "peaks of latency".to_owned()),
            SpanKind::Pause => (PAUSES, span.subject.clone()),
            SpanKind::Cycle => (STORES, "cycles".to_owned()),
            SpanKind::Event => (EVENTS, "events".to_owned()),
        };
        tracks.entry((group, name)).or_default().push(bar);
    }
    tracks.insert((RUN, "trials and phases".to_owned()), trials.into_iter().map(|(_, trial)| trial).collect());
    tracks
}

/// Distributes spans in time order over as few tracks as possible, on each of which they follow each other.
fn apart(bars: Vec<Bar>) -> Vec<Vec<Bar>> {
    let mut tracks: Vec<Vec<Bar>> = Vec::new();
    for bar in bars {
        let is_free = |track: &&mut Vec<Bar>| track.last().is_none_or(|last| last.end_us <= bar.start_us);
        match tracks.iter_mut().find(is_free) {
            Some(track) => track.push(bar),
            None => tracks.push(vec![bar]),
        }
    }
    tracks
}

/// Event of the format. Times are microseconds.
#[derive(Serialize)]
struct TraceEvent<'a> {
    ph: &'static str,
    pid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    tid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<u64>,
    /// Scope of a moment: `t` is its track.
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<&'static str>,
    name: &'a str,
    args: Map<String, Value>,
}

/// Trace that is being written, an event a line.
struct Trace<W: Write> {
    out: W,
    is_first: bool,
    /// Groups that have a name already.
    groups: BTreeSet<u32>,
    next_track: u32,
}

impl<W: Write> Trace<W> {
    fn event(&mut self, event: &TraceEvent<'_>) -> io::Result<()> {
        self.out.write_all(if self.is_first { "\n" } else { ",\n" }.as_bytes())?;
        self.is_first = false;
        serde_json::to_writer(&mut self.out, event).map_err(io::Error::from)
    }

    /// Names a group, if `what` is `process_name`, or a track.
    fn name(&mut self, what: &str, (pid, tid): (u32, Option<u32>), name: &str) -> io::Result<()> {
        let args = Map::from_iter([("name".to_owned(), Value::from(name))]);
        self.event(&TraceEvent { ph: "M", pid, tid, ts: None, dur: None, s: None, name: what, args })
    }

    fn group(&mut self, group: u32) -> io::Result<()> {
        match GROUPS.get(group.saturating_sub(1) as usize) {
            Some(name) if self.groups.insert(group) => self.name("process_name", (group, None), name),
            _ => Ok(()),
        }
    }

    fn track(&mut self, group: u32, name: &str, bars: &[Bar]) -> io::Result<()> {
        self.group(group)?;
        let track = self.next_track;
        self.next_track += 1;
        self.name("thread_name", (group, Some(track)), name)?;
        bars.iter().try_for_each(|bar| self.bar((group, track), bar, (0, u64::MAX)).map(|_| ()))
    }

    /// Writes a span between the bounds, in microseconds, that its surroundings set. Returns its end.
    fn bar(&mut self, (pid, tid): (u32, u32), bar: &Bar, (from_us, to_us): (u64, u64)) -> io::Result<u64> {
        let start_us = bar.start_us.clamp(from_us, to_us);
        let end_us = bar.end_us.clamp(start_us, to_us);
        self.event(&TraceEvent {
            ph: if bar.is_moment { "i" } else { "X" },
            pid,
            tid: Some(tid),
            ts: Some(start_us),
            dur: (!bar.is_moment).then_some(end_us - start_us),
            s: bar.is_moment.then_some("t"),
            name: &bar.name,
            args: bar.args.clone(),
        })?;
        let mut inside_us = start_us;
        for inner in &bar.inside {
            inside_us = self.bar((pid, tid), inner, (inside_us, end_us))?;
        }
        Ok(end_us)
    }

    /// Writes the lines of a panel as counters. A counter has no gaps: it keeps its value if one is missing, and is 0
    /// after a phase.
    fn counters(&mut self, group: u32, name: &str, panel: &Panel) -> io::Result<()> {
        self.group(group)?;
        let name = if panel.unit.is_empty() { name.to_owned() } else { format!("{name} ({})", panel.unit) };
        let (mut times, mut last_s) = (Vec::new(), f64::NEG_INFINITY);
        for (at, t_s) in panel.t_s.iter().copied().enumerate() {
            let is_end = panel.steps && (0.0..GAP_S).contains(&(t_s - last_s));
            let at_s: f64 = if is_end { last_s } else { t_s };
            times.push(((at_s.max(0.0) * 1e6).round() as u64, at, is_end));
            last_s = t_s;
        }
        // Trials that ran at once are not in time order.
        times.sort_unstable();
        for (at_us, at, is_end) in times {
            let value = |values: &[Option<f64>]| values.get(at).copied().flatten().filter(|value| value.is_finite());
            let lines = panel.lines.iter();
            let known: Vec<_> = lines.filter_map(|line| Some((line.name.clone(), value(&line.values)?))).collect();
            let args: Map<String, Value> = match known.is_empty() {
                true if is_end => panel.lines.iter().map(|line| (line.name.clone(), Value::from(0))).collect(),
                true => continue,
                false => known.into_iter().map(|(name, value)| (name, Value::from(value))).collect(),
            };
            let ts = Some(at_us);
            self.event(&TraceEvent { ph: "C", pid: group, tid: None, ts, dur: None, s: None, name: &name, args })?;
        }
        Ok(())
    }
}

/// Writes a run as a trace for Perfetto: spans on tracks, and counters.
///
/// # Errors
/// `out` cannot be written.
pub fn perfetto(view: &RunView, spans: &[SpanRow], out: impl Write) -> io::Result<()> {
    let mut trace =
        Trace { out: BufWriter::new(out), is_first: true, groups: BTreeSet::new(), next_track: FIRST_TRACK };
    trace.out.write_all(b"{\"traceEvents\":[")?;
    for ((group, name), bars) in tracks(spans) {
        for (at, bars) in apart(bars).iter().enumerate() {
            let name = if at == 0 { name.clone() } else { format!("{name} {}", at + 1) };
            trace.track(group, &name, bars)?;
        }
    }
    let plots = &view.plots;
    for panel in [&plots.throughput, &plots.loading] {
        trace.counters(LOAD, &panel.name, panel)?;
    }
    for (op, panel) in plots.ops.iter().zip(&plots.latency) {
        trace.counters(LOAD, &format!("{} of {op}", panel.name), panel)?;
    }
    for (group, panels) in [(STORES, &plots.store), (SAMPLERS, &plots.host)] {
        for panel in panels {
            trace.counters(group, &panel.name, panel)?;
        }
    }
    let run = &view.run;
    let about = json!({"run": run.id, "started": run.started, "plimsoll": run.plimsoll_version, "title": run.title});
    writeln!(trace.out, "\n],\n\"displayTimeUnit\":\"ms\",\n\"otherData\":{about}}}")?;
    trace.out.flush()
}

#[cfg(test)]
mod tests {
    use plimsoll_analysis::view::Line;

    use super::*;

    fn bar(start_us: u64, end_us: u64) -> Bar {
        Bar::new("", start_us * 1_000, end_us * 1_000)
    }

    #[test]
    fn spans_that_overlap_get_tracks_of_their_own() {
        let bars = vec![bar(0, 10), bar(5, 8), bar(7, 9), bar(8, 20), bar(10, 11)];
        let starts: Vec<Vec<u64>> =
            apart(bars).iter().map(|track| track.iter().map(|bar| bar.start_us).collect()).collect();
        assert_eq!(starts, [vec![0, 10], vec![5, 8], vec![7]]);
    }

    #[test]
    fn a_counter_is_0_after_a_phase_and_keeps_its_value_in_an_outage() {
        // Two seconds of a phase, the second of them an outage, and the first second of a phase that follows at once.
        let values = [Some(5.0), None, None, None, Some(7.0)].to_vec();
        let panel = Panel {
            name: "Latency".to_owned(),
            unit: "s".to_owned(),
            source: "drive".to_owned(),
            steps: true,
            primary: true,
            t_s: vec![1.0, 2.0, 3.0, 3.0 + 1e-6, 3.0],
            lines: vec![Line::new("p50", values)],
        };
        let mut trace = Trace { out: Vec::new(), is_first: true, groups: BTreeSet::new(), next_track: FIRST_TRACK };
        trace.counters(LOAD, "Latency", &panel).unwrap();
        let events: Vec<Value> = serde_json::from_str(&format!("[{}]", String::from_utf8(trace.out).unwrap())).unwrap();
        let counters = events.iter().filter(|event| event["ph"] == "C");
        let counters: Vec<(u64, f64)> =
            counters.map(|event| (event["ts"].as_u64().unwrap(), event["args"]["p50"].as_f64().unwrap())).collect();
        assert_eq!(counters, [(1_000_000, 5.0), (3_000_000, 0.0), (3_000_000, 7.0)]);
    }

    #[test]
    fn a_span_inside_of_another_is_written_within_its_bounds() {
        let mut outer = bar(10, 20);
        outer.inside = vec![bar(5, 12), bar(11, 30)];
        let mut trace = Trace { out: Vec::new(), is_first: true, groups: BTreeSet::new(), next_track: FIRST_TRACK };
        trace.track(RUN, "a \"track\"\n", &[outer]).unwrap();
        let text = format!("[{}]", String::from_utf8(trace.out).unwrap());
        let events: Vec<Value> = serde_json::from_str(&text).unwrap();
        assert_eq!(events[1]["args"]["name"], "a \"track\"\n");
        let spans = events.iter().filter(|event| event["ph"] == "X");
        let spans: Vec<(u64, u64)> =
            spans.map(|event| (event["ts"].as_u64().unwrap(), event["dur"].as_u64().unwrap())).collect();
        assert_eq!(spans, [(10, 10), (10, 2), (12, 8)]);
    }
}
