//! The phases of a plan: what is done, in order, with values that may be lists.

use std::ops::Range;

use plimsoll_core::workload::RATES_PER_S;
use plimsoll_core::{Durability, Mix};

use crate::document::{Kind, Node, Reading, Section, short};
use crate::model::{Arrivals, Io, PhaseKind, Rate, Wake};
use crate::nearest;
use crate::only::Condition;
use crate::quantity::Dimension;
use crate::sweep::Choices;
use crate::workload::WorkloadDraft;

/// Most clients, and most workers, of a phase.
const CLIENTS_MAX: u32 = 100_000;
/// Most operations that a client has under way at once.
const DEPTH_MAX: u32 = 1_024;
/// How long an operation may have been due before the store is said not to carry the rate: ten seconds.
const BACKLOG_NS: u64 = 10 * 1_000_000_000;
/// Most phases of a trial.
const PHASES_MAX: usize = 200;
/// Most records to an operation, and most questions of a phase.
const COUNT_MAX: u32 = 10_000_000;
/// Shortest time that anything may last, in nanoseconds: a millisecond.
const TIME_NS_MIN: u64 = 1_000_000;
/// Longest time that a phase may last, in nanoseconds: 30 days.
pub(crate) const TIME_NS_MAX: u64 = 30 * 86_400 * 1_000_000_000;
/// Records to an operation of a load, unless said otherwise.
const BATCH: u32 = 1000;
/// Longest that a question may take, unless said otherwise: long enough to read a large store once.
const ASK_TIMEOUT_NS: u64 = 600 * 1_000_000_000;
/// Longest that an operation of a drive may take, unless said otherwise.
const DRIVE_TIMEOUT_NS: u64 = 10 * 1_000_000_000;

/// What `do` may say.
pub(crate) const STEPS: &[&str] = &["load", "ask", "drive", "settle", "cold", "restart", "check"];

/// A phase with a value, or a choice of values, for each of its keys.
pub(crate) struct PhaseDraft {
    pub(crate) name: String,
    pub(crate) span: Range<usize>,
    pub(crate) only: Vec<Condition>,
    pub(crate) step: StepDraft,
}

impl StepDraft {
    /// Which kind of phase that is.
    pub(crate) fn kind(&self) -> PhaseKind {
        match self {
            StepDraft::Load { .. } => PhaseKind::Load,
            StepDraft::Ask { .. } => PhaseKind::Ask,
            StepDraft::Drive(_) => PhaseKind::Drive,
            StepDraft::Settle => PhaseKind::Settle,
            StepDraft::Cold => PhaseKind::Cold,
            StepDraft::Restart => PhaseKind::Restart,
            StepDraft::Check => PhaseKind::Check,
        }
    }

    /// The kinds of operation that it asks, where the plan says.
    pub(crate) fn kinds(&self) -> Option<Vec<&str>> {
        match self {
            StepDraft::Ask { op, .. } => Some(op.values().map(String::as_str).collect()),
            StepDraft::Drive(drive) => {
                let asked = drive.mix.values().flatten().filter(|(_, share)| *share > 0);
                Some(asked.map(|(kind, _)| kind.as_str()).collect::<Vec<_>>()).filter(|kinds| !kinds.is_empty())
            }
            _ => None,
        }
    }
}

/// What a phase does.
pub(crate) enum StepDraft {
    Load { batch: Choices<u32>, clients: Choices<u32>, durability: Choices<Durability> },
    Ask { op: Choices<String>, count: Choices<u32>, op_timeout_ns: Choices<u64> },
    Drive(Box<DriveDraft>),
    Settle,
    Cold,
    Restart,
    Check,
}

