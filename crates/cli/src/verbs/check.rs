//! `plimsoll check`: what would run and for how long, and what `plimsoll run` would refuse.

use plimsoll_core::{Catalogue, shown};
use plimsoll_trial::TrialError;

use crate::args::CheckArgs;
use crate::error::exit;
use crate::plans::{self, Passwords};

/// Reads the plan and prints what would run; an error points at line and column. Refuses what `run` refuses.
pub fn run(catalogue: &Catalogue, args: &CheckArgs) -> Result<u8, TrialError> {
    let (plan, _) = plans::load(catalogue, args, &mut Passwords::default())?;
    let needs = plimsoll_trial::needs(catalogue, &plan)?;
    // A title, label or URL is the user's: it may hold anything.
    let text: String = plan.outline().iter().map(|line| format!("{}\n", shown::clean(line))).collect();
    crate::print(&format!("{text}{}\n", shown::clean(&needs.line())))?;
    let runs_dir = plimsoll_record::default_runs_dir()?;
    plimsoll_trial::possible(&plan, catalogue, &runs_dir).map(|()| exit::OK)
}
