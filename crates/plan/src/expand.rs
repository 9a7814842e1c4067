//! Expansion of drafts into trials: one for each store and each point of the grid that makes a difference.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::{Durability, IndexMode, Interface, ParamType, ParamValue, Params, WorkloadSpec};

use crate::document::PlanReader;
use crate::model::{PhaseKind, PhaseStep, PlannedPhase, PlannedTrial, WorkloadUse};
use crate::only::Condition;
use crate::phases::PhaseDraft;
use crate::series::{TrialSeries, shuffle};
use crate::stores::StoreDraft;
use crate::sweep::{Choices, Point, TRIALS_MAX};
use crate::workload::WorkloadDraft;

/// All parts of a trial, with choices.
pub(crate) struct Drafts<'d, 'c> {
    pub(crate) stores: Vec<StoreDraft<'c>>,
    pub(crate) seed: Choices<u64>,
    pub(crate) workload: &'d WorkloadDraft<'c>,
    pub(crate) params: &'d [(&'static str, Choices<ParamValue>)],
    pub(crate) phases: Vec<PhaseDraft>,
    /// Conditions on trials that set out to break promises; `None` for no such trials.
    pub(crate) breaks: Option<Vec<Condition>>,
}

/// Name of the workload's parameter for the kind of index.
const INDEX: &str = "index";

impl<'c> PlanReader<'c> {
    /// Returns the trials, and the combinations that were left out, with reasons. Reports impossible combinations.
    pub(crate) fn expand(&self, drafts: &Drafts<'_, 'c>, series: &TrialSeries) -> (Vec<PlannedTrial>, Vec<String>) {
        let Some(points) = self.points(drafts.stores.len(), series) else {
            return (Vec::new(), Vec::new());
        };
        let (mut trials, mut left_out) = (Vec::new(), Vec::new());
        for store in &drafts.stores {
            if !self.speaks(store, drafts.workload.spec) {
                continue;
            }
            let mut seen = BTreeSet::new();
            for indices in &points {
                match self.trial(drafts, store, indices) {
                    Ok(trial) if seen.insert(trial.labels.clone()) => trials.push(trial),
                    Err(Some(reason)) if !left_out.contains(&reason) => left_out.push(reason),
                    _ => {}
                }
            }
        }
        if trials.is_empty() && self.problems.borrow().is_empty() {
            let span =
                drafts.params.iter().find(|(name, _)| *name == INDEX).map_or(0..0, |(_, choices)| choices.span());
            self.problem(span, "nothing is left to run", Some(left_out.join("; ")));
        }
        (self.in_order(&trials, series), left_out)
    }

    /// Repeats every point. The order is only random among trials on the same data, one round for each repeat, so
    /// that data is loaded as seldom as possible. Repeats that results decide come after all others.
    fn in_order(&self, points: &[PlannedTrial], series: &TrialSeries) -> Vec<PlannedTrial> {
        let count = points.len().saturating_mul(series.repeats as usize);
        if count > TRIALS_MAX {
            let what = format!("{} repeats of {} trials are more than {TRIALS_MAX}", series.repeats, points.len());
            self.problem(0..0, what, None);
            return Vec::new();
        }
        let groups: Vec<&[PlannedTrial]> = points.chunk_by(PlannedTrial::has_same_data).collect();
        let least = series.until.map_or(series.repeats, |until| until.least);
        let certain =
            groups.iter().enumerate().flat_map(|(at, group)| (0..least).map(move |repeat| (at, *group, repeat)));
        // A point that is run further compares with others: all of them come first.
        let further = (least..series.repeats)
            .flat_map(|repeat| groups.iter().enumerate().map(move |(at, group)| (at, *group, repeat)));
        let mut trials = Vec::with_capacity(count);
        for (at, group, repeat) in certain.chain(further) {
            let mut round: Vec<PlannedTrial> =
                group.iter().map(|trial| PlannedTrial { repeat, ..trial.clone() }).collect();
            if series.repeats > 1 {
                for trial in &mut round {
                    trial.labels.insert("repeat".to_owned(), (repeat + 1).to_string());
                }
            }
            if series.random {
                let seed = round.first().map_or(0, |trial| trial.seed);
                shuffle(&mut round, seed ^ ((at as u64) << 32) ^ u64::from(repeat));
            }
            trials.extend(round);
        }
        for (ordinal, trial) in trials.iter_mut().enumerate() {
            trial.ordinal = ordinal as u32;
        }
        trials
    }

