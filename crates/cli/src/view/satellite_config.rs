//! Satellite configs in columns.

use wardroom_api::{
    Page,
    action::Action,
    client::{self, Client, Query},
    satellite::EffectProgress,
    satellite_config::SatelliteConfig,
};

use super::{Resource, View};
use crate::{
    kind::Kind,
    output,
    said::Said,
    suggest::{self, Words},
    table::{
        Column,
        Level::{Full, Narrow},
        column, or_none,
    },
    text::{age, time},
};

impl View for SatelliteConfig {
    #[rustfmt::skip]
    const COLUMNS: &'static [Column<Self>] = &[
        column("NAME",     Narrow, |config, _| config.config_name.clone()),
        column("REGISTRY", Narrow, |config, _| or_none(config.registry.as_deref())),
        column("SETTINGS", Narrow, |config, _| or_none(Some(&sections(config)))),
        column("AGE",      Narrow, |config, now| age(config.created_at, now)),
        column("CREATED",  Full,   |config, _| time(config.created_at)),
        column("CHANGED",  Full,   |config, _| time(config.updated_at)),
    ];

    const APPLIED: Option<Kind> = Some(Kind::SatelliteConfig);

    fn name(&self) -> String {
        format!("satellite-config/{}", self.id)
    }
}

/// Returns the outermost names of its settings.
fn sections(config: &SatelliteConfig) -> String {
    let names = config.config.as_object().into_iter().flat_map(|settings| settings.keys().cloned());
    names.collect::<Vec<_>>().join(",")
}

impl Resource for SatelliteConfig {
    const KIND: Kind = Kind::SatelliteConfig;
    const USERS: Option<&'static str> = Some("satellites --field-selector config_name=");

    fn id(&self) -> &str {
        &self.id
    }

    async fn page(client: &Client, query: &Query) -> anyhow::Result<Page<Self>> {
        Ok(client.satellite_configs(query).await?)
    }

    async fn find(client: &Client, id: &str) -> anyhow::Result<Self> {
        Ok(client.satellite_config(id).await?)
    }

    async fn delete(client: &Client, id: &str) -> anyhow::Result<()> {
        Ok(client.delete_satellite_config(id).await.map(drop)?)
    }

    fn command(action: &Action, id: &str) -> Option<Words> {
        suggest::described(action, id)
    }

    async fn effects(client: &Client, id: &str) -> Result<Option<Vec<EffectProgress>>, client::Error> {
        client.satellite_config_effects(id).await.map(Some)
    }

    async fn print_details(&self, _client: &Client, _said: &mut Said) -> anyhow::Result<()> {
        output::line("\nConfig:")?;
        output::yaml(&self.config)
    }
}
