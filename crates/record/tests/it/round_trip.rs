use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use hdrhistogram::Histogram;
use plimsoll_core::{Footprint, Outcome, Slice};
use plimsoll_record::data::{
    About, AnswerCheck, AnswerCounts, Asked, DuplicateReads, Event, EventClass, LedgerCheck, Level, LostWrites,
    Operation, Operations, PhaseEnd, PhaseResult, PhaseState, ResultName, Run, RunState, Sample, Series, SeriesKind,
    StaleReads, UnknownWrites,
};
use plimsoll_record::{Distribution, RecordError, Recorder, packed};
use rusqlite::Connection;

use crate::synthetic;

fn event(from_ns: u64, trial: Option<u32>) -> Event {
    Event {
        from_ns,
        until_ns: from_ns + 3,
        trial,
        level: Level::Warning,
        class: EventClass::Store,
        subject: "sqlite".into(),
        text: "it 'said' \"no\"\nτwice".into(),
    }
}

fn end() -> PhaseEnd {
    let asked = |rows, outcome| Asked { kind: 2, start_ns: 5, end_ns: 9, outcome, rows };
    PhaseEnd {
        end_ns: 3_000_000_000,
        state: PhaseState::Void("the generator was the limit".into()),
        overloaded: true,
        late: Some("the generator was 3 ms late".into()),
        lost_between_ns: Some((1_200_000_000, 2_900_000_000)),
        results: vec![
            PhaseResult { name: ResultName::Seconds, subject: String::new(), value: 1.25, n: 1 },
            PhaseResult { name: ResultName::Cycles, subject: "flushes".into(), value: f64::INFINITY, n: 7 },
        ],
        asked: vec![asked(512, Outcome::Ok), asked(0, Outcome::NotFound), asked(0, Outcome::Unknown)],
        footprint: Some(Footprint { data_bytes: 10, index_bytes: None, total_bytes: Some(12) }),
        remarks: vec![(About::Plan, "SCAN coupons".into())],
    }
}

fn operations() -> Operations {
    let op =
        |kind, client, outcome, due_ns, sent_ns, end_ns| Operation { kind, client, outcome, due_ns, sent_ns, end_ns };
    let each = vec![
        op(0, 1, Outcome::Ok, 1_000_000_000, 1_000_000_500, 1_000_300_000),
        op(2, 70_000, Outcome::Unknown, 0, 1_000_000_000, 11_000_000_000),
    ];
    Operations { each, until_ns: Some(11_000_000_001) }
}

fn answers() -> AnswerCheck {
    AnswerCheck {
        trial: 0,
        phase: 0,
        op: "query".into(),
        counts: AnswerCounts { answers: 5, expected: 500, got: 499, missing: 2, wrong: 1, stale_records: 1 },
        examples: vec!["coupon 7 is missing".into(), "coupon 8 is stale".into()],
        duplicates: vec![DuplicateReads { at_ns: 30_000_000, records: 2 }],
        stale: vec![StaleReads { at_ns: 20_000_000, server: "node 2".into(), records: 1 }],
    }
}

fn ledger() -> LedgerCheck {
    LedgerCheck {
        trial: 0,
        phase: 0,
        acknowledged: 100_000,
        rejected: 1,
        unknown: 2,
        read_back: 99_999,
        unread: 4,
        lost: 3,
        read_then_lost: 3,
        lost_window_ns: Some((17, 19)),
        lost_writes: vec![LostWrites { at_ns: 0, writes: 2 }],
        unknown_writes: vec![UnknownWrites { at_ns: 10_000_000, written: 1, not_written: 1, not_known: 0 }],
        wrong: BTreeMap::from([("duplicated".into(), 1), ("alien".into(), 2)]),
        loss_upper_bound: Some(3e-5),
        complete: true,
        examples: vec!["coupon 9 is gone".into()],
        sentence: "3 of 100,000 acknowledged writes are gone".into(),
    }
}

/// The slice that ends the phase has operations that were never sent.
fn last_slice() -> Slice {
    let mut unfinished = Histogram::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
    unfinished.record_n(250_000_000, 40).unwrap();
    Slice { unfinished: Some(unfinished), ..synthetic::slice(2) }
}

fn fine_samples() -> Vec<Sample> {
    [1, 2].map(|at_ns| Sample { at_ns, values: vec![(1, 0.5), (3, at_ns as f64)], ..Sample::default() }).to_vec()
}

