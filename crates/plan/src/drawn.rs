//! Drawn schedules: faults without a time of their own, of which the seed draws one after the other.
//!
//! Drawing returns ordinary faults with fixed times, so that no other part depends on it.

use plimsoll_core::random::{GOLDEN, SplitMix, below, mix};

use crate::document::{PlanReader, short};
use crate::model::{Drive, DriveLimit};
use crate::parse_count;
use crate::phases::PhaseDraft;
use crate::sweep::Point;
use crate::timeline::{FaultAction, FaultTime, PlannedFault, meet};

/// Word in place of a fault's time.
pub(crate) const DRAWN: &str = "drawn";
/// Largest weight of a fault.
const WEIGHT_MAX: u64 = 1_000_000;
/// Most drawn faults of a phase.
const DRAWN_MAX: usize = 1_000;
/// Unit of drawn times, in nanoseconds.
const MS: u64 = 1_000_000;

/// A mistake, and advice if there is any.
type Mistake = (String, Option<String>);

/// Splits `drawn weight 3` from the times of a fault. Returns the other times, and the weight; `None` for a fault with
/// a time of its own.
pub(crate) fn weight<'w>(times: &[&'w str]) -> Result<(Vec<&'w str>, Option<u64>), Mistake> {
    let Some(start) = times.iter().position(|word| *word == DRAWN) else { return Ok((times.to_vec(), None)) };
    let (before, after) = (&times[..start], &times[start + 1..]);
    let (weight, rest) = match after {
        ["weight", number, rest @ ..] => (parse_count(number), rest),
        ["weight"] => (None, &after[1..]),
        rest => (Some(1), rest),
    };
    let Some(weight) = weight.filter(|weight| (1..=WEIGHT_MAX).contains(weight)) else {
        let what = format!("`{}`: a weight is a whole number from 1 to {WEIGHT_MAX}", short(&after.join(" ")));
        return Err((what, Some("write drawn weight 3, or leave the weight out".to_owned())));
    };
    let times: Vec<&str> = before.iter().chain(rest).copied().collect();
    match times.iter().find(|word| ["at", "when", "after", "every"].contains(*word)) {
        Some(word) => {
            let help = "write \"kill primary drawn for 5s\": the plan's seed draws the times".to_owned();
            Err((format!("a drawn fault has no `{word}`"), Some(help)))
        }
        None => Ok((times, Some(weight))),
    }
}

/// Returns the words of a weight, with a space before them.
pub(crate) fn words(weight: u64) -> String {
    if weight == 1 { format!(" {DRAWN}") } else { format!(" {DRAWN} weight {weight}") }
}

/// Refuses a drawn fault whose end is not known before the phase.
pub(crate) fn has_end(what: &FaultAction, lasts: Option<FaultTime>) -> Result<(), Mistake> {
    let refused = |what: &str| Err((what.to_owned(), Some("write how long it lasts: drawn for 5s".to_owned())));
    match lasts {
        None if !what.is_brief() => refused("a drawn fault has to be healed before the next one"),
        Some(lasts) if lasts.percent > 0.0 => refused("a drawn fault lasts for a time, and for no share of the phase"),
        _ => Ok(()),
    }
}

/// Random pauses and turns.
struct Lot {
    random: SplitMix,
    pause_ms: u64,
    /// Weight of each fault with all those before it.
    weights: Vec<u64>,
}

impl Lot {
    fn new(faults: &[PlannedFault], pause_ms: u64, seed: u64) -> Self {
        let with_those_before = |sum: &mut u64, fault: &PlannedFault| {
            *sum += fault.drawn.unwrap_or_default();
            Some(*sum)
        };
        let weights = faults.iter().scan(0, with_those_before).collect();
        Self { random: SplitMix::new(seed), pause_ms, weights }
    }

    /// Draws a pause between half and one and a half of the given one, in milliseconds.
    fn pause_ms(&mut self) -> u64 {
        self.pause_ms.div_ceil(2) + below(self.random.bits(), self.pause_ms)
    }

