//! SQL of the control plane: settings, sizes, clean-up, checks.

use plimsoll_core::{Footprint, Setting, StoreError, StoreErrorKind, Value, Values, Waits, waits};
use plimsoll_endpoint::text;

use crate::connection::Connection;
use crate::sql::{Flavor, literal, quoted};

/// The one setting that decides what a commit survives.
pub(crate) const FLUSH_LOG: &str = "innodb_flush_log_at_trx_commit";

/// Returns the name of a server, or of the Galera cluster that it is a node of: a database is on all nodes of that.
pub(crate) fn server_name(connection: &mut Connection, flavor: Flavor) -> Result<String, StoreError> {
    let answer = connection.simple("SHOW GLOBAL STATUS LIKE 'wsrep_cluster_state_uuid'")?;
    let cluster = answer.row_iter().next().map(|row| text(row, 1).to_owned()).unwrap_or_default();
    // Without a cluster it is empty, or all zeros.
    if cluster.contains(|c: char| c.is_ascii_hexdigit() && c != '0') {
        return Ok(format!("the cluster {cluster}"));
    }
    connection.value(match flavor {
        Flavor::MariaDb => {
            "SELECT CONCAT_WS(' ', 'host', @@hostname, 'port', @@port, 'server_id', @@server_id, 'datadir', @@datadir)"
        }
        Flavor::MySql | Flavor::MySqlBefore8 => "SELECT CONCAT('server_uuid ', @@server_uuid)",
    })
}

/// All settings that differ from the defaults; `ours` are the names of those that Plimsoll has set.
pub(crate) fn settings(connection: &mut Connection, flavor: Flavor, ours: &[&str]) -> Result<Vec<Setting>, StoreError> {
    if flavor == Flavor::MySqlBefore8 {
        return settings_before_8(connection);
    }
    // A value that the server chose by itself (AUTO) was set by no user.
    let query = match flavor {
        Flavor::MariaDb => {
            "SELECT LOWER(VARIABLE_NAME), GLOBAL_VALUE, DEFAULT_VALUE, GLOBAL_VALUE_ORIGIN \
             FROM information_schema.SYSTEM_VARIABLES WHERE GLOBAL_VALUE IS NOT NULL \
             AND GLOBAL_VALUE_ORIGIN NOT IN ('COMPILE-TIME', 'AUTO', 'ENVIRONMENT') \
             AND NOT (GLOBAL_VALUE <=> DEFAULT_VALUE) ORDER BY VARIABLE_NAME"
        }
        // It does not tell its defaults.
        Flavor::MySql | Flavor::MySqlBefore8 => {
            "SELECT VARIABLE_NAME, VARIABLE_VALUE, NULL, VARIABLE_SOURCE FROM performance_schema.variables_info \
             JOIN performance_schema.global_variables USING (VARIABLE_NAME) \
             WHERE VARIABLE_SOURCE NOT IN ('COMPILED') ORDER BY VARIABLE_NAME"
        }
    };
    let answer = match connection.simple(query) {
        // MySQL shows them to some only.
        Err(error) if error.kind == StoreErrorKind::Permission => return Ok(Vec::new()),
        answer => answer?,
    };
    let settings = answer.row_iter().map(|row| {
        let name = text(row, 0);
        let secret = name.contains("password") || name.contains("secret") || name.contains("wsrep_sst_auth");
        let source = match text(row, 3) {
            _ if ours.contains(&name) => "plimsoll",
            "COMMAND-LINE" | "COMMAND_LINE" => "command line",
            "SQL" | "DYNAMIC" => "SET GLOBAL",
            _ => "configuration file",
        };
        let value = if secret { "(not shown)" } else { text(row, 1) };
        let default = matches!(row.get(2), Value::Text(_)).then(|| text(row, 2));
        Setting::new(name, value, default, source)
    });
    Ok(settings.collect())
}

/// The settings of the connection's session that are not the server's, without those that only say how it speaks. Only
/// MariaDB tells them.
pub(crate) fn settings_of_session(connection: &mut Connection, flavor: Flavor) -> Result<Vec<Setting>, StoreError> {
    if flavor != Flavor::MariaDb {
        return Ok(Vec::new());
    }
    let answer = connection.simple(
        "SELECT LOWER(VARIABLE_NAME), SESSION_VALUE, GLOBAL_VALUE FROM information_schema.SYSTEM_VARIABLES \
         WHERE SESSION_VALUE IS NOT NULL AND GLOBAL_VALUE IS NOT NULL AND SESSION_VALUE <> GLOBAL_VALUE \
         AND VARIABLE_NAME NOT LIKE 'CHARACTER\\_SET%' AND VARIABLE_NAME NOT LIKE 'COLLATION%' \
         AND VARIABLE_NAME <> 'TIME_ZONE' ORDER BY VARIABLE_NAME",
    )?;
    let setting = |row| Setting::ours(text(row, 0), text(row, 1), text(row, 2));
    Ok(answer.row_iter().map(setting).collect())
}

/// Settings that decide most about figures. Such a server tells neither its defaults nor the sources of its settings.
fn settings_before_8(connection: &mut Connection) -> Result<Vec<Setting>, StoreError> {
    let names = "'innodb_buffer_pool_size', 'innodb_doublewrite', 'innodb_flush_method', 'innodb_log_file_size', \
                 'innodb_log_files_in_group', 'log_bin', 'max_connections', 'query_cache_type', 'sync_binlog', 'tx_isolation'";
    let answer = connection.simple(&format!("SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})"))?;
    let setting = |row| Setting::new(text(row, 0), text(row, 1), None, "server");
    Ok(answer.row_iter().map(setting).collect())
}

