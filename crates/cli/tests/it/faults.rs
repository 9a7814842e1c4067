//! Faults on the clock of a load: they take effect, are healed, and cost what an independent client sees.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_core::Address;
use plimsoll_record::data::{FaultKind, Run, Sample};
use plimsoll_store_postgres::Endpoint;
use plimsoll_store_postgres::wire::Login;
use rusqlite::{Connection, OpenFlags};
use rustix::process::Signal;
use serde_json::Value;

use crate::bench::{Guarded, Place, left_below, once_below, servers, wait_for};
use crate::kill::server_directories;

/// Returns the faults of a report, and its verdict.
pub(crate) fn faults(ran: &Value) -> (Vec<Value>, String) {
    let report = &ran["report"];
    let verdict = report["verdict"]["sentence"].as_str().unwrap().to_owned();
    (report["faults"].as_array().unwrap().clone(), verdict)
}

#[track_caller]
pub fn seconds(fault: &Value, name: &str) -> f64 {
    fault[name].as_f64().unwrap_or_else(|| panic!("no {name}: {fault}"))
}

/// Returns the least outage, in seconds, of a fault that leaves no client an answer for `lasts_s`.
///
/// That time begins with the fault, which takes a moment to have its effect. Beside other tests, workers may be late with
/// the last answers before it.
pub fn least_outage_s(fault: &Value, lasts_s: f64) -> f64 {
    lasts_s - seconds(fault, "taken_s") - 0.5
}

/// Returns the faults of a drive that ends once so many faults are healed, however long they take.
#[track_caller]
pub(crate) fn until_healed(place: &Place, drive: &[&str], count: usize) -> Vec<Value> {
    let run = place.recording(&[drive, &["--for", "300s", "-q"]].concat());
    wait_for("the faults' end", Duration::from_secs(200), || are_healed(place, count));
    run.signal(Signal::INT);
    // A replica that is promoted may lack the newest writes, which answers show.
    let ran = run.ended();
    assert!(matches!(ran.code, Some(1 | 130)), "{ran:?}");
    place.report()["faults"].as_array().unwrap().clone()
}

pub(crate) fn are_healed(place: &Place, count: usize) -> bool {
    // A whole recording takes longer to read than some faults last, beside other tests.
    let healed = |run: PathBuf| -> rusqlite::Result<u32> {
        let recording = Connection::open_with_flags(run.join("run.sqlite"), OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        recording.query_row("SELECT count(*) FROM fault WHERE healed_ns IS NOT NULL", [], |row| row.get(0))
    };
    place.all_runs().pop().is_some_and(|run| healed(run).is_ok_and(|healed| healed as usize == count))
}

/// Returns the endpoint of a run's private PostgreSQL.
pub fn postgres_of(run: &Guarded) -> Endpoint {
    let sockets_of = |pid: &u32| {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&command).replace('\0', "\n");
        words.lines().find_map(|word| word.strip_prefix("unix_socket_directories=").map(str::to_owned))
    };
    // On a busy machine a fault may have ended the server meanwhile.
    let mut found = None;
    wait_for("the server", Duration::from_secs(200), || {
        found = servers(run.0.id(), "postgres").iter().find_map(sockets_of);
        found.is_some()
    });
    let sockets = found.unwrap();
    let address = Address::Unix(PathBuf::from(sockets).join(".s.PGSQL.5432"));
    let login = Login { user: "postgres".into(), database: "postgres".into(), ..Login::default() };
    Endpoint::plain(address, login)
}

/// Longest time between two answers to a client that asks a private PostgreSQL again and again. It opens a lost
/// connection again as clients with `--backoff 10ms` do. Returns at the end of the run.
fn gap_seen(run: &mut Guarded) -> Duration {
    let endpoint = postgres_of(run);
    let (mut connection, mut gap, mut last) = (None, Duration::ZERO, None::<Instant>);
    while run.0.try_wait().unwrap().is_none() {
        let open = || endpoint.open(Arc::default(), "", &[], Duration::from_secs(20)).ok();
        connection = connection.or_else(open);
        let answer = connection.as_mut().and_then(|connection| connection.value("SELECT 1").ok());
        let wait_ms = if answer.is_some() {
            (gap, last) = (gap.max(last.map_or(Duration::ZERO, |last| last.elapsed())), Some(Instant::now()));
            5
        } else {
            connection = None;
            10
        };
        std::thread::sleep(Duration::from_millis(wait_ms));
    }
    gap
}

