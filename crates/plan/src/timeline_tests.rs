use std::time::Duration;

use plimsoll_core::{LinkPeers, LinkWays, NodeSet};

use super::*;

const S: u64 = 1_000_000_000;

fn fault(text: &str) -> PlannedFault {
    PlannedFault::parse(text).unwrap_or_else(|(what, _)| panic!("{text}: {what}"))
}

fn moments(text: &str, length_ns: Option<u64>) -> Vec<(u64, Option<u64>)> {
    fault(text).moments(length_ns, 1).iter().map(|moment| (moment.at_ns, moment.until_ns)).collect()
}

#[test]
fn a_fault_begins_and_is_healed_at_its_times_or_at_the_end_of_the_phase() {
    let ten = Some(10 * S);
    assert_eq!(moments("kill primary at 40%", ten), [(4 * S, ten)]);
    assert_eq!(moments("pause  node 2 at 2s for 10%", ten), [(2 * S, Some(3 * S))]);
    assert_eq!(moments("cut all at 9s for 1min", ten), [(9 * S, ten)]);
    assert_eq!(moments("kill all at 1m30s for 3s", None), [(90 * S, Some(93 * S))]);
    assert_eq!(moments("kill all at 1s", None), [(S, None)]);
    assert_eq!(moments("disk full at 1s", ten), [(S, None)], "it lasts until the end of the trial");
    assert_eq!(moments("disk full at 1s for 2s", ten), [(S, Some(3 * S))]);
}

#[test]
fn a_fault_at_a_number_of_operations_may_be_in_effect_at_any_time() {
    let counted = fault("kill node 2 at 5_000 ops for 3s");
    assert_eq!((counted.at_ops, counted.to_string()), (Some(5_000), "kill node 2 at 5000 ops for 3s".to_owned()));
    assert_eq!((counted.name(), moments("kill node 2 at 5k ops", None).len()), ("kill node 2", 1));
    assert!(overlap(&[counted.clone(), fault("pause node 2 at 9s for 1s")], Some(20 * S)).is_some());
    assert!(overlap(&[counted, fault("pause node 1 at 9s for 1s")], Some(20 * S)).is_none());
}

#[test]
fn a_fault_with_a_condition_may_be_in_effect_at_any_time() {
    let awaited = fault("kill  primary when store.connections>100 for 3s");
    assert_eq!(awaited.to_string(), "kill primary when store.connections > 100 for 3s");
    assert_eq!((awaited.name(), awaited.begins_by_load(), awaited.at_ops), ("kill primary", true, None));
    assert_eq!(PlannedFault::parse(&awaited.to_string()).as_ref(), Ok(&awaited));
    let later = chained(vec![awaited.clone(), fault("restart all at 2s after fault 1")]);
    assert_eq!(later[1].at.ns(Some(20 * S)), Some(5 * S), "the earliest beginning");
    assert!(overlap(&[awaited.clone(), fault("pause primary at 9s for 1s")], Some(20 * S)).is_some());
    assert!(overlap(&[awaited, fault("pause node 1 at 9s for 1s")], Some(20 * S)).is_none());
}

#[test]
fn a_promotion_that_silent_clients_call_may_come_during_the_cut_that_silences_them() {
    let cured = ["cut primary from clients at 20% for 40%", "promote replica when clients.silence > 2s"];
    assert_eq!(fault(cured[1]).to_string(), cured[1]);
    assert!(overlap(&cured.map(fault), Some(26 * S)).is_none());
    assert!(overlap(&["kill primary at 20% for 40%", cured[1]].map(fault), Some(26 * S)).is_none());
    let called = "run \"ssh db2 promote-me\" when clients.silence > 2s";
    assert_eq!((fault(called).to_string(), fault(called).is_of_user()), (called.to_owned(), true));
}

