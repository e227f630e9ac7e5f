//! `wardroom create satellite-group`.

use clap::Args;
use wardroom_api::satellite_group::{Artifact, GroupSync};

use crate::{
    connection::Connection,
    document,
    exit::{Code, failure},
    kind::Kind,
    view::{Made, print_made},
};

/// Creates a satellite group, from options or from a file.
#[derive(Args)]
pub(crate) struct SatelliteGroup {
    /// The name: lower case letters and digits, with single '.', '_' or '-' between them.
    #[arg(required_unless_present = "file")]
    name: Option<String>,
    /// A file as for `wardroom apply`; - for standard input.
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["name", "registry", "artifacts"])]
    file: Option<String>,
    /// The registry of the artifacts, such as `https://registry.example.com`.
    #[arg(long, value_name = "URL", required_unless_present = "file")]
    registry: Option<String>,
    /// An artifact to replicate, such as library/nginx:1.27,1.28. Can be repeated.
    #[arg(long = "artifact", value_name = "REPOSITORY:TAGS", value_parser = artifact)]
    artifacts: Vec<Artifact>,
    #[command(flatten)]
    made: Made,
    #[command(flatten)]
    connection: Connection,
}

fn artifact(text: &str) -> Result<Artifact, String> {
    let (repository, tags) =
        text.rsplit_once(':').ok_or("write a repository and its tags: library/nginx:1.27")?;
    let tag = tags.split(',').map(str::to_owned).collect();
    Ok(Artifact { repository: repository.to_owned(), tag, ..Artifact::default() })
}

impl SatelliteGroup {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let group = match &self.file {
            Some(file) => document::satellite_group(document::read_one(file, Kind::SatelliteGroup)?)?,
            None => GroupSync {
                group: self.name.unwrap_or_default(),
                registry: self.registry.unwrap_or_default(),
                artifacts: self.artifacts,
            },
        };
        let client = self.connection.client()?;
        // The API creates or replaces; `create` must not replace.
        match client.satellite_group(&group.group).await {
            Ok(_) => {
                let there = format!("the satellite group {:?} already exists", group.group);
                Err(failure(Code::Conflict, format!("{there}\nnext: change it with `wardroom apply`")))
            }
            Err(error) if error.is_not_found() => {
                print_made(&self.made, &client.sync_satellite_group(&group).await?)
            }
            Err(error) => Err(error.into()),
        }
    }
}
