//! Silences of clients in a slice as bytes: for each three LEB128 numbers, the client, the start, and the length, which
//! is 0 if it did not end.

use plimsoll_core::ClientSilence;

use crate::leb128;

/// Returns the bytes of `silences`.
pub(crate) fn encode(silences: &[ClientSilence]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(silences.len() * 14);
    for ClientSilence { client, from_ns, until_ns } in silences {
        let length_ns = until_ns.map_or(0, |until_ns| until_ns.saturating_sub(*from_ns).max(1));
        [u64::from(*client), *from_ns, length_ns].into_iter().for_each(|number| leb128::push(&mut bytes, number));
    }
    bytes
}

/// Returns the silences in `bytes`; `None` if they are damaged.
pub(crate) fn decode(mut bytes: &[u8]) -> Option<Vec<ClientSilence>> {
    let mut silences = Vec::new();
    while !bytes.is_empty() {
        let client = leb128::take(&mut bytes, u32::BITS)? as u32;
        let [from_ns, length_ns] = [leb128::take(&mut bytes, u64::BITS)?, leb128::take(&mut bytes, u64::BITS)?];
        let until_ns = from_ns.checked_add(length_ns)?;
        silences.push(ClientSilence { client, from_ns, until_ns: (length_ns > 0).then_some(until_ns) });
    }
    Some(silences)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silences_are_read_back_and_bytes_that_none_have_are_damage() {
        let silence = |client, from_ns, until_ns| ClientSilence { client, from_ns, until_ns };
        let all = vec![silence(0, 0, Some(1)), silence(u32::MAX, 5_000_000_000, None), silence(7, 300, Some(u64::MAX))];
        let bytes = encode(&all);
        assert_eq!(decode(&bytes), Some(all));
        assert_eq!(decode(&[]), Some(Vec::new()));
        let longer = encode(&[silence(1, 2, Some(u64::MAX))]);
        // Cut off, a client of more than 32 bits, and an end beyond 64 bits.
        let late = [&[0][..], &longer[2..], &longer[2..]].concat();
        for bytes in [&bytes[..bytes.len() - 1], &bytes[..1], &[0xff, 0xff, 0xff, 0xff, 0x10, 0, 1], &late] {
            assert_eq!(decode(bytes), None, "{bytes:?}");
        }
    }
}
