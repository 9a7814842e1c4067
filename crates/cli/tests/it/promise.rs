//! Writes kept through a power cut, and parallel cells of promises: independent, over when decided, resumed after a kill, and nothing
//! left behind.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::time::Duration;

use plimsoll_record::data::Run;
use plimsoll_testkit::draw::{Draw, repeats};
use serde_json::Value;

use crate::bench::{Guarded, Place, Ran, left_below, result, wait_for};

/// Returns the promises of a run.
fn promises(ran: &Ran) -> Vec<Value> {
    ran.last_json()["report"]["promises"].as_array().cloned().unwrap_or_default()
}

/// Runs `promise` with `args`, and returns its promises, whose states are to be `states`.
#[track_caller]
fn expect(args: &str, states: &[&str]) -> Vec<Value> {
    let ran = Place::new().line(&format!("promise --json --quiet {args}"));
    let found = promises(&ran);
    let are: Vec<&str> = found.iter().map(|one| one["state"].as_str().unwrap()).collect();
    assert_eq!(are, states, "{args}: {found:?}");
    ran.expect(i32::from(states.iter().any(|state| *state != "kept")));
    found
}

#[test]
fn what_is_lost_is_counted_and_dated_on_a_device_and_in_files() {
    for disk in ["ext4", "files"] {
        let args = format!("sqlite --disk {disk} --survivors none --durability");
        let kept = &expect(&format!("{args} durable --cuts 2 --for 90s"), &["kept"])[0];
        // Nothing is flushed, so that the power is cut at the end.
        let lost = &expect(&format!("{args} at-end --cuts 1 --for 1s"), &["lost"])[0];
        assert!(kept["at_risk_writes"].as_f64().unwrap() >= 1.0 && kept["cuts"] == 2, "{kept}");
        let (gone, acknowledged) = (lost["lost"].as_u64().unwrap(), lost["acknowledged"].as_u64().unwrap());
        assert!(gone > 0 && gone <= acknowledged, "{lost}");
        assert!(lost["lost_window_s"].as_f64().unwrap() > 0.0, "{lost}");
    }
}

#[test]
fn all_nodes_of_a_cluster_lose_power_at_one_moment_or_its_primary_does() {
    // The write that the cut comes with is at risk.
    let how = "--durability durable --for 90s --survivors none --cut write\u{a0}200";
    let drawn = Draw::new("nodes that lose power").below(2) as usize;
    let nodes: Vec<&str> = ["all", "primary"].into_iter().cycle().skip(drawn).take(repeats(1, 2)).collect();
    let two = format!("--set postgres-replicas.nodes=2 --nodes {}", nodes.join(","));
    expect(&format!("postgres-replicas {two} {how}"), &vec!["kept"; nodes.len()]);
}

#[test]
fn one_node_of_a_cluster_loses_power_and_has_everything_when_it_is_back() {
    let place = Place::new();
    let how = "--survivors none --cut write\u{a0}200 --for 90s --json --quiet";
    let ran = place.line(&format!("promise etcd --set etcd.nodes=3 --nodes 2 {how}")).expect(0);
    let found = promises(&ran);
    assert_eq!((found.len(), &found[0]["state"]), (1, &"kept".into()), "{found:?}");
    assert!(found[0]["at_risk_writes"].as_f64().unwrap() >= 1.0, "{found:?}");
    ran.says("The copies of nodes 1, 2 and 3 have everything.");
}

