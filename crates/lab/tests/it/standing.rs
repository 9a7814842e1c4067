//! Running labs: how they are found, the operations on them, and which nodes restart by themselves.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plimsoll_core::{
    Nodes, OpenOptions, Removal, Servers, Store, StoreError, StoreErrorKind, StoreKind, StoreSpec, Target,
};
use plimsoll_lab::standing::{self, Lab, LabDescription, LabDirectory, NodeState, Restart};

use plimsoll_lab::hosts::client_host;
use plimsoll_lab::{PrivilegedFault, Supervisor};
use rustix::thread::CapabilitySet;

use crate::cluster::{COUNTS, start_on};
use crate::{IdleStore, base, wait_for};

/// Takes capabilities from the calling thread, and so from those that it starts.
fn lose(lacks: CapabilitySet) {
    let mut sets = rustix::thread::capabilities(None).unwrap();
    sets.effective.remove(lacks);
    rustix::thread::set_capabilities(None, sets).unwrap();
}

/// A lab of shells in its own thread, and the flag that ends it.
struct LabThread {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl LabThread {
    fn new(base: &Path, name: &str, restart: Restart, script: &'static str) -> Self {
        Self::held_by(base, name, restart, script, None, CapabilitySet::empty())
    }

    fn at_url(base: &Path, name: &str, restart: Restart, script: &'static str, url: Option<String>) -> Self {
        Self::held_by(base, name, restart, script, url, CapabilitySet::empty())
    }

    /// Starts a lab that a thread without some capabilities holds.
    fn held_by(
        base: &Path,
        name: &str,
        restart: Restart,
        script: &'static str,
        url: Option<String>,
        lacks: CapabilitySet,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, base, name) = (Arc::clone(&stop), base.to_owned(), name.to_owned());
        let (says, stands) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let entry = LabDirectory::take(&base.join("labs"), &name, &Supervisor::start().unwrap()).unwrap();
            let cluster = start_on(&base, 2, 2, script).unwrap();
            let about = LabDescription {
                store: "shell".to_owned(),
                made_as: "shells".to_owned(),
                params: Default::default(),
                version: "1".to_owned(),
                restart,
                url,
            };
            lose(lacks);
            standing::hold(cluster, entry, about, &stopped, |_| says.send(()).unwrap()).unwrap();
        });
        stands.recv_timeout(Duration::from_secs(60)).unwrap();
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for LabThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A store that finds keys of another run and cannot remove its own.
struct Untidy;

fn removal() -> Option<Removal> {
    Removal::new(&["client", "-h", "127.0.0.1", "drop", "run-1"], "127.0.0.1", "run-1")
}

impl StoreKind for Untidy {
    fn spec(&self) -> &StoreSpec {
        static SPEC: StoreSpec = StoreSpec { name: "shell", ..StoreSpec::PLAIN };
        &SPEC
    }

    fn open(&self, _: OpenOptions, progress: &mut dyn FnMut(&str)) -> Result<Box<dyn Store>, StoreError> {
        progress(&Removal::note("run-1", removal().as_ref()));
        Ok(Box::new(IdleStore { leaves: removal() }))
    }
}

#[test]
fn a_command_that_removes_data_is_advised_for_an_attached_server_and_not_for_a_lab() {
    let base = base();
    let url = "shell://127.0.0.1".to_owned();
    let _held = LabThread::at_url(base.path(), "own", Restart::OnFailure, COUNTS, Some(url.clone()));
    let told = |target: Target| {
        let options =
            OpenOptions { target, params: Default::default(), run_id: "2".to_owned(), waits: Default::default() };
        let mut notes = Vec::new();
        let store = plimsoll_lab::open(&Untidy, options, &mut |note| notes.push(note.to_owned())).unwrap();
        (notes.concat(), store.close().unwrap_err().next)
    };
    let note = "run-1 of another run is still there";
    let command = "`client -h 127.0.0.1 drop run-1` removes it";
    assert_eq!(
        told(Target::Attach { url, password: None }),
        (format!("{note}; if that run has ended, {command}"), Some(command.to_owned()))
    );
    assert_eq!(told(Target::Lab { labs: base.path().join("labs"), name: "own".to_owned() }), (note.to_owned(), None));
}

#[test]
fn a_lab_makes_its_client_hosts_once() {
    let base = base();
    let _held = LabThread::new(base.path(), "hosts", Restart::OnFailure, COUNTS);
    let lab = || Lab::open(&base.path().join("labs"), "hosts").unwrap();
    let two = lab().client_hosts(2).unwrap();
    assert_eq!((lab().client_hosts(1).unwrap(), two.len()), (two[..1].to_vec(), 2));
    for (number, namespace) in two.iter().enumerate() {
        let _guard = standing::enter(namespace).unwrap();
        // Of all addresses, a host can bind its own.
        std::net::UdpSocket::bind((client_host(number), 0)).unwrap();
        assert!(std::net::UdpSocket::bind((client_host(number + 1), 0)).is_err());
    }
}

fn until(what: &str, is_so: impl FnMut() -> bool) {
    wait_for(what, Duration::from_secs(60), is_so);
}

