//! The answer of a run's figures to the plan's question: no sentence out of noise, and none out of numbers that cannot be.
//!
//! A *point* is a store and the part of the sweep that figures leave open. Each sentence is said of the points for which
//! its condition holds. A point with a worthless number has no answer.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::{IndexMap, IndexSet};
use plimsoll_core::study::{PlacedFindings, places_in};
use plimsoll_core::{Bounds, Condition, Formula, Term};
use plimsoll_record::data::{Agreement, AnswerSentence, Run};

use crate::figure::{named_store, shown, stores_named};
use crate::name;
use crate::number;
use crate::view::{AnswerState, FigureCell, FigureRow, FigureView, PublishedView, SaidSentence, StudyAnswer};

/// Width of an interval, as a share of the value, above which it is stated, and a ratio within it is no difference.
const WIDE: f64 = 0.1;
/// Ratio of the bounds of a ratio above which it says nothing: from half of it to twice as much.
const VAGUE: f64 = 4.0;
/// Share by which a ratio must be on the wrong side of 1 to be impossible.
const IMPOSSIBLE: f64 = 0.05;
/// Points that a reason names.
const NAMED_MAX: usize = 3;
/// Durabilities, the one that waits least first.
const DURABILITIES: [&str; 3] = ["at-end", "buffered", "durable"];

/// Labels of a point that is no part of the sweep.
static NO_LABELS: BTreeMap<String, String> = BTreeMap::new();

/// Returns findings about a phase as a part of a sentence, or why there are none.
type Told<'f> = &'f dyn Fn(PlacedFindings, &str) -> Result<String, String>;

/// Answers the question of the run's plan, with the findings that `told` returns; `None` for plans without sentences.
pub fn answer(run: &Run, figures: &[FigureView], told: Told<'_>) -> Option<StudyAnswer> {
    let header = &run.header;
    if header.answers.is_empty() {
        return None;
    }
    let figures = Figures { all: figures, told };
    let mut worthless = Reasons::default();
    figures.impossible(&mut worthless);
    for one in &header.worthless {
        let Ok(condition) = Condition::parse(&one.condition) else { continue };
        let used: Vec<&FigureView> = condition.figures().filter_map(|(name, _)| figures.named(name)).collect();
        let value = |point: &Point<'_>, name: &str| {
            figures.named(name).and_then(|figure| cell(figure, point)?.value).map(|value| (value, value))
        };
        let holds = |point: &Point<'_>| condition.holds(&|name| value(point, name)) == Some(true);
        let points: Vec<Point<'_>> = points(&used).into_iter().filter(holds).collect();
        let text = figures.filled(&one.say, &points);
        points.into_iter().for_each(|point| worthless.push(&one.say, || text.clone(), point));
    }
    let mut undecided = Reasons::default();
    let said: Vec<SaidSentence> =
        header.answers.iter().filter_map(|one| figures.said(one, &worthless, &mut undecided)).collect();
    let (worthless, mut undecided) = (worthless.sentences("No answer"), undecided.sentences("Undecided"));
    if said.is_empty() && worthless.is_empty() && undecided.is_empty() {
        undecided.push("Undecided: no sentence of the plan's answer applies to what was measured.".to_owned());
    }
    let texts: Vec<&str> = said.iter().map(|one| one.text.as_str()).collect();
    let (state, sentence) = match (said.as_slice(), worthless.first(), undecided.first()) {
        ([], Some(first), _) => (AnswerState::Worthless, first.clone()),
        ([], None, Some(first)) => (AnswerState::Undecided, first.clone()),
        _ => (AnswerState::Answered, texts.join(" ")),
    };
    Some(StudyAnswer { state, sentence, said, worthless, undecided })
}

/// A store, and the part of the sweep that figures leave open. The store is empty where figures name theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Point<'f> {
    store: &'f str,
    labels: &'f BTreeMap<String, String>,
}

