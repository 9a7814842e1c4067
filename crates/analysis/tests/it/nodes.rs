//! The node that answers slowest, of nodes that did not answer at the same times.

use plimsoll_analysis::view;
use plimsoll_core::sampler::ANSWERS;
use plimsoll_record::data::{Run, Sample, SeriesKind};

use crate::driven::{START_S, driven};
use crate::study::{SECOND_NS, series_of, times};

/// Two nodes, of which the second answers in the first ten of twenty seconds: the response time of a second of each.
fn answered(first_ns: impl Fn(u64) -> u64, second_ns: u64) -> Run {
    let mut run = driven(&[1_000; 20]);
    for node in 1..=2 {
        let series = series_of(ANSWERS, &format!("a node {node}"), "response_time", "ns");
        run.series.push(plimsoll_record::data::Series { kind: SeriesKind::Distribution, ..series });
    }
    for second in 0..20 {
        let mut distributions = vec![(0, times([(first_ns(second), 500)]))];
        distributions.extend((second < 10).then(|| (1, times([(second_ns, 500)]))));
        let at_ns = (START_S + second + 1) * SECOND_NS;
        run.samples.push(Sample { at_ns, distributions, ..Sample::default() });
    }
    run
}

fn slowest(run: &Run) -> Option<String> {
    view(run).trials[0].phases[0].slowest_node.clone()
}

#[test]
fn nodes_are_compared_in_the_seconds_in_which_all_answered() {
    // While both answered, both were slow; the one that stayed became faster then.
    let run = answered(|second| if second < 10 { 3_000_000 } else { 1_000_000 }, 3_000_000);
    assert_eq!(slowest(&run), None);
    let run = answered(|_| 1_000_000, 3_000_000);
    let sentence = "a node 2 answers slowest: p50 3.00 ms, and no other node takes longer than 1.00 ms, in the seconds in \
                    which all answered";
    assert_eq!(slowest(&run).unwrap(), sentence);
    // Both nodes are in the table with all that they answered.
    let counts: Vec<u64> = view(&run).trials[0].phases[0].nodes.iter().map(|node| node.count).collect();
    assert_eq!(counts, [10_000, 5_000]);
}
