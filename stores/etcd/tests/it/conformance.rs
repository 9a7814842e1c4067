//! What every store is held to.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll_store_etcd::kind;

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
