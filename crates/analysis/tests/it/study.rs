//! A run as a recording would give it back: the coupon study on two stores, with latencies from a fixed random
//! sequence. `report` tests with it too.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use hdrhistogram::Histogram;
use plimsoll_core::sampler::WITNESS;
use plimsoll_core::{
    Access, Call, Disturbance, Durability, Footprint, Measure, OpKind, Outcome, Pause, RecordsCall, Setting, Slice,
    SliceHistogram, ValueType,
};
use plimsoll_record::data::{
    About, AnswerCheck, AnswerCounts, Asked, Event, EventClass, Figure, Goal, GoalKind, LedgerCheck, Level, Outline,
    Phase, PhaseEnd, PhaseHeader, PhaseKind, PhaseResult, PhaseState, PublishedValue, ResultName, Run, RunHeader,
    RunState, Sample, Series, SeriesKind, Trial, TrialHeader,
};

use plimsoll_record::Distribution;

pub const SECOND_NS: u64 = 1_000_000_000;
const RECORDS: u64 = 100_000;
const PLAN_TEXT: &str = include_str!("../../../../studies/coupons.toml");

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

/// Profile of a trial of the study.
struct TrialProfile {
    store: &'static str,
    version: &'static str,
    index: &'static str,
    load_s: f64,
    warm_s: f64,
    cold_s: f64,
    /// Middle latencies of read, update and query, and operations of each in a second; none without a mixed phase.
    mixed: Option<[(f64, u64); 3]>,
    index_bytes: Option<u64>,
    plan: &'static str,
}

const PROFILES: [TrialProfile; 5] = [
    TrialProfile {
        store: "sqlite",
        version: "3.50.2",
        index: "none",
        load_s: 0.412,
        warm_s: 0.0117,
        cold_s: 0.0341,
        mixed: None,
        index_bytes: Some(0),
        plan: "SCAN coupons",
    },
    TrialProfile {
        store: "sqlite",
        version: "3.50.2",
        index: "own",
        load_s: 0.534,
        warm_s: 0.000_61,
        cold_s: 0.0092,
        mixed: Some([(9_800.0, 18_000), (4_100_000.0, 230), (640_000.0, 41)]),
        index_bytes: Some(1_921_024),
        plan: "SEARCH coupons USING INDEX coupons_redeemed (redeemed>? AND redeemed<?)",
    },
    TrialProfile {
        store: "sqlite",
        version: "3.50.2",
        index: "keyindex",
        load_s: 0.718,
        warm_s: 0.001_43,
        cold_s: 0.0123,
        mixed: Some([(11_200.0, 15_500), (4_300_000.0, 220), (1_500_000.0, 36)]),
        index_bytes: None,
        plan: "range of index keys, then one get per match",
    },
    TrialProfile {
        store: "fjall",
        version: "3.1.13",
        index: "none",
        load_s: 0.221,
        warm_s: 0.0268,
        cold_s: 0.0394,
        mixed: None,
        index_bytes: Some(0),
        plan: "scan of all records",
    },
    TrialProfile {
        store: "fjall",
        version: "3.1.13",
        index: "keyindex",
        load_s: 0.347,
        warm_s: 0.001_12,
        cold_s: 0.0068,
        mixed: Some([(4_600.0, 41_000), (1_900_000.0, 1_450), (1_250_000.0, 118)]),
        index_bytes: Some(3_401_728),
        plan: "range of index keys, then one get per match",
    },
];

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

