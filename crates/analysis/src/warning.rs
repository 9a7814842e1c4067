//! What makes one doubt the result, each with a next step.

use plimsoll_core::Outcome;
use plimsoll_record::data::{PhaseKind, Run, Sample, Series};

use crate::number;
use crate::phase::PhaseFacts;
use crate::stat;
use crate::trial;
use crate::view::{LineView, Warning};

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

/// Cores in use by neither the generator nor the server, as a share of all, that are worth a word. The kernel's own
/// threads work for the store too (write-back, interrupts), so it is not small.
const OTHERS_SHARE: f64 = 0.15;

/// Per cent of the machine's time that the hypervisor gave to others.
const STEAL_PERCENT: f64 = 2.0;

/// A doubt about one phase or trial, before the same doubts are said together.
struct Doubt {
    /// What it is about; the same for all that are said together.
    what: &'static str,
    /// Trial and phase.
    place: String,
    /// The doubt, without its place.
    text: String,
    /// The worst of several is the one that is said; more is worse.
    weight: f64,
    next: &'static str,
}

/// Places of a doubt that are named.
const PLACES_MAX: usize = 3;

/// Everything that makes one doubt: each sort once, by its worst case, with the places that share it.
pub fn warnings(run: &Run, facts: &[Vec<PhaseFacts<'_>>]) -> Vec<Warning> {
    let mut sorts: Vec<(&'static str, Vec<Doubt>)> = Vec::new();
    for doubt in doubts(run, facts) {
        match sorts.iter_mut().find(|(what, _)| *what == doubt.what) {
            Some((_, known)) => known.push(doubt),
            None => sorts.push((doubt.what, vec![doubt])),
        }
    }
    sorts.iter().filter_map(|(_, doubts)| together(doubts)).collect()
}

/// The worst of `doubts`, and where else it is so.
fn together(doubts: &[Doubt]) -> Option<Warning> {
    let worst = doubts.iter().max_by(|a, b| a.weight.total_cmp(&b.weight))?;
    let others: Vec<&str> =
        doubts.iter().map(|doubt| doubt.place.as_str()).filter(|place| *place != worst.place).collect();
    let named = others.iter().copied().take(PLACES_MAX).collect::<Vec<_>>().join("; ");
    let also = match others.len() {
        0 => String::new(),
        n if n <= PLACES_MAX => format!(" The same, less so: {named}."),
        n => format!(" The same, less so, in {} others: {named}; …", number::count(n as u64)),
    };
    Some(Warning { text: format!("{}: {}{also}", worst.place, worst.text), next: worst.next.to_string() })
}

/// Phases in which the generator was late: the worst, where else, and what that moves. Rungs of a search say it
/// themselves.
pub fn late(facts: &[Vec<PhaseFacts<'_>>], lines: &[LineView]) -> Option<Warning> {
    let shown = |facts: &&PhaseFacts<'_>| lines.is_empty() || facts.phase.header.rung.is_none();
    let late = facts.iter().flatten().filter(shown).filter_map(|facts| {
        Some(Doubt {
            what: "late",
            place: place(facts),
            weight: worst_lag_ns(facts).unwrap_or(0) as f64,
            text: format!("{}.", facts.late()?),
            next: "What is marked * is moved by it: response times and what was never sent are higher, rates lower than \
                   the store's own. Service times, errors and answers are not.",
        })
    });
    together(&late.collect::<Vec<_>>())
}

fn place(facts: &PhaseFacts<'_>) -> String {
    format!("{}, phase {}", trial::name(&facts.trial.header), facts.phase.header.name)
}

/// Largest 99th percentile of the generator's lag in any slice that counts.
fn worst_lag_ns(facts: &PhaseFacts<'_>) -> Option<u64> {
    facts.phase.slices.iter().filter(|slice| !facts.is_warmup(slice)).map(|slice| slice.lag_p99_ns).max()
}

fn doubts(run: &Run, facts: &[Vec<PhaseFacts<'_>>]) -> Vec<Doubt> {
    let mut warnings = Vec::new();
    for facts in facts.iter().flatten() {
        let place = place(facts);
        generator(facts, &place, &mut warnings);
        lag(facts, &place, &mut warnings);
        behind(facts, &place, &mut warnings);
        asked(facts, &place, &mut warnings);
        not_found(facts, &place, &mut warnings);
        uneven(facts, &place, &mut warnings);
        unsettled(facts, &place, &mut warnings);
    }
    host(run, facts, &mut warnings);
    ledger(run, &mut warnings);
    warnings
}

fn generator(facts: &PhaseFacts<'_>, place: &str, warnings: &mut Vec<Doubt>) {
    let workers = f64::from(facts.phase.header.workers.max(1));
    let busiest = facts
        .phase
        .slices
        .iter()
        .filter(|slice| !facts.is_warmup(slice) && !slice.drain && slice.end_ns > slice.start_ns)
        .map(|slice| slice.worker_cpu_ns as f64 / (slice.end_ns - slice.start_ns) as f64 / workers)
        .fold(0.0, f64::max);
    if busiest > GENERATOR_BUSY {
        warnings.push(Doubt {
            what: "generator busy",
            place: place.to_owned(),
            weight: busiest,
            text: format!(
                "the generator's workers were busy {} % of a slice; it may be what was measured.",
                number::significant(busiest * 100.0)
            ),
            next: "Give the phase more workers, or drive it from another machine.",
        });
    }
}

fn lag(facts: &PhaseFacts<'_>, place: &str, warnings: &mut Vec<Doubt>) {
    // Where it matters it is said beside the numbers that it moves.
    if !facts.open_loop || facts.late().is_some() {
        return;
    }
    if let Some(worst) = worst_lag_ns(facts).filter(|worst| *worst > LAG_NS) {
        warnings.push(Doubt {
            what: "lag",
            place: place.to_owned(),
            weight: worst as f64,
            text: format!("the generator was late by up to {} (p99 of a slice).", number::nanoseconds(worst)),
            next: "Look at the host's CPU panel: leave a core to the generator, or lower the rate.",
        });
    }
}

/// An open loop that did not do what it was asked for. A search asks for too much on purpose.
fn behind(facts: &PhaseFacts<'_>, place: &str, warnings: &mut Vec<Doubt>) {
    let header = &facts.phase.header;
    let (unsent, done) = (facts.unfinished_count(), facts.count(None, |_| true));
    let share = unsent as f64 / (unsent + done).max(1) as f64;
    if share <= UNSENT_SHARE || header.rung.is_some() {
        return;
    }
    let asked =
        header.rate_per_s.map_or(String::new(), |rate| format!("{} were asked for, ", number::with_unit(rate, "1/s")));
    let rate = facts.rate(None).map_or(0.0, |rate| rate.value);
    warnings.push(Doubt {
        what: "behind",
        place: place.to_owned(),
        weight: share,
        text: format!(
            "it did not keep up: {asked}{} were done, and {} ({} %) were due and never sent.",
            number::with_unit(rate, "1/s"),
            number::plural(unsent, "operation", "operations"),
            number::significant(share * 100.0)
        ),
        next: "Response times are those of a queue that grows: lower the rate, or add clients.",
    });
}

/// Operations that asked for what is not there: their times are of finding nothing.
fn not_found(facts: &PhaseFacts<'_>, place: &str, warnings: &mut Vec<Doubt>) {
    let all = facts.count(None, |_| true);
    let missed = facts.count(None, |outcome| outcome == Outcome::NotFound);
    let share = missed as f64 / all.max(1) as f64;
    if share <= NOT_FOUND_SHARE || facts.phase.header.kind != PhaseKind::Drive {
        return;
    }
    warnings.push(Doubt {
        what: "not found",
        place: place.to_owned(),
        weight: share,
        text: format!(
            "{} of {} ({} %) were not found.",
            number::count(missed),
            number::plural(all, "operation", "operations"),
            number::significant(share * 100.0)
        ),
        next: "Are the data those that the workload takes them for? Look at its parameters and at the URL.",
    });
}

fn asked(facts: &PhaseFacts<'_>, place: &str, warnings: &mut Vec<Doubt>) {
    let seconds = facts.asked_seconds(None);
    let median = stat::median(&seconds);
    if let (Some(min), Some(max), Some(median), 3..) = (seconds.first(), seconds.last(), median, seconds.len())
        && *min > 0.0
        && max / min > ASKED_SPREAD
    {
        warnings.push(Doubt {
            what: "spread of questions",
            place: place.to_owned(),
            weight: max / min,
            text: format!(
                "the same question took from {} to {} (median {}, n = {}).",
                number::seconds(*min),
                number::seconds(*max),
                number::seconds(median),
                seconds.len()
            ),
            next: "Ask more often (`count`), and do not read differences smaller than this spread.",
        });
    }
}

fn uneven(facts: &PhaseFacts<'_>, place: &str, warnings: &mut Vec<Doubt>) {
    if facts.phase.header.kind != PhaseKind::Drive || facts.open_loop {
        return;
    }
    let rates = facts.rates(false);
    if rates.len() < 5 {
        return;
    }
    let (mean, deviation) = (stat::mean(&rates), stat::variance(&rates).sqrt());
    if mean > 0.0 && deviation / mean > THROUGHPUT_SPREAD {
        let low = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let high = rates.iter().copied().fold(0.0, f64::max);
        warnings.push(Doubt {
            what: "uneven",
            place: place.to_owned(),
            weight: deviation / mean,
            text: format!(
                "throughput went from {} to {} a second between slices (standard deviation {} % of the mean, n = {}).",
                number::significant(low),
                number::significant(high),
                number::significant(deviation / mean * 100.0),
                rates.len()
            ),
            next: "One mean does not describe it: look at throughput over time beside the host's panels.",
        });
    }
}

fn unsettled(facts: &PhaseFacts<'_>, place: &str, warnings: &mut Vec<Doubt>) {
    let Some((found, planned)) = facts.settled_after().filter(|(found, planned)| found > planned) else { return };
    let rates = facts.rates(true);
    let mean = |rates: Option<&[f64]>| stat::mean(rates.unwrap_or_default());
    let (before, after) = (mean(rates.get(planned..found)), mean(rates.get(found..)));
    if after > 0.0 && (before / after - 1.0).abs() > UNSETTLED {
        warnings.push(Doubt {
            what: "unsettled",
            place: place.to_owned(),
            weight: (before / after - 1.0).abs(),
            text: format!(
                "throughput settled after {} of its slices, and {} of them were taken for warm-up ({}/s before, {}/s after).",
                number::count(found as u64),
                number::count(planned as u64),
                number::significant(before),
                number::significant(after)
            ),
            next: "Give the phase a longer warm-up, or drive it longer.",
        });
    }
}

/// Other programs on the machine, and other machines on the host, while a phase drove.
fn host(run: &Run, facts: &[Vec<PhaseFacts<'_>>], warnings: &mut Vec<Doubt>) {
    let series = |sampler: &str, names: &[&str]| -> Vec<u32> {
        let fits = |(_, series): &(usize, &Series)| {
            series.source == sampler && series.subject.is_empty() && names.contains(&series.name.as_str())
        };
        run.series.iter().enumerate().filter(fits).map(|(at, _)| at as u32).collect()
    };
    let machine = series("cpu", &["user", "system"]);
    let steal = series("cpu", &["steal"]);
    // The machine's shares are of all cores together, a process's of one core.
    let ours = [series("generator", &["user", "system"]), series("server", &["user", "system"])].concat();
    let cores = run
        .series
        .iter()
        .filter(|series| series.source == "cpu" && !series.subject.is_empty() && series.name == "user")
        .count();
    for facts in facts.iter().flatten().filter(|facts| facts.phase.header.kind == PhaseKind::Drive) {
        let (start_ns, end_ns) = (facts.phase.header.start_ns, facts.phase.end.end_ns);
        let samples: Vec<&Sample> =
            run.samples.iter().filter(|sample| sample.at_ns > start_ns && sample.at_ns <= end_ns).collect();
        if samples.is_empty() {
            continue;
        }
        let mean = |wanted: &[u32]| {
            let of = |sample: &&&Sample| sample.values.iter().any(|(series, _)| wanted.contains(series));
            let with = samples.iter().filter(of);
            let values = with.clone().flat_map(|sample| &sample.values).filter(|(series, _)| wanted.contains(series));
            values.map(|(_, value)| value).sum::<f64>() / with.count().max(1) as f64
        };
        let place = format!("{}, phase {}", trial::name(&facts.trial.header), facts.phase.header.name);
        let others = mean(&machine) / 100.0 * cores as f64 - mean(&ours) / 100.0;
        if cores > 0 && !ours.is_empty() && others / cores as f64 > OTHERS_SHARE {
            warnings.push(Doubt {
                what: "others",
                place: place.clone(),
                weight: others,
                text: format!(
                    "{} of {cores} cores were in use by neither the generator nor the server.",
                    number::significant(others)
                ),
                next: "Stop what else runs on this machine, and run again.",
            });
        }
        let stolen = mean(&steal);
        if stolen > STEAL_PERCENT {
            warnings.push(Doubt {
                what: "steal",
                place,
                weight: stolen,
                text: format!("the hypervisor took {} % of the CPU time away.", number::significant(stolen)),
                next: "Run on a machine that is not shared, or repeat and compare.",
            });
        }
    }
}

fn ledger(run: &Run, warnings: &mut Vec<Doubt>) {
    for trial in &run.trials {
        if trial.ledgers.iter().any(|ledger| !ledger.complete) {
            warnings.push(Doubt {
                what: "ledger",
                place: trial::name(&trial.header),
                weight: 0.0,
                text: "the ledger could not keep up and vouches for nothing.".to_string(),
                next: "Drive with fewer clients or a shorter phase; the ledger's limits stand in the book.",
            });
        }
    }
}
