//! Ticks of a slice as bytes: for each tick two LEB128 numbers, its answered and its failed operations; or the parts of
//! the keys that were asked and those that were answered, as bits; or one, the servers that answered, as bits.

use plimsoll_core::{PartTick, Tick};

use crate::leb128;

/// Returns the bytes of `ticks`.
pub(crate) fn encode(ticks: &[Tick]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(ticks.len() * 4);
    for number in ticks.iter().flat_map(|tick| [tick.answered, tick.failed]) {
        leb128::push(&mut bytes, number.into());
    }
    bytes
}

/// Returns the ticks in `bytes`; `None` if they are damaged.
pub(crate) fn decode(mut bytes: &[u8]) -> Option<Vec<Tick>> {
    let mut ticks = Vec::new();
    let number = |bytes: &mut &[u8]| leb128::take(bytes, u32::BITS).map(|number| number as u32);
    while !bytes.is_empty() {
        ticks.push(Tick { answered: number(&mut bytes)?, failed: number(&mut bytes)? });
    }
    Some(ticks)
}

/// Returns the bytes of ticks of the parts of the keys.
pub(crate) fn encode_parts(ticks: &[PartTick]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(ticks.len() * 12);
    ticks.iter().flat_map(|tick| [tick.asked, tick.answered]).for_each(|bits| leb128::push(&mut bytes, bits));
    bytes
}

/// Returns the ticks of so many parts of the keys in `bytes`; `None` if they are damaged.
pub(crate) fn decode_parts(of: u8, mut bytes: &[u8]) -> Option<Vec<PartTick>> {
    let mut ticks = Vec::new();
    while !bytes.is_empty() {
        let asked = leb128::take(&mut bytes, of.into())?;
        ticks.push(PartTick { asked, answered: leb128::take(&mut bytes, of.into())? });
    }
    Some(ticks)
}

/// Returns the bytes of ticks of servers.
pub(crate) fn encode_servers(ticks: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(ticks.len());
    ticks.iter().for_each(|bits| leb128::push(&mut bytes, *bits));
    bytes
}

/// Returns the ticks of so many servers, at most 64, in `bytes`; `None` if they are damaged.
pub(crate) fn decode_servers(of: usize, mut bytes: &[u8]) -> Option<Vec<u64>> {
    let of = u32::try_from(of).ok().filter(|of| (1..=u64::BITS).contains(of))?;
    let mut ticks = Vec::new();
    while !bytes.is_empty() {
        ticks.push(leb128::take(&mut bytes, of)?);
    }
    Some(ticks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read_back_and_bits_of_no_part_are_damage() {
        let tick = |asked, answered| PartTick { asked, answered };
        let ticks = vec![tick(0, u64::MAX), tick(1, 1 << 63), tick(u64::MAX, 0)];
        assert_eq!(decode_parts(64, &encode_parts(&ticks)), Some(ticks));
        assert_eq!(decode_parts(3, &encode_parts(&[tick(7, 4)])), Some(vec![tick(7, 4)]));
        for bytes in [vec![8, 0], vec![0, 8], vec![7], vec![0xff, 0]] {
            assert_eq!(decode_parts(3, &bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn servers_are_read_back_and_bits_of_no_server_are_damage() {
        let ticks = vec![0, 1, u64::MAX];
        assert_eq!(decode_servers(64, &encode_servers(&ticks)), Some(ticks));
        assert_eq!(decode_servers(2, &encode_servers(&[3, 0])), Some(vec![3, 0]));
        for (of, bytes) in [(2, &[4][..]), (0, &[0]), (65, &[0]), (64, &[0xff])] {
            assert_eq!(decode_servers(of, bytes), None, "{bytes:?} of {of}");
        }
    }

    #[test]
    fn every_number_is_read_back_and_small_ones_take_a_byte() {
        let numbers = [0, 1, 127, 128, 300, 16_383, 16_384, 1 << 21, 1 << 28, u32::MAX - 1, u32::MAX];
        let ticks: Vec<Tick> =
            numbers.iter().zip(numbers.iter().rev()).map(|(&answered, &failed)| Tick { answered, failed }).collect();
        assert_eq!(decode(&encode(&ticks)), Some(ticks));
        assert_eq!(decode(&[]), Some(Vec::new()));
        assert_eq!(encode(&[Tick { answered: 127, failed: 300 }]), [127, 0xac, 2]);
    }

    #[test]
    fn bytes_that_no_ticks_have_are_damage() {
        let bytes = encode(&[Tick { answered: 300, failed: 5 }, Tick { answered: 0, failed: 70_000 }]);
        for (length, known) in [(bytes.len(), 2), (3, 1)] {
            assert_eq!(decode(&bytes[..length]).map(|ticks| ticks.len()), Some(known));
        }
        // Within a number, and after the first of two.
        for length in [1, 2, 4, 5, 6] {
            assert_eq!(decode(&bytes[..length]), None, "{length} bytes");
        }
        for bytes in [[0xff, 0xff, 0xff, 0xff, 0x10, 0], [0x80, 0x80, 0x80, 0x80, 0x80, 0]] {
            assert_eq!(decode(&bytes), None, "more than 32 bits");
        }
    }
}