fn header() -> RunHeader {
    let figure = |name: &str, unit: &str, formula: &str, published: &[(f64, &str)]| Figure {
        name: name.into(),
        unit: unit.into(),
        formula: formula.into(),
        published: published.iter().map(|(value, of)| published_at(*value, of)).collect(),
    };
    RunHeader {
        id: "20261121-204107-7f3a".into(),
        plimsoll_version: env!("CARGO_PKG_VERSION").into(),
        plan_name: "coupons".into(),
        title: "Coupons: what an index costs, and what it brings".into(),
        question: "Which of the coupons were redeemed fewer than 50 times?".into(),
        answers: Vec::new(),
        worthless: Vec::new(),
        source: "field notes F1 and F2: CouchDB 1.0.2 and Riak 0.14, load from one more machine".into(),
        plan_text: PLAN_TEXT.into(),
        plan_json: "{}".into(),
        outline: Outline { trials: 5, ..Outline::default() },
        tag: String::new(),
        command_line: vec!["plimsoll".into(), "run".into(), "coupons".into()],
        seed: 1,
        slice_ns: SECOND_NS,
        started_wall_ns: 1_795_293_667 * SECOND_NS as i64,
        environment: [
            ("CPU", "AMD EPYC 9R14, 2 cores"),
            ("memory", "23.5 GiB"),
            ("kernel", "Linux 6.1.0-41-amd64"),
            ("system", "Debian GNU/Linux 12 (bookworm)"),
            ("clock source", "tsc"),
            ("governor", "performance"),
            ("file system of the data", "ext4 on /dev/vda1"),
            ("load average at start", "0.31"),
        ]
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .to_vec(),
        left_out: vec!["fjall, index = own: fjall has no index of its own".into()],
        notices: Vec::new(),
        goals: vec![
            Goal { what: GoalKind::Lost, of: None, limit: 0.0, unit: String::new() },
            Goal { what: GoalKind::Wrong, of: None, limit: 0.0, unit: String::new() },
        ],
        figures: vec![
            figure("load, plain", "s", "load.seconds[index=none]", &[(495.0, "CouchDB"), (358.0, "Riak, 1 node")]),
            figure(
                "load, index keys",
                "s",
                "load.seconds[index=keyindex]",
                &[(692.0, "Riak, 1 node"), (1025.0, "Riak, 4 nodes")],
            ),
            figure("load, the store's own index", "s", "load.seconds[index=own]", &[]),
            figure(
                "indexed / plain insert, index keys",
                "×",
                "load.seconds[index=keyindex] / load.seconds[index=none]",
                &[(1.91, "Riak, 1 node")],
            ),
            figure("indexed / plain insert, own index", "×", "load.seconds[index=own] / load.seconds[index=none]", &[]),
            figure(
                "query by scan, warm",
                "s",
                "warm.median_seconds[index=none]",
                &[(11.0, "CouchDB, warm view"), (82.0, "Riak, raw map/reduce")],
            ),
            figure(
                "query by scan, cold",
                "s",
                "cold_query.median_seconds[index=none]",
                &[(74.0, "CouchDB, cold view")],
            ),
            figure(
                "query by index keys, warm",
                "s",
                "warm.median_seconds[index=keyindex]",
                &[(65.0, "Riak, 1 node"), (56.0, "with a key filter"), (34.0, "4 nodes, key filter")],
            ),
            figure("query by index keys, cold", "s", "cold_query.median_seconds[index=keyindex]", &[]),
            figure("query by own index, warm", "s", "warm.median_seconds[index=own]", &[]),
            figure("query by own index, cold", "s", "cold_query.median_seconds[index=own]", &[]),
            figure(
                "query: scan / index keys",
                "×",
                "warm.median_seconds[index=none] / warm.median_seconds[index=keyindex]",
                &[(1.26, "Riak, 1 node (82 s / 65 s)"), (1.46, "with a key filter (82 s / 56 s)")],
            ),
            figure(
                "query: scan / own index",
                "×",
                "warm.median_seconds[index=none] / warm.median_seconds[index=own]",
                &[],
            ),
        ],
    }
}

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

fn kinds() -> Vec<OpKind> {
    let records = |name: &str, call: RecordsCall, keep_answer: bool| OpKind {
        name: name.into(),
        call: Call::Records { collection: 0, call },
        params: vec![ValueType::Text],
        keep_answer,
        step_of: None,
    };
    vec![
        records("insert", RecordsCall::Insert, false),
        records("read", RecordsCall::Get, true),
        records("update", RecordsCall::Update { fields: vec![2] }, false),
        records("query", RecordsCall::Find { field: 2, access: Access::Indexed }, true),
    ]
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_string(), (*value).to_string())).collect()
}

