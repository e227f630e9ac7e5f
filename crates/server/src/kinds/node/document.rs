//! A node as it is stored, and as it is shown.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use wardroom_api::node::{Node, NodeCreate, NodePatch};
use wardroom_core::node::State;
use wardroom_store::{Content, Resource};

use crate::platform::http::{error::Error, etag, text};

pub(crate) const KIND: &str = "node";

/// The field by which nodes that are still to be promoted are found, and its value.
pub(crate) const PROMOTION: &str = "promotion";
pub(crate) const DUE: &str = "due";

/// What is stored of a node beside its state and labels.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Document {
    pub(crate) mac_address: String,
    /// The hostname that people gave it.
    pub(crate) hostname: Option<String>,
    /// The hostname that it reports; shown until an operator names it.
    pub(crate) reported_hostname: Option<String>,
    pub(crate) ip_address: Option<String>,
    pub(crate) vendor: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) serial_number: Option<String>,
    pub(crate) system_uuid: Option<String>,
    pub(crate) workflow_id: Option<String>,
    pub(crate) group_id: Option<String>,
    pub(crate) install_attempts: u32,
    pub(crate) install_progress: Option<u8>,
    pub(crate) last_install_error: Option<String>,
    /// The counted attempts of this installation that reports named, at most three.
    pub(crate) counted_attempts: Vec<String>,
    /// Grows with every round of installing; the tokens of an earlier round are void.
    pub(crate) install_round: u64,
    /// The setting by which it will be promoted; set when its installation ended.
    pub(crate) promotion: Option<String>,
    /// The user group of the person that approved it.
    pub(crate) approved_by_group: Option<String>,
    /// The time of its last installation report, or of its entry to `installing`.
    pub(crate) last_install_report: Option<Timestamp>,
    /// Labels at registration; later they are stored beside the document.
    #[serde(skip)]
    labels: BTreeMap<String, String>,
}

impl Document {
    pub(crate) fn new(create: NodeCreate) -> Result<Self, Error> {
        Ok(Self {
            mac_address: text::mac("mac_address", &create.mac_address)?,
            hostname: create.hostname,
            vendor: create.vendor,
            model: create.model,
            serial_number: create.serial_number,
            system_uuid: create.system_uuid,
            workflow_id: create.workflow_id,
            group_id: create.group_id,
            labels: create.labels,
            ..Self::default()
        })
    }

    pub(crate) fn of(resource: &Resource) -> Result<Self, Error> {
        resource.content.document.read().map_err(|error| {
            tracing::error!(id = resource.content.id, %error, "the stored node is not valid");
            Error::Internal
        })
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let texts = [
            ("hostname", &self.hostname),
            ("hostname", &self.reported_hostname),
            ("ip_address", &self.ip_address),
            ("vendor", &self.vendor),
            ("model", &self.model),
            ("serial_number", &self.serial_number),
            ("system_uuid", &self.system_uuid),
        ];
        for (field, value) in texts {
            text::check_some(field, value.as_deref(), 255)?;
        }
        text::check_labels(&self.labels)
    }

    fn shown_hostname(&self) -> &Option<String> {
        if self.hostname.is_some() { &self.hostname } else { &self.reported_hostname }
    }

    /// Applies a patch; absent fields stay, null clears.
    pub(crate) fn apply(
        &mut self,
        patch: &NodePatch,
        labels: &mut BTreeMap<String, String>,
    ) -> Result<(), Error> {
        let pairs = [
            (&mut self.hostname, &patch.hostname),
            (&mut self.workflow_id, &patch.workflow_id),
            (&mut self.group_id, &patch.group_id),
        ];
        for (slot, wanted) in pairs {
            if let Some(wanted) = wanted {
                slot.clone_from(wanted);
            }
        }
        text::merge_labels(labels, &patch.labels)?;
        self.check()
    }

    /// Updates counters when a state is entered.
    pub(crate) fn enter(&mut self, to: State, clears_counters: bool, approver: Option<&str>) {
        if clears_counters {
            self.install_attempts = 0;
            self.last_install_error = None;
            self.counted_attempts.clear();
        }
        self.promotion = None;
        match to {
            State::Pending => {
                self.install_round += 1;
                self.install_progress = None;
                self.approved_by_group = approver.map(str::to_owned);
            }
            State::Installing => self.install_progress = Some(0),
            State::Discovered
            | State::InstallFailed
            | State::Installed
            | State::Active
            | State::Reprovision
            | State::Deprovisioning
            | State::Migrating
            | State::Retired => {}
        }
    }