#[test]
fn a_fault_after_another_begins_no_earlier_than_that_one_is_healed() {
    let list =
        ["work backup at 1s", "kill node 2 at 10% after fault 1 for 2s", "cut node 2 at 500ms after fault 2 for 1s"];
    let chain = chained(list.map(fault).to_vec());
    let begun: Vec<Option<u64>> = chain.iter().map(|fault| fault.at.ns(Some(10 * S))).collect();
    assert_eq!(begun, [Some(S), Some(2 * S), Some(4 * S + S / 2)]);
    assert_eq!(chain.iter().map(ToString::to_string).collect::<Vec<_>>(), list);
    assert_eq!((chain[1].name(), chain[0].at.ns(None), chain[1].at.ns(None)), ("kill node 2", Some(S), None));
    let follows = [chain[1].after, chain[2].after].map(|after| after.map(|after| after.fault));
    assert_eq!(follows, [Some(0), Some(1)]);
}

#[test]
fn a_repeated_fault_keeps_no_step_and_ends_before_the_next() {
    let all = moments("pause node 1 at 0s for 2s every 4s", Some(100 * S));
    assert_eq!(all.len(), 25);
    let offsets: Vec<u64> = all.iter().enumerate().map(|(turn, (at, _))| at - turn as u64 * 4 * S).collect();
    assert!(offsets.iter().all(|offset| *offset < S), "{offsets:?}");
    assert!(offsets.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) > S / 100).count() > 20, "{offsets:?}");
    assert!(all.windows(2).all(|pair| pair[0].1.is_some_and(|until_ns| until_ns <= pair[1].0)));
    assert_eq!(all, moments("pause node 1 at 0s for 2s every 4s", Some(100 * S)), "the seed determines them");
}

#[test]
fn repeats_have_a_least_interval_and_none_begins_just_before_the_end() {
    for text in ["reset all at 1s every 1ns", "kill node 1 at 1s for 10ms every 20ms", "reset all at 1s every 99ms"] {
        let (what, help) = PlannedFault::parse(text).unwrap_err();
        assert!(what.ends_with(" is too short: repeats are 100ms apart at least"), "{text}: {what}");
        assert_eq!(help.as_deref(), Some("write every 100ms, or more"));
    }
    let most = fault("reset all at 1s every 100ms");
    assert_eq!((most.repeats(S), most.repeats(2 * S), most.repeats(201 * S)), (0, 10, 2_000));
    assert_eq!((most.moments(None, 1).len(), most.moments(Some(201 * S), 1).len()), (REPEATS_MAX, REPEATS_MAX));
    let begun = moments("reset all at 1s every 100ms", Some(2 * S));
    assert!(begun.iter().all(|(at, _)| at + OBSERVED_LEAST_NS <= 2 * S), "{begun:?}");
    assert_eq!(fault("reset all at 1s").repeats(100 * S), 0);
}

#[test]
fn repeated_faults_of_one_interval_stay_as_far_apart_as_at_first_and_others_do_not() {
    let offsets = |text: &str, first_s: u64, every_s: u64| -> Vec<u64> {
        let all = moments(text, Some(600 * S)).into_iter().zip(0..);
        all.map(|((at, _), turn)| at - (first_s + turn * every_s) * S).take(20).collect()
    };
    let kills = offsets("kill primary at 5s for 7s every 15s", 5, 15);
    assert_eq!(kills, offsets("promote replica at 8s every 15s", 8, 15));
    let [fast, slow] = [kills, offsets("reset all at 5s every 30s", 5, 30)];
    let share = |offsets: Vec<u64>, every_s: u64| offsets.into_iter().map(move |at| at as f64 / (every_s * S) as f64);
    let apart = share(fast, 15).zip(share(slow, 30)).filter(|(one, other)| (one - other).abs() > 0.001).count();
    assert!(apart > 15, "{apart} of 20");
}

