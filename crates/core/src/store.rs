//! A store under test: its client side and, where it can be started here, its server side.

use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::catalogue::{ParamSpec, Params};
use crate::error::{StoreError, StoreErrorKind};
use crate::layout::{IndexMode, Layout};
use crate::op::{KindId, OpKind};
use crate::production::{Logged, Production};
use crate::sampler::Reading;
use crate::server::{Described, Recipe, Servers};
use crate::session::{SessionShape, SessionSpec, Sessions};
use crate::value::{ValueBuf, Values};
use crate::waits::Waits;

crate::words! {
    /// An interface that a store may speak and a workload may need.
    pub enum Interface {
        /// Bytes under bytes.
        Kv = "kv",
        /// Records with fields.
        Records = "records",
        /// Statements.
        Sql = "sql",
        /// Bytes under bytes that can be read in order.
        KvScan = "kv-scan",
        /// Requests.
        Http = "http",
        /// Operations on a directory.
        Ldap = "ldap",
        /// Commands of words.
        Commands = "commands",
    }
}

impl Interface {
    /// The one refusal of what `store` does not speak, and `whose` need it is.
    pub fn refused(self, store: &str, whose: &str) -> StoreError {
        let what = format!("{store} does not speak `{}`, which {whose} needs", self.name());
        StoreError::new(StoreErrorKind::Usage, what).next("name another store, or leave it out")
    }
}

crate::words! {
    /// A family of SQL: what differs between stores in statements that make and fill tables.
    pub enum Dialect {
        /// PostgreSQL and what speaks like it.
        Postgres = "postgres",
        /// MariaDB and MySQL.
        Mysql = "mysql",
        /// SQLite.
        Sqlite = "sqlite",
    }
}

crate::words! {
    /// What an acknowledged write survives.
    pub enum Durability {
        /// Power loss.
        Durable = "durable",
        /// The death of the process, not of the machine.
        Buffered = "buffered",
        /// Nothing, until one sync when the load ends.
        AtEnd = "at-end",
        /// What the store's settings make it survive as they are found: nothing is set, and nothing refused. Every store
        /// can do that; [`Store::promise`] says what it came to.
        AsConfigured = "as-configured",
    }
}

/// A name of its own for a store with some parameters: `galera`, which is MariaDB with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StorePreset {
    /// The name, as in `--on` and plans.
    pub name: &'static str,
    /// One line for lists.
    pub summary: &'static str,
    /// Parameters, with values as they would be written in a plan, without quotes.
    pub params: &'static [(&'static str, &'static str)],
    /// Debian packages that it needs besides the store's own.
    pub packages: &'static [&'static str],
}

/// What a store says of itself before anything is opened.
#[derive(Debug, Clone)]
pub struct StoreSpec {
    /// Name as in `--on` and plans.
    pub name: &'static str,
    /// Other names that do as well.
    pub aliases: &'static [&'static str],
    /// One line for lists.
    pub summary: &'static str,
    /// URL schemes that attach to a running one (`postgres`, `postgresql`); none for embedded stores.
    pub schemes: &'static [&'static str],
    /// Interfaces it speaks.
    pub interfaces: &'static [Interface],
    /// Durabilities it can do, besides [`Durability::AsConfigured`].
    pub durabilities: &'static [Durability],
    /// The SQL it understands; `None` when it speaks none.
    pub dialect: Option<Dialect>,
    /// Ways in which it can keep secondary indexes.
    pub index_modes: &'static [IndexMode],
    /// What its sessions are, of which several may work at a time.
    pub sessions: SessionSpec,
    /// Holds what it was given. False for the null store.
    pub keeps_data: bool,
    /// Its parameters.
    pub params: &'static [ParamSpec],
    /// Names for some of their values.
    pub presets: &'static [StorePreset],
    /// Debian packages that a private one needs; empty when it is built in.
    pub packages: &'static [&'static str],
    /// Codes of operations that found a disk full.
    pub full_disk: &'static [&'static str],
    /// Where a password may stand instead of in a URL, as the end of a sentence.
    pub password_places: &'static str,
    /// Options of its own load generators: the option, whose it is, and what is written here; `#` stands for the value.
    pub habits: &'static [(&'static str, &'static str, &'static str)],
}

