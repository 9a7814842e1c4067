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

/// Cases: changes of the right plan, then `!` with what is wrong, then `?` with the help if there is any.
///
/// `A => B` replaces a piece, `- A` leaves one out, and any other line goes to the end of the plan.
const CASES: &str = r#"
// A parameter of a store is sent to its store.
name = "coupons"\n => name = "coupons"\n«shared_buffers» = "1GiB"\n
! unknown key `shared_buffers` in the workload `coupons`
? `shared_buffers` is a parameter of stores: { store = "postgres", shared_buffers = … }, on the command line --set postgres.shared_buffers=…

// Unknown keys are told from near ones.
«client» = 8
! unknown key `client` in a `drive` phase
? did you mean `clients`? keys here: do, name, only, clients, durability, depth, workers, mix, loop, rate, arrivals, stages, think, reconnect, backlog, wake, io, pin, scenario, fault, warmup, for, ops, op_timeout, power_cut, power_node
«banana» = 8
! unknown key `banana` in a `drive` phase
? keys here: do, name, only, clients, durability, depth, workers, mix, loop, rate, arrivals, stages, think, reconnect, backlog, wake, io, pin, scenario, fault, warmup, for, ops, op_timeout, power_cut, power_node
do = "load" => do = "load"\n«op_timeout» = "1s"
! unknown key `op_timeout` in a `load` phase
? keys here: do, name, only, batch, clients, durability
stores => «Seed» = 1\nstores
! unknown key `Seed` in the plan
? did you mean `seed`? keys here: title, question, answer, worthless, breaks, source, stores, seed, slice, setup_timeout, load_timeout, work_timeout, samplers, repeats, order, start, server_pin, dir, allow_writes, answer_max, sweep, line, workload, phase, goals, figure
name = "coupons" => name = "coupons"\n«record» = 3
! unknown key `record` in the workload `coupons`
? did you mean `records`? keys here: name, records, index, pause, strict
["sqlite"] => [{ store = "sqlite", «cash» = "4MiB" }]
! unknown key `cash` in the store `sqlite`
? did you mean `cache`? keys here: store, as, cache
[goals]\n«p9x» = "20ms"
! unknown key `p9x` in [goals]
? did you mean `p99`? keys here: lost, wrong, errors, p99, mean, status, rate, outage, recovery, and any percentile like p99.9
[goals]\np99 = "20ms"\n«"p99.0"» = "1ms"
! the goal p99 is given twice
? leave one of them out

// Units are asked for.
"10s" => «30»
! `for = 30` needs a unit: "30ms" or "30s"
? units of time: ns, us, µs, ms, s, min, h, d
"10s" => «"30"»
! `for = "30"` needs a unit: "30ms" or "30s"
? units of time: ns, us, µs, ms, s, min, h, d
"10s" => «"30MiB"»
! `for`: `MiB` is a unit of size, not of time
? units of time: ns, us, µs, ms, s, min, h, d
"10s" => «"10sec"»
! `for`: `sec` is not a unit of time
? write "10s"
"10s" => «"long"»
! `for`: `long` is not a time
? write a number and a unit: "10s"
"10s" => ["1s", «2»]
! `for = 2` needs a unit: "2ms" or "2s"
? units of time: ns, us, µs, ms, s, min, h, d
loop = "open"\nrate = «1000»
! `rate = 1000` needs a unit: "1000/s"
? units of rate: /s, /min, /h
[goals]\nerrors = «0.1»
! `errors = 0.1` needs a unit: "0.1%"
? units of share: %
[goals]\noutage = «5»
! `outage = 5` needs a unit: "5ms" or "5s"
? units of time: ns, us, µs, ms, s, min, h, d
["sqlite"] => [{ store = "sqlite", cache = «"4KB"» }]
! `cache`: `KB` is not a unit of size
? write "4KiB"

