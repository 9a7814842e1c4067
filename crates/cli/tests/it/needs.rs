//! Needs of a run: reported by `check`, refused before the start, and reported when exceeded.

use crate::bench::{Place, Ran};

/// Runs the program with limits that a shell sets before it.
fn limited(place: &Place, limits: &str, words: &str) -> Ran {
    place.shell("", &format!("export LC_ALL=C; {limits}; exec $plimsoll {words}"))
}

fn kv(on: &str, clients: u32) -> String {
    format!("drive kv --mix read=1 --set records=200 --on {on} --clients {clients} --ops 2")
}

#[test]
fn a_hundred_thousand_clients_of_a_store_that_never_waits_run_within_three_gigabytes() {
    // Every address counts here, not only memory that is used.
    // On a machine of many processors the allocator would set gigabytes of them aside.
    let limits = "ulimit -v 3000000; export MALLOC_ARENA_MAX=4";
    let place = Place::new();
    limited(&place, limits, &kv("null", 100_000)).expect(0).says("MEASURED");
    assert_eq!(place.driven()["ops"]["count"], 200_000);
}

#[test]
fn a_server_of_our_own_takes_as_many_clients_as_are_asked_for() {
    takes(&Place::new(), "postgres", 150);
}

/// Drives `store` with more clients than it takes by default. All sessions are open before the first operation.
#[track_caller]
fn takes(place: &Place, store: &str, clients: u32) {
    place.line(&kv(store, clients)).expect(0);
    assert_eq!(place.driven()["ops"]["count"], 2 * clients);
}

#[test]
fn what_does_not_fit_is_said_before_anything_is_started() {
    let place = Place::new();
    for (limits, words, said) in [
        (
            "ulimit -n 300",
            kv("redis", 1000),
            "needs about 1,072 file descriptors, and 300 are available (by ulimit -n) … ulimit -n 2048 … LimitNOFILE= … at most 228 clients fit",
        ),
        (
            "ulimit -v 1500000",
            kv("sqlite", 300),
            "trial 1 (sqlite), phase drive needs about … addresses … 300 clients of … clients fit",
        ),
        // Addresses of workers that never wait count too.
        ("ulimit -v 1000000", kv("null", 64), "addresses … stacks and counts of the workers: "),
        (
            ":",
            kv("postgres", 100) + " --set postgres.max_connections=50",
            "100 clients need `max_connections` = 116 of the private postgres, and it is 50 … postgres.max_connections=116",
        ),
        (":", kv("postgres", 20_000), "`max_connections` is at most 10000 … 9,984 clients"),
        (":", kv("redis", 2) + " --answer-max 1B", "`answer_max` must be 1 KiB to 4 GiB"),
    ] {
        limited(&place, limits, &words).expect(2).says(said);
        assert!(place.all_runs().is_empty(), "{words}");
    }
    let plan = place.plan(
        "title = \"many\"\nstores = [\"sqlite\"]\n[workload]\nname = \"kv\"\nrecords = 1000\n[[phase]]\ndo = \"load\"\n\
         [[phase]]\ndo = \"drive\"\nclients = 100\nmix = { read = 1 }\nfor = \"1s\"\n",
    );
    place.run(&["check", &plan]).expect(0).says("of memory, 124 threads, 264 file descriptors");
    limited(&place, "ulimit -n 200", &format!("check {plan}")).expect(2).says("needs about 264 file descriptors");
}

#[test]
fn a_soft_limit_on_file_descriptors_is_raised_and_an_answer_that_is_too_large_names_its_size_and_the_option() {
    let place = Place::new();
    limited(&place, "ulimit -Sn 100", &kv("redis", 200)).expect(0);
    let large = |max: &str| place.line(&format!("{} --set field_length=300 --answer-max {max}", kv("redis", 2)));
    large("1KiB").expect(2).says("bytes, and at most 1024 are kept of an answer (--answer-max)");
    large("4KiB").expect(0);
}

#[test]
fn where_memory_ends_on_the_way_it_is_said_and_nothing_is_aborted() {
    let place = Place::new();
    // A script that can be read, and of which there is no room for another copy.
    let script = place.path().join("long.sql");
    std::fs::write(&script, "select 1;\n".repeat(12_000_000)).unwrap();
    let args = format!("drive -f {} --on null --ops 1", script.display());
    // How much the program itself takes depends on how it was built: less and less, until there is too little for the
    // script. If it begins with more, the program parses all of the script first.
    for kib in (180_000..=420_000).rev().step_by(40_000) {
        let ran = limited(&place, &format!("ulimit -v {kib}"), &args);
        if ran.code == Some(12) {
            ran.says("bytes could not be allocated … ulimit -v");
            return;
        }
        assert!(matches!(ran.code, Some(0 | 2)), "{kib} KiB: {ran:?}");
    }
    panic!("there is room for two copies in any case");
}

mod heavy {
    use super::*;

    #[test]
    fn a_private_redis_takes_ten_thousand_clients() {
        takes(&Place::new(), "redis", 10_000);
    }
}
