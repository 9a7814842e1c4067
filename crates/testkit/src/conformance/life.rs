//! Checks of a store as a whole: durability, restarts, sizes, many sessions, sessions that end.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plimsoll_core::sampler::WAITING_FOR;
use plimsoll_core::{
    Access, ColdStart, Dialect, Durability, Footprint, IndexMode, Layout, Nodes, OpenOptions, Outcome, Params, Probe,
    Reading, Store, StoreError, StoreErrorKind, StoreKind, StreamSpec, Target, Value, ValueBuf, Waits, read_probes,
};
use plimsoll_lab::{Cluster, FALLBACK_BASES};

use super::Subject;
use super::things::{ALL, COUNT, Model, all_came_to, asked, find, gave, kinds, made_and_asked};
use crate::ask::{Script, ask};
use crate::draw::repeats;
use crate::trial::{Trial, workload};

const CLIENTS: u32 = 8;

fn said(what: &str) -> impl Fn(StoreError) -> String + '_ {
    move |error| format!("{what}: {error}")
}

pub(super) fn describes_itself(subject: &mut Subject<'_>) -> Result<(), String> {
    let description = subject.store.describe().map_err(said("describe"))?;
    if description.version.trim().is_empty() || description.place.trim().is_empty() {
        return Err(format!("version `{}`, place `{}`", description.version, description.place));
    }
    let nameless = description.settings.iter().find(|setting| setting.name.is_empty() || setting.source.is_empty());
    nameless.map_or(Ok(()), |setting| Err(format!("a setting without name or source: {setting:?}")))
}

pub(super) fn durabilities(subject: &mut Subject<'_>) -> Result<(), String> {
    for durability in [Durability::Durable, Durability::Buffered, Durability::AtEnd] {
        let declared = subject.spec.durabilities.contains(&durability);
        match (subject.store.sessions(2, durability), declared) {
            (Ok(sessions), true) if sessions.len() == 2 && sessions.shape() == subject.spec.sessions.shape => {}
            (Ok(sessions), true) if sessions.len() == 2 => {
                let declared = subject.spec.sessions.shape;
                return Err(format!("{declared:?} sessions are declared, {:?} opened", sessions.shape()));
            }
            (Ok(sessions), true) => return Err(format!("2 sessions asked for, {} opened", sessions.len())),
            (Err(error), true) => return Err(format!("{} is declared: {error}", durability.name())),
            (Ok(_), false) => return Err(format!("{} is not declared, and sessions open", durability.name())),
            (Err(_), false) => {}
        }
    }
    subject.store.sessions(2, Durability::AsConfigured).map_err(said("sessions as configured"))?;
    let promise = subject.store.promise().map_err(said("promise"))?;
    let is_sentence = promise.ends_with('.') && !promise.contains('\n');
    if is_sentence { Ok(()) } else { Err(format!("it promises `{promise}`, which is no sentence")) }
}

/// Makes the collections and fills them; says what is in them.
fn filled(subject: &mut Subject<'_>, mode: IndexMode, count: u64, seed: u64) -> Result<Model, String> {
    let model = Model::random("life", count, seed);
    let mut script = Script::new();
    model.insert(&mut script, 100);
    let replies = made_and_asked(subject, mode, &script)?;
    all_came_to(&replies, Outcome::Ok, "inserts")?;
    Ok(model)
}

fn holds(subject: &mut Subject<'_>, model: &Model, what: &str) -> Result<(), String> {
    let mut script = Script::new();
    script.op(ALL, []).op(find(COUNT, Access::Indexed), [Value::Int(0), Value::Null]);
    let replies = asked(subject, &script)?;
    gave(&replies[0], &model.rows(), &format!("all {what}"))?;
    let matching = model.matching(COUNT, &crate::owned::Owned::Int(0), &crate::owned::Owned::Null);
    gave(&replies[1], &matching, &format!("find {what}"))
}

pub(super) fn made_again_is_empty(subject: &mut Subject<'_>, mode: IndexMode) -> Result<(), String> {
    filled(subject, mode, 100, 11)?;
    let mut script = Script::new();
    script.op(ALL, []).op(find(COUNT, Access::Indexed), [Value::Null, Value::Null]);
    let replies = made_and_asked(subject, mode, &script)?;
    replies.iter().try_for_each(|reply| gave(reply, &[], "all and find in a store that was made again"))
}

