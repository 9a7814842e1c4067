//! RSA encryption with a server's public key (RFC 8017, RSAES-OAEP with SHA-1), which is how a password gets to a
//! server of MySQL's without TLS.
//!
//! Only the public half, of one short text per login: nothing here has to hide how long it takes.

use plimsoll_tls::der::{element, public_key as public_key_of};
use sha1::{Digest, Sha1};

/// Sizes of keys that are taken, in bytes.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 128..=1_024;

const HASH_BYTES: usize = 20;

/// Encrypts `text` with a key in PEM (`BEGIN PUBLIC KEY`), or says what is wrong with that.
pub(crate) fn encrypt(pem: &[u8], text: &[u8]) -> Result<Vec<u8>, &'static str> {
    let mut seed = [0; HASH_BYTES];
    getrandom::fill(&mut seed).map_err(|_| "the operating system has no random numbers")?;
    encrypt_with(pem, text, seed)
}

fn encrypt_with(pem: &[u8], text: &[u8], seed: [u8; HASH_BYTES]) -> Result<Vec<u8>, &'static str> {
    let der = public_key_of(pem).ok_or("it is not in PEM")?;
    let (modulus, exponent) = public_key(&der).ok_or("it is not an RSA key")?;
    let bytes = modulus.len();
    if !KEY_BYTES.contains(&bytes) || modulus.last().is_none_or(|last| last % 2 == 0) {
        return Err("it has not 1,024 to 8,192 bits, or is even");
    }
    let padded = pad(text, bytes, seed).ok_or("the password is too long for it")?;
    Ok(power(&padded, exponent, modulus))
}

/// EME-OAEP with an empty label.
fn pad(text: &[u8], bytes: usize, mut seed: [u8; HASH_BYTES]) -> Option<Vec<u8>> {
    let room = bytes.checked_sub(2 * HASH_BYTES + 2 + text.len())?;
    let mut block = Sha1::digest([]).to_vec();
    block.resize(HASH_BYTES + room, 0);
    block.push(1);
    block.extend_from_slice(text);
    mask(&mut block, &seed);
    mask(&mut seed, &block);
    Some([&[0], &seed[..], &block].concat())
}

/// MGF1: hashes of the seed and a counter, laid over `bytes`.
fn mask(bytes: &mut [u8], seed: &[u8]) {
    for (chunk, counter) in bytes.chunks_mut(HASH_BYTES).zip(0_u32..) {
        let hash = Sha1::new().chain_update(seed).chain_update(counter.to_be_bytes()).finalize();
        chunk.iter_mut().zip(hash).for_each(|(byte, mask)| *byte ^= mask);
    }
}

/// Modulus and exponent of SubjectPublicKeyInfo ::= SEQUENCE { SEQUENCE { … }, BIT STRING { SEQUENCE { INTEGER,
/// INTEGER } } }.
fn public_key(der: &[u8]) -> Option<(&[u8], u64)> {
    let (info, _) = element(der, 0x30)?;
    let (_, rest) = element(info, 0x30)?;
    let (bits, _) = element(rest, 0x03)?;
    let (key, _) = element(bits.strip_prefix(&[0])?, 0x30)?;
    let (modulus, rest) = element(key, 0x02)?;
    let (exponent, _) = element(rest, 0x02)?;
    if exponent.len() > 8 {
        return None;
    }
    let exponent = exponent.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    Some((modulus.strip_prefix(&[0]).unwrap_or(modulus), exponent))
}

/// `base` to the power of `exponent`, modulo an odd number; all from the highest byte on.
fn power(base: &[u8], exponent: u64, modulus: &[u8]) -> Vec<u8> {
    let modulus_limbs = limbs(modulus);
    let count = modulus_limbs.len();
    let mut base_limbs = limbs(base);
    base_limbs.resize(count, 0);
    let montgomery = Montgomery::new(&modulus_limbs);
    // 2 to the power of twice all bits brings a number into Montgomery's form.
    let mut square = vec![0; count];
    square[0] = 1;
    for _ in 0..2 * 32 * count {
        montgomery.double(&mut square);
    }
    let base_form = montgomery.product(&base_limbs, &square);
    let mut one = vec![0; count];
    one[0] = 1;
    let mut result = montgomery.product(&one, &square);
    for bit in (0..64 - exponent.leading_zeros()).rev() {
        result = montgomery.product(&result, &result);
        if exponent >> bit & 1 == 1 {
            result = montgomery.product(&result, &base_form);
        }
    }
    let result = montgomery.product(&result, &one);
    let mut bytes: Vec<u8> = result.iter().rev().flat_map(|limb| limb.to_be_bytes()).collect();
    bytes.drain(..bytes.len() - modulus.len());
    bytes
}

/// A number's limbs, the lowest first.
fn limbs(bytes: &[u8]) -> Vec<u32> {
    let limb = |chunk: &[u8]| chunk.iter().fold(0, |number, byte| number << 8 | u32::from(*byte));
    bytes.rchunks(4).map(limb).collect()
}

/// Multiplication modulo an odd number (Montgomery 1985; the loop is CIOS of Koç, Acar, Kaliski 1996).
struct Montgomery<'a> {
    modulus: &'a [u32],
    /// The negative inverse of the lowest limb.
    inverse: u32,
}

