//! The trials: what their data take, what each store is and said, and what every phase came to.

use plimsoll_analysis::RunView;
use plimsoll_analysis::number;
use plimsoll_analysis::size::is_of_size;
use plimsoll_analysis::view::{EndState, PhaseKind, PhaseView, ResultName, ResultView, TrialView};
use plimsoll_core::{Durability, Footprint, Setting};

use super::{Body, Cell, ColumnOf, Table, Text, Tone, numbers, or_none, words};
use crate::cells;

/// Name of a store's plan for an operation.
const PLAN_OF_STORE: &str = "plan of the store";
/// Name of the sentence about the promise of a store's own settings.
const PROMISE: &str = "acknowledged writes";

/// Space that the data of each trial take; with `full`, every trial in detail.
pub fn space<'v>(view: &'v RunView, full: bool) -> Body<'v> {
    // The rungs of a search are about the same data.
    let is_series = !view.lines.is_empty() || view.ab.is_some();
    let is_first = |trial: &TrialView| {
        view.trials.iter().find(|one| one.store == trial.store).is_some_and(|first| first.ordinal == trial.ordinal)
    };
    let shown = || view.trials.iter().filter(|trial| full || !is_series || is_first(trial));
    let bytes = |trial: &TrialView, of: fn(Footprint) -> Option<u64>| -> Cell {
        // A store that has records and reports no byte has not counted.
        let bytes = trial.footprint.as_ref().and_then(|footprint| of(footprint.bytes)).filter(|bytes| *bytes > 0);
        or_none(bytes.map(|bytes| number::bytes(bytes as f64))).into()
    };
    let has_written = view.trials.iter().any(|trial| trial.device_bytes_per_record.is_some());
    let columns: [ColumnOf<'_, &'v TrialView>; 9] = [
        (words("trial"), &|trial| (&trial.name).into()),
        (numbers("records").when(full), &|trial| number::count(trial.record_count).into()),
        (numbers("data"), &|trial| bytes(trial, |footprint| Some(footprint.data_bytes))),
        (numbers("index"), &|trial| bytes(trial, |footprint| footprint.index_bytes)),
        (numbers("all on disk"), &|trial| bytes(trial, |footprint| footprint.total_bytes)),
        (numbers("written per record").when(has_written), &|trial| {
            or_none(trial.device_bytes_per_record.map(number::bytes)).into()
        }),
        (numbers("÷ its own bytes").when(has_written), &|trial| {
            or_none(trial.write_amplification.map(|times| number::with_unit(times, "×"))).into()
        }),
        (words("state").when(full), &|trial| state(trial.state).into()),
        (words("version").when(full), &|trial| (&trial.version).into()),
    ];
    let is_known = |trial: &&TrialView| full || trial.footprint.is_some() || trial.device_bytes_per_record.is_some();
    let table = Table::of("Trials", &shown().filter(is_known).collect::<Vec<_>>(), &columns);
    let mut body = Body::noted(
        "after load and settle; written by both: all bytes that came to the store's simulated disk, which holds nothing else",
    );
    body.first_rows(table, full);
    let sizes = shown().filter_map(|trial| Some((trial, trial.size.as_ref()?)));
    body.list(
        Tone::Plain,
        sizes.map(|(trial, size)| Tone::Strong.text(&trial.name).then(Tone::Plain, format!(": {}", size.sentence))),
    );
    if full {
        view.trials.iter().for_each(|trial| body.fold(&trial.name, false, detail(trial)));
    }
    body
}

fn state(state: EndState) -> Text {
    let tone = match state {
        EndState::Complete => Tone::Good,
        EndState::Failed | EndState::Void => Tone::Bad,
        EndState::Interrupted | EndState::Killed | EndState::Running => Tone::Open,
    };
    tone.text(state.name())
}

/// Reports the plan of each store for the operations, in its own words.
pub fn plans<'a>(view: &RunView) -> Body<'a> {
    let remarks = view.trials.iter().flat_map(|trial| trial.remarks.iter().map(move |remark| (trial, remark)));
    let plans = remarks.filter(|(_, remark)| remark.name == PLAN_OF_STORE);
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut body = Body::noted("in the store's own words");
    body.pairs(plans.map(|(trial, remark)| (format!("{} {}", trial.name, remark.phase), one_line(&remark.text))));
    body
}

