//! Every key of a plan, said once: what stands under it, what stands for it where it is left out, and what it is for.
//!
//! The parser's checks, the JSON Schema, the options of the command line and the tables of the book are made of these.

use crate::model::PhaseKind;
use crate::quantity::{TIME_NS_MAX, show_ns};

/// A key of one of a plan's tables.
#[derive(Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What stands under it.
    pub takes: Takes,
    /// It may be a list, whose values are swept.
    pub is_swept: bool,
    /// What stands for it where it is left out.
    pub unless: Unless,
    /// What it is for: one line, without a full stop.
    pub help: &'static str,
    /// The option of the command line that it is, and the letter that does as well.
    pub option: Option<(&'static str, Option<char>)>,
    /// Where the book says more: a link; empty where it does not.
    see: &'static str,
}

/// What stands under a key.
#[derive(Debug, Clone, Copy)]
pub enum Takes {
    /// A text.
    Text,
    /// `true` or `false`.
    Flag,
    /// A whole number between these, both included.
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
    /// One of these words. Before them stands what such a word is, for messages.
    Word(&'static str, &'static [&'static str]),
    /// Processors by number.
    Processors,
    /// A time, or `auto`.
    Warmup,
    /// Kinds of operation with their shares.
    Mix,
    /// A rate, or a table that says how it changes.
    RateShape,
    /// The name of a kind of operation.
    Kind,
    /// Stages of a load, one after the other.
    Stages,
    /// A think time.
    Think,
    /// What a phase does.
    Step,
    /// Labels of trials with their values.
    Labels,
    /// Codes of errors with shares.
    Codes,
    /// When a disk loses power.
    Cut,
    /// Whose power goes: a word, or a node's number.
    PowerNode,
    /// What a disk does wrong.
    Fault,
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
    /// Names with their texts.
    Texts,
    /// The same, or a list of `Name: value`.
    Headers,
    /// A status of HTTP, or some.
    Statuses,
}

/// What stands for a key that is left out.
#[derive(Debug, Clone, Copy)]
pub enum Unless {
    /// It must not be.
    Needed,
    /// This value, as it would be written.
    Is(&'static str),
    /// What these words say.
    Else(&'static str),
}

use Takes::{
    Codes, Cut, Fault, Flag, Headers, Kind, Labels, Mix, Number, Phases, PowerNode, Processors, Rate, RateShape,
    Samplers, Share, Size, Stages, Statuses, Step, Stores, SweptKeys, Table, Tables, Text, Texts, Think, Time, Warmup,
    Whole, Word, Workload,
};
use Unless::{Else, Is, Needed};

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

    /// What stands for the option's value in its help: `TIME,…` where several are swept.
    pub fn placeholder(&self) -> &'static str {
        let (one, several) = match self.takes {
            Whole(..) => ("N", "N,…"),
            Time(..) | Warmup | Think => ("TIME", "TIME,…"),
            Rate | RateShape => ("RATE", "RATE,…"),
            Word(..) => ("WORD", "WORD,…"),
            Size => return "SIZE",
            Share(..) => return "SHARE",
            Processors => return "CPU,…",
            Stages => return "LOAD@TIME,…",
            Headers => return "NAME: VALUE",
            Tables(_) => return "NAME KEY=VALUE …",
            Statuses => return "STATUS,…",
            Samplers => return "NAME,…",
            Mix => return "TYPE=SHARE,…",
            _ => return "TEXT",
        };
        if self.is_swept { several } else { one }
    }
}

const fn key(name: &'static str, takes: Takes, unless: Unless, help: &'static str) -> Key {
    Key { name, takes, is_swept: false, unless, help, option: None, see: "" }
}

/// Names, in a list of samplers, all that are read by default.
pub const SAMPLERS_DEFAULT: &str = "default";

const SECOND_NS: u64 = 1_000_000_000;
/// How many there may be of clients and workers, and of records to an operation and questions of a phase.
pub(crate) const CLIENTS: Takes = Whole(1, 100_000);
const COUNT: Takes = Whole(1, 10_000_000);
/// How long a server may be allowed to be silent: 100 ms to a day.
const SILENCE: Takes = Time(SECOND_NS / 10, 86_400 * SECOND_NS);
/// How long anything may last that lasts: a millisecond at least.
const LENGTH: Takes = Time(1_000_000, TIME_NS_MAX);
const PERCENTILE: Takes = Time(1, 3_600 * SECOND_NS);
const NOWHERE: Unless = Else("where the system puts it");
const NONE: Unless = Else("none");
const OPTIONAL: Unless = Else("");

/// Tables of keys, a key to a line: what it takes, what stands for it, what it is for, and what else is so.
macro_rules! keys {
    ($($(#[$doc:meta])* $table:ident {
        $($name:tt: $takes:expr, $unless:expr, $help:literal $(, $is:ident $(= $of:expr)?)*;)*
    })*) => {
        $($(#[$doc])* pub const $table: &[Key] =
            &[$(key(stringify!($name), $takes, $unless, $help)$(.$is($($of)?))*),*];)*
    };
}

keys! {
    /// Keys of a plan itself.
    PLAN {
        title: Text, Else("the plan's name"), "One line that says what it is about";
        question: Text, NONE, "The question it answers";
        answer: Text, NONE, "The answer in a sentence, with names of figures in braces: `{load, plain}` becomes its values", see = "#figures";
        source: Text, NONE, "Where its published figures come from";
        stores: Stores, Else("needed, here or by `--on`"), "What it runs on: names, URLs or tables; `--on` replaces them", see = "#stores";
        seed: Whole(0, i64::MAX), Is("1"), "Seed of all randomness; `--seed` replaces it", swept;
        slice: Time(SECOND_NS / 10, 60 * SECOND_NS), Is("\"1s\""), "Length of a slice, the unit of everything over time", option;
        setup_timeout: SILENCE, Is("\"15s\""),
            "Longest silence of a server while it is connected to, set up and asked what it knows, and amid an answer",
            option_as = "setup-timeout", see = "#how-long-a-server-is-waited-for";
        load_timeout: SILENCE, Is("\"20s\""), "Longest that an operation of a load, or reading one record back, may take", option_as = "load-timeout";
        work_timeout: SILENCE, Is("\"1h\""), "Longest silence over a statement that makes, fills, tidies or removes something", option_as = "work-timeout";
        samplers: Samplers, Else("`[\"default\"]`"), "What is read beside the load: samplers by name, `default` for all but those that cost something; `[]` for nothing", option, see = "samplers.md";
        repeats: Whole(1, 1_000), Is("1"), "How often each trial is run, in an order drawn by lot", option, see = "#order-repeats-and-what-trials-start-from";
        order: Word("order", &["random", "given"]), Else("`\"random\"` with repeats, else `\"given\"`"), "The order in which trials run";
        start: Word("start", &["fresh", "settled", "as-is"]), Is("\"settled\""),
            "What trials start from: fresh (loaded again), settled (what is there, after the store's own tidying) or as-is", option;
        server_pin: Processors, NOWHERE, "Processors of a server that is started here, so that the generator has others", option_as = "server-pin";
        dir: Text, Else("the run's own directory"), "Where stores that are started here keep their data", option, see = "private-servers.md#where-it-is";
        allow_writes: Flag, Is("false"), "Operations may change what an attached store held before", option_as = "allow-writes", see = "attaching.md#what-is-there-already";
        answer_max: Size, Else("`\"16MiB\"` and 8 times a record; 8 times all records where an operation reads many"),
            "Most that is kept of one answer, 1 KiB to 4 GiB", option_as = "answer-max", see = "#what-a-run-takes";
        sweep: Tables(SWEEP), Else("every combination"), "How lists combine", see = "#order-repeats-and-what-trials-start-from";
        line: Table(LINE), Else("no search"), "Search for the load line, within these bounds", see = "#the-load-line";
        workload: Workload, Needed, "What is asked", see = "#the-workload";
        phase: Phases, Needed, "What is done, in order", see = "#phases";
        goals: Table(GOALS), NONE, "What has to hold", see = "#goals";
        figure: Tables(FIGURE), NONE, "Numbers that are wanted of the results", see = "#figures";
    }

    /// Keys of a `[[sweep]]`.
    SWEEP {
        keys: SweptKeys, Else("all that are swept"), "Swept keys, as trials' labels name them";
        mode: Word("mode", &["grid", "one-at-a-time"]), Needed,
            "Every combination; or each of the keys through its list, the others staying at their first values";
    }

    /// Keys of a `[line]`.
    LINE {
        from: Rate, Else("what a closed loop reaches"), "Rate to start from", option;
        least: Rate, Else("`\"1/s\"`"), "Lowest rate that is tried";
        most: Rate, Else("`\"100000000/s\"`"), "Highest rate that is tried";
        precision: Share(0.1, 25.0), Is("\"2%\""), "Half of the line's 95 % interval that may stay", option;
        budget: Time(30 * SECOND_NS, 7 * 86_400 * SECOND_NS), Else("`\"5min\"`; thorough `\"30min\"`"), "Time for everything", option;
        thorough: Flag, Is("false"),
            "What decides lasts through a whole cycle of the store's own maintenance (a checkpoint), in half an hour or as long as that needs", option;
        warmup: Time(0, 60 * SECOND_NS), Is("\"1s\""), "Time before each load step that counts for nothing";
    }

    /// Keys of `[goals]`.
    GOALS {
        lost: Whole(0, u32::MAX as i64), OPTIONAL, "At most so many acknowledged writes that are not there";
        wrong: Whole(0, u32::MAX as i64), OPTIONAL, "At most so many wrong, missing or stale records in answers";
        errors: Share(0.0, 100.0), OPTIONAL, "At most this share of operations rejected or without answer";
        p99: PERCENTILE, OPTIONAL, "99th percentile of the response times of driven phases, at most; so any other: `p50`, `p97.5`, `p99.95`";
        mean: PERCENTILE, OPTIONAL, "Their mean, at most";
        status: Codes, OPTIONAL, "At most this share of operations that failed with a code: `status.500` or `status.5xx` of HTTP, `status.40001` of SQL";
        rate: Rate, OPTIONAL, "At least so many operations a second in driven phases";
    }

    /// Keys of a `[[figure]]`.
    FIGURE {
        name: Text, Needed, "How reports call it";
        unit: Text, NONE, "Text behind its value: `\"s\"`, `\"×\"`";
        formula: Text, Needed, "What it is, of results: `load.seconds[index=own] / load.seconds[index=none]`";
        published: Tables(PUBLISHED), NONE, "Values that somebody published: `value`, and `of`, what it was measured on";
        published_table: Tables(PUBLISHED_TABLE), NONE, "The same for each point of two swept keys";
    }

    /// Keys of a `published`.
    PUBLISHED {
        value: Number, Needed, "The value";
        of: Text, Needed, "What it was measured on";
    }

    /// Keys of a `published_table`.
    PUBLISHED_TABLE {
        of: Text, Needed, "What it was measured on";
        rows: Text, Needed, "The swept key whose values begin the lines";
        columns: Text, Needed, "The swept key whose values are the first line";
        text: Text, Needed, "The table";
    }

    /// Keys of a `[[workload.script]]`.
    SCRIPT {
        name: Text, Else("the file's, without its ending"), "Its name as an operation type";
        weight: Whole(1, 1_000_000), Is("1"), "Its share, where no `mix` says otherwise";
        file: Text, Else("this, or `text`"), "The script's path, relative to the plan's file";
        text: Text, Else("this, or `file`"), "The script itself, in pgbench's language";
    }

    /// Keys of a `[[workload.csv]]`.
    CSV {
        file: Text, Needed, "A CSV file whose columns are variables: its path, relative to the plan's file";
        order: Word("order of rows", &["random", "in-order"]), Is("\"random\""), "Which of its rows an operation takes";
        prefix: Text, Is("\"\""), "Stands before the names of its columns";
    }

    /// Keys of a `[[workload.request]]`, besides those of the request itself.
    REQUEST {
        name: Text, Else("its method, in small letters"), "Its name as an operation type";
        weight: Whole(1, 1_000_000), Is("1"), "Its share, where no `mix` says otherwise";
        step: Tables(STEP), Else("the request itself"), "Requests that are sent one after the other as one operation";
    }

    /// Keys of a request, or of one that is a step of an operation.
    STEP {
        method: Text, Else("`GET`, and `POST` with a body"), "Method of the request", short = 'X';
        path: Text, Else("what the URL names"), "Path and query, behind the URL's path";
        headers: Headers, NONE, "A header, `Name: value`; once for each", option_short = ("header", 'H');
        body: Text, NONE, "Body of the request, or `@FILE`", option;
        expect: Statuses, Else("`200-399`"), "Statuses that are right; any other is an error", option;
        contains: Text, NONE, "What the answer's body has to contain", option;
        set: Texts, NONE, "Variables that are set before it is sent, and their expressions";
        take: Texts, NONE, "Variables that are taken out of the answer, and from where";
    }

    /// Keys of every phase.
    PHASE {
        do: Step, Needed, "What happens";
        name: Text, Else("`do`, then `do_2` …"), "For formulas and reports: letters, digits and `_`";
        only: Labels, Else("every trial"), "Trials that have this phase; see below";
    }

    /// Keys of a phase with clients that write.
    CLIENTS_WRITE {
        clients: CLIENTS, Is("1"), "Clients, one session each", swept, short = 'c';
        durability: Word("durability", &["durable", "buffered", "at-end", "as-configured"]), Is("\"durable\""),
            "What an acknowledged write survives: durable (power loss), buffered (the process), of a load at-end (nothing, until one sync), as-configured (what is set there; also where nobody says and an attached server is not durable)",
            swept, option, see = "attaching.md#durability";
    }

    /// Keys of a load.
    LOAD {
        batch: COUNT, Is("1000"), "Records to an operation", swept;
    }

    /// Keys of a question. It may take long enough to read a large store once.
    ASK {
        op: Kind, Needed, "The operation type", swept;
        count: COUNT, Needed, "How often it is asked", swept;
        op_timeout: LENGTH, Is("\"10min\""), "Longest that an operation may take", swept;
    }

    /// Keys of a driven phase.
    DRIVE {
        depth: Whole(1, 1_024), Is("1"),
            "Operations that each client has under way at once, in a pipeline; not with operations of several steps", swept, option;
        workers: CLIENTS, Is("1"), "Threads of the generator; at most as many as clients", swept, short = 'j';
        mix: Mix, Else("the mix that goes with the workload's name, the only operation type, or the scripts' weights; else needed"),
            "Shares of the operation types", swept, option;
        loop: Word("loop", &["closed", "open"]), Else("`\"open\"` with a `rate`, else `\"closed\"`"),
            "When the next operation starts: after the answer to the one before, or on schedule whatever the answers do", swept;
        rate: RateShape, Else("needed for `open`"),
            "Operations a second of all clients together (open loop); without it, as fast as the answers come", swept, option, see = "#a-load-that-changes";
        arrivals: Word("spacing of arrivals", &["even", "poisson"]), Is("\"even\""),
            "How the operations of an open loop are spaced: even, or poisson as of many users who know nothing of each other", swept, option;
        stages: Stages, Else("the same all the time"),
            "Load that changes, one stage after the other: `500/s@10s` holds a rate, `500/s..2000/s@30s` ramps; `10@10s` are clients. They say how long it takes",
            option, see = "#a-load-that-changes";
        think: Think, NONE, "Closed loop: how long a client waits after an answer; `exp:` is exponential, by its mean", swept, option, see = "#think-time";
        reconnect: Whole(1, 1_000_000_000), NONE, "New connection after so many operations of a client; `--reconnect each` is 1", swept, option, see = "#new-connections";
        backlog: LENGTH, Is("\"10s\""), "Open loop: age of a due operation at which the store does not carry the rate", swept;
        wake: Word("way to wake up", &["precise", "spin", "coarse"]), Is("\"precise\""),
            "How exactly the generator wakes up in an open loop: precise (µs late), spin (1 µs, more CPU) or coarse (1 ms, least CPU)", swept, option;
        io: Word("way to the sockets", &["auto", "epoll", "io_uring"]), Is("\"auto\""), "How sockets are driven: auto, epoll or io_uring", swept, option;
        pin: Processors, NOWHERE, "Processors of the generator's threads, one after the other", option;
        scenario: Tables(SCENARIO), Else("all clients do the same"),
            "Clients with operations and a rate of their own: `readers clients=8 mix=read rate=500/s`; once for each", option, see = "#several-scenarios";
        action: Tables(ACTION), NONE, "What is done to the store's own servers, or their disk, meanwhile", see = "#what-is-done-meanwhile";
        warmup: Warmup, Else("`\"0s\"`"),
            "Time at the start that counts for nothing; `auto` leaves out what is found to be warm-up within `for`", swept, option, see = "reports.md#warm-up";
        for: LENGTH, Else("this, or `ops`"), "How long; `drive` from options alone: 30s without this and --ops", swept, option;
        ops: Whole(1, i64::MAX), Else("this, or `for`"), "Operations of each client, instead of a time", swept, option;
        op_timeout: LENGTH, Is("\"10s\""), "Longest that an operation may take", swept, option_as = "op-timeout";
        power_cut: Cut, NONE, "The disk loses power before this flush or write of the phase, which ends it: `\"flush 200\"`; needs the store's parameter `disk`",
            swept, see = "promises.md";
        power_node: PowerNode, Is("\"all\""), "Whose power goes then: that of all nodes of a cluster, of its primary, or of the node with this number; the others go on",
            swept, see = "promises.md#clusters";
    }

    /// Keys of a phase that does `power`.
    POWER {
        survivors: Word("survivors", &["none", "all", "random", "torn"]), Is("\"none\""),
            "What is left of writes that were not flushed: none; all; each or not, by lot (random); the same of each sector of 512 bytes (torn)", swept;
    }

    /// Keys of a scenario.
    SCENARIO {
        name: Text, Needed, "Stands before its operation types in reports and goals: `readers/read`";
        clients: CLIENTS, Is("1"), "Clients, one session each";
        workers: CLIENTS, Is("1"), "Threads of the generator; at most as many as clients";
        mix: Mix, Else("as that of a drive"), "Shares of the operation types";
        rate: RateShape, Else("as fast as the answers come"), "Operations a second of all its clients together (open loop)", see = "#a-load-that-changes";
        stages: Stages, Else("the same all the time"), "A rate that changes, one stage after the other; what the last one ends with goes on";
        arrivals: Word("spacing of arrivals", &["even", "poisson"]), Is("\"even\""), "How its operations are spaced";
        think: Think, NONE, "Without a rate: how long a client waits after an answer", see = "#think-time";
    }

    /// Keys of an action.
    ACTION {
        at: Time(0, TIME_NS_MAX), Needed, "When it begins, from the start of the phase";
        what: Word("action", &["add", "fault", "mend"]), Needed,
            "What is done. `add`: one more node joins, and leaves when the trial ends; `fault`: the disk does something wrong from then on; `mend`: nothing is wrong with it any more. The last two need the store's parameter `disk`";
        fault: Fault, Else("of `fault` only"), "What the disk does wrong: `\"eio write once\"`", swept, see = "promises.md#other-faults";
    }

    /// Keys of a rate in waves.
    SINE {
        sine: Rate, Needed, "A wave around this rate";
        amplitude: Rate, Needed, "How far it goes up and down; at most the rate itself";
        period: LENGTH, Needed, "Length of one wave";
    }

    /// Keys of recorded arrivals.
    RECORDED {
        recorded: Text, Needed, "A file with one time in seconds to a line";
    }
}

/// How a rate changes: the keys of each shape, which its first one names.
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

/// The book's table of `keys`: a line for each, with what it takes, what it is for and its default.
pub fn table(keys: &[&[Key]]) -> String {
    let has_default = keys.iter().copied().flatten().any(|key| !matches!(key.unless, Else("")));
    let (head, rule) = if has_default { (" default |", "---|") } else { ("", "") };
    let mut text = format!("| key | takes | |{head}\n|---|---|---|{rule}\n");
    for key in keys.iter().copied().flatten() {
        let name = match key.see {
            "" => format!("`{}`", key.name),
            link => format!("[`{}`]({link})", key.name),
        };
        let default = match key.unless {
            _ if !has_default => String::new(),
            Needed => " needed |".to_owned(),
            Is(value) => format!(" `{value}` |"),
            Else(words) => format!(" {words} |"),
        };
        text.push_str(&format!("| {name} | {} | {} |{default}\n", key.takes.describe(), key.help));
    }
    text
}

impl Takes {
    /// What it is, in words of the book.
    fn describe(&self) -> String {
        match *self {
            Text => "text".to_owned(),
            Flag => "`true` or `false`".to_owned(),
            Whole(0, _) => "whole number".to_owned(),
            Whole(_, i64::MAX) => "whole number from 1".to_owned(),
            Whole(least, most) => format!("whole number, {least} to {most}"),
            Number => "number".to_owned(),
            Time(least, most) => format!("time, {} to {}", show_ns(least), show_ns(most)),
            Size => "size".to_owned(),
            Rate => "rate".to_owned(),
            Share(least, most) => format!("share, {least}% to {most}%"),
            Word(_, words) => format!("`{}`", words.join("`, `")),
            Processors => "processors, as in `[1]`".to_owned(),
            Warmup => "time, or `auto`".to_owned(),
            Mix => "shares, as in `{ read = 90, update = 10 }`".to_owned(),
            RateShape => "rate, or a table".to_owned(),
            Kind => "an operation type".to_owned(),
            Stages => "stages, as in `[\"500/s@10s\", \"500/s..2000/s@30s\"]`".to_owned(),
            Think => "time, `50ms..200ms`, or `exp:100ms`".to_owned(),
            Step => "a word".to_owned(),
            Labels | Table(_) | Workload | Texts => "table".to_owned(),
            Headers => "texts, or a table".to_owned(),
            Statuses => "statuses, as in `\"200-299, 404\"`".to_owned(),
            Codes => "table of shares".to_owned(),
            Cut => "`flush N` or `write N`".to_owned(),
            PowerNode => "`all`, `primary`, or a node's number".to_owned(),
            Fault => "a fault".to_owned(),
            Samplers | SweptKeys => "names".to_owned(),
            Stores => "names, URLs, tables".to_owned(),
            Phases | Tables(_) => "tables".to_owned(),
        }
    }
}
