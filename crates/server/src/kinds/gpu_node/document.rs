//! A GPU node as it is stored, and as it is shown.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use wardroom_api::gpu_node::{Bmc, GpuNode, GpuNodeCreate, GpuNodePatch};
use wardroom_core::gpu_node::State;
use wardroom_store::{Content, Resource};

use crate::platform::{
    config::secrets::Secrets,
    http::{error::Error, etag, text},
    identity::reference::{self, Use},
};

pub(crate) const KIND: &str = "gpu-node";

/// The stored document of a node. Secrets are hashed, or derived and not stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Document {
    pub(crate) hostname: String,
    pub(crate) site: Option<String>,
    pub(crate) macs: Vec<String>,
    pub(crate) bmc: Option<Bmc>,
    pub(crate) model: Option<String>,
    pub(crate) serial_number: Option<String>,
    pub(crate) enrollment: Option<Enrollment>,
    /// The round of the last token; rounds are never reused, so a revoked token is never issued again.
    pub(crate) issued: u32,
    pub(crate) agent: Option<Agent>,
    /// The highest epoch of any identity; epochs are never reused.
    pub(crate) epoch: u64,
    /// Whether an agent is installed on the host, or was and no uninstall has completed.
    pub(crate) identity_kept: bool,
    pub(crate) machine: Option<Machine>,
    pub(crate) run: Option<String>,
    /// A state in MAAS that Wardroom did not cause, until MAAS fits again or a person has decided.
    pub(crate) drift: Option<Drift>,
    /// The run with an unproven cleanup after which a person recovered the node.
    pub(crate) accepted: Option<String>,
    /// Whether the last checks that the agent reported failed.
    pub(crate) unhealthy: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Enrollment {
    pub(crate) hash: String,
    pub(crate) expires_at: Timestamp,
    pub(crate) run: String,
    /// The token is derived from this; earlier ones are void.
    pub(crate) round: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Agent {
    /// Its credential is derived from this; earlier ones are void.
    pub(crate) epoch: u64,
    pub(crate) hash: String,
    pub(crate) enrolled_at: Timestamp,
    pub(crate) run: String,
    /// The hashes of its enrolment token and of the name of the exchange: a repeat shows both.
    pub(crate) exchange: Option<(String, String)>,
}

/// A state of the machine in MAAS that does not fit its node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Drift {
    /// MAAS's word for the status, or that there is no such machine.
    pub(crate) said: String,
    /// Whether this alone caused the quarantine: then proven health ends it.
    pub(crate) quarantined: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) system_id: String,
    /// The site whose MAAS has it.
    pub(crate) site: String,
    /// The run that found or created it; only the undo of that run removes it from the node.
    pub(crate) run: String,
    /// The address of that MAAS.
    pub(crate) maas: String,
}

impl Machine {
    pub(crate) fn new(system_id: &str, site: &str, url: &str, run: &str) -> Self {
        let (system_id, site) = (system_id.to_owned(), site.to_owned());
        Self { system_id, site, run: run.to_owned(), maas: address(url) }
    }

    /// Whether the MAAS at this address is the one in which it was found.
    pub(crate) fn is_at(&self, url: &str) -> bool {
        self.maas == address(url)
    }

    /// Whether both are the same machine, regardless of the run.
    pub(crate) fn is(&self, other: &Self) -> bool {
        (&self.system_id, &self.site) == (&other.system_id, &other.site)
    }

    /// The keys that only one living node has, because two nodes with one machine would undo each other's
    /// work. The first key holds across sites with the same MAAS, the second while a site's MAAS moves to
    /// another address.
    pub(crate) fn keys(&self) -> [String; 2] {
        let Self { system_id, site, maas, .. } = self;
        [format!("machine-of/{maas}/{system_id}"), format!("machine/{site}/{system_id}")]
    }
}

pub(crate) fn address(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (scheme, host) = (scheme.to_ascii_lowercase(), host.to_ascii_lowercase());
    let port = if scheme == "https" { ":443" } else { ":80" };
    let host = host.strip_suffix(port).unwrap_or(&host).trim_end_matches('.');
    let path = path.trim_end_matches('/');
    let path = path.strip_suffix("api/2.0").unwrap_or(path).trim_end_matches('/');
    format!("{scheme}://{host}/{path}")
}

