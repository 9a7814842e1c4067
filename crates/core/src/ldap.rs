//! Operations on a directory (RFC 4511).

use serde::{Deserialize, Serialize};

/// An operation on a directory.
///
/// DNs are texts of RFC 4514 relative to the directory's base, which a store puts behind them; an empty one is the base
/// itself. In DNs, filters and values each `{}` stands for the next parameter (an integer, text or bytes), in the order
/// in which they are written here; what would mean something there is escaped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LdapCall {
    /// Answer: a row an entry, of its DN (a text) and the first value of each of `attributes` (bytes; null where it has
    /// none). [`crate::Outcome::NotFound`] when there is no entry at `base`.
    Search {
        /// Where to begin.
        base: String,
        /// How far to go.
        scope: LdapScope,
        /// Which entries: a filter of RFC 4515, `(objectClass=*)` for all.
        filter: String,
        /// What is wanted of them; all of a user's attributes when empty.
        attributes: Vec<String>,
    },
    /// Whether the entry has the value. Answer: one row of a truth value, or [`crate::Outcome::NotFound`].
    Compare {
        /// The entry.
        dn: String,
        /// The attribute.
        attribute: String,
        /// The value.
        value: String,
    },
    /// Adds an entry. That there is one already is [`crate::Outcome::Rejected`].
    Add {
        /// The entry.
        dn: String,
        /// Attributes with one value each. One that is named again has several.
        attributes: Vec<(String, String)>,
    },
    /// Changes an entry, all or nothing.
    Modify {
        /// The entry.
        dn: String,
        /// What is done, in this order.
        changes: Vec<LdapChange>,
    },
    /// Deletes an entry. Deleting what is not there is [`crate::Outcome::NotFound`].
    Delete {
        /// The entry.
        dn: String,
    },
}

/// How far a search goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LdapScope {
    /// The entry itself.
    Base,
    /// What is immediately below it.
    One,
    /// It and everything below.
    Sub,
}

/// One change of a modify.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LdapChange {
    /// What is done.
    pub how: LdapHow,
    /// The attribute.
    pub attribute: String,
    /// The value; `None` for all values.
    pub value: Option<String>,
}

/// What a change does with an attribute's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LdapHow {
    /// Adds the value.
    Add,
    /// Deletes the value, or all.
    Delete,
    /// Puts the value in the place of all that are there, or nothing.
    Replace,
}

impl LdapCall {
    /// True when it changes what the directory holds.
    pub fn writes(&self) -> bool {
        !matches!(self, LdapCall::Search { .. } | LdapCall::Compare { .. })
    }
}
