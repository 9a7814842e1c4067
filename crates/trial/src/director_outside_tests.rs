//! Faults from outside of servers: commands of the user, storms and neighbours.

use std::sync::Arc;

use plimsoll_core::StoreErrorKind;
use plimsoll_record::data::{FaultKind, FaultSpan};

use super::super::Directed;
use super::{Directing, Noted};
use crate::attached::ServersInUse;
use crate::error::TrialError;

#[test]
fn commands_of_the_user_begin_and_heal_a_fault() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("broken");
    let fault = format!("run \"touch {0}\" heal \"rm {0}\" at 20ms", file.display());
    let done = Directing::of(Noted::default(), &[fault.as_str()], Some(1_000), 1_000);
    assert!(done.directed.failed.is_none() && !file.exists() && done.names().is_empty());
    let [span] = &done.spans[..] else { panic!("{:?}", done.spans) };
    assert_eq!((span.kind, &span.error, span.fault.as_str()), (FaultKind::Command, &None, fault.as_str()));
    assert!(span.subject.starts_with("\"touch ") && span.subject.len() < 70, "{}", span.subject);
    let times = [Some(span.begun_ns), span.taken_ns, span.healing_ns, span.healed_ns];
    assert!(times.iter().all(Option::is_some) && times.is_sorted() && !done.is_ended, "{times:?}");
}

#[test]
fn a_command_that_fails_is_an_error_and_its_fault_is_healed() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("healed");
    let fault = format!("run \"echo no such host; exit 3\" heal \"touch {}\" at 20ms", file.display());
    let done = Directing::of(Noted::default(), &[fault.as_str()], Some(1_000), 1_000);
    let failed = done.directed.failed.unwrap();
    assert!(failed.what.ends_with(": the command that begins it failed"), "{failed}");
    let error = done.spans[0].error.as_deref().unwrap_or_default();
    assert!(error.contains("exit status: 3: no such host") && done.spans[0].taken_ns.is_none(), "{error}");
    assert!(file.exists() && done.events.is_empty() && done.is_ended, "{:?}", done.events);
}

#[test]
fn a_command_that_does_not_heal_after_another_that_failed_is_told() {
    let fault = "run \"exit 3\" heal \"exit 4\" at 20ms";
    let done = Directing::of(Noted::default(), &[fault], Some(1_000), 1_000);
    let failed = done.directed.failed.unwrap();
    assert!(failed.what.ends_with("the command that begins it failed"), "{failed}");
    let next = "run it in a shell: it has to end with exit code 0 within 60 s; heal the fault by hand: exit 4";
    assert_eq!(failed.next.as_deref(), Some(next));
    assert_eq!(done.events, [format!("{fault}: the command that heals it failed (exit status: 4)")]);
    // That of another fault comes with its advice, too.
    let healed = "run \"true\" heal \"exit 4\" at 10ms";
    let done = Directing::of(Noted::default(), &[healed, "run \"exit 3\" at 300ms"], Some(1_000), 1_000);
    assert!(done.directed.failed.is_some_and(|failed| failed.what.ends_with("the command that begins it failed")));
    assert_eq!(done.events, [format!("{healed}: the command that heals it failed (exit status: 4); {next}")]);
}

#[test]
fn storms_and_neighbours_are_in_effect_together_and_end_with_their_faults() {
    let (listener, directory) = (std::net::TcpListener::bind("127.0.0.1:0").unwrap(), tempfile::tempdir().unwrap());
    let servers = Noted {
        port: Some(listener.local_addr().unwrap().port()),
        data_dir: directory.path().to_owned(),
        ..Noted::default()
    };
    let faults = [
        "storm all connections=4 at 50ms for 400ms",
        "neighbour node 2 disk at 100ms",
        "neighbour primary cpu=1 at 150ms",
    ];
    let done = Directing::of(servers, &faults, Some(2_000), 1_500);
    assert!(done.directed.failed.is_none() && done.directed.missed.is_empty(), "{:?}", done.directed.failed);
    let of_span = |span: &FaultSpan| (span.kind, span.subject.clone());
    let wanted = [
        (FaultKind::Storm, "all nodes".to_owned()),
        (FaultKind::Neighbour, "node 2".to_owned()),
        (FaultKind::Neighbour, "node 2, the primary".to_owned()),
    ];
    assert_eq!(done.spans.iter().map(of_span).collect::<Vec<_>>(), wanted);
    let resources: Vec<Option<&str>> = done.spans.iter().map(|span| span.detail.object.as_deref()).collect();
    assert_eq!(resources, [None, Some("disk"), Some("cpu=1")]);
    let is_healed = |span: &FaultSpan| span.taken_ns < span.healing_ns && span.healed_ns.is_some();
    assert!(done.spans.iter().all(|span| is_healed(span) && span.error.is_none()), "{:?}", done.spans);
    assert!(done.events.len() == 1 && done.events[0].contains("at most 12 of 12 connections"), "{:?}", done.events);
    listener.set_nonblocking(true).unwrap();
    assert_eq!(std::iter::from_fn(|| listener.accept().ok()).count(), 12);
}