pub(super) fn data_outlives(subject: &mut Subject<'_>, mode: IndexMode) -> Result<(), String> {
    let model = filled(subject, mode, repeats(100, 400) as u64, 12)?;
    outlives(subject, |subject, when| holds(subject, &model, when))
}

/// Syncs and settles the store, makes it cold and restarts it. After each step, what it `holds` must be there.
pub(super) fn outlives(
    subject: &mut Subject<'_>,
    holds: impl Fn(&mut Subject<'_>, &str) -> Result<(), String>,
) -> Result<(), String> {
    subject.store.sync().map_err(said("sync"))?;
    holds(subject, "after sync")?;
    subject.store.settle().map_err(said("settle"))?;
    holds(subject, "after settling")?;
    let cold = subject.store.cold().map_err(said("cold"))?;
    if let ColdStart::Done { file_bytes, resident_bytes } = cold
        && (file_bytes == 0 || resident_bytes > file_bytes)
    {
        return Err(format!("cold: {resident_bytes} of {file_bytes} bytes resident"));
    }
    holds(subject, "after cold")?;
    match subject.store.restart() {
        // A server that is not ours can be made neither cold nor restarted.
        Err(error) if error.kind == StoreErrorKind::Usage && matches!(cold, ColdStart::NotPossible(_)) => {
            let has_none = subject.store.processes().is_empty();
            has_none.then_some(()).ok_or_else(|| "it has processes that it cannot restart".to_owned())
        }
        restarted => restarted.map_err(said("restart")),
    }?;
    holds(subject, "after a restart")?;
    let checked = subject.store.check_integrity().map_err(said("its own integrity check"))?;
    if checked.is_some_and(|words| words.trim().is_empty()) {
        return Err("the integrity check does not say what was checked".into());
    }
    Ok(())
}

pub(super) fn footprint_grows(subject: &mut Subject<'_>, mode: IndexMode) -> Result<(), String> {
    filled(subject, mode, 200, 13)?;
    let small = settled_footprint(subject)?;
    let count = repeats(1_000, 2_000);
    filled(subject, mode, count as u64, 14)?;
    let large = settled_footprint(subject)?;
    let said = format!("{small:?} with 200 records, {large:?} with {count}");
    let plausible = small.data_bytes > 0 && large.data_bytes > small.data_bytes;
    let index = match (mode, small.index_bytes, large.index_bytes) {
        (IndexMode::None, ..) | (_, None, _) | (_, _, None) => true,
        (_, Some(small), Some(large)) => large > small,
    };
    let total = large.total_bytes.is_none_or(|total| total >= large.data_bytes);
    if plausible && index && total { Ok(()) } else { Err(said) }
}

fn settled_footprint(subject: &mut Subject<'_>) -> Result<Footprint, String> {
    subject.store.sync().map_err(said("sync"))?;
    subject.store.settle().map_err(said("settle"))?;
    subject.store.footprint().map_err(said("footprint"))
}

pub(super) fn explains(subject: &mut Subject<'_>, mode: IndexMode) -> Result<(), String> {
    filled(subject, mode, 100, 15)?;
    subject.store.settle().map_err(said("settle"))?;
    let mut params = ValueBuf::new();
    params.push(Value::Null);
    params.push(Value::Int(0));
    for access in [Access::Indexed, Access::Scan] {
        let kind = &kinds()[usize::from(find(COUNT, access))];
        let plan = subject.store.explain(kind, params.values()).map_err(said("explain"))?;
        if plan.is_some_and(|plan| plan.trim().is_empty()) {
            return Err("an explanation is empty".into());
        }
    }
    Ok(())
}

pub(super) fn many_sessions(subject: &mut Subject<'_>, mode: IndexMode) -> Result<(), String> {
    let mix = [("update", 4), ("read", 4), ("query", 2)].map(|(kind, share)| (kind.to_owned(), share));
    let records = repeats(500, 2_000) as i64;
    let trial = Trial {
        workload: workload("coupons", 16, &[("records", records), ("below", 300)], &[("index", mode.name())]),
        clients: CLIENTS,
        ops_per_client: 60,
        mix: mix.into(),
        durability: subject.durability(),
        batch: 500,
    };
    let outcomes = trial.run(&mut *subject.store)?;
    let LedgerCounts { acknowledged, unknown, rejected } = LedgerCounts::of(&outcomes.ledger);
    if !outcomes.is_right() {
        return Err(outcomes.complaints());
    }
    if let Some(kind) = outcomes.answers.iter().find(|kind| kind.unanswered > 0 || kind.answers == 0) {
        return Err(format!("`{}` had {} answers and {} times none", kind.kind_name, kind.answers, kind.unanswered));
    }
    if unknown > 0 || rejected > 0 || acknowledged <= records as u64 {
        return Err(format!("{acknowledged} writes acknowledged, {rejected} refused, {unknown} without an answer"));
    }
    subject.store.check_integrity().map(drop).map_err(said("its own integrity check"))
}

struct LedgerCounts {
    acknowledged: u64,
    unknown: u64,
    rejected: u64,
}

impl LedgerCounts {
    fn of(verdict: &plimsoll_verify::LedgerVerdict) -> Self {
        Self { acknowledged: verdict.acknowledged, unknown: verdict.unknown, rejected: verdict.rejected }
    }
}

pub(super) fn sessions_come_and_go(subject: &mut Subject<'_>, mode: IndexMode) -> Result<(), String> {
    let mut model = Model::default();
    subject.store.create(&super::things::layout(mode)).map_err(said("create"))?;
    for round in 0..5 {
        let more = Model::random(&format!("round{round}"), 20, 20 + round);
        let mut script = Script::new();
        more.insert(&mut script, 7);
        all_came_to(&asked(subject, &script)?, Outcome::Ok, "inserts")?;
        model.0.extend(more.0);
        holds(subject, &model, &format!("in session {round}"))?;
    }
    Ok(())
}

/// Returns true if the workload `select` is written in `dialect`.
pub(super) fn select_is_for(dialect: Option<Dialect>) -> bool {
    let specs = plimsoll_workload::all();
    let dialects = specs.iter().find(|spec| spec.name == "select").map_or(&[][..], |spec| spec.dialects);
    dialects.is_empty() || dialect.is_some_and(|dialect| dialects.contains(&dialect))
}

pub(super) fn selects(subject: &mut Subject<'_>) -> Result<(), String> {
    let select = workload("select", 17, &[("scale", 1)], &[]);
    subject.store.create(select.layout()).map_err(said("create"))?;
    let stream = select.stream(&StreamSpec::One { kind: "select".into(), clients: 1 })?;
    let mut kinds = select.kinds().to_vec();
    kinds[0].keep_answer = true;
    let mut script = Script::new();
    let mut params = ValueBuf::new();
    for cycle in 0..100 {
        params.clear();
        let kind = stream.op(0, cycle, &mut params).ok_or("the stream ended")?;
        script.op(kind, params.values().iter());
    }
    script.op(0, [Value::Int(100_001)]);
    let durability = subject.durability();
    let replies = ask(&mut *subject.store, &kinds, durability, &script)?;
    all_came_to(&replies[..100], Outcome::Ok, "a select")?;
    for reply in &replies[..100] {
        if (reply.answer.rows, reply.answer.values.values().get(0)) != (1, Value::Int(0)) {
            return Err(format!("one balance of 0 expected: {:?}", reply.answer));
        }
    }
    let beyond = &replies[100];
    match (beyond.outcome, beyond.answer.rows) {
        (Outcome::Ok | Outcome::NotFound, 0) => Ok(()),
        other => Err(format!("an account that is not there came to {other:?}")),
    }
}

/// Counters are read on a thread of their own while the store is at work, and by the same probe after a restart.
pub(super) fn counters_are_read_beside(subject: &mut Subject<'_>) -> Result<(), String> {
    subject.store.create(&Layout::default()).map_err(said("create"))?;
    let mut probes = subject.store.probes();
    if probes.is_empty() {
        return Ok(());
    }
    let readings = read_probes(&mut probes).map_err(said("counters"))?;
    let is_known = |one: &Reading, examples: &[Reading]| {
        // These name what other clients of the server do.
        one.name.starts_with(WAITING_FOR) || examples.iter().any(|known| known.series("", "") == one.series("", ""))
    };
    if let Some(examples) = &subject.counters
        && let Some(unknown) = readings.iter().find(|one| !is_known(one, examples))
    {
        return Err(format!("its kind has no example of the counter {unknown:?}"));
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                reads(&mut probes)?;
                std::thread::sleep(Duration::from_millis(1));
            }
            reads(&mut probes)
        });
        let worked = subject.store.settle().and_then(|()| subject.store.footprint()).map_err(said("settle"));
        done.store(true, Ordering::SeqCst);
        reader.join().map_err(|_| "the reader panicked".to_owned())?.and(worked.map(drop))
    })?;
    match subject.store.restart() {
        // One that is not ours runs on.
        Err(error) if error.kind == StoreErrorKind::Usage => {}
        restarted => restarted.map_err(said("restart"))?,
    }
    reads(&mut probes)
}

