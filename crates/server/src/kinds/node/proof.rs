//! Recognises machines: by an install token, or by the network that they boot in.

use std::{net::IpAddr, sync::Arc};

use super::{document::KIND, settings::Settings};
use crate::platform::{
    app::App,
    http::error::Error,
    identity::{
        member::{Member, Proof, Shown, nowhere},
        secret,
    },
};

const MISSING: Error = Error::Unauthenticated(
    "send an API token or an install token as Authorization: Bearer …; this address is not in boot.networks",
);

/// For reports: a token that the handler checks against its node.
pub(super) static MACHINE: Proof = Proof {
    identify: |_, shown, _| {
        Box::pin(async move {
            let Shown::Bearer(token) = shown else { return Ok(None) };
            Ok(Some(Arc::new(Machine { token: token.into() }) as Arc<dyn Member>))
        })
    },
    opens: nowhere,
    trusts: is_boot_network,
    missing: MISSING,
    challenges: false,
};

/// For boot scripts: the boot networks, regardless of credentials.
pub(super) static NETWORK: Proof = Proof {
    identify: |_, _, _| Box::pin(async { Ok(None) }),
    opens: is_boot_network,
    trusts: nowhere,
    missing: MISSING,
    challenges: false,
};

fn is_boot_network(app: &App, address: IpAddr) -> bool {
    Settings::of(&app.config).is_boot_network(address)
}

/// A machine that shows a token, which is not checked yet.
pub(super) struct Machine {
    pub(super) token: Box<str>,
}

/// The token is a secret.
impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Machine")
    }
}

impl Member for Machine {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn id(&self) -> &str {
        ""
    }

    fn name(&self) -> &str {
        "machine"
    }

    /// A token is no name: machines are limited by their address until their node is known.
    fn bucket(&self) -> Option<&str> {
        None
    }

    fn scope(&self) -> String {
        format!("machine {}", secret::hash_token(&self.token))
    }
}