fn trial(ordinal: u32, profile: &TrialProfile, start_ns: u64, dice: &mut Dice) -> Trial {
    let mut phases = Phases { trial: ordinal, at_ns: start_ns + 30_000_000, phases: Vec::new() };
    let footprint = Footprint {
        data_bytes: 21_803_008,
        index_bytes: profile.index_bytes,
        total_bytes: Some(21_803_008 + profile.index_bytes.unwrap_or(3_300_000) + 4_120_000),
    };
    let load_ns = (profile.load_s * 1e9) as u64;
    let load = phases.add("load", PhaseKind::Load, Some(Durability::AtEnd), 1, load_ns);
    load.slices = vec![slice(0, load.header.start_ns, load_ns, false, &[(0, load_ns as f64 / 105.0, 100)], dice)];
    load.end.results = vec![
        result(ResultName::Seconds, profile.load_s, 1),
        result(ResultName::Ops, 100.0, 100),
        result(ResultName::SyncSeconds, 0.021, 1),
        result(ResultName::DeviceBytes, 48_300_000.0 * profile.load_s.sqrt(), 1),
    ];
    let settle = phases.add("settle", PhaseKind::Settle, None, 0, 180_000_000);
    settle.end.footprint = Some(footprint);
    settle.end.results = vec![result(ResultName::Seconds, 0.18, 1), result(ResultName::DeviceBytes, 1_900_000.0, 1)];
    let mut check = Vec::new();
    ask(&mut phases, "warm", 5, profile.warm_s, profile.plan, dice);
    check.push(answers(ordinal, 2, "query", 5, 5 * 507));
    let cold = phases.add("cold", PhaseKind::Cold, None, 0, 240_000_000);
    cold.end.remarks = vec![(About::NotCold, "reopened; 0 of 24.8 MiB of its files stayed in the page cache".into())];
    ask(&mut phases, "cold_query", 1, profile.cold_s, profile.plan, dice);
    check.push(answers(ordinal, 4, "query", 1, 507));
    let mut acknowledged = RECORDS;
    if let Some(mixed) = profile.mixed {
        let phase = phases.add("mixed", PhaseKind::Drive, Some(Durability::Durable), 8, 11 * SECOND_NS);
        for at in 0..11 {
            let stall = if at == 6 { 0.35 } else { 0.95 + 0.1 * dice.unit() };
            let kinds: Vec<(u16, f64, u64)> = mixed
                .iter()
                .enumerate()
                .map(|(kind, (middle_ns, rate))| {
                    (kind as u16 + 1, middle_ns / stall.powf(1.5), (*rate as f64 * stall) as u64)
                })
                .collect();
            let start_ns = phase.header.start_ns + at * SECOND_NS;
            phase.slices.push(slice(at as u32, start_ns, SECOND_NS, at == 0, &kinds, dice));
        }
        let updates = phase.slices.iter().flat_map(|slice| &slice.histograms).filter(|one| one.kind == 2);
        acknowledged += updates.map(|one| one.histogram.len()).sum::<u64>();
        let queries: u64 = phase
            .slices
            .iter()
            .flat_map(|slice| &slice.histograms)
            .filter(|one| one.kind == 3)
            .map(|one| one.histogram.len())
            .sum();
        phase.end.results =
            vec![result(ResultName::Seconds, 11.0, 1), result(ResultName::DeviceBytes, 94_371_840.0, 1)];
        check.push(answers(ordinal, 5, "query", queries, queries * 506));
        check.push(answers(ordinal, 5, "read", queries * 350, queries * 350));
    }
    let done = phases.add("check", PhaseKind::Check, None, 0, 310_000_000);
    done.end.remarks = vec![(About::Integrity, "ok: integrity_check found nothing".into())];
    let ledger = LedgerCheck {
        trial: ordinal,
        phase: done.header.ordinal,
        acknowledged,
        read_back: RECORDS,
        loss_upper_bound: Some(3.0 / acknowledged as f64),
        complete: true,
        sentence: format!("All {acknowledged} acknowledged writes are present."),
        ..LedgerCheck::default()
    };
    let end_ns = phases.at_ns;
    Trial {
        header: TrialHeader {
            ordinal,
            store: profile.store.into(),
            store_label: profile.store.into(),
            place: "embedded".into(),
            version: profile.version.into(),
            settings: if profile.store == "sqlite" {
                vec![
                    setting("journal_mode", "wal", "delete"),
                    setting("synchronous", "FULL (durable), OFF and one sync (at-end)", "FULL"),
                ]
            } else {
                vec![setting("manual_journal_persist", "true", "false")]
            },
            failover_time: None,
            rarer_cycles: BTreeMap::new(),
            workload: "coupons".into(),
            params: labels(&[("records", "100000"), ("index", profile.index), ("below", "50")]),
            labels: labels(&[("store", profile.store), ("index", profile.index)]),
            breaks: false,
            kinds: kinds(),
            record_count: RECORDS,
            record_bytes: 203,
            start_ns,
        },
        end_ns: Some(end_ns),
        phases: phases.phases,
        answers: check,
        ledgers: vec![ledger],
        faults: Vec::new(),
    }
}

