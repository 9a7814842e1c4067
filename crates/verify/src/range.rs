//! Holds an answer to a question for records in the order of their keys, `count` of them from one key on, against what
//! each can have been.
//!
//! An answer has to be in order. Up to its last record, or to the last there is when it has fewer than were asked for,
//! it must have every record that was there all the time.

use std::collections::BTreeMap;
use std::ops::Bound;

use plimsoll_core::{Value, ValueBuf, Workload};

use crate::judge::{Answered, Findings, Judge, OrderFault, Why, Worth};
use crate::log::{Interval, LoggedOperation, Row};
use crate::records::Records;
use crate::words::Words;

/// The records in the order of their keys.
pub(crate) type Order = BTreeMap<Box<[u8]>, u32>;

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

impl Judge {
    pub fn range(&mut self, records: &mut Records, answered: Answered<'_>) -> Result<Findings, Why> {
        let Answered { event, rows, .. } = answered;
        let worths = self.worths(records, answered)?;
        let record_count = records.len().max(self.workload.record_count() as usize);
        // Records that have come since.
        for id in self.order.len()..record_count {
            self.order.insert(key(&*self.workload, id as u32), id as u32);
        }
        let mut findings = Findings::default();
        if event.id as usize >= record_count {
            return Ok(findings);
        }
        findings.worths = worths;
        self.given.next_question(record_count);
        let first = key(&*self.workload, event.id);
        let end = self.in_order(&first, event, rows, &mut findings);
        self.expected(records, (&first, end.as_deref()), event, rows, &mut findings)?;
        let too_many = rows.len().saturating_sub(event.asked as usize);
        if too_many > 0 {
            let words = Words::new(&*self.workload).too_many(event);
            let (verdict, examples) = self.tally(event.phase, event.kind);
            verdict.not_matching += too_many as u64;
            examples.add("not_matching", || words);
        }
        Ok(findings)
    }

    /// Checks the rows: each record once, none before the first, each after the previous one. Returns the last key.
    fn in_order(
        &mut self,
        first: &[u8],
        event: &LoggedOperation,
        rows: &[Row],
        findings: &mut Findings,
    ) -> Option<Box<[u8]>> {
        let mut last: Option<Box<[u8]>> = None;
        for (row, worth) in rows.iter().zip(&findings.worths) {
            if *worth == Worth::Alien {
                continue;
            }
            let key = if row.id == event.id { first.into() } else { key(&*self.workload, row.id) };
            if self.given.is_again(row.id) {
                findings.misplaced.push((OrderFault::Duplicated, *row));
            } else if *key < *first {
                findings.misplaced.push((OrderFault::NotMatching, *row));
            } else if last.as_ref().is_some_and(|last| key < *last) {
                findings.misplaced.push((OrderFault::Disordered, *row));
            }
            last = last.max(Some(key));
        }
        last
    }

    /// Finds out which records had to be in the answer, from the first key to the end of what it has.
    fn expected(
        &self,
        records: &Records,
        (first, end): (&[u8], Option<&[u8]>),
        event: &LoggedOperation,
        rows: &[Row],
        findings: &mut Findings,
    ) -> Result<(), Why> {
        let at = Interval::of(event);
        // With all that was asked for nothing is known of what follows. Of what is not there no more is missed than was
        // asked for.
        let wanting = (event.asked as usize).saturating_sub(rows.len());
        for (key, id) in self.order.range::<[u8], _>((Bound::Included(first), Bound::Unbounded)) {
            if wanting == 0 && end.is_none_or(|end| **key > *end) {
                break;
            }
            if records.presence(*id, at)? {
                findings.expect(*id, &self.given);
            }
            if wanting > 0 && findings.missing.len() == wanting {
                break;
            }
        }
        Ok(())
    }
}