impl Point<'_> {
    fn name(&self) -> String {
        let name = name::labelled(self.store, self.labels.iter());
        name.trim_start_matches(" · ").to_owned()
    }

    /// Returns true if both may be of one store, and contradict each other in no label.
    fn meets(&self, store: &str, labels: &BTreeMap<String, String>) -> bool {
        let differs = |(name, value): (&String, &String)| labels.get(name).is_some_and(|other| other != value);
        (self.store == store || self.store.is_empty() || store.is_empty()) && !self.labels.iter().any(differs)
    }
}

/// Reasons by their sort: the text of the first, and the points.
#[derive(Default)]
struct Reasons<'f>(IndexMap<String, (String, IndexSet<Point<'f>>)>);

impl<'f> Reasons<'f> {
    fn push(&mut self, sort: &str, text: impl FnOnce() -> String, point: Point<'f>) {
        let (_, points) = self.0.entry(sort.to_owned()).or_insert_with(|| (text(), IndexSet::new()));
        points.insert(point);
    }

    /// Returns true if a reason covers `point` of figures whose formulas name `stores`: a reason of its store, of one of
    /// these, or of all.
    fn cover(&self, point: &Point<'_>, stores: &BTreeSet<String>) -> bool {
        let is_of = |store: &str| match point.store {
            _ if store.is_empty() || stores.contains(store) => true,
            "" => stores.is_empty(),
            own => own == store,
        };
        self.0.values().flat_map(|(_, points)| points).any(|one| is_of(one.store) && one.meets("", point.labels))
    }

    fn sentences(&self, word: &str) -> Vec<String> {
        let sentence = |(text, points): &(String, IndexSet<Point<'_>>)| {
            let mut others: Vec<String> = points.iter().skip(1).take(NAMED_MAX).map(Point::name).collect();
            let more = (points.len() - others.len()).saturating_sub(1) as u64;
            others.extend((more > 0).then(|| format!("{} more", number::count(more))));
            let also = if others.is_empty() { String::new() } else { format!(" (also {})", number::list(&others)) };
            // The text has the numbers of the first.
            let first = points.first().map(Point::name).filter(|name| !name.is_empty());
            let of = first.map_or(String::new(), |first| format!(" for {first}{also}"));
            format!("{word}{of}: {}.", text.trim_end_matches('.'))
        };
        self.0.values().map(sentence).collect()
    }
}

/// State of a sentence at a point.
enum State {
    Holds,
    DoesNotHold,
    /// The sort of the reason, and the reason.
    Undecided(String, String),
    /// The reason, and whether a trial was not run.
    Missing(String, bool),
}

/// The cell of `figure` at `point`.
fn cell<'f>(figure: &'f FigureView, point: &Point<'_>) -> Option<&'f FigureCell> {
    cells(figure, point).next().map(|(_, cell)| cell)
}

/// The cells of `figure` at `point` with their rows: several if it leaves more of the sweep open.
fn cells<'f>(figure: &'f FigureView, point: &Point<'_>) -> impl Iterator<Item = (&'f FigureRow, &'f FigureCell)> {
    let named = named(figure);
    let of_row = move |row: &'f FigureRow| {
        let of_point =
            |cell: &&FigureCell| point.meets(named.as_ref().map_or(cell.store.as_str(), |_| ""), &row.labels);
        let is_own = |cell: &&FigureCell| named.as_ref().is_none_or(|store| cell.store == *store);
        let cell = row.cells.iter().filter(is_own).find(of_point)?;
        Some((row, cell))
    };
    figure.rows.iter().filter_map(of_row)
}

/// Returns the store that a figure is of, if its formula names it.
fn named(figure: &FigureView) -> Option<String> {
    Formula::parse(&figure.formula).ok().and_then(|formula| named_store(&formula).map(str::to_owned))
}

/// Returns the stores that the formulas of `figures` name.
fn stores_of(figures: &[&FigureView]) -> BTreeSet<String> {
    let formulas: Vec<Formula> = figures.iter().filter_map(|figure| Formula::parse(&figure.formula).ok()).collect();
    formulas.iter().flat_map(stores_named).map(str::to_owned).collect()
}

