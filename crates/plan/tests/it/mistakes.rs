//! Every mistake is shown where it is, with what was meant.
//!
//! A case is a plan with the mistake between `«` and `»`: that is what must be underlined.

use miette::Diagnostic;
use plimsoll_plan::{Overrides, parse};

use crate::catalogue::catalogue;

/// A right plan to make mistakes in.
const RIGHT: &str = r#"stores = ["sqlite"]
[workload]
name = "coupons"
[[phase]]
do = "load"
[[phase]]
do = "drive"
for = "10s"
mix = { read = 1 }
"#;

/// Reads `marked` without its marks; its only mistake must be between them, as `what` and `help` say.
#[track_caller]
fn expect(marked: &str, what: &str, help: &str) {
    let start = marked.find('«').expect("a mark");
    let end = marked.find('»').expect("a second mark") - '«'.len_utf8();
    let text = marked.replace(['«', '»'], "");
    let error = parse("test", &text, &catalogue(), &Overrides::default()).expect_err(&text);
    let found: Vec<_> = error.problems().iter().map(|problem| (problem.what(), problem.span())).collect();
    assert_eq!(found, [(what, start..end)], "{text}");
    assert_eq!(error.problems()[0].help().unwrap_or_default(), help, "{text}");
    assert_eq!(error.to_string(), what);
    // The same holds for the diagnostic; of a very long plan only a part is shown.
    let label = error.problems()[0].labels().expect("labels").next().expect("a label");
    let shown = if end - start > 240 { 60 } else { end - start };
    assert_eq!((label.offset(), label.len()), (start, shown));
}

/// Checks as [`expect`], with the first `right` in the right plan replaced by `wrong`.
#[track_caller]
fn replaced(right: &str, wrong: &str, what: &str, help: &str) {
    assert!(RIGHT.contains(right));
    expect(&RIGHT.replacen(right, wrong, 1), what, help);
}

/// Checks as [`expect`], with `more` at the end of the right plan, which is its drive.
#[track_caller]
fn added(more: &str, what: &str, help: &str) {
    expect(&format!("{RIGHT}{more}"), what, help);
}

#[test]
fn a_parameter_of_a_store_is_sent_to_its_store() {
    replaced(
        "name = \"coupons\"\n",
        "name = \"coupons\"\n«shared_buffers» = \"1GiB\"\n",
        "unknown key `shared_buffers` in the workload `coupons`",
        "`shared_buffers` is a parameter of stores: { store = \"postgres\", shared_buffers = … }, on the command line --set \
         postgres.shared_buffers=…",
    );
}

#[test]
fn the_right_plan_is_right() {
    parse("test", RIGHT, &catalogue(), &Overrides::default()).unwrap();
}

#[test]
fn unknown_keys_are_told_from_near_ones() {
    let keys = "keys here: do, name, only, clients, durability, depth, workers, mix, loop, rate, arrivals, stages, think, reconnect, backlog, wake, io, pin, scenario, action, warmup, for, ops, op_timeout, power_cut, power_node";
    added("«client» = 8", "unknown key `client` in a `drive` phase", &format!("did you mean `clients`? {keys}"));
    added("«banana» = 8", "unknown key `banana` in a `drive` phase", keys);
    replaced(
        "do = \"load\"",
        "do = \"load\"\n«op_timeout» = \"1s\"",
        "unknown key `op_timeout` in a `load` phase",
        "keys here: do, name, only, batch, clients, durability",
    );
    replaced(
        "stores",
        "«Seed» = 1\nstores",
        "unknown key `Seed` in the plan",
        "did you mean `seed`? keys here: title, question, answer, source, stores, seed, slice, setup_timeout, load_timeout, work_timeout, samplers, repeats, order, start, server_pin, dir, allow_writes, answer_max, sweep, line, workload, phase, goals, figure",
    );
    replaced(
        "name = \"coupons\"",
        "name = \"coupons\"\n«record» = 3",
        "unknown key `record` in the workload `coupons`",
        "did you mean `records`? keys here: name, records, index, pause, strict",
    );
    replaced(
        "[\"sqlite\"]",
        "[{ store = \"sqlite\", «cash» = \"4MiB\" }]",
        "unknown key `cash` in the store `sqlite`",
        "did you mean `cache`? keys here: store, as, cache",
    );
    added(
        "[goals]\n«p9x» = \"20ms\"",
        "unknown key `p9x` in [goals]",
        "did you mean `p99`? keys here: lost, wrong, errors, p99, mean, status, rate, and any percentile like p99.9",
    );
}

