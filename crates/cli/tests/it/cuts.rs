//! Cuts in one direction, from clients and between two nodes, on the clock of a load.

use plimsoll_record::data::{FaultKind, Run};

use crate::bench::{Place, once_below};
use crate::faults::{faults, least_outage_s, seconds};

#[test]
fn a_node_that_is_cut_in_one_direction_gets_requests_and_sends_no_replies() {
    // Clients reach the primary, which does not wait for its replica. A busy machine may be as slow as the cut is long.
    once_below(3.8, outage_without_a_link_s);
}

/// Cuts a primary in one direction and in the other, and then from its replica for four seconds. Returns the outage of that
/// cut in seconds.
fn outage_without_a_link_s() -> f64 {
    let place = Place::new();
    let drive = ["drive", "kv", "--set", "records=200", "--on", "postgres-replicas", "--nodes", "2", "--clients", "4"];
    let cuts = ["--fault", "cut primary in at 2s for 1s", "--fault", "cut primary out at 6s for 1s"];
    let between = ["--fault", "cut primary from node 2 at 9s for 4s"];
    let one_way = ["--fault", "cut primary in from node 2 at 13500ms for 1s"];
    let load = ["--think", "10ms", "--for", "16s", "--json", "-q"];
    let line = [&drive[..], &load, &cuts, &between, &one_way].concat();
    let (found, _) = faults(&place.run(&line).expect(0).last_json());
    let names: Vec<&str> = found.iter().map(|fault| fault["name"].as_str().unwrap()).collect();
    let wanted = [
        "cut of traffic to node 1, the primary",
        "cut of traffic from node 1, the primary",
        "cut between node 1, the primary, and node 2",
        "cut of traffic from node 2 to node 1, the primary",
    ];
    assert_eq!(names, wanted);
    for fault in &found[..2] {
        assert!(seconds(fault, "outage_s") >= least_outage_s(fault, 1.0) && fault["error"].is_null(), "{found:?}");
    }
    assert!(found[2]["error"].is_null(), "{found:?}");
    assert!(found[3]["healed_s"].is_number() && found[3]["error"].is_null(), "{found:?}");
    seconds(&found[2], "outage_s")
}

#[test]
fn a_minority_that_is_cut_does_not_stop_a_cluster_and_a_majority_does_until_it_is_healed() {
    // A node that is back may cause an election, and on a busy machine several, but not each time.
    once_below(3.0, outage_without_a_minority_s);
}

/// Cuts a minority of a cluster from the others, and then its majority. Returns the first outage in seconds.
fn outage_without_a_minority_s() -> f64 {
    let place = Place::new();
    let drive =
        ["drive", "kv", "--set", "records=200", "--on", "etcd", "--nodes", "3", "--clients", "6", "--for", "24s"];
    let more = ["--op-timeout", "500ms", "--connect-timeout", "500ms", "--think", "5ms", "--json", "-q"];
    let goals = ["--goal", "lost=0", "--goal", "outage=60s", "--goal", "errors=100%"];
    let cuts = ["--fault", "cut minority at 2s for 4s", "--fault", "cut majority at 14s for 4s"];
    let (found, _) = faults(&place.run(&[&drive[..], &more, &goals, &cuts].concat()).expect(0).last_json());
    assert!(found.iter().all(|fault| fault["error"].is_null() && fault["healed_s"].is_number()), "{found:?}");
    let [minority, majority] = &found[..] else { panic!("{found:?}") };
    assert!(minority["subject"].as_str().unwrap().ends_with(", a minority"), "{found:?}");
    assert!(majority["subject"].as_str().unwrap().ends_with(", the majority"), "{found:?}");
    // Without a leader no node answers until healing. While a minority is away the others keep their leader.
    assert!(seconds(majority, "outage_s") >= 3.5, "{found:?}");
    seconds(minority, "outage_s")
}

#[test]
fn a_primary_that_only_clients_cannot_reach_is_not_replaced() {
    let place = Place::new();
    // A primary that Sentinels cannot reach is replaced within these six seconds.
    let drive = ["drive", "kv", "--set", "records=200", "--on", "redis-sentinel", "--clients", "4", "--for", "12s"];
    let more = ["--op-timeout", "500ms", "--connect-timeout", "300ms", "--goal", "errors=100%", "--json", "-q"];
    let fault = ["--think", "10ms", "--fault", "cut primary from clients at 2s for 6s"];
    let (found, _) = faults(&place.run(&[&drive[..], &more, &fault].concat()).expect(0).last_json());
    assert_eq!(found[0]["name"], "cut from clients of node 1, the primary");
    assert!(found[0]["error"].is_null(), "{found:?}");
    assert!(seconds(&found[0], "outage_s") >= least_outage_s(&found[0], 6.0), "{found:?}");
}

