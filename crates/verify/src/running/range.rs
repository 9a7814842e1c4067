//! Holds an answer to a question for records in the order of their keys against what each can have been: the rule is that
//! of [`crate::range`].

use std::collections::BTreeMap;

use plimsoll_core::{Value, ValueBuf, Workload};

use super::hear::{Bench, Why, Worth};
use super::records::{Absence, Records};
use crate::log::{Event, Row};
use crate::timeline::Interval;
use crate::words::Words;

/// The records in the order of their keys.
#[derive(Debug, Default)]
pub(super) struct Order {
    by_key: BTreeMap<Box<[u8]>, u32>,
    /// Of each record, the number of the last question whose answer had it.
    last_question: Vec<u32>,
    questions: u32,
    /// The greatest key that this answer has.
    end: Option<Box<[u8]>>,
}

/// Why a row should not stand where it does.
#[derive(Debug, Clone, Copy)]
enum Place {
    Duplicated,
    NotMatching,
    Disordered,
}

impl Order {
    /// Takes in records that have come since, up to `records`.
    fn grow(&mut self, workload: &dyn Workload, records: usize) {
        for id in self.last_question.len()..records {
            self.by_key.insert(key(workload, id as u32), id as u32);
        }
        self.last_question.resize(records.max(self.last_question.len()), 0);
    }

    fn next_question(&mut self) {
        self.questions = self.questions.checked_add(1).unwrap_or_else(|| {
            self.last_question.fill(0);
            1
        });
    }

    /// Whether this answer has had the record before; from now on it has.
    fn is_again(&mut self, id: u32) -> bool {
        let questions = self.questions;
        self.last_question.get_mut(id as usize).is_some_and(|last| std::mem::replace(last, questions) == questions)
    }

    fn is_given(&self, id: u32) -> bool {
        self.last_question.get(id as usize) == Some(&self.questions)
    }
}

fn key(workload: &dyn Workload, id: u32) -> Box<[u8]> {
    let mut key = ValueBuf::new();
    if let Some(truth) = workload.truth() {
        truth.key(u64::from(id), &mut key);
    }
    match key.values().get(0) {
        Value::Bytes(key) => key.into(),
        Value::Text(key) => key.as_bytes().into(),
        _ => Box::default(),
    }
}

impl Bench {
    pub(super) fn range(
        &mut self,
        records: &mut Records,
        event: &Event,
        rows: &[Row],
        aliens: &[String],
        is_told: bool,
    ) -> Result<(), Why> {
        let at = Interval::of(event);
        // All of them, for what they show has been seen, whenever the answer is judged.
        let worths: Vec<Result<Worth, Why>> =
            rows.iter().map(|row| self.worth(records, *row, at, event.finished_ns, is_told)).collect();
        let worths = worths.into_iter().collect::<Result<Vec<Worth>, Why>>()?;
        let mut order = self.order.take().unwrap_or_default();
        order.grow(&*self.workload, records.len().max(self.workload.record_count() as usize));
        let knows = |id: u32| (id as usize) < order.last_question.len();
        let first = knows(event.id).then(|| key(&*self.workload, event.id));
        let mut places = Vec::new();
        let expected = match &first {
            Some(first) => {
                self.in_order(&mut order, first, event, rows, &worths, &mut places);
                self.expected(&order, records, first, event, rows, at)
            }
            None => Ok((0, Vec::new())),
        };
        self.order = Some(order);
        let (expected, missing) = expected?;
        let words = Words::new(&*self.workload);
        let (verdict, examples) = self.tallies.entry((event.phase, event.kind)).or_default();
        verdict.answers += 1;
        verdict.got += rows.len() as u64;
        if first.is_none() {
            return Ok(());
        }
        verdict.expected += expected;
        verdict.missing += missing.len() as u64;
        let too_many = rows.len().saturating_sub(event.bounds as usize) as u64;
        verdict.not_matching += too_many;
        if too_many > 0 {
            examples.add("not_matching", || words.too_many(event));
        }
        for id in missing.into_iter().take(3) {
            let stood = records.stood(id, at);
            examples.add("missing", || words.missing(event, id, stood.as_ref()));
        }
        for (place, row) in places {
            match place {
                Place::Duplicated => {
                    verdict.duplicated += 1;
                    examples.add("duplicated", || words.duplicated(event, row));
                }
                Place::NotMatching => {
                    verdict.not_matching += 1;
                    examples.add("not_matching", || words.not_matching(event, row));
                }
                Place::Disordered => {
                    verdict.disordered += 1;
                    examples.add("disordered", || words.disordered(event, row));
                }
            }
        }
        for (row, worth) in rows.iter().zip(worths).filter(|(_, worth)| *worth != Worth::Right) {
            self.count(records, event, *row, worth, aliens);
        }
        Ok(())
    }

    /// Goes through the rows: each record once, none before the first, each behind the one before.
    fn in_order(
        &self,
        order: &mut Order,
        first: &[u8],
        event: &Event,
        rows: &[Row],
        worths: &[Worth],
        places: &mut Vec<(Place, Row)>,
    ) {
        order.next_question();
        let mut last: Option<Box<[u8]>> = None;
        for (row, worth) in rows.iter().zip(worths) {
            if *worth == Worth::Alien {
                continue;
            }
            let key = if row.id == event.id { first.into() } else { key(&*self.workload, row.id) };
            if order.is_again(row.id) {
                places.push((Place::Duplicated, *row));
            } else if *key < *first {
                places.push((Place::NotMatching, *row));
            } else if last.as_ref().is_some_and(|last| key < *last) {
                places.push((Place::Disordered, *row));
            }
            last = last.max(Some(key));
        }
        order.end = last;
    }

    /// How many records had to be in the answer, and which of them are not.
    fn expected(
        &self,
        order: &Order,
        records: &Records,
        first: &[u8],
        event: &Event,
        rows: &[Row],
        at: Interval,
    ) -> Result<(u64, Vec<u32>), Why> {
        // With all that was asked for nothing is known of what follows. Of what is not there no more is missed than was
        // asked for.
        let asked = event.bounds as usize;
        let mut wanting = asked.saturating_sub(rows.len());
        let is_short = wanting > 0;
        let (mut expected, mut missing) = (0, Vec::new());
        for (key, id) in order.by_key.range::<[u8], _>((std::ops::Bound::Included(first), std::ops::Bound::Unbounded)) {
            if !is_short && order.end.as_ref().is_none_or(|end| key > end) {
                break;
            }
            match records.absence(*id, at) {
                Absence::Possible => continue,
                Absence::Open => return Err(Why::Open),
                Absence::No => expected += 1,
            }
            if !order.is_given(*id) {
                missing.push(*id);
                wanting = wanting.saturating_sub(1);
                if wanting == 0 && is_short {
                    break;
                }
            }
        }
        Ok((expected, missing))
    }
}
