//! `wardroom create cluster` and `wardroom create nodepool`.

use clap::Args;
use wardroom_api::cluster::{ClusterCreate, Exact};

use crate::{
    connection::Connection,
    document,
    exit::{Code, failure},
    text::pair,
    view::{Made, print_made},
};

/// Creates a cluster. Its spec is what its adapters shall bring about.
#[derive(Args)]
pub(crate) struct Cluster {
    /// The name: 3 to 53 lower case letters, digits and hyphens.
    name: String,
    #[command(flatten)]
    about: About,
    #[command(flatten)]
    made: Made,
    #[command(flatten)]
    connection: Connection,
}

/// Creates a node pool of a cluster.
#[derive(Args)]
pub(crate) struct NodePool {
    /// The cluster and the name: 3 to 15 lower case letters, digits and hyphens.
    #[arg(value_name = "CLUSTER/NAME")]
    name: String,
    #[command(flatten)]
    about: About,
    #[command(flatten)]
    made: Made,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Args)]
struct About {
    /// A file with the spec, YAML or JSON; - for standard input. Default: an empty one.
    #[arg(long, value_name = "FILE")]
    spec: Option<String>,
    /// A label, such as env=prod. Can be repeated.
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = pair)]
    labels: Vec<(String, String)>,
}

impl About {
    fn create(self, name: &str) -> anyhow::Result<ClusterCreate> {
        let spec = match &self.spec {
            Some(file) => Exact::of(&document::settings(file)?)
                .map_err(|_| failure(Code::Usage, format!("{file}: a spec is an object")))?,
            None => Exact::default(),
        };
        let labels = self.labels.into_iter().collect();
        Ok(ClusterCreate { kind: None, name: name.to_owned(), labels, spec })
    }
}

impl Cluster {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let create = self.about.create(&self.name)?;
        print_made(&self.made, &self.connection.client()?.create_cluster(&create).await?)
    }
}

impl NodePool {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let Some((cluster, name)) = self.name.split_once('/') else {
            return Err(failure(Code::Usage, "name the cluster too, such as east/workers"));
        };
        let create = self.about.create(name)?;
        print_made(&self.made, &self.connection.client()?.create_node_pool(cluster, &create).await?)
    }
}