    pub(crate) fn into_content(mut self, state: State, ip_address: Option<String>) -> Result<Content, Error> {
        self.ip_address = ip_address.or(self.ip_address);
        let labels = std::mem::take(&mut self.labels);
        self.content(Uuid::now_v7().to_string(), state.as_str(), labels)
    }

    /// The node it is, changed.
    pub(crate) fn content_of(
        &self,
        node: &Resource,
        state: &str,
        labels: BTreeMap<String, String>,
    ) -> Result<Content, Error> {
        self.content(node.content.id.clone(), state, labels)
    }

    fn content(&self, id: String, state: &str, labels: BTreeMap<String, String>) -> Result<Content, Error> {
        let mut fields = BTreeMap::from([("mac_address".to_owned(), self.mac_address.clone())]);
        let optional = [
            ("workflow_id", &self.workflow_id),
            ("group_id", &self.group_id),
            ("hostname", self.shown_hostname()),
        ];
        for (field, value) in optional {
            if let Some(value) = value {
                fields.insert(field.to_owned(), value.clone());
            }
        }
        if self.promotion.is_some() {
            fields.insert(PROMOTION.to_owned(), DUE.to_owned());
        }
        // A retired node gives up its MAC, so that the machine can be registered again.
        let keys = if state == State::Retired.as_str() {
            BTreeSet::new()
        } else {
            BTreeSet::from([self.mac_address.clone()])
        };
        Ok(Content {
            kind: KIND.to_owned(),
            id,
            name: self.mac_address.clone(),
            state: state.to_owned(),
            document: wardroom_store::Document::of(self)?,
            labels,
            fields,
            keys,
            deleted: false,
            due_at: None,
        })
    }
}

/// The fields by which people name a node: its hostname, and its MAC in any spelling.
pub(super) fn called(name: &str) -> Vec<(&'static str, String)> {
    let mac = text::mac("mac_address", name).ok().map(|mac| ("mac_address", mac));
    mac.into_iter().chain([("hostname", name.to_owned())]).collect()
}

/// What people call a node: its hostname, or else its MAC.
pub(super) fn title(node: &Resource) -> String {
    node.content.fields.get("hostname").unwrap_or(&node.content.name).clone()
}

pub(crate) fn state(resource: &Resource) -> Result<State, Error> {
    resource.content.state.parse().map_err(|error| {
        tracing::error!(id = resource.content.id, %error, "the stored node has an unknown state");
        Error::Internal
    })
}

pub(crate) fn parse_state(field: &str, text: &str) -> Result<State, Error> {
    text.parse().map_err(|error: wardroom_core::UnknownName| Error::invalid(field, error.to_string()))
}

/// Returns the tag that an operator's `If-Match` compares: the wanted settings of the node, and its state.
/// Reports of the node never invalidate it.
pub(crate) fn etag(resource: &Resource) -> Result<String, Error> {
    tag(resource, &Document::of(resource)?)
}

fn tag(resource: &Resource, document: &Document) -> Result<String, Error> {
    let content = &resource.content;
    etag::of(&(
        &content.id,
        &content.state,
        &content.labels,
        &document.workflow_id,
        &document.group_id,
        &document.hostname,
        &document.install_round,
    ))
}

/// A node as the API shows it, with its ETag.
pub(crate) fn view_and_etag(resource: &Resource, document: Document) -> Result<(Node, String), Error> {
    let tag = tag(resource, &document)?;
    Ok((shown(resource, document), tag))
}

pub(crate) fn view(resource: &Resource) -> Result<Node, Error> {
    Ok(shown(resource, Document::of(resource)?))
}

fn shown(resource: &Resource, document: Document) -> Node {
    Node {
        id: resource.content.id.clone(),
        mac_address: document.mac_address,
        hostname: document.hostname.or(document.reported_hostname),
        ip_address: document.ip_address,
        state: resource.content.state.clone(),
        deleted: resource.content.deleted,
        workflow_id: document.workflow_id,
        group_id: document.group_id,
        vendor: document.vendor,
        model: document.model,
        serial_number: document.serial_number,
        system_uuid: document.system_uuid,
        labels: resource.content.labels.clone(),
        install_attempts: document.install_attempts,
        install_progress: document.install_progress,
        last_install_error: document.last_install_error,
        last_boot_at: None,
        boot_scripts: 0,
        state_changed_at: resource.state_changed_at,
        created_at: resource.created_at,
        updated_at: resource.updated_at,
    }
}
