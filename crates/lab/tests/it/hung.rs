//! A node whose join hangs while another node is paused.

use std::time::Duration;

use plimsoll_core::{Launch, Member, Node, Nodes, Progress, Recipe, ServerSpec, StoreError, Waits, waits};
use plimsoll_lab::Cluster;

use crate::base;
use crate::cluster::{COUNTS, Shells};

/// Shells of which a second one copies 48 % of something, and then waits for the first.
struct Waiting(Shells);

impl Recipe for Waiting {
    fn spec(&self) -> ServerSpec {
        self.0.spec()
    }

    fn files(&self, node: Member<'_>) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.0.files(node)
    }

    fn set_up(&self, node: Member<'_>) -> Result<Option<Launch>, StoreError> {
        self.0.set_up(node)
    }

    fn launch(&self, node: Member<'_>) -> Result<Launch, StoreError> {
        self.0.launch(node)
    }

    fn ready(&self, node: &Node, waits: &Waits) -> Result<(), StoreError> {
        self.0.ready(node, waits)
    }

    fn takes_more(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn join(&self, _: Member<'_>, waits: &Waits) -> Result<(), StoreError> {
        waits.until(waits::TICK, "resume it", || Ok(Err("the first node is silent".to_owned())))
    }

    fn progress(&self, node: Member<'_>, _: &Waits) -> Result<Vec<Progress>, StoreError> {
        let copy = Progress::new(node.number, "copy").done(48, Some(100), "%");
        Ok(if node.number == 1 { vec![copy] } else { Vec::new() })
    }
}

#[test]
fn the_error_of_a_join_that_hangs_names_a_paused_node() {
    let base = base();
    let recipe = Waiting(Shells { nodes: 1, hosts: 0, script: COUNTS });
    let waits = Waits::default().with_hung_after(Duration::from_secs(2));
    let (bases, logs) = ([base.path().to_owned()], base.path().join("logs"));
    let cluster = Cluster::start(Box::new(recipe), &bases, &logs, &waits, &mut |_| {}).unwrap();
    cluster.pause(Nodes::One(0)).unwrap();
    let error = cluster.handle().add().unwrap_err();
    assert!(error.what.contains("join of node 2 hung at 48 %: copy; no progress for "), "{error}");
    assert!(error.what.contains("; node 1 is paused"), "{error}");
    cluster.resume(Nodes::One(0)).unwrap();
    assert_eq!(cluster.nodes().len(), 1, "the node that hung is gone");
    cluster.close().unwrap();
}
