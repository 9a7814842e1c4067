//! The store: attached or private, and what it can be asked.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use plimsoll_core::{
    Cold, Durability, Footprint, Layout, OpKind, Sessions, Setting, Store, StoreDescription, StoreError,
    StoreErrorKind, Values, Waits, WireClient,
};

use crate::control::{greeted, look};
use crate::endpoint::{Endpoint, Login};
use crate::server::{INDEX_BYTES, PrivateNginx, SIZES_BYTES};
use crate::wire::HttpSession;

pub(crate) struct HttpStore {
    /// The private server; `None` when attached.
    server: Option<PrivateNginx>,
    access_log: bool,
    /// Most connections that a private server takes.
    connections: i64,
    endpoint: Endpoint,
    login: Arc<Login>,
    waits: Waits,
}

impl HttpStore {
    pub fn start(
        access_log: bool,
        connections: i64,
        bases: &[PathBuf],
        log_dir: &Path,
        waits: &Waits,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Self, StoreError> {
        let server = PrivateNginx::start(bases, log_dir, access_log, connections, waits, progress)?;
        let endpoint = server.endpoint();
        let login = Arc::new(endpoint.login.clone());
        Ok(Self { server: Some(server), access_log, connections, endpoint, login, waits: waits.clone() })
    }

    pub fn attach(endpoint: Endpoint, waits: &Waits, progress: &mut dyn FnMut(&str)) -> Result<Self, StoreError> {
        if let Some(said) = greeted(&endpoint, waits)?.first_error() {
            let place = &endpoint.login.place;
            progress(&format!("{place} answers {said} to HEAD; what is asked goes there all the same"));
        }
        let login = Arc::new(endpoint.login.clone());
        Ok(Self { server: None, access_log: false, connections: 0, endpoint, login, waits: waits.clone() })
    }
}

impl Store for HttpStore {
    fn describe(&mut self) -> Result<StoreDescription, StoreError> {
        if let Some(server) = &mut self.server {
            server.check()?;
        }
        let server = look(&self.endpoint, &self.waits)?;
        let version = if server.is_empty() { "a server that does not say which".to_owned() } else { server };
        let is_private = self.server.is_some();
        let place = if is_private { "private server".to_owned() } else { self.login.place.clone() };
        let set = |name: &str, value: &str, default: &str| Setting {
            name: name.to_owned(),
            value: value.to_owned(),
            default: Some(default.to_owned()),
            source: "plimsoll".to_owned(),
        };
        let mut settings = Vec::new();
        if is_private {
            settings.push(set("master_process", "off", "on"));
            settings.push(set("worker_connections", &self.connections.to_string(), "512"));
            settings.push(set("sendfile", "on", "off"));
            settings.push(set("keepalive_timeout", "1d", "75s"));
            settings.push(set("keepalive_time", "1d", "1h"));
            settings.push(set("keepalive_requests", "1000000000", "1000"));
            settings.push(set("access_log", if self.access_log { "on" } else { "off" }, "on"));
        }
        Ok(StoreDescription { version, place, settings })
    }

    fn create(&mut self, layout: &Layout) -> Result<(), StoreError> {
        if !layout.collections.is_empty() || !layout.statements.is_empty() {
            let what = "HTTP keeps neither records nor tables, and the layout has some";
            return Err(StoreError::new(StoreErrorKind::Usage, what));
        }
        Ok(())
    }

    fn sessions(&mut self, count: u32, durability: Durability) -> Result<Sessions, StoreError> {
        let tls = self.endpoint.tls_client()?;
        let client = |_| {
            let plain = HttpSession::new(Arc::clone(&self.login), durability);
            let session = self.endpoint.session(plain, tls.as_ref(), &self.login.place)?;
            Ok(WireClient { address: self.endpoint.address.clone(), session })
        };
        Ok(Sessions::Wire((0..count).map(client).collect::<Result<_, StoreError>>()?))
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn settle(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn cold(&mut self) -> Result<Cold, StoreError> {
        plimsoll_lab::cold(self.server.as_mut())
    }

    fn restart(&mut self) -> Result<(), StoreError> {
        plimsoll_lab::restart(self.server.as_mut(), &self.login.place)
    }

    fn footprint(&mut self) -> Result<Footprint, StoreError> {
        let ours = self.server.as_ref().map(|_| (INDEX_BYTES + SIZES_BYTES.iter().sum::<usize>()) as u64);
        Ok(Footprint { data_bytes: ours.unwrap_or(0), index_bytes: None, total_bytes: ours })
    }

    fn explain(&mut self, _: &OpKind, _: Values<'_>) -> Result<Option<String>, StoreError> {
        Ok(None)
    }

    fn check_integrity(&mut self) -> Result<Option<String>, StoreError> {
        Ok(None)
    }

    fn processes(&self) -> Vec<u32> {
        self.server.as_ref().and_then(PrivateNginx::pid).into_iter().collect()
    }

    fn close(mut self: Box<Self>) -> Result<(), StoreError> {
        self.server.take().map_or(Ok(()), PrivateNginx::close)
    }
}
