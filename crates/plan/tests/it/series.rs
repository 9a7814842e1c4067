//! Repeats and their order, lists that do not span a grid, rates that change, and scripts.

use std::io;

use plimsoll_plan::model::{
    Arrivals, Backoff, Breaker, Drive, DriveLimit, Pace, PhaseStep, Plan, Rate, RepeatsUntil, Retry, RetryScope, Stage,
    Start, ThinkTime,
};
use plimsoll_plan::{Overrides, PlanError, parse, parse_with_files};

use crate::catalogue::catalogue;

const HEAD: &str = "stores = [\"sqlite\"]\n[workload]\nname = \"coupons\"\n[[phase]]\ndo = \"load\"\n";
const DRIVE: &str = "[[phase]]\ndo = \"drive\"\nmix = { read = 1 }\nfor = \"10s\"\n";

fn plan(text: &str) -> Plan {
    parse("test", text, &catalogue(), &Overrides::default()).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn swept(top: &str, drive: &str) -> Vec<(String, String, u32)> {
    let plan = plan(&format!("{top}\n{HEAD}{DRIVE}{drive}"));
    let of =
        |labels: &std::collections::BTreeMap<String, String>, key: &str| labels.get(key).cloned().unwrap_or_default();
    plan.trials.iter().map(|t| (of(&t.labels, "clients"), of(&t.labels, "depth"), t.repeat)).collect()
}

#[test]
fn a_point_is_run_as_often_as_asked_each_time_in_another_order() {
    let trials = swept("repeats = 3", "clients = [1, 2, 3, 4, 5, 6, 7, 8]");
    assert_eq!(trials.len(), 24);
    let rounds: Vec<Vec<&str>> =
        trials.chunks(8).map(|round| round.iter().map(|trial| trial.0.as_str()).collect()).collect();
    for (repeat, round) in rounds.iter().enumerate() {
        assert!(trials[repeat * 8..][..8].iter().all(|trial| trial.2 == repeat as u32));
        let mut sorted = round.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, ["1", "2", "3", "4", "5", "6", "7", "8"]);
    }
    assert!(rounds[0] != rounds[1] && rounds[1] != rounds[2], "{rounds:?}");
    // The same plan has the same order.
    assert_eq!(trials, swept("repeats = 3", "clients = [1, 2, 3, 4, 5, 6, 7, 8]"));
}

#[test]
fn trials_stand_as_given_where_that_is_asked_or_nothing_is_repeated() {
    let given = swept("repeats = 2\norder = \"given\"", "clients = [3, 1, 2]");
    let order: Vec<&str> = given.iter().map(|trial| trial.0.as_str()).collect();
    assert_eq!(order, ["3", "1", "2", "3", "1", "2"]);
    let once: Vec<String> = swept("", "clients = [3, 1, 2]").into_iter().map(|trial| trial.0).collect();
    assert_eq!(once, ["3", "1", "2"]);
    let ordinals = plan(&format!("repeats = 2\n{HEAD}{DRIVE}clients = [3, 1, 2]")).trials;
    assert!(ordinals.iter().enumerate().all(|(at, trial)| trial.ordinal == at as u32));
}

#[test]
fn what_has_to_be_loaded_again_stays_together() {
    let text =
        format!("repeats = 2\n{HEAD}{DRIVE}clients = [1, 2]").replace("\"coupons\"", "\"coupons\"\nrecords = [10, 20]");
    let records: Vec<String> = plan(&text).trials.iter().map(|trial| trial.labels["records"].clone()).collect();
    assert_eq!(records, ["10", "10", "10", "10", "20", "20", "20", "20"]);
}