#[test]
fn an_outage_is_as_long_as_an_independent_client_sees_it() {
    // Without other work both differ by less than 40 ms (docs/journal/2026-11-30-a-second-client.md); beside other tests
    // each waits for a processor, too. After a kill the server starts a process for each client that connects: the four
    // of the drive come at once, and the other one alone.
    let cases = [("pause all at 3s for 2s", "7s", 2.0, 0.1), ("kill all at 3s for 1500ms", "8s", 1.5, 0.3)];
    for (fault, length, at_least_s, apart_s) in cases {
        let mut seen = Vec::new();
        // A busy machine delays one of both, but not each time. A defect is there each time.
        let is_in_time = (0..5).any(|_| {
            let (seen_s, found) = outage_beside(fault, length, at_least_s);
            let [outage_s, taken_s] = ["outage_s", "taken_s"].map(|name| seconds(&found, name));
            let is_seen = (outage_s - seen_s).abs() <= apart_s + taken_s;
            let late_s = seconds(&found, "at_s") - seconds(&found, "planned_s");
            let is_soon = late_s < 2.5 && seconds(&found, "noticed_s") < 3.0;
            seen.push(format!("{seen_s} s seen: {found}"));
            // Their sessions' processes are stopped one after the other.
            is_seen && is_soon && outage_s.min(seen_s) >= at_least_s - taken_s - 0.1
        });
        assert!(is_in_time, "{seen:#?}");
    }
}

/// Drives PostgreSQL with a fault of a known length in seconds. Returns the longest time without an answer to an
/// independent client, in seconds, and the fault.
fn outage_beside(fault: &str, length: &str, at_least_s: f64) -> (f64, Value) {
    let place = Place::new();
    let line = ["drive", "kv", "--set", "records=500", "--on", "postgres", "--clients", "4", "--for", length];
    let more = ["--think", "2ms", "--backoff", "10ms", "--fault", fault, "-q"];
    let mut run = place.recording(&[&line[..], &more].concat());
    let seen_s = gap_seen(&mut run).as_secs_f64();
    run.ended().expect(0);
    let report = place.report();
    let found = &report["faults"][0];
    let outage_s = seconds(found, "outage_s");
    assert!(outage_s >= least_outage_s(found, at_least_s), "{seen_s} s seen: {found}");
    assert!(seconds(found, "healed_s") >= at_least_s, "{found}");
    assert!(seconds(found, "at_s") >= seconds(found, "planned_s"), "{found}");
    // Beside other tests, throughput before the fault may not come again. Outages are of whole ticks of 10 ms, and begin
    // with the last answer.
    let before_s = seconds(found, "at_s") - seconds(found, "outage_at_s");
    let is_later = |back_s: f64| back_s + before_s + 0.01 >= outage_s;
    assert!(found["recovered_s"].as_f64().is_none_or(is_later), "{found}");
    let sentence = report["verdict"]["sentence"].as_str().unwrap();
    assert!(sentence.contains("1 fault") && sentence.contains("no answer for"), "{sentence}");
    assert_eq!(report["trials"][0]["ledgers"][0]["lost"], 0, "{report}");
    (seen_s, found.clone())
}

#[test]
fn a_cluster_goes_on_without_one_node_and_without_its_leader_after_an_election() {
    // The other nodes answer in the four seconds; without a leader none takes writes. A busy machine may be as slow.
    once_below(3.8, outage_without_a_replica_s);
}

