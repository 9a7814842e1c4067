//! The store: attached or private, what it makes, and what it can be asked.

use std::fs::Metadata;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use plimsoll_core::{
    AsyncSession, BlockingSession, CacheSize, Durability, Footprint, IndexMode, Layout, Node, Nodes, OpKind, Probe,
    Reading, Removal, Servers, Sessions, Setting, Store, StoreDescription, StoreError, StoreErrorKind, Values, Waits,
    is_run_id,
};
use plimsoll_endpoint::Link;
use plimsoll_keyindex::records::Records;
use plimsoll_lab::proxy::proxy_of;
use plimsoll_lab::tree_bytes;

use crate::channel::{COMPACT, DELETE_RANGE, HASH, RANGE};
use crate::control::Control;
use crate::endpoint::Endpoint;
use crate::kv::EtcdKv;
use crate::messages::{number, pairs};
use crate::server;
use crate::session::{Common, EtcdSession, end_of};

/// What begins the keys of all runs in attached clusters.
const OURS: &str = "plimsoll:";

/// What begins the keys of a run in an attached cluster.
pub(crate) fn prefix_of(run_id: &str) -> String {
    format!("{OURS}{run_id}:")
}

/// Returns the command that removes the keys with a run's prefix from an attached cluster.
fn removal(endpoint: &Endpoint, prefix: &str) -> Option<Removal> {
    let hosts = endpoint.place.strip_prefix("etcd://")?;
    let mut words = vec!["etcdctl", "--endpoints", hosts];
    if let Some(login) = &endpoint.login {
        // etcdctl asks for the password.
        words.extend(["--user", login.user.as_str()]);
    }
    words.extend(["del", "--prefix", prefix]);
    Removal::new(&words, hosts, prefix)
}

/// One server, with the control plane's connection to it.
struct Place {
    control: Link<Control>,
    /// Where it is one of ours.
    node: Option<Arc<Node>>,
}

pub(crate) struct EtcdStore {
    /// Where sessions of keys go.
    endpoint: Endpoint,
    /// Sessions read what this member has by itself.
    copy: Option<usize>,
    /// How many servers an HAProxy is in front of, where there is one.
    proxied: Option<usize>,
    /// Servers of ours sync nothing.
    pub unsynced: bool,
    /// There always is a first.
    places: Vec<Place>,
    /// Begins every key of ours in an attached cluster.
    prefix: String,
    waits: Waits,
    /// Keys of ours may be there.
    is_made: bool,
    /// What the layout has of records, with their indexes; `None` where keys are asked for as they are.
    records: Option<Records>,
    index: IndexMode,
}

impl EtcdStore {
    /// Servers of ours; `proxied` is how many an HAProxy is in front of, where there is one.
    pub fn private(servers: &Arc<dyn Servers>, proxied: Option<usize>, waits: &Waits) -> Self {
        let running = servers.running();
        let mut nodes = if running.is_empty() { servers.nodes() } else { running };
        let proxy = proxied.and_then(|behind| proxy_of(&nodes, behind).cloned());
        nodes.retain(|node| Some(node.number) != proxied);
        let endpoint = server::endpoint(nodes.iter().map(|node| &**node));
        let place = |(at, node): (usize, Arc<Node>)| {
            let (only, waits) = (Endpoint { place: endpoint.place.clone(), ..endpoint.only(at) }, waits.clone());
            let server = Some((Arc::clone(servers), Nodes::One(node.number)));
            Place { control: Link::new(server, move || Control::open(&only, &waits)), node: Some(node) }
        };
        let places = nodes.into_iter().enumerate().map(place).collect();
        let mut store = Self::over(endpoint, places, String::new(), waits);
        if let Some(proxy) = proxy {
            store.endpoint = server::endpoint(std::iter::once(&*proxy));
            store.proxied = proxied;
        }
        store
    }

