//! Pairs and their numbers: a comparison takes one turn after the other, while they are driven or from a recording.

use std::collections::BTreeMap;

use plimsoll_record::data::{Phase, PhaseKind, PhaseState, Run, Sample, Series, Trial};

use crate::host;
use crate::phase::{PhaseFacts, UNDISTURBED};

use super::{AbMetric, PAIR};

/// The numbers of one turn: of the driven phase of its trial.
#[derive(Debug, Clone)]
pub struct Turn {
    /// Values by metric, and by true for undisturbed operations; or the reason that a value is missing.
    values: BTreeMap<(AbMetric, bool), Result<f64, String>>,
    /// Numbers that a late generator may have moved.
    moved: Vec<AbMetric>,
    /// Delay of the generator, if it matters.
    pub late: Option<String>,
    /// True if pauses of the machine were observed all the time.
    pub is_watched: bool,
    /// Operations that ended.
    pub ops: u64,
    /// Use of the load generator, in per cent of one processor.
    pub generator_percent: Option<f64>,
    /// Start and end of the drive.
    pub span_ns: (u64, u64),
}

/// Both turns of a pair; the first that was driven says which is `first`.
#[derive(Debug, Clone)]
pub struct Pair {
    /// Number of the pair, from 1.
    pub number: u32,
    /// 0 for A, 1 for B.
    pub first: usize,
    /// Turns of A and of B.
    pub turns: [Turn; 2],
}

/// A comparison, as far as it was told of.
#[derive(Debug, Default)]
pub struct AbFold {
    pub(super) pairs: Vec<Pair>,
    /// Incomplete pairs: the number, the side that was first, and its turn.
    open: Vec<(u32, usize, Turn)>,
}

impl AbFold {
    /// The comparison as far as `run` has recorded it.
    pub fn of(run: &Run) -> Self {
        let mut fold = AbFold::default();
        run.trials.iter().for_each(|trial| fold.take(trial, &run.samples, &run.series));
        fold
    }

    /// Takes a trial that ended, if it is a turn of a pair. `samples` are those of the whole run, or what
    /// [`Fold`](crate::fold::Fold) keeps of them. What was interrupted did not end.
    pub fn take(&mut self, trial: &Trial, samples: &[Sample], series: &[Series]) {
        let ended = |phase: &&Phase| {
            phase.header.kind == PhaseKind::Drive
                && !matches!(phase.end.state, PhaseState::Unfinished | PhaseState::Interrupted | PhaseState::Failed(_))
        };
        let phase = trial.phases.iter().find(ended);
        let (Some(number), Some(side), Some(phase)) = (pair_of(trial), side(trial), phase) else { return };
        let turn = Turn::of(&PhaseFacts::gather(trial, phase), samples, series);
        match self.open.iter().position(|(known, first, _)| *known == number && *first != side) {
            Some(at) => {
                let (_, first, other) = self.open.swap_remove(at);
                let turns = if side == 0 { [turn, other] } else { [other, turn] };
                self.pairs.push(Pair { number, first, turns });
            }
            None => self.open.push((number, side, turn)),
        }
    }
}

/// A trial of each side, to tell what is configured differently: the first of a pair, since what comes before is loaded
/// for both at once where they share a store.
pub fn first_trials(run: &Run) -> Option<[&Trial; 2]> {
    let of = |wanted: usize| {
        let mut ours = run.trials.iter().filter(move |trial| side(trial) == Some(wanted));
        ours.clone().find(|trial| pair_of(trial).is_some()).or_else(|| ours.next())
    };
    Some([of(0)?, of(1)?])
}

fn pair_of(trial: &Trial) -> Option<u32> {
    trial.header.labels.get(PAIR)?.parse().ok()
}

fn side(trial: &Trial) -> Option<usize> {
    super::SIDES.iter().position(|side| trial.header.store_label == *side)
}

