use std::fs;
use std::path::{Path, PathBuf};

use plimsoll_record::data::{Operations, PhaseEnd, Run, RunState};
use plimsoll_record::schema::FORMAT;
use plimsoll_record::{RecordError, Recorder};

use crate::synthetic;

/// A finished recording of some slices.
fn recording(runs_dir: &Path) -> PathBuf {
    let recorder = synthetic::recorder(runs_dir, "20261121-202403-4f1c");
    recorder.begin_trial(synthetic::trial(0)).unwrap();
    recorder.begin_phase(synthetic::phase(0, 0)).unwrap();
    for ordinal in 0..6 {
        recorder.slice(0, 0, synthetic::slice(ordinal)).unwrap();
        recorder.sample(synthetic::sample(0, ordinal)).unwrap();
    }
    recorder.fault(synthetic::fault(0, 0, 0)).unwrap();
    recorder.operations(0, 0, Operations::default()).unwrap();
    recorder.end_phase(0, 0, PhaseEnd::default()).unwrap();
    recorder.finish(RunState::Complete, 5).unwrap()
}

fn change(path: &Path, sql: &str) {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.execute_batch(&format!("PRAGMA foreign_keys = OFF; {sql}")).unwrap();
}

#[test]
fn a_file_that_is_no_recording_is_said_to_be_none() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("run.sqlite");
    let load = || Run::load(&path).unwrap_err();
    assert!(matches!(load(), RecordError::Read { what, .. } if what == "there is no such file"));
    for content in [&b""[..], b"SQLite format 3\0", &[b'x'; 5_000]] {
        fs::write(&path, content).unwrap();
        assert_eq!(load(), RecordError::NotARecording(path.clone()));
    }
    fs::remove_file(&path).unwrap();
    change(&path, "CREATE TABLE run (id TEXT)");
    assert_eq!(load(), RecordError::NotARecording(path.clone()));
    fs::create_dir(place.path().join("directory.sqlite")).unwrap();
    assert!(matches!(Run::load(&place.path().join("directory.sqlite")), Err(RecordError::Read { .. })));
}

#[test]
fn another_format_is_refused_with_the_version_that_reads_it() {
    let place = tempfile::tempdir().unwrap();
    let path = recording(place.path());
    let version = env!("CARGO_PKG_VERSION");
    for found in [4, 9] {
        change(&path, &format!("PRAGMA user_version = {found}"));
        let error = Run::load(&path).unwrap_err();
        assert_eq!(error, RecordError::OtherFormat { path: path.clone(), found, written_by: Some(version.to_owned()) });
        let age = if found < FORMAT { "an older" } else { "a newer" };
        let said = format!(
            "has format {found}, written by Plimsoll {version}, and this Plimsoll, {version}, reads format {FORMAT}: \
             read it with {age} build of it, whose `plimsoll --version` shows recording format {found}"
        );
        assert!(error.to_string().ends_with(&said), "{error}");
    }
    // As earlier formats kept it.
    change(&path, "DROP TABLE run; CREATE TABLE run (plimsoll_version TEXT); INSERT INTO run VALUES ('0.0.9')");
    let error = Run::load(&path).unwrap_err();
    let said = format!("written by Plimsoll 0.0.9, and this Plimsoll, {version}, reads format {FORMAT}: read it with");
    assert!(error.to_string().ends_with(&format!("{said} the version that wrote it")), "{error}");
    // One whose tables are others: what it says of itself cannot be found.
    change(&path, "DROP TABLE run");
    for (found, which) in [(9, "a newer one"), (1, "an older one")] {
        change(&path, &format!("PRAGMA user_version = {found}"));
        let error = Run::load(&path).unwrap_err();
        assert!(error.to_string().ends_with(&format!("reads format {FORMAT}: read it with {which}")), "{error}");
    }
    for format in [0, -5] {
        change(&path, &format!("PRAGMA user_version = {format}"));
        assert!(matches!(Run::load(&path), Err(RecordError::Damaged { .. })), "{format}");
    }
}

#[test]
fn a_place_where_nothing_can_be_made_was_not_removed() {
    let nowhere = Path::new("/proc/there-is-none/runs");
    let error = Recorder::create(nowhere, &synthetic::header("20261121-202403-4f1c")).unwrap_err();
    assert!(matches!(&error, RecordError::Write { path, .. } if path == nowhere), "{error}");
}