#[test]
fn units_are_asked_for() {
    let times = "units of time: ns, us, µs, ms, s, min, h, d";
    replaced("\"10s\"", "«30»", "`for = 30` needs a unit: \"30ms\" or \"30s\"", times);
    replaced("\"10s\"", "«\"30\"»", "`for = \"30\"` needs a unit: \"30ms\" or \"30s\"", times);
    replaced("\"10s\"", "«\"30MiB\"»", "`for`: `MiB` is a unit of size, not of time", times);
    replaced("\"10s\"", "«\"10sec\"»", "`for`: `sec` is not a unit of time", "write \"10s\"");
    replaced("\"10s\"", "«\"long\"»", "`for`: `long` is not a time", "write a number and a unit: \"10s\"");
    replaced("\"10s\"", "[\"1s\", «2»]", "`for = 2` needs a unit: \"2ms\" or \"2s\"", times);
    added("loop = \"open\"\nrate = «1000»", "`rate = 1000` needs a unit: \"1000/s\"", "units of rate: /s, /min, /h");
    added("[goals]\nerrors = «0.1»", "`errors = 0.1` needs a unit: \"0.1%\"", "units of share: %");
    replaced(
        "[\"sqlite\"]",
        "[{ store = \"sqlite\", cache = «\"4KB\"» }]",
        "`cache`: `KB` is not a unit of size",
        "write \"4KiB\"",
    );
}

#[test]
fn types_and_ranges_are_checked() {
    added("clients = «\"8\"»", "`clients` must be a whole number without unit or quotes, not the text \"8\"", "");
    added("clients = «8.0»", "`clients` must be a whole number without unit or quotes, not the number 8", "");
    added("clients = «0»", "`clients` must be 1 to 100000, not 0", "");
    added("clients = [1, «-1»]", "`clients` must be 1 to 100000, not -1", "");
    added("warmup = «\"autp\"»", "`autp` is not a time", "write a time: \"10s\", or \"auto\" to detect the warm-up");
    added("warmup = «true»", "`warmup` must be a number with a unit, in quotes, not true", "");
    replaced("\"10s\"", "«\"1us\"»", "`for` must be 1ms to 720h, not 1us", "");
    replaced(
        "{ read = 1 }",
        "«\"read\"»",
        "`mix` must be a table of shares such as `mix = { read = 1 }`, not the text \"read\"",
        "",
    );
    replaced("stores", "seed = «-1»\nstores", "`seed` must be at least 0, not -1", "");
    replaced("stores", "slice = «\"1ms\"»\nstores", "`slice` must be 100ms to 60s, not 1ms", "");
    for key in ["setup_timeout", "load_timeout", "work_timeout"] {
        let what = format!("`{key}` must be 100ms to 24h, not 5ms");
        replaced("stores", &format!("{key} = «\"5ms\"»\nstores"), &what, "");
    }
    replaced("stores", "title = «7»\nstores", "`title` must be a text in quotes, not the number 7", "");
    replaced(
        "[\"sqlite\"]",
        "[«7»]",
        "`stores` must be the name of a store, a URL, or a table such as { store = \"sqlite\" }, not the number 7",
        "",
    );
    replaced("\"coupons\"", "\"coupons\"\nstrict = «1»", "`strict` must be true or false, not the number 1", "");
    replaced("\"coupons\"", "\"coupons\"\nrecords = «0»", "`records` must be 1 to 1000000, not 0", "");
    expect(
        &format!("phase = «1»\n{}", RIGHT.split("[[phase]]").next().unwrap()),
        "`phase` must be a list of tables, each begun with [[phase]], not the number 1",
        "",
    );
    replaced(
        "\"coupons\"",
        "\"coupons\"\nindex = «\"mine\"»",
        "unknown value for `index`: `mine`",
        "there are: none, own, keyindex",
    );
    added("[goals]\nerrors = «\"101%\"»", "`errors` must be 0% to 100%", "");
    added("clients = «[]»", "`clients` is an empty list: there is nothing to choose from", "");
    added("clients = [1, 2, «1»]", "`1` is listed twice in `clients`", "");
}

#[test]
fn a_store_is_called_what_the_plan_says_or_that_is_refused() {
    for name in ["", "two\nlines", "a|b", &"x".repeat(41)] {
        let written = format!("{{ store = \"sqlite\", as = «{}» }}", toml::Value::from(name));
        let help = "up to 40 letters, digits and spaces, with - _ . and / among them";
        replaced("\"sqlite\"", &written, "this is not a valid name for a store", help);
    }
}

