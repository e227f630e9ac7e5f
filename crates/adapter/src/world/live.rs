//! The outside as it is: the server, the resolver, the environment and Kubernetes.

use std::{io, net::IpAddr, time::Duration};

use serde_json::Value as Json;
use wardroom_api::client::{Client, Error};
use wardroom_upstream::{
    Failure, Repeat,
    kubernetes::{Kind, Kubernetes, Propagation, Removal, Target},
};

use super::Trouble;

/// How long a name may take to be resolved.
const RESOLVE: Duration = Duration::from_secs(5);

/// The real outside.
#[derive(Debug, Clone)]
pub(crate) struct Live {
    pub(crate) client: Client,
    /// The address of the server.
    pub(crate) base: String,
    /// Nothing when the configuration has no objects.
    pub(crate) kubernetes: Option<Kubernetes>,
}

impl Live {
    pub(super) async fn read(&self, path: &str) -> Result<Json, Trouble> {
        self.client
            .read(path)
            .await
            .map_err(|error| Trouble { message: format!("GET {path}: {error}"), may_pass: may_pass(&error) })
    }

    pub(super) async fn lookup(&self, name: &str) -> Result<Vec<String>, Trouble> {
        // The port is not used.
        let found = tokio::time::timeout(RESOLVE, tokio::net::lookup_host((name, 0))).await;
        match found.map_err(|_| io::Error::from(io::ErrorKind::TimedOut)).flatten() {
            Ok(found) => {
                let mut addresses: Vec<IpAddr> = found.map(|address| address.ip()).collect();
                addresses.sort_unstable();
                addresses.dedup();
                Ok(addresses.iter().map(ToString::to_string).collect())
            }
            Err(error) if is_absent(&error) => Ok(Vec::new()),
            Err(error) => {
                Err(Trouble { message: format!("{name} cannot be resolved: {error}"), may_pass: true })
            }
        }
    }

    pub(super) async fn get(&self, target: &Target) -> Result<Option<Json>, Trouble> {
        match self.kubernetes()?.get(target).await {
            Ok(object) => Ok(Some(object)),
            Err(Failure::NotFound) => Ok(None),
            Err(failure) => Err(trouble(&failure)),
        }
    }

    pub(super) async fn list(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        selector: &[(String, String)],
    ) -> Result<Vec<Json>, Trouble> {
        for (key, value) in selector {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            if value.len() > 63 || !value.chars().all(is_plain) {
                return Err(Trouble::lasting(format!("the label {key} has a value that no label has")));
            }
        }
        let selector: Vec<_> = selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let found = self.kubernetes()?.list(kind, namespace, &selector.join(",")).await;
        found.map_err(|failure| trouble(&failure))
    }

    pub(super) async fn apply(&self, object: &Json) -> Result<Json, Trouble> {
        self.kubernetes()?.apply(object).await.map_err(|failure| trouble(&failure))
    }

    pub(super) async fn delete(&self, target: &Target, propagation: Propagation) -> Result<bool, Trouble> {
        let removal =
            self.kubernetes()?.delete(target, propagation).await.map_err(|failure| trouble(&failure))?;
        Ok(removal == Removal::Gone)
    }

    fn kubernetes(&self) -> Result<&Kubernetes, Trouble> {
        self.kubernetes.as_ref().ok_or_else(|| Trouble::lasting("there is no Kubernetes client"))
    }
}

/// Returns whether a name has no address, which is an answer and no failure.
fn is_absent(error: &io::Error) -> bool {
    let text = error.to_string();
    ["Name or service not known", "No address associated", "nodename nor servname", "Name does not resolve"]
        .iter()
        .any(|known| text.contains(known))
}

/// Returns whether the same call may work later.
pub(crate) fn may_pass(error: &Error) -> bool {
    match error.status() {
        Some(status) => matches!(status, 401 | 408 | 429 | 500..=599),
        None => !matches!(error, Error::Setup(_)),
    }
}

fn trouble(failure: &Failure) -> Trouble {
    // A namespace that ends, or that is not there yet, is there later.
    let is_early = matches!(failure, Failure::Refused { status: 403 | 404, .. } | Failure::Conflict(_));
    Trouble {
        message: format!("Kubernetes {failure}"),
        may_pass: is_early || failure.repeat() != Repeat::Useless,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_has_addresses_or_none() {
        let client = Client::new(&wardroom_api::client::Options {
            server: "http://127.0.0.1:1".to_owned(),
            ..Default::default()
        });
        let live = Live { client: client.unwrap(), base: String::new(), kubernetes: None };
        let local = live.lookup("localhost").await.unwrap();
        assert!(local.iter().any(|address| address == "127.0.0.1" || address == "::1"), "{local:?}");
        assert!(
            live.get(&Target { kind: Kind::new("v1", "Pod"), namespace: None, name: "x".to_owned() })
                .await
                .is_err()
        );
        assert!(live.read("/x").await.unwrap_err().may_pass);
    }
}
