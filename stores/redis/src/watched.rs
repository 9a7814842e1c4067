//! Servers that Sentinels watch: which of them is the master, also while sessions are driven.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use plimsoll_core::{Address, Durability, Node, Servers, StoreError, Waits};

use crate::append_only;
use crate::formation::watched_master;
use crate::member::Member;
use crate::server::RedisRecipe;

/// How often Sentinels are asked. They take seconds to agree that a master is gone.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// Where the master listens, as those who follow it know it.
#[derive(Debug)]
pub(crate) struct Whereabouts(Mutex<Address>);

impl Whereabouts {
    /// Where it listens now.
    pub fn get(&self) -> Address {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, address: Address) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = address;
    }
}

/// A master, its replicas and their Sentinels, all of them ours.
#[derive(Clone)]
pub(crate) struct Watched {
    pub servers: Arc<dyn Servers>,
    /// All of them, and their Sentinels: asked for once, as none comes or leaves.
    pub nodes: Vec<Arc<Node>>,
    pub recipe: RedisRecipe,
    pub waits: Waits,
}

impl Watched {
    /// The master, as the first Sentinel says that answers.
    pub fn master(&self) -> Option<Arc<Node>> {
        watched_master(&self.recipe, &self.nodes, &self.waits)
    }

    /// A server of these.
    pub fn member(&self, node: Arc<Node>) -> Member {
        Member::new(self.recipe.endpoint(&node), Some((Arc::clone(&self.servers), node)), &self.waits)
    }

    /// All servers, whatever they are at the moment.
    pub fn members(&self) -> Vec<Member> {
        let servers = self.nodes.iter().filter(|node| node.number < self.recipe.shape.servers());
        servers.map(|node| self.member(Arc::clone(node))).collect()
    }

    /// Where the master listens, from now on and for as long as somebody wants to know: a thread asks the Sentinels.
    ///
    /// # Errors
    /// There can be no further thread.
    pub fn follow(&self, master: Address) -> Result<Arc<Whereabouts>, StoreError> {
        let whereabouts = Arc::new(Whereabouts(Mutex::new(master)));
        let (told, watched) = (Arc::downgrade(&whereabouts), self.clone());
        std::thread::Builder::new()
            .name("sentinels".to_owned())
            .spawn(move || watched.tell(&told))
            .map_err(|error| StoreError::io("the thread that asks Sentinels", &error))?;
        Ok(whereabouts)
    }

    fn tell(&self, told: &Weak<Whereabouts>) {
        while told.strong_count() > 0 {
            let master = self.master();
            if let (Some(told), Some(master)) = (told.upgrade(), master) {
                told.set(self.recipe.endpoint(&master).address);
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    /// Has the servers that are not the master keep what they are given as durable as it does: each may be the next. Those that
    /// do not run are left out.
    pub fn make_durable(&self, durability: Durability, master: &Address) -> Result<(), StoreError> {
        let mut others = self.members().into_iter().filter(|member| member.endpoint.address != *master);
        others.try_for_each(|mut member| {
            match member.control.ask(|control| append_only::set_fsync(control, durability)) {
                Err(error) if error.is_nobody_there() => Ok(()),
                set => set,
            }
        })
    }
}
