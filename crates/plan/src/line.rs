//! The `[line]` of a plan: the search for the load line and its bounds.

use crate::document::{PlanReader, Section};
use crate::keys::LINE;
use crate::model::{Drive, Goal, LineSearch, Plan, PlannedTrial};
use crate::phases::PhaseDraft;

/// Default time for the search: five minutes.
const BUDGET_NS: u64 = 300 * 1_000_000_000;
/// Default time for a search through faults, whose load steps are longer: a quarter of an hour.
const FAULTS_NS: u64 = 900 * 1_000_000_000;
/// Default time for a thorough search: half an hour.
const THOROUGH_NS: u64 = 1_800 * 1_000_000_000;

/// Default for the lowest rate.
const LEAST_PER_S: f64 = 1.0;

impl PlanReader<'_> {
    /// Reads the `[line]`, if there is one.
    pub(crate) fn line(&self, root: &Section<'_>) -> Option<LineSearch> {
        let node = root.get("line")?;
        let section = self.section(&node, "[line]", &[LINE])?;
        let rate = |key: &str| self.given(&section, key, |this, node, _| this.rate(node));
        let (from, least, most) = (rate("from"), rate("least"), rate("most"));
        let precision = self.value(&section, "precision", Self::share);
        let budget = self.given(&section, "budget", Self::whole);
        let warmup = self.given(&section, "warmup", Self::whole);
        let thorough = self.value(&section, "thorough", Self::bool)?;
        let default_ns = match (thorough, self.has_faults(root)) {
            (true, _) => THOROUGH_NS,
            (false, true) => FAULTS_NS,
            (false, false) => BUDGET_NS,
        };
        let line = LineSearch {
            from_per_s: from?,
            least_per_s: least?.unwrap_or(LEAST_PER_S),
            most_per_s: most?,
            precision: precision? / 100.0,
            budget_ns: budget?.unwrap_or(default_ns),
            warmup_ns: warmup?,
            thorough,
        };
        if line.most_per_s.is_some_and(|most| line.least_per_s >= most) {
            let help = least.flatten().is_none().then(|| "set `least`, which is 1/s by default".to_owned());
            return self.refuse(section.span, "`least` must be below `most`", help);
        }
        Some(line)
    }

    /// Returns true if a phase has a fault.
    pub(crate) fn has_faults(&self, root: &Section<'_>) -> bool {
        let phases = root.get("phase").and_then(|node| node.elements()).unwrap_or_default();
        phases.iter().filter_map(|node| self.table(node, "a phase")).any(|phase| phase.get("fault").is_some())
    }

    /// Reports drawn faults of a plan with a `[line]`.
    pub(crate) fn has_no_drawn_fault(&self, root: &Section<'_>, phases: &[PhaseDraft]) {
        let drawn = phases.iter().find_map(|phase| phase.step.drawn.as_ref());
        let Some((_, span)) = drawn.filter(|_| root.get("line").is_some()) else { return };
        let what = "drawn faults do not fit into load steps, whose length the search chooses";
        self.problem(span.clone(), what, Some("write each fault once, with its own time: at 40%".to_owned()));
    }

    /// Reports parts of a plan with a `[line]` that prevent the search.
    pub(crate) fn can_be_searched(&self, root: &Section<'_>, plan: &Plan) {
        let Some(node) = root.get("line").filter(|_| plan.line.is_some()) else { return };
        let has_faults = plan.trials.iter().flat_map(PlannedTrial::drives).any(|(_, drive)| !drive.faults.is_empty());
        let is_seen = |goal: &Goal| goal.what.is_searchable() || has_faults && goal.what.is_of_faults();
        if !plan.goals.iter().any(is_seen) {
            let help = "write [goals] with `p99 = \"20ms\"`".to_owned();
            self.problem(node.span.clone(), "a load line needs a goal for a percentile or for errors", Some(help));
        }
        for trial in &plan.trials {
            let drives = trial.drives().count();
            if drives != 1 {
                let what = format!("a load line is searched with one `drive` phase, not {drives}");
                self.problem(node.span, what, None);
                return;
            }
        }
        if plan.trials.iter().flat_map(PlannedTrial::drives).any(|(_, drive)| !drive.scenarios.is_empty()) {
            let what = "a load line is that of one load: leave `scenario` out, and give `mix` and `clients`";
            self.problem(node.span, what, None);
            return;
        }
        let drives = || plan.trials.iter().flat_map(PlannedTrial::drives);
        if drives().any(|(_, drive)| drive.power_cut.is_some()) {
            self.problem(node.span, "a load line needs servers with power: leave `power_cut` out", None);
            return;
        }
        let mut faults = drives().flat_map(|(_, drive)| &drive.faults);
        if let Some(fault) =
            faults.find(|fault| fault.outlasts_phase() || fault.every_ns.is_some() || fault.begins_by_load())
        {
            let what = format!("`{fault}` does not fit into load steps, whose length the search chooses");
            let help = if fault.outlasts_phase() {
                "write how long a fault of a disk lasts, and leave `add node` out"
            } else {
                "write the fault once, with a time: at 40%"
            };
            self.problem(node.span, what, Some(help.to_owned()));
            return;
        }
        let has_own = |(_, drive): (&str, &Drive)| drive.think.is_some() || !drive.all_stages().is_empty();
        if plan.trials.iter().flat_map(PlannedTrial::drives).any(has_own) {
            let what = "a search finds the rates itself: leave out `stages` and `think`";
            self.problem(node.span.clone(), what, None);
        }
        let stores: Vec<&str> = plan.trials.iter().map(|trial| trial.store.label.as_str()).collect();
        if let Some(twice) = stores.iter().enumerate().find(|(at, store)| stores[..*at].contains(store)) {
            let what = format!("the load line of `{}` would be searched at several points", twice.1);
            let help = "give every swept key one value: a search is about one point".to_owned();
            self.problem(node.span.clone(), what, Some(help));
        }
        if plan.repeats > 1 {
            let what = "a search repeats load steps itself: leave `repeats` out";
            self.problem(node.span, what, None);
        }
    }
}
