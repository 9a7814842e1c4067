//! `plimsoll drive`: one workload on one store, put together from options instead of a plan file.
//!
//! The options are written down as a plan, which is run like any other and kept in the recording.

use plimsoll_core::study::GoalKind;
use plimsoll_core::{Catalogue, Interface, StoreSpec, WorkloadSpec};
use plimsoll_plan::Plan;
use plimsoll_plan::keys::{OF_DRIVE, OF_REQUEST, PLAN};
use plimsoll_trial::TrialError;

use crate::args::DriveArgs;
use crate::habits;
use crate::options::{self, quoted, value};
use crate::plans::{self, Passwords, PlanText};
use crate::verbs::run::{self, How};

/// Runs `plimsoll drive`. Returns the exit code: whether every goal held.
pub fn run(catalogue: &Catalogue, args: &DriveArgs) -> Result<u8, TrialError> {
    // The plan contains the stores with their settings.
    run_text(catalogue, plan_text(catalogue, args)?, &[], args)
}

/// Returns the plan of a run of `drive`, and its text.
pub(super) fn planned(
    catalogue: &Catalogue,
    args: &DriveArgs,
    passwords: &mut Passwords,
) -> Result<(Plan, String), TrialError> {
    let (mut plan, text) = plans::read_plan(catalogue, plan_text(catalogue, args)?, &[], args.seed, passwords)?;
    plan.allow_writes |= args.plan.get("allow_writes").is_some();
    plan.allow_fault |= args.plan.get("allow_fault").is_some();
    Ok((plan, text))
}

/// Runs the plan made from `args`, on `stores` if any are named; or prints the plan.
pub(super) fn run_text(
    catalogue: &Catalogue,
    from: PlanText,
    stores: &[String],
    args: &DriveArgs,
) -> Result<u8, TrialError> {
    let mut passwords = Passwords::of_options(args.password_file.as_deref(), &[&args.on])?;
    let beside = from.beside.clone();
    let (mut plan, text) = plans::read_plan(catalogue, from, stores, args.seed, &mut passwords)?;
    // Only what can be read as a plan is one.
    if args.print_plan {
        return crate::print(&plans::with_absolute_paths(&text, &beside));
    }
    plan.allow_writes |= args.plan.get("allow_writes").is_some();
    plan.allow_fault |= args.plan.get("allow_fault").is_some();
    run::run_plan(catalogue, &plan, &text, &How::strict(args.strict), &passwords, &args.telling)
}

/// Returns the workload of scripts for the first of `stores`: commands if it takes commands and no statements.
fn scripted(catalogue: &Catalogue, stores: &[String]) -> &'static str {
    let spec = stores.first().and_then(|store| catalogue.store_of(store));
    let speaks = |interface| spec.is_some_and(|kind| kind.spec().interfaces.contains(&interface));
    if speaks(Interface::Commands) && !speaks(Interface::Sql) { "commands" } else { "script" }
}

