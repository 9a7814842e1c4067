//! A private slapd: how it is made, started, found ready, and stopped.
//!
//! It listens on a Unix socket only, in a directory that only its user and root can enter. Whoever connects is known by
//! the socket (SASL EXTERNAL), and our own user is the directory's root; so nobody has a password. Everything is at the
//! server's own defaults but for what the caller sets.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plimsoll_core::{Address, StoreError, StoreErrorKind, Waits};
use plimsoll_lab::{OwnServer, PrivateServer, Program, ServerUser, StopSignal};

use crate::control::Control;
use crate::endpoint::{Encryption, Endpoint, Identity, Login};

/// The directory's base.
pub const BASE: &str = "dc=example,dc=com";
const SLAPD: Program = Program {
    name: "slapd",
    directories: &["/usr/lib/openldap", "/usr/libexec", "/usr/local/libexec"],
    package: "slapd",
};
const SLAPADD: Program = Program { name: "slapadd", ..SLAPD };
/// The user that Debian's package makes.
const USER: &str = "openldap";
const PLACE: &str = "the private slapd";
/// Where schemas and modules are, first Debian's.
const SCHEMA_DIRS: [&str; 4] =
    ["/etc/ldap/schema", "/etc/openldap/schema", "/usr/local/etc/openldap/schema", "/usr/share/openldap/schema"];
const MODULE_DIRS: [&str; 4] =
    ["/usr/lib/ldap", "/usr/lib64/openldap", "/usr/lib/openldap", "/usr/local/libexec/openldap"];
/// The server's configuration, and that of slapadd, in its data directory.
const CONFIGURATION: &str = "slapd.conf";
const LOAD_CONFIGURATION: &str = "slapadd.conf";
const SCHEMAS: [&str; 3] = ["core", "cosine", "inetorgperson"];
/// How long a start may take.
const READY_BOUND: Duration = Duration::from_secs(60);
/// How long a stop may take: it syncs what it has written.
const STOP_BOUND: Duration = Duration::from_secs(180);
/// How long adding a whole load may take while it is stopped.
const LOAD_BOUND: Duration = Duration::from_secs(3600);
/// Between two looks whether it is ready, and how long one may take.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
const LOOK_BOUND: Duration = Duration::from_secs(10);

/// What a private server's configuration says besides what it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Threads that work on operations.
    pub threads: u32,
    /// The most bytes that the database may take.
    pub maxsize_bytes: u64,
    /// Indexes as slapd.conf has them: `objectClass,uid eq`; several parted by semicolons.
    pub index: String,
}

/// Where slapd is.
///
/// # Errors
/// `Missing`, with the line that installs it.
pub fn find_slapd() -> Result<PathBuf, StoreError> {
    SLAPD.find()
}

/// A running server of our own. Ends, with all its files, when it is closed, dropped (its log is kept then, for
/// something failed), or Plimsoll dies.
pub struct PrivateSlapd {
    server: PrivateServer,
    program: PathBuf,
}

