//! Announcement of a run of promises: its size, the number of trials at once, and its estimated time.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use plimsoll_analysis::{number, stat};
use plimsoll_plan::model::Plan;
use plimsoll_record::data::Cell;
use plimsoll_record::{Glance, glance};
use plimsoll_sample::room::Room;

use crate::progress::length;
use crate::verbs::promise::NAME;

/// Memory that is set aside for a store, its disk and its load.
const CELL_BYTES: u64 = 1 << 30;
/// Runs that are looked at for how long cuts took here.
const RUNS_MAX: usize = 20;
/// Estimated seconds of a cut without experience.
const GUESS_S: f64 = 10.0;

/// Returns the number of trials at once, and its reason: `asked`, or as many as processors and memory permit.
pub fn jobs(asked: Option<u32>, trials: usize) -> (usize, String) {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let (most, why) = match (asked, Room::now().memory) {
        (Some(asked), _) => (asked as usize, "--jobs".to_owned()),
        (None, Some(memory)) if ((memory.left / CELL_BYTES) as usize) < processors => {
            let left = number::bytes(memory.left as f64);
            ((memory.left / CELL_BYTES) as usize, format!("{left} of memory are free"))
        }
        (None, _) => (processors, number::plural(processors as u64, "processor", "processors")),
    };
    (most.clamp(1, trials.max(1)), why)
}

/// The newest runs of promises in `runs_dir`, with their names.
pub fn known(runs_dir: &Path) -> Vec<(String, Glance)> {
    let ids = plimsoll_record::ids(runs_dir).unwrap_or_default().into_iter().rev();
    // Unreadable recordings contain no times.
    let read = ids.filter_map(|id| Some((id.clone(), glance(&runs_dir.join(&id)).ok()?)));
    read.filter(|(_, run)| run.plan_name == NAME).take(RUNS_MAX).collect()
}

/// Returns the announcement: `12 cells, at most 36 power cuts, 2 at once (2 processors); about 4 min, by 52 cuts here before`.
pub fn words(plan: &Plan, cells: &[Cell], (jobs, why): &(usize, String), known: &[(String, Glance)]) -> String {
    let mut times: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (store, ns) in known.iter().flat_map(|(_, run)| &run.trials) {
        times.entry(store).or_default().push(*ns as f64 / 1e9);
    }
    let all: Vec<f64> = times.values().flatten().copied().collect();
    let usual_s = stat::median(&all).unwrap_or(GUESS_S);
    let one_s = |store: &str| times.get(store).and_then(|times| stat::median(times)).unwrap_or(usual_s);
    let seconds: f64 = plan.trials.iter().map(|trial| one_s(&trial.store.label)).sum();
    let by = match all.len() as u64 {
        0 => format!("estimated at {} a cut: none was made here before", number::seconds(GUESS_S)),
        n => format!("by the medians of {} here before", number::plural(n, "cut", "cuts")),
    };
    let cuts = plan.trials.len() as u64;
    format!(
        "{}, at most {}, {jobs} at once ({why}); about {}, {by}",
        number::plural(cells.len() as u64, "cell", "cells"),
        number::plural(cuts, "power cut", "power cuts"),
        length(Duration::from_secs_f64(seconds / *jobs as f64)),
    )
}
