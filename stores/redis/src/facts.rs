//! Replies of a server about itself: INFO, CONFIG GET.

use std::collections::BTreeMap;

use plimsoll_core::{Progress, Reading, Setting, StoreError, StoreErrorKind};

use crate::control::Control;
use crate::{latency_events, slow_log};

/// The settings that can make a figure another one, with the defaults of Redis 7 (redis.conf of 7.0). No others are
/// read: some hold passwords.
const DEFAULTS: [(&str, &str); 30] = [
    ("activedefrag", "no"),
    ("activerehashing", "yes"),
    ("active-expire-effort", "1"),
    ("aof-rewrite-incremental-fsync", "yes"),
    ("aof-use-rdb-preamble", "yes"),
    ("appendfsync", "everysec"),
    ("appendonly", "no"),
    ("auto-aof-rewrite-min-size", "67108864"),
    ("auto-aof-rewrite-percentage", "100"),
    ("cluster-enabled", "no"),
    ("databases", "16"),
    ("dynamic-hz", "yes"),
    ("hz", "10"),
    ("io-threads", "1"),
    ("io-threads-do-reads", "no"),
    ("jemalloc-bg-thread", "yes"),
    ("latency-monitor-threshold", "0"),
    ("lazyfree-lazy-eviction", "no"),
    ("lazyfree-lazy-server-del", "no"),
    ("lazyfree-lazy-user-del", "no"),
    ("maxclients", "10000"),
    ("maxmemory", "0"),
    ("maxmemory-policy", "noeviction"),
    ("min-replicas-to-write", "0"),
    ("no-appendfsync-on-rewrite", "no"),
    ("rdbcompression", "yes"),
    ("save", "3600 1 300 100 60 10000"),
    ("slowlog-log-slower-than", "10000"),
    ("timeout", "0"),
    ("tls-port", "0"),
];

/// Fields of INFO by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Info(BTreeMap<String, String>);

impl Info {
    /// All of INFO's usual sections.
    pub fn read(control: &mut Control) -> Result<Self, StoreError> {
        Ok(Self::parse(&control.command(&[b"INFO"])?.text()))
    }

    /// Reads as [`Info::read`]; `None` if the user may not ask for it, which no workload needs.
    pub fn read_if_permitted(control: &mut Control) -> Result<Option<Self>, StoreError> {
        match Self::read(control) {
            Err(error) if error.kind == StoreErrorKind::Permission => Ok(None),
            read => read.map(Some),
        }
    }

