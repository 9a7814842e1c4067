//! Spans of ticks: what a check found by ticks of 10 ms, in few entries of a recording.
//!
//! Reports need it by fault. Effects of faults begin and end with faults, which are known, and with recoveries, which
//! only a report finds. So spans are as long as a tick after each beginning and end of a fault, and longer later.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::TICK_NS;
use plimsoll_record::data::{DuplicateReads, LostWrites, StaleReads, Trial, UnknownWrites};

/// Least ratio of the time since the last beginning or end of a fault to the length of a span.
const FINENESS: u64 = 64;

/// Spans of the ticks of a trial.
pub(crate) struct TickSpans {
    /// Ticks in which a phase or a fault began, or a fault took effect or was healed.
    edges: BTreeSet<u64>,
}

impl TickSpans {
    /// Returns the spans for the phases and faults of a trial so far; without a trial, those since the run's start.
    pub fn of(trial: Option<&Trial>) -> Self {
        let phases = trial.into_iter().flat_map(|trial| &trial.phases).map(|phase| phase.header.start_ns);
        let faults = trial.into_iter().flat_map(|trial| &trial.faults);
        let faults = faults.flat_map(|span| [Some(span.begun_ns), span.taken_ns, span.healed_ns]).flatten();
        Self { edges: phases.chain(faults).map(|at_ns| at_ns / TICK_NS).collect() }
    }

    /// Returns the start of the span that has the tick of `at_ns`.
    pub fn start_ns(&self, at_ns: u64) -> u64 {
        let tick = at_ns / TICK_NS;
        let edge = self.edges.range(..=tick).next_back().copied().unwrap_or(0);
        let since = tick - edge;
        let length = 1_u64 << (since / FINENESS).checked_ilog2().unwrap_or(0);
        (edge + since / length * length) * TICK_NS
    }

    /// Returns the fates of writes by span.
    pub fn unknown_writes(&self, by_tick: &[plimsoll_verify::UnknownWrites]) -> Vec<UnknownWrites> {
        let mut spans: BTreeMap<u64, UnknownWrites> = BTreeMap::new();
        for one in by_tick {
            let at_ns = self.start_ns(one.at_ns);
            let sum = spans.entry(at_ns).or_insert(UnknownWrites { at_ns, ..UnknownWrites::default() });
            sum.written += one.written;
            sum.not_written += one.not_written;
            sum.not_known += one.not_known;
        }
        spans.into_values().collect()
    }

    /// Returns lost writes by span. `by_tick` has their numbers by the start of a tick.
    pub fn lost_writes(&self, by_tick: &BTreeMap<u64, u64>) -> Vec<LostWrites> {
        self.summed(by_tick).into_iter().map(|(at_ns, writes)| LostWrites { at_ns, writes }).collect()
    }

    /// Returns further copies of records within answers by span. `by_tick` has their numbers by the start of a tick.
    pub fn duplicates(&self, by_tick: &BTreeMap<u64, u64>) -> Vec<DuplicateReads> {
        self.summed(by_tick).into_iter().map(|(at_ns, records)| DuplicateReads { at_ns, records }).collect()
    }

    /// Returns the sums of numbers of ticks by span.
    fn summed(&self, by_tick: &BTreeMap<u64, u64>) -> BTreeMap<u64, u64> {
        let mut spans: BTreeMap<u64, u64> = BTreeMap::new();
        for (at_ns, count) in by_tick {
            *spans.entry(self.start_ns(*at_ns)).or_default() += count;
        }
        spans
    }

