//! Repeats whose number results decide: which points go on, and until when.

use std::sync::atomic::{AtomicUsize, Ordering};

use plimsoll_analysis::view::VerdictState;
use plimsoll_record::data::{Run, RunState};
use plimsoll_testkit::simulated::{Simulated, StoreModel};

use crate::simulation::{Heard, Simulation, Sort, assert_told_is_recorded};

/// Plan of two points, with one client and with two, whose figure is a rate.
fn plan(repeats: &str) -> String {
    format!(
        "repeats = {repeats}\norder = \"given\"\nstores = [\"toy\"]\nsamplers = []\n[workload]\nname = \"kv\"\n\
         records = 40\nfield_length = 10\n[[phase]]\ndo = \"load\"\n[[phase]]\ndo = \"drive\"\nclients = [1, 2]\n\
         for = \"2s\"\nmix = {{ read = 1 }}\ndurability = \"buffered\"\n[[phase]]\ndo = \"check\"\n\
         [[figure]]\nname = \"rate\"\nunit = \"1/s\"\nformula = \"drive.rate\"\n"
    )
}

/// Driver on which the drives of two clients reach these rates, one after the other, again and again. All others are
/// alike.
fn driver(rates_per_s: &[f64]) -> Simulated<'_> {
    let next = AtomicUsize::new(0);
    Simulated::new(move |drive| {
        let is_varied = drive.is_timed() && drive.sessions == 2;
        let at = if is_varied { next.fetch_add(1, Ordering::SeqCst) } else { 0 };
        let capacity_per_s = if is_varied { rates_per_s[at % rates_per_s.len()] } else { 100.0 };
        StoreModel { capacity_per_s, ..StoreModel::default() }
    })
}

/// Numbers of trials with one client and with two.
fn counts(run: &Run) -> [usize; 2] {
    ["1", "2"].map(|clients| run.trials.iter().filter(|trial| trial.header.labels["clients"] == clients).count())
}

#[test]
fn a_point_whose_rate_varies_is_repeated_until_it_is_known_or_the_most_are_reached() {
    let outlier = [100.0, 150.0, 100.0, 100.0, 100.0, 100.0, 100.0, 100.0, 100.0, 100.0, 100.0, 100.0];
    for (what, repeats, rates_per_s, wanted) in [
        ("alike", "{ least = 3, most = 12, until = \"10%\" }", &[100.0][..], [3, 3]),
        ("alike, by default", "{ until = \"10%\" }", &[100.0][..], [3, 3]),
        ("never known", "{ least = 2, most = 7, until = \"10%\" }", &[100.0, 150.0][..], [2, 7]),
        ("near enough", "{ least = 3, most = 12, until = \"60%\" }", &[100.0, 150.0][..], [3, 3]),
        // The interval of nine leaves out an outlier at either end.
        ("one outlier", "{ least = 3, most = 12, until = \"10%\" }", &outlier[..], [3, 9]),
        ("a number", "4", &[100.0, 150.0][..], [4, 4]),
    ] {
        let (simulation, heard) = (Simulation::new(), Heard::default());
        let planned = simulation.plan(&plan(repeats));
        let (error, run) = simulation.run(&planned, &Sort::default(), &heard, &driver(rates_per_s));
        assert_eq!((error, &run.state, counts(&run)), (None, &RunState::Complete, wanted), "{what}");
        assert_told_is_recorded(&heard, &run);
        let verdict = plimsoll_analysis::view(&run).verdict;
        assert_ne!(verdict.state, VerdictState::Incomplete, "{what}: {:?}", verdict.reasons);
    }
}

#[test]
fn all_points_have_their_certain_repeats_before_any_is_repeated_further() {
    let (simulation, heard) = (Simulation::new(), Heard::default());
    let planned = simulation.plan(&plan("{ least = 2, most = 4, until = \"10%\" }"));
    let (_, run) = simulation.run(&planned, &Sort::default(), &heard, &driver(&[100.0, 150.0]));
    assert_eq!(heard.lines("trial "), ["trial 0", "trial 1", "trial 2", "trial 3", "trial 5", "trial 7"]);
    assert_eq!(run.header.outline.trials, 8);
    assert_eq!(heard.lines("next ")[4], "next 6/≤8 toy, clients 2, repeat 3");
}

#[test]
fn a_continued_run_repeats_as_one_that_was_never_stopped() {
    let simulation = Simulation::new();
    let planned = simulation.plan(&plan("{ least = 3, most = 7, until = \"10%\" }"));
    let rates_per_s = [100.0, 150.0];
    let (error, whole) = simulation.run(&planned, &Sort::default(), &Heard::default(), &driver(&rates_per_s));
    assert_eq!((error, counts(&whole)), (None, [3, 7]));
    let mut before = Run { state: RunState::Interrupted, ..whole };
    before.trials.truncate(7);
    let ended = plimsoll_analysis::view(&before).verdict.reasons.join("; ");
    assert!(ended.contains("after trial 7 of at most 14 "), "{ended}");
    let heard = Heard::default();
    let sort = Sort { before: Some(&before), ..Sort::default() };
    let (error, run) = simulation.run(&planned, &sort, &heard, &driver(&rates_per_s));
    assert_eq!((error, &run.state, counts(&run)), (None, &RunState::Complete, [3, 7]));
    assert_eq!(heard.lines("trial "), ["trial 9", "trial 11", "trial 13"]);
    let notices = heard.notices.lock().unwrap();
    assert!(notices.iter().any(|one| one.ends_with("7 of at most 14 trials are recorded")), "{notices:?}");
}