    /// Lines of name and value.
    pub fn parse(text: &str) -> Self {
        let pairs = text.lines().filter_map(|line| line.trim_end().split_once(':'));
        Self(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    /// The value of `name`; empty when there is none.
    pub fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// The whole number `name`; 0 when there is none.
    pub fn number(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or(0)
    }

    /// The server's name and version: `Redis 7.0.15`, `Valkey 8.1.1`.
    pub fn version(&self) -> String {
        match (self.text("valkey_version"), self.text("redis_version")) {
            ("", redis) => format!("Redis {redis}"),
            (valkey, _) => format!("Valkey {valkey}"),
        }
    }

    /// True while a child of the server writes a snapshot or rewrites the append-only file, or one is to follow.
    pub fn is_rewriting(&self) -> bool {
        ["rdb_bgsave_in_progress", "aof_rewrite_in_progress", "aof_rewrite_scheduled", "async_loading", "loading"]
            .iter()
            .any(|name| self.number(name) > 0)
    }

    /// Bytes that keys and values take, hash tables included; buffers of clients, nodes and logs are not.
    pub fn data_bytes(&self) -> u64 {
        let buffers = ["clients_normal", "clients_slaves", "cluster_links", "replication_backlog", "aof_buffer"];
        let buffers: u64 = buffers.iter().map(|name| self.number(&format!("mem_{name}"))).sum();
        self.number("used_memory").saturating_sub(self.number("used_memory_startup") + buffers)
    }

    /// Returns [`Self::data_bytes`], and 0 if the server has no key: its hash tables shrink a moment later.
    pub fn key_bytes(&self) -> u64 {
        let is_database = |name: &String| name.strip_prefix("db").is_some_and(|rest| rest.parse::<u32>().is_ok());
        if self.0.keys().any(is_database) { self.data_bytes() } else { 0 }
    }

    /// Returns long-running work of the node with this number: loading data, copying those of its master, rewriting them.
    pub fn progress(&self, node: usize) -> Vec<Progress> {
        let (is, number) = (|name: &str| self.number(name) > 0, |name: &str| self.number(name));
        let mut all = Vec::new();
        let begin = |what: &str| Progress::new(node, what);
        if is("loading") {
            let progress = begin("load of its data").running_for(self.seconds_since("loading_start_time"));
            all.push(progress.done(number("loading_loaded_bytes"), Some(number("loading_total_bytes")), "B"));
        }
        if is("master_sync_in_progress") {
            // The size of a copy from memory to memory is not known beforehand.
            let total = Some(number("master_sync_total_bytes"));
            all.push(begin("copy of its master").done(number("master_sync_read_bytes"), total, "B"));
        } else if self.text("role") == "slave" && self.text("master_link_status") == "down" {
            let progress = begin("copy of its master").step("no link to the master");
            all.push(progress.running_for(number("master_link_down_since_seconds")));
        }
        let saves = |progress: Progress| {
            let total = Some(number("current_save_keys_total"));
            progress.aside().done(number("current_save_keys_processed"), total, "keys")
        };
        if is("rdb_bgsave_in_progress") {
            all.push(saves(begin("snapshot").running_for(number("rdb_current_bgsave_time_sec"))));
        }
        if is("aof_rewrite_in_progress") {
            let progress = begin("rewrite of the append-only file");
            all.push(saves(progress.running_for(number("aof_current_rewrite_time_sec"))));
        }
        all
    }

    /// Seconds since the moment `name`, which is one of the server's machine: this one.
    fn seconds_since(&self, name: &str) -> u64 {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(0, |now| now.as_secs()).saturating_sub(self.number(name))
    }

    /// Counters of `node` to plot beside a load.
    pub fn counters(&self, node: &str) -> Vec<Reading> {
        let number = |name: &str| self.number(name) as f64;
        let total = |name| Reading::total(node, name, "", number(name));
        let mut all = vec![
            Reading::level(node, "used_memory", "B", number("used_memory")),
            total("evicted_keys"),
            total("aof_delayed_fsync"),
        ];
        all.extend(self.replicas_behind().map(|bytes| behind(node, bytes as f64)));
        all
    }

    /// Returns the bytes of the replication stream that the replica furthest behind has not acknowledged. Replicas
    /// acknowledge once a second. `None` for a server without replicas.
    fn replicas_behind(&self) -> Option<u64> {
        let replicas = (0..).map_while(|number| self.0.get(&format!("slave{number}")));
        let offset = |replica: &String| {
            let field = replica.split(',').find_map(|field| field.strip_prefix("offset="))?;
            field.parse::<u64>().ok()
        };
        let least = replicas.filter_map(offset).min();
        least.map(|offset| self.number("master_repl_offset").saturating_sub(offset))
    }
}

/// Returns the reading of the bytes that the replicas of `node` are behind.
fn behind(node: &str, bytes: f64) -> Reading {
    Reading::level(node, "replicas_behind", "B", bytes)
}

/// Returns an example of each counter of servers, of which some may have replicas, or be a cluster.
pub(crate) fn counter_examples(has_replicas: bool, is_cluster: bool) -> Vec<Reading> {
    let mut all = Info::default().counters("");
    all.extend(slow_log::readings("", 0.0, 0.0));
    all.extend(latency_events::examples());
    all.extend(["aof_rewrites", "rdb_saves"].map(|name| Reading::cycle("", name, "", 0.0)));
    if has_replicas {
        all.push(behind("", 0.0));
    }
    if is_cluster {
        all.extend(["cluster_moved", "cluster_ask"].map(|name| Reading::total("", name, "", 0.0)));
    }
    all
}

/// The value of a setting; `None` where there is no such setting, or it may not be asked.
pub(crate) fn config(control: &mut Control, name: &str) -> Result<Option<String>, StoreError> {
    let answer = control.command(&[b"CONFIG", b"GET", name.as_bytes()])?;
    Ok(answer.list().get(1).map(crate::Node::text))
}

/// Settings of a private server that Plimsoll makes, and what they are where durabilities differ in them.
const OURS: [(&str, Option<&str>); 7] = [
    ("appendfsync", Some("always for durable, no for buffered")),
    ("appendonly", Some("yes for durable and buffered, no for at-end until its sync")),
    ("auto-aof-rewrite-min-size", None),
    ("io-threads", None),
    (latency_events::THRESHOLD, None),
    ("maxmemory", None),
    ("save", None),
];

/// All settings of [`DEFAULTS`] that are otherwise: as they are now, or of our own server as durabilities make them.
pub(crate) fn settings(control: &mut Control, is_private: bool, now: bool) -> Result<Vec<Setting>, StoreError> {
    let mut found = Vec::new();
    for (name, default) in DEFAULTS {
        let Some(mut value) = config(control, name)? else { continue };
        let ours = OURS.iter().find(|(ours, _)| is_private && *ours == name);
        if let (Some((_, Some(words))), false) = (ours, now) {
            value = (*words).to_owned();
        }
        if value != default {
            let source = if ours.is_some() { "plimsoll" } else { "server" };
            found.push(Setting::new(name, value, Some(default), source));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_is_read_by_name() {
        let info = Info::parse(
            "# Server\r\nredis_version:7.2.4\r\nvalkey_version:8.1.1\r\n\r\n# Memory\r\nused_memory:1000\r\n\
             used_memory_startup:300\r\nmem_clients_normal:60\r\nmem_cluster_links:40\r\naof_rewrite_in_progress:1\r\n",
        );
        assert_eq!(info.version(), "Valkey 8.1.1");
        assert_eq!(Info::parse("redis_version:7.0.15\r\n").version(), "Redis 7.0.15");
        assert_eq!((info.data_bytes(), info.key_bytes()), (600, 0));
        assert_eq!(Info::parse("used_memory:7\r\ndb3:keys=1,expires=0,avg_ttl=0\r\n").key_bytes(), 7);
        assert!(info.is_rewriting());
        assert!(!Info::default().is_rewriting());
        assert_eq!(info.number("nothing"), 0);
    }

    #[test]
    fn the_replica_that_is_furthest_behind_counts() {
        let replica = |number: u32, offset: u32| {
            format!("slave{number}:ip=10.0.0.{number},port=6379,state=online,offset={offset},lag=0\r\n")
        };
        let info = Info::parse(&format!("master_repl_offset:900\r\n{}{}", replica(0, 880), replica(1, 650)));
        assert_eq!(info.replicas_behind(), Some(250));
        assert_eq!(Info::parse("role:slave\r\nmaster_repl_offset:900\r\n").replicas_behind(), None);
    }
}
