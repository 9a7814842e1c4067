//! SQL of the control plane: settings, sizes, clean-up, checks.

use plimsoll_core::{Answer, Footprint, Setting, StoreError, StoreErrorKind, Value, Waits, waits};
use plimsoll_endpoint::text;
use plimsoll_keyindex::keyspace::INDEX_ROLE;

use crate::connection::Connection;
use crate::sql::{literal, quoted};

/// Settings whose values may hold credentials. Their values are not shown.
const SECRET_SETTINGS: [&str; 6] = [
    "primary_conninfo",
    "ssl_passphrase_command",
    "archive_command",
    "restore_command",
    "archive_cleanup_command",
    "recovery_end_command",
];

fn number(answer: &Answer, column: usize) -> u64 {
    text(answer.values.values(), column).parse().unwrap_or(0)
}

/// All settings that differ from the defaults; `ours` are the names of those that Plimsoll has set.
pub(crate) fn settings(connection: &mut Connection, ours: &[String]) -> Result<Vec<Setting>, StoreError> {
    // Every session sets how it speaks, and the source `override` is no user's.
    let answer = connection.simple(
        "SELECT name, setting, boot_val, coalesce(unit, ''), source FROM pg_settings \
         WHERE source NOT IN ('default', 'override') AND setting IS DISTINCT FROM boot_val \
         AND NOT (source IN ('client', 'session') AND name IN ('application_name', 'client_encoding', 'search_path', \
         'DateStyle', 'TimeZone', 'bytea_output', 'extra_float_digits', 'statement_timeout')) ORDER BY name",
    )?;
    let settings = answer.row_iter().map(|row| {
        let (name, unit, source) = (text(row, 0), text(row, 3), text(row, 4));
        let secret = SECRET_SETTINGS.contains(&name) || name.contains("password") || name.contains("secret");
        let default = matches!(row.get(2), Value::Text(_)).then(|| with_unit(text(row, 2), unit));
        let value = if secret { "(not shown)".to_owned() } else { with_unit(text(row, 1), unit) };
        let source = match source {
            "session" => "plimsoll",
            _ if ours.iter().any(|own| own == name) => "plimsoll",
            "client" => "connection",
            source => source,
        };
        Setting::new(name, value, default.as_deref(), source)
    });
    Ok(settings.collect())
}

/// Units, and how many of each the next one is.
const UNITS: [&[(&str, i64)]; 2] = [
    &[("B", 1024), ("kB", 1024), ("MB", 1024), ("GB", 1024), ("TB", 0)],
    &[("ms", 1000), ("s", 60), ("min", 60), ("h", 24), ("d", 0)],
];

/// A setting's number in the largest unit in which it is whole: `16384` of `8kB` is `128MB`.
fn with_unit(value: &str, unit: &str) -> String {
    let (Ok(number), false) = (value.parse::<i64>(), unit.is_empty()) else { return value.to_owned() };
    // Zero and minus one switch things off, or mean "as that other setting".
    if number <= 0 {
        return value.to_owned();
    }
    let digits = unit.bytes().take_while(u8::is_ascii_digit).count();
    let mut number = number.saturating_mul(unit[..digits].parse().unwrap_or(1));
    let name = &unit[digits..];
    let from = |units: &'static [(&str, i64)]| units.iter().position(|(unit, _)| *unit == name).map(|at| &units[at..]);
    let Some(steps) = UNITS.into_iter().find_map(from) else { return format!("{number}{name}") };
    for (name, size) in steps {
        if *size == 0 || number % size != 0 {
            return format!("{number}{name}");
        }
        number /= size;
    }
    number.to_string()
}

/// Names of the tables of a schema, qualified and quoted.
fn tables(connection: &mut Connection, schema: &str) -> Result<Vec<String>, StoreError> {
    let answer = connection.simple(&format!(
        "SELECT relname FROM pg_class WHERE relnamespace = {}::regnamespace AND relkind IN ('r', 'm') ORDER BY relname",
        literal(&quoted(schema))
    ))?;
    Ok(answer.row_iter().map(|row| format!("{}.{}", quoted(schema), quoted(text(row, 0)))).collect())
}