#[test]
fn unknown_names_are_told_from_near_ones() {
    replaced(
        "\"sqlite\"",
        "«\"sqlit\"»",
        "unknown store `sqlit`",
        "did you mean `sqlite`? stores: sqlite, fjall, postgres, pg, ldap, slow",
    );
    replaced(
        "\"sqlite\"",
        "«\"postgre://h/\"»",
        "no store has the URL scheme `postgre://`",
        "did you mean `postgres`? schemes: postgres, postgresql, ldap",
    );
    replaced(
        "\"coupons\"",
        "«\"coupon\"»",
        "unknown workload `coupon`",
        "did you mean `coupons`? there are: coupons, coupons:reads, coupons:many, select, nothing, script",
    );
    replaced(
        "{ read = 1 }",
        "{ read = 1, «raed» = 2 }",
        "the workload `coupons` has no operation type `raed`",
        "did you mean `read`? operation types: read, update, query",
    );
    added(
        "\n[[phase]]\ndo = \"ask\"\ncount = 1\nop = «\"delete\"»",
        "the workload `coupons` has no operation type `delete`",
        "operation types: read, update, query",
    );
    added(
        "\n[[phase]]\ndo = «\"chek\"»",
        "unknown step `chek`",
        "did you mean `check`? there are: load, ask, drive, settle, cold, restart, power, check",
    );
    replaced(
        "stores",
        "samplers = [«\"dsk\"»]\nstores",
        "unknown sampler `dsk`",
        "did you mean `disk`? there are: cpu, disk, fsync, default",
    );
    added(
        "durability = «\"durably\"»",
        "unknown durability `durably`",
        "did you mean `durable`? there are: durable, buffered, at-end, as-configured",
    );
    added("loop = «\"half\"»", "unknown loop `half`", "there are: closed, open");
}

#[test]
fn what_is_missing_is_named() {
    expect(
        "«»[workload]\nname = \"coupons\"\n[[phase]]\ndo = \"load\"",
        "the plan needs `stores`",
        "write `stores = [\"sqlite\"]`, or name them with `--on`",
    );
    expect(
        "«»stores = [\"sqlite\"]\n[[phase]]\ndo = \"load\"",
        "the plan needs `workload`",
        "write [workload] and its `name`",
    );
    expect(
        "«»stores = [\"sqlite\"]\n[workload]\nname = \"coupons\"\n",
        "the plan needs `phase`",
        "write [[phase]] and what it is to do",
    );
    expect(
        "stores = [\"sqlite\"]\nphase = «[]»\n[workload]\nname = \"coupons\"\n",
        "the plan has no phase",
        "begin one with [[phase]]; `do` is one of load, ask, drive, settle, cold, restart, power, check",
    );
    replaced("[workload]\nname = \"coupons\"", "«[workload]»", "[workload] needs `name`", "write `name = \"coupons\"`");
    added("\n«[[phase]]»\nname = \"x\"", "a phase needs `do`", "write `do = \"load\"`");
    added("\n«[[phase]]»\ndo = \"ask\"\nop = \"query\"", "an `ask` phase needs `count`", "write `count = 5`");
    added("\n«[[phase]]»\ndo = \"ask\"\ncount = 2", "an `ask` phase needs `op`", "write `op = \"read\"`");
    expect(
        &RIGHT.replace("for = \"10s\"\n", "").replace("[[phase]]\ndo = \"drive\"", "«[[phase]]»\ndo = \"drive\""),
        "a drive needs an end",
        "write `for = \"30s\"`, or `ops = 1000` for each client",
    );
    expect(
        &RIGHT.replace("mix = { read = 1 }\n", "").replace("[[phase]]\ndo = \"drive\"", "«[[phase]]»\ndo = \"drive\""),
        "a `drive` phase needs `mix`",
        "write `mix = { read = 1 }`",
    );
    added("\n«[[figure]]»\nname = \"x\"", "a figure needs `formula`", "write `formula = \"load.seconds\"`");
    added(
        "\n[[figure]]\nname = \"x\"\nformula = \"load.seconds\"\npublished = [«{ value = 1 }»]",
        "a published value needs `of`",
        "write `of = \"what it was measured on\"`",
    );
}