impl Document {
    /// Whether MAAS has a machine of the node, and a site manages it.
    pub(crate) fn can_be_reimaged(&self) -> bool {
        self.site.is_some() && self.machine.is_some()
    }

    /// Whether the node has an agent: the record of an uninstalled one is kept until its secrets are removed.
    pub(crate) fn has_agent(&self) -> bool {
        self.agent.is_some() && self.identity_kept
    }

    pub(crate) fn new(create: GpuNodeCreate, secrets: &Secrets) -> Result<Self, Error> {
        let mut checks = vec![
            text::check_name("hostname", &create.hostname),
            text::check_some("model", create.model.as_deref(), 255),
            text::check_some("serial_number", create.serial_number.as_deref(), 255),
        ];
        checks.extend(create.labels.iter().map(|(key, value)| text::check_label(key, value)));
        let mut macs = Vec::new();
        for (index, mac) in create.macs.iter().enumerate().take(MOST_MACS) {
            match text::mac(&format!("macs[{index}]"), mac) {
                Ok(mac) if macs.contains(&mac) => {
                    checks.push(Err(Error::invalid(format!("macs[{index}]"), "appears more than once")));
                }
                Ok(mac) => macs.push(mac),
                Err(error) => checks.push(Err(error)),
            }
        }
        if create.macs.len() > MOST_MACS {
            checks.push(Err(Error::invalid("macs", format!("has more than {MOST_MACS} entries"))));
        }
        if create.site.is_some() && create.macs.is_empty() {
            let message = "needs at least one MAC: a site finds the machine by its MACs";
            checks.push(Err(Error::invalid("macs", message)));
        }
        checks.extend(create.bmc.as_ref().map(|bmc| check_bmc(bmc, secrets)));
        Error::all(checks)?;
        Ok(Self {
            hostname: create.hostname,
            site: create.site,
            macs,
            bmc: create.bmc,
            model: create.model,
            serial_number: create.serial_number,
            ..Self::default()
        })
    }

    /// Returns the node with the fields of a patch replaced, checked like a new node. A BMC that is not named stays as it
    /// is, unchecked: its references are checked again where they are used.
    pub(crate) fn patched(
        self,
        patch: &GpuNodePatch,
        labels: &BTreeMap<String, String>,
        secrets: &Secrets,
    ) -> Result<Self, Error> {
        let patch = patch.clone();
        let create = GpuNodeCreate {
            hostname: patch.hostname.unwrap_or_else(|| self.hostname.clone()),
            site: self.site.clone(),
            macs: patch.macs.unwrap_or_else(|| self.macs.clone()),
            bmc: patch.bmc.clone().flatten(),
            model: patch.model.unwrap_or_else(|| self.model.clone()),
            serial_number: patch.serial_number.unwrap_or_else(|| self.serial_number.clone()),
            labels: labels.clone(),
        };
        let Self { hostname, macs, bmc, model, serial_number, .. } = Self::new(create, secrets)?;
        let bmc = if patch.bmc.is_some() { bmc } else { self.bmc.clone() };
        Ok(Self { hostname, macs, bmc, model, serial_number, ..self })
    }

    pub(crate) fn of(resource: &Resource) -> Result<Self, Error> {
        resource.content.document.read().map_err(|error| {
            tracing::error!(id = resource.content.id, %error, "the stored GPU node is not valid");
            Error::Internal
        })
    }

    pub(crate) fn into_content(
        self,
        id: String,
        state: State,
        labels: BTreeMap<String, String>,
    ) -> Result<Content, Error> {
        Ok(Content {
            kind: KIND.to_owned(),
            id,
            name: self.hostname.clone(),
            state: state.as_str().to_owned(),
            document: wardroom_store::Document::of(&self)?,
            labels,
            fields: self.fields(),
            keys: self.keys(),
            deleted: false,
            due_at: None,
        })
    }

