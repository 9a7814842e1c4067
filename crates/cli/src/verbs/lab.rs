//! `plimsoll lab`: clusters that stay until they are ended.

mod logs;
mod status;
mod up;

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Duration;

use plimsoll_core::{Catalogue, LimitChange, Nodes, Params, ProgramChange, Servers, Span, StoreError};
use plimsoll_lab::standing::{self, Lab, NodeStatus, PublishedNode, TRUE_CLOCK};
use plimsoll_plan::timeline::{parse_clock, parse_limit, parse_link};
use plimsoll_trial::{TrialError, io_error};

use crate::args::{LabAction, LabNode};
use crate::error::exit;
use crate::interrupt;

/// Between two looks at a log that is followed.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(200);
/// The host that operations are sent from, where a node is named.
const LOAD: &str = "load";

/// Carries out the action.
pub fn run(catalogue: &Catalogue, action: &LabAction) -> Result<u8, TrialError> {
    match action {
        LabAction::Up(args) if args.keep && !args.held => up::up_and_away(),
        LabAction::Up(args) => up::up(catalogue, args),
        LabAction::Status { name, json } => status::status(name.as_deref(), *json),
        LabAction::Add { name } => {
            let lab = one(name.as_deref())?;
            crate::say(&format!("lab {}: adding a node", lab.name()));
            let number = lab.add_to_stay()?;
            crate::say(&format!("node {} has joined", number + 1));
            Ok(exit::OK)
        }
        LabAction::Remove(of) => {
            let (lab, node) = node_of(&of.at)?;
            let number = node.ok_or_else(|| {
                TrialError::usage("the node to remove is missing").next("plimsoll lab remove NAME NODE")
            })?;
            lab.remove(number)?;
            crate::say(&format!("node {} has left", number + 1));
            Ok(exit::OK)
        }
        LabAction::Logs { of, lines, follow } => logs(of, *lines, *follow),
        LabAction::Shell { name, node } => {
            let at: Vec<String> = name.iter().chain(node).cloned().collect();
            let shell = std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
            on_host(catalogue, &at, &[shell])
        }
        LabAction::Exec { at, command } => on_host(catalogue, at, command),
        LabAction::Stop(of) => act(of, "stopped", |lab, nodes| lab.stop(nodes)),
        LabAction::Start(of) => act(of, "ready", |lab, nodes| lab.start(nodes)),
        LabAction::Restart { of, with, rolling: true } => restart_rolling(of, with.as_deref()),
        LabAction::Restart { of, with: None, .. } => act(of, "ready again", |lab, nodes| lab.restart(nodes)),
        LabAction::Restart { of, with: Some(program), .. } => restart_with(of, program),
        LabAction::Kill(of) => act(of, "killed", |lab, nodes| lab.kill(nodes)),
        LabAction::Pause(of) => act(of, "paused", |lab, nodes| lab.pause(nodes)),
        LabAction::Hang(of) => act(of, "hanging", |lab, nodes| lab.hang(nodes)),
        LabAction::Reset(of) => act(of, "reset", |lab, nodes| lab.reset(nodes)),
        LabAction::Reload(of) => act(of, "reloaded", |lab, nodes| lab.reload(nodes)),
        LabAction::Resume(of) => act(of, "resumed", |lab, nodes| lab.resume(nodes)),
        LabAction::Promote(of) => {
            let (lab, node) = node_of(&of.at)?;
            let next = "plimsoll lab promote NAME NODE";
            let number = node.ok_or_else(|| TrialError::usage("the node to promote is missing").next(next))?;
            let took_s = lab.promote(number)?.length().as_secs_f64();
            crate::say(&format!("lab {}: node {} is the primary after {took_s:.2} s", lab.name(), number + 1));
            Ok(exit::OK)
        }
        LabAction::Link { of, delay, jitter, loss, duplicate, reorder, corrupt, close, rate, plain } => {
            let given = [
                ("delay", delay),
                ("jitter", jitter),
                ("loss", loss),
                ("duplicate", duplicate),
                ("reorder", reorder),
                ("corrupt", corrupt),
                ("close", close),
                ("rate", rate),
            ];
            let given: Vec<(&str, &str)> =
                given.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))).collect();
            let shows = !plain && given.is_empty();
            let link = parse_link(&given)
                .map_err(|(what, next)| TrialError { next, ..TrialError::usage(format!("--{what}")) })?;
            let (lab, numbers) = nodes_of(&of.at)?;
            if shows {
                return status::links(&lab, &numbers);
            }
            in_turn(&each(&numbers), |nodes| place(*nodes), |nodes| lab.set_link(*nodes, link).map(drop))?;
            crate::say(&format!("lab {}: {}: {link}", lab.name(), said(&numbers)));
            Ok(exit::OK)
        }
        LabAction::Limit { at } => limit(at),
        LabAction::Clock { at } => clock(at),
        LabAction::Publish { of, port } => {
            let (lab, mut numbers) = nodes_of(&of.at)?;
            if numbers.is_empty() {
                numbers = lab.nodes().iter().map(|node| node.number).collect();
            }
            standing::publish(&lab, &numbers, *port, &interrupt::of_command(), |published| {
                for PublishedNode { node, inside, outside } in published {
                    crate::say(&format!("{outside} is node {} of lab {} ({inside})", node + 1, lab.name()));
                }
            })?;
            Ok(exit::OK)
        }
        LabAction::Down { name, all } => down(name.as_deref(), *all),
    }
}

