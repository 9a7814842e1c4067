//! Tables of a run as Parquet files, for programs that calculate with columns.
//!
//! Every column is optional and has one of four types: UTF-8 text, 64-bit integer, double, boolean. Units are in the
//! names of columns. Pages are compressed by gzip, the one codec whose library the page needs as well.

use std::io::{self, Write};
use std::rc::Rc;
use std::sync::Arc;

use parquet::basic::{Compression, GzipLevel, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};
use plimsoll_analysis::RunView;
use plimsoll_analysis::operations::OperationRow;
use plimsoll_analysis::samples::SampleRow;
use plimsoll_analysis::slices::SliceRow;
use plimsoll_analysis::spans::SpanRow;
use plimsoll_analysis::view::{
    AnswerView, GoalState, GoalTrial, GoalView, LatencyView, PhaseView, RowOutcome, TrialView,
};
use plimsoll_core::Series;

use crate::columns::ColumnValue::{Flag, Real, Text, Whole};
use crate::columns::{Column, ColumnValue, SLICES, whole};

/// Rows of a row group: they are in memory at once.
const GROUP_ROWS: usize = 65_536;

/// Writes a row for each slice and operation type, and for all of them together.
///
/// # Errors
/// `out` cannot be written; so in the functions below.
pub fn slices(out: impl Write + Send, rows: impl Iterator<Item = SliceRow>) -> io::Result<()> {
    let places: [Column<SliceRow>; 2] = [
        ("trial_ordinal", Whole(|row| Some(row.trial_ordinal.into()))),
        ("phase_ordinal", Whole(|row| Some(row.phase_ordinal.into()))),
    ];
    let columns: Vec<Column<SliceRow>> = places.into_iter().chain(SLICES).collect();
    write(out, &columns, rows)
}

/// A bucket of the histogram of a slice: its middle in nanoseconds, and its operations.
type Bucket = (Rc<SliceRow>, u64, u64);

/// Writes the buckets of each slice's histogram.
pub fn histograms(out: impl Write + Send, rows: impl Iterator<Item = SliceRow>) -> io::Result<()> {
    let columns: &[Column<Bucket>] = &[
        ("trial_ordinal", Whole(|(row, ..)| Some(row.trial_ordinal.into()))),
        ("phase_ordinal", Whole(|(row, ..)| Some(row.phase_ordinal.into()))),
        ("trial", Text(|(row, ..)| Some(&row.trial))),
        ("phase", Text(|(row, ..)| Some(&row.phase))),
        ("slice", Whole(|(row, ..)| Some(row.slice.into()))),
        ("warmup", Flag(|(row, ..)| row.warmup)),
        ("start_s", Real(|(row, ..)| Some(row.start_s), 6)),
        ("op", Text(|(row, ..)| Some(&row.op))),
        ("measure", Text(|(row, ..)| Some(row.measure))),
        ("time_ns", Whole(|(_, ns, _)| whole(*ns))),
        ("count", Whole(|(_, _, count)| whole(*count))),
    ];
    let buckets = rows.flat_map(|mut row| {
        let times = std::mem::take(&mut row.times_ns);
        let row = Rc::new(row);
        times.into_iter().map(move |(ns, count)| (Rc::clone(&row), ns, count))
    });
    write(out, columns, buckets)
}

/// Writes the operations that were recorded one by one.
pub fn operations<'a>(out: impl Write + Send, rows: impl Iterator<Item = OperationRow<'a>>) -> io::Result<()> {
    let columns: &[Column<OperationRow<'a>>] = &[
        ("trial_ordinal", Whole(|row| Some(row.trial_ordinal.into()))),
        ("phase_ordinal", Whole(|row| Some(row.phase_ordinal.into()))),
        ("trial", Text(|row| Some(&row.trial))),
        ("phase", Text(|row| Some(row.phase))),
        ("op", Text(|row| Some(row.op))),
        ("client", Whole(|row| Some(row.operation.client.into()))),
        ("outcome", Text(|row| Some(row.operation.outcome.name()))),
        ("due_s", Real(|row| Some(seconds(row.operation.due_ns)), 6)),
        ("sent_s", Real(|row| Some(seconds(row.operation.sent_ns)), 6)),
        ("end_s", Real(|row| Some(seconds(row.operation.end_ns)), 6)),
        ("response_ns", Whole(|row| whole(row.operation.end_ns.saturating_sub(row.operation.due_ns)))),
        ("service_ns", Whole(|row| whole(row.operation.end_ns.saturating_sub(row.operation.sent_ns)))),
    ];
    write(out, columns, rows)
}

