//! Runs on simulated time: a store in this process, models of its times, and receivers of what is told.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use plimsoll_analysis::ab::AbSpec;
use plimsoll_analysis::view::GoalState;
use plimsoll_core::{Catalogue, StoreKind};
use plimsoll_drive::Driver;
use plimsoll_plan::model::Plan;
use plimsoll_record::data::{Phase, PhaseState, Run, RunState};
use plimsoll_testkit::simulated::{Simulated, StoreModel};
use plimsoll_trial::{Cells, CellsSoFar, RunSpec, Sink, Told, TrialError};
use tempfile::TempDir;

use crate::toy::{ToyKind, ToyState};

/// Receiver of a run's events. Wants an end after so many measured slices, if that is set.
#[derive(Default)]
pub struct Heard {
    /// Trials and phases, as they began and ended.
    pub course: Mutex<Vec<String>>,
    /// Remarks.
    pub remarks: Mutex<Vec<String>>,
    /// Notices.
    pub notices: Mutex<Vec<String>>,
    /// Progress of cells.
    pub cells: Mutex<Vec<CellsSoFar>>,
    /// Number of measured slices.
    pub slices: AtomicU32,
    /// Slices after which the user wants an end.
    pub stop_after: Option<u32>,
    /// Set when the user wants an end.
    pub stop: Arc<AtomicBool>,
}

impl Heard {
    /// Wants an end after so many measured slices.
    pub fn until(slices: u32) -> Self {
        Self { stop_after: Some(slices), ..Self::default() }
    }

    /// Returns the lines of the course that begin with `word`.
    pub fn lines(&self, word: &str) -> Vec<String> {
        self.course.lock().unwrap().iter().filter(|line| line.starts_with(word)).cloned().collect()
    }
}

impl Sink for Heard {
    fn take(&self, told: &Told) {
        let line = match told {
            Told::Next(name) => format!("next {name}"),
            Told::BeginTrial(header) => format!("trial {}", header.ordinal),
            Told::EndTrial(trial, _) => format!("end of trial {trial}"),
            Told::BeginPhase(header, _) => format!("phase {}", header.name),
            Told::EndPhase(_, _, end) => state_word(&end.state).to_owned(),
            Told::Ledger(check) => format!("{} lost", check.lost),
            Told::Remark(text) => return self.remarks.lock().unwrap().push(text.clone()),
            Told::Notice(text) => return self.notices.lock().unwrap().push(text.clone()),
            Told::Cells(cells) => return self.cells.lock().unwrap().push(cells.clone()),
            Told::Slice { measured: true, .. } => {
                let slices = self.slices.fetch_add(1, Ordering::SeqCst) + 1;
                if Some(slices) == self.stop_after {
                    self.stop.store(true, Ordering::SeqCst);
                }
                return;
            }
            _ => return,
        };
        self.course.lock().unwrap().push(line);
    }
}

/// Returns the state of a phase in a word.
fn state_word(state: &PhaseState) -> &'static str {
    match state {
        PhaseState::Unfinished => "unfinished",
        PhaseState::Complete => "complete",
        PhaseState::Interrupted => "interrupted",
        PhaseState::Failed(_) => "failed",
        PhaseState::Void(_) => "void",
    }
}

/// Place for simulated runs, with a toy store, a second one and one that keeps nothing: `toy`, `other` and `null`.
pub struct Simulation {
    place: TempDir,
    catalogue: Catalogue,
    /// State of `toy`.
    pub toy: Arc<ToyState>,
    /// State of `other`.
    pub other: Arc<ToyState>,
}

/// Sort of a simulated run.
#[derive(Default)]
pub struct Sort<'a> {
    /// Comparison in turn.
    pub ab: Option<&'a AbSpec>,
    /// Separate trials.
    pub cells: Option<&'a Cells<'a>>,
    /// Run that is continued.
    pub before: Option<&'a Run>,
    /// Phases with a late generator are void.
    pub strict: bool,
}

impl Simulation {
    /// Makes a place without runs.
    pub fn new() -> Self {
        Self::with(Vec::new())
    }