/// Drives a cluster of three that loses a node for four seconds, and then its leader. Returns the outage of the first
/// fault in seconds.
fn outage_without_a_replica_s() -> f64 {
    let place = Place::new();
    let drive = [
        "drive",
        "kv",
        "--set",
        "records=200",
        "--on",
        "etcd",
        "--clients",
        "6",
        "--think",
        "20ms",
        "--for",
        "18s",
        "--json",
        "-q",
        "--set",
        "etcd.nodes=3",
        "--goal",
        "lost=0",
        "--goal",
        "outage=60s",
        "--fault",
        "kill replica at 2s for 4s",
        "--fault",
        "cut primary at 8s for 3s",
    ];
    let ran = place.run(&drive);
    // On a busy machine members may elect a leader at the moment at which the cut asks for it.
    if ran.err.contains("no member of the private etcd leads") {
        return f64::INFINITY;
    }
    let (found, verdict) = faults(&ran.expect(0).last_json());
    assert_eq!(found.len(), 2, "{found:?}");
    let subjects: Vec<&str> = found.iter().map(|fault| fault["subject"].as_str().unwrap()).collect();
    assert!(subjects[0].ends_with(", a replica") && subjects[1].ends_with(", the primary"), "{subjects:?}");
    assert!(found.iter().all(|fault| fault["error"].is_null() && fault["healed_s"].is_number()), "{found:?}");
    assert!(verdict.contains("2 faults"), "{verdict}");
    // The formula is of the time-outs that the members run with, and of losses of the primary.
    let failover = &found[1]["failover"];
    assert_eq!((seconds(failover, "least_s"), seconds(failover, "most_s")), (0.8, 2.1), "{found:?}");
    assert!(found[0]["failover"].is_null() && failover["state"].is_string(), "{found:?}");
    seconds(&found[0], "outage_s")
}

#[test]
fn links_are_slow_during_their_fault_and_as_before_afterwards() {
    let place = Place::new();
    let drive = ["drive", "kv", "--set", "records=200", "--mix", "read=1", "--clients", "2", "--think", "1ms", "-q"];
    let slow = "link all delay=100ms at 2s for 4s";
    let more = ["--on", "postgres-replicas", "--nodes", "2", "--for", "9s", "--fault", slow];
    place.run(&[&drive[..], &more].concat()).expect(0);
    let slices: Vec<(u64, u64, f64)> = place
        .slices()
        .iter()
        .filter(|slice| !slice.drain)
        .map(|slice| {
            let count: u64 = slice.histograms.iter().map(|one| one.histogram.len()).sum();
            (slice.start_ns, slice.end_ns, count as f64 * 1e9 / (slice.end_ns - slice.start_ns) as f64)
        })
        .collect();
    let run = Run::load(&place.only_run()).unwrap();
    let span = &run.trials[0].faults[0];
    let most_per_s = |from_ns: u64, until_ns: u64| {
        let its = slices.iter().filter(|(start_ns, end_ns, _)| from_ns <= *start_ns && *end_ns <= until_ns);
        its.map(|(.., per_s)| *per_s).fold(0.0, f64::max)
    };
    // 200 ms for each answer while the links are slow. Beside other tests a second may have few answers by itself.
    let before = most_per_s(0, span.begun_ns);
    let slow = most_per_s(span.taken_ns.unwrap(), span.healing_ns.unwrap());
    let after = most_per_s(span.healed_ns.unwrap(), u64::MAX);
    assert!(slow > 0.0 && slow < 25.0 && before > 3.0 * slow && after > 3.0 * slow, "{span:?}: {slices:?}");
    assert!(span.subject == "all nodes" && span.error.is_none(), "{span:?}");
}

#[test]
fn an_interrupt_while_a_server_is_away_is_no_error() {
    let place = Place::new();
    let line = ["drive", "kv", "--set", "records=100", "--on", "etcd", "--set", "etcd.nodes=3", "--for", "600s", "-q"];
    let run = place.recording(&[&line[..], &["--think", "2ms", "--fault", "kill node 1 at 1s"]].concat());
    let faults = || place.all_runs().pop().and_then(|run| Run::load(&run).ok());
    let is_taken = || faults().is_some_and(|run| run.faults().any(|span| span.taken_ns.is_some()));
    wait_for("the fault", Duration::from_secs(200), is_taken);
    run.signal(Signal::INT);
    run.ended().expect(130);
}

