//! Traces for Perfetto and tables in Parquet.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use plimsoll_analysis::operations::operations;
use plimsoll_analysis::samples::{fine_samples, samples, series};
use plimsoll_analysis::slices::slices;
use plimsoll_analysis::spans::spans;
use plimsoll_analysis::view;
use plimsoll_core::Outcome;
use plimsoll_record::data::{AnswerCheck, AnswerCounts, Operation, Operations, Run, RunState, Sample};
use plimsoll_report::columnar;
use serde_json::Value;

use crate::{faulted, study};

/// A run that ended before its first trial.
fn empty() -> Run {
    let mut run = study::complete();
    (run.state, run.end_ns) = (RunState::Unfinished, None);
    run.trials.clear();
    run.series.clear();
    run.samples.clear();
    run.events.clear();
    run
}

/// Returns the events of a run's trace, after it was checked that Perfetto draws all of them.
fn events(run: &Run) -> Vec<Value> {
    let mut bytes = Vec::new();
    plimsoll_report::perfetto(&view(run), &spans(run), &mut bytes).unwrap();
    let trace: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(trace["otherData"]["run"], run.header.id);
    let events = trace["traceEvents"].as_array().unwrap().clone();
    let mut tracks: BTreeMap<u64, (u64, Vec<u64>)> = BTreeMap::new();
    let mut counters: BTreeMap<(u64, String), u64> = BTreeMap::new();
    for event in &events {
        let (pid, name) = (event["pid"].as_u64().unwrap(), event["name"].as_str().unwrap());
        if event["ph"] == "M" {
            continue;
        }
        let at_us = event["ts"].as_u64().expect("whole microseconds");
        if event["ph"] == "C" {
            let last_us = counters.insert((pid, name.to_owned()), at_us);
            assert!(last_us.is_none_or(|last_us| last_us <= at_us), "{event}");
            assert!(event["args"].as_object().unwrap().values().all(Value::is_number), "{event}");
            continue;
        }
        let end_us = at_us + event["dur"].as_u64().unwrap_or(0);
        let (last_us, open) = tracks.entry(event["tid"].as_u64().unwrap()).or_default();
        assert!(*last_us <= at_us, "out of order: {event}");
        open.retain(|end_us| *end_us > at_us);
        assert!(open.iter().all(|outer_us| end_us <= *outer_us), "neither apart nor inside: {event}");
        *last_us = at_us;
        open.push(end_us);
    }
    events
}

/// Returns the names of the tracks, or of the spans on the track `of`.
fn names<'a>(events: &'a [Value], of: Option<&str>) -> Vec<&'a str> {
    let tracks = events.iter().filter(|event| event["name"] == "thread_name");
    let Some(of) = of else { return tracks.filter_map(|event| event["args"]["name"].as_str()).collect() };
    let tid = &tracks.into_iter().find(|event| event["args"]["name"] == of).unwrap()["tid"];
    let spans = events.iter().filter(|event| event["ph"] != "M" && event["tid"] == *tid);
    spans.filter_map(|event| event["name"].as_str()).collect()
}

#[test]
fn a_trace_has_phases_inside_of_trials_and_pauses_by_processor() {
    let events = events(&study::paused(study::complete()));
    let tracks = names(&events, None);
    assert!(tracks.contains(&"cpu1") && !tracks.contains(&"trials and phases 2"), "{tracks:?}");
    let spans = names(&events, Some("trials and phases"));
    assert_eq!(spans[..4], ["sqlite · index=none", "load", "settle", "warm"]);
    assert_eq!(spans.iter().filter(|name| **name == "mixed").count(), 3);
    let counters: Vec<_> = events.iter().filter(|event| event["ph"] == "C").collect();
    for name in ["Throughput (1/s)", "Latency of all (s)", "Latency of update (s)", "Disk vda (B/s)"] {
        assert!(counters.iter().any(|event| event["name"] == name), "{name}");
    }
}

#[test]
fn a_trace_shows_when_a_fault_took_effect() {
    let events = events(&faulted::killed_primary());
    assert_eq!(names(&events, Some("faults"))[..2], ["kill of node 1, the primary", "takes effect"]);
    let fault = events.iter().find(|event| event["name"] == "kill of node 1, the primary").unwrap();
    assert_eq!((&fault["dur"], &fault["args"]["planned_s"].is_number()), (&Value::from(1_300_000), &true));
}