#[test]
fn repeats_that_results_decide_come_after_those_of_all_points() {
    let figure = "[[figure]]\nname = \"rate\"\nformula = \"drive.rate\"\n";
    let repeats = "repeats = { least = 2, most = 4, until = \"7%\" }";
    let text = format!("{repeats}\n{HEAD}{DRIVE}clients = [1, 2]\n{figure}")
        .replace("\"coupons\"", "\"coupons\"\nrecords = [10, 20]");
    let plan = plan(&text);
    assert_eq!((plan.repeats, plan.until), (4, Some(RepeatsUntil { least: 2, width: 0.07 })));
    let rounds: Vec<(&str, u32)> =
        plan.trials.chunks(2).map(|round| (round[0].labels["records"].as_str(), round[0].repeat)).collect();
    assert_eq!(rounds, [("10", 0), ("10", 1), ("20", 0), ("20", 1), ("10", 2), ("20", 2), ("10", 3), ("20", 3)]);
    assert!(plan.trials.chunks(2).all(|round| round[0].repeat == round[1].repeat));
    assert!(plan.trials.iter().enumerate().all(|(at, trial)| trial.ordinal == at as u32));
    assert_eq!(plan.certain().count(), 8);
    let outline = plan.outline(&|_| None).join("\n");
    for told in [
        "8 to 16 trials with the workload coupons on sqlite",
        "each point 2 to 4 times, until times and rates of the answer vary by at most 7 %; trials start settled",
        "and up to 8 trials more, as results decide",
        "trial 8: ",
    ] {
        assert!(outline.contains(told), "{told}: {outline}");
    }
    assert!(!outline.contains("trial 9: "), "{outline}");
}

#[test]
fn keys_can_be_swept_one_at_a_time() {
    let sweep = "\n[[sweep]]\nmode = \"one-at-a-time\"\n";
    let points = |drive: &str| -> Vec<(String, String)> {
        swept("", drive).into_iter().map(|(clients, depth, _)| (clients, depth)).collect()
    };
    let lists = "clients = [1, 2, 4]\ndepth = [1, 16]";
    assert_eq!(points(lists).len(), 6);
    let pairs = |all: &[(&str, &str)]| -> Vec<(String, String)> {
        all.iter().map(|(clients, depth)| ((*clients).to_owned(), (*depth).to_owned())).collect()
    };
    let one = pairs(&[("1", "1"), ("1", "16"), ("2", "1"), ("4", "1")]);
    assert_eq!(points(&format!("{lists}{sweep}")), one);
    assert_eq!(points(&format!("{lists}{sweep}keys = [\"clients\", \"depth\"]")), one);
    assert_eq!(points(&format!("{lists}{sweep}keys = [\"depth\"]")).len(), 6);
    assert_eq!(points(&format!("{lists}{}", sweep.replace("one-at-a-time", "grid"))).len(), 6);
    let wrong = format!("{HEAD}{DRIVE}{lists}{sweep}keys = [\"client\"]");
    let error = parse("test", &wrong, &catalogue(), &Overrides::default()).unwrap_err();
    assert_eq!(error.to_string(), "`client` is not swept: its value is not a list");
    assert!(error.problems()[0].help().is_some_and(|help| help.starts_with("did you mean `clients`?")));
}

#[test]
fn what_is_swept_one_at_a_time_is_limited_by_its_own_trials() {
    let list = |count: usize| (1..=count).map(|number| number.to_string()).collect::<Vec<_>>().join(", ");
    let plan_of = |mode: &str, count: usize| {
        let head = HEAD.replace("\"coupons\"", &format!("\"coupons\"\nrecords = [{}]", list(count)));
        let lists = format!("clients = [{}]\ndepth = [{}]", list(count), list(30));
        parse("test", &format!("{head}{DRIVE}{lists}\n{mode}"), &catalogue(), &Overrides::default())
    };
    let one = "[[sweep]]\nmode = \"one-at-a-time\"";
    // A grid would be 27,000.
    assert_eq!(plan_of(one, 30).map(|plan| plan.trials.len()).ok(), Some(88));
    for (mode, count) in [("", 30), (one, 6_000)] {
        let error = plan_of(mode, count).unwrap_err();
        assert!(error.problems().iter().any(|problem| problem.what().contains("comes to more than 10000 trials")));
    }
}

