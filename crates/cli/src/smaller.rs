//! A plan made smaller: its text with other values, as options ask, which is then read like any other text.

mod parts;
mod quick;

pub use quick::leave_out_goals;

use plimsoll_core::Catalogue;
use plimsoll_core::nearest::nearest;
use plimsoll_plan::keys::{self, Key};
use plimsoll_plan::model::{PhaseKind, Plan};
use plimsoll_plan::{Overrides, without_secrets};
use plimsoll_trial::TrialError;
use toml_edit::Document;

use crate::args::{PlannedArgs, SmallerArgs};
use crate::options::{self, quoted};
use crate::plans::{self, Edit, PlanText};
use crate::verbs::drive;
use parts::{Parts, Place, StorePart};

/// Changes the text of `plan` as `args` ask. A text that is no TOML stays as it is: reading it reports why.
///
/// # Errors
/// Fails if an option names a value or a store that the plan does not have, and lists those that it has.
pub fn apply(catalogue: &Catalogue, plan: &mut PlanText, args: &SmallerArgs) -> Result<(), TrialError> {
    if args.quick
        && let Some(other) = others(args).iter().find(|other| !other.starts_with("--stores"))
    {
        let what = format!("--quick chooses all sizes itself, and {other} was given too");
        return Err(TrialError::usage(what).next("leave one of them out"));
    }
    let settings = drive::settings(&args.set)?;
    for (option, given) in [("clients", &args.clients), ("nodes", &args.nodes)] {
        let is_it = |key: &str| key.rsplit('.').next() == Some(option);
        if let (Some(given), Some((key, _))) = (given, settings.iter().find(|(key, _)| is_it(key))) {
            let what = format!("--{option} {given}: --set {key}=… was given too");
            return Err(TrialError::usage(what).next("leave one of them out"));
        }
    }
    if !args.stores.is_empty() {
        change(catalogue, plan, |parts| parts.only(&args.stores))?;
    }
    for (key, given) in &settings {
        change(catalogue, plan, |parts| set(parts, key, given))?;
    }
    if let Some(given) = &args.clients {
        change(catalogue, plan, |parts| clients(parts, given))?;
    }
    if let Some(given) = &args.nodes {
        change(catalogue, plan, |parts| nodes(parts, given))?;
    }
    if args.quick {
        change(catalogue, plan, |parts| Ok(quick::edits(parts)))?;
    }
    Ok(())
}

/// Returns the sentences about the changes for the first lines of progress and report.
pub fn notices(args: &SmallerArgs) -> Vec<String> {
    let mut notices = Vec::new();
    if args.quick {
        notices.push(
            "This is the quick version of the plan: it shows whether everything works, and its figures do not answer \
             the question."
                .to_owned(),
        );
    }
    let others = others(args);
    if !others.is_empty() {
        notices.push(format!("The plan was changed: {}.", without_secrets(&others.join(" "))));
    }
    notices
}

/// The options besides `--quick`, as typed.
fn others(args: &SmallerArgs) -> Vec<String> {
    let mut all: Vec<String> = args.set.iter().map(|given| format!("--set {given}")).collect();
    all.extend(args.clients.iter().map(|given| format!("--clients {given}")));
    all.extend(args.nodes.iter().map(|given| format!("--nodes {given}")));
    if !args.stores.is_empty() {
        all.push(format!("--stores {}", args.stores.join(",")));
    }
    all
}

/// Parts of a plan that need points which a smaller one does not run.
#[derive(Default)]
pub struct LeftOut {
    /// Each part with the reason.
    pub reasons: Vec<String>,
    /// Reason of the first figure: `: clients is never 32`; empty if it is not known.
    lacks: String,
    /// True if answers are among the parts.
    has_answers: bool,
}

