//! The store: attached or private, what it makes, and what it can be asked.

mod data_file;
mod masters;
pub(crate) mod runs;

use std::fs::Metadata;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_core::Recipe as _;
use plimsoll_core::{
    CacheSize, Cycle, Durability, Footprint, Layout, LayoutStatement, Probe, Reading, Servers, Sessions, Setting,
    Store, StoreDescription, StoreError, StoreErrorKind, Waits, WireClient,
};
use plimsoll_endpoint::Reads;
use plimsoll_endpoint::tls::session;
use plimsoll_lab::tree_bytes;
use plimsoll_tls::TlsClient;

use crate::background::Background;
use crate::cluster::{ClusterSession, Members, Redirections};
use crate::endpoint::{Endpoint, Login};
use crate::facts::{self, Info};
use crate::formation::present_masters;
use crate::member::Member;
use crate::server::{MASTER, RedisRecipe};
use crate::watched::{Sentinels, Watched, Whereabouts, follow};
use crate::wire::{Protocol, RedisSession};
use crate::{append_only, command, readers};
use data_file::{checked, data_file};
use runs::{plain, prefix_of};

pub(crate) struct RedisStore {
    /// The only server, or all masters of a cluster; never empty.
    members: Vec<Member>,
    is_private: bool,
    /// Other runs may have keys there: attached servers, or those of a lab.
    is_shared: bool,
    /// Our own servers that Sentinels watch, the master of which is the only member.
    watched: Option<Watched>,
    /// Attached Sentinels, whose master is the only member.
    sentinels: Option<Sentinels>,
    /// Servers that answer reads, and the private servers, if any.
    reads: Reads,
    ours: Option<readers::Ours>,
    /// Counters of a cluster's sessions.
    cluster: Option<Arc<Redirections>>,
    login: Arc<Login>,
    protocol: Protocol,
    /// Begins every key. Empty where the whole server is this run's.
    prefix: String,
    run_id: String,
    /// The private server's file is off, and does not hold what the server does.
    file_is_off: bool,
    /// The server that others use too knows of this run.
    is_noted: bool,
    /// Private replicas that have caught up, by the numbers of their nodes.
    copies: Vec<(usize, Endpoint)>,
    /// Sessions read that one.
    copy: Option<Endpoint>,
    waits: Waits,
}

impl RedisStore {
    pub fn private(
        servers: &Arc<dyn Servers>,
        recipe: &RedisRecipe,
        (protocol, reads): (Protocol, Reads),
        (run_id, waits): (&str, &Waits),
        progress: &mut dyn FnMut(&str),
    ) -> Self {
        let is_shared = servers.outlive();
        let watched = (recipe.shape.sentinels > 0).then(|| Watched {
            servers: Arc::clone(servers),
            nodes: servers.nodes(),
            recipe: recipe.clone(),
            waits: waits.clone(),
        });
        let masters: Vec<_> = match watched.as_ref().and_then(Watched::master) {
            Some(master) => vec![master],
            None if is_shared => present_masters(recipe, &servers.nodes(), waits),
            None => servers.nodes().into_iter().filter(|node| recipe.role(node.number) == MASTER).collect(),
        };
        let member = |node: Arc<plimsoll_core::Node>| {
            Member::new(recipe.endpoint(&node), Some((Arc::clone(servers), node)), waits)
        };
        let (prefix, run_id) = if is_shared { (prefix_of(run_id), run_id) } else { (String::new(), "") };
        let mut store = Self::new(masters.into_iter().map(member).collect(), protocol, prefix, run_id, waits);
        (store.watched, store.is_shared) = (watched, is_shared);
        (store.reads, store.ours) = (reads, Some((Arc::clone(servers), recipe.clone())));
        if is_shared {
            // Nodes of a lab may be away, which says who needs them.
            let _ = store.tell_runs(progress);
        }
        store
    }

    fn new(members: Vec<Member>, protocol: Protocol, prefix: String, run_id: &str, waits: &Waits) -> Self {
        let is_private = members.iter().any(|member| member.data_dir().is_some());
        Self {
            is_private,
            is_shared: !is_private,
            watched: None,
            sentinels: None,
            reads: Reads::Primary,
            ours: None,
            cluster: (members.len() > 1).then(Arc::default),
            login: Arc::new(members[0].endpoint.login.clone()),
            members,
            protocol,
            prefix,
            run_id: plain(run_id),
            file_is_off: false,
            is_noted: false,
            copies: Vec::new(),
            copy: None,
            waits: waits.clone(),
        }
    }

