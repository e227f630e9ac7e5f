//! `wardroom create fleet`.

use clap::Args;
use wardroom_api::device::{
    Batch, DisruptionBudget, Fleet as Shown, FleetSpec, LabelSelector, Limit, Metadata, RolloutPolicy,
    Template,
};

use crate::{
    connection::Connection,
    document,
    text::pair,
    view::{Made, print_made},
};

/// Creates a fleet: its devices get their spec from one template. For more than fits here: wardroom apply -f FILE
#[derive(Args)]
pub(crate) struct Fleet {
    /// The name.
    name: String,
    /// A label that its devices have, such as site=berlin. Can be repeated; without one, the fleet owns no device.
    #[arg(long = "match-label", value_name = "KEY=VALUE", value_parser = pair)]
    match_labels: Vec<(String, String)>,
    /// A file with the spec of the devices, YAML or JSON; - for standard input. Default: an empty one.
    #[arg(long, value_name = "FILE")]
    spec: Option<String>,
    /// A batch of the rollout: a number of devices or a percentage, such as 10%. Can be repeated; all devices that are left
    /// form the last one.
    #[arg(long = "batch", value_name = "LIMIT")]
    batches: Vec<String>,
    /// How many percent of a batch must be up to date before the next one begins; default: 90.
    #[arg(long, value_name = "PERCENT")]
    success_threshold: Option<u8>,
    /// How long a device may take before it counts as failed, such as 30m; default: 24h.
    #[arg(long, value_name = "TIME")]
    update_timeout: Option<String>,
    /// How many devices may be updating at a time.
    #[arg(long, value_name = "N")]
    max_unavailable: Option<u32>,
    /// How many devices must stay in service.
    #[arg(long, value_name = "N")]
    min_available: Option<u32>,
    /// A label that makes groups of devices; each group has the two numbers for itself. Can be repeated.
    #[arg(long = "group-by", value_name = "KEY")]
    group_by: Vec<String>,
    /// A label of the fleet, such as team=edge. Can be repeated.
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = pair)]
    labels: Vec<(String, String)>,
    #[command(flatten)]
    made: Made,
    #[command(flatten)]
    connection: Connection,
}

impl Fleet {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let spec = match &self.spec {
            Some(file) => serde_json::from_value(document::settings(file)?)?,
            None => Default::default(),
        };
        let limit = |text: &String| text.parse().map_or_else(|_| Limit::Percent(text.clone()), Limit::Count);
        let batch = |text| Batch { limit: Some(limit(text)), ..Batch::default() };
        let (min_available, max_unavailable) = (self.min_available, self.max_unavailable);
        let has_budget = min_available.is_some() || max_unavailable.is_some() || !self.group_by.is_empty();
        let budget = DisruptionBudget { group_by: self.group_by, min_available, max_unavailable };
        let policy = RolloutPolicy {
            batches: self.batches.iter().map(batch).collect(),
            success_threshold: self.success_threshold,
            update_timeout: self.update_timeout,
            disruption_budget: has_budget.then_some(budget),
        };
        let match_labels = self.match_labels.into_iter().collect();
        let fleet = Shown {
            metadata: Metadata {
                name: self.name,
                labels: self.labels.into_iter().collect(),
                ..Metadata::default()
            },
            spec: FleetSpec {
                selector: LabelSelector { match_labels, ..LabelSelector::default() },
                template: Template { spec, ..Template::default() },
                rollout_policy: (policy != RolloutPolicy::default()).then_some(policy),
                ..FleetSpec::default()
            },
            ..Shown::default()
        };
        print_made(&self.made, &self.connection.client()?.create_fleet(&fleet).await?)
    }
}
