//! A run that never was: every value is a function of its position, so that a reader can tell what it must find.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use plimsoll_core::study::RepeatsUntil;
use plimsoll_core::{
    Access, Call, ClientSet, ClientSilence, Disturbance, Durability, FailoverTime, KeyParts, Link, Measure, Nodes,
    OpKind, Outcome, PartTick, Pause, RecordsCall, ServerTicks, Setting, Slice, SliceHistogram, Tick,
};
use plimsoll_record::Recorder;
use plimsoll_record::data::{
    AbMetric, AbRule, AbSpec, Agreement, AnswerSentence, Cell, FaultDetail, FaultKind, FaultSpan, Figure, Goal,
    GoalKind, LineSpec, Outline, PhaseHeader, PhaseKind, PublishedValue, Purpose, RunHeader, Sample, Series,
    SeriesKind, TrialHeader, Worthless,
};

/// Series of a machine with eight cores, two disks and two interfaces.
const SERIES: u32 = 96;

/// Length of a slice.
const SLICE_NS: u64 = 1_000_000_000;

/// The header of run `id`.
pub fn header(id: &str) -> RunHeader {
    RunHeader {
        id: id.into(),
        plimsoll_version: env!("CARGO_PKG_VERSION").into(),
        plan_name: "coupons".into(),
        title: "Coupons: what an index costs, and what it brings".into(),
        question: "Which of the coupons were redeemed fewer than 50 times?".into(),
        answers: vec![AnswerSentence {
            say: "It takes {load, plain}.".into(),
            only_if: Some("{load, plain} > 1".into()),
            agree: Some(Agreement::Factor(2.0)),
            repeats: 3,
        }],
        worthless: vec![Worthless { say: "Too fast.".into(), condition: "{load, plain} < 1".into() }],
        source: "field notes".into(),
        plan_text: "title = \"Coupons\"\n".into(),
        plan_json: "{\"name\":\"coupons\"}".into(),
        outline: Outline {
            trials: 2,
            until: Some(RepeatsUntil { least: 3, width: 0.1 }),
            line: Some(LineSpec { warmup_s: Some(0.1), ..LineSpec::default() }),
            ab: Some(AbSpec {
                sides: ["a".into(), "b".into()],
                plans: ["a = 1".into(), "b = 1".into()],
                metrics: vec![AbMetric::P999],
                difference: 0.03,
                fail_if: vec![AbRule { text: "cpu > 1%".into(), metric: AbMetric::Cpu, above: true, percent: 1.0 }],
                budget_s: 60.0,
                turn_s: 3.0,
                warmup_s: 1.0,
                seed: 7,
            }),
            cells: vec![Cell {
                name: "sqlite · durability=durable, survivors=torn".into(),
                store: "sqlite · durability=durable".into(),
                fault: "ext4 · torn".into(),
                cuts: vec![(0, "flush 12".into()), (1, "write 900".into())],
                command: "plimsoll promise sqlite --durability durable".into(),
            }],
            watched: true,
        },
        tag: String::new(),
        command_line: vec!["plimsoll".into(), "run".into(), "coupons".into(), "--on=a 'b'".into()],
        seed: u64::MAX - 1,
        slice_ns: SLICE_NS,
        started_wall_ns: 1_795_292_643_000_000_001,
        environment: vec![("CPU".into(), "AMD EPYC".into()), ("cores".into(), "2".into())],
        left_out: vec!["fjall, index = own: it has none".into()],
        notices: vec!["The plan was changed: --set records=5.".into()],
        goals: vec![Goal { what: GoalKind::Lost, of: None, limit: 0.0, unit: String::new() }],
        figures: vec![Figure {
            name: "load, plain".into(),
            unit: "s".into(),
            formula: "load.seconds[index=none]".into(),
            published: vec![
                PublishedValue { value: 495.0, of: "CouchDB".into(), at: BTreeMap::new() },
                PublishedValue {
                    value: 358.0,
                    of: "Riak, 1 node".into(),
                    at: [("index".to_owned(), "own".to_owned())].into(),
                },
            ],
        }],
    }
}

/// All series, in the order in which [`sample`] names them.
pub fn series() -> Vec<Series> {
    let series = (0..SERIES).map(|ordinal| Series {
        source: if ordinal < 45 { "cpu".into() } else { "disk".into() },
        subject: format!("vd{ordinal}"),
        name: "flushes".into(),
        unit: "1/s".into(),
        kind: SeriesKind::Total,
    });
    series.collect()
}

/// A recording that knows its series.
pub fn recorder(runs_dir: &std::path::Path, id: &str) -> Recorder {
    let recorder = Recorder::create(runs_dir, &header(id)).expect("a recording");
    for (series, position) in series().iter().zip(0..) {
        assert_eq!(recorder.series(series), Ok(position));
    }
    recorder
}

