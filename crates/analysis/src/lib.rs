//! Meaning of a recording: every number that any report shows is derived here, once.
//!
//! [`view()`] takes a run as `record` read it back ([`plimsoll_record::data::Run`]) and returns a [`RunView`]:
//! verdict, goals, figures beside the published ones, every trial with its phases, latencies, answers and
//! ledger, the series and bins of the plots, and warnings. `report` formats it and calculates nothing. A run that goes on
//! is told to a [`Fold`](fold::Fold), slice by slice.
//!
//! It is not a reader of recordings and knows no store: no I/O, no clock. The same run gives the same view on any machine.
//! Modules use each other in one direction: those below what stands above them.
//!
//! | module | what it derives |
//! |---|---|
//! | [`stat`], [`usl`] | intervals, tests, autocorrelation, warm-up: pure functions of numbers; the scalability law |
//! | [`number`] | numbers as text, the same in sentences and in tables |
//! | [`mod@view`] | the types of the view: the contract with `report`, and the shape of its JSON |
//! | `latency` | merged histograms, percentiles that have enough samples, percentile curves |
//! | `phase` | what a phase came to, by the names that formulas use; it takes slice after slice |
//! | `pauses` | operations undisturbed by the machine's own pauses, and how long it stood still |
//! | `nodes` | what each server answered, where operations go to several, and which is slower than all others |
//! | `name` | what trials and phases are called |
//! | [`quantities`] | quantities of all phases and figures of the plan, by name |
//! | [`selection`] | operations of a time and latency beside the others of their phases |
//! | [`slices`] | what a slice came to; all of them as rows, for those who go on calculating elsewhere |
//! | [`spans`], [`samples`], [`operations`] | what happened at which time, the values of every series, and operations one by one: as rows, likewise |
//! | [`fold`] | a run as it goes on |
//! | [`until`] | points that are repeated further |
//! | [`live`] | the report's figures of a run in progress, in bounded memory |
//! | `step` | statements of a transaction: timed, and no operations |
//! | [`mod@size`] | how large the data are beside the store's cache and its machine's memory |
//! | `host` | the samplers' series, grouped into panels |
//! | `resource` | resources that were sampled: names in sentences, capacities, use in words |
//! | `figure` | formulas evaluated per store and per rest of the sweep |
//! | `ratio` | which result of a ratio is over which, and which is better above 1 |
//! | `answer` | the answer of the figures to the plan's question, if they have one |
//! | `known` | numbers of a ledger's check, where the store could be read |
//! | `ticks` | operations that ended in each 10 ms of a phase |
//! | [`failover`] | failovers beside the published formulas of their stores |
//! | `faults` | faults of the plan: what clients noticed of each, and when throughput was back |
//! | `trial` | trials and phases as reports show them |
//! | [`mod@line`] | the search for the load line, rung by rung, and its result |
//! | [`compare`] | two runs side by side |
//! | [`mod@ab`] | two sides in turn: what the pairs decide, and what is driven next |
//! | `goal` | what had to hold, and whether it did |
//! | `promise` | what stores kept when their disk lost power |
//! | `broken_with` | settings with which data was lost or wrong, and with no others |
//! | `warning` | what speaks against the result, each with a next step |
//! | `acts` | actions on servers and disks: commands for a lab, and faults of the plan |
//! | `meanwhile` | actions, missing nodes and errors in conspicuous seconds |
//! | `findings` | causes of slow moments: a test of every series against them, by circular time shifts |
//! | `stall` | seconds in which little went on |
//! | `peak` | seconds in which operations took long |
//! | `sweep` | what was driven at every point of a sweep |
//! | `timeline` | series, heat map and percentile curves on the run's time axis |
//! | `summary` | what came of it in a line, in the units of the job |
//! | `kept` | sentences of runs in which everything held |
//! | `verdict` | the one sentence, and what it rests on |
//!
//! # Rules
//! - Warm-up slices count for nothing except the time axis.
//! - Steps within operations are in no total: not in counts, rates, errors, latencies or goals.
//! - Response time where there is one (open loop), service time otherwise (closed loop, where they are equal).
//! - *All kinds together* leaves rejected operations out: a refusal is fast and would flatter the store. Unknown
//!   and unfinished operations stand in it with the time they waited.
//! - A percentile is given only with at least ten samples above it: p99 needs 1,000.