#[test]
fn combinations_that_cannot_be_are_refused() {
    added(
        "loop = «\"open\"»",
        "an open loop needs a rate",
        "add `rate = \"1000/s\"`, the operations a second of all clients together",
    );
    added(
        "loop = \"closed\"\n«rate» = \"10/s\"",
        "a closed loop has no rate: it goes as fast as the answers come",
        "leave out the rate, or `loop`",
    );
    for rate in ["0/s", "100000001/s", "1/h"] {
        let plan = format!("loop = \"open\"\nrate = «\"{rate}\"»");
        added(&plan, "`rate` must be 0.001/s to 100000000/s", "");
    }
    added("«ops» = 5", "`for` and `ops` both end the phase: leave one out", "");
    added(
        "durability = «\"at-end\"»",
        "`at-end` is for loads; a drive has no sync at its end",
        "choose \"durable\" (power loss) or \"buffered\" (the process)",
    );
    replaced(
        "{ read = 1 }",
        "«{ read = 0, query = 0 }»",
        "the mix has no operation type with a share above zero",
        "write `mix = { read = 1 }`",
    );
    replaced(
        "\"coupons\"\n[[phase]]\ndo = \"load\"\n[[phase]]",
        "\"coupons\"\n«[[phase]]»",
        "`drive` comes before anything is loaded (store `sqlite`)",
        "put a phase with `do = \"load\"` before it",
    );
    replaced(
        "[[phase]]\ndo = \"load\"",
        "«[[phase]]»\ndo = \"check\"\n[[phase]]\ndo = \"load\"",
        "`check` comes before anything is loaded (store `sqlite`)",
        "put a phase with `do = \"load\"` before it",
    );
    expect(
        &RIGHT.replace("\"sqlite\"", "«\"fjall\"»").replace("coupons", "select").replace("read", "select"),
        "the store `fjall` does not speak `sql`, which the workload `select` needs",
        "these do: sqlite, postgres, ldap",
    );
    let slow =
        RIGHT.replace("\"sqlite\"", "\"slow\"").replace("do = \"load\"", "do = \"load\"\ndurability = \"at-end\"");
    expect(
        &format!("{slow}durability = «\"durable\"»"),
        "the store `slow` cannot do `durable`",
        "it can do: buffered, at-end, as-configured",
    );
    expect(
        &RIGHT.replace("\"sqlite\"", "\"fjall\"").replace("\"coupons\"", "\"coupons\"\nindex = «\"own\"»"),
        "nothing is left to run",
        "fjall has no native index",
    );
}

#[test]
fn phases_have_names_of_their_own() {
    added(
        "name = «\"10 s\"»",
        "`10 s` cannot name a phase",
        "a name is letters, digits and `_`, at most 60, and does not begin with a digit",
    );
    added("name = \"x\"\n[[phase]]\ndo = \"check\"\nname = «\"x\"»", "another phase is named `x` already", "");
}

#[test]
fn conditions_look_at_what_there_is() {
    added(
        "only = { «indx» = \"own\" }",
        "`only` uses `indx`, in which trials do not differ",
        "did you mean `index`? it can use: store, records, index, pause, strict",
    );
    added("only = { index = «\"mine\"» }", "unknown value for `index`: `mine`", "there are: none, own, keyindex");
    added(
        "only = { store = «\"sqlit\"» }",
        "unknown store `sqlit`",
        "did you mean `sqlite`? there are: sqlite, fjall, postgres, ldap, slow",
    );
    added(
        "clients = [1, 8]\n[[phase]]\ndo = \"check\"\nonly = { clients = «2» }",
        "`clients` is never 2",
        "its values: 1, 8",
    );
}

#[test]
fn goals_are_of_any_percentile_of_one_operation_type_and_of_codes() {
    let plan = |goal: &str| parse("test", &format!("{RIGHT}[goals]\n{goal}\n"), &catalogue(), &Overrides::default());
    for (goal, name, limit) in [
        ("p999 = \"20ms\"", "p99.9", 20e6),
        ("p99.9 = \"20ms\"", "p99.9", 20e6),
        ("\"p99.9\" = \"20ms\"", "p99.9", 20e6),
        ("p97.5 = \"20ms\"", "p97.5", 20e6),
        ("mean = \"1ms\"", "mean", 1e6),
        ("read.p99 = \"5ms\"", "read.p99", 5e6),
        ("read.p99.95 = \"5ms\"", "read.p99.95", 5e6),
        ("read = { rate = \"10/s\" }", "read.rate", 10.0),
        ("status.500 = \"1%\"", "status.500", 1.0),
        ("status = { 5xx = \"0%\" }", "status.5xx", 0.0),
    ] {
        let goals = plan(goal).unwrap_or_else(|error| panic!("{goal}: {error:?}")).goals;
        let found: Vec<_> = goals.iter().map(|goal| (goal.name(), goal.limit)).collect();
        assert_eq!(found, [(name.to_owned(), limit)], "{goal}");
    }
    for wrong in [
        "p0 = \"1ms\"",
        "p99.x = \"1ms\"",
        "p99.9.9 = \"1ms\"",
        "status = \"1%\"",
        "status.200 = \"99%\"",
        "read.lost = 0",
        "read.read.p99 = \"1s\"",
    ] {
        assert!(plan(wrong).is_err(), "{wrong}");
    }
    added(
        "[goals]\n«reed».p99 = \"5ms\"",
        "no operation type or step of `coupons` is called `reed`",
        "did you mean `read`? there are: read, update, query",
    );
    added("[goals]\n«update».p99 = \"5ms\"", "no phase drives `update`", "they drive: read");
    added(
        "[goals]\nread.«median» = \"5ms\"",
        "unknown key `median` in `read` of [goals]",
        "did you mean `mean`? keys here: errors, p99, mean, rate, and any percentile like p99.9",
    );
    added(
        "[line]\n[goals]\np99 = \"20ms\"\n«mean» = \"5ms\"",
        "a load line cannot be searched by `mean`",
        "a search uses percentiles and errors, of all operations or of one operation type",
    );
}

