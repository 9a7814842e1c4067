//! Parser of the part of DER (X.690) that certificates and keys need.

use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject;

/// The contents of a DER element with `tag`, and what comes after it.
pub fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<2>()?;
    if head[0] != tag {
        return None;
    }
    let (length, rest) = match head[1] {
        short @ 0..0x80 => (usize::from(short), rest),
        // More than four bytes of length are no certificate's or key's.
        long => {
            let count = usize::from(long & 0x7f);
            let (digits, rest) = rest.split_at_checked(count).filter(|_| (1..=4).contains(&count))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
    };
    rest.split_at_checked(length)
}

/// The public key that stands in a PEM file, as SubjectPublicKeyInfo (RFC 5280); `None` when there is none.
pub fn public_key(pem: &[u8]) -> Option<Vec<u8>> {
    SubjectPublicKeyInfoDer::from_pem_slice(pem).ok().map(|key| key.to_vec())
}
