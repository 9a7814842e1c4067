//! Comparisons in turn on simulated time.

use std::sync::atomic::Ordering;

use plimsoll_analysis::ab::{self, AbMetric, AbSpec, fewest_pairs, first_side};
use plimsoll_analysis::view::{AbView, Decision};
use plimsoll_core::StoreError;
use plimsoll_plan::model::{PhaseStep, Plan};
use plimsoll_record::data::{PhaseKind, PhaseState, Run, RunState};
use plimsoll_testkit::simulated::{Simulated, StoreModel};

use crate::simulation::{Heard, Simulation, Sort, assert_told_is_recorded, fast};

/// Sessions of a drive of side B; A has two.
const CLIENTS_OF_B: u32 = 3;

fn spec(budget_s: f64) -> AbSpec {
    AbSpec {
        sides: ["two clients".to_owned(), "three clients".to_owned()],
        plans: [String::new(), String::new()],
        metrics: vec![AbMetric::Rate],
        difference: 0.03,
        fail_if: Vec::new(),
        budget_s,
        turn_s: 2.0,
        warmup_s: 1.0,
        seed: 7,
    }
}

/// A comparison of two and three clients on these stores.
struct Comparison {
    simulation: Simulation,
    heard: Heard,
    plan: Plan,
    spec: AbSpec,
}

impl Comparison {
    fn of(stores: [&str; 2], budget_s: f64) -> Self {
        let simulation = Simulation::new();
        let [a, b] = stores;
        let mut plan = simulation.plan(&format!(
            "stores = [{{ store = \"{a}\", as = \"A\" }}, {{ store = \"{b}\", as = \"B\" }}]\nsamplers = []\n\
             [workload]\nname = \"kv\"\nrecords = 40\nfield_length = 10\n[[phase]]\ndo = \"load\"\n\
             [[phase]]\ndo = \"drive\"\nclients = 2\nfor = \"9s\"\nmix = {{ read = 1, update = 1 }}\n\
             durability = \"buffered\"\n[[phase]]\ndo = \"check\"\n"
        ));
        for phase in &mut plan.trials[1].phases {
            if let PhaseStep::Drive(drive) = &mut phase.step {
                drive.clients = CLIENTS_OF_B;
            }
        }
        Self { simulation, heard: Heard::default(), plan, spec: spec(budget_s) }
    }

    /// Runs it on a store whose turns of A and B have these capacities, in operations a second.
    fn run(&self, of_a: f64, of_b: f64) -> Run {
        let driver = Simulated::new(|drive| match (drive.is_timed(), is_of_b(drive.sessions)) {
            (false, _) => fast(),
            (true, false) => StoreModel { capacity_per_s: of_a, ..StoreModel::default() },
            (true, true) => StoreModel { capacity_per_s: of_b, ..StoreModel::default() },
        });
        let (error, run) = self.run_with(&driver);
        assert_eq!((error, &run.state), (None, &RunState::Complete));
        run
    }

    fn run_with(&self, driver: &Simulated<'_>) -> (Option<StoreError>, Run) {
        let sort = Sort { ab: Some(&self.spec), ..Sort::default() };
        let (error, run) = self.simulation.run(&self.plan, &sort, &self.heard, driver);
        assert_told_is_recorded(&self.heard, &run);
        (error, run)
    }

    /// Returns the announcements of turns that these pairs come to, in their order.
    fn turns(&self, pairs: u64) -> Vec<String> {
        let mut turns: Vec<String> = ["A", "B"].map(|side| format!("next {side}, warm-up")).to_vec();
        for pair in 1..=pairs as u32 {
            let first = first_side(&self.spec, pair);
            turns.extend([first, 1 - first].map(|side| format!("next {}, pair {pair}", ab::SIDES[side])));
        }
        turns
    }
}

fn is_of_b(sessions: usize) -> bool {
    sessions == CLIENTS_OF_B as usize
}

fn view(run: &Run) -> AbView {
    ab::view(run).unwrap()
}

#[test]
fn a_true_difference_is_decided_by_the_fewest_pairs_and_found_again_in_the_recording() {
    let comparison = Comparison::of(["toy", "toy"], 600.0);
    let run = comparison.run(100.0, 150.0);
    let view = view(&run);
    assert!(view.decided, "{}", view.sentence);
    let [metric] = &view.metrics.iter().filter(|metric| metric.asked).collect::<Vec<_>>()[..] else { panic!() };
    assert_eq!((metric.decision, view.pairs), (Decision::More, fewest_pairs(&comparison.spec) as u64));
    let change = metric.change_percent.unwrap();
    assert!((45.0..=55.0).contains(&change), "{change} %");
    // What is said after each pair is the recording's.
    let remarks = comparison.heard.remarks.lock().unwrap();
    assert_eq!(remarks.len() as u64, view.pairs);
    assert!(
        remarks.iter().zip(1..).all(|(said, pair)| said.starts_with(&format!("  pair {pair}: rate "))),
        "{remarks:?}"
    );
    assert!(view.rows.iter().all(|row| row.left_out.is_none()));
}

