//! A store under test: its client side and, if Plimsoll can start it, its server side.

mod spec;

use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::catalogue::Params;
use crate::error::{StoreError, StoreErrorKind};
use crate::layout::Layout;
use crate::op::{KindId, OpKind};
use crate::password::Password;
use crate::production::{LogReceiver, Production};
use crate::sampler::Reading;
use crate::server::{Recipe, ServerDescription, Servers};
use crate::session::Sessions;
use crate::value::{ValueBuf, Values};
use crate::waits::Waits;
pub use spec::{ErrorCodes, StorePreset, StoreSpec};

crate::words! {
    /// An interface that a store can speak and a workload can need.
    pub enum Interface {
        /// Values under keys, both bytes.
        Kv = "kv",
        /// Records with fields.
        Records = "records",
        /// Statements.
        Sql = "sql",
        /// As `Kv`, and keys can be read in order.
        KvScan = "kv-scan",
        /// HTTP requests.
        Http = "http",
        /// Operations on a directory.
        Ldap = "ldap",
        /// Commands of words.
        Commands = "commands",
    }
}

impl Interface {
    /// The error for an interface that `store` does not speak; `whose` names the part of the plan that needs it.
    pub fn refused(self, store: &str, whose: &str) -> StoreError {
        let what = format!("{store} does not speak `{}`, which {whose} needs", self.name());
        StoreError::new(StoreErrorKind::Usage, what).next("name another store, or leave it out")
    }
}

crate::words! {
    /// A family of SQL: differences between stores in statements that create and fill tables.
    pub enum Dialect {
        /// PostgreSQL and compatible stores.
        Postgres = "postgres",
        /// MariaDB and MySQL.
        Mysql = "mysql",
        /// SQLite.
        Sqlite = "sqlite",
    }
}

crate::words! {
    /// Failures that an acknowledged write survives.
    pub enum Durability {
        /// Power loss.
        Durable = "durable",
        /// The death of the process, but not of the machine.
        Buffered = "buffered",
        /// None, until one sync at the end of the load.
        AtEnd = "at-end",
        /// Determined by the store's settings as they are found: nothing is set, and nothing is refused. Every store
        /// supports this; [`Store::promise`] describes the result.
        AsConfigured = "as-configured",
    }
}

/// Location of the store.
#[derive(Clone)]
pub enum Target {
    /// A private one: embedded, or a server started for this run. All its files go under `data_dir`, which exists, is
    /// empty, and is removed afterwards by the caller.
    Private {
        /// A directory for its files.
        data_dir: PathBuf,
        /// The user chose the directory: if the server's user cannot enter it, the server is not started. Otherwise
        /// the server may keep its files in `/var/tmp` instead.
        said: bool,
        /// A directory that keeps the log of a server that failed.
        log_dir: PathBuf,
    },
    /// A private server that a plan describes; otherwise as `Private`.
    Described {
        /// The description.
        server: ServerDescription,
        /// Data directory, as in `Private`.
        data_dir: PathBuf,
        /// Log directory, as in `Private`.
        log_dir: PathBuf,
    },
    /// Private servers that are running.
    Servers(Arc<dyn Servers>),
    /// The servers of a lab, which keep running after the run.
    Lab {
        /// The directory of all labs.
        labs: PathBuf,
        /// The lab's name in that directory.
        name: String,
    },
    /// A server that Plimsoll attaches to.
    Attach {
        /// The URL, without password.
        url: String,
        /// The password, if one is known. Must never be shown, recorded or passed to a child process.
        password: Option<Password>,
    },
}

impl Target {
    /// The directory for the files of an embedded store.
    ///
    /// # Errors
    /// `Usage` if the target is not a private one.
    pub fn data_dir(&self) -> Result<&Path, StoreError> {
        match self {
            Target::Private { data_dir, .. } => Ok(data_dir),
            _ => Err(StoreError::new(StoreErrorKind::Usage, "an embedded store cannot be attached to")
                .next("name it without a URL")),
        }
    }

