//! Every expected error: its words, its exit code, and nothing left behind.

use crate::bench::{Place, Ran};

#[test]
fn what_can_be_known_beforehand_is_said_before_anything_is_made() {
    let place = Place::new();
    place.refuses(&[
        ("frobnicate", ""),
        ("run cupons", "no study and no file named `cupons` … did you mean `coupons`?"),
        (
            "drive ldap --on ldap --set dn=nonsense --mix search=1",
            "`nonsense` is not a DN … → write it as uid=user.{},ou=People",
        ),
        (
            "drive kv --on redis --mix scan=95,insert=5",
            "the store `redis` does not speak `kv-scan`, which `scan` needs",
        ),
        (
            "drive kv --on postgres --set postgres.disk=ext4 --set postgres.disk_speed=fast --mix read=1",
            "unknown value for `disk_speed`: `fast` … there are: full, hdd, ssd",
        ),
        (
            "drive kv --on postgres --set postgres.disk=ext4 --set postgres.disk_layout=mirror --mix read=1",
            "disk_layout = \"mirror\" has no effect on a disk without a speed … → set disk_speed",
        ),
        (
            "drive kv --on sqlite --set sqlite.disk=files --set sqlite.disk_speed=hdd --mix read=1",
            "disk_speed = \"hdd\": the data is not on a simulated disk with a file system: the store sqlite … → put it on one",
        ),
        (
            "drive kv --on postgres --set postgres.log_disk=ssd --mix read=1",
            "log_disk = \"ssd\": the data is not on a simulated disk … → put it on one: disk = \"ext4\"",
        ),
        (
            "drive oltp --on galera --set galera.disk=ext4 --set galera.log_disk=ssd --mix read_only",
            "logs with their data … → leave `log_disk` or `topology` out",
        ),
        ("drive kv:a --on sqlite --goal p99=20ms --goal p99.0=1ns", "--goal p99.0=1ns: the goal p99 is given twice"),
        ("drive kv --on redis --mix read=1 --reconnect 0", "`reconnect`"),
        ("doctor --honesty sqlite", "`sqlite` is not a server … postgres"),
        ("cost", "<PRICES.toml>"),
        ("cost nowhere.toml", "there is no file nowhere.toml … → `plimsoll cost --example"),
        ("cost /", "/ cannot be read as a file of prices: it is not a file"),
        ("drive ldap --on ldap://127.0.0.1:/dc=x --mix search=1", "the URL's host has a colon behind it and no port"),
    ]);
    place.line("check coupons").expect(0).says("15 to 60 trials … at least 45s … and up to 45 trials more");
    assert!(place.all_runs().is_empty());
}

#[test]
fn data_on_several_devices_neither_fails_nor_loses_power() {
    let place = Place::new();
    let plan = |store: &str, keys: &str, then: &str| {
        place.plan(&format!(
            "stores = [{{ store = \"postgres\", disk = \"ext4\", {store} }}]\n[workload]\nname = \"kv\"\n\
             [[phase]]\ndo = \"load\"\n[[phase]]\ndo = \"drive\"\nfor = \"1s\"\nmix = {{ update = 1 }}\n{keys}\n{then}"
        ))
    };
    let cut =
        plan("log_disk = \"ssd\"", "power_cut = \"write 3\"", "[[phase]]\ndo = \"power\"\n[[phase]]\ndo = \"check\"");
    let several = "is on several devices (log_disk = \"ssd\"), which do not lose power … → leave `disk_layout` and";
    place.run(&["check", &cut]).expect(2).says(several);
    let wrong = "fault = \"disk eio write once at 500ms\"";
    let fault = plan("disk_speed = \"ssd\", disk_layout = \"stripe\"", wrong, "");
    place.run(&["check", &fault]).expect(2).says("is on several devices (disk_layout = \"stripe\"), which do not fail");
}

