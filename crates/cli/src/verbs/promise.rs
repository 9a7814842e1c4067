//! `plimsoll promise`: what stores keep of what they have acknowledged when the power goes. It is written down as a plan:
//! stores on disks that can lose power, a load, a drive that a cut ends, and a check.

use plimsoll_core::Catalogue;
use plimsoll_trial::TrialError;

use crate::args::PromiseArgs;
use crate::error::{self, exit};
use crate::options::{self, quoted};
use crate::plans::{self, Passwords, PlanText};
use crate::secrets;
use crate::verbs::{drive, run};

/// Flushes after which the power goes: from this one on, before that one.
const FLUSHES: std::ops::Range<u64> = 20..400;
/// Durabilities that are tried where nothing is set: those that a store lacks are left out.
const DURABILITIES: &str = "durable,buffered,at-end";

/// Workloads whose acknowledged writes are looked for, best first, with the shares of their operations: each store gets the first that
/// it speaks.
const WORKLOADS: [(&str, &str); 3] =
    [("kv", "update=4,insert=1,read=1"), ("coupons", "update=4,read=1"), ("ldap", "modify=4,add=1,search=1")];

/// Tries what `args` ask for; the exit code says whether everything was kept.
pub fn run(catalogue: &Catalogue, args: &PromiseArgs) -> Result<u8, TrialError> {
    let mut worst = exit::OK;
    let groups = by_workload(catalogue, args)?;
    let several = groups.len() > 1;
    for (workload, stores) in groups {
        let from = plan_text(catalogue, args, workload, &stores)?;
        if args.print_plan {
            crate::print(&secrets::masked(&from.text))?;
            continue;
        }
        let mut passwords = Passwords::of_options(None, &[&stores])?;
        let (plan, text) = plans::read_plan(catalogue, from, &[], args.seed, &mut passwords)?;
        let code = match run::run_plan(catalogue, &plan, &text, None, &passwords, &args.telling, false) {
            Ok(code) => code,
            // Of several sorts of stores the others are tried all the same.
            Err(error) if several => {
                crate::say(&error::text(&error));
                error::code(error.kind)
            }
            Err(error) => return Err(error),
        };
        // What was broken says more than what could not be told.
        if worst == exit::OK || code == exit::GOAL_MISSED {
            worst = code;
        }
    }
    Ok(worst)
}

/// The stores, those together that are driven by one workload.
fn by_workload<'a>(catalogue: &Catalogue, args: &'a PromiseArgs) -> Result<Vec<(&'a str, Vec<String>)>, TrialError> {
    let mut groups: Vec<(&str, Vec<String>)> = Vec::new();
    for store in stores(catalogue, args)? {
        let spec = catalogue.store_of(&store).map(|kind| kind.spec());
        let speaks = |name: &str| {
            let wanted = catalogue.preset(name).map_or(&[][..], |(workload, _)| workload.interfaces);
            spec.is_some_and(|spec| wanted.iter().all(|interface| spec.interfaces.contains(interface)))
        };
        let first = WORKLOADS.iter().map(|(name, _)| *name).find(|name| speaks(name));
        // What no store is, or keeps nothing, is said when the plan is read.
        let workload = args.workload.as_deref().or(first).unwrap_or(WORKLOADS[0].0);
        match groups.iter_mut().find(|(known, _)| *known == workload) {
            Some((_, stores)) => stores.push(store),
            None => groups.push((workload, vec![store])),
        }
    }
    Ok(groups)
}

/// The stores that are named, or all that can lose power here.
fn stores(catalogue: &Catalogue, args: &PromiseArgs) -> Result<Vec<String>, TrialError> {
    if !args.all {
        if args.stores.is_empty() {
            return Err(TrialError::usage("there is nothing to try").next("name stores, or say --all"));
        }
        if let Some(other) = args.stores.iter().find(|name| name.contains("://") || name.starts_with("lab:")) {
            let what = format!("the power of a store that runs already is not ours to take: {other}");
            return Err(
                TrialError::usage(what).next("name the store alone: its server is started on a disk of its own")
            );
        }
        return Ok(args.stores.clone());
    }
    let kinds = catalogue.stores.iter().filter(|kind| {
        let spec = kind.spec();
        let asked = |(name, _): &(&str, &str)| {
            catalogue.preset(name).is_some_and(|(workload, _)| {
                workload.interfaces.iter().all(|interface| spec.interfaces.contains(interface))
            })
        };
        spec.keeps_data && spec.params.iter().any(|param| param.name == "disk") && WORKLOADS.iter().any(asked)
    });
    let (there, missing): (Vec<_>, Vec<_>) = kinds.partition(|kind| kind.installed().is_ok());
    for kind in missing {
        let error = kind.installed().err().map_or(String::new(), |error| error.to_string());
        crate::say(&format!("{} is left out: {error}", kind.spec().name));
    }
    Ok(there.into_iter().map(|kind| kind.spec().name.to_owned()).collect())
}

fn plan_text(catalogue: &Catalogue, args: &PromiseArgs, name: &str, stores: &[String]) -> Result<PlanText, TrialError> {
    let mut plan = PlanText { name: "promise".to_owned(), ..PlanText::default() };
    plan.text.push_str("# Written by `plimsoll promise` from its options.\n");
    plan.text.push_str("title = \"What is kept when the power goes\"\n");
    plan.text.push_str("question = \"Which acknowledged writes are there after the power has gone?\"\n");
    let (mut of_stores, workload): (Vec<_>, Vec<_>) =
        drive::settings(&args.set)?.into_iter().partition(|(key, _)| key.contains('.'));
    let durability = match (&args.durability, of_stores.is_empty()) {
        (Some(durability), _) => durability.as_str(),
        (None, true) => DURABILITIES,
        // What was set is what is tried.
        (None, false) => "as-configured",
    };
    for store in stores {
        of_stores.push((format!("{store}.disk"), args.disk.clone()));
        of_stores.push((format!("{store}.disk_size"), args.disk_size.clone()));
        if args.lying {
            of_stores.push((format!("{store}.disk_flushes"), "honoured,ignored".to_owned()));
        }
    }
    drive::push_stores(catalogue, &mut plan, stores, &of_stores)?;
    plan.text.push_str("start = \"fresh\"\n\n[workload]\n");
    plan.line("name", &options::value(name), name);
    let known = catalogue.preset(name);
    let param = |key: &str| known.and_then(|(spec, _)| spec.params.iter().find(|param| param.name == key));
    for (key, default) in [("records", "1000"), ("field_length", "40"), ("distribution", "uniform")] {
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
    // "all" is what a plan says with nothing.
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
