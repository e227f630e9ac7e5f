//! The listener of devices: which certificates it takes, and the one it shows.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use futures_util::future::BoxFuture;
use rustls::sign::CertifiedKey;
use x509_parser::{certificate::X509Certificate, prelude::FromDer as _};

use super::{authority::Authority, csr, settings::Settings};
use crate::platform::{
    app::App,
    identity::certificate::{Asks, ClientCertificate, Trust, provider},
    work::schedule::{Failed, Job, Next, Task},
};

/// How often the listener gets a new certificate.
const PERIOD: Duration = Duration::from_secs(24 * 3600);

/// The trust in devices of this server. A caller without a certificate may ask for one.
pub(crate) async fn trust(app: &App, address: SocketAddr) -> Result<Arc<Trust>, String> {
    let authority = Authority::load(app).await?;
    let trust = Trust::new(Asks::Perhaps, read, own(app, authority, address)?);
    trust.set_roots(vec![authority.der.clone()])?;
    Ok(Arc::new(trust))
}

/// Reads whose certificate it is: its name is that of its key.
fn read(leaf: &[u8]) -> Result<ClientCertificate, String> {
    let (_, certificate) = X509Certificate::from_der(leaf).map_err(|_| "the certificate cannot be read")?;
    if certificate.is_ca() {
        return Err("the certificate is one of an authority".to_owned());
    }
    let name = csr::name_of(certificate.public_key().raw);
    let subject = certificate.subject().iter_common_name().next().and_then(|name| name.as_str().ok());
    if subject != Some(&*name) {
        return Err("the certificate is not named after its key".to_owned());
    }
    ClientCertificate::of(&name, &certificate).ok_or_else(|| "the certificate is out of range".to_owned())
}

fn own(app: &App, authority: &Authority, address: SocketAddr) -> Result<CertifiedKey, String> {
    let names = names(Settings::of(&app.config).url.as_deref(), app.config.public_url.as_deref(), address);
    let (chain, key) = authority.own(&names, app.now())?;
    CertifiedKey::from_der(chain, key, &provider()).map_err(|error| error.to_string())
}

/// The names under which devices may connect: those of the URLs, the address, and those of this machine for itself.
fn names(url: Option<&str>, public_url: Option<&str>, address: SocketAddr) -> Vec<String> {
    let host = |url: &str| {
        let uri: axum::http::Uri = url.parse().ok()?;
        Some(uri.host()?.trim_matches(['[', ']']).to_owned())
    };
    let urls = [url, public_url].into_iter().flatten().filter_map(host);
    let address = Some(address.ip()).filter(|address| !address.is_unspecified());
    let local = [IpAddr::from([127, 0, 0, 1]), IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1])];
    let addresses = address.into_iter().chain(local).map(|address| address.to_string());
    let mut names: Vec<_> = urls.chain(["localhost".to_owned()]).chain(addresses).collect();
    names.sort();
    names.dedup();
    names
}

/// The job that replaces the certificate that the listener shows.
pub(crate) fn job(trust: Arc<Trust>, address: SocketAddr) -> Job {
    Job::of("certificate of the device listener", PERIOD, Renew { trust, address })
}

struct Renew {
    trust: Arc<Trust>,
    address: SocketAddr,
}

impl Task for Renew {
    fn run<'a>(&'a mut self, app: &'a App) -> BoxFuture<'a, Result<Next, Failed>> {
        Box::pin(async move {
            let authority = Authority::load(app).await.map_err(Failed::Other)?;
            self.trust.set_own(own(app, authority, self.address).map_err(Failed::Other)?);
            Ok(Next::Period)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_listener_has_the_names_of_its_urls_and_of_this_machine() {
        let address: SocketAddr = "10.0.0.1:8442".parse().unwrap();
        let found = names(Some("https://edge.example:1"), Some("http://[::1]:1"), address);
        assert_eq!(found, ["10.0.0.1", "127.0.0.1", "::1", "edge.example", "localhost"]);
        assert_eq!(names(None, None, "0.0.0.0:1".parse().unwrap()), ["127.0.0.1", "::1", "localhost"]);
    }
}
