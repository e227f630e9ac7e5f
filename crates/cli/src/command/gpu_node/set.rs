//! `wardroom gpu-node set`.

use std::collections::BTreeMap;

use clap::{Args, builder::NonEmptyStringValueParser};
use wardroom_api::gpu_node::{Bmc, GpuNode, GpuNodePatch};

use crate::{
    connection::Connection,
    exit::{Code, failure},
    locate::{Among, Target, locate},
    output,
    text::label,
};

/// Corrects the data of a GPU node. Options not given change nothing; an empty text clears.
#[derive(Args)]
pub(crate) struct Set {
    /// Its hostname, its id or the start of its id.
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    name: String,
    /// The hostname.
    #[arg(long, value_name = "NAME")]
    hostname: Option<String>,
    /// A MAC, the one it boots from first; they replace all earlier ones. Can be repeated.
    #[arg(long = "mac", value_name = "MAC")]
    macs: Vec<String>,
    /// The address of its BMC, such as https://10.0.0.7.
    #[arg(long, value_name = "URL")]
    bmc: Option<String>,
    /// A reference to user and password of the BMC: file:bmc/NAME in the server's folder of secrets, or
    /// env:WARDROOM_SECRET_BMC_NAME.
    #[arg(long, value_name = "REFERENCE")]
    bmc_credential: Option<String>,
    /// The system of the BMC.
    #[arg(long, value_name = "ID")]
    bmc_system: Option<String>,
    /// The model.
    #[arg(long, value_name = "TEXT")]
    model: Option<String>,
    /// Its serial number.
    #[arg(long, value_name = "TEXT")]
    serial_number: Option<String>,
    /// A label to set or remove: key=value or key-. Can be repeated.
    #[arg(long = "label", value_name = "LABEL", value_parser = label)]
    labels: Vec<(String, Option<String>)>,
    #[command(flatten)]
    connection: Connection,
}

impl Set {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let filled = |text: String| (!text.is_empty()).then_some(text);
        let client = self.connection.client()?;
        let mut patch = GpuNodePatch {
            hostname: self.hostname,
            macs: (!self.macs.is_empty()).then_some(self.macs),
            bmc: None,
            model: self.model.map(filled),
            serial_number: self.serial_number.map(filled),
            labels: BTreeMap::from_iter(self.labels),
        };
        let bmc = (self.bmc, self.bmc_credential, self.bmc_system);
        if patch == GpuNodePatch::default() && bmc == (None, None, None) {
            let options =
                "give --hostname, --mac, --bmc, --bmc-credential, --model, --serial-number or --label";
            return Err(failure(Code::Usage, options));
        }
        let Target { id, .. } = locate::<GpuNode>(&client, &self.name, Among::Living).await?;
        if bmc != (None, None, None) {
            let known = client.gpu_node(&id).await?.bmc;
            patch.bmc = Some(changed(known, bmc)?);
        }
        let node = client.patch_gpu_node(&id, &patch).await?;
        output::note(&format!("gpu-node/{} changed", node.hostname));
        Ok(())
    }
}

/// Returns the BMC with the given changes; none if its address is set to empty.
fn changed(
    known: Option<Bmc>,
    (address, credential, system): (Option<String>, Option<String>, Option<String>),
) -> anyhow::Result<Option<Bmc>> {
    if address.as_deref() == Some("") {
        return Ok(None);
    }
    let (had_address, had_credential, had_system) =
        known.map_or((None, None, None), |bmc| (Some(bmc.address), Some(bmc.credential), bmc.system));
    let address = address.or(had_address);
    let (Some(address), Some(credential)) = (address, credential.or(had_credential)) else {
        return Err(failure(Code::Usage, "the node has no BMC yet: give --bmc and --bmc-credential"));
    };
    Ok(Some(Bmc { address, credential, system: system.or(had_system).filter(|system| !system.is_empty()) }))
}