impl StoreSpec {
    /// Its names, the one that reports use first.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let presets = self.presets.iter().map(|preset| preset.name);
        std::iter::once(self.name).chain(self.aliases.iter().copied()).chain(presets)
    }

    /// What `name` says of its parameters, where it is more than a name.
    pub fn preset(&self, name: &str) -> Option<&'static StorePreset> {
        self.presets.iter().find(|preset| preset.name == name)
    }

    /// Says no to a layout that has something for an interface which the store does not speak.
    ///
    /// # Errors
    /// As [`Interface::refused`].
    pub fn must_take(&self, layout: &Layout) -> Result<(), StoreError> {
        let takes_commands = self.interfaces.contains(&Interface::Commands);
        let has = [
            (Interface::Records, layout.collections.is_empty()),
            (Interface::Sql, layout.statements.is_empty() || takes_commands),
        ];
        let foreign = has.iter().find(|(interface, is_empty)| !is_empty && !self.interfaces.contains(interface));
        foreign.map_or(Ok(()), |(interface, _)| {
            Err(interface.refused(&format!("the store `{}`", self.name), "the layout"))
        })
    }

    /// What most stores say: they keep what they are given as durable as asked, and speak no SQL.
    pub const PLAIN: StoreSpec = StoreSpec {
        name: "",
        aliases: &[],
        summary: "",
        schemes: &[],
        interfaces: &[],
        durabilities: &[Durability::Durable, Durability::Buffered, Durability::AtEnd],
        dialect: None,
        index_modes: &[IndexMode::None],
        sessions: SessionSpec::new(SessionShape::Wire, 0),
        keeps_data: true,
        params: &[],
        presets: &[],
        packages: &[],
        full_disk: &[],
        password_places: "--password-file",
        habits: &[],
    };
}

/// Where the store is.
#[derive(Clone)]
pub enum Target {
    /// One of our own: embedded, or a server started for this run. Everything it writes goes under
    /// `data_dir`, which exists, is empty and is removed afterwards by the caller.
    Private {
        /// A directory for its files.
        data_dir: PathBuf,
        /// Somebody has asked for that directory: a server whose user cannot enter it is not started. Otherwise it may have
        /// its files in `/var/tmp`.
        said: bool,
        /// A directory in which a server's log is kept when something fails.
        log_dir: PathBuf,
    },
    /// A server that the user describes, which is started for this run; otherwise as `Private`.
    Described {
        /// How it is made.
        server: Described,
        /// As `Private` has it.
        data_dir: PathBuf,
        /// As `Private` has it.
        log_dir: PathBuf,
    },
    /// Servers of our own, which run.
    Servers(Arc<dyn Servers>),
    /// The same that stand already and stay.
    Lab {
        /// The directory of all labs.
        labs: PathBuf,
        /// Its name there.
        name: String,
    },
    /// A running one.
    Attach {
        /// Its URL, without password.
        url: String,
        /// Its password, if one is known. Never to be shown, recorded or passed to a child.
        password: Option<String>,
    },
}

impl Target {
    /// The directory for the files of one that runs inside Plimsoll.
    ///
    /// # Errors
    /// `Usage` where it is to be somebody's.
    pub fn data_dir(&self) -> Result<&Path, StoreError> {
        match self {
            Target::Private { data_dir, .. } => Ok(data_dir),
            _ => Err(StoreError::new(StoreErrorKind::Usage, "it runs inside Plimsoll: there is none to attach to")
                .next("name it without a URL")),
        }
    }

    /// The URL and password of a running one.
    ///
    /// # Errors
    /// `Usage` where it is none.
    pub fn url(&self) -> Result<(&str, Option<&str>), StoreError> {
        match self {
            Target::Attach { url, password } => Ok((url, password.as_deref())),
            _ => Err(StoreError::new(StoreErrorKind::Usage, "the store is to be attached to, and no URL says where")),
        }
    }
}

/// How a store is to be opened.
#[derive(Clone)]
pub struct OpenOptions {
    /// Where it is.
    pub target: Target,
    /// Values for the spec's parameters; those not given have their defaults.
    pub params: Params,
    /// Name of the run; what is made in an attached store carries it.
    pub run_id: String,
    /// How long its server is waited for.
    pub waits: Waits,
}

/// One setting of a store that differs from its default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// The store's own name for it.
    pub name: String,
    /// Its value here.
    pub value: String,
    /// Its default, where the store tells.
    pub default: Option<String>,
    /// Who set it: `plimsoll`, `server`, `command line`, `configuration file`.
    pub source: String,
}

impl Setting {
    /// One as the store tells it.
    pub fn new(name: &str, value: impl Into<String>, default: Option<&str>, source: &str) -> Self {
        let default = default.map(str::to_owned);
        Self { name: name.to_owned(), value: value.into(), default, source: source.to_owned() }
    }

    /// One that Plimsoll has made otherwise than it is by default.
    pub fn ours(name: &str, value: impl Into<String>, default: &str) -> Self {
        Self::new(name, value, Some(default), "plimsoll")
    }
}

