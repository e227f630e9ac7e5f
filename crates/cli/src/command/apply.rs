//! `wardroom apply`.

pub(crate) mod plan;
mod prune;

use clap::Args;
use serde::Serialize;
use serde_json::Value;
use wardroom_api::{
    client::{self, Client},
    cluster::{ClusterCreate, ClusterPatch},
    node::{Node, NodeCreate, NodePatch},
};

use self::{plan::Plan, prune::Labels};
use crate::{
    connection::Connection,
    document::{self, Document, KEPT_OF_CLUSTERS, KEPT_OF_NODES, KEPT_OF_OBJECTS, merged, rename, spec},
    exit::{Code, failure},
    locate::{Among, locate},
    manifest::{Subject, subjects, unknown},
    outcome::{Consent, Outcome},
    output,
};

/// Creates or changes the resources that a file describes.
///
/// The file is YAML or JSON, any number of documents, each with `kind: workflow`, `group`, `node`, `site`, `cluster`,
/// `nodepool`, `fleet`, `device`, `satellite-group` or `satellite-config` and the fields of the API; fields not named stay as they
/// are. A node is identified by its mac_address, every other resource by its name. Of a node only hostname, workflow_id, group_id
/// and labels are changed. Labels and spec of a fleet or device are replaced as a whole, each if the document names it. The order does not matter: groups are created from the top of their tree, nodes last.
/// The output of `wardroom get -o yaml` can be applied: times, states, counters and other fields of the server are
/// ignored. For example: {kind: workflow, name: debian, kernel: "http://…"}
#[derive(Args)]
pub(crate) struct Apply {
    /// A file, - for standard input, or a folder: its files that end in .yaml, .yml or .json; several may be given.
    #[arg(short, long = "file", value_name = "FILE", required = true)]
    files: Vec<String>,
    /// Change nothing: say what would be created, changed or stays as it is. The server checks the values only when they
    /// are applied; `wardroom diff` shows the lines.
    #[arg(long)]
    dry_run: bool,
    /// Then delete the fleets, clusters and node pools with the labels of --selector that the files do not describe; they are
    /// listed first. Members are never pruned.
    #[arg(long, requires = "labels")]
    prune: bool,
    /// The labels of the resources that --prune may delete, such as app=web,team=pos.
    #[arg(short = 'l', long = "selector", value_name = "LABELS", requires = "prune", value_parser = prune::labels)]
    labels: Option<Labels>,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    connection: Connection,
}

impl Apply {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let documents = document::read_all(&self.files)?;
        let client = self.connection.client()?;
        let mut outcome = Outcome::default();
        let documents = subjects(documents)?;
        let described: Vec<_> = documents.iter().map(|(subject, _)| subject.clone()).collect();
        for (subject, document) in documents {
            let applied = if self.dry_run {
                Plan::of(&client, &subject, document).await.map(|plan| plan.would_be())
            } else {
                one(&client, &subject, document).await
            };
            outcome.add(&subject.to_string(), applied.map(str::to_owned))?;
        }
        if let Some(labels) = &self.labels {
            self.prune(&client, labels, &described, &mut outcome).await?;
        }
        outcome.finish()
    }

    /// Deletes what is left over. Where a document was refused nothing is: what it describes may be the wrong thing.
    async fn prune(
        &self,
        client: &Client,
        labels: &Labels,
        described: &[Subject],
        outcome: &mut Outcome,
    ) -> anyhow::Result<()> {
        if outcome.has_refused() {
            output::note("nothing is pruned, because a document was refused");
            return Ok(());
        }
        let leftovers = prune::leftovers(client, labels, described).await?;
        match leftovers.is_empty() {
            true => Ok(()),
            false if self.dry_run => prune::foretell(&leftovers),
            false => prune::prune(client, &leftovers, &self.consent, outcome).await,
        }
    }
}

