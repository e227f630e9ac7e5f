//! Callers without an API token: members, and machines that become members.
//!
//! A kind defines a [`Proof`] for its routes, and a type for its callers.

use std::{any::Any, fmt::Debug, net::IpAddr, sync::Arc};

use futures_util::future::BoxFuture;

use super::certificate::ClientCertificate;
use crate::platform::{app::App, http::error::Error};

/// The credentials of a request; never printed.
pub enum Shown<'a> {
    /// A bearer token that is no API token.
    Bearer(&'a str),
    /// A user and a secret.
    Basic(&'a str, &'a str),
    /// A client certificate that the listener has verified.
    Certificate(&'a ClientCertificate),
}

/// The caller, or none if its credentials are not of this proof.
pub type Recognised = Result<Option<Arc<dyn Member>>, Error>;

/// How the callers of a route prove themselves, other than by an API token.
pub struct Proof {
    /// Recognises the caller.
    pub identify: for<'a> fn(&'a App, Shown<'a>, IpAddr) -> BoxFuture<'a, Recognised>,
    /// Whether callers at this address are admitted regardless of credentials.
    pub opens: fn(&App, IpAddr) -> bool,
    /// Whether callers at this address are admitted without credentials.
    pub trusts: fn(&App, IpAddr) -> bool,
    /// The refusal of a caller without credentials.
    pub missing: Error,
    /// Whether clients first ask without credentials, as for registries; such requests count against no rate
    /// limit.
    pub challenges: bool,
}

impl Debug for Proof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Proof")
    }
}

/// A rule for no address.
pub fn nowhere(_: &App, _: IpAddr) -> bool {
    false
}

/// A caller that a kind recognised.
pub trait Member: Any + Debug + Send + Sync {
    /// Its kind in the store, for liveness.
    fn kind(&self) -> &'static str;

    /// Its id in the store.
    fn id(&self) -> &str;

    /// The name that history and logs get.
    fn name(&self) -> &str;

    /// The key of its rate limit; none to use its address.
    fn bucket(&self) -> Option<&str> {
        Some(self.id())
    }

    /// The name under which its idempotency keys are kept.
    fn scope(&self) -> String {
        format!("member {}", self.name())
    }

    /// Checks before the answer that the member was not revoked meanwhile.
    fn still_counts<'a>(&'a self, _: &'a App) -> Option<BoxFuture<'a, Result<(), Error>>> {
        None
    }
}