#[test]
fn what_cannot_lose_power_is_refused() {
    let place = Place::new();
    place.refuses(&[
        ("promise", "no store is named\n  → name stores, or give --all"),
        ("promise postgres://db/x", "cannot cut the power of a server that Plimsoll did not start"),
        ("promise null", "cannot test what null keeps through a power cut: it keeps nothing"),
        ("promise sqlit", "unknown store `sqlit`"),
        ("promise sqlite --disk zfs", "plain, ext4, xfs, btrfs"),
        ("promise sqlite --disk-size 1MiB", "too few for ext4"),
        ("promise sqlite --cut sync\u{a0}4", "`sync 4` is not a valid power_cut"),
        ("promise sqlite --survivors some", "there are: none, all, random, torn"),
        // Nodes that there are not, or none that the word is of.
        ("promise sqlite --nodes 2", "power_node = 2: sqlite has no nodes"),
        ("promise postgres --nodes primary", "power_node = primary: postgres has no nodes"),
        ("promise postgres-replicas --nodes 4", "postgres-replicas has no node 4"),
        ("promise etcd-haproxy --nodes 4", "node 4 of etcd-haproxy keeps no data"),
        ("promise postgres-replicas --nodes some", "`some` is not a valid power_node"),
        ("promise postgres-replicas --nodes 0", "`0` is not a valid power_node"),
    ]);
    let plan = |disk: &str| {
        place.plan(&format!(
            "stores = [{{ store = \"sqlite\", {disk} }}]\n[workload]\nname = \"kv\"\nrecords = 10\n[[phase]]\ndo = \"load\"\n\
             [[phase]]\ndo = \"drive\"\nfor = \"1s\"\npower_cut = \"flush 3\"\n[[phase]]\ndo = \"power\"\n\
             [[phase]]\ndo = \"check\"\n"
        ))
    };
    // Without anything that was recorded, and `check` says so too.
    assert!(place.all_runs().is_empty());
    place.run(&["check", &plan("disk = \"ext4\", disk_size = \"1MiB\"")]).expect(2).says("too few for ext4");
    let right = plan("disk = \"ext4\"");
    place.run(&["check", &right]).expect(0);
    place.shell("unshare --user", &format!("exec $plimsoll check {right}")).expect(8).says("only root can make");
}

#[test]
fn what_a_plan_wanted_and_no_phase_reached_is_undecided_and_named() {
    let place = Place::new();
    let plan = place.plan(
        "stores = [{ store = \"sqlite\", disk = \"ext4\" }]\n[workload]\nname = \"kv\"\nrecords = 10\n\
         [[phase]]\ndo = \"load\"\n[[phase]]\ndo = \"drive\"\nops = 3\nmix = { update = 1 }\n\
         fault = [\"disk full at 1min\", \"disk eio write once at 2min\"]\n\
         [[phase]]\nname = \"until_cut\"\ndo = \"drive\"\nops = 3\nmix = { update = 1 }\npower_cut = \"flush 9999\"\n\
         [[phase]]\ndo = \"power\"\n[[phase]]\ndo = \"check\"\n",
    );
    let verdict = place.run(&["run", &plan, "--json", "--quiet"]).expect(11).last_json()["report"]["verdict"].clone();
    let first = "In phase drive of sqlite: disk full at 60.0 s was not done: the phase had ended;";
    assert!(verdict["sentence"].as_str().unwrap().starts_with(first), "{verdict}");
    let all = verdict["reasons"].to_string();
    assert!(all.contains("disk eio write once at 120 s was not done"), "{all}");
    assert!(all.contains("In phase until_cut of sqlite: flush 9999 had not come when the phase ended"), "{all}");
}

