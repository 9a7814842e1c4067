//! Faults that a plan set, and their effects on clients.

use plimsoll_record::data::FaultKind;
use serde::Serialize;

use crate::number;

/// A fault of a driven phase. Times are seconds from its beginning, if they are not on the run's clock.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FaultView {
    /// Name of the trial.
    pub trial: String,
    /// Name of the phase.
    pub phase: String,
    /// Kind of the fault.
    pub kind: FaultKind,
    /// Affected part: `node 1, the primary`.
    pub subject: String,
    /// Fault as planned: `kill primary at 40%`.
    pub fault: String,
    /// Fault in words, without its time: `kill of node 1, the primary`.
    pub name: String,
    /// Planned time on the run's clock.
    pub planned_s: f64,
    /// Beginning on the run's clock.
    pub at_s: f64,
    /// Time until the fault had taken effect; `null` if it had not.
    pub taken_s: Option<f64>,
    /// Time until the fault was healed; `null` if it was not.
    pub healed_s: Option<f64>,
    /// First error of the fault or its healing; the reason for a repeat that was skipped, `no node was primary`.
    pub error: Option<String>,
    /// No node had the role of this repeat, which was skipped.
    pub is_skipped: bool,
    /// Time for which effects were observed: up to the planned end of the phase.
    pub observed_s: f64,
    /// Time of load that was left after the fault had taken effect, of one that ends by itself after its beginning.
    #[serde(skip)]
    pub left_s: f64,
    /// Time until the first failed operation or unusual silence, to 10 ms; `null` if no client noticed anything, or
    /// without ticks.
    pub noticed_s: Option<f64>,
    /// Longest time without an answered operation; 0 if it was not longer than before the first fault, `null` without
    /// ticks, and if less than 0.1 s of load was left to observe one.
    pub outage_s: Option<f64>,
    /// Beginning of that time on the run's clock; `null` without an outage.
    pub outage_at_s: Option<f64>,
    /// The outage lasted until the end of all observations: it was longer.
    pub outage_open: bool,
    /// The outage lasted as long as the time-out of operations: clients waited for that, and the store may have been back
    /// earlier.
    pub outage_is_timeout: bool,
    /// Clients may have waited for a connection to a silent server until the fault was healed: the store may have been back
    /// earlier.
    pub may_wait_to_connect: bool,
    /// Longest time without an answer that began after the healing, if it lasted half a second or longer.
    pub after_healing: Option<AfterHealingView>,
    /// Time until throughput was back for a second: to 95 % of that before the first fault, or to 90 % at least if it
    /// had varied by more than 5 %. 0 if it did not fall; `null` if it did not come back, or was not known before.
    pub recovered_s: Option<f64>,
    /// Throughput did not come back while effects were observed.
    pub recovered_open: bool,
    /// Goals on percentiles of response times that were held before the first fault, and missed after this one.
    pub missed: Vec<MissedGoalView>,
    /// Work that was owed to clients after the fault; `null` if it was not more than before the first fault, and in a
    /// closed loop.
    pub backlog: Option<BacklogView>,
    /// Failover after the fault beside the formula of its store; `null` if the store has none, or kept its primary.
    pub failover: Option<FailoverView>,
    /// Rejected operations until the fault was healed and throughput was back, or the next fault began.
    pub rejected: u64,
    /// Operations of that time whose outcome is unknown.
    pub unknown: u64,
    /// Fates of the writes among them, as the ledger found them; `null` without such writes, and without a check.
    pub unknown_writes: Option<UnknownWritesView>,
    /// Clients of which an operation failed or took 0.1 s or longer in that time, to a slice; `null` in recordings without
    /// them.
    pub affected: Option<AffectedView>,
    /// Clients that had no answer in that time; `null` in recordings without their silences.
    pub clients: Option<FaultSilenceView>,
    /// Nodes that gave no answers in that time; `null` if operations went to one server, and in recordings without the
    /// ticks of servers.
    pub nodes: Option<FaultNodesView>,
    /// Parts of the keys that had no answer in that time; `null` if the store does not divide its keys, and in recordings
    /// without them.
    pub key_parts: Option<FaultSilenceView>,
    /// Stale records in answers of that time, by server; empty if answers were not checked.
    pub stale: Vec<StaleReadsView>,
    /// Further copies of records within one answer, in answers of that time; 0 if answers were not checked.
    pub duplicates: u64,
    /// Lost writes that were acknowledged in the effect of the fault or before it; `null` without a check that knows
    /// them and their times.
    pub lost: Option<LostWritesView>,
    /// Effects in a sentence, without a full stop.
    pub sentence: String,
    /// Sentences below the table of faults, without full stops.
    #[serde(skip)]
    pub notes: Vec<String>,
    /// Fault as planned, without its times: `kill primary`.
    #[serde(skip)]
    pub planned: String,
    /// Positions of trial and phase.
    #[serde(skip)]
    pub place: (u32, u32),
    /// Beginning and end of the effect on the run's clock, in nanoseconds: until healing and recovery.
    #[serde(skip)]
    pub effect_ns: (u64, u64),
    /// End of the fault on the run's clock, in nanoseconds.
    #[serde(skip)]
    pub ended_ns: Option<u64>,
    /// Beginning of the next fault of the phase on the run's clock, in nanoseconds.
    #[serde(skip)]
    pub next_ns: Option<u64>,
    /// The effect lasted until the planned end of the phase, and the store had no time to come back.
    #[serde(skip)]
    pub is_to_end: bool,
    /// The fault was healed so long before the planned end that the store had time to come back.
    #[serde(skip)]
    pub is_healed_before: bool,
}

