//! Expansion of plans into trials.

use plimsoll_core::{Durability, ParamValue};
use plimsoll_plan::{Arrivals, DriveLimit, GoalKind, Overrides, Pace, PhaseStep, Plan, PlannedTrial, Rate, parse};

use crate::catalogue::{catalogue, with_labs};

const COUPONS: &str = include_str!("../../../../studies/coupons.toml");

/// Returns the coupon study with each point once.
fn coupons_once() -> String {
    COUPONS.replace("repeats = { least = 3, most = 12, until = \"10%\" }", "repeats = 1")
}

fn plan(text: &str) -> Plan {
    plan_on(text, None)
}

fn plan_on(text: &str, on: Option<&[&str]>) -> Plan {
    let on = on.map(|on| on.iter().map(|entry| (*entry).to_owned()).collect());
    match parse("test", text, &catalogue(), &Overrides { on, seed: None }) {
        Ok(plan) => plan,
        Err(error) => panic!("{:?}", miette::Report::new(error)),
    }
}

fn labels(trial: &PlannedTrial) -> String {
    trial.labels.iter().map(|(label, value)| format!("{label}={value}")).collect::<Vec<_>>().join(" ")
}

fn all_labels(plan: &Plan) -> Vec<String> {
    plan.trials.iter().map(labels).collect()
}

#[test]
fn the_coupon_study_comes_to_five_trials_and_repeats_them() {
    let repeated = plan(COUPONS);
    assert_eq!((repeated.certain().count(), repeated.trials.len()), (15, 60));
    let plan = plan(&coupons_once());
    assert_eq!(
        all_labels(&plan),
        [
            "index=none store=sqlite",
            "index=own store=sqlite",
            "index=keyindex store=sqlite",
            "index=none store=fjall",
            "index=keyindex store=fjall"
        ]
    );
    assert_eq!(plan.left_out, ["fjall has no native index"]);
    assert_eq!(plan.trials.iter().map(|trial| trial.ordinal).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert_eq!((plan.timed_s, repeated.timed_s), (15.0, 180.0));
    assert_eq!(plan.samplers, ["cpu", "disk"]);
    assert_eq!(plan.slice_ns, 1_000_000_000);
    let seconds = 1_000_000_000;
    let timeouts = (plan.timeouts.setup_ns, plan.timeouts.load_ns, plan.timeouts.work_ns);
    assert_eq!(timeouts, (15 * seconds, 20 * seconds, 3_600 * seconds));
    assert_eq!(plan.figures.len(), 13);
    assert_eq!(plan.figures[0].published.len(), 2);
    assert_eq!(
        plan.goals.iter().map(|goal| (goal.what, goal.limit)).collect::<Vec<_>>(),
        [(GoalKind::Lost, 0.0), (GoalKind::Wrong, 0.0)]
    );

    let names = |trial: &PlannedTrial| trial.phases.iter().map(|phase| phase.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&plan.trials[0]), ["load", "settle", "warm", "cold", "cold_query", "check"]);
    assert_eq!(names(&plan.trials[1]), ["load", "settle", "warm", "cold", "cold_query", "mixed", "check"]);
    let PhaseStep::Load { batch: 1000, clients: 1, durability: Durability::AtEnd } = plan.trials[0].phases[0].step
    else {
        panic!("{:?}", plan.trials[0].phases[0]);
    };
    let PhaseStep::Drive(drive) = &plan.trials[1].phases[5].step else {
        panic!("{:?}", plan.trials[1].phases[5]);
    };
    assert_eq!(drive.clients, 8);
    assert_eq!(drive.limit, DriveLimit::DurationNs(5_000_000_000));
    assert_eq!(drive.durability, Durability::Durable);
    assert_eq!(drive.pace, Pace::Closed);
    assert_eq!(drive.mix, [("read".to_owned(), 70), ("update".to_owned(), 28), ("query".to_owned(), 2)]);
    assert_eq!(plan.trials[0].workload.params.int("records"), 100_000);
    assert_eq!(plan.trials[2].workload.params.text("index"), "keyindex");
    assert_eq!(plan.trials[0].workload.params.0["pause"], ParamValue::Int(1_000_000));
    assert_eq!(plan.trials[0].store.params.int("cache"), 2 << 20);
}

