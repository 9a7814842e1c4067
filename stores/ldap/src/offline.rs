//! Programs of slapd's package on a private server's database: slapadd while the server is stopped, slapcat beside it.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use plimsoll_core::{Launch, Node, Nodes, Servers, StoreError, StoreErrorKind};
use plimsoll_lab::remove_tree;

use crate::server::{BASE, CONFIGURATION, LOAD_CONFIGURATION, SLAPADD, SLAPCAT};

/// Longest time of a load.
const LOAD_BOUND: Duration = Duration::from_secs(3600);

/// The file that holds all entries and indexes.
pub(crate) fn data_file(node: &Node) -> PathBuf {
    node.data_dir.join("data.mdb")
}

/// Removes all data of a server.
///
/// # Errors
/// As stopping and starting it.
pub(crate) fn empty(servers: &dyn Servers) -> Result<(), StoreError> {
    servers.stop(Nodes::All)?;
    ["data.mdb", "lock.mdb"].iter().try_for_each(|name| remove_tree(&servers.first().data_dir.join(name)))?;
    servers.start(Nodes::All).map(drop)
}

/// Adds entries by slapadd. `write` writes them as LDIF; parents come before what is below them. Everything is on the disk
/// when this returns, if `sync` says so. `quick` checks less, and makes the file as long as it may become.
///
/// # Errors
/// What `write` says; when slapadd is not there or refuses an entry, with its words. The server does not run then,
/// and what it holds is of no use.
pub(crate) fn add(
    servers: &dyn Servers,
    sync: bool,
    quick: bool,
    write: impl FnOnce(&mut dyn Write) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let (program, node) = (SLAPADD.find()?, servers.first());
    let path = node.data_dir.join("load.ldif");
    let at = |error: io::Error| StoreError::io(path.display(), &error);
    let mut file = BufWriter::new(File::create(&path).map_err(at)?);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).map_err(at)?;
    write(&mut file)?;
    file.flush().map_err(at)?;
    drop(file);
    servers.stop(Nodes::All)?;
    let configuration = node.data_dir.join(LOAD_CONFIGURATION).display().to_string();
    let ldif = path.display().to_string();
    let quickly = quick.then_some("-q");
    let arguments = ["-f", &configuration, "-b", BASE, "-l", &ldif].into_iter().chain(quickly);
    let launch = Launch::new("slapadd", program, arguments);
    servers.run(node.number, &launch, LOAD_BOUND)?;
    fs::remove_file(&path).map_err(at)?;
    if sync {
        let data = data_file(&node);
        File::open(&data).and_then(|file| file.sync_all()).map_err(|error| StoreError::io(data.display(), &error))?;
    }
    servers.start(Nodes::All).map(drop)
}

/// Runs slapcat, which reads every entry of the database beside the server.
///
/// # Errors
/// `Corrupt` with its last words, where it cannot.
pub(crate) fn read_all(servers: &dyn Servers) -> Result<String, StoreError> {
    let program = SLAPCAT.find()?;
    let configuration = servers.first().data_dir.join(CONFIGURATION);
    let mut command = Command::new(&program);
    command.arg("-f").arg(configuration).args(["-b", BASE, "-l", "/dev/null"]).env_clear().stdin(Stdio::null());
    let ran = command.output().map_err(|error| StoreError::io(program.display(), &error))?;
    if ran.status.success() {
        return Ok("slapcat reads every entry".to_owned());
    }
    let said = String::from_utf8_lossy(&ran.stderr);
    let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    Err(StoreError::new(StoreErrorKind::Corrupt, "slapcat cannot read the database").detail(last))
}