// Types and ranges are checked.
clients = «"8"»
! `clients` must be a whole number without unit or quotes, not the text "8"
clients = «8.0»
! `clients` must be a whole number without unit or quotes, not the number 8
clients = «0»
! `clients` must be 1 to 100000, not 0
clients = [1, «-1»]
! `clients` must be 1 to 100000, not -1
warmup = «"autp"»
! `autp` is not a time
? write a time: "10s", or "auto" to detect the warm-up
warmup = «true»
! `warmup` must be a number with a unit, in quotes, not true
"10s" => «"1us"»
! `for` must be 1ms to 720h, not 1us
{ read = 1 } => «"read"»
! `mix` must be a table of shares such as `mix = { read = 1 }`, not the text "read"
stores => seed = «-1»\nstores
! `seed` must be at least 0, not -1
stores => slice = «"1ms"»\nstores
! `slice` must be 100ms to 60s, not 1ms
stores => title = «7»\nstores
! `title` must be a text in quotes, not the number 7
["sqlite"] => [«7»]
! `stores` must be the name of a store, a URL, or a table such as { store = "sqlite" }, not the number 7
"coupons" => "coupons"\nstrict = «1»
! `strict` must be true or false, not the number 1
"coupons" => "coupons"\nrecords = «0»
! `records` must be 1 to 1000000, not 0
"coupons" => "coupons"\nindex = «"mine"»
! unknown value for `index`: `mine`
? there are: none, own, keyindex
[goals]\nerrors = «"101%"»
! `errors` must be 0% to 100%
[goals]\noutage = «"100ms"»
! `outage` must be 200ms to 24h, not 100ms
[goals]\noutage = «"1500ms"»
! `outage` must be at least two slices
? use at least 2s, or a shorter `slice`
clients = «[]»
! `clients` is an empty list: there is nothing to choose from
clients = [1, 2, «1»]
! `1` is listed twice in `clients`
stores => setup_timeout = «"5ms"»\nstores
! `setup_timeout` must be 100ms to 24h, not 5ms
stores => load_timeout = «"5ms"»\nstores
! `load_timeout` must be 100ms to 24h, not 5ms
stores => work_timeout = «"5ms"»\nstores
! `work_timeout` must be 100ms to 24h, not 5ms
stores => phase = «1»\nstores
- [[phase]]\ndo = "load"\n[[phase]]\ndo = "drive"\nfor = "10s"\nmix = { read = 1 }\n
! `phase` must be a list of tables, each begun with [[phase]], not the number 1

// Unknown names are told from near ones.
"sqlite" => «"sqlit"»
! unknown store `sqlit`
? did you mean `sqlite`? stores: sqlite, fjall, postgres, pg, ldap, slow
"sqlite" => «"postgre://h/"»
! no store has the URL scheme `postgre://`
? did you mean `postgres`? schemes: postgres, postgresql, ldap
"coupons" => «"coupon"»
! unknown workload `coupon`
? did you mean `coupons`? there are: coupons, coupons:reads, coupons:many, select, nothing, script
{ read = 1 } => { read = 1, «raed» = 2 }
! the workload `coupons` has no operation type `raed`
? did you mean `read`? operation types: read, update, query
[[phase]]\ndo = "ask"\ncount = 1\nop = «"delete"»
! the workload `coupons` has no operation type `delete`
? operation types: read, update, query
[[phase]]\ndo = «"chek"»
! unknown step `chek`
? did you mean `check`? there are: load, ask, drive, settle, cold, restart, power, check
stores => samplers = [«"dsk"»]\nstores
! unknown sampler `dsk`
? did you mean `disk`? there are: cpu, disk, fsync, default
durability = «"durably"»
! unknown durability `durably`
? did you mean `durable`? there are: durable, buffered, at-end, as-configured
loop = «"half"»
! unknown loop `half`
? there are: closed, open

// What is missing is named.
stores = ["sqlite"]\n => «»
! the plan needs `stores`
? write `stores = ["sqlite"]`, or name them with `--on`
stores => «»stores
- [workload]\nname = "coupons"\n
! the plan needs `workload`
? write [workload] and its `name`
[workload]\nname = "coupons" => «[workload]»
! [workload] needs `name`
? write `name = "coupons"`
«[[phase]]»\nname = "x"
! a phase needs `do`
? write `do = "load"`
«[[phase]]»\ndo = "ask"\nop = "query"
! an `ask` phase needs `count`
? write `count = 5`
«[[phase]]»\ndo = "ask"\ncount = 2
! an `ask` phase needs `op`
? write `op = "read"`
- for = "10s"\n
[[phase]]\ndo = "drive" => «[[phase]]»\ndo = "drive"
! a drive needs an end
? write `for = "30s"`, or `ops = 1000` for each client
- mix = { read = 1 }\n
[[phase]]\ndo = "drive" => «[[phase]]»\ndo = "drive"
! a `drive` phase needs `mix`
? write `mix = { read = 1 }`
«[[figure]]»\nname = "x"
! a figure needs `formula`
? write `formula = "load.seconds"`
[[figure]]\nname = "x"\nformula = "load.seconds"\npublished = [«{ value = 1 }»]
! a published value needs `of`
? write `of = "what it was measured on"`
stores => «»stores
- [[phase]]\ndo = "load"\n[[phase]]\ndo = "drive"\nfor = "10s"\nmix = { read = 1 }\n
! the plan needs `phase`
? write [[phase]] and what it is to do
stores => phase = «[]»\nstores
- [[phase]]\ndo = "load"\n[[phase]]\ndo = "drive"\nfor = "10s"\nmix = { read = 1 }\n
! the plan has no phase
? begin one with [[phase]]; `do` is one of load, ask, drive, settle, cold, restart, power, check

