//! A private MariaDB or MySQL: how one is made, started, found ready, and stopped.
//!
//! It listens on a Unix socket only, in a directory that only its user and root can enter; so nobody is asked for a
//! password. No configuration file is read, and no binary log is kept, since nobody would read it. The buffer pool is
//! neither written down at a stop nor read again at a start, so that a restart is cold. Everything else is as the
//! server's own defaults are, `innodb_flush_log_at_trx_commit` and the doublewrite buffer included, but for what the
//! caller sets.

use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plimsoll_core::{Address, StoreError, StoreErrorKind, Waits};
use plimsoll_lab::{OwnServer, PrivateServer, Program, ServerUser, StopSignal};

use crate::sql::Flavor;
use crate::wire::{GREETING_BYTES_MAX, HEADER_BYTES, greeting_version, header};

const PACKAGE: &str = "mariadb-server";
const MARIADBD: Program =
    Program { name: "mariadbd", directories: &["/usr/libexec", "/usr/local/mysql/bin"], package: PACKAGE };
/// MySQL's server, or MariaDB's by its old name.
const MYSQLD: Program =
    Program { name: "mysqld", directories: &["/usr/libexec", "/usr/local/mysql/bin"], package: PACKAGE };
const INSTALL_DB: Program =
    Program { name: "mariadb-install-db", directories: &["/usr/local/mysql/scripts"], package: PACKAGE };
/// Whom both servers' packages make for it.
const USER: &str = "mysql";
/// Who may do everything there.
const ROOT: &str = "root";
/// How long making the system's tables may take.
const INIT_BOUND: Duration = Duration::from_secs(180);
/// How long a start may take, recovery after a crash included.
const READY_BOUND: Duration = Duration::from_secs(180);
/// How long a stop may take: it writes all dirty pages of the buffer pool.
const STOP_BOUND: Duration = Duration::from_secs(180);
/// Between two looks whether it is ready.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// How long one look may take.
const LOOK_BOUND: Duration = Duration::from_secs(1);

/// Where the server's program is: MariaDB's, else MySQL's.
///
/// # Errors
/// `Missing`, with the line that installs MariaDB.
pub fn find_server() -> Result<PathBuf, StoreError> {
    MARIADBD.find().or_else(|missing| MYSQLD.find().map_err(|_| missing))
}

/// A running server of our own. Ends, with all its files, when it is closed, dropped (its log is kept then, for
/// something failed), or Plimsoll dies.
pub struct PrivateMariadb {
    server: PrivateServer,
    program: PathBuf,
    arguments: Vec<String>,
    version: String,
}

