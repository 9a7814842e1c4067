//! Plans made smaller.

use plimsoll_plan::{Plan, PlannedTrial};

use crate::args::{PlanArgs, PlannedArgs, SmallerArgs};
use crate::plans::{self, Passwords, PlanText};
use crate::{catalogue, error, studies};

/// Returns the plan of a study, made smaller by the options in `words`, and its text; or the message.
fn smaller(study: &str, words: &str) -> Result<(Plan, String), String> {
    let mut of = SmallerArgs::default();
    for word in words.split_whitespace() {
        let (option, value) = word.split_once(':').unwrap_or((word, ""));
        match option {
            "clients" => of.clients = Some(value.to_owned()),
            "nodes" => of.nodes = Some(value.to_owned()),
            "stores" => of.stores = value.split(',').map(|name| name.replace('_', " ")).collect(),
            "quick" => of.quick = true,
            _ => of.set.push(word.to_owned()),
        }
    }
    let plan = PlanArgs { plan: Some(study.to_owned()), ..PlanArgs::default() };
    let args = PlannedArgs { plan, smaller: of, ..PlannedArgs::default() };
    let loaded = plans::load(&catalogue::assemble(), &args, &mut Passwords::default());
    loaded.map_err(|error| error::text(&error))
}

#[track_caller]
fn refused(study: &str, words: &str, said: &[&str]) {
    let message = smaller(study, words).expect_err("is refused");
    for piece in said {
        assert!(message.contains(piece), "{study} {words}: no {piece:?} in {message}");
    }
}

#[test]
fn every_study_has_a_quick_version_of_fewer_trials_and_few_seconds() {
    for study in studies::ALL {
        let (whole, _) = smaller(study.name, "").unwrap();
        let (quick, text) = smaller(study.name, "quick").unwrap();
        let (trials, seconds) = (quick.trials.len(), quick.timed_s);
        assert!(trials <= whole.trials.len() && trials <= 40, "{}: {trials}", study.name);
        assert!(seconds <= whole.timed_s.max(30.0) && seconds <= 170.0, "{}: {seconds} s", study.name);
        assert!(quick.notices[0].contains("do not answer the question"), "{:?}", quick.notices);
        assert_eq!(parsed(&text), quick.trials, "{}: the text is the plan that runs", study.name);
    }
}

/// Returns the trials of the plan in `text`.
fn parsed(text: &str) -> Vec<PlannedTrial> {
    let printed = PlanText { name: "printed".to_owned(), text: text.to_owned(), ..PlanText::default() };
    let read = plans::read_plan(&catalogue::assemble(), printed, &[], None, &mut Passwords::default());
    read.unwrap_or_else(|error| panic!("{}\n{text}", error::text(&error))).0.trials
}