    /// The points of the sweep, as an index into the list of each dimension, in the order of the text, with the first
    /// list outermost. `None` if there are too many.
    fn points(&self, stores: usize, series: &TrialSeries) -> Option<Vec<Vec<usize>>> {
        let dimensions = self.dimensions.borrow();
        let mut order: Vec<usize> = (0..dimensions.0.len()).collect();
        order.sort_by_key(|at| dimensions.0[*at].span.start);
        let points_max = TRIALS_MAX / stores.max(1);
        let mut points = vec![vec![0; order.len()]];
        for at in order {
            let list = &dimensions.0[at];
            let along = |point: &Vec<usize>| {
                let mut point = point.clone();
                let values = (0..list.texts.len()).map(move |index| {
                    point[at] = index;
                    point.clone()
                });
                // If a list cannot leave its first value here, its other values are impossible too.
                values.take_while(|point| series.has(point))
            };
            points = points.iter().flat_map(along).take(points_max + 1).collect();
            if points.len() > points_max {
                let what = format!("this sweep comes to more than {TRIALS_MAX} trials");
                return self.refuse(
                    list.span.clone(),
                    what,
                    Some("shorten the lists, or make several plans".to_owned()),
                );
            }
        }
        Some(points)
    }

    /// True if the store speaks the workload's interfaces; otherwise reports it.
    fn speaks(&self, store: &StoreDraft<'_>, workload: &WorkloadSpec) -> bool {
        let spec = store.kind.spec();
        let missing: Vec<&str> = workload
            .interfaces
            .iter()
            .filter(|interface| !spec.interfaces.contains(interface))
            .map(|interface| interface.name())
            .collect();
        if missing.is_empty() {
            return self.understands(store, workload);
        }
        let able: Vec<&str> = self
            .catalogue
            .stores
            .iter()
            .filter(|kind| workload.interfaces.iter().all(|interface| kind.spec().interfaces.contains(interface)))
            .map(|kind| kind.spec().name)
            .collect();
        let what = format!(
            "the store `{}` does not speak `{}`, which the workload `{}` needs",
            spec.name,
            missing.join("` and `"),
            workload.name
        );
        let help = if able.is_empty() {
            "no store of this build does".to_owned()
        } else {
            format!("these do: {}", able.join(", "))
        };
        self.problem_in(&store.source, store.span.clone(), what, Some(help));
        false
    }

    /// True if the workload's statements are written for the store's SQL; otherwise reports it.
    fn understands(&self, store: &StoreDraft<'_>, workload: &WorkloadSpec) -> bool {
        let spec = store.kind.spec();
        // A store that keeps no data accepts any statement.
        if workload.dialects.is_empty()
            || !spec.keeps_data
            || spec.dialect.is_some_and(|dialect| workload.dialects.contains(&dialect))
        {
            return true;
        }
        let dialects: Vec<&str> = workload.dialects.iter().map(|dialect| dialect.name()).collect();
        let what = format!("the workload `{}` has no statements for the SQL of `{}`", workload.name, spec.name);
        let help = format!("it is written for: {}", dialects.join(", "));
        self.problem_in(&store.source, store.span.clone(), what, Some(help));
        false
    }

    /// Returns a trial, the reason why it is left out, or `Err(None)` if a coordinate that makes no difference is not
    /// at its start.
    fn trial(
        &self,
        drafts: &Drafts<'_, 'c>,
        store: &StoreDraft<'_>,
        indices: &[usize],
    ) -> Result<PlannedTrial, Option<String>> {
        let mut point = Point { indices, used: vec![false; indices.len()] };
        let seed = drafts.seed.at(&mut point);
        let mut params = Params::default();
        for (name, choices) in drafts.params {
            params.0.insert((*name).to_owned(), choices.at(&mut point));
        }
        if let Some(reason) = missing_index(store, drafts.workload.spec, &params) {
            return Err(Some(reason));
        }
        let workload = WorkloadUse {
            name: drafts.workload.spec.name.to_owned(),
            params,
            scripts: drafts.workload.scripts.clone(),
            given: drafts.workload.given.iter().map(|name| (*name).to_owned()).collect(),
        };
        let mut phases = Vec::new();
        for draft in &drafts.phases {
            if draft.only.iter().all(|condition| holds(condition, store, &workload, &mut point)) {
                if let Some(why) = self.fits(draft, store, drafts.workload.spec, &phases, &mut point) {
                    return Err(Some(why));
                }
                if phases.iter().any(|phase: &PlannedPhase| phase.name == draft.name) {
                    let what = format!("`{}` has another phase named `{}` already", store.store.label, draft.name);
                    let help = Some("give one of them another name, or an `only` without this store".to_owned());
                    self.problem(draft.span.clone(), what, help);
                }
                let mut step = (draft.step.at)(&mut point);
                if let PhaseStep::Drive(drive) = &mut step {
                    self.draw_faults(draft, drive, seed, &mut point);
                    self.note_cut_short(&draft.name, drive);
                }
                phases.push(PlannedPhase {
                    name: draft.name.clone(),
                    step,
                    durability_is_default: draft.durability_is_default,
                });
            }
        }
        // A trial does not differ by its outcome alone.
        let mut unused = Point { indices, used: vec![false; indices.len()] };
        let mut is_of = |condition| holds(condition, store, &workload, &mut unused);
        let breaks = drafts.breaks.as_ref().is_some_and(|conditions| conditions.iter().all(&mut is_of));
        let mut labels: BTreeMap<String, String> = store.labels.clone();
        let dimensions = self.dimensions.borrow();
        for (at, dimension) in dimensions.0.iter().enumerate() {
            if point.used[at] {
                labels.insert(dimensions.label(at), dimension.texts[indices[at]].clone());
            } else if indices[at] != 0 {
                return Err(None);
            }
        }
        labels.insert("store".to_owned(), store.store.label.clone());
        Ok(PlannedTrial { ordinal: 0, repeat: 0, store: store.store.clone(), labels, seed, workload, breaks, phases })
    }

