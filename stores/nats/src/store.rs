//! The store: the bucket of a run on private or attached servers.

use std::fs::Metadata;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_core::{
    CacheSize, Durability, Footprint, Layout, Probe, Reading, Removal, Sessions, Setting, Store, StoreDescription,
    StoreError, StoreErrorKind, Waits, is_run_id,
};
use plimsoll_endpoint::equals::{Addresses, Equals, Login, Scope, sessions};
use plimsoll_endpoint::tls::{Roots, TlsOptions, Verify};
use plimsoll_lab::tree_bytes;
use serde_json::{Value, json};

use crate::answers::Refusal;
use crate::bucket::{ALL_RUNS, PRIVATE, bucket, bucket_of, configuration, stream};
use crate::control::{Control, refused};
use crate::server::{self, Encryption};
use crate::session::{Common, NatsSession};

/// JetStream's number of the error that the stream does not exist.
const NO_STREAM: u16 = 10059;
/// JetStream's number of the error that a stream of this name exists with another configuration.
const IN_USE: u16 = 10058;
/// JetStream's number of the error that too few servers are there for the bucket's copies.
const NO_PEERS: u16 = 10005;
/// JetStream's number and words of the error that its servers have no leader, as just after a start.
const UNAVAILABLE: (u16, &str) = (10008, "JetStream system temporarily unavailable");
/// Pause before the next attempt to make a bucket.
const PEERS_INTERVAL: Duration = Duration::from_millis(20);
/// Wait for the reply of a bucket's leader before the next attempt. Without a leader there is no reply.
const LEADERLESS: Duration = Duration::from_millis(500);
/// Longest wait for the reply to a change before it is asked for again. JetStream drops what comes while it has no leader.
const DROPPED: Duration = Duration::from_secs(5);

/// Waits for an answer in which private servers, all of which may have just started, have elected a leader. On a busy
/// machine an election is repeated.
const ELECTION_WAITS: u32 = 3;

/// Parameters of the store that do not concern its servers alone.
pub(crate) struct Wanted {
    pub replicas: usize,
    pub any_reads: bool,
    pub sync_interval: String,
}

/// True if a bucket has the name of a run's.
fn is_of_run(bucket: &str) -> bool {
    bucket.strip_prefix(ALL_RUNS).is_some_and(is_run_id)
}

/// Returns the command that removes a run's bucket from an attached server.
fn removal(addresses: &Addresses, bucket: &str) -> Option<Removal> {
    let files = match &addresses.tls {
        None => Vec::new(),
        // NATS' own client has no word for it.
        Some(TlsOptions { verify: Verify::None, .. }) => return None,
        Some(tls) => nats_files(tls, Encryption::of(addresses)),
    };
    let place = addresses.place.replace("natss://", "tls://");
    let mut words = vec!["nats", "--server", &place];
    words.extend(files.iter().map(String::as_str));
    words.extend(["kv", "del", bucket]);
    let variables = match &addresses.login {
        None => "",
        // The user may be a token, which no message shows.
        Some(Login { password: None, .. }) => "NATS_USER",
        Some(_) => "NATS_USER and NATS_PASSWORD",
    };
    Some(Removal::new(&words, &place, bucket)?.with(variables))
}

/// Returns the words by which NATS' own client is told the files of TLS.
fn nats_files(tls: &TlsOptions, encryption: Encryption) -> Vec<String> {
    let mut files = Vec::new();
    let mut file = |name: &str, path: &Path| files.push(format!("--{name}={}", path.display()));
    if let Roots::File(roots) = &tls.roots {
        file("tlsca", roots);
    }
    if let Some(own) = &tls.certificate {
        file("tlscert", &own.certificate);
        file("tlskey", &own.key);
    }
    files.extend((encryption == Encryption::First).then(|| "--tlsfirst".to_owned()));
    files
}

pub(crate) struct NatsStore {
    cluster: Equals<Control>,
    wanted: Wanted,
    /// Bucket of this run.
    own: String,
    /// The bucket of this run may exist.
    is_made: bool,
    waits: Waits,
}

