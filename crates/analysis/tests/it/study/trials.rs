//! The trials of the study, with latencies from a fixed random sequence.

use std::collections::BTreeMap;

use plimsoll_core::{Access, Call, Durability, Footprint, OpKind, Outcome, RecordsCall, Setting, Slice, ValueType};
use plimsoll_record::Distribution;
use plimsoll_record::data::{
    About, AnswerCheck, AnswerCounts, Asked, LedgerCheck, Phase, PhaseEnd, PhaseHeader, PhaseKind, PhaseResult,
    PhaseState, ResultName, Trial, TrialHeader,
};

use super::{Dice, SECOND_NS, served, times};

const RECORDS: u64 = 100_000;

/// Profile of a trial of the study.
pub(super) struct TrialProfile {
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

pub(super) const PROFILES: [TrialProfile; 5] = [
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

pub(super) fn trial(ordinal: u32, profile: &TrialProfile, start_ns: u64, dice: &mut Dice) -> Trial {
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
            may_buffer: false,
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
                op_timeout_ns: None,
                connect_timeout_ns: None,
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
