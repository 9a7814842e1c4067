//! Planned work of stores, as their own numbers and files show it to others.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use plimsoll_testkit::draw::repeats;
use rustix::process::Signal;
use serde_json::Value;

use crate::bench::{Guarded, Place, servers, wait_for};
use crate::faults::{are_healed, seconds};
use crate::kill::server_directories;

/// Longest time until work begins, or has ended.
const BOUND: Duration = Duration::from_secs(200);

/// Returns the output of a client that succeeds.
fn told(client: &mut Command) -> Option<String> {
    let output = client.output().expect("redis-tools, mariadb-client: `cargo xtask test` installs them");
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the number behind `name` at the beginning of a line.
fn number(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

/// Returns the metrics of the etcd that a run has started.
fn metrics(run: &Guarded) -> Option<String> {
    let process = servers(run.0.id(), "etcd").first().copied()?;
    let command = std::fs::read(format!("/proc/{process}/cmdline")).ok()?;
    let command = String::from_utf8_lossy(&command).into_owned();
    let address = command.split('\0').find_map(|word| word.strip_prefix("--listen-client-urls=http://"))?;
    let (mut socket, mut text) = (TcpStream::connect(address).ok()?, String::new());
    socket.write_all(b"GET /metrics HTTP/1.0\r\nHost: etcd\r\n\r\n").ok()?;
    socket.read_to_string(&mut text).ok()?;
    Some(text)
}

/// Returns two numbers of the server that a run has started: each of the first two works of its store changes one of them.
fn marks(store: &str, place: &Place, run: &Guarded) -> Option<[u64; 2]> {
    let directories = server_directories(place, run.0.id());
    let find = |name: &str| -> Option<PathBuf> {
        let paths =
            directories.iter().flat_map(|directory| ["", "sockets", "data"].map(|folder| directory.join(folder)));
        paths.map(|path| path.join(name)).find(|path| path.exists())
    };
    match store {
        "redis" => {
            let text =
                told(Command::new("redis-cli").arg("-s").arg(find("redis.sock")?).args(["INFO", "persistence"]))?;
            Some([number(&text, "rdb_saves:")?, number(&text, "aof_rewrites:")?])
        }
        "mariadb" => {
            // A dump in one transaction has savepoints.
            let names = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Com_savepoint', 'Com_optimize')";
            let mut client = Command::new("mariadb");
            client.args(["--no-defaults", "-u", "root", "-N", "-B", "-e", names, "-S"]).arg(find("socket")?);
            let text = told(&mut client)?;
            Some([number(&text, "Com_savepoint")?, number(&text, "Com_optimize")?])
        }
        "etcd" => {
            let snapshots = "grpc_server_started_total{grpc_method=\"Snapshot\",\
                             grpc_service=\"etcdserverpb.Maintenance\",grpc_type=\"server_stream\"}";
            // A defragmented database is another file.
            let database = std::fs::metadata(find("etcd/member/snap/db")?).ok()?;
            Some([number(&metrics(run)?, snapshots)?, database.ino()])
        }
        _ => None,
    }
}

#[test]
fn each_store_does_the_work_that_it_names() {
    let all = [
        ("redis", "kv", ["records=300", "read=1,update=1"], &["save", "rewrite"][..]),
        ("mariadb", "oltp", ["table_size=500", "read_write"], &["backup", "optimize", "alter"]),
        ("etcd", "kv", ["records=300", "read=1,update=1"], &["snapshot", "defragment"]),
        ("postgres-replicas", "kv", ["records=300", "read=1,update=1"], &["backup all", "vacuum"]),
    ];
    for (store, workload, [setting, mix], works) in all.into_iter().take(repeats(3, 4)) {
        let place = Place::new();
        // The first fault lets the test look at the server between the load of the data and the works.
        let [begun, go] = ["begun", "go"].map(|name| place.path().join(name));
        let mut faults = vec![format!(
            "run \"touch {}; until test -e {}; do sleep 0.02; done\" at 100ms",
            begun.display(),
            go.display()
        )];
        faults.extend(works.iter().zip(1..).map(|(work, before)| format!("work {work} at 0s after fault {before}")));
        let count = faults.len();
        let faults: Vec<&str> = faults.iter().flat_map(|fault| ["--fault", fault.as_str()]).collect();
        let load = ["drive", workload, "--set", setting, "--mix", mix, "--clients", "2", "--think", "10ms"];
        let nodes: &[&str] = if store == "postgres-replicas" { &["--nodes", "2"] } else { &[] };
        let line = ["--on", store, "--for", "300s", "--allow-fault", "-q"];
        let run = place.recording(&[&load[..], &line, nodes, &faults].concat());
        wait_for("the load", BOUND, || begun.exists());
        let before = marks(store, &place, &run);
        File::create(go).unwrap();
        wait_for("the works' end", BOUND, || are_healed(&place, count));
        let after = marks(store, &place, &run);
        run.signal(Signal::INT);
        run.ended().expect(130);
        let report = place.report();
        let found = report["faults"].as_array().unwrap();
        let is_done = |fault: &Value| fault["error"].is_null() && seconds(fault, "healed_s") > 0.0;
        assert!(found.len() == count && found.iter().all(is_done), "{store}: {found:?}");
        if store != "postgres-replicas" {
            let (before, after) = (before.expect(store), after.expect(store));
            let are_changed = before.iter().zip(&after).all(|(before, after)| before != after);
            assert!(are_changed, "{store}, {works:?}: {before:?}, then {after:?}");
        }
    }
}
