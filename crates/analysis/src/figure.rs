//! Formulas, evaluated per store and per rest of the sweep.
//!
//! A term `phase.quantity[label=value]` means that phase of the one trial that has these labels (or, where the
//! plan does not sweep them, these parameters), or the median of its repeats. What a formula leaves open of the sweep gives one row each.
//! The label `op` names a kind of operation and not a trial: `mixed.p99[op=read]`. The label `store` names another store
//! than the one that the figure is of: `drive.rate / drive.rate[store=one]`.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexSet;
use plimsoll_core::quantity::is_timed;
use plimsoll_core::{Bounds, Formula, Term};
use plimsoll_record::data::{Figure, PhaseKind, PublishedValue, Run, Trial};

use crate::name::REPEAT;
use crate::number;
use crate::outage;
use crate::phase::{PhaseFacts, Quantity};
use crate::ratio::{RATIO, direction};
use crate::stat::interval;
use crate::view::{FigureCell, FigureRow, FigureView, Headline, Named, PublishedView};

/// Label of a trial's store.
const STORE: &str = "store";
/// Label of an operation type.
const OP: &str = "op";
/// Seconds that one load or drive by itself must last to be no noise: five, as exactly as a timer ends them.
const SHORT_S: f64 = 4.95;
/// Share by which one time or rate by itself may be off.
const ONE_MAY_BE_OFF: f64 = 0.05;
/// Most terms of a formula that has bounds.
const TERMS_MAX: usize = 12;

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
                    let formula = formula.as_ref().map_err(|error| format!("the formula is wrong: {error}").into());
                    let value_of = |term: &Term| term_value(run, facts, term, store, &labels, &named);
                    let value = formula.and_then(|formula| evaluate(formula, store, value_of));
                    cell(store, figure, value)
                })
                .collect(),
            published: if labels.is_empty() { Vec::new() } else { published(figure, &labels) },
            labels,
        })
        .collect();
    FigureView {
        name: figure.name.clone(),
        unit: figure.unit.clone(),
        direction: formula.as_ref().ok().and_then(|formula| direction(&figure.unit, formula)),
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
        .filter(|(name, _)| ![STORE, REPEAT].contains(&name.as_str()) && !named.contains(name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// A value with what it rests on.
struct Measured {
    value: f64,
    /// The fewest observations behind any of its terms.
    n: u64,
    /// A late generator may have moved it.
    late: bool,
    /// Values that it may have in truth; `None` if that is not known.
    bounds: Option<Bounds>,
    /// The value is of outages that had not ended when observation ended: it is a lower bound.
    is_open: bool,
    /// An outage behind it had not ended: its greatest value is not known.
    is_unbounded: bool,
    /// The bounds were observed, in repeats or samples, and not assumed.
    is_observed: bool,
    /// The fewest repeats of any of its terms.
    repeats: u64,
    /// Measurement that may be noise.
    doubt: Option<String>,
}

/// A value, or why there is none.
type Outcome = Result<Measured, Missing>;

/// Reason that a figure has no value.
struct Missing {
    why: String,
    /// A trial that it needs was not run.
    is_not_run: bool,
}

impl<T: Into<String>> From<T> for Missing {
    fn from(why: T) -> Self {
        Self { why: why.into(), is_not_run: false }
    }
}

fn evaluate(formula: &Formula, store: &str, value_of: impl Fn(&Term) -> Outcome) -> Outcome {
    is_of(formula, store)?;
    let known: Vec<(&Term, Outcome)> = formula.terms().map(|(term, _)| (term, value_of(term))).collect();
    let known: Vec<(&Term, Measured)> =
        known.into_iter().map(|(term, outcome)| Ok((term, outcome?))).collect::<Result<_, Missing>>()?;
    let of = |term: &Term| known.iter().find(|(one, _)| *one == term).map(|(_, measured)| measured);
    let value = formula.eval(&|term| of(term).map(|measured| measured.value)).ok_or("has no finite value")?;
    let terms = || known.iter().map(|(_, measured)| measured);
    Ok(Measured {
        value,
        n: terms().map(|one| one.n).min().unwrap_or(0),
        late: terms().any(|one| one.late),
        bounds: bounds(formula, &known),
        is_open: terms().any(|one| one.is_open),
        is_unbounded: terms().any(|one| one.is_unbounded),
        is_observed: terms().all(|one| one.is_observed),
        repeats: terms().map(|one| one.repeats).min().unwrap_or(1),
        doubt: terms().find_map(|one| one.doubt.clone()),
    })
}

/// Returns the store that `term` names.
fn store_of(term: &Term) -> Option<&str> {
    term.labels.iter().find(|(name, _)| name == STORE).map(|(_, value)| value.as_str())
}

/// Returns the stores that terms of `formula` name.
pub fn stores_named(formula: &Formula) -> impl Iterator<Item = &str> {
    formula.terms().filter_map(|(term, _)| store_of(term))
}

/// Returns the store that a figure is of: the first one, if every term of its formula names one.
pub fn named_store(formula: &Formula) -> Option<&str> {
    let stores: Option<Vec<&str>> = formula.terms().map(|(term, _)| store_of(term)).collect();
    stores?.first().copied()
}

/// Fails if a formula that names stores has no value for `store`.
fn is_of(formula: &Formula, store: &str) -> Result<(), String> {
    match named_store(formula) {
        Some(other) if other != store => Err(format!("it is of {other}")),
        Some(_) => Ok(()),
        None if formula.terms().any(|(term, _)| store_of(term) == Some(store)) => {
            Err("others are measured by it".to_owned())
        }
        None => Ok(()),
    }
}

/// Returns the least and the greatest value of `formula` for values of its terms within their bounds.
fn bounds(formula: &Formula, terms: &[(&Term, Measured)]) -> Option<Bounds> {
    let end = |corner: usize, term: &Term| {
        let at = terms.iter().position(|(one, _)| *one == term)?;
        let (low, high) = terms.get(at)?.1.bounds?;
        Some(if corner >> at & 1 == 0 { low } else { high })
    };
    let corners = (terms.len() <= TERMS_MAX).then(|| 0..1usize << terms.len())?;
    let ends: Vec<f64> = corners.map(|corner| formula.eval(&|term| end(corner, term))).collect::<Option<_>>()?;
    Some((ends.iter().copied().reduce(f64::min)?, ends.iter().copied().reduce(f64::max)?))
}

fn term_value(
    run: &Run,
    facts: &[Vec<PhaseFacts<'_>>],
    term: &Term,
    store: &str,
    point: &BTreeMap<String, String>,
    named: &BTreeSet<&str>,
) -> Outcome {
    let op = op_of(term);
    let wanted = || term.labels.iter().filter(|(name, _)| name != OP);
    let store = store_of(term).unwrap_or(store);
    let fits = |trial: &Trial| {
        trial.header.store_label == store && open_labels(trial, named) == *point && has_labels(trial, term)
    };
    let matching: Vec<(&Trial, &Vec<PhaseFacts<'_>>)> =
        run.trials.iter().zip(facts).filter(|(trial, _)| fits(trial)).collect();
    let value_in = |phases: &[PhaseFacts<'_>]| -> Outcome {
        let phase = phases
            .iter()
            .find(|facts| facts.phase.header.name == term.phase)
            .ok_or_else(|| format!("the trial has no phase {}", term.phase))?;
        Ok(once(phase, &term.quantity, op, phase.quantity(&term.quantity, op)?))
    };
    let labels = || wanted().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>();
    match matching.as_slice() {
        [] if wanted().count() == 0 => Err("there is no such trial".into()),
        [] => Err(Missing { why: format!("there is no trial with {}", number::list(&labels())), is_not_run: true }),
        [(_, phases)] => value_in(phases),
        repeats if repeats.iter().all(|(trial, _)| trial.header.labels.contains_key(REPEAT)) => {
            let all: Vec<Measured> = repeats.iter().map(|(_, phases)| value_in(phases)).collect::<Result<_, _>>()?;
            Ok(repeated(&all, is_timed(&term.quantity)))
        }
        many => Err(format!("{} trials match {term}: add a label", many.len()).into()),
    }
}

/// Returns the operation type that `term` names.
fn op_of(term: &Term) -> Option<&str> {
    term.labels.iter().find(|(name, _)| name == OP).map(|(_, value)| value.as_str())
}

/// Returns true if `trial` has the labels or parameters that `term` names, whatever its store.
fn has_labels(trial: &Trial, term: &Term) -> bool {
    let header = &trial.header;
    term.labels
        .iter()
        .filter(|(name, _)| ![STORE, OP].contains(&name.as_str()))
        .all(|(name, value)| header.labels.get(name).or_else(|| header.params.get(name)) == Some(value))
}

/// Returns the value of `term` in `trial`; `None` if the term is of other trials, or the trial has no such value.
pub(crate) fn value_in_trial(term: &Term, trial: &Trial, phases: &[PhaseFacts<'_>]) -> Option<f64> {
    let is_of_store = store_of(term).is_none_or(|store| trial.header.store_label == store);
    let of_term = |facts: &&PhaseFacts<'_>| facts.phase.header.name == term.phase;
    let phase = phases.iter().find(of_term).filter(|_| is_of_store && has_labels(trial, term))?;
    phase.quantity(&term.quantity, op_of(term)).ok().map(|quantity| quantity.value)
}

/// A quantity of one phase. A time or a rate has the bounds of its samples, or is assumed to be off by some per cent.
fn once(phase: &PhaseFacts<'_>, name: &str, op: Option<&str>, quantity: Quantity) -> Measured {
    let Quantity { value, n } = quantity;
    let late = phase.is_moved(name, op);
    let is_open = name == "outage" && outage::is_open(phase);
    let exact = Measured {
        value,
        n,
        late,
        bounds: Some((value, value)),
        is_open,
        is_unbounded: is_open,
        is_observed: true,
        repeats: 1,
        doubt: None,
    };
    if !is_timed(name) {
        return exact;
    }
    let asked = if name == "median_seconds" { phase.asked_seconds(op) } else { Vec::new() };
    if let [least, .., most] = asked.as_slice() {
        let interval = interval::of_median(&asked).map_or((*least, *most), |one| (one.low, one.high));
        return Measured { bounds: Some(interval), ..exact };
    }
    let kind = phase.phase.header.kind;
    let took_s = match kind {
        PhaseKind::Drive => phase.counted_s,
        _ => phase.quantity("seconds", None).map_or(0.0, |seconds| seconds.value),
    };
    let off = value.abs() * ONE_MAY_BE_OFF;
    let doubt = (took_s < SHORT_S).then(|| format!("one {} of {}", kind.name(), number::seconds(took_s)));
    Measured { bounds: Some((value - off, value + off)), is_observed: false, doubt, ..exact }
}

/// Returns the 95 % interval of the median of times or rates, or their range if there are fewer than six.
pub(crate) fn interval_of(values: &[f64]) -> Option<Bounds> {
    interval::of_median(values).map(|one| (one.low, one.high)).or_else(|| ends_of(values))
}

/// Returns the least and the greatest of `values`.
fn ends_of(values: &[f64]) -> Option<Bounds> {
    values.iter().copied().reduce(f64::min).zip(values.iter().copied().reduce(f64::max))
}

/// The median of repeats, with its interval. A count has the range of all: in a median of them the others would not
/// show. Outages that had not ended are longer than all others.
fn repeated(all: &[Measured], is_timed: bool) -> Measured {
    let values: Vec<f64> = all.iter().map(|one| one.value).collect();
    let times: Vec<(f64, bool)> = all.iter().map(|one| (one.value, one.is_open)).collect();
    let (value, is_open) = outage::median(&times).unwrap_or((0.0, false));
    Measured {
        value,
        n: all.iter().map(|one| one.n).sum(),
        late: all.iter().any(|one| one.late),
        bounds: if is_timed { interval_of(&values) } else { ends_of(&values) },
        is_open,
        is_unbounded: all.iter().any(|one| one.is_open),
        is_observed: true,
        repeats: all.len() as u64,
        doubt: None,
    }
}

/// Formats a value of a figure with this unit and formula. A count, such as of `writes`, has all its digits, as elsewhere in
/// a report.
pub fn shown(unit: &str, formula: &str, value: f64) -> String {
    let is_word = unit.len() > 2 && unit.chars().all(char::is_alphabetic);
    let counts = |formula: &Formula| formula.terms().all(|(term, _)| !is_timed(&term.quantity));
    let is_count = is_word && value.fract() == 0.0 && Formula::parse(formula).is_ok_and(|formula| counts(&formula));
    if is_count { format!("{} {unit}", number::with_unit(value, "")) } else { number::with_unit(value, unit) }
}

fn cell(store: &str, figure: &Figure, outcome: Outcome) -> FigureCell {
    let is_term = Formula::parse(&figure.formula).is_ok_and(|formula| formula.is_term());
    match outcome {
        Ok(one) => {
            let open = one.is_open && is_term;
            let is_of_open = one.is_unbounded && !is_term;
            let text = number::lower_bound(shown(&figure.unit, &figure.formula, one.value), open);
            FigureCell {
                store: store.to_string(),
                value: Some(one.value),
                text: number::marked(text, one.late),
                late: one.late,
                open,
                is_of_open,
                n: one.n,
                repeats: one.repeats,
                interval: one.bounds.filter(|(low, high)| one.is_observed && low < high),
                bounds: match one.bounds {
                    Some((low, _)) if one.is_unbounded && is_term => Some((low, f64::INFINITY)),
                    bounds => bounds.filter(|_| !is_of_open),
                },
                doubt: one.doubt,
                ..FigureCell::default()
            }
        }
        Err(Missing { why, is_not_run }) => FigureCell {
            store: store.to_string(),
            text: "–".to_string(),
            missing: Some(why),
            is_not_run,
            ..FigureCell::default()
        },
    }
}

/// Returns figures that are ratios of like quantities (unit `×`) with both a published and a measured value: at most
/// four.
pub fn headlines(figures: &[FigureView]) -> Vec<Headline> {
    figures
        .iter()
        .filter(|figure| figure.unit == RATIO && !figure.published.is_empty())
        .filter_map(|figure| {
            let [row] = figure.rows.as_slice() else { return None };
            let shown = row.cells.iter().filter(|cell| cell.value.is_some());
            let values = shown.map(|cell| Named { name: cell.store.clone(), value: cell.text.clone() });
            let published = figure.published.iter().map(|one| Named { name: one.of.clone(), value: one.text.clone() });
            let (values, published): (Vec<_>, _) = (values.collect(), published.collect());
            let (name, direction) = (figure.name.clone(), figure.direction.clone());
            (!values.is_empty()).then_some(Headline { name, direction, values, published })
        })
        .take(4)
        .collect()
}
