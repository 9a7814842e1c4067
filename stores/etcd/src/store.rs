//! The store: keys of a run in a private or attached cluster.

use std::fs::Metadata;
use std::path::Path;
use std::sync::Arc;

use plimsoll_core::sampler::TERM;
use plimsoll_core::{
    BlockingSession, CacheSize, Durability, Footprint, IndexMode, Layout, Node, OpKind, Probe, Reading, Removal,
    Sessions, Setting, Store, StoreDescription, StoreError, StoreErrorKind, Values, Waits, is_run_id,
};
use plimsoll_endpoint::equals::{Addresses, Equals, Scope, ServerAddresses, sessions};
use plimsoll_endpoint::tls::{Roots, TlsOptions, Verify};
use plimsoll_endpoint::{must_be_one_server, shown_host};
use plimsoll_keyindex::records::Records;
use plimsoll_lab::tree_bytes;
use tokio::sync::Mutex;

use crate::channel::{COMPACT, DELETE_RANGE, HASH, RANGE};
use crate::control::Control;
use crate::kv::EtcdKv;
use crate::messages::{number, pairs};
use crate::server;
use crate::session::{Common, EtcdSession, end_of};

/// Prefix of the keys of all runs in attached clusters.
const ALL_RUNS: &str = "plimsoll:";

/// Returns the prefix of the keys of a run in an attached cluster.
pub(crate) fn prefix_of(run_id: &str) -> String {
    format!("{ALL_RUNS}{run_id}:")
}

/// Returns the command that removes the keys with a run's prefix from an attached cluster.
fn removal(addresses: &Addresses, prefix: &str) -> Option<Removal> {
    let hosts: Vec<String> =
        addresses.hosts.iter().map(|(host, port)| format!("{}:{port}", shown_host(host))).collect();
    let (clear, encrypted) = (hosts.join(","), format!("https://{}", hosts.join(",https://")));
    let hosts = if addresses.tls.is_some() { &encrypted } else { &clear };
    let files = addresses.tls.as_ref().map(etcdctl_files).unwrap_or_default();
    let user = addresses.login.as_ref().map(|login| login.user.text());
    let mut words = vec!["etcdctl", "--endpoints", hosts];
    words.extend(files.iter().map(String::as_str));
    if let Some(user) = &user {
        // etcdctl asks for the password.
        words.extend(["--user", &**user]);
    }
    words.extend(["del", "--prefix", prefix]);
    Removal::new(&words, hosts, prefix)
}

/// Returns the words by which etcdctl is told the files of TLS.
fn etcdctl_files(tls: &TlsOptions) -> Vec<String> {
    let mut files = Vec::new();
    let mut file = |name: &str, path: &Path| files.extend([name.to_owned(), path.display().to_string()]);
    if let Roots::File(roots) = &tls.roots {
        file("--cacert", roots);
    }
    if let Some(own) = &tls.certificate {
        file("--cert", &own.certificate);
        file("--key", &own.key);
    }
    if tls.verify == Verify::None {
        files.extend(["--insecure-transport=false", "--insecure-skip-tls-verify"].map(str::to_owned));
    }
    files
}

pub(crate) struct EtcdStore {
    cluster: Equals<Control>,
    /// Number of the node whose own copy sessions read.
    copy: Option<usize>,
    /// Private servers sync nothing.
    unsynced: bool,
    /// Prefix of the run's keys; empty in a private cluster.
    prefix: String,
    waits: Waits,
    /// Keys of this run may exist.
    is_made: bool,
    /// Records of the layout, with their indexes; `None` for plain keys.
    records: Option<Records>,
    index: IndexMode,
}

