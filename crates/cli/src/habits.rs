//! Options of other load generators, and their names here. A store adds habits of its own.

use std::collections::BTreeSet;

use clap::CommandFactory;
use plimsoll_core::Catalogue;

use crate::args::Cli;

/// Answer for options that are part of a URL here.
const URL: &str = "a part of the URL: --on STORE://user@host:port/database";
const PASSWORD: &str = "PGPASSWORD, MYSQL_PWD, REDISCLI_AUTH or --password-file";
const PREPARED: &str = "nothing: tables are made and filled before, unless --no-load is given";
const REPORTED: &str = "nothing: the report always has it";
const RECORDED: &str = "nothing: every run is recorded; `plimsoll report --format json` or csv";

/// Options or words of the same meaning, their tool, and the equivalent here; `#` stands for the value, `#s` for a value
/// in seconds, `#B` for one in bytes.
const HABITS: &[(&str, &str, &str)] = &[
    ("-T", "pgbench", "--for #s"),
    ("-t --transactions", "pgbench", "--ops # (of each client)"),
    ("-t", "wrk and memtier", "--workers #"),
    ("-R", "pgbench", "--rate # --arrivals poisson"),
    ("-R", "wrk2", "--rate #"),
    ("-s", "pgbench", "--set scale=#"),
    ("-s", "redis-benchmark", "the socket: --on redis+unix://#"),
    ("-s --server", "memtier", URL),
    ("-S --select-only", "pgbench", "the workload `select-only`: plimsoll drive select-only"),
    ("-N --skip-some-updates", "pgbench", "the workload `simple-update`: plimsoll drive simple-update"),
    ("-b --builtin", "pgbench", "a workload: plimsoll drive tpcb-like, simple-update or select-only"),
    ("-i --initialize", "pgbench", PREPARED),
    ("-i --iterations", "k6", "--ops # (of each client)"),
    ("-n --no-vacuum", "pgbench", "--start as-is"),
    ("-n", "oha and memtier", "--ops # (of each client)"),
    ("-r --report-per-command", "pgbench", "nothing: the report always shows each statement"),
    ("-P", "pgbench", "--progress #s"),
    ("-C --connect", "pgbench", "--reconnect each"),
    ("-k", "redis-benchmark", "--reconnect each, where that says 0"),
    ("-P", "go-ycsb", "a workload: plimsoll drive kv:a to kv:f; --set for other lines of that file"),
    ("-l --log", "pgbench", RECORDED),
    ("-L --latency-limit", "pgbench", "--goal p99=#ms"),
    ("-D", "pgbench", "--set define=#"),
    ("-U -d --username --dbname", "pgbench", URL),
    ("-d", "oha", "--body #"),
    ("-d", "wrk and k6", "--for #s"),
    ("-d --data-size", "memtier", "--set field_count=1 --set field_length=#"),
    ("-m", "oha", "--method #"),
    ("-D", "oha", "--body @#"),
    ("--http2", "oha", "--set http.http_version=2"),
    ("-z", "oha", "--for #s"),
    ("-q --query-per-second --qps", "oha", "--rate #"),
    ("-u --vus", "k6", "--clients #"),
    ("-o --out --summary-export", "k6", RECORDED),
    ("-p", "pgbench and redis-benchmark", URL),
    ("-a", "redis-benchmark", PASSWORD),
    ("-threads", "YCSB", "--clients #"),
    ("-target", "YCSB", "--rate #"),
    ("--client", "pgbench", "--clients #"),
    ("--jobs", "pgbench", "--workers #"),
    ("--time", "sysbench and pgbench", "--for #s"),
    ("--reconnect-interval", "memtier", "--reconnect #"),
    ("--disable-keepalive", "oha", "--reconnect each"),
    ("--no-connection-reuse", "k6", "--reconnect each"),
    ("--stage", "k6", "--stages 1..20@10s,20@30s"),
    ("--random-seed", "pgbench", "--seed #"),
    ("--host --port", "pgbench and memtier", URL),
    ("--threads", "sysbench and go-ycsb", "--clients #"),
    ("--threads", "wrk, memtier and redis-benchmark", "--workers #"),
    ("--target", "go-ycsb", "--rate #"),
    ("--events", "sysbench", "--ops # (of each client)"),
    ("--report-interval", "sysbench", "--progress #s"),
    ("--warmup-time", "sysbench", "--warmup #s"),
    ("--rand-type", "sysbench", "--set distribution=#"),
    ("--rand-seed", "sysbench", "--seed #"),
    ("--percentile --histogram", "sysbench", REPORTED),
    ("--db-driver", "sysbench", "the store: --on #"),
    ("--db-ps-mode", "sysbench", "--set postgres.protocol=prepared, or simple"),
    ("prepare", "sysbench", PREPARED),
    ("run", "sysbench", "nothing: `drive` runs it"),
    ("cleanup", "sysbench", "nothing: what a run made is removed when it ends"),
    ("--rps", "k6", "--rate #"),
    ("--duration", "wrk, k6 and oha", "--for #s"),
    ("--connections", "wrk and oha", "--clients #"),
    ("--latency", "wrk", "nothing: percentiles are always shown"),
    ("--timeout", "wrk and oha", "--op-timeout #s"),
    ("--no-tui", "oha", "--quiet"),
    ("--latency-correction", "oha", "nothing: with --rate a response time begins when the request was due"),
    ("--output-format", "oha", RECORDED),
    ("--ratio", "memtier", "--mix update=1,read=10 (SET:GET as 1:10)"),
    ("--key-maximum", "memtier", "--set records=#"),
    ("--requests", "memtier", "--ops # (of each client)"),
    ("--test-time", "memtier", "--for #s"),
    ("--rate-limiting", "memtier", "--rate # (of all clients together)"),
    ("--pipeline", "memtier", "--depth #"),
    ("--authenticate", "memtier", PASSWORD),
    ("--json-out-file", "memtier", RECORDED),
    ("--hide-histogram", "memtier", "nothing: `plimsoll report --format hdr` has the histograms"),
    ("--csv", "redis-benchmark", RECORDED),
    ("--runtime", "fio", "--for #s"),
    ("--iodepth", "fio", "--depth #"),
    ("--numjobs", "fio", "--clients #"),
    ("--rate_iops", "fio", "--rate #"),
    ("--rw --readwrite", "fio", "--mix read=1, update=1 or both; of a disk itself: plimsoll sync DIRECTORY"),
    ("--rwmixread", "fio", "--mix read=#,update=REST, which are shares"),
    (
        "--bs --blocksize",
        "fio",
        "--set field_count=1 --set field_length=#B; of a disk itself: plimsoll sync DIRECTORY --size #B",
    ),
    ("--size", "fio", "the number of records: --set records=N"),
    ("--directory --filename", "fio", "--dir, the directory of a store's data"),
    ("--direct", "fio", "of a disk itself: plimsoll sync DIRECTORY --flush o-direct"),
    ("--ioengine", "fio", "of sockets: --io epoll or io_uring; of a disk itself: plimsoll sync DIRECTORY --flush"),
    (
        "--time_based --group_reporting",
        "fio",
        "nothing: `--for` is always a time, and all clients are reported together",
    ),
];

