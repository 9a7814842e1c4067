//! `plimsoll promise`: acknowledged writes that stores keep through a power cut. The options become a plan: stores on
//! disks that can lose power, a load, a drive that a cut ends, and a check.

mod again;
mod before;
mod busy;
mod cells;

use plimsoll_core::nearest::nearest;
use plimsoll_core::shown::clean;
use plimsoll_core::{Catalogue, Durability, StoreKind, StoreSpec};
use plimsoll_plan::model::Plan;
use plimsoll_trial::{Cells, TrialError};

use crate::args::PromiseArgs;
use crate::error::exit;
use crate::options::{self, quoted};
use crate::plans::{self, Passwords, PlanText};
use crate::verbs::run::How;
use crate::verbs::{self, drive, run};

/// Range of flushes at which the power is cut.
const FLUSHES: std::ops::Range<u64> = 20..400;
/// Durabilities that are tried where nothing is set: those that a store lacks are left out.
const DURABILITIES: &str = "durable,buffered,at-end";

/// Workloads whose acknowledged writes can be verified, best first, with shares of operations: each store gets the first
/// that it supports.
const WORKLOADS: [(&str, &str); 2] = [("kv", "update=4,insert=1,read=1"), ("coupons", "update=4,read=1")];

/// Name of the plan.
const NAME: &str = "promise";
/// File system of the disk, by default.
pub const DISK: &str = "ext4";
/// Size of the disk.
pub const DISK_SIZE: &str = "1GiB";
/// Longest that a store is driven.
pub const LENGTH: &str = "3s";
/// Clients.
pub const CLIENTS: u32 = 8;

/// Runs `plimsoll promise`. Returns the exit code: whether everything was kept.
pub fn run(catalogue: &Catalogue, args: &PromiseArgs) -> Result<u8, TrialError> {
    let runs_dir = plimsoll_record::default_runs_dir()?;
    let resumed = args.resume.as_deref().map(|wanted| again::find(&runs_dir, wanted)).transpose()?;
    let of_resumed = resumed.as_ref().filter(|_| args.stores.is_empty() && !args.all);
    let of_resumed = of_resumed.map(|run| again::options(run, args)).transpose()?;
    let args = of_resumed.as_ref().unwrap_or(args);
    let Some((plan, text)) = plan(catalogue, args)? else { return Ok(exit::OK) };
    if let Some(run) = &resumed {
        verbs::again::must_be(run, &plan)?;
        verbs::again::await_healing()?;
    }
    let cells = cells::cells(catalogue, args, &plan)?;
    let jobs = before::jobs(args.jobs, plan.trials.len());
    if !args.telling.output.quiet {
        let known = before::known(&runs_dir);
        plan.left_out.iter().for_each(|why| crate::say(&format!("left out: {why}")));
        crate::say(&before::words(&plan, &cells, &jobs, &known));
        again::hint(&runs_dir, &known, &plan).filter(|_| resumed.is_none()).iter().for_each(|hint| crate::say(hint));
    }
    let cells = Cells { cells: &cells, jobs: jobs.0, all_cuts: args.all_cuts };
    let how = How { cells: Some(&cells), before: resumed.as_ref(), ..How::default() };
    run::run_plan(catalogue, &plan, &text, &how, &Passwords::default(), &args.telling)
}

/// Returns the plan of all stores, and its text; `None` if the plan was only printed.
fn plan(catalogue: &Catalogue, args: &PromiseArgs) -> Result<Option<(Plan, String)>, TrialError> {
    let (stores, left_out) = stores(catalogue, args)?;
    let mut all: Option<(Plan, String)> = None;
    for (workload, stores) in by_workload(catalogue, args, stores) {
        let from = plan_text(catalogue, args, workload, &stores)?;
        let (plan, text) = plans::read_plan(catalogue, from, &[], args.seed, &mut Passwords::default())?;
        // Only what can be read as a plan is one.
        if args.print_plan {
            crate::print(&text)?;
            continue;
        }
        match &mut all {
            None => all = Some((plan, text)),
            Some((first, texts)) => {
                *texts = format!("{texts}\n# Stores with another workload:\n\n{text}");
                first.trials.extend(plan.trials);
                first.left_out.extend(plan.left_out);
                first.timed_s += plan.timed_s;
            }
        }
    }
    if let Some((plan, _)) = &mut all {
        plan.left_out.splice(..0, left_out);
        plan.trials.iter_mut().zip(0..).for_each(|(trial, ordinal)| trial.ordinal = ordinal);
    }
    Ok(all)
}

