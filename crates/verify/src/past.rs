//! The recent past: writes that no answer may show any more. They are wanted for words and for counts only, when a record
//! shows one of them all the same: what was lost with it, and when that had been acknowledged. What is older than the
//! memory for this is known to be older, no more.

use std::collections::HashSet;

use plimsoll_core::Version;

use crate::log::Effect;

/// Retired writes that are remembered: 80 MiB.
const RETIRED_MAX: usize = 1 << 21;
/// Retired writes that were seen only afterwards, remembered: they are faults.
const SEEN_LATE_MAX: usize = 1 << 16;
/// Clients and phases that stamps have room for.
const CLIENTS_MAX: usize = 1 << 23;

/// Memory of writes that have ended.
#[derive(Debug, Default)]
pub(crate) struct Past {
    /// Records, and the writes of them whose states have ended.
    retired: Vec<(u32, Effect)>,
    /// Position of the oldest, once the memory is full.
    oldest: usize,
    seen_late: HashSet<(u32, i64)>,
    /// Records that were absent when their last delete had been retired, and when they were asked for.
    absent_late: Vec<(u32, u64)>,
    /// Cycle of the last write within the phase plus one, by phase and client.
    sent: Vec<Vec<u32>>,
}

impl Past {
    pub fn push(&mut self, id: u32, effect: Effect) {
        let retired = (id, effect);
        if self.retired.len() < RETIRED_MAX {
            self.retired.push(retired);
        } else {
            self.retired[self.oldest] = retired;
            self.oldest = (self.oldest + 1) % RETIRED_MAX;
        }
    }

    /// A write with this stamp is sent.
    #[inline]
    pub fn sent(&mut self, stamp: i64) {
        let Some(Version::Written { client, cycle }) = Version::from_stamp(stamp) else { return };
        let (phase, client) = ((cycle >> 32) as usize, client as usize);
        if phase >= self.sent.len() {
            self.sent.resize_with(phase + 1, Vec::new);
        }
        let clients = &mut self.sent[phase];
        if client >= clients.len() && client < CLIENTS_MAX {
            clients.resize(client + 1, 0);
        }
        if let Some(last) = clients.get_mut(client) {
            *last = (*last).max((cycle as u32).saturating_add(1));
        }
    }

    /// Returns true if the client of this stamp has written anything that late: a stamp of no known write is then of
    /// one between.
    pub fn was_sent(&self, stamp: i64) -> bool {
        match Version::from_stamp(stamp) {
            Some(Version::Written { client, cycle }) => {
                let clients = self.sent.get((cycle >> 32) as usize);
                clients.and_then(|clients| clients.get(client as usize)).is_some_and(|last| (cycle as u32) < *last)
            }
            _ => false,
        }
    }

    /// An answer shows a state that had been retired.
    pub fn seen(&mut self, id: u32, stamp: i64) {
        if self.seen_late.len() < SEEN_LATE_MAX {
            self.seen_late.insert((id, stamp));
        }
    }

    /// An answer to a question of `sent_ns` says that a record is not there, of which no delete is known any more.
    pub fn absent(&mut self, id: u32, sent_ns: u64) {
        if self.absent_late.len() < SEEN_LATE_MAX {
            self.absent_late.push((id, sent_ns));
        }
    }

    /// Such records, and when they were asked for.
    pub fn absences(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.absent_late.iter().copied()
    }

    /// The effect of the last write with this stamp on this record, if it is remembered.
    pub fn find(&self, id: u32, stamp: i64) -> Option<Effect> {
        let (newest, oldest) = self.retired.split_at(self.oldest);
        let mut all = newest.iter().rev().chain(oldest.iter().rev());
        all.find(|(of, effect)| *of == id && effect.stamp == stamp).map(|(_, effect)| *effect)
    }

    /// Iterates over all stored writes, in no order.
    pub fn effects(&self) -> impl Iterator<Item = (u32, Effect)> + '_ {
        self.retired.iter().map(|(id, effect)| {
            let is_seen = effect.is_seen || self.seen_late.contains(&(*id, effect.stamp));
            (*id, Effect { is_seen, ..*effect })
        })
    }
}