/// YCSB's properties, given with `-p`, and the equivalents here.
const PROPERTIES: &[(&str, &str)] = &[
    ("recordcount", "--set records=#"),
    ("operationcount", "--ops # (of each client)"),
    ("threadcount", "--clients #"),
    ("target", "--rate #"),
    ("fieldcount", "--set field_count=#"),
    ("fieldlength", "--set field_length=#"),
    ("requestdistribution", "--set distribution=#"),
    ("maxscanlength", "--set scan_length=#"),
    ("maxexecutiontime", "--for #s"),
];

/// Names of other tools and their workloads, and the workload here.
const WORKLOADS: &[(&str, &str)] = &[
    ("pgbench", "tpcb-like, simple-update or select-only"),
    ("sysbench", "oltp_read_write, oltp_read_only and others"),
    ("ycsb", "kv:a to kv:f"),
    ("workloada", "kv:a"),
    ("workloadb", "kv:b"),
    ("workloadc", "kv:c"),
    ("workloadd", "kv:d"),
    ("workloade", "kv:e"),
    ("workloadf", "kv:f"),
    ("redis-benchmark", "kv:a to kv:f, or kv with --mix"),
    ("memtier", "kv:a to kv:f, or kv with --mix"),
    ("tpcc", "none; scripts of your own with -f"),
];