/// Probes say that their servers are away, and read again when they are back.
pub(super) fn a_probe_outlives_servers(
    kind: &dyn StoreKind,
    params: &Params,
    data_dir: &Path,
    log_dir: &Path,
) -> Result<(), String> {
    let Some((cluster, mut store)) = on_servers(kind, params, data_dir, log_dir)? else { return Ok(()) };
    let mut probes = store.probes();
    if !probes.is_empty() {
        reads(&mut probes)?;
        cluster.kill(Nodes::All).map_err(said("kill"))?;
        for _ in 0..2 {
            match read_probes(&mut probes) {
                Err(error) if error.kind == StoreErrorKind::Unreachable => {}
                other => return Err(format!("its servers are dead, and the probe says {other:?}")),
            }
        }
        cluster.start(Nodes::All).map_err(said("start"))?;
        reads(&mut probes)?;
    }
    drop(store);
    cluster.close().map_err(said("close"))
}

/// A store on private servers, as a lab has it: none of what it leaves is removed by a command.
pub(super) fn a_failed_clean_up_advises_no_command(
    kind: &dyn StoreKind,
    params: &Params,
    data_dir: &Path,
    log_dir: &Path,
) -> Result<(), String> {
    let Some((cluster, mut store)) = on_servers(kind, params, data_dir, log_dir)? else { return Ok(()) };
    store.create(&Layout::default()).map_err(said("create"))?;
    cluster.kill(Nodes::All).map_err(said("kill"))?;
    let advice = store.close().err().and_then(|error| error.next);
    drop(store);
    cluster.close().map_err(said("close"))?;
    match advice.as_deref().and_then(crate::advice::command) {
        Some(command) => Err(format!("it advises `{command}`")),
        None => Ok(()),
    }
}

