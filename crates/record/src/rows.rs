//! Rows for the writer's messages. There is one function for each message; the caller holds the transaction.

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use plimsoll_core::Slice;
use rusqlite::types::{Null, Value};
use rusqlite::{Connection, ToSql, params};

use crate::data::{
    AnswerCheck, Event, FaultSpan, LedgerCheck, Operations, PhaseEnd, PhaseHeader, RunEnd, RunHeader, RunState, Sample,
    Series, TrialHeader,
};
use crate::schema::{
    AFFECTED_DDL, DISTURBED, FAULT_DETAIL_DDL, FINE_DDL, GENERATOR, KEY_PARTS_DDL, OPERATIONS_DDL, SERVER_TICKS_DDL,
    SILENCES_DDL, UNFINISHED, has_table,
};
use crate::{silences, ticks};

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

/// Adds a row to `table`, with a value for each of its columns.
fn insert(connection: &Connection, table: &str, values: &[&dyn ToSql]) -> Written {
    let places = vec!["?"; values.len()].join(", ");
    put(connection, &format!("INSERT INTO {table} VALUES ({places})"), values)
}

/// Inserts a row, or replaces the row with the same key.
fn replace(connection: &Connection, table: &str, values: &[&dyn ToSql]) -> Written {
    let places = vec!["?"; values.len()].join(", ");
    put(connection, &format!("REPLACE INTO {table} VALUES ({places})"), values)
}

