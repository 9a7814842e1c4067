//! Differences between runs that existed before the measurement.

use std::collections::BTreeMap;

use plimsoll_core::{Durability, Setting};
use plimsoll_record::data::{Run, Trial};

use crate::name;

use super::ConfigDifference;

/// Environment entries of the machine's state at the start of the run, or measured ones: they vary without any
/// configuration.
const OF_THE_MOMENT: [&str; 7] = [
    "load at the start",
    "memory available",
    "generator's ceiling, 1 worker",
    "generator's ceiling, 2 workers",
    "noise floor",
    "pauses of the machine",
    "time taken from a thread that wants to run",
];

/// Settings that only say where a server stands.
const OF_THE_PLACE: [&str; 16] = [
    "bind_address",
    "init_file",
    "listen_addresses",
    "wsrep_cluster_address",
    "wsrep_node_address",
    "wsrep_node_incoming_address",
    "wsrep_sst_receive_address",
    "port",
    "socket",
    "unixsocket",
    "hba_file",
    "unix_socket_directories",
    "pid_file",
    "pidfile",
    "external_pid_file",
    "data_directory",
];

/// Settings that servers report as bare numbers, and their units.
const UNITS: [(&str, &str); 31] = [
    ("aria_pagecache_buffer_size", BYTES),
    ("auto-aof-rewrite-min-size", BYTES),
    ("binlog_cache_size", BYTES),
    ("innodb_buffer_pool_size", BYTES),
    ("innodb_log_buffer_size", BYTES),
    ("innodb_log_file_size", BYTES),
    ("join_buffer_size", BYTES),
    ("key_buffer_size", BYTES),
    ("max-request-bytes", BYTES),
    ("max_allowed_packet", BYTES),
    ("max_binlog_size", BYTES),
    ("max_heap_table_size", BYTES),
    ("max_memtable_size", BYTES),
    ("max_payload", BYTES),
    ("maxmemory", BYTES),
    ("maxsize", BYTES),
    ("query_cache_size", BYTES),
    ("read_buffer_size", BYTES),
    ("sort_buffer_size", BYTES),
    ("tmp_table_size", BYTES),
    ("busy_timeout", "ms"),
    ("connect_timeout", "s"),
    ("innodb_lock_wait_timeout", "s"),
    ("interactive_timeout", "s"),
    ("latency-monitor-threshold", "ms"),
    ("lock_wait_timeout", "s"),
    ("net_read_timeout", "s"),
    ("net_write_timeout", "s"),
    ("slowlog-log-slower-than", "µs"),
    ("timeout", "s"),
    ("wait_timeout", "s"),
];
const BYTES: &str = "B";

/// Adds the unit to the value of a setting, if it is a number with a known one. Bytes are in the largest unit in which
/// they are whole, so that different values stay different.
fn with_unit(name: &str, value: &str) -> String {
    let unit = UNITS.iter().find(|(known, _)| *known == name).map(|(_, unit)| *unit);
    match (unit, value.parse::<u64>()) {
        (Some(BYTES), Ok(bytes)) => {
            let steps = ["B", "KiB", "MiB", "GiB"];
            let step = (bytes.trailing_zeros() as usize / 10).min(steps.len() - 1);
            let step = if bytes == 0 { 0 } else { step };
            format!("{} {}", bytes >> (10 * step), steps[step])
        }
        (Some(unit), Ok(_)) => format!("{value} {unit}"),
        _ => value.to_string(),
    }
}

