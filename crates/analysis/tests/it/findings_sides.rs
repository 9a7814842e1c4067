//! Commands of findings that compare the run with a side without the cause, in turn.

use plimsoll_analysis::view::FindingView;
use plimsoll_core::sampler::STORE;
use plimsoll_record::data::Run;

use crate::driven::sampled;
use crate::faulted;
use crate::findings::{SECONDS, SLOW, only, stalled, values};

/// Returns a run of this command with 64 clients on two processors, and a series that is high in slow moments.
fn run(line: &str, [source, subject, name, unit]: [&str; 4]) -> Run {
    let mut run = stalled(SECONDS, &SLOW);
    run.header.command_line = line.split_whitespace().map(str::to_owned).collect();
    let header = &mut run.trials[0].phases[0].header;
    (header.clients, header.workers) = (64, 1);
    for cpu in ["cpu0", "cpu1"] {
        sampled(&mut run, "cpu", cpu, "user", "%", &[5.0; SECONDS]);
    }
    sampled(&mut run, source, subject, name, unit, &values(SECONDS, 10.0, 90.0, &SLOW));
    run
}

const DRIVE: &str = "plimsoll drive tpcb --on postgres --clients 64 --for 2min --seed 7";
const DISK: [&str; 4] = ["disk", "vda", "busy", "%"];
const DELAY: [&str; 4] = ["generator", "", "run_queue_delay", "%"];

/// Checks that the command compares the drive, with further words, with a side B of these options. Every 29 s a slow
/// moment, in the median.
#[track_caller]
fn compares(finding: &FindingView, further: &str, sides: &str) {
    let drive = format!("plimsoll ab tpcb --on postgres --clients 64{further}");
    assert_eq!(finding.command, format!("{drive} {sides} --metric p99 --turn 58s --budget 1856s"));
    assert!(finding.next.contains(" The command compares both in turn, side B with `"), "{}", finding.next);
}

#[test]
fn a_limit_that_the_command_sets_is_lifted_on_side_b() {
    let throttled = ["cgroup", "", "throttled", "%"];
    let further = " --set postgres.cpus=0.5 --set=postgres.write_bps=64KiB";
    let finding = only(&run(&format!("{DRIVE}{further}"), throttled), "cause");
    compares(&finding, further, "--b postgres.cpus=2");
    assert!(finding.next.ends_with("side B with `postgres.cpus=2`."), "{}", finding.next);
    let finding = only(&run(&format!("{DRIVE}{further}"), DISK), "cause");
    compares(&finding, further, "--b postgres.write_bps=0B");
    let further = " --set postgres.read_iops=50 --set postgres.write_iops=50 --set postgres.memory=0B";
    let finding = only(&run(&format!("{DRIVE}{further}"), DISK), "cause");
    compares(&finding, further, "--b postgres.read_iops=0 --b postgres.write_iops=0");
}

#[test]
fn writes_wait_for_no_device_on_side_b_if_the_store_may_buffer_them() {
    let mut run = run(DRIVE, DISK);
    let repeated = "plimsoll drive tpcb --on postgres --clients 64 --for 2min --seed 2";
    assert_eq!(only(&run, "cause").command, repeated);
    run.trials[0].header.may_buffer = true;
    compares(&only(&run, "cause"), "", "--b durability=buffered");
    // What writes nothing, or is buffered already, does not change.
    run.trials[0].phases[0].header.durability = None;
    assert_eq!(only(&run, "cause").command, repeated);
}

#[test]
fn locks_and_the_servers_own_use_have_half_of_the_clients_on_side_b() {
    for series in [[STORE, "fjall", "waiting_for_locks", ""], ["server", "", "user", "%"]] {
        compares(&only(&run(DRIVE, series), "cause"), "", "--b clients=32");
    }
    // Faults are explained by themselves, and may be due after the end of a turn, which has a warm-up of its own.
    for options in ["--fault-pause 5s", "--warmup auto"] {
        let finding = only(&run(&format!("{DRIVE} {options}"), [STORE, "fjall", "waiting_for_locks", ""]), "cause");
        compares(&finding, "", "--b clients=32");
    }
}

#[test]
fn a_generator_has_more_workers_on_side_b_or_less_load() {
    let mut run = run(DRIVE, DELAY);
    compares(&only(&run, "cause"), "", "--b workers=2");
    run.trials[0].phases[0].header.workers = 2;
    compares(&only(&run, "cause"), "", "--b clients=32");
}

#[test]
fn a_cause_that_no_option_takes_away_is_tested_with_another_seed() {
    for series in [["tcp", "", "retransmits", "1/s"], ["cpu", "", "user", "%"], ["memory", "", "used", "B"]] {
        let finding = only(&run(DRIVE, series), "cause");
        assert_eq!(finding.command, "plimsoll drive tpcb --on postgres --clients 64 --for 2min --seed 2");
        assert!(!finding.next.contains("The command compares"), "{}", finding.next);
    }
}

#[test]
fn a_fault_is_on_side_a_only_unless_turns_cannot_have_it() {
    let mut killed = faulted::killed_primary();
    // Its time as planned. A comparison refuses it unless it is a share of the turn.
    killed.trials[0].faults[0].planned_ns = faulted::at_ns(40_000);
    let mut command = |words: &[&str]| {
        let line = ["plimsoll", "drive", "kv", "--clients", "8"].iter().chain(words);
        killed.header.command_line = line.map(|word| (*word).to_owned()).collect();
        only(&killed, "fault")
    };
    let finding = command(&["--fault=kill primary at 40%", "--for", "20s"]);
    let compared = "plimsoll ab kv --clients 8 --a 'fault=kill primary at 40%' --metric rate --turn 20s --budget 640s";
    assert_eq!(finding.command, compared);
    assert!(finding.next.ends_with(" The command compares both in turn, side A with the fault."), "{}", finding.next);
    let repeated = "plimsoll drive kv --clients 8 --seed 2";
    for fault in ["kill primary at 40s", "kill primary drawn for 5s"] {
        assert_eq!(command(&["--fault", fault]).command, repeated);
    }
    for others in [["--fault", "pause node 2 at 90% for 1s"], ["--fault-pause", "5s"]] {
        let finding = command(&[&["--fault", "kill primary at 40%"][..], &others[..]].concat());
        assert_eq!(finding.command, repeated);
    }
}