/// What a store says of itself when it is open.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StoreDescription {
    /// Its own version string.
    pub version: String,
    /// Where it runs, without credentials: `embedded`, `private server`, `postgres://host:5432/db`.
    pub place: String,
    /// All settings that differ from the defaults.
    pub settings: Vec<Setting>,
}

/// Bytes that a store's data takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Footprint {
    /// Records, without secondary indexes. With all, where the store cannot tell them apart.
    pub data_bytes: u64,
    /// Secondary indexes; `None` where the store cannot tell them apart.
    pub index_bytes: Option<u64>,
    /// Everything on disk, logs included, where it can be known.
    pub total_bytes: Option<u64>,
}

/// Where a store keeps what it has read, so that it need not read it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheSize {
    /// In a cache of its own.
    Own {
        /// The store's own name of the setting: `shared_buffers`.
        setting: &'static str,
        /// Bytes of it, all servers of a cluster together.
        bytes: u64,
    },
    /// In the kernel's page cache only.
    PageCache,
    /// All its data live in memory.
    InMemory {
        /// The store's own name of the setting that limits them: `maxmemory`.
        setting: &'static str,
        /// Bytes that it allows, all servers of a cluster together; `None` where there is no limit.
        limit_bytes: Option<u64>,
    },
}

/// A store's own maintenance cycle: see [`SeriesKind::Cycle`](crate::SeriesKind::Cycle).
#[derive(Debug, Clone, PartialEq)]
pub struct Cycle {
    /// Seconds of work that changes data until a cycle has ended, at most.
    pub seconds: f64,
    /// Work brings it on, not time: `seconds` are at the pace of what was done since sessions were last opened, and at twice
    /// that rate a cycle takes half of them.
    pub by_work: bool,
    /// That in words, with the setting that makes it shorter: `checkpoint_timeout is 5min: …`.
    pub words: String,
}

/// What making a store cold came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cold {
    /// Reopened or restarted, its own files out of the page cache.
    Done {
        /// Bytes of its files.
        file_bytes: u64,
        /// Bytes of them that stayed in the page cache, by mincore.
        resident_bytes: u64,
    },
    /// Not done, and why.
    NotPossible(String),
}

/// A kind of store: what `stores/all` lists.
pub trait StoreKind: Send + Sync {
    /// What it says of itself.
    fn spec(&self) -> &StoreSpec;

    /// Whether what a private one needs is installed: what was found, in a few words, or an error of kind
    /// `Missing` that names the package.
    fn installed(&self) -> Result<String, StoreError> {
        Ok("built in".to_owned())
    }

    /// What will be done to a running one, one line each, said before anything is: first where it is, then what will be
    /// made and dropped there. Nothing where none can be attached to.
    ///
    /// # Errors
    /// What can be told to be wrong with `options` without opening anything: a URL, a password file.
    fn announce(&self, _options: &OpenOptions) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    /// How a private one's servers are made; `None` where it has none.
    ///
    /// # Errors
    /// Values of parameters that cannot be; `Missing` when something is not installed that these values need.
    fn recipe(&self, _params: &Params) -> Result<Option<Box<dyn Recipe>>, StoreError> {
        Ok(None)
    }

    /// A running one as it is in production, over a connection that only reads; `None` where none tells what it was asked.
    ///
    /// # Errors
    /// Nobody there, a refused login.
    fn production(&self, _options: OpenOptions) -> Result<Option<Box<dyn Production>>, StoreError> {
        Ok(None)
    }

    /// Tells each statement of one of its servers' logs, in whichever of its formats that is. Only of a store that has a
    /// [`StoreKind::production`].
    ///
    /// # Errors
    /// The log cannot be read.
    fn read_log(&self, _log: &mut dyn BufRead, _tell: &mut Logged<'_>) -> std::io::Result<()> {
        Ok(())
    }

    /// Opens it, as a client of what runs; starts no server. `progress` is told what takes a while.
    fn open(&self, options: OpenOptions, progress: &mut dyn FnMut(&str)) -> Result<Box<dyn Store>, StoreError>;
}

/// Reads what a store counts of its own work and is worth plotting beside a load, whatever its [`Store`] is at. It has a
/// connection of its own, made when it is first asked and again when that has ended, so it outlives servers: where one is
/// away it says so, and reads again when that is back. Asked once a slice while sessions are at work: must be quick.
pub type Probe = Box<dyn FnMut() -> Result<Vec<Reading>, StoreError> + Send>;

/// An open store. The calls are the control plane's: they may take long, and no session is open meanwhile
/// except during [`Store::describe`] and [`Store::sync`].
pub trait Store: Send {
    /// Version, place and settings.
    fn describe(&mut self) -> Result<StoreDescription, StoreError>;

