//! Certificate requests of devices: which key signed one, and the name that follows from it.
//!
//! What must stay true: of a request only its public key is used, after its signature by that key was verified. All else
//! in it is what a stranger asks for.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA384_ASN1, ED25519, UnparsedPublicKey, VerificationAlgorithm,
};
use sha2::{Digest as _, Sha256};
use x509_parser::{
    certification_request::X509CertificationRequest, pem::parse_x509_pem, prelude::FromDer as _,
};

use crate::platform::http::error::Error;

/// The longest request that is looked at: one with a P-384 key has less than 1 KiB.
const LONGEST: usize = 16 << 10;

/// A public key that its holder has proven to have: DER of `SubjectPublicKeyInfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PublicKey(pub(super) Vec<u8>);

impl PublicKey {
    /// The name of the device with this key.
    pub(super) fn name(&self) -> String {
        name_of(&self.0)
    }
}

/// The name of the device with a public key: lower-case base32hex without padding of its SHA-256.
pub(super) fn name_of(public_key: &[u8]) -> String {
    base32hex(&Sha256::digest(public_key))
}

const DIGITS: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";

fn base32hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 8 / 5 + 1);
    let (mut held, mut bits) = (0_u32, 0);
    for byte in bytes {
        held = (held << 8) | u32::from(*byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            text.push(char::from(DIGITS[(held >> bits) as usize & 31]));
        }
        held &= (1 << bits) - 1;
    }
    if bits > 0 {
        text.push(char::from(DIGITS[(held << (5 - bits)) as usize & 31]));
    }
    text
}

/// Reads a request as PEM and verifies its signature.
pub(super) fn read(field: &str, pem: &str) -> Result<PublicKey, Error> {
    let wrong = |message: &str| Error::invalid(field, message);
    let unreadable = || wrong("must be a certificate request (PKCS #10) as PEM");
    if pem.len() > LONGEST {
        return Err(wrong("is longer than 16 KiB"));
    }
    let (_, block) = parse_x509_pem(pem.as_bytes()).map_err(|_| unreadable())?;
    if !matches!(&*block.label, "CERTIFICATE REQUEST" | "NEW CERTIFICATE REQUEST") {
        return Err(unreadable());
    }
    let (rest, request) = X509CertificationRequest::from_der(&block.contents).map_err(|_| unreadable())?;
    if !rest.is_empty() {
        return Err(unreadable());
    }
    let info = &request.certification_request_info;
    let algorithm = algorithm(&request)
        .ok_or_else(|| wrong("must be signed with a key of ECDSA P-256, ECDSA P-384 or Ed25519"))?;
    let key = UnparsedPublicKey::new(algorithm, &info.subject_pki.subject_public_key.data);
    key.verify(info.raw, &request.signature_value.data)
        .map_err(|_| wrong("is not signed by the key that it names"))?;
    Ok(PublicKey(info.subject_pki.raw.to_vec()))
}

/// The algorithm of the signature, if it is the one of the key.
fn algorithm(request: &X509CertificationRequest<'_>) -> Option<&'static dyn VerificationAlgorithm> {
    let key = &request.certification_request_info.subject_pki.algorithm;
    let curve = key.parameters.as_ref().and_then(|given| given.as_oid().ok()).map(|oid| oid.to_id_string());
    let signed = request.signature_algorithm.algorithm.to_id_string();
    match (&*key.algorithm.to_id_string(), curve.as_deref(), &*signed) {
        ("1.2.840.10045.2.1", Some("1.2.840.10045.3.1.7"), "1.2.840.10045.4.3.2") => {
            Some(&ECDSA_P256_SHA256_ASN1)
        }
        ("1.2.840.10045.2.1", Some("1.3.132.0.34"), "1.2.840.10045.4.3.3") => Some(&ECDSA_P384_SHA384_ASN1),
        ("1.3.101.112", None, "1.3.101.112") => Some(&ED25519),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, PublicKeyData as _};

    use super::*;

    fn request(key: &KeyPair) -> String {
        CertificateParams::new(Vec::new()).unwrap().serialize_request(key).unwrap().pem().unwrap()
    }

    #[test]
    fn base32hex_is_that_of_rfc_4648() {
        for (plain, text) in
            [("", ""), ("f", "co"), ("fo", "cpng"), ("foo", "cpnmu"), ("foobar", "cpnmuoj1e8")]
        {
            assert_eq!(base32hex(plain.as_bytes()), text);
        }
    }

    #[test]
    fn a_request_proves_its_key_and_names_its_device() {
        for algorithm in
            [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ECDSA_P384_SHA384, &rcgen::PKCS_ED25519]
        {
            let key = KeyPair::generate_for(algorithm).unwrap();
            let read = read("csr", &request(&key)).unwrap();
            assert_eq!(read.0, key.subject_public_key_info());
            assert_eq!(read.name().len(), 52);
        }
    }

    #[test]
    fn what_is_not_a_signed_request_is_refused() {
        let good = request(&KeyPair::generate().unwrap());
        let mut der = der(&good);
        // The signature is at the end.
        let last = der.len() - 5;
        der[last] ^= 1;
        let label = |text: &str, label: &str| text.replace("CERTIFICATE REQUEST", label);
        for wrong in [
            "",
            "x",
            &armoured(&der),
            &armoured(&der[..20]),
            &armoured(&[]),
            &label(&good, "CERTIFICATE"),
            &"-".repeat(20_000),
            &good[..good.len() / 2],
        ] {
            assert!(matches!(read("csr", wrong), Err(Error::Invalid(_))), "{wrong}");
        }
    }

    fn der(pem: &str) -> Vec<u8> {
        parse_x509_pem(pem.as_bytes()).unwrap().1.contents
    }

    fn armoured(der: &[u8]) -> String {
        use base64::{Engine as _, prelude::BASE64_STANDARD};
        let text = BASE64_STANDARD.encode(der);
        format!("-----BEGIN CERTIFICATE REQUEST-----\n{text}\n-----END CERTIFICATE REQUEST-----\n")
    }

    #[test]
    fn no_fuzzed_request_is_the_fault_of_the_server() {
        use super::super::fuzz;
        let key = rcgen::KeyPair::generate().unwrap();
        let asked = rcgen::CertificateParams::new(vec!["device".to_owned()]).unwrap();
        let pem = asked.serialize_request(&key).unwrap().pem().unwrap();
        let known = read("spec.csr", &pem).unwrap();
        let mut random = fuzz::Random(20);
        for _ in 0..fuzz::rounds() {
            let (_, block) = parse_x509_pem(pem.as_bytes()).unwrap();
            let in_text = random.below(4) == 0;
            let mut bytes = if in_text { pem.clone().into_bytes() } else { block.contents };
            for _ in 0..=random.below(4) {
                let at = random.below(bytes.len());
                match random.below(4) {
                    0 => drop(bytes.remove(at)),
                    1 => bytes.insert(at, u8::try_from(random.below(256)).unwrap()),
                    2 => bytes.truncate(bytes.len() - random.below(bytes.len() / 8)),
                    _ => bytes[at] ^= 1 << random.below(8),
                }
            }
            let text = if in_text {
                String::from_utf8_lossy(&bytes).into_owned()
            } else {
                use base64::Engine as _;
                let text = base64::prelude::BASE64_STANDARD.encode(&bytes);
                format!("-----BEGIN CERTIFICATE REQUEST-----\n{text}\n-----END CERTIFICATE REQUEST-----\n")
            };
            if let Some(taken) = fuzz::judged(read("spec.csr", &text), &text) {
                assert_eq!(taken, known, "nobody signed another key: {text}");
            }
        }
    }
}