#[test]
fn a_fault_of_disks_is_of_all_or_of_the_nodes_that_it_names() {
    use NodeChoice::{All, Majority, Minority, Number, Numbers, Primary, Replica};
    for (text, wanted) in [
        ("disk full at 1s", All),
        ("disk all full at 1s", All),
        ("disk node 2 full at 1s for 2s", Number(2)),
        ("disk primary full at 1s", Primary),
        ("disk replica full at 1s", Replica),
        ("disk nodes 1,3 full at 1s", Numbers(NodeSet::of(&[0, 2]).unwrap())),
        ("disk minority full at 1s", Minority),
        ("disk majority full at 1s", Majority),
    ] {
        let one = fault(text);
        assert_eq!((&one.what, one.to_string().as_str()), (&FaultAction::Disk(wanted, Fault::Full), text));
        assert_eq!(one.what.nodes(), Some(wanted).filter(|on| *on != All), "without nodes it is of all disks");
        assert_eq!(PlannedFault::parse(&one.to_string()), Ok(one));
    }
    assert_eq!(fault("disk node 2 eio write once at 1s").name(), "disk node 2 eio write once");
    let refused = |text: &str| PlannedFault::parse(text).unwrap_err().0;
    assert_eq!(refused("disk node full at 1s"), "`node full` names no nodes");
    assert_eq!(refused("disk node 2 ful at 1s"), "`ful` is not a fault of a disk");
}

#[test]
fn words_of_other_tools_and_misspelt_ones_name_those_that_are_meant() {
    for (text, what, help) in [
        ("partition primary at 1s", "unknown fault `partition`", "write `cut` for it; faults: kill, stop"),
        ("kil primary at 1s", "unknown fault `kil`", "did you mean `kill`? faults: kill, stop"),
        ("kill leader at 1s", "`leader` names no nodes", "did you mean `primary`? write \"kill node 2\""),
        ("cut primray from clients at 1s", "`primray from clients` names no nodes", "did you mean `primary`? write"),
        ("pause random at 1s", "`random` names no nodes", "write \"pause node 2\", \"pause nodes 1,2\", or primary"),
        ("kill primary at 1s for 0s", "`for` needs a time of 1ms or more", "write how long it lasts, for 3s"),
        ("kill primary at 1s for 0%", "`for` needs a time of 1ms or more", "write how long it lasts, for 3s"),
        ("kill primary at 1s for 1ns", "`for` needs a time of 1ms or more", "write how long it lasts, for 3s"),
        ("kill primary at 9999h", "`at 9999h`: at most 720h", "write a time within the phase: at 10s"),
        ("kill primary at 0 ops", "`at 0 ops` is no number of operations", "write \"at 5000 ops\", once"),
        ("promote at 1s", "the nodes of `promote` are missing", "write \"promote node 2\", or primary, replica"),
        ("replace al at 1s", "`al` names no nodes", "write \"replace node 2\", or primary, replica"),
        ("kill primary kill replica at 1s", "`kill` begins another fault", "write a list of faults, each with its own"),
        ("cut node 1 cut node 2 at 1s", "`cut` begins another fault", "write a list of faults, each with its own"),
        ("kill nodes 1,2,1 at 1s", "`nodes 1,2,1` has node 1 twice", "leave one of them out"),
        ("disk nodes 2,2 full at 1s", "`nodes 2,2` has node 2 twice", "leave one of them out"),
        ("work backup nodes 2,2 at 1s", "`nodes 2,2` has node 2 twice", "leave one of them out"),
    ] {
        let (got, advice) = PlannedFault::parse(text).unwrap_err();
        assert_eq!(got, what, "{text}");
        assert!(advice.as_ref().is_some_and(|advice| advice.starts_with(help)), "{text}: {advice:?}");
    }
}