/// Vacuums, freezes and analyzes the schema's tables, waits for autovacuum to finish them, and requests a checkpoint
/// if the role may. Later reads and vacuums do not write frozen rows again.
pub(crate) fn settle(connection: &mut Connection, schema: &str, waits: &Waits) -> Result<(), StoreError> {
    let tables = tables(connection, schema)?;
    if !tables.is_empty() {
        connection.simple(&format!("VACUUM (FREEZE, ANALYZE) {}", tables.join(", ")))?;
    }
    let busy = format!(
        "SELECT count(*) FROM (SELECT relid FROM pg_stat_progress_vacuum UNION ALL \
         SELECT relid FROM pg_stat_progress_analyze) busy JOIN pg_class ON pg_class.oid = busy.relid \
         WHERE relnamespace = {}::regnamespace",
        literal(&quoted(schema))
    );
    waits.until(waits::TICK, "Wait until it is done", || {
        let busy = connection.value(&busy)? != "0";
        Ok(if busy { Err("autovacuum is still at work on the tables".to_owned()) } else { Ok(()) })
    })?;
    match connection.simple("CHECKPOINT") {
        // Without the role pg_checkpoint the dirty pages are written when the server's own time comes.
        Err(error) if error.kind == StoreErrorKind::Permission => Ok(()),
        result => result.map(|_| ()),
    }
}

/// A statement that ends this role's other Plimsoll connections that use `schema`, which is quoted.
pub(crate) fn end_given_up(schema: &str) -> String {
    format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity activity WHERE pid <> pg_backend_pid() \
         AND usename = current_user AND application_name = current_setting('application_name') AND EXISTS \
         (SELECT FROM pg_locks JOIN pg_class ON pg_class.oid = relation WHERE pg_locks.pid = activity.pid \
         AND relnamespace = {}::regnamespace AND database = (SELECT oid FROM pg_database \
         WHERE datname = current_database()))",
        literal(schema)
    )
}

/// Bytes of the tables of `pg_class` that `which` says, with all that belongs to them: records with their primary keys
/// are data and the other indexes are index.
fn sizes(connection: &mut Connection, which: &str) -> Result<Footprint, StoreError> {
    let answer = connection.simple(&format!(
        "SELECT coalesce(sum(pg_total_relation_size(oid)) FILTER (WHERE relkind IN ('r', 'm')), 0), \
         coalesce(sum(pg_total_relation_size(oid)) FILTER (WHERE relkind = 'i' AND NOT EXISTS \
         (SELECT FROM pg_index WHERE indexrelid = pg_class.oid AND indisprimary)), 0) FROM pg_class WHERE {which}"
    ))?;
    let (total, secondary) = (number(&answer, 0), number(&answer, 1));
    Ok(Footprint { data_bytes: total.saturating_sub(secondary), index_bytes: Some(secondary), total_bytes: None })
}

/// Bytes of all tables and indexes of the database that are not the server's own: where others have made and filled
/// them, the tables that will be asked are unknown.
pub(crate) fn footprint_of_others(connection: &mut Connection) -> Result<Footprint, StoreError> {
    let which = "relnamespace IN (SELECT oid FROM pg_namespace \
                 WHERE nspname NOT LIKE 'pg\\_%' AND nspname <> 'information_schema')";
    sizes(connection, which)
}

/// Bytes of the schema's tables and indexes. With `keyindex` there is one table, whose bytes are shared out by what
/// records and index keys hold of it.
pub(crate) fn footprint(connection: &mut Connection, schema: &str, keyindex: bool) -> Result<Footprint, StoreError> {
    let found = sizes(connection, &format!("relnamespace = {}::regnamespace", literal(&quoted(schema))))?;
    if !keyindex {
        return Ok(found);
    }
    let total = found.data_bytes + found.index_bytes.unwrap_or(0);
    // A row costs a line pointer and a tuple header in the table, and an index tuple beside it, whatever it holds.
    let answer = connection.simple(&format!(
        "SELECT coalesce(sum(size), 0), coalesce(sum(size) FILTER (WHERE role = {INDEX_ROLE}), 0) FROM \
         (SELECT CASE WHEN k = '' THEN 0 ELSE get_byte(k, 0) END AS role, \
         28 + 12 + 2 * octet_length(k) + octet_length(v) AS size FROM {}.kv) rows",
        quoted(schema)
    ))?;
    let (all, index) = (number(&answer, 0), number(&answer, 1));
    let index_bytes = (u128::from(total) * u128::from(index)).checked_div(u128::from(all)).unwrap_or(0) as u64;
    Ok(Footprint { data_bytes: total - index_bytes, index_bytes: Some(index_bytes), total_bytes: None })
}