#[test]
fn a_master_that_only_clients_cannot_reach_is_replaced_by_sentinels_if_they_call_for_it() {
    // Without the promotion clients wait for the ten seconds of the cut. A busy machine may take as long.
    once_below(9.0, outage_with_a_heartbeat_s);
}

/// Cuts a master that Sentinels watch from clients, whose silence promotes a replica. Returns the outage in seconds.
fn outage_with_a_heartbeat_s() -> f64 {
    let place = Place::new();
    let drive = ["drive", "kv", "--set", "records=200", "--on", "redis-sentinel", "--clients", "4", "--for", "18s"];
    let more = ["--op-timeout", "500ms", "--connect-timeout", "300ms", "--goal", "errors=100%", "--json", "-q"];
    let cut = ["--think", "10ms", "--fault", "cut primary from clients at 2s for 10s"];
    let heartbeat = ["--fault", "promote replica when clients.silence > 1s"];
    let ran = place.run(&[&drive[..], &more, &cut, &heartbeat].concat());
    // A replica that is promoted may lack the newest writes.
    assert!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
    let (found, _) = faults(&ran.last_json());
    assert!(found.len() == 2 && found.iter().all(|fault| fault["error"].is_null()), "{found:?}");
    // On a busy machine clients may be silent for a second before the cut.
    if found[0]["kind"] == "promote" {
        return f64::INFINITY;
    }
    assert_eq!(found[1]["subject"], "node 2, a replica");
    seconds(&found[0], "outage_s")
}

#[test]
fn a_client_host_that_cannot_reach_the_primary_calls_the_promotion_that_ends_its_silence() {
    let mut seen_s = Vec::new();
    // On a busy machine clients may be silent before the cut, or a promotion takes as long as the cut, but not each time.
    let is_cured = (0..3).any(|_| {
        let [cut_s, promoted_s, answered_s, healed_s] = promotion_by_a_heartbeat_s();
        seen_s.push([cut_s, promoted_s, answered_s, healed_s]);
        cut_s < promoted_s && promoted_s < answered_s && answered_s < healed_s
    });
    assert!(is_cured, "{seen_s:?}");
}

/// Cuts a primary from the second of two client hosts, whose silence promotes a replica. Returns times in seconds: of the
/// cut, the promotion, the first answer to clients of the host after that, and of the healing.
fn promotion_by_a_heartbeat_s() -> [f64; 4] {
    let place = Place::new();
    let drive = ["drive", "kv", "--set", "records=200", "--on", "postgres-replicas", "--nodes", "2", "--clients", "4"];
    let more = ["--client-hosts", "2", "--op-timeout", "1s", "--connect-timeout", "500ms", "--goal", "errors=100%"];
    let load = ["--think", "10ms", "--for", "12s", "--keep-operations", "1M", "-q"];
    let cut = ["--fault", "cut primary from client host 2 at 2s for 8s"];
    let heartbeat = ["--fault", "promote replica when clients.host 2.silence > 2s"];
    let ran = place.run(&[&drive[..], &more, &load, &cut, &heartbeat].concat());
    // A replica that is promoted may lack the newest writes.
    assert!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
    let run = Run::load(&place.only_run()).unwrap();
    let spans = &run.trials[0].faults;
    let [cut, promotion] = [FaultKind::Cut, FaultKind::Promote]
        .map(|kind| spans.iter().find(|span| span.kind == kind).unwrap_or_else(|| panic!("{spans:?}")));
    assert!(cut.error.is_none() && promotion.error.is_none(), "{spans:?}");
    let operations = run.trials[0].phases.iter().find_map(|phase| phase.operations.as_ref()).unwrap();
    // Clients are dealt to the hosts in turn.
    let its = operations.each.iter().filter(|op| op.client % 2 == 1 && !op.outcome.is_error());
    let answers_ns: Vec<u64> = its.map(|op| op.end_ns).collect();
    let (called_ns, taken_ns) = (promotion.planned_ns, promotion.taken_ns.unwrap());
    let before_ns = answers_ns.iter().copied().filter(|at_ns| *at_ns <= called_ns).max().unwrap();
    // The clocks of workers and of the promotion differ by less than this.
    assert!(called_ns - before_ns >= 1_990_000_000, "{before_ns}: {spans:?}");
    let after_ns = answers_ns.into_iter().filter(|at_ns| *at_ns > taken_ns).min().unwrap_or(u64::MAX);
    [cut.begun_ns, called_ns, after_ns, cut.healing_ns.unwrap()].map(|at_ns| at_ns as f64 / 1e9)
}