#[test]
fn faults_that_change_the_same_thing_at_once_are_found() {
    let found = |texts: &[&str]| {
        let faults: Vec<PlannedFault> = texts.iter().map(|text| fault(text)).collect();
        overlap(&faults, Some(20 * S)).map(|(one, other)| (one.to_string(), other.to_string()))
    };
    for pair in [
        ["kill node 2 at 2s", "pause node 2 at 10s for 1s"],
        ["kill node 2 at 2s for 5s", "restart all at 6s"],
        ["cut node 1 at 2s for 5s", "link node 1 delay=1ms at 5s"],
        ["limit node 1 cpus=1 at 2s", "limit node 1 cpus=2 at 3s"],
        ["disk full at 1s", "disk full at 19s"],
        ["disk node 2 full at 1s", "disk full at 19s"],
        ["disk full at 1s", "disk node 2 full at 19s"],
        ["disk node 2 full at 1s", "disk node 2 full at 19s"],
        ["disk nodes 1,2 full at 1s", "disk node 2 full at 19s"],
        ["pause primary at 0s for 1s every 5s", "kill primary at 19s"],
        ["kill node 2 at 2s for 5s", "restart all rolling at 6s"],
        ["hang node 2 at 2s for 5s", "pause node 2 at 6s"],
        ["restart all at 6s", "hang node 2 at 2s for 5s"],
        ["kill nodes 1,2 at 2s", "pause nodes 2,3 at 3s"],
        ["cut node 2 at 2s", "cut nodes 2,3 at 3s"],
        ["pause minority at 2s", "kill minority at 3s"],
        ["pause majority at 2s", "kill primary at 3s"],
        ["kill primary at 2s", "pause majority at 3s"],
    ] {
        assert_eq!(found(&pair), Some((pair[0].to_owned(), pair[1].to_owned())));
    }
    for pair in [
        ["kill node 2 at 2s for 3s", "pause node 2 at 5s for 1s"],
        ["kill node 2 at 2s", "pause node 1 at 10s for 1s"],
        ["kill node 1 at 2s", "cut node 1 at 3s"],
        ["limit node 1 cpus=1 at 2s", "limit node 1 memory=1GiB at 3s"],
        ["disk full at 1s", "disk eio write once at 2s"],
        ["disk node 1 full at 1s", "disk node 2 full at 2s"],
        ["disk node 1 full at 1s", "disk node 1 eio write once at 2s"],
        ["restart node 1 at 2s", "restart node 1 at 3s"],
        ["work backup node 1 at 2s", "work vacuum node 1 at 2s"],
        ["kill node 1 at 2s", "work backup node 1 at 3s"],
        ["hang node 1 at 2s for 5s", "hang node 2 at 2s"],
        ["hang node 1 at 2s for 5s", "reset node 1 at 3s"],
        ["reset node 1 at 2s", "reset all at 2s"],
        ["kill nodes 1,2 at 2s", "pause node 3 at 3s"],
        ["kill primary at 2s", "pause minority at 3s"],
        ["kill minority at 2s", "pause majority at 3s"],
        ["cut nodes 1,2 at 2s", "cut nodes 3,4 at 3s"],
    ] {
        assert_eq!(found(&pair), None);
    }
}

#[test]
fn links_and_limits_have_their_units() {
    let link = |words: &str| match fault(&format!("link all {words} at 1s")).what {
        FaultAction::Link(NodeChoice::All, link) => link,
        other => panic!("{other:?}"),
    };
    let seen = link("delay=20ms jitter=5ms loss=1% rate=50Mbit");
    assert_eq!((seen.delay, seen.jitter), (Duration::from_millis(20), Duration::from_millis(5)));
    assert_eq!((seen.loss, seen.rate_bits_per_s), (0.01, Some(50_000_000)));
    let closes = Link { close: Duration::from_secs(2), loss: 0.01, ..Link::default() };
    assert_eq!(link("close=2s loss=1%"), closes);
    assert_eq!(fault("cut replica at 1s").what, FaultAction::Link(NodeChoice::Replica, Link::CUT));
    let limit = FaultAction::Limit(NodeChoice::Number(2), LimitChange::Memory(Some(1 << 30)));
    assert_eq!(fault("limit node 2 memory=1GiB at 1s").what, limit);
}

