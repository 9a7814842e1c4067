//! Commands that test a cause with `plimsoll ab`: the run as it was, and without the cause, in turn.
//!
//! | series | side without the cause |
//! |---|---|
//! | limited processors, devices or memory | no such limit, if the command sets one |
//! | the server's processor time; waits for locks | half of the clients, or of the rate |
//! | devices, and data that waits for them | `durability=buffered`, if the store has it: writes wait for no device |
//! | the generator | twice the workers; if processors or clients do not suffice, half of the load |
//!
//! A fault is on side A only. Other causes, and runs that are no drive of one store under one load, have no sides.

use plimsoll_core::sampler::{HELD_BY, STORE};
use plimsoll_core::{Durability, shell_word};
use plimsoll_record::data::{FaultKind, Run};

use super::command::{FAULTS, half_load, has_one_load, words_without};
use super::moments::SlowPhase;
use super::series::OFFERED_LOAD;
use crate::number;
use crate::resource;

/// Options of a drive that no comparison takes, or that it chooses itself.
const NOT_OF_SIDES: &[&str] = &["--seed", "--for", "--ops", "--warmup", "--goal", "--repeats"];
/// Shortest and longest turn of a comparison, in seconds, and pairs for which its budget suffices.
const TURN_S: (f64, f64) = (5.0, 300.0);
const PAIRS: f64 = 16.0;
/// Length of a drive without an option for it. A comparison, which takes none, checks times of faults against it.
const DRIVE_NS: u64 = 30_000_000_000;
/// Limits of private servers, and their values without a limit. That of processors is the number of all.
const CPUS: &str = "cpus";
const OF_DISK: &[(&str, &str)] = &[("read_bps", "0B"), ("write_bps", "0B"), ("read_iops", "0"), ("write_iops", "0")];
const OF_MEMORY: &[(&str, &str)] = &[("memory", "0B")];
/// Kinds of faults that leave the cluster as it was when they are healed, so that a turn without them can follow.
const HEALED: [FaultKind; 10] = [
    FaultKind::Kill,
    FaultKind::Stop,
    FaultKind::Pause,
    FaultKind::Hang,
    FaultKind::Reset,
    FaultKind::Cut,
    FaultKind::Link,
    FaultKind::Limit,
    FaultKind::Storm,
    FaultKind::Neighbour,
];

/// Resource that a series is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Processor time that the server uses.
    ServerProcessor,
    /// Processors of the machine, and waits for them.
    Processor,
    Disk,
    Memory,
    Locks,
    Generator,
}

impl Class {
    /// Returns the class of a series by its source and its name in a sentence; `None` if no option of a drive is about it.
    fn of(source: &str, name: &str) -> Option<Self> {
        let ends = |words: &[&str]| words.iter().any(|word| name.ends_with(word));
        Some(match source {
            _ if name.starts_with("missing ") => return None,
            "generator" if name != OFFERED_LOAD => Class::Generator,
            "server" if name.contains("CPU") => Class::ServerProcessor,
            "server" if ends(&["for a processor", "run queue delay"]) => Class::Processor,
            "cgroup" if ends(&["throttled", "throttles", "cpu wait"]) => Class::Processor,
            "cpu" if name == "waiting for disks" => Class::Disk,
            "tasks" if ends(&["blocked"]) => Class::Disk,
            "cpu" | "tasks" => Class::Processor,
            "pressure" if name.starts_with("waiting for a processor") => Class::Processor,
            "pressure" if name.starts_with("waiting for io") => Class::Disk,
            "pressure" => Class::Memory,
            "disk" | "block" | "fsync" => Class::Disk,
            "server" | "cgroup" if ends(&[": read", ": written", ": reads", ": writes", "io wait"]) => Class::Disk,
            "server" | "cgroup" if ends(&["memory", "memory wait", "limit hits", "kills"]) => Class::Memory,
            "memory" if ends(&["dirty", "writeback"]) => Class::Disk,
            "memory" => Class::Memory,
            STORE
                if name.contains(HELD_BY)
                    || ends(&["locks", "idle in transaction", "row lock waits", "row lock time"]) =>
            {
                Class::Locks
            }
            STORE if ends(&["waiting for io", "log waits", "log buffers full", "dirty pages", "for a free page"]) => {
                Class::Disk
            }
            _ => return None,
        })
    }
}