/// Writes the sampled series.
pub fn series<'a>(out: impl Write + Send, rows: impl Iterator<Item = (u32, &'a Series)>) -> io::Result<()> {
    let columns: &[Column<(u32, &'a Series)>] = &[
        ("series", Whole(|(position, _)| Some((*position).into()))),
        ("source", Text(|(_, series)| Some(&series.source))),
        ("subject", Text(|(_, series)| Some(&series.subject))),
        ("name", Text(|(_, series)| Some(&series.name))),
        ("unit", Text(|(_, series)| Some(&series.unit))),
        ("kind", Text(|(_, series)| Some(series.kind.name()))),
    ];
    write(out, columns, rows)
}

/// Writes the values of the sampled series.
pub fn samples(out: impl Write + Send, rows: impl Iterator<Item = SampleRow>) -> io::Result<()> {
    let columns: &[Column<SampleRow>] = &[
        ("at_s", Real(|row| Some(seconds(row.at_ns)), 6)),
        ("series", Whole(|row| Some(row.series.into()))),
        ("value", Real(|row| row.value, 6)),
        ("count", Whole(|row| row.count.and_then(whole))),
        ("p50_ns", Whole(|row| row.p50_ns.and_then(whole))),
        ("p99_ns", Whole(|row| row.p99_ns.and_then(whole))),
        ("max_ns", Whole(|row| row.max_ns.and_then(whole))),
    ];
    write(out, columns, rows)
}

/// Writes the fine readings of the sampled series, which have no distributions.
pub fn fine_samples(out: impl Write + Send, rows: impl Iterator<Item = SampleRow>) -> io::Result<()> {
    let columns: &[Column<SampleRow>] = &[
        ("at_s", Real(|row| Some(seconds(row.at_ns)), 6)),
        ("series", Whole(|row| Some(row.series.into()))),
        ("value", Real(|row| row.value, 6)),
    ];
    write(out, columns, rows)
}

/// Writes trials, phases, faults, pauses, stalls and events.
pub fn spans<'a>(out: impl Write + Send, rows: &'a [SpanRow]) -> io::Result<()> {
    let columns: &[Column<&'a SpanRow>] = &[
        ("trial_ordinal", Whole(|row| row.trial_ordinal.map(i64::from))),
        ("phase_ordinal", Whole(|row| row.phase_ordinal.map(i64::from))),
        ("trial", Text(|row| Some(row.trial.as_str()).filter(|name| !name.is_empty()))),
        ("phase", Text(|row| Some(row.phase.as_str()).filter(|name| !name.is_empty()))),
        ("kind", Text(|row| Some(row.kind.name()))),
        ("name", Text(|row| Some(&row.name))),
        ("subject", Text(|row| Some(row.subject.as_str()).filter(|name| !name.is_empty()))),
        ("start_s", Real(|row| Some(seconds(row.start_ns)), 6)),
        ("end_s", Real(|row| Some(seconds(row.end_ns)), 6)),
        ("has_ended", Flag(|row| row.has_ended)),
        ("planned_s", Real(|row| row.planned_ns.map(seconds), 6)),
        ("taken_s", Real(|row| row.taken_ns.map(seconds), 6)),
        ("healing_s", Real(|row| row.healing_ns.map(seconds), 6)),
        ("level", Text(|row| row.level.map(|level| level.name()))),
        ("error", Text(|row| row.error.as_deref())),
    ];
    write(out, columns, rows.iter())
}

