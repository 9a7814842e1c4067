//! Spans of faults: each is recorded when it begins, and again as it goes on.

use plimsoll_core::{Link, LinkPeers, LinkWays, NodeSet, Nodes};
use plimsoll_record::Recorder;
use plimsoll_record::data::{FaultDetail, FaultKind, FaultSpan, Run, RunState};
use rusqlite::Connection;

use crate::synthetic;

/// A recorder with two trials, whose phases can have faults.
fn recorder(runs_dir: &std::path::Path) -> Recorder {
    let recorder = synthetic::recorder(runs_dir, "20261121-202403-4f1c");
    for trial in 0..2 {
        recorder.begin_trial(synthetic::trial(trial)).unwrap();
        recorder.begin_phase(synthetic::phase(trial, 0)).unwrap();
        recorder.begin_phase(synthetic::phase(trial, 1)).unwrap();
    }
    recorder
}

fn begun(span: &FaultSpan) -> FaultSpan {
    FaultSpan { taken_ns: None, healing_ns: None, healed_ns: None, ..span.clone() }
}

#[test]
fn a_fault_is_replaced_by_what_is_told_of_it_later() {
    let place = tempfile::tempdir().unwrap();
    let recorder = recorder(place.path());
    let whole = FaultSpan { error: Some("it 'said' \"no\"".into()), ..synthetic::fault(0, 1, 0) };
    let taken = FaultSpan { healing_ns: None, healed_ns: None, error: None, ..whole.clone() };
    let healing = FaultSpan { healed_ns: None, ..whole.clone() };
    for told in [begun(&taken), taken, healing, whole] {
        recorder.fault(told.clone()).unwrap();
        recorder.flush().unwrap();
        assert_eq!(Run::load(recorder.directory()).unwrap().trials[0].faults, [told]);
    }
}

#[test]
fn faults_are_read_back_by_trial_and_position_whatever_became_of_them() {
    let place = tempfile::tempdir().unwrap();
    let recorder = recorder(place.path());
    // One of each kind, which end in an order of their own; the last only began.
    let last = FaultKind::ALL.len() as u32 - 1;
    let spans: Vec<FaultSpan> = (0..2)
        .flat_map(|trial| (0..=last).map(move |ordinal| synthetic::fault(trial, ordinal % 2, ordinal)))
        .map(|span| if span.ordinal == last { begun(&span) } else { span })
        .collect();
    for span in spans.iter().rev() {
        recorder.fault(begun(span)).unwrap();
        recorder.fault(span.clone()).unwrap();
    }
    let run = Run::load(&recorder.finish(RunState::Complete, 5).unwrap()).unwrap();
    assert_eq!(run.faults().cloned().collect::<Vec<_>>(), spans);
}

#[test]
fn a_fault_of_a_phase_that_did_not_begin_is_the_callers_mistake() {
    let place = tempfile::tempdir().unwrap();
    let recorder = recorder(place.path());
    recorder.fault(synthetic::fault(0, 7, 0)).unwrap();
    let error = recorder.flush().unwrap_err();
    assert!(error.to_string().contains("FOREIGN KEY"), "{error}");
}

#[test]
fn a_fault_of_an_earlier_version_has_the_parts_of_its_words() {
    let place = tempfile::tempdir().unwrap();
    let recorder = recorder(place.path());
    let words = "disk eio write once at 3s";
    let span = FaultSpan { kind: FaultKind::Disk, fault: words.into(), ..synthetic::fault(0, 1, 0) };
    recorder.fault(span.clone()).unwrap();
    recorder.fault(synthetic::fault(0, 1, 1)).unwrap();
    let path = recorder.finish(RunState::Complete, 5).unwrap();
    Connection::open(&path).unwrap().execute_batch("DROP TABLE fault_detail").unwrap();
    let run = Run::load(&path).unwrap();
    let [disk, kill] = &run.trials[0].faults[..] else { panic!("{:?}", run.trials[0].faults) };
    let detail = |name: &str, disk: Option<&str>| FaultDetail {
        name: name.to_owned(),
        disk: disk.map(str::to_owned),
        nodes: Some(Nodes::One(0)),
        ..FaultDetail::default()
    };
    assert_eq!(*disk, FaultSpan { detail: detail("disk eio write once", Some("eio write once")), ..span });
    assert_eq!(kill.detail, detail("kill primary", None));
}

