//! The phases of a plan, in order, with values that may be lists.

use std::ops::Range;

use plimsoll_core::pace::RATES_PER_S;
use plimsoll_core::{CutMoment, Durability, Mix, NodeChoice, Survivors};

use crate::document::{NodeKind, PlanNode, PlanReader, Section, short};
use crate::faults::FaultDraft;
use crate::keys::{self, KeyType};
use crate::model::{Breaker, Drive, PhaseKind, PhaseStep, Retry, RetryScope, Scenario};
use crate::nearest;
use crate::only::Condition;
use crate::quantity::{Dimension, TIME_NS_MAX};
use crate::scenarios::{kinds_of, pace_of_all, together, workers_on};
use crate::sweep::{Choices, Point};
use crate::timeline::chained;
use crate::workload::WorkloadDraft;

/// Most phases of a trial.
const PHASES_MAX: usize = 200;

/// A phase with a value, or a choice of values, for each of its keys.
pub(crate) struct PhaseDraft {
    pub(crate) name: String,
    pub(crate) kind: PhaseKind,
    pub(crate) span: Range<usize>,
    pub(crate) only: Vec<Condition>,
    pub(crate) step: StepDraft,
    pub(crate) durability_is_default: bool,
}

/// The work of a phase.
pub(crate) struct StepDraft {
    /// The step at a point of the sweep.
    pub(crate) at: Box<dyn Fn(&mut Point<'_>) -> PhaseStep>,
    /// Durability that a load or a drive requires of the store.
    pub(crate) durability: Option<Choices<Durability>>,
    /// Operation types that the phase uses, if the plan names them.
    pub(crate) kinds: Vec<String>,
    /// The scenarios of a drive, each with its operation types.
    pub(crate) scenarios: Vec<(String, Vec<String>)>,
    /// Location of a fault of the store's disk.
    pub(crate) disk: Option<Range<usize>>,
    /// Pause between drawn faults in nanoseconds, and the location of the first of them.
    pub(crate) drawn: Option<(Choices<u64>, Range<usize>)>,
}

impl StepDraft {
    /// Returns a step without requirements and faults.
    fn new(at: impl Fn(&mut Point<'_>) -> PhaseStep + 'static) -> Self {
        let (durability, kinds, scenarios, disk, drawn) = (None, Vec::new(), Vec::new(), None, None);
        Self { at: Box::new(at), durability, kinds, scenarios, disk, drawn }
    }
}

impl PlanReader<'_> {
    /// Reads the phases without their conditions, which may refer to later parts of the plan.
    pub(crate) fn phases<'a>(
        &self,
        node: &PlanNode<'a>,
        workload: &WorkloadDraft<'_>,
    ) -> Vec<(PhaseDraft, Section<'a>)> {
        let Some(tables) = self.tables(node) else {
            return Vec::new();
        };
        if tables.len() > PHASES_MAX {
            self.problem(node.span.clone(), format!("{} phases are more than {PHASES_MAX}", tables.len()), None);
            return Vec::new();
        }
        if tables.is_empty() {
            let steps = PhaseKind::ALL.map(PhaseKind::name).join(", ");
            let help = format!("begin one with [[phase]]; `do` is one of {steps}");
            self.problem(node.span.clone(), "the plan has no phase", Some(help));
        }
        let mut taken: Vec<String> = tables.iter().filter_map(|table| self.given_name(table)).collect();
        let mut phases = Vec::new();
        let mut named: Vec<String> = Vec::new();
        for table in &tables {
            let Some(section) = self.table(table, "a phase") else {
                continue;
            };
            let step = self.required(&section, "do", "`do = \"load\"`");
            let step = step.and_then(|node| self.word(&node, "step", &PhaseKind::ALL.map(PhaseKind::name)));
            let Some(kind) = step.and_then(PhaseKind::named) else {
                continue;
            };
            let (step, keys) = (kind.name(), keys::of_phase(kind));
            let what = format!("{} `{step}` phase", if kind == PhaseKind::Ask { "an" } else { "a" });
            let section = Section { what, keys, ..section };
            self.known_keys(&section);
            let name = match section.get("name") {
                Some(node) => match self.phase_name(&node) {
                    // Those of other trials may have the name, too: see `expand`.
                    Some(name) if named.contains(&name) && section.get("only").is_none() => {
                        self.problem(node.span, format!("another phase is named `{name}` already"), None);
                        continue;
                    }
                    Some(name) => {
                        named.push(name.clone());
                        name
                    }
                    None => continue,
                },
                None => free_name(step, &mut taken),
            };
            let Some(step) = self.step(kind, &name, &section, workload) else {
                continue;
            };
            let durability_is_default = step.durability.is_some() && section.get("durability").is_none();
            let (span, only) = (section.span.clone(), Vec::new());
            phases.push((PhaseDraft { name, kind, span, only, step, durability_is_default }, section));
        }
        phases
    }

