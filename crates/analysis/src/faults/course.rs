//! The course of a phase with faults: unusual silences, and the time at which throughput was back.

use plimsoll_core::TICK_NS;
use plimsoll_record::data::FaultSpan;

use super::clients;
use super::key_parts::part_waits;
use super::nodes::NodeWaits;
use super::waits::Waits;
use super::{HEALED_NS, ended_ns};
use crate::phase::PhaseFacts;
use crate::stat::{self, interval};
use crate::ticks::{PhaseTicks, TickAt, WINDOW_NS};
use crate::view::{FaultNodesView, FaultSilenceView};

/// Share of the usual throughput from which it is back.
const BACK: f64 = 0.95;
/// Lowest such share, of a store whose throughput varied so much before the first fault.
const BACK_LEAST: f64 = 0.9;
/// Shortest silence that is unusual: one tick may be empty by chance.
const SILENCE_MIN_NS: u64 = 2 * TICK_NS;
/// Shortest silence later than a second after the healing, with throughput back, that may come of the fault: a shorter one
/// may be noise.
const AFTERMATH_MIN_NS: u64 = 500_000_000;

/// Throughput after a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recovery {
    /// Did not fall.
    NotFallen,
    /// Back at this time.
    Back(u64),
    /// Not back while it was observed.
    Open,
    /// Usual throughput is not known.
    NotKnown,
}

/// Course of a phase, and the quantities that were usual before its first fault.
pub(super) struct Course {
    pub(super) ticks: PhaseTicks,
    /// Unusual silences: without an answered operation.
    silences: Silences,
    /// Unusual silences without any operation that ended.
    empty: Silences,
    /// Most failed operations in a tick.
    failed_max: u32,
    /// Answers a second from which throughput is back.
    back_per_s: Option<f64>,
    /// Most answers by which a usual window falls behind that rate on its way; `None` in a closed loop.
    behind_max: Option<f64>,
    /// Waits of the parts of the keys; `None` if they are not known.
    parts: Option<Waits>,
    /// Waits of the clients; `None` if they were not looked for.
    clients: Option<Waits>,
    /// Waits of the nodes; `None` if operations went to one server.
    nodes: Option<NodeWaits>,
}

/// Silences that are longer than the usual ones.
struct Silences {
    usual_ns: u64,
    /// Starts and ends.
    unusual: Vec<(u64, u64)>,
}

impl Silences {
    /// Finds the runs of ticks for which `is_silent` is true and that are longer than any in `before`. In the drain no
    /// operation begins, so that a silence has to be unusual before it.
    fn of(ticks: &PhaseTicks, before: &PhaseTicks, is_silent: impl Fn(&TickAt) -> bool) -> Self {
        let usual = before.runs(&is_silent).into_iter().map(|(from, to)| to - from);
        let usual_ns = usual.max().unwrap_or(0).max(SILENCE_MIN_NS);
        let planned_end_ns = ticks.planned_end_ns();
        let mut unusual = ticks.runs(&is_silent);
        unusual.retain(|(from, to)| (*to).min(planned_end_ns).saturating_sub(*from) > usual_ns);
        Silences { usual_ns, unusual }
    }

    /// Returns the parts of those since `begun_ns` that may come of a fault then. Of one that was unusual before, the rest
    /// goes on in it. A silence that is unusual only after `limit_ns` does not come of it.
    fn between(&self, begun_ns: u64, limit_ns: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let is_since = move |(_, to): &&(u64, u64)| *to > begun_ns;
        // A usual silence may have preceded it.
        let usual_since_ns = begun_ns.saturating_sub(self.usual_ns);
        let rest = move |(from, to): &(u64, u64)| (if *from < usual_since_ns { begun_ns } else { *from }, *to);
        let since = self.unusual.iter().filter(is_since).map(rest);
        since.filter(move |(from, to)| (*to).min(limit_ns).saturating_sub(*from) > self.usual_ns)
    }
}

/// Returns true if a silence was long enough before `limit_ns` to come of a healing: the next fault may prolong it.
fn is_long((from, to): (u64, u64), limit_ns: u64) -> bool {
    to.min(limit_ns).saturating_sub(from) >= AFTERMATH_MIN_NS
}

