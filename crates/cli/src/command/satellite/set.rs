//! `wardroom satellite set`.

use std::collections::BTreeMap;

use clap::Args;
use wardroom_api::satellite::SatellitePatch;

use crate::{
    connection::Connection,
    exit::{Code, failure},
    outcome::{Consent, Outcome},
    text::label,
};

/// Changes the labels and heartbeat interval of satellites. Options not given change nothing.
#[derive(Args)]
pub(crate) struct Set {
    /// Their names.
    #[arg(required = true, value_name = "NAME")]
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
        for name in &self.names {
            let changed = client.patch_satellite(name, &patch).await;
            let changed = changed.map(|_| "changed".to_owned()).map_err(Into::into);
            outcome.add(&format!("satellite/{name}"), changed)?;
        }
        outcome.finish()
    }
}
