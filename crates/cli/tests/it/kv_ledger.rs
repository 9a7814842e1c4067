//! The ledger of keys and values, through the program: stores that keep their promises, and one that does not.

use plimsoll_record::data::Run;

use crate::bench::Place;

const ALL: &str = "read=40,update=20,insert=10,read_modify_write=20,scan=10";

/// Runs `drive kv` with `options`, of values of ten bytes.
fn drive(place: &Place, options: &str) -> (crate::bench::Ran, Run) {
    let ran = place.line(&format!("drive kv --set field_length=10 --full {options}")).expect(0);
    (ran, Run::load(&place.only_run()).unwrap())
}

#[test]
fn every_answer_and_every_acknowledged_write_is_looked_at_on_every_store() {
    for (store, mix, durability) in [
        ("sqlite", ALL, "buffered"),
        ("fjall", ALL, "buffered"),
        ("postgres", ALL, "durable"),
        ("redis", "read=40,update=20,insert=10,read_modify_write=30", "buffered"),
    ] {
        let place = Place::new();
        let sizes = "--set records=500 --set distribution=latest --clients 4 --ops 300 --goal lost=0";
        let options = format!("--on {store} --mix {mix} --durability {durability} {sizes}");
        let (ran, run) = drive(&place, &options);
        ran.says("PASS … acknowledged writes … ledger … write after read");
        let ledger = &run.trials[0].ledgers[0];
        // 1,200 operations of which half write.
        assert!(ledger.complete && ledger.acknowledged >= 500 + 500, "{store}: {ledger:?}");
        assert!(ledger.read_back >= 500 + 100, "{store}: what was inserted is read back too: {ledger:?}");
        let answers =
            |op: &str| run.trials[0].answers.iter().filter(|one| one.op == op).map(|one| one.counts.answers).sum();
        let (read, before, scan): (u64, u64, u64) = (answers("read"), answers("read before write"), answers("scan"));
        assert!(read > 400 && before > 200, "{store}: {:?}", run.trials[0].answers);
        assert_eq!(scan > 0, mix.contains("scan"), "{store}");
    }
}

#[test]
fn a_cluster_under_patroni_is_driven() {
    // Patroni looks every two seconds, so that the cluster is ready sooner.
    let options = "--on postgres-patroni --set postgres.loop_wait=2s --set records=200 --clients 2 --ops 50";
    let (ran, _) = drive(&Place::new(), options);
    ran.says("kept every promise");
}

#[test]
fn a_ledger_that_is_off_is_off_and_said_to_be_and_what_a_store_counts_is_read_once_a_slice() {
    let place = Place::new();
    let often = "--think 2ms --for 2s --slice 200ms --warmup 0s --durability buffered";
    let (ran, run) = drive(&place, &format!("--on redis --mix update=1 --set records=100 --set ledger=off {often}"));
    ran.says("the ledger is off");
    assert!(run.trials[0].ledgers.is_empty() && run.trials[0].answers.is_empty());
    assert_eq!(run.trials[0].header.params["ledger"], "off");
    let of = |name: &str| (0..).zip(&run.series).find(|(_, series)| series.source == "store" && series.name == name);
    let (position, memory) = of("used_memory").unwrap();
    assert_eq!((memory.unit.as_str(), memory.subject.as_str()), ("B", "redis"));
    let values: Vec<f64> = run.samples.iter().filter_map(|sample| sample.value(position)).collect();
    assert!(values.len() >= 3 && values.iter().all(|bytes| *bytes > 1_000.0), "{values:?}");
    assert_eq!(of("aof_rewrites").unwrap().1.kind, plimsoll_core::SeriesKind::Cycle);
    assert!(of("rdb_saves").is_none(), "it takes no snapshots");
}
