//! A private PostgreSQL: how one is made, started, found ready, and stopped.
//!
//! It listens on a Unix socket only, in a directory that only its user and root can enter; so nobody is asked
//! for a password (`trust`). Everything else is as PostgreSQL's own defaults are, `fsync` and `full_page_writes`
//! included, but for what the caller sets; all of it is on the server's command line, where `pg_settings`
//! shows it as such. The collation is `C` in UTF-8, so that text orders by bytes as in every other store.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plimsoll_core::{Address, StoreError, StoreErrorKind, Waits};
use plimsoll_lab::{OwnServer, PrivateServer, Program, ServerUser, StopSignal};

const POSTGRES: Program = Program {
    name: "postgres",
    directories: &["/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin"],
    package: "postgresql",
};
/// The database and its owner, as PostgreSQL's own tools call them.
const NAME: &str = "postgres";
/// How long `initdb` may take, its sync on a slow disk included.
const INIT_BOUND: Duration = Duration::from_secs(180);
/// How long a start may take, recovery after a crash included.
const READY_BOUND: Duration = Duration::from_secs(180);
/// How long a stop may take: its checkpoint writes what is dirty in all of `shared_buffers`.
const STOP_BOUND: Duration = Duration::from_secs(180);
/// Between two looks whether it is ready.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// How long one look may take.
const LOOK_BOUND: Duration = Duration::from_secs(1);
/// SQLSTATE of a server that is starting up, shutting down or recovering.
const CANNOT_CONNECT_NOW: &str = "57P03";

/// Where the server's program is.
///
/// # Errors
/// `Missing`, with the line that installs it.
pub fn find_postgres() -> Result<PathBuf, StoreError> {
    POSTGRES.find()
}

/// A running PostgreSQL of our own. Ends, with all its files, when it is closed, dropped (its log is kept then, for
/// something failed), or Plimsoll dies.
pub struct PrivatePostgres {
    server: PrivateServer,
    program: PathBuf,
    arguments: Vec<String>,
    version: String,
}

impl PrivatePostgres {
    /// Makes a data directory under the first of `bases` that the server's user can get to, and starts a server
    /// there with `settings` on its command line. The user is the caller, or `postgres` if that is root.
    /// The log is copied to `log_dir` if anything fails. `progress` is told what takes a while.
    ///
    /// # Errors
    /// `Missing` when PostgreSQL is not installed; `Permission` when no base will do; `DiskFull`; `AddressTaken`
    /// when `settings` make it listen where somebody does; `Broken` with its last words when it does not start.
    pub fn start(
        bases: &[PathBuf],
        log_dir: &Path,
        settings: &[(String, String)],
        waits: &Waits,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Self, StoreError> {
        let program = find_postgres()?;
        let user = ServerUser::caller_or(NAME, POSTGRES.package)?;
        // SIGQUIT is PostgreSQL's immediate shutdown: no checkpoint, but shared memory is given back.
        let mut server = PrivateServer::new("postgresql", bases, user, StopSignal::Quit, log_dir, waits)?;
        progress("making a private PostgreSQL");
        let data = server.data_dir().display().to_string();
        // initdb syncs what it wrote. Without that the kernel would write it half a minute later, in a trial.
        let arguments = ["-D", &data, "-U", NAME, "-A", "trust", "-E", "UTF8", "--no-locale"];
        server.run("initdb", &program.with_file_name("initdb"), &arguments, INIT_BOUND)?;
        let sockets = server.socket_dir().display().to_string();
        let own = [("listen_addresses", ""), ("unix_socket_directories", &sockets)];
        let own = own.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut arguments = vec!["-D".to_owned(), data];
        for (name, value) in own.iter().chain(settings) {
            arguments.extend(["-c".to_owned(), format!("{name}={value}")]);
        }
        let mut postgres = Self { server, program, arguments, version: String::new() };
        progress("starting it");
        postgres.launch()?;
        Ok(postgres)
    }

    /// Where it listens.
    pub fn address(&self) -> Address {
        Address::Unix(self.socket())
    }

    /// The role to log in as; it needs no password.
    pub fn user(&self) -> &str {
        NAME
    }

    /// The database to connect to.
    pub fn database(&self) -> &str {
        NAME
    }

    /// The server's version in its own words: `15.14 (Debian 15.14-0+deb12u1)`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The id of the postmaster, the parent of all its processes; `None` while it is stopped.
    pub fn pid(&self) -> Option<u32> {
        self.server.pid()
    }

    /// The directory of its data, write-ahead log included.
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

    fn socket(&self) -> PathBuf {
        let port = self.arguments.iter().rev().find_map(|argument| argument.strip_prefix("port=")).unwrap_or("5432");
        self.server.socket_dir().join(format!(".s.PGSQL.{port}"))
    }

    fn launch(&mut self) -> Result<(), StoreError> {
        self.server.start("postgres", &self.program, &self.arguments)?;
        let socket = self.socket();
        let until = Instant::now() + READY_BOUND;
        let last_words = loop {
            self.server.check()?;
            match look(&socket) {
                Look::Ready(version) => {
                    self.version = version;
                    return Ok(());
                }
                Look::NotYet(why) if Instant::now() > until => break why,
                Look::NotYet(_) => self.server.waits().pause(LOOK_INTERVAL)?,
                Look::Refused(why) => break why,
            }
        };
        let next = self.server.keep_log().map(|path| format!("read its log, {}", path.display()));
        let _ = self.server.kill();
        let error = StoreError::new(StoreErrorKind::Broken, "the private PostgreSQL takes no connections");
        Err(error.detail(last_words).next(next.unwrap_or_else(|error| format!("its log could not be kept: {error}"))))
    }
}

impl OwnServer for PrivatePostgres {
    const STORE: &'static str = "postgres";