/// A driven phase.
pub(crate) struct DriveDraft {
    pub(crate) clients: Choices<u32>,
    pub(crate) workers: Choices<u32>,
    pub(crate) mix: Choices<Mix>,
    pub(crate) open: Choices<bool>,
    pub(crate) depth: Choices<u32>,
    pub(crate) rate: Option<Choices<Rate>>,
    pub(crate) arrivals: Choices<Arrivals>,
    pub(crate) backlog_ns: Choices<u64>,
    pub(crate) wake: Choices<Wake>,
    pub(crate) io: Choices<Io>,
    pub(crate) pin: Vec<u32>,
    /// `None`: to be found.
    pub(crate) warmup_ns: Choices<Option<u64>>,
    pub(crate) limit: LimitDraft,
    pub(crate) durability: Choices<Durability>,
    pub(crate) op_timeout_ns: Choices<u64>,
}

/// When a driven phase ends.
pub(crate) enum LimitDraft {
    DurationNs(Choices<u64>),
    OpsPerClient(Choices<u64>),
}

/// The keys of a phase that does `step`.
pub(crate) fn keys(step: &str) -> &'static [&'static str] {
    match step {
        "load" => &["do", "name", "only", "batch", "clients", "durability"],
        "ask" => &["do", "name", "only", "op", "count", "op_timeout"],
        "drive" => &[
            "do",
            "name",
            "only",
            "clients",
            "depth",
            "workers",
            "mix",
            "loop",
            "rate",
            "arrivals",
            "backlog",
            "wake",
            "io",
            "pin",
            "warmup",
            "for",
            "ops",
            "durability",
            "op_timeout",
        ],
        _ => &["do", "name", "only"],
    }
}