#[test]
fn a_commit_takes_at_least_as_long_as_the_disk_takes_for_a_flush() {
    let place = Place::new();
    let plan = place.plan(
        "stores = [{ store = \"sqlite\", disk = \"ext4\", disk_flush_time = \"60ms\", disk_flushes = [\"honoured\", \"ignored\"] }]\n\
         [workload]\nname = \"kv\"\nrecords = 20\n[[phase]]\ndo = \"load\"\ndurability = \"at-end\"\n\
         [[phase]]\ndo = \"drive\"\nops = 10\nmix = { update = 1 }\n\
         [[phase]]\nname = \"until_cut\"\ndo = \"drive\"\nfor = \"60s\"\nmix = { update = 1 }\npower_cut = \"write 12\"\n\
         [[phase]]\ndo = \"power\"\n[[phase]]\ndo = \"check\"\n",
    );
    let ran = place.run(&["run", &plan, "--json", "--quiet"]).expect(1);
    let report = ran.last_json();
    let drive = |trial: usize| &report["report"]["trials"][trial]["phases"][1];
    let honoured = drive(0)["seconds"].as_f64().unwrap();
    assert!(honoured >= 0.6, "10 commits in {honoured} s");
    let settings = report["report"]["trials"][0]["settings"].to_string();
    assert!(settings.contains("disk_flush_time") && settings.contains("60ms"), "{settings}");
    // The disk itself counts what comes to it: 10 small commits are pages of the log, and no folios of the page cache.
    let bytes = result(drive(0), "device_bytes");
    assert!(report["report"]["trials"][0]["device_bytes_per_record"].as_f64().unwrap() >= 10.0);
    assert!((10.0 * 4096.0..1e6).contains(&bytes), "{bytes} bytes");
    // Other disks have no figure: it would not be of the store alone.
    let other = place
        .line("drive kv --mix update=1 --set records=20 --on sqlite --ops 50 --json --quiet")
        .expect(0)
        .last_json();
    let trial = &other["report"]["trials"][0];
    assert!(trial["device_bytes_per_record"].is_null() && !trial.to_string().contains("device_bytes\""), "{trial}");
    // What was acknowledged before the drive that ends by the cut is lost, too, where flushes are ignored.
    let lost: Vec<u64> = promises(&ran).iter().map(|one| one["lost"].as_u64().unwrap()).collect();
    assert!(lost[0] == 0 && lost[1] >= 10, "{lost:?}");
}

/// Returns the number of data pages at risk at each cut of a run, in the order of its trials.
fn pages(ran: &Ran) -> Vec<f64> {
    let report = ran.last_json();
    let trials = report["report"]["trials"].as_array().unwrap().clone();
    let power = |trial: &Value| {
        let phases = trial["phases"].as_array().unwrap().clone();
        phases.into_iter().find(|phase| phase["kind"] == "power").unwrap()
    };
    trials.iter().map(|trial| result(&power(trial), "at_risk_writes_of data pages")).collect()
}

#[test]
fn a_setting_that_protects_pages_is_not_kept_by_a_cut_without_a_page_on_its_way() {
    // A transaction with a rollback journal syncs the journal, and then the pages that it overwrites.
    let cuts: Vec<String> = (40..45).map(|flush| format!("flush {flush}")).collect();
    let place = Place::new();
    let run = |cut: &str| {
        let how =
            "promise sqlite --disk files --durability durable --survivors none --clients 1 --jobs 2 --json --quiet";
        let given = ["--for", "90s", "--set", "records=200", "--set", "sqlite.journal_mode=delete", "--cut", cut];
        place.run(&[&how.split(' ').collect::<Vec<_>>()[..], &given].concat())
    };
    let all = run(&cuts.join(",")).expect(0);
    let one = &promises(&all)[0];
    let with_pages = one["at_risk_kinds"]["data pages"].as_u64().unwrap();
    assert!(one["state"] == "kept" && (1..5).contains(&with_pages), "{one}");
    let without = pages(&all).iter().position(|pages| *pages == 0.0).unwrap();
    let ran = run(&cuts[without]).expect(11);
    let one = &promises(&ran)[0];
    assert_eq!(one["state"], "pages not tried", "{one}");
    ran.says("no data page was on its way at the power cut, so that nothing is shown about journal_mode=delete; try");
}

/// The words of a command as a shell cuts it, without the program.
fn words(command: &str) -> Vec<String> {
    let pieces = command.split('\'').enumerate().flat_map(|(at, piece)| match at % 2 {
        0 => piece.split_whitespace().map(str::to_owned).collect(),
        _ => vec![piece.to_owned()],
    });
    pieces.skip(1).collect()
}

