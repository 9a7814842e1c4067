//! Reads plans, which are TOML, into trials that are ready to run.
//!
//! Every error has a line and a column and suggests a correction. The crate reads no files and opens nothing: its
//! input is text, its output a [`model::Plan`] that was checked against the catalogue.
//!
//! | module | content |
//! |---|---|
//! | [`model`] | the result of reading a plan: [`Plan`], [`PlannedTrial`], [`PlannedPhase`] |
//! | [`error`] | mistakes in a plan, with their locations |
//! | `document` | the text as nodes with locations |
//! | `stores`, `workload`, `requests`, `phases`, `only`, `wishes`, `params` | the parts of a plan, each read from its table |
//! | `formulas` | names that formulas may use |
//! | `answers` | sentences over figures, and their conditions |
//! | [`timeline`], `condition`, `disturbance`, `clock`, `drawn`, `faults` | faults during a drive: their syntax and moments; those that wait for a reading; those from outside of servers; wrong clocks; those at drawn times; their place in a plan |
//! | `pace`, `rate`, `line` | start of operations; a rate that changes over a phase; the search for the load line |
//! | `sweep`, `series`, `expand` | values that may be lists; their combination, repeats and order; the trials |
//! | [`keys`] | definitions of all keys of a plan: type, default, description |
//! | `quantity`, `url`, `nearest` | numbers with units; URLs and their passwords; suggestions for mistyped words |
//! | `outline`, `duration`, `schema` | a plan as plain text; its duration, as far as known; a JSON Schema of plans, for editors |
//! | [`cost`] | cost of keeping a working set, from a file of prices |

mod answers;
mod clock;
mod condition;
pub mod cost;
mod disturbance;
mod document;
mod drawn;
mod duration;
pub mod error;
mod expand;
mod faults;
mod formulas;
pub mod keys;
mod line;
pub mod model;
mod nearest;
mod only;
mod outline;
mod pace;
mod params;
mod phases;
mod quantity;
mod rate;
mod requests;
mod scenarios;
mod schema;
mod series;
mod stores;
mod sweep;
pub mod timeline;
mod url;
mod wishes;
mod workload;

use std::ops::Range;
use std::path::Path;

use plimsoll_core::Catalogue;
use plimsoll_core::shown::clean;

use document::{NodeKind, PlanReader, Section};
pub use error::{PlanError, Problem};
use expand::Drafts;
pub use model::{
    Agreement, AnswerSentence, Arrivals, Drive, DriveLimit, Figure, Goal, GoalKind, Io, LineSearch, Pace, PhaseStep,
    Plan, PlannedPhase, PlannedTrial, PublishedValue, Rate, Start, StoreUse, Timeouts, WakeMode, WorkloadUse,
    Worthless,
};
pub use params::{defaults, defaults_but};
pub use phases::free_name;
pub use quantity::{Dimension, TIME_NS_MAX, parse as parse_quantity, parse_count, show_ns};
pub use schema::schema;
use sweep::Choices;
pub use timeline::{PlannedFault, is_command};
pub use url::{is_unclear, password_places, password_ranges, secret_ranges, split_password, without_secrets};

/// Changes that the command line makes to a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides {
    /// Stores to use instead of the plan's: names or URLs. Passwords in URLs are dropped: remove them with
    /// [`split_password`] before.
    pub on: Option<Vec<String>>,
    /// Seed to use instead of the plan's.
    pub seed: Option<u64>,
}

impl Plan {
    /// Iterates over the trials that run whatever the results are.
    pub fn certain(&self) -> impl Iterator<Item = &PlannedTrial> {
        let until = self.until;
        self.trials.iter().filter(move |trial| until.is_none_or(|until| trial.repeat < until.least))
    }

    /// Removes the trials for which `is_kept` is false.
    pub fn retain(&mut self, is_kept: impl FnMut(&PlannedTrial) -> bool) {
        self.trials.retain(is_kept);
        self.trials.iter_mut().zip(0..).for_each(|(trial, ordinal)| trial.ordinal = ordinal);
        self.timed_s = self.trials.iter().map(duration::timed_s).sum();
    }
}

/// Reads the text of a file that a plan names.
pub type Files<'f> = dyn Fn(&str) -> std::io::Result<String> + 'f;

/// Parses a plan that names no files.
///
/// `name` is the study's name, or the file's path, for messages. Its file name without the extension is the plan's
/// name.
///
/// # Errors
/// All mistakes that one pass can find.
pub fn parse(name: &str, text: &str, catalogue: &Catalogue, overrides: &Overrides) -> Result<Plan, PlanError> {
    parse_with_files(name, text, catalogue, overrides, &no_files)
}