#[test]
fn packets_are_damaged_and_cuts_have_a_direction_or_are_of_clients() {
    let link = |words: &str| match fault(words).what {
        FaultAction::Link(_, link) => link,
        other => panic!("{other:?}"),
    };
    let seen = link("link all delay=5ms duplicate=1% reorder=5% corrupt=0.1% at 1s");
    assert_eq!((seen.duplicate, seen.reorder, seen.corrupt), (0.01, 0.05, 0.001));
    assert!(!seen.is_cut() && seen.ways == LinkWays::Both);
    for (words, ways) in [("cut all in at 1s", LinkWays::In), ("cut node 2 out at 1s for 2s", LinkWays::Out)] {
        assert!(link(words).is_cut() && link(words) != Link::CUT && link(words).ways == ways);
        assert_eq!(fault(words).what.verb(), "cut");
    }
    let unseen = fault("cut primary from clients at 1s for 2s");
    let clients = Link { peers: LinkPeers::Clients, ..Link::CUT };
    assert_eq!(unseen.what, FaultAction::Link(NodeChoice::Primary, clients));
    assert_eq!((unseen.what.verb(), unseen.name()), ("cut", "cut primary from clients"));
    let unseen = fault("cut all from client host 2 at 1s for 2s");
    let second = Link { peers: LinkPeers::ClientHost(1), ..Link::CUT };
    assert_eq!(unseen.what, FaultAction::Link(NodeChoice::All, second));
    assert_eq!((unseen.what.verb(), unseen.name()), ("cut", "cut all from client host 2"));
    let pair = fault("cut node 1 from node 3 at 1s for 2s");
    let from_third = Link { peers: LinkPeers::Node(2), ..Link::CUT };
    assert_eq!(pair.what, FaultAction::Link(NodeChoice::Number(1), from_third));
    assert_eq!((pair.what.verb(), pair.name()), ("cut", "cut node 1 from node 3"));
    for (words, ways, peers) in [
        ("cut node 1 in from node 3", LinkWays::In, LinkPeers::Node(2)),
        ("cut node 1 out to node 3", LinkWays::Out, LinkPeers::Node(2)),
        ("cut node 1 in from clients", LinkWays::In, LinkPeers::Clients),
        ("cut node 1 out to client host 2", LinkWays::Out, LinkPeers::ClientHost(1)),
    ] {
        let one = fault(&format!("{words} at 1s for 2s"));
        assert_eq!(one.what, FaultAction::Link(NodeChoice::Number(1), Link { ways, peers, ..Link::CUT }));
        assert_eq!((one.what.verb(), one.name()), ("cut", words));
        assert_eq!(PlannedFault::parse(&one.to_string()).as_ref(), Ok(&one));
    }
    for wrong in ["in to node 3", "out from node 3", "in from", "out to node 2", "in from node 3 now", "in out"] {
        assert!(PlannedFault::parse(&format!("cut node 2 {wrong} at 1s")).is_err(), "{wrong}");
    }
    let peers = ["from", "from node", "from node 0", "from replica", "from node 2", "from node 3 in"];
    let hosts = ["from client", "from client host", "from client host 0", "from client 1", "from client host 1 in"];
    for wrong in peers.into_iter().chain(hosts) {
        assert!(PlannedFault::parse(&format!("cut node 2 {wrong} at 1s")).is_err(), "{wrong}");
    }
}

