//! Certificates of every shape, presented in real handshakes.

use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType,
};
use rustls::{
    DigitallySignedStruct, SignatureScheme, client::danger::HandshakeSignatureValid, pki_types::UnixTime,
};
use std::sync::Arc;
use tokio_rustls::TlsConnector;

use super::*;

const DOMAIN: &str = "example.org";
const ID: &str = "spiffe://example.org/satellite/region/eu/edge-01";

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    root: CertificateDer<'static>,
}

fn authority() -> Authority {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let root = params.self_signed(&key).unwrap().der().clone();
    Authority { issuer: Issuer::new(params, key), root }
}

fn uri(text: &str) -> SanType {
    SanType::URI(text.try_into().unwrap())
}

fn params(change: impl FnOnce(&mut CertificateParams)) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.subject_alt_names = vec![uri(ID)];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
    change(&mut params);
    params
}

type Pair = (CertificateDer<'static>, PrivateKeyDer<'static>);

fn mint(authority: &Authority, params: &CertificateParams) -> Pair {
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &authority.issuer).unwrap();
    (certificate.der().clone(), PrivateKeyDer::try_from(key.serialize_der()).unwrap())
}

fn trust(authority: &Authority) -> Arc<Trust> {
    let (certificate, key) = mint(authority, &params(|_| {}));
    let trust = trust_of(DOMAIN, CertifiedKey::from_der(vec![certificate], key, &provider()).unwrap());
    trust.set_roots(vec![authority.root.clone()]).unwrap();
    Arc::new(trust)
}

/// The client is not what is tested: it takes any server.
#[derive(Debug)]
struct AnyServer;

impl rustls::client::danger::ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &rustls::pki_types::ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

/// The identity that the server sees of the client, if it lets it in at all.
async fn present(trust: &Arc<Trust>, pair: Option<Pair>) -> Option<ClientCertificate> {
    let config = rustls::ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyServer));
    let config = match pair {
        Some((certificate, key)) => config.with_client_auth_cert(vec![certificate], key).unwrap(),
        None => config.with_no_client_auth(),
    };
    let (near, far) = tokio::io::duplex(64 << 10);
    let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
    let client = TlsConnector::from(Arc::new(config)).connect(name, near);
    let (server, _client) = tokio::join!(trust.acceptor().unwrap().accept(far), client);
    trust.identity(server.ok()?.get_ref().1.peer_certificates()).ok()?
}

#[tokio::test]
async fn an_svid_is_let_in_under_its_whole_id() {
    let authority = authority();
    let trust = trust(&authority);
    let found = present(&trust, Some(mint(&authority, &params(|_| {})))).await.unwrap();
    assert_eq!(found.id, ID);
}

#[tokio::test]
async fn whatever_is_no_svid_of_ours_is_not_let_in() {
    let authority = authority();
    let trust = trust(&authority);
    assert_eq!(present(&trust, None).await, None, "no certificate");
    let other = self::authority();
    assert_eq!(present(&trust, Some(mint(&other, &params(|_| {})))).await, None, "another authority");

    let names = |names: Vec<SanType>| params(|params| params.subject_alt_names = names);
    let usages = |usages: Vec<KeyUsagePurpose>| params(|params| params.key_usages = usages);
    let cases = [
        ("no URI", names(vec![SanType::DnsName("edge-01".try_into().unwrap())])),
        ("two URIs", names(vec![uri(ID), uri("spiffe://example.org/other")])),
        ("the same URI twice", names(vec![uri(ID), uri(ID)])),
        ("no SPIFFE ID", names(vec![uri("https://example.org/satellite")])),
        ("another trust domain", names(vec![uri("spiffe://example.com/satellite/region/eu/edge-01")])),
        ("a trust domain that begins alike", names(vec![uri("spiffe://example.org.evil/a")])),
        ("no path", names(vec![uri("spiffe://example.org")])),
        ("an empty path", names(vec![uri("spiffe://example.org/")])),
        ("a path that climbs", names(vec![uri("spiffe://example.org/a/../b")])),
        ("an encoded path", names(vec![uri("spiffe://example.org/a%2Fb")])),
        ("a query", names(vec![uri("spiffe://example.org/a?b")])),
        ("a port", names(vec![uri("spiffe://example.org:1/a")])),
        ("an authority", params(|params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained))),
        ("no key usage", usages(Vec::new())),
        ("not for signatures", usages(vec![KeyUsagePurpose::KeyEncipherment])),
        ("signs certificates", usages(vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign])),
        ("signs revocations", usages(vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::CrlSign])),
        ("expired", params(|params| params.not_after = rcgen::date_time_ymd(2020, 1, 1))),
        ("not valid yet", params(|params| params.not_before = rcgen::date_time_ymd(4000, 1, 1))),
        (
            "not for clients",
            params(|params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth]),
        ),
    ];
    for (name, params) in cases {
        assert_eq!(present(&trust, Some(mint(&authority, &params))).await, None, "{name}");
    }
}

#[tokio::test]
async fn the_bundle_of_today_counts() {
    let (old, new) = (authority(), authority());
    let trust = trust(&old);
    trust.set_roots(vec![new.root.clone()]).unwrap();
    assert_eq!(present(&trust, Some(mint(&old, &params(|_| {})))).await, None);
    assert!(present(&trust, Some(mint(&new, &params(|_| {})))).await.is_some());
    trust.set_roots(vec![old.root.clone(), new.root.clone()]).unwrap();
    assert!(present(&trust, Some(mint(&old, &params(|_| {})))).await.is_some());
    assert!(
        trust.set_roots(Vec::new()).is_err(),
        "an empty bundle is a mistake and must not lock every caller out"
    );
    assert!(present(&trust, Some(mint(&new, &params(|_| {})))).await.is_some());
}