/// Parses a plan that may name files (scripts, recorded arrivals). `files` reads a file by the path that the plan
/// gives.
///
/// # Errors
/// As [`parse`]; and mistakes in the files, and files that cannot be read.
pub fn parse_with_files(
    name: &str,
    text: &str,
    catalogue: &Catalogue,
    overrides: &Overrides,
    files: &Files<'_>,
) -> Result<Plan, PlanError> {
    let (shown, passwords) = url::masked(text);
    let reading = PlanReader::new(name, &shown, catalogue, files);
    let commands = if passwords.is_empty() { Vec::new() } else { faults::commands(text) };
    let is_of_command = |password: &Range<usize>| commands.iter().any(|command| command.contains(&password.start));
    for password in passwords.into_iter().filter(|password| !is_of_command(password)) {
        let remove = format!("remove it; supply it with {}", password_places(catalogue, text, password.start));
        let (what, help) = match url::is_of_several_hosts(text, &password) {
            true => (
                "the URL has a comma between two `@`, and a plan must not hold a password",
                format!("name the user once, before the first host; of a password, {remove}"),
            ),
            false => ("a plan must not hold a password", remove),
        };
        reading.problem(password, what, Some(help));
    }
    // Messages show the masked text, and a shell needs the passwords of its commands.
    let mut read = shown;
    for command in commands {
        read.replace_range(command.clone(), text.get(command).unwrap_or_default());
    }
    let plan = reading.root(&read, |root| reading.plan(name, root, overrides)).flatten();
    reading.result(name, plan)
}

/// Parses only the stores of a plan.
///
/// # Errors
/// As [`parse`].
pub fn parse_stores(name: &str, text: &str, catalogue: &Catalogue) -> Result<Vec<StoreUse>, PlanError> {
    let reading = PlanReader::new(name, text, catalogue, &no_files);
    let stores = reading.root(text, |root| {
        let root = Section { what: "the plan".to_owned(), table: root, span: 0..0, keys: &[keys::PLAN] };
        root.get("stores").map(|node| reading.stores(&node)).unwrap_or_default()
    });
    let stores = stores.map(|stores| stores.into_iter().map(|draft| draft.store).collect());
    reading.result(name, stores)
}

/// Reads no file, for texts that name none.
pub(crate) fn no_files(_: &str) -> std::io::Result<String> {
    Err(std::io::Error::other("there are no files beside this plan"))
}