/// Returns the words of a run that was one drive of one store, without its verb, as a comparison takes them; `None` for
/// other runs, and for a load that changes.
pub fn of_drive(run: &Run, phase: &SlowPhase<'_, '_>) -> Option<Vec<String>> {
    let words = words_without(run, &[NOT_OF_SIDES, FAULTS].concat());
    let [verb, rest @ ..] = words.as_slice() else { return None };
    let is_one = verb == "drive" && run.trials.len() == 1 && phase.facts.phase.header.stages.is_empty();
    is_one.then(|| rest.to_vec())
}

/// Returns the command that compares sides in turns of about `turn_s` seconds. The budget is twice that of the fewest
/// pairs that can decide.
pub fn comparison(drive: &[String], sides: &str, metric: &str, turn_s: f64) -> String {
    let turn_s = turn_s.ceil().clamp(TURN_S.0, TURN_S.1);
    let budget_s = turn_s * PAIRS * 2.0;
    format!("plimsoll ab {} {sides} --metric {metric} --turn {turn_s}s --budget {budget_s}s", drive.join(" "))
}

/// Returns a sentence and the command that compare with a side without the cause that a series of this source and name
/// shows; `None` if no option of the run's drive takes the cause away.
pub fn without(run: &Run, phase: &SlowPhase<'_, '_>, series: (&str, &str), turn_s: f64) -> Option<(String, String)> {
    let drive = of_drive(run, phase)?;
    let options = options(run, phase, Class::of(series.0, series.1)?)?;
    let sides: Vec<String> = options.iter().map(|option| format!("--b {}", shell_word(option))).collect();
    let named: Vec<String> = options.iter().map(|option| format!("`{option}`")).collect();
    let words = format!("The command compares both in turn, side B with {}.", number::list(&named));
    Some((words, comparison(&drive, &sides.join(" "), "p99", turn_s)))
}

/// Returns the command that compares the run with its only fault, on side A, and without it; `None` if there are others,
/// the fault is drawn, has lasting effects or is no option, or a turn cannot have it at the same time.
pub fn without_fault(run: &Run, phase: &SlowPhase<'_, '_>) -> Option<String> {
    let drive = of_drive(run, phase)?;
    let faults = &phase.facts.trial.faults;
    let is_healed = !faults.is_empty() && faults.iter().all(|fault| HEALED.contains(&fault.kind));
    let start_ns = phase.facts.phase.header.start_ns;
    let is_early = faults.iter().all(|fault| fault.planned_ns.saturating_sub(start_ns) < DRIVE_NS);
    let turn_s = length_s(phase).round();
    let fits = |fault: &str| {
        let mut words = fault.split_whitespace();
        let is_drawn = words.clone().any(|word| word == "drawn");
        let is_share = words.any(|word| word == "at") && words.next().is_some_and(|time| time.ends_with('%'));
        !is_drawn && (is_share || is_early) && (TURN_S.0..=TURN_S.1).contains(&turn_s)
    };
    let fault = only_fault(run).filter(|fault| is_healed && fits(fault))?;
    let side = format!("--a {}", shell_word(&format!("fault={fault}")));
    // Clients of a closed loop wait, and few operations are slow.
    let metric = if phase.facts.open_loop { "p99" } else { "rate" };
    Some(comparison(&drive, &side, metric, turn_s))
}

/// Returns the length of a phase, in seconds.
pub fn length_s(phase: &SlowPhase<'_, '_>) -> f64 {
    let phase = phase.facts.phase;
    phase.end.end_ns.saturating_sub(phase.header.start_ns) as f64 / 1e9
}

/// Returns the options of a side without a cause of this class.
fn options(run: &Run, phase: &SlowPhase<'_, '_>, class: Class) -> Option<Vec<String>> {
    let half = || half_load(phase).map(|(key, half)| vec![format!("{key}={half}")]);
    match class {
        Class::ServerProcessor => all_processors(run).or_else(half),
        Class::Processor => all_processors(run),
        Class::Disk => unlimited(run, OF_DISK).or_else(|| buffered(phase)),
        Class::Memory => unlimited(run, OF_MEMORY),
        Class::Locks => half(),
        Class::Generator => more_workers(run, phase).or_else(half),
    }
}

/// Returns the values of an option of the command.
fn given<'r>(run: &'r Run, option: &'r str) -> impl Iterator<Item = &'r str> {
    let words = &run.header.command_line;
    words.iter().enumerate().filter_map(move |(at, word)| match word.strip_prefix(option)? {
        "" => words.get(at + 1).map(String::as_str),
        joined => joined.strip_prefix('='),
    })
}

