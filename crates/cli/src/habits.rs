//! Options of other load generators, and their names here. A store adds habits of its own.

use plimsoll_core::Catalogue;

/// Answer for options that are part of a URL here.
const URL: &str = "a part of the URL: --on STORE://user@host:port/database";
const PASSWORD: &str = "PGPASSWORD, MYSQL_PWD, REDISCLI_AUTH or --password-file";
const PREPARED: &str = "nothing: tables are made and filled before, unless --no-load is given";
const REPORTED: &str = "nothing: the report always has it";
const RECORDED: &str = "nothing: every run is recorded; `plimsoll report --format json` or csv";

/// Options or words of the same meaning, their tool, and the equivalent here; `#` stands for the value, `#s` for a value
/// in seconds.
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
    ("--hide-histogram", "memtier", "nothing: `report --format hdr` has the histograms"),
    ("--csv", "redis-benchmark", RECORDED),
    ("--runtime", "fio", "--for #s"),
    ("--iodepth", "fio", "--depth #"),
    ("--numjobs", "fio", "--clients #"),
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

/// Returns the option here for `words`, which begin with an unknown option: a line for each tool that has it.
pub fn hint(catalogue: &Catalogue, words: &[String]) -> Option<String> {
    let first = words.first()?;
    let (name, attached) = match first.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (first.as_str(), None),
    };
    let value = attached.or(words.get(1).map(String::as_str)).filter(|value| !value.starts_with('-')).unwrap_or("N");
    if matches!(name, "-p" | "--prop")
        && let Some((property, value)) = value.split_once('=')
    {
        let (_, here) = PROPERTIES.iter().find(|(known, _)| *known == property)?;
        return Some(format!("YCSB's {property} is here: {}", filled(here, value)));
    }
    let of_stores = catalogue.stores.iter().flat_map(|store| store.spec().habits);
    let all = HABITS.iter().chain(of_stores).filter(|(habits, ..)| habits.split(' ').any(|habit| habit == name));
    let mut lines: Vec<String> =
        all.map(|(_, whose, here)| format!("{whose}'s {name} is here: {}", filled(here, value))).collect();
    if lines.is_empty() {
        lines.extend(parameter(catalogue, name, value));
    }
    (!lines.is_empty()).then(|| lines.join("\n    "))
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
    // wrk takes 30 and 30s.
    let is_bare = value.ends_with(|c: char| c.is_ascii_digit() || c == 'N');
    let seconds = if is_bare { format!("{value}s") } else { value.to_owned() };
    here.replace("#s", &seconds).replace('#', value)
}

#[cfg(test)]
mod tests {
    fn hint(typed: &str) -> Option<String> {
        let words: Vec<String> = typed.split_whitespace().map(str::to_owned).collect();
        super::hint(&crate::catalogue::assemble(), &words)
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
    fn what_is_said_instead_is_an_option_here() {
        use clap::CommandFactory;
        let command = crate::args::Cli::command();
        let drive = command.find_subcommand("drive").unwrap();
        let known = |option: &str| drive.get_arguments().any(|arg| arg.get_long() == option.strip_prefix("--"));
        let catalogue = crate::catalogue::assemble();
        let of_stores = catalogue.stores.iter().flat_map(|store| store.spec().habits);
        let said = super::HABITS.iter().chain(of_stores).map(|(.., here)| *here);
        for here in said.chain(super::PROPERTIES.iter().map(|(_, here)| *here)) {
            for option in here.split(['`', ' ', ',']).filter(|word| word.starts_with("--") && *word != "--format") {
                assert!(known(option), "{option} in {here}");
            }
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
