//! Holds what the store holds in the end against what it had acknowledged.

use std::collections::BTreeMap;
use std::fmt;

use plimsoll_core::Workload;

use crate::old::answers::Judge;
use crate::old::log::{ABSENT, ALIEN, NEVER, NO_STAMP, Row};
use crate::old::readback::{IndexAnswer, ReadBack};
use crate::old::timeline::{Effect, Fate, Interval, Untrue};
use crate::old::words::{Examples, Words, claim, seconds};

use crate::LedgerVerdict;
impl Judge<'_> {
    /// Holds the records read back against everything that was acknowledged.
    pub fn ledger(&self, found: &ReadBack) -> LedgerVerdict {
        let gap = self.history.gap();
        let mut audit = Audit::new(&*self.history.workload, found, gap);
        for effect in self.timelines.effects().iter().filter(|effect| effect.written) {
            match effect.fate {
                Fate::Acknowledged => audit.verdict.acknowledged += 1,
                Fate::Refused => audit.verdict.rejected += 1,
                Fate::Unknown => audit.verdict.unknown += 1,
            }
        }
        for (id, row) in audit.by_id(found, self.timelines.len()).into_iter().enumerate() {
            match row {
                Some(row) => self.present(row, &mut audit),
                None => self.absent(id, &mut audit),
            }
        }
        if let Some(index) = &found.index {
            self.index(index, &mut audit);
        }
        audit.finish()
    }

    fn present(&self, row: Row, audit: &mut Audit<'_>) {
        let effects = self.timelines.of(row.id as usize);
        let judged = match row.stamp {
            NO_STAMP => Err((Untrue::Content, None)),
            _ => self.timelines.judge(row, Interval::END),
        };
        match judged {
            Ok(position) => audit.verdict.borne_out += u64::from(effects[position].is_acknowledged_write()),
            Err((Untrue::Stale, Some(position))) => audit.overtaken(row.id, effects, position),
            Err((Untrue::Refused, Some(position))) => {
                let shown = audit.words.effect(&effects[position]);
                audit.refused(row.id, &shown);
            }
            Err(_) => audit.wrong_content(row),
        }
    }

    fn absent(&self, id: usize, audit: &mut Audit<'_>) {
        let effects = self.timelines.of(id);
        let mut alive = self.timelines.alive(id, Interval::END).map(|position| &effects[position]);
        match alive.find(|effect| effect.stamp == ABSENT) {
            Some(effect) => audit.verdict.borne_out += u64::from(effect.is_acknowledged_write()),
            None => {
                let gone = effects.iter().rposition(|effect| effect.stamp == ABSENT && effect.fate != Fate::Refused);
                audit.lost(id as u32, effects, gone.unwrap_or(0), None);
            }
        }
    }

    fn index(&self, index: &IndexAnswer, audit: &mut Audit<'_>) {
        let timelines = &self.timelines;
        // The records were read first and the index was asked then: in between, a write may happen that nobody
        // answered. So the index may show what was possible, and withhold what may no longer match.
        let unsure = |id: u32| id != ALIEN && timelines.alive(id as usize, Interval::END).count() > 1;
        let mut by_record = index.by_record.clone();
        for (row, matches) in &index.by_index {
            let possible = *matches && unsure(row.id) && timelines.judge(*row, Interval::END).is_ok();
            if by_record.remove(&row.id) != Some(*row) && !possible {
                audit.verdict.index_disagrees += 1;
                audit.examples.add("index_disagrees", || match row.id {
                    ALIEN => "the index gives a record that nobody wrote".into(),
                    id => format!("the index gives {}, which the records do not bear out", audit.words.key(id)),
                });
            }
        }
        for id in by_record.keys().filter(|id| !unsure(**id)) {
            audit.verdict.index_disagrees += 1;
            audit
                .examples
                .add("index_disagrees", || format!("the index does not give {}, which matches", audit.words.key(*id)));
        }
    }
}

/// What has been found so far.
pub(crate) struct Audit<'a> {
    words: Words<'a>,
    pub verdict: LedgerVerdict,
    examples: Examples,
}

impl<'a> Audit<'a> {
    pub fn new(workload: &'a dyn Workload, found: &ReadBack, gap: Option<String>) -> Self {
        let verdict = LedgerVerdict { read_back: found.rows.len() as u64, gap, ..LedgerVerdict::default() };
        Self { words: Words::new(workload), verdict, examples: Examples::default() }
    }