#[test]
fn a_promise_that_is_broken_needs_no_more_cuts_and_its_command_breaks_it_again() {
    let place = Place::new();
    let args = ["promise", "sqlite", "--json", "--durability", "at-end", "--survivors", "none", "--for", "90s"];
    // Of files, writes come to the disk at once, and not when the kernel writes back its cache.
    let cut = ["--disk", "files", "--cut", "write 500", "--tries", "3", "--jobs", "1"];
    let ran = place.run(&[&args[..], &cut].concat()).expect(1);
    assert!(ran.err.contains("1 cell, at most 3 power cuts, 1 at once (--jobs)"), "{}", ran.err);
    let one = &promises(&ran)[0];
    assert_eq!((&one["state"], &one["cuts"], &one["cuts_not_needed"]), (&"lost".into(), &1.into(), &2.into()), "{one}");
    assert!(place.line("report latest --format text").out.contains("FAIL"));
    let again = words(one["repeat"].as_str().unwrap());
    let again: Vec<&str> = again.iter().map(String::as_str).collect();
    let repeated = place.run(&[&again[..], &["--json", "--quiet", "--jobs", "1"]].concat()).expect(1);
    let again = &promises(&repeated)[0];
    assert_eq!((&again["state"], &again["cuts"], &again["repeat"]), (&"lost".into(), &1.into(), &one["repeat"]));
    // How often it breaks is counted by all tries of the moment.
    assert!(one["repeat"].as_str().unwrap().ends_with(" --tries 5"), "{one}");
}

#[test]
fn a_run_that_was_killed_goes_on_with_what_it_has() {
    let place = Place::new();
    let options = ["sqlite", "--durability", "durable", "--survivors", "none,torn", "--cuts", "2", "--for", "90s"];
    let args = [&["promise", "--json", "--jobs", "1"][..], &options].concat();
    let mut child = Guarded(place.command(&args).spawn().unwrap());
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let done = |line: &String| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["type"] == "cells" && line["done"].as_u64().unwrap() >= 1
    };
    assert!(lines.any(|line| done(&line)), "it ended by itself");
    // It was said that something is done before it was recorded.
    let is_recorded = |run: Run| run.trials.iter().any(|trial| trial.end_ns.is_some());
    wait_for("the record", Duration::from_secs(200), || Run::load(&place.only_run()).is_ok_and(is_recorded));
    child.kill();
    // A run with other options is not resumed; the message names the run's own command.
    let other = [&["promise", "--resume", "last", "--seed", "9"][..], &options].concat();
    place.run(&other).expect(2).says("has another plan than these options make\n  → its command was: ");
    place
        .run(&["promise", "--resume", "last", "--disk", "xfs"])
        .expect(2)
        .says("has its own options\n  → name its stores");
    let ran = place.run(&["promise", "--json", "--resume", "last"]).expect(0);
    assert!(ran.err.contains("resuming run ") && ran.err.contains("of 4 cuts are recorded"), "{}", ran.err);
    let first = ran.out.lines().find(|line| line.contains("\"cells\"")).unwrap();
    let first: Value = serde_json::from_str(first).unwrap();
    assert!(first["done"].as_u64().unwrap() >= 1, "{first}");
    let found = promises(&ran);
    assert!(found.len() == 2 && found.iter().all(|one| one["state"] == "kept" && one["cuts"] == 2), "{found:?}");
    assert_eq!(ran.last_json()["report"]["trials"].as_array().unwrap().len(), 4);
    let one = place.only_run();
    assert!(!one.join("data").exists());
    place.run(&["promise", "--resume", "last"]).expect(2).says("is complete\n  → leave --resume out");
    place.run(&["promise", "--resume", "20200101"]).expect(10);
    // A recording elsewhere names a directory that is not its own.
    let copy = place.path().join("copy");
    fs::create_dir(&copy).unwrap();
    fs::copy(one.join("run.sqlite"), copy.join("run.sqlite")).unwrap();
    place.run(&["promise", "--resume", copy.to_str().unwrap()]).expect(2).says("in a directory with its id");
}

/// Returns the directories of the disks of runs in `place`.
fn disks(place: &Place) -> Vec<PathBuf> {
    let data = place.all_runs().into_iter().map(|run| run.join("data"));
    let stores = data.flat_map(|data| fs::read_dir(data).into_iter().flatten().flatten());
    stores.filter_map(|store| store.path().join("disk").canonicalize().ok()).collect()
}