impl<'a> Montgomery<'a> {
    fn new(modulus: &'a [u32]) -> Self {
        // Newton's iteration doubles the number of right bits each time.
        let mut inverse = 1_u32;
        for _ in 0..5 {
            inverse = inverse.wrapping_mul(2_u32.wrapping_sub(modulus[0].wrapping_mul(inverse)));
        }
        Self { modulus, inverse: inverse.wrapping_neg() }
    }

    fn product(&self, a: &[u32], b: &[u32]) -> Vec<u32> {
        let count = self.modulus.len();
        let mut sum = vec![0_u32; count + 2];
        for a in a {
            let factors = b.iter();
            add_product(&mut sum, *a, factors);
            let factor = sum[0].wrapping_mul(self.inverse);
            add_product(&mut sum, factor, self.modulus.iter());
            sum.copy_within(1.., 0);
            sum[count + 1] = 0;
        }
        self.reduce(&mut sum);
        sum.truncate(count);
        sum
    }

    fn double(&self, number: &mut Vec<u32>) {
        number.push(0);
        let mut carry = 0;
        for limb in &mut *number {
            (*limb, carry) = (*limb << 1 | carry, *limb >> 31);
        }
        self.reduce(number);
        number.truncate(self.modulus.len());
    }

    /// Subtracts the modulus once if the number is not below it.
    fn reduce(&self, number: &mut [u32]) {
        let modulus = || self.modulus.iter().copied().chain(std::iter::repeat(0));
        let mut difference = Vec::with_capacity(number.len());
        let mut borrow = false;
        for (limb, subtrahend) in number.iter().zip(modulus()) {
            let (first, below) = limb.overflowing_sub(subtrahend);
            let (second, again) = first.overflowing_sub(u32::from(borrow));
            borrow = below || again;
            difference.push(second);
        }
        if !borrow {
            number.copy_from_slice(&difference);
        }
    }
}

/// Adds `factor` times a number to `sum`.
fn add_product<'b>(sum: &mut [u32], factor: u32, number: impl Iterator<Item = &'b u32>) {
    let mut carry = 0_u64;
    let mut number = number.copied();
    for limb in sum {
        let next = u64::from(*limb) + u64::from(factor) * u64::from(number.next().unwrap_or(0)) + carry;
        *limb = next as u32;
        carry = next >> 32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_powers_are_right() {
        for (base, exponent, modulus) in
            [(2_u64, 10_u64, 1_000_003_u64), (3, 65_537, 4_294_967_291), (0xffff_fff0, 3, u64::MAX)]
        {
            let mut expected = 1_u128;
            for _ in 0..exponent {
                expected = expected * u128::from(base) % u128::from(modulus);
            }
            assert_eq!(power(&base.to_be_bytes(), exponent, &modulus.to_be_bytes()), (expected as u64).to_be_bytes());
        }
    }

    /// Made with Python's `cryptography`, which also decrypted it: a key of 2,048 bits, and the SHA-1 of what a text
    /// comes to with a known seed.
    #[test]
    fn a_text_is_encrypted_as_others_do() {
        let seed = std::array::from_fn(|place| place as u8);
        let encrypted = encrypt_with(KEY.as_bytes(), b"secret\0", seed).unwrap();
        assert_eq!(encrypted.len(), 256);
        let hash: String = Sha1::digest(&encrypted).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hash, ENCRYPTED_SHA1);
        assert_ne!(encrypt(KEY.as_bytes(), b"x").unwrap(), encrypt(KEY.as_bytes(), b"x").unwrap());
        assert!(encrypt(KEY.as_bytes(), &[1; 214]).is_ok() && encrypt(KEY.as_bytes(), &[1; 215]).is_err());
    }

    const ENCRYPTED_SHA1: &str = "b51da9f8ef4549d8f5a41ba1643215e852aebf62";
    const KEY: &str = "-----BEGIN PUBLIC KEY-----\n\
        MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAva3tS/BGGZH4xw+op+iD\n\
        OkRVrA/M8X8VhaH/laADDhGN6+4o58v1b/lF7+4jp669Pq0j0tsxZLvkcTceDMqY\n\
        PHLzQP/glGGl6EnKwGtUOlGHpxoA/TVlfzvyctmbYou80qrwh+GXDAEXhK18Thjz\n\
        PaS54v+dKAHE9Dkl20z8Lqlaza8nQCdav4o9T/i4BFjLJk5aztUR61xY5HHjQkNY\n\
        TlxqGpi1IP/Q+doLg9vSAdrB0vFAbHIZz8jtqXSR3jHrFQDwTLtcpLbvVoGBmZP+\n\
        gxTezop9TZ2CS9sS5behw0Rd0i8hWTmaAOeAddXZW6RavBl4g/vT2wXdx0NToYr7\n\
        QwIDAQAB\n\
        -----END PUBLIC KEY-----\n";

    #[test]
    fn a_key_that_is_none_is_refused() {
        for pem in [&b""[..], b"-----BEGIN PUBLIC KEY-----\n!!\n-----END PUBLIC KEY-----", b"\x04"] {
            assert!(encrypt(pem, b"x").is_err());
        }
        let tiny = b"-----BEGIN PUBLIC KEY-----\nMCQwDQYJKoZIhvcNAQEBBQADEwAwEAIJAMLw\n-----END PUBLIC KEY-----";
        assert!(encrypt(tiny, b"x").is_err());
    }
}