    /// What was found of each record; counts what is no record's, or there more than once.
    pub fn by_id(&mut self, found: &ReadBack, records: usize) -> Vec<Option<Row>> {
        let mut by_id = vec![None; records];
        for row in &found.rows {
            match by_id.get_mut(row.id as usize) {
                None => self.verdict.alien += 1,
                Some(before @ None) => *before = Some(*row),
                // The first that was read is judged like those that are there once.
                Some(Some(_)) => {
                    self.verdict.duplicated += 1;
                    self.examples.add("duplicated", || format!("{} is there more than once", self.words.key(row.id)));
                }
            }
        }
        for key in &found.aliens {
            self.examples.add("alien", || format!("{key} is there, and nobody wrote it"));
        }
        by_id
    }

    /// A record shows a write that the store had refused.
    pub fn refused(&mut self, id: u32, shown: &str) {
        self.verdict.refused += 1;
        self.examples.add("refused", || format!("{} shows {shown}", self.words.key(id)));
    }

    /// A record is as nobody wrote it.
    pub fn wrong_content(&mut self, row: Row) {
        self.verdict.wrong_content += 1;
        self.examples.add("wrong_content", || format!("{} has {}", self.words.key(row.id), claim(row)));
    }

    /// A record shows what the effect at `position` made it, although later ones have happened.
    pub fn overtaken(&mut self, id: u32, effects: &[Effect], position: usize) {
        self.older(id, effects, position, None);
    }

    /// The same; `shown` is what it shows where the effect at `position` is only known to be older than that.
    pub fn older(&mut self, id: u32, effects: &[Effect], position: usize, shown: Option<String>) {
        if !later(effects, position).any(|effect| effect.seen_ns < NEVER) {
            return self.lost(id, effects, position, shown);
        }
        self.verdict.resurrected += 1;
        self.examples.add("resurrected", || {
            format!(
                "{} is again as {} left it, although later states had been seen; last was {}",
                self.words.key(id),
                shown.unwrap_or_else(|| self.words.effect(&effects[position])),
                self.words.last(effects)
            )
        });
    }

    /// Nothing shows that what came after the effect at `position` has happened; `shown` as above.
    pub fn lost(&mut self, id: u32, effects: &[Effect], position: usize, shown: Option<String>) {
        let acknowledged = later(effects, position).filter(|effect| effect.is_acknowledged_write());
        let mut lost: Vec<u64> = acknowledged.map(|effect| effect.acknowledged_ns).collect();
        if lost.is_empty() {
            // What ended the state was never acknowledged, but seen.
            lost.extend(
                later(effects, position).map(|effect| effect.seen_ns).filter(|seen_ns| *seen_ns < NEVER).take(1),
            );
        }
        lost.into_iter().for_each(|at_ns| self.lost_at(1, at_ns));
        self.examples.add("lost", || {
            let (key, last) = (self.words.key(id), self.words.last(effects));
            match (effects[position].stamp, shown) {
                (_, Some(shown)) => format!("{key} is as {shown} left it; lost is {last}"),
                (ABSENT, None) => format!("{key} is gone; last was {last}"),
                _ => format!("{key} is as {} left it; lost is {last}", self.words.effect(&effects[position])),
            }
        });
    }

    /// Counts writes as lost that were acknowledged from `at_ns` on.
    pub fn lost_at(&mut self, count: u64, at_ns: u64) {
        self.verdict.lost += count;
        let (first, last) = self.verdict.lost_window_ns.unwrap_or((at_ns, at_ns));
        self.verdict.lost_window_ns = Some((first.min(at_ns), last.max(at_ns)));
    }

    /// The verdict.
    pub fn finish(self) -> LedgerVerdict {
        let Audit { mut verdict, examples, .. } = self;
        if verdict.gap.is_some() {
            // What is not known to have been written must not be called wrong.
            let LedgerVerdict { acknowledged, rejected, unknown, read_back, gap, .. } = verdict;
            return LedgerVerdict { acknowledged, rejected, unknown, read_back, gap, ..LedgerVerdict::default() };
        }
        verdict.examples = examples.into_sentences();
        if verdict.lost == 0 && verdict.borne_out > 0 {
            verdict.loss_upper_bound = Some((3.0 / verdict.borne_out as f64).min(1.0));
        }
        verdict
    }
}

/// The effects that came certainly after the one at `position`.
fn later(effects: &[Effect], position: usize) -> impl Iterator<Item = &Effect> {
    let done_ns = effects[position].done_ns;
    let after = effects[position + 1..].iter();
    after.filter(move |effect| effect.fate != Fate::Refused && effect.sent_ns >= done_ns)
}
