//! Catalogue of everything that a plan may name.

use plimsoll_core::catalogue::LabEntry;
use plimsoll_core::{Catalogue, Params};
use plimsoll_lab::standing::{self, Lab};

/// The catalogue of this build.
pub fn assemble() -> Catalogue {
    Catalogue {
        stores: plimsoll_stores::kinds(),
        workloads: plimsoll_workload::all(),
        samplers: plimsoll_sample::specs(),
        labs: labs(),
    }
}

/// The labs that stand. One that does not answer is none.
fn labs() -> Vec<LabEntry> {
    let Ok(runs_dir) = plimsoll_record::default_runs_dir() else { return Vec::new() };
    let labs = standing::beside(&runs_dir);
    let entry = |name: String| {
        let status = Lab::open(&labs, &name).ok()?.status().ok()?;
        let nodes = status.nodes.iter().map(|node| node.number as u32 + 1).collect();
        let (process, params) = (status.process, Params(status.params));
        Some(LabEntry {
            name,
            labs: labs.clone(),
            process,
            store: status.store,
            made_as: status.made_as,
            params,
            nodes,
        })
    };
    standing::names(&labs).unwrap_or_default().into_iter().filter_map(entry).collect()
}
