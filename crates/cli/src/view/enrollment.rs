//! Enrolment requests and enrolment tokens in columns.

use wardroom_api::{
    Page,
    action::Action,
    client::{Client, Query},
    device::{EnrollmentRequest, EnrollmentToken},
};

use super::{Resource, Selectable, View};
use crate::{
    kind::Kind,
    suggest::Words,
    table::{
        Column,
        Level::{Full, Narrow, Wide},
        column, labels, or_none,
    },
    text::{age, time},
};

impl View for EnrollmentRequest {
    #[rustfmt::skip]
    const COLUMNS: &'static [Column<Self>] = &[
        column("NAME",    Narrow, |request, _| request.metadata.name.clone()),
        column("STATE",   Narrow, |request, _| state(request).to_owned()),
        column("TOKEN",   Narrow, |request, _| or_none(request.status.as_ref().map(|status| &*status.token))),
        column("AGE",     Narrow, |request, now| or_none(request.metadata.creation_timestamp.map(|at| age(at, now)).as_deref())),
        column("LABELS",  Wide,   |request, _| labels(&request.metadata.labels)),
        column("BY",      Wide,   |request, _| or_none(decided_by(request))),
        column("CREATED", Full,   |request, _| or_none(request.metadata.creation_timestamp.map(time).as_deref())),
    ];

    const USUAL: &'static [usize] = &[52, 9, 10, 5];

    fn name(&self) -> String {
        format!("enrollmentrequest/{}", self.metadata.name)
    }
}

impl Resource for EnrollmentRequest {
    const KIND: Kind = Kind::EnrollmentRequest;
    const SELECTABLE: Selectable = Selectable::ByLabels;

    fn id(&self) -> &str {
        &self.metadata.name
    }

    async fn page(client: &Client, query: &Query) -> anyhow::Result<Page<Self>> {
        let state = query.state.as_ref().map(|state| format!("state={state}"));
        let fields = [state, query.field_selector.clone()];
        let fields = fields.into_iter().flatten().reduce(|all, one| format!("{all},{one}"));
        let query = Query { state: None, field_selector: fields, ..query.clone() };
        Ok(client.enrollment_requests(&query).await?)
    }

    async fn find(client: &Client, id: &str) -> anyhow::Result<Self> {
        Ok(client.enrollment_request(id).await?)
    }

    async fn delete(client: &Client, id: &str) -> anyhow::Result<()> {
        Ok(client.delete_enrollment_request(id).await.map(drop)?)
    }

    fn command(action: &Action, id: &str) -> Option<Words> {
        match &*action.action {
            verb @ ("approve" | "deny") => Some(Words::open(&["device", verb, id])),
            _ => None,
        }
    }
}

fn state(request: &EnrollmentRequest) -> &'static str {
    match request.status.as_ref().and_then(|status| status.approval.as_ref()) {
        None => "Pending",
        Some(approval) if approval.approved => "Approved",
        Some(_) => "Denied",
    }
}

fn decided_by(request: &EnrollmentRequest) -> Option<&str> {
    let approval = request.status.as_ref()?.approval.as_ref()?;
    Some(&approval.approved_by)
}

impl View for EnrollmentToken {
    #[rustfmt::skip]
    const COLUMNS: &'static [Column<Self>] = &[
        column("NAME",    Narrow, |token, _| token.name.clone()),
        column("USED",    Narrow, |token, _| format!("{}/{}", token.used, token.uses)),
        column("APPROVES", Narrow, |token, _| if token.auto_approve { "yes" } else { "no" }.to_owned()),
        column("EXPIRES", Narrow, |token, _| time(token.expires_at)),
        column("LABELS",  Wide,   |token, _| labels(&token.labels)),
        column("CREATED", Full,   |token, _| time(token.created_at)),
    ];

    fn name(&self) -> String {
        format!("enrollmenttoken/{}", self.name)
    }
}

impl Resource for EnrollmentToken {
    const KIND: Kind = Kind::EnrollmentToken;

    fn id(&self) -> &str {
        &self.name
    }

    async fn page(client: &Client, query: &Query) -> anyhow::Result<Page<Self>> {
        Ok(client.enrollment_tokens(query).await?)
    }

    async fn find(client: &Client, id: &str) -> anyhow::Result<Self> {
        Ok(client.enrollment_token(id).await?)
    }

    async fn delete(client: &Client, id: &str) -> anyhow::Result<()> {
        Ok(client.delete_enrollment_token(id).await.map(drop)?)
    }
}