impl<'c> PlanReader<'c> {
    fn plan(&self, name: &str, root: &toml_edit::Table, overrides: &Overrides) -> Option<Plan> {
        let root = Section { what: "the plan".to_owned(), table: root, span: 0..0, keys: &[keys::PLAN] };
        self.known_keys(&root);
        let text = |key: &str| root.get(key).and_then(|node| self.text(&node)).unwrap_or_default().to_owned();
        let (title, question, source) = (text("title"), text("question"), text("source"));
        let whole = |key: &str| self.value(&root, key, Self::whole);
        let (slice_ns, timeouts) =
            (whole("slice"), [whole("setup_timeout"), whole("load_timeout"), whole("work_timeout")]);
        let samplers = self.samplers(&root);
        let server_pin = self.given(&root, "server_pin", |this, node, _| this.processors(node));
        let dir = self.given(&root, "dir", |this, node, _| this.text(node).map(str::to_owned));
        let allow_writes = self.value(&root, "allow_writes", Self::bool);
        let allow_fault = self.value(&root, "allow_fault", Self::bool);
        let answer_max_bytes = self.given(&root, "answer_max", |this, node, _| this.answer_max(node));
        let seed = self.swept(&root, "", "seed", Self::whole);
        let seed = match overrides.seed {
            Some(seed) => {
                self.dimensions.borrow_mut().0.clear();
                Some(Choices::fixed(seed, 0..0))
            }
            None => seed,
        };
        let named = root.get("stores").map(|node| self.stores(&node)).unwrap_or_default();
        let given = overrides.on.as_ref().map(|on| self.stores_given(on));
        if given.is_none() {
            let example = format!("`stores = [\"{}\"]`, or name them with `--on`", self.a_store());
            self.required(&root, "stores", &example);
        }
        // Phases with faults count answers by shorter times than slices.
        let finest_ns = slice_ns.filter(|_| !self.has_faults(&root));
        let goals = root.get("goals").map(|node| self.goals(&node, finest_ns)).unwrap_or_default();

        // Operation types and parameters cannot be checked without the workload.
        let stores = given.as_deref().unwrap_or(&named);
        let workload = &self.workload(&root, stores)?;
        let node = self.required(&root, "phase", "[[phase]] and what it is to do")?;
        let (mut phases, sections): (Vec<_>, Vec<_>) = self.phases(&node, workload).into_iter().unzip();
        for (phase, section) in phases.iter_mut().zip(&sections) {
            phase.only = self.only(section, workload, stores);
        }
        // Formulas refer to phases: with a mistake in one of them, their checks would report false mistakes.
        let figures = match root.get("figure") {
            Some(node) if self.problems.borrow().is_empty() => {
                self.figures(&node, &self.names(&phases, workload, &[&named, stores]))
            }
            _ => Vec::new(),
        };
        let breaks = root.get("breaks").map(|node| self.conditions(&node, workload, stores));
        // Sentences refer to figures in the same way.
        let known = |key: &str| root.get(key).filter(|_| self.problems.borrow().is_empty());
        let answers = known("answer").map(|node| self.answers(&node, (&figures, &phases))).unwrap_or_default();
        let worthless = known("worthless").map(|node| self.worthless(&node, (&figures, &phases), &answers));
        let worthless = worthless.unwrap_or_default();
        if let Some(node) = root.get("goals").filter(|_| self.problems.borrow().is_empty()) {
            self.measured(&root, &node, &phases, workload, stores);
        }
        let series = self.series(&root);
        let line = self.line(&root);
        self.has_no_drawn_fault(&root, &phases);
        if !self.problems.borrow().is_empty() {
            return None;
        }
        let drafts = Drafts {
            stores: given.unwrap_or(named),
            seed: seed?,
            workload,
            params: workload.params.as_deref()?,
            phases,
            breaks,
        };
        let series = series?;
        self.repeats_are_decided(&root, &series, &figures, &answers);
        let [setup_ns, load_ns, work_ns] = timeouts;
        let timeouts = Timeouts { setup_ns: setup_ns?, load_ns: load_ns?, work_ns: work_ns? };
        let (trials, left_out) = self.expand(&drafts, &series);
        let timed_s = trials.iter().map(duration::timed_s).sum();
        let name = Path::new(name).file_stem().map_or(String::new(), |stem| clean(&stem.to_string_lossy()));
        let plan = Plan {
            title: if title.is_empty() { name.clone() } else { title },
            name,
            question,
            answers,
            worthless,
            source,
            trials,
            left_out,
            notices: self.notices.take(),
            goals,
            figures,
            samplers: samplers?,
            slice_ns: slice_ns?,
            timeouts,
            repeats: series.repeats,
            until: series.until,
            line,
            server_pin: server_pin?.unwrap_or_default(),
            dir: dir?,
            allow_writes: allow_writes?,
            allow_fault: allow_fault?,
            answer_max_bytes: answer_max_bytes?,
            start: series.start,
            timed_s,
        };
        self.can_be_searched(&root, &plan);
        self.problems.borrow().is_empty().then_some(plan)
    }

    /// The lower limit leaves room for an error; the upper one is that of lengths in protocols.
    fn answer_max(&self, node: &document::PlanNode<'_>) -> Option<u64> {
        let bytes = self.quantity(node, quantity::Dimension::Size)?;
        if (1_024.0..=4_294_967_295.0).contains(&bytes) {
            return Some(bytes as u64);
        }
        self.refuse(node.span.clone(), format!("`{}` must be 1 KiB to 4 GiB", node.key), None)
    }

    fn samplers(&self, root: &Section<'_>) -> Option<Vec<String>> {
        let all: Vec<&str> = self.catalogue.samplers.iter().map(|sampler| sampler.name).collect();
        let by_default = || self.catalogue.samplers.iter().filter(|one| one.by_default).map(|one| one.name.to_owned());
        let Some(node) = root.get("samplers") else {
            return Some(by_default().collect());
        };
        let NodeKind::List(_) = node.kind else {
            return self.wrong_type(&node, "a list of names");
        };
        let mut samplers: Vec<String> = Vec::new();
        let words = [all, vec![keys::SAMPLERS_DEFAULT]].concat();
        for node in node.elements()? {
            let name = self.word(&node, "sampler", &words)?.to_owned();
            if name == keys::SAMPLERS_DEFAULT {
                let others: Vec<String> = by_default().filter(|one| !samplers.contains(one)).collect();
                samplers.extend(others);
                continue;
            }
            if samplers.contains(&name) {
                self.problem(node.span, format!("`{name}` is listed twice in `samplers`"), None);
            } else {
                samplers.push(name);
            }
        }
        Some(samplers)
    }
}