/// Private servers, and a store that was opened on them; `None` for a store that starts none.
fn on_servers(
    kind: &dyn StoreKind,
    params: &Params,
    data_dir: &Path,
    log_dir: &Path,
) -> Result<Option<(Cluster, Box<dyn Store>)>, String> {
    let waits = Waits::default();
    let Some(recipe) = kind.recipe(params).map_err(said("recipe"))? else { return Ok(None) };
    let bases: Vec<_> = std::iter::once(data_dir.to_owned()).chain(FALLBACK_BASES.map(Into::into)).collect();
    let cluster = Cluster::start(recipe, &bases, log_dir, &waits, &mut |_| {}).map_err(said("start"))?;
    let target = Target::Servers(cluster.handle().servers());
    let options = OpenOptions { target, params: params.clone(), run_id: "conformance".to_owned(), waits };
    let store = kind.open(options, &mut |_| {}).map_err(said("open"))?;
    Ok(Some((cluster, store)))
}

/// Checks that probes read every series once, without negative values.
fn reads(probes: &mut [Probe]) -> Result<(), String> {
    let readings = read_probes(probes).map_err(said("counters"))?;
    let names: BTreeSet<_> = readings.iter().map(|reading| (&reading.subject, &reading.name)).collect();
    let is_sound = names.len() == readings.len() && readings.iter().all(|reading| reading.number() >= 0.0);
    if is_sound && !names.is_empty() { Ok(()) } else { Err(format!("counters: {readings:?}")) }
}