#[test]
fn rows_that_cannot_be_are_damage() {
    for (sql, what) in [
        ("DROP TABLE event", "no such table: event"),
        ("DELETE FROM run", "it does not describe exactly one run"),
        ("UPDATE run SET ended = '{\"state\":\"fine\",\"end_ns\":1}'", "unknown variant `fine`"),
        ("UPDATE run SET header = json_set(header, '$.seed', 'x')", "\"header\" of a row: invalid type: string \"x\""),
        ("UPDATE run SET ended = '['", "\"ended\" of a row: EOF while parsing"),
        ("UPDATE run SET header = json_remove(header, '$.slice_ns')", "missing field `slice_ns`"),
        ("UPDATE run SET recorder_bytes = -1", "-1 in the column \"recorder_bytes\" is not a count"),
        ("INSERT INTO phase SELECT 7, 0, header, ended FROM phase", "phase 0 belongs to trial 7"),
        ("INSERT INTO result VALUES (0, 0, 0, 'nonsense', '', 1.0, 1)", "\"nonsense\" is unknown"),
        ("DELETE FROM phase", "a row belongs to no phase: (0, 0)"),
        ("DELETE FROM slice WHERE ordinal = 3", "a row belongs to slice 3, which does not exist"),
        ("UPDATE slice SET disturbed_ns = NULL", "was disturbed, but its phase did not record pauses"),
        ("UPDATE histogram SET hdr = x'00' WHERE slice = 3", "a histogram of slice 3"),
        ("UPDATE histogram SET outcome = 'good' WHERE slice = 3", "\"good\" is unknown"),
        ("UPDATE slice SET ticks = x'ff' WHERE ordinal = 3", "the ticks of slice 3 are damaged"),
        ("UPDATE slice SET ticks = zeroblob(3) WHERE ordinal = 3", "the ticks of slice 3 are damaged"),
        ("UPDATE affected SET clients = 999 WHERE slice = 3", "the affected clients of slice 3 are damaged"),
        ("UPDATE affected SET slice = 300 WHERE slice = 3", "a row belongs to slice 300, which does not exist"),
        ("UPDATE silences SET times = x'05' WHERE slice = 3", "the silences of slice 3 are damaged"),
        ("UPDATE silences SET slice = 300 WHERE slice = 3", "a row belongs to slice 300, which does not exist"),
        ("UPDATE server_ticks SET names = '[\"a\"]' WHERE slice = 3", "the servers of slice 3 are damaged"),
        ("UPDATE server_ticks SET ticks = x'00' WHERE slice = 3", "the servers of slice 3 are damaged"),
        ("UPDATE server_ticks SET names = '[' WHERE slice = 3", "\"names\" of a row: EOF while parsing"),
        ("UPDATE key_parts SET parts = 7 WHERE slice = 3", "the parts of the keys of slice 3 are damaged"),
        ("UPDATE key_parts SET parts = 65 WHERE slice = 3", "the parts of the keys of slice 3 are damaged"),
        ("UPDATE key_parts SET ticks = x'0000' WHERE slice = 3", "the parts of the keys of slice 3 are damaged"),
        ("UPDATE key_parts SET slice = 300 WHERE slice = 3", "a row belongs to slice 300, which does not exist"),
        ("UPDATE operations SET times = x'05'", "the operations of phase"),
        ("UPDATE operations SET until_ns = -1", "\"until_ns\" is not a count"),
        ("UPDATE fault SET kind = 'nonsense'", "\"nonsense\" is unknown"),
        ("UPDATE fault_detail SET detail = '['", "\"detail\" of a row: EOF while parsing"),
        ("UPDATE fault SET taken_ns = -1", "-1 in the column \"taken_ns\" is not a count"),
        ("UPDATE slice SET disturbed_ns = 1000000000000000000", "\"disturbed_ns\" is not a count"),
        ("UPDATE slice SET worker_cpu_ns = 9223372036854775807", "\"worker_cpu_ns\" is not a count"),
        ("UPDATE slice SET start_ns = end_ns + 1 WHERE ordinal = 3", "a slice is from"),
        ("UPDATE phase SET header = json_set(header, '$.start_ns', 1000000000000000000)", "a phase is from"),
        ("UPDATE histogram SET kind = 70000 WHERE slice = 3 AND kind = 2", "70000"),
        ("DELETE FROM trial", "phase 0 belongs to trial 0, which does not exist"),
    ] {
        let place = tempfile::tempdir().unwrap();
        let path = recording(place.path());
        change(&path, sql);
        match Run::load(&path) {
            Err(RecordError::Damaged { what: found, .. }) => assert!(found.contains(what), "{sql}: {found}"),
            other => panic!("{sql}: {:?}", other.map(|_| ())),
        }
    }
}

