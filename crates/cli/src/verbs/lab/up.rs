//! `plimsoll lab up`: makes a lab, and holds it until it is ended.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plimsoll_core::{Catalogue, Limits, OpenOptions, Target, Waits};
use plimsoll_lab::described;
use plimsoll_lab::standing::{self, LabDescription, LabDirectory, Restart};
use plimsoll_lab::{Cluster, FALLBACK_BASES, Supervisor};
use plimsoll_plan::model::StoreUse;
use plimsoll_trial::{TrialError, io_error};

use super::{labs, status};
use crate::args::LabUp;
use crate::error::exit;
use crate::interrupt;
use crate::plans::{self, PlanText};
use crate::verbs::drive;

/// Time between two looks at a process that makes a lab.
const MAKING_INTERVAL: Duration = Duration::from_millis(10);

/// Executes this program again, to hold the lab, and waits until the lab stands, or the process ends. The process keeps
/// the lab if it receives a byte on standard input, and removes it otherwise.
pub(super) fn up_and_away() -> Result<u8, TrialError> {
    let failed = |error: std::io::Error| io_error("/proc/self/exe", &error);
    let stop = interrupt::of_command();
    let mut words: Vec<OsString> = std::env::args_os().skip(1).collect();
    // Behind the verb: what stands behind `--` is no option.
    let behind = words.iter().position(|word| word == "up").map_or(words.len(), |at| at + 1);
    words.insert(behind, "--held".into());
    let mut command = Command::new("/proc/self/exe");
    let mut child = command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
    let (keep, output) = (child.stdin.take(), child.stdout.take());
    // The process closes its output after its last line.
    let read = move || output.map_or(Ok(String::new()), std::io::read_to_string);
    let reading = std::thread::Builder::new().name("lab".into()).spawn(read).map_err(failed)?;
    while !reading.is_finished() && !stop.load(Ordering::SeqCst) {
        std::thread::sleep(MAKING_INTERVAL);
    }
    // Closed at once if the user has stopped it.
    let keep = keep.filter(|_| !stop.load(Ordering::SeqCst));
    let text = reading.join().unwrap_or(Ok(String::new())).map_err(failed)?;
    if keep.is_some_and(|mut keep| !text.is_empty() && keep.write_all(b"\n").is_ok()) {
        return crate::print(&text);
    }
    let ended = child.wait().map_err(failed)?;
    match ended.code().and_then(|code| u8::try_from(code).ok()) {
        _ if stop.load(Ordering::SeqCst) => Ok(exit::INTERRUPTED),
        Some(code) if code != exit::OK => Ok(code),
        _ => Err(TrialError::broken("the process that holds the lab has ended before the lab stood")),
    }
}

/// Sets `stop` if standard input ends without a byte: the command that waits for the lab was stopped or killed.
fn stop_unless_kept(stop: &Arc<AtomicBool>) -> Result<(), TrialError> {
    let stop = Arc::clone(stop);
    let wait = move || {
        if std::io::stdin().read_exact(&mut [0]).is_err() {
            stop.store(true, Ordering::SeqCst);
        }
    };
    let waiting = std::thread::Builder::new().name("lab".into()).spawn(wait);
    waiting.map(drop).map_err(|error| io_error("a thread for standard input", &error))
}

/// Returns the named store, with its parameters.
fn asked(catalogue: &Catalogue, args: &LabUp) -> Result<StoreUse, TrialError> {
    let mut plan = PlanText { name: args.store.clone(), ..PlanText::default() };
    let on = [args.store.clone()];
    if args.store.ends_with(".toml") {
        if !args.set.is_empty() || args.nodes.is_some() {
            return Err(TrialError::usage("the plan determines the store").next("write its parameters there"));
        }
        return one_of(args, plans::read_stores(catalogue, &plans::read(&args.store)?)?);
    }
    let own = |(key, value): (String, String)| match key.contains('.') {
        true => (key, value),
        false => (format!("{}.{key}", args.store), value),
    };
    let mut settings: Vec<_> = drive::settings(&args.set)?.into_iter().map(own).collect();
    settings.extend(drive::nodes(catalogue, &on, args.nodes)?);
    drive::push_stores(catalogue, &mut plan, &on, &settings)?;
    one_of(args, plans::read_stores(catalogue, &plan)?)
}

