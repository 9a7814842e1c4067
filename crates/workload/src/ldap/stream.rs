//! Order of each client's operations.

use plimsoll_core::{KindId, Stream, StreamSpec, Value, ValueBuf, Version, in_turn};

use super::person::Person;
use super::{ADD, COMPARE, DELETE, KINDS, MODIFY, People, SEARCH};
use crate::kv::Chooser;
use crate::kv::turns::{Turns, within_phase};
use crate::scramble::hash;
use crate::shares::shares;

const KIND_SALT: u64 = 0x61;
const ENTRY_SALT: u64 = 0x62;

pub(super) fn stream(people: &People, spec: &StreamSpec) -> Result<Box<dyn Stream>, String> {
    if let StreamSpec::Load { clients, .. } = spec {
        let (person, numbers) = (people.person.clone(), people.numbers[usize::from(ADD)]);
        // An add makes one entry, whatever the batch.
        let push = move |number, params: &mut ValueBuf| person.push(number, Version::Loaded, numbers, params);
        return Ok(in_turn(ADD, people.entries, 1, *clients, push));
    }
    let shares = shares("ldap", &KINDS, spec)?;
    let turns = Turns::new(people.seed ^ KIND_SALT, &shares);
    let share = |kind: KindId| shares.iter().filter(|(one, _)| *one == kind).map(|(_, share)| *share).sum::<u32>();
    if share(ADD) > 0 && share(DELETE) > share(ADD) {
        return Err("with `add` in the mix `delete` deletes what was added, so its share may not be larger".to_owned());
    }
    Ok(Box::new(Mixed {
        seed: people.seed ^ ENTRY_SALT,
        person: people.person.clone(),
        numbers: people.numbers,
        chooser: people.chooser.clone(),
        entries: people.entries,
        clients: u64::from(spec.clients()).max(1),
        deletes_added: turns.has(ADD),
        turns,
    }))
}

struct Mixed {
    seed: u64,
    person: Person,
    numbers: [usize; 5],
    chooser: Chooser,
    entries: u64,
    clients: u64,
    /// True if the mix has adds, which deletes undo.
    deletes_added: bool,
    turns: Turns,
}

impl Stream for Mixed {
    #[inline]
    fn op(&self, client: u32, cycle: u64, params: &mut ValueBuf) -> Option<KindId> {
        // What is added has to be new in every phase. What was loaded is deleted from each phase's beginning on.
        let turn_cycle = if self.deletes_added { cycle } else { within_phase(cycle) };
        let turn = self.turns.turn(u64::from(client), turn_cycle);
        let numbers = self.numbers[usize::from(turn.kind)];
        let written = Version::Written { client, cycle };
        match turn.kind {
            SEARCH | COMPARE | MODIFY => {
                let chosen = self.chooser.choose(hash(self.seed, u64::from(client), cycle));
                for _ in 0..numbers {
                    params.push(Value::Int(chosen as i64));
                }
                if turn.kind == MODIFY {
                    params.push_text_with(|text| self.person.write_description(chosen, written, text));
                }
            }
            ADD => self.person.push(self.added(u64::from(client), turn.number), written, numbers, params),
            DELETE => params.push(Value::Int(self.deleted(u64::from(client), turn.number)? as i64)),
            _ => return None,
        }
        Some(turn.kind)
    }
}

impl Mixed {
    /// The entry that the client's add of this number makes: no other client's, and none of the load's.
    #[inline]
    fn added(&self, client: u64, number: u64) -> u64 {
        self.entries + number * self.clients + client
    }

    /// The entry that the client's delete of this number deletes. In a round adds and deletes come in any order, so a
    /// delete undoes an add of the round before; those of the first round name entries that are never added: they are
    /// not found.
    #[inline]
    fn deleted(&self, client: u64, number: u64) -> Option<u64> {
        if !self.deletes_added {
            let loaded = number * self.clients + client;
            return (loaded < self.entries).then_some(loaded);
        }
        let a_round = self.turns.of_round(DELETE);
        match number.checked_sub(a_round) {
            Some(number) => Some(self.added(client, number)),
            None => Some(i64::MAX as u64 - (number * self.clients + client)),
        }
    }
}