#[test]
fn a_goal_that_no_phase_measures_is_said() {
    added("[goals]\nlost = «0»", "no phase measures `lost`", "it needs a phase with do = \"check\"");
    replaced(
        "do = \"drive\"\nfor = \"10s\"\nmix = { read = 1 }\n",
        "do = \"check\"\n[goals]\nlost = 0\np99 = «\"20ms\"»",
        "no phase measures `p99`",
        "it needs a phase with do = \"drive\"",
    );
}

#[test]
fn formulas_are_read_to_the_column() {
    let figure = |formula: &str| format!("[[figure]]\nname = \"é\"\nformula = {formula}");
    added(
        &figure("\"load.seconds / «)»\""),
        "in the formula: expected a number, a result such as `load.seconds` or `(`, found `)`",
        "",
    );
    added(
        &figure("\"load.seconds +«\"»"),
        "in the formula: expected a number, a result such as `load.seconds` or `(`, found the end",
        "",
    );
    added(
        &figure("'1 / «laod».seconds'"),
        "in the formula: no phase is named `laod`",
        "did you mean `load`? phases: load, drive",
    );
    added(
        &figure("\"load.seconds[store=sqlite, «indx»=own]\""),
        "in the formula: trials have no label `indx`",
        "did you mean `index`? labels: index, op, pause, records, store, strict",
    );
    added(
        &figure("\"drive.p99[op=«raed»]\""),
        "in the formula: `op` is never raed",
        "did you mean `read`? its values: read, update, query",
    );
    added(
        &figure("\"load.seconds[store=«x»]\""),
        "in the formula: `store` is never x",
        "its values: sqlite, fjall, postgres, ldap, slow",
    );
    added(
        &figure("\"drive.«banana»\""),
        "in the formula: a `drive` phase has no `banana`",
        "it has: p50, p90, p95, p99, p999, undisturbed_p50, undisturbed_p90, undisturbed_p95, undisturbed_p99, undisturbed_p999, mean, stddev, rate, errors, ops, \
         seconds, planned_seconds, wrong, unfinished, lost_connections, ended_connections, failed_connects, connects, connect_mean, connect_p50, connect_p95, connect_p99, join_seconds, lag_p50, lag_p99, lag_max, involuntary_switches, witness_cpu_seconds, device_bytes, \
         device_bytes_per_record, data_bytes, index_bytes, total_bytes, memory_bytes",
    );
    added(
        &figure("\"1 / load.«lost» + drive.rate\""),
        "in the formula: a `load` phase has no `lost`",
        "it has: p50, p90, p95, p99, p999, undisturbed_p50, undisturbed_p90, undisturbed_p95, undisturbed_p99, \
         undisturbed_p999, mean, stddev, seconds, rate, ops, errors, records, sync_seconds, device_bytes, \
         device_bytes_per_record, data_bytes, index_bytes, total_bytes, memory_bytes",
    );
    added(
        &figure("\"drive.«errors»[op=read]\""),
        "in the formula: `errors` covers all operations together: it has no `op`",
        "by operation: p50, p90, p95, p99, p999, undisturbed_p50, undisturbed_p90, undisturbed_p95, undisturbed_p99, undisturbed_p999, mean, stddev, rate, ops",
    );
    added(&figure("\"drive.p99[op=«update»]\""), "in the formula: phase `drive` never asks `update`", "it asks: read");
    expect(
        &format!("answer = «\"a {{é}} and a {{e}}\"»\n{RIGHT}{}", figure("\"load.seconds\"")),
        "there is no figure named `e`",
        "there are: é",
    );
    added(
        &format!("{}\n{}", figure("\"1\""), figure("\"2\"").replace("\"é\"", "«\"é\"»")),
        "another figure is named `é` already",
        "",
    );
    added(
        "clients = [1, 8]\n[[figure]]\nname = \"x\"\nformula = \"load.seconds[clients=«2»]\"",
        "in the formula: `clients` is never 2",
        "its values: 1, 8",
    );
}

