//! A store that is open, with the servers of our own that it is on: what is done to both together.

use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_core::{
    Address, Cold, Disk, Layout, Limits, Node, Nodes, OpenOptions, Servers, Setting, Store, StoreError, StoreErrorKind,
    StoreKind, StoreSpec, Survivors, Target,
};

use crate::cluster::{Bases, Cluster};
use crate::described::{self, DescribedServer};
use crate::disks::{OwnDisks, PowerSwitch};
use crate::hosts::NamespaceGuard;
use crate::page_cache::{PageCache, drop_files};
use crate::place::FALLBACK_BASES;
use crate::power::PowerRecovery;
use crate::standing::{Lab, NodeState};
use crate::supervisor::Supervisor;

/// How long one is waited for that may be about to end: a process that is killed closes its connections a moment before it
/// has ended.
const DYING: Duration = Duration::from_secs(1);

/// A store, and what it is on. Closing or dropping it ends its servers and removes their files; where it is dropped their
/// logs are kept, for something has failed.
pub struct OpenStore {
    // Dropped first: a client goes before its server.
    store: Box<dyn Store>,
    place: Place,
    spec: StoreSpec,
    is_closed: bool,
    is_dead: bool,
    // Dropped last: what is on them has to have ended.
    disks: Option<OwnDisks>,
}

/// Where a store is.
enum Place {
    /// On servers of ours.
    Cluster {
        cluster: Cluster,
        /// This thread, with what it starts, reaches its hosts.
        _guard: Option<NamespaceGuard>,
    },
    /// On those of a lab, which stays.
    Lab {
        servers: Arc<dyn Servers>,
        /// As above.
        _guard: Option<NamespaceGuard>,
    },
    /// Inside this process, with its files here.
    Embedded(PathBuf),
    /// At somebody's server.
    Attached,
}

/// Opens a store of `kind`, on servers that are started for it where it needs some. `progress` is told what takes a while.
///
/// # Errors
/// As [`Cluster::start`] and the store say.
pub fn open(
    kind: &dyn StoreKind,
    mut options: OpenOptions,
    progress: &mut dyn FnMut(&str),
) -> Result<OpenStore, StoreError> {
    let disks = match (Disk::of(&options.params), &options.target) {
        (Some(disk), Target::Private { data_dir, .. } | Target::Described { data_dir, .. }) => {
            Some(OwnDisks::new(disk, data_dir))
        }
        _ => None,
    };
    let of_servers = || disks.as_ref().map(|disks| Arc::clone(&disks.0));
    let place = match &mut options.target {
        Target::Private { data_dir, said, log_dir } => match kind.recipe(&options.params)? {
            Some(recipe) => {
                let bases = Bases { places: bases(data_dir, *said), disks: of_servers() };
                let limits = Limits::of(&options.params)?;
                let supervisor = Supervisor::start()?;
                let cluster =
                    Cluster::start_under(supervisor, limits, recipe, bases, log_dir, &options.waits, progress)?;
                options.target = Target::Servers(cluster.handle().servers());
                Place::Cluster { _guard: cluster.handle().enter()?, cluster }
            }
            None => {
                if let Some(disks) = &disks {
                    progress(&format!("making a disk with {}", disks.0.file_system().name()));
                    // A store inside this process is this process's user's.
                    *data_dir = disks.0.mount_point(0, None)?;
                }
                Place::Embedded(data_dir.clone())
            }
        },
        Target::Described { server, data_dir, log_dir } => {
            let bases = Bases { places: bases(data_dir, false), disks: of_servers() };
            let recipe = Box::new(DescribedServer(server.clone()));
            let limits = Limits::of(&options.params)?;
            let supervisor = Supervisor::start()?;
            let cluster = Cluster::start_under(supervisor, limits, recipe, bases, log_dir, &options.waits, progress)?;
            let url = described::filled(&server.url, &cluster.first());
            options.target = Target::Attach { url, password: None };
            Place::Cluster { _guard: None, cluster }
        }
        Target::Lab { labs, name } => {
            let lab = Lab::open(labs, name)?;
            let (there, status) = (lab.enter()?, lab.status()?);
            let is_away = |state| !matches!(state, NodeState::Running | NodeState::Starting);
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
            Place::Lab { servers, _guard: there }
        }
        _ => Place::Attached,
    };
    let (spec, store) = (kind.spec().clone(), kind.open(options, progress)?);
    if let Some(disks) = &disks {
        // Files that Plimsoll itself has written are not to be the store's loss.
        disks.0.sync()?;
        // To make a server takes many flushes that nobody asks about.
        disks.0.slow_down()?;
    }
    Ok(OpenStore { store, place, spec, is_closed: false, is_dead: false, disks })
}