/// The kinds of operation: read, update, query.
pub fn kinds() -> Vec<OpKind> {
    let kind = |name: &str, call| OpKind {
        name: name.into(),
        call: Call::Records { collection: 0, call },
        params: Vec::new(),
        keep_answer: true,
        step_of: None,
    };
    vec![
        kind("read", RecordsCall::Get),
        kind("update", RecordsCall::Update { fields: vec![2] }),
        kind("query", RecordsCall::Find { field: 2, access: Access::Indexed }),
    ]
}

/// Trial `ordinal`, of one of two stores.
pub fn trial(ordinal: u32) -> TrialHeader {
    let store = if ordinal.is_multiple_of(2) { "sqlite" } else { "fjall" };
    TrialHeader {
        ordinal,
        store: store.into(),
        store_label: store.into(),
        place: "embedded".into(),
        version: "3.50".into(),
        settings: vec![
            Setting {
                name: "journal_mode".into(),
                value: "wal".into(),
                default: Some("delete".into()),
                source: "plimsoll".into(),
            },
            Setting { name: "page_size".into(), value: "8192".into(), default: None, source: "server".into() },
        ],
        failover_time: (ordinal == 1)
            .then(|| FailoverTime::new("one time-out".into(), "https://example.org/", (900, 2_100), (1_000, 2_100))),
        rarer_cycles: BTreeMap::from([("checkpoints".into(), format!("{store}.interval=1h"))]),
        may_buffer: ordinal == 1,
        workload: "coupons".into(),
        params: BTreeMap::from([("records".into(), "100000".into())]),
        labels: BTreeMap::from([("store".into(), store.into()), ("index".into(), "own".into())]),
        breaks: ordinal.is_multiple_of(3),
        kinds: kinds(),
        record_count: 100_000,
        record_bytes: 200,
        start_ns: u64::from(ordinal),
    }
}

/// Phase `ordinal` of trial `trial`, driven.
pub fn phase(trial: u32, ordinal: u32) -> PhaseHeader {
    PhaseHeader {
        trial,
        ordinal,
        name: "mixed".into(),
        kind: PhaseKind::Drive,
        rung: (ordinal == 1).then_some(Purpose::Climb),
        durability: Some(Durability::Durable),
        clients: 8,
        workers: 2,
        rate_per_s: (ordinal == 1).then_some(1_000.5),
        stages: Vec::new(),
        op_timeout_ns: (ordinal == 1).then_some(10_000_000_000),
        connect_timeout_ns: (ordinal == 1).then_some(15_000_000_000),
        finds_warmup: ordinal == 0,
        start_ns: 77,
    }
}

/// Fault `ordinal` of trial `trial` in its phase `phase`, healed.
pub fn fault(trial: u32, phase: u32, ordinal: u32) -> FaultSpan {
    let at_ns = u64::from(ordinal) * SLICE_NS;
    FaultSpan {
        trial,
        phase,
        ordinal,
        kind: FaultKind::ALL[ordinal as usize % FaultKind::ALL.len()],
        subject: "node 1, the primary".into(),
        fault: format!("kill primary at {ordinal}s"),
        detail: FaultDetail {
            name: "kill primary".into(),
            link: (ordinal % 2 == 1).then_some(Link { loss: 0.05, rate_bits_per_s: Some(20_000_000), ..Link::CUT }),
            disk: (ordinal % 3 == 1).then(|| "eio write once".to_owned()),
            object: Some("vacuum".to_owned()),
            nodes: Some(Nodes::One(0)),
            is_skipped: ordinal % 5 == 1,
        },
        planned_ns: at_ns,
        begun_ns: at_ns + 1_000,
        taken_ns: Some(at_ns + 2_000),
        healing_ns: Some(at_ns + 3_000_000_000),
        healed_ns: Some(at_ns + 3_456_789_000),
        error: None,
    }
}

/// Slice `ordinal`, with some 1,200 operations.
pub fn slice(ordinal: u32) -> Slice {
    busy_slice(ordinal, 1)
}

