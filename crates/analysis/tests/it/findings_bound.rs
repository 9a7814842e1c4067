//! Findings about what binds a phase in most of its slices.

use plimsoll_analysis::view;
use plimsoll_core::sampler::INTERFACES;
use plimsoll_core::{Link, LinkPeers, LinkWays, NodeSet, Nodes, Setting};
use plimsoll_record::data::FaultKind;

use crate::driven::{driven, sampled};
use crate::faulted;
use crate::findings::{only, values};

#[test]
fn a_phase_whose_clients_wait_for_locks_is_bound_by_them() {
    let mut run = driven(&[2_000; 30]);
    run.trials[0].phases[0].header.clients = 16;
    sampled(&mut run, "store", "fjall", "waiting_for_locks", "", &[11.0; 30]);
    let finding = only(&run, "bound");
    assert_eq!(
        finding.sentence,
        "fjall, phase mixed: in most slices 11.0 sessions of the store waited for locks, beside 16 clients."
    );
    assert!(finding.next.contains("the step that takes most of the time"), "{}", finding.next);
    assert!(finding.next.ends_with(" The command shows the waits with less load."), "{}", finding.next);
    assert_eq!(finding.command, "plimsoll run coupons --set mixed.clients=8");
    let words = ["plimsoll", "drive", "tpcb", "--on", "postgres", "--clients=16", "--seed=7"];
    run.header.command_line = words.map(str::to_owned).to_vec();
    assert_eq!(only(&run, "bound").command, "plimsoll drive tpcb --on postgres --clients 8");
    run.trials[0].phases[0].header.rate_per_s = Some(300.0);
    run.header.command_line.extend(["--rate", "300/s"].map(str::to_owned));
    assert_eq!(only(&run, "bound").command, "plimsoll drive tpcb --on postgres --clients=16 --rate 150/s");
    run.trials[0].phases[0].header.clients = 32;
    assert!(view(&run).findings.is_empty());
}

#[test]
fn the_command_of_a_bound_has_less_load_or_is_none() {
    let mut run = driven(&[2_000; 30]);
    run.trials[0].phases[0].header.clients = 16;
    sampled(&mut run, "disk", "vda", "busy", "%", &[96.0; 30]);
    let mut bound = |line: &str, rate_per_s: Option<f64>| {
        run.header.command_line = line.split_whitespace().map(str::to_owned).collect();
        run.trials[0].phases[0].header.rate_per_s = rate_per_s;
        only(&run, "bound")
    };
    for (line, rate_per_s, command) in [
        (
            "plimsoll run mine.toml --stores postgres",
            None,
            "plimsoll run mine.toml --stores postgres --set mixed.clients=8",
        ),
        ("plimsoll run mine.toml -c16 --seed 3", None, "plimsoll run mine.toml --clients 8"),
        (
            "plimsoll run p.toml --set mixed.clients=16 --set=clients=9",
            None,
            "plimsoll run p.toml --set=clients=9 --set mixed.clients=8",
        ),
        (
            "plimsoll run mine.toml --clients 16",
            Some(500.0),
            "plimsoll run mine.toml --clients 16 --set mixed.rate=250/s",
        ),
        ("plimsoll drive kv -c16", None, "plimsoll drive kv --clients 8"),
    ] {
        let finding = bound(line, rate_per_s);
        assert_eq!(finding.command, command);
        assert!(finding.next.ends_with(" The command shows the use with less load."), "{}", finding.next);
    }
    let half = " Repeat the run with half of the clients, and compare the use.";
    for line in ["plimsoll run mine.toml --quick", "plimsoll ab kv --clients 16"] {
        let finding = bound(line, None);
        assert_eq!(finding.command, "");
        assert!(finding.next.ends_with(half), "{}", finding.next);
    }

    // Scenarios have loads of their own.
    run.header.command_line = ["plimsoll", "run", "mine.toml"].map(str::to_owned).to_vec();
    run.trials[0].header.kinds.iter_mut().for_each(|kind| kind.name = format!("readers/{}", kind.name));
    let finding = only(&run, "bound");
    assert_eq!(finding.command, "");
    assert!(finding.next.ends_with(half), "{}", finding.next);
}