/// The stores, those together that are driven by one workload.
fn by_workload<'a>(catalogue: &Catalogue, args: &'a PromiseArgs, stores: Vec<String>) -> Vec<(&'a str, Vec<String>)> {
    let mut groups: Vec<(&str, Vec<String>)> = Vec::new();
    for store in stores {
        let spec = catalogue.store_of(&store).map(|kind| kind.spec());
        let first = spec.and_then(|spec| workload_of(catalogue, spec));
        // Unknown stores, and stores that keep nothing, are reported when the plan is read.
        let workload = args.workload.as_deref().or(first).unwrap_or(WORKLOADS[0].0);
        match groups.iter_mut().find(|(known, _)| *known == workload) {
            Some((_, stores)) => stores.push(store),
            None => groups.push((workload, vec![store])),
        }
    }
    groups
}

/// The first workload that a store speaks.
fn workload_of(catalogue: &Catalogue, spec: &StoreSpec) -> Option<&'static str> {
    let speaks = |name: &&str| {
        let wanted = catalogue.preset(name).map(|(workload, _)| workload.interfaces);
        wanted.is_some_and(|wanted| wanted.iter().all(|interface| spec.interfaces.contains(interface)))
    };
    WORKLOADS.iter().map(|(name, _)| *name).find(speaks)
}

/// The stores that are named, or all that can lose power here; and why others are left out.
fn stores(catalogue: &Catalogue, args: &PromiseArgs) -> Result<(Vec<String>, Vec<String>), TrialError> {
    let (mut stores, mut left_out) = (args.stores.clone(), Vec::new());
    if args.all {
        for kind in &catalogue.stores {
            match why_not(catalogue, &**kind) {
                None => stores.push(kind.spec().name.to_owned()),
                Some(why) => left_out.push(format!("{} {why}", kind.spec().name)),
            }
        }
    }
    if stores.is_empty() {
        return Err(TrialError::usage("no store is named").next("name stores, or give --all"));
    }
    if let Some(other) = stores.iter().find(|name| name.contains("://") || name.starts_with("lab:")) {
        let what = format!("cannot cut the power of a server that Plimsoll did not start: {other}");
        return Err(TrialError::usage(what).next("name the store alone: its server is started on a disk of its own"));
    }
    for store in &stores {
        let Some(kind) = catalogue.store_of(store) else {
            let all = catalogue.stores.iter().map(|kind| kind.spec());
            let able = all.filter(|spec| spec.keeps_data && has_disk(spec)).map(|spec| spec.name);
            let able: Vec<&str> = able.collect();
            let near =
                nearest(store, able.iter().copied()).map_or(String::new(), |name| format!("did you mean `{name}`? "));
            let next = format!("{near}stores that can lose power: {}", able.join(", "));
            return Err(TrialError::usage(format!("unknown store `{}`", clean(store))).next(next));
        };
        let spec = kind.spec();
        let why = match (spec.keeps_data, has_disk(spec)) {
            (false, _) => "keeps nothing",
            (_, false) => "does not run on a disk of Plimsoll's",
            _ => continue,
        };
        let what = format!("cannot test what {store} keeps through a power cut: it {why}");
        return Err(TrialError::usage(what).next("name another store, or give --all"));
    }
    // A store that has none of the requested durabilities does not stop the others.
    let asked: Vec<&str> = args.durability.iter().flat_map(|given| given.split(',')).map(str::trim).collect();
    let is_able = |store: &String| {
        let known = |word: &&str| Durability::named(word).is_some_and(|one| one != Durability::AsConfigured);
        let spec = catalogue.store_of(store).map(|kind| kind.spec());
        asked.is_empty()
            || !asked.iter().all(known)
            || spec.is_none_or(|spec| spec.durabilities.iter().any(|one| asked.contains(&one.name())))
    };
    if stores.iter().any(is_able) {
        let (able, unable): (Vec<_>, Vec<_>) = stores.into_iter().partition(is_able);
        left_out.extend(unable.into_iter().map(|store| format!("{store} cannot do `{}`", asked.join("` or `"))));
        stores = able;
    }
    Ok((stores, left_out))
}

fn has_disk(spec: &StoreSpec) -> bool {
    spec.params.iter().any(|param| param.name == "disk")
}

/// Returns the reason that `--all` leaves a store out.
fn why_not(catalogue: &Catalogue, kind: &dyn StoreKind) -> Option<String> {
    let spec = kind.spec();
    if !spec.keeps_data {
        return Some("keeps nothing".to_owned());
    }
    if !has_disk(spec) {
        return Some("does not run on a disk of Plimsoll's".to_owned());
    }
    if workload_of(catalogue, spec).is_none() {
        let names = WORKLOADS.map(|(name, _)| name).join(", ");
        return Some(format!("supports none of {names}: only these record which writes were acknowledged"));
    }
    kind.installed().err().map(|error| format!("is not installed: {error}"))
}

