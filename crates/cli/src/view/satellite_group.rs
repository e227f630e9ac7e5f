//! Satellite groups in columns, with their artifacts and satellites.

use wardroom_api::{
    Page,
    action::Action,
    client::{self, Client, Query},
    satellite::EffectProgress,
    satellite_group::{Artifact, Member, SatelliteGroup},
};

use super::{Resource, View};
use crate::{
    kind::Kind,
    output,
    said::Said,
    suggest::{self, Words},
    table::{
        Column, Heads,
        Level::{Full, Narrow, Wide},
        Writer, column, or_none,
    },
    text::{age, time},
};

/// Satellites that are shown with a group.
const MEMBERS: usize = 100;

impl View for SatelliteGroup {
    #[rustfmt::skip]
    const COLUMNS: &'static [Column<Self>] = &[
        column("NAME",      Narrow, |group, _| group.name.clone()),
        column("STATE",     Narrow, |group, _| group.state.clone()),
        column("REGISTRY",  Narrow, |group, _| group.registry.clone()),
        column("ARTIFACTS", Narrow, |group, _| group.artifacts.len().to_string()),
        column("AGE",       Narrow, |group, now| age(group.created_at, now)),
        column("PROJECTS",  Wide,   |group, _| or_none(Some(&group.projects.join(",")))),
        column("CREATED",   Full,   |group, _| time(group.created_at)),
        column("CHANGED",   Full,   |group, _| time(group.updated_at)),
    ];

    const APPLIED: Option<Kind> = Some(Kind::SatelliteGroup);

    fn name(&self) -> String {
        format!("satellite-group/{}", self.id)
    }
}

impl Resource for SatelliteGroup {
    const KIND: Kind = Kind::SatelliteGroup;

    fn id(&self) -> &str {
        &self.id
    }

    async fn page(client: &Client, query: &Query) -> anyhow::Result<Page<Self>> {
        Ok(client.satellite_groups(query).await?)
    }

    async fn find(client: &Client, id: &str) -> anyhow::Result<Self> {
        Ok(client.satellite_group(id).await?)
    }

    async fn delete(client: &Client, id: &str) -> anyhow::Result<()> {
        Ok(client.delete_satellite_group(id).await.map(drop)?)
    }

    fn command(action: &Action, id: &str) -> Option<Words> {
        if action.action == "list_satellites" {
            return Some(Words::whole(&["get", "satellites", "--field-selector", &format!("group={id}")]));
        }
        suggest::described(action, id)
    }

    async fn effects(client: &Client, id: &str) -> Result<Option<Vec<EffectProgress>>, client::Error> {
        client.satellite_group_effects(id).await.map(Some)
    }

    async fn print_details(&self, client: &Client, _said: &mut Said) -> anyhow::Result<()> {
        output::line("\nArtifacts:")?;
        let rows: Vec<_> = self.artifacts.iter().map(artifact).collect();
        Writer::start(&["REPOSITORY", "TAGS", "TYPE", "DIGEST"], &rows, Heads::Shown)?;
        output::line("\nSatellites:")?;
        let query = Query { limit: Some(MEMBERS), ..Query::default() };
        let page = client.satellites_of_group(&self.id, &query).await?;
        let rows: Vec<_> = page.data.iter().map(member).collect();
        Writer::start(&["NAME", "STATE", "GROUPS", "CONFIG"], &rows, Heads::Shown)?;
        if page.next.is_some() {
            output::line(&format!("… and more; only {MEMBERS} are shown"))?;
        }
        Ok(())
    }
}

fn artifact(artifact: &Artifact) -> Vec<String> {
    let gone = if artifact.deleted { " (deleted)" } else { "" };
    let (type_, digest) = (or_none(Some(&artifact.type_)), or_none(Some(&artifact.digest)));
    vec![format!("{}{gone}", artifact.repository), or_none(Some(&artifact.tag.join(","))), type_, digest]
}

fn member(member: &Member) -> Vec<String> {
    let (groups, config) = (or_none(Some(&member.groups.join(","))), or_none(member.config.as_deref()));
    vec![member.name.clone(), member.state.clone(), groups, config]
}
