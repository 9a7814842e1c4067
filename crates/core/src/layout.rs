//! Objects that must exist in a store before a trial.

use serde::{Deserialize, Serialize};

use crate::store::Dialect;
use crate::value::ValueType;

/// Objects that a workload needs in a store, empty.
///
/// With neither collections nor statements, a store that speaks `kv` has one empty key space, and one that speaks
/// `ldap` has a base with only an empty `ou=People`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Layout {
    /// Collections for the `records` interface.
    pub collections: Vec<Collection>,
    /// Implementation of the collections' indexes.
    pub index: IndexMode,
    /// Statements for the `sql` and `commands` interfaces that create the tables and may fill them, run once, in
    /// order.
    pub statements: Vec<LayoutStatement>,
    /// Statements for the `sql` interface that run once, in order, at the end of the load: indexes, statistics.
    pub after_load: Vec<LayoutStatement>,
    /// True if operations name all keys themselves, so that the store makes none of its own.
    pub names_keys: bool,
}

impl Layout {
    /// The empty layout.
    pub const NOTHING: Layout = Layout {
        collections: Vec::new(),
        index: IndexMode::None,
        statements: Vec::new(),
        after_load: Vec::new(),
        names_keys: false,
    };

    /// The texts of `statements` that are for `dialect`.
    pub fn texts_for(statements: &[LayoutStatement], dialect: Dialect) -> impl Iterator<Item = &str> {
        statements.iter().filter(move |statement| statement.is_for(dialect)).map(|statement| statement.text.as_str())
    }
}

/// A statement that makes or fills tables.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayoutStatement {
    /// The only dialect that it is meant for; `None` if all understand it.
    pub dialect: Option<Dialect>,
    /// The statement, without parameters.
    pub text: String,
}

impl LayoutStatement {
    /// Creates a statement that every dialect understands.
    pub fn any(text: impl Into<String>) -> Self {
        Self { dialect: None, text: text.into() }
    }

    /// Creates a statement for `dialect` only.
    pub fn of(dialect: Dialect, text: impl Into<String>) -> Self {
        Self { dialect: Some(dialect), text: text.into() }
    }

    /// True if a store of `dialect` runs it.
    pub fn is_for(&self, dialect: Dialect) -> bool {
        self.dialect.is_none_or(|only| only == dialect)
    }
}

impl<T: Into<String>> From<T> for LayoutStatement {
    fn from(text: T) -> Self {
        Self::any(text)
    }
}

/// A set of records of one shape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collection {
    /// Letters, digits and `_`, beginning with a letter.
    pub name: String,
    /// The fields, in the order in which records carry them.
    pub fields: Vec<Field>,
    /// Position of the field whose value names a record: unique and never null.
    pub key: u16,
    /// Secondary indexes.
    pub indexes: Vec<Index>,
}

/// A field of a collection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Field {
    /// Letters, digits and `_`, beginning with a letter.
    pub name: String,
    /// Type of its values.
    pub value_type: ValueType,
}

/// A secondary index of a collection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    /// Positions of the fields that it is ordered by.
    pub fields: Vec<u16>,
}

crate::words! {
    /// Implementation of secondary indexes.
    #[derive(Default)]
    pub enum IndexMode {
        /// No indexes: a query reads every record.
        #[default]
        None = "none",
        /// Native indexes of the store.
        Own = "own",
        /// As keys beside the records, by the `keyindex` crate over the store's key-value interface.
        Keyindex = "keyindex",
    }
}