/// The only store of those that were read, which is to be started here.
fn one_of(args: &LabUp, mut stores: Vec<StoreUse>) -> Result<StoreUse, TrialError> {
    match (stores.pop(), &stores[..]) {
        (Some(store), []) if store.is_private() => Ok(store),
        (Some(_), []) => Err(TrialError::usage(format!("{} runs already", args.store))
            .next("name a store that can be started here: plimsoll list stores")),
        _ => Err(TrialError::usage("a lab takes one store, with one value for each parameter").next("name one")),
    }
}

/// Makes a lab and holds it until it is ended.
pub(super) fn up(catalogue: &Catalogue, args: &LabUp) -> Result<u8, TrialError> {
    let restart = Restart::named(&args.restart).ok_or_else(|| {
        let all: Vec<&str> = Restart::ALL.iter().map(|when| when.name()).collect();
        TrialError::usage(format!("--restart {}: no such policy", args.restart)).next(format!("use {}", all.join(", ")))
    })?;
    let store = asked(catalogue, args)?;
    let kind = catalogue.store(&store.kind).ok_or_else(|| TrialError::usage("the store does not exist"))?;
    let recipe = described::recipe(store.server.as_ref(), kind, &store.params)?;
    let Some(recipe) = recipe else {
        return Err(TrialError::usage(format!("{} runs inside Plimsoll: there is no server to start", store.kind))
            .next("name a store with servers: plimsoll list stores"));
    };
    if store.server.is_none() {
        kind.installed()?;
    }
    let limits = Limits::of(&store.params)?;
    let stop = interrupt::of_command();
    if args.held {
        // Signals of the terminal are not meant for this process.
        let _ = rustix::process::setsid();
        stop_unless_kept(&stop)?;
    }
    let labs = labs()?;
    let supervisor = Supervisor::start()?;
    let entry = LabDirectory::take(&labs, args.name.as_deref().unwrap_or(&store.label), &supervisor)?;
    let bases: Vec<PathBuf> = match &args.dir {
        Some(dir) => vec![dir.clone()],
        None => FALLBACK_BASES.iter().map(PathBuf::from).collect(),
    };
    let waits = Waits::new(plimsoll_core::waits::ANSWER, plimsoll_core::waits::WORK, Arc::clone(&stop));
    let say = &mut |text: &str| crate::say(text);
    let cluster =
        Cluster::start_under(supervisor, limits, recipe, &bases, &labs.with_file_name("lab-logs"), &waits, say)?;
    let (servers, _there) = (cluster.handle().servers(), cluster.handle().enter()?);
    let url = store.server.as_ref().map(|server| described::filled(&server.url, &servers.first()));
    let options = OpenOptions {
        target: match &url {
            Some(url) => Target::Attach { url: url.clone(), password: None },
            None => Target::Servers(Arc::clone(&servers)),
        },
        params: store.params.clone(),
        run_id: String::new(),
        waits: waits.clone(),
    };
    let version = kind.open(options, &mut |_| {})?.describe()?.version;
    let name = entry.name().to_owned();
    let (made_as, params) = (store.label.clone(), store.params.0.clone());
    let about = LabDescription { store: store.kind.clone(), made_as, params, version, restart, url };
    let held = args.held;
    standing::hold(cluster, entry, about, &stop, |status| {
        let _ = status::shown(std::slice::from_ref(status));
        crate::say(&match held {
            true => format!("drive it with --on lab:{name}; `plimsoll lab down {name}` ends it"),
            false => format!("drive it with --on lab:{name}; Ctrl-C, or `plimsoll lab down {name}`, ends it"),
        });
        if held {
            be_silent();
        }
    })?;
    if stop.load(Ordering::SeqCst) {
        crate::say("the lab is gone");
    }
    Ok(exit::OK)
}

/// Redirects standard output and error to /dev/null: their reader is gone.
fn be_silent() {
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}
