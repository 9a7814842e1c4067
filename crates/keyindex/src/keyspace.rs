//! Where records and index keys stand among a store's keys.
//!
//! | key | value |
//! |---|---|
//! | `r` collection key | record |
//! | `x` collection index entry key | nothing |
//!
//! Collection and index are one byte each. The role comes first so that a store can keep index keys apart
//! from records, by the first byte alone, and tell their sizes.

/// First byte of every record's key.
pub const RECORD_ROLE: u8 = b'r';
/// First byte of every index key.
pub const INDEX_ROLE: u8 = b'x';

/// Bytes before the record's own key.
pub(crate) const RECORD_PREFIX_LEN: usize = 2;
/// Bytes before the entry.
pub(crate) const INDEX_PREFIX_LEN: usize = 3;

pub(crate) fn record_prefix(collection: u8) -> [u8; RECORD_PREFIX_LEN] {
    [RECORD_ROLE, collection]
}

pub(crate) fn index_prefix(collection: u8, index: u8) -> [u8; INDEX_PREFIX_LEN] {
    [INDEX_ROLE, collection, index]
}

/// Replaces `out` by the store's key of a record.
pub(crate) fn record_key(out: &mut Vec<u8>, collection: u8, key: &[u8]) {
    out.clear();
    out.extend_from_slice(&record_prefix(collection));
    out.extend_from_slice(key);
}

/// Position of the index whose key `key` is; `None` for a record's.
pub(crate) fn index_of(key: &[u8]) -> Option<u8> {
    key.get(INDEX_PREFIX_LEN - 1).copied().filter(|_| key[0] == INDEX_ROLE)
}

/// Replaces `out` by an index key.
pub(crate) fn index_key(out: &mut Vec<u8>, collection: u8, index: u8, entry: &[u8], key: &[u8]) {
    out.clear();
    out.extend_from_slice(&index_prefix(collection, index));
    out.extend_from_slice(entry);
    out.extend_from_slice(key);
}

/// Splits what follows an index key's prefix into the entry of `width` values and the record's key.
pub(crate) fn split_index_key(body: &[u8], width: usize) -> Option<(&[u8], &[u8])> {
    let mut at = 0;
    for _ in 0..width {
        at += crate::encode::len(body.get(at..)?)?;
    }
    Some(body.split_at(at))
}
