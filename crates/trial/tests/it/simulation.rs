//! Runs on simulated time: a store in this process, models of its times, and receivers of what is told.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use plimsoll_analysis::ab::AbSpec;
use plimsoll_core::{
    Answer, BlockingSession, Call, Catalogue, Durability, Footprint, KvCall, Layout, Op, OpKind, OpenOptions, Outcome,
    Sessions, Store, StoreDescription, StoreError, StoreKind, StoreSpec,
};
use plimsoll_drive::Driver;
use plimsoll_plan::model::Plan;
use plimsoll_record::data::{PhaseState, Run, RunState};
use plimsoll_testkit::lying_kv::Pairs;
use plimsoll_testkit::simulated::{Simulated, StoreModel};
use plimsoll_trial::{Cells, CellsSoFar, RunSpec, Sink, Told, TrialError};
use tempfile::TempDir;

/// Misbehaviour of a toy, and what was done to it.
#[derive(Default)]
pub struct ToyState {
    /// Acknowledges writes without doing them.
    pub forgets: AtomicBool,
    /// Cannot be opened.
    pub is_locked: AtomicBool,
    /// Times that it was opened.
    pub opened: AtomicU32,
    /// Times that it was closed.
    pub closed: AtomicU32,
}

/// Kind of store that keeps pairs in memory.
struct ToyKind {
    spec: StoreSpec,
    state: Arc<ToyState>,
}

impl StoreKind for ToyKind {
    fn spec(&self) -> &StoreSpec {
        &self.spec
    }

    fn open(&self, options: OpenOptions, progress: &mut dyn FnMut(&str)) -> Result<Box<dyn Store>, StoreError> {
        if self.state.is_locked.load(Ordering::SeqCst) {
            return Err(StoreError::broken("the toy is locked"));
        }
        self.state.opened.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(Toy { pairs: Pairs::honest().open(options, progress)?, state: Arc::clone(&self.state) }))
    }
}

struct Toy {
    pairs: Box<dyn Store>,
    state: Arc<ToyState>,
}

impl Store for Toy {
    fn describe(&mut self) -> Result<StoreDescription, StoreError> {
        self.pairs.describe()
    }

    fn create(&mut self, layout: &Layout) -> Result<(), StoreError> {
        self.pairs.create(layout)
    }

    fn sessions(&mut self, count: u32, durability: Durability) -> Result<Sessions, StoreError> {
        let Sessions::Blocking(sessions) = self.pairs.sessions(count, durability)? else { panic!("its calls block") };
        let of = |pairs| -> Box<dyn BlockingSession> {
            Box::new(ToySession { pairs, kinds: Vec::new(), state: Arc::clone(&self.state) })
        };
        Ok(Sessions::Blocking(sessions.into_iter().map(of).collect()))
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.pairs.sync()
    }

    fn footprint(&mut self) -> Result<Footprint, StoreError> {
        self.pairs.footprint()
    }

    fn close(&mut self) -> Result<(), StoreError> {
        self.state.closed.fetch_add(1, Ordering::SeqCst);
        self.pairs.close()
    }
}

struct ToySession {
    pairs: Box<dyn BlockingSession>,
    kinds: Vec<OpKind>,
    state: Arc<ToyState>,
}

impl BlockingSession for ToySession {
    fn prepare(&mut self, kinds: &[OpKind]) -> Result<(), StoreError> {
        self.kinds = kinds.to_vec();
        self.pairs.prepare(kinds)
    }

    fn execute(&mut self, op: &Op<'_>, answer: &mut Answer) -> Outcome {
        let writes = self.kinds[usize::from(op.kind)].call == Call::Kv(KvCall::Put);
        if writes && self.state.forgets.load(Ordering::SeqCst) {
            return Outcome::Ok;
        }
        self.pairs.execute(op, answer)
    }
}

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
}

impl Simulation {
    /// Makes a place without runs.
    pub fn new() -> Self {
        let (toy, other) = (Arc::<ToyState>::default(), Arc::<ToyState>::default());
        let kind = |name, state: &Arc<ToyState>| -> Box<dyn StoreKind> {
            Box::new(ToyKind { spec: StoreSpec { name, ..Pairs::honest().spec().clone() }, state: Arc::clone(state) })
        };
        let catalogue = Catalogue {
            labs: Vec::new(),
            stores: vec![kind("toy", &toy), kind("other", &other), plimsoll_store_null::kind()],
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
        let spec = RunSpec {
            text: "",
            runs_dir: self.place.path(),
            ab: sort.ab,
            cells: sort.cells,
            before: sort.before,
            login_of: &|url| (url.to_owned(), None),
            strict: false,
            stop: &heard.stop,
            driver,
            command_line: Vec::new(),
            tag: "",
            environment: Vec::new(),
        };
        plimsoll_trial::run(plan, &self.catalogue, &spec, heard)
    }

    /// Runs the plan `text` on a store whose timed drives have `model`.
    pub fn model(&self, text: &str, heard: &Heard, model: &StoreModel) -> (Option<TrialError>, Run) {
        self.run(&self.plan(text), &Sort::default(), heard, &of_timed(model))
    }

    /// Returns the directory of the recordings.
    pub fn runs_dir(&self) -> &std::path::Path {
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
