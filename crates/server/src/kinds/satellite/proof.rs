//! How satellites prove themselves: by their robot's secret, or by a certificate.

use std::{net::IpAddr, sync::Arc};

use futures_util::future::BoxFuture;

use super::{
    document::KIND,
    identity::{Identities, SatelliteIdentity, Shown as Credential},
    secret,
};
use crate::platform::{
    app::App,
    http::error::Error,
    identity::{
        certificate::ClientCertificate,
        member::{Member, Proof, Shown, nowhere},
    },
};

pub(super) static CREDENTIAL: Proof = Proof {
    identify: |app, shown, from| Box::pin(identify(app, shown, from)),
    opens: nowhere,
    trusts: nowhere,
    missing: Error::Basic("send the satellite's own credential as Authorization: Basic …"),
    // Clients of a registry ask without credentials first, and a whole site may do so from one address.
    challenges: true,
};

/// A certificate, whether or not there is a satellite of its name.
pub(super) static CERTIFICATE: Proof = Proof {
    identify: |app, shown, _| {
        Box::pin(async move {
            let Shown::Certificate(svid) = shown else { return Ok(None) };
            in_time(app, svid)?;
            Ok(Some(Arc::new(Svid(svid.clone())) as Arc<dyn Member>))
        })
    },
    opens: nowhere,
    trusts: nowhere,
    missing: Error::Basic("show an X.509-SVID, on the listener of [spiffe]"),
    challenges: false,
};

async fn identify(app: &App, shown: Shown<'_>, from: IpAddr) -> Result<Option<Arc<dyn Member>>, Error> {
    let (handle, shown) = match shown {
        Shown::Basic(user, given) => (user, Credential::Secret(secret::hash(given))),
        Shown::Certificate(svid) => {
            in_time(app, svid)?;
            (&*svid.id, Credential::Svid(svid.from))
        }
        Shown::Bearer(_) => return Ok(None),
    };
    let identity = Identities::of(app).identify(app, handle, shown, from).await?;
    Ok(Some(Arc::new(identity)))
}

/// A certificate is verified when the connection is opened; its expiry is checked on every request.
fn in_time(app: &App, svid: &ClientCertificate) -> Result<(), Error> {
    if app.now() < svid.until {
        return Ok(());
    }
    Err(Error::Basic("the certificate has expired: connect again with a new one"))
}

/// A caller with a certificate of this SPIFFE ID.
#[derive(Debug)]
pub(super) struct Svid(pub(super) ClientCertificate);

impl Member for Svid {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn id(&self) -> &str {
        &self.0.id
    }

    fn name(&self) -> &str {
        &self.0.id
    }
}

impl Member for SatelliteIdentity {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn still_counts<'a>(&'a self, app: &'a App) -> Option<BoxFuture<'a, Result<(), Error>>> {
        Some(Box::pin(async move { Identities::of(app).standing(app, self).await.map(drop) }))
    }
}
