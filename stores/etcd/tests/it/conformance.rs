//! What every store is held to.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll_core::{Layout, OpenOptions, Store, Target};
use plimsoll_store_etcd::kind;
use plimsoll_testkit::advice::{follow, of_error};

/// An etcd of the test's own.
struct Server {
    child: Child,
    url: String,
    _dir: tempfile::TempDir,
}

impl Server {
    fn start() -> Server {
        let dir = tempfile::tempdir().unwrap();
        let [client, peer] = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
        let (client_url, peer_url) = (format!("http://{client}"), format!("http://{peer}"));
        let child = Command::new("etcd")
            .arg("--data-dir")
            .arg(dir.path())
            .args(["--listen-client-urls", &client_url, "--advertise-client-urls", &client_url])
            .args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url])
            .args(["--initial-cluster", &format!("default={peer_url}")])
            .args(["--max-request-bytes", "8388608"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("etcd (apt-get install etcd-server, or run `cargo xtask test`)");
        let began = Instant::now();
        while std::net::TcpStream::connect(client).is_err() {
            assert!(began.elapsed() < Duration::from_secs(20), "it did not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        Server { child, url: format!("etcd://{client}"), _dir: dir }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_private_server_conforms() {
    plimsoll_testkit::conformance::run(&*kind());
}

#[test]
fn an_attached_server_conforms() {
    let server = Server::start();
    plimsoll_testkit::conformance::run_attached(&*kind(), &server.url, None);
}

impl Server {
    fn open(&self, run_id: &str, said: &mut Vec<String>) -> Box<dyn Store> {
        let params = plimsoll_testkit::params::defaults(kind().spec().params);
        let target = Target::Attach { url: self.url.clone(), password: None };
        let options = OpenOptions { target, params, run_id: run_id.to_owned(), waits: Default::default() };
        kind().open(options, &mut |words| said.push(words.to_owned())).unwrap()
    }

    /// Runs etcdctl, which says what it did.
    fn ask(&self, words: &[&str]) -> String {
        let hosts = self.url.strip_prefix("etcd://").unwrap();
        let output = Command::new("etcdctl").args(["--endpoints", hosts]).args(words).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

#[test]
fn keys_of_a_run_that_was_killed_are_named_with_the_command_that_removes_them() {
    let server = Server::start();
    for key in ["own", "plimsoll:20260102-030405-dead:k", "plimsoll:results:k"] {
        server.ask(&["put", key, "1"]);
    }
    let mut said = Vec::new();
    server.open("next", &mut said);
    let command = follow(&said, &[]);
    let hosts = server.url.strip_prefix("etcd://").unwrap();
    assert_eq!(command, format!("etcdctl --endpoints {hosts} del --prefix plimsoll:20260102-030405-dead:"));
    assert_eq!(server.ask(&["get", "", "--prefix", "--keys-only"]), "own\n\nplimsoll:results:k\n\n");
    said.clear();
    server.open("next", &mut said);
    assert_eq!(said, [""; 0], "a key that has no run's name is none of a run");
}

#[test]
fn keys_that_cannot_be_removed_are_named_with_the_command_for_their_server() {
    let mut server = Server::start();
    let mut store = server.open("test-1", &mut Vec::new());
    store.create(&Layout::default()).unwrap();
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let error = store.close().unwrap_err();
    let hosts = server.url.strip_prefix("etcd://").unwrap();
    assert_eq!(of_error(&error), format!("etcdctl --endpoints {hosts} del --prefix plimsoll:test-1:"));
}
