//! Holds what the store holds in the end against what each record can be. Where a record shows something else, what is
//! remembered of its past says what was lost.

use std::collections::{BTreeMap, BTreeSet};

use crate::ledger::Ledger;
use crate::log::{ALIEN, Effect, Interval, NO_STAMP, Row, is_absent};
use crate::readback::{IndexAnswer, ReadBack};
use crate::records::Records;
use crate::unknown::start_of_tick;
use crate::verdict::LedgerVerdict;
use crate::words::{Examples, Words, claim, claimed};

/// Fault of a record.
enum Wrong {
    Content,
    Refused,
    /// The record shows an earlier state.
    Stale,
    Absent,
}

impl Ledger {
    /// Holds the records read back against everything that was acknowledged.
    pub fn verdict(&self, found: &ReadBack) -> LedgerVerdict {
        let Records { acknowledged, rejected, unknown, .. } = self.records;
        let (read_back, gap) = (found.rows.len() as u64, self.gap().or_else(|| found.gap.clone()));
        let unread = found.gap.as_ref().map_or(0, |_| self.records());
        let verdict =
            LedgerVerdict { acknowledged, rejected, unknown, read_back, unread, gap, ..LedgerVerdict::default() };
        if verdict.gap.is_some() {
            // What is not known to have been written must not be called wrong.
            return verdict;
        }
        let workload = &*self.post.workload;
        let mut audit = Audit { ledger: self, words: Words::new(workload), verdict, examples: Examples::default() };
        audit.records(found);
        if let Some(index) = &found.index {
            audit.index(index);
        }
        let Audit { mut verdict, examples, .. } = audit;
        verdict.examples = examples.sentences();
        if verdict.lost == 0 && verdict.unread == 0 && verdict.borne_out > 0 {
            verdict.loss_upper_bound = Some((3.0 / verdict.borne_out as f64).min(1.0));
        }
        verdict
    }
}

/// Findings so far.
struct Audit<'a> {
    ledger: &'a Ledger,
    words: Words<'a>,
    verdict: LedgerVerdict,
    examples: Examples,
}

