//! The rows of the reference store, and answers that have to be kept.

pub use plimsoll_core::OwnedValue as Owned;
use plimsoll_core::Values;

/// The values of one record.
pub type Row = Vec<Owned>;

/// Copies of all of `values`.
pub fn row(values: Values<'_>) -> Row {
    values.iter().map(Owned::from).collect()
}
