//! Slices: what a load generator observed, by the thousand.

use hdrhistogram::serialization::Deserializer;
use plimsoll_core::{
    ClientSet, Disturbance, KEY_PARTS_MAX, KeyParts, Measure, Outcome, Pause, ServerTicks, Slice, SliceHistogram, Tick,
};
use rusqlite::{Connection, Row};

use super::{
    Fault, Phases, Read, all, all_of_table, blob, check_time, count, distribution, document, named, optional_count,
    phase_of,
};
use crate::distribution::Distribution;
use crate::schema::{DISTURBED, GENERATOR, UNFINISHED};
use crate::{silences, ticks};

/// Reads the slices of all phases, with everything that belongs to them.
pub(super) fn read_slices(connection: &Connection, phases: &mut Phases) -> Read<()> {
    let sql = "SELECT trial, phase, ordinal, warmup, start_ns, end_ns, wall_ns, due_unsent, in_flight, oldest_age_ns, \
               lag_p50_ns, lag_p99_ns, lag_max_ns, worker_cpu_ns, drain, voluntary_switches, involuntary_switches, \
               disturbed_ns, generator, ticks FROM slice ORDER BY trial, phase, ordinal";
    all(connection, sql, |row| {
        check_generator(row, 18)?;
        let (start_ns, end_ns) = (count(row, 4)?, count(row, 5)?);
        check_time("a slice", start_ns, end_ns)?;
        let slice = Slice {
            ordinal: row.get(2)?,
            warmup: row.get(3)?,
            start_ns,
            end_ns,
            wall_ns: row.get(6)?,
            due_unsent: count(row, 7)?,
            in_flight: count(row, 8)?,
            oldest_age_ns: count(row, 9)?,
            lag_p50_ns: count(row, 10)?,
            lag_p99_ns: count(row, 11)?,
            lag_max_ns: count(row, 12)?,
            worker_cpu_ns: count(row, 13)?,
            drain: row.get(14)?,
            voluntary_switches: count(row, 15)?,
            involuntary_switches: count(row, 16)?,
            watched: optional_count(row, 17)?
                .map(|disturbed_ns| Disturbance { disturbed_ns, ..Disturbance::default() }),
            ticks: ticks_of(row, 19)?,
            ..Slice::default()
        };
        phase_of(phases, row).map(|phase| phase.slices.push(slice))
    })?;
    // Reports add these up. SQLite refuses a sum of more than 63 bits.
    let sums = "SELECT sum(due_unsent), sum(worker_cpu_ns), sum(voluntary_switches), sum(involuntary_switches), \
                sum(disturbed_ns) FROM slice";
    connection.query_row(sums, [], |_| Ok(()))?;
    read_histograms(connection, phases)?;
    let sql = "SELECT trial, phase, slice, start_ns, end_ns, cpu, generator FROM pause ORDER BY rowid";
    all(connection, sql, |row| {
        check_generator(row, 6)?;
        let pause = Pause { start_ns: count(row, 3)?, end_ns: count(row, 4)?, cpu: row.get(5)? };
        check_time("a pause", pause.start_ns, pause.end_ns)?;
        watched(slice_of(phases, row)?).map(|watched| watched.pauses.push(pause))
    })?;
    read_table(connection, phases, ("affected", "clients, bits", "affected clients"), |row, slice| {
        slice.affected = ClientSet::from_bytes(row.get(4)?, blob(row, 5)?);
        Ok(slice.affected.is_some())
    })?;
    read_table(connection, phases, ("silences", "times", "silences"), |row, slice| {
        slice.silences = silences::decode(blob(row, 4)?);
        Ok(slice.silences.is_some())
    })?;
    read_table(connection, phases, ("server_ticks", "names, ticks", "servers"), |row, slice| {
        let names: Vec<String> = document(row, 4)?;
        let answered = ticks::decode_servers(names.len(), blob(row, 5)?).filter(|all| all.len() == slice.ticks.len());
        slice.server_ticks = answered.map(|answered| ServerTicks { names, answered });
        Ok(slice.server_ticks.is_some())
    })?;
    read_table(connection, phases, ("key_parts", "parts, ticks", "parts of the keys"), |row, slice| {
        let of: u8 = row.get(4)?;
        let ticks = if (1..=KEY_PARTS_MAX).contains(&of) { ticks::decode_parts(of, blob(row, 5)?) } else { None };
        let ticks = ticks.filter(|all| all.len() == slice.ticks.len());
        slice.key_parts = ticks.map(|ticks| KeyParts { of, ticks });
        Ok(slice.key_parts.is_some())
    })
}

