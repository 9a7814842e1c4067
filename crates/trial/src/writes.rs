//! Changes by a trial's operations to earlier data of an attached store: announced beforehand, and refused without
//! permission.

use plimsoll_core::shown::{clean, short};
use plimsoll_core::{Call, Interface, KindId, KvCall, Layout, OpKind, StoreSpec, Workload, command, sql};
use plimsoll_plan::model::{PhaseStep, Plan, PlannedTrial};

use crate::error::TrialError;

/// Changes that are named in an announcement.
const NAMED_MAX: usize = 4;

/// Lists all changes by `trial` to data that Plimsoll has not made, in words, each once.
///
/// # Errors
/// The first of it, unless `plan` allows it.
pub fn allowed(
    plan: &Plan,
    trial: &PlannedTrial,
    workload: &dyn Workload,
    store: &StoreSpec,
) -> Result<Vec<String>, TrialError> {
    if trial.store.is_ours() {
        return Ok(Vec::new());
    }
    let as_is = trial.takes_as_is(plan.start);
    let mut changes = Vec::new();
    let mut places = Vec::new();
    let mut add = |place: Option<String>, what: String| {
        if !changes.contains(&what) {
            places.push(place);
            changes.push(what);
        }
    };
    // What the workload's author wrote stays in what it has made; what a user wrote may do anything.
    let is_users = !trial.workload.scripts.is_empty();
    if let (false, true, Some(dialect)) = (as_is, is_users, store.dialect) {
        let layout = workload.layout();
        let texts = [&layout.statements, &layout.after_load];
        for text in texts.into_iter().flat_map(|statements| Layout::texts_for(statements, dialect)) {
            if !sql::stays_in_schema(text, Some(dialect)) {
                add(Some("`setup`".to_owned()), shown(text));
            }
        }
    }
    if !as_is && is_users && store.dialect.is_none() {
        for statement in &workload.layout().statements {
            add(Some("`setup`".to_owned()), shown(&statement.text));
        }
    }
    for (position, kind) in asked(trial, workload) {
        let changes_theirs = match (&kind.call, as_is) {
            (Call::Sql(text) | Call::SqlRow(text), true) => !sql::only_reads(text, store.dialect),
            (Call::Http(_) | Call::Command(_), _) | (_, true) => kind.writes(),
            (Call::Sql(text) | Call::SqlRow(text), false) => is_users && !sql::stays_in_schema(text, store.dialect),
            (Call::SqlText, false) => true,
            _ => false,
        };
        if changes_theirs {
            add(workload.place(position), words(kind, trial, workload));
        }
    }
    let (Some(first), Some(place), false) = (changes.first(), places.first(), plan.allow_writes) else {
        return Ok(changes);
    };
    let place = place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default();
    let what = format!("{place}this may change data on {}, which Plimsoll did not create: {first}", trial.store.label);
    let next = match as_is {
        true => {
            "allow it with --allow-writes (in a plan: allow_writes = true), or leave --no-load (start = \"as-is\") out"
        }
        false => "allow it with --allow-writes (in a plan: allow_writes = true)",
    };
    Err(TrialError::usage(what).next(next))
}

/// Returns the announcement of the operations' changes on an attached store.
pub fn announced(as_is: bool, changes: &[String], store: &StoreSpec) -> String {
    let named = || {
        let more = changes.len().saturating_sub(NAMED_MAX);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        format!("{}{more}", changes.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join("; "))
    };
    match (as_is, changes) {
        (true, []) if store.interfaces.contains(&Interface::Sql) => {
            "creates nothing there, and its sessions are read-only: the server refuses statements that change tables"
                .to_owned()
        }
        (true, []) => "creates nothing there, and only reads".to_owned(),
        (true, _) => format!("creates nothing there, and CHANGES EXISTING DATA by: {}", named()),
        (false, []) => "writes to nothing else".to_owned(),
        (false, _) => format!("may also CHANGE EXISTING DATA by: {}", named()),
    }
}

/// The kinds of operation that `trial` asks for, and their steps.
pub fn asked<'w>(trial: &PlannedTrial, workload: &'w dyn Workload) -> Vec<(KindId, &'w OpKind)> {
    let mut names: Vec<&str> = Vec::new();
    for phase in &trial.phases {
        match &phase.step {
            PhaseStep::Ask { op, .. } => names.push(op),
            PhaseStep::Drive(drive) => {
                names.extend(drive.mix.iter().filter(|(_, share)| *share > 0).map(|(name, _)| name.as_str()));
            }
            _ => {}
        }
    }
    let kinds = workload.kinds();
    let is_asked = |kind: &OpKind| names.contains(&kind.name.as_str());
    let of_asked = |kind: &OpKind| kind.step_of.and_then(|of| kinds.get(usize::from(of))).is_some_and(is_asked);
    let numbered = kinds.iter().enumerate().map(|(position, kind)| (position as KindId, kind));
    numbered.filter(|(_, kind)| is_asked(kind) || of_asked(kind)).collect()
}

/// Describes the changes by an operation type, and their place.
fn words(kind: &OpKind, trial: &PlannedTrial, workload: &dyn Workload) -> String {
    let name = &kind.name;
    match &kind.call {
        Call::Sql(text) | Call::SqlRow(text) => shown(text),
        Call::SqlText => format!("{name} (its text is only made when it is sent)"),
        Call::Command(words) => short(&clean(&command::shown(words))).into_owned(),
        Call::Kv(call) => {
            let mut key = plimsoll_core::ValueBuf::new();
            if let Some(truth) = workload.truth() {
                truth.key(0, &mut key);
            }
            let like = key.values().iter().next().map(|key| format!(" like {}", key_text(key))).unwrap_or_default();
            let verb = if *call == KvCall::Delete { "deletes" } else { "writes" };
            format!("{name}, which {verb} keys{like}")
        }
        Call::Ldap(_) => format!("{name} of entries {}", trial.workload.params.text("dn")),
        Call::Http(call) if call.target.0.is_empty() => format!("{name}: {} to the URL", call.method),
        Call::Http(call) => format!("{name}: {} {}", call.method, call.target),
        Call::Records { .. } | Call::Nothing | Call::Steps => format!("{name} of records"),
    }
}

fn key_text(key: plimsoll_core::Value<'_>) -> String {
    match key {
        plimsoll_core::Value::Bytes(bytes) => bytes.escape_ascii().to_string(),
        plimsoll_core::Value::Text(text) => text.to_owned(),
        other => format!("{other:?}"),
    }
}

/// A statement on one line, without what would drive a terminal, cut where it is long.
fn shown(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    short(&clean(&line)).into_owned()
}