impl Course {
    /// Returns the course of a phase whose first fault began at `first_ns`; `None` without ticks.
    pub(super) fn of(facts: &PhaseFacts<'_>, first_ns: u64) -> Option<Self> {
        let ticks = PhaseTicks::of(facts)?;
        let before = ticks.part(|tick| !tick.is_warmup && !tick.is_drain && tick.end_ns <= first_ns);
        let header = &facts.phase.header;
        // Of a load that changes, throughput changes with it.
        let rates = before.rates();
        let usual_per_s = stat::median(&rates).filter(|_| header.stages.is_empty());
        let scheduled_per_s = header.rate_per_s.filter(|_| facts.open_loop).unwrap_or(f64::INFINITY);
        let windows = 0..rates.len();
        let low_per_s = interval::percentiles(rates).map_or(f64::INFINITY, |(low, _)| low);
        let back_per_s = |usual: f64| low_per_s.clamp(usual * BACK_LEAST, usual * BACK);
        let back_per_s = usual_per_s.map(|usual| back_per_s(usual.min(scheduled_per_s))).filter(|back| *back > 0.0);
        let behind_max = back_per_s.filter(|_| facts.open_loop).map(|back_per_s| {
            let behind: Vec<f64> = windows.map(|first| before.behind(first, back_per_s).0).collect();
            let most = behind.iter().copied().fold(0.0, f64::max);
            interval::percentiles(behind).map_or(most, |(_, high)| high)
        });
        Some(Course {
            silences: Silences::of(&ticks, &before, |tick| tick.answered == 0),
            empty: Silences::of(&ticks, &before, |tick| tick.answered == 0 && tick.failed == 0),
            failed_max: before.iter().map(|tick| tick.failed).max().unwrap_or(0),
            back_per_s,
            behind_max,
            parts: part_waits(facts, first_ns),
            clients: clients::waits(facts, first_ns),
            nodes: NodeWaits::of(facts, first_ns),
            ticks,
        })
    }

    /// Returns the end of the time in which a silence may come of a fault: a second later, or with throughput back.
    fn effect_end_ns(&self, span: &FaultSpan) -> u64 {
        let Some(ended_ns) = ended_ns(span) else { return u64::MAX };
        let least_ns = ended_ns.max(span.taken_ns.unwrap_or(0)) + WINDOW_NS;
        match self.recovery(span, None, None, self.ticks.end_ns()) {
            Recovery::NotFallen | Recovery::NotKnown => least_ns,
            Recovery::Back(at_ns) => least_ns.max(at_ns),
            Recovery::Open => u64::MAX,
        }
    }

    /// Returns the silences of a fault's effect that were unusual before `limit_ns`. Its healing may cause long ones for
    /// some seconds: a node that comes back with a newer term starts an election.
    fn of_effect(&self, span: &FaultSpan, limit_ns: u64) -> impl Iterator<Item = (u64, u64)> {
        let effect_end_ns = self.effect_end_ns(span);
        let aftermath_end_ns = ended_ns(span).map_or(u64::MAX, |ended_ns| ended_ns + HEALED_NS);
        let is_its = move |(from, to): &(u64, u64)| {
            *from < effect_end_ns || (*from < aftermath_end_ns && is_long((*from, *to), limit_ns))
        };
        self.silences.between(span.begun_ns, limit_ns).filter(is_its)
    }

    /// Returns the longest silence of a fault's effect that was unusual before `limit_ns`.
    pub(super) fn outage(&self, span: &FaultSpan, limit_ns: u64) -> Option<(u64, u64)> {
        self.of_effect(span, limit_ns).max_by_key(|(from, to)| to - from)
    }

    /// Returns the longest such silence that began after the healing; `None` without a long one, and for a fault that is over
    /// at once.
    pub(super) fn after_healing(&self, span: &FaultSpan, limit_ns: u64) -> Option<(u64, u64)> {
        let healed_ns = span.healing_ns.and(span.healed_ns)?;
        let is_after = |silence: &(u64, u64)| silence.0 >= healed_ns && is_long(*silence, limit_ns);
        self.of_effect(span, limit_ns).filter(is_after).max_by_key(|(from, to)| to - from)
    }

    /// Returns the parts of the keys that were silent in a fault's effect and, unusually, before `limit_ns`; `None` if they
    /// are not known.
    pub(super) fn silent_parts(&self, span: &FaultSpan, limit_ns: u64) -> Option<FaultSilenceView> {
        Some(self.silent(self.parts.as_ref()?, span, limit_ns))
    }

    /// Returns the clients that were silent, as [`Course::silent_parts`].
    pub(super) fn silent_clients(&self, span: &FaultSpan, limit_ns: u64) -> Option<FaultSilenceView> {
        Some(self.silent(self.clients.as_ref()?, span, limit_ns))
    }

    fn silent(&self, waits: &Waits, span: &FaultSpan, limit_ns: u64) -> FaultSilenceView {
        let again_ns = self.after_healing(span, limit_ns).map_or(0, |(_, to)| to);
        waits.silent(span.begun_ns, self.effect_end_ns(span).max(again_ns), limit_ns)
    }