#[test]
fn a_file_of_prices_becomes_a_table_of_costs() {
    let place = Place::new();
    let prices = place.path().join("prices.toml");
    let example = place.line("cost --example").expect(0).out;
    std::fs::write(&prices, &example).unwrap();
    let prices = prices.to_str().unwrap();
    let table = place.run(&["cost", prices]).expect(0).out;
    for words in ["$50,000 $4,700 10.6 months", "28 $43,260 $12,012", "42 $64,890 $18,018"] {
        let table = table.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(table.contains(words), "{words}: {table}");
    }
    std::fs::write(prices, format!("\u{feff}{example}")).unwrap();
    place.run(&["cost", prices]).expect(0);
    std::fs::write(prices, example.replacen("rent = 2_350", "rent = -1", 1)).unwrap();
    place.run(&["cost", prices]).expect(2).says("`rent` must be 0 or more, not -1 … prices.toml:17:");
}

#[test]
fn a_printed_plan_names_its_files_from_anywhere() {
    let place = Place::new();
    let script = place.path().join("a.sql");
    std::fs::write(&script, "\u{feff}SELECT 1;\n").unwrap();
    let plan = place.plan(
        "stores = [\"sqlite\"]\n[workload]\nname = \"script\"\n[[workload.script]]\nfile = \"a.sql\"\n\
         [[phase]]\ndo = \"drive\"\nops = 1\n",
    );
    let printed = place.run(&["check", &plan, "--print"]).expect(0).out;
    assert!(printed.contains(&format!("file = \"{}\"", script.canonicalize().unwrap().display())), "{printed}");
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
        let ran = ran.says("does not take the statement: select * from nothere");
        if store != "sqlite" {
            ran.says("Load it first. With --no-load statements find the tables of the database that the URL");
        }
        // The recording has it all the same.
        let report = place.line("report latest --format text").expect(0).out;
        assert!(report.starts_with("INCOMPLETE"), "{report}");
        let report = report.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(report.matches(words).count(), 1, "{report}");
    }
}

#[test]
fn a_path_that_cannot_be_written_or_read_and_a_server_that_is_not_there_have_exit_codes_of_their_own() {
    let place = Place::new();
    let mut command = place.command(&["run", "coupons"]);
    let denied = "/proc/1/plimsoll";
    Ran::of(&command.env("XDG_STATE_HOME", denied).output().unwrap()).expect(8).says(denied);
    place.line("report latest").expect(10);
    place.line("drive nothing --on null --ops 5").expect(0);
    std::fs::write(place.path().join("no.sqlite"), "this is no recording").unwrap();
    let none = format!("report {}/no.sqlite", place.path().display());
    for (line, code, words) in [
        (none.as_str(), 10, "no.sqlite"),
        ("report /nowhere/run.sqlite", 10, "cannot read /nowhere/run.sqlite: there is no such file"),
        // Port 1 of the loopback: privileged, and unused.
        ("run coupons --on postgres://me@127.0.0.1:1/db", 3, "127.0.0.1"),
        ("report latest --output /nonexistent/report", 8, "/nonexistent/report … give --output a path"),
        ("report latest --output /proc/report", 8, "/proc/report … give --output a path"),
        ("report latest --output /", 8, "give --output a path"),
        ("report latest --output /dev/full", 7, "/dev/full"),
        ("man /proc/man", 8, "/proc/man"),
        ("drive nothing --on null --ops 5 --dir /proc", 8, "name a directory that"),
    ] {
        place.line(line).expect(code).says(words);
    }
    for line in ["--help", "--version", "run --help", "runs"] {
        place.shell("", &format!("$plimsoll {line} >/dev/full")).expect(7).says("standard output");
    }
}

