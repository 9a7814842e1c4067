//! Nodes that gave no answers in the effect of a fault.

use plimsoll_analysis::view;
use plimsoll_analysis::view::FaultView;
use plimsoll_core::sampler::ANSWERS;
use plimsoll_record::data::{Run, Sample};

use crate::driven::START_S;
use crate::faulted::{PAUSE, fault, killed_primary};
use crate::study::{SECOND_NS, series_of};

/// Returns a run of twenty seconds with the primary killed from 8 to 9.3 s. `rate` returns the answers of a node, from 1
/// on, in a second.
fn answered(nodes: u32, rate: impl Fn(u32, u64) -> f64) -> Run {
    let mut run = killed_primary();
    let label = run.trials[0].header.store_label.clone();
    for node in 1..=nodes {
        run.series.push(series_of(ANSWERS, &format!("{label} node {node}"), "rate", "1/s"));
    }
    for second in 0..20 {
        let values = (1..=nodes).map(|node| (node - 1, rate(node, second))).collect();
        run.samples.push(Sample { at_ns: (START_S + second + 1) * SECOND_NS, values, ..Sample::default() });
    }
    run
}

/// Returns the silent nodes of a fault, with their times, and the number of nodes.
fn silent(one: &FaultView) -> Option<(Vec<(&str, f64)>, u64)> {
    let nodes = one.nodes.as_ref()?;
    Some((nodes.silent.iter().map(|node| (node.name.as_str(), node.seconds)).collect(), nodes.of))
}

#[test]
fn a_node_without_answers_in_whole_slices_of_the_effect_is_silent() {
    // Node 1 is silent from 8 to 11 s, of which two slices begin in the effect; node 3 was at other times.
    let run = answered(3, |node, second| match (node, second) {
        (1, 8..11) | (3, 5 | 12) => 0.0,
        _ => 100.0,
    });
    let one = view(&run).faults.remove(0);
    assert_eq!(silent(&one), Some((vec![("node 1", 2.0)], 3)));
    let words = "; 8 outcomes unknown, no answer from 1 of 3 nodes (node 1) for at least 2.00 s";
    assert!(one.sentence.ends_with(words), "{}", one.sentence);
}

#[test]
fn nodes_that_never_answered_and_those_of_the_next_fault_do_not_count() {
    // Node 3 has no clients. The second fault begins at 9 s.
    let mut run = answered(3, |node, second| match (node, second) {
        (3, _) | (1, 8..10) | (2, 9) => 0.0,
        _ => 100.0,
    });
    fault(&mut run, PAUSE, 9_000, Some(9_500));
    let faults = view(&run).faults;
    assert_eq!(silent(&faults[0]), Some((vec![("node 1", 1.0)], 2)));
    assert_eq!(silent(&faults[1]), Some((vec![("node 1", 1.0), ("node 2", 1.0)], 2)));
}

#[test]
fn a_single_server_is_no_share_of_nodes() {
    assert_eq!(view(&answered(1, |_, second| if second == 8 { 0.0 } else { 100.0 })).faults[0].nodes, None);
    let one = view(&answered(2, |_, _| 100.0)).faults.remove(0);
    assert_eq!(silent(&one), Some((Vec::new(), 2)));
    assert!(one.sentence.ends_with("; 8 outcomes unknown"), "{}", one.sentence);
}