    /// Returns the nodes that gave no answers from the beginning of a fault up to `until_ns`; `None` if operations went to
    /// one server.
    pub(super) fn silent_nodes(&self, span: &FaultSpan, until_ns: u64) -> Option<FaultNodesView> {
        Some(self.nodes.as_ref()?.silent(span.begun_ns, until_ns))
    }

    /// Returns the time at which a client noticed the fault up to `until_ns`, and before `limit_ns`: by a failed
    /// operation, or by a silence.
    pub(super) fn noticed_ns(&self, span: &FaultSpan, until_ns: u64, limit_ns: u64) -> Option<u64> {
        let is_failed = |tick: &&TickAt| tick.end_ns > span.begun_ns && tick.failed > self.failed_max;
        let failed = self.ticks.iter().find(is_failed).map(|tick| tick.start_ns).filter(|at_ns| *at_ns < limit_ns);
        let silence = self.empty.between(span.begun_ns, limit_ns).map(|(from, _)| from).next();
        let at_ns = failed.into_iter().chain(silence).min()?;
        (at_ns <= until_ns).then_some(at_ns)
    }

    /// Returns the time at which throughput was back, by windows that lie before `limit_ns`. `outage` is the last silence of
    /// the effect that counts. A fall that only windows with the next fault show is the next one's.
    pub(super) fn recovery(
        &self,
        span: &FaultSpan,
        outage: Option<(u64, u64)>,
        next_ns: Option<u64>,
        limit_ns: u64,
    ) -> Recovery {
        let Some(back_per_s) = self.back_per_s else { return Recovery::NotKnown };
        let is_after =
            |tick: &TickAt| !tick.is_drain && tick.start_ns + TICK_NS > span.begun_ns && tick.end_ns <= limit_ns;
        let after = self.ticks.part(is_after);
        let windows: Vec<(&TickAt, bool)> =
            after.iter().zip(after.rates().into_iter().map(|rate| rate >= back_per_s)).collect();
        // Noise much later is no effect.
        let effect_ns = ended_ns(span).unwrap_or(limit_ns).max(span.taken_ns.unwrap_or(0)) + WINDOW_NS;
        let effect_ns = outage.map_or(effect_ns, |(_, to)| effect_ns.max(to));
        // Faults that follow each other faster than that cannot be told apart.
        let alone_ns = next_ns.filter(|next_ns| *next_ns >= span.begun_ns + WINDOW_NS);
        let effect_ns = alone_ns.map_or(effect_ns, |next_ns| effect_ns.min(next_ns - WINDOW_NS));
        let fallen = windows.iter().position(|(tick, is_back)| !is_back && tick.start_ns <= effect_ns);
        let Some(fallen) = fallen else {
            return match (windows.is_empty(), outage) {
                (false, None) => Recovery::NotFallen,
                // It had grown so much since before the first fault that no window was low.
                (false, Some((_, to))) => Recovery::Back(to),
                (true, Some(_)) => Recovery::Open,
                (true, None) => Recovery::NotKnown,
            };
        };
        let lows: Vec<u64> = windows.iter().filter(|(_, is_back)| !is_back).map(|(tick, _)| tick.start_ns).collect();
        let last_ns = windows.last().map_or(0, |(tick, _)| tick.start_ns);
        let is_held = |at_ns: u64| {
            let low_ns = lows.get(lows.partition_point(|low_ns| *low_ns < at_ns));
            low_ns.is_none_or(|low_ns| low_ns - at_ns > WINDOW_NS)
        };
        // An open loop owes what was due, and answers it in a burst that may fill a window from before it. That window
        // still begins the second in which none is low: noise after the burst would defer the time else.
        let begin_ns = |(first, tick): (usize, &TickAt)| match after.behind(first, back_per_s) {
            (behind, until_ns) if self.behind_max.is_some_and(|usual| behind > usual) => until_ns,
            _ => tick.start_ns,
        };
        // A window may begin in an outage, and have enough answers after it.
        let silent_until_ns = outage.map_or(0, |(_, to)| to);
        // A short silence in the last second that leaves its window filled is no fall.
        let since_ns = silent_until_ns.min(last_ns);
        let answered = after.iter().enumerate().skip(fallen).filter(|(_, tick)| tick.answered > 0);
        let held = answered.filter(|(_, tick)| tick.start_ns >= since_ns && is_held(tick.start_ns));
        let back_ns = held.map(begin_ns).find(|at_ns| *at_ns <= last_ns);
        back_ns.map_or(Recovery::Open, |at_ns| Recovery::Back(at_ns.max(silent_until_ns)))
    }
}
