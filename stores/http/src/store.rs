//! The store: attached or private, and what it can be asked.

use std::sync::Arc;

use plimsoll_core::{
    Durability, Footprint, Layout, Nodes, Servers, Sessions, Setting, Store, StoreDescription, StoreError, Waits,
    WireClient,
};

use crate::client::Greeting;
use crate::control::{driven, greet, look};
use crate::endpoint::{Endpoint, Login, Version};
use crate::server::{self, INDEX_BYTES, NginxRecipe, SIZES_BYTES};

pub(crate) struct HttpStore {
    /// The private server, and what it was told; `None` when attached.
    own: Option<(Arc<dyn Servers>, NginxRecipe)>,
    endpoint: Endpoint,
    login: Arc<Login>,
    /// First answer of an attached server.
    greeting: Greeting,
    waits: Waits,
}

impl HttpStore {
    pub fn private(servers: Arc<dyn Servers>, nginx: NginxRecipe, waits: Waits) -> Self {
        let endpoint = server::endpoint(&servers.first(), nginx.version);
        let (login, greeting) = (Arc::new(endpoint.login.clone()), Greeting::default());
        Self { own: Some((servers, nginx)), login, greeting, endpoint, waits }
    }

    pub fn attach(endpoint: Endpoint, waits: Waits, progress: &mut dyn FnMut(&str)) -> Result<Self, StoreError> {
        let greeting = greet(&endpoint, &waits)?;
        if let Some(said) = &greeting.error {
            let place = &endpoint.login.place;
            progress(&format!("{place} answers {said} to GET; what is asked goes there all the same"));
        }
        Ok(Self { own: None, login: Arc::new(endpoint.login.clone()), greeting, endpoint, waits })
    }
}

impl Store for HttpStore {
    fn describe(&mut self) -> Result<StoreDescription, StoreError> {
        let server = match &self.own {
            Some((servers, _)) => {
                servers.check(Nodes::All)?;
                look(&self.endpoint, &self.waits)?
            }
            // It has said so when it was attached, and is asked no more than the workload does.
            None => self.greeting.server.clone(),
        };
        let version = if server.is_empty() { "a server that does not say which".to_owned() } else { server };
        let (mut place, mut settings) = (self.login.place.clone(), Vec::new());
        if let Some((_, nginx)) = &self.own {
            place = "private server".to_owned();
            settings.push(Setting::ours("worker_connections", nginx.connections.to_string(), "512"));
            settings.push(Setting::ours("sendfile", "on", "off"));
            settings.push(Setting::ours("keepalive_timeout", "1d", "75s"));
            settings.push(Setting::ours("keepalive_time", "1d", "1h"));
            settings.push(Setting::ours("keepalive_requests", "1000000000", "1000"));
            settings.push(Setting::ours("access_log", if nginx.access_log { "on" } else { "off" }, "on"));
        }
        Ok(StoreDescription { version, place, settings })
    }

    fn demand(&mut self, durability: Durability) -> Result<(), StoreError> {
        match durability {
            Durability::AtEnd | Durability::AsConfigured => Ok(()),
            other => Err(StoreError::usage(format!("HTTP does not say that a write is {}", other.name()))),
        }
    }

    fn promise(&mut self) -> Result<String, StoreError> {
        Ok("HTTP does not say what an acknowledged write survives.".to_owned())
    }

    fn create(&mut self, _: &Layout) -> Result<(), StoreError> {
        Ok(())
    }

    fn sessions(&mut self, count: u32, durability: Durability) -> Result<Sessions, StoreError> {
        let tls = self.endpoint.tls_client()?;
        // How deep sessions of HTTP/2 are is the server's to say.
        let greeting = match self.login.version {
            Version::Http2 if self.own.is_some() => greet(&self.endpoint, &self.waits)?,
            _ => self.greeting.clone(),
        };
        let address = &self.endpoint.address;
        let client = |_| {
            let session = driven(&self.login, durability, &greeting, tls.as_ref(), address)?;
            Ok(WireClient { address: address.clone(), session })
        };
        Ok(Sessions::Wire((0..count).map(client).collect::<Result<_, StoreError>>()?))
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn footprint(&mut self) -> Result<Footprint, StoreError> {
        let ours = self.own.as_ref().map(|_| (INDEX_BYTES + SIZES_BYTES.iter().sum::<usize>()) as u64);
        Ok(Footprint { data_bytes: ours.unwrap_or(0), index_bytes: None, total_bytes: ours })
    }
}