// Combinations that cannot be are refused.
loop = «"open"»
! an open loop needs a rate
? add `rate = "1000/s"`, the operations a second of all clients together
loop = "closed"\n«rate» = "10/s"
! a closed loop has no rate: it goes as fast as the answers come
? leave out the rate, or `loop`
«ops» = 5
! `for` and `ops` both end the phase: leave one out
durability = «"at-end"»
! `at-end` is for loads; a drive has no sync at its end
? choose "durable" (power loss) or "buffered" (the process)
{ read = 1 } => «{ read = 0, query = 0 }»
! the mix has no operation type with a share above zero
? write `mix = { read = 1 }`
"coupons"\n[[phase]]\ndo = "load"\n[[phase]] => "coupons"\n«[[phase]]»
! `drive` comes before anything is loaded (store `sqlite`)
? put a phase with `do = "load"` before it
[[phase]]\ndo = "load" => «[[phase]]»\ndo = "check"\n[[phase]]\ndo = "load"
! `check` comes before anything is loaded (store `sqlite`)
? put a phase with `do = "load"` before it
"sqlite" => «"fjall"»
coupons => select
read => select
! the store `fjall` does not speak `sql`, which the workload `select` needs
? these do: sqlite, postgres, ldap
"sqlite" => "slow"
do = "load" => do = "load"\ndurability = "at-end"
durability = «"durable"»
! the store `slow` cannot do `durable`
? it can do: buffered, at-end, as-configured
"sqlite" => "fjall"
"coupons" => "coupons"\nindex = «"own"»
! nothing is left to run
? fjall has no native index
loop = "open"\nrate = «"0/s"»
! `rate` must be 0.001/s to 100000000/s
loop = "open"\nrate = «"100000001/s"»
! `rate` must be 0.001/s to 100000000/s
loop = "open"\nrate = «"1/h"»
! `rate` must be 0.001/s to 100000000/s

// Phases have names of their own.
name = «"10 s"»
! `10 s` cannot name a phase
? a name is letters, digits and `_`, at most 60, and does not begin with a digit
name = "x"\n[[phase]]\ndo = "check"\nname = «"x"»
! another phase is named `x` already

// Conditions look at what there is.
only = { «indx» = "own" }
! `only` uses `indx`, in which trials do not differ
? did you mean `index`? it can use: store, records, index, pause, strict
only = { index = «"mine"» }
! unknown value for `index`: `mine`
? there are: none, own, keyindex
only = { store = «"sqlit"» }
! unknown store `sqlit`
? did you mean `sqlite`? there are: sqlite, fjall, postgres, ldap, slow
clients = [1, 8]\n[[phase]]\ndo = "check"\nonly = { clients = «2» }
! `clients` is never 2
? its values: 1, 8

// Goals are of any percentile of one operation type and of codes.
[goals]\n«reed».p99 = "5ms"
! no operation type or step of `coupons` is called `reed`
? did you mean `read`? there are: read, update, query
[goals]\n«update».p99 = "5ms"
! no phase drives `update`
? they drive: read
[goals]\nread.«median» = "5ms"
! unknown key `median` in `read` of [goals]
? did you mean `mean`? keys here: errors, p99, mean, rate, and any percentile like p99.9
[goals]\nread.«outage» = "5s"
! unknown key `outage` in `read` of [goals]
? keys here: errors, p99, mean, rate, and any percentile like p99.9
[line]\n[goals]\np99 = "20ms"\n«outage» = "5s"
! a load line cannot be searched by `outage`
? a search uses percentiles and errors, of all operations or of one operation type
[line]\n[goals]\np99 = "20ms"\n«mean» = "5ms"
! a load line cannot be searched by `mean`
? a search uses percentiles and errors, of all operations or of one operation type

