//! How devices prove themselves: by their certificate, and before they have one by an enrolment token.

use std::{net::IpAddr, sync::Arc};

use futures_util::future::BoxFuture;

use super::{
    document::KIND,
    identity::{self, DeviceIdentity, Identities},
    token::{self, TokenHolder},
};
use crate::platform::{
    app::App,
    http::error::Error,
    identity::{
        auth::Caller,
        member::{Member, Proof, Recognised, Shown, nowhere},
    },
};

/// The certificate of a device.
pub(super) static CERTIFICATE: Proof = Proof {
    identify: |app, shown, from| Box::pin(by_certificate(app, shown, from)),
    opens: nowhere,
    trusts: nowhere,
    missing: Error::Unauthenticated("show the certificate of the device, on the listener of [devices]"),
    challenges: false,
};

/// The token with which a device asks to be enrolled.
pub(super) static TOKEN: Proof = Proof {
    identify: |app, shown, from| Box::pin(by_token(app, shown, from)),
    opens: nowhere,
    trusts: nowhere,
    missing: Error::Unauthenticated("send an enrolment token as Authorization: Bearer …"),
    challenges: false,
};

async fn by_certificate(app: &App, shown: Shown<'_>, from: IpAddr) -> Recognised {
    let Shown::Certificate(certificate) = shown else { return Ok(None) };
    let identity = DeviceIdentity {
        name: certificate.id.as_str().into(),
        serial: certificate.serial.as_str().into(),
        until: certificate.until,
    };
    identity::in_time(app, &identity)?;
    Identities::of(app).identify(app, &identity, from).await?;
    Ok(Some(Arc::new(identity)))
}

async fn by_token(app: &App, shown: Shown<'_>, from: IpAddr) -> Recognised {
    let Shown::Bearer(secret) = shown else { return Ok(None) };
    let holder = token::recognise(app, secret, from).await?;
    Ok(Some(Arc::new(holder)))
}

/// The device that calls, which must be the one that the path names.
pub(super) fn itself<'a>(caller: &'a Caller, name: &str) -> Result<&'a DeviceIdentity, Error> {
    let identity = caller.member::<DeviceIdentity>().ok_or(Error::Internal)?;
    if *identity.name == *name {
        return Ok(identity);
    }
    Err(Error::Forbidden("the certificate is that of another device".to_owned()))
}

impl Member for DeviceIdentity {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn id(&self) -> &str {
        &self.name
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn still_counts<'a>(&'a self, app: &'a App) -> Option<BoxFuture<'a, Result<(), Error>>> {
        Some(Box::pin(async move { Identities::of(app).standing(app, self).await.map(drop) }))
    }
}

impl Member for TokenHolder {
    fn kind(&self) -> &'static str {
        token::KIND
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> &str {
        &self.called
    }

    /// A whole site may enrol with one token.
    fn bucket(&self) -> Option<&str> {
        None
    }
}
