//! Clusters on hosts of their own: made, driven, changed, killed, and gone.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plimsoll_record::data::Run;
use plimsoll_testkit::draw::{Draw, repeats};
use serde_json::Value;

use crate::bench::{Guarded, Place, wait_for};

/// Longest time until nothing of a lab is left after the end of its holder.
const GONE: Duration = Duration::from_secs(10);

/// A lab of a place, in a directory that servers' users can get to.
pub struct Lab<'a> {
    place: &'a Place,
    base: tempfile::TempDir,
    pub name: &'static str,
}

impl<'a> Lab<'a> {
    pub fn base() -> tempfile::TempDir {
        let prefix = format!("cli-test-{}-", std::process::id());
        let base = tempfile::Builder::new().prefix(&prefix).tempdir_in("/var/tmp").unwrap();
        std::fs::set_permissions(base.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        base
    }

    /// Makes one that stays.
    pub fn up(place: &'a Place, name: &'static str, options: &[&str]) -> Self {
        let base = Self::base();
        let dir = base.path().to_str().unwrap().to_owned();
        let fixed = ["lab", "up", name, "--keep", "--dir", &dir];
        place.run(&[&fixed, options].concat()).expect(0).says(&format!("--on lab:{name}"));
        Self { place, base, name }
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    pub fn status(&self) -> Value {
        let ran = self.place.run(&["lab", "status", self.name, "--json"]).expect(0);
        serde_json::from_str(&ran.out).unwrap()
    }

    fn states(&self) -> Vec<String> {
        let status = self.status();
        let nodes = status["nodes"].as_array().unwrap();
        nodes.iter().map(|node| node["state"].as_str().unwrap().to_owned()).collect()
    }

    pub fn down(self) {
        self.place.run(&["lab", "down", self.name]).expect(0);
        assert_nothing_is_in(self.base.path());
    }
}

impl Drop for Lab<'_> {
    fn drop(&mut self) {
        let _ = self.place.run(&["lab", "down", self.name]);
    }
}

/// Checks that there is no file, and no process that works there.
pub fn assert_nothing_is_in(base: &Path) {
    let works_there = || {
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        all.filter(|entry| std::fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(base))).count()
    };
    wait_for("nothing to be left", GONE, || std::fs::read_dir(base).unwrap().count() == 0 && works_there() == 0);
}

/// Comes up with several nodes, is driven for 2 s from a host of its own with every answer checked, and goes.
fn is_driven(store: &'static str, nodes: usize, workload: &[&str]) {
    is_driven_made_with(&[], store, nodes, workload);
}

fn is_driven_made_with(options: &[&str], store: &'static str, nodes: usize, workload: &[&str]) {
    let place = Place::new();
    let lab = Lab::up(&place, store, options);
    let status = lab.status();
    let all = status["nodes"].as_array().unwrap();
    assert_eq!(all.len(), nodes, "{status}");
    assert!(all.iter().all(|node| node["state"] == "running"), "{status}");
    assert!(all.iter().all(|node| node["address"].as_str().unwrap().starts_with("10.77.0.")), "{status}");
    assert!(!status.to_string().contains("secret"), "{status}");
    let on = format!("lab:{store}");
    let drive = ["drive", "--on", &on, "--clients", "8", "--for", "2s", "--goal", "errors=0%"];
    let ran = place.run(&[&drive[..1], workload, &drive[1..]].concat()).expect(0);
    ran.says("kept every promise");
    lab.down();
    place.run(&["lab", "status"]).expect(0).says("no lab stands");
}

#[test]
fn galera_is_driven() {
    // As Galera is, a node may answer with what another has replaced: the ledger says so.
    let place = Place::new();
    let causal = "settings=wsrep_sync_wait=15";
    let lab = Lab::up(&place, "galera", &["--nodes", "3", "--set", causal]);
    let mix = ["--mix", "update=2,read=3,query=1", "--set", "records=2000"];
    let drive = ["drive", "coupons", "--on", "lab:galera", "--clients", "8", "--for", "3s"];
    place.run(&[&drive[..], &mix].concat()).expect(0).says("kept every promise");
    // When all are killed, the one that got furthest begins the cluster again.
    place.run(&["lab", "kill", "galera"]).expect(0);
    place.run(&["lab", "start", "galera"]).expect(0);
    let again = ["drive", "coupons", "--on", "lab:galera", "--clients", "3", "--for", "1s"];
    place.run(&[&again[..], &mix].concat()).expect(0).says("kept every promise");
    lab.down();
}

