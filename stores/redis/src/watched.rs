//! Servers that Sentinels watch: which of them is the master, also while sessions are driven.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use plimsoll_core::{Address, Durability, Node, Probe, Servers, StoreError, StoreErrorKind, Waits};

use crate::append_only;
use crate::control::Control;
use crate::endpoint::{Endpoint, Login};
use crate::formation::watched_master;
use crate::member::Member;
use crate::server::RedisRecipe;

/// Time between two questions to Sentinels. They take seconds to agree that a master is gone.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// Longest time of a Sentinel's reply: another Sentinel knows the same.
const ASK_BOUND: Duration = Duration::from_secs(1);

/// Current address of the master, for sessions that follow it.
#[derive(Debug)]
pub(crate) struct Whereabouts(Mutex<Address>);

impl Whereabouts {
    /// Returns the whereabouts of a master that listens at `address` now.
    pub fn new(address: Address) -> Self {
        Self(Mutex::new(address))
    }

    /// Returns the present address.
    pub fn get(&self) -> Address {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, address: Address) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = address;
    }
}

/// Starts a thread that follows the master's address until the last receiver is dropped.
///
/// # Errors
/// There can be no further thread.
pub(crate) fn follow(
    master: Address,
    ask: impl Fn() -> Option<Address> + Send + 'static,
) -> Result<Arc<Whereabouts>, StoreError> {
    let whereabouts = Arc::new(Whereabouts::new(master));
    let told: Weak<Whereabouts> = Arc::downgrade(&whereabouts);
    let tell = move || {
        while told.strong_count() > 0 {
            let master = ask();
            if let (Some(told), Some(master)) = (told.upgrade(), master) {
                told.set(master);
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    };
    std::thread::Builder::new()
        .name("sentinels".to_owned())
        .spawn(tell)
        .map_err(|error| StoreError::io("the thread that asks Sentinels", &error))?;
    Ok(whereabouts)
}

/// Attached Sentinels, and their name of the master.
#[derive(Clone)]
pub(crate) struct Sentinels {
    pub addresses: Vec<Address>,
    pub name: String,
    /// Login at the servers, and at Sentinels that want one.
    pub endpoint: Endpoint,
    pub waits: Waits,
}

impl Sentinels {
    /// Returns the master's address by the first Sentinel that answers.
    ///
    /// # Errors
    /// `Usage` where they know of none by that name; why none answers.
    pub fn master(&self) -> Result<Address, StoreError> {
        let mut last = StoreError::usage("the URL names no Sentinel");
        for address in &self.addresses {
            match self.ask(address) {
                Err(error) if error.is_nobody_there() => last = error,
                answer => return answer,
            }
        }
        Err(last)
    }

    /// Returns a probe of the present master's counters; the master listens at `endpoint` now.
    pub fn probe(self, endpoint: &Endpoint) -> Probe {
        let of = |endpoint: Endpoint, waits: &Waits| Member::new(endpoint, None, waits).probe(String::new());
        let (mut endpoint, mut read) = (endpoint.clone(), of(endpoint.clone(), &self.waits));
        Box::new(move || {
            read().or_else(|lost| {
                let master = self.master().map_err(|_| lost.clone())?;
                if master == endpoint.address {
                    return Err(lost);
                }
                endpoint.address = master;
                read = of(endpoint.clone(), &self.waits);
                read()
            })
        })
    }

    fn ask(&self, address: &Address) -> Result<Address, StoreError> {
        let own = Endpoint { address: address.clone(), ..self.endpoint.clone() };
        let mut stranger = own.clone();
        (stranger.login.user, stranger.login.password, stranger.login.database) = (None, None, 0);
        let looks = self.waits.with_answer(ASK_BOUND);
        let question: [&[u8]; 3] = [b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", self.name.as_bytes()];
        let says = match Control::open(&stranger, &looks).and_then(|mut control| control.command(&question)) {
            Err(error) if matches!(error.kind, StoreErrorKind::Authentication | StoreErrorKind::Permission) => {
                let known = Endpoint { login: Login { database: 0, ..own.login.clone() }, ..own };
                Control::open(&known, &looks)?.command(&question)?
            }
            says => says?,
        };
        let words: Vec<String> = says.list().iter().map(|word| word.text()).collect();
        match words.as_slice() {
            [host, port] if let Ok(port) = port.parse() => Ok(Address::Tcp(host.clone(), port)),
            _ => Err(StoreError::usage(format!("the Sentinels know of no master `{}`", self.name))
                .next("Name it as they do: redis+sentinel://host:26379/NAME")),
        }
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

    /// Starts a thread that asks the Sentinels for the master's address until the last receiver is dropped.
    ///
    /// # Errors
    /// There can be no further thread.
    pub fn follow(&self, master: Address) -> Result<Arc<Whereabouts>, StoreError> {
        let watched = self.clone();
        follow(master, move || watched.master().map(|master| watched.recipe.endpoint(&master).address))
    }

    /// Makes the servers beside the master as durable as the master: each may be the next. Servers that do not run are
    /// left out.
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
