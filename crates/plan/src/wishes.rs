//! Goals and figures of a plan.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use plimsoll_core::study::{goal_name, is_of_step};
use plimsoll_core::waits::CONNECT;
use plimsoll_core::{OpKind, ParamValue, WorkloadSpec};

use crate::document::{NodeKind, PlanNode, PlanReader, Section, short};
use crate::formulas::Names;
use crate::keys::{FIGURE, GOALS, KeyType, PUBLISHED, PUBLISHED_TABLE};
use crate::model::{Figure, Goal, GoalKind, PhaseKind, PublishedValue};
use crate::nearest;
use crate::params::defaults_but;
use crate::phases::PhaseDraft;
use crate::quantity::show_ns;
use crate::stores::StoreDraft;
use crate::workload::WorkloadDraft;

/// A goal as written in a plan.
struct WrittenGoal<'a> {
    what: GoalKind,
    /// Operation type, step or code that the goal is limited to.
    of: Option<&'a str>,
    node: PlanNode<'a>,
    /// Location of the goal's key.
    span: Range<usize>,
}

impl WrittenGoal<'_> {
    /// Type of the goal's value.
    fn takes(&self) -> &'static KeyType {
        let name = match self.what {
            GoalKind::Percentile(_) => "p99".to_owned(),
            GoalKind::Status => "errors".to_owned(),
            what => what.name(),
        };
        &GOALS.iter().find(|key| key.name == name).expect("declared").takes
    }
}

/// True if a goal can be limited to one operation type.
fn is_by_operation(what: GoalKind) -> bool {
    matches!(what, GoalKind::Errors | GoalKind::Percentile(_) | GoalKind::Mean | GoalKind::Rate)
}

/// Returns a code as reports have it: `5XX` is `5xx`.
fn code(written: &str) -> String {
    let class = written.strip_suffix("XX").filter(|class| class.len() == 1);
    class.map_or(written.to_owned(), |class| format!("{class}xx"))
}

/// Most figures of a plan.
const FIGURES_MAX: usize = 1000;