impl FaultView {
    /// Returns true if operations were counted and no client noticed the fault. Throughput is known not to have fallen, no
    /// goal was missed, and no client and no part of the keys was silent. If a thread hangs, its client waits.
    pub fn is_unnoticed(&self) -> bool {
        let is_silent = [self.clients, self.key_parts].into_iter().flatten().any(|one| one.silent > 0);
        let has_not_fallen = self.recovered_s.is_some() && !self.is_slower() && self.missed.is_empty() && !is_silent;
        self.noticed_s.is_none() && self.outage_s.is_some() && self.kind != FaultKind::Hang && has_not_fallen
    }

    /// Returns the number of stale records in answers.
    pub fn stale_records(&self) -> u64 {
        self.stale.iter().map(|one| one.records).sum()
    }

    /// Returns true if throughput fell.
    pub fn is_slower(&self) -> bool {
        self.recovered_open || self.recovered_s.is_some_and(|recovered_s| recovered_s > 0.0)
    }

    /// Returns the longest time without an answer, infinite if it did not end.
    pub fn whole_outage_s(&self) -> Option<f64> {
        if self.outage_open { Some(f64::INFINITY) } else { self.outage_s }
    }

    /// Returns the time until throughput was back, infinite if it did not come back; `None` if it is not known.
    pub fn whole_recovery_s(&self) -> Option<f64> {
        if self.recovered_open { Some(f64::INFINITY) } else { self.recovered_s }
    }

    /// Returns the time until throughput was back, or the observed time if it did not come back.
    pub fn least_recovery_s(&self) -> Option<f64> {
        if self.recovered_open { Some(self.observed_s) } else { self.recovered_s }
    }

    /// Returns the time until the next fault of the phase began.
    pub fn next_s(&self) -> Option<f64> {
        self.next_ns.map(|next_ns| next_ns.saturating_sub(self.effect_ns.0) as f64 / 1e9)
    }

    /// Returns the time until the next fault began if throughput was back only after that, or not at all.
    pub fn recovery_after_next_s(&self) -> Option<f64> {
        self.next_s().filter(|next_s| self.least_recovery_s().is_some_and(|recovered_s| recovered_s > *next_s))
    }
}