    /// The settings of sessions as [`Store::sessions`] opens them for `durability`, read back from one of them or, where
    /// they are the server's, from the server after it was made so: all that differ from the defaults. `None` where no
    /// setting depends on the session or the durability: [`Store::describe`] has them.
    ///
    /// # Errors
    /// `Usage`, when what somebody has set contradicts the durability: both are named.
    fn settings_in_force(&mut self, _durability: Durability) -> Result<Option<Vec<Setting>>, StoreError> {
        Ok(None)
    }

    /// Says no where what is set in a server of somebody else's keeps less than `durability` promises. What is ours is made
    /// so instead.
    ///
    /// # Errors
    /// `Usage`, with what is set there; `Permission`, where this may not be asked.
    fn demand(&mut self, _durability: Durability) -> Result<(), StoreError> {
        Ok(())
    }

    /// What an acknowledged write survives with the settings as they are found, in one sentence that ends with a full stop:
    /// what [`Durability::AsConfigured`] comes to.
    ///
    /// # Errors
    /// The settings cannot be read.
    fn promise(&mut self) -> Result<String, StoreError> {
        Ok("Nothing says what an acknowledged write survives there.".to_owned())
    }

    /// Makes what `layout` says, empty, and drops what an earlier call had made.
    fn create(&mut self, layout: &Layout) -> Result<(), StoreError>;

    /// Runs the layout's [`Layout::after_load`]; called when the load is done. Stores that speak SQL have one.
    fn after_load(&mut self, _layout: &Layout) -> Result<(), StoreError> {
        Ok(())
    }

    /// Says whether sessions opened from now on are only to read: where a server can see to it, it refuses what is more.
    fn set_read_only(&mut self, _read_only: bool) {}

    /// Opens `count` sessions whose writes are as durable as asked.
    fn sessions(&mut self, count: u32, durability: Durability) -> Result<Sessions, StoreError>;

    /// Takes a whole load at once where the store can do that quicker than its sessions: every operation, of `kinds`,
    /// that `next` writes into what it is given, until that returns `None`. As durable as asked when it returns, in few
    /// words, how it did. `None` where a load goes through sessions; `next` has not been called then.
    fn load_at_once(
        &mut self,
        _kinds: &[OpKind],
        _durability: Durability,
        _next: &mut dyn FnMut(&mut ValueBuf) -> Option<KindId>,
    ) -> Result<Option<String>, StoreError> {
        Ok(None)
    }

    /// The numbers of the nodes that have a copy of everything each, waiting until each has caught up with what the cluster has now;
    /// none where there is one copy, or each node has some of the keys.
    ///
    /// # Errors
    /// When one does not catch up.
    fn copies(&mut self) -> Result<Vec<usize>, StoreError> {
        Ok(Vec::new())
    }

    /// Has sessions opened from now on only read, and what the node with this number has by itself; `None`: as they are otherwise.
    fn read_copy(&mut self, _node: Option<usize>) {}

    /// Makes everything acknowledged so far survive power loss: the one sync of `at-end`.
    fn sync(&mut self) -> Result<(), StoreError>;

    /// The store's own tidying: analyze, vacuum, checkpoint, compaction; returns when it is quiet.
    fn settle(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Lets go of its servers or, of an embedded store, of its files, so that they can be stopped, and everything that it
    /// was told is in its files afterwards.
    fn disconnect(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Goes on after [`Store::disconnect`], when its servers run again.
    fn reconnect(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Bytes it takes.
    fn footprint(&mut self) -> Result<Footprint, StoreError>;

    /// Where it keeps what it has read, and how much of that its settings allow; `None` where it does not tell.
    fn cache_bytes(&mut self) -> Result<Option<CacheSize>, StoreError> {
        Ok(None)
    }

    /// How the store would do this operation, in its own words; `None` when it has none.
    fn explain(&mut self, _kind: &OpKind, _params: Values<'_>) -> Result<Option<String>, StoreError> {
        Ok(None)
    }

    /// The store's own integrity check: `Ok(Some(what was checked))`, `Ok(None)` when it has none, or
    /// an error of kind `Corrupt` with its words. Any other error says that it could not be done.
    fn check_integrity(&mut self) -> Result<Option<String>, StoreError> {
        Ok(None)
    }

    /// What reads the store's counters from any thread; `None` where it has none.
    fn probe(&mut self) -> Option<Probe> {
        None
    }

    /// How long the store's own maintenance cycle takes at most, by its settings and, where work brings it on, by its
    /// counters since sessions were last opened; `None` where nothing tells, nothing was written, or there is none.
    fn cycle(&mut self) -> Result<Option<Cycle>, StoreError> {
        Ok(None)
    }

    /// Drops what it made in an attached server, or removes the files of an embedded store. What is on servers of our own
    /// goes with them.
    fn close(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}