impl PlanReader<'_> {
    /// Reads the goals of a plan with slices of this length.
    pub(crate) fn goals(&self, node: &PlanNode<'_>, slice_ns: Option<u64>) -> Vec<Goal> {
        let section = self.table(node, "[goals]");
        let wanted = section.map(|section| self.wanted(&section, None)).unwrap_or_default();
        for (at, goal) in wanted.iter().enumerate() {
            if wanted.iter().take(at).any(|other| (other.what, other.of) == (goal.what, goal.of)) {
                let of = goal.of.map_or(String::new(), |of| format!("{}.", short(of)));
                let what = format!("the goal {of}{} is given twice", goal.what.name());
                self.problem(goal.span.clone(), what, Some("leave one of them out".to_owned()));
            }
        }
        wanted.iter().filter_map(|wanted| self.goal(wanted, slice_ns.unwrap_or(0))).collect()
    }

    fn goal(&self, wanted: &WrittenGoal<'_>, slice_ns: u64) -> Option<Goal> {
        let (node, takes) = (&wanted.node, wanted.takes());
        let (limit, unit) = match takes {
            KeyType::Share(..) => (self.share(node, takes)?, "%"),
            KeyType::Rate => (self.rate(node)?, "1/s"),
            KeyType::Time(..) => (self.whole(node, takes)? as f64, "ns"),
            _ => (self.whole(node, takes)? as f64, ""),
        };
        // Only in two slices one certainly has no answer.
        let least_ns = 2 * slice_ns;
        if wanted.what == GoalKind::Outage && limit < least_ns as f64 {
            let help = format!("use at least {}, or a shorter `slice`", show_ns(least_ns));
            return self.refuse(node.span.clone(), "`outage` must be at least two slices".to_owned(), Some(help));
        }
        let of = wanted.of.map(|of| if wanted.what == GoalKind::Status { code(of) } else { of.to_owned() });
        Some(Goal { what: wanted.what, of, limit, unit: unit.to_owned() })
    }

    /// Reads the goals of a table, including nested tables: `read.p99` is for an operation type.
    fn wanted<'a>(&self, section: &Section<'a>, of: Option<&'a str>) -> Vec<WrittenGoal<'a>> {
        let mut all = Vec::new();
        for node in section.entries() {
            let span = section.key_span(node.key);
            let is_table = matches!(node.kind, NodeKind::Table(_));
            let what = format!("`{}` of {}", node.key, section.what);
            match (GoalKind::named(node.key), is_table.then(|| self.table(&node, &what)).flatten()) {
                (Some(GoalKind::Status), Some(codes)) if of.is_none() => {
                    let code = |node: PlanNode<'a>| WrittenGoal {
                        what: GoalKind::Status,
                        of: Some(node.key),
                        span: codes.key_span(node.key),
                        node,
                    };
                    all.extend(codes.entries().into_iter().map(code));
                }
                // TOML takes `p99.9` without quotes for the key `9` of a table `p99`.
                (Some(GoalKind::Percentile(_)), Some(decimals)) => {
                    for inner in decimals.entries() {
                        match GoalKind::named(&format!("{}.{}", node.key, inner.key)) {
                            Some(what) => {
                                let span = decimals.key_span(inner.key);
                                all.push(WrittenGoal { what, of, node: PlanNode { key: node.key, ..inner }, span });
                            }
                            None => self.unknown_goal(&decimals, inner.key, of),
                        }
                    }
                }
                (_, Some(goals)) if of.is_none() => {
                    let goals = self.wanted(&goals, Some(node.key)).into_iter();
                    all.extend(goals.map(|wanted| WrittenGoal { span: span.clone(), ..wanted }));
                }
                (Some(what), None) if of.map_or(what != GoalKind::Status, |_| is_by_operation(what)) => {
                    all.push(WrittenGoal { what, of, node, span });
                }
                _ => self.unknown_goal(section, node.key, of),
            }
        }
        all
    }

    fn unknown_goal(&self, section: &Section<'_>, key: &str, of: Option<&str>) {
        let known = GOALS.iter().map(|key| key.name);
        let known: Vec<&str> = match of {
            None => known.collect(),
            Some(_) => known.filter(|name| GoalKind::named(name).is_some_and(is_by_operation)).collect(),
        };
        let help = format!("{}, and any percentile like p99.9", nearest::help(key, "keys here", &known));
        self.problem(section.key_span(key), format!("unknown key `{}` in {}", short(key), section.what), Some(help));
    }

    /// Checks that some phase of the plan `root` measures each goal of `node`, and that it can be missed.
    pub(crate) fn measured(
        &self,
        root: &Section<'_>,
        node: &PlanNode<'_>,
        phases: &[PhaseDraft],
        workload: &WorkloadDraft<'_>,
        stores: &[StoreDraft<'_>],
    ) {
        let Some(section) = self.table(node, "[goals]") else { return };
        let (searched, has_faults) = (root.get("line").is_some(), self.has_faults(root));
        for wanted in self.wanted(&section, None) {
            let name = goal_name(wanted.what, wanted.of);
            let by: &[PhaseKind] = match wanted.what {
                GoalKind::Lost => &[PhaseKind::Check],
                GoalKind::Wrong => &[PhaseKind::Check, PhaseKind::Ask, PhaseKind::Drive],
                GoalKind::Stale => &[PhaseKind::Ask, PhaseKind::Drive],
                _ => &[PhaseKind::Drive],
            };
            if !phases.iter().any(|phase| by.contains(&phase.kind)) {
                let needed = by.iter().map(|kind| format!("do = \"{}\"", kind.name())).collect::<Vec<_>>().join(" or ");
                let help = format!("it needs a phase with {needed}");
                self.problem(wanted.node.span.clone(), format!("no phase measures `{}`", short(&name)), Some(help));
                continue;
            }
            let of_status = wanted.of.filter(|_| wanted.what == GoalKind::Status);
            let mut specs = stores.iter().map(|store| store.kind.spec());
            if let (Some(of), Some(first)) = (of_status, stores.first().map(|store| store.kind.spec()))
                && !specs.any(|spec| spec.error_codes.has(&code(of)))
            {
                let what = format!("no operation of `{}` fails with the code `{}`", first.name, short(of));
                let help = match of {
                    CONNECT => {
                        "attempts to connect are not operations: limit `outage`, or read `failed_connects`".to_owned()
                    }
                    _ => format!("codes of `{}` are {}", first.name, first.error_codes.example()),
                };
                self.problem(wanted.span.clone(), what, Some(help));
                continue;
            }
            // A code of three characters is an HTTP status; codes of SQL have four or five.
            let succeeds = |code: &str| code.len() == 3 && code.starts_with(['2', '3']);
            if let Some(code) = of_status.filter(|of| succeeds(of)).filter(|_| !self.source.text.contains("expect")) {
                let what = format!("no operation fails with {}: `{}` would always hold", short(code), short(&name));
                let help = "limit those that fail: errors = \"1%\", or status.5xx = \"1%\"".to_owned();
                self.problem(wanted.span.clone(), what, Some(help));
                continue;
            }
            let mut is_step = false;
            if let Some(of) = wanted.of.filter(|_| wanted.what != GoalKind::Status) {
                is_step = self.is_step(of, &wanted, phases, workload);
            }
            if wanted.what == GoalKind::Recovery && !has_faults {
                let help = "give a drive a fault: fault = \"kill primary at 40% for 5s\"".to_owned();
                self.problem(wanted.span, "no phase has a fault to recover from", Some(help));
                continue;
            }
            if wanted.what == GoalKind::Stale
                && let Some((what, help)) = self.unchecked(root, phases, workload, stores)
            {
                self.problem(wanted.span, what, Some(help));
                continue;
            }
            let is_whole = wanted.of.is_none() && (wanted.what.is_of_ledger() || wanted.what == GoalKind::Rate);
            let is_seen = is_whole || wanted.what.is_searchable() || has_faults && wanted.what.is_of_faults();
            if searched && (is_step || !is_seen) {
                let help =
                    "a search uses percentiles and errors, of all operations or of one operation type".to_owned();
                self.problem(wanted.span, format!("a load line cannot be searched by `{}`", short(&name)), Some(help));
            }
        }
    }

    /// Returns the reason why no answer is compared with acknowledged writes in some trials, and the advice. Returns
    /// `None` if answers are compared in all of them.
    fn unchecked(
        &self,
        root: &Section<'_>,
        phases: &[PhaseDraft],
        workload: &WorkloadDraft<'_>,
        stores: &[StoreDraft<'_>],
    ) -> Option<(String, String)> {
        let off = ParamValue::Text("off".to_owned());
        let mut params = workload.params.iter().flatten();
        if params.any(|(param, choices)| *param == "ledger" && choices.values().any(|value| *value == off)) {
            let what = "the ledger is off: no answer is checked for stale records".to_owned();
            return Some((what, "leave out `ledger = \"off\"`, on the command line --set ledger=off".to_owned()));
        }
        let Some(made) = workload.make().filter(|made| made.truth().is_some()) else {
            let what = format!("answers of the workload `{}` are not checked for stale records", workload.spec.name);
            return Some((what, format!("those of {} are", self.checked_workloads().join(" and "))));
        };
        if let Some(spec) = stores.iter().map(|store| store.kind.spec()).find(|spec| !spec.keeps_data) {
            let what = format!("`{}` keeps no data: no answer is checked for stale records", spec.name);
            return Some((what, "name stores that keep data".to_owned()));
        }
        let is_as_is = root.get("start").is_some_and(|node| matches!(node.kind, NodeKind::Text("as-is")));
        if is_as_is && !phases.iter().any(|phase| phase.kind == PhaseKind::Load) {
            let what = "data that the plan does not load are not checked for stale records".to_owned();
            return Some((what, "add a phase with do = \"load\", on the command line leave out --no-load".to_owned()));
        }
        let kinds = made.kinds();
        let of = |kind: &OpKind| kind.step_of.and_then(|of| kinds.get(usize::from(of))).unwrap_or(kind).name.clone();
        let checked: BTreeSet<String> = kinds.iter().filter(|kind| kind.keep_answer).map(of).collect();
        let is_asked = |phase: &&PhaseDraft| matches!(phase.kind, PhaseKind::Ask | PhaseKind::Drive);
        let mut used = phases.iter().filter(is_asked).flat_map(|phase| &phase.step.kinds);
        if !used.any(|kind| checked.contains(kind)) {
            let what = "no phase has operations whose answers are checked for stale records".to_owned();
            return Some((what, format!("add one of them: {}", checked.into_iter().collect::<Vec<_>>().join(", "))));
        }
        None
    }

    /// Returns the names of the workloads whose answers are checked by default.
    fn checked_workloads(&self) -> Vec<&'static str> {
        let specs = self.catalogue.workloads.iter().filter(|spec| !spec.takes_scripts());
        let is_checked = |spec: &&WorkloadSpec| {
            (spec.make)(1, &defaults_but(spec.params, &[]), &[]).is_ok_and(|made| made.truth().is_some())
        };
        specs.filter(is_checked).map(|spec| spec.name).collect()
    }

    /// True if the goal is for a step within operations, and not for an operation type. Reports names that are
    /// neither, and operation types that no phase drives.
    fn is_step(&self, of: &str, wanted: &WrittenGoal<'_>, phases: &[PhaseDraft], workload: &WorkloadDraft<'_>) -> bool {
        let report = |what: String, help: String| self.problem(wanted.span.clone(), what, Some(help));
        let scenarios: Vec<_> = phases.iter().flat_map(|phase| &phase.step.scenarios).collect();
        let of = match self.of_scenario(of, &scenarios, report) {
            Some(None) => return false,
            Some(Some(of)) => of,
            None => of,
        };
        if workload.kinds.iter().any(|kind| kind == of) {
            let drives = || phases.iter().filter(|phase| phase.kind == PhaseKind::Drive);
            if !drives().any(|phase| phase.step.kinds.is_empty() || phase.step.kinds.iter().any(|kind| kind == of)) {
                let driven: Vec<&String> = drives().flat_map(|phase| &phase.step.kinds).collect();
                report(format!("no phase drives `{}`", short(of)), nearest::help(of, "they drive", driven));
            }
            return false;
        }
        // Only the workload knows the names of steps, such as `transfer/2 UPDATE`, and of retried operations, such as
        // `transfer retried`.
        let of_known = workload.kinds.iter().any(|kind| {
            let rest = of.strip_prefix(kind.as_str());
            rest.is_some_and(|rest| rest.starts_with('/') || rest == " retried")
        });
        let all = if of_known { self.made(workload) } else { None };
        let all = all.unwrap_or_else(|| workload.kinds.iter().map(|kind| (kind.clone(), false)).collect());
        let found = all.iter().find(|(name, is_step)| name == of || (*is_step && is_of_step(of, name)));
        match found {
            None => {
                let names = all.iter().map(|(name, _)| name);
                let what = format!("no operation type or step of `{}` is called `{}`", workload.spec.name, short(of));
                report(what, nearest::help(of, "there are", names));
            }
            Some((_, true)) if wanted.what == GoalKind::Rate => {
                let what = format!("`{}` is a step within operations and has no rate", short(of));
                report(what, "its operation has one: leave out the step".to_owned());
            }
            Some(_) => {}
        }
        found.is_some_and(|(_, is_step)| *is_step)
    }

    /// Reads the figures.
    pub(crate) fn figures(&self, node: &PlanNode<'_>, names: &Names<'_>) -> Vec<Figure> {
        let tables = self.tables(node).unwrap_or_default();
        if tables.len() > FIGURES_MAX {
            self.problem(node.span.clone(), format!("{} figures are more than {FIGURES_MAX}", tables.len()), None);
            return Vec::new();
        }
        let mut figures: Vec<Figure> = Vec::new();
        for table in &tables {
            let Some(section) = self.section(table, "a figure", &[FIGURE]) else {
                continue;
            };
            let name = self.required(&section, "name", "`name = \"load\"`");
            let formula = self.required(&section, "formula", "`formula = \"load.seconds\"`");
            let unit = section.get("unit").and_then(|node| self.text(&node)).unwrap_or_default();
            let written = formula.as_ref().and_then(|node| self.text(node)).unwrap_or_default();
            let published = section.get("published").map(|node| self.published(&node, written, names));
            let mut published = published.unwrap_or_default();
            if let Some(node) = section.get("published_table") {
                for table in self.tables(&node).unwrap_or_default() {
                    published.extend(self.published_table(&table).unwrap_or_default());
                }
            }
            let (Some(name), Some(formula)) = (name, formula) else {
                continue;
            };
            let text = self.text(&formula).inspect(|text| self.formula(&formula, text, names));
            let (Some(called), Some(text)) = (self.text(&name), text) else { continue };
            if figures.iter().any(|figure| figure.name == called) {
                self.problem(name.span, format!("another figure is named `{}` already", short(called)), None);
            }
            let (name, formula) = (called.to_owned(), text.to_owned());
            figures.push(Figure { name, unit: unit.to_owned(), formula, published });
        }
        figures
    }

    /// Reads the values published for a figure with this `formula`.
    fn published(&self, node: &PlanNode<'_>, formula: &str, names: &Names<'_>) -> Vec<PublishedValue> {
        let mut published = Vec::new();
        for table in self.tables(node).unwrap_or_default() {
            let Some(section) = self.section(&table, "a published value", &[PUBLISHED]) else {
                continue;
            };
            let value = self.required(&section, "value", "`value = 1.91`").and_then(|node| self.number(&node));
            let of = self.required(&section, "of", "`of = \"what it was measured on\"`");
            let at = section.get("at").map_or(Some(BTreeMap::new()), |node| self.point(&node, formula, names));
            if let (Some(value), Some(of), Some(at)) = (value, of.and_then(|node| self.text(&node)), at) {
                published.push(PublishedValue { value, of: of.to_owned(), at });
            }
        }
        published
    }
}