impl Pair {
    /// The logarithm of B's number over A's, or why there is none, and on which side.
    pub fn log_ratio(&self, metric: AbMetric, undisturbed: bool) -> Result<f64, String> {
        let of = |side: usize, name: &str| match self.turns[side].value(metric, undisturbed) {
            Ok(value) if value > 0.0 || metric == AbMetric::Errors => Ok(value),
            Ok(_) => Err(format!("{name}: {} is zero", metric.name())),
            Err(why) => Err(format!("{name}: {why}")),
        };
        let (a, b) = (of(0, "A")?, of(1, "B")?);
        // Errors are mostly none: half an operation of the side with fewer of them is added to both, so that none against
        // none is no difference and some against none is one (as Haldane, Ann. Hum. Genet. 20, 1956).
        let half = match metric {
            AbMetric::Errors => 50.0 / self.turns[0].ops.min(self.turns[1].ops).max(1) as f64,
            _ => 0.0,
        };
        Ok(((b + half) / (a + half)).ln())
    }
}

impl Turn {
    fn of(facts: &PhaseFacts<'_>, samples: &[Sample], series: &[Series]) -> Turn {
        let used_percent = |sampler: &str| used_percent(facts, samples, series, sampler);
        let value = |metric: AbMetric, undisturbed: bool| match metric {
            AbMetric::Cpu => cpu_s_per_op(facts, &used_percent),
            _ => {
                let undisturbed = if undisturbed { UNDISTURBED } else { "" };
                facts.quantity(&format!("{undisturbed}{}", metric.name()), None).map(|quantity| quantity.value)
            }
        };
        let kinds = AbMetric::ALL.into_iter().flat_map(|metric| [(metric, false), (metric, true)]);
        let kinds = kinds.filter(|(metric, undisturbed)| !undisturbed || metric.is_percentile());
        Turn {
            values: kinds.map(|(metric, undisturbed)| ((metric, undisturbed), value(metric, undisturbed))).collect(),
            moved: AbMetric::ALL.into_iter().filter(|metric| facts.is_moved(metric.name(), None)).collect(),
            late: facts.late().map(str::to_string),
            is_watched: facts.disturbed.is_some(),
            ops: facts.count(None, |_| true),
            generator_percent: used_percent("generator"),
            span_ns: (facts.phase.header.start_ns, facts.phase.end.end_ns),
        }
    }

    /// The number, or why there is none. Of percentiles that of operations which no pause of the machine touched, where
    /// `undisturbed` is wanted.
    pub fn value(&self, metric: AbMetric, undisturbed: bool) -> Result<f64, String> {
        let known = self.values.get(&(metric, undisturbed && metric.is_percentile()));
        known.cloned().unwrap_or_else(|| Err("not measured".to_string()))
    }

    /// Returns true if a late generator may have changed the metric.
    pub fn is_moved(&self, metric: AbMetric) -> bool {
        self.moved.contains(&metric)
    }
}

/// Processor time for an operation: the server's, or for a store in this process that of all of it.
fn cpu_s_per_op(facts: &PhaseFacts<'_>, used_percent: &dyn Fn(&str) -> Option<f64>) -> Result<f64, String> {
    let used = used_percent("server").filter(|used| *used > 0.0);
    let used = used.or_else(|| used_percent("generator").filter(|_| facts.trial.header.place == "embedded"));
    let used =
        used.ok_or("no sampler saw the server's processes: it runs elsewhere, or the sampler `server` is off")?;
    let rate = facts.quantity("rate", None)?.value;
    if rate > 0.0 { Ok(used / 100.0 / rate) } else { Err("no operation was done".to_string()) }
}

/// Mean of user and system time of a sampler's process over the turn, warm-up left out.
fn used_percent(facts: &PhaseFacts<'_>, samples: &[Sample], series: &[Series], sampler: &str) -> Option<f64> {
    let wanted = host::positions(series, sampler, &["user", "system"]);
    let (start_ns, end_ns) = (facts.phase.header.start_ns, facts.phase.end.end_ns);
    let counted_ns = facts.phase.slices.iter().find(|slice| !facts.is_warmup(slice))?.start_ns.max(start_ns);
    let inside = samples.iter().filter(|sample| sample.at_ns > counted_ns && sample.at_ns <= end_ns);
    let of_sample = |sample: &Sample| {
        let values = sample.values.iter().filter(|(one, _)| wanted.contains(one)).map(|(_, value)| *value);
        values.reduce(|sum, value| sum + value)
    };
    let sums: Vec<f64> = inside.filter_map(of_sample).collect();
    // A reading is of the time since the one before: the first after the warm-up holds a part of it.
    let whole = if sums.len() > 2 { sums.get(1..)? } else { &sums };
    (!whole.is_empty()).then(|| crate::stat::mean(whole))
}
