//! The cells of a plan of promises: a store with its settings and what becomes of its disk, the moments together; and the command
//! that tries one of them alone.

use plimsoll_core::{Catalogue, DiskSpec, NodeChoice, ParamSpec, ParamType, ParamValue, Params, shell_word};
use plimsoll_plan::model::{PhaseStep, Plan, PlannedTrial};
use plimsoll_record::data::Cell;
use plimsoll_trial::TrialError;

use crate::args::PromiseArgs;
use crate::plans::{self, PlanText};
use crate::verbs::drive;
use crate::verbs::promise::{CLIENTS, DISK, DISK_SIZE, LENGTH};

/// Key of a drive for the moment of the power cut.
const MOMENT: &str = "power_cut";
/// Label of the tries of a moment.
const REPEAT: &str = "repeat";
/// Keys whose values make a column of the matrix, and no row.
const OF_FAULT: [&str; 5] = ["disk", "disk_size", "disk_flushes", "power_node", "survivors"];

/// The cells of `plan`, in the order of their first trials.
pub fn cells(catalogue: &Catalogue, args: &PromiseArgs, plan: &Plan) -> Result<Vec<Cell>, TrialError> {
    let mut cells: Vec<(Cell, &PlannedTrial)> = Vec::new();
    for trial in &plan.trials {
        let cut = (trial.ordinal, moment(trial));
        let is_own = |key: &str| ![MOMENT, REPEAT].contains(&key);
        let labels =
            |trial: &PlannedTrial| trial.labels.iter().filter(|(key, _)| is_own(key)).map(owned).collect::<Vec<_>>();
        let is_its = |first: &PlannedTrial| first.store == trial.store && labels(first) == labels(trial);
        match cells.iter_mut().find(|(_, first)| is_its(first)) {
            Some((cell, _)) => cell.cuts.push(cut),
            None => cells.push((cell(catalogue, args, trial, cut)?, trial)),
        }
    }
    Ok(cells.into_iter().map(|(cell, _)| cell).collect())
}

fn owned((key, value): (&String, &String)) -> (String, String) {
    (key.clone(), value.clone())
}

fn cell(
    catalogue: &Catalogue,
    args: &PromiseArgs,
    trial: &PlannedTrial,
    cut: (u32, String),
) -> Result<Cell, TrialError> {
    let named = |without: &[&str]| {
        let is_named = |key: &str| {
            !["store", MOMENT, REPEAT].contains(&key)
                && !without.iter().any(|of| key == *of || key.ends_with(&format!(".{of}")))
        };
        let labels = trial.labels.iter().filter(|(key, _)| is_named(key));
        let labels: Vec<String> = labels.map(|(key, value)| format!("{key}={value}")).collect();
        if labels.is_empty() {
            trial.store.label.clone()
        } else {
            format!("{} · {}", trial.store.label, labels.join(", "))
        }
    };
    let disk = DiskSpec::of(&trial.store.params);
    let flushes = if disk.is_some_and(|disk| disk.ignores_flushes) { ", lying" } else { "" };
    let disk = disk.map_or("plain", |disk| disk.file_system.name());
    let node = match power_node(trial) {
        NodeChoice::All => String::new(),
        NodeChoice::Primary => ", of the primary".to_owned(),
        NodeChoice::Replica => ", of a replica".to_owned(),
        NodeChoice::Number(number) => format!(", of node {number}"),
        several => format!(", of nodes {several}"),
    };
    Ok(Cell {
        name: named(&[]),
        store: named(&OF_FAULT),
        fault: format!("{disk}{flushes}{node} · {}", survivors(trial)),
        cuts: vec![cut],
        command: command(catalogue, args, trial)?,
    })
}

/// Returns the moment of the power cut of `trial`, as `--cut` takes it.
fn moment(trial: &PlannedTrial) -> String {
    let cut = trial.drives().find_map(|(_, drive)| drive.power_cut);
    cut.map_or_else(String::new, |cut| cut.to_string())
}

/// Returns the nodes whose power is cut.
fn power_node(trial: &PlannedTrial) -> NodeChoice {
    trial.drives().next().map_or(NodeChoice::All, |(_, drive)| drive.power_node)
}

