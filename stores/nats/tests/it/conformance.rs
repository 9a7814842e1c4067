//! What every store is held to.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll_core::{Layout, OpenOptions, Store, Target};
use plimsoll_store_nats::kind;
use plimsoll_testkit::advice::{command, of_error};

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

impl Server {
    fn open(&self, run_id: &str, said: &mut Vec<String>) -> Box<dyn Store> {
        let params = plimsoll_testkit::params::defaults(kind().spec().params);
        let target = Target::Attach { url: self.url.clone(), password: None };
        let options = OpenOptions { target, params, run_id: run_id.to_owned(), waits: Default::default() };
        kind().open(options, &mut |words| said.push(words.to_owned())).unwrap()
    }
}

#[test]
fn a_bucket_that_is_left_is_named_with_the_command_for_its_server_and_without_the_token() {
    let mut server = Server::start();
    for run_id in ["20260102-030405-dead", "results"] {
        // Dropped without being closed, as of a run that was killed.
        server.open(run_id, &mut Vec::new()).create(&Layout::default()).unwrap();
    }
    let mut said = Vec::new();
    let mut store = server.open("test-1", &mut said);
    let (_, address) = server.url.split_once('@').unwrap();
    let del = |bucket: &str| format!("nats --server nats://{address} kv del {bucket}");
    let [note] = &said[..] else { panic!("a bucket without a run's name is none of a run: {said:?}") };
    assert_eq!(command(note), Some(&*del("plimsoll-20260102-030405-dead")));
    assert!(note.contains("with NATS_USER set, ") && !note.contains("s3cret"), "{note}");
    store.create(&Layout::default()).unwrap();
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let error = store.close().unwrap_err();
    assert_eq!(of_error(&error), del("plimsoll-test-1"));
    assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
}
