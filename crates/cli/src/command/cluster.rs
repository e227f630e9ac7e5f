//! `wardroom cluster`: what adapters say of clusters.

use clap::{Args, Subcommand};
use wardroom_api::client::ClusterQuery;

use crate::{
    connection::Connection,
    output::{self, Whole},
    view::cluster::print_statuses,
};

/// Adapters that are shown at most.
const MOST: usize = 500;

/// Shows what adapters say of clusters.
#[derive(Subcommand)]
pub(crate) enum Cluster {
    /// Lists what each adapter of a cluster said last.
    Statuses(Statuses),
}

#[derive(Args)]
pub(crate) struct Statuses {
    /// The cluster, by its id or name.
    name: String,
    /// Write everything, data included, as json or yaml.
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Whole>,
    #[command(flatten)]
    connection: Connection,
}

impl Cluster {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Statuses(statuses) => statuses.run().await,
        }
    }
}

impl Statuses {
    async fn run(self) -> anyhow::Result<()> {
        let query = ClusterQuery { size: Some(MOST), ..ClusterQuery::default() };
        let said = self.connection.client()?.cluster_statuses(&self.name, &query).await?.items;
        match self.output {
            Some(Whole::Json) => output::json(&said),
            Some(Whole::Yaml) => output::yaml(&serde_json::to_value(&said)?),
            None if said.is_empty() => {
                output::note("no adapter has reported yet");
                Ok(())
            }
            None => print_statuses(&said),
        }
    }
}