/// Stops servers and starts them, with something done to each one's files in between.
fn restarted(servers: &dyn Servers, between: impl FnMut(&Path) -> Result<(), StoreError>) -> Result<(), StoreError> {
    servers.stop(Nodes::All)?;
    let done = servers.nodes().iter().map(|node| node.data_dir.as_path()).try_for_each(between);
    servers.start(Nodes::All)?;
    done
}

/// Where a private server of a run may have its directories, best first: its data directory, and only there if that was
/// `said`; otherwise where its user can get to, if that is not there.
fn bases(data_dir: &Path, said: bool) -> Vec<PathBuf> {
    let others = FALLBACK_BASES.into_iter().filter(|_| !said).map(PathBuf::from);
    [data_dir.to_owned()].into_iter().chain(others).collect()
}

impl OpenStore {
    /// What it says of itself.
    pub fn spec(&self) -> &StoreSpec {
        &self.spec
    }

    /// [`Store::create`] of a layout that the store can take.
    ///
    /// # Errors
    /// As [`StoreSpec::must_take`] and the store say.
    pub fn create(&mut self, layout: &Layout) -> Result<(), StoreError> {
        self.spec.must_take(layout)?;
        self.store.create(layout)
    }

    /// Ids of the processes at the roots of its servers; none where it is embedded or attached.
    pub fn processes(&self) -> Vec<u32> {
        match &self.place {
            Place::Cluster { cluster, .. } => cluster.pids(),
            Place::Lab { servers, .. } => servers.pids(),
            _ => Vec::new(),
        }
    }

    /// What the server at `address` is called: `node 2` of our own, otherwise where it listens.
    pub fn server_name(&self, address: &Address) -> String {
        let nodes = match &self.place {
            Place::Cluster { cluster, .. } => cluster.nodes(),
            Place::Lab { servers, .. } => servers.nodes(),
            _ => Vec::new(),
        };
        let is_at = |node: &&Arc<Node>| match address {
            Address::Unix(path) => path.starts_with(&node.socket_dir),
            Address::Tcp(host, port) => *host == node.address.to_string() && node.ports.contains(port),
        };
        match (nodes.iter().find(is_at), address) {
            // Behind another port than its first it may be something else: a proxy's for what only reads.
            (Some(node), Address::Tcp(_, port)) if node.ports.first() != Some(port) => {
                format!("node {}:{port}", node.number + 1)
            }
            (Some(node), _) => format!("node {}", node.number + 1),
            (None, Address::Tcp(host, port)) => format!("{host}:{port}"),
            (None, Address::Unix(path)) => path.display().to_string(),
        }
    }

    /// The servers of ours that it is on; `None` where it is embedded or attached.
    pub fn servers(&self) -> Option<Arc<dyn Servers>> {
        match &self.place {
            Place::Cluster { cluster, .. } => Some(cluster.handle().servers()),
            Place::Lab { servers, .. } => Some(Arc::clone(servers)),
            _ => None,
        }
    }

    /// [`Servers::settings`] of what it is on.
    pub fn lab_settings(&self) -> Vec<Setting> {
        let mut settings = match &self.place {
            Place::Cluster { cluster, .. } => cluster.settings(),
            Place::Lab { servers, .. } => servers.settings(),
            _ => Vec::new(),
        };
        settings.extend(self.disks.iter().flat_map(|disks| disks.0.settings()));
        settings
    }

    /// What takes the power from its disks; `None` where those are none of ours.
    pub fn power_switch(&self) -> Option<PowerSwitch> {
        let cluster = match &self.place {
            Place::Cluster { cluster, .. } => Some(cluster.handle()),
            _ => None,
        };
        self.disks.as_ref().map(|disks| PowerSwitch::new(disks, cluster))
    }

    /// Whether it did not come back after a power cut.
    pub fn is_dead(&self) -> bool {
        self.is_dead
    }

    /// It is not to be used by another trial: its disk has failed.
    pub fn spend(&mut self) {
        self.is_dead = true;
    }

