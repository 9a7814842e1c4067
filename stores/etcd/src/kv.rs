//! Key-value store over the control plane's calls, in which `keyindex` keeps records and index keys.

use std::collections::HashSet;
use std::ops::ControlFlow;

use bytes::{Bytes, BytesMut};
use plimsoll_core::{Kv, KvCapabilities, KvError, StoreError, StoreErrorKind, WriteBatch};
use plimsoll_endpoint::Link;

use crate::channel::{DELETE_RANGE, PUT, RANGE, TXN};
use crate::control::Control;
use crate::messages::{Field, HEAD_BYTES, Writer, fields, pairs};
use crate::session::end_of;

/// Operations of one transaction. etcd's default limit is 128 (`max-txn-ops`).
const OPERATIONS_MAX: usize = 100;
/// Pairs in one page of a scan.
const PAGE_PAIRS: u64 = 1_000;
/// Longest key. etcd limits requests, by default to 1.5 MiB; this leaves room for the rest of one.
const KEY_BYTES_MAX: usize = 1 << 20;
/// Kinds of a RequestOp, and of a ResponseOp.
const OF_RANGE: u64 = 1;
const OF_PUT: u64 = 2;
const OF_DELETE: u64 = 3;

/// Connections to the servers of one cluster, used one at a time. A lost reply moves on to the next server.
pub(crate) struct EtcdKv {
    servers: Vec<Link<Control>>,
    at: usize,
    /// Prefix of every key.
    prefix: Vec<u8>,
    /// Calls that were repeated with a new token.
    asked_again: u64,
    /// Buffer for an operation of a transaction.
    operation: BytesMut,
}

impl EtcdKv {
    /// Begins with the server at position `first` of `servers`.
    pub fn new(servers: Vec<Link<Control>>, first: usize, prefix: &str) -> Self {
        let (prefix, operation) = (prefix.as_bytes().to_vec(), BytesMut::new());
        Self { servers, at: first, prefix, asked_again: 0, operation }
    }

    fn ask(&mut self, path: &'static str, write: impl FnOnce(&mut Writer<'_>)) -> Result<Bytes, KvError> {
        use StoreErrorKind as K;
        let count = self.servers.len();
        let Some(server) = self.servers.get_mut(self.at % count.max(1)) else {
            return Err(KvError::Rejected(StoreError::broken("a cluster without servers")));
        };
        let again = &mut self.asked_again;
        let asked = server.ask(|control| {
            let called = control.call(path, write);
            *again += std::mem::take(&mut control.asked_again);
            called
        });
        asked.map_err(|error| match error.kind {
            K::Usage | K::Permission | K::Authentication | K::DiskFull => KvError::Rejected(error),
            _ => {
                self.at += 1;
                KvError::Unknown(error)
            }
        })
    }

    /// Runs a transaction without a condition, of the operations that `write` writes for `items`.
    /// `write` returns the kind of operation.
    fn transaction<T>(
        &mut self,
        items: &[T],
        write: impl Fn(&T, &[u8], &mut Writer<'_>) -> u64,
    ) -> Result<Bytes, KvError> {
        let mut all: Vec<u8> = Vec::new();
        for item in items {
            let kind = write(item, &self.prefix, &mut Writer::begin(&mut self.operation));
            let mut one = BytesMut::new();
            Writer::begin(&mut one).bytes(kind, &self.operation[HEAD_BYTES..], &[]);
            let mut wrapped = BytesMut::new();
            // TxnRequest.success: operations for the case that no condition fails.
            Writer::begin(&mut wrapped).bytes(2, &one[HEAD_BYTES..], &[]);
            all.extend_from_slice(&wrapped[HEAD_BYTES..]);
        }
        self.ask(TXN, |message| message.raw(&all))
    }
}

fn malformed() -> KvError {
    KvError::Unknown(StoreError::broken("etcd's answer is no message of its own"))
}

impl Kv for EtcdKv {
    fn capabilities(&self) -> KvCapabilities {
        // A large batch is several transactions, each of them atomic.
        KvCapabilities { atomic_batch: false, snapshot_scan: false, key_bytes_max: KEY_BYTES_MAX }
    }