/// Slice `ordinal`, with some 1,200 operations `times` over, whose times have a long tail.
pub fn busy_slice(ordinal: u32, times: u32) -> Slice {
    let mut histograms = Vec::new();
    for (kind, operations, middle_ns) in [(0, 840, 40_000.0), (1, 335, 900_000.0), (2, 24, 5_000_000.0)] {
        let mut histogram = dense(3);
        let mut random = Random(u64::from(ordinal) << 8 | u64::from(kind) | 1 << 50);
        for _ in 0..operations * times + ordinal % 100 {
            histogram.saturating_record(random.time_ns(middle_ns));
        }
        histograms.push(SliceHistogram { kind, outcome: Outcome::Ok, measure: Measure::Service, histogram });
    }
    if ordinal.is_multiple_of(10) {
        let mut histogram = dense(2);
        histogram.saturating_record_n(30_000_000_000, 3);
        histograms.push(SliceHistogram { kind: 1, outcome: Outcome::Unknown, measure: Measure::Service, histogram });
    }
    let watched = (ordinal != 1).then(|| watched(ordinal, &histograms));
    Slice {
        ordinal,
        preview: false,
        warmup: ordinal == 0,
        start_ns: u64::from(ordinal) * SLICE_NS,
        end_ns: u64::from(ordinal + 1) * SLICE_NS,
        wall_ns: 1_795_292_643_000_000_000 + i64::from(ordinal),
        histograms,
        unfinished: None,
        due_unsent: 1,
        in_flight: 8,
        oldest_age_ns: 12_345,
        lag_p50_ns: 6_000,
        lag_p99_ns: 61_000,
        lag_max_ns: 131_000,
        worker_cpu_ns: 900_000_000,
        drain: ordinal == 2,
        voluntary_switches: 9_000,
        involuntary_switches: 7,
        watched,
        servers: Vec::new(),
        // Counted in every second slice.
        ticks: (0..100 * (ordinal % 2)).map(|tick| Tick { answered: tick * 37, failed: tick % 3 }).collect(),
        affected: (ordinal % 2 == 1).then(|| affected(ordinal)),
        silences: (ordinal % 2 == 1).then(|| silences(ordinal)),
        server_ticks: (ordinal % 2 == 1).then(server_ticks),
        key_parts: (ordinal % 2 == 1).then(|| KeyParts { of: 64, ticks: (0..100).map(parts).collect() }),
    }
}

/// Parts of the keys in a tick.
fn parts(tick: u64) -> PartTick {
    PartTick { asked: tick % 3, answered: u64::MAX << (tick % 64) }
}

/// Two servers, of which the second does not answer at first.
fn server_ticks() -> ServerTicks {
    let names = ["node 1", "node 2"].map(str::to_owned).to_vec();
    ServerTicks { names, answered: (0..100).map(|tick| if tick < 30 { 1 } else { 3 }).collect() }
}

/// A silence that ended, and another.
fn silences(ordinal: u32) -> Vec<ClientSilence> {
    let from_ns = u64::from(ordinal) * SLICE_NS;
    [(999, Some(from_ns + 250_000_000)), (5, None)]
        .map(|(client, until_ns)| ClientSilence { client, from_ns, until_ns })
        .to_vec()
}

/// Three of a thousand clients.
fn affected(ordinal: u32) -> ClientSet {
    let mut clients = ClientSet::none_of(1_000);
    [0, 64 + ordinal, 999].into_iter().for_each(|client| clients.insert(client));
    clients
}

/// A pause, and operations of the first kind that it disturbed.
fn watched(ordinal: u32, histograms: &[SliceHistogram]) -> Disturbance {
    let start_ns = u64::from(ordinal) * SLICE_NS + 3_000_000;
    let mut histogram = dense(3);
    histogram.saturating_record_n(histograms[0].histogram.max(), 1);
    Disturbance {
        disturbed_ns: 24_000_000,
        pauses: vec![Pause { start_ns, end_ns: start_ns + 12_000_000, cpu: 1 }],
        lateness: None,
        disturbed: vec![SliceHistogram { kind: 0, outcome: Outcome::Ok, measure: Measure::Service, histogram }],
    }
}

/// Returns the samples at the end of slice `ordinal` of trial `trial`.
pub fn sample(trial: u32, ordinal: u32) -> Sample {
    let mut random = Random(u64::from(ordinal) << 20 | 1 << 51);
    Sample {
        at_ns: (u64::from(trial) * 1_000_000 + u64::from(ordinal) + 1) * SLICE_NS,
        // A share, a rate, and much that is nothing most of the time.
        values: (0..SERIES).map(|series| (series, if series % 2 == 0 { 0.0 } else { random.unit() * 100.0 })).collect(),
        distributions: Vec::new(),
    }
}

fn dense(digits: u8) -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000_000, digits).expect("these bounds are histogram's own")
}

/// xorshift64* (Vigna 2016): plain, seeded, and the same everywhere.
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Log-normal around `middle_ns`: two in three within a factor of 1.6.
    fn time_ns(&mut self, middle_ns: f64) -> u64 {
        let normal: f64 = (0..12).map(|_| self.unit()).sum::<f64>() - 6.0;
        (middle_ns * (normal * 0.5).exp()) as u64
    }
}
