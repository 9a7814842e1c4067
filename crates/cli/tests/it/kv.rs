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
