//! Which operation each client does next.

use std::sync::Arc;

use plimsoll_core::{KindId, Stream, StreamSpec, Truth, Value, ValueBuf, Version};

use super::content::Content;
use super::{ALL, INSERT, KINDS, QUERY, READ, SCAN, UPDATE};
use crate::scramble::{below, hash};

/// One update in this many goes to a record that changes sides.
const BUSY_ONE_IN: u64 = 4;

const KIND_SALT: u64 = 0x41;
const KEY_SALT: u64 = 0x42;

pub(super) fn stream(content: &Arc<Content>, spec: &StreamSpec) -> Result<Box<dyn Stream>, String> {
    match spec {
        StreamSpec::Load { batch, clients } => Ok(Box::new(Load {
            content: content.clone(),
            batch: u64::from(*batch).max(1),
            clients: u64::from(*clients).max(1),
        })),
        StreamSpec::One { kind, clients } => mixed(content, &[(kind.clone(), 1)], *clients),
        StreamSpec::Mix { mix, clients } => mixed(content, mix, *clients),
    }
}

fn mixed(content: &Arc<Content>, mix: &[(String, u32)], clients: u32) -> Result<Box<dyn Stream>, String> {
    let mut shares = Vec::new();
    let mut total = 0;
    for (name, share) in mix {
        let kind = KINDS.iter().position(|kind| kind == name).map(|kind| kind as KindId);
        match kind {
            Some(INSERT) => return Err("`insert` is the load's: no coupons are added after it".into()),
            Some(kind) => {
                total += u64::from(*share);
                shares.push((total, kind));
            }
            None => return Err(format!("`coupons` has no kind `{name}`, only {}", KINDS[1..].join(", "))),
        }
    }
    if total == 0 {
        return Err("the mix gives no kind a share".into());
    }
    let clients = u64::from(clients).max(1);
    if clients > content.records() && shares.iter().any(|(_, kind)| *kind == UPDATE) {
        return Err(format!(
            "{clients} clients cannot each own a record to update when there are {}",
            content.records()
        ));
    }
    Ok(Box::new(Mixed { content: content.clone(), shares, clients }))
}

struct Load {
    content: Arc<Content>,
    batch: u64,
    clients: u64,
}

impl Stream for Load {
    fn op(&self, client: u32, cycle: u64, params: &mut ValueBuf) -> Option<KindId> {
        let first = (cycle * self.clients + u64::from(client)) * self.batch;
        let end = (first + self.batch).min(self.content.records());
        if first >= end {
            return None;
        }
        for id in first..end {
            self.content.row(id, Version::Loaded, params);
        }
        Some(INSERT)
    }
}

struct Mixed {
    content: Arc<Content>,
    /// Upper ends of the kinds' shares.
    shares: Vec<(u64, KindId)>,
    clients: u64,
}

impl Stream for Mixed {
    fn op(&self, client: u32, cycle: u64, params: &mut ValueBuf) -> Option<KindId> {
        let seed = self.content.seed();
        let total = self.shares.last().map_or(0, |(end, _)| *end);
        let choice = below(hash(seed ^ KIND_SALT, u64::from(client), cycle), total);
        let kind = self.shares.iter().find(|(end, _)| choice < *end)?.1;
        let bits = hash(seed ^ KEY_SALT, u64::from(client), cycle);
        match kind {
            READ => {
                let id = below(bits, self.content.records());
                params.push_text_with(|code| self.content.write_code(id, code));
            }
            UPDATE => {
                let id = self.content.id_of_rank(self.rank_to_update(u64::from(client), bits));
                params.push_text_with(|code| self.content.write_code(id, code));
                params.push(Value::Int(self.content.redeemed_written(id, client, cycle)));
                params.push(Value::Int(Version::Written { client, cycle }.stamp()));
            }
            QUERY | SCAN => {
                params.push(Value::Null);
                params.push(Value::Int(self.content.below() as i64));
            }
            ALL => {}
            _ => return None,
        }
        Some(kind)
    }
}

impl Mixed {
    /// The rank of a record that `client` owns: those that leave its number when divided by the clients'.
    fn rank_to_update(&self, client: u64, bits: u64) -> u64 {
        let owned_below = |rank: u64| (rank + self.clients - 1).saturating_sub(client) / self.clients;
        let owned = owned_below(self.content.records());
        let owned_busy = owned_below(self.content.busy());
        let choice = hash(bits, BUSY_ONE_IN, 0);
        let busy = owned_busy == owned || (owned_busy > 0 && choice.is_multiple_of(BUSY_ONE_IN));
        let turn = if busy { below(bits, owned_busy) } else { owned_busy + below(bits, owned - owned_busy) };
        turn * self.clients + client
    }
}
