//! Recipe of a private slapd.
//!
//! The server listens on a Unix socket only, in a directory that only its user and root can enter. The socket
//! identifies clients (SASL EXTERNAL), and the user that runs Plimsoll is the directory's root; no password exists. A
//! server on a host of its own listens there, too, and the directory's root has a password. Every setting that the
//! caller does not set has the server's default.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use plimsoll_core::{Address, Launch, Member, Node, Recipe, ServerSpec, StoreError, StoreErrorKind, Waits};
use plimsoll_endpoint::Password;
use plimsoll_lab::{Program, ServerUser};

use crate::control::Control;
use crate::endpoint::{Endpoint, Identity, Login};

/// The directory's base.
pub const BASE: &str = "dc=example,dc=com";
/// The directory's root on a host of its own.
const ROOT: &str = "cn=plimsoll,dc=example,dc=com";
/// Port of a server on a host of its own. Ports below 1024 are for root.
const PORTS: [u16; 1] = [1389];
/// The server's program.
pub const SLAPD: Program = Program {
    name: "slapd",
    directories: &["/usr/lib/openldap", "/usr/libexec", "/usr/local/libexec"],
    package: "slapd",
};
pub(crate) const SLAPCAT: Program = Program { name: "slapcat", ..SLAPD };
pub(crate) const SLAPADD: Program = Program { name: "slapadd", ..SLAPD };
/// Directories of schemas, Debian's first.
const SCHEMA_DIRS: [&str; 4] =
    ["/etc/ldap/schema", "/etc/openldap/schema", "/usr/local/etc/openldap/schema", "/usr/share/openldap/schema"];
const MODULE_DIRS: [&str; 4] =
    ["/usr/lib/ldap", "/usr/lib64/openldap", "/usr/lib/openldap", "/usr/local/libexec/openldap"];
/// The server's configuration, and that of slapadd, in its data directory.
pub(crate) const CONFIGURATION: &str = "slapd.conf";
pub(crate) const LOAD_CONFIGURATION: &str = "slapadd.conf";
const SCHEMAS: [&str; 3] = ["core", "cosine", "inetorgperson"];

/// A private slapd: what its configuration says besides what it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlapdRecipe {
    /// Threads that work on operations.
    pub threads: u32,
    /// The most bytes that the database may take.
    pub maxsize_bytes: u64,
    /// Indexes as slapd.conf has them: `objectClass,uid eq`; several parted by semicolons.
    pub index: String,
    /// Threads of slapadd. With more than one it is quick (`-q`).
    pub load_threads: u32,
    /// True if the server is on a host of its own.
    pub own_host: bool,
}

impl SlapdRecipe {
    /// Returns the endpoint of a server: its socket, which identifies clients, or the port of its own host.
    pub fn endpoint(&self, node: &Node) -> Endpoint {
        let (address, identity) = if self.own_host {
            let password = Password::new(node.secret.as_str());
            let address = Address::Tcp(node.address.to_string(), node.listens_at(0).port());
            (address, Identity::Simple { dn: ROOT.to_owned(), password })
        } else {
            (Address::Unix(node.socket_dir.join("ldapi")), Identity::External)
        };
        let login = Login { identity, base: BASE.to_owned(), starts_tls: false, place: "the private slapd".to_owned() };
        Endpoint { address, tls: None, login }
    }
}

impl Recipe for SlapdRecipe {
    fn spec(&self) -> ServerSpec {
        // The user that Debian's package makes.
        let spec = ServerSpec::new("slapd", "openldap", "slapd");
        if self.own_host { ServerSpec { hosts: 1, ports: &PORTS, ..spec } } else { spec }
    }

    fn files(&self, node: Member<'_>) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        [(CONFIGURATION, true), (LOAD_CONFIGURATION, false)]
            .into_iter()
            .map(|(name, syncs)| Ok((name.to_owned(), configuration(&node, self, syncs)?.into_bytes())))
            .collect()
    }

    fn launch(&self, node: Member<'_>) -> Result<Launch, StoreError> {
        let mut urls = format!("ldapi://{}/????x-mod=0700", encoded(&node.socket_dir.join("ldapi")));
        if self.own_host {
            let _ = write!(urls, " ldap://{}/", node.listens_at(0));
        }
        let configuration = node.data_dir.join(CONFIGURATION).display().to_string();
        // 32768 is what it logs whatever the level: what is wrong.
        Ok(Launch::new("slapd", SLAPD.find()?, ["-d", "32768", "-h", &urls, "-f", &configuration]))
    }

    fn version_option(&self) -> &'static str {
        // With a single V it would go on and serve.
        "-VV"
    }

    fn version_marks(&self, _: usize) -> Result<&'static [&'static str], StoreError> {
        Ok(&["OpenLDAP: slapd "])
    }

    fn ready(&self, node: &Node, waits: &Waits) -> Result<(), StoreError> {
        Control::open(&self.endpoint(node), waits).map(drop)
    }
}

/// A path as the host of an ldapi URL.
fn encoded(path: &Path) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric().then(|| char::from(*byte).to_string());
    path.as_os_str().as_bytes().iter().map(|byte| plain(byte).unwrap_or_else(|| format!("%{byte:02X}"))).collect()
}

/// The whole of its slapd.conf; what adds a load offline syncs nothing by itself.
fn configuration(node: &Node, settings: &SlapdRecipe, syncs: bool) -> Result<String, StoreError> {
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
        return Err(StoreError::usage(what).next("Write it as objectClass,uid eq; cn eq,sub"));
    }
    let user = ServerUser::caller();
    let root = match settings.own_host {
        true => ROOT.to_owned(),
        false => format!("gidNumber={}+uidNumber={},cn=peercred,cn=external,cn=auth", user.gid, user.uid),
    };
    let mut text = String::new();
    // Where the backend is no module, it is built in.
    if let Some(modules) = there(&MODULE_DIRS, "back_mdb.so").or_else(|| there(&MODULE_DIRS, "back_mdb.la")) {
        let _ = write!(text, "modulepath {}\nmoduleload back_mdb\n", modules.display());
    }
    for schema in SCHEMAS {
        let _ = writeln!(text, "include {}/{schema}.schema", schemas.display());
    }
    let data = node.data_dir.display();
    let _ = write!(
        text,
        "pidfile \"{data}/slapd.pid\"\nargsfile \"{data}/slapd.args\"\nthreads {}\ntool-threads {}\n\
         database config\nrootdn \"{root}\"\n\
         database mdb\nsuffix \"{BASE}\"\nrootdn \"{root}\"\ndirectory \"{data}\"\nmaxsize {}\n",
        settings.threads, settings.load_threads, settings.maxsize_bytes
    );
    if settings.own_host {
        let _ = writeln!(text, "rootpw {}", node.secret);
    }
    if !syncs {
        text.push_str("dbnosync\n");
    }
    for index in settings.index.split(';').map(str::trim).filter(|index| !index.is_empty()) {
        let _ = writeln!(text, "index {index}");
    }
    let _ = write!(text, "database monitor\nrootdn \"{root}\"\n");
    Ok(text)
}
