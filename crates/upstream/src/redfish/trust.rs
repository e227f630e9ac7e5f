//! How a BMC is authenticated, and the secrets that only it gets.

use std::{fmt, sync::Arc};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use sha2::{Digest as _, Sha256};

/// A password; it is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(pub String);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}

/// How a BMC proves its identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// By a certificate that the system trusts.
    System,
    /// By a certificate of these authorities, as PEM.
    Authorities(Vec<u8>),
    /// Exactly the certificate with this SHA-256, of any signer: suits most BMCs.
    Fingerprint([u8; 32]),
    /// No check: any machine that answers gets the password.
    Insecure,
}

impl Trust {
    /// A fingerprint as tools print it: 64 hexadecimal digits, with or without colons.
    ///
    /// # Errors
    /// When it is something else.
    pub fn fingerprint(text: &str) -> Result<Self, String> {
        let digits: String = text.chars().filter(|c| *c != ':' && !c.is_whitespace()).collect();
        let wrong = || "a fingerprint is the SHA-256 of a certificate, 64 hexadecimal digits".to_owned();
        if digits.len() != 64 || !digits.is_ascii() {
            return Err(wrong());
        }
        let mut bytes = [0; 32];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).map_err(|_| wrong())?;
        }
        Ok(Self::Fingerprint(bytes))
    }
}

/// TLS that believes one certificate, or any.
pub(super) fn tls(pin: Option<[u8; 32]>) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = Arc::new(Verifier { pin, provider: Arc::clone(&provider) });
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(config)
}

/// Compares the certificate with the pin; its holder still has to prove that the key is theirs.
#[derive(Debug)]
struct Verifier {
    pin: Option<[u8; 32]>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let found: [u8; 32] = Sha256::digest(certificate).into();
        if self.pin.is_none_or(|pin| pin == found) {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_read_as_tools_print_it() {
        let colons = "AB:".repeat(31) + "ab";
        assert_eq!(Trust::fingerprint(&colons), Ok(Trust::Fingerprint([0xab; 32])));
        for wrong in ["", "abcd", &"zz".repeat(32)] {
            assert!(Trust::fingerprint(wrong).is_err(), "{wrong:?}");
        }
    }
}
