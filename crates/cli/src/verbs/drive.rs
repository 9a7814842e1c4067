//! `plimsoll drive`: one workload on one store, put together from options instead of a plan file.
//!
//! The options are written down as a plan, which is run like any other and kept in the recording.

use std::fmt::Write as _;

use plimsoll_core::{Catalogue, ParamType, WorkloadSpec, quantity};

use crate::args::DriveArgs;
use crate::error::CliError;
use crate::options::{list, value};
use crate::plans::{self, Passwords, PlanText};
use crate::verbs::run;

/// Drives what `args` ask for; the exit code says whether every goal held.
pub fn run(catalogue: &Catalogue, args: &DriveArgs) -> Result<u8, CliError> {
    let from = plan_text(catalogue, args)?;
    if args.print_plan {
        return crate::print(&from.text);
    }
    // The stores stand in the plan, with what was set for them.
    run_text(catalogue, from, &[], args)
}

/// Runs the plan that was put together from `args`, on `stores` instead of its own where some are named.
pub(super) fn run_text(
    catalogue: &Catalogue,
    from: PlanText,
    stores: &[String],
    args: &DriveArgs,
) -> Result<u8, CliError> {
    let mut passwords = Passwords::of_options(args.password_file.as_deref(), &[&args.on])?;
    let (mut plan, text) = plans::read_plan(catalogue, from, stores, args.seed, &mut passwords)?;
    plan.allow_writes |= args.plan.get("allow_writes").is_some();
    run::run_plan(catalogue, &plan, &text, None, &passwords, args.quiet, args.strict)
}

/// The plan that the options come to.
pub(super) fn plan_text(catalogue: &Catalogue, args: &DriveArgs) -> Result<PlanText, CliError> {
    let name = match (&args.workload, &args.file[..]) {
        (Some(workload), []) => workload.clone(),
        (None, [_, ..]) => "script".to_owned(),
        (None, []) => {
            return Err(CliError::usage("there is nothing to drive")
                .next("name a workload (see `plimsoll list workloads`), or scripts with -f FILE"));
        }
        (Some(workload), [..]) => {
            return Err(CliError::usage(format!("both the workload {workload} and scripts were named"))
                .next("leave one of them out"));
        }
    };
    if args.on.is_empty() {
        let example = catalogue.stores.first().map_or("STORE", |store| store.spec().name);
        return Err(CliError::usage("it must be said on which store").next(format!(
            "name one or more with --on, for example --on {example}; `plimsoll list stores` lists them"
        )));
    }
    if args.plan.get("mix").is_none()
        && let Some(kinds) = catalogue.workload(&name).and_then(kinds_without_a_usual_mix)
    {
        let first = kinds.first().unwrap_or(&"read");
        return Err(CliError::usage(format!("it must be said what to drive of `{name}`"))
            .next(format!("give shares with --mix, for example --mix {first}=1; its kinds: {}", kinds.join(", "))));
    }
    let mut text = String::from("# Written by `plimsoll drive` from its options.\n");
    let (stores, workload): (Vec<_>, Vec<_>) = settings(&args.set)?.into_iter().partition(|(key, _)| key.contains('.'));
    // `--on` says where; tables stand here only for stores that take settings.
    push(&mut text, "stores", &store_list(&args.on, &stores)?);
    text.push_str(&args.plan.of_plan()?);
    // Tables that are there already are taken as they are.
    if args.no_load && args.plan.get("start").is_none() {
        push(&mut text, "start", "\"as-is\"");
    }
    let _ = write!(text, "\n[workload]\nname = {}\n", value(&name));
    let is_text = |key: &str| {
        let spec = catalogue.workload(&name).and_then(|spec| spec.params.iter().find(|param| param.name == key));
        spec.is_some_and(|param| param.param_type == ParamType::Text)
    };
    for (key, given) in &workload {
        // A text may hold commas: it is one value.
        push(&mut text, key, &if is_text(key) { value(given) } else { list(given) });
    }
    for file in &args.file {
        let (path, weight) = weighted(file)?;
        let _ = write!(text, "\n[[workload.script]]\nfile = {}\nweight = {weight}\n", value(path));
    }
    if !args.no_load {
        let _ = write!(text, "\n[[phase]]\ndo = \"load\"\n");
        // That of the drive, where it names one.
        if let Some(first) = args.plan.get("durability").and_then(|durability| durability.split(',').next()) {
            push(&mut text, "durability", &value(first.trim()));
        }
    }
    let _ = write!(text, "\n[[phase]]\ndo = \"drive\"\n");
    text.push_str(&args.plan.of_drive()?);
    if args.plan.get("for").or(args.plan.get("ops")).is_none() {
        push(&mut text, "for", "\"30s\"");
    }
    // What a ledger has seen from the load on is looked for in the end.
    let keeps_ledger =
        catalogue.workload(&name).is_some_and(|spec| spec.params.iter().any(|param| param.name == "ledger"));
    let is_off = workload.iter().any(|(key, given)| key == "ledger" && given == "off");
    if keeps_ledger && !is_off && !args.no_load {
        text.push_str("\n[[phase]]\ndo = \"check\"\n");
    }
    if !args.goal.is_empty() {
        text.push_str("\n[goals]\n");
        for (key, given) in settings(&args.goal)? {
            push(&mut text, &quantity::plain(&key), &value(&given));
        }
    }
    Ok(PlanText::of_options(name, text))
}