/// Trials that are named with their settings.
const NAMED_MAX: usize = 3;

/// Lists versions, and differences from the stores' defaults. Trials with the same ones share a line, which names them if
/// other trials of the store have other ones.
pub fn settings<'a>(view: &RunView) -> Body<'a> {
    let one = |setting: &Setting| match &setting.default {
        Some(default) if *default != setting.value => format!("{} = {} (not {default})", setting.name, setting.value),
        _ => format!("{} = {}", setting.name, setting.value),
    };
    let mut said: Vec<(&str, String, Vec<&str>)> = Vec::new();
    for trial in &view.trials {
        let settings = match trial.settings.as_slice() {
            [] => "defaults".to_owned(),
            all => all.iter().map(one).collect::<Vec<_>>().join(", "),
        };
        let promises = trial.remarks.iter().filter(|remark| remark.name == PROMISE);
        let version = if trial.version.is_empty() { String::new() } else { format!("{}; ", trial.version) };
        for text in std::iter::once(version + &settings).chain(promises.map(|remark| remark.text.clone())) {
            match said.iter_mut().find(|(store, known, _)| *store == trial.store && *known == text) {
                Some((.., trials)) if trials.last() == Some(&trial.name.as_str()) => {}
                Some((.., trials)) => trials.push(&trial.name),
                None => said.push((&trial.store, text, vec![trial.name.as_str()])),
            }
        }
    }
    let whose = |store: &str, trials: &[&str]| {
        if trials.len() == view.trials.iter().filter(|trial| trial.store == store).count() {
            return store.to_owned();
        }
        let mut names: Vec<String> = trials.iter().take(NAMED_MAX).map(|name| (*name).to_owned()).collect();
        let more = trials.len() - names.len();
        names.extend((more > 0).then(|| format!("{} more", number::count(more as u64))));
        number::list(&names)
    };
    let mut body = Body::noted("version, and settings that differ from the store's defaults");
    body.pairs(said.into_iter().map(|(store, text, trials)| (whose(store, &trials), text)));
    body
}

fn detail<'a>(trial: &TrialView) -> Body<'a> {
    let mut body = Body::default();
    let place = [
        ("store", &trial.store_kind),
        ("version", &trial.version),
        ("place", &trial.place),
        ("workload", &trial.workload),
    ];
    body.pairs(place.into_iter().chain(trial.params.iter().map(|(name, value)| (name.as_str(), value))));
    body.heading("Phases", "");
    body.table(phases(trial));
    let mut said = Table::new("Messages of the store", ["phase", "about", "message"].map(words).to_vec());
    trial.remarks.iter().for_each(|remark| said.row(cells![&remark.phase, &remark.name, &remark.text]));
    if !trial.remarks.is_empty() {
        body.heading("Messages of the store", "");
    }
    body.table(said);
    let mut settings = Table::new(
        "Settings that differ from the defaults",
        ["setting", "value", "default", "set by"].map(words).to_vec(),
    );
    for one in &trial.settings {
        settings.row(cells![&one.name, &one.value, one.default.as_deref().unwrap_or(""), &one.source]);
    }
    body.heading("Settings", if trial.settings.is_empty() { "all have their defaults" } else { "not the defaults" });
    body.table(settings);
    body
}

fn phases(trial: &TrialView) -> Table {
    let clients = |n: u32| if n > 0 { number::count(n.into()) } else { String::new() };
    let ended = |phase: &PhaseView| {
        Cell::from(state(phase.state)).with(phase.reason.iter().chain(&phase.late).chain(&phase.shortfall).cloned())
    };
    let columns: [ColumnOf<'_, PhaseView>; 8] = [
        (words("phase"), &|phase| (&phase.name).into()),
        (words("kind"), &|phase| phase.kind.name().into()),
        (words("durability"), &|phase| phase.durability.map_or("", Durability::name).into()),
        (numbers("clients"), &|phase| clients(phase.clients).into()),
        (numbers("from"), &|phase| format!("{:.2} s", phase.start_s).into()),
        (numbers("took"), &|phase| or_none(phase.seconds.map(number::seconds)).into()),
        (words("result"), &|phase| came_to(phase).into()),
        (words("state"), &ended),
    ];
    Table::of("Phases", &trial.phases, &columns)
}

