//! Operations on a directory (RFC 4511).

use serde::{Deserialize, Serialize};

/// An operation on a directory.
///
/// DNs are texts of RFC 4514 relative to the directory's base, which a store appends; an empty one is the base
/// itself. In DNs, filters and values, each `{}` stands for the next parameter (an integer, text or bytes), in the
/// order of the text; special characters in it are escaped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LdapCall {
    /// Answer: a row per entry, of its DN (a text) and the first value of each of `attributes` (bytes; null if it has
    /// none). [`crate::Outcome::NotFound`] if there is no entry at `base`.
    Search {
        /// DN of the entry where the search begins.
        base: String,
        /// Depth of the search.
        scope: LdapScope,
        /// Filter of RFC 4515, `(objectClass=*)` for all entries.
        filter: String,
        /// Attributes to return; all user attributes if empty.
        attributes: Vec<String>,
    },
    /// Tests whether the entry has the value. Answer: one row of a truth value, or [`crate::Outcome::NotFound`].
    Compare {
        /// The entry.
        dn: String,
        /// The attribute.
        attribute: String,
        /// The value.
        value: String,
    },
    /// Adds an entry. If it exists already, the outcome is [`crate::Outcome::Rejected`].
    Add {
        /// The entry.
        dn: String,
        /// Attributes with one value each. An attribute with several values is listed several times.
        attributes: Vec<(String, String)>,
    },
    /// Changes an entry, all or nothing.
    Modify {
        /// The entry.
        dn: String,
        /// The changes, in order.
        changes: Vec<LdapChange>,
    },
    /// Deletes an entry. Deleting an entry that does not exist is [`crate::Outcome::NotFound`].
    Delete {
        /// The entry.
        dn: String,
    },
}

/// Depth of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LdapScope {
    /// The entry itself.
    Base,
    /// The entries immediately below it.
    One,
    /// The entry itself and all below.
    Sub,
}

/// A change of a modify operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LdapChange {
    /// Kind of change.
    pub how: LdapChangeKind,
    /// The attribute.
    pub attribute: String,
    /// The value; `None` for all values.
    pub value: Option<String>,
}

/// Kind of change to an attribute's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LdapChangeKind {
    /// Adds the value.
    Add,
    /// Deletes the value, or all values.
    Delete,
    /// Replaces all values by this one, or by none.
    Replace,
}

impl LdapCall {
    /// True if it changes the directory.
    pub fn writes(&self) -> bool {
        !matches!(self, LdapCall::Search { .. } | LdapCall::Compare { .. })
    }
}