#[test]
fn a_storm_and_a_reset_of_an_attached_server_concern_it_and_no_nodes() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let client = std::net::TcpStream::connect(address).unwrap();
    client.set_nonblocking(true).unwrap();
    let attached = Some(Arc::new(ServersInUse::at(address)));
    let faults = ["storm all connections=4 at 50ms for 200ms", "reset all at 500ms", "reset all at 700ms"];
    let done = Directing::of(Noted { attached, ..Noted::default() }, &faults, Some(2_000), 1_500);
    let of_span = |span: &FaultSpan| (span.kind, span.subject.clone(), span.healed_ns.is_some(), span.error.is_some());
    let wanted = [(FaultKind::Storm, true), (FaultKind::Reset, true), (FaultKind::Reset, false)];
    let wanted = wanted.map(|(kind, is_done)| (kind, "the server".to_owned(), is_done, !is_done));
    assert_eq!(done.spans.iter().map(of_span).collect::<Vec<_>>(), wanted);
    assert!(done.events.len() == 1 && done.events[0].contains("at most 4 of 4 connections"), "{:?}", done.events);
    assert_eq!(client.peek(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::ConnectionAborted);
    // Nothing is left to be reset, and no server is started in the end.
    let failed = done.directed.failed.as_ref().unwrap();
    assert!(failed.what.ends_with("to the server was open: nothing was reset"), "{failed}");
    assert!(done.names().is_empty(), "{:?}", done.calls);
}

#[test]
fn a_neighbour_on_the_network_of_a_node_without_links_does_not_take_effect() {
    let done = Directing::of(Noted::default(), &["neighbour node 2 network=5Mbit at 50ms"], None, 1_000);
    let error = done.directed.failed.unwrap().what;
    let wanted = "neighbour node 2 network=5Mbit at 50ms: node 2 is on this machine's own network, which has no links";
    assert_eq!(error, wanted);
    assert!(done.spans[0].taken_ns.is_none());
}

#[test]
fn a_storm_on_servers_that_take_no_connection_does_not_take_effect() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let servers = Noted { port: Some(nobody), ..Noted::default() };
    let done = Directing::of(servers, &["storm node 1 connections=4 at 50ms"], None, 1_000);
    let error = done.directed.failed.unwrap().what;
    assert!(error.starts_with("storm node 1 connections=4 at 50ms: no connection to 127.0.0.1:"), "{error}");
    assert_eq!((done.spans[0].taken_ns, done.spans[0].error.is_some()), (None, true));
}

#[test]
fn a_command_waits_until_the_fault_of_the_same_one_is_healed() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let [begin, heal] = ["begun", "healed"].map(|word| format!("echo {word} >> {}", log.display()));
    let faults = ["at 0s for 300ms", "at 100ms for 50ms"].map(|at| format!("run \"{begin}\" heal \"{heal}\" {at}"));
    let done = Directing::of(Noted::default(), &faults.each_ref().map(String::as_str), Some(1_000), 1_000);
    assert!(done.directed.failed.is_none(), "{:?}", done.directed.failed);
    let [first, second] = &done.spans[..] else { panic!("{:?}", done.spans) };
    assert!(first.healed_ns.unwrap() >= 300_000_000 && second.begun_ns >= first.healed_ns.unwrap(), "{:?}", done.spans);
    let text = std::fs::read_to_string(&log).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines, ["begun", "healed", "begun", "healed"]);
}

#[test]
fn each_fault_that_fails_is_told_and_a_stop_hides_none() {
    let faults = ["run \"exit 3\" at 20ms", "run \"true\" heal \"exit 4\" at 300ms"];
    let done = Directing::of(Noted::default(), &faults, Some(2_000), 2_000);
    assert!(done.directed.failed.is_some_and(|failed| failed.what.starts_with("run \"exit 3\"")));
    let advice = "run it in a shell: it has to end with exit code 0 within 60 s; heal the fault by hand: exit 4";
    let told = format!("{}: the command that heals it failed (exit status: 4); {advice}", faults[1]);
    assert_eq!(done.events, [told]);
    let mut directed = Directed::default();
    directed.fail(TrialError::new(StoreErrorKind::Interrupted, "the user stopped the run"));
    directed.fail(TrialError::usage("not healed"));
    directed.fail(TrialError::usage("another"));
    assert_eq!(directed.failed.unwrap().what, "not healed");
}