// A goal that no phase measures is said.
[goals]\nlost = «0»
! no phase measures `lost`
? it needs a phase with do = "check"
do = "drive"\nfor = "10s"\nmix = { read = 1 }\n => do = "check"\n[goals]\nlost = 0\np99 = «"20ms"»
! no phase measures `p99`
? it needs a phase with do = "drive"

// Formulas are read to the column.
[[figure]]\nname = "é"\nformula = "load.seconds / «)»"
! in the formula: expected a number, a result such as `load.seconds` or `(`, found `)`
[[figure]]\nname = "é"\nformula = "load.seconds +«"»
! in the formula: expected a number, a result such as `load.seconds` or `(`, found the end
[[figure]]\nname = "é"\nformula = '1 / «laod».seconds'
! in the formula: no phase is named `laod`
? did you mean `load`? phases: load, drive
[[figure]]\nname = "é"\nformula = "load.seconds[store=sqlite, «indx»=own]"
! in the formula: trials have no label `indx`
? did you mean `index`? labels: index, op, pause, records, store, strict
[[figure]]\nname = "é"\nformula = "drive.p99[op=«raed»]"
! in the formula: `op` is never raed
? did you mean `read`? its values: read, update, query
[[figure]]\nname = "é"\nformula = "load.seconds[store=«x»]"
! in the formula: `store` is never x
? its values: sqlite, fjall, postgres, ldap, slow
[[figure]]\nname = "é"\nformula = "drive.«banana»"
! in the formula: a `drive` phase has no `banana`
? it has: p50, p90, p95, p99, p999, undisturbed_p50, undisturbed_p90, undisturbed_p95, undisturbed_p99, undisturbed_p999, mean, stddev, rate, errors, ops, seconds, planned_seconds, wrong, unfinished, outage, recovery, lost_connections, ended_connections, failed_connects, asked_again, body_median_bytes, body_max_bytes, client_seconds, think_seconds, due, connects, connect_mean, connect_p50, connect_p95, connect_p99, join_seconds, lag_p50, lag_p99, lag_max, involuntary_switches, witness_cpu_seconds, device_bytes, device_bytes_per_record, data_bytes, index_bytes, total_bytes, memory_bytes
[[figure]]\nname = "é"\nformula = "1 / load.«lost» + drive.rate"
! in the formula: a `load` phase has no `lost`
? it has: p50, p90, p95, p99, p999, undisturbed_p50, undisturbed_p90, undisturbed_p95, undisturbed_p99, undisturbed_p999, mean, stddev, seconds, rate, ops, errors, records, sync_seconds, device_bytes, device_bytes_per_record, data_bytes, index_bytes, total_bytes, memory_bytes
[[figure]]\nname = "é"\nformula = "drive.«errors»[op=read]"
! in the formula: `errors` covers all operations together: it has no `op`
? by operation: p50, p90, p95, p99, p999, undisturbed_p50, undisturbed_p90, undisturbed_p95, undisturbed_p99, undisturbed_p999, mean, stddev, rate, ops
[[figure]]\nname = "é"\nformula = "drive.p99[op=«update»]"
! in the formula: phase `drive` never asks `update`
? it asks: read
clients = [1, 8]\n[[figure]]\nname = "x"\nformula = "load.seconds[clients=«2»]"
! in the formula: `clients` is never 2
? its values: 1, 8
[[figure]]\nname = "é"\nformula = "1"\n[[figure]]\nname = «"é"»\nformula = "2"
! another figure is named `é` already

