//! Resumption of a recording after its program was killed.

use plimsoll_record::data::{Event, EventClass, LedgerCheck, Level, Operations, PhaseEnd, Run, RunState};
use plimsoll_record::{RecordError, Recorder, glance};

use crate::synthetic;

fn event(at_ns: u64, trial: Option<u32>) -> Event {
    let (subject, text) = (String::new(), "seen".to_owned());
    Event { from_ns: at_ns, until_ns: at_ns, trial, level: Level::Info, class: EventClass::Store, subject, text }
}

fn write(recorder: &Recorder, trial: u32, ends: bool) {
    recorder.begin_trial(synthetic::trial(trial)).unwrap();
    recorder.begin_phase(synthetic::phase(trial, 0)).unwrap();
    recorder.slice(trial, 0, synthetic::slice(0)).unwrap();
    recorder.slice(trial, 0, synthetic::slice(1)).unwrap();
    recorder.fault(synthetic::fault(trial, 0, 0)).unwrap();
    recorder.operations(trial, 0, Operations::default()).unwrap();
    recorder.end_phase(trial, 0, PhaseEnd::default()).unwrap();
    recorder.ledger_check(LedgerCheck { trial, ..LedgerCheck::default() }).unwrap();
    recorder.event(event(5 + u64::from(trial), Some(trial))).unwrap();
    if ends {
        recorder.end_trial(trial, 900_000_000_000).unwrap();
    }
}

#[test]
fn what_is_kept_stays_and_the_rest_is_written_again() {
    let place = tempfile::tempdir().unwrap();
    for kept in [&[0][..], &[]] {
        let id = format!("20261125-17000{}-0000", kept.len());
        let recorder = synthetic::recorder(place.path(), &id);
        let directory = recorder.directory().to_owned();
        recorder.event(event(1, None)).unwrap();
        write(&recorder, 0, true);
        write(&recorder, 1, false);
        recorder.flush().unwrap();
        // A recording belongs to its program as long as that runs.
        assert!(matches!(Recorder::resume(&directory, kept, Vec::new()), Err(RecordError::Live(_))));
        drop(recorder);
        let before = Run::load(&directory).unwrap();
        assert_eq!(before.state, RunState::Unfinished);
        let seen = glance(&directory).unwrap();
        assert_eq!((seen.is_complete, seen.trials.len(), &seen.plan_name), (false, 1, &before.header.plan_name));

        let recorder = Recorder::resume(&directory, kept, before.series.clone()).unwrap();
        assert_eq!(recorder.series(&before.series[1]).unwrap(), 1);
        let missing = (0..2).filter(|trial| !kept.contains(trial));
        missing.for_each(|trial| write(&recorder, trial, true));
        recorder.finish(RunState::Complete, 950_000_000_000).unwrap();
        let after = Run::load(&directory).unwrap();
        assert_eq!((&after.state, &after.header, &after.series), (&RunState::Complete, &before.header, &before.series));
        assert_eq!(after.trials[0], before.trials[0]);
        assert!(after.trials.len() == 2 && after.trials.iter().all(|trial| trial.end_ns.is_some()));
        assert_eq!(after.events.len(), 3, "{:?}", after.events);
        assert_eq!(after.faults().cloned().collect::<Vec<_>>(), [0, 1].map(|trial| synthetic::fault(trial, 0, 0)));
        assert!(glance(&directory).unwrap().is_complete);
        assert!(!directory.join("reserve").exists());
    }
}
