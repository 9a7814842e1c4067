//! Questions for records in the order of their keys: `count` of them from one key on.
//!
//! An answer has to be in order. Up to its last record, or to the last there is when it has fewer than were asked for,
//! it must have every record that was there all the time.

use plimsoll_core::ValueBuf;

use crate::AnswerVerdict;
use crate::old::answers::{Bench, compare};
use crate::old::history::History;
use crate::old::log::{Event, Part, Row};
use crate::old::timeline::{Field, Interval};
use crate::old::words::Examples;

/// The records in the order of their keys.
pub(crate) struct Order {
    /// Numbers of records, the one with the least key first.
    records: Vec<u32>,
    /// Of each record, its place among them.
    places: Vec<u32>,
}

impl Order {
    pub fn new(history: &History, records: usize) -> Self {
        let mut key = ValueBuf::new();
        let mut keys: Vec<(Field, u32)> = (0..records as u32)
            .map(|id| {
                key.clear();
                if let Some(truth) = history.workload.truth() {
                    truth.key(u64::from(id), &mut key);
                }
                (Field::of(key.values().get(0)), id)
            })
            .collect();
        keys.sort_unstable_by(|(a, _), (b, _)| compare(a.value(), b.value()));
        let mut places = vec![0; records];
        for (place, (_, id)) in (0..).zip(&keys) {
            places[*id as usize] = place;
        }
        Self { records: keys.into_iter().map(|(_, id)| id).collect(), places }
    }
}

impl Bench<'_> {
    pub(crate) fn range(
        &mut self,
        part: &Part,
        event: &Event,
        rows: &[Row],
        verdict: &mut AnswerVerdict,
        examples: &mut Examples,
    ) {
        let judge = self.judge;
        let (Some(order), true) = (&judge.order, judge.timelines.knows(event.id)) else { return };
        let at = Interval::of(event);
        let first = order.places[event.id as usize] as usize;
        let asked = event.bounds as usize;
        if rows.len() > asked {
            verdict.not_matching += (rows.len() - asked) as u64;
            examples.add("not_matching", || self.words.too_many(event));
        }
        let mut end = first;
        for row in rows {
            if self.row(part, event, *row, at, verdict, examples).is_none() && !judge.timelines.has_come(row.id, at) {
                continue;
            }
            let place = order.places[row.id as usize] as usize;
            if self.is_again(row.id) {
                verdict.duplicated += 1;
                examples.add("duplicated", || self.words.duplicated(event, *row));
            } else if place < first {
                verdict.not_matching += 1;
                examples.add("not_matching", || self.words.not_matching(event, *row));
            } else if place < end {
                verdict.disordered += 1;
                examples.add("disordered", || self.words.disordered(event, *row));
            }
            end = end.max(place + 1);
        }
        // With all that was asked for nothing is known of what follows. Of what is not there no more is missed than was
        // asked for.
        let mut wanting = asked.saturating_sub(rows.len());
        let end = if wanting == 0 { end } else { order.records.len() };
        for &id in &order.records[first..end.max(first)] {
            let is_given = self.is_given(id);
            if judge.timelines.can_be_absent(id as usize, at) {
                continue;
            }
            verdict.expected += 1;
            if !is_given {
                verdict.missing += 1;
                examples.add("missing", || self.missing(event, id, at));
                wanting = wanting.saturating_sub(1);
                if wanting == 0 && rows.len() < asked {
                    break;
                }
            }
        }
    }
}