#[test]
fn trials_that_set_out_to_break_promises_are_named_by_their_labels() {
    let of = |breaks: &str| -> Vec<bool> {
        let text = format!("breaks = {breaks}\n{}", coupons_once());
        plan(&text).trials.iter().map(|trial| trial.breaks).collect()
    };
    assert_eq!(of("{ index = \"own\" }"), [false, true, false, false, false]);
    assert_eq!(of("{ store = \"sqlite\", index = [\"none\", \"own\"] }"), [true, true, false, false, false]);
    assert_eq!(of("{}"), [true; 5]);
    assert_eq!(plan(&coupons_once()).trials.iter().map(|trial| trial.breaks).collect::<Vec<_>>(), [false; 5]);
}

#[test]
fn other_stores_may_be_named_instead() {
    let text = coupons_once();
    let plan = plan_on(&text, Some(&["postgres", "postgres://me@db.example:5433/test"]));
    assert_eq!(
        all_labels(&plan),
        [
            "index=none store=postgres",
            "index=own store=postgres",
            "index=none store=test@db.example",
            "index=own store=test@db.example"
        ]
    );
    assert_eq!(plan.trials[2].store.url.as_deref(), Some("postgres://me@db.example:5433/test"));
    let reasons = [
        "postgres has no key-value interface to keep index keys in",
        "test@db.example has no key-value interface to keep index keys in",
    ];
    assert_eq!(plan.left_out, reasons);
    let password = plan_on(&text, Some(&["postgres://me:secret@h/"]));
    assert_eq!(password.trials[0].store.url.as_deref(), Some("postgres://me@h/"));
}

#[test]
fn a_seed_may_be_given_instead() {
    let text = coupons_once().replace("seed = 1", "seed = [1, 2]");
    assert_eq!(plan(&text).trials.len(), 10);
    let plan = parse("test", &text, &catalogue(), &Overrides { on: None, seed: Some(7) }).unwrap();
    assert_eq!((plan.trials.len(), plan.trials[0].seed), (5, 7));
}

const HEAD: &str = "stores = [\"sqlite\"]\n[workload]\nname = \"coupons\"\n[[phase]]\ndo = \"load\"\n";

#[test]
fn lists_span_a_grid_with_the_first_key_outermost() {
    let plan = plan(&format!(
        "{HEAD}batch = [10, 1_000]\n[[phase]]\ndo = \"drive\"\nmix = [{{ read = 1 }}, {{ update = 1 }}]\nfor = [\"1s\", \"2s\"]"
    ));
    let found = all_labels(&plan);
    assert_eq!(found.len(), 8);
    assert_eq!(found[0], "batch=10 for=1s mix={ read = 1 } store=sqlite");
    assert_eq!(found[1], "batch=10 for=2s mix={ read = 1 } store=sqlite");
    assert_eq!(found[2], "batch=10 for=1s mix={ update = 1 } store=sqlite");
    assert_eq!(found[7], "batch=1_000 for=2s mix={ update = 1 } store=sqlite");
    assert_eq!(plan.timed_s, 12.0);
}

#[test]
fn keys_that_two_phases_sweep_carry_the_phase() {
    let drive = |name: &str| {
        format!("[[phase]]\ndo = \"drive\"\nname = \"{name}\"\nmix = {{ read = 1 }}\nfor = \"1s\"\nclients = [1, 2]\n")
    };
    let figure = "[[figure]]\nname = \"x\"\nformula = \"a.rate[a.clients=1,b.clients=2]\"\n";
    let plan = plan(&format!("{HEAD}{}{}{figure}", drive("a"), drive("b")));
    assert_eq!(plan.trials.len(), 4);
    assert_eq!(labels(&plan.trials[1]), "a.clients=1 b.clients=2 store=sqlite");
}

#[test]
fn a_swept_kind_of_operation_carries_its_phase() {
    // In formulas `op` alone names a kind of operation within a trial.
    let ask = "[[phase]]\ndo = \"ask\"\nop = [\"read\", \"query\"]\ncount = 1\n";
    let figure = "[[figure]]\nname = \"x\"\nformula = \"ask.median_seconds[ask.op=read, op=read, records=100000]\"\n";
    let plan = plan(&format!("{HEAD}{ask}{figure}"));
    assert_eq!(all_labels(&plan), ["ask.op=read store=sqlite", "ask.op=query store=sqlite"]);
}

