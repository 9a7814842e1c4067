//! What every store is held to.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll_store_nats::kind;

/// A NATS of the test's own.
struct Server {
    child: Child,
    url: String,
    _dir: tempfile::TempDir,
}

impl Server {
    fn start() -> Server {
        let dir = tempfile::tempdir().unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let file = dir.path().join("nats.conf");
        let store_dir = dir.path().join("data");
        let text = format!(
            "listen: {address}\nmax_payload: 8388608\nauthorization {{ token: s3cret }}\njetstream {{ store_dir: {store_dir:?} }}\n"
        );
        std::fs::write(&file, text).unwrap();
        let child = Command::new("nats-server")
            .arg("--config")
            .arg(file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("nats-server (apt-get install nats-server, or run `cargo xtask test`)");
        let began = Instant::now();
        while std::net::TcpStream::connect(address).is_err() {
            assert!(began.elapsed() < Duration::from_secs(20), "it did not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        Server { child, url: format!("nats://s3cret@{address}"), _dir: dir }
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
