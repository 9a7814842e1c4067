//! Slots of a Redis cluster that move as planned work, through the program.

use std::time::Duration;

use plimsoll_record::data::{Run, Series};
use plimsoll_testkit::draw::Draw;
use serde_json::Value;

use crate::bench::{Place, wait_for};
use crate::lab::Lab;

#[test]
fn slots_move_under_a_load_that_loses_nothing_and_stay_moved_in_a_lab() {
    let place = Place::new();
    let lab = Lab::up(&place, "redis-cluster", &[]);
    let slots = || {
        let nodes = lab.exec("1", &["redis-cli", "-h", "10.77.0.1", "cluster", "nodes"]).expect(0).out;
        let own = nodes.lines().find(|line| line.contains("myself")).unwrap_or_else(|| panic!("{nodes}"));
        own.split_ascii_whitespace().skip(8).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(slots(), ["0-5460"]);
    let load = ["--set", "records=2000", "--set", "field_length=10", "--mix", "read=1,update=1", "--clients", "4"];
    let on = ["--on", "lab:redis-cluster", "--think", "2ms", "--for", "4s", "--goal", "lost=0", "-q"];
    // Keys take 20 ms each, so that the work lasts some seconds on any disk.
    let faults = ["--fault", "link node 2 delay=10ms at 100ms", "--fault", "work reshard at 500ms"];
    place.run(&[&["drive", "kv"], &load[..], &on, &faults].concat()).expect(0);
    assert_eq!(slots(), ["1638-5460"]);
    let run = Run::load(&place.only_run()).unwrap();
    let span = run.faults().find(|span| span.fault.starts_with("work")).unwrap();
    assert!(span.error.is_none() && span.healed_ns.is_some(), "{span:?}");
    let ledger = &run.trials[0].ledgers[0];
    assert!(ledger.complete && ledger.lost == 0 && ledger.read_back >= 2_000, "{ledger:?}");
    let values = |is_meant: &dyn Fn(&Series) -> bool| {
        let position = run.series.iter().position(is_meant).expect("the series");
        run.samples.iter().filter_map(|sample| sample.value(position)).collect::<Vec<f64>>()
    };
    let shares = values(&|series| (series.source.as_str(), series.name.as_str()) == ("progress", "reshard"));
    assert!(shares.iter().any(|share| (1.0..100.0).contains(share)) && shares.is_sorted(), "{shares:?}");
    let redirected = values(&|series| series.name == "cluster_moved");
    assert!(redirected.iter().any(|count| *count > 0.0), "{redirected:?}");
    // A run that is killed leaves no slot between two masters, and the link as before.
    let links =
        || lab.status()["nodes"].as_array().unwrap().iter().map(|node| node["link"].clone()).collect::<Vec<_>>();
    let is_between = |node: &Value| {
        let host = node["address"].as_str().unwrap();
        let nodes = lab.exec("1", &["redis-cli", "-h", host, "cluster", "nodes"]).expect(0).out;
        nodes.lines().any(|line| line.contains("myself") && line.contains('['))
    };
    let plain = links();
    let on = ["--on", "lab:redis-cluster", "--think", "2ms", "--for", "600s", "-q"];
    let mut run = place.started(&[&["drive", "kv"], &load[..], &on, &faults].concat(), 1);
    std::thread::sleep(Duration::from_millis(Draw::new("a reshard").below(2_000)));
    run.kill();
    wait_for("the lab to be whole", Duration::from_secs(200), || {
        links() == plain && !lab.status()["nodes"].as_array().unwrap().iter().any(is_between)
    });
    let on = ["--on", "lab:redis-cluster", "--ops", "200", "--goal", "lost=0", "-q"];
    place.run(&[&["drive", "kv"], &load[..], &on].concat()).expect(0);
    lab.down();
}
