//! Parts of the keys that have no answer while the others have, on a real cluster.

use plimsoll_core::TICK_NS;
use plimsoll_record::data::Run;

use crate::bench::{Place, once_below};
use crate::faults::{faults, least_outage_s, seconds};

#[test]
fn a_third_of_a_clusters_slots_is_silent_while_the_masters_of_the_others_answer() {
    // Beside other tests, the other parts may stop for a moment, too, but not each time.
    once_below(2.0, outage_beside_silent_parts_s);
}

/// Pauses the master of a third of the slots for three seconds. Returns the time without any answer in seconds.
fn outage_beside_silent_parts_s() -> f64 {
    let place = Place::new();
    let drive = ["drive", "kv", "--set", "records=2000", "--set", "distribution=uniform", "--mix", "read=1"];
    let load = ["--on", "redis-cluster", "--clients", "32", "--think", "2ms", "--for", "12s", "--json", "-q"];
    // Shorter than the time after which a replica takes the slots, 15 s. A client waits 0.2 s for a silent slot, and
    // then asks for another key.
    let fault = ["--op-timeout", "200ms", "--goal", "errors=100%", "--fault", "pause node 1 at 4s for 3s"];
    let (found, _) = faults(&place.run(&[&drive[..], &load, &fault].concat()).expect(0).last_json());
    let parts = &found[0]["key_parts"];
    let number = |name: &str| parts[name].as_u64().unwrap();
    // Beside other tests, the other parts may stop for a moment, too.
    assert!(number("of") == 64 && (21..=64).contains(&number("silent")), "{found:?}");
    assert!(seconds(parts, "longest_s") >= least_outage_s(&found[0], 3.0), "{found:?}");
    let run = Run::load(&place.only_run()).unwrap();
    let span = &run.trials[0].faults[0];
    // A worker may be late with the last answers before the pause.
    let silent = span.taken_ns.unwrap() + 1_000_000_000..span.healing_ns.unwrap() - 100_000_000;
    let mut answered = 0u64;
    for slice in run.trials[0].phases.iter().flat_map(|phase| &phase.slices) {
        let ticks = slice.key_parts.iter().flat_map(|parts| &parts.ticks);
        let during =
            (slice.start_ns..).step_by(TICK_NS as usize).zip(ticks).filter(|(at_ns, _)| silent.contains(at_ns));
        answered = during.fold(answered, |bits, (_, tick)| bits | tick.answered);
    }
    // Node 1 has the slots 0 to 5460, and so the first 21 parts and half of the next. Beside other tests, clients may wait for
    // these most of the time, and ask for few of the others.
    let of_node = (1 << 21) - 1;
    assert!(answered & of_node == 0 && answered.count_ones() >= 20, "{answered:064b}: {found:?}");
    seconds(&found[0], "outage_s")
}