#[test]
fn the_load_of_what_is_watched_is_not_halved() {
    let mut run = driven(&[2_000; 30]);
    run.header.outline.watched = true;
    run.trials[0].phases[0].header.clients = 0;
    run.header.command_line = ["plimsoll", "watch", "access.log", "--follow"].map(str::to_owned).to_vec();
    sampled(&mut run, "disk", "vda", "busy", "%", &[96.0; 30]);
    let finding = only(&run, "bound");
    assert!(finding.next.ends_with(" Watch again at a time of less load, and compare the use."), "{}", finding.next);
    assert_eq!(finding.opposite, "At a time of less load the use stays as it is: others use it.");
    assert_eq!(finding.command, "");
}

#[test]
fn the_object_that_most_waited_for_is_named_whoever_held_it() {
    let mut run = driven(&[2_000; 30]);
    run.trials[0].phases[0].header.clients = 16;
    sampled(&mut run, "store", "fjall", "waiting_for_locks", "", &[12.0; 30]);
    for (name, count) in [
        ("waiting for table tellers, held by a session that ran VACUUM", 4.5),
        ("waiting for a row of t, held by a session that ran UPDATE t SET v = ?", 3.0),
        ("waiting for a row of t, held by a session that ran COMMIT", 4.5),
    ] {
        sampled(&mut run, "store", "fjall", name, "", &[count; 30]);
    }
    let finding = only(&run, "bound");
    let words = "; 62.5 % of them waited for a row of t, in 60.0 % of these cases held by a session that ran COMMIT.";
    assert!(finding.sentence.ends_with(words), "{}", finding.sentence);
    // A commit is no transaction that can be shortened.
    assert!(finding.next.starts_with("Make commits faster, as a transaction keeps its locks"), "{}", finding.next);
}

#[test]
fn locks_that_bind_a_phase_are_named_with_the_statement_of_their_holder() {
    let mut run = driven(&[2_000; 30]);
    run.trials[0].phases[0].header.clients = 16;
    sampled(&mut run, "store", "fjall", "waiting_for_locks", "", &[12.0; 30]);
    let held = "waiting for a row of pgbench_branches, held by a session that ran UPDATE pgbench_branches SET bbalance = \
                bbalance + ?";
    sampled(&mut run, "store", "fjall", held, "", &[9.0; 30]);
    let idle = "waiting for table pgbench_tellers, held by a session that is between two statements";
    sampled(&mut run, "store", "fjall", idle, "", &[1.0; 30]);
    sampled(&mut run, "store", "fjall", "waiting for other locks", "", &[2.0; 30]);
    let finding = only(&run, "bound");
    assert_eq!(
        finding.sentence,
        format!(
            "fjall, phase mixed: in most slices 12.0 sessions of the store waited for locks, beside 16 clients; 75.0 % of \
             them {}.",
            held.replacen("waiting", "waited", 1)
        )
    );
    assert!(finding.next.starts_with("Shorten the transactions of this statement"), "{}", finding.next);
}

#[test]
fn the_next_step_after_waits_for_a_metadata_lock_is_about_definitions_of_tables() {
    let mut run = driven(&[2_000; 30]);
    run.trials[0].phases[0].header.clients = 16;
    sampled(&mut run, "store", "fjall", "waiting_for_locks", "", &[12.0; 30]);
    let held = "waiting for a table metadata lock, held by a session that the server does not name";
    sampled(&mut run, "store", "fjall", held, "", &[12.0; 30]);
    let finding = only(&run, "bound");
    assert!(finding.sentence.contains("held by a session that the server does not name"), "{}", finding.sentence);
    let next =
        "End the transactions that use a table before its definition is changed, or before all tables are locked;";
    assert!(finding.next.starts_with(next), "{}", finding.next);
}