/// The kinds of a workload that has several, none of them named as itself: nobody can know which are meant.
fn kinds_without_a_usual_mix(spec: &WorkloadSpec) -> Option<&'static [&'static str]> {
    (spec.kinds.len() > 1 && !spec.kinds.contains(&spec.name)).then_some(spec.kinds)
}

fn push(text: &mut String, key: &str, value: &str) {
    let _ = writeln!(text, "{key} = {value}");
}

/// `name=value`, each.
fn settings(given: &[String]) -> Result<Vec<(String, String)>, CliError> {
    given
        .iter()
        .map(|given| match given.split_once('=') {
            Some((key, value)) if is_key(key) => Ok((key.to_owned(), value.to_owned())),
            _ => Err(CliError::usage(format!("`{given}` is not a name and a value"))
                .next("write NAME=VALUE, for example scale=10")),
        })
        .collect()
}

fn is_key(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
}

/// The plan's list of stores: names, and tables for those that settings of the form `store.name` are for.
fn store_list(on: &[String], settings: &[(String, String)]) -> Result<String, CliError> {
    let mut stores = Vec::new();
    let mut used = vec![false; settings.len()];
    for store in plans::whole_urls(on) {
        let store = plimsoll_plan::split_password(&store).0;
        let scheme = store.split_once("://").map_or(store.as_str(), |(scheme, _)| scheme).to_owned();
        let mut table = String::new();
        for ((key, given), used) in settings.iter().zip(&mut used) {
            if let Some((kind, name)) = key.split_once('.').filter(|(kind, _)| *kind == scheme) {
                let _ = write!(table, ", {name} = {}", list(given));
                *used = !kind.is_empty();
            }
        }
        stores.push(match table.is_empty() {
            true => value(&store),
            false => format!("{{ store = {}{table} }}", value(&store)),
        });
    }
    match settings.iter().zip(used).find(|(_, used)| !used) {
        Some(((key, _), _)) => Err(CliError::usage(format!("`--set {key}=…` is for a store that is not there"))
            .next("before the dot stands a store of `--on`")),
        None => Ok(format!("[{}]", stores.join(", "))),
    }
}

/// A script and its weight: `path@3`, as pgbench writes it.
fn weighted(file: &str) -> Result<(&str, u32), CliError> {
    match file.rsplit_once('@') {
        None => Ok((file, 1)),
        Some((path, weight)) => match weight.parse() {
            Ok(weight) if !path.is_empty() => Ok((path, weight)),
            _ => Err(CliError::usage(format!("`{weight}` is not the weight of a script"))
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
                plan_text(&crate::catalogue::assemble(), &args).map(|plan| plan.text).map_err(|error| error.to_string())
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
    fn a_bare_rate_is_one_a_second() {
        let text = text("select --on postgres --rate 5000,300/min").unwrap();
        assert!(text.contains("rate = [\"5000/s\", \"300/min\"]"), "{text}");
    }

    #[test]
    fn what_cannot_be_meant_is_said() {
        for (options, what) in [
            ("--on postgres", "there is nothing to drive"),
            ("tpcb -f a.sql --on postgres", "both the workload tpcb and scripts were named"),
            ("-f a.sql@x --on postgres", "`x` is not the weight of a script"),
            ("tpcb --on postgres --set scale", "`scale` is not a name and a value"),
            ("tpcb --on postgres --set sqlite.cache=1", "is for a store that is not there"),
            ("tpcb --on postgres --mix a=b", "`b` is not the share of a"),
            ("tpcb --on postgres --pin 1,x", "`x` is not the number of a processor"),
            ("tpcb --on postgres --start cold", "possible values: fresh, settled, as-is"),
            ("tpcb --on postgres --for 1s --ops 2", "cannot be used with"),
            ("tpcb", "it must be said on which store"),
            ("kv --on redis", "--mix read=1; its kinds: read, update"),
        ] {
            let error = text(options).unwrap_err();
            assert!(error.contains(what), "{options}: {error}");
        }
    }
}