    /// Makes a place without runs, with further kinds of stores.
    pub fn with(more: Vec<Box<dyn StoreKind>>) -> Self {
        let (toy, other) = (Arc::<ToyState>::default(), Arc::<ToyState>::default());
        let mut stores = vec![ToyKind::named("toy", &toy), ToyKind::named("other", &other)];
        stores.push(plimsoll_store_null::kind());
        stores.extend(more);
        let catalogue = Catalogue {
            labs: Vec::new(),
            stores,
            workloads: plimsoll_workload::all(),
            samplers: plimsoll_sample::specs(),
        };
        Self { place: tempfile::tempdir().unwrap(), catalogue, toy, other }
    }

    /// Parses a plan.
    pub fn plan(&self, text: &str) -> Plan {
        plimsoll_plan::parse("simulated", text, &self.catalogue, &Default::default()).unwrap()
    }

    /// Runs a plan. Returns its error, and the recording.
    pub fn run(&self, plan: &Plan, sort: &Sort<'_>, heard: &Heard, driver: &dyn Driver) -> (Option<TrialError>, Run) {
        let ended = self.try_run(plan, sort, heard, driver).unwrap();
        (ended.result.err(), Run::load(&ended.recording).unwrap())
    }

    /// Runs a plan, whose recording may fail.
    pub fn try_run(
        &self,
        plan: &Plan,
        sort: &Sort<'_>,
        heard: &Heard,
        driver: &dyn Driver,
    ) -> Result<plimsoll_trial::Ended, TrialError> {
        let plain = RunSpec::new(self.place.path(), &heard.stop, driver);
        let words = if sort.before.is_some() { "plimsoll run --resume latest" } else { "plimsoll run plan.toml" };
        let command_line = words.split(' ').map(str::to_owned).collect();
        let plain = RunSpec { command_line, ..plain };
        let spec = RunSpec { ab: sort.ab, cells: sort.cells, before: sort.before, strict: sort.strict, ..plain };
        plimsoll_trial::run(plan, &self.catalogue, &spec, heard)
    }

    /// Runs the plan `text` on a store whose timed drives have `model`.
    pub fn model(&self, text: &str, heard: &Heard, model: &StoreModel) -> (Option<TrialError>, Run) {
        self.run(&self.plan(text), &Sort::default(), heard, &of_timed(model))
    }

    /// Returns the directory of the recordings.
    pub fn runs_dir(&self) -> &Path {
        self.place.path()
    }
}

/// Makes a driver with `model` in each drive of a given length, and a fast store in loads and checks.
pub fn of_timed(model: &StoreModel) -> Simulated<'_> {
    Simulated::new(move |drive| if drive.is_timed() { model.clone() } else { fast() })
}

/// Returns the model of a store that is fast enough for anything.
pub fn fast() -> StoreModel {
    StoreModel { capacity_per_s: 10_000.0, ..StoreModel::default() }
}

/// Returns the phases of a run, in order.
pub fn phases(run: &Run) -> Vec<&Phase> {
    run.trials.iter().flat_map(|trial| &trial.phases).collect()
}

/// Returns the phase of this name in the first trial that has one.
#[track_caller]
pub fn phase<'r>(run: &'r Run, name: &str) -> &'r Phase {
    phases(run).into_iter().find(|phase| phase.header.name == name).unwrap_or_else(|| panic!("no {name}: {run:?}"))
}

/// Returns the states of the goals `lost` and `wrong`.
pub fn promises(run: &Run) -> [GoalState; 2] {
    let view = plimsoll_analysis::view(run);
    ["lost", "wrong"].map(|name| view.goals.iter().find(|goal| goal.what.name() == name).unwrap().state)
}

/// Returns the course of a run by its recording, as [`Heard::course`] has it without names and ledgers.
pub fn recorded_course(run: &Run) -> Vec<String> {
    let mut course = Vec::new();
    for trial in &run.trials {
        course.push(format!("trial {}", trial.header.ordinal));
        for phase in &trial.phases {
            course.push(format!("phase {}", phase.header.name));
            course.push(state_word(&phase.end.state).to_owned());
        }
        course.extend(trial.end_ns.map(|_| format!("end of trial {}", trial.header.ordinal)));
    }
    course
}

/// Checks that what was told of trials and phases is what was recorded, in its order.
#[track_caller]
pub fn assert_told_is_recorded(heard: &Heard, run: &Run) {
    let course = heard.course.lock().unwrap();
    let told = course.iter().filter(|line| !line.starts_with("next ") && !line.ends_with(" lost")).cloned();
    assert_eq!(told.collect::<Vec<_>>(), recorded_course(run));
    assert_ne!(run.state, RunState::Unfinished);
}