/// Writes one of everything.
fn write(runs_dir: &Path, id: &str) -> Recorder {
    let recorder = synthetic::recorder(runs_dir, id);
    recorder.event(event(2, None)).unwrap();
    recorder.begin_trial(synthetic::trial(0)).unwrap();
    recorder.begin_phase(synthetic::phase(0, 0)).unwrap();
    recorder.slice(0, 0, synthetic::slice(0)).unwrap();
    recorder.sample(synthetic::sample(0, 0)).unwrap();
    recorder.slice(0, 0, synthetic::slice(1)).unwrap();
    let sample = Sample { at_ns: 1, values: vec![(0, 0.5), (1, f64::NAN), (2, 0.0)], ..Sample::default() };
    recorder.sample(sample).unwrap();
    recorder.fine_samples(fine_samples()).unwrap();
    recorder.slice(0, 0, last_slice()).unwrap();
    recorder.sample(synthetic::sample(0, 2)).unwrap();
    recorder.operations(0, 0, operations()).unwrap();
    recorder.end_phase(0, 0, end()).unwrap();
    recorder.answer_check(answers()).unwrap();
    recorder.ledger_check(ledger()).unwrap();
    recorder.event(event(1, Some(0))).unwrap();
    recorder.end_trial(0, 77).unwrap();
    recorder.begin_trial(synthetic::trial(1)).unwrap();
    recorder.begin_phase(synthetic::phase(1, 1)).unwrap();
    recorder.slice(1, 1, synthetic::slice(0)).unwrap();
    recorder
}

#[test]
fn everything_that_was_handed_over_is_read_back() {
    let place = tempfile::tempdir().unwrap();
    let runs_dir = place.path().join("state/plimsoll/runs");
    let recorder = write(&runs_dir, "20261121-202403-4f1c");
    recorder.flush().unwrap();
    let growing = Run::load(recorder.directory()).unwrap();
    assert_eq!((growing.state, growing.end_ns), (RunState::Unfinished, None));
    let path = recorder.finish(RunState::Interrupted, 99).unwrap();

    let run = Run::load(&path).unwrap();
    assert_eq!(run.header, synthetic::header("20261121-202403-4f1c"));
    assert_eq!((&run.state, run.end_ns), (&RunState::Interrupted, Some(99)));
    assert_eq!(run.events, [event(1, Some(0)), event(2, None)]);
    let odd = Sample { at_ns: 1, values: vec![(0, 0.5), (2, 0.0)], ..Sample::default() };
    assert_eq!(run.samples, [odd, synthetic::sample(0, 0), synthetic::sample(0, 2)]);
    assert_eq!(run.fine_samples, fine_samples());

    let trial = &run.trials[0];
    assert_eq!((&trial.header, trial.end_ns), (&synthetic::trial(0), Some(77)));
    assert_eq!(trial.answers, [answers()]);
    assert_eq!(trial.ledgers, [ledger()]);
    assert_eq!(trial.phases.len(), 1);
    assert_eq!(trial.phases[0].header, synthetic::phase(0, 0));
    assert_eq!(trial.phases[0].end, end());
    let slices = [synthetic::slice(0), synthetic::slice(1), last_slice()];
    assert_eq!(trial.phases[0].slices, slices.each_ref().map(packed));
    assert_eq!(trial.phases[0].operations, Some(operations()));

    let cut = &run.trials[1];
    assert_eq!((&cut.header, cut.end_ns), (&synthetic::trial(1), None));
    let unfinished = PhaseEnd { end_ns: 1_000_000_000, ..PhaseEnd::default() };
    assert_eq!((&cut.phases[0].header, &cut.phases[0].end), (&synthetic::phase(1, 1), &unfinished));
    assert_eq!(cut.phases[0].operations, None);
    assert_eq!(growing.trials, run.trials);
}

#[test]
fn a_result_that_is_not_a_number_comes_back_as_one_that_is_not() {
    let place = tempfile::tempdir().unwrap();
    let recorder = synthetic::recorder(place.path(), "20261121-202403-4f1c");
    recorder.begin_trial(synthetic::trial(0)).unwrap();
    recorder.begin_phase(synthetic::phase(0, 0)).unwrap();
    let mut end = PhaseEnd::default();
    end.push(ResultName::Seconds, f64::NAN);
    recorder.end_phase(0, 0, end).unwrap();
    let run = Run::load(&recorder.finish(RunState::Complete, 1).unwrap()).unwrap();
    assert!(run.trials[0].phases[0].end.results[0].value.is_nan());
}

