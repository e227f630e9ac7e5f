//! `wardroom apply`.

use std::io::Read as _;

use anyhow::Context as _;
use clap::Args;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use wardroom_api::{
    client::{self, Client},
    group::Group,
    node::{Node, NodeCreate, NodePatch},
    workflow::Workflow,
};

use crate::{connection::Connection, outcome::Outcome, view::Resource as _};

/// Makes or changes what a file describes.
///
/// The file is YAML or JSON, any number of documents, each with `kind: workflow`, `group` or `node` and the fields
/// of the API; what it does not name stays as it is. A node is known by its mac_address; only its hostname,
/// workflow_id, group_id and labels are changed. For example: {kind: workflow, name: debian, kernel: "http://…"}
#[derive(Args)]
pub(crate) struct Apply {
    /// The file; - for standard input.
    #[arg(short, long, value_name = "FILE")]
    file: String,
    #[command(flatten)]
    connection: Connection,
}

impl Apply {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let text = read(&self.file).with_context(|| format!("cannot read {}", self.file))?;
        let documents: Vec<Map<String, Value>> =
            serde_saphyr::from_multiple(&text).map_err(|error| anyhow::anyhow!("{}: {error}", self.file))?;
        anyhow::ensure!(!documents.is_empty(), "{}: there is nothing to apply", self.file);
        let client = self.connection.client()?;
        let mut outcome = Outcome::default();
        for mut document in documents {
            let kind = document.remove("kind");
            let (name, result) = match kind.as_ref().and_then(Value::as_str) {
                Some("workflow") => (named("workflow", &document, "name"), workflow(&client, document).await),
                Some("group") => (named("group", &document, "name"), group(&client, document).await),
                Some("node") => (named("node", &document, "mac_address"), node(&client, document).await),
                Some(_) | None => {
                    anyhow::bail!("{}: every document needs kind: workflow, group or node", self.file)
                }
            };
            outcome.add(&name, result.map(str::to_owned))?;
        }
        outcome.finish()
    }
}

fn named(kind: &str, document: &Map<String, Value>, field: &str) -> String {
    format!("{kind}/{}", document.get(field).and_then(Value::as_str).unwrap_or_default())
}

/// What the server keeps itself; a document that was read from it has these.
const KEPT: [&str; 4] = ["id", "created_at", "updated_at", "effective_auto_promote"];

/// The document as a spec; what it does not name stays as it is now.
fn merged<T: DeserializeOwned>(
    now: Option<&impl Serialize>,
    document: Map<String, Value>,
) -> anyhow::Result<T> {
    let mut whole = match now.map(serde_json::to_value).transpose()? {
        Some(Value::Object(now)) => now,
        Some(_) | None => Map::new(),
    };
    whole.extend(document);
    KEPT.iter().for_each(|field| drop(whole.remove(*field)));
    Ok(serde_json::from_value(Value::Object(whole))?)
}

fn read(file: &str) -> std::io::Result<String> {
    if file != "-" {
        return std::fs::read_to_string(file);
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    Ok(text)
}

async fn workflow(client: &Client, document: Map<String, Value>) -> anyhow::Result<&'static str> {
    let name = document.get("name").and_then(Value::as_str).unwrap_or_default();
    match client.workflow(name).await {
        Ok(now) => {
            client.replace_workflow(&merged(Some(&now), document)?).await?;
            Ok("applied")
        }
        Err(error) if error.status() == Some(404) => {
            client.create_workflow(&merged(None::<&Workflow>, document)?).await?;
            Ok("created")
        }
        Err(error) => Err(error.into()),
    }
}

async fn group(client: &Client, document: Map<String, Value>) -> anyhow::Result<&'static str> {
    let name = document.get("name").and_then(Value::as_str).unwrap_or_default();
    match client.group(name).await {
        Ok(now) => {
            client.replace_group(&merged(Some(&now), document)?).await?;
            Ok("applied")
        }
        Err(error) if error.status() == Some(404) => {
            client.create_group(&merged(None::<&Group>, document)?).await?;
            Ok("created")
        }
        Err(error) => Err(error.into()),
    }
}

/// A node is made first: only the server knows atomically whether its MAC is taken.
async fn node(client: &Client, document: Map<String, Value>) -> anyhow::Result<&'static str> {
    let create: NodeCreate = serde_json::from_value(Value::Object(document))?;
    match client.create_node(&create).await {
        Ok(_) => return Ok("created"),
        Err(client::Error::Problem(problem)) if problem.code == "mac_taken" => {}
        Err(error) => return Err(error.into()),
    }
    let id = Node::id_of(client, &create.mac_address).await?;
    let patch = NodePatch {
        hostname: create.hostname.map(Some),
        workflow_id: create.workflow_id.map(Some),
        group_id: create.group_id.map(Some),
        labels: create.labels.into_iter().map(|(key, value)| (key, Some(value))).collect(),
    };
    client.patch_node(&id, &patch).await?;
    Ok("applied")
}