/// Writes the checks of answers against the truth.
pub fn answers<'a>(out: impl Write + Send, view: &'a RunView) -> io::Result<()> {
    let columns: &[Column<(&'a TrialView, &'a AnswerView)>] = &[
        ("trial_ordinal", Whole(|(trial, _)| Some(trial.ordinal.into()))),
        ("trial", Text(|(trial, _)| Some(&trial.name))),
        ("phase", Text(|(_, answer)| Some(&answer.phase))),
        ("op", Text(|(_, answer)| Some(&answer.op))),
        ("answers", Whole(|(_, answer)| whole(answer.counts.answers))),
        ("expected", Whole(|(_, answer)| whole(answer.counts.expected))),
        ("got", Whole(|(_, answer)| whole(answer.counts.got))),
        ("missing", Whole(|(_, answer)| whole(answer.counts.missing))),
        ("wrong", Whole(|(_, answer)| whole(answer.counts.wrong))),
        ("stale_records", Whole(|(_, answer)| whole(answer.counts.stale_records))),
    ];
    let rows = view.trials.iter().flat_map(|trial| trial.answers.iter().map(move |answer| (trial, answer)));
    write(out, columns, rows)
}

/// Writes the phases with their results, warm-up left out.
pub fn phases<'a>(out: impl Write + Send, view: &'a RunView) -> io::Result<()> {
    let columns: &[Column<(&'a TrialView, &'a PhaseView)>] = &[
        ("trial_ordinal", Whole(|(trial, _)| Some(trial.ordinal.into()))),
        ("phase_ordinal", Whole(|(_, phase)| Some(phase.ordinal.into()))),
        ("trial", Text(|(trial, _)| Some(&trial.name))),
        ("store", Text(|(trial, _)| Some(&trial.store))),
        ("version", Text(|(trial, _)| Some(&trial.version))),
        ("workload", Text(|(trial, _)| Some(&trial.workload))),
        ("phase", Text(|(_, phase)| Some(&phase.name))),
        ("phase_kind", Text(|(_, phase)| Some(phase.kind.name()))),
        ("durability", Text(|(_, phase)| phase.durability.map(|durability| durability.name()))),
        ("clients", Whole(|(_, phase)| Some(phase.clients.into()))),
        ("scheduled_rate_per_s", Real(|(_, phase)| phase.scheduled_rate_per_s, 3)),
        ("start_s", Real(|(_, phase)| Some(phase.start_s), 6)),
        ("seconds", Real(|(_, phase)| phase.seconds, 6)),
        ("state", Text(|(_, phase)| Some(phase.state.name()))),
        ("reason", Text(|(_, phase)| phase.reason.as_deref())),
        ("late", Flag(|(_, phase)| phase.late.is_some())),
        ("counted_seconds", Real(|(_, phase)| phase.ops.as_ref().map(|ops| ops.seconds), 6)),
        ("count", Whole(|(_, phase)| phase.ops.as_ref().and_then(|ops| whole(ops.count)))),
        ("rejected", Whole(|(_, phase)| phase.ops.as_ref().and_then(|ops| whole(ops.rejected)))),
        ("unknown", Whole(|(_, phase)| phase.ops.as_ref().and_then(|ops| whole(ops.unknown)))),
        ("unfinished", Whole(|(_, phase)| phase.ops.as_ref().and_then(|ops| whole(ops.unfinished)))),
        ("rate_per_s", Real(|(_, phase)| phase.ops.as_ref().map(|ops| ops.rate_per_s), 3)),
        ("error_percent", Real(|(_, phase)| phase.ops.as_ref().map(|ops| ops.error_percent), 6)),
        ("p50_ns", Whole(|(_, phase)| percentile(phase, "p50"))),
        ("p90_ns", Whole(|(_, phase)| percentile(phase, "p90"))),
        ("p95_ns", Whole(|(_, phase)| percentile(phase, "p95"))),
        ("p99_ns", Whole(|(_, phase)| percentile(phase, "p99"))),
        ("p999_ns", Whole(|(_, phase)| percentile(phase, "p999"))),
        ("max_ns", Whole(|(_, phase)| latency(phase).and_then(|row| whole(row.max_ns)))),
    ];
    let rows = view.trials.iter().flat_map(|trial| trial.phases.iter().map(move |phase| (trial, phase)));
    write(out, columns, rows)
}