/// Returns the name here of `workload`, which Plimsoll does not have.
pub fn workload(catalogue: &Catalogue, workload: &str) -> Option<String> {
    if let Some(store) = workload.split_once("://").and_then(|(scheme, _)| catalogue.store_for_scheme(scheme)) {
        let spec = store.spec();
        let takes = catalogue.workloads.iter().find(|workload| {
            !workload.interfaces.is_empty() && workload.interfaces.iter().all(|needed| spec.interfaces.contains(needed))
        })?;
        return Some(format!("a URL stands behind --on: plimsoll drive {} --on {workload}", takes.name));
    }
    let (_, here) = WORKLOADS.iter().find(|(name, _)| *name == workload)?;
    Some(format!("`{workload}` is here: {here}"))
}

/// Returns the equivalents of `refused`, an unknown option or word of the command line `typed`: a line for each tool that
/// has it, or for those tools whose other options were typed as well. All of them are options that the verb takes.
pub fn hint(catalogue: &Catalogue, refused: &str, typed: &[String]) -> Option<String> {
    let (at, word) = typed.iter().enumerate().find(|(_, word)| name_of(word) == refused).or_else(|| {
        let begins = typed.iter().enumerate().find(|(_, word)| word.starts_with(refused));
        // Of `-threads 16`, `-t` is refused.
        begins.filter(|_| refused.starts_with('-'))
    })?;
    let line = Line { catalogue, typed, verb: typed.get(1)? };
    let next = typed.get(at + 1).map(String::as_str).filter(|next| !next.starts_with('-'));
    let whole = line.answers(at, name_of(word), word.split_once('=').map(|(_, value)| value).or(next));
    whole.or_else(|| match refused.strip_prefix('-') {
        // Of `-q 100`, where `-q` takes no value here, `100` is refused.
        None => at.checked_sub(1).and_then(|before| line.answers(before, typed.get(before)?, Some(refused))),
        Some(_) if name_of(word) == refused => None,
        // Of `-T60`, `-T` is refused, and of `-nS`, `-n`.
        Some(_) => {
            let value = word.strip_prefix(refused).filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
            line.answers(at, refused, value)
        }
    })
}

/// The name of an option, without the value behind `=`.
fn name_of(word: &str) -> &str {
    word.split_once('=').map_or(word, |(name, _)| name)
}

/// A command line.
struct Line<'a> {
    catalogue: &'a Catalogue,
    typed: &'a [String],
    verb: &'a str,
}

impl<'a> Line<'a> {
    /// Returns the equivalents of `name` at the place `at` of the line.
    fn answers(&self, at: usize, name: &str, value: Option<&str>) -> Option<String> {
        let value = value.unwrap_or("N");
        if matches!(name, "-p" | "--prop")
            && let Some((property, value)) = value.split_once('=')
        {
            let (_, here) = PROPERTIES.iter().find(|(known, here)| *known == property && self.takes(here))?;
            return Some(format!("YCSB's {property} is here: {}", filled(here, value)));
        }
        let all: Vec<_> = self.habits(name).filter(|(.., here)| self.takes(here)).collect();
        let others = self.tools_but(at);
        let is_theirs = |whose: &str| tools(whose).any(|tool| others.contains(tool));
        let is_narrowed = all.iter().any(|(_, whose, _)| is_theirs(whose));
        let mut lines: Vec<String> = all
            .iter()
            .filter(|(_, whose, _)| !is_narrowed || is_theirs(whose))
            .map(|(_, whose, here)| format!("{whose}'s {name} is here: {}", filled(here, value)))
            .collect();
        if lines.is_empty() && self.takes("--set") {
            lines.extend(parameter(self.catalogue, name, value));
        }
        (!lines.is_empty()).then(|| lines.join("\n    "))
    }