#[test]
fn mariadb_with_replicas_is_driven() {
    is_driven("mariadb-replicas", 3, &["coupons", "--mix", "update=2,read=3,query=1", "--set", "records=2000"]);
}

#[test]
fn postgresql_with_replicas_is_driven() {
    is_driven("postgres-replicas", 3, &["kv:a", "--set", "records=5000"]);
}

#[test]
fn postgresql_behind_pgbouncer_is_driven() {
    is_driven("postgres-pgbouncer", 2, &["kv:a", "--set", "records=5000"]);
}

#[test]
fn redis_cluster_is_driven() {
    is_driven("redis-cluster", 6, &["kv:a", "--set", "records=5000"]);
}

#[test]
fn etcd_is_driven() {
    is_driven_made_with(&["--nodes", "3"], "etcd", 3, &["kv:a", "--set", "records=1000"]);
}

#[test]
fn nats_is_driven() {
    is_driven_made_with(&["--nodes", "3"], "nats", 3, &["kv:a", "--set", "records=5000"]);
}

#[test]
fn redis_with_sentinels_is_driven() {
    is_driven("redis-sentinel", 6, &["kv:a", "--set", "records=5000"]);
}

#[test]
fn the_server_that_sentinels_have_made_the_master_is_driven() {
    let place = Place::new();
    let lab = Lab::up(&place, "redis-sentinel", &[]);
    place.run(&["lab", "kill", lab.name, "1"]).expect(0);
    let drive = ["drive", "kv:a", "--on", "lab:redis-sentinel", "--for", "1s", "--set", "records=500"];
    // They notice after two seconds, and vote.
    let until = Instant::now() + Duration::from_secs(60);
    let ran = loop {
        match place.run(&drive) {
            ran if ran.code == Some(0) => break ran,
            ran => assert!(Instant::now() < until, "{ran:?}"),
        }
    };
    ran.says("kept every promise").says("node 1 of lab redis-sentinel is killed");
    // It comes back as a replica of that one.
    place.run(&["lab", "start", lab.name]).expect(0);
    place.run(&drive).expect(0).says("kept every promise");
    lab.down();
}

/// Counts the values of nodes' answers.
fn answers(run: &Run) -> usize {
    let is_of_answers = |position: &u32| run.series[*position as usize].source == "answers";
    run.samples.iter().flat_map(|sample| &sample.values).filter(|(position, _)| is_of_answers(position)).count()
}

#[test]
fn sessions_go_to_the_master_that_sentinels_make_meanwhile() {
    let place = Place::new();
    let lab = Lab::up(&place, "redis-sentinel", &[]);
    // Of reads alone: a replica may lack what its master has acknowledged, and the ledger would say so.
    let drive = ["drive", "kv", "--mix", "read=1", "--set", "records=500", "--on", "lab:redis-sentinel"];
    let mut drive =
        Guarded(place.command(&[&drive[..], &["--clients", "4", "--for", "20s", "-q"]].concat()).spawn().unwrap());
    let run = || place.all_runs().first().and_then(|run| Run::load(&run.join("run.sqlite")).ok());
    wait_for("answers of the first master", Duration::from_secs(30), || run().as_ref().map_or(0, answers) > 2);
    place.run(&["lab", "kill", lab.name, "1"]).expect(0);
    assert!(drive.0.wait().unwrap().success());
    let report = place.run(&["report", "latest", "--format", "json"]).expect(0);
    let view: Value = serde_json::from_str(&report.out).unwrap();
    let phases = view["trials"][0]["phases"].as_array().unwrap();
    let nodes = phases.iter().find(|phase| phase["kind"] == "drive").unwrap()["nodes"].as_array().unwrap();
    assert_eq!((nodes.len(), &nodes[0]["name"]), (2, &Value::from("redis-sentinel node 1")), "{nodes:?}");
    assert!(nodes.iter().all(|node| node["count"].as_u64().unwrap() > 500), "{nodes:?}");
    lab.down();
}

