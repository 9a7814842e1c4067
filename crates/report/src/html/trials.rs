//! The section about the trials: what each store is, what it takes, and what every phase came to.

use plimsoll_analysis::RunView;
use plimsoll_analysis::number;
use plimsoll_analysis::size::is_of_size;
use plimsoll_analysis::view::{PhaseKind, PhaseView, ResultName, ResultView, TrialView};
use plimsoll_core::Durability;

use super::markup::{Table, Text, esc, numbers, pairs, words};

/// A table of all trials, then each in detail.
pub fn trials(view: &RunView) -> String {
    let mut table = Table::new(
        "Trials",
        vec![
            words("trial"),
            words("version"),
            numbers("records"),
            numbers("data"),
            numbers("index"),
            numbers("all on disk"),
            numbers("written per record"),
            numbers("÷ its own bytes"),
            words("state"),
        ],
    );
    let bytes = |bytes: Option<f64>| bytes.map_or("–".to_string(), number::bytes);
    for trial in &view.trials {
        let footprint = trial.footprint.as_ref();
        table.row(vec![
            esc(&trial.name),
            esc(&trial.version),
            number::count(trial.record_count),
            bytes(footprint.map(|footprint| footprint.data_bytes as f64)),
            bytes(footprint.and_then(|footprint| footprint.index_bytes).map(|bytes| bytes as f64)),
            bytes(footprint.and_then(|footprint| footprint.total_bytes).map(|bytes| bytes as f64)),
            bytes(trial.device_bytes_per_record),
            trial.write_amplification.map_or("–".to_string(), |times| number::with_unit(times, "×")),
            state(&trial.state),
        ]);
    }
    let mut out = table.html();
    if view.trials.iter().any(|trial| trial.device_bytes_per_record.is_some()) {
        out.push_str(
            "<p class=\"note\">Written per record: bytes that load and settle together wrote to the device, without \
             the recorder's own. Index: – where the store cannot tell it apart from the data.</p>\n",
        );
    }
    let sizes = view.trials.iter().filter_map(|trial| Some((trial, trial.size.as_ref()?)));
    let sizes: Vec<String> = sizes
        .map(|(trial, size)| format!("<li><b>{}</b>: {}</li>\n", Text(&trial.name), Text(&size.sentence)))
        .collect();
    if !sizes.is_empty() {
        out.push_str(&format!("<p>Data beside what can hold them:</p>\n<ul>\n{}</ul>\n", sizes.concat()));
    }
    for trial in &view.trials {
        out.push_str(&one(trial));
    }
    out
}

fn state(state: &str) -> String {
    let class = match state {
        "complete" => "pass",
        "failed" | "void" => "fail",
        _ => "incomplete",
    };
    format!("<span class=\"state {class}\">{}</span>", Text(state))
}

fn one(trial: &TrialView) -> String {
    let mut out = format!("<details class=\"trial\"><summary>{}</summary>\n", Text(&trial.name));
    let place = [
        ("store", trial.store_kind.as_str()),
        ("version", &trial.version),
        ("place", &trial.place),
        ("workload", &trial.workload),
    ];
    let params = trial.params.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    out.push_str(&pairs(place.into_iter().chain(params).filter(|(_, value)| !value.is_empty())));
    out.push_str(&phases(trial));
    let mut said = Table::new("What the store said", vec![words("phase"), words("about"), words("its words")]);
    for remark in &trial.remarks {
        let words =
            if remark.text.contains('\n') { format!("<pre>{}</pre>", Text(&remark.text)) } else { esc(&remark.text) };
        said.row(vec![esc(&remark.phase), esc(&remark.name), words]);
    }
    if !trial.remarks.is_empty() {
        out.push_str("<h4>What the store said</h4>\n");
        out.push_str(&said.html());
    }
    let mut settings = Table::new(
        "Settings that differ from the defaults",
        vec![words("setting"), words("value"), words("default"), words("set by")],
    );
    for setting in &trial.settings {
        settings.row(vec![
            format!("<code>{}</code>", Text(&setting.name)),
            esc(&setting.value),
            esc(setting.default.as_deref().unwrap_or("")),
            esc(&setting.source),
        ]);
    }
    if trial.settings.is_empty() {
        out.push_str("<p class=\"note\">All settings have their defaults.</p>\n");
    } else {
        out.push_str("<h4>Settings that differ from the defaults</h4>\n");
        out.push_str(&settings.html());
    }
    out.push_str("</details>\n");
    out
}