impl Audit<'_> {
    fn records(&mut self, found: &ReadBack) {
        let mut wrong = Vec::new();
        for (id, row) in (0u32..).zip(self.by_id(found)) {
            if row.is_none() && !found.is_absent(id) {
                self.verdict.unread += 1;
                continue;
            }
            match self.is_borne_out(id, row) {
                Ok(is_acknowledged) => self.verdict.borne_out += u64::from(is_acknowledged),
                Err(what) => wrong.push((id, row, what)),
            }
        }
        let mut effects = self.effects(wrong.iter().map(|(id, ..)| *id).collect());
        for (id, row, what) in wrong {
            let mut effects = effects.remove(&id).unwrap_or_default();
            effects.sort_by_key(|effect| (effect.sent_ns, effect.done_ns));
            effects.insert(0, Effect::EMPTY_STORE);
            match (what, row) {
                (Wrong::Absent, _) | (_, None) => self.absent(id, &effects),
                (Wrong::Content, Some(row)) => {
                    self.verdict.wrong_content += 1;
                    self.examples.add("wrong_content", || format!("{} has {}", self.words.key(row.id), claim(row)));
                }
                (Wrong::Refused, Some(row)) => {
                    self.verdict.refused += 1;
                    self.examples
                        .add("refused", || format!("{} shows {}, which was refused", self.words.key(id), claimed(row)));
                }
                (Wrong::Stale, Some(row)) => match effects.iter().rposition(|effect| effect.stamp == row.stamp) {
                    Some(position) => self.older(id, &effects, position, None),
                    None => self.older(id, &effects, 0, Some(format!("{}, from long before,", claimed(row)))),
                },
            }
        }
    }

    /// Returns the row found for each record; counts rows that belong to no record or repeat one.
    fn by_id(&mut self, found: &ReadBack) -> Vec<Option<Row>> {
        let mut by_id = vec![None; self.ledger.records() as usize];
        for row in &found.rows {
            match by_id.get_mut(row.id as usize) {
                None => self.verdict.alien += 1,
                Some(before @ None) => *before = Some(*row),
                // The first that was read is judged like those that are there once.
                Some(Some(_)) => {
                    self.verdict.duplicated += 1;
                    self.examples.add("duplicated", || format!("{} exists more than once", self.words.key(row.id)));
                }
            }
        }
        for key in &found.aliens {
            self.examples.add("alien", || format!("{key} exists, and no operation wrote it"));
        }
        by_id
    }

    /// Returns true if the row found is an acknowledged write, provided that it is a possible state of the record.
    fn is_borne_out(&self, id: u32, row: Option<Row>) -> Result<bool, Wrong> {
        let records = &self.ledger.records;
        let Some(row) = row else {
            if records.presence(id, Interval::END) == Ok(true) {
                return Err(Wrong::Absent);
            }
            let deletes = records.alive_in_the_end(id).filter(|state| is_absent(state.stamp));
            return Ok(deletes.max_by_key(|state| state.sent_ns).is_some_and(|state| state.effect().is_acknowledged));
        };
        if row.stamp == NO_STAMP || records.is_spoilt(row) {
            return Err(Wrong::Content);
        }
        let mut alive = records.alive_in_the_end(id).filter(|state| state.stamp == row.stamp);
        if let Some(state) = alive.next() {
            return Ok(state.effect().is_acknowledged || alive.any(|state| state.effect().is_acknowledged));
        }
        let is_of_load = u64::from(id) < self.ledger.post.workload.record_count();
        match records.states_of(id).any(|(_, state)| state.stamp == row.stamp) {
            true => Err(Wrong::Stale),
            false if records.is_refused(id, row.stamp) => Err(Wrong::Refused),
            false if records.has_ended(id, row.stamp, is_of_load) => Err(Wrong::Stale),
            false => Err(Wrong::Content),
        }
    }

    /// Returns all known writes of these records.
    fn effects(&self, ids: BTreeSet<u32>) -> BTreeMap<u32, Vec<Effect>> {
        let mut effects: BTreeMap<u32, Vec<Effect>> = BTreeMap::new();
        let records = &self.ledger.records;
        let past = records.past.effects().filter(|(id, _)| ids.contains(id));
        for (id, effect) in past.take(if ids.is_empty() { 0 } else { usize::MAX }) {
            effects.entry(id).or_default().push(effect);
        }
        // As where the delete is known still: the last that had been acknowledged is what was seen.
        for (id, sent_ns) in records.past.absences() {
            let had_happened =
                |effect: &&mut Effect| is_absent(effect.stamp) && effect.is_acknowledged && effect.done_ns <= sent_ns;
            let deletes = effects.get_mut(&id).into_iter().flatten().filter(had_happened);
            if let Some(delete) = deletes.max_by_key(|effect| effect.sent_ns) {
                delete.is_seen = true;
            }
        }
        for id in ids {
            // The one told last is the first.
            let states: Vec<Effect> = records.states_of(id).map(|(_, state)| state.effect()).collect();
            effects.entry(id).or_default().extend(states.into_iter().rev());
        }
        effects
    }

    /// A record is not there, and cannot be absent.
    fn absent(&mut self, id: u32, effects: &[Effect]) {
        let gone = effects.iter().rposition(|effect| is_absent(effect.stamp)).unwrap_or(0);
        // Those that are not remembered one by one; where records are deleted they may have come before that.
        let known = effects.iter().filter(|effect| effect.is_acknowledged).count() as u32;
        let (acknowledged, born_ns) = self.ledger.records.acknowledged_of(id);
        let forgotten = acknowledged.saturating_sub(known);
        let is_only_seen = !later(effects, gone).any(|effect| effect.is_acknowledged);
        if is_only_seen && (forgotten == 0 || gone > 0) {
            return self.seen_and_gone(id, effects, gone, None);
        }
        self.lost(id, effects, gone, None);
        match self.ledger.records.has_deletes {
            false if forgotten > 0 => self.lost_at(u64::from(forgotten), born_ns),
            true if is_only_seen => self.lost_at(1, born_ns),
            _ => {}
        }
    }

    /// A record shows what the effect at `position` made it, although later ones have happened. `shown` is what it shows
    /// where that effect is only known to be older than that.
    fn older(&mut self, id: u32, effects: &[Effect], position: usize, shown: Option<String>) {
        match later(effects, position).any(|effect| effect.is_seen) {
            true => self.seen_and_gone(id, effects, position, shown),
            false => self.lost(id, effects, position, shown),
        }
    }

    /// Reports a record that was seen in a state after the effect at `position`, and shows that effect again; `shown` as
    /// above. Acknowledged writes after that effect are lost, seen or not. Before a power cut a store may show what is
    /// not durable yet, if it was not acknowledged either.
    fn seen_and_gone(&mut self, id: u32, effects: &[Effect], position: usize, shown: Option<String>) {
        // What was never acknowledged is done when it was seen first.
        let is_only_read =
            |effect: &Effect| !effect.is_acknowledged && (!effect.is_seen || effect.done_ns <= self.ledger.cut_ns);
        // What is not remembered of a state from long before may have been acknowledged.
        if shown.is_none() && later(effects, position).all(is_only_read) {
            return self.read_then_lost(id, effects, position);
        }
        self.verdict.resurrected += 1;
        self.lost_after(effects, position);
        self.examples.add("resurrected", || {
            format!(
                "{} is again as {} left it, although later states had been seen; last was {}",
                self.words.key(id),
                shown.unwrap_or_else(|| self.words.effect(&effects[position])),
                self.words.last(effects)
            )
        });
    }

    /// Reports a record that was seen in a state after the effect at `position`: none was acknowledged, and all are gone.
    fn read_then_lost(&mut self, id: u32, effects: &[Effect], position: usize) {
        self.verdict.read_then_lost += 1;
        self.examples.add("read_then_lost", || {
            let (key, seen) = (self.words.key(id), later(effects, position).filter(|effect| effect.is_seen).last());
            let seen = seen.map_or_else(|| "a write".to_owned(), |effect| self.words.effect(effect));
            format!("{key} had been read as {seen}, left it; that state is gone, and was never acknowledged")
        });
    }

    /// Reports writes after the effect at `position` without any evidence that they happened; `shown` as above.
    fn lost(&mut self, id: u32, effects: &[Effect], position: usize, shown: Option<String>) {
        self.lost_after(effects, position);
        self.examples.add("lost", || {
            let (key, last) = (self.words.key(id), self.words.last(effects));
            match shown {
                Some(shown) => format!("{key} is as {shown} left it; lost: {last}"),
                None if is_absent(effects[position].stamp) => format!("{key} is gone; last was {last}"),
                None => format!("{key} is as {} left it; lost: {last}", self.words.effect(&effects[position])),
            }
        });
    }

    /// Counts the acknowledged writes after the effect at `position` as lost.
    fn lost_after(&mut self, effects: &[Effect], position: usize) {
        for effect in later(effects, position).filter(|effect| effect.is_acknowledged) {
            self.lost_at(1, effect.done_ns);
            *self.verdict.lost_writes.entry(start_of_tick(effect.done_ns)).or_default() += 1;
        }
    }

    /// Counts writes as lost that were acknowledged from `at_ns` on.
    fn lost_at(&mut self, count: u64, at_ns: u64) {
        self.verdict.lost += count;
        let (first, last) = self.verdict.lost_window_ns.unwrap_or((at_ns, at_ns));
        self.verdict.lost_window_ns = Some((first.min(at_ns), last.max(at_ns)));
    }

    fn index(&mut self, index: &IndexAnswer) {
        // The records were read first and the index afterwards: in between, a write without an answer may happen. So
        // the index may show what was possible, and withhold what may no longer match.
        let records = &self.ledger.records;
        let mut by_record = index.by_record.clone();
        for (row, matches) in &index.by_index {
            let is_known = row.id != ALIEN && *matches && records.is_unsure(row.id);
            let is_possible = is_known && self.is_borne_out(row.id, Some(*row)).is_ok();
            if by_record.remove(&row.id) != Some(*row) && !is_possible {
                self.verdict.index_disagrees += 1;
                self.examples.add("index_disagrees", || match row.id {
                    ALIEN => "the index returns a record that no operation wrote".into(),
                    id => format!("the index returns {}, which the records do not confirm", self.words.key(id)),
                });
            }
        }
        for id in by_record.keys().filter(|id| !records.is_unsure(**id)) {
            self.verdict.index_disagrees += 1;
            self.examples
                .add("index_disagrees", || format!("the index does not return {}, which matches", self.words.key(*id)));
        }
    }
}

/// The effects that came certainly after the one at `position`.
fn later(effects: &[Effect], position: usize) -> impl Iterator<Item = &Effect> {
    let done_ns = effects[position].done_ns;
    effects[position + 1..].iter().filter(move |effect| effect.sent_ns >= done_ns)
}
