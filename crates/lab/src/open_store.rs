//! An open store together with the private servers or the lab that it runs on.

use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use plimsoll_core::{
    Address, ColdStart, DiskSpec, Layout, Limits, Node, NodeSite, Nodes, OpenOptions, Removal, Servers, Setting, Store,
    StoreError, StoreErrorKind, StoreKind, StoreSpec, Survivors, Target,
};

use crate::caught;
use crate::cluster::{Bases, Cluster};
use crate::described::{self, DescribedServer};
use crate::directories::FALLBACK_BASES;
use crate::disks::{OwnDisks, PowerSwitch};
use crate::hosts::NamespaceGuard;
use crate::page_cache::{PageCache, drop_files};
use crate::power::PowerRecovery;
use crate::standing::{Lab, LabAct, LabLog, NodeState};
use crate::supervisor::Supervisor;

/// Longest wait for a server that may be about to end: a killed process closes its connections a moment before it has
/// ended.
const DYING: Duration = Duration::from_secs(1);

/// An open store with its servers. Closing or dropping it ends private servers and removes their files. If it is
/// dropped, their logs are kept, because something failed.
pub struct OpenStore {
    // Dropped first: a client goes before its server.
    store: Box<dyn Store>,
    location: Location,
    spec: StoreSpec,
    is_closed: bool,
    is_spent: bool,
    // Dropped last: programs that use the disks have to end first.
    disks: Option<OwnDisks>,
}

/// Private servers that had ended and run again.
#[derive(Debug, Clone)]
pub struct Revival {
    /// Ending of the first of them.
    pub ended: StoreError,
    /// Words for what was done: `node 2 was started again`.
    pub done: String,
}

/// Location of a store.
enum Location {
    /// Private servers.
    Cluster {
        cluster: Cluster,
        /// Keeps this thread, and all processes it starts, in the hosts' network.
        _guard: Option<NamespaceGuard>,
    },
    /// Servers of a lab, which keeps running.
    Lab {
        servers: Arc<dyn Servers>,
        log: Mutex<LabLog>,
        /// Keeps this thread in the lab's network.
        _guard: Option<NamespaceGuard>,
    },
    /// This process, with the files in this directory.
    Embedded(PathBuf),
    /// An attached server.
    Attached,
}

/// Opens a store of `kind`, and starts private servers for it if it needs any. `progress` receives a line for each step
/// that takes a while.
///
/// # Errors
/// The errors of [`Cluster::start`] and of the store.
pub fn open(
    kind: &dyn StoreKind,
    mut options: OpenOptions,
    progress: &mut dyn FnMut(&str),
) -> Result<OpenStore, StoreError> {
    let disks = match (DiskSpec::of(&options.params), &options.target) {
        (Some(disk), Target::Private { data_dir, .. } | Target::Described { data_dir, .. }) => {
            Some(OwnDisks::new(disk, data_dir))
        }
        _ => None,
    };
    let mut start = |recipe, data_dir: &Path, said, log_dir: &Path| {
        let disks = disks.as_ref().map(|disks| Arc::clone(&disks.0));
        let bases = Bases { directories: bases(data_dir, said), disks };
        let limits = Limits::of(&options.params)?;
        Cluster::start_under(Supervisor::start()?, limits, recipe, bases, log_dir, &options.waits, progress)
    };
    let location = match &mut options.target {
        Target::Private { data_dir, said, log_dir } => match kind.recipe(&options.params)? {
            Some(recipe) => {
                let cluster = start(recipe, data_dir, *said, log_dir)?;
                options.target = Target::Servers(cluster.handle().servers());
                Location::Cluster { _guard: cluster.handle().enter()?, cluster }
            }
            None => {
                if let Some(disks) = &disks {
                    progress(&format!("making a disk with {}", disks.0.file_system().name()));
                    // An embedded store runs as this process's user.
                    *data_dir = disks.0.mount_point(0, None)?;
                }
                Location::Embedded(data_dir.clone())
            }
        },
        Target::Described { server, data_dir, log_dir } => {
            let cluster = start(Box::new(DescribedServer(server.clone())), data_dir, false, log_dir)?;
            let url = described::filled(&server.url, &cluster.first());
            options.target = Target::Attach { url, password: None };
            Location::Cluster { _guard: None, cluster }
        }
        Target::Lab { labs, name } => {
            let lab = Lab::open(labs, name)?.with_waits(options.waits.clone());
            let log = Mutex::new(lab.log()?);
            let (there, status) = (lab.enter()?, lab.status()?);
            use NodeState::{Hanging, NotReady, Running, Starting, Unknown};
            let is_away = |state| !matches!(state, Running | Starting | NotReady | Unknown | Hanging);
            for node in status.nodes.iter().filter(|node| is_away(node.state)) {
                let (number, state) = (node.number + 1, node.state.name());
                progress(&format!(
                    "node {number} of lab {name} is {state}: `plimsoll lab start {name} {number}` starts it"
                ));
            }
            let url = status.url;
            let servers: Arc<dyn Servers> = Arc::new(lab);
            options.target = match url {
                Some(url) => Target::Attach { url, password: None },
                None => Target::Servers(Arc::clone(&servers)),
            };
            Location::Lab { servers, log, _guard: there }
        }
        _ => Location::Attached,
    };
    let is_in_lab = matches!(location, Location::Lab { .. });
    let mut tell = |note: &str| progress(if is_in_lab { Removal::without_command(note) } else { note });
    let (spec, store) = (kind.spec().clone(), caught::open(kind, options, &mut tell)?);
    if let Some(disks) = &disks {
        // A power cut must not lose files that Plimsoll itself has written.
        disks.0.sync()?;
        // Only now, because making a server takes many flushes that are not measured.
        disks.0.slow_down()?;
    }
    Ok(OpenStore { store, location, spec, is_closed: false, is_spent: false, disks })
}