#[test]
fn measurements_of_a_load_generator_that_is_not_known_are_refused() {
    for table in ["slice", "histogram", "pause", "operations", "affected", "silences", "server_ticks", "key_parts"] {
        let place = tempfile::tempdir().unwrap();
        let path = recording(place.path());
        change(&path, &format!("UPDATE {table} SET generator = 3"));
        let error = Run::load(&path).unwrap_err();
        assert_eq!(error, RecordError::OtherGenerator { path, found: 3 }, "{table}");
        let said = format!(
            "has measurements of load generator 3, and this Plimsoll, {}, knows only load generator 0: \
             read it with a newer one",
            env!("CARGO_PKG_VERSION")
        );
        assert!(error.to_string().ends_with(&said), "{error}");
    }
}

#[test]
fn a_file_with_bytes_changed_or_cut_off_is_damage_and_never_a_panic() {
    let place = tempfile::tempdir().unwrap();
    let path = recording(place.path());
    let whole = fs::read(&path).unwrap();
    let reference = Run::load(&path).unwrap();
    let mut found = 0;
    for step in 0..200usize {
        let mut bytes = whole.clone();
        if step % 8 == 0 {
            bytes.truncate(100 + (whole.len() - 100) * step / 200);
        } else {
            // A burst, not a bit: somewhere else each time.
            let at = 100 + step * 7_919_777 % (whole.len() - 200);
            bytes[at..at + 64].fill((step * 37) as u8);
        }
        fs::write(&path, &bytes).unwrap();
        match Run::load(&path) {
            Ok(run) => assert_eq!(run.header.id, reference.header.id),
            Err(
                RecordError::Damaged { .. }
                | RecordError::NotARecording(_)
                | RecordError::Read { .. }
                | RecordError::OtherGenerator { .. },
            ) => found += 1,
            Err(error) => panic!("{error}"),
        }
    }
    // Free space and the numbers of samples carry no checksum; the histograms do.
    assert!(found > 50, "{found} of 200 were noticed");
}

#[test]
fn what_is_no_plain_file_is_no_recording_and_nobody_waits_for_it() {
    let place = tempfile::tempdir().unwrap();
    let run = place.path().join("20261121-202403-4f1c");
    fs::create_dir(&run).unwrap();
    let path = run.join("run.sqlite");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    assert_eq!(Run::load(&run), Err(RecordError::NotARecording(path.clone())));
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(matches!(Run::load(&run), Err(RecordError::NotARecording(_))), "{:?}", Run::load(&run).map(drop));
    fs::remove_dir(&path).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
    assert_eq!(Run::load(&run), Err(RecordError::NotARecording(path)));
}

#[test]
fn a_recording_that_is_replaced_or_removed_while_it_is_written_is_said_to_be() {
    for by in ["a directory", "a file", "a link", "nothing"] {
        let place = tempfile::tempdir().unwrap();
        let recorder = synthetic::recorder(place.path(), "20261121-202403-4f1c");
        recorder.begin_trial(synthetic::trial(0)).unwrap();
        recorder.flush().unwrap();
        let path = place.path().join("20261121-202403-4f1c/run.sqlite");
        fs::remove_file(&path).unwrap();
        match by {
            "a directory" => fs::create_dir(&path).unwrap(),
            "a file" => fs::write(&path, "something else").unwrap(),
            "a link" => std::os::unix::fs::symlink("/dev/null", &path).unwrap(),
            _ => fs::remove_dir_all(path.parent().unwrap()).unwrap(),
        }
        let mut last = recorder.begin_phase(synthetic::phase(0, 0)).and_then(|()| recorder.flush());
        if last.is_ok() {
            last = recorder.finish(RunState::Complete, 5).map(drop);
        }
        let wanted = if by == "nothing" { RecordError::Removed(path) } else { RecordError::Replaced(path) };
        assert_eq!(last, Err(wanted), "by {by}");
    }
}
