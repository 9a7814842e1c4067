//! Verdicts on a trial: the comparison of its answers with the truth, and the fate of acknowledged writes.

use std::collections::BTreeMap;

use plimsoll_core::shown::count;

use crate::words::seconds;

/// Comparison of the answers to one operation type in one phase with the truth.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AnswerVerdict {
    /// Position of the phase in its trial.
    pub phase: u16,
    /// Position of the kind in its workload.
    pub kind: u16,
    /// Name of the kind.
    pub kind_name: String,
    /// Answers that were held against the truth.
    pub answers: u64,
    /// Operations without an answer that could be compared: refused, or unknown; all of them when the history has a
    /// gap, because the right answer is unknown then.
    pub unanswered: u64,
    /// Records that had to be in the answers.
    pub expected: u64,
    /// Records that were in them.
    pub got: u64,
    /// Records that had to be there, and were not.
    pub missing: u64,
    /// Records that matched at no moment while the question was open.
    pub not_matching: u64,
    /// Records as they had been before they were overwritten or deleted, and that before the question was asked.
    pub stale: u64,
    /// Records with contents that were never written.
    pub wrong_content: u64,
    /// Records as a write would have made them that the store had refused.
    pub refused: u64,
    /// Records under keys that were never written.
    pub alien: u64,
    /// Records that were in one answer more than once.
    pub duplicated: u64,
    /// Records that stood behind others that should follow them, in answers that are in order.
    pub disordered: u64,
    /// A few of these, in plain words.
    pub examples: Vec<String>,
}

impl AnswerVerdict {
    /// Records that had no right to be in the answers, of all sorts.
    pub fn wrong(&self) -> u64 {
        self.not_matching
            + self.stale
            + self.wrong_content
            + self.refused
            + self.alien
            + self.duplicated
            + self.disordered
    }

    /// True when every answer was right.
    pub fn is_right(&self) -> bool {
        self.missing == 0 && self.wrong() == 0
    }
}

/// Stale records in the answers of a server that came within one tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StaleReads {
    /// Start of the tick on the run's clock: a multiple of [`plimsoll_core::TICK_NS`].
    pub at_ns: u64,
    /// Number of the server, as the drive told the observers; 63 also of servers with greater numbers.
    pub server: u32,
    /// Number of records.
    pub records: u64,
}

/// Fate of all acknowledged writes. Writes are counted by record: a batch of 1,000 is 1,000.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LedgerVerdict {
    /// Writes that the store acknowledged, the load's included.
    pub acknowledged: u64,
    /// Writes that the store refused, or found no record for.
    pub rejected: u64,
    /// Writes of unobserved outcome.
    pub unknown: u64,
    /// Records read back.
    pub read_back: u64,
    /// Records that could not be read: what became of their writes is not known, and counts nowhere else.
    pub unread: u64,
    /// Acknowledged writes that the records read back bear out: the last one of each record.
    pub borne_out: u64,
    /// Acknowledged writes that are not there: those after the one that a record shows. Earlier ones cannot be
    /// seen any more, so this is the least number.
    pub lost: u64,
    /// Times of the first and the last acknowledgement of a lost write, in nanoseconds on the run's clock.
    pub lost_window_ns: Option<(u64, u64)>,
    /// Numbers of lost writes by the start of the tick in which they were acknowledged, a multiple of
    /// [`plimsoll_core::TICK_NS`] on the run's clock. Writes that are remembered by their number alone are left out.
    pub lost_writes: BTreeMap<u64, u64>,
    /// Records that show what had been overwritten or deleted, although the later state had been seen. Acknowledged
    /// writes of later states are in `lost` too.
    pub resurrected: u64,
    /// Records that were read before a power cut in a state that was never acknowledged, and is gone with the cut: no
    /// promise, but what a reader may have acted on.
    pub read_then_lost: u64,
    /// Number of further copies of records that exist more than once.
    pub duplicated: u64,
    /// Records under keys that were never written.
    pub alien: u64,
    /// Records with values that were never written.
    pub wrong_content: u64,
    /// Records as a write would have made them that the store had refused.
    pub refused: u64,
    /// Records that the index gives and that do not match, or match and are not given, or are given otherwise.
    pub index_disagrees: u64,
    /// Upper bound, with 95 % confidence, of the share of acknowledged writes that are lost, if none was found lost: 3
    /// / `borne_out` (the rule of three: Hanley and Lippman-Hand, JAMA 249, 1983).
    pub loss_upper_bound: Option<f64>,
    /// Reason that nothing can be vouched for: the ledger could not keep up, or nothing could be read.
    pub gap: Option<String>,
    /// A few disagreements, in plain words.
    pub examples: Vec<String>,
}

impl LedgerVerdict {
    /// Every disagreement but losses, by its name and count; those that did not occur are left out.
    pub fn wrong(&self) -> BTreeMap<String, u64> {
        self.disagreements().map(|(name, count, _)| (name.to_owned(), count)).collect()
    }

    /// Returns the disagreements that occurred: name, count and the end of a sentence about so many records.
    fn disagreements(&self) -> impl Iterator<Item = (&'static str, u64, &'static str)> + use<> {
        let all = [
            ("resurrected", self.resurrected, "show states that had been seen overwritten or deleted"),
            ("duplicated", self.duplicated, "exist more than once"),
            ("alien", self.alien, "were never written"),
            ("wrong_content", self.wrong_content, "have values that no operation wrote"),
            ("refused", self.refused, "show a write that the store had refused"),
            ("index_disagrees", self.index_disagrees, "disagree with the index"),
        ];
        all.into_iter().filter(|(_, count, _)| *count > 0)
    }

    /// True when the ledger is complete and the store kept every promise.
    pub fn is_kept(&self) -> bool {
        self.gap.is_none() && self.unread == 0 && self.lost == 0 && self.wrong().is_empty()
    }

    /// The verdict in one sentence.
    pub fn sentence(&self) -> String {
        if let Some(gap) = &self.gap {
            return match self.unread {
                0 => format!("The ledger is incomplete, so it proves nothing: {gap}."),
                _ => format!("Nothing is known of the acknowledged writes: {gap}."),
            };
        }
        if self.is_kept() {
            let mut sentence = format!("All {} acknowledged writes are present", count(self.acknowledged));
            if let Some(bound) = self.loss_upper_bound {
                sentence += &format!(" (95 % sure: fewer than 1 in {} lost)", count((1.0 / bound) as u64));
            }
            if self.unknown > 0 {
                sentence += &format!("; the outcome of {} is unknown", count(self.unknown));
            }
            if self.read_then_lost > 0 {
                let records = if self.read_then_lost == 1 { "record" } else { "records" };
                let n = count(self.read_then_lost);
                sentence +=
                    &format!("; {n} {records} had been read in a state that was never acknowledged and is gone");
            }
            return sentence + ".";
        }
        let mut parts = Vec::new();
        if self.lost > 0 {
            let mut part = format!("{} of {} acknowledged writes are lost", count(self.lost), count(self.acknowledged));
            if let Some((first, last)) = self.lost_window_ns {
                part += &format!(" (acknowledged between {} and {})", seconds(first), seconds(last));
            }
            parts.push(part);
        }
        parts.extend(self.disagreements().map(|(_, n, what)| format!("{} records {what}", count(n))));
        if self.unread > 0 {
            parts.push(format!(
                "{} records could not be read, so that of their writes nothing is known",
                count(self.unread)
            ));
        }
        parts.join("; ") + "."
    }
}