#[test]
fn a_point_that_the_sweep_leaves_out_is_not_judged() {
    // Nothing is loaded for two clients of two depths, and there is no such trial.
    let text = HEAD.replace("do = \"load\"", "do = \"load\"\nonly = { clients = [1] }")
        + "[[phase]]\ndo = \"load\"\nname = \"again\"\nonly = { clients = [2], depth = [1] }\n"
        + DRIVE
        + "clients = [1, 2]\ndepth = [1, 16]\n[[sweep]]\nmode = \"one-at-a-time\"\n";
    assert_eq!(plan(&text).trials.len(), 3);
}

#[test]
fn trials_start_settled_unless_said_otherwise() {
    for (text, start) in [
        ("", Start::Settled),
        ("start = \"fresh\"", Start::Fresh),
        ("start = \"as-is\"", Start::AsIs),
        ("start = \"settled\"", Start::Settled),
    ] {
        assert_eq!(plan(&format!("{text}\n{HEAD}{DRIVE}")).start, start);
    }
}

#[test]
fn a_rate_may_change_over_a_phase() {
    let second = 1_000_000_000;
    for (text, shape) in [
        ("\"60/min\"", Rate::Constant(1.0)),
        (
            "{ sine = \"10/s\", amplitude = \"10/s\", period = \"2s\" }",
            Rate::Sine { mean: 10.0, amplitude: 10.0, period_ns: 2 * second },
        ),
    ] {
        let plan = plan(&format!("{HEAD}{DRIVE}rate = {text}\narrivals = \"poisson\""));
        let PhaseStep::Drive(drive) = &plan.trials[0].phases[1].step else { panic!("a drive") };
        assert_eq!(drive.pace, Pace::Open { rate: shape, arrivals: Arrivals::Poisson });
        assert!(plan.outline(&|_| None).iter().any(|line| line.contains("Poisson arrivals")));
    }
}

#[test]
fn a_load_may_change_in_stages_of_rates_or_of_clients() {
    let second = 1_000_000_000;
    let stage = |from, to, seconds| Stage { from, to, for_ns: seconds * second };
    let drive_of = |keys: &str| -> Drive {
        let plan = plan(&format!("{HEAD}{}{keys}", DRIVE.replace("for = \"10s\"\n", "")));
        let PhaseStep::Drive(drive) = &plan.trials[0].phases[1].step else { panic!("a drive") };
        drive.clone()
    };
    let drive = drive_of("stages = [\"500/s@10s\", \"500/s..2000/s@30s\", \"..0/s@1min\"]\nclients = 3");
    let stages = vec![stage(500.0, 500.0, 10), stage(500.0, 2_000.0, 30), stage(2_000.0, 0.0, 60)];
    assert_eq!(drive.pace, Pace::Open { rate: Rate::Stages(stages), arrivals: Arrivals::Even });
    assert_eq!((drive.limit, drive.clients, drive.stages), (DriveLimit::DurationNs(100 * second), 3, vec![]));
    let drive = drive_of("stages = [\"10@10s\", \"..50@30s\"]\nthink = \"exp:100ms\"");
    assert_eq!((&drive.pace, drive.limit, drive.clients), (&Pace::Closed, DriveLimit::DurationNs(40 * second), 50));
    assert_eq!(drive.stages, [stage(10.0, 10.0, 10), stage(10.0, 50.0, 30)]);
    assert_eq!(drive.think, Some(ThinkTime::Exponential(100_000_000)));
}

#[test]
fn clients_open_lost_connections_again_as_the_plan_says() {
    let plan = plan(&format!("{HEAD}{DRIVE}connect_timeout = \"500ms\"\nbackoff = [\"100ms\", \"100ms..5s\"]"));
    let drives = plan.trials.iter().map(|trial| match &trial.phases[1].step {
        PhaseStep::Drive(drive) => (drive.connect_timeout_ns, drive.backoff),
        _ => panic!("a drive"),
    });
    let (ms, limit) = (1_000_000, Some(500_000_000));
    let waits = [Backoff::Constant(100 * ms), Backoff::Jittered(100 * ms, 5_000 * ms)];
    assert!(drives.eq(waits.map(|backoff| (limit, Some(backoff)))));
    let outline = plan.outline(&|_| None).join("\n");
    assert!(outline.contains(", connect time-out 500ms, random back-off, limit 100ms doubled up to 5s"), "{outline}");
}