/// Removes figures, and answers from figures, that need points which the smaller plan does not run.
pub fn leave_out_figures(catalogue: &Catalogue, plan: &mut PlanText, overrides: &Overrides) -> LeftOut {
    let mut left_out = LeftOut::default();
    // Answers show their mistakes only when all figures are right, and so on.
    for _ in 0..5 {
        let Err(error) = plans::parsed(catalogue, plan, overrides) else { break };
        let own = error.problems().iter().filter(|problem| problem.source_name() == plan.name);
        let problems: Vec<_> = own.collect();
        let Ok(document) = Document::parse(plan.text.as_str()) else { break };
        let mut edits = Vec::new();
        let parts = Parts::of(catalogue, &plan.name, &plan.text, document.as_table());
        for (key, name, at) in parts.derived() {
            if let Some(problem) = problems.iter().find(|problem| at.contains(&problem.span().start)) {
                // Of a formula: `clients` is never 32.
                let why =
                    problem.what().strip_prefix("in the formula: ").map_or(String::new(), |why| format!(": {why}"));
                left_out.reasons.push(format!("{name}: it needs points that this smaller plan does not run{why}"));
                left_out.has_answers |= key == "answer";
                if left_out.lacks.is_empty() {
                    left_out.lacks = why;
                }
                edits.push(Edit { at, text: String::new(), from: String::new() });
            }
        }
        let is_wrong = |edit: &Edit| problems.iter().any(|problem| edit.at.contains(&problem.span().start));
        if edits.is_empty()
            && let Some(edit) = parts.root.least_repeats().filter(is_wrong)
        {
            let why = "no time or rate is left that could decide their number";
            left_out.reasons.push(format!("`repeats` {}: {why}, so that it is the least", edit.text));
            edits.push(edit);
        }
        drop(document);
        if edits.is_empty() {
            break;
        }
        plan.splice(edits);
    }
    left_out
}

impl LeftOut {
    /// Returns a notice if `plan` has no answer any more, with what it lacks.
    pub fn notice(&self, plan: &Plan) -> Option<String> {
        let is_without = self.has_answers && plan.answers.is_empty();
        is_without.then(|| format!("This smaller plan cannot answer the question of the study{}.", self.lacks))
    }
}

/// Returns the text of the plan with the options of `args` that replace other values of it: stores, seed, permissions.
pub fn with_options(catalogue: &Catalogue, mut plan: PlanText, args: &PlannedArgs, stores: &[String]) -> String {
    let mut values = Vec::new();
    if !stores.is_empty() {
        let stores: Vec<String> = stores.iter().map(|store| quoted(&without_secrets(store))).collect();
        values.push(("stores", format!("[{}]", stores.join(", "))));
    }
    values.extend(args.plan.seed.map(|seed| ("seed", seed.to_string())));
    values.extend(args.allow_writes.then(|| ("allow_writes", "true".to_owned())));
    values.extend(args.allow_fault.then(|| ("allow_fault", "true".to_owned())));
    values.extend(args.dir.as_deref().map(|dir| ("dir", quoted(dir))));
    for (key, value) in values {
        // Tables of their own stay in the text: the recording has the stores beside it.
        let _ = change(catalogue, &mut plan, |parts| Ok(vec![parts.root.set(key, value, String::new())?]));
    }
    plan.text
}

/// Applies the edits that `of` derives from the parts of the text.
fn change(
    catalogue: &Catalogue,
    plan: &mut PlanText,
    of: impl FnOnce(&Parts<'_>) -> Result<Vec<Edit>, TrialError>,
) -> Result<(), TrialError> {
    let edits = match Document::parse(plan.text.as_str()) {
        Ok(document) => {
            let parts = Parts::of(catalogue, &plan.name, &plan.text, document.as_table());
            of(&parts)?
        }
        Err(_) => return Ok(()),
    };
    plan.splice(edits);
    Ok(())
}

/// Replaces the value that `name` stands for: of the workload, of the plan, or of all phases that have it; after a dot, of
/// one phase or of stores.
fn set(parts: &Parts<'_>, name: &str, given: &str) -> Result<Vec<Edit>, TrialError> {
    let from = format!("--set {name}={given}");
    let edits = match name.split_once('.') {
        Some(("workload", param)) => of_workload(parts, param, given, &from).into_iter().collect(),
        Some((scope, key)) => of_scope(parts, scope, key, given, &from),
        None => of_plan(parts, name, given, &from),
    };
    if edits.is_empty() {
        let names = parts.names();
        let with_scope = names.iter().map(String::as_str).find(|known| known.rsplit('.').next() == Some(name));
        let next = match with_scope.or_else(|| nearest(name, names.iter().map(String::as_str))) {
            Some(near) => format!("did you mean `{near}`? it has: {}", parts.has()),
            None => format!("it has: {}", parts.has()),
        };
        return Err(TrialError::usage(format!("{from}: {} has no `{name}`", parts.name)).next(next));
    }
    edits.into_iter().collect()
}

/// Replacements, each of which may be impossible.
type Edits = Vec<Result<Edit, TrialError>>;

fn of_workload(parts: &Parts<'_>, param: &str, given: &str, from: &str) -> Option<Result<Edit, TrialError>> {
    let (place, spec) = parts.workload.as_ref()?;
    let param = spec.params.iter().find(|known| known.name == param)?;
    Some(place.choose(param.name, options::param(Some(param), given), from.to_owned()))
}

/// Replaces the value of a key of the workload, of the plan, or of every phase that has the key.
fn of_plan(parts: &Parts<'_>, name: &str, given: &str, from: &str) -> Edits {
    if let Some(edit) = of_workload(parts, name, given, from) {
        return vec![edit];
    }
    if let Some(key) = parts::of_plan().find(|key| key.name == name) {
        return vec![of_key(&parts.root, key, given, from)];
    }
    let phases = parts.phases.iter().filter(|phase| phase.place.table.contains_key(name));
    phases.filter_map(|phase| Some(of_key(&phase.place, phase.key(name)?, given, from))).collect()
}

/// Replaces the value of a key of the phase `scope`, or of a parameter of the stores with that name.
fn of_scope(parts: &Parts<'_>, scope: &str, key: &str, given: &str, from: &str) -> Edits {
    let phase = parts.phases.iter().find(|phase| phase.name == scope);
    if let Some((phase, key)) = phase.and_then(|phase| Some((phase, phase.key(key)?))) {
        return vec![of_key(&phase.place, key, given, from)];
    }
    let stores = parts.stores.iter().filter(|store| store.names.iter().any(|name| name == scope));
    let edit = |store: &StorePart<'_>| {
        let param = store.spec?.params.iter().find(|param| param.name == key)?;
        Some(store.set(param.name, options::param(Some(param), given), from.to_owned()))
    };
    stores.filter_map(edit).collect()
}