#[test]
fn a_phase_of_an_earlier_version_was_overloaded_if_its_reason_says_so() {
    let place = tempfile::tempdir().unwrap();
    let recorder = synthetic::recorder(place.path(), "20261121-202403-4f1c");
    recorder.begin_trial(synthetic::trial(0)).unwrap();
    let reasons = ["operations had been due for longer than the backlog", "the generator could not keep up this rate"];
    for (ordinal, why) in (0..).zip(reasons) {
        recorder.begin_phase(synthetic::phase(0, ordinal)).unwrap();
        let end = PhaseEnd { state: PhaseState::Failed(why.into()), ..PhaseEnd::default() };
        recorder.end_phase(0, ordinal, end).unwrap();
    }
    let path = recorder.finish(RunState::Complete, 1).unwrap();
    let earlier = "UPDATE phase SET ended = json_remove(ended, '$.overloaded')";
    Connection::open(&path).unwrap().execute_batch(earlier).unwrap();
    let run = Run::load(&path).unwrap();
    let overloaded: Vec<bool> = run.trials[0].phases.iter().map(|phase| phase.end.overloaded).collect();
    assert_eq!(overloaded, [true, false]);
}

#[test]
fn a_command_for_a_lab_of_an_earlier_version_has_its_class() {
    let place = tempfile::tempdir().unwrap();
    let recorder = synthetic::recorder(place.path(), "20261121-202403-4f1c");
    let texts = ["lab kill a 1", "node 1 of lab a ended"];
    for (at_ns, text) in (0..).zip(texts) {
        recorder.event(Event { class: EventClass::Servers, text: text.to_owned(), ..event(at_ns, None) }).unwrap();
    }
    let run = Run::load(&recorder.finish(RunState::Complete, 5).unwrap()).unwrap();
    let read: Vec<(EventClass, &str)> = run.events.iter().map(|event| (event.class, event.text.as_str())).collect();
    assert_eq!(read, [(EventClass::Command, texts[0]), (EventClass::Servers, texts[1])]);
}

#[test]
fn only_its_user_can_read_a_recording_and_it_ends_as_one_file() {
    let place = tempfile::tempdir().unwrap();
    let runs_dir = place.path().join("runs");
    let recorder = write(&runs_dir, "20261121-202403-4f1c");
    recorder.flush().unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    for entry in recorder.directory().read_dir().unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
    assert!(recorder.directory().join("run.sqlite-wal").exists());
    let directory = recorder.directory().to_owned();
    assert_eq!((mode(&directory), mode(&runs_dir)), (0o700, 0o700));
    recorder.finish(RunState::Complete, 1).unwrap();
    let names: Vec<_> = directory.read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["run.sqlite"]);
}

#[test]
fn a_recorder_that_is_dropped_keeps_what_it_was_handed() {
    let place = tempfile::tempdir().unwrap();
    let recorder = write(place.path(), "20261121-202403-4f1c");
    let directory = recorder.directory().to_owned();
    drop(recorder);
    let run = Run::load(&directory).unwrap();
    assert_eq!(run.state, RunState::Unfinished);
    assert_eq!(run.trials[1].phases[0].slices.len(), 1);
    assert!(!directory.join("reserve").exists());
}

#[test]
fn a_reader_neither_holds_the_writer_up_nor_spoils_the_end() {
    let place = tempfile::tempdir().unwrap();
    let recorder = write(place.path(), "20261121-202403-4f1c");
    recorder.flush().unwrap();
    let other = rusqlite::Connection::open(recorder.directory().join("run.sqlite")).unwrap();
    other.execute_batch("BEGIN").unwrap();
    let before: i64 = other.query_row("SELECT count(*) FROM slice", [], |row| row.get(0)).unwrap();
    for ordinal in 1..40 {
        recorder.slice(1, 1, synthetic::slice(ordinal)).unwrap();
    }
    recorder.end_trial(1, 3).unwrap();
    recorder.flush().unwrap();
    let during: i64 = other.query_row("SELECT count(*) FROM slice", [], |row| row.get(0)).unwrap();
    assert_eq!((before, during), (4, 4));
    let path = recorder.finish(RunState::Complete, 1).unwrap();
    let run = Run::load(&path).unwrap();
    assert_eq!((run.state, run.trials[1].phases[0].slices.len()), (RunState::Complete, 40));
}

