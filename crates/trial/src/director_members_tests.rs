//! Nodes that join, leave, are replaced, and restart with other programs.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use plimsoll_record::data::FaultKind;

use super::{Directing, Noted};

#[test]
fn a_node_that_joins_stays_and_is_named() {
    let done = Directing::of(Noted::default(), &["add node at 20ms"], None, 1_000);
    assert_eq!((done.directed.added.as_slice(), done.directed.join_s.is_some()), (&[3][..], true));
    assert_eq!((done.spans[0].subject.as_str(), done.spans[0].healed_ns), ("node 4", None));
}

#[test]
fn the_node_that_joined_last_leaves_and_without_one_the_fault_is_an_error() {
    let done = Directing::of(Noted::default(), &["add node at 20ms", "remove node at 60ms"], None, 1_000);
    assert_eq!((done.names(), done.directed.added.len()), (vec!["add 4", "remove 4"], 0));
    let removal = &done.spans[1];
    assert_eq!((removal.kind, removal.subject.as_str(), &removal.error), (FaultKind::Removal, "node 4", &None));
    assert!(removal.healed_ns.is_some() && done.directed.failed.is_none());
    let alone = Directing::of(Noted::default(), &["remove node at 20ms"], None, 1_000);
    assert!(alone.names().is_empty() && alone.directed.failed.is_some());
}

#[test]
fn a_node_that_is_replaced_is_whole_when_it_has_joined() {
    let done = Directing::of(Noted::default(), &["replace node 3 at 20ms"], None, 1_000);
    assert_eq!((done.names()[0], done.directed.added.len()), ("replace 3", 0));
    let span = &done.spans[0];
    assert_eq!((span.kind, span.subject.as_str(), &span.error), (FaultKind::Replacement, "node 3", &None));
    assert!(span.healed_ns.is_some() && done.directed.failed.is_none());
    let all = Directing::of(Noted::default(), &["replace all at 20ms"], None, 1_000);
    assert!(all.directed.failed.is_some() && !all.names().contains(&"replace all"));
}

#[test]
fn a_node_in_whose_place_none_comes_up_is_named_by_the_error_and_known_to_be_missing() {
    let servers = Noted { loses_replaced: true, ..Noted::default() };
    let done = Directing::of(servers, &["replace node 3 at 20ms"], None, 1_000);
    let error = done.directed.failed.unwrap();
    let what =
        "replace node 3 at 20ms: node 3 was removed, and no node came up in its place: it accepts no connections";
    assert_eq!((error.what.as_str(), done.directed.missing), (what, Some(2)));
    let next = "read its log, /tmp/log; then start the run again, which begins with a whole cluster";
    assert_eq!(error.next.as_deref(), Some(next));
    assert!(done.spans[0].error.as_ref().unwrap().starts_with("node 3 was removed"), "{:?}", done.spans[0]);
    assert_eq!(done.spans[0].healed_ns, None);
}

#[test]
fn a_rolling_restart_includes_nodes_that_joined_meanwhile() {
    let joined = Noted { has_joined: true, ..Noted::default() };
    let done = Directing::of(joined, &["restart all rolling at 50ms"], Some(1_000), 1_000);
    let stops: Vec<&str> = done.names().into_iter().filter(|name| name.starts_with("stop")).collect();
    assert_eq!(stops, ["stop 1", "stop 3", "stop 4", "stop 2"]);
}

#[test]
fn a_rolling_restart_with_another_program_names_both_versions_and_notes_the_former_programs() {
    let done = Directing::of(Noted::default(), &["restart all rolling with /new at 50ms"], Some(1_000), 1_000);
    let wanted = ["with /new 1", "start all", "with /new 3", "start all", "with /new 2", "start all", "start all"];
    assert_eq!(done.names(), wanted);
    assert_eq!(done.spans[0].subject, "all nodes, in turn, from 1.0 to 2.0");
    let former: Vec<(usize, PathBuf)> = done.directed.programs.into_iter().collect();
    assert_eq!(former, [0, 1, 2].map(|number| (number, PathBuf::from("/old"))));
}

#[test]
fn of_two_restarts_with_other_programs_the_program_before_the_first_is_noted() {
    let faults = ["restart primary with /new at 50ms", "restart primary with /newer at 400ms"];
    let done = Directing::of(Noted::default(), &faults, Some(2_000), 2_000);
    assert_eq!(done.names()[..2], ["with /new 2", "with /newer 2"]);
    assert_eq!(done.spans[1].subject, "node 2, the primary, from 1.0 to 2.0");
    assert_eq!(done.directed.programs.len(), 1);
}

#[test]
fn a_rolling_restart_ends_with_the_primary_and_waits_for_each_node() {
    let done = Directing::of(Noted::default(), &["restart all rolling at 50ms"], Some(1_000), 1_000);
    let turn = |number: u32| [format!("stop {number}"), format!("start {number}"), "start all".to_owned()];
    let wanted: Vec<String> =
        [turn(1), turn(3), turn(2)].concat().into_iter().chain(["start all".to_owned()]).collect();
    assert_eq!(done.names(), wanted);
    let span = &done.spans[0];
    assert_eq!((span.kind, span.subject.as_str()), (FaultKind::Restart, "all nodes, in turn"));
    assert!(span.taken_ns.is_some() && span.healed_ns == span.taken_ns && span.healing_ns.is_none());
}

#[test]
fn the_link_of_a_node_that_is_replaced_is_healed_once_the_node_is_there() {
    for (cut, wanted) in [
        ("cut node 2", &["cut 2", "replace 2", "link 2", "start all"][..]),
        ("cut all", &["cut all", "link 1", "link 3", "replace 2", "link 2", "start all"]),
    ] {
        let slow = Noted { replaced_in: Duration::from_millis(2_500), ..Noted::default() };
        let cut = format!("{cut} at 20ms for 1200ms");
        let done = Directing::of(slow, &[cut.as_str(), "replace node 2 at 300ms"], Some(4_000), 4_000);
        assert_eq!(done.names(), wanted);
        assert!(done.directed.failed.is_none() && done.spans.iter().all(|span| span.healed_ns.is_some()));
    }
    let left = Noted { away: Mutex::new(Some(2)), ..Noted::default() };
    let done = Directing::of(left, &["cut all at 20ms for 100ms"], Some(1_000), 1_000);
    assert_eq!(done.names(), ["cut all", "link 1", "link 2", "start all"], "it has left for good");
    assert!(done.directed.failed.is_none());
    let lost = Noted { replaced_in: Duration::from_millis(2_500), loses_replaced: true, ..Noted::default() };
    let faults = ["cut nodes 2,3 at 20ms for 1200ms", "replace node 3 at 300ms"];
    let done = Directing::of(lost, &faults, Some(4_000), 4_000);
    let cut = done.spans.iter().find(|span| span.fault.starts_with("cut")).unwrap();
    assert!(done.names().contains(&"link 2") && cut.error.is_none() && cut.healed_ns.is_some(), "{cut:?}");
}
