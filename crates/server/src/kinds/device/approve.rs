//! Deciding on a request: the certificate, and the device with it.
//!
//! What must stay true: the decision, the certificate and the device are one commit. Approving again changes nothing, but
//! gives a device a new certificate whose certificate ended or was revoked: only a person brings such a device back.

use axum::{Extension, Json, extract::State, http::HeaderMap};
use wardroom_api::device::{Approval, EnrollmentApproval, EnrollmentRequest};
use wardroom_store::{Change, Content, Entry, Error as StoreError, Resource, TRANSITION, attempts};

use super::{
    document::{self, Document, Heard},
    identity::Identities,
    request::{self, APPROVED, DENIED, KIND, RequestDocument},
};
use crate::platform::{
    app::{App, Decided, by_person},
    http::{body::Body, error::Error, path::Path, problems::Problems, text},
    identity::auth::Caller,
};

/// Approves or denies the enrolment of a device.
#[utoipa::path(
    put, path = "/api/v1/enrollmentrequests/{name}/approval", operation_id = "decide_enrollment_request",
    request_body = EnrollmentApproval, params(("name" = String, Path)),
    responses((status = 200, body = EnrollmentRequest), Problems)
)]
pub(crate) async fn decide(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    Body(approval): Body<EnrollmentApproval>,
) -> Result<Json<EnrollmentRequest>, Error> {
    text::check_labels(&approval.labels)?;
    text::check_prose("comment", approval.comment.as_deref(), 2000)?;
    let decision = Decision { app: &app, caller: &caller, name: &name, asked: &approval };
    let request = attempts(async || decision.attempt().await).await?;
    // A certificate from before is void on every server.
    Identities::of(&app).settle().await;
    request::view(&request).map(Json)
}

struct Decision<'a> {
    app: &'a App,
    caller: &'a Caller,
    name: &'a str,
    asked: &'a EnrollmentApproval,
}

impl Decision<'_> {
    async fn attempt(&self) -> Result<Option<Resource>, Error> {
        let found = self.app.store.get(KIND, self.name).await?.filter(|found| !found.content.deleted);
        let before = found.ok_or_else(|| Error::not_found(KIND, self.name))?;
        let document = RequestDocument::of(&before)?;
        let changes = match self.asked.approved {
            true => self.approved(&before, document).await?,
            false => self.denied(&before, document)?,
        };
        if changes.is_empty() {
            return Ok(Some(before));
        }
        match self.app.commit_together(changes).await {
            Err(StoreError::Conflict) => Ok(None),
            Err(error) => Err(error.into()),
            Ok(made) => Ok(made.into_iter().next()),
        }
    }

    fn denied(&self, before: &Resource, mut document: RequestDocument) -> Result<Vec<Change>, Error> {
        match &*before.content.state {
            DENIED => Ok(Vec::new()),
            APPROVED => Err(Error::Conflict {
                code: "no_such_move",
                detail: format!(
                    "the device {:?} is enrolled: revoke or decommission the device instead",
                    self.name
                ),
                allowed: Vec::new(),
            }),
            _ => {
                document.approval = Some(self.approval(false));
                Ok(vec![self.change(Some(before.clone()), document.content(self.name, DENIED)?, TRANSITION)])
            }
        }
    }

    async fn approved(&self, before: &Resource, document: RequestDocument) -> Result<Vec<Change>, Error> {
        let device = self.app.store.get(document::KIND, self.name).await?;
        let living = device.as_ref().filter(|device| !device.content.deleted);
        let living = living.map(|device| Ok::<_, Error>((device, Document::of(device)?))).transpose()?;
        if let Some((_, known)) = &living {
            known.check_in_service(self.name)?;
            let is_valid = known.certificates.iter().any(|issued| self.app.now() < issued.until);
            if before.content.state == APPROVED && is_valid && !known.revoked {
                return Ok(Vec::new());
            }
        }
        let signed = request::sign(self.app, &document.public_key()?)?;
        let mut document = RequestDocument { approval: Some(self.approval(true)), ..document };
        document.certified(&signed);
        let labels = document.merged_labels();
        text::check_labels(&labels)?;
        let (after, entry_type) = match living {
            Some((device, known)) => {
                let known =
                    Document { certificates: vec![request::issued(&signed)], revoked: false, ..known };
                let labels = device.content.labels.clone();
                let heard = Heard::of(device);
                (known.into_content_of(device, labels, heard, self.app.now())?, "credential")
            }
            None => (request::enrolled(self.app, self.name, labels, &signed)?, "registered"),
        };
        Ok(vec![
            self.change(Some(before.clone()), document.content(self.name, APPROVED)?, TRANSITION),
            self.change(device, after, entry_type),
        ])
    }

    fn approval(&self, approved: bool) -> Approval {
        Approval {
            approved,
            approved_by: self.caller.name().to_owned(),
            approved_at: Some(self.app.now()),
            labels: if approved { self.asked.labels.clone() } else { Default::default() },
        }
    }

    fn change(&self, before: Option<Resource>, after: Content, entry_type: &str) -> Change {
        let entry: Entry = by_person(self.app, self.caller, entry_type, self.asked.comment.clone());
        Change { before, after, entry, effects: Vec::new(), fence: None, holds: Vec::new() }
    }
}

/// Deletes a request. A device that was enrolled by it stays; one that was denied may ask again, and waits for a person.
#[utoipa::path(
    delete, path = "/api/v1/enrollmentrequests/{name}", operation_id = "delete_enrollment_request",
    params(("name" = String, Path)), responses((status = 200, body = EnrollmentRequest), Problems)
)]
pub(crate) async fn delete(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Json<EnrollmentRequest>, Error> {
    let (request, ()) = app
        .change(KIND, &name, |request| {
            crate::platform::http::etag::check(&headers, || {
                crate::platform::http::etag::of(&(&request.content.id, request.version))
            })?;
            let content = Content { deleted: true, ..request.content.clone() };
            Ok(Decided::Commit(Box::new((content, by_person(&app, &caller, "deleted", None))), ()))
        })
        .await?;
    request::view(&request).map(Json)
}
