//! Settings of trials in which data was lost or wrong, beside those of trials in which nothing was.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::{IndexMap, IndexSet};
use plimsoll_record::data::Run;

use crate::goal;
use crate::name::REPEAT;
use crate::number;
use crate::promise;
use crate::view::TrialView;

/// Labels that are no settings.
const NO_SETTINGS: [&str; 3] = ["store", promise::MOMENT, REPEAT];
/// Most phrases that a sentence names.
const NAMED_MAX: usize = 2;
/// Most combinations that a phrase names.
const COMBINATIONS_MAX: usize = 3;

/// Values by name.
type Settings<'t> = BTreeMap<&'t str, &'t str>;

/// A store with its settings.
struct Point<'t> {
    store: &'t str,
    settings: Settings<'t>,
    is_broken: bool,
}

/// Returns the settings with which data was lost or wrong and none of the kept trials ran: `disk_flushes=ignored`. If
/// no setting separates all trials, there is a phrase for each store: `sqlite (journal_mode=wal)`. Returns none if
/// nothing broke, or nothing was kept.
pub fn broken_with(run: &Run, trials: &[TrialView]) -> Vec<String> {
    let points = points(run, trials);
    let (broken, kept): (Vec<&Point<'_>>, Vec<&Point<'_>>) = points.iter().partition(|point| point.is_broken);
    if broken.is_empty() || kept.is_empty() {
        return Vec::new();
    }
    if let Some(settings) = apart(&broken, &kept) {
        return vec![settings];
    }
    let stores: IndexSet<&str> = points.iter().map(|point| point.store).collect();
    if stores.len() == 1 {
        return vec![combinations(&broken, &kept)];
    }
    let phrase = |store: &str| {
        let (broken, kept) = (of_store(&broken, store), of_store(&kept, store));
        if broken.is_empty() {
            return None;
        }
        if kept.is_empty() {
            return Some(store.to_owned());
        }
        let settings = apart(&broken, &kept).unwrap_or_else(|| combinations(&broken, &kept));
        Some(format!("{store} ({settings})"))
    };
    stores.into_iter().filter_map(phrase).collect()
}

/// Names the first of `phrases`, and the number of the others.
pub fn named(phrases: &[String]) -> String {
    let mut named: Vec<String> = phrases.iter().take(NAMED_MAX).cloned().collect();
    let more = phrases.len().saturating_sub(NAMED_MAX) as u64;
    named.extend((more > 0).then(|| number::plural(more, "more store", "more stores")));
    number::list(&named)
}

/// Returns the phrases as a sentence that follows another; empty without a phrase.
pub fn sentence(phrases: &[String]) -> String {
    if phrases.is_empty() {
        return String::new();
    }
    format!(" Data was lost or wrong only with {}.", named(phrases))
}

/// Returns each combination of store and settings of which it is known if data was lost or wrong.
fn points<'t>(run: &Run, trials: &'t [TrialView]) -> Vec<Point<'t>> {
    let mut points: IndexMap<(&str, Settings<'t>), bool> = IndexMap::new();
    for trial in trials {
        if let Some(is_broken) = is_broken(run, trial) {
            let settings = trial.labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            let settings = settings.filter(|(name, _)| !NO_SETTINGS.contains(name)).collect();
            *points.entry((trial.store.as_str(), settings)).or_default() |= is_broken;
        }
    }
    points.into_iter().map(|((store, settings), is_broken)| Point { store, settings, is_broken }).collect()
}

/// Returns true if data was lost or wrong in `trial`; `None` if that is not known.
fn is_broken(run: &Run, trial: &TrialView) -> Option<bool> {
    let answers = trial.answers_total.unwrap_or_default();
    let ledgers = &trial.ledgers;
    let is_lost = ledgers.iter().any(|ledger| ledger.lost.is_some_and(|lost| lost > 0) || ledger.wrong_total > 0);
    if is_lost || answers.missing + goal::wrong_in(run, &answers) > 0 {
        return Some(true);
    }
    let recorded = run.trials.iter().find(|one| one.header.ordinal == trial.ordinal)?;
    let is_kept = promise::was_kept(recorded).unwrap_or_else(|| match ledgers.as_slice() {
        [] => answers.answers > 0,
        ledgers => ledgers.iter().all(|ledger| ledger.complete),
    });
    is_kept.then_some(false)
}

fn of_store<'p, 't>(points: &[&'p Point<'t>], store: &str) -> Vec<&'p Point<'t>> {
    points.iter().copied().filter(|point| point.store == store).collect()
}

/// Returns the settings whose values in `broken` are those of no point in `kept`; `None` without such a setting.
fn apart<'t>(broken: &[&Point<'t>], kept: &[&Point<'t>]) -> Option<String> {
    let names: BTreeSet<&str> = broken.iter().flat_map(|point| point.settings.keys().copied()).collect();
    let part = |name: &&str| {
        let (of_broken, of_kept) = (values(broken, name), values(kept, name));
        let is_apart = !of_broken.contains(&None::<&str>) && of_broken.is_disjoint(&of_kept);
        let of_broken: Vec<&str> = of_broken.into_iter().flatten().collect();
        is_apart.then(|| format!("{name}={}", either(&of_broken)))
    };
    let parts: Vec<String> = names.iter().filter_map(part).collect();
    (!parts.is_empty()).then(|| number::list(&parts))
}

/// Returns the values of a setting, in the order of the points; `None` for points without it.
fn values<'t>(points: &[&Point<'t>], name: &str) -> IndexSet<Option<&'t str>> {
    points.iter().map(|point| point.settings.get(name).copied()).collect()
}

/// Returns the settings of each of the broken points, without those that all points share.
fn combinations<'t>(broken: &[&Point<'t>], kept: &[&Point<'t>]) -> String {
    let all = [broken, kept].concat();
    let of = |point: &&Point<'t>| {
        let differs = |name: &str| values(&all, name).len() > 1;
        let settings = point.settings.iter().filter(|(name, _)| differs(name));
        settings.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(", ")
    };
    let mut named: Vec<String> = broken.iter().take(COMBINATIONS_MAX).map(of).collect();
    let more = broken.len().saturating_sub(COMBINATIONS_MAX) as u64;
    named.extend((more > 0).then(|| format!("{} more", number::count(more))));
    named.join("; ")
}

/// Values as alternatives: `a`, `a or b`, `a, b or c`.
fn either(values: &[&str]) -> String {
    match values {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}
