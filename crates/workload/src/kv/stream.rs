//! Order of each client's operations.

use plimsoll_core::{KindId, Steps, Stream, StreamSpec, Truth, Value, ValueBuf, Version, in_turn};

use super::content::Content;
use super::steps::ReadModifyWrite;
use super::turns::{Turns, within_phase};
use super::{Chooser, INSERT, KINDS, Pairs, READ, READ_MODIFY_WRITE, SCAN, UPDATE};
use crate::scramble::{beginning, below, hash_from, mix};
use crate::shares::shares;

const KIND_SALT: u64 = 0x51;
const KEY_SALT: u64 = 0x52;

pub(super) fn stream(pairs: &Pairs, spec: &StreamSpec) -> Result<Box<dyn Stream>, String> {
    if let StreamSpec::Load { clients, .. } = spec {
        let content = pairs.content.clone();
        // A put writes one value, whatever the batch.
        let push = move |id, params: &mut ValueBuf| {
            content.row(id, Version::Loaded, params);
            params.name_record(id);
        };
        return Ok(in_turn(INSERT, pairs.records, 1, *clients, push));
    }
    let turns = Turns::new(pairs.seed ^ KIND_SALT, &shares("kv", &KINDS, spec)?);
    Ok(Box::new(Mixed {
        hashing: beginning(pairs.seed ^ KEY_SALT),
        content: pairs.content.clone(),
        chooser: pairs.chooser.clone(),
        records: pairs.records,
        scan_length: pairs.scan_length,
        clients: u64::from(spec.clients()).max(1),
        turns,
    }))
}

struct Mixed {
    /// The beginning of every hash.
    hashing: u64,
    content: Content,
    chooser: Chooser,
    records: u64,
    scan_length: u64,
    clients: u64,
    turns: Turns,
}

impl Stream for Mixed {
    fn op(&self, client: u32, cycle: u64, params: &mut ValueBuf) -> Option<KindId> {
        // What is inserted counts from each phase's beginning.
        let turn = self.turns.turn(u64::from(client), within_phase(cycle));
        if turn.kind == INSERT {
            self.write(self.inserted(u64::from(client), turn.number), client, cycle, params);
            return Some(INSERT);
        }
        let bits = hash_from(self.hashing, u64::from(client), cycle);
        let id = self.asked_for(bits, u64::from(client), cycle);
        match turn.kind {
            READ | READ_MODIFY_WRITE => self.content.name(id, params),
            UPDATE => self.write(id, client, cycle, params),
            SCAN => {
                self.content.name(id, params);
                params.push(Value::Int(1 + below(mix(bits ^ KIND_SALT), self.scan_length) as i64));
            }
            _ => return None,
        }
        Some(turn.kind)
    }

    fn steps(&self, client: u32) -> Option<Box<dyn Steps>> {
        let has_steps = self.turns.has(READ_MODIFY_WRITE);
        has_steps.then(|| Box::new(ReadModifyWrite::new(self.content.clone(), client)) as Box<dyn Steps>)
    }
}

impl Mixed {
    /// The record that the client's insert of this number makes: no other client's, and none of the load's.
    #[inline]
    fn inserted(&self, client: u64, number: u64) -> u64 {
        self.records + number * self.clients + client
    }

    #[inline]
    fn asked_for(&self, bits: u64, client: u64, cycle: u64) -> u64 {
        let chosen = self.chooser.choose(bits);
        if !matches!(self.chooser, Chooser::Latest(_)) {
            return chosen;
        }
        // Clients insert in step, more or less, so the newest records are all clients' in turn. A client cannot know
        // which records of others exist already: it takes its own of the same age, which do.
        let own = self.turns.before(INSERT, within_phase(cycle));
        let (age, others) = (chosen / self.clients, own * self.clients);
        if age < own { self.inserted(client, own - 1 - age) } else { self.records - 1 - (chosen - others) }
    }

    #[inline]
    fn write(&self, id: u64, client: u32, cycle: u64, params: &mut ValueBuf) {
        self.content.name(id, params);
        params.push_bytes_with(|value| self.content.write_value(id, Version::Written { client, cycle }, value));
    }
}
