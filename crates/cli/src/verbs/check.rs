//! `plimsoll check`: what would run and for how long, and what `plimsoll run` would refuse.

use std::path::Path;

use plimsoll_core::{Catalogue, shown};
use plimsoll_plan::PlannedTrial;
use plimsoll_trial::TrialError;

use crate::args::CheckArgs;
use crate::error::exit;
use crate::plans::{self, Passwords};

/// Reads the plan and prints what would run, or the plan itself; an error points at line and column. Refuses what `run`
/// refuses.
pub fn run(catalogue: &Catalogue, args: &CheckArgs) -> Result<u8, TrialError> {
    let (mut plan, text) = plans::load(catalogue, &args.planned, &mut Passwords::default())?;
    if args.print {
        let plan = Path::new(args.planned.plan.plan.as_deref().unwrap_or_default());
        return crate::print(&plans::with_absolute_paths(&text, plan.parent().unwrap_or(plan)));
    }
    plans::leave_out(catalogue, &mut plan, &args.planned)?;
    let lost = plimsoll_trial::lost_primaries(catalogue, &plan);
    plan.notices.extend(lost);
    let needs = plimsoll_trial::needs(catalogue, &plan)?;
    let records = |trial: &PlannedTrial| plimsoll_trial::record_count(catalogue, trial);
    // A title, label or URL is the user's: it may hold anything.
    let text: String = plan.outline(&records).iter().map(|line| format!("{}\n", shown::clean(line))).collect();
    crate::print(&format!("{text}{}\n", shown::clean(&needs.line())))?;
    let runs_dir = plimsoll_record::default_runs_dir()?;
    plimsoll_trial::possible(&plan, catalogue, &runs_dir).map(|()| exit::OK)
}
