//! Warnings: what speaks against the result, each with a next step.

use indexmap::IndexMap;
use plimsoll_core::Outcome;
use plimsoll_core::sampler::{HALT_POLL_NS, HALTPOLL, IDLE_DRIVER};
use plimsoll_record::data::{PhaseKind, Run, Sample, Series, Trial};

use crate::host;
use crate::name;
use crate::number;
use crate::phase::PhaseFacts;
use crate::stat;
use crate::view::{FaultView, LineView, Warning};

/// Share of its workers' cores above which the generator may be what was measured.
const GENERATOR_BUSY: f64 = 0.85;

/// Lag (99th percentile of a slice) that is worth a word, in nanoseconds.
const LAG_NS: u64 = 1_000_000;

/// Share of an open loop's operations that were due and never sent, above which it did not keep up: what is in flight
/// when the time is up is no sign of it.
const UNSENT_SHARE: f64 = 0.01;

/// Share of operations that asked for what is not there, above which the data may be others than the workload's.
const NOT_FOUND_SHARE: f64 = 0.01;

/// Spread of repeated questions, longest over shortest, above which a single figure says little.
const ASKED_SPREAD: f64 = 1.5;

/// Coefficient of variation of the slices' throughput above which a mean hides something.
const THROUGHPUT_SPREAD: f64 = 0.25;

/// Difference of throughput before and after it settled that is worth a word.
const UNSETTLED: f64 = 0.05;

/// Share of the throughput before the first fault below which that after all effects is worth a word, and the fewest slices
/// of either.
const FALLEN: f64 = 0.75;
const FALLEN_SLICES: usize = 3;

/// Cores in use by neither the generator nor the server, as a share of all, that are worth a word. The kernel's own
/// threads work for the store too (write-back, interrupts), so it is not small.
const OTHERS_SHARE: f64 = 0.15;

/// Per cent of the machine's time that the hypervisor gave to others.
const STEAL_PERCENT: f64 = 2.0;

/// Share of an open loop's operations that pauses disturbed, from which they are in its p99.
const DISTURBED_SHARE: f64 = 0.01;

/// Figures that a lack of processor time can have changed, and those that it cannot.
const SPOILED: &str = "times may be longer, the high percentiles most, and throughput lower than the store's own; \
                       wrong answers and lost writes are not affected";

/// A warning about one place, before those with the same next step are said together.
struct Case {
    /// The worst of several is the one that is said; more is worse.
    weight: f64,
    /// Observation, without its place.
    text: String,
    /// Next step for the user.
    next: &'static str,
}

/// Place of the observation, as trial and phase, with its case.
type Placed = (String, Case);

/// Places of a warning that are named.
const PLACES_MAX: usize = 3;