/// Creates or changes what a document describes.
pub(crate) async fn one(
    client: &Client,
    subject: &Subject,
    document: Document,
) -> anyhow::Result<&'static str> {
    let name = &subject.name;
    match subject.kind.as_str() {
        "workflow" => workflow(client, name, document).await,
        "group" => group(client, name, document).await,
        "node" => node(client, document).await,
        "site" => site(client, name, document).await,
        "satellite-group" => satellite_group(client, name, document).await,
        "satellite-config" => satellite_config(client, name, document).await,
        "cluster" => cluster(client, name, document).await,
        "nodepool" => node_pool(client, name, document).await,
        "fleet" => fleet(client, name, document).await,
        "device" => device(client, name, document).await,
        kind => anyhow::bail!(unknown(kind)),
    }
}

/// Returns the current resource, if it exists. An empty name would address the whole list.
fn now<T>(name: &str, found: Result<T, client::Error>) -> anyhow::Result<Option<T>> {
    if name.is_empty() {
        return Err(failure(Code::Failed, "name: is required in every document"));
    }
    match found {
        Ok(now) => Ok(Some(now)),
        // A name that is a route does not exist either; the server says that it is reserved.
        Err(error) if matches!(error.status(), Some(404 | 405)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

async fn workflow(client: &Client, name: &str, document: Document) -> anyhow::Result<&'static str> {
    let Some(now) = now(name, client.workflow(name).await)? else {
        client.create_workflow(&spec(document)?).await?;
        return Ok("created");
    };
    client.replace_workflow(&merged(Some(&now), document)?).await?;
    Ok("applied")
}

async fn group(client: &Client, name: &str, document: Document) -> anyhow::Result<&'static str> {
    let Some(now) = now(name, client.group(name).await)? else {
        client.create_group(&spec(document)?).await?;
        return Ok("created");
    };
    client.replace_group(&merged(Some(&now), document)?).await?;
    Ok("applied")
}

async fn site(client: &Client, name: &str, document: Document) -> anyhow::Result<&'static str> {
    let Some(now) = now(name, client.site(name).await)? else {
        client.create_site(&spec(document)?).await?;
        return Ok("created");
    };
    client.replace_site(&merged(Some(&now), document)?).await?;
    Ok("applied")
}

/// Applies a cluster: what the document does not name stays.
async fn cluster(client: &Client, name: &str, mut document: Document) -> anyhow::Result<&'static str> {
    KEPT_OF_CLUSTERS.iter().for_each(|field| drop(document.remove(*field)));
    if now(name, client.cluster(name).await)?.is_none() {
        client.create_cluster(&new(document)?).await?;
        return Ok("created");
    }
    client.patch_cluster(name, &changed(document)?).await?;
    Ok("applied")
}

/// Applies a node pool of the cluster that the document names, or that owned it when it was read.
async fn node_pool(client: &Client, name: &str, mut document: Document) -> anyhow::Result<&'static str> {
    let owner = document.remove("owner_references").and_then(|owner| Some(owner["id"].as_str()?.to_owned()));
    let named = document.remove("cluster").and_then(|cluster| Some(cluster.as_str()?.to_owned()));
    let Some(cluster) = named.or(owner) else {
        return Err(failure(Code::Failed, "cluster: is required in every document of a nodepool"));
    };
    KEPT_OF_CLUSTERS.iter().for_each(|field| drop(document.remove(*field)));
    if now(name, client.node_pool(&cluster, name).await)?.is_none() {
        client.create_node_pool(&cluster, &new(document)?).await?;
        return Ok("created");
    }
    client.patch_node_pool(&cluster, name, &changed(document)?).await?;
    Ok("applied")
}

/// A new cluster or node pool; one without a spec has an empty one.
fn new(mut document: Document) -> anyhow::Result<ClusterCreate> {
    document.entry("spec").or_insert_with(|| Value::Object(Document::new()));
    spec(document)
}