/// The points of `figures`: those of the figure that leaves most of the sweep open.
fn points<'f>(figures: &[&'f FigureView]) -> Vec<Point<'f>> {
    let widest = |names_store: bool| {
        let figures = figures.iter().filter(|figure| named(figure).is_some() == names_store);
        figures.max_by_key(|figure| figure.rows.len()).map(|figure| &figure.rows)
    };
    let Some(of_stores) = widest(false) else {
        let of_all = widest(true).into_iter().flatten();
        return of_all.map(|row| Point { store: "", labels: &row.labels }).collect();
    };
    let of_row =
        |row: &'f FigureRow| row.cells.iter().map(move |cell| Point { store: &cell.store, labels: &row.labels });
    let mut points: Vec<Point<'f>> = of_stores.iter().flat_map(of_row).collect();
    // Those of one store together, in its order.
    let stores: IndexSet<&str> = points.iter().map(|point| point.store).collect();
    points.sort_by_key(|point| stores.get_index_of(point.store));
    points
}

struct Figures<'f> {
    all: &'f [FigureView],
    told: Told<'f>,
}

impl<'f> Figures<'f> {
    fn named(&self, name: &str) -> Option<&'f FigureView> {
        self.all.iter().find(|figure| figure.name == name)
    }

    /// Collects the points of ratios that cannot be.
    fn impossible(&self, worthless: &mut Reasons<'f>) {
        for figure in self.all {
            for point in points(&[figure]) {
                let Some((cell, why)) = cell(figure, &point).and_then(|cell| Some((cell, impossible(figure, cell)?)))
                else {
                    continue;
                };
                let text = || format!("`{}` is {}, but {why}; repeat it on a quiet machine", figure.name, cell.text);
                worthless.push(&figure.name, text, point);
            }
        }
    }

    /// Returns a sentence of the points for which it holds; `None` if there are none.
    fn said(&self, one: &AnswerSentence, worthless: &Reasons<'f>, undecided: &mut Reasons<'f>) -> Option<SaidSentence> {
        let condition = one.only_if.as_deref().and_then(|text| Condition::parse(text).ok());
        let placed = places_in(&one.say).filter(|place| !place.is_published);
        let placed: Vec<&'f FigureView> = placed.filter_map(|place| self.named(place.figure)).collect();
        let asked = condition.iter().flat_map(Condition::figures).filter_map(|(name, _)| self.named(name));
        let asked: Vec<&'f FigureView> = asked.collect();
        let used = [placed.clone(), asked.clone()].concat();
        let mut held: Vec<Point<'f>> = Vec::new();
        let mut missing: IndexMap<String, (Vec<Point<'f>>, bool)> = IndexMap::new();
        let mut decided = 0;
        let stores = stores_of(&used);
        for point in points(&used).into_iter().filter(|point| !worthless.cover(point, &stores)) {
            match state(one, condition.as_ref(), (&placed, &asked), &point) {
                State::Holds => held.push(point),
                State::DoesNotHold => decided += 1,
                State::Undecided(sort, why) => {
                    undecided.push(&sort, || why, point);
                    decided += 1;
                }
                State::Missing(why, is_not_run) => {
                    missing.entry(why).or_insert((Vec::new(), is_not_run)).0.push(point);
                }
            }
        }
        // A sentence without figures is of all points.
        if held.is_empty() && !(used.is_empty() && worthless.0.is_empty()) {
            // A store may lack a figure, but not all of them.
            // The study has trials that a store cannot have: one is a reason only if there is no other.
            let (not_run, mut reasons): (Vec<_>, Vec<_>) =
                missing.iter().filter(|_| decided == 0).partition(|(_, (_, is_not_run))| *is_not_run);
            if reasons.is_empty() {
                reasons.extend(not_run.first());
            }
            for (why, (points, _)) in reasons {
                points.iter().for_each(|point| undecided.push(why, || why.clone(), *point));
            }
            return None;
        }
        if let Some(why) = places_in(&one.say).find_map(|place| self.findings(place.figure)?.err()) {
            undecided.push(&why, || why.clone(), Point { store: "", labels: &NO_LABELS });
            return None;
        }
        let (agrees, published, compared) = match (one.agree, placed.first()) {
            (Some(agree), Some(figure)) => compared(agree, figure, &held),
            _ => (None, Vec::new(), String::new()),
        };
        let text = self.filled(&one.say, &held);
        let text = format!("{}{compared}.", text.trim_end_matches('.'));
        Some(SaidSentence { text, published, agrees })
    }

    /// Returns the findings that a place names; `None` if it names none, or a figure.
    fn findings(&self, name: &str) -> Option<Result<String, String>> {
        let (findings, phase) = PlacedFindings::parse(name).filter(|_| self.named(name).is_none())?;
        Some((self.told)(findings, phase))
    }

    /// Fills the places of a sentence with the values at `points`, and with findings.
    fn filled(&self, say: &str, points: &[Point<'f>]) -> String {
        let mut text = say.to_owned();
        for place in places_in(say) {
            let values = match self.named(place.figure) {
                Some(figure) if place.is_published => {
                    published(figure, points).iter().map(published_text).collect::<Vec<_>>().join("; ")
                }
                Some(figure) => values(figure, points),
                None => match self.findings(place.figure) {
                    Some(Ok(text)) => text,
                    _ => continue,
                },
            };
            text = text.replace(&format!("{{{}}}", place.written), &values);
        }
        text
    }
}

/// Judges a sentence at a point, with the figures of its places and those of its condition.
fn state(
    one: &AnswerSentence,
    condition: Option<&Condition>,
    (placed, asked): (&[&FigureView], &[&FigureView]),
    point: &Point<'_>,
) -> State {
    let mut cells: Vec<(&FigureView, &FigureCell)> = Vec::new();
    for figure in placed.iter().chain(asked).copied() {
        match cell(figure, point) {
            Some(cell) if cell.value.is_some() => cells.push((figure, cell)),
            found => {
                let why = found.and_then(|cell| cell.missing.as_deref()).unwrap_or("it was not measured");
                let is_not_run = found.is_some_and(|cell| cell.is_not_run);
                return State::Missing(format!("`{}` is missing: {why}", figure.name), is_not_run);
            }
        }
    }
    let bounds_of = |name: &str| -> Option<Bounds> {
        cells.iter().find(|(figure, _)| figure.name == name).and_then(|(_, cell)| cell.bounds)
    };
    let holds = condition.map_or(Some(true), |condition| condition.holds(&bounds_of));
    let (of_places, of_condition) = cells.split_at(placed.len());
    let is_sure =
        |(_, cell): &(&FigureView, &FigureCell)| cell.doubt.is_none() && cell.repeats >= u64::from(one.repeats);
    if holds == Some(false) && of_condition.iter().all(is_sure) {
        return State::DoesNotHold;
    }
    if let Some((_, cell)) = cells.iter().find(|(_, cell)| cell.repeats < u64::from(one.repeats)) {
        let (seen, wanted) = (number::plural(cell.repeats, "trial", "trials"), number::count(u64::from(one.repeats)));
        let why = format!("{seen}, and {wanted} must agree; run it with `repeats = {wanted}`");
        return State::Undecided("repeats".to_owned(), why);
    }
    if let Some((figure, doubt)) = cells.iter().find_map(|(figure, cell)| Some((figure, cell.doubt.as_deref()?))) {
        let next = "repeat it (`repeats`), or make it last at least 5 s";
        let why = format!("`{}` rests on {doubt}, which may be noise; {next}", figure.name);
        return State::Undecided(format!("short {}", figure.name), why);
    }
    if let Some((figure, _)) = cells.iter().find(|(_, cell)| cell.is_of_open) {
        let next = "let the phase last longer";
        let why = format!("`{}` rests on an outage that had not ended when observation ended; {next}", figure.name);
        return State::Undecided(format!("open {}", figure.name), why);
    }
    let is_open = |(figure, cell): &&(&FigureView, &FigureCell)| match condition {
        Some(_) if asked.iter().any(|one| one.name == figure.name) => false,
        _ => figure.unit == "×" && is_wide(cell) && cell.bounds.is_some_and(|(low, high)| low < 1.0 && high > 1.0),
    };
    let is_vague = |(figure, cell): &&(&FigureView, &FigureCell)| {
        figure.unit == "×" && cell.bounds.is_some_and(|(low, high)| high > low * VAGUE)
    };
    if let Some((figure, cell)) = of_places.iter().find(is_vague) {
        return State::Undecided(format!("vague {}", figure.name), vague(figure, cell));
    }
    let open = condition.filter(|_| holds.is_none()).map_or_else(Vec::new, |condition| condition.undecided(&bounds_of));
    let of_condition = of_condition.iter().filter(|(figure, _)| open.contains(&figure.name.as_str()));
    match of_condition.max_by(|a, b| width(a.1).total_cmp(&width(b.1))).or(of_places.iter().find(is_open)) {
        Some((figure, cell)) => State::Undecided(format!("close {}", figure.name), too_close(figure, cell)),
        None => State::Holds,
    }
}

/// Describes a value that may be any within wide bounds.
fn vague(figure: &FigureView, cell: &FigureCell) -> String {
    let bounds = bounds_text(figure, cell);
    format!("`{}` is {}, and may be anything from {bounds}; repeat it (`repeats`)", figure.name, cell.text)
}

/// The bounds of a value as text.
fn bounds_text(figure: &FigureView, cell: &FigureCell) -> String {
    let (low, high) = cell.bounds.unwrap_or_default();
    let [from, to] = [low, high].map(|value| shown(&figure.unit, &figure.formula, value));
    if high.is_finite() { from_to(&from, &to, &figure.unit) } else { format!("{from} or more") }
}

/// Describes a value within whose bounds a sentence both holds and does not.
fn too_close(figure: &FigureView, cell: &FigureCell) -> String {
    let bounds = bounds_text(figure, cell);
    match cell.repeats {
        _ if cell.open => {
            let next = "let the phase last longer";
            format!("`{}` is {}, and had not ended when observation ended; {next}", figure.name, cell.text)
        }
        0 | 1 => format!("`{}` is {}, or {bounds}: too close to tell; repeat it (`repeats`)", figure.name, cell.text),
        n => format!("`{}` is {}, and its {n} repeats do not agree: {bounds}", figure.name, cell.text),
    }
}

/// Width of a value's bounds, as a share of the value.
fn width(cell: &FigureCell) -> f64 {
    let Some(((low, high), value)) = cell.bounds.zip(cell.value) else { return f64::INFINITY };
    if low == high { 0.0 } else { (high - low) / value.abs() }
}

fn is_wide(cell: &FigureCell) -> bool {
    width(cell) > WIDE
}

/// Formats the values of `figure` at `points`, store by store: from the least to the greatest if there are several.
fn values(figure: &FigureView, points: &[Point<'_>]) -> String {
    let mut stores: IndexMap<&str, IndexMap<&BTreeMap<String, String>, &FigureCell>> = IndexMap::new();
    for (row, cell) in points.iter().flat_map(|point| cells(figure, point)).filter(|(_, cell)| cell.value.is_some()) {
        stores.entry(&cell.store).or_default().insert(&row.labels, cell);
    }
    // A store without a value must not be taken for one with this one.
    let several = named(figure).is_none() && figure.rows.iter().any(|row| row.cells.len() > 1);
    let of = |(store, cells): (&str, IndexMap<&BTreeMap<String, String>, &FigureCell>)| {
        let all = figure.rows.iter().flat_map(|row| &row.cells).filter(|cell| cell.store == store);
        let (n, count) = (cells.len(), all.filter(|cell| cell.value.is_some()).count());
        let is_part = n < count;
        let prefix = |name: String| if several || is_part { format!("{name} ") } else { String::new() };
        if is_part && cells.len() <= NAMED_MAX {
            let one = |(labels, cell): (&BTreeMap<String, String>, &FigureCell)| {
                format!("{}{}", prefix(name::labelled(store, labels.iter())), with_interval(figure, cell))
            };
            return cells.into_iter().map(one).collect::<Vec<_>>().join(", ");
        }
        let mut cells: Vec<(&BTreeMap<String, String>, &FigureCell)> = cells.into_iter().collect();
        cells.sort_by(|(_, one), (_, other)| one.value.partial_cmp(&other.value).unwrap_or(std::cmp::Ordering::Equal));
        let text = match cells.as_slice() {
            [(of_least, least), .., (of_most, most)] if least.text != most.text => {
                from_to(&least.text, &most.text, &figure.unit) + &ends(of_least, of_most)
            }
            cells => cells.first().map_or_else(String::new, |(_, cell)| with_interval(figure, cell)),
        };
        let store = if is_part { format!("{store} at {n} of {count} points") } else { store.to_owned() };
        format!("{}{text}", prefix(store))
    };
    stores.into_iter().map(of).collect::<Vec<_>>().join(", ")
}

/// Names the points at the ends of a range if one label distinguishes them: ` (disk plain to ext4)`.
fn ends(least: &BTreeMap<String, String>, most: &BTreeMap<String, String>) -> String {
    let both = least.iter().filter_map(|(name, value)| Some((name, value, most.get(name)?)));
    let mut differ = both.filter(|(_, from, to)| from != to);
    match (differ.next(), differ.next()) {
        (Some((name, from, to)), None) => format!(" ({name} {from} to {to})"),
        _ => String::new(),
    }
}

/// Two values as the ends of a range. A unit that does not change with the number is given once.
fn from_to(least: &str, most: &str, unit: &str) -> String {
    format!("{} to {most}", least.strip_suffix(&format!(" {unit}")).unwrap_or(least))
}

/// A value, with its interval if that is wide.
fn with_interval(figure: &FigureView, cell: &FigureCell) -> String {
    match cell.interval.filter(|_| is_wide(cell)) {
        Some((low, high)) => {
            let [low, high] = [low, high].map(|value| shown(&figure.unit, &figure.formula, value));
            let high = number::lower_bound(high, cell.bounds.is_some_and(|(_, most)| most.is_infinite()));
            format!("{} ({})", cell.text, from_to(&low, &high, &figure.unit))
        }
        None => cell.text.clone(),
    }
}

/// The values published for `figure` at `points`, and for all of it.
fn published<'f>(figure: &'f FigureView, points: &[Point<'_>]) -> Vec<&'f PublishedView> {
    let of_rows = points.iter().flat_map(|point| cells(figure, point)).flat_map(|(row, _)| &row.published);
    let mut all: Vec<&PublishedView> = Vec::new();
    for one in figure.published.iter().chain(of_rows) {
        if !all.contains(&one) {
            all.push(one);
        }
    }
    all
}

fn published_text(one: &&PublishedView) -> String {
    format!("{} ({})", one.text, one.of)
}

/// Compares `figure` at `points` with its published values: agreement of all, the values, and the end of the sentence.
fn compared(agree: Agreement, figure: &FigureView, points: &[Point<'_>]) -> (Option<bool>, Vec<String>, String) {
    let texts: Vec<String> = published(figure, points).iter().map(published_text).collect();
    let mut all: Vec<(String, Option<bool>)> = Vec::new();
    for point in points {
        let values: Vec<f64> = published(figure, &[*point]).iter().map(|one| one.value).collect();
        if let Some(bounds) = cell(figure, point).and_then(|cell| cell.bounds).filter(|_| !values.is_empty()) {
            all.push((point.name(), agrees(agree, bounds, &values)));
        }
    }
    let of = |wanted: Option<bool>| -> Vec<String> {
        all.iter().filter(|(_, agrees)| *agrees == wanted).map(|(name, _)| name.clone()).collect()
    };
    let (alike, unlike, open) = (of(Some(true)), of(Some(false)), of(None));
    let published = texts.join("; ");
    // Nothing may have been published of some points.
    let is_of_all = all.len() == points.len();
    let (agrees, text) = match (alike.as_slice(), unlike.as_slice(), open.as_slice()) {
        ([], [], []) => (None, String::new()),
        (_, [], []) if is_of_all => (Some(true), format!("; as published: {published}")),
        ([], _, []) if is_of_all => (Some(false), format!("; not as published: {published}")),
        ([], [], _) if is_of_all => (None, format!("; agreement with the published values is undecided: {published}")),
        _ => {
            let parts = [("as published", &alike), ("not as published", &unlike), ("undecided", &open)];
            let parts = parts.iter().filter(|(_, names)| !names.is_empty());
            let parts = parts.map(|(word, names)| format!("{word} for {}", number::list(names)));
            (None, format!("; {}: {published}", parts.collect::<Vec<_>>().join(", ")))
        }
    };
    (agrees, texts, text)
}

/// Returns true if a value within `bounds` agrees with any of the published ones; `None` if it may or may not.
fn agrees(agree: Agreement, (low, high): Bounds, published: &[f64]) -> Option<bool> {
    let each = published.iter().map(|value| match agree {
        Agreement::Direction if *value > 1.0 => (low > 1.0, high <= 1.0),
        Agreement::Direction => (high < 1.0, low >= 1.0),
        Agreement::Factor(factor) => {
            let (least, most) = (value / factor, value * factor);
            (low >= least && high <= most, high < least || low > most)
        }
    });
    let each: Vec<(bool, bool)> = each.collect();
    let (any, none) = (each.iter().any(|(always, _)| *always), each.iter().all(|(_, never)| *never));
    (any || none).then_some(any)
}

/// Returns the reason that the value of a figure cannot be.
fn impossible(figure: &FigureView, cell: &FigureCell) -> Option<String> {
    let (low, high) = cell.bounds?;
    match figure.unit.as_str() {
        "%" if high < -100.0 => Some("nothing falls by more than 100 %".to_owned()),
        "×" if high < 0.0 => Some("a ratio of times or rates is not below 0".to_owned()),
        "×" => {
            let is_slower = is_of_durable_beside_unsafe(&figure.formula)?;
            let is_wrong = if is_slower { high < 1.0 - IMPOSSIBLE } else { low > 1.0 + IMPOSSIBLE };
            is_wrong.then(|| "writes that survive more are not faster than those that survive less".to_owned())
        }
        _ => None,
    }
}

/// Returns true if `formula` is a ratio of the same result with two durabilities and must be above 1, false if it must
/// be below 1; `None` for any other formula.
fn is_of_durable_beside_unsafe(formula: &str) -> Option<bool> {
    let formula = Formula::parse(formula).ok()?;
    let terms: Vec<&Term> = formula.terms().map(|(term, _)| term).collect();
    let [above, below] = terms.as_slice() else { return None };
    let is_ratio = |a: f64, b: f64| formula.eval(&|term| Some(if term == *above { a } else { b })) == Some(a / b);
    if above == below || !is_ratio(6.0, 3.0) || !is_ratio(5.0, 4.0) {
        return None;
    }
    let others = |term: &Term| {
        let labels = term.labels.iter().filter(|(name, _)| name != "durability").cloned();
        (term.phase.clone(), term.quantity.clone(), labels.collect::<BTreeMap<_, _>>())
    };
    let rank = |term: &Term| {
        let (_, value) = term.labels.iter().find(|(name, _)| name == "durability")?;
        DURABILITIES.iter().position(|known| known == value)
    };
    let (rank_above, rank_below) = (rank(above)?, rank(below)?);
    let is_alike = others(above) == others(below) && rank_above != rank_below;
    // More of a rate is faster, more of a time is slower.
    let is_slower = match above.quantity.as_str() {
        "rate" => rank_above < rank_below,
        "seconds" | "mean" | "p50" => rank_above > rank_below,
        _ => return None,
    };
    is_alike.then_some(is_slower)
}
