//! Writes kept through a power cut: known settings, and a program that is killed meanwhile.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plimsoll_testkit::draw::{Draw, repeats};
use serde_json::Value;

use crate::bench::{Guarded, Place, wait_for};

/// The promises of a run, which ends with a line of JSON, by the names of the stores with their settings.
fn promises(out: &str) -> Vec<(String, Value)> {
    let report: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    let all = report["report"]["promises"].as_array().cloned().unwrap_or_default();
    all.into_iter().map(|one| (one["name"].as_str().unwrap().to_owned(), one)).collect()
}

/// Runs `promise` with `args` (of what flushes, with time enough that a slow disk gets to the cut), and holds against `wanted` what became of each promise: a part of its name, and its state.
#[track_caller]
fn expect(args: &[&str], code: i32, wanted: &[(&str, &str)]) -> Vec<Value> {
    let place = Place::new();
    let args: Vec<&str> = ["promise", "--json", "--quiet"].into_iter().chain(args.iter().copied()).collect();
    let ran = place.run(&args).expect(code);
    let found = promises(&ran.out);
    let of = |(part, state): &(&str, &str)| {
        let one = found.iter().find(|(name, _)| name.contains(part));
        let (_, one) = one.unwrap_or_else(|| panic!("no promise of {part} in {found:?}"));
        assert_eq!(one["state"], *state, "{part}: {one}");
        one.clone()
    };
    wanted.iter().map(of).collect()
}

#[test]
fn sqlite_keeps_what_it_syncs_and_loses_what_it_does_not() {
    let args = ["sqlite", "--durability", "durable,at-end", "--survivors", "none,torn", "--cuts", "2"];
    let wanted = [
        ("durability=durable, survivors=none", "kept"),
        ("durability=durable, survivors=torn", "kept"),
        ("durability=at-end, survivors=none", "lost"),
    ];
    let found = expect(&args, 1, &wanted);
    assert!(found[0]["at_risk_writes"].as_f64().unwrap() >= 1.0 && found[0]["cuts"] == 2, "{}", found[0]);
    let (lost, acknowledged) = (found[2]["lost"].as_u64().unwrap(), found[2]["acknowledged"].as_u64().unwrap());
    assert!(lost > 0 && lost < acknowledged, "{}", found[2]);
    assert!(found[2]["lost_window_s"].as_f64().unwrap() > 0.0, "{}", found[2]);
}

#[test]
fn sqlite_keeps_in_files_that_lose_power_what_it_syncs_and_loses_what_it_does_not() {
    let args = ["sqlite", "--disk", "files", "--durability", "durable,at-end", "--survivors", "none", "--cuts", "1"];
    let found = expect(&args, 1, &[("durability=durable", "kept"), ("durability=at-end", "lost")]);
    assert!(found[0]["at_risk_writes"].as_f64().unwrap() >= 1.0, "{}", found[0]);
}

#[test]
fn sqlite_keeps_what_it_commits_by_each_of_its_journals_if_it_syncs_them() {
    let args = [
        "sqlite",
        "--durability",
        "durable",
        "--survivors",
        "none",
        "--cuts",
        "2",
        "--for",
        "15s",
        "--clients",
        "2",
        "--set",
        "sqlite.journal_mode=delete,truncate,persist",
    ];
    expect(
        &args,
        0,
        &[("journal_mode=delete", "kept"), ("journal_mode=truncate", "kept"), ("journal_mode=persist", "kept")],
    );
}

#[test]
fn postgresql_keeps_what_it_syncs_and_not_what_it_does_not() {
    let args = ["postgres", "--durability", "durable", "--for", "15s", "--survivors", "torn", "--cuts", "2"];
    expect(&args, 0, &[("postgres", "kept")]);
    // Without fsync it loses, is damaged, or does not start: which of them is chance.
    let place = Place::new();
    for setting in [["--durability", "at-end"], ["--set", "postgres.settings=fsync=off"]] {
        let args = ["promise", "postgres", "--quiet", "--survivors", "none", "--cuts", "3"];
        place.run(&[&args[..], &setting[..]].concat()).expect(1).says("FAIL");
    }
}

#[test]
fn stores_of_all_sorts_keep_what_they_sync() {
    let args = ["redis,fjall,etcd", "--durability", "durable", "--for", "15s", "--survivors", "torn", "--cuts", "1"];
    expect(&args, 0, &[("redis", "kept"), ("fjall", "kept"), ("etcd", "kept")]);
    let args =
        ["mariadb", "--durability", "durable", "--for", "15s", "--survivors", "random", "--cuts", "1", "--disk", "xfs"];
    expect(&args, 0, &[("mariadb", "kept")]);
}

