//! What went wrong, in words.

use plimsoll_core::{StoreError, StoreErrorKind};
use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, OtherError, PeerIncompatible};

/// An error with what has to be known to explain it.
pub(crate) struct Failure<'a> {
    pub(crate) error: &'a Error,
    /// The server.
    pub(crate) place: &'a str,
    /// Whom the client trusts.
    pub(crate) roots: &'a str,
    /// What arrived, when it was the first.
    pub(crate) first_words: Option<&'a [u8]>,
}

impl From<Failure<'_>> for StoreError {
    fn from(failure: Failure<'_>) -> StoreError {
        let place = failure.place;
        // None of these goes away by trying again: the kinds are those after which nobody does.
        match failure.error {
            Error::InvalidCertificate(error) => bad_certificate(error, place, failure.roots),
            Error::AlertReceived(alert) => refused(*alert, place),
            Error::InvalidMessage(InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion)
                if failure.first_words.is_some() =>
            {
                let words = failure.first_words.unwrap_or_default();
                let words = &words[..words.len().min(40)];
                StoreError::new(StoreErrorKind::Usage, format!("{place} does not speak TLS"))
                    .detail(format!("it began with `{}`", words.escape_ascii()))
                    .next("Check the port, or connect without TLS over a network that you trust.")
            }
            Error::PeerIncompatible(PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig)
            | Error::PeerIncompatible(PeerIncompatible::ServerDoesNotSupportTls12Or13) => no_version(place),
            other => {
                StoreError::new(StoreErrorKind::Broken, format!("TLS with {place} failed")).detail(other.to_string())
            }
        }
    }
}

fn untrusted(what: String) -> StoreError {
    StoreError::new(StoreErrorKind::Authentication, what)
}

fn bad_certificate(error: &CertificateError, place: &str, roots: &str) -> StoreError {
    use CertificateError as C;
    match error {
        C::UnknownIssuer | C::BadSignature => {
            untrusted(format!("the certificate of {place} is signed by nobody whom {roots} trusts"))
                .next("Name the file with the root certificate that signed it.")
        }
        C::NotValidForName => other_host(place, None),
        C::NotValidForNameContext { presented, .. } => other_host(place, Some(presented)),
        C::Expired => expired(place, None),
        C::ExpiredContext { time, not_after } => {
            expired(place, Some(time.as_secs().saturating_sub(not_after.as_secs())))
        }
        C::NotValidYet => not_valid_yet(place, None),
        C::NotValidYetContext { time, not_before } => {
            not_valid_yet(place, Some(not_before.as_secs().saturating_sub(time.as_secs())))
        }
        C::Revoked => untrusted(format!("the certificate of {place} was revoked")),
        C::Other(OtherError(why)) => match why.downcast_ref() {
            Some(webpki::Error::UnsupportedCertVersion) => {
                untrusted(format!("the certificate of {place} is of X.509 version 1, which names no host"))
                    .next("Make it again with extensions: openssl x509 -req -extfile … with subjectAltName.")
            }
            Some(webpki::Error::CaUsedAsEndEntity) => {
                untrusted(format!("the certificate of {place} is an authority's own and not trusted by {roots}"))
                    .next("Name that certificate's file as the root certificate.")
            }
            _ => untrusted(format!("the certificate of {place} will not do")).detail(error.to_string()),
        },
        other => untrusted(format!("the certificate of {place} will not do")).detail(other.to_string()),
    }
}

fn expired(place: &str, ago_s: Option<u64>) -> StoreError {
    let error = untrusted(format!("the certificate of {place} has expired"))
        .next("Have it renewed, or check this machine's clock.");
    ago_s.map_or(error.clone(), |ago_s| error.detail(format!("{} ago", days(ago_s))))
}

fn not_valid_yet(place: &str, in_s: Option<u64>) -> StoreError {
    let error = untrusted(format!("the certificate of {place} is not valid yet")).next("Check this machine's clock.");
    in_s.map_or(error.clone(), |in_s| error.detail(format!("it will be in {}", days(in_s))))
}

fn days(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} seconds"),
        120..7_200 => format!("{} minutes", seconds / 60),
        7_200..172_800 => format!("{} hours", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

fn other_host(place: &str, presented: Option<&Vec<String>>) -> StoreError {
    let error = untrusted(format!("the certificate of {place} is for another host"))
        .next("Connect to it by a name in the certificate's subjectAltName.");
    match presented {
        Some(names) if names.is_empty() => error.detail("it has no subjectAltName; a common name does not count"),
        // As `DnsName("db.example")` or `IpAddress(…)`.
        Some(names) => error.detail(format!("it is for {}", names.join(", "))),
        None => error,
    }
}

fn no_version(place: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Usage, format!("{place} speaks neither TLS 1.2 nor TLS 1.3"))
        .next("Allow TLS 1.2 in the server's configuration.")
}

/// The server said no. A refused or missing client certificate is told by alerts (RFC 8446, section 6.2).
fn refused(alert: AlertDescription, place: &str) -> StoreError {
    use AlertDescription as A;
    let error = match alert {
        A::CertificateRequired | A::NoCertificate => {
            untrusted(format!("{place} wants a client certificate and was shown none"))
                .next("Name the files of a client certificate and its key.")
        }
        A::UnknownCA | A::BadCertificate | A::UnsupportedCertificate | A::CertificateUnknown | A::DecryptError => {
            untrusted(format!("{place} does not accept the client certificate"))
                .next("Have the certificate signed by an authority that the server trusts.")
        }
        A::CertificateExpired => untrusted(format!("{place} says that the client certificate has expired"))
            .next("Have it renewed, or check both clocks."),
        A::CertificateRevoked => untrusted(format!("{place} says that the client certificate was revoked")),
        A::ProtocolVersion => return no_version(place),
        A::NoApplicationProtocol => {
            StoreError::new(StoreErrorKind::Usage, format!("{place} speaks TLS, but not this protocol"))
                .next("Check the port.")
        }
        A::UnrecognisedName => untrusted(format!("{place} does not know itself by that host name"))
            .next("Connect to it by the name that its certificate is for."),
        _ => StoreError::new(StoreErrorKind::Usage, format!("{place} refused the TLS handshake"))
            .next("Read the server's log: it says why."),
    };
    error.detail(format!("alert {alert:?}"))
}
