//! Pairs and their numbers, from a recording.

use plimsoll_record::data::{PhaseKind, PhaseState, Run, Sample, Trial};

use crate::phase::{PhaseFacts, UNDISTURBED};

use super::{AbMetric, PAIR};

/// One turn: the driven phase of its trial.
pub struct Turn<'r> {
    pub facts: PhaseFacts<'r>,
    samples: &'r [Sample],
    run: &'r Run,
}

/// Both turns of a pair; the first that was driven says which is `first`.
pub struct Pair<'r> {
    pub number: u32,
    /// 0 for A, 1 for B.
    pub first: usize,
    pub turns: [Turn<'r>; 2],
}

/// The pairs of which both turns ended, in order. What was interrupted did not end.
pub fn pairs(run: &Run) -> Vec<Pair<'_>> {
    let mut open: Vec<(u32, usize, [Option<Turn<'_>>; 2])> = Vec::new();
    for (number, side, turn) in run.trials.iter().filter_map(|trial| turn(run, trial)) {
        match open.iter_mut().find(|(known, ..)| *known == number) {
            Some((.., turns)) => turns[side] = Some(turn),
            None => {
                let mut turns = [None, None];
                turns[side] = Some(turn);
                open.push((number, side, turns));
            }
        }
    }
    let whole = open.into_iter().filter_map(|(number, first, turns)| match turns {
        [Some(a), Some(b)] => Some(Pair { number, first, turns: [a, b] }),
        _ => None,
    });
    whole.collect()
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

fn turn<'r>(run: &'r Run, trial: &'r Trial) -> Option<(u32, usize, Turn<'r>)> {
    let number = pair_of(trial)?;
    let ended = |phase: &&plimsoll_record::data::Phase| {
        phase.header.kind == PhaseKind::Drive
            && !matches!(phase.end.state, PhaseState::Unfinished | PhaseState::Interrupted | PhaseState::Failed(_))
    };
    let phase = trial.phases.iter().find(ended)?;
    let facts = PhaseFacts::gather(trial, phase);
    let (from, to) = (phase.header.start_ns, phase.end.end_ns);
    let first = run.samples.partition_point(|sample| sample.at_ns <= from);
    let last = run.samples.partition_point(|sample| sample.at_ns <= to);
    let samples = run.samples.get(first..last.max(first)).unwrap_or_default();
    Some((number, side(trial)?, Turn { facts, samples, run }))
}

impl Pair<'_> {
    /// The logarithm of B's number over A's, or why there is none, and on which side.
    pub fn log_ratio(&self, metric: AbMetric, undisturbed: bool) -> Result<f64, String> {
        let of = |side: usize, name: &str| match self.turns[side].value(metric, undisturbed) {
            Ok(value) if value > 0.0 || metric == AbMetric::Errors => Ok(value),
            Ok(_) => Err(format!("{name}: {} is nothing", metric.name())),
            Err(why) => Err(format!("{name}: {why}")),
        };
        let (a, b) = (of(0, "A")?, of(1, "B")?);
        // Errors are mostly none: half an operation of the side with fewer of them is added to both, so that none against
        // none is no difference and some against none is one (as Haldane, Ann. Hum. Genet. 20, 1956).
        let half = match metric {
            AbMetric::Errors => 50.0 / self.turns[0].ops().min(self.turns[1].ops()).max(1) as f64,
            _ => 0.0,
        };
        Ok(((b + half) / (a + half)).ln())
    }
}

impl Turn<'_> {
    /// The number, or why there is none. Of percentiles that of operations which no pause of the machine touched, where
    /// `undisturbed` is wanted.
    pub fn value(&self, metric: AbMetric, undisturbed: bool) -> Result<f64, String> {
        match metric {
            AbMetric::Cpu => self.cpu_s_per_op(),
            _ if metric.is_percentile() && undisturbed => {
                self.facts.quantity(&format!("{UNDISTURBED}{}", metric.name()), None).map(|quantity| quantity.value)
            }
            _ => self.facts.quantity(metric.name(), None).map(|quantity| quantity.value),
        }
    }

    /// Whether somebody watched for pauses of the machine all the time.
    pub fn is_watched(&self) -> bool {
        self.facts.disturbed.is_some()
    }

    /// Operations that ended.
    pub fn ops(&self) -> u64 {
        self.facts.count(None, |_| true)
    }

    /// What the load generator used, in per cent of one processor.
    pub fn generator_percent(&self) -> Option<f64> {
        self.used_percent("generator")
    }

    /// Processor time for an operation: the server's, or for a store in this process that of all of it.
    fn cpu_s_per_op(&self) -> Result<f64, String> {
        let used = self.used_percent("server").filter(|used| *used > 0.0);
        let used =
            used.or_else(|| self.used_percent("generator").filter(|_| self.facts.trial.header.place == "embedded"));
        let used = used.ok_or("no sampler saw the server's processes: it runs elsewhere, or `server` is not read")?;
        let rate = self.facts.quantity("rate", None)?.value;
        if rate > 0.0 { Ok(used / 100.0 / rate) } else { Err("no operation was done".to_string()) }
    }

    /// Mean of user and system time of a sampler's process over the turn, warm-up left out.
    fn used_percent(&self, sampler: &str) -> Option<f64> {
        let wanted: Vec<u32> = (0..)
            .zip(&self.run.series)
            .filter(|(_, series)| {
                series.source == sampler
                    && series.subject.is_empty()
                    && matches!(series.name.as_str(), "user" | "system")
            })
            .map(|(at, _)| at)
            .collect();
        let counted_from = self.facts.phase.slices.iter().find(|slice| !self.facts.is_warmup(slice))?.start_ns;
        let mut sums: Vec<f64> = Vec::new();
        for sample in self.samples.iter().filter(|sample| sample.at_ns > counted_from) {
            let values = sample.values.iter().filter(|(series, _)| wanted.contains(series));
            let values: Vec<f64> = values.map(|(_, value)| *value).collect();
            if !values.is_empty() {
                sums.push(values.iter().sum());
            }
        }
        // A reading is of the time since the one before: the first after the warm-up holds a part of it.
        let whole = if sums.len() > 2 { sums.get(1..)? } else { &sums };
        (!whole.is_empty()).then(|| crate::stat::mean(whole))
    }
}