/// Returns the plan made from the options.
pub(super) fn plan_text(catalogue: &Catalogue, args: &DriveArgs) -> Result<PlanText, TrialError> {
    let name = match (&args.workload, &args.file[..]) {
        (Some(workload), []) => workload.clone(),
        (Some(workload), _) if catalogue.workload(workload).is_some_and(WorkloadSpec::takes_scripts) => {
            workload.clone()
        }
        (None, [_, ..]) => scripted(catalogue, &args.on).to_owned(),
        (None, []) => {
            return Err(TrialError::usage("no workload is named")
                .next("name a workload (see `plimsoll list workloads`), or scripts with -f FILE"));
        }
        (Some(workload), [..]) => {
            return Err(TrialError::usage(format!("both the workload {workload} and scripts were named"))
                .next("leave one of them out"));
        }
    };
    if catalogue.preset(&name).is_none()
        && let Some(here) = habits::workload(catalogue, &name)
    {
        return Err(TrialError::usage(format!("there is no workload `{name}`")).next(here));
    }
    if args.on.is_empty() {
        return Err(missing_on(catalogue, &name));
    }
    let known = catalogue.preset(&name);
    if args.plan.get("mix").is_none()
        && args.plan.get("scenario").is_none()
        && let Some((spec, None)) = known
        && let [first, _, ..] = spec.kinds
    {
        let kinds = spec.kinds.join(", ");
        let next = format!("for example --mix {first}=1; operation types: {kinds}");
        return Err(TrialError::usage(format!("missing --mix: which operations of `{name}` to run")).next(next));
    }
    let mut plan = PlanText { name: name.clone(), ..PlanText::default() };
    plan.text.push_str("# Written by `plimsoll drive` from its options.\n");
    let (stores, workload): (Vec<_>, Vec<_>) = settings(&args.set)?.into_iter().partition(|(key, _)| key.contains('.'));
    // Stores are those of `--on`; tables are only for stores with settings.
    let stores = [stores, nodes(catalogue, &args.on, args.nodes)?].concat();
    push_stores(catalogue, &mut plan, &args.on, &stores)?;
    args.plan.write(&[PLAN], &mut plan)?;
    let writes = writes(args);
    // A request that writes, or a body, is permission enough.
    if writes && args.plan.get("allow_writes").is_none() {
        plan.text.push_str("allow_writes = true\n");
    }
    // Tables that are there already are taken as they are.
    if args.no_load && args.plan.get("start").is_none() {
        plan.line("start", "\"as-is\"", "--no-load");
    }
    plan.push("\n[workload]\n", &name);
    plan.line("name", &value(&name), &name);
    let param = |key: &str| known.and_then(|(spec, _)| spec.params.iter().find(|param| param.name == key));
    for (key, given) in &workload {
        plan.line(key, &options::param(param(key), given), &format!("--set {key}={given}"));
    }
    for file in &args.file {
        let (path, weight) = weighted(file)?;
        let text = format!("\n[[workload.script]]\nfile = {}\nweight = {weight}\n", quoted(path));
        plan.push(&text, &format!("-f {file}"));
    }
    for given in &args.csv {
        let (file, order) = match given.strip_suffix("@in-order") {
            Some(file) => (file, "order = \"in-order\"\n"),
            None => (given.strip_suffix("@random").unwrap_or(given), ""),
        };
        plan.push(&format!("\n[[workload.csv]]\nfile = {}\n{order}", quoted(file)), &format!("--csv {given}"));
    }
    if args.plan.has(OF_REQUEST) {
        if !known.is_some_and(|(spec, _)| spec.takes_requests()) {
            let takes = catalogue.workloads.iter().find(|spec| spec.takes_requests()).map_or("", |spec| spec.name);
            return Err(TrialError::usage(format!("a request was described, and `{name}` sends none"))
                .next(format!("name the workload {takes}")));
        }
        plan.text.push_str("\n[[workload.request]]\n");
        args.plan.write(OF_REQUEST, &mut plan)?;
    }
    if !args.no_load {
        plan.text.push_str("\n[[phase]]\ndo = \"load\"\n");
        // The load's durability is the drive's, if the drive has one.
        if let Some(given) = args.plan.get("durability") {
            let first = given.split(',').next().unwrap_or_default().trim();
            plan.line("durability", &value(first), &format!("--durability {given}"));
        }
    }
    plan.text.push_str("\n[[phase]]\ndo = \"drive\"\n");
    args.plan.write(OF_DRIVE, &mut plan)?;
    // HTTP promises nothing of what an answer survives.
    if writes && args.plan.get("durability").is_none() {
        plan.text.push_str("durability = \"as-configured\"\n");
    }
    if ["for", "ops", "stages"].into_iter().all(|key| args.plan.get(key).is_none()) {
        plan.text.push_str("for = \"30s\"\n");
    }
    // Writes in a ledger from the load on are verified at the end.
    let is_off = workload.iter().any(|(key, given)| key == "ledger" && given == "off");
    if param("ledger").is_some() && !is_off && !args.no_load {
        plan.text.push_str("\n[[phase]]\ndo = \"check\"\n");
    }
    if !args.goal.is_empty() {
        plan.text.push_str("\n[goals]\n");
        let mut keys: Vec<String> = Vec::new();
        for given in &args.goal {
            let Some((name, sign, limit)) = goal_and_limit(given) else {
                return Err(TrialError::usage(format!("`{given}` is not a goal and its limit"))
                    .next("write NAME=LIMIT, for example p99=20ms"));
            };
            let is_least = goal_parts(name.trim()).1 == "rate";
            if sign.starts_with(if is_least { '<' } else { '>' }) {
                let limit = if is_least { "of rate is a minimum" } else { "is a maximum, except of rate" };
                return Err(TrialError::usage(format!("--goal {given}: the limit {limit}"))
                    .next("write it without a sign: p99=20ms, rate=5000/s"));
            }
            let (of, what) = goal_parts(name.trim());
            let what = GoalKind::named(what).map_or(what.to_owned(), GoalKind::name);
            let key = of.map_or_else(|| key(&what), |of| format!("{}.{}", key(of), key(&what)));
            if keys.contains(&key) {
                let name = of.map_or_else(|| what.clone(), |of| format!("{of}.{what}"));
                return Err(TrialError::usage(format!("--goal {given}: the goal {name} is given twice"))
                    .next("leave one of them out"));
            }
            plan.line(&key, &options::goal(&what, limit), &format!("--goal {given}"));
            keys.push(key);
        }
    }
    Ok(plan)
}