impl EtcdStore {
    /// Opens the store. `progress` receives a line if an attached cluster holds keys of another run.
    ///
    /// # Errors
    /// `Unreachable`, or the refusal of an attached cluster.
    pub fn open(
        cluster: Equals<Control>,
        unsynced: bool,
        run_id: &str,
        waits: Waits,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Self, StoreError> {
        let prefix = if cluster.is_private() { String::new() } else { prefix_of(run_id) };
        let (is_made, records, index) = (false, None, IndexMode::None);
        let mut store = Self { cluster, copy: None, unsynced, prefix, waits, is_made, records, index };
        if store.cluster.is_private() {
            return Ok(store);
        }
        store.must_be_one_cluster()?;
        let left = store.cluster.first(|control| {
            control.call(RANGE, |message| {
                message
                    .bytes(1, ALL_RUNS.as_bytes(), &[])
                    .bytes(2, &end_of(ALL_RUNS.as_bytes()), &[])
                    .number(3, 1)
                    .number(8, 1);
            })
        });
        let left = match left {
            // Not every workload makes keys, so that not every user may have those of runs.
            Err(error) if error.kind == StoreErrorKind::Permission => return Ok(store),
            left => left?,
        };
        let mut other = None;
        let _ = pairs(&left, |key, _| other = Some(String::from_utf8_lossy(key).into_owned()));
        if let Some(run) = other.as_deref().and_then(|key| key.split(':').nth(1)).filter(|run| is_run_id(run)) {
            let (prefix, addresses) = (prefix_of(run), &store.cluster.addresses);
            progress(&Removal::note(&format!("key prefix {prefix}"), removal(addresses, &prefix).as_ref()));
        }
        Ok(store)
    }

    /// Refuses servers of several clusters: a key that is written to one cluster would be missing in another. One host may
    /// be that of a proxy, which may lead to any member of one cluster.
    fn must_be_one_cluster(&mut self) -> Result<(), StoreError> {
        if self.cluster.count() < 2 {
            let name = |control: &mut Control| -> Result<String, StoreError> {
                Ok(format!("cluster {:x}", control.status()?.cluster))
            };
            let (own, waits) = (self.cluster.first(name)?, &self.waits);
            let addresses = &self.cluster.addresses;
            return must_be_one_server(&addresses.place, "keys", &own, || name(&mut Control::open(addresses, waits)?));
        }
        let (mut ids, _) = self.cluster.each(|control, _| Ok(control.status()?.cluster))?;
        ids.sort_unstable();
        ids.dedup();
        if ids.len() < 2 {
            return Ok(());
        }
        let ids: Vec<String> = ids.iter().map(|id| format!("{id:x}")).collect();
        Err(StoreError::usage(format!("the hosts of {} belong to several clusters", self.cluster.addresses.place))
            .detail(format!("their clusters are {}", ids.join(", ")))
            .next("name the members of one cluster: etcdctl member list"))
    }

    /// Returns connections for one session, which asks the server at `first` first.
    fn kv(&self, first: usize) -> EtcdKv {
        EtcdKv::new(self.cluster.links(), first, self.prefix_in_use())
    }

    /// Returns the prefix of sessions' keys. Keys that this run did not write are asked for as they are.
    fn prefix_in_use(&self) -> &str {
        if self.is_made { &self.prefix } else { "" }
    }

    /// Deletes the keys of this run.
    fn clear(&mut self) -> Result<(), StoreError> {
        if !self.is_made {
            return Ok(());
        }
        let prefix = self.prefix.clone();
        // A range begins with a key; the first possible key is a zero byte.
        let begin = if prefix.is_empty() { &[0][..] } else { prefix.as_bytes() };
        self.cluster
            .first(|control| {
                control.long_call(DELETE_RANGE, |message| {
                    message.bytes(1, begin, &[]).bytes(2, &end_of(prefix.as_bytes()), &[]);
                })
            })
            .map(drop)
    }
}

impl Store for EtcdStore {
    fn describe(&mut self) -> Result<StoreDescription, StoreError> {
        let version = self.cluster.first(|control| Ok(control.status()?.version))?;
        let settings = match self.cluster.is_private() {
            true => vec![Setting::ours("max-request-bytes", server::REQUEST_BYTES_MAX.to_string(), "1572864")],
            false => Vec::new(),
        };
        Ok(StoreDescription { version: format!("etcd {version}"), place: self.cluster.described(), settings })
    }

    fn promise(&mut self) -> Result<String, StoreError> {
        Ok("By design a write that a majority has synced to its log survives power loss, unless unsafe-no-fsync is set there."
            .to_owned())
    }

    fn create(&mut self, layout: &Layout) -> Result<(), StoreError> {
        let records = Records::new(layout)?;
        if self.cluster.is_proxied() && !layout.collections.is_empty() {
            let what = "sessions that keep records go to etcd's members themselves, and not through an HAProxy";
            return Err(StoreError::usage(what).next("Ask for keys (kv), or leave `haproxy` out."));
        }
        self.is_made = true;
        self.clear()?;
        self.records = (!layout.collections.is_empty()).then_some(records);
        self.index = layout.index;
        Ok(())
    }

    fn copies(&mut self) -> Result<Vec<usize>, StoreError> {
        // Calls of the control plane read records, and they ask the cluster.
        if self.cluster.count() < 2 || self.records.is_some() {
            return Ok(Vec::new());
        }
        let nodes: Vec<Arc<Node>> = self.cluster.nodes().cloned().collect();
        server::until_caught_up(&nodes, &self.waits)?;
        Ok(nodes.into_iter().map(|node| node.number).collect())
    }

    fn read_copy(&mut self, node: Option<usize>) {
        self.copy = node;
    }

