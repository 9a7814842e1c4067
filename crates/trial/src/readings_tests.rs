use plimsoll_core::SeriesKind;
use plimsoll_plan::timeline::PlannedFault;

use super::*;

/// Readings of a store of two nodes, of a disk and of the processors, all at 5.
fn readings() -> NewestReadings {
    let newest = NewestReadings::default();
    let series = [
        (STORE, "pg-ha node 1", "lag", "s"),
        (STORE, "pg-ha node 2", "lag", "s"),
        (STORE, "pg-ha", "connections", ""),
        (STORE, "pg", "connections", ""),
        ("cpu", "", "user", "%"),
        ("cpu", "cpu0", "user", "%"),
        ("disk", "vda", "busy", "%"),
    ];
    for (position, (source, subject, name, unit)) in (0..).zip(series) {
        let [source, subject, name, unit] = [source, subject, name, unit].map(str::to_owned);
        newest.series(position, &Series { source, subject, name, unit, kind: SeriesKind::Level });
    }
    let values = [0.2, 3.0, 40.0, 90.0, 10.0, 80.0, 55.0];
    newest.sample(&Sample { at_ns: 5, values: (0..).zip(values).collect(), ..Sample::default() });
    newest
}

fn seen(newest: &NewestReadings, condition: &str, since_ns: u64) -> Option<f64> {
    let fault = PlannedFault::parse(&format!("kill primary when {condition}")).unwrap();
    newest.of(&fault.when.unwrap(), "pg-ha", since_ns).map(|seen| seen.value)
}

#[test]
fn a_condition_reads_the_whole_or_the_greatest_of_all_subjects_or_the_one_that_it_names() {
    let newest = readings();
    for (condition, wanted) in [
        ("lag < 1s", Some(3.0)),
        ("store.node 1.lag < 1s", Some(0.2)),
        ("store.pg-ha node 1.lag < 1s", Some(0.2)),
        ("connections > 100", Some(40.0)),
        ("cpu.user > 50%", Some(10.0)),
        ("cpu.cpu0.user > 50%", Some(80.0)),
        ("disk.busy > 50%", Some(55.0)),
        ("disk.vdb.busy > 50%", None),
        ("disk.busy > 50ms", None),
        ("memory.used > 1GiB", None),
    ] {
        assert_eq!(seen(&newest, condition, 5), wanted, "{condition}");
    }
}

#[test]
fn a_reading_from_before_the_warm_up_s_end_and_one_of_an_earlier_round_do_not_count() {
    let newest = readings();
    assert_eq!(seen(&newest, "lag < 1s", 6), None);
    newest.sample(&Sample { at_ns: 7, values: vec![(0, 0.1)], ..Sample::default() });
    assert_eq!(seen(&newest, "lag < 1s", 6), Some(0.1), "node 2 is away");
    assert_eq!(seen(&newest, "store.node 2.lag < 1s", 6), None);
}