struct Phases {
    trial: u32,
    at_ns: u64,
    phases: Vec<Phase>,
}

impl Phases {
    fn add(
        &mut self,
        name: &str,
        kind: PhaseKind,
        durability: Option<Durability>,
        clients: u32,
        length_ns: u64,
    ) -> &mut Phase {
        let start_ns = self.at_ns;
        self.at_ns += length_ns;
        self.phases.push(Phase {
            header: PhaseHeader {
                trial: self.trial,
                ordinal: self.phases.len() as u32,
                name: name.into(),
                kind,
                rung: None,
                durability,
                clients,
                workers: 1,
                rate_per_s: None,
                stages: Vec::new(),
                finds_warmup: false,
                start_ns,
            },
            end: PhaseEnd {
                end_ns: self.at_ns,
                state: PhaseState::Complete,
                results: vec![result(ResultName::Seconds, length_ns as f64 / 1e9, 1)],
                ..PhaseEnd::default()
            },
            slices: Vec::new(),
            operations: None,
        });
        self.phases.last_mut().unwrap()
    }
}

fn ask(phases: &mut Phases, name: &str, count: u64, middle_s: f64, plan: &str, dice: &mut Dice) {
    let each: Vec<u64> = (0..count).map(|_| (middle_s * 1e9 * (0.95 + 0.12 * dice.unit())) as u64).collect();
    let phase = phases.add(name, PhaseKind::Ask, None, 1, each.iter().sum::<u64>() + 1000);
    let mut at_ns = phase.header.start_ns;
    for length_ns in each {
        let end_ns = at_ns + length_ns;
        phase.end.asked.push(Asked { kind: 3, start_ns: at_ns, end_ns, outcome: Outcome::Ok, rows: 507 });
        at_ns = end_ns;
    }
    phase.end.remarks = vec![(About::Plan, plan.into())];
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

fn answers(trial: u32, phase: u32, op: &str, answers: u64, records: u64) -> AnswerCheck {
    let counts = AnswerCounts { answers, expected: records, got: records, ..AnswerCounts::default() };
    AnswerCheck { trial, phase, op: op.into(), counts, ..AnswerCheck::default() }
}

fn result(name: ResultName, value: f64, n: u64) -> PhaseResult {
    PhaseResult { name, subject: String::new(), value, n }
}

fn setting(name: &str, value: &str, default: &str) -> Setting {
    Setting { name: name.into(), value: value.into(), default: Some(default.into()), source: "plimsoll".into() }
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

fn slice(
    ordinal: u32,
    start_ns: u64,
    length_ns: u64,
    warmup: bool,
    kinds: &[(u16, f64, u64)],
    dice: &mut Dice,
) -> Slice<Distribution> {
    Slice {
        ordinal,
        warmup,
        start_ns,
        end_ns: start_ns + length_ns,
        wall_ns: 1_795_293_667 * SECOND_NS as i64 + (start_ns + length_ns) as i64,
        histograms: kinds
            .iter()
            .map(|(kind, middle_ns, count)| {
                // A latency stands for up to 20 operations, so that a debug build makes the run in a moment.
                let weight = (count / 1500).clamp(1, 20);
                let latencies = (0..count / weight).map(|_| (dice.latency_ns(*middle_ns).max(1), weight));
                served(*kind, times(latencies))
            })
            .collect(),
        in_flight: 8,
        ..Slice::default()
    }
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

fn published_at(value: f64, of: &str) -> PublishedValue {
    PublishedValue { value, of: of.to_string(), at: BTreeMap::new() }
}