/// Returns the error of a command without --on.
fn missing_on(catalogue: &Catalogue, workload: &str) -> TrialError {
    let takes = |spec: &StoreSpec| match catalogue.preset(workload) {
        Some((workload, _)) => workload.interfaces.iter().all(|interface| spec.interfaces.contains(interface)),
        None => true,
    };
    let specs: Vec<&StoreSpec> = catalogue.stores.iter().map(|store| store.spec()).filter(|spec| takes(spec)).collect();
    let names: Vec<&str> = specs.iter().map(|spec| spec.name).collect();
    let schemes: Vec<String> =
        specs.iter().filter_map(|spec| spec.schemes.first()).map(|scheme| format!("{scheme}://…")).collect();
    let url = if schemes.is_empty() { String::new() } else { format!("; or a running one: {}", schemes.join(", ")) };
    let example = format!("plimsoll drive {workload} --on {}", names.first().unwrap_or(&"STORE"));
    TrialError::usage("missing --on: the store to drive")
        .next(format!("stores that take `{workload}`: {}{url}; for example: {example}", names.join(", ")))
}

/// Returns true if the request that `args` describe changes data.
fn writes(args: &DriveArgs) -> bool {
    let only_reads = |method: &str| ["GET", "HEAD", "OPTIONS"].iter().any(|reads| reads.eq_ignore_ascii_case(method));
    args.plan.get("method").map_or(args.plan.get("body").is_some(), |method| !only_reads(method))
}

/// Returns the operation type and the metric of a goal: `read.p99.9` is p99.9 of `read`.
pub(super) fn goal_parts(name: &str) -> (Option<&str>, &str) {
    let is_goal = |name: &str| GoalKind::named(name).is_some();
    let parts = || name.match_indices('.').map(|(dot, _)| (&name[..dot], &name[dot + 1..]));
    let of = parts().find(|(_, what)| is_goal(what)).or_else(|| parts().find(|(of, _)| *of == "status"));
    match of.filter(|_| !is_goal(name)) {
        Some((of, what)) => (Some(of), what),
        None => (None, name),
    }
}

/// A goal, what stands between it and its limit, and that: `p99=20ms`, or `p99<=20ms` as people write it.
pub(super) fn goal_and_limit(given: &str) -> Option<(&str, &str, &str)> {
    let sign = ["<=", ">=", "<", ">", "="].into_iter().find(|sign| given.contains(sign))?;
    let (name, limit) = given.rsplit_once(sign)?;
    (!name.trim().is_empty()).then_some((name, sign, limit.trim()))
}

/// Writes a key of a plan, in quotes if needed.
fn key(name: &str) -> String {
    let is_bare = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    if is_bare && !name.is_empty() { name.to_owned() } else { quoted(name) }
}

/// `name=value`, each.
pub(crate) fn settings(given: &[String]) -> Result<Vec<(String, String)>, TrialError> {
    let mut all: Vec<(String, String)> = Vec::new();
    for given in given {
        let Some((key, value)) = given.split_once('=').filter(|(key, _)| is_key(key)) else {
            return Err(TrialError::usage(format!("`{given}` is not a name and a value"))
                .next("write NAME=VALUE, for example scale=10"));
        };
        if let Some((_, before)) = all.iter().find(|(known, _)| known == key) {
            let what = format!("--set {given}: {key} is set twice, to {before} before");
            return Err(TrialError::usage(what).next("leave one of them out; values between commas are swept"));
        }
        all.push((key.to_owned(), value.to_owned()));
    }
    Ok(all)
}

fn is_key(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
}