    fn stop(&mut self) -> Result<(), StoreError> {
        self.server.stop(StopSignal::Int, STOP_BOUND)
    }

    fn start_again(&mut self) -> Result<(), StoreError> {
        self.launch()
    }

    fn files(&self) -> PathBuf {
        self.server.data_dir().to_owned()
    }
}

/// What one look came to.
enum Look {
    /// It takes connections; its version.
    Ready(String),
    NotYet(String),
    Refused(String),
}

/// Connects as a client does, and leaves again.
fn look(socket: &Path) -> Look {
    let asked = UnixStream::connect(socket).and_then(|mut stream| {
        stream.set_read_timeout(Some(LOOK_BOUND))?;
        stream.set_write_timeout(Some(LOOK_BOUND))?;
        stream.write_all(&startup_message())?;
        greeting(&mut stream)
    });
    match asked {
        Ok(Greeting::Ready(version)) => Look::Ready(version),
        Ok(Greeting::Error { code, text }) if code == CANNOT_CONNECT_NOW => Look::NotYet(text),
        Ok(Greeting::Error { text, .. }) => Look::Refused(text),
        Err(error) => Look::NotYet(format!("{}: {error}", socket.display())),
    }
}

/// "Frontend/Backend Protocol", StartupMessage: length, version 3.0, name and value pairs, a zero.
fn startup_message() -> Vec<u8> {
    let body = format!("user\0{NAME}\0database\0{NAME}\0\0");
    let mut message = (body.len() as u32 + 8).to_be_bytes().to_vec();
    message.extend_from_slice(&0x0003_0000_u32.to_be_bytes());
    message.extend_from_slice(body.as_bytes());
    message
}

/// What a server says to a startup message.
#[derive(Debug, PartialEq, Eq)]
enum Greeting {
    Ready(String),
    Error { code: String, text: String },
}

/// Reads messages until the server is ready for a query or says why it is not.
fn greeting(stream: &mut impl Read) -> io::Result<Greeting> {
    let mut version = String::new();
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head)?;
        let [kind, length @ ..] = head;
        // Greetings are short; anything else that listens there is not PostgreSQL.
        let length = u32::from_be_bytes(length);
        if !(4..=0x1_0000).contains(&length) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "what listens there is not PostgreSQL"));
        }
        let mut body = vec![0; length as usize - 4];
        stream.read_exact(&mut body)?;
        match kind {
            b'S' => {
                let mut words = body.split(|byte| *byte == 0);
                if words.next() == Some(b"server_version") {
                    version = String::from_utf8_lossy(words.next().unwrap_or_default()).into_owned();
                }
            }
            b'E' => {
                let field = |code: u8| {
                    let field = body.split(|byte| *byte == 0).find(|field| field.first() == Some(&code));
                    String::from_utf8_lossy(field.and_then(|field| field.get(1..)).unwrap_or_default()).into_owned()
                };
                return Ok(Greeting::Error { code: field(b'C'), text: field(b'M') });
            }
            b'Z' => return Ok(Greeting::Ready(version)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let mut message = vec![kind];
        message.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        message.extend_from_slice(body);
        message
    }

    #[test]
    fn a_greeting_tells_the_version_or_why_not() {
        let ready = [
            message(b'R', &[0, 0, 0, 0]),
            message(b'S', b"server_encoding\0UTF8\0"),
            message(b'S', b"server_version\x0015.14\0"),
            message(b'Z', b"I"),
        ];
        assert_eq!(greeting(&mut &*ready.concat()).unwrap(), Greeting::Ready("15.14".to_owned()));
        let starting = message(b'E', b"SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0");
        let text = "the database system is starting up".to_owned();
        assert_eq!(greeting(&mut &*starting).unwrap(), Greeting::Error { code: CANNOT_CONNECT_NOW.to_owned(), text });
        assert!(greeting(&mut &b"HTTP/1.1 400 Bad Request"[..]).is_err());
    }
}