#[test]
fn retries_are_swept_with_none_among_them() {
    let plan = plan(&format!("{HEAD}{DRIVE}retry = [\"none\", \"all\"]\ntries = 5"));
    let retries = plan.trials.iter().map(|trial| match &trial.phases[1].step {
        PhaseStep::Drive(drive) => drive.retry,
        _ => panic!("a drive"),
    });
    assert!(retries.eq([None, Some(Retry { scope: RetryScope::All, tries: 5 })]));
    let outline = plan.outline(&|_| None).join("\n");
    assert!(outline.contains(", up to 5 tries of all operations"), "{outline}");
}

#[test]
fn circuit_breakers_open_after_failures_in_a_row_for_a_time() {
    let plan = plan(&format!("{HEAD}{DRIVE}breaker = [3, 5]\nbreaker_wait = \"2s\""));
    let breakers = plan.trials.iter().map(|trial| match &trial.phases[1].step {
        PhaseStep::Drive(drive) => drive.breaker,
        _ => panic!("a drive"),
    });
    assert!(breakers.eq([3, 5].map(|failures| Some(Breaker { failures, wait_ns: 2_000_000_000 }))));
    let outline = plan.outline(&|_| None).join("\n");
    assert!(outline.contains(", circuit open for 2s after 5 failures in a row"), "{outline}");
}

#[test]
fn clients_are_spread_over_hosts_with_as_many_workers_on_each() {
    let drives = |keys: &str| -> Vec<Drive> {
        let plan = plan(&format!("{HEAD}{keys}"));
        let outline = plan.outline(&|_| None).join("\n");
        assert!(outline.contains(" on 3 client hosts, closed loop"), "{outline}");
        let drive = |step: &PhaseStep| match step {
            PhaseStep::Drive(drive) => drive.clone(),
            _ => panic!("a drive"),
        };
        plan.trials.iter().map(|trial| drive(&trial.phases[1].step)).collect()
    };
    let found = drives(&format!("{DRIVE}clients = 8\nworkers = 4\nclient_hosts = [2, 3]"));
    assert!(found.iter().map(|drive| (drive.client_hosts, drive.workers)).eq([(Some(2), 4), (Some(3), 6)]));
    let fault = "link all from client host 3 delay=20ms at 1s for 2s";
    let slow = format!("{HEAD}{DRIVE}clients = 8\nclient_hosts = 3\nfault = \"{fault}\"");
    let outline = plan(&slow).outline(&|_| None).join("\n");
    assert!(outline.contains(&format!(", {fault}")), "{outline}");
    // A worker without a client has nothing to do.
    assert_eq!(drives(&format!("{DRIVE}clients = 2\nclient_hosts = 3"))[0].workers, 2);
    let scenario =
        |name: &str, clients: u32| format!("{{ name = \"{name}\", clients = {clients}, mix = {{ read = 1 }} }}");
    let scenarios = format!("scenario = [{}, {}]", scenario("many", 7), scenario("few", 1));
    let found = drives(&format!("{}{scenarios}\nclient_hosts = 3", DRIVE.replace("mix = { read = 1 }\n", "")));
    let workers: Vec<u32> = found[0].scenarios.iter().map(|scenario| scenario.workers).collect();
    assert_eq!((workers, found[0].workers), (vec![3, 1], 4));
}

#[test]
fn operations_are_recorded_one_by_one_up_to_a_number() {
    let plan = plan(&format!("{HEAD}{DRIVE}keep_operations = 1000"));
    let kept = plan.trials.iter().map(|trial| match &trial.phases[1].step {
        PhaseStep::Drive(drive) => drive.keep_operations,
        _ => panic!("a drive"),
    });
    assert!(kept.eq([Some(1_000)]));
    let outline = plan.outline(&|_| None).join("\n");
    assert!(outline.contains(", up to 1000 operations recorded"), "{outline}");
}

fn with_file(text: &str, file: &str) -> Result<Plan, PlanError> {
    let files = |path: &str| match path {
        "dir/a.sql" | "arrivals.txt" => Ok(file.to_owned()),
        _ => Err(io::Error::from(io::ErrorKind::NotFound)),
    };
    parse_with_files("test", text, &catalogue(), &Overrides::default(), &files)
}