#[test]
fn each_pair_has_both_sides_and_a_lot_decides_which_is_first() {
    let comparison = Comparison::of(["toy", "toy"], 600.0);
    let run = comparison.run(100.0, 150.0);
    let pairs = view(&run).pairs;
    let mut wanted = comparison.turns(pairs);
    wanted.push("next A, check".to_owned());
    assert_eq!(comparison.heard.lines("next "), wanted);
    let b_first: usize = (1..=pairs as u32).map(|pair| first_side(&comparison.spec, pair)).sum();
    assert!((1..pairs as usize).contains(&b_first), "each side is first at times");
    // One store serves both sides, with the data of one load.
    assert_eq!(comparison.simulation.toy.opened.load(Ordering::SeqCst), 1);
    assert_eq!(comparison.heard.lines("phase load").len(), 1);
    let kinds = run.trials.iter().flat_map(|trial| &trial.phases).map(|phase| phase.header.kind);
    let kinds: Vec<PhaseKind> = kinds.collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == PhaseKind::Check).count(), 1);
    assert_eq!(kinds.iter().filter(|kind| **kind == PhaseKind::Drive).count() as u64, 2 * pairs + 2);
    let ledger = run.trials.last().unwrap().ledgers.last().unwrap();
    assert!(ledger.lost == 0 && ledger.complete, "{ledger:?}");
}

#[test]
fn two_kinds_of_store_each_have_their_own_data_and_check() {
    let comparison = Comparison::of(["toy", "other"], 600.0);
    let run = comparison.run(100.0, 150.0);
    let last: Vec<_> = comparison.heard.lines("next ").into_iter().rev().take(2).collect();
    assert_eq!(last, ["next B, check", "next A, check"]);
    for store in [&comparison.simulation.toy, &comparison.simulation.other] {
        assert_eq!((store.opened.load(Ordering::SeqCst), store.closed.load(Ordering::SeqCst)), (1, 1));
    }
    assert!(run.trials.iter().flat_map(|trial| &trial.ledgers).all(|ledger| ledger.lost == 0));
}

#[test]
fn a_budget_that_is_spent_leaves_the_difference_open() {
    // Five pairs of six seconds, which decide nothing.
    let comparison = Comparison::of(["null", "null"], 31.0);
    let run = comparison.run(100.0, 101.0);
    let view = view(&run);
    assert!(!view.decided && view.pairs < fewest_pairs(&comparison.spec) as u64, "{}", view.sentence);
    assert!((4..=5).contains(&view.pairs) && view.seconds <= 31.0, "{} pairs, {} s", view.pairs, view.seconds);
    let mut wanted = comparison.turns(view.pairs);
    wanted.push("next A, check".to_owned());
    assert_eq!(comparison.heard.lines("next "), wanted);
}

#[test]
fn sides_that_are_alike_are_decided_to_be() {
    let comparison = Comparison::of(["null", "null"], 3_000.0);
    let view = view(&comparison.run(100.0, 100.0));
    assert!(view.decided, "{}", view.sentence);
    let metric = view.metrics.iter().find(|metric| metric.asked).unwrap();
    assert_eq!(metric.decision, Decision::Same, "{}", view.sentence);
}

#[test]
fn an_arm_that_fails_names_its_side_and_pair_and_both_stores_are_left() {
    let comparison = Comparison::of(["toy", "other"], 600.0);
    let turns_of_b = std::sync::atomic::AtomicU32::new(0);
    let driver = Simulated::new(|drive| {
        let is_turn_of_b = drive.is_timed() && is_of_b(drive.sessions);
        // The warm-up, and the first pair.
        let fails = is_turn_of_b && turns_of_b.fetch_add(1, Ordering::SeqCst) == 2;
        StoreModel { error: fails.then(|| StoreError::broken("other fell down")), ..StoreModel::default() }
    });
    let (error, run) = comparison.run_with(&driver);
    let error = error.unwrap();
    assert_eq!(error.what, "other fell down");
    assert_eq!(error.next.unwrap(), "this was side B (three clients), pair 2");
    assert!(matches!(&run.state, RunState::Failed(why) if why.contains("fell down")), "{:?}", run.state);
    let last = run.trials.last().unwrap();
    assert_eq!((last.header.labels["pair"].as_str(), last.header.store_label.as_str()), ("2", "B"));
    assert!(matches!(last.phases.last().unwrap().end.state, PhaseState::Failed(_)));
    assert_eq!(view(&run).pairs, 1, "half a pair is none");
    assert!(comparison.heard.lines("next ").iter().all(|next| !next.ends_with("check")));
    assert_eq!(comparison.simulation.toy.opened.load(Ordering::SeqCst), 1);
}

#[test]
fn the_user_ends_a_comparison_between_two_turns_or_in_one() {
    let comparison = Comparison { heard: Heard::until(22), ..Comparison::of(["null", "null"], 600.0) };
    let (error, run) = comparison.run_with(&Simulated::new(|_| StoreModel::default()));
    assert_eq!((error, &run.state), (None, &RunState::Interrupted));
    let view = view(&run);
    assert!(!view.decided && view.pairs >= 1, "{}", view.sentence);
    assert_eq!(comparison.heard.remarks.lock().unwrap().len() as u64, view.pairs);
}