#[test]
fn an_interrupt_heals_all_faults() {
    let place = Place::new();
    let line = ["drive", "kv", "--set", "records=100", "--on", "postgres", "--for", "600s", "-q"];
    let fault =
        ["--fault", "pause all at 1s for 500s", "--fault", "limit all cpus=0.5 at 1s", "--set", "postgres.cpus=2"];
    let run = place.recording(&[&line[..], &["--think", "2ms"], &fault].concat());
    let faults = || place.all_runs().pop().and_then(|run| Run::load(&run).ok());
    let taken = || faults().is_some_and(|run| run.faults().filter(|span| span.taken_ns.is_some()).count() == 2);
    wait_for("the faults", Duration::from_secs(200), taken);
    let pids = servers(run.0.id(), "postgres");
    run.signal(Signal::INT);
    run.ended().expect(130);
    let is_gone = |pid: &u32| !std::path::Path::new(&format!("/proc/{pid}")).exists();
    wait_for("the servers' end", Duration::from_secs(100), || pids.iter().all(is_gone));
    let run = faults().unwrap();
    let all: Vec<_> = run.faults().collect();
    assert!(all.iter().all(|span| span.healed_ns.is_some() && span.error.is_none()), "{all:?}");
}

#[test]
fn a_server_that_does_not_start_again_ends_the_run_and_all_else_is_healed_and_removed() {
    let place = Place::new();
    let line = ["drive", "kv", "--set", "records=100", "--set", "ledger=off", "--on", "postgres", "--for", "7s", "-q"];
    let (kill, limit) = ("kill all at 4s for 1s", "limit all cpus=0.5 at 2s");
    let faults = ["--fault", kill, "--fault", limit, "--set", "postgres.cpus=2"];
    let run = place.started(&[&line[..], &["--think", "2ms"], &faults].concat(), 1);
    let directories = server_directories(&place, run.0.id());
    // PostgreSQL reads this file at its start only.
    std::fs::remove_file(directories[0].join("data/PG_VERSION")).unwrap();
    let ran = run.ended().expect(9);
    ran.says(&format!("{kill}: … is not a valid data directory … read its log"));
    let recorded = Run::load(&place.only_run()).unwrap();
    let of_kind = |kind: FaultKind| recorded.faults().find(|span| span.kind == kind).unwrap();
    let (killed, limited) = (of_kind(FaultKind::Kill), of_kind(FaultKind::Limit));
    assert!(killed.error.as_ref().is_some_and(|error| error.contains("not a valid data directory")), "{killed:?}");
    assert!(killed.taken_ns.is_some() && killed.healing_ns.is_some() && killed.healed_ns.is_none(), "{killed:?}");
    assert!(limited.healed_ns.is_some() && limited.error.is_none(), "{limited:?}");
    wait_for("nothing to be left", Duration::from_secs(100), || {
        let is_gone = |directory: &PathBuf| !directory.exists() && left_below(directory).is_empty();
        directories.iter().all(is_gone) && left_below(place.path()).is_empty()
    });
    assert!(!place.only_run().join("data").exists());
}

#[test]
fn a_fault_that_a_store_cannot_have_is_refused_with_the_remedy() {
    let place = Place::new();
    let all = "connections, … idle_in_transaction, … memory.cached, … tcp.timeouts, … server.stopped, ";
    for (on, fault, words) in [
        ("select --on galera", "promote replica at 1s", "cannot be promoted by a command"),
        ("select --on mariadb-replicas", "limit all cpus=1 at 1s", "on the command line --set mariadb.cpus="),
        ("select --on postgres --set postgres.memory=1GiB", "limit all memory=1B at 1s", "too little for a server"),
        ("select --on postgres", "add node at 1s", "made alone takes no replicas"),
        ("select --on postgres", "reset all at 1s", "over a Unix socket … use a store that clients reach over TCP"),
        ("kv --on redis-cluster", "reset all at 1s", "over a Unix socket"),
        ("kv --on redis", "hang all at 1s", "no thread or process for each client … pause instead of hang"),
        ("kv --on postgres-pgbouncer", "hang node 2 at 1s", "PgBouncer serves all clients with one thread"),
        ("select --on postgres", "kill all when lag > 1s", "postgres has no replication lag"),
        ("select --on postgres-replicas", "kill all when replicas_behind > 1MiB", all),
        ("select --on postgres", "work tidy at 1s", "there are: alter, backup, reindex, vacuum"),
        ("select --on postgres-replicas", "work vacuum node 2 at 1s", "there are: backup"),
        ("kv --on nats", "work backup at 1s", "nats has no planned work\n"),
    ] {
        let line = format!("drive {on} --for 5s --fault {}", fault.replace(' ', "\u{a0}"));
        place.refuses(&[(&line, words)]);
    }
    assert!(place.all_runs().is_empty());
}