/// The plan's list of stores: names, and tables for those that settings of the form `store.name` are for.
pub(super) fn push_stores(
    catalogue: &Catalogue,
    plan: &mut PlanText,
    on: &[String],
    settings: &[(String, String)],
) -> Result<(), TrialError> {
    let kind = |given: &str| catalogue.store_of(given).map(|store| store.spec());
    let mut used = vec![false; settings.len()];
    plan.text.push_str("stores = [");
    for (at, store) in plans::whole_urls(on).iter().enumerate() {
        let store = plimsoll_plan::split_password(store).0;
        let (spec, scheme) = (kind(&store), store.split_once("://").map_or(store.as_str(), |(scheme, _)| scheme));
        let is_its = |kind_of: &str| {
            kind_of == scheme || (spec.is_some() && kind(kind_of).map(|kind| kind.name) == spec.map(|spec| spec.name))
        };
        let is_its =
            |key: &str| key.split_once('.').filter(|(kind_of, _)| is_its(kind_of)).map(|(_, name)| name.to_owned());
        let own: Vec<_> =
            settings.iter().enumerate().filter_map(|(at, (key, given))| Some((at, is_its(key)?, key, given))).collect();
        plan.text.push_str(if at == 0 { "" } else { ", " });
        plan.text.push_str(if own.is_empty() { "" } else { "{ store = " });
        plan.push(&value(&store), &format!("--on {store}"));
        for (at, name, key, given) in &own {
            used[*at] = true;
            let param = spec.and_then(|spec| spec.params.iter().find(|param| param.name == *name));
            plan.text.push_str(", ");
            plan.push(&format!("{name} = {}", options::param(param, given)), &format!("--set {key}={given}"));
        }
        plan.text.push_str(if own.is_empty() { "" } else { " }" });
    }
    plan.text.push_str("]\n");
    match settings.iter().zip(used).find(|(_, used)| !used) {
        Some(((key, _), _)) => Err(TrialError::usage(format!("`--set {key}=…` names a store that is not in --on"))
            .next("write a store of `--on` before the dot")),
        None => Ok(()),
    }
}

/// Returns the parameters that `--nodes` sets: `nodes` of each store that has it.
pub(super) fn nodes(
    catalogue: &Catalogue,
    on: &[String],
    nodes: Option<u32>,
) -> Result<Vec<(String, String)>, TrialError> {
    let Some(nodes) = nodes else { return Ok(Vec::new()) };
    on.iter()
        .map(|store| {
            let spec = catalogue.store_of(store).map(|kind| kind.spec());
            let is_private = !store.contains(':');
            match spec {
                Some(spec) if !is_private || !spec.params.iter().any(|param| param.name == "nodes") => {
                    Err(TrialError::usage(format!("--nodes {nodes}: {store} is not a cluster that is started here"))
                        .next("leave it out, or name a store that has `nodes` (see `plimsoll list stores`)"))
                }
                // An unknown store is reported when the plan is read.
                _ => Ok((format!("{store}.nodes"), nodes.to_string())),
            }
        })
        .collect()
}