    pub fn attach(
        endpoint: &Endpoint,
        run_id: &str,
        waits: &Waits,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Self, StoreError> {
        let place = |at: usize| {
            let (only, waits) = (endpoint.only(at), waits.clone());
            Place { control: Link::new(None, move || Control::open(&only, &waits)), node: None }
        };
        let places = (0..endpoint.addresses.len()).map(place).collect();
        let mut store = Self::over(endpoint.clone(), places, prefix_of(run_id), waits);
        let left = store.first(|control| {
            control.call(RANGE, |message| {
                message
                    .bytes(1, OURS.as_bytes(), &[])
                    .bytes(2, &end_of(OURS.as_bytes()), &[])
                    .number(3, 1)
                    .number(8, 1);
            })
        })?;
        let mut other = None;
        let _ = pairs(&left, |key, _| other = Some(String::from_utf8_lossy(key).into_owned()));
        if let Some(run) = other.as_deref().and_then(|key| key.split(':').nth(1)).filter(|run| is_run_id(run)) {
            let prefix = prefix_of(run);
            progress(&Removal::note(&format!("key prefix {prefix}"), removal(endpoint, &prefix).as_ref()));
        }
        Ok(store)
    }

    fn over(endpoint: Endpoint, places: Vec<Place>, prefix: String, waits: &Waits) -> Self {
        Self {
            endpoint,
            copy: None,
            proxied: None,
            unsynced: false,
            places,
            prefix,
            waits: waits.clone(),
            is_made: false,
            records: None,
            index: IndexMode::None,
        }
    }

    /// Connections of their own for one session, which asks the server at `first` first.
    fn kv(&self, first: usize) -> EtcdKv {
        EtcdKv::new(self.places.iter().map(|place| place.control.another()).collect(), first, self.prefix_in_use())
    }

    /// Asks the first server that answers.
    fn first<T>(&mut self, ask: impl Fn(&mut Control) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let mut failure = None;
        for place in &mut self.places {
            match place.control.ask(&ask) {
                Err(error) if error.kind == StoreErrorKind::Unreachable => drop(failure.get_or_insert(error)),
                asked => return asked,
            }
        }
        Err(failure.unwrap_or_else(|| StoreError::broken("a cluster without servers")))
    }

    fn is_private(&self) -> bool {
        self.prefix.is_empty()
    }

    /// What begins the keys of sessions: where nothing of ours was made, keys are somebody else's and stand as they are.
    fn prefix_in_use(&self) -> &str {
        if self.is_made { &self.prefix } else { "" }
    }

    /// Removes what we made.
    fn clear(&mut self) -> Result<(), StoreError> {
        if !self.is_made {
            return Ok(());
        }
        let prefix = self.prefix.clone();
        // A range begins with a key, and the first one that can be is a zero byte.
        let begin = if prefix.is_empty() { &[0][..] } else { prefix.as_bytes() };
        self.first(|control| {
            control.long_call(DELETE_RANGE, |message| {
                message.bytes(1, begin, &[]).bytes(2, &end_of(prefix.as_bytes()), &[]);
            })
        })
        .map(drop)
    }

    fn addresses(&self) -> Result<Vec<SocketAddr>, StoreError> {
        let address = |(host, port): &(String, u16)| {
            let found = (host.as_str(), *port).to_socket_addrs().ok().and_then(|mut all| all.next());
            found.ok_or_else(|| {
                StoreError::new(StoreErrorKind::Unreachable, format!("{host} has no address"))
                    .next("check the host's name in the URL")
            })
        };
        self.endpoint.addresses.iter().map(address).collect()
    }
}

impl Store for EtcdStore {
    fn describe(&mut self) -> Result<StoreDescription, StoreError> {
        let version = self.first(|control| Ok(control.status()?.version))?;
        let place = match (self.is_private(), self.places.len()) {
            (true, count) if self.proxied.is_some() => format!("private cluster of {count} servers behind HAProxy"),
            (true, 1) => "private server".to_owned(),
            (true, count) => format!("private cluster of {count} servers"),
            (false, _) => self.endpoint.place.clone(),
        };
        let settings = match self.is_private() {
            true => vec![Setting::ours("max-request-bytes", server::REQUEST_BYTES_MAX.to_string(), "1572864")],
            false => Vec::new(),
        };
        Ok(StoreDescription { version: format!("etcd {version}"), place, settings })
    }

