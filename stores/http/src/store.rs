//! The store: attached or private, and what it can be asked.

use std::sync::Arc;

use plimsoll_core::{
    Durability, Footprint, Layout, Nodes, Servers, Sessions, Setting, Store, StoreDescription, StoreError,
    StoreErrorKind, Waits, WireClient,
};
use plimsoll_endpoint::Branched;

use crate::client::Greeting;
use crate::control::{driven, greet, look};
use crate::endpoint::{Endpoint, Version};
use crate::server::{self, INDEX_BYTES, NginxRecipe, SIZES_BYTES};

pub(crate) struct HttpStore {
    /// The private server, and what it was told; `None` when attached.
    own: Option<(Arc<dyn Servers>, NginxRecipe)>,
    /// Servers that sessions are dealt to in turn; a private one alone.
    endpoints: Vec<Endpoint>,
    /// First answer of an attached server.
    greeting: Greeting,
    /// Servers among several that did not answer when the store was attached.
    silent: Vec<String>,
    waits: Waits,
}

impl HttpStore {
    pub fn private(servers: Arc<dyn Servers>, nginx: NginxRecipe, waits: Waits) -> Self {
        let endpoint = server::endpoint(&servers.first(), nginx.version);
        Self {
            own: Some((servers, nginx)),
            greeting: Greeting::default(),
            silent: Vec::new(),
            endpoints: vec![endpoint],
            waits,
        }
    }

    /// Attaches to `endpoints`, of which there is at least one and one has to answer. Sessions try the others again.
    pub fn attach(endpoints: Vec<Endpoint>, waits: Waits, progress: &mut dyn FnMut(&str)) -> Result<Self, StoreError> {
        let (mut first, mut miss, mut silent) = (None::<Greeting>, None, Vec::new());
        for endpoint in &endpoints {
            let place = &endpoint.login.place;
            match greet(endpoint, &waits) {
                Ok(greeting) => {
                    if let Some(said) = &greeting.error {
                        progress(&format!("{place} answers {said} to GET; what is asked goes there all the same"));
                    }
                    let depth_max = first.as_ref().map_or(greeting.depth_max, |first| first.depth_max);
                    let depth_max = depth_max.min(greeting.depth_max);
                    first = Some(Greeting { depth_max, ..first.unwrap_or(greeting) });
                }
                Err(error) if endpoints.len() > 1 && error.kind == StoreErrorKind::Unreachable => {
                    progress(&format!("{place} does not answer; sessions try it after the others"));
                    silent.push(place.clone());
                    miss = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        match (first, miss) {
            (None, Some(miss)) => Err(miss),
            (first, _) => Ok(Self { own: None, greeting: first.unwrap_or_default(), silent, endpoints, waits }),
        }
    }

    fn first(&self) -> &Endpoint {
        &self.endpoints[0]
    }
}

impl Store for HttpStore {
    fn describe(&mut self) -> Result<StoreDescription, StoreError> {
        let server = match &self.own {
            Some((servers, _)) => {
                servers.check(Nodes::All)?;
                look(self.first(), &self.waits)?
            }
            // It has said so when it was attached, and is asked no more than the workload does.
            None => self.greeting.server.clone(),
        };
        let version = if server.is_empty() { "a server that does not say which".to_owned() } else { server };
        let (mut place, mut settings) = (places(&self.endpoints), Vec::new());
        if !self.silent.is_empty() {
            // As a setting it is in the report and its comparisons: the load goes to the others.
            settings.push(Setting::new("silent at the start", self.silent.join(", "), Some("none"), "server"));
        }
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
            other => Err(StoreError::usage(format!("HTTP does not say that a write is {}", other.name()))
                .next("Ask for durability `as-configured`.")),
        }
    }

    fn promise(&mut self) -> Result<String, StoreError> {
        Ok("HTTP does not say what an acknowledged write survives.".to_owned())
    }

    fn create(&mut self, _: &Layout) -> Result<(), StoreError> {
        Ok(())
    }

    fn sessions(&mut self, count: u32, durability: Durability) -> Result<Sessions, StoreError> {
        let tls = self.first().tls_client()?;
        // How deep sessions of HTTP/2 are is the server's to say.
        let greeting = match self.first().login.version {
            Version::Http2 if self.own.is_some() => greet(self.first(), &self.waits)?,
            _ => self.greeting.clone(),
        };
        let logins: Vec<_> = self.endpoints.iter().map(|endpoint| Arc::new(endpoint.login.clone())).collect();
        let to = |at: usize| -> Result<WireClient, StoreError> {
            let address = &self.endpoints[at].address;
            let session = driven(&logins[at], durability, &greeting, tls.as_ref(), address)?;
            Ok(WireClient { address: address.clone(), session })
        };
        let servers = self.endpoints.len();
        let client = |number: u32| {
            let clients = (0..servers).map(|at| to((number as usize + at) % servers));
            clients.collect::<Result<Vec<_>, StoreError>>().map(Branched::in_turn)
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

/// Returns the addresses of servers for messages.
pub(crate) fn places(endpoints: &[Endpoint]) -> String {
    endpoints.iter().map(|endpoint| endpoint.login.place.as_str()).collect::<Vec<_>>().join(", ")
}
