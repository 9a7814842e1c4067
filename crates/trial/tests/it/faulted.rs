//! Faults of whole runs on simulated time. Servers are real, and sleep: they are killed and started again. The store is
//! in this process, and its model has the outages.

use std::path::PathBuf;
use std::time::Duration;

use plimsoll_analysis::view::GoalState;
use plimsoll_core::{
    Launch, Member, Node, OpenOptions, Params, Recipe, ServerSpec, Store, StoreError, StoreKind, StoreSpec, Target,
    Waits,
};
use plimsoll_record::data::{FaultKind, Phase, PhaseKind, Run, RunState};
use plimsoll_testkit::lying_kv::Pairs;
use plimsoll_testkit::simulated::StoreModel;

use crate::simulation::{Heard, Simulation, assert_told_is_recorded, phases};

/// Server that sleeps.
struct Sleeper;

impl Recipe for Sleeper {
    fn spec(&self) -> ServerSpec {
        ServerSpec::new("Sleeper", "nobody", "base-passwd")
    }

    fn launch(&self, _: Member<'_>) -> Result<Launch, StoreError> {
        Ok(Launch::new("sleeper", "/bin/sh".into(), ["-c", "exec sleep 600"]))
    }

    fn ready(&self, _: &Node, _: &Waits) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Kind of store in this process, with a private server that may have faults.
struct Served(StoreSpec);

/// Makes a kind of store with a private server: `served`.
pub fn served() -> Box<dyn StoreKind> {
    Box::new(Served(StoreSpec { name: "served", ..Pairs::honest().spec().clone() }))
}

impl StoreKind for Served {
    fn spec(&self) -> &StoreSpec {
        &self.0
    }

    fn recipe(&self, _: &Params) -> Result<Option<Box<dyn Recipe>>, StoreError> {
        Ok(Some(Box::new(Sleeper)))
    }

    fn open(&self, options: OpenOptions, progress: &mut dyn FnMut(&str)) -> Result<Box<dyn Store>, StoreError> {
        let target = Target::Private { data_dir: PathBuf::new(), said: false, log_dir: PathBuf::new() };
        Pairs::honest().open(OpenOptions { target, ..options }, progress)
    }
}

/// Runs a drive of 10 s with these faults, and a check, on a store with outages.
#[track_caller]
fn run(faults: &str, goals: &str, outages: &[(u64, u64)]) -> Run {
    let text = format!(
        "stores = [\"served\"]\nsamplers = []\n[goals]\n{goals}\n[workload]\nname = \"kv\"\nrecords = 40\n\
         field_length = 10\n[[phase]]\ndo = \"load\"\n[[phase]]\ndo = \"drive\"\nclients = 4\nrate = \"50/s\"\n\
         arrivals = \"even\"\nwarmup = \"1s\"\nfor = \"9s\"\nmix = {{ read = 1, update = 1 }}\n\
         durability = \"buffered\"\nfault = {faults}\n[[phase]]\ndo = \"check\"\n"
    );
    let outages = outages.iter().map(|(from_s, s)| (Duration::from_secs(*from_s), Duration::from_secs(*s))).collect();
    let (simulation, heard) = (Simulation::with(vec![served()]), Heard::default());
    let (error, run) = simulation.model(&text, &heard, &StoreModel { outages, ..StoreModel::default() });
    assert_eq!((error, &run.state), (None, &RunState::Complete));
    assert_told_is_recorded(&heard, &run);
    run
}

/// Returns the phase with the faults.
fn drive(run: &Run) -> &Phase {
    phases(run).into_iter().find(|phase| phase.header.kind == PhaseKind::Drive).unwrap()
}

/// Checks the times of the faults, in milliseconds of the drive: the plan, the effect and the healing. On simulated time
/// they are right to the nanosecond, and a server starts at once.
#[track_caller]
fn assert_times(run: &Run, times_ms: &[(u64, u64)]) {
    let start_ns = drive(run).slices[0].start_ns;
    let faults = &run.trials[0].faults;
    assert_eq!(faults.len(), times_ms.len(), "{faults:?}");
    for (span, (from_ms, until_ms)) in faults.iter().zip(times_ms) {
        let [from_ns, until_ns] = [from_ms, until_ms].map(|ms| start_ns + ms * 1_000_000);
        assert_eq!((span.planned_ns, span.begun_ns, span.taken_ns), (from_ns, from_ns, Some(from_ns)), "{span:?}");
        assert_eq!((span.healing_ns, span.healed_ns), (Some(until_ns), Some(until_ns)), "{span:?}");
        assert_eq!(span.error, None);
    }
}

#[test]
fn a_kill_is_one_span_with_its_outage_and_goals_judge_it() {
    let [met, missed] = ["3s", "1s"]
        .map(|most| run("\"kill primary at 40% for 2s\"", &format!("outage = \"{most}\"\nlost = 0"), &[(4, 2)]));
    for (run, state) in [(&met, GoalState::Held), (&missed, GoalState::Missed)] {
        assert_times(run, &[(4_000, 6_000)]);
        let span = &run.trials[0].faults[0];
        assert_eq!((span.kind, span.subject.as_str()), (FaultKind::Kill, "the server"));
        assert_eq!(span.detail.name, "kill primary");
        let view = plimsoll_analysis::view(run);
        let [fault] = view.faults.as_slice() else { panic!("{:?}", view.faults) };
        let (outage_s, recovered_s) = (fault.outage_s.unwrap(), fault.recovered_s.unwrap());
        assert!((1.95..2.1).contains(&outage_s) && !fault.outage_open, "{outage_s} s");
        assert!((1.95..2.1).contains(&recovered_s) && !fault.recovered_open, "{recovered_s} s");
        assert_eq!((fault.unknown, fault.rejected), (0, 0));
        let states = ["outage", "lost"].map(|name| {
            let goal = view.goals.iter().find(|goal| goal.what.name() == name);
            goal.unwrap_or_else(|| panic!("no {name}: {:?}", view.goals)).state
        });
        assert_eq!(states, [state, GoalState::Held]);
    }
}

#[test]
fn a_fault_after_another_begins_at_its_distance_from_the_healing() {
    let faults = "[\"kill primary at 40% for 1s\", \"pause all at 1s after fault 1 for 500ms\"]";
    let run = run(faults, "lost = 0", &[(4, 1)]);
    assert_times(&run, &[(4_000, 5_000), (6_000, 6_500)]);
}