pub mod ab;
mod acts;
mod answer;
mod broken_with;
pub mod compare;
mod disk_fault;
pub mod failover;
mod faults;
mod figure;
mod findings;
pub mod fold;
mod goal;
mod host;
mod kept;
mod known;
pub mod latency;
pub mod line;
pub mod live;
mod meanwhile;
mod name;
mod nodes;
pub mod number;
pub mod operations;
mod outage;
mod outcomes;
mod pauses;
mod peak;
mod phase;
pub mod promise;
pub mod quantities;
mod ratio;
mod resource;
pub mod samples;
pub mod selection;
mod shortfall;
pub mod size;
pub mod slices;
pub mod spans;
mod stages;
mod stall;
pub mod stat;
mod step;
mod summary;
mod sweep;
mod ticks;
mod timeline;
mod trial;
pub mod until;
pub mod usl;
mod verdict;
pub mod view;
mod warning;
mod watched;

use plimsoll_record::data;

pub use crate::latency::Times;
pub use crate::name::LOAD_STEP;
use crate::phase::PhaseFacts;
pub use crate::summary::PROMISES_MAX;
pub use crate::view::RunView;

/// Makes every phase in which the generator was late void: its numbers stand nowhere.
pub fn take_late_for_void(run: &mut data::Run) {
    for phase in run.trials.iter_mut().flat_map(|trial| &mut trial.phases) {
        if let Some(why) = phase.end.late.take() {
            phase.end.state = data::PhaseState::Void(why);
        }
    }
}

/// Derives all contents of reports from `run`.
pub fn view(run: &data::Run) -> RunView {
    let facts: Vec<Vec<PhaseFacts<'_>>> = run.trials.iter().map(PhaseFacts::of).collect();
    let end_ns = timeline::last_ns(run);
    let lines = line::lines(run);
    let goals = goal::goals(run, &facts, &lines);
    let figures = figure::figures(run, &facts);
    let trials = trial::trials(run, &facts);
    let late = warning::late(&facts, &lines);
    let ab = ab::view(run);
    let promises = promise::promises(run);
    let broken_with = broken_with::broken_with(run, &trials);
    let disk_faults = disk_fault::disk_faults(run);
    let faults = faults::faults(run, &facts);
    let formulas = failover::formulas(run, &faults);
    let all_faults = faults::with_skipped(faults.clone(), &facts);
    let has_findings = ab.is_none() && promises.is_empty();
    let findings = if has_findings { findings::findings(run, &facts) } else { Vec::new() };
    let told = |placed, phase: &str| match has_findings {
        true => findings::told(run, &facts, &findings, (placed, phase)),
        false => Err("a comparison, or a trial of promises, has no findings".to_owned()),
    };
    let answer = answer::answer(run, &figures, &told).map(|answer| failover::answered(answer, &formulas));
    let verdict = match run.header.outline.watched {
        true => watched::verdict(run, &goals, &trials),
        false => verdict::verdict(run, &goals, &trials, &lines, ab.as_ref(), &promises, &faults),
    };
    let fallen = warning::fallen(&facts, &faults).into_iter().collect();
    let warnings = [warning::skipped(&all_faults), fallen, warning::warnings(run, &facts)].concat();
    let named = |(name, value): &(String, String)| view::Named { name: name.clone(), value: value.clone() };
    // Of a search or a comparison in turn each trial says little, and together they are no sweep.
    let is_series = !lines.is_empty() || ab.is_some();
    RunView {
        format: view::FORMAT,
        summary: summary::summary(run, &facts, &lines, ab.as_ref(), &promises, &disk_faults, &broken_with),
        verdict,
        notices: run.header.notices.clone(),
        run: trial::run_facts(run, answer.as_ref().map_or("", |answer| &answer.sentence), end_ns),
        answer,
        goals,
        stores: run.stores(),
        headlines: figure::headlines(&figures),
        figures,
        truth: if is_series { kept::truth(run, &trials) } else { None },
        findings: findings::combined(run, &facts, findings),
        stalls: if ab.is_none() { stall::stalls(run, &facts) } else { Vec::new() },
        peaks: if ab.is_none() { peak::peaks(run, &facts) } else { Vec::new() },
        // The rate of a drive that ends with a power cut is not a measurement of the store.
        sweeps: if is_series || !promises.is_empty() { Vec::new() } else { sweep::sweeps(run, &facts) },
        lines,
        promises,
        broken_with,
        disk_faults,
        fault_repeats: faults::repeats(run, &faults),
        fault_losses: faults::losses(run, &faults),
        faults: all_faults,
        formulas,
        ab,
        durability: trial::durability(run),
        trials,
        left_out: run.header.left_out.clone(),
        warnings,
        late,
        events: trial::events(run),
        environment: run.header.environment.iter().map(named).collect(),
        plots: timeline::plots(run, &facts, end_ns),
    }
}