    /// Sets the durability of private servers; fails if attached servers are less durable.
    fn make_durable(&mut self, durability: Durability) -> Result<(), StoreError> {
        let master = self.first().endpoint.address.clone();
        if let Some(watched) = self.watched.as_ref().filter(|_| durability != Durability::AtEnd) {
            watched.make_durable(durability, &master)?;
        }
        if let Some((_, recipe)) = self.ours.clone() {
            for member in self.current() {
                append_only::set(member.control.get()?, &recipe, durability)?;
            }
        }
        self.demand(durability)?;
        self.file_is_off = self.is_private && durability == Durability::AtEnd;
        Ok(())
    }

    /// The settings as they are now, or of our own servers as durabilities make them.
    fn settings(&mut self, now: bool) -> Result<Vec<Setting>, StoreError> {
        let is_private = self.is_private;
        match facts::settings(self.first().control.get()?, is_private, now) {
            // Not everybody may ask for settings.
            Err(error) if error.kind == StoreErrorKind::Permission => Ok(Vec::new()),
            settings => settings,
        }
    }

    /// Runs the commands that fill the server before the user's own are asked.
    fn run_setup(&mut self, statements: &[LayoutStatement]) -> Result<(), StoreError> {
        if self.cluster.is_some() && !statements.is_empty() {
            return Err(command::not_in_cluster());
        }
        for statement in statements {
            let control = self.first().control.get()?;
            let words = command::setup_words(&statement.text);
            let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
            control.long_command(&words).map_err(|error| match error.is_nobody_there() {
                true => error,
                false => StoreError::usage(format!("`setup`: {} was refused", statement.text))
                    .detail(error.detail.unwrap_or(error.what)),
            })?;
        }
        Ok(())
    }

    /// Completes the files, so that they hold the servers' data when they are stopped.
    fn complete_file(&mut self) -> Result<(), StoreError> {
        if self.file_is_off {
            for member in self.current() {
                append_only::switch_on(member.control.get()?)?;
            }
            self.file_is_off = false;
        }
        Ok(())
    }

    /// Returns the servers beside the master that answer reads, once they have all that the master has.
    fn replicas(&mut self) -> Result<Vec<Endpoint>, StoreError> {
        if self.reads == Reads::Primary {
            return Ok(Vec::new());
        }
        let (ours, reads) = (self.ours.clone(), self.reads);
        let first = self.first();
        let master = first.endpoint.clone();
        let control = first.control.get()?;
        let replicas = match ours {
            Some((servers, recipe)) => readers::of_ours(&*servers, &recipe, &master.address),
            None => readers::of_master(&Info::read(control)?, &master),
        };
        reads.must_have(replicas.len(), "Make some: --on redis-sentinel; an attached master names its own.")?;
        readers::until_follow(control, &replicas)?;
        Ok(replicas)
    }

    /// A session to one server.
    fn plain(
        &self,
        endpoint: &Endpoint,
        whereabouts: Option<&Arc<Whereabouts>>,
        tls: Option<&TlsClient>,
    ) -> Result<WireClient, StoreError> {
        let mut plain = RedisSession::new(Arc::new(endpoint.login.clone()), self.protocol, self.prefix_in_use());
        plain.whereabouts = whereabouts.cloned();
        let session = session(plain, tls, &endpoint.address, &endpoint.login.place)?;
        Ok(WireClient { address: endpoint.address.clone(), session })
    }
}

impl Store for RedisStore {
    fn describe(&mut self) -> Result<StoreDescription, StoreError> {
        let is_private = self.is_private;
        let place = match (is_private, self.cluster.is_some()) {
            (true, false) => "private server".to_owned(),
            (true, true) => format!("private cluster of {} servers", self.members.len()),
            (false, false) => self.login.place.clone(),
            (false, true) => format!("cluster of {} masters at {}", self.members.len(), self.login.place),
        };
        let control = self.first().control.get()?;
        let info = Info::read_if_permitted(control)?;
        let version = info.map_or_else(|| "Redis, whose version is not known".to_owned(), |info| info.version());
        let settings = self.settings(false)?;
        Ok(StoreDescription { version, place, settings })
    }

