//! Server of a store with the control plane's connection to it: the only server, or a node of a cluster.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_core::{Address, Nodes, Probe, Servers, StoreError, StoreErrorKind, Waits};
use plimsoll_endpoint::{Link, must_be_one_server};

use crate::background::{Background, Rules};
use crate::control::Control;
use crate::endpoint::Endpoint;
use crate::facts::Info;
use crate::latency_events::LatencyEvents;
use crate::reply::Node;
use crate::slots;
use crate::slow_log::SlowLog;

/// Keys looked at by one SCAN, and removed by one UNLINK at most: each keeps the server from others for a moment only.
const SCAN_KEYS: &[u8] = b"1000";

/// Looks at memory until it stays as it is, at most, and the time between two: a server has background work ten times a
/// second.
const SETTLING_LOOKS: usize = 12;
const SETTLING_INTERVAL: Duration = Duration::from_millis(110);
/// Difference of two looks that is none.
const SETTLED_BYTES: u64 = 512;

pub(crate) struct Member {
    pub endpoint: Endpoint,
    /// The private servers, and which of them it is; `None` when attached.
    own: Option<(Arc<dyn Servers>, Arc<plimsoll_core::Node>)>,
    pub control: Link<Control>,
    /// Background work of the server, read when sessions were opened.
    pub background: Option<Background>,
    /// Bytes of other data in an attached server when the run's keys were made.
    pub others_bytes: u64,
}

impl Member {
    pub fn new(endpoint: Endpoint, own: Option<(Arc<dyn Servers>, Arc<plimsoll_core::Node>)>, waits: &Waits) -> Self {
        let connect = {
            let (endpoint, waits) = (endpoint.clone(), waits.clone());
            move || Control::open(&endpoint, &waits)
        };
        let server = own.as_ref().map(|(servers, node)| (Arc::clone(servers), Nodes::One(node.number)));
        Self { endpoint, own, control: Link::new(server, connect), background: None, others_bytes: 0 }
    }

    /// Returns the address that clients of its cluster are told; without a cluster, the address where it listens.
    pub fn announced(&self) -> Address {
        match self.own.as_ref().filter(|(_, node)| !node.ports.is_empty()) {
            Some((_, node)) => Address::Tcp(node.address.to_string(), node.listens_at(0).port()),
            None => self.endpoint.address.clone(),
        }
    }

    /// Notes the bytes of other data that is there.
    pub fn note_others(&mut self) -> Result<(), StoreError> {
        self.others_bytes = 0;
        // Without keys there is nothing to wait for.
        if Info::read(self.control.get()?)?.key_bytes() > 0 {
            self.others_bytes = self.settled(Info::key_bytes)?;
        }
        Ok(())
    }

    /// Returns the bytes of the run's own data.
    pub fn data_bytes(&mut self) -> Result<u64, StoreError> {
        Ok(self.settled(Info::data_bytes)?.saturating_sub(self.others_bytes))
    }

    /// Returns `bytes` of the server as soon as they stay as they are. A server counts its clients' buffers, frees removed
    /// keys and shrinks tables in the background, some tenths of a second later.
    fn settled(&mut self, bytes: fn(&Info) -> u64) -> Result<u64, StoreError> {
        let control = self.control.get()?;
        let waits = control.waits().clone();
        let (mut seen, mut unchanged) = (bytes(&Info::read(control)?), 0);
        for _ in 0..SETTLING_LOOKS {
            if unchanged == 3 {
                break;
            }
            waits.pause(SETTLING_INTERVAL)?;
            let now = bytes(&Info::read(control)?);
            unchanged = if now.abs_diff(seen) < SETTLED_BYTES { unchanged + 1 } else { 0 };
            seen = now;
        }
        Ok(seen)
    }

    /// Returns the directory of its data if it is a private server.
    pub fn data_dir(&self) -> Option<&Path> {
        self.own.as_ref().map(|(_, node)| node.data_dir.as_path())
    }

    /// Refuses an address that leads to several servers, as one of a proxy: keys are removed from one of them only.
    pub fn must_be_one(&mut self) -> Result<(), StoreError> {
        let control = self.control.get()?;
        let waits = control.waits().clone();
        let name = |control: &mut Control| -> Result<String, StoreError> {
            Ok(format!("run_id {}", Info::read(control)?.text("run_id")))
        };
        let (own, endpoint) = (name(control)?, &self.endpoint);
        must_be_one_server(&endpoint.login.place, "keys", &own, || name(&mut Control::open(endpoint, &waits)?))
    }

    /// Returns a probe of its counters under the name `node`.
    pub fn probe(&self, node: String) -> Probe {
        let (mut rules, mut slow_log, mut latency_events) = (None, SlowLog::default(), LatencyEvents::default());
        self.control.probe(move |control| {
            if rules.is_none() {
                rules = Some(Rules::read(control)?);
            }
            let info = Info::read(control)?;
            let mut all = info.counters(&node);
            all.extend(Rules::cycles(rules.as_ref().and_then(Option::as_ref), &info, &node));
            all.extend(slow_log.read(control, &node)?);
            all.extend(latency_events.read(control, &node)?);
            Ok(all)
        })
    }

    /// Removes all keys that match `pattern`; false when some were not this server's to remove any more.
    pub fn unlink(&mut self, pattern: &[u8], in_cluster: bool) -> Result<bool, StoreError> {
        let control = self.control.get()?;
        let (waits, began) = (control.waits().clone(), Instant::now());
        let mut cursor = b"0".to_vec();
        let mut all = true;
        loop {
            waits.check_whole(began, "a search for keys by SCAN")?;
            let answer = control.command(&[b"SCAN", &cursor, b"MATCH", pattern, b"COUNT", SCAN_KEYS])?;
            let [Node::Text(next), keys] = answer.list() else {
                return Err(StoreError::broken("SCAN returned a reply of another form"));
            };
            let keys = keys.list().iter().filter_map(|key| match key {
                Node::Text(key) => Some(key.as_slice()),
                _ => None,
            });
            if in_cluster {
                // One command may only name keys of one slot.
                let commands: Vec<Vec<&[u8]>> = keys.map(|key| vec![&b"UNLINK"[..], key]).collect();
                for answer in control.commands(&commands)? {
                    if let Node::Error(words) = answer {
                        if !(slots::redirection(&words).is_some() || words.starts_with("TRYAGAIN")) {
                            return Err(StoreError::new(StoreErrorKind::Store, "UNLINK was refused").detail(words));
                        }
                        all = false;
                    }
                }
            } else {
                let words: Vec<&[u8]> = [&b"UNLINK"[..]].into_iter().chain(keys).collect();
                if words.len() > 1 {
                    control.command(&words)?;
                }
            }
            if next == b"0" {
                return Ok(all);
            }
            if *next == cursor {
                return Err(StoreError::broken("SCAN returned the cursor that it was given, so that it never ends"));
            }
            cursor.clone_from(next);
        }
    }
}