    fn habits(&self, name: &str) -> impl Iterator<Item = &'a (&'static str, &'static str, &'static str)> {
        let of_stores = self.catalogue.stores.iter().flat_map(|store| store.spec().habits);
        HABITS.iter().chain(of_stores).filter(move |(habits, ..)| habits.split(' ').any(|habit| habit == name))
    }

    /// The tools that have the line's other options.
    fn tools_but(&self, at: usize) -> BTreeSet<&'a str> {
        let others = self.typed.iter().enumerate().filter(|(other, word)| *other != at && word.starts_with('-'));
        let habits = others.flat_map(|(_, word)| {
            let cut = word.get(..2).filter(|_| !word.starts_with("--")).unwrap_or(word);
            self.habits(name_of(word)).chain(self.habits(cut).filter(move |_| cut != name_of(word)))
        });
        habits.flat_map(|(_, whose, _)| tools(whose)).collect()
    }

    /// True if all options in `here` exist: of the verb that it names, or of this one. A hint without an option fits the
    /// verbs that drive.
    fn takes(&self, here: &str) -> bool {
        let command = Cli::command();
        let has = |verb: &str, option: &str| {
            let verb = command.find_subcommand(verb);
            let mut options =
                verb.into_iter().flat_map(clap::Command::get_arguments).filter(|known| !known.is_hide_set());
            options.any(|known| known.get_long() == option.strip_prefix("--"))
        };
        let (mut verb, mut before, mut named) = (self.verb, "", 0);
        for word in here.split(['`', ' ', ',', ';', ':']).filter(|word| !word.is_empty()) {
            if before == "plimsoll" {
                verb = word;
            } else if word.starts_with("--") {
                named += 1;
                if !has(verb, word) {
                    return false;
                }
            }
            before = word;
        }
        named > 0 || verb != self.verb || has(verb, "--clients")
    }
}

/// The tools in `whose`: `wrk, k6 and oha`.
fn tools(whose: &str) -> impl Iterator<Item = &str> {
    whose.split(" and ").flat_map(|part| part.split(", "))
}

/// A parameter that was typed as an option.
fn parameter(catalogue: &Catalogue, option: &str, value: &str) -> Option<String> {
    let name = option.strip_prefix("--")?.replace('-', "_");
    let is_it = |params: &[plimsoll_core::ParamSpec]| params.iter().any(|param| param.name == name);
    if catalogue.workloads.iter().any(|workload| is_it(workload.params)) {
        return Some(format!("{option} is a parameter of a workload: --set {name}={value}"));
    }
    let store = catalogue.stores.iter().map(|store| store.spec()).find(|spec| is_it(spec.params))?;
    Some(format!("{option} is a parameter of {}: --set {}.{name}={value}", store.name, store.name))
}

fn filled(here: &str, value: &str) -> String {
    // wrk takes 30 and 30s. The next word may be no value of the option's.
    let time = |unit: &str| match value.as_bytes() {
        [b'0'..=b'9', .., b'0'..=b'9'] | [b'0'..=b'9'] => format!("{value}{unit}"),
        [b'0'..=b'9', ..] => value.to_owned(),
        _ => format!("N{unit}"),
    };
    let here = here.replace("#ms", &time("ms")).replace("#s", &time("s"));
    here.replace("#B", &bytes(value)).replace('#', value)
}

/// A size of fio's in bytes: `4k` is 4096.
fn bytes(value: &str) -> String {
    let factor = match value.as_bytes().last() {
        Some(b'k' | b'K') => 1 << 10,
        Some(b'm' | b'M') => 1 << 20,
        _ => 1,
    };
    let number = value.trim_end_matches(['k', 'K', 'm', 'M']).parse::<u64>();
    number.map_or_else(|_| "N".to_owned(), |number| number.saturating_mul(factor).to_string())
}

#[cfg(test)]
mod tests {
    /// The hint for the first of these words.
    fn hint(typed: &str) -> Option<String> {
        hint_of(typed.split([' ', '=']).next().unwrap(), &format!("drive {typed}"))
    }

    fn hint_of(refused: &str, line: &str) -> Option<String> {
        let words: Vec<String> = format!("plimsoll {line}").split(' ').map(str::to_owned).collect();
        super::hint(&crate::catalogue::assemble(), refused, &words)
    }