    fn promise(&mut self) -> Result<String, StoreError> {
        Ok("A write that a majority has synced to its log survives power loss, unless unsafe-no-fsync is set there."
            .to_owned())
    }

    fn create(&mut self, layout: &Layout) -> Result<(), StoreError> {
        let records = Records::new(layout)?;
        if self.proxied.is_some() && !layout.collections.is_empty() {
            let what = "sessions that keep records go to etcd's members themselves, and not through an HAProxy";
            return Err(StoreError::usage(what).next("Ask for keys (kv), or leave `haproxy` out."));
        }
        self.is_made = true;
        self.clear()?;
        self.records = (!layout.collections.is_empty()).then_some(records);
        self.index = layout.index;
        Ok(())
    }

    fn copies(&mut self) -> Result<Vec<usize>, StoreError> {
        // Records are read by the control plane's calls, which ask the cluster.
        if self.places.len() < 2 || self.records.is_some() {
            return Ok(Vec::new());
        }
        let nodes: Vec<Arc<Node>> = self.places.iter().filter_map(|place| place.node.clone()).collect();
        server::until_caught_up(&nodes, &self.waits)?;
        Ok(nodes.into_iter().map(|node| node.number).collect())
    }

    fn read_copy(&mut self, node: Option<usize>) {
        self.copy = node;
    }

    fn sessions(&mut self, count: u32, durability: Durability) -> Result<Sessions, StoreError> {
        if !matches!(durability, Durability::Durable | Durability::AsConfigured) {
            let what = format!("etcd syncs each write, and cannot be `{}`", durability.name());
            return Err(StoreError::usage(what).next("use the durability `durable`"));
        }
        if self.unsynced && durability == Durability::Durable {
            return Err(StoreError::usage("an etcd that syncs nothing is not `durable`")
                .next("leave unsafe_no_fsync out, or use the durability `as-configured`"));
        }
        if let Some(records) = &self.records {
            let session = |number| Box::new(records.session(self.kv(number as usize))) as Box<dyn BlockingSession>;
            return Ok(Sessions::Blocking((0..count).map(session).collect()));
        }
        let nodes = self.places.iter().filter_map(|place| place.node.as_ref());
        let copy = self.copy.and_then(|number| nodes.into_iter().find(|node| node.number == number).cloned());
        let common = Arc::new(Common {
            addresses: match copy {
                Some(node) => vec![node.listens_at(0).into()],
                None => self.addresses()?,
            },
            reads_copy: self.copy.is_some(),
            token: self.first(|control| Ok(control.token.clone()))?,
            prefix: self.prefix_in_use().as_bytes().to_vec(),
            place: self.endpoint.place.clone(),
        });
        let session = |number| Box::new(EtcdSession::new(&common, number as usize)) as Box<dyn AsyncSession>;
        Ok(Sessions::Async((0..count).map(session).collect()))
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        // What is acknowledged is synced.
        Ok(())
    }

    fn settle(&mut self) -> Result<(), StoreError> {
        if !self.is_private() {
            return Ok(());
        }
        let revision = self.first(|control| Ok(control.status()?.revision))?;
        let compacted = self.first(|control| {
            control.long_call(COMPACT, |message| {
                message.number(1, revision).number(2, 1);
            })
        });
        match compacted {
            // It was compacted there before, and nothing was written since.
            Err(error) if error.detail.as_deref().is_some_and(|words| words.contains("has been compacted")) => Ok(()),
            compacted => compacted.map(drop),
        }
    }