/// Makes clocks wrong, or true again; shows them without an error.
fn clock(words: &[String]) -> Result<u8, TrialError> {
    let is_error = |word: &String| word.contains('=') || word == TRUE_CLOCK;
    let (errors, at): (Vec<String>, Vec<String>) = words.iter().cloned().partition(is_error);
    let change = match errors.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => {
            let (lab, numbers) = nodes_of(&at)?;
            return status::clocks(&lab, &numbers);
        }
        [TRUE_CLOCK] => None,
        ref errors => Some(parse_clock(errors).map_err(|(what, next)| TrialError { next, ..TrialError::usage(what) })?),
    };
    let (lab, numbers) = nodes_of(&at)?;
    in_turn(&each(&numbers), |nodes| place(*nodes), |nodes| lab.set_clock(*nodes, change).map(drop))?;
    crate::say(&format!("lab {}: clock of {}: {}", lab.name(), said(&numbers), errors.join(" ")));
    Ok(exit::OK)
}

/// Changes limits, by one request for each.
fn limit(words: &[String]) -> Result<u8, TrialError> {
    let (limits, at): (Vec<String>, Vec<String>) = words.iter().cloned().partition(|word| word.contains('='));
    if limits.is_empty() {
        return Err(TrialError::usage("no limit is given").next("write cpus=0.5, memory=1GiB, or cpus=none"));
    }
    let changes: Vec<LimitChange> = limits.iter().map(|given| parse_limit(given)).collect::<Result<_, _>>()?;
    let (lab, numbers) = nodes_of(&at)?;
    let of_node = |nodes: Nodes| changes.iter().zip(&limits).map(move |(change, given)| (nodes, change, given));
    let all: Vec<(Nodes, &LimitChange, &String)> = each(&numbers).into_iter().flat_map(of_node).collect();
    in_turn(
        &all,
        |(nodes, _, given)| format!("{given} of {}", place(*nodes)),
        |(nodes, change, given)| lab.change_limit_as(*nodes, change, given).map(drop),
    )?;
    crate::say(&format!("lab {}: {}: {}", lab.name(), said(&numbers), limits.join(" ")));
    Ok(exit::OK)
}

fn labs() -> Result<PathBuf, TrialError> {
    Ok(standing::beside(&plimsoll_record::default_runs_dir()?))
}

