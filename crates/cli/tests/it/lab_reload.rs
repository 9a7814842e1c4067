//! Servers that read their settings again under a load, and go on.

use std::time::Duration;

use crate::bench::Place;
use crate::lab::Lab;

/// An HAProxy that answers by itself: its master begins another worker on SIGUSR2, and the old one finishes what it has.
const HAPROXY: &str = r#"
workload.name = "http"
[[stores]]
store = "http://127.0.0.1:{port}"
command = "haproxy -W -db -f {data}/my.cfg -p {data}/pid"
reload = "kill -USR2 $(cat {data}/pid)"
[stores.files]
"my.cfg" = """
defaults
  mode http
  timeout client 10s
  timeout server 10s
  timeout connect 10s
frontend f
  bind 127.0.0.1:{port}
  http-request return status 200 content-type text/plain string first
"""
[[phase]]
do = "drive"
for = "1s"
"#;

/// Drives a lab with new connections and reloads it three times meanwhile: every request is answered.
fn no_request_fails(place: &Place, name: &str) {
    let on = format!("lab:{name}");
    let drive = ["drive", "http", "--on", &on, "--clients", "8", "--for", "4s", "--reconnect", "1", "--slice", "100ms"];
    let driven = place.started(&[&drive[..], &["--goal", "errors=0%"]].concat(), 4);
    for _ in 0..3 {
        place.run(&["lab", "reload", name]).expect(0).says("reloaded");
        std::thread::sleep(Duration::from_millis(700));
    }
    driven.ended().expect(0);
    let ops = &place.driven()["ops"];
    assert!(ops["count"].as_u64().unwrap() > 200 && ops["rejected"] == 0 && ops["unknown"] == 0, "{ops}");
}

/// Ids of the processes that a process has begun.
fn children(pid: u64) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap()
}

#[test]
fn no_request_fails_while_nginx_replaces_its_workers() {
    let place = Place::new();
    let lab = Lab::up(&place, "http", &[]);
    let pid = lab.status()["nodes"][0]["process"].as_u64().unwrap();
    let before = children(pid);
    no_request_fails(&place, "http");
    let status = lab.status();
    assert!(children(pid) != before && !before.is_empty(), "new workers: {before}");
    assert_eq!((status["nodes"][0]["process"].as_u64(), &status["nodes"][0]["restarts"]), (Some(pid), &0.into()));
    lab.down();
}

#[test]
fn no_request_fails_while_haproxy_reloads_as_its_plan_says() {
    let place = Place::new();
    let plan = place.plan(HAPROXY);
    place.run(&["lab", "up", &plan, "--keep", "--name", "proxy"]).expect(0);
    no_request_fails(&place, "proxy");
    place.run(&["lab", "down", "proxy"]).expect(0);
}
