//! Scenarios of a drive: groups of clients, each with its own operations and pace.

use plimsoll_core::Mix;

use crate::document::{PlanReader, Section, short};
use crate::keys::SCENARIO;
use crate::model::{Arrivals, Pace, Rate, Scenario};
use crate::nearest;
use crate::pace::StageList;
use crate::phases::{default_mix, example_mix};
use crate::workload::WorkloadDraft;

/// Most scenarios of a drive.
const SCENARIOS_MAX: usize = 100;
/// Keys of a drive that each scenario sets for itself.
const THEIRS: [&str; 8] = ["clients", "workers", "mix", "loop", "rate", "stages", "arrivals", "think"];

impl PlanReader<'_> {
    /// Reads the scenarios of a drive; empty if all its clients do the same.
    pub(crate) fn scenarios(&self, drive: &Section<'_>, workload: &WorkloadDraft<'_>) -> Option<Vec<Scenario>> {
        let Some(node) = drive.get("scenario") else { return Some(Vec::new()) };
        if let Some(key) = THEIRS.into_iter().find(|key| drive.get(key).is_some()) {
            let what = format!("each scenario sets `{key}` for itself: leave it out here");
            return self.refuse(drive.key_span(key), what, None);
        }
        let tables = self.tables(&node)?;
        if !(1..=SCENARIOS_MAX).contains(&tables.len()) {
            let what = format!("a drive has 1 to {SCENARIOS_MAX} scenarios, not {}", tables.len());
            return self.refuse(node.span, what, None);
        }
        let mut all: Vec<Scenario> = Vec::new();
        for table in &tables {
            let section = self.section(table, "a scenario", &[SCENARIO])?;
            let scenario = self.scenario(&section, workload)?;
            if all.iter().any(|other| other.name == scenario.name) {
                let what = format!("another scenario is named `{}` already", short(&scenario.name));
                return self.refuse(section.get("name")?.span, what, None);
            }
            all.push(scenario);
        }
        Some(all)
    }

    fn scenario(&self, section: &Section<'_>, workload: &WorkloadDraft<'_>) -> Option<Scenario> {
        let name = self.scenario_name(section, workload)?;
        let mix = match (section.get("mix"), default_mix(workload)) {
            (None, Some(mix)) => mix,
            _ => self.mix(&self.required(section, "mix", &example_mix(workload))?, workload)?,
        };
        let rate = match (section.get("stages"), section.get("rate")) {
            (Some(node), _) => match self.staged(&node, section)? {
                StageList::Rates(stages) => Some(Rate::Stages(stages)),
                StageList::Clients(_) => {
                    let what = "the stages of a scenario must be rates";
                    return self.refuse(
                        node.span,
                        what,
                        Some("write [\"500/s@10s\", \"500/s..2000/s@30s\"]".to_owned()),
                    );
                }
            },
            (None, Some(node)) => Some(self.rate_shape(&node)?),
            (None, None) => None,
        };
        let think = match section.get("think") {
            Some(_) if rate.is_some() => {
                let what = "`rate` and `think` both determine when operations start: leave one of them out";
                return self.refuse(section.key_span("think"), what, None);
            }
            Some(node) => Some(self.think(&node)?),
            None => None,
        };
        let clients = self.value(section, "clients", Self::count)?;
        let workers = workers_on(None, self.value(section, "workers", Self::count)?, clients);
        let arrivals = self.value(section, "arrivals", Self::named)?;
        let pace = rate.map_or(Pace::Closed, |rate| Pace::Open { rate, arrivals });
        Some(Scenario { name, clients, workers, mix, pace, think })
    }

    /// Reads a name that goals can use and that is no operation type.
    fn scenario_name(&self, section: &Section<'_>, workload: &WorkloadDraft<'_>) -> Option<String> {
        let node = self.required(section, "name", "`name = \"readers\"`")?;
        let name = self.text(&node)?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if name.is_empty() || name.len() > 60 || !name.bytes().all(is_plain) {
            let what = format!("`{}` cannot name a scenario", short(name));
            let help = "a name is letters, digits, `_` and `-`, at most 60".to_owned();
            return self.refuse(node.span, what, Some(help));
        }
        if workload.kinds.iter().any(|kind| kind == name) {
            let what = format!("`{name}` is an operation type of the workload `{}`", workload.spec.name);
            let help = format!("give the scenario another name, such as `{name}ers`");
            return self.refuse(node.span, what, Some(help));
        }
        Some(name.to_owned())
    }

    /// Splits the scenario from `of`. Returns `None` if `of` names no scenario, `Some(None)` if it is a scenario's
    /// name, and otherwise the operation type or step within the scenario. Reports types that the scenario does not
    /// have.
    pub(crate) fn of_scenario<'o>(
        &self,
        of: &'o str,
        all: &[&(String, Vec<String>)],
        report: impl FnOnce(String, String),
    ) -> Option<Option<&'o str>> {
        let (name, rest) = of.split_once('/').map_or((of, None), |(name, rest)| (name, Some(rest)));
        let mut named = all.iter().filter(|(scenario, _)| scenario == name).peekable();
        named.peek()?;
        let Some(rest) = rest else { return Some(None) };
        let kinds: Vec<&String> = named.flat_map(|(_, kinds)| kinds).collect();
        let is_asked = |kind: &&String| {
            let more = rest.strip_prefix(kind.as_str());
            more.is_some_and(|more| more.is_empty() || more.starts_with('/') || more == " retried")
        };
        if !kinds.iter().any(is_asked) {
            let what = format!("the scenario `{name}` does not ask `{}`", short(rest));
            report(what, nearest::help(rest, "it asks", kinds));
            return Some(None);
        }
        Some(Some(rest))
    }
}

/// Returns the workers of `clients` on these hosts: as many on each, and at most one for each client, as a worker
/// without one has nothing to do.
pub(crate) fn workers_on(client_hosts: Option<u32>, workers: u32, clients: u32) -> u32 {
    workers.next_multiple_of(client_hosts.unwrap_or(1)).min(clients)
}

impl Scenario {
    /// Returns the scenario with its workers on these hosts.
    pub(crate) fn on(self, client_hosts: Option<u32>) -> Self {
        Self { workers: workers_on(client_hosts, self.workers, self.clients), ..self }
    }
}

/// Operation types with a share in a mix.
pub(crate) fn kinds_of(mix: &Mix) -> Vec<String> {
    mix.iter().filter(|(_, share)| *share > 0).map(|(kind, _)| kind.clone()).collect()
}

/// Sum of the mixes of all scenarios.
pub(crate) fn together(scenarios: &[Scenario]) -> Mix {
    let mut all = Mix::new();
    for (kind, share) in scenarios.iter().flat_map(|one| &one.mix) {
        match all.iter_mut().find(|(known, _)| known == kind) {
            Some((_, sum)) => *sum = sum.saturating_add(*share),
            None => all.push((kind.clone(), *share)),
        }
    }
    all
}

/// Pace of all scenarios together: the sum of their rates, if each has a constant rate.
pub(crate) fn pace_of_all(scenarios: &[Scenario]) -> Pace {
    let rates: Option<Vec<f64>> = scenarios.iter().map(|one| one.pace.rate()?.constant()).collect();
    match rates {
        Some(rates) => Pace::Open { rate: Rate::Constant(rates.iter().sum()), arrivals: Arrivals::Even },
        None => Pace::Closed,
    }
}