#[test]
fn a_link_may_be_for_clients_one_host_of_them_or_one_node() {
    let delay = Duration::from_millis(20);
    for (from, peers) in [
        ("", LinkPeers::All),
        (" from clients", LinkPeers::Clients),
        (" from client host 2", LinkPeers::ClientHost(1)),
        (" from node 3", LinkPeers::Node(2)),
    ] {
        let one = fault(&format!("link node 1{from}  delay=20ms loss=1% at 1s for 2s"));
        let link = Link { delay, loss: 0.01, peers, ..Link::default() };
        assert_eq!((&one.what, one.what.verb()), (&FaultAction::Link(NodeChoice::Number(1), link), "link"));
        assert_eq!(one.to_string(), format!("link node 1{from} delay=20ms loss=1% at 1s for 2s"));
        assert_eq!(PlannedFault::parse(&one.to_string()).as_ref(), Ok(&one));
    }
    // A node has one link.
    let [one, other] = ["link all from client host 1 delay=1ms at 1s for 3s", "cut all from client host 2 at 2s"];
    assert!(overlap(&[fault(one), fault(other)], Some(20 * S)).is_some());
    for wrong in ["from delay=1ms", "from client host delay=1ms", "from replica delay=1ms", "delay=1ms from node 2"] {
        assert!(PlannedFault::parse(&format!("link node 1 {wrong} at 1s")).is_err(), "{wrong}");
    }
}

#[test]
fn a_fault_may_be_of_several_nodes_of_a_minority_or_of_a_majority() {
    let of = |numbers: &[usize]| NodeChoice::Numbers(NodeSet::of(numbers).unwrap());
    for (words, wanted) in [
        ("kill nodes 1,2", FaultAction::Kill(of(&[0, 1]))),
        ("cut nodes 3,1", FaultAction::Link(of(&[0, 2]), Link::CUT)),
        ("cut nodes 1,3 in", FaultAction::Link(of(&[0, 2]), Link { ways: LinkWays::In, ..Link::CUT })),
        ("pause minority", FaultAction::Pause(NodeChoice::Minority)),
        ("cut majority", FaultAction::Link(NodeChoice::Majority, Link::CUT)),
        ("work backup nodes 2,3", FaultAction::Work("backup".to_owned(), of(&[1, 2]))),
        ("pause nodes 2", FaultAction::Pause(NodeChoice::Number(2))),
    ] {
        let one = fault(&format!("{words} at 1s"));
        assert_eq!((&one.what, one.name()), (&wanted, words));
        assert_eq!(PlannedFault::parse(&one.to_string()).as_ref(), Ok(&one));
    }
    for wrong in ["nodes", "nodes 1,", "nodes 0,1", "nodes 1,65", "nodes 1, 2", "nodes 1,two", "minority 1"] {
        assert!(PlannedFault::parse(&format!("kill {wrong} at 1s")).is_err(), "{wrong}");
    }
    for wrong in ["cut nodes 2,3 from node 3", "link nodes 2,3 from node 2 delay=5ms", "cut nodes 1,2 in from node 1"] {
        let (what, _) = PlannedFault::parse(&format!("{wrong} at 1s")).unwrap_err();
        assert!(what.ends_with(" has no link to itself"), "{wrong}: {what}");
    }
    assert!(PlannedFault::parse("cut nodes 1,2 from node 3 at 1s").is_ok());
}

#[test]
fn planned_work_is_of_the_primary_unless_it_names_nodes_and_ends_by_itself() {
    let work = |name: &str, on| FaultAction::Work(name.to_owned(), on);
    assert_eq!(fault("work vacuum at 1s").what, work("vacuum", NodeChoice::Primary));
    assert_eq!(fault("work backup node 3 at 1s every 9s").what, work("backup", NodeChoice::Number(3)));
    assert_eq!(fault("work backup  all at 40%").name(), "work backup all");
    assert_eq!(fault("restart all rolling at 1s").what, FaultAction::RestartInTurn(None));
    assert!(PlannedFault::parse("restart all rolling at 1s for 2s").is_err());
}

