//! `wardroom gpu-node create`, which is also `wardroom create gpu-node`.

use std::collections::BTreeMap;

use clap::Args;
use wardroom_api::gpu_node::{Bmc, GpuNode, GpuNodeCreate};

use crate::{
    connection::Connection,
    locate::Target,
    output,
    progress::{Wait, Wish},
    secret::SecretFile,
    text::pair,
};

/// Registers a node: with a site it is onboarded through MAAS, without one its token is written once.
#[derive(Args)]
pub(crate) struct Create {
    /// The hostname.
    hostname: String,
    /// The site that manages the machine.
    #[arg(long, value_name = "NAME")]
    site: Option<String>,
    /// A MAC, the one it boots from first. Can be repeated.
    #[arg(long = "mac", value_name = "MAC")]
    macs: Vec<String>,
    /// The address of its BMC, such as https://10.0.0.7.
    #[arg(long, value_name = "URL", requires = "bmc_credential")]
    bmc: Option<String>,
    /// A reference to user and password of the BMC: file:bmc/NAME in the server's folder of secrets, or
    /// env:WARDROOM_SECRET_BMC_NAME.
    #[arg(long, value_name = "REFERENCE", requires = "bmc")]
    bmc_credential: Option<String>,
    /// The system of the BMC.
    #[arg(long, value_name = "ID", requires = "bmc")]
    bmc_system: Option<String>,
    /// The model.
    #[arg(long, value_name = "TEXT")]
    model: Option<String>,
    /// Its serial number.
    #[arg(long, value_name = "TEXT")]
    serial_number: Option<String>,
    /// A label, such as rack=a1. Can be repeated.
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = pair)]
    labels: Vec<(String, String)>,
    #[command(flatten)]
    secret: SecretFile,
    #[command(flatten)]
    wait: Wait,
    #[command(flatten)]
    connection: Connection,
}

impl Create {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let bmc = self.bmc.zip(self.bmc_credential);
        let system = self.bmc_system;
        let create = GpuNodeCreate {
            hostname: self.hostname,
            site: self.site,
            macs: self.macs,
            bmc: bmc.map(|(address, credential)| Bmc { address, credential, system }),
            model: self.model,
            serial_number: self.serial_number,
            labels: BTreeMap::from_iter(self.labels),
        };
        let client = self.connection.client()?;
        let paper = self.secret.open()?;
        let made = client.create_gpu_node(&create).await?;
        if let Some(token) = &made.token {
            paper.write(token)?;
        }
        let GpuNode { hostname: name, state, run, .. } = made.node;
        output::note(&format!("gpu-node/{name} {state}"));
        let run = run.map(|id| Target { id, name });
        self.wait.until_over(&client, run.as_slice(), Wish::Done).await
    }
}
