//! `plimsoll list`: what a plan may name.

use std::fmt::Write;

use plimsoll_core::{Catalogue, ParamSpec, ParamType};

use crate::args::Listed;
use crate::studies;

/// The list as text.
pub fn text(catalogue: &Catalogue, what: Option<Listed>) -> String {
    let mut out = String::new();
    let wants = |listed| what.is_none_or(|what| what == listed);
    if wants(Listed::Studies) {
        section(&mut out, "studies", "built-in plans; `plimsoll run NAME`");
        for study in studies::ALL {
            let _ = writeln!(out, "  {:<12} {}", study.name, study.title());
        }
    }
    if wants(Listed::Stores) {
        section(&mut out, "stores", "`--on NAME`, or a URL where one is shown");
        for store in &catalogue.stores {
            let spec = store.spec();
            let _ = writeln!(out, "  {:<12} {}", spec.name, spec.summary);
            let words = |names: Vec<&str>| if names.is_empty() { "–".to_owned() } else { names.join(", ") };
            let _ = writeln!(
                out,
                "  {:<12} interfaces {} · durability {} · index {}",
                "",
                words(spec.interfaces.iter().map(|interface| interface.name()).collect()),
                words(spec.durabilities.iter().map(|durability| durability.name()).collect()),
                words(spec.index_modes.iter().map(|mode| mode.name()).collect()),
            );
            if !spec.schemes.is_empty() {
                let _ = writeln!(out, "  {:<12} attaches to {}://…", "", spec.schemes.join("://…, "));
            }
            if !spec.packages.is_empty() {
                let _ = writeln!(out, "  {:<12} a private one needs the package {}", "", spec.packages.join(", "));
            }
            params(&mut out, spec.params);
        }
    }
    if wants(Listed::Workloads) {
        section(&mut out, "workloads", "`[workload] name = …` in a plan");
        for workload in &catalogue.workloads {
            let _ = writeln!(out, "  {:<12} {}", workload.name, workload.summary);
            let interfaces: Vec<_> = workload.interfaces.iter().map(|interface| interface.name()).collect();
            let needs = if interfaces.is_empty() { "any store".to_owned() } else { interfaces.join(", ") };
            let _ = writeln!(out, "  {:<12} needs {needs} · operations {}", "", workload.kinds.join(", "));
            params(&mut out, workload.params);
        }
    }
    if wants(Listed::Samplers) {
        section(&mut out, "samplers", "`samplers = […]` in a plan; all by default");
        for sampler in &catalogue.samplers {
            let _ = writeln!(out, "  {:<12} {}", sampler.name, sampler.summary);
        }
    }
    out
}

fn section(out: &mut String, name: &str, how: &str) {
    if !out.is_empty() {
        out.push('\n');
    }
    let _ = writeln!(out, "{name}  ({how})");
}

fn params(out: &mut String, specs: &[ParamSpec]) {
    for spec in specs {
        let kind = match spec.param_type {
            ParamType::Int { min, max } if max == i64::MAX => format!("at least {min}"),
            ParamType::Int { min, max } => format!("{min} to {max}"),
            ParamType::Bytes => "a size".to_owned(),
            ParamType::Duration => "a duration".to_owned(),
            ParamType::Bool => "true or false".to_owned(),
            ParamType::OneOf(words) => words.join(" | "),
            ParamType::Text => "text".to_owned(),
        };
        let _ = writeln!(out, "  {:<12}   {} = {} ({kind}): {}", "", spec.name, spec.default, spec.summary);
    }
}