    fn given_name(&self, table: &PlanNode<'_>) -> Option<String> {
        let NodeKind::Table(table) = table.kind else {
            return None;
        };
        table.get("name")?.as_str().map(str::to_owned)
    }

    /// Reads a phase's name, in a form that formulas can use.
    fn phase_name(&self, node: &PlanNode<'_>) -> Option<String> {
        let name = self.text(node)?;
        let begins_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if begins_well && name.len() <= 60 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return Some(name.to_owned());
        }
        let what = format!("`{}` cannot name a phase", short(name));
        let help = "a name is letters, digits and `_`, at most 60, and does not begin with a digit";
        self.refuse(node.span.clone(), what, Some(help.to_owned()))
    }

    fn step(
        &self,
        kind: PhaseKind,
        phase: &str,
        section: &Section<'_>,
        workload: &WorkloadDraft<'_>,
    ) -> Option<StepDraft> {
        let count = |key: &str| self.swept(section, phase, key, Self::count);
        let plain = |step: PhaseStep| StepDraft::new(move |_| step.clone());
        Some(match kind {
            PhaseKind::Load => {
                let (batch, clients) = (count("batch"), count("clients"));
                let durability = self.swept(section, phase, "durability", Self::named);
                let (batch, clients, durability) = (batch?, clients?, durability?);
                let needed = Some(durability.clone());
                let at = move |point: &mut Point<'_>| PhaseStep::Load {
                    batch: batch.at(point),
                    clients: clients.at(point),
                    durability: durability.at(point),
                };
                StepDraft { durability: needed, ..StepDraft::new(at) }
            }
            PhaseKind::Ask => {
                let op = self
                    .required(section, "op", &format!("`op = \"{}\"`", workload.example_kind()))
                    .and_then(|node| self.choices(phase, &node, |node| self.kind(node, workload)));
                let asked = self.required(section, "count", "`count = 5`").and_then(|_| count("count"));
                let op_timeout_ns = self.swept(section, phase, "op_timeout", Self::whole);
                let (op, count, op_timeout_ns) = (op?, asked?, op_timeout_ns?);
                let kinds = op.values().cloned().collect();
                let at = move |point: &mut Point<'_>| PhaseStep::Ask {
                    op: op.at(point),
                    count: count.at(point),
                    op_timeout_ns: op_timeout_ns.at(point),
                };
                StepDraft { kinds, ..StepDraft::new(at) }
            }
            PhaseKind::Drive => self.drive(phase, section, workload)?,
            PhaseKind::Settle => plain(PhaseStep::Settle),
            PhaseKind::Cold => plain(PhaseStep::Cold),
            PhaseKind::Restart => plain(PhaseStep::Restart),
            PhaseKind::Power => {
                let survivors = self.swept(section, phase, "survivors", Self::survivors)?;
                let at = move |point: &mut Point<'_>| PhaseStep::Power { survivors: survivors.at(point) };
                StepDraft::new(at)
            }
            PhaseKind::Check => plain(PhaseStep::Check),
        })
    }

    fn drive(&self, phase: &str, section: &Section<'_>, workload: &WorkloadDraft<'_>) -> Option<StepDraft> {
        let count = |key: &str| self.swept(section, phase, key, Self::count);
        let time = |key: &str| self.swept(section, phase, key, Self::whole);
        let pace = self.pace(phase, section);
        let (workers, depth) = (count("workers"), count("depth"));
        let client_hosts = match section.get("client_hosts") {
            Some(_) => count("client_hosts").map(Some),
            None => Some(None),
        };
        let reconnect = match section.get("reconnect") {
            Some(_) => count("reconnect").map(Some),
            None => Some(None),
        };
        let connect_timeout_ns = match section.get("connect_timeout") {
            Some(_) => time("connect_timeout").map(Some),
            None => Some(None),
        };
        let backoff = match section.get("backoff") {
            Some(node) => self.choices(phase, &node, |node| self.backoff(node)).map(Some),
            None => Some(None),
        };
        let retry =
            self.swept(section, phase, "retry", |this, node, takes| Some(RetryScope::named(this.one_of(node, takes)?)));
        let tries = count("tries");
        let breaker = match section.get("breaker") {
            Some(_) => count("breaker").map(Some),
            None => Some(None),
        };
        let breaker_wait_ns = time("breaker_wait");
        let power_cut = match section.get("power_cut") {
            Some(node) => self.choices(phase, &node, |node| self.power_cut(node)).map(Some),
            None => Some(None),
        };
        let power_node = match section.get("power_node") {
            Some(node) => self.choices(phase, &node, |node| self.power_node(node)),
            None => Some(Choices::fixed(NodeChoice::All, section.span.clone())),
        };
        let (scenarios, faults) = (self.scenarios(section, workload), self.faults(phase, section));
        let mix = match (section.get("mix"), default_mix(workload)) {
            (None, _) if section.get("scenario").is_some() => {
                scenarios.as_ref().map(|all| Choices::fixed(together(all), section.span.clone()))
            }
            (None, Some(mix)) => Some(Choices::fixed(mix, section.span.clone())),
            _ => self
                .required(section, "mix", &example_mix(workload))
                .and_then(|node| self.choices(phase, &node, |node| self.mix(node, workload))),
        };
        let wake = self.swept(section, phase, "wake", Self::named);
        let io = self.swept(section, phase, "io", Self::named);
        let pin = self.given(section, "pin", |this, node, _| this.processors(node));
        let keep_operations = self.given(section, "keep_operations", Self::count);
        let warmup_ns = match section.get("warmup") {
            Some(node) => self.choices(phase, &node, |node| self.warmup(node)),
            None => Some(Choices::fixed(Some(0), section.span.clone())),
        };
        let durability = match section.get("power_cut") {
            // The survival of writes that nothing syncs is a valid question for a power cut.
            Some(_) => self.swept(section, phase, "durability", Self::named),
            None => self.swept(section, phase, "durability", Self::driven_durability),
        };
        let (backlog_ns, op_timeout_ns, fault_pause_ns) = (time("backlog"), time("op_timeout"), time("fault_pause"));

        let (pace, workers, client_hosts, depth, mix) = (pace?, workers?, client_hosts?, depth?, mix?);
        let (wake, io, pin) = (wake?, io?, pin?.unwrap_or_default());
        let (warmup_ns, durability, keep_operations) = (warmup_ns?, durability?, keep_operations?);
        let (backlog_ns, op_timeout_ns, reconnect) = (backlog_ns?, op_timeout_ns?, reconnect?);
        let (connect_timeout_ns, backoff, retry, tries) = (connect_timeout_ns?, backoff?, retry?, tries?);
        if section.get("tries").is_some() && retry.values().all(Option::is_none) {
            let help = Some("set retry = \"idempotent\" or \"all\", or leave `tries` out".to_owned());
            return self.refuse(section.key_span("tries"), "`tries` has no effect without `retry`", help);
        }
        let (breaker, breaker_wait_ns) = (breaker?, breaker_wait_ns?);
        if section.get("breaker_wait").is_some() && breaker.is_none() {
            let what = "`breaker_wait` has no effect without `breaker`";
            let help = Some("set breaker = 5, or leave `breaker_wait` out".to_owned());
            return self.refuse(section.key_span("breaker_wait"), what, help);
        }
        let (scenarios, faults, power_cut, power_node) = (scenarios?, faults?, power_cut?, power_node?);
        if power_cut.is_none() && section.get("power_node").is_some() {
            let help = Some("set the moment: power_cut = \"flush 200\"".to_owned());
            return self.refuse(section.key_span("power_node"), "no node loses power in this phase", help);
        }
        if power_cut.is_some() && faults.iter().any(|fault| fault.of_disk().is_none()) {
            let what = "a power cut ends the phase and may interrupt a `fault` of servers";
            let help = Some("leave one of them out, or put them into two phases".to_owned());
            return self.refuse(section.key_span("power_cut"), what, help);
        }
        let disk = faults.iter().find_map(FaultDraft::of_disk);
        let drawn = faults.iter().find_map(FaultDraft::drawn);
        if drawn.is_none() && section.get("fault_pause").is_some() {
            let help = Some("leave it out, or write `drawn` in place of a time: kill primary drawn for 5s".to_owned());
            let what = "`fault_pause` has no effect without a drawn fault";
            return self.refuse(section.key_span("fault_pause"), what, help);
        }
        let drawn = fault_pause_ns.zip(drawn);
        let kinds = mix.values().flat_map(kinds_of).collect();
        let needed = Some(durability.clone());
        let named = scenarios.iter().map(|one| (one.name.clone(), kinds_of(&one.mix))).collect();
        let at = move |point: &mut Point<'_>| {
            let clients = match &scenarios[..] {
                [] => pace.clients.at(point),
                all => all.iter().map(|one| one.clients).sum(),
            };
            let client_hosts = client_hosts.as_ref().map(|hosts| hosts.at(point));
            let scenarios: Vec<Scenario> = scenarios.iter().map(|one| one.clone().on(client_hosts)).collect();
            let (warmup_ns, tries, wait_ns) = (warmup_ns.at(point), tries.at(point), breaker_wait_ns.at(point));
            PhaseStep::Drive(Drive {
                clients,
                depth: depth.at(point),
                backlog_ns: backlog_ns.at(point),
                wake: wake.at(point),
                io: io.at(point),
                pin: pin.clone(),
                workers: match &scenarios[..] {
                    [] => workers_on(client_hosts, workers.at(point), clients),
                    all => all.iter().map(|one| one.workers).sum(),
                },
                client_hosts,
                mix: mix.at(point),
                think: pace.think.as_ref().map(|think| think.at(point)),
                stages: pace.stages.clone(),
                reconnect: reconnect.as_ref().map(|reconnect| reconnect.at(point)),
                connect_timeout_ns: connect_timeout_ns.as_ref().map(|timeout_ns| timeout_ns.at(point)),
                backoff: backoff.as_ref().map(|backoff| backoff.at(point)),
                retry: retry.at(point).map(|scope| Retry { scope, tries }),
                breaker: breaker.as_ref().map(|failures| Breaker { failures: failures.at(point), wait_ns }),
                limit: pace.limit.at(point),
                pace: if scenarios.is_empty() { pace.at(point) } else { pace_of_all(&scenarios) },
                scenarios,
                faults: chained(faults.iter().map(|fault| fault.at(point)).collect()),
                warmup_ns: warmup_ns.unwrap_or(0),
                warmup_is_found: warmup_ns.is_none(),
                undisturbed_within_ns: None,
                durability: durability.at(point),
                op_timeout_ns: op_timeout_ns.at(point),
                keep_operations,
                power_cut: power_cut.as_ref().map(|cut| cut.at(point)),
                power_node: power_node.at(point),
            })
        };
        Some(StepDraft { durability: needed, kinds, scenarios: named, disk, drawn, ..StepDraft::new(at) })
    }

    /// Reads a word for the surviving writes.
    fn survivors(&self, node: &PlanNode<'_>, takes: &KeyType) -> Option<Survivors> {
        Survivors::named(self.one_of(node, takes)?)
    }

    /// Reads `flush 200`, or `write 1000`.
    fn power_cut(&self, node: &PlanNode<'_>) -> Option<CutMoment> {
        let text = self.text(node)?;
        let read = || text.parse().ok().filter(|at| *at != CutMoment::Now);
        let help = || Some("write \"flush 200\" or \"write 1000\", counted from the phase's beginning".to_owned());
        read().or_else(|| self.refuse(node.span.clone(), format!("`{}` is not a valid power_cut", short(text)), help()))
    }

    /// Reads `all`, `primary`, `replica`, or a node's number.
    fn power_node(&self, node: &PlanNode<'_>) -> Option<NodeChoice> {
        let written = match node.kind {
            NodeKind::Int(number) => number.to_string(),
            _ => self.text(node)?.to_owned(),
        };
        let help = || Some("write \"all\", \"primary\", \"replica\", or the number of a node, from 1".to_owned());
        let wrong = || format!("`{}` is not a valid power_node", short(&written));
        NodeChoice::named(&written).or_else(|| self.refuse(node.span.clone(), wrong(), help()))
    }

    /// Reads a time, or `auto`, which is found from the slices later.
    fn warmup(&self, node: &PlanNode<'_>) -> Option<Option<u64>> {
        match node.kind {
            NodeKind::Text("auto") => Some(None),
            NodeKind::Text(word) if word.starts_with(|c: char| c.is_ascii_alphabetic()) => {
                let help = "write a time: \"10s\", or \"auto\" to detect the warm-up";
                self.refuse(node.span.clone(), format!("`{}` is not a time", short(word)), Some(help.to_owned()))
            }
            _ => self.duration(node, 0..=TIME_NS_MAX).map(Some),
        }
    }

    /// Reads processor numbers: one list, not a sweep.
    pub(crate) fn processors(&self, node: &PlanNode<'_>) -> Option<Vec<u32>> {
        let Some(elements) = node.elements().filter(|elements| !elements.is_empty()) else {
            return self.wrong_type(node, "a list of processors such as [1]");
        };
        self.all(&elements, |element| self.int(element, 0..=4095).map(|number| number as u32))
    }

    /// Reads the durability of a drive's writes.
    fn driven_durability(&self, node: &PlanNode<'_>, takes: &KeyType) -> Option<Durability> {
        let durability = self.named(node, takes)?;
        if durability == Durability::AtEnd {
            let help = "choose \"durable\" (power loss) or \"buffered\" (the process)";
            let what = "`at-end` is for loads; a drive has no sync at its end";
            return self.refuse(node.span.clone(), what, Some(help.to_owned()));
        }
        Some(durability)
    }

    /// Reads shares of operation types, without those of zero.
    pub(crate) fn mix(&self, node: &PlanNode<'_>, workload: &WorkloadDraft<'_>) -> Option<Mix> {
        let section = match node.kind {
            NodeKind::Table(_) => self.table(node, "a mix")?,
            _ => return self.wrong_type(node, &format!("a table of shares such as {}", example_mix(workload))),
        };
        let mut mix = Mix::new();
        let mut right = true;
        for share in section.entries() {
            if !workload.kinds.iter().any(|kind| kind == share.key) {
                self.unknown_kind(section.key_span(share.key), share.key, workload);
                right = false;
                continue;
            }
            match self.int(&share, 0..=1_000_000) {
                Some(0) => {}
                Some(number) => mix.push((share.key.to_owned(), u32::try_from(number).unwrap_or(u32::MAX))),
                None => right = false,
            }
        }
        if right && mix.is_empty() {
            let help = Some(format!("write {}", example_mix(workload)));
            return self.refuse(node.span.clone(), "the mix has no operation type with a share above zero", help);
        }
        right.then_some(mix)
    }

    fn kind(&self, node: &PlanNode<'_>, workload: &WorkloadDraft<'_>) -> Option<String> {
        let name = self.text(node)?;
        if workload.kinds.iter().any(|kind| kind == name) {
            return Some(name.to_owned());
        }
        self.unknown_kind(node.span.clone(), name, workload);
        None
    }

    fn unknown_kind(&self, span: Range<usize>, name: &str, workload: &WorkloadDraft<'_>) {
        let what = format!("the workload `{}` has no operation type `{}`", workload.spec.name, short(name));
        self.problem(span, what, Some(nearest::help(name, "operation types", &workload.kinds)));
    }

    /// Reads a rate, in operations per second.
    pub(crate) fn rate(&self, node: &PlanNode<'_>) -> Option<f64> {
        let rate = self.quantity(node, Dimension::Rate)?;
        if RATES_PER_S.contains(&rate) {
            return Some(rate);
        }
        let (least, most) = (RATES_PER_S.start(), RATES_PER_S.end());
        self.refuse(node.span.clone(), format!("`{}` must be {least}/s to {most}/s", node.key), None)
    }

    /// Reads every element; `None` if `read` fails for one.
    pub(crate) fn all<'a, T>(
        &self,
        elements: &[PlanNode<'a>],
        read: impl Fn(&PlanNode<'a>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let values: Vec<T> = elements.iter().filter_map(read).collect();
        (values.len() == elements.len()).then_some(values)
    }
}