#[test]
fn check_names_the_promotion_without_which_clients_have_no_primary() {
    let place = Place::new();
    let plan = place.plan(
        "stores = [\"postgres-replicas\"]\n[workload]\nname = \"kv\"\n[[phase]]\ndo = \"load\"\n[[phase]]\n\
         do = \"drive\"\nfor = \"20s\"\nmix = { read = 1 }\nfault = [\"kill primary at 40%\"]\n",
    );
    let words = "kill primary at 40%: no replica of postgres-replicas takes over by itself … `promote replica when";
    place.run(&["check", &plan]).expect(0).says(words);
}

#[test]
fn a_fault_begins_when_a_reading_meets_its_condition_and_without_one_the_run_is_undecided() {
    let mut seen_s = Vec::new();
    // Readings are a second apart, and the lag counts from one of them: possibly the last before the pause. On a busy machine
    // they may come after the pause, but not each time.
    let is_in_time = (0..3).any(|_| {
        let found = faults_by_readings();
        let after_s = found.get(1).map(|reset| seconds(reset, "at_s") - seconds(&found[0], "at_s"));
        seen_s.push(after_s);
        after_s.is_some_and(|after_s| (1.5..9.5).contains(&after_s))
    });
    assert!(is_in_time, "{seen_s:?}");
}

/// Pauses a replica for eight seconds, with a fault for the lag that follows and one that never begins. Returns the faults
/// that began.
fn faults_by_readings() -> Vec<Value> {
    let place = Place::new();
    let drive = ["drive", "kv", "--set", "records=200", "--on", "postgres-replicas", "--nodes", "2", "--clients", "4"];
    let never = "kill primary when store.node 2.lag > 1h for 1s";
    let faulted = ["--fault", "pause replica at 2s for 8s", "--fault", "reset primary when lag > 2s", "--fault", never];
    let ran = place.run(&[&drive[..], &["--think", "10ms", "--for", "13s", "--json", "-q"], &faulted].concat());
    let (found, verdict) = faults(&ran.expect(11).last_json());
    if let [_, reset] = &found[..] {
        assert!(reset["fault"] == "reset primary when lag > 2s" && reset["error"].is_null(), "{reset}");
        assert!(verdict.contains("kill primary when store.node 2.lag > 1h was not done"), "{verdict}");
    }
    assert!(found.len() <= 2, "{found:?}");
    found
}

#[test]
fn around_a_fault_the_machine_is_read_every_50_ms_and_otherwise_once_a_slice() {
    let mut seen = Vec::new();
    // On a busy machine readings are late, but not each time.
    let is_in_time = (0..3).any(|_| {
        seen.push(readings_around_a_fault());
        let [slices_ns, fine_ns, before, after] = seen[seen.len() - 1];
        (600_000_000..1_800_000_000).contains(&slices_ns) && fine_ns <= 400_000_000 && before >= 1 && after >= 9
    });
    assert!(is_in_time, "{seen:?}");
}