#[test]
fn no_store_keeps_anything_on_a_disk_that_ignores_flushes() {
    let args = [
        "fjall",
        "--durability",
        "durable",
        "--for",
        "15s",
        "--survivors",
        "none",
        "--cuts",
        "1",
        "--lying",
        "--disk",
        "btrfs",
    ];
    expect(&args, 1, &[("disk_flushes=honoured", "kept"), ("disk_flushes=ignored", "lost")]);
}

#[test]
fn all_nodes_of_a_cluster_lose_power_at_one_moment_or_its_primary_does() {
    let nodes = ["postgres-replicas", "--nodes", "all,primary"];
    // The write that the cut comes with is at risk.
    let how = ["--durability", "durable", "--for", "15s", "--survivors", "none", "--cut", "write 200"];
    expect(&[&nodes[..], &how[..]].concat(), 0, &[("power_node=all", "kept"), ("power_node=primary", "kept")]);
}

#[test]
fn one_node_of_a_cluster_loses_power_and_has_everything_when_it_is_back() {
    let place = Place::new();
    let how = ["--survivors", "none", "--cut", "write 200", "--for", "15s", "--json", "--quiet"];
    let ran = place.run(&[&["promise", "etcd", "--set", "etcd.nodes=3", "--nodes", "2"][..], &how[..]].concat());
    let ran = ran.expect(0);
    let found = promises(&ran.out);
    assert_eq!((found.len(), found[0].1["state"].as_str()), (1, Some("kept")), "{found:?}");
    assert!(found[0].1["at_risk_writes"].as_f64().unwrap() >= 1.0, "{found:?}");
    ran.says("The copies of nodes 1, 2 and 3 have everything.");
}

#[test]
fn what_cannot_lose_power_is_refused() {
    let place = Place::new();
    place.run(&["promise"]).expect(2).says("no store is named\n  → name stores, or give --all");
    place
        .run(&["promise", "postgres://db/x"])
        .expect(2)
        .says("cannot cut the power of a server that Plimsoll did not start");
    place.run(&["promise", "null"]).expect(2);
    place.run(&["promise", "sqlite", "--disk", "zfs"]).expect(2).says("plain, ext4, xfs, btrfs");
    place.run(&["promise", "sqlite", "--disk", "plain"]).expect(2).says("the disk of sqlite cannot lose power");
    place.run(&["promise", "sqlite", "--disk-size", "1MiB"]).expect(2).says("too few for ext4");
    let slow = ["promise", "sqlite", "--set", "sqlite.disk_flush_time=1h"];
    place.run(&slow).expect(2).says("disk_flush_time of sqlite: more than 60 s");
    place.run(&["promise", "sqlite", "--cut", "sync 4"]).expect(2).says("`sync 4` is not a valid power_cut");
    place.run(&["promise", "sqlite", "--survivors", "some"]).expect(2).says("there are: none, all, random, torn");
    // Nodes that there are not, or none that the word is of.
    for (args, says) in [
        (["sqlite", "--nodes", "2"], "power_node = 2: sqlite has no nodes"),
        (["postgres", "--nodes", "primary"], "power_node = primary: postgres has no nodes"),
        (["postgres-replicas", "--nodes", "4"], "postgres-replicas has no node 4"),
        (["etcd-haproxy", "--nodes", "4"], "node 4 of etcd-haproxy keeps no data"),
        (["postgres-replicas", "--nodes", "some"], "`some` is not a valid power_node"),
        (["postgres-replicas", "--nodes", "0"], "`0` is not a valid power_node"),
    ] {
        place.run(&[&["promise"][..], &args[..]].concat()).expect(2).says(says);
    }
    let masters = ["promise", "redis", "--set", "redis.nodes=3", "--nodes", "primary"];
    place.run(&masters).expect(2).says("redis has no primary: more than one node takes writes");
    // Plans in which a store would be looked at without power, or flushes be ignored of which nothing is said.
    let plan = |disk: &str, phases: &str| {
        let head = format!(
            "stores = [{{ store = \"sqlite\", {disk} }}]\n[workload]\nname = \"kv\"\nrecords = 10\n[[phase]]\ndo = \"load\"\n"
        );
        place.plan(&(head + phases))
    };
    let cut = "[[phase]]\ndo = \"drive\"\nfor = \"1s\"\npower_cut = \"flush 3\"\n";
    let check = "[[phase]]\ndo = \"check\"\n";
    let unpowered = plan("disk = \"ext4\"", &format!("{cut}{check}"));
    place.run(&["run", &unpowered]).expect(2).says("put a phase with do = \"power\" directly after it");
    let power = "[[phase]]\ndo = \"power\"\n";
    let unsaid = plan("disk = \"ext4\", disk_flushes = \"ignored\"", &format!("{power}{check}"));
    place.run(&["run", &unsaid]).expect(2).says("flushes are ignored from the first drive on");
    let nowhere = plan("cache_size = \"1MiB\"", &format!("{cut}{power}{check}"));
    place.run(&["run", &nowhere]).expect(2).says("the disk of sqlite cannot lose power");
    assert_eq!(place.all_runs().iter().filter(|run| run.join("data").exists()).count(), 0);
}