    fn settings_in_force(&mut self, durability: Durability) -> Result<Option<Vec<Setting>>, StoreError> {
        // They are the servers', not the sessions'.
        self.make_durable(durability)?;
        self.settings(true).map(Some)
    }

    fn demand(&mut self, durability: Durability) -> Result<(), StoreError> {
        for member in self.members.iter_mut().filter(|member| member.data_dir().is_none()) {
            let place = member.endpoint.login.place.clone();
            append_only::demand(member.control.get()?, durability, &place)?;
        }
        Ok(())
    }

    fn promise(&mut self) -> Result<String, StoreError> {
        let all = self.current().iter_mut().map(|member| append_only::promise(member.control.get()?));
        let mut all = all.collect::<Result<Vec<_>, StoreError>>()?;
        all.sort_unstable();
        all.dedup();
        Ok(all.join(" Another node: "))
    }

    fn create(&mut self, layout: &Layout) -> Result<(), StoreError> {
        if !layout.names_keys {
            if !self.is_private && self.cluster.is_none() {
                self.first().must_be_one()?;
            }
            self.note(true)?;
        }
        self.clear()?;
        for member in self.current() {
            member.note_others()?;
        }
        self.run_setup(&layout.statements)
    }

    fn copies(&mut self) -> Result<Vec<usize>, StoreError> {
        let Some((servers, recipe)) = self.ours.clone().filter(|_| self.cluster.is_none()) else {
            return Ok(Vec::new());
        };
        let master = self.first();
        let replicas = readers::of_ours(&*servers, &recipe, &master.endpoint.address);
        readers::until_follow(master.control.get()?, &replicas)?;
        let is_one = |node: &Arc<plimsoll_core::Node>| {
            replicas.iter().any(|replica| replica.address == recipe.endpoint(node).address)
        };
        self.copies =
            servers.nodes().into_iter().filter(is_one).map(|node| (node.number, recipe.endpoint(&node))).collect();
        Ok(self.copies.iter().map(|(number, _)| *number).collect())
    }

    fn read_copy(&mut self, node: Option<usize>) {
        let copy = self.copies.iter().find(|(number, _)| Some(*number) == node);
        self.copy = copy.map(|(_, endpoint)| endpoint.clone());
    }