/// Stops all servers, calls `between` for the data directory of each, and starts them, also after an error.
fn restarted(servers: &dyn Servers, between: impl FnMut(&Path) -> Result<(), StoreError>) -> Result<(), StoreError> {
    let act = || servers.nodes().iter().map(|node| node.data_dir.as_path()).try_for_each(between);
    // A lab must not stay without the servers that had stopped before one that did not.
    let done = servers.stop(Nodes::All).and_then(|_| act());
    servers.start(Nodes::All)?;
    done
}

/// Returns the bases for a private server's directories, best first: the run's data directory and, unless the user
/// named that (`said`), the fallbacks.
fn bases(data_dir: &Path, said: bool) -> Vec<PathBuf> {
    let others = FALLBACK_BASES.into_iter().filter(|_| !said).map(PathBuf::from);
    [data_dir.to_owned()].into_iter().chain(others).collect()
}

impl OpenStore {
    /// Returns the store's spec.
    pub fn spec(&self) -> &StoreSpec {
        &self.spec
    }

    /// Calls [`Store::create`] for a layout that the store supports.
    ///
    /// # Errors
    /// The errors of [`StoreSpec::must_take`] and of the store.
    pub fn create(&mut self, layout: &Layout) -> Result<(), StoreError> {
        self.spec.must_take(layout)?;
        self.store.create(layout)
    }

    /// Returns the places of its servers on this machine; none if the store is embedded or attached.
    pub fn sites(&self) -> Vec<NodeSite> {
        self.servers().map_or_else(Vec::new, |servers| servers.sites())
    }

    /// Returns the ids of its servers' first processes, as [`OpenStore::sites`].
    pub fn processes(&self) -> Vec<u32> {
        self.sites().into_iter().map(|site| site.pid).collect()
    }

    /// Returns the name of the server at `address`: `node 2` for a private one, otherwise its address.
    pub fn server_name(&self, address: &Address) -> String {
        let nodes = self.servers().map_or_else(Vec::new, |servers| servers.nodes());
        let is_at = |node: &&Arc<Node>| match address {
            Address::Unix(path) => path.starts_with(&node.socket_dir),
            Address::Tcp(host, port) => *host == node.address.to_string() && node.ports.contains(port),
        };
        match (nodes.iter().find(is_at), address) {
            // Another port than the node's first may belong to a proxy, such as that for reads.
            (Some(node), Address::Tcp(_, port)) if node.ports.first() != Some(port) => {
                format!("node {}:{port}", node.number + 1)
            }
            (Some(node), _) => format!("node {}", node.number + 1),
            (None, Address::Tcp(host, port)) => format!("{host}:{port}"),
            (None, Address::Unix(path)) => path.display().to_string(),
        }
    }

    /// Returns the servers that the store runs on; `None` if it is embedded or attached.
    pub fn servers(&self) -> Option<Arc<dyn Servers>> {
        match &self.location {
            Location::Cluster { cluster, .. } => Some(cluster.handle().servers()),
            Location::Lab { servers, .. } => Some(Arc::clone(servers)),
            _ => None,
        }
    }

    /// Returns [`Servers::client_hosts`] of its servers.
    ///
    /// # Errors
    /// As there; `Usage` if it is embedded or attached.
    pub fn client_hosts(&self, count: u32) -> Result<Vec<PathBuf>, StoreError> {
        let none = || {
            StoreError::usage(format!("{} has no servers that Plimsoll starts", self.spec.name))
                .next("leave `client_hosts` out, or use a store with several nodes: plimsoll list stores")
        };
        self.servers().ok_or_else(none)?.client_hosts(count)
    }