/// Checks the schema's tables and B-trees with amcheck; `None` when the server has none that may be used.
/// `make` allows it to be made, inside the schema.
pub(crate) fn check_integrity(
    connection: &mut Connection,
    schema: &str,
    make: bool,
) -> Result<Option<String>, StoreError> {
    let place = "SELECT nspname FROM pg_extension JOIN pg_namespace ON extnamespace = pg_namespace.oid WHERE extname = 'amcheck'";
    let mut home = connection.value(place)?;
    if home.is_empty() && make {
        match connection.simple(&format!("CREATE EXTENSION amcheck SCHEMA {}", quoted(schema))) {
            Ok(_) => home = connection.value(place)?,
            // Its files are not installed (contrib packages of some distributions), or we may not.
            Err(error) if matches!(error.kind, StoreErrorKind::Permission | StoreErrorKind::Store) => {}
            Err(error) => return Err(error),
        }
    }
    if home.is_empty() {
        return Ok(None);
    }
    let home = quoted(&home);
    let own = format!("relnamespace = {}::regnamespace", literal(&quoted(schema)));
    let has_heap_check = connection.value(&format!(
        "SELECT count(*) FROM pg_proc WHERE proname = 'verify_heapam' AND pronamespace = {}::regnamespace",
        literal(&home)
    ))?;
    let indexes = format!(
        "SELECT count({home}.bt_index_check(pg_class.oid, true)) FROM pg_class JOIN pg_am ON pg_am.oid = relam \
         WHERE {own} AND relkind = 'i' AND amname = 'btree'"
    );
    // The server's own words about an index, or a page; anything else (a lost connection) is no finding.
    let finding = |error: StoreError| match error.kind {
        StoreErrorKind::Store | StoreErrorKind::Broken => StoreError { kind: StoreErrorKind::Corrupt, ..error },
        _ => error,
    };
    let indexes = match connection.value(&indexes) {
        Err(error) if error.kind == StoreErrorKind::Permission => return Ok(None),
        counted => counted.map_err(finding)?,
    };
    if has_heap_check == "0" {
        return Ok(Some(format!("amcheck: {indexes} B-trees, every table row found in each")));
    }
    let answer = connection.simple(&format!(
        "SELECT relname, blkno, offnum, msg FROM pg_class, \
         LATERAL {home}.verify_heapam(pg_class.oid, check_toast => true) WHERE {own} AND relkind IN ('r', 'm') LIMIT 10"
    ));
    let answer = answer.map_err(finding)?;
    if let Some(row) = answer.row_iter().next() {
        let (table, block, line, what) = (text(row, 0), text(row, 1), text(row, 2), text(row, 3));
        return Err(StoreError::new(
            StoreErrorKind::Corrupt,
            format!("table `{table}` is corrupt at block {block}, line {line}: {what}"),
        ));
    }
    let tables = tables(connection, schema)?.len();
    Ok(Some(format!("amcheck: {tables} tables, and {indexes} B-trees with every table row found in each")))
}

#[cfg(test)]
mod tests {
    use super::with_unit;

    #[test]
    fn settings_are_shown_as_people_write_them() {
        for (value, unit, shown) in [
            ("16384", "8kB", "128MB"),
            ("100", "", "100"),
            ("on", "", "on"),
            ("-1", "8kB", "-1"),
            ("0", "ms", "0"),
            ("200", "ms", "200ms"),
            ("300", "s", "5min"),
            ("1024", "MB", "1GB"),
            ("65536", "kB", "64MB"),
            ("3", "8kB", "24kB"),
        ] {
            assert_eq!(with_unit(value, unit), shown, "{value} {unit}");
        }
    }
}