#[test]
fn a_link_at_its_limit_is_what_a_phase_is_bound_by() {
    let mut run = driven(&[2_000; 30]);
    sampled(&mut run, "network", "node 1 eth0", "sent", "B/s", &[2.4e6; 30]);
    sampled(&mut run, "network", "node 1 eth0", "received", "B/s", &[1e6; 30]);
    sampled(&mut run, "network", "node 1 lo", "sent", "B/s", &[2.4e6; 30]);
    assert!(view(&run).findings.is_empty());
    let link = |words: &str| vec![Setting::new("link of node 1", words, Some("plain"), "plimsoll")];
    run.trials[0].header.settings = link("5ms ± 0ns one way, 20 Mbit/s");
    let finding = only(&run, "bound");
    let words = "fjall, phase mixed: in most slices node 1 eth0 sent 19.2 Mbit/s, 96.0 % of the limit of its link.";
    assert_eq!((finding.sentence.as_str(), finding.version), (words, 3));
    assert_eq!(finding.command, "plimsoll run coupons --set mixed.clients=4");
    for other in ["25 Mbit/s", "20 Mbit/s, only to the node", "20 Mbit/s, only for clients"] {
        run.trials[0].header.settings = link(other);
        assert!(view(&run).findings.is_empty(), "{other}");
    }
    // A fault gives the node another link.
    faulted::fault(&mut run, (FaultKind::Link, "node 1", "link node 1 delay=1ms rate=20Mbit at 0s"), 0, None);
    let slow = Link { rate_bits_per_s: Some(20_000_000), ..Link::default() };
    for (link, limits) in [
        (slow, true),
        (Link { ways: LinkWays::Out, ..slow }, true),
        (Link { ways: LinkWays::In, ..slow }, false),
        (Link { peers: LinkPeers::ClientHost(1), ..slow }, false),
        (Link { rate_bits_per_s: None, ..slow }, false),
    ] {
        run.trials[0].faults[0].detail.link = Some(link);
        assert_eq!(view(&run).findings.len(), usize::from(limits), "{link:?}");
    }
    run.trials[0].faults[0].detail.link = Some(slow);
    assert_eq!(only(&run, "bound").sentence, words);
    let several = |numbers: &[usize]| Nodes::Several(NodeSet::of(numbers).unwrap());
    for all in [several(&[0, 1, 3]), Nodes::All] {
        run.trials[0].faults[0].detail.nodes = Some(all);
        assert_eq!(only(&run, "bound").sentence, words);
    }
    for other in [Nodes::One(1), several(&[1, 2])] {
        run.trials[0].faults[0].detail.nodes = Some(other);
        assert!(view(&run).findings.is_empty(), "{other:?}");
    }
    assert!(view(&run).findings.is_empty());
}

#[test]
fn interfaces_at_their_speed_and_segments_sent_again_are_what_a_phase_is_bound_by() {
    let mut run = driven(&[2_000; 30]);
    let speeds = "eth0 1000 Mbit/s, eth1 10000 Mbit/s".to_owned();
    run.header.environment.push((INTERFACES.to_owned(), speeds));
    for interface in ["eth0", "eth1", "eth2"] {
        sampled(&mut run, "network", interface, "received", "B/s", &values(30, 1.175e8, 1e6, &[3]));
    }
    for (subject, sent, again) in [("node 1", 5_000.0, 20.0), ("node 2", 4_900.0, 100.0), ("", 3.0, 1.0)] {
        sampled(&mut run, "tcp", subject, "sent_segments", "1/s", &[sent; 30]);
        sampled(&mut run, "tcp", subject, "retransmits", "1/s", &[again; 30]);
    }
    assert_eq!(
        only(&run, "bound").sentence,
        "fjall, phase mixed: in most slices eth0 received 940 Mbit/s, 94.0 % of its speed and TCP of node 2 sent 2.00 % of \
         its segments again."
    );
}

#[test]
fn a_resource_that_is_used_up_in_most_seconds_is_what_a_phase_is_bound_by() {
    let mut run = driven(&[2_000; 30]);
    sampled(&mut run, "disk", "vda", "busy", "%", &values(30, 96.0, 20.0, &[3, 4]));
    sampled(&mut run, "cpu", "", "user", "%", &values(30, 30.0, 99.0, &[5]));
    sampled(&mut run, "pressure", "io", "some", "%", &[64.0; 30]);
    // All tasks waited in a part of that time: the shares are not added up.
    sampled(&mut run, "pressure", "io", "all", "%", &[57.0; 30]);
    let finding = only(&run, "bound");
    assert_eq!(
        finding.sentence,
        "fjall, phase mixed: in most slices disk vda was 96.0 % in use and waiting for io took 64.0 % of the \
         time."
    );
    // A generator without a core of its own to spare is named like a resource.
    for slice in &mut run.trials[0].phases[0].slices {
        slice.worker_cpu_ns = 1_900_000_000;
    }
    run.trials[0].phases[0].header.workers = 2;
    run.samples.clear();
    let finding = only(&run, "bound");
    assert!(finding.sentence.ends_with("in most slices the generator's workers were 95.0 % busy."), "{finding:?}");
}