    /// The URL and password of an attached server.
    ///
    /// # Errors
    /// `Usage` if the target is not an attached one.
    pub fn url(&self) -> Result<(&str, Option<&Password>), StoreError> {
        match self {
            Target::Attach { url, password } => Ok((url, password.as_ref())),
            _ => Err(StoreError::new(StoreErrorKind::Usage, "attaching to the store needs a URL")),
        }
    }
}

/// Options for opening a store.
#[derive(Clone)]
pub struct OpenOptions {
    /// The location of the store.
    pub target: Target,
    /// Values for the spec's parameters; missing ones have their defaults.
    pub params: Params,
    /// Name of the run; part of the name of everything created in an attached store.
    pub run_id: String,
    /// Limits of waits for the store's server.
    pub waits: Waits,
}

/// A setting of a store that differs from its default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// The store's name of the setting.
    pub name: String,
    /// The current value.
    pub value: String,
    /// The default, if the store reports it.
    pub default: Option<String>,
    /// Origin of the value: `plimsoll`, `server`, `command line`, `configuration file`.
    pub source: String,
}

impl Setting {
    /// Creates a setting as the store reports it.
    pub fn new(name: &str, value: impl Into<String>, default: Option<&str>, source: &str) -> Self {
        let default = default.map(str::to_owned);
        Self { name: name.to_owned(), value: value.into(), default, source: source.to_owned() }
    }

    /// Creates a setting that Plimsoll changed from its default.
    pub fn ours(name: &str, value: impl Into<String>, default: &str) -> Self {
        Self::new(name, value, Some(default), "plimsoll")
    }
}

/// Description of an open store.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StoreDescription {
    /// Version, as the store reports it.
    pub version: String,
    /// Location without credentials: `embedded`, `private server`, `postgres://host:5432/db`.
    pub place: String,
    /// All settings that differ from the defaults.
    pub settings: Vec<Setting>,
}

/// Bytes that a store's data takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Footprint {
    /// Records, without secondary indexes; with them if the store cannot tell them apart.
    pub data_bytes: u64,
    /// Secondary indexes; `None` if the store cannot tell them apart.
    pub index_bytes: Option<u64>,
    /// All files on disk, logs included, if the store can tell.
    pub total_bytes: Option<u64>,
}

/// The store's cache of data that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheSize {
    /// In the store's own cache.
    Own {
        /// The store's own name of the setting: `shared_buffers`.
        setting: &'static str,
        /// Size of the cache in bytes, summed over the servers of a cluster.
        bytes: u64,
    },
    /// In the kernel's page cache only.
    PageCache,
    /// All its data live in memory.
    InMemory {
        /// The store's own name of the setting that limits them: `maxmemory`.
        setting: &'static str,
        /// Limit in bytes, summed over the servers of a cluster; `None` if there is no limit.
        limit_bytes: Option<u64>,
    },
}

/// A store's own maintenance cycle: see [`SeriesKind::Cycle`](crate::SeriesKind::Cycle).
#[derive(Debug, Clone, PartialEq)]
pub struct Cycle {
    /// Longest time in seconds, under writes, until a cycle ends.
    pub seconds: f64,
    /// Work triggers the cycle, not time. `seconds` then holds at the rate of work since sessions were last opened;
    /// at twice that rate a cycle takes half as long.
    pub by_work: bool,
    /// Description of the cycle, with the setting that shortens it: `checkpoint_timeout is 5min: …`.
    pub words: String,
}

/// Result of making a store cold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ColdStart {
    /// Reopened or restarted, with its files dropped from the page cache.
    Done {
        /// Bytes of its files.
        file_bytes: u64,
        /// Bytes of them that stayed in the page cache, by mincore.
        resident_bytes: u64,
    },
    /// Not done, with the reason.
    NotPossible(String),
}

/// A kind of store, as listed by `stores/all`.
pub trait StoreKind: Send + Sync {
    /// The description of this kind of store.
    fn spec(&self) -> &StoreSpec;

    /// Checks that everything a private server needs is installed, and returns a short summary of it. A missing
    /// program is an error of kind `Missing` that names the package.
    fn installed(&self) -> Result<String, StoreError> {
        Ok("built in".to_owned())
    }

