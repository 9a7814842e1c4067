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
    place.run(&["run", &plan]).expect(2).says("cleints").says("clients").says("plan.toml:30:1");
    assert!(place.all_runs().is_empty());
}

#[test]
fn what_a_workload_cannot_be_made_of_is_said_with_advice() {
    let place = Place::new();
    place
        .run(&["drive", "ldap", "--on", "ldap", "--set", "dn=nonsense", "--mix", "search=1"])
        .expect(2)
        .says("`nonsense` is not a DN")
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
    // Port 1 of the loopback: privileged, and unused.
    place.run(&["run", "coupons", "--on", "postgres://me@127.0.0.1:1/db"]).expect(3).says("127.0.0.1");
}

#[test]
fn a_state_directory_without_permission_is_said() {
    let place = Place::new();
    let denied = "/proc/1/plimsoll";
    let mut command = place.command(&["run", "coupons"]);
    crate::bench::Ran::of(&command.env("XDG_STATE_HOME", denied).output().unwrap()).expect(8).says(denied);
}

#[test]
fn a_path_that_cannot_be_written_has_an_exit_code_of_its_own() {
    let place = Place::new();
    place.run(&["drive", "nothing", "--on", "null", "--ops", "5"]).expect(0);
    for nowhere in ["/nonexistent/report", "/proc/report", "/"] {
        place.run(&["report", "latest", "--output", nowhere]).expect(8).says(nowhere).says("give --output a path");
    }
    place.run(&["report", "latest", "--output", "/dev/full"]).expect(7).says("/dev/full");
    place.run(&["man", "/proc/man"]).expect(8).says("/proc/man");
    place
        .run(&["drive", "nothing", "--on", "null", "--ops", "5", "--dir", "/proc"])
        .expect(8)
        .says("name a directory that");
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
    place.run(&["list", "workloads"]).expect(0).says("kv:d: YCSB's workload D").says("operations one for each script");
    place.run(&["list", "stores"]).expect(0).says("also called pg, postgresql, pgsql");
}

#[test]
fn a_running_store_is_called_by_its_database_and_host() {
    let place = Place::new();
    for (url, called) in [
        ("postgres://me@127.0.0.1:1/shop", "opening shop@127.0.0.1\n"),
        ("postgres://me@%2Fno%2Fwhere/shop", "opening shop\n"),
        ("mariadb://me@localhost/shop?socket=/no/where", "opening shop@localhost\n"),
        ("redis+unix:///no/where", "opening redis\n"),
    ] {
        let workload = if url.starts_with("redis") { "kv" } else { "select" };
        place.run(&["drive", workload, "--on", url, "--ops", "1"]).expect(3).says(called);
    }
}

#[test]
fn completions_manual_pages_and_the_schema_are_complete() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        place.run(&["completions", shell]).expect(0).says("PLIMSOLL_COMPLETE");
    }
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
    ran.says("error: unexpected argument '-T'\n  → pgbench's -T is here: --for 60s");
    for (options, here) in [
        ("kv --on redis -threads 16", "YCSB's -threads is here: --clients 16"),
        ("http --on http://h -q 100", "oha's -q is here: --rate 100"),
        ("http --on http://h --vus 10", "k6's --vus is here: --clients 10"),
        ("oltp_read_write --on mariadb run", "sysbench's run is here: nothing"),
        ("oltp --table-size=9", "a parameter of a workload: --set table_size=9"),
        ("kv --on redis --ratio 1:10", "memtier's --ratio is here: --mix"),
        ("kv -p recordcount=9 --on redis", "YCSB's recordcount is here: --set records=9"),
        ("workloada --on redis", "there is no workload `workloada`\n  → `workloada` is here: kv:a"),
        ("http://h/x --for 5", "a URL stands behind --on: plimsoll drive http --on http://h/x"),
        ("kv --banana", "unexpected argument '--banana'"),
    ] {
        let args: Vec<&str> = std::iter::once("drive").chain(options.split_whitespace()).collect();
        let ran = place.run(&args).expect(2).says(here);
        assert!(!ran.err.contains("tip:"), "{ran:?}");
    }
    // What is ours, and only mistyped, is still told.
    place.run(&["drive", "kv", "--cliets", "5"]).expect(2).says("--clients");
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
        ("kv --on sqlite --no-load --mix read=1", "a new sqlite starts empty"),
        ("kv --on sqlite --pin 77 --mix read=1", "`pin`: there is no processor 77 here"),
        ("kv --on redis --server-pin 1025 --mix read=1", "`server_pin`: there is no processor 1025 here"),
        ("tpcb --on sqlite --depth 2", "a depth of 2 would mix"),
        ("kv --on redis://127.0.0.1:1 --server-pin 0 --mix read=1", "bind that server where it runs"),
        ("ldap --on ldap://127.0.0.1:/dc=x --mix search=1", "the URL's host has a colon behind it and no port"),
    ] {
        let mut args = vec!["drive"];
        args.extend(options.split_whitespace());
        place.run(&args).expect(2).says(words);
        assert!(place.all_runs().is_empty(), "{options}");
    }
    let script = place.path().join("two.sql");
    std::fs::write(&script, "BEGIN;\nSELECT 1;\nEND;\n").unwrap();
    let script = script.to_str().unwrap();
    // Nothing is loaded or connected to: no server listens there.
    let args = ["drive", "-f", script, "--on", "postgres://me@127.0.0.1:1/db", "--depth", "4"];
    place.run(&args).expect(2).says("a depth of 4 would mix the steps");
    assert!(place.all_runs().is_empty());
}

