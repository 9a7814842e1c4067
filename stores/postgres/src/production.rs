//! Statements of a running server by pg_stat_statements, and values out of its tables.

use plimsoll_core::production::{MARK, StatementCount, StatementCounts, TableColumn};
use plimsoll_core::{Production, StoreError, StoreErrorKind};
use plimsoll_endpoint::text;

use crate::connection::Connection;
use crate::sql::{literal, quoted};

/// Settings of sessions: they write nothing, and wait for no lock for long.
pub(crate) const SETTINGS: &str = "SET default_transaction_read_only = on; SET lock_timeout = '5s'";

/// Begins a transaction in which a statement may change rows for a moment.
const BEGIN: &str = "BEGIN READ WRITE; SET LOCAL statement_timeout = '5s'";

/// Rows looked at for each that is wanted, at most.
const ROWS_A_ROW: usize = 20;

pub(crate) struct PgProduction(pub Connection);

impl Production for PgProduction {
    fn catalogue(&self) -> &'static [&'static str] {
        &["pg_*", "information_schema"]
    }

    fn asked(&mut self) -> Result<StatementCounts, StoreError> {
        const WHERE: &str = "SELECT nspname FROM pg_extension JOIN pg_namespace ON extnamespace = pg_namespace.oid \
                             WHERE extname = 'pg_stat_statements'";
        let home = self.0.value(WHERE)?;
        if home.is_empty() {
            return Err(StoreError::usage("the database has no pg_stat_statements: nothing counts its statements")
                .next(
                    "add pg_stat_statements to shared_preload_libraries, start the server again and CREATE EXTENSION \
                 pg_stat_statements; or give a log of the server: --log FILE",
                ));
        }
        let view = format!("{}.pg_stat_statements", quoted(&home));
        let answer = self.0.simple(&format!(
            "SELECT query, calls FROM {view} \
             WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())"
        ))?;
        let asked = |row| StatementCount { text: text(row, 0).to_owned(), calls: text(row, 1).parse().unwrap_or(0) };
        let statements: Vec<StatementCount> = answer.row_iter().map(asked).collect();
        let hidden = statements.iter().filter(|asked| asked.text == "<insufficient privilege>").count();
        if hidden > 0 {
            return Err(StoreError::new(
                StoreErrorKind::Permission,
                format!("{hidden} statements are not shown to this role"),
            )
            .next("GRANT pg_read_all_stats to it"));
        }
        // Since version 14.
        let since = format!("SELECT extract(epoch FROM now() - stats_reset) FROM {view}_info");
        let seconds = self.0.value(&since).ok().and_then(|seconds| seconds.parse().ok());
        Ok(StatementCounts { statements, counted_by: "pg_stat_statements".to_owned(), seconds })
    }

    fn columns(&mut self, table: &str) -> Result<Vec<TableColumn>, StoreError> {
        let answer = self.0.simple(&format!(
            "SELECT attname, typcategory = 'S' FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid \
             WHERE attrelid = to_regclass({}) AND attnum > 0 AND NOT attisdropped",
            literal(table)
        ));
        let answer = match answer {
            // No name of a table.
            Err(error) if error.kind == StoreErrorKind::Store => return Ok(Vec::new()),
            answer => answer?,
        };
        let column = |row| TableColumn { name: text(row, 0).to_owned(), is_text: text(row, 1) == "t" };
        Ok(answer.row_iter().map(column).collect())
    }

    fn rows(&mut self, table: &str, columns: &[String], count: usize) -> Result<Vec<Vec<String>>, StoreError> {
        let answer = self.0.simple(&format!(
            "SELECT relkind IN ('r', 'm', 'p'), greatest(reltuples, (SELECT sum(pg_relation_size(relid)) / 200 \
             FROM pg_partition_tree(pg_class.oid)), 1) FROM pg_class WHERE oid = to_regclass({})",
            literal(table)
        ))?;
        let row = answer.values.values();
        let rows: f64 = text(row, 1).parse().unwrap_or(1.0);
        let percent = 100.0 * (ROWS_A_ROW * count) as f64 / rows;
        let values: Vec<String> = columns.iter().map(|column| format!("{column}::text")).collect();
        let there: Vec<String> = columns.iter().map(|column| format!("{column} IS NOT NULL")).collect();
        let mut sampled = |sample: &str| {
            self.0.work(|connection| {
                connection.simple(&format!(
                    "SELECT * FROM (SELECT {} FROM {table} AS {MARK}{sample} WHERE {} LIMIT {}) drawn ORDER BY random() LIMIT {count}",
                    values.join(", "),
                    there.join(" AND "),
                    ROWS_A_ROW * count
                ))
            })
        };
        // Pages from all over a large table, where it has pages.
        let mut answer = match percent < 100.0 && text(row, 0) == "t" {
            true => sampled(&format!(" TABLESAMPLE SYSTEM ({percent})"))?,
            false => sampled("")?,
        };
        if answer.rows == 0 {
            answer = sampled("")?;
        }
        Ok(answer.row_iter().map(|row| (0..columns.len()).map(|at| text(row, at).to_owned()).collect()).collect())
    }

    fn refusal(&mut self, statement: &str, values: &[String], changes: bool) -> Result<Option<String>, StoreError> {
        let values: Vec<String> = values.iter().map(|value| literal(value)).collect();
        let arguments = if values.is_empty() { String::new() } else { format!("({})", values.join(", ")) };
        let tried = match changes && self.0.value("SELECT pg_is_in_recovery()")? == "f" {
            true => format!("{BEGIN}; EXECUTE plimsoll{arguments}"),
            false => format!("BEGIN; EXPLAIN EXECUTE plimsoll{arguments}"),
        };
        let prepared = self.0.simple(&format!("PREPARE plimsoll AS {statement}"));
        let tried = prepared.and_then(|_| {
            let tried = self.0.simple(&tried);
            self.0.simple("ROLLBACK; DEALLOCATE plimsoll")?;
            tried
        });
        match tried {
            Ok(_) => Ok(None),
            Err(error) if error.is_nobody_there() || error.kind == StoreErrorKind::Broken => Err(error),
            Err(error) => Ok(Some(error.said().to_owned())),
        }
    }
}