/// Writes the goals, trial by trial.
pub fn goals<'a>(out: impl Write + Send, view: &'a RunView) -> io::Result<()> {
    let columns: &[Column<(&'a GoalView, &'a GoalTrial)>] = &[
        ("goal", Text(|(goal, _)| Some(&goal.text))),
        ("wanted", Text(|(goal, _)| Some(&goal.wanted))),
        ("limit", Real(|(goal, _)| Some(goal.limit), 6)),
        ("unit", Text(|(goal, _)| Some(&goal.unit))),
        ("place", Text(|(_, trial)| Some(&trial.place))),
        ("got", Real(|(_, trial)| trial.got, 6)),
        ("n", Whole(|(_, trial)| whole(trial.n))),
        ("state", Text(|(_, trial)| Some(state(trial.state)))),
    ];
    let rows = view.goals.iter().flat_map(|goal| goal.trials.iter().map(move |trial| (goal, trial)));
    write(out, columns, rows)
}

/// Returns the word of JSON for a goal's state.
fn state(state: GoalState) -> &'static str {
    match state {
        GoalState::Held => "held",
        GoalState::Missed => "missed",
        GoalState::Undecided => "undecided",
        GoalState::NotMeasured => "not_measured",
    }
}

/// Returns a phase's row of latencies for all operation types together, or for the only type. A row of failed
/// operations is the first if all have failed.
fn latency(phase: &PhaseView) -> Option<&LatencyView> {
    phase.latencies.first().filter(|row| match row.outcome {
        RowOutcome::All => true,
        RowOutcome::Of(outcome) => !outcome.is_error(),
        RowOutcome::Unfinished => false,
    })
}

/// Returns a percentile of a phase.
fn percentile(phase: &PhaseView, name: &str) -> Option<i64> {
    latency(phase)?.percentiles.iter().find(|one| one.name == name)?.ns.and_then(whole)
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Writes a table.
fn write<R>(out: impl Write + Send, columns: &[Column<R>], rows: impl Iterator<Item = R>) -> io::Result<()> {
    file(out, columns, rows).map_err(|error| match error {
        ParquetError::External(inner) => inner.downcast::<io::Error>().map_or_else(io::Error::other, |error| *error),
        other => io::Error::other(other),
    })
}

fn file<R>(
    out: impl Write + Send,
    columns: &[Column<R>],
    mut rows: impl Iterator<Item = R>,
) -> Result<(), ParquetError> {
    let fields = columns.iter().map(column_type).collect::<Result<Vec<TypePtr>, _>>()?;
    let schema = Type::group_type_builder("plimsoll").with_fields(fields).build()?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::GZIP(GzipLevel::default()))
        .set_created_by(format!("plimsoll {}", env!("CARGO_PKG_VERSION")))
        .build();
    let mut writer = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))?;
    loop {
        let group: Vec<R> = rows.by_ref().take(GROUP_ROWS).collect();
        if group.is_empty() {
            break;
        }
        let mut to = writer.next_row_group()?;
        for (_, field) in columns {
            let Some(mut column) = to.next_column()? else { break };
            match field {
                Text(of) => put::<ByteArrayType>(&mut column, group.iter().map(|row| of(row).map(ByteArray::from)))?,
                Whole(of) => put::<Int64Type>(&mut column, group.iter().map(of))?,
                Real(of, _) => put::<DoubleType>(&mut column, group.iter().map(of))?,
                Flag(of) => put::<BoolType>(&mut column, group.iter().map(|row| Some(of(row))))?,
            }
            column.close()?;
        }
        to.close()?;
    }
    writer.close().map(|_| ())
}

fn column_type<R>((name, field): &Column<R>) -> Result<TypePtr, ParquetError> {
    let (physical, logical) = match field {
        ColumnValue::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        ColumnValue::Whole(_) => (Physical::INT64, None),
        ColumnValue::Real(..) => (Physical::DOUBLE, None),
        ColumnValue::Flag(_) => (Physical::BOOLEAN, None),
    };
    let builder = Type::primitive_type_builder(name, physical).with_logical_type(logical);
    builder.with_repetition(Repetition::OPTIONAL).build().map(Arc::new)
}

/// Writes the values of a row group's column: those that are there, and for each row if it has one.
fn put<T: DataType>(
    to: &mut SerializedColumnWriter<'_>,
    values: impl Iterator<Item = Option<T::T>>,
) -> Result<(), ParquetError> {
    let (mut present, mut levels): (Vec<T::T>, Vec<i16>) = (Vec::new(), Vec::new());
    for value in values {
        levels.push(i16::from(value.is_some()));
        present.extend(value);
    }
    to.typed::<T>().write_batch(present.as_slice(), Some(levels.as_slice()), None).map(|_| ())
}
