//! Numbers in SQL: how each dialect makes the rows that tables are filled with, on the server.

use plimsoll_core::Dialect;

/// Returns a FROM item with the numbers 1 to `count` as the column `n`.
pub(crate) fn from_1_to(dialect: Dialect, count: u64) -> String {
    match dialect {
        Dialect::Postgres => format!("generate_series(1, {count}) AS numbers(n)"),
        Dialect::Sqlite => format!(
            "(WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {count}) \
             SELECT n FROM numbers) AS numbers"
        ),
        // Recursion is bounded to 1,000 there by a setting that MariaDB and MySQL call by different names.
        Dialect::Mysql => {
            let digits = (1..20).find(|digits| 10u64.saturating_pow(*digits) >= count).unwrap_or(20);
            let ten: Vec<String> = (1..10).map(|digit| format!("SELECT {digit}")).collect();
            let ten = format!("(SELECT 0 AS d UNION ALL {})", ten.join(" UNION ALL "));
            let place = |digit: u32| format!("{} * d{digit}.d", 10u64.pow(digit));
            let sum: Vec<String> = (0..digits).map(place).collect();
            // The last digit changes fastest, so that keys come in order.
            let tables: Vec<String> = (0..digits).rev().map(|digit| format!("{ten} AS d{digit}")).collect();
            format!(
                "(SELECT n FROM (SELECT 1 + {} AS n FROM {}) AS every WHERE n <= {count}) AS numbers",
                sum.join(" + "),
                tables.join(" CROSS JOIN ")
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mysql_counts_with_as_many_digits_as_it_needs() {
        for (count, digits) in [(1, 1), (10, 1), (11, 2), (100_000, 5), (100_001, 6)] {
            let sql = from_1_to(Dialect::Mysql, count);
            assert_eq!(sql.matches(" AS d").count() - sql.matches("0 AS d").count(), digits, "{count}");
        }
    }
}
