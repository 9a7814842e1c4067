//! `plimsoll watch`: operations from logs, readings of processes and counters of servers, without a load.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use plimsoll_core::study::GoalKind;
use plimsoll_core::{Catalogue, SamplerSpec, log_time, shown};
use plimsoll_logs::{LineOptions, TimeUnit};
use plimsoll_plan::Dimension;
use plimsoll_plan::keys::SAMPLERS_DEFAULT;
use plimsoll_record::data::Goal;
use plimsoll_trial::{Sink, TrialError, WatchSpec, WatchedLog, WatchedServer};

use crate::args::WatchArgs;
use crate::listen::{self, Listening};
use crate::plans::Passwords;
use crate::progress::Progress;
use crate::verbs::drive::{goal_and_limit, goal_parts};
use crate::verbs::run;
use crate::{interrupt, options, secrets};

/// Directory of control groups.
const GROUPS: &str = "/sys/fs/cgroup";
/// Most characters of a name in reports.
const NAME_MAX: usize = 200;

/// Watches, and reports as `plimsoll run` does. Returns the exit code: whether every goal held.
pub fn run(catalogue: &Catalogue, args: &WatchArgs) -> Result<u8, TrialError> {
    if args.logs.is_empty() && args.pid.is_empty() && args.cgroup.is_none() && args.on.is_none() {
        return Err(TrialError::usage("nothing to watch was named").next(
            "name a LOG, a process with --pid PID, a control group with --cgroup PATH, or a server with --on URL",
        ));
    }
    if let Some(name) = args.name.as_deref().filter(|name| name.trim().is_empty() || name.chars().count() > NAME_MAX) {
        let what = format!("--name {}", shown::clean(&shown::short(name)));
        return Err(TrialError::usage(what).next(format!("write a name of 1 to {NAME_MAX} characters")));
    }
    let (telling, output) = (&args.telling, &args.telling.output);
    let every = output.progress.as_deref().map(|given| options::time("progress", given)).transpose()?;
    let length = args.duration.as_deref().map(|given| options::time("for", given)).transpose()?;
    let zone = args.log_zone.as_deref().map(zone_s).transpose()?;
    let goals = args.goal.iter().map(|given| goal(given)).collect::<Result<Vec<_>, _>>()?;
    let is_live = args.follow || !args.pid.is_empty() || args.cgroup.is_some() || args.on.is_some();
    if length.is_some() && !is_live {
        return Err(TrialError::usage("--for is the duration of watching live, and a log that is there is read whole")
            .next("leave --for out, or add --follow"));
    }
    let of_now = [
        ("--live", telling.live),
        ("--listen", telling.listen.is_some()),
        ("--gadget", telling.gadget.is_some()),
        ("--samplers", !args.samplers.is_empty()),
    ];
    if let Some((option, _)) = of_now.into_iter().find(|(_, is_given)| *is_given && !is_live) {
        return Err(TrialError::usage(format!("{option} is for watching live, and a log that is there is read whole"))
            .next(format!("leave {option} out, or add --follow")));
    }
    let samplers = samplers(catalogue, &args.samplers)?;
    let tag = run::tag(output)?;
    let group = args.cgroup.as_deref().map(group);
    let logs = logs(args)?;
    let server = args.on.as_deref().map(|url| server(url, args.password_file.as_deref())).transpose()?;
    let watched = match server.as_ref().and_then(|server| catalogue.store_of(&server.url)) {
        Some(kind) if args.pid.is_empty() && group.is_none() => kind.spec().name.to_owned(),
        _ => processes(&args.pid, group.as_deref()),
    };
    let label = args.name.clone().unwrap_or(watched);
    let runs_dir = plimsoll_record::default_runs_dir()?;
    let listening = listen::start(telling.listen.as_deref())?;
    let stop = interrupt::of_command();
    let unit = args.log_unit.as_deref().and_then(TimeUnit::named);
    let spec = WatchSpec {
        catalogue,
        logs: &logs,
        format: args.log_format.as_deref(),
        lines: LineOptions {
            unit,
            field: args.log_field.map(usize::from),
            zone_s: zone.unwrap_or(0),
            ..LineOptions::default()
        },
        follow: args.follow,
        pids: &args.pid,
        group: group.as_deref(),
        server: server.as_ref(),
        samplers: &samplers,
        label: &label,
        length,
        goals: &goals,
        runs_dir: &runs_dir,
        stop: &stop,
        command_line: secrets::shown_command_line(),
        tag,
    };
    let progress = Progress::new(output.quiet, every, output.json.then(|| Arc::clone(&stop)));
    let work = |sink: &dyn Sink| plimsoll_trial::watch(&spec, sink);
    let ended = run::displayed(telling, &progress, listening.as_ref(), work)?;
    let concluded = run::conclude(&ended.recording, ended.result, output);
    listening.into_iter().for_each(Listening::end);
    match concluded? {
        (state, None) => Ok(run::code_of(state, !is_live && stop.load(Ordering::SeqCst))),
        (_, Some(error)) => Err(error),
    }
}