#[test]
fn arrivals_may_be_recorded_ones() {
    let text = format!("{HEAD}{DRIVE}rate = {{ recorded = \"arrivals.txt\" }}");
    let plan = with_file(&text, "# seconds\n0\n0.5\n\n0.5\n1.25\n").unwrap();
    let PhaseStep::Drive(drive) = &plan.trials[0].phases[1].step else { panic!("a drive") };
    let recorded = Rate::Recorded(vec![0, 500_000_000, 500_000_000, 1_250_000_000]);
    assert_eq!(drive.pace, Pace::Open { rate: recorded, arrivals: Arrivals::Even });
    assert_eq!(with_file(&text, "\u{feff}0\n0.5\n\n0.5\n1.25\n").unwrap().trials, plan.trials);
    for (file, what) in [
        ("1\n0.5", "arrivals.txt, line 2: it is earlier than the line above"),
        ("1\ntwo", "arrivals.txt, line 2: `two` is not a time in seconds"),
        ("-1", "arrivals.txt, line 1: `-1` is not a time in seconds"),
        ("# none", "arrivals.txt holds no arrival"),
    ] {
        assert_eq!(with_file(&text, file).unwrap_err().to_string(), what);
    }
}

const SCRIPTS: &str = "stores = [\"postgres\"]\n[workload]\nname = \"script\"\n[[workload.script]]\nfile = \"dir/a.sql\"\nweight = 3\n[[workload.script]]\nname = \"b\"\ntext = \"SELECT 2;\"\n[[phase]]\ndo = \"drive\"\nfor = \"1s\"\n";

#[test]
fn scripts_are_kinds_with_their_weights() {
    let plan = with_file(SCRIPTS, "\u{feff}SELECT 1;").unwrap();
    let scripts = &plan.trials[0].workload.scripts;
    let short: Vec<_> = scripts.iter().map(|s| (s.name.as_str(), s.weight, s.text.as_str())).collect();
    assert_eq!(short, [("a", 3, "SELECT 1;"), ("b", 1, "SELECT 2;")]);
    let PhaseStep::Drive(drive) = &plan.trials[0].phases[0].step else { panic!("a drive") };
    assert_eq!(drive.mix, [("a".to_owned(), 3), ("b".to_owned(), 1)]);
    let chosen = with_file(&format!("{SCRIPTS}mix = {{ b = 1 }}"), "SELECT 1;").unwrap();
    let PhaseStep::Drive(drive) = &chosen.trials[0].phases[0].step else { panic!("a drive") };
    assert_eq!(drive.mix, [("b".to_owned(), 1)]);
}

#[test]
fn what_is_wrong_in_a_script_is_shown_in_the_script() {
    let error = with_file(SCRIPTS, "SELECT 1;\nthis is wrong;").unwrap_err();
    assert_eq!(error.to_string(), "this is wrong");
    assert_eq!(error.problems()[0].source_name(), "dir/a.sql");
    assert_eq!(error.problems()[0].span(), 18..23);
    let inline = with_file(&SCRIPTS.replace("SELECT 2", "wrong"), "").unwrap_err();
    assert_eq!(inline.problems()[0].source_name(), "b");
}

#[test]
fn scripts_that_are_not_there_or_twice_are_refused() {
    for (text, what) in [
        (SCRIPTS.replace("dir/a.sql", "none.sql"), "the script `none.sql` cannot be read: entity not found"),
        (SCRIPTS.replace("name = \"b\"", "name = \"a\""), "another script is named `a` already"),
        (SCRIPTS.replace("weight = 3", "text = \"x\""), "a script needs either `file` or `text`"),
        (SCRIPTS.replace("weight = 3", "wait = 3"), "unknown key `wait` in a script"),
        (SCRIPTS.replace("weight = 3", "weight = 0"), "`weight` must be 1 to 1000000, not 0"),
    ] {
        assert_eq!(with_file(&text, "").unwrap_err().to_string(), what, "{text}");
    }
}