#[test]
fn a_node_that_fails_is_started_again_and_one_that_fails_always_is_left() {
    let base = base();
    let labs = base.path().join("labs");
    let script =
        "echo >\"$0/socket\"; echo >>counts; while [ ! -e fail ]; do sleep 0.05; done; echo no more >&2; exit 3";
    let _held = LabThread::new(base.path(), "failing", Restart::OnFailure, script);
    let lab = Lab::open(&labs, "failing").unwrap();
    let (data, node) = (lab.nodes()[1].data_dir.clone(), || lab.status().unwrap().nodes[1].clone());
    // A process that runs is not all that clients need.
    let socket = lab.nodes()[1].socket_dir.join("socket");
    std::fs::remove_file(&socket).unwrap();
    assert_eq!((node().state, node().reason.as_deref()), (NodeState::NotReady, Some("no socket")));
    // The first question, too, waits for slow answers, and says so if there are none in time.
    let slow = socket.with_file_name("slow");
    std::fs::write(&socket, "").unwrap();
    assert_eq!(node().state, NodeState::Running);
    std::fs::remove_file(&socket).unwrap();
    std::fs::write(&slow, "1500").unwrap();
    assert_eq!(node().state, NodeState::NotReady);
    std::fs::write(&slow, "3500").unwrap();
    let unknown = node();
    assert_eq!(unknown.state, NodeState::Unknown);
    assert!(unknown.reason.unwrap().contains("not answered within 3 s"));
    std::fs::remove_file(slow).unwrap();
    std::fs::write(socket, "").unwrap();
    assert_eq!((node().state, node().reason), (NodeState::Running, None));
    std::fs::write(data.join("fail"), "").unwrap();
    until("it fails", || node().state == NodeState::Restarting);
    std::fs::remove_file(data.join("fail")).unwrap();
    until("it is started again", || node().state == NodeState::Running && node().restarts > 0);
    std::fs::write(data.join("fail"), "").unwrap();
    until("it is left", || node().state == NodeState::Maintenance);
    let reason = node().reason.unwrap();
    assert!(reason.contains("ended 5 times within 60 s") && reason.contains("no more"), "{reason}");
    assert_eq!(lab.status().unwrap().nodes[0].restarts, 0);
    // Now the node can run again.
    std::fs::remove_file(data.join("fail")).unwrap();
    lab.start(Nodes::One(1)).unwrap();
    assert_eq!(node().state, NodeState::Running);
}

#[test]
fn one_that_ends_content_is_left_unless_it_is_always_started() {
    let script = "echo >\"$0/socket\"; while [ ! -e end ]; do sleep 0.05; done; rm end; exit 0";
    for (restart, state) in [(Restart::OnFailure, NodeState::Maintenance), (Restart::Always, NodeState::Running)] {
        let base = base();
        let _held = LabThread::new(base.path(), "content", restart, script);
        let lab = Lab::open(&base.path().join("labs"), "content").unwrap();
        std::fs::write(lab.nodes()[0].data_dir.join("end"), "").unwrap();
        let node = || lab.status().unwrap().nodes[0].clone();
        until("it comes to that", || node().state == state && (state != NodeState::Running || node().restarts == 1));
    }
}

#[test]
fn the_rights_of_a_fault_are_those_of_the_process_that_holds_the_lab() {
    use PrivilegedFault::{Clock, Hang, Reset};
    let base = base();
    let lab_that = |name: &str, lacks: CapabilitySet| {
        let held = LabThread::held_by(base.path(), name, Restart::Never, COUNTS, None, lacks);
        (held, Lab::open(&base.path().join("labs"), name).unwrap())
    };
    let (_held, lab) = lab_that("able", CapabilitySet::empty());
    let without = || {
        lose(CapabilitySet::SYS_PTRACE | CapabilitySet::NET_ADMIN);
        [Hang, Clock, Reset].map(|fault| lab.must_permit(fault))
    };
    let permitted = std::thread::scope(|scope| scope.spawn(without).join().unwrap());
    assert_eq!(permitted, [Ok(()), Ok(()), Ok(())], "those of the client do not matter");
    // Without root, servers run as the caller.
    if rustix::process::geteuid().is_root() {
        let (_held, lab) = lab_that("unable", CapabilitySet::SYS_PTRACE);
        for fault in [Hang, Clock] {
            let error = lab.must_permit(fault).unwrap_err();
            assert_eq!(error.kind, StoreErrorKind::Permission, "{error:?}");
        }
        assert_eq!(lab.must_permit(Reset), Ok(()));
    }
}

#[test]
fn a_name_is_plain() {
    let (base, supervisor) = (base(), Supervisor::start().unwrap());
    for name in ["", ".", "..", ".x", "-x", "../x", "a/b", "/tmp", "a b", "a\u{1b}[2J", &"x".repeat(33)] {
        let refused = LabDirectory::take(base.path(), name, &supervisor).err().unwrap();
        assert_eq!(refused.kind, StoreErrorKind::Usage, "{name:?}");
        assert!(!refused.what.contains('\u{1b}') && refused.next.unwrap().contains("32 at most"));
    }
    assert_eq!(std::fs::read_dir(base.path()).unwrap().count(), 0);
}