    /// Returns the stale records by span and server. `name` returns the name of the server with a number.
    pub fn stale_reads(
        &self,
        by_tick: &[plimsoll_verify::StaleReads],
        name: impl Fn(u32) -> String,
    ) -> Vec<StaleReads> {
        let mut spans: BTreeMap<(u64, u32), u64> = BTreeMap::new();
        for one in by_tick {
            *spans.entry((self.start_ns(one.at_ns), one.server)).or_default() += one.records;
        }
        let read = |((at_ns, server), records)| StaleReads { at_ns, server: name(server), records };
        spans.into_iter().map(read).collect()
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_record::data::{FaultKind, FaultSpan, TrialHeader};

    use super::*;

    /// Ticks in ten minutes.
    const TEN_MINUTES: u64 = 60_000;

    /// Returns a trial with a fault that began in tick 1,000 and was healed in tick 1,300.
    fn trial() -> Trial {
        let (begun_ns, healed_ns) = (1_000 * TICK_NS + 7, Some(1_300 * TICK_NS + 7));
        let span = FaultSpan {
            taken_ns: Some(begun_ns),
            healing_ns: healed_ns,
            healed_ns,
            ..FaultSpan::begun(FaultKind::Kill, "kill all at 10s for 3s", "the server", begun_ns)
        };
        Trial {
            header: TrialHeader::default(),
            end_ns: None,
            phases: Vec::new(),
            answers: Vec::new(),
            ledgers: Vec::new(),
            faults: vec![span],
        }
    }

    #[test]
    fn spans_are_ticks_at_first_and_longer_later() {
        let spans = TickSpans::of(Some(&trial()));
        for (tick, start) in [(1_000, 1_000), (1_001, 1_001), (1_127, 1_127), (1_128, 1_128), (1_129, 1_128)] {
            assert_eq!(spans.start_ns(tick * TICK_NS + 3), start * TICK_NS, "{tick}");
        }
        // The last span before an edge ends there.
        for (tick, start) in [(1_299, 1_296), (1_300, 1_300), (1_301, 1_301), (51_300, 50_964)] {
            assert_eq!(spans.start_ns(tick * TICK_NS), start * TICK_NS, "{tick}");
        }
        for tick in 1_300..TEN_MINUTES {
            let start = spans.start_ns(tick * TICK_NS) / TICK_NS;
            assert!(start <= tick && (tick - start) * FINENESS <= tick - 1_300, "{tick}: {start}");
        }
    }

    #[test]
    fn fates_of_ten_minutes_are_few_entries_with_all_writes() {
        let one = |tick: u64| plimsoll_verify::UnknownWrites {
            at_ns: tick * TICK_NS,
            written: 1,
            not_written: 2,
            not_known: tick % 2,
        };
        let by_tick: Vec<_> = (1_000..1_000 + TEN_MINUTES).map(one).collect();
        let found = TickSpans::of(Some(&trial())).unknown_writes(&by_tick);
        assert!(found.len() < 1_000, "{}", found.len());
        let sum = |count: fn(&UnknownWrites) -> u64| found.iter().map(count).sum::<u64>();
        let sums = [sum(|one| one.written), sum(|one| one.not_written), sum(|one| one.not_known)];
        assert_eq!(sums, [TEN_MINUTES, 2 * TEN_MINUTES, TEN_MINUTES / 2]);
        assert!(found.is_sorted_by_key(|one| one.at_ns) && found[0].at_ns == 1_000 * TICK_NS);
    }

    #[test]
    fn lost_writes_of_ten_minutes_are_few_entries_with_all_of_them() {
        let by_tick: BTreeMap<u64, u64> = (1_000..1_000 + TEN_MINUTES).map(|tick| (tick * TICK_NS, tick % 3)).collect();
        let found = TickSpans::of(Some(&trial())).lost_writes(&by_tick);
        assert!(found.len() < 1_000, "{}", found.len());
        assert_eq!(found.iter().map(|one| one.writes).sum::<u64>(), TEN_MINUTES);
        assert!(found.is_sorted_by_key(|one| one.at_ns));
        assert_eq!(found[..2], [1_000, 1_001].map(|tick| LostWrites { at_ns: tick * TICK_NS, writes: tick % 3 }));
    }

    #[test]
    fn stale_records_of_ten_minutes_are_few_entries_for_each_server() {
        let one =
            |tick: u64| plimsoll_verify::StaleReads { at_ns: tick * TICK_NS, server: (tick % 2) as u32, records: 3 };
        let by_tick: Vec<_> = (1_000..1_000 + TEN_MINUTES).map(one).collect();
        let found = TickSpans::of(Some(&trial())).stale_reads(&by_tick, |server| format!("node {}", server + 1));
        assert!(found.len() < 2_000, "{}", found.len());
        for server in ["node 1", "node 2"] {
            let its = found.iter().filter(|one| one.server == server);
            assert_eq!(its.map(|one| one.records).sum::<u64>(), 3 * TEN_MINUTES / 2, "{server}");
        }
        let first = StaleReads { at_ns: 1_000 * TICK_NS, server: "node 1".to_owned(), records: 3 };
        assert_eq!(found[0], first);
    }
}