/// True for results that the row has said already: how long it took has a column of its own, and rates, counts and
/// lag stand before them as analysis derives them, without warm-up.
fn said(phase: &PhaseView, result: &ResultView) -> bool {
    match result.what {
        ResultName::Seconds => phase.kind != PhaseKind::Load,
        ResultName::Ops => matches!(phase.kind, PhaseKind::Drive | PhaseKind::Ask),
        ResultName::Records | ResultName::PlannedSeconds | ResultName::Unfinished => true,
        ResultName::ClientSeconds | ResultName::ThinkSeconds | ResultName::Due => true,
        ResultName::LagP50 | ResultName::LagP99 | ResultName::LagMax => true,
        ResultName::AnswerStatus | ResultName::BodyMedianBytes | ResultName::BodyMaxBytes => true,
        ResultName::Retries | ResultName::GivenUp => true,
        ResultName::BreakerOpened | ResultName::BreakerRejected => true,
        ResultName::LostConnections | ResultName::EndedConnections | ResultName::FailedConnects => result.value == 0.0,
        what => is_of_size(what),
    }
}

/// Summarises a phase in one cell: its asked operations, its rate, its results.
fn came_to(phase: &PhaseView) -> Text {
    let mut parts = Vec::new();
    for asked in &phase.asked {
        if let (Some(median), Some(min), Some(max)) = (asked.median_s, asked.min_s, asked.max_s) {
            let rest = format!(
                " median of {}, {} to {}, {}",
                number::count(asked.n - asked.errors),
                number::seconds(min),
                number::seconds(max),
                number::plural(asked.rows, "row", "rows"),
            );
            let median = Text::from(format!("{}: ", asked.op)).then(Tone::Strong, number::seconds(median));
            parts.push(median.then(Tone::Plain, rest));
        }
        if asked.errors > 0 {
            parts.push(Tone::Bad.text(number::plural(asked.errors, "error", "errors")));
        }
    }
    if let Some(ops) = phase.ops.as_ref().filter(|_| phase.kind == PhaseKind::Drive) {
        let rate = number::marked(number::with_unit(ops.rate_per_s, "1/s"), phase.late.is_some());
        let rest = format!(", {} operations in {}", number::count(ops.count), number::seconds(ops.seconds));
        parts.push(Tone::Strong.text(rate).then(Tone::Plain, rest));
        let unsent = match phase.state {
            EndState::Interrupted => (ops.unfinished, "due and not sent when it was interrupted", Tone::Plain),
            _ => (ops.unfinished, "never sent", Tone::Bad),
        };
        for (n, word, tone) in [(ops.rejected, "rejected", Tone::Bad), (ops.unknown, "unknown", Tone::Bad), unsent] {
            if n > 0 {
                parts.push(tone.text(number::count(n)).then(Tone::Plain, format!(" {word}")));
            }
        }
    }
    if let Some(rate) = phase.scheduled_rate_per_s {
        parts.push(format!("scheduled {}", number::with_unit(rate, "1/s")).into());
    }
    if let Some(lag) = &phase.lag {
        let (p50, p99) = (number::nanoseconds(lag.p50_ns), number::nanoseconds(lag.p99_ns));
        parts.push(format!("generator late by {p50} (p50), {p99} (p99)").into());
    }
    if let (Some(settled), Some(with)) = (phase.settled_after_s, phase.rate_with_warmup_per_s) {
        let (settled, with) = (number::seconds(settled), number::with_unit(with, "1/s"));
        parts.push(
            format!("the first {settled} were found to be warm-up and are not counted (with them: {with})").into(),
        );
    } else if let Some(settled) = phase.settled_after_s {
        parts.push(format!("settled after {} (found in its slices)", number::seconds(settled)).into());
    }
    if let Some(cores) = phase.worker_cores {
        parts.push(format!("workers used {} cores", number::significant(cores)).into());
    }
    if let Some(rate) = phase.records_per_s {
        parts.push(Tone::Strong.text(number::with_unit(rate, "records/s")));
    }
    let results = phase.results.iter().filter(|result| !said(phase, result));
    parts.extend(results.map(|result| format!("{} {}", result.name.replace('_', " "), result.text).into()));
    Text::joined(parts, "; ")
}
