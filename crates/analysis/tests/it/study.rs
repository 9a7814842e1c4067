//! A run as a recording would give it back: the coupon study on two stores, with latencies from a fixed random
//! sequence. `report` tests with it too.

// By their paths, because `report` names the path of this file.
#[path = "study/header.rs"]
mod header;
#[path = "study/trials.rs"]
mod trials;

use std::sync::OnceLock;

use hdrhistogram::Histogram;
use plimsoll_core::sampler::WITNESS;
use plimsoll_core::{Disturbance, Measure, Outcome, Pause, Setting, SliceHistogram};
use plimsoll_record::Distribution;
use plimsoll_record::data::{
    Event, EventClass, Goal, GoalKind, Level, Phase, PhaseEnd, PhaseKind, PhaseState, Run, RunState, Sample, Series,
    SeriesKind, Trial,
};

use header::header;
use trials::{PROFILES, trial};

pub const SECOND_NS: u64 = 1_000_000_000;

/// Uniform numbers from a fixed seed (splitmix64).
pub struct Dice(pub u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Between 0 and 1.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    #[allow(dead_code, reason = "only simulated queues draw such times")]
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// Around `middle`, skewed to the right as latencies are.
    fn latency_ns(&mut self, middle_ns: f64) -> u64 {
        let tail = if self.unit() < 0.01 { 1.0 + 6.0 * self.unit() } else { 1.0 };
        (middle_ns * (0.6 + 0.5 * self.unit() + 0.3 * self.unit() * self.unit()) * tail) as u64
    }
}

/// The study, complete and with every promise kept.
pub fn complete() -> Run {
    static RUN: OnceLock<Run> = OnceLock::new();
    RUN.get_or_init(make).clone()
}

/// The study with a mixed phase of an hour in its last trial, and nothing after it.
pub fn hour() -> Run {
    let mut run = complete();
    let trial = &mut run.trials[4];
    trial.phases.truncate(6);
    let mixed = &mut trial.phases[5];
    let start_ns = mixed.header.start_ns;
    let ten = mixed.slices.split_off(1);
    mixed.slices = (0..3_600)
        .map(|at| {
            let mut slice = ten[at as usize % ten.len()].clone();
            (slice.ordinal, slice.start_ns, slice.end_ns) =
                (at, start_ns + u64::from(at) * SECOND_NS, start_ns + u64::from(at + 1) * SECOND_NS);
            slice
        })
        .collect();
    let end_ns = start_ns + 3_600 * SECOND_NS;
    mixed.end.end_ns = end_ns;
    trial.end_ns = Some(end_ns);
    run.end_ns = Some(end_ns);
    run.samples = samples(&run.trials, end_ns, &mut Dice(2));
    run
}

fn make() -> Run {
    let mut dice = Dice(1);
    let mut at_ns = 120_000_000;
    let mut trials = Vec::new();
    for (ordinal, profile) in PROFILES.iter().enumerate() {
        let trial = trial(ordinal as u32, profile, at_ns, &mut dice);
        at_ns = trial.end_ns.unwrap() + 80_000_000;
        trials.push(trial);
    }
    let samples = samples(&trials, at_ns, &mut dice);
    let events = vec![
        Event {
            level: Level::Info,
            ..event(60_000_000, None, EventClass::Sampler, "pressure: this kernel has no /proc/pressure")
        },
        event(
            trials[4].phases[5].header.start_ns + 6_200_000_000,
            Some(4),
            EventClass::Store,
            "write stall: 4 tables at level 0, waiting for compaction",
        ),
    ];
    Run {
        header: header(),
        state: RunState::Complete,
        end_ns: Some(at_ns),
        trials,
        series: SERIES.map(|(source, subject, name, unit)| series_of(source, subject, name, unit)).to_vec(),
        samples,
        fine_samples: Vec::new(),
        events,
        recorder_bytes: 1_482_752,
    }
}

/// The study, killed with -9 six seconds into the mixed phase of its third trial.
pub fn killed() -> Run {
    let mut run = complete();
    run.state = RunState::Unfinished;
    run.end_ns = None;
    run.trials.truncate(3);
    let trial = &mut run.trials[2];
    trial.end_ns = None;
    trial.answers.clear();
    trial.ledgers.clear();
    trial.phases.truncate(6);
    let mixed = &mut trial.phases[5];
    mixed.end = PhaseEnd::default();
    mixed.slices.truncate(6);
    let last_ns = mixed.slices[5].end_ns;
    run.samples.retain(|sample| sample.at_ns <= last_ns);
    run.events.retain(|event| event.from_ns <= last_ns);
    run
}