    fn sessions(&mut self, count: u32, durability: Durability) -> Result<Sessions, StoreError> {
        self.make_durable(durability)?;
        for member in self.current() {
            member.background = Background::begin(member.control.get()?)?;
        }
        let tls = self.first().endpoint.tls_client()?;
        let members = self.cluster.as_ref().map(|redirections| {
            Arc::new(Members {
                login: Arc::clone(&self.login),
                tls: tls.clone(),
                protocol: self.protocol,
                prefix: self.prefix_in_use().to_owned(),
                nodes: self.members.iter().map(Member::announced).collect(),
                redirections: Arc::clone(redirections),
            })
        });
        let master = self.first().endpoint.address.clone();
        let whereabouts = match (&self.watched, &self.sentinels) {
            (Some(watched), _) => Some(watched.follow(master)?),
            (None, Some(sentinels)) => {
                let sentinels = sentinels.clone();
                Some(follow(master, move || sentinels.master().ok())?)
            }
            (None, None) => None,
        };
        let replicas = self.replicas()?;
        let endpoint = self.copy.as_ref().unwrap_or(&self.members[0].endpoint);
        let whereabouts = whereabouts.filter(|_| self.copy.is_none());
        let (whereabouts, tls) = (whereabouts.as_ref(), tls.as_ref());
        let client = |number: u32| match &members {
            Some(members) => {
                let session = Box::new(ClusterSession::new(Arc::clone(members)));
                Ok(WireClient { address: endpoint.address.clone(), session })
            }
            None => {
                let replica = |at: usize| self.plain(&replicas[at], None, tls);
                let master = || self.plain(endpoint, whereabouts, tls);
                self.reads.session(number as usize, master, replicas.len(), replica)
            }
        };
        let clients = (0..count).map(client);
        Ok(Sessions::Wire(clients.collect::<Result<_, StoreError>>()?))
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.complete_file()?;
        for member in self.current() {
            match member.data_dir() {
                // The server writes what it acknowledges; the kernel needs to be told to keep it.
                Some(data) => {
                    append_only::sync_files(data).map_err(|error| StoreError::io(data.display(), &error))?;
                }
                None => append_only::ask_to_write_all(member.control.get()?)?,
            }
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<(), StoreError> {
        self.complete_file()?;
        let is_private = self.is_private;
        for member in self.current() {
            let control = member.control.get()?;
            append_only::until_quiet(control)?;
            if is_private {
                append_only::ask_to_write_all(control)?;
            }
        }
        Ok(())
    }

    fn disconnect(&mut self) -> Result<(), StoreError> {
        self.complete_file()?;
        self.current().iter_mut().for_each(|member| member.control.hang_up());
        Ok(())
    }

    fn footprint(&mut self) -> Result<Footprint, StoreError> {
        let (mut data_bytes, mut total_bytes) = (0, Some(0));
        for member in self.current() {
            data_bytes += member.data_bytes()?;
            let tree = member.data_dir().and_then(|dir| tree_bytes(dir, Metadata::len));
            total_bytes = total_bytes.zip(tree).map(|(total, tree)| total + tree);
        }
        Ok(Footprint { data_bytes, index_bytes: None, total_bytes })
    }

    fn cache_bytes(&mut self) -> Result<Option<CacheSize>, StoreError> {
        let mut limit_bytes = Some(0);
        for member in self.current() {
            // In INFO also where CONFIG may not be asked. One node without a limit: the whole has none.
            let Some(info) = Info::read_if_permitted(member.control.get()?)? else { return Ok(None) };
            let own = info.number("maxmemory");
            limit_bytes = limit_bytes.filter(|_| own > 0).map(|sum| sum + own);
        }
        Ok(Some(CacheSize::InMemory { setting: "maxmemory", limit_bytes }))
    }

    fn check_integrity(&mut self) -> Result<Option<String>, StoreError> {
        let Some((_, recipe)) = self.ours.clone().filter(|_| !self.file_is_off) else { return Ok(None) };
        let mut said = Vec::new();
        for member in self.current() {
            append_only::until_quiet(member.control.get()?)?;
            let found = member.data_dir().and_then(data_file);
            let program = found.as_ref().and_then(|(of, _)| recipe.check_program(of));
            let (Some((_, file)), Some(program)) = (found, program) else { return Ok(None) };
            said.push(checked(&program, &file)?);
        }
        said.dedup();
        Ok(Some(said.join("; ")))
    }

    fn probes(&mut self) -> Vec<Probe> {
        let redirections = self.cluster.clone();
        // Replicas too, where one of them may become the master.
        let watched = self.watched.as_ref().map(Watched::members);
        let members = watched.as_deref().unwrap_or(&self.members);
        if let Some(sentinels) = self.sentinels.clone() {
            return vec![sentinels.probe(&members[0].endpoint)];
        }
        if redirections.is_none() && members.len() == 1 {
            return vec![members[0].probe(String::new())];
        }
        let nodes = members.iter().zip(1..);
        let mut probes: Vec<Probe> = nodes.map(|(member, number)| member.probe(format!("node {number}"))).collect();
        let total = |name, of: &AtomicU64| Reading::total("", name, "", of.load(Ordering::Relaxed) as f64);
        if let Some(redirections) = redirections {
            probes.push(Box::new(move || {
                Ok(vec![total("cluster_moved", &redirections.moved), total("cluster_ask", &redirections.asked)])
            }));
        }
        probes
    }

    fn cycle(&mut self) -> Result<Option<Cycle>, StoreError> {
        let mut longest: Option<Cycle> = None;
        for member in self.current() {
            let Some(background) = &member.background else { continue };
            let cycle = background.cycle(member.control.get()?)?;
            // Once the slowest node of a cluster has had one, all have.
            longest = longest.into_iter().chain(cycle).max_by(|one, other| one.seconds.total_cmp(&other.seconds));
        }
        Ok(longest)
    }

    fn close(&mut self) -> Result<(), StoreError> {
        let cleared = self.clear().and_then(|()| self.note(false));
        self.is_noted = false;
        cleared.map_err(|error| match self.is_private {
            true => error.leaves("the keys of the run", None).next(
                "in a lab, plimsoll lab start NAME starts the server again; the keys go with the lab at the latest",
            ),
            false => {
                let what = format!("key prefix {} at {}", self.prefix, self.login.place);
                error.leaves(what, self.removal(&self.run_id))
            }
        })
    }
}