/// A script and its weight: `path@3`, as pgbench writes it.
fn weighted(file: &str) -> Result<(&str, u32), TrialError> {
    match file.rsplit_once('@') {
        None => Ok((file, 1)),
        Some((path, weight)) => match weight.parse() {
            Ok(weight) if !path.is_empty() => Ok((path, weight)),
            _ => Err(TrialError::usage(format!("`{weight}` is not the weight of a script"))
                .next("write FILE@WEIGHT with a whole number, or FILE alone")),
        },
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::plan_text;
    use crate::args::{Cli, Verb};

    fn text(options: &str) -> Result<String, String> {
        let words = ["plimsoll", "drive"].into_iter().chain(options.split_whitespace());
        match Cli::try_parse_from(words).map_err(|error| error.to_string())?.verb {
            Verb::Drive(args) => {
                let plan = plan_text(&crate::catalogue::assemble(), &args);
                plan.map(|plan| plan.text).map_err(|error| crate::error::text(&error))
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_are_written_down_as_a_plan() {
        let text = text(
            "tpcb --on postgres,postgres://me:secret@h/db --set scale=10 --set postgres.shared_buffers=128MiB \
             --clients 8,16 --rate 1000/s --arrivals poisson --for 60s --goal p99=20ms --mix tpcb=9,select=1 --repeats 3",
        )
        .unwrap();
        let wanted = r#"# Written by `plimsoll drive` from its options.
stores = [{ store = "postgres", shared_buffers = "128MiB" }, { store = "postgres://me@h/db", shared_buffers = "128MiB" }]
repeats = 3

[workload]
name = "tpcb"
scale = 10

[[phase]]
do = "load"

[[phase]]
do = "drive"
clients = [8, 16]
mix = { "tpcb" = 9, "select" = 1 }
rate = "1000/s"
arrivals = "poisson"
for = "60s"

[goals]
p99 = "20ms"
"#;
        assert_eq!(text, wanted);
    }

    #[test]
    fn scripts_have_weights_and_paths_may_have_quotes() {
        let text = text("-f a.sql@3 -f b\"c.sql --on postgres").unwrap();
        assert!(text.contains("file = \"a.sql\"\nweight = 3\n"), "{text}");
        assert!(text.contains("file = \"b\\\"c.sql\"\nweight = 1\n"), "{text}");
        assert!(text.contains("for = \"30s\""), "{text}");
    }

    #[test]
    fn a_text_may_hold_commas_and_numbers_between_commas_are_swept() {
        let text = text("-f a.sql --on postgres --set define=a=1,b=2 --set scale=1,2").unwrap();
        assert!(text.contains("define = \"a=1,b=2\"") && text.contains("scale = [1, 2]"), "{text}");
    }

    #[test]
    fn a_text_that_is_a_number_is_a_text() {
        let text = text("oltp --on postgres --mix read_only=1 --set zipfian_exponent=1 --dir 7").unwrap();
        assert!(text.contains("zipfian_exponent = \"1\"\n") && text.contains("dir = \"7\"\n"), "{text}");
    }

    #[test]
    fn counts_may_be_of_thousands_and_times_have_units() {
        let text = text(
            "kv:a --on redis --for 60s,1m30s --warmup 5s --clients 8,1k --ops 2K --slice 0.5s --set records=1.5M \
             --goal rate=10k --goal p99=20",
        );
        // Two ends of one phase.
        assert!(text.is_err());
        let text = super::tests::text(
            "kv:a --on redis --for 60s,1m30s --warmup auto,5s --clients 8,1k --slice 0.5s --set records=1.5M,10 \
             --goal rate=10k --goal p99=20",
        )
        .unwrap();
        for line in [
            "for = [\"60s\", \"1m30s\"]",
            "warmup = [\"auto\", \"5s\"]",
            "clients = [8, 1000]",
            "slice = \"0.5s\"",
            "records = [1500000, 10]",
            "rate = \"10k/s\"",
            "p99 = 20",
        ] {
            assert!(text.lines().any(|known| known == line), "{line} is not in {text}");
        }
    }

    #[test]
    fn a_store_is_known_by_other_names_and_takes_settings_by_any() {
        let text = text("tpcb --on pg,mysql --set postgres.shared_buffers=1MiB --set mariadb.buffer_pool=5MiB");
        let stores =
            r#"stores = [{ store = "pg", shared_buffers = "1MiB" }, { store = "mysql", buffer_pool = "5MiB" }]"#;
        assert!(text.as_ref().is_ok_and(|text| text.contains(stores)), "{text:?}");
    }

    #[test]
    fn a_bare_rate_is_one_a_second() {
        let text = text("select --on postgres --rate 5000,300/min").unwrap();
        assert!(text.contains("rate = [\"5000/s\", \"300/min\"]"), "{text}");
    }

    #[test]
    fn what_cannot_be_meant_is_said() {
        for (options, what) in [
            ("--on postgres", "no workload is named"),
            ("tpcb -f a.sql --on postgres", "both the workload tpcb and scripts were named"),
            ("-f a.sql@x --on postgres", "`x` is not the weight of a script"),
            ("tpcb --on postgres --set scale", "`scale` is not a name and a value"),
            ("tpcb --on postgres --set sqlite.cache=1", "names a store that is not in --on"),
            ("tpcb --on postgres --mix a=b", "`b` is not the share of a"),
            ("tpcb --on postgres --pin 1,x", "`x` is not the number of a processor"),
            ("tpcb --on postgres --start cold", "possible values: fresh, settled, as-is"),
            ("tpcb --on postgres --for 1s --ops 2", "cannot be used with"),
            ("tpcb", "missing --on: the store to drive"),
            ("kv", "for example: plimsoll drive kv --on sqlite"),
            ("oltp --on sqlite", "missing --mix: which operations of `oltp` to run"),
            ("oltp --on sqlite", "--mix point_select=1; operation types: point_select, read_only"),
        ] {
            let error = text(options).unwrap_err();
            assert!(error.contains(what), "{options}: {error}");
        }
    }
}