fn json(value: &impl serde::Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

pub(crate) fn run(connection: &Connection, header: &RunHeader) -> Written {
    insert(connection, "run", params![json(header)?, header.plan_json, Null, 0])
}

/// Reopens a run that has ended, or whose program died, and keeps of its trials only `kept`.
pub(crate) fn go_on(connection: &Connection, kept: &[u32]) -> Written {
    let kept = kept.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    // Rows that refer to others first.
    let tables = ["pause", "histogram", "slice", "result", "answers", "ledger", "fault", "phase", "event"];
    let mut all = Vec::new();
    for table in ["operations", "affected", "silences", "server_ticks", "key_parts", "fault_detail"] {
        all.extend(has_table(connection, table)?.then_some(table));
    }
    for table in all.into_iter().chain(tables) {
        put(connection, &format!("DELETE FROM {table} WHERE trial NOT NULL AND trial NOT IN ({kept})"), &[])?;
    }
    put(connection, &format!("DELETE FROM trial WHERE ordinal NOT IN ({kept})"), &[])?;
    put(connection, "UPDATE run SET ended = NULL", &[])
}

pub(crate) fn series(connection: &Connection, ordinal: u32, series: &Series) -> Written {
    let Series { source, subject, name, unit, kind } = series;
    insert(connection, "series", params![ordinal, source, subject, name, unit, kind.name()])
}

pub(crate) fn begin_trial(connection: &Connection, header: &TrialHeader) -> Written {
    insert(connection, "trial", params![header.ordinal, json(header)?, Null])
}

pub(crate) fn end_trial(connection: &Connection, ordinal: u32, end_ns: u64) -> Written {
    put(connection, "UPDATE trial SET end_ns = ?2 WHERE ordinal = ?1", params![ordinal, int(end_ns)])
}

pub(crate) fn recorder_bytes(connection: &Connection, bytes: u64) -> Written {
    put(connection, "UPDATE run SET recorder_bytes = ?1", params![int(bytes)])
}

pub(crate) fn end_run(connection: &Connection, state: &RunState, end_ns: u64) -> Written {
    let ended = RunEnd { state: state.clone(), end_ns };
    put(connection, "UPDATE run SET ended = ?1", params![json(&ended)?])
}

pub(crate) fn begin_phase(connection: &Connection, header: &PhaseHeader) -> Written {
    insert(connection, "phase", params![header.trial, header.ordinal, json(header)?, Null])
}

pub(crate) fn end_phase(connection: &Connection, trial: u32, phase: u32, end: &PhaseEnd) -> Written {
    let sql = "UPDATE phase SET ended = ?3 WHERE trial = ?1 AND ordinal = ?2";
    put(connection, sql, params![trial, phase, json(end)?])?;
    for (position, result) in end.results.iter().enumerate() {
        let (at, name, n) = (position as i64, result.name.name(), int(result.n));
        insert(connection, "result", params![trial, phase, at, name, result.subject, result.value, n])?;
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
    insert(
        connection,
        "slice",
        params![
            trial,
            phase,
            slice.ordinal,
            GENERATOR,
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
            (!slice.ticks.is_empty()).then(|| ticks::encode(&slice.ticks)),
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
    if let Some(clients) = &slice.affected {
        connection.execute_batch(AFFECTED_DDL)?;
        let (of, count, bits) = (clients.of(), int(clients.len()), clients.to_bytes());
        insert(connection, "affected", params![trial, phase, slice.ordinal, GENERATOR, of, count, bits])?;
    }
    if let Some(silences) = &slice.silences {
        connection.execute_batch(SILENCES_DDL)?;
        let (count, times) = (silences.len() as i64, silences::encode(silences));
        insert(connection, "silences", params![trial, phase, slice.ordinal, GENERATOR, count, times])?;
    }
    if let Some(servers) = &slice.server_ticks {
        connection.execute_batch(SERVER_TICKS_DDL)?;
        let (names, bytes) = (json(&servers.names)?, ticks::encode_servers(&servers.answered));
        insert(connection, "server_ticks", params![trial, phase, slice.ordinal, GENERATOR, names, bytes])?;
    }
    if let Some(parts) = &slice.key_parts {
        connection.execute_batch(KEY_PARTS_DDL)?;
        let bytes = ticks::encode_parts(&parts.ticks);
        insert(connection, "key_parts", params![trial, phase, slice.ordinal, GENERATOR, parts.of, bytes])?;
    }
    let Some(watched) = &slice.watched else { return Ok(()) };
    for one in &watched.disturbed {
        let (kind, measure) = (Value::from(i64::from(one.kind)), format!("{DISTURBED}{}", one.measure.name()));
        histogram(connection, encoder, place, (kind, one.outcome.name(), &measure), &one.histogram)?;
    }
    for pause in &watched.pauses {
        let (start_ns, end_ns) = (int(pause.start_ns), int(pause.end_ns));
        insert(connection, "pause", params![trial, phase, slice.ordinal, GENERATOR, start_ns, end_ns, pause.cpu])?;
    }
    Ok(())
}

/// Inserts the operations of a phase that were kept one by one.
pub(crate) fn operations(connection: &Connection, trial: u32, phase: u32, operations: &Operations) -> Written {
    connection.execute_batch(OPERATIONS_DDL)?;
    let (count, until_ns) = (operations.each.len() as i64, optional_int(operations.until_ns));
    let times = crate::operations::encode(&operations.each);
    insert(connection, "operations", params![trial, phase, GENERATOR, count, until_ns, times])
}

/// Inserts a histogram of slice (trial, phase, ordinal) `place`, with its kind, outcome and measure.
fn histogram(
    connection: &Connection,
    encoder: &mut V2DeflateSerializer,
    place: (u32, u32, u32),
    (kind, outcome, measure): (Value, &str, &str),
    histogram: &Histogram<u64>,
) -> Written {
    let ((trial, phase, slice), (count, max_ns)) = (place, (int(histogram.len()), int(histogram.max())));
    let hdr = encode(encoder, histogram)?;
    let values = params![trial, phase, slice, GENERATOR, kind, outcome, measure, count, max_ns, hdr];
    insert(connection, "histogram", values)
}

/// HdrHistogram's own V2 format, deflated.
pub(crate) fn encode(encoder: &mut V2DeflateSerializer, histogram: &Histogram<u64>) -> rusqlite::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match encoder.serialize(histogram, &mut bytes) {
        Ok(_) => Ok(bytes),
        Err(error) => Err(rusqlite::Error::ToSqlConversionFailure(error.into())),
    }
}

pub(crate) fn sample(connection: &Connection, encoder: &mut V2DeflateSerializer, sample: &Sample) -> Written {
    // A clock that stands still must not end the recording: of two readings at one time the later one stays.
    // What is not a number was not read.
    values(connection, "sample", sample)?;
    for (series, times) in &sample.distributions {
        let times = times.dense();
        let (count, max_ns) = (int(times.len()), int(times.max()));
        replace(
            connection,
            "distribution",
            params![int(sample.at_ns), series, count, max_ns, encode(encoder, &times)?],
        )?;
    }
    Ok(())
}

/// Inserts fine readings.
pub(crate) fn fine_samples(connection: &Connection, samples: &[Sample]) -> Written {
    connection.execute_batch(FINE_DDL)?;
    samples.iter().try_for_each(|sample| values(connection, "fine_sample", sample))
}

/// Inserts the values of a sample into a table.
fn values(connection: &Connection, table: &str, sample: &Sample) -> Written {
    for (series, value) in sample.values.iter().filter(|(_, value)| !value.is_nan()) {
        replace(connection, table, params![int(sample.at_ns), series, value])?;
    }
    Ok(())
}

pub(crate) fn event(connection: &Connection, event: &Event) -> Written {
    let (from, until) = (int(event.from_ns), int(event.until_ns));
    let (level, class) = (event.level.name(), event.class.name());
    insert(connection, "event", params![Null, from, until, event.trial, level, class, event.subject, event.text])
}

/// Inserts or replaces the rows of a fault.
pub(crate) fn fault(connection: &Connection, span: &FaultSpan) -> Written {
    let FaultSpan { trial, phase, ordinal, kind, subject, fault, error, .. } = span;
    let (planned_ns, begun_ns) = (int(span.planned_ns), int(span.begun_ns));
    let [taken_ns, healing_ns, healed_ns] = [span.taken_ns, span.healing_ns, span.healed_ns].map(optional_int);
    replace(
        connection,
        "fault",
        params![
            trial,
            phase,
            ordinal,
            kind.name(),
            subject,
            fault,
            planned_ns,
            begun_ns,
            taken_ns,
            healing_ns,
            healed_ns,
            error,
        ],
    )?;
    connection.execute_batch(FAULT_DETAIL_DDL)?;
    replace(connection, "fault_detail", params![trial, ordinal, json(&span.detail)?])
}

pub(crate) fn answer_check(connection: &Connection, check: &AnswerCheck) -> Written {
    insert(connection, "answers", params![check.trial, check.phase, json(check)?])
}

pub(crate) fn ledger_check(connection: &Connection, check: &LedgerCheck) -> Written {
    insert(connection, "ledger", params![check.trial, check.phase, json(check)?])
}
