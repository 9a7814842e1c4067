//! Runs of independent trials on simulated time: what a loss and a failure leave to do.

use std::sync::atomic::Ordering;

use plimsoll_core::{StoreError, StoreErrorKind};
use plimsoll_plan::model::Plan;
use plimsoll_record::data::{Cell, Level, Run, RunState};
use plimsoll_testkit::simulated::{Simulated, SimulatedDrive, StoreModel};
use plimsoll_trial::{Cells, CellsSoFar, TrialError};

use crate::simulation::{Heard, Simulation, Sort, fast};

/// Six trials of two cells on one toy. A trial is known by its clients, from 1.
struct TwoCells {
    simulation: Simulation,
    heard: Heard,
    plan: Plan,
    cells: Vec<Cell>,
    jobs: usize,
    all_cuts: bool,
}

impl TwoCells {
    fn new() -> Self {
        Self::of("[\"toy\"]", "[2, 3, 4, 5, 6, 7]")
    }

    fn of(stores: &str, clients: &str) -> Self {
        let simulation = Simulation::new();
        let plan = simulation.plan(&format!(
            "stores = {stores}\nsamplers = []\n[workload]\nname = \"kv\"\nrecords = 40\nfield_length = 10\n\
             [[phase]]\ndo = \"load\"\nclients = 1\n[[phase]]\ndo = \"drive\"\nclients = {clients}\n\
             rate = \"50/s\"\nfor = \"2s\"\nmix = {{ update = 1 }}\ndurability = \"buffered\"\n\
             [[phase]]\ndo = \"check\"\n"
        ));
        assert_eq!(plan.trials.len(), 6);
        let cell = |name: &str, trials: [u32; 3]| Cell {
            name: name.to_owned(),
            store: name.to_owned(),
            fault: "none".to_owned(),
            cuts: trials.map(|trial| (trial, format!("flush {trial}"))).to_vec(),
            command: "plimsoll promise".to_owned(),
        };
        let cells = vec![cell("first", [0, 1, 2]), cell("second", [3, 4, 5])];
        Self { simulation, heard: Heard::default(), plan, cells, jobs: 1, all_cuts: false }
    }

    fn run(&self, before: Option<&Run>, driver: &Simulated<'_>) -> (Option<TrialError>, Run) {
        let cells = Cells { cells: &self.cells, jobs: self.jobs, all_cuts: self.all_cuts };
        let sort = Sort { cells: Some(&cells), before, ..Sort::default() };
        self.simulation.run(&self.plan, &sort, &self.heard, driver)
    }

    /// Runs the cells on a toy that forgets writes in timed drives of so many clients.
    fn forgetting(&self, clients: &[usize]) -> (Option<TrialError>, Run) {
        let driver = Simulated::new(|drive| {
            let forgets = drive.is_timed() && clients.contains(&drive.sessions);
            self.simulation.toy.forgets.store(forgets, Ordering::SeqCst);
            fast()
        });
        self.run(None, &driver)
    }

    /// Returns the numbers of trials done, and of broken cells, each time that they changed.
    fn progress(&self) -> Vec<(u32, u32)> {
        let cells = self.heard.cells.lock().unwrap();
        let sums = |one: &CellsSoFar| one.done + one.left_out <= one.of;
        assert!(cells.iter().all(sums), "{cells:?}");
        let mut progress: Vec<(u32, u32)> = cells.iter().map(|cells| (cells.done, cells.broken)).collect();
        progress.dedup();
        progress
    }
}

/// Returns the positions of the trials that were recorded, in order.
fn trials(run: &Run) -> Vec<u32> {
    let mut trials: Vec<u32> = run.trials.iter().map(|trial| trial.header.ordinal).collect();
    trials.sort_unstable();
    trials
}

fn lost(run: &Run, ordinal: u32) -> u64 {
    let trial = run.trials.iter().find(|trial| trial.header.ordinal == ordinal).unwrap();
    trial.ledgers.iter().map(|ledger| ledger.lost).sum()
}

#[test]
fn a_cell_without_a_loss_is_tried_at_all_its_moments() {
    let cells = TwoCells::new();
    let (error, run) = cells.forgetting(&[]);
    assert_eq!((error, &run.state, trials(&run)), (None, &RunState::Complete, vec![0, 1, 2, 3, 4, 5]));
    assert!((0..6).all(|trial| lost(&run, trial) == 0));
    assert_eq!(cells.progress(), (0..=6).map(|done| (done, 0)).collect::<Vec<_>>());
    // Each trial begins with data of its own; the store is the same.
    let loads = run.trials.iter().filter(|trial| trial.phases[0].header.name == "load").count();
    assert_eq!((loads, cells.simulation.toy.opened.load(Ordering::SeqCst)), (6, 1));
}

#[test]
fn a_loss_decides_its_cell_and_the_rest_of_it_is_skipped() {
    let cells = TwoCells::new();
    let (error, run) = cells.forgetting(&[3]);
    assert_eq!((error, &run.state, trials(&run)), (None, &RunState::Complete, vec![0, 1, 3, 4, 5]));
    assert!(lost(&run, 1) > 0 && [0, 3, 4, 5].iter().all(|trial| lost(&run, *trial) == 0));
    let wanted = [(0, 0), (1, 0), (2, 1), (3, 1), (4, 1), (5, 1)];
    assert_eq!(cells.progress(), wanted);
    // The cut that was not needed is no cut that was made.
    let last = cells.heard.cells.lock().unwrap().last().map(|cells| (cells.done, cells.left_out));
    assert_eq!(last, Some((run.trials.len() as u32, 1)));
}