impl PlanReader<'_> {
    /// Reads the values published for each point of two swept keys: a line with values of one key, then lines that
    /// begin with a value of the other.
    fn published_table(&self, node: &PlanNode<'_>) -> Option<Vec<PublishedValue>> {
        let section = self.section(node, "a published table", &[PUBLISHED_TABLE])?;
        let of = self.required(&section, "of", "`of = \"what it was measured on\"`").and_then(|node| self.text(&node));
        let swept = |key: &str| {
            let node = self.required(&section, key, &format!("`{key} = \"clients\"`"))?;
            self.swept_key(&node)?;
            self.text(&node).map(str::to_owned)
        };
        let (rows, columns) = (swept("rows"), swept("columns"));
        let text = self.required(&section, "text", "`text = \"\"\"…\"\"\"`")?;
        let (of, rows, columns) = (of?, rows?, columns?);
        let mut lines = self.text(&text)?.lines().map(str::trim).filter(|line| !line.is_empty());
        let head: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
        let mut all = Vec::new();
        for line in lines {
            let mut words = line.split_whitespace();
            let row = words.next().unwrap_or_default();
            let values: Option<Vec<f64>> =
                words.map(|word| word.parse().ok().filter(|v: &f64| v.is_finite())).collect();
            let Some(values) = values.filter(|values| values.len() == head.len()) else {
                let what =
                    format!("the line of {} needs {} numbers, one for each of the first line", short(row), head.len());
                return self.refuse(text.span.clone(), what, None);
            };
            for (column, value) in head.iter().zip(values) {
                let at = [(rows.clone(), row.to_owned()), (columns.clone(), (*column).to_owned())];
                all.push(PublishedValue { value, of: of.to_owned(), at: at.into() });
            }
        }
        Some(all)
    }
}
