//! The `[line]` of a plan: that its load line is searched for, and within which bounds.

use crate::document::{Reading, Section};
use crate::model::{GoalKind, Line, Plan, Step};
use crate::quantity::Dimension;

const KEYS: &[&str] = &["from", "least", "most", "precision", "budget", "thorough", "warmup"];

/// Time for everything, unless said otherwise: five minutes.
const BUDGET_NS: u64 = 300 * 1_000_000_000;
/// Time for everything of a thorough search: half an hour.
const THOROUGH_NS: u64 = 1_800 * 1_000_000_000;
/// Shortest and longest time for everything: half a minute, a week.
const BUDGETS_NS: std::ops::RangeInclusive<u64> = 30 * 1_000_000_000..=7 * 86_400 * 1_000_000_000;
/// Half of the line's 95 % interval that may stay, in percent.
const PRECISION: f64 = 2.0;
const PRECISIONS: std::ops::RangeInclusive<f64> = 0.1..=25.0;
/// Warm-up of a rung, unless said otherwise.
const WARMUP_NS: u64 = 1_000_000_000;

impl Reading<'_> {
    /// The `[line]`, where there is one.
    pub(crate) fn line(&self, root: &Section<'_>) -> Option<Line> {
        let node = root.get("line")?;
        let section = self.table(&node, "[line]")?;
        self.known_keys(&section, KEYS);
        let rate = |key: &str| section.get(key).map(|node| self.rate(&node));
        let time = |key: &str, default, range| match section.get(key) {
            Some(node) => self.duration(&node, range),
            None => Some(default),
        };
        let precision = match section.get("precision") {
            Some(node) => self.quantity(&node, Dimension::Share).and_then(|precision| {
                if PRECISIONS.contains(&precision) {
                    return Some(precision);
                }
                let (least, most) = (PRECISIONS.start(), PRECISIONS.end());
                self.problem(node.span.clone(), format!("`precision` must be {least}% to {most}%"), None);
                None
            }),
            None => Some(PRECISION),
        };
        let thorough = match section.get("thorough") {
            Some(node) => self.bool(&node),
            None => Some(false),
        };
        let budget_ns = if thorough == Some(true) { THOROUGH_NS } else { BUDGET_NS };
        let (from, least, most) = (rate("from"), rate("least"), rate("most"));
        let line = Line {
            from_per_s: flat(from)?,
            least_per_s: flat(least)?,
            most_per_s: flat(most)?,
            precision: precision? / 100.0,
            budget_ns: time("budget", budget_ns, BUDGETS_NS)?,
            warmup_ns: time("warmup", WARMUP_NS, 0..=60_000_000_000)?,
            thorough: thorough?,
        };
        if let (Some(least), Some(most)) = (line.least_per_s, line.most_per_s)
            && least >= most
        {
            self.problem(section.span, "`least` must be below `most`", None);
            return None;
        }
        Some(line)
    }

    /// Reports what keeps a plan with a `[line]` from being searched.
    pub(crate) fn can_be_searched(&self, root: &Section<'_>, plan: &Plan) {
        let Some(node) = root.get("line").filter(|_| plan.line.is_some()) else { return };
        let searchable = |goal: GoalKind| {
            matches!(
                goal,
                GoalKind::P50 | GoalKind::P90 | GoalKind::P95 | GoalKind::P99 | GoalKind::P999 | GoalKind::Errors
            )
        };
        if !plan.goals.iter().any(|goal| searchable(goal.what)) {
            let help = "write [goals] with `p99 = \"20ms\"`".to_owned();
            self.problem(node.span.clone(), "a load line needs a goal that one rate can break", Some(help));
        }
        for trial in &plan.trials {
            let drives = trial.phases.iter().filter(|phase| matches!(phase.step, Step::Drive(_))).count();
            if drives != 1 {
                let what = format!("a load line is searched with one `drive` phase, not {drives}");
                self.problem(node.span, what, None);
                return;
            }
        }
        let stores: Vec<&str> = plan.trials.iter().map(|trial| trial.store.label.as_str()).collect();
        if let Some(twice) = stores.iter().enumerate().find(|(at, store)| stores[..*at].contains(store)) {
            let what = format!("the load line of `{}` would be searched at several points", twice.1);
            let help = "give every swept key one value: a search is about one point".to_owned();
            self.problem(node.span.clone(), what, Some(help));
        }
        if plan.repeats > 1 {
            let what = "a load line repeats by itself what decides: leave `repeats` out";
            self.problem(node.span, what, None);
        }
    }
}

/// A rate that need not be given; `None` if it is wrong.
fn flat(rate: Option<Option<f64>>) -> Option<Option<f64>> {
    match rate {
        None => Some(None),
        Some(rate) => rate.map(Some),
    }
}
