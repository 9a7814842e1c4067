//! Layout of records and index keys within a store's keys.
//!
//! | key | value |
//! |---|---|
//! | `r` collection key | record |
//! | `x` collection index entry key | nothing |
//!
//! Collection and index are one byte each. The role comes first so that a store can keep index keys apart
//! from records, by the first byte alone, and tell their sizes.

/// First byte of every record's key.
const RECORD_ROLE: u8 = b'r';
/// First byte of every index key.
pub const INDEX_ROLE: u8 = b'x';

/// Bytes before the record's own key.
pub(crate) const RECORD_PREFIX_LEN: usize = 2;
/// Bytes before the entry.
pub(crate) const INDEX_PREFIX_LEN: usize = 3;

/// The parts of a range of keys (`high` of `None`: to the end) that a store has which keeps index keys apart from all
/// others, in key order: whether the part is of index keys, and its range. Those that can hold nothing are left out.
pub fn parts<'k>(
    low: &'k [u8],
    high: Option<&'k [u8]>,
) -> impl Iterator<Item = (bool, &'k [u8], Option<&'k [u8]>)> + Clone {
    const LOW: &[u8] = &[INDEX_ROLE];
    const HIGH: &[u8] = &[INDEX_ROLE + 1];
    let all: [(bool, &[u8], Option<&[u8]>); 3] =
        [(false, &[], Some(LOW)), (true, LOW, Some(HIGH)), (false, HIGH, None)];
    all.into_iter().filter_map(move |(of_index, first, end)| {
        let low = low.max(first);
        let high = match (high, end) {
            (Some(high), Some(end)) => Some(high.min(end)),
            (high, end) => high.or(end),
        };
        high.is_none_or(|high| low < high).then_some((of_index, low, high))
    })
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_parts_before_among_and_behind_index_keys() {
        let all = |low: &'static str, high: Option<&'static str>| {
            let found = parts(low.as_bytes(), high.map(str::as_bytes));
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            let part = |(of_index, low, high): (bool, &[u8], Option<&[u8]>)| {
                format!("{}{}..{}", if of_index { "index " } else { "" }, text(low), high.map(text).unwrap_or_default())
            };
            found.map(part).collect::<Vec<_>>()
        };
        assert_eq!(all("", None), ["..x", "index x..y", "y.."]);
        assert_eq!(all("ra", Some("xb")), ["ra..x", "index x..xb"]);
        assert_eq!(all("xa", Some("y")), ["index xa..y"]);
        assert_eq!(all("xa", None), ["index xa..y", "y.."]);
        assert_eq!((all("a", Some("b")), all("z", None)), (vec!["a..b".to_owned()], vec!["z..".to_owned()]));
        assert_eq!(all("b", Some("a")), [""; 0]);
    }
}