/// Two parts of the study without a common trial or figure.
pub fn apart() -> [Run; 2] {
    let [mut a, mut b] = [complete(), complete()];
    a.trials.truncate(2);
    b.trials.drain(..2);
    b.header.figures.clear();
    [a, b]
}

/// The study with everything wrong that can be: lost writes, wrong answers, an index that disagrees, errors under
/// load, a phase that failed, and texts that try to break out of the page.
pub fn broken() -> Run {
    let mut run = complete();
    let lost_at = run.trials[4].phases[5].slices[5].start_ns;
    let ledger = &mut run.trials[4].ledgers[0];
    ledger.lost = 312;
    ledger.lost_window_ns = Some((lost_at, lost_at + 400_000_000));
    ledger.loss_upper_bound = None;
    ledger.wrong.insert("index_disagrees".into(), 7);
    ledger.examples = vec![
        "coupon 7QX2M4KD90PA: the update by client 3, cycle 4,410, was acknowledged at 38.21 s; the record is still as loaded".into(),
        HOSTILE.into(),
    ];
    ledger.sentence = "312 of 114,500 acknowledged writes are missing.".into();
    let answers = &mut run.trials[1].answers[2];
    (answers.counts.missing, answers.counts.wrong) = (3, 1);
    answers.examples =
        vec![format!("query at 17.4 s: coupon {HOSTILE} had 12 redemptions the whole time and is missing")];
    let mixed = &mut run.trials[2].phases[5];
    for slice in &mut mixed.slices {
        slice.histograms.push(SliceHistogram { outcome: Outcome::Rejected, ..served(2, times([(70_000, 25)])) });
    }
    run.trials[3].phases[2].end.state = PhaseState::Failed(format!("disk I/O error {HOSTILE}"));
    run.header.title = format!("Coupons {HOSTILE}");
    run.trials[0].header.settings.push(Setting {
        name: HOSTILE.into(),
        value: HOSTILE.into(),
        default: None,
        source: "plimsoll".into(),
    });
    run.header.environment.push(("host".into(), HOSTILE.into()));
    run.events.push(Event { level: Level::Error, ..event(lost_at, Some(4), EventClass::Store, HOSTILE) });
    run.series[5].subject = HOSTILE.into();
    run
}

/// A text that closes a script and starts another.
pub const HOSTILE: &str = "</script><img src=x onerror=\"document.title='owned'\"><!-- ' & \u{2028}";

const SERIES: [(&str, &str, &str, &str); 17] = [
    ("cpu", "", "user", "%"),
    ("cpu", "", "system", "%"),
    ("cpu", "", "iowait", "%"),
    ("cpu", "", "steal", "%"),
    ("cpu", "", "idle", "%"),
    ("disk", "vda", "read", "B/s"),
    ("disk", "vda", "written", "B/s"),
    ("disk", "vda", "flushes", "1/s"),
    ("disk", "vda", "writes", "1/s"),
    ("disk", "vda", "flush_time", "ms"),
    ("memory", "", "dirty", "B"),
    ("memory", "", "cached", "B"),
    ("network", "lo", "received", "B/s"),
    ("network", "lo", "sent", "B/s"),
    ("tasks", "", "running", "tasks"),
    ("generator", "", "user", "%"),
    ("generator", "", "rss", "B"),
];

/// A series of levels.
pub fn series_of(source: &str, subject: &str, name: &str, unit: &str) -> Series {
    let [source, subject, name, unit] = [source, subject, name, unit].map(str::to_owned);
    Series { source, subject, name, unit, kind: SeriesKind::Level }
}