fn changed(mut document: Document) -> anyhow::Result<ClusterPatch> {
    document.remove("name");
    spec(document)
}

/// Applies a fleet: its labels and its spec are replaced, each if the document names it.
async fn fleet(client: &Client, name: &str, document: Document) -> anyhow::Result<&'static str> {
    let now = now(name, client.fleet(name).await)?;
    let whole = object(now.as_ref(), name, document)?;
    if now.is_none() {
        client.create_fleet(&whole).await?;
        return Ok("created");
    }
    client.replace_fleet(name, &whole).await?;
    Ok("applied")
}

/// Applies a device, which has enrolled: its labels and its spec are replaced, each if the document names it.
async fn device(client: &Client, name: &str, document: Document) -> anyhow::Result<&'static str> {
    let Some(now) = now(name, client.device(name).await)? else {
        let message = format!("there is no device {name}: a device enrols itself, then its spec is applied");
        return Err(failure(Code::NotFound, message));
    };
    client.replace_device(name, &object(Some(&now), name, document)?).await?;
    Ok("applied")
}

/// The document of a fleet or device, completed with the labels and the spec that it does not name. It is sent as it is, so
/// that the server names fields that it does not know.
fn object(now: Option<&impl Serialize>, name: &str, mut document: Document) -> anyhow::Result<Document> {
    let now = now.map(serde_json::to_value).transpose()?.unwrap_or_default();
    drop((document.remove("status"), document.remove("name")));
    let metadata = document.entry("metadata").or_insert_with(|| Value::Object(Document::new()));
    let Value::Object(metadata) = metadata else { anyhow::bail!("metadata: must have fields, such as name") };
    KEPT_OF_OBJECTS.iter().for_each(|kept| drop(metadata.remove(*kept)));
    metadata.insert("name".to_owned(), name.into());
    let known = |known: &Value| if known.is_null() { Value::Object(Document::new()) } else { known.clone() };
    metadata.entry("labels").or_insert_with(|| known(&now["metadata"]["labels"]));
    document.entry("spec").or_insert_with(|| known(&now["spec"]));
    Ok(document)
}

async fn satellite_group(client: &Client, name: &str, document: Document) -> anyhow::Result<&'static str> {
    let now = now(name, client.satellite_group(name).await)?;
    let whole: Document = merged(now.as_ref(), document)?;
    client.sync_satellite_group(&document::satellite_group(whole)?).await?;
    Ok(if now.is_some() { "applied" } else { "created" })
}

/// Applies a config. The server merges it, because only the server knows the hidden secrets.
async fn satellite_config(client: &Client, name: &str, document: Document) -> anyhow::Result<&'static str> {
    let mut document = rename(document, "config_name");
    if now(name, client.satellite_config(name).await)?.is_none() {
        client.create_satellite_config(&spec(document)?).await?;
        return Ok("created");
    }
    document.remove("config_name");
    client.patch_satellite_config(name, &spec(document)?).await?;
    Ok("applied")
}

/// Applies a node. It is created first, because only the server can tell atomically whether its MAC is taken.
async fn node(client: &Client, mut document: Document) -> anyhow::Result<&'static str> {
    KEPT_OF_NODES.iter().for_each(|field| drop(document.remove(*field)));
    let create: NodeCreate = spec(document)?;
    match client.create_node(&create).await {
        Ok(_) => return Ok("created"),
        Err(client::Error::Problem(problem)) if problem.code == "mac_taken" => {}
        Err(error) => return Err(error.into()),
    }
    let id = locate::<Node>(client, &create.mac_address, Among::Living).await?.id;
    let patch = NodePatch {
        hostname: create.hostname.map(Some),
        workflow_id: create.workflow_id.map(Some),
        group_id: create.group_id.map(Some),
        labels: create.labels.into_iter().map(|(key, value)| (key, Some(value))).collect(),
    };
    client.patch_node(&id, &patch).await?;
    Ok("applied")
}