/// Returns the ids of the processes that work on `disks`.
fn workers(disks: &[PathBuf]) -> BTreeSet<String> {
    let works = |process: &fs::DirEntry| {
        let cwd = fs::read_link(process.path().join("cwd"));
        cwd.is_ok_and(|cwd| disks.iter().any(|disk| cwd.starts_with(disk)))
    };
    let processes = fs::read_dir("/proc").unwrap().flatten().filter(works);
    processes.map(|process| process.file_name().into_string().unwrap()).collect()
}

/// Returns the System V segments of this machine: the id and the process that made it.
fn segments() -> BTreeSet<(String, String)> {
    let table = fs::read_to_string("/proc/sysvipc/shm").unwrap();
    let rows = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.map(|row| (row[1].to_owned(), row[4].to_owned())).collect()
}

#[test]
fn nothing_is_left_of_several_cells_when_the_program_is_killed_at_any_moment() {
    let (place, mut draw) = (Place::new(), Draw::new("promise"));
    let segments_before = segments();
    let (mut met, kills) = (0, repeats(5, 200));
    for kill in 0..kills {
        let args = ["promise", "postgres,sqlite", "--quiet", "--cuts", "3", "--durability", "durable", "--jobs", "3"];
        let mut child = Guarded(place.command(&args).spawn().unwrap());
        let mounted = || disks(&place).iter().filter(|disk| !left_below(disk).is_empty()).count();
        // While they are made for some, and then from when there are several.
        if kill % 3 != 2 {
            wait_for("disks", Duration::from_secs(200), || mounted() > 1);
        }
        std::thread::sleep(Duration::from_millis(draw.below(2_500)));
        met += usize::from(mounted() > 1);
        let disks = disks(&place);
        let workers = workers(&disks);
        child.kill();
        for disk in disks.iter().map(PathBuf::as_path).chain([place.path()]) {
            let mut still = Vec::new();
            wait_for(&format!("the end of {}", disk.display()), Duration::from_secs(100), || {
                still = left_below(disk);
                still.is_empty()
            });
        }
        let is_left = |(id, maker): &(String, String)| {
            workers.contains(maker) && !segments_before.contains(&(id.clone(), maker.clone()))
        };
        wait_for("the end of shared memory", Duration::from_secs(100), || !segments().iter().any(is_left));
    }
    assert!(met > kills / 3, "only {met} of {kills} kills met several disks");
    // Files go with the next start.
    place.line("promise sqlite --quiet --cuts 1 --durability durable --survivors none").expect(0);
    for run in place.all_runs() {
        assert!(!run.join("data").exists(), "{}", run.display());
    }
}

mod heavy {
    use super::*;

    #[test]
    fn a_server_without_full_page_writes_is_tried_only_while_pages_leave_its_memory() {
        let how = "postgres --disk files --for 90s";
        let idle = "full_page_writes=off\u{a0}shared_buffers=128MB\u{a0}bgwriter_lru_maxpages=0";
        let ran = Place::new().line(&format!(
            "promise {how} --json --quiet --survivors torn --cut flush\u{a0}10 --set records=100 --set postgres.settings={idle}"
        ));
        let one = &promises(&ran.expect(11))[0];
        assert_eq!(
            (&one["state"], &one["at_risk_kinds"]["data pages"]),
            (&"pages not tried".into(), &0.into()),
            "{one}"
        );
        assert!(one["at_risk_kinds"]["log"].as_u64() == Some(1) && one["lost"] == 0, "{one}");
        // Old pages are whole without survivors, and the log has what they lack.
        let tried = "--survivors none --cut flush\u{a0}60 --set postgres.settings=full_page_writes=off";
        let one = &expect(&format!("{how} {tried}"), &["kept"])[0];
        assert_eq!(one["at_risk_kinds"]["data pages"], 1, "{one}");
        assert!(one["repeat"].as_str().unwrap().contains("shared_buffers=1MiB"), "{one}");
    }
}