    /// Draws the position of a fault, by weight.
    fn turn(&mut self) -> usize {
        let number = below(self.random.bits(), self.weights.last().copied().unwrap_or_default());
        self.weights.partition_point(|weight| *weight <= number)
    }
}

/// Draws the times of a phase's drawn faults between two moments of it. Returns them in order, behind the faults with
/// times of their own. A drawn fault is left out if one of those excludes it at its time. Pause and moments are
/// nanoseconds.
fn scheduled(
    faults: Vec<PlannedFault>,
    (start_ns, end_ns): (u64, u64),
    pause_ns: u64,
    seed: u64,
) -> Result<Vec<PlannedFault>, Mistake> {
    let (drawn, mut all): (Vec<_>, Vec<_>) = faults.into_iter().partition(|fault| fault.drawn.is_some());
    let (fixed, start_ms) = (all.len(), start_ns / MS);
    let mut lot = Lot::new(&drawn, pause_ns / MS, seed);
    let mut at_ms = start_ms + lot.pause_ms();
    let mut met = None;
    for _ in 0..=DRAWN_MAX {
        let fault = &drawn[lot.turn()];
        let lasts_ms = fault.lasts.map_or(0, |lasts| lasts.ns.div_ceil(MS));
        let next_ms = at_ms + lasts_ms + lot.pause_ms();
        if next_ms * MS > end_ns {
            return match met {
                _ if all.len() > fixed => Ok(all),
                Some((fault, other)) => {
                    let help = "choose another seed, `fault_pause` or time, or a longer phase".to_owned();
                    Err((format!("no drawn fault fits: `{fault}` falls into `{other}`"), Some(help)))
                }
                None => {
                    let needed_s = (next_ms - start_ms) as f64 / 1e3;
                    let what = format!("the phase is too short for `{fault}` and its pauses, which take {needed_s}s");
                    let help = format!("give it that time at least: for = \"{needed_s}s\"; or a shorter `fault_pause`");
                    Err((what, Some(help)))
                }
            };
        }
        let timed = fault.drawn_at(at_ms);
        match all[..fixed].iter().find(|other| meet(other, &timed, Some(end_ns))) {
            Some(other) => met = Some((timed.to_string(), other.to_string())),
            None => all.push(timed),
        }
        at_ms = next_ms;
    }
    let what = format!("more than {DRAWN_MAX} drawn faults fit into the phase");
    Err((what, Some("choose a longer `fault_pause`, or a shorter phase".to_owned())))
}

/// Returns the names of the drawn faults of `planned` that are not among those of the schedule.
fn never_drawn<'p>(planned: &'p [PlannedFault], scheduled: &[PlannedFault]) -> Vec<&'p str> {
    let is_drawn = |fault: &PlannedFault| {
        let is_it = |one: &PlannedFault| one.drawn.is_some() && (&one.what, one.lasts) == (&fault.what, fault.lasts);
        scheduled.iter().any(is_it)
    };
    planned.iter().filter(|fault| fault.drawn.is_some() && !is_drawn(fault)).map(PlannedFault::name).collect()
}

/// Returns the seed of a phase's draws, so that phases differ and stores do not.
fn seed_of(seed: u64, phase: &str) -> u64 {
    phase.bytes().fold(seed, |state, byte| mix(state.wrapping_add(GOLDEN) ^ u64::from(byte)))
}

