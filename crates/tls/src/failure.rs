//! Descriptions of TLS errors.

use plimsoll_core::{StoreError, StoreErrorKind};
use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, OtherError, PeerIncompatible};

use crate::check::RootOutOfDate;

/// Advice to a client that does not trust the server's authority.
pub const NAME_ROOT: &str = "Name the file with the root certificate that signed it.";
/// Advice to a client without the certificate that the server wants.
pub const NAME_CERTIFICATE: &str = "Name the files of a client certificate and its key.";

/// Facts about a connection for the description of its error.
pub(crate) struct Facts<'a> {
    pub place: &'a str,
    /// Source of the client's roots.
    pub roots: &'a str,
    /// The client has a certificate to show.
    pub has_certificate: bool,
    /// The bytes that arrived, if they were the first.
    pub first_words: Option<&'a [u8]>,
}

/// Describes a TLS error. No such error disappears on a retry, so the kinds are those that are not retried.
pub(crate) fn explain(error: &Error, facts: &Facts<'_>) -> StoreError {
    let Facts { place, roots, has_certificate, first_words } = *facts;
    match (error, first_words) {
        (Error::InvalidCertificate(error), _) => bad_certificate(error, place, roots),
        (Error::AlertReceived(alert), _) => refused(*alert, place, has_certificate),
        (
            Error::InvalidMessage(InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion),
            Some(words),
        ) => {
            let words = &words[..words.len().min(40)];
            StoreError::usage(format!("{place} does not speak TLS"))
                .detail(format!("it began with `{}`", words.escape_ascii()))
                .next("Check the port, or connect without TLS over a network that you trust.")
        }
        (
            Error::PeerIncompatible(
                PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
                | PeerIncompatible::ServerDoesNotSupportTls12Or13,
            ),
            _,
        ) => no_version(place),
        (other, _) => StoreError::broken(format!("TLS with {place} failed")).detail(other.to_string()),
    }
}

fn untrusted(what: String) -> StoreError {
    StoreError::new(StoreErrorKind::Authentication, what)
}

fn bad_certificate(error: &CertificateError, place: &str, roots: &str) -> StoreError {
    use CertificateError as C;
    match error {
        C::UnknownIssuer | C::BadSignature => {
            untrusted(format!("the certificate of {place} is not signed by an authority that {roots} trusts"))
                .next(NAME_ROOT)
        }
        C::NotValidForNameContext { presented, .. } => other_host(place, presented),
        C::ExpiredContext { time, not_after } => {
            let ago_s = time.as_secs().saturating_sub(not_after.as_secs());
            untrusted(format!("the certificate of {place} has expired"))
                .detail(format!("{} ago", days(ago_s)))
                .next("Have it renewed, or check this machine's clock.")
        }
        C::NotValidYetContext { time, not_before } => {
            let in_s = not_before.as_secs().saturating_sub(time.as_secs());
            untrusted(format!("the certificate of {place} is not valid yet"))
                .detail(format!("it will be in {}", days(in_s)))
                .next("Check this machine's clock.")
        }
        C::Revoked => untrusted(format!("the certificate of {place} was revoked")),
        C::Other(OtherError(why)) if why.downcast_ref::<RootOutOfDate>().is_some() => {
            untrusted(format!("the root certificate that signed the certificate of {place} is not valid now"))
                .detail(format!("it has expired, or is not valid yet, and is one that {roots} trusts"))
                .next("Name the file with its successor, or check this machine's clock.")
        }
        C::Other(OtherError(why)) => match why.downcast_ref() {
            Some(webpki::Error::UnsupportedCertVersion) => {
                untrusted(format!("the certificate of {place} is of X.509 version 1, which names no host"))
                    .next("Make it again with extensions: openssl x509 -req -extfile … with subjectAltName.")
            }
            Some(webpki::Error::CaUsedAsEndEntity) => {
                untrusted(format!("the certificate of {place} is an authority's own and not trusted by {roots}"))
                    .next("Name that certificate's file as the root certificate.")
            }
            _ => untrusted(format!("the certificate of {place} is not accepted")).detail(error.to_string()),
        },
        other => untrusted(format!("the certificate of {place} is not accepted")).detail(other.to_string()),
    }
}

fn days(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} seconds"),
        120..7_200 => format!("{} minutes", seconds / 60),
        7_200..172_800 => format!("{} hours", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

fn other_host(place: &str, presented: &[String]) -> StoreError {
    let detail = match presented {
        [] => "it has no subjectAltName; a common name does not count".to_owned(),
        // As `DnsName("db.example")` or `IpAddress(…)`.
        names => format!("it is for {}", names.join(", ")),
    };
    untrusted(format!("the certificate of {place} is for another host"))
        .detail(detail)
        .next("Connect to it by a name in the certificate's subjectAltName.")
}

fn wants_certificate(place: &str) -> StoreError {
    untrusted(format!("{place} wants a client certificate and was shown none")).next(NAME_CERTIFICATE)
}

fn no_version(place: &str) -> StoreError {
    StoreError::usage(format!("{place} speaks neither TLS 1.2 nor TLS 1.3"))
        .next("Allow TLS 1.2 in the server's configuration.")
}

/// Describes the server's alert. A refused or missing client certificate is told by alerts (RFC 8446, section 6.2); for a
/// missing one servers written in Go say `bad_certificate`.
fn refused(alert: AlertDescription, place: &str, has_certificate: bool) -> StoreError {
    use AlertDescription as A;
    let error = match alert {
        A::BadCertificate if !has_certificate => wants_certificate(place),
        A::CertificateRequired | A::NoCertificate => wants_certificate(place),
        A::UnknownCA | A::BadCertificate | A::UnsupportedCertificate | A::CertificateUnknown | A::DecryptError => {
            untrusted(format!("{place} does not accept the client certificate"))
                .next("Have the certificate signed by an authority that the server trusts.")
        }
        A::CertificateExpired => untrusted(format!("{place} says that the client certificate has expired"))
            .next("Have it renewed, or check both clocks."),
        A::CertificateRevoked => untrusted(format!("{place} says that the client certificate was revoked")),
        A::ProtocolVersion => return no_version(place),
        A::NoApplicationProtocol => {
            StoreError::usage(format!("{place} speaks TLS, but not this protocol")).next("Check the port.")
        }
        A::UnrecognisedName => untrusted(format!("{place} does not know itself by that host name"))
            .next("Connect to it by the name that its certificate is for."),
        _ => {
            StoreError::usage(format!("{place} refused the TLS handshake")).next("Read the server's log: it says why.")
        }
    };
    error.detail(format!("alert {alert:?}"))
}
