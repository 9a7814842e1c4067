//! More runs as recordings would give them back: transactions of several statements, a search for the load line,
//! sweeps. `report` tests with them too.

use plimsoll_analysis::line::{LineFold, LineSpec, Next};
use plimsoll_analysis::view::Rung;
use plimsoll_core::{Call, Measure, OpKind, Outcome, Slice, SliceHistogram};
use plimsoll_record::data::{
    Outline, Phase, PhaseEnd, PhaseHeader, PhaseKind, PhaseResult, PhaseState, ResultName, Run, Sample,
};

use crate::study::{Dice, SECOND_NS, complete, goal, series_of, served, times};

/// Returns a trial of transactions of three statements, a few of which were tried again: of the study's last trial
/// only the mixed phase is left.
pub fn transactions() -> Run {
    let mut run = complete();
    let mut trial = run.trials.remove(4);
    run.trials.clear();
    let kind = |name: &str, call: Call, step_of: Option<u16>| OpKind {
        name: name.into(),
        call,
        params: Vec::new(),
        keep_answer: false,
        step_of,
    };
    trial.header.ordinal = 0;
    trial.header.kinds = vec![
        kind("transfer", Call::Steps, None),
        kind("begin", Call::Sql("BEGIN".into()), Some(0)),
        kind("update", Call::Sql("UPDATE a SET b = b + $1 WHERE c = $2".into()), Some(0)),
        kind("end", Call::Sql("END".into()), Some(0)),
        kind("look", Call::Sql("SELECT 1".into()), None),
        kind("transfer retried", Call::Steps, None),
    ];
    let mut mixed = trial.phases.remove(5);
    (mixed.header.trial, mixed.header.ordinal) = (0, 0);
    for slice in &mut mixed.slices {
        let one = |kind, ns, n, outcome| SliceHistogram { outcome, ..served(kind, times([(ns, n)])) };
        slice.histograms = vec![
            one(0, 1_000_000, 900, Outcome::Ok),
            one(1, 100_000, 1_200, Outcome::Ok),
            one(2, 500_000, 900, Outcome::Ok),
            one(2, 500_000, 300, Outcome::Rejected),
            one(3, 300_000, 1_000, Outcome::Ok),
            one(4, 50_000, 400, Outcome::Ok),
            one(5, 3_000_000, 100, Outcome::Ok),
        ];
    }
    trial.phases = vec![mixed];
    trial.answers.clear();
    trial.ledgers.clear();
    run.header.goals = vec![goal("errors", 0.1, "%")];
    run.header.figures.clear();
    run.header.outline.trials = 1;
    run.trials = vec![trial];
    run
}

/// A search for the load line of a store that carries 5,000 operations a second, recorded: a queue whose waiting time
/// grows as queues' do, with its server's CPU.
pub fn searched() -> Run {
    searched_at(5_000.0)
}

/// Returns the same search for a store that carries so many.
pub fn searched_at(most: f64) -> Run {
    let spec =
        LineSpec { goals: vec![goal("p99", 20e6, "ns")], budget_s: 300.0, precision: 0.05, ..LineSpec::default() };
    let mut run = complete();
    let mut trial = run.trials.remove(4);
    run.trials.clear();
    run.samples.clear();
    run.events.clear();
    run.header.outline = Outline { trials: 1, line: Some(spec.clone()), ..Outline::default() };
    run.header.goals = spec.goals.clone();
    run.header.figures.clear();
    run.header.title = "The load line of a queue".into();
    run.header.question = String::new();
    run.series = vec![
        series_of("cpu", "cpu0", "user", "%"),
        series_of("cpu", "cpu1", "user", "%"),
        series_of("server", "", "user", "%"),
        series_of("server", "", "system", "%"),
    ];
    trial.header.ordinal = 0;
    trial.header.start_ns = 0;
    trial.header.labels.clear();
    trial.answers.clear();
    trial.ledgers.clear();
    trial.phases.clear();
    run.trials = vec![trial];
    let mut dice = Dice(4);
    let mut at_ns = 0;
    let mut fold = LineFold::new(&spec, &run.trials[0].header.store_label);
    while let Next::Rung(rung) = fold.search().next() {
        let phase = rung_phase(&rung, most, at_ns, &mut dice, &mut run.samples);
        at_ns = phase.end.end_ns;
        fold.take(
            &plimsoll_record::data::Trial { phases: vec![phase.clone()], ..run.trials[0].clone() },
            &run.samples,
            &run.series,
        );
        run.trials[0].phases.push(phase);
    }
    run.trials[0].end_ns = Some(at_ns);
    run.end_ns = Some(at_ns);
    run
}