#[test]
fn what_makes_no_difference_makes_no_trial() {
    let text = HEAD.replace("\"coupons\"", "\"coupons\"\nindex = [\"none\", \"own\"]");
    let plan = plan(&format!(
        "{text}[[phase]]\ndo = \"drive\"\nonly = {{ index = \"own\" }}\nmix = {{ read = 1 }}\nfor = \"1s\"\nclients = [1, 2]\n"
    ));
    assert_eq!(
        all_labels(&plan),
        ["index=none store=sqlite", "clients=1 index=own store=sqlite", "clients=2 index=own store=sqlite"]
    );
    // A condition on a swept key is a difference.
    let plan = crate::expansion::plan(&format!(
        "{HEAD}[[phase]]\ndo = \"drive\"\nmix = {{ read = 1 }}\nfor = \"1s\"\nclients = [1, 2]\n[[phase]]\ndo = \"check\"\nonly = {{ clients = 2 }}\n"
    ));
    assert_eq!(plan.trials.iter().map(|trial| trial.phases.len()).collect::<Vec<_>>(), [2, 3]);
}

#[test]
fn a_rate_matters_in_the_open_loop_only() {
    let plan = plan(&format!(
        "{HEAD}[[phase]]\ndo = \"drive\"\nmix = {{ read = 1 }}\nfor = \"1s\"\nloop = [\"closed\", \"open\"]\nrate = [\"10/s\", \"60/min\"]\n"
    ));
    assert_eq!(
        all_labels(&plan),
        ["loop=closed store=sqlite", "loop=open rate=10/s store=sqlite", "loop=open rate=60/min store=sqlite"]
    );
    let paces: Vec<Pace> = plan
        .trials
        .iter()
        .map(|trial| match &trial.phases[1].step {
            PhaseStep::Drive(drive) => drive.pace.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    let open = |rate| Pace::Open { rate: Rate::Constant(rate), arrivals: Arrivals::Even };
    assert_eq!(paces, [Pace::Closed, open(10.0), open(1.0)]);
}

#[test]
fn stores_take_parameters_and_may_sweep_them() {
    let stores = "[{ store = \"postgres\", shared_buffers = [\"1MiB\", \"2MiB\"] }, \"sqlite\", \"postgres://a:1/\", \"postgres://a:2/\"]";
    let plan = plan(&HEAD.replace("[\"sqlite\"]", stores));
    assert_eq!(
        all_labels(&plan),
        [
            "shared_buffers=1MiB store=postgres",
            "shared_buffers=2MiB store=postgres",
            "store=sqlite",
            "store=a:1",
            "store=a:2"
        ]
    );
    assert_eq!(plan.trials[1].store.params.int("shared_buffers"), 2 << 20);
    assert_eq!(plan.trials[3].store.params.int("shared_buffers"), 128 << 20);
}

#[test]
fn phases_without_a_name_get_one() {
    let plan = plan(&format!(
        "{HEAD}[[phase]]\ndo = \"settle\"\n[[phase]]\ndo = \"cold\"\nname = \"settle_2\"\n[[phase]]\ndo = \"settle\"\n"
    ));
    let names: Vec<&str> = plan.trials[0].phases.iter().map(|phase| phase.name.as_str()).collect();
    assert_eq!(names, ["load", "settle", "settle_2", "settle_3"]);
}

#[test]
fn default_stands_for_all_samplers_but_those_that_are_only_read_where_they_are_named() {
    let samplers = |list: &str| {
        let text = format!(
            "{list}stores = [\"sqlite\"]\nworkload = {{ name = \"nothing\" }}\nphase = [{{ do = \"drive\", mix = {{ nothing = 1 }}, ops = 5 }}]"
        );
        plan(&text).samplers
    };
    assert_eq!(samplers(""), ["cpu", "disk"]);
    assert_eq!(samplers("samplers = [\"default\", \"fsync\"]\n"), ["cpu", "disk", "fsync"]);
    assert_eq!(samplers("samplers = [\"disk\", \"default\"]\n"), ["disk", "cpu"]);
}

#[test]
fn a_workload_without_records_needs_no_load() {
    plan(
        "stores = [\"sqlite\"]\nworkload = { name = \"select\" }\nphase = [{ do = \"drive\", mix = { select = 1 }, ops = 5 }]",
    );
    let plan = plan(
        "stores = [\"sqlite\"]\nworkload = { name = \"nothing\" }\nsamplers = []\nphase = [{ do = \"drive\", mix = { nothing = 1 }, ops = 5, warmup = \"1s\" }]",
    );
    assert_eq!(plan.timed_s, 1.0);
    assert_eq!(plan.samplers, [""; 0]);
    assert_eq!(plan.title, "test");
}

#[test]
fn a_workloads_other_name_says_its_mix_and_parameters_which_the_plan_may_replace() {
    let parsed = |workload: &str, drive: &str| {
        let text = format!(
            "stores = [\"sqlite\"]\n[workload]\nname = {workload}\n[[phase]]\ndo = \"load\"\n[[phase]]\ndo = \"drive\"\nops = 1\n{drive}"
        );
        let plan = plimsoll_plan::parse("some/where/my plan.toml", &text, &catalogue(), &Overrides::default()).unwrap();
        assert_eq!(plan.name, "my plan");
        let trial = &plan.trials[0];
        assert_eq!(trial.workload.name, "coupons");
        let mix = trial.drives().next().unwrap().1.mix.clone();
        (mix, trial.workload.params.int("records"), trial.workload.given.clone())
    };
    let mix =
        |shares: &[(&str, u32)]| shares.iter().map(|(kind, share)| ((*kind).to_owned(), *share)).collect::<Vec<_>>();
    assert_eq!(parsed("\"coupons:reads\"", ""), (mix(&[("read", 9), ("query", 1)]), 100_000, vec![]));
    assert_eq!(parsed("\"coupons:many\"", ""), (mix(&[("update", 1)]), 500_000, vec![]));
    let given = parsed("\"coupons:many\"\nrecords = 7", "mix = { read = 1 }");
    assert_eq!(given, (mix(&[("read", 1)]), 7, vec!["records".to_owned()]));
}

#[test]
fn a_store_has_other_names_and_one_of_its_own() {
    let text = "stores = [\"pg\"]\n[workload]\nname = \"select\"\n[[phase]]\ndo = \"drive\"\nops = 1\n";
    let plan = plimsoll_plan::parse("test", text, &catalogue(), &Overrides::default()).unwrap();
    let store = &plan.trials[0].store;
    assert_eq!((store.kind.as_str(), store.label.as_str()), ("postgres", "postgres"));
}

#[test]
fn a_store_is_called_what_the_plan_says() {
    let stores = r#"stores = ["sqlite", { store = "sqlite", as = "another one" }]"#;
    let text = format!("{stores}\n[workload]\nname = \"coupons\"\n[[phase]]\ndo = \"load\"\n");
    let plan = parse("test", &text, &catalogue(), &Overrides::default()).unwrap();
    assert_eq!(all_labels(&plan), ["store=sqlite", "store=another one"]);
}

#[test]
fn a_phase_of_a_cluster_is_also_one_of_its_labs_and_of_those_with_other_names() {
    let text = "stores = [\"shards\", { store = \"replicas\", as = \"two copies\" }]\n[workload]\nname = \"coupons\"\n\
                [[phase]]\ndo = \"load\"\n[[phase]]\nname = \"a\"\ndo = \"settle\"\nonly = { store = \"replicas\" }\n\
                [[phase]]\nname = \"b\"\ndo = \"settle\"\nonly = { store = \"shards\" }\n\
                [[phase]]\nname = \"c\"\ndo = \"settle\"\nonly = { store = \"group\" }\n";
    let phases = |on: Option<&[&str]>| {
        let on = on.map(|on| on.iter().map(|entry| (*entry).to_owned()).collect());
        let plan = parse("test", text, &with_labs(), &Overrides { on, seed: None }).unwrap();
        let names = |trial: &PlannedTrial| -> Vec<String> {
            trial.phases.iter().skip(1).map(|phase| phase.name.clone()).collect()
        };
        plan.trials.iter().map(names).collect::<Vec<_>>()
    };
    assert_eq!(phases(None), [["b", "c"], ["a", "c"]]);
    assert_eq!(phases(Some(&["lab:mine", "lab:other"])), [["a", "c"], ["b", "c"]]);
}

#[test]
fn phases_that_no_trial_has_together_may_have_one_name() {
    let text = |second: &str| {
        format!(
            "stores = [\"sqlite\", \"fjall\"]\n[workload]\nname = \"coupons\"\n[[phase]]\ndo = \"load\"\n\
             [[phase]]\nname = \"x\"\ndo = \"drive\"\nfor = \"1s\"\nmix = {{ read = 1 }}\nonly = {{ store = \"sqlite\" }}\n\
             [[phase]]\nname = \"x\"\ndo = \"drive\"\nfor = \"2s\"\nmix = {{ read = 1 }}\nonly = {{ store = \"{second}\" }}\n"
        )
    };
    let lengths =
        plan(&text("fjall")).trials.iter().map(|trial| trial.drives().next().unwrap().1.limit).collect::<Vec<_>>();
    assert_eq!(lengths, [DriveLimit::DurationNs(1_000_000_000), DriveLimit::DurationNs(2_000_000_000)]);
    let error = parse("test", &text("sqlite"), &catalogue(), &Overrides::default()).unwrap_err();
    let message = format!("{:?}", miette::Report::new(error));
    assert!(message.contains("`sqlite` has another phase named `x` already"), "{message}");
}

#[test]
fn drawn_faults_become_faults_with_times_that_seeds_change_and_stores_do_not() {
    let text = r#"
stores = ["sqlite", "postgres"]
seed = [1, 2]
[workload]
name = "coupons"
[[phase]]
do = "load"
[[phase]]
do = "drive"
for = "60s"
mix = { read = 1 }
fault_pause = "5s"
fault = ["kill primary drawn for 5s", "pause replica drawn weight 3 for 2s", "reset all drawn", "add node at 59s"]
"#;
    let faults = |plan: &Plan, trial: usize| -> Vec<String> {
        let drive = plan.trials[trial].drives().next().unwrap().1;
        drive.faults.iter().map(ToString::to_string).collect()
    };
    let found = plan(text);
    let first = faults(&found, 0);
    let wanted = [
        "add node at 59s",
        "pause replica at 3.815s for 2s",
        "pause replica at 9.004s for 2s",
        "pause replica at 18.189s for 2s",
        "reset all at 26.827s",
        "reset all at 29.375s",
        "pause replica at 33.731s for 2s",
        "pause replica at 42.438s for 2s",
        "pause replica at 50.215s for 2s",
    ];
    assert_eq!(first, wanted);
    assert!(faults(&found, 1).contains(&"kill primary at 23.586s for 5s".to_owned()), "{:?}", faults(&found, 1));
    assert_eq!((faults(&found, 2), faults(&found, 3)), (first, faults(&found, 1)), "on the other store");
    assert!(found.outline(&|_| None).join("\n").contains(&format!("durable, {};", wanted.join(", "))));
    // Drawn faults begin after the warm-up, and the pause may be swept.
    let later = plan(&text.replace("for = \"60s\"", "warmup = \"30s\"\nfor = \"60s\""));
    assert_eq!(faults(&later, 0)[1], "pause replica at 33.815s for 2s");
    let swept = plan(&text.replace("\"5s\"\nfault", "[\"5s\", \"1s\"]\nfault"));
    assert_eq!(labels(&swept.trials[1]), "fault_pause=1s seed=1 store=sqlite");
    assert!(faults(&swept, 1).len() > wanted.len());
    // A pause that makes no difference makes no trial.
    let fixed = "fault = [[\"reset all drawn\", \"add node at 59s\"]]\nfault_pause = [\"5s\", \"1s\"]";
    let (before, _) = text.split_once("fault_pause").unwrap();
    assert_eq!(plan(&format!("{before}{fixed}")).trials.len(), 2 * 2 * 3);
}

#[test]
fn a_fault_that_the_end_of_its_phase_heals_before_its_time_is_noted_once() {
    let noted = |faults: &str| {
        let phases = "[[phase]]\ndo = \"load\"\n[[phase]]\ndo = \"drive\"\nfor = \"60s\"\nmix = { read = 1 }\n";
        let text = format!("stores = [\"sqlite\"]\nseed = [1, 2]\n[workload]\nname = \"coupons\"\n{phases}{faults}");
        plan(&text).notices
    };
    let notice = "phase drive ends before the `for` of a fault is over, and heals it: kill all at 55s for 10s";
    assert_eq!(noted("fault = \"kill all at 55s for 10s\""), [notice]);
    let whole = "[\"kill all at 50s for 10s\", \"pause all at 40s for 1s\", \"reset all at 59s\"]";
    assert!(noted(&format!("fault = {whole}")).is_empty());
    assert!(noted("fault = \"pause all at 1s for 4s every 9s\"").is_empty());
}
