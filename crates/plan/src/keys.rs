//! Definitions of all keys of a plan: type of the value, default and description.
//!
//! The parser's checks, the JSON Schema, the command line's options and the book's tables are generated from them.

use plimsoll_core::link::CLIENT_HOSTS_MAX;

use crate::model::PhaseKind;
use crate::quantity::TIME_NS_MAX;

/// A key of one of a plan's tables.
#[derive(Debug)]
pub struct Key {
    /// Name of the key.
    pub name: &'static str,
    /// Type of the value.
    pub takes: KeyType,
    /// Accepts a list of values, which is swept.
    pub is_swept: bool,
    /// Default value.
    pub unless: KeyDefault,
    /// Description: one line, without a full stop.
    pub help: &'static str,
    /// Name and letter of the command line's option for it.
    pub option: Option<(&'static str, Option<char>)>,
    /// Link to an explanation in the book; empty if there is none.
    pub see: &'static str,
}

/// The type of a key's value.
#[derive(Debug, Clone, Copy)]
pub enum KeyType {
    /// A text.
    Text,
    /// `true` or `false`.
    Flag,
    /// An integer between these, both included.
    Whole(i64, i64),
    /// Any number.
    Number,
    /// A time between these nanoseconds, both included.
    Time(u64, u64),
    /// A size.
    Size,
    /// A rate.
    Rate,
    /// A share between these per cent, both included.
    Share(f64, f64),
    /// Any of these words. The first text names the kind of word, for messages.
    Word(&'static str, &'static [&'static str]),
    /// Processor numbers.
    Processors,
    /// A time, or `auto`.
    Warmup,
    /// Operation types with their shares.
    Mix,
    /// A rate, or a table that describes a changing rate.
    RateShape,
    /// Name of an operation type.
    Kind,
    /// Stages of a load, one after the other.
    Stages,
    /// A think time.
    Think,
    /// Waits before new attempts.
    Backoff,
    /// Kind of a phase.
    Step,
    /// Labels of trials with their values.
    Labels,
    /// Formula of a condition on figures.
    Condition,
    /// Comparison of a measured value with a published one.
    Agreement,
    /// Codes of errors with shares.
    Codes,
    /// Moment of a power cut.
    Cut,
    /// Nodes that lose power: a word, or a node's number.
    NodeChoice,
    /// Faults of servers and disks, with their times.
    Faults,
    /// Names of samplers.
    Samplers,
    /// Stores: names, URLs or tables.
    Stores,
    /// The workload and its parameters.
    Workload,
    /// Phases.
    Phases,
    /// Names of swept keys.
    SweptKeys,
    /// A table with these keys.
    Table(&'static [Key]),
    /// Tables with these keys.
    Tables(&'static [Key]),
    /// Texts by name.
    Texts,
    /// HTTP header fields: texts by name, or a list of `Name: value`.
    Headers,
    /// HTTP statuses.
    Statuses,
    /// A number of repeats, or a table of conditions that decide it.
    Repeats,
}

/// Default value of a key.
#[derive(Debug, Clone, Copy)]
pub enum KeyDefault {
    /// None: the key is required.
    Needed,
    /// This value, as written in a plan.
    Is(&'static str),
    /// A default that these words describe.
    Else(&'static str),
}

use KeyDefault::{Else, Is, Needed};
use KeyType::{
    Agreement, Backoff, Codes, Condition, Cut, Faults, Flag, Headers, Kind, Labels, Mix, NodeChoice, Number, Phases,
    Processors, Rate, RateShape, Repeats, Samplers, Share, Size, Stages, Statuses, Step, Stores, SweptKeys, Table,
    Tables, Text, Texts, Think, Time, Warmup, Whole, Word, Workload,
};

impl Key {
    const fn swept(self) -> Key {
        Key { is_swept: true, ..self }
    }

    const fn option(self) -> Key {
        let name = self.name;
        self.option_as(name)
    }

    const fn option_as(self, name: &'static str) -> Key {
        Key { option: Some((name, None)), ..self }
    }

    const fn short(self, letter: char) -> Key {
        Key { option: Some((self.name, Some(letter))), ..self }
    }

    const fn option_short(self, (name, letter): (&'static str, char)) -> Key {
        Key { option: Some((name, Some(letter))), ..self }
    }

    const fn see(self, link: &'static str) -> Key {
        Key { see: link, ..self }
    }

    /// Placeholder for the option's value in the help: `TIME,…` if several values are swept.
    pub fn placeholder(&self) -> &'static str {
        let (one, several) = match self.takes {
            Whole(..) | Repeats => ("N", "N,…"),
            Time(..) | Warmup | Think | Backoff => ("TIME", "TIME,…"),
            Rate | RateShape => ("RATE", "RATE,…"),
            Word(..) => ("WORD", "WORD,…"),
            Size => return "SIZE",
            Share(..) => return "SHARE",
            Processors => return "CPU,…",
            Stages => return "LOAD@TIME,…",
            Headers => return "NAME: VALUE",
            Tables(_) => return "NAME KEY=VALUE …",
            Faults => return "FAULT",
            Statuses => return "STATUS,…",
            Samplers => return "NAME,…",
            Mix => return "TYPE=SHARE,…",
            _ => return "TEXT",
        };
        if self.is_swept { several } else { one }
    }
}

const fn key(name: &'static str, takes: KeyType, unless: KeyDefault, help: &'static str) -> Key {
    Key { name, takes, is_swept: false, unless, help, option: None, see: "" }
}

/// Word that stands for all default samplers in a list of samplers.
pub const SAMPLERS_DEFAULT: &str = "default";
/// Most operations of a phase that a plan can have recorded one by one.
pub const KEEP_OPERATIONS_MAX: u32 = 1_000_000;

const SECOND_NS: u64 = 1_000_000_000;
/// Limits of the number of clients or workers; below, of the records per operation and the repetitions of a question.
pub(crate) const CLIENTS: KeyType = Whole(1, 100_000);
const COUNT: KeyType = Whole(1, 10_000_000);
/// Limits of the number of repeats.
pub(crate) const REPEATS_COUNT: KeyType = Whole(1, 1_000);
/// Limits of a time-out for a server's silence: 100 ms to a day.
const SILENCE: KeyType = Time(SECOND_NS / 10, 86_400 * SECOND_NS);
/// Limits of a duration: at least a millisecond.
const LENGTH: KeyType = Time(1_000_000, TIME_NS_MAX);
const PERCENTILE: KeyType = Time(1, 3_600 * SECOND_NS);
const NOWHERE: KeyDefault = Else("chosen by the system");
const NONE: KeyDefault = Else("none");
const OPTIONAL: KeyDefault = Else("");

/// Defines tables of keys, one key per line: name, type, default, description and further properties.
macro_rules! keys {
    ($($(#[$doc:meta])* $table:ident {
        $($name:tt: $takes:expr, $unless:expr, $help:literal $(, $is:ident $(= $of:expr)?)*;)*
    })*) => {
        $($(#[$doc])* pub const $table: &[Key] =
            &[$(key(stringify!($name), $takes, $unless, $help)$(.$is($($of)?))*),*];)*
    };
}

keys! {
    /// Keys of the plan itself.
    PLAN {
        title: Text, Else("the plan's name"), "Short description of the plan";
        question: Text, NONE, "Question that the plan answers";
        answer: Tables(ANSWER), NONE, "Sentences of the answer, with places for figures", see = "#the-answer";
        worthless: Tables(WORTHLESS), NONE, "Circumstances that withhold the answer", see = "#the-answer";
        breaks: Labels, NONE, "Trials that set out to break promises: a loss in them is a result and no failure; `{}` for all", see = "#trials-that-break-promises";
        source: Text, NONE, "Source of the published figures";
        stores: Stores, Else("needed, here or by `--on`"), "Stores to run on: names, URLs or tables; `--on` replaces them", see = "#stores";
        seed: Whole(0, i64::MAX), Is("1"), "Seed of all randomness; `--seed` replaces it", swept;
        slice: Time(SECOND_NS / 10, 60 * SECOND_NS), Is("\"1s\""), "Length of a slice, the unit of everything over time", option;
        setup_timeout: SILENCE, Is("\"15s\""),
            "Time-out for a server's silence while a connection is opened, during set-up and short requests, and within a reply",
            option_as = "setup-timeout", see = "#time-outs";
        load_timeout: SILENCE, Is("\"20s\""), "Time-out for an operation of a load, and for reading a record back", option_as = "load-timeout";
        work_timeout: SILENCE, Is("\"1h\""), "Time-out for a server's silence during a statement that creates, fills, maintains or removes something", option_as = "work-timeout";
        samplers: Samplers, Else("`[\"default\"]`"), "Samplers to read during the load, by name; `default` for all that do not affect the load; `[]` for none", option, see = "samplers.md";
        repeats: Repeats, Is("1"), "Number of times that each trial is run, in random order", option, see = "#order-repeats-and-start";
        order: Word("order", &["random", "given"]), Else("`\"random\"` with repeats, else `\"given\"`"), "Order of the trials";
        start: Word("start", &["fresh", "settled", "as-is"]), Is("\"settled\""),
            "Data at the start of a trial: fresh (loaded again), settled (as it is, after the store's own maintenance) or as-is", option;
        server_pin: Processors, NOWHERE, "Processors of private servers, to keep them off the generator's", option_as = "server-pin";
        dir: Text, Else("the run's own directory"), "Directory for the data of private stores", option, see = "private-servers.md#location";
        allow_writes: Flag, Is("false"), "Allow operations to change existing data of an attached store", option_as = "allow-writes", see = "attaching.md#existing-data";
        allow_fault: Flag, Is("false"), "Allow faults to run the plan's commands on this machine, and to disturb attached servers", option_as = "allow-fault", see = "faults.md#commands";
        answer_max: Size, Else("`\"16MiB\"` and 8 times a record; 8 times all records where an operation reads many"),
            "Most bytes that are kept of one answer, 1 KiB to 4 GiB", option_as = "answer-max", see = "#resources-of-a-run";
        sweep: Tables(SWEEP), Else("every combination"), "Combination of lists", see = "#order-repeats-and-start";
        line: Table(LINE), Else("no search"), "Search for the load line, within these bounds", see = "#the-load-line";
        workload: Workload, Needed, "Operations and data", see = "#the-workload";
        phase: Phases, Needed, "Phases of a trial, in order", see = "#phases";
        goals: Table(GOALS), NONE, "Goals of every trial", see = "#goals";
        figure: Tables(FIGURE), NONE, "Numbers to derive from the results", see = "#figures";
    }

    /// Keys of `repeats`, if results decide their number.
    REPEATS {
        least: Whole(2, 1_000), Is("3"), "Repeats of every point";
        most: Whole(2, 1_000), Is("12"), "Most repeats of a point";
        until: Share(1.0, 100.0), Needed, "Widest interval of a time or rate of the answer that ends the repeats of a point, as a share of the value";
    }

    /// Keys of a `[[sweep]]`.
    SWEEP {
        keys: SweptKeys, Else("all that are swept"), "Swept keys, by their names in trials' labels";
        mode: Word("mode", &["grid", "one-at-a-time"]), Needed,
            "Every combination; or one key at a time through its list, with the others at their first values";
    }

    /// Keys of a `[line]`.
    LINE {
        from: Rate, Else("0.7 of what a closed loop reaches"), "Rate of the first open-loop load step", option;
        least: Rate, Else("`\"1/s\"`"), "Lowest rate of a load step";
        most: Rate, Else("`\"100000000/s\"`"), "Highest rate of a load step";
        precision: Share(1.0, 50.0), Is("\"10%\""), "Largest distance between the rate that is carried and the one that is not", option;
        budget: Time(30 * SECOND_NS, 7 * 86_400 * SECOND_NS), Else("`\"5min\"`; with faults `\"15min\"`, thorough `\"30min\"`"), "Time for the whole search", option;
        thorough: Flag, Is("false"),
            "One load step at the rate that is carried lasts through a whole cycle of the store's own maintenance (a checkpoint), within half an hour or as long as that needs", option;
        warmup: Time(0, 60 * SECOND_NS), Else("a quarter of the load step, 0.25 to 1 s; of the first `\"1s\"`"),
            "Warm-up of each load step, which counts for nothing";
    }

    /// Keys of `[goals]`.
    GOALS {
        lost: Whole(0, u32::MAX as i64), OPTIONAL, "Most acknowledged writes that may be missing";
        wrong: Whole(0, u32::MAX as i64), OPTIONAL, "Most wrong, missing or stale records in answers";
        stale: Whole(0, u32::MAX as i64), OPTIONAL, "Most stale records in the answers of a trial, which then do not count as wrong";
        errors: Share(0.0, 100.0), OPTIONAL, "Highest share of operations that are rejected or get no answer";
        unknown: Whole(0, u32::MAX as i64), OPTIONAL, "Most operations of a driven phase whose outcome may be unknown";
        p99: PERCENTILE, OPTIONAL, "Upper limit of the 99th percentile of the response times of driven phases; likewise any other: `p50`, `p97.5`, `p99.95`";
        mean: PERCENTILE, OPTIONAL, "Upper limit of the mean response time";
        status: Codes, OPTIONAL, "Highest share of operations that fail with a code: `status.500` or `status.5xx` of HTTP, `status.40001` of SQL; a code that the stores cannot give is refused";
        rate: Rate, OPTIONAL, "Lowest rate of driven phases, in operations per second";
        outage: Time(SECOND_NS / 5, 86_400 * SECOND_NS), OPTIONAL, "Longest time without any answer in driven phases; at least two slices, or 200ms in a phase with faults";
        recovery: Time(SECOND_NS / 10, 86_400 * SECOND_NS), OPTIONAL, "Longest time from the beginning of a fault until throughput is back";
    }

    /// Keys of an `[[answer]]`.
    ANSWER {
        say: Text, Needed, "Sentence: `{load}` becomes the values of the figure `load`, `{published load}` the published ones";
        only_if: Condition, Else("always"), "Condition without which it is not said: `{load} > 5 and {lost} = 0`";
        agree: Agreement, NONE, "Comparison of its first figure with the published values: `\"direction\"` for ratios on the same side of 1, or the factor within which values agree";
        repeats: Whole(1, 1_000), Is("1"), "Fewest repeats, all of which must meet the condition; with fewer it is undecided";
    }

    /// Keys of a `[[worthless]]`.
    WORTHLESS {
        say: Text, Needed, "Reason that the answer is withheld";
        if: Condition, Needed, "Condition on figures: `{durable / unsafe} < 1`";
    }

    /// Keys of a `[[figure]]`.
    FIGURE {
        name: Text, Needed, "Name in reports";
        unit: Text, NONE, "Unit of the value: `\"s\"`, `\"×\"`";
        formula: Text, Needed, "Formula over results: `load.seconds[index=own] / load.seconds[index=none]`";
        published: Tables(PUBLISHED), NONE, "Published values: `value`, `of`, the system that was measured, and `at`, the point of the sweep";
        published_table: Tables(PUBLISHED_TABLE), NONE, "Published values for each point of two swept keys";
    }

    /// Keys of a `published`.
    PUBLISHED {
        value: Number, Needed, "Published value";
        of: Text, Needed, "System that was measured";
        at: Labels, Else("all points"), "Point of the sweep at which it was measured: `{ nodes = 4 }`";
    }

    /// Keys of a `published_table`.
    PUBLISHED_TABLE {
        of: Text, Needed, "System that was measured";
        rows: Text, Needed, "Swept key whose values begin the lines";
        columns: Text, Needed, "Swept key whose values are the first line";
        text: Text, Needed, "Table of values";
    }

    /// Keys of a `[[workload.script]]`.
    SCRIPT {
        name: Text, Else("the file's, without its ending"), "Name of the operation type";
        weight: Whole(1, 1_000_000), Is("1"), "Share, if a phase has no `mix`";
        file: Text, Else("this, or `text`"), "Path of the script, relative to the plan's file";
        text: Text, Else("this, or `file`"), "Text of the script, in pgbench's language";
    }

    /// Keys of a `[[workload.csv]]`.
    CSV {
        file: Text, Needed, "Path of a CSV file whose columns become variables, relative to the plan's file";
        order: Word("order of rows", &["random", "in-order"]), Is("\"random\""), "Order in which operations take its rows";
        prefix: Text, Is("\"\""), "Prefix of the names of its columns";
    }

    /// Keys of a `[[workload.request]]`, besides those of the request itself.
    REQUEST {
        name: Text, Else("its method, in lower case"), "Name of the operation type";
        weight: Whole(1, 1_000_000), Is("1"), "Share, if a phase has no `mix`";
        step: Tables(STEP), Else("the request itself"), "Requests that are sent one after the other as one operation";
    }

    /// Keys of a request, or of one that is a step of an operation.
    STEP {
        method: Text, Else("`GET`, and `POST` with a body"), "Method of the request", short = 'X';
        path: Text, Else("those of the URL"), "Path and query, appended to the URL's path";
        headers: Headers, NONE, "Header field, `Name: value`; may be repeated", option_short = ("header", 'H');
        body: Text, NONE, "Body of the request, or `@FILE`", option;
        expect: Statuses, Else("`200-399`"), "Statuses that count as success; any other is an error", option;
        contains: Text, NONE, "Text that the answer's body must contain", option;
        set: Texts, NONE, "Variables to set before the request is sent, with their expressions";
        take: Texts, NONE, "Variables to take from the answer, with their locations in it";
    }

    /// Keys of every phase.
    PHASE {
        do: Step, Needed, "Kind of phase";
        name: Text, Else("`do`, then `do_2` …"), "Name for formulas and reports: letters, digits and `_`";
        only: Labels, Else("every trial"), "Trials that have this phase; see below";
    }

    /// Keys of a phase with clients that write.
    CLIENTS_WRITE {
        clients: CLIENTS, Is("1"), "Clients, one session each", swept, short = 'c';
        durability: Word("durability", &["durable", "buffered", "at-end", "as-configured"]), Is("\"durable\""),
            "Failures that an acknowledged write survives: durable (power loss), buffered (death of the process), for a load at-end (none, until one sync), as-configured (the server's settings; also the default for an attached server that is not durable)",
            swept, option, see = "attaching.md#durability";
    }

    /// Keys of a load.
    LOAD {
        batch: COUNT, Is("1000"), "Records per operation", swept;
    }

    /// Keys of a question. Its time-out allows for reading a large store once.
    ASK {
        op: Kind, Needed, "Operation type", swept;
        count: COUNT, Needed, "Number of executions", swept;
        op_timeout: LENGTH, Is("\"10min\""), "Time-out for an operation", swept;
    }

    /// Keys of a driven phase.
    DRIVE {
        depth: Whole(1, 1_024), Is("1"),
            "Operations in flight of each client, in a pipeline; not with operations of several steps", swept, option;
        workers: CLIENTS, Is("1"), "Threads of the generator; at most as many as clients", swept, short = 'j';
        client_hosts: Whole(1, CLIENT_HOSTS_MAX as i64), Else("the host of Plimsoll's own requests"),
            "Hosts that the clients are spread over, in the network of a private cluster or a lab; each has as many threads", swept, option_as = "client-hosts", see = "faults.md#client-hosts";
        mix: Mix, Else("the mix of the workload's name, its only operation type, or the scripts' weights; otherwise needed"),
            "Shares of the operation types", swept, option;
        loop: Word("loop", &["closed", "open"]), Else("`\"open\"` with a `rate`, else `\"closed\"`"),
            "Start of the next operation: after the answer to the previous one, or on schedule regardless of answers", swept;
        rate: RateShape, Else("needed for `open`"),
            "Operations per second of all clients together (open loop); without it, as fast as the answers come", swept, option, see = "#a-load-that-changes";
        arrivals: Word("spacing of arrivals", &["even", "poisson"]), Is("\"even\""),
            "Distribution of arrivals in an open loop: even, or poisson, as of many independent users", swept, option;
        stages: Stages, Else("a constant load"),
            "Changing load, one stage after the other: `500/s@10s` holds a rate, `500/s..2000/s@30s` ramps; `10@10s` are clients; the stages set the length of the phase",
            option, see = "#a-load-that-changes";
        think: Think, NONE, "Closed loop: wait of a client after an answer; `exp:` is exponential, by its mean", swept, option, see = "#think-time";
        reconnect: Whole(1, 1_000_000_000), NONE, "Operations of a client after which it opens a new connection; `--reconnect each` is 1", swept, option, see = "#new-connections";
        connect_timeout: Time(SECOND_NS / 100, 86_400 * SECOND_NS), Else("`setup_timeout`"),
            "Time-out for opening a connection during the phase, until it takes operations: a lost one, or one of `reconnect`", swept, option_as = "connect-timeout", see = "#lost-connections";
        backoff: Backoff, Else("`10ms`, doubled with each attempt up to `1s`"),
            "Wait of a client before it opens a lost connection again: `100ms`, or `100ms..5s`, which doubles the limit of a random wait with each attempt",
            swept, option, see = "#lost-connections";
        retry: Word("retry policy", &["none", "idempotent", "all"]), Is("\"none\""),
            "Failed operations that a client sends again: none; idempotent (rejected ones, and those whose repetition changes nothing); all, even if a write may then happen twice",
            swept, option, see = "#retries";
        tries: Whole(2, 100), Is("3"), "With `retry`: most tries of an operation, the first included", swept, option, see = "#retries";
        breaker: Whole(1, 1_000), NONE,
            "Failures of a client in a row that open its circuit breaker: it sends nothing for `breaker_wait`, then one operation, which closes or opens it", swept, option, see = "#circuit-breakers";
        breaker_wait: Time(SECOND_NS / 100, 86_400 * SECOND_NS), Is("\"1s\""), "With `breaker`: time for which a circuit stays open", swept, option_as = "breaker-wait", see = "#circuit-breakers";
        backlog: LENGTH, Is("\"10s\""), "Open loop: age of a due operation at which the store does not carry the rate", swept;
        wake: Word("way to wake up", &["precise", "spin", "coarse"]), Is("\"precise\""),
            "Precision of the generator's wake-ups in an open loop: precise (µs late), spin (1 µs, more CPU) or coarse (1 ms, least CPU)", swept, option;
        io: Word("way to the sockets", &["auto", "epoll", "io_uring"]), Is("\"auto\""), "Interface for sockets: auto, epoll or io_uring", swept, option;
        pin: Processors, NOWHERE, "Processors of the generator's threads, one after the other", option;
        scenario: Tables(SCENARIO), Else("all clients do the same"),
            "Clients with their own operations and rate: `readers clients=8 mix=read rate=500/s`; may be repeated", option, see = "#several-scenarios";
        fault: Faults, NONE, "Fault of private servers or their disk, by its time: `kill primary at 40%`, `pause node 2 at 10s for 3s`; or drawn by the seed: `kill primary drawn for 5s`; may be repeated",
            option, see = "faults.md";
        fault_pause: Time(SECOND_NS / 10, TIME_NS_MAX), Is("\"10s\""),
            "Pause between drawn faults: random, from half of it to one and a half", swept, option_as = "fault-pause", see = "faults.md#drawn-schedules";
        warmup: Warmup, Else("`\"0s\"`"),
            "Warm-up at the start, which counts for nothing; `auto` detects it within `for`", swept, option, see = "reports.md#warm-up";
        for: LENGTH, Else("this, or `ops`"), "Duration; `drive` without a plan: 30s without this and --ops", swept, option;
        ops: Whole(1, i64::MAX), Else("this, or `for`"), "Operations of each client after the warm-up, instead of a duration", swept, option;
        op_timeout: LENGTH, Is("\"10s\""), "Time-out for an operation", swept, option_as = "op-timeout";
        keep_operations: Whole(1, KEEP_OPERATIONS_MAX as i64), NONE, "Most operations to record one by one, with their due, sending and end times: the first ones after the warm-up",
            option_as = "keep-operations", see = "exports.md#every-operation";
        power_cut: Cut, NONE, "Flush or write of the phase at which the disk loses power, which ends the phase: `\"flush 200\"`; needs the store's parameter `disk`",
            swept, see = "promises.md";
        power_node: NodeChoice, Is("\"all\""), "Nodes of a cluster that lose power then: all, the primary, a replica, or the node with this number; the others keep running",
            swept, see = "promises.md#clusters";
    }

    /// Keys of a phase that does `power`.
    POWER {
        survivors: Word("survivors", &["none", "all", "random", "torn"]), Is("\"none\""),
            "Un-flushed writes that survive: none; all; a random half of them (random), or of their sectors of 512 bytes (torn)", swept;
    }

    /// Keys of a scenario.
    SCENARIO {
        name: Text, Needed, "Prefix of its operation types in reports and goals: `readers/read`";
        clients: CLIENTS, Is("1"), "Clients, one session each";
        workers: CLIENTS, Is("1"), "Threads of the generator; at most as many as clients";
        mix: Mix, Else("as that of a drive"), "Shares of the operation types";
        rate: RateShape, Else("as fast as the answers come"), "Operations per second of all its clients together (open loop)", see = "#a-load-that-changes";
        stages: Stages, Else("a constant load"), "Changing rate, one stage after the other; the last one's final rate holds until the end of the phase";
        arrivals: Word("spacing of arrivals", &["even", "poisson"]), Is("\"even\""), "Distribution of its arrivals";
        think: Think, NONE, "Without a rate: wait of a client after an answer", see = "#think-time";
    }

    /// Keys of a file of prices, for `plimsoll cost`.
    COST {
        working_set: Size, Needed, "Size of the data, once";
        currency: Text, Is("\"$\""), "Text before amounts of money";
        configuration: Tables(CONFIGURATION), Needed, "Ways to keep the data";
    }

    /// Keys of a `[[configuration]]` in it. Each server is like the others.
    CONFIGURATION {
        name: Text, Needed, "Name in the result";
        copies: Whole(1, 100), Needed, "Copies of the data, each on servers of its own";
        discs: Whole(1, 10_000), Needed, "Discs of a server";
        disc_size: Size, Needed, "Size of a disc";
        boot_discs: Whole(0, 10_000), Is("0"), "Discs of a server that hold the system and no data";
        parity_discs: Whole(0, 10_000), Is("0"), "Discs of a server whose space is lost to parity";
        buy: Number, Needed, "Price of a server";
        rent: Number, Needed, "Rent of a server for a month";
        upkeep: Number, Is("0"), "Cost of a bought server for a month: power, space, hands";
    }

    /// Keys of a sinusoidal rate.
    SINE {
        sine: Rate, Needed, "Mean rate of a sine wave";
        amplitude: Rate, Needed, "Largest deviation from the mean; at most the mean";
        period: LENGTH, Needed, "Period of the wave";
    }

    /// Keys of recorded arrivals.
    RECORDED {
        recorded: Text, Needed, "File of arrival times in seconds, one per line";
    }
}

/// Shapes of a changing rate: the keys of each shape, identified by the first.
pub const RATES: &[&[Key]] = &[SINE, RECORDED];

/// Keys of a phase that does `drive`.
pub const OF_DRIVE: &[&[Key]] = &[PHASE, CLIENTS_WRITE, DRIVE];

/// Keys of a request that the command line has options for.
pub const OF_REQUEST: &[&[Key]] = &[STEP];

/// Keys of a phase of this kind.
pub fn of_phase(kind: PhaseKind) -> &'static [&'static [Key]] {
    match kind {
        PhaseKind::Load => &[PHASE, LOAD, CLIENTS_WRITE],
        PhaseKind::Ask => &[PHASE, ASK],
        PhaseKind::Drive => OF_DRIVE,
        PhaseKind::Power => &[PHASE, POWER],
        PhaseKind::Settle | PhaseKind::Cold | PhaseKind::Restart | PhaseKind::Check => &[PHASE],
    }
}