fn rung_phase(rung: &Rung, most: f64, at_ns: u64, dice: &mut Dice, samples: &mut Vec<Sample>) -> Phase {
    let start_ns = at_ns + 500_000_000;
    let rate = rung.rate_per_s.unwrap_or(most);
    let whole = (rung.warmup_s + rung.seconds) as u32;
    let mut slices = Vec::new();
    for ordinal in 0..whole {
        let second_ns = start_ns + u64::from(ordinal) * SECOND_NS;
        let done = rate.min(most) * (0.99 + 0.02 * dice.unit());
        // The queue grows second by second when more comes than goes.
        let backlog_s = (rate - most).max(0.0) / most * f64::from(ordinal + 1);
        let mean_s = backlog_s + 1.0 / (most - rate.min(most * 0.9995)).max(2.0);
        let mut waited = || ((backlog_s - (mean_s - backlog_s) * (1.0 - dice.unit()).ln()) * 1e9) as u64;
        let histogram = times((0..done as u64).map(|_| (waited(), 1)));
        let measure = if rung.rate_per_s.is_some() { Measure::Response } else { Measure::Service };
        slices.push(Slice {
            ordinal,
            warmup: f64::from(ordinal) < rung.warmup_s,
            start_ns: second_ns,
            end_ns: second_ns + SECOND_NS,
            histograms: vec![SliceHistogram { measure, ..served(0, histogram) }],
            ..Slice::default()
        });
        let busy = 100.0 * done / most;
        samples.push(Sample {
            at_ns: second_ns + SECOND_NS,
            values: vec![(0, busy), (1, 20.0), (2, 160.0 * done / most), (3, 38.0 * done / most)],
            ..Sample::default()
        });
    }
    let unsent = ((rate - most).max(0.0) * f64::from(whole)) as u64;
    if let Some(last) = slices.last_mut().filter(|_| rung.rate_per_s.is_some()) {
        last.unfinished = Some(times([((f64::from(whole) * 1e9) as u64, unsent)]));
    }
    let end_ns = start_ns + u64::from(whole) * SECOND_NS;
    Phase {
        header: PhaseHeader {
            trial: 0,
            ordinal: rung.ordinal,
            name: format!("rung {}", rung.ordinal + 1),
            kind: PhaseKind::Drive,
            rung: Some(rung.purpose),
            durability: None,
            clients: 8,
            workers: 1,
            rate_per_s: rung.rate_per_s,
            stages: Vec::new(),
            op_timeout_ns: None,
            connect_timeout_ns: None,
            finds_warmup: false,
            start_ns,
        },
        end: PhaseEnd {
            end_ns,
            state: PhaseState::Complete,
            results: vec![PhaseResult { name: ResultName::Cycles, subject: "checkpoints".into(), value: 0.0, n: 1 }],
            ..PhaseEnd::default()
        },
        slices,
        operations: None,
    }
}

/// The mixed phase of the last trial at 1 to 64 clients, three times each, with throughput after a scalability law;
/// with `columns` also over numbers of operations.
pub fn swept(columns: &[u32]) -> Run {
    let mut run = complete();
    let last = run.trials.remove(4);
    run.trials.clear();
    run.header.figures.clear();
    run.header.goals.clear();
    let mut dice = Dice(8);
    let ops = if columns.is_empty() { vec![0] } else { columns.to_vec() };
    for clients in [1u32, 2, 4, 8, 16, 32, 64] {
        for ops in &ops {
            for repeat in 1..=if columns.is_empty() { 5 } else { 3 } {
                let mut trial = last.clone();
                trial.header.ordinal = run.trials.len() as u32;
                trial.header.labels.insert("clients".into(), clients.to_string());
                trial.header.labels.insert("repeat".into(), repeat.to_string());
                if *ops > 0 {
                    trial.header.labels.insert("ops".into(), ops.to_string());
                }
                trial.answers.clear();
                trial.ledgers.clear();
                let mut mixed = trial.phases.remove(5);
                (mixed.header.trial, mixed.header.ordinal, mixed.header.clients) = (trial.header.ordinal, 0, clients);
                let n = f64::from(clients);
                let rate = 800.0 * n / (1.0 + 0.04 * (n - 1.0) + 0.0008 * n * (n - 1.0));
                mixed.slices.truncate(4);
                for slice in &mut mixed.slices {
                    let count = rate * (0.98 + 0.04 * dice.unit()) / (1.0 + f64::from(*ops) / 4_000.0);
                    slice.histograms.truncate(1);
                    slice.histograms[0].histogram = times([((n / rate * 1e9) as u64, count as u64)]);
                }
                trial.phases = vec![mixed];
                run.trials.push(trial);
            }
        }
    }
    run.header.outline.trials = 0;
    run
}
