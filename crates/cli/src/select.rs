//! Which resources: the selectors that commands take.

use clap::Args;
use wardroom_api::client::Query;

use crate::{
    exit::{Code, failure},
    view::{Resource, Selectable},
};

/// Which resources.
#[derive(Args, Debug, Clone)]
pub(crate) struct Selection {
    /// Select by labels, such as site=berlin,rack in (a,b),!spare.
    #[arg(short = 'l', long = "selector", value_name = "LABELS")]
    labels: Option<String>,
    /// Select by fields, such as workflow_id=debian.
    #[arg(long = "field-selector", value_name = "FIELDS")]
    fields: Option<String>,
    /// Select those in this state.
    #[arg(long, value_name = "STATE")]
    state: Option<String>,
}

impl Selection {
    /// Refuses selectors that a kind does not take.
    pub(crate) fn check<T: Resource>(&self) -> anyhow::Result<()> {
        let kind = T::KIND.as_str();
        match T::SELECTABLE {
            Selectable::ByLabels => Ok(()),
            Selectable::ByFields if self.labels.is_none() => Ok(()),
            Selectable::ByState if self.labels.is_none() && self.fields.is_none() => Ok(()),
            Selectable::No if self.is_empty() => Ok(()),
            Selectable::ByFields => Err(failure(
                Code::Usage,
                format!("{kind}s have no labels: select by --state or --field-selector"),
            )),
            Selectable::ByState => Err(failure(
                Code::Usage,
                format!("{kind}s have neither labels nor fields: select by --state"),
            )),
            Selectable::No => Err(failure(
                Code::Usage,
                format!(
                    "{kind}s take no selectors; nodes, gpu-nodes, runs and satellites do, and tokens take --state"
                ),
            )),
        }
    }

    /// Whether anything is selected by.
    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_none() && self.fields.is_none() && self.state.is_none()
    }

    pub(crate) fn query(&self) -> Query {
        Query {
            state: self.state.clone(),
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            ..Query::default()
        }
    }
}