impl Reading<'_> {
    /// The phases, without their conditions, which may speak of what comes later.
    pub(crate) fn phases<'a>(&self, node: &Node<'a>, workload: &WorkloadDraft<'_>) -> Vec<(PhaseDraft, Section<'a>)> {
        let Some(tables) = self.tables(node) else {
            return Vec::new();
        };
        if tables.len() > PHASES_MAX {
            self.problem(node.span.clone(), format!("{} phases are more than {PHASES_MAX}", tables.len()), None);
            return Vec::new();
        }
        if tables.is_empty() {
            self.problem(
                node.span.clone(),
                "the plan has no phase",
                Some(format!("begin one with [[phase]]; {}", steps())),
            );
        }
        let mut taken: Vec<String> = tables.iter().filter_map(|table| self.given_name(table)).collect();
        let mut phases = Vec::new();
        let mut named: Vec<String> = Vec::new();
        for table in &tables {
            let Some(section) = self.table(table, "a phase") else {
                continue;
            };
            let Some(step) =
                self.required(&section, "do", "`do = \"load\"`").and_then(|node| self.word(&node, "step", STEPS))
            else {
                continue;
            };
            let section =
                Section { what: format!("{} `{step}` phase", if step == "ask" { "an" } else { "a" }), ..section };
            self.known_keys(&section, keys(step));
            let name = match section.get("name") {
                Some(node) => match self.phase_name(&node) {
                    Some(name) if named.contains(&name) => {
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
            let Some(step) = self.step(step, &name, &section, workload) else {
                continue;
            };
            phases.push((PhaseDraft { name, span: section.span.clone(), only: Vec::new(), step }, section));
        }
        phases
    }

    fn given_name(&self, table: &Node<'_>) -> Option<String> {
        let Kind::Table(table) = table.kind else {
            return None;
        };
        table.get("name")?.as_str().map(str::to_owned)
    }

    /// A name that formulas can name.
    fn phase_name(&self, node: &Node<'_>) -> Option<String> {
        let name = self.text(node)?;
        let begins_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if begins_well && name.len() <= 60 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return Some(name.to_owned());
        }
        let what = format!("`{}` cannot name a phase", short(name));
        let help = "a name is letters, digits and `_`, at most 60, and does not begin with a digit";
        self.problem(node.span.clone(), what, Some(help.to_owned()));
        None
    }

    fn step(&self, step: &str, phase: &str, section: &Section<'_>, workload: &WorkloadDraft<'_>) -> Option<StepDraft> {
        let fixed = |value: u32| Choices::fixed(value, section.span.clone());
        Some(match step {
            "load" => {
                let batch = self.optional(section, phase, "batch", fixed(BATCH), |node| self.count(node, COUNT_MAX));
                let clients = self.optional(section, phase, "clients", fixed(1), |node| self.count(node, CLIENTS_MAX));
                let durability = self.durability(section, phase, true);
                StepDraft::Load { batch: batch?, clients: clients?, durability: durability? }
            }
            "ask" => {
                let op = self
                    .required(section, "op", &example_op(workload))
                    .and_then(|node| self.choices(phase, &node, |node| self.kind(node, workload)));
                let count = self
                    .required(section, "count", "`count = 5`")
                    .and_then(|node| self.choices(phase, &node, |node| self.count(node, COUNT_MAX)));
                let op_timeout_ns = self.time(section, phase, "op_timeout", ASK_TIMEOUT_NS, TIME_NS_MIN);
                StepDraft::Ask { op: op?, count: count?, op_timeout_ns: op_timeout_ns? }
            }
            "drive" => StepDraft::Drive(Box::new(self.drive(phase, section, workload)?)),
            "settle" => StepDraft::Settle,
            "cold" => StepDraft::Cold,
            "restart" => StepDraft::Restart,
            _ => StepDraft::Check,
        })
    }

    fn drive(&self, phase: &str, section: &Section<'_>, workload: &WorkloadDraft<'_>) -> Option<DriveDraft> {
        let fixed = |value: u32| Choices::fixed(value, section.span.clone());
        let clients = self.optional(section, phase, "clients", fixed(1), |node| self.count(node, CLIENTS_MAX));
        let workers = self.optional(section, phase, "workers", fixed(1), |node| self.count(node, CLIENTS_MAX));
        let mix = match (section.get("mix"), default_mix(workload)) {
            (None, Some(mix)) => Some(Choices::fixed(mix, section.span.clone())),
            _ => self
                .required(section, "mix", &example_mix(workload))
                .and_then(|node| self.choices(phase, &node, |node| self.mix(node, workload))),
        };
        // A rate alone says enough.
        let closed = Choices::fixed(section.get("rate").is_some(), section.span.clone());
        let open = self.optional(section, phase, "loop", closed, |node| {
            self.word(node, "loop", &["closed", "open"]).map(|word| word == "open")
        });
        let rate = section.get("rate");
        let shapes = rate.as_ref().map(|node| self.choices(phase, node, |node| self.rate_shape(node)));
        let depth = self.optional(section, phase, "depth", fixed(1), |node| self.count(node, DEPTH_MAX));
        let even = Choices::fixed(Arrivals::Even, section.span.clone());
        let arrivals = self.optional(section, phase, "arrivals", even, |node| {
            Some(match self.word(node, "spacing of arrivals", &["even", "poisson"])? {
                "poisson" => Arrivals::Poisson,
                _ => Arrivals::Even,
            })
        });
        let backlog_ns = self.time(section, phase, "backlog", BACKLOG_NS, TIME_NS_MIN);
        let precise = Choices::fixed(Wake::default(), section.span.clone());
        let wake = self.optional(section, phase, "wake", precise, |node| {
            Some(match self.word(node, "way to wake up", &["precise", "spin", "coarse"])? {
                "precise" => Wake::Precise,
                "spin" => Wake::Spin,
                _ => Wake::Coarse,
            })
        });
        let auto = Choices::fixed(Io::default(), section.span.clone());
        let io = self.optional(section, phase, "io", auto, |node| {
            Some(match self.word(node, "way to the sockets", &["auto", "epoll", "io_uring"])? {
                "auto" => Io::Auto,
                "epoll" => Io::Epoll,
                _ => Io::IoUring,
            })
        });
        let pin = match section.get("pin") {
            Some(node) => self.processors(&node),
            None => Some(Vec::new()),
        };
        let no_warmup = Choices::fixed(Some(0), section.span.clone());
        let warmup_ns = self.optional(section, phase, "warmup", no_warmup, |node| self.warmup(node));
        let limit = self.limit(phase, section);
        let durability = self.durability(section, phase, false);
        let op_timeout_ns = self.time(section, phase, "op_timeout", DRIVE_TIMEOUT_NS, TIME_NS_MIN);

        let open = open?;
        match &rate {
            None if open.values().any(|open| *open) => {
                let help = Some("add `rate = \"1000/s\"`, the operations a second of all clients together".to_owned());
                self.problem(open.span(), "an open loop needs a rate", help);
                return None;
            }
            Some(node) if !open.values().any(|open| *open) => {
                let help = Some("leave out the rate, or `loop`".to_owned());
                self.problem(
                    section.key_span(node.key),
                    "a closed loop has no rate: it goes as fast as the answers come",
                    help,
                );
                return None;
            }
            _ => {}
        }
        Some(DriveDraft {
            clients: clients?,
            workers: workers?,
            mix: mix?,
            open,
            depth: depth?,
            rate: match shapes {
                Some(rate) => Some(rate?),
                None => None,
            },
            arrivals: arrivals?,
            backlog_ns: backlog_ns?,
            wake: wake?,
            io: io?,
            pin: pin?,
            warmup_ns: warmup_ns?,
            limit: limit?,
            durability: durability?,
            op_timeout_ns: op_timeout_ns?,
        })
    }

    /// A time, or `auto`: then it is found in the slices.
    fn warmup(&self, node: &Node<'_>) -> Option<Option<u64>> {
        match node.kind {
            Kind::Text("auto") => Some(None),
            Kind::Text(word) if word.starts_with(|c: char| c.is_ascii_alphabetic()) => {
                let help = "write a time: \"10s\", or \"auto\" to leave out what is found to be warm-up";
                self.problem(node.span.clone(), format!("`{}` is no time", short(word)), Some(help.to_owned()));
                None
            }
            _ => self.duration(node, 0..=TIME_NS_MAX).map(Some),
        }
    }

    /// Processors, by number: one list, not a sweep.
    pub(crate) fn processors(&self, node: &Node<'_>) -> Option<Vec<u32>> {
        let Some(elements) = node.elements().filter(|elements| !elements.is_empty()) else {
            self.wrong_type(node, "a list of processors such as [1]");
            return None;
        };
        self.all(&elements, |element| self.int(element, 0..=4095).map(|number| number as u32))
    }

    fn limit(&self, phase: &str, section: &Section<'_>) -> Option<LimitDraft> {
        match (section.get("for"), section.get("ops")) {
            (Some(node), None) => self
                .choices(phase, &node, |node| self.duration(node, TIME_NS_MIN..=TIME_NS_MAX))
                .map(LimitDraft::DurationNs),
            (None, Some(node)) => self
                .choices(phase, &node, |node| self.int(node, 1..=i64::MAX).map(i64::unsigned_abs))
                .map(LimitDraft::OpsPerClient),
            (None, None) => {
                let help = "write `for = \"30s\"`, or `ops = 1000` for each client";
                self.problem(section.span.clone(), "a drive needs an end", Some(help.to_owned()));
                None
            }
            (Some(_), Some(node)) => {
                let what = "`for` and `ops` are two ends of one phase: leave one out";
                self.problem(section.key_span(node.key), what, None);
                None
            }
        }
    }

    /// What acknowledged writes survive; `at-end` only where `may_end` is true.
    fn durability(&self, section: &Section<'_>, phase: &str, may_end: bool) -> Option<Choices<Durability>> {
        let durable = Choices::fixed(Durability::Durable, section.span.clone());
        self.optional(section, phase, "durability", durable, |node| {
            let durability = match self.word(node, "durability", &["durable", "buffered", "at-end"])? {
                "durable" => Durability::Durable,
                "buffered" => Durability::Buffered,
                _ => Durability::AtEnd,
            };
            if durability == Durability::AtEnd && !may_end {
                let help =
                    "say what an acknowledged write survives: \"durable\" (power loss) or \"buffered\" (the process)";
                self.problem(
                    node.span.clone(),
                    "`at-end` is for loads; a drive has no sync at its end",
                    Some(help.to_owned()),
                );
                return None;
            }
            Some(durability)
        })
    }

    /// Shares of kinds of operation, those with a share of zero left out.
    fn mix(&self, node: &Node<'_>, workload: &WorkloadDraft<'_>) -> Option<Mix> {
        let section = match node.kind {
            Kind::Table(_) => self.table(node, "a mix")?,
            _ => {
                self.wrong_type(node, &format!("a table of shares such as {}", example_mix(workload)));
                return None;
            }
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
            self.problem(node.span.clone(), "the mix has no kind with a share above zero", help);
            return None;
        }
        right.then_some(mix)
    }

    fn kind(&self, node: &Node<'_>, workload: &WorkloadDraft<'_>) -> Option<String> {
        let name = self.text(node)?;
        if workload.kinds.iter().any(|kind| kind == name) {
            return Some(name.to_owned());
        }
        self.unknown_kind(node.span.clone(), name, workload);
        None
    }

    fn unknown_kind(&self, span: Range<usize>, name: &str, workload: &WorkloadDraft<'_>) {
        let what = format!("the workload `{}` has no kind of operation `{}`", workload.spec.name, short(name));
        self.problem(span, what, Some(nearest::help(name, "kinds", &workload.kind_names())));
    }

    /// A rate, in operations a second.
    pub(crate) fn rate(&self, node: &Node<'_>) -> Option<f64> {
        let rate = self.quantity(node, Dimension::Rate)?;
        if RATES_PER_S.contains(&rate) {
            return Some(rate);
        }
        let (least, most) = (RATES_PER_S.start(), RATES_PER_S.end());
        self.problem(node.span.clone(), format!("`{}` must be {least}/s to {most}/s", node.key), None);
        None
    }

    fn time(
        &self,
        section: &Section<'_>,
        phase: &str,
        key: &str,
        default_ns: u64,
        least_ns: u64,
    ) -> Option<Choices<u64>> {
        let default = Choices::fixed(default_ns, section.span.clone());
        self.optional(section, phase, key, default, |node| self.duration(node, least_ns..=TIME_NS_MAX))
    }

    fn optional<'a, T>(
        &self,
        section: &Section<'a>,
        phase: &str,
        key: &str,
        default: Choices<T>,
        read: impl Fn(&Node<'a>) -> Option<T>,
    ) -> Option<Choices<T>> {
        match section.get(key) {
            Some(node) => self.choices(phase, &node, read),
            None => Some(default),
        }
    }

    /// What `read` makes of every element; `None` if it makes nothing of one.
    pub(crate) fn all<'a, T>(&self, elements: &[Node<'a>], read: impl Fn(&Node<'a>) -> Option<T>) -> Option<Vec<T>> {
        let values: Vec<T> = elements.iter().filter_map(read).collect();
        (values.len() == elements.len()).then_some(values)
    }
}