fn phases(trial: &TrialView) -> String {
    let mut table = Table::new(
        "Phases",
        vec![
            words("phase"),
            words("kind"),
            words("durability"),
            numbers("clients"),
            numbers("from"),
            numbers("took"),
            words("came to"),
            words("state"),
        ],
    );
    for phase in &trial.phases {
        let mut ended = state(&phase.state);
        for reason in phase.reason.iter().chain(&phase.late) {
            ended.push_str(&format!("<br><small>{}</small>", Text(reason)));
        }
        table.row(vec![
            esc(&phase.name),
            esc(phase.kind.name()),
            esc(phase.durability.map_or("", Durability::name)),
            if phase.clients > 0 { number::count(phase.clients.into()) } else { String::new() },
            format!("{:.2} s", phase.start_s),
            phase.seconds.map_or("–".to_string(), number::seconds),
            came_to(phase),
            ended,
        ]);
    }
    format!("<h4>Phases</h4>\n{}", table.html())
}

/// True for results that the row has said already: how long it took has a column of its own, and rates, counts and
/// lag stand before them as analysis derives them, without warm-up.
fn said(phase: &PhaseView, result: &ResultView) -> bool {
    match result.what {
        ResultName::Seconds => phase.kind != PhaseKind::Load,
        ResultName::Ops => matches!(phase.kind, PhaseKind::Drive | PhaseKind::Ask),
        ResultName::Records | ResultName::PlannedSeconds | ResultName::Unfinished => true,
        ResultName::LagP50 | ResultName::LagP99 | ResultName::LagMax => true,
        ResultName::LostConnections | ResultName::EndedConnections => result.value == 0.0,
        what => is_of_size(what),
    }
}

/// What a phase came to, in one cell: its asked operations, its rate, its results.
fn came_to(phase: &PhaseView) -> String {
    let mut parts = Vec::new();
    for asked in &phase.asked {
        if let (Some(median), Some(min), Some(max)) = (asked.median_s, asked.min_s, asked.max_s) {
            parts.push(format!(
                "{}: <b>{}</b> median of {}, {} to {}, {}",
                Text(&asked.op),
                number::seconds(median),
                number::count(asked.n - asked.errors),
                number::seconds(min),
                number::seconds(max),
                number::plural(asked.rows, "row", "rows"),
            ));
        }
        if asked.errors > 0 {
            parts.push(format!("<b class=\"bad\">{}</b>", number::plural(asked.errors, "error", "errors")));
        }
    }
    if let Some(ops) = phase.ops.as_ref().filter(|_| phase.kind == PhaseKind::Drive) {
        parts.push(format!(
            "<b>{}</b>, {} operations in {}",
            number::marked(number::with_unit(ops.rate_per_s, "1/s"), phase.late.is_some()),
            number::count(ops.count),
            number::seconds(ops.seconds)
        ));
        for (n, word) in [(ops.rejected, "rejected"), (ops.unknown, "unknown"), (ops.unfinished, "never sent")] {
            if n > 0 {
                parts.push(format!("<b class=\"bad\">{}</b> {word}", number::count(n)));
            }
        }
    }
    if let Some(rate) = phase.scheduled_rate_per_s {
        parts.push(format!("scheduled {}", number::with_unit(rate, "1/s")));
    }
    if let Some(lag) = &phase.lag {
        parts.push(format!(
            "generator late by {} (p50), {} (p99)",
            number::nanoseconds(lag.p50_ns),
            number::nanoseconds(lag.p99_ns)
        ));
    }
    if let (Some(settled), Some(with)) = (phase.settled_after_s, phase.rate_with_warmup_per_s) {
        parts.push(format!(
            "the first {} were found to be warm-up and count for nothing (with them: {})",
            number::seconds(settled),
            number::with_unit(with, "1/s")
        ));
    } else if let Some(settled) = phase.settled_after_s {
        parts.push(format!("settled after {} (found in its slices)", number::seconds(settled)));
    }
    if let Some(cores) = phase.worker_cores {
        parts.push(format!("workers used {} cores", number::significant(cores)));
    }
    if let Some(rate) = phase.records_per_s {
        parts.push(format!("<b>{}</b>", number::with_unit(rate, "records/s")));
    }
    for result in phase.results.iter().filter(|result| !said(phase, result)) {
        parts.push(format!("{} {}", esc(&result.name.replace('_', " ")), Text(&result.text)));
    }
    parts.join("; ")
}
