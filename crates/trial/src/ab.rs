//! Comparison of two sides in turn: pair after pair, each turn a trial of its own in the recording, until analysis
//! decides the difference.

use std::sync::Arc;

use plimsoll_analysis::ab::{self, AbFold, AbSpec, Next, PAIR, SIDES, WARM_UP};
use plimsoll_analysis::compare::rule::signed_percent;
use plimsoll_analysis::number;
use plimsoll_core::Workload;
use plimsoll_plan::model::{DriveLimit, PhaseStep, PlannedPhase, PlannedTrial, Start};
use plimsoll_verify::Ledger;

use crate::error::TrialError;
use crate::open::{Open, fitted, leave, open_store, run_id_of};
use crate::phase::RunContext;
use crate::sink::Told;
use crate::trial::{self, TrialStart};

/// A store that one side has, or both.
struct SideStore {
    open: Open,
    /// Trials that it has served.
    trials: u32,
    ledger: Option<Ledger>,
}

/// A side.
struct Side {
    trial: PlannedTrial,
    workload: Arc<dyn Workload>,
    /// Position of its store.
    place: usize,
}

/// Part of the work that a trial does.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    /// All phases but the checks, for the pair.
    Turn(Option<u32>),
    /// The checks alone.
    Check,
}

/// Returns true if both sides can work on one store and its data: they differ only in the drive.
fn share_a_store(a: &PlannedTrial, b: &PlannedTrial) -> bool {
    let load = |trial: &PlannedTrial| {
        let of = |phase: &PlannedPhase| matches!(phase.step, PhaseStep::Load { .. }).then(|| phase.step.clone());
        trial.phases.iter().find_map(of)
    };
    let (store_a, store_b) = (&a.store, &b.store);
    (&store_a.kind, &store_a.url, &store_a.params) == (&store_b.kind, &store_b.url, &store_b.params)
        && a.workload == b.workload
        && a.seed == b.seed
        && load(a) == load(b)
}

/// Opens both sides, drives pairs until the recording decides or the user wants an end, checks, and closes them.
///
/// # Errors
/// What a side or the recording failed with; it says which side and pair.
pub fn run(context: &mut RunContext<'_>, spec: &AbSpec) -> Result<(), TrialError> {
    let mut places = Vec::new();
    let mut result = open(context, spec, &mut places).and_then(|sides| {
        let (places, context) = (&mut places[..], &mut *context);
        Turns { spec, context, places, sides, driven: 0, so_far: AbFold::default() }.all()
    });
    for place in places {
        let left = leave(context, place.open, result.is_err());
        result = result.and(left);
    }
    result
}

/// Opens both sides, with their stores in `places`.
fn open(context: &RunContext<'_>, spec: &AbSpec, places: &mut Vec<SideStore>) -> Result<Vec<Side>, TrialError> {
    let [a, b] = &context.plan.trials[..] else {
        return Err(TrialError::usage(format!(
            "a comparison in turn needs two sides, and the plan has {} trials",
            context.plan.trials.len()
        )));
    };
    let mut sides = Vec::new();
    for (letter, trial) in SIDES.into_iter().zip([a, b]) {
        if places.is_empty() || !share_a_store(a, b) {
            context.sinks.show(&Told::Note(format!("opening {letter}: {}", trial.store.kind)));
            let run_id = side_run_id(&run_id_of(context.directory()), letter);
            let open = open_store(context, &trial.store, run_id)
                .map_err(|error| of_side(error, spec, places.len(), "as it was opened"))?;
            places.push(SideStore { open, trials: 0, ledger: None });
        }
        let Some(place) = places.last_mut() else { break };
        let (fitted, workload) = fitted(context, trial, &mut *place.open.store)?;
        let trial = fitted.unwrap_or_else(|| trial.clone());
        sides.push(Side { trial, workload, place: places.len() - 1 });
    }
    Ok(sides)
}

/// The id under which a side's store is made: of two on one server, each has its own.
pub fn side_run_id(run_id: &str, letter: &str) -> String {
    format!("{run_id}-{}", letter.to_lowercase())
}

/// The error with the side and the time it is about.
fn of_side(error: TrialError, spec: &AbSpec, side: usize, when: &str) -> TrialError {
    let place = format!("this was side {} ({}), {when}", SIDES[side], spec.sides[side]);
    let next = error.next.as_ref().map_or(place.clone(), |next| format!("{}; {place}", next.trim_end_matches('.')));
    error.next(next)
}

/// A comparison at work.
struct Turns<'a, 'b> {
    spec: &'a AbSpec,
    context: &'a mut RunContext<'b>,
    places: &'a mut [SideStore],
    sides: Vec<Side>,
    /// Trials so far.
    driven: u32,
    /// Conclusions from the pairs so far.
    so_far: AbFold,
}

impl Turns<'_, '_> {
    /// The turns, and a check of each store. Where a server of our own has died in a turn, what it had acknowledged is
    /// looked for all the same.
    fn all(&mut self) -> Result<(), TrialError> {
        let mut done = self.turns();
        for side in 0..SIDES.len() {
            let Side { trial, place, .. } = &self.sides[side];
            let is_first_of_store = side == 0 || self.places.len() > 1;
            let has_check = trial.phases.iter().any(|phase| phase.step == PhaseStep::Check);
            if !is_first_of_store || !has_check || self.context.is_stopped() {
                continue;
            }
            let store = &mut self.places[*place].open.store;
            let died = trial::revived(self.context.sinks, store, None, &trial.store.label, done.is_err());
            let died = died.unwrap_or_else(Some).map(|error| of_side(error, self.spec, side, &Part::Check.words()));
            if done.is_ok() || died.is_some() {
                done = done.and(died.map_or(Ok(()), Err)).and(self.part(side, Part::Check));
            }
        }
        done
    }

