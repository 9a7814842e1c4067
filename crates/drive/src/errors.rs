//! The first few sorts of error that a worker met, kept without allocating.

use plimsoll_core::{Answer, Outcome};

use crate::result::ErrorCount;

/// Sorts that are told apart; the rest share one more entry.
const SORTS_MAX: usize = 16;
const CODE_BYTES: usize = 32;
const MESSAGE_BYTES: usize = 256;

#[derive(Debug)]
pub(crate) struct ErrorTable {
    entries: Vec<ErrorCount>,
    used: usize,
}

impl ErrorCount {
    /// Notes that errors of this sort occurred between two times.
    fn at(&mut self, first_ns: u64, last_ns: u64) {
        self.first_ns = self.first_ns.min(first_ns);
        self.last_ns = self.last_ns.max(last_ns);
    }
}

impl ErrorTable {
    /// An empty table with all its memory.
    pub fn new() -> Self {
        let empty = || ErrorCount {
            outcome: Outcome::Unknown,
            code: String::with_capacity(CODE_BYTES),
            message: String::with_capacity(MESSAGE_BYTES),
            disk_full: false,
            count: 0,
            first_ns: u64::MAX,
            last_ns: 0,
        };
        Self { entries: (0..=SORTS_MAX).map(|_| empty()).collect(), used: 0 }
    }

    #[cold]
    pub fn note(&mut self, now_ns: u64, outcome: Outcome, answer: &Answer) {
        let code = head(&answer.code, CODE_BYTES);
        let known = self.entries[..self.used].iter().position(|e| e.outcome == outcome && e.code == code);
        let index = known.unwrap_or(self.used.min(SORTS_MAX));
        let full = index == SORTS_MAX;
        let entry = &mut self.entries[index];
        entry.count += 1;
        entry.at(now_ns, now_ns);
        entry.disk_full |= answer.disk_full;
        if known.is_none() && entry.count == 1 {
            entry.outcome = outcome;
            entry.code.push_str(if full { "other" } else { code });
            entry.message.push_str(head(&answer.message, MESSAGE_BYTES));
            self.used = (self.used + 1).min(SORTS_MAX);
        }
    }

    pub fn add_to(self, all: &mut Vec<ErrorCount>) {
        for entry in self.entries.into_iter().filter(|entry| entry.count > 0) {
            match all.iter_mut().find(|e| e.outcome == entry.outcome && e.code == entry.code) {
                Some(same) => {
                    same.count += entry.count;
                    same.at(entry.first_ns, entry.last_ns);
                    same.disk_full |= entry.disk_full;
                }
                None => all.push(entry),
            }
        }
    }
}

/// The first `bytes_max` bytes of `text`, cut between characters.
fn head(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_apart_by_outcome_and_code_and_the_first_words_are_kept() {
        let mut table = ErrorTable::new();
        let mut answer = Answer::default();
        for (at_ns, (outcome, code, message)) in (10..).zip([
            (Outcome::Rejected, "23505", "key 1 exists"),
            (Outcome::Rejected, "23505", "key 2 exists"),
            (Outcome::Unknown, "23505", "who knows"),
            (Outcome::Unknown, "timeout", &"ä".repeat(200)),
        ]) {
            answer.fail(outcome, code, message);
            answer.disk_full = at_ns == 11;
            table.note(at_ns, outcome, &answer);
        }
        let mut all = Vec::new();
        table.add_to(&mut all);
        assert_eq!(all.len(), 3);
        assert_eq!((all[0].count, all[0].message.as_str()), (2, "key 1 exists"));
        assert_eq!((all[0].first_ns, all[0].last_ns), (10, 11));
        assert_eq!(all[2].message, "ä".repeat(128));
        // One operation that found the disk full is enough.
        assert_eq!([all[0].disk_full, all[1].disk_full, all[2].disk_full], [true, false, false]);
    }

    #[test]
    fn more_sorts_than_there_is_room_for_are_counted_together() {
        let mut table = ErrorTable::new();
        let mut answer = Answer::default();
        for code in 0..SORTS_MAX + 5 {
            answer.fail(Outcome::Rejected, &format!("E{code}"), "no");
            table.note(0, Outcome::Rejected, &answer);
        }
        let mut all = Vec::new();
        table.add_to(&mut all);
        assert_eq!(all.len(), SORTS_MAX + 1);
        assert_eq!(all.iter().map(|e| e.count).sum::<u64>(), SORTS_MAX as u64 + 5);
        assert_eq!((all[SORTS_MAX].code.as_str(), all[SORTS_MAX].count), ("other", 5));
    }
}
