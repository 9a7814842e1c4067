use plimsoll_core::Catalogue;

use super::*;

/// Returns the drive of a plan with these keys.
fn drive(keys: &str) -> model::Drive {
    let catalogue = Catalogue {
        labs: Vec::new(),
        stores: vec![plimsoll_store_null::kind()],
        workloads: plimsoll_workload::all(),
        samplers: Vec::new(),
    };
    let text = format!(
        "stores = [\"null\"]\nsamplers = []\n[workload]\nname = \"kv\"\nrecords = 10\n[[phase]]\ndo = \"load\"\n\
         [[phase]]\ndo = \"drive\"\n{keys}\n"
    );
    let plan = plimsoll_plan::parse("expected", &text, &catalogue, &Default::default()).unwrap();
    plan.trials[0].drives().next().unwrap().1.clone()
}

/// Result of three seconds that count after one of warm-up.
fn result() -> DriveResult {
    DriveResult {
        start_ns: 1_000_000_000,
        measured_from_ns: 2_000_000_000,
        planned_end_ns: Some(5_000_000_000),
        end_ns: 5_100_000_000,
        ops: 28,
        warmup_ops: 10,
        unfinished: 2,
        due: 30,
        ..DriveResult::default()
    }
}

/// Returns names, subjects, values and numbers of what is expected.
fn found(keys: &str, result: &DriveResult) -> Vec<(ResultName, String, f64, u64)> {
    results(&drive(keys), result).into_iter().map(|one| (one.name, one.subject, one.value, one.n)).collect()
}

/// Returns the seconds of the clients of a closed loop, their think time and its sort, and how many operations they may
/// have in flight.
fn closed(keys: &str, result: &DriveResult) -> (f64, f64, String, u64) {
    let found = found(keys, result);
    let [(ResultName::ClientSeconds, _, seconds, n), (ResultName::ThinkSeconds, sort, think, _)] = &found[..] else {
        panic!("{keys}: {found:?}")
    };
    (*seconds, *think, sort.clone(), *n)
}

#[test]
fn an_open_loop_has_as_many_operations_to_do_as_were_due() {
    let due = vec![(ResultName::Due, String::new(), 30.0, 30)];
    assert_eq!(found("rate = \"10/s\"\nfor = \"3s\"\nclients = 2", &result()), due);
    let scenario = |name: &str, more: &str| {
        format!("[[phase.scenario]]\nname = \"{name}\"\nclients = 2\nmix = {{ read = 1 }}\n{more}\n")
    };
    let all_open = format!("for = \"3s\"\n{}{}", scenario("a", "rate = \"4/s\""), scenario("b", "rate = \"6/s\""));
    assert_eq!(found(&all_open, &result()), due);
    // Operations of both sorts are counted together: there are at least those of the open loops.
    let both = format!("for = \"3s\"\n{}{}", scenario("a", "rate = \"4/s\""), scenario("b", ""));
    assert_eq!(found(&both, &result()), due);
    let all_closed = format!("for = \"3s\"\n{}{}", scenario("a", "think = \"1s\""), scenario("b", ""));
    assert_eq!(closed(&all_closed, &result()), (12.0, 1.0, String::new(), 4), "the longest think time is that of all");
}

#[test]
fn a_closed_loop_has_the_time_of_its_clients_and_their_think_time() {
    let word = |text: &str| text.to_owned();
    for (keys, wanted) in [
        ("for = \"3s\"\nclients = 2", (6.0, 0.0, word(""), 2)),
        ("for = \"3s\"\nclients = 2\ndepth = 4", (24.0, 0.0, word(""), 8)),
        ("for = \"3s\"\nclients = 2\nthink = \"50ms\"", (6.0, 0.05, word(""), 2)),
        ("for = \"3s\"\nclients = 2\nthink = \"10ms..50ms\"", (6.0, 0.05, word(""), 2)),
        // An exponential one has no longest time: this is its mean.
        ("for = \"3s\"\nclients = 2\nthink = \"exp:50ms\"", (6.0, 0.05, word("exponential"), 2)),
    ] {
        let found = closed(keys, &result());
        assert!((found.0 - wanted.0).abs() < 1e-9 && (found.1 - wanted.1).abs() < 1e-9, "{keys}: {found:?}");
        assert_eq!((found.2, found.3), (wanted.2, wanted.3), "{keys}");
    }
}

#[test]
fn clients_that_come_and_go_have_only_the_time_in_which_they_are_there() {
    // Two for one second; then a third and a fourth come, and at any time all but one of their mean are there for sure.
    let (seconds, ..) = closed("stages = [\"2@1s\", \"2..4@2s\"]", &result());
    assert!((seconds - (2.0 + 2.0 * 2.0)).abs() < 1e-9, "{seconds}");
    // Of a level of less than one, none works for sure.
    let (seconds, ..) = closed("stages = [\"0..1@3s\"]", &result());
    assert_eq!(seconds, 0.0);
}

#[test]
fn time_without_a_connection_is_not_the_clients_and_never_more_than_they_have() {
    let away = |down_ns, keys| closed(keys, &DriveResult { down_ns, ..result() }).0;
    assert_eq!(away(1_000_000_000, "for = \"3s\"\nclients = 2"), 5.0);
    assert_eq!(away(1_000_000_000, "for = \"3s\"\nclients = 2\ndepth = 4"), 20.0, "a whole pipeline waits");
    assert_eq!(away(9_000_000_000, "for = \"3s\"\nclients = 2"), 0.0);
}

#[test]
fn clients_with_open_circuits_rest_for_no_longer_than_these_were_open() {
    let seconds = |opened| {
        let breaker = Some(plimsoll_drive::BreakerCounts { opened, rejected: 0 });
        let keys = "for = \"3s\"\nclients = 2\nbreaker = 3\nbreaker_wait = \"500ms\"";
        closed(keys, &DriveResult { breaker, ..result() }).0
    };
    assert_eq!(seconds(0), 5.0, "both may have opened in the warm-up");
    assert_eq!(seconds(3), 3.5);
    assert_eq!(seconds(100), 0.0);
}

#[test]
fn nothing_is_expected_of_a_phase_that_its_time_did_not_end() {
    let early = [StopReason::Cancelled, StopReason::Backlog, StopReason::Behind, StopReason::Hung];
    for stop in early {
        let result = DriveResult { stop, ..result() };
        assert_eq!(found("for = \"3s\"\nclients = 2", &result), Vec::new(), "{result:?}");
    }
    let counted = DriveResult { planned_end_ns: None, ..result() };
    assert_eq!(found("ops = 3\nclients = 2", &counted), Vec::new());
}
