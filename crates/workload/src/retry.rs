//! Which errors are worth another try: the store gave way to another transaction, and the same may work now.

/// Whether a store's error code says so: serialization failures and deadlocks (SQLSTATE 40001, 40P01), MariaDB's and
/// MySQL's deadlock and lock wait timeout (1213, 1205), and SQLite's locked database.
pub(crate) fn is_worth_another_try(code: &str) -> bool {
    matches!(code, "40001" | "40P01" | "1213" | "1205")
        || code == "SQLITE_BUSY"
        || code.starts_with("SQLITE_BUSY_")
        || code == "SQLITE_LOCKED"
}