/// Returns the names of samplers, without any given those of `default`.
fn samplers(catalogue: &Catalogue, given: &[String]) -> Result<Vec<String>, TrialError> {
    let default = [SAMPLERS_DEFAULT.to_owned()];
    let mut names: Vec<String> = Vec::new();
    for given in if given.is_empty() { &default[..] } else { given } {
        let is_meant = |one: &&SamplerSpec| if given == SAMPLERS_DEFAULT { one.by_default } else { one.name == given };
        let meant: Vec<&str> = catalogue.samplers.iter().filter(is_meant).map(|one| one.name).collect();
        if meant.is_empty() {
            let all: Vec<&str> = catalogue.samplers.iter().map(|one| one.name).collect();
            return Err(TrialError::usage(format!("--samplers {given}: there is no sampler of this name"))
                .next(format!("samplers: {SAMPLERS_DEFAULT}, {}", all.join(", "))));
        }
        let new: Vec<&str> = meant.into_iter().filter(|name| !names.iter().any(|known| known == name)).collect();
        names.extend(new.into_iter().map(str::to_owned));
    }
    Ok(names)
}

/// Returns the server with this URL.
fn server(url: &str, password_file: Option<&Path>) -> Result<WatchedServer, TrialError> {
    let given = [url.to_owned()];
    let passwords = Passwords::of_options(password_file, &[&given[..]])?;
    let url = plimsoll_plan::split_password(url).0;
    let login = passwords.of(&url);
    Ok(WatchedServer { url, login })
}

/// Returns the logs, each with a name of its own.
fn logs(args: &WatchArgs) -> Result<Vec<WatchedLog>, TrialError> {
    let mut logs: Vec<WatchedLog> = args.logs.iter().map(|path| log(path, args)).collect();
    let others = |log: &WatchedLog, is_same: fn(&WatchedLog, &WatchedLog) -> bool| {
        logs.iter().filter(|one| is_same(one, log)).count() > 1
    };
    if let Some(twice) = logs.iter().find(|log| others(log, |one, log| one.path == log.path)) {
        return Err(TrialError::usage(format!("{} was named twice", twice.path.display())).next("name it once"));
    }
    let shared: Vec<bool> = logs.iter().map(|log| others(log, |one, log| one.label == log.label)).collect();
    for (log, _) in logs.iter_mut().zip(shared).filter(|(_, is_shared)| *is_shared) {
        log.label = shown::clean(&log.path.display().to_string());
    }
    Ok(logs)
}

fn log(path: &Path, args: &WatchArgs) -> WatchedLog {
    let whole = if path.file_name().is_none() { path.canonicalize().ok() } else { None };
    let path_of_name = whole.as_deref().unwrap_or(path);
    let own = match path_of_name.file_name() {
        _ if path == Path::new("-") => "standard input".to_owned(),
        Some(name) => name.to_string_lossy().into_owned(),
        None => path.display().to_string(),
    };
    let label = match &args.name {
        Some(name) if args.logs.len() == 1 => name.clone(),
        Some(name) => format!("{name} {own}"),
        None => own,
    };
    WatchedLog { label: shown::clean(&label), path: path.to_owned() }
}

/// Returns the directory of a control group.
fn group(path: &Path) -> PathBuf {
    let below = path.strip_prefix(GROUPS).or_else(|_| path.strip_prefix("/")).unwrap_or(path);
    let mut hierarchies = vec![PathBuf::from(GROUPS), Path::new(GROUPS).join("unified")];
    // Version 1 has a directory for each hierarchy.
    let mut others: Vec<PathBuf> =
        std::fs::read_dir(GROUPS).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    others.sort();
    hierarchies.extend(others);
    let places = hierarchies.into_iter().map(|hierarchy| hierarchy.join(below));
    let mut all = std::iter::once(path.to_owned()).chain(places);
    all.find(|place| place.join("cgroup.procs").exists()).unwrap_or_else(|| path.to_owned())
}