fn of_key(place: &Place<'_>, key: &Key, given: &str, from: &str) -> Result<Edit, TrialError> {
    let value = options::written(key, given, &format!("--set {}=", key.name))?;
    if key.is_swept {
        place.choose(key.name, value, from.to_owned())
    } else {
        place.set(key.name, value, from.to_owned())
    }
}

/// Replaces the numbers of clients of drives.
fn clients(parts: &Parts<'_>, given: &str) -> Result<Vec<Edit>, TrialError> {
    let key = keys::OF_DRIVE.iter().copied().flatten().find(|key| key.name == "clients");
    let value = key.map_or(Ok(String::new()), |key| options::written(key, given, "--clients "))?;
    let drives = parts.phases.iter().filter(|phase| phase.kind == PhaseKind::Drive);
    let places: Vec<_> = drives.map(|phase| (phase.name.as_str(), &phase.place)).collect();
    replaced(parts, "clients", given, &value, &places)
}

/// Replaces the numbers of nodes of stores.
fn nodes(parts: &Parts<'_>, given: &str) -> Result<Vec<Edit>, TrialError> {
    let tables = parts.stores.iter().filter_map(|store| Some((store, store.place.as_ref()?)));
    let places: Vec<_> = tables.map(|(store, place)| (store.label(), place)).collect();
    let mut params = parts.stores.iter().filter_map(|store| store.spec).flat_map(|spec| spec.params);
    let value = options::param(params.find(|param| param.name == "nodes"), given);
    replaced(parts, "nodes", given, &value, &places)
}

/// Replaces `key` in the `places` that sweep it; if none does, the one value that they have.
fn replaced(
    parts: &Parts<'_>,
    key: &str,
    given: &str,
    value: &str,
    places: &[(&str, &Place<'_>)],
) -> Result<Vec<Edit>, TrialError> {
    let from = format!("--{key} {given}");
    let written = |place: &Place<'_>| place.value(key).and_then(|at| parts.text.get(at));
    let have: Vec<_> = places.iter().filter_map(|(name, place)| Some((*name, *place, written(place)?))).collect();
    let lists: Vec<_> = have.iter().filter(|(_, place, _)| place.is_list(key)).collect();
    let chosen = if lists.is_empty() { have.iter().collect() } else { lists };
    let Some((.., first)) = chosen.first() else {
        let what = format!("{from}: {} has no `{key}`", parts.name);
        let next = format!("it has: {}", parts.has());
        return Err(TrialError::usage(what).next(next));
    };
    if let Some(other) = chosen.iter().find(|(_, place, text)| !place.is_list(key) && text != first) {
        let values: Vec<String> = chosen.iter().map(|(name, _, text)| format!("{name} {text}")).collect();
        let what = format!("{from}: {} has different numbers of {key}: {}", parts.name, values.join(", "));
        let next = format!("choose stores by --stores, or set one: --set {}.{key}={given}", other.0);
        return Err(TrialError::usage(what).next(next));
    }
    chosen.iter().map(|(_, place, _)| place.choose(key, value.to_owned(), from.clone())).collect()
}

#[cfg(test)]
#[path = "smaller_tests.rs"]
mod tests;