/// Names of the tables of a database, qualified and quoted.
fn tables(connection: &mut Connection, database: &str) -> Result<Vec<String>, StoreError> {
    let answer = connection.simple(&format!(
        "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = {} AND TABLE_TYPE = 'BASE TABLE' \
         ORDER BY TABLE_NAME",
        literal(database)
    ))?;
    Ok(answer.row_iter().map(|row| format!("{}.{}", quoted(database), quoted(text(row, 0)))).collect())
}

/// The value of one of the server's status variables; `None` where it has no such one.
fn status(connection: &mut Connection, name: &str) -> Result<Option<u64>, StoreError> {
    let answer = connection.simple(&format!("SHOW GLOBAL STATUS LIKE '{name}'"))?;
    Ok(answer.row_iter().next().and_then(|row| text(row, 1).parse().ok()))
}

/// Analyzes the database's tables. On a server of our own it also waits until deleted rows are purged and no page of
/// the buffer pool is dirty.
pub(crate) fn settle(
    connection: &mut Connection,
    database: &str,
    flavor: Flavor,
    private: bool,
    waits: &Waits,
) -> Result<(), StoreError> {
    for table in tables(connection, database)? {
        let answer = connection.simple(&format!("ANALYZE TABLE {table}"))?;
        if let Some(row) = answer.row_iter().find(|row| text(*row, 2).eq_ignore_ascii_case("error")) {
            let what = format!("{table} could not be analyzed: {}", text(row, 3));
            return Err(StoreError::new(StoreErrorKind::Store, what));
        }
    }
    // Another server's purge and pages are everybody's who uses it: neither can be waited for.
    if !private {
        return Ok(());
    }
    wait_until_none(connection, waits, "old versions of rows to purge", |connection| match flavor {
        Flavor::MariaDb => Ok(status(connection, "Innodb_history_list_length")?.unwrap_or(0)),
        Flavor::MySql | Flavor::MySqlBefore8 => {
            let count = "SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'trx_rseg_history_len'";
            Ok(connection.value(count)?.parse().unwrap_or(0))
        }
    })?;
    let names = ["innodb_max_dirty_pages_pct", "innodb_max_dirty_pages_pct_lwm"];
    let mut before = Vec::new();
    for name in names {
        before.push((name, connection.value(&format!("SELECT @@GLOBAL.{name}"))?));
        connection.simple(&format!("SET GLOBAL {name} = 0"))?;
    }
    let waited = wait_until_none(connection, waits, "dirty pages", |connection| {
        Ok(status(connection, "Innodb_buffer_pool_pages_dirty")?.unwrap_or(0))
    });
    for (name, value) in before.iter().rev() {
        connection.simple(&format!("SET GLOBAL {name} = {value}"))?;
    }
    waited
}

fn wait_until_none(
    connection: &mut Connection,
    waits: &Waits,
    what: &str,
    mut count: impl FnMut(&mut Connection) -> Result<u64, StoreError>,
) -> Result<(), StoreError> {
    waits.until(waits::TICK, "See in the server's log why", || {
        let left = count(connection)?;
        Ok(if left == 0 { Ok(()) } else { Err(format!("the server still has {left} {what}")) })
    })
}

/// Bytes of the database's tables and indexes: records with their primary keys are data, the other indexes are index.
/// From InnoDB's statistics, which [`settle`] brings up to date.
pub(crate) fn footprint(connection: &mut Connection, database: &str, flavor: Flavor) -> Result<Footprint, StoreError> {
    if flavor == Flavor::MySql {
        // It keeps what it said of a table for a day.
        connection.simple("SET SESSION information_schema_stats_expiry = 0")?;
    }
    let answer = connection.simple(&format!(
        "SELECT COALESCE(SUM(DATA_LENGTH), 0), COALESCE(SUM(INDEX_LENGTH), 0) FROM information_schema.TABLES \
         WHERE TABLE_SCHEMA = {}",
        literal(database)
    ))?;
    let number = |column| text(answer.values.values(), column).parse().unwrap_or(0);
    Ok(Footprint { data_bytes: number(0), index_bytes: Some(number(1)), total_bytes: None })
}

/// The server's own CHECK of every table, which reads all its indexes and counts their entries.
pub(crate) fn check_integrity(connection: &mut Connection, database: &str) -> Result<Option<String>, StoreError> {
    let tables = tables(connection, database)?;
    for table in &tables {
        let answer = connection.simple(&format!("CHECK TABLE {table} EXTENDED"))?;
        let is_sound = |row: &Values<'_>| {
            matches!(text(*row, 2).to_ascii_lowercase().as_str(), "status" | "note" | "info")
                && (!text(*row, 2).eq_ignore_ascii_case("status") || text(*row, 3) == "OK")
        };
        let complaints: Vec<&str> = answer.row_iter().filter(|row| !is_sound(row)).map(|row| text(row, 3)).collect();
        if !complaints.is_empty() {
            let what = format!("table {table} is corrupt: {}", complaints.join("; "));
            return Err(StoreError::new(StoreErrorKind::Corrupt, what));
        }
    }
    Ok(Some(format!("CHECK TABLE … EXTENDED: {} tables with all their indexes", tables.len())))
}