/// The lab called `name`, or the only one.
fn one(name: Option<&str>) -> Result<Lab, TrialError> {
    let labs = labs()?;
    let name = match name {
        Some(name) => name.strip_prefix("lab:").unwrap_or(name).to_owned(),
        None => match &standing::names(&labs)?[..] {
            [only] => only.clone(),
            [] => return Err(TrialError::usage("no lab stands").next("make one: plimsoll lab up STORE --keep")),
            all => {
                return Err(TrialError::usage(format!("{} labs stand", all.len()))
                    .next(format!("name one of them: {}", all.join(", "))));
            }
        },
    };
    Lab::open(&labs, &name)
}

/// The number of a node as people write it, from 1 on.
fn number(word: &str) -> Option<usize> {
    word.parse::<usize>().ok()?.checked_sub(1)
}

/// Returns the lab and the nodes named in `[NAME] [NODE]…`.
fn nodes_of(at: &[String]) -> Result<(Lab, Vec<usize>), TrialError> {
    let (name, nodes) = match at {
        [] => (None, at),
        // A lab may be called 2, too; then its nodes are named behind it.
        [first, ..] if number(first).is_some() && Lab::open(&labs()?, first).is_err() => (None, at),
        [name, nodes @ ..] => (Some(name.as_str()), nodes),
    };
    let lab = one(name)?;
    let known = |word: &String| match number(word) {
        Some(number) if lab.nodes().iter().any(|node| node.number == number) => Ok(number),
        _ => {
            let known: Vec<String> = lab.nodes().iter().map(|node| (node.number + 1).to_string()).collect();
            let what = format!("lab {} has no node `{}`", lab.name(), plimsoll_core::shown::clean(word));
            Err(TrialError::usage(what).next(format!("nodes: {}", known.join(", "))))
        }
    };
    let mut numbers = Vec::new();
    for word in nodes {
        let number = known(word)?;
        if !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    Ok((lab, numbers))
}

/// Returns the lab and at most one node.
fn node_of(at: &[String]) -> Result<(Lab, Option<usize>), TrialError> {
    match nodes_of(at)? {
        (lab, numbers) if numbers.len() < 2 => Ok((lab, numbers.first().copied())),
        _ => Err(TrialError::usage("several nodes are named").next("name one")),
    }
}

fn said(numbers: &[usize]) -> String {
    let all: Vec<String> = numbers.iter().map(|number| (number + 1).to_string()).collect();
    match &all[..] {
        [] => "all nodes".to_owned(),
        [only] => format!("node {only}"),
        all => format!("nodes {}", all.join(", ")),
    }
}

/// Returns the requests for these nodes: one for each, or one for all.
fn each(numbers: &[usize]) -> Vec<Nodes> {
    if numbers.is_empty() { vec![Nodes::All] } else { numbers.iter().copied().map(Nodes::One).collect() }
}

fn place(nodes: Nodes) -> String {
    match nodes {
        Nodes::One(number) => said(&[number]),
        Nodes::Several(all) => said(&all.numbers().collect::<Vec<_>>()),
        Nodes::All => said(&[]),
    }
}

/// Makes changes in turn. If one is refused, those before it stay, and the error names them.
fn in_turn<T>(
    changes: &[T],
    name: impl Fn(&T) -> String,
    mut make: impl FnMut(&T) -> Result<(), StoreError>,
) -> Result<(), TrialError> {
    for (at, change) in changes.iter().enumerate() {
        make(change).map_err(|error| {
            let before: Vec<String> = changes.iter().take(at).map(&name).collect();
            if before.is_empty() {
                return error;
            }
            let kept = format!("already changed, and kept: {}", before.join(", "));
            let detail = error.detail.iter().cloned().chain([kept]).collect::<Vec<_>>().join("; ");
            error.detail(detail)
        })?;
    }
    Ok(())
}

fn act(of: &LabNode, done: &str, act: impl Fn(&Lab, Nodes) -> Result<Span, StoreError>) -> Result<u8, TrialError> {
    let (lab, numbers) = nodes_of(&of.at)?;
    let mut length = Duration::ZERO;
    let mut counted = |nodes: &Nodes| act(&lab, *nodes).map(|span| length += span.length());
    in_turn(&each(&numbers), |nodes| place(*nodes), &mut counted)?;
    crate::say(&format!("lab {}: {} {done} after {:.2} s", lab.name(), said(&numbers), length.as_secs_f64()));
    Ok(exit::OK)
}

/// Restarts nodes with another program.
fn restart_with(of: &LabNode, program: &Path) -> Result<u8, TrialError> {
    let program = absolute(program)?;
    let (lab, numbers) = nodes_of(&of.at)?;
    let mut changes: Vec<ProgramChange> = Vec::new();
    let restart = |nodes: &Nodes| lab.restart_with(*nodes, &program).map(|changed| changes.extend(changed));
    in_turn(&each(&numbers), |nodes| place(*nodes), restart)?;
    say_changes(&lab, &numbers, &changes);
    Ok(exit::OK)
}

fn absolute(program: &Path) -> Result<PathBuf, TrialError> {
    std::path::absolute(program).map_err(|error| io_error(program.display(), &error))
}

/// Prints the versions of restarted nodes.
fn say_changes(lab: &Lab, numbers: &[usize], changes: &[ProgramChange]) {
    for ProgramChange { node, from, to, .. } in changes {
        crate::say(&format!("lab {}: node {} ready again, from {from} to {to}", lab.name(), node + 1));
    }
    if changes.is_empty() {
        crate::say(&format!("lab {}: {} ready again with its own program", lab.name(), said(numbers)));
    }
}

/// Restarts all nodes one after the other, with another program if one is given.
fn restart_rolling(of: &LabNode, program: Option<&Path>) -> Result<u8, TrialError> {
    let program = program.map(absolute).transpose()?;
    let (lab, named) = nodes_of(&of.at)?;
    if !named.is_empty() {
        let next = format!("leave the numbers out: plimsoll lab restart {} --rolling", lab.name());
        return Err(TrialError::usage("--rolling restarts all nodes").next(next));
    }
    // A node that is down would be started, too.
    let order = lab.rolling_order()?;
    order.iter().try_for_each(|number| {
        let start = format!("start it first: plimsoll lab start {} {}", lab.name(), number + 1);
        let at = |error: StoreError| {
            let what = format!("{}: {}", said(&[*number]), error.what);
            StoreError { what, ..error }.or_next(start)
        };
        lab.check(Nodes::One(*number)).map_err(at)
    })?;
    let restart = |number: &usize| {
        let nodes = Nodes::One(*number);
        match &program {
            Some(program) => say_changes(&lab, &[*number], &lab.restart_with(nodes, program)?),
            None => {
                let took_s = lab.restart(nodes)?.length().as_secs_f64();
                crate::say(&format!("lab {}: {} ready again after {took_s:.2} s", lab.name(), place(nodes)));
            }
        }
        // Waits until all are one cluster.
        lab.start(Nodes::All).map(drop)
    };
    in_turn(&order, |number| said(&[*number]), restart)?;
    Ok(exit::OK)
}

fn down(name: Option<&str>, all: bool) -> Result<u8, TrialError> {
    let names = match all {
        true => standing::names(&labs()?)?,
        false => vec![one(name)?.name().to_owned()],
    };
    let mut failed = None;
    for name in &names {
        match Lab::open(&labs()?, name).and_then(Lab::down) {
            Ok(()) => crate::say(&format!("lab {name} is gone")),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    if names.is_empty() {
        crate::say("no lab stands");
    }
    failed.map_or(Ok(exit::OK), Err)
}

fn logs(of: &LabNode, lines: Option<usize>, follow: bool) -> Result<u8, TrialError> {
    let (lab, node) = node_of(&of.at)?;
    let status = lab.status()?;
    let meant: Vec<&NodeStatus> =
        status.nodes.iter().filter(|status| node.is_none_or(|number| status.number == number)).collect();
    if follow && meant.len() > 1 {
        return Err(TrialError::usage("one log can be followed").next("name a node: plimsoll lab logs NAME NODE -f"));
    }
    let mut read = 0;
    for node in &meant {
        let failed = |error: std::io::Error| io_error(node.log.display(), &error);
        if meant.len() > 1 {
            crate::print(&format!("==> node {} ({}) <==\n", node.number + 1, node.role))?;
        }
        let mut log = BufReader::new(File::open(&node.log).map_err(failed)?);
        let print = |line: &[u8]| {
            let text = String::from_utf8_lossy(line);
            crate::print(&format!("{}\n", plimsoll_core::shown::clean(text.trim_end_matches(['\n', '\r'])))).map(drop)
        };
        read = logs::each(&mut log, lines, failed, print)?;
    }
    if let (true, [node]) = (follow, &meant[..]) {
        follow_log(&node.log, read)?;
    }
    Ok(exit::OK)
}

/// Prints new lines of a log, until Ctrl-C or the end of its lab.
fn follow_log(path: &Path, from: u64) -> Result<(), TrialError> {
    let stop = interrupt::of_command();
    let failed = |error: std::io::Error| io_error(path.display(), &error);
    let mut log = File::open(path).map_err(failed)?;
    log.seek(SeekFrom::Start(from)).map_err(failed)?;
    let mut log = BufReader::new(log);
    let mut line = Vec::new();
    while !stop.load(Ordering::SeqCst) && path.exists() {
        if log.read_until(b'\n', &mut line).map_err(failed)? == 0 || !line.ends_with(b"\n") {
            std::thread::sleep(FOLLOW_INTERVAL);
            continue;
        }
        crate::print(&format!("{}\n", plimsoll_core::shown::clean(String::from_utf8_lossy(&line).trim_end())))?;
        line.clear();
    }
    Ok(())
}

/// Executes a command in the network of a host, in place of this program.
fn on_host(catalogue: &Catalogue, at: &[String], command: &[OsString]) -> Result<u8, TrialError> {
    let (is_load, named) = match at.split_last() {
        Some((last, before)) if last == LOAD => (true, before),
        _ => (at.is_empty(), at),
    };
    let (lab, node) = node_of(named)?;
    let status = lab.status()?;
    let namespace = match node.filter(|_| !is_load) {
        None => status.load.map(|load| load.namespace),
        Some(number) => status.nodes.iter().find(|node| node.number == number).and_then(|node| node.namespace.clone()),
    };
    let _there = namespace.map(|path| standing::enter(&path)).transpose()?;
    let Some((program, arguments)) = command.split_first() else {
        return Err(TrialError::usage("no command is given").next("plimsoll lab exec NAME NODE -- COMMAND"));
    };
    // What clients need to log in, where a plan does not describe the server.
    let recipe = match (status.url, catalogue.store(&status.store)) {
        (None, Some(kind)) => kind.recipe(&Params(status.params))?,
        _ => None,
    };
    let reached =
        lab.nodes().into_iter().find(|other| other.number == node.unwrap_or(0)).unwrap_or_else(|| lab.first());
    let environment = recipe.map(|recipe| recipe.client_environment(&reached)).unwrap_or_default();
    let error = Command::new(program).args(arguments).envs(environment).exec();
    let host = match node.filter(|_| !is_load) {
        Some(number) => format!("the host of node {}", number + 1),
        None => "the load host".to_owned(),
    };
    let what = format!("{} on {host} of lab {}", Path::new(program).display(), lab.name());
    Err(io_error(what, &error).next("hosts have the programs of this machine: install it, or correct its name"))
}