#[test]
fn the_recorders_own_bytes_are_counted() {
    // A directory on a device: what lies in memory only is written nowhere.
    let prefix = format!("record-test-{}-", std::process::id());
    let place = tempfile::Builder::new().prefix(&prefix).tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let recorder = write(place.path(), "20261121-202403-4f1c");
    recorder.flush().unwrap();
    let start = recorder.bytes_written();
    let log = recorder.directory().join("run.sqlite-wal");
    let log_start = log.metadata().unwrap().len();
    for ordinal in 1..30 {
        recorder.slice(1, 1, synthetic::slice(ordinal)).unwrap();
    }
    recorder.flush().unwrap();
    let (counted, logged) = (recorder.bytes_written() - start, log.metadata().unwrap().len() - log_start);
    assert!(
        counted + 8192 >= logged && counted <= logged * 2,
        "counted {counted} B, the log grew by {logged} B; is target/ on a device?"
    );
    let last = recorder.bytes_written();
    let run = Run::load(&recorder.finish(RunState::Complete, 1).unwrap()).unwrap();
    assert!(run.recorder_bytes > last, "{} B, and {last} B before the end", run.recorder_bytes);
}

#[test]
fn the_first_error_stays_and_ends_the_run() {
    let place = tempfile::tempdir().unwrap();
    let recorder = write(place.path(), "20261121-202403-4f1c");
    // The same slice again: a mistake of the caller's.
    recorder.slice(1, 1, synthetic::slice(0)).unwrap();
    let error = recorder.flush().unwrap_err();
    assert!(matches!(&error, RecordError::Write { what, .. } if what.contains("UNIQUE")), "{error}");
    assert_eq!(recorder.error(), Some(error.clone()));
    assert_eq!(recorder.slice(1, 1, synthetic::slice(1)), Err(error.clone()));
    let directory = recorder.directory().to_owned();
    assert_eq!(recorder.finish(RunState::Complete, 5), Err(error.clone()));
    let run = Run::load(&directory).unwrap();
    assert_eq!(run.state, RunState::Failed(error.to_string()));
    assert_eq!(run.trials[1].phases[0].slices.len(), 1);
}

#[test]
fn a_run_is_never_written_over() {
    let place = tempfile::tempdir().unwrap();
    let header = synthetic::header("20261121-202403-4f1c");
    let recorder = Recorder::create(place.path(), &header).unwrap();
    let path = recorder.directory().to_owned();
    assert_eq!(Recorder::create(place.path(), &header).err(), Some(RecordError::Exists(path)));
    recorder.finish(RunState::Complete, 5).unwrap();
}

#[test]
fn a_series_is_registered_when_it_appears_and_a_distribution_is_a_reading() {
    let runs = tempfile::tempdir().unwrap();
    let recorder = synthetic::recorder(runs.path(), "counters");
    recorder.begin_trial(synthetic::trial(0)).unwrap();
    let text = |text: &str| text.to_owned();
    let (source, subject) = (text("store"), text("redis node 1"));
    let cycle = Series { source, subject, name: text("rewrites"), unit: String::new(), kind: SeriesKind::Cycle };
    let pauses = Series { name: text("pauses"), unit: text("ns"), kind: SeriesKind::Distribution, ..cycle.clone() };
    let known = synthetic::series().len() as u32;
    let position = recorder.series(&cycle).unwrap();
    assert_eq!((position, recorder.series(&cycle).unwrap()), (known, known));
    assert_eq!(recorder.series(&pauses), Ok(known + 1));
    let mut times = Histogram::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
    times.record_n(12_345_678, 3).unwrap();
    let sample = |at_ns, values, times: &Histogram<u64>| Sample {
        at_ns,
        values,
        distributions: vec![(known + 1, Distribution::from(times))],
    };
    let samples = [sample(1_500, vec![(position, 1.0)], &times), sample(2_500, Vec::new(), &times)];
    samples.iter().for_each(|sample| recorder.sample(sample.clone()).unwrap());
    let run = Run::load(&recorder.finish(RunState::Complete, 5_000).unwrap()).unwrap();
    assert_eq!(run.series[known as usize..], [cycle, pauses]);
    assert_eq!(run.samples, samples);
}

#[test]
fn of_two_readings_at_one_time_the_later_one_stays_and_the_recording_goes_on() {
    let runs = tempfile::tempdir().unwrap();
    let recorder = synthetic::recorder(runs.path(), "readings");
    recorder.begin_trial(synthetic::trial(0)).unwrap();
    let sample = |value| Sample { at_ns: 1_500, values: vec![(0, value)], ..Sample::default() };
    [1.0, 2.0].into_iter().for_each(|value| recorder.sample(sample(value)).unwrap());
    let run = Run::load(&recorder.finish(RunState::Complete, 5_000).unwrap()).unwrap();
    assert_eq!(run.samples, [sample(2.0)]);
}
