//! `wardroom node create`, which is also `wardroom create node`.

use std::collections::BTreeMap;

use clap::Args;
use wardroom_api::node::NodeCreate;

use crate::{
    connection::Connection,
    text::pair,
    view::{Made, print_made},
};

/// Registers a node.
#[derive(Args)]
pub(crate) struct Create {
    /// The MAC address, with colons or hyphens.
    #[arg(long, value_name = "MAC")]
    mac: String,
    /// The hostname.
    #[arg(long, value_name = "NAME")]
    hostname: Option<String>,
    /// The device group.
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// The workflow to install.
    #[arg(long, value_name = "NAME")]
    workflow: Option<String>,
    /// A label. Can be repeated.
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = pair)]
    labels: Vec<(String, String)>,
    /// The manufacturer.
    #[arg(long, value_name = "TEXT")]
    vendor: Option<String>,
    /// The model.
    #[arg(long, value_name = "TEXT")]
    model: Option<String>,
    /// Its serial number.
    #[arg(long, value_name = "TEXT")]
    serial_number: Option<String>,
    #[command(flatten)]
    made: Made,
    #[command(flatten)]
    connection: Connection,
}

impl Create {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let create = NodeCreate {
            mac_address: self.mac,
            hostname: self.hostname,
            group_id: self.group,
            workflow_id: self.workflow,
            vendor: self.vendor,
            model: self.model,
            serial_number: self.serial_number,
            system_uuid: None,
            labels: BTreeMap::from_iter(self.labels),
        };
        print_made(&self.made, &self.connection.client()?.create_node(&create).await?)
    }
}
