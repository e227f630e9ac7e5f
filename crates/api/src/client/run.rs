//! Runs, and the operator actions on them.

use reqwest::Method;

use super::{Client, Error};
use crate::{
    Page,
    run::{Acted, Run, RunAction, RunDetail},
};

/// Which runs, and which page of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunQuery {
    /// Only in this state.
    pub state: Option<String>,
    /// Only of this kind, such as `onboarding`.
    pub kind: Option<String>,
    /// Only of this node.
    pub node_id: Option<String>,
    /// Only of this site.
    pub site: Option<String>,
    /// How many at most in the page.
    pub limit: Option<usize>,
    /// The cursor of the page before.
    pub cursor: Option<String>,
}

impl Client {
    /// One page of runs, oldest first.
    ///
    /// # Errors
    /// As for every call.
    pub async fn runs(&self, query: &RunQuery) -> Result<Page<Run>, Error> {
        let limit = query.limit.map(|limit| limit.to_string());
        let query = [
            ("status", query.state.as_deref()),
            ("kind", query.kind.as_deref()),
            ("node_id", query.node_id.as_deref()),
            ("site", query.site.as_deref()),
            ("limit", limit.as_deref()),
            ("continue", query.cursor.as_deref()),
        ];
        self.get(&["runs"], &query).await
    }

    /// One run with all that is needed to decide about it.
    ///
    /// # Errors
    /// As for every call.
    pub async fn run(&self, id: &str) -> Result<RunDetail, Error> {
        self.one(&["runs", id]).await
    }

    /// Acts on a run, such as `retry_stage` or `cancel`.
    ///
    /// # Errors
    /// As for every call.
    pub async fn act_on_run(&self, id: &str, action: &str, wanted: &RunAction) -> Result<Acted, Error> {
        self.change(Method::POST, &["runs", id, "actions", action], wanted).await
    }
}