#[test]
fn a_commit_takes_at_least_as_long_as_the_disk_takes_for_a_flush() {
    let place = Place::new();
    let plan = place.plan(
        "stores = [{ store = \"sqlite\", disk = \"ext4\", disk_flush_time = \"60ms\", disk_flushes = [\"honoured\", \"ignored\"] }]\n\
         [workload]\nname = \"kv\"\nrecords = 20\n[[phase]]\ndo = \"load\"\ndurability = \"at-end\"\n\
         [[phase]]\ndo = \"drive\"\nops = 10\nmix = { update = 1 }\n\
         [[phase]]\nname = \"until_cut\"\ndo = \"drive\"\nfor = \"5s\"\nmix = { update = 1 }\npower_cut = \"write 12\"\n\
         [[phase]]\ndo = \"power\"\n[[phase]]\ndo = \"check\"\n",
    );
    let ran = place.run(&["run", &plan, "--json", "--quiet"]).expect(1);
    let report: Value = serde_json::from_str(ran.out.lines().last().unwrap()).unwrap();
    let drive = |trial: usize| &report["report"]["trials"][trial]["phases"][1];
    let honoured = drive(0)["seconds"].as_f64().unwrap();
    assert!(honoured >= 0.6, "10 commits in {honoured} s");
    let settings = report["report"]["trials"][0]["settings"].to_string();
    assert!(settings.contains("disk_flush_time") && settings.contains("60ms"), "{settings}");
    // The disk itself counts what comes to it: 10 small commits are pages of the log, and no folios of the page cache.
    let results = drive(0)["results"].as_array().unwrap();
    let bytes = results.iter().find(|one| one["name"] == "device_bytes").unwrap()["value"].as_f64().unwrap();
    assert!((10.0 * 4096.0..1e6).contains(&bytes), "{bytes} bytes");
    // What was acknowledged before the drive that ends by the cut is lost, too, where flushes are ignored.
    let lost: Vec<u64> = promises(&ran.out).iter().map(|(_, one)| one["lost"].as_u64().unwrap()).collect();
    assert!(lost[0] == 0 && lost[1] >= 10, "{lost:?}");
}

/// Returns the directories of the disks of the live run in `place`.
fn disks(place: &Place) -> Vec<PathBuf> {
    let data = place.all_runs().into_iter().map(|run| run.join("data"));
    let stores = data.flat_map(|data| fs::read_dir(data).into_iter().flatten().flatten());
    stores.filter_map(|store| store.path().join("disk").canonicalize().ok()).collect()
}

fn is_mounted(below: &Path) -> bool {
    fs::read_to_string("/proc/self/mountinfo").unwrap().contains(below.to_str().unwrap())
}

#[test]
fn nothing_is_left_mounted_or_running_when_the_program_is_killed_at_any_moment() {
    let place = Place::new();
    let (mut met, mut draw) = (0, Draw::new("promise"));
    let kills = repeats(6, 200) as u64;
    for kill in 0..kills {
        let store = if kill % 3 == 0 { "postgres" } else { "sqlite" };
        let args = ["promise", store, "--quiet", "--cuts", "3", "--durability", "durable"];
        let mut child = Guarded(place.command(&args).spawn().unwrap());
        // While it is made for a third of them, and then from when it is there.
        if kill % 3 != 2 {
            wait_for("a disk", Duration::from_secs(60), || disks(&place).iter().any(|disk| is_mounted(disk)));
        }
        std::thread::sleep(Duration::from_millis(draw.below(4_000)));
        let disks = disks(&place);
        met += usize::from(disks.iter().any(|disk| is_mounted(disk)));
        child.0.kill().unwrap();
        child.0.wait().unwrap();
        for disk in &disks {
            wait_for("the disk's end", Duration::from_secs(20), || !is_mounted(disk));
        }
    }
    assert!(met > kills as usize / 4, "only {met} of {kills} kills met a disk");
    // Files go with the next start.
    place
        .run(&["promise", "sqlite", "--quiet", "--cuts", "1", "--durability", "durable", "--survivors", "none"])
        .expect(0);
    for run in place.all_runs() {
        assert!(!run.join("data").exists(), "{}", run.display());
    }
}
