//! Which nodes: the selectors that every command on nodes takes.

use clap::Args;
use wardroom_api::client::NodeQuery;

/// Which nodes.
#[derive(Args, Debug, Clone)]
pub(crate) struct Selection {
    /// Labels, such as site=berlin,rack in (a,b),!spare.
    #[arg(short = 'l', long = "selector", value_name = "LABELS")]
    labels: Option<String>,
    /// Fields, such as workflow_id=debian.
    #[arg(long = "field-selector", value_name = "FIELDS")]
    fields: Option<String>,
    /// A state.
    #[arg(long, value_name = "STATE")]
    state: Option<String>,
}

impl Selection {
    /// Whether anything is selected by.
    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_none() && self.fields.is_none() && self.state.is_none()
    }

    pub(crate) fn query(&self) -> NodeQuery {
        NodeQuery {
            state: self.state.clone(),
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            ..NodeQuery::default()
        }
    }
}