    /// Takes the power that is to go, if it has not gone, and gives it back: what `survivors` says of un-flushed writes is there,
    /// and servers are started on that, and waited for until their cluster is whole.
    ///
    /// # Errors
    /// `Usage` where the disk is none of ours; what the disk fails with.
    pub fn power_cycle(&mut self, survivors: Survivors) -> Result<PowerRecovery, StoreError> {
        let Some(switch) = self.power_switch() else {
            return Err(StoreError::usage("this store's disk cannot lose power").next("say which it has: disk=ext4"));
        };
        let cut = switch.cut_now()?;
        switch.kill_servers()?;
        // Whatever it says: it has no power.
        let _ = self.store.disconnect();
        let back = Instant::now();
        let mounted = match switch.power_on(survivors) {
            Ok(()) => Ok(()),
            // That is an answer, too.
            Err((true, error)) => Err(error),
            Err((false, error)) => {
                self.is_dead = true;
                return Err(error);
            }
        };
        let started = mounted.and_then(|()| match &self.place {
            // Those that do not run.
            Place::Cluster { cluster, .. } => cluster.start(Nodes::All).map(drop),
            _ => Ok(()),
        });
        let came_back = started.and_then(|()| self.store.reconnect());
        self.is_dead = came_back.is_err();
        Ok(PowerRecovery { cut, recovery: back.elapsed(), came_back })
    }

    /// Stops and starts it, or closes and opens an embedded one.
    ///
    /// # Errors
    /// `Usage` where it is somebody's; as its servers and the store say.
    pub fn restart(&mut self) -> Result<(), StoreError> {
        self.stop_and_start(|_| Ok(()))
    }

    /// Starts servers of its own again of which one has ended that should not have, and says how that ended. `None` where all
    /// of them run, or none are its own. `has_failed`: something on it has, so that one may be about to end.
    ///
    /// # Errors
    /// As [`OpenStore::restart`].
    pub fn revive(&mut self, has_failed: bool) -> Result<Option<StoreError>, StoreError> {
        let Place::Cluster { cluster, .. } = &self.place else { return Ok(None) };
        let until = Instant::now() + if has_failed { DYING } else { Duration::ZERO };
        let ended = loop {
            match cluster.check(Nodes::All) {
                Err(ended) => break ended,
                Ok(()) if Instant::now() >= until => return Ok(None),
                Ok(()) => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        self.restart()?;
        Ok(Some(ended))
    }

    /// The same with its files out of the page cache.
    ///
    /// # Errors
    /// As its servers and the store say, and when its files cannot be read. It runs again then, if it can.
    pub fn cold(&mut self) -> Result<Cold, StoreError> {
        if matches!(self.place, Place::Attached) {
            return Ok(Cold::NotPossible("an attached server is not ours to stop".to_owned()));
        }
        let (mut file_bytes, mut resident_bytes) = (0, 0);
        self.stop_and_start(|files| {
            let dropped: PageCache = drop_files(files).map_err(|error| StoreError::io(files.display(), &error))?;
            file_bytes += dropped.file_bytes;
            resident_bytes += dropped.resident_bytes;
            Ok(())
        })?;
        if file_bytes == 0 && self.spec.keeps_data {
            return Ok(Cold::NotPossible("it has no files".to_owned()));
        }
        Ok(Cold::Done { file_bytes, resident_bytes })
    }

    fn stop_and_start(&mut self, between: impl FnMut(&Path) -> Result<(), StoreError>) -> Result<(), StoreError> {
        let done = match &self.place {
            Place::Attached => {
                let what = format!("an attached {} server is not ours to restart", self.spec.name);
                let next = format!("Use a private server: --on {}", self.spec.name);
                return Err(StoreError::new(StoreErrorKind::Usage, what).next(next));
            }
            Place::Embedded(files) => {
                self.store.disconnect()?;
                std::iter::once(files.as_path()).try_for_each(between)
            }
            Place::Cluster { cluster, .. } => {
                self.store.disconnect()?;
                restarted(&**cluster, between)
            }
            Place::Lab { servers, .. } => {
                self.store.disconnect()?;
                restarted(&**servers, between)
            }
        };
        self.store.reconnect()?;
        done
    }

    /// Drops what it made, stops what was started, and removes all files.
    ///
    /// # Errors
    /// What could not be dropped or removed.
    pub fn close(mut self) -> Result<(), StoreError> {
        self.is_closed = true;
        let closed = match std::mem::replace(&mut self.place, Place::Attached) {
            Place::Cluster { cluster, .. } => cluster.close(),
            // A lab's network is left when that is done.
            _place => self.store.close(),
        };
        let disks = self.disks.take();
        // Its files are still open there.
        drop(self);
        closed.and(disks.map_or(Ok(()), |disks| disks.0.close()))
    }
}

impl Drop for OpenStore {
    fn drop(&mut self) {
        // Not closed: something failed before. What an attached server holds of ours still goes.
        if !self.is_closed && matches!(self.place, Place::Attached | Place::Lab { .. }) {
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