#[test]
fn a_trace_of_an_empty_or_killed_run_is_complete_and_texts_cannot_leave_it() {
    assert!(events(&empty()).iter().all(|event| event["ph"] == "M"));
    let killed = events(&study::killed());
    let open: Vec<_> = killed.iter().filter(|event| event["args"]["has_ended"] == false).collect();
    assert_eq!(open.len(), 2, "the trial and its last phase: {open:?}");
    let broken = events(&study::broken());
    assert!(names(&broken, Some("events")).contains(&study::HOSTILE));
}

#[test]
fn trials_that_run_at_once_have_tracks_of_their_own() {
    let mut run = study::complete();
    run.trials.truncate(2);
    run.trials[1].header.start_ns = run.trials[0].header.start_ns;
    let tracks = events(&run);
    assert!(names(&tracks, None).contains(&"trials and phases 2"));
}

#[test]
fn a_trace_of_an_hour_is_small() {
    let run = study::hour();
    let mut bytes = Vec::new();
    plimsoll_report::perfetto(&view(&run), &spans(&run), &mut bytes).unwrap();
    assert!(bytes.len() < 20_000_000, "{} bytes", bytes.len());
}

/// A table read back: the names of its columns, and its rows.
type Read = (Vec<String>, Vec<BTreeMap<String, Field>>);

fn read(write: impl FnOnce(File) -> io::Result<()>) -> Read {
    let file = tempfile::NamedTempFile::new().unwrap();
    write(file.reopen().unwrap()).unwrap();
    let reader = SerializedFileReader::new(file.reopen().unwrap()).unwrap();
    let columns = reader.metadata().file_metadata().schema_descr().columns();
    let names = columns.iter().map(|column| column.name().to_owned()).collect();
    let rows = reader.get_row_iter(None).unwrap();
    (names, rows.map(|row| row.unwrap().into_columns().into_iter().collect()).collect())
}

/// Returns every table of a run by its name.
fn tables(run: &Run) -> Vec<(&'static str, Read)> {
    let view = view(run);
    vec![
        ("slices", read(|out| columnar::slices(out, slices(run)))),
        ("histograms", read(|out| columnar::histograms(out, slices(run)))),
        ("operations", read(|out| columnar::operations(out, operations(run)))),
        ("series", read(|out| columnar::series(out, series(run)))),
        ("samples", read(|out| columnar::samples(out, samples(run)))),
        ("fine_samples", read(|out| columnar::fine_samples(out, fine_samples(run)))),
        ("spans", read(|out| columnar::spans(out, &spans(run)))),
        ("answers", read(|out| columnar::answers(out, &view))),
        ("phases", read(|out| columnar::phases(out, &view))),
        ("goals", read(|out| columnar::goals(out, &view))),
    ]
}

#[test]
fn every_table_and_column_stands_in_the_book_even_if_a_run_is_empty() {
    let book = include_str!("../../../../docs/src/exports.md");
    for (table, (columns, rows)) in tables(&empty()) {
        let line = book.lines().find(|line| line.starts_with(&format!("| `{table}` |"))).expect(table);
        let told = line.rsplit('|').nth(1).unwrap();
        let mut told: Vec<String> = told.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        if table == "slices" {
            let head = plimsoll_report::csv(std::iter::empty());
            told.extend(head.trim_end().split(',').map(str::to_owned));
        }
        assert_eq!(columns, told, "{table}");
        assert!(rows.is_empty(), "{table}: {rows:?}");
    }
}

#[test]
fn stale_records_stand_beside_the_wrong_ones() {
    let mut run = study::complete();
    let counts = AnswerCounts { answers: 10, wrong: 3, stale_records: 2, ..AnswerCounts::default() };
    run.trials[0].answers = vec![AnswerCheck { op: "read".into(), counts, ..AnswerCheck::default() }];
    let (_, rows) = read(|out| columnar::answers(out, &view(&run)));
    let row = rows.iter().find(|row| row["wrong"] == Field::Long(3)).expect("the answers");
    assert_eq!(row["stale_records"], Field::Long(2));
}