/// Drives a server that is paused. Returns the usual times in ns between two readings of a slice and between two around the
/// fault, and the numbers of readings before its beginning and in the three seconds after that.
fn readings_around_a_fault() -> [u64; 4] {
    const SECOND_NS: u64 = 1_000_000_000;
    let place = Place::new();
    let drive = ["drive", "kv", "--set", "records=200", "--on", "redis", "--clients", "2", "--think", "5ms"];
    let fault = ["--for", "10s", "--fault", "pause all at 3s for 300ms", "-q"];
    place.run(&[&drive[..], &fault].concat()).expect(0);
    let run = Run::load(&place.only_run()).unwrap();
    let dirty = run.series.iter().position(|one| one.source == "memory" && one.name == "dirty").unwrap();
    let times = |samples: &[Sample]| -> Vec<u64> {
        samples.iter().filter(|sample| sample.value(dirty).is_some()).map(|sample| sample.at_ns).collect()
    };
    let usual_gap_ns = |times: &[u64]| {
        let mut gaps_ns: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        gaps_ns.sort_unstable();
        gaps_ns[gaps_ns.len() / 2]
    };
    let (slices, fine) = (times(&run.samples), times(&run.fine_samples));
    let fault = run.faults().next().unwrap();
    let before = fine.iter().filter(|at_ns| **at_ns < fault.begun_ns).count() as u64;
    let after = fine.iter().filter(|at_ns| (fault.begun_ns..fault.begun_ns + 3 * SECOND_NS).contains(*at_ns));
    let after = after.count() as u64;
    let around = fault.planned_ns - SECOND_NS..fault.healed_ns.unwrap() + 4 * SECOND_NS;
    assert!(fine.iter().all(|at_ns| around.contains(at_ns)), "{fault:?}: {fine:?}");
    let panels = place.report()["plots"]["fine"].to_string();
    assert!(panels.contains("Memory"), "{panels}");
    [usual_gap_ns(&slices), usual_gap_ns(&fine), before, after]
}

#[test]
fn a_replica_of_postgresql_takes_over_and_the_former_primary_follows_it() {
    let run = takes_over(&["drive", "kv", "--set", "records=200", "--on", "postgres-replicas"]);
    assert!(run.trials[0].ledgers[0].read_back > 0, "all records were read back");
}

/// Drives a cluster while its primary is lost twice, and each time another node takes over.
fn takes_over(drive: &[&str]) -> Run {
    let place = Place::new();
    // The second promotion needs a node that was rewound after the first. On a busy machine the later faults wait for it.
    let faults = [
        "--fault",
        "kill primary at 1s for 1s",
        "--fault",
        "promote replica at 1500ms",
        "--fault",
        "kill primary at 3s for 1s",
        "--fault",
        "promote node 1 at 3500ms",
    ];
    let load = ["--clients", "4", "--think", "10ms", "--for", "19s", "--json", "-q"];
    let report = place.run(&[drive, &load, &faults].concat());
    let report = report.last_json();
    let found = report["report"]["faults"].as_array().unwrap();
    let subjects: Vec<&str> = found.iter().map(|fault| fault["subject"].as_str().unwrap()).collect();
    assert_eq!(subjects, ["node 1, the primary", "node 2, a replica", "node 2, the primary", "node 1"], "{report}");
    let is_done = |fault: &Value| fault["error"].is_null() && fault["taken_s"].is_number();
    assert!(found.iter().all(is_done), "{found:?}");
    // Sessions found a new primary before the end.
    assert_eq!(found[0]["outage_open"], false, "{found:?}");
    Run::load(&place.only_run()).unwrap()
}

#[test]
fn planned_work_follows_the_roles_after_a_promotion() {
    let place = Place::new();
    let drive = ["drive", "kv", "--set", "records=200", "--on", "postgres-replicas", "--nodes", "2", "--clients", "4"];
    let works = ["work vacuum node 2 at 3s", "work vacuum all at 0s after fault 2"];
    let faulted = ["--fault", "promote replica at 1s", "--fault", works[0], "--fault", works[1]];
    let found = until_healed(&place, &[&drive[..], &["--think", "10ms"], &faulted].concat(), 3);
    let is_done = |fault: &Value| fault["error"].is_null() && fault["healed_s"].is_number();
    assert!(found.len() == 3 && found.iter().all(is_done), "{found:?}");
}

