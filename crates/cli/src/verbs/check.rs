//! `plimsoll check`: what would run and for how long.

use plimsoll_core::Catalogue;

use crate::args::PlanArgs;
use crate::error::CliError;
use crate::plans::{self, Passwords};

/// Reads the plan and says what would run; an error points at line and column.
pub fn run(catalogue: &Catalogue, args: &PlanArgs) -> Result<u8, CliError> {
    let (plan, _) = plans::load(catalogue, args, &mut Passwords::default())?;
    let mut text = plan.outline().join("\n");
    text.push('\n');
    crate::print(&text)
}