    /// Pair after pair, until no more is needed.
    fn turns(&mut self) -> Result<(), TrialError> {
        for side in 0..SIDES.len() {
            self.part(side, Part::Turn(None))?;
        }
        while !self.context.is_stopped() {
            let Next::Pair(pair) = self.so_far.next(self.spec) else { break };
            let first = ab::first_side(self.spec, pair);
            self.part(first, Part::Turn(Some(pair)))?;
            self.part(1 - first, Part::Turn(Some(pair)))?;
            if !self.context.is_stopped() {
                self.say();
            }
        }
        Ok(())
    }

    /// Runs a trial of a side, unless the user wants an end.
    fn part(&mut self, side: usize, part: Part) -> Result<(), TrialError> {
        if self.context.is_stopped() {
            return Ok(());
        }
        let letter = SIDES[side];
        let Side { trial, workload, place } = &self.sides[side];
        let pair = match part {
            Part::Turn(Some(pair)) => pair.to_string(),
            Part::Turn(None) => WARM_UP.to_owned(),
            Part::Check => "check".to_owned(),
        };
        let mut labels = trial.labels.clone();
        labels.insert("store".to_owned(), letter.to_owned());
        labels.insert(PAIR.to_owned(), pair.clone());
        let phases = self.phases(trial, part);
        let one = PlannedTrial { ordinal: self.driven, labels, phases, ..trial.clone() };
        self.driven += 1;
        let place = &mut self.places[*place];
        // Of the turns that follow none settles the store again, unless each is to start fresh. What is checked is what the
        // last turn has left.
        let start = self.context.plan.start;
        let checks = part == Part::Check;
        let goes_on = place.trials > 0 && trial.loads() && (checks || start != Start::Fresh);
        let wanted = if goes_on { Start::AsIs } else { start };
        let keeps = checks || trial::goes_on(&**workload) && wanted != Start::Fresh;
        let found = TrialStart { start: wanted, data: keeps && place.trials > 0 };
        self.context.ledger = place.ledger.take();
        self.context.sinks.show(&Told::Next(match part {
            Part::Turn(Some(pair)) => format!("{letter}, pair {pair}"),
            _ => format!("{letter}, {pair}"),
        }));
        let done = trial::run(self.context, &mut place.open.store, &one, Arc::clone(workload), found);
        place.ledger = self.context.ledger.take();
        place.trials += 1;
        done.map_err(|error| of_side(error, self.spec, side, &part.words()))?;
        if let Some((trial, samples, series)) = self.context.sinks.fold().trial() {
            self.so_far.take(trial, samples, series);
        }
        Ok(())
    }

    /// Returns the phases of the trial that `part` comprises. A load is in all of them, so that the data are known; if
    /// the store holds them already it is left out.
    fn phases(&self, trial: &PlannedTrial, part: Part) -> Vec<PlannedPhase> {
        let of = |phase: &PlannedPhase| match (&phase.step, part) {
            (PhaseStep::Load { .. }, _) | (PhaseStep::Check, Part::Check) => Some(phase.clone()),
            (_, Part::Check) | (PhaseStep::Check, _) => None,
            (PhaseStep::Drive(drive), _) => {
                let mut drive = drive.clone();
                drive.limit = DriveLimit::DurationNs((self.spec.turn_s * 1e9) as u64);
                drive.warmup_is_found = false;
                drive.warmup_ns = (self.spec.warmup_s * 1e9) as u64;
                Some(PlannedPhase { step: PhaseStep::Drive(drive), ..phase.clone() })
            }
            _ => Some(phase.clone()),
        };
        trial.phases.iter().filter_map(of).collect()
    }

    /// Reports the result of the last pair: `  pair 3: rate 2,600/s, 8,100/s (+212 %); so far +205 % (+120 % to
    /// +300 %)`.
    fn say(&self) {
        let Some((row, metrics)) = self.so_far.last(self.spec) else { return };
        let mut text = format!("  pair {}", row.pair);
        if let Some(why) = &row.left_out {
            return self.context.sinks.show(&Told::Remark(format!("{text} does not count: {why}")));
        }
        for (metric, values) in metrics.iter().zip(&row.values) {
            if let [Some(a), Some(b)] = values {
                let shown = |value: f64| number::with_unit(value, &metric.unit);
                text.push_str(&format!(": {} {}, {}", metric.name, shown(*a), shown(*b)));
            }
            if let Some(change) = metric.change_percent {
                text.push_str(&format!("; so far {}", signed_percent(change)));
            }
            if let Some((low, high)) = metric.interval_percent {
                text.push_str(&format!(" ({} to {})", signed_percent(low), signed_percent(high)));
            }
        }
        self.context.sinks.show(&Told::Remark(text));
    }
}

impl Part {
    /// Describes the moment of the part in words.
    fn words(self) -> String {
        match self {
            Part::Turn(Some(pair)) => format!("pair {pair}"),
            Part::Turn(None) => "before the first pair".to_owned(),
            Part::Check => "in the check after the last pair".to_owned(),
        }
    }
}