// Answers are checked, with their conditions.
stores => answer = «"It takes {load}."»\nstores
! `answer` must be a list of tables, each begun with [[answer]], not the text "It takes {load}."
[[figure]]\nname = "é"\nformula = "load.seconds"\n[[answer]]\nsay = "a {é} and a {«e»}"
! there is no figure named `e`
? there are: é
[[answer]]\nsay = "a {«e»}"
! there is no figure named `e`
? the plan has no [[figure]]
[[figure]]\nname = "é"\nformula = "load.seconds"\n[[answer]]\nsay = «"a {é"»
! a `{` of this sentence has no `}`
? write the name of a figure in braces: {load}
[[figure]]\nname = "é"\nformula = "load.seconds"\n[[answer]]\nsay = "a {é}, {published «é»}"
! nothing was published of the figure `é`
? give it `published = [{ value = …, of = "…" }]`, or leave the place out
«[[answer]]»\nrepeats = 3
! an answer needs `say`
? write `say = "It takes {load}."`
[[answer]]\nsay = "so"\nrepeats = «0»
! `repeats` must be 1 to 1000, not 0
[[answer]]\nsay = "so"\n«if» = "{e} > 1"
! unknown key `if` in an answer
? keys here: say, only_if, agree, repeats
[[figure]]\nname = "é"\nformula = "load.seconds"\n[[answer]]\nsay = "so"\nonly_if = "{é} «!» 1"
! in the condition: expected a comparison (< <= > >= =), found `!`
? write a comparison of a figure: `{load} > 5`, several with `and`
[[answer]]\nsay = "so"\nonly_if = "«l»oad.seconds > 1"
! in the condition: expected a number or a figure in braces such as `{load}`, found `l`
? write a comparison of a figure: `{load} > 5`, several with `and`
[[answer]]\nsay = "so"\nonly_if = "«2» > 1"
! in the condition: a comparison needs a figure in braces, as in `{load} > 5`
? write a comparison of a figure: `{load} > 5`, several with `and`
[[figure]]\nname = "é"\nformula = "load.seconds"\n[[answer]]\nsay = "so"\nonly_if = "{é} > 1 and {«e»} = 0"
! there is no figure named `e`
? there are: é
[[answer]]\nsay = "so"\nagree = «"almost"»
! `agree` must be "direction", or a factor such as 2, not the text "almost"
[[answer]]\nsay = "so"\nagree = «1»
! `agree` must be a factor above 1, not 1
? 2 accepts from half to twice the published value
[[answer]]\nsay = "so"\nagree = «2»
! `agree` has nothing to compare: `say` names no figure
? name one in braces, or leave `agree` out
[[figure]]\nname = "é"\nformula = "load.seconds"\n[[answer]]\nsay = "{é}"\nagree = «1.5»
! `agree` has nothing to compare: nothing was published of `é`
? give the figure `published`, or leave `agree` out
[[figure]]\nname = "é"\nunit = "s"\nformula = "load.seconds"\npublished = [{ value = 2, of = "a" }]\n[[answer]]\nsay = "{é}"\nagree = «"direction"»
! a direction is one of ratios, and the unit of `é` is not `×`
? write the factor within which values agree: agree = 2
«[[worthless]]»\nsay = "so"\nif = "{é} > 1"
! the plan has no `[[answer]]` to withhold
? say what the figures come to: [[answer]] with `say`
[[answer]]\nsay = "so"\n«[[worthless]]»\nsay = "so"
! a `worthless` needs `if`
? write `if = "{load} < 1"`
[[answer]]\nsay = "so"\n[[worthless]]\nsay = "so"\nif = "{«é»} > 1"
! there is no figure named `é`
? the plan has no [[figure]]

// A point of the sweep is one.
[[figure]]\nname = "é"\nformula = "load.seconds"\npublished = [{ value = 1, of = "a", at = { «nodes» = 4 } }]
! `at` uses `nodes`, in which trials do not differ
? it can use: none
clients = [1, 8]\n[[figure]]\nname = "x"\nformula = "drive.rate"\npublished = [{ value = 1, of = "a", at = { clients = «2» } }]
! `clients` is never 2
? its values: 1, 8
clients = [1, 8]\n[[figure]]\nname = "x"\nformula = "drive.rate[clients=1]"\npublished = [{ value = 1, of = "a", at = { «clients» = 1 } }]
! `at` uses `clients`, which the figure's formula fixes
? leave it out of `at`
stores => breaks = { «colour» = "red" }\nstores
! `breaks` uses `colour`, in which trials do not differ
? it can use: store, records, index, pause, strict
stores => breaks = «true»\nstores
! `breaks` must be a table, not true