#[test]
fn all_moments_are_tried_if_the_user_wants_them() {
    let cells = TwoCells { all_cuts: true, ..TwoCells::new() };
    let (error, run) = cells.forgetting(&[3, 4]);
    assert_eq!((error, trials(&run)), (None, vec![0, 1, 2, 3, 4, 5]));
    assert!(lost(&run, 1) > 0 && lost(&run, 2) > 0 && lost(&run, 3) == 0);
    assert_eq!(cells.progress().last(), Some(&(6, 1)));
}

/// Makes the sessions fail in timed drives of so many clients.
fn failing(clients: usize) -> impl Fn(&SimulatedDrive<'_>) -> StoreModel + Sync {
    move |drive| {
        let fails = drive.is_timed() && drive.sessions == clients;
        StoreModel { error: fails.then(|| StoreError::broken("the toy fell down")), ..fast() }
    }
}

#[test]
fn a_cell_that_fails_ends_with_its_reason_and_the_others_go_on() {
    let cells = TwoCells::new();
    let (error, run) = cells.run(None, &Simulated::new(failing(2)));
    assert_eq!(error.unwrap().what, "the toy fell down");
    assert_eq!(trials(&run), [0, 3, 4, 5]);
    assert!(matches!(&run.state, RunState::Failed(why) if why == "the toy fell down"), "{:?}", run.state);
    let text = "first: the toy fell down; its 2 other cuts are skipped";
    let notices = cells.heard.notices.lock().unwrap();
    assert!(notices.contains(&format!("failed: {text}")), "{notices:?}");
    let event = run.events.iter().find(|event| event.text == text).unwrap();
    assert_eq!((event.trial, event.level, event.subject.as_str()), (Some(0), Level::Error, "toy"));
    // A store that failed serves no other trial.
    assert_eq!(cells.simulation.toy.opened.load(Ordering::SeqCst), 2);
    assert_eq!(cells.progress().last(), Some(&(3, 0)));
}

#[test]
fn a_store_that_cannot_be_opened_takes_only_its_own_trials_away() {
    let cells = TwoCells::of("[\"toy\", \"other\"]", "[2, 3, 4]");
    cells.simulation.other.is_locked.store(true, Ordering::SeqCst);
    let (error, run) = cells.run(None, &Simulated::new(|_| fast()));
    assert_eq!(error.unwrap().kind, StoreErrorKind::Broken);
    assert!(run.trials.iter().all(|trial| trial.header.store_label == "toy"));
    assert_eq!(run.trials.len(), 3);
    assert_eq!(cells.simulation.other.opened.load(Ordering::SeqCst), 0);
    let notices = cells.heard.notices.lock().unwrap();
    assert!(
        notices.iter().any(|notice| notice.contains("the toy is locked; its 2 other cuts are skipped")),
        "{notices:?}"
    );
}

#[test]
fn several_jobs_do_what_one_does_with_stores_of_their_own() {
    let cells = TwoCells { jobs: 3, ..TwoCells::new() };
    let (error, run) = cells.run(None, &Simulated::new(|_| fast()));
    assert_eq!((error, &run.state, trials(&run)), (None, &RunState::Complete, vec![0, 1, 2, 3, 4, 5]));
    assert!((0..6).all(|trial| lost(&run, trial) == 0));
    assert!(run.trials.iter().all(|trial| trial.end_ns.is_some() && trial.phases.len() == 3));
    let opened = cells.simulation.toy.opened.load(Ordering::SeqCst);
    assert_eq!(opened, cells.simulation.toy.closed.load(Ordering::SeqCst), "each store is closed");
    let now_max = cells.heard.cells.lock().unwrap().iter().map(|cells| cells.now.len()).max();
    assert!((1..=3).contains(&now_max.unwrap()));
}

#[test]
fn cells_that_the_user_ends_are_resumed_and_a_loss_stays_one() {
    let stopped = TwoCells::new();
    let (error, before) = {
        let driver = Simulated::new(|drive| {
            stopped.simulation.toy.forgets.store(drive.is_timed() && drive.sessions == 3, Ordering::SeqCst);
            // Each trial loads, drives and reads back: this is the drive of the third.
            if drive.number == 7 {
                stopped.heard.stop.store(true, Ordering::SeqCst);
            }
            fast()
        });
        stopped.run(None, &driver)
    };
    assert_eq!((error, &before.state), (None, &RunState::Interrupted));
    assert!(lost(&before, 1) > 0, "{:?}", before.trials);
    let resumed = TwoCells { heard: Heard::default(), ..stopped };
    let (error, run) = resumed.run(Some(&before), &Simulated::new(|_| fast()));
    assert_eq!((error, &run.state, trials(&run)), (None, &RunState::Complete, vec![0, 1, 3, 4, 5]));
    assert_eq!((lost(&run, 1), run.header.id.as_str()), (lost(&before, 1), before.header.id.as_str()));
    let notices = resumed.heard.notices.lock().unwrap();
    assert!(notices.iter().any(|notice| notice.ends_with("of 6 cuts are recorded")), "{notices:?}");
}
