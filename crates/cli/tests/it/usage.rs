//! Every expected error: its words, its exit code, and nothing left behind.

use crate::bench::{Place, small_coupons};

#[test]
fn an_unknown_study_is_named_and_the_known_ones_are_listed() {
    let place = Place::new();
    place.run(&["run", "cupons"]).expect(2).says("no study and no file named `cupons`").says("did you mean `coupons`?");
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
fn what_a_workload_cannot_be_made_of_is_said_with_advice() {
    let place = Place::new();
    place
        .run(&["drive", "ldap", "--on", "ldap", "--set", "dn=nonsense", "--mix", "search=1"])
        .expect(2)
        .says("`nonsense` is no DN")
        .says("→ write it as uid=user.{},ou=People");
}

#[test]
fn a_statement_that_the_server_does_not_take_is_said_once_and_is_no_result() {
    let place = Place::new();
    let script = place.path().join("a.sql");
    std::fs::write(&script, "select * from nothere;").unwrap();
    let script = script.to_str().unwrap();
    for (store, words) in [
        ("postgres", "\"nothere\" does not exist"),
        ("mariadb", "nothere' doesn't exist"),
        ("sqlite", "no such table: nothere"),
    ] {
        let ran = place.run(&["drive", "-f", script, "--on", store, "--ops", "1"]).expect(2);
        assert_eq!((ran.out.as_str(), ran.err.matches(words).count()), ("", 1), "{ran:?}");
        assert!(ran.err.contains("does not take the statement: select * from nothere"), "{ran:?}");
        // The recording has it all the same.
        let report = place.run(&["report", "latest", "--format", "text"]).expect(0).out;
        assert!(report.starts_with("INCOMPLETE"), "{report}");
        let report = report.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(report.matches(words).count(), 1, "{report}");
    }
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
fn the_help_lists_no_option_that_is_always_refused() {
    let place = Place::new();
    for (verb, refused) in [
        ("line", &["rate=1/s", "for=1s", "ops=5", "repeats=2"][..]),
        ("ab", &["for=1s", "ops=5", "repeats=2", "goal=p99=1s"]),
    ] {
        let help = place.run(&[verb, "--help"]).expect(0).out;
        assert!(help.contains("--clients") && help.contains("--budget"), "{help}");
        for option in refused {
            let (name, given) = option.split_once('=').unwrap();
            let sides = if verb == "ab" { &["--b", "null"][..] } else { &[] };
            let option = format!("--{name}");
            let args = [&[verb, "nothing", "--on", "null", &option, given][..], sides].concat();
            place.run(&args).expect(2);
            assert!(!help.contains(&format!("{option} <")), "{verb} lists {option}");
        }
    }
    assert!(place.run(&["drive", "--help"]).expect(0).out.contains("--ops <"));
}

#[test]
fn the_lists_name_what_there_is() {
    let place = Place::new();
    let ran = place.run(&["list"]).expect(0);
    for word in ["coupons", "sqlite", "fjall", "postgres", "null", "durable", "keyindex", "cpu", "disk"] {
        assert!(ran.out.contains(word), "no {word} in {}", ran.out);
    }
}

#[test]
fn completions_manual_pages_and_the_schema_are_complete() {
    let place = Place::new();
    place.run(&["completions", "bash"]).expect(0).says("--arrivals");
    let pages = place.path().join("man1");
    place.run(&["man", pages.to_str().unwrap()]).expect(0);
    let drive = std::fs::read_to_string(pages.join("plimsoll-drive.1")).unwrap();
    assert!(drive.contains("poisson"), "{drive}");
    let schema = place.run(&["schema"]).expect(0);
    let schema: serde_json::Value = serde_json::from_str(&schema.out).unwrap();
    assert_eq!(schema["title"], "A plan of Plimsoll");
}

#[test]
fn what_another_tool_calls_it_is_answered_with_ours() {
    let place = Place::new();
    let ran = place.run(&["drive", "select", "--on", "postgres", "-T", "60"]).expect(2);
    ran.says("unexpected argument '-T'").says("pgbench's -T is here: --for 60s");
    // Where several tools have it, each is answered.
    place.run(&["drive", "kv", "--on", "redis", "-P", "16"]).expect(2).says("redis-benchmark's -P is here: --depth 16");
}

#[test]
fn drive_writes_its_options_down_as_a_plan() {
    let place = Place::new();
    let shown = place.run(&["drive", "nothing", "--on", "null", "--for", "1s", "--print-plan"]).expect(0);
    let plan = place.plan(&shown.out);
    place.run(&["check", &plan]).expect(0).says("1 client, closed loop, for 1s");
    place.run(&["drive", "nothing", "--on", "null", "--for", "200ms", "--no-load", "-q"]).expect(0);
    place.only_run();
    place.run(&["drive", "select", "--on", "sqlite", "--rate", "0/s"]).expect(2).says("`rate` must be ");
}

#[test]
fn what_can_be_known_beforehand_is_said_before_anything_is_made() {
    let place = Place::new();
    for (options, words) in [
        ("kv --on sqlite --no-load --mix read=1", "a sqlite of this run's own starts empty"),
        ("kv --on sqlite --pin 77 --mix read=1", "`pin`: there is no processor 77 here"),
        ("kv --on redis --server-pin 1025 --mix read=1", "`server_pin`: there is no processor 1025 here"),
        ("tpcb --on sqlite --depth 2", "a depth of 2 would mix"),
        ("kv --on redis://127.0.0.1:1 --server-pin 0 --mix read=1", "bind that server where it runs"),
    ] {
        let mut args = vec!["drive"];
        args.extend(options.split_whitespace());
        place.run(&args).expect(2).says(words);
        assert!(place.all_runs().is_empty(), "{options}");
    }
    let script = place.path().join("two.sql");
    std::fs::write(&script, "BEGIN;\nSELECT 1;\nEND;\n").unwrap();
    let script = script.to_str().unwrap();
    // Nothing is loaded or connected to: nobody listens there.
    let args = ["drive", "-f", script, "--on", "postgres://me@127.0.0.1:1/db", "--depth", "4"];
    place.run(&args).expect(2).says("a depth of 4 would mix the steps");
    assert!(place.all_runs().is_empty());
}
