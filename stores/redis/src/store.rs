//! The store: attached or private, what it makes, and what it can be asked.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::{
    Cold, Counter, Durability, Footprint, Layout, OpKind, Sessions, Store, StoreDescription, StoreError,
    StoreErrorKind, Values, WireClient, WireSession,
};
use plimsoll_lab::{page_cache, tree_bytes};
use plimsoll_tls::TlsSession;

use crate::append_only;
use crate::control::{Control, Node};
use crate::endpoint::{Endpoint, Login};
use crate::facts::{self, Info};
use crate::server::{Make, PrivateRedis};
use crate::wire::{Protocol, RedisSession};

/// How long a server may be silent over one command of the control plane.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(120);
/// Keys looked at by one SCAN, and removed by one UNLINK at most: each keeps the server from others for a moment only.
const SCAN_KEYS: &[u8] = b"1000";
/// Where attached servers are told which runs have keys there.
const RUNS_KEY: &[u8] = b"plimsoll:runs";

/// What begins the keys of a run in an attached server.
pub(crate) fn prefix_of(run_id: &str) -> String {
    format!("plimsoll:{}:", plain(run_id))
}

/// Nothing that a pattern of SCAN would take for more than itself.
fn plain(run_id: &str) -> String {
    run_id.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

pub(crate) struct RedisStore {
    /// The private server; `None` when attached.
    server: Option<PrivateRedis>,
    endpoint: Endpoint,
    login: Arc<Login>,
    protocol: Protocol,
    /// The control plane's connection, made when it is needed.
    control: Option<Control>,
    /// Begins every key. Empty where the whole server is ours.
    prefix: String,
    run_id: String,
    /// The private server's file is off, and does not hold what the server does.
    file_is_off: bool,
    /// The attached server knows of this run.
    is_noted: bool,
    /// Bytes of others' data in an attached server when ours was made.
    others_bytes: u64,
}

impl RedisStore {
    pub fn start(
        make: Option<Make>,
        protocol: Protocol,
        data_dir: &Path,
        log_dir: &Path,
        settings: &[(String, String)],
        progress: &mut dyn FnMut(&str),
    ) -> Result<Self, StoreError> {
        let bases = [data_dir.to_owned(), PathBuf::from("/var/tmp"), PathBuf::from("/tmp")];
        let server = PrivateRedis::start(make, &bases, log_dir, settings, progress)?;
        let endpoint = server.endpoint();
        Ok(Self::new(Some(server), endpoint, protocol, String::new(), ""))
    }

    pub fn attach(
        endpoint: Endpoint,
        protocol: Protocol,
        run_id: &str,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Self, StoreError> {
        let mut store = Self::new(None, endpoint, protocol, prefix_of(run_id), run_id);
        store.refuse_what_cannot_be_driven()?;
        for left in store.control()?.command(&[b"SMEMBERS", RUNS_KEY])?.list() {
            let pattern = format!("{}*", prefix_of(&left.text()));
            progress(&format!(
                "keys {pattern} of another run are still there; if it has ended, \
                 `redis-cli --scan --pattern '{pattern}' | xargs redis-cli unlink` removes them"
            ));
        }
        Ok(store)
    }

    fn new(server: Option<PrivateRedis>, endpoint: Endpoint, protocol: Protocol, prefix: String, run_id: &str) -> Self {
        let login = Arc::new(endpoint.login.clone());
        Self {
            server,
            endpoint,
            login,
            protocol,
            control: None,
            prefix,
            run_id: plain(run_id),
            file_is_off: false,
            is_noted: false,
            others_bytes: 0,
        }
    }

    fn control(&mut self) -> Result<&mut Control, StoreError> {
        // Between two uses the server may have been restarted, or have ended a connection that was idle.
        if !self.control.as_mut().is_some_and(Control::is_alive) {
            // How one of our own ended says more than that nobody listens any more.
            if let Some(server) = &mut self.server {
                server.check()?;
            }
            self.control = Some(Control::open(&self.endpoint, COMMAND_TIMEOUT)?);
        }
        Ok(self.control.as_mut().expect("it was made just now"))
    }

    /// A cluster of several nodes, and a replica.
    fn refuse_what_cannot_be_driven(&mut self) -> Result<(), StoreError> {
        let place = self.login.place.clone();
        let control = self.control()?;
        let info = Info::read(control)?;
        if info.number("cluster_enabled") > 0 {
            let cluster = Info::parse(&control.command(&[b"CLUSTER", b"INFO"])?.text());
            if cluster.number("cluster_size") != 1 || cluster.number("cluster_slots_ok") != 16_384 {
                let what = format!("{place} is a node of a cluster, whose keys are spread over several servers");
                let detail = format!(
                    "cluster_size:{} cluster_slots_ok:{}",
                    cluster.text("cluster_size"),
                    cluster.text("cluster_slots_ok")
                );
                let next = "Plimsoll drives one server at a time: attach to a server that is no node of a cluster, or to a \
                            cluster of one node that has all 16384 slots.";
                return Err(StoreError::new(StoreErrorKind::Usage, what).detail(detail).next(next));
            }
        }
        if matches!(info.text("role"), "slave" | "replica") && info.text("slave_read_only") != "0" {
            let what = format!("{place} is a replica, which takes no writes");
            let master = format!("{}:{}", info.text("master_host"), info.text("master_port"));
            return Err(StoreError::new(StoreErrorKind::Usage, what).next(format!("Attach to its master, {master}.")));
        }
        Ok(())
    }

    /// Removes what we made.
    fn clear(&mut self) -> Result<(), StoreError> {
        if self.server.is_some() {
            self.control()?.command(&[b"FLUSHALL", b"SYNC"])?;
            return Ok(());
        }
        if !self.is_noted {
            return Ok(());
        }
        let pattern = format!("{}*", self.prefix).into_bytes();
        let control = self.control()?;
        let mut cursor = b"0".to_vec();
        loop {
            let answer = control.command(&[b"SCAN", &cursor, b"MATCH", &pattern, b"COUNT", SCAN_KEYS])?;
            let [Node::Text(next), keys] = answer.list() else {
                return Err(StoreError::new(StoreErrorKind::Broken, "SCAN answered with what is no answer to it"));
            };
            let keys = keys.list().iter().filter_map(|key| match key {
                Node::Text(key) => Some(key.as_slice()),
                _ => None,
            });
            let words: Vec<&[u8]> = [&b"UNLINK"[..]].into_iter().chain(keys).collect();
            if words.len() > 1 {
                control.command(&words)?;
            }
            if next == b"0" {
                return Ok(());
            }
            cursor.clone_from(next);
        }
    }

    /// Has the attached server know that this run has keys there, or no longer.
    fn note(&mut self, is_there: bool) -> Result<(), StoreError> {
        if self.server.is_some() || self.is_noted == is_there {
            return Ok(());
        }
        let run_id = self.run_id.clone();
        let command: &[u8] = if is_there { b"SADD" } else { b"SREM" };
        self.control()?.command(&[command, RUNS_KEY, run_id.as_bytes()])?;
        self.is_noted = is_there;
        Ok(())
    }

    /// So that what the server holds is in its file when it is stopped.
    fn complete_file(&mut self) -> Result<(), StoreError> {
        if self.file_is_off {
            append_only::switch_on(self.control()?)?;
            self.file_is_off = false;
        }
        Ok(())
    }

    fn server_or(&mut self, what: &str) -> Result<&mut PrivateRedis, StoreError> {
        let place = &self.login.place;
        let error = StoreError::new(StoreErrorKind::Usage, format!("{place} is attached and is not ours to {what}"))
            .next("Use a private server: --on redis");
        self.server.as_mut().ok_or(error)
    }
}

impl Store for RedisStore {
    fn describe(&mut self) -> Result<StoreDescription, StoreError> {
        let is_private = self.server.is_some();
        let place = if is_private { "private server".to_owned() } else { self.login.place.clone() };
        let control = self.control()?;
        let version = Info::read(control)?.version();
        let settings = match facts::settings(control, is_private) {
            // Not everybody may ask for settings.
            Err(error) if error.kind == StoreErrorKind::Permission => Vec::new(),
            settings => settings?,
        };
        Ok(StoreDescription { version, place, settings })
    }

    fn create(&mut self, layout: &Layout) -> Result<(), StoreError> {
        if !layout.collections.is_empty() || !layout.statements.is_empty() {
            let what = "Redis keeps neither records nor tables, and the layout has some";
            return Err(StoreError::new(StoreErrorKind::Usage, what));
        }
        self.note(true)?;
        self.clear()?;
        let info = Info::read(self.control()?)?;
        self.others_bytes = if self.server.is_some() { 0 } else { info.data_bytes() };
        Ok(())
    }

    fn sessions(&mut self, count: u32, durability: Durability) -> Result<Sessions, StoreError> {
        if self.server.is_some() {
            append_only::set(self.control()?, durability)?;
            self.file_is_off = durability == Durability::AtEnd;
        } else {
            let place = self.login.place.clone();
            append_only::demand(self.control()?, durability, &place)?;
        }
        let tls = self.endpoint.tls_client()?;
        let client = |_| {
            let plain = RedisSession::new(Arc::clone(&self.login), self.protocol, self.prefix.as_str());
            let session: Box<dyn WireSession> = match &tls {
                None => Box::new(plain),
                Some(tls) => Box::new(TlsSession::new(plain, tls.clone(), self.endpoint.host(), &self.login.place)?),
            };
            Ok(WireClient { address: self.endpoint.address.clone(), session })
        };
        Ok(Sessions::Wire((0..count).map(client).collect::<Result<_, StoreError>>()?))
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.complete_file()?;
        match &self.server {
            // The server writes what it acknowledges; the kernel needs to be told to keep it.
            Some(server) => {
                let data = server.data_dir();
                append_only::sync_files(data).map_err(|error| StoreError::io(data.display(), &error))
            }
            None => append_only::ask_to_write_all(self.control()?),
        }
    }

    fn settle(&mut self) -> Result<(), StoreError> {
        self.complete_file()?;
        let private = self.server.is_some();
        let control = self.control()?;
        append_only::until_quiet(control)?;
        if private {
            append_only::ask_to_write_all(control)?;
        }
        Ok(())
    }

    fn cold(&mut self) -> Result<Cold, StoreError> {
        if self.server.is_none() {
            return Ok(Cold::NotPossible("an attached server is not ours to stop".to_owned()));
        }
        self.complete_file()?;
        self.control = None;
        let server = self.server_or("stop")?;
        server.stop()?;
        let data = server.data_dir();
        let dropped = page_cache::drop_files(data).map_err(|error| StoreError::io(data.display(), &error));
        server.start_again()?;
        let dropped = dropped?;
        Ok(Cold::Done { file_bytes: dropped.file_bytes, resident_bytes: dropped.resident_bytes })
    }

    fn restart(&mut self) -> Result<(), StoreError> {
        self.server_or("restart")?;
        self.complete_file()?;
        self.control = None;
        let server = self.server_or("restart")?;
        server.stop()?;
        server.start_again()
    }

    fn footprint(&mut self) -> Result<Footprint, StoreError> {
        let info = Info::read(self.control()?)?;
        let total_bytes = match &self.server {
            Some(server) => tree_bytes(server.data_dir()),
            None => None,
        };
        Ok(Footprint {
            data_bytes: info.data_bytes().saturating_sub(self.others_bytes),
            index_bytes: None,
            total_bytes,
        })
    }

    fn explain(&mut self, _: &OpKind, _: Values<'_>) -> Result<Option<String>, StoreError> {
        Ok(None)
    }

    fn check_integrity(&mut self) -> Result<Option<String>, StoreError> {
        let Some(program) = self.server.as_ref().and_then(PrivateRedis::check_program) else { return Ok(None) };
        if self.file_is_off {
            return Ok(None);
        }
        append_only::until_quiet(self.control()?)?;
        let Some(server) = &self.server else { return Ok(None) };
        let Some(file) = append_only_file(server.data_dir()) else { return Ok(None) };
        let checked = Command::new(&program).arg(&file).env_clear().output();
        let checked = checked.map_err(|error| StoreError::io(program.display(), &error))?;
        let said = String::from_utf8_lossy(&checked.stdout);
        let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().to_owned();
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if checked.status.success() {
            return Ok(Some(format!("{name}: {last}")));
        }
        Err(StoreError::new(StoreErrorKind::Corrupt, "the append-only file is damaged")
            .detail(format!("{name}: {last}")))
    }

    fn processes(&self) -> Vec<u32> {
        self.server.as_ref().and_then(PrivateRedis::pid).into_iter().collect()
    }

    fn counters(&mut self) -> Result<Vec<Counter>, StoreError> {
        // No look whether the connection lives: this is asked beside a load.
        if self.control.is_none() {
            self.control()?;
        }
        let Some(control) = &mut self.control else { return Ok(Vec::new()) };
        match Info::read(control) {
            Ok(info) => Ok(info.counters()),
            Err(error) => {
                self.control = None;
                Err(error)
            }
        }
    }

    fn close(mut self: Box<Self>) -> Result<(), StoreError> {
        self.control = None;
        if let Some(server) = self.server.take() {
            return server.close();
        }
        self.clear()?;
        self.note(false)
    }
}

impl Drop for RedisStore {
    fn drop(&mut self) {
        // Not closed: something failed before. What an attached server holds of ours still goes.
        if self.server.is_none() && self.is_noted {
            let _ = self.clear().and_then(|()| self.note(false));
        }
    }
}

/// What the checking program is to be given: the manifest of Redis 7's parts, or the one file of earlier versions.
fn append_only_file(data: &Path) -> Option<PathBuf> {
    [data.join("appendonlydir/appendonly.aof.manifest"), data.join("appendonly.aof")]
        .into_iter()
        .find(|path| path.is_file())
}