    /// Returns true if its servers are those of a lab.
    pub fn is_in_lab(&self) -> bool {
        matches!(self.location, Location::Lab { .. })
    }

    /// Returns what others have done to its lab since the last call; at its end (`is_last`) also what they have begun.
    ///
    /// # Errors
    /// Errors of reading the lab's log.
    pub fn lab_acts(&self, is_last: bool) -> Result<Vec<LabAct>, StoreError> {
        let Location::Lab { log, .. } = &self.location else { return Ok(Vec::new()) };
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        let mut acts = log.ended().map_err(|error| StoreError::io("the log of the lab", &error))?;
        acts.extend(if is_last { log.take_in_progress() } else { Vec::new() });
        Ok(acts)
    }

    /// Returns [`Servers::settings`] of its servers.
    pub fn lab_settings(&self) -> Vec<Setting> {
        let mut settings = self.servers().map_or_else(Vec::new, |servers| servers.settings());
        settings.extend(self.disks.iter().flat_map(|disks| disks.0.settings()));
        settings
    }

    /// Returns the handle that cuts the power of its disks; `None` if they cannot lose power.
    pub fn power_switch(&self) -> Option<PowerSwitch> {
        let cluster = match &self.location {
            Location::Cluster { cluster, .. } => Some(cluster.handle()),
            _ => None,
        };
        self.disks.as_ref().map(|disks| PowerSwitch::new(disks, cluster))
    }

    /// Returns true if no other trial can use the store: it did not come back after a power cut, or its disk has failed.
    pub fn is_spent(&self) -> bool {
        self.is_spent
    }

    /// Marks the store as unusable for other trials, because its disk has failed.
    pub fn spend(&mut self) {
        self.is_spent = true;
    }

    /// Cuts power, unless that was done, and restores it with the un-flushed writes that `survivors` selects. Then
    /// starts the servers, and waits until their cluster is complete.
    ///
    /// # Errors
    /// `Usage` if the disk cannot lose power; errors of the disk.
    pub fn power_cycle(&mut self, survivors: Survivors) -> Result<PowerRecovery, StoreError> {
        let Some(switch) = self.power_switch() else {
            return Err(
                StoreError::usage("this store's disk cannot lose power").next("choose a disk that can: disk=ext4")
            );
        };
        let cut = switch.cut_now()?;
        switch.kill_servers()?;
        // Before an embedded store closes its files, and removes some.
        let at_risk = switch.at_risk(self.spec.write_kind);
        // An error here is expected, because the server has no power.
        let _ = self.store.disconnect();
        let back = Instant::now();
        let mounted = match switch.power_on(survivors) {
            Ok(()) => Ok(()),
            // A damaged file system is a result.
            Err((true, error)) => Err(error),
            Err((false, error)) => {
                self.is_spent = true;
                return Err(error);
            }
        };
        let started = mounted.and_then(|()| match &self.location {
            // Starts the nodes that do not run.
            Location::Cluster { cluster, .. } => cluster.start(Nodes::All).map(drop),
            _ => Ok(()),
        });
        let came_back = started.and_then(|()| self.store.reconnect());
        self.is_spent = came_back.is_err();
        Ok(PowerRecovery { cut, at_risk, recovery: back.elapsed(), came_back })
    }

    /// Stops and starts the servers, or closes and opens an embedded store.
    ///
    /// # Errors
    /// `Usage` if the store is attached; errors of its servers and of the store.
    pub fn restart(&mut self) -> Result<(), StoreError> {
        self.stop_and_start(|_| Ok(()))
    }

