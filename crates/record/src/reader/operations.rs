//! Operations that were kept one by one.

use rusqlite::Connection;

use super::slices::check_generator;
use super::{Fault, Phases, Read, all, check_time, optional_count, phase_of};
use crate::data::Operations;
use crate::operations::decode;
use crate::schema::has_table;

/// Reads the operations of all phases of which they were kept.
pub(super) fn read_operations(connection: &Connection, phases: &mut Phases) -> Read<()> {
    if !has_table(connection, "operations")? {
        return Ok(());
    }
    let sql = "SELECT trial, phase, until_ns, generator, times FROM operations ORDER BY trial, phase";
    all(connection, sql, |row| {
        check_generator(row, 3)?;
        let until_ns = optional_count(row, 2)?;
        let phase = phase_of(phases, row)?;
        let each = decode(row.get_ref(4)?.as_blob().map_err(rusqlite::Error::from)?);
        let damaged = || Fault::Content(format!("the operations of phase {} are damaged", phase.header.name));
        let each = each.ok_or_else(damaged)?;
        check_time("an operation", 0, each.last().map_or(0, |op| op.end_ns))?;
        phase.operations = Some(Operations { each, until_ns });
        Ok(())
    })?;
    Ok(())
}