#[test]
fn values_are_replaced_where_they_stand_and_added_where_they_are_defaults() {
    let (plan, text) =
        smaller("pgbench", "scale=1 postgres.shared_buffers=64MiB clients:16,32 drive.warmup=1s ops=100").unwrap();
    assert_eq!(plan.trials.len(), 2);
    assert!(plan.trials.iter().all(|trial| trial.workload.params.int("scale") == 1), "{text}");
    assert!(plan.trials.iter().all(|trial| trial.store.params.int("shared_buffers") == 64 << 20), "{text}");
    let drives: Vec<_> = plan.trials.iter().flat_map(|trial| trial.drives()).collect();
    assert!(drives.iter().all(|(_, drive)| drive.warmup_ns == 1_000_000_000), "{text}");
    // A list stays one: formulas and tables of published values still name its key.
    assert_eq!(plan.trials[0].labels["ops"], "100");
    assert!(text.contains("clients = [16, 32]") && text.contains("ops = [100]"), "{text}");
    assert!(
        plan.notices[0].contains("--set scale=1") && plan.notices[0].contains("--clients 16,32"),
        "{:?}",
        plan.notices
    );
    assert_eq!(parsed(&text), plan.trials);
    // Of a store that is a name alone, a table is made.
    let (plan, text) = smaller("coupons", "records=2K sqlite.synchronous=normal index=own").unwrap();
    assert!(text.contains(r#"{ store = "sqlite", synchronous = "normal" }"#), "{text}");
    assert_eq!(plan.trials[0].workload.params.int("records"), 2_000);
}

#[test]
fn stores_and_nodes_are_chosen_from_those_of_the_plan() {
    let stores = |words: &str| {
        let (plan, _) = smaller("coupons-cluster", words).unwrap();
        plan.trials.iter().map(|trial| trial.store.label.clone()).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(stores("stores:etcd,galera"), ["etcd".to_owned(), "galera".to_owned()].into());
    let (plan, _) = smaller("coupons-cluster", "stores:etcd nodes:1").unwrap();
    assert!(plan.trials.iter().all(|trial| trial.store.params.int("nodes") == 1));
    // No figure is left that could decide how often.
    assert_eq!((plan.repeats, plan.until), (3, None), "{:?}", plan.left_out);
    assert!(plan.left_out.iter().any(|reason| reason.starts_with("`repeats` 3: ")), "{:?}", plan.left_out);
    // A name in reports names one of several stores of a kind.
    let (plan, _) = smaller("silent-errors", "stores:postgres_with_checksums").unwrap();
    assert!(plan.trials.iter().all(|trial| trial.store.label == "postgres with checksums"));
}

#[test]
fn figures_without_their_points_and_the_answer_that_needs_them_are_left_out() {
    let (plan, text) = smaller("commit-batch", "stores:sqlite batch=1,10").unwrap();
    assert!(!plan.figures.is_empty() && plan.figures.iter().all(|figure| !figure.formula.contains("batch=100")));
    assert!(plan.left_out.iter().any(|reason| reason.contains("it needs points")), "{:?}", plan.left_out);
    assert!(!text.contains("batch=1000"), "{text}");
    assert_eq!(parsed(&text), plan.trials);
}

#[test]
fn a_number_of_repeats_replaces_the_conditions_that_decide_it() {
    assert!(smaller("commit-batch", "stores:sqlite").unwrap().0.until.is_some());
    for (words, repeats) in [("stores:sqlite repeats=2", 2), ("stores:sqlite quick", 1)] {
        let (plan, text) = smaller("commit-batch", words).unwrap();
        assert_eq!((plan.repeats, plan.until), (repeats, None), "{text}");
        assert!(text.contains(&format!("\nrepeats = {repeats}\n")), "{text}");
    }
}

#[test]
fn a_smaller_plan_without_an_answer_says_so_first() {
    let (plan, _) = smaller("instances", "clients:8").unwrap();
    assert!(plan.answers.is_empty() && plan.left_out.iter().all(|reason| !reason.contains('{')), "{:?}", plan.left_out);
    let notice = plan.notices.last().unwrap();
    assert!(notice.contains("cannot answer the question of the study: `clients` is never 32."), "{notice}");
}

#[test]
fn what_a_plan_does_not_have_is_refused_with_what_it_has() {
    refused(
        "coupons",
        "recods=5",
        &["--set recods=5: coupons has no `recods`", "did you mean `records`?", "sqlite.synchronous", "mixed.for"],
    );
    refused("commit-batch", "stores:sqlite disk=plain", &["commit-batch has no `disk`", "did you mean `sqlite.disk`?"]);
    refused("coupons", "mongodb.x=1", &["coupons has no `mongodb.x`", "of the workload: records"]);
    refused("coupons", "records=many", &["--set records=many: `records` must be a whole number"]);
    refused("coupons", "mixed.for=5", &["--set for=5: a time needs a unit"]);
    refused("coupons", "records", &["`records` is not a name and a value"]);
    refused("coupons", "records=1 records=2", &["records is set twice"]);
    refused("coupons", "stores:redis", &["--stores redis: coupons has no such store", "it has: sqlite, fjall"]);
    refused("coupons", "nodes:3", &["--nodes 3: coupons has no `nodes`"]);
    refused("commit-batch", "clients:3", &["--clients 3: commit-batch has no `clients`"]);
    refused(
        "flush",
        "clients:4",
        &["flush has different numbers of clients: idle 1, loaded 16", "--set loaded.clients=4"],
    );
    refused("pgbench", "clients:0", &["--clients 0: `clients` must be 1 to"]);
    refused("pgbench", "clients:4 drive.clients=8", &["--set drive.clients=… was given too"]);
    refused("pgbench", "quick ops=5", &["--quick chooses all sizes itself, and --set ops=5 was given too"]);
    refused("pgbench", "quick clients:5", &["--quick chooses all sizes itself, and --clients 5 was given too"]);
}

#[test]
fn the_quick_version_has_short_stages_and_no_goal_that_needs_many_operations() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("plan.toml");
    let text = r#"stores = ["null"]
[workload]
name = "kv"
records = 10
[[phase]]
do = "load"
[[phase]]
do = "drive"
stages = ["100/s@10min", "..300/s@30min"]
mix = { read = 1 }
[[phase]]
do = "drive"
for = "30s"
scenario = [{ name = "readers", mix = { read = 1 }, stages = ["..100/s@15s", "100/s@15s"] }]
[goals]
p99.9 = "20ms"
read.p95 = "20ms"
p50 = "20ms"
errors = "0%"
"#;
    std::fs::write(&path, text).unwrap();
    let (plan, text) = smaller(path.to_str().unwrap(), "quick").unwrap();
    assert!(text.contains(r#"stages = ["100/s@250ms", "..300/s@750ms"]"#), "{text}");
    assert!(text.contains(r#"stages = ["..100/s@500ms", "100/s@500ms"]"#), "{text}");
    assert!(plan.timed_s < 2.1, "{}", plan.timed_s);
    let kept: std::collections::BTreeSet<String> = plan.goals.iter().map(|goal| goal.name()).collect();
    assert_eq!(kept, ["errors".to_owned(), "p50".to_owned()].into());
    let [left_out] = &plan.left_out[..] else { panic!("{:?}", plan.left_out) };
    assert!(
        left_out.starts_with("goals ") && left_out.contains("p99.9") && left_out.contains("read.p95"),
        "{left_out}"
    );
    assert!(left_out.ends_with(": the quick version has too few operations for them"), "{left_out}");
}

#[test]
fn the_quick_version_leaves_a_phase_with_drawn_faults_as_long_as_it_is() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("plan.toml");
    let text = "stores = [\"null\"]\n[workload]\nname = \"nothing\"\n[[phase]]\ndo = \"drive\"\nfor = \"60s\"\n\
                fault = \"reset all drawn\"\nfault_pause = [\"5s\", \"6s\", \"7s\"]\n";
    std::fs::write(&path, text).unwrap();
    let (plan, text) = smaller(path.to_str().unwrap(), "quick").unwrap();
    assert!(text.contains("for = \"60s\"") && text.contains("fault_pause = [\"5s\", \"7s\"]"), "{text}");
    assert_eq!(plan.trials.len(), 2);
}