    fn sessions(&mut self, count: u32, durability: Durability) -> Result<Sessions, StoreError> {
        if !matches!(durability, Durability::Durable | Durability::AsConfigured) {
            let what = format!("etcd syncs each write, and cannot be `{}`", durability.name());
            return Err(StoreError::usage(what).next("use the durability `durable`"));
        }
        if self.unsynced && durability == Durability::Durable {
            return Err(StoreError::usage("an etcd that syncs nothing is not `durable`")
                .next("leave unsafe_no_fsync out, or use the durability `as-configured`"));
        }
        if let Some(records) = &self.records {
            let session = |number| Box::new(records.session(self.kv(number as usize))) as Box<dyn BlockingSession>;
            return Ok(Sessions::Blocking((0..count).map(session).collect()));
        }
        let copy = self.copy.and_then(|number| self.cluster.nodes().find(|node| node.number == number));
        let servers = match copy {
            Some(node) => vec![ServerAddresses::only("etcd", node.listens_at(0).into())],
            None => self.cluster.addresses.look_up()?,
        };
        let common = Arc::new(Common {
            reads_copy: self.copy.is_some(),
            tls: self.cluster.addresses.tls_client()?,
            login: self.cluster.addresses.login.clone(),
            token: Mutex::new(self.cluster.first(|control| Ok(control.token.clone()))?),
            prefix: self.prefix_in_use().as_bytes().to_vec(),
            place: self.cluster.addresses.place.clone(),
        });
        Ok(sessions(servers, &common.place, count, || EtcdSession::new(&common)))
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        // etcd syncs before it acknowledges.
        Ok(())
    }

    fn settle(&mut self) -> Result<(), StoreError> {
        if !self.cluster.is_private() {
            return Ok(());
        }
        let revision = self.cluster.first(|control| Ok(control.status()?.revision))?;
        let compacted = self.cluster.first(|control| {
            control.long_call(COMPACT, |message| {
                message.number(1, revision).number(2, 1);
            })
        });
        match compacted {
            // Nothing was written since the last compaction.
            Err(error) if error.detail.as_deref().is_some_and(|words| words.contains("has been compacted")) => Ok(()),
            compacted => compacted.map(drop),
        }
    }

    fn disconnect(&mut self) -> Result<(), StoreError> {
        self.cluster.hang_up();
        Ok(())
    }

    fn footprint(&mut self) -> Result<Footprint, StoreError> {
        let (sizes, _) = self.cluster.each(|control, node| {
            let tree = node.and_then(|node| tree_bytes(&node.data_dir, Metadata::len));
            Ok((control.status()?.in_use_bytes, tree))
        })?;
        let (data_bytes, total_bytes) = (sizes.iter().map(|size| size.0).sum(), sizes.iter().map(|size| size.1).sum());
        Ok(Footprint { data_bytes, index_bytes: None, total_bytes })
    }

    fn cache_bytes(&mut self) -> Result<Option<CacheSize>, StoreError> {
        // etcd maps its file into memory.
        Ok(Some(CacheSize::PageCache))
    }

    fn explain(&mut self, kind: &OpKind, _: Values<'_>) -> Result<Option<String>, StoreError> {
        Ok(self.records.as_ref().and_then(|records| records.explain(kind)).map(str::to_owned))
    }

    /// Asks private servers for the hash of their whole database, for which they read every page; etcd has no other check.
    /// Compares indexes with the records.
    fn check_integrity(&mut self) -> Result<Option<String>, StoreError> {
        let mut said = Vec::new();
        if self.cluster.is_private() {
            let hash = |control: &mut Control, _: Option<&Node>| control.long_call(HASH, |_| {});
            let (hashes, away) = self.cluster.each(hash)?;
            let words = |hash| format!("its database reads to the end, and hashes to {:08x}", number(hash, 2));
            said.extend(hashes.iter().map(|hash| words(hash)));
            if let Some(error) = away.filter(|_| said.is_empty()) {
                return Err(error);
            }
        }
        if let Some(records) = self.records.as_ref().filter(|_| self.index == IndexMode::Keyindex) {
            said.push(records.check(&mut self.kv(0))?);
        }
        said.dedup();
        Ok(Some(said.join("; ")).filter(|said| !said.is_empty()))
    }

    fn probes(&mut self) -> Vec<Probe> {
        self.cluster.probes(Scope::Servers, |control, subject| {
            let status = control.status()?;
            Ok(vec![
                Reading::total(subject, "raft_applied", "", status.applied as f64),
                Reading::level(subject, TERM, "", status.raft_term as f64),
                Reading::level(subject, "db_size", "B", status.db_bytes as f64),
                Reading::level(subject, "db_size_in_use", "B", status.in_use_bytes as f64),
            ])
        })
    }

    fn close(&mut self) -> Result<(), StoreError> {
        if self.cluster.is_private() {
            return Ok(());
        }
        let cleared = self.clear();
        self.is_made = false;
        let (prefix, addresses) = (&self.prefix, &self.cluster.addresses);
        let what = || format!("key prefix {prefix} at {}", addresses.place);
        cleared.map_err(|error| error.leaves(what(), removal(addresses, prefix)))
    }
}
