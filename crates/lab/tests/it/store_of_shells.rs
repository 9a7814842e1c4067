//! A store of shells that receives no operations.

use std::path::Path;
use std::sync::Arc;

use plimsoll_core::{
    Launch, Member, Node, OpenOptions, Params, Recipe, ServerSpec, Store, StoreError, StoreKind, StoreSpec, Target,
    Waits,
};
use plimsoll_lab::OpenStore;

use crate::IdleStore;
use crate::cluster::{COUNTS, Shells};

/// Number of the store's nodes.
pub(crate) const NODES: usize = 3;

/// Shells whose data directories have no files before they start. They are no cluster while one has the file `apart`,
/// until one has been stopped gracefully.
struct Meeting(Shells);

impl Recipe for Meeting {
    fn spec(&self) -> ServerSpec {
        self.0.spec()
    }

    fn launch(&self, node: Member<'_>) -> Result<Launch, StoreError> {
        self.0.launch(node)
    }

    fn ready(&self, node: &Node, waits: &Waits) -> Result<(), StoreError> {
        self.0.ready(node, waits)
    }

    fn until_whole(&self, nodes: &[Arc<Node>], _: &Waits) -> Result<(), StoreError> {
        let one_has = |name: &str| nodes.iter().any(|node| node.data_dir.join(name).exists());
        match one_has("apart") && !one_has("log") {
            true => Err(StoreError::broken("node 2 is not one of them")),
            false => Ok(()),
        }
    }

    fn promotes(&self) -> Result<(), StoreError> {
        self.0.promotes()
    }

    fn promote(&self, to: Member<'_>, waits: &Waits) -> Result<(), StoreError> {
        self.0.promote(to, waits)
    }

    fn follow(&self, node: Member<'_>, waits: &Waits) -> Result<(), StoreError> {
        self.0.follow(node, waits)
    }

    fn rejoin(&self, node: Member<'_>, waits: &Waits) -> Result<Option<Launch>, StoreError> {
        self.0.rejoin(node, waits)
    }

    fn part(&self, node: Member<'_>, waits: &Waits) -> Result<(), StoreError> {
        self.0.part(node, waits)
    }
}

/// The kind of store.
struct MeetingKind;

impl StoreKind for MeetingKind {
    fn spec(&self) -> &StoreSpec {
        static SPEC: StoreSpec = StoreSpec { name: "shells", ..StoreSpec::PLAIN };
        &SPEC
    }

    fn recipe(&self, _: &Params) -> Result<Option<Box<dyn Recipe>>, StoreError> {
        Ok(Some(Box::new(Meeting(Shells { nodes: NODES, hosts: 0, script: COUNTS }))))
    }

    fn open(&self, _: OpenOptions, _: &mut dyn FnMut(&str)) -> Result<Box<dyn Store>, StoreError> {
        Ok(Box::new(IdleStore { leaves: None }))
    }
}

pub(crate) fn open(base: &Path, params: Params) -> OpenStore {
    let target = Target::Private { data_dir: base.to_owned(), said: false, log_dir: base.join("logs") };
    let options = OpenOptions { target, params, run_id: "1".to_owned(), waits: Waits::default() };
    plimsoll_lab::open(&MeetingKind, options, &mut |_| {}).unwrap()
}