impl PrivateSlapd {
    /// Makes its directory under the first of `bases` that its user can get to, with its configuration and an empty
    /// database, and starts it. The user is the caller, or the one of the server's package if that is root. Its log is
    /// copied to `log_dir` if anything fails. `progress` is told what takes a while.
    ///
    /// # Errors
    /// `Missing` when it is not installed; `Permission` when no base will do; `DiskFull`; `Broken` with its last words
    /// when it does not start.
    pub fn start(
        bases: &[PathBuf],
        log_dir: &Path,
        settings: &Settings,
        waits: &Waits,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Self, StoreError> {
        let program = find_slapd()?;
        let user = ServerUser::caller_or(USER, "slapd")?;
        let server = PrivateServer::new("slapd", bases, user, StopSignal::Term, log_dir, waits)?;
        for (name, syncs) in [(CONFIGURATION, true), (LOAD_CONFIGURATION, false)] {
            let text = configuration(server.data_dir(), settings, syncs)?;
            let path = server.data_dir().join(name);
            fs::write(&path, text)
                .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o644)))
                .map_err(|error| StoreError::io(path.display(), &error))?;
        }
        let mut slapd = Self { server, program };
        progress("starting a private slapd");
        slapd.launch()?;
        Ok(slapd)
    }

    /// Where it listens, and how to bind: as whom the socket says.
    pub fn endpoint(&self) -> Endpoint {
        let login = Login { identity: Identity::External, base: BASE.to_owned(), place: PLACE.to_owned() };
        Endpoint { address: Address::Unix(self.socket()), encryption: Encryption::None, login }
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.server.socket_dir().join("ldapi")
    }

    /// The id of its process; `None` while it is stopped.
    pub fn pid(&self) -> Option<u32> {
        self.server.pid()
    }

    /// The directory of its data.
    pub fn data_dir(&self) -> &Path {
        self.server.data_dir()
    }

    /// The file that holds all its entries and indexes.
    pub fn data_file(&self) -> PathBuf {
        self.server.data_dir().join("data.mdb")
    }

    /// Whether it still runs.
    ///
    /// # Errors
    /// `Broken`, with how it ended and its last words, when it does not.
    pub fn check(&mut self) -> Result<(), StoreError> {
        self.server.check()
    }

    /// Kills it at once, as a crash would.
    ///
    /// # Errors
    /// When the supervisor does not do its part.
    pub fn kill(&mut self) -> Result<(), StoreError> {
        self.server.kill()
    }

    /// Removes its data, all of it, and starts it again.
    ///
    /// # Errors
    /// As [`PrivateSlapd::start`].
    pub fn start_empty(&mut self) -> Result<(), StoreError> {
        self.stop()?;
        for name in ["data.mdb", "lock.mdb"] {
            let path = self.server.data_dir().join(name);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(StoreError::io(path.display(), &error));
                }
                _ => {}
            }
        }
        self.launch()
    }

    /// Stops it, adds entries by slapadd, and starts it again. `write` writes them as LDIF; parents come before what is
    /// below them. Everything is on the disk when this returns, if `sync` says so.
    ///
    /// # Errors
    /// What `write` says; when slapadd is not there or refuses an entry, with its words. The server does not run then,
    /// and what it holds is of no use.
    pub fn add_offline(
        &mut self,
        sync: bool,
        write: impl FnOnce(&mut dyn Write) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let program = SLAPADD.find()?;
        let path = self.server.data_dir().join("load.ldif");
        let at = |error: io::Error| StoreError::io(path.display(), &error);
        let mut file = BufWriter::new(File::create(&path).map_err(at)?);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).map_err(at)?;
        write(&mut file)?;
        file.flush().map_err(at)?;
        drop(file);
        self.stop()?;
        let configuration = self.server.data_dir().join(LOAD_CONFIGURATION).display().to_string();
        let ldif = path.display().to_string();
        // Not quick (-q), which makes the file as long as it may become, and checks less.
        let arguments = ["-f", &configuration, "-b", BASE, "-l", &ldif];
        self.server.run("slapadd", &program, &arguments, LOAD_BOUND)?;
        fs::remove_file(&path).map_err(at)?;
        if sync {
            let data = self.data_file();
            File::open(&data)
                .and_then(|file| file.sync_all())
                .map_err(|error| StoreError::io(data.display(), &error))?;
        }
        self.launch()
    }

    /// Copies its log, as far as it got, into the log directory; returns the copy's path.
    ///
    /// # Errors
    /// As copying says.
    pub fn keep_log(&self) -> io::Result<PathBuf> {
        self.server.keep_log()
    }

    /// Ends it at once, removes all its files, and waits until that is done.
    ///
    /// # Errors
    /// `Broken` when something could not be removed; the next start tries again.
    pub fn close(self) -> Result<(), StoreError> {
        self.server.close()
    }

    fn launch(&mut self) -> Result<(), StoreError> {
        let url = format!("ldapi://{}/????x-mod=0700", encoded(&self.socket()));
        let configuration = self.server.data_dir().join(CONFIGURATION).display().to_string();
        // 32768 is what it logs whatever the level: what is wrong.
        let arguments = ["-d", "32768", "-h", &url, "-f", &configuration];
        self.server.start("slapd", &self.program, &arguments)?;
        let endpoint = self.endpoint();
        let until = Instant::now() + READY_BOUND;
        let last_words = loop {
            self.server.check()?;
            match Control::open(&endpoint, self.server.waits().with_answer(LOOK_BOUND)) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind == StoreErrorKind::Interrupted => return Err(error),
                Err(error) if error.kind != StoreErrorKind::Unreachable || Instant::now() > until => break error,
                Err(_) => self.server.waits().pause(LOOK_INTERVAL)?,
            }
        };
        let next = self.server.keep_log().map(|path| format!("read its log, {}", path.display()));
        let _ = self.server.kill();
        let error = StoreError::new(StoreErrorKind::Broken, format!("{PLACE} takes no connections"));
        let next = next.unwrap_or_else(|error| format!("its log could not be kept: {error}"));
        Err(error.detail(last_words.to_string()).next(next))
    }
}