// Scenarios are checked.
mix = { read = 1 } => scenario = [{ name = "r", mix = { read = 1 } }]
«rate» = "5/s"
! each scenario sets `rate` for itself: leave it out here
mix = { read = 1 } => scenario = «[]»
! a drive has 1 to 100 scenarios, not 0
mix = { read = 1 } => scenario = [«{ mix = { read = 1 } }»]
! a scenario needs `name`
? write `name = "readers"`
mix = { read = 1 } => scenario = [«{ name = "r" }»]
! a scenario needs `mix`
? write `mix = { read = 1 }`
mix = { read = 1 } => scenario = [{ name = «"a/b"», mix = { read = 1 } }]
! `a/b` cannot name a scenario
? a name is letters, digits, `_` and `-`, at most 60
mix = { read = 1 } => scenario = [{ name = «"read"», mix = { read = 1 } }]
! `read` is an operation type of the workload `coupons`
? give the scenario another name, such as `readers`
mix = { read = 1 } => scenario = [{ name = "r", mix = { read = 1 } }, { name = «"r"», mix = { read = 1 } }]
! another scenario is named `r` already
mix = { read = 1 } => scenario = [{ name = "r", mix = { read = 1 }, rate = "5/s", «think» = "1s" }]
! `rate` and `think` both determine when operations start: leave one of them out
mix = { read = 1 } => scenario = [{ name = "r", mix = { read = 1 }, stages = «["5@1s"]» }]
! the stages of a scenario must be rates
? write ["500/s@10s", "500/s..2000/s@30s"]
mix = { read = 1 } => scenario = [{ name = "r", mix = { read = 1 } }]
[goals]\n«"r/update"».p99 = "5ms"
! the scenario `r` does not ask `update`
? it asks: read
mix = { read = 1 } => scenario = [{ name = "r", mix = { read = 1 } }]
[goals]\np99 = "5ms"\n«[line]»
! a load line is that of one load: leave `scenario` out, and give `mix` and `clients`

// Shapes of rates are checked.
rate = «{ slope = 1 }»
! a rate that changes is one of sine, recorded
? write "1000/s", or a table such as { sine = "1000/s", amplitude = "500/s", period = "60s" }; `stages` is a key of its own
rate = «{ sine = "1/s", period = "1s" }»
! a rate needs `amplitude`
? write `amplitude = "500/s"`
rate = { sine = "10/s", amplitude = «"11/s"», period = "1s" }
! the amplitude is more than the mean: the rate would fall below 0/s
rate = { recorded = «"arrivals.txt"» }
! the arrivals `arrivals.txt` cannot be read: there are no files beside this plan
? a relative path begins in the plan's folder, that of an option in the current one
rate = "1/s"\narrivals = «"odd"»
! unknown spacing of arrivals `odd`
? there are: even, poisson
wake = «"late"»
! unknown way to wake up `late`
? there are: precise, spin, coarse
pin = «1»
! `pin` must be a list of processors such as [1], not the number 1
depth = «0»
! `depth` must be 1 to 1024, not 0
rate = "1/s"\n«think» = "1s"
! `rate` and `think` both determine when operations start
? leave one of them out: clients think in a closed loop
think = «2»
! `think = 2` needs a unit: "2ms" or "2s"
? units of time: ns, us, µs, ms, s, min, h, d
think = «"2s..1s"»
! `2s..1s` is not a think time: the second time must be the longer one
? write "100ms", "50ms..200ms" (anything between), or "exp:100ms" (exponential, by its mean)
think = «"exp:0s"»
! `exp:0s` is not a think time: `0s` is not 1ns to 60min
? write "100ms", "50ms..200ms" (anything between), or "exp:100ms" (exponential, by its mean)
- for = "10s"\n
«for» = "1s"\nstages = ["1@1s"]
! the stages determine the length of the phase: leave out `for`

// A line has bounds and a goal that a rate can break.
«[line]»
! a load line needs a goal for a percentile or for errors
? write [goals] with `p99 = "20ms"`
[goals]\np99 = "20ms"\n[line]\n«form» = "1/s"
! unknown key `form` in [line]
? did you mean `from`? keys here: from, least, most, precision, budget, thorough, warmup
[goals]\np99 = "20ms"\n[line]\nprecision = «"60%"»
! `precision` must be 1% to 50%
[goals]\np99 = "20ms"\n«[line]»\nmost = "0.5/s"
! `least` must be below `most`
? set `least`, which is 1/s by default
[goals]\np99 = "20ms"\n[line]\nbudget = «"1s"»
! `budget` must be 30s to 168h, not 1s
[goals]\np99 = "20ms"\n«[line]»\nleast = "2/s"\nmost = "1/s"
! `least` must be below `most`
[[phase]]\nname = "b"\ndo = "drive"\nfor = "1s"\nmix = { read = 1 }\n[goals]\np99 = "20ms"\n«[line]»
! a load line is searched with one `drive` phase, not 2

