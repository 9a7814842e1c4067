//! RSA encryption with a server's public key (RFC 8017, RSAES-OAEP with SHA-1), which is how a password gets to a
//! server of MySQL's without TLS.
//!
//! Only the public half, of one short text per login: nothing here has to hide how long it takes.

use num_bigint::BigUint;
use plimsoll_tls::der::{element, public_key as public_key_of};
use sha1::{Digest, Sha1};

/// Sizes of keys that are taken, in bytes.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 128..=1_024;

/// Longest exponent that is taken: a longer one only takes longer.
const EXPONENT_BYTES_MAX: usize = 8;

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
fn public_key(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (info, _) = element(der, 0x30)?;
    let (_, rest) = element(info, 0x30)?;
    let (bits, _) = element(rest, 0x03)?;
    let (key, _) = element(bits.strip_prefix(&[0])?, 0x30)?;
    let (modulus, rest) = element(key, 0x02)?;
    let (exponent, _) = element(rest, 0x02)?;
    (exponent.len() <= EXPONENT_BYTES_MAX).then_some((modulus.strip_prefix(&[0]).unwrap_or(modulus), exponent))
}

/// `base` to the power of `exponent`, modulo `modulus`; all from the highest byte on.
fn power(base: &[u8], exponent: &[u8], modulus: &[u8]) -> Vec<u8> {
    let number = BigUint::from_bytes_be;
    let digits = number(base).modpow(&number(exponent), &number(modulus)).to_bytes_be();
    let mut bytes = vec![0; modulus.len().saturating_sub(digits.len())];
    bytes.extend(digits);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

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