impl PrivateMariadb {
    /// Makes a data directory under the first of `bases` that the server's user can get to, and starts a server there
    /// with `settings` on its command line. The user is the caller, or `mysql` if that is root. The log is copied to
    /// `log_dir` if anything fails. `progress` is told what takes a while.
    ///
    /// # Errors
    /// `Missing` when neither server is installed; `Permission` when no base will do; `DiskFull`; `Broken` with its
    /// last words when it does not start.
    pub fn start(
        bases: &[PathBuf],
        log_dir: &Path,
        settings: &[(String, String)],
        waits: &Waits,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Self, StoreError> {
        let program = find_server()?;
        // MySQL makes its own tables; MariaDB has a script for it.
        let install = if program.ends_with(MARIADBD.name) { Some(INSTALL_DB.find()?) } else { INSTALL_DB.find().ok() };
        let user = ServerUser::caller_or(USER, PACKAGE)?;
        let mut server = PrivateServer::new("mariadb", bases, user, StopSignal::Term, log_dir, waits)?;
        progress("making a private MariaDB");
        let tables = server.data_dir().join("db");
        let temporary = server.data_dir().join("tmp");
        for directory in [&tables, &temporary] {
            make_directory(directory, server.user())?;
        }
        let data = format!("--datadir={}", tables.display());
        let temporary = format!("--tmpdir={}", temporary.display());
        match install {
            Some(install) => {
                // Nobody needs a name resolved, a test database, or root to be the system's root.
                let arguments = [
                    "--no-defaults",
                    &data,
                    &temporary,
                    "--auth-root-authentication-method=normal",
                    "--skip-test-db",
                    "--skip-name-resolve",
                ];
                server.run("mariadb-install-db", &install, &arguments, INIT_BOUND)?;
            }
            None => {
                let arguments = ["--no-defaults", "--initialize-insecure", &data, &temporary];
                server.run("mysqld --initialize", &program, &arguments, INIT_BOUND)?;
            }
        }
        let sockets = server.socket_dir();
        let mut arguments = vec![
            // It must come first.
            "--no-defaults".to_owned(),
            data,
            temporary,
            format!("--socket={}", sockets.join("socket").display()),
            format!("--pid-file={}", sockets.join("pid").display()),
            "--skip-networking".to_owned(),
            "--skip-log-bin".to_owned(),
            "--innodb-buffer-pool-dump-at-shutdown=OFF".to_owned(),
            "--innodb-buffer-pool-load-at-startup=OFF".to_owned(),
            // MySQL's other protocol; MariaDB does not know it.
            "--loose-mysqlx=OFF".to_owned(),
        ];
        arguments.extend(settings.iter().map(|(name, value)| format!("--{name}={value}")));
        let mut mariadb = Self { server, program, arguments, version: String::new() };
        progress("starting it");
        mariadb.launch()?;
        Ok(mariadb)
    }

    /// Where it listens.
    pub fn address(&self) -> Address {
        Address::Unix(self.server.socket_dir().join("socket"))
    }

    /// The user to log in as; it needs no password.
    pub fn user(&self) -> &str {
        ROOT
    }

    /// The server's version in its own words: `10.11.19-MariaDB-0+deb12u1`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Whether it is MariaDB or MySQL.
    pub fn flavor(&self) -> Flavor {
        Flavor::of_version(&self.version)
    }

    /// The id of its only process; `None` while it is stopped.
    pub fn pid(&self) -> Option<u32> {
        self.server.pid()
    }

    /// The directory of its data, logs and temporary files.
    pub fn data_dir(&self) -> &Path {
        self.server.data_dir()
    }

    /// Whether it still runs.
    ///
    /// # Errors
    /// `Broken`, with how it ended and its last words, when it does not.
    pub fn check(&mut self) -> Result<(), StoreError> {
        self.server.check()
    }

    /// Ends it at once, removes all its files, and waits until that is done.
    ///
    /// # Errors
    /// `Broken` when something could not be removed; the next start tries again.
    pub fn close(self) -> Result<(), StoreError> {
        self.server.close()
    }

    fn launch(&mut self) -> Result<(), StoreError> {
        self.server.start("mariadbd", &self.program, &self.arguments)?;
        let socket = self.server.socket_dir().join("socket");
        let until = Instant::now() + READY_BOUND;
        let last_words = loop {
            self.server.check()?;
            match look(&socket) {
                Ok(Ok(version)) => {
                    self.version = version;
                    return Ok(());
                }
                Ok(Err(words)) if Instant::now() > until => break words,
                Err(error) if Instant::now() > until => break format!("{}: {error}", socket.display()),
                // Not there yet, or starting, or ending.
                Ok(Err(_)) | Err(_) => self.server.waits().pause(LOOK_INTERVAL)?,
            }
        };
        let next = self.server.keep_log().map(|path| format!("read its log, {}", path.display()));
        let _ = self.server.kill();
        let error = StoreError::new(StoreErrorKind::Broken, "the private MariaDB takes no connections");
        Err(error.detail(last_words).next(next.unwrap_or_else(|error| format!("its log could not be kept: {error}"))))
    }
}

impl OwnServer for PrivateMariadb {
    const STORE: &'static str = "mariadb";

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

/// Makes a directory for the server's user only.
fn make_directory(path: &Path, user: &ServerUser) -> Result<(), StoreError> {
    let io = |error: &io::Error| StoreError::io(path.display(), error);
    std::fs::DirBuilder::new().mode(0o700).create(path).map_err(|error| io(&error))?;
    if user.is_switched() {
        chown(path, Some(user.uid()), Some(user.gid())).map_err(|error| io(&error))?;
    }
    Ok(())
}

/// Connects as a client does, reads the greeting, and leaves: the version, or the server's words why not.
fn look(socket: &Path) -> io::Result<Result<String, String>> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(LOOK_BOUND))?;
    greeting(&mut stream)
}

fn greeting(stream: &mut impl Read) -> io::Result<Result<String, String>> {
    let other = || io::Error::new(io::ErrorKind::InvalidData, "what listens there is neither MariaDB nor MySQL");
    let mut head = [0; HEADER_BYTES];
    stream.read_exact(&mut head)?;
    let (length, _) = header(head);
    if length > GREETING_BYTES_MAX {
        return Err(other());
    }
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload)?;
    greeting_version(&payload).ok_or_else(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_tells_the_version_or_why_not() {
        let mut greets = b"\x0a10.11.6-MariaDB\0\x01\0\0\0abcdefgh\0\xfe\xf7\x2d\x02\0\xff\x81\x15".to_vec();
        greets.extend_from_slice(&[0; 6]);
        greets.extend_from_slice(&[0x1d, 0, 0, 0]);
        greets.extend_from_slice(b"ijklmnopqrst\0mysql_native_password\0");
        let packet = |payload: &[u8]| [&[payload.len() as u8, 0, 0, 0], payload].concat();
        assert_eq!(greeting(&mut &*packet(&greets)).unwrap(), Ok("10.11.6-MariaDB".to_owned()));
        let full = packet(b"\xff\x10\x04Too many connections");
        assert_eq!(greeting(&mut &*full).unwrap(), Err("1040, Too many connections".to_owned()));
        assert!(greeting(&mut &b"SSH-2.0-OpenSSH_9.2p1 Debian\r\n"[..]).is_err());
        assert!(greeting(&mut &*packet(b"hello")).is_err());
    }
}
