//! Every expected error: its words, its exit code, and nothing left behind.

use crate::bench::{Place, small_coupons};

#[test]
fn an_unknown_study_is_named_and_the_known_ones_are_listed() {
    let place = Place::new();
    place.run(&["run", "cupons"]).expect(2).says("no study and no file named `cupons`").says("coupons");
    assert!(place.all_runs().is_empty());
}

#[test]
fn a_mistake_in_a_plan_is_shown_with_line_and_column() {
    let place = Place::new();
    let plan = place.plan(&small_coupons(r#"["sqlite"]"#, 100, 1).replace("clients = 8", "cleints = 8"));
    place.run(&["run", &plan]).expect(2).says("cleints").says("clients").says("plan:30:1");
    assert!(place.all_runs().is_empty());
}

#[test]
fn check_says_what_would_run_and_runs_nothing() {
    let place = Place::new();
    place.run(&["check", "coupons"]).expect(0).says("5 trials").says("30");
    assert!(place.all_runs().is_empty());
}

#[test]
fn a_store_where_nobody_answers_is_unreachable() {
    let place = Place::new();
    // Port 1 of the loopback: privileged, and nobody's.
    place.run(&["run", "coupons", "--on", "postgres://me@127.0.0.1:1/db"]).expect(3).says("127.0.0.1");
}

#[test]
fn a_state_directory_without_permission_is_said() {
    let place = Place::new();
    let denied = "/proc/1/plimsoll";
    let mut command = place.command(&["run", "coupons"]);
    let ran = crate::bench::Ran::of(&command.env("XDG_STATE_HOME", denied).output().unwrap());
    assert!(matches!(ran.code, Some(8 | 10)), "{ran:?}");
    ran.says(denied);
}

#[test]
fn a_recording_that_is_none_is_refused() {
    let place = Place::new();
    let path = place.path().join("no.sqlite");
    std::fs::write(&path, "this is no recording").unwrap();
    place.run(&["report", path.to_str().unwrap()]).expect(10).says("no.sqlite");
    place.run(&["report", "latest"]).expect(10);
}

#[test]
fn the_help_has_examples_and_exit_codes() {
    let place = Place::new();
    place.run(&["--help"]).expect(0).says("plimsoll run coupons").says("Exit codes");
    place.run(&["run", "--help"]).expect(0).says("Examples").says("PGPASSWORD");
    place.run(&["frobnicate"]).expect(2);
}

#[test]
fn the_lists_name_what_there_is() {
    let place = Place::new();
    let ran = place.run(&["list"]).expect(0);
    for word in ["coupons", "sqlite", "fjall", "postgres", "null", "durable", "keyindex", "cpu", "disk"] {
        assert!(ran.out.contains(word), "no {word} in {}", ran.out);
    }
}