impl PlanReader<'_> {
    /// Gives times to the drawn faults of a drive, or reports the reason that they have none.
    pub(crate) fn draw_faults(&self, phase: &PhaseDraft, drive: &mut Drive, seed: u64, point: &mut Point<'_>) {
        let Some((pause_ns, span)) = &phase.step.drawn else { return };
        if drive.faults.iter().all(|fault| fault.drawn.is_none()) {
            return;
        }
        let scheduled = match drive.limit {
            DriveLimit::DurationNs(ns) => {
                let within = (drive.warmup_ns, drive.warmup_ns.saturating_add(ns));
                let planned = drive.faults.clone();
                let faults = std::mem::take(&mut drive.faults);
                let faults = scheduled(faults, within, pause_ns.at(point), seed_of(seed, &phase.name));
                if let Ok(faults) = &faults {
                    self.note_never_drawn(&planned, faults, &phase.name, seed);
                }
                faults
            }
            DriveLimit::OpsPerClient(_) => {
                let help = "give the phase a duration, or the fault a time: at 10s".to_owned();
                Err(("a phase that counts operations has no length to draw faults in".to_owned(), Some(help)))
            }
        };
        match scheduled {
            Ok(faults) => drive.faults = faults,
            Err((what, help)) => self.problem(span.clone(), what, help),
        }
    }

    /// Notes the drawn faults of `planned` that are not among those of the schedule.
    fn note_never_drawn(&self, planned: &[PlannedFault], scheduled: &[PlannedFault], phase: &str, seed: u64) {
        let never = never_drawn(planned, scheduled).join(", ");
        let notice = format!(
            "phase {phase}, seed {seed}: never drawn: {never}; a longer phase, a shorter `fault_pause` or another seed \
             may draw it"
        );
        let mut notices = self.notices.borrow_mut();
        if !never.is_empty() && !notices.contains(&notice) {
            notices.push(notice);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    const THREE: [&str; 3] = ["kill primary drawn for 5s", "pause replica drawn weight 3 for 2s", "reset all drawn"];

    fn faults(texts: &[&str]) -> Vec<PlannedFault> {
        let parsed = |text: &&str| PlannedFault::parse(text).unwrap_or_else(|(what, _)| panic!("{text}: {what}"));
        texts.iter().map(parsed).collect()
    }

    fn drawn(texts: &[&str], within: (u64, u64), pause_ns: u64, seed: u64) -> Result<Vec<PlannedFault>, Mistake> {
        scheduled(faults(texts), within, pause_ns, seed)
    }

    fn texts(faults: &[PlannedFault]) -> Vec<String> {
        faults.iter().map(PlannedFault::to_string).collect()
    }

    #[test]
    fn faults_are_drawn_by_their_weights() {
        let mut lot = Lot::new(&faults(&THREE), 10_000, 7);
        let mut counts = [0_u32; 3];
        (0..10_000).for_each(|_| counts[lot.turn()] += 1);
        let distance = |(count, share): (u32, f64)| (f64::from(count) - 10_000.0 * share).powi(2) / (10_000.0 * share);
        let chi_squared: f64 = counts.into_iter().zip([0.2, 0.6, 0.2]).map(distance).sum();
        // Limit that one right seed in a thousand exceeds, with two degrees of freedom.
        assert!(chi_squared < 13.8, "{counts:?}");
    }

    #[test]
    fn pauses_are_half_of_the_given_one_to_one_and_a_half() {
        for pause_ms in [100, 101, 10_000] {
            let mut lot = Lot::new(&faults(&THREE), pause_ms, pause_ms);
            let pauses: Vec<u64> = (0..10_000).map(|_| lot.pause_ms()).collect();
            let (least, most) = (pauses.iter().min().unwrap(), pauses.iter().max().unwrap());
            assert!(2 * least >= pause_ms && 2 * most <= 3 * pause_ms, "{least} to {most}");
            assert!(100 * least <= 51 * pause_ms && 100 * most >= 148 * pause_ms, "{least} to {most}");
        }
    }

    #[test]
    fn drawn_faults_come_one_after_the_other_with_pauses_between() {
        let (from_ns, end_ns, pause_ns) = (30 * S, 630 * S, 10 * S);
        let mut all: Vec<Vec<String>> = Vec::new();
        for seed in 0..50 {
            let found = drawn(&THREE, (from_ns, end_ns), pause_ns, seed).unwrap();
            assert_eq!(found, drawn(&THREE, (from_ns, end_ns), pause_ns, seed).unwrap(), "the seed determines them");
            let mut before_ns = from_ns;
            for fault in &found {
                let pause = (pause_ns / 2)..=(pause_ns * 3 / 2);
                assert!(pause.contains(&(fault.at.ns - before_ns)), "{:?}", texts(&found));
                before_ns = fault.at.ns + fault.lasts.unwrap_or_default().ns;
            }
            assert!(before_ns + pause_ns / 2 <= end_ns, "{:?}", texts(&found));
            assert!(before_ns + 2 * (pause_ns * 3 / 2) + 5 * S >= end_ns, "another one fits: {:?}", texts(&found));
            all.push(texts(&found));
        }
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 50, "seeds differ");
        assert_ne!(seed_of(1, "drive"), seed_of(1, "drive_2"));
        assert_ne!(seed_of(1, "drive"), seed_of(2, "drive"));
    }

    #[test]
    fn a_drawn_fault_is_an_ordinary_one_at_its_time() {
        for fault in drawn(&THREE, (0, 300 * S), 10 * S, 1).unwrap() {
            let mut read = PlannedFault::parse(&fault.to_string()).unwrap();
            read.drawn = fault.drawn;
            assert_eq!(read, fault);
            assert!(["kill primary", "pause replica", "reset all"].contains(&fault.name()), "{fault}");
        }
    }

    #[test]
    fn drawn_faults_avoid_those_with_times_that_exclude_them() {
        let mixed =
            ["kill all drawn for 2s", "cut all at 10s for 1s", "restart all at 60s", "pause all at 90s for 1min"];
        for seed in 0..50 {
            let found = drawn(&mixed, (0, 200 * S), 4 * S, seed).unwrap();
            assert_eq!(texts(&found)[..3], mixed[1..], "those with times come first, in order");
            assert_eq!(crate::timeline::overlap(&found, Some(200 * S)), None, "{:?}", texts(&found));
            let is_later = |fault: &PlannedFault| fault.drawn.is_some() && fault.at.ns > 150 * S;
            assert!(found.iter().any(is_later), "they go on afterwards: {:?}", texts(&found));
        }
        let (what, help) = drawn(&["kill all drawn for 2s", "pause all at 0s"], (0, 100 * S), S, 1).unwrap_err();
        assert!(what.starts_with("no drawn fault fits: `kill all at "), "{what}");
        assert!(what.ends_with("s for 2s` falls into `pause all at 0s`"), "{what}");
        assert!(help.unwrap().starts_with("choose another seed"));
    }

    #[test]
    fn faults_that_a_short_phase_never_draws_are_known() {
        let planned = faults(&["kill primary drawn for 5s", "reset all drawn weight 1000000", "cut all at 1s for 1s"]);
        let found = scheduled(planned.clone(), (0, 60 * S), 10 * S, 1).unwrap();
        assert_eq!(never_drawn(&planned, &found), ["kill primary"]);
        let found = scheduled(faults(&THREE), (0, 900 * S), 10 * S, 1).unwrap();
        assert_eq!(never_drawn(&faults(&THREE), &found), [""; 0]);
    }

    #[test]
    fn a_phase_has_at_least_one_drawn_fault_and_not_too_many() {
        let of_length = |ms: u64| drawn(&["kill all drawn for 5s"], (S, S + ms * MS), 10 * S, 3);
        let (what, help) = of_length(14_000).unwrap_err();
        let needed_s = what.rsplit_once(' ').unwrap().1;
        assert!(what.starts_with("the phase is too short for `kill all drawn for 5s` and its pauses"), "{what}");
        assert!(help.unwrap().starts_with(&format!("give it that time at least: for = \"{needed_s}\"; or")));
        let needed_ms = (needed_s.trim_end_matches('s').parse::<f64>().unwrap() * 1e3).round() as u64;
        assert!(of_length(needed_ms - 1).is_err());
        assert_eq!(of_length(needed_ms).unwrap().len(), 1);
        let (what, _) = drawn(&["reset all drawn"], (0, 2_000 * S), S, 3).unwrap_err();
        assert_eq!(what, "more than 1000 drawn faults fit into the phase");
    }

    #[test]
    fn a_drawn_fault_has_a_weight_and_no_time() {
        let [kill, pause, reset]: [PlannedFault; 3] = faults(&THREE).try_into().unwrap();
        assert_eq!([kill.drawn, pause.drawn, reset.drawn], [Some(1), Some(3), Some(1)]);
        assert_eq!(texts(&[kill, pause, reset]), THREE);
        assert_eq!(texts(&faults(&["kill all for 5s drawn weight 1"])), ["kill all drawn for 5s"]);
    }
}