    fn asked_again(&self) -> u64 {
        self.asked_again
    }

    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, KvError> {
        value.clear();
        let prefix = self.prefix.clone();
        let answer = self.ask(RANGE, |message| {
            message.bytes(1, &prefix, key);
        })?;
        let mut found = false;
        pairs(&answer, |_, stored| {
            found = true;
            value.extend_from_slice(stored);
        })
        .ok_or_else(malformed)?;
        Ok(found)
    }

    fn get_many(&mut self, keys: &[&[u8]], visit: &mut dyn FnMut(usize, &[u8])) -> Result<(), KvError> {
        for (first, some) in (0..).step_by(OPERATIONS_MAX).zip(keys.chunks(OPERATIONS_MAX)) {
            let answer = self.transaction(some, |key, prefix, message| {
                message.bytes(1, prefix, key);
                OF_RANGE
            })?;
            let (mut position, mut is_whole) = (first, Some(()));
            fields(&answer, |field, response| {
                // TxnResponse.responses, one for each operation, in order.
                let (3, Field::Bytes(response)) = (field, response) else { return };
                let whole = fields(response, |kind, range| {
                    if let (OF_RANGE, Field::Bytes(range)) = (kind, range) {
                        let whole = pairs(range, |_, value| visit(position, value));
                        is_whole = is_whole.and(whole);
                    }
                });
                is_whole = is_whole.and(whole);
                position += 1;
            })
            .and(is_whole)
            .filter(|()| position == first + some.len())
            .ok_or_else(malformed)?;
        }
        Ok(())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), KvError> {
        let prefix = self.prefix.clone();
        self.ask(PUT, |message| {
            message.bytes(1, &prefix, key).bytes(2, value, &[]);
        })
        .map(drop)
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), KvError> {
        let prefix = self.prefix.clone();
        self.ask(DELETE_RANGE, |message| {
            message.bytes(1, &prefix, key);
        })
        .map(drop)
    }

    fn write(&mut self, batch: &WriteBatch) -> Result<(), KvError> {
        let writes: Vec<(&[u8], Option<&[u8]>)> = batch.iter().collect();
        let mut rest = &writes[..];
        while !rest.is_empty() {
            // etcd takes no key twice in one transaction.
            let mut seen = HashSet::new();
            let count = rest.iter().take(OPERATIONS_MAX).take_while(|(key, _)| seen.insert(*key)).count();
            let (some, others) = rest.split_at(count);
            self.transaction(some, |(key, value), prefix, message| {
                message.bytes(1, prefix, key);
                match value {
                    Some(value) => {
                        message.bytes(2, value, &[]);
                        OF_PUT
                    }
                    None => OF_DELETE,
                }
            })?;
            rest = others;
        }
        Ok(())
    }

    fn scan(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), KvError> {
        let prefix = self.prefix.clone();
        let mut low = low.to_vec();
        loop {
            let answer = self.ask(RANGE, |message| {
                // A range begins with a key, and the first one that can be is a zero byte.
                let begin: &[u8] = if prefix.is_empty() && low.is_empty() { &[0] } else { &low };
                message.bytes(1, &prefix, begin);
                match high {
                    Some(high) => message.bytes(2, &prefix, high),
                    None => message.bytes(2, &end_of(&prefix), &[]),
                };
                message.number(3, PAGE_PAIRS);
            })?;
            let (mut found, mut broke, mut goes_back) = (0, false, false);
            pairs(&answer, |key, value| {
                found += 1;
                let key = key.get(prefix.len()..).unwrap_or_default();
                // A page before the one that was asked for would be asked for without end.
                goes_back |= key < low.as_slice();
                if !broke && !goes_back {
                    broke = visit(key, value).is_break();
                    low.clear();
                    low.extend_from_slice(key);
                }
            })
            .filter(|()| !goes_back)
            .ok_or_else(malformed)?;
            if broke || found < PAGE_PAIRS {
                return Ok(());
            }
            // The first key after the last one.
            low.push(0);
        }
    }
}