/// `step`, or with the first number that makes it a name that no phase has.
fn free_name(step: &str, taken: &mut Vec<String>) -> String {
    let mut name = step.to_owned();
    let mut number = 1;
    while taken.contains(&name) {
        number += 1;
        name = format!("{step}_{number}");
    }
    taken.push(name.clone());
    name
}

fn steps() -> String {
    format!("`do` is one of {}", STEPS.join(", "))
}

/// The mix of a drive that names none: the scripts with their weights, the only kind there is, or the one that is
/// named as the workload.
fn default_mix(workload: &WorkloadDraft<'_>) -> Option<Mix> {
    match (&workload.scripts[..], &workload.kinds[..]) {
        ([], [only]) => Some(vec![(only.clone(), 1)]),
        ([], kinds) => {
            let name = workload.spec.name;
            kinds.iter().any(|kind| kind == name).then(|| vec![(name.to_owned(), 1)])
        }
        (scripts, _) => Some(scripts.iter().map(|script| (script.name.clone(), script.weight)).collect()),
    }
}

fn example_op(workload: &WorkloadDraft<'_>) -> String {
    format!("`op = \"{}\"`", workload.example_kind())
}

fn example_mix(workload: &WorkloadDraft<'_>) -> String {
    format!("`mix = {{ {} = 1 }}`", workload.example_kind())
}