impl NatsStore {
    /// Opens the store. `progress` receives a line for each bucket of another run on attached servers.
    ///
    /// # Errors
    /// `Unreachable`, or the refusal of an attached server.
    pub fn open(
        cluster: Equals<Control>,
        wanted: Wanted,
        run_id: &str,
        waits: Waits,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Self, StoreError> {
        let own = if cluster.is_private() { PRIVATE.to_owned() } else { bucket_of(run_id) };
        let mut store = Self { cluster, wanted, own, is_made: false, waits };
        if store.cluster.is_private() {
            return Ok(store);
        }
        let names = store.cluster.first(|control| control.api("STREAM.NAMES", &json!({ "subject": "$KV.>" })));
        let names = match names {
            // Not every workload makes a bucket, so that not every user may list them.
            Err(error) if error.kind == StoreErrorKind::Permission => Value::Null,
            names => names?,
        };
        let names = names["streams"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for left in names.filter_map(bucket).filter(|name| is_of_run(name)) {
            let removal = removal(&store.cluster.addresses, left);
            progress(&Removal::note(&format!("bucket {left}"), removal.as_ref()));
        }
        Ok(store)
    }

    /// Returns the number of the bucket's copies.
    fn replicas(&self) -> usize {
        self.wanted.replicas.min(self.cluster.count())
    }

    /// Returns the bucket of sessions: that of the run if it was made, else that of the URL.
    fn bucket_in_use(&self) -> Option<&str> {
        if self.is_made || self.cluster.is_private() { Some(&self.own) } else { self.cluster.addresses.path.as_deref() }
    }

    /// Deletes the bucket of this run.
    fn clear(&mut self) -> Result<(), StoreError> {
        if !self.is_made {
            return Ok(());
        }
        let what = format!("STREAM.DELETE.{}", stream(&self.own));
        match self.change(&what, &Value::Null)? {
            Err(refusal) if refusal.err_code != NO_STREAM => {
                Err(StoreError::new(StoreErrorKind::Store, "the bucket was not deleted").detail(refusal.description))
            }
            _ => Ok(()),
        }
    }

    /// Asks JetStream for a change that may be asked for twice, and again while there is no reply.
    fn change(&mut self, what: &str, body: &Value) -> Result<Result<Value, Refusal>, StoreError> {
        let (bound, began) = (DROPPED.min(self.waits.answer()), Instant::now());
        loop {
            let asked = Instant::now();
            let answer = self.cluster.first(|control| control.try_api_within(bound, what, body));
            let is_silent = asked.elapsed() >= bound;
            match answer {
                Err(error)
                    if error.kind == StoreErrorKind::Unreachable && is_silent && began.elapsed() < self.election() => {}
                answer => return answer,
            }
        }
    }

    /// Returns the time in which servers have elected a leader.
    fn election(&self) -> Duration {
        self.waits.answer() * ELECTION_WAITS
    }

    /// Makes the bucket of this run, unless it exists. Just after a start, private servers may not have found each other yet.
    fn make(&mut self) -> Result<(), StoreError> {
        let what = format!("STREAM.CREATE.{}", stream(&self.own));
        let made = configuration(&self.own, self.replicas());
        let (is_private, began) = (self.cluster.is_private(), Instant::now());
        loop {
            let refusal = match self.change(&what, &made)? {
                Ok(_) => return Ok(()),
                Err(refusal) if refusal.err_code == IN_USE => return Ok(()),
                Err(refusal) => refusal,
            };
            let is_early = [NO_PEERS, UNAVAILABLE.0].contains(&refusal.err_code);
            if !is_private || !is_early || began.elapsed() > self.election() {
                return Err(refused(&self.cluster.addresses.place, &refusal));
            }
            self.waits.pause(PEERS_INTERVAL)?;
        }
    }

    /// Waits until the bucket's leader answers. After a start the servers elect one first.
    fn until_led(&mut self) -> Result<(), StoreError> {
        let Some(bucket) = self.bucket_in_use() else { return Ok(()) };
        let what = format!("STREAM.MSG.GET.{}", stream(bucket));
        let began = Instant::now();
        let longest = if self.cluster.is_private() { self.election() } else { self.waits.answer() };
        loop {
            let asked = self.cluster.first(|control| {
                // A refusal because the key has no message is a reply, too.
                control.api_within(LEADERLESS, &what, &json!({ "last_by_subj": "$KV.none" }))
            });
            let is_early = |error: &StoreError| {
                error.kind == StoreErrorKind::Unreachable || error.detail.as_deref() == Some(UNAVAILABLE.1)
            };
            match asked {
                Err(error) if is_early(&error) && began.elapsed() < longest => {
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
}

impl Store for NatsStore {
    fn describe(&mut self) -> Result<StoreDescription, StoreError> {
        let version = self.cluster.first(|control| Ok(control.info.version.clone()))?;
        let mut settings = Vec::new();
        let replicas = self.replicas();
        settings.extend((replicas > 1).then(|| Setting::ours("num_replicas", replicas.to_string(), "1")));
        if self.cluster.is_private() {
            settings.push(Setting::ours("max_payload", server::PAYLOAD_BYTES_MAX.to_string(), "1048576"));
            let (sync, usual) = (&self.wanted.sync_interval, server::SYNC_INTERVAL);
            settings.extend((sync != usual).then(|| Setting::ours("sync_interval", sync, usual)));
        }
        Ok(StoreDescription { version: format!("NATS {version}"), place: self.cluster.described(), settings })
    }

    fn promise(&mut self) -> Result<String, StoreError> {
        let interval = &self.wanted.sync_interval;
        Ok(match (self.cluster.is_private(), interval.as_str()) {
            (true, "always") => "By its settings a write that a majority of copies has synced survives power loss.".to_owned(),
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
        if self.cluster.is_private() && !self.is_made {
            // A workload without keys needs no bucket; one that is not loaded finds the bucket of the run before.
            self.make()?;
        }
        self.until_led()?;
        let common = Arc::new(Common {
            login: self.cluster.addresses.login.clone(),
            encryption: Encryption::of(&self.cluster.addresses),
            tls: self.cluster.addresses.tls_client()?,
            bucket: self.bucket_in_use().map(str::to_owned),
            // A single copy is the leader.
            any_reads: self.wanted.any_reads || (self.bucket_in_use() == Some(&self.own) && self.replicas() == 1),
            place: self.cluster.addresses.place.clone(),
        });
        Ok(sessions(self.cluster.addresses.look_up()?, &common.place, count, || NatsSession::new(&common)))
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        // NATS has no command for it.
        Ok(())
    }

    fn settle(&mut self) -> Result<(), StoreError> {
        // The bucket keeps the last message of each key alone, so nothing is left to compact.
        Ok(())
    }

    fn disconnect(&mut self) -> Result<(), StoreError> {
        self.cluster.hang_up();
        Ok(())
    }

    fn footprint(&mut self) -> Result<Footprint, StoreError> {
        let what = self.bucket_in_use().map(|bucket| format!("STREAM.INFO.{}", stream(bucket)));
        let data_bytes = match what {
            Some(what) => self.cluster.first(|control| control.api(&what, &Value::Null))?["state"]["bytes"].as_u64(),
            None => None,
        };
        let trees = self.cluster.nodes().map(|node| tree_bytes(&node.data_dir, Metadata::len));
        let total_bytes = if self.cluster.is_private() { trees.sum() } else { None };
        Ok(Footprint { data_bytes: data_bytes.unwrap_or(0), index_bytes: None, total_bytes })
    }

    fn cache_bytes(&mut self) -> Result<Option<CacheSize>, StoreError> {
        Ok(Some(CacheSize::PageCache))
    }

    fn probes(&mut self) -> Vec<Probe> {
        let what = self.bucket_in_use().map(|bucket| format!("STREAM.INFO.{}", stream(bucket)));
        self.cluster.probes(Scope::Cluster, move |control, _| {
            let number = |value: &Value| value.as_f64().unwrap_or(0.0);
            let account = control.api("INFO", &Value::Null)?;
            let mut readings = vec![
                Reading::level("", "stored", "B", number(&account["storage"])),
                Reading::total("", "api_requests", "", number(&account["api"]["total"])),
                Reading::total("", "api_errors", "", number(&account["api"]["errors"])),
            ];
            let status = what.as_deref().map(|what| control.try_api(what, &Value::Null)).transpose()?;
            // The bucket may not exist yet.
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
    }

    fn close(&mut self) -> Result<(), StoreError> {
        if self.cluster.is_private() {
            return Ok(());
        }
        let cleared = self.clear();
        self.is_made = false;
        let (own, addresses) = (&self.own, &self.cluster.addresses);
        let what = || format!("bucket {own} at {}", addresses.place);
        cleared.map_err(|error| error.leaves(what(), removal(addresses, own)))
    }
}
