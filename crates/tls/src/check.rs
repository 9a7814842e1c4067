//! Verification of a server's certificate.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme};

use crate::client::Verify;

/// Error of a certificate that only a root that is not valid now has signed. Verification by `webpki` does not look at the
/// dates of roots; that of other libraries does.
#[derive(Debug)]
pub(crate) struct RootOutOfDate;

impl fmt::Display for RootOutOfDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("its root certificate is not valid now")
    }
}

impl std::error::Error for RootOutOfDate {}

#[derive(Debug)]
pub(crate) struct ServerCheck {
    pub verify: Verify,
    pub roots: RootCertStore,
    /// Roots that have expired, or are not valid yet: they sign nothing.
    pub out_of_date: RootCertStore,
    /// The roots as they stand in their file.
    pub pinned: Vec<CertificateDer<'static>>,
    pub algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCheck {
    fn signed(
        &self,
        shown: &CertificateDer<'_>,
        parsed: &ParsedCertificate<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        let signed_by = |roots: &RootCertStore| {
            verify_server_cert_signed_by_trust_anchor(parsed, roots, between, now, self.algorithms.all)
        };
        match signed_by(&self.roots) {
            // A self-signed certificate as its own root. That it calls itself an authority is found out when its
            // dates have been looked at, and says nothing against it.
            Err(error) if calls_itself_authority(&error) && self.pinned.iter().any(|root| root == shown) => Ok(()),
            // A root that was renewed may have another key and the same name.
            Err(Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature))
                if signed_by(&self.out_of_date).is_ok() =>
            {
                Err(Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(RootOutOfDate)))))
            }
            result => result,
        }
    }
}

fn calls_itself_authority(error: &Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(OtherError(why))) = error else { return false };
    matches!(why.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
}

/// True when a certificate can be read, and so the key it shows is known to be the server's.
pub(crate) fn can_be_read(certificate: &CertificateDer<'_>) -> bool {
    ParsedCertificate::try_from(certificate).is_ok()
}

impl ServerCertVerifier for ServerCheck {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        host: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.verify != Verify::None {
            let parsed = ParsedCertificate::try_from(shown)?;
            self.signed(shown, &parsed, between, now)?;
            if self.verify == Verify::Full {
                verify_server_name(&parsed, host)?;
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        // A certificate of X.509 version 1 cannot be read. Where nothing is checked it is no reason to stop.
        if self.verify == Verify::None && !can_be_read(shown) {
            return Ok(HandshakeSignatureValid::assertion());
        }
        verify_tls12_signature(message, shown, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if self.verify == Verify::None && !can_be_read(shown) {
            return Ok(HandshakeSignatureValid::assertion());
        }
        verify_tls13_signature(message, shown, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