// A fault has words of its own.
fault = «"disk eio wrote once at 1s"»
! `eio wrote once` is not a fault of a disk
? there are: ignore-flushes, eio write|flush|read once|always|silent N, delay write|flush|read MEDIAN_US JITTER_US SEED, full, bit-rot SEED SHARE or speed SEEK_US BYTES_PER_S single|mirror|stripe
fault = «"disk bit-rot 7 1.5 at 1s"»
! `bit-rot 7 1.5` is not a fault of a disk
? there are: ignore-flushes, eio write|flush|read once|always|silent N, delay write|flush|read MEDIAN_US JITTER_US SEED, full, bit-rot SEED SHARE or speed SEEK_US BYTES_PER_S single|mirror|stripe
fault = «"disk full 1 at 1s"»
! `full 1` is not a fault of a disk
? there are: ignore-flushes, eio write|flush|read once|always|silent N, delay write|flush|read MEDIAN_US JITTER_US SEED, full, bit-rot SEED SHARE or speed SEEK_US BYTES_PER_S single|mirror|stripe
fault = ["kill all at 1s", «"exploded at 1s"»]
! unknown fault `exploded`
? faults: kill, stop, pause, restart, promote, cut, link, limit, disk, add, work
fault = «"kill node 2"»
! the time of the fault is missing
? write "kill node 2 at 10s", or "at 40%" of the phase
fault = «"kill at 1s"»
! the nodes of `kill` are missing
? write "kill node 2", or primary, replica, all
fault = «"pause node 0 at 1s"»
! `node 0` names no nodes
? write "pause node 2", or primary, replica, all
fault = «"kill node 1 hard at 1s"»
! `hard` has no meaning in `kill`
? write "kill node 2 at 10s"
fault = «"kill node 1 at 101%"»
! `at 101%`: a phase has 100%
? write at 40%, or a time
fault = «"kill node 1 at 10"»
! `at 10`: needs a unit: "10ms" or "10s"
? units of time: ns, us, µs, ms, s, min, h, d
fault = «"kill node 1 for 2s at 1s during 3s"»
! `during` is not a time of a fault
? write the times last: at 10s for 3s every 30s
fault = «"restart node 1 at 1s for 3s"»
! `restart` ends by itself
? leave `for` out
fault = «"pause node 1 at 1s every 3s"»
! a fault that is repeated has to be healed between
? write how long it lasts: for 3s every 30s
fault = «"pause node 1 at 1s for 3s every 3s"»
! `for` is too long for a fault every 3s
? write for 1.5s, or less: its beginning is drawn in the interval's first quarter
fault = «"link node 1 at 1s"»
! the link is missing
? write "link node 2 delay=20ms at 10s"
fault = «"link node 1 loss=2 at 1s"»
! a link's loss is a share from 0 to 1, not 2
fault = «"limit node 1 at 1s"»
! a fault changes one limit
? write cpus=0.5
fault = «"limit node 1 cores=2 at 1s"»
! unknown limit `cores`
? limits: cpus, cpuset, memory, read_bps, write_bps, read_iops, write_iops

// A power cut ends what is done to servers.
fault = "add node at 1s"\n«power_cut» = "flush 3"
! a power cut ends the phase and may interrupt a `fault` of servers
? leave one of them out, or put them into two phases

// A disk that Plimsoll did not make is told nothing.
fault = [«"disk eio write once at 1s"»]
! the disk of `sqlite` cannot be told to fail
? only a store that is started here, and keeps data, can be put on one that can
"#;

#[test]
fn each_mistake_is_shown_where_it_is() {
    parse("test", RIGHT, &catalogue(), &Overrides::default()).unwrap();
    let mut lines = CASES.lines().filter(|line| !line.is_empty() && !line.starts_with("//")).peekable();
    while lines.peek().is_some() {
        let mut plan = RIGHT.to_owned();
        let what = loop {
            let line = lines.next().expect("a case says what is wrong").replace("\\n", "\n");
            if let Some(what) = line.strip_prefix("! ") {
                break what.to_owned();
            }
            let (right, wrong) = match line.strip_prefix("- ") {
                Some(left_out) => (left_out, ""),
                None => line.split_once(" => ").unwrap_or(("", &line)),
            };
            if right.is_empty() {
                plan += wrong;
            } else {
                assert!(plan.contains(right), "{right} is not in {plan}");
                plan = plan.replacen(right, wrong, 1);
            }
        };
        let help = lines.next_if(|line| line.starts_with("? ")).map_or("", |line| &line[2..]);
        expect(&plan, &what, help);
    }
}

