//! `tls-server-end-point` of RFC 5929, section 4.1: a certificate's hash by the algorithm of its own signature.

use sha2::{Digest, Sha256, Sha384, Sha512};

use crate::der::element;

/// Object identifiers of signature algorithms (RFC 8017, RFC 5758), encoded, and which hash each stands for.
const ALGORITHMS: [(&[u8], Hash); 9] = [
    // 1.2.840.113549.1.1.4, .5, .11, .12, .13: RSA with MD5, SHA-1, SHA-256, SHA-384, SHA-512. MD5 and SHA-1 are
    // replaced by SHA-256.
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 4], digest::<Sha256>),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 5], digest::<Sha256>),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 11], digest::<Sha256>),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 12], digest::<Sha384>),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 13], digest::<Sha512>),
    // 1.2.840.10045.4.1 and .4.3.2 to .4: ECDSA with SHA-1, SHA-256, SHA-384, SHA-512.
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 1], digest::<Sha256>),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2], digest::<Sha256>),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 3], digest::<Sha384>),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 4], digest::<Sha512>),
];

type Hash = fn(&[u8]) -> Vec<u8>;

fn digest<D: Digest>(certificate: &[u8]) -> Vec<u8> {
    D::digest(certificate).to_vec()
}

/// The hash of a certificate in DER; `None` where the RFC defines none.
pub(crate) fn hash(certificate: &[u8]) -> Option<Vec<u8>> {
    let algorithm = signature_algorithm(certificate)?;
    ALGORITHMS.iter().find(|(known, _)| *known == algorithm).map(|(_, hash)| hash(certificate))
}

/// Certificate ::= SEQUENCE { tbsCertificate SEQUENCE, signatureAlgorithm SEQUENCE { OBJECT IDENTIFIER … } … }
fn signature_algorithm(certificate: &[u8]) -> Option<&[u8]> {
    const SEQUENCE: u8 = 0x30;
    const OBJECT_IDENTIFIER: u8 = 0x06;
    let (fields, _) = element(certificate, SEQUENCE)?;
    let (_, rest) = element(fields, SEQUENCE)?;
    let (algorithm, _) = element(rest, SEQUENCE)?;
    Some(element(algorithm, OBJECT_IDENTIFIER)?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_short_or_no_certificate_has_no_hash() {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new(vec!["h".to_owned()]).unwrap().self_signed(&key).unwrap();
        let der = certificate.der();
        assert_eq!(hash(der).unwrap(), Sha256::digest(der).to_vec(), "ECDSA with SHA-256");
        for end in 0..der.len().min(200) {
            assert_eq!(hash(&der[..end]), None);
        }
        assert_eq!(hash(&[0x30, 0x89, 1, 1, 1, 1, 1, 1, 1, 1, 1]), None);
    }
}