#[test]
fn tables_have_the_counts_of_the_recording_with_types() {
    let run = study::complete();
    let tables: BTreeMap<_, _> = tables(&run).into_iter().collect();
    let sum = |table: &str| -> i64 {
        let of_all = |row: &&BTreeMap<String, Field>| row["op"] == Field::Str("all".into());
        let counts = tables[table].1.iter().filter(of_all).map(|row| &row["count"]);
        counts.map(|count| if let Field::Long(count) = count { *count } else { panic!("{count}") }).sum()
    };
    assert!(sum("slices") > 0 && sum("slices") == sum("histograms"));
    let slice = &tables["slices"].1[0];
    assert!(matches!(slice["warmup"], Field::Bool(_)) && matches!(slice["start_s"], Field::Double(_)));
    assert_eq!(slice["disturbed"], Field::Null, "pauses were not observed");
    assert_eq!(tables["series"].1.len(), run.series.len());
    let values: usize = run.samples.iter().map(|sample| sample.values.len()).sum();
    assert_eq!(tables["samples"].1.len(), values);
    let phases: usize = run.trials.iter().map(|trial| trial.phases.len()).sum();
    assert_eq!(tables["phases"].1.len(), phases);
    let kinds = tables["spans"].1.iter().filter(|row| row["kind"] == Field::Str("phase".into()));
    assert_eq!(kinds.count(), phases);
    assert!(!tables["answers"].1.is_empty() && !tables["goals"].1.is_empty());
}

#[test]
fn fine_readings_have_a_table_of_their_own() {
    let mut run = study::complete();
    let values = vec![(0, 0.5), (1, 2.0)];
    run.fine_samples = vec![Sample { at_ns: 1_050_000_000, values, ..Sample::default() }];
    let tables: BTreeMap<_, _> = tables(&run).into_iter().collect();
    let values: usize = run.samples.iter().map(|sample| sample.values.len()).sum();
    assert_eq!(tables["samples"].1.len(), values, "a mean over samples is of slices");
    let rows = tables["fine_samples"].1.iter().map(|row| [&row["at_s"], &row["series"], &row["value"]]);
    let wanted = [(0, 0.5), (1, 2.0)].map(|(series, value)| (Field::Long(series), Field::Double(value)));
    let at = Field::Double(1.05);
    let wanted = wanted.each_ref().map(|(series, value)| [&at, series, value]);
    assert_eq!(rows.collect::<Vec<_>>(), wanted);
}

#[test]
fn operations_that_were_recorded_one_by_one_have_a_row_each() {
    let mut run = study::complete();
    assert!(operations(&run).next().is_none());
    let (trial, phase) = (run.trials[1].header.ordinal, run.trials[1].phases[0].header.name.clone());
    let (outcome, kind) = (Outcome::Unknown, 0);
    let op =
        Operation { kind, client: 3, outcome, due_ns: 1_500_000_000, sent_ns: 1_500_000_400, end_ns: 1_500_001_000 };
    run.trials[1].phases[0].operations = Some(Operations { each: vec![op], until_ns: Some(1_500_001_001) });
    let (_, rows) = read(|out| columnar::operations(out, operations(&run)));
    assert_eq!(rows.len(), 1);
    let text = |text: &str| Field::Str(text.to_owned());
    for (column, wanted) in [
        ("trial_ordinal", Field::Long(trial.into())),
        ("phase", text(&phase)),
        ("op", text(&run.trials[1].header.kinds[0].name)),
        ("client", Field::Long(3)),
        ("outcome", text("unknown")),
        ("due_s", Field::Double(1.5)),
        ("response_ns", Field::Long(1_000)),
        ("service_ns", Field::Long(600)),
    ] {
        assert_eq!(rows[0][column], wanted, "{column}");
    }
}

#[test]
fn more_rows_than_a_group_holds_are_all_written() {
    let run = study::hour();
    let (_, rows) = read(|out| columnar::samples(out, samples(&run).chain(samples(&run))));
    let values: usize = 2 * run.samples.iter().map(|sample| sample.values.len()).sum::<usize>();
    assert!(values > 65_536, "{values}");
    assert_eq!(rows.len(), values);
}

#[test]
fn an_error_of_the_disk_is_passed_on_as_it_is() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let run = study::complete();
    let error = columnar::slices(full, slices(&run)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{error}");
}
