//! Clusters on hosts of their own: made, driven, changed, killed, and gone.

use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use plimsoll_testkit::draw::{Draw, repeats};
use plimsoll_testkit::process::free_port;
use rustix::process::Signal;
use serde_json::Value;

use crate::bench::{Guarded, Place, Ran, left_below, result, wait_for};
use crate::lab_acts::{acts, texts};
use crate::lab_limits::groups_of;
use crate::lab_progress::{SEEN, moves, seen};

/// Longest time until nothing of a lab is left after the end of its holder.
const GONE: Duration = Duration::from_secs(100);

/// A lab of a place, in a directory that servers' users can get to.
pub struct Lab<'a> {
    place: &'a Place,
    pub base: tempfile::TempDir,
    pub name: &'static str,
}

impl<'a> Lab<'a> {
    pub fn base() -> tempfile::TempDir {
        let prefix = format!("cli-test-{}-", std::process::id());
        let base = tempfile::Builder::new().prefix(&prefix).tempdir_in("/var/tmp").unwrap();
        std::fs::set_permissions(base.path(), Permissions::from_mode(0o755)).unwrap();
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

    /// Returns the status. Asks again, a few times, if a node has not answered in time, as on a busy machine.
    pub fn status(&self) -> Value {
        let ask = || -> Value {
            let ran = self.place.run(&["lab", "status", self.name, "--json"]).expect(0);
            serde_json::from_str(&ran.out).unwrap()
        };
        let is_known = |node: &Value| match node["state"].as_str().unwrap() {
            "running" => node["process"].is_u64(),
            state => !["not ready", "not known"].contains(&state),
        };
        let mut status = ask();
        for _ in 0..4 {
            if status["nodes"].as_array().unwrap().iter().all(is_known) {
                break;
            }
            status = ask();
        }
        status
    }

    pub fn states(&self) -> Vec<String> {
        let status = self.status();
        let nodes = status["nodes"].as_array().unwrap();
        nodes.iter().map(|node| node["state"].as_str().unwrap().to_owned()).collect()
    }

    /// Runs `drive` with `options` on it.
    pub fn drive(&self, options: &str) -> Ran {
        self.place.line(&format!("drive {options} --full --on lab:{}", self.name))
    }

    /// Starts `drive` with `options` on it, and waits until it is driven.
    pub fn driving(&self, options: &str) -> Guarded {
        let words = format!("drive {options} --slice 100ms --on lab:{}", self.name);
        self.place.started(&words.split(' ').collect::<Vec<_>>(), 5)
    }

    /// Runs the verb `words` of `lab` on it, with `more`.
    pub fn does(&self, verb: &str, more: &str) -> Ran {
        self.place.line(format!("lab {verb} {} {more}", self.name).trim()).expect(0)
    }

    /// Runs `words` at a node, or beside all.
    pub fn exec(&self, node: &str, words: &[&str]) -> Ran {
        self.place.run(&[&["lab", "exec", self.name, node, "--"], words].concat())
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
    let is_empty = || std::fs::read_dir(base).unwrap().count() == 0;
    wait_for("nothing to be left", GONE, || is_empty() && left_below(base).is_empty());
}

/// Comes up with several nodes, is driven from a host of its own with every answer checked, and goes.
fn is_driven(store: &'static str, nodes: usize) {
    let place = Place::new();
    let options: &[&str] = if store == "nats" { &["--nodes", "3"] } else { &[] };
    let lab = Lab::up(&place, store, options);
    assert_eq!(lab.states(), vec!["running"; nodes]);
    let status = lab.status();
    let all = status["nodes"].as_array().unwrap();
    assert!(all.iter().all(|node| node["address"].as_str().unwrap().starts_with("10.77.0.")), "{status}");
    assert!(!status.to_string().contains("secret"), "{status}");
    let drive = "kv:a --set records=500 --clients 8 --think 5ms --for 1s --goal errors=0%";
    lab.drive(drive).expect(0).says("kept every promise");
    lab.down();
    place.line("lab status").expect(0).says("no lab stands");
}

#[test]
fn postgresql_behind_pgbouncer_is_driven() {
    is_driven("postgres-pgbouncer", 2);
}

#[test]
fn nats_is_driven() {
    is_driven("nats", 3);
}

#[test]
fn galera_is_driven_without_the_nodes_that_do_not_run_and_when_all_were_killed() {
    let place = Place::new();
    // As Galera is, a node may answer with what another has replaced: the ledger says so.
    let lab = Lab::up(&place, "galera", &["--nodes", "3", "--set", "settings=wsrep_sync_wait=15"]);
    let coupons = "coupons --mix update=2,read=3,query=1 --set records=500 --clients 8 --think 5ms --for 2s";
    lab.drive(coupons).expect(0).says("checked answers … were right");
    // When all are killed, the one that got furthest begins the cluster again.
    lab.does("kill", "");
    lab.does("start", "");
    lab.drive(coupons).expect(0).says("checked answers … were right");
    lab.does("kill", "2").says("node 2 killed");
    let oltp = "oltp_point_select --set table_size=100";
    lab.drive(&format!("{oltp} --ops 50")).expect(0).says("MEASURED … node 2 of lab galera is killed");
    assert_eq!(lab.states(), ["running", "killed", "running"]);
    // What joins waits for all others: a dead one is named at once.
    let began = Instant::now();
    let added = place.line(&format!("lab add {}", lab.name)).expect(2);
    added.says("node 2 of lab galera is killed … → plimsoll lab start galera 2, or plimsoll lab remove galera 2");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert_eq!(lab.status()["nodes"][1]["number"], 2);
    lab.down();
}

/// Returns how many operations of the newest run's drive are recorded so far.
fn answered(place: &Place) -> u64 {
    place.slices().iter().flat_map(|slice| &slice.histograms).map(|one| one.histogram.len()).sum()
}

/// Returns how many operations each node answered in the latest run's drive.
pub fn counts(place: &Place) -> Vec<(String, u64)> {
    let nodes = place.driven()["nodes"].as_array().cloned().unwrap_or_default();
    nodes.iter().map(|node| (node["name"].as_str().unwrap().to_owned(), node["count"].as_u64().unwrap())).collect()
}

#[test]
fn sessions_go_to_the_master_that_sentinels_make_meanwhile() {
    let (place, elsewhere) = (Place::new(), Place::new());
    let lab = Lab::up(&place, "redis-sentinel", &[]);
    let program = env!("CARGO_BIN_EXE_plimsoll");
    // Of reads alone: a replica may lack what its master has acknowledged, and the ledger would say so.
    let reads = "kv --mix read=1 --set records=300 --clients 4 --think 10ms --for";
    let on = |url: &str, more: &str| {
        let words = format!("lab exec redis-sentinel load -- {program} drive {reads} 1s --on {url} {more}");
        place.line(words.trim())
    };
    let sentinels = "redis+sentinel://10.77.0.1:1,10.77.0.2:26379/";
    on(&format!("{sentinels}other"), "").expect(2).says("know of no master `other`");
    on(&format!("{sentinels}plimsoll"), "--set redis.reads=replicas").expect(0);
    assert_eq!(counts(&place).len(), 2, "{:?}", counts(&place));
    // Sessions of the lab, and sessions of a URL with Sentinels.
    let home = format!("XDG_STATE_HOME={}", elsewhere.path().display());
    let url = "redis-sentinel://10.77.0.2,10.77.0.3/0?sentinelMasterId=plimsoll";
    let words = format!("lab exec redis-sentinel load -- env {home} {program} drive {reads} 120s --on {url} -q");
    // A run on the lab itself removes what it finds: it begins first and ends last.
    let of_lab = lab.driving(&format!("{reads} 120s"));
    let of_url = Guarded(place.command(&words.split(' ').collect::<Vec<_>>()).spawn().unwrap());
    let done = || [&place, &elsewhere].map(answered);
    // More than a warm-up, which does not count.
    wait_for("both drives", Duration::from_secs(200), || done().iter().all(|count| *count > 1_000));
    lab.does("kill", "1");
    let roles = || -> Vec<String> {
        let status = lab.status();
        let nodes = status["nodes"].as_array().unwrap().iter();
        nodes.map(|node| node["role"].as_str().unwrap().to_owned()).collect()
    };
    // A busy machine takes its time to agree on a new master.
    wait_for("a new master", Duration::from_secs(200), || roles().iter().any(|role| role == "master"));
    let before = done();
    wait_for("the new master's answers", Duration::from_secs(200), || {
        done().iter().zip(before).all(|(now, before)| *now > before + 200)
    });
    of_url.signal(Signal::INT);
    of_url.ended().expect(130);
    of_lab.signal(Signal::INT);
    of_lab.ended().expect(130);
    for place in [&place, &elsewhere] {
        let counts = counts(place);
        assert!(counts.len() == 2 && counts.iter().all(|(_, count)| *count > 10), "{counts:?}");
    }
    assert_eq!(counts(&place)[0].0, "redis-sentinel node 1");
    let found = roles();
    assert_eq!(found[0], "initially master", "it does not run, and cannot be asked");
    assert_eq!(found.iter().filter(|role| *role == "master").count(), 1, "{found:?}");
    // The new master is driven alone, and then with the old one as its replica.
    let kv = "kv:a --set records=500 --think 2ms --for 1s";
    lab.drive(kv).expect(0).says("kept every promise … node 1 of lab redis-sentinel is killed");
    lab.does("start", "");
    lab.drive(kv).expect(0).says("kept every promise");
    wait_for("the former master to follow", SEEN, || roles()[0] == "replica");
    lab.down();
}

#[test]
fn nodes_are_killed_started_added_removed_and_looked_into() {
    let place = Place::new();
    let lab = Lab::up(&place, "postgres-replicas", &["--nodes", "2"]);
    let address = place.line("lab exec 2 -- cat /proc/self/net/fib_trie").expect(0);
    assert!(address.out.contains("10.77.0.2") && !address.out.contains("10.77.0.1\n"), "{}", address.out);
    lab.exec("load", &["cat", "/proc/self/net/fib_trie"]).expect(0).says("10.77.255.254");
    lab.exec("1", &["false"]).expect(1);

    lab.does("kill", "2").says("node 2 killed");
    assert_eq!(lab.states(), ["running", "killed"]);
    place.line("lab start 2").expect(0).says("node 2 ready");
    place.line("lab pause 2").expect(0);
    assert_eq!(lab.states(), ["running", "paused"]);
    place.line("lab resume 2").expect(0);
    place.line("lab add").expect(0).says("node 3 has joined");
    lab.does("remove", "2").says("node 2 has left");
    place.refuses(&[("lab remove postgres-replicas 1", "cannot do without its primary")]);
    place.line("lab status").expect(0).says("PostgreSQL … primary");
    lab.does("logs", "3 -n 500").says("started streaming WAL");

    // A command of another release is refused with a way out.
    let directory = std::fs::File::open(place.path().join("plimsoll/labs").join(lab.name)).unwrap();
    let mut socket = UnixStream::connect(format!("/proc/self/fd/{}/socket", directory.as_raw_fd())).unwrap();
    socket.write_all(b"{\"process\":1,\"request\":\"of-later\"}\n").unwrap();
    let mut refused = String::new();
    socket.read_to_string(&mut refused).unwrap();
    assert!(refused.contains("malformed request") && refused.contains("plimsoll lab down"), "{refused}");

    // What fails by itself is started again.
    let process = lab.status()["nodes"][0]["process"].as_u64().unwrap();
    let pid = rustix::process::Pid::from_raw(process as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    wait_for("the primary to be back", Duration::from_secs(200), || {
        let node = &lab.status()["nodes"][0];
        node["state"] == "running" && node["restarts"] == 1
    });
    lab.drive("kv:a --set records=1000 --think 2ms --for 1s").expect(0).says("kept every promise");
    // A second run finds nothing of the first.
    lab.drive("select --ops 20").expect(0);
    lab.down();
}

#[test]
fn a_link_delays_what_goes_to_a_node_until_it_is_plain_again() {
    let place = Place::new();
    let lab = Lab::up(&place, "redis-sentinel", &["--set", "sentinels=0", "--set", "replicas=1"]);
    let median = || {
        lab.drive("kv --mix read=1 --set records=100 --ops 200").expect(0);
        place.driven()["latencies"][0]["percentiles"][0]["ns"].as_f64().unwrap() / 1e6
    };
    let plain = median();
    place.line("lab link 1 --delay 10ms --jitter 1ms").expect(0).says("10ms ± 1ms one way");
    // A busy machine makes all of them longer, but not each time.
    let slow = (0..3).map(|_| median()).find(|slow| slow - plain < 39.0).expect("a delay of 10 ms");
    assert!(slow >= 19.0, "{plain} ms, then {slow} ms");
    place.line("lab link").expect(0).says("10ms ± 1ms one way");
    place.line("lab status").expect(0).says("link: 10ms");
    place.line("lab link --plain").expect(0).says("plain");
    assert!((0..3).any(|_| median() < slow - 9.0), "{slow} ms, and no less again");
    // Options that change nothing are options, too.
    place.line("lab link 1 --delay 5ms").expect(0);
    place.line("lab link 1 --delay 0ms").expect(0).says("node 1: plain");
    place.line("lab link 1 --loss 0%").expect(0).says("node 1: plain");
    place
        .line("lab link 1 --duplicate 1% --corrupt 2%")
        .expect(0)
        .says("1 % of packets duplicated, 2 % of packets corrupted");
    place.line("lab link 1 --delay 1ms --reorder 5%").expect(0).says("5 % of packets reordered");
    place.line("lab link 1 --close 2s").expect(0).says("node 1: packets with FIN 2s later");
    place.line("lab link --plain").expect(0).says("plain");
    // From outside of the lab it is reached at a port of this machine.
    let port = free_port().to_string();
    let published = Guarded(place.command(&["lab", "publish", "1", "--port", &port]).spawn().unwrap());
    wait_for("an answer", Duration::from_secs(100), || answer(&port).is_some_and(|text| text.starts_with(['+', '-'])));
    place.run(&["lab", "publish", "--port", &port]).expect(6).says(&port);
    drop(published);
    wait_for("the port to be free", GONE, || answer(&port).is_none());
    place.refuses(&[("lab link 1 --loss 150%", "a share from 0 to 1"), ("lab link 1 --rate fast", "write 50Mbit")]);
    place.refuses(&[("lab link 1 --close 61s", "at most 60 s"), ("lab link 1 --close 2", "needs a unit")]);
    // A copy that a replica makes of its master is seen.
    let fill = "for i = 1, 100000 do redis.call('SET', 'key' .. i, string.rep(tostring(i), 60)) end return 'filled'";
    lab.exec("1", &["redis-cli", "-h", "10.77.0.1", "EVAL", fill, "0"]).expect(0).says("filled");
    lab.does("kill", "2");
    place.line("lab link 1 --rate 2Mbit").expect(0);
    let _start = Guarded(place.command(&["lab", "start", "2"]).spawn().unwrap());
    moves(&lab, 2, "copy of its master");
    place.line("lab link --plain").expect(0);
    wait_for("the copy's end", SEEN, || seen(&lab, 2, "copy of its master").is_none());
    lab.down();
}

#[test]
fn a_drive_over_a_link_with_a_limit_is_bound_by_it() {
    let place = Place::new();
    let lab = Lab::up(&place, "redis-sentinel", &["--set", "sentinels=0", "--set", "replicas=1"]);
    lab.does("link", "1 --rate 4Mbit");
    lab.drive("kv --mix read=1 --set records=500 --clients 16 --for 14s").expect(0);
    let report = place.report();
    let is_of_link = |finding: &Value| {
        let sentence = finding["sentence"].as_str().unwrap();
        finding["rule"] == "bound" && sentence.contains("node 1 eth0 sent ") && sentence.contains(" limit of its link")
    };
    assert!(report["findings"].as_array().unwrap().iter().any(is_of_link), "{}", report["findings"]);
    lab.down();
}

#[test]
fn a_cluster_of_redis_is_found_by_any_node_and_the_node_that_answers_slowest_is_named() {
    let place = Place::new();
    let lab = Lab::up(&place, "redis-cluster", &[]);
    let program = env!("CARGO_BIN_EXE_plimsoll");
    lab.drive("kv:a --set records=1000 --clients 8 --think 5ms --for 1s --goal errors=0%")
        .expect(0)
        .says("kept every promise");
    let seeds = "--on redis://10.77.0.1:1,10.77.0.2:6379,10.77.0.3/ --ops 300";
    let drive = format!("{program} drive kv --mix read=1 --set records=300 --clients 3 {seeds}");
    lab.exec("load", &drive.split(' ').collect::<Vec<_>>()).expect(0).says("kept every promise");
    assert_eq!(counts(&place).len(), 3, "{:?}", counts(&place));
    place.line("lab link 2 --delay 10ms").expect(0);
    let ran = lab.drive("kv --mix read=1 --set records=300 --clients 16 --for 2s").expect(0);
    ran.says("redis-cluster node 2 answers slowest: p50 ");
    // Each operation is one node's, and none is counted twice.
    let counts: Vec<u64> = counts(&place).into_iter().map(|(_, count)| count).collect();
    let all = place.driven()["ops"]["count"].as_u64().unwrap();
    assert_eq!((counts.len(), counts.iter().sum::<u64>()), (3, all), "{counts:?}");
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
    std::fs::set_permissions(base.path(), Permissions::from_mode(0o777)).unwrap();
    // The build's own directory may be closed to others.
    let program = base.path().join("plimsoll");
    std::fs::copy(env!("CARGO_BIN_EXE_plimsoll"), &program).unwrap();
    let run = |words: &str| {
        let mut command = std::process::Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(&program).args(words.split(' '));
        let home = base.path().join("home");
        command.env("XDG_STATE_HOME", &home).env("HOME", &home).current_dir("/").stdin(std::process::Stdio::null());
        Ran::of(&command.output().unwrap())
    };
    run(&format!("lab up postgres-replicas --nodes 2 --keep --dir {}", base.path().display())).expect(0);
    let address = run("lab exec 2 -- cat /proc/self/net/fib_trie");
    let driven = run("drive kv:a --set records=500 --on lab:postgres-replicas --ops 100");
    run("lab down").expect(0);
    driven.expect(0).says("kept every promise");
    assert!(address.expect(0).out.contains("10.77.0.2"));
    // One for the run alone goes with it.
    run("drive kv:a --set records=500 --on redis-sentinel --ops 100").expect(0).says("kept every promise");
    run("lab status").expect(0).says("no lab stands");
}

#[test]
fn a_drive_ends_when_its_lab_goes_down() {
    let (place, base) = (Place::new(), Lab::base());
    place.line(&format!("lab up --keep --dir {} -- redis", base.path().display())).expect(0);
    let load = "drive kv --set records=500 --on lab:redis --think 5ms --slice 100ms --for 300s";
    let driven = place.started(&load.split(' ').collect::<Vec<_>>(), 2);
    place.line("lab down").expect(0);
    let down = std::time::Instant::now();
    driven.ended().expect(3).says("no server of the lab runs");
    assert_eq!(texts(&acts(&place)).pop(), Some("lab down redis"));
    assert!(down.elapsed() < Duration::from_secs(200), "{:?}", down.elapsed());
}

#[test]
fn whoever_holds_a_lab_is_killed_at_any_moment_and_nothing_is_left() {
    let (place, mut draw) = (Place::new(), Draw::new("lab"));
    for kill in 0..repeats(6, 200) {
        let base = Lab::base();
        let dir = base.path().to_str().unwrap().to_owned();
        let up = ["lab", "up", "redis-sentinel", "--dir", &dir, "--set", "memory=256MiB", "--set", "cpus=1"];
        let mut holder = Guarded(place.command(&up).spawn().unwrap());
        let moment = draw.below(2_500);
        std::thread::sleep(Duration::from_millis(moment));
        let mut down = (kill % 3 == 0).then(|| Guarded(place.command(&["lab", "down"]).spawn().unwrap()));
        if down.is_some() {
            std::thread::sleep(Duration::from_millis(moment % 40));
        }
        let groups = groups_of(base.path());
        holder.kill();
        assert_nothing_is_in(base.path());
        // They go after the files.
        wait_for("its control groups to be gone", GONE, || groups.iter().all(|group| !group.exists()));
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
    place.refuses(&[
        ("lab up galaxy", "unknown store `galaxy`"),
        ("lab up sqlite", "sqlite runs inside Plimsoll"),
        ("lab up postgres://me@db/shop", "runs already"),
        ("lab up galera --nodes 0", "nodes"),
        ("lab up redis --nodes 99", "nodes"),
        ("lab up redis --name ../x", "is not a valid name of a lab"),
        ("lab up redis --restart sometimes", "use never, on-failure, always"),
        ("lab up mariadb --nodes 3", "topology"),
        ("lab up postgres-replicas --set synchronous=5", "nodes = 6"),
        ("lab up postgres-patroni --nodes 2", "nodes = 3"),
        ("lab up postgres-patroni --set ttl=20s", "Use ttl = \"30s\""),
        ("lab up postgres-patroni --set ttl=30500ms", "a whole number of seconds"),
        ("lab up postgres-patroni --set haproxy=true", "Leave `haproxy` and `pgbouncer` out"),
        ("lab up redis --set sentinels=3", "Sentinels watch one master and its replicas"),
        ("lab down", "no lab stands"),
        ("lab logs none", "there is no lab `none`"),
        ("drive kv:a --on lab:none --for 1s", "there is no lab `none`"),
        ("drive kv:a --on sqlite --nodes 3 --for 1s", "is not a cluster that is started here"),
    ]);
    place.line("lab up redis --dir /nowhere/at/all").expect(8).says("/nowhere/at/all");
    assert!(!place.path().join("plimsoll/labs").exists() || place.line("lab status").code == Some(0));

    let base = Lab::base();
    let dir = base.path().to_str().unwrap();
    let holder = Guarded(place.command(&["lab", "up", "redis", "--dir", dir, "--name", "mine"]).spawn().unwrap());
    wait_for("the lab", Duration::from_secs(100), || place.line("lab status mine --json").code == Some(0));
    place.refuses(&[
        ("lab up redis --name mine", "there is a lab `mine` already"),
        ("lab kill mine 2", "has no node `2`"),
        ("lab add mine", "does not accept further nodes while it runs"),
        ("lab exec mine 1 -- /no/such/program", "/no/such/program"),
        ("lab reload mine", "at its start only … ends its sessions"),
    ]);
    place.line("lab down").expect(0).says("lab mine is gone");
    holder.ended().expect(0);
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

mod heavy {
    use super::*;

    #[test]
    fn clients_of_galera_go_to_another_node_and_of_two_that_do_not_run_none_is_removed() {
        let place = Place::new();
        let lab = Lab::up(&place, "galera", &["--nodes", "3", "--set", "settings=wsrep_sync_wait=15"]);
        let oltp = "oltp_point_select --set table_size=100";
        lab.does("kill", "2");
        // Of all nodes those are started that do not run, and clients find the way in.
        lab.does("start", "");
        let own = "wsrep_cluster_status Primary, wsrep_local_state_comment Synced, wsrep_cluster_size 3";
        place.line("lab status").expect(0).says(own);
        assert_eq!(lab.status()["nodes"][2]["own_state"], own);
        lab.does("pause", "1 3").says("nodes 1, 3 paused");
        // Of two that do not run none can be removed, and none is advised to be.
        let removed = place.line(&format!("lab remove {} 3", lab.name)).expect(2);
        let removed = removed.says("node 1 of lab galera is paused … → plimsoll lab resume galera 1");
        assert!(!removed.err.contains("lab remove"), "{}", removed.err);
        lab.does("resume", "1 3");
        let count = ["mariadb", "-uplimsoll", "-e", "SHOW STATUS LIKE 'wsrep_cluster_size'"];
        lab.exec("2", &count).expect(0).says("3");
        // A session whose node is gone goes to the next one.
        // As many operations as a slow machine still does when the node is killed.
        let driving = lab.driving(&format!("{oltp} --ops 500 --think 9ms --clients 3 --set max_tries=9"));
        lab.does("kill", "3");
        driving.ended().expect(0);
        let phase = place.driven();
        assert_eq!(phase["nodes"].as_array().unwrap().len(), 3);
        // It ends with an operation in flight, or between two.
        let ended = result(&phase, "lost_connections") + result(&phase, "ended_connections");
        assert!(ended >= 1.0 && result(&phase, "failed_connects") <= 2.0, "{phase}");
        lab.down();
    }
}
