//! What the writer is handed, as rows. One function a message; the caller holds the transaction.

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use plimsoll_core::Slice;
use rusqlite::types::Value;
use rusqlite::{Connection, ToSql, params};

use crate::data::{
    AnswerCheck, Event, LedgerCheck, PhaseEnd, PhaseHeader, PhaseState, RunHeader, RunState, Sample, SamplerSeries,
    TrialHeader,
};
use crate::schema::{DISTURBED, UNFINISHED, WITNESS};

type Written = rusqlite::Result<()>;

/// SQLite has no unsigned 64-bit integers. What does not fit (292 years in nanoseconds) is held at the top.
fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn optional_int(value: Option<u64>) -> Option<i64> {
    value.map(int)
}

fn put(connection: &Connection, sql: &str, values: &[&dyn ToSql]) -> Written {
    connection.prepare_cached(sql)?.execute(values).map(drop)
}

fn json(value: &impl serde::Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

pub(crate) fn run(connection: &Connection, header: &RunHeader) -> Written {
    put(
        connection,
        "INSERT INTO run VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, NULL, 'unfinished', NULL, 0)",
        params![
            header.id,
            header.plimsoll_version,
            header.plan_name,
            header.title,
            header.question,
            header.source,
            header.plan_text,
            header.plan_json,
            json(&header.command_line)?,
            header.seed.to_string(),
            int(header.slice_ns),
            header.started_wall_ns,
        ],
    )?;
    for (ordinal, (name, value)) in header.environment.iter().enumerate() {
        put(connection, "INSERT INTO environment VALUES (?1, ?2, ?3)", params![ordinal as i64, name, value])?;
    }
    for (ordinal, text) in header.left_out.iter().enumerate() {
        put(connection, "INSERT INTO left_out VALUES (?1, ?2)", params![ordinal as i64, text])?;
    }
    for (ordinal, goal) in header.goals.iter().enumerate() {
        let sql = "INSERT INTO goal VALUES (?1, ?2, ?3, ?4)";
        put(connection, sql, params![ordinal as i64, goal.what, goal.limit, goal.unit])?;
    }
    for (ordinal, figure) in header.figures.iter().enumerate() {
        let sql = "INSERT INTO figure VALUES (?1, ?2, ?3, ?4)";
        put(connection, sql, params![ordinal as i64, figure.name, figure.unit, figure.formula])?;
        for (position, published) in figure.published.iter().enumerate() {
            let sql = "INSERT INTO published VALUES (?1, ?2, ?3, ?4, ?5)";
            let labels = serde_json::to_string(&published.at).unwrap_or_default();
            put(connection, sql, params![ordinal as i64, position as i64, published.value, published.of, labels])?;
        }
    }
    for (ordinal, one) in (0..).zip(&header.series) {
        series(connection, ordinal, one)?;
    }
    Ok(())
}

pub(crate) fn series(connection: &Connection, ordinal: u32, series: &SamplerSeries) -> Written {
    let sql = "INSERT INTO series VALUES (?1, ?2, ?3, ?4, ?5)";
    let spec = &series.spec;
    put(connection, sql, params![ordinal, series.sampler, spec.subject, spec.name, spec.unit])
}

pub(crate) fn begin_trial(connection: &Connection, header: &TrialHeader) -> Written {
    put(
        connection,
        "INSERT INTO trial VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, NULL)",
        params![
            header.ordinal,
            header.store,
            header.store_label,
            header.place,
            header.version,
            header.workload,
            int(header.record_count),
            int(header.record_bytes),
            int(header.start_ns),
        ],
    )?;
    for (name, value) in &header.labels {
        put(connection, "INSERT INTO label VALUES (?1, ?2, ?3)", params![header.ordinal, name, value])?;
    }
    for (name, value) in &header.params {
        put(connection, "INSERT INTO param VALUES (?1, ?2, ?3)", params![header.ordinal, name, value])?;
    }
    for (position, setting) in header.settings.iter().enumerate() {
        let sql = "INSERT INTO setting VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let (name, value, source) = (&setting.name, &setting.value, &setting.source);
        put(connection, sql, params![header.ordinal, position as i64, name, value, setting.default, source])?;
    }
    for (position, kind) in header.kinds.iter().enumerate() {
        let sql = "INSERT INTO op_kind VALUES (?1, ?2, ?3, ?4)";
        put(connection, sql, params![header.ordinal, position as i64, kind.name, json(kind)?])?;
    }
    Ok(())
}

pub(crate) fn end_trial(connection: &Connection, ordinal: u32, end_ns: u64) -> Written {
    put(connection, "UPDATE trial SET end_ns = ?2 WHERE ordinal = ?1", params![ordinal, int(end_ns)])
}

pub(crate) fn recorder_bytes(connection: &Connection, bytes: u64) -> Written {
    put(connection, "UPDATE run SET recorder_bytes = ?1", params![int(bytes)])
}

pub(crate) fn end_run(connection: &Connection, state: &RunState, end_ns: u64) -> Written {
    let (word, reason) = match state {
        RunState::Unfinished => ("unfinished", None),
        RunState::Complete => ("complete", None),
        RunState::Interrupted => ("interrupted", None),
        RunState::Failed(reason) => ("failed", Some(reason)),
    };
    put(connection, "UPDATE run SET state = ?1, reason = ?2, end_ns = ?3", params![word, reason, int(end_ns)])
}

pub(crate) fn begin_phase(connection: &Connection, header: &PhaseHeader) -> Written {
    put(
        connection,
        "INSERT INTO phase VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, NULL, 'unfinished', NULL, NULL, NULL, NULL, NULL)",
        params![
            header.trial,
            header.ordinal,
            header.name,
            header.kind,
            header.durability,
            header.clients,
            header.rate_per_s,
            int(header.start_ns),
        ],
    )
}

pub(crate) fn end_phase(connection: &Connection, trial: u32, phase: u32, end: &PhaseEnd) -> Written {
    let (word, reason) = match &end.state {
        PhaseState::Unfinished => ("unfinished", None),
        PhaseState::Complete => ("complete", None),
        PhaseState::Interrupted => ("interrupted", None),
        PhaseState::Failed(reason) => ("failed", Some(reason)),
        PhaseState::Void(reason) => ("void", Some(reason)),
    };
    put(
        connection,
        "UPDATE phase SET end_ns = ?3, state = ?4, reason = ?5, data_bytes = ?6, index_bytes = ?7, total_bytes = ?8, late = ?9 \
         WHERE trial = ?1 AND ordinal = ?2",
        params![
            trial,
            phase,
            int(end.end_ns),
            word,
            reason,
            end.footprint.map(|all| int(all.data_bytes)),
            optional_int(end.footprint.and_then(|all| all.index_bytes)),
            optional_int(end.footprint.and_then(|all| all.total_bytes)),
            end.late,
        ],
    )?;
    for (position, result) in end.results.iter().enumerate() {
        let sql = "INSERT INTO result VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let (name, unit) = (&result.name, &result.unit);
        put(connection, sql, params![trial, phase, position as i64, name, unit, result.value, int(result.n)])?;
    }
    for (position, asked) in end.asked.iter().enumerate() {
        put(
            connection,
            "INSERT INTO asked VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![
                trial,
                phase,
                position as i64,
                asked.kind,
                int(asked.start_ns),
                int(asked.end_ns),
                asked.outcome.name(),
                int(asked.rows),
            ],
        )?;
    }
    for (position, (name, text)) in end.remarks.iter().enumerate() {
        put(
            connection,
            "INSERT INTO remark VALUES (?1, ?2, ?3, ?4, ?5)",
            params![trial, phase, position as i64, name, text],
        )?;
    }
    Ok(())
}

