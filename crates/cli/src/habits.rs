//! Options of other load generators that a hand types out of habit, and what they are called here. A store knows those of
//! its own.

use plimsoll_core::Catalogue;

/// Option, whose it is, and what is written here; `#` stands for the value, `#s` for one in seconds.
const HABITS: &[(&str, &str, &str)] = &[
    ("-T", "pgbench", "--for #s"),
    ("-t", "pgbench", "--ops # (of each client)"),
    ("-t", "wrk", "--workers #"),
    ("-R", "pgbench", "--rate # --arrivals poisson"),
    ("-R", "wrk2", "--rate #"),
    ("-s", "pgbench", "--set scale=#"),
    ("-S", "pgbench", "the workload `select`: plimsoll drive select"),
    ("-N", "pgbench", "--mix simple_update with the workload `tpcb`"),
    ("-b", "pgbench", "a workload: plimsoll drive tpcb, or select"),
    ("-i", "pgbench", "nothing: tables are made and filled before, unless --no-load says that they are there"),
    ("-n", "pgbench", "--start as-is"),
    ("-n", "oha", "--ops # (of each client)"),
    ("-r", "pgbench", "nothing: the report always shows each statement"),
    ("-P", "pgbench", "nothing: progress is shown; --slice #s is its length"),
    ("-P", "go-ycsb", "--set, for each line of that file"),
    ("-l", "pgbench", "nothing: every run is recorded; `plimsoll report --format csv`"),
    ("-L", "pgbench", "--goal p99=#ms"),
    ("-D", "pgbench", "--set define=#"),
    ("-d", "wrk", "--for #s"),
    ("-z", "oha", "--for #s"),
    ("-p", "go-ycsb", "--set #"),
    ("-threads", "YCSB", "--clients #"),
    ("-target", "YCSB", "--rate #"),
    ("--max-tries", "pgbench", "--set max_tries=#"),
    ("--scale", "pgbench", "--set scale=#"),
    ("--client", "pgbench", "--clients #"),
    ("--jobs", "pgbench", "--workers #"),
    ("--time", "sysbench and pgbench", "--for #s"),
    ("--transactions", "pgbench", "--ops # (of each client)"),
    ("--builtin", "pgbench", "a workload: plimsoll drive tpcb, or select"),
    ("--threads", "sysbench and go-ycsb", "--clients #"),
    ("--target", "go-ycsb", "--rate #"),
    ("--events", "sysbench", "--ops # (of each client)"),
    ("--report-interval", "sysbench", "--slice #s"),
    ("--tables", "sysbench", "--set tables=#"),
    ("--table-size", "sysbench", "--set table_size=#"),
    ("--rand-type", "sysbench", "--set distribution=#"),
    ("--duration", "wrk and oha", "--for #s"),
    ("--connections", "wrk", "--clients #"),
    ("--test-time", "memtier", "--for #s"),
    ("--rate-limiting", "memtier", "--rate # (of all clients together)"),
    ("--data-size", "memtier", "--set field_count=1 --set field_length=#"),
    ("--runtime", "fio", "--for #s"),
    ("--iodepth", "fio", "--depth #"),
    ("--numjobs", "fio", "--clients #"),
    ("--pipeline", "memtier", "--depth #"),
];

/// What `option`, which is none of ours, would be here, a line for each tool that has it; `value` is what stood
/// behind it.
pub fn hint(catalogue: &Catalogue, option: &str, value: Option<&str>) -> Option<String> {
    let (name, attached) = match option.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (option, None),
    };
    let value = attached.or(value).filter(|value| !value.starts_with('-')).unwrap_or("N");
    // wrk takes 30 and 30s, and here there is always a unit.
    let seconds =
        if value.ends_with(|c: char| c.is_ascii_digit() || c == 'N') { format!("{value}s") } else { value.to_owned() };
    let of_stores = catalogue.stores.iter().flat_map(|store| store.spec().habits);
    let all = HABITS.iter().chain(of_stores).filter(|(habit, ..)| *habit == name);
    let lines = all.map(|(_, whose, here)| {
        format!("{whose}'s {name} is here: {}", here.replace("#s", &seconds).replace('#', value))
    });
    Some(lines.collect::<Vec<_>>().join("\n")).filter(|lines| !lines.is_empty())
}

#[cfg(test)]
mod tests {
    fn hint(option: &str, value: Option<&str>) -> Option<String> {
        super::hint(&crate::catalogue::assemble(), option, value)
    }

    #[test]
    fn a_habit_is_answered_with_its_value() {
        assert_eq!(hint("-T", Some("60")).as_deref(), Some("pgbench's -T is here: --for 60s"));
        assert_eq!(
            hint("--threads=16", None).as_deref(),
            Some("sysbench and go-ycsb's --threads is here: --clients 16")
        );
        assert_eq!(hint("-T", Some("-c")).as_deref(), Some("pgbench's -T is here: --for Ns"));
        assert_eq!(
            hint("-d", Some("5")).as_deref().map(|hint| hint.lines().next()),
            Some(Some("wrk's -d is here: --for 5s"))
        );
        assert_eq!(hint("-z", Some("30s")).as_deref(), Some("oha's -z is here: --for 30s"));
        assert_eq!(hint("--banana", None), None);
    }

    #[test]
    fn an_option_of_several_tools_is_answered_for_each() {
        let both = hint("-P", Some("16")).unwrap();
        assert!(
            both.contains("pgbench's -P is here: nothing") && both.contains("redis-benchmark's -P is here: --depth 16"),
            "{both}"
        );
    }
}