/// All differences: program, plan, environment, then trial by trial. `pairs` are the trials that belong together.
pub fn differences(a: &Run, b: &Run, pairs: &[(&Trial, &Trial)]) -> Vec<ConfigDifference> {
    let (run_a, run_b) = (a, b);
    let mut all = Vec::new();
    let mut add = |place: &str, name: &str, a: String, b: String| {
        let one = ConfigDifference { place: place.to_string(), name: name.to_string(), a, b };
        if one.a != one.b && !all.contains(&one) {
            all.push(one);
        }
    };
    let (head_a, head_b) = (&a.header, &b.header);
    add("run", "Plimsoll", head_a.plimsoll_version.clone(), head_b.plimsoll_version.clone());
    add("run", "plan", head_a.plan_name.clone(), head_b.plan_name.clone());
    add("run", "seed", head_a.seed.to_string(), head_b.seed.to_string());
    add("run", "slice", crate::number::nanoseconds(head_a.slice_ns), crate::number::nanoseconds(head_b.slice_ns));
    for one in plan_lines(&head_a.plan_text, &head_b.plan_text) {
        add(&one.place, &one.name, one.a, one.b);
    }
    let map = |entries: &[(String, String)]| -> BTreeMap<String, String> {
        let lasting = entries.iter().filter(|(name, _)| !OF_THE_MOMENT.contains(&name.as_str()));
        lasting.map(|(name, value)| (name.clone(), without_free(value))).collect()
    };
    both(&map(&head_a.environment), &map(&head_b.environment), |name, a, b| add("environment", name, a, b));
    for (a, b) in pairs {
        let (head_a, head_b) = (&a.header, &b.header);
        let place = name::trial(head_a);
        add(&place, "store", head_a.store.clone(), head_b.store.clone());
        add(&place, "version", head_a.version.clone(), head_b.version.clone());
        add(&place, "workload", head_a.workload.clone(), head_b.workload.clone());
        add(&place, "records", head_a.record_count.to_string(), head_b.record_count.to_string());
        both(&head_a.params, &head_b.params, |name, a, b| add(&place, name, a, b));
        let settings = |run: &Run, trial: &Trial| -> BTreeMap<String, String> {
            let lasting = trial.header.settings.iter().filter(|one| !OF_THE_PLACE.contains(&one.name.as_str()));
            let value = |one: &Setting| with_unit(&one.name, &without_own_paths(&one.value, &run.header.id));
            lasting.map(|one| (one.name.clone(), value(one))).collect()
        };
        both(&settings(run_a, a), &settings(run_b, b), |name, a, b| add(&place, &format!("setting {name}"), a, b));
        for phase_a in &a.phases {
            let Some(phase_b) = b.phases.iter().find(|phase| phase.header.name == phase_a.header.name) else {
                continue;
            };
            let of = format!("{place}, {}", phase_a.header.name);
            let (a, b) = (&phase_a.header, &phase_b.header);
            add(&of, "clients", a.clients.to_string(), b.clients.to_string());
            let text = |durability: Option<Durability>| durability.map_or(String::new(), |one| one.name().to_string());
            add(&of, "durability", text(a.durability), text(b.durability));
            let rate =
                |rate: Option<f64>| rate.map_or("closed loop".into(), |rate| crate::number::with_unit(rate, "1/s"));
            add(&of, "rate", rate(a.rate_per_s), rate(b.rate_per_s));
        }
    }
    all
}

/// `ext4 on /dev/vda, 27.9 of 252.0 GiB free` without how much of it is free.
fn without_free(value: &str) -> String {
    let Some((before, free)) = value.rsplit_once(", ").filter(|(_, last)| last.ends_with(" free")) else {
        return value.to_string();
    };
    free.split_once(" of ").map_or(value.to_string(), |(_, whole)| format!("{before}, {whole}"))
}

/// A path of the run's own as it would be in any other: without its id, and without the digits of a temporary directory
/// (`/var/tmp/plimsoll-e93a88c7/sockets`).
fn without_own_paths(value: &str, id: &str) -> String {
    const OURS: &str = "/plimsoll-";
    let value = value.replace(id, "RUN");
    let mut parts = value.split(OURS);
    let first = parts.next().unwrap_or_default().to_string();
    parts.fold(first, |all, part| {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_hexdigit() || c == '-');
        format!("{all}{OURS}{rest}")
    })
}

/// Lines that only one of two plans has.
pub fn plan_lines(a: &str, b: &str) -> Vec<ConfigDifference> {
    let of = |(a, b)| ConfigDifference { place: "plan".to_string(), name: "line".to_string(), a, b };
    changed_lines(a, b).into_iter().map(of).collect()
}

/// Entries that are not equal, or in one of the maps only.
fn both(a: &BTreeMap<String, String>, b: &BTreeMap<String, String>, mut differ: impl FnMut(&str, String, String)) {
    let names: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    for name in names {
        let text = |map: &BTreeMap<String, String>| map.get(name).cloned().unwrap_or_default();
        if text(a) != text(b) {
            differ(name, text(a), text(b));
        }
    }
}

/// Line of a plan without its comment.
struct PlanLine<'t> {
    /// Header of its table, such as `[[phase]]`; empty before the first.
    table: &'t str,
    /// Key that it sets; `None` for a header, and for lines within a text or a list.
    key: Option<&'t str>,
    text: &'t str,
}