/// Reads a table of slices that not all recordings have; `add` returns false for a damaged row.
fn read_table(
    connection: &Connection,
    phases: &mut Phases,
    (table, columns, content): (&str, &str, &str),
    add: impl Fn(&Row<'_>, &mut Slice<Distribution>) -> Read<bool>,
) -> Read<()> {
    let sql = format!("SELECT trial, phase, slice, generator, {columns} FROM {table} ORDER BY trial, phase, slice");
    all_of_table(connection, table, &sql, |row| {
        check_generator(row, 3)?;
        let slice = slice_of(phases, row)?;
        match add(row, slice)? {
            true => Ok(()),
            false => Err(Fault::Content(format!("the {content} of slice {} are damaged", slice.ordinal))),
        }
    })
    .map(drop)
}

/// Checks that the load generator in the column at `position` is the only one that is known.
pub(super) fn check_generator(row: &Row<'_>, position: usize) -> Read<()> {
    match row.get::<_, i64>(position)? {
        found if found == i64::from(GENERATOR) => Ok(()),
        found => Err(Fault::Generator(found)),
    }
}

/// Returns the ticks in the column at `position` of a slice's row; none if they were not counted.
fn ticks_of(row: &Row<'_>, position: usize) -> Read<Vec<Tick>> {
    let Some(bytes) = row.get_ref(position)?.as_blob_or_null().map_err(rusqlite::Error::from)? else {
        return Ok(Vec::new());
    };
    match ticks::decode(bytes) {
        Some(ticks) => Ok(ticks),
        None => Err(Fault::Content(format!("the ticks of slice {} are damaged", row.get::<_, u32>(2)?))),
    }
}

/// The slice that the first three columns of `row` name.
fn slice_of<'a>(phases: &'a mut Phases, row: &Row<'_>) -> Read<&'a mut Slice<Distribution>> {
    let ordinal: u32 = row.get(2)?;
    let slices = &mut phase_of(phases, row)?.slices;
    let position = slices.binary_search_by_key(&ordinal, |slice| slice.ordinal);
    let slice = position.ok().and_then(|position| slices.get_mut(position));
    slice.ok_or_else(|| Fault::Content(format!("a row belongs to slice {ordinal}, which does not exist")))
}

/// Returns the witness's observations of `slice`.
fn watched(slice: &mut Slice<Distribution>) -> Read<&mut Disturbance<Distribution>> {
    let ordinal = slice.ordinal;
    let watched = slice.watched.as_mut();
    watched.ok_or_else(|| Fault::Content(format!("slice {ordinal} was disturbed, but its phase did not record pauses")))
}

fn read_histograms(connection: &Connection, phases: &mut Phases) -> Read<()> {
    let mut decoder = Deserializer::new();
    // In the order in which they were written: no sorting of what holds the bulk of the bytes.
    let sql = "SELECT trial, phase, slice, kind, outcome, measure, hdr, generator FROM histogram ORDER BY rowid";
    all(connection, sql, |row| {
        check_generator(row, 7)?;
        let kind: Option<u16> = row.get(3)?;
        let outcome: String = row.get(4)?;
        let measure: String = row.get(5)?;
        let slice = slice_of(phases, row)?;
        let histogram = distribution(&mut decoder, row, 6, &format!("a histogram of slice {}", slice.ordinal))?;
        let Some(kind) = kind else {
            match outcome.as_str() {
                UNFINISHED => slice.unfinished = Some(histogram),
                _ => return Err(Fault::Content("a histogram is of no operation type".into())),
            }
            return Ok(());
        };
        let (is_disturbed, measure) = match measure.strip_prefix(DISTURBED) {
            Some(measure) => (true, measure),
            None => (false, measure.as_str()),
        };
        let (outcome, measure) = (named(&outcome, Outcome::named)?, named(measure, Measure::named)?);
        let one = SliceHistogram { kind, outcome, measure, histogram };
        if is_disturbed {
            watched(slice)?.disturbed.push(one)
        } else {
            slice.histograms.push(one)
        }
        Ok(())
    })?;
    Ok(())
}
