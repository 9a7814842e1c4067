//! Holds what the store holds in the end against what each record can be. Where a record shows something else, what is
//! remembered of its past says what was lost.

use std::collections::{BTreeMap, BTreeSet};

use super::Running;
use super::records::{Absence, Look};
use crate::log::{NO_STAMP, Row};
use crate::readback::ReadBack;
use crate::timeline::{Effect, Interval};
use crate::verdict::{Audit, LedgerVerdict};
use crate::words::claimed;

/// What is wrong with a record.
enum Wrong {
    Content,
    Refused,
    /// It shows what it no longer is.
    Stale,
    Absent,
}

impl Running {
    /// Holds the records read back against everything that was acknowledged.
    pub fn verdict(&self, found: &ReadBack, gap: Option<String>) -> LedgerVerdict {
        let mut audit = Audit::new(&*self.workload, found, gap);
        audit.verdict.acknowledged = self.records.acknowledged;
        audit.verdict.rejected = self.records.rejected;
        audit.verdict.unknown = self.records.unknown;
        let by_id = audit.by_id(found, self.records() as usize);
        let mut wrong = Vec::new();
        for (id, row) in (0u32..).zip(by_id) {
            match self.is_borne_out(id, row) {
                Ok(borne_out) => audit.verdict.borne_out += u64::from(borne_out),
                Err(what) => wrong.push((id, row, what)),
            }
        }
        let mut effects = self.effects(wrong.iter().map(|(id, ..)| *id).collect());
        for (id, row, what) in wrong {
            let mut effects = effects.remove(&id).unwrap_or_default();
            effects.sort_by_key(|effect| (effect.sent_ns, effect.done_ns));
            effects.insert(0, Effect::empty_store());
            match (what, row) {
                (Wrong::Absent, _) | (_, None) => {
                    audit.lost(id, &effects, 0, None);
                    // Those that are not remembered one by one.
                    let known = effects.iter().filter(|effect| effect.is_acknowledged_write()).count() as u32;
                    let (acknowledged, born_ns) = self.records.acknowledged_of(id);
                    if acknowledged > known {
                        audit.lost_at(u64::from(acknowledged - known), born_ns);
                    }
                }
                (Wrong::Content, Some(row)) => audit.wrong_content(row),
                (Wrong::Refused, Some(row)) => audit.refused(id, &format!("{}, which was refused", claimed(row))),
                (Wrong::Stale, Some(row)) => match effects.iter().rposition(|effect| effect.stamp == row.stamp) {
                    Some(position) => audit.overtaken(id, &effects, position),
                    None => audit.older(id, &effects, 0, Some(format!("{}, from long before,", claimed(row)))),
                },
            }
        }
        audit.finish()
    }

    /// Whether what was found is an acknowledged write, where it is what the record can be.
    fn is_borne_out(&self, id: u32, row: Option<Row>) -> Result<bool, Wrong> {
        let Some(row) = row else {
            return match self.records.absence(id, Interval::END) {
                Absence::No => Err(Wrong::Absent),
                Absence::Possible | Absence::Open => Ok(false),
            };
        };
        if row.stamp == NO_STAMP {
            return Err(Wrong::Content);
        }
        match self.records.stands(id, row.stamp) {
            Look::Alive => Ok(self.records.is_acknowledged(id, row.stamp)),
            Look::Stale(_) => Err(Wrong::Stale),
            _ if self.records.is_refused(id, row.stamp) => Err(Wrong::Refused),
            _ if self.records.has_ended(id, row.stamp, u64::from(id) < self.workload.record_count()) => {
                Err(Wrong::Stale)
            }
            _ => Err(Wrong::Content),
        }
    }

    /// All that is known of these records.
    fn effects(&self, ids: BTreeSet<u32>) -> BTreeMap<u32, Vec<Effect>> {
        let mut effects: BTreeMap<u32, Vec<Effect>> = BTreeMap::new();
        if ids.is_empty() {
            return effects;
        }
        for (id, effect) in self.records.past.effects().filter(|(id, _)| ids.contains(id)) {
            effects.entry(id).or_default().push(effect);
        }
        for id in ids {
            let states = self.records.states_of(id).map(|(_, state)| state.effect());
            effects.entry(id).or_default().extend(states);
        }
        effects
    }
}
