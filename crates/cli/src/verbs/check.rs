//! `plimsoll check`: what would run and for how long.

use plimsoll_core::{Catalogue, shown};
use plimsoll_trial::TrialError;

use crate::args::PlanArgs;
use crate::error::exit;
use crate::plans::{self, Passwords};

/// Reads the plan and prints what would run; an error points at line and column.
pub fn run(catalogue: &Catalogue, args: &PlanArgs) -> Result<u8, TrialError> {
    let (plan, _) = plans::load(catalogue, args, &mut Passwords::default())?;
    let needs = plimsoll_trial::needs(catalogue, &plan)?;
    // A title, label or URL is the user's: it may hold anything.
    let text: String = plan.outline().iter().map(|line| format!("{}\n", shown::clean(line))).collect();
    crate::print(&format!("{text}{}\n", shown::clean(&needs.line())))?;
    needs.must_fit().map(|()| exit::OK)
}