fn survivors(trial: &PlannedTrial) -> &'static str {
    let found = trial.phases.iter().find_map(|phase| match phase.step {
        PhaseStep::Power { survivors } => Some(survivors.word()),
        _ => None,
    });
    found.unwrap_or("none")
}

/// Returns the command that repeats `trial`, without `--cut`. It contains only options that differ from the defaults.
fn command(catalogue: &Catalogue, args: &PromiseArgs, trial: &PlannedTrial) -> Result<String, TrialError> {
    let name = &trial.store.label;
    let alone = PlanText { text: format!("stores = [\"{name}\"]\n"), ..PlanText::default() };
    let usual =
        plans::read_stores(catalogue, &alone)?.into_iter().next().map_or(Params::default(), |store| store.params);
    let mut words = vec!["plimsoll promise".to_owned(), name.clone()];
    let mut option = |name: &str, value: &str| words.push(format!("--{name} {}", shell_word(value)));
    let specs = catalogue.store(&trial.store.kind).map_or(&[][..], |kind| kind.spec().params);
    for spec in specs {
        let Some(value) = trial.store.params.0.get(spec.name) else { continue };
        let text = written(spec, value);
        match spec.name {
            "disk" if text == DISK => {}
            "disk" => option("disk", &text),
            "disk_size" if text == written_size(DISK_SIZE) => {}
            "disk_size" => option("disk-size", &text),
            _ if usual.0.get(spec.name) == Some(value) => {}
            key => option("set", &format!("{name}.{key}={text}")),
        }
    }
    let workload = catalogue.preset(&trial.workload.name).map(|(spec, _)| spec);
    for (key, given) in drive::settings(&args.set)?.iter().filter(|(key, _)| !key.contains('.')) {
        let spec = workload.and_then(|spec| spec.params.iter().find(|param| param.name == key));
        let value = spec.and_then(|spec| Some(written(spec, trial.workload.params.0.get(spec.name)?)));
        option("set", &format!("{key}={}", value.as_ref().unwrap_or(given)));
    }
    let durability = trial.drives().next().map_or("as-configured", |(_, drive)| drive.durability.name());
    option("durability", durability);
    option("survivors", survivors(trial));
    if power_node(trial) != NodeChoice::All {
        option("nodes", &power_node(trial).to_string());
    }
    if args.length != LENGTH {
        option("for", &args.length);
    }
    for (key, given) in [("workload", &args.workload), ("mix", &args.mix)] {
        given.iter().for_each(|given| option(key, given));
    }
    if args.clients != CLIENTS {
        option("clients", &args.clients.to_string());
    }
    option("seed", &trial.seed.to_string());
    Ok(words.join(" "))
}

/// Writes a value for the command line.
fn written(spec: &ParamSpec, value: &ParamValue) -> String {
    match (spec.param_type, value) {
        (ParamType::Bytes, ParamValue::Int(bytes)) => bytes_text(*bytes),
        (ParamType::Duration, ParamValue::Int(ns)) => format!("{ns}ns"),
        (_, ParamValue::Bool(is)) => is.to_string(),
        (_, ParamValue::Int(number)) => number.to_string(),
        (_, ParamValue::Text(text)) => text.clone(),
    }
}

fn written_size(text: &str) -> String {
    plimsoll_plan::parse_quantity(text, plimsoll_plan::Dimension::Size)
        .map_or_else(|_| text.to_owned(), |bytes| bytes_text(bytes as i64))
}

