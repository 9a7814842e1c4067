//! Numbers as bytes in LEB128: 7 bits in a byte, the lowest first; the eighth is set if another byte follows.

/// Bits of a number in one byte.
const BITS: u32 = 7;

/// Appends `number` to `bytes`.
pub(crate) fn push(bytes: &mut Vec<u8>, mut number: u64) {
    while number >> BITS > 0 {
        bytes.push(number as u8 | 1 << BITS);
        number >>= BITS;
    }
    bytes.push(number as u8);
}

/// Takes a number from `bytes`; `None` if they end within it or it has more than `bits` bits.
pub(crate) fn take(bytes: &mut &[u8], bits: u32) -> Option<u64> {
    let mut number = 0u128;
    for shift in (0..bits).step_by(BITS as usize) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u128::from(byte & !(1 << BITS)) << shift;
        if byte >> BITS == 0 {
            return (number >> bits == 0).then_some(number as u64);
        }
    }
    None
}
