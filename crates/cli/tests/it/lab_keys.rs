//! Keys in a lab of Redis: each run has its own, and removes these only.

use crate::bench::Place;
use crate::lab::Lab;

#[test]
fn runs_on_one_lab_keep_out_of_each_others_keys_and_remove_their_own() {
    let place = Place::new();
    let lab = Lab::up(&place, "redis-cluster", &[]);
    let ask = |words: &[&str]| lab.exec("1", &[&["redis-cli", "-c", "-h", "10.77.0.1"], words].concat()).expect(0).out;
    ask(&["SET", "mine", "1"]);
    let refused = "drive kv --on lab:redis-cluster --no-load --mix read=1 --set records=500 --for 1s";
    place.line(refused).expect(2);
    assert_eq!(ask(&["GET", "mine"]).trim(), "1");
    let load = "kv --set records=500 --mix read=1,update=1 --clients 2 --goal lost=0";
    let driving = lab.driving(&format!("{load} --for 8s"));
    lab.drive(&format!("{load} --for 1s")).expect(0);
    driving.ended().expect(0);
    for node in 1..=3 {
        let host = format!("10.77.0.{node}");
        let keys = lab.exec("1", &["redis-cli", "-h", &host, "KEYS", "*"]).expect(0).out;
        assert!(keys.lines().all(|key| key.trim().is_empty() || key.trim() == "mine"), "{keys}");
    }
    assert_eq!(ask(&["GET", "mine"]).trim(), "1");
    lab.down();
}