#[test]
fn sweeps_have_an_end() {
    let list = |count: usize| (1..=count).map(|number| number.to_string()).collect::<Vec<_>>().join(", ");
    added(
        &format!("workers = [{}]\nclients = «[{}]»", list(100), list(101)),
        "this sweep comes to more than 10000 trials",
        "shorten the lists, or make several plans",
    );
    added(&format!("clients = «[{}]»", list(10_001)), "`clients` is a list of 10001 values; at most 10000", "");
}

#[test]
fn passwords_are_refused_and_not_shown() {
    let text = RIGHT.replace("\"sqlite\"", "\"postgres://me:hunter2@h/\"");
    let error = parse("test", &text, &catalogue(), &Overrides::default()).unwrap_err();
    assert_eq!(error.to_string(), "a plan must not hold a password");
    assert_eq!(error.problems()[0].span(), 25..32);
    let help = "remove it; supply it with PGPASSWORD, PGPASSFILE, a service file or --password-file";
    assert_eq!(error.problems()[0].help(), Some(help));
    let debugged = format!("{error:?}");
    let shown = format!("{debugged}{:?}", miette::Report::new(error));
    assert!(shown.contains("postgres://me:*******@h/") && !shown.contains("hunter2"), "{shown}");

    // Not in a comment, not in a list that is replaced, and not in what TOML itself complains about.
    let overrides = Overrides { on: Some(vec!["sqlite".into()]), seed: None };
    for text in [format!("# postgres://me:hunter2@h/\n{RIGHT}"), text, "a = \"x://u:hunter2@h\" b".to_owned()] {
        let shown = format!("{:?}", miette::Report::new(parse("test", &text, &catalogue(), &overrides).unwrap_err()));
        assert!(shown.contains("a plan must not hold a password") && !shown.contains("hunter2"), "{shown}");
    }
}

#[test]
fn what_is_no_toml_is_shown_too() {
    let error = parse("test", "a = 1\nb = = 2\n", &catalogue(), &Overrides::default()).unwrap_err();
    assert_eq!(error.problems()[0].span().start, "a = 1\nb = ".len());
    assert!(error.to_string().starts_with("this is not TOML: "), "{error}");
}

#[test]
fn all_mistakes_are_shown_at_once_in_the_order_of_the_text() {
    let text =
        RIGHT.replace("\"10s\"", "10").replace("\"sqlite\"", "\"sqlit\"") + "client = 8\n[goals]\np99 = \"2MiB\"\n";
    let error = parse("test", &text, &catalogue(), &Overrides::default()).unwrap_err();
    let meant: Vec<_> = error.problems().iter().map(|problem| &text[problem.span()]).collect();
    assert_eq!(meant, ["\"sqlit\"", "10", "client", "\"2MiB\""]);
    assert_eq!(error.to_string(), "4 mistakes in the plan `test`");
    assert_eq!(error.related().unwrap().count(), 4);
}

#[test]
fn the_command_line_is_shown_as_the_file_is() {
    for (on, what, start) in [
        (vec!["sqlite", "fjal"], "unknown store `fjal`", 7),
        (vec!["sqlite", "sqlite"], "`sqlite` is named twice", 7),
        (vec![], "`--on` names no store", 0),
        (vec!["postgres://me:hunter2@h/", "x://y:hunter2@h"], "no store has the URL scheme `x://`", 17),
    ] {
        let overrides = Overrides { on: Some(on.iter().map(|entry| (*entry).to_owned()).collect()), seed: None };
        let error = parse("test", RIGHT, &catalogue(), &overrides).unwrap_err();
        assert_eq!((error.to_string().as_str(), error.problems()[0].span().start), (what, start));
        assert_eq!(error.problems()[0].source_name(), "--on");
        assert!(!format!("{error:?}").contains("hunter2"));
    }
}

