//! Nodes that gave no answers in the effect of a fault.

use plimsoll_analysis::view;
use plimsoll_analysis::view::FaultView;
use plimsoll_core::ServerTicks;
use plimsoll_record::data::Run;

use crate::faulted::{KILL, PAUSE, fault, killed_primary, ticked};

/// Gives a run of twenty seconds the answers of its nodes: `answers` tells if a node, from 1 on, answered in a tick.
fn answered(mut run: Run, nodes: u32, answers: impl Fn(u32, u64) -> bool) -> Run {
    let names: Vec<String> = (1..=nodes).map(|node| format!("node {node}")).collect();
    for (second, slice) in (0u64..).zip(&mut run.trials[0].phases[0].slices) {
        let bits = |at: u64| {
            (0..nodes).filter(|node| answers(node + 1, second * 100 + at)).map(|node| 1u64 << node).sum::<u64>()
        };
        slice.server_ticks = Some(ServerTicks { names: names.clone(), answered: (0..100).map(bits).collect() });
    }
    run
}

/// Returns the silent nodes of a fault, with their times in milliseconds and true if they are open, and the number of nodes.
fn silent(one: &FaultView) -> Option<(Vec<(&str, u64, bool)>, u64)> {
    let nodes = one.nodes.as_ref()?;
    let node = |seconds: f64| (seconds * 1e3).round() as u64;
    Some((nodes.silent.iter().map(|one| (one.name.as_str(), node(one.seconds), one.open)).collect(), nodes.of))
}

#[test]
fn a_node_without_answers_in_the_effect_of_a_fault_is_silent_to_a_tick() {
    // The effect lasts from 8 to 9.37 s. Node 3 answers each 0.3 s only.
    let run = answered(killed_primary(), 3, |node, tick| match node {
        1 => !(803..931).contains(&tick),
        2 => !(300..500).contains(&tick),
        _ => tick % 30 == 0,
    });
    let one = view(&run).faults.remove(0);
    assert_eq!(silent(&one), Some((vec![("node 1", 1_280, false)], 3)));
    let words = "; 8 outcomes unknown, no answer from 1 of 3 nodes (node 1) for up to 1.28 s";
    assert!(one.sentence.ends_with(words), "{}", one.sentence);
}

#[test]
fn a_node_that_is_silent_longer_than_the_effect_or_to_the_next_fault_has_a_lower_bound() {
    let run = answered(killed_primary(), 2, |node, tick| node == 2 || !(803..1_500).contains(&tick));
    let one = view(&run).faults.remove(0);
    assert_eq!(silent(&one), Some((vec![("node 1", 1_340, true)], 2)));
    assert!(one.sentence.ends_with(" (node 1) for more than 1.34 s"), "{}", one.sentence);
    let mut run = ticked(20, |_| (10, 0));
    fault(&mut run, KILL, 8_000, Some(9_300));
    fault(&mut run, PAUSE, 9_000, Some(9_500));
    let run = answered(run, 2, |node, tick| node == 2 || !(803..930).contains(&tick));
    let faults = view(&run).faults;
    assert_eq!(silent(&faults[0]), Some((vec![("node 1", 970, true)], 2)));
    assert_eq!(silent(&faults[1]), Some((Vec::new(), 2)), "silent before that fault");
}

#[test]
fn nodes_that_never_answered_and_usual_times_without_an_answer_do_not_count() {
    let run = answered(killed_primary(), 3, |node, tick| match node {
        1 => !(200..330).contains(&tick) && !(803..931).contains(&tick),
        2 => !(803..812).contains(&tick),
        _ => tick > 900,
    });
    assert_eq!(silent(&view(&run).faults[0]), Some((Vec::new(), 2)));
}

#[test]
fn a_node_of_two_addresses_is_one_and_a_single_server_is_no_share_of_nodes() {
    let mut run = answered(killed_primary(), 3, |node, tick| node != 1 || !(803..931).contains(&tick));
    for servers in run.trials[0].phases[0].slices.iter_mut().filter_map(|slice| slice.server_ticks.as_mut()) {
        servers.names[2] = "node 1".to_owned();
    }
    let one = view(&run).faults.remove(0);
    assert_eq!(silent(&one), Some((Vec::new(), 2)));
    assert!(one.sentence.ends_with("; 8 outcomes unknown"), "{}", one.sentence);
    assert_eq!(view(&answered(killed_primary(), 1, |_, tick| tick < 800)).faults[0].nodes, None);
    assert_eq!(view(&killed_primary()).faults[0].nodes, None, "an earlier recording");
}
