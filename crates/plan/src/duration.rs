//! The duration of a plan, as far as it is known before the run: phases of fixed length, and amounts of other work.

use plimsoll_core::shown::count;

use crate::model::{Drive, DriveLimit, PhaseStep, Plan, PlannedTrial, Start};
use crate::quantity::show_ns;

/// Operations a second that an estimate assumes, as of a store that flushes each commit to a disk.
const ASSUMED_PER_S: u64 = 1_000;

/// Returns the fixed durations of a trial's phases together, in seconds.
pub(crate) fn timed_s(trial: &PlannedTrial) -> f64 {
    trial.drives().map(|(_, drive)| fixed_ns(drive) as f64 / 1e9).sum()
}

/// Returns the length that a drive has whatever the store does, in nanoseconds. A power cut may end it at any time.
fn fixed_ns(drive: &Drive) -> u64 {
    match drive.limit {
        _ if drive.power_cut.is_some() => 0,
        DriveLimit::DurationNs(ns) => drive.warmup_ns.saturating_add(ns),
        DriveLimit::OpsPerClient(_) => drive.warmup_ns.saturating_add(scheduled_ns(drive).unwrap_or(0)),
    }
}

/// Returns the time that a constant rate takes for the operations of a drive that ends by a count, in nanoseconds.
fn scheduled_ns(drive: &Drive) -> Option<u64> {
    let rate = drive.pace.rate()?.constant()?;
    Some((ops(drive) as f64 / rate * 1e9) as u64)
}

/// Returns the number of operations of a drive that ends by a count, of all its clients.
fn ops(drive: &Drive) -> u64 {
    match drive.limit {
        DriveLimit::OpsPerClient(ops) => ops.saturating_mul(u64::from(drive.clients)),
        DriveLimit::DurationNs(_) => 0,
    }
}

fn many(number: u64, what: &str) -> String {
    format!("{} {what}{}", count(number), if number == 1 { "" } else { "s" })
}

/// Work whose duration depends on the store.
#[derive(Debug, Default)]
struct Open {
    loads: u64,
    records: Option<u64>,
    questions: u64,
    /// Operations of drives that end by a count.
    ops: u64,
    /// Drives that a power cut ends, and their longest time together.
    cut: u64,
    cut_ns: u64,
}

impl Open {
    fn of(plan: &Plan, records: &dyn Fn(&PlannedTrial) -> Option<u64>) -> Self {
        let mut open = Self { records: Some(0), ..Self::default() };
        let mut before: Option<&PlannedTrial> = None;
        for trial in plan.certain() {
            let finds_data = plan.start != Start::Fresh && before.is_some_and(|before| before.has_same_data(trial));
            before = Some(trial);
            for phase in &trial.phases {
                match &phase.step {
                    PhaseStep::Load { .. } if !finds_data => {
                        open.loads += 1;
                        open.records = open.records.zip(records(trial)).map(|(sum, count)| sum.saturating_add(count));
                    }
                    PhaseStep::Ask { count, .. } => open.questions += u64::from(*count),
                    PhaseStep::Drive(drive) => open.add(drive),
                    _ => {}
                }
            }
        }
        open
    }

    fn add(&mut self, drive: &Drive) {
        match drive.limit {
            DriveLimit::DurationNs(ns) if drive.power_cut.is_some() => {
                self.cut += 1;
                self.cut_ns = self.cut_ns.saturating_add(drive.warmup_ns.saturating_add(ns));
            }
            DriveLimit::OpsPerClient(_) if scheduled_ns(drive).is_none() => {
                self.ops = self.ops.saturating_add(ops(drive));
            }
            _ => {}
        }
    }

    /// Describes the work, each kind by itself.
    fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        if self.loads > 0 {
            let all = if self.loads == 1 { "" } else { " in all" };
            let records = self.records.map_or(String::new(), |records| format!(" of {}{all}", many(records, "record")));
            words.push(format!("{}{records}", many(self.loads, "load")));
        }
        if self.questions > 0 {
            words.push(many(self.questions, "question"));
        }
        if self.ops > 0 {
            let ns = (self.ops as f64 / ASSUMED_PER_S as f64 * 1e9) as u64;
            let ops = many(self.ops, "operation");
            words.push(format!("{ops} of phases that end by a count (at {}/s: {})", count(ASSUMED_PER_S), show_ns(ns)));
        }
        if self.cut > 0 {
            let drives = many(self.cut, "drive");
            words.push(format!("{drives} until a power cut, at most {}", show_ns(self.cut_ns)));
        }
        words
    }
}

/// Describes the duration of `plan`: of the trials that run in any case, and the number of others. `records` returns the
/// number of records that a trial loads.
pub(crate) fn lines(plan: &Plan, records: &dyn Fn(&PlannedTrial) -> Option<u64>) -> Vec<String> {
    let timed_s: f64 = plan.certain().map(timed_s).sum();
    let fixed = show_ns((timed_s * 1e9) as u64);
    let words = Open::of(plan, records).words();
    let on_top = "the stores' own work comes on top";
    let mut lines = match (timed_s > 0.0, words.is_empty()) {
        (true, true) => vec![format!("{fixed} of driven load; {on_top}")],
        (true, false) => vec![
            format!("at least {fixed} of driven load; {on_top}"),
            format!("not known before the run: {}", words.join("; ")),
        ],
        (false, false) => vec![format!("duration not known before the run: {}; {on_top}", words.join("; "))],
        (false, true) => vec![format!("no driven load; {on_top}")],
    };
    let further = plan.trials.len() - plan.certain().count();
    if further > 0 {
        lines.push(format!("and up to {} more, as results decide", many(further as u64, "trial")));
    }
    lines
}
