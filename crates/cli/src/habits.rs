//! Options of other load generators that a hand types out of habit, and what they are called here.

/// Option, whose it is, and what is written here; `#` stands for the value.
const HABITS: &[(&str, &str, &str)] = &[
    ("-T", "pgbench", "--for #s"),
    ("-t", "pgbench", "--ops # (of each client)"),
    ("-R", "pgbench", "--rate #/s --arrivals poisson"),
    ("-s", "pgbench", "--set scale=#"),
    ("-M", "pgbench", "--set postgres.protocol=#"),
    ("-S", "pgbench", "the workload `select`: plimsoll drive select"),
    ("-N", "pgbench", "--mix simple_update with the workload `tpcb`"),
    ("-b", "pgbench", "a workload: plimsoll drive tpcb, or select"),
    ("-i", "pgbench", "nothing: tables are made and filled before, unless --no-load says that they are there"),
    ("-n", "pgbench", "--start as-is"),
    ("-r", "pgbench", "nothing: the report always shows each statement"),
    ("-P", "pgbench", "nothing: progress is shown; --slice #s is its length (redis-benchmark's -P is --depth #)"),
    ("-l", "pgbench", "nothing: every run is recorded; `plimsoll report --format csv`"),
    ("-L", "pgbench", "--goal p99=#ms"),
    ("-D", "pgbench", "--set define=#"),
    ("-d", "wrk", "--for #"),
    ("-z", "oha", "--for #"),
    ("-h", "psql", "a URL: --on postgres://#/database"),
    ("-p", "YCSB", "--set #"),
    ("-threads", "YCSB", "--clients #"),
    ("-target", "YCSB", "--rate #/s"),
    ("--max-tries", "pgbench", "--set max_tries=#"),
    ("--scale", "pgbench", "--set scale=#"),
    ("--client", "pgbench", "--clients #"),
    ("--jobs", "pgbench", "--workers #"),
    ("--time", "sysbench and pgbench", "--for #s"),
    ("--transactions", "pgbench", "--ops # (of each client)"),
    ("--protocol", "pgbench", "--set postgres.protocol=#"),
    ("--builtin", "pgbench", "a workload: plimsoll drive tpcb, or select"),
    ("--threads", "sysbench", "--clients #"),
    ("--events", "sysbench", "--ops # (of each client)"),
    ("--report-interval", "sysbench", "--slice #s"),
    ("--tables", "sysbench", "--set tables=#"),
    ("--table-size", "sysbench", "--set table_size=#"),
    ("--rand-type", "sysbench", "--set distribution=#"),
    ("--mysql-socket", "sysbench", "a URL: --on 'mariadb:///?socket=#'"),
    ("--mysql-host", "sysbench", "a URL: --on mariadb://#/database"),
    ("--pgsql-host", "sysbench", "a URL: --on postgres://#/database"),
    ("--duration", "wrk and oha", "--for #"),
    ("--connections", "wrk", "--clients #"),
    ("--runtime", "fio", "--for #s"),
    ("--iodepth", "fio", "--depth #"),
    ("--numjobs", "fio", "--clients #"),
    ("--pipeline", "memtier", "--depth #"),
];

/// What `option`, which is none of ours, would be here; `value` is what stood behind it.
pub fn hint(option: &str, value: Option<&str>) -> Option<String> {
    let (name, attached) = match option.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (option, None),
    };
    let (_, whose, here) = HABITS.iter().find(|(habit, ..)| *habit == name)?;
    let value = attached.or(value).filter(|value| !value.starts_with('-')).unwrap_or("N");
    Some(format!("{whose}'s {name} is here: {}", here.replace('#', value)))
}

#[cfg(test)]
mod tests {
    use super::hint;

    #[test]
    fn a_habit_is_answered_with_its_value() {
        assert_eq!(hint("-T", Some("60")).as_deref(), Some("pgbench's -T is here: --for 60s"));
        assert_eq!(hint("--threads=16", None).as_deref(), Some("sysbench's --threads is here: --clients 16"));
        assert_eq!(hint("-T", Some("-c")).as_deref(), Some("pgbench's -T is here: --for Ns"));
        assert_eq!(hint("--banana", None), None);
    }
}