    /// Starts the private servers that have ended and should run. The others go on, with their memory and their votes.
    /// Returns `None` if all run, or the store has no private servers. `has_failed` is true if an operation failed, so
    /// that a server may be about to end.
    ///
    /// All servers are restarted if one that runs does not follow the present primary, or if those that start do not
    /// become one cluster with the others: Galera nodes cannot join a minority.
    ///
    /// # Errors
    /// The errors of [`OpenStore::restart`].
    pub fn revive(&mut self, has_failed: bool) -> Result<Option<Revival>, StoreError> {
        let Location::Cluster { cluster, .. } = &self.location else { return Ok(None) };
        let until = Instant::now() + if has_failed { DYING } else { Duration::ZERO };
        let ended = loop {
            match cluster.check(Nodes::All) {
                Err(ended) => break ended,
                Ok(()) if Instant::now() >= until => return Ok(None),
                Ok(()) => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        let (nodes, running) = (cluster.nodes(), cluster.running());
        let is_away = |node: &&Arc<Node>| !running.iter().any(|other| other.number == node.number);
        let away: Vec<String> = nodes.iter().filter(is_away).map(|node| (node.number + 1).to_string()).collect();
        let done = match away.as_slice() {
            all if all.len() == nodes.len() => "the servers were started again".to_owned(),
            [one] => format!("node {one} was started again"),
            several => format!("nodes {} were started again", several.join(", ")),
        };
        self.store.disconnect()?;
        let started = match cluster.handle().has_stale() {
            true => Err(StoreError::broken("a node that runs does not follow the primary")),
            false => cluster.handle().start_beside(),
        };
        let back = started.and_then(|()| self.store.reconnect()).and_then(|()| cluster.check(Nodes::All));
        match back {
            Ok(()) => Ok(Some(Revival { ended, done })),
            // Nothing else runs that a restart could change.
            Err(error) if running.is_empty() || error.kind == StoreErrorKind::Interrupted => Err(error),
            Err(error) => {
                self.restart()?;
                Ok(Some(Revival { ended, done: format!("all servers were restarted: {error}") }))
            }
        }
    }

    /// Returns the cause of `lost`, the error of a request to private servers: the end of one that should run, or the log of
    /// one that reports a crash. Other stores have no further cause.
    pub fn cause_of(&self, lost: StoreError) -> StoreError {
        let Location::Cluster { cluster, .. } = &self.location else { return lost };
        let until = Instant::now() + DYING;
        loop {
            let mut ended = cluster.nodes().into_iter().filter_map(|node| cluster.check(Nodes::One(node.number)).err());
            // One that was stopped or killed by command should not run.
            if let Some(ended) = ended.find(|ended| ended.kind != StoreErrorKind::Unreachable) {
                return ended;
            }
            if Instant::now() >= until {
                return cluster.handle().explain(lost);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Restarts the store with its files dropped from the page cache.
    ///
    /// # Errors
    /// Errors of its servers and of the store, and of reading its files. The store runs again then, if possible.
    pub fn cold(&mut self) -> Result<ColdStart, StoreError> {
        if matches!(self.location, Location::Attached) {
            return Ok(ColdStart::NotPossible("Plimsoll does not stop an attached server".to_owned()));
        }
        let (mut file_bytes, mut resident_bytes) = (0, 0);
        self.stop_and_start(|files| {
            let dropped: PageCache = drop_files(files).map_err(|error| StoreError::io(files.display(), &error))?;
            file_bytes += dropped.file_bytes;
            resident_bytes += dropped.resident_bytes;
            Ok(())
        })?;
        if file_bytes == 0 && self.spec.keeps_data {
            return Ok(ColdStart::NotPossible("it has no files".to_owned()));
        }
        Ok(ColdStart::Done { file_bytes, resident_bytes })
    }

    fn stop_and_start(&mut self, mut between: impl FnMut(&Path) -> Result<(), StoreError>) -> Result<(), StoreError> {
        let done = match &self.location {
            Location::Attached => {
                let what = format!("Plimsoll does not restart an attached {} server", self.spec.name);
                let next = format!("Use a private server: --on {}", self.spec.name);
                return Err(StoreError::new(StoreErrorKind::Usage, what).next(next));
            }
            Location::Embedded(files) => {
                self.store.disconnect()?;
                between(files)
            }
            Location::Cluster { .. } | Location::Lab { .. } => {
                self.store.disconnect()?;
                self.servers().map_or(Ok(()), |servers| restarted(&*servers, between))
            }
        };
        self.store.reconnect()?;
        done
    }

    /// Drops the store's data, stops its private servers, and removes all files.
    ///
    /// # Errors
    /// Errors of dropping and removing.
    pub fn close(mut self) -> Result<(), StoreError> {
        self.is_closed = true;
        let closed = match std::mem::replace(&mut self.location, Location::Attached) {
            Location::Cluster { cluster, .. } => cluster.close(),
            // The data goes with the lab, so no command is advised. The guard leaves the lab's network after that.
            _lab @ Location::Lab { .. } => self.store.close().map_err(|error| StoreError { next: None, ..error }),
            _ => self.store.close(),
        };
        let disks = self.disks.take();
        // Closes files that the store still has open on the disks.
        drop(self);
        closed.and(disks.map_or(Ok(()), |disks| disks.0.close()))
    }
}

impl Drop for OpenStore {
    fn drop(&mut self) {
        // Not closed, so something failed before. Data in an attached server is removed nevertheless.
        if !self.is_closed && matches!(self.location, Location::Attached | Location::Lab { .. }) {
            let _ = self.store.close();
        }
    }
}

impl Deref for OpenStore {
    type Target = dyn Store;

    fn deref(&self) -> &Self::Target {
        &*self.store
    }
}

impl DerefMut for OpenStore {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.store
    }
}