fn plan_text(catalogue: &Catalogue, args: &PromiseArgs, name: &str, stores: &[String]) -> Result<PlanText, TrialError> {
    let mut plan = PlanText { name: NAME.to_owned(), ..PlanText::default() };
    plan.text.push_str("# Written by `plimsoll promise` from its options.\n");
    plan.text.push_str("title = \"Writes kept through a power cut\"\n");
    plan.text.push_str("question = \"Which acknowledged writes are there after a power cut?\"\n");
    let (mut of_stores, workload): (Vec<_>, Vec<_>) =
        drive::settings(&args.set)?.into_iter().partition(|(key, _)| key.contains('.'));
    let durability = match (&args.durability, of_stores.is_empty()) {
        (Some(durability), _) => durability.as_str(),
        (None, true) => DURABILITIES,
        // The given settings determine the durability.
        (None, false) => "as-configured",
    };
    let records = busy::keep_pages_moving(catalogue, args, stores, &mut of_stores);
    for store in stores {
        of_stores.push((format!("{store}.disk"), args.disk.clone()));
        of_stores.push((format!("{store}.disk_size"), args.disk_size.clone()));
        if args.lying {
            of_stores.push((format!("{store}.disk_flushes"), "honoured,ignored".to_owned()));
        }
    }
    drive::push_stores(catalogue, &mut plan, stores, &of_stores)?;
    // What never comes back, or is never whole again, is not waited for as long as a load may take.
    plan.text.push_str("work_timeout = \"5min\"\n");
    // How fast anything is does not matter here.
    plan.text.push_str("samplers = []\nstart = \"fresh\"\n");
    if args.tries > 1 {
        plan.text.push_str(&format!("repeats = {}\norder = \"given\"\n", args.tries));
    }
    plan.text.push_str("\n[workload]\n");
    plan.line("name", &options::value(name), name);
    let known = catalogue.preset(name);
    let param = |key: &str| known.and_then(|(spec, _)| spec.params.iter().find(|param| param.name == key));
    for (key, default) in [("records", records), ("field_length", "40"), ("distribution", "uniform")] {
        if param(key).is_some() && workload.iter().all(|(given, _)| given != key) {
            plan.line(key, &options::param(param(key), default), key);
        }
    }
    for (key, given) in &workload {
        plan.line(key, &options::param(param(key), given), &format!("--set {key}={given}"));
    }
    plan.text.push_str("\n[[phase]]\ndo = \"load\"\ndurability = \"as-configured\"\n\n[[phase]]\ndo = \"settle\"\n");
    plan.text.push_str(&format!("\n[[phase]]\ndo = \"drive\"\nclients = {}\n", args.clients));
    plan.line("for", &options::value(&args.length), &format!("--for {}", args.length));
    plan.line("durability", &options::list(durability), &format!("--durability {durability}"));
    let usual = WORKLOADS.iter().find(|(known, _)| *known == name).map(|(_, mix)| *mix);
    if let Some(mix) = args.mix.as_deref().or(usual) {
        plan.line("mix", &options::mix(mix)?, &format!("--mix {mix}"));
    }
    let cuts = match &args.cut {
        Some(given) => given.split(',').map(|one| one.trim().to_owned()).collect(),
        None => moments(args.seed.unwrap_or(1), args.cuts),
    };
    let cuts: Vec<String> = cuts.iter().map(|cut| quoted(cut)).collect();
    plan.line("power_cut", &format!("[{}]", cuts.join(", ")), "--cut");
    // Without the key a plan means "all".
    if args.nodes != "all" {
        plan.line("power_node", &options::list(&args.nodes), &format!("--nodes {}", args.nodes));
    }
    plan.text.push_str("\n[[phase]]\ndo = \"power\"\n");
    let survivors = args.survivors.as_deref().unwrap_or("none,torn");
    plan.line("survivors", &options::list(survivors), &format!("--survivors {survivors}"));
    plan.text.push_str("\n[[phase]]\ndo = \"check\"\n\n[goals]\nlost = 0\nwrong = 0\n");
    Ok(plan)
}

/// `count` moments, spread over [`FLUSHES`] as the golden ratio spreads numbers: none is near another, whatever the count.
fn moments(seed: u64, count: u32) -> Vec<String> {
    let width = (FLUSHES.end - FLUSHES.start) as f64;
    let moment = |number: u32| {
        let share = ((seed % 1_000_000) as f64 + f64::from(number)) * 0.618_033_988_749_895 % 1.0;
        format!("flush {}", FLUSHES.start + (share * width) as u64)
    };
    let mut moments: Vec<String> = (0..count).map(moment).collect();
    moments.sort();
    moments.dedup();
    moments
}