#[test]
fn planned_work_of_postgresql_is_done_while_an_independent_client_looks() {
    let place = Place::new();
    let line = ["drive", "kv", "--set", "records=2000", "--on", "postgres", "--clients", "4", "--for", "300s", "-q"];
    // A backup may be over between two looks: the server notes it.
    let load = ["--think", "10ms", "--set", "postgres.settings=log_replication_commands=on"];
    // Between the first two is time for several looks, however long they take.
    let first = ["--fault", "work vacuum at 5s", "--fault", "work reindex at 1s after fault 1"];
    let then = ["--fault", "work backup at 0s after fault 2", "--fault", "work alter at 0s after fault 3"];
    let mut run = place.started(&[&line[..], &load, &first, &then].concat(), 1);
    let log = server_directories(&place, run.0.id())[0].join("log");
    // Each table and each index has its file until it is written anew.
    let files = |kind: &str| {
        format!(
            "SELECT string_agg(relfilenode::text, ' ' ORDER BY relname) FROM pg_class c \
             JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname NOT LIKE 'pg%' AND relkind = '{kind}' \
             AND nspname <> 'information_schema'"
        )
    };
    let mut connection = postgres_of(&run).open(Arc::default(), "", &[], Duration::from_secs(20)).unwrap();
    let mut seen = [(files("r"), Vec::new()), (files("i"), Vec::new())];
    while run.0.try_wait().unwrap().is_none() && !are_healed(&place, 4) {
        for (asked, answers) in &mut seen {
            let Ok(answer) = connection.value(asked) else { break };
            if answers.last() != Some(&answer) {
                answers.push(answer);
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let log = std::fs::read(log).unwrap();
    // A dropped column keeps its place.
    let dropped = "SELECT count(*) FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid \
                   WHERE attisdropped AND relname = 'kv'";
    let dropped = connection.value(dropped).unwrap();
    run.signal(Signal::INT);
    run.ended().expect(130);
    assert_eq!(dropped, "1", "columns that were added and dropped");
    let [(_, tables), (_, indexes)] = seen;
    // A vacuum writes indexes anew, too.
    assert!(tables.len() >= 2 && indexes.len() >= 3, "{tables:?} {indexes:?}");
    let log = String::from_utf8_lossy(&log);
    assert!(log.contains("replication command: BASE_BACKUP"), "no backup: {log}");
    let report = place.report();
    let found = report["faults"].as_array().unwrap();
    let names: Vec<&str> = found.iter().map(|fault| fault["name"].as_str().unwrap()).collect();
    let wanted = ["vacuum", "reindex", "backup", "alter"].map(|work| format!("work {work} of the server"));
    assert_eq!(names, wanted, "{report}");
    assert!(found.iter().all(|fault| fault["error"].is_null() && seconds(fault, "healed_s") > 0.0), "{found:?}");
}

#[test]
fn a_rolling_restart_leaves_no_more_than_one_node_away() {
    let place = Place::new();
    let line = ["drive", "kv", "--set", "records=200", "--on", "etcd", "--set", "etcd.nodes=3", "--clients", "3", "-q"];
    let load = ["--think", "5ms", "--for", "300s", "--fault", "restart all rolling at 2s"];
    let mut run = place.started(&[&line[..], &load].concat(), 1);
    let (mut all, mut least) = (std::collections::BTreeSet::<u32>::new(), usize::MAX);
    while all.len() < 6 && run.0.try_wait().unwrap().is_none() {
        // A look takes a while, in which one node may come up and the next one go: on a busy machine several times.
        let mut now = std::collections::BTreeSet::new();
        for _ in 0..4 {
            now = servers(run.0.id(), "etcd").into_iter().collect();
            all.extend(&now);
            if now.len() >= 2 {
                break;
            }
        }
        least = least.min(now.len());
        std::thread::sleep(Duration::from_millis(20));
    }
    wait_for("the restart's end", Duration::from_secs(200), || are_healed(&place, 1));
    run.signal(Signal::INT);
    run.ended().expect(130);
    // A node that comes up between two looks was never seen away, but is another process.
    assert!(all.len() == 6 && least >= 2, "{all:?}, at least {least}");
    let report = place.report();
    assert_eq!(report["faults"][0]["name"], "restart of all nodes, in turn", "{report}");
}

#[test]
fn a_load_that_the_backlog_ends_during_a_fault_is_undecided_with_what_to_change() {
    let place = Place::new();
    let plan = place.plan(
        "stores = [\"redis\"]\nworkload = { name = \"kv\", records = 200 }\n[[phase]]\ndo = \"load\"\n[[phase]]\n\
         do = \"drive\"\nclients = 2\nrate = \"100/s\"\nfor = \"6s\"\nbacklog = \"1500ms\"\nmix = { read = 1 }\n\
         fault = \"pause all at 2s for 3s\"\n",
    );
    let ran = place.run(&["run", &plan, "-q"]).expect(11);
    let ran =
        ran.says("UNDECIDED … the load was cut short during a fault: set a larger `backlog` to drive it to its end");
    ran.says("or an `op_timeout` shorter than");
}

#[test]
fn a_replica_that_has_more_than_the_promoted_one_is_rewound_and_follows_it() {
    let place = Place::new();
    let drive = ["drive", "kv", "--set", "records=200", "--on", "postgres-replicas", "--nodes", "3", "--clients", "4"];
    // Node 2 does not get the newest writes, and takes over; node 3 has them.
    let faults_of = ["--fault", "cut primary from node 2 at 1s", "--fault", "promote node 2 at 4s"];
    let load = ["--think", "5ms", "--for", "8s", "--json", "-q"];
    let ran = place.run(&[&drive[..], &["--mix", "read=1,update=1"], &load, &faults_of].concat());
    let report = ran.last_json();
    // Asynchronous replication loses what only the former primary and node 3 had.
    assert!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
    let (found, _) = faults(&report);
    assert!(found.len() == 2 && found.iter().all(|fault| fault["error"].is_null()), "{found:?}");
    let run = Run::load(&place.only_run()).unwrap();
    assert!(run.trials[0].ledgers[0].read_back > 0, "all records were read back");
}

mod heavy {
    use super::*;

    #[test]
    fn a_replica_of_mariadb_takes_over_and_the_former_primary_follows_it() {
        let drive =
            ["drive", "coupons", "--set", "records=200", "--on", "mariadb-replicas", "--mix", "read=1,update=1"];
        takes_over(&drive);
    }

    #[test]
    fn a_replica_under_patroni_takes_over_by_itself_in_the_time_of_the_formula() {
        // Sessions look for the new primary for up to a second. A busy machine delays the promotion, and also the renewal of
        // the key, after which less of its time is left, but not each time.
        let is_of_formula = |_| (4.0..200.0).contains(&patroni_failover_s());
        assert!((0..3).any(is_of_formula), "a replica took over before the key of the primary ended");
    }

    /// Loses the primary of a cluster under Patroni until another node serves, and returns the measured time in seconds.
    fn patroni_failover_s() -> f64 {
        let place = Place::new();
        let set = ["records=200", "postgres.ttl=8s", "postgres.loop_wait=2s", "postgres.retry_timeout=3s"];
        let set = set.into_iter().flat_map(|value| ["--set", value]);
        // Only another node can answer the rest of the operations: the primary starts again at the end of the phase.
        let drive = ["drive", "kv", "--on", "postgres-patroni", "--clients", "4", "--ops", "1000", "--json", "-q"];
        let fault = ["--think", "5ms", "--fault", "kill primary at 1s"];
        let line: Vec<&str> = drive.into_iter().chain(set).chain(fault).collect();
        let (found, _) = faults(&place.run(&line).last_json());
        let [killed] = &found[..] else { panic!("{found:?}") };
        assert_eq!(killed["subject"], "node 1, the primary");
        assert!(killed["error"].is_null() && killed["healed_s"].is_number(), "{killed}");
        let failover = &killed["failover"];
        assert_eq!((seconds(failover, "least_s"), seconds(failover, "most_s")), (6.0, 11.6), "{killed}");
        let run = Run::load(&place.only_run()).unwrap();
        assert!(run.trials[0].ledgers[0].read_back > 0, "the former primary has followed the new one");
        seconds(failover, "measured_s")
    }
}
