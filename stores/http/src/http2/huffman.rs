//! HPACK's Huffman code, as far as a client needs it: to read what servers send (RFC 7541, 5.2 and appendix B).
//!
//! The code is canonical: of one length, codes are consecutive. So it follows from how many codes each length has, and from
//! the symbols in the order of their codes.

use crate::response::Malformed;

/// Shortest and longest code, in bits.
const BITS: std::ops::RangeInclusive<usize> = 5..=30;

/// Number of codes of each length in bits.
const COUNTS: [u32; 31] =
    [0, 0, 0, 0, 0, 10, 26, 32, 6, 0, 5, 3, 2, 6, 2, 3, 0, 0, 0, 3, 8, 13, 26, 29, 12, 4, 15, 19, 29, 0, 4];

/// Symbols in the order of their codes. Behind them comes the end of the string, which never stands in one.
#[rustfmt::skip]
static SYMBOLS: [u8; 256] = [
    48, 49, 50, 97, 99, 101, 105, 111, 115, 116, 32, 37, 45, 46, 47, 51, 52, 53, 54, 55, 56, 57, 61, 65, 95, 98,
    100, 102, 103, 104, 108, 109, 110, 112, 114, 117, 58, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77, 78, 79,
    80, 81, 82, 83, 84, 85, 86, 87, 89, 106, 107, 113, 118, 119, 120, 121, 122, 38, 42, 44, 59, 88, 90, 33, 34, 40,
    41, 63, 39, 43, 124, 35, 62, 0, 36, 64, 91, 93, 126, 94, 125, 60, 96, 123, 92, 195, 208, 128, 130, 131, 162,
    184, 194, 224, 226, 153, 161, 167, 172, 176, 177, 179, 209, 216, 217, 227, 229, 230, 129, 132, 133, 134, 136,
    146, 154, 156, 160, 163, 164, 169, 170, 173, 178, 181, 185, 186, 187, 189, 190, 196, 198, 228, 232, 233, 1, 135,
    137, 138, 139, 140, 141, 143, 147, 149, 150, 151, 152, 155, 157, 158, 165, 166, 168, 174, 175, 180, 182, 183,
    188, 191, 197, 231, 239, 9, 142, 144, 145, 148, 159, 171, 206, 215, 225, 236, 237, 199, 207, 234, 235, 192, 193,
    200, 201, 202, 205, 210, 213, 218, 219, 238, 240, 242, 243, 255, 203, 204, 211, 212, 214, 221, 222, 223, 241,
    244, 245, 246, 247, 248, 250, 251, 252, 253, 254, 2, 3, 4, 5, 6, 7, 8, 11, 12, 14, 15, 16, 17, 18, 19, 20, 21,
    23, 24, 25, 26, 27, 28, 29, 30, 31, 127, 220, 249, 10, 13, 22,
];

/// Table by length: the first code that is longer, at the left of 32 bits; and the number of its first symbol less its
/// first code.
static LENGTHS: [(u64, i64); 31] = {
    let mut all = [(0, 0); 31];
    let (mut bits, mut code, mut symbols) = (1, 0_i64, 0_i64);
    while bits <= *BITS.end() {
        code <<= 1;
        let first_less = symbols - code;
        code += COUNTS[bits] as i64;
        symbols += COUNTS[bits] as i64;
        all[bits] = ((code as u64) << (32 - bits), first_less);
        bits += 1;
    }
    all
};

/// Appends what `code` says.
///
/// # Errors
/// [`Malformed`] when it is no code.
pub(crate) fn decode(code: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    let (mut window, mut held, mut rest) = (0_u64, 0_usize, code.iter());
    loop {
        while held <= 56 {
            let Some(byte) = rest.next() else { break };
            window |= u64::from(*byte) << (56 - held);
            held += 8;
        }
        // What is not there is padded with ones, as the string is: no symbol fits into less than 8 of them.
        let padded = window | u64::MAX.checked_shr(held as u32).unwrap_or(0);
        let next = padded >> 32;
        let Some(bits) = BITS.clone().find(|bits| next < LENGTHS[*bits].0) else {
            return Err(Malformed("a Huffman code with an end in it"));
        };
        if bits > held {
            let is_padding = held < 8 && (held == 0 || window >> (64 - held) == (1 << held) - 1);
            return if is_padding { Ok(()) } else { Err(Malformed("a Huffman code that breaks off")) };
        }
        let at = (next >> (32 - bits)) as i64 + LENGTHS[bits].1;
        // Only the end of the string is beyond.
        let symbol = usize::try_from(at).ok().and_then(|at| SYMBOLS.get(at));
        out.push(*symbol.ok_or(Malformed("a Huffman code with an end in it"))?);
        window <<= bits;
        held -= bits;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(code: &[u8]) -> Result<String, Malformed> {
        let mut out = Vec::new();
        decode(code, &mut out).map(|()| String::from_utf8(out).unwrap())
    }

    #[test]
    fn the_examples_of_the_rfc_are_read() {
        // RFC 7541, C.4 and C.6.
        for (code, text) in [
            (&b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff"[..], "www.example.com"),
            (b"\xa8\xeb\x10\x64\x9c\xbf", "no-cache"),
            (b"\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf", "custom-value"),
            (b"\x64\x02", "302"),
            (
                b"\xd0\x7a\xbe\x94\x10\x54\xd4\x44\xa8\x20\x05\x95\x04\x0b\x81\x66\xe0\x82\xa6\x2d\x1b\xff",
                "Mon, 21 Oct 2013 20:13:21 GMT",
            ),
            (b"", ""),
        ] {
            assert_eq!(decoded(code).as_deref(), Ok(text));
        }
    }

    #[test]
    fn every_symbol_has_a_code_and_comes_back() {
        let mut codes = Vec::new();
        let (mut code, mut at) = (0_u64, 0);
        for (bits, count) in COUNTS.iter().enumerate().skip(1) {
            code <<= 1;
            for _ in 0..*count {
                codes.push((at, bits, code));
                at += 1;
                code += 1;
            }
        }
        assert_eq!((codes.len(), code), (257, 1 << 30));
        for (at, bits, code) in &codes[..256] {
            // At the left, and ones behind it.
            let padded = (code << (40 - bits)) | ((1 << (40 - bits)) - 1);
            let bytes = padded.to_be_bytes();
            let mut out = Vec::new();
            assert_eq!(decode(&bytes[3..][..bits.div_ceil(8)], &mut out), Ok(()));
            assert_eq!(out, [SYMBOLS[*at]]);
        }
    }

    #[test]
    fn what_is_no_code_is_refused() {
        // The end of a string, padding of 8 bits, padding with zeros.
        for bad in [&b"\xff\xff\xff\xff"[..], b"\xff", b"\x07\xff", b"\x00"] {
            assert!(decoded(bad).is_err(), "{bad:?}");
        }
    }
}
