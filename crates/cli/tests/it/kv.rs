//! Keys and values, from options to a verdict.

use crate::bench::Place;

#[test]
fn a_mix_of_ycsb_runs_on_a_private_redis() {
    let place = Place::new();
    let mix = "read=50,update=20,insert=10,read_modify_write=20";
    let options = ["--mix", mix, "--clients", "4", "--ops", "500", "--set", "records=1000", "--durability", "buffered"];
    let ran = place.run(&[&["drive", "kv", "--on", "redis"][..], &options].concat()).expect(0);
    ran.says("PASS").says("read_modify_write").says("write after read").says("Redis ");
}

#[test]
fn a_kind_that_a_store_does_not_speak_is_refused_before_anything_runs() {
    let place = Place::new();
    let ran = place.run(&["drive", "kv", "--on", "redis", "--mix", "scan=95,insert=5"]).expect(2);
    ran.says("the store `redis` does not speak `kv-scan`, which `scan` needs");
    assert!(place.all_runs().is_empty());
}

#[test]
fn what_a_store_counts_is_read_once_a_slice() {
    let place = Place::new();
    let options =
        ["--mix", "update=1", "--clients", "2", "--for", "3s", "--set", "records=100", "--durability", "buffered"];
    place.run(&[&["drive", "kv", "--on", "redis", "--warmup", "0s"][..], &options].concat()).expect(0);
    let run = plimsoll_record::data::Run::load(&place.only_run()).unwrap();
    let counters = run.counters(&run.trials[0]);
    let memory = counters.iter().find(|line| line.spec.name == "used_memory").unwrap();
    assert_eq!((memory.spec.unit.as_str(), memory.spec.subject.as_str()), ("B", "redis"));
    assert!(memory.values.len() >= 4, "{memory:?}");
    assert!(memory.values.iter().all(|(_, bytes)| *bytes > 1_000.0), "{memory:?}");
    let rewrites = counters.iter().find(|line| line.spec.name == "aof_rewrites").unwrap();
    assert_eq!(rewrites.spec.unit, plimsoll_record::data::CYCLES);
    assert!(!counters.iter().any(|line| line.spec.name == "rdb_saves"), "it takes no snapshots");
}
