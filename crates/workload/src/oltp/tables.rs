//! sysbench's tables, made and filled on the server.

use plimsoll_core::{Dialect, Layout, LayoutStatement};

use crate::numbers::from_1_to;
use crate::scramble::{below, hash};

/// Digits of a group in `c` and `pad`.
pub(super) const GROUP_DIGITS: u32 = 11;
pub(super) const C_GROUPS: u32 = 10;
pub(super) const PAD_GROUPS: u32 = 5;
/// Bytes of a row's own values: two integers, `c` and `pad`.
pub(super) const ROW_BYTES: u64 = 4 + 4 + super::C_BYTES + 59;

const SALT: u64 = 0x0117_b1e5;

/// `tables` tables of `table_size` rows each, the same in every dialect.
pub(super) fn layout(seed: u64, tables: u64, table_size: u64) -> Layout {
    let (mut statements, mut after_load) = (Vec::new(), Vec::new());
    for dialect in [Dialect::Postgres, Dialect::Mysql, Dialect::Sqlite] {
        for table in 1..=tables {
            let id = match dialect {
                Dialect::Postgres => "SERIAL",
                Dialect::Mysql => "INTEGER NOT NULL AUTO_INCREMENT PRIMARY KEY",
                Dialect::Sqlite => "INTEGER PRIMARY KEY AUTOINCREMENT",
            };
            let make = format!(
                "CREATE TABLE sbtest{table} (id {id}, k INTEGER DEFAULT 0 NOT NULL, c CHAR(120) DEFAULT '' NOT NULL, \
                 pad CHAR(60) DEFAULT '' NOT NULL)"
            );
            statements.push(LayoutStatement::of(dialect, make));
            if table_size > 0 {
                statements.push(LayoutStatement::of(dialect, fill(dialect, seed, table, table_size)));
            }
            if dialect == Dialect::Postgres {
                after_load
                    .push(LayoutStatement::of(dialect, format!("ALTER TABLE sbtest{table} ADD PRIMARY KEY (id)")));
            }
            after_load.push(LayoutStatement::of(dialect, format!("CREATE INDEX k_{table} ON sbtest{table}(k)")));
            let analyze = match dialect {
                Dialect::Postgres => "VACUUM ANALYZE",
                Dialect::Mysql => "ANALYZE TABLE",
                Dialect::Sqlite => "ANALYZE",
            };
            after_load.push(LayoutStatement::of(dialect, format!("{analyze} sbtest{table}")));
        }
    }
    Layout { statements, after_load, ..Layout::default() }
}

/// Fills a table. Every value is a linear function of the row's number, modulo what it may be: no server's random
/// numbers are needed, and all stores hold the same rows.
fn fill(dialect: Dialect, seed: u64, table: u64, table_size: u64) -> String {
    let mut turn = 0;
    let mut linear = |modulus: u64| {
        turn += 1;
        // Odd, and so small that the product with a row's number fits into 64 bits.
        let factor = below(hash(seed ^ SALT, table, 2 * turn), 1 << 32) | (1 << 32) | 1;
        let offset = below(hash(seed ^ SALT, table, 2 * turn + 1), modulus);
        format!("(n * {factor} + {offset}) % {modulus}")
    };
    let k = format!("({}) % {table_size} + 1", linear(2_147_483_647));
    let mut groups = |count: u32| {
        let groups: Vec<String> = (0..count)
            .map(|_| {
                let number = linear(10u64.pow(GROUP_DIGITS));
                match dialect {
                    Dialect::Postgres => format!("lpad(({number})::text, {GROUP_DIGITS}, '0')"),
                    Dialect::Mysql => format!("LPAD({number}, {GROUP_DIGITS}, '0')"),
                    Dialect::Sqlite => format!("printf('%0{GROUP_DIGITS}d', {number})"),
                }
            })
            .collect();
        match dialect {
            Dialect::Mysql => format!("CONCAT_WS('-', {})", groups.join(", ")),
            _ => groups.join(" || '-' || "),
        }
    };
    let (c, pad) = (groups(C_GROUPS), groups(PAD_GROUPS));
    // `n` as 64 bits before it is multiplied.
    let rows = match dialect {
        Dialect::Postgres => format!("(SELECT n::bigint AS n FROM {}) AS numbers", from_1_to(dialect, table_size)),
        _ => from_1_to(dialect, table_size),
    };
    match dialect {
        // Its sequence would not know of numbers that others have given.
        Dialect::Postgres => format!("INSERT INTO sbtest{table} (k, c, pad) SELECT {k}, {c}, {pad} FROM {rows}"),
        // A node of Galera leaves gaps between the numbers it gives, for those of others.
        _ => format!("INSERT INTO sbtest{table} (id, k, c, pad) SELECT n, {k}, {c}, {pad} FROM {rows}"),
    }
}