    fn disconnect(&mut self) -> Result<(), StoreError> {
        self.places.iter_mut().for_each(|place| place.control.hang_up());
        Ok(())
    }

    fn footprint(&mut self) -> Result<Footprint, StoreError> {
        let (mut data_bytes, mut total_bytes) = (0, Some(0));
        for place in &mut self.places {
            data_bytes += match place.control.ask(Control::status) {
                Ok(status) => status.in_use_bytes,
                // One may be away.
                Err(error) if error.kind == StoreErrorKind::Unreachable => continue,
                Err(error) => return Err(error),
            };
            let tree = place.node.as_ref().and_then(|node| tree_bytes(&node.data_dir, Metadata::len));
            total_bytes = total_bytes.zip(tree).map(|(total, tree)| total + tree);
        }
        Ok(Footprint { data_bytes, index_bytes: None, total_bytes })
    }

    fn cache_bytes(&mut self) -> Result<Option<CacheSize>, StoreError> {
        // It maps its file into memory.
        Ok(Some(CacheSize::PageCache))
    }

    fn explain(&mut self, kind: &OpKind, _: Values<'_>) -> Result<Option<String>, StoreError> {
        Ok(self.records.as_ref().and_then(|records| records.explain(kind)).map(str::to_owned))
    }

    /// etcd has no check of its own. A private server is asked for the hash of its whole database, for which it reads every page; indexes are held
    /// against the records.
    fn check_integrity(&mut self) -> Result<Option<String>, StoreError> {
        let (mut said, mut away) = (Vec::new(), None);
        for place in self.places.iter_mut().filter(|place| place.node.is_some()) {
            match place.control.get().and_then(|control| control.long_call(HASH, |_| {})) {
                Ok(answer) => {
                    said.push(format!("its database reads to the end, and hashes to {:08x}", number(&answer, 2)));
                }
                // One node may be away.
                Err(error) if error.is_nobody_there() => away = Some(error),
                Err(error) => return Err(error),
            }
        }
        if let Some(error) = away.filter(|_| said.is_empty()) {
            return Err(error);
        }
        if let Some(records) = self.records.as_ref().filter(|_| self.index == IndexMode::Keyindex) {
            said.push(records.check(&mut self.kv(0))?);
        }
        said.dedup();
        Ok(Some(said.join("; ")).filter(|said| !said.is_empty()))
    }

    fn probe(&mut self) -> Option<Probe> {
        let is_alone = self.places.len() == 1;
        let probe = |(place, number): (&Place, usize)| {
            let node = if is_alone { String::new() } else { format!("node {number}") };
            place.control.probe(move |control| {
                let status = control.status()?;
                Ok(vec![
                    Reading::total(&node, "raft_applied", "", status.applied as f64),
                    Reading::level(&node, "raft_term", "", status.raft_term as f64),
                    Reading::level(&node, "db_size", "B", status.db_bytes as f64),
                    Reading::level(&node, "db_size_in_use", "B", status.in_use_bytes as f64),
                ])
            })
        };
        let mut nodes: Vec<Probe> = self.places.iter().zip(1..).map(probe).collect();
        Some(Box::new(move || {
            let mut all = Vec::new();
            let mut failure = None;
            for read in &mut nodes {
                match read() {
                    Ok(read) => all.extend(read),
                    // One node may be away.
                    Err(error) => failure = Some(error),
                }
            }
            if all.is_empty() { Err(failure.unwrap_or_else(|| StoreError::broken("no server"))) } else { Ok(all) }
        }))
    }

    fn close(&mut self) -> Result<(), StoreError> {
        if self.is_private() {
            return Ok(());
        }
        let cleared = self.clear();
        self.is_made = false;
        let (prefix, place) = (&self.prefix, &self.endpoint.place);
        cleared
            .map_err(|error| error.leaves(format!("key prefix {prefix} at {place}"), removal(&self.endpoint, prefix)))
    }
}