    /// Reports requirements of a phase that the store does not meet, and phases that must come before. If a swept
    /// durability is not supported, but another one of the sweep is, returns the reason to leave the point out.
    fn fits(
        &self,
        draft: &PhaseDraft,
        store: &StoreDraft<'_>,
        workload: &WorkloadSpec,
        before: &[PlannedPhase],
        point: &mut Point<'_>,
    ) -> Option<String> {
        let spec = store.kind.spec();
        if let Some(span) = &draft.step.disk {
            self.has_disk(&store.store, span);
        }
        if let Some(choices) = &draft.step.durability {
            let (durability, span) = choices.spanned(point);
            // A durability that was not set is as the store can provide it.
            let is_said = *durability != Durability::AsConfigured && !draft.durability_is_default;
            if is_said && !spec.durabilities.contains(durability) {
                let able = spec.durabilities.iter().chain(&[Durability::AsConfigured]);
                let able: Vec<&str> = able.map(|durability| durability.name()).collect();
                let is_able =
                    |other: &Durability| *other == Durability::AsConfigured || spec.durabilities.contains(other);
                if choices.values().any(is_able) {
                    return Some(format!("{} cannot do `{}`", store.store.label, durability.name()));
                }
                let what = format!("the store `{}` cannot do `{}`", spec.name, durability.name());
                self.problem(span.clone(), what, Some(format!("it can do: {}", able.join(", "))));
            }
        }
        let loaded = before.iter().any(|phase| matches!(phase.step, PhaseStep::Load { .. }));
        let needs_load = match draft.kind {
            PhaseKind::Check => true,
            // Statements may fill their tables themselves; records only come from a load.
            PhaseKind::Ask | PhaseKind::Drive => workload.interfaces.contains(&Interface::Records),
            _ => false,
        };
        if needs_load && !loaded {
            let what = format!("`{}` comes before anything is loaded (store `{}`)", draft.name, store.store.label);
            self.problem(draft.span.clone(), what, Some("put a phase with `do = \"load\"` before it".to_owned()));
        }
        None
    }
}

/// The reason why the store cannot keep indexes as the workload's parameter `index` requires; `None` if it can, or if
/// nothing is required.
fn missing_index(store: &StoreDraft<'_>, workload: &WorkloadSpec, params: &Params) -> Option<String> {
    let spec = workload.params.iter().find(|param| param.name == INDEX)?;
    if !matches!(spec.param_type, ParamType::OneOf(_)) {
        return None;
    }
    let mode = IndexMode::named(params.text(INDEX))?;
    if store.kind.spec().index_modes.contains(&mode) {
        return None;
    }
    let name = &store.store.label;
    Some(match mode {
        IndexMode::None => format!("{name} needs an index"),
        IndexMode::Own => format!("{name} has no native index"),
        IndexMode::Keyindex => format!("{name} has no key-value interface to keep index keys in"),
    })
}

fn holds(condition: &Condition, store: &StoreDraft<'_>, workload: &WorkloadUse, point: &mut Point<'_>) -> bool {
    match condition {
        Condition::Store(names) => {
            [&store.store.kind, &store.made_as, &store.store.label].into_iter().any(|own| names.contains(own))
        }
        Condition::Workload(name, values) => workload.params.0.get(*name).is_some_and(|value| values.contains(value)),
        Condition::StoreParam(name, values) => {
            store.store.params.0.get(*name).is_some_and(|value| values.contains(value))
        }
        Condition::Swept(dimension, indices) => indices.contains(&point.index(*dimension)),
    }
}