/// Returns the lines of a plan that set something. No TOML library reads them: the text of a comparison in turn holds two
/// plans, which are not one document. Of scripts in a plan the lines are compared, too.
fn plan_settings(plan: &str) -> Vec<PlanLine<'_>> {
    let (mut table, mut lines) = ("", Vec::new());
    // Delimiter of the text of several lines that holds this one: there, # begins no comment.
    let mut within: Option<&str> = None;
    for line in plan.lines().map(str::trim) {
        let text = if within.is_some() { line } else { without_comment(line) };
        let key = text.split_once('=').map(|(key, _)| key.trim()).filter(|key| within.is_none() && is_key(key));
        if within.is_none() && text.starts_with('[') && is_key(text.trim_matches(['[', ']'])) {
            table = text;
        }
        for delimiter in ["\"\"\"", "'''"] {
            if within.is_none_or(|open| open == delimiter) && text.matches(delimiter).count() % 2 == 1 {
                within = within.is_none().then_some(delimiter);
            }
        }
        if !text.is_empty() {
            lines.push(PlanLine { table, key, text });
        }
    }
    lines
}

fn is_key(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

fn without_comment(line: &str) -> &str {
    let mut quote = None;
    let mut chars = line.char_indices();
    while let Some((at, c)) = chars.next() {
        match quote {
            None if c == '#' => return line[..at].trim_end(),
            None if matches!(c, '"' | '\'') => quote = Some(c),
            Some('"') if c == '\\' => {
                chars.next();
            }
            Some(open) if c == open => quote = None,
            _ => {}
        }
    }
    line
}

fn lacking<'l, 't>(one: &'l [PlanLine<'t>], other: &[PlanLine<'_>]) -> Vec<&'l PlanLine<'t>> {
    one.iter().filter(|line| !other.iter().any(|known| known.text == line.text)).collect()
}

/// Lines that only one of the plans has, in their order. Only lines that set one key of like tables are beside each other.
fn changed_lines(a: &str, b: &str) -> Vec<(String, String)> {
    let (a, b) = (plan_settings(a), plan_settings(b));
    let (only_a, mut only_b) = (lacking(&a, &b), lacking(&b, &a));
    let beside = |line: &PlanLine<'_>| {
        let at = only_b.iter().position(|other| (other.table, other.key) == (line.table, line.key));
        let other = at.map_or(String::new(), |at| only_b.remove(at).text.to_string());
        (line.text.to_string(), other)
    };
    let mut changed: Vec<(String, String)> = only_a.into_iter().map(beside).collect();
    changed.extend(only_b.into_iter().map(|line| (String::new(), line.text.to_string())));
    changed
}

#[cfg(test)]
mod tests {
    use super::{changed_lines, with_unit};

    #[test]
    fn settings_that_are_numbers_have_their_units() {
        for (name, value, shown) in [
            ("innodb_buffer_pool_size", "134217728", "128 MiB"),
            ("maxmemory", "0", "0 B"),
            ("maxmemory", "1025", "1025 B"),
            ("max_allowed_packet", "1099511627776", "1024 GiB"),
            ("busy_timeout", "30000", "30000 ms"),
            ("shared_buffers", "128MB", "128MB"),
            ("hz", "10", "10"),
        ] {
            assert_eq!(with_unit(name, value), shown, "{name}");
        }
    }

    #[test]
    fn only_lines_that_differ_are_shown() {
        let changed = changed_lines("a = 1\nclients = 8\n\nb = 2", "a = 1\n  clients = 16\nb = 2\nc = 3");
        assert_eq!(changed, [("clients = 8".into(), "clients = 16".into()), (String::new(), "c = 3".into())]);
        assert_eq!(changed_lines("x", " x "), []);
    }

    #[test]
    fn comments_are_no_settings_and_only_lines_of_one_setting_share_a_row() {
        let a = "# Asked of reads.\ntitle = \"a # b\" # why\n[[phase]]\nname = \"reads\"\nclients = [2, 8]\n\
                 [[figure]]\nname = \"top\"\n";
        let b = "title = \"a # b\"\n[[phase]]\nclients = 4\n[goals]\np99 = \"5ms\" # low\n";
        let rows = [
            ("name = \"reads\"", ""),
            ("clients = [2, 8]", "clients = 4"),
            ("[[figure]]", ""),
            ("name = \"top\"", ""),
            ("", "[goals]"),
            ("", "p99 = \"5ms\""),
        ];
        assert_eq!(changed_lines(a, b), rows.map(|(a, b)| (a.to_string(), b.to_string())));
        // Within a text of several lines # begins no comment.
        let script = |line: &str| format!("text = '''\n{line}\nSELECT 1\n'''\n# {line}\nclients = 2");
        assert_eq!(changed_lines(&script("# one"), &script("# two")), [("# one".into(), "# two".into())]);
        // Two plans in one text.
        let sides = |rate: u32| format!("# Side A\nrate = 5\n[goals]\n# Side B\nrate = {rate}\n[goals]\n");
        assert_eq!(changed_lines(&sides(6), &sides(7)), [("rate = 6".into(), "rate = 7".into())]);
    }
}
