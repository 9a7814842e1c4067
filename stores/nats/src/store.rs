//! The store: attached or private, what it makes, and what it can be asked.

use std::fs::Metadata;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_core::{
    AsyncSession, CacheSize, Durability, Footprint, Layout, Node, Nodes, Probe, Reading, Removal, Servers, Sessions,
    Setting, Store, StoreDescription, StoreError, StoreErrorKind, Waits, is_run_id,
};
use plimsoll_endpoint::Link;
use plimsoll_lab::tree_bytes;
use serde_json::{Value, json};

use crate::bucket::{OURS, PRIVATE, bucket, bucket_of, configuration, stream};
use crate::control::Control;
use crate::endpoint::{Endpoint, Login};
use crate::server;
use crate::session::{Common, NatsSession};

/// JetStream's number of the error that there is no such stream.
const NO_STREAM: u16 = 10059;
/// That there is one of the name already, made otherwise.
const IN_USE: u16 = 10058;
/// How long an answer of a bucket's leader is waited for before it is asked again: it says nothing while there is none.
const LEADERLESS: Duration = Duration::from_millis(500);

/// What of the store's parameters is not its servers'.
pub(crate) struct Wanted {
    pub replicas: usize,
    pub any_reads: bool,
    pub sync_interval: String,
}

/// Reports whether a bucket has the name of a run's.
fn is_of_run(bucket: &str) -> bool {
    bucket.strip_prefix(OURS).is_some_and(is_run_id)
}

/// Returns the command that removes a run's bucket from an attached server.
fn removal(endpoint: &Endpoint, bucket: &str) -> Option<Removal> {
    let words = ["nats", "--server", &endpoint.place, "kv", "del", bucket];
    let variables = match &endpoint.login {
        None => "",
        // The user may be a token, which no message shows.
        Some(Login { password: None, .. }) => "NATS_USER",
        Some(_) => "NATS_USER and NATS_PASSWORD",
    };
    Some(Removal::new(&words, &endpoint.place, bucket)?.with(variables))
}

/// One server, with the control plane's connection to it.
struct Place {
    control: Link<Control>,
    /// Where it is one of ours.
    node: Option<Arc<Node>>,
}

pub(crate) struct NatsStore {
    endpoint: Endpoint,
    /// There always is a first.
    places: Vec<Place>,
    wanted: Wanted,
    /// The bucket that is made.
    ours: String,
    /// It may be there.
    is_made: bool,
    waits: Waits,
}

impl NatsStore {
    pub fn private(servers: &Arc<dyn Servers>, wanted: Wanted, waits: &Waits) -> Self {
        let running = servers.running();
        let nodes = if running.is_empty() { servers.nodes() } else { running };
        let endpoint = server::endpoint(nodes.iter().map(|node| &**node));
        let place = |(at, node): (usize, Arc<Node>)| {
            let (only, waits) = (Endpoint { place: endpoint.place.clone(), ..endpoint.only(at) }, waits.clone());
            let server = Some((Arc::clone(servers), Nodes::One(node.number)));
            Place { control: Link::new(server, move || Control::open(&only, &waits)), node: Some(node) }
        };
        let places = nodes.into_iter().enumerate().map(place).collect();
        Self { endpoint, places, wanted, ours: PRIVATE.to_owned(), is_made: false, waits: waits.clone() }
    }