#[test]
fn a_cut_from_one_of_two_client_hosts_stops_half_of_the_asynchronous_clients() {
    stops_half_of_the_clients(&["--on", "etcd", "--nodes", "3"]);
}

/// Cuts the second of two client hosts from all nodes of a store.
fn stops_half_of_the_clients(store: &[&str]) {
    let place = Place::new();
    let drive = ["drive", "kv", "--set", "records=200", "--clients", "8", "--client-hosts", "2", "--for", "11s"];
    let more = ["--op-timeout", "1s", "--connect-timeout", "1s", "--goal", "errors=100%", "--json", "-q"];
    let fault =
        ["--think", "10ms", "--keep-operations", "1M", "--fault", "cut all from client host 2 at 1500ms for 4s"];
    let (found, _) = faults(&place.run(&[&drive[..], store, &more, &fault].concat()).expect(0).last_json());
    assert_eq!(found[0]["name"], "cut from client host 2 of all nodes");
    assert!(found[0]["error"].is_null() && found[0]["healed_s"].is_number(), "{found:?}");
    let run = Run::load(&place.only_run()).unwrap();
    let mut phases = run.trials[0].phases.iter();
    let all = phases.find_map(|phase| phase.operations.as_ref()).unwrap();
    let span = &run.trials[0].faults[0];
    // Beside other tests, a worker may be late with the last answers before the cut.
    let cut = span.taken_ns.unwrap() + 1_000_000_000..span.healing_ns.unwrap();
    let answered = |client: u32, during: &dyn Fn(u64) -> bool| {
        let its = all.each.iter().filter(|op| op.client == client && !op.outcome.is_error());
        its.filter(|op| during(op.end_ns)).count()
    };
    for client in 0..8 {
        let during = answered(client, &|at_ns| cut.contains(&at_ns));
        // Clients are dealt to the hosts in turn.
        assert_eq!(during > 0, client % 2 == 0, "client {client} had {during} answers: {found:?}");
        assert!(answered(client, &|at_ns| at_ns > span.healed_ns.unwrap()) > 0, "client {client} stays away");
    }
    let number = |name: &str| found[0]["affected"][name].as_u64().unwrap();
    // A link that changes loses the frames on their way, which may stop the other clients for 0.2 s.
    assert!((4..=8).contains(&number("clients")) && number("of") == 8, "{found:?}");
}

/// Delays the packets between the second of two client hosts and all nodes of a store.
pub fn slows_half_of_the_clients(place: &Place, store: &str) {
    let drive = ["drive", "kv", "--set", "records=200", "--on", store, "--clients", "8", "--for", "10s"];
    let fault = ["--think", "10ms", "--fault", "link all from client host 2 delay=100ms at 2s for 4s"];
    let more = ["--client-hosts", "2", "--keep-operations", "1M", "--json", "-q"];
    let (found, _) = faults(&place.run(&[&drive[..], &fault, &more].concat()).expect(0).last_json());
    assert_eq!(found[0]["name"], "link fault between all nodes and client host 2");
    let run = Run::load(&place.only_run()).unwrap();
    let all = run.trials[0].phases.iter().find_map(|phase| phase.operations.as_ref()).unwrap();
    let span = &run.trials[0].faults[0];
    // A change of a link may lose frames, which TCP sends again after 0.2 s.
    let slow = span.taken_ns.unwrap() + 500_000_000..span.healing_ns.unwrap();
    let plain = span.healed_ns.unwrap() + 500_000_000..u64::MAX;
    for client in 0..8 {
        let fastest_ms = |during: &std::ops::Range<u64>| {
            let its = all.each.iter().filter(|op| op.client == client && !op.outcome.is_error());
            let its = its.filter(|op| during.contains(&op.sent_ns) && during.contains(&op.end_ns));
            its.map(|op| (op.end_ns - op.sent_ns) / 1_000_000).min().unwrap()
        };
        // Clients are dealt to the hosts in turn, and each way takes 100 ms. A busy machine does not double the fastest.
        let wanted_ms = if client % 2 == 1 { 200..400 } else { 0..200 };
        let fastest = fastest_ms(&slow);
        assert!(wanted_ms.contains(&fastest), "client {client}: {fastest} ms, wanted {wanted_ms:?} ms");
        assert!(fastest_ms(&plain) < 200, "client {client} stays slow");
    }
}

mod heavy {
    use super::*;

    #[test]
    fn a_cut_from_one_of_two_client_hosts_stops_half_of_the_clients() {
        stops_half_of_the_clients(&["--on", "redis-sentinel"]);
    }

    #[test]
    fn a_slow_link_to_one_of_two_client_hosts_slows_half_of_the_clients() {
        slows_half_of_the_clients(&Place::new(), "redis-sentinel");
    }
}
