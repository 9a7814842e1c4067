//! Faults by commands of the user: on an attached server, and healed whatever ends the run.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use plimsoll_record::data::Run;
use rustix::process::Signal;

use crate::bench::{Guarded, Place, wait_for};
use crate::faults::{least_outage_s, seconds};
use crate::servers::Redis;

/// Longest time until a command has begun or healed a fault.
const BOUND: Duration = Duration::from_secs(100);

/// Starts a drive with a fault that makes a file, and another command that removes it. Returns both once the file is
/// there.
fn broken(place: &Place) -> (Guarded, PathBuf) {
    let file = place.path().join("broken");
    let fault = format!("run \"touch {0}\" heal \"rm {0}\" at 100ms", file.display());
    let drive = ["drive", "kv", "--on", "null", "--think", "5ms", "--for", "300s", "--quiet", "--allow-fault"];
    let run = place.recording(&[&drive[..], &["--fault", &fault]].concat());
    wait_for("the fault", BOUND, || file.exists());
    (run, file)
}

fn is_healed(file: &Path) {
    wait_for("the healing", BOUND, || !file.exists());
}

#[test]
fn commands_break_and_heal_an_attached_server_if_that_is_allowed() {
    let place = Place::new();
    let server = Redis::start(place.path());
    let (url, info) = (server.url(), server.ask(&["INFO", "server"]));
    let pid = info.lines().find_map(|line| line.trim().strip_prefix("process_id:")).unwrap();
    let fault = format!("run \"kill -STOP {pid}\" heal \"kill -CONT {pid}\" at 1s for 1500ms");
    let drive =
        ["drive", "kv", "--set", "records=200", "--on", &url, "--clients", "4", "--think", "2ms", "--for", "6s"];
    let other = place.run(&[&drive[..], &["--fault", "kill all at 1s"]].concat()).expect(2);
    other.says("has no private servers … write commands of your own: run \"COMMAND\" heal \"COMMAND\"");
    let drive = [&drive[..], &["--fault", &fault]].concat();
    place.run(&drive).expect(2).says("this runs a command on this machine, with your rights … --allow-fault");
    assert!(place.all_runs().is_empty(), "nothing was started");
    place.run(&[&drive[..], &["--allow-fault", "-q"]].concat()).expect(0);
    let report = place.report();
    let found = &report["faults"][0];
    assert!(seconds(found, "outage_s") >= least_outage_s(found, 1.5) && found["error"].is_null(), "{found}");
    assert!(seconds(found, "healed_s") >= 1.4, "{found}");
    assert_eq!(found["name"], format!("command \"kill -STOP {pid}\""));
}

#[test]
fn a_run_that_is_killed_or_stopped_leaves_nothing_broken() {
    let place = Place::new();
    let (mut run, file) = broken(&place);
    run.kill();
    is_healed(&file);
    let (run, file) = broken(&place);
    run.signal(Signal::INT);
    run.ended().expect(130);
    assert!(!file.exists(), "the run waits for the healing");
}

#[test]
fn a_run_is_resumed_once_the_fault_of_the_killed_run_is_healed() {
    let place = Place::new();
    let [go, log] = ["go", "log"].map(|name| place.path().join(name).display().to_string());
    let heal = format!("until test -e {go}; do sleep 0.02; done; echo healed >> {log}");
    let fault = format!("run \"echo begun >> {log}\" heal \"{heal}\" at 100ms");
    let drive = ["drive", "kv", "--on", "null", "--think", "5ms", "--for", "1s", "--quiet", "--allow-fault"];
    let mut run = place.recording(&[&drive[..], &["--fault", &fault]].concat());
    let logged = || std::fs::read_to_string(&log).unwrap_or_default();
    wait_for("the fault", BOUND, || logged() == "begun\n");
    run.kill();
    let mut again = Guarded(place.command(&["run", "--resume", "latest", "--quiet"]).spawn().unwrap());
    let mut said = BufReader::new(again.0.stderr.take().unwrap());
    assert!(said.by_ref().lines().any(|line| line.unwrap().starts_with("waiting until the commands")));
    assert_eq!(logged(), "begun\n");
    std::fs::write(&go, "").unwrap();
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert!(again.0.wait().unwrap().success(), "{rest}");
    assert_eq!(logged(), "begun\nhealed\nbegun\nhealed\n");
}

#[test]
fn a_command_that_fails_ends_the_run_at_once_with_its_output() {
    let place = Place::new();
    let drive = ["drive", "kv", "--on", "null", "--think", "5ms", "--for", "300s", "--allow-fault", "--fault"];
    let ran = place.run(&[&drive[..], &["run \"echo no such host; exit 3\" at 100ms"]].concat()).expect(9);
    ran.says("the command that begins it failed … exit status: 3: no such host … run it in a shell");
}

#[test]
fn a_command_that_does_not_heal_ends_the_run_and_leaves_no_process() {
    let place = Place::new();
    let fault = "run \"true\" heal \"echo still broken; false\" at 100ms for 300ms";
    let drive = ["drive", "kv", "--on", "null", "--think", "5ms", "--for", "300s", "--quiet", "--allow-fault"];
    let run = place.recording(&[&drive[..], &["--fault", fault]].concat());
    let owner = format!("--of={}", run.0.id());
    let ran = run.ended().expect(9);
    ran.says("the command that heals it failed … exit status: 1: still broken … heal the fault by hand: echo still");
    let recorded = Run::load(&place.only_run()).unwrap();
    let spans: Vec<_> = recorded.faults().collect();
    assert!(matches!(spans[..], [span] if span.taken_ns.is_some() && span.healed_ns.is_none() && span.error.is_some()));
    let commands = std::fs::read_dir("/proc").unwrap().flatten();
    let mut commands = commands.filter_map(|process| std::fs::read_to_string(process.path().join("cmdline")).ok());
    assert_eq!(commands.find(|command| command.split('\0').any(|word| word == owner)), None);
}

#[test]
fn a_line_end_in_a_fault_is_told_as_such() {
    let place = Place::new();
    let drive = ["drive", "kv", "--on", "null", "--think", "5ms", "--for", "2s", "--quiet", "--allow-fault", "--fault"];
    let given = |fault: &str| place.run(&[&drive[..], &[fault]].concat());
    for fault in ["run \"true;\ntrue\" at 100ms", "kill all\nat 1s", "kill all at 1s\r\nkill all at 2s"] {
        given(fault).expect(2).says("--fault … a line end in a fault: write it in one line");
    }
    given("\nrun \"true\" at 100ms\n").expect(0);
}

#[test]
fn check_prints_commands_and_needs_the_permission_too() {
    let place = Place::new();
    let plan = |more: &str| {
        place.plan(&format!(
            "stores = [\"null\"]\n{more}[workload]\nname = \"nothing\"\n[[phase]]\ndo = \"drive\"\nfor = \"5s\"\n\
             fault = 'run \"ssh db1 true\" heal \"ssh db1 false\" at 40%'\n"
        ))
    };
    place.run(&["check", &plan("")]).expect(2).says("allow it with --allow-fault (in a plan: allow_fault = true)");
    let words = "run \"ssh db1 true\" heal \"ssh db1 false\" at 40%";
    place.run(&["check", &plan("allow_fault = true\n")]).expect(0).says(words);
    place.run(&["check", &plan(""), "--allow-fault"]).expect(0).says(words);
}