    /// Describes the effects on an attached server, one line each, before anything happens there: first its location,
    /// then the objects that will be created and dropped. Empty for stores that cannot be attached to.
    ///
    /// # Errors
    /// Mistakes in `options` that show without opening anything: a URL, a password file.
    fn announce(&self, _options: &OpenOptions) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    /// Returns the recipe that starts private servers, or `None` for a store without servers.
    ///
    /// # Errors
    /// Invalid values of parameters; `Missing` if a program that these values need is not installed.
    fn recipe(&self, _params: &Params) -> Result<Option<Box<dyn Recipe>>, StoreError> {
        Ok(None)
    }

    /// Returns an example of each counter that [`Store::probes`] may read from stores with these parameters, except for
    /// those of [lock waits](crate::lock_waits), whose names are not fixed. The values are 0.
    fn counters(&self, _params: &Params) -> Vec<Reading> {
        Vec::new()
    }

    /// Opens a server in production over a read-only connection; `None` if this kind of store does not report its
    /// past statements.
    ///
    /// # Errors
    /// Unreachable servers and refused logins.
    fn production(&self, _options: OpenOptions) -> Result<Option<Box<dyn Production>>, StoreError> {
        Ok(None)
    }

    /// Calls `tell` for each statement in a server's log, and for its time, in any of the log formats that the store
    /// writes. Only for a store with a [`StoreKind::production`].
    ///
    /// # Errors
    /// The log cannot be read; `InvalidData` if it is none of these formats.
    fn read_log(&self, _log: &mut dyn BufRead, _tell: &mut LogReceiver<'_>) -> std::io::Result<()> {
        Ok(())
    }

    /// Returns true for the beginning of a log that [`StoreKind::read_log`] reads, if messages of the server show that.
    /// There may be no statement yet.
    fn is_log(&self, _head: &[u8]) -> bool {
        false
    }

    /// Opens a client of the running store; starts no server. `progress` receives messages about long steps.
    fn open(&self, options: OpenOptions, progress: &mut dyn FnMut(&str)) -> Result<Box<dyn Store>, StoreError>;
}

/// Reads the store's counters of its own work that are worth plotting beside a load, while the [`Store`] is busy with
/// anything else. It opens its own connection at the first call, and again after that has ended, so it outlives
/// servers: while a server is away it returns an error. Called once a slice while sessions are at work, so it must be
/// quick.
pub type Probe = Box<dyn FnMut() -> Result<Vec<Reading>, StoreError> + Send>;

/// Reads all `probes` in turn. A probe that fails beside others that do not is left out: its node may be away.
///
/// # Errors
/// The last error, if no probe reads anything.
pub fn read_probes(probes: &mut [Probe]) -> Result<Vec<Reading>, StoreError> {
    let (mut all, mut failure) = (Vec::new(), None);
    for probe in probes {
        match probe() {
            Ok(read) => all.extend(read),
            Err(error) => failure = Some(error),
        }
    }
    match failure {
        Some(error) if all.is_empty() => Err(error),
        _ => Ok(all),
    }
}

/// An open store. These calls belong to the control plane: they may take long, and no session is open during them,
/// except for [`Store::describe`] and [`Store::sync`].
pub trait Store: Send {
    /// Reports version, location and settings.
    fn describe(&mut self) -> Result<StoreDescription, StoreError>;

    /// Returns the session settings that [`Store::sessions`] uses for `durability`, as read back from a session, or
    /// from the server if it holds them: all that differ from the defaults. `None` if no setting depends on the
    /// session or the durability; [`Store::describe`] has them then.
    ///
    /// # Errors
    /// `Usage` if a setting made by the user contradicts the durability; the error names both.
    fn settings_in_force(&mut self, _durability: Durability) -> Result<Option<Vec<Setting>>, StoreError> {
        Ok(None)
    }

    /// Fails if the settings of an attached server provide less than `durability`. Private servers are configured
    /// accordingly instead.
    ///
    /// # Errors
    /// `Usage`, with the server's settings; `Permission` if the account may not read them.
    fn demand(&mut self, _durability: Durability) -> Result<(), StoreError> {
        Ok(())
    }