impl OwnServer for PrivateSlapd {
    const STORE: &'static str = "ldap";

    fn stop(&mut self) -> Result<(), StoreError> {
        self.server.stop(StopSignal::Term, STOP_BOUND)
    }

    fn start_again(&mut self) -> Result<(), StoreError> {
        self.launch()
    }

    fn files(&self) -> PathBuf {
        self.server.data_dir().to_owned()
    }
}

/// A path as the host of an ldapi URL.
fn encoded(path: &Path) -> String {
    let mut out = String::new();
    for byte in path.display().to_string().bytes() {
        match byte {
            b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => out.push(char::from(byte)),
            byte => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

/// The whole of its slapd.conf; what adds a load offline syncs nothing by itself.
fn configuration(data_dir: &Path, settings: &Settings, syncs: bool) -> Result<String, StoreError> {
    let there =
        |dirs: &[&str], file: &str| dirs.iter().map(Path::new).find(|dir| dir.join(file).is_file()).map(Path::to_owned);
    let schemas = there(&SCHEMA_DIRS, "core.schema").ok_or_else(|| {
        let what = "slapd is installed without its schemas";
        StoreError::new(StoreErrorKind::Missing, what)
            .detail(format!("there is no core.schema in {}", SCHEMA_DIRS.join(", ")))
            .next("apt-get install slapd")
    })?;
    if settings.index.contains(['\n', '\r', '"', '\\']) {
        let what = "the parameter `index` has letters that no index has";
        return Err(StoreError::new(StoreErrorKind::Usage, what).next("Write it as objectClass,uid eq; cn eq,sub"));
    }
    let user = ServerUser::caller();
    let root = format!("gidNumber={}+uidNumber={},cn=peercred,cn=external,cn=auth", user.gid(), user.uid());
    let mut text = String::new();
    // Where the backend is no module, it is built in.
    if let Some(modules) = there(&MODULE_DIRS, "back_mdb.so").or_else(|| there(&MODULE_DIRS, "back_mdb.la")) {
        let _ = write!(text, "modulepath {}\nmoduleload back_mdb\n", modules.display());
    }
    for schema in SCHEMAS {
        let _ = writeln!(text, "include {}/{schema}.schema", schemas.display());
    }
    let data = data_dir.display();
    let _ = write!(
        text,
        "pidfile \"{data}/slapd.pid\"\nargsfile \"{data}/slapd.args\"\nthreads {}\n\
         database config\nrootdn \"{root}\"\n\
         database mdb\nsuffix \"{BASE}\"\nrootdn \"{root}\"\ndirectory \"{data}\"\nmaxsize {}\n",
        settings.threads, settings.maxsize_bytes
    );
    if !syncs {
        text.push_str("dbnosync\n");
    }
    for index in settings.index.split(';').map(str::trim).filter(|index| !index.is_empty()) {
        let _ = writeln!(text, "index {index}");
    }
    let _ = write!(text, "database monitor\nrootdn \"{root}\"\n");
    Ok(text)
}