    pub fn attach(
        endpoint: &Endpoint,
        wanted: Wanted,
        run_id: &str,
        waits: &Waits,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Self, StoreError> {
        let place = |at: usize| {
            let (only, waits) = (endpoint.only(at), waits.clone());
            Place { control: Link::new(None, move || Control::open(&only, &waits)), node: None }
        };
        let places = (0..endpoint.addresses.len()).map(place).collect();
        let ours = bucket_of(run_id);
        let mut store = Self { endpoint: endpoint.clone(), places, wanted, ours, is_made: false, waits: waits.clone() };
        let names = store.first(|control| control.api("STREAM.NAMES", &json!({ "subject": "$KV.>" })))?;
        let names = names["streams"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for left in names.filter_map(bucket).filter(|name| is_of_run(name)) {
            progress(&Removal::note(&format!("bucket {left}"), removal(endpoint, left).as_ref()));
        }
        Ok(store)
    }

    /// Asks the first server that answers.
    fn first<T>(&mut self, ask: impl Fn(&mut Control) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let mut failure = None;
        for place in &mut self.places {
            match place.control.ask(&ask) {
                Err(error) if error.kind == StoreErrorKind::Unreachable => drop(failure.get_or_insert(error)),
                asked => return asked,
            }
        }
        Err(failure.unwrap_or_else(|| StoreError::broken("a cluster without servers")))
    }

    fn is_private(&self) -> bool {
        self.places.iter().any(|place| place.node.is_some())
    }

    /// Copies of the bucket that there will be.
    fn replicas(&self) -> usize {
        self.wanted.replicas.min(self.places.len())
    }

    /// The bucket of sessions: where nothing of ours was made, it is somebody else's, if the URL names one.
    fn bucket_in_use(&self) -> Option<&str> {
        if self.is_made || self.is_private() { Some(&self.ours) } else { self.endpoint.bucket.as_deref() }
    }

    /// Removes what we made.
    fn clear(&mut self) -> Result<(), StoreError> {
        if !self.is_made {
            return Ok(());
        }
        let what = format!("STREAM.DELETE.{}", stream(&self.ours));
        self.first(|control| match control.try_api(&what, &Value::Null)? {
            Err(refusal) if refusal.err_code != NO_STREAM => {
                Err(StoreError::new(StoreErrorKind::Store, "the bucket was not deleted").detail(refusal.description))
            }
            _ => Ok(()),
        })
    }

    /// Makes our bucket, unless it is there.
    fn make(&mut self) -> Result<(), StoreError> {
        let what = format!("STREAM.CREATE.{}", stream(&self.ours));
        let made = configuration(&self.ours, self.replicas());
        self.first(|control| match control.long_api(&what, &made)? {
            Err(refusal) if refusal.err_code == IN_USE => Ok(()),
            Err(refusal) => Err(control.refused(&refusal)),
            Ok(_) => Ok(()),
        })
    }

    /// Waits until the bucket's leader answers: after a start its servers agree on one first.
    fn until_led(&mut self) -> Result<(), StoreError> {
        let Some(bucket) = self.bucket_in_use() else { return Ok(()) };
        let what = format!("STREAM.MSG.GET.{}", stream(bucket));
        let began = Instant::now();
        loop {
            let asked = self.first(|control| {
                // That there is nothing is an answer, too.
                control.api_within(LEADERLESS, &what, &json!({ "last_by_subj": "$KV.none" }))
            });
            match asked {
                Err(error) if error.kind == StoreErrorKind::Unreachable && began.elapsed() < self.waits.answer() => {
                    self.waits.pause(Duration::from_millis(20))?;
                }
                Err(error) if error.kind == StoreErrorKind::Unreachable => {
                    return Err(
                        error.next("see in NATS' log why; a bucket without a majority of its copies has no leader")
                    );
                }
                Err(error) if error.detail.as_deref() == Some("no message found") => return Ok(()),
                asked => return asked.map(drop),
            }
        }
    }

    fn addresses(&self) -> Result<Vec<SocketAddr>, StoreError> {
        let address = |(host, port): &(String, u16)| {
            let found = (host.as_str(), *port).to_socket_addrs().ok().and_then(|mut all| all.next());
            found.ok_or_else(|| {
                StoreError::new(StoreErrorKind::Unreachable, format!("{host} has no address"))
                    .next("check the host's name in the URL")
            })
        };
        self.endpoint.addresses.iter().map(address).collect()
    }
}

impl Store for NatsStore {
    fn describe(&mut self) -> Result<StoreDescription, StoreError> {
        let version = self.first(|control| Ok(control.info.version.clone()))?;
        let place = match (self.is_private(), self.places.len()) {
            (true, 1) => "private server".to_owned(),
            (true, count) => format!("private cluster of {count} servers"),
            (false, _) => self.endpoint.place.clone(),
        };
        let mut settings = Vec::new();
        let replicas = self.replicas();
        settings.extend((replicas > 1).then(|| Setting::ours("num_replicas", replicas.to_string(), "1")));
        if self.is_private() {
            settings.push(Setting::ours("max_payload", server::PAYLOAD_BYTES_MAX.to_string(), "1048576"));
            let (sync, usual) = (&self.wanted.sync_interval, server::SYNC_INTERVAL);
            settings.extend((sync != usual).then(|| Setting::ours("sync_interval", sync, usual)));
        }
        Ok(StoreDescription { version: format!("NATS {version}"), place, settings })
    }

    fn promise(&mut self) -> Result<String, StoreError> {
        let interval = &self.wanted.sync_interval;
        Ok(match (self.is_private(), interval.as_str()) {
            (true, "always") => "A write that a majority of copies has synced survives power loss.".to_owned(),
            (true, _) => format!(
                "A write that a majority of copies has written survives the death of servers; power loss at a majority may take what they have not synced, which they do every {interval}."
            ),
            (false, _) => "A write that a majority of copies has written survives the death of servers; whether it survives power loss is as sync_interval is there.".to_owned(),
        })
    }

    fn demand(&mut self, durability: Durability) -> Result<(), StoreError> {
        if matches!(durability, Durability::Buffered | Durability::AsConfigured) {
            return Ok(());
        }
        let what = format!("NATS acknowledges writes before it syncs them, and cannot be `{}`", durability.name());
        Err(StoreError::usage(what)
            .next("use the durability `buffered`; with NATS 2.10 and sync_interval=always, `as-configured`"))
    }

    fn create(&mut self, _: &Layout) -> Result<(), StoreError> {
        self.is_made = true;
        self.clear()?;
        self.make()
    }

    fn sessions(&mut self, count: u32, durability: Durability) -> Result<Sessions, StoreError> {
        self.demand(durability)?;
        if self.is_private() && !self.is_made {
            // A workload without keys needs none, and one that is not loaded finds what was there before.
            self.make()?;
        }
        self.until_led()?;
        let common = Arc::new(Common {
            addresses: self.addresses()?,
            login: self.endpoint.login.clone(),
            bucket: self.bucket_in_use().map(str::to_owned),
            // One copy is the leader.
            any_reads: self.wanted.any_reads || (self.bucket_in_use() == Some(&self.ours) && self.replicas() == 1),
            place: self.endpoint.place.clone(),
        });
        let session = |number| Box::new(NatsSession::new(&common, number as usize)) as Box<dyn AsyncSession>;
        Ok(Sessions::Async((0..count).map(session).collect()))
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        // There is no command for it.
        Ok(())
    }

    fn settle(&mut self) -> Result<(), StoreError> {
        // Nothing is left to be done: the last message of each key is all that it keeps.
        Ok(())
    }

    fn disconnect(&mut self) -> Result<(), StoreError> {
        self.places.iter_mut().for_each(|place| place.control.hang_up());
        Ok(())
    }

    fn footprint(&mut self) -> Result<Footprint, StoreError> {
        let what = self.bucket_in_use().map(|bucket| format!("STREAM.INFO.{}", stream(bucket)));
        let data_bytes = match what {
            Some(what) => self.first(|control| control.api(&what, &Value::Null))?["state"]["bytes"].as_u64(),
            None => None,
        };
        let tree = |place: &Place| tree_bytes(&place.node.as_ref()?.data_dir, Metadata::len);
        let total_bytes = self.places.iter().map(tree).sum();
        Ok(Footprint { data_bytes: data_bytes.unwrap_or(0), index_bytes: None, total_bytes })
    }

    fn cache_bytes(&mut self) -> Result<Option<CacheSize>, StoreError> {
        Ok(Some(CacheSize::PageCache))
    }

    fn probe(&mut self) -> Option<Probe> {
        let what = self.bucket_in_use().map(|bucket| format!("STREAM.INFO.{}", stream(bucket)));
        let ask = |place: &Place| {
            let what = what.clone();
            place.control.probe(move |control| {
                let number = |value: &Value| value.as_f64().unwrap_or(0.0);
                let account = control.api("INFO", &Value::Null)?;
                let mut readings = vec![
                    Reading::level("", "stored", "B", number(&account["storage"])),
                    Reading::total("", "api_requests", "", number(&account["api"]["total"])),
                    Reading::total("", "api_errors", "", number(&account["api"]["errors"])),
                ];
                let status = what.as_deref().map(|what| control.try_api(what, &Value::Null)).transpose()?;
                // It may not be made yet.
                let Some(Ok(status)) = status else { return Ok(readings) };
                readings.push(Reading::total("", "last_seq", "", number(&status["state"]["last_seq"])));
                readings.push(Reading::level("", "messages", "", number(&status["state"]["messages"])));
                for replica in status["cluster"]["replicas"].as_array().into_iter().flatten() {
                    // `node1`, as private servers are called.
                    let name = replica["name"].as_str().unwrap_or_default();
                    let subject = name.strip_prefix("node").map_or(name.to_owned(), |number| format!("node {number}"));
                    readings.push(Reading::level(&subject, "lag", "", number(&replica["lag"])));
                }
                Ok(readings)
            })
        };
        let mut places: Vec<Probe> = self.places.iter().map(ask).collect();
        // The leader answers, whoever is asked; one node may be away.
        Some(Box::new(move || {
            let mut failure = None;
            for read in &mut places {
                match read() {
                    Ok(read) => return Ok(read),
                    Err(error) => failure = Some(error),
                }
            }
            Err(failure.unwrap_or_else(|| StoreError::broken("no server")))
        }))
    }

    fn close(&mut self) -> Result<(), StoreError> {
        if self.is_private() {
            return Ok(());
        }
        let cleared = self.clear();
        self.is_made = false;
        let (ours, place) = (&self.ours, &self.endpoint.place);
        cleared.map_err(|error| error.leaves(format!("bucket {ours} at {place}"), removal(&self.endpoint, ours)))
    }
}
