//! A private nginx: how it is made, started, found ready, and stopped.
//!
//! It listens on a Unix socket only, in a directory that only its user and root can enter, and serves files that are
//! made for it: `/`, of 612 bytes as the page that nginx comes with, and `/bytes/N` for the sizes of [`SIZES_BYTES`].

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plimsoll_core::{StoreError, StoreErrorKind, Waits};
use plimsoll_lab::{OwnServer, PrivateServer, Program, ServerUser, StopSignal};

use crate::control::look;
use crate::endpoint::{Endpoint, at_socket};

/// Sizes of the files `/bytes/N`.
pub const SIZES_BYTES: [usize; 6] = [64, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 1 << 20];
/// Size of `/`.
pub const INDEX_BYTES: usize = 612;
const NGINX: Program = Program { name: "nginx", directories: &["/usr/local/nginx/sbin"], package: "nginx" };
/// A user that every Debian has.
const USER: &str = "www-data";
const PLACE: &str = "the private nginx";
/// How long a start and a stop may take.
const BOUND: Duration = Duration::from_secs(30);
/// Between two looks whether it is ready, and how long one may take.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);
const LOOK_BOUND: Duration = Duration::from_secs(10);

/// Where nginx is.
///
/// # Errors
/// `Missing`, with the line that installs it.
pub fn find_nginx() -> Result<PathBuf, StoreError> {
    NGINX.find()
}

/// A running server of our own. Ends, with all its files, when it is closed, dropped (its log is kept then, for
/// something failed), or Plimsoll dies.
pub struct PrivateNginx {
    server: PrivateServer,
    program: PathBuf,
}

impl PrivateNginx {
    /// Makes its directory under the first of `bases` that its user can get to, with configuration and files, and starts
    /// it, for so many connections. The user is the caller, or `www-data` if that is root. Its log is copied to `log_dir` if anything fails.
    ///
    /// # Errors
    /// `Missing` when it is not installed; `Permission` when no base will do; `DiskFull`; `Broken` with its last words
    /// when it does not start.
    pub fn start(
        bases: &[PathBuf],
        log_dir: &Path,
        access_log: bool,
        connections: i64,
        waits: &Waits,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Self, StoreError> {
        let program = find_nginx()?;
        let user = ServerUser::caller_or(USER, "base-passwd")?;
        let server = PrivateServer::new("nginx", bases, user, StopSignal::Term, log_dir, waits)?;
        let data = server.data_dir().to_owned();
        write_files(&data).map_err(|error| StoreError::io(data.display(), &error))?;
        let text = configuration(&server.socket_dir().join("http.sock"), access_log, connections);
        let path = data.join("nginx.conf");
        write(&path, text.as_bytes()).map_err(|error| StoreError::io(path.display(), &error))?;
        let mut nginx = Self { server, program };
        progress("starting a private nginx");
        nginx.launch()?;
        Ok(nginx)
    }

    /// Where it listens.
    pub fn endpoint(&self) -> Endpoint {
        at_socket(self.socket(), PLACE)
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.server.socket_dir().join("http.sock")
    }

    /// The id of its process; `None` while it is stopped.
    pub fn pid(&self) -> Option<u32> {
        self.server.pid()
    }

    /// The directory of the files that it serves.
    pub fn files_dir(&self) -> PathBuf {
        self.server.data_dir().join("files")
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

    /// Ends it at once, removes all its files, and waits until that is done.
    ///
    /// # Errors
    /// `Broken` when something could not be removed; the next start tries again.
    pub fn close(self) -> Result<(), StoreError> {
        self.server.close()
    }

    fn launch(&mut self) -> Result<(), StoreError> {
        // One that was killed left its socket, and nginx does not listen where one stands.
        match fs::remove_file(self.socket()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(StoreError::io(self.socket().display(), &error));
            }
            _ => {}
        }
        let data = self.server.data_dir().to_owned();
        let configuration = data.join("nginx.conf");
        // Before it has read its configuration, nginx would log to where only root may write.
        let arguments = [Path::new("-e"), Path::new("stderr"), Path::new("-p"), &data, Path::new("-c"), &configuration];
        self.server.start("nginx", &self.program, &arguments)?;
        let until = Instant::now() + BOUND;
        let last_words = loop {
            self.server.check()?;
            match look(&self.endpoint(), self.server.waits().with_answer(LOOK_BOUND)) {
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

impl OwnServer for PrivateNginx {
    const STORE: &'static str = "http";

    fn stop(&mut self) -> Result<(), StoreError> {
        self.server.stop(StopSignal::Term, BOUND)
    }

    fn start_again(&mut self) -> Result<(), StoreError> {
        self.launch()
    }

    fn files(&self) -> PathBuf {
        self.files_dir()
    }
}

/// One process, nothing on the network, and connections that live as long as their clients want: with nginx' own
/// default each would end after 1,000 requests.
fn configuration(socket: &Path, access_log: bool, connections: i64) -> String {
    let access_log = if access_log { "access.log" } else { "off" };
    format!(
        "daemon off;\n\
         master_process off;\n\
         worker_processes 1;\n\
         pid nginx.pid;\n\
         error_log stderr warn;\n\
         events {{ worker_connections {connections}; }}\n\
         http {{\n\
         \x20 access_log {access_log};\n\
         \x20 client_body_temp_path temp-body;\n\
         \x20 proxy_temp_path temp-proxy;\n\
         \x20 fastcgi_temp_path temp-fastcgi;\n\
         \x20 uwsgi_temp_path temp-uwsgi;\n\
         \x20 scgi_temp_path temp-scgi;\n\
         \x20 types {{ text/html html; }}\n\
         \x20 default_type application/octet-stream;\n\
         \x20 sendfile on;\n\
         \x20 keepalive_timeout 1d;\n\
         \x20 keepalive_time 1d;\n\
         \x20 keepalive_requests 1000000000;\n\
         \x20 server {{\n\
         \x20   listen \"unix:{}\";\n\
         \x20   root files;\n\
         \x20   index index.html;\n\
         \x20 }}\n\
         }}\n",
        socket.display()
    )
}

fn write_files(data: &Path) -> io::Result<()> {
    let bytes = data.join("files/bytes");
    fs::create_dir_all(&bytes)?;
    for directory in [&data.join("files"), &bytes] {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755))?;
    }
    write(&data.join("files/index.html"), &content(INDEX_BYTES))?;
    SIZES_BYTES.iter().try_for_each(|size| write(&bytes.join(size.to_string()), &content(*size)))
}

/// A file that the server's user may read, whatever our mask is.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::write(path, bytes)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o644))
}

/// What a file of `count` bytes holds: printable, and no two neighbours alike.
pub fn content(count: usize) -> Vec<u8> {
    (0..count).map(|at| b'0' + (at % 75) as u8).collect()
}