/// Formats the number in the largest unit of which it is a whole number.
fn bytes_text(bytes: i64) -> String {
    let units = [("GiB", 1_i64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let unit = units.into_iter().find(|(_, of)| bytes != 0 && bytes % of == 0);
    unit.map_or_else(|| format!("{bytes}B"), |(unit, of)| format!("{}{unit}", bytes / of))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use clap::Parser;
    use plimsoll_plan::model::PlannedTrial;

    use super::cells;
    use crate::args::{Cli, PromiseArgs, Verb};
    use crate::verbs::promise::{self, plan};

    fn args(words: &[String]) -> PromiseArgs {
        match Cli::try_parse_from(words).unwrap().verb {
            Verb::Promise(args) => *args,
            other => panic!("{other:?}"),
        }
    }

    /// Splits the text into words as a shell does.
    fn words(command: &str) -> Vec<String> {
        let (mut words, mut word, mut is_quoted) = (Vec::new(), String::new(), false);
        for c in command.chars() {
            match c {
                '\'' => is_quoted = !is_quoted,
                ' ' if !is_quoted => words.push(std::mem::take(&mut word)),
                c => word.push(c),
            }
        }
        words.push(word);
        words
    }

    #[test]
    fn the_command_of_a_cell_comes_to_the_same_trials() {
        let catalogue = crate::catalogue::assemble();
        for (asked, least) in [
            ("plimsoll promise sqlite", 18),
            (
                "plimsoll promise sqlite,fjall,mariadb --lying --disk ext4,xfs --disk-size 512MiB --cuts 2 --seed 7 --for 5s",
                96,
            ),
            (
                "plimsoll promise sqlite --set sqlite.journal_mode=delete,wal --set sqlite.cache_size=8MiB --set records=500,2000 -c 3",
                24,
            ),
            (
                "plimsoll promise postgres --set 'postgres.settings=fsync=off, wal_level=minimal' --survivors random --mix update=1",
                3,
            ),
            (
                "plimsoll promise postgres-replicas --durability durable --cut 'flush 12,write 900' --workload kv --nodes all,primary,2",
                12,
            ),
            ("plimsoll promise sqlite --disk files --durability durable --survivors none --cuts 1", 1),
            (
                "plimsoll promise sqlite --durability durable,buffered --survivors none --cut 'flush 3,flush 4' --tries 3",
                12,
            ),
            ("plimsoll promise postgres --survivors torn --cuts 2 --set postgres.settings=full_page_writes=off", 2),
        ] {
            let given = args(&words(asked));
            let (all, _) = plan(&catalogue, &given).unwrap().unwrap();
            assert!(all.trials.len() >= least, "{asked}: {}", all.trials.len());
            for cell in cells(&catalogue, &given, &all).unwrap() {
                let wanted = cell.cuts.iter().map(|(ordinal, _)| &all.trials[*ordinal as usize]);
                let ordinals: Vec<u32> = cell.cuts.iter().map(|(ordinal, _)| *ordinal).collect();
                let command = cell.repeat(&ordinals, cell.tries());
                let (again, _) = plan(&catalogue, &args(&words(&command))).unwrap().unwrap();
                // Where it stands, and what others there differ in, is not a trial's own.
                let alone =
                    |trial: &PlannedTrial| PlannedTrial { ordinal: 0, labels: BTreeMap::new(), ..trial.clone() };
                assert_eq!(
                    again.trials.iter().map(alone).collect::<Vec<_>>(),
                    wanted.map(alone).collect::<Vec<_>>(),
                    "{command}"
                );
            }
        }
    }

    #[test]
    fn every_trial_is_in_one_cell_and_stores_of_all_sorts_are_in_one_plan() {
        let catalogue = crate::catalogue::assemble();
        let given = args(&words("plimsoll promise sqlite,mariadb --cuts 2"));
        let (all, text) = plan(&catalogue, &given).unwrap().unwrap();
        let cells = cells(&catalogue, &given, &all).unwrap();
        let mut trials: Vec<u32> = cells.iter().flat_map(|cell| cell.cuts.iter().map(|(trial, _)| *trial)).collect();
        trials.sort_unstable();
        assert_eq!(trials, (0..all.trials.len() as u32).collect::<Vec<_>>());
        assert!(
            cells.iter().any(|cell| cell.store.starts_with("mariadb"))
                && cells.iter().any(|cell| cell.store.starts_with("sqlite"))
        );
        assert!(cells.iter().all(|cell| cell.cuts.len() == 2), "{cells:?}");
        assert!(text.contains("coupons") && text.contains("\"kv\""), "{text}");
    }

    #[test]
    fn a_store_that_can_be_nothing_of_what_is_asked_leaves_the_others_be() {
        let catalogue = crate::catalogue::assemble();
        let (stores, left_out) =
            promise::stores(&catalogue, &args(&words("plimsoll promise nats,sqlite --durability durable"))).unwrap();
        assert_eq!(stores, ["sqlite"]);
        assert_eq!(left_out, ["nats cannot do `durable`"]);
        // Alone it is refused as any plan of it would be.
        let alone = promise::stores(&catalogue, &args(&words("plimsoll promise nats --durability durable"))).unwrap();
        assert_eq!(alone, (vec!["nats".to_owned()], Vec::new()));
    }
}
