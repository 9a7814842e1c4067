//! `plimsoll list`: what a plan may name.

use plimsoll_core::{Catalogue, ParamSpec, ParamType, StoreSpec, WorkloadSpec};
use plimsoll_report::document::Table;
use plimsoll_trial::TrialError;

use crate::args::Listed;
use crate::studies;
use crate::verbs::report;

/// Prints the list.
pub fn run(catalogue: &Catalogue, what: Option<Listed>) -> Result<u8, TrialError> {
    let studies = studies::ALL.iter().map(|study| (study.name, study.title()));
    let samplers = catalogue.samplers.iter().map(|sampler| {
        let marked = if sampler.by_default { "" } else { " (only if named)" };
        (sampler.name, format!("{}{marked}", sampler.summary))
    });
    let stores = catalogue.stores.iter().flat_map(|store| described(store.spec()));
    let workloads = catalogue.workloads.iter().flat_map(asked);
    let all_samplers = "`samplers = […]` in a plan, --samplers; all by default, without those marked";
    let tables = [
        (Listed::Studies, "studies", "built-in plans; `plimsoll run NAME`", Table::pairs(studies)),
        (Listed::Stores, "stores", "`--on NAME`, or a URL where one is shown", Table::pairs(stores)),
        (
            Listed::Workloads,
            "workloads",
            "`plimsoll drive NAME`, `[workload] name = …` in a plan",
            Table::pairs(workloads),
        ),
        (Listed::Samplers, "samplers", all_samplers, Table::pairs(samplers)),
    ];
    let wanted = tables.into_iter().filter(|(listed, ..)| what.is_none_or(|what| what == *listed));
    report::print_tables(&wanted.map(|(_, title, how, table)| (title, how, table)).collect::<Vec<_>>())
}

fn described(spec: &StoreSpec) -> Vec<(&'static str, String)> {
    let words = |names: Vec<&str>| if names.is_empty() { "–".to_owned() } else { names.join(", ") };
    let also = (!spec.aliases.is_empty()).then(|| format!("also called {}", spec.aliases.join(", ")));
    let mut texts = vec![
        spec.summary.to_owned(),
        format!(
            "interfaces {} · durability {} · index {}",
            words(spec.interfaces.iter().map(|interface| interface.name()).collect()),
            words(spec.durabilities.iter().map(|durability| durability.name()).collect()),
            words(spec.index_modes.iter().map(|mode| mode.name()).collect()),
        ),
    ];
    texts.extend(also);
    texts.extend(spec.presets.iter().map(|preset| format!("  {}: {}", preset.name, preset.summary)));
    if !spec.schemes.is_empty() {
        texts.push(format!("attaches to {}://…", spec.schemes.join("://…, ")));
    }
    if !spec.packages.is_empty() {
        texts.push(format!("a private one needs the package {}", spec.packages.join(", ")));
    }
    under(spec.name, texts, spec.params)
}

fn asked(workload: &WorkloadSpec) -> Vec<(&'static str, String)> {
    let interfaces: Vec<_> = workload.interfaces.iter().map(|interface| interface.name()).collect();
    let needs = if interfaces.is_empty() { "any store".to_owned() } else { interfaces.join(", ") };
    let kinds = if workload.takes_scripts() { "one for each script".to_owned() } else { workload.kinds.join(", ") };
    let mut texts = vec![workload.summary.to_owned(), format!("needs {needs} · operations {kinds}")];
    texts.extend(workload.presets.iter().map(|preset| format!("  {}: {}", preset.name, preset.summary)));
    under(workload.name, texts, workload.params)
}

/// A name, texts that belong to it, its parameters.
fn under(name: &'static str, mut texts: Vec<String>, params: &[ParamSpec]) -> Vec<(&'static str, String)> {
    texts.extend(params.iter().map(param));
    let names = std::iter::once(name).chain(std::iter::repeat(""));
    names.zip(texts).collect()
}

fn param(spec: &ParamSpec) -> String {
    let kind = match spec.param_type {
        ParamType::Int { min, max } if max == i64::MAX => format!("at least {min}"),
        ParamType::Int { min, max } => format!("{min} to {max}"),
        ParamType::Bytes => "a size".to_owned(),
        ParamType::Duration => "a duration".to_owned(),
        ParamType::Bool => "true or false".to_owned(),
        ParamType::OneOf(words) => words.join(" | "),
        ParamType::Text => "text".to_owned(),
    };
    format!("  {} = {} ({kind}): {}", spec.name, spec.default, spec.summary)
}
