//! Ticks of a slice as bytes: for each tick, its answered and its failed operations as LEB128 numbers.

use plimsoll_core::Tick;

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

#[cfg(test)]
mod tests {
    use super::*;

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
