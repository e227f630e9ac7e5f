//! Asking to be enrolled, and asking what became of that: what a device does before it has a certificate.
//!
//! What must stay true: one device uses up one use of its token, in the commit that makes its request; a device that was
//! denied, revoked, decommissioned or deleted waits for a person, whatever the token says.

use axum::{
    Extension, Json,
    extract::State,
    response::{IntoResponse as _, Response},
};
use serde::Deserialize;
use utoipa::IntoParams;
use wardroom_api::device::{
    API_VERSION, Approval, EnrollmentRequest, EnrollmentRequestSpec, ListMetadata, ObjectList,
};
use wardroom_store::{Change, Content, Entry, Error as StoreError, List, Resource, attempts};

use super::{
    csr, document,
    request::{self, APPROVED, KIND, PENDING, RequestDocument, STATES},
    token::{self, TokenDocument, TokenHolder},
};
use crate::platform::{
    app::App,
    http::{
        body::Reported,
        error::Error,
        list::{self, ListQuery, label_selector, number},
        path::Path,
        problems::Problems,
        text,
    },
    identity::auth::Caller,
};

/// Asks to be enrolled. The same request again gets the same answer.
#[utoipa::path(
    post, path = "/api/v1/enrollmentrequests", operation_id = "create_enrollment_request",
    request_body = EnrollmentRequest, responses((status = 201, body = EnrollmentRequest), Problems)
)]
pub(crate) async fn create(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Reported { value: asked, ignored }: Reported<EnrollmentRequest>,
) -> Result<Response, Error> {
    let holder = caller.member::<TokenHolder>().ok_or(Error::Internal)?;
    let EnrollmentRequestSpec { csr, labels, device_status } = asked.spec;
    let name = csr::read("spec.csr", &csr)?.name();
    if asked.metadata.name != name {
        let message = format!("must be {name}: base32hex of the SHA-256 of the public key in the request");
        return Err(Error::invalid("metadata.name", message));
    }
    text::check_labels(&labels)?;
    if let Some(status) = &device_status {
        super::status::check("spec.deviceStatus", status)?;
    }
    let asked = Asked { app: &app, caller: &caller, holder, name: &name };
    let document = RequestDocument {
        csr,
        labels,
        token_labels: Default::default(),
        device_status,
        token: holder.id.clone(),
        approval: None,
        certificate: None,
        certificate_until: None,
    };
    let (made, status) = asked.make(&document).await?;
    let mut response = (status, Json(request::view(&made)?)).into_response();
    ignored.warn(&mut response);
    Ok(response)
}

struct Asked<'a> {
    app: &'a App,
    caller: &'a Caller,
    holder: &'a TokenHolder,
    name: &'a str,
}

impl Asked<'_> {
    async fn make(&self, document: &RequestDocument) -> Result<(Resource, axum::http::StatusCode), Error> {
        use axum::http::StatusCode;
        attempts(async || {
            let before = self.app.store.get(KIND, self.name).await?;
            if let Some(known) = before.as_ref().filter(|before| !before.content.deleted) {
                return self.known(known, document).map(|()| Some((known.clone(), StatusCode::OK)));
            }
            let device = self.app.store.get(document::KIND, self.name).await?;
            if device.as_ref().is_some_and(|device| !device.content.deleted) {
                let detail = format!("the device {:?} is enrolled: an operator deletes it first", self.name);
                return Err(Error::Conflict { code: "name_taken", detail, allowed: Vec::new() });
            }
            let changes = self.changes(before, device, document).await?;
            match self.app.commit_together(changes).await {
                Err(StoreError::Conflict) => Ok(None),
                Err(error) => Err(error.into()),
                Ok(made) => {
                    let made = made.into_iter().next().ok_or(Error::Internal)?;
                    Ok(Some((made, StatusCode::CREATED)))
                }
            }
        })
        .await
    }

    /// The request was made before. That may be a repeat by the device, or another device's with a copy of its key.
    fn known(&self, known: &Resource, document: &RequestDocument) -> Result<(), Error> {
        if RequestDocument::of(known)?.token == document.token {
            return Ok(());
        }
        let detail = format!(
            "there is a request of the device {:?} with another token: an operator deletes it first",
            self.name
        );
        Err(Error::Conflict { code: "name_taken", detail, allowed: Vec::new() })
    }

    /// The use of the token, the request, and the device if the token approves it.
    async fn changes(
        &self,
        before: Option<Resource>,
        device: Option<Resource>,
        document: &RequestDocument,
    ) -> Result<Vec<Change>, Error> {
        let (app, now) = (self.app, self.app.now());
        let token = app.store.get(token::KIND, &self.holder.id).await?;
        let token = token.filter(|token| !token.content.deleted);
        let token = token.ok_or_else(|| Error::not_found(token::KIND, &self.holder.id))?;
        let known = TokenDocument::of(&token)?;
        let mut document = RequestDocument { token_labels: known.labels.clone(), ..document.clone() };
        text::check_labels(&document.merged_labels())?;
        // A device that was here before waits for a person.
        let approves = known.auto_approve && before.is_none() && device.is_none();
        let mut signed = None;
        if approves {
            let certificate = request::sign(app, &document.public_key()?)?;
            document.certified(&certificate);
            document.approval = Some(Approval {
                approved: true,
                approved_by: self.holder.called.clone(),
                approved_at: Some(now),
                labels: Default::default(),
            });
            signed = Some(certificate);
        }
        let content = document.content(self.name, if approves { APPROVED } else { PENDING })?;
        let mut changes = vec![self.change(before, content, "registered")];
        if let Some(signed) = &signed {
            let content = request::enrolled(app, self.name, document.merged_labels(), signed)?;
            changes.push(self.change(device, content, "registered"));
        }
        let used = known.used_once(&token, now)?;
        changes.push(self.change(Some(token), used, "used"));
        Ok(changes)
    }

    fn change(&self, before: Option<Resource>, after: Content, entry_type: &str) -> Change {
        let entry = Entry {
            entry_type: entry_type.to_owned(),
            triggered_by: "agent_report".to_owned(),
            user_id: None,
            comment: None,
            metadata: serde_json::json!({"token": self.holder.id, "device": self.name}),
            request_id: Some(self.caller.request_id.to_string()),
            at: self.app.now(),
        };
        Change { before, after, entry, effects: Vec::new(), fence: None, holds: Vec::new() }
    }
}