#[test]
fn scenarios_are_checked() {
    let alone = RIGHT.replace("mix = { read = 1 }\n", "");
    let scenario = |text: &str, what: &str, help: &str| expect(&format!("{alone}scenario = {text}"), what, help);
    let r = "scenario = [{ name = \"r\", mix = { read = 1 } }]\n";
    expect(&format!("{alone}{r}«rate» = \"5/s\""), "each scenario sets `rate` for itself: leave it out here", "");
    scenario("«[]»", "a drive has 1 to 100 scenarios, not 0", "");
    scenario("[«{ mix = { read = 1 } }»]", "a scenario needs `name`", "write `name = \"readers\"`");
    scenario("[«{ name = \"r\" }»]", "a scenario needs `mix`", "write `mix = { read = 1 }`");
    let named = "a name is letters, digits, `_` and `-`, at most 60";
    scenario("[{ name = «\"a/b\"», mix = { read = 1 } }]", "`a/b` cannot name a scenario", named);
    let read = "`read` is an operation type of the workload `coupons`";
    scenario("[{ name = «\"read\"», mix = { read = 1 } }]", read, "give the scenario another name, such as `readers`");
    let twice = "[{ name = \"r\", mix = { read = 1 } }, { name = «\"r\"», mix = { read = 1 } }]";
    scenario(twice, "another scenario is named `r` already", "");
    let think = "`rate` and `think` both determine when operations start: leave one of them out";
    scenario("[{ name = \"r\", mix = { read = 1 }, rate = \"5/s\", «think» = \"1s\" }]", think, "");
    let stages = "write [\"500/s@10s\", \"500/s..2000/s@30s\"]";
    scenario(
        "[{ name = \"r\", mix = { read = 1 }, stages = «[\"5@1s\"]» }]",
        "the stages of a scenario must be rates",
        stages,
    );
    let goal = |of: &str, what: &str, help: &str| {
        let text = format!("{alone}{r}[goals]\n{of} = \"5ms\"\n");
        expect(&text, what, help);
    };
    goal("«\"r/update\"».p99", "the scenario `r` does not ask `update`", "it asks: read");
    let line = "a load line is that of one load: leave `scenario` out, and give `mix` and `clients`";
    expect(&format!("{alone}{r}[goals]\np99 = \"5ms\"\n«[line]»\n"), line, "");
    for right in ["r.p99", "read.p99", "\"r/read\".p99"] {
        let text = format!("{alone}{r}[goals]\n{right} = \"5ms\"\n");
        parse("test", &text, &catalogue(), &Overrides::default()).unwrap();
    }
}

const THINKS: &str = "write \"100ms\", \"50ms..200ms\" (anything between), or \"exp:100ms\" (exponential, by its mean)";

#[test]
fn shapes_of_rates_are_checked() {
    added(
        "rate = «{ slope = 1 }»",
        "a rate that changes is one of sine, recorded",
        "write \"1000/s\", or a table such as { sine = \"1000/s\", amplitude = \"500/s\", period = \"60s\" }; `stages` is a \
         key of its own",
    );
    for (keys, what, help) in [
        (
            "rate = \"1/s\"\n«think» = \"1s\"",
            "`rate` and `think` both determine when operations start",
            "leave one of them out: clients think in a closed loop",
        ),
        ("think = «\"2s..1s\"»", "`2s..1s` is not a think time: the second time must be the longer one", THINKS),
        ("think = «\"exp:0s\"»", "`exp:0s` is not a think time: `0s` is not 1ns to 60min", THINKS),
        ("«for» = \"1s\"\nstages = [\"1@1s\"]", "the stages determine the length of the phase: leave out `for`", ""),
    ] {
        let text = if keys.contains("for") { RIGHT.replace("for = \"10s\"\n", "") } else { RIGHT.to_owned() };
        expect(&format!("{text}{keys}"), what, help);
    }
    for (keys, what) in [
        ("clients = 4\nstages = [\"1@1s\"]", "the stages determine the number of clients: leave out `clients`"),
        ("rate = \"1/s\"\nstages = [\"1@1s\"]", "the stages determine the rate: leave out `rate`"),
        ("loop = \"closed\"\nstages = [\"1/s@1s\"]", "a closed loop has no rate: it goes as fast as the answers come"),
        ("stages = []", "`stages` is a list of 1 to 10000 texts"),
        ("stages = [\"0/s@1s\"]", "the stages have no load above 0"),
        ("stages = [\"5/s\"]", "`5/s` is not a stage: it has no length"),
        ("stages = [\"1..5/s@1s\"]", "`1..5/s@1s` is not a stage: one of its ends is a rate, the other is not"),
        (
            "stages = [\"1/s@1s\", \"7@1s\"]",
            "`7@1s` is not a stage: it has clients, and the stages before have rates: a rate is 500/s",
        ),
        (
            "stages = [\"7@1s\", \"1/s@1s\"]",
            "`1/s@1s` is not a stage: it has rates, and the stages before have clients",
        ),
        ("stages = [\"1000000@1s\"]", "`1000000@1s` is not a stage: there are at most 100000 clients"),
        ("stages = [\"1/s@0s\"]", "`1/s@0s` is not a stage: `0s` is not 1ms to 720h"),
        ("stages = [\"1/s@720h\", \"1/s@1s\"]", "the stages last longer than 720h"),
        ("stages = [\"1e9/s@1s\"]", "`1e9/s@1s` is not a stage: `e9/s` is not a unit of rate"),
    ] {
        let text = format!("{}{keys}", RIGHT.replace("for = \"10s\"\n", ""));
        let error = parse("test", &text, &catalogue(), &Overrides::default()).expect_err(&text);
        assert_eq!(error.to_string(), what);
    }
    added("rate = «{ sine = \"1/s\", period = \"1s\" }»", "a rate needs `amplitude`", "write `amplitude = \"500/s\"`");
    added(
        "rate = { sine = \"10/s\", amplitude = «\"11/s\"», period = \"1s\" }",
        "the amplitude is more than the mean: the rate would fall below 0/s",
        "",
    );
    added(
        "rate = { recorded = «\"arrivals.txt\"» }",
        "the arrivals `arrivals.txt` cannot be read: there are no files beside this plan",
        "",
    );
    added("rate = \"1/s\"\narrivals = «\"odd\"»", "unknown spacing of arrivals `odd`", "there are: even, poisson");
    added("wake = «\"late\"»", "unknown way to wake up `late`", "there are: precise, spin, coarse");
    added("pin = «1»", "`pin` must be a list of processors such as [1], not the number 1", "");
    added("depth = «0»", "`depth` must be 1 to 1024, not 0", "");
}

