//! `wardroom node assign`.

use std::collections::BTreeMap;

use clap::Args;
use wardroom_api::{
    client::Client,
    node::{Node, NodePatch},
};

use crate::{
    exit::{Code, failure},
    locate::Target,
    outcome::Outcome,
    targets::Targets,
    text::label,
};

/// Sets the workflow, group, hostname and labels of nodes. Options not given change nothing; an empty text clears.
#[derive(Args)]
pub(crate) struct Assign {
    #[command(flatten)]
    targets: Targets,
    /// The workflow to install; "" for none.
    #[arg(long, value_name = "NAME")]
    workflow: Option<String>,
    /// The device group; "" for none.
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// The hostname.
    #[arg(long, value_name = "NAME")]
    hostname: Option<String>,
    /// A label to set or remove: key=value or key-. Can be repeated.
    #[arg(long = "label", value_name = "LABEL", value_parser = label)]
    set_labels: Vec<(String, Option<String>)>,
}

impl Assign {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let filled = |text: String| (!text.is_empty()).then_some(text);
        let patch = NodePatch {
            hostname: self.hostname.map(filled),
            workflow_id: self.workflow.map(filled),
            group_id: self.group.map(filled),
            labels: BTreeMap::from_iter(self.set_labels),
        };
        if patch == NodePatch::default() {
            return Err(failure(Code::Usage, "give --workflow, --group, --hostname or --label"));
        }
        let verb = async |client: &Client, id: &str| client.patch_node(id, &patch).await.map(drop);
        let Some((client, targets)) = self.targets.find::<Node>("change", verb).await? else { return Ok(()) };
        let mut outcome = Outcome::default();
        for Target { id, name } in &targets {
            let changed = client.patch_node(id, &patch).await;
            outcome
                .add(&format!("node/{name}"), changed.map(|_| "changed".to_owned()).map_err(Into::into))?;
        }
        outcome.finish()
    }
}
