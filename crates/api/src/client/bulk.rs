//! One verb on many members, and changes of members at the versions that a dry run saw.

use std::{collections::HashMap, sync::Arc};

use reqwest::Method;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{Client, Error, VERSIONED};
use crate::{
    Envelope, Problem,
    bulk::{BulkMember, BulkReport, BulkRequest},
};

/// What stands for a member in the path of a verb.
pub const MEMBER: &str = "{id}";

impl Client {
    /// Does a verb on many members, or says what it would do.
    ///
    /// # Errors
    /// As for every call; the refusal of a single member is in its item.
    pub async fn bulk(&self, request: &BulkRequest) -> Result<BulkReport, Error> {
        let this = Self { root: VERSIONED, ..self.clone() };
        let asked = this.http.post(this.url(&["bulk"], &[])).json(request);
        let asked = asked.header("idempotency-key", uuid::Uuid::now_v7().to_string());
        this.answer::<Envelope<_>>(asked).await.map(|answer| answer.data)
    }

    /// The same client, which changes each of these members only while it is at its version.
    #[must_use]
    pub fn at_versions(&self, versions: HashMap<String, i64>) -> Self {
        Self { versions: Some(Arc::new(versions)), ..self.clone() }
    }

    /// The version at which a member is changed.
    fn version_of(&self, id: &str) -> Option<i64> {
        self.versions.as_ref()?.get(id).copied()
    }

    /// Sends a change of a member whose version is known; nothing for any other change.
    pub(super) async fn sent_at<T: DeserializeOwned>(
        &self,
        method: &Method,
        segments: &[&str],
        body: &(impl Serialize + Sync),
    ) -> Option<Result<T, Error>> {
        let found = segments.iter().find_map(|segment| Some((*segment, self.version_of(segment)?)));
        let (id, version) = found?;
        Some(self.send_at(method, segments, body, id, version).await)
    }

    async fn send_at<T: DeserializeOwned>(
        &self,
        method: &Method,
        segments: &[&str],
        body: &(impl Serialize + Sync),
        id: &str,
        version: i64,
    ) -> Result<T, Error> {
        let body = serde_json::to_value(body).map_err(|error| Error::Setup(error.to_string()))?;
        let open: Vec<_> =
            segments.iter().map(|segment| if *segment == id { MEMBER } else { segment }).collect();
        let request = BulkRequest {
            method: method.to_string(),
            path: self.path(&open),
            body: Some(body).filter(|body| *body != Value::Null),
            members: vec![BulkMember { id: id.to_owned(), version: Some(version) }],
            answers: true,
            ..BulkRequest::default()
        };
        let item = self.bulk(&request).await?.items.pop();
        let item = item.ok_or_else(|| unexpected("there is no result for the member"))?;
        if let Some(problem) = item.problem {
            let asked = self.path(segments);
            return Err(Error::Problem(Box::new(Problem { asked, ..problem })));
        }
        serde_json::from_value(item.answer.unwrap_or_default())
            .map_err(|error| unexpected(&error.to_string()))
    }

    /// The whole path of a call.
    pub(super) fn path(&self, segments: &[&str]) -> String {
        let all = self.root.iter().chain(segments);
        all.map(|segment| format!("/{segment}")).collect()
    }
}

fn unexpected(detail: &str) -> Error {
    let detail = format!("the answer is not what this version expects ({detail})");
    Error::Unexpected { status: 200, detail }
}