    #[test]
    fn a_habit_is_answered_with_its_value() {
        for (typed, here) in [
            ("-T 60", "pgbench's -T is here: --for 60s"),
            ("-T -c", "pgbench's -T is here: --for Ns"),
            ("-z 30s", "oha's -z is here: --for 30s"),
            ("--vus=10", "k6's --vus is here: --clients 10"),
            ("-threads 16", "YCSB's -threads is here: --clients 16"),
            ("-p recordcount=1000", "YCSB's recordcount is here: --set records=1000"),
            ("--key-maximum=9", "memtier's --key-maximum is here: --set records=9"),
            ("--table-size=5", "--table-size is a parameter of a workload: --set table_size=5"),
            (
                "--shared-buffers 1GiB",
                "--shared-buffers is a parameter of postgres: --set postgres.shared_buffers=1GiB",
            ),
            ("-m POST", "oha's -m is here: --method POST"),
            ("--mysql-db=shop", "sysbench's --mysql-db is here: a part of the URL: --on mariadb://user@host/shop"),
            ("prepare", "sysbench's prepare is here: nothing: tables are made"),
        ] {
            assert!(hint(typed).is_some_and(|hint| hint.starts_with(here)), "{typed}: {:?}", hint(typed));
        }
        assert_eq!(hint("--banana"), None);
        assert_eq!(hint("-p banana=1"), None);
    }

    #[test]
    fn an_option_of_several_tools_is_answered_for_each() {
        let both = hint("-P 16").unwrap();
        assert!(
            both.contains("pgbench's -P is here: --progress 16s")
                && both.contains("redis-benchmark's -P is here: --depth 16"),
            "{both}"
        );
    }

    #[test]
    fn a_hint_fits_what_was_typed() {
        for (refused, line, here) in [
            ("-T", "drive select -T60 --on postgres", "pgbench's -T is here: --for 60s"),
            ("-T", "drive -T select", "pgbench's -T is here: --for Ns"),
            ("-P", "drive kv -c 10 -P 5 -T 60", "pgbench's -P is here: --progress 5s"),
            ("--threads", "drive oltp --threads=4 --time=60", "sysbench and go-ycsb's --threads is here: --clients 4"),
            (
                "--threads",
                "drive kv --threads 4 --ratio 1:9",
                "wrk, memtier and redis-benchmark's --threads is here: --workers 4",
            ),
            ("--vus", "drive http --vus 10 --duration 30s", "k6's --vus is here: --clients 10"),
            (
                "--rw",
                "drive kv --rw=randread",
                "fio's --rw is here: --mix read=1, update=1 or both; of a disk itself: plimsoll sync DIRECTORY",
            ),
            ("--rate_iops", "line kv --rate_iops 5", ""),
            ("100", "drive http -q 100", "oha's -q is here: --rate 100"),
            // What a verb does not take is no hint.
            ("-T", "line kv -T 60", ""),
            ("--vus", "report --vus 10", ""),
            ("--histogram", "report --histogram", ""),
        ] {
            assert_eq!(hint_of(refused, line).unwrap_or_default(), here, "{line}");
        }
        assert!(hint_of("-t", "drive -t12").unwrap().contains("\n    wrk and memtier's -t is here: --workers 12"));
        assert!(
            hint("--bs=4k").unwrap().starts_with("fio's --bs is here: --set field_count=1 --set field_length=4096;")
        );
    }

    #[test]
    fn what_is_said_instead_is_an_option_here() {
        let catalogue = crate::catalogue::assemble();
        let line = super::Line { catalogue: &catalogue, typed: &[], verb: "drive" };
        let of_stores = catalogue.stores.iter().flat_map(|store| store.spec().habits);
        let said = super::HABITS.iter().chain(of_stores).map(|(.., here)| *here);
        for here in said.chain(super::PROPERTIES.iter().map(|(_, here)| *here)) {
            assert!(line.takes(here), "{here}");
        }
    }

    #[test]
    fn workloads_of_other_tools_are_known() {
        let catalogue = crate::catalogue::assemble();
        let said = |typed: &str| super::workload(&catalogue, typed).unwrap_or_default();
        assert_eq!(said("workloada"), "`workloada` is here: kv:a");
        assert_eq!(said("http://h/a"), "a URL stands behind --on: plimsoll drive http --on http://h/a");
        assert_eq!(said("kv"), "");
    }
}