pub(crate) fn slice(
    connection: &Connection,
    encoder: &mut V2DeflateSerializer,
    trial: u32,
    phase: u32,
    slice: &Slice,
) -> Written {
    put(
        connection,
        "INSERT INTO slice VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)",
        params![
            trial,
            phase,
            slice.ordinal,
            slice.warmup,
            int(slice.start_ns),
            int(slice.end_ns),
            slice.wall_ns,
            int(slice.due_unsent),
            int(slice.in_flight),
            int(slice.oldest_age_ns),
            int(slice.lag_p50_ns),
            int(slice.lag_p99_ns),
            int(slice.lag_max_ns),
            int(slice.worker_cpu_ns),
            slice.drain,
            int(slice.voluntary_switches),
            int(slice.involuntary_switches),
            optional_int(slice.watched.as_ref().map(|watched| watched.disturbed_ns)),
        ],
    )?;
    let place = (trial, phase, slice.ordinal);
    for one in &slice.histograms {
        let kind = Value::from(i64::from(one.kind));
        histogram(connection, encoder, place, (kind, one.outcome.name(), one.measure.name()), &one.histogram)?;
    }
    if let Some(unfinished) = &slice.unfinished {
        histogram(connection, encoder, place, (Value::Null, UNFINISHED, "response"), unfinished)?;
    }
    let Some(watched) = &slice.watched else { return Ok(()) };
    for one in &watched.disturbed {
        let (kind, measure) = (Value::from(i64::from(one.kind)), format!("{DISTURBED}{}", one.measure.name()));
        histogram(connection, encoder, place, (kind, one.outcome.name(), &measure), &one.histogram)?;
    }
    if let Some(lateness) = &watched.lateness {
        histogram(connection, encoder, place, (Value::Null, WITNESS, "lateness"), lateness)?;
    }
    for pause in &watched.pauses {
        let sql = "INSERT INTO pause VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let (start_ns, end_ns) = (int(pause.start_ns), int(pause.end_ns));
        put(connection, sql, params![trial, phase, slice.ordinal, start_ns, end_ns, pause.cpu])?;
    }
    Ok(())
}