/// Time without an answer after the healing of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AfterHealingView {
    /// Length.
    pub seconds: f64,
    /// Time from the end of the healing to the beginning.
    pub after_s: f64,
    /// True if the time lasted until the end of all observations, and was longer.
    pub open: bool,
    /// Elections from the healing to the end; `null` if the store does not report terms, or none was held.
    pub elections: Option<u64>,
}

impl AfterHealingView {
    /// Returns the length: `1.14 s`, `more than 1.14 s`.
    pub fn length(&self) -> String {
        format!("{}{}", if self.open { "more than " } else { "" }, number::seconds(self.seconds))
    }

    /// Returns `2.79 s after the healing, with 3 elections`.
    pub fn cause(&self) -> String {
        let count = |n: u64| format!(", with {}", number::plural(n, "election", "elections"));
        let elections = self.elections.map_or(String::new(), count);
        format!("{} after the healing{elections}", number::seconds(self.after_s))
    }
}

/// A goal that was missed after a fault.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MissedGoalView {
    /// Name of the goal: `p99`, `read.p99`.
    pub goal: String,
    /// Time from the beginning of the fault until a slice held the goal again, after all in the effect that missed it;
    /// `null` if none did.
    pub held_s: Option<f64>,
    /// Time from the beginning of the fault for which they were observed: until the next fault began, or to the planned
    /// end.
    pub observed_s: f64,
}

/// Operations of an open loop that were due and not sent after a fault.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BacklogView {
    /// Most of them at the end of a slice.
    pub most: u64,
    /// Time from the beginning of the fault until they were worked off, to a slice; `null` if they were not.
    pub gone_s: Option<f64>,
    /// Time from the beginning of the fault for which they were observed: until the next fault began, or to the planned
    /// end.
    pub observed_s: f64,
}

/// Clients that a fault affected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct AffectedView {
    /// Number of clients of which an operation failed or took 0.1 s or longer.
    pub clients: u64,
    /// Number of clients of the phase.
    pub of: u64,
    /// Most such clients of a slice before the first fault, without warm-up; 0 without such slices.
    pub usual: u64,
}

/// Nodes that gave no answers in the effect of a fault.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FaultNodesView {
    /// Nodes without an answer for longer than 0.1 s, and than between two answers of the node before the first fault.
    pub silent: Vec<SilentNodeView>,
    /// Number of nodes that gave answers before the first fault.
    pub of: u64,
}

impl FaultNodesView {
    /// Returns the node that was silent for longest.
    pub fn longest(&self) -> Option<&SilentNodeView> {
        self.silent.iter().max_by(|a, b| a.seconds.total_cmp(&b.seconds).then(a.open.cmp(&b.open)))
    }
}

/// Node that gave no answers for a time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SilentNodeView {
    /// Name of the node: `node 2`.
    pub name: String,
    /// Longest time without an answer until the effect was over, to 10 ms.
    pub seconds: f64,
    /// True if the node had not answered again by then: the time was longer.
    pub open: bool,
}

/// Clients, or parts of the keys, that had no answer in the effect of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FaultSilenceView {
    /// Number of those without an answer for longer than 0.1 s while operations waited. The time is also longer than that
    /// of any of them before the first fault.
    pub silent: u64,
    /// Number of clients of the phase, or of parts that had answers before the first fault.
    pub of: u64,
    /// Median of the longest times of those that were silent; 0 if none was.
    pub median_s: f64,
    /// Longest time without an answer of one of which operations waited (of parts to 10 ms); 0 if none was silent.
    pub longest_s: f64,
    /// True if the longest time lasted until the end of all observations, and was longer.
    pub longest_open: bool,
}

/// Stale records in the answers of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StaleReadsView {
    /// Name of the server; empty if operations went to one.
    pub server: String,
    /// Number of records.
    pub records: u64,
}

/// Lost writes beside a fault, counted by record. Faults that were planned for one time, or began in one tick, share
/// their effects and the writes in them.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct LostWritesView {
    /// Writes that were acknowledged in the effect of the fault.
    pub in_effect: u64,
    /// Writes that were acknowledged before the fault, outside of the effects of all others.
    pub before: u64,
    /// Longest time in seconds from the acknowledgement of these to the beginning of the fault; 0 without any.
    pub before_s: f64,
}