/// Reads a request. With an enrolment token, only one that was made with it.
#[utoipa::path(
    get, path = "/api/v1/enrollmentrequests/{name}", operation_id = "get_enrollment_request",
    params(("name" = String, Path)), responses((status = 200, body = EnrollmentRequest), Problems)
)]
pub(crate) async fn get(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> Result<Json<EnrollmentRequest>, Error> {
    let found = app.store.get(KIND, &name).await?.filter(|found| !found.content.deleted);
    let found = found.ok_or_else(|| Error::not_found(KIND, &name))?;
    if let Some(holder) = caller.member::<TokenHolder>()
        && RequestDocument::of(&found)?.token != holder.id
    {
        return Err(Error::Forbidden("the request was made with another token".to_owned()));
    }
    request::view(&found).map(Json)
}

/// Which requests, and which page of them.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct RequestQuery {
    /// Only in this state: `Pending`, `Approved` or `Denied`.
    state: Option<String>,
    /// Labels, e.g. `site=berlin`.
    #[serde(rename = "labelSelector")]
    label_selector: Option<String>,
    /// Fields, e.g. `state=Pending,token=berlin`.
    #[serde(rename = "fieldSelector")]
    field_selector: Option<String>,
    /// How many at most: 1 to 1000, 100 unless told.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<String>,
    /// The cursor of the page before.
    #[serde(rename = "continue")]
    cursor: Option<String>,
}

/// Lists requests, in the order of their names.
#[utoipa::path(
    get, path = "/api/v1/enrollmentrequests", operation_id = "list_enrollment_requests", params(RequestQuery),
    responses((status = 200, body = ObjectList<EnrollmentRequest>), Problems)
)]
pub(crate) async fn list(
    State(app): State<App>,
    ListQuery(query): ListQuery<RequestQuery>,
) -> Result<Json<ObjectList<EnrollmentRequest>>, Error> {
    let fields = query.field_selector.as_deref();
    let mut fields = fields
        .map_or_else(|| Ok(Default::default()), |text| list::field_selector(text, &["state", "token"]))?;
    let state = query.state.or(fields.remove("state"));
    if let Some(unknown) = state.as_deref().filter(|state| !STATES.contains(state)) {
        return Err(Error::invalid("state", format!("{unknown:?} is not one of: {}", STATES.join(", "))));
    }
    let labels = query.label_selector.as_deref().map_or_else(|| Ok(Vec::new()), label_selector)?;
    let limit = number("limit", query.limit.as_deref(), 100, 1..=1000)?;
    let list =
        List { kind: KIND.to_owned(), state, fields, labels, after: query.cursor, limit, ..List::default() };
    let page = list::page(&app, list).await?;
    let items = page.items.iter().map(request::view).collect::<Result<_, _>>()?;
    Ok(Json(ObjectList {
        api_version: API_VERSION.to_owned(),
        kind: "EnrollmentRequestList".to_owned(),
        metadata: ListMetadata { next: page.next },
        items,
    }))
}