/// Returns all warnings: each next step once, with the worst case that needs it, and the places that share it. A run
/// that only watched has none.
pub fn warnings(run: &Run, facts: &[Vec<PhaseFacts<'_>>]) -> Vec<Warning> {
    // They are about the generator, and about what a plan promises of its load.
    if run.header.outline.watched {
        return Vec::new();
    }
    let of_phase: [fn(&PhaseFacts<'_>) -> Option<Case>; 7] =
        [generator, lag, behind, asked, not_found, uneven, unsettled];
    let phases = || facts.iter().flatten();
    let seen = phases().flat_map(|facts| {
        of_phase.iter().filter_map(move |check| check(facts)).map(move |case| (name::place(facts), case))
    });
    let others = phases()
        .flat_map(|facts| machine(run, facts).chain(idle(run, facts)).map(move |case| (name::place(facts), case)));
    let mut sorts: IndexMap<&str, Vec<Placed>> = IndexMap::new();
    for case in seen.chain(others).chain(run.trials.iter().filter_map(ledger)).chain(run.trials.iter().filter_map(read))
    {
        sorts.entry(case.1.next).or_default().push(case);
    }
    sorts.values().filter_map(|cases| together(cases)).collect()
}

/// Returns a warning for each fault of a phase of which repeats were skipped, with their number.
pub fn skipped(faults: &[FaultView]) -> Vec<Warning> {
    let mut groups: IndexMap<(&str, &str, &str), Vec<&FaultView>> = IndexMap::new();
    for one in faults {
        groups.entry((&one.trial, &one.phase, &one.planned)).or_default().push(one);
    }
    let of_group = |((trial, phase, fault), all): ((&str, &str, &str), Vec<&FaultView>)| {
        let skips: Vec<&FaultView> = all.iter().copied().filter(|one| one.is_skipped).collect();
        let why = skips.first()?.error.as_deref()?;
        let taken = number::count(all.iter().filter(|one| one.taken_s.is_some()).count() as u64);
        let of = number::plural(all.len() as u64, "time", "times");
        let times = match skips.len() as u64 {
            1 => "once".to_owned(),
            2 => "twice".to_owned(),
            n => format!("{} times", number::count(n)),
        };
        Some(Warning {
            text: format!("{trial}, phase {phase}: `{fault}` took effect {taken} of {of}; {times} {why}."),
            next: "Repeat the fault less often (`every`, `fault_pause`), so that a node has the role again before the \
                   next time."
                .to_owned(),
        })
    };
    groups.into_iter().filter_map(of_group).collect()
}

/// Returns a warning for closed loops of which throughput was lower after the effects of all faults than before the first,
/// although it had been back. A fault without recovery reports that itself.
pub fn fallen(facts: &[Vec<PhaseFacts<'_>>], faults: &[FaultView]) -> Option<Warning> {
    let of_phase = |facts: &PhaseFacts<'_>| {
        let place = (facts.trial.header.ordinal, facts.phase.header.ordinal);
        let own = || faults.iter().filter(|one| one.place == place);
        let is_known = own().all(|one| one.recovered_s.is_some()) && facts.phase.header.stages.is_empty();
        let until_ns = own().map(|one| one.effect_ns.1).max().filter(|_| is_known && !facts.open_loop)?;
        let before = facts.rates_before_faults(false);
        let later = facts.slice_rates(false).filter(|(slice, _)| slice.start_ns >= until_ns);
        let after: Vec<f64> = later.map(|(_, rate)| rate).collect();
        let share = stat::mean(&after) / stat::mean(&before);
        (before.len().min(after.len()) >= FALLEN_SLICES && share < FALLEN).then(|| {
            let case = Case {
                weight: 1.0 - share,
                text: format!(
                    "throughput was {}/s before the first fault, and {}/s after the effects of all faults.",
                    number::significant(stat::mean(&before)),
                    number::significant(stat::mean(&after))
                ),
                next: "A recovery ends when throughput is back for a second, and does not show a later fall: look at \
                       throughput over time, and repeat the run without the fault to see if the fault is the cause.",
            };
            (name::place(facts), case)
        })
    };
    together(&facts.iter().flatten().filter_map(of_phase).collect::<Vec<_>>())
}

/// The worst of `cases`, and where else it is so.
fn together(cases: &[Placed]) -> Option<Warning> {
    let (place, worst) = cases.iter().max_by(|(_, a), (_, b)| a.weight.total_cmp(&b.weight))?;
    let others: Vec<&str> = cases.iter().map(|(place, _)| place.as_str()).filter(|other| other != place).collect();
    let named = others.iter().copied().take(PLACES_MAX).collect::<Vec<_>>().join("; ");
    let also = match others.len() {
        0 => String::new(),
        n if n <= PLACES_MAX => format!(" Also, to a lesser extent: {named}."),
        n => format!(" Also, to a lesser extent, in {} others: {named}; …", number::count(n as u64)),
    };
    Some(Warning { text: format!("{place}: {}{also}", worst.text), next: worst.next.to_string() })
}

/// Phases in which the generator was late: the worst, where else, and what that moves. Rungs of a search say it
/// themselves.
pub fn late(facts: &[Vec<PhaseFacts<'_>>], lines: &[LineView]) -> Option<Warning> {
    let shown = |facts: &&PhaseFacts<'_>| lines.is_empty() || facts.phase.header.rung.is_none();
    let late = facts.iter().flatten().filter(shown).filter_map(|facts| {
        let case = Case {
            weight: worst_lag_ns(facts).unwrap_or(0) as f64,
            text: format!("{}.", facts.late()?),
            next: "It affects the values marked *: response times and operations never sent are higher, rates lower than \
                   the store's own. Service times, errors and answers are not affected.",
        };
        Some((name::place(facts), case))
    });
    together(&late.collect::<Vec<_>>())
}

/// Largest 99th percentile of the generator's lag in any slice that counts.
pub(crate) fn worst_lag_ns(facts: &PhaseFacts<'_>) -> Option<u64> {
    facts.phase.slices.iter().filter(|slice| !facts.is_warmup(slice)).map(|slice| slice.lag_p99_ns).max()
}

fn generator(facts: &PhaseFacts<'_>) -> Option<Case> {
    let workers = f64::from(facts.phase.header.workers.max(1));
    let busiest = facts
        .counted()
        .filter(|slice| slice.end_ns > slice.start_ns)
        .map(|slice| slice.worker_cpu_ns as f64 / (slice.end_ns - slice.start_ns) as f64 / workers)
        .fold(0.0, f64::max);
    (busiest > GENERATOR_BUSY).then(|| Case {
        weight: busiest,
        text: format!(
            "the generator's workers were busy {} % of a slice (the unit of time in a recording); the measurement may be one of the generator.",
            number::significant(busiest * 100.0)
        ),
        next: "Give the phase more workers, or drive it from another machine.",
    })
}

fn lag(facts: &PhaseFacts<'_>) -> Option<Case> {
    // Where it matters it is said beside the numbers that it moves.
    if !facts.open_loop || facts.late().is_some() {
        return None;
    }
    worst_lag_ns(facts).filter(|worst| *worst > LAG_NS).map(|worst| Case {
        weight: worst as f64,
        text: format!(
            "the generator was late by up to {} (p99 of a slice, the unit of time in a recording).",
            number::nanoseconds(worst)
        ),
        next: "Look at the host's CPU panel: leave a core to the generator, or lower the rate.",
    })
}

/// An open loop that did not do what it was asked for. A search asks for too much on purpose.
fn behind(facts: &PhaseFacts<'_>) -> Option<Case> {
    let header = &facts.phase.header;
    let (unsent, done) = (facts.unfinished_count(), facts.count(None, |_| true));
    let share = unsent as f64 / (unsent + done).max(1) as f64;
    if share <= UNSENT_SHARE || header.rung.is_some() {
        return None;
    }
    let asked =
        header.rate_per_s.map_or(String::new(), |rate| format!("{} were asked for, ", number::with_unit(rate, "1/s")));
    let rate = facts.rate(None).map_or(0.0, |rate| rate.value);
    Some(Case {
        weight: share,
        text: format!(
            "it did not keep up: {asked}throughput was {}, and {} ({} %) were due and never sent.",
            number::with_unit(rate, "1/s"),
            number::plural(unsent, "operation", "operations"),
            number::significant(share * 100.0)
        ),
        next: match facts.first_fault_ns() {
            Some(_) => {
                "Response times include the backlog of the faults: drive for longer after them, or lower the rate."
            }
            None => "Response times include a growing queue: lower the rate, or add clients.",
        },
    })
}

/// Operations that asked for what is not there: their times are of finding nothing.
fn not_found(facts: &PhaseFacts<'_>) -> Option<Case> {
    let all = facts.count(None, |_| true);
    let missed = facts.count(None, |outcome| outcome == Outcome::NotFound);
    let share = missed as f64 / all.max(1) as f64;
    (share > NOT_FOUND_SHARE && facts.phase.header.kind == PhaseKind::Drive).then(|| Case {
        weight: share,
        text: format!(
            "{} of {} ({} %) were not found.",
            number::count(missed),
            number::plural(all, "operation", "operations"),
            number::significant(share * 100.0)
        ),
        next: if facts.trial.phases.iter().any(|phase| phase.header.kind == PhaseKind::Load) {
            "This run loaded the data: a replica that answers reads may be behind its primary, or operations removed \
             the records before."
        } else {
            "The data may not be those that the workload expects: check its parameters and the URL."
        },
    })
}

fn asked(facts: &PhaseFacts<'_>) -> Option<Case> {
    let seconds = facts.asked_seconds(None);
    let (min, max, median) = (*seconds.first()?, *seconds.last()?, stat::median(&seconds)?);
    (seconds.len() >= 3 && min > 0.0 && max / min > ASKED_SPREAD).then(|| Case {
        weight: max / min,
        text: format!(
            "the same query took from {} to {} (median {}, n = {}).",
            number::seconds(min),
            number::seconds(max),
            number::seconds(median),
            seconds.len()
        ),
        next: "Ask more often (`count`), and ignore differences smaller than this spread.",
    })
}

fn uneven(facts: &PhaseFacts<'_>) -> Option<Case> {
    if facts.phase.header.kind != PhaseKind::Drive || facts.open_loop {
        return None;
    }
    let rates = facts.rates(false);
    let (mean, deviation) = (stat::mean(&rates), stat::variance(&rates).sqrt());
    (rates.len() >= 5 && mean > 0.0 && deviation / mean > THROUGHPUT_SPREAD).then(|| Case {
        weight: deviation / mean,
        text: format!(
            "throughput went from {} to {} a second between slices (standard deviation {} % of the mean, n = {}).",
            number::significant(rates.iter().copied().fold(f64::INFINITY, f64::min)),
            number::significant(rates.iter().copied().fold(0.0, f64::max)),
            number::significant(deviation / mean * 100.0),
            rates.len()
        ),
        next: "The mean does not describe it: compare throughput over time with the host's panels.",
    })
}

fn unsettled(facts: &PhaseFacts<'_>) -> Option<Case> {
    let (found, planned) = facts.settled_after().filter(|(found, planned)| found > planned)?;
    let rates = facts.rates_before_faults(true);
    let mean = |rates: Option<&[f64]>| stat::mean(rates.unwrap_or_default());
    let (before, after) = (mean(rates.get(planned..found)), mean(rates.get(found..)));
    (after > 0.0 && (before / after - 1.0).abs() > UNSETTLED).then(|| Case {
        weight: (before / after - 1.0).abs(),
        text: format!(
            "throughput settled after {} of its slices, and {} of them were taken for warm-up ({}/s before, {}/s after).",
            number::count(found as u64),
            number::count(planned as u64),
            number::significant(before),
            number::significant(after)
        ),
        next: "Give the phase a longer warm-up, or drive it longer.",
    })
}

/// Warns of other programs on the machine, and other machines on the host, during a drive.
fn machine(run: &Run, facts: &PhaseFacts<'_>) -> impl Iterator<Item = Case> + use<> {
    let (start_ns, end_ns) = (facts.phase.header.start_ns, facts.phase.end.end_ns);
    let inside = |sample: &&Sample| sample.at_ns > start_ns && sample.at_ns <= end_ns;
    let is_driven = facts.phase.header.kind == PhaseKind::Drive;
    let samples: Vec<&Sample> = run.samples.iter().filter(inside).filter(|_| is_driven).collect();
    let mean = |wanted: &[u32]| {
        let of = |sample: &&&Sample| sample.values.iter().any(|(series, _)| wanted.contains(series));
        let with = samples.iter().filter(of);
        let values = with.clone().flat_map(|sample| &sample.values).filter(|(series, _)| wanted.contains(series));
        values.map(|(_, value)| value).sum::<f64>() / with.count().max(1) as f64
    };
    let of = |source: &str, names: &[&str]| host::positions(&run.series, source, names);
    let ours = [of("generator", &["user", "system"]), of("server", &["user", "system"])].concat();
    let is_core = |series: &&Series| series.source == "cpu" && !series.subject.is_empty() && series.name == "user";
    let cores = run.series.iter().filter(is_core).count();
    // The machine's shares are of all cores together, a process's of one core.
    let others = mean(&of("cpu", &["user", "system"])) / 100.0 * cores as f64 - mean(&ours) / 100.0;
    // Of a server that is not ours, and may run here, it is not known what it takes.
    let place = &facts.trial.header.place;
    let may_be_server = of("server", &["user"]).is_empty()
        && (place.starts_with('/') || ["127.", "localhost", "[::1]"].iter().any(|here| place.contains(here)));
    let is_shared = cores > 0 && !ours.is_empty() && !may_be_server && others / cores as f64 > OTHERS_SHARE;
    let others = is_shared.then(|| Case {
        weight: others,
        text: format!(
            "{} of {cores} cores were in use by neither the generator nor the server: {SPOILED}.",
            number::significant(others)
        ),
        next: "Stop other programs on this machine, and repeat the run.",
    });
    let stolen = mean(&of("cpu", &["steal"]));
    let stolen = (stolen > STEAL_PERCENT).then(|| Case {
        weight: stolen,
        text: format!("the hypervisor took {} % of the CPU time away: {SPOILED}.", number::significant(stolen)),
        next: "Repeat the run and compare, or use a machine that is not shared.",
    });
    others.into_iter().chain(stolen)
}

/// Warns of idle processors that halt at once, if pauses disturbed an open loop: a host that runs a halted processor late
/// is such a pause. Nothing is known of the processors in a recording without these facts.
fn idle(run: &Run, facts: &PhaseFacts<'_>) -> Option<Case> {
    let is_fact = |fact: (&str, &str)| run.header.environment.iter().any(|(name, value)| (&**name, &**value) == fact);
    let halts = is_fact((IDLE_DRIVER, HALTPOLL)) && is_fact((HALT_POLL_NS, "0"));
    if !halts || !facts.open_loop || facts.phase.header.kind != PhaseKind::Drive {
        return None;
    }
    let share = facts.pauses(run)?.disturbed_ops as f64 / facts.waited(None).len().max(1) as f64;
    (share >= DISTURBED_SHARE).then(|| Case {
        weight: share,
        text: format!(
            "pauses of the machine disturbed {} % of the operations, and its idle processors do not poll before they \
             halt.",
            number::significant(share * 100.0)
        ),
        next: "`plimsoll doctor` measures how late an idle processor wakes, and says how to make it poll.",
    })
}

/// Records that were read in a state that is gone: what acts on such a read is not undone with it.
fn read(trial: &Trial) -> Option<Placed> {
    let n = trial.ledgers.iter().map(|ledger| ledger.read_then_lost).max().filter(|n| *n > 0)?;
    let case = Case {
        weight: n as f64,
        text: format!(
            "{} had been read before the power cut in a state that is gone; it was never acknowledged.",
            number::plural(n, "record", "records")
        ),
        next: "The store shows a commit to others before it is durable, as InnoDB does. What is done because of such a \
               read is not undone with it. In a store with one log, an acknowledged write of the reader's own makes \
               what was read durable too.",
    };
    Some((name::trial(&trial.header), case))
}

fn ledger(trial: &Trial) -> Option<Placed> {
    let is_incomplete = trial.ledgers.iter().any(|ledger| !ledger.complete && ledger.unread == 0);
    is_incomplete.then(|| {
        let case = Case {
            weight: 0.0,
            text: "the ledger could not keep up, so it proves nothing.".to_string(),
            next: "Drive with fewer clients or a shorter phase; the book lists the ledger's limits.",
        };
        (name::trial(&trial.header), case)
    })
}