#[test]
fn the_node_that_leaves_is_the_one_that_joined_last() {
    for text in ["remove node at 20s", "remove at 20s"] {
        let one = fault(text);
        assert_eq!((&one.what, one.what.verb(), one.what.nodes()), (&FaultAction::Remove, "remove", None));
        assert!(one.what.is_brief() && !one.outlasts_phase());
    }
    for wrong in ["remove node 4 at 20s", "remove node at 20s for 2s", "remove all at 20s"] {
        assert!(PlannedFault::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_node_is_replaced_and_that_ends_by_itself() {
    let one = fault("replace node 2 at 20s");
    assert_eq!((&one.what, one.what.verb()), (&FaultAction::Replace(NodeChoice::Number(2)), "replace"));
    assert!(one.what.is_brief() && !one.outlasts_phase());
    assert!(overlap(&[one, fault("kill node 2 at 10s for 15s")], None).is_some());
    for wrong in ["replace at 20s", "replace node at 20s", "replace node 2 at 20s for 2s", "replace node 2 now at 2s"] {
        assert!(PlannedFault::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn commands_of_a_user_begin_and_heal_a_fault() {
    let command = |begin: &str, heal: Option<&str>| FaultAction::Command {
        begin: begin.to_owned(),
        heal: heal.map(str::to_owned),
    };
    let one = fault(r#"run  "ssh db1 'stop at  3'"  heal 'echo "when"'  at 2s for 3s"#);
    let name = r#"run "ssh db1 'stop at  3'" heal "echo \"when\"""#;
    assert_eq!(one.what, command("ssh db1 'stop at  3'", Some("echo \"when\"")));
    assert_eq!((one.name(), one.to_string()), (name, format!("{name} at 2s for 3s")));
    assert_eq!(PlannedFault::parse(&one.to_string()).as_ref(), Ok(&one));
    assert_eq!((one.what.verb(), one.what.nodes(), one.is_of_user()), ("run", None, true));
    let ten = Some(10 * S);
    assert_eq!(moments(r#"run "a" heal "b" at 1s"#, ten), [(S, ten)], "it is healed at the end of the phase");
    let brief = fault(r#"run "pg_dump shop" at 1s every 3s"#);
    assert_eq!((&brief.what, brief.what.is_brief()), (&command("pg_dump shop", None), true));
    assert_eq!(brief.moments(ten, 1).len(), 3);
    let drawn = fault(r#"run "draw drawn b" heal "c" for 2s drawn weight 3"#);
    assert_eq!(drawn.name(), r#"run "draw drawn b" heal "c""#);
    assert_eq!(drawn.drawn_at(5_000).to_string(), r#"run "draw drawn b" heal "c" at 5s for 2s"#);
    assert!(overlap(&[one, fault("kill all at 3s")], ten).is_none());
    let broken = |at: &str| fault(&format!(r#"run "break" heal "mend" at {at}"#));
    assert!(overlap(&[broken("5s"), broken("7s")], ten).is_some(), "the second would never begin");
    assert!(overlap(&[broken("5s for 1s"), broken("7s")], ten).is_none());
}

#[test]
fn secrets_in_commands_of_a_user_are_not_shown() {
    let one = fault(r#"run "psql postgres://bench:hunter2@db1/shop -c vacuum" at 1s"#);
    assert!(matches!(&one.what, FaultAction::Command { begin, .. } if begin.contains("hunter2")));
    assert_eq!(one.to_string(), r#"run "psql postgres://bench:***@db1/shop -c vacuum" at 1s"#);
}

#[test]
fn a_restart_may_be_with_another_program() {
    let path = std::path::PathBuf::from("/opt/redis-8/bin/redis-server");
    let one = fault("restart  replica with /opt/redis-8/bin/redis-server at 40%");
    assert_eq!(one.what, FaultAction::Restart(NodeChoice::Replica, Some(path.clone())));
    assert_eq!((one.what.verb(), one.what.nodes()), ("restart", Some(NodeChoice::Replica)));
    assert_eq!(one.name(), "restart replica with /opt/redis-8/bin/redis-server");
    assert_eq!(one.what.program(), Some((NodeChoice::Replica, path.as_path())));
    assert_eq!(PlannedFault::parse(&one.to_string()).as_ref(), Ok(&one));
    let all = fault("restart all rolling with /opt/redis-8/bin/redis-server at 1s");
    assert_eq!((all.what.program(), all.what.is_brief()), (Some((NodeChoice::All, path.as_path())), true));
    assert_eq!(all.what, FaultAction::RestartInTurn(Some(path)));
    assert_eq!(fault("restart all at 1s").what.program(), None);
    assert!(overlap(&[all, fault("kill node 2 at 0s for 9s")], Some(20 * S)).is_some());
}

#[test]
fn a_hang_lasts_and_a_reset_ends_by_itself_and_may_be_repeated() {
    assert_eq!(fault("hang replica at 1s").what, FaultAction::Hang(NodeChoice::Replica));
    assert_eq!(moments("hang primary at 1s for 2s", Some(10 * S)), [(S, Some(3 * S))]);
    assert_eq!(moments("hang primary at 1s", Some(10 * S)), [(S, Some(10 * S))]);
    let reset = fault("reset node 2 at 1s every 3s");
    assert_eq!((reset.what.clone(), reset.what.is_brief()), (FaultAction::Reset(NodeChoice::Number(2)), true));
    assert_eq!(reset.moments(Some(10 * S), 1).len(), 3);
    assert_eq!((reset.what.verb(), reset.name()), ("reset", "reset node 2"));
}

#[test]
fn mistakes_in_work_links_and_rolling_restarts_come_with_a_remedy() {
    for (words, wanted, remedy) in [
        ("cut node 1 inwards at 1s", "`inwards` has no meaning in `cut`", "write \"cut node 2 at 10s\""),
        ("cut node 1 in to node 2 at 1s", "`to` has no meaning in `cut`", "write \"cut node 2 at 10s\""),
        ("cut node 1 out to peers at 1s", "`to peers` names neither clients nor a node", "write \"cut node 2 at"),
        ("restart node 1 rolling at 1s", "`rolling` restarts all nodes", "write \"restart all rolling at 10s\""),
        ("restart all with at 1s", "the program is missing", "write an absolute path"),
        ("restart all with bin/x at 1s", "`bin/x` is not the path of a program", "write an absolute path"),
        ("restart all with /a b at 1s", "`/a b` is not the path of a program", "write an absolute path"),
        ("restart all with /a\"b/c at 1s", "`/a\"b/c` has quotes", "write it without quotes; to a path with a quote"),
        ("restart all with \"/a b/c\" at 1s", "`\"/a b/c\"` has quotes", "write it without quotes"),
        ("restart all rolling now at 1s", "`now` has no meaning in `restart`", "write \"restart node 2 at 10s\""),
        ("work at 1s", "the name of the work is missing", "write \"work backup at 10s\""),
        ("work backup node x at 1s", "`node x` names no nodes", "write \"work backup node 2\", \"work"),
        ("work backup primary now at 1s", "`now` has no meaning", "write \"work backup node 2 at 10s\""),
        ("work backup at 1s for 3s", "`work` ends by itself", "leave `for` out"),
        ("clock node 1 drawn by=5s", "`by=5s` stands behind a time", "write \"clock node 1 by=5s drawn\""),
        ("limit all at 1s cpus=1 for 2s", "`cpus=1` stands behind a time", "write \"limit all cpus=1 at 1s for 2s\""),
        ("kill primary if lag < 1s", "a condition begins with `when`", "write \"kill primary when lag < 1s\""),
        ("link node 1 reorder=5% at 1s", "a link's `reorder` needs a delay", "add a delay: delay=5ms"),
        ("link node 1 close=61s at 1s", "a link's close is at most 60 s, not 61s", "write close=60s, or less"),
        ("link node 1 corrupt=200% at 1s", "a link's corrupt is a share from 0 to 1, not 2", "write corrupt=1%"),
    ] {
        let (what, help) = PlannedFault::parse(words).unwrap_err();
        assert!(what.starts_with(wanted) && help.unwrap_or_default().starts_with(remedy), "{words}: {what}");
    }
}