/// Returns the name of processes in reports: that of their control group, or of the first program.
fn processes(pids: &[u32], group: Option<&Path>) -> String {
    if let Some(name) = group.and_then(Path::file_name) {
        return shown::clean(&name.to_string_lossy());
    }
    let name = pids.first().and_then(|pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).ok());
    name.map_or("processes".to_owned(), |name| shown::clean(name.trim()))
}

fn zone_s(given: &str) -> Result<i64, TrialError> {
    log_time::offset_s(given.as_bytes()).ok_or_else(|| {
        TrialError::usage(format!("--log-zone {given}: this is no distance from UTC")).next("write +01:00, -0530 or Z")
    })
}

/// Parses a goal: `p99=20ms`, `GET.p99=1s`.
fn goal(given: &str) -> Result<Goal, TrialError> {
    let refused = |what: &str, next: &str| Err(TrialError::usage(format!("--goal {given}: {what}")).next(next));
    let Some((name, _, limit)) = goal_and_limit(given) else {
        return refused("this is not a goal and its limit", "write NAME=LIMIT, for example p99=20ms");
    };
    let (of, what) = match goal_parts(name.trim()) {
        (Some(status), code) if GoalKind::named(status) == Some(GoalKind::Status) => (Some(code), status),
        parts => parts,
    };
    let (dimension, unit) = match GoalKind::named(what) {
        Some(GoalKind::Percentile(_) | GoalKind::Mean) => (Dimension::Time, "ns"),
        Some(GoalKind::Errors) => (Dimension::Share, "%"),
        Some(GoalKind::Status) if of.is_some_and(is_failure) => (Dimension::Share, "%"),
        Some(GoalKind::Rate) => (Dimension::Rate, "1/s"),
        _ => {
            let next = "goals are percentiles such as p99, mean, errors, rate, and failures such as status.503 or \
                        status.5xx; 404 and 410 are not among the failures";
            return refused("what is watched has no such figure", next);
        }
    };
    let limit = plimsoll_plan::parse_quantity(limit, dimension)
        .map_err(|(what, next)| TrialError { next, ..TrialError::usage(format!("--goal {given}: {what}")) })?;
    match GoalKind::named(what) {
        // A class of codes is `5xx` in reports.
        Some(what @ GoalKind::Status) => {
            Ok(Goal { what, of: of.map(|code| code.replace("XX", "xx")), limit, unit: unit.to_owned() })
        }
        Some(what) => Ok(Goal { what, of: of.map(str::to_owned), limit, unit: unit.to_owned() }),
        None => refused("this is no goal", "write NAME=LIMIT, for example p99=20ms"),
    }
}

/// Returns true if operations in a log may fail with `code`, or with codes of the class `code`, such as `5xx`.
fn is_failure(code: &str) -> bool {
    match code.replace("XX", "xx").strip_suffix("xx") {
        Some(class) => matches!(class, "4" | "5"),
        None => code
            .parse::<u16>()
            .is_ok_and(|number| number.to_string() == code && !matches!(number, 0 | 200..=399 | 404 | 410)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_have_units_and_may_be_of_one_operation_type() {
        let shown = |given: &str| goal(given).map(|goal| (goal.name(), goal.limit, goal.unit)).unwrap();
        assert_eq!(shown("p99=20ms"), ("p99".to_owned(), 2e7, "ns".to_owned()));
        assert_eq!(shown("GET.p99.9<=1s"), ("GET.p99.9".to_owned(), 1e9, "ns".to_owned()));
        assert_eq!(shown("errors=0.1%"), ("errors".to_owned(), 0.1, "%".to_owned()));
        assert_eq!(shown("status.5xx=1%"), ("status.5xx".to_owned(), 1.0, "%".to_owned()));
        assert_eq!(shown("rate=100/s"), ("rate".to_owned(), 100.0, "1/s".to_owned()));
        for given in
            ["p99", "lost=0", "stale=0", "outage=1s", "status=1%", "speed=1s", "p99=20", "p99=fast", "status.busy=1%"]
        {
            assert!(goal(given).is_err(), "{given}");
        }
        let told = |given: &str| goal(given).unwrap_err().what;
        assert_eq!(told("p99=20"), "--goal p99=20: needs a unit: \"20ms\" or \"20s\"");
        assert_eq!(told("GET.errors=1"), "--goal GET.errors=1: needs a unit: \"1%\"");
        // These would hold always.
        for given in ["status.404=1%", "status.200=1%", "status.2xx=1%", "status.0503=1%"] {
            assert!(goal(given).is_err(), "{given}");
        }
    }

    #[test]
    fn a_zone_is_a_distance_from_utc() {
        assert_eq!(zone_s("-05:30"), Ok(-19_800));
        assert!(zone_s("CET").is_err());
    }
}
