//! Mutual TLS, as on the TCP port of a SPIRE server.

use std::{io, path::PathBuf, sync::Arc};

use rustls::{RootCertStore, ServerConfig, server::WebPkiClientVerifier};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};

/// PEM files.
#[derive(Debug, Clone)]
pub struct Tls {
    /// The server's certificate and its chain.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The roots that sign certificates of clients.
    pub bundle: PathBuf,
}

impl Tls {
    pub(super) fn config(&self) -> io::Result<ServerConfig> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut roots = RootCertStore::empty();
        for root in certificates(&self.bundle)? {
            roots.add(root).map_err(io::Error::other)?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .build()
            .map_err(io::Error::other)?;
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(io::Error::other)?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(certificates(&self.certificate)?, key)
            .map_err(io::Error::other)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }
}

/// The certificates in a PEM file.
pub(super) fn certificates(path: &PathBuf) -> io::Result<Vec<CertificateDer<'static>>> {
    CertificateDer::pem_file_iter(path).and_then(Iterator::collect).map_err(io::Error::other)
}
