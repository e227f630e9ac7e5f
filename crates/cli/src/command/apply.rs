//! `wardroom apply`.

use std::io::Read as _;

use anyhow::Context as _;
use clap::Args;
use serde::Deserialize;
use wardroom_api::{
    client::{self, Client},
    group::GroupSpec,
    node::{NodeCreate, NodePatch},
    workflow::WorkflowSpec,
};

use crate::{connection::Connection, outcome::Outcome, view::node};

/// Makes or changes what a file describes.
///
/// The file is YAML or JSON, any number of documents, each with `kind: workflow`, `group` or `node` and the fields
/// of the API. A node is known by its mac_address; only its hostname, workflow_id, group_id and labels are changed,
/// and what the file does not name stays.
#[derive(Args)]
pub(crate) struct Apply {
    /// The file; - for standard input.
    #[arg(short, long, value_name = "FILE")]
    file: String,
    #[command(flatten)]
    connection: Connection,
}

/// One document of the file.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Document {
    Workflow(WorkflowSpec),
    Group(GroupSpec),
    Node(NodeCreate),
}

impl Apply {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let text = read(&self.file).with_context(|| format!("cannot read {}", self.file))?;
        let documents: Vec<Document> =
            serde_saphyr::from_multiple(&text).map_err(|error| anyhow::anyhow!("{}: {error}", self.file))?;
        let client = self.connection.client()?;
        let mut outcome = Outcome::default();
        for document in documents {
            let (name, result) = match document {
                Document::Workflow(spec) => {
                    (format!("workflow/{}", spec.name), workflow(&client, &spec).await)
                }
                Document::Group(spec) => (format!("group/{}", spec.name), group(&client, &spec).await),
                Document::Node(create) => {
                    (format!("node/{}", create.mac_address), registered(&client, create).await)
                }
            };
            outcome.add(&name, result.map(str::to_owned))?;
        }
        outcome.finish()
    }
}

fn read(file: &str) -> std::io::Result<String> {
    if file != "-" {
        return std::fs::read_to_string(file);
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    Ok(text)
}

async fn workflow(client: &Client, spec: &WorkflowSpec) -> anyhow::Result<&'static str> {
    match client.replace_workflow(spec).await {
        Ok(_) => Ok("applied"),
        Err(error) if error.status() == Some(404) => {
            client.create_workflow(spec).await?;
            Ok("created")
        }
        Err(error) => Err(error.into()),
    }
}

async fn group(client: &Client, spec: &GroupSpec) -> anyhow::Result<&'static str> {
    match client.replace_group(spec).await {
        Ok(_) => Ok("applied"),
        Err(error) if error.status() == Some(404) => {
            client.create_group(spec).await?;
            Ok("created")
        }
        Err(error) => Err(error.into()),
    }
}

/// A node is made first: only the server knows atomically whether its MAC is taken.
async fn registered(client: &Client, create: NodeCreate) -> anyhow::Result<&'static str> {
    match client.create_node(&create).await {
        Ok(_) => return Ok("created"),
        Err(client::Error::Problem(problem)) if problem.code == "mac_taken" => {}
        Err(error) => return Err(error.into()),
    }
    let id = node::id(client, &create.mac_address).await?;
    let patch = NodePatch {
        hostname: create.hostname.map(Some),
        workflow_id: create.workflow_id.map(Some),
        group_id: create.group_id.map(Some),
        labels: create.labels.into_iter().map(|(key, value)| (key, Some(value))).collect(),
    };
    client.patch_node(&id, &patch).await?;
    Ok("applied")
}
