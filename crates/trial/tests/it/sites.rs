//! Readings of each node of a cluster, on hosts of their own and with control groups of their own.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use plimsoll_core::{
    Launch, Limits, Member, Node, Reading, Recipe, Sampler, ServerSpec, StoreError, StoreErrorKind, Waits,
};
use plimsoll_lab::{Cluster, FALLBACK_BASES, Supervisor};
use plimsoll_sample::ServerProcesses;

/// Shells that work for a part of the time while a file `load` is in their directory, and sleep otherwise.
struct Idlers {
    nodes: usize,
    hosts: usize,
}

const SCRIPT: &str = "echo >\"$0/socket\"; while :; do if [ -e load ]; then i=0; \
    while [ $i -lt 60000 ]; do i=$((i+1)); done; sleep 0.1; else sleep 0.2; fi; done";

impl Recipe for Idlers {
    fn spec(&self) -> ServerSpec {
        ServerSpec {
            nodes: self.nodes,
            hosts: self.hosts,
            ports: &[1001],
            ..ServerSpec::new("Idler", "nobody", "base-passwd")
        }
    }

    fn launch(&self, node: Member<'_>) -> Result<Launch, StoreError> {
        Ok(Launch::new("idler", "/bin/sh".into(), ["-c", SCRIPT, &node.socket_dir.display().to_string()]))
    }

    fn ready(&self, node: &Node, _: &Waits) -> Result<(), StoreError> {
        let is_there = node.socket_dir.join("socket").exists();
        is_there.then_some(()).ok_or_else(|| StoreError::new(StoreErrorKind::Unreachable, "no socket"))
    }
}

fn base() -> tempfile::TempDir {
    let prefix = format!("sites-test-{}-", std::process::id());
    let base = tempfile::Builder::new().prefix(&prefix).tempdir_in(FALLBACK_BASES[0]).unwrap();
    fs::set_permissions(base.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    base
}

fn start(base: &Path, nodes: usize, hosts: usize, limits: Limits) -> Cluster {
    let (bases, logs, recipe) = ([base.to_owned()], base.join("logs"), Box::new(Idlers { nodes, hosts }));
    let supervisor = Supervisor::start().unwrap();
    Cluster::start_under(supervisor, limits, recipe, &bases, &logs, &Default::default(), &mut |_| {}).unwrap()
}

/// Time in which the share of a processor can be measured, beside other tests.
const SECOND: Duration = Duration::from_secs(1);
/// Time between two readings whose values do not matter.
const MOMENT: Duration = Duration::from_millis(100);

/// A sampler with its previous readings.
struct Followed {
    sampler: Box<dyn Sampler>,
    before: (Instant, Vec<Reading>),
}

impl Followed {
    fn open(name: &str, cluster: &Cluster) -> Self {
        let processes = ServerProcesses::default();
        processes.set(cluster.sites());
        let (mut opened, unavailable) = plimsoll_sample::open(&[name.to_owned()], &processes);
        assert_eq!(unavailable, [], "{name}");
        let (_, mut sampler) = opened.remove(0);
        let read = sampler.sample();
        Self { sampler, before: (Instant::now(), read) }
    }

    /// Reads after a time. Returns the values of each name, with their subjects.
    fn next<const N: usize>(&mut self, after: Duration, names: [&str; N]) -> [Vec<(String, f64)>; N] {
        std::thread::sleep(after);
        let (now, read) = (Instant::now(), self.sampler.sample());
        let (at, before) = std::mem::replace(&mut self.before, (now, read));
        let value = |reading: &Reading| {
            let earlier = before.iter().find(|one| one.is_of(reading));
            Some((reading.subject.clone(), reading.since(earlier.map(|one| (one, (now - at).as_secs_f64())))?))
        };
        names.map(|name| self.before.1.iter().filter(|one| one.name == name).filter_map(&value).collect())
    }
}

/// Returns the value of `subject`.
#[track_caller]
fn of(values: &[(String, f64)], subject: &str) -> f64 {
    values.iter().find(|(own, _)| own == subject).unwrap_or_else(|| panic!("no {subject} in {values:?}")).1
}

#[test]
fn the_node_that_works_is_the_one_whose_processor_time_rises() {
    let base = base();
    let cluster = start(base.path(), 3, 3, Limits::default());
    let mut server = Followed::open("server", &cluster);
    let [idle] = server.next(MOMENT, ["user"]);
    assert_eq!(idle.len(), 4, "all together, and each: {idle:?}");
    fs::write(cluster.nodes()[1].data_dir.join("load"), "").unwrap();
    // Until its shell has seen that.
    server.next(3 * MOMENT, []);
    let mut last = [Vec::new(), Vec::new()];
    // Other tests may take most of the machine for a second.
    let it_works = (0..10).any(|_| {
        last = server.next(SECOND, ["user", "busy"]);
        let [busy, threads] = &last;
        let [one, two, three] = ["node 1", "node 2", "node 3"].map(|node| of(busy, node));
        assert!((of(busy, "") - one - two - three).abs() < 1.0, "{busy:?}");
        // Its shell is the program that runs most there.
        let shell_works = threads.iter().any(|(own, share)| own == "node 2 sh" && *share > 5.0);
        two > 5.0 && two > 3.0 * one && two > 3.0 * three && shell_works
    });
    assert!(it_works, "{last:?} after {idle:?}");
    let mut tcp = Followed::open("tcp", &cluster);
    let [segments] = tcp.next(MOMENT, ["sent_segments"]);
    let segments: Vec<String> = segments.into_iter().map(|(subject, _)| subject).collect();
    assert_eq!(segments, ["", "node 1", "node 2", "node 3"]);
    cluster.close().unwrap();
}

#[test]
fn a_node_that_is_limited_to_a_tenth_of_a_processor_is_seen_to_be_throttled() {
    let base = base();
    let cluster = start(base.path(), 1, 0, Limits { cpus: Some(0.1), ..Limits::default() });
    fs::write(cluster.nodes()[0].data_dir.join("load"), "").unwrap();
    let mut groups = Followed::open("cgroup", &cluster);
    let has_it = (0..20).any(|_| of(&groups.next(SECOND, ["throttled"])[0], "node 1") > 20.0);
    assert!(has_it, "{:?}", groups.before.1);
    cluster.close().unwrap();
}
