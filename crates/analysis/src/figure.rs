//! Formulas, evaluated per store and per rest of the sweep.
//!
//! A term `phase.quantity[label=value]` means that phase of the one trial that has these labels (or, where the
//! plan does not sweep them, these parameters), or the median of its repeats. What a formula leaves open of the sweep gives one row each.
//! The label `op` names a kind of operation and not a trial: `mixed.p99[op=read]`.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::{IndexMap, IndexSet};
use plimsoll_core::study::figures_in;
use plimsoll_core::{Formula, Term};
use plimsoll_record::data::{Figure, PublishedValue, Run, Trial};

use crate::name::REPEAT;
use crate::number;
use crate::phase::PhaseFacts;
use crate::stat;
use crate::view::{FigureCell, FigureRow, FigureView, Headline, Named, PublishedView};

/// Calculates every figure of the plan.
pub fn figures(run: &Run, facts: &[Vec<PhaseFacts<'_>>]) -> Vec<FigureView> {
    run.header.figures.iter().map(|figure| one(run, facts, figure)).collect()
}

fn one(run: &Run, facts: &[Vec<PhaseFacts<'_>>], figure: &Figure) -> FigureView {
    let formula = Formula::parse(&figure.formula);
    let terms = formula.iter().flat_map(|formula| formula.terms());
    let named: BTreeSet<&str> = terms.flat_map(|(term, _)| &term.labels).map(|(name, _)| name.as_str()).collect();
    let mut points: IndexSet<_> = run.trials.iter().map(|trial| open_labels(trial, &named)).collect();
    // Trials may have run in an order drawn by lot.
    let in_order = |point: &BTreeMap<String, String>| -> Vec<f64> {
        point.values().map(|value| value.replace('_', "").parse().unwrap_or(0.0)).collect()
    };
    points.sort_by(|one, other| in_order(one).partial_cmp(&in_order(other)).unwrap_or(std::cmp::Ordering::Equal));
    let stores = run.stores();
    let rows = points
        .into_iter()
        .map(|labels| FigureRow {
            cells: stores
                .iter()
                .map(|store| {
                    let formula = formula.as_ref().map_err(|error| format!("the formula is wrong: {error}"));
                    let value = formula.and_then(|formula| evaluate(run, facts, formula, store, &labels, &named));
                    cell(store, &figure.unit, value)
                })
                .collect(),
            published: if labels.is_empty() { Vec::new() } else { published(figure, &labels) },
            labels,
        })
        .collect();
    FigureView {
        name: figure.name.clone(),
        unit: figure.unit.clone(),
        formula: figure.formula.clone(),
        published: published(figure, &BTreeMap::new()),
        rows,
    }
}

/// Returns the published values for the point of the sweep that `labels` name; without labels, for all of it.
fn published(figure: &Figure, labels: &BTreeMap<String, String>) -> Vec<PublishedView> {
    let is_for = |at: &BTreeMap<String, String>| {
        at.is_empty() == labels.is_empty() && at.iter().all(|(name, value)| labels.get(name) == Some(value))
    };
    let view = |published: &PublishedValue| PublishedView {
        value: published.value,
        text: number::exact(published.value, &figure.unit),
        of: published.of.clone(),
    };
    figure.published.iter().filter(|published| is_for(&published.at)).map(view).collect()
}

/// The labels of `trial` that are neither its store nor named by the formula.
fn open_labels(trial: &Trial, named: &BTreeSet<&str>) -> BTreeMap<String, String> {
    trial
        .header
        .labels
        .iter()
        .filter(|(name, _)| !["store", REPEAT].contains(&name.as_str()) && !named.contains(name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// A value, the observations behind it, and whether a late generator may have moved it; or why there is none.
type Outcome = Result<(f64, u64, bool), String>;

fn evaluate(
    run: &Run,
    facts: &[Vec<PhaseFacts<'_>>],
    formula: &Formula,
    store: &str,
    point: &BTreeMap<String, String>,
    named: &BTreeSet<&str>,
) -> Outcome {
    let known: Vec<(&Term, Outcome)> =
        formula.terms().map(|(term, _)| (term, term_value(run, facts, term, store, point, named))).collect();
    let of = |term: &Term| known.iter().find(|(one, _)| *one == term)?.1.as_ref().ok();
    let value = formula.eval(&|term| of(term).map(|(value, ..)| *value));
    if let Some(why) = known.iter().find_map(|(_, outcome)| outcome.as_ref().err()) {
        return Err(why.clone());
    }
    let terms = || known.iter().flat_map(|(_, outcome)| outcome);
    let fewest = terms().map(|(_, n, _)| *n).min().unwrap_or(0);
    let value = value.ok_or("has no finite value")?;
    Ok((value, fewest, terms().any(|(.., late)| *late)))
}

fn term_value(
    run: &Run,
    facts: &[Vec<PhaseFacts<'_>>],
    term: &Term,
    store: &str,
    point: &BTreeMap<String, String>,
    named: &BTreeSet<&str>,
) -> Outcome {
    let op = term.labels.iter().find(|(name, _)| name == "op").map(|(_, value)| value.as_str());
    let wanted = || term.labels.iter().filter(|(name, _)| name != "op");
    let fits = |trial: &Trial| {
        trial.header.store_label == store
            && open_labels(trial, named) == *point
            && wanted().all(|(name, value)| {
                trial.header.labels.get(name).or_else(|| trial.header.params.get(name)) == Some(value)
            })
    };
    let matching: Vec<(&Trial, &Vec<PhaseFacts<'_>>)> =
        run.trials.iter().zip(facts).filter(|(trial, _)| fits(trial)).collect();
    let value_in = |phases: &[PhaseFacts<'_>]| {
        let phase = phases
            .iter()
            .find(|facts| facts.phase.header.name == term.phase)
            .ok_or_else(|| format!("the trial has no phase {}", term.phase))?;
        phase
            .quantity(&term.quantity, op)
            .map(|quantity| (quantity.value, quantity.n, phase.is_moved(&term.quantity, op)))
    };
    let labels = || wanted().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>();
    match matching.as_slice() {
        [] if wanted().count() == 0 => Err("there is no such trial".to_string()),
        [] => Err(format!("there is no trial with {}", number::list(&labels()))),
        [(_, phases)] => value_in(phases),
        repeats if repeats.iter().all(|(trial, _)| trial.header.labels.contains_key(REPEAT)) => {
            let all: Vec<(f64, u64, bool)> =
                repeats.iter().map(|(_, phases)| value_in(phases)).collect::<Result<_, _>>()?;
            let values: Vec<f64> = all.iter().map(|(value, ..)| *value).collect();
            let late = all.iter().any(|(.., late)| *late);
            Ok((stat::median(&values).unwrap_or(0.0), all.iter().map(|(_, n, _)| n).sum(), late))
        }
        many => Err(format!("{} trials match {term}: add a label", many.len())),
    }
}

fn cell(store: &str, unit: &str, outcome: Outcome) -> FigureCell {
    let missing = outcome.as_ref().err().cloned();
    let (value, n, late) = outcome.map_or((None, 0, false), |(value, n, late)| (Some(value), n, late));
    let shown = |value| number::marked(number::with_unit(value, unit), late);
    FigureCell { store: store.to_string(), value, text: value.map_or("–".to_string(), shown), late, n, missing }
}

/// `text` with the values of figures for their names in braces; empty where one of them has none.
pub fn answer(text: &str, figures: &[FigureView]) -> String {
    let mut answer = text.to_owned();
    for name in figures_in(text) {
        let values = figures.iter().find(|figure| figure.name == name).map(values).unwrap_or_default();
        if values.is_empty() {
            return String::new();
        }
        answer = answer.replace(&format!("{{{name}}}"), &values);
    }
    answer
}

/// Formats the values of a figure, store by store: from the least to the greatest if it has several rows.
fn values(figure: &FigureView) -> String {
    let mut stores: IndexMap<&str, Vec<&FigureCell>> = IndexMap::new();
    for cell in figure.rows.iter().flat_map(|row| &row.cells) {
        stores.entry(&cell.store).or_default().extend(cell.value.is_some().then_some(cell));
    }
    // One that has none is not to be taken for meant.
    let several = stores.len() > 1;
    stores.retain(|_, cells| !cells.is_empty());
    let of = |(store, mut cells): (&str, Vec<&FigureCell>)| {
        cells.sort_by(|one, other| one.value.partial_cmp(&other.value).unwrap_or(std::cmp::Ordering::Equal));
        let ends = match cells.as_slice() {
            [least, .., most] if least.text != most.text => {
                // A unit that is not made smaller or larger with the number is said once.
                let end = format!(" {}", figure.unit);
                format!("{} to {}", least.text.strip_suffix(&end).unwrap_or(&least.text), most.text)
            }
            cells => cells.first().map_or_else(String::new, |cell| cell.text.clone()),
        };
        if several { format!("{store} {ends}") } else { ends }
    };
    stores.into_iter().map(of).collect::<Vec<_>>().join(", ")
}

/// Returns figures that are ratios of like quantities (unit `×`) with both a published and a measured value: at most
/// four.
pub fn headlines(figures: &[FigureView]) -> Vec<Headline> {
    figures
        .iter()
        .filter(|figure| figure.unit == "×" && !figure.published.is_empty())
        .filter_map(|figure| {
            let [row] = figure.rows.as_slice() else { return None };
            let shown = row.cells.iter().filter(|cell| cell.value.is_some());
            let values = shown.map(|cell| Named { name: cell.store.clone(), value: cell.text.clone() });
            let published = figure.published.iter().map(|one| Named { name: one.of.clone(), value: one.text.clone() });
            let (values, published): (Vec<_>, _) = (values.collect(), published.collect());
            (!values.is_empty()).then(|| Headline { name: figure.name.clone(), values, published })
        })
        .take(4)
        .collect()
}