impl LostWritesView {
    /// Returns the number of all of them.
    pub fn all(&self) -> u64 {
        self.in_effect + self.before
    }
}

/// Lost writes of a trial with faults, by the time of their acknowledgement: `lost` is the sum of the other numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct FaultLossView {
    /// Name of the trial.
    pub trial: String,
    /// Lost writes of the trial, by the check that found most.
    pub lost: u64,
    /// Writes that were acknowledged in the effect of a fault.
    pub in_effect: u64,
    /// Writes that were acknowledged outside of all effects, before a fault.
    pub before: u64,
    /// Writes that were acknowledged outside of all effects, after the beginning of the last fault.
    pub after: u64,
    /// Writes of which the time is not known, as in earlier recordings.
    pub not_known: u64,
    /// All in a sentence, without a full stop.
    pub sentence: String,
}

/// Fates of writes of unknown outcome, counted by record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct UnknownWritesView {
    /// Writes that an answer or the records read back have shown.
    pub written: u64,
    /// Writes that had not happened when the records were read back.
    pub not_written: u64,
    /// Writes of which neither is known: overwritten, repeated, of a record that could not be read, or after the first
    /// million of the trial.
    pub not_known: u64,
}

impl UnknownWritesView {
    /// Returns `38 written, 3 not written`, without numbers that are 0.
    pub fn words(&self) -> String {
        let all = [(self.written, "written"), (self.not_written, "not written"), (self.not_known, "not known")];
        let all = all.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{} {what}", number::count(*n)));
        all.collect::<Vec<_>>().join(", ")
    }
}

/// Faults with the same kind and planned words, in repeats of a trial or in one phase.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FaultRepeatsView {
    /// Name of the trials, without the number of the repeat.
    pub trial: String,
    /// Name of the phase.
    pub phase: String,
    /// Kind of the faults.
    pub kind: FaultKind,
    /// Fault as planned.
    pub fault: String,
    /// Number of faults.
    pub n: u64,
    /// Times until a client noticed the fault, of those that one did; `null` if these are fewer than two.
    pub noticed: Option<FaultSpread>,
    /// Outages; `null` if fewer than two are known.
    pub outage: Option<FaultSpread>,
    /// Times to recovery; `null` if fewer than two are known.
    pub recovered: Option<FaultSpread>,
    /// Numbers of clients affected; `null` if fewer than two are known.
    pub affected: Option<CountSpread>,
    /// Longest times without an answer of one client, 0 for a fault without a silent one; `null` if fewer than two are
    /// known.
    pub client_silence: Option<FaultSpread>,
    /// Numbers of silent parts of the keys; `null` if fewer than two are known.
    pub silent_parts: Option<CountSpread>,
    /// Longest times without an answer of one part, 0 for a fault without a silent part; `null` if fewer than two are
    /// known.
    pub part_silence: Option<FaultSpread>,
    /// Numbers of lost writes; `null` if fewer than two are known, or nothing was lost.
    pub lost: Option<CountSpread>,
    /// Number of failovers inside the formula of the store.
    pub inside: u64,
    /// Number of failovers that were inside or outside of it.
    pub decided: u64,
    /// All in a sentence, without a full stop.
    pub sentence: String,
}

/// Spread of a time over several faults, in seconds. A time that did not end counts as longer than all others.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FaultSpread {
    /// Number of times.
    pub n: u64,
    /// Shortest; `null` if none ended.
    pub least_s: Option<f64>,
    /// Median; `null` if it did not end.
    pub median_s: Option<f64>,
    /// Longest; `null` if it did not end.
    pub most_s: Option<f64>,
    /// Interval (95 %) of the median; `null` with fewer than six times. An end that is `null` belongs to a time that did
    /// not end: its lower bound is in `above_s`.
    pub interval_s: Option<(Option<f64>, Option<f64>)>,
    /// Lower bounds of those of these times that did not end.
    pub above_s: SpreadBounds,
    /// Number of times that did not end.
    pub open: u64,
    /// Number of times without an answer that are as long as the time-out of operations.
    pub timeouts: u64,
}