    /// The node it is, changed.
    pub(crate) fn into_content_of(self, node: &Resource, state: State) -> Result<Content, Error> {
        let before = &node.content;
        let content = self.into_content(before.id.clone(), state, before.labels.clone())?;
        Ok(Content { deleted: before.deleted || state == State::Deleted, due_at: before.due_at, ..content })
    }

    fn fields(&self) -> BTreeMap<String, String> {
        let mut fields = BTreeMap::from([("hostname".to_owned(), self.hostname.clone())]);
        let optional = [("site", &self.site), ("model", &self.model), ("serial_number", &self.serial_number)];
        for (field, value) in optional {
            fields.extend(value.clone().map(|value| (field.to_owned(), value)));
        }
        fields
    }

    /// The keys of a node: its name, its MACs, its machine, and its token.
    fn keys(&self) -> BTreeSet<String> {
        let mut keys = BTreeSet::from([format!("hostname/{}", self.hostname)]);
        keys.extend(self.macs.iter().map(|mac| format!("mac/{mac}")));
        keys.extend(self.machine.iter().flat_map(Machine::keys));
        keys.extend(self.enrollment.iter().map(|enrollment| token_key(&enrollment.hash)));
        // A used token stays a key while its exchange may be repeated.
        let exchanged = self.agent.as_ref().and_then(|agent| agent.exchange.as_ref());
        keys.extend(exchanged.map(|(token, _)| token_key(token)));
        keys
    }
}

/// The key by which the node of a token is found.
pub(crate) fn token_key(hash: &str) -> String {
    format!("token/{hash}")
}

/// The MACs that a node has at most.
const MOST_MACS: usize = 64;

fn check_bmc(bmc: &Bmc, secrets: &Secrets) -> Result<(), Error> {
    Error::all([
        text::check_address("bmc.address", &bmc.address, "https://10.0.0.7"),
        reference::check("bmc.credential", &bmc.credential, Use::Bmc, secrets),
        text::check_some("bmc.system", bmc.system.as_deref(), 255),
    ])
}

pub(crate) fn state(resource: &Resource) -> Result<State, Error> {
    resource.content.state.parse().map_err(|error| {
        tracing::error!(id = resource.content.id, %error, "the stored GPU node has an unknown state");
        Error::Internal
    })
}

/// Returns the tag that an operator's `If-Match` compares: the wanted settings of the node, and its state.
pub(crate) fn etag(resource: &Resource) -> Result<String, Error> {
    tag(resource, &Document::of(resource)?)
}

pub(crate) fn tag(resource: &Resource, document: &Document) -> Result<String, Error> {
    let content = &resource.content;
    let Document { hostname, site, macs, bmc, model, serial_number, run, .. } = document;
    let known = (hostname, site, macs, bmc, model, serial_number);
    etag::of(&(&content.id, &content.state, &content.labels, known, run))
}

pub(crate) fn view(resource: &Resource, last_seen: Option<Timestamp>) -> Result<GpuNode, Error> {
    let (state, document) = (state(resource)?, Document::of(resource)?);
    Ok(GpuNode {
        id: resource.content.id.clone(),
        hostname: document.hostname,
        site: document.site,
        state: state.to_string(),
        deleted: resource.content.deleted,
        schedulable: state == State::Active && !document.unhealthy,
        macs: document.macs,
        bmc: document.bmc,
        model: document.model,
        serial_number: document.serial_number,
        labels: resource.content.labels.clone(),
        enrolled: document.agent.is_some(),
        identity_kept: document.identity_kept,
        system_id: document.machine.map(|machine| machine.system_id),
        run: document.run,
        last_seen,
        state_changed_at: resource.state_changed_at,
        created_at: resource.created_at,
        updated_at: resource.updated_at,
    })
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn one_maas_has_one_address() {
        let same = [
            "https://maas.example/MAAS",
            "https://maas.example/MAAS/",
            "HTTPS://Maas.Example:443/MAAS",
            "https://maas.example./MAAS/api/2.0/",
        ];
        for url in same {
            assert_eq!(address(url), "https://maas.example/MAAS", "{url}");
        }
        let others =
            ["http://maas.example/MAAS", "https://maas.example:5240/MAAS", "https://maas.example/maas"];
        for url in others {
            assert_ne!(address(url), address(same[0]), "{url}");
        }
    }
}