/// One histogram of slice (trial, phase, ordinal) `place`, with its kind, outcome and measure.
fn histogram(
    connection: &Connection,
    encoder: &mut V2DeflateSerializer,
    place: (u32, u32, u32),
    (kind, outcome, measure): (Value, &str, &str),
    histogram: &Histogram<u64>,
) -> Written {
    let ((trial, phase, slice), (count, max_ns)) = (place, (int(histogram.len()), int(histogram.max())));
    let hdr = encode(encoder, histogram)?;
    let sql = "INSERT INTO histogram VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    put(connection, sql, params![trial, phase, slice, kind, outcome, measure, count, max_ns, hdr])
}

/// HdrHistogram's own V2 format, deflated.
pub(crate) fn encode(encoder: &mut V2DeflateSerializer, histogram: &Histogram<u64>) -> rusqlite::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match encoder.serialize(histogram, &mut bytes) {
        Ok(_) => Ok(bytes),
        Err(error) => Err(rusqlite::Error::ToSqlConversionFailure(error.into())),
    }
}

pub(crate) fn sample(connection: &Connection, sample: &Sample) -> Written {
    // What is not a number was not read.
    for (series, value) in sample.values.iter().filter(|(_, value)| !value.is_nan()) {
        put(connection, "INSERT INTO sample VALUES (?1, ?2, ?3)", params![int(sample.at_ns), series, value])?;
    }
    Ok(())
}

pub(crate) fn event(connection: &Connection, event: &Event) -> Written {
    put(
        connection,
        "INSERT INTO event (at_ns, trial, level, kind, text) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![int(event.at_ns), event.trial, event.level, event.kind, event.text],
    )
}

pub(crate) fn answer_check(connection: &Connection, check: &AnswerCheck) -> Written {
    put(
        connection,
        "INSERT INTO answer_check VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![
            check.trial,
            check.phase,
            check.op,
            int(check.answers),
            int(check.expected),
            int(check.got),
            int(check.missing),
            int(check.wrong),
        ],
    )?;
    examples(connection, check.trial, check.phase, Some(&check.op), &check.examples)
}

pub(crate) fn ledger_check(connection: &Connection, check: &LedgerCheck) -> Written {
    put(
        connection,
        "INSERT INTO ledger_check VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        params![
            check.trial,
            check.phase,
            int(check.acknowledged),
            int(check.rejected),
            int(check.unknown),
            int(check.read_back),
            int(check.lost),
            optional_int(check.lost_window_ns.map(|(first, _)| first)),
            optional_int(check.lost_window_ns.map(|(_, last)| last)),
            check.loss_upper_bound,
            check.complete,
            check.sentence,
        ],
    )?;
    for (name, count) in &check.wrong {
        let sql = "INSERT INTO disagreement VALUES (?1, ?2, ?3, ?4)";
        put(connection, sql, params![check.trial, check.phase, name, int(*count)])?;
    }
    examples(connection, check.trial, check.phase, None, &check.examples)
}

fn examples(connection: &Connection, trial: u32, phase: u32, op: Option<&str>, texts: &[String]) -> Written {
    for text in texts {
        put(connection, "INSERT INTO example VALUES (?1, ?2, ?3, ?4)", params![trial, phase, op, text])?;
    }
    Ok(())
}
