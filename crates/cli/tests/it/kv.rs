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
    let of = |name: &str| (0..).zip(&run.series).find(|(_, series)| series.source == "store" && series.name == name);
    let (position, memory) = of("used_memory").unwrap();
    assert_eq!((memory.unit.as_str(), memory.subject.as_str()), ("B", "redis"));
    let values = run.samples.iter().flat_map(|sample| &sample.values).filter(|(series, _)| *series == position);
    let values: Vec<f64> = values.map(|(_, bytes)| *bytes).collect();
    assert!(values.len() >= 4 && values.iter().all(|bytes| *bytes > 1_000.0), "{values:?}");
    assert_eq!(of("aof_rewrites").unwrap().1.kind, plimsoll_core::SeriesKind::Cycle);
    assert!(of("rdb_saves").is_none(), "it takes no snapshots");
}
