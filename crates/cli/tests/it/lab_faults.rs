//! Faults and planned work of drives on labs: healed to the state before, and stopped with their run.

use std::time::Duration;

use plimsoll_record::data::{FaultSpan, Run};
use plimsoll_testkit::draw::{Draw, repeats};
use rustix::process::Signal;

use crate::bench::{Guarded, Place, wait_for};
use crate::cuts::slows_half_of_the_clients;
use crate::faults::are_healed;
use crate::lab::Lab;
use crate::lab_version;

/// Longest time until a fault is recorded, or healed.
const SEEN: Duration = Duration::from_secs(200);

/// Returns a workload with writes for the store of `lab`.
fn workload(lab: &Lab<'_>) -> &'static [&'static str] {
    if lab.name.starts_with("mariadb") { &["coupons", "--mix", "read=1,update=1"] } else { &["kv"] }
}

/// Starts a drive of some minutes on `lab`, with `faults`.
#[track_caller]
fn breaking(place: &Place, lab: &Lab<'_>, faults: &[&str]) -> Guarded {
    breaking_with(place, lab, faults, &[])
}

/// As [`breaking`], with further options.
#[track_caller]
fn breaking_with(place: &Place, lab: &Lab<'_>, faults: &[&str], options: &[&str]) -> Guarded {
    let on = format!("lab:{}", lab.name);
    let line = ["--set", "records=200", "--on", &on, "--clients", "4", "--think", "10ms", "--for", "600s", "-q"];
    let faults: Vec<&str> = faults.iter().flat_map(|fault| ["--fault", fault]).collect();
    place.started(&[&["drive"], workload(lab), &line, &faults, options].concat(), 1)
}

/// Returns the faults that the newest run has recorded so far.
pub(crate) fn spans(place: &Place) -> Vec<FaultSpan> {
    let run = place.all_runs().pop().and_then(|run| Run::load(&run).ok());
    run.iter().flat_map(Run::faults).cloned().collect()
}

/// Returns fields of each node's status, of one look.
fn each<const N: usize>(lab: &Lab<'_>, fields: [&str; N]) -> [Vec<String>; N] {
    let status = lab.status();
    let nodes = status["nodes"].as_array().unwrap();
    fields.map(|field| nodes.iter().map(|node| node[field].to_string()).collect())
}

/// Returns how often each node of a lab of PostgreSQL has written that it was shut down: not one that was killed.
fn shutdowns(lab: &Lab<'_>) -> Vec<usize> {
    let status = lab.status();
    let logs = status["nodes"].as_array().unwrap().iter().map(|node| node["log"].as_str().unwrap());
    let logs = logs.map(|log| String::from_utf8_lossy(&std::fs::read(log).unwrap()).into_owned());
    logs.map(|log| log.matches("database system is shut down").count()).collect()
}

#[test]
fn the_faults_of_a_lab_are_healed_also_after_the_run_was_killed() {
    let place = Place::new();
    let lab = Lab::up(&place, "postgres-replicas", &["--nodes", "2", "--set", "cpus=1"]);
    let line = ["drive", "kv", "--set", "records=200", "--on", "lab:postgres-replicas", "--clients", "4", "-q"];
    let faults = [
        "pause replica at 500ms for 300ms",
        "cut node 2 at 1s for 500ms",
        "kill primary at 2s for 1s",
        "promote replica at 2500ms",
    ];
    let faults: Vec<&str> = faults.iter().flat_map(|fault| ["--fault", fault]).collect();
    let run = place.recording(&[&line[..], &["--think", "10ms", "--for", "300s"], &faults].concat());
    wait_for("the faults' end", SEEN, || are_healed(&place, 4));
    run.signal(Signal::INT);
    // A replica that is promoted may lack the newest writes, which answers show.
    let ran = run.ended();
    assert!(matches!(ran.code, Some(1 | 130)), "{ran:?}");
    let report = place.report();
    let found = report["faults"].as_array().unwrap();
    assert_eq!(found.len(), 4, "{report}");
    assert!(found.iter().all(|fault| fault["error"].is_null() && fault["healed_s"].is_number()), "{found:?}");
    let seen = || each(&lab, ["state", "link", "limits"]);
    wait_for("all nodes to run", SEEN, || lab.states() == ["running"; 2]);
    // PostgreSQL's own word.
    let in_recovery = ["1", "2"]
        .map(|node| lab.exec(node, &["psql", "-Atqc", "SELECT pg_is_in_recovery()"]).expect(0).out.trim().to_owned());
    assert_eq!(in_recovery, ["t", "f"], "the replica was promoted, and the former primary follows");
    let (whole, before) = (seen(), shutdowns(&lab));
    let mut run = breaking(&place, &lab, &["stop replica at 4s", "cut node 2 at 4s", "limit all cpus=0.2 at 4s"]);
    let taken = || spans(&place).iter().filter(|span| span.taken_ns.is_some()).count() == 3;
    wait_for("the faults", SEEN, taken);
    let broken = seen();
    assert!(broken.iter().zip(&whole).all(|(now, before)| now != before), "{broken:?}");
    let now = shutdowns(&lab);
    assert_eq!(now.iter().zip(&before).filter(|(now, before)| now > before).count(), 1, "{before:?}, then {now:?}");
    run.kill();
    wait_for("the lab to be whole", SEEN, || seen() == whole);
    lab.down();
}

/// Removes the nodes of a lab that a run has added and not removed: they stay until a command removes them.
fn without_added_nodes(place: &Place, lab: &Lab<'_>) {
    for node in lab.status()["nodes"].as_array().unwrap() {
        if node["is_left"] == true {
            place.run(&["lab", "remove", lab.name, &node["number"].to_string()]);
        }
    }
}

#[test]
fn a_run_that_is_killed_at_a_drawn_moment_of_any_fault_leaves_a_whole_lab() {
    const FAULTS: [&str; 28] = [
        "kill replica",
        "stop primary",
        "pause all",
        "hang primary",
        "restart replica",
        "restart all rolling",
        "restart all rolling with PROGRAM",
        "promote replica",
        "reset primary",
        "cut node 2 in",
        "cut node 1 from node 2",
        "cut all from clients",
        "cut primary from client host 1",
        "link all delay=5ms loss=1% close=1s",
        "link all from clients delay=5ms",
        "link all from client host 1 delay=5ms",
        "link node 1 from node 2 delay=5ms",
        "limit all cpus=0.3",
        "clock all by=-5s drift=500ppm",
        "add node",
        "remove node",
        "work backup",
        "work vacuum",
        "storm all connections=50",
        "neighbour all cpu=1",
        "neighbour all disk",
        "neighbour all network=5Mbit",
        "run \"touch FILE\" heal \"rm -f FILE\"",
    ];
    let (place, mut draw) = (Place::new(), Draw::new("faults of a lab"));
    let lab = Lab::up(&place, "postgres-replicas", &["--nodes", "2", "--set", "cpus=1"]);
    let (program, file) = (lab_version::runs(&lab), place.path().join("broken"));
    let seen = || each(&lab, ["state", "link", "limits", "clock", "program"]);
    let whole = seen();
    // Each twice in a heavy run, at two moments.
    let count = repeats(2, 2 * FAULTS.len());
    for fault in draw.shuffled(FAULTS.to_vec()).into_iter().cycle().take(count) {
        let fault = fault.replace("PROGRAM", program.to_str().unwrap()).replace("FILE", file.to_str().unwrap());
        // After the first slice, so that a kill may come before it.
        let fault = format!("{fault} at 1200ms");
        // A node leaves only if one has joined.
        let is_removal = fault.starts_with("remove");
        let faults = if is_removal { vec!["add node at 100ms", &fault] } else { vec![fault.as_str()] };
        let hosts: &[&str] = if fault.contains("client host") { &["--client-hosts", "1"] } else { &[] };
        let mut run = breaking_with(&place, &lab, &faults, &[hosts, &["--allow-fault"]].concat());
        if is_removal {
            wait_for("the node to join", SEEN, || spans(&place).iter().any(|span| span.taken_ns.is_some()));
        }
        let after = Duration::from_millis(draw.below(2_000));
        println!("{fault}: killed {after:?} after the first slice");
        std::thread::sleep(after);
        run.kill();
        wait_for("the lab to be whole", SEEN, || {
            without_added_nodes(&place, &lab);
            seen() == whole && !file.exists()
        });
        let drive = ["drive", "kv", "--set", "records=50", "--on", "lab:postgres-replicas", "--ops", "20", "-q"];
        wait_for("the lab to be driven", SEEN, || place.run(&drive).code == Some(0));
    }
    lab.down();
}

#[test]
fn clients_of_a_lab_are_spread_over_client_hosts_of_which_one_has_a_slow_link() {
    let place = Place::new();
    let lab = Lab::up(&place, "redis-sentinel", &[]);
    let links = || each(&lab, ["link"]);
    let before = links();
    slows_half_of_the_clients(&place, "lab:redis-sentinel");
    assert_eq!(links(), before);
    // The hosts are there for the next run, too, and a cut that a killed run has made is healed.
    let cut = ["--client-hosts", "3", "--fault", "cut all from client host 3 at 300ms", "--for", "600s", "-q"];
    let drive = ["drive", "kv", "--set", "records=200", "--on", "lab:redis-sentinel", "--clients", "6"];
    let mut run = place.started(&[&drive[..], &cut].concat(), 1);
    wait_for("the cut", SEEN, || links() != before);
    run.kill();
    wait_for("the lab to be whole", SEEN, || links() == before);
    lab.down();
}

#[test]
fn nodes_that_a_killed_run_has_all_killed_paused_or_stopped_run_again() {
    let place = Place::new();
    let lab = Lab::up(&place, "etcd", &["--nodes", "3"]);
    for (verb, state) in [("kill", "killed"), ("pause", "paused"), ("stop", "stopped")] {
        let fault = format!("{verb} all at 500ms");
        let mut run = breaking(&place, &lab, &[fault.as_str()]);
        wait_for("the fault", SEEN, || lab.states() == [state; 3]);
        run.kill();
        wait_for("all nodes to run", SEEN, || lab.states() == ["running"; 3]);
    }
    let mut run = breaking(&place, &lab, &["kill majority at 500ms"]);
    let killed = || lab.states().iter().filter(|state| *state == "killed").count();
    wait_for("the fault", SEEN, || killed() == 2);
    run.kill();
    wait_for("all nodes to run", SEEN, || lab.states() == ["running"; 3]);
    lab.down();
}

#[test]
fn a_replica_is_not_killed_if_none_runs_at_that_moment_and_the_lab_is_whole_afterwards() {
    let place = Place::new();
    let lab = Lab::up(&place, "postgres-replicas", &["--nodes", "2"]);
    let line = ["drive", "kv", "--set", "records=200", "--on", "lab:postgres-replicas", "--clients", "4", "-q"];
    let faults = ["--fault", "kill node 2 at 1s", "--fault", "kill replica at 3s"];
    let ran = place.run(&[&line[..], &["--think", "2ms", "--for", "6s"], &faults].concat()).expect(2);
    ran.says("kill replica at 3s: no replica of PostgreSQL runs … name a node by its number: node 1");
    let seen: Vec<_> = spans(&place).iter().map(|span| (span.healed_ns.is_some(), span.error.is_some())).collect();
    assert_eq!(seen, [(true, false), (false, true)]);
    assert_eq!(lab.states(), ["running"; 2]);
    lab.down();
}

#[test]
fn links_and_limits_are_healed_to_those_of_each_node_and_a_node_that_joined_has_faults_too() {
    let place = Place::new();
    let lab = Lab::up(&place, "postgres-replicas", &["--nodes", "2", "--set", "cpus=2"]);
    lab.does("link", "2 --delay 2ms");
    lab.does("limit", "2 cpus=1");
    let joined = place.path().join("joined");
    let wait = format!("run \"until test -e {}; do sleep 0.02; done\" at 100ms", joined.display());
    let faults = [
        wait.as_str(),
        "link all delay=5ms at 0s after fault 1 for 1s",
        "limit all cpus=0.5 at 0s after fault 1 for 1s",
        "restart all rolling at 500ms after fault 3",
    ];
    let run = breaking_with(&place, &lab, &faults, &["--allow-fault"]);
    lab.does("add", "");
    let seen = || each(&lab, ["link", "limits"]);
    let (before, [processes]) = (seen(), each(&lab, ["process"]));
    std::fs::write(joined, "").unwrap();
    wait_for("the faults' end", SEEN, || are_healed(&place, 4));
    assert_eq!(seen(), before);
    let [restarted] = each(&lab, ["process"]);
    assert!(restarted.len() == 3 && restarted.iter().all(|process| !processes.contains(process)), "{restarted:?}");
    run.signal(Signal::INT);
    run.ended().expect(130);
    lab.down();
}

/// Does `work` on a lab of one server, and ends the runs that asked for it. `client` is the server's own client and its
/// options before a statement. `statements` make a table, read it until the work waits, count those readings, and count
/// the work's statements.
#[track_caller]
fn work_stops(store: &'static str, work: &str, client: &[&str], statements: [&str; 4]) {
    let [table, reading, readings, works] = statements;
    let place = Place::new();
    let lab = Lab::up(&place, store, &[]);
    let other = lab.driving("select --clients 1 --think 5ms --for 300s");
    let sql = |statement: &str| lab.exec("1", &[client, &[statement]].concat()).expect(0).out.trim().to_owned();
    sql(table);
    let reads = [&["lab", "exec", store, "1", "--"], client, &[reading]].concat();
    let _reads = Guarded(place.command(&reads).spawn().unwrap());
    wait_for("the lock", SEEN, || sql(readings) == "1");
    for signal in [Signal::INT, Signal::KILL] {
        let mut run = breaking(&place, &lab, &[&format!("work {work} at 500ms")]);
        wait_for("the work", SEEN, || sql(works) == "1");
        run.signal(signal);
        assert_eq!(run.0.wait().unwrap().code(), (signal == Signal::INT).then_some(130));
        wait_for("the work's end", SEEN, || sql(works) == "0");
    }
    // Told once the lab knows of the end, which is after the server's.
    wait_for("the ends of both works", SEEN, || acts(&place, "lab work").len() == 2);
    other.signal(Signal::INT);
    other.ended();
    assert_eq!(acts(&place, "lab work"), vec![format!("lab work {store} 1: {work} was stopped"); 2]);
    lab.down();
}

/// Returns the actions on the lab in the first recording whose texts begin with `verb`, without their times.
fn acts(place: &Place, verb: &str) -> Vec<String> {
    let events = Run::load(&place.all_runs()[0]).unwrap().events;
    let acts = events.iter().filter(|event| event.text.starts_with(verb));
    acts.map(|event| event.text.split(" (took").next().unwrap().to_owned()).collect()
}

#[test]
fn planned_work_of_a_lab_of_postgresql_stops_with_its_run_and_another_run_is_told() {
    let statements = [
        "CREATE TABLE held (x int)",
        "BEGIN; LOCK TABLE held IN ACCESS SHARE MODE; SELECT pg_sleep(300)",
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'",
        "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'VACUUM%'",
    ];
    work_stops("postgres", "vacuum", &["psql", "-Atqc"], statements);
}

/// A replica that is paused during a promotion follows the present primary after a run with faults. Another run is told
/// of that.
#[track_caller]
fn rejoins(store: &'static str) {
    let place = Place::new();
    let lab = Lab::up(&place, store, &["--nodes", "3"]);
    lab.does("pause", "3");
    lab.does("promote", "2");
    lab.does("resume", "3");
    lab.does("start", "1");
    wait_for("all nodes to run", SEEN, || lab.states() == ["running"; 3]);
    let [processes] = each(&lab, ["process"]);
    // One that writes nothing, because MariaDB settles only when nothing is written.
    let other = lab.driving("select --clients 1 --think 5ms --for 300s");
    let on = format!("lab:{store}");
    let faulted = ["--set", "records=200", "--clients", "1", "--think", "10ms", "--on", &on, "-q", "--for", "2s"];
    let fault = ["--fault", "pause node 1 at 300ms for 100ms"];
    place.run(&[&["drive"], workload(&lab), &faulted, &fault].concat()).expect(0);
    other.signal(Signal::INT);
    other.ended();
    assert_eq!(acts(&place, "lab rejoin"), [format!("lab rejoin {store}")]);
    let [now] = each(&lab, ["process"]);
    assert!(now[..2] == processes[..2] && now[2] != processes[2], "{processes:?} {now:?}");
    lab.down();
}

#[test]
fn a_replica_of_postgresql_that_missed_a_promotion_rejoins_after_a_run_with_faults() {
    rejoins("postgres-replicas");
}

#[test]
fn a_node_of_mariadb_that_cannot_follow_keeps_its_data_until_it_can() {
    let place = Place::new();
    let lab = Lab::up(&place, "mariadb-replicas", &["--nodes", "2"]);
    let sql = |node: &str, text: &str| lab.exec(node, &["mariadb", "-uplimsoll", "-Ne", text]).expect(0).out;
    let has = |node: &str, database: &str| !sql(node, &format!("SHOW DATABASES LIKE '{database}'")).is_empty();
    sql("1", "CREATE DATABASE kept");
    wait_for("the replica", SEEN, || has("2", "kept"));
    lab.does("promote", "2");
    // A server follows none of its own number.
    sql("2", "SET GLOBAL server_id = 1");
    place.line("lab start mariadb-replicas 1").expect(9).says("node 1 does not follow its primary … server ids");
    assert!(has("1", "kept"));
    sql("2", "SET GLOBAL server_id = 2");
    sql("2", "CREATE DATABASE later");
    lab.does("restart", "1");
    assert!(has("1", "kept") && has("1", "later"));
    lab.down();
}

#[test]
fn a_run_does_not_change_a_link_that_another_run_has_to_set_back() {
    let place = Place::new();
    let lab = Lab::up(&place, "postgres-replicas", &["--nodes", "2"]);
    let [plain] = each(&lab, ["link"]);
    let first = breaking(&place, &lab, &["link node 2 delay=5ms at 500ms"]);
    wait_for("the first fault", SEEN, || each(&lab, ["link"])[0][1] != plain[1]);
    let line = ["drive", "kv", "--set", "records=200", "--on", "lab:postgres-replicas", "--for", "3s", "-q"];
    let second = |fault: &str| place.run(&[&line[..], &["--think", "10ms", "--fault", fault]].concat());
    second("link node 2 delay=9ms at 500ms").says("node 2 of lab postgres-replicas has a link of another run");
    second("link node 1 delay=1ms at 500ms for 1s").expect(0);
    first.signal(Signal::INT);
    first.ended().expect(130);
    assert_eq!(each(&lab, ["link"]), [plain]);
    lab.down();
}

mod heavy {
    use super::*;

    #[test]
    fn planned_work_of_a_lab_of_mariadb_stops_with_its_run_and_another_run_is_told() {
        let statements = [
            "CREATE DATABASE d; CREATE TABLE d.held (x INT)",
            "LOCK TABLES d.held READ; SELECT SLEEP(300)",
            "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT SLEEP%'",
            "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'OPTIMIZE%'",
        ];
        work_stops("mariadb", "optimize", &["mariadb", "-uroot", "-Ne"], statements);
    }

    #[test]
    fn a_replica_of_mariadb_that_missed_a_promotion_rejoins_after_a_run_with_faults() {
        rejoins("mariadb-replicas");
    }
}
