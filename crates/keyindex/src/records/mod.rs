//! Typed records over any key-value store: what an embedded store needs to speak the `records` interface.
//!
//! [`Records`] is made once from a [`Layout`] and gives out sessions, which share its locks. Records
//! stand under their key field, indexes beside them where the layout's [`IndexMode`] is `Keyindex`.
//!
//! **Inserts are checked.** An insert must not overwrite, so each record costs one get before it is written, as a
//! primary key costs a look-up in a database. There is no way to switch that off: a store that silently took the
//! second record of a key would be faster at something that no client may ask for.
//!
//! **Writers of one record** wait for each other when their sessions are of one `Records`. Over a store that
//! several processes write to, a record wants one owner.

mod layout;
mod pairs;
mod session;

use std::sync::Arc;

use plimsoll_core::{Access, Call, IndexMode, Kv, KvError, Layout, OpKind, RecordsCall, StoreError, StoreErrorKind};

pub use session::RecordsSession;

use crate::check::Check;
use crate::indexes::Indexes;
use crate::locks::KeyLocks;
use crate::{IndexError, encode};
use layout::RecordLayout;

/// The collections of a layout, as they are kept in one store.
#[derive(Debug, Clone)]
pub struct Records {
    collections: Arc<[Kept]>,
    locks: Arc<KeyLocks>,
}

/// A collection.
#[derive(Debug)]
struct Kept {
    name: String,
    layout: RecordLayout,
    /// Fields of each index that is kept.
    indexes: Vec<Vec<usize>>,
}

/// The fields of one collection that its indexes hold.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fields {
    collections: Arc<[Kept]>,
    pub(crate) collection: u8,
}

impl Fields {
    fn kept(&self) -> &Kept {
        &self.collections[usize::from(self.collection)]
    }

    /// Number of indexes.
    pub(crate) fn indexes(&self) -> usize {
        self.kept().indexes.len()
    }

    /// Number of values in an entry of the index at position `index`.
    pub(crate) fn width(&self, index: usize) -> usize {
        self.kept().indexes[index].len()
    }

    /// Replaces `entry` by the encoded values that the record has in the index at position `index`.
    #[inline]
    pub(crate) fn entry(&self, index: usize, key: &[u8], record: &[u8], entry: &mut Vec<u8>) -> Result<(), IndexError> {
        let kept = self.kept();
        entry.clear();
        for field in &kept.indexes[index] {
            encode::push(entry, kept.layout.field(key, record, *field)?);
        }
        Ok(())
    }
}

impl Records {
    /// The collections of `layout`. Fails with [`StoreErrorKind::Usage`] when they cannot be kept like this.
    pub fn new(layout: &Layout) -> Result<Self, StoreError> {
        if layout.index == IndexMode::Own {
            return Err(StoreError::usage("this store keeps no indexes of its own")
                .next("Use the index mode `keyindex` or `none`."));
        }
        if layout.collections.len() > 256 {
            return Err(StoreError::usage("more than 256 collections"));
        }
        let collections = layout
            .collections
            .iter()
            .map(|collection| {
                let bad = |what: &str| Err(StoreError::usage(format!("collection `{}`: {what}", collection.name)));
                if usize::from(collection.key) >= collection.fields.len() {
                    return bad("its key is none of its fields");
                }
                let mut indexes: Vec<Vec<usize>> = Vec::new();
                for index in &collection.indexes {
                    indexes.push(index.fields.iter().map(|field| usize::from(*field)).collect());
                }
                if indexes.iter().flatten().any(|field| *field >= collection.fields.len()) {
                    return bad("an index has a field that is none of its fields");
                }
                if indexes.iter().any(Vec::is_empty) {
                    return bad("an index has no field");
                }
                if indexes.len() > 256 {
                    return bad("more than 256 indexes");
                }
                if layout.index == IndexMode::None {
                    indexes.clear();
                }
                Ok(Kept { name: collection.name.clone(), layout: RecordLayout::new(collection), indexes })
            })
            .collect::<Result<_, _>>()?;
        Ok(Records { collections, locks: Arc::default() })
    }

    /// A session over a connection of its own.
    pub fn session<K: Kv + Send>(&self, kv: K) -> RecordsSession<K> {
        RecordsSession::new(self.clone(), kv)
    }

    /// Checks all indexes for a store's own integrity check; returns a description of the check.
    ///
    /// # Errors
    /// `Corrupt` where they disagree; as the store says.
    pub fn check(&self, kv: &mut (impl Kv + ?Sized)) -> Result<String, StoreError> {
        let mut checks = Vec::new();
        for (collection, kept) in self.collections.iter().enumerate() {
            let check = self.indexes(collection).check(kv).map_err(|error| match error {
                IndexError::Store(KvError::Rejected(error) | KvError::Unknown(error)) => error,
                other => StoreError::new(StoreErrorKind::Broken, other.to_string()),
            })?;
            checks.push((kept.name.as_str(), check));
        }
        let bad: Vec<String> = checks.iter().filter_map(faults).collect();
        if !bad.is_empty() {
            return Err(StoreError::new(StoreErrorKind::Corrupt, "indexes and records disagree")
                .detail(bad.join("; "))
                .next("Keep the recording and report it: an atomic batch was not atomic."));
        }
        let said = checks.iter().map(|(name, check)| {
            format!("`{name}`: {} index keys agree with {} records", check.index_keys, check.records)
        });
        Ok(said.collect::<Vec<_>>().join("; "))
    }

    /// Returns the method of an operation, for those that have several.
    pub fn explain(&self, kind: &OpKind) -> Option<&'static str> {
        let Call::Records { collection, call } = &kind.call else { return None };
        let kept = self.collections.get(usize::from(*collection))?;
        match call {
            RecordsCall::All => Some("scan of all records"),
            RecordsCall::Find { field, access } => Some(match kept.index_for(*field, *access) {
                Some(_) => "range of index keys, then one get for each match",
                None => "scan of all records, each compared",
            }),
            RecordsCall::Insert | RecordsCall::Get | RecordsCall::Update { .. } | RecordsCall::Delete => None,
        }
    }

    /// The indexes of one collection, with buffers of their own.
    fn indexes(&self, collection: usize) -> Indexes {
        // `new` has checked that there are at most 256 collections.
        let fields = Fields { collections: Arc::clone(&self.collections), collection: collection as u8 };
        Indexes::new(fields, Arc::clone(&self.locks))
    }
}

impl Kept {
    /// The index to ask for a range of `field`: the one with the fewest fields that begins with it.
    fn index_for(&self, field: u16, access: Access) -> Option<usize> {
        if access == Access::Scan {
            return None;
        }
        let begins = |fields: &[usize]| fields.first() == Some(&usize::from(field));
        (0..self.indexes.len())
            .filter(|index| begins(&self.indexes[*index]))
            .min_by_key(|index| self.indexes[*index].len())
    }
}

fn faults((name, check): &(&str, Check)) -> Option<String> {
    let Check { dangling, missing, unreadable, example, .. } = check;
    Some(format!(
        "{name}: {dangling} index keys without their record, {missing} records without an index key, {unreadable} \
         unreadable, for example {}",
        example.as_ref()?
    ))
}
