//! Needs of a run: reported by `check`, refused before the start, and reported when exceeded.

use crate::bench::{Place, Ran};

/// The program with limits that a shell sets before it.
fn limited(place: &Place, limits: &str, args: &[&str]) -> Ran {
    let program = place.command(args);
    let mut command = place.command(&[]);
    let shell = format!("{limits}; exec \"$0\" \"$@\"");
    let mut limited = std::process::Command::new("sh");
    limited.arg("-c").arg(shell).arg(program.get_program()).args(args);
    for (name, value) in command.env("LC_ALL", "C").get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    Ran::of(&limited.output().unwrap())
}

const KV: [&str; 5] = ["drive", "kv", "--mix", "read=1", "--set"];

fn kv<'a>(on: &'a str, clients: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&KV, &["records=1000", "--on", on, "--clients", clients, "--for", "1s"][..], more].concat()
}

#[test]
fn a_hundred_thousand_clients_of_a_store_that_never_waits_run_within_three_gigabytes() {
    let place = Place::new();
    // Every address counts here, not only memory that is used.
    // On a machine of many processors the allocator would set gigabytes of them aside.
    let limits = "ulimit -v 3000000; export MALLOC_ARENA_MAX=4";
    limited(&place, limits, &kv("null", "100000", &[])).expect(0).says("PASS");
}

#[test]
fn a_server_of_our_own_takes_as_many_clients_as_are_asked_for() {
    let place = Place::new();
    let ran = place.run(&kv("redis", "10000", &[])).expect(0);
    assert!(ran.out.contains("PASS"), "{ran:?}");
    place.run(&kv("postgres", "150", &[])).expect(0);
}

#[test]
fn a_limit_of_the_plans_own_is_kept_and_said_to_be_too_low() {
    let place = Place::new();
    place
        .run(&kv("postgres", "100", &["--set", "postgres.max_connections=50"]))
        .expect(2)
        .says("100 clients need `max_connections` = 116 of the private postgres, and it is 50")
        .says("postgres.max_connections=116");
    place.run(&kv("postgres", "20000", &[])).expect(2).says("`max_connections` is at most 10000").says("9,984 clients");
    assert!(place.all_runs().is_empty());
}

#[test]
fn too_few_file_descriptors_are_said_before_anything_is_started() {
    let place = Place::new();
    let ran = limited(&place, "ulimit -n 300", &kv("redis", "1000", &[])).expect(2);
    let ran = ran.says("needs about 1,072 file descriptors, and 300 are available (by ulimit -n)");
    ran.says("ulimit -n 2048").says("LimitNOFILE=").says("at most 228 clients fit");
    assert!(place.all_runs().is_empty());
}

#[test]
fn a_soft_limit_on_file_descriptors_is_raised() {
    let place = Place::new();
    limited(&place, "ulimit -Sn 100", &kv("redis", "400", &[])).expect(0);
}

#[test]
fn too_little_memory_is_said_before_anything_is_started_with_the_calculation() {
    let place = Place::new();
    let ran = limited(&place, "ulimit -v 1500000", &kv("sqlite", "300", &[])).expect(2);
    ran.says("trial 1 (sqlite), phase drive needs about").says("addresses").says("300 clients of").says("clients fit");
    assert!(place.all_runs().is_empty());
}

#[test]
fn addresses_of_workers_that_never_wait_count_too() {
    let place = Place::new();
    let ran = limited(&place, "ulimit -v 1000000", &kv("null", "64", &[])).expect(2);
    ran.says("addresses").says("stacks and counts of the workers: ");
    assert!(place.all_runs().is_empty());
}

#[test]
fn check_says_what_a_plan_takes_and_refuses_what_does_not_fit() {
    let place = Place::new();
    let plan = place.plan(
        "title = \"many\"\nstores = [\"sqlite\"]\n[workload]\nname = \"kv\"\nrecords = 1000\n[[phase]]\ndo = \"load\"\n\
         [[phase]]\ndo = \"drive\"\nclients = 100\nmix = { read = 1 }\nfor = \"1s\"\n",
    );
    place.run(&["check", &plan]).expect(0).says("of memory, 124 threads, 264 file descriptors");
    limited(&place, "ulimit -n 200", &["check", &plan]).expect(2).says("needs about 264 file descriptors");
}

#[test]
fn where_memory_ends_on_the_way_it_is_said_and_nothing_is_aborted() {
    let place = Place::new();
    // A script that can be read, and of which there is no room for another copy.
    let script = place.path().join("long.sql");
    std::fs::write(&script, "select 1;\n".repeat(12_000_000)).unwrap();
    let args = ["drive", "-f", script.to_str().unwrap(), "--on", "null", "--ops", "1"];
    // How much the program itself takes depends on how it was built: less and less, until there is too little for the script.
    for kib in (260_000..=900_000).rev().step_by(40_000) {
        let ran = limited(&place, &format!("ulimit -v {kib}"), &args);
        if ran.code == Some(12) {
            ran.says("bytes could not be allocated").says("ulimit -v");
            return;
        }
        assert!(matches!(ran.code, Some(0 | 2)), "{kib} KiB: {ran:?}");
    }
    panic!("there is room for two copies in any case");
}

#[test]
fn an_answer_that_is_too_large_names_its_size_and_the_option() {
    let place = Place::new();
    let args = ["--set", "field_length=300", "--answer-max", "1KiB"];
    place.run(&kv("redis", "2", &args)).expect(2).says("bytes, and at most 1024 are kept of an answer (--answer-max)");
    let args = ["--set", "field_length=300", "--answer-max", "4KiB"];
    place.run(&kv("redis", "2", &args)).expect(0);
    place.run(&kv("redis", "2", &["--answer-max", "1B"])).expect(2).says("`answer_max` must be 1 KiB to 4 GiB");
}