#[test]
fn the_help_has_examples_and_exit_codes_and_lists_no_option_that_is_always_refused() {
    let place = Place::new();
    place.line("--help").expect(0).says("plimsoll run coupons … Exit codes");
    place.line("run --help").expect(0).says("Examples … PGPASSWORD");
    for (verb, refused) in [
        ("line nothing", &["--rate 1/s", "--for 1s", "--ops 5", "--repeats 2"][..]),
        ("ab nothing --b null", &["--for 1s", "--ops 5", "--repeats 2", "--goal p99=1s"]),
    ] {
        let help = place.run(&[verb.split(' ').next().unwrap(), "--help"]).expect(0).out;
        assert!(help.contains("--clients") && help.contains("--budget"), "{help}");
        for option in refused {
            place.refuses(&[(&format!("{verb} --on null {option}"), "")]);
            let name = option.split(' ').next().unwrap();
            assert!(!help.contains(&format!("{name} <")), "{verb} lists {option}");
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
    for (options, here) in [
        ("select --on postgres -T 60", "error: unexpected argument '-T'\n  → pgbench's -T is here: --for 60s"),
        ("workloada --on redis", "there is no workload `workloada`\n  → `workloada` is here: kv:a"),
        ("kv --banana", "unexpected argument '--banana'"),
    ] {
        let ran = place.line(&format!("drive {options}")).expect(2).says(here);
        assert!(!ran.err.contains("tip:"), "{ran:?}");
    }
    // A search has no length: no hint names an option that would be refused.
    let line = place.line("line select --on postgres -T 60").expect(2);
    assert!(!line.err.contains("--for"), "{line:?}");
    // What is ours, and only mistyped, is still told.
    place.refuses(&[("drive kv --cliets 5", "--clients")]);
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
    // Options that make no plan are not printed as one.
    place.refuses(&[
        ("drive select --on sqlite --rate 0/s --print-plan", "`rate` must be "),
        ("promise sqlite --survivors some --print-plan", "there are: none, all, random, torn"),
        ("run coupons --print-plan", "argument '--print-plan' … `plimsoll check STUDY --print` prints the plan"),
        // Nor are options that a plan file leaves no room for ignored.
        ("line none.toml --nodes 2", "--nodes was given beside the plan file none.toml"),
        ("line none.toml --csv users.csv", "--csv was given beside the plan file none.toml"),
        ("line none.toml -f read.sql", "--file was given beside the plan file none.toml"),
    ]);
}

#[test]
fn a_wrong_option_is_shown_as_it_was_typed() {
    let place = Place::new();
    place.refuses(&[
        ("drive kv --on null --clients 0", "error: --clients 0: `clients` must be 1 to 100000, not 0"),
        ("drive kv --on null --clients 8,0", "error: --clients 8,0: `clients` must be"),
        (
            "drive http --on localhost:80",
            "error: --on localhost:80: unknown store `localhost:80`\n  → a running store is named by a URL: postgres://localhost:80,",
        ),
        ("drive kv --on sqlit", "error: --on sqlit: unknown store `sqlit`\n  → did you mean `sqlite`?"),
        ("drive kv --on null --for 5x", "error: --for 5x: `for`: `x` is not a unit of time"),
        ("drive kv --on null --goal p99=20", "error: --goal p99=20: `p99 = 20` needs a unit: \"20ms\" or \"20s\""),
        ("drive kv --on null --goal outage=5", "error: --goal outage=5: `outage = 5` needs a unit: \"5ms\" or \"5s\""),
        ("drive kv --on null --goal outage=-5s", "error: --goal outage=-5s:"),
        (
            "drive kv --on null --goal stale=0",
            "error: --goal stale=0: `null` keeps no data: no answer is checked for stale records\n  → name stores",
        ),
        (
            "drive kv --on sqlite --set ledger=off --goal stale=0",
            "error: --goal stale=0: the ledger is off: no answer is checked for stale records\n  → leave out `ledger = ",
        ),
        (
            "drive select --on sqlite --goal stale=0",
            "error: --goal stale=0: answers of the workload `select` are not checked … coupons … kv",
        ),
        ("drive kv --on null --goal p99>20ms", "error: --goal p99>20ms: the limit is a maximum, except of rate\n  → write it"),
        ("drive kv --on null --goal rate<=20", "error: --goal rate<=20: the limit of rate is a minimum"),
        ("drive kv --on null --goal p99<=20", "error: --goal p99<=20: `p99 = 20` needs a unit: \"20ms\" or \"20s\""),
        ("drive kv --on null --set recrods=5", "error: --set recrods=5: unknown key `recrods`"),
        ("drive kv --on postgres --set pg.shared_buffers=5", "error: --set pg.shared_buffers=5: `shared_buffers = 5` needs"),
        ("drive kv:g --on null", "error: kv:g: unknown workload `kv:g`\n  → did you mean `kv:"),
        ("drive kv --on null --set records=1 --set records=2", "error: --set records=2: records is set twice, to 1 before"),
        ("drive kv --on null --mix reed=1", "error: --mix reed=1: the workload `kv` has no operation type `reed`"),
        ("run coupons --on sqlite,fjal", "error: --on fjal: unknown store `fjal`"),
        ("line kv --on null --budget 1s", "error: --budget 1s: `budget` must be 30s"),
        ("drive kv", "missing --on … sqlite, fjall, postgres … redis://…"),
        (
            "drive kv --on fjall --set fjall.cache=0B --ops 1",
            "fjall does not work with a cache of 0 bytes … for example cache=1MiB",
        ),
        (
            "drive kv --on fjall --set fjall.memtable=0B --ops 1",
            "fjall does not work with a memtable of 0 bytes … for example memtable=1MiB",
        ),
    ]);
    for (options, write) in [
        ("drive kv --on null --for 1", "--for 1: a time needs a unit\n  → write --for 1s "),
        (
            "drive kv --on null --warmup auto,0.5",
            "--warmup auto,0.5: a time needs a unit\n  → write --warmup auto,0.5s ",
        ),
        ("drive kv --on null --think 2", "write --think 2s "),
        ("drive kv --on null --think 1..2", "needs a unit: \"1ms\" or \"1s\""),
        ("drive kv --on null --stages 5@1", "needs a unit: \"1ms\" or \"1s\""),
        ("drive kv --on null --scenario readers\u{a0}think=1", "write think=1s "),
        ("drive kv --on null --for 1s --progress 5", "write --progress 5s "),
        ("line kv --on null --budget 60", "write --budget 60s "),
        ("ab kv --on null --b depth=2 --turn 1", "write --turn 1s "),
        ("ab kv --on null --b op_timeout=1", "write --op-timeout 1s "),
        ("sync . --for 1", "write --for 1s "),
        ("runs remove --older-than 30", "write --older-than 30s "),
    ] {
        place.refuses(&[(options, write)]);
    }
    let both = place.line("drive kv --on null --clients 0 --for 5x").expect(2);
    assert_eq!(both.err.matches("error: --").count(), 2, "{both:?}");
}

#[test]
fn the_names_that_people_type_run() {
    let place = Place::new();
    for (name, mix) in [
        ("kv:a", "read 50 %, update 50 %"),
        ("kv:d", "read 95 %, insert 5 %"),
        ("kv:e", "scan 95 %, insert 5 %"),
        ("oltp_read_only", "read_only 100 %"),
        ("select-only", "select 100 %"),
    ] {
        let shown = place.line(&format!("drive {name} --on null --for 1s --print-plan")).expect(0).out;
        assert!(shown.contains(&format!("name = \"{name}\"")) && shown.contains("for = \"1s\""), "{shown}");
        let plan = place.plan(&shown);
        place.run(&["check", &plan]).expect(0).says(mix);
    }
    let ran = place.line("drive kv:d --on sqlite --set records=1K --ops 1k -q").expect(0);
    ran.says("all 950 checked answers and 1,0 … records read back were right");
    place.line("runs").expect(0).says("kv:d");
}

#[test]
fn an_option_that_is_wrong_in_several_phases_is_told_once() {
    let ran = Place::new().run(&["drive", "kv", "--on", "postgres", "--durability", "buffered"]).expect(2);
    assert_eq!(ran.err.matches("cannot do `buffered`").count(), 1, "{}", ran.err);
}
