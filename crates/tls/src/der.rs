//! Parser of the part of DER (X.690) that certificates and keys need.

use std::ops::RangeInclusive;

use plimsoll_core::Utc;
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

/// Tags of elements: whole numbers, the version of a certificate, and times with two and four digits of the year.
const INTEGER: u8 = 0x02;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// Returns the seconds since 1970 in which a certificate is valid (RFC 5280, 4.1); `None` if they cannot be read.
pub(crate) fn validity(certificate: &[u8]) -> Option<RangeInclusive<i64>> {
    let (signed, _) = element(element(certificate, SEQUENCE)?.0, SEQUENCE)?;
    // Certificates of version 1 name no version.
    let mut rest = element(signed, VERSION).map_or(signed, |(_, rest)| rest);
    // Serial number, algorithm and issuer.
    for tag in [INTEGER, SEQUENCE, SEQUENCE] {
        rest = element(rest, tag)?.1;
    }
    let (from, rest) = time(element(rest, SEQUENCE)?.0)?;
    let (until, _) = time(rest)?;
    Some(from..=until)
}

/// Reads a time, `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ`, in seconds since 1970, and what comes after it.
fn time(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let ((text, rest), year_digits) = match element(bytes, UTC_TIME) {
        Some(found) => (found, 2),
        None => (element(bytes, GENERALIZED_TIME)?, 4),
    };
    let digits = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let (year, others) = digits.split_at_checked(year_digits)?;
    let two = |at: usize| others.get(at..at + 2)?.parse::<i64>().ok();
    let year = match (year_digits, year.parse::<i64>().ok()?) {
        (2, year @ 50..) => 1900 + year,
        (2, year) => 2000 + year,
        (_, year) => year,
    };
    let (month, day, hour, minute, second) = (two(0)?, two(2)?, two(4)?, two(6)?, two(8)?);
    Some((Utc { year, month, day, hour, minute, second, us: 0 }.since_1970_us()? / 1_000_000, rest))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    #[test]
    fn the_dates_of_a_certificate_are_read() {
        // The first two have two digits of the year, the others four.
        for (from, until) in
            [((1999, 12, 31), (2049, 1, 1)), ((1950, 1, 1), (2026, 2, 28)), ((2050, 1, 1), (4096, 1, 1))]
        {
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            (params.not_before, params.not_after) =
                (date_time_ymd(from.0, from.1, from.2), date_time_ymd(until.0, until.1, until.2));
            let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
            let wanted = params.not_before.unix_timestamp()..=params.not_after.unix_timestamp();
            assert_eq!(validity(certificate.der()), Some(wanted));
            for end in 0..certificate.der().len() {
                validity(&certificate.der()[..end]);
            }
        }
    }
}
