//! `wardroom satellite set`.

use std::collections::BTreeMap;

use clap::{Args, builder::NonEmptyStringValueParser};
use wardroom_api::satellite::{Satellite, SatellitePatch};

use crate::{
    connection::Connection,
    exit::{Code, failure},
    locate::Target,
    outcome::{Consent, Outcome},
    targets::all,
    text::label,
};

/// Changes the labels and heartbeat interval of satellites. Options not given change nothing.
#[derive(Args)]
pub(crate) struct Set {
    /// Their names, ids or the starts of ids.
    #[arg(required = true, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    names: Vec<String>,
    /// The interval of their heartbeats, such as "@every 30s"; empty to let them decide.
    #[arg(long, value_name = "INTERVAL")]
    heartbeat_interval: Option<String>,
    /// A label to set or remove: key=value or key-. Can be repeated.
    #[arg(long = "label", value_name = "LABEL", value_parser = label)]
    labels: Vec<(String, Option<String>)>,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    connection: Connection,
}

impl Set {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let filled = |text: String| (!text.is_empty()).then_some(text);
        let patch = SatellitePatch {
            heartbeat_interval: self.heartbeat_interval.map(filled),
            labels: BTreeMap::from_iter(self.labels),
        };
        if patch == SatellitePatch::default() {
            return Err(failure(Code::Usage, "give --label or --heartbeat-interval"));
        }
        self.consent.ask(&format!("change {} satellites", self.names.len()), self.names.len())?;
        let client = self.connection.client()?;
        let mut outcome = Outcome::default();
        for Target { id, name } in all::<Satellite>(&client, &self.names).await? {
            let changed = client.patch_satellite(&id, &patch).await;
            let changed = changed.map(|_| "changed".to_owned()).map_err(Into::into);
            outcome.add(&format!("satellite/{name}"), changed)?;
        }
        outcome.finish()
    }
}
