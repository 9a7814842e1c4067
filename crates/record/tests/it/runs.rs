use std::fs;
use std::path::Path;

use plimsoll_record::data::{AnswerCheck, AnswerCounts, LedgerCheck, PhaseEnd, PhaseState, RunState};
use plimsoll_record::{RecordError, Recorder, find, list, remove};

use crate::synthetic;

const OLD: &str = "20261120-235959-00ff";
const NEW: &str = "20261121-000000-0001";
const OTHER: &str = "20261121-000000-0b02";

fn begin(runs_dir: &Path, id: &str) -> Recorder {
    let recorder = synthetic::recorder(runs_dir, id);
    for trial in [0, 1, 2] {
        recorder.begin_trial(synthetic::trial(trial)).unwrap();
        recorder.begin_phase(synthetic::phase(trial, 0)).unwrap();
    }
    recorder
}

#[test]
fn a_list_shows_the_newest_first_with_what_a_verdict_needs() {
    let place = tempfile::tempdir().unwrap();
    assert_eq!(list(&place.path().join("none"), |_| ()), Ok(Vec::new()));
    let recorder = begin(place.path(), OLD);
    let void = PhaseEnd { state: PhaseState::Void("lag".into()), ..PhaseEnd::default() };
    recorder.end_phase(0, 0, void).unwrap();
    let failed = PhaseEnd { state: PhaseState::Failed("gone".into()), ..PhaseEnd::default() };
    recorder.end_phase(1, 0, failed).unwrap();
    let counts = AnswerCounts { missing: 2, wrong: 3, ..AnswerCounts::default() };
    let answers = AnswerCheck { counts, op: "query".into(), ..AnswerCheck::default() };
    recorder.answer_check(answers).unwrap();
    let wrong = [("alien".into(), 10), ("duplicated".into(), 100)].into();
    // A later check of the trial finds a part of the same again.
    let again = LedgerCheck { lost: 5, wrong: [("alien".into(), 10)].into(), ..LedgerCheck::default() };
    let of_other = LedgerCheck { trial: 2, lost: 1, ..LedgerCheck::default() };
    for check in [LedgerCheck { lost: 7, wrong, ..LedgerCheck::default() }, again, of_other] {
        recorder.ledger_check(check).unwrap();
    }
    recorder.finish(RunState::Failed("gone".into()), 5).unwrap();
    let growing = begin(place.path(), NEW);
    growing.flush().unwrap();
    fs::create_dir(place.path().join(OTHER)).unwrap();
    fs::create_dir(place.path().join("notes")).unwrap();

    let listed = list(place.path(), |run| run.trials.len()).unwrap();
    assert_eq!(listed.iter().map(|run| run.id.as_str()).collect::<Vec<_>>(), [OTHER, NEW, OLD]);
    assert!(matches!(listed[0].summary, Err(RecordError::Read { .. })), "{:?}", listed[0]);
    let (new, trials) = listed[1].summary.as_ref().unwrap();
    assert_eq!(*trials, 3);
    assert_eq!((new.live, &new.state, new.end_ns), (true, &RunState::Unfinished, None));
    let (old, _) = listed[2].summary.as_ref().unwrap();
    assert_eq!((old.live, &old.state, old.end_ns), (false, &RunState::Failed("gone".into()), Some(5)));
    assert_eq!(old.stores, ["sqlite", "fjall"]);
    assert_eq!((old.plan_name.as_str(), old.lost, old.wrong), ("coupons", Some(8), 115));
    drop(growing);
    assert!(!list(place.path(), |run| run.trials.len()).unwrap()[1].summary.as_ref().unwrap().0.live);
}

#[test]
fn a_run_is_found_by_name_beginning_latest_and_path() {
    let place = tempfile::tempdir().unwrap();
    let runs_dir = place.path();
    let not_found = |wanted: &str| RecordError::NotFound { wanted: wanted.into(), runs_dir: runs_dir.into() };
    assert_eq!(find(runs_dir, "latest"), Err(not_found("latest")));
    for id in [OLD, NEW, OTHER] {
        begin(runs_dir, id).finish(RunState::Complete, 1).unwrap();
    }
    assert_eq!(find(runs_dir, NEW), Ok(runs_dir.join(NEW)));
    assert_eq!(find(runs_dir, "20261120"), Ok(runs_dir.join(OLD)));
    assert_eq!(find(runs_dir, "latest"), Ok(runs_dir.join(OTHER)));
    let candidates = vec![NEW.to_owned(), OTHER.to_owned()];
    assert_eq!(find(runs_dir, "20261121"), Err(RecordError::Ambiguous { wanted: "20261121".into(), candidates }));
    for wanted in ["2027", ""] {
        assert_eq!(find(runs_dir, wanted), Err(not_found(wanted)));
    }
    // A path is taken as it is: who reads it says that nothing is there.
    assert_eq!(find(runs_dir, "/no/such/run.sqlite"), Ok("/no/such/run.sqlite".into()));
    let file = runs_dir.join(OLD).join("run.sqlite");
    assert_eq!(find(Path::new("/nowhere"), file.to_str().unwrap()), Ok(file));
}

#[test]
fn only_what_a_recorder_made_is_removed() {
    let place = tempfile::tempdir().unwrap();
    let runs_dir = place.path();
    let growing = begin(runs_dir, NEW);
    assert_eq!(remove(runs_dir, NEW), Err(RecordError::Live(runs_dir.join(NEW))));
    drop(growing);
    fs::write(runs_dir.join(NEW).join("report.html"), "a page").unwrap();
    remove(runs_dir, NEW).unwrap();
    assert!(!runs_dir.join(NEW).exists());

    // A beginning is no name, and neither is a way out.
    begin(runs_dir, OLD).finish(RunState::Complete, 1).unwrap();
    for id in ["20261120", "latest", "..", "", "../runs", NEW] {
        assert!(matches!(remove(runs_dir, id), Err(RecordError::NotFound { .. })), "{id}");
    }
    // A foreign directory, named like a run.
    fs::create_dir(runs_dir.join(OTHER)).unwrap();
    fs::write(runs_dir.join(OTHER).join("precious"), "data").unwrap();
    assert!(matches!(remove(runs_dir, OTHER), Err(RecordError::NotOurs { .. })));
    fs::write(runs_dir.join(OTHER).join("run.sqlite"), [0; 4096]).unwrap();
    assert!(matches!(remove(runs_dir, OTHER), Err(RecordError::NotOurs { .. })));
    assert!(runs_dir.join(OTHER).join("precious").exists());
    // A link to a run elsewhere.
    std::os::unix::fs::symlink(runs_dir.join(OLD), runs_dir.join(NEW)).unwrap();
    assert!(matches!(remove(runs_dir, NEW), Err(RecordError::NotFound { .. })));
    assert!(runs_dir.join(OLD).join("run.sqlite").exists());
    // A damaged run.
    let file = fs::OpenOptions::new().write(true).open(runs_dir.join(OLD).join("run.sqlite")).unwrap();
    file.set_len(300).unwrap();
    remove(runs_dir, OLD).unwrap();
    // What a recorder leaves that died at once.
    fs::create_dir(runs_dir.join(OLD)).unwrap();
    remove(runs_dir, OLD).unwrap();
}
