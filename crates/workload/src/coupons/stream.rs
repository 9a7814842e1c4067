//! Order of each client's operations.

use std::sync::Arc;

use plimsoll_core::{KindId, Stream, StreamSpec, Truth, Value, ValueBuf, Version, in_turn};

use super::content::Content;
use super::{ALL, INSERT, KINDS, QUERY, READ, SCAN, UPDATE};
use crate::scramble::{below, hash};
use crate::shares::{Lot, shares};

/// Updates per update of a record that changes sides.
const BUSY_ONE_IN: u64 = 4;

const KIND_SALT: u64 = 0x41;
const KEY_SALT: u64 = 0x42;

pub(super) fn stream(content: &Arc<Content>, spec: &StreamSpec) -> Result<Box<dyn Stream>, String> {
    if let StreamSpec::Load { batch, clients } = spec {
        let (content, records) = (Arc::clone(content), content.records);
        let push = move |id, params: &mut ValueBuf| content.row(id, Version::Loaded, params);
        return Ok(in_turn(INSERT, records, *batch, *clients, push));
    }
    let shares = shares("coupons", &KINDS, spec)?;
    let has = |kind| shares.iter().any(|(one, _)| *one == kind);
    if has(INSERT) {
        return Err("`insert` is the load's: no coupons are added after it".into());
    }
    let clients = u64::from(spec.clients()).max(1);
    if clients > content.records && has(UPDATE) {
        return Err(format!("{clients} clients cannot each own a record to update when there are {}", content.records));
    }
    Ok(Box::new(Mixed { lot: Lot::new(content.seed ^ KIND_SALT, &shares), content: content.clone(), clients }))
}

struct Mixed {
    content: Arc<Content>,
    lot: Lot,
    clients: u64,
}

impl Stream for Mixed {
    fn op(&self, client: u32, cycle: u64, params: &mut ValueBuf) -> Option<KindId> {
        let kind = self.lot.draw(client, cycle)?;
        let bits = hash(self.content.seed ^ KEY_SALT, u64::from(client), cycle);
        match kind {
            READ => {
                let id = below(bits, self.content.records);
                self.content.name(id, params);
            }
            UPDATE => {
                let id = self.content.ranks.invert(self.rank_to_update(u64::from(client), bits));
                self.content.name(id, params);
                params.push(Value::Int(self.content.redeemed_written(id, client, cycle)));
                params.push(Value::Int(Version::Written { client, cycle }.stamp()));
            }
            QUERY | SCAN => {
                params.push(Value::Null);
                params.push(Value::Int(self.content.below as i64));
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
        let owned = owned_below(self.content.records);
        let owned_busy = owned_below(self.content.busy);
        let choice = hash(bits, BUSY_ONE_IN, 0);
        let busy = owned_busy == owned || (owned_busy > 0 && choice.is_multiple_of(BUSY_ONE_IN));
        let turn = if busy { below(bits, owned_busy) } else { owned_busy + below(bits, owned - owned_busy) };
        turn * self.clients + client
    }
}