/// The run with a witness: in each slice of the phases that drive, a pause of 20 ms that held up one operation in fifty
/// of each kind, for 21 ms.
pub fn paused(mut run: Run) -> Run {
    let witness = (run.series.len() as u32, series_of(WITNESS, "", "lateness", "ns"));
    run.series.push(Series { kind: SeriesKind::Distribution, ..witness.1 });
    let phases = run.trials.iter_mut().flat_map(|trial| &mut trial.phases);
    for slice in phases.filter(|phase| phase.header.kind == PhaseKind::Drive).flat_map(|phase| &mut phase.slices) {
        let mut disturbed = Vec::new();
        for one in &mut slice.histograms {
            let dense = || Histogram::<u64>::new_with_bounds(1, 3_600 * SECOND_NS, 3).unwrap();
            let (mut all, mut held_up) = (dense(), dense());
            one.histogram.add_to(&mut all);
            held_up.record_n(21_000_000, all.len() / 50).unwrap();
            all.add(&held_up).unwrap();
            one.histogram = Distribution::from(&all);
            disturbed.push(SliceHistogram { histogram: Distribution::from(&held_up), ..one.clone() });
        }
        let mut lateness = Histogram::new_with_bounds(1, 3_600 * SECOND_NS, 2).unwrap();
        lateness.record_n(60_000, 399).unwrap();
        lateness.record(20_000_000).unwrap();
        let start_ns = slice.start_ns + SECOND_NS / 4;
        slice.watched = Some(Disturbance {
            disturbed_ns: 40_000_000,
            pauses: vec![Pause { start_ns, end_ns: start_ns + 20_000_000, cpu: 1 }],
            lateness: None,
            disturbed,
        });
        let distributions = vec![(witness.0, Distribution::from(&lateness))];
        run.samples.push(Sample { at_ns: slice.end_ns, distributions, ..Sample::default() });
    }
    run.samples.sort_by_key(|sample| sample.at_ns);
    run
}

/// Makes `phase` one of an open loop, whose operations never waited before they were sent.
pub fn open_loop(phase: &mut Phase) {
    for slice in &mut phase.slices {
        let disturbed = slice.watched.iter_mut().flat_map(|watched| &mut watched.disturbed);
        slice.histograms.iter_mut().chain(disturbed).for_each(|one| one.measure = Measure::Response);
    }
}

/// Distribution of times, each with its number.
pub fn times(counts: impl IntoIterator<Item = (u64, u64)>) -> Distribution {
    let mut histogram = Histogram::new_with_bounds(1, 3_600 * SECOND_NS, 3).unwrap();
    counts.into_iter().for_each(|(ns, n)| histogram.record_n(ns, n).unwrap());
    Distribution::from(&histogram)
}

/// Service times of operations that succeeded.
pub fn served(kind: u16, histogram: Distribution) -> SliceHistogram<Distribution> {
    SliceHistogram { kind, outcome: Outcome::Ok, measure: Measure::Service, histogram }
}

/// A warning.
pub fn event(at_ns: u64, trial: Option<u32>, class: EventClass, text: &str) -> Event {
    let (subject, text) = (String::new(), text.to_owned());
    Event { from_ns: at_ns, until_ns: at_ns, trial, level: Level::Warning, class, subject, text }
}

pub fn goal(what: &str, limit: f64, unit: &str) -> Goal {
    Goal { what: GoalKind::named(what).unwrap(), of: None, limit, unit: unit.into() }
}

fn samples(trials: &[Trial], end_ns: u64, dice: &mut Dice) -> Vec<Sample> {
    let busy = |at_ns: u64| {
        let phase = trials
            .iter()
            .flat_map(|trial| &trial.phases)
            .find(|phase| (phase.header.start_ns..phase.end.end_ns).contains(&at_ns));
        phase.map_or("", |phase| phase.header.name.as_str())
    };
    (1..=end_ns / SECOND_NS)
        .map(|second| {
            let at_ns = second * SECOND_NS;
            let load = match busy(at_ns) {
                "mixed" => 1.0,
                "load" => 0.7,
                _ => 0.15,
            };
            let mut roll = |middle: f64| middle * load * (0.8 + 0.4 * dice.unit());
            let values = [
                roll(48.0),
                roll(19.0),
                roll(17.0),
                0.0,
                40.0,
                roll(2e5),
                roll(9.4e6),
                roll(420.0),
                roll(1300.0),
                roll(310.0),
                roll(6e7),
                3.1e9 + roll(1e8),
                0.0,
                0.0,
                roll(4.0),
                roll(81.0),
                4.4e7,
            ];
            Sample {
                at_ns,
                values: values.iter().enumerate().map(|(series, value)| (series as u32, *value)).collect(),
                ..Sample::default()
            }
        })
        .collect()
}