    /// Describes the failures that an acknowledged write survives with the current settings, in one sentence that
    /// ends with a full stop. This is the meaning of [`Durability::AsConfigured`].
    ///
    /// # Errors
    /// The settings cannot be read.
    fn promise(&mut self) -> Result<String, StoreError> {
        Ok("The settings do not tell what an acknowledged write survives.".to_owned())
    }

    /// Creates the empty objects of `layout`, and drops those of an earlier call.
    fn create(&mut self, layout: &Layout) -> Result<(), StoreError>;

    /// Runs the layout's [`Layout::after_load`] at the end of the load. Stores that speak SQL implement it.
    fn after_load(&mut self, _layout: &Layout) -> Result<(), StoreError> {
        Ok(())
    }

    /// Makes sessions that are opened later read-only or not. If the server can enforce this, it refuses writes.
    fn set_read_only(&mut self, _read_only: bool) {}

    /// Opens `count` sessions whose writes have the given durability.
    fn sessions(&mut self, count: u32, durability: Durability) -> Result<Sessions, StoreError>;

    /// Loads everything at once, if the store can do that faster than through sessions. `next` writes one operation
    /// of `kinds` into the buffer per call, until it returns `None`. The data has the given durability on return; the
    /// result says in a few words how it was loaded. `None` means that the load must go through sessions; `next` has
    /// not been called then.
    fn load_at_once(
        &mut self,
        _kinds: &[OpKind],
        _durability: Durability,
        _next: &mut dyn FnMut(&mut ValueBuf) -> Option<KindId>,
    ) -> Result<Option<String>, StoreError> {
        Ok(None)
    }

    /// Waits until every full copy of the data has caught up with the cluster, and returns the numbers of the nodes
    /// that hold one. Empty if there is one copy, or if each node holds some of the keys.
    ///
    /// # Errors
    /// A copy that does not catch up.
    fn copies(&mut self) -> Result<Vec<usize>, StoreError> {
        Ok(Vec::new())
    }

    /// Restricts sessions that are opened later to reads from the node with this number, without help of the others;
    /// `None` lifts the restriction.
    fn read_copy(&mut self, _node: Option<usize>) {}

    /// Makes everything acknowledged so far survive power loss: the one sync of `at-end`.
    fn sync(&mut self) -> Result<(), StoreError>;

    /// Runs the store's own maintenance (analyze, vacuum, checkpoint, compaction), and returns when the store is
    /// quiet.
    fn settle(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Releases its servers, or the files of an embedded store, so that they can be stopped. All data written before
    /// is in the files afterwards.
    fn disconnect(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Resumes after [`Store::disconnect`], when its servers run again.
    fn reconnect(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Bytes that its data takes.
    fn footprint(&mut self) -> Result<Footprint, StoreError>;

    /// Returns the kind and limit of the store's read cache; `None` if the store does not report it.
    fn cache_bytes(&mut self) -> Result<Option<CacheSize>, StoreError> {
        Ok(None)
    }

    /// Returns the store's query plan for this operation, as text; `None` if the store has none.
    fn explain(&mut self, _kind: &OpKind, _params: Values<'_>) -> Result<Option<String>, StoreError> {
        Ok(None)
    }

    /// Runs the store's own integrity check: `Ok(Some(what was checked))`, `Ok(None)` if the store has none, or an
    /// error of kind `Corrupt` with the store's message. Any other error means that the check could not be made.
    fn check_integrity(&mut self) -> Result<Option<String>, StoreError> {
        Ok(None)
    }

    /// Returns the readers of the store's counters, which work from any thread: one for each server that is asked, so
    /// that a silent server delays no other. None if the store has no counters.
    fn probes(&mut self) -> Vec<Probe> {
        Vec::new()
    }

    /// Longest duration of the store's maintenance cycle, by its settings and, if work triggers it, by its counters
    /// since sessions were last opened. `None` if that is unknown, nothing was written, or the store has no such
    /// cycle.
    fn cycle(&mut self) -> Result<Option<Cycle>, StoreError> {
        Ok(None)
    }

    /// Drops everything it created in an attached server, or removes the files of an embedded store. Objects on
    /// private servers are removed with the servers.
    fn close(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}
