//! Driven phases of a run, repeats together, and the points whose throughputs may be compared.

use std::cmp::Reverse;

use indexmap::IndexMap;
use plimsoll_core::Durability;
use plimsoll_record::data::{PhaseKind, PhaseState, Trial};

use crate::name::{self, REPEAT};
use crate::phase::PhaseFacts;
use crate::stat;

/// Keys of a sweep that set other conditions and no other load: other operations, and another device.
const CONDITIONS: [&str; 3] = ["mix", "disk_flushes", "disk_speed"];

/// All repeats of one driven phase at one point of the sweep.
pub struct DrivenPoint<'p, 'a> {
    /// The phase in each repeat.
    pub repeats: Vec<&'p PhaseFacts<'a>>,
}

impl DrivenPoint<'_, '_> {
    /// Returns the trial of the first repeat.
    pub fn trial(&self) -> Option<&Trial> {
        self.repeats.first().map(|facts| facts.trial)
    }

    /// Returns the name of the trial without its repeat.
    pub fn name(&self) -> String {
        self.trial().map_or(String::new(), |trial| name::trial_without(&trial.header, &[REPEAT]))
    }

    /// Returns the name of the phase.
    pub fn phase(&self) -> &str {
        self.repeats.first().map_or("", |facts| &facts.phase.header.name)
    }

    fn store(&self) -> &str {
        self.trial().map_or("", |trial| trial.header.store_label.as_str())
    }

    /// Returns true if the plan sets out to break promises there.
    fn breaks(&self) -> bool {
        self.trial().is_some_and(|trial| trial.header.breaks)
    }

    fn durability(&self) -> Option<Durability> {
        self.repeats.first().and_then(|facts| facts.phase.header.durability)
    }

    /// Returns the labels that set [`CONDITIONS`], with their values. A label may begin with its scope: `mixed.mix`.
    fn conditions(&self) -> Vec<(&String, &String)> {
        let is_condition = |label: &str| {
            let key = label.rsplit_once('.').map_or(label, |(_, key)| key);
            CONDITIONS.contains(&key)
        };
        let labels = self.trial().into_iter().flat_map(|trial| &trial.header.labels);
        labels.filter(|(label, _)| is_condition(label)).collect()
    }

    /// Returns true if a fault began in the phase.
    pub fn has_faults(&self) -> bool {
        self.repeats.iter().any(|facts| {
            let phase = facts.phase.header.ordinal;
            facts.trial.faults.iter().any(|fault| fault.phase == phase)
        })
    }

    /// Returns true if both are of one store, and their trials have the same operations, devices and promises.
    fn has_conditions_of(&self, other: &DrivenPoint<'_, '_>) -> bool {
        self.store() == other.store() && self.breaks() == other.breaks() && self.conditions() == other.conditions()
    }

    /// Returns true if the throughputs may be compared, although the phases may be different ones.
    fn is_comparable(&self, other: &DrivenPoint<'_, '_>) -> bool {
        self.has_conditions_of(other) && self.durability() == other.durability()
    }

    /// Returns true if the throughputs may be compared and are of one phase.
    pub fn is_like(&self, other: &DrivenPoint<'_, '_>) -> bool {
        self.phase() == other.phase() && self.is_comparable(other)
    }

    /// Returns the median throughput of the repeats.
    pub fn rate_per_s(&self) -> Option<f64> {
        let rates: Vec<f64> = self.repeats.iter().filter_map(|facts| facts.rate(None)).map(|rate| rate.value).collect();
        stat::median(&rates)
    }
}

/// Returns the driven phases in which something ended or was due, repeats together.
pub fn points<'p, 'a>(facts: &'p [Vec<PhaseFacts<'a>>]) -> Vec<DrivenPoint<'p, 'a>> {
    let mut points: IndexMap<(String, &str), DrivenPoint<'p, 'a>> = IndexMap::new();
    for facts in facts.iter().flatten() {
        let header = &facts.phase.header;
        let is_void = matches!(facts.phase.end.state, PhaseState::Void(_));
        let is_seen = facts.counted_s > 0.0 && facts.count(None, |_| true) + facts.unfinished_count() > 0;
        if header.kind == PhaseKind::Drive && is_seen && !is_void {
            let name = name::trial_without(&facts.trial.header, &[REPEAT]);
            let point = points.entry((name, &header.name)).or_insert_with(|| DrivenPoint { repeats: Vec::new() });
            point.repeats.push(facts);
        }
    }
    points.into_values().collect()
}

/// Groups `points` for a line each, store by store: [like](DrivenPoint::is_like) ones, or if these are more than `most` groups,
/// those under the same conditions, or else all of a store.
pub fn lines<'s, 'p, 'a>(points: &'s [DrivenPoint<'p, 'a>], most: usize) -> Vec<Vec<&'s DrivenPoint<'p, 'a>>> {
    let all: Vec<&DrivenPoint<'p, 'a>> = points.iter().collect();
    let of_stores = groups(&all, |one, other| one.store() == other.store());
    let ordered: Vec<&DrivenPoint<'p, 'a>> = of_stores.iter().flatten().copied().collect();
    let like = groups(&ordered, |one, other| one.is_like(other));
    if like.len() <= most {
        return like;
    }
    let of_conditions = groups(&ordered, |one, other| one.has_conditions_of(other));
    if of_conditions.len() <= most { of_conditions } else { of_stores }
}

/// Returns those of `points` that may be compared with each other: of several such groups the one that breaks no promises,
/// then a durable one, then the largest, then the first.
pub fn comparable<'s, 'p, 'a>(points: &[&'s DrivenPoint<'p, 'a>]) -> Vec<&'s DrivenPoint<'p, 'a>> {
    let groups = groups(points, |one, other| one.is_comparable(other));
    let rank = |(at, group): &(usize, Vec<&'s DrivenPoint<'p, 'a>>)| {
        let first = group.first();
        let keeps = first.is_some_and(|point| !point.breaks());
        let is_durable = first.is_some_and(|point| point.durability() == Some(Durability::Durable));
        (keeps, is_durable, group.len(), Reverse(*at))
    };
    groups.into_iter().enumerate().max_by_key(rank).map(|(_, group)| group).unwrap_or_default()
}

/// Groups `items` by a relation, in the order of the first of each group.
fn groups<'s, T>(items: &[&'s T], are_one: impl Fn(&T, &T) -> bool) -> Vec<Vec<&'s T>> {
    let mut groups: Vec<Vec<&'s T>> = Vec::new();
    for item in items.iter().copied() {
        match groups.iter_mut().find(|group| group.first().is_some_and(|first| are_one(first, item))) {
            Some(group) => group.push(item),
            None => groups.push(vec![item]),
        }
    }
    groups
}
