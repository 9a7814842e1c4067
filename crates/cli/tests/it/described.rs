//! Servers that a plan describes: made, driven, restarted, and gone.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use crate::bench::{Place, wait_for};

/// Ten lines that describe a server: an nginx, with a configuration of its own.
const NGINX: &str = r#"
workload.name = "http"
[[stores]]
store = "http://127.0.0.1:{port}"
command = "nginx -e stderr -p {data} -c {data}/my.conf"
set_up = "mkdir {data}/tmp"
[stores.files]
"my.conf" = """daemon off; pid {data}/pid; events {} http { access_log off; client_body_temp_path {data}/tmp;
proxy_temp_path {data}/tmp; fastcgi_temp_path {data}/tmp; uwsgi_temp_path {data}/tmp; scgi_temp_path {data}/tmp;
server { listen 127.0.0.1:{port}; location / { return 200 first; } } }"""
[[phase]]
do = "drive"
think = "2ms"
for = "1s"
"#;

/// A server whose data outlive it, and that says itself when it is ready.
const REDIS: &str = r#"
workload = { name = "kv:a", records = 500 }
[[stores]]
store = "redis://127.0.0.1:{port}"
command = "redis-server --bind 127.0.0.1 --port {port} --dir {data} --appendonly yes --appendfsync always"
ready = "redis-cli -p {port} ping | grep -q PONG"
cpus = "0.9"
[[phase]]
do = "load"
[[phase]]
do = "drive"
think = "2ms"
for = "1s"
"#;

fn answer(port: &str) -> String {
    let mut socket = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    socket.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    // One that reads its settings again may end connections.
    let _ = socket.read_to_string(&mut text);
    text
}

#[test]
fn a_server_that_a_plan_describes_is_run_and_driven_and_its_data_are_checked() {
    let place = Place::new();
    place.run(&["run", &place.plan(REDIS), "--full"]).expect(0).says("PASS … limit cpus = 0.9 … redis-server");
    place.run(&["run", &place.plan(NGINX)]).expect(0).says("MEASURED");
}

#[test]
fn a_lab_of_a_described_server_is_driven_reloaded_killed_and_started_again() {
    let place = Place::new();
    let plan = place.plan(NGINX);
    place.run(&["lab", "up", &plan, "--keep", "--name", "mine"]).expect(0).says("--on lab:mine");
    let status =
        || -> Value { serde_json::from_str(&place.run(&["lab", "status", "mine", "--json"]).expect(0).out).unwrap() };
    let node = status()["nodes"][0].clone();
    let port = node["ports"][0].to_string();
    assert!(answer(&port).ends_with("first"));
    let path = format!("{}/data/my.conf", node["directory"].as_str().unwrap());
    let changed = std::fs::read_to_string(&path).unwrap().replace("first", "second");
    std::fs::write(&path, changed).unwrap();
    place.run(&["lab", "reload", "mine"]).expect(0);
    wait_for("its settings", Duration::from_secs(100), || answer(&port).ends_with("second"));
    place.run(&["drive", "http", "--on", "lab:mine", "--think", "2ms", "--for", "1s"]).expect(0).says("MEASURED");
    place.run(&["lab", "kill", "mine"]).expect(0);
    place.run(&["lab", "start", "mine"]).expect(0);
    assert!(answer(&port).ends_with("second"));
    place.run(&["lab", "down", "mine"]).expect(0);
}

#[test]
fn what_describes_no_server_is_refused_with_its_place() {
    let place = Place::new();
    let wrong = |lines: &str, code: i32, text: &str| {
        let plan = format!("workload.name = \"kv:a\"\n[[stores]]\n{lines}\n[[phase]]\ndo = \"load\"\n");
        place.run(&["run", &place.plan(&plan)]).expect(code).says(text);
    };
    let url = "store = \"redis://127.0.0.1:{port}\"";
    wrong(&format!("{url}\nready = \"true\""), 2, ":4:");
    wrong("store = \"redis://127.0.0.1:6379\"\ncommand = \"x\"", 2, "neither {port} nor {sockets}");
    wrong("store = \"redis\"\ncommand = \"x\"", 2, "command");
    wrong(&format!("{url}\ncommand = '/opt/a\"b/server'"), 2, "a quote in `command` is not closed");
    wrong(&format!("{url}\ncommand = \"x\"\nready = \"echo it's\""), 2, "a quote in `ready` is not closed");
    for file in ["../x", "/etc/x", "a/../../x", "..", ".", "./x", "a//x", "a/", "", "a\\nb"] {
        let files = format!("{url}\ncommand = \"x\"\nfiles = {{ \"{file}\" = \"\" }}");
        wrong(&files, 2, "name a file below the server's data directory");
    }
    wrong(&format!("{url}\ncommand = \"/no/such/server\""), 5, "/no/such/server … is not there");
    wrong(&format!("{url}\nset_up = \"echo no room; exit 3\"\ncommand = \"true\""), 9, "no room");
}