/// Lower bounds of times that did not end, in seconds; `null` for each that ended. Each time of a spread is either known or
/// has its bound here.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct SpreadBounds {
    /// Of the shortest.
    pub least: Option<f64>,
    /// Of the median.
    pub median: Option<f64>,
    /// Of the longest.
    pub most: Option<f64>,
    /// Of the lower end of the interval.
    pub low: Option<f64>,
    /// Of the upper end of the interval.
    pub high: Option<f64>,
}

impl FaultSpread {
    /// Returns the shortest, the median and the longest time, formatted: `1.37 s`, or `> 12.0 s` if it did not end.
    pub fn words(&self, format: fn(f64) -> String) -> [String; 3] {
        let above = self.above_s;
        let times = [(self.least_s, above.least), (self.median_s, above.median), (self.most_s, above.most)];
        times.map(|time| time_words(time, format))
    }

    /// Returns the ends of the interval, formatted; `None` with fewer than six times.
    pub fn interval_words(&self, format: fn(f64) -> String) -> Option<[String; 2]> {
        let (low_s, high_s) = self.interval_s?;
        Some([(low_s, self.above_s.low), (high_s, self.above_s.high)].map(|time| time_words(time, format)))
    }
}

/// Returns a time in words, or its lower bound if it did not end.
fn time_words((time_s, above_s): (Option<f64>, Option<f64>), format: fn(f64) -> String) -> String {
    match (time_s, above_s) {
        (Some(time_s), _) => format(time_s),
        (None, Some(above_s)) => format!("> {}", number::seconds(above_s)),
        (None, None) => "–".to_owned(),
    }
}

/// Spread of a number over several faults.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CountSpread {
    /// Number of faults.
    pub n: u64,
    /// Smallest number.
    pub least: f64,
    /// Median.
    pub median: f64,
    /// Largest number.
    pub most: f64,
    /// Interval (95 %) of the median; `null` with fewer than six faults.
    pub interval: Option<(f64, f64)>,
}

plimsoll_core::words! {
    /// Place of a failover beside the bounds of its formula.
    pub enum FormulaState {
        /// Between the bounds, to 10 ms.
        Inside = "inside",
        /// Shorter than the least time.
        Less = "less",
        /// Longer than the greatest time.
        More = "more",
        /// Not known: clients had answers all the time, or had none until healing, another fault or the end.
        NotDecided = "not decided",
    }
}

/// Failover after a fault of the primary, beside the published formula of its store. Times are seconds from the
/// beginning of the fault.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FailoverView {
    /// Label of the store.
    pub store: String,
    /// Least time by the formula.
    pub least_s: f64,
    /// Greatest time by the formula.
    pub most_s: f64,
    /// Time until clients had answers again; of a store in which each node serves a part, until throughput was back.
    /// `null` if it is not known.
    pub measured_s: Option<f64>,
    /// Number of elections until then; `null` if it is not known, as in stores that do not report their terms.
    pub elections: Option<u64>,
    /// Place of that time beside the bounds.
    pub state: FormulaState,
}

/// Published formula of failover of a store, and the failovers beside it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FormulaView {
    /// Label of the store.
    pub store: String,
    /// Formula in words.
    pub formula: String,
    /// Address of the page that publishes it.
    pub source: String,
    /// Least and greatest time in seconds after a kill.
    pub killed_s: (f64, f64),
    /// Least and greatest time in seconds after a pause or a cut.
    pub silent_s: (f64, f64),
    /// Number of failovers inside it.
    pub inside: u64,
    /// Number of failovers that were inside or outside of it.
    pub decided: u64,
    /// Number of faults that decided nothing.
    pub not_decided: u64,
    /// Number of failovers with more than one election, as far as the store reports its terms.
    pub elected_again: u64,
    /// All in a sentence, without a full stop.
    pub sentence: String,
}