#[test]
fn a_skipped_repeat_of_an_earlier_version_is_known_by_the_beginning_of_its_error() {
    let place = tempfile::tempdir().unwrap();
    let recorder = recorder(place.path());
    let why = "no node was primary".to_owned();
    let span = FaultSpan { taken_ns: None, error: Some(why), ..synthetic::fault(0, 1, 0) };
    let skipped = FaultSpan { detail: FaultDetail { is_skipped: true, ..span.detail.clone() }, ..span.clone() };
    let failed = FaultSpan { ordinal: 1, ..span };
    recorder.fault(skipped.clone()).unwrap();
    recorder.fault(failed.clone()).unwrap();
    let path = recorder.finish(RunState::Complete, 5).unwrap();
    let read = || Run::load(&path).unwrap().trials[0].faults.clone();
    assert_eq!(read(), [skipped.clone(), failed.clone()]);
    let earlier = "UPDATE fault_detail SET detail = json_remove(detail, '$.is_skipped'); \
                   UPDATE fault SET error = 'skipped: ' || error WHERE ordinal = 0";
    Connection::open(&path).unwrap().execute_batch(earlier).unwrap();
    assert_eq!(read(), [skipped, failed]);
}

#[test]
fn links_and_objects_of_faults_of_earlier_versions_are_those_in_their_words() {
    let cut = |ways, peers| Some(Link { ways, peers, ..Link::CUT });
    let slow = Some(Link { peers: LinkPeers::ClientHost(1), ..Link::default() });
    let narrow = Some(Link { rate_bits_per_s: Some(50_000_000), ..Link::default() });
    let all = [
        (FaultKind::Link, "link node 2 delay=5ms rate=50Mbit at 3s", narrow, None),
        (FaultKind::Cut, "cut all at 3s", cut(LinkWays::Both, LinkPeers::All), None),
        (FaultKind::Cut, "cut node 2 out at 3s", cut(LinkWays::Out, LinkPeers::All), None),
        (FaultKind::Cut, "cut primary in from node 3 at 3s", cut(LinkWays::In, LinkPeers::Node(2)), None),
        (FaultKind::Cut, "cut primary out to clients at 3s", cut(LinkWays::Out, LinkPeers::Clients), None),
        (FaultKind::Link, "link all from client host 2 delay=5ms loss=1% at 3s", slow, None),
        (FaultKind::Work, "work vacuum primary at 3s", None, Some("vacuum")),
        (FaultKind::Neighbour, "neighbour node 2 cpu=2 at 3s", None, Some("cpu=2")),
    ];
    for earlier in ["DROP TABLE fault_detail", "UPDATE fault_detail SET detail = json_remove(detail, '$.object')"] {
        let place = tempfile::tempdir().unwrap();
        let recorder = recorder(place.path());
        for (ordinal, (kind, words, ..)) in (0..).zip(&all) {
            let detail = FaultDetail::of_words(*kind, words, "");
            let span = FaultSpan { kind: *kind, fault: (*words).to_owned(), detail, ..synthetic::fault(0, 1, ordinal) };
            recorder.fault(span).unwrap();
        }
        let path = recorder.finish(RunState::Complete, 5).unwrap();
        Connection::open(&path).unwrap().execute_batch(earlier).unwrap();
        let run = Run::load(&path).unwrap();
        assert_eq!(run.trials[0].faults.len(), all.len());
        for (span, (_, words, link, object)) in run.trials[0].faults.iter().zip(&all) {
            assert_eq!((span.detail.link, span.detail.object.as_deref()), (*link, *object), "{words}");
            assert_eq!(span.detail.nodes, Some(Nodes::One(0)), "of the subject, node 1, the primary");
        }
    }
}

#[test]
fn nodes_of_faults_of_earlier_versions_are_those_of_their_subjects() {
    let several = |numbers: &[usize]| NodeSet::of(numbers).map(Nodes::Several);
    for (subject, nodes) in [
        ("node 2", Some(Nodes::One(1))),
        ("node 12, a replica", Some(Nodes::One(11))),
        ("node 2, from 2.9.10 to 2.15.1", Some(Nodes::One(1))),
        ("nodes 1 and 3", several(&[0, 2])),
        ("nodes 1, 2 and 4, the majority", several(&[0, 1, 3])),
        ("all nodes", Some(Nodes::All)),
        ("all nodes, in turn", Some(Nodes::All)),
        ("the server", None),
        ("the disk", None),
        ("a node", None),
        ("\"node 2 stop\"", None),
        ("", None),
    ] {
        assert_eq!(FaultDetail::of_words(FaultKind::Kill, "kill all at 3s", subject).nodes, nodes, "{subject}");
    }
}