#[test]
fn a_lab_is_driven_without_the_nodes_that_do_not_run() {
    let place = Place::new();
    let lab = Lab::up(&place, "galera", &["--nodes", "3"]);
    place.run(&["lab", "kill", lab.name, "2"]).expect(0).says("node 2 killed");
    let drive = ["drive", "oltp_point_select", "--on", "lab:galera", "--for", "1s", "--set", "table_size=100"];
    place.run(&drive).expect(0).says("PASS").says("node 2 of lab galera is killed");
    let all = lab.status();
    let states: Vec<_> = all["nodes"].as_array().unwrap().iter().map(|node| node["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["running", "killed", "running"]);
    assert_eq!(all["nodes"][1]["number"], 2);
    // Of all nodes those are started that do not run, and clients find the way in.
    place.run(&["lab", "start", lab.name]).expect(0);
    place.run(&["lab", "pause", lab.name, "1", "3"]).expect(0).says("nodes 1, 3 standing still");
    place.run(&["lab", "resume", lab.name, "1", "3"]).expect(0);
    let count = ["--", "mariadb", "-uplimsoll", "-e", "SHOW STATUS LIKE 'wsrep_cluster_size'"];
    place.run(&[&["lab", "exec", lab.name, "2"], &count[..]].concat()).expect(0).says("3");
    // A session whose node is gone goes to the next one.
    let args =
        [&drive[..4], &["--for", "10s", "--clients", "3", "--set", "table_size=100", "--set", "max_tries=9"]].concat();
    let mut driven = Guarded(place.command(&args).spawn().unwrap());
    let before = place.all_runs().len();
    let answers =
        || place.all_runs().last().and_then(|run| Run::load(&run.join("run.sqlite")).ok()).as_ref().map_or(0, answers);
    wait_for("answers", Duration::from_secs(30), || place.all_runs().len() > before && answers() > 6);
    place.run(&["lab", "kill", lab.name, "3"]).expect(0);
    assert!(driven.0.wait().unwrap().success());
    let report = place.run(&["report", "latest", "--format", "json"]).expect(0);
    let view: Value = serde_json::from_str(&report.out).unwrap();
    let phases = view["trials"][0]["phases"].as_array().unwrap();
    let phase = phases.iter().find(|phase| phase["kind"] == "drive").unwrap();
    let result = |name: &str| {
        let found = phase["results"].as_array().unwrap().iter().find(|result| result["name"] == name);
        found.and_then(|result| result["value"].as_f64()).unwrap_or(0.0)
    };
    assert_eq!(phase["nodes"].as_array().unwrap().len(), 3);
    assert!(result("lost_connections") >= 1.0 && result("failed_connects") <= 2.0, "{phase}");
    lab.down();
}

#[test]
fn nodes_are_killed_started_added_removed_and_looked_into() {
    let place = Place::new();
    let lab = Lab::up(&place, "postgres-replicas", &["--nodes", "2"]);
    let address = place.run(&["lab", "exec", "2", "--", "cat", "/proc/self/net/fib_trie"]).expect(0);
    assert!(address.out.contains("10.77.0.2") && !address.out.contains("10.77.0.1\n"), "{}", address.out);
    let load = place.run(&["lab", "exec", lab.name, "load", "--", "cat", "/proc/self/net/fib_trie"]).expect(0);
    assert!(load.out.contains("10.77.255.254"), "{}", load.out);
    place.run(&["lab", "exec", lab.name, "1", "--", "false"]).expect(1);

    place.run(&["lab", "kill", lab.name, "2"]).expect(0).says("node 2 killed");
    assert_eq!(lab.states(), ["running", "killed"]);
    place.run(&["lab", "start", "2"]).expect(0).says("node 2 ready");
    place.run(&["lab", "pause", "2"]).expect(0);
    assert_eq!(lab.states(), ["running", "paused"]);
    place.run(&["lab", "resume", "2"]).expect(0);
    place.run(&["lab", "add"]).expect(0).says("node 3 has joined");
    place.run(&["lab", "remove", lab.name, "2"]).expect(0).says("node 2 has left");
    place.run(&["lab", "remove", lab.name, "1"]).expect(2).says("cannot do without its primary");
    let status = place.run(&["lab", "status"]).expect(0);
    assert!(status.out.contains("PostgreSQL") && status.out.contains("primary"), "{}", status.out);
    assert!(place.run(&["lab", "logs", lab.name, "3", "-n", "500"]).expect(0).out.contains("started streaming WAL"));

    // What fails by itself is started again.
    let process = lab.status()["nodes"][0]["process"].as_u64().unwrap();
    let pid = rustix::process::Pid::from_raw(process as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    wait_for("the primary to be back", Duration::from_secs(60), || {
        let node = &lab.status()["nodes"][0];
        node["state"] == "running" && node["restarts"] == 1
    });
    let ran = place.run(&["drive", "kv:a", "--set", "records=1000", "--on", "lab:postgres-replicas", "--for", "1s"]);
    ran.expect(0).says("kept every promise");
    // A second run finds nothing of the first.
    place.run(&["drive", "select", "--on", "lab:postgres-replicas", "--for", "1s"]).expect(0);
    lab.down();
}

#[test]
fn a_link_delays_what_goes_to_a_node_until_it_is_plain_again() {
    let place = Place::new();
    let lab = Lab::up(&place, "redis-sentinel", &["--set", "sentinels=0", "--set", "replicas=1"]);
    let median = || {
        let drive = ["drive", "kv", "--mix", "read=1", "--set", "records=100", "--on", "lab:redis-sentinel"];
        let ran = place.run(&[&drive[..], &["--ops", "200"]].concat()).expect(0);
        let text = ran.out.split("p50 ").nth(1).unwrap().split(" ·").next().unwrap().to_owned();
        match text.split_once(' ').unwrap() {
            (number, "ms") => number.parse::<f64>().unwrap(),
            (number, "µs") => number.parse::<f64>().unwrap() / 1e3,
            other => panic!("{other:?}"),
        }
    };
    let plain = median();
    place.run(&["lab", "link", "1", "--delay", "10ms", "--jitter", "1ms"]).expect(0).says("10ms ± 1ms one way");
    let slow = median();
    assert!((19.0..30.0).contains(&slow) && plain < 10.0, "{plain} ms, then {slow} ms");
    place.run(&["lab", "link"]).expect(0).says("10ms ± 1ms one way");
    place.run(&["lab", "status"]).expect(0).says("link: 10ms");
    place.run(&["lab", "link", "--plain"]).expect(0).says("plain");
    assert!(median() < 10.0);
    // From outside of the lab it is reached at a port of this machine.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let published = Guarded(place.command(&["lab", "publish", "1", "--port", &port]).spawn().unwrap());
    wait_for("an answer", Duration::from_secs(20), || answer(&port).is_some_and(|text| text.starts_with(['+', '-'])));
    place.run(&["lab", "publish", "--port", &port]).expect(6).says(&port);
    drop(published);
    wait_for("the port to be free", GONE, || answer(&port).is_none());
    place.run(&["lab", "link", "1", "--loss", "150%"]).expect(2).says("a share from 0 to 1");
    place.run(&["lab", "link", "1", "--rate", "fast"]).expect(2).says("write 50Mbit");
    lab.down();
}

#[test]
fn the_node_that_answers_slowest_is_named() {
    let place = Place::new();
    let lab = Lab::up(&place, "redis-cluster", &[]);
    place.run(&["lab", "link", "2", "--delay", "5ms"]).expect(0);
    let drive = ["drive", "kv", "--mix", "read=1", "--set", "records=1000", "--on", "lab:redis-cluster"];
    let ran = place.run(&[&drive[..], &["--clients", "16", "--for", "3s"]].concat()).expect(0);
    ran.says("redis-cluster node 2 answers slowest: p50 1");
    let report = place.run(&["report", "latest", "--format", "json"]).expect(0);
    let view: Value = serde_json::from_str(&report.out).unwrap();
    let driven =
        &view["trials"][0]["phases"].as_array().unwrap().iter().find(|phase| phase["kind"] == "drive").unwrap();
    let counts: Vec<u64> =
        driven["nodes"].as_array().unwrap().iter().map(|node| node["count"].as_u64().unwrap()).collect();
    // Each operation is one node's, and none is counted twice.
    assert_eq!((counts.len(), counts.iter().sum::<u64>()), (3, driven["ops"]["count"].as_u64().unwrap()), "{counts:?}");
    lab.down();
}

/// Returns the answer to PING of a Redis at a port of the loopback interface.
fn answer(port: &str) -> Option<String> {
    let mut socket = TcpStream::connect(format!("127.0.0.1:{port}")).ok()?;
    socket.write_all(b"PING\r\n").ok()?;
    let mut text = [0; 64];
    let read = socket.read(&mut text).ok().filter(|read| *read > 0)?;
    Some(String::from_utf8_lossy(&text[..read]).into_owned())
}

/// A user without root has hosts in a user namespace.
#[test]
fn a_user_without_privileges_has_hosts_too() {
    let base = Lab::base();
    std::fs::set_permissions(base.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    // The build's own directory may be closed to others.
    let program = base.path().join("plimsoll");
    std::fs::copy(env!("CARGO_BIN_EXE_plimsoll"), &program).unwrap();
    let run = |words: &[&str]| {
        let mut command = std::process::Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(&program).args(words);
        let home = base.path().join("home");
        command.env("XDG_STATE_HOME", &home).env("HOME", &home).current_dir("/").stdin(std::process::Stdio::null());
        crate::bench::Ran::of(&command.output().unwrap())
    };
    let dir = base.path().to_str().unwrap();
    run(&["lab", "up", "postgres-replicas", "--nodes", "2", "--keep", "--dir", dir]).expect(0);
    let address = run(&["lab", "exec", "2", "--", "cat", "/proc/self/net/fib_trie"]);
    let drive = ["drive", "kv:a", "--set", "records=500", "--on", "lab:postgres-replicas", "--for", "1s"];
    let driven = run(&drive);
    run(&["lab", "down"]).expect(0);
    run(&["drive", "kv:a", "--set", "records=500", "--on", "redis-sentinel", "--for", "1s"]).expect(0);
    driven.expect(0).says("kept every promise");
    assert!(address.expect(0).out.contains("10.77.0.2"));
}

#[test]
fn one_for_the_run_alone_goes_with_it() {
    let place = Place::new();
    let set = ["--set", "records=1000"];
    let drive = ["drive", "kv:a", "--on", "postgres-replicas", "--nodes", "2", "--for", "1s"];
    place.run(&[&drive[..], &set].concat()).expect(0).says("kept every promise");
    place.run(&["lab", "status"]).expect(0).says("no lab stands");
}

/// The control groups of the servers below `base`.
fn groups_of(base: &Path) -> Vec<PathBuf> {
    let places = std::fs::read_dir(base).unwrap().flatten();
    let noted = places.filter_map(|place| std::fs::read_to_string(place.path().join("groups")).ok());
    noted.flat_map(|noted| noted.lines().map(PathBuf::from).collect::<Vec<_>>()).collect()
}

#[test]
fn a_node_that_is_limited_has_no_more_and_the_report_says_so() {
    let place = Place::new();
    let base = Lab::base();
    let dir = base.path().to_str().unwrap();
    let limits = ["--set", "postgres.cpus=0.5", "--set", "postgres.memory=256MiB"];
    let drive = ["drive", "select", "--on", "postgres", "--clients", "4", "--for", "2s", "--set", "scale=1"];
    let ran = place.run(&[&drive, &limits[..]].concat()).expect(0);
    ran.says("limit cpus = 0.5 (not none)").says("limit memory = 268435456 (not none)").says("shared_buffers = 64MB");
    let up = place.run(&["lab", "up", "redis", "--keep", "--dir", dir, "--set", "cpus=0.5", "--set", "memory=64MiB"]);
    up.expect(0).says(" of 64 MiB").says(" at 0.5");
    place.run(&["lab", "down"]).expect(0);
}

#[test]
fn whoever_holds_a_lab_is_killed_at_any_moment_and_nothing_is_left() {
    let (place, mut draw) = (Place::new(), Draw::new("lab"));
    for kill in 0..repeats(6, 200) {
        let base = Lab::base();
        let dir = base.path().to_str().unwrap().to_owned();
        let up = ["lab", "up", "redis-sentinel", "--dir", &dir, "--set", "memory=256MiB", "--set", "cpus=1"];
        let holder = place.command(&up).spawn().unwrap();
        let mut holder = Guarded(holder);
        let moment = draw.below(2_500);
        std::thread::sleep(Duration::from_millis(moment));
        let mut down = (kill % 3 == 0).then(|| Guarded(place.command(&["lab", "down"]).spawn().unwrap()));
        if down.is_some() {
            std::thread::sleep(Duration::from_millis(moment % 40));
        }
        let groups = groups_of(base.path());
        holder.0.kill().unwrap();
        holder.0.wait().unwrap();
        assert_nothing_is_in(base.path());
        assert!(groups.iter().all(|group| !group.exists()), "{groups:?}");
        if let Some(down) = &mut down {
            assert!(down.0.wait().unwrap().code().is_some());
        }
        let labs = place.path().join("plimsoll/labs");
        wait_for("its name to be free", GONE, || !labs.join("redis-sentinel").exists());
    }
}

#[test]
fn wrong_inputs_of_labs_are_refused_with_advice() {
    let place = Place::new();
    let refused = |args: &[&str], code: i32, text: &str| {
        place.run(args).expect(code).says(text);
    };
    refused(&["lab", "up", "galaxy"], 2, "unknown store `galaxy`");
    refused(&["lab", "up", "sqlite"], 2, "sqlite runs inside Plimsoll");
    refused(&["lab", "up", "postgres://me@db/shop"], 2, "runs already");
    refused(&["lab", "up", "galera", "--nodes", "0"], 2, "nodes");
    refused(&["lab", "up", "redis", "--nodes", "99"], 2, "nodes");
    refused(&["lab", "up", "redis", "--name", "../x"], 2, "is not a valid name of a lab");
    refused(&["lab", "up", "redis", "--restart", "sometimes"], 2, "use never, on-failure, always");
    refused(&["lab", "up", "redis", "--dir", "/nowhere/at/all"], 8, "/nowhere/at/all");
    refused(&["lab", "up", "mariadb", "--nodes", "3"], 2, "topology");
    refused(&["lab", "up", "postgres-replicas", "--set", "synchronous=5"], 2, "nodes = 6");
    refused(&["lab", "up", "redis", "--set", "sentinels=3"], 2, "Sentinels watch one master and its replicas");
    refused(&["lab", "down"], 2, "no lab stands");
    refused(&["lab", "logs", "none"], 2, "there is no lab `none`");
    refused(&["drive", "kv:a", "--on", "lab:none", "--for", "1s"], 2, "there is no lab `none`");
    refused(
        &["drive", "kv:a", "--on", "sqlite", "--nodes", "3", "--for", "1s"],
        2,
        "is not a cluster that is started here",
    );
    assert!(!place.path().join("plimsoll/labs").exists() || place.run(&["lab", "status"]).code == Some(0));

    let base = Lab::base();
    let dir = base.path().to_str().unwrap();
    let mut holder = Guarded(place.command(&["lab", "up", "redis", "--dir", dir, "--name", "mine"]).spawn().unwrap());
    wait_for("the lab", Duration::from_secs(20), || place.run(&["lab", "status", "mine", "--json"]).code == Some(0));
    refused(&["lab", "up", "redis", "--name", "mine"], 2, "there is a lab `mine` already");
    refused(&["lab", "kill", "mine", "2"], 2, "has no node `2`");
    refused(&["lab", "add", "mine"], 2, "does not accept further nodes while it runs");
    refused(&["lab", "exec", "mine", "1", "--", "/no/such/program"], 2, "/no/such/program");
    place.run(&["lab", "down"]).expect(0).says("lab mine is gone");
    assert_eq!(holder.0.wait().unwrap().code(), Some(0));
    assert_nothing_is_in(base.path());
}

/// `cargo xtask test` installs what this names.
#[test]
#[allow(clippy::print_stdout, reason = "it is read by the program that installs")]
fn what_stores_need_is_installed_for_clusters() {
    let mut all = true;
    for kind in plimsoll_stores::kinds() {
        for preset in kind.spec().presets {
            if let Err(missing) = kind.recipe(&plimsoll_plan::defaults_but(kind.spec().params, preset.params)) {
                all = false;
                preset.packages.iter().for_each(|package| println!("needs\t{package}\t{}: {missing}", preset.name));
            }
        }
    }
    assert!(all, "install these packages");
}