#[test]
fn a_cache_of_nothing_is_refused() {
    let place = Place::new();
    for size in ["cache", "memtable"] {
        let set = format!("fjall.{size}=0B");
        let ran = place.run(&["drive", "kv", "--on", "fjall", "--set", &set, "--ops", "1"]).expect(2);
        ran.says(&format!("fjall does not work with a {size} of 0 bytes")).says(&format!("for example {size}=1MiB"));
    }
}

#[test]
fn a_wrong_option_is_shown_as_it_was_typed() {
    let place = Place::new();
    for (options, words) in [
        ("kv --on null --clients 0", "error: --clients 0: `clients` must be 1 to 100000, not 0"),
        ("kv --on null --clients 8,0", "error: --clients 8,0: `clients` must be"),
        (
            "http --on localhost:80",
            "error: --on localhost:80: unknown store `localhost:80`\n  → a running store is named by a URL: postgres://localhost:80,",
        ),
        ("kv --on sqlit", "error: --on sqlit: unknown store `sqlit`\n  → did you mean `sqlite`?"),
        ("kv --on null --for 5x", "error: --for 5x: `for`: `x` is not a unit of time"),
        ("kv --on null --goal p99=20", "error: --goal p99=20: `p99 = 20` needs a unit: \"20ms\" or \"20s\""),
        ("kv --on null --goal p99>20ms", "error: --goal p99>20ms: the limit is a maximum, except of rate"),
        ("kv --on null --goal rate<=20", "error: --goal rate<=20: the limit of rate is a minimum"),
        ("kv --on null --goal p99<=20", "error: --goal p99<=20: `p99 = 20` needs a unit: \"20ms\" or \"20s\""),
        ("kv --on null --set recrods=5", "error: --set recrods=5: unknown key `recrods`"),
        ("kv --on postgres --set pg.shared_buffers=5", "error: --set pg.shared_buffers=5: `shared_buffers = 5` needs"),
        ("kv:g --on null", "error: kv:g: unknown workload `kv:g`\n  → did you mean `kv:"),
        ("kv --on null --set records=1 --set records=2", "error: --set records=2: records is set twice, to 1 before"),
        ("kv --on null --mix reed=1", "error: --mix reed=1: the workload `kv` has no operation type `reed`"),
    ] {
        let args: Vec<&str> = std::iter::once("drive").chain(options.split_whitespace()).collect();
        place.run(&args).expect(2).says(words);
    }
    let both = place.run(&["drive", "kv", "--on", "null", "--clients", "0", "--for", "5x"]).expect(2);
    assert_eq!(both.err.matches("error: --").count(), 2, "{both:?}");
    place.run(&["run", "coupons", "--on", "sqlite,fjal"]).expect(2).says("error: --on fjal: unknown store `fjal`");
    place
        .run(&["line", "kv", "--on", "null", "--budget", "1"])
        .expect(2)
        .says("error: --budget 1: `budget` must be 30s");
    place.run(&["drive", "kv"]).expect(2).says("missing --on").says("sqlite, fjall, postgres").says("redis://…");
}

#[test]
fn the_names_that_people_type_run() {
    let place = Place::new();
    for (name, mix) in [
        ("kv", "read 95 %, update 5 %"),
        ("kv:a", "read 50 %, update 50 %"),
        ("kv:d", "read 95 %, insert 5 %"),
        ("kv:e", "scan 95 %, insert 5 %"),
        ("kv:f", "read 50 %, read_modify_write 50 %"),
        ("oltp_read_only", "read_only 100 %"),
        ("tpcb-like", "tpcb 100 %"),
        ("simple-update", "simple_update 100 %"),
        ("select-only", "select 100 %"),
    ] {
        let shown = place.run(&["drive", name, "--on", "null", "--for", "1", "--print-plan"]).expect(0).out;
        assert!(shown.contains(&format!("name = \"{name}\"")) && shown.contains("for = \"1s\""), "{shown}");
        let plan = place.plan(&shown);
        place.run(&["check", &plan]).expect(0).says(mix);
    }
    let options = ["drive", "kv:d", "--on", "sqlite", "--set", "records=1K", "--ops", "1k", "-q"];
    place.run(&options).expect(0).says("all 950 checked answers were right");
    place.run(&["runs"]).expect(0).says("kv:d");
}