#[test]
fn a_store_is_called_what_the_plan_says_or_that_is_refused() {
    for name in ["", "two\nlines", "a|b", &"x".repeat(41)] {
        let named = format!("{{ store = \"sqlite\", as = «{}» }}", toml::Value::from(name));
        let help = "up to 40 letters, digits and spaces, with - _ . and / among them";
        expect(&RIGHT.replace("\"sqlite\"", &named), "this is not a valid name for a store", help);
    }
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
        ("outage = \"5s\"", "outage", 5e9),
        ("read.p99 = \"5ms\"", "read.p99", 5e6),
        ("read.p99.95 = \"5ms\"", "read.p99.95", 5e6),
        ("read = { rate = \"10/s\" }", "read.rate", 10.0),
        ("status.SQLITE_BUSY = \"1%\"", "status.SQLITE_BUSY", 1.0),
        ("status = { timeout = \"0%\" }", "status.timeout", 0.0),
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
        "status.500 = \"0%\"",
        "status.abc = \"0%\"",
        "read.lost = 0",
        "read.read.p99 = \"1s\"",
    ] {
        assert!(plan(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_goal_on_a_code_that_no_store_gives_is_refused() {
    let plan = |code: &str| {
        let text = format!("{RIGHT}[goals.status]\n\"{code}\" = \"0%\"\n").replace("\"sqlite\"", "\"slow\"");
        parse("test", &text, &catalogue(), &Overrides::default())
    };
    for (code, name) in [("500", "500"), ("5xx", "5xx"), ("5XX", "5xx"), ("timeout", "timeout")] {
        let goals = plan(code).unwrap_or_else(|error| panic!("{code}: {error:?}")).goals;
        assert_eq!(goals[0].name(), format!("status.{name}"));
    }
    for code in ["50x", "xx", "", "HTTP500", "abc", "40001", "5Xx"] {
        let error = plan(code).expect_err(code);
        assert_eq!(error.to_string(), format!("no operation of `slow` fails with the code `{code}`"));
        let help = error.problems()[0].help().unwrap_or_default();
        assert_eq!(help, "codes of `slow` are three digits, or a digit and xx: status.503, status.5xx");
    }
}

#[test]
fn sweeps_have_an_end() {
    let list = |count: usize| (1..=count).map(|number| number.to_string()).collect::<Vec<_>>().join(", ");
    expect(
        &format!("{RIGHT}workers = [{}]\nclients = «[{}]»", list(100), list(101)),
        "this sweep comes to more than 10000 trials",
        "shorten the lists, or make several plans",
    );
    let text = format!("{RIGHT}clients = «[{}]»", list(10_001));
    expect(&text, "`clients` is a list of 10001 values; at most 10000", "");
}

#[test]
fn a_password_in_a_mistyped_url_is_not_shown() {
    for store in ["me:hunter2@h:1/db", "//me:hunter2@h", "postgres:me:hunter2@h"] {
        let overrides = Overrides { on: Some(vec![store.into()]), seed: None };
        let shown = format!("{:?}", miette::Report::new(parse("test", RIGHT, &catalogue(), &overrides).unwrap_err()));
        assert!(shown.contains("unknown store") && !shown.contains("hunter2"), "{shown}");
    }
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
    let of = |url: &str| RIGHT.replace("\"sqlite\"", url);
    for text in [
        format!("# postgres://me:hunter2@h/\n{RIGHT}"),
        text,
        "a = \"x://u:hunter2@h\" b".to_owned(),
        of("\"nats://hunter2@h\""),
        of("\"postgres://me:a hunter2@h\""),
        of("'postgres://me too:a\"hunter2@h'"),
        of("\"postgres://h/d?pass%77ord=hunter2\""),
    ] {
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
    assert_eq!(error.to_string(), "4 mistakes in `test`");
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
fn stages_are_checked() {
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
}

#[test]
fn goals_of_scenarios_are_right() {
    let scenario = RIGHT.replace("mix = { read = 1 }", "scenario = [{ name = \"r\", mix = { read = 1 } }]");
    for right in ["r.p99", "read.p99", "\"r/read\".p99"] {
        let text = format!("{scenario}[goals]\n{right} = \"5ms\"\n");
        parse("test", &text, &catalogue(), &Overrides::default()).unwrap();
    }
}