#[test]
fn a_line_has_bounds_and_a_goal_that_a_rate_can_break() {
    let goals = "\n[goals]\np99 = \"20ms\"\n";
    added(
        "\n«[line]»\n",
        "a load line needs a goal for a percentile or for errors",
        "write [goals] with `p99 = \"20ms\"`",
    );
    added(
        &format!("{goals}[line]\n«form» = \"1/s\""),
        "unknown key `form` in [line]",
        "did you mean `from`? keys here: from, least, most, precision, budget, thorough, warmup",
    );
    added(&format!("{goals}[line]\nprecision = «\"50%\"»"), "`precision` must be 0.1% to 25%", "");
    added(&format!("{goals}[line]\nbudget = «\"1s\"»"), "`budget` must be 30s to 168h, not 1s", "");
    added(&format!("{goals}«[line]»\nleast = \"2/s\"\nmost = \"1/s\""), "`least` must be below `most`", "");
    let twice = "\n[[phase]]\nname = \"b\"\ndo = \"drive\"\nfor = \"1s\"\nmix = { read = 1 }";
    added(&format!("{twice}{goals}«[line]»"), "a load line is searched with one `drive` phase, not 2", "");
}

#[test]
fn what_is_done_to_a_disk_is_said_in_its_words() {
    let known = "ignore-flushes, eio write|flush|read once|always|silent N, delay write|flush|read MEDIAN_US JITTER_US SEED, \
        full or bit-rot SEED SHARE";
    for wrong in ["eio wrote once", "eio write", "eio read silent 3", "delay write 1 2 0", "bit-rot 7 1.5", "full 1"] {
        added(
            &format!("action = [{{ at = \"1s\", what = \"fault\", fault = «\"{wrong}\"» }}]"),
            &format!("`{wrong}` is not a valid fault"),
            &format!("there are: {known}"),
        );
    }
    added(
        "action = [{ at = \"1s\", what = \"break\", fault = \"full\" }]".replace("\"break\"", "«\"break\"»").as_str(),
        "unknown action `break`",
        "there are: add, fault, mend",
    );
    added(
        "action = [«{ at = \"1s\", what = \"fault\" }»]",
        "an action needs `fault`",
        "write fault = \"eio write once\"",
    );
    added(
        "action = [{ at = \"1s\", what = \"mend\", «fault» = \"full\" }]",
        "`mend` has no `fault`",
        "leave it out, or write what = \"fault\"",
    );
}

#[test]
fn a_disk_that_is_none_of_ours_is_told_nothing() {
    let help = "only a store that is started here, and keeps data, can be put on one that can";
    for action in ["what = \"fault\", fault = \"eio write once\"", "what = \"mend\""] {
        added(
            &format!("action = [«{{ at = \"1s\", {action} }}»]"),
            "the disk of `sqlite` cannot be told to fail",
            help,
        );
    }
}

#[test]
fn a_power_cut_ends_what_is_done_to_servers() {
    added(
        "action = [{ at = \"1s\", what = \"add\" }]\n«power_cut» = \"flush 3\"",
        "a power cut ends the phase and may interrupt an `action` on servers",
        "leave one of them out, or put them into two phases",
    );
}