/// Returns the settings of the command for private servers: `postgres.cpus`, its last part `cpus`, and the value.
fn settings(run: &Run) -> impl Iterator<Item = (&str, &str, &str)> {
    given(run, "--set").filter_map(|setting| {
        let (name, value) = setting.split_once('=')?;
        let (_, limit) = name.split_once('.')?;
        Some((name, limit, value))
    })
}

/// Returns the settings of the command that limit a server by `limits`, without the limits; `None` without any.
fn unlimited(run: &Run, limits: &[(&str, &str)]) -> Option<Vec<String>> {
    let set = settings(run).filter_map(|(name, limit, value)| {
        let (_, unlimited) = limits.iter().find(|(known, _)| *known == limit)?;
        (value != *unlimited).then(|| format!("{name}={unlimited}"))
    });
    Some(set.collect()).filter(|all: &Vec<String>| !all.is_empty())
}

/// Returns the settings of the command that limit a server to a part of the processors, with all of them.
fn all_processors(run: &Run) -> Option<Vec<String>> {
    let all = resource::processors(&run.series);
    let is_part = |limit: &str, value: &str| limit == CPUS && value.parse::<f64>().is_ok_and(|part| part < all);
    let set = settings(run).filter(|&(_, limit, value)| is_part(limit, value));
    Some(set.map(|(name, ..)| format!("{name}={all}")).collect()).filter(|all: &Vec<String>| !all.is_empty())
}

/// Returns the option for writes that wait for no device.
fn buffered(phase: &SlowPhase<'_, '_>) -> Option<Vec<String>> {
    let is_durable = phase.facts.phase.header.durability == Some(Durability::Durable);
    let may_buffer = phase.facts.trial.header.may_buffer;
    (is_durable && may_buffer).then(|| vec![format!("durability={}", Durability::Buffered.name())])
}

/// Returns the option for twice the workers.
fn more_workers(run: &Run, phase: &SlowPhase<'_, '_>) -> Option<Vec<String>> {
    let header = &phase.facts.phase.header;
    let workers = header.workers.saturating_mul(2);
    let is_possible =
        workers > 0 && workers <= header.clients && f64::from(workers) <= resource::processors(&run.series);
    (is_possible && has_one_load(phase)).then(|| vec![format!("workers={workers}")])
}

/// Returns the text of the only fault of the command.
fn only_fault(run: &Run) -> Option<&str> {
    let mut all = given(run, "--fault");
    let first = all.next()?;
    let has_others = all.next().is_some() || given(run, "--fault-pause").next().is_some();
    (!has_others).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_has_the_class_of_its_resource_or_none() {
        for (source, name, class) in [
            ("server", "the server's CPU", Some(Class::ServerProcessor)),
            ("server", "server of node 2: run queue delay", Some(Class::Processor)),
            ("server", "server: written", Some(Class::Disk)),
            ("server", "the number of stopped processes of the server", None),
            ("cgroup", "cgroup of node 1: throttled", Some(Class::Processor)),
            ("cgroup", "cgroup of node 1: io wait", Some(Class::Disk)),
            ("cpu", "the machine's CPU", Some(Class::Processor)),
            ("cpu", "waiting for disks", Some(Class::Disk)),
            ("tasks", "tasks: blocked", Some(Class::Disk)),
            ("pressure", "waiting for io, all tasks at once,", Some(Class::Disk)),
            ("pressure", "waiting for memory", Some(Class::Memory)),
            ("disk", "disk vda", Some(Class::Disk)),
            ("memory", "memory: dirty", Some(Class::Disk)),
            ("memory", "memory: used", Some(Class::Memory)),
            (STORE, "pg: waiting for locks", Some(Class::Locks)),
            (STORE, "pg: waiting for table t, held by a session that ran VACUUM", Some(Class::Locks)),
            (STORE, "pg: waiting for io", Some(Class::Disk)),
            (STORE, "checkpoint of pg", None),
            (STORE, "missing readings of pg node 2", None),
            ("generator", "the generator's wait for a processor", Some(Class::Generator)),
            ("generator", OFFERED_LOAD, None),
            ("tcp", "tcp of node 2: retransmits", None),
        ] {
            assert_eq!(Class::of(source, name), class, "{name}");
        }
    }
}