/// Returns the name of a phase without one: `step`, or `step` with the first number that makes it a name that no phase
/// has. Adds it to `taken`, which begins as the names that the plan gives.
pub fn free_name(step: &str, taken: &mut Vec<String>) -> String {
    let numbered = |number: u32| if number == 1 { step.to_owned() } else { format!("{step}_{number}") };
    let name = (1..).map(numbered).find(|name| !taken.contains(name)).unwrap_or_default();
    taken.push(name.clone());
    name
}

/// The mix of a drive that names none: the scripts with their weights, the mix of the workload's name, or the only
/// operation type.
pub(crate) fn default_mix(workload: &WorkloadDraft<'_>) -> Option<Mix> {
    if !workload.scripts.is_empty() {
        return Some(workload.scripts.iter().map(|script| (script.name.clone(), script.weight)).collect());
    }
    match (workload.preset, &workload.kinds[..]) {
        (Some(preset), _) => Some(preset.mix.iter().map(|(kind, share)| ((*kind).to_owned(), *share)).collect()),
        (None, [only]) => Some(vec![(only.clone(), 1)]),
        (None, _) => None,
    }
}

pub(crate) fn example_mix(workload: &WorkloadDraft<'_>) -> String {
    format!("`mix = {{ {} = 1 }}`", workload.example_kind())
}
