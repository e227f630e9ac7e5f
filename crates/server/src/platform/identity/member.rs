//! Callers that prove themselves by something else than an API token: members, and machines that become some.
//!
//! A kind brings a [`Proof`] for its routes, and a type for the callers that it recognises.

use std::{any::Any, fmt::Debug, net::IpAddr, sync::Arc};

use futures_util::future::BoxFuture;

use super::spiffe::SpiffeId;
use crate::platform::{app::App, http::error::Error};

/// What a request shows; never printed.
pub enum Shown<'a> {
    /// A bearer token that is no API token.
    Bearer(&'a str),
    /// A user and a secret.
    Basic(&'a str, &'a str),
    /// A client certificate that the listener has verified.
    Certificate(&'a SpiffeId),
}

/// The caller, if what it shows is something that the proof is about.
pub type Recognised = Result<Option<Arc<dyn Member>>, Error>;

/// How the callers of a route prove themselves, other than by an API token.
pub struct Proof {
    /// Recognises the caller; nothing for something that this proof is not about.
    pub identify: for<'a> fn(&'a App, Shown<'a>, IpAddr) -> BoxFuture<'a, Recognised>,
    /// Whether callers at this address are let in whatever they show.
    pub opens: fn(&App, IpAddr) -> bool,
    /// Whether a caller at this address that shows nothing is let in.
    pub trusts: fn(&App, IpAddr) -> bool,
    /// The refusal of a caller that shows nothing.
    pub missing: Error,
    /// Whether clients ask without credentials first, to be told which they need. That costs no rate limit.
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

    /// The name under which its requests are limited together; nothing for its address.
    fn bucket(&self) -> Option<&str> {
        Some(self.id())
    }

    /// The name under which its idempotency keys are kept.
    fn scope(&self) -> String {
        format!("member {}", self.name())
    }

    /// Refuses a member that lost its rights while it was answered.
    fn still_counts<'a>(&'a self, _: &'a App) -> Option<BoxFuture<'a, Result<(), Error>>> {
        None
    }
}
